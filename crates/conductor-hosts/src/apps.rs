//! Lists the names of the running programs, for the condition `AppRunning`.
//!
//! Not here: which window has the focus (`focus`), and how often the list is read
//! (`owner::desktop`).

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The names of all running programs. Empty on macOS.
pub fn running() -> BTreeSet<String> {
    crate::system::processes::program_names().unwrap_or_else(|| names(Path::new("/proc")))
}

/// Lists both the kernel's name of each process and the file name at the start of its command line.
/// The kernel truncates names to 15 characters. For a script that was started directly, the
/// kernel's name is that of the script, and the command line starts with the interpreter.
fn names(proc: &Path) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(proc).into_iter().flatten().flatten() {
        let is_process = entry.file_name().to_str().is_some_and(|it| it.bytes().all(|it| it.is_ascii_digit()));
        if !is_process {
            continue;
        }
        // A process may end during the scan. Its names are then empty and are left out.
        let known = fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
        let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let first = command.split(|it| *it == 0).next().unwrap_or_default();
        let started = String::from_utf8_lossy(first.rsplit(|it| *it == b'/').next().unwrap_or_default()).into_owned();
        names.extend([known.trim_end().to_owned(), started].into_iter().filter(|it| !it.is_empty()));
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_very_test_runs_and_a_made_up_program_does_not() {
        let names = running();
        let own = std::env::current_exe().unwrap();
        // Windows lists programs without their extension.
        let own = own.with_extension("");
        let own = own.file_name().unwrap().to_str().unwrap();
        assert!(names.contains(own), "{own} is not in {names:?}");
        assert!(!names.contains("no such program"));
    }

    #[test]
    fn names_come_from_both_files_and_strange_folders_are_passed_over() {
        let dir = tempfile::tempdir().unwrap();
        let process = |pid: &str, comm: &str, command: &[u8]| {
            let at = dir.path().join(pid);
            fs::create_dir(&at).unwrap();
            fs::write(at.join("comm"), comm).unwrap();
            fs::write(at.join("cmdline"), command).unwrap();
        };
        process("12", "a-very-long-nam\n", b"/usr/bin/a-very-long-name-of-a-program\0--flag\0");
        process("13", "kworker\n", b"");
        process("self", "not counted\n", b"");
        let wanted = ["a-very-long-nam", "a-very-long-name-of-a-program", "kworker"].map(str::to_owned);
        assert_eq!(names(dir.path()), BTreeSet::from(wanted));
    }
}
