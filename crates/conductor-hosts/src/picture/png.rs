//! Converts a picture to PNG in pure Rust with embedded fonts. It needs no system library and no
//! system fonts.

use ab_glyph::{Font as _, FontRef, GlyphId, OutlineCurve, Point as GlyphPoint};
use std::sync::OnceLock;
use tiny_skia::{FillRule, Mask, Paint, Path, PathBuilder, Pixmap, Stroke, StrokeDash, Transform};

use super::{Anchor, Color, Font, Look, Pen, Picture, Point, Rect, Shape};

/// Why a picture could not be converted to PNG.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PaintError {
    #[error("a picture of {0} by {1} pixels cannot be painted")]
    Size(u32, u32),
    #[error("the picture cannot be written: {0}")]
    Write(String),
}

impl Picture {
    /// The picture as a PNG file.
    pub fn to_png(&self) -> Result<Vec<u8>, PaintError> {
        paint(self)?.encode_png().map_err(|fault| PaintError::Write(fault.to_string()))
    }
}

fn paint(picture: &Picture) -> Result<Pixmap, PaintError> {
    let size = PaintError::Size(picture.width, picture.height);
    let mut pixels = Pixmap::new(picture.width, picture.height).ok_or(size)?;
    pixels.fill(color(picture.background));
    let mut canvas = Canvas { pixels, font: picture.font, clips: Vec::new() };
    for shape in &picture.shapes {
        canvas.draw(shape);
    }
    Ok(canvas.pixels)
}

struct Canvas {
    pixels: Pixmap,
    font: Font,
    /// The active clipping areas, the innermost last. `None` hides everything.
    clips: Vec<Option<Mask>>,
}

impl Canvas {
    fn draw(&mut self, shape: &Shape) {
        match shape {
            Shape::Rectangle { rect, radius, look } => self.path(rectangle(rect, *radius), *look),
            Shape::Ellipse { rect, look } => self.path(area(rect).and_then(PathBuilder::from_oval), *look),
            Shape::Polyline { points, closed, look } => self.path(polyline(points, *closed), *look),
            Shape::Text { at, pen, text } => {
                let path = face(self.font, pen.bold).and_then(|face| letters(face, *at, *pen, text));
                self.path(path, Look::fill(pen.color));
            }
            Shape::ClipStart(rect) => self.clips.push(self.clip(rect)),
            Shape::ClipEnd => {
                self.clips.pop();
            }
        }
    }

    fn clip(&self, rect: &Rect) -> Option<Mask> {
        let path = PathBuilder::from_rect(area(rect)?);
        match self.clips.last() {
            Some(outer) => {
                let mut mask = outer.clone()?;
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

    fn path(&mut self, path: Option<Path>, look: Look) {
        let Some(path) = path else { return };
        let mask = match self.clips.last() {
            Some(None) => return,
            Some(Some(mask)) => Some(mask),
            None => None,
        };
        if let Some(fill) = look.fill {
            self.pixels.fill_path(&path, &ink(fill), FillRule::Winding, Transform::identity(), mask);
        }
        if let Some(line) = look.stroke {
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

fn color(Color(r, g, b, a): Color) -> tiny_skia::Color {
    tiny_skia::Color::from_rgba8(r, g, b, a)
}

fn ink(fill: Color) -> Paint<'static> {
    let mut paint = Paint::default();
    paint.set_color(color(fill));
    paint
}

/// Limits a coordinate to the range of the painter (`tiny_skia`), because a patch may contain boxes
/// far outside that range.
fn near(value: f64) -> Option<f32> {
    value.is_finite().then(|| value.clamp(-1e5, 1e5) as f32)
}

fn area(rect: &Rect) -> Option<tiny_skia::Rect> {
    // The painter refuses empty rectangles, but a box without a width must be drawn too.
    tiny_skia::Rect::from_xywh(near(rect.x)?, near(rect.y)?, near(rect.w.max(0.01))?, near(rect.h.max(0.01))?)
}

fn rectangle(rect: &Rect, radius: f64) -> Option<Path> {
    let outer = area(rect)?;
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

fn polyline(points: &[Point], closed: bool) -> Option<Path> {
    let (first, rest) = points.split_first()?;
    let mut path = PathBuilder::new();
    path.move_to(near(first.x)?, near(first.y)?);
    for point in rest {
        path.line_to(near(point.x)?, near(point.y)?);
    }
    if closed {
        path.close();
    }
    path.finish()
}

fn face(font: Font, bold: bool) -> Option<&'static FontRef<'static>> {
    static FACES: OnceLock<[Option<FontRef<'static>>; 3]> = OnceLock::new();
    let [sans, heavy, mono] = FACES.get_or_init(|| {
        let files: [&'static [u8]; 3] = [
            include_bytes!("fonts/sans-regular.ttf"),
            include_bytes!("fonts/sans-bold.ttf"),
            include_bytes!("fonts/mono-regular.ttf"),
        ];
        files.map(|file| FontRef::try_from_slice(file).ok())
    });
    let face = match (font, bold) {
        (Font::Mono, _) => mono,
        (Font::Arial | Font::DejaVu, true) => heavy,
        (Font::Arial | Font::DejaVu, false) => sans,
    };
    face.as_ref()
}

/// Converts one line of text to one path. A character that is missing in the font is drawn as a
/// small box.
fn letters(font: &FontRef<'_>, at: Point, pen: Pen, text: &str) -> Option<Path> {
    let scale = near(pen.size)? / font.units_per_em()?;
    let advance = |letter: char| font.h_advance_unscaled(font.glyph_id(letter)) * scale;
    let width: f32 = text.chars().map(advance).sum();
    let before = match pen.anchor {
        Anchor::Start => 0.0,
        Anchor::Middle => 0.5,
        Anchor::End => 1.0,
    };
    let mut x = near(at.x)? - width * before;
    let y = near(at.y)?;
    let mut path = PathBuilder::new();
    for letter in text.chars() {
        let glyph = font.glyph_id(letter);
        if glyph == GlyphId(0) && !letter.is_whitespace() {
            let side = advance(letter).max(1.0) * 0.8;
            if let Some(hollow) = tiny_skia::Rect::from_xywh(x, y - side, side, side) {
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
        // The curves do not mark where a contour starts. A new contour starts where a curve does
        // not begin at the end of the previous curve.
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

#[cfg(test)]
mod tests {
    use super::*;

    const WHITE: Color = Color::WHITE;
    const RED: Color = Color::rgb(0xff0000);

    fn picture(shapes: Vec<Shape>) -> Picture {
        Picture { width: 40, height: 30, background: WHITE, font: Font::Arial, shapes }
    }

    fn painted(shapes: Vec<Shape>) -> Pixmap {
        paint(&picture(shapes)).unwrap()
    }

    fn red(rect: Rect) -> Shape {
        Shape::Rectangle { rect, radius: 0.0, look: Look::fill(RED) }
    }

    fn at(pixels: &Pixmap, x: u32, y: u32) -> Color {
        let pixel = pixels.pixel(x, y).unwrap().demultiply();
        Color(pixel.red(), pixel.green(), pixel.blue(), pixel.alpha())
    }

    fn inked(pixels: &Pixmap) -> usize {
        pixels.pixels().iter().filter(|it| it.red() != 255 || it.green() != 255 || it.blue() != 255).count()
    }

    fn word(text: &str) -> Shape {
        Shape::Text { at: Point::new(2.0, 20.0), pen: Pen::new(12.0, Color::BLACK), text: text.into() }
    }

    #[test]
    fn shapes_are_where_they_are_said_to_be() {
        let rect = Rect::new(10.0, 10.0, 10.0, 10.0);
        let pixels = painted(vec![red(rect)]);
        assert_eq!([at(&pixels, 15, 15), at(&pixels, 5, 15), at(&pixels, 25, 15)], [RED, WHITE, WHITE]);
        let round = painted(vec![Shape::Ellipse { rect, look: Look::fill(RED) }]);
        assert_eq!([at(&round, 15, 15), at(&round, 10, 10)], [RED, WHITE]);
    }

    #[test]
    fn a_clip_holds_until_its_end() {
        let all = || red(Rect::new(0.0, 0.0, 40.0, 30.0));
        let pixels = painted(vec![Shape::ClipStart(Rect::new(0.0, 0.0, 10.0, 30.0)), all(), Shape::ClipEnd]);
        assert_eq!([at(&pixels, 5, 5), at(&pixels, 15, 5)], [RED, WHITE]);
        let ended = painted(vec![Shape::ClipStart(Rect::new(0.0, 0.0, 1.0, 1.0)), Shape::ClipEnd, all()]);
        assert_eq!(inked(&ended), 1200);
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
            let stroke = crate::picture::Stroke { color: RED, width: bad, dash: bad };
            let look = Look::fill(RED).outlined(stroke);
            let rect = Rect::new(bad, bad, bad, bad);
            let points = vec![Point::new(bad, 0.0), Point::new(0.0, bad)];
            let pixels = painted(vec![
                Shape::Rectangle { rect, radius: bad, look },
                Shape::Polyline { points, closed: true, look },
                Shape::ClipStart(rect),
                word("hidden"),
                Shape::ClipEnd,
            ]);
            assert_eq!(pixels.width(), 40);
        }
        let none = Picture { width: 0, height: 5, ..picture(Vec::new()) };
        assert_eq!(none.to_png(), Err(PaintError::Size(0, 5)));
    }
}
