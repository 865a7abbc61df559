//! `conductor http`: shows how other machines connect to this daemon, and manages their tokens.

use super::approvals::at_a_terminal;
use super::call::tool;
use super::{Failure, Verdict, ask, list, offline, out::Out, text};
use crate::doors::http::random_token;
use crate::home::Home;
use clap::{Args, Subcommand};
use conductor_core::digest::Digest;
use conductor_core::timestamp::Timestamp;
use conductor_hosts::system::{Clock as _, RandomIds, RealClock, host_name};
use qrcode::QrCode;
use qrcode::render::unicode::Dense1x2;
use serde_json::{Map, Value, json};

#[derive(Debug, Subcommand)]
pub enum HttpCommand {
    /// Show the address and the fingerprint of the certificate, as text and as QR code
    Pair,
    /// Create, list or remove the tokens of clients
    #[command(subcommand)]
    Token(TokenCommand),
}

#[derive(Debug, Subcommand)]
pub enum TokenCommand {
    /// Create a token, print it once, and write its digest to config.toml
    Create(TokenCreate),
    /// List the tokens in config.toml, never their values
    List,
    /// Remove a token; open connections that use it are closed
    Remove {
        /// Name of the token
        name: String,
    },
}

#[derive(Debug, Args)]
pub struct TokenCreate {
    /// Name of the token; the principal of its calls is http:NAME
    name: String,
    /// Permission of the token; can be repeated. Without this option, the token may call tools
    #[arg(long = "scope", value_name = "SCOPE", value_parser = ["call", "observe"], default_values = ["call"])]
    scopes: Vec<String>,
    /// Toolsets or tools that exist for the token, separated by commas; without this option, all
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    tools: Vec<String>,
    /// View that the token may list; can be repeated. Without this option, all
    #[arg(long = "view", value_name = "NAME", value_parser = super::args::views())]
    views: Vec<String>,
    /// Number of days after which the token is refused; without this option, it does not expire
    #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u64).range(1..=36_500))]
    days: Option<u64>,
    /// Maximum number of calls per minute
    #[arg(long, value_name = "CALLS", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    per_minute: Option<u32>,
}

pub fn run(command: HttpCommand, home: &Home, out: &mut Out) -> Result<Verdict, Failure> {
    match command {
        HttpCommand::Pair => pair(home, out),
        HttpCommand::Token(TokenCommand::Create(args)) => create(args, home, out),
        HttpCommand::Token(TokenCommand::List) => show_tokens(home, out),
        HttpCommand::Token(TokenCommand::Remove { name }) => {
            at_a_terminal()?;
            ask(home, "http.token.remove", json!({ "name": name }))?;
            out.show(&json!({ "removed": name }), |out, _| out.line(format_args!("the token {name} was removed")))
        }
    }
}

const DAY_MS: u64 = 86_400_000;

/// Creates a token and prints it. The daemon receives only its digest.
fn create(args: TokenCreate, home: &Home, out: &mut Out) -> Result<Verdict, Failure> {
    at_a_terminal()?;
    let token = random_token(&RandomIds);
    let mut row = Map::new();
    row.insert("name".into(), json!(args.name));
    row.insert("hash".into(), json!(Digest::of(token.as_bytes())));
    row.insert("scopes".into(), json!(args.scopes));
    if !args.tools.is_empty() {
        row.insert("tools".into(), json!(args.tools));
    }
    if !args.views.is_empty() {
        row.insert("views".into(), json!(args.views));
    }
    if let Some(days) = args.days {
        let now = Timestamp::from_millis(RealClock::new().wall_ms());
        row.insert("expires".into(), json!(now.plus_millis(days.saturating_mul(DAY_MS))));
    }
    if let Some(per_minute) = args.per_minute {
        row.insert("per_minute".into(), json!(per_minute));
    }
    ask(home, "http.token.add", json!({ "row": row }))?;
    out.show(&json!({ "name": args.name, "token": token }), |out, _| {
        out.line(&token)?;
        out.line("Copy the token now: it is not stored, and it cannot be shown again.")
    })
}

fn show_tokens(home: &Home, out: &mut Out) -> Result<Verdict, Failure> {
    let config = offline(home)?;
    let now = Timestamp::from_millis(RealClock::new().wall_ms());
    let row = |it: &conductor_core::config::HttpToken| {
        json!({
            "name": it.name, "scopes": it.scopes, "tools": it.tools, "views": it.views, "expires": it.expires,
            "expired": it.expires.is_some_and(|at| now >= at), "per_minute": it.per_minute,
        })
    };
    let rows: Vec<Value> = config.config.http.tokens.iter().map(row).collect();
    out.show(&json!({ "tokens": rows }), |out, answer| {
        let tokens = list(answer, "tokens");
        if tokens.is_empty() {
            return out.line("config.toml has no tokens; `conductor http token create NAME` creates one");
        }
        tokens.iter().try_for_each(|it| {
            let until = match (it["expires"].as_str(), it["expired"] == true) {
                (Some(at), true) => format!("expired {at}"),
                (Some(at), false) => format!("until {at}"),
                (None, _) => "does not expire".to_owned(),
            };
            let (scopes, tools) = (super::texts(it, "scopes").join(", "), super::texts(it, "tools").join(", "));
            out.line(format_args!("{:<16} {scopes}; tools: {tools}; {until}", text(it, "name")))
        })
    })
}

fn pair(home: &Home, out: &mut Out) -> Result<Verdict, Failure> {
    let status = tool(home, out, "conductor_get_status", json!({}))?;
    let found = list(&status, "http").iter().find_map(|it| Some((text(it, "url"), it["fingerprint"].as_str()?)));
    let Some((url, fingerprint)) = found else {
        let text = "no listener uses TLS; add [http.tls] with self_signed = true, or with a certificate and its key";
        return Err(Failure::Text(text.to_owned()));
    };
    let hosts = offline(home)?.config.http.hosts.clone();
    let port = url.rsplit_once(':').map_or("", |(_, port)| port);
    let urls: Vec<String> = match hosts.as_slice() {
        [] => vec![url.to_owned()],
        hosts => hosts.iter().map(|host| format!("https://{host}")).collect(),
    };
    let proposed: Vec<String> = host_name::names().into_iter().map(|it| format!("{it}:{port}")).collect();
    let link = format!("{}/#{fingerprint}", urls.first().map_or(url, String::as_str));
    let answer = json!({ "urls": urls, "fingerprint": fingerprint, "qr": link, "proposed_hosts": proposed });
    out.show(&answer, |out, answer| {
        for url in list(answer, "urls").iter().filter_map(Value::as_str) {
            out.line(format_args!("address      {url}"))?;
        }
        out.line(format_args!("fingerprint  {fingerprint}"))?;
        out.line(format_args!("             {}", as_browsers_show(fingerprint)))?;
        if let Some(picture) = qr_code(&link) {
            out.line(picture)?;
        }
        out.line("Compare the fingerprint with the one that the browser or client shows before you send a token.")?;
        if hosts.is_empty() {
            let names = proposed.iter().map(|it| format!("\"{it}\"")).collect::<Vec<_>>().join(", ");
            out.line(
                "Other machines cannot connect yet, because [http] hosts is empty. Set it to the names of this machine:",
            )?;
            out.line(format_args!("hosts = [{names}]"))?;
        }
        Ok(())
    })
}

/// The digits in pairs, as in the certificate windows of browsers.
pub fn as_browsers_show(fingerprint: &str) -> String {
    let digits = fingerprint.trim_start_matches("sha256:").to_uppercase();
    let pairs: Vec<&str> = (0..digits.len()).step_by(2).filter_map(|at| digits.get(at..at + 2)).collect();
    pairs.join(":")
}

/// A QR code drawn with characters. `None` if the text is too long.
pub fn qr_code(text: &str) -> Option<String> {
    Some(QrCode::new(text).ok()?.render::<Dense1x2>().build())
}
