//! JSON formats of values. Whole numbers are written without a fraction, as clients expect.

use serde::Serializer;

// Above this value a float cannot represent every whole number, so larger numbers are written as
// floats.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// Writes a number; a whole number has no fraction.
///
/// # Errors
/// The error of the serializer.
pub fn number<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    if value.fract() == 0.0 && value.abs() < EXACT {
        #[expect(clippy::cast_possible_truncation, reason = "checked to be whole and within range")]
        serializer.serialize_i64(*value as i64)
    } else {
        serializer.serialize_f64(*value)
    }
}

pub(crate) fn optional<S: Serializer>(value: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => number(value, serializer),
        None => serializer.serialize_none(),
    }
}
