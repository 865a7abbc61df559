//! Answers the read requests of the page: the snapshot, and data by name. Not here: tool calls.

use super::decide::places_of;
use super::sessions::Session;
use super::{Console, EVER, Refusal, epoch_ms, health, now, plain, pump, read};
use crate::doors::control::{call, decisions};
use crate::doors::mcp::setup::clients::CLIENTS;
use crate::doors::mcp::setup::{self, Status};
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use conductor_core::audit::record::EventName;
use conductor_core::config::{KeyRung, Severity, timing_report};
use conductor_core::digest::Digest;
use conductor_core::error::{Code, Subject, ToolError};
use conductor_core::pending::{Kind, Record, State};
use conductor_core::plan;
use conductor_core::policy;
use conductor_core::principal::Principal;
use conductor_core::templates::{self, Address, Control};
use conductor_core::timestamp::Timestamp;
use conductor_gateway::audit_log::files::Disk;
use conductor_gateway::audit_log::layout::Layout;
use conductor_gateway::audit_log::lines::{Filter, Lines, newest, segment_paths, within};
use conductor_gateway::catalog::Tool;
use conductor_gateway::owner_handle::Wanted;
use conductor_gateway::plans;
use conductor_gateway::secrets::KeychainNote;
use conductor_gateway::simulation::simulate_script;
use conductor_gateway::surroundings::OwnedSurroundings;
use conductor_hosts::atomic_file;
use http::{HeaderValue, header};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Number of trace records in a snapshot.
const TRACE: usize = 500;
/// Maximum number of records in one answer.
const MOST_RECORDS: usize = 1000;
/// Maximum number of decided questions in one answer.
const MOST_HISTORY: usize = 200;

macro_rules! reads {
    ($($variant:ident = $name:literal { $($fields:tt)* })+) => {
        #[derive(Deserialize)]
        #[serde(tag = "name", content = "params", deny_unknown_fields)]
        enum Asked { $(#[serde(rename = $name)] $variant { $($fields)* }),+ }

        const NAMES: &[&str] = &[$($name),+];
    };
}

reads! {
    Trace = "trace" {
        limit: Option<usize>, since_seq: Option<u64>, device: Option<String>, mapping_id: Option<String>,
        outcome: Option<String>,
    }
    Question = "question" { id: String, #[serde(default)] from: usize }
    History = "history" { limit: Option<usize>, before: Option<Timestamp> }
    Mappings = "mappings" { mode: Option<String> }
    MappingToml = "mapping_toml" { mode: String, id: String }
    ParseMapping = "parse_mapping" { toml: String }
    Explain = "explain" { event: String, mode: Option<String>, device: Option<String> }
    Simulate = "simulate" { events: String, mode: Option<String> }
    Config = "config" {}
    ConfigWaiting = "config_waiting" {}
    Controllers = "controllers" {}
    Audit = "audit" {
        tool: Option<String>, principal: Option<String>, result: Option<String>, since: Option<Timestamp>,
        until: Option<Timestamp>, before: Option<u64>, call: Option<String>, limit: Option<usize>,
    }
    AuditVerify = "audit_verify" {}
    AuditExport = "audit_export" { since: Option<Timestamp>, until: Option<Timestamp> }
    Health = "health" {}
    Clients = "clients" {}
    Tools = "tools" {}
    Sessions = "sessions" {}
}

fn internal(error: impl std::fmt::Display) -> ToolError {
    ToolError::new(Code::Internal, error.to_string())
}

/// Runs work that may block on the disk.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, ToolError> {
    tokio::task::spawn_blocking(work).await.map_err(internal)
}

impl Console {
    /// The snapshot. Read the event number first, so that no later event is missed.
    pub(super) async fn state(&self, session: &Session) -> Result<Response, Refusal> {
        let (studio, handle) = (self.studio(), &self.control.handle);
        let seq = self.feed.last();
        let _ = studio.approvals.expire(studio).await;
        let status = handle.status().await?;
        let learning = json!(status.learning);
        let status = plans::with_waiting(studio, status);
        let trace = handle.trace(Wanted { limit: Some(TRACE), ..Wanted::default() }).await?;
        let meters = handle.meters(EVER).await?;
        let (devices, latency, lost) = {
            let seen = self.seen.lock();
            (seen.frame.devices(), seen.frame.latencies.to_json(), seen.frame.lost())
        };
        let waiting = self.records(|it| it.state == State::Pending && matches!(it.kind, Kind::Call | Kind::Plan));
        let mut state = json!({
            "seq": seq, "version": env!("CARGO_PKG_VERSION"), "person": session.person().to_string(),
            "session": session.to_json(), "trace_epoch_ms": epoch_ms(studio), "now": now(studio),
            "learning": learning, "status": status, "modes": &*handle.modes(),
            "devices": handle.devices().await?, "bindings": handle.bindings().await?,
            "meters": {
                "statistics": meters.statistics, "devices": devices, "firings": pump::firings(&meters.firings),
                "held": meters.held, "latency": latency, "trace_lost": lost,
            },
            "trace": trace.records, "questions": waiting, "waiting": self.config_waiting(),
            "circuits": call::circuits(&self.control),
        });
        studio.scrubber.value(&mut state);
        Ok(plain(&state))
    }

    /// The records that match, oldest first, as the page shows them.
    fn records(&self, filter: impl Fn(&Record) -> bool) -> Vec<Value> {
        let mut records: Vec<Record> =
            self.studio().approvals.store().read(|pending| pending.iter().filter(|it| filter(it)).cloned().collect());
        records.sort_by_key(|it| it.created_at);
        records.iter().map(|it| self.question(it)).collect()
    }

    pub(super) fn config_waiting(&self) -> Value {
        let serving = self.control.handle.serving();
        let waiting = &serving.waiting;
        json!({
            "needs_a_person": waiting.needs_a_person(), "held": waiting.held.names(), "since": waiting.since,
            "closed": waiting.closed.as_deref(), "difference": &*waiting.difference, "unprotected": waiting.typing,
        })
    }

    pub(super) async fn read(&self, session: &Session, name: &str, body: Body) -> Result<Response, Refusal> {
        let params: Value = read(body).await?;
        if !NAMES.contains(&name) {
            return Err(ToolError::new(Code::NotFound, format!("the console has no data named {name:?}")).into());
        }
        let asked: Asked = serde_json::from_value(json!({ "name": name, "params": params }))
            .map_err(|error| ToolError::new(Code::BadInput, format!("params: {error}")))?;
        if let Asked::AuditExport { since, until } = asked {
            return Ok(self.export(session, since, until).await?);
        }
        let mut answer = self.answer(session, asked).await?;
        self.studio().scrubber.value(&mut answer);
        Ok(plain(&answer))
    }

    async fn answer(&self, session: &Session, asked: Asked) -> Result<Value, ToolError> {
        let (studio, handle) = (self.studio(), &self.control.handle);
        Ok(match asked {
            Asked::Trace { limit, since_seq, device, mapping_id, outcome } => {
                let limit = Some(limit.unwrap_or(TRACE).min(MOST_RECORDS));
                json!(handle.trace(Wanted { limit, since_seq, device, mapping_id, outcome }).await?)
            }
            Asked::Question { id, from } => self.full_question(&id, from).await?,
            Asked::History { limit, before } => {
                let is_old = |it: &Record| before.is_none_or(|before| it.created_at < before);
                let mut old = self.records(|it| it.state != State::Pending && it.kind != Kind::Standing && is_old(it));
                old.reverse();
                old.truncate(limit.unwrap_or(50).min(MOST_HISTORY));
                json!({ "questions": old })
            }
            Asked::Mappings { mode } => self.mappings(mode).await?,
            Asked::MappingToml { mode, id } => {
                let rows = json!(handle.mappings(&mode)?);
                let all = ["mappings", "continuous"].iter().flat_map(|it| rows[*it].as_array().into_iter().flatten());
                let mut row = all.filter(|it| it["id"] == id.as_str()).cloned();
                let Some(Value::Object(mut row)) = row.next() else {
                    return Err(ToolError::new(Code::NotFound, format!("mode {mode:?} has no mapping {id:?}")));
                };
                row.shift_remove("index");
                // A row is enabled unless it has `enabled = false`, so `true` is left out.
                if row.get("enabled") == Some(&Value::Bool(true)) {
                    row.shift_remove("enabled");
                }
                json!({ "toml": plan::row_text(&row) })
            }
            Asked::ParseMapping { toml } => {
                let bad = |why| ToolError::new(Code::BadInput, why).subject(Subject::Argument("toml".into()));
                json!({ "row": plan::parse_row(&toml).map_err(bad)? })
            }
            Asked::Explain { event, mode, device } => {
                let explained = handle.explain(&event, mode.as_deref(), device.as_deref()).await?;
                let mut answer = json!(explained);
                answer["text"] = explained.text().into();
                answer
            }
            Asked::Simulate { events, mode } => {
                json!(simulate_script(&handle.serving().config, &events, mode.as_deref())?)
            }
            Asked::Config {} => {
                let serving = handle.serving();
                let path = self.control.home.config_file();
                json!({ "text": serving.text.as_deref(), "path": path, "hash": serving.hash_text() })
            }
            Asked::ConfigWaiting {} => {
                // Read the file again, so that the answer describes its current content.
                let reloaded = handle.reload().await;
                let path = self.control.home.config_file();
                let bytes = blocking(move || atomic_file::read(&path)).await?.unwrap_or_default();
                let mut waiting = self.config_waiting();
                waiting["hash"] = Digest::of(&bytes).to_string().into();
                waiting["error"] = json!(reloaded.err().map(|it| it.message));
                waiting
            }
            Asked::Controllers {} => self.controllers().await?,
            Asked::Audit { tool, principal, result, since, until, before, call, limit } => {
                let bad = |_| ToolError::new(Code::BadInput, "result is unknown");
                let result = result.map(|it| it.parse().map_err(bad)).transpose()?;
                let filter = Filter { tool, principal, result, since, until, before, call, after: None };
                let limit = limit.unwrap_or(100).min(MOST_RECORDS);
                let home = studio.home.clone();
                let found = blocking(move || newest(&home, &filter, limit)).await?.map_err(internal)?;
                json!({ "records": found.into_iter().rev().collect::<Vec<_>>() })
            }
            Asked::AuditVerify {} => self.verify().await?,
            // `read` answers this request itself, with text.
            Asked::AuditExport { .. } => Value::Null,
            Asked::Health {} => {
                let latency = self.seen.lock().frame.latencies.to_json();
                let home = self.control.home.clone();
                let checks = blocking(move || crate::cli::doctor_checks(&home)).await?;
                // Without `[cluster]`, there are no rigs.
                let rigs = self.control.gateway.cluster.rigs().await.ok();
                json!({
                    "rigs": rigs, "samples": self.health.samples(), "interval_ms": health::INTERVAL_MS, "latency": latency,
                    "circuits": call::circuits(&self.control), "checks": checks.map_err(internal)?,
                })
            }
            Asked::Clients {} => self.clients().await?,
            Asked::Tools {} => {
                let person = session.person();
                let catalog = studio.catalog();
                let listed = catalog.tools().filter(|it| !it.hidden);
                json!({ "tools": listed.map(|it| self.tool(it, &person)).collect::<Vec<_>>() })
            }
            Asked::Sessions {} => json!({ "sessions": self.control.gateway.consoles.list() }),
        })
    }

    async fn full_question(&self, id: &str, from: usize) -> Result<Value, ToolError> {
        let record = decisions::find(&self.control, id, &[Kind::Call, Kind::Plan, Kind::Edit])?;
        let facts = self.studio().approvals.full(&record).await;
        let unreadable = |error| internal(format_args!("the full question cannot be read: {error}"));
        let page = decisions::page(&facts.map_err(unreadable)?, from);
        Ok(json!({ "question": self.question(&record), "facts": page["facts"], "next": page["next"] }))
    }

    async fn mappings(&self, mode: Option<String>) -> Result<Value, ToolError> {
        let handle = &self.control.handle;
        let names: Vec<String> = match mode {
            Some(mode) => vec![mode],
            None => handle.modes().modes.iter().map(|it| it.name.clone()).chain(["*".to_owned()]).collect(),
        };
        let modes = names.iter().map(|it| handle.mappings(it)).collect::<Result<Vec<_>, _>>()?;
        let surroundings = OwnedSurroundings::read(self.studio(), handle).await;
        let (studio, serving) = (std::sync::Arc::clone(self.studio()), handle.serving());
        let problems = blocking(move || {
            let text = serving.text.as_deref().unwrap_or_default();
            let found = surroundings.load(&studio, text).diagnostics;
            let faults = found.iter().map(|it| {
                let (mode, id) = row_of(&serving.config, &it.path);
                let severity = if it.severity == Severity::Warning { "warning" } else { "error" };
                json!({ "severity": severity, "line": it.line, "message": it.message, "mode": mode, "mapping_id": id })
            });
            let waits = timing_report::waits(&serving.config);
            let waits = waits.iter().map(|it| {
                json!({
                    "severity": "warning", "line": null, "message": it.to_string(), "mode": it.mode, "mapping_id": null,
                })
            });
            faults.chain(waits).collect::<Vec<_>>()
        });
        let problems = problems.await?;
        Ok(json!({ "modes": modes, "problems": problems }))
    }

    /// The templates of the devices, for the drawing of a controller.
    async fn controllers(&self) -> Result<Value, ToolError> {
        let handle = &self.control.handle;
        let serving = handle.serving();
        let controllers = handle.bindings().await?.device_bindings.into_iter().map(|bound| {
            let device = serving.config.devices.iter().find(|it| it.alias == bound.device_id);
            let template = device.and_then(|it| it.template.as_deref()).and_then(templates::find);
            let controls = template.map(|it| it.controls.iter().map(control).collect::<Vec<_>>());
            json!({
                "device_id": bound.device_id, "template": template.map(|it| &it.name),
                "description": template.map(|it| &it.description),
                "columns": template.and_then(|it| it.light.as_ref()).map(|it| it.columns),
                "controls": controls.unwrap_or_default(),
            })
        });
        Ok(json!({ "controllers": controllers.collect::<Vec<_>>() }))
    }

    async fn verify(&self) -> Result<Value, ToolError> {
        use crate::gateway::audit::{NOTE, recall};
        let serving = self.control.handle.serving();
        let settings = conductor_gateway::audit_log::Settings::from(&serving.config.audit);
        let head = self.control.gateway.audit.head();
        let home = self.studio().home.clone();
        let note = (serving.config.secrets == KeyRung::Keychain).then(|| KeychainNote::of_home(NOTE, &home));
        let verdict = blocking(move || {
            let (remembered, silent) = recall(&home, &settings, note.as_ref()).map_err(|error| error.to_string())?;
            crate::cli::audit::verdict(&home, head, &remembered, silent.as_deref())
        });
        verdict.await?.map_err(internal)
    }

    /// The lines of the log as they are, with valid hashes.
    async fn export(
        &self,
        session: &Session,
        since: Option<Timestamp>,
        until: Option<Timestamp>,
    ) -> Result<Response, ToolError> {
        let home = self.studio().home.clone();
        let text = blocking(move || -> std::io::Result<Vec<u8>> {
            let mut lines = Lines::over(segment_paths(&Disk, &Layout::of(&home).audit)?);
            let mut text = Vec::new();
            while let Some(line) = lines.next_line(&Disk)? {
                let wanted = since.is_none() && until.is_none()
                    || serde_json::from_slice(&line).is_ok_and(|record: Value| within(&record, since, until));
                if wanted {
                    text.extend_from_slice(&line);
                    text.push(b'\n');
                }
            }
            Ok(text)
        });
        let text = text.await?.map_err(internal)?;
        let _ = self
            .studio()
            .audit_event(Some(session.person()), EventName::AuditExported, json!({ "bytes": text.len() }))
            .await;
        let mut response = text.into_response();
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"));
        Ok(response)
    }

    /// The AI clients of this machine, and the clients that called recently according to the audit
    /// log.
    async fn clients(&self) -> Result<Value, ToolError> {
        let (home, launch) = (self.studio().home.clone(), self.launch()?);
        blocking(move || {
            let clients: Vec<Value> = CLIENTS
                .iter()
                .map(|client| {
                    let found = places_of(client).and_then(|it| setup::status(client, &it));
                    let (file, status) = found.map_or((None, Status::NotSetUp), |(file, status)| (Some(file), status));
                    let (state, detail) = match status {
                        Status::SetUp(_) => ("connected", None),
                        Status::NotInstalled => ("not_installed", None),
                        Status::NotSetUp => ("not_connected", None),
                        Status::OtherEntry => ("not_connected", Some("the entry starts no program".to_owned())),
                        Status::Unreadable(why) => ("unreadable", Some(why)),
                    };
                    json!({
                        "client": client.name, "title": client.title, "file": file, "state": state, "detail": detail,
                        "snippet": setup::snippet(client, &launch),
                    })
                })
                .collect();
            let mut seen: BTreeMap<String, (u64, Value)> = BTreeMap::new();
            let records = newest(&home, &Filter::default(), 10 * MOST_RECORDS).map_err(internal)?;
            for record in records.iter().filter(|it| it["phase"] == "outcome") {
                let Some(principal) = record["principal"].as_str() else { continue };
                if ["socket:", "http:"].iter().any(|it| principal.starts_with(it)) {
                    let entry = seen.entry(principal.to_owned()).or_default();
                    *entry = (entry.0 + 1, record["ts"].clone());
                }
            }
            let connected = seen.into_iter().map(|(principal, (calls, last_seen))| {
                json!({ "principal": principal, "calls": calls, "last_seen": last_seen })
            });
            Ok(json!({ "clients": clients, "connected": connected.collect::<Vec<_>>(), "program": launch.program }))
        })
        .await?
    }

    fn tool(&self, tool: &Tool, person: &Principal) -> Value {
        let schema = tool.published_schema.value();
        let example = example(&schema);
        let policy = self.studio().policy();
        let decision = policy.policy.decide(&policy::Subject {
            tool: &tool.name,
            tier: tool.tier,
            principal: person,
            args: &example,
            forms: &[],
            requires_approval: tool.requires_approval,
            by_args: None,
            ask_floor: tool.ask_floor,
        });
        json!({
            "name": tool.name, "title": tool.title, "description": tool.description, "tier": tool.tier,
            "toolset": tool.toolset, "decision": decision.decision.as_str(), "example": example,
            "input_schema": schema, "output_schema": tool.output_schema.value(),
        })
    }
}

/// The mode and the mapping that contain a path in the file, such as
/// `modes[0].mappings[2].trigger`.
fn row_of(config: &conductor_core::config::Config, path: &str) -> (Option<String>, Option<String>) {
    let number = |text: &str, list: &str| -> Option<usize> {
        text.split('.').find_map(|part| part.strip_prefix(list)?.strip_prefix('[')?.strip_suffix(']')?.parse().ok())
    };
    let (mode, rows) = match number(path, "modes") {
        Some(at) => match config.modes.get(at) {
            Some(mode) => (mode.name.clone(), &mode.rows),
            None => return (None, None),
        },
        None if path.starts_with("global_mappings") || path.starts_with("global") => ("*".to_owned(), &config.global),
        None => return (None, None),
    };
    let mapping = number(path, "mappings").or_else(|| number(path, "global_mappings"));
    let id = mapping.and_then(|at| rows.mappings.get(at)).map(|it| it.id.clone());
    (Some(mode), id)
}

fn control(control: &Control) -> Value {
    let (address, event) = match control.address {
        Address::Note(note) => (json!({ "note": note }), format!("on:{note}")),
        Address::Cc(cc) => (json!({ "cc": cc }), format!("cc:{cc}")),
        Address::Bend => (json!({ "bend": true }), "pb".to_owned()),
        Address::Button(button) => (json!({ "button": button.name() }), format!("down:{}", button.name())),
        Address::Axis(axis) => (json!({ "axis": axis.name() }), format!("axis:{}", axis.name())),
        Address::Trigger(side) => (json!({ "trigger": side.name() }), format!("trig:{}", side.name())),
    };
    json!({ "name": control.name, "kind": control.kind, "address": address, "event": event })
}

/// Arguments for a first try: the required members, with the examples of the schema.
fn example(schema: &Value) -> Value {
    let required: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let members = required.into_iter().map(|name| (name.to_owned(), sample(&schema["properties"][name], 0)));
    Value::Object(members.collect::<Map<_, _>>())
}

fn sample(schema: &Value, depth: usize) -> Value {
    if let Some(first) = schema["examples"].as_array().and_then(|it| it.first()) {
        return first.clone();
    }
    if let Some(given) = schema.get("default").or_else(|| schema.get("const")).filter(|it| !it.is_null()) {
        return given.clone();
    }
    if let Some(first) = schema["enum"].as_array().and_then(|it| it.first()) {
        return first.clone();
    }
    if let Some(first) = schema["anyOf"].as_array().or_else(|| schema["oneOf"].as_array()).and_then(|it| it.first())
        && depth < 3
    {
        return sample(first, depth + 1);
    }
    let kind = schema["type"].as_array().and_then(|it| it.first()).unwrap_or(&schema["type"]);
    match kind.as_str().unwrap_or("string") {
        "object" => example(schema),
        "array" => json!([]),
        "integer" | "number" => schema.get("minimum").cloned().unwrap_or(json!(0)),
        "boolean" => json!(false),
        "null" => Value::Null,
        _ => json!(""),
    }
}
