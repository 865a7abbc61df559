//! Each step of the pipeline, and the invariants of every call.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use conductor_core::breaker::State as BreakerState;
use conductor_core::config::{Audit, ReadOnlySync};
use conductor_core::digest::Digest;
use conductor_core::error::{AuditResult, Code, Effect, ToolError};
use conductor_core::policy::limits::{ARGUMENT_BYTES, Limits, Rate};
use conductor_core::policy::{Decision, Pattern, Policy, Rule, Tier};
use conductor_gateway::catalog::names::Toolset;
use conductor_gateway::catalog::{Availability, Definition, Source, Target, Tool};
use conductor_gateway::pipeline::call::Outcome;
use conductor_gateway::pipeline::{self, Call, Principal, Reply, Step, Via};
use conductor_gateway::studio::{PolicyInForce, Settings};
use conductor_testkit::studio::{TestStudio, Written, principal};
use conductor_testkit::tools;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

fn error(reply: &Reply) -> &ToolError {
    match reply.outcome() {
        Outcome::Done(Err(error)) => error,
        other @ (Outcome::Done(Ok(_)) | Outcome::Cancelled | Outcome::Ask { .. }) => {
            panic!("expected an error, got {other:?}")
        }
    }
}

fn value(reply: &Reply) -> &Value {
    match reply.outcome() {
        Outcome::Done(Ok(output)) => &output.value,
        other @ (Outcome::Done(Err(_)) | Outcome::Cancelled | Outcome::Ask { .. }) => {
            panic!("expected a value, got {other:?}")
        }
    }
}

fn results(studio: &TestStudio) -> Vec<(String, AuditResult, u32)> {
    let written = studio.journal.written();
    written
        .into_iter()
        .filter_map(|it| match it {
            Written::Intent(_) => None,
            Written::Outcome(facts, outcome) => Some((facts.tool, outcome.result, outcome.attempts)),
        })
        .collect()
}

fn phases(studio: &TestStudio) -> Vec<&'static str> {
    let written = studio.journal.written();
    written
        .iter()
        .map(|it| match it {
            Written::Intent(_) => "intent",
            Written::Outcome(..) => "outcome",
        })
        .collect()
}

/// The setting `[audit] read_only_sync`.
#[tokio::test]
async fn reads_wait_for_the_disk_only_where_they_are_told_to_and_effects_always() {
    for (told, waited) in [(ReadOnlySync::Soon, 1), (ReadOnlySync::BeforeReply, 2)] {
        let settings = Settings { audit: Audit { read_only_sync: told, ..Audit::default() }, ..Settings::default() };
        let studio = TestStudio::with(Policy::default(), settings);
        assert!(studio.call(tools::ECHO, json!({ "text": "x" })).await.is_ok());
        assert!(studio.call(tools::SET, json!({ "text": "x" })).await.is_ok());
        assert_eq!(studio.journal.waited_for_disk(), waited, "{told}");
    }
}

#[tokio::test]
async fn a_read_writes_one_record_and_an_effect_two() {
    let studio = TestStudio::new();
    let reply = studio.call(tools::ECHO, json!({ "text": "hi" })).await;
    assert_eq!(value(&reply), &json!({ "echo": "hi" }));
    assert_eq!(phases(&studio), ["outcome"]);
    studio.call(tools::SET, json!({ "text": "hi" })).await;
    assert_eq!(phases(&studio), ["outcome", "intent", "outcome"]);
    let written = studio.journal.written();
    let [_, Written::Intent(intent), Written::Outcome(outcome, _)] = written.as_slice() else { panic!("{written:?}") };
    assert_eq!(intent.call, outcome.call);
    assert_eq!(intent.input_hash, outcome.input_hash);
    assert!(intent.pin.is_some() && intent.principal == principal("demo"));
}

#[tokio::test]
async fn every_call_passes_the_same_steps() {
    let studio = TestStudio::new();
    let callers = [principal("a"), Principal::Http { token: "t".into() }, Principal::Cli { uid: 1 }];
    for principal in callers {
        for tool in [tools::ECHO, "test_echo", tools::SET, tools::PLAN, tools::ALWAYS] {
            let reply = pipeline::run(&studio.studio, Call::new(principal.clone(), tool, json!({ "text": "x" }))).await;
            assert_eq!(reply.steps().as_slice(), Step::ALL, "{tool} by {principal}");
        }
    }
    // Refused calls stop at an earlier step, and are also recorded and answered.
    for (tool, arguments, last) in [
        ("nope", json!({}), Step::Resolve),
        (tools::ECHO, json!({ "txet": 1 }), Step::Validate),
        (tools::DANGER, json!({ "text": "x" }), Step::Approval),
        (tools::FAIL, json!({ "code": "NOT_FOUND" }), Step::Handler),
    ] {
        let reply = studio.call(tool, arguments).await;
        let passed = Step::ALL.iter().position(|it| *it == last).expect("a step") + 1;
        let mut wanted = Step::ALL[..passed].to_vec();
        wanted.extend([Step::Outcome, Step::Respond]);
        assert_eq!(*reply.steps(), wanted, "{tool}");
    }
}

#[tokio::test]
async fn an_unknown_tool_is_audited_and_named() {
    let studio = TestStudio::new();
    let reply = studio.call("test.ehco", json!({})).await;
    let error = error(&reply);
    assert_eq!((error.code, error.message.as_str()), (Code::NotFound, "Unknown tool: test.ehco"));
    assert_eq!(error.extras.did_you_mean.first().map(String::as_str), Some(tools::ECHO));
    assert_eq!(results(&studio), [("test.ehco".to_owned(), AuditResult::Invalid, 0)]);
}

#[tokio::test]
async fn hidden_tools_are_for_people_and_pads() {
    let studio = TestStudio::new();
    assert_eq!(error(&studio.call(tools::HIDDEN, json!({ "text": "x" })).await).code, Code::NotFound);
    let person = Call::new(Principal::Person { uid: 1000 }, tools::HIDDEN, json!({ "text": "x" }));
    assert_eq!(value(&pipeline::run(&studio.studio, person).await), &json!({ "echo": "x" }));
}

#[tokio::test]
async fn a_tool_outside_the_toolset_is_unknown() {
    let studio = TestStudio::new();
    let mut call = Call::new(principal("a"), tools::ECHO, json!({ "text": "x" }));
    call.toolset = Arc::new(Toolset::parse(&["patch".to_owned()], |_| false).expect("a toolset"));
    assert_eq!(error(&pipeline::run(&studio.studio, call).await).code, Code::NotFound);
    assert_eq!(studio.runs.of(tools::ECHO), 0);
    assert_eq!(results(&studio).len(), 1);
}

#[tokio::test]
async fn invalid_input_never_reaches_code() {
    let studio = TestStudio::new();
    for arguments in [
        json!({}),
        json!({ "text": 1 }),
        json!({ "text": "x", "y": 1 }),
        json!({ "text": "x", "n": 9007199254740993u64 }),
    ] {
        let reply = studio.call(tools::SET, arguments).await;
        let error = error(&reply);
        assert_eq!((error.code, error.effect), (Code::BadInput, Some(Effect::None)));
        assert!(!error.extras.violations.is_empty());
    }
    assert_eq!(studio.runs.of(tools::SET), 0);
    assert!(results(&studio).iter().all(|it| it.1 == AuditResult::Invalid && it.2 == 0));
    assert_eq!(phases(&studio), ["outcome"; 4], "a refused call has an intent");
    assert!(studio.studio.circuits.list().is_empty());
}

#[tokio::test]
async fn arguments_have_a_size() {
    let studio = TestStudio::with(Policy::default(), Settings::default());
    let echo = |length| studio.call(tools::ECHO, json!({ "text": "x".repeat(length) }));
    let answer = echo(ARGUMENT_BYTES).await;
    let refused = error(&answer);
    assert_eq!(refused.code, Code::BadInput);
    assert!(refused.message.contains("too large"), "{}", refused.message);
    value(&echo(90_000).await);
}

fn deny(tool: &str) -> Policy {
    let rule = Rule {
        tool: Some(Pattern::parse(tool)),
        principal: None,
        tier: None,
        args: Vec::new(),
        decision: Some(Decision::Deny),
        channel: None,
    };
    Policy { rules: vec![rule], ..Policy::default() }
}

#[tokio::test]
async fn policy_refuses_before_limits_and_handler_but_never_the_panic_button() {
    let studio = TestStudio::with(deny("test.*"), Settings::default());
    let reply = studio.call(tools::ECHO, json!({ "text": "x" })).await;
    assert_eq!(error(&reply).code, Code::Denied);
    assert_eq!(error(&reply).message, "test.echo is refused by rule 1 of the policy");
    assert_eq!(results(&studio)[0].1, AuditResult::Denied);
    value(&studio.call(tools::ALWAYS, json!({ "text": "x" })).await);
}

#[tokio::test]
async fn a_principal_has_its_own_bucket() {
    let rate = Rate { per_minute: 60, burst: 3 };
    let settings = Settings { limits: Limits { read: rate, effect: rate, ..Limits::default() }, ..Settings::default() };
    let studio = TestStudio::with(Policy::default(), settings);
    let echo = |who: &str| Call::new(principal(who), tools::ECHO, json!({ "text": "x" }));
    for _ in 0..3 {
        value(&pipeline::run(&studio.studio, echo("a")).await);
    }
    let reply = pipeline::run(&studio.studio, echo("a")).await;
    assert_eq!((error(&reply).code, error(&reply).retry_after_ms), (Code::RateLimited, Some(1000)));
    value(&pipeline::run(&studio.studio, echo("b")).await);
    value(&pipeline::run(&studio.studio, Call::new(principal("a"), tools::ALWAYS, json!({ "text": "x" }))).await);
    studio.time.advance(Duration::from_secs(1));
    value(&pipeline::run(&studio.studio, echo("a")).await);
}

#[tokio::test]
async fn slots_are_counted_and_given_back() {
    let settings = Settings { limits: Limits { in_flight: 1, ..Limits::default() }, ..Settings::default() };
    let studio = TestStudio::with(Policy::default(), settings);
    let slow = tokio::spawn({
        let studio = Arc::clone(&studio.studio);
        async move { pipeline::run(&studio, Call::new(principal("a"), tools::SLOW, json!({}))).await }
    });
    studio.runs.until(tools::SLOW, 1).await;
    assert_eq!(error(&studio.call(tools::ECHO, json!({ "text": "x" })).await).code, Code::Busy);
    studio.runs.release.notify_one();
    value(&slow.await.expect("ends"));
    value(&studio.call(tools::ECHO, json!({ "text": "x" })).await);
    assert_eq!(studio.studio.traffic.running(), 0);
}

#[tokio::test]
async fn an_open_circuit_enters_no_handler_and_fifty_calls_make_one_probe() {
    let studio = TestStudio::new();
    for _ in 0..5 {
        assert_eq!(error(&studio.call(tools::FAIL_EFFECT, json!({ "code": "INTERNAL" })).await).code, Code::Internal);
    }
    let reply = studio.call(tools::FAIL_EFFECT, json!({ "good_from": 1 })).await;
    let open = error(&reply);
    assert_eq!((open.code, open.retry_after_ms), (Code::CircuitOpen, Some(30_000)));
    assert_eq!(open.extras.cause.as_ref().map(|it| it.code), Some(Code::Internal));
    assert_eq!(studio.runs.of(tools::FAIL_EFFECT), 5);
    studio.time.advance(Duration::from_secs(30));
    let fifty = (0..50).map(|_| studio.call(tools::FAIL_EFFECT, json!({ "code": "INTERNAL" })));
    let replies = futures_util::future::join_all(fifty).await;
    assert_eq!(replies.iter().filter(|it| error(it).code == Code::Internal).count(), 1);
    assert_eq!(studio.runs.of(tools::FAIL_EFFECT), 6);
    studio.time.advance(Duration::from_secs(30));
    value(&studio.call(tools::FAIL_EFFECT, json!({ "good_from": 1 })).await);
    value(&studio.call(tools::FAIL_EFFECT, json!({ "good_from": 1 })).await);
}

#[tokio::test]
async fn failures_of_the_caller_never_trip_a_breaker() {
    let studio = TestStudio::new();
    for code in [
        "HOST_OFFLINE",
        "BAD_INPUT",
        "NOT_FOUND",
        "STALE_REFERENCE",
        "WRONG_TYPE",
        "UNSUPPORTED",
        "SDK_REJECTED",
        "BUSY",
    ] {
        for _ in 0..10 {
            // The clock does not advance here, so a retry would never run.
            assert_eq!(error(&studio.call(tools::FAIL, json!({ "code": code })).await).code.as_str(), code);
        }
    }
    assert!(studio.studio.circuits.list().iter().all(|it| it.failures_total == 0));
}

/// Adds a tool that fails for hosts whose name starts with `bad`. The host is the target of a call.
fn dial(studio: &TestStudio) {
    let dial =
        Definition::new("test.dial", Tier::Stateful, "daemon", |_, _, arguments: serde_json::Value| async move {
            match arguments["host"].as_str() {
                Some(host) if host.starts_with("bad") => Err(ToolError::new(Code::Internal, format!("{host} hangs"))),
                Some(_) | None => Ok(json!({}).into()),
            }
        })
        .text("Dial", "Dials. For tests.")
        .input(
            json!({ "type": "object", "properties": { "host": { "type": "string" } }, "additionalProperties": false }),
        )
        .target(|_, call| Target::keyed(call.arguments["host"].as_str().unwrap_or_default()));
    studio.studio.edit_catalog(|catalog| catalog.add(Tool::new(dial.clone()).expect("sound"))).expect("new");
}

#[tokio::test]
async fn a_breaker_is_for_one_target_and_its_changes_are_recorded() {
    let studio = TestStudio::new();
    dial(&studio);
    let call = |host: &'static str| studio.call("test.dial", json!({ "host": host }));
    for _ in 0..5 {
        assert_eq!(error(&call("bad").await).code, Code::Internal);
    }
    let refused = call("bad").await;
    assert_eq!(error(&refused).code, Code::CircuitOpen);
    assert!(error(&refused).message.starts_with("test.dial is disabled for bad after 5 "), "{:?}", error(&refused));
    value(&call("good").await);
    value(&call("").await);
    let listed = studio.studio.circuits.list();
    let of = listed.iter().find(|it| it.tool == "test.dial").expect("listed");
    assert_eq!((of.state, of.failures_total, of.trips_total), (BreakerState::Tripped, 5, 1));
    let targets: Vec<_> = of.targets.iter().map(|it| (it.target.as_str(), it.state, it.failures_total)).collect();
    assert_eq!(targets, [("bad", BreakerState::Tripped, 5), ("good", BreakerState::Passing, 0)]);
    studio.time.advance(Duration::from_secs(30));
    assert_eq!(error(&call("bad").await).code, Code::Internal, "the probe did not run");
    studio.studio.circuits.reset("test.dial");
    let events: Vec<_> = studio.journal.events();
    let circuit: Vec<_> = events.iter().filter(|it| it.1.as_str().starts_with("circuit.")).collect();
    assert_eq!(circuit.len(), 2, "{events:?}");
    assert_eq!(circuit[0].1.as_str(), "circuit.tripped");
    assert_eq!(circuit[0].2, json!({ "tool": "test.dial", "target": "bad", "cause": "INTERNAL" }));
}

#[tokio::test]
async fn a_closed_circuit_is_recorded_too() {
    let studio = TestStudio::new();
    for _ in 0..5 {
        studio.call(tools::FAIL_EFFECT, json!({})).await;
    }
    studio.time.advance(Duration::from_secs(30));
    value(&studio.call(tools::FAIL_EFFECT, json!({ "good_from": 1 })).await);
    let events: Vec<String> = studio.journal.events().iter().map(|it| it.1.as_str().to_owned()).collect();
    assert_eq!(events, ["circuit.tripped", "circuit.closed"]);
}

/// Callers choose the targets, so their number is limited. All further targets share one breaker.
#[tokio::test]
async fn inventing_targets_neither_grows_memory_nor_escapes_the_breaker() {
    let effect = Rate { per_minute: 1_000_000, burst: 1_000_000 };
    let limits = Limits { effect, ..Limits::default() };
    let studio = TestStudio::with(Policy::default(), Settings { limits, ..Settings::default() });
    dial(&studio);
    for n in 0..300 {
        value(&studio.call("test.dial", json!({ "host": format!("h{n}{}", "x".repeat(500)) })).await);
    }
    for n in 0..100 {
        for _ in 0..5 {
            studio.call("test.dial", json!({ "host": format!("bad{n}") })).await;
        }
    }
    let listed = studio.studio.circuits.list();
    let of = listed.iter().find(|it| it.tool == "test.dial").expect("listed");
    assert!(of.targets.len() <= 65, "{}", of.targets.len());
    assert!(of.targets.iter().all(|it| it.target.chars().count() < 250));
    assert_eq!(error(&studio.call("test.dial", json!({ "host": "bad-new" })).await).code, Code::CircuitOpen);
}

#[tokio::test]
async fn an_offline_host_answers_at_once_and_is_not_tried_again() {
    let studio = TestStudio::new();
    assert_eq!(error(&studio.call(tools::FAIL, json!({ "code": "HOST_OFFLINE" })).await).code, Code::HostOffline);
    assert_eq!(studio.runs.of(tools::FAIL), 1);
}

#[tokio::test]
async fn a_reset_voids_what_ran_before_it() {
    let studio = TestStudio::new();
    for _ in 0..5 {
        studio.call(tools::FAIL_EFFECT, json!({ "code": "INTERNAL" })).await;
    }
    assert!(studio.studio.circuits.reset(tools::FAIL_EFFECT));
    value(&studio.call(tools::FAIL_EFFECT, json!({ "good_from": 1 })).await);
    assert!(!studio.studio.circuits.reset("nothing"));
}

#[tokio::test]
async fn a_safe_tool_is_tried_three_times_at_exact_moments_and_an_effect_once() {
    let studio = TestStudio::new();
    let call = studio.call(tools::FAIL, json!({ "code": "INTERNAL", "good_from": 3 }));
    let mut waits = Vec::new();
    let (reply, ()) = tokio::join!(call, async {
        while waits.len() < 2 {
            // The deadline is a timer too. After the handler has ended, the retry is the next
            // timer.
            let wait = studio.time.until_someone_sleeps().await;
            if wait >= Duration::from_secs(20) {
                tokio::task::yield_now().await;
                continue;
            }
            waits.push(wait);
            studio.time.advance(wait);
        }
    });
    assert_eq!(value(&reply), &json!({ "attempt": 3 }));
    let (first, second) = (waits[0].as_millis(), waits[1].as_millis());
    assert!((500..1000).contains(&first) && (1000..1500).contains(&second), "{waits:?}");
    assert_eq!(results(&studio), [(tools::FAIL.to_owned(), AuditResult::Ok, 3)]);
    studio.call(tools::FAIL_EFFECT, json!({ "code": "INTERNAL" })).await;
    assert_eq!(studio.runs.of(tools::FAIL_EFFECT), 1);
}

#[tokio::test]
async fn a_panic_is_internal_and_says_nothing_of_itself() {
    let studio = TestStudio::new();
    let reply = studio.call(tools::PANIC, json!({})).await;
    let error = error(&reply);
    assert_eq!((error.code, error.effect), (Code::Internal, Some(Effect::Unknown)));
    assert!(!error.message.contains("panic on request"));
    assert_eq!(phases(&studio), ["intent", "outcome"]);
    value(&studio.call(tools::ECHO, json!({ "text": "still here" })).await);
}

#[tokio::test]
async fn the_deadline_stops_the_work() {
    let studio = TestStudio::new();
    for (tool, effect) in [(tools::SLOW_EFFECT, Some(Effect::Unknown))] {
        let (reply, ()) = tokio::join!(studio.call(tool, json!({ "stubborn": true })), async {
            studio.time.until_someone_sleeps().await;
            studio.time.advance(Duration::from_secs(30));
        });
        assert_eq!((error(&reply).code, error(&reply).effect), (Code::Timeout, effect));
    }
    assert_eq!(results(&studio)[0].1, AuditResult::Timeout);
}

fn cancellable(tool: &str, arguments: Value) -> (Call, CancellationToken) {
    let call = Call::new(principal("a"), tool, arguments);
    let cancel = call.cancel.clone();
    (call, cancel)
}

#[tokio::test]
async fn cancelled_before_during_and_after() {
    let studio = TestStudio::new();
    let (call, cancel) = cancellable(tools::SET, json!({ "text": "x" }));
    cancel.cancel();
    assert_eq!(pipeline::run(&studio.studio, call).await.outcome(), &Outcome::Cancelled);
    assert_eq!(studio.runs.of(tools::SET), 0);
    assert_eq!(phases(&studio), ["outcome"], "a call that did not run has an intent");
    // A handler that reacts to the cancellation stops without an effect.
    let (call, cancel) = cancellable(tools::SLOW_EFFECT, json!({}));
    let (reply, ()) = tokio::join!(pipeline::run(&studio.studio, call), async {
        studio.runs.until(tools::SLOW_EFFECT, 1).await;
        cancel.cancel();
    });
    assert_eq!(reply.outcome(), &Outcome::Cancelled);
    // A handler that ignores the cancellation is killed after the grace period; its effect is
    // unknown.
    let (call, cancel) = cancellable(tools::SLOW_EFFECT, json!({ "stubborn": true }));
    let (reply, ()) = tokio::join!(pipeline::run(&studio.studio, call), async {
        studio.runs.until(tools::SLOW_EFFECT, 2).await;
        cancel.cancel();
        while studio.time.next_wake() != Some(Duration::from_secs(2)) {
            tokio::task::yield_now().await;
        }
        studio.time.advance(Duration::from_secs(2));
    });
    assert_eq!(reply.outcome(), &Outcome::Cancelled);
    let effects: Vec<_> = studio
        .journal
        .written()
        .into_iter()
        .filter_map(|it| match it {
            Written::Intent(_) => None,
            Written::Outcome(_, outcome) => Some((outcome.result, outcome.effect)),
        })
        .collect();
    assert_eq!(
        effects,
        [
            (AuditResult::Cancelled, None),
            (AuditResult::Cancelled, Some(Effect::None)),
            (AuditResult::Cancelled, Some(Effect::Unknown))
        ]
    );
    assert!(studio.studio.circuits.list().iter().all(|it| it.failures_total == 0));
}

#[tokio::test]
async fn a_dropped_caller_drops_nothing() {
    let studio = TestStudio::new();
    let running = tokio::spawn({
        let studio = Arc::clone(&studio.studio);
        async move { pipeline::run(&studio, Call::new(principal("a"), tools::SLOW_EFFECT, json!({}))).await }
    });
    studio.runs.until(tools::SLOW_EFFECT, 1).await;
    running.abort();
    studio.runs.release.notify_one();
    while phases(&studio).len() < 2 {
        tokio::task::yield_now().await;
    }
    assert_eq!(results(&studio), [(tools::SLOW_EFFECT.to_owned(), AuditResult::Ok, 1)]);
}

#[tokio::test]
async fn without_a_log_nothing_runs_and_an_unwritten_outcome_says_what_was_done() {
    let studio = TestStudio::new();
    studio.journal.set_down(Some("disk full"));
    for tool in [tools::ECHO, tools::SET] {
        let reply = studio.call(tool, json!({ "text": "x" })).await;
        assert_eq!(error(&reply).code, Code::AuditUnavailable);
        assert_eq!(studio.runs.of(tool), 0);
    }
    studio.journal.set_down(None);
    studio.journal.set_outcome_down(Some("disk full"));
    let reply = studio.call(tools::SET, json!({ "text": "x" })).await;
    assert_eq!((error(&reply).code, error(&reply).effect), (Code::AuditUnavailable, Some(Effect::Done)));
    assert_eq!(studio.runs.of(tools::SET), 1);
}

#[tokio::test]
async fn the_tool_that_is_never_refused_runs_without_a_log_and_its_record_waits() {
    let studio = TestStudio::new();
    studio.journal.set_down(Some("disk full"));
    let reply = studio.call(tools::ALWAYS, json!({ "text": "x" })).await;
    assert_eq!((studio.runs.of(tools::ALWAYS), &value(&reply)["audit"]), (1, &json!("pending")));
    studio.journal.set_down(None);
    studio.journal.set_outcome_down(Some("disk full"));
    let reply = studio.call(tools::ALWAYS, json!({ "text": "x" })).await;
    assert_eq!(value(&reply)["audit"], "pending", "a failure of only the outcome record was not reported");
    let kept = studio.journal.kept();
    assert!(kept.iter().all(|(facts, outcome)| facts.tool == tools::ALWAYS && outcome.result == AuditResult::Ok));
    assert_eq!(kept.len(), 2);
    studio.journal.set_outcome_down(None);
    let reply = studio.call(tools::ALWAYS, json!({ "text": "x" })).await;
    assert_eq!((value(&reply).get("audit"), studio.journal.kept().len()), (None, 2));
    // All other tools are refused.
    studio.journal.set_down(Some("disk full"));
    let error = error(&studio.call(tools::SET, json!({ "text": "x" })).await).clone();
    assert_eq!((error.code, error.message.as_str()), (Code::AuditUnavailable, "disk full"));
}

/// A read that diagnoses the daemon runs at the human door, whatever the state of the log, the
/// policy and the limits. A model gets no additional access because of it.
#[tokio::test]
async fn a_diagnosis_runs_at_the_human_door_without_a_log_and_for_a_model_it_does_not() {
    let read = Rate { per_minute: 60, burst: 1 };
    let strict = Settings { limits: Limits { read, in_flight: 0, ..Limits::default() }, ..Settings::default() };
    for (policy, settings) in [(Policy::default(), Settings::default()), (deny("test.*"), strict)] {
        let studio = TestStudio::with(policy, settings);
        let runs = Arc::clone(&studio.runs);
        let mut definition = Definition::new("test.diagnose", Tier::ReadOnly, "daemon", move |_, _, arguments| {
            runs.note("test.diagnose", &arguments);
            async { Ok(json!({ "audit": "down" }).into()) }
        })
        .text("Diagnose", "Reports the state. For tests.");
        definition.availability = Availability::HumanDoor;
        studio.studio.edit_catalog(|catalog| catalog.add(Tool::new(definition).expect("sound"))).expect("new");
        let call = |principal| pipeline::run(&studio.studio, Call::new(principal, "test.diagnose", json!({})));
        studio.journal.set_down(Some("disk full"));
        for caller in [Principal::Cli { uid: 1 }, Principal::Person { uid: 1 }] {
            for _ in 0..3 {
                assert_eq!(value(&call(caller.clone()).await), &json!({ "audit": "down" }), "{caller}");
            }
        }
        assert!(studio.journal.kept().is_empty(), "a read used the space for the records of `conductor_panic`");
        for caller in [
            principal("a"),
            Principal::Http { token: "t".into() },
            Principal::Plugin { name: "p".into() },
            Principal::Webhook { name: "w".into() },
            Principal::Mapping { mode: "m".into(), id: "i".into() },
        ] {
            assert_eq!(error(&call(caller).await).code, Code::AuditUnavailable);
        }
        assert_eq!(studio.runs.of("test.diagnose"), 6);
        // With a log, the calls at the human door are recorded like all calls.
        studio.journal.set_down(None);
        value(&call(Principal::Cli { uid: 1 }).await);
        assert_eq!(results(&studio), [("test.diagnose".to_owned(), AuditResult::Ok, 1)]);
    }
}

/// AI clients that use every slot of the daemon do not lock out a person.
#[tokio::test]
async fn a_person_needs_no_slot() {
    let settings = Settings { limits: Limits { in_flight: 0, ..Limits::default() }, ..Settings::default() };
    let studio = TestStudio::with(Policy::default(), settings);
    let echo = |who| pipeline::run(&studio.studio, Call::new(who, tools::ECHO, json!({ "text": "x" })));
    value(&echo(Principal::Person { uid: 1 }).await);
    for other in [principal("a"), Principal::Cli { uid: 1 }] {
        assert_eq!(error(&echo(other).await).code, Code::Busy);
    }
}

#[tokio::test]
async fn a_plugin_that_changed_is_not_called() {
    let studio = TestStudio::new();
    let mut definition =
        Definition::new("weather.now", Tier::Stateful, "plugins", |_, _, _| async { Ok(json!({}).into()) })
            .text("Weather", "The weather.");
    definition.source = Source::Plugin { name: "weather".into(), code: Digest::of(b"code") };
    let tool = Tool::new(definition).expect("sound");
    studio.studio.edit_catalog(|catalog| catalog.add(tool)).expect("the name of the tool is already used");
    value(&studio.call("weather.now", json!({})).await);
    studio.studio.set_pin_faults(BTreeMap::from([(
        "weather".to_owned(),
        "weather.js is not the file that was enabled".to_owned(),
    )]));
    let reply = studio.call("weather_now", json!({})).await;
    assert_eq!(error(&reply).code, Code::PinMismatch);
    assert_eq!(results(&studio)[1].1, AuditResult::Denied);
}

#[tokio::test]
async fn a_resource_read_is_marked() {
    let studio = TestStudio::new();
    let mut call = Call::new(principal("a"), tools::ECHO, json!({ "text": "x" }));
    call.via = Via::Resource { uri: "test://echo".into() };
    pipeline::run(&studio.studio, call).await;
    let written = studio.journal.written();
    assert!(matches!(&written[..], [Written::Outcome(facts, _)] if facts.via.is_some()));
}

#[tokio::test]
async fn a_result_has_a_size() {
    let studio = TestStudio::new();
    let mut definition = Definition::new("test.big", Tier::ReadOnly, "daemon", |_, _, _| async {
        Ok(json!({ "x": "ü".repeat(2000) }).into())
    })
    .text("Big", "Too much.");
    definition.max_result_bytes = 1000;
    let mut of_plugin = definition.clone();
    of_plugin.name = "plug.big".into();
    of_plugin.source = Source::Plugin { name: "plug".into(), code: Digest::of(b"code") };
    for it in [definition, of_plugin] {
        studio
            .studio
            .edit_catalog(|catalog| catalog.add(Tool::new(it.clone()).expect("sound")))
            .expect("the name of the tool is already used");
    }
    assert_eq!(error(&studio.call("test.big", json!({})).await).code, Code::Unsupported);
    let reply = studio.call("plug.big", json!({})).await;
    assert_eq!(value(&reply)["truncated"], true);
    assert!(value(&reply)["text"].as_str().is_some_and(|it| it.len() <= 1003 && it.starts_with("{\"x\":\"ü")));
}

#[tokio::test]
async fn a_new_policy_rules_the_next_call() {
    let studio = TestStudio::new();
    value(&studio.call(tools::ECHO, json!({ "text": "x" })).await);
    studio.studio.set_policy(PolicyInForce { policy: deny(tools::ECHO), version: Digest::of(b"2") });
    assert_eq!(error(&studio.call(tools::ECHO, json!({ "text": "x" })).await).code, Code::Denied);
}
