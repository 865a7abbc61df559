//! Invariants of the pipeline, checked with random calls from several principals.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use conductor_core::audit::record::{CallFacts, OutcomeFacts};
use conductor_core::breaker::State;
use conductor_core::error::{AuditResult, Code};
use conductor_core::policy::Policy;
use conductor_core::policy::limits::{Limits, Rate};
use conductor_gateway::pipeline::call::Outcome;
use conductor_gateway::pipeline::record::AuditSink as _;
use conductor_gateway::pipeline::{self, Call, Step};
use conductor_gateway::studio::Settings;
use conductor_testkit::studio::{TestStudio, Written, principal};
use conductor_testkit::tools;
use proptest::prelude::*;
use serde_json::{Value, json};

#[derive(Debug, Clone)]
enum Op {
    Call { who: u8, tool: &'static str, arguments: Value, cancel: bool, drop_caller: bool },
    Advance(u64),
    AuditDown(bool),
    Reset,
}

fn arguments(tool: &'static str) -> BoxedStrategy<Value> {
    let text = prop_oneof![4 => "[a-c]{0,3}".prop_map(|text| json!({ "text": text })), 1 => Just(json!({ "text": 5 })), 1 => Just(json!({}))];
    let code =
        prop_oneof![Just("HOST_OFFLINE"), Just("INTERNAL"), Just("BAD_INPUT"), Just("NOT_FOUND"), Just("UNSUPPORTED")];
    match tool {
        tools::FAIL | tools::FAIL_EFFECT => (
            code,
            prop_oneof![
                Just(json!({})),
                Just(json!({ "good_from": 1 })),
                Just(json!({ "good_from": 2 })),
                Just(json!({ "good_from": 0 }))
            ],
        )
            .prop_map(|(code, mut rest)| {
                rest["code"] = json!(code);
                rest
            })
            .boxed(),
        tools::PANIC => Just(json!({})).boxed(),
        _ => text.boxed(),
    }
}

fn op() -> impl Strategy<Value = Op> {
    let tool = prop::sample::select(vec![
        tools::ECHO,
        tools::SET,
        tools::PLAN,
        tools::DANGER,
        tools::ASK,
        tools::FAIL,
        tools::FAIL_EFFECT,
        tools::PANIC,
        tools::HIDDEN,
        "no.such",
        "test_echo",
    ]);
    let call = (0u8..3, tool, any::<bool>(), any::<bool>())
        .prop_flat_map(|(who, tool, a, b)| (Just(who), Just(tool), arguments(tool), Just(a && b), Just(a && !b)))
        .prop_map(|(who, tool, arguments, cancel, drop_caller)| Op::Call { who, tool, arguments, cancel, drop_caller });
    prop_oneof![12 => call, 2 => (0u64..40_000).prop_map(Op::Advance), 1 => any::<bool>().prop_map(Op::AuditDown), 1 => Just(Op::Reset)]
}

/// Runs calls in small concurrent groups. While a call waits, time advances to its next wake-up.
async fn play(ops: Vec<Op>) -> Result<(), TestCaseError> {
    let rate = Rate { per_minute: 120, burst: 20 };
    let limits = Limits { read: rate, effect: rate, in_flight: 4, ..Limits::default() };
    let studio = TestStudio::with(Policy::default(), Settings { limits, ..Settings::default() });
    let mut sent = 0usize;
    let mut unrecordable = 0usize;
    let mut down = false;
    for group in ops.chunks(4) {
        let mut running = Vec::new();
        for op in group {
            match op {
                Op::Advance(ms) => studio.time.advance(Duration::from_millis(*ms)),
                Op::AuditDown(state) => {
                    // The log must not change its state during a call.
                    all_ended(&studio, sent).await;
                    down = *state;
                    studio.journal.set_down(state.then_some("switched off"));
                }
                Op::Reset => studio.studio.circuits.reset_all(),
                Op::Call { who, tool, arguments, cancel, drop_caller } => {
                    sent += 1;
                    unrecordable += usize::from(down);
                    let call = Call::new(principal(&format!("p{who}")), *tool, arguments.clone());
                    if *cancel {
                        call.cancel.cancel();
                    }
                    let inner = Arc::clone(&studio.studio);
                    let task = tokio::spawn(async move { pipeline::run(&inner, call).await });
                    if *drop_caller {
                        tokio::task::yield_now().await;
                        task.abort();
                    } else {
                        running.push(task);
                    }
                }
            }
        }
        for task in running {
            if let Some(reply) = settle(&studio, task).await {
                let steps = reply.steps();
                let ordered = steps.iter().map(|it| Step::ALL.iter().position(|known| known == it)).collect::<Vec<_>>();
                prop_assert!(ordered.windows(2).all(|pair| pair[0] < pair[1]), "the steps are not in order: {steps:?}");
                prop_assert_eq!(steps.last(), Some(&Step::Respond));
                if matches!(reply.outcome(), Outcome::Done(Ok(_))) {
                    prop_assert_eq!(steps.as_slice(), Step::ALL);
                }
            }
        }
    }
    all_ended(&studio, sent).await;
    check(&studio, sent, unrecordable)
}

/// Waits until all calls have ended, including those whose caller disconnected.
async fn all_ended(studio: &TestStudio, sent: usize) {
    while ended(studio) < sent as u64 {
        advance_if_asleep(studio);
        tokio::task::yield_now().await;
    }
}

/// The number of ended calls: the sum of the counter over all tools and results.
fn ended(studio: &TestStudio) -> u64 {
    let page = conductor_gateway::studio::meters::exposition(&studio.studio);
    let counted = page.lines().filter(|line| line.starts_with("conductor_tool_calls_total{"));
    counted.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
}

fn advance_if_asleep(studio: &TestStudio) {
    if let Some(wait) = studio.time.next_wake()
        && wait < Duration::from_secs(20)
    {
        studio.time.advance(wait);
    }
}

async fn settle(studio: &TestStudio, task: tokio::task::JoinHandle<pipeline::Reply>) -> Option<pipeline::Reply> {
    while !task.is_finished() {
        advance_if_asleep(studio);
        tokio::task::yield_now().await;
    }
    task.await.ok()
}

fn check(studio: &TestStudio, sent: usize, unrecordable: usize) -> Result<(), TestCaseError> {
    let written = studio.journal.written();
    let mut outcomes = HashMap::new();
    let mut intents = HashMap::new();
    for (at, it) in written.iter().enumerate() {
        match it {
            Written::Intent(facts) => prop_assert!(intents.insert(facts.call, at).is_none(), "a call has two intents"),
            Written::Outcome(facts, outcome) => {
                prop_assert!(
                    outcomes.insert(facts.call, (at, facts.clone(), outcome.clone())).is_none(),
                    "a call has two outcomes"
                );
            }
        }
    }
    prop_assert_eq!(outcomes.len() + unrecordable, sent, "a call has no record");
    let catalog = studio.studio.catalog();
    let mut allowed: HashMap<String, usize> = HashMap::new();
    for (call, (at, facts, outcome)) in &outcomes {
        if let Some(intent) = intents.get(call) {
            prop_assert!(intent < at, "an outcome was recorded before its intent");
        }
        let Some(tool) = catalog.get(&facts.tool) else {
            prop_assert_eq!(outcome.attempts, 0, "an unknown tool ran");
            continue;
        };
        *allowed.entry(tool.name.to_string()).or_default() += outcome.attempts as usize;
        let effectful = pipeline::is_effectful(tool);
        prop_assert!(!(outcome.attempts > 0 && effectful) || intents.contains_key(call), "an effect has no intent");
        prop_assert!(
            !effectful || tool.idempotent || outcome.attempts <= 1,
            "a tool that is not safe to repeat ran twice"
        );
        prop_assert!(outcome.code != Some(Code::BadInput) || outcome.attempts <= 1);
    }
    for (tool, _) in studio.runs.all() {
        let left = allowed.get_mut(&tool);
        prop_assert!(left.as_ref().is_some_and(|left| **left > 0), "{tool} ran without a record");
        if let Some(left) = left {
            *left -= 1;
        }
    }
    for never in [tools::DANGER, tools::ASK, tools::HIDDEN] {
        prop_assert_eq!(studio.runs.of(never), 0, "{} ran without an approval", never);
    }
    for circuit in studio.studio.circuits.list() {
        let counted = matches!(circuit.tool.as_str(), tools::FAIL | tools::FAIL_EFFECT | tools::PANIC);
        prop_assert!(counted || (circuit.state == State::Passing && circuit.failures_total == 0), "{circuit:?}");
        prop_assert!(circuit.cause.as_ref().is_none_or(|(code, _)| code.counts_for_breaker()));
    }
    prop_assert_eq!(studio.studio.traffic.running(), 0, "a slot was not released");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn no_leave_no_run_no_call_without_record(ops in prop::collection::vec(op(), 1..40)) {
        std::panic::set_hook(Box::new(|_| {}));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let result = runtime.block_on(play(ops));
        let _ = std::panic::take_hook();
        result?;
    }
}

/// Control of the checker above: it must reject each invalid history.
#[tokio::test]
async fn the_checker_finds_what_must_never_be() {
    let facts = |studio: &TestStudio, tool: &str, call: u128| {
        let found = studio.studio.catalog().get(tool).cloned();
        CallFacts {
            call: uuid::Uuid::from_u128(call),
            principal: principal("p0"),
            conn: None,
            tool: tool.to_owned(),
            tier: found.as_ref().map(|it| it.tier),
            pin: found.as_ref().map(|it| it.pin),
            input_hash: studio.journal.hash_input(&json!({})),
            input: None,
            via: None,
            script: None,
            approval: None,
        }
    };
    let ended = |attempts| OutcomeFacts {
        result: AuditResult::Ok,
        code: None,
        effect: None,
        attempts,
        duration_ms: 0,
        output_bytes: 0,
    };
    // A valid history passes.
    let studio = TestStudio::new();
    let journal = &studio.journal;
    studio.runs.note(tools::SET, &json!({}));
    journal.intent(facts(&studio, tools::SET, 1)).await.expect("written");
    journal.outcome(facts(&studio, tools::SET, 1), ended(1), true).await.expect("written");
    check(&studio, 1, 0).expect("a valid history was rejected");
    // A call without a record.
    assert!(check(&studio, 2, 0).is_err());
    // A run without a record.
    studio.runs.note(tools::SET, &json!({}));
    assert!(check(&studio, 1, 0).is_err());
    // An effect without an intent.
    let studio = TestStudio::new();
    studio.runs.note(tools::SET, &json!({}));
    studio.journal.outcome(facts(&studio, tools::SET, 1), ended(1), true).await.expect("written");
    assert!(check(&studio, 1, 0).is_err());
    // A tool that is not safe to repeat ran twice.
    let studio = TestStudio::new();
    studio.journal.intent(facts(&studio, tools::SET, 1)).await.expect("written");
    studio.journal.outcome(facts(&studio, tools::SET, 1), ended(2), true).await.expect("written");
    assert!(check(&studio, 1, 0).is_err());
    // A tool that needs approval ran without one.
    let studio = TestStudio::new();
    studio.runs.note(tools::DANGER, &json!({}));
    studio.journal.intent(facts(&studio, tools::DANGER, 1)).await.expect("written");
    studio.journal.outcome(facts(&studio, tools::DANGER, 1), ended(1), true).await.expect("written");
    assert!(check(&studio, 1, 0).is_err());
}
