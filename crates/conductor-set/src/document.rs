//! An `.als` document: its text in chunks, and the conversion from and to bytes.
//!
//! The text is not normalized. It is stored in chunks: everything before the first track, one chunk
//! per track, everything after the last track. An edit replaces whole chunks, so its cost depends
//! on the size of the track, not on the size of the Set. Clones of a document share their chunks.
//! Not here: files, undo ([`crate::OpenSet`]), the meaning of elements.

use crate::error::LiveError;
use crate::xml::{El, Outline};
use flate2::read::GzDecoder;
use flate2::{Compression, GzBuilder};
use serde::{Serialize, Serializer};
use sha2::{Digest, Sha256};
use std::fmt;
use std::io::{Read, Write};
use std::sync::Arc;

/// Default limit of uncompressed text: 256 MiB.
pub const DEFAULT_XML_LIMIT: usize = 256 << 20;

/// Identifies a state of a document by 16 hex digits. Undo restores the earlier text and its
/// revision.
#[derive(Clone, Copy, PartialEq, Eq, Hash, schemars::JsonSchema)]
#[schemars(with = "String")]
pub struct Revision([u8; 8]);

impl Revision {
    fn of(parts: &[&[u8]]) -> Self {
        let mut hash = Sha256::new();
        for part in parts {
            hash.update(part);
        }
        let digest = hash.finalize();
        let mut first = [0; 8];
        first.copy_from_slice(&digest[..8]);
        Revision(first)
    }

    /// The revision of a state that is not a document, such as the state of a running Live.
    pub fn of_state(text: &str) -> Self {
        Revision::of(&[text.as_bytes()])
    }

    /// The revision after `edit` is applied to this one.
    pub(crate) fn then(self, edit: &[u8]) -> Self {
        Revision::of(&[&self.0, edit])
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

impl fmt::Debug for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Revision({self})")
    }
}

impl Serialize for Revision {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The generation of the file format. Only differences that matter for writing are distinguished.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// Live 8 to 10: read-only.
    Before11,
    /// Live 11.
    Live11,
    /// Live 12.0.
    Live12,
    /// Live 12.1 and 12.2: scale names are stored as numbers.
    Live12_1,
    /// Live 12.3: notes omit attributes with default values.
    Live12_3,
    /// Newer than all known versions: read-only.
    Newer,
}

/// The program that saved the Set, from the root element.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schema {
    /// `Creator`, for example `Ableton Live 12.0.25`.
    pub creator: String,
    /// `MinorVersion`, for example `12.0_12049`.
    pub minor_version: String,
    /// The generation of the file format, derived from the attributes `MajorVersion` and
    /// `MinorVersion`.
    pub family: Family,
}

impl Schema {
    fn read(root: El<'_>) -> Schema {
        let attr = |name| root.attr(name).map(|v| v.into_owned()).unwrap_or_default();
        let (major, minor_version) = (attr("MajorVersion"), attr("MinorVersion"));
        let generation: Option<u32> = minor_version.split(['.', '_']).next().and_then(|s| s.parse().ok());
        // From Live 12 on, the build number after the underscore contains the minor release: 12049
        // is 12.0, 12117 is 12.1.
        let build: u32 = minor_version.rsplit('_').next().and_then(|s| s.parse().ok()).unwrap_or(0);
        let family = match (major.as_str(), generation) {
            ("4", _) | ("5", Some(..=10)) => Family::Before11,
            ("5", Some(11)) => Family::Live11,
            ("5", Some(12)) if build < 12_100 => Family::Live12,
            ("5", Some(12)) if build < 12_300 => Family::Live12_1,
            ("5", Some(12)) if build < 12_400 => Family::Live12_3,
            (_, _) => Family::Newer,
        };
        Schema { creator: attr("Creator"), minor_version, family }
    }

    /// Whether documents of this generation can be edited.
    pub fn is_editable(&self) -> bool {
        match self.family {
            Family::Before11 | Family::Newer => false,
            Family::Live11 | Family::Live12 | Family::Live12_1 | Family::Live12_3 => true,
        }
    }
}

/// One piece of the text with its outline. A chunk is immutable; an edit creates new chunks.
#[derive(PartialEq, Eq)]
pub(crate) struct Chunk {
    pub text: Box<str>,
    pub outline: Outline,
}

impl Chunk {
    /// The outermost element of a track chunk.
    pub fn root(&self) -> Option<El<'_>> {
        self.outline.roots(&self.text).next()
    }
}

impl fmt::Debug for Chunk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Chunk({} bytes)", self.text.len())
    }
}

/// A lossless Live Set. Cloning is cheap: clones share the text.
#[derive(Debug, Clone)]
pub struct Document {
    /// The head, one chunk per track, and the tail: at least two chunks.
    pub(crate) chunks: Vec<Arc<Chunk>>,
    pub(crate) schema: Arc<Schema>,
    pub(crate) revision: Revision,
    /// The tags that the head opens and the tail closes.
    open: Arc<[String]>,
    pub(crate) newline: &'static str,
    pub(crate) unit: Arc<str>,
}

fn bad_file(reason: impl Into<String>) -> LiveError {
    LiveError::BadFile { reason: reason.into() }
}

/// Maximum number of bytes that are in memory twice while the text is split into chunks.
const SLACK: usize = 1 << 20;

/// Inflates `.als` bytes, stopping at `limit` bytes of text.
fn inflate(als: &[u8], limit: usize) -> Result<String, LiveError> {
    if !als.starts_with(&[0x1f, 0x8b]) {
        return Err(bad_file("the file is not compressed with gzip"));
    }
    // A gzip file ends with the length of the uncompressed text. This length is used only as a
    // hint: the capacity is limited by `limit` and by the maximum compression ratio.
    let said = als.last_chunk().map_or(0, |end| u32::from_le_bytes(*end) as usize);
    let hint = said.min(limit).min(als.len().saturating_mul(1_032));
    let mut bytes = Vec::with_capacity(hint.saturating_add(1));
    let stop = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    GzDecoder::new(als)
        .take(stop)
        .read_to_end(&mut bytes)
        .map_err(|e| bad_file(format!("the file cannot be decompressed: {e}")))?;
    if bytes.len() > limit {
        return Err(bad_file(format!("the uncompressed text is larger than the limit of {limit} bytes")));
    }
    String::from_utf8(bytes)
        .map_err(|e| bad_file(format!("the uncompressed text is not UTF-8 at byte {}", e.utf8_error().valid_up_to())))
}

/// Compresses text as `.als`. The header contains no name and no time, so equal text yields equal
/// bytes.
fn deflate<'a>(pieces: impl Iterator<Item = &'a str>) -> Vec<u8> {
    let mut out = GzBuilder::new().mtime(0).write(Vec::new(), Compression::new(6));
    // Writing to a Vec cannot fail.
    for piece in pieces {
        let _ = out.write_all(piece.as_bytes());
    }
    out.finish().unwrap_or_default()
}

impl Document {
    /// Opens `.als` bytes whose text is at most `limit` bytes long.
    ///
    /// # Errors
    /// [`LiveError::BadFile`] with the reason.
    pub fn open(als: &[u8], limit: usize) -> Result<Document, LiveError> {
        Document::from_xml(inflate(als, limit)?)
    }

    /// Opens the uncompressed text of a Set.
    ///
    /// # Errors
    /// [`LiveError::BadFile`] with the reason.
    pub fn from_xml(mut text: String) -> Result<Document, LiveError> {
        let (outline, left_open) = Outline::read(&text, &[]).map_err(|e| bad_file(e.to_string()))?;
        if !left_open.is_empty() {
            return Err(bad_file("the text ends inside an element"));
        }
        let root = outline.roots(&text).next().ok_or_else(|| bad_file("the file is empty"))?;
        if root.name() != "Ableton" {
            return Err(bad_file(format!("the root element is <{}>, not <Ableton>", root.name())));
        }
        let set = root.child("LiveSet").ok_or_else(|| bad_file("there is no <LiveSet> element"))?;
        let tracks = set.child("Tracks").ok_or_else(|| bad_file("there is no <Tracks> element"))?;

        let mut cuts = vec![0];
        let mut open: Vec<String> = vec!["Ableton".into(), "LiveSet".into()];
        let inner: Vec<usize> = tracks.children().map(|t| t.span().end).collect();
        if let Some(first) = tracks.children().next() {
            open.push("Tracks".into());
            cuts.push(first.span().start - first.lead().len());
            cuts.extend(inner);
        } else {
            cuts.push(tracks.span().end);
        }
        cuts.push(text.len());

        let schema = Schema::read(root);
        let unit: Arc<str> = set.indent().into();
        let newline = if text.as_bytes().windows(2).take(4_096).any(|w| w == b"\r\n") { "\r\n" } else { "\n" };
        let revision = Revision::of(&[text.as_bytes()]);
        let mut outlines: Vec<Outline> = cuts.windows(2).map(|w| outline.cut(w[0]..w[1])).collect();
        drop(outline);
        // Split the chunks off the end of the text and release the freed memory, so that only about
        // `SLACK` bytes of the text are in memory twice.
        let mut chunks = Vec::with_capacity(outlines.len());
        while let (Some(outline), Some(at)) = (outlines.pop(), cuts.len().checked_sub(2).and_then(|n| cuts.get(n))) {
            chunks.push(Arc::new(Chunk { text: text.split_off(*at).into_boxed_str(), outline }));
            cuts.pop();
            if text.capacity() - text.len() > SLACK {
                text.shrink_to_fit();
            }
        }
        chunks.reverse();
        Ok(Document { chunks, schema: Arc::new(schema), revision, open: open.into(), newline, unit })
    }

    /// The uncompressed text.
    pub fn to_xml(&self) -> String {
        let mut out = String::with_capacity(self.xml_len());
        self.chunks.iter().for_each(|c| out.push_str(&c.text));
        out
    }

    /// The length of the uncompressed text in bytes.
    pub fn xml_len(&self) -> usize {
        self.chunks.iter().map(|c| c.text.len()).sum()
    }

    /// Compresses the document to `.als` bytes. [`crate::OpenSet::save`] returns the original bytes
    /// when nothing changed.
    pub fn to_als(&self) -> Vec<u8> {
        deflate(self.chunks.iter().map(|c| &*c.text))
    }

    /// Bytes of memory used by text and spans, including shared chunks.
    pub fn memory(&self) -> usize {
        self.chunks.iter().map(|c| c.text.len() + c.outline.bytes()).sum()
    }

    /// The revision of this state.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// The program that saved this Set, and whether the Set can be edited.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Parses new text for a chunk with the given role.
    pub(crate) fn chunk(&self, role: Role, text: String) -> Result<Arc<Chunk>, LiveError> {
        let opened: &[String] = match role {
            Role::Head | Role::Track => &[],
            Role::Tail => &self.open,
        };
        let (outline, left) = Outline::read(&text, opened).map_err(|e| LiveError::broken(e.to_string()))?;
        let expected: &[String] = match role {
            Role::Head => &self.open,
            Role::Track | Role::Tail => &[],
        };
        // The head must leave exactly the tags open that the tail closes; a track must close all of
        // its tags.
        if left != expected {
            return Err(LiveError::broken("the new text does not close its tags"));
        }
        Ok(Arc::new(Chunk { text: text.into_boxed_str(), outline }))
    }

    pub(crate) fn role(&self, index: usize) -> Role {
        match index {
            0 => Role::Head,
            i if i + 1 == self.chunks.len() => Role::Tail,
            _ => Role::Track,
        }
    }

    /// Whether tracks can be inserted. If `<Tracks />` is an empty tag, there is no position for a
    /// track between head and tail.
    pub(crate) fn has_track_list(&self) -> bool {
        self.open.len() == 3
    }

    pub(crate) fn tail_index(&self) -> usize {
        self.chunks.len() - 1
    }

    /// The element at `path` below `LiveSet`, with the index of its chunk.
    pub(crate) fn in_set(&self, path: &str) -> Option<(usize, El<'_>)> {
        let (first, rest) = path.split_once('/').map_or((path, None), |(a, b)| (a, Some(b)));
        let head =
            self.chunks[0].root().and_then(|r| r.child("LiveSet")).and_then(|s| s.child(first)).map(|el| (0, el));
        let tail = &self.chunks[self.tail_index()];
        let found = head
            .or_else(|| tail.outline.roots(&tail.text).find(|el| el.name() == first).map(|el| (self.tail_index(), el)));
        match (found, rest) {
            (Some((chunk, el)), Some(rest)) => el.at(rest).map(|el| (chunk, el)),
            (found, _) => found,
        }
    }
}

/// The position of a chunk in the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Head,
    Track,
    Tail,
}
