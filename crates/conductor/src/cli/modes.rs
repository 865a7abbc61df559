//! `conductor modes`: lists the modes.

use super::{Failure, Verdict, ask_and_show, list, out::Out, text};
use crate::home::Home;
use serde_json::json;

pub fn run(home: &Home, out: &mut Out) -> Result<Verdict, Failure> {
    ask_and_show(home, out, ("modes", json!({})), |out, modes| {
        list(modes, "modes").iter().try_for_each(|mode| {
            let mark = if mode["name"] == modes["current"] { "*" } else { " " };
            let count = &mode["mapping_count"];
            let color = mode["color"].as_str().unwrap_or("");
            out.line(format_args!("{mark} {:<16} {count:>4} mappings  {color}", text(mode, "name")))
        })
    })
}
