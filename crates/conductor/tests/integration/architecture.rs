//! Compares the table of the pad path in ARCHITECTURE.md with the source tree.

use std::path::Path;

const MOST_FILES: usize = 11;

/// Faults of the table that starts at the mark of the pad path and ends at the next empty line.
fn faults(document: &str, lines_of: impl Fn(&str) -> Option<usize>) -> Vec<String> {
    let Some((_, after)) = document.split_once("<!-- pad path:") else { return vec!["no pad path".to_owned()] };
    let table = after.lines().skip_while(|it| !it.starts_with('|')).take_while(|it| it.starts_with('|')).skip(2);
    let mut faults = Vec::new();
    let mut files = 0;
    for row in table {
        files += 1;
        let mut cells = row.split('|').map(str::trim).skip(1);
        let file = cells.next().unwrap_or_default().trim_matches('`');
        let Some(listed) = cells.next().and_then(|it| it.parse::<usize>().ok()) else {
            faults.push(format!("{file}: no line count"));
            continue;
        };
        match lines_of(file) {
            None => faults.push(format!("{file}: there is no such file")),
            Some(real) if real.abs_diff(listed) * 10 > real => {
                faults.push(format!("{file}: {listed} lines are listed, the file has {real}"));
            }
            Some(_) => {}
        }
    }
    if files == 0 || files > MOST_FILES {
        faults.push(format!("{files} files are listed, at most {MOST_FILES} are allowed"));
    }
    faults
}

#[test]
fn the_pad_path_is_listed_as_it_is() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let document = std::fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap();
    let lines_of = |file: &str| Some(std::fs::read_to_string(root.join("crates").join(file)).ok()?.lines().count());
    assert_eq!(faults(&document, lines_of), Vec::<String>::new());
}

#[test]
fn a_wrong_table_is_found() {
    let table = |rows: &str| format!("<!-- pad path: -->\n\n| file | lines | what |\n|---|---|---|\n{rows}\n\nend");
    let lines_of = |file: &str| (file == "a.rs").then_some(100);
    let check = |rows: &str| faults(&table(rows), lines_of).join("; ");
    assert_eq!(check("| `a.rs` | 110 | x |"), "");
    assert_eq!(check("| `a.rs` | 111 | x |"), "a.rs: 111 lines are listed, the file has 100");
    assert_eq!(check("| `b.rs` | 100 | x |"), "b.rs: there is no such file");
    assert_eq!(check("| `a.rs` | many | x |"), "a.rs: no line count");
    assert_eq!(check(&["| `a.rs` | 100 | x |"; 12].join("\n")), "12 files are listed, at most 11 are allowed");
    assert_eq!(faults("no table", lines_of), ["no pad path"]);
}
