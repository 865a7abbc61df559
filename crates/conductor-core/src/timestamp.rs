//! A wall-clock time in milliseconds, and its RFC 3339 form.
//!
//! Not here: reading a clock, time zones, leap seconds, monotonic time.

use std::fmt;
use std::str::FromStr;

use crate::named_enum::serde_as_text;

/// Milliseconds since 1970-01-01T00:00:00Z. The text form is `2026-01-02T03:04:05.678Z`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, schemars::JsonSchema)]
#[schemars(with = "String", description = "UTC time", extend("format" = "date-time"))]
pub struct Timestamp(u64);

const DAY_MS: u64 = 86_400_000;
/// 9999-12-31T23:59:59.999Z; RFC 3339 has no five-digit years.
const LAST_MS: u64 = 253_402_300_799_999;

impl Timestamp {
    /// Times after the year 9999 have no RFC 3339 form and become the last millisecond of 9999.
    pub const fn from_millis(ms: u64) -> Self {
        Self(if ms > LAST_MS { LAST_MS } else { ms })
    }

    /// Milliseconds since 1970-01-01T00:00:00Z.
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// Adds milliseconds; the result is at most the last millisecond of the year 9999.
    #[must_use]
    pub const fn plus_millis(self, ms: u64) -> Self {
        Self::from_millis(self.0.saturating_add(ms))
    }

    /// Milliseconds since `earlier`; 0 if `earlier` is later than `self`, because wall clocks can
    /// be set back.
    pub const fn millis_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// The 24 bytes of the RFC 3339 form, without an allocation.
    pub fn to_bytes(self) -> [u8; 24] {
        let (year, month, day) = civil_from_days(self.0 / DAY_MS);
        let ms = self.0 % DAY_MS;
        let mut out = *b"0000-00-00T00:00:00.000Z";
        let mut put = |at: usize, width: usize, mut value: u64| {
            for slot in out[at..at + width].iter_mut().rev() {
                *slot = b'0' + (value % 10) as u8;
                value /= 10;
            }
        };
        put(0, 4, year);
        put(5, 2, month);
        put(8, 2, day);
        put(11, 2, ms / 3_600_000);
        put(14, 2, ms / 60_000 % 60);
        put(17, 2, ms / 1000 % 60);
        put(20, 3, ms % 1000);
        out
    }
}

// Both conversions start the year in March, so that the leap day is its last day. See Howard
// Hinnant, "chrono-Compatible Low-Level Date Algorithms".
fn civil_from_days(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

fn days_from_civil(year: u64, month: u64, day: u64) -> u64 {
    let year = year - u64::from(month <= 2);
    let year_of_era = year % 400;
    let march_month = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * march_month + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    (year / 400) * 146_097 + day_of_era - 719_468
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for byte in self.to_bytes() {
            fmt::Write::write_char(f, char::from(byte))?;
        }
        Ok(())
    }
}

/// The text is not a time. Contains its first 64 characters.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a UTC time such as 2026-01-02T03:04:05Z: {0:?}")]
pub struct NotATime(pub String);

impl FromStr for Timestamp {
    type Err = NotATime;

    /// Accepts `YYYY-MM-DD`, and `YYYY-MM-DDTHH:MM:SS[.fraction]Z`; digits past the millisecond are
    /// dropped.
    fn from_str(text: &str) -> Result<Self, NotATime> {
        parse(text.as_bytes()).ok_or_else(|| NotATime(text.chars().take(64).collect()))
    }
}

fn parse(text: &[u8]) -> Option<Timestamp> {
    let number = |from: usize, width: usize| -> Option<u64> {
        text.get(from..from + width)?
            .iter()
            .try_fold(0, |sum, byte| byte.is_ascii_digit().then(|| sum * 10 + u64::from(byte - b'0')))
    };
    let is = |at: usize, byte: u8| text.get(at) == Some(&byte);
    let (year, month, day) = (number(0, 4)?, number(5, 2)?, number(8, 2)?);
    if !is(4, b'-') || !is(7, b'-') || year < 1970 || !(1..=12).contains(&month) || day < 1 {
        return None;
    }
    let days = days_from_civil(year, month, day);
    // Refuse a day that the month does not have, such as February 30.
    if civil_from_days(days) != (year, month, day) {
        return None;
    }
    if text.len() == 10 {
        return Some(Timestamp(days * DAY_MS));
    }
    let (hour, minute, second) = (number(11, 2)?, number(14, 2)?, number(17, 2)?);
    let ok = (is(10, b'T') || is(10, b't')) && is(13, b':') && is(16, b':') && hour < 24 && minute < 60 && second < 60;
    let (last, fraction) = text.get(19..)?.split_last()?;
    if !ok || !matches!(last, b'Z' | b'z') {
        return None;
    }
    let mut ms = 0;
    if let Some((dot, digits)) = fraction.split_first() {
        if *dot != b'.' || digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
            return None;
        }
        for place in 0..3 {
            ms = ms * 10 + u64::from(digits.get(place).map_or(0, |digit| digit - b'0'));
        }
    }
    Some(Timestamp(days * DAY_MS + ((hour * 60 + minute) * 60 + second) * 1000 + ms))
}

serde_as_text!(Timestamp);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_times() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_767_323_045_000, "2026-01-02T03:04:05.000Z"),
            (4_107_542_399_999, "2100-02-28T23:59:59.999Z"),
            (LAST_MS, "9999-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(Timestamp::from_millis(ms).to_string(), text);
            assert_eq!(text.parse(), Ok(Timestamp::from_millis(ms)));
        }
        assert_eq!(Timestamp::from_millis(u64::MAX).to_string(), "9999-12-31T23:59:59.999Z");
        assert_eq!("2026-01-02".parse(), Ok(Timestamp::from_millis(1_767_312_000_000)));
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in [
            "",
            "2026",
            "2026-02-29",
            "2026-13-01",
            "2026-01-02T24:00:00Z",
            "2026-01-02T03:04:05",
            "2026-01-02T03:04:05.Z",
            "2026-01-02T03:04:05+02:00",
            "1969-12-31T23:59:59Z",
            "２０２６-01-02",
        ] {
            assert!(text.parse::<Timestamp>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn text_and_back(ms in 0..=LAST_MS) {
            let time = Timestamp::from_millis(ms);
            prop_assert_eq!(time.to_string().parse(), Ok(time));
        }

        #[test]
        fn nothing_panics(text in ".{0,40}") {
            let _ = text.parse::<Timestamp>();
        }
    }
}
