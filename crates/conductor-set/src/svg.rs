//! Drawings: a clip as a piano roll, a Set as a session grid. Plain SVG: no scripts, no references,
//! text escaped, and the same document always gives the same bytes. Not here: pixels.

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
    pub drawing: Drawing,
}

/// A picture as plain shapes, from back to front.
#[derive(Debug, Clone, PartialEq)]
pub struct Drawing {
    /// In pixels.
    pub width: u32,
    /// In pixels.
    pub height: u32,
    /// Behind everything.
    pub background: Rgba,
    /// What is on it.
    pub shapes: Vec<Shape>,
}

/// Red, green, blue and opacity.
pub type Rgba = [u8; 4];

/// A line's colour and width.
pub type Stroke = (Rgba, f64);

/// Which end of a text its place means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Anchor {
    Start,
    Middle,
    End,
}

impl Anchor {
    fn as_str(self) -> &'static str {
        match self {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        }
    }
}

/// One shape. Lengths are pixels.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Shape {
    /// `area` is left, top, width, height.
    Rectangle {
        area: [f64; 4],
        radius: f64,
        fill: Option<Rgba>,
        stroke: Option<Stroke>,
    },
    Line {
        from: [f64; 2],
        to: [f64; 2],
        stroke: Stroke,
    },
    Polygon {
        points: Vec<[f64; 2]>,
        fill: Rgba,
    },
    Circle {
        centre: [f64; 2],
        radius: f64,
        fill: Rgba,
    },
    Text {
        at: [f64; 2],
        size: f64,
        text: String,
        fill: Rgba,
        anchor: Anchor,
    },
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
    anchor: Anchor,
}

/// How a shape is filled and outlined.
#[derive(Clone, Copy, Default)]
struct Look {
    fill: Option<Rgba>,
    stroke: Option<Stroke>,
    radius: f64,
}

/// `#rrggbb`, with an opacity.
fn rgba(hex: &str, opacity: f64) -> Rgba {
    let rgb = u32::from_str_radix(hex.trim_start_matches('#'), 16).unwrap_or(0);
    let [_, r, g, b] = rgb.to_be_bytes();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 255")]
    let alpha = (opacity.clamp(0.0, 1.0) * 255.0).round() as u8;
    [r, g, b, alpha]
}

impl Look {
    fn of(fill: &str) -> Look {
        Look { fill: Some(rgba(fill, 1.0)), ..Look::default() }
    }

    fn opacity(mut self, opacity: f64) -> Look {
        if let Some(fill) = &mut self.fill {
            fill[3] = rgba("", opacity)[3];
        }
        self
    }

    fn stroke(self, color: &str, width: f64) -> Look {
        Look { stroke: Some((rgba(color, 1.0), width)), ..self }
    }

    fn stroke_opacity(mut self, opacity: f64) -> Look {
        if let Some((color, _)) = &mut self.stroke {
            color[3] = rgba("", opacity)[3];
        }
        self
    }

    fn radius(self, radius: f64) -> Look {
        Look { radius, ..self }
    }
}

/// A drawing in the making.
struct Canvas {
    shapes: Vec<Shape>,
}

impl Canvas {
    fn new() -> Canvas {
        Canvas { shapes: Vec::new() }
    }

    fn rect(&mut self, x: f64, y: f64, w: f64, h: f64, look: Look) {
        let Look { fill, stroke, radius } = look;
        self.shapes.push(Shape::Rectangle { area: [x, y, w.max(0.0), h.max(0.0)], radius, fill, stroke });
    }

    fn line(&mut self, x1: f64, y1: f64, x2: f64, y2: f64, stroke: &str, width: f64) {
        self.shapes.push(Shape::Line { from: [x1, y1], to: [x2, y2], stroke: (rgba(stroke, 1.0), width) });
    }

    fn polygon(&mut self, points: &[(f64, f64)], fill: &str) {
        let points = points.iter().map(|(x, y)| [*x, *y]).collect();
        self.shapes.push(Shape::Polygon { points, fill: rgba(fill, 1.0) });
    }

    fn circle(&mut self, x: f64, y: f64, radius: f64, look: Look) {
        self.shapes.push(Shape::Circle { centre: [x, y], radius, fill: look.fill.unwrap_or_default() });
    }

    /// Text that fits into `room` pixels, shortened with an ellipsis when it must be.
    fn text(&mut self, (x, y): (f64, f64), pen: Pen<'_>, room: f64, text: &str) {
        let text = shorten(text, pen.size, room);
        if !text.is_empty() {
            let fill = rgba(pen.fill, 1.0);
            self.shapes.push(Shape::Text { at: [x, y], size: pen.size, text, fill, anchor: pen.anchor });
        }
    }

    fn finish(self, width: u32, height: u32) -> Drawing {
        Drawing { width, height, background: rgba(BACKGROUND, 1.0), shapes: self.shapes }
    }
}

/// Colour and opacity as attributes of this name; opacity only where there is less than all of it.
fn paint(out: &mut String, name: &str, color: Option<Rgba>) {
    let Some([r, g, b, alpha]) = color else {
        let _ = write!(out, " {name}=\"none\"");
        return;
    };
    let _ = write!(out, " {name}=\"#{r:02x}{g:02x}{b:02x}\"");
    if alpha < 255 {
        let _ = write!(out, " {name}-opacity=\"{}\"", c(f64::from(alpha) / 255.0));
    }
}

impl Drawing {
    /// The drawing as SVG.
    pub fn svg(&self) -> String {
        let (width, height) = (self.width, self.height);
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
             font-family=\"DejaVu Sans, Helvetica, Arial, sans-serif\">\n<rect width=\"{width}\" height=\"{height}\""
        );
        paint(&mut out, "fill", Some(self.background));
        out.push_str("/>\n");
        for shape in &self.shapes {
            shape.write(&mut out);
        }
        out.push_str("</svg>\n");
        out
    }
}

impl Shape {
    fn write(&self, out: &mut String) {
        match self {
            Shape::Rectangle { area: [x, y, w, h], radius, fill, stroke } => {
                let _ = write!(out, "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"", c(*x), c(*y), c(*w), c(*h));
                paint(out, "fill", *fill);
                if let Some((color, width)) = stroke {
                    paint(out, "stroke", Some(*color));
                    let _ = write!(out, " stroke-width=\"{}\"", c(*width));
                }
                if *radius > 0.0 {
                    let _ = write!(out, " rx=\"{}\"", c(*radius));
                }
                out.push_str("/>\n");
            }
            Shape::Line { from: [x1, y1], to: [x2, y2], stroke: (color, width) } => {
                let _ = write!(out, "<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"", c(*x1), c(*y1), c(*x2), c(*y2));
                paint(out, "stroke", Some(*color));
                let _ = writeln!(out, " stroke-width=\"{}\"/>", c(*width));
            }
            Shape::Polygon { points, fill } => {
                let points: Vec<String> = points.iter().map(|[x, y]| format!("{},{}", c(*x), c(*y))).collect();
                let _ = write!(out, "<polygon points=\"{}\"", points.join(" "));
                paint(out, "fill", Some(*fill));
                out.push_str("/>\n");
            }
            Shape::Circle { centre: [x, y], radius, fill } => {
                let _ = write!(out, "<circle cx=\"{}\" cy=\"{}\" r=\"{}\"", c(*x), c(*y), c(*radius));
                paint(out, "fill", Some(*fill));
                out.push_str("/>\n");
            }
            Shape::Text { at: [x, y], size, text, fill, anchor } => {
                let _ = write!(out, "<text x=\"{}\" y=\"{}\" font-size=\"{}\"", c(*x), c(*y), c(*size));
                paint(out, "fill", Some(*fill));
                let _ = writeln!(out, " text-anchor=\"{}\">{}</text>", anchor.as_str(), visible(text));
            }
        }
    }
}

/// Escaped, and without the control characters that XML forbids even when escaped.
fn visible(text: &str) -> String {
    let clean: String =
        text.chars().map(|ch| if ch < ' ' || matches!(ch, '\u{fffe}' | '\u{ffff}') { ' ' } else { ch }).collect();
    escape(&clean, false)
}

fn shorten(text: &str, size: f64, room: f64) -> String {
    // The mean advance of the sans-serif faces named above, for one unit of size; wide scripts take
    // about twice that.
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
