//! The session grid of a Set: tracks as columns, scenes as rows.

use super::{Anchor, Canvas, DIM_TEXT, Drawing, LINE, Look, PANEL, Pen, STRONG_LINE, TEXT, hex, ink};
use crate::clip::{Clip, in_slot};
use crate::device::device_name;
use crate::document::Document;
use crate::facts;
use crate::path::TrackPart;
use crate::track::{Track, TrackKind};
use crate::xml::number;

const TITLE: f64 = 40.0;
const HEAD: f64 = 30.0;
const ROW: f64 = 24.0;
const MIXER: f64 = 74.0;
const SCENES: f64 = 120.0;
const MARGIN: f64 = 12.0;
const GAP: f64 = 4.0;
// Narrower columns cannot show a name.
const NARROWEST: f64 = 88.0;
const WIDEST: f64 = 200.0;

fn head(canvas: &mut Canvas, x: f64, w: f64, name: &str, color: u32, kind: &str) {
    canvas.rect(x, TITLE, w, HEAD - GAP, Look::of(&hex(color)).radius(3.0));
    canvas.text((x + 6.0, TITLE + 17.0), Pen { size: 11.0, fill: ink(color), anchor: Anchor::Start }, w - 44.0, name);
    canvas.text((x + w - 6.0, TITLE + 17.0), Pen { size: 8.0, fill: ink(color), anchor: Anchor::End }, 36.0, kind);
}

fn cell(canvas: &mut Canvas, x: f64, y: f64, w: f64, clip: Option<Clip<'_>>) {
    let Some(clip) = clip else {
        canvas.rect(x, y, w, ROW - GAP, Look::of(PANEL).radius(2.0));
        canvas.rect(x + 7.0, y + 7.0, 6.0, 6.0, Look::of("#4a505b"));
        return;
    };
    let info = clip.info();
    let opacity = if info.muted { 0.35 } else { 1.0 };
    canvas.rect(x, y, w, ROW - GAP, Look::of(&hex(info.color)).opacity(opacity).radius(2.0));
    let ink = if info.muted { TEXT } else { ink(info.color) };
    canvas.polygon(&[(x + 7.0, y + 5.0), (x + 14.0, y + 10.0), (x + 7.0, y + 15.0)], ink);
    let fallback = if info.is_midi { "(MIDI clip)" } else { "(audio clip)" };
    canvas.text(
        (x + 19.0, y + 14.0),
        Pen { size: 10.0, fill: ink, anchor: Anchor::Start },
        w - 54.0,
        if info.name.is_empty() { fallback } else { &info.name },
    );
    canvas.text(
        (x + w - 5.0, y + 14.0),
        Pen { size: 8.0, fill: ink, anchor: Anchor::End },
        30.0,
        &number((info.duration * 100.0).round() / 100.0),
    );
}

fn mixer(canvas: &mut Canvas, x: f64, y: f64, w: f64, track: Track<'_>) {
    canvas.rect(x, y, w, MIXER, Look::of(PANEL).radius(3.0));
    let params = track.chain().mixer_params();
    for (n, param) in params.iter().take(2).enumerate() {
        let at = if n == 0 { (x + 6.0, Anchor::Start) } else { (x + w - 6.0, Anchor::End) };
        canvas.text((at.0, y + 15.0), Pen { size: 10.0, fill: TEXT, anchor: at.1 }, w / 2.0, &param.info().display);
    }
    let switches = [("M", track.mute(), "#ff8a3d"), ("S", track.solo(), "#4aa3ff"), ("R", track.arm(), "#ff4d4d")];
    // A group has no recorder to arm.
    let shown = if track.kind == TrackKind::Group { 2 } else { 3 };
    for (n, (letter, on, color)) in (0_u8..).zip(switches).take(shown) {
        let left = x + 6.0 + f64::from(n) * 20.0;
        canvas.rect(left, y + 22.0, 16.0, 14.0, Look::of(if on { color } else { "#3a3f48" }).radius(2.0));
        canvas.text(
            (left + 8.0, y + 32.5),
            Pen { size: 9.0, fill: if on { "#16181c" } else { DIM_TEXT }, anchor: Anchor::Middle },
            16.0,
            letter,
        );
    }
    let devices = track.chain().devices();
    for (n, device) in (0_u8..).zip(devices.iter().take(2)) {
        canvas.text(
            (x + 6.0, y + 50.0 + f64::from(n) * 12.0),
            Pen { size: 9.0, fill: DIM_TEXT, anchor: Anchor::Start },
            w - 34.0,
            &device_name(*device),
        );
    }
    if devices.len() > 2 {
        canvas.text(
            (x + w - 6.0, y + 62.0),
            Pen { size: 9.0, fill: DIM_TEXT, anchor: Anchor::End },
            30.0,
            &format!("+{}", devices.len() - 2),
        );
    }
    let arranged = track.arrangement().len();
    if arranged > 0 {
        canvas.text(
            (x + w - 6.0, y + 33.0),
            Pen { size: 9.0, fill: DIM_TEXT, anchor: Anchor::End },
            w - 76.0,
            &format!("{arranged} arr."),
        );
    }
}

impl Document {
    /// Draws the session grid: at most `width` pixels wide, or wider when the tracks need it.
    pub fn draw_session(&self, width: u32) -> Drawing {
        let overview = self.overview();
        let tracks: Vec<Track<'_>> = self.tracks().collect();
        let scenes = self.scenes().scenes;
        #[expect(clippy::cast_precision_loss, reason = "counts of tracks and scenes are small")]
        let (columns, rows) = (tracks.len().max(1) as f64, scenes.len() as f64);
        let room = f64::from(width) - 2.0 * MARGIN - SCENES;
        let column = (room / columns).clamp(NARROWEST, WIDEST).floor();
        // The title needs some room even above a single track.
        let total = (2.0 * MARGIN + SCENES + column * columns).max(420.0);
        let mixer_top = TITLE + HEAD + rows * ROW + 6.0;

        let mut canvas = Canvas::new();
        let show = |v: Option<String>| v.unwrap_or_else(|| "?".into());
        let title = format!(
            "{} BPM · {} · {} tracks · {} scenes · {}",
            show(overview.tempo.map(|t| number((t * 100.0).round() / 100.0))),
            show(overview.time_signature),
            overview.track_count,
            overview.scene_count,
            self.schema().creator
        );
        canvas.text(
            (MARGIN, 24.0),
            Pen { size: 13.0, fill: TEXT, anchor: Anchor::Start },
            total - 2.0 * MARGIN,
            &title,
        );
        let mut x = MARGIN;
        for track in &tracks {
            let w = column - GAP;
            let word = match track.kind {
                TrackKind::Midi => "MIDI",
                TrackKind::Audio => "audio",
                TrackKind::Group => "group",
            };
            head(&mut canvas, x, w, &track.name(), facts::color(track.color_index()), word);
            let slots = track.slots();
            let mut y = TITLE + HEAD;
            for n in 0..scenes.len() {
                if track.kind == TrackKind::Group {
                    canvas.rect(x, y, w, ROW - GAP, Look::default().stroke(LINE, 1.0).radius(2.0));
                } else {
                    let number = u32::try_from(n).unwrap_or(u32::MAX);
                    let clip = slots.get(n).and_then(|s| in_slot(*s));
                    let clip = clip.map(|el| Clip { el, track: *track, path: track.on(TrackPart::SlotClip(number)) });
                    cell(&mut canvas, x, y, w, clip);
                }
                y += ROW;
            }
            mixer(&mut canvas, x, mixer_top, w, *track);
            x += column;
        }
        canvas.line(x, TITLE, x, mixer_top + MIXER, STRONG_LINE, 1.0);
        canvas.text(
            (x + 8.0, TITLE + 17.0),
            Pen { size: 11.0, fill: DIM_TEXT, anchor: Anchor::Start },
            SCENES,
            "Scenes",
        );
        let mut y = TITLE + HEAD;
        for (n, scene) in scenes.iter().enumerate() {
            let name = if scene.name.is_empty() { (n + 1).to_string() } else { scene.name.clone() };
            let tempo = scene.tempo.map(|t| format!(" · {} BPM", number(t))).unwrap_or_default();
            canvas.text(
                (x + 8.0, y + 14.0),
                Pen { size: 10.0, fill: if scene.is_empty { DIM_TEXT } else { TEXT }, anchor: Anchor::Start },
                SCENES - 16.0,
                &format!("{name}{tempo}"),
            );
            y += ROW;
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "sizes are positive and far below the limit"
        )]
        let (width, height) = (total as u32, (mixer_top + MIXER + MARGIN) as u32);
        canvas.finish(width, height)
    }
}
