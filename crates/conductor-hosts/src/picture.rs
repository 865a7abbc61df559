//! The common model of all drawings: a list of plain shapes, which [`Picture::to_svg`] and
//! [`Picture::to_png`] convert to a file.
//!
//! [`patch`] draws patches, [`session`] draws the session grid of a Live Set, and [`piano_roll`]
//! draws one clip. Not here: reading documents; the drawings use the public views of
//! `conductor-patch` and `conductor-set`.

pub mod patch;
pub mod piano_roll;
mod png;
pub mod session;
mod sketch;
mod svg;

pub use conductor_patch::{Point, Rect};
pub use png::PaintError;

/// Shapes on a background. The same picture always results in the same SVG and PNG bytes, on every
/// machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Picture {
    /// In pixels.
    pub width: u32,
    /// In pixels.
    pub height: u32,
    pub background: Color,
    /// The typeface of all texts.
    pub font: Font,
    /// The shapes, from back to front.
    pub shapes: Vec<Shape>,
}

/// One shape, in pixels of the picture.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    Rectangle {
        rect: Rect,
        radius: f64,
        look: Look,
    },
    Ellipse {
        rect: Rect,
        look: Look,
    },
    Polyline {
        points: Vec<Point>,
        closed: bool,
        look: Look,
    },
    Text {
        at: Point,
        pen: Pen,
        text: String,
    },
    /// The shapes that follow are visible only inside this rectangle.
    ClipStart(Rect),
    /// Ends the last [`Shape::ClipStart`].
    ClipEnd,
}

/// How a shape is filled and outlined.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Look {
    pub fill: Option<Color>,
    pub stroke: Option<Stroke>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stroke {
    pub color: Color,
    /// In pixels.
    pub width: f64,
    /// Length of dashes and gaps in pixels; 0 is a solid line.
    pub dash: f64,
}

/// Size, colour, alignment and weight of a text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pen {
    /// Height of the font in pixels.
    pub size: f64,
    pub color: Color,
    pub anchor: Anchor,
    pub bold: bool,
}

/// The part of a text that is placed at the given point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    Start,
    Middle,
    End,
}

/// Typefaces. An SVG names fonts that a browser should use; a PNG uses the embedded fonts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Font {
    /// Max's font.
    Arial,
    /// Pd's font.
    Mono,
    /// The font of drawings of Live Sets.
    DejaVu,
}

/// Red, green, blue and opacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Color(pub u8, pub u8, pub u8, pub u8);

impl Color {
    pub const BLACK: Color = Color::rgb(0x000000);
    pub const WHITE: Color = Color::rgb(0xffffff);

    /// An opaque colour from `0xrrggbb`.
    pub const fn rgb(rgb: u32) -> Color {
        let [_, r, g, b] = rgb.to_be_bytes();
        Color(r, g, b, 255)
    }

    /// A colour from components of 0 to 1.
    pub fn of(parts: [f64; 4]) -> Color {
        let [r, g, b, a] = parts.map(|part| (part.clamp(0.0, 1.0) * 255.0).round() as u8);
        Color(r, g, b, a)
    }

    /// The same colour with an opacity of 0 to 1.
    pub fn with_opacity(self, opacity: f64) -> Color {
        Color(self.0, self.1, self.2, (opacity.clamp(0.0, 1.0) * 255.0).round() as u8)
    }

    fn faded(self) -> Color {
        Color(self.0, self.1, self.2, (u16::from(self.3) * 2 / 5) as u8)
    }
}

impl Look {
    pub fn fill(color: Color) -> Look {
        Look { fill: Some(color), stroke: None }
    }

    pub fn line(stroke: Stroke) -> Look {
        Look { fill: None, stroke: Some(stroke) }
    }

    pub fn outlined(self, stroke: Stroke) -> Look {
        Look { stroke: Some(stroke), ..self }
    }
}

impl Pen {
    pub fn new(size: f64, color: Color) -> Pen {
        Pen { size, color, anchor: Anchor::Start, bold: false }
    }

    pub fn anchored(self, anchor: Anchor) -> Pen {
        Pen { anchor, ..self }
    }

    pub fn bold(self, bold: bool) -> Pen {
        Pen { bold, ..self }
    }
}

impl Shape {
    /// Makes the shape mostly transparent, as Max shows hidden objects in an unlocked patch.
    fn fade(&mut self) {
        match self {
            Shape::Rectangle { look, .. } | Shape::Polyline { look, .. } | Shape::Ellipse { look, .. } => {
                look.fill = look.fill.map(Color::faded);
                look.stroke = look.stroke.map(|stroke| Stroke { color: stroke.color.faded(), ..stroke });
            }
            Shape::Text { pen, .. } => pen.color = pen.color.faded(),
            Shape::ClipStart(_) | Shape::ClipEnd => {}
        }
    }
}

#[cfg(test)]
mod tests;
