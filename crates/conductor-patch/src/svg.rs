//! Printing a picture as SVG.

use std::fmt::Write;

use crate::geometry::Rect;
use crate::render::{Anchor, Color, Picture, Shape, Stroke};

impl Picture {
    /// The picture as an SVG document. The same picture gives the same text.
    pub fn to_svg(&self) -> String {
        let mut out = String::with_capacity(self.shapes.len() * 120 + 400);
        let (w, h) = (self.width, self.height);
        // Writing to a string cannot fail.
        let _ =
            writeln!(out, r#"<svg xmlns="http://www.w3.org/2000/svg" width="{w}" height="{h}" viewBox="0 0 {w} {h}">"#);
        let _ = writeln!(out, r#"<rect width="{w}" height="{h}"{}/>"#, paint("fill", self.background));
        let mut clips = 0;
        for shape in &self.shapes {
            print(shape, &mut clips, &mut out);
        }
        out.push_str("</svg>\n");
        out
    }
}

fn print(shape: &Shape, clips: &mut usize, out: &mut String) {
    let _ = match shape {
        Shape::Rectangle { rect, radius, fill, stroke } => {
            let rounded = if *radius > 0.0 { format!(r#" rx="{}""#, number(*radius)) } else { String::new() };
            writeln!(out, r#"<rect{}{rounded}{}/>"#, area(rect), look(fill, stroke))
        }
        Shape::Ellipse { rect, fill, stroke } => {
            let (rx, ry) = (rect.w / 2.0, rect.h / 2.0);
            writeln!(
                out,
                r#"<ellipse cx="{}" cy="{}" rx="{}" ry="{}"{}/>"#,
                number(rect.x + rx),
                number(rect.y + ry),
                number(rx),
                number(ry),
                look(fill, stroke)
            )
        }
        Shape::Polyline { points, closed, fill, stroke } => {
            let places: Vec<String> =
                points.iter().map(|point| format!("{},{}", number(point.x), number(point.y))).collect();
            let tag = if *closed { "polygon" } else { "polyline" };
            writeln!(out, r#"<{tag} points="{}"{}/>"#, places.join(" "), look(fill, stroke))
        }
        Shape::Text { at, size, text, color, anchor, bold, monospace } => {
            let family = if *monospace { "DejaVu Sans Mono, monospace" } else { "Arial, Liberation Sans, sans-serif" };
            let anchor = match anchor {
                Anchor::Start => "",
                Anchor::Middle => r#" text-anchor="middle""#,
            };
            let weight = if *bold { r#" font-weight="bold""# } else { "" };
            let (x, y, size) = (number(at.x), number(at.y), number(*size));
            writeln!(
                out,
                r#"<text x="{x}" y="{y}" font-family="{family}" font-size="{size}"{anchor}{weight}{} xml:space="preserve">{}</text>"#,
                paint("fill", *color),
                escape(text)
            )
        }
        Shape::ClipStart(rect) => {
            *clips += 1;
            writeln!(
                out,
                r#"<clipPath id="clip{clips}"><rect{}/></clipPath><g clip-path="url(#clip{clips})">"#,
                area(rect)
            )
        }
        Shape::ClipEnd => writeln!(out, "</g>"),
    };
}

fn area(rect: &Rect) -> String {
    format!(
        r#" x="{}" y="{}" width="{}" height="{}""#,
        number(rect.x),
        number(rect.y),
        number(rect.w.max(0.0)),
        number(rect.h.max(0.0))
    )
}

fn look(fill: &Option<Color>, stroke: &Option<Stroke>) -> String {
    let mut out = fill.map_or_else(|| r#" fill="none""#.to_owned(), |color| paint("fill", color));
    if let Some(stroke) = stroke {
        out.push_str(&paint("stroke", stroke.color));
        let _ = write!(out, r#" stroke-width="{}""#, number(stroke.width));
        if stroke.dash > 0.0 {
            let _ = write!(out, r#" stroke-dasharray="{}""#, number(stroke.dash));
        }
    }
    out
}

fn paint(what: &str, color: Color) -> String {
    let Color(r, g, b, a) = color;
    let opacity =
        if a < 255 { format!(r#" {what}-opacity="{}""#, number(f64::from(a) / 255.0)) } else { String::new() };
    format!(r##" {what}="#{r:02x}{g:02x}{b:02x}"{opacity}"##)
}

/// Two decimals, without trailing zeros: the same picture prints the same on every machine.
fn number(value: f64) -> String {
    if !value.is_finite() {
        return "0".to_owned();
    }
    let text = format!("{value:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            control if control.is_control() || matches!(control, '\u{fffe}' | '\u{ffff}') => out.push(' '),
            other => out.push(other),
        }
    }
    out
}
