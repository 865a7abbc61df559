//! The example configurations and the TOML blocks of three documents load, and the links of the
//! documentation lead to files.

use conductor_core::config;
use std::path::Path;

#[test]
fn every_example_configuration_is_sound() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|it| it != "toml") {
            continue;
        }
        seen += 1;
        let text = std::fs::read_to_string(&path).unwrap();
        let faults: Vec<String> = config::load(&text).diagnostics.iter().map(|it| it.summary()).collect();
        assert!(faults.is_empty(), "{}: {}", path.display(), faults.join("\n"));
    }
    assert!(seen > 0, "no example was found");
}

/// The TOML blocks of a document.
fn blocks(document: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut lines = document.lines();
    while lines.by_ref().any(|it| it.trim() == "```toml") {
        found.push(lines.by_ref().take_while(|it| it.trim() != "```").collect::<Vec<_>>().join("\n"));
    }
    found
}

#[test]
fn what_the_documents_show_can_be_used() {
    let documents = [
        include_str!("../../../../README.md"),
        include_str!("../../../../docs/first-steps.md"),
        include_str!("../../../../docs/configuration.md"),
    ];
    let shown: Vec<String> = documents.iter().flat_map(|it| blocks(it)).collect();
    assert!(!shown.is_empty());
    for block in shown {
        // A mapping may be shown without its mode, so add a mode.
        let around = if block.contains("[[modes]]") { "" } else { "[[modes]]\nname = \"Default\"\n" };
        let loaded = config::load(&format!("schema = 1\n{around}{block}"));
        assert!(loaded.valid(), "{block}\n{:?}", loaded.diagnostics);
    }
}

#[test]
fn the_manual_lists_every_page_and_every_link_leads_to_a_file() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let names = |folder: &str| -> Vec<String> {
        let entries = std::fs::read_dir(root.join(folder)).unwrap().flatten();
        entries.filter_map(|it| it.file_name().into_string().ok()).filter(|it| it.ends_with(".md")).collect()
    };
    let manual = std::fs::read_to_string(root.join("docs/README.md")).unwrap();
    for page in names("docs").iter().filter(|it| *it != "README.md") {
        assert!(manual.contains(&format!("({page})")), "docs/README.md does not list {page}");
    }
    for (folder, page) in [".", "docs"].into_iter().flat_map(|it| names(it).into_iter().map(move |page| (it, page))) {
        let text = std::fs::read_to_string(root.join(folder).join(&page)).unwrap();
        for link in text.split("](").skip(1).filter_map(|it| it.split([')', '#']).next()) {
            if !link.is_empty() && !link.starts_with("http") {
                assert!(root.join(folder).join(link).exists(), "{folder}/{page} links to {link}, which does not exist");
            }
        }
    }
}
