//! `conductor modes`.

use super::{Failure, Verdict, ask, list, out::Out, text};
use crate::home::Home;
use serde_json::json;

pub fn run(home: &Home, out: &mut Out) -> Result<Verdict, Failure> {
    let modes = ask(home, "modes", json!({}))?;
    out.show(&modes, |out, modes| {
        for mode in list(modes, "modes") {
            let mark = if mode["name"] == modes["current"] { "*" } else { " " };
            let count = &mode["mapping_count"];
            let color = mode["color"].as_str().unwrap_or("");
            out.line(format_args!("{mark} {:<16} {count:>4} mappings  {color}", text(mode, "name")))?;
        }
        Ok(())
    })?;
    Ok(Verdict::Good)
}
