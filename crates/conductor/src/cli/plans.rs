//! `conductor plans`: changes of the configuration that wait for a person.

use super::approvals::{ask_yes, at_a_terminal};
use super::args::{Plans, PlansCommand};
use super::{Failure, Verdict, ask, list, out::Out, question, text};
use crate::home::Home;
use conductor_core::pending::Fact;
use conductor_core::text::escape;
use serde_json::{Value, json};
use std::io;

pub fn run(args: Plans, home: &Home, out: &mut Out) -> Result<Verdict, Failure> {
    match args.command {
        PlansCommand::List => {
            let answer = ask(home, "plans.list", json!({}))?;
            out.show(&answer, |out, answer| {
                if list(answer, "plans").is_empty() && list(answer, "edits").is_empty() {
                    return out.line("no plans");
                }
                let row = |short: &str, state: &str, what: &str| Fact {
                    label: short.to_owned(),
                    text: format!("{state}  {what}"),
                };
                let edits = list(answer, "edits").iter().map(|it| row(text(it, "short"), "done", text(it, "summary")));
                let plans = list(answer, "plans").iter().map(|it| {
                    let id = text(it, "plan_id");
                    row(answer["shorts"][id].as_str().unwrap_or(id), text(it, "status"), text(it, "description"))
                });
                question::list(out, edits.chain(plans))
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
            let record = ask(home, "plans.show", json!({ "id": id }))?;
            if record["kind"] == "edit" {
                return undo_edit(&record, home, out);
            }
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

/// A file is put back as it was.
fn undo_edit(record: &Value, home: &Home, out: &mut Out) -> Result<Verdict, Failure> {
    out.line(escape(text(record, "summary")))?;
    if !ask_yes(out, "Put back what was there before?")? {
        out.line("left as it is")?;
        return Ok(Verdict::Bad);
    }
    let undone = ask(home, "plans.undo", json!({ "id": record["id"] }))?;
    out.show(&undone, |out, undone| out.line(format_args!("undone: {}", escape(text(undone, "path")))))?;
    Ok(Verdict::Good)
}

fn show(out: &mut Out, record: &Value) -> io::Result<()> {
    out.line(format_args!("Plan {} ({})", text(record, "short"), text(record, "state")))?;
    let fact = |label: &str, text: &str| Fact { label: label.to_owned(), text: text.to_owned() };
    let mut facts = vec![
        fact("what", text(record, "summary")),
        fact("who", text(record, "principal")),
        fact("until", text(record, "expires_at")),
    ];
    facts.extend(list(record, "warnings").iter().map(|it| fact("warning", it.as_str().unwrap_or_default())));
    let mut shown = String::new();
    question::facts(&mut shown, &facts, question::columns(io::stdout()));
    out.text(&shown)?;
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

/// Every line behind the mark of a question: what a plan writes is a client's text.
fn diff(out: &mut Out, preview: &str) -> io::Result<()> {
    let mut shown = String::new();
    let fact = Fact { label: "change".to_owned(), text: preview.to_owned() };
    question::facts(&mut shown, &[fact], question::columns(io::stdout()));
    out.text(&shown)
}
