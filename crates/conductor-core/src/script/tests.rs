use super::*;
use proptest::prelude::*;
use serde_json::json;

const KEY: [u8; 32] = [9; 32];
const NAME: &str = "journal";

fn begin() -> Begin {
    Begin {
        execution: Uuid::from_u128(1),
        principal: Principal::socket(1000, "demo"),
        code: Digest::of(b"code"),
        policy: Digest::of(b"policy"),
        seed: 7,
        started: Timestamp::from_millis(1000),
        until: Timestamp::from_millis(301_000),
    }
}

/// One call of a test script. Its arguments depend on the answers so far, as in a real script.
#[derive(Clone, Debug)]
struct Planned {
    tool: &'static str,
    has_effect: bool,
    /// The call needs an approval, which exists from the second run on.
    asks: bool,
}

/// The step of a run at which the daemon or the child process is killed.
#[derive(Clone, Copy, Debug)]
struct Kill {
    step: usize,
    /// How much of the current line reaches the disk; 255 is the whole line.
    torn: u8,
}

/// The disk and the outside world, which both survive a kill.
struct World {
    disk: Vec<u8>,
    /// How often the effect of each call occurred.
    effects: Vec<usize>,
    /// The answers that the script received in each run, by position.
    received: Vec<Vec<Value>>,
    runs: usize,
}

#[derive(Debug, PartialEq)]
enum End {
    Returned,
    Killed,
    Stopped(Stop),
    Waits,
}

struct Steps {
    left: usize,
    torn: u8,
}

impl Steps {
    /// Whether the process is killed before the next step.
    fn kill(&mut self) -> bool {
        let now = self.left == 0;
        self.left = self.left.wrapping_sub(1);
        now
    }
}

/// Runs the script once, as the daemon does.
fn run(world: &mut World, script: &[Planned], kill: Kill) -> End {
    let mut steps = Steps { left: kill.step, torn: kill.torn };
    world.runs += 1;
    world.received.push(Vec::new());
    let stored = read(&KEY, NAME, &world.disk).unwrap();
    let (mut journal, mut sealer) = match stored {
        Some((journal, sealer, valid)) => {
            world.disk.truncate(valid);
            (journal, sealer)
        }
        None => {
            world.disk.clear();
            let mut sealer = Sealer::new(&KEY, NAME);
            let first = sealer.write(&Line::Begin(begin())).unwrap();
            if steps.kill() {
                tear(world, &first, steps.torn);
                return End::Killed;
            }
            world.disk.extend(first);
            (Journal::new(begin()), sealer)
        }
    };
    journal.rewind();
    let mut write = |world: &mut World, journal: &mut Journal, steps: &mut Steps, line: Line| {
        let bytes = sealer.write(&line).unwrap();
        if steps.kill() {
            tear(world, &bytes, steps.torn);
            return false;
        }
        world.disk.extend(bytes);
        journal.add(line).unwrap();
        true
    };
    for (index, call) in script.iter().enumerate() {
        let args = Digest::of(format!("{index}{:?}", world.received.last().unwrap()).as_bytes());
        let answer = match journal.next(call.tool, args) {
            Err(stop) => return End::Stopped(stop),
            Ok(Next::Replay(outcome)) => outcome.answer,
            Ok(Next::Make(asked)) => {
                assert_eq!(asked.index, index);
                if call.has_effect && !write(world, &mut journal, &mut steps, Line::Intent(asked.clone())) {
                    return End::Killed;
                }
                if call.asks && world.runs == 1 {
                    let line = Line::Withdrawn { index, approval: Some(Uuid::nil()), until: begin().until };
                    return if write(world, &mut journal, &mut steps, line) { End::Waits } else { End::Killed };
                }
                if steps.kill() {
                    return End::Killed;
                }
                if call.has_effect {
                    world.effects[index] += 1;
                }
                let answer = Answer::Ok(json!([index, world.runs]));
                let changed = if call.has_effect { Changed::Something } else { Changed::Nothing };
                let outcome = Outcome { asked, answer: answer.clone(), changed, planned: None };
                if !write(world, &mut journal, &mut steps, Line::Outcome(outcome)) {
                    return End::Killed;
                }
                answer
            }
        };
        let Answer::Ok(value) = answer else { panic!("a call of the test script failed") };
        world.received.last_mut().unwrap().push(value);
    }
    End::Returned
}

/// A part of the line reaches the disk.
fn tear(world: &mut World, line: &[u8], torn: u8) {
    let part = line.len() * usize::from(torn) / 255;
    world.disk.extend(&line[..part]);
}

fn script() -> impl Strategy<Value = Vec<Planned>> {
    let call = (prop::sample::select(vec!["a", "b", "c"]), any::<bool>(), prop::bool::weighted(0.2));
    prop::collection::vec(
        call.prop_map(|(tool, has_effect, asks)| Planned { tool, has_effect, asks: asks && has_effect }),
        1..8,
    )
}

proptest! {
    /// A script is killed at any step of any run, with any part of a line on the disk. Every effect
    /// occurs at most once, and every run sees the same answers.
    #[test]
    fn a_killed_script_never_repeats_an_effect(
        script in script(),
        kills in prop::collection::vec((0usize..30, any::<u8>()), 0..6),
    ) {
        let mut world = World { disk: Vec::new(), effects: vec![0; script.len()], received: Vec::new(), runs: 0 };
        let mut end = End::Killed;
        let never = Kill { step: usize::MAX, torn: 0 };
        let runs = kills.into_iter().map(|(step, torn)| Kill { step, torn }).chain([never, never]);
        for kill in runs {
            end = run(&mut world, &script, kill);
            prop_assert!(world.effects.iter().all(|it| *it <= 1), "{:?}", world.effects);
            if matches!(end, End::Returned | End::Stopped(_)) {
                break;
            }
        }
        match end {
            End::Returned => {
                for (call, times) in script.iter().zip(&world.effects) {
                    prop_assert_eq!(usize::from(call.has_effect), *times);
                }
            }
            // The kill was between the intent and the outcome of this call.
            End::Stopped(Stop::Unknown { index, .. }) => prop_assert!(script[index].has_effect),
            End::Stopped(stop @ Stop::Differs { .. }) => prop_assert!(false, "{stop}"),
            End::Killed | End::Waits => prop_assert!(false, "the script did not end in the last runs"),
        }
        for pair in world.received.windows(2) {
            let both = pair[0].len().min(pair[1].len());
            // If the runs differ, the script received an answer that was not on the disk when the
            // process was killed.
            prop_assert_eq!(&pair[0][..both], &pair[1][..both]);
        }
    }

    /// No changed, swapped, repeated or foreign line is accepted.
    #[test]
    fn a_journal_that_another_program_edited_is_refused(script in script(), at in any::<prop::sample::Index>(), bit in 0u8..8) {
        let mut world = World { disk: Vec::new(), effects: vec![0; script.len()], received: Vec::new(), runs: 1 };
        run(&mut world, &script, Kill { step: usize::MAX, torn: 0 });
        let whole = world.disk.clone();
        prop_assert!(read(&KEY, NAME, &whole).unwrap().is_some(), "control: the unchanged file was refused");
        let mut flipped = whole.clone();
        let place = at.index(flipped.len());
        flipped[place] ^= 1 << bit;
        let original = read(&KEY, NAME, &whole).unwrap().unwrap().0;
        match read(&KEY, NAME, &flipped) {
            Err(_) => {}
            // A changed last newline makes the last line incomplete.
            Ok(read) => prop_assert!(place + 1 == whole.len() && read.is_none_or(|it| it.0.calls() < original.calls() || it.0 != original)),
        }
        prop_assert!(read(&KEY, "another", &whole).is_err(), "a renamed journal was accepted");
        prop_assert!(read(&[8; 32], NAME, &whole).is_err(), "the key of another home was accepted");
        let lines: Vec<&[u8]> = whole.split_inclusive(|it| *it == b'\n').collect();
        if lines.len() > 2 {
            let mut swapped = lines.clone();
            swapped.swap(1, 2);
            prop_assert!(lines[1] == lines[2] || read(&KEY, NAME, &swapped.concat()).is_err());
            let doubled = [lines[0], lines[1], lines[1]].concat();
            prop_assert!(read(&KEY, NAME, &doubled).is_err());
        }
    }
}

#[test]
fn a_call_must_match_by_position_tool_and_arguments() {
    let mut journal = Journal::new(begin());
    let args = Digest::of(b"args");
    let Ok(Next::Make(asked)) = journal.next("a", args) else { panic!("the first call is not new") };
    let outcome = Outcome { asked, answer: Answer::Ok(json!(1)), changed: Changed::Something, planned: None };
    journal.add(Line::Outcome(outcome.clone())).unwrap();
    for (tool, args) in [("b", args), ("a", Digest::of(b"other"))] {
        journal.rewind();
        assert!(matches!(journal.next(tool, args), Err(Stop::Differs { index: 0, .. })));
    }
    journal.rewind();
    assert_eq!(journal.next("a", args), Ok(Next::Replay(outcome)));
    assert_eq!(journal.changed(), Changed::Something);
}

#[test]
fn a_journal_lives_as_long_as_its_approval() {
    let mut journal = Journal::new(begin());
    let late = begin().until;
    assert!(journal.is_over(late, |_| true), "a journal that waits for no approval did not expire");
    assert!(!journal.is_over(Timestamp::from_millis(late.as_millis() - 1), |_| false));
    let until = late.plus_millis(1000);
    journal.add(Line::Withdrawn { index: 0, approval: Some(Uuid::nil()), until }).unwrap();
    assert!(!journal.is_over(late, |_| false));
    assert!(!journal.is_over(until, |_| true));
    assert!(journal.is_over(until, |_| false));
}

#[test]
fn lines_out_of_order_are_refused() {
    let asked = |index| Asked { index, tool: "a".into(), args: Digest::of(b"") };
    let outcome =
        |index| Outcome { asked: asked(index), answer: Answer::Ok(json!(1)), changed: Changed::Nothing, planned: None };
    let mut journal = Journal::new(begin());
    for line in [Line::Begin(begin()), Line::Intent(asked(1)), Line::Outcome(outcome(1))] {
        assert_eq!(journal.add(line), Err(OutOfOrder));
    }
    journal.add(Line::Intent(asked(0))).unwrap();
    let other = Outcome { asked: Asked { tool: "b".into(), ..asked(0) }, ..outcome(0) };
    for line in [Line::Intent(asked(1)), Line::Plan { id: Uuid::nil() }, Line::Outcome(other)] {
        assert_eq!(journal.add(line), Err(OutOfOrder));
    }
    assert_eq!(journal.changed(), Changed::Unknown);
    journal.add(Line::Outcome(outcome(0))).unwrap();
    assert_eq!(journal.changed(), Changed::Nothing);
}
