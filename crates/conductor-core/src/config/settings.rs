//! Reads the sections `config`, `advanced_settings`, `performance`, `led`, `per_app_modes` and
//! `logging`. A key with a fault gets its default value; the other keys keep their values.
//!
//! Not here: the other sections. Each of them has its own file and one line in `root`.

use super::reader::{Reader, nearest, suggestion};
use super::tree::{Entry, Node};
use super::{Advanced, Led, LogLevel, PerAppModes, Performance, Watch, WindowRule};

/// Names of colours that every palette has.
const COLORS: &[&str] =
    &["off", "white", "red", "orange", "amber", "yellow", "green", "cyan", "blue", "purple", "magenta", "pink"];

pub(crate) fn watch<'t>(r: &mut Reader<'t>, node: &'t Node) -> Option<Watch> {
    let mut f = r.table(node)?;
    let default = Watch::default();
    let watch = Watch {
        watch: f.or(r, "watch", default.watch, Reader::boolean),
        debounce_ms: f.or(r, "debounce_ms", default.debounce_ms, |r, it| r.whole(it, 0, 10_000)),
    };
    f.finish(r);
    Some(watch)
}

pub(crate) fn advanced<'t>(r: &mut Reader<'t>, node: &'t Node) -> Option<Advanced> {
    let mut f = r.table(node)?;
    let d = Advanced::default();
    let advanced = Advanced {
        chord_timeout_ms: f.or(r, "chord_timeout_ms", d.chord_timeout_ms, Reader::ms),
        chord_learn_timeout_ms: f.or(r, "chord_learn_timeout_ms", d.chord_learn_timeout_ms, Reader::ms),
        double_tap_timeout_ms: f.or(r, "double_tap_timeout_ms", d.double_tap_timeout_ms, Reader::ms),
        hold_threshold_ms: f.or(r, "hold_threshold_ms", d.hold_threshold_ms, Reader::ms),
        stick_deadzone: f.or(r, "stick_deadzone", d.stick_deadzone, |r, it| r.number(it, 0.0, 0.9)),
        trigger_deadzone: f.or(r, "trigger_deadzone", d.trigger_deadzone, |r, it| r.number(it, 0.0, 0.9)),
        listen_mode: f.or(r, "listen_mode", d.listen_mode, Reader::named),
        max_midi_ports: f.or(r, "max_midi_ports", d.max_midi_ports, |r, it| r.whole(it, 1, 256)),
        max_events_per_sec: f.or(r, "max_events_per_sec", d.max_events_per_sec, |r, it| r.whole(it, 1, 1_000_000)),
        input_mode: f.or(r, "input_mode", d.input_mode, Reader::named),
        max_route_depth: f.or(r, "max_route_depth", d.max_route_depth, |r, it| r.whole(it, 1, 8)),
        trace_buffer_size: f.or(r, "trace_buffer_size", d.trace_buffer_size, |r, it| r.whole(it, 1, 100_000)),
        scan_interval_ms: f.or(r, "scan_interval_ms", d.scan_interval_ms, |r, it| r.whole(it, 100, 600_000)),
    };
    f.finish(r);
    Some(advanced)
}

pub(crate) fn performance<'t>(r: &mut Reader<'t>, node: &'t Node) -> Option<Performance> {
    let mut f = r.table(node)?;
    let performance = Performance {
        lock: f.or(r, "lock", false, Reader::boolean),
        allow_output: f.or_default(r, "allow_output", |r, it| r.set(it, 0, usize::MAX, |r, it| r.port_name(it, true))),
    };
    f.finish(r);
    Some(performance)
}

/// The name of a colour, or `#rrggbb`. An unknown name causes a warning but is kept, because the
/// palette of a device may contain it.
pub(crate) fn color<'t>(r: &mut Reader<'t>, node: &'t Node) -> Option<String> {
    let text = r.name(node)?;
    if let Some(hex) = text.strip_prefix('#') {
        if hex.len() != 6 || !hex.bytes().all(|it| it.is_ascii_hexdigit()) {
            let help = Some("write six hex digits, such as \"#0064ff\"".to_owned());
            r.warn(&node.place, format!("\"{text}\" is not a colour"), help);
        }
    } else if !COLORS.contains(&text.as_str()) {
        let near = nearest(&text, COLORS.iter().copied());
        let help = near.map_or_else(
            || format!("known colours are {}, or \"#rrggbb\"", COLORS.join(", ")),
            |it| format!("did you mean \"{it}\"?"),
        );
        r.warn(&node.place, format!("\"{text}\" is not a known colour"), Some(help));
    }
    Some(text)
}

pub(crate) fn led<'t>(r: &mut Reader<'t>, node: &'t Node) -> Option<Led> {
    let mut f = r.table(node)?;
    let default = Led::default();
    let led = Led {
        scheme: f.or(r, "scheme", default.scheme, Reader::named),
        brightness: f.or(r, "brightness", default.brightness, Reader::u7),
        mode_colors: f.or_default(r, "mode_colors", |r, it| {
            r.map_of(it, |r, entry| {
                known_mode(r, entry)?;
                color(r, &entry.node)
            })
        }),
    };
    f.finish(r);
    Some(led)
}

fn known_mode<'t>(r: &mut Reader<'t>, entry: &'t Entry) -> Option<()> {
    let modes = r.names.modes.as_ref().filter(|modes| !modes.contains(&entry.key));
    let Some(modes) = modes else { return Some(()) };
    let help = suggestion(&entry.key, modes, "modes are");
    r.rule_help(&entry.key_place, format!("there is no mode \"{}\"", entry.key), help);
    None
}

pub(crate) fn per_app_modes<'t>(r: &mut Reader<'t>, node: &'t Node) -> Option<PerAppModes> {
    let mut f = r.table(node)?;
    let modes = PerAppModes {
        default: f.opt(r, "default", Reader::mode_name),
        rules: f.or_default(r, "rules", |r, it| r.map_of(it, |r, entry| r.mode_name(&entry.node))),
        window_rules: f.or_default(r, "window_rules", |r, it| r.list_of(it, 0, usize::MAX, window_rule)),
        release_on_focus_change: f.or(r, "release_on_focus_change", true, Reader::boolean),
    };
    f.finish(r);
    Some(modes)
}

fn window_rule<'t>(r: &mut Reader<'t>, node: &'t Node) -> Option<WindowRule> {
    let before = r.errors();
    let mut f = r.table(node)?;
    let app = f.need(r, "app", Reader::filled);
    let title = f.need(r, "title", Reader::filled);
    let mode = f.need(r, "mode", Reader::mode_name);
    f.finish(r);
    let rule = WindowRule { app: app?, title: title?, mode: mode? };
    (r.errors() == before).then_some(rule)
}

pub(crate) fn logging<'t>(r: &mut Reader<'t>, node: &'t Node) -> Option<LogLevel> {
    let mut f = r.table(node)?;
    let level = f.opt(r, "level", Reader::named);
    f.finish(r);
    level
}
