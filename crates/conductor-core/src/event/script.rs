//! The event script: events as text, for `simulate`, `explain`, `monitor` and tests.
//!
//! Tokens are separated by blanks; a token that begins with `#` starts a comment up to the end of
//! its line.
//!
//! | token | meaning |
//! |---|---|
//! | `on:36@100/0` | note-on: note, velocity (default 100), channel (default 0) |
//! | `off:36` | note-off, velocity (default 0) and channel as above |
//! | `cc:7=64` `pat:36=90` | controller, pressure of one key; `/channel` may follow here and in the next row |
//! | `pb:8192` `at:90` `pc:5` | pitch bend, channel pressure, program change |
//! | `down:south` `up:south` | gamepad button |
//! | `axis:left_x=0.8` `trig:right=0.9` | gamepad stick and trigger |
//! | `osc:/a/b=1.0,2,on,true` | OSC message: float, integer, text, boolean; `'1'` is the text 1 |
//! | `sysex:7e7f0601` `rt:start` `common:f20010` | the rest of MIDI, in hexadecimal or by name |
//! | `dev:ALIAS` `mode:NAME` `t:600` | the device of the following events; switch the mode; wait 600 ms |
//!
//! A character that would end a token or an argument is written as `%` and two hexadecimal digits
//! per UTF-8 byte. Not here: running a script (`engine::sim`).

use super::{Axis, Body, Button, Micros, OscArg, OscMessage, RealTime, Side};
use std::fmt::{self, Write};

/// The maximum number of faults that are listed for one script.
pub const FAULTS_MAX: usize = 20;

/// One step of a script.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    Event(Body),
    /// Later events come from this device.
    Device(String),
    /// Switch to this mode.
    Mode(String),
    /// The time to wait before the next event.
    Advance(Micros),
}

/// A fault in one token, with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    pub token: String,
    /// The reason why the token is not valid.
    pub reason: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: '{}': {}", self.line, self.column, self.token, self.reason)
    }
}

impl std::error::Error for Fault {}

/// Parses a whole script. On failure, returns the faulty tokens (at most [`FAULTS_MAX`]).
pub fn parse(text: &str) -> Result<Vec<Step>, Vec<Fault>> {
    let mut steps = Vec::new();
    let mut faults = Vec::new();
    for (number, line) in text.lines().enumerate() {
        for (column, token) in tokens(line) {
            if token.starts_with('#') {
                break;
            }
            match step(token) {
                Ok(step) => steps.push(step),
                Err((offset, reason)) => {
                    let before = token.get(..offset).map_or(0, |it| it.chars().count());
                    faults.push(Fault { line: number + 1, column: column + before, token: clip(token), reason });
                    if faults.len() == FAULTS_MAX {
                        return Err(faults);
                    }
                }
            }
        }
    }
    if faults.is_empty() { Ok(steps) } else { Err(faults) }
}

/// Parses exactly one token, for `explain`.
pub fn parse_token(text: &str) -> Result<Step, Fault> {
    let one = |reason: &str| Fault { line: 1, column: 1, token: clip(text), reason: reason.into() };
    let steps = parse(text).map_err(|mut faults| faults.swap_remove(0))?;
    let mut steps = steps.into_iter();
    match (steps.next(), steps.next()) {
        (Some(step), None) => Ok(step),
        (None, _) => Err(one("there is no token; write one such as on:36@100")),
        (Some(_), Some(_)) => Err(one("there is more than one token; give a single event")),
    }
}

/// Formats steps as text that [`parse`] can read.
pub fn print(steps: &[Step]) -> String {
    let words: Vec<String> = steps.iter().map(Step::to_string).collect();
    words.join(" ")
}

fn tokens(line: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut rest = line;
    let mut column = 1;
    std::iter::from_fn(move || {
        let trimmed = rest.trim_start();
        column += rest[..rest.len() - trimmed.len()].chars().count();
        let end = trimmed.find(char::is_whitespace).unwrap_or(trimmed.len());
        let (token, after) = trimmed.split_at(end);
        let at = column;
        rest = after;
        column += token.chars().count();
        (!token.is_empty()).then_some((at, token))
    })
}

fn clip(token: &str) -> String {
    match token.char_indices().nth(80) {
        Some((end, _)) => format!("{}…", token.get(..end).unwrap_or_default()),
        None => token.into(),
    }
}

/// The byte offset in the token, and the reason why the token is not valid.
type Wrong = (usize, String);

/// A part of a token with its offset.
#[derive(Clone, Copy)]
struct Part<'a> {
    at: usize,
    text: &'a str,
}

impl<'a> Part<'a> {
    fn cut(self, mark: char) -> (Part<'a>, Option<Part<'a>>) {
        match self.text.split_once(mark) {
            Some((left, right)) => {
                let at = self.at + left.len() + mark.len_utf8();
                (Part { at: self.at, text: left }, Some(Part { at, text: right }))
            }
            None => (self, None),
        }
    }

    fn wrong(self, reason: impl Into<String>) -> Wrong {
        (self.at, reason.into())
    }

    fn number(self, name: &str, max: u16) -> Result<u16, Wrong> {
        let digits = !self.text.is_empty() && self.text.bytes().all(|b| b.is_ascii_digit());
        let value = if digits { self.text.parse::<u16>().ok() } else { None };
        value
            .filter(|it| *it <= max)
            .ok_or_else(|| self.wrong(format!("{name} must be a whole number from 0 to {max}")))
    }

    fn seven(self, name: &str) -> Result<u8, Wrong> {
        Ok(self.number(name, 127)? as u8)
    }

    fn float(self, name: &str, low: f32, high: f32) -> Result<f32, Wrong> {
        let value = self.text.parse::<f32>().ok();
        value
            .filter(|it| (low..=high).contains(it))
            .ok_or_else(|| self.wrong(format!("{name} must be a number from {low} to {high}")))
    }

    fn named<T: Copy>(self, name: &str, all: &[T], word: impl Fn(T) -> &'static str) -> Result<T, Wrong> {
        let found = all.iter().copied().find(|it| word(*it) == self.text);
        found.ok_or_else(|| {
            let words: Vec<&str> = all.iter().copied().map(word).collect();
            self.wrong(format!("{name} must be one of {}", words.join(" ")))
        })
    }

    fn hex(self) -> Result<Vec<u8>, Wrong> {
        let digits = self.text.as_bytes();
        let byte = |pair: &[u8]| -> Option<u8> {
            let nibble = |c: &u8| char::from(*c).to_digit(16);
            Some((nibble(pair.first()?)? * 16 + nibble(pair.get(1)?)?) as u8)
        };
        let bytes: Option<Vec<u8>> = digits.chunks(2).map(byte).collect();
        bytes.ok_or_else(|| self.wrong("bytes must be pairs of hexadecimal digits, such as 7e7f0601"))
    }

    fn unescape(self) -> Result<String, Wrong> {
        let mut bytes = Vec::with_capacity(self.text.len());
        let mut rest = self.text;
        while let Some((plain, after)) = rest.split_once('%') {
            bytes.extend_from_slice(plain.as_bytes());
            let at = self.at + self.text.len() - after.len() - 1;
            let pair = Part { at, text: after.get(..2).unwrap_or(after) };
            let byte = pair.hex().ok().filter(|it| it.len() == 1);
            bytes.extend(byte.ok_or_else(|| pair.wrong("'%' must be followed by two hexadecimal digits"))?);
            rest = after.get(2..).unwrap_or_default();
        }
        bytes.extend_from_slice(rest.as_bytes());
        String::from_utf8(bytes).map_err(|_| self.wrong("the escaped bytes are not UTF-8"))
    }
}

fn step(token: &str) -> Result<Step, Wrong> {
    let (head, tail) = Part { at: 0, text: token }.cut(':');
    let Some(tail) = tail else {
        return Err(head.wrong(format!("there is no ':'; write KIND:VALUE, where KIND is one of {}", KINDS.join(" "))));
    };
    let body = match head.text {
        "on" | "off" => note(head.text == "on", tail)?,
        "cc" => {
            let (rest, channel) = channel(tail)?;
            let (controller, value) = pair(rest, "cc:7=64")?;
            Body::Cc { channel, controller: controller.seven("controller")?, value: value.seven("value")? }
        }
        "pat" => {
            let (rest, channel) = channel(tail)?;
            let (note, pressure) = pair(rest, "pat:36=90")?;
            Body::PolyPressure { channel, note: note.seven("note")?, pressure: pressure.seven("pressure")? }
        }
        "pb" => {
            let (rest, channel) = channel(tail)?;
            Body::PitchBend { channel, value: rest.number("pitch bend", 16383)? }
        }
        "at" => {
            let (rest, channel) = channel(tail)?;
            Body::ChannelPressure { channel, pressure: rest.seven("pressure")? }
        }
        "pc" => {
            let (rest, channel) = channel(tail)?;
            Body::Program { channel, program: rest.seven("program")? }
        }
        "down" => Body::ButtonDown(tail.named("button", Button::ALL, Button::name)?),
        "up" => Body::ButtonUp(tail.named("button", Button::ALL, Button::name)?),
        "axis" => {
            let (axis, value) = pair(tail, "axis:left_x=0.8")?;
            Body::Axis { axis: axis.named("axis", Axis::ALL, Axis::name)?, value: value.float("value", -1.0, 1.0)? }
        }
        "trig" => {
            let (side, value) = pair(tail, "trig:right=0.9")?;
            Body::Trigger {
                side: side.named("trigger", Side::ALL, Side::name)?,
                value: value.float("value", 0.0, 1.0)?,
            }
        }
        "osc" => Body::Osc(osc(tail)?.into()),
        "sysex" => {
            let data = tail.hex()?;
            if data.iter().any(|byte| *byte > 0x7F) {
                return Err(tail.wrong("SysEx data bytes are 00 to 7f; leave out F0 and F7"));
            }
            Body::SysEx(data.into())
        }
        "rt" => Body::RealTime(tail.named("message", RealTime::ALL, RealTime::name)?),
        "common" => common(tail)?,
        "dev" => return Ok(Step::Device(name(tail, "device alias")?)),
        "mode" => return Ok(Step::Mode(name(tail, "mode")?)),
        "t" => return time(tail),
        _ => return Err(head.wrong(format!("unknown kind; write one of {}", KINDS.join(" ")))),
    };
    Ok(Step::Event(body))
}

const KINDS: &[&str] = &[
    "on", "off", "cc", "pb", "at", "pat", "pc", "down", "up", "axis", "trig", "osc", "sysex", "rt", "common", "dev",
    "mode", "t",
];

fn channel(part: Part<'_>) -> Result<(Part<'_>, u8), Wrong> {
    let (rest, channel) = part.cut('/');
    Ok((rest, channel.map_or(Ok(0), |it| it.number("channel", 15))? as u8))
}

fn pair<'a>(part: Part<'a>, example: &str) -> Result<(Part<'a>, Part<'a>), Wrong> {
    let (left, right) = part.cut('=');
    Ok((left, right.ok_or_else(|| part.wrong(format!("there is no '='; write it as {example}")))?))
}

fn note(press: bool, part: Part<'_>) -> Result<Body, Wrong> {
    let (rest, channel) = channel(part)?;
    let (number, velocity) = rest.cut('@');
    let note = number.seven("note")?;
    let velocity = velocity.map_or(Ok(if press { 100 } else { 0 }), |it| it.seven("velocity"))?;
    // As in MIDI, a note-on with velocity 0 is a release.
    Ok(if press && velocity > 0 {
        Body::NoteOn { channel, note, velocity }
    } else {
        Body::NoteOff { channel, note, velocity }
    })
}

fn common(part: Part<'_>) -> Result<Body, Wrong> {
    let bytes = part.hex()?;
    match *bytes.as_slice() {
        [status @ (0xF1 | 0xF3), data @ 0..=0x7F] => Ok(Body::Common { status, data: [data, 0] }),
        [0xF2, first @ 0..=0x7F, second @ 0..=0x7F] => Ok(Body::Common { status: 0xF2, data: [first, second] }),
        [0xF6] => Ok(Body::Common { status: 0xF6, data: [0, 0] }),
        _ => Err(part.wrong("system common is f1 or f3 with one data byte, f2 with two, or f6 alone")),
    }
}

fn name(part: Part<'_>, what: &str) -> Result<String, Wrong> {
    let name = part.unescape()?;
    if name.is_empty() { Err(part.wrong(format!("the {what} is missing"))) } else { Ok(name) }
}

fn time(part: Part<'_>) -> Result<Step, Wrong> {
    let bad = || part.wrong("time must be milliseconds up to 86400000, with at most three decimals");
    let (whole, fraction) = part.text.split_once('.').unwrap_or((part.text, ""));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(fraction) || fraction.len() > 3 || part.text.ends_with('.') {
        return Err(bad());
    }
    let ms = whole.parse::<u64>().ok().filter(|ms| *ms <= 86_400_000).ok_or_else(bad)?;
    let us = format!("{fraction:0<3}").parse::<u64>().map_err(|_| bad())?;
    Ok(Step::Advance(Micros(ms * 1000 + us)))
}

fn osc(part: Part<'_>) -> Result<OscMessage, Wrong> {
    let (address, args) = part.cut('=');
    if !address.text.starts_with('/') {
        return Err(address.wrong("an OSC address begins with '/'"));
    }
    let mut message = OscMessage { address: address.unescape()?, args: Vec::new() };
    let mut rest = args;
    while let Some(part) = rest {
        let (arg, after) = part.cut(',');
        message.args.push(osc_arg(arg)?);
        rest = after;
    }
    Ok(message)
}

fn osc_arg(part: Part<'_>) -> Result<OscArg, Wrong> {
    if let Some(inner) = part.text.strip_prefix('\'') {
        let inner = inner.strip_suffix('\'').ok_or_else(|| part.wrong("the quoted text has no closing '"))?;
        return Part { at: part.at + 1, text: inner }.unescape().map(OscArg::Text);
    }
    match unquoted(part.text) {
        Some(arg) => Ok(arg),
        None if part.text.is_empty() => Err(part.wrong("an argument is missing; the empty text is ''")),
        None => part.unescape().map(OscArg::Text),
    }
}

/// Parses an argument that is a boolean or a number; `None` for texts.
fn unquoted(word: &str) -> Option<OscArg> {
    match word {
        "true" => return Some(OscArg::Bool(true)),
        "false" => return Some(OscArg::Bool(false)),
        _ => {}
    }
    word.parse().map(OscArg::Int).or_else(|_| word.parse().map(OscArg::Float)).ok()
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Event(body) => f.write_str(&token(body)),
            Step::Device(alias) => write!(f, "dev:{}", escape(alias, "")),
            Step::Mode(name) => write!(f, "mode:{}", escape(name, "")),
            Step::Advance(Micros(us)) => match us % 1000 {
                0 => write!(f, "t:{}", us / 1000),
                rest => write!(f, "t:{}.{rest:03}", us / 1000),
            },
        }
    }
}

/// Formats an event as a token.
pub fn token(body: &Body) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write_token(body, &mut out);
    out
}

fn write_token(body: &Body, out: &mut String) -> fmt::Result {
    match body {
        Body::NoteOn { note, velocity, .. } => write!(out, "on:{note}@{velocity}"),
        Body::NoteOff { note, velocity: 0, .. } => write!(out, "off:{note}"),
        Body::NoteOff { note, velocity, .. } => write!(out, "off:{note}@{velocity}"),
        Body::PolyPressure { note, pressure, .. } => write!(out, "pat:{note}={pressure}"),
        Body::Cc { controller, value, .. } => write!(out, "cc:{controller}={value}"),
        Body::Program { program, .. } => write!(out, "pc:{program}"),
        Body::ChannelPressure { pressure, .. } => write!(out, "at:{pressure}"),
        Body::PitchBend { value, .. } => write!(out, "pb:{value}"),
        Body::SysEx(data) => {
            out.write_str("sysex:")?;
            data.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
        }
        Body::RealTime(what) => write!(out, "rt:{what}"),
        Body::Common { status, data: [first, second] } => match status {
            0xF2 => write!(out, "common:f2{first:02x}{second:02x}"),
            0xF6 => out.write_str("common:f6"),
            _ => write!(out, "common:{status:02x}{first:02x}"),
        },
        Body::ButtonDown(button) => write!(out, "down:{button}"),
        Body::ButtonUp(button) => write!(out, "up:{button}"),
        Body::Axis { axis, value } => write!(out, "axis:{axis}={value}"),
        Body::Trigger { side, value } => write!(out, "trig:{side}={value}"),
        Body::Osc(message) => {
            write!(out, "osc:{}", escape(&message.address, "="))?;
            let mut mark = '=';
            for arg in &message.args {
                out.push(mark);
                mark = ',';
                match arg {
                    OscArg::Int(value) => write!(out, "{value}")?,
                    // `{:?}` keeps the decimal point that distinguishes a float from an integer.
                    OscArg::Float(value) => write!(out, "{value:?}")?,
                    OscArg::Bool(value) => write!(out, "{value}")?,
                    OscArg::Text(text) if text.is_empty() || text.starts_with('\'') || unquoted(text).is_some() => {
                        write!(out, "'{}'", escape(text, ","))?;
                    }
                    OscArg::Text(text) => out.write_str(&escape(text, ","))?,
                }
            }
            Ok(())
        }
    }?;
    match body.channel() {
        Some(0) | None => Ok(()),
        Some(channel) => write!(out, "/{channel}"),
    }
}

/// Escapes `%`, blanks, control characters and the given marks.
fn escape(text: &str, marks: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c == '%' || c.is_whitespace() || c.is_control() || marks.contains(c) {
            let mut buffer = [0; 4];
            c.encode_utf8(&mut buffer).bytes().for_each(|byte| {
                let _ = write!(out, "%{byte:02x}");
            });
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn event(text: &str) -> Body {
        match parse_token(text) {
            Ok(Step::Event(body)) => body,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn defaults_and_channels() {
        assert_eq!(event("on:36"), Body::NoteOn { channel: 0, note: 36, velocity: 100 });
        assert_eq!(event("on:36@1/15"), Body::NoteOn { channel: 15, note: 36, velocity: 1 });
        assert_eq!(event("on:36@0"), Body::NoteOff { channel: 0, note: 36, velocity: 0 });
        assert_eq!(event("off:36@64/2"), Body::NoteOff { channel: 2, note: 36, velocity: 64 });
        assert_eq!(event("cc:7=64/3"), Body::Cc { channel: 3, controller: 7, value: 64 });
        assert_eq!(event("pb:16383"), Body::PitchBend { channel: 0, value: 16383 });
    }

    #[test]
    fn the_whole_vocabulary_reads_and_prints_back() {
        let text = "dev:pads mode:Mix on:36@100 t:600 off:36 cc:7=64 pb:8192 at:90 pat:36=90 pc:5/1 down:south up:south \
                    axis:left_x=0.8 axis:left_y=-1 trig:right=0.9 osc:/a/b=1.0,2,on,true osc:/bare sysex:7e7f0601 rt:start \
                    common:f20010 common:f6 t:0.5 mode:My%20Mode";
        let steps = parse(text).unwrap();
        assert_eq!(steps.len(), 23);
        assert_eq!(print(&steps).replace("t:0.500", "t:0.5"), text);
        let spread = parse("# a press\non:36 # here\n\n  t:1 \toff:36").unwrap();
        assert_eq!(print(&spread), "on:36@100 t:1 off:36");
    }

    #[test]
    fn osc_arguments_keep_their_types() {
        let Body::Osc(message) = event("osc:/x%3D/y=1,1.0,-3,1e3,true,'true',hello%20%2C,''") else { panic!() };
        assert_eq!(message.address, "/x=/y");
        let text = |it: &str| OscArg::Text(it.into());
        assert_eq!(
            message.args,
            vec![
                OscArg::Int(1),
                OscArg::Float(1.0),
                OscArg::Int(-3),
                OscArg::Float(1000.0),
                OscArg::Bool(true),
                text("true"),
                text("hello ,"),
                text(""),
            ]
        );
    }

    #[test]
    fn faults_name_token_and_column() {
        let shown = |text: &str| parse(text).unwrap_err().iter().map(Fault::to_string).collect::<Vec<_>>();
        assert_eq!(
            shown("on:36 on:128\n t:1 cc:7 on:1@x/0"),
            vec![
                "line 1, column 10: 'on:128': note must be a whole number from 0 to 127",
                "line 2, column 9: 'cc:7': there is no '='; write it as cc:7=64",
                "line 2, column 16: 'on:1@x/0': velocity must be a whole number from 0 to 127",
            ]
        );
        for (text, column, words) in [
            ("36", 1, "no ':'"),
            ("nope:36", 1, "unknown kind; write one of on off"),
            ("on:36/16", 7, "channel must be a whole number from 0 to 15"),
            ("on:+6", 4, "note must be"),
            ("down:nord", 6, "button must be one of south east"),
            ("axis:left_x=1.1", 13, "value must be a number from -1 to 1"),
            ("axis:left_x=NaN", 13, "value must be"),
            ("osc:a", 5, "begins with '/'"),
            ("osc:/a=1,,2", 10, "an argument is missing"),
            ("osc:/a=é%zz", 9, "'%' must be followed"),
            ("osc:/a='x", 8, "no closing '"),
            ("sysex:f0", 7, "leave out F0 and F7"),
            ("sysex:123", 7, "pairs of hexadecimal"),
            ("common:f2", 8, "system common"),
            ("dev:", 5, "the device alias is missing"),
            ("t:-1", 3, "time must be"),
            ("t:1.2345", 3, "time must be"),
            ("mode:%ff", 6, "not UTF-8"),
        ] {
            let fault = parse_token(text).unwrap_err();
            assert_eq!(fault.column, column, "{fault}");
            assert!(fault.reason.contains(words), "{fault}");
        }
        assert!(parse_token("on:1 off:1").unwrap_err().reason.contains("more than one"));
        assert!(parse_token("  ").unwrap_err().reason.contains("no token"));
        assert_eq!(parse(&"x ".repeat(50)).unwrap_err().len(), FAULTS_MAX);
    }

    fn any_arg() -> impl Strategy<Value = OscArg> {
        prop_oneof![
            any::<i32>().prop_map(OscArg::Int),
            any::<f32>().prop_filter("NaN differs from itself", |it| !it.is_nan()).prop_map(OscArg::Float),
            any::<bool>().prop_map(OscArg::Bool),
            any::<String>().prop_map(OscArg::Text),
            prop::sample::select(vec!["nan", "inf", "1", "'", "''", "true", "%", " ", "1e5"])
                .prop_map(|it| OscArg::Text(it.into())),
        ]
    }

    fn any_step() -> impl Strategy<Value = Step> {
        let (ch, n) = (0u8..16, 0u8..128);
        let buttons = prop::sample::select(Button::ALL);
        prop_oneof![
            (ch.clone(), n.clone(), 1u8..128).prop_map(|(channel, note, velocity)| Step::Event(Body::NoteOn {
                channel,
                note,
                velocity
            })),
            (ch.clone(), n.clone(), n.clone()).prop_map(|(channel, note, velocity)| Step::Event(Body::NoteOff {
                channel,
                note,
                velocity
            })),
            (ch.clone(), n.clone(), n.clone()).prop_map(|(channel, note, pressure)| Step::Event(Body::PolyPressure {
                channel,
                note,
                pressure
            })),
            (ch.clone(), n.clone(), n.clone()).prop_map(|(channel, controller, value)| Step::Event(Body::Cc {
                channel,
                controller,
                value
            })),
            (ch.clone(), n.clone()).prop_map(|(channel, program)| Step::Event(Body::Program { channel, program })),
            (ch.clone(), n.clone())
                .prop_map(|(channel, pressure)| Step::Event(Body::ChannelPressure { channel, pressure })),
            (ch, 0u16..16384).prop_map(|(channel, value)| Step::Event(Body::PitchBend { channel, value })),
            prop::collection::vec(n.clone(), 0..10).prop_map(|data| Step::Event(Body::SysEx(data.into()))),
            prop::sample::select(RealTime::ALL).prop_map(|it| Step::Event(Body::RealTime(it))),
            (n.clone(), n.clone()).prop_map(|(a, b)| Step::Event(Body::Common { status: 0xF2, data: [a, b] })),
            n.prop_map(|a| Step::Event(Body::Common { status: 0xF1, data: [a, 0] })),
            buttons.clone().prop_map(|it| Step::Event(Body::ButtonDown(it))),
            buttons.prop_map(|it| Step::Event(Body::ButtonUp(it))),
            (prop::sample::select(Axis::ALL), -1.0f32..=1.0)
                .prop_map(|(axis, value)| Step::Event(Body::Axis { axis, value })),
            (prop::sample::select(Side::ALL), 0.0f32..=1.0)
                .prop_map(|(side, value)| Step::Event(Body::Trigger { side, value })),
            (any::<String>(), prop::collection::vec(any_arg(), 0..4)).prop_map(|(rest, args)| Step::Event(Body::Osc(
                OscMessage { address: format!("/{rest}"), args }.into()
            ))),
            "[^\\x00]{1,20}".prop_map(Step::Device),
            "[^\\x00]{1,20}".prop_map(Step::Mode),
            (0u64..=86_400_000_000).prop_map(|us| Step::Advance(Micros(us))),
        ]
    }

    proptest! {
        #[test]
        fn what_is_printed_reads_as_itself(steps in prop::collection::vec(any_step(), 0..12)) {
            let text = print(&steps);
            prop_assert_eq!(parse(&text), Ok(steps), "{}", text);
        }

        #[test]
        fn any_text_is_read_or_refused(text in any::<String>(), token in "(on|cc|osc|t|pat|axis|mode|common):[0-9a-f@/=,.%' ]{0,12}") {
            let _ = parse(&text);
            if let Ok(steps) = parse(&token) {
                prop_assert_eq!(parse(&print(&steps)), Ok(steps));
            }
        }
    }
}
