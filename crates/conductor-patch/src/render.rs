//! A picture of a canvas as plain shapes, which any painter can draw; [`Picture::to_svg`] prints
//! them.
//!
//! The picture shows what a person would recognise: boxes with their text, nubs, cords (signal
//! cords striped), panels in their colour, the common user interface objects, embedded bpatchers
//! one level deep. Not here: pixels and fonts.

use crate::document::{BoxId, BoxView, View};
use crate::font::text_width;
use crate::geometry::{Point, Rect};
use crate::{layout, pd};

/// Red, green, blue and opacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Color(pub u8, pub u8, pub u8, pub u8);

impl Color {
    const BLACK: Color = Color(0, 0, 0, 255);
    const WHITE: Color = Color(255, 255, 255, 255);

    fn of(parts: [f64; 4]) -> Color {
        let [r, g, b, a] = parts.map(|part| (part.clamp(0.0, 1.0) * 255.0).round() as u8);
        Color(r, g, b, a)
    }

    /// Black or white, whichever is read better on this colour.
    fn ink(self) -> Color {
        let light = u32::from(self.0) * 3 + u32::from(self.1) * 6 + u32::from(self.2);
        if light < 1100 && self.3 > 100 { Color(236, 236, 236, 255) } else { DARK }
    }

    fn faded(self) -> Color {
        Color(self.0, self.1, self.2, (u16::from(self.3) * 2 / 5) as u8)
    }
}

/// A line and how it is drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stroke {
    /// Its colour.
    pub color: Color,
    /// Its width in pixels.
    pub width: f64,
    /// Length of dashes and gaps; 0 is a whole line.
    pub dash: f64,
}

/// Where a text begins, as seen from its point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// At the point.
    Start,
    /// Around the point.
    Middle,
}

/// Something to draw, in pixels of the picture.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// A rectangle.
    Rectangle {
        /// Where.
        rect: Rect,
        /// Radius of its corners.
        radius: f64,
        /// Inside.
        fill: Option<Color>,
        /// Outline.
        stroke: Option<Stroke>,
    },
    /// Lines through points.
    Polyline {
        /// The points.
        points: Vec<Point>,
        /// Joins the last point to the first.
        closed: bool,
        /// Inside.
        fill: Option<Color>,
        /// Outline.
        stroke: Option<Stroke>,
    },
    /// An ellipse.
    Ellipse {
        /// The rectangle around it.
        rect: Rect,
        /// Inside.
        fill: Option<Color>,
        /// Outline.
        stroke: Option<Stroke>,
    },
    /// One line of text.
    Text {
        /// Its base line.
        at: Point,
        /// Height of the font.
        size: f64,
        /// The text.
        text: String,
        /// Its colour.
        color: Color,
        /// Where it begins.
        anchor: Anchor,
        /// Heavy letters.
        bold: bool,
        /// Letters of equal width.
        monospace: bool,
    },
    /// What follows is drawn inside this rectangle only.
    ClipStart(Rect),
    /// Ends the last [`Shape::ClipStart`].
    ClipEnd,
}

/// What to draw.
#[derive(Clone, Debug)]
pub struct Options {
    /// Presentation mode instead of the patch.
    pub presentation: bool,
    /// As a locked patch: what is hidden is left out.
    pub locked: bool,
    /// A label on each box.
    pub labels: Labels,
    /// Boxes to mark.
    pub highlight: Vec<BoxId>,
    /// The longer side of the picture is at most this.
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
    /// None.
    None,
    /// The index.
    Index,
    /// The name, else the key.
    Varname,
}

/// A drawn canvas.
#[derive(Clone, Debug)]
pub struct Picture {
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
    /// Pixels of the picture per pixel of the patch.
    pub scale: f64,
    /// Colour behind everything.
    pub background: Color,
    /// The shapes, from back to front.
    pub shapes: Vec<Shape>,
    /// Texts too small to be read, which were left out.
    pub omitted: usize,
}

/// Space around the patch.
const MARGIN: f64 = 20.0;
/// Smallest text that is drawn, in pixels of the picture.
const SMALLEST: f64 = 5.0;
/// Interior detail of one bpatcher that is worth drawing.
const MOST_INSIDE: usize = 500;

const GREY: Color = Color(110, 110, 110, 255);
const DARK: Color = Color(45, 45, 45, 255);
const OBJECT_FILL: Color = Color(216, 216, 219, 255);
const UI_FILL: Color = Color(246, 246, 247, 255);
const SIGNAL: Color = Color(214, 178, 28, 255);
const CORD: Color = Color(95, 95, 95, 255);
const ACCENT: Color = Color(88, 132, 196, 255);
const MARK: Color = Color(224, 70, 20, 255);

/// Draws a canvas.
pub fn render(view: &View<'_>, options: &Options) -> Picture {
    let is_pd = view.document.format.is_pd();
    let mut drawing = Drawing {
        shapes: Vec::new(),
        scale: 1.0,
        origin: Point::default(),
        omitted: 0,
        is_pd,
        paper: view.canvas.facts.background.map(Color::of),
    };
    let mut bounds: Option<Rect> = None;
    let mut include = |rect: Rect| bounds = Some(bounds.map_or(rect, |bounds: Rect| bounds.union(&rect)));
    let shown: Vec<BoxView<'_>> = view.boxes().filter(|object| is_shown(object, options)).collect();
    for object in &shown {
        include(frame_of(object, options.presentation));
    }
    if !options.presentation {
        for cord in view.cords() {
            for point in layout::cord_points(&cord).unwrap_or_default() {
                include(Rect::new(point.x, point.y, 0.0, 0.0));
            }
        }
    }
    let bounds = bounds.unwrap_or(Rect::new(0.0, 0.0, 200.0, 100.0)).grown(MARGIN);
    let most = f64::from(options.max_size.clamp(64, 4096));
    drawing.scale = (most / bounds.w.max(bounds.h)).min(1.0);
    drawing.origin = Point::new(bounds.x, bounds.y);
    let side = |length: f64| ((length * drawing.scale).ceil() as u32).clamp(1, options.max_size.clamp(64, 4096));
    let (width, height) = (side(bounds.w), side(bounds.h));
    let background = match view.canvas.facts.background {
        Some(color) => Color::of(color),
        None if is_pd => Color::WHITE,
        None => Color(232, 232, 234, 255),
    };
    // The file lists boxes front to back; Pd draws in file order.
    let mut order: Vec<&BoxView<'_>> = shown.iter().collect();
    if !is_pd {
        order.reverse();
        order.sort_by_key(|object| !object.in_background());
    }
    for object in &order {
        drawing.body(object, frame_of(object, options.presentation), true);
    }
    if !options.presentation {
        drawing.cords(view, options);
        order.iter().for_each(|object| drawing.nubs(object));
    }
    let numbers = view.canvas.numbers();
    for object in &order {
        let frame = frame_of(object, options.presentation);
        if options.highlight.contains(&object.id()) {
            drawing.rectangle(frame.grown(3.0), 4.0, None, Some(drawing.line(MARK, 2.5)));
        }
        let label = match options.labels {
            Labels::None => None,
            Labels::Index => numbers.get(object.slot as usize).map(u32::to_string),
            Labels::Varname => Some(object.label().to_owned()),
        };
        if let Some(label) = label {
            drawing.tag(frame, &label);
        }
    }
    Picture { width, height, scale: drawing.scale, background, shapes: drawing.shapes, omitted: drawing.omitted }
}

fn is_shown(object: &BoxView<'_>, options: &Options) -> bool {
    let placed = object.rect().w > 0.0;
    let in_view = !options.presentation || (object.in_presentation() && object.presentation_rect().is_some());
    placed && in_view && !(options.locked && object.hidden())
}

fn frame_of(object: &BoxView<'_>, presentation: bool) -> Rect {
    match object.presentation_rect() {
        Some(rect) if presentation => rect,
        Some(_) | None => object.rect(),
    }
}

struct Drawing {
    shapes: Vec<Shape>,
    scale: f64,
    origin: Point,
    omitted: usize,
    is_pd: bool,
    /// Colour behind the boxes, when the patcher states one.
    paper: Option<Color>,
}

impl Drawing {
    fn point(&self, x: f64, y: f64) -> Point {
        Point::new((x - self.origin.x) * self.scale, (y - self.origin.y) * self.scale)
    }

    fn area(&self, rect: Rect) -> Rect {
        let corner = self.point(rect.x, rect.y);
        Rect::new(corner.x, corner.y, rect.w * self.scale, rect.h * self.scale)
    }

    fn line(&self, color: Color, width: f64) -> Stroke {
        Stroke { color, width: (width * self.scale).max(0.4), dash: 0.0 }
    }

    fn rectangle(&mut self, rect: Rect, radius: f64, fill: Option<Color>, stroke: Option<Stroke>) {
        let shape = Shape::Rectangle { rect: self.area(rect), radius: radius * self.scale, fill, stroke };
        self.shapes.push(shape);
    }

    fn ellipse(&mut self, rect: Rect, fill: Option<Color>, stroke: Option<Stroke>) {
        let shape = Shape::Ellipse { rect: self.area(rect), fill, stroke };
        self.shapes.push(shape);
    }

    fn polyline(&mut self, points: &[(f64, f64)], closed: bool, fill: Option<Color>, stroke: Option<Stroke>) {
        let points = points.iter().map(|(x, y)| self.point(*x, *y)).collect();
        self.shapes.push(Shape::Polyline { points, closed, fill, stroke });
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "one line per text; a struct would have to be spelled at each of them"
    )]
    fn text(&mut self, x: f64, y: f64, size: f64, text: &str, color: Color, anchor: Anchor, bold: bool) {
        if text.trim().is_empty() {
            return;
        }
        if size * self.scale < SMALLEST {
            self.omitted += 1;
            return;
        }
        let at = self.point(x, y);
        self.shapes.push(Shape::Text {
            at,
            size: size * self.scale,
            text: text.to_owned(),
            color,
            anchor,
            bold,
            monospace: self.is_pd,
        });
    }

    /// A box without its nubs. `inside` draws what a bpatcher holds; one level is enough.
    fn body(&mut self, object: &BoxView<'_>, frame: Rect, inside: bool) {
        let first = self.shapes.len();
        if self.is_pd {
            self.pd_body(object, frame)
        } else {
            self.max_body(object, frame, inside)
        }
        if object.hidden() {
            self.shapes.iter_mut().skip(first).for_each(fade);
        }
    }

    fn max_body(&mut self, object: &BoxView<'_>, frame: Rect, inside: bool) {
        let size = object.face.facts.font_size.or(object.view.font_size()).unwrap_or(12.0).clamp(1.0, 400.0);
        let fill = object.color("bgcolor").map(Color::of);
        let paper = match object.maxclass() {
            "comment" | "live.comment" => fill.filter(|fill| fill.3 > 0).or(self.paper),
            _ => fill,
        };
        let ink = object.color("textcolor").map_or_else(|| paper.map_or(DARK, Color::ink), Color::of);
        let outline = Some(self.line(GREY, 1.0));
        let center = Point::new(frame.x + frame.w / 2.0, frame.y + frame.h / 2.0);
        let bold = object
            .key_value("fontface")
            .is_some_and(|face| face.atoms().first().and_then(crate::Atom::number).is_some_and(|n| n as i64 & 1 == 1));
        match object.maxclass() {
            "newobj" => {
                self.rectangle(frame, 3.0, Some(fill.unwrap_or(OBJECT_FILL)), outline);
                let bar =
                    object.color("color").map_or(if object.class().ends_with('~') { SIGNAL } else { GREY }, Color::of);
                self.rectangle(Rect { h: 2.0, ..frame }, 0.0, Some(bar), None);
                self.lines(object.text(), frame, size, ink, 4.0, bold);
            }
            "message" => {
                self.rectangle(frame, 6.0, Some(fill.unwrap_or(Color(228, 230, 236, 255))), outline);
                self.lines(object.text(), frame, size, ink, 5.0, bold);
            }
            "comment" | "live.comment" => {
                if let Some(fill) = fill.filter(|fill| fill.3 > 0) {
                    self.rectangle(frame, 0.0, Some(fill), None);
                }
                self.lines(object.text(), frame, size, ink, 4.0, bold);
            }
            "panel" => {
                let first = ["bgcolor", "bgfillcolor_color1", "bgfillcolor_color", "grad1"]
                    .iter()
                    .find_map(|key| object.color(key));
                let border = object.color("bordercolor").map(|color| self.line(Color::of(color), 1.0));
                self.rectangle(frame, 4.0, Some(first.map_or(Color(200, 204, 212, 255), Color::of)), border);
            }
            "button" | "live.button" | "led" => {
                self.rectangle(frame, 2.0, Some(UI_FILL), outline);
                self.ellipse(inset(frame, 0.15), Some(Color::WHITE), outline);
            }
            "toggle" | "live.toggle" => {
                self.rectangle(frame, 2.0, Some(UI_FILL), outline);
                let (a, b) = (inset(frame, 0.2), self.line(GREY, 1.6));
                self.polyline(&[(a.x, a.y), (a.right(), a.bottom())], false, None, Some(b));
                self.polyline(&[(a.right(), a.y), (a.x, a.bottom())], false, None, Some(b));
            }
            "number" | "flonum" | "number~" | "live.numbox" => {
                self.rectangle(frame, 3.0, Some(fill.unwrap_or(UI_FILL)), outline);
                let (x, y) = (frame.x + 4.0, center.y);
                self.polyline(&[(x, y - 5.0), (x + 6.0, y), (x, y + 5.0)], true, Some(ACCENT), None);
                let shown = if object.maxclass() == "number" { "0" } else { "0." };
                self.text(frame.x + 14.0, center.y + size * 0.36, size, shown, ink, Anchor::Start, false);
            }
            "slider" | "live.slider" | "gain~" | "mc.gain~" | "live.gain~" | "mc.live.gain~" | "uslider"
            | "hslider" | "multislider" => {
                self.rectangle(frame, 3.0, Some(fill.unwrap_or(Color(206, 209, 214, 255))), outline);
                let knob = if frame.h >= frame.w {
                    Rect::new(frame.x + 2.0, frame.y + frame.h * 0.62, (frame.w - 4.0).max(1.0), 5.0)
                } else {
                    Rect::new(frame.x + frame.w * 0.38, frame.y + 2.0, 5.0, (frame.h - 4.0).max(1.0))
                };
                self.rectangle(knob, 1.0, Some(ACCENT), None);
            }
            "dial" | "live.dial" => {
                let side = frame.w.min(frame.h);
                let round = Rect::new(center.x - side / 2.0, frame.y, side, side);
                let ring = inset(round, 0.12);
                self.ellipse(ring, Some(UI_FILL), Some(self.line(GREY, 2.0)));
                let middle = (ring.x + ring.w / 2.0, ring.y + ring.h / 2.0);
                self.polyline(
                    &[middle, (ring.x + ring.w * 0.22, ring.y + ring.h * 0.78)],
                    false,
                    None,
                    Some(self.line(ACCENT, 2.5)),
                );
                if let Some(name) = object.varname().filter(|_| frame.h > frame.w) {
                    self.text(center.x, frame.bottom() - 2.0, 9.0, name, ink, Anchor::Middle, false);
                }
            }
            "inlet" | "outlet" => {
                self.rectangle(frame, 3.0, Some(UI_FILL), outline);
                let triangle = inset(frame, 0.28);
                let down = [
                    (triangle.x, triangle.y),
                    (triangle.right(), triangle.y),
                    (triangle.x + triangle.w / 2.0, triangle.bottom()),
                ];
                self.polyline(&down, true, Some(ACCENT), None);
                if let Some(crate::Value::One(crate::Atom::Word(note))) = object.key_value("comment") {
                    self.text(
                        frame.right() + 4.0,
                        center.y + 3.0,
                        9.0,
                        &clipped(&note, 160.0, 9.0),
                        GREY,
                        Anchor::Start,
                        false,
                    );
                }
            }
            "ezdac~" | "ezadc~" | "mc.ezdac~" | "mc.ezadc~" => {
                self.rectangle(frame, 4.0, Some(UI_FILL), outline);
                let speaker = inset(frame, 0.28);
                let (x, y, w, h) = (speaker.x, speaker.y, speaker.w, speaker.h);
                let cone = [
                    (x, y + h * 0.32),
                    (x + w * 0.35, y + h * 0.32),
                    (x + w * 0.7, y),
                    (x + w * 0.7, y + h),
                    (x + w * 0.35, y + h * 0.68),
                    (x, y + h * 0.68),
                ];
                self.polyline(&cone, true, Some(ACCENT), None);
            }
            "umenu" | "live.menu" | "attrui" => {
                self.rectangle(frame, 3.0, Some(fill.unwrap_or(UI_FILL)), outline);
                let x = frame.right() - 12.0;
                self.polyline(
                    &[(x, center.y - 3.0), (x + 8.0, center.y - 3.0), (x + 4.0, center.y + 3.0)],
                    true,
                    Some(GREY),
                    None,
                );
                let shown = match object.key_value(if object.maxclass() == "attrui" { "attr" } else { "items" }) {
                    Some(value) => value
                        .atoms()
                        .iter()
                        .map(crate::Atom::in_content)
                        .take_while(|word| word != ",")
                        .collect::<Vec<_>>()
                        .join(" "),
                    None => object.maxclass().to_owned(),
                };
                self.text(
                    frame.x + 6.0,
                    center.y + size * 0.36,
                    size,
                    &clipped(&shown, frame.w - 22.0, size),
                    ink,
                    Anchor::Start,
                    false,
                );
            }
            "textbutton" | "live.text" | "textedit" => {
                let round = if object.maxclass() == "textedit" { 2.0 } else { 6.0 };
                self.rectangle(frame, round, Some(fill.unwrap_or(UI_FILL)), outline);
                let shown = if object.text().is_empty() { object.maxclass() } else { object.text() };
                self.text(
                    center.x,
                    center.y + size * 0.36,
                    size,
                    &clipped(shown, frame.w - 6.0, size),
                    ink,
                    Anchor::Middle,
                    bold,
                );
            }
            "meter~" | "live.meter~" | "scope~" | "spectroscope~" | "waveform~" | "live.scope~" | "plot~" => {
                self.rectangle(frame, 2.0, Some(fill.unwrap_or(Color(56, 60, 66, 255))), outline);
                let (x, w, h) = (frame.x, frame.w, frame.h);
                let wave: Vec<(f64, f64)> = (0..=24)
                    .map(|n| {
                        (x + 3.0 + (w - 6.0) * f64::from(n) / 24.0, center.y + (f64::from(n) * 0.8).sin() * h * 0.22)
                    })
                    .collect();
                self.polyline(&wave, false, None, Some(self.line(Color(126, 200, 140, 255), 1.2)));
            }
            "live.line" => {
                let across = frame.w >= frame.h;
                let ends = if across {
                    [(frame.x, center.y), (frame.right(), center.y)]
                } else {
                    [(center.x, frame.y), (center.x, frame.bottom())]
                };
                self.polyline(&ends, false, None, Some(self.line(GREY, 1.0)));
            }
            "live.tab" | "tab" => self.tabs(object, frame, size, ink),
            "kslider" => {
                self.rectangle(frame, 0.0, Some(Color::WHITE), outline);
                let keys = (frame.w / 12.0).floor().clamp(1.0, 80.0);
                for n in 1..keys as usize {
                    let x = frame.x + frame.w * n as f64 / keys;
                    self.polyline(&[(x, frame.y), (x, frame.bottom())], false, None, Some(self.line(GREY, 0.8)));
                    if !matches!(n % 7, 3 | 0) {
                        self.rectangle(Rect::new(x - 3.0, frame.y, 6.0, frame.h * 0.6), 0.0, Some(DARK), None);
                    }
                }
            }
            "bpatcher" => self.bpatcher(object, frame, inside),
            other => {
                self.rectangle(frame, 3.0, Some(fill.unwrap_or(UI_FILL)), outline);
                let shown = match object.key_value("filename") {
                    Some(value) => format!(
                        "{other} {}",
                        value.atoms().iter().map(crate::Atom::in_content).collect::<Vec<_>>().join(" ")
                    ),
                    None => other.to_owned(),
                };
                let small = size.min((frame.h - 4.0).max(1.0)).min(11.0);
                self.text(
                    center.x,
                    center.y + small * 0.36,
                    small,
                    &clipped(&shown, frame.w - 4.0, small),
                    GREY,
                    Anchor::Middle,
                    false,
                );
            }
        }
    }

    fn tabs(&mut self, object: &BoxView<'_>, frame: Rect, size: f64, ink: Color) {
        self.rectangle(frame, 3.0, Some(UI_FILL), Some(self.line(GREY, 1.0)));
        let names = ["parameter_enum", "tabs"].iter().find_map(|key| nested(object, key)).unwrap_or_default();
        let down = frame.h > frame.w;
        let count = names.len().max(1) as f64;
        for (n, name) in names.iter().enumerate() {
            let share = n as f64 / count;
            let cell = if down {
                Rect::new(frame.x, frame.y + frame.h * share, frame.w, frame.h / count)
            } else {
                Rect::new(frame.x + frame.w * share, frame.y, frame.w / count, frame.h)
            };
            self.rectangle(cell, 2.0, Some(if n == 0 { ACCENT } else { UI_FILL }), Some(self.line(GREY, 0.8)));
            let small = size.min(cell.h - 2.0).clamp(1.0, 12.0);
            self.text(
                cell.x + cell.w / 2.0,
                cell.y + cell.h / 2.0 + small * 0.36,
                small,
                &clipped(name, cell.w - 4.0, small),
                ink,
                Anchor::Middle,
                false,
            );
        }
    }

    fn bpatcher(&mut self, object: &BoxView<'_>, frame: Rect, inside: bool) {
        self.rectangle(frame, 0.0, Some(Color(240, 240, 242, 255)), Some(self.line(GREY, 1.0)));
        let Some(view) = object.inside().filter(|_| inside) else {
            let name = object.file().unwrap_or_else(|| "bpatcher".to_owned());
            let at = (frame.x + frame.w / 2.0, frame.y + frame.h / 2.0 + 4.0);
            self.text(at.0, at.1, 11.0, &clipped(&name, frame.w - 4.0, 11.0), GREY, Anchor::Middle, false);
            return;
        };
        let clip = self.area(frame);
        self.shapes.push(Shape::ClipStart(clip));
        let presentation = view.opens_in_presentation();
        let offset = object
            .key_value("offset")
            .map(|value| value.atoms().iter().filter_map(crate::Atom::number).collect::<Vec<_>>())
            .unwrap_or_default();
        let (dx, dy) = (offset.first().copied().unwrap_or(0.0), offset.get(1).copied().unwrap_or(0.0));
        let options = Options { presentation, locked: true, ..Options::default() };
        let mut shown: Vec<BoxView<'_>> =
            view.boxes().filter(|inner| is_shown(inner, &options)).take(MOST_INSIDE).collect();
        shown.reverse();
        shown.sort_by_key(|inner| !inner.in_background());
        for inner in &shown {
            let rect = frame_of(inner, presentation);
            let placed = Rect::new(frame.x + rect.x + dx, frame.y + rect.y + dy, rect.w, rect.h);
            if placed.overlaps(&frame) {
                self.body(inner, placed, false);
            }
        }
        self.shapes.push(Shape::ClipEnd);
        self.rectangle(frame, 0.0, None, Some(self.line(GREY, 1.0)));
    }

    fn pd_body(&mut self, object: &BoxView<'_>, frame: Rect) {
        let outline = Some(self.line(Color::BLACK, 1.0));
        let (cell_w, cell_h) = pd::cell(object.view.font_size());
        // The width of a character decides the size of the letters; six tenths is usual for
        // monospaced fonts.
        let size = cell_w / 0.602;
        let (x, y, right, bottom) = (frame.x, frame.y, frame.right(), frame.bottom());
        let word = |name: &str| {
            object.attribute(name).map(|value| value.atoms().iter().map(crate::Atom::in_content).collect::<String>())
        };
        let color = |name: &str| word(name).and_then(|text| hex(&text));
        let paper = color("bgcolor").unwrap_or(Color(252, 252, 252, 255));
        let class = match object.native_class() {
            Some("obj") => {
                crate::objects::table(crate::Format::Pd).class_of(object.text()).map_or("obj", |(class, _)| class.name)
            }
            Some(native) => native,
            None => "obj",
        };
        match class {
            "msg" => {
                let flag = [
                    (x, y),
                    (right + 4.0, y),
                    (right, y + 4.0),
                    (right, bottom - 4.0),
                    (right + 4.0, bottom),
                    (x, bottom),
                ];
                self.polyline(&flag, true, Some(Color(246, 246, 246, 255)), outline);
            }
            "text" => {}
            "floatatom" | "symbolatom" | "listbox" => {
                let cut = [(x, y), (right - 5.0, y), (right, y + 5.0), (right, bottom), (x, bottom)];
                self.polyline(&cut, true, Some(Color(246, 246, 246, 255)), outline);
                let shown = if class == "floatatom" { "0" } else { class };
                self.text(x + 2.0, y + cell_h * 0.85, size, shown, DARK, Anchor::Start, false);
                return;
            }
            "bng" => {
                self.rectangle(frame, 0.0, Some(paper), outline);
                self.ellipse(inset(frame, 0.07), Some(paper), outline);
            }
            "tgl" => {
                self.rectangle(frame, 0.0, Some(paper), outline);
                if word("value").is_some_and(|value| value != "0") {
                    self.polyline(&[(x, y), (right, bottom)], false, None, outline);
                    self.polyline(&[(right, y), (x, bottom)], false, None, outline);
                }
            }
            "nbx" => {
                self.polyline(
                    &[(x, y), (right - 4.0, y), (right, y + 4.0), (right, bottom), (x, bottom)],
                    true,
                    Some(paper),
                    outline,
                );
                self.polyline(&[(x, y), (x + frame.h / 2.0, y + frame.h / 2.0), (x, bottom)], false, None, outline);
                self.text(
                    x + frame.h / 2.0 + 2.0,
                    bottom - frame.h * 0.25,
                    (frame.h * 0.75).clamp(1.0, 40.0),
                    &word("value").unwrap_or_default(),
                    DARK,
                    Anchor::Start,
                    false,
                );
            }
            "hsl" | "vsl" => {
                self.rectangle(frame, 0.0, Some(paper), outline);
                let full = if class == "hsl" { frame.w } else { frame.h };
                // Sliders store their place in hundredths of a pixel.
                let place = (word("value").and_then(|value| value.parse::<f64>().ok()).unwrap_or(0.0) / 100.0)
                    .clamp(0.0, full.max(0.0));
                let knob = if class == "hsl" {
                    [(x + place, y), (x + place, bottom)]
                } else {
                    [(x, bottom - place), (right, bottom - place)]
                };
                self.polyline(&knob, false, None, Some(self.line(Color::BLACK, 3.0)));
            }
            "hradio" | "vradio" => {
                self.rectangle(frame, 0.0, Some(paper), outline);
                let count = word("number").and_then(|n| n.parse::<f64>().ok()).unwrap_or(8.0).clamp(1.0, 128.0);
                for n in 1..count as usize {
                    let share = n as f64 / count;
                    let line = if class == "hradio" {
                        [(x + frame.w * share, y), (x + frame.w * share, bottom)]
                    } else {
                        [(x, y + frame.h * share), (right, y + frame.h * share)]
                    };
                    self.polyline(&line, false, None, outline);
                }
            }
            "vu" => {
                self.rectangle(frame, 0.0, Some(color("bgcolor").unwrap_or(Color(64, 64, 64, 255))), outline);
            }
            "cnv" => {
                self.rectangle(frame, 0.0, Some(color("bgcolor").unwrap_or(Color(224, 224, 224, 255))), None);
            }
            _ => {
                let known = object.ports().inlets.is_some();
                let stroke =
                    Stroke { dash: if known { 0.0 } else { 4.0 * self.scale }, ..self.line(Color::BLACK, 1.0) };
                self.rectangle(frame, 0.0, Some(Color(246, 246, 246, 255)), Some(stroke));
                if let Some(inner) = object.inside().filter(|inner| inner.canvas.facts.graph.is_some()) {
                    self.graph(&inner, frame);
                    return;
                }
            }
        }
        if crate::pd::gui_default(class).is_some() {
            if let Some(label) = word("label").filter(|label| label != "empty") {
                let offset = |name: &str| {
                    word(name).and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.0).clamp(-2000.0, 2000.0)
                };
                let size = word("fontsize").and_then(|text| text.parse::<f64>().ok()).unwrap_or(10.0).clamp(4.0, 80.0);
                let ink = color("labelcolor").unwrap_or(Color::BLACK);
                self.text(
                    x + offset("label_x"),
                    y + offset("label_y") + size * 0.36,
                    size,
                    &label.replace("\\ ", " "),
                    ink,
                    Anchor::Start,
                    false,
                );
            }
            return;
        }
        for (n, line) in pd::wrapped(object.text(), object.face.facts.columns).iter().enumerate() {
            self.text(x + 2.0, y + 2.0 + cell_h * (n as f64 + 0.8), size, line, DARK, Anchor::Start, false);
        }
    }

    /// The arrays of a graph, each as its name above and its curve inside.
    fn graph(&mut self, inner: &View<'_>, frame: Rect) {
        for (n, array) in inner.boxes().filter(|inside| inside.native_class() == Some("array")).enumerate() {
            let name = array.text().split(' ').next().unwrap_or_default().to_owned();
            self.text(frame.x + 2.0, frame.y - 3.0 - 12.0 * n as f64, 10.0, &name, DARK, Anchor::Start, false);
            let values = pd::array_values(array.face.before.bytes(&inner.document.source), MOST_INSIDE);
            if values.len() > 1 {
                let last = values.len() as f64 - 1.0;
                // The range of the axis is the usual -1 to 1; values outside it end at the frame.
                let place = |(n, value): (usize, &f64)| {
                    (frame.x + frame.w * n as f64 / last, frame.y + frame.h * (0.5 - value.clamp(-1.0, 1.0) / 2.0))
                };
                let curve: Vec<(f64, f64)> = values.iter().enumerate().map(place).collect();
                self.polyline(&curve, false, None, Some(self.line(Color::BLACK, 1.0)));
            }
        }
    }

    fn lines(&mut self, text: &str, frame: Rect, size: f64, ink: Color, inset: f64, bold: bool) {
        let room = (frame.w - inset - 2.0).max(size);
        let step = size * 1.17;
        let lines = wrap(text, room, size);
        // One line sits in the middle; several start at the top, as many as fit.
        let top = if lines.len() == 1 { frame.y + (frame.h - step) / 2.0 } else { frame.y + 2.0 };
        for (n, line) in lines.iter().enumerate() {
            let base = top + step * n as f64 + size * 0.95;
            if n > 0 && base > frame.bottom() + 2.0 {
                break;
            }
            self.text(frame.x + inset, base, size, line, ink, Anchor::Start, bold);
        }
    }

    fn cords(&mut self, view: &View<'_>, options: &Options) {
        for cord in view.cords() {
            let Some(points) = layout::cord_points(&cord).filter(|_| !(options.locked && cord.hidden())) else {
                continue;
            };
            let points: Vec<(f64, f64)> = points.iter().map(|point| (point.x, point.y)).collect();
            let first = self.shapes.len();
            if cord.is_signal() && !self.is_pd {
                self.polyline(&points, false, None, Some(self.line(DARK, 2.6)));
                let color = cord.color().map_or(Color(244, 214, 70, 255), Color::of);
                let stripes = Stroke { dash: 4.0 * self.scale, ..self.line(color, 2.0) };
                self.polyline(&points, false, None, Some(stripes));
            } else {
                let color = cord.color().map_or(if self.is_pd { Color::BLACK } else { CORD }, Color::of);
                let width = if cord.is_signal() {
                    2.2
                } else if self.is_pd {
                    1.0
                } else {
                    1.4
                };
                self.polyline(&points, false, None, Some(self.line(color, width)));
            }
            if cord.hidden() {
                self.shapes.iter_mut().skip(first).for_each(fade);
            }
        }
    }

    fn nubs(&mut self, object: &BoxView<'_>) {
        // These have an inlet that nobody connects; Max shows it only under the mouse.
        if matches!(object.maxclass(), "comment" | "panel") || object.class() == "cnv" {
            return;
        }
        let types = object.ports().outlet_types.unwrap_or_default();
        for outlet in [false, true] {
            for (n, place) in layout::nubs(object, outlet).into_iter().enumerate() {
                let signal = outlet && types.get(n).is_some_and(|kind| kind.contains("signal"));
                if self.is_pd {
                    let y = if outlet { place.y - 2.0 } else { place.y };
                    self.rectangle(Rect::new(place.x - 3.5, y, 7.0, 2.0), 0.0, Some(Color::BLACK), None);
                } else {
                    let y = if outlet { place.y - 1.5 } else { place.y - 1.0 };
                    self.rectangle(
                        Rect::new(place.x - 3.5, y, 7.0, 2.5),
                        1.0,
                        Some(if signal { SIGNAL } else { DARK }),
                        None,
                    );
                }
            }
        }
    }

    fn tag(&mut self, frame: Rect, label: &str) {
        let size = 9.0;
        let width = text_width(label, size) + 4.0;
        let rect = Rect::new(frame.x - 2.0, frame.y - 8.0, width, 10.0);
        self.rectangle(rect, 2.0, Some(Color(255, 244, 196, 235)), Some(self.line(MARK, 0.6)));
        self.text(rect.x + 2.0, rect.y + 8.0, size, label, MARK, Anchor::Start, true);
    }
}

fn fade(shape: &mut Shape) {
    let line = |stroke: &mut Option<Stroke>| {
        if let Some(stroke) = stroke {
            stroke.color = stroke.color.faded();
        }
    };
    match shape {
        Shape::Rectangle { fill, stroke, .. }
        | Shape::Polyline { fill, stroke, .. }
        | Shape::Ellipse { fill, stroke, .. } => {
            *fill = fill.map(Color::faded);
            line(stroke);
        }
        Shape::Text { color, .. } => *color = color.faded(),
        Shape::ClipStart(_) | Shape::ClipEnd => {}
    }
}

fn inset(rect: Rect, share: f64) -> Rect {
    let margin = rect.w.min(rect.h) * share;
    Rect::new(rect.x + margin, rect.y + margin, (rect.w - 2.0 * margin).max(0.0), (rect.h - 2.0 * margin).max(0.0))
}

/// `#rrggbb`, the way Pd writes colours.
fn hex(text: &str) -> Option<Color> {
    let digits = text.strip_prefix('#').filter(|digits| digits.len() == 6)?;
    let part = |at: usize| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
    Some(Color(part(0)?, part(2)?, part(4)?, 255))
}

fn nested(object: &BoxView<'_>, key: &str) -> Option<Vec<String>> {
    let words = |value: crate::Value| value.atoms().iter().map(crate::Atom::in_content).collect::<Vec<_>>();
    if let Some(value) = object.key_value(key) {
        return Some(words(value));
    }
    let shape = object.shape()?;
    let (saved, _) = shape.get("saved_attribute_attributes")?;
    let (_, range, _) = crate::json::members(saved).into_iter().find(|(name, _, _)| name == "valueof")?;
    let inside = saved.get(range)?;
    let (_, range, kind) = crate::json::members(inside).into_iter().find(|(name, _, _)| name == key)?;
    Some(words(crate::document::read_value(inside.get(range)?, kind)))
}

/// The beginning of a text that fits a width.
fn clipped(text: &str, room: f64, size: f64) -> String {
    let mut width = 0.0;
    let mut out = String::new();
    for character in text.chars() {
        width += text_width(character.encode_utf8(&mut [0; 4]), size);
        if width > room && !out.is_empty() {
            break;
        }
        out.push(if character.is_control() { ' ' } else { character });
    }
    out
}

/// Most lines of one text; a comment of a thousand lines is not read in a picture.
const MOST_LINES: usize = 200;

fn wrap(text: &str, room: f64, size: f64) -> Vec<String> {
    let mut lines = Vec::new();
    for paragraph in text.split(['\n', '\r']) {
        let mut line = String::new();
        let mut width = 0.0;
        for word in paragraph.split_inclusive(' ') {
            let more = text_width(word.trim_end(), size);
            if !line.is_empty() && width + more > room + 1.0 {
                lines.push(std::mem::take(&mut line));
                width = 0.0;
            }
            if lines.len() >= MOST_LINES {
                return lines;
            }
            width += text_width(word, size);
            line.push_str(&clipped(word, room.max(size * 200.0), size));
        }
        lines.push(line);
    }
    lines
}
