//! `[audit]`: detail, segments, checkpoints and the second copy.

use super::*;

#[test]
pub(super) fn the_log_holds_what_the_file_says() {
    let copy = tempfile::tempdir().unwrap();
    let folder: PathBuf = copy.path().join("second");
    let studio = Studio::start(&format!("[audit]\ndetail = \"full\"\ncheckpoint_records = 1\ncopy_to = {folder:?}\n"));
    let mut client = studio.client();
    studio.call(&mut client, test_tools::SET, json!({ "text": "in the clear" }));
    assert!(studio.audit_text().contains("in the clear"));
    studio.call(&mut client, test_tools::SET, json!({ "text": "y".repeat(9000) }));
    assert!(studio.audit_text().contains("\"truncated\":true") && !studio.audit_text().contains("yyyy"));
    assert!(folder.exists(), "the second copy was not written");

    let records = studio.audit_text().lines().count();
    let anchored = std::fs::read_to_string(studio.home.path().join("state/checkpoints.jsonl")).unwrap().lines().count();
    assert!(anchored * 2 > records, "too few checkpoints: {anchored} for {records} records");

    studio.reload("[audit]\ndetail = \"hash\"\n");
    studio.call(&mut client, test_tools::SET, json!({ "text": "as a hash" }));
    assert!(!studio.audit_text().contains("as a hash"));
}

#[test]
pub(super) fn a_segment_ends_where_the_file_says() {
    let studio = Studio::start(
        "[audit]\ndetail = \"full\"\nrotate_mb = 1\n[limits]\neffect = { per_minute = 100000, burst = 10000 }\n",
    );
    let mut client = studio.client();
    let second = studio.home.path().join("audit/000002.jsonl");
    let mut calls = 0;
    while !second.exists() {
        calls += 1;
        assert!(calls < 1000, "no second segment after 1000 calls");
        assert_eq!(studio.call(&mut client, test_tools::SET, json!({ "text": "y".repeat(3500) })).0, "ok");
    }
    let first = std::fs::metadata(studio.home.path().join("audit/000001.jsonl")).unwrap().len();
    assert!((900_000..1_100_000).contains(&first), "{first} bytes in the first segment");
}

/// The real clock, with the wall time set back by ten days.
#[derive(Debug)]
struct TenDaysAgo(RealClock);

impl Clock for TenDaysAgo {
    fn now(&self) -> conductor_core::event::Micros {
        self.0.now()
    }

    fn wall(&self) -> std::time::SystemTime {
        self.0.wall() - std::time::Duration::from_secs(10 * 24 * 3600)
    }
}

#[test]
pub(super) fn segments_older_than_the_file_says_are_removed() {
    let small = "rotate_mb = 1\n[limits]\neffect = { per_minute = 100000, burst = 10000 }\n";
    let fill = |studio: &Studio, segment: &str| {
        let mut client = studio.client();
        for _ in 0..1000 {
            if studio.home.path().join("audit").join(segment).exists() {
                return;
            }
            assert_eq!(studio.call(&mut client, test_tools::SET, json!({ "text": "y".repeat(3500) })).0, "ok");
        }
    };
    let full = format!("[audit]\ndetail = \"full\"\n{small}");
    let old = Studio::start_with(Setup { clock: Arc::new(TenDaysAgo(RealClock::new())), ..Setup::default() }, &full);
    fill(&old, "000002.jsonl");
    let home = old.stop();
    let kept = Studio::start_in(home, &full);
    assert!(
        kept.home.path().join("audit/000001.jsonl").exists(),
        "a segment was removed, although everything is kept by default"
    );
    let home = kept.stop();
    let tidy = Studio::start_in(home, &full.replacen("[audit]\n", "[audit]\nretention_days = 1\n", 1));
    let gone = wait_for(PATIENCE, || {
        assert_eq!(
            tidy.code(&mut tidy.client(), test_tools::ECHO),
            "ok",
            "a call failed while old segments are removed"
        );
        (!tidy.home.path().join("audit/000001.jsonl").exists()).then_some(())
    });
    assert!(gone.is_some());
}

/// Only the elapsed time causes the checkpoint: there are far fewer records than
/// `checkpoint_records`, and no further calls.
#[test]
pub(super) fn a_checkpoint_is_made_when_the_file_says() {
    let studio = Studio::start("[audit]\ncheckpoint_ms = 100\n");
    assert_eq!(studio.code(&mut studio.client(), test_tools::SET), "ok");
    let last = studio.audit_text().lines().last().map(|it| serde_json::from_str::<Value>(it).unwrap()).unwrap();
    let anchored = || {
        let text = std::fs::read_to_string(studio.home.path().join("state/checkpoints.jsonl")).unwrap_or_default();
        text.lines().last().and_then(|it| serde_json::from_str::<Value>(it).ok()?["seq"].as_u64())
    };
    assert!(wait_for(PATIENCE, || (anchored() >= last["seq"].as_u64()).then_some(())).is_some());
}

#[test]
pub(super) fn a_second_copy_that_is_required_and_cannot_be_written_stops_every_effect() {
    let place = tempfile::tempdir().unwrap();
    // Put a file in place of the parent folder, so that no user, not even root, can write below it.
    let folder = place.path().join("file").join("second");
    std::fs::write(place.path().join("file"), "in the way").unwrap();
    for (required, code) in [(true, "AUDIT_UNAVAILABLE"), (false, "ok")] {
        let studio = Studio::start(&format!("[audit]\ncopy_to = {folder:?}\ncopy_required = {required}\n"));
        assert_eq!(studio.code(&mut studio.client(), test_tools::SET), code, "copy_required = {required}");
    }
}
