//! Tests of the store. The last one makes random requests and answers of several principals while
//! the state changes, and compares the store with a simple list of the approvals.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn at(ms: u64) -> Timestamp {
    Timestamp::from_millis(1_767_323_045_000 + ms)
}

fn digest(text: &str) -> Digest {
    Digest::of(text.as_bytes())
}

fn ids(n: u64) -> NewIds {
    NewIds { id: Uuid::from_u128(u128::from(n) + 1), short: n }
}

fn present() -> Present {
    Present { pin: digest("pin"), policy_version: digest("policy"), state: Some(digest("state")) }
}

fn question(who: &str, args: &str) -> Ask {
    Ask {
        principal: Principal::socket(1000, who),
        tool: "filesystem.write".into(),
        tier: Tier::HardwareIo,
        args_hash: digest(args),
        present: present(),
        summary: "writes a file".into(),
        facts: vec![Fact { label: "who".into(), text: who.into() }],
        floor: Floor::Local,
        from_plugin: false,
        tainted: false,
    }
}

struct ApprovalQueue {
    pending: Pending,
    settings: ApprovalSettings,
    limits: Limits,
    next: u64,
}

impl ApprovalQueue {
    fn new() -> Self {
        Self { pending: Pending::default(), settings: ApprovalSettings::default(), limits: Limits::default(), next: 0 }
    }

    fn ask(&mut self, ask: &Ask, ms: u64) -> Asked {
        self.next += 1;
        self.pending.ask(ask.clone(), ids(self.next), &self.settings, &self.limits, at(ms))
    }

    fn created(&mut self, ask: &Ask, ms: u64) -> Uuid {
        let asked = self.ask(ask, ms);
        let Asked::Created { id } = asked else {
            panic!("{asked:?}");
        };
        id
    }

    fn yes(&mut self, id: Uuid, ms: u64) {
        self.pending.allow(id, &Yes::once("person:1000", Channel::Terminal), at(ms)).expect("not allowed");
    }

    fn state(&self, id: Uuid) -> State {
        self.pending.get(id).expect("a record").state
    }
}

#[test]
fn a_yes_runs_the_identical_call_once() {
    let mut desk = ApprovalQueue::new();
    let ask = question("a", "x");
    let id = desk.created(&ask, 0);
    assert_eq!(desk.ask(&ask, 1), Asked::Joined { id });
    desk.yes(id, 2);
    let other = desk.ask(&question("a", "y"), 3);
    assert!(matches!(other, Asked::Created { .. }), "a call with other arguments made no new request");
    assert!(matches!(desk.ask(&question("b", "x"), 3), Asked::Created { .. }), "another principal made no new request");
    let runs = (0..100).filter(|_| matches!(desk.ask(&ask, 4), Asked::Run { .. })).count();
    assert_eq!(runs, 1);
    assert_eq!(desk.state(id), State::Used);
}

#[test]
fn expiry_is_exact() {
    for (ms, runs) in [(299_999, true), (300_000, false)] {
        let mut desk = ApprovalQueue::new();
        let ask = question("a", "x");
        let id = desk.created(&ask, 0);
        desk.yes(id, 1);
        assert_eq!(matches!(desk.ask(&ask, ms), Asked::Run { .. }), runs, "{ms}");
    }
    let mut desk = ApprovalQueue::new();
    let id = desk.created(&question("a", "x"), 0);
    assert_eq!(desk.pending.allow(id, &Yes::once("p", Channel::Cli), at(300_000)), Err(Refused::Expired));
    assert_eq!(desk.state(id), State::Expired);
}

#[test]
fn a_yes_lives_as_the_tool_and_the_person_say() {
    let lives = |said_at: u64, yes: Yes, ms: u64| {
        let mut desk = ApprovalQueue::new();
        let ask = question("a", "x");
        let id = desk.created(&ask, 0);
        desk.pending.allow(id, &yes, at(said_at)).expect("not allowed");
        matches!(desk.ask(&ask, ms), Asked::Run { .. })
    };
    let once = || Yes::once("p", Channel::Cli);
    assert!(
        lives(299_000, once(), 358_999) && !lives(299_000, once(), 359_000),
        "a late yes was not valid for exactly one minute"
    );
    let sysex = || Yes { grantable: false, grant_ms: Some(60_000), ..once() };
    assert!(lives(0, sysex(), 59_999) && !lives(0, sysex(), 60_000));
    let long = || Yes { for_ms: Some(600_000), ..once() };
    assert!(lives(0, long(), 599_999) && !lives(0, long(), 600_000));
}

#[test]
fn what_an_answer_may_not_do() {
    let mut desk = ApprovalQueue::new();
    let id = desk.created(&question("a", "x"), 0);
    let base = Yes::once("p", Channel::Cli);
    let mut answer = |yes: Yes| desk.pending.allow(id, &yes, at(1));
    assert_eq!(answer(Yes { channel: Channel::Client, ..base.clone() }), Err(Refused::Channel(Floor::Local)));
    assert_eq!(answer(Yes { uses: 0, ..base.clone() }), Err(Refused::TooWide));
    assert_eq!(answer(Yes { uses: 101, ..base.clone() }), Err(Refused::TooWide));
    assert_eq!(answer(Yes { for_ms: Some(MAX_GRANT_MS + 1), ..base.clone() }), Err(Refused::TooWide));
    for wide in [
        Yes { uses: 2, ..base.clone() },
        Yes { any_args: true, ..base.clone() },
        Yes { for_ms: Some(1), ..base.clone() },
    ] {
        assert_eq!(answer(Yes { grantable: false, ..wide }), Err(Refused::NotGrantable));
    }
    assert_eq!(answer(base.clone()), Ok(()));
    assert_eq!(answer(base), Err(Refused::Already(State::Allowed)), "a second decision was accepted");
}

#[test]
fn a_wider_answer_counts_its_uses_and_any_arguments() {
    let mut desk = ApprovalQueue::new();
    let id = desk.created(&question("a", "x"), 0);
    let yes = Yes { uses: 3, any_args: true, ..Yes::once("person:1000", Channel::Console) };
    desk.pending.allow(id, &yes, at(1)).expect("not allowed");
    let moved = Ask { present: Present { state: Some(digest("moved")), ..present() }, ..question("a", "z") };
    for ask in [&question("a", "x"), &question("a", "y"), &moved] {
        let channel = AnsweredBy::Grant;
        assert_eq!(desk.ask(ask, 2), Asked::Run { id, by: "person:1000".into(), channel });
    }
    assert!(matches!(desk.ask(&question("a", "y"), 3), Asked::Created { .. }));
}

#[test]
fn a_no_stands_for_the_cooldown() {
    let mut desk = ApprovalQueue::new();
    let ask = question("a", "x");
    let id = desk.created(&ask, 0);
    desk.pending.deny(id, "person:1000", Channel::Terminal, at(10)).expect("not denied");
    assert_eq!(desk.ask(&ask, 11), Asked::Denied { id, retry_after_ms: 59_999, reason: None });
    assert_eq!(desk.ask(&ask, 60_009), Asked::Denied { id, retry_after_ms: 1, reason: None });
    assert!(matches!(desk.ask(&ask, 60_010), Asked::Created { .. }));
    assert!(matches!(desk.ask(&question("a", "y"), 12), Asked::Created { .. }));
}

#[test]
fn the_reason_of_a_no_is_kept_and_cut() {
    let mut desk = ApprovalQueue::new();
    for (written, kept) in
        [("not now", Some("not now".to_owned())), ("  ", None), (&"x".repeat(600), Some("x".repeat(500)))]
    {
        let ask = question("a", written);
        let id = desk.created(&ask, 0);
        desk.pending.deny_because(id, "person:1000", Channel::Console, Some(written), at(10)).expect("not denied");
        assert_eq!(desk.ask(&ask, 11), Asked::Denied { id, retry_after_ms: 59_999, reason: kept });
    }
}

#[test]
fn an_approval_of_a_session_ends_with_it() {
    let mut desk = ApprovalQueue::new();
    let id = desk.created(&question("a", "x"), 0);
    assert!(!desk.pending.end_approval(id), "an open request was treated as an approval");
    let yes = Yes { uses: 5, any_args: true, ..Yes::once("person:1000", Channel::Console) };
    desk.pending.allow(id, &yes, at(1)).expect("not allowed");
    assert!(matches!(desk.ask(&question("a", "y"), 2), Asked::Run { .. }));
    assert!(desk.pending.end_approval(id));
    assert!(matches!(desk.ask(&question("a", "z"), 3), Asked::Created { .. }));
}

#[test]
fn a_person_who_takes_back_a_confirmation_may_ask_again() {
    let mut desk = ApprovalQueue::new();
    let ask = Ask { principal: Principal::Person { uid: 1000 }, ..question("a", "x") };
    for round in 0..10 {
        let id = desk.created(&ask, round);
        desk.pending.deny(id, "person:1000", Channel::Console, at(round)).expect("not denied");
    }
}

#[test]
fn what_changed_since_the_yes_makes_it_stale() {
    let changes = [
        (Changed::Pin, Present { pin: digest("other"), ..present() }),
        (Changed::Policy, Present { policy_version: digest("other"), ..present() }),
        (Changed::State, Present { state: Some(digest("other")), ..present() }),
        (Changed::State, Present { state: None, ..present() }),
    ];
    for (what, now) in changes {
        let mut desk = ApprovalQueue::new();
        let ask = question("a", "x");
        let id = desk.created(&ask, 0);
        desk.yes(id, 1);
        let moved = Ask { present: now, ..ask.clone() };
        assert_eq!(desk.ask(&moved, 2), Asked::Stale { id, what });
        assert!(
            matches!(desk.ask(&ask, 3), Asked::Created { .. }),
            "a stale approval was used after the old state returned"
        );
    }
}

#[test]
fn fatigue_has_limits() {
    let mut desk = ApprovalQueue::new();
    let mut prompts = 0;
    let mut refused = Vec::new();
    for n in 0..100 {
        let asked = desk.ask(&question("a", &n.to_string()), 0);
        if let Asked::Limited(limited) = asked {
            refused.push(limited);
        } else if matches!(asked, Asked::Created { .. }) {
            prompts += 1;
        }
    }
    assert_eq!((prompts, refused.len()), (6, 94));
    assert_eq!(refused[0], Limited::Rate { retry_after_ms: 10_000 });
    for n in 0..100 {
        let _ = desk.ask(&question("a", &n.to_string()), 20_000);
    }
    assert_eq!(desk.ask(&question("a", "new"), 60_000), Asked::Limited(Limited::Principal));
    for who in 0..40 {
        let _ = desk.ask(&question(&format!("p{who}"), "x"), 60_000);
    }
    assert_eq!(desk.ask(&question("late", "x"), 60_000), Asked::Limited(Limited::All));
    let open = desk.pending.iter().filter(|record| record.state == State::Pending).count();
    assert_eq!(open, 32);
}

#[test]
fn one_waiter_per_record() {
    let mut desk = ApprovalQueue::new();
    let id = desk.created(&question("a", "x"), 0);
    assert!(desk.pending.begin_wait(id));
    assert!(!desk.pending.begin_wait(id));
    desk.pending.end_wait(id);
    assert!(desk.pending.begin_wait(id), "no call could wait after the first wait ended");
    assert_eq!(desk.state(id), State::Pending);
}

fn plan() -> NewPlan {
    NewPlan {
        principal: Principal::socket(1000, "a"),
        tool: "conductor_create_mapping".into(),
        args_hash: digest("args"),
        pin: digest("pin"),
        policy_version: digest("policy"),
        summary: "Create mapping for note 36 in Default mode".into(),
        facts: Vec::new(),
        changes: vec![json!({"change_type": "CreateMapping", "mode": "Default", "description": "Add Note 36"})],
        diff_preview: "+ x".into(),
        base_state_hash: digest("state"),
        result_state_hash: digest("result"),
        warnings: Vec::new(),
        floor: Floor::Local,
    }
}

#[test]
fn a_plan_is_applied_once_and_undone_once() {
    let mut desk = ApprovalQueue::new();
    let id = desk.pending.create_plan(plan(), ids(1), &desk.settings, &desk.limits, at(0)).expect("a plan");
    let status = |desk: &ApprovalQueue| desk.pending.get(id).expect("a plan").config_plan().status;
    assert_eq!(status(&desk), PlanStatus::Pending);
    let yes = Yes::once("p", Channel::Cli);
    assert_eq!(desk.pending.allow(id, &yes, at(1)), Err(Refused::Kind(Kind::Plan)));
    assert_eq!(desk.pending.undo(id, at(1)), Err(Refused::Already(State::Pending)));
    assert_eq!(desk.pending.apply(id, "p", Channel::Client, &present(), at(1)), Err(Refused::Channel(Floor::Local)));
    assert_eq!(desk.pending.apply(id, "p", Channel::Cli, &present(), at(1)), Ok(()));
    assert_eq!(status(&desk), PlanStatus::Applied);
    assert_eq!(desk.pending.apply(id, "p", Channel::Cli, &present(), at(1)), Err(Refused::Already(State::Used)));
    assert_eq!(desk.pending.fail_apply(id, at(2)), Ok(()));
    assert_eq!(desk.pending.apply(id, "p", Channel::Cli, &present(), at(3)), Ok(()));
    assert_eq!(desk.pending.undo(id, at(400_000)), Ok(()), "an applied plan expired");
    assert_eq!(desk.pending.undo(id, at(400_001)), Err(Refused::Already(State::Undone)));
    assert_eq!(status(&desk), PlanStatus::Undone);
}

#[test]
fn a_plan_against_another_state_is_stale_and_an_old_one_expired() {
    let mut desk = ApprovalQueue::new();
    let id = desk.pending.create_plan(plan(), ids(1), &desk.settings, &desk.limits, at(0)).expect("a plan");
    let moved = Present { state: Some(digest("edited")), ..present() };
    assert_eq!(desk.pending.apply(id, "p", Channel::Cli, &moved, at(1)), Err(Refused::Changed(Changed::State)));
    assert_eq!(desk.pending.apply(id, "p", Channel::Cli, &present(), at(2)), Err(Refused::Already(State::Stale)));
    let id = desk.pending.create_plan(plan(), ids(2), &desk.settings, &desk.limits, at(0)).expect("a plan");
    assert_eq!(desk.pending.apply(id, "p", Channel::Cli, &present(), at(300_000)), Err(Refused::Expired));
    let id = desk.pending.create_plan(plan(), ids(3), &desk.settings, &desk.limits, at(0)).expect("a plan");
    desk.pending.deny(id, "p", Channel::Cli, at(1)).expect("not rejected");
    assert_eq!(desk.pending.get(id).expect("a plan").config_plan().status, PlanStatus::Rejected);
}

#[test]
fn standing_grants() {
    let mapping = Principal::Mapping { mode: "Live".into(), id: "x1".into() };
    let press = |args: &str| Ask { principal: mapping.clone(), ..question("a", args) };
    let mut desk = ApprovalQueue::new();
    let standing = desk
        .pending
        .grant_standing(press("x"), AskFloor::UnlessMapping, "person:1000", Channel::Cli, ids(900), at(0))
        .expect("a grant");
    let runs = Asked::Run { id: standing, by: "person:1000".into(), channel: AnsweredBy::Mapping };
    let year = 365 * 86_400_000;
    let upgraded =
        Ask { present: Present { pin: digest("newer"), policy_version: digest("newer"), state: None }, ..press("x") };
    for (ask, ms) in [(press("x"), 0), (press("x"), year), (upgraded.clone(), year)] {
        assert_eq!(desk.ask(&ask, ms), runs);
    }
    assert!(
        matches!(desk.ask(&Ask { tainted: true, ..press("x") }, 1), Asked::Created { .. }),
        "an event from the network used the standing grant"
    );
    assert!(matches!(desk.ask(&press("other template"), 1), Asked::Created { .. }));
    let plugin = Ask { from_plugin: true, ..upgraded };
    assert_eq!(desk.ask(&plugin, 2), Asked::Stale { id: standing, what: Changed::Pin });

    let again =
        desk.pending.grant_standing(press("y"), AskFloor::None, "p", Channel::Cli, ids(901), at(0)).expect("a grant");
    assert!(desk.pending.end_standing(&mapping, Some(digest("y"))).is_empty());
    assert_eq!(desk.pending.end_standing(&mapping, None), [again]);
    assert_eq!(desk.state(again), State::Stale);
    let sysex = desk.pending.grant_standing(press("x"), AskFloor::Always, "p", Channel::Cli, ids(902), at(0));
    assert_eq!(sysex, Err(Refused::NeverStanding));
    let client = desk.pending.grant_standing(question("a", "x"), AskFloor::None, "p", Channel::Cli, ids(903), at(0));
    assert_eq!(client, Err(Refused::NeverStanding));
}

#[test]
fn old_records_go_and_the_last_hundred_applied_plans_stay() {
    let mut desk = ApprovalQueue::new();
    desk.next = 5000;
    desk.limits.pending_per_principal = 1000;
    for n in 0..105 {
        let id = desk.pending.create_plan(plan(), ids(n), &desk.settings, &desk.limits, at(n)).expect("a plan");
        desk.pending.apply(id, "p", Channel::Cli, &present(), at(n)).expect("not applied");
    }
    let open = desk.created(&question("a", "x"), 0);
    desk.pending.commit();
    let week = 7 * 86_400_000;
    assert!(desk.pending.clean_up(at(week - 1)).is_empty(), "a record was removed less than a week after its end");
    assert_eq!(desk.state(open), State::Expired);
    let gone = desk.pending.clean_up(at(week + 400_000));
    assert_eq!(gone.len(), 6);
    assert!(gone.contains(&ids(0).id) && gone.contains(&open) && !gone.contains(&ids(5).id));
    assert_eq!(desk.pending.changes().removed.len(), 6);
    assert_eq!(desk.pending.iter().count(), 100);
}

#[test]
fn a_change_that_could_not_be_written_never_happened() {
    let mut desk = ApprovalQueue::new();
    let ask = question("a", "x");
    let id = desk.created(&ask, 0);
    desk.pending.commit();
    desk.yes(id, 1);
    desk.pending.commit();
    assert!(matches!(desk.ask(&ask, 2), Asked::Run { .. }));
    assert_eq!(desk.pending.changes().written[0].state, State::Used);
    desk.pending.roll_back();
    assert_eq!(desk.state(id), State::Allowed);
    assert!(matches!(desk.ask(&ask, 3), Asked::Run { .. }));
    desk.pending.commit();
    let new = desk.created(&ask, 4);
    desk.pending.roll_back();
    assert_eq!(desk.pending.get(new), None);
}

#[test]
fn the_file_form_is_exact() {
    let mut desk = ApprovalQueue::new();
    let id = desk.created(&question("a", "x"), 0);
    desk.yes(id, 1);
    let record = desk.pending.get(id).expect("a record");
    let text = String::from_utf8(record.to_json()).expect("UTF-8");
    let value: Value = serde_json::from_str(&text).expect("JSON");
    let keys: Vec<&String> = value.as_object().expect("an object").keys().collect();
    assert_eq!(
        keys.iter().map(|key| key.as_str()).collect::<Vec<_>>().join(" "),
        "id short kind state principal tool tier pin args_hash summary facts base_state_hash policy_version channel_floor uses_left \
         created_at expires_at decided"
    );
    assert_eq!(
        (&value["short"], &value["kind"], &value["tier"]),
        (&json!("0000-0001"), &json!("call"), &json!("HardwareIO"))
    );
    assert_eq!(value["decided"], json!({"by": "person:1000", "channel": "terminal", "at": "2026-01-02T03:04:05.001Z"}));
    assert_eq!(Record::from_json(text.as_bytes()).as_ref(), Ok(record));
    for hurt in [
        text.replace("\"uses_left\":1,", ""),
        text.replace("\"uses_left\":1", "\"uses_left\":101"),
        text.replace("\"state\":\"allowed\"", "\"state\":\"allowd\""),
        text.replace("{\"id\"", "{\"extra\":1,\"id\""),
        text.replace("0000-0001", "0000-000"),
        text.replace("writes a file", &"w".repeat(201)),
    ] {
        assert_ne!(hurt, text);
        assert!(Record::from_json(hurt.as_bytes()).is_err(), "{hurt}");
    }
    let mut standing = record.clone();
    standing.uses_left = None;
    standing.expires_at = None;
    assert!(String::from_utf8_lossy(&standing.to_json()).contains("\"uses_left\":null"));
    assert_eq!(Record::from_json(&standing.to_json()), Ok(standing));
}

#[test]
fn short_ids_are_unique_and_forgiving() {
    let mut desk = ApprovalQueue::new();
    let one = desk.created(&question("a", "1"), 0);
    desk.next = 0;
    let record = desk.pending.ask(
        question("a", "2"),
        NewIds { id: Uuid::from_u128(99), short: 1 },
        &desk.settings,
        &desk.limits,
        at(0),
    );
    assert_eq!(record, Asked::Created { id: Uuid::from_u128(99) });
    assert_eq!(desk.pending.find("0000-0001"), Ok(one));
    assert_eq!(desk.pending.find("OOOOOOOI"), Ok(one));
    assert_eq!(
        desk.pending.find("00000002"),
        Ok(Uuid::from_u128(99)),
        "the new record did not get the next free short id"
    );
    assert_eq!(desk.pending.find(&one.to_string()), Ok(one));
    for text in ["", "0000-0009", "0000-00011", "U000-0000", "../x"] {
        assert_eq!(desk.pending.find(text), Err(Refused::NotFound), "{text}");
    }
    assert_eq!(Short::from_bits((1 << 40) - 1).to_string(), "ZZZZ-ZZZZ");
}

#[derive(Debug, Clone)]
enum Op {
    Ask { who: u8, args: u8, tainted: bool },
    Allow { which: usize, uses: u32, any: bool },
    Deny(usize),
    Pass(u64),
    ChangePin,
    ChangePolicy,
    ChangeState,
    CleanUp,
    RollBack,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        10 => (0..3_u8, 0..3_u8, prop::bool::weighted(0.1)).prop_map(|(who, args, tainted)| Op::Ask { who, args, tainted }),
        6 => (any::<usize>(), 1..4_u32, prop::bool::weighted(0.2)).prop_map(|(which, uses, any)| Op::Allow { which, uses, any }),
        2 => any::<usize>().prop_map(Op::Deny),
        3 => prop_oneof![0..1000_u64, 0..400_000_u64].prop_map(Op::Pass),
        1 => Just(Op::ChangePin),
        1 => Just(Op::ChangePolicy),
        1 => Just(Op::ChangeState),
        1 => Just(Op::CleanUp),
        1 => Just(Op::RollBack),
    ]
}

/// An approval as the test expects it, to compare with the store.
#[derive(Debug, Clone)]
struct Granted {
    id: Uuid,
    who: u8,
    args: Option<u8>,
    left: u32,
    until: u64,
    world: (u32, u32, u32),
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn nothing_runs_that_was_not_allowed(ops in prop::collection::vec(op(), 1..120)) {
        let mut desk = ApprovalQueue::new();
        desk.limits.asks_per_minute = 1000;
        let (mut now, mut world) = (0_u64, (0_u32, 0_u32, 0_u32));
        let mut asked: Vec<(Uuid, u8, u8)> = Vec::new();
        let mut asked_in: HashMap<Uuid, (u32, u32, u32)> = HashMap::new();
        let mut granted: Vec<Granted> = Vec::new();
        let mut denied: Vec<(u8, u8, u64)> = Vec::new();
        for op in ops {
            desk.pending.commit();
            match op {
                Op::Pass(ms) => now += ms,
                Op::ChangePin => world.0 += 1,
                Op::ChangePolicy => world.1 += 1,
                Op::ChangeState => world.2 += 1,
                Op::CleanUp => { desk.pending.clean_up(at(now)); }
                Op::RollBack => {
                    // The use of an approval that could not be written to disk is not consumed: the
                    // rollback must restore every record.
                    let before: Vec<Record> = desk.pending.iter().cloned().collect();
                    let ask = question("0", "0");
                    let _ = desk.ask(&ask, now);
                    desk.pending.roll_back();
                    prop_assert_eq!(before, desk.pending.iter().cloned().collect::<Vec<_>>());
                }
                Op::Deny(which) => {
                    let Some((id, who, args)) = asked.get(which % asked.len().max(1)).copied() else { continue };
                    if desk.pending.deny(id, "person:1", Channel::Cli, at(now)).is_ok() {
                        granted.retain(|grant| grant.id != id);
                        let any = desk.pending.get(id).is_some_and(|record| record.any_args);
                        if !any {
                            denied.push((who, args, now));
                        }
                    }
                }
                Op::Allow { which, uses, any } => {
                    let Some((id, who, args)) = asked.get(which % asked.len().max(1)).copied() else { continue };
                    let yes = Yes { uses, any_args: any, ..Yes::once("person:1", Channel::Cli) };
                    let created = desk.pending.get(id).map(|record| record.created_at.as_millis() - at(0).as_millis());
                    if desk.pending.allow(id, &yes, at(now)).is_ok() {
                        let until = (created.unwrap_or(0) + 300_000).max(now + 60_000);
                        granted.push(Granted { id, who, args: (!any).then_some(args), left: uses, until, world: asked_in[&id] });
                    }
                }
                Op::Ask { who, args, tainted } => {
                    let name = format!("{}/{}/{}", world.0, world.1, world.2);
                    let parts: Vec<&str> = name.split('/').collect();
                    let ask = Ask {
                        present: Present { pin: digest(parts[0]), policy_version: digest(parts[1]), state: Some(digest(parts[2])) },
                        tainted,
                        ..question(&who.to_string(), &args.to_string())
                    };
                    match desk.ask(&ask, now) {
                        Asked::Run { id, .. } => {
                            prop_assert!(!tainted);
                            let grant = granted.iter_mut().find(|grant| grant.id == id);
                            prop_assert!(grant.is_some(), "a call ran without an approval");
                            let Some(grant) = grant else { continue };
                            prop_assert!(grant.left > 0, "an approval was used too often");
                            grant.left -= 1;
                            prop_assert!(now < grant.until, "an approval was used too late");
                            prop_assert_eq!(grant.who, who);
                            prop_assert!(grant.args.is_none_or(|wanted| wanted == args));
                            prop_assert_eq!((grant.world.0, grant.world.1), (world.0, world.1), "an approval was used after the pin or the policy changed");
                            prop_assert!(grant.args.is_none() || grant.world.2 == world.2, "an approval was used after the state changed");
                        }
                        Asked::Stale { id, .. } => {
                            granted.retain(|grant| grant.id != id);
                            prop_assert_eq!(desk.state(id), State::Stale);
                        }
                        Asked::Created { id } => {
                            let cooling = denied.iter().any(|(w, a, when)| (*w, *a) == (who, args) && now < when + 60_000);
                            prop_assert!(!cooling, "a new request was made in the cooldown");
                            let open = asked.iter().filter(|(other, w, a)| {
                                (*w, *a) == (who, args) && *other != id && desk.pending.get(*other).is_some_and(|r| r.state == State::Pending)
                            });
                            prop_assert_eq!(open.count(), 0, "two requests for the same call are open");
                            asked.push((id, who, args));
                            asked_in.insert(id, world);
                        }
                        Asked::Denied { retry_after_ms, .. } => prop_assert!((1..=60_000).contains(&retry_after_ms)),
                        Asked::Joined { id } => prop_assert_eq!(desk.state(id), State::Pending),
                        Asked::Limited(_) => {}
                    }
                }
            }
            let open = desk.pending.iter().filter(|record| record.state == State::Pending).count();
            prop_assert!(open <= 32);
        }
        for record in desk.pending.iter() {
            let read = Record::from_json(&record.to_json());
            prop_assert_eq!(read.as_ref(), Ok(record));
        }
    }
}
