//! Paints a picture of plain shapes as PNG, in pure Rust and with letters of its own: the same
//! picture gives the same bytes everywhere.
//!
//! Not here: what a picture shows. A document crate says that in shapes of its own; a `From` turns
//! them into these.

use ab_glyph::{Font, FontRef, GlyphId, OutlineCurve, Point as GlyphPoint};
use std::sync::OnceLock;
use tiny_skia::{Color, FillRule, Mask, Paint, PathBuilder, Pixmap, Rect, Stroke, StrokeDash, Transform};

/// Red, green, blue and opacity.
pub type Rgba = [u8; 4];

/// Left, top, width and height.
pub type Area = [f64; 4];

#[derive(Clone, Copy, Debug)]
pub struct Line {
    pub color: Rgba,
    pub width: f64,
    /// Length of dashes and gaps; 0 is a whole line.
    pub dash: f64,
}

/// Which end of a text its place means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    Start,
    Middle,
    End,
}

#[derive(Clone, Debug)]
pub enum Shape {
    Rectangle { area: Area, radius: f64, fill: Option<Rgba>, line: Option<Line> },
    Polyline { points: Vec<[f64; 2]>, closed: bool, fill: Option<Rgba>, line: Option<Line> },
    Ellipse { area: Area, fill: Option<Rgba>, line: Option<Line> },
    Text { at: [f64; 2], size: f64, text: String, color: Rgba, anchor: Anchor, bold: bool, monospace: bool },
    ClipStart(Area),
    ClipEnd,
}

#[derive(Clone, Debug)]
pub struct Picture {
    pub width: u32,
    pub height: u32,
    pub background: Rgba,
    /// From back to front.
    pub shapes: Vec<Shape>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PaintError {
    #[error("a picture of {0} by {1} pixels cannot be painted")]
    Size(u32, u32),
    #[error("the picture cannot be written: {0}")]
    Write(String),
}

/// The picture as a PNG file.
pub fn png(picture: &Picture) -> Result<Vec<u8>, PaintError> {
    paint(picture)?.encode_png().map_err(|fault| PaintError::Write(fault.to_string()))
}

fn paint(picture: &Picture) -> Result<Pixmap, PaintError> {
    let size = PaintError::Size(picture.width, picture.height);
    let mut pixels = Pixmap::new(picture.width, picture.height).ok_or(size)?;
    pixels.fill(color(picture.background));
    let mut canvas = Canvas { pixels, clips: Vec::new() };
    for shape in &picture.shapes {
        canvas.draw(shape);
    }
    Ok(canvas.pixels)
}

struct Canvas {
    pixels: Pixmap,
    /// The innermost last; none means that nothing of it can be seen.
    clips: Vec<Option<Mask>>,
}

impl Canvas {
    fn draw(&mut self, shape: &Shape) {
        match shape {
            Shape::Rectangle { area, radius, fill, line } => self.path(rectangle(area, *radius), *fill, *line),
            Shape::Ellipse { area, fill, line } => {
                self.path(rect(area).and_then(PathBuilder::from_oval), *fill, *line);
            }
            Shape::Polyline { points, closed, fill, line } => self.path(polyline(points, *closed), *fill, *line),
            Shape::Text { at, size, text, color, anchor, bold, monospace } => {
                let face = face(*bold, *monospace);
                self.path(letters(face, *at, *size, text, *anchor), Some(*color), None);
            }
            Shape::ClipStart(area) => {
                let inner = self.clip(area);
                self.clips.push(inner);
            }
            Shape::ClipEnd => {
                self.clips.pop();
            }
        }
    }

    fn clip(&self, area: &Area) -> Option<Mask> {
        let path = PathBuilder::from_rect(rect(area)?);
        match self.clips.last() {
            Some(None) => None,
            Some(Some(outer)) => {
                let mut mask = outer.clone();
                mask.intersect_path(&path, FillRule::Winding, true, Transform::identity());
                Some(mask)
            }
            None => {
                let mut mask = Mask::new(self.pixels.width(), self.pixels.height())?;
                mask.fill_path(&path, FillRule::Winding, true, Transform::identity());
                Some(mask)
            }
        }
    }

    fn path(&mut self, path: Option<tiny_skia::Path>, fill: Option<Rgba>, line: Option<Line>) {
        let Some(path) = path else { return };
        let mask = match self.clips.last() {
            Some(None) => return,
            Some(Some(mask)) => Some(mask),
            None => None,
        };
        if let Some(fill) = fill {
            self.pixels.fill_path(&path, &ink(fill), FillRule::Winding, Transform::identity(), mask);
        }
        if let Some(line) = line {
            let dash = line.dash.clamp(0.0, 1e4) as f32;
            let stroke = Stroke {
                width: line.width.clamp(0.1, 1e4) as f32,
                dash: (dash > 0.0).then(|| StrokeDash::new(vec![dash, dash], 0.0)).flatten(),
                ..Stroke::default()
            };
            self.pixels.stroke_path(&path, &ink(line.color), &stroke, Transform::identity(), mask);
        }
    }
}

fn color([r, g, b, a]: Rgba) -> Color {
    Color::from_rgba8(r, g, b, a)
}

fn ink(rgba: Rgba) -> Paint<'static> {
    let mut paint = Paint::default();
    paint.set_color(color(rgba));
    paint
}

/// Pixels far outside carry nothing, and the painter's own numbers end long before a patch's do.
fn near(value: f64) -> Option<f32> {
    value.is_finite().then(|| value.clamp(-1e5, 1e5) as f32)
}

fn rect([x, y, w, h]: &Area) -> Option<Rect> {
    // A line of no width is still a box that somebody placed.
    Rect::from_xywh(near(*x)?, near(*y)?, near(w.max(0.01))?, near(h.max(0.01))?)
}

fn rectangle(area: &Area, radius: f64) -> Option<tiny_skia::Path> {
    let outer = rect(area)?;
    let radius = near(radius)?.min(outer.width() / 2.0).min(outer.height() / 2.0);
    if radius <= 0.0 {
        return Some(PathBuilder::from_rect(outer));
    }
    let (l, t, r, b) = (outer.left(), outer.top(), outer.right(), outer.bottom());
    let mut path = PathBuilder::new();
    path.move_to(l + radius, t);
    path.line_to(r - radius, t);
    path.quad_to(r, t, r, t + radius);
    path.line_to(r, b - radius);
    path.quad_to(r, b, r - radius, b);
    path.line_to(l + radius, b);
    path.quad_to(l, b, l, b - radius);
    path.line_to(l, t + radius);
    path.quad_to(l, t, l + radius, t);
    path.close();
    path.finish()
}

fn polyline(points: &[[f64; 2]], closed: bool) -> Option<tiny_skia::Path> {
    let (first, rest) = points.split_first()?;
    let mut path = PathBuilder::new();
    path.move_to(near(first[0])?, near(first[1])?);
    for [x, y] in rest {
        path.line_to(near(*x)?, near(*y)?);
    }
    if closed {
        path.close();
    }
    path.finish()
}

/// The letters a picture is written in.
struct Face {
    font: Option<FontRef<'static>>,
}

fn face(bold: bool, monospace: bool) -> &'static Face {
    static FACES: OnceLock<[Face; 3]> = OnceLock::new();
    let [sans, heavy, mono] = FACES.get_or_init(|| {
        let files: [&'static [u8]; 3] = [
            include_bytes!("paint/sans-regular.ttf"),
            include_bytes!("paint/sans-bold.ttf"),
            include_bytes!("paint/mono-regular.ttf"),
        ];
        files.map(|file| Face { font: FontRef::try_from_slice(file).ok() })
    });
    match (monospace, bold) {
        (true, _) => mono,
        (false, true) => heavy,
        (false, false) => sans,
    }
}

/// One line of text as one path. A character without a letter is drawn as a small box, so that it
/// is seen to be there.
fn letters(face: &Face, at: [f64; 2], size: f64, text: &str, anchor: Anchor) -> Option<tiny_skia::Path> {
    let font = face.font.as_ref()?;
    let scale = near(size)? / font.units_per_em()?;
    let advance = |letter: char| font.h_advance_unscaled(font.glyph_id(letter)) * scale;
    let width: f32 = text.chars().map(advance).sum();
    let share = match anchor {
        Anchor::Start => 0.0,
        Anchor::Middle => 0.5,
        Anchor::End => 1.0,
    };
    let mut x = near(at[0])? - width * share;
    let y = near(at[1])?;
    let mut path = PathBuilder::new();
    for letter in text.chars() {
        let glyph = font.glyph_id(letter);
        if glyph == GlyphId(0) && !letter.is_whitespace() {
            let side = advance(letter).max(1.0) * 0.8;
            if let Some(hollow) = Rect::from_xywh(x, y - side, side, side) {
                path.push_rect(hollow);
            }
        } else if let Some(outline) = font.outline(glyph) {
            outline_into(&mut path, &outline.curves, |point| (x + point.x * scale, y - point.y * scale));
        }
        x += advance(letter);
    }
    path.finish()
}

fn outline_into(path: &mut PathBuilder, curves: &[OutlineCurve], place: impl Fn(&GlyphPoint) -> (f32, f32)) {
    let mut last: Option<GlyphPoint> = None;
    for curve in curves {
        let (from, to) = match curve {
            OutlineCurve::Line(from, to) | OutlineCurve::Quad(from, _, to) | OutlineCurve::Cubic(from, _, _, to) => {
                (from, to)
            }
        };
        // Contours follow each other without a mark: a new one starts where the last did not end.
        if last.as_ref() != Some(from) {
            if last.is_some() {
                path.close();
            }
            let (x, y) = place(from);
            path.move_to(x, y);
        }
        let (x, y) = place(to);
        match curve {
            OutlineCurve::Line(..) => path.line_to(x, y),
            OutlineCurve::Quad(_, bend, _) => {
                let (bx, by) = place(bend);
                path.quad_to(bx, by, x, y);
            }
            OutlineCurve::Cubic(_, a, b, _) => {
                let ((ax, ay), (bx, by)) = (place(a), place(b));
                path.cubic_to(ax, ay, bx, by, x, y);
            }
        }
        last = Some(*to);
    }
    if last.is_some() {
        path.close();
    }
}

impl From<&conductor_patch::render::Picture> for Picture {
    fn from(picture: &conductor_patch::render::Picture) -> Self {
        use conductor_patch::render::{self, Color, Shape as Drawn, Stroke};
        let rgba = |Color(r, g, b, a): Color| [r, g, b, a];
        let line = |stroke: Stroke| Line { color: rgba(stroke.color), width: stroke.width, dash: stroke.dash };
        let shape = |drawn: &Drawn| match drawn {
            Drawn::Rectangle { rect, radius, fill, stroke } => {
                Shape::Rectangle { area: rect.array(), radius: *radius, fill: fill.map(rgba), line: stroke.map(line) }
            }
            Drawn::Polyline { points, closed, fill, stroke } => Shape::Polyline {
                points: points.iter().map(|it| [it.x, it.y]).collect(),
                closed: *closed,
                fill: fill.map(rgba),
                line: stroke.map(line),
            },
            Drawn::Ellipse { rect, fill, stroke } => {
                Shape::Ellipse { area: rect.array(), fill: fill.map(rgba), line: stroke.map(line) }
            }
            Drawn::Text { at, size, text, color, anchor, bold, monospace } => Shape::Text {
                at: [at.x, at.y],
                size: *size,
                text: text.clone(),
                color: rgba(*color),
                anchor: if *anchor == render::Anchor::Middle { Anchor::Middle } else { Anchor::Start },
                bold: *bold,
                monospace: *monospace,
            },
            Drawn::ClipStart(rect) => Shape::ClipStart(rect.array()),
            Drawn::ClipEnd => Shape::ClipEnd,
        };
        Picture {
            width: picture.width,
            height: picture.height,
            background: rgba(picture.background),
            shapes: picture.shapes.iter().map(shape).collect(),
        }
    }
}

impl From<&conductor_set::Drawing> for Picture {
    fn from(drawing: &conductor_set::Drawing) -> Self {
        use conductor_set::{Anchor as Set, Shape as Drawn};
        let line = |(color, width): conductor_set::Stroke| Line { color, width, dash: 0.0 };
        let shape = |drawn: &Drawn| match drawn {
            Drawn::Rectangle { area, radius, fill, stroke } => {
                Shape::Rectangle { area: *area, radius: *radius, fill: *fill, line: stroke.map(line) }
            }
            Drawn::Line { from, to, stroke } => {
                Shape::Polyline { points: vec![*from, *to], closed: false, fill: None, line: Some(line(*stroke)) }
            }
            Drawn::Polygon { points, fill } => {
                Shape::Polyline { points: points.clone(), closed: true, fill: Some(*fill), line: None }
            }
            Drawn::Circle { centre: [x, y], radius, fill } => {
                let area = [x - radius, y - radius, radius * 2.0, radius * 2.0];
                Shape::Ellipse { area, fill: Some(*fill), line: None }
            }
            Drawn::Text { at, size, text, fill, anchor } => Shape::Text {
                at: *at,
                size: *size,
                text: text.clone(),
                color: *fill,
                anchor: match anchor {
                    Set::Start => Anchor::Start,
                    Set::Middle => Anchor::Middle,
                    Set::End => Anchor::End,
                },
                bold: false,
                monospace: false,
            },
        };
        Picture {
            width: drawing.width,
            height: drawing.height,
            background: drawing.background,
            shapes: drawing.shapes.iter().map(shape).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHITE: Rgba = [255; 4];
    const RED: Rgba = [255, 0, 0, 255];

    fn painted(shapes: Vec<Shape>) -> Pixmap {
        paint(&Picture { width: 40, height: 30, background: WHITE, shapes }).unwrap()
    }

    fn at(pixels: &Pixmap, x: u32, y: u32) -> Rgba {
        let pixel = pixels.pixel(x, y).unwrap().demultiply();
        [pixel.red(), pixel.green(), pixel.blue(), pixel.alpha()]
    }

    fn inked(pixels: &Pixmap) -> usize {
        pixels.pixels().iter().filter(|it| it.red() != 255 || it.green() != 255 || it.blue() != 255).count()
    }

    fn word(text: &str) -> Shape {
        Shape::Text {
            at: [2.0, 20.0],
            size: 12.0,
            text: text.into(),
            color: [0, 0, 0, 255],
            anchor: Anchor::Start,
            bold: false,
            monospace: false,
        }
    }

    #[test]
    fn shapes_are_where_they_are_said_to_be() {
        let area = [10.0, 10.0, 10.0, 10.0];
        let pixels = painted(vec![Shape::Rectangle { area, radius: 0.0, fill: Some(RED), line: None }]);
        assert_eq!([at(&pixels, 15, 15), at(&pixels, 5, 15), at(&pixels, 25, 15)], [RED, WHITE, WHITE]);
        let round = painted(vec![Shape::Ellipse { area, fill: Some(RED), line: None }]);
        assert_eq!([at(&round, 15, 15), at(&round, 10, 10)], [RED, WHITE]);
    }

    #[test]
    fn a_clip_holds_until_its_end() {
        let all = || Shape::Rectangle { area: [0.0, 0.0, 40.0, 30.0], radius: 0.0, fill: Some(RED), line: None };
        let pixels = painted(vec![Shape::ClipStart([0.0, 0.0, 10.0, 30.0]), all(), Shape::ClipEnd]);
        assert_eq!([at(&pixels, 5, 5), at(&pixels, 15, 5)], [RED, WHITE]);
        assert_eq!(inked(&painted(vec![Shape::ClipStart([0.0, 0.0, 1.0, 1.0]), Shape::ClipEnd, all()])), 1200);
    }

    #[test]
    fn letters_leave_ink_and_unknown_ones_too() {
        let (short, long) = (inked(&painted(vec![word("i")])), inked(&painted(vec![word("cycle~")])));
        assert!(short > 0 && long > short * 2, "{short} {long}");
        assert!(inked(&painted(vec![word("音")])) > 0);
        assert_eq!(inked(&painted(vec![word("   ")])), 0);
    }

    #[test]
    fn numbers_no_painter_can_hold_draw_nothing_and_break_nothing() {
        for bad in [f64::NAN, f64::INFINITY, 1e300] {
            let line = Some(Line { color: RED, width: bad, dash: bad });
            let pixels = painted(vec![
                Shape::Rectangle { area: [bad, bad, bad, bad], radius: bad, fill: Some(RED), line },
                Shape::Polyline { points: vec![[bad, 0.0], [0.0, bad]], closed: true, fill: Some(RED), line },
                Shape::ClipStart([bad; 4]),
                word("hidden"),
                Shape::ClipEnd,
            ]);
            assert_eq!(pixels.width(), 40);
        }
        let none = Picture { width: 0, height: 5, background: WHITE, shapes: Vec::new() };
        assert_eq!(png(&none), Err(PaintError::Size(0, 5)));
    }
}
