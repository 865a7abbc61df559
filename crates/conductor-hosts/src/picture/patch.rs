//! Draws one canvas of a patch as Max or Pd shows it: boxes with text, nubs (the marks of inlets
//! and outlets), cords (signal cords are striped), coloured panels, and common user interface
//! objects. The contents of embedded bpatchers are drawn one level deep.

mod max;
mod pd;

use super::sketch::Sketch;
use super::{Color, Font, Look, Pen, Picture, Point, Rect};
use conductor_patch::{BoxId, BoxView, Value, View, layout, text_width};

/// Options of a drawing.
#[derive(Clone, Debug)]
pub struct Options {
    /// Draw the presentation mode instead of the patching mode.
    pub presentation: bool,
    /// Draw a locked patch, without hidden boxes and cords.
    pub locked: bool,
    /// The label on each box.
    pub labels: Labels,
    /// Boxes to mark.
    pub highlight: Vec<BoxId>,
    /// Longest side of the picture in pixels.
    pub max_size: u32,
}

impl Default for Options {
    fn default() -> Options {
        Options { presentation: false, locked: false, labels: Labels::None, highlight: Vec::new(), max_size: 1568 }
    }
}

/// Labels on boxes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Labels {
    None,
    /// The index of the box.
    Index,
    /// The scripting name of the box, or its key if it has no name.
    Varname,
}

/// A picture of a canvas.
#[derive(Clone, Debug)]
pub struct PatchPicture {
    pub picture: Picture,
    /// Pixels of the picture per pixel of the patch.
    pub scale: f64,
    /// Number of texts that were left out because they would be too small to read.
    pub omitted: usize,
}

/// Space around the patch.
const MARGIN: f64 = 20.0;
/// Maximum number of boxes or values that are drawn inside one box.
const MOST_INSIDE: usize = 500;

const GREY: Color = Color::rgb(0x6e6e6e);
const DARK: Color = Color::rgb(0x2d2d2d);
const SIGNAL: Color = Color::rgb(0xd6b21c);
const MARK: Color = Color::rgb(0xe04614);

pub fn draw(view: &View<'_>, options: &Options) -> PatchPicture {
    let is_pd = view.format().is_pd();
    let shown: Vec<(usize, BoxView<'_>)> =
        view.boxes().enumerate().filter(|(_, object)| is_shown(object, options)).collect();
    let frames = shown.iter().map(|(_, object)| frame_of(object, options.presentation));
    let cords = view.cords().filter(|_| !options.presentation);
    let points = cords.filter_map(|cord| layout::cord_points(&cord)).flatten();
    let bounds = frames
        .chain(points.map(|point| Rect::new(point.x, point.y, 0.0, 0.0)))
        .reduce(|bounds, rect| bounds.union(&rect))
        .unwrap_or(Rect::new(0.0, 0.0, 200.0, 100.0))
        .grown(MARGIN);
    let most = options.max_size.clamp(64, 4096);
    let scale = (f64::from(most) / bounds.w.max(bounds.h)).min(1.0);
    let side = |length: f64| ((length * scale).ceil() as u32).clamp(1, most);

    let paper = view.background().map(Color::of);
    let mut drawing = Drawing { sketch: Sketch::new(scale, Point::new(bounds.x, bounds.y)), is_pd, paper };
    // Max lists boxes front to back; Pd draws in file order.
    let mut order: Vec<&(usize, BoxView<'_>)> = shown.iter().collect();
    if !is_pd {
        order.reverse();
        order.sort_by_key(|(_, object)| !object.in_background());
    }
    for (_, object) in &order {
        drawing.body(object, frame_of(object, options.presentation), true);
    }
    if !options.presentation {
        drawing.cords(view, options);
        order.iter().for_each(|(_, object)| drawing.nubs(object));
    }
    for (index, object) in &order {
        let frame = frame_of(object, options.presentation);
        if options.highlight.contains(&object.id()) {
            let look = Look::line(drawing.sketch.stroke(MARK, 2.5));
            drawing.sketch.rectangle(frame.grown(3.0), 4.0, look);
        }
        match options.labels {
            Labels::None => {}
            Labels::Index => drawing.tag(frame, &index.to_string()),
            Labels::Varname => drawing.tag(frame, object.label()),
        }
    }
    let picture = Picture {
        width: side(bounds.w),
        height: side(bounds.h),
        background: paper.unwrap_or(if is_pd { Color::WHITE } else { Color::rgb(0xe8e8ea) }),
        font: if is_pd { Font::Mono } else { Font::Arial },
        shapes: drawing.sketch.shapes,
    };
    PatchPicture { picture, scale, omitted: drawing.sketch.omitted }
}

fn is_shown(object: &BoxView<'_>, options: &Options) -> bool {
    let placed = object.rect().w > 0.0;
    let in_view = !options.presentation || (object.in_presentation() && object.presentation_rect().is_some());
    placed && in_view && !(options.locked && object.hidden())
}

fn frame_of(object: &BoxView<'_>, presentation: bool) -> Rect {
    object.presentation_rect().filter(|_| presentation).unwrap_or(object.rect())
}

struct Drawing {
    sketch: Sketch,
    is_pd: bool,
    /// Background colour, if the patcher has one.
    paper: Option<Color>,
}

impl Drawing {
    /// Draws a box without its nubs. With `inside`, the contents of a bpatcher are drawn too.
    fn body(&mut self, object: &BoxView<'_>, frame: Rect, inside: bool) {
        let first = self.sketch.shapes.len();
        if self.is_pd {
            pd::body(&mut self.sketch, object, frame);
        } else {
            self.max_body(object, frame, inside);
        }
        if object.hidden() {
            self.sketch.fade_from(first);
        }
    }

    fn cords(&mut self, view: &View<'_>, options: &Options) {
        for cord in view.cords() {
            let Some(points) = layout::cord_points(&cord).filter(|_| !(options.locked && cord.hidden())) else {
                continue;
            };
            let points: Vec<(f64, f64)> = points.iter().map(|point| (point.x, point.y)).collect();
            let first = self.sketch.shapes.len();
            let (usual, width) = match (self.is_pd, cord.is_signal()) {
                (true, true) => (Color::BLACK, 2.2),
                (true, false) => (Color::BLACK, 1.0),
                (false, true) => (Color::rgb(0xf4d646), 2.0),
                (false, false) => (Color::rgb(0x5f5f5f), 1.4),
            };
            let color = cord.color().map_or(usual, Color::of);
            if cord.is_signal() && !self.is_pd {
                self.sketch.lines(&points, self.sketch.stroke(DARK, 2.6));
                self.sketch.lines(&points, self.sketch.dashed(color, width));
            } else {
                self.sketch.lines(&points, self.sketch.stroke(color, width));
            }
            if cord.hidden() {
                self.sketch.fade_from(first);
            }
        }
    }

    fn nubs(&mut self, object: &BoxView<'_>) {
        // Max shows the unused inlet of these classes only when the mouse is over the box.
        if matches!(object.maxclass(), "comment" | "panel") || object.class() == "cnv" {
            return;
        }
        let types = object.ports().outlet_types.unwrap_or_default();
        for outlet in [false, true] {
            for (n, place) in layout::nubs(object, outlet).into_iter().enumerate() {
                let signal = outlet && types.get(n).is_some_and(|kind| kind.contains("signal"));
                let (up, height, radius, color) = match (self.is_pd, outlet) {
                    (true, true) => (2.0, 2.0, 0.0, Color::BLACK),
                    (true, false) => (0.0, 2.0, 0.0, Color::BLACK),
                    (false, true) => (1.5, 2.5, 1.0, if signal { SIGNAL } else { DARK }),
                    (false, false) => (1.0, 2.5, 1.0, DARK),
                };
                let rect = Rect::new(place.x - 3.5, place.y - up, 7.0, height);
                self.sketch.rectangle(rect, radius, Look::fill(color));
            }
        }
    }

    /// Draws a small label at the corner of a box.
    fn tag(&mut self, frame: Rect, label: &str) {
        let pen = Pen::new(9.0, MARK).bold(true);
        let rect = Rect::new(frame.x - 2.0, frame.y - 8.0, text_width(label, pen.size) + 4.0, 10.0);
        let look = Look::fill(Color(255, 244, 196, 235)).outlined(self.sketch.stroke(MARK, 0.6));
        self.sketch.rectangle(rect, 2.0, look);
        self.sketch.text((rect.x + 2.0, rect.y + 8.0), pen, label);
    }
}

/// Converts fractions of a rectangle's width and height to points.
fn within(rect: Rect, fractions: &[(f64, f64)]) -> Vec<(f64, f64)> {
    fractions.iter().map(|(x, y)| (rect.x + rect.w * x, rect.y + rect.h * y)).collect()
}

/// Removes a margin from a rectangle. `fraction` is relative to its shorter side.
fn inset(rect: Rect, fraction: f64) -> Rect {
    let margin = rect.w.min(rect.h) * fraction;
    Rect::new(rect.x + margin, rect.y + margin, (rect.w - 2.0 * margin).max(0.0), (rect.h - 2.0 * margin).max(0.0))
}

/// A diagonal cross, as two lines.
const CROSS: [[(f64, f64); 2]; 2] = [[(0.0, 0.0), (1.0, 1.0)], [(1.0, 0.0), (0.0, 1.0)]];

/// The atoms of a value, each as text.
fn words(value: &Value) -> Vec<String> {
    value.atoms().iter().map(conductor_patch::Atom::in_content).collect()
}
