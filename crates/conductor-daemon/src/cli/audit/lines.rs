//! Follows the end of the audit log.

use std::io::{self, Write};
use std::path::Path;

use serde_json::Value;

use conductor_gateway::audit_log::files::{Disk, Files};
use conductor_gateway::audit_log::layout::Layout;

/// Follows the end of the log, even when a new segment starts. The caller decides when to poll.
#[derive(Debug)]
pub struct Tail {
    layout: Layout,
    number: u32,
    offset: u64,
    shown: Option<u64>,
}

impl Tail {
    /// Starts at the current end of the log.
    pub fn at_end(home: &Path) -> io::Result<Self> {
        let layout = Layout::of(home);
        let number = layout.segments(&Disk)?.last().copied().unwrap_or(1);
        let offset = match Disk.open(&layout.segment(number)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
            file => file?.size()?,
        };
        Ok(Self { layout, number, offset, shown: None })
    }

    /// Skips all records up to `seq`, because they were already shown.
    pub fn skip_through(&mut self, seq: Option<u64>) {
        self.shown = seq;
    }

    /// Shows the records added since the last poll.
    pub fn poll(&mut self, json: bool, out: &mut dyn Write) -> io::Result<()> {
        loop {
            let read = Disk.read_at(&self.layout.segment(self.number), self.offset, usize::MAX);
            let bytes = match read {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                bytes => bytes?,
            };
            let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            self.offset += whole as u64;
            for line in bytes[..whole].split(|byte| *byte == b'\n') {
                let Ok(record) = serde_json::from_slice::<Value>(line) else { continue };
                if record["seq"].as_u64() > self.shown {
                    super::show(&record, json, out)?;
                }
            }
            if self.layout.segments(&Disk)?.last().is_none_or(|last| *last <= self.number) {
                return Ok(());
            }
            self.number += 1;
            self.offset = 0;
        }
    }
}
