//! Every real tool under random policies, in three ways: as a direct call, through
//! `conductor_call_tool`, and from a script. All three meet the same policy, tier, limits, circuit
//! breaker, approval and record.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use conductor_core::digest::Digest;
use conductor_core::error::{Code, ToolError};
use conductor_core::pending::{Kind, State, Yes};
use conductor_core::policy::limits::{Class, Limits, Rate, Retry};
use conductor_core::policy::{Channel, Decision, Floor, Pattern, Policy, Rule, Tier};
use conductor_core::principal::Principal;
use conductor_core::script::NESTING_TOOLS;
use conductor_gateway::catalog::names::Toolset;
use conductor_gateway::pipeline::call::Outcome;
use conductor_gateway::pipeline::relay::CALL_TOOL;
use conductor_gateway::pipeline::{self, Call};
use conductor_gateway::script::function_of;
use conductor_gateway::studio::{PolicyInForce, Settings, Studio};
use conductor_hosts::system::{Clock, ManualClock};
use conductor_testkit::daemon::{Setup, TestDaemon};
use conductor_testkit::studio::principal;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Map, Value, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_conductor");
const RUN_SCRIPT: &str = "conductor_run_script";
/// Limit in real time for one call. No assertion depends on it.
const PATIENCE: Duration = Duration::from_secs(120);
/// Number of parts of the catalog. Each part runs under its own policy and its own limits.
const PARTS: usize = 4;

/// The limit of AbletonOSC is short: Wine does not report that no Live listens.
const CONFIG: &str = r#"schema = 1
[audit]
detail = "full"
[live.osc]
timeout_ms = 100
[tools.web]
timeout_ms = 100
allow_hosts = ["127.0.0.1:1", "SILENT"]
http_hosts = ["127.0.0.1:1", "SILENT"]
[[devices]]
alias = "pads"
direction = "Input"
loopback = true
[[devices]]
alias = "synth"
direction = "Output"
loopback = true
[[modes]]
name = "Default"
[[modes.mappings]]
id = "one"
trigger = { type = "Note", note = 1 }
action = { type = "Text", text = "1" }
"#;

/// A tool call, and the answer of the person if the call needs an approval.
#[derive(Debug, Clone)]
struct Step {
    tool: String,
    arguments: Value,
    person: Person,
    /// How often the call is made, so that limits and circuit breakers are reached.
    times: usize,
    /// Time that passes before the call.
    pause_ms: u64,
}

#[derive(Debug, Clone, Copy)]
enum Person {
    Allows,
    Denies,
}

#[derive(Debug, Clone)]
struct Force {
    policy: Policy,
    limits: Limits,
    failures: u32,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Way {
    Direct,
    CallTool,
    Script,
}

/// A value for the schema: the required members only, and `synth` in every string.
fn fill(schema: &Value, depth: usize) -> Value {
    if let Some(fixed) = schema.get("const") {
        return fixed.clone();
    }
    if let Some(choices) = schema["enum"].as_array() {
        return choices.first().cloned().unwrap_or(Value::Null);
    }
    for either in ["anyOf", "oneOf"] {
        if let Some(first) = schema[either].as_array().and_then(|it| it.first()).filter(|it| it.get("type").is_some()) {
            return fill(first, depth);
        }
    }
    let names: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    match schema["type"].as_str().unwrap_or("string") {
        "object" if depth < 4 => {
            let members: Map<String, Value> =
                names.iter().map(|it| ((*it).to_owned(), fill(&schema["properties"][*it], depth + 1))).collect();
            Value::Object(members)
        }
        "array" if depth < 4 => json!([fill(&schema["items"], depth + 1)]),
        "object" => json!({}),
        "array" => json!([]),
        "integer" | "number" => schema.get("minimum").cloned().unwrap_or(json!(1)),
        "boolean" => json!(true),
        _ => json!("synth"),
    }
}

/// One step per tool, in random order.
fn steps(tools: Vec<(String, Value)>) -> impl Strategy<Value = Vec<Step>> {
    let count = tools.len();
    let person = prop_oneof![3 => Just(Person::Allows), 1 => Just(Person::Denies)];
    let times = prop_oneof![5 => Just(1usize), 1 => Just(3)];
    let pause_ms = prop_oneof![4 => Just(0u64), 1 => 0u64..40_000];
    let how = (person, times, pause_ms, prop::bool::weighted(0.15));
    (Just(tools).prop_shuffle(), prop::collection::vec(how, count)).prop_map(|(tools, how)| {
        let step = |((tool, arguments), (person, times, pause_ms, wrong)): ((String, Value), _)| {
            let arguments = if wrong { json!({ "no such argument": 1 }) } else { arguments };
            Step { tool, arguments, person, times, pause_ms }
        };
        tools.into_iter().zip(how).map(step).collect()
    })
}

fn rule(patterns: Vec<String>) -> impl Strategy<Value = Rule> {
    let tier = select(vec![Tier::ReadOnly, Tier::Stateful, Tier::ConfigChange, Tier::HardwareIo]);
    let who = prop::option::weighted(0.3, select(vec!["socket:1000/*", "http:*"]));
    let decision = select(vec![Decision::Allow, Decision::Ask, Decision::Ask, Decision::Deny]);
    let channel = prop::option::weighted(0.2, select(vec![Floor::Local, Floor::Pad]));
    (select(patterns), prop::option::weighted(0.4, tier), who, decision, channel).prop_map(
        |(tool, tier, who, decision, channel)| Rule {
            tool: Some(Pattern::parse(&tool)),
            tier,
            principal: who.map(Pattern::parse),
            decision: Some(decision),
            channel,
            ..Rule::default()
        },
    )
}

fn force(patterns: Vec<String>) -> impl Strategy<Value = Force> {
    let burst = || select(vec![4u32, 20, 1000]);
    let asks = select(vec![2u32, 600]);
    (prop::collection::vec(rule(patterns), 0..6), burst(), burst(), asks, 1u32..4).prop_map(
        |(rules, read, effect, asks_per_minute, failures)| {
            let rate = |burst| Rate { per_minute: 30, burst };
            let limits = Limits { read: rate(read), effect: rate(effect), asks_per_minute, ..Limits::default() };
            Force::new(rules, limits, failures)
        },
    )
}

/// A rule about one tool.
fn rule_for(tool: &str, decision: Decision) -> Rule {
    Rule { tool: Some(Pattern::parse(tool)), decision: Some(decision), ..Rule::default() }
}

impl Force {
    fn new(mut rules: Vec<Rule>, limits: Limits, failures: u32) -> Self {
        // Policy decides about the script itself too, so a rule for it comes first. A rule about
        // `conductor_call_tool` has no effect.
        rules.insert(0, rule_for(RUN_SCRIPT, Decision::Allow));
        rules.insert(0, rule_for(CALL_TOOL, Decision::Deny));
        let limits = Limits { pending_per_principal: 32, ..limits };
        Force { policy: Policy { rules, ..Policy::default() }, limits, failures }
    }
}

/// Calls that in every run of the test use a host that is down, trip a circuit, need a person and
/// match a rule. `silent` is a host that accepts connections and never answers.
fn sure(silent: SocketAddr) -> (Vec<Step>, Force) {
    let step = |tool: &str, arguments: Value, times| Step {
        tool: tool.to_owned(),
        arguments,
        person: Person::Allows,
        times,
        pause_ms: 0,
    };
    let fetch = |address: &str, times| step("web.fetch", json!({ "url": format!("http://{address}/") }), times);
    let steps = vec![
        // Nothing listens on this port. The breaker does not count a host that is offline.
        fetch("127.0.0.1:1", 4),
        // Two timeouts trip the circuit of this host.
        fetch(&silent.to_string(), 4),
        // After `open_ms`, one call is let through as a test. It fails, and the circuit stays open.
        Step { pause_ms: 20_000, ..fetch(&silent.to_string(), 2) },
        // The circuits of other hosts are not affected.
        fetch("127.0.0.1:1", 1),
        step("conductor_send_sysex", json!({ "port": "synth", "data": [0x7D, 1] }), 1),
        step("conductor_switch_mode", json!({ "mode": "Default" }), 1),
    ];
    let rules = vec![rule_for("web.fetch", Decision::Allow), rule_for("conductor_switch_mode", Decision::Deny)];
    (steps, Force::new(rules, Limits::default(), 2))
}

/// A daemon whose calls are all made in one way.
struct Side {
    way: Way,
    daemon: TestDaemon,
    clock: Arc<ManualClock>,
}

impl Side {
    fn new(way: Way, silent: SocketAddr) -> Self {
        let clock = ManualClock::at_wall_ms(1_800_000_000_000);
        let setup = Setup { clock: clock.clone() as Arc<dyn Clock>, ..Setup::default() };
        let daemon = TestDaemon::start_with(setup, &CONFIG.replace("SILENT", &silent.to_string()));
        daemon.gateway().scripts.use_program(PathBuf::from(PROGRAM));
        Side { way, daemon, clock }
    }

    fn studio(&self) -> Arc<Studio> {
        Arc::clone(&self.daemon.gateway().studio)
    }

    fn set(&self, force: &Force, version: &str) {
        let studio = self.studio();
        let mut settings = Settings { limits: force.limits.clone(), ..(*studio.settings()).clone() };
        // The clock does not advance during a call, so a pause before a retry would never end.
        settings.retry = Retry { attempts: 1, ..Retry::default() };
        settings.circuit.base.failures = force.failures;
        settings.circuit.tools.values_mut().for_each(|it| it.failures = force.failures);
        let patient = conductor_core::breaker::Settings { failures: 1000, ..settings.circuit.base };
        settings.circuit.tools.insert(RUN_SCRIPT.to_owned(), patient);
        studio.set_settings(settings);
        studio.set_policy(PolicyInForce { policy: force.policy.clone(), version: Digest::of(version.as_bytes()) });
    }

    fn call(&self, who: &Principal, tool: &str, arguments: Value) -> Result<Value, ToolError> {
        let (studio, call) = (self.studio(), Call::new(who.clone(), tool, arguments));
        let name = tool.to_owned();
        self.daemon.block_on(async move {
            let run = tokio::time::timeout(PATIENCE, pipeline::run(&studio, call));
            match run.await.unwrap_or_else(|_| panic!("{name} did not end")).into_outcome() {
                Outcome::Done(done) => done.map(|it| it.value),
                Outcome::Cancelled | Outcome::Ask { .. } => panic!("{name} has no answer"),
            }
        })
    }

    /// Makes the call once, in the way of this side. A script itself counts as one more call with
    /// an effect, so the other sides use up one such call too.
    fn once(&self, who: &Principal, step: &Step, at: usize) -> Result<Value, ToolError> {
        let Step { tool, arguments, .. } = step;
        if self.way != Way::Script {
            let studio = self.studio();
            let limits = &studio.settings().limits;
            if studio.traffic.take(limits, who, Class::Effect, studio.now_ms()).is_err() {
                return Err(ToolError::new(Code::Busy, "no script would start"));
            }
        }
        match self.way {
            Way::Direct => self.call(who, tool, arguments.clone()),
            Way::CallTool => self.call(who, CALL_TOOL, json!({ "tool": tool, "arguments": arguments })),
            Way::Script => {
                let (set, verb) = {
                    let studio = self.studio();
                    let catalog = studio.catalog();
                    let (set, verb) = function_of(catalog.get(tool).expect("the tool is not listed"));
                    (set.to_owned(), verb)
                };
                // The script catches the error, so that its own circuit breaker does not count it.
                let code = format!(
                    "// {at}\ntry {{ await studio.{set}.{verb}({arguments}); return 'ok' }} catch (e) {{ return e.code }}"
                );
                match self.call(who, RUN_SCRIPT, json!({ "code": code })) {
                    Ok(report) if report["result"] == "ok" => Ok(Value::Null),
                    Ok(report) => {
                        let code = report["result"].as_str().and_then(|it| it.parse().ok());
                        Err(ToolError::new(code.unwrap_or_else(|| panic!("{report}")), "thrown in the script"))
                    }
                    // The rate limit refused the script itself.
                    Err(error) if error.code == Code::RateLimited && error.extras.more.get("calls").is_none() => {
                        Err(ToolError::new(Code::Busy, "no script would start"))
                    }
                    Err(error) => Err(error),
                }
            }
        }
    }

    /// The result codes of a step: of the call, and of the repeated call after the person's answer.
    fn step(&self, who: &Principal, step: &Step, at: usize) -> Vec<String> {
        self.clock.advance(Duration::from_millis(step.pause_ms));
        let code = |done: &Result<Value, ToolError>| match done {
            Ok(_) => "ok".to_owned(),
            Err(error) => error.code.to_string(),
        };
        let mut codes = Vec::new();
        for time in 0..step.times {
            let done = self.once(who, step, at * 10 + time);
            codes.push(code(&done));
            let question = done.err().filter(|it| it.code == Code::ApprovalRequired).and_then(|it| it.extras.question);
            if let Some(question) = question {
                let id = question.approval_id.parse().expect("an id");
                let studio = self.studio();
                let answered = self.daemon.block_on(async {
                    match step.person {
                        Person::Allows => {
                            studio.approvals.allow(&studio, id, Yes::once("person:1000", Channel::Cli)).await
                        }
                        Person::Denies => studio.approvals.deny(&studio, id, "person:1000", Channel::Cli).await,
                    }
                });
                codes.push(format!("answered: {}", answered.is_ok()));
                codes.push(code(&self.once(who, step, at * 10 + time)));
            }
        }
        codes
    }

    /// The text without the path of this side's home.
    fn without_home(&self, text: &str) -> String {
        let home = self.daemon.home.path().to_string_lossy().into_owned();
        // JSON and `Debug` escape the backslashes of Windows, and a text may be inside another.
        let once = home.replace('\\', r"\\");
        let twice = once.replace('\\', r"\\");
        [twice, once, home].iter().fold(text.to_owned(), |text, it| text.replace(it, "HOME"))
    }

    /// The records of the caller, without the members that differ between any two calls.
    fn records(&self, who: &Principal) -> Vec<String> {
        let log = self.daemon.audit_text();
        let records = log.lines().map(|it| serde_json::from_str::<Value>(it).expect("a record"));
        let of_caller = records.filter(|it| it["principal"] == who.to_string().as_str() && it["tool"] != RUN_SCRIPT);
        let mut shown = Vec::new();
        for record in of_caller {
            let is_call = record["phase"] != "event";
            if is_call {
                assert_eq!(record["via"] == "call_tool", self.way == Way::CallTool, "{record}");
                assert_eq!(record["execution_id"].is_string(), self.way == Way::Script, "{record}");
            }
            let mut kept = record.clone();
            let approval = &record["approval"];
            kept["approval"] = json!({ "by": approval["by"], "channel": approval["channel"] });
            let members = kept.as_object_mut().expect("an object");
            for own in [
                "seq",
                "ts",
                "id",
                "call",
                "prev",
                "hash",
                "mac",
                "via",
                "execution_id",
                "duration_ms",
                "output_bytes",
                // The hash uses a secret of the home, so compare `input` instead.
                "input_hash",
                "conn",
            ] {
                members.shift_remove(own);
            }
            if is_call {
                shown.push(self.without_home(&kept.to_string()));
            }
        }
        shown
    }

    /// Every question of the caller, as a person sees it. The facts of plans are left out, because
    /// a script collects its changes in a plan of its own.
    fn questions(&self, who: &Principal) -> Vec<String> {
        let seen = self.studio().approvals.store().read(|pending| {
            let own = pending.iter().filter(|it| it.principal == *who);
            own.map(|it| {
                let facts =
                    if it.kind == Kind::Plan { String::new() } else { format!("{:?} {:?}", it.facts, it.summary) };
                format!("{} {:?} {:?} {:?} {:?} {facts}", it.tool, it.kind, it.tier, it.state, it.channel_floor)
            })
            .collect::<Vec<_>>()
        });
        // Questions with the same time are ordered by their random ids, so sort them.
        let mut seen: Vec<String> = seen.iter().map(|it| self.without_home(it)).collect();
        seen.sort();
        seen
    }

    fn circuits(&self) -> Vec<String> {
        let listed = self.studio().circuits.list();
        let states = listed.iter().filter(|it| it.tool != RUN_SCRIPT).map(|it| format!("{it:?}"));
        states.map(|it| self.without_home(&it)).collect()
    }

    /// Lets the questions and plans of one part expire, and resets tripped circuits.
    fn settle(&self) {
        self.clock.advance(Duration::from_secs(3600));
        self.studio().circuits.reset_all();
        let now = self.studio().timestamp();
        let open = self
            .studio()
            .approvals
            .store()
            .read(|pending| pending.iter().filter(|it| it.state == State::Pending && !it.is_over(now)).count());
        assert_eq!(open, 0, "a question is still open after an hour");
    }
}

#[test]
fn every_way_of_calling_a_tool_is_the_same_call() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("no port is free");
    let silent = listener.local_addr().expect("an address");
    let sides = [Way::Direct, Way::CallTool, Way::Script].map(|way| Side::new(way, silent));
    let tools: Vec<(String, Value)> = {
        let catalog = sides[0].studio().catalog();
        let listed = catalog.list(&Toolset::All).filter(|it| !NESTING_TOOLS.contains(&it.safe_name()));
        listed.map(|tool| (tool.name.to_string(), fill(&tool.published_schema.value(), 0))).collect()
    };
    assert!(tools.len() > 100, "{}", tools.len());
    let patterns: Vec<String> = ["*", "conductor_*", "live_*", "files.*"]
        .into_iter()
        .map(str::to_owned)
        .chain(tools.iter().map(|it| it.0.clone()))
        .collect();
    let strategy = (steps(tools), prop::collection::vec(force(patterns), PARTS));
    let config = Config { cases: 2, max_shrink_iters: 0, failure_persistence: None, ..Config::default() };
    let case = Cell::new(0);
    let met = RefCell::new(BTreeMap::<String, usize>::new());
    TestRunner::new(config)
        .run(&strategy, |(steps, forces)| {
            case.set(case.get() + 1);
            let case = case.get();
            let (sure_steps, sure_force) = sure(silent);
            let parts = steps.chunks(steps.len().div_ceil(PARTS)).zip(&forces);
            for (part, (steps, force)) in parts.chain([(&sure_steps[..], &sure_force)]).enumerate() {
                let who = principal(&format!("case-{case}-{part}"));
                for side in &sides {
                    side.set(force, &format!("{case} {part}"));
                }
                for (at, step) in steps.iter().enumerate() {
                    let [direct, through, script] = sides.each_ref().map(|side| side.step(&who, step, at));
                    prop_assert_eq!(&through, &direct, "through conductor_call_tool: {:?} {:?}", step, force);
                    prop_assert_eq!(&script, &direct, "from a script: {:?} {:?}", step, force);
                    for code in direct {
                        *met.borrow_mut().entry(code).or_default() += 1;
                    }
                }
                let [direct, through, script] =
                    sides.each_ref().map(|side| (side.records(&who), side.questions(&who), side.circuits()));
                prop_assert!(!direct.0.is_empty());
                prop_assert_eq!(&through, &direct, "through conductor_call_tool: {:?}", force);
                prop_assert_eq!(&script, &direct, "from a script: {:?}", force);
                sides.iter().for_each(Side::settle);
            }
            Ok(())
        })
        .unwrap_or_else(|fault| panic!("{fault}"));
    let met = met.into_inner();
    eprintln!("{met:?}");
    for code in ["ok", "DENIED", "APPROVAL_REQUIRED", "BAD_INPUT", "HOST_OFFLINE", "TIMEOUT", "CIRCUIT_OPEN"] {
        assert!(met.contains_key(code), "no call met {code}: {met:?}");
    }
}
