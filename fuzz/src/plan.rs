//! Plan edits: the preview that a person sees is exactly the change, and undo restores the bytes.
//!
//! The first line of the input is a JSON array of changes. The rest is the configuration file.

use crate::SEEDED;
use conductor_core::config::{Surroundings, load};
use conductor_core::plan::{self, Change, Draft};
use serde_json::Value;

fn draft(base: &[u8], changes: &[Change]) -> Option<Draft> {
    let mut draft = plan::draft(base, changes, &Surroundings::default(), &|_| None).ok()?;
    // The seeded mistake: a plan also removes the spaces at the end of the file.
    if SEEDED && draft.result.ends_with(b" \n") {
        let end = draft.result.trim_ascii_end().len();
        draft.result.truncate(end);
    }
    Some(draft)
}

pub fn check(data: &[u8]) {
    let Some(end) = memchr::memchr(b'\n', data) else { return };
    let (Ok(Value::Array(changes)), Ok(base)) =
        (serde_json::from_slice(&data[..end]), std::str::from_utf8(&data[end + 1..]))
    else {
        return;
    };
    let Ok(changes) = changes.iter().map(|it| Change::read(it, "")).collect::<Result<Vec<_>, _>>() else { return };
    let Some(draft) = draft(base.as_bytes(), &changes) else { return };
    let result = std::str::from_utf8(&draft.result).expect("the result of a plan is not UTF-8");
    assert_eq!(
        plan::diff::apply(base, &draft.diff_preview).as_deref(),
        Some(result),
        "the preview differs from the change"
    );
    assert_eq!(draft.result_state_hash, plan::state_hash(&draft.result));
    assert!(load(result).config.is_some(), "a plan made the file unreadable:\n{result}");
    if draft.result == base.as_bytes() {
        return;
    }
    let back =
        plan::undo(base.as_bytes(), &draft.result, &draft.result, &Surroundings::default()).expect("undo failed");
    assert_eq!(back.result, base.as_bytes(), "undo did not restore the bytes");
}
