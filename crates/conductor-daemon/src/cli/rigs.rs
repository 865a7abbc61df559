//! `conductor rigs`: shows the rigs of a venue, answers their questions, enrols their keys, and
//! prepares their NATS server.

use super::approvals::at_a_terminal;
use super::audit::VerifyArgs;
use super::{Failure, Verdict, ask, block_on, list, offline, out::Out, question, text};
use crate::gateway::cluster::{identity, public_keys};
use crate::home::Home;
use clap::{Args, Subcommand};
use conductor_core::cluster::server_config::{Server, render, streams};
use conductor_core::cluster::witness::Witness;
use conductor_core::cluster::{self, nkey};
use conductor_core::config;
use conductor_core::pending::Fact;
use conductor_core::policy::Tier;
use conductor_gateway::secrets::home_key;
use conductor_hosts::cluster::{Credentials, Link, LinkError, Settings};
use conductor_hosts::system::RandomIds;
use ed25519_dalek::SigningKey;
use futures_util::{StreamExt as _, stream};
use serde_json::{Map, Value, json};
use std::io;

/// The key of the administrator, who creates the streams of the server.
const ADMIN_KEY: &str = "rigs-admin.key";
/// Number of witness messages that are read at once.
const AT_ONCE: usize = 256;

#[derive(Debug, Args)]
pub struct RigsArgs {
    #[command(subcommand)]
    command: Option<RigsCommand>,
}

#[derive(Debug, Subcommand)]
enum RigsCommand {
    /// List the rigs: version, configuration, mode, lost events, and when each was last seen
    List,
    /// List and answer questions of other rigs
    #[command(subcommand)]
    Approvals(QuestionsCommand),
    /// Print the public keys of this rig
    Key,
    /// Enrol the key of a rig at the server, or a key that may answer questions of this rig
    #[command(subcommand)]
    Enrol(EnrolCommand),
    /// Remove an enrolled key
    #[command(subcommand)]
    Remove(RemoveCommand),
    /// Print the configuration of nats-server for the enrolled rigs
    ServerConfig(ServerArgs),
    /// Create the streams on the server. Existing streams are not changed
    Init {
        /// Address of the server; without this option, the one in [cluster]
        #[arg(long, value_name = "ADDRESS")]
        nats: Option<String>,
    },
}

#[derive(Debug, Subcommand)]
enum QuestionsCommand {
    /// List the open questions of all rigs
    List,
    /// Show a question in full
    Show(QuestionArgs),
    /// Allow one call on another rig
    Allow(QuestionArgs),
    /// Deny a call on another rig
    Deny(QuestionArgs),
}

#[derive(Debug, Args)]
struct QuestionArgs {
    /// Name of the rig that asks
    rig: String,
    /// Id of the question
    id: String,
}

#[derive(Debug, Subcommand)]
enum EnrolCommand {
    /// Add a rig to the configuration that `rigs server-config` prints
    Rig {
        /// Name of the rig
        name: String,
        /// Public key of the rig, from `conductor rigs key`
        key: String,
        /// Rigs that people on this rig may decide for, separated by commas
        #[arg(long, value_delimiter = ',', value_name = "RIGS")]
        decides_for: Vec<String>,
    },
    /// Allow people on another rig to answer questions of this rig
    Decider {
        /// Name for the key, such as the name of its rig
        name: String,
        /// Public key for decisions, from `conductor rigs key`
        key: String,
        /// Tier of calls that the key may allow; can be repeated. Without this option, Stateful
        #[arg(long = "tier", value_name = "TIER", default_values = ["Stateful"])]
        tiers: Vec<Tier>,
    },
}

#[derive(Debug, Subcommand)]
enum RemoveCommand {
    /// Remove a rig from the configuration that `rigs server-config` prints
    Rig { name: String },
    /// Remove a key that could answer questions of this rig
    Decider { name: String },
}

#[derive(Debug, Args)]
struct ServerArgs {
    /// Address and port of the server
    #[arg(long, default_value = "127.0.0.1:4222", value_name = "ADDRESS")]
    listen: String,
    /// Folder of the streams
    #[arg(long, default_value = "/var/lib/nats", value_name = "FOLDER")]
    store: String,
    /// File of the certificate; needed unless the server listens only on its own machine
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<String>,
    /// File of the private key
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<String>,
}

pub fn run(args: RigsArgs, home: &Home, out: &mut Out) -> Result<Verdict, Failure> {
    match args.command.unwrap_or(RigsCommand::List) {
        RigsCommand::List => show_rigs(home, out),
        RigsCommand::Approvals(QuestionsCommand::List) => show_questions(home, out),
        RigsCommand::Approvals(QuestionsCommand::Allow(args)) => decide(home, out, &args, Some("allow")),
        RigsCommand::Approvals(QuestionsCommand::Deny(args)) => decide(home, out, &args, Some("deny")),
        RigsCommand::Approvals(QuestionsCommand::Show(args)) => decide(home, out, &args, None),
        RigsCommand::Key => show_keys(home, out),
        RigsCommand::Enrol(command) => enrol(home, out, command),
        RigsCommand::Remove(RemoveCommand::Rig { name }) => remove(home, out, "rigs", &name),
        RigsCommand::Remove(RemoveCommand::Decider { name }) => remove(home, out, "deciders", &name),
        RigsCommand::ServerConfig(args) => server_config(home, out, &args),
        RigsCommand::Init { nats } => init(home, out, nats),
    }
}

fn show_rigs(home: &Home, out: &mut Out) -> Result<Verdict, Failure> {
    let answer = ask(home, "rigs.list", json!({}))?;
    out.show(&answer, |out, answer| {
        if let Some(error) = answer["error"].as_str() {
            out.line(format_args!("the state of the other rigs is unknown: {error}"))?;
        }
        let rows = list(answer, "rigs").iter().map(|it| {
            let or = |key: &str| match &it[key] {
                Value::String(text) => text.clone(),
                Value::Null => "-".to_owned(),
                other @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => other.to_string(),
            };
            let config: String = or("config_hash").chars().take(19).collect();
            let facts = format!(
                "{}  version {}  config {config}  mode {}  drops {}  last seen {}",
                or("state"),
                or("version"),
                or("mode"),
                or("drops"),
                or("last_seen")
            );
            question::fact(text(it, "rig"), facts)
        });
        question::list(out, rows)
    })
}

fn show_questions(home: &Home, out: &mut Out) -> Result<Verdict, Failure> {
    let answer = ask(home, "rigs.questions", json!({}))?;
    out.show(&answer, |out, answer| {
        let waiting = list(answer, "questions");
        if waiting.is_empty() {
            return out.line("no call on another rig waits for approval");
        }
        let rows = waiting.iter().map(|it| {
            let (short, tool, summary) = (text(it, "short"), text(it, "tool"), text(it, "summary"));
            question::fact(text(it, "rig"), format!("{short}  {tool}  {summary}\nuntil {}", text(it, "expires_at")))
        });
        question::list(out, rows)
    })
}

/// Shows the whole question. If there is an `answer`, sends it with the digest of the shown
/// question.
fn decide(home: &Home, out: &mut Out, args: &QuestionArgs, answer: Option<&str>) -> Result<Verdict, Failure> {
    if answer.is_some() {
        at_a_terminal()?;
    }
    let questions = ask(home, "rigs.questions", json!({}))?;
    let is_wanted = |it: &&Value| {
        text(it, "rig") == args.rig && (text(it, "id") == args.id || text(it, "short").eq_ignore_ascii_case(&args.id))
    };
    let asked = list(&questions, "questions")
        .iter()
        .find(is_wanted)
        .ok_or_else(|| Failure::Text(format!("the rig {} has no open question {:?}", args.rig, args.id)))?;
    let mut facts = vec![question::fact("rig", args.rig.clone())];
    for key in ["tool", "tier", "principal", "summary"] {
        facts.push(question::fact(key, text(asked, key).to_owned()));
    }
    let more: Vec<Fact> = serde_json::from_value(asked["facts"].clone()).map_err(io::Error::other)?;
    let mut shown = String::new();
    question::facts(&mut shown, &facts, question::columns(io::stdout()));
    question::facts(&mut shown, &more, question::columns(io::stdout()));
    if !out.is_json() {
        out.text(&shown)?;
    } else if answer.is_none() {
        out.value(asked)?;
    }
    let Some(answer) = answer else { return Ok(Verdict::Good) };
    let params = json!({ "rig": args.rig, "id": asked["id"], "question": asked["question"], "answer": answer });
    let done = ask(home, "rigs.decide", params)?;
    out.show(&done, |out, done| {
        let applied = match done["applied"].as_bool() {
            Some(true) => "the rig has applied the answer",
            Some(false) | None => "the rig has not applied the answer yet",
        };
        out.line(format_args!("sent {answer} for {} ({}); {applied}", text(done, "short"), text(done, "tool")))
    })
}

fn show_keys(home: &Home, out: &mut Out) -> Result<Verdict, Failure> {
    home.create()?;
    let (rig, decider) = public_keys(home.root(), &RandomIds)?;
    let name = offline(home).ok().and_then(|it| it.config.cluster.rig.clone());
    out.show(&json!({ "rig": name, "key": rig, "decider": decider }), |out, _| {
        let name = name.as_deref().unwrap_or("NAME");
        out.line(format_args!("key of this rig:   {rig}"))?;
        out.line(format_args!("key for decisions: {decider}"))?;
        out.line(format_args!(
            "on the rig that prints the server configuration: conductor rigs enrol rig {name} {rig}"
        ))?;
        out.line(format_args!(
            "on each rig whose questions people here may answer: conductor rigs enrol decider {name} {decider}"
        ))
    })
}

fn enrol(home: &Home, out: &mut Out, command: EnrolCommand) -> Result<Verdict, Failure> {
    at_a_terminal()?;
    let mut row = Map::new();
    let (list, name) = match command {
        EnrolCommand::Rig { name, key, decides_for } => {
            row.insert("name".into(), json!(name));
            row.insert("key".into(), json!(key));
            if !decides_for.is_empty() {
                row.insert("decides_for".into(), json!(decides_for));
            }
            ("rigs", name)
        }
        EnrolCommand::Decider { name, key, tiers } => {
            row.insert("name".into(), json!(name));
            row.insert("key".into(), json!(key));
            row.insert("tiers".into(), json!(tiers));
            ("deciders", name)
        }
    };
    ask(home, "rigs.enrol", json!({ "list": list, "row": row }))?;
    out.show(&json!({ "enrolled": name, "list": list }), |out, _| {
        out.line(format_args!("the key of {name} is enrolled in [[cluster.{list}]]"))
    })
}

fn remove(home: &Home, out: &mut Out, list: &str, name: &str) -> Result<Verdict, Failure> {
    at_a_terminal()?;
    ask(home, "rigs.remove", json!({ "list": list, "name": name }))?;
    out.show(&json!({ "removed": name, "list": list }), |out, _| {
        out.line(format_args!("the key of {name} was removed from [[cluster.{list}]]"))
    })
}

fn server_config(home: &Home, out: &mut Out, args: &ServerArgs) -> Result<Verdict, Failure> {
    let is_here = ["127.0.0.1:", "localhost:", "[::1]:"].iter().any(|it| args.listen.starts_with(it));
    if !is_here && args.tls_cert.is_none() {
        return Err(Failure::Text("a server for other machines needs --tls-cert and --tls-key".into()));
    }
    home.create()?;
    let serving = offline(home)?;
    let admin = SigningKey::from_bytes(&home_key(home.root(), ADMIN_KEY, &RandomIds)?);
    let admin = nkey::public_text(&admin.verifying_key());
    let text = render(&Server {
        listen: &args.listen,
        store: &args.store,
        tls: args.tls_cert.as_deref().zip(args.tls_key.as_deref()),
        admin: &admin,
        rigs: &serving.config.cluster.rigs,
    });
    out.show(&json!({ "config": text }), |out, _| out.text(&text))
}

fn init(home: &Home, out: &mut Out, nats: Option<String>) -> Result<Verdict, Failure> {
    let serving = offline(home)?;
    let section = &serving.config.cluster;
    let server = nats.or_else(|| section.nats.clone());
    let server = server.ok_or_else(|| Failure::Text("give --nats, or set `nats` in [cluster]".into()))?;
    let credentials = Credentials { seed: home_key(home.root(), ADMIN_KEY, &RandomIds)?, jwt: None };
    let ca = section.ca.as_ref().map(|it| home.root().join(it));
    let settings = Settings { server, name: "admin".to_owned(), credentials, ca };
    let wanted = streams(&section.rigs);
    let created = block_on(async {
        let link = Link::open(&settings).await?;
        for (name, config) in &wanted {
            link.create_stream(name, config).await?;
        }
        Ok::<_, LinkError>(())
    })?;
    created.map_err(|it| Failure::Text(it.to_string()))?;
    let names: Vec<&str> = wanted.iter().map(|(name, _)| name.as_str()).collect();
    out.show(&json!({ "streams": names }), |out, _| out.line(format_args!("streams: {}", names.join(", "))))
}

/// Reads the whole witness of a rig. Returns it with the name of its server.
pub fn read_witness(home: &Home, section: &config::Cluster, args: &VerifyArgs) -> Result<(Witness, String), Failure> {
    let mut section = section.clone();
    if let Some(server) = args.witness.as_ref().filter(|it| !it.is_empty()) {
        section.nats = Some(server.clone());
    }
    section.rig = args.rig.clone().or(section.rig);
    if let Some(file) = &args.credentials {
        // The path is relative to the working directory. Make it absolute, because `identity`
        // resolves a relative path against the home.
        section.credentials = Some(std::path::absolute(file)?.display().to_string());
    }
    let settings = identity(home.root(), &section, &RandomIds).map_err(Failure::Text)?;
    let rig = settings.name.clone();
    let read = block_on(async {
        let link = Link::open(&settings).await?;
        let stream = cluster::witness_stream(&rig);
        let (records, checkpoints) = (cluster::record_subject(&rig), cluster::checkpoint_subject(&rig));
        let ends = [link.last(&stream, &records).await?, link.last(&stream, &checkpoints).await?];
        let end = ends.iter().flatten().map(|it| it.seq).max().unwrap_or(0);
        let mut witness = Witness::default();
        let mut messages = stream::iter(1..=end).map(|seq| link.at(&stream, seq)).buffered(AT_ONCE);
        while let Some(message) = messages.next().await {
            let Some(message) = message? else { continue };
            if message.subject == records {
                witness.record(&message.body);
            } else if message.subject == checkpoints {
                witness.checkpoint(&message.body);
            }
        }
        Ok::<_, LinkError>(witness)
    })?;
    let witness = read.map_err(|it| Failure::Text(format!("the witness cannot be read: {it}")))?;
    Ok((witness, settings.server))
}
