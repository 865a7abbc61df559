//! Collects the shapes of a drawing and converts document coordinates to picture pixels.

use super::{Color, Look, Pen, Point, Rect, Shape, Stroke};

/// The smallest text that is drawn, in pixels of the picture.
const SMALLEST_TEXT: f64 = 5.0;

/// An unfinished drawing. All lengths in calls are in the document's units.
pub(super) struct Sketch {
    pub shapes: Vec<Shape>,
    /// Pixels per unit of the document.
    pub scale: f64,
    /// The point of the document at the picture's top left corner.
    pub origin: Point,
    /// Number of texts that were left out because they would be too small to read.
    pub omitted: usize,
}

impl Sketch {
    pub fn new(scale: f64, origin: Point) -> Sketch {
        Sketch { shapes: Vec::new(), scale, origin, omitted: 0 }
    }

    fn point(&self, (x, y): (f64, f64)) -> Point {
        Point::new((x - self.origin.x) * self.scale, (y - self.origin.y) * self.scale)
    }

    fn area(&self, rect: Rect) -> Rect {
        let corner = self.point((rect.x, rect.y));
        Rect::new(corner.x, corner.y, rect.w * self.scale, rect.h * self.scale)
    }

    pub fn stroke(&self, color: Color, width: f64) -> Stroke {
        Stroke { color, width: (width * self.scale).max(0.4), dash: 0.0 }
    }

    pub fn dashed(&self, color: Color, width: f64) -> Stroke {
        Stroke { dash: 4.0 * self.scale, ..self.stroke(color, width) }
    }

    pub fn rectangle(&mut self, rect: Rect, radius: f64, look: Look) {
        self.shapes.push(Shape::Rectangle { rect: self.area(rect), radius: radius * self.scale, look });
    }

    pub fn ellipse(&mut self, rect: Rect, look: Look) {
        self.shapes.push(Shape::Ellipse { rect: self.area(rect), look });
    }

    pub fn polygon(&mut self, points: &[(f64, f64)], look: Look) {
        self.points(points, true, look);
    }

    pub fn lines(&mut self, points: &[(f64, f64)], stroke: Stroke) {
        self.points(points, false, Look::line(stroke));
    }

    fn points(&mut self, points: &[(f64, f64)], closed: bool, look: Look) {
        let points = points.iter().map(|point| self.point(*point)).collect();
        self.shapes.push(Shape::Polyline { points, closed, look });
    }

    /// Draws one line of text with its base line at a point.
    pub fn text(&mut self, at: (f64, f64), pen: Pen, text: &str) {
        if text.trim().is_empty() {
            return;
        }
        if pen.size * self.scale < SMALLEST_TEXT {
            self.omitted += 1;
            return;
        }
        let pen = Pen { size: pen.size * self.scale, ..pen };
        self.shapes.push(Shape::Text { at: self.point(at), pen, text: text.to_owned() });
    }

    pub fn clip_start(&mut self, rect: Rect) {
        self.shapes.push(Shape::ClipStart(self.area(rect)));
    }

    pub fn clip_end(&mut self) {
        self.shapes.push(Shape::ClipEnd);
    }

    /// Fades all shapes from index `first`.
    pub fn fade_from(&mut self, first: usize) {
        self.shapes.iter_mut().skip(first).for_each(Shape::fade);
    }
}
