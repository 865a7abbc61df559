//! Lists and searches a root, with limits for entries, bytes and time.
//!
//! Links are listed but never followed, so that a walk cannot loop.

use super::{FileError, Place};
use crate::rooted::{self, File, Kind, Metadata};
use crate::system::Clock;
use cap_fs_ext::DirExt as _;
use cap_std::fs::Dir;
use conductor_core::event::Micros;
use regex::Regex;
use std::ffi::OsString;
use std::io::Read;
use std::path::{Path, PathBuf};
use tokio_util::sync::CancellationToken;

/// Maximum number of entries in one page.
const PAGE: usize = 1000;
/// Number of bytes at the start of a text file that are searched.
const MOST_SEARCHED: u64 = 8 << 20;
/// Number of bytes at the start of a file that are checked for a NUL. A file with a NUL there is
/// not treated as text.
const LOOKED_AT: u64 = 8192;
/// Longest line in a result, in characters.
const LINE: usize = 400;

#[derive(Debug)]
pub struct Entry {
    /// The path relative to the listed folder.
    pub name: String,
    pub kind: Kind,
    pub size: u64,
    pub modified_ms: i64,
}

#[derive(Debug)]
pub struct Listing {
    pub entries: Vec<Entry>,
    /// The cursor for the next page.
    pub next: Option<String>,
}

pub struct Query {
    pub pattern: Regex,
    /// Must match the path relative to the searched folder.
    pub glob: Option<Regex>,
    pub limit: usize,
    /// The time to stop, on the studio's clock.
    pub until: Micros,
}

#[derive(Debug)]
pub struct Match {
    pub path: String,
    pub line: u64,
    pub column: u64,
    pub text: String,
}

#[derive(Debug)]
pub struct Found {
    pub matches: Vec<Match>,
    /// Whether there may be more matches: the limit or the deadline was reached, or a text file is
    /// longer than [`MOST_SEARCHED`].
    pub truncated: bool,
}

struct Item {
    name: OsString,
    kind: Kind,
    metadata: Metadata,
}

/// The entries of a folder, sorted by name, so that a cursor stays valid for the next call.
fn items(folder: &Dir) -> Vec<Item> {
    let Ok(entries) = folder.entries() else { return Vec::new() };
    let mut items: Vec<Item> = entries
        .filter_map(Result::ok)
        .filter_map(|entry| {
            let metadata = entry.metadata().ok()?;
            Some(Item { name: entry.file_name(), kind: Kind::of(&metadata), metadata })
        })
        .collect();
    items.sort_by(|a, b| a.name.cmp(&b.name));
    items
}

impl Place {
    /// Lists the names in this folder, `depth` levels deep, starting after `cursor`.
    pub fn list(&self, depth: u32, cursor: Option<&str>, cancel: &CancellationToken) -> Result<Listing, FileError> {
        let folder = self.open_folder(&self.inside)?;
        let mut listing = Listing { entries: Vec::new(), next: None };
        walk_list(&folder, Path::new(""), depth, cursor.map(Path::new), cancel, &mut listing);
        Ok(listing)
    }

    /// Finds the lines that match the pattern, in this file or in all files below this folder.
    pub fn search(&self, query: &Query, clock: &dyn Clock, cancel: &CancellationToken) -> Result<Found, FileError> {
        let found = Found { matches: Vec::new(), truncated: false };
        let mut search = Search { query, clock, cancel, found, is_over: false };
        let (kind, ..) = self.kind()?;
        if kind == Kind::File {
            let (file, _) = self.open_file()?;
            search.file(file, self.inside.file_name().map_or_else(PathBuf::new, PathBuf::from));
        } else {
            let folder = self.open_folder(&self.inside)?;
            search.folder(&folder, Path::new(""));
        }
        Ok(search.found)
    }
}

/// Returns false when the page is full or the call was cancelled.
fn walk_list(
    folder: &Dir,
    at: &Path,
    depth: u32,
    cursor: Option<&Path>,
    cancel: &CancellationToken,
    listing: &mut Listing,
) -> bool {
    for item in items(folder) {
        if cancel.is_cancelled() {
            return false;
        }
        let path = at.join(&item.name);
        let behind = cursor.is_none_or(|it| path.as_path() > it);
        if behind {
            if listing.entries.len() == PAGE {
                listing.next = listing.entries.last().map(|it| it.name.clone());
                return false;
            }
            listing.entries.push(Entry {
                name: rooted::slashed(&path),
                kind: item.kind,
                size: if item.kind == Kind::File { item.metadata.len() } else { 0 },
                modified_ms: rooted::modified_ms(&item.metadata),
            });
        }
        // A folder before the cursor may contain entries after the cursor.
        let worth = behind || cursor.is_some_and(|it| it.starts_with(&path));
        if depth > 1
            && item.kind == Kind::Folder
            && worth
            && let Ok(inner) = folder.open_dir_nofollow(&item.name)
            && !walk_list(&inner, &path, depth - 1, cursor, cancel, listing)
        {
            return false;
        }
    }
    true
}

struct Search<'a> {
    query: &'a Query,
    clock: &'a dyn Clock,
    cancel: &'a CancellationToken,
    found: Found,
    /// Whether no more files are searched.
    is_over: bool,
}

impl Search<'_> {
    fn over(&mut self) -> bool {
        if self.cancel.is_cancelled() || self.clock.now() >= self.query.until {
            self.stop();
        }
        self.is_over
    }

    fn stop(&mut self) {
        (self.is_over, self.found.truncated) = (true, true);
    }

    fn folder(&mut self, folder: &Dir, at: &Path) {
        for item in items(folder) {
            if self.over() {
                return;
            }
            let path = at.join(&item.name);
            match item.kind {
                Kind::Folder => {
                    if let Ok(inner) = folder.open_dir_nofollow(&item.name) {
                        self.folder(&inner, &path);
                    }
                }
                Kind::File => {
                    let fits = self.query.glob.as_ref().is_none_or(|it| it.is_match(&rooted::slashed(&path)));
                    if fits && let Ok((file, _)) = rooted::open_entry(folder, &item.name) {
                        self.file(file, path);
                    }
                }
                Kind::Link | Kind::Other => {}
            }
        }
    }

    fn file(&mut self, mut file: File, path: PathBuf) {
        let mut bytes = Vec::new();
        let start = file.by_ref().take(LOOKED_AT).read_to_end(&mut bytes);
        if start.is_err() || bytes.contains(&0) {
            return;
        }
        if file.take(MOST_SEARCHED + 1 - LOOKED_AT).read_to_end(&mut bytes).is_err() {
            return;
        }
        if bytes.len() as u64 > MOST_SEARCHED {
            self.found.truncated = true;
            bytes.truncate(MOST_SEARCHED as usize);
        }
        let text = String::from_utf8_lossy(&bytes);
        for (number, line) in text.lines().enumerate() {
            let Some(hit) = self.query.pattern.find(line) else { continue };
            if self.found.matches.len() >= self.query.limit {
                self.stop();
            }
            if self.over() {
                return;
            }
            let column = line.get(..hit.start()).map_or(0, |it| it.chars().count()) as u64 + 1;
            self.found.matches.push(Match {
                path: rooted::slashed(&path),
                line: number as u64 + 1,
                column,
                text: line.chars().take(LINE).collect(),
            });
        }
    }
}

/// Converts a glob to a regular expression for a relative path. `*` and `?` do not match `/`, `**`
/// does. A glob without `/` is compared with the file name only.
pub fn glob(text: &str) -> Result<Regex, regex::Error> {
    let mut pattern = String::from(if text.contains('/') { "^" } else { "^(?:.*/)?" });
    let mut rest = text.chars().peekable();
    while let Some(letter) = rest.next() {
        match letter {
            '*' if rest.peek() == Some(&'*') => {
                rest.next();
                // `**/` also matches the empty path.
                if rest.peek() == Some(&'/') {
                    rest.next();
                    pattern.push_str("(?:.*/)?");
                } else {
                    pattern.push_str(".*");
                }
            }
            '*' => pattern.push_str("[^/]*"),
            '?' => pattern.push_str("[^/]"),
            other => pattern.push_str(&regex::escape(other.encode_utf8(&mut [0; 4]))),
        }
    }
    pattern.push('$');
    Regex::new(&pattern)
}
