//! Decisions of the person at the console. Uses the functions of the human door, but records the
//! channel `console`.

use super::sessions::{Ended, Session};
use super::{Console, Refusal, plain, read};
use crate::doors::control::decisions::{self, Grant};
use crate::doors::mcp::setup;
use crate::doors::mcp::setup::clients::{Client, Launch, Places, Platform};
use axum::body::Body;
use axum::response::Response;
use conductor_core::error::{Code, Subject, ToolError};
use conductor_core::event::Taint;
use conductor_core::pending::{Kind, Record, State};
use conductor_core::policy::Channel;
use conductor_core::principal::Principal;
use conductor_gateway::pending_store::Attachment;
use conductor_hosts::system::Environment;
use serde::Deserialize;
use serde_json::{Value, json};

/// Maximum number of decisions in one request.
const MOST: usize = 32;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    decisions: Vec<Value>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum Scope {
    #[default]
    Once,
    Session,
}

#[derive(Deserialize)]
#[serde(tag = "decision", rename_all = "snake_case", deny_unknown_fields)]
enum Decision {
    Allow {
        id: String,
        #[serde(default)]
        scope: Scope,
        uses: Option<u32>,
        for_ms: Option<u64>,
        #[serde(default)]
        any_args: bool,
    },
    Deny {
        id: String,
        reason: Option<String>,
    },
    Apply {
        id: String,
    },
    Reject {
        id: String,
        reason: Option<String>,
    },
    Undo {
        id: String,
        #[serde(default)]
        apply: bool,
    },
    AcceptConfig {
        hash: String,
    },
    AcceptLog {},
    ResetCircuit {
        tool: Option<String>,
    },
    PerformanceLock {
        on: bool,
    },
    AutoMode {},
    ConnectClient {
        client: String,
    },
    DisconnectClient {
        client: String,
    },
    RevokeSession {
        session: String,
    },
}

impl Console {
    pub(super) async fn decide(&self, session: &Session, body: Body) -> Result<Response, Refusal> {
        let Request { decisions } = read(body).await?;
        if decisions.is_empty() || decisions.len() > MOST {
            return Err(ToolError::new(Code::BadInput, format!("send 1 to {MOST} decisions")).into());
        }
        let person = session.person();
        let mut results = Vec::new();
        for decision in decisions {
            let decided = match serde_json::from_value(decision) {
                Ok(decision) => self.one(&person, decision).await,
                Err(error) => Err(ToolError::new(Code::BadInput, format!("the decision is not valid: {error}"))),
            };
            results.push(match decided {
                Ok(mut done) => {
                    done["ok"] = true.into();
                    done
                }
                Err(error) => json!({ "ok": false, "fault": error.to_wire() }),
            });
        }
        let mut answer = json!({ "results": results });
        self.studio().scrubber.value(&mut answer);
        Ok(plain(&answer))
    }

    async fn one(&self, person: &Principal, decision: Decision) -> Result<Value, ToolError> {
        let control = &*self.control;
        let channel = Channel::Console;
        let by = || person.clone();
        Ok(match decision {
            Decision::Allow { id, scope, uses, for_ms, any_args } => {
                let grant = match scope {
                    Scope::Once => Grant::Uses { uses: uses.unwrap_or(1), for_ms, any_args },
                    Scope::Session => Grant::Session,
                };
                self.asked(&decisions::allow(control, person, channel, &id, grant).await?)
            }
            Decision::Deny { id, reason } => self.asked(&decisions::deny(control, person, channel, &id, reason).await?),
            Decision::Apply { id } => {
                let result = decisions::apply_plan(control, by(), channel, &id).await?;
                self.planned(&id, result)
            }
            Decision::Reject { id, reason } => {
                let result = decisions::reject_plan(control, by(), channel, &id, reason).await?;
                self.planned(&id, result)
            }
            Decision::Undo { id, apply } => {
                let result = decisions::undo(control, by(), &id).await?;
                match result["plan_id"].as_str().map(str::to_owned).filter(|_| apply) {
                    Some(undo) => {
                        let applied = decisions::apply_plan(control, by(), channel, &undo).await?;
                        self.planned(&undo, applied)
                    }
                    None => {
                        let undo = result["plan_id"].as_str().unwrap_or(&id).to_owned();
                        self.planned(&undo, result)
                    }
                }
            }
            Decision::AcceptConfig { hash } => {
                json!({ "result": decisions::accept_config(control, by(), &hash).await? })
            }
            Decision::AcceptLog {} => json!({ "result": decisions::accept_log(control, by()).await? }),
            Decision::ResetCircuit { tool } => {
                json!({ "result": decisions::reset_circuit(control, by(), tool).await? })
            }
            Decision::PerformanceLock { on } => {
                control.handle.set_performance_lock(on).await?;
                json!({ "result": { "on": on } })
            }
            Decision::AutoMode {} => json!({ "result": control.handle.switch_mode(None, Taint::Clean).await? }),
            Decision::ConnectClient { client } => json!({ "result": connect(&client, self.launch()?, true).await? }),
            Decision::DisconnectClient { client } => {
                json!({ "result": connect(&client, self.launch()?, false).await? })
            }
            Decision::RevokeSession { session } => {
                let ended = control.gateway.consoles.end(Some(&session), Ended::Revoked);
                if ended == 0 {
                    return Err(ToolError::new(Code::NotFound, format!("there is no console session {session:?}")));
                }
                json!({ "result": { "ended": ended } })
            }
        })
    }

    fn asked(&self, record: &Record) -> Value {
        json!({ "question": self.question(record) })
    }

    fn planned(&self, id: &str, result: Value) -> Value {
        match decisions::find(&self.control, id, &[Kind::Plan, Kind::Edit]) {
            Ok(record) => json!({ "question": self.question(&record), "result": result }),
            Err(_) => json!({ "result": result }),
        }
    }

    /// A call, a plan or an edit as the page shows it.
    pub(super) fn question(&self, record: &Record) -> Value {
        let studio = self.studio();
        let store = studio.approvals.store();
        let mut value = decisions::shown(record);
        value["held"] = store.read(|pending| pending.is_waited_for(record.id)).into();
        value["grantable"] = studio.catalog().get(&record.tool).is_some_and(|it| it.grantable).into();
        value["answerable"] = Channel::Console.satisfies(record.channel_floor).into();
        value["undoable"] = (record.state == State::Used && matches!(record.kind, Kind::Plan | Kind::Edit)).into();
        value["shortened"] = store.has(record.id, Attachment::Full).into();
        value
    }
}

/// Writes or removes Conductor's entry in the file of an AI client.
async fn connect(client: &str, launch: Launch, add: bool) -> Result<Value, ToolError> {
    let unknown = || ToolError::new(Code::NotFound, format!("no AI client is named {client:?}"));
    let client = Client::named(client).ok_or_else(unknown)?;
    let work = move || {
        let by_hand = || json!({ "written": false, "file": null, "snippet": setup::snippet(client, &launch) });
        let Some(places) = places_of(client) else { return Ok(by_hand()) };
        let done = if add { setup::apply(client, &places, &launch) } else { setup::remove(client, &places) };
        let done = done.map_err(|fault| {
            ToolError::new(Code::Unsupported, fault.to_string()).subject(Subject::Host(client.name.into()))
        })?;
        Ok(match done {
            setup::Done::Written { file } | setup::Done::Deleted { file } => json!({ "written": true, "file": file }),
            setup::Done::Unchanged { file } => json!({ "written": false, "file": file }),
            setup::Done::NoFile => by_hand(),
        })
    };
    tokio::task::spawn_blocking(work).await.map_err(|error| ToolError::new(Code::Internal, error.to_string()))?
}

/// The folders of a client whose file belongs to the user. `None` for a client whose file belongs
/// to a project, because the daemon cannot determine the project.
pub(super) fn places_of(client: &Client) -> Option<Places> {
    if client.belongs_to_project() {
        return None;
    }
    let Environment { user_home, app_data, .. } = Environment::read();
    let user_home = user_home?;
    Some(Places { project: user_home.clone(), user_home: Some(user_home), app_data, platform: Platform::current() })
}

impl Console {
    /// The command that an AI client starts to reach this daemon.
    pub(super) fn launch(&self) -> Result<Launch, ToolError> {
        let program = std::env::current_exe().map_err(|error| ToolError::new(Code::Internal, error.to_string()))?;
        let home = self.control.home.root();
        // An AI client does not have the environment of this daemon.
        let usual = Environment::read().user_home.map(|it| it.join(".conductor"));
        let other = (usual.as_deref() != Some(home)).then(|| home.display().to_string());
        Ok(Launch::new(program.display().to_string(), other.as_deref(), None))
    }
}
