//! Parses SysEx bytes, and assesses their risk for the person who approves them.

use conductor_core::error::{Code, Subject, ToolError};
use serde_json::{Value, json};

/// Maximum number of bytes between F0 and F7. A bank of 32 voices has about 4 KB.
pub const MAX_BYTES: usize = 8192;

/// Reads integers and two-digit hex strings, mixed, with or without the enclosing F0 and F7. Bytes
/// out of range are refused.
pub fn parse(data: &[Value]) -> Result<Vec<u8>, ToolError> {
    let bad = |index: usize, why: String| {
        ToolError::new(Code::BadInput, format!("data[{index}]: {why}"))
            .subject(Subject::Argument(format!("/data/{index}")))
            .hint("Give bytes 0x00-0x7F as numbers or two hex digits; F0 and F7 are added automatically.")
    };
    let mut bytes = Vec::with_capacity(data.len());
    for (index, item) in data.iter().enumerate() {
        let byte = match item {
            Value::Number(number) => number.as_u64().and_then(|it| u8::try_from(it).ok()),
            Value::String(text) => {
                let digits = text.strip_prefix("0x").unwrap_or(text);
                (digits.len() == 2).then(|| u8::from_str_radix(digits, 16).ok()).flatten()
            }
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
        };
        bytes.push(byte.ok_or_else(|| bad(index, format!("{item} is not a byte")))?);
    }
    let first = usize::from(bytes.first() == Some(&0xF0));
    if first == 1 {
        bytes.remove(0);
    }
    if bytes.last() == Some(&0xF7) {
        bytes.pop();
    }
    if let Some(at) = bytes.iter().position(|it| *it > 0x7F) {
        return Err(bad(at + first, format!("{:#04x} is above 0x7F; SysEx contains only data bytes", bytes[at])));
    }
    match bytes.len() {
        0 => Err(bad(0, "there are no data bytes".into())),
        len if len > MAX_BYTES => {
            Err(bad(MAX_BYTES + first, format!("{len} data bytes are too many; at most {MAX_BYTES} are allowed")))
        }
        _ => Ok(bytes),
    }
}

/// The risk class of a message. It only informs the person and blocks nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Risk {
    pub level: &'static str,
    pub category: &'static str,
    pub description: &'static str,
    pub reversible: bool,
}

pub fn assess(body: &[u8]) -> Risk {
    let risk = |level, category, description, reversible| Risk { level, category, description, reversible };
    match body {
        [0x7E, _, 0x06, 0x01, ..] => risk("low", "identity_request", "requests the identity of a device", true),
        [0x7F, _, 0x06, ..] => risk("medium", "machine_control", "starts, stops or records on a machine", false),
        [0x7F, ..] => risk("medium", "universal_realtime", "changes how a device plays right now", false),
        [0x7E, _, 0x01..=0x03 | 0x07, ..] => {
            risk("high", "sample_or_file_dump", "writes samples or files into a device", false)
        }
        [0x7E, ..] => risk("medium", "universal_non_realtime", "changes tuning or General MIDI settings", false),
        body if manufacturer_body(body) > 255 => risk(
            "critical",
            "manufacturer_bulk",
            "writes the manufacturer's bulk data; may replace a patch bank or firmware",
            false,
        ),
        _ => risk("high", "manufacturer", "has an effect that only the manufacturer knows", false),
    }
}

/// Number of bytes after the manufacturer's id, which is one byte, or 00 and two more bytes.
fn manufacturer_body(body: &[u8]) -> usize {
    body.len().saturating_sub(if body.first() == Some(&0) { 3 } else { 1 })
}

/// The id of the manufacturer, and the name for common ones. The MIDI Association assigns the ids.
pub fn maker(body: &[u8]) -> (String, &'static str) {
    let id = match body {
        [0, second, third, ..] => format!("00 {second:02X} {third:02X}"),
        [first, ..] => format!("{first:02X}"),
        [] => String::new(),
    };
    let name = match id.as_str() {
        "01" => "Sequential",
        "04" => "Moog",
        "06" => "Lexicon",
        "07" => "Kurzweil",
        "0F" => "Ensoniq",
        "10" => "Oberheim",
        "18" => "E-mu",
        "3E" => "Waldorf",
        "40" => "Kawai",
        "41" => "Roland",
        "42" => "Korg",
        "43" => "Yamaha",
        "44" => "Casio",
        "47" => "Akai",
        "4C" => "Sony",
        "7D" => "non-commercial",
        "7E" => "universal non-realtime",
        "7F" => "universal realtime",
        "00 20 29" => "Focusrite/Novation",
        "00 20 32" => "Behringer",
        "00 20 33" => "Access",
        "00 20 3C" => "Elektron",
        "00 20 6B" => "Arturia",
        "00 21 09" => "Native Instruments",
        _ => "unknown maker",
    };
    (id, name)
}

pub fn risk_json(risk: Risk) -> Value {
    let mut warnings = Vec::new();
    if !risk.reversible {
        warnings.push("Conductor cannot undo the effect on a device.");
    }
    if risk.level == "critical" {
        warnings.push("Do not switch the device off while it receives data.");
    }
    json!({
        "level": risk.level, "category": risk.category, "description": risk.description, "warnings": warnings,
        "reversible": risk.reversible,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(data: Value) -> Result<Vec<u8>, ToolError> {
        parse(data.as_array().unwrap())
    }

    #[test]
    fn integers_and_hex_mix_and_the_frame_is_optional() {
        assert_eq!(read(json!([240, "7E", "0x7f", 6, "01", "F7"])).unwrap(), [0x7E, 0x7F, 6, 1]);
        assert_eq!(read(json!([0x7E, 0x7F, 6, 1])).unwrap(), [0x7E, 0x7F, 6, 1]);
    }

    #[test]
    fn nothing_is_cut_to_fit() {
        let says = |data: Value| read(data).unwrap_err().message;
        assert!(says(json!([1, 0x80])).starts_with("data[1]: 0x80"));
        assert!(says(json!([0xF0, 1, 0x80, 0xF7])).starts_with("data[2]: 0x80"), "the leading F0 is not counted");
        assert!(says(json!([0xF0, 0xF7])).contains("no data bytes"));
        assert!(says(json!([0xF0, 0xF0, 1])).contains("0xf0"), "more than one leading F0 was removed");
        assert_eq!(read(json!(vec![1; MAX_BYTES])).unwrap().len(), MAX_BYTES);
        assert!(says(json!(vec![1; MAX_BYTES + 1])).contains("at most 8192"));
    }

    #[test]
    fn every_row_of_the_table() {
        let long = [&[0x41][..], &[0; 256]].concat();
        let bank = [&[0x00, 0x20, 0x29][..], &[0; 255]].concat();
        let cases: [(&[u8], &str, &str, bool); 10] = [
            (&[0x7E, 0x7F, 6, 1], "identity_request", "low", true),
            (&[0x7F, 0, 6, 2], "machine_control", "medium", false),
            (&[0x7F, 0, 4, 1], "universal_realtime", "medium", false),
            (&[0x7E, 0, 1], "sample_or_file_dump", "high", false),
            (&[0x7E, 0, 3], "sample_or_file_dump", "high", false),
            (&[0x7E, 0, 7, 1], "sample_or_file_dump", "high", false),
            (&[0x7E, 0, 9, 1], "universal_non_realtime", "medium", false),
            (&[0x41, 1, 2], "manufacturer", "high", false),
            (&long, "manufacturer_bulk", "critical", false),
            (&bank, "manufacturer", "high", false),
        ];
        for (body, category, level, reversible) in cases {
            let risk = assess(body);
            assert_eq!((risk.category, risk.level, risk.reversible), (category, level, reversible), "{body:02x?}");
        }
        assert_eq!(maker(&[0x00, 0x20, 0x29, 2]), ("00 20 29".into(), "Focusrite/Novation"));
    }
}
