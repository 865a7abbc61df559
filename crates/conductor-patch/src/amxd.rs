//! Reads and writes the `.amxd` frame: the header before a patch's JSON and the directory after it.
//!
//! Only lengths and offsets that follow from the JSON's length are refreshed on save; every other
//! byte stays.

use std::ops::Range;

/// Bytes before the JSON text.
const HEADER: usize = 36;
/// Offsets in the directory count from this place of the file.
const BASE: usize = 20;

/// The offsets of an opened device.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    /// The JSON text without its NUL.
    pub(crate) json: Range<usize>,
    /// Places of `sz32` and `of32` values to refresh, with their old values.
    sizes: Vec<(usize, u32)>,
    offsets: Vec<(usize, u32)>,
    /// Why the device cannot be written, when its numbers do not add up.
    pub(crate) read_only: Option<&'static str>,
}

/// Why the bytes are not a device at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AmxdError {
    /// The first bytes are not those of a device.
    #[error("not an .amxd file: the header does not start with `ampf` and hold `mx@c`")]
    Header,
    /// The stated length of the JSON leads out of the file.
    #[error("the header says the JSON has {stated} bytes, the file holds {held}")]
    Length {
        /// Length in the header.
        stated: usize,
        /// Bytes behind the header.
        held: usize,
    },
}

fn word(bytes: &[u8], at: usize) -> Option<[u8; 4]> {
    bytes.get(at..at + 4)?.try_into().ok()
}

fn big(bytes: &[u8], at: usize) -> Option<u32> {
    word(bytes, at).map(u32::from_be_bytes)
}

impl Frame {
    pub(crate) fn read(bytes: &[u8]) -> Result<Frame, AmxdError> {
        let starts =
            bytes.starts_with(b"ampf") && word(bytes, 12) == Some(*b"ptch") && word(bytes, 20) == Some(*b"mx@c");
        let (true, Some(total), Some(16), Some(stated)) =
            (starts, word(bytes, 16).map(u32::from_le_bytes), big(bytes, 24), big(bytes, 32))
        else {
            return Err(AmxdError::Header);
        };
        let held = bytes.len() - HEADER;
        let stated = (stated as usize).checked_sub(16).ok_or(AmxdError::Length { stated: stated as usize, held })?;
        if stated > held {
            return Err(AmxdError::Length { stated, held });
        }
        let mut end = HEADER + stated;
        // Some writers do not count the NUL; the bytes are copied in both cases.
        if end > HEADER && bytes.get(end - 1) == Some(&0) {
            end -= 1;
        }
        let mut frame = Frame { json: HEADER..end, sizes: Vec::new(), offsets: Vec::new(), read_only: None };
        if total as usize != bytes.len() - BASE {
            frame.read_only = Some("the length in the header is not the file's");
        } else if let Err(reason) = frame.directory(bytes, HEADER + stated) {
            frame.read_only = Some(reason);
        }
        Ok(frame)
    }

    /// Walks `dlst` and its `dire` entries. Sizes are big-endian and count their 8-byte headers.
    fn directory(&mut self, bytes: &[u8], json_end: usize) -> Result<(), &'static str> {
        // A frozen device keeps its other files between the JSON and the directory.
        let Some(from) = bytes
            .get(json_end..)
            .and_then(|rest| rest.windows(4).rposition(|name| name == b"dlst"))
            .map(|at| json_end + at)
        else {
            return if json_end == bytes.len() { Ok(()) } else { Err("there is no dlst directory") };
        };
        let size = big(bytes, from + 4).ok_or("the directory is cut")? as usize;
        if from + size != bytes.len() {
            return Err("the directory's size does not reach the end of the file");
        }
        let mut at = from + 8;
        let mut patch_entries = 0;
        let mut expected = 16 + (json_end - HEADER);
        while at < bytes.len() {
            let size = big(bytes, at + 4).ok_or("an entry is cut")? as usize;
            if word(bytes, at) != Some(*b"dire") || size < 8 || at + size > bytes.len() {
                return Err("an entry of the directory is broken");
            }
            let (mut length, mut offset) = (None, None);
            let mut field = at + 8;
            while field < at + size {
                let field_size = big(bytes, field + 4).ok_or("a field is cut")? as usize;
                if field_size < 8 || field + field_size > at + size {
                    return Err("a field of the directory is broken");
                }
                match word(bytes, field) {
                    Some(name) if name == *b"sz32" && field_size == 12 => {
                        length = big(bytes, field + 8).map(|v| (field + 8, v))
                    }
                    Some(name) if name == *b"of32" && field_size == 12 => {
                        offset = big(bytes, field + 8).map(|v| (field + 8, v))
                    }
                    Some(_) | None => {}
                }
                field += field_size;
            }
            let (Some(length), Some(offset)) = (length, offset) else {
                return Err("an entry without a size or an offset");
            };
            if offset.1 == 16 {
                patch_entries += 1;
                if length.1 as usize != json_end - HEADER {
                    return Err("the entry of the patch states another size than the header");
                }
                self.sizes.push(length);
            } else {
                if (offset.1 as usize) < expected {
                    return Err("the offsets of the entries do not add up");
                }
                expected = offset.1 as usize + length.1 as usize;
                if BASE + expected > from {
                    return Err("an entry leads into the directory");
                }
                self.offsets.push(offset);
            }
            at += size;
        }
        if patch_entries == 1 { Ok(()) } else { Err("not exactly one entry of the directory is the patch") }
    }

    /// The device with `json` in place of the opened one.
    pub(crate) fn write(&self, source: &[u8], json: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(source.len() - self.json.len() + json.len());
        out.extend_from_slice(source.get(..self.json.start).unwrap_or_default());
        out.extend_from_slice(json);
        out.extend_from_slice(source.get(self.json.end..).unwrap_or_default());
        if json.len() == self.json.len() {
            return out;
        }
        // Wrapping arithmetic handles both growth and shrinkage.
        let growth = (json.len() as u32).wrapping_sub(self.json.len() as u32);
        let mut put = |at: usize, value: [u8; 4]| {
            if let Some(place) = out.get_mut(at..at + 4) {
                place.copy_from_slice(&value);
            }
        };
        let total = word(source, 16).map_or(0, u32::from_le_bytes);
        put(16, total.wrapping_add(growth).to_le_bytes());
        put(32, big(source, 32).unwrap_or(0).wrapping_add(growth).to_be_bytes());
        for (at, value) in self.sizes.iter().chain(&self.offsets) {
            // The directory moved with the growth as well.
            put(at.wrapping_add_signed(growth as i32 as isize), value.wrapping_add(growth).to_be_bytes());
        }
        out
    }
}
