//! `conductor plans`: changes of the configuration that wait for a person.

use super::approvals::{ask_yes, at_a_terminal};
use super::args::{Plans, PlansCommand};
use super::{Failure, Verdict, ask, list, out::Out, text};
use crate::daemon::home::Home;
use conductor_core::text::escape;
use serde_json::{Value, json};
use std::io;

pub fn run(args: Plans, home: &Home, out: &mut Out) -> Result<Verdict, Failure> {
    match args.command {
        PlansCommand::List => {
            let answer = ask(home, "plans.list", json!({}))?;
            out.show(&answer, |out, answer| {
                if list(answer, "plans").is_empty() {
                    return out.line("no plans");
                }
                for plan in list(answer, "plans") {
                    let id = text(plan, "plan_id");
                    let short = answer["shorts"][id].as_str().unwrap_or(id);
                    out.line(format_args!(
                        "{short}  {:<8}  {}",
                        text(plan, "status"),
                        escape(text(plan, "description"))
                    ))?;
                }
                Ok(())
            })?;
        }
        PlansCommand::Show { id } => {
            let record = ask(home, "plans.show", json!({ "id": id }))?;
            out.show(&record, show)?;
        }
        PlansCommand::Apply { id } => {
            at_a_terminal()?;
            let applied = ask(home, "plans.apply", json!({ "id": id }))?;
            out.show(&applied, |out, applied| {
                out.line(format_args!("applied: {}", escape(text(&applied["plan"], "description"))))?;
                for fault in list(applied, "faults") {
                    out.line(format_args!("  {}", fault.as_str().unwrap_or_default()))?;
                }
                Ok(())
            })?;
        }
        PlansCommand::Reject { id } => {
            at_a_terminal()?;
            let plan = ask(home, "plans.reject", json!({ "id": id }))?;
            out.show(&plan, |out, plan| out.line(format_args!("rejected: {}", escape(text(plan, "description")))))?;
        }
        PlansCommand::Undo { id } => {
            at_a_terminal()?;
            let inverse = ask(home, "plans.undo", json!({ "id": id }))?;
            diff(out, text(&inverse, "diff_preview"))?;
            let inverse_id = text(&inverse, "plan_id");
            if ask_yes(out, "Undo it like this?")? {
                let applied = ask(home, "plans.apply", json!({ "id": inverse_id }))?;
                out.show(&applied, |out, _| out.line("undone"))?;
            } else {
                ask(home, "plans.reject", json!({ "id": inverse_id }))?;
                out.line("left as it is")?;
                return Ok(Verdict::Bad);
            }
        }
    }
    Ok(Verdict::Good)
}

fn show(out: &mut Out, record: &Value) -> io::Result<()> {
    out.line(format_args!("Plan {} ({})", text(record, "short"), text(record, "state")))?;
    out.line(format_args!("  what     {}", escape(text(record, "summary"))))?;
    out.line(format_args!("  who      {}", escape(text(record, "principal"))))?;
    out.line(format_args!("  until    {}", text(record, "expires_at")))?;
    for warning in list(record, "warnings") {
        out.line(format_args!("  warning  {}", escape(warning.as_str().unwrap_or_default())))?;
    }
    out.line("")?;
    diff(out, text(record, "diff_preview"))?;
    if record["state"] == "pending" {
        out.line(format_args!(
            "\nconductor plans apply {}   or   conductor plans reject {}",
            text(record, "short"),
            text(record, "short")
        ))?;
    }
    Ok(())
}

fn diff(out: &mut Out, preview: &str) -> io::Result<()> {
    for line in preview.split('\n') {
        out.line(escape(line))?;
    }
    Ok(())
}
