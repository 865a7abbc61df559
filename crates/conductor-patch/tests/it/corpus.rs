//! Real patch files. `CONDUCTOR_PATCH_CORPUS` names a folder of Max patches, and
//! `CONDUCTOR_PD_CORPUS` a folder of Pd patches (default: the folders where Debian installs Pd). If
//! the first variable is not set, or there are no Pd patches, these files are skipped with a
//! message.

use std::path::{Path, PathBuf};

use conductor_patch::{Document, Format, Limits};

#[expect(clippy::disallowed_methods, reason = "environment variables name the folders of real files")]
fn named(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).map(PathBuf::from)
}

fn collect(folder: &Path, found: &mut Vec<(PathBuf, Format)>) {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            collect(&path, found);
        } else if let Some(format) = path.file_name().and_then(|name| Format::of_name(&name.to_string_lossy())) {
            found.push((path, format));
        }
    }
}

pub struct Sample {
    pub name: String,
    pub format: Format,
    pub bytes: Vec<u8>,
}

impl Sample {
    pub fn open(&self) -> Document {
        Document::open(self.bytes.clone(), self.format, &Limits::default())
            .unwrap_or_else(|error| panic!("{}: {error}", self.name))
    }
}

fn read(folders: &[PathBuf]) -> Vec<Sample> {
    let mut found = Vec::new();
    for folder in folders {
        collect(folder, &mut found);
    }
    // Resolve links, because one folder may contain a link to another.
    for (path, _) in &mut found {
        *path = path.canonicalize().unwrap();
    }
    found.sort();
    found.dedup();
    found
        .into_iter()
        .map(|(path, format)| Sample { name: path.display().to_string(), format, bytes: std::fs::read(&path).unwrap() })
        .collect()
}

/// Real Max files. Prints the reason and returns an empty list when no folder is named.
pub fn max() -> Vec<Sample> {
    match named("CONDUCTOR_PATCH_CORPUS") {
        Some(folder) => {
            let found = read(&[folder]);
            assert!(!found.is_empty(), "CONDUCTOR_PATCH_CORPUS names a folder without patches");
            found
        }
        None => {
            println!("skipped: CONDUCTOR_PATCH_CORPUS is not set");
            Vec::new()
        }
    }
}

/// Real Pd files. Prints the reason and returns an empty list when there are none.
pub fn pd() -> Vec<Sample> {
    let folders = match named("CONDUCTOR_PD_CORPUS") {
        Some(folder) => vec![folder],
        None => vec![PathBuf::from("/usr/lib/puredata"), PathBuf::from("/usr/share/puredata")],
    };
    let found = read(&folders);
    if found.is_empty() {
        println!("skipped: no Pd patches (set CONDUCTOR_PD_CORPUS, or install puredata-extra and puredata-doc)");
    }
    found
}

/// The fixtures of this crate; every style occurs in them.
pub fn fixtures() -> Vec<Sample> {
    let found = read(&[Path::new(env!("CARGO_MANIFEST_DIR")).join("../conductor-patch/tests/fixtures")]);
    assert!(found.len() >= 8, "the fixtures are missing");
    found
}

/// One fixture by its file name.
pub fn fixture(name: &str) -> Sample {
    fixtures()
        .into_iter()
        .find(|sample| sample.name.rsplit(['/', '\\']).next() == Some(name))
        .unwrap_or_else(|| panic!("no fixture {name}"))
}

/// The fixtures and all real files.
pub fn all() -> Vec<Sample> {
    let mut found = fixtures();
    found.extend(max());
    found.extend(pd());
    found
}
