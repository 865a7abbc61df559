//! `conductor call TOOL [JSON]`: calls any tool through the pipeline. `conductor call TOOL --help`
//! prints the arguments of a tool.
//!
//! If a call needs an approval and stdin is a terminal, the person is asked there. Every command
//! that runs a tool uses [`tool`].

use super::approvals::ask_yes;
use super::args::{Args, CallArgs};
use super::{Failure, Verdict, ask, list, out::Out, question, remote, text};
use crate::doors::control::client::{Client, ClientError};
use crate::home::Home;
use clap::CommandFactory;
use conductor_core::text::escape;
use conductor_gateway::catalog::docs;
use serde_json::{Value, json};
use std::io::{self, IsTerminal, Read};

pub fn run(args: CallArgs, home: &Home, out: &mut Out) -> Result<Verdict, Failure> {
    let name = match args.tool {
        Some(name) if args.help => return help_of(&name, home, out),
        Some(name) => name,
        None => return help(home, out),
    };
    let text = match args.arguments.as_deref() {
        None => "{}".to_owned(),
        Some("-") => {
            let mut text = String::new();
            io::stdin().read_to_string(&mut text)?;
            text
        }
        Some(text) => text.to_owned(),
    };
    let arguments: Value = serde_json::from_str(&text).map_err(|error| {
        Failure::Text(format!("the arguments are not JSON: {error}; write them like '{{\"mode\":\"Mix\"}}'"))
    })?;
    let result = match &args.remote {
        Some(url) => remote::call(url, args.fingerprint, &name, &arguments)?,
        None => tool(home, out, &name, arguments)?,
    };
    out.data(&result)?;
    // A plugin may report an error in its result.
    Ok(Verdict::good_if(result["isError"] != true))
}

/// Calls a tool. Asks the person at this terminal if the call needs an approval.
pub fn tool(home: &Home, out: &mut Out, tool: &str, arguments: Value) -> Result<Value, Failure> {
    let mut client = Client::connect(&home.control_socket())?;
    match client.call(tool, arguments.clone()) {
        Err(ClientError::Refused(refused))
            if refused.data["code"] == "APPROVAL_REQUIRED" && io::stdin().is_terminal() && !out.is_json() =>
        {
            let id = refused.data["approval_id"].as_str().unwrap_or_default().to_owned();
            let open = ask(home, "pending.show", json!({ "id": id }))?;
            out.text(&question::of_answer(&open)?)?;
            if ask_yes(out, "Allow this call once?")? {
                ask(home, "approvals.allow", json!({ "id": id }))?;
                Ok(client.call(tool, arguments)?)
            } else {
                ask(home, "approvals.deny", json!({ "id": id }))?;
                Err(Failure::Text("the call was not allowed".into()))
            }
        }
        other => Ok(other?),
    }
}

/// Prints the help of this command, and the names of all tools if a daemon runs.
fn help(home: &Home, out: &mut Out) -> Result<Verdict, Failure> {
    let mut command = Args::command();
    command.build();
    if let Some(call) = command.find_subcommand_mut("call") {
        out.text(&call.render_long_help().to_string())?;
    }
    if let Ok(answer) = ask(home, "tools.list", json!({})) {
        out.line("\nTools:")?;
        for it in list(&answer, "tools") {
            out.line(format_args!("  {:<32} {}", text(it, "name"), escape(text(it, "title"))))?;
        }
    }
    Ok(Verdict::Good)
}

/// Prints the description and the arguments of a tool, from its schema.
fn help_of(name: &str, home: &Home, out: &mut Out) -> Result<Verdict, Failure> {
    let answer = ask(home, "tools.list", json!({ "tool": name }))?;
    let Some(tool) = list(&answer, "tools").first() else {
        return Err(Failure::Text(format!("there is no tool {name}; `conductor call --help` lists the tools")));
    };
    out.show(tool, |out, tool| {
        out.line(format_args!("{} ({}): {}", text(tool, "name"), text(tool, "tier"), escape(text(tool, "title"))))?;
        out.line(format_args!("\n{}", escape(text(tool, "description"))))?;
        arguments(&tool["input_schema"]).iter().try_for_each(|it| out.line(it))
    })
}

/// Lines that describe the arguments of a schema: name, type, whether required, default,
/// description.
fn arguments(schema: &Value) -> Vec<String> {
    let Some(properties) = schema["properties"].as_object().filter(|it| !it.is_empty()) else {
        return vec!["\nNo arguments.".to_owned()];
    };
    let mut lines = vec!["\nArguments:".to_owned()];
    for (name, schema_of) in properties {
        let mut facts = vec![docs::kind(schema_of)];
        if list(schema, "required").iter().any(|it| it == name) {
            facts.push("required".to_owned());
        }
        facts.extend(schema_of.get("default").map(|it| format!("default {it}")));
        lines.push(format!("  {}  ({})", escape(name), escape(&facts.join(", "))));
        lines.extend(schema_of["description"].as_str().map(|it| format!("      {}", escape(it))));
    }
    lines
}

/// Calls a tool and prints its answer, as JSON or with the function `text`.
pub fn tool_and_show(
    home: &Home,
    out: &mut Out,
    (name, arguments): (&str, Value),
    text: impl FnOnce(&mut Out, &Value) -> io::Result<()>,
) -> Result<Verdict, Failure> {
    let answer = tool(home, out, name, arguments)?;
    out.show(&answer, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_of_a_tool_lists_every_fact_of_an_argument() {
        let schema = json!({
            "required": ["mode"],
            "properties": {
                "mode": { "type": "string", "description": "Mode name" },
                "limit": { "type": "integer", "default": 50, "description": "Number of records" },
                "outcome": { "enum": ["fired", "muted"] },
            },
        });
        let lines = [
            "\nArguments:",
            "  mode  (string, required)",
            "      Mode name",
            "  limit  (integer, default 50)",
            "      Number of records",
            "  outcome  (fired, muted)",
        ];
        assert_eq!(arguments(&schema), lines);
        assert_eq!(arguments(&json!({ "properties": {} })), ["\nNo arguments."]);
    }
}
