//! Tests with malformed configuration files. The last lines of each file in the corpus name the
//! expected diagnostics (`#~ line:column severity part of the message`). More files are generated
//! by changes to a valid file. No file may cause a panic, and an error may disable only its own
//! item.

use crate::config_reference::is_current;
use crate::generate::Dice;
use conductor_core::config::{self, Config, Diagnostic, Loaded, Severity};
use std::ops::Range;
use std::path::Path;

const STUDIO: &str = include_str!("../config_fixtures/studio.toml");

fn corpus() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/config_faults");
    let mut files: Vec<(String, String)> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|it| it == "toml"))
        .map(|path| (path.file_stem().unwrap().to_string_lossy().into_owned(), std::fs::read_to_string(path).unwrap()))
        .collect();
    files.sort();
    files
}

/// The expected diagnostics of a file: line, column, severity and a part of the message.
fn expected(text: &str) -> Vec<(u32, u32, Severity, &str)> {
    let marks = text.lines().filter_map(|line| line.strip_prefix("#~ "));
    marks
        .map(|mark| {
            let (place, rest) = mark.split_once(' ').unwrap();
            let (severity, message) = rest.split_once(' ').unwrap();
            let (line, column) = place.split_once(':').unwrap();
            let severity = match severity {
                "warning" => Severity::Warning,
                "error" => Severity::Error,
                "fatal" => Severity::Fatal,
                other => panic!("no severity: {other}"),
            };
            (line.parse().unwrap(), column.parse().unwrap(), severity, message)
        })
        .collect()
}

/// The text above the first caret of a rendered diagnostic, up to the end of the line.
fn under_the_caret(fault: &Diagnostic, text: &str) -> String {
    let drawn = fault.render(text, "config.toml");
    let lines: Vec<&str> = drawn.lines().collect();
    let caret =
        lines.iter().position(|line| line.trim_start_matches([' ', '|', '\t']).starts_with('^')).expect("a caret line");
    let column = lines[caret].chars().position(|it| it == '^').unwrap();
    lines[caret - 1].chars().skip(column).collect()
}

#[test]
fn every_file_of_the_corpus_tells_what_its_marks_say() {
    let corpus = corpus();
    assert!(corpus.len() >= 80, "only {} files", corpus.len());
    for (name, text) in &corpus {
        let loaded = config::load(text);
        let found: Vec<String> = loaded.diagnostics.iter().map(|it| it.render(text, name)).collect();
        let expected = expected(text);
        assert_eq!(loaded.diagnostics.len(), expected.len(), "{name}:\n{}", found.join("\n"));
        for (fault, (line, column, severity, message)) in loaded.diagnostics.iter().zip(expected) {
            let found = (fault.line, fault.column, fault.severity);
            assert_eq!(found, (line, column, severity), "{name}:\n{}", fault.render(text, name));
            assert!(fault.message.contains(message), "{name}: {:?} lacks {message:?}", fault.message);
            let line_text: String =
                text.trim_start_matches('\u{feff}').lines().nth(line as usize - 1).unwrap_or_default().to_owned();
            let marked: String = line_text.chars().skip(column as usize - 1).collect();
            assert_eq!(under_the_caret(fault, text), marked, "{name}: the caret is at another place");
        }
        let fatal = loaded.diagnostics.iter().any(|it| it.severity == Severity::Fatal);
        assert_eq!(
            loaded.config.is_none(),
            fatal,
            "{name}: the file was refused without a fatal fault, or loaded with one"
        );
        assert_exactly_the_faulty_rows_rest(name, &loaded);
    }
}

/// The marks of the corpus contain only a part of each message; `messages.txt` contains the whole
/// text that a person sees.
#[test]
fn every_message_of_the_corpus_is_recorded() {
    let rendered = corpus().into_iter().map(|(name, text)| {
        let found = config::load(&text).diagnostics;
        found.iter().map(|it| format!("{}{}\n", it.render(&text, &name), it.path)).collect::<String>()
    });
    is_current("tests/config_faults/messages.txt", &rendered.collect::<Vec<_>>().join("\n"));
}

/// A row is disabled if and only if an error was reported inside it.
fn assert_exactly_the_faulty_rows_rest(name: &str, loaded: &Loaded) {
    let Some(config) = &loaded.config else { return };
    let faulty = |path: &str| {
        loaded.errors().any(|it| {
            it.path == path || it.path.starts_with(&format!("{path}.")) || it.path.starts_with(&format!("{path}["))
        })
    };
    let modes =
        config.modes.iter().enumerate().map(|(index, mode)| {
            (format!("modes[{index}].mappings"), format!("modes[{index}].continuous"), &mode.rows)
        });
    let global = ("global_mappings".to_owned(), "global_continuous".to_owned(), &config.global);
    for (mappings, continuous, rows) in modes.chain(std::iter::once(global)) {
        for (index, row) in rows.mappings.iter().enumerate() {
            let path = format!("{mappings}[{index}]");
            assert_eq!(row.rule.is_none(), faulty(&path), "{name}: {path}");
        }
        for (index, row) in rows.continuous.iter().enumerate() {
            let path = format!("{continuous}[{index}]");
            assert_eq!(row.binding.is_none(), faulty(&path), "{name}: {path}");
        }
    }
}

/// Negative control: the comparison above fails if an expected column is wrong by one.
#[test]
fn a_wrong_mark_is_noticed() {
    let (_, text) = corpus().into_iter().find(|(name, _)| name == "cc-128").unwrap();
    let (line, column, ..) = expected(&text)[0];
    let moved = text.replace(&format!("#~ {line}:{column}"), &format!("#~ {line}:{}", column + 1));
    let loaded = config::load(&moved);
    assert_ne!(
        (loaded.diagnostics[0].line, loaded.diagnostics[0].column),
        (expected(&moved)[0].0, expected(&moved)[0].1)
    );
}

/// A leaf of a document: its path, and the ranges of its last key and of its value.
struct Leaf {
    path: String,
    key: Option<Range<usize>>,
    value: Range<usize>,
}

fn leaves(text: &str) -> Vec<Leaf> {
    fn item(path: String, key: Option<Range<usize>>, held: &toml_edit::Item, out: &mut Vec<Leaf>) {
        match held {
            toml_edit::Item::None => {}
            toml_edit::Item::Value(it) => value(path, key, it, out),
            toml_edit::Item::Table(it) => {
                for (name, _) in it {
                    let (key, held) = it.get_key_value(name).unwrap();
                    item(format!("{path}.{name}"), key.span(), held, out);
                }
            }
            toml_edit::Item::ArrayOfTables(it) => {
                for (index, element) in it.iter().enumerate() {
                    item(format!("{path}[{index}]"), None, &toml_edit::Item::Table(element.clone()), out);
                }
            }
        }
    }
    fn value(path: String, key: Option<Range<usize>>, held: &toml_edit::Value, out: &mut Vec<Leaf>) {
        if let Some(it) = held.as_inline_table() {
            for (name, _) in it {
                let (key, held) = it.get_key_value(name).unwrap();
                item(format!("{path}.{name}"), key.span(), held, out);
            }
        } else if let Some(it) = held.as_array() {
            for (index, element) in it.iter().enumerate() {
                value(format!("{path}[{index}]"), None, element, out);
            }
        }
        out.push(Leaf { path: path.trim_start_matches('.').to_owned(), key, value: held.span().unwrap() });
    }
    let document = toml_edit::Document::parse(text).unwrap();
    let mut out = Vec::new();
    item(String::new(), None, document.as_item(), &mut out);
    out
}

fn spliced(text: &str, at: &Range<usize>, with: &str) -> String {
    format!("{}{with}{}", &text[..at.start], &text[at.end..])
}

/// The item that contains a path. An error at this path disables the item.
fn item_of(path: &str) -> &str {
    let rows = ["mappings[", "continuous["];
    if let Some(at) = rows.iter().find_map(|it| path.find(it)) {
        let end = path[at..].find(']').map_or(path.len(), |it| at + it + 1);
        return &path[..end];
    }
    if path.starts_with("devices[") || path.starts_with("routes[") || path.starts_with("feedback[") {
        return &path[..path.find(']').unwrap() + 1];
    }
    path
}

/// The configuration without one item, as text for comparison.
fn without(config: &Config, item: &str) -> String {
    let mut rest = config.clone();
    let indexes: Vec<usize> = item.split(['[', ']']).filter_map(|it| it.parse().ok()).collect();
    let last = indexes.last().copied().unwrap_or(0);
    if item.starts_with("modes[") && indexes.len() == 2 {
        let rows = &mut rest.modes[indexes[0]].rows;
        if item.contains("mappings") {
            rows.mappings.remove(last);
        } else {
            rows.continuous.remove(last);
        }
    } else if item.starts_with("global_mappings[") {
        rest.global.mappings.remove(last);
    } else if item.starts_with("devices[") {
        rest.devices.retain(|it| it.alias != config.devices[last].alias);
    } else if item.starts_with("routes") {
        rest.routes.clear();
    } else if item.starts_with("feedback") {
        rest.feedback.clear();
    } else if let Some(key) = item.strip_prefix("advanced_settings.") {
        return format!("{rest:?}").split(", ").filter(|it| !it.contains(key)).collect::<Vec<_>>().join(", ");
    } else {
        // The item is a key of a small section: compare everything outside these sections.
        rest.watch = Default::default();
        rest.performance = Default::default();
        rest.led = Default::default();
        rest.per_app_modes = None;
        rest.policy = None;
        rest.limits = Default::default();
        rest.circuit = Default::default();
        rest.retry = Default::default();
        rest.audit = Default::default();
        rest.http = Default::default();
        rest.mcp = Default::default();
        rest.default_mode = String::new();
        rest.modes.iter_mut().for_each(|it| it.color = None);
    }
    format!("{rest:?}")
}

/// Whether an error at this path correctly affects more than its own item: a name that other items
/// use, or the version of the file.
fn is_a_name(path: &str) -> bool {
    path.ends_with(".alias")
        || path.ends_with(".name") && path.starts_with("modes[")
        || path.ends_with("].id")
        // A mapping depends on the row that allows its program.
        || path.starts_with("tools.shell.commands[")
        || path == "schema"
}

/// Whether the path is a top-level key other than `default_mode`. Such a value contains several
/// items, so an error in the whole value affects all of them.
fn holds_items(path: &str) -> bool {
    !path.contains(['.', '[']) && path != "default_mode"
}

#[test]
fn a_wrong_value_anywhere_is_told_at_its_place_and_disables_its_item_alone() {
    let base = config::load(STUDIO).config.unwrap();
    let mut count = 0;
    for leaf in leaves(STUDIO).iter().filter(|it| !is_a_name(&it.path) && !holds_items(&it.path)) {
        // No key accepts a date.
        let text = spliced(STUDIO, &leaf.value, "1979-05-27");
        let loaded = config::load(&text);
        let found: Vec<String> = loaded.diagnostics.iter().map(|it| it.render(&text, &leaf.path)).collect();
        let fault = loaded.diagnostics.first().unwrap_or_else(|| panic!("{}: no fault", leaf.path));
        assert_eq!(loaded.diagnostics.len(), 1, "{}", found.join("\n"));
        assert_eq!(fault.span.start, leaf.value.start, "{}", found.join("\n"));
        assert!(under_the_caret(fault, &text).starts_with("1979-05-27"), "{}", found.join("\n"));
        let config = loaded.config.unwrap();
        let item = item_of(&leaf.path);
        assert_eq!(without(&config, item), without(&base, item), "{}: more than {item} changed", leaf.path);
        count += 1;
    }
    assert!(count > 100, "only {count} places");
}

#[test]
fn a_misspelt_key_anywhere_is_told_at_its_place_with_what_was_meant() {
    let base = config::load(STUDIO).config.unwrap();
    let mut count = 0;
    // These tables accept any key: their keys are names, tool arguments or JSON pointers.
    let free = ["mode_colors.", "rules.", "arguments.", "args.", "circuit.tools."];
    for leaf in leaves(STUDIO).iter().filter(|it| !is_a_name(&it.path) && !free.iter().any(|key| it.path.contains(key)))
    {
        let Some(key) = leaf.key.clone() else { continue };
        let name = &STUDIO[key.clone()];
        let text = spliced(STUDIO, &key, &format!("{name}q"));
        let loaded = config::load(&text);
        let found: Vec<String> = loaded.diagnostics.iter().map(|it| it.render(&text, &leaf.path)).collect();
        if name == "type" {
            // Without `type` the table cannot be checked, so the diagnostic is reported for the
            // whole table.
            assert!(found.iter().any(|it| it.contains("`type` is missing")), "{}", found.join("\n"));
        } else {
            let fault = loaded
                .errors()
                .find(|it| it.span.start == key.start)
                .unwrap_or_else(|| panic!("{}: {found:?}", leaf.path));
            assert_eq!(fault.message, format!("unknown key `{name}q`"));
            assert_eq!(fault.help, Some(format!("did you mean `{name}`?")), "{}", leaf.path);
        }
        let config = loaded.config.unwrap();
        let item = item_of(&leaf.path);
        if !holds_items(&leaf.path) {
            assert_eq!(without(&config, item), without(&base, item), "{}: more than {item} changed", leaf.path);
        }
        count += 1;
    }
    assert!(count > 100, "only {count} keys");
}

#[test]
fn torn_files_never_panic_and_every_place_is_inside_the_text() {
    let mut dice = Dice(3);
    let check = |text: &str| {
        let loaded = config::load(text);
        let lines = text.lines().count() as u32;
        for fault in &loaded.diagnostics {
            assert!(fault.line >= 1 && fault.line <= lines + 1, "{fault:?}");
            assert!(fault.span.start <= text.len() && text.is_char_boundary(fault.span.start), "{fault:?}");
            assert!(fault.render(text, "config.toml").contains('^'));
        }
    };
    for cut in (0..STUDIO.len()).step_by(37).filter(|it| STUDIO.is_char_boundary(*it)) {
        check(&STUDIO[..cut]);
        check(&STUDIO[cut..]);
    }
    let odd = [
        "\"", "'''", "[", "]]", "{", "}", "=", ",", "\n", "\r", "#", ".", "\u{feff}", "\0", "♪", "1e999", "nan", "0x",
        "-", "\\u00",
    ];
    for _ in 0..1500 {
        let mut text = STUDIO.to_owned();
        for _ in 0..1 + dice.below(4) {
            let at = dice.below(text.len());
            if !text.is_char_boundary(at) {
                continue;
            }
            match dice.below(3) {
                0 => text.insert_str(at, dice.pick::<&str>(&odd)),
                1 => {
                    text.remove(at);
                }
                _ => {
                    let end = (at + dice.below(60)).min(text.len());
                    if text.is_char_boundary(end) {
                        text.replace_range(at..end, "");
                    }
                }
            }
        }
        check(&text);
    }
}

#[test]
fn every_field_of_the_file_changes_the_configuration() {
    let text = include_str!("../config_fixtures/every-field.toml");
    let loaded = config::load(text);
    let found: Vec<String> = loaded.errors().map(|it| it.render(text, "every-field.toml")).collect();
    assert_eq!(found, Vec::<String>::new());
    let base = loaded.config.unwrap();
    // Each line with a setting contains another valid value in its comment: `key = 1 #| 2`.
    let mut varied = 0;
    for line in text.lines().filter(|line| line.contains(" #| ")) {
        let (setting, other) = line.split_once(" #| ").unwrap();
        let (key, _) = setting.split_once(" = ").unwrap();
        let changed = text.replace(line, &format!("{key} = {other}"));
        assert_ne!(changed, text);
        let loaded = config::load(&changed);
        let found: Vec<String> = loaded.errors().map(|it| it.render(&changed, "changed")).collect();
        assert_eq!(found, Vec::<String>::new(), "{line}");
        assert_ne!(loaded.config.unwrap(), base, "{line} changes nothing");
        varied += 1;
        let removed = text.replace(line, "");
        assert_ne!(config::load(&removed).config, Some(base.clone()), "{line}: leaving it out changes nothing");
    }
    assert!(varied >= 60, "only {varied} fields");
}
