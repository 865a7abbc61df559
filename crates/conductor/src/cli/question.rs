//! A question to a person: how it looks on any terminal, and how fast an answer may come.
//!
//! Not here: who may answer (`doors/control/person`), or what the answer does (`pipeline/approval`).

use super::Failure;
use crate::doors::control::client::ClientError;
use conductor_core::pending::Record;
use conductor_core::text::escape;
use serde_json::Value;
use std::fmt::Write as _;
use std::io;

/// Nobody reads a question faster.
const TOO_QUICK_US: u64 = 300_000;
/// What is said to a yes that does not count.
pub const TOO_QUICK: &str = "that was quicker than reading; y or n: ";

/// What is asked, as facts in their fixed order, all rendered by us; every deceptive character stands as its number.
pub fn text(record: &Record) -> String {
    let mut text = format!("Approval {}\n", record.short);
    let mut fact = |label: &str, value: &str| {
        // Writing into a string does not fail.
        let _ = writeln!(text, "  {:<10} {}", escape(label), escape(value));
    };
    for it in &record.facts {
        fact(&it.label, &it.text);
    }
    fact("state", &record.state.to_string());
    if let Some(end) = record.expires_at {
        fact("until", &end.to_string());
    }
    text
}

/// The record in an answer of the daemon.
pub fn record(answer: &Value) -> Result<Record, Failure> {
    let bytes = serde_json::to_vec(answer).map_err(io::Error::other)?;
    Record::from_json(&bytes).map_err(|fault| ClientError::Nonsense(fault.to_string()).into())
}

/// What was typed before the question stood there is no answer to it.
pub fn forget_what_was_typed() {
    use rustix::termios::{QueueSelector, tcflush};
    let _ = tcflush(io::stdin(), QueueSelector::IFlush);
}

/// What a line typed under a question means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Yes,
    No,
    /// A yes that came before anyone could have read.
    TooQuick,
    Neither,
}

/// `after_us` is the time since the question was drawn.
pub fn judge(line: &str, after_us: u64) -> Answer {
    match line.trim() {
        "y" | "Y" | "yes" if after_us < TOO_QUICK_US => Answer::TooQuick,
        "y" | "Y" | "yes" => Answer::Yes,
        "n" | "N" | "no" => Answer::No,
        _ => Answer::Neither,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_yes_needs_time_and_a_no_does_not() {
        assert_eq!(judge("y", 299_999), Answer::TooQuick);
        assert_eq!(judge(" yes \r", 300_000), Answer::Yes);
        assert_eq!(judge("n", 0), Answer::No);
        assert_eq!(["", "yn", "Ja"].map(|it| judge(it, 9_000_000)), [Answer::Neither; 3]);
    }
}
