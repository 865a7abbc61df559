//! `conductor tools`: lists the tools, or shows one with its arguments and an example.

use super::out::{Out, Tone, cell};
use super::{Failure, Verdict, ask, list, text};
use crate::home::Home;
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use std::io;

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct ToolsArgs {
    /// List the tools of a view: core, live, patch, stage, seed or all
    #[arg(long, value_name = "NAME", value_parser = super::args::views())]
    view: Option<String>,
    #[command(subcommand)]
    command: Option<ToolsCommand>,
}

#[derive(Debug, Subcommand)]
enum ToolsCommand {
    /// Show one tool: signature, tier, arguments and an example
    Show {
        /// Name of the tool, such as conductor_send_midi
        name: String,
    },
}

pub fn run(args: &ToolsArgs, home: &Home, out: &mut Out) -> Result<Verdict, Failure> {
    let view = args.view.as_deref().unwrap_or("all");
    match &args.command {
        Some(ToolsCommand::Show { name }) => {
            let answer = ask(home, "tools.list", json!({ "tool": name }))?;
            let Some(tool) = list(&answer, "tools").first() else {
                return Err(Failure::Text(format!("there is no tool {name:?}; `conductor tools` lists every tool")));
            };
            out.show(tool, show)
        }
        None => {
            let mut answer = ask(home, "tools.list", json!({}))?;
            if let Some(tools) = answer["tools"].as_array_mut() {
                tools.retain(|it| list(it, "views").iter().any(|it| it == view));
                // The sort is stable: the tools of a toolset keep their order.
                tools.sort_by(|a, b| text(a, "toolset").cmp(text(b, "toolset")));
            }
            out.show(&answer, |out, answer| {
                let mut toolset = "";
                let mut rows = Vec::new();
                for tool in list(answer, "tools") {
                    if text(tool, "toolset") != toolset {
                        toolset = text(tool, "toolset");
                        rows.push(vec![Tone::Strong.cell(toolset)]);
                    }
                    let tier = text(tool, "tier");
                    let tone = if tier == "ReadOnly" { Tone::Good } else { Tone::Note };
                    let name = cell(format_args!("  {}", text(tool, "name")));
                    rows.push(vec![name, tone.cell(tier), cell(text(tool, "title"))]);
                }
                out.table(&rows)
            })
        }
    }
}

fn show(out: &mut Out, tool: &Value) -> io::Result<()> {
    let name = text(tool, "name");
    out.line(format_args!("{name} {}", wrapped(text(tool, "signature"), name.len() + 1)))?;
    out.line(format_args!("{}, {}, toolset {}", text(tool, "title"), text(tool, "tier"), text(tool, "toolset")))?;
    out.line(text(tool, "description"))?;
    for (argument, schema) in tool["input_schema"]["properties"].as_object().into_iter().flatten() {
        out.line(format_args!("  {argument:<18} {}", text(schema, "description")))?;
    }
    if tool["example"].is_object() {
        out.line(format_args!("example: conductor call {name} \'{}\'", tool["example"]))?;
    }
    Ok(())
}

/// Longest line of a wrapped signature.
const WIDTH: usize = 100;

/// Wraps a long signature: one member per line, and alternatives on further lines.
fn wrapped(signature: &str, first: usize) -> String {
    let mut lines = String::new();
    wrap(&mut lines, signature.trim(), 0, first);
    lines
}

/// Appends `text` at `column`, and breaks it at its outermost braces, commas or bars.
fn wrap(out: &mut String, text: &str, indent: usize, column: usize) {
    if column + text.len() <= WIDTH {
        return out.push_str(text);
    }
    let new_line = |out: &mut String, indent: usize| {
        out.push('\n');
        out.push_str(&" ".repeat(indent));
    };
    let alternatives = pieces(text, '|');
    if let [_] = alternatives.as_slice() {
        let Some((before, inside, after)) = outermost(text) else { return out.push_str(text) };
        out.push_str(before);
        out.push('{');
        for member in pieces(inside, ',') {
            new_line(out, indent + 2);
            wrap(out, member, indent + 2, indent + 2);
            out.push(',');
        }
        new_line(out, indent);
        out.push('}');
        return wrap(out, after, indent, indent + 1);
    }
    let mut at = column;
    for (nth, piece) in alternatives.into_iter().enumerate() {
        // Names share a line while they fit. An object starts a new line.
        if nth > 0 && (piece.contains('{') || at + 3 + piece.len() > WIDTH) {
            new_line(out, indent + 2);
            out.push_str("| ");
            at = indent + 4;
        } else if nth > 0 {
            out.push_str(" | ");
            at += 3;
        }
        wrap(out, piece, indent + 2, at);
        at += piece.len();
    }
}

/// Splits a text at its first pair of matching braces: before, inside and after them.
fn outermost(text: &str) -> Option<(&str, &str, &str)> {
    let open = text.find('{')?;
    let mut depth = 0_usize;
    for (at, byte) in text.bytes().enumerate().skip(open) {
        match byte {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some((text.get(..open)?, text.get(open + 1..at)?.trim(), text.get(at + 1..)?));
        }
    }
    None
}

/// The parts between separators that are not inside braces, brackets, parentheses or quotes.
fn pieces(text: &str, separator: char) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut depth, mut quoted, mut start) = (0_usize, false, 0);
    for (at, letter) in text.char_indices() {
        match letter {
            '"' => quoted = !quoted,
            '{' | '[' | '(' | '<' if !quoted => depth += 1,
            '}' | ']' | ')' | '>' if !quoted => depth = depth.saturating_sub(1),
            letter if letter == separator && !quoted && depth == 0 => {
                parts.extend(text.get(start..at));
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.extend(text.get(start..));
    parts.into_iter().map(str::trim).filter(|it| !it.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn without_space(text: &str) -> String {
        text.replace(",\n", "\n").chars().filter(|it| !it.is_whitespace() && *it != ',').collect()
    }

    #[test]
    fn a_long_signature_is_broken_between_its_members() {
        assert_eq!(wrapped("{mode: string, position?: int}", 20), "{mode: string, position?: int}");
        let note =
            "{type: \"Note\", note: 0..127, device?: string, channel?: 0..15, velocity?: {min?: 0..127, max?: 0..127}}";
        let chord = "{type: \"NoteChord\", notes: (0..127)[], timeout_ms?: 1..5000}";
        let names: Vec<String> = (0..40).map(|it| format!("\"Action{it}\"")).collect();
        let long = format!(
            "{{mode: string, trigger: {note} | {chord}, action: {{type: {}, …}}, enabled?: bool}}",
            names.join("|")
        );
        let shown = wrapped(&long, 24);
        assert!(shown.lines().all(|it| it.chars().count() <= WIDTH), "{shown}");
        assert!(shown.contains("\n  mode: string,\n") && shown.contains("\n    | {type: \"NoteChord\""), "{shown}");
        assert_eq!(without_space(&shown), without_space(&long));
    }
}
