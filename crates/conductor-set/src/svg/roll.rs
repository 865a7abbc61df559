//! The piano roll of one clip.

use super::{Anchor, Canvas, ClipDrawing, DIM_TEXT, LINE, Look, PANEL, Pen, STRONG_LINE, TEXT, hex};
use crate::clip::ClipInfo;
use crate::document::Document;
use crate::error::LiveError;
use crate::note::{Note, pitch_range};
use crate::path::PathId;
use crate::xml::number;

const KEYS: f64 = 52.0;
const HEAD: f64 = 56.0;
const LANE: f64 = 64.0;
const MARGIN: f64 = 12.0;

const NAMES: [&str; 12] = ["C", "C#", "D", "D#", "E", "F", "F#", "G", "G#", "A", "A#", "B"];

fn is_black(pitch: u8) -> bool {
    matches!(pitch % 12, 1 | 3 | 6 | 8 | 10)
}

/// Quiet is blue, middle is green, loud is orange.
fn by_velocity(velocity: f64) -> u32 {
    const STOPS: [[f64; 3]; 3] = [[74.0, 123.0, 216.0], [72.0, 181.0, 150.0], [255.0, 148.0, 48.0]];
    let place = (velocity / 127.0).clamp(0.0, 1.0) * 2.0;
    let (from, to, share) = if place < 1.0 { (STOPS[0], STOPS[1], place) } else { (STOPS[1], STOPS[2], place - 1.0) };
    from.iter().zip(to).fold(0, |rgb, (a, b)| {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "between two colour values, so 0 to 255"
        )]
        let part = (a + (b - a) * share).round() as u32;
        rgb << 8 | part
    })
}

struct Frame {
    width: f64,
    low: u8,
    high: u8,
    row: f64,
    from: f64,
    to: f64,
}

impl Frame {
    fn x(&self, beat: f64) -> f64 {
        KEYS + (beat - self.from) / (self.to - self.from) * (self.width - KEYS - MARGIN)
    }

    fn y(&self, pitch: u8) -> f64 {
        HEAD + f64::from(self.high - pitch.clamp(self.low, self.high)) * self.row
    }

    fn bottom(&self) -> f64 {
        self.y(self.low) + self.row
    }
}

/// Rows for the notes and a little air, at least an octave.
fn rows(range: Option<[u8; 2]>) -> (u8, u8) {
    let [low, high] = range.unwrap_or([60, 60]);
    let (mut low, mut high) = (low.saturating_sub(1), high.saturating_add(1).min(127));
    while high - low < 12 {
        low = low.saturating_sub(1);
        high = if high - low < 12 { high.saturating_add(1).min(127) } else { high };
    }
    (low, high)
}

fn keys(canvas: &mut Canvas, frame: &Frame) {
    let right = frame.width - MARGIN;
    for pitch in frame.low..=frame.high {
        let y = frame.y(pitch);
        canvas.rect(KEYS, y, right - KEYS, frame.row, Look::of(if is_black(pitch) { "#202329" } else { PANEL }));
        canvas.rect(
            0.0,
            y,
            KEYS - 4.0,
            frame.row,
            Look::of(if is_black(pitch) { "#14161a" } else { "#d9dce1" }).stroke(LINE, 0.5),
        );
        if pitch % 12 == 0 {
            canvas.line(KEYS, y + frame.row, right, y + frame.row, STRONG_LINE, 1.0);
            let size = (frame.row - 1.0).clamp(7.0, 10.0);
            // Live counts octaves so that 60 is C3.
            let label = format!("{}{}", NAMES[0], i16::from(pitch / 12) - 2);
            canvas.text(
                (KEYS - 8.0, y + frame.row - 1.5),
                Pen { size, fill: "#30343b", anchor: Anchor::End },
                KEYS,
                &label,
            );
        }
    }
}

fn beats(canvas: &mut Canvas, frame: &Frame, bar: f64) {
    let span = frame.to - frame.from;
    let room = (frame.width - KEYS - MARGIN) / span;
    // Lines at least 6 pixels apart: sixteenths when there is room, else beats, bars, and doubled
    // bars.
    let mut step = 0.25;
    while step * room < 6.0 {
        step = if step < 1.0 {
            step * 2.0
        } else if step < bar {
            bar
        } else {
            step * 2.0
        };
    }
    let mut label_step = bar;
    while label_step * room < 44.0 {
        label_step *= 2.0;
    }
    let bottom = frame.bottom() + LANE;
    let mut n = (frame.from / step).ceil();
    while n * step <= frame.to + 1e-9 {
        let beat = n * step;
        let is_bar = (beat / bar).fract().abs() < 1e-9;
        let is_beat = beat.fract().abs() < 1e-9;
        let (stroke, width) = if is_bar {
            ("#5b626e", 1.2)
        } else if is_beat {
            (STRONG_LINE, 0.7)
        } else {
            (LINE, 0.5)
        };
        canvas.line(frame.x(beat), HEAD, frame.x(beat), bottom, stroke, width);
        n += 1.0;
    }
    let mut n = (frame.from / label_step).ceil();
    while n * label_step < frame.to - 1e-9 {
        let beat = n * label_step;
        canvas.line(frame.x(beat), HEAD - 14.0, frame.x(beat), HEAD, STRONG_LINE, 1.0);
        canvas.text(
            (frame.x(beat) + 11.0, HEAD - 5.0),
            Pen { size: 10.0, fill: DIM_TEXT, anchor: Anchor::Start },
            60.0,
            &number(beat / bar + 1.0),
        );
        n += 1.0;
    }
}

fn markers(canvas: &mut Canvas, frame: &Frame, clip: &ClipInfo) {
    let bottom = frame.bottom() + LANE;
    let (from, to) = (frame.x(clip.loop_start), frame.x(clip.loop_end));
    let stroke = if clip.looping { "#ffd23f" } else { "#7c8490" };
    canvas.rect(from, HEAD - 22.0, to - from, 6.0, Look::of(stroke).radius(2.0));
    for x in [from, to] {
        canvas.line(x, HEAD - 22.0, x, bottom, stroke, 1.0);
    }
    let shade = Look::of("#000000").opacity(0.35);
    canvas.rect(KEYS, HEAD, from - KEYS, bottom - HEAD, shade);
    canvas.rect(to, HEAD, frame.width - MARGIN - to, bottom - HEAD, shade);
    let start = frame.x(clip.start_marker);
    canvas.polygon(&[(start, HEAD - 14.0), (start + 8.0, HEAD - 9.0), (start, HEAD - 4.0)], "#7ad67a");
}

fn note(canvas: &mut Canvas, frame: &Frame, note: &Note) {
    let (x, y) = (frame.x(note.start_time), frame.y(note.pitch));
    let w = (frame.x(note.end()) - x).max(2.0) - 0.5;
    let h = frame.row - 1.0;
    let color = hex(by_velocity(note.velocity));
    let opacity = 0.25 + 0.75 * note.probability;
    let look = if note.muted {
        Look::default().stroke("#8b929d", 1.0).stroke_opacity(opacity)
    } else {
        Look::of(&color).opacity(opacity).stroke("#101216", 0.6)
    };
    canvas.rect(x, y + 0.5, w, h, look.radius(1.5));
    let foot = frame.bottom() + LANE - 6.0;
    let top = foot - (note.velocity / 127.0).clamp(0.0, 1.0) * (LANE - 18.0);
    let lane = if note.muted { "#8b929d" } else { &color };
    canvas.line(x + 1.0, foot, x + 1.0, top, lane, 2.0);
    canvas.circle(x + 1.0, top, 2.4, Look::of(lane).opacity(opacity));
}

/// Draws a MIDI clip as a piano roll, 320 to 4096 pixels wide. `signature` is numerator and
/// denominator.
///
/// # Errors
/// A width out of range.
pub fn draw_roll(
    info: &ClipInfo,
    track: &str,
    notes: &[Note],
    signature: (u32, u32),
    width: u32,
) -> Result<ClipDrawing, LiveError> {
    if !(320..=4096).contains(&width) {
        return Err(LiveError::value("width", format!("must be 320 to 4096, not {width}")));
    }
    let range = pitch_range(notes);
    let (low, high) = rows(range);
    let row = (420.0 / f64::from(high - low + 1)).clamp(6.0, 16.0).floor();
    let end = notes.iter().map(Note::end).fold(info.loop_end.max(info.end_marker), f64::max);
    let from = info.loop_start.min(info.start_marker).min(0.0);
    let frame = Frame { width: f64::from(width), low, high, row, from, to: end.max(from + 1.0) };
    let bar = f64::from(signature.0.max(1)) * 4.0 / f64::from(signature.1.max(1));

    let mut canvas = Canvas::new();
    let title = if info.name.is_empty() { "(no name)" } else { &info.name };
    let right = frame.width - MARGIN;
    canvas.rect(MARGIN, 9.0, 12.0, 12.0, Look::of(&hex(info.color)).radius(2.0));
    canvas.text((MARGIN + 20.0, 20.0), Pen { size: 13.0, fill: TEXT, anchor: Anchor::Start }, right * 0.5, title);
    let facts = format!("{track} · {} · {} notes · {} beats", info.id, notes.len(), number(info.duration));
    canvas.text((right, 20.0), Pen { size: 11.0, fill: DIM_TEXT, anchor: Anchor::End }, right * 0.45, &facts);
    keys(&mut canvas, &frame);
    let lane_top = frame.bottom();
    canvas.rect(KEYS, lane_top, right - KEYS, LANE, Look::of("#1f2227"));
    canvas.line(KEYS, lane_top, right, lane_top, STRONG_LINE, 1.0);
    canvas.text((KEYS - 8.0, lane_top + 14.0), Pen { size: 9.0, fill: DIM_TEXT, anchor: Anchor::End }, KEYS, "vel");
    beats(&mut canvas, &frame, bar);
    markers(&mut canvas, &frame, info);
    notes.iter().for_each(|n| note(&mut canvas, &frame, n));
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most 128 rows of 16 pixels")]
    let height = (lane_top + LANE + MARGIN) as u32;
    let drawing = canvas.finish(width, height);
    Ok(ClipDrawing { clip_id: info.id, width, height, pitch_range: range, count: notes.len(), drawing })
}

impl Document {
    /// Draws a MIDI clip as a piano roll, 320 to 4096 pixels wide.
    ///
    /// # Errors
    /// Wrong kind of path; no such clip; an audio clip; a width out of range.
    pub fn draw_clip(&self, path: PathId, width: u32) -> Result<ClipDrawing, LiveError> {
        let clip = self.need_midi_clip(path)?;
        let signature = self.time_signature().unwrap_or((4, 4));
        draw_roll(&clip.info(), &clip.track.name(), &clip.notes(), signature, width)
    }
}
