//! Reads `[audit]`. Not here: writing the log.

use super::reader::Reader;
use super::tree::Node;
use crate::named_enum::named_enum;

/// `[audit]`. The log cannot be disabled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Audit {
    /// How arguments are recorded.
    pub detail: AuditDetail,
    /// When the record of a read-only call is written to the disk.
    pub read_only_sync: ReadOnlySync,
    /// Size in MiB at which a new log file is started.
    pub rotate_mb: u32,
    /// Maximum number of records between two checkpoints.
    pub checkpoint_records: u32,
    /// Maximum number of milliseconds between two checkpoints.
    pub checkpoint_ms: u32,
    /// Age in days after which log files are deleted; 0 keeps all files.
    pub retention_days: u32,
    /// Absolute path of a folder that receives a copy of the log.
    pub copy_to: Option<String>,
    /// Whether every call is refused when the copy cannot be written.
    pub copy_required: bool,
}

named_enum! {
    /// How the arguments of a call are recorded.
    pub enum AuditDetail {
        /// Only a keyed hash.
        Hash = "hash",
        /// A keyed hash and the text without secrets.
        Full = "full",
    }
}

named_enum! {
    /// When the record of a read-only call is written to the disk.
    pub enum ReadOnlySync {
        /// Soon after the reply.
        Soon = "soon",
        /// Before the reply.
        BeforeReply = "before_reply",
    }
}

impl Default for Audit {
    fn default() -> Self {
        Audit {
            detail: AuditDetail::Hash,
            read_only_sync: ReadOnlySync::Soon,
            rotate_mb: 100,
            checkpoint_records: 256,
            checkpoint_ms: 60_000,
            retention_days: 0,
            copy_to: None,
            copy_required: false,
        }
    }
}

pub(crate) fn audit<'t>(r: &mut Reader<'t>, node: &'t Node) -> Option<Audit> {
    let mut f = r.table(node)?;
    let d = Audit::default();
    let audit = Audit {
        detail: f.or(r, "detail", d.detail, Reader::named),
        read_only_sync: f.or(r, "read_only_sync", d.read_only_sync, Reader::named),
        rotate_mb: f.or(r, "rotate_mb", d.rotate_mb, |r, it| r.whole(it, 1, 10_240)),
        // The limit is below 512, because a verifier reports a missing checkpoint after 512
        // records.
        checkpoint_records: f.or(r, "checkpoint_records", d.checkpoint_records, |r, it| r.whole(it, 1, 480)),
        checkpoint_ms: f.or(r, "checkpoint_ms", d.checkpoint_ms, |r, it| r.whole(it, 100, 3_600_000)),
        retention_days: f.or(r, "retention_days", d.retention_days, |r, it| r.whole(it, 0, 36_500)),
        copy_to: f.opt(r, "copy_to", folder),
        copy_required: f.or(r, "copy_required", d.copy_required, Reader::boolean),
    };
    if audit.copy_required && !f.has("copy_to") {
        let place = f.key_place("copy_required");
        let help = "name the folder: copy_to = \"/mnt/second-disk/conductor-audit\"".to_owned();
        r.under("copy_required", |r| r.rule_help(&place, "`copy_required` needs `copy_to`".to_owned(), help));
    }
    f.finish(r);
    Some(audit)
}

/// Requires an absolute path, because the daemon may be started in any folder.
fn folder<'t>(r: &mut Reader<'t>, node: &'t Node) -> Option<String> {
    let path = r.filled(node)?;
    if path.starts_with('/') {
        return Some(path);
    }
    r.reject(node, format!("\"{path}\" is not an absolute path"), "begin it with `/`".to_owned())
}
