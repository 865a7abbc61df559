//! `conductor approvals`: lists the calls that wait for a person, and sends the person's answer.

use super::args::ApprovalsCommand;
use super::question::{self, Answer};
use super::{Failure, Verdict, ask, ask_and_show, list, out::Out, text};
use crate::doors::control::client::Client;
use crate::home::Home;
use conductor_core::pending::Fact;
use conductor_hosts::system::{Clock, RealClock};
use serde_json::{Value, json};
use std::io::{self, BufRead, IsTerminal};

pub fn run(command: ApprovalsCommand, home: &Home, out: &mut Out) -> Result<Verdict, Failure> {
    match command {
        ApprovalsCommand::List { watch: false } => {
            ask_and_show(home, out, ("pending.list", json!({})), |out, answer| {
                let waiting = list(answer, "approvals");
                if waiting.is_empty() {
                    return out.line("no call waits for approval");
                }
                question::list(
                    out,
                    waiting.iter().map(|it| {
                        let (tool, summary, until) = (text(it, "tool"), text(it, "summary"), text(it, "expires_at"));
                        question::fact(text(it, "short"), format!("{tool}  {summary}\nuntil {until}"))
                    }),
                )
            })
        }
        ApprovalsCommand::List { watch: true } => watch(home, out),
        ApprovalsCommand::Show { id, full: true } => full(home, out, &id),
        ApprovalsCommand::Show { id, full: false } => {
            let record = ask(home, "pending.show", json!({ "id": id }))?;
            let shown = question::of_answer(&record)?;
            out.show(&record, |out, _| out.text(&shown))
        }
        ApprovalsCommand::Allow { id, uses, duration, any_args } => {
            at_a_terminal()?;
            let for_ms = duration.as_deref().map(parse_duration).transpose()?;
            let params = json!({ "id": id, "uses": uses, "for_ms": for_ms, "any_args": any_args });
            ask_and_show(home, out, ("approvals.allow", params), |out, it| {
                let (short, tool, until) = (text(it, "short"), text(it, "tool"), text(it, "expires_at"));
                out.line(format_args!("allowed {short} ({tool}), until {until}"))
            })
        }
        ApprovalsCommand::Deny { id, reason } => {
            at_a_terminal()?;
            ask_and_show(home, out, ("approvals.deny", json!({ "id": id, "reason": reason })), |out, record| {
                out.line(format_args!("denied {}", text(record, "short")))
            })
        }
    }
}

/// Shows every fact of a request in full. The daemon sends the facts in pages, and the terminal
/// shows one screen at a time.
fn full(home: &Home, out: &mut Out, id: &str) -> Result<Verdict, Failure> {
    let columns = question::columns(io::stdout());
    let mut pager = Pager::new();
    let mut from = json!(0);
    while !from.is_null() {
        let page = ask(home, "pending.show", json!({ "id": id, "full_from": from }))?;
        from = page["next"].clone();
        if out.is_json() {
            out.value(&page)?;
            continue;
        }
        let facts: Vec<Fact> = serde_json::from_value(page["facts"].clone()).map_err(io::Error::other)?;
        let mut shown = String::new();
        question::facts(&mut shown, &facts, columns);
        if !pager.show(out, &shown)? {
            break;
        }
    }
    Ok(Verdict::Good)
}

/// Shows one screen at a time if stdin and stdout are terminals; otherwise everything at once.
struct Pager {
    rows: Option<usize>,
    row: usize,
}

impl Pager {
    fn new() -> Self {
        let both = io::stdin().is_terminal() && io::stdout().is_terminal();
        let found = conductor_hosts::system::terminal::size(io::stdout()).map_or(0, |(rows, _)| rows);
        Pager { rows: both.then_some(if found < 4 { 24 } else { found }), row: 0 }
    }

    /// Returns false if the person has ended the pager.
    fn show(&mut self, out: &mut Out, text: &str) -> Result<bool, Failure> {
        for line in text.lines() {
            if self.rows.is_some_and(|rows| self.row + 1 >= rows) {
                out.line("-- Enter for more, q to end --")?;
                out.finish()?;
                let mut answer = String::new();
                if io::stdin().lock().read_line(&mut answer)? == 0 || answer.trim() == "q" {
                    return Ok(false);
                }
                self.row = 0;
            }
            out.line(line)?;
            self.row += 1;
        }
        Ok(true)
    }
}

/// Refuses the command if stdin is not a terminal. For decisions, the daemon checks the caller too.
pub fn at_a_terminal() -> Result<(), Failure> {
    if io::stdin().is_terminal() {
        return Ok(());
    }
    Err(Failure::Text("this command needs a terminal: run it in one, without a pipe as its input".into()))
}

/// Asks a question on the terminal. Only a `y` that was not typed too quickly is a yes.
pub fn ask_yes(out: &mut Out, question: &str) -> Result<bool, Failure> {
    at_a_terminal()?;
    question::discard_input();
    out.line(format_args!("{question} [y/N]"))?;
    out.finish()?;
    let clock = RealClock::new();
    loop {
        let mut line = String::new();
        io::stdin().lock().read_line(&mut line)?;
        match question::judge(&line, clock.now().0) {
            Answer::Yes => return Ok(true),
            Answer::No | Answer::Neither => return Ok(false),
            Answer::TooQuick => {
                out.line(question::TOO_QUICK)?;
                out.finish()?;
            }
        }
    }
}

/// Asks the person about the open requests, then about new requests as they arrive.
fn watch(home: &Home, out: &mut Out) -> Result<Verdict, Failure> {
    at_a_terminal()?;
    let mut client = Client::connect(&home.control_socket())?;
    client.ask("approvals.watch", json!({}))?;
    let open = ask(home, "pending.list", json!({}))?;
    out.line("Waiting for approval requests. Press Ctrl-C to stop.")?;
    out.finish()?;
    for item in list(&open, "approvals") {
        answer(home, out, item)?;
    }
    while let Some(item) = client.next_item()? {
        answer(home, out, &item)?;
    }
    Ok(Verdict::Good)
}

/// Asks the person about one request. Items without an id report decisions and are skipped.
fn answer(home: &Home, out: &mut Out, item: &Value) -> Result<(), Failure> {
    let Some(id) = item["id"].as_str() else { return Ok(()) };
    // The request may have been answered elsewhere while the person read another one.
    let now = ask(home, "pending.show", json!({ "id": id }))?;
    if now["state"] != "pending" {
        return Ok(());
    }
    out.text(&question::of_answer(&now)?)?;
    let yes = ask_yes(out, "Allow this call once?")?;
    let method = if yes { "approvals.allow" } else { "approvals.deny" };
    match ask(home, method, json!({ "id": id })) {
        Ok(_) => out.line(if yes { "allowed" } else { "denied" })?,
        Err(failure) => out.line(format_args!("{failure}"))?,
    }
    Ok(out.finish()?)
}

/// Parses `90s`, `10m` or `2h` to milliseconds.
fn parse_duration(text: &str) -> Result<u64, Failure> {
    let bad = || Failure::Text(format!("{text:?} is not a duration; write it like 90s, 10m or 2h"));
    let (number, unit) = text.split_at(text.len().saturating_sub(1));
    let number: u64 = number.parse().map_err(|_| bad())?;
    let ms = match unit {
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err(bad()),
    };
    number.checked_mul(ms).ok_or_else(bad)
}
