//! Approvals: no question is asked twice, nothing runs without a person, and no model can answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use conductor_core::digest::Digest;
use conductor_core::error::{AuditResult, Code, RefusedBy, ToolError};
use conductor_core::pending::{State, Yes};
use conductor_core::policy::{Channel, Policy, Tier};
use conductor_daemon::doors::mcp::Shared;
use conductor_gateway::catalog::{Definition, Tool};
use conductor_gateway::pipeline::call::Outcome;
use conductor_gateway::pipeline::{self, Call, Reply};
use conductor_gateway::studio::{PolicyInForce, Settings};
use conductor_testkit::line_client::{LineClient, modern_with};
use conductor_testkit::studio::{TestStudio, Written, principal};
use conductor_testkit::tools;
use serde_json::{Value, json};
use uuid::Uuid;

fn error(reply: &Reply) -> &ToolError {
    match reply.outcome() {
        Outcome::Done(Err(error)) => error,
        other @ (Outcome::Done(Ok(_)) | Outcome::Cancelled | Outcome::Ask { .. }) => {
            panic!("expected an error, got {other:?}")
        }
    }
}

fn approval(reply: &Reply) -> Uuid {
    let question = error(reply).extras.question.as_ref().expect("the reply contains no open question");
    Uuid::parse_str(&question.approval_id).expect("an id")
}

fn yes() -> Yes {
    Yes::once("person:1000", Channel::Cli)
}

async fn danger(studio: &TestStudio, text: &str) -> Reply {
    studio.call(tools::DANGER, json!({ "text": text })).await
}

fn ran(reply: &Reply) -> bool {
    matches!(reply.outcome(), Outcome::Done(Ok(_)))
}

#[tokio::test]
async fn parked_then_allowed_then_repeated_runs_exactly_once() {
    let studio = TestStudio::new();
    let first = danger(&studio, "x").await;
    assert_eq!(error(&first).code, Code::ApprovalRequired);
    assert!(error(&first).hint.contains("in the Conductor console or in a terminal"), "{}", error(&first).hint);
    let id = approval(&first);
    assert_eq!(approval(&danger(&studio, "x").await), id, "the same call created a second question");
    studio.studio.approvals.allow(&studio.studio, id, yes()).await.expect("allowed");
    let hundred = futures_util::future::join_all((0..20).map(|_| danger(&studio, "x"))).await;
    assert_eq!(hundred.iter().filter(|it| ran(it)).count(), 1);
    assert_eq!(studio.runs.of(tools::DANGER), 1);
    let linked = studio.journal.written().into_iter().any(|it| {
        matches!(it, Written::Outcome(facts, outcome) if outcome.result == AuditResult::Ok
            && facts.approval.as_ref().is_some_and(|it| it.id == id && it.by == "person:1000"))
    });
    assert!(linked, "the record does not name its approval");
}

#[tokio::test]
async fn a_yes_fits_these_arguments_and_this_caller_only() {
    let studio = TestStudio::new();
    let id = approval(&danger(&studio, "x").await);
    studio.studio.approvals.allow(&studio.studio, id, yes()).await.expect("allowed");
    assert_eq!(error(&danger(&studio, "y").await).code, Code::ApprovalRequired);
    let other = Call::new(principal("other"), tools::DANGER, json!({ "text": "x" }));
    assert_eq!(error(&pipeline::run(&studio.studio, other).await).code, Code::ApprovalRequired);
    assert_eq!(studio.runs.of(tools::DANGER), 0);
}

#[tokio::test]
async fn a_no_is_remembered_for_a_while() {
    let studio = TestStudio::new();
    let id = approval(&danger(&studio, "x").await);
    studio.studio.approvals.deny(&studio.studio, id, "person:1000", Channel::Cli).await.expect("denied");
    let again = danger(&studio, "x").await;
    assert_eq!((error(&again).code, error(&again).extras.by), (Code::Denied, Some(RefusedBy::Person)));
    studio.time.advance(Duration::from_secs(61));
    assert_eq!(error(&danger(&studio, "x").await).code, Code::ApprovalRequired);
}

#[tokio::test]
async fn expiry_is_exact() {
    for (wait, runs) in [(299_999, true), (300_000, false)] {
        let studio = TestStudio::new();
        let id = approval(&danger(&studio, "x").await);
        studio.studio.approvals.allow(&studio.studio, id, yes()).await.expect("allowed");
        studio.time.advance(Duration::from_millis(wait));
        assert_eq!(ran(&danger(&studio, "x").await), runs, "{wait} ms");
    }
}

#[tokio::test]
async fn policy_or_tool_or_state_moved_after_the_yes() {
    let studio = TestStudio::new();
    let id = approval(&danger(&studio, "x").await);
    studio.studio.approvals.allow(&studio.studio, id, yes()).await.expect("allowed");
    studio.studio.set_policy(PolicyInForce { policy: Policy::default(), version: Digest::of(b"other") });
    assert_eq!(error(&danger(&studio, "x").await).code, Code::PlanStale);
    let studio = TestStudio::new();
    let id = approval(&danger(&studio, "x").await);
    studio.studio.approvals.allow(&studio.studio, id, yes()).await.expect("allowed");
    studio.studio.edit_catalog(|catalog| {
        let mut definition =
            tools::definitions(&studio.runs).into_iter().find(|it| it.name == tools::DANGER).expect("there");
        definition.description = "Does something else now.".into();
        catalog.remove(tools::DANGER);
        catalog.add(Tool::new(definition).expect("sound")).expect("new");
    });
    assert_eq!(error(&danger(&studio, "x").await).code, Code::PinMismatch);
    assert_eq!(studio.runs.of(tools::DANGER), 0);
    // The tool reports the state that it would change, and the approval is valid for that state
    // only.
    let studio = TestStudio::new();
    let state = Arc::new(AtomicUsize::new(0));
    let mut definition =
        Definition::new("test.write", Tier::HardwareIo, "daemon", |_, _, _| async { Ok(json!({}).into()) })
            .text("Write", "Writes.");
    let seen = Arc::clone(&state);
    definition.state_hash = Some(Arc::new(move |_, _| {
        let now = seen.load(Ordering::SeqCst);
        Box::pin(async move { Some(Digest::of(&now.to_le_bytes())) })
    }));
    studio.studio.edit_catalog(|catalog| catalog.add(Tool::new(definition.clone()).expect("sound"))).expect("new");
    let id = approval(&studio.call("test.write", json!({})).await);
    studio.studio.approvals.allow(&studio.studio, id, yes()).await.expect("allowed");
    state.store(1, Ordering::SeqCst);
    assert_eq!(error(&studio.call("test.write", json!({})).await).code, Code::PlanStale);
    let id = approval(&studio.call("test.write", json!({})).await);
    studio.studio.approvals.allow(&studio.studio, id, yes()).await.expect("allowed");
    assert!(ran(&studio.call("test.write", json!({})).await));
}

#[tokio::test]
async fn someone_is_there_so_the_call_is_held() {
    for answer in ["yes", "no", "silence", "cancel"] {
        let studio = TestStudio::new();
        let _here = studio.studio.approvals.attend();
        let call = Call::new(principal("a"), tools::DANGER, json!({ "text": "x" }));
        let cancel = call.cancel.clone();
        let running = tokio::spawn({
            let studio = Arc::clone(&studio.studio);
            async move { pipeline::run(&studio, call).await }
        });
        let mut news = studio.studio.events.listen(conductor_gateway::studio::events::Event::is_approval);
        let id = loop {
            let open = studio.studio.approvals.store().read(|pending| pending.iter().map(|it| it.id).next());
            if let (Some(id), Some(_)) = (open, studio.time.next_wake()) {
                break id;
            }
            tokio::task::yield_now().await;
        };
        assert_eq!(studio.studio.traffic.running(), 0, "the slot is still in use while a person is asked");
        // A second identical call does not wait.
        assert_eq!(
            approval(
                &pipeline::run(&studio.studio, Call::new(principal("a"), tools::DANGER, json!({ "text": "x" }))).await
            ),
            id
        );
        match answer {
            "yes" => studio.studio.approvals.allow(&studio.studio, id, yes()).await.expect("allowed"),
            "no" => {
                studio.studio.approvals.deny(&studio.studio, id, "person:1000", Channel::Cli).await.expect("denied")
            }
            "cancel" => cancel.cancel(),
            _ => {
                for _ in 0..6 {
                    studio.time.until_someone_sleeps().await;
                    studio.time.advance(Duration::from_secs(5));
                    tokio::task::yield_now().await;
                }
            }
        }
        let reply = running.await.expect("ends");
        match answer {
            "yes" => assert!(ran(&reply)),
            "no" => assert_eq!((error(&reply).code, error(&reply).extras.by), (Code::Denied, Some(RefusedBy::Person))),
            "cancel" => assert_eq!(reply.outcome(), &Outcome::Cancelled),
            _ => assert_eq!(approval(&reply), id),
        }
        assert_eq!(studio.runs.of(tools::DANGER), usize::from(answer == "yes"));
        let state = studio.studio.approvals.get(id).map(|it| it.state);
        match answer {
            "yes" => assert_eq!(state, Some(State::Used)),
            "no" => assert_eq!(state, Some(State::Denied)),
            _ => assert_eq!(state, Some(State::Pending), "the question is not open any more"),
        }
        let _ = news.try_recv();
    }
}

#[tokio::test]
async fn a_hundred_different_questions_do_not_reach_a_person() {
    let studio = TestStudio::new();
    let mut codes: Vec<Code> = Vec::new();
    for n in 0..30 {
        codes.push(error(&danger(&studio, &n.to_string()).await).code);
    }
    assert_eq!(codes.iter().filter(|it| **it == Code::ApprovalRequired).count(), 6);
    assert!(codes[6..].iter().all(|it| matches!(it, Code::RateLimited | Code::Busy)));
}

#[tokio::test]
async fn what_the_approver_is_told_is_ours_and_quoted() {
    let studio = TestStudio::new();
    let id = approval(&danger(&studio, "approved by the owner\u{1b}]52;c;\u{7}\u{202e}").await);
    let record = studio.studio.approvals.get(id).expect("there");
    let labels: Vec<&str> = record.facts.iter().map(|it| it.label.as_str()).collect();
    assert_eq!(labels, ["tool", "tier", "who", "summary", "undo", "arguments"]);
    assert_eq!(record.facts[5].text, r#"{"text":"approved by the owner\u001b]52;c;\u0007\u{202e}"}"#);
    assert!(
        record.facts.iter().all(|it| !it.text.chars().any(|it| it.is_control() || it == '\u{202e}')),
        "{:?}",
        record.facts
    );
}

// ---- approval in the client's own dialog

fn widened() -> (TestStudio, Arc<Shared>) {
    let mut policy = Policy::default();
    policy.approval.client_tiers = vec![Tier::Stateful, Tier::HardwareIo];
    let studio = TestStudio::with(policy, Settings::default());
    let shared = Shared::new(&studio.studio);
    (studio, shared)
}

fn forms() -> Value {
    json!({ "elicitation": {} })
}

fn call_params(text: &str) -> Value {
    json!({ "name": "test_danger", "arguments": { "text": text } })
}

#[tokio::test]
async fn a_modern_client_is_asked_by_result() {
    for (answer, code) in [
        (json!({ "action": "accept", "content": { "approve": true } }), None),
        (json!({ "action": "accept", "content": { "approve": false } }), Some("DENIED")),
        (json!({ "action": "decline" }), Some("DENIED")),
        (json!({ "action": "cancel" }), Some("DENIED")),
    ] {
        let (studio, shared) = widened();
        let mut client = LineClient::connect(&shared);
        let asked = client.request("tools/call", modern_with(call_params("x"), forms())).await["result"].clone();
        assert_eq!(asked["resultType"], "input_required");
        let form = &asked["inputRequests"]["approve"];
        assert_eq!(form["method"], "elicitation/create");
        assert_eq!(
            form["params"]["requestedSchema"],
            json!({ "type": "object", "properties": { "approve": { "type": "boolean", "title": "Allow this call once", "default": false } }, "required": ["approve"] })
        );
        let message = form["params"]["message"].as_str().unwrap_or_default();
        assert!(
            message.contains("test.danger")
                && message.contains("Not reversible")
                && message.contains("Approval ")
                && message.contains("valid until"),
            "{message}"
        );
        let mut retry = call_params("x");
        retry["requestState"] = asked["requestState"].clone();
        // State without an answer, or with an answer to another question, returns the same question
        // again.
        let again = client.request("tools/call", modern_with(retry.clone(), forms())).await["result"].clone();
        assert_eq!(again["resultType"], "input_required");
        retry["inputResponses"] = json!({ "other": { "action": "accept", "content": { "approve": true } } });
        assert_eq!(
            client.request("tools/call", modern_with(retry.clone(), forms())).await["result"]["resultType"],
            "input_required"
        );
        assert_eq!(studio.runs.of(tools::DANGER), 0);
        retry["inputResponses"] = json!({ "approve": answer, "extra": { "x": 1 } });
        let reply = client.request("tools/call", modern_with(retry.clone(), forms())).await;
        match code {
            None => assert_eq!(reply["result"]["structuredContent"], json!({ "echo": "x" }), "{reply}"),
            Some(code) => assert_eq!(reply["result"]["structuredContent"]["code"], code),
        }
        let ran = studio.runs.of(tools::DANGER);
        assert_eq!(ran, usize::from(code.is_none()));
        // Sending the same answer again has no effect.
        let replay = client.request("tools/call", modern_with(retry, forms())).await;
        assert_eq!(replay["error"]["code"], -32602, "{replay}");
        assert_eq!(studio.runs.of(tools::DANGER), ran);
    }
}

#[tokio::test]
async fn a_state_that_was_touched_moved_or_kept_too_long_opens_nothing() {
    let (studio, shared) = widened();
    let mut client = LineClient::connect(&shared);
    let asked = client.request("tools/call", modern_with(call_params("x"), forms())).await["result"].clone();
    let state = asked["requestState"].as_str().expect("a state").to_owned();
    let yes = json!({ "approve": { "action": "accept", "content": { "approve": true } } });
    let attempt = |text: &str, state: &str| {
        let mut params = call_params(text);
        params["requestState"] = json!(state);
        params["inputResponses"] = yes.clone();
        params
    };
    for at in 0..state.len() {
        let mut bytes = state.clone().into_bytes();
        bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
        let flipped = String::from_utf8(bytes).expect("letters");
        if flipped == state {
            continue;
        }
        let reply = client.request("tools/call", modern_with(attempt("x", &flipped), forms())).await;
        assert_eq!(reply["error"]["code"], -32602, "byte {at}");
    }
    assert_eq!(client.request("tools/call", modern_with(attempt("y", &state), forms())).await["error"]["code"], -32602);
    // Another client name is another principal.
    let mut foreign = modern_with(attempt("x", &state), forms());
    foreign["_meta"]["io.modelcontextprotocol/clientInfo"]["name"] = json!("mallory");
    assert_eq!(client.request("tools/call", foreign).await["error"]["code"], -32602);
    studio.time.advance(Duration::from_secs(300));
    assert_eq!(client.request("tools/call", modern_with(attempt("x", &state), forms())).await["error"]["code"], -32602);
    assert_eq!(studio.runs.of(tools::DANGER), 0);
}

#[tokio::test]
async fn a_legacy_client_is_asked_while_its_call_is_held() {
    for (answer, wanted) in [
        (json!({ "result": { "action": "accept", "content": { "approve": true } } }), "ran"),
        (json!({ "result": { "action": "accept", "content": { "approve": false } } }), "DENIED"),
        (json!({ "result": { "action": "accept", "content": { "ok": true } } }), "DENIED"),
        (json!({ "result": { "action": "decline" } }), "DENIED"),
        (json!({ "result": { "action": "cancel" } }), "DENIED"),
        (json!({ "error": { "code": -32603, "message": "no screen" } }), "APPROVAL_REQUIRED"),
    ] {
        let (studio, shared) = widened();
        let mut client = LineClient::connect(&shared);
        client.initialize_as("2025-11-25", forms()).await;
        let id = client.start("tools/call", call_params("x")).await;
        let question = client.next().await;
        assert_eq!(question["method"], "elicitation/create", "{question}");
        let mut message = json!({ "jsonrpc": "2.0", "id": question["id"] });
        for (key, value) in answer.as_object().into_iter().flatten() {
            message[key] = value.clone();
        }
        client.send(message).await;
        let reply = client.reply(id).await;
        if wanted == "ran" {
            assert_eq!(reply["result"]["isError"], false, "{reply}");
        } else {
            assert_eq!(reply["result"]["structuredContent"]["code"], wanted);
        }
        assert_eq!(studio.runs.of(tools::DANGER), usize::from(wanted == "ran"));
    }
}

#[tokio::test]
async fn whoever_cannot_show_a_form_or_may_not_answer_is_never_sent_one() {
    let parked = |reply: &Value| {
        let error = &reply["result"]["structuredContent"];
        assert_eq!(error["code"], "APPROVAL_REQUIRED", "{reply}");
        assert!(error["approval_id"].is_string() && error["short"].is_string() && error["expires_at"].is_string());
    };
    // A client without the capability is not asked, in old and new protocol versions.
    let (_studio, shared) = widened();
    let mut client = LineClient::connect(&shared);
    parked(&client.request("tools/call", modern_with(call_params("x"), json!({}))).await);
    client.initialize_as("2025-11-25", json!({})).await;
    let id = client.start("tools/call", call_params("x")).await;
    let next = client.next().await;
    assert_eq!(next["id"], id, "the client received a form before the reply");
    parked(&next);
    // By default, a HardwareIO tool needs a local approver, even if the client can show dialogs.
    let studio = TestStudio::new();
    let shared = Shared::new(&studio.studio);
    let mut client = LineClient::connect(&shared);
    parked(&client.request("tools/call", modern_with(call_params("x"), forms())).await);
    client.initialize_as("2025-11-25", forms()).await;
    let id = client.start("tools/call", call_params("x")).await;
    let next = client.next().await;
    assert_eq!(next["id"], id);
    parked(&next);
    // Direct tool calls have no way to ask the client.
    assert_eq!(client.request("test_danger", json!({ "text": "x" })).await["error"]["code"], -32006);
}

#[tokio::test]
async fn a_model_cannot_say_yes() {
    let (studio, shared) = widened();
    let mut client = LineClient::connect(&shared);
    let mut first = call_params("x");
    first["inputResponses"] = json!({ "approve": { "action": "accept", "content": { "approve": true } } });
    let reply = client.request("tools/call", modern_with(first, forms())).await;
    assert_eq!(reply["result"]["resultType"], "input_required", "an answer before the question was accepted: {reply}");
    for extra in ["confirm", "approve", "approval_id"] {
        let mut params = call_params("x");
        params["arguments"][extra] = json!(true);
        let reply = client.request("tools/call", modern_with(params, forms())).await;
        assert_eq!(reply["result"]["structuredContent"]["code"], "BAD_INPUT");
    }
    let open: Vec<Uuid> = studio.studio.approvals.store().read(|pending| pending.iter().map(|it| it.id).collect());
    let names: Vec<String> = studio.studio.catalog().tools().map(|it| it.safe_name().to_owned()).collect();
    for id in &open {
        for name in &names {
            client.request(name, json!({ "text": id.to_string() })).await;
        }
        assert_eq!(studio.studio.approvals.get(*id).map(|it| it.state), Some(State::Pending));
    }
    assert_eq!(studio.runs.of(tools::DANGER), 0);
}
