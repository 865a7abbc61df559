//! Reads devices, routes and feedback rows.
//!
//! Not here: which ports match a device; the daemon decides that when it scans the ports.

use super::action::transform;
use super::reader::{Fields, Reader, nearest, suggestion};
use super::tree::Node;
use super::{
    Device, Direction, Feedback, FeedbackFrom, FeedbackOut, Filter, Matcher, MessageType, Platform, Protocol, Route,
};
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

/// Largest size of a compiled regular expression. Matching is linear in the text, but compiling is
/// not linear in the pattern.
const REGEX_BYTES: usize = 1 << 20;

/// A device with a fault keeps its alias, so that rows that name it stay valid. It matches and
/// opens no port.
pub(crate) fn read<'t>(r: &mut Reader<'t>, node: &'t Node) -> Option<Device> {
    let before = r.errors();
    let mut f = r.table(node)?;
    let alias = f.need(r, "alias", Reader::alias);
    let description = f.opt(r, "description", Reader::description);
    let template = f.opt(r, "template", template);
    let known = template.as_deref().and_then(templates::find);
    let said = f.opt(r, "protocol", Reader::named);
    let protocol_known = said.is_some() || !f.has("protocol");
    let protocol = said.or(known.map(|it| it.protocol)).unwrap_or_default();
    let direction = f.or(r, "direction", Direction::Bidirectional, Reader::named);
    let matchers = f.opt(r, "matchers", |r, it| {
        r.list_of(it, 1, 16, |r, item| {
            let matcher = matcher(r, item)?;
            warn_if_it_cannot_match(r, item, &matcher, protocol);
            Some(matcher)
        })
    });
    let channels = f.opt(r, "channels", |r, it| r.set(it, 0, 16, Reader::channel));
    let enabled = f.or(r, "enabled", true, Reader::boolean);
    let virtual_port = f.opt(r, "virtual_port", Reader::name);
    let loopback = f.or(r, "loopback", false, Reader::boolean);
    let allow_network = f.or(r, "allow_network", false, Reader::boolean);
    let listen = f.opt(r, "listen", |r, it| listen(r, it, allow_network));
    let allow_sensitive_actions = f.or(r, "allow_sensitive_actions", false, Reader::boolean);
    let ask_output = f.or(r, "ask_output", false, Reader::boolean);
    let echo_guard = f.or(r, "echo_guard", false, Reader::boolean);
    let trusted = f.or(r, "trusted", false, Reader::boolean);

    // The protocol decides which keys are allowed. Skip this check if the protocol is misspelt,
    // because it would report wrong faults.
    if protocol_known {
        check_protocol(r, &mut f, protocol, loopback);
    }
    f.finish(r);
    // Keep even an invalid alias, because rows refer to it.
    let alias = alias.or_else(|| Some(node.get("alias")?.text()?.to_owned()))?;
    // Matchers in the file replace those of the template. A port that we create needs no matchers.
    let of_template = known.filter(|_| !loopback && virtual_port.is_none()).map(|it| it.matchers.clone());
    let mut device = Device {
        alias,
        description,
        matchers: matchers.or(of_template).unwrap_or_default(),
        protocol,
        direction,
        channels: channels.unwrap_or_default(),
        enabled,
        virtual_port,
        loopback,
        listen,
        allow_network,
        allow_sensitive_actions,
        ask_output,
        echo_guard,
        trusted,
        template,
    };
    if r.errors() != before {
        device = Device { alias: device.alias, description: device.description, ..Device::default() };
    }
    Some(device)
}

fn check_protocol<'t>(r: &mut Reader<'t>, f: &mut Fields<'t>, protocol: Protocol, loopback: bool) {
    const MIDI_KEYS: [&str; 6] = ["channels", "virtual_port", "loopback", "echo_guard", "trusted", "ask_output"];
    const OSC_KEYS: [&str; 3] = ["listen", "allow_network", "allow_sensitive_actions"];
    let (midi, osc) = match protocol {
        Protocol::Midi => (true, false),
        Protocol::Gamepad => (false, false),
        Protocol::Osc => (false, true),
    };
    if !midi {
        MIDI_KEYS.iter().for_each(|key| f.refuse(r, key, "is for MIDI devices"));
    }
    if !osc {
        OSC_KEYS.iter().for_each(|key| f.refuse(r, key, "is for devices with protocol = \"Osc\""));
    }
    let place = f.place.clone();
    let found = f.has("matchers") || f.has("virtual_port") || f.has("template") || loopback;
    if osc && !f.has("listen") {
        let help = "add listen = \"127.0.0.1:9000\"".to_owned();
        r.rule_help(&place, "an Osc device needs `listen`".to_owned(), help);
    }
    if !osc && !found {
        let help = "add matchers = [{ type = \"NameContains\", pattern = \"…\" }]".to_owned();
        r.rule_help(&place, "no key selects the port of this device".to_owned(), help);
    }
}

fn template<'t>(r: &mut Reader<'t>, node: &'t Node) -> Option<String> {
    let name = r.name(node)?;
    if templates::find(&name).is_some() {
        return Some(name);
    }
    let help = suggestion(&name, templates::names(), "templates are");
    r.reject(node, format!("there is no template \"{name}\""), help)
}

fn listen<'t>(r: &mut Reader<'t>, node: &'t Node, allow_network: bool) -> Option<String> {
    let text = r.filled(node)?;
    let Ok(address) = text.parse::<SocketAddr>() else {
        let help = "write an address and a port, such as \"127.0.0.1:9000\"".to_owned();
        return r.reject(node, format!("\"{text}\" is not an address to listen on"), help);
    };
    if address.port() == 0 {
        r.rule(&node.place, "port 0 cannot be used, because senders need a fixed port".to_owned());
        return None;
    }
    if !address.ip().is_loopback() && !allow_network {
        let help =
            "anyone on the network could press these pads; if you want that, add allow_network = true".to_owned();
        return r.reject(node, format!("\"{text}\" can be reached from other machines"), help);
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
    // Only the last line of the message contains the reason; the lines before it repeat the
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
        (Matcher::ControllerGuid(_), Protocol::Midi, _) => {
            Some("ControllerGuid cannot match a MIDI port: only gamepads have one".to_owned())
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

pub(crate) fn route<'t>(r: &mut Reader<'t>, node: &'t Node) -> Option<Route> {
    let before = r.errors();
    let mut f = r.table(node)?;
    let from = f.need(r, "from", |r, it| r.port_name(it, false));
    let to = f.need(r, "to", |r, it| r.port_name(it, true));
    let filter = f.or_default(r, "filter", filter);
    let transform = f.or_default(r, "transform", transform);
    let modes = f.or_default(r, "modes", |r, it| r.set(it, 0, usize::MAX, Reader::mode_name));
    let enabled = f.or(r, "enabled", true, Reader::boolean);
    if from.is_some() && from == to {
        let place = f.key_place("to");
        r.warn(&place, "this route sends the input of a device back to the device".to_owned(), None);
    }
    f.finish(r);
    let route = Route { from: from?, to: to?, filter, transform, modes, enabled };
    (r.errors() == before).then_some(route)
}

fn filter<'t>(r: &mut Reader<'t>, node: &'t Node) -> Option<Filter> {
    let mut f = r.table(node)?;
    let filter = Filter {
        note_range: f.opt(r, "note_range", Reader::u7_pair),
        cc_range: f.opt(r, "cc_range", Reader::u7_pair),
        channels: f.or_default(r, "channels", |r, it| r.set(it, 0, 16, Reader::channel)),
        message_types: f.or_default(r, "message_types", |r, it| r.set(it, 0, MessageType::ALL.len(), Reader::named)),
    };
    f.finish(r);
    Some(filter)
}

/// Ids of the rows whose state feedback can show. The modes must be read first.
#[derive(Default)]
pub(crate) struct RowIds {
    pub mappings: Vec<String>,
    pub continuous: Vec<String>,
}

pub(crate) fn feedback<'t>(r: &mut Reader<'t>, node: &'t Node, ids: &RowIds) -> Option<Feedback> {
    let before = r.errors();
    let mut f = r.table(node)?;
    let device = f.need(r, "device", Reader::lit_device);
    let out = f.need(r, "out", feedback_out);
    let from = f.need(r, "from", |r, it| feedback_from(r, it, ids));
    let on = f.or(r, "on", 127, Reader::u7);
    let off = f.or(r, "off", 0, Reader::u7);
    let range = f.or(r, "range", (0, 127), Reader::u7_pair);
    match &from {
        Some(FeedbackFrom::Value { .. } | FeedbackFrom::LiveParameter { .. }) => {
            for key in ["on", "off"] {
                f.refuse(r, key, "is for sources that are on or off; this source is a value, so use `range`");
            }
        }
        Some(
            FeedbackFrom::Mode(_)
            | FeedbackFrom::Pressed { .. }
            | FeedbackFrom::Connected { .. }
            | FeedbackFrom::PerformanceLock
            | FeedbackFrom::PendingApprovals,
        ) => f.refuse(r, "range", "is for sources with a value; this source is on or off, so use `on` and `off`"),
        None => {}
    }
    f.finish(r);
    let feedback = Feedback { device: device?, out: out?, from: from?, on, off, range };
    (r.errors() == before).then_some(feedback)
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

pub(crate) fn feedback_from<'t>(r: &mut Reader<'t>, node: &'t Node, ids: &RowIds) -> Option<FeedbackFrom> {
    r.define("FeedbackFrom")?;
    let mut f = r.table(node)?;
    let sources = &["Mode", "Pressed", "Value", "LiveParameter", "Connected", "PerformanceLock", "PendingApprovals"];
    let from = match f.tag(r, "type", sources)? {
        "Mode" => f.need(r, "mode", Reader::mode_name).map(FeedbackFrom::Mode),
        "Pressed" => f
            .need(r, "mapping", |r, it| row_id(r, it, &ids.mappings, "mapping"))
            .map(|mapping| FeedbackFrom::Pressed { mapping }),
        "Value" => f
            .need(r, "continuous", |r, it| row_id(r, it, &ids.continuous, "continuous binding"))
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

fn row_id<'t>(r: &mut Reader<'t>, node: &'t Node, known: &[String], what: &str) -> Option<String> {
    let id = r.id(node)?;
    if known.contains(&id) {
        return Some(id);
    }
    let help = nearest(&id, known.iter().map(String::as_str))
        .map_or_else(|| "give the row an `id` and name it here".to_owned(), |it| format!("did you mean \"{it}\"?"));
    r.reject(node, format!("there is no {what} with the id \"{id}\""), help)
}
