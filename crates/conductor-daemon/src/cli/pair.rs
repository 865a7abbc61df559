//! `conductor pair`: pairs a phone with a QR code, and lists or revokes paired phones.
//!
//! A paired phone can approve requests. So the daemon gives the link only to a person, and this
//! command prints it only on a terminal.

use super::http::{as_browsers_show, qr_code};
use super::{Failure, Verdict, approvals, ask_and_show, list, out::Out, text, texts};
use crate::home::Home;
use clap::{Args, Subcommand};
use serde_json::json;
use std::io::{self, IsTerminal};

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct PairArgs {
    #[command(subcommand)]
    command: Option<PairCommand>,
    /// Name of the phone, which the audit log shows; without this option, phone, phone-2 and so on
    #[arg(long)]
    name: Option<String>,
}

#[derive(Debug, Subcommand)]
pub enum PairCommand {
    /// List the paired phones
    List,
    /// Revoke a phone, or all of them
    Revoke {
        /// Name of the phone, as in `pair list`
        #[arg(required_unless_present = "all", conflicts_with = "all")]
        name: Option<String>,
        /// Revoke every phone and every unused link
        #[arg(long)]
        all: bool,
    },
}

pub fn run(args: PairArgs, home: &Home, out: &mut Out) -> Result<Verdict, Failure> {
    approvals::at_a_terminal()?;
    match args.command {
        Some(PairCommand::List) => ask_and_show(home, out, ("phone.list", json!({})), |out, answer| {
            match (answer["url"].as_str(), answer["fault"].as_str()) {
                (Some(url), _) => out.line(format_args!("phones connect to {url}"))?,
                (None, Some(fault)) => out.line(format_args!("phones cannot connect: {fault}"))?,
                (None, None) => {}
            }
            let phones = list(answer, "phones");
            if phones.is_empty() {
                return out.line("no phone is paired; `conductor pair` pairs one");
            }
            phones.iter().try_for_each(|it| {
                let seen = match it["last_seen"].as_str() {
                    Some(time) => format!("last seen {time}"),
                    None => "not seen since the daemon started".to_owned(),
                };
                out.line(format_args!("{:<16} paired {}, {seen}", text(it, "name"), text(it, "paired_at")))
            })
        }),
        Some(PairCommand::Revoke { name, all: _ }) => {
            ask_and_show(home, out, ("phone.revoke", json!({ "name": name })), |out, answer| {
                match texts(answer, "revoked").as_slice() {
                    [] => out.line("no phone was paired"),
                    names => out.line(format_args!("revoked: {}", names.join(", "))),
                }
            })
        }
        None => {
            if !io::stdout().is_terminal() {
                return Err(Failure::Text(
                    "the link is printed only on a terminal: run this command in one, without a pipe".to_owned(),
                ));
            }
            ask_and_show(home, out, ("phone.pair", json!({ "name": args.name })), show)
        }
    }
}

fn show(out: &mut Out, answer: &serde_json::Value) -> io::Result<()> {
    let link = text(answer, "link");
    if let Some(picture) = qr_code(link) {
        out.line(picture)?;
    }
    out.line(link)?;
    let (seconds, name) = (&answer["seconds"], text(answer, "name"));
    out.line(format_args!("Scan the code with the phone \"{name}\" within {seconds} seconds. It works once."))?;
    if answer["self_signed"] == true {
        out.line("")?;
        out.line("The browser warns about the certificate. Before you continue, compare the SHA-256 fingerprint")?;
        out.line("in the browser's certificate window with this one:")?;
        let pairs = as_browsers_show(text(answer, "fingerprint"));
        for half in [pairs.get(..47), pairs.get(48..)].into_iter().flatten() {
            out.line(format_args!("    {half}"))?;
        }
    }
    if answer["loopback"] == true {
        out.line("Only this machine can open this address.")?;
        out.line("Set `bind` in [policy.approval.phone] to an address that the phone can reach.")?;
    }
    Ok(())
}
