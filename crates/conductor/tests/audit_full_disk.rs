//! The audit log on a file system of 1 MB that really fills up, and gets room again.
//!
//! The work is done by a child of this same binary inside a mount namespace of its own; where none can be made, the test says so.
#![cfg(target_os = "linux")]

#[path = "shared/audit.rs"]
mod audit;

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use audit::{RealTime, Seeded, facts, good, verdict};
use conductor::audit_log::files::Disk;
use conductor::audit_log::outside::Ids;
use conductor::audit_log::{AuditLog, Durability, Settings};
use conductor_core::audit::Verdict;
use conductor_core::policy::Tier;

const HOME: &str = "CONDUCTOR_FULL_HOME";

#[test]
#[ignore = "the child of refuses_when_full_and_works_again"]
#[expect(clippy::disallowed_methods, reason = "the child is told its home by the environment")]
fn fill() {
    let Some(home) = std::env::var_os(HOME) else {
        return;
    };
    let home = Path::new(&home);
    let ballast = home.join("ballast");
    std::fs::write(&ballast, vec![1; 400_000]).expect("room for the ballast");
    let ids = Arc::new(Seeded::new(1));
    let (log, _) = AuditLog::open(home, Arc::new(Disk), Settings::default(), Arc::new(RealTime), ids.clone())
        .expect("the log opens");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    runtime.block_on(async {
        let mut written = 0_u64;
        while log.outcome(facts(ids.v4(), Tier::ReadOnly), good(), Durability::Soon).await.is_ok() {
            written += 1;
            assert!(written < 10_000, "1 MB never filled up");
        }
        assert!(written > 100, "{written}");
        assert!(
            log.intent(facts(ids.v4(), Tier::ReadOnly)).await.is_err(),
            "no effect while the log cannot be written"
        );
        assert!(log.check().is_err());
        std::fs::remove_file(&ballast).expect("removed");
        let up = async {
            while log.check().is_err() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), up).await.expect("up again by itself");
        log.intent(facts(ids.v4(), Tier::ReadOnly)).await.expect("written");
        assert_eq!(log.health().owed, 0, "the outcome that did not fit was written first");
    });
    log.stop();
    let (found, faults) = verdict(home);
    assert_eq!(found, Verdict::Intact, "{faults}");
}

/// Where real parts are required, a missing one is a failure.
#[expect(clippy::disallowed_methods, reason = "the test run is told so by the environment")]
fn required() -> bool {
    std::env::var_os("CONDUCTOR_REQUIRE_REAL").is_some_and(|value| value == "1")
}

#[test]
fn refuses_when_full_and_works_again() {
    let home = tempfile::tempdir().expect("a folder");
    let inside = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["-r", "-m", "sh", "-c", script]).env(HOME, home.path());
        command.arg("sh").arg(std::env::current_exe().expect("own path"));
        command.output()
    };
    let mount = "mount -t tmpfs -o size=1m tmpfs \"$CONDUCTOR_FULL_HOME\"";
    match inside(mount) {
        Ok(output) if output.status.success() => {}
        failed => {
            assert!(!required(), "no mount namespace of our own here ({failed:?})");
            println!("skipped: no mount namespace of our own here ({failed:?})");
            return;
        }
    }
    let output = inside(&format!("{mount} && exec \"$1\" --ignored --exact fill --nocapture")).expect("runs");
    let text = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&text));
    assert!(String::from_utf8_lossy(&text).contains("1 passed"), "the child ran: {}", String::from_utf8_lossy(&text));
}
