//! `filesystem.read`: reads a file, or a part of one.

use super::{Asked, At, Encoding, over};
use crate::prelude::*;
use crate::truncate::{fit, room};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use conductor_core::timestamp::Timestamp;
use conductor_hosts::files::Files;

/// Largest value of `limit`.
const MOST: u64 = 1 << 20;
/// Value of `limit` if it is absent.
const USUAL: u64 = 256 * 1024;

#[derive(Deserialize, JsonSchema)]
struct Args {
    #[serde(flatten)]
    at: At,
    /// In bytes
    #[serde(default)]
    offset: u64,
    /// In bytes
    #[schemars(range(min = 1, max = MOST))]
    limit: Option<u64>,
    /// How the content is returned
    #[serde(default)]
    encoding: Encoding,
}

#[derive(Serialize, JsonSchema)]
struct Answer {
    /// Relative to the root
    path: String,
    /// Bytes of the whole file
    size: u64,
    /// Hash of the whole file; null for a large file
    hash: Option<String>,
    /// Time of the last change
    mtime: Timestamp,
    /// Encoding of `content`
    encoding: Encoding,
    /// The content, from `offset` on
    content: String,
    /// Whether the file has more content after this
    truncated: bool,
}

pub fn definition(files: &Arc<Files>) -> Definition {
    over("filesystem.read", Tier::ReadOnly, files, run)
        .text(
            "Read file",
            "Reads a file under a granted folder: up to 256 KiB, or `limit` bytes from `offset`. `hash` is the hash of the whole file; pass \
             it as expected_hash to change exactly this version. Content that is not text is returned as base64.",
        )
}

fn run(asked: &Asked<Args>) -> Result<Answer, ToolError> {
    let Args { at, offset, limit, encoding } = &asked.args;
    let place = at.place(&asked.files)?;
    let room = room(&asked.cx.studio, asked.cx.clearance.tool().max_result_bytes);
    let most = match encoding {
        Encoding::Utf8 => room,
        Encoding::Base64 => room / 4 * 3,
    };
    let limit = limit.unwrap_or(USUAL).min(most as u64);
    // The scrubber can only replace complete secrets, so also read the bytes before and after the
    // piece.
    let scrubber = &asked.cx.studio.scrubber;
    let around = scrubber.longest() as u64;
    let before = around.min(*offset);
    let slice = place.read(offset - before, before + limit + around)?;
    let piece = before as usize..slice.bytes.len().min((before + limit) as usize);
    let mut truncated = offset + (piece.len() as u64) < slice.size;
    let bytes = scrubber.piece(&slice.bytes, piece);
    let content = match encoding {
        Encoding::Utf8 => whole_characters(bytes.into_owned(), *offset > 0 || truncated).ok_or_else(|| {
            ToolError::new(Code::WrongType, format!("{} is not UTF-8 text", place.inside()))
                .hint("Read it with encoding base64.")
                .subject(Subject::Other(at.path.clone()))
        })?,
        Encoding::Base64 => STANDARD.encode(&bytes),
    };
    // The escaped text may be longer than the bytes of the file.
    let (content, cut) = fit(&content, room);
    truncated |= cut;
    Ok(Answer {
        path: place.inside(),
        size: slice.size,
        hash: slice.hash.map(|it| it.to_string()),
        mtime: Timestamp::from_millis(u64::try_from(slice.modified_ms).unwrap_or(0)),
        encoding: *encoding,
        content: content.to_owned(),
        truncated,
    })
}

/// Decodes a piece without the partial characters at its ends.
fn whole_characters(bytes: Vec<u8>, is_part: bool) -> Option<String> {
    match String::from_utf8(bytes) {
        Ok(text) => Some(text),
        Err(fault) if is_part => {
            let bytes = fault.into_bytes();
            let start = bytes.iter().take(3).take_while(|it| (**it & 0xC0) == 0x80).count();
            let rest = bytes.get(start..)?;
            let text = match std::str::from_utf8(rest) {
                Ok(text) => text,
                // Only the last character may be incomplete.
                Err(torn) if torn.error_len().is_none() => std::str::from_utf8(rest.get(..torn.valid_up_to())?).ok()?,
                Err(_) => return None,
            };
            Some(text.to_owned())
        }
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn torn_characters_at_the_ends_are_left_out_and_others_are_no_text() {
        let bytes = "aäöb".as_bytes();
        assert_eq!(whole_characters(bytes[2..4].to_vec(), true).as_deref(), Some(""));
        assert_eq!(whole_characters(bytes[2..6].to_vec(), true).as_deref(), Some("öb"));
        assert_eq!(whole_characters(bytes[..4].to_vec(), true).as_deref(), Some("aä"));
        assert_eq!(whole_characters(bytes[..4].to_vec(), false), None);
        assert_eq!(whole_characters(vec![b'a', 0xff, b'b'], true), None);
    }
}
