//! Draws the session grid of a Live Set: tracks as columns, scenes as rows, mixers below.

use super::sketch::Sketch;
use super::{Anchor, Color, Font, Look, Pen, Picture, Point, Rect};
use conductor_set::{ClipInfo, Document, SessionTrack, TrackKind};

pub(super) const BACKGROUND: Color = Color::rgb(0x1b1d21);
pub(super) const PANEL: Color = Color::rgb(0x24272d);
pub(super) const LINE: Color = Color::rgb(0x343840);
pub(super) const STRONG_LINE: Color = Color::rgb(0x4a505b);
pub(super) const TEXT: Color = Color::rgb(0xe6e8eb);
pub(super) const DIM_TEXT: Color = Color::rgb(0x9aa1ac);
const DARK_TEXT: Color = Color::rgb(0x16181c);

const TITLE: f64 = 40.0;
const HEAD: f64 = 30.0;
const ROW: f64 = 24.0;
const MIXER: f64 = 74.0;
const SCENES: f64 = 120.0;
const MARGIN: f64 = 12.0;
const GAP: f64 = 4.0;
/// Minimum width of a column, so that it can show a name.
const NARROWEST: f64 = 88.0;
const WIDEST: f64 = 200.0;

/// Draws the session grid. It is at most `width` pixels wide, unless the tracks or the title need
/// more space.
pub fn draw(document: &Document, width: u32) -> Picture {
    let overview = document.overview();
    let tracks = document.session();
    let scenes = document.scenes().scenes;
    let (columns, rows) = (tracks.len().max(1) as f64, scenes.len() as f64);
    let column = ((f64::from(width) - 2.0 * MARGIN - SCENES) / columns).clamp(NARROWEST, WIDEST).floor();
    // The title needs space even above a single track.
    let total = (2.0 * MARGIN + SCENES + column * columns).max(420.0);
    let mixer_top = TITLE + HEAD + rows * ROW + 6.0;

    let mut sketch = Sketch::new(1.0, Point::default());
    let show = |v: Option<String>| v.unwrap_or_else(|| "?".into());
    let title = format!(
        "{} BPM · {} · {} tracks · {} scenes · {}",
        show(overview.tempo.map(|t| number((t * 100.0).round() / 100.0))),
        show(overview.time_signature),
        overview.track_count,
        overview.scene_count,
        document.schema().creator
    );
    text(&mut sketch, (MARGIN, 24.0), Pen::new(13.0, TEXT), total - 2.0 * MARGIN, &title);
    let mut x = MARGIN;
    for track in &tracks {
        let w = column - GAP;
        head(&mut sketch, x, w, track);
        for n in 0..scenes.len() {
            let rect = Rect::new(x, TITLE + HEAD + n as f64 * ROW, w, ROW - GAP);
            if track.kind == TrackKind::Group {
                sketch.rectangle(rect, 2.0, Look::line(sketch.stroke(LINE, 1.0)));
            } else {
                slot(&mut sketch, rect, track.clips.get(n).and_then(Option::as_ref));
            }
        }
        mixer(&mut sketch, Rect::new(x, mixer_top, w, MIXER), track);
        x += column;
    }
    sketch.lines(&[(x, TITLE), (x, mixer_top + MIXER)], sketch.stroke(STRONG_LINE, 1.0));
    text(&mut sketch, (x + 8.0, TITLE + 17.0), Pen::new(11.0, DIM_TEXT), SCENES, "Scenes");
    for (n, scene) in scenes.iter().enumerate() {
        let name = if scene.name.is_empty() { (n + 1).to_string() } else { scene.name.clone() };
        let tempo = scene.tempo.map(|t| format!(" · {} BPM", number(t))).unwrap_or_default();
        let pen = Pen::new(10.0, if scene.is_empty { DIM_TEXT } else { TEXT });
        let at = (x + 8.0, TITLE + HEAD + n as f64 * ROW + 14.0);
        text(&mut sketch, at, pen, SCENES - 16.0, &format!("{name}{tempo}"));
    }
    finish(sketch, total as u32, (mixer_top + MIXER + MARGIN) as u32)
}

fn head(sketch: &mut Sketch, x: f64, w: f64, track: &SessionTrack) {
    let kind = match track.kind {
        TrackKind::Midi => "MIDI",
        TrackKind::Audio => "audio",
        TrackKind::Group => "group",
    };
    sketch.rectangle(Rect::new(x, TITLE, w, HEAD - GAP), 3.0, Look::fill(Color::rgb(track.color)));
    let ink = ink_on(track.color);
    text(sketch, (x + 6.0, TITLE + 17.0), Pen::new(11.0, ink), w - 44.0, &track.name);
    text(sketch, (x + w - 6.0, TITLE + 17.0), Pen::new(8.0, ink).anchored(Anchor::End), 36.0, kind);
}

fn slot(sketch: &mut Sketch, rect: Rect, clip: Option<&ClipInfo>) {
    let (x, y, w) = (rect.x, rect.y, rect.w);
    let Some(clip) = clip else {
        sketch.rectangle(rect, 2.0, Look::fill(PANEL));
        sketch.rectangle(Rect::new(x + 7.0, y + 7.0, 6.0, 6.0), 0.0, Look::fill(STRONG_LINE));
        return;
    };
    let opacity = if clip.muted { 0.35 } else { 1.0 };
    sketch.rectangle(rect, 2.0, Look::fill(Color::rgb(clip.color).with_opacity(opacity)));
    let ink = if clip.muted { TEXT } else { ink_on(clip.color) };
    sketch.polygon(&[(x + 7.0, y + 5.0), (x + 14.0, y + 10.0), (x + 7.0, y + 15.0)], Look::fill(ink));
    let fallback = if clip.is_midi { "(MIDI clip)" } else { "(audio clip)" };
    let name = if clip.name.is_empty() { fallback } else { &clip.name };
    text(sketch, (x + 19.0, y + 14.0), Pen::new(10.0, ink), w - 54.0, name);
    let duration = number((clip.duration * 100.0).round() / 100.0);
    text(sketch, (x + w - 5.0, y + 14.0), Pen::new(8.0, ink).anchored(Anchor::End), 30.0, &duration);
}

fn mixer(sketch: &mut Sketch, rect: Rect, track: &SessionTrack) {
    let (x, y, w) = (rect.x, rect.y, rect.w);
    let (left, right) = (x + 6.0, x + w - 6.0);
    sketch.rectangle(rect, 3.0, Look::fill(PANEL));
    for (param, (at, anchor)) in track.mixer.iter().zip([(left, Anchor::Start), (right, Anchor::End)]) {
        text(sketch, (at, y + 15.0), Pen::new(10.0, TEXT).anchored(anchor), w / 2.0, &param.display);
    }
    let switches = [("M", track.mute, 0xff8a3d), ("S", track.solo, 0x4aa3ff), ("R", track.arm, 0xff4d4d)];
    // A group cannot be armed.
    let shown = if track.kind == TrackKind::Group { 2 } else { 3 };
    for (n, (letter, on, color)) in (0_u8..).zip(switches).take(shown) {
        let button = Rect::new(left + f64::from(n) * 20.0, y + 22.0, 16.0, 14.0);
        sketch.rectangle(button, 2.0, Look::fill(Color::rgb(if on { color } else { 0x3a3f48 })));
        let pen = Pen::new(9.0, if on { DARK_TEXT } else { DIM_TEXT }).anchored(Anchor::Middle);
        text(sketch, (button.x + 8.0, y + 32.5), pen, 16.0, letter);
    }
    let small = Pen::new(9.0, DIM_TEXT);
    for (n, device) in (0_u8..).zip(track.devices.iter().take(2)) {
        text(sketch, (left, y + 50.0 + f64::from(n) * 12.0), small, w - 34.0, device);
    }
    let small = small.anchored(Anchor::End);
    if let Some(more) = track.devices.len().checked_sub(3) {
        text(sketch, (right, y + 62.0), small, 30.0, &format!("+{}", more + 1));
    }
    if track.arrangement_clip_count > 0 {
        text(sketch, (right, y + 33.0), small, w - 76.0, &format!("{} arr.", track.arrangement_clip_count));
    }
}

/// The colour of a text, light or dark, that is easier to read on `rgb`.
fn ink_on(rgb: u32) -> Color {
    let Color(r, g, b, _) = Color::rgb(rgb);
    let light = 0.299 * f64::from(r) + 0.587 * f64::from(g) + 0.114 * f64::from(b);
    if light > 140.0 { DARK_TEXT } else { Color::rgb(0xf2f4f6) }
}

pub(super) fn finish(sketch: Sketch, width: u32, height: u32) -> Picture {
    Picture { width, height, background: BACKGROUND, font: Font::DejaVu, shapes: sketch.shapes }
}

/// Formats a number. Negative zero is printed as `0`.
pub(super) fn number(value: f64) -> String {
    (value + 0.0).to_string()
}

/// Draws a text, shortened with an ellipsis if it needs more than `room` pixels.
pub(super) fn text(sketch: &mut Sketch, at: (f64, f64), pen: Pen, room: f64, text: &str) {
    sketch.text(at, pen, &shorten(text, pen.size, room));
}

pub(super) fn shorten(text: &str, size: f64, room: f64) -> String {
    // The mean width of a sans-serif character; characters of wide scripts are about twice as wide.
    let advance = |ch: char| if (ch as u32) < 0x1100 { 0.6 } else { 1.05 } * size;
    let whole: f64 = text.chars().map(advance).sum();
    if whole <= room {
        return text.to_owned();
    }
    let mut out = String::new();
    let mut used = advance('…');
    for ch in text.chars() {
        used += advance(ch);
        if used > room {
            break;
        }
        out.push(ch);
    }
    if out.is_empty() { String::new() } else { format!("{}…", out.trim_end()) }
}
