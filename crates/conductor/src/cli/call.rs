//! `conductor call TOOL [JSON]`: calls any tool through the pipeline. If the call needs an approval
//! and stdin is a terminal, this command asks the person.

use super::approvals::ask_yes;
use super::args::CallArgs;
use super::{Failure, Verdict, ask, out::Out, question};
use crate::doors::control::client::ClientError;
use crate::home::Home;
use serde_json::{Value, json};
use std::io::{self, IsTerminal, Read};

pub fn run(args: CallArgs, home: &Home, out: &mut Out) -> Result<Verdict, Failure> {
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
    let params = json!({ "tool": args.tool, "arguments": arguments });
    let result = match ask(home, "call", params.clone()) {
        Err(Failure::Client(ClientError::Refused(refused)))
            if refused.data["code"] == "APPROVAL_REQUIRED" && io::stdin().is_terminal() && !out.is_json() =>
        {
            let id = refused.data["approval_id"].as_str().unwrap_or_default().to_owned();
            let open = ask(home, "approvals.show", json!({ "id": id }))?;
            out.text(&question::of_answer(&open)?)?;
            if ask_yes(out, "Allow this call once?")? {
                ask(home, "approvals.allow", json!({ "id": id }))?;
                ask(home, "call", params)?
            } else {
                ask(home, "approvals.deny", json!({ "id": id }))?;
                return Err(Failure::Text("not allowed".into()));
            }
        }
        other => other?,
    };
    out.data(&result)?;
    // A plugin may return an error as its result.
    Ok(Verdict::good_if(result["isError"] != true))
}
