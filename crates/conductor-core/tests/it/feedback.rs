//! Tests the messages to lights and faders, in virtual time.

use conductor_core::config::{Config, load};
use conductor_core::engine::Engine;
use conductor_core::event::script::token;
use conductor_core::event::{Body, DeviceSlot, Event, Micros, Taint};
use conductor_core::feedback::{Fact, Feedback, Light, PER_SECOND};
use conductor_core::mapping::table::Slots;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::LazyLock;

const STUDIO: &str = r##"
default_mode = "Play"
[[devices]]
alias = "pads"
matchers = [{ type = "NameContains", pattern = "pads" }]
[[devices]]
alias = "faders"
matchers = [{ type = "NameContains", pattern = "faders" }]
[[devices]]
alias = "daw"
direction = "Output"
virtual_port = "DAW"

[[modes]]
name = "Play"
color = "green"
[[modes.mappings]]
id = "hit"
trigger = { type = "Note", note = 36, device = "pads" }
action = { type = "Text", text = "x" }
[[modes.continuous]]
id = "level"
source = { type = "CC", cc = 7, device = "faders" }
targets = [{ type = "CC", port = "daw", channel = 0, controller = 7 }]
[[modes]]
name = "Mix"

[[feedback]]
device = "pads"
out = { type = "Note", channel = 0, note = 50 }
from = { type = "Mode", mode = "Mix" }
on = 21
[[feedback]]
device = "pads"
out = { type = "Note", channel = 0, note = 51 }
from = { type = "Pressed", mapping = "hit" }
on = 5
[[feedback]]
device = "faders"
out = { type = "CC", channel = 0, controller = 7 }
from = { type = "Value", continuous = "level" }
[[feedback]]
device = "faders"
out = { type = "CC", channel = 0, controller = 8 }
from = { type = "LiveParameter", path = "track:0/mixer/volume" }
range = [10, 110]
[[feedback]]
device = "pads"
out = { type = "Note", channel = 0, note = 52 }
from = { type = "Connected", device = "faders" }
[[feedback]]
device = "pads"
out = { type = "Note", channel = 0, note = 53 }
from = { type = "PerformanceLock" }
[[feedback]]
device = "pads"
out = { type = "CC", channel = 0, controller = 53 }
from = { type = "PendingApprovals" }
off = 1
"##;

static PARSED: LazyLock<Config> = LazyLock::new(|| config(STUDIO));

fn config(text: &str) -> Config {
    let loaded = load(text);
    assert!(loaded.valid(), "{}", loaded.errors().map(|it| it.render(text, "studio.toml")).collect::<String>());
    loaded.config.expect("a fatal fault")
}

struct Stage {
    feedback: Feedback,
    slots: Slots,
    now: Micros,
    sent: Vec<(Micros, Light)>,
}

impl Stage {
    fn new(text: &str) -> Self {
        Stage::of(&config(text))
    }

    fn of(config: &Config) -> Self {
        let mut slots = Slots::default();
        let feedback = Feedback::new(config, &mut slots);
        let mut stage = Stage { feedback, slots, now: Micros::from_ms(10_000), sent: Vec::new() };
        for port in ["pads", "faders"] {
            stage.open(port, true);
        }
        stage
    }

    fn open(&mut self, port: &str, open: bool) {
        let port = self.slots.slot(port);
        self.feedback.port_open(port, open);
    }

    fn tell(&mut self, fact: Fact<'_>) {
        self.feedback.changed(fact, Taint::Clean, self.now);
    }

    fn step(&mut self) {
        let mut out = Vec::new();
        self.feedback.advance(self.now, &mut out);
        self.sent.extend(out.into_iter().map(|it| (self.now, it)));
    }

    fn pass(&mut self, ms: u64) {
        let end = Micros(self.now.0 + ms * 1000);
        self.step();
        while let Some(due) = self.feedback.next_deadline().filter(|it| *it <= end) {
            self.now = self.now.max(due);
            self.step();
        }
        self.now = end;
        self.step();
    }

    /// The messages that were sent since the last call.
    fn told(&mut self) -> String {
        let lines: Vec<String> =
            self.sent.drain(..).map(|(_, it)| format!("{} {}", self.slots.name(it.port), token(&it.message))).collect();
        lines.join(", ")
    }

    fn event(&self, device: &str, body: Body) -> Event {
        let device = self.slots.find(device).expect("a device of the studio");
        Event { at: self.now, device, taint: Taint::Clean, hops: 0, body }
    }
}

#[test]
fn a_port_that_opens_is_told_everything_that_is_known() {
    let mut stage = Stage::new(STUDIO);
    stage.pass(0);
    assert_eq!(stage.told(), "pads off:50, pads off:51, pads off:52, pads off:53, pads cc:53=1");
    stage.tell(Fact::LiveParameter { path: "track:0/mixer/volume", value: 0.5 });
    stage.pass(0);
    assert_eq!(stage.told(), "faders cc:8=60");
    stage.open("pads", false);
    stage.tell(Fact::PerformanceLock(true));
    stage.pass(1000);
    assert_eq!(stage.told(), "", "a message was sent to a closed port");
    stage.open("pads", true);
    stage.pass(0);
    assert_eq!(stage.told(), "pads off:50, pads off:51, pads off:52, pads on:53@127, pads cc:53=1");
}

#[test]
fn each_source_shows_and_what_did_not_change_is_not_sent() {
    let mut stage = Stage::new(STUDIO);
    stage.pass(0);
    stage.told();
    for (fact, told) in [
        (Fact::PendingApprovals(2), "pads cc:53=127"),
        (Fact::PendingApprovals(1), ""),
        (Fact::PendingApprovals(0), "pads cc:53=1"),
        (Fact::Connected { device: "faders", connected: true }, "pads on:52@127"),
        (Fact::Connected { device: "pads", connected: true }, ""),
        (Fact::PerformanceLock(true), "pads on:53@127"),
        (Fact::PerformanceLock(true), ""),
        (Fact::Value { continuous: "level", value: 0.5 }, "faders cc:7=64"),
        (Fact::Value { continuous: "level", value: 0.501 }, ""),
        (Fact::Value { continuous: "level", value: f64::NAN }, ""),
        (Fact::LiveParameter { path: "track:1/mixer/volume", value: 1.0 }, ""),
        (Fact::Mode("Play"), ""),
    ] {
        stage.tell(fact);
        stage.pass(0);
        assert_eq!(stage.told(), told, "{fact:?}");
    }
    stage.tell(Fact::Mode("Mix"));
    stage.pass(0);
    let all = stage.told();
    assert!(
        all.contains("pads on:50@21") && all.contains("faders cc:7=64"),
        "a mode switch did not send all values: {all}"
    );
}

#[test]
fn a_press_is_seen_however_short_and_as_long_as_it_lasts() {
    let mut stage = Stage::new(STUDIO);
    stage.pass(0);
    stage.told();
    stage.tell(Fact::Pressed { mapping: "hit", down: true });
    stage.tell(Fact::Pressed { mapping: "hit", down: false });
    stage.pass(99);
    assert_eq!(stage.told(), "pads on:51@5");
    stage.pass(1);
    assert_eq!(stage.told(), "pads off:51");
    stage.tell(Fact::Pressed { mapping: "hit", down: true });
    stage.pass(5000);
    assert_eq!(stage.told(), "pads on:51@5");
    stage.tell(Fact::Pressed { mapping: "hit", down: false });
    stage.pass(0);
    assert_eq!(stage.told(), "pads off:51");
}

#[test]
fn the_hands_are_shown() {
    let mut stage = Stage::new(STUDIO);
    let mut engine = Engine::new(&config(STUDIO), &mut stage.slots, stage.now);
    stage.pass(0);
    stage.told();
    let mut out = Vec::new();
    let down = stage.event("pads", Body::NoteOn { channel: 0, note: 36, velocity: 90 });
    engine.feed(&down, &mut out);
    stage.feedback.read_engine(&mut engine, stage.now);
    stage.pass(500);
    assert_eq!(stage.told(), "pads on:51@5", "the light did not stay on while the pad was held");
    let up = stage.event("pads", Body::NoteOff { channel: 0, note: 36, velocity: 0 });
    engine.feed(&up, &mut out);
    stage.feedback.read_engine(&mut engine, stage.now);
    stage.pass(0);
    assert_eq!(stage.told(), "pads off:51");
    let moved = stage.event("faders", Body::Cc { channel: 0, controller: 7, value: 100 });
    assert!(stage.feedback.hear(&moved));
    engine.feed(&moved, &mut out);
    stage.feedback.read_engine(&mut engine, stage.now);
    stage.pass(149);
    assert_eq!(stage.told(), "", "a message was sent while a person moved the fader");
    stage.pass(1);
    assert_eq!(stage.told(), "faders cc:7=100");
    let now = stage.now;
    engine.switch_mode("Mix", Taint::Clean, now, &mut out).expect("a mode of the studio");
    stage.feedback.read_engine(&mut engine, now);
    stage.pass(0);
    assert!(stage.told().contains("on:50@21"));
}

#[test]
fn a_motor_is_not_a_hand_and_a_hand_after_it_is() {
    let mut stage = Stage::new(STUDIO);
    stage.tell(Fact::Value { continuous: "level", value: 1.0 });
    stage.pass(0);
    let at = |stage: &Stage, value: u8| stage.event("faders", Body::Cc { channel: 0, controller: 7, value });
    stage.pass(49);
    let event = at(&stage, 80);
    assert!(!stage.feedback.hear(&event), "motion of the motor was treated as a person's input");
    stage.pass(1);
    let event = at(&stage, 90);
    assert!(stage.feedback.hear(&event));
    let other = stage.event("faders", Body::Cc { channel: 1, controller: 7, value: 9 });
    assert!(stage.feedback.hear(&other), "an event of another control was dropped");
    // A lit button with a controller number is not a fader: its release is an input, even directly
    // after a light message.
    stage.tell(Fact::PendingApprovals(1));
    stage.pass(0);
    let release = stage.event("pads", Body::Cc { channel: 0, controller: 53, value: 0 });
    assert!(stage.feedback.hear(&release));
}

#[test]
fn a_fader_that_answers_everything_we_send_makes_no_loop() {
    let mut stage = Stage::new(STUDIO);
    let mut engine = Engine::new(&config(STUDIO), &mut stage.slots, stage.now);
    let mut out = Vec::new();
    let mut heard = 0;
    stage.tell(Fact::Value { continuous: "level", value: 0.3 });
    stage.pass(0);
    for round in 0..200u64 {
        let sent: Vec<Light> = stage.sent.drain(..).map(|it| it.1).collect();
        stage.pass(round % 50);
        for light in sent.iter().filter(|it| matches!(it.message, Body::Cc { .. })) {
            // The motor does not stop exactly at the requested position, like a real motor.
            let Body::Cc { channel, controller, value } = light.message.clone() else { continue };
            let answer = stage.event("faders", Body::Cc { channel, controller, value: value ^ 1 });
            if light.port == answer.device && stage.feedback.hear(&answer) {
                heard += 1;
                engine.feed(&answer, &mut out);
                stage.feedback.read_engine(&mut engine, stage.now);
            }
        }
    }
    assert_eq!(heard, 0);
    assert!(stage.sent.is_empty(), "messages are still sent");
}

#[test]
fn of_several_rows_on_one_light_the_first_that_is_on_wins() {
    let rows = r#"
[[feedback]]
device = "pads"
out = { type = "Note", channel = 0, note = 60 }
from = { type = "PerformanceLock" }
on = 5
[[feedback]]
device = "pads"
out = { type = "Note", channel = 0, note = 60 }
from = { type = "Mode", mode = "Mix" }
on = 45
off = 3
"#;
    let mut stage = Stage::new(&(STUDIO.to_owned() + rows));
    let last = |stage: &mut Stage| {
        stage.pass(2000);
        let told = stage.told();
        told.split(", ").filter(|it| it.contains(":60")).last().unwrap_or("").to_owned()
    };
    assert_eq!(last(&mut stage), "pads off:60");
    stage.tell(Fact::Mode("Mix"));
    assert_eq!(last(&mut stage), "pads on:60@45");
    stage.tell(Fact::PerformanceLock(true));
    assert_eq!(last(&mut stage), "pads on:60@5");
}

#[test]
fn a_light_whose_row_is_taken_away_goes_out_and_a_fader_stays() {
    let mut stage = Stage::new(STUDIO);
    stage.tell(Fact::PerformanceLock(true));
    stage.tell(Fact::Value { continuous: "level", value: 1.0 });
    stage.pass(0);
    stage.told();
    let bare = STUDIO.split("[[feedback]]").next().unwrap_or_default();
    stage.feedback.reload(&config(bare), &mut stage.slots);
    stage.pass(100);
    assert_eq!(stage.told(), "pads off:53");
}

// Tests of LED schemes.

/// A configuration with sixteen pads in a square and an LED scheme.
fn lit(scheme: &str, more: &str) -> String {
    let mut text = format!("[led]\nscheme = \"{scheme}\"\n{more}\n");
    text += "[[devices]]\nalias = \"pads\"\nmatchers = [{ type = \"NameContains\", pattern = \"pads\" }]\n";
    text += "[[modes]]\nname = \"Play\"\ncolor = \"red\"\n";
    for note in 36..52 {
        text += &format!(
            "[[modes.mappings]]\nid = \"p{note}\"\ntrigger = {{ type = \"Note\", note = {note}, device = \"pads\" }}\naction = {{ type = \"Text\", text = \"x\" }}\n"
        );
    }
    text
}

fn shown(stage: &Stage) -> BTreeMap<u8, u8> {
    let mut shown = BTreeMap::new();
    for (_, light) in &stage.sent {
        if let Body::NoteOn { note, velocity, .. } = light.message {
            shown.insert(note, velocity);
        } else if let Body::NoteOff { note, .. } = light.message {
            shown.insert(note, 0);
        }
    }
    shown
}

#[test]
fn a_static_scheme_shows_the_mode_and_then_rests() {
    let mut stage = Stage::new(&lit("static", ""));
    stage.pass(1000);
    assert_eq!(shown(&stage), (36..52).map(|it| (it, 5)).collect());
    assert_eq!(stage.feedback.next_deadline(), None, "there is a deadline without a change");
    let off = Stage::new(&lit("off", ""));
    assert!(shown(&off).is_empty());
    let mut dark = Stage::new(&lit("static", "brightness = 0"));
    dark.pass(1000);
    assert!(shown(&dark).values().all(|it| *it == 0));
    let mut blue = Stage::new(&lit("static", "mode_colors = { Play = \"#0010f0\" }"));
    blue.pass(1000);
    assert!(shown(&blue).values().all(|it| *it == 45));
}

#[test]
fn reactive_follows_velocity_and_fades() {
    let mut stage = Stage::new(&lit("reactive", ""));
    stage.pass(1000);
    for (note, velocity) in [(36, 40), (37, 41), (38, 80), (39, 81)] {
        let hit = stage.event("pads", Body::NoteOn { channel: 0, note, velocity });
        assert!(stage.feedback.hear(&hit));
    }
    stage.pass(1000);
    let lights = shown(&stage);
    assert_eq!((lights[&36], lights[&37], lights[&38], lights[&39], lights[&40]), (21, 13, 13, 5, 0));
    stage.pass(300);
    assert!(shown(&stage).values().all(|it| *it == 0));
    assert_eq!(stage.feedback.next_deadline(), None);
}

#[test]
fn feedback_rows_override_the_scheme_on_their_pad() {
    let row = "[[feedback]]\ndevice = \"pads\"\nout = { type = \"Note\", channel = 0, note = 40 }\nfrom = { type = \"PerformanceLock\" }\non = 9\n";
    let mut stage = Stage::new(&(lit("static", "") + row));
    stage.pass(1000);
    assert_eq!((shown(&stage)[&40], shown(&stage)[&41]), (0, 5));
    stage.tell(Fact::PerformanceLock(true));
    stage.pass(1000);
    assert_eq!(shown(&stage)[&40], 9);
}

#[test]
fn every_scheme_paints_and_keeps_room_for_rows() {
    for scheme in ["breathing", "pulse", "rainbow", "wave", "sparkle", "spiral"] {
        let row = "[[feedback]]\ndevice = \"pads\"\nout = { type = \"CC\", channel = 0, controller = 1 }\nfrom = { type = \"PerformanceLock\" }\n";
        let mut stage = Stage::new(&(lit(scheme, "") + row));
        stage.pass(3000);
        let painted: Vec<u8> = shown(&stage).into_keys().collect();
        assert!(painted.len() > 8, "{scheme} lit {painted:?}");
        let changes = stage.sent.len();
        assert!(changes > 20 && changes <= 3 * 41 + 16, "{scheme} sent {changes}");
        stage.sent.clear();
        stage.tell(Fact::PerformanceLock(true));
        stage.pass(0);
        assert!(stage.told().contains("cc:1=127"), "{scheme} delayed the feedback row");
    }
    let mut meter = Stage::new(&lit("vumeter", ""));
    meter.pass(1000);
    let hit = meter.event("pads", Body::NoteOn { channel: 0, note: 36, velocity: 127 });
    meter.feedback.hear(&hit);
    meter.pass(0);
    let lights = shown(&meter);
    assert_eq!(
        (lights[&36], lights[&44], lights[&48]),
        (21, 13, 5),
        "the meter is not green, yellow and red from the bottom"
    );
}

// Property tests.

#[derive(Clone, Debug)]
enum Op {
    Mode(bool),
    Press(bool),
    Value(u8),
    Live(u8),
    Connected(bool),
    Lock(bool),
    Approvals(u8),
    Open(bool, bool),
    Reload,
    Input(u8),
    Pass(u32),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        1 => any::<bool>().prop_map(Op::Mode),
        3 => any::<bool>().prop_map(Op::Press),
        12 => (0u8..128).prop_map(Op::Value),
        12 => (0u8..128).prop_map(Op::Live),
        2 => any::<bool>().prop_map(Op::Connected),
        2 => any::<bool>().prop_map(Op::Lock),
        2 => (0u8..3).prop_map(Op::Approvals),
        1 => (any::<bool>(), any::<bool>()).prop_map(|(port, open)| Op::Open(port, open)),
        1 => Just(Op::Reload),
        2 => (0u8..128).prop_map(Op::Input),
        8 => prop_oneof![0u32..20, 0u32..400].prop_map(Op::Pass),
    ]
}

proptest! {
    #[test]
    fn never_too_much_never_twice_and_always_the_last(ops in proptest::collection::vec(op(), 1..200)) {
        let studio = &*PARSED;
        let mut stage = Stage::of(studio);
        // The value that each control should show at the end; absent while the state is unknown.
        let mut want: BTreeMap<(&str, String), u8> = BTreeMap::new();
        let mut pressed = false;
        let mut refreshes: Vec<Micros> = Vec::new();
        for key in ["off:50", "off:51", "off:52", "off:53"] {
            want.insert(("pads", key.to_owned()), 0);
        }
        want.insert(("pads", "cc:53".to_owned()), 1);
        for op in &ops {
            match *op {
                Op::Mode(mix) => {
                    stage.tell(Fact::Mode(if mix { "Mix" } else { "Play" }));
                    refreshes.push(stage.now);
                    want.insert(("pads", "off:50".into()), if mix { 21 } else { 0 });
                }
                Op::Press(down) => {
                    stage.tell(Fact::Pressed { mapping: "hit", down });
                    pressed = down;
                }
                Op::Value(value) => {
                    stage.tell(Fact::Value { continuous: "level", value: f64::from(value) / 127.0 });
                    want.insert(("faders", "cc:7".into()), value);
                }
                Op::Live(value) => {
                    let unit = f64::from(value) / 127.0;
                    stage.tell(Fact::LiveParameter { path: "track:0/mixer/volume", value: unit });
                    want.insert(("faders", "cc:8".into()), (10.0 + 100.0 * unit).round() as u8);
                }
                Op::Connected(connected) => {
                    stage.tell(Fact::Connected { device: "faders", connected });
                    want.insert(("pads", "off:52".into()), if connected { 127 } else { 0 });
                }
                Op::Lock(on) => {
                    stage.tell(Fact::PerformanceLock(on));
                    want.insert(("pads", "off:53".into()), if on { 127 } else { 0 });
                }
                Op::Approvals(count) => {
                    stage.tell(Fact::PendingApprovals(usize::from(count)));
                    want.insert(("pads", "cc:53".into()), if count > 0 { 127 } else { 1 });
                }
                Op::Open(pads, open) => {
                    stage.open(if pads { "pads" } else { "faders" }, open);
                    refreshes.push(stage.now);
                }
                Op::Reload => {
                    stage.feedback.reload(studio, &mut stage.slots);
                    refreshes.push(stage.now);
                }
                Op::Input(value) => {
                    let event = stage.event("faders", Body::Cc { channel: 0, controller: 7, value });
                    if stage.feedback.hear(&event) {
                        // A person moved the fader, so its value is sent again afterwards.
                        refreshes.push(stage.now);
                    }
                }
                Op::Pass(ms) => stage.pass(u64::from(ms)),
            }
        }
        want.insert(("pads", "off:51".into()), if pressed { 5 } else { 0 });
        for port in ["pads", "faders"] {
            stage.open(port, true);
            refreshes.push(stage.now);
        }
        stage.pass(10_000);
        prop_assert_eq!(stage.feedback.next_deadline(), None, "a deadline is left");

        let mut last: BTreeMap<(DeviceSlot, String), (Micros, Body)> = BTreeMap::new();
        let mut times: BTreeMap<DeviceSlot, Vec<Micros>> = BTreeMap::new();
        for (at, light) in &stage.sent {
            let name = if let Body::NoteOn { note, .. } | Body::NoteOff { note, .. } = &light.message {
                format!("off:{note}")
            } else if let Body::Cc { controller, .. } = &light.message {
                format!("cc:{controller}")
            } else {
                return Err(TestCaseError::fail("a message is not for a light"));
            };
            if let Some((before, message)) = last.insert((light.port, name), (*at, light.message.clone())) {
                let told_anew = refreshes.iter().any(|it| before <= *it && *it <= *at);
                prop_assert!(told_anew || message != light.message, "{:?} was sent twice", message);
            }
            times.entry(light.port).or_default().push(*at);
        }
        for times in times.values() {
            for window in times.windows(PER_SECOND + 1) {
                prop_assert!(window[PER_SECOND].0 - window[0].0 >= 1_000_000, "more than 50 messages in a second");
            }
        }
        for ((port, name), value) in want {
            let slot = stage.slots.find(port).expect("a port of the studio");
            let shown = last.get(&(slot, name.clone())).map(|it| {
                if let Body::NoteOn { velocity: shown, .. } | Body::Cc { value: shown, .. } = &it.1 { *shown } else { 0 }
            });
            prop_assert_eq!(shown, Some(value), "{} {}", port, name);
        }
    }
}

#[test]
fn a_template_knows_its_pads_and_the_channel_of_their_lights() {
    let text = r#"
[led]
scheme = "static"
[[devices]]
alias = "apc"
template = "apc-mini-mk2"
matchers = [{ type = "NameContains", pattern = "APC mini mk2" }]
[[modes]]
name = "Play"
color = "green"
[[feedback]]
device = "apc"
out = { type = "Note", channel = 0, note = 7 }
from = { type = "PerformanceLock" }
on = 5
"#;
    let mut stage = Stage::new(text);
    stage.open("apc", true);
    stage.pass(5000);
    let lights = shown(&stage);
    assert_eq!((lights.len(), lights[&0], lights[&63], lights[&7]), (64, 21, 21, 0));
    let channels: Vec<u8> = stage
        .sent
        .iter()
        .filter_map(|(_, it)| if let Body::NoteOn { channel, .. } = it.message { Some(channel) } else { None })
        .collect();
    assert!(channels.iter().all(|it| *it == 6), "a light does not have full brightness");
    assert_eq!(
        shown(&stage).values().filter(|it| **it == 21).count(),
        63,
        "the scheme did not light exactly the other 63 pads"
    );
}
