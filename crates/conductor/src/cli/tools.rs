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
    #[arg(long, value_name = "NAME", value_parser = ["core", "live", "patch", "stage", "seed", "all"])]
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
    out.line(format_args!("{name} {}", text(tool, "signature")))?;
    out.line(format_args!("{}, {}, set {}", text(tool, "title"), text(tool, "tier"), text(tool, "toolset")))?;
    out.line(text(tool, "description"))?;
    for (argument, schema) in tool["input_schema"]["properties"].as_object().into_iter().flatten() {
        out.line(format_args!("  {argument:<18} {}", text(schema, "description")))?;
    }
    if tool["example"].is_object() {
        out.line(format_args!("example: conductor call {name} \'{}\'", tool["example"]))?;
    }
    Ok(())
}
