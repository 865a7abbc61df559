//! Draws the bodies of Pd boxes, by class.

use super::{CROSS, DARK, MOST_INSIDE, inset, within, words};
use crate::picture::sketch::Sketch;
use crate::picture::{Color, Look, Pen, Rect};
use conductor_patch::{BoxView, View, is_pd_gui};

const BOX_FILL: Color = Color::rgb(0xf6f6f6);

pub(super) fn body(sketch: &mut Sketch, object: &BoxView<'_>, frame: Rect) {
    let outline = sketch.stroke(Color::BLACK, 1.0);
    let (cell_w, cell_h) = object.canvas().pd_cell();
    // The width of a monospaced character is about 0.6 of the font size.
    let pen = Pen::new(cell_w / 0.602, DARK);
    let (x, y, right, bottom) = (frame.x, frame.y, frame.right(), frame.bottom());
    let word = |name: &str| object.attribute(name).map(|value| words(&value).concat());
    let number = |name: &str| word(name).and_then(|text| text.parse::<f64>().ok());
    let color = |name: &str| word(name).and_then(|text| hex(&text));
    let paper = |usual: u32| Look::fill(color("bgcolor").unwrap_or(Color::rgb(usual)));
    let control = paper(0xfcfcfc).outlined(outline);
    let class = object.pd_class().unwrap_or("obj");
    match class {
        "msg" => {
            let flag =
                [(x, y), (right + 4.0, y), (right, y + 4.0), (right, bottom - 4.0), (right + 4.0, bottom), (x, bottom)];
            sketch.polygon(&flag, Look::fill(BOX_FILL).outlined(outline));
        }
        "text" => {}
        "floatatom" | "symbolatom" | "listbox" => {
            let cut = [(x, y), (right - 5.0, y), (right, y + 5.0), (right, bottom), (x, bottom)];
            sketch.polygon(&cut, Look::fill(BOX_FILL).outlined(outline));
            let shown = if class == "floatatom" { "0" } else { class };
            sketch.text((x + 2.0, y + cell_h * 0.85), pen, shown);
            return;
        }
        "nbx" => {
            let cut = [(x, y), (right - 4.0, y), (right, y + 4.0), (right, bottom), (x, bottom)];
            sketch.polygon(&cut, control);
            let half = frame.h / 2.0;
            sketch.lines(&[(x, y), (x + half, y + half), (x, bottom)], outline);
            let pen = Pen { size: (frame.h * 0.75).clamp(1.0, 40.0), ..pen };
            sketch.text((x + half + 2.0, bottom - frame.h * 0.25), pen, &word("value").unwrap_or_default());
        }
        "bng" => {
            sketch.rectangle(frame, 0.0, control);
            sketch.ellipse(inset(frame, 0.07), control);
        }
        "tgl" => {
            sketch.rectangle(frame, 0.0, control);
            if word("value").is_some_and(|value| value != "0") {
                CROSS.iter().for_each(|line| sketch.lines(&within(frame, line), outline));
            }
        }
        "hsl" | "vsl" => {
            sketch.rectangle(frame, 0.0, control);
            // Sliders store their position in hundredths of a pixel.
            let length = if class == "hsl" { frame.w } else { frame.h };
            let place = (number("value").unwrap_or(0.0) / 100.0).clamp(0.0, length.max(0.0));
            let knob = if class == "hsl" {
                [(x + place, y), (x + place, bottom)]
            } else {
                [(x, bottom - place), (right, bottom - place)]
            };
            sketch.lines(&knob, sketch.stroke(Color::BLACK, 3.0));
        }
        "hradio" | "vradio" => {
            sketch.rectangle(frame, 0.0, control);
            let count = number("number").unwrap_or(8.0).clamp(1.0, 128.0);
            for n in 1..count as usize {
                let at = n as f64 / count;
                let line = if class == "hradio" { [(at, 0.0), (at, 1.0)] } else { [(0.0, at), (1.0, at)] };
                sketch.lines(&within(frame, &line), outline);
            }
        }
        "vu" => sketch.rectangle(frame, 0.0, paper(0x404040).outlined(outline)),
        "cnv" => sketch.rectangle(frame, 0.0, paper(0xe0e0e0)),
        _ => {
            let known = object.ports().inlets.is_some();
            let stroke = if known { outline } else { sketch.dashed(Color::BLACK, 1.0) };
            sketch.rectangle(frame, 0.0, Look::fill(BOX_FILL).outlined(stroke));
            if let Some(inner) = object.inside().filter(View::is_graph) {
                graph(sketch, &inner, frame);
                return;
            }
        }
    }
    if is_pd_gui(class) {
        if let Some(label) = word("label").filter(|label| label != "empty") {
            let offset = |name: &str| number(name).unwrap_or(0.0).clamp(-2000.0, 2000.0);
            let size = number("fontsize").unwrap_or(10.0).clamp(4.0, 80.0);
            let pen = Pen::new(size, color("labelcolor").unwrap_or(Color::BLACK));
            sketch.text((x + offset("label_x"), y + offset("label_y") + size * 0.36), pen, &label.replace("\\ ", " "));
        }
        return;
    }
    for (n, line) in object.pd_lines().iter().enumerate() {
        sketch.text((x + 2.0, y + 2.0 + cell_h * (n as f64 + 0.8)), pen, line);
    }
}

/// Draws the arrays of a graph: the names above the frame, the curves inside it.
fn graph(sketch: &mut Sketch, inner: &View<'_>, frame: Rect) {
    for (n, array) in inner.boxes().filter(|inside| inside.native_class() == Some("array")).enumerate() {
        let name = array.text().split(' ').next().unwrap_or_default();
        sketch.text((frame.x + 2.0, frame.y - 3.0 - 12.0 * n as f64), Pen::new(10.0, DARK), name);
        let values = array.array_values(MOST_INSIDE);
        if values.len() > 1 {
            let last = values.len() as f64 - 1.0;
            // The axis is assumed to have the range -1 to 1. Values outside it are drawn at the
            // edge of the frame.
            let place = |(n, value): (usize, &f64)| (n as f64 / last, 0.5 - value.clamp(-1.0, 1.0) / 2.0);
            let curve: Vec<(f64, f64)> = values.iter().enumerate().map(place).collect();
            sketch.lines(&within(frame, &curve), sketch.stroke(Color::BLACK, 1.0));
        }
    }
}

/// Parses `#rrggbb`, the form in which Pd writes colours.
fn hex(text: &str) -> Option<Color> {
    let digits = text.strip_prefix('#').filter(|digits| digits.len() == 6)?;
    u32::from_str_radix(digits, 16).ok().map(Color::rgb)
}
