//! `conductor_call_tool`: every step of the pipeline treats the call as the call that it contains.

use std::sync::Arc;
use std::time::Duration;

use conductor_core::audit::record::{CallFacts, Via as AuditVia};
use conductor_core::policy::limits::{Limits, Rate, Retry};
use conductor_core::policy::{Decision, Pattern, Policy, Rule, Tier};
use conductor_core::principal::Principal;
use conductor_gateway::catalog::Tool;
use conductor_gateway::catalog::names::{ReadOnly, Toolset};
use conductor_gateway::pipeline::relay::CALL_TOOL;
use conductor_gateway::pipeline::{self, Call, Outcome, Step};
use conductor_gateway::studio::Settings;
use conductor_testkit::studio::{TestStudio, Written, principal};
use conductor_testkit::tools;
use conductor_tools::daemon;
use proptest::prelude::*;
use serde_json::{Value, json};

fn studio(policy: Policy, settings: Settings) -> TestStudio {
    let studio = TestStudio::with(policy, settings);
    let added = |catalog: &mut conductor_gateway::catalog::Catalog| {
        catalog
            .add(Tool::new(daemon::call_tool()).expect("a sound tool"))
            .expect("the name of the tool is already used");
    };
    studio.studio.edit_catalog(added);
    studio
}

fn wrapped(call: Call) -> Call {
    let arguments = json!({ "tool": call.tool, "arguments": call.arguments });
    Call { tool: CALL_TOOL.to_owned(), arguments, ..call }
}

/// The reply and the effects of a call. A direct call and a wrapped call must have the same.
#[derive(Debug, PartialEq)]
struct Seen {
    outcome: Outcome,
    steps: Vec<Step>,
    written: Vec<String>,
    runs: usize,
    circuits: String,
    approvals: usize,
}

fn without_way(facts: &CallFacts) -> String {
    format!("{:?}", CallFacts { via: None, ..facts.clone() })
}

fn lines(studio: &TestStudio) -> Vec<String> {
    let line = |it: &Written| match it {
        Written::Intent(facts) => format!("intent {}", without_way(facts)),
        Written::Outcome(facts, outcome) => format!("outcome {} {outcome:?}", without_way(facts)),
    };
    studio.journal.written().iter().map(line).collect()
}

async fn seen(studio: &TestStudio, call: Call) -> Seen {
    let reply = pipeline::run(&studio.studio, call).await;
    Seen {
        steps: reply.steps().clone(),
        outcome: reply.into_outcome(),
        written: lines(studio),
        runs: studio.runs.all().len(),
        circuits: format!("{:?}", studio.studio.circuits.list()),
        approvals: studio.studio.approvals.store().read(|pending| pending.iter().count()),
    }
}

#[derive(Debug, Clone)]
enum Op {
    Call { who: u8, tool: &'static str, arguments: Value },
    Advance(u64),
    AuditDown(bool),
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
        tools::PICTURE,
        tools::ALWAYS,
        tools::HIDDEN,
        "no.such",
        "test_echo",
    ]);
    let arguments = prop_oneof![
        4 => "[a-c]{0,3}".prop_map(|text| json!({ "text": text })),
        3 => prop::sample::select(vec!["HOST_OFFLINE", "BAD_INPUT", "NOT_FOUND"]).prop_map(|code| json!({ "code": code })),
        1 => Just(json!({ "text": 5 })),
        1 => Just(json!({})),
    ];
    let call = (0u8..3, tool, arguments).prop_map(|(who, tool, arguments)| Op::Call { who, tool, arguments });
    prop_oneof![12 => call, 2 => (0u64..40_000).prop_map(Op::Advance), 1 => any::<bool>().prop_map(Op::AuditDown)]
}

fn policy() -> impl Strategy<Value = Policy> {
    let tool = prop::sample::select(vec!["test.*", tools::ECHO, tools::SET, tools::FAIL, CALL_TOOL, "conductor_*"]);
    let decision = prop::sample::select(vec![Decision::Allow, Decision::Ask, Decision::Deny]);
    let tier = prop::option::of(prop::sample::select(vec![Tier::ReadOnly, Tier::Stateful, Tier::HardwareIo]));
    let rule = (tool, decision, tier).prop_map(|(tool, decision, tier)| Rule {
        tool: Some(Pattern::parse(tool)),
        decision: Some(decision),
        tier,
        ..Rule::default()
    });
    prop::collection::vec(rule, 0..4).prop_map(|rules| Policy { rules, ..Policy::default() })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    /// Two studios make the same calls, one directly and one through `conductor_call_tool`. They
    /// must have equal replies, steps, records, runs, breakers and questions. A rule about
    /// `conductor_call_tool` itself has no effect.
    #[test]
    fn a_wrapped_call_is_the_call_itself(policy in policy(), burst in 1u32..12, ops in prop::collection::vec(op(), 1..24)) {
        let rate = Rate { per_minute: 60, burst };
        let settings = || Settings {
            limits: Limits { read: rate, effect: rate, ..Limits::default() },
            // The clock does not advance during a call, so a retry would wait forever.
            retry: Retry { attempts: 1, ..Retry::default() },
            ..Settings::default()
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let (direct, through) = (studio(policy.clone(), settings()), studio(policy, settings()));
            for op in ops {
                match op {
                    Op::Advance(ms) => {
                        for it in [&direct, &through] {
                            it.time.advance(Duration::from_millis(ms));
                        }
                    }
                    Op::AuditDown(down) => {
                        for it in [&direct, &through] {
                            it.journal.set_down(down.then_some("switched off"));
                        }
                    }
                    Op::Call { who, tool, arguments } => {
                        let call = || Call::new(principal(&format!("p{who}")), tool, arguments.clone());
                        let one = seen(&direct, call()).await;
                        prop_assert_eq!(one, seen(&through, wrapped(call())).await);
                    }
                }
            }
            let ways = through.journal.written();
            let ways = ways.iter().map(|it| match it {
                Written::Intent(facts) | Written::Outcome(facts, _) => facts.via,
            });
            prop_assert!(ways.into_iter().all(|it| it == Some(AuditVia::CallTool)), "a record does not name conductor_call_tool");
            Ok(())
        })?;
    }
}

fn code(outcome: Outcome) -> String {
    match outcome {
        Outcome::Done(Ok(_)) => "ok".to_owned(),
        Outcome::Done(Err(error)) => error.code.to_string(),
        Outcome::Cancelled => "cancelled".to_owned(),
        Outcome::Ask { .. } => "ask".to_owned(),
    }
}

#[tokio::test]
async fn nesting_mappings_and_plugins_are_refused_and_recorded() {
    let studio = studio(Policy::default(), Settings::default());
    let echo = || Call::new(principal("demo"), tools::ECHO, json!({ "text": "x" }));
    let run = async |call: Call| code(pipeline::run(&studio.studio, call).await.into_outcome());
    assert_eq!(run(wrapped(echo())).await, "ok");
    assert_eq!(run(wrapped(wrapped(echo()))).await, "DENIED");
    assert_eq!(run(wrapped(wrapped(wrapped(echo())))).await, "DENIED");
    for arguments in [
        json!({}),
        json!({ "tool": 1 }),
        json!({ "tool": "test.echo", "arguments": [] }),
        json!({ "tool": "test.echo", "x": 1 }),
    ] {
        assert_eq!(run(Call::new(principal("demo"), CALL_TOOL, arguments)).await, "BAD_INPUT");
    }
    let mapping = Principal::Mapping { mode: "Default".into(), id: "kick".into() };
    let plugin = Principal::Plugin { name: "weather".into() };
    for who in [mapping, plugin] {
        // Mappings and plugins may not use the wrapper, because the contained call would run with
        // their own principal.
        let call = Call { principal: who, ..echo() };
        assert_eq!(run(wrapped(call)).await, "DENIED");
    }
    assert_eq!(studio.runs.of(tools::ECHO), 1);
    let outcomes = studio.journal.written().iter().filter(|it| matches!(it, Written::Outcome(..))).count();
    assert_eq!(outcomes, 9, "not every call has exactly one outcome in the log");
}

/// `--tools`, `--exclude-tools` and `--read-only` remove tools for `conductor_call_tool` too.
#[tokio::test]
async fn a_removed_tool_cannot_be_called_through_it() {
    let studio = studio(Policy::default(), Settings::default());
    let parse = |words: &[&str]| {
        let words: Vec<String> = words.iter().map(|it| (*it).to_owned()).collect();
        Toolset::parse(&words, |name| studio.studio.catalog().get(name).is_some()).expect("known words")
    };
    let run = async |toolset: Toolset, tool: &str| {
        let call = Call::new(principal("demo"), tool, json!({ "text": "x" }));
        let call = Call { toolset: Arc::new(toolset), ..wrapped(call) };
        code(pipeline::run(&studio.studio, call).await.into_outcome())
    };
    let read_only = || Toolset::All.less(None, Some(ReadOnly::Plain));
    assert_eq!(run(read_only(), tools::ECHO).await, "ok");
    assert_eq!(run(read_only(), tools::SET).await, "NOT_FOUND");
    assert_eq!(run(read_only(), tools::ALWAYS).await, "ok");
    assert_eq!(run(Toolset::All.less(Some(parse(&["test_echo"])), None), tools::ECHO).await, "NOT_FOUND");
    assert_eq!(run(Toolset::All.less(Some(parse(&["patch"])), None), tools::PICTURE).await, "NOT_FOUND");
    assert_eq!(run(parse(&["test_echo", "conductor_call_tool"]), tools::ECHO).await, "ok");
    assert_eq!(run(parse(&["test_echo", "conductor_call_tool"]), tools::SET).await, "NOT_FOUND");
    assert_eq!(run(parse(&["test_echo"]), tools::ECHO).await, "NOT_FOUND", "conductor_call_tool is not removed");
}
