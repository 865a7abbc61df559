//! The second copy of the log: files with the same names and the same bytes in another directory.
//! The copy contains only records that the log has synced, so it can be behind but never ahead. A
//! copy that is longer than the log or differs from it is evidence and is not changed.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::files::{Files, LogFile, append_whole};
use super::layout::{Layout, segment_name};

const PIECE: usize = 1 << 20;
const RETRY_MS: u64 = 1000;
/// Number of bytes at the end of a copy that are compared with the log.
const ENDING: u64 = 4096;

#[derive(Debug)]
pub(super) struct Copy {
    dir: PathBuf,
    required: bool,
    /// The segment being copied, and the number of bytes copied.
    at: Option<(u32, u64, Arc<dyn LogFile>)>,
    /// The last failure, and the time of the next attempt.
    failed: Option<(String, u64)>,
}

impl Copy {
    pub fn new(dir: PathBuf, required: bool) -> Self {
        Self { dir, required, at: None, failed: None }
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    pub const fn is_required(&self) -> bool {
        self.required
    }

    pub fn retry_at_ms(&self) -> Option<u64> {
        self.failed.as_ref().map(|(_, at)| *at)
    }

    /// Extends the copy to `len` bytes of segment `active`, and syncs it.
    pub fn catch_up(
        &mut self,
        files: &dyn Files,
        layout: &Layout,
        active: u32,
        len: u64,
        now_ms: u64,
    ) -> io::Result<()> {
        // Until the next attempt is due, the cause of the last failure stays visible.
        if !self.required
            && let Some((why, at)) = &self.failed
            && now_ms < *at
        {
            return Err(io::Error::other(why.clone()));
        }
        let done = self.try_catch_up(files, layout, active, len);
        if done.is_err() {
            self.at = None;
        }
        self.failed = done.as_ref().err().map(|why| (why.to_string(), now_ms + RETRY_MS));
        done
    }

    fn try_catch_up(&mut self, files: &dyn Files, layout: &Layout, active: u32, len: u64) -> io::Result<()> {
        let (mut number, mut offset, mut file) = match self.at.take() {
            Some(at) => at,
            None => self.find_start(files, layout)?,
        };
        loop {
            let end = if number == active { len } else { files.open(&layout.segment(number))?.size()? };
            while offset < end {
                let max = usize::try_from(end - offset).unwrap_or(PIECE).min(PIECE);
                let piece = files.read_at(&layout.segment(number), offset, max)?;
                if piece.is_empty() {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                if let Err(error) = append_whole(&*file, &piece) {
                    let _ = file.truncate(offset);
                    return Err(error);
                }
                offset += piece.len() as u64;
            }
            file.sync()?;
            if number >= active {
                break;
            }
            (number, offset, file) = self.open(files, layout, number + 1)?;
        }
        self.at = Some((number, offset, file));
        Ok(())
    }

    /// The place at which copying starts: the last segment of the copy, or the first segment of the
    /// log if the copy is empty or its last segment is not in the log.
    fn find_start(&self, files: &dyn Files, layout: &Layout) -> io::Result<(u32, u64, Arc<dyn LogFile>)> {
        files.make_dir(&self.dir)?;
        let copied = super::layout::segments_in(files, &self.dir)?;
        let own = layout.segments(files)?;
        let number = copied.last().copied().filter(|last| own.contains(last)).or_else(|| own.first().copied());
        self.open(files, layout, number.ok_or(io::ErrorKind::NotFound)?)
    }

    fn open(&self, files: &dyn Files, layout: &Layout, number: u32) -> io::Result<(u32, u64, Arc<dyn LogFile>)> {
        let path = self.dir.join(segment_name(number));
        let file = match files.open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let file = files.create(&path)?;
                files.sync_dir(&self.dir)?;
                file
            }
            file => file?,
        };
        let offset = file.size()?;
        // A line ends with its hash, which covers all lines before it. So equal ends mean equal
        // files.
        let from = offset.saturating_sub(ENDING);
        let length = (offset - from) as usize;
        if files.read_at(&path, from, length)? != files.read_at(&layout.segment(number), from, length)? {
            let name = segment_name(number);
            let why = format!(
                "{name} differs between the copy and the log; compare them with `conductor audit verify --against`"
            );
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        Ok((number, offset, file))
    }
}
