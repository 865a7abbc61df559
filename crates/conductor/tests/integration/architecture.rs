//! Compares the tables of the two paths in ARCHITECTURE.md with the source tree.

use std::path::Path;

/// The maximum number of files and lines of a path through the code.
struct Limits {
    name: &'static str,
    files: usize,
    lines: usize,
}

const PAD: Limits = Limits { name: "pad path", files: 11, lines: 5000 };
const CALL: Limits = Limits { name: "call path", files: 9, lines: 2500 };

/// Faults in the first table after the comment `<!-- NAME:` of the document. The table ends at the
/// first line that does not start with `|`.
fn faults(limits: &Limits, document: &str, lines_of: impl Fn(&str) -> Option<usize>) -> Vec<String> {
    let Some((_, after)) = document.split_once(&format!("<!-- {}:", limits.name)) else {
        return vec![format!("there is no table of the {}", limits.name)];
    };
    let table = after.lines().skip_while(|it| !it.starts_with('|')).take_while(|it| it.starts_with('|')).skip(2);
    let mut faults = Vec::new();
    let (mut files, mut lines) = (0, 0);
    for row in table {
        files += 1;
        let mut cells = row.split('|').map(str::trim).skip(1);
        let file = cells.next().unwrap_or_default().trim_matches('`');
        let Some(listed) = cells.next().and_then(|it| it.parse::<usize>().ok()) else {
            faults.push(format!("{file}: no line count"));
            continue;
        };
        lines += listed;
        match lines_of(file) {
            None => faults.push(format!("{file}: there is no such file")),
            Some(real) if real.abs_diff(listed) * 10 > real => {
                faults.push(format!("{file}: {listed} lines are listed, the file has {real}"));
            }
            Some(_) => {}
        }
    }
    if files == 0 || files > limits.files {
        faults.push(format!("{files} files are listed, at most {} are allowed", limits.files));
    }
    if lines > limits.lines {
        faults.push(format!("{lines} lines are listed, at most {} are allowed", limits.lines));
    }
    faults
}

#[test]
fn both_paths_are_listed_as_they_are() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let document = std::fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap();
    let lines_of = |file: &str| Some(std::fs::read_to_string(root.join("crates").join(file)).ok()?.lines().count());
    for path in [PAD, CALL] {
        assert_eq!(faults(&path, &document, lines_of), Vec::<String>::new(), "{}", path.name);
    }
}

#[test]
fn a_wrong_table_is_found() {
    let table = |rows: &str| format!("<!-- pad path: -->\n\n| file | lines | what |\n|---|---|---|\n{rows}\n\nend");
    let lines_of = |file: &str| (file == "a.rs").then_some(100);
    let check = |rows: &str| faults(&PAD, &table(rows), lines_of).join("; ");
    assert_eq!(check("| `a.rs` | 110 | x |"), "");
    assert_eq!(check("| `a.rs` | 111 | x |"), "a.rs: 111 lines are listed, the file has 100");
    assert_eq!(check("| `b.rs` | 100 | x |"), "b.rs: there is no such file");
    assert_eq!(check("| `a.rs` | many | x |"), "a.rs: no line count");
    assert_eq!(check(&["| `a.rs` | 100 | x |"; 12].join("\n")), "12 files are listed, at most 11 are allowed");
    let short = Limits { lines: 99, ..PAD };
    let long = faults(&short, &table("| `a.rs` | 100 | x |"), lines_of);
    assert_eq!(long, ["100 lines are listed, at most 99 are allowed"]);
    assert_eq!(faults(&CALL, "no table", lines_of), ["there is no table of the call path"]);
}
