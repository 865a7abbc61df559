//! Converts a picture to SVG. The SVG contains no scripts and refers to no other files, and text is
//! escaped.

use std::fmt::Write;

use super::{Anchor, Color, Font, Look, Picture, Rect, Shape};

impl Picture {
    /// The picture as an SVG document.
    pub fn to_svg(&self) -> String {
        let mut out = String::with_capacity(self.shapes.len() * 120 + 400);
        let (w, h) = (self.width, self.height);
        let family = match self.font {
            Font::Arial => "Arial, Liberation Sans, sans-serif",
            Font::Mono => "DejaVu Sans Mono, monospace",
            Font::DejaVu => "DejaVu Sans, Helvetica, Arial, sans-serif",
        };
        // Writing to a string cannot fail.
        let _ = writeln!(
            out,
            r#"<svg xmlns="http://www.w3.org/2000/svg" width="{w}" height="{h}" viewBox="0 0 {w} {h}" font-family="{family}">"#
        );
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
        Shape::Rectangle { rect, radius, look } => {
            let rounded = if *radius > 0.0 { format!(r#" rx="{}""#, number(*radius)) } else { String::new() };
            writeln!(out, "<rect{}{rounded}{}/>", area(rect), style(look))
        }
        Shape::Ellipse { rect, look } => {
            let (rx, ry) = (rect.w / 2.0, rect.h / 2.0);
            let [cx, cy, rx, ry] = [rect.x + rx, rect.y + ry, rx, ry].map(number);
            writeln!(out, r#"<ellipse cx="{cx}" cy="{cy}" rx="{rx}" ry="{ry}"{}/>"#, style(look))
        }
        Shape::Polyline { points, closed, look } => {
            let points: Vec<String> = points.iter().map(|it| format!("{},{}", number(it.x), number(it.y))).collect();
            let tag = if *closed { "polygon" } else { "polyline" };
            writeln!(out, r#"<{tag} points="{}"{}/>"#, points.join(" "), style(look))
        }
        Shape::Text { at, pen, text } => {
            let anchor = match pen.anchor {
                Anchor::Start => "",
                Anchor::Middle => r#" text-anchor="middle""#,
                Anchor::End => r#" text-anchor="end""#,
            };
            let weight = if pen.bold { r#" font-weight="bold""# } else { "" };
            let [x, y, size] = [at.x, at.y, pen.size].map(number);
            let (fill, text) = (paint("fill", pen.color), escape(text));
            writeln!(
                out,
                r#"<text x="{x}" y="{y}" font-size="{size}"{anchor}{weight}{fill} xml:space="preserve">{text}</text>"#
            )
        }
        Shape::ClipStart(rect) => {
            *clips += 1;
            let area = area(rect);
            writeln!(out, r#"<clipPath id="clip{clips}"><rect{area}/></clipPath><g clip-path="url(#clip{clips})">"#)
        }
        Shape::ClipEnd => writeln!(out, "</g>"),
    };
}

fn area(rect: &Rect) -> String {
    let [x, y, w, h] = [rect.x, rect.y, rect.w.max(0.0), rect.h.max(0.0)].map(number);
    format!(r#" x="{x}" y="{y}" width="{w}" height="{h}""#)
}

fn style(look: &Look) -> String {
    let mut out = look.fill.map_or_else(|| r#" fill="none""#.to_owned(), |color| paint("fill", color));
    if let Some(stroke) = look.stroke {
        out.push_str(&paint("stroke", stroke.color));
        let _ = write!(out, r#" stroke-width="{}""#, number(stroke.width));
        if stroke.dash > 0.0 {
            let _ = write!(out, r#" stroke-dasharray="{}""#, number(stroke.dash));
        }
    }
    out
}

fn paint(attribute: &str, Color(r, g, b, a): Color) -> String {
    let opacity =
        if a < 255 { format!(r#" {attribute}-opacity="{}""#, number(f64::from(a) / 255.0)) } else { String::new() };
    format!(r##" {attribute}="#{r:02x}{g:02x}{b:02x}"{opacity}"##)
}

/// Formats a number with two decimals and without trailing zeros, so that the text is short and the
/// same on every machine.
pub(super) fn number(value: f64) -> String {
    if !value.is_finite() {
        return "0".to_owned();
    }
    let text = format!("{value:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

/// Escapes a text and replaces the control characters that XML forbids.
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
