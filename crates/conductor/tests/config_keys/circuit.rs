//! `[circuit]` and `[retry]`.

use super::*;

#[test]
fn circuits_trip_and_calls_are_repeated_as_often_as_the_file_says() {
    let retry = "[retry]\nattempts = 2\nbase_ms = 1\ncap_ms = 1\n";
    let studio = Studio::start(&format!(
        "{retry}[circuit]\nfailures = 2\n[circuit.tools]\n\"test.fail_effect\" = {{ failures = 1 }}\n"
    ));
    let mut client = studio.client();
    let fail: Vec<String> = (0..3).map(|_| studio.code(&mut client, test_tools::FAIL)).collect();
    assert_eq!(fail, ["INTERNAL", "INTERNAL", "CIRCUIT_OPEN"]);
    assert_eq!(studio.runs.of(test_tools::FAIL), 4, "the calls were not attempted twice each");
    let effect: Vec<String> = (0..2).map(|_| studio.code(&mut client, test_tools::FAIL_EFFECT)).collect();
    assert_eq!(effect, ["INTERNAL", "CIRCUIT_OPEN"]);

    studio.reload("[retry]\nattempts = 1\n[circuit]\nopen_ms = 1\n");
    let again = loop {
        // The breaker admits a probe as soon as one millisecond has passed.
        let code = studio.code(&mut client, test_tools::FAIL);
        if code != "CIRCUIT_OPEN" {
            break code;
        }
    };
    assert_eq!((again.as_str(), studio.runs.of(test_tools::FAIL)), ("INTERNAL", 5));
}

#[test]
pub(super) fn a_call_is_repeated_as_often_and_as_soon_as_the_file_says() {
    let took = |cap: &str| {
        let studio = Studio::start(&format!("[retry]\nattempts = 9\nbase_ms = 4\n{cap}[circuit]\nfailures = 1000\n"));
        let (mut client, clock) = (studio.client(), RealClock::new());
        let from = clock.now();
        assert_eq!(studio.code(&mut client, test_tools::FAIL), "INTERNAL");
        assert_eq!(studio.runs.of(test_tools::FAIL), 9);
        clock.now().since(from)
    };
    // With the cap: eight waits of 4 to 8 ms. Without it, each wait is about twice as long as the
    // previous one: at least a second in total.
    let (capped, doubled) = (took("cap_ms = 4\n"), took(""));
    assert!(capped * 2 < doubled, "{capped} {doubled}");
}

#[test]
pub(super) fn failures_are_counted_and_a_circuit_closes_as_the_file_says() {
    counts_and_closes("[circuit]\n");
}

#[test]
pub(super) fn one_tool_may_have_a_circuit_of_its_own() {
    counts_and_closes("[circuit.tools.\"test.fail\"]\n");
}

fn counts_and_closes(head: &str) {
    let attempts = "[retry]\nattempts = 1\n";
    let bad = || json!({ "code": "INTERNAL" });
    let good = || json!({ "code": "INTERNAL", "good_from": 1 });
    let run = |config: &str, calls: &[Value]| -> Vec<String> {
        let studio = Studio::start(&format!("{attempts}{head}failures = 2\n{config}"));
        let mut client = studio.client();
        calls.iter().map(|arguments| studio.call(&mut client, test_tools::FAIL, arguments.clone()).0).collect()
    };
    // A success separates the two failures. The mode `window` counts both failures; `consecutive`
    // needs two failures in a row.
    let broken_up = [bad(), good(), bad(), good()];
    let off = ["INTERNAL", "ok", "INTERNAL", "CIRCUIT_OPEN"];
    let on = ["INTERNAL", "ok", "INTERNAL", "ok"];
    assert_eq!(run("", &broken_up), off);
    assert_eq!(run("mode = \"consecutive\"\n", &broken_up), on);

    // The failures are further apart than the window, so the circuit must stay closed.
    let studio = Studio::start(&format!("{attempts}{head}failures = 2\nwindow_ms = 1\n"));
    let mut client = studio.client();
    for _ in 0..3 {
        assert_eq!(studio.call(&mut client, test_tools::FAIL, bad()).0, "INTERNAL", "{head}");
        pause(20);
    }

    let studio = Studio::start(&format!("{attempts}{head}failures = 1\nopen_ms = 1\nclose_after = 2\n"));
    let mut client = studio.client();
    let state =
        || studio.gateway().studio.circuits.list().into_iter().find(|it| it.tool == test_tools::FAIL).unwrap().state;
    assert_eq!(studio.call(&mut client, test_tools::FAIL, bad()).0, "INTERNAL");
    let mut probes = 0;
    for _ in 0..1000 {
        if state() == conductor_core::breaker::State::Passing {
            break;
        }
        // Calls are refused until the millisecond has passed; then each successful probe counts.
        probes += u32::from(studio.call(&mut client, test_tools::FAIL, good()).0 == "ok");
    }
    assert_eq!(probes, 2);
}
