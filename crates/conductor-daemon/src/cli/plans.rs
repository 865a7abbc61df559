//! `conductor plans`: lists, shows, applies, rejects and undoes planned changes to the
//! configuration.

use super::approvals::{ask_yes, at_a_terminal};
use super::args::PlansCommand;
use super::question::fact;
use super::{Failure, Verdict, ask, ask_and_show, list, out::Out, question, text, texts};
use crate::home::Home;
use conductor_core::text::escape;
use serde_json::{Value, json};
use std::io;

pub fn run(command: PlansCommand, home: &Home, out: &mut Out) -> Result<Verdict, Failure> {
    match command {
        PlansCommand::List => ask_and_show(home, out, ("pending.list", json!({})), |out, answer| {
            let (edits, plans) = (list(answer, "edits"), list(answer, "plans"));
            if plans.is_empty() && edits.is_empty() {
                return out.line("no plans");
            }
            let edits = edits.iter().map(|it| fact(text(it, "short"), format!("done  {}", text(it, "summary"))));
            let plans = plans
                .iter()
                .map(|it| fact(text(it, "short"), format!("{}  {}", text(it, "status"), text(it, "summary"))));
            question::list(out, edits.chain(plans))
        }),
        PlansCommand::Show { id } => ask_and_show(home, out, ("pending.show", json!({ "id": id })), show),
        PlansCommand::Apply { id } => {
            at_a_terminal()?;
            ask_and_show(home, out, ("plans.apply", json!({ "id": id })), |out, applied| {
                out.line(format_args!("applied: {}", escape(text(&applied["plan"], "description"))))?;
                texts(applied, "faults").iter().try_for_each(|it| out.line(format_args!("  {it}")))
            })
        }
        PlansCommand::Reject { id } => {
            at_a_terminal()?;
            ask_and_show(home, out, ("plans.reject", json!({ "id": id })), |out, plan| {
                out.line(format_args!("rejected: {}", escape(text(plan, "description"))))
            })
        }
        PlansCommand::Undo { id } => {
            at_a_terminal()?;
            let record = ask(home, "pending.show", json!({ "id": id }))?;
            if record["kind"] == "edit" {
                return undo_edit(&record, home, out);
            }
            let inverse = ask(home, "plans.undo", json!({ "id": id }))?;
            diff(out, text(&inverse, "diff_preview"))?;
            let params = json!({ "id": text(&inverse, "plan_id") });
            if !ask_yes(out, "Apply this change to undo the plan?")? {
                ask(home, "plans.reject", params)?;
                out.line("nothing was changed")?;
                return Ok(Verdict::Bad);
            }
            ask_and_show(home, out, ("plans.apply", params), |out, _| out.line("undone"))
        }
    }
}

/// Restores the content that the file had before the edit.
fn undo_edit(record: &Value, home: &Home, out: &mut Out) -> Result<Verdict, Failure> {
    out.line(escape(text(record, "summary")))?;
    if !ask_yes(out, "Restore the file as it was before this edit?")? {
        out.line("nothing was changed")?;
        return Ok(Verdict::Bad);
    }
    ask_and_show(home, out, ("plans.undo", json!({ "id": record["id"] })), |out, undone| {
        out.line(format_args!("undone: {}", escape(text(undone, "path"))))
    })
}

fn show(out: &mut Out, record: &Value) -> io::Result<()> {
    let short = text(record, "short");
    out.line(format_args!("Plan {short} ({})", text(record, "state")))?;
    let mut facts = vec![
        fact("what", text(record, "summary")),
        fact("who", text(record, "principal")),
        fact("until", text(record, "expires_at")),
    ];
    facts.extend(texts(record, "warnings").into_iter().map(|it| fact("warning", it)));
    question::list(out, facts.into_iter())?;
    diff(out, text(record, "diff_preview"))?;
    if record["state"] == "pending" {
        out.line(format_args!("\nconductor plans apply {short}   or   conductor plans reject {short}"))?;
    }
    Ok(())
}

/// Shows the diff as one fact. A client wrote the diff, so every line of it must start with the
/// mark.
fn diff(out: &mut Out, preview: &str) -> io::Result<()> {
    question::list(out, [fact("change", preview)].into_iter())
}
