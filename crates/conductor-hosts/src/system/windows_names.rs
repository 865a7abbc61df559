//! Names that Windows does not treat as the name of one file: devices, alternate streams, names
//! that lose their last characters, and paths that leave the current drive.
//!
//! The rules work on text alone and compile on every system, so that their tests run everywhere.

use std::path::Path;

/// Why a path cannot be used inside a root on Windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    #[error("names a device of Windows (such as CON, NUL or COM1)")]
    Device,
    #[error("contains a colon, which selects a drive or an alternate stream of a file")]
    Colon,
    #[error("has a name that ends with a dot or a space, which Windows removes")]
    Trailing,
    #[error("contains a character that Windows does not allow in a name")]
    Character,
    #[error("starts with a slash: it names a drive, a server or a device instead of a file in the folder")]
    Rooted,
    #[error("has a name of the short form (such as PROGRA~1), which can mean another file")]
    Short,
}

/// Names that refer to a device in every folder, with any extension.
const DEVICES: &[&str] = &["CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$", "CLOCK$"];

/// Checks a path that is relative to a root. An empty path is the root.
pub fn check(path: &Path) -> Result<(), NameError> {
    check_text(&path.to_string_lossy())
}

pub fn check_text(path: &str) -> Result<(), NameError> {
    // A leading slash also covers UNC paths (`\\server`), `\\?\` and `\\.\`.
    if path.starts_with(['\\', '/']) {
        return Err(NameError::Rooted);
    }
    path.split(['\\', '/']).filter(|it| !it.is_empty() && *it != "." && *it != "..").try_for_each(check_name)
}

fn check_name(name: &str) -> Result<(), NameError> {
    if name.contains(':') {
        return Err(NameError::Colon);
    }
    if name.chars().any(|it| it.is_control() || matches!(it, '<' | '>' | '"' | '|' | '?' | '*')) {
        return Err(NameError::Character);
    }
    // In the name of a device, Windows ignores everything after the first dot, and spaces before
    // that dot.
    let stem = name.split('.').next().unwrap_or_default().trim_end().to_uppercase();
    if DEVICES.contains(&stem.as_str()) || is_numbered_port(&stem) {
        return Err(NameError::Device);
    }
    if name.ends_with(['.', ' ']) {
        return Err(NameError::Trailing);
    }
    if is_short(name) { Err(NameError::Short) } else { Ok(()) }
}

/// `COM0` to `COM9` and `LPT0` to `LPT9`, also with superscript digits.
fn is_numbered_port(stem: &str) -> bool {
    let digit = stem.strip_prefix("COM").or_else(|| stem.strip_prefix("LPT"));
    digit.is_some_and(|it| it.chars().count() == 1 && it.chars().all(|it| it.is_ascii_digit() || "¹²³".contains(it)))
}

/// A name of the form `PROGRA~1.TXT`: at most eight characters that end with `~` and digits, and an
/// extension of at most three characters.
fn is_short(name: &str) -> bool {
    let (stem, extension) = name.split_once('.').unwrap_or((name, ""));
    let tail = stem.rsplit_once('~').map(|(_, number)| number);
    stem.chars().count() <= 8
        && extension.chars().count() <= 3
        && !extension.contains('.')
        && tail.is_some_and(|it| !it.is_empty() && it.bytes().all(|it| it.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_names_are_accepted() {
        let names = [
            "",
            ".",
            "a.als",
            "sets/kick drum.als",
            r"sets\日本.pd",
            "console.txt",
            "COMA",
            "com10.txt",
            "null",
            "a..b",
            ".hidden",
            "lpt",
            "my~file.txt",
            "backup~2026.als",
            "../up",
        ];
        for name in names {
            assert_eq!(check_text(name), Ok(()), "{name}");
        }
    }

    #[test]
    fn every_attack_on_names_is_refused() {
        use NameError::*;
        let rows = [
            ("CON", Device),
            ("con", Device),
            ("Nul.txt", Device),
            ("aux .als", Device),
            ("sets/PRN.tar.gz", Device),
            ("COM1", Device),
            (r"a\lpt9.pd", Device),
            ("COM²", Device),
            ("CONIN$", Device),
            ("a.als::$DATA", Colon),
            ("a.als:hidden", Colon),
            ("C:", Colon),
            (r"C:\Windows", Colon),
            ("c:relative", Colon),
            ("a.als.", Trailing),
            ("a.als ", Trailing),
            ("folder./a.als", Trailing),
            (".. /a", Trailing),
            ("...", Trailing),
            (r"\\server\share", Rooted),
            (r"\\?\C:\a", Rooted),
            (r"\\.\pipe\x", Rooted),
            ("//server/share", Rooted),
            (r"\a", Rooted),
            ("a|b", Character),
            ("a*.als", Character),
            ("a\0b", Character),
            ("PROGRA~1", Short),
            ("SECRET~1.TOM", Short),
            ("x/conduc~2/y", Short),
        ];
        for (name, why) in rows {
            assert_eq!(check_text(name), Err(why), "{name}");
        }
    }
}
