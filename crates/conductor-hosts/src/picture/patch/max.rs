//! Draws the bodies of Max boxes, by class.

use super::{CROSS, DARK, Drawing, GREY, MOST_INSIDE, Options, SIGNAL, frame_of, inset, is_shown, within, words};
use crate::picture::{Anchor, Color, Look, Pen, Point, Rect};
use conductor_patch::{Atom, BoxView, Value, text_width};

const UI_FILL: Color = Color::rgb(0xf6f6f7);
const ACCENT: Color = Color::rgb(0x5884c4);

/// The triangle of an inlet or outlet.
const TRIANGLE: [(f64, f64); 3] = [(0.0, 0.0), (1.0, 0.0), (0.5, 1.0)];
/// The loudspeaker of `ezdac~` and `ezadc~`.
const SPEAKER: [(f64, f64); 6] = [(0.0, 0.32), (0.35, 0.32), (0.7, 0.0), (0.7, 1.0), (0.35, 0.68), (0.0, 0.68)];

/// The frame of a class: corner radius, usual fill, and whether `bgcolor` replaces the fill.
fn background(class: &str) -> Option<(f64, Color, bool)> {
    Some(match class {
        "comment" | "live.comment" | "panel" | "dial" | "live.dial" | "live.line" => return None,
        "newobj" => (3.0, Color::rgb(0xd8d8db), true),
        "message" => (6.0, Color::rgb(0xe4e6ec), true),
        "button" | "live.button" | "led" | "toggle" | "live.toggle" => (2.0, UI_FILL, false),
        "inlet" | "outlet" | "tab" | "live.tab" => (3.0, UI_FILL, false),
        "ezdac~" | "ezadc~" | "mc.ezdac~" | "mc.ezadc~" => (4.0, UI_FILL, false),
        "slider" | "live.slider" | "gain~" | "mc.gain~" | "live.gain~" | "mc.live.gain~" | "uslider" | "hslider"
        | "multislider" => (3.0, Color::rgb(0xced1d6), true),
        "textbutton" | "live.text" => (6.0, UI_FILL, true),
        "textedit" => (2.0, UI_FILL, true),
        "meter~" | "live.meter~" | "scope~" | "spectroscope~" | "waveform~" | "live.scope~" | "plot~" => {
            (2.0, Color::rgb(0x383c42), true)
        }
        "kslider" => (0.0, Color::WHITE, false),
        "bpatcher" => (0.0, Color::rgb(0xf0f0f2), false),
        _ => (3.0, UI_FILL, true),
    })
}

/// The colour of a text, light or dark, that is easier to read on this background.
fn ink_on(Color(r, g, b, a): Color) -> Color {
    let light = u32::from(r) * 3 + u32::from(g) * 6 + u32::from(b);
    if light < 1100 && a > 100 { Color::rgb(0xececec) } else { DARK }
}

impl Drawing {
    pub(super) fn max_body(&mut self, object: &BoxView<'_>, frame: Rect, inside: bool) {
        let class = object.maxclass();
        let fill = object.color("bgcolor").map(Color::of);
        let paper = match class {
            "comment" | "live.comment" => fill.filter(|fill| fill.3 > 0).or(self.paper),
            _ => fill,
        };
        let ink = object.color("textcolor").map_or_else(|| paper.map_or(DARK, ink_on), Color::of);
        let bold = object
            .key_value("fontface")
            .is_some_and(|face| face.atoms().first().and_then(Atom::number).is_some_and(|n| n as i64 & 1 == 1));
        let pen = Pen::new(object.font_size().unwrap_or(12.0).clamp(1.0, 400.0), ink);
        let middle = pen.anchored(Anchor::Middle);
        let center = Point::new(frame.x + frame.w / 2.0, frame.y + frame.h / 2.0);
        let outline = self.sketch.stroke(GREY, 1.0);
        if let Some((radius, usual, own)) = background(class) {
            let fill = fill.filter(|_| own).unwrap_or(usual);
            self.sketch.rectangle(frame, radius, Look::fill(fill).outlined(outline));
        }
        match class {
            "newobj" => {
                let usual = if object.class().ends_with('~') { SIGNAL } else { GREY };
                let bar = object.color("color").map_or(usual, Color::of);
                self.sketch.rectangle(Rect { h: 2.0, ..frame }, 0.0, Look::fill(bar));
                self.lines(object.text(), frame, pen.bold(bold), 4.0);
            }
            "message" => self.lines(object.text(), frame, pen.bold(bold), 5.0),
            "comment" | "live.comment" => {
                if let Some(fill) = fill.filter(|fill| fill.3 > 0) {
                    self.sketch.rectangle(frame, 0.0, Look::fill(fill));
                }
                self.lines(object.text(), frame, pen.bold(bold), 4.0);
            }
            "panel" => {
                let keys = ["bgcolor", "bgfillcolor_color1", "bgfillcolor_color", "grad1"];
                let fill = keys.iter().find_map(|key| object.color(key)).map_or(Color::rgb(0xc8ccd4), Color::of);
                let stroke = object.color("bordercolor").map(|color| self.sketch.stroke(Color::of(color), 1.0));
                self.sketch.rectangle(frame, 4.0, Look { fill: Some(fill), stroke });
            }
            "button" | "live.button" | "led" => {
                self.sketch.ellipse(inset(frame, 0.15), Look::fill(Color::WHITE).outlined(outline));
            }
            "toggle" | "live.toggle" => {
                for line in CROSS {
                    self.sketch.lines(&within(inset(frame, 0.2), &line), self.sketch.stroke(GREY, 1.6));
                }
            }
            "number" | "flonum" | "number~" | "live.numbox" => {
                let (x, y) = (frame.x + 4.0, center.y);
                self.sketch.polygon(&[(x, y - 5.0), (x + 6.0, y), (x, y + 5.0)], Look::fill(ACCENT));
                let shown = if class == "number" { "0" } else { "0." };
                self.label((frame.x + 14.0, y), pen, f64::INFINITY, shown);
            }
            "slider" | "live.slider" | "gain~" | "mc.gain~" | "live.gain~" | "mc.live.gain~" | "uslider"
            | "hslider" | "multislider" => {
                let knob = if frame.h >= frame.w {
                    Rect::new(frame.x + 2.0, frame.y + frame.h * 0.62, (frame.w - 4.0).max(1.0), 5.0)
                } else {
                    Rect::new(frame.x + frame.w * 0.38, frame.y + 2.0, 5.0, (frame.h - 4.0).max(1.0))
                };
                self.sketch.rectangle(knob, 1.0, Look::fill(ACCENT));
            }
            "dial" | "live.dial" => {
                let side = frame.w.min(frame.h);
                let ring = inset(Rect::new(center.x - side / 2.0, frame.y, side, side), 0.12);
                self.sketch.ellipse(ring, Look::fill(UI_FILL).outlined(self.sketch.stroke(GREY, 2.0)));
                let pointer = within(ring, &[(0.5, 0.5), (0.22, 0.78)]);
                self.sketch.lines(&pointer, self.sketch.stroke(ACCENT, 2.5));
                if let Some(name) = object.varname().filter(|_| frame.h > frame.w) {
                    self.sketch.text((center.x, frame.bottom() - 2.0), Pen { size: 9.0, ..middle }, name);
                }
            }
            "inlet" | "outlet" => {
                self.sketch.polygon(&within(inset(frame, 0.28), &TRIANGLE), Look::fill(ACCENT));
                if let Some(Value::One(Atom::Word(note))) = object.key_value("comment") {
                    let at = (frame.right() + 4.0, center.y + 3.0);
                    self.sketch.text(at, Pen::new(9.0, GREY), &clipped(&note, 160.0, 9.0));
                }
            }
            "ezdac~" | "ezadc~" | "mc.ezdac~" | "mc.ezadc~" => {
                self.sketch.polygon(&within(inset(frame, 0.28), &SPEAKER), Look::fill(ACCENT));
            }
            "umenu" | "live.menu" | "attrui" => {
                let (x, y) = (frame.right() - 12.0, center.y);
                self.sketch.polygon(&[(x, y - 3.0), (x + 8.0, y - 3.0), (x + 4.0, y + 3.0)], Look::fill(GREY));
                let items = object.key_value(if class == "attrui" { "attr" } else { "items" });
                let first = |items: Value| words(&items).into_iter().take_while(|word| word != ",").collect::<Vec<_>>();
                let shown = items.map_or_else(|| class.to_owned(), |items| first(items).join(" "));
                self.label((frame.x + 6.0, y), pen, frame.w - 22.0, &shown);
            }
            "textbutton" | "live.text" | "textedit" => {
                let shown = if object.text().is_empty() { class } else { object.text() };
                self.label((center.x, center.y), middle.bold(bold), frame.w - 6.0, shown);
            }
            "meter~" | "live.meter~" | "scope~" | "spectroscope~" | "waveform~" | "live.scope~" | "plot~" => {
                let wave = (0..=24)
                    .map(f64::from)
                    .map(|n| (frame.x + 3.0 + (frame.w - 6.0) * n / 24.0, center.y + (n * 0.8).sin() * frame.h * 0.22));
                let wave: Vec<(f64, f64)> = wave.collect();
                self.sketch.lines(&wave, self.sketch.stroke(Color::rgb(0x7ec88c), 1.2));
            }
            "live.line" => {
                let across = frame.w >= frame.h;
                let ends = if across { [(0.0, 0.5), (1.0, 0.5)] } else { [(0.5, 0.0), (0.5, 1.0)] };
                self.sketch.lines(&within(frame, &ends), outline);
            }
            "live.tab" | "tab" => self.tabs(object, frame, middle),
            "kslider" => {
                let keys = (frame.w / 12.0).floor().clamp(1.0, 80.0);
                for n in 1..keys as usize {
                    let x = frame.x + frame.w * n as f64 / keys;
                    self.sketch.lines(&[(x, frame.y), (x, frame.bottom())], self.sketch.stroke(GREY, 0.8));
                    if !matches!(n % 7, 3 | 0) {
                        let black = Rect::new(x - 3.0, frame.y, 6.0, frame.h * 0.6);
                        self.sketch.rectangle(black, 0.0, Look::fill(DARK));
                    }
                }
            }
            "bpatcher" => self.bpatcher(object, frame, inside),
            other => {
                let file = object.key_value("filename").map(|value| words(&value).join(" "));
                let shown = file.map_or_else(|| other.to_owned(), |file| format!("{other} {file}"));
                let size = pen.size.min((frame.h - 4.0).max(1.0)).min(11.0);
                let pen = Pen { size, color: GREY, ..middle };
                self.label((center.x, center.y), pen, frame.w - 4.0, &shown);
            }
        }
    }

    /// Draws one line of text, clipped to the width `room`. The point is at the vertical middle of
    /// the text.
    fn label(&mut self, (x, y): (f64, f64), pen: Pen, room: f64, text: &str) {
        self.sketch.text((x, y + pen.size * 0.36), pen, &clipped(text, room, pen.size));
    }

    fn tabs(&mut self, object: &BoxView<'_>, frame: Rect, pen: Pen) {
        let stored = |key: &&str| object.key_value(key).or_else(|| object.parameter(key));
        let names = ["parameter_enum", "tabs"].iter().find_map(stored).map(|value| words(&value)).unwrap_or_default();
        let count = names.len().max(1) as f64;
        for (n, name) in names.iter().enumerate() {
            let start = n as f64 / count;
            let cell = if frame.h > frame.w {
                Rect::new(frame.x, frame.y + frame.h * start, frame.w, frame.h / count)
            } else {
                Rect::new(frame.x + frame.w * start, frame.y, frame.w / count, frame.h)
            };
            let look = Look::fill(if n == 0 { ACCENT } else { UI_FILL }).outlined(self.sketch.stroke(GREY, 0.8));
            self.sketch.rectangle(cell, 2.0, look);
            let pen = Pen { size: pen.size.min(cell.h - 2.0).clamp(1.0, 12.0), ..pen };
            self.label((cell.x + cell.w / 2.0, cell.y + cell.h / 2.0), pen, cell.w - 4.0, name);
        }
    }

    /// Draws a bpatcher: its contents if they are embedded and `inside` is set, otherwise the name
    /// of its file.
    fn bpatcher(&mut self, object: &BoxView<'_>, frame: Rect, inside: bool) {
        let Some(view) = object.inside().filter(|_| inside) else {
            let name = object.file().unwrap_or_else(|| "bpatcher".to_owned());
            let at = (frame.x + frame.w / 2.0, frame.y + frame.h / 2.0 + 4.0);
            let pen = Pen::new(11.0, GREY).anchored(Anchor::Middle);
            self.sketch.text(at, pen, &clipped(&name, frame.w - 4.0, 11.0));
            return;
        };
        self.sketch.clip_start(frame);
        let presentation = view.opens_in_presentation();
        let offset = object.key_value("offset");
        let mut offset = offset.iter().flat_map(Value::atoms).filter_map(Atom::number);
        let (dx, dy) = (offset.next().unwrap_or(0.0), offset.next().unwrap_or(0.0));
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
        self.sketch.clip_end();
        self.sketch.rectangle(frame, 0.0, Look::line(self.sketch.stroke(GREY, 1.0)));
    }

    /// Draws a text wrapped into a frame. A single line is centred vertically; several lines start
    /// at the top.
    fn lines(&mut self, text: &str, frame: Rect, pen: Pen, left: f64) {
        let step = pen.size * 1.17;
        let lines = wrap(text, (frame.w - left - 2.0).max(pen.size), pen.size);
        let top = if lines.len() == 1 { frame.y + (frame.h - step) / 2.0 } else { frame.y + 2.0 };
        for (n, line) in lines.iter().enumerate() {
            let base = top + step * n as f64 + pen.size * 0.95;
            if n > 0 && base > frame.bottom() + 2.0 {
                break;
            }
            self.sketch.text((frame.x + left, base), pen, line);
        }
    }
}

/// The beginning of a text, as much as fits into a width.
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

/// Maximum number of lines that are drawn of one text.
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
