//! Command templates: a command line is accepted exactly if a slow comparison, word by word,
//! accepts it. A value never becomes an option or a second word.

use crate::SEEDED;
use conductor_core::command::{CommandEffect, Ready, Slot, Template, Word, by_argv, by_name};
use regex::Regex;
use std::collections::BTreeMap;

fn template() -> Template {
    let slots = [
        ("count".to_owned(), Slot::Integer { min: -5, max: 200 }),
        ("path".to_owned(), Slot::Path { root: "studio".into() }),
        ("kind".to_owned(), Slot::Enum(vec!["a".into(), "-b".into()])),
        ("word".to_owned(), Slot::Text { pattern: Regex::new("^(?:[a-z=./:@ -]+)$").expect("a pattern") }),
    ];
    let slot = |it: &str| Word::Slot(it.to_owned());
    Template {
        name: "log".into(),
        program: "/usr/bin/git".into(),
        digest: None,
        words: vec![
            Word::Fixed("log".into()),
            slot("count"),
            slot("kind"),
            slot("word"),
            Word::Fixed("--".into()),
            slot("path"),
        ],
        cwd: None,
        effect: CommandEffect::Read,
        env: BTreeMap::new(),
        timeout_ms: 1000,
        slots: slots.into_iter().collect(),
    }
}

/// The words of the command that would be run; `None` if no template accepts `argv`.
fn fit(argv: &[String]) -> Option<Vec<String>> {
    let templates = [template()];
    // The seeded mistake: spaces at the end of a word are ignored.
    let argv: Vec<String> = argv.iter().map(|it| if SEEDED { it.trim_end() } else { it.as_str() }.to_owned()).collect();
    let (_, words) = by_argv(&templates, &argv).ok()?;
    Some(
        words
            .into_iter()
            .map(|it| match it {
                Ready::Text(text) => text,
                Ready::Path { path, .. } => path,
            })
            .collect(),
    )
}

fn fit_slowly(argv: &[String]) -> Option<Vec<String>> {
    let [program, log, count, kind, word, dashes, path] = argv else { return None };
    let is_plain = |it: &str| !it.starts_with('-') && !it.chars().any(|it| "\0\n\r".contains(it)) && it.len() <= 4096;
    let digits = count.strip_prefix('+').unwrap_or(count);
    let is_number = !digits.is_empty() && digits.chars().all(|it| it.is_ascii_digit());
    let number = is_number.then(|| digits.parse::<u128>().ok()).flatten().filter(|it| *it <= 200)?;
    let fits = ["log", "/usr/bin/git", "git"].contains(&program.as_str())
        && log == "log"
        && dashes == "--"
        && kind == "a"
        && !word.is_empty()
        && word.chars().all(|it| it.is_ascii_lowercase() || "=./:@ -".contains(it))
        && is_plain(word)
        && is_plain(path)
        && count.len() <= 4096;
    fits.then(|| vec![log.clone(), number.to_string(), kind.clone(), word.clone(), dashes.clone(), path.clone()])
}

pub fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let argv: Vec<String> = text.split('|').map(str::to_owned).collect();
    let words = fit(&argv);
    assert_eq!(words, fit_slowly(&argv), "{argv:?}");
    let templates = [template()];
    if let (Some(words), Some(rest)) = (words, argv.get(1..)) {
        let values = templates[0].values(rest);
        let (_, named) = by_name(&templates, "log", &values).expect("the same values do not fill the template by name");
        assert_eq!(named.len(), words.len());
    }
}
