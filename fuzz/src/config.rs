//! Configuration: the meaning of a file does not depend on its layout, and every diagnostic points
//! into the text.

use crate::SEEDED;
use conductor_core::config::{Config, load};

fn read(text: &str) -> (Option<Config>, usize) {
    let mut loaded = load(text);
    for it in &loaded.diagnostics {
        assert!(text.get(it.span.clone()).is_some(), "the span {:?} is not in the text: {}", it.span, it.message);
    }
    // The seeded mistake: Windows line ends disable the first mapping.
    if SEEDED
        && text.contains("\r\n")
        && let Some(mapping) =
            loaded.config.iter_mut().flat_map(|it| &mut it.modes).flat_map(|it| &mut it.rows.mappings).next()
    {
        mapping.enabled = false;
    }
    let errors = loaded.errors().count();
    (loaded.config, errors)
}

pub fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let (config, errors) = read(text);
    assert!(config.is_some() || errors > 0, "a file was refused without an error");
    let Ok(table) = toml::from_str::<toml::Table>(text.strip_prefix('\u{feff}').unwrap_or(text)) else {
        assert!(config.is_none(), "`toml` refuses a file that we accept");
        return;
    };
    let Ok(canonical) = toml::to_string(&table) else { return };
    assert_eq!(
        (&config, errors),
        (&read(&canonical).0, read(&canonical).1),
        "the layout changed the meaning:\n{canonical}"
    );
    if !text.contains("\"\"\"") && !text.contains("'''") && !text.contains('\r') {
        let windows = text.replace('\n', "\r\n");
        assert_eq!(config, read(&windows).0, "Windows line ends changed the meaning");
    }
}
