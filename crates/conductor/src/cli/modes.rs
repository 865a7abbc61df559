//! `conductor modes`: lists the modes.

use super::call::tool_and_show;
use super::{Failure, Verdict, list, out::Out, text};
use crate::home::Home;
use serde_json::json;

pub fn run(home: &Home, out: &mut Out) -> Result<Verdict, Failure> {
    tool_and_show(home, out, ("conductor_list_modes", json!({})), |out, modes| {
        list(modes, "modes").iter().try_for_each(|mode| {
            let mark = if mode["name"] == modes["current"] { "*" } else { " " };
            let count = &mode["mapping_count"];
            let color = mode["color"].as_str().unwrap_or("");
            out.line(format_args!("{mark} {:<16} {count:>4} mappings  {color}", text(mode, "name")))
        })
    })
}
