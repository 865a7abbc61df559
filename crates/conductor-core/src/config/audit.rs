//! `[audit]`. Not here: writing the log.

use super::absolute;
use super::form::{Form, boolean, filled, named, whole};
use super::reader::{Fields, Reader};
use super::section::section;
use super::tree::Node;
use crate::named_enum::named_enum;

section! {
    /// The audit log. It cannot be disabled. A change of `detail` or `read_only_sync` takes effect
    /// at once, and any other change at the next start.
    #[derive(Eq)]
    pub struct Audit {
        /// How arguments are recorded. `hash`: only a keyed hash. `full`: a keyed hash and the text
        /// without secrets.
        detail: AuditDetail = AuditDetail::Hash, named(), "\"full\"";
        /// When the record of a read-only call is written to the disk.
        read_only_sync: ReadOnlySync = ReadOnlySync::Soon, named(), "\"before_reply\"";
        /// Size in MiB at which a new log file is started.
        rotate_mb: u32 = 100, whole(1..=10_240), "50";
        /// Maximum number of records between two checkpoints. The limit is below 512, because a
        /// verifier reports a missing checkpoint after 512 records.
        checkpoint_records: u32 = 256, whole(1..=480), "128";
        /// Maximum number of milliseconds between two checkpoints.
        checkpoint_ms: u32 = 60_000, whole(100..=3_600_000), "10000";
        /// Age in days after which log files are deleted; 0 keeps all files.
        retention_days: u32 = 0, whole(0..=36_500), "365";
        /// Absolute path of a folder that receives a copy of the log.
        copy_to: Option<String> = None, filled().ruled(needs_absolute).maybe(), "\"/mnt/second-disk/conductor-audit\"";
        /// Whether every call is refused when the copy cannot be written.
        copy_required: bool = false, boolean(), "true";
    }
    check copy_has_a_folder
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
        /// The record is written soon after the reply.
        Soon = "soon",
        /// The record is written before the reply.
        BeforeReply = "before_reply",
    }
}

fn copy_has_a_folder(audit: Audit, r: &mut Reader<'_>, f: &Fields<'_>) -> Audit {
    if audit.copy_required && !f.has("copy_to") {
        let place = f.key_place("copy_required");
        let help = "name the folder: copy_to = \"/mnt/second-disk/conductor-audit\"".to_owned();
        r.under("copy_required", |r| r.rule_help(&place, "`copy_required` needs `copy_to`".to_owned(), help));
    }
    audit
}

/// Requires an absolute path, because the daemon may be started in any folder.
fn needs_absolute<'t>(r: &mut Reader<'t>, node: &'t Node, path: String) -> Option<String> {
    let platform = r.surroundings.platform;
    if absolute::is_absolute(&path, platform) {
        return Some(path);
    }
    let help = format!("begin it with {}", absolute::beginning(platform));
    r.reject(node, format!("\"{path}\" is not an absolute path"), help)
}
