//! The messages that rigs exchange through a NATS server: subjects, keys, questions, decisions, and
//! the witness of the audit log. A rig is a machine that runs Conductor.
//!
//! Not here: the connection (`conductor_hosts::cluster`), and the tasks that use it.

pub mod decision;
pub mod nkey;
pub mod server_config;
pub mod witness;

pub use decision::{Answer, Decision, DecisionError, Question, Questions};

/// The stream of all open questions: one message per rig.
pub const ASKS: &str = "asks";
/// The stream of decisions: one message per question. The server refuses a second message.
pub const DECISIONS: &str = "decisions";
/// The stream of the key-value bucket with the state of each rig.
pub const PRESENCE: &str = "KV_rigs";

/// The stream of a rig's audit witness. Names of streams cannot contain a dot.
pub fn witness_stream(rig: &str) -> String {
    format!("audit-{rig}")
}

/// The subject of a rig's audit records.
pub fn record_subject(rig: &str) -> String {
    format!("audit.{rig}.record")
}

/// The subject of a rig's signed checkpoints.
pub fn checkpoint_subject(rig: &str) -> String {
    format!("audit.{rig}.checkpoint")
}

/// The subject of the open questions of a rig.
pub fn ask_subject(rig: &str) -> String {
    format!("ask.{rig}")
}

/// The subject of the decision about one question.
pub fn decide_subject(rig: &str, id: uuid::Uuid) -> String {
    format!("decide.{rig}.{id}")
}

/// The subject of the state of a rig.
pub fn presence_subject(rig: &str) -> String {
    format!("$KV.rigs.{rig}")
}

/// The subject of one event of a rig.
pub fn event_subject(rig: &str, event: &str) -> String {
    format!("evt.{rig}.{event}")
}

/// Whether a text can be the name of a rig. The name is a part of subjects and of the names of
/// streams, so it has no dots, spaces and wildcards.
pub fn is_rig_name(text: &str) -> bool {
    (1..=32).contains(&text.len())
        && text.bytes().all(|it| it.is_ascii_lowercase() || it.is_ascii_digit() || it == b'-')
        && !text.starts_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_rigs_are_legal_in_subjects_and_streams() {
        for name in ["stage-left", "a", "rig7", &"x".repeat(32)] {
            assert!(is_rig_name(name), "{name}");
        }
        for name in ["", "-a", "A", "a.b", "a b", "a*", "a>", "ä", "$sys", "a/b", "a_b", &"x".repeat(33)] {
            assert!(!is_rig_name(name), "{name}");
        }
    }
}
