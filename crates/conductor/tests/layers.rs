//! Arrows point down only. Reads every `crate::` path of the source and fails on one that points up.

use std::path::{Path, PathBuf};

/// From the top down. A module may use its own layer and those below.
const LAYERS: &[&[&str]] = &[
    &["main", "lib", "cli"],
    &["daemon", "doors"],
    // They are the two sides of one seam: the pipeline runs tools, tools speak in its words, and the studio holds both.
    &["pipeline", "tools", "studio"],
    &["audit_log", "pending_store", "secrets"],
    &["hosts"],
    // Pictures to pixels, and files written whole: they know nothing of the rest.
    &["outside", "whole_file", "paint"],
];

/// Messages are how anything reaches the owner, so whoever is below may hold its handle and read its reports.
const WANTED: &[(&str, &str)] = &[("tools", "daemon::handle"), ("tools", "daemon::report")];

fn layer(module: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.contains(&module))
}

/// `(module, path it uses)` for every path that points up, or that names a module without a layer.
fn upward(module: &str, source: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, _) in source.match_indices("crate::") {
        let rest = &source[at + "crate::".len()..];
        let path: String = rest.chars().take_while(|it| it.is_ascii_lowercase() || matches!(it, '_' | ':')).collect();
        let target = path.split("::").next().unwrap_or_default();
        let (Some(from), Some(to)) = (layer(module), layer(target)) else {
            found.push(format!("{module} uses {path}, which has no layer"));
            continue;
        };
        let wanted = WANTED.iter().any(|(who, what)| *who == module && path.starts_with(what));
        if to < from && !wanted {
            found.push(format!("{module} uses {path}"));
        }
    }
    found
}

fn files(folder: &Path, out: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, out);
        } else if path.extension().is_some_and(|it| it == "rs") {
            out.push(path);
        }
    }
}

#[test]
fn no_arrow_points_up() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut all = Vec::new();
    files(&root, &mut all);
    assert!(all.len() > 50, "the source was found");
    let mut wrong = Vec::new();
    for path in all {
        let inside = path.strip_prefix(&root).unwrap();
        let module = inside.iter().next().unwrap().to_str().unwrap().trim_end_matches(".rs");
        let source = std::fs::read_to_string(&path).unwrap();
        wrong.extend(upward(module, &source).into_iter().map(|it| format!("{}: {it}", inside.display())));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_checker_sees_an_arrow_that_points_up() {
    assert_eq!(upward("hosts", "use crate::daemon::Daemon;").len(), 1);
    assert_eq!(upward("tools", "use crate::doors::mcp;").len(), 1);
    assert_eq!(upward("tools", "use crate::daemon::run;").len(), 1);
    assert_eq!(upward("hosts", "use crate::nowhere::x;").len(), 1);
    assert!(upward("tools", "use crate::daemon::handle::Handle; use crate::hosts::midi;").is_empty());
}
