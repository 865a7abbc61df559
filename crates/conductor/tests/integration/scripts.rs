//! Scripts with real parts: processes of the built binary, journals on the disk, and calls through
//! the pipeline.

use std::path::PathBuf;
use std::sync::Arc;

use conductor_core::audit::record::{CallFacts, OutcomeFacts};
use conductor_core::digest::Digest;
use conductor_core::error::{Code, Effect, ToolError};
use conductor_core::pending::Yes;
use conductor_core::policy::limits::{Limits, Rate};
use conductor_core::policy::{Channel, Decision, Pattern, Policy, Rule, Tier};
use conductor_core::principal::Principal;
use conductor_core::timestamp::Timestamp;
use conductor_gateway::audit_log::files::Disk;
use conductor_gateway::pipeline::call::Outcome;
use conductor_gateway::pipeline::{self, Call};
use conductor_gateway::script::run::Scripts;
use conductor_gateway::script::store::Store;
use conductor_gateway::studio::{PolicyInForce, Settings, Studio};
use conductor_testkit::daemon::TestDaemon;
use conductor_testkit::studio::{TestStudio, Written, principal};
use conductor_testkit::tools;
use conductor_tools::daemon::add_run_script;
use proptest::prelude::*;
use serde_json::{Value, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_conductor");
const LIFE: u64 = 300_000;

fn open_store(studio: &TestStudio) -> Store {
    let now = Timestamp::from_millis(studio.studio.clock.wall_ms());
    Store::open(studio.home.path(), Arc::new(Disk), [7; 32], now, LIFE).unwrap().0
}

/// A studio with the test tools and scripts.
fn studio(policy: Policy, settings: Settings) -> TestStudio {
    let studio = TestStudio::with(policy, settings);
    let scripts = Scripts::new(open_store(&studio), PathBuf::from(PROGRAM));
    studio.studio.edit_catalog(|catalog| add_run_script(catalog, &scripts).unwrap());
    studio
}

fn plain() -> TestStudio {
    studio(Policy::default(), Settings::default())
}

async fn call_as(studio: &Arc<Studio>, who: Principal, tool: &str, arguments: Value) -> Result<Value, ToolError> {
    match pipeline::run(studio, Call::new(who, tool, arguments)).await.into_outcome() {
        Outcome::Done(done) => done.map(|it| it.value),
        Outcome::Cancelled | Outcome::Ask { .. } => panic!("the call was cancelled or needs an answer"),
    }
}

async fn run(studio: &TestStudio, code: &str) -> Result<Value, ToolError> {
    call_as(&studio.studio, principal("demo"), "conductor_run_script", json!({ "code": code })).await
}

async fn allow(studio: &TestStudio, error: &ToolError) {
    let id = error.extras.question.as_ref().unwrap().approval_id.parse().unwrap();
    studio.studio.approvals.allow(&studio.studio, id, Yes::once("person:1000", Channel::Cli)).await.unwrap();
}

fn journals(studio: &TestStudio) -> Vec<PathBuf> {
    let folder = std::fs::read_dir(studio.home.path().join("state/scripts")).unwrap();
    folder.map(|it| it.unwrap().path()).collect()
}

fn outcomes(calls: &Value) -> Vec<String> {
    calls
        .as_array()
        .unwrap()
        .iter()
        .map(|it| format!("{} {}", it["tool"].as_str().unwrap(), it["outcome"].as_str().unwrap()))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_script_makes_calls_and_returns_a_value() {
    let studio = plain();
    let done = run(
        &studio,
        "const a = await studio.daemon.test_echo({ text: 'one' });\n\
         console.log('seen', a);\n\
         try { await studio.daemon.test_fail({ code: 'NOT_FOUND' }) } catch (e) { return [a.echo, e.code, e.name] }",
    )
    .await
    .unwrap();
    assert_eq!(done["result"], json!(["one", "NOT_FOUND", "ToolError"]));
    assert_eq!(outcomes(&done["calls"]), ["test.echo ok", "test.fail NOT_FOUND"]);
    assert_eq!(done["console"], json!(["seen {\"echo\":\"one\"}"]));
    assert_eq!(journals(&studio), Vec::<PathBuf>::new(), "a script that only reads left a journal");
    // All records of the script share one id, which is the id of the outer call.
    let mut ids = Vec::new();
    for it in studio.journal.written() {
        if let Written::Outcome(facts, _) = it {
            ids.push((facts.tool.clone(), facts.script.map(|it| it.execution), facts.call));
        }
    }
    let (_, none, outer) = ids.pop().unwrap();
    assert_eq!(none, None);
    assert_eq!(done["execution_id"], outer.to_string());
    assert!(ids.iter().all(|it| it.1 == Some(outer)), "{ids:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_that_are_made_at_once_run_one_after_another_in_order() {
    let studio = plain();
    let done = run(
        &studio,
        "const all = await Promise.all([...Array(40).keys()].map((n) => studio.daemon.test_set({ text: String(n) })));\n\
         studio.daemon.test_set({ text: 'not awaited' });\n\
         return all.map((it) => it.echo)",
    )
    .await
    .unwrap();
    let wanted: Vec<String> = (0..40).map(|it| it.to_string()).collect();
    assert_eq!(done["result"], json!(wanted));
    let ran: Vec<Value> = studio.runs.all().into_iter().map(|it| it.1["text"].clone()).collect();
    assert_eq!(ran, wanted.iter().map(|it| json!(it)).chain([json!("not awaited")]).collect::<Vec<_>>());
    // No two calls overlap: each outcome follows its own intent.
    let written = studio.journal.written();
    let pairs = written.iter().filter(|it| matches!(it, Written::Intent(facts) if facts.tool == tools::SET)).count();
    assert_eq!(pairs, 41);
    let mut open = None;
    for it in &written {
        match it {
            Written::Intent(facts) if facts.tool == tools::SET => assert_eq!(open.replace(facts.call), None),
            Written::Outcome(facts, _) if facts.tool == tools::SET => assert_eq!(open.take(), Some(facts.call)),
            Written::Intent(_) | Written::Outcome(..) => {}
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_script_that_needs_a_person_stops_and_continues_after_the_yes() {
    let studio = plain();
    let code = "const t = Date.now() + Math.random();\n\
                await studio.daemon.test_set({ text: 'first' });\n\
                const b = await studio.daemon.test_danger({ text: 'second ' + t });\n\
                await studio.daemon.test_set({ text: 'third' });\n\
                return [b.echo === 'second ' + t, new Date().getTime() === Date.now()]";
    let asked = run(&studio, code).await.unwrap_err();
    assert_eq!((asked.code, asked.effect), (Code::ApprovalRequired, Some(Effect::Done)));
    assert_eq!(outcomes(&asked.extras.more["calls"]), ["test.set ok"]);
    assert!(asked.hint.contains("the identical script"), "{}", asked.hint);
    let journal = journals(&studio).remove(0);
    let found = std::fs::metadata(&journal).unwrap();
    assert!(!conductor_hosts::system::files::is_open_to_others(&journal, &found));
    // Before the approval, a repeated run makes no call twice and asks no second question.
    let again = run(&studio, code).await.unwrap_err();
    assert_eq!(again.extras.question, asked.extras.question);
    assert_eq!((studio.runs.of(tools::SET), studio.runs.of(tools::DANGER)), (1, 0));
    allow(&studio, &asked).await;
    let done = run(&studio, code).await.unwrap();
    assert_eq!(done["result"], json!([true, true]));
    assert_eq!((studio.runs.of(tools::SET), studio.runs.of(tools::DANGER)), (2, 1));
    assert_eq!(done["execution_id"], asked.extras.more["execution_id"]);
    assert_eq!(journals(&studio), Vec::<PathBuf>::new());
    // A script that has finished starts from the beginning.
    let fresh = run(&studio, code).await.unwrap_err();
    assert_eq!(fresh.code, Code::ApprovalRequired);
    assert_ne!(fresh.extras.more["execution_id"], asked.extras.more["execution_id"]);
    assert_eq!(studio.runs.of(tools::SET), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_caller_another_policy_and_an_expired_journal_do_not_continue() {
    let studio = plain();
    let code = "await studio.daemon.test_set({ text: 'a' }); await studio.daemon.test_danger({ text: 'b' })";
    let first = run(&studio, code).await.unwrap_err();
    let other = call_as(&studio.studio, principal("other"), "conductor_run_script", json!({ "code": code })).await;
    assert_ne!(other.unwrap_err().extras.more["execution_id"], first.extras.more["execution_id"]);
    assert_eq!(studio.runs.of(tools::SET), 2, "two callers share a journal");
    // After a policy change, the caller receives one notice with the calls that were made.
    studio.studio.set_policy(PolicyInForce { policy: Policy::default(), version: Digest::of(b"another") });
    let stale = run(&studio, code).await.unwrap_err();
    assert_eq!((stale.code, stale.effect), (Code::PlanStale, Some(Effect::Done)));
    assert_eq!(studio.runs.of(tools::SET), 2);
    let fresh = run(&studio, code).await.unwrap_err();
    assert_eq!((fresh.code, studio.runs.of(tools::SET)), (Code::ApprovalRequired, 3));
    // The journal expires together with its approval.
    studio.time.advance(std::time::Duration::from_millis(LIFE + 120_000));
    assert_eq!(run(&studio, code).await.unwrap_err().code, Code::ApprovalRequired);
    assert_eq!(studio.runs.of(tools::SET), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_script_does_not_repeat_its_effects() {
    let studio = plain();
    let code = "await studio.daemon.test_set({ text: 'a' });\n\
                await studio.daemon.test_fail_effect({ code: 'HOST_OFFLINE' });\n\
                return 'never'";
    for _ in 0..3 {
        let failed = run(&studio, code).await.unwrap_err();
        assert_eq!((failed.code, failed.effect), (Code::HostOffline, Some(Effect::Done)), "{failed:?}");
        assert!(failed.message.contains("script.js:2"), "{}", failed.message);
    }
    // The effect occurred once; the failed call, which had no effect, was made in each run.
    assert_eq!((studio.runs.of(tools::SET), studio.runs.of(tools::FAIL_EFFECT)), (1, 3));
    // A script without an effect starts from the beginning, so that it reads the current state.
    for _ in 0..2 {
        run(&studio, "await studio.daemon.test_echo({ text: 'x' }); throw new Error('no')").await.unwrap_err();
    }
    assert_eq!(studio.runs.of(tools::ECHO), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_script_that_differs_from_its_first_run_is_stale() {
    let studio = plain();
    let functions = "const names = Object.keys(studio.daemon).length;\n\
                     await studio.daemon.test_set({ text: 'a' + names });\n\
                     await studio.daemon.test_danger({ text: 'b' })";
    run(&studio, functions).await.unwrap_err();
    // Without this tool the script computes another argument, so it makes another call.
    studio.studio.edit_catalog(|catalog| catalog.remove(tools::ALWAYS));
    let stale = run(&studio, functions).await.unwrap_err();
    assert_eq!(stale.code, Code::PlanStale, "{stale:?}");
    assert_eq!(studio.runs.of(tools::SET), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_journal_that_ends_in_an_intent_stops_with_an_unknown_effect() {
    let studio = plain();
    let code = "await studio.daemon.test_set({ text: 'a' }); await studio.daemon.test_danger({ text: 'b' })";
    run(&studio, code).await.unwrap_err();
    let path = journals(&studio).remove(0);
    let text = std::fs::read_to_string(&path).unwrap();
    // Keep only the begin record and the intent of the first call, as if the daemon had been killed
    // during this call.
    let killed: String = text.split_inclusive('\n').take(2).collect();
    assert!(killed.contains("\"intent\""), "{killed}");
    std::fs::write(&path, killed).unwrap();
    let scripts = Scripts::new(open_store(&studio), PathBuf::from(PROGRAM));
    studio.studio.edit_catalog(|catalog| {
        catalog.remove("conductor_run_script");
        add_run_script(catalog, &scripts).unwrap();
    });
    for _ in 0..2 {
        let unknown = run(&studio, code).await.unwrap_err();
        assert_eq!((unknown.code, unknown.effect), (Code::PlanStale, Some(Effect::Unknown)), "{unknown:?}");
    }
    assert_eq!(studio.runs.of(tools::SET), 1, "the call was repeated");
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_end_a_script_with_everything_done_so_far() {
    let studio = plain();
    let many = "for (let n = 0; ; n++) await studio.daemon.test_set({ text: String(n) })";
    let over =
        call_as(&studio.studio, principal("demo"), "conductor_run_script", json!({ "code": many, "max_calls": 5 }))
            .await
            .unwrap_err();
    assert_eq!((over.code, over.effect), (Code::Unsupported, Some(Effect::Done)));
    assert_eq!(over.extras.more["calls"].as_array().unwrap().len(), 5);
    // With a higher limit, the script continues.
    let more = json!({ "code": many, "max_calls": 8 });
    let over = call_as(&studio.studio, principal("demo"), "conductor_run_script", more).await.unwrap_err();
    assert_eq!((over.code, studio.runs.of(tools::SET)), (Code::Unsupported, 8));
    for wrong in
        [json!({ "code": "" }), json!({ "code": "1", "max_calls": 201 }), json!({ "code": "1", "grant": true })]
    {
        let refused = call_as(&studio.studio, principal("demo"), "conductor_run_script", wrong).await.unwrap_err();
        assert_eq!(refused.code, Code::BadInput);
    }
    let large = run(&studio, "return 'x'.repeat(2_000_000)").await.unwrap_err();
    assert_eq!(large.code, Code::Unsupported, "{large:?}");
    let noisy = run(&studio, "for (let n = 0; n < 100; n++) console.log('x'.repeat(60000)); return 1").await;
    assert!(noisy.is_ok_and(|it| it["console"].to_string().len() < 1_100_000));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_time_of_a_script_ends_it_and_its_call() {
    let studio = Arc::new(plain());
    let inner = Arc::clone(&studio);
    let code = "await studio.daemon.test_slow({}); await studio.daemon.test_set({ text: 'a' }); \
                await studio.daemon.test_slow({}); return 1";
    let running = tokio::spawn(async move { run(&inner, code).await });
    // The second slow call starts later than the script, so that the script's limit ends it, not
    // its own timeout.
    studio.runs.until(tools::SLOW, 1).await;
    studio.time.advance(std::time::Duration::from_secs(10));
    studio.runs.release.notify_one();
    studio.runs.until(tools::SLOW, 2).await;
    studio.time.advance(std::time::Duration::from_secs(20));
    let late = running.await.unwrap().unwrap_err();
    assert_eq!((late.code, late.effect), (Code::Timeout, Some(Effect::Done)), "{late:?}");
    // The identical script continues after the calls that were made.
    let inner = Arc::clone(&studio);
    let running = tokio::spawn(async move { run(&inner, code).await });
    studio.runs.until(tools::SLOW, 3).await;
    studio.runs.release.notify_one();
    assert_eq!(running.await.unwrap().unwrap()["result"], 1);
    assert_eq!(studio.runs.of(tools::SET), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_script_does_not_run_twice_at_once() {
    let studio = Arc::new(plain());
    let inner = Arc::clone(&studio);
    let code = "await studio.daemon.test_slow({}); return 1";
    let running = tokio::spawn(async move { run(&inner, code).await });
    studio.runs.until(tools::SLOW, 1).await;
    assert_eq!(run(&studio, code).await.unwrap_err().code, Code::Busy);
    studio.runs.release.notify_one();
    assert!(running.await.unwrap().is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn scripts_mappings_plugins_and_webhooks_cannot_run_scripts() {
    let studio = plain();
    let tried = run(&studio, "return await studio.daemon.run_script({ code: '1' })").await.unwrap_err();
    assert!(tried.message.contains("does not exist"), "{tried:?}");
    // A script that forges the messages of its process can name any tool. The pipeline refuses
    // these calls.
    for tool in ["conductor_run_script", "test.hidden", "plan.apply", "no.such"] {
        let forged = format!(
            "Object.prototype.toJSON = function () {{ return this && this.ask ? {{ ask: {{ id: this.ask.id, what: 'call', \
             with: {{ tool: '{tool}', arguments: {{ code: 'return 1' }} }} }} }} : this }};\n\
             try {{ await studio.daemon.test_echo({{ text: 'x' }}) }} catch (e) {{ delete Object.prototype.toJSON; return e.code }}\n\
             delete Object.prototype.toJSON; return 'made'"
        );
        let done = run(&studio, &forged).await.unwrap();
        let wanted = if tool == "conductor_run_script" { "DENIED" } else { "NOT_FOUND" };
        assert_eq!(done["result"], wanted, "{tool}: {done}");
    }
    assert_eq!((studio.runs.of(tools::HIDDEN), studio.runs.of(tools::ECHO)), (0, 0));
    for who in ["mapping:Default/x", "plugin:p", "webhook:w"] {
        let refused =
            call_as(&studio.studio, who.parse().unwrap(), "conductor_run_script", json!({ "code": "1" })).await;
        assert_eq!(refused.unwrap_err().code, Code::Denied, "{who}");
    }
    // A mapping with such a call is a fault in the configuration.
    for tool in ["conductor_run_script", "conductor.run.script", "conductor_call_tool"] {
        let text = format!(
            "schema = 1\n[[modes]]\nname = \"Default\"\n[[modes.mappings]]\ntrigger = {{ type = \"Note\", note = 1 }}\n\
             action = {{ type = \"CallTool\", tool = \"{tool}\" }}\n"
        );
        let loaded = conductor_core::config::load(&text);
        assert!(loaded.errors().any(|it| it.message.contains("cannot call")), "{tool}: {:?}", loaded.diagnostics);
    }
}

/// The facts of a record that are the same for direct calls and calls from scripts.
type Facts = (String, Option<Tier>, Option<Digest>, String, bool, OutcomeFacts);

fn facts_of(facts: &CallFacts, outcome: &OutcomeFacts) -> Facts {
    let outcome = OutcomeFacts { duration_ms: 0, ..outcome.clone() };
    let CallFacts { tool, tier, pin, input_hash, approval, .. } = facts;
    (tool.clone(), *tier, *pin, input_hash.to_string(), approval.is_some(), outcome)
}

fn records(studio: &TestStudio, of_script: bool) -> Vec<Facts> {
    let written = studio.journal.written();
    let wanted = |facts: &CallFacts| facts.script.is_some() == of_script && facts.tool != "conductor_run_script";
    let outcomes = written.iter().filter_map(|it| match it {
        Written::Outcome(facts, outcome) if wanted(facts) => Some(facts_of(facts, outcome)),
        Written::Intent(_) | Written::Outcome(..) => None,
    });
    outcomes.collect()
}

#[derive(Debug, Clone)]
struct Case {
    tool: &'static str,
    arguments: Value,
    approved: bool,
}

fn case() -> impl Strategy<Value = Case> {
    let tool = prop::sample::select(vec![
        tools::ECHO,
        tools::SET,
        tools::PLAN,
        tools::DANGER,
        tools::ASK,
        tools::ALWAYS,
        tools::FAIL,
        tools::FAIL_EFFECT,
        tools::PANIC,
        tools::HIDDEN,
        "no.such",
    ]);
    (tool, 0..4usize, any::<bool>()).prop_map(|(tool, kind, approved)| {
        let arguments = match (tool, kind) {
            (tools::FAIL | tools::FAIL_EFFECT, 0) => json!({ "code": "TIMEOUT" }),
            (tools::FAIL | tools::FAIL_EFFECT, 1) => json!({ "code": "INTERNAL" }),
            (tools::FAIL | tools::FAIL_EFFECT, _) => json!({ "code": "NOT_FOUND" }),
            (tools::PANIC, _) => json!({}),
            (_, 3) => json!({ "text": 5 }),
            (_, n) => json!({ "text": format!("t{n}") }),
        };
        Case { tool, arguments, approved }
    })
}

fn rule() -> impl Strategy<Value = Rule> {
    let tool = prop::option::of(prop::sample::select(vec!["test.*", "test.set", "test.echo", "test.danger", "other"]));
    let tier = prop::option::of(prop::sample::select(vec![Tier::ReadOnly, Tier::Stateful, Tier::HardwareIo]));
    let who = prop::option::of(prop::sample::select(vec!["socket:1000/*", "http:*"]));
    let decision = prop::sample::select(vec![Decision::Allow, Decision::Ask, Decision::Deny]);
    (tool, tier, who, decision).prop_map(|(tool, tier, who, decision)| Rule {
        tool: tool.map(Pattern::parse),
        tier,
        principal: who.map(Pattern::parse),
        decision: Some(decision),
        ..Rule::default()
    })
}

/// Makes the calls in order. If a call needs an approval and the case provides one, the call is
/// repeated once after it.
async fn directly(studio: &TestStudio, cases: &[Case]) -> Vec<String> {
    let mut ends = Vec::new();
    for case in cases {
        let mut end = studio.call(case.tool, case.arguments.clone()).await;
        if let Outcome::Done(Err(error)) = end.outcome()
            && error.code == Code::ApprovalRequired
            && case.approved
        {
            allow(studio, error).await;
            end = studio.call(case.tool, case.arguments.clone()).await;
        }
        ends.push(match end.outcome() {
            Outcome::Done(Ok(_)) => "ok".to_owned(),
            Outcome::Done(Err(error)) => error.code.to_string(),
            Outcome::Cancelled | Outcome::Ask { .. } => "other".to_owned(),
        });
    }
    ends
}

/// Makes the same calls from scripts. A refusal that stops a script ends it; the next script makes
/// the next call.
async fn by_script(studio: &TestStudio, cases: &[Case]) -> Vec<String> {
    let mut ends: Vec<String> = Vec::new();
    while ends.len() < cases.len() {
        let rest = &cases[ends.len()..];
        let list: Vec<Value> =
            rest.iter().map(|it| json!([it.tool.replace('.', "_"), it.arguments, it.tool])).collect();
        // `forged` also reaches tools that are not listed.
        let code = format!(
            "// {}\n\
             const out = []; globalThis.partial = out;\n\
             const forged = async (tool, args) => {{\n\
               const own = Object.prototype.toJSON;\n\
               Object.prototype.toJSON = function () {{ return this && this.ask ? {{ ask: {{ id: this.ask.id, what: 'call', with: {{ tool, arguments: args }} }} }} : this }};\n\
               const made = studio.daemon.test_echo({{}});\n\
               delete Object.prototype.toJSON;\n\
               return made;\n\
             }};\n\
             for (const [, args, tool] of {}) {{\n\
               try {{ await forged(tool, args); out.push('ok') }} catch (e) {{ out.push(e.code) }}\n\
             }}\n\
             return out",
            ends.len(),
            json!(list)
        );
        let mut approved_at = None;
        loop {
            let error = match run(studio, &code).await {
                Ok(done) => {
                    ends.extend(done["result"].as_array().unwrap().iter().map(|it| it.as_str().unwrap().to_owned()));
                    break;
                }
                Err(error) => error,
            };
            let made = outcomes(&error.extras.more["calls"]);
            if error.code == Code::ApprovalRequired && rest[made.len()].approved && approved_at != Some(made.len()) {
                approved_at = Some(made.len());
                allow(studio, &error).await;
                continue;
            }
            ends.extend(made.iter().map(|it| it.rsplit(' ').next().unwrap().to_owned()));
            ends.push(error.code.to_string());
            break;
        }
        ends.truncate(cases.len());
    }
    ends
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, max_shrink_iters: 40, ..ProptestConfig::default() })]

    /// Random calls under random rules, limits and circuit breakers: a call from a script ends like
    /// a direct call, runs its handler equally often, and leaves the same record.
    #[test]
    fn a_call_of_a_script_is_a_direct_call(
        cases in prop::collection::vec(case(), 1..14),
        rules in prop::collection::vec(rule(), 0..4),
        burst in prop::sample::select(vec![3u32, 100]),
    ) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(async {
            let policy = Policy { rules, ..Policy::default() };
            let rate = Rate { per_minute: 600, burst };
            let limits = Limits { read: rate, asks_per_minute: 1000, pending_per_principal: 30, ..Limits::default() };
            let mut settings = Settings { limits, ..Settings::default() };
            settings.retry.attempts = 1;
            let (direct, script) = (TestStudio::with(policy.clone(), settings.clone()), studio(policy, settings));
            // The rules also decide whether scripts may run, so put a rule that allows scripts
            // first.
            let mut allowed = script.studio.policy().policy.clone();
            allowed.rules.insert(0, Rule { tool: Some(Pattern::parse("conductor_run_script")), decision: Some(Decision::Allow), ..Rule::default() });
            script.studio.set_policy(PolicyInForce { policy: allowed, version: Digest::of(b"policy") });
            let wanted = directly(&direct, &cases).await;
            let made = by_script(&script, &cases).await;
            prop_assert_eq!(&made, &wanted);
            prop_assert_eq!(script.runs.all(), direct.runs.all());
            prop_assert_eq!(records(&script, true), records(&direct, false));
            Ok(())
        })?;
    }
}

const CONFIG: &str = r#"schema = 1
[limits]
read = { per_minute = 60000, burst = 60000 }
effect = { per_minute = 60000, burst = 60000 }
asks_per_minute = 600
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
[[modes]]
name = "Live"
[[modes.mappings]]
id = "one"
trigger = { type = "Note", note = 1 }
action = { type = "Text", text = "1" }
[[modes.mappings]]
id = "two"
trigger = { type = "Note", note = 2 }
action = { type = "Text", text = "2" }
[[modes.mappings]]
id = "three"
trigger = { type = "Note", note = 3 }
action = { type = "Text", text = "3" }
"#;

fn daemon(more: &str) -> TestDaemon {
    let daemon = TestDaemon::start(&format!("{CONFIG}{more}"));
    daemon.gateway().scripts.use_program(PathBuf::from(PROGRAM));
    daemon
}

fn on(daemon: &TestDaemon, tool: &str, arguments: Value) -> Result<Value, ToolError> {
    let studio = Arc::clone(&daemon.gateway().studio);
    let tool = tool.to_owned();
    daemon.block_on(async move { call_as(&studio, principal("demo"), &tool, arguments).await })
}

fn script_on(daemon: &TestDaemon, code: &str) -> Result<Value, ToolError> {
    on(daemon, "conductor_run_script", json!({ "code": code }))
}

#[test]
fn all_changes_of_the_configuration_become_one_plan() {
    let daemon = daemon("");
    let code = "const mode = 'Live';\n\
                const a = await studio.daemon.create_mapping({ mode, trigger: { type: 'Note', note: 60 }, action: { type: 'Text', text: 'a' } });\n\
                const b = await studio.daemon.delete_mapping({ mode, index: 0 });\n\
                const c = await studio.daemon.delete_mapping({ mode, index: 1 });\n\
                const rows = await studio.daemon.get_mappings({ mode });\n\
                return [a, b, c, rows.mappings.length]";
    let done = script_on(&daemon, code).unwrap();
    // Each call returns the number of changes so far. Later reads still see the old configuration.
    assert_eq!(done["result"], json!([{ "planned": 1 }, { "planned": 2 }, { "planned": 3 }, 3]));
    let plan = &done["plan"];
    assert_eq!(plan["changes"].as_array().unwrap().len(), 3);
    let plans = on(&daemon, "conductor_list_plans", json!({})).unwrap();
    assert_eq!(plans["plans"].as_array().unwrap().len(), 1);
    // Both indices mean the rows of the old configuration, so index 1 is "two".
    let diff = plan["diff_preview"].as_str().unwrap();
    assert!(
        diff.contains("- id = \"one\"") && diff.contains("- id = \"two\"") && !diff.contains("- id = \"three\""),
        "{diff}"
    );
    let studio = Arc::clone(&daemon.gateway().studio);
    let id = plan["plan_id"].clone();
    let applied = daemon.block_on(async move {
        let person = Principal::Person { uid: 1000 };
        call_as(&studio, person, "plan.apply", json!({ "plan_id": id, "channel": "cli" })).await
    });
    assert!(applied.is_ok(), "{applied:?}");
    let rows = on(&daemon, "conductor_get_mappings", json!({ "mode": "Live" })).unwrap();
    let ids: Vec<&str> = rows["mappings"].as_array().unwrap().iter().map(|it| it["id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), 2);
    assert!(ids.contains(&"three"), "{ids:?}");
}

#[test]
fn a_script_that_fails_plans_nothing_and_a_wrong_change_is_refused_at_its_call() {
    let daemon = daemon("");
    let failed =
        script_on(&daemon, "await studio.daemon.delete_mapping({ mode: 'Live', id: 'one' }); throw new Error('no')");
    assert_eq!(failed.unwrap_err().extras.more["planned"].as_array().unwrap().len(), 1);
    let code = "try { await studio.daemon.delete_mapping({ mode: 'Live', id: 'nine' }) } catch (e) { return e.code }";
    assert_eq!(script_on(&daemon, code).unwrap()["result"], "STALE_REFERENCE");
    let plans = on(&daemon, "conductor_list_plans", json!({})).unwrap();
    assert_eq!(plans["plans"], json!([]));
}

/// Every example of docs/scripts.md runs and returns the expected result.
#[test]
fn the_examples_of_the_documentation_run() {
    let page = include_str!("../../../../docs/scripts.md");
    let examples: Vec<&str> = page.split("```js\n").skip(1).filter_map(|it| it.split("```").next()).collect();
    assert_eq!(examples.len(), 3);
    let daemon = daemon("");
    let results: Vec<Value> = examples.iter().map(|it| script_on(&daemon, it).unwrap()).collect();
    assert_eq!(results[0]["result"], json!(["Default: 0", "Live: 3"]));
    assert!(results[1]["result"].as_str().unwrap().starts_with("NOT_FOUND: "), "{}", results[1]);
    assert_eq!(results[2]["plan"]["changes"].as_array().unwrap().len(), 3, "{}", results[2]);
    // The functions in the table of the page exist.
    let catalog = daemon.gateway().studio.catalog();
    let known: Vec<String> = catalog
        .tools()
        .map(|it| {
            let (set, verb) = conductor_gateway::script::function_of(it);
            format!("studio.{set}.{verb}(")
        })
        .collect();
    for row in
        page.lines().filter(|it| it.starts_with("| `") && it.contains("studio.") && !it.contains("studio.plugins"))
    {
        let function = row.split("`studio.").nth(1).and_then(|it| it.split('(').next()).unwrap();
        assert!(known.contains(&format!("studio.{function}(")), "{row}");
    }
    // The example in the description of the tool runs.
    let tool = catalog.get("conductor_run_script").unwrap();
    let example = tool.description.split("Example: ").nth(1).unwrap().split(". Policy").next().unwrap();
    assert_eq!(script_on(&daemon, example).unwrap()["result"], "Default", "{example}");
}

#[test]
fn a_dry_run_works_on_copies_and_ends_at_the_outside() {
    let daemon = daemon("");
    let patch = on(&daemon, "create_patch", json!({ "format": "pd", "name": "demo" })).unwrap();
    let id = patch["patch_id"].as_str().unwrap().to_owned();
    let before = on(&daemon, "get_patch_info", json!({ "patch_id": id })).unwrap();
    let code = format!(
        "const id = {id:?};\n\
         const added = await studio.patch.add_max_object({{ patch_id: id, obj_type: 'osc~', arguments: [440], position: [10, 10] }}).catch((e) => e.details);\n\
         const info = await studio.patch.get_patch_info({{ patch_id: id }});\n\
         await studio.daemon.delete_mapping({{ mode: 'Live', id: 'one' }});\n\
         await studio.daemon.switch_mode({{ mode: 'Live' }});\n\
         const fired = await studio.daemon.simulate({{ events: 'on:1@100 off:1' }});\n\
         console.log(fired.text);\n\
         await studio.database.execute({{ sql: 'CREATE TABLE t (n)' }});\n\
         return 'never'"
    );
    let dry = on(&daemon, "conductor_run_script", json!({ "code": code, "dry_run": true })).unwrap();
    assert_eq!((dry["dry_run"].as_bool(), dry["result"].is_null()), (Some(true), true));
    assert_eq!(dry["ended_at"]["tool"], "database.execute", "{dry}");
    assert_eq!(dry["calls"].as_array().unwrap().len(), 5, "{dry}");
    assert!(dry["console"][0].as_str().unwrap().contains("one"), "the simulator is not in the mode Live: {dry}");
    assert_eq!(dry["calls"][0]["outcome"], "ok", "{dry}");
    assert!(dry["would_plan"].as_str().unwrap().contains("- id = \"one\""), "{dry}");
    // Nothing changed: neither the document, nor the plans, nor the mode, nor the journals.
    assert_eq!(on(&daemon, "get_patch_info", json!({ "patch_id": id })).unwrap(), before);
    assert_eq!(on(&daemon, "conductor_list_plans", json!({})).unwrap()["plans"], json!([]));
    assert_eq!(on(&daemon, "conductor_list_modes", json!({})).unwrap()["current"], "Default");
    assert_eq!(std::fs::read_dir(daemon.home.path().join("state/scripts")).unwrap().count(), 0);
    let waiting = daemon.gateway().studio.approvals.waiting();
    assert_eq!(waiting, 0, "a person was asked");
    for outside in [
        "studio.web.fetch({ url: 'https://example.org' })",
        "studio.shell.exec({ argv: ['id'] })",
        "studio.daemon.send_midi({})",
        "studio.filesystem.write({ path: 'x', content: 'y' })",
    ] {
        let code = format!("await {outside}; return 1");
        let dry = on(&daemon, "conductor_run_script", json!({ "code": code, "dry_run": true })).unwrap();
        assert!(dry["ended_at"]["tool"].is_string(), "{outside}: {dry}");
    }
    // Control: without `dry_run` the document changes.
    let code = code.replace("await studio.database", "return 1; await studio.database");
    on(&daemon, "conductor_run_script", json!({ "code": code })).unwrap();
    assert_ne!(on(&daemon, "get_patch_info", json!({ "patch_id": id })).unwrap(), before);
}
