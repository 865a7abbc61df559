//! Tests the file that the first start writes: it must equal the defaults, and every example in it
//! must work.

use conductor_core::config::{self, Config, TUTORIAL};

/// Whether a line belongs to an example: it begins with `#` without a blank after it. `#:` begins a
/// line for editors.
fn is_example(line: &str) -> bool {
    line.strip_prefix('#').is_some_and(|rest| !rest.is_empty() && !rest.starts_with([' ', ':']))
}

/// The line ranges of the examples.
fn examples(lines: &[&str]) -> Vec<std::ops::Range<usize>> {
    let mut out: Vec<std::ops::Range<usize>> = Vec::new();
    for (index, _) in lines.iter().enumerate().filter(|(_, line)| is_example(line)) {
        match out.last_mut() {
            Some(last) if last.end == index => last.end = index + 1,
            Some(_) | None => out.push(index..index + 1),
        }
    }
    out
}

fn uncommented(lines: &[&str], chosen: &[std::ops::Range<usize>]) -> String {
    let inside = |index: usize| chosen.iter().any(|it| it.contains(&index));
    let text = lines.iter().enumerate().map(|(index, line)| {
        let line = if inside(index) { line.strip_prefix('#').unwrap_or(line) } else { line };
        format!("{line}\n")
    });
    text.collect()
}

fn assert_loads(text: &str) -> Config {
    let loaded = config::load(text);
    let shown: Vec<String> = loaded.diagnostics.iter().map(|it| it.render(text, "config.toml")).collect();
    assert!(shown.is_empty(), "{}", shown.join("\n"));
    loaded.config.unwrap()
}

#[test]
fn as_written_it_is_the_default() {
    assert_eq!(assert_loads(TUTORIAL), Config::default());
}

#[test]
fn every_example_works_on_its_own_and_all_work_together() {
    let lines: Vec<&str> = TUTORIAL.lines().collect();
    let examples = examples(&lines);
    assert!(examples.len() >= 20, "only {} examples", examples.len());
    for example in &examples {
        let text = uncommented(&lines, std::slice::from_ref(example));
        let config = assert_loads(&text);
        let first = lines[example.start];
        let says_the_default = first.starts_with("#default_mode");
        assert_eq!(config == Config::default(), says_the_default, "the example at {first} has an unexpected effect");
    }
    let config = assert_loads(&uncommented(&lines, &examples));
    assert_eq!((config.modes.len(), config.devices.len()), (2, 6));
}
