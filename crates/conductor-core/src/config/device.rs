//! Devices, routes and feedback rows.
//!
//! Not here: which ports match a device. The daemon decides that when it scans the ports.

use super::Platform;
use super::action::transform;
use super::form::{Form, alias, boolean, by, channel, filled, mode_name, named, opaque, output_port, set, text, u7};
use super::reader::{Fields, Reader, RowIds, nearest, suggestion};
use super::section::{row, section, table};
use super::tree::Node;
use crate::action::Transform;
use crate::named_enum::named_enum;
use crate::templates;
use std::net::SocketAddr;

pub(crate) const MATCHERS: &[&str] = &[
    "ExactName",
    "NameContains",
    "NameRegex",
    "PlatformId",
    "UsbTopology",
    "ControllerGuid",
    "UsbIdentifier",
    "CoreMidiUniqueId",
];

/// Largest size of a compiled regular expression, in bytes. The limit is needed because a short
/// pattern can compile to a very large automaton.
const REGEX_BYTES: usize = 1 << 20;

row! {
    /// A row gives a device an alias, which other rows can use.
    #[derive(Default)]
    pub struct Device {
        /// Unique name of the device in this file.
        alias: String, alias(), "\"pads\"";
        /// Free text for people.
        description: Option<String> = None, text(0..=1024).maybe(), "\"16 pads with LEDs\"";
        /// Name of a controller template. The template provides the matchers and the protocol.
        template: Option<String> = None, text(1..=64).ruled(template).maybe(), "\"Launchpad Mini MK3\"";
        /// The kind of connection. The default is that of the template, or else `Midi`.
        protocol: Protocol = Protocol::Midi, named(), "\"Gamepad\"";
        /// Which ports of the device are opened.
        direction: Direction = Direction::Bidirectional, named(), "\"Input\"";
        /// A port that matches any of these matchers belongs to the device.
        matchers: Vec<Matcher> = Vec::new(), opaque(|r, it| r.list_of(it, 1, 16, matcher)),
            "[{ type = \"NameContains\", pattern = \"Mikro\" }]";
        /// MIDI channels of the device; empty means all.
        channels: Vec<u8> = Vec::new(), set(channel(), 0..=16), "[0, 1]";
        /// Whether the device is used.
        enabled: bool = true, boolean(), "false";
        /// Name of a port that the daemon creates for other programs.
        virtual_port: Option<String> = None, text(1..=64).maybe(), "\"Conductor DAW\"";
        /// Whether the daemon creates this device, with the ports `<alias>` and `<alias> hand`.
        loopback: bool = false, boolean(), "true";
        /// Whether `listen` may be an address that other machines can reach.
        allow_network: bool = false, boolean();
        /// Address and port of an OSC listener.
        listen: Option<String> = None, filled().ruled(listen).maybe(), "\"127.0.0.1:9000\"";
        /// Whether events from this OSC device may press keys, start programs and call tools. OSC
        /// senders are not authenticated.
        allow_sensitive_actions: bool = false, boolean();
        /// Whether a tool needs a person's approval before it sends to the device.
        ask_output: bool = false, boolean(), "true";
        /// Whether Conductor drops input that is an echo of its own output.
        echo_guard: bool = false, boolean(), "true";
        /// Whether input is treated as played by a person, although any program could send to the
        /// device.
        trusted: bool = false, boolean();
    }
    check complete
}

named_enum! {
    /// The kind of connection of a device.
    #[derive(Default)]
    pub enum Protocol {
        /// MIDI ports.
        #[default]
        Midi = "Midi",
        /// A game controller.
        Gamepad = "Gamepad",
        /// OSC over UDP.
        Osc = "Osc",
    }
}

named_enum! {
    /// Which ports of a device are opened.
    #[derive(Default)]
    pub enum Direction {
        /// Only the input is opened.
        Input = "Input",
        /// Only the output is opened.
        Output = "Output",
        /// Input and output are opened.
        #[default]
        Bidirectional = "Bidirectional",
    }
}

impl Direction {
    /// Whether the input is opened.
    pub fn has_input(self) -> bool {
        match self {
            Direction::Input | Direction::Bidirectional => true,
            Direction::Output => false,
        }
    }

    /// Whether the output is opened.
    pub fn has_output(self) -> bool {
        match self {
            Direction::Output | Direction::Bidirectional => true,
            Direction::Input => false,
        }
    }
}

/// One way to find the ports of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Matcher {
    /// The whole name of the port.
    ExactName(String),
    /// A part of the name.
    NameContains(String),
    /// A regular expression for the name. Compiled with a linear-time engine when the file is read.
    NameRegex(String),
    /// The system's id of the port.
    PlatformId(String),
    /// The USB socket that the device is plugged into; Linux only.
    UsbTopology(String),
    /// GUID of a gamepad model.
    ControllerGuid(String),
    /// USB vendor and product.
    UsbIdentifier {
        /// USB vendor id (`idVendor`).
        vendor_id: u16,
        /// USB product id (`idProduct`).
        product_id: u16,
    },
    /// Unique id of the port; macOS only.
    CoreMidiUniqueId(i64),
}

/// Reads a device. A device with a fault keeps its alias, even if the alias is invalid, so that
/// rows with this alias stay valid. Of its other keys only `description` is kept, so it opens no
/// port.
pub(crate) fn read<'t>(r: &mut Reader<'t>, node: &'t Node) -> Option<Device> {
    let before = r.errors();
    let device = table().read(r, node);
    if r.errors() == before {
        return device;
    }
    let text = |key: &str| node.get(key)?.text().map(str::to_owned);
    Some(Device { alias: text("alias")?, description: text("description"), ..Device::default() })
}

/// Adds the values of the template, and checks the keys that depend on each other.
fn complete(mut device: Device, r: &mut Reader<'_>, f: &Fields<'_>) -> Device {
    let known = device.template.as_deref().and_then(templates::find);
    let said = f.peek("protocol").and_then(Node::text);
    if said.is_none() {
        device.protocol = known.map_or(device.protocol, |it| it.protocol);
    }
    let items = f.peek("matchers").and_then(Node::items).unwrap_or_default();
    for (index, (item, matcher)) in items.iter().zip(&device.matchers).enumerate() {
        // `device.matchers` contains no entries with a fault. The indexes of both lists agree only
        // if no entry has a fault.
        if items.len() == device.matchers.len() {
            let warn = |r: &mut Reader<'_>| warn_if_it_cannot_match(r, item, matcher, device.protocol);
            r.under("matchers", |r| r.at_index(index, warn));
        }
    }
    // Matchers in the file replace those of the template. A port that the daemon creates needs no
    // matchers.
    if let Some(known) = known.filter(|_| !f.has("matchers") && !device.loopback && device.virtual_port.is_none()) {
        device.matchers.clone_from(&known.matchers);
    }
    if let Some(text) = &device.listen
        && !device.allow_network
        && text.parse::<SocketAddr>().is_ok_and(|it| !it.ip().is_loopback())
    {
        let place = f.peek("listen").and_then(|it| it.place.clone());
        let help =
            "anyone on the network could press the controls of this device; to allow this, add allow_network = true";
        let message = format!("\"{text}\" can be reached from other machines");
        r.under("listen", |r| r.rule_help(&place, message, help.to_owned()));
    }
    // The protocol decides which keys are allowed. Skip this check if the protocol is misspelt,
    // because the check would then report wrong faults.
    if !f.has("protocol") || said.is_some_and(|it| it.parse::<Protocol>().is_ok()) {
        check_protocol(r, f, device.protocol, device.loopback);
    }
    device
}

fn check_protocol(r: &mut Reader<'_>, f: &Fields<'_>, protocol: Protocol, loopback: bool) {
    const MIDI_KEYS: [&str; 6] = ["channels", "virtual_port", "loopback", "echo_guard", "trusted", "ask_output"];
    const OSC_KEYS: [&str; 3] = ["listen", "allow_network", "allow_sensitive_actions"];
    let (midi, osc) = match protocol {
        Protocol::Midi => (true, false),
        Protocol::Gamepad => (false, false),
        Protocol::Osc => (false, true),
    };
    if !midi {
        MIDI_KEYS.iter().for_each(|key| f.refuse(r, key, "is allowed only for MIDI devices"));
    }
    if !osc {
        OSC_KEYS.iter().for_each(|key| f.refuse(r, key, "is allowed only with protocol = \"Osc\""));
    }
    let place = f.place.clone();
    let found = f.has("matchers") || f.has("virtual_port") || f.has("template") || loopback;
    if osc && !f.has("listen") {
        let help = "add listen = \"127.0.0.1:9000\"".to_owned();
        r.rule_help(&place, "an Osc device needs `listen`".to_owned(), help);
    }
    if !osc && !found {
        let help = "add matchers = [{ type = \"NameContains\", pattern = \"…\" }]".to_owned();
        r.rule_help(&place, "this device has no key that selects its port, such as `matchers`".to_owned(), help);
    }
}

fn template<'t>(r: &mut Reader<'t>, node: &'t Node, name: String) -> Option<String> {
    if templates::find(&name).is_some() {
        return Some(name);
    }
    let help = suggestion(&name, templates::names(), "templates are");
    r.reject(node, format!("there is no template \"{name}\""), help)
}

fn listen<'t>(r: &mut Reader<'t>, node: &'t Node, text: String) -> Option<String> {
    let Ok(address) = text.parse::<SocketAddr>() else {
        let help = "write an address and a port, such as \"127.0.0.1:9000\"";
        return r.reject(node, format!("\"{text}\" is not an address to listen on"), help);
    };
    if address.port() == 0 {
        r.rule(&node.place, "port 0 cannot be used, because senders need a fixed port".to_owned());
        return None;
    }
    Some(text)
}

pub(crate) fn matcher<'t>(r: &mut Reader<'t>, node: &'t Node) -> Option<Matcher> {
    r.define("Matcher")?;
    let mut f = r.table(node)?;
    let name = f.tag(r, "type", MATCHERS)?;
    let matcher = match name {
        "UsbIdentifier" => {
            let id = |r: &mut Reader<'t>, it: &'t Node| r.whole(it, 0, 65535);
            let vendor_id = f.need(r, "vendor_id", id);
            let product_id = f.need(r, "product_id", id);
            vendor_id.zip(product_id).map(|(vendor_id, product_id)| Matcher::UsbIdentifier { vendor_id, product_id })
        }
        "CoreMidiUniqueId" => {
            f.need(r, "value", |r, it| r.bounded(it, i64::MIN, i64::MAX)).map(Matcher::CoreMidiUniqueId)
        }
        _ => f.need(r, "pattern", |r, it| {
            let pattern = r.text(it, 1, 256)?;
            Some(match name {
                "ExactName" => Matcher::ExactName(pattern),
                "NameContains" => Matcher::NameContains(pattern),
                "NameRegex" => {
                    compiles(r, it, &pattern)?;
                    Matcher::NameRegex(pattern)
                }
                "PlatformId" => Matcher::PlatformId(pattern),
                "UsbTopology" => Matcher::UsbTopology(pattern),
                _ => Matcher::ControllerGuid(pattern),
            })
        }),
    };
    f.finish(r);
    matcher
}

fn compiles<'t>(r: &mut Reader<'t>, node: &'t Node, pattern: &str) -> Option<()> {
    let fault = match regex::RegexBuilder::new(pattern).size_limit(REGEX_BYTES).build() {
        Ok(_) => return Some(()),
        Err(fault) => fault,
    };
    // Only the last line of the message contains the reason. The lines before it repeat the
    // pattern.
    let text = fault.to_string();
    let reason = text.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
    r.rule(&node.place, format!("this pattern does not compile: {reason}"));
    None
}

fn warn_if_it_cannot_match(r: &mut Reader<'_>, node: &Node, matcher: &Matcher, protocol: Protocol) {
    let Some(platform) = r.surroundings.platform else { return };
    let here = match platform {
        Platform::Linux => "Linux",
        Platform::MacOs => "macOS",
        Platform::Windows => "Windows",
    };
    let why = match (matcher, protocol, platform) {
        (_, Protocol::Osc, _) => Some("an Osc device is found by its `listen` address, not by matchers".to_owned()),
        (Matcher::CoreMidiUniqueId(_), _, Platform::Linux | Platform::Windows) => {
            Some(format!("CoreMidiUniqueId cannot match on {here}: only macOS has such ids"))
        }
        (Matcher::CoreMidiUniqueId(_), Protocol::Gamepad, Platform::MacOs) => {
            Some("CoreMidiUniqueId cannot match a gamepad".to_owned())
        }
        (Matcher::UsbTopology(_), _, Platform::MacOs | Platform::Windows) => {
            Some(format!("UsbTopology cannot match on {here}: only Linux reports where a device is plugged in"))
        }
        (Matcher::UsbIdentifier { .. }, Protocol::Midi, Platform::MacOs | Platform::Windows) => Some(format!(
            "UsbIdentifier cannot match a MIDI port on {here}: only Linux reports the USB device of a MIDI port"
        )),
        (Matcher::ControllerGuid(_), Protocol::Midi, _) => {
            Some("ControllerGuid cannot match a MIDI port: only gamepads have a GUID".to_owned())
        }
        (
            Matcher::ExactName(_)
            | Matcher::NameContains(_)
            | Matcher::NameRegex(_)
            | Matcher::PlatformId(_)
            | Matcher::UsbTopology(_)
            | Matcher::ControllerGuid(_)
            | Matcher::UsbIdentifier { .. }
            | Matcher::CoreMidiUniqueId(_),
            Protocol::Midi | Protocol::Gamepad,
            Platform::Linux | Platform::MacOs | Platform::Windows,
        ) => None,
    };
    if let Some(why) = why {
        r.warn(&node.place, why, None);
    }
}

row! {
    /// Sends MIDI from one port to another.
    pub struct Route {
        /// Source: a device alias or a port name.
        from: String, by(|r, it| r.port_name(it, false)), "\"keys\"";
        /// Target: a device alias or a port name.
        to: String, output_port(), "\"synth\"";
        /// Messages that pass.
        filter: Filter = Filter::default(), table();
        /// Changes to each message.
        transform: Transform = Transform::default(), opaque(transform), "{ note_offset = 12 }";
        /// Modes in which the route is active; empty means every mode.
        modes: Vec<String> = Vec::new(), set(mode_name(), 0..=usize::MAX), "[\"Default\"]";
        /// Whether the route is active.
        enabled: bool = true, boolean(), "false";
    }
    check leaves_its_device
}

section! {
    /// Selects the messages of a route. An absent or empty key lets all messages pass.
    pub struct Filter {
        /// Lowest and highest note.
        note_range: Option<(u8, u8)> = None, by(|r, it| r.u7_pair(it)).maybe(), "[36, 51]";
        /// Lowest and highest controller.
        cc_range: Option<(u8, u8)> = None, by(|r, it| r.u7_pair(it)).maybe(), "[1, 31]";
        /// MIDI channels.
        channels: Vec<u8> = Vec::new(), set(channel(), 0..=16), "[0]";
        /// Kinds of messages.
        message_types: Vec<MessageType> = Vec::new(), set(named(), 0..=MessageType::ALL.len()), "[\"NoteOn\", \"NoteOff\"]";
    }
}

named_enum! {
    /// Kinds of MIDI messages that a filter can name.
    #[expect(missing_docs, reason = "the names explain themselves")]
    pub enum MessageType {
        NoteOn = "NoteOn",
        NoteOff = "NoteOff",
        Cc = "CC",
        ProgramChange = "ProgramChange",
        PitchBend = "PitchBend",
        Aftertouch = "Aftertouch",
        PolyAftertouch = "PolyAftertouch",
        SysEx = "SysEx",
        /// Clock, start, continue and stop.
        Clock = "Clock",
    }
}

fn leaves_its_device(route: Route, r: &mut Reader<'_>, f: &Fields<'_>) -> Route {
    if route.from == route.to {
        r.warn(&f.key_place("to"), "this route sends events from a device back to the same device".to_owned(), None);
    }
    route
}

row! {
    /// A light or a motor of a controller that shows a state.
    pub struct Feedback {
        /// Alias of the device with the light.
        device: String, by(|r, it| r.lit_device(it)), "\"lights\"";
        /// Message that sets the light.
        out: FeedbackOut, opaque(feedback_out), "{ type = \"Note\", channel = 0, note = 51 }";
        /// State that is shown.
        from: FeedbackFrom, opaque(feedback_from), "{ type = \"Mode\", mode = \"Default\" }";
        /// Value for a state that is on.
        on: u8 = 127, u7(), "21";
        /// Value for a state that is off.
        off: u8 = 0, u7(), "1";
        /// Values for the lowest and the highest state, for a state that is a number.
        range: (u8, u8) = (0, 127), by(|r, it| r.u7_pair(it)), "[0, 100]";
    }
    check has_fitting_values
}

/// Address of a light; channels are 0-15.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the comment of each variant explains its fields")]
pub enum FeedbackOut {
    /// A note, with the value as velocity.
    Note { channel: u8, note: u8 },
    /// A control change, with the value as controller value.
    Cc { channel: u8, controller: u8 },
}

/// The state that a light shows.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the comment of each variant explains its fields")]
pub enum FeedbackFrom {
    /// On while this mode is active.
    Mode(String),
    /// On while the key of this mapping is held.
    Pressed { mapping: String },
    /// The value of this continuous binding.
    Value { continuous: String },
    /// The value of this parameter in Live.
    LiveParameter { path: String },
    /// On while this device is present.
    Connected { device: String },
    /// On while the performance lock is on.
    PerformanceLock,
    /// On while an approval request is open.
    PendingApprovals,
}

fn has_fitting_values(feedback: Feedback, r: &mut Reader<'_>, f: &Fields<'_>) -> Feedback {
    match &feedback.from {
        FeedbackFrom::Value { .. } | FeedbackFrom::LiveParameter { .. } => {
            for key in ["on", "off"] {
                f.refuse(r, key, "is for sources that are on or off; this source is a value, so use `range`");
            }
        }
        FeedbackFrom::Mode(_)
        | FeedbackFrom::Pressed { .. }
        | FeedbackFrom::Connected { .. }
        | FeedbackFrom::PerformanceLock
        | FeedbackFrom::PendingApprovals => {
            f.refuse(r, "range", "is for sources with a value; this source is on or off, so use `on` and `off`");
        }
    }
    feedback
}

pub(crate) fn feedback_out<'t>(r: &mut Reader<'t>, node: &'t Node) -> Option<FeedbackOut> {
    r.define("FeedbackOut")?;
    let mut f = r.table(node)?;
    let name = f.tag(r, "type", &["Note", "CC"])?;
    let channel = f.need(r, "channel", Reader::channel);
    let out = if name == "Note" {
        let note = f.need(r, "note", Reader::u7);
        channel.zip(note).map(|(channel, note)| FeedbackOut::Note { channel, note })
    } else {
        let controller = f.need(r, "controller", Reader::u7);
        channel.zip(controller).map(|(channel, controller)| FeedbackOut::Cc { channel, controller })
    };
    f.finish(r);
    out
}

pub(crate) fn feedback_from<'t>(r: &mut Reader<'t>, node: &'t Node) -> Option<FeedbackFrom> {
    r.define("FeedbackFrom")?;
    let mut f = r.table(node)?;
    let sources = &["Mode", "Pressed", "Value", "LiveParameter", "Connected", "PerformanceLock", "PendingApprovals"];
    let from = match f.tag(r, "type", sources)? {
        "Mode" => f.need(r, "mode", Reader::mode_name).map(FeedbackFrom::Mode),
        "Pressed" => f
            .need(r, "mapping", |r, it| row_id(r, it, |it| &it.mappings, "mapping"))
            .map(|mapping| FeedbackFrom::Pressed { mapping }),
        "Value" => f
            .need(r, "continuous", |r, it| row_id(r, it, |it| &it.continuous, "continuous binding"))
            .map(|continuous| FeedbackFrom::Value { continuous }),
        "LiveParameter" => {
            f.need(r, "path", |r, it| r.text(it, 1, 256)).map(|path| FeedbackFrom::LiveParameter { path })
        }
        "Connected" => f.need(r, "device", Reader::device_name).map(|device| FeedbackFrom::Connected { device }),
        "PerformanceLock" => Some(FeedbackFrom::PerformanceLock),
        _ => Some(FeedbackFrom::PendingApprovals),
    };
    f.finish(r);
    from
}

fn row_id<'t>(r: &mut Reader<'t>, node: &'t Node, of: fn(&RowIds) -> &Vec<String>, what: &str) -> Option<String> {
    let id = r.id(node)?;
    let Some(known) = r.names.rows.as_ref().map(of).filter(|it| !it.contains(&id)) else { return Some(id) };
    let help = nearest(&id, known.iter().map(String::as_str))
        .map_or_else(|| "give the row an `id` and write it here".to_owned(), |it| format!("did you mean \"{it}\"?"));
    r.reject(node, format!("there is no {what} with the id \"{id}\""), help)
}
