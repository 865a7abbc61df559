//! Resource addresses (`ableton://…`). Not here: reading the resource.

use crate::error::LiveError;
use crate::path::{PathId, TrackPart};
use std::fmt::Write as _;

/// The resource that an address names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource {
    /// `ableton://song`
    Song,
    /// `ableton://track/{i}`
    Track(PathId),
    /// `ableton://clip/{path}/notes`
    ClipNotes(PathId),
    /// `ableton://sets`
    Sets,
}

/// An address: a resource, and its Set if it is not the current one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// The resource that the address names.
    pub resource: Resource,
    /// The value of `?set=`.
    pub set: Option<String>,
}

/// Decodes percent-encoding; `None` when an escape is invalid or the bytes are not UTF-8.
fn decode(segment: &str) -> Option<String> {
    let mut out = Vec::with_capacity(segment.len());
    let mut bytes = segment.bytes();
    while let Some(b) = bytes.next() {
        if b == b'%' {
            let hex = [bytes.next()?, bytes.next()?];
            let text = std::str::from_utf8(&hex).ok().filter(|t| t.bytes().all(|b| b.is_ascii_hexdigit()))?;
            out.push(u8::from_str_radix(text, 16).ok()?);
        } else {
            out.push(b);
        }
    }
    String::from_utf8(out).ok()
}

fn encode(text: &str) -> String {
    let mut out = String::new();
    for b in text.bytes() {
        if b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b'~') {
            out.push(char::from(b));
        } else {
            let _ = write!(out, "%{b:02X}");
        }
    }
    out
}

impl Resource {
    /// The resources whose content a write changed. `changed` lists the objects that the write
    /// changed.
    pub fn touched_by(changed: &[PathId], tracks: u32, shifted: bool) -> Vec<Resource> {
        let mut touched = vec![];
        let mut add = |r: Resource| {
            if !touched.contains(&r) {
                touched.push(r);
            }
        };
        // The overview contains the revision, which every write changes.
        add(Resource::Song);
        if shifted {
            (0..tracks).for_each(|n| add(Resource::Track(PathId::Track(n))));
        }
        for path in changed {
            if let Some(n) = path.track() {
                add(Resource::Track(PathId::Track(n)));
            }
            if let PathId::OnTrack(_, TrackPart::Clip(_) | TrackPart::SlotClip(_)) = path {
                add(Resource::ClipNotes(*path));
            }
        }
        touched
    }

    /// The address of this resource in the current Set.
    pub fn uri(&self) -> String {
        match self {
            Resource::Song => "ableton://song".into(),
            Resource::Track(PathId::Track(n)) => format!("ableton://track/{n}"),
            Resource::Track(path) => format!("ableton://track/{}", encode(&path.to_string())),
            Resource::ClipNotes(path) => format!("ableton://clip/{}/notes", encode(&path.to_string())),
            Resource::Sets => "ableton://sets".into(),
        }
    }
}

impl Address {
    /// Parses an address. `None` when no resource has this form; an error when the path in the
    /// address is invalid.
    pub fn parse(uri: &str) -> Option<Result<Address, LiveError>> {
        let (body, query) = uri.split_once('?').map_or((uri, None), |(b, q)| (b, Some(q)));
        let set = match query {
            None => None,
            Some(q) => Some(decode(q.strip_prefix("set=")?).filter(|s| !s.is_empty())?),
        };
        let parts: Vec<&str> = body.strip_prefix("ableton://")?.split('/').collect();
        let bad = |text: &str| LiveError::BadPath {
            text: text.chars().take(200).collect(),
            reason: "invalid percent-encoding",
        };
        let resource = match parts.as_slice() {
            ["song"] => Ok(Resource::Song),
            ["sets"] => Ok(Resource::Sets),
            ["track", i] => format!("track:{i}").parse().map(Resource::Track),
            ["clip", path, "notes"] => {
                decode(path).ok_or_else(|| bad(path)).and_then(|p| p.parse()).map(Resource::ClipNotes)
            }
            _ => return None,
        };
        Some(resource.map(|resource| Address { resource, set }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clip_path_is_one_percent_encoded_segment() {
        let clip: PathId = "track:0/clipslot:0/clip".parse().expect("path");
        let uri = Resource::ClipNotes(clip).uri();
        assert_eq!(uri, "ableton://clip/track%3A0%2Fclipslot%3A0%2Fclip/notes");
        let read = Address::parse(&uri).expect("shape").expect("path");
        assert_eq!(read, Address { resource: Resource::ClipNotes(clip), set: None });
        let lower =
            Address::parse("ableton://clip/track%3a0%2fclip%3a1/notes?set=demo_a7f2").expect("shape").expect("path");
        assert_eq!(lower.set.as_deref(), Some("demo_a7f2"));
    }

    #[test]
    fn a_write_touches_what_shows_it() {
        let clip: PathId = "track:1/clip:0".parse().expect("path");
        let uris = |shifted| {
            Resource::touched_by(&[clip, PathId::Main], 3, shifted).iter().map(Resource::uri).collect::<Vec<_>>()
        };
        assert_eq!(uris(false), ["ableton://song", "ableton://track/1", "ableton://clip/track%3A1%2Fclip%3A0/notes"]);
        assert_eq!(uris(true).len(), 5);
    }

    #[test]
    fn raw_slashes_do_not_match_and_bad_paths_are_refused() {
        assert!(Address::parse("ableton://clip/track:0/clipslot:0/clip/notes").is_none());
        assert!(Address::parse("ableton://nope").is_none());
        assert!(Address::parse("ableton://song/x").is_none());
        for bad in [
            "ableton://track/abc",
            "ableton://track/01",
            "ableton://clip/zzz/notes",
            "ableton://clip/%zz/notes",
            "ableton://track/0%2Fmixer",
        ] {
            let refused = Address::parse(bad).expect("shape").expect_err(bad);
            assert_eq!(refused.code().as_str(), "BAD_INPUT");
        }
    }
}
