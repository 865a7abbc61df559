//! Reads and writes the `.amxd` frame: the header before the patch's JSON and the directory after
//! it.
//!
//! A save updates only the lengths and offsets that depend on the length of the JSON. All other
//! bytes stay unchanged.

use std::ops::Range;

/// Number of bytes before the JSON text.
const HEADER: usize = 36;
/// Offsets in the directory are counted from this position in the file.
const BASE: usize = 20;

/// The positions of the parts of an opened device.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    /// The JSON text without its NUL.
    pub(crate) json: Range<usize>,
    /// Positions of the `sz32` and `of32` values to update, with their old values.
    sizes: Vec<(usize, u32)>,
    offsets: Vec<(usize, u32)>,
    /// Why the device is read-only: its lengths or offsets are inconsistent.
    pub(crate) read_only: Option<&'static str>,
}

/// Why the bytes are not a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AmxdError {
    /// The file does not start with the header of a device.
    #[error("not an .amxd file: it does not start with the header of a Max for Live device")]
    Header,
    /// The header states a JSON length that does not fit the file.
    #[error("the header states a JSON length of {stated} bytes, which does not fit the {held} bytes after the header")]
    Length {
        /// Length in the header.
        stated: usize,
        /// Number of bytes after the header.
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
        // The stated length includes the final NUL in some files and excludes it in others.
        if end > HEADER && bytes.get(end - 1) == Some(&0) {
            end -= 1;
        }
        let mut frame = Frame { json: HEADER..end, sizes: Vec::new(), offsets: Vec::new(), read_only: None };
        if total as usize != bytes.len() - BASE {
            frame.read_only = Some("the length in the header differs from the length of the file");
        } else if let Err(reason) = frame.directory(bytes, HEADER + stated) {
            frame.read_only = Some(reason);
        }
        Ok(frame)
    }

    /// Reads `dlst` and its `dire` entries. Sizes are big-endian and include their 8-byte headers.
    fn directory(&mut self, bytes: &[u8], json_end: usize) -> Result<(), &'static str> {
        // A frozen device stores its other files between the JSON and the directory.
        let Some(from) = bytes
            .get(json_end..)
            .and_then(|rest| rest.windows(4).rposition(|name| name == b"dlst"))
            .map(|at| json_end + at)
        else {
            return if json_end == bytes.len() { Ok(()) } else { Err("there is no dlst directory") };
        };
        let size = big(bytes, from + 4).ok_or("the directory is truncated")? as usize;
        if from + size != bytes.len() {
            return Err("the directory does not end at the end of the file");
        }
        let mut at = from + 8;
        let mut patch_entries = 0;
        let mut expected = 16 + (json_end - HEADER);
        while at < bytes.len() {
            let size = big(bytes, at + 4).ok_or("a directory entry is truncated")? as usize;
            if word(bytes, at) != Some(*b"dire") || size < 8 || at + size > bytes.len() {
                return Err("a directory entry is invalid");
            }
            let (mut length, mut offset) = (None, None);
            let mut field = at + 8;
            while field < at + size {
                let field_size = big(bytes, field + 4).ok_or("a directory field is truncated")? as usize;
                if field_size < 8 || field + field_size > at + size {
                    return Err("a directory field is invalid");
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
                return Err("a directory entry has no size or no offset");
            };
            if offset.1 == 16 {
                patch_entries += 1;
                if length.1 as usize != json_end - HEADER {
                    return Err("the sizes of the patch in the directory and in the header differ");
                }
                self.sizes.push(length);
            } else {
                if (offset.1 as usize) < expected {
                    return Err("directory entries overlap");
                }
                expected = offset.1 as usize + length.1 as usize;
                if BASE + expected > from {
                    return Err("a directory entry overlaps the directory");
                }
                self.offsets.push(offset);
            }
            at += size;
        }
        if patch_entries == 1 { Ok(()) } else { Err("the directory does not have exactly one entry for the patch") }
    }

    /// Returns the bytes of the device with its JSON replaced by `json`.
    pub(crate) fn write(&self, source: &[u8], json: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(source.len() - self.json.len() + json.len());
        out.extend_from_slice(source.get(..self.json.start).unwrap_or_default());
        out.extend_from_slice(json);
        out.extend_from_slice(source.get(self.json.end..).unwrap_or_default());
        if json.len() == self.json.len() {
            return out;
        }
        // Wrapping arithmetic also handles a shorter JSON, for which the growth is negative.
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
            // The directory follows the JSON, so its position changed by `growth` too.
            put(at.wrapping_add_signed(growth as i32 as isize), value.wrapping_add(growth).to_be_bytes());
        }
        out
    }
}
