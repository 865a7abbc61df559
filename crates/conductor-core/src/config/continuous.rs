//! Reads a continuous binding: its source, its glue (the settings between source and targets) and
//! its targets.
//!
//! Not here: the conversion of a value.

use super::action::curve;
use super::reader::{Fields, Reader};
use super::tree::Node;
use super::trigger;
use crate::mapping::{Continuous, Glue, Shape, Source, SourceKind, Takeover, Target};

/// Default of `step`: the change per detent of an encoder, as a share of the whole range.
const DETENT: f64 = 1.0 / 128.0;

/// Reads `source`, `glue` and `targets`. The caller reads the other keys of the row.
pub(crate) fn binding<'t>(r: &mut Reader<'t>, f: &mut Fields<'t>) -> Option<Continuous> {
    let source = f.need(r, "source", source);
    let glue = f.opt(r, "glue", glue);
    let targets = f.need(r, "targets", |r, it| r.list_of(it, 1, 8, target));
    Some(Continuous { source: source?, glue: glue.unwrap_or_default(), targets: targets? })
}

pub(crate) fn source<'t>(r: &mut Reader<'t>, node: &'t Node) -> Option<Source> {
    r.define("Source")?;
    let mut f = r.table(node)?;
    let name = f.tag(r, "type", SourceKind::NAMES)?;
    let device = f.opt(r, "device", Reader::heard_device);
    let channel = f.opt(r, "channel", Reader::channel);
    let kind = source_kind(r, &mut f, name);
    f.finish(r);
    Some(Source { device, channel, kind: kind? })
}

fn source_kind<'t>(r: &mut Reader<'t>, f: &mut Fields<'t>, name: &str) -> Option<SourceKind> {
    Some(match name {
        "CC" => SourceKind::Cc { cc: f.need(r, "cc", Reader::u7)? },
        "CC14" => SourceKind::Cc14 { cc: f.need(r, "cc", cc14)? },
        "NRPN" => SourceKind::Nrpn { parameter: f.need(r, "parameter", Reader::u14)? },
        "RPN" => SourceKind::Rpn { parameter: f.need(r, "parameter", Reader::u14)? },
        "PitchBend" => SourceKind::PitchBend,
        "Aftertouch" => SourceKind::Aftertouch,
        "PolyAftertouch" => SourceKind::PolyAftertouch { note: f.need(r, "note", Reader::u7)? },
        "Encoder" => {
            let encoder = trigger::encoder(r, f, true);
            let step = f.or(r, "step", DETENT, Reader::unit);
            let (cc, encoder) = encoder?;
            SourceKind::Encoder { cc, encoder, step }
        }
        "GamepadAnalogStick" => SourceKind::GamepadAnalogStick { axis: f.need(r, "axis", Reader::axis)? },
        "GamepadTrigger" => SourceKind::GamepadTrigger { side: f.need(r, "trigger", Reader::side)? },
        "Osc" => {
            let address = f.need(r, "address", trigger::osc_pattern);
            let arg_index = f.or(r, "arg_index", 0, |r, it| r.whole(it, 0, 63));
            SourceKind::Osc { address: address?, arg_index }
        }
        // Never reached: `tag` returns only names in `SourceKind::NAMES`, and a test covers each of
        // them.
        _ => return None,
    })
}

fn cc14<'t>(r: &mut Reader<'t>, node: &'t Node) -> Option<u8> {
    r.whole(node, 0, 31)
}

pub(crate) fn glue<'t>(r: &mut Reader<'t>, node: &'t Node) -> Option<Glue> {
    r.define("Glue")?;
    let mut f = r.table(node)?;
    let input = f.opt(r, "in", |r, it| {
        let pair = r.pair(it)?;
        if pair.0 == pair.1 {
            r.rule(&it.place, "the two numbers of `in` are equal, so every value would be the same".to_owned());
        }
        Some(pair)
    });
    let curve = curve(r, &mut f);
    let lut = f.opt(r, "lut", |r, it| r.list_of(it, 2, 128, Reader::unit));
    let glue = Glue {
        input,
        deadzone: f.or(r, "deadzone", 0.0, |r, it| r.number(it, 0.0, 0.9)),
        center: f.or(r, "center", false, Reader::boolean),
        invert: f.or(r, "invert", false, Reader::boolean),
        shape: lut.map(Shape::Lut).or(curve.map(Shape::Curve)).unwrap_or_default(),
        steps: f.opt(r, "steps", |r, it| r.whole(it, 2, 1024)),
        output: f.opt(r, "out", Reader::pair),
        hysteresis: f.or(r, "hysteresis", 0.0, Reader::unit),
        throttle_ms: f.opt(r, "throttle_ms", |r, it| r.whole(it, 0, 10_000)),
        takeover: f.or(r, "takeover", Takeover::Off, Reader::named),
    };
    f.finish(r);
    Some(glue)
}

pub(crate) fn target<'t>(r: &mut Reader<'t>, node: &'t Node) -> Option<Target> {
    r.define("Target")?;
    let mut f = r.table(node)?;
    let name = f.tag(r, "type", Target::NAMES)?;
    let target = target_kind(r, &mut f, name);
    f.finish(r);
    target
}

fn target_kind<'t>(r: &mut Reader<'t>, f: &mut Fields<'t>, name: &str) -> Option<Target> {
    match name {
        "OscFloat" => {
            let host = f.need(r, "host", Reader::filled);
            let port = f.need(r, "port", Reader::udp_port);
            let address = f.need(r, "address", Reader::osc_address);
            let prefix_args = f.opt(r, "prefix_args", |r, it| r.list_of(it, 0, 16, Reader::osc_arg));
            let prefix_args = prefix_args.unwrap_or_default();
            return Some(Target::OscFloat { host: host?, port: port?, address: address?, prefix_args });
        }
        "LiveParameter" => {
            return f.need(r, "path", |r, it| r.text(it, 1, 256)).map(|path| Target::LiveParameter { path });
        }
        "PatchAttribute" => {
            let patch = f.need(r, "patch", Reader::filled);
            let object = f.need(r, "object", Reader::filled);
            let attribute = f.need(r, "attribute", Reader::filled);
            return Some(Target::PatchAttribute { patch: patch?, object: object?, attribute: attribute? });
        }
        _ => {}
    }
    let port = f.need(r, "port", |r, it| r.port_name(it, true));
    let channel = f.need(r, "channel", Reader::channel);
    Some(match name {
        "CC" => {
            let controller = f.need(r, "controller", Reader::u7);
            Target::Cc { port: port?, channel: channel?, controller: controller? }
        }
        "CC14" => {
            let controller = f.need(r, "controller", cc14);
            Target::Cc14 { port: port?, channel: channel?, controller: controller? }
        }
        "NRPN" | "RPN" => {
            let parameter = f.need(r, "parameter", Reader::u14);
            let null_after = f.or(r, "null_after", false, Reader::boolean);
            let (port, channel, parameter) = (port?, channel?, parameter?);
            if name == "NRPN" {
                Target::Nrpn { port, channel, parameter, null_after }
            } else {
                Target::Rpn { port, channel, parameter, null_after }
            }
        }
        "PitchBend" => Target::PitchBend { port: port?, channel: channel? },
        // `tag` returns only names in `Target::NAMES`; the remaining one is `Aftertouch`.
        _ => Target::Aftertouch { port: port?, channel: channel? },
    })
}
