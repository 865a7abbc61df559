//! Decides which texts are absolute paths on an operating system. The rules use only the text of
//! the path, so the rules of each system can be tested on every system.
//!
//! Not here: whether the file exists, and where links lead.

use super::Platform;

/// The part of a help text that says how an absolute path begins.
pub(crate) fn beginning(platform: Option<Platform>) -> &'static str {
    match platform {
        Some(Platform::Windows) => "a drive, such as `C:\\`",
        Some(Platform::Linux | Platform::MacOs) | None => "`/`",
    }
}

/// An example path of a program with this name, for help texts.
pub(crate) fn program(name: &str, platform: Option<Platform>) -> String {
    match platform {
        Some(Platform::Windows) => format!("C:\\Windows\\System32\\{}.exe", name.trim_end_matches(".exe")),
        Some(Platform::Linux | Platform::MacOs) | None => format!("/usr/bin/{name}"),
    }
}

/// Whether a path is absolute: it names the same file in every working folder. If the system is
/// unknown, the absolute paths of all systems are accepted.
pub(crate) fn is_absolute(path: &str, platform: Option<Platform>) -> bool {
    match platform {
        Some(Platform::Linux | Platform::MacOs) => path.starts_with('/'),
        Some(Platform::Windows) => is_on_a_drive(path) || is_on_a_server(path),
        None => path.starts_with('/') || is_on_a_drive(path) || is_on_a_server(path),
    }
}

/// Whether a path contains a `..` step to a parent folder.
pub(crate) fn goes_up(path: &str) -> bool {
    // Windows ignores spaces at the end of a name.
    path.split(is_separator).any(|it| it.trim_end() == "..")
}

/// Whether a path has the form `C:\folder` or `C:/folder`. Two other forms are refused: `C:folder`
/// is relative to the working folder of the drive, and a second colon selects an alternate data
/// stream.
fn is_on_a_drive(path: &str) -> bool {
    let mut letters = path.chars();
    letters.next().is_some_and(|it| it.is_ascii_alphabetic())
        && letters.next() == Some(':')
        && letters.next().is_some_and(is_separator)
        && !letters.any(|it| it == ':')
}

/// Whether a path has the form `\\server\share\folder`. The servers `?` and `.` are refused,
/// because they select the device namespace of Windows.
fn is_on_a_server(path: &str) -> bool {
    let Some(rest) = path.strip_prefix("\\\\").or_else(|| path.strip_prefix("//")) else { return false };
    let mut parts = rest.split(is_separator);
    let server = parts.next().unwrap_or_default();
    let share = parts.next().unwrap_or_default();
    !matches!(server, "" | "?" | "." | "..") && !share.is_empty() && !rest.contains(':')
}

fn is_separator(it: char) -> bool {
    matches!(it, '\\' | '/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_system_has_its_own_absolute_paths() {
        let (unix, windows) =
            ("/srv/studio", [r"C:\Studio", "d:/Sets", r"C:\", r"\\nas\music\Sets", r"C:\Räume 日本\a.db"]);
        for system in [Platform::Linux, Platform::MacOs] {
            assert!(is_absolute(unix, Some(system)));
            for path in windows {
                assert!(!is_absolute(path, Some(system)), "{path}");
            }
        }
        assert!(!is_absolute(unix, Some(Platform::Windows)), "a path without a drive was accepted as absolute");
        for path in windows {
            assert!(is_absolute(path, Some(Platform::Windows)), "{path}");
            assert!(is_absolute(path, None), "{path}");
        }
        assert!(is_absolute(unix, None));
    }

    #[test]
    fn attacks_on_windows_paths_are_refused() {
        let rows = [
            "",
            "C:",
            "C:relative",
            r"C:\a.db:stream",
            r"C:\a::$DATA",
            r"\Windows",
            r"\\?\C:\a",
            r"\\.\pipe\x",
            r"//?/C:/a",
            r"\\server",
            r"\\server\",
            r"\\\share",
            r"\\..\share",
            r"\\server\share\a:b",
            "1:\\a",
            "é:\\a",
            "relative",
            r"..\up",
            "NUL",
        ];
        for path in rows {
            assert!(!is_absolute(path, Some(Platform::Windows)), "{path}");
        }
    }

    #[test]
    fn a_step_to_a_parent_folder_is_found_in_both_spellings() {
        for path in ["/a/../b", r"C:\a\..\b", r"C:\a\.. \b", ".."] {
            assert!(goes_up(path), "{path}");
        }
        for path in ["/a/b", r"C:\a..b\c", "/a/..b", "/a/.b", r"C:\a\.\b"] {
            assert!(!goes_up(path), "{path}");
        }
    }
}
