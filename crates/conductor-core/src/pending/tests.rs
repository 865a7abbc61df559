use super::*;
use proptest::prelude::*;

fn at(ms: u64) -> Timestamp {
    Timestamp::from_millis(ms)
}

fn digest(n: u8) -> Digest {
    Digest::of(&[n])
}

fn question(n: u8, id: u128) -> Question {
    Question {
        id: Uuid::from_u128(id),
        principal: "socket:1000/demo".into(),
        tool: "conductor_send_sysex".into(),
        tier: Tier::HardwareIo,
        pin: digest(1),
        args_hash: digest(n),
        policy_version: digest(2),
        base_state: None,
        floor: Floor::Local,
        summary: "send".into(),
        facts: Vec::new(),
    }
}

fn ask(store: &mut Pending, question: Question, now: u64) -> Asked {
    store.ask(question, &ApprovalSettings::default(), &Limits::default(), at(now))
}

fn yes() -> Answer {
    Answer::yes("person:1000", Channel::Cli)
}

#[test]
fn a_yes_runs_the_identical_call_once() {
    let mut store = Pending::default();
    let id = Uuid::from_u128(7);
    assert_eq!(ask(&mut store, question(1, 7), 0), Asked::Created(id));
    assert_eq!(ask(&mut store, question(1, 8), 1), Asked::Joined(id));
    store.decide(id, &yes(), at(2)).unwrap();
    assert_eq!(ask(&mut store, question(2, 9), 3), Asked::Created(Uuid::from_u128(9)), "other arguments ask again");
    assert_eq!(ask(&mut store, question(1, 10), 3), Asked::Granted(id));
    assert_eq!(ask(&mut store, question(1, 11), 4), Asked::Created(Uuid::from_u128(11)));
}

#[test]
fn what_moved_voids_the_yes() {
    let moved: [(fn(&mut Question), Moved); 3] = [
        (|it| it.pin = digest(9), Moved::Pin),
        (|it| it.policy_version = digest(9), Moved::Policy),
        (|it| it.base_state = Some(digest(9)), Moved::State),
    ];
    for (change, what) in moved {
        let mut store = Pending::default();
        ask(&mut store, question(1, 7), 0);
        store.decide(Uuid::from_u128(7), &yes(), at(1)).unwrap();
        let mut again = question(1, 8);
        change(&mut again);
        assert_eq!(ask(&mut store, again.clone(), 2), Asked::Stale(Uuid::from_u128(7), what));
        assert_eq!(ask(&mut store, again, 3), Asked::Created(Uuid::from_u128(8)), "the next one asks afresh");
    }
}

#[test]
fn expiry_is_exact_to_the_millisecond() {
    let mut store = Pending::default();
    ask(&mut store, question(1, 7), 0);
    let id = Uuid::from_u128(7);
    assert_eq!(store.decide(id, &yes(), at(300_000)).unwrap_err(), Refused::Expired(at(300_000)));
    let mut store = Pending::default();
    ask(&mut store, question(1, 7), 0);
    store.decide(id, &yes(), at(299_999)).unwrap();
    assert_eq!(store.get(id).unwrap().expires_at, Some(at(359_999)), "a yes lives a minute at least");
    let mut late = store.clone();
    assert_eq!(ask(&mut late, question(1, 8), 359_999), Asked::Created(Uuid::from_u128(8)));
    assert_eq!(ask(&mut store, question(1, 8), 359_998), Asked::Granted(id));
}

#[test]
fn a_no_cools_down() {
    let mut store = Pending::default();
    ask(&mut store, question(1, 7), 0);
    store.decide(Uuid::from_u128(7), &Answer::no("person:1000", Channel::Cli), at(1000)).unwrap();
    assert_eq!(ask(&mut store, question(1, 8), 60_999), Asked::Cooling { id: Uuid::from_u128(7), left_ms: 1 });
    assert_eq!(ask(&mut store, question(1, 8), 61_000), Asked::Created(Uuid::from_u128(8)));
}

#[test]
fn a_weak_channel_may_refuse_but_not_allow() {
    let mut store = Pending::default();
    ask(&mut store, question(1, 7), 0);
    let id = Uuid::from_u128(7);
    let by_client = Answer::yes("client", Channel::Client);
    assert_eq!(store.decide(id, &by_client, at(1)).unwrap_err(), Refused::ChannelTooWeak(Channel::Client));
    assert_eq!(store.get(id).unwrap().state, State::Pending);
}

#[test]
fn wider_answers_are_bounded() {
    let mut store = Pending::default();
    ask(&mut store, question(1, 7), 0);
    let id = Uuid::from_u128(7);
    let fixed = Answer { uses: 2, grantable: false, ..yes() };
    assert_eq!(store.decide(id, &fixed, at(1)).unwrap_err(), Refused::NotGrantable);
    assert_eq!(store.decide(id, &Answer { uses: 101, ..yes() }, at(1)).unwrap_err(), Refused::TooWide);
    assert_eq!(store.decide(id, &Answer { uses: 0, ..yes() }, at(1)).unwrap_err(), Refused::TooWide);
    store.decide(id, &Answer { uses: 2, any_args: true, for_ms: Some(10_000), ..yes() }, at(1)).unwrap();
    assert_eq!(ask(&mut store, question(5, 8), 2), Asked::Granted(id));
    assert_eq!(ask(&mut store, question(6, 9), 3), Asked::Granted(id));
    assert_eq!(ask(&mut store, question(7, 10), 4), Asked::Created(Uuid::from_u128(10)));
}

#[test]
fn questions_are_limited() {
    let mut store = Pending::default();
    for n in 0..6 {
        assert!(matches!(ask(&mut store, question(n, 100 + u128::from(n)), u64::from(n)), Asked::Created(_)));
    }
    assert_eq!(ask(&mut store, question(6, 200), 10), Asked::TooOften { retry_after_ms: 59_990 });
    assert!(matches!(ask(&mut store, question(6, 200), 60_000), Asked::Created(_)));
    assert!(matches!(ask(&mut store, question(7, 201), 60_001), Asked::Created(_)));
    assert_eq!(ask(&mut store, question(8, 202), 60_002), Asked::Full { all: false }, "eight wait");
}

#[test]
fn short_forms_forgive_how_people_type() {
    let id = Uuid::from_u128(0x0123_4567_89ab_4def_8123_4567_89ab_cdef);
    let short = short_form(id);
    assert_eq!(short.len(), 9);
    assert_eq!(read_short(&short.to_lowercase().replace('-', "")), Some(short.clone()));
    assert_eq!(read_short("o1il-0000"), Some("0111-0000".into()));
    assert_eq!(read_short("u000-0000"), None);
    let mut store = Pending::default();
    ask(&mut store, Question { id, ..question(1, 0) }, 0);
    assert_eq!(store.find(&short).unwrap().id, id);
    assert_eq!(store.find(&id.to_string()).unwrap().id, id);
    assert!(store.find("nonsense").is_none());
}

#[test]
fn old_records_go_and_the_last_plans_stay() {
    let mut store = Pending::default();
    for n in 0..150u32 {
        let mut plan = plan(u128::from(n) + 1);
        plan.state = State::Used;
        plan.decided = Some(Decided { by: "person:1000".into(), channel: Channel::Cli, at: at(u64::from(n)) });
        store.add(plan);
    }
    assert_eq!(store.forget_old(at(8 * 24 * 3_600_000)).len(), 50);
    assert!(store.get(Uuid::from_u128(150)).is_some() && store.get(Uuid::from_u128(1)).is_none());
}

fn plan(id: u128) -> Record {
    let mut store = Pending::default();
    ask(&mut store, question(1, id), 0);
    let mut record = store.records.remove(&Uuid::from_u128(id)).unwrap();
    record.kind = Kind::Plan;
    record
}

#[test]
fn a_record_reads_back_as_it_was_written() {
    let mut record = plan(3);
    record.changes = vec![json!({"change_type": "CreateMapping", "description": "x"})];
    record.decided = Some(Decided { by: "person:1000".into(), channel: Channel::Pad, at: at(5) });
    let text = serde_json::to_string(&record).unwrap();
    assert_eq!(serde_json::from_str::<Record>(&text).unwrap(), record);
}

#[derive(Clone, Debug)]
enum Op {
    Ask { principal: u8, args: u8, pin: u8, state: u8 },
    Decide { nth: usize, yes: bool, uses: u32, any_args: bool, client: bool },
    Pass(u64),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        5 => (0u8..3, 0u8..3, prop_oneof![9 => Just(0u8), 1 => Just(1u8)], prop_oneof![9 => Just(0u8), 1 => Just(1u8)])
            .prop_map(|(principal, args, pin, state)| Op::Ask { principal, args, pin, state }),
        3 => (0usize..20, any::<bool>(), 1u32..4, any::<bool>(), any::<bool>())
            .prop_map(|(nth, yes, uses, any_args, client)| Op::Decide { nth, yes, uses, any_args, client }),
        2 => prop_oneof![0u64..5_000, 0u64..200_000].prop_map(Op::Pass),
    ]
}

/// What a yes allowed, kept beside the store by the test: a second opinion.
#[derive(Debug)]
struct Ledger {
    principal: String,
    args: Digest,
    pin: Digest,
    state: Option<Digest>,
    any_args: bool,
    uses: u32,
    until: u64,
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn nothing_runs_without_a_yes_that_covers_it(ops in proptest::collection::vec(op(), 1..80)) {
        let mut store = Pending::default();
        let mut given: BTreeMap<Uuid, Ledger> = BTreeMap::new();
        let mut denied: Vec<(String, Digest, u64)> = Vec::new();
        let mut now = 0u64;
        let mut next = 1u128;
        for op in ops {
            match op {
                Op::Ask { principal, args, pin, state } => {
                    next += 1;
                    let mut question = question(args, next);
                    question.principal = format!("socket:1000/p{principal}");
                    question.pin = digest(pin);
                    question.base_state = Some(digest(state));
                    let asked = ask(&mut store, question.clone(), now);
                    if let Asked::Granted(id) = asked {
                        let yes = given.get_mut(&id).expect("granted without a yes");
                        prop_assert!(yes.uses > 0, "a use too many");
                        yes.uses -= 1;
                        prop_assert!(now < yes.until, "used after its end");
                        prop_assert_eq!(&yes.principal, &question.principal);
                        prop_assert_eq!(yes.pin, question.pin);
                        prop_assert!(yes.any_args || yes.args == question.args_hash);
                        prop_assert!(yes.any_args || yes.state == question.base_state);
                    }
                    if matches!(asked, Asked::Created(_)) {
                        let cooling = denied.iter().any(|(who, args, at)| {
                            *who == question.principal && *args == question.args_hash && now < at + 60_000
                        });
                        prop_assert!(!cooling, "asked again within the cooldown");
                        let waiting = store.waiting(at(now)).filter(|it| it.principal == question.principal);
                        prop_assert!(waiting.count() <= 8);
                    }
                }
                Op::Decide { nth, yes, uses, any_args, client } => {
                    let ids: Vec<Uuid> = store.records.keys().copied().collect();
                    let Some(id) = ids.get(nth % ids.len().max(1)).copied() else { continue };
                    let channel = if client { Channel::Client } else { Channel::Terminal };
                    let answer = Answer { yes, uses, any_args, channel, ..super::tests::yes() };
                    let was = store.get(id).unwrap().state_at(at(now));
                    match store.decide(id, &answer, at(now)) {
                        Ok(record) => {
                            prop_assert_eq!(was, State::Pending);
                            if yes {
                                prop_assert!(!client, "a client's dialog allowed what needs a person here");
                                given.insert(id, Ledger {
                                    principal: record.principal.clone(), args: record.args_hash, pin: record.pin,
                                    state: record.base_state_hash, any_args, uses, until: record.expires_at.unwrap().as_millis(),
                                });
                            } else {
                                denied.push((record.principal.clone(), record.args_hash, now));
                            }
                        }
                        Err(_) => prop_assert!(was != State::Pending || (yes && client)),
                    }
                }
                Op::Pass(ms) => now += ms,
            }
        }
    }
}
