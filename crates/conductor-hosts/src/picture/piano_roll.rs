//! Draws one MIDI clip as a piano roll: keys, beat grid, loop, notes coloured by velocity, and a
//! velocity lane below.

use super::session::{DIM_TEXT, LINE, STRONG_LINE, TEXT, finish, number, text};
use super::sketch::Sketch;
use super::{Anchor, Color, Look, Pen, Picture, Point, Rect};
use conductor_set::{ClipInfo, Document, LiveError, Note, PathId};
use schemars::JsonSchema;
use serde::Serialize;

const KEYS: f64 = 52.0;
const HEAD: f64 = 56.0;
const LANE: f64 = 64.0;
const MARGIN: f64 = 12.0;

/// A picture of a clip, with its size, pitch range and number of notes.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClipDrawing {
    /// The clip.
    pub clip_id: PathId,
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
    /// Lowest and highest pitch; none when there are no notes.
    pub pitch_range: Option<[u8; 2]>,
    /// Number of notes in the picture.
    pub count: usize,
    #[serde(skip)]
    pub picture: Picture,
}

/// Draws a MIDI clip of a document, 320 to 4096 pixels wide.
///
/// # Errors
/// The path is not of a clip, the clip does not exist, it is an audio clip, or the width is out of
/// range.
pub fn draw_clip(document: &Document, path: PathId, width: u32) -> Result<ClipDrawing, LiveError> {
    let notes = document.all_notes(path)?;
    let track = path.track().and_then(|n| document.track_state(PathId::Track(n)).ok());
    let signature = document.time_signature().unwrap_or((4, 4));
    draw(&document.clip_info(path)?, track.as_ref().map_or("", |track| &track.name), &notes, signature, width)
}

/// Draws notes as a piano roll, 320 to 4096 pixels wide. `signature` is numerator and denominator.
///
/// # Errors
/// The width is out of range.
pub fn draw(
    clip: &ClipInfo,
    track: &str,
    notes: &[Note],
    signature: (u32, u32),
    width: u32,
) -> Result<ClipDrawing, LiveError> {
    if !(320..=4096).contains(&width) {
        let reason = format!("must be 320 to 4096, not {width}");
        return Err(LiveError::BadValue { subject: "width".into(), reason });
    }
    let pitches = || notes.iter().map(|note| note.pitch);
    let pitch_range = pitches().min().zip(pitches().max()).map(|(low, high)| [low, high]);
    let (low, high) = rows(pitch_range);
    let row = (420.0 / f64::from(high - low + 1)).clamp(6.0, 16.0).floor();
    let end = notes.iter().map(Note::end).fold(clip.loop_end.max(clip.end_marker), f64::max);
    let from = clip.loop_start.min(clip.start_marker).min(0.0);
    let right = f64::from(width) - MARGIN;
    let sketch = Sketch::new(1.0, Point::default());
    let mut roll = Roll { sketch, right, low, high, row, from, to: end.max(from + 1.0) };
    let bottom = roll.bottom();

    let title = if clip.name.is_empty() { "(no name)" } else { &clip.name };
    roll.sketch.rectangle(Rect::new(MARGIN, 9.0, 12.0, 12.0), 2.0, Look::fill(Color::rgb(clip.color)));
    text(&mut roll.sketch, (MARGIN + 20.0, 20.0), Pen::new(13.0, TEXT), right * 0.5, title);
    let facts = format!("{track} · {} · {} notes · {} beats", clip.id, notes.len(), number(clip.duration));
    text(&mut roll.sketch, (right, 20.0), Pen::new(11.0, DIM_TEXT).anchored(Anchor::End), right * 0.45, &facts);
    roll.keys();
    roll.sketch.rectangle(Rect::new(KEYS, bottom, right - KEYS, LANE), 0.0, Look::fill(Color::rgb(0x1f2227)));
    roll.line((KEYS, bottom), (right, bottom), STRONG_LINE, 1.0);
    let pen = Pen::new(9.0, DIM_TEXT).anchored(Anchor::End);
    text(&mut roll.sketch, (KEYS - 8.0, bottom + 14.0), pen, KEYS, "vel");
    roll.beats(f64::from(signature.0.max(1)) * 4.0 / f64::from(signature.1.max(1)));
    roll.markers(clip);
    notes.iter().for_each(|note| roll.note(note));
    let height = (bottom + LANE + MARGIN) as u32;
    let picture = finish(roll.sketch, width, height);
    Ok(ClipDrawing { clip_id: clip.id, width, height, pitch_range, count: notes.len(), picture })
}

/// The lowest and highest pitch to show: one more than the notes need at each end, and at least an
/// octave.
fn rows(range: Option<[u8; 2]>) -> (u8, u8) {
    let [low, high] = range.unwrap_or([60, 60]);
    let (mut low, mut high) = (low.saturating_sub(1), high.saturating_add(1).min(127));
    while high - low < 12 {
        low = low.saturating_sub(1);
        high = if high - low < 12 { high.saturating_add(1).min(127) } else { high };
    }
    (low, high)
}

/// The colour of a velocity: blue for quiet, green for medium, orange for loud.
fn velocity_color(velocity: f64) -> Color {
    const STOPS: [[f64; 3]; 3] = [[74.0, 123.0, 216.0], [72.0, 181.0, 150.0], [255.0, 148.0, 48.0]];
    let place = (velocity / 127.0).clamp(0.0, 1.0) * 2.0;
    let (from, to, part) = if place < 1.0 { (STOPS[0], STOPS[1], place) } else { (STOPS[1], STOPS[2], place - 1.0) };
    let [r, g, b] = [0, 1, 2].map(|n| (from[n] + (to[n] - from[n]) * part).round() as u8);
    Color(r, g, b, 255)
}

struct Roll {
    sketch: Sketch,
    /// Right edge of the grid.
    right: f64,
    /// Lowest and highest pitch shown.
    low: u8,
    high: u8,
    /// Height of one pitch.
    row: f64,
    /// First and last beat shown.
    from: f64,
    to: f64,
}

impl Roll {
    fn x(&self, beat: f64) -> f64 {
        KEYS + (beat - self.from) / (self.to - self.from) * (self.right - KEYS)
    }

    fn y(&self, pitch: u8) -> f64 {
        HEAD + f64::from(self.high - pitch.clamp(self.low, self.high)) * self.row
    }

    fn bottom(&self) -> f64 {
        self.y(self.low) + self.row
    }

    fn line(&mut self, from: (f64, f64), to: (f64, f64), color: Color, width: f64) {
        self.sketch.lines(&[from, to], self.sketch.stroke(color, width));
    }

    fn keys(&mut self) {
        for pitch in self.low..=self.high {
            let (y, row, right) = (self.y(pitch), self.row, self.right);
            let is_black = matches!(pitch % 12, 1 | 3 | 6 | 8 | 10);
            let (lane, key) = if is_black { (0x202329, 0x14161a) } else { (0x24272d, 0xd9dce1) };
            self.sketch.rectangle(Rect::new(KEYS, y, right - KEYS, row), 0.0, Look::fill(Color::rgb(lane)));
            let look = Look::fill(Color::rgb(key)).outlined(self.sketch.stroke(LINE, 0.5));
            self.sketch.rectangle(Rect::new(0.0, y, KEYS - 4.0, row), 0.0, look);
            if pitch % 12 == 0 {
                self.line((KEYS, y + row), (right, y + row), STRONG_LINE, 1.0);
                // In Live the name of pitch 60 is C3.
                let label = format!("C{}", i16::from(pitch / 12) - 2);
                let pen = Pen::new((row - 1.0).clamp(7.0, 10.0), Color::rgb(0x30343b)).anchored(Anchor::End);
                text(&mut self.sketch, (KEYS - 8.0, y + row - 1.5), pen, KEYS, &label);
            }
        }
    }

    fn beats(&mut self, bar: f64) {
        let pixels_per_beat = (self.right - KEYS) / (self.to - self.from);
        // Grid lines must be at least 6 pixels apart. The step is the shortest that fits: a
        // sixteenth, an eighth, a quarter, a bar, 2 bars, 4 bars, and so on.
        let mut step = 0.25;
        while step * pixels_per_beat < 6.0 {
            step = if (1.0..bar).contains(&step) { bar } else { step * 2.0 };
        }
        let mut label_step = bar;
        while label_step * pixels_per_beat < 44.0 {
            label_step *= 2.0;
        }
        let bottom = self.bottom() + LANE;
        let mut n = (self.from / step).ceil();
        while n * step <= self.to + 1e-9 {
            let beat = n * step;
            let (color, width) = if (beat / bar).fract().abs() < 1e-9 {
                (Color::rgb(0x5b626e), 1.2)
            } else if beat.fract().abs() < 1e-9 {
                (STRONG_LINE, 0.7)
            } else {
                (LINE, 0.5)
            };
            self.line((self.x(beat), HEAD), (self.x(beat), bottom), color, width);
            n += 1.0;
        }
        let mut n = (self.from / label_step).ceil();
        while n * label_step < self.to - 1e-9 {
            let beat = n * label_step;
            let x = self.x(beat);
            self.line((x, HEAD - 14.0), (x, HEAD), STRONG_LINE, 1.0);
            text(&mut self.sketch, (x + 11.0, HEAD - 5.0), Pen::new(10.0, DIM_TEXT), 60.0, &number(beat / bar + 1.0));
            n += 1.0;
        }
    }

    /// Draws the loop brace, the shade outside the loop, and the start marker.
    fn markers(&mut self, clip: &ClipInfo) {
        let bottom = self.bottom() + LANE;
        let (from, to) = (self.x(clip.loop_start), self.x(clip.loop_end));
        let color = Color::rgb(if clip.looping { 0xffd23f } else { 0x7c8490 });
        self.sketch.rectangle(Rect::new(from, HEAD - 22.0, (to - from).max(0.0), 6.0), 2.0, Look::fill(color));
        for x in [from, to] {
            self.line((x, HEAD - 22.0), (x, bottom), color, 1.0);
        }
        for (left, right) in [(KEYS, from), (to, self.right)] {
            let rect = Rect::new(left, HEAD, (right - left).max(0.0), bottom - HEAD);
            self.sketch.rectangle(rect, 0.0, Look::fill(Color::BLACK.with_opacity(0.35)));
        }
        let start = self.x(clip.start_marker);
        let flag = [(start, HEAD - 14.0), (start + 8.0, HEAD - 9.0), (start, HEAD - 4.0)];
        self.sketch.polygon(&flag, Look::fill(Color::rgb(0x7ad67a)));
    }

    /// Draws a note in the grid and its velocity in the lane below.
    fn note(&mut self, note: &Note) {
        let (x, y) = (self.x(note.start_time), self.y(note.pitch));
        let rect = Rect::new(x, y + 0.5, (self.x(note.end()) - x).max(2.0) - 0.5, self.row - 1.0);
        let opacity = 0.25 + 0.75 * note.probability;
        let color = if note.muted { Color::rgb(0x8b929d) } else { velocity_color(note.velocity) };
        let faint = color.with_opacity(opacity);
        let look = if note.muted {
            Look::line(self.sketch.stroke(faint, 1.0))
        } else {
            Look::fill(faint).outlined(self.sketch.stroke(Color::rgb(0x101216), 0.6))
        };
        self.sketch.rectangle(rect, 1.5, look);
        let foot = self.bottom() + LANE - 6.0;
        let top = foot - (note.velocity / 127.0).clamp(0.0, 1.0) * (LANE - 18.0);
        self.line((x + 1.0, foot), (x + 1.0, top), color, 2.0);
        self.sketch.ellipse(Rect::new(x - 1.4, top - 2.4, 4.8, 4.8), Look::fill(faint));
    }
}
