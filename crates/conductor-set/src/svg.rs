//! Drawings: a clip as a piano roll, a Set as a session grid. Plain SVG: no scripts, no references, text escaped, and the same
//! document always gives the same bytes. Not here: pixels.

mod grid;
mod roll;

pub use roll::draw_roll;

use crate::xml::escape;
use serde::Serialize;
use std::fmt::Write as _;

/// A drawing of a clip, with what it shows.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClipDrawing {
    /// The clip.
    pub clip_id: crate::path::PathId,
    /// In pixels.
    pub width: u32,
    /// In pixels.
    pub height: u32,
    /// Lowest and highest pitch; absent when there are no notes.
    pub pitch_range: Option<[u8; 2]>,
    /// Notes drawn.
    pub count: usize,
    /// The drawing itself.
    #[serde(skip)]
    pub svg: String,
}

/// A drawing of a Set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drawing {
    /// In pixels.
    pub width: u32,
    /// In pixels.
    pub height: u32,
    /// The drawing itself.
    pub svg: String,
}

const BACKGROUND: &str = "#1b1d21";
const PANEL: &str = "#24272d";
const LINE: &str = "#343840";
const STRONG_LINE: &str = "#4a505b";
const TEXT: &str = "#e6e8eb";
const DIM_TEXT: &str = "#9aa1ac";

/// A coordinate with at most two decimals, so that drawings stay small and equal on every machine.
fn c(value: f64) -> String {
    let text = format!("{value:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".into() } else { text.into() }
}

/// How text is set.
#[derive(Clone, Copy)]
struct Pen<'a> {
    size: f64,
    fill: &'a str,
    anchor: &'a str,
}

/// An SVG in the making.
struct Canvas {
    body: String,
}

impl Canvas {
    fn new() -> Canvas {
        Canvas { body: String::new() }
    }

    fn rect(&mut self, x: f64, y: f64, w: f64, h: f64, rest: &str) {
        let _ = writeln!(
            self.body,
            "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" {rest}/>",
            c(x),
            c(y),
            c(w.max(0.0)),
            c(h.max(0.0))
        );
    }

    fn line(&mut self, x1: f64, y1: f64, x2: f64, y2: f64, stroke: &str, width: f64) {
        let _ = writeln!(
            self.body,
            "<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" stroke=\"{stroke}\" stroke-width=\"{}\"/>",
            c(x1),
            c(y1),
            c(x2),
            c(y2),
            c(width)
        );
    }

    fn polygon(&mut self, points: &[(f64, f64)], fill: &str) {
        let points: Vec<String> = points.iter().map(|(x, y)| format!("{},{}", c(*x), c(*y))).collect();
        let _ = writeln!(self.body, "<polygon points=\"{}\" fill=\"{fill}\"/>", points.join(" "));
    }

    /// Text that fits into `room` pixels, shortened with an ellipsis when it must be.
    fn text(&mut self, (x, y): (f64, f64), pen: Pen<'_>, room: f64, text: &str) {
        let Pen { size, fill, anchor } = pen;
        let shown = shorten(text, size, room);
        if !shown.is_empty() {
            let _ = writeln!(
                self.body,
                "<text x=\"{}\" y=\"{}\" font-size=\"{}\" fill=\"{fill}\" text-anchor=\"{anchor}\">{}</text>",
                c(x),
                c(y),
                c(size),
                visible(&shown)
            );
        }
    }

    fn finish(self, width: u32, height: u32) -> String {
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
             font-family=\"DejaVu Sans, Helvetica, Arial, sans-serif\">\n\
             <rect width=\"{width}\" height=\"{height}\" fill=\"{BACKGROUND}\"/>\n{}</svg>\n",
            self.body
        )
    }
}

/// Escaped, and without the control characters that XML forbids even when escaped.
fn visible(text: &str) -> String {
    let clean: String =
        text.chars().map(|ch| if ch < ' ' || matches!(ch, '\u{fffe}' | '\u{ffff}') { ' ' } else { ch }).collect();
    escape(&clean, false)
}

fn shorten(text: &str, size: f64, room: f64) -> String {
    // The mean advance of the sans-serif faces named above, for one unit of size; wide scripts take about twice that.
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

/// `#rrggbb`
fn hex(rgb: u32) -> String {
    format!("#{:06x}", rgb & 0xff_ffff)
}

/// Black or white, whichever is read more easily on `rgb`.
fn ink(rgb: u32) -> &'static str {
    let part = |shift: u32| f64::from((rgb >> shift) & 0xff);
    if 0.299 * part(16) + 0.587 * part(8) + 0.114 * part(0) > 140.0 { "#16181c" } else { "#f2f4f6" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_shortened_to_its_room() {
        assert_eq!(shorten("Drums", 10.0, 100.0), "Drums");
        assert_eq!(shorten("A very long name", 10.0, 40.0), "A ve…");
        assert_eq!(shorten("A very long name", 10.0, 5.0), "");
    }

    #[test]
    fn coordinates_are_short() {
        assert_eq!((c(1.0), c(0.126), c(-0.001)), ("1".into(), "0.13".into(), "0".into()));
    }
}
