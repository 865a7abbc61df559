//! Calculates the colours of an LED scheme: a pure function of the scheme, the time and recent hits
//! (pressed pads).
//!
//! Not here: the frame rate and sending (`feedback`).

use crate::config::{Config, Device, Led, LedScheme, Rows};
use crate::event::{DeviceSlot, Micros, Taint};
use crate::mapping::table::Slots;
use crate::mapping::{Key, TriggerKind};
use crate::templates;
use std::collections::BTreeSet;
use std::f64::consts::TAU;

/// Hits are stored for this time, because later they have faded in every scheme.
pub const MEMORY_MS: u32 = REACTIVE_MS + FADE_MS;
/// Maximum number of stored hits.
pub const MAX_HITS: usize = 256;
const REACTIVE_MS: u32 = 1000;
const FADE_MS: u32 = 200;
const BREATH_US: u64 = 2_000_000;
const PULSE_US: u64 = 500_000;
const WAVE_US: u64 = 2_000_000;
const RAINBOW_US: u64 = 4_000_000;
const SPIRAL_US: u64 = 2_000_000;
const SPARKLE_US: u64 = 100_000;
/// In each frame, on average one of this many pads is lit.
const SPARKLE_OF: u64 = 8;
/// The length of the lit part of a spiral, as a share of the whole spiral.
const TAIL: f64 = 0.25;

/// A pad with a light.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pad {
    /// The channel on which the pad sends presses.
    pub channel: u8,
    /// The channel on which its light is set; some controllers encode the brightness in this
    /// channel.
    pub light_channel: u8,
    pub note: u8,
}

/// A pad that was pressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hit {
    pub port: DeviceSlot,
    /// The channel of the press.
    pub channel: u8,
    pub note: u8,
    pub velocity: u8,
    /// The time of the press.
    pub at: Micros,
    /// The taint of the press.
    pub by: Taint,
}

/// The pads of a device, row by row from the bottom left, and the colours of the device.
#[derive(Clone, Debug, PartialEq)]
pub struct Surface {
    pub port: DeviceSlot,
    pub pads: Vec<Pad>,
    /// Pads per row.
    pub columns: usize,
    /// The colours of the device.
    pub palette: Palette,
}

/// A colour as red, green and blue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rgb(pub u8, pub u8, pub u8);

/// The colour names of a configuration.
pub const WORDS: &[(&str, Rgb)] = &[
    ("off", Rgb(0, 0, 0)),
    ("white", Rgb(255, 255, 255)),
    ("red", Rgb(255, 0, 0)),
    ("orange", Rgb(255, 110, 0)),
    ("amber", Rgb(255, 160, 0)),
    ("yellow", Rgb(255, 255, 0)),
    ("green", Rgb(0, 255, 0)),
    ("cyan", Rgb(0, 255, 255)),
    ("blue", Rgb(0, 0, 255)),
    ("purple", Rgb(128, 0, 255)),
    ("magenta", Rgb(255, 0, 255)),
    ("pink", Rgb(255, 100, 180)),
];

/// The colours of a device, each with its velocities from dim to bright.
#[derive(Clone, Debug, PartialEq)]
pub struct Palette {
    pub colors: Vec<(Rgb, Vec<u8>)>,
}

impl Default for Palette {
    /// The palette for devices whose template has no palette.
    fn default() -> Self {
        Palette::of(&[("red", &[5]), ("amber", &[9]), ("yellow", &[13]), ("green", &[21]), ("blue", &[45])])
    }
}

impl Palette {
    /// Creates a palette; unknown colour names are left out.
    pub fn of(colors: &[(&str, &[u8])]) -> Self {
        let known = |word: &str| WORDS.iter().find(|it| it.0 == word).map(|it| it.1);
        Palette { colors: colors.iter().filter_map(|(word, levels)| Some((known(word)?, levels.to_vec()))).collect() }
    }

    /// The velocity whose colour is closest to `color` at this level. `brightness` dims the light,
    /// but only 0 switches it off.
    fn velocity(&self, color: Rgb, level: f64, brightness: u8) -> u8 {
        if color == Rgb(0, 0, 0) || brightness == 0 {
            return 0;
        }
        let nearest = self.colors.iter().filter(|it| !it.1.is_empty()).min_by_key(|it| distance(it.0, color));
        let Some((_, levels)) = nearest else { return 0 };
        let steps = levels.len() as f64;
        let index = |level: f64| (level.clamp(0.0, 1.0) * steps).round() as usize;
        if index(level) == 0 {
            return 0;
        }
        let dimmed = index(level * f64::from(brightness) / 127.0).max(1);
        levels.get(dimmed - 1).copied().unwrap_or(0)
    }

    /// Colours in the order of the rainbow.
    fn rainbow(&self) -> Vec<Rgb> {
        let mut colors: Vec<Rgb> = self.colors.iter().map(|it| it.0).filter(|it| saturation(*it) > 0).collect();
        colors.sort_by(|a, b| hue(*a).total_cmp(&hue(*b)));
        colors
    }
}

fn distance(a: Rgb, b: Rgb) -> u32 {
    let part = |a: u8, b: u8| u32::from(a.abs_diff(b)).pow(2);
    part(a.0, b.0) + part(a.1, b.1) + part(a.2, b.2)
}

fn saturation(color: Rgb) -> u8 {
    color.0.max(color.1).max(color.2) - color.0.min(color.1).min(color.2)
}

/// The hue, 0..6; red is 0.
fn hue(Rgb(r, g, b): Rgb) -> f64 {
    let (max, span) = (r.max(g).max(b), f64::from(saturation(Rgb(r, g, b))));
    let (r, g, b) = (f64::from(r), f64::from(g), f64::from(b));
    if span == 0.0 {
        0.0
    } else if f64::from(max) == r {
        ((g - b) / span).rem_euclid(6.0)
    } else if f64::from(max) == g {
        (b - r) / span + 2.0
    } else {
        (r - g) / span + 4.0
    }
}

/// Parses a colour name or `#rrggbb`. Anything else is blue; the configuration reader has already
/// warned about it.
pub fn color(text: &str) -> Rgb {
    const UNKNOWN: Rgb = Rgb(0, 0, 255);
    if let Some(hex) = text.strip_prefix('#') {
        let part = |at: usize| hex.get(at..at + 2).and_then(|it| u8::from_str_radix(it, 16).ok());
        return match (part(0), part(2), part(4)) {
            (Some(r), Some(g), Some(b)) => Rgb(r, g, b),
            (_, _, _) => UNKNOWN,
        };
    }
    WORDS.iter().find(|it| it.0 == text).map_or(UNKNOWN, |it| it.1)
}

/// Every enabled device that has an output and pads. The pads come from the device's template, or
/// else from the notes of the triggers that name the device.
pub fn surfaces(config: &Config, slots: &mut Slots) -> Vec<Surface> {
    let devices = config.devices.iter().filter(|it| it.enabled && it.direction.has_output());
    devices
        .filter_map(|device| {
            let port = slots.slot(&device.alias);
            let template = device.template.as_deref().and_then(templates::find);
            let surface = match template.and_then(|it| Some((it.pads(), it.light.as_ref()?))) {
                Some((pads, light)) => Surface { port, pads, columns: light.columns, palette: light.palette.clone() },
                None => {
                    let pads = named_pads(config, device);
                    Surface { port, columns: square(pads.len()), pads, palette: Palette::default() }
                }
            };
            Some(surface).filter(|it| !it.pads.is_empty())
        })
        .collect()
}

fn square(pads: usize) -> usize {
    (1..=pads).find(|it| it * it >= pads).unwrap_or(1)
}

fn named_pads(config: &Config, device: &Device) -> Vec<Pad> {
    let rows = config.modes.iter().map(|it| &it.rows).chain(std::iter::once(&config.global));
    let mut pads = BTreeSet::new();
    for rule in rows.flat_map(|Rows { mappings, .. }| mappings).filter_map(|it| it.rule.as_ref()) {
        if rule.trigger.device.as_ref() != Some(&device.alias) {
            continue;
        }
        let channel = rule.trigger.channel.unwrap_or(0);
        pads.extend(notes(&rule.trigger.kind).into_iter().map(|note| Pad { channel, light_channel: channel, note }));
    }
    pads.into_iter().collect()
}

fn notes(kind: &TriggerKind) -> Vec<u8> {
    if let TriggerKind::Note { note, .. }
    | TriggerKind::VelocityRange { note, .. }
    | TriggerKind::LongPress { key: Key::Note(note), .. }
    | TriggerKind::DoubleTap { key: Key::Note(note), .. } = kind
    {
        vec![*note]
    } else if let TriggerKind::NoteChord { notes, .. } = kind {
        notes.clone()
    } else {
        Vec::new()
    }
}

/// Whether the colours change without new events.
pub fn moves(scheme: LedScheme, hits: &[Hit]) -> bool {
    match scheme {
        LedScheme::Off | LedScheme::Static => false,
        LedScheme::Reactive | LedScheme::Vumeter => !hits.is_empty(),
        LedScheme::Breathing
        | LedScheme::Pulse
        | LedScheme::Rainbow
        | LedScheme::Wave
        | LedScheme::Sparkle
        | LedScheme::Spiral => true,
    }
}

/// One frame: the value of every pad of a surface. `mode_color` is the colour of the mode; the
/// default is blue.
pub fn frame(
    led: &Led,
    surface: &Surface,
    mode_color: Option<&str>,
    hits: &[Hit],
    now: Micros,
) -> impl Iterator<Item = (Pad, u8)> {
    let picture = Picture {
        base: color(mode_color.unwrap_or("blue")),
        rainbow: surface.palette.rainbow(),
        columns: surface.columns.max(1),
        pads: surface.pads.len().max(1),
        now,
    };
    let hits: Vec<&Hit> = hits.iter().filter(|it| it.port == surface.port).collect();
    surface.pads.iter().enumerate().map(move |(index, pad)| {
        let (color, level) = picture.pad(led.scheme, index, *pad, &hits);
        (*pad, surface.palette.velocity(color, level, led.brightness))
    })
}

struct Picture {
    base: Rgb,
    rainbow: Vec<Rgb>,
    columns: usize,
    pads: usize,
    now: Micros,
}

impl Picture {
    /// The position in a period, 0..1.
    fn phase(&self, period_us: u64) -> f64 {
        (self.now.0 % period_us) as f64 / period_us as f64
    }

    fn rows(&self) -> usize {
        self.pads.div_ceil(self.columns)
    }

    fn pad(&self, scheme: LedScheme, index: usize, pad: Pad, hits: &[&Hit]) -> (Rgb, f64) {
        let column = (index % self.columns) as f64 / self.columns as f64;
        match scheme {
            LedScheme::Off => (self.base, 0.0),
            LedScheme::Static => (self.base, 1.0),
            LedScheme::Breathing => (self.base, 0.5 - 0.5 * (TAU * self.phase(BREATH_US)).cos()),
            LedScheme::Pulse => (self.base, 1.0 - self.phase(PULSE_US)),
            LedScheme::Wave => (self.base, 0.5 + 0.5 * (TAU * (self.phase(WAVE_US) - column)).cos()),
            LedScheme::Rainbow => {
                let place = (self.phase(RAINBOW_US) + index as f64 / self.pads as f64).fract();
                let at = (place * self.rainbow.len() as f64) as usize;
                (self.rainbow.get(at).copied().unwrap_or(self.base), 1.0)
            }
            LedScheme::Sparkle => {
                let lit = scatter(self.now.0 / SPARKLE_US, index as u64).is_multiple_of(SPARKLE_OF);
                (self.base, f64::from(u8::from(lit)))
            }
            LedScheme::Reactive => reactive(self.now, pad, hits),
            LedScheme::Vumeter => self.vumeter(index, hits),
            LedScheme::Spiral => {
                let place = self.spiral(index) as f64 / self.pads as f64;
                let behind = (self.phase(SPIRAL_US) - place).rem_euclid(1.0);
                (self.base, (1.0 - behind / TAIL).max(0.0))
            }
        }
    }

    /// The hardest recent hit raises the meter; the meter falls within a second.
    fn vumeter(&self, index: usize, hits: &[&Hit]) -> (Rgb, f64) {
        let height = hits
            .iter()
            .map(|it| {
                let age = self.now.since(it.at) as f64 / (f64::from(REACTIVE_MS) * 1000.0);
                f64::from(it.velocity) / 127.0 * (1.0 - age).max(0.0)
            })
            .fold(0.0, f64::max);
        let rows = self.rows() as f64;
        let row = (index / self.columns) as f64;
        let color = match (row + 1.0) / rows {
            top if top > 0.85 => Rgb(255, 0, 0),
            top if top > 0.6 => Rgb(255, 255, 0),
            _ => Rgb(0, 255, 0),
        };
        (color, f64::from(u8::from(height * rows > row)))
    }

    /// The position of a pad on the spiral from the corner around the edge to the middle.
    fn spiral(&self, index: usize) -> usize {
        let (mut left, mut bottom) = (0, 0);
        let (mut right, mut top) = (self.columns, self.rows());
        let (column, row) = (index % self.columns, index / self.columns);
        let mut walked = 0;
        while left < right && bottom < top {
            let (wide, high) = (right - left, top - bottom);
            if row == bottom {
                return walked + (column - left);
            } else if column == right - 1 {
                return walked + (wide - 1) + (row - bottom);
            } else if row == top - 1 {
                return walked + (wide - 1) + (high - 1) + (right - 1 - column);
            } else if column == left {
                return walked + 2 * (wide - 1) + (high - 1) + (top - 1 - row);
            }
            walked += if wide == 1 || high == 1 { wide * high } else { 2 * (wide + high) - 4 };
            (left, bottom, right, top) = (left + 1, bottom + 1, right - 1, top - 1);
        }
        walked
    }
}

/// Green up to velocity 40, yellow up to 80, red above; fades after a second.
fn reactive(now: Micros, pad: Pad, hits: &[&Hit]) -> (Rgb, f64) {
    let of_pad = |it: &&&Hit| it.note == pad.note && it.channel == pad.channel && it.at <= now;
    let Some(hit) = hits.iter().rev().find(of_pad) else { return (Rgb(0, 0, 0), 0.0) };
    let color = match hit.velocity {
        0..=40 => Rgb(0, 255, 0),
        41..=80 => Rgb(255, 255, 0),
        _ => Rgb(255, 0, 0),
    };
    let age_us = now.since(hit.at);
    let bright_us = u64::from(REACTIVE_MS) * 1000;
    let level = if age_us < bright_us {
        1.0
    } else {
        (1.0 - (age_us - bright_us) as f64 / (f64::from(FADE_MS) * 1000.0)).max(0.0)
    };
    (color, level)
}

/// A pseudo-random number without a visible pattern. The same frame and pad always return the same
/// number.
fn scatter(frame: u64, pad: u64) -> u64 {
    let mut mixed = (frame << 16 ^ pad).wrapping_add(0x9E37_79B9_7F4A_7C15);
    for shift in [30, 27, 31] {
        mixed = (mixed ^ (mixed >> shift)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    }
    mixed >> 8
}
