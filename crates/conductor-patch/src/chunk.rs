//! Pieces of a document's bytes.
//!
//! Unedited parts are ranges of the opened file and are copied verbatim on save. Edited parts own
//! their bytes. Not here: which piece is a box or a cord (`canvas`), and the printing of new bytes
//! (`style`).

use std::sync::Arc;

/// A sequence of bytes: a range of the opened file, or bytes that an edit printed.
#[derive(Clone, Debug)]
pub(crate) enum Chunk {
    Source { start: u32, end: u32 },
    Owned(Arc<[u8]>),
}

impl Chunk {
    pub(crate) const EMPTY: Chunk = Chunk::Source { start: 0, end: 0 };

    // Every offset fits into 32 bits, because the size of an opened file is limited.
    pub(crate) fn source(start: usize, end: usize) -> Chunk {
        Chunk::Source { start: start as u32, end: end as u32 }
    }

    pub(crate) fn owned(bytes: impl Into<Vec<u8>>) -> Chunk {
        Chunk::Owned(bytes.into().into())
    }

    pub(crate) fn bytes<'a>(&'a self, source: &'a [u8]) -> &'a [u8] {
        match self {
            Chunk::Source { start, end } => source.get(*start as usize..*end as usize).unwrap_or_default(),
            Chunk::Owned(bytes) => bytes,
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Chunk::Source { start, end } => (*end - *start) as usize,
            Chunk::Owned(bytes) => bytes.len(),
        }
    }

    /// Bytes in memory that belong to this chunk only.
    pub(crate) fn weight(&self) -> usize {
        match self {
            Chunk::Source { .. } => 0,
            Chunk::Owned(bytes) => bytes.len(),
        }
    }
}

/// Collects chunks into one buffer; adjacent ranges of the source are copied at once.
pub(crate) struct Writer<'a> {
    source: &'a [u8],
    pending: (usize, usize),
    out: Vec<u8>,
}

impl<'a> Writer<'a> {
    pub(crate) fn new(source: &'a [u8]) -> Self {
        Writer { source, pending: (0, 0), out: Vec::with_capacity(source.len() + 1024) }
    }

    pub(crate) fn chunk(&mut self, chunk: &Chunk) {
        match chunk {
            Chunk::Source { start, end } => {
                let (start, end) = (*start as usize, *end as usize);
                if start == self.pending.1 {
                    self.pending.1 = end;
                } else if start != end {
                    self.flush();
                    self.pending = (start, end);
                }
            }
            Chunk::Owned(bytes) => self.raw(bytes),
        }
    }

    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.flush();
        self.out.extend_from_slice(bytes);
    }

    fn flush(&mut self) {
        let (start, end) = self.pending;
        self.out.extend_from_slice(self.source.get(start..end).unwrap_or_default());
        self.pending = (end, end);
    }

    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.flush();
        self.out
    }
}
