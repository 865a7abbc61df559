//! `[led]`, `[[feedback]]`, `[per_app_modes]` and `[policy.approval.pad]`: the lights of a
//! controller, the mode for the front window, and the approval pad. Each key is varied on a running
//! daemon.

use super::{Studio, pause};
use conductor_core::event::{Body, Taint};
use conductor_daemon::app::{Machine, MakeBackend};
use conductor_gateway::owner_handle::Wanted;
use conductor_hosts::midi::loopback::{Hand, Loopback};
use conductor_hosts::midi::ring::EventSender;
use conductor_hosts::midi::{Backend, Input, Output, PortError, PortInfo, Stamp, Unavailable};
use conductor_testkit::line_client::{LineClient, modern};
use conductor_testkit::real::{PATIENCE, wait_for};
use conductor_testkit::tools as test_tools;
use serde_json::json;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use tokio::sync::mpsc as async_mpsc;

/// Two loopback devices; `pads` has lights and is played through the port `pads hand`.
pub(super) const BOARD: &str = r##"
default_mode = "Play"
[[devices]]
alias = "pads"
loopback = true
[[devices]]
alias = "synth"
direction = "Output"
loopback = true
[[modes]]
name = "Play"
color = "green"
mappings = [
    { id = "a", trigger = { type = "Note", note = 36, device = "pads" }, action = { type = "Delay", ms = 1 } },
    { id = "b", trigger = { type = "Note", note = 37, device = "pads" }, action = { type = "ModeChange", mode = "Mix" } },
]
continuous = [
    { id = "fader", source = { type = "CC", cc = 7, device = "pads" }, targets = [{ type = "CC", port = "synth", channel = 0, controller = 7 }] },
]
[[modes]]
name = "Mix"
"##;

impl Studio {
    pub(super) fn ear(&self, port: &str) -> async_mpsc::Receiver<Vec<u8>> {
        self.block_on(self.handle().listen(port.to_owned())).unwrap()
    }

    /// The next message at a port. Fails if none arrives.
    pub(super) fn hear(&self, ear: &mut async_mpsc::Receiver<Vec<u8>>) -> Vec<u8> {
        let heard = self.block_on(async { tokio::time::timeout(PATIENCE, ear.recv()).await });
        heard.expect("a message").expect("the daemon has ended")
    }

    /// All messages received before a mark that is sent now. No other message in these tests equals
    /// the mark.
    fn heard_by_now(&self, ear: &mut async_mpsc::Receiver<Vec<u8>>, port: &str) -> Vec<Vec<u8>> {
        const MARK: [u8; 3] = [0xBF, 127, 99];
        self.send(port, &MARK);
        let mut heard = Vec::new();
        loop {
            let message = self.hear(ear);
            if message == MARK {
                return heard;
            }
            heard.push(message);
        }
    }

    /// The first messages to `pads` after a reload with these lines, which sends all lights.
    fn lights(lines: &str, count: usize) -> Vec<Vec<u8>> {
        let studio = Studio::start(&format!("{BOARD}\n"));
        let mut ear = studio.ear("pads");
        studio.reload(&format!("{BOARD}\n{lines}\n"));
        (0..count).map(|_| studio.hear(&mut ear)).collect()
    }
}

#[test]
pub(super) fn the_scheme_its_brightness_and_its_colours_are_shown() {
    let shown = |lines: &str| Studio::lights(lines, 2);
    // The palette of devices without a template: green 21, blue 45, red 5.
    let green = vec![vec![0x90, 36, 21], vec![0x90, 37, 21]];
    assert_eq!(shown("[led]\nscheme = \"static\""), green, "the pads do not have the colour of the mode");
    assert_eq!(shown("[led]\nscheme = \"static\"\nmode_colors = { Play = \"red\" }")[0], [0x90, 36, 5]);
    let dark = shown("[led]\nscheme = \"static\"\nbrightness = 0");
    assert_eq!(dark, [[0x80, 36, 0], [0x80, 37, 0]]);
    let rainbow = shown("[led]\nscheme = \"rainbow\"");
    assert_ne!(rainbow, green, "the rainbow scheme shows the same colours as the static scheme");
}

#[test]
fn every_scheme_is_its_own_picture_and_off_is_none() {
    let studio = Studio::start(&format!("{BOARD}\n[led]\nscheme = \"reactive\"\n"));
    let mut ear = studio.ear("pads");
    studio.play(&[0x90, 36, 100]);
    let lit = |message: &Vec<u8>| message[..2] == [0x90, 36];
    assert_eq!(
        std::iter::repeat_with(|| studio.hear(&mut ear)).find(lit),
        Some(vec![0x90, 36, 5]),
        "a hard press is not red"
    );
    studio.play(&[0x80, 36, 0]);
    studio.reload(BOARD);
    assert!(wait_for(PATIENCE, || studio.heard_by_now(&mut ear, "pads").is_empty().then_some(())).is_some());
    studio.play(&[0x90, 36, 100]);
    assert_eq!(studio.heard_by_now(&mut ear, "pads"), Vec::<Vec<u8>>::new(), "the scheme off shows lights");
}

#[test]
pub(super) fn a_template_names_the_lights_of_a_device() {
    let with = |template: &str| {
        let config = BOARD.replacen("loopback = true", &format!("loopback = true\n{template}"), 1);
        let studio = Studio::start(&format!("{config}\n[led]\nscheme = \"off\"\n"));
        let mut ear = studio.ear("pads");
        studio.reload(&format!("{config}\n[led]\nscheme = \"static\"\n"));
        studio.hear(&mut ear)
    };
    assert_eq!(with("")[1], 36, "without a template, the lights are not the pads of the mappings");
    assert_eq!(
        with("template = \"apc-mini-mk2\"")[1],
        0,
        "with a template, the first light is not its bottom left pad"
    );
}

fn row(from: &str) -> String {
    format!(
        "[[feedback]]\ndevice = \"pads\"\nout = {{ type = \"Note\", channel = 2, note = 51 }}\nfrom = {from}\non = 21\noff = 3\n"
    )
}

#[test]
pub(super) fn feedback_rows_show_what_they_are_told_to_show() {
    let studio = Studio::start(BOARD);
    let mut ear = studio.ear("pads");
    let on = || vec![0x92, 51, 21];
    let off = || vec![0x92, 51, 3];
    type Act<'a> = &'a dyn Fn(&Studio);
    // The messages of one light: for the initial state, and after each action.
    let mut shown = |row: &str, acts: &[Act<'_>]| {
        studio.reload(&format!("{BOARD}\n{row}"));
        let mut heard = vec![studio.hear(&mut ear)];
        for act in acts {
            act(&studio);
            heard.push(studio.hear(&mut ear));
        }
        heard
    };
    let to_play: Act<'_> =
        &|studio| drop(studio.block_on(studio.handle().switch_mode(Some("Play".into()), Taint::Clean)).unwrap());
    let modes = shown(&row("{ type = \"Mode\", mode = \"Mix\" }"), &[&|studio| studio.play(&[0x90, 37, 90]), to_play]);
    assert_eq!(modes, [off(), on(), off()], "the light does not show the mode that the pad selects");
    let pressed = shown(
        &row("{ type = \"Pressed\", mapping = \"a\" }"),
        &[&|studio| studio.play(&[0x90, 36, 90]), &|studio| studio.play(&[0x80, 36, 0])],
    );
    assert_eq!(pressed, [off(), on(), off()], "the light does not show the press and the release");
    let lock = |on: bool| move |it: &Studio| it.block_on(it.handle().set_performance_lock(on)).unwrap();
    let locked = shown(&row("{ type = \"PerformanceLock\" }"), &[&lock(true), &lock(false)]);
    assert_eq!(locked, [off(), on(), off()]);
    let ask: Act<'_> = &|it| assert_eq!(it.code(&mut it.client(), test_tools::DANGER), "APPROVAL_REQUIRED");
    assert_eq!(shown(&row("{ type = \"PendingApprovals\" }"), &[ask]), [off(), on()]);
    let absent =
        BOARD.replace("direction = \"Output\"\nloopback = true", "direction = \"Output\"\nvirtual_port = \"x\"");
    let synth = row("{ type = \"Connected\", device = \"synth\" }");
    let away: Act<'_> = &|it| drop(it.reload(&format!("{absent}\n{synth}")));
    let mut connected = shown(&synth, &[away]);
    // After a reload every light is sent again, possibly before the loss of the port is noticed.
    // The next message then shows the loss.
    if connected.last() == Some(&on()) {
        connected[1] = studio.hear(&mut ear);
    }
    assert_eq!(connected, [on(), off()]);
}

#[test]
pub(super) fn a_value_is_scaled_into_its_range_and_a_motor_is_not_a_hand() {
    let studio = Studio::start(BOARD);
    let (mut pads, mut synth) = (studio.ear("pads"), studio.ear("synth"));
    let row = "[[feedback]]\ndevice = \"pads\"\nout = { type = \"CC\", channel = 0, controller = 20 }\n\
               from = { type = \"Value\", continuous = \"fader\" }\nrange = [10, 20]\n";
    studio.reload(&format!("{BOARD}\n{row}"));
    studio.play(&[0xB0, 7, 127]);
    assert_eq!(studio.hear(&mut synth), [0xB0, 7, 127]);
    assert_eq!(studio.hear(&mut pads), [0xB0, 20, 20]);
    drop(studio);

    // The daemon moves the same control that sends the position. A position that arrives shortly
    // after the move comes from the motor and is not input. On a slow machine the position may
    // arrive too late, so try several times.
    let studio = Studio::start(&format!("{BOARD}\n{}", row.replace("controller = 20", "controller = 7")));
    let mut pads = studio.ear("pads");
    let traced = || studio.block_on(studio.handle().trace(Wanted::default())).unwrap();
    let is_motor = (0..50).any(|turn: u8| {
        studio.play(&[0xB0, 7, turn]);
        let light = studio.hear(&mut pads);
        assert_eq!(light[..2], [0xB0, 7]);
        let before = traced().next_seq;
        studio.play(&[0xB0, 7, turn + 60]);
        wait_for(PATIENCE, || (traced().next_seq > before).then_some(())).expect("an event is not in the trace");
        traced().records.iter().any(|it| it.reason.contains("motor"))
    });
    assert!(is_motor);
}

/// A loopback backend with another name, whose ports count as hardware: a controller that is
/// connected by cable.
pub(super) struct Cable {
    pub machinery: Loopback,
    /// How often the ports were listed.
    pub scans: Arc<AtomicUsize>,
}

impl Backend for Cable {
    fn name(&self) -> &'static str {
        "cable"
    }

    fn connect(&mut self) -> Result<(), Unavailable> {
        self.machinery.connect()
    }

    fn ports(&mut self) -> Result<Vec<PortInfo>, PortError> {
        self.scans.fetch_add(1, Ordering::Relaxed);
        let ports = self.machinery.ports()?.into_iter().filter(|it| !it.name.ends_with(" hand"));
        Ok(ports.map(|it| PortInfo { is_hardware: true, ..it }).collect())
    }

    fn open_input(&mut self, id: &str, lane: EventSender) -> Result<Box<dyn Input>, PortError> {
        self.machinery.open_input(id, lane)
    }

    fn open_output(&mut self, id: &str) -> Result<Box<dyn Output>, PortError> {
        self.machinery.open_output(id)
    }

    fn create_input(&mut self, name: &str, lane: EventSender) -> Result<Box<dyn Input>, PortError> {
        self.machinery.create_input(name, lane)
    }

    fn create_output(&mut self, name: &str) -> Result<Box<dyn Output>, PortError> {
        self.machinery.create_output(name)
    }
}

/// A backend with one input, whose events the test sends itself. The daemon accepts gamepad events
/// from it too.
struct Handed(Cable, mpsc::Sender<EventSender>);

struct Open;

impl Input for Open {
    fn is_open(&self) -> bool {
        true
    }
}

impl Backend for Handed {
    fn name(&self) -> &'static str {
        "handed"
    }

    fn connect(&mut self) -> Result<(), Unavailable> {
        self.0.connect()
    }

    fn ports(&mut self) -> Result<Vec<PortInfo>, PortError> {
        self.0.ports()
    }

    fn open_input(&mut self, _: &str, lane: EventSender) -> Result<Box<dyn Input>, PortError> {
        self.1.send(lane).unwrap();
        Ok(Box::new(Open))
    }

    fn open_output(&mut self, id: &str) -> Result<Box<dyn Output>, PortError> {
        self.0.open_output(id)
    }

    fn create_input(&mut self, name: &str, lane: EventSender) -> Result<Box<dyn Input>, PortError> {
        self.0.create_input(name, lane)
    }

    fn create_output(&mut self, name: &str) -> Result<Box<dyn Output>, PortError> {
        self.0.create_output(name)
    }
}

/// A gamepad that is controlled by the test.
pub(super) struct Pad {
    stamp: Stamp,
    lane: EventSender,
}

impl Pad {
    pub fn moved(&mut self, body: Body) {
        self.lane.push((self.stamp)(), Taint::Clean, body);
    }
}

/// Starts a daemon with one gamepad that has no alias.
pub(super) fn with_gamepad(config: &str) -> (Studio, Pad) {
    let (tell_stamp, stamp) = mpsc::channel();
    let (tell, told) = mpsc::channel();
    let make: MakeBackend = Box::new(move |stamp, announce| {
        tell_stamp.send(stamp.clone()).unwrap();
        let machinery = Loopback::new(stamp, announce);
        machinery.plug("Gamepad");
        Box::new(Handed(Cable { machinery, scans: Arc::default() }, tell))
    });
    let studio = Studio::on(Machine { backends: vec![make], ..Machine::default() }, config);
    let pad = Pad { stamp: stamp.recv().unwrap(), lane: told.recv().unwrap() };
    (studio, pad)
}

const KEYS: &str = "[[devices]]\nalias = \"keys\"\nmatchers = [{ type = \"ExactName\", pattern = \"Grand\" }]\n\
                    [[devices]]\nalias = \"pads\"\nloopback = true\n";

fn pad_section(device: &str, note: u8, hold_ms: u32, tiers: &str) -> String {
    format!(
        "{KEYS}[policy.approval]\nwait_ms = 60000\n[policy.approval.pad]\ndevice = \"{device}\"\nnote = {note}\nhold_ms = {hold_ms}\ntiers = {tiers}\n"
    )
}

/// Starts a daemon with two controllers, Grand and Upright, and returns the handle that plays
/// Grand.
pub(super) fn with_cable(config: &str) -> (Studio, Hand) {
    let (tell, told) = mpsc::channel();
    let make: MakeBackend = Box::new(move |stamp, announce| {
        let machinery = Loopback::new(stamp, announce);
        machinery.plug("Upright");
        tell.send(machinery.plug("Grand")).unwrap();
        Box::new(Cable { machinery, scans: Arc::default() })
    });
    let studio = Studio::on(Machine { backends: vec![make], ..Machine::default() }, config);
    let hand = told.recv().unwrap();
    (studio, hand)
}

const DOWN: [u8; 3] = [0x90, 51, 100];
const UP: [u8; 3] = [0x80, 51, 0];

impl Studio {
    fn is_attended(&self) -> bool {
        self.gateway().studio.approvals.is_attended()
    }

    fn open_questions(&self) -> usize {
        let desk = &self.gateway().studio.approvals;
        desk.store().read(|pending| pending.waiting().count())
    }

    /// Starts a call that needs approval. The call waits while the pad is armed.
    fn ask(&self, client: &mut LineClient, text: &str) -> i64 {
        let params = modern(json!({ "name": test_tools::DANGER, "arguments": { "text": text } }));
        let before = self.open_questions();
        let id = self.block_on(client.start("tools/call", params));
        assert!(wait_for(PATIENCE, || (self.open_questions() > before).then_some(())).is_some());
        id
    }
}

#[test]
fn a_held_pad_allows_the_one_call_that_waits() {
    let (studio, hand) = with_cable(&pad_section("keys", 51, 50, "[\"HardwareIO\"]"));
    assert!(studio.is_attended(), "the pad does not count as an approver");
    let mut client = studio.client();
    let call = studio.ask(&mut client, "loud");
    assert!(hand.play(&DOWN, Taint::Clean));
    let reply = studio.block_on(client.reply(call));
    assert_eq!(reply["result"]["isError"], json!(false), "{reply}");
    assert_eq!(studio.runs.of(test_tools::DANGER), 1);
    assert!(studio.audit_text().contains("\"channel\":\"pad\""));
}

#[test]
pub(super) fn a_call_waits_for_a_person_as_long_as_the_file_says() {
    let section = pad_section("keys", 51, 50, "[\"HardwareIO\"]").replace("wait_ms = 60000", "wait_ms = 1");
    let (studio, _hand) = with_cable(&section);
    assert!(studio.is_attended(), "the pad does not count as an approver");
    assert_eq!(studio.code(&mut studio.client(), test_tools::DANGER), "APPROVAL_REQUIRED");
}

#[test]
pub(super) fn each_key_of_the_pad_counts() {
    const TIERS: &str = "[\"HardwareIO\"]";
    // With another note, another device, a longer hold time or other tiers, the same gesture has no
    // effect.
    let others = [
        ("note", pad_section("keys", 52, 50, TIERS)),
        ("device", pad_section("pads", 51, 50, TIERS)),
        ("hold_ms", pad_section("keys", 51, 60_000, TIERS)),
        ("tiers", pad_section("keys", 51, 50, "[\"Stateful\"]")),
        ("no section", KEYS.to_owned()),
    ];
    let others = others.map(|(what, config)| {
        let (studio, hand) = with_cable(&config);
        assert_eq!(studio.is_attended(), ["note", "hold_ms", "tiers"].contains(&what), "{what}");
        let mut client = studio.client();
        studio.ask(&mut client, "x");
        hand.play(&DOWN, Taint::Clean);
        (what, studio, hand, client)
    });
    // This pad is pressed last, with the default hold time. When its call is allowed, the other
    // pads have been held for longer than the default.
    let usual = pad_section("keys", 51, 50, TIERS).replace("hold_ms = 50\n", "");
    let (studio, hand) = with_cable(&usual);
    let mut client = studio.client();
    let call = studio.ask(&mut client, "x");
    hand.play(&DOWN, Taint::Clean);
    let reply = studio.block_on(client.reply(call));
    assert_eq!(reply["result"]["isError"], json!(false), "{reply}");
    for (what, studio, ..) in &others {
        assert_eq!((studio.open_questions(), studio.runs.of(test_tools::DANGER)), (1, 0), "{what}");
    }
}

#[test]
fn what_a_model_can_reach_never_holds_the_pad() {
    let (studio, hand) = with_cable(&pad_section("keys", 51, 50, "[\"HardwareIO\"]"));
    let mut client = studio.client();
    studio.ask(&mut client, "mine");
    // The pad ignores an event that was not played by a person.
    hand.play(&DOWN, Taint::Tool);
    hand.play(&UP, Taint::Tool);
    // A tool has just sent MIDI, so a press at this time may be caused by the tool.
    let press =
        json!({ "port": "pads hand", "messages": [{ "type": "note_on", "channel": 1, "note": 51, "velocity": 100 }] });
    let mut other = studio.client();
    assert_eq!(studio.call(&mut other, "conductor_send_midi", press).0, "ok");
    hand.play(&DOWN, Taint::Clean);
    pause(200);
    assert_eq!((studio.open_questions(), studio.runs.of(test_tools::DANGER)), (1, 0));
    hand.play(&UP, Taint::Clean);
    // A loopback device never counts as hardware, even if a person plays it.
    studio.reload(&pad_section("pads", 51, 50, "[\"HardwareIO\"]"));
    assert!(!studio.is_attended());
    studio.play(&DOWN);
    pause(200);
    assert_eq!((studio.open_questions(), studio.runs.of(test_tools::DANGER)), (1, 0));
}

#[test]
fn two_questions_are_one_too_many_for_a_pad() {
    let (studio, hand) = with_cable(&pad_section("keys", 51, 50, "[\"HardwareIO\"]"));
    let (mut one, mut two) = (studio.client(), studio.client());
    studio.ask(&mut one, "first");
    studio.ask(&mut two, "second");
    hand.play(&DOWN, Taint::Clean);
    pause(200);
    assert_eq!((studio.open_questions(), studio.runs.of(test_tools::DANGER)), (2, 0));
}

#[test]
fn a_held_pad_applies_the_one_plan_that_waits() {
    let (studio, hand) = with_cable(&pad_section("keys", 51, 50, "[\"ConfigChange\"]"));
    let mut client = studio.client();
    let mapping =
        json!({ "mode": "Default", "trigger": { "type": "Note", "note": 36 }, "action": { "type": "Delay", "ms": 1 } });
    assert_eq!(studio.call(&mut client, "conductor_create_mapping", mapping).0, "ok");
    assert_eq!(studio.open_questions(), 1);
    hand.play(&DOWN, Taint::Clean);
    let written = || std::fs::read_to_string(studio.home.path().join("config.toml")).unwrap();
    assert!(wait_for(PATIENCE, || written().contains("note = 36").then_some(())).is_some(), "{}", written());
}
