//! `conductor modes`: lists the modes.

use super::call::tool_and_show;
use super::out::{Out, Tone, cell};
use super::{Failure, Verdict, list, text};
use crate::home::Home;
use serde_json::json;

pub fn run(home: &Home, out: &mut Out) -> Result<Verdict, Failure> {
    tool_and_show(home, out, ("conductor_list_modes", json!({})), |out, modes| {
        let rows = list(modes, "modes").iter().map(|mode| {
            let is_current = mode["name"] == modes["current"];
            let (mark, tone) = if is_current { ("*", Tone::Strong) } else { (" ", Tone::Plain) };
            let name = tone.cell(format_args!("{mark} {}", text(mode, "name")));
            let count = cell(format_args!("{:>4} mappings", mode["mapping_count"].as_u64().unwrap_or(0)));
            vec![name, count, cell(mode["color"].as_str().unwrap_or(""))]
        });
        out.table(&rows.collect::<Vec<_>>())
    })
}
