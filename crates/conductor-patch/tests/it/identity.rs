//! Opening and saving without an edit returns the same bytes.

use conductor_patch::{Document, Format, Limits};

use crate::corpus;

fn same(name: &str, bytes: &[u8], format: Format) {
    let document =
        Document::open(bytes.to_vec(), format, &Limits::default()).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert!(document.to_bytes() == bytes, "{name}: saved bytes differ");
}

#[test]
fn every_file_is_saved_as_it_was_opened() {
    let samples = corpus::all();
    let mut boxes = 0;
    for sample in &samples {
        same(&sample.name, &sample.bytes, sample.format);
        sample.open().walk(&mut |view| boxes += view.box_count());
    }
    println!("{} files, {boxes} boxes", samples.len());
}

#[test]
fn line_ends_bom_and_final_newline_survive() {
    for sample in corpus::all() {
        if sample.format == Format::Amxd {
            continue;
        }
        let text = String::from_utf8_lossy(&sample.bytes).into_owned();
        let unix = text.replace("\r\n", "\n");
        same(&sample.name, unix.replace('\n', "\r\n").as_bytes(), sample.format);
        same(&sample.name, unix.trim_end().as_bytes(), sample.format);
        if sample.format != Format::Pd {
            same(&sample.name, format!("\u{feff}{text}").as_bytes(), sample.format);
        }
    }
}

#[test]
fn any_spelling_of_the_same_json_survives() {
    for sample in corpus::all().iter().filter(|sample| matches!(sample.format, Format::Maxpat | Format::Maxhelp)) {
        let Ok(value) = serde_json::from_slice::<serde_json::Value>(&sample.bytes) else {
            continue;
        };
        same(&sample.name, &serde_json::to_vec(&value).unwrap(), sample.format);
        same(&sample.name, &serde_json::to_vec_pretty(&value).unwrap(), sample.format);
    }
}

#[test]
fn a_changed_byte_is_noticed() {
    let text = r#"{"patcher": {"boxes": [], "lines": []}}"#;
    let document = Document::open(text.as_bytes(), Format::Maxpat, &Limits::default()).unwrap();
    assert_ne!(document.to_bytes(), text.replace("lines", "lanes").as_bytes());
}
