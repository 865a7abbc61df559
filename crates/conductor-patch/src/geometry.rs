//! Points and rectangles in pixels. y increases downwards.

/// A point.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Point {
    /// Distance from the left edge.
    pub x: f64,
    /// Distance from the top edge.
    pub y: f64,
}

/// A rectangle.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rect {
    /// Left edge.
    pub x: f64,
    /// Top edge.
    pub y: f64,
    /// Width.
    pub w: f64,
    /// Height.
    pub h: f64,
}

impl Point {
    /// A point from its coordinates.
    pub fn new(x: f64, y: f64) -> Point {
        Point { x, y }
    }
}

impl Rect {
    /// A rectangle from its corner and size.
    pub fn new(x: f64, y: f64, w: f64, h: f64) -> Rect {
        Rect { x, y, w, h }
    }

    /// Right edge.
    pub fn right(&self) -> f64 {
        self.x + self.w
    }

    /// Bottom edge.
    pub fn bottom(&self) -> f64 {
        self.y + self.h
    }

    /// The rectangle as `[x, y, w, h]`.
    pub fn array(&self) -> [f64; 4] {
        [self.x, self.y, self.w, self.h]
    }

    /// The overlap of two rectangles on each axis; a negative value is the gap between them.
    pub fn penetration(&self, other: &Rect) -> (f64, f64) {
        (self.right().min(other.right()) - self.x.max(other.x), self.bottom().min(other.bottom()) - self.y.max(other.y))
    }

    /// Whether two rectangles overlap; touching edges do not count.
    pub fn overlaps(&self, other: &Rect) -> bool {
        let (x, y) = self.penetration(other);
        x > 0.0 && y > 0.0
    }

    /// The rectangle enlarged by `margin` on every side.
    pub fn grown(&self, margin: f64) -> Rect {
        Rect::new(self.x - margin, self.y - margin, self.w + 2.0 * margin, self.h + 2.0 * margin)
    }

    /// The smallest rectangle that contains both rectangles.
    pub fn union(&self, other: &Rect) -> Rect {
        let (x, y) = (self.x.min(other.x), self.y.min(other.y));
        Rect::new(x, y, self.right().max(other.right()) - x, self.bottom().max(other.bottom()) - y)
    }
}
