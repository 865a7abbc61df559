//! Runs a script: one process without grants, and one call after another through the pipeline.
//!
//! The process is not trusted. It can only ask for a call by name; the caller's rights decide about
//! the call. A run continues in its own task if the caller disconnects, so that the end of a call
//! is always in the journal.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use conductor_core::digest::Digest;
use conductor_core::error::{Code, Effect, Subject, ToolError};
use conductor_core::pending::{ConfigPlan, State};
use conductor_core::policy::Tier;
use conductor_core::script::{
    Answer, Asked, Changed, Journal, Line, MAX_OUTPUT_BYTES, MAX_RUN_MS, NESTING_TOOLS, Next, Outcome as Ended, Stop,
};
use conductor_hosts::plugin::Limits;
use conductor_hosts::plugin::process::{Answers, Launch, LogLevel, Over, PluginError, Process, Refusal};
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::copies::Originals;
use super::store::{Durable, JournalFile, Refused, Store, Wanted};
use super::{Execution, JoinedPlan, function_of};
use crate::catalog::typed::Context;
use crate::catalog::{Catalog, Source, Tool};
use crate::pipeline::call::{Content, Outcome};
use crate::pipeline::{self, Call, Step};
use crate::plans;
use crate::studio::Studio;

/// The name of the code in error messages.
const FILE: &str = "script.js";
/// Limits of the process. Its CPU time limit is lower than the time limit of the whole run.
const LIMITS: Limits = Limits { cpu_ms: 10_000, heap_mb: 64, stack_kb: 256 };
/// An approval can be used for at least this time after a person has given it.
const GRANT_MS: u64 = 60_000;

/// The parts that all runs of scripts share.
pub struct Scripts {
    store: Arc<Store>,
    program: ArcSwap<PathBuf>,
    originals: OnceLock<Originals>,
}

impl Scripts {
    /// `program` is the path of this binary.
    pub fn new(store: Store, program: PathBuf) -> Arc<Self> {
        Arc::new(Self { store: Arc::new(store), program: ArcSwap::from_pointee(program), originals: OnceLock::new() })
    }

    /// Sets the binary whose `plugin-host` is started, for a daemon inside another program such as
    /// a test.
    pub fn use_program(&self, program: PathBuf) {
        self.program.store(Arc::new(program));
    }

    /// Sets the documents that a dry run copies; later calls are ignored.
    pub fn copy_from(&self, originals: Originals) {
        let _ = self.originals.set(originals);
    }

    /// Removes expired journals. Blocks on disk I/O.
    pub fn clean_up(&self, studio: &Studio) -> std::io::Result<()> {
        self.store.clean_up(studio.timestamp(), |id| is_open(studio, id))
    }
}

/// Whether an approval can still be given or used.
fn is_open(studio: &Studio, id: Uuid) -> bool {
    let now = studio.timestamp();
    studio.approvals.get(id).is_some_and(|it| matches!(it.state, State::Pending | State::Allowed) && !it.is_over(now))
}

/// One call of a script, in the answer.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CallLine {
    /// Position of the call, from 0
    pub index: usize,
    /// Name of the tool
    pub tool: String,
    /// `ok`, `planned`, or the error code
    pub outcome: String,
    /// Present and true if the call was made in an earlier run of this script
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub replayed: bool,
    /// Present and true if the call would need an approval; only in a dry run
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub would_ask: bool,
}

/// Where a dry run ended before the end of the script.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct DryEnd {
    /// Name of the tool that a dry run cannot call
    pub tool: String,
    /// Reason
    pub reason: String,
}

/// The answer of a script that has ended.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Report {
    /// Id of all records of this script in the audit log
    #[schemars(with = "String", extend("format" = "uuid"))]
    pub execution_id: Uuid,
    /// The value that the script returned; null if it returned none
    #[schemars(with = "Value")]
    pub result: Value,
    /// The calls, in order
    pub calls: Vec<CallLine>,
    /// Lines that the script wrote with console.log
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub console: Vec<String>,
    /// The plan with all changes to the configuration. A person applies or rejects it
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<ConfigPlan>,
    /// Removed and added lines of config.toml; only in a dry run
    #[serde(skip_serializing_if = "Option::is_none")]
    pub would_plan: Option<String>,
    /// Present and true if nothing was changed
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
    /// The call at which a dry run ended
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<DryEnd>,
}

/// A script to run.
pub struct Asking {
    pub code: String,
    pub dry_run: bool,
    pub max_calls: usize,
}

/// Runs a script to its end, or to the call at which it stops.
pub async fn run(scripts: Arc<Scripts>, cx: Context, asking: Asking) -> Result<Report, ToolError> {
    // The run has its own task: if it were dropped during a call, the journal would not contain the
    // end of the call.
    let task = tokio::spawn(async move { Run::start(scripts, cx, asking).await?.run().await });
    task.await.map_err(|_| ToolError::new(Code::Internal, "the script failed inside Conductor"))?
}

/// How a run ended.
enum End {
    Returned(Value),
    Threw {
        message: String,
        call: Option<usize>,
    },
    /// The call was refused before it ran, and may succeed later.
    Refused {
        index: usize,
        error: Box<ToolError>,
    },
    Stopped(Stop),
    /// A limit was reached, or the process ended.
    Killed(Box<ToolError>),
    Cancelled,
    Dry(DryEnd),
}

fn killed(code: Code, text: impl Into<String>) -> End {
    End::Killed(Box::new(ToolError::new(code, text)))
}

struct Run {
    scripts: Arc<Scripts>,
    cx: Context,
    catalog: Arc<Catalog>,
    execution: Arc<Execution>,
    journal: Journal,
    /// Absent while a blocking thread writes a line, and after the journal was stopped or removed.
    file: Option<JournalFile>,
    launch: Launch,
    max_calls: usize,
    lines: Vec<CallLine>,
    /// Cancels the running call when the script reaches its time limit.
    cancel: CancellationToken,
}

impl Run {
    async fn start(scripts: Arc<Scripts>, cx: Context, asking: Asking) -> Result<Self, ToolError> {
        let studio = Arc::clone(&cx.studio);
        let mut seed = [0; 8];
        studio.ids.fill(&mut seed);
        let force = studio.policy();
        // The journal of a dry run is never written, and is independent of the journal of the real
        // run.
        let code = Digest::of(format!("{}\n{}", asking.dry_run, asking.code).as_bytes());
        let wanted = Wanted {
            principal: cx.clearance.principal().clone(),
            code,
            policy: force.version,
            now: studio.timestamp(),
            life_ms: force.policy.approval.ttl_ms,
            most: studio.settings().limits.pending_per_principal,
            execution: cx.clearance.call(),
            seed: u64::from_le_bytes(seed),
        };
        let (store, looking) = (Arc::clone(&scripts.store), Arc::clone(&studio));
        let begun = tokio::task::spawn_blocking(move || store.begin(wanted, |id| is_open(&looking, id))).await;
        let begun = begun.map_err(|_| ToolError::new(Code::Internal, "the journal of the script failed"))?;
        let (journal, file) = begun.map_err(not_begun)?;
        let copies = match (asking.dry_run, scripts.originals.get()) {
            (false, _) => None,
            (true, Some(originals)) => Some(Arc::new(originals.copy(&studio.catalog())?)),
            (true, None) => {
                return Err(ToolError::new(Code::Unsupported, "this daemon cannot run a script as a dry run"));
            }
        };
        let launch = Launch {
            program: scripts.program.load().to_path_buf(),
            limits: LIMITS,
            file: FILE.to_owned(),
            source: asking.code.as_bytes().into(),
        };
        Ok(Self {
            catalog: copies.clone().unwrap_or_else(|| studio.catalog()),
            execution: Execution::new(journal.begin().execution, copies),
            cancel: cx.clearance.cancel().child_token(),
            scripts,
            cx,
            journal,
            file: Some(file),
            launch,
            max_calls: asking.max_calls,
            lines: Vec::new(),
        })
    }

    fn studio(&self) -> &Arc<Studio> {
        &self.cx.studio
    }

    async fn run(mut self) -> Result<Report, ToolError> {
        let console = Arc::new(Mutex::new(Vec::new()));
        let end = self.process(&console).await;
        let console = std::mem::take(&mut *console.lock());
        self.finish(end, console).await
    }

    /// Runs the script's process until the script returns, throws, is refused a call, is cancelled
    /// or reaches its time limit. Returns only when no call is running.
    async fn process(&mut self, console: &Arc<Mutex<Vec<String>>>) -> End {
        let studio = Arc::clone(self.studio());
        let deadline = studio.sleeper.until(studio.clock.now().plus_us(MAX_RUN_MS * 1000));
        let (cancel, given_up) = (self.cancel.clone(), self.cx.clearance.cancel().clone());
        let (send, mut asked) = mpsc::unbounded_channel::<Request>();
        let answers = Channel { send, console: Arc::clone(console), left: Mutex::new(MAX_OUTPUT_BYTES) };
        let begin = self.journal.begin();
        let seed = [begin.seed as u32, (begin.seed >> 32) as u32];
        let message = json!({ "run": { "tools": self.functions(), "now": begin.started.as_millis(), "seed": seed } });
        let launch = self.launch.clone();
        let mut script = Box::pin(async {
            let mut process = Process::start_script(&launch).await?;
            process.request(&message, &answers).await
        });
        let ending = CancellationToken::new();
        let calls = async {
            while let Some(request) = asked.recv().await {
                // A script that has ended makes no further call.
                if ending.is_cancelled() {
                    break;
                }
                match self.make(request.tool, request.arguments).await {
                    Ok(answer) => drop(request.answer.send(answer)),
                    Err(end) => return Some(end),
                }
            }
            None
        };
        tokio::pin!(calls, deadline);
        let end = tokio::select! {
            biased;
            Some(end) = &mut calls => return end,
            ended = &mut script => of_script(ended),
            () = &mut deadline => killed(Code::Timeout, format!("the script did not end within {MAX_RUN_MS} ms")),
            () = given_up.cancelled() => End::Cancelled,
        };
        // Wait until the running call has ended, so that its end is in the journal.
        ending.cancel();
        if !matches!(end, End::Returned(_) | End::Threw { .. }) {
            cancel.cancel();
        }
        drop(script);
        drop(answers);
        match calls.await {
            // If a call has ended the script, its result contains the reason. A call that was
            // cancelled here contains no reason.
            Some(stopped @ (End::Refused { .. } | End::Stopped(_) | End::Dry(_))) => stopped,
            Some(End::Returned(_) | End::Threw { .. } | End::Killed(_) | End::Cancelled) | None => end,
        }
    }

    /// Toolset, function and tool name of each tool that the script can call.
    fn functions(&self) -> Vec<(String, String, String)> {
        let listed =
            self.catalog.list(self.cx.clearance.toolset()).filter(|it| !NESTING_TOOLS.contains(&it.safe_name()));
        listed
            .map(|tool| {
                let (set, verb) = function_of(tool);
                (set.to_owned(), verb, tool.name.to_string())
            })
            .collect()
    }

    /// Answers one call of the script: from the journal, or through the pipeline.
    async fn make(&mut self, tool: String, arguments: Value) -> Result<Value, End> {
        if self.lines.len() >= self.max_calls {
            let text = format!("the script made {} calls, which is its limit", self.max_calls);
            return Err(killed(Code::Unsupported, text));
        }
        let known = self.catalog.get(&tool).cloned();
        let name = known.as_ref().map_or(tool, |it| it.name.to_string());
        let hash = Digest::of_json(&arguments).unwrap_or_else(|_| Digest::of(arguments.to_string().as_bytes()));
        if self.execution.is_dry_run()
            && let Some(reason) =
                known.as_deref().zip(self.scripts.originals.get()).and_then(|(tool, it)| it.ends(tool, &arguments))
        {
            return Err(End::Dry(DryEnd { tool: name, reason: reason.to_owned() }));
        }
        match self.journal.next(&name, hash).map_err(End::Stopped)? {
            Next::Replay(ended) => {
                if let Some(planned) = &ended.planned {
                    self.restore(planned)?;
                }
                self.note(&ended, true);
                Ok(frame(&ended))
            }
            Next::Make(asked) => self.call(asked, arguments, known.as_deref()).await,
        }
    }

    async fn call(&mut self, asked: Asked, arguments: Value, tool: Option<&Tool>) -> Result<Value, End> {
        let index = asked.index;
        let has_effect = tool.is_some_and(has_effect) && !self.execution.is_dry_run();
        if has_effect {
            self.write(Line::Intent(asked.clone()), Durable::Now).await?;
        }
        let clearance = &self.cx.clearance;
        clearance.report(index as f64, Some(self.max_calls as f64), &asked.tool);
        let mut call = Call::new(clearance.principal().clone(), asked.tool.clone(), arguments);
        call.conn = clearance.conn();
        call.toolset = Arc::clone(clearance.toolset());
        call.tainted = clearance.tainted();
        call.cancel = self.cancel.child_token();
        call.script = Some(Arc::clone(&self.execution));
        let before = self.execution.joined().map_or(0, |it| it.rows.len());
        let reply = pipeline::run(self.studio(), call).await;
        let ran = reply.steps().contains(&Step::Handler);
        let ran_with_effect = ran && has_effect;
        let planned = self.execution.joined().filter(|it| it.rows.len() > before);
        let (answer, changed) = match reply.into_outcome() {
            Outcome::Done(Ok(_)) if planned.is_some() => {
                (Answer::Ok(json!({ "planned": planned.as_ref().map_or(0, |it| it.rows.len()) })), Changed::Nothing)
            }
            Outcome::Done(Ok(output)) => {
                let changed = if ran_with_effect { Changed::Something } else { Changed::Nothing };
                let is_error = output.is_error;
                let (value, _, content) = output.into_parts();
                let value = if value.is_null() { json!({ "text": texts(&content) }) } else { value };
                (if is_error { Answer::Error(own_error(value)) } else { Answer::Ok(value) }, changed)
            }
            Outcome::Done(Err(error)) if !ran && may_succeed_later(error.code) => {
                return Err(End::Refused { index, error: Box::new(error) });
            }
            Outcome::Done(Err(error)) => {
                let changed = match error.effect {
                    Some(Effect::Done) if has_effect => Changed::Something,
                    Some(Effect::Unknown) if has_effect => Changed::Unknown,
                    Some(_) | None => Changed::Nothing,
                };
                (Answer::Error(error.to_wire()), changed)
            }
            // If the handler was running, the effect of the call is unknown. Its intent stays in
            // the journal without an outcome.
            Outcome::Cancelled | Outcome::Ask { .. } if ran_with_effect => return Err(End::Cancelled),
            Outcome::Cancelled | Outcome::Ask { .. } => {
                let error = ToolError::new(Code::Timeout, "the script ended before this call");
                return Err(End::Refused { index, error: Box::new(error) });
            }
        };
        let planned = planned.and_then(|it| serde_json::to_value(it).ok());
        let mut ended = Ended { asked, answer, changed, planned };
        let size = serde_json::to_vec(&ended).map_or(usize::MAX, |it| it.len());
        let fits = self.file.as_ref().is_some_and(|it| it.has_room(size));
        if !fits {
            ended.answer = Answer::Error(json!({ "code": Code::Unsupported, "message": "the answer was too large" }));
            ended.planned = None;
        }
        let durable = if changed == Changed::Nothing { Durable::Later } else { Durable::Now };
        self.write(Line::Outcome(ended.clone()), durable).await?;
        self.note(&ended, false);
        if !fits {
            return Err(killed(Code::Unsupported, "the answers to the script's calls are too large in total"));
        }
        Ok(frame(&ended))
    }

    /// Writes a line and adds it to the journal.
    async fn write(&mut self, line: Line, durable: Durable) -> Result<(), End> {
        let lost = |text: String| killed(Code::AuditUnavailable, format!("the journal of the script failed: {text}"));
        // A line that is out of order must not reach the disk.
        self.journal.add(line.clone()).map_err(|fault| lost(fault.to_string()))?;
        if self.execution.is_dry_run() {
            return Ok(());
        }
        let Some(mut file) = self.file.take() else { return Err(lost("the file is not open".to_owned())) };
        let work = move || {
            let written = file.write(&line, durable);
            (file, written)
        };
        let written = match durable {
            Durable::Later => Ok(work()),
            Durable::Now => tokio::task::spawn_blocking(work).await,
        };
        let (file, written) = written.map_err(|fault| lost(fault.to_string()))?;
        self.file = Some(file);
        written.map_err(|fault| lost(fault.to_string()))
    }

    fn restore(&self, planned: &Value) -> Result<(), End> {
        let joined: Option<JoinedPlan> = serde_json::from_value(planned.clone()).ok();
        let checked = joined.as_ref().map(|it| plans::check_base(self.studio(), it));
        match checked {
            Some(Ok(())) => {
                self.execution.set_joined(joined);
                Ok(())
            }
            Some(Err(error)) => Err(End::Killed(Box::new(error))),
            None => Err(killed(Code::PlanStale, "a planned change cannot be read from the journal")),
        }
    }

    fn note(&mut self, ended: &Ended, replayed: bool) {
        let outcome = match (&ended.answer, &ended.planned) {
            (Answer::Ok(_), Some(_)) => "planned".to_owned(),
            (Answer::Ok(_), None) => "ok".to_owned(),
            (Answer::Error(error), _) => error["code"].as_str().unwrap_or("INTERNAL").to_owned(),
        };
        let Asked { index, tool, .. } = ended.asked.clone();
        let would_ask = self.execution.take_would_ask();
        self.lines.push(CallLine { index, tool, outcome, replayed, would_ask });
    }

    /// Stores the plan, and keeps or removes the journal.
    async fn finish(mut self, end: End, console: Vec<String>) -> Result<Report, ToolError> {
        let dry_run = self.execution.is_dry_run();
        let (result, ended_at) = match end {
            End::Returned(value) => (value, None),
            End::Dry(at) => (Value::Null, Some(at)),
            other @ (End::Threw { .. } | End::Refused { .. } | End::Stopped(_) | End::Killed(_) | End::Cancelled) => {
                let error = self.stop(other).await;
                return Err(self.describe(error, &console));
            }
        };
        let bytes = result.to_string().len() + console.iter().map(String::len).sum::<usize>();
        let plan = match self.execution.joined() {
            Some(joined) if !dry_run => match self.store_plan(joined).await {
                Ok(plan) => Some(plan),
                Err(error) => {
                    let error = self.stop(End::Killed(Box::new(error))).await;
                    return Err(self.describe(error, &console));
                }
            },
            Some(_) | None => None,
        };
        let would_plan = match self.execution.joined() {
            Some(joined) if dry_run => plans::difference(self.studio(), &joined).ok(),
            Some(_) | None => None,
        };
        self.end_journal().await;
        if bytes > MAX_OUTPUT_BYTES {
            let text = format!("the script ended, but its output has {bytes} bytes; the limit is {MAX_OUTPUT_BYTES}");
            let error = ToolError::new(Code::Unsupported, text)
                .hint("Return less. The calls were made; repeating the script makes them again.")
                .effect(effect_of(self.journal.changed()));
            return Err(self.describe(error, &[]));
        }
        let execution_id = self.execution.id();
        Ok(Report { execution_id, result, calls: self.lines, console, plan, would_plan, dry_run, ended_at })
    }

    async fn store_plan(&mut self, joined: JoinedPlan) -> Result<ConfigPlan, ToolError> {
        let id = match self.journal.plan() {
            Some(id) => id,
            None => {
                let id = self.studio().new_ids().id;
                // The id is on the disk first, so that a repeated run finds the stored plan.
                self.write(Line::Plan { id }, Durable::Now).await.map_err(|end| match end {
                    End::Killed(error) => *error,
                    End::Returned(_)
                    | End::Threw { .. }
                    | End::Refused { .. }
                    | End::Stopped(_)
                    | End::Cancelled
                    | End::Dry(_) => ToolError::new(Code::Internal, "the plan cannot be stored"),
                })?;
                id
            }
        };
        plans::keep_joined(&self.cx, joined, id).await
    }

    /// Ends a run that has not returned. The journal stays if a repeated run could repeat an effect
    /// or continue after an approval.
    async fn stop(&mut self, end: End) -> ToolError {
        let changed = if let End::Refused { index, .. } = &end {
            // The refused call is the last one. It had no effect.
            self.journal.changed_before(*index)
        } else {
            self.journal.changed()
        };
        let until = self.studio().timestamp().plus_millis(self.studio().policy().policy.approval.ttl_ms);
        let mut withdrawn = (self.journal.calls(), None, until);
        let error = match end {
            End::Refused { index, error } => {
                let question = error.extras.question.as_ref();
                let approval = question.and_then(|it| it.approval_id.parse().ok());
                let asked_until = question.map_or(until, |it| it.expires_at.plus_millis(GRANT_MS));
                withdrawn = (index, approval, until.max(asked_until));
                let hint = if error.code == Code::ApprovalRequired {
                    error.hint.replace("the identical call; it runs once", "the identical script; it continues here")
                } else {
                    format!("{} Then repeat the identical script; it continues here.", error.hint)
                };
                error.hint(hint)
            }
            End::Threw { message, call } => {
                let last = self.journal.ended().last();
                let failed = call.and_then(|call| self.journal.ended().nth(call)).and_then(|it| match &it.answer {
                    Answer::Error(error) => Some(error.clone()),
                    Answer::Ok(_) => None,
                });
                // The failed call is made again when the script is repeated.
                if let Some(last) = last.filter(|it| Some(it.asked.index) == call && it.changed == Changed::Nothing) {
                    withdrawn.0 = last.asked.index;
                }
                let code = failed.and_then(|it| it["code"].as_str()?.parse().ok()).unwrap_or(Code::BadInput);
                ToolError::new(code, message).hint(match changed {
                    Changed::Nothing => "Correct the script and run it again.",
                    Changed::Something | Changed::Unknown => {
                        "Read `calls`: these calls were made. The identical script continues after them; a changed script starts from the beginning."
                    }
                })
            }
            End::Stopped(stop @ Stop::Differs { .. }) => ToolError::new(Code::PlanStale, stop.to_string())
                .hint("The script makes different calls than in its first run. Read the state and run a script for the rest of the work."),
            End::Stopped(stop @ Stop::Unknown { .. }) => ToolError::new(Code::PlanStale, stop.to_string())
                .hint("Read the state to see whether the call had its effect, then run a script for the rest of the work.")
                .effect(Effect::Unknown),
            End::Killed(error) => *error,
            End::Cancelled => ToolError::new(Code::Timeout, "the caller ended the script"),
            End::Returned(_) | End::Dry(_) => ToolError::new(Code::Internal, "the script has not stopped"),
        };
        let waits = withdrawn.1.is_some();
        if changed == Changed::Nothing && !waits {
            self.end_journal().await;
        } else {
            let (index, approval, until) = withdrawn;
            // A call whose effect is unknown stays in the journal, so it gets no `Withdrawn` line.
            if !self.journal.is_open() || index < self.journal.calls() {
                let _ = self.write(Line::Withdrawn { index, approval, until }, Durable::Now).await;
            }
            if let Some(mut file) = self.file.take() {
                let journal = self.journal.clone();
                let _ = tokio::task::spawn_blocking(move || file.stop(&journal)).await;
            }
        }
        let effect = error.effect.filter(|it| *it != Effect::None).unwrap_or_else(|| effect_of(changed));
        error.effect(effect)
    }

    async fn end_journal(&mut self) {
        if let Some(mut file) = self.file.take() {
            // If the file cannot be removed, the journal expires later.
            let _ = tokio::task::spawn_blocking(move || file.remove()).await;
        }
    }

    fn describe(&self, error: ToolError, console: &[String]) -> ToolError {
        let error = error
            .more("execution_id", json!(self.execution.id().to_string()))
            .more("calls", json!(self.lines))
            .subject(Subject::Tool(self.cx.clearance.tool().name.to_string()));
        let error = if console.is_empty() { error } else { error.more("console", json!(console)) };
        match self.execution.joined() {
            Some(joined) => error.more("planned", json!(joined.summaries)),
            None => error,
        }
    }
}

/// A call that the process requests.
struct Request {
    tool: String,
    arguments: Value,
    answer: oneshot::Sender<Value>,
}

/// Passes the calls of the process to the run, in the order in which they arrive.
struct Channel {
    send: mpsc::UnboundedSender<Request>,
    console: Arc<Mutex<Vec<String>>>,
    /// Number of bytes that the console may still receive.
    left: Mutex<usize>,
}

impl Answers for Channel {
    fn answer(&self, what: String, mut with: Value) -> BoxFuture<'static, Result<Value, Refusal>> {
        let refusal = |message: &str| Refusal { message: message.to_owned(), code: "DENIED" };
        let tool = with["tool"].as_str().map(str::to_owned).filter(|_| what == "call");
        let Some(tool) = tool else {
            return Box::pin(std::future::ready(Err(refusal("a script can only call tools"))));
        };
        let (answer, answered) = oneshot::channel();
        let _ = self.send.send(Request { tool, arguments: with["arguments"].take(), answer });
        Box::pin(async move { answered.await.map_err(|_| refusal("the script has ended")) })
    }

    fn log(&self, _: LogLevel, text: &str) {
        let mut left = self.left.lock();
        *left = left.saturating_sub(text.len());
        if *left > 0 {
            self.console.lock().push(text.to_owned());
        }
    }

    fn log_bytes(&self) -> usize {
        MAX_OUTPUT_BYTES
    }
}

fn of_script(ended: Result<Value, PluginError>) -> End {
    match ended {
        Ok(mut done) => match done.get("threw") {
            Some(thrown) => {
                let message = thrown["message"].as_str().unwrap_or("the script threw an error");
                let place = thrown["place"].as_str().map(|it| format!("{it}: ")).unwrap_or_default();
                let call = thrown["call"].as_u64().and_then(|it| usize::try_from(it).ok());
                End::Threw { message: conductor_core::text::escape(&format!("{place}{message}")).into_owned(), call }
            }
            None => End::Returned(done["ok"].take()),
        },
        Err(PluginError::Threw(thrown) | PluginError::NotLoaded(thrown)) => {
            End::Threw { message: conductor_core::text::escape(&thrown.to_string()).into_owned(), call: None }
        }
        Err(PluginError::Over(Over::Time, thrown)) => killed(Code::Timeout, thrown.to_string()),
        Err(PluginError::Over(Over::Memory, thrown)) => killed(Code::Unsupported, thrown.to_string()),
        Err(
            fault
            @ (PluginError::Died(_) | PluginError::NotStarted(_) | PluginError::Busy(_) | PluginError::Changed(_)),
        ) => killed(Code::Internal, format!("the script's process failed: {fault}")),
    }
}

fn not_begun(why: Refused) -> ToolError {
    let text = why.to_string();
    match why {
        Refused::Running | Refused::Crowded(_) => ToolError::new(Code::Busy, text)
            .hint("Wait until a running script has ended, then repeat the call.")
            .retry_after_ms(1000),
        Refused::TooMany(_) => ToolError::new(Code::Busy, text)
            .hint("Run one of these scripts again, unchanged, until it ends, or wait until they expire."),
        Refused::Damaged => ToolError::new(Code::PlanStale, text)
            .hint("Read the state, and run a script for the rest of the work.")
            .effect(Effect::Unknown),
        Refused::PolicyChanged(journal) => {
            let calls: Vec<Value> =
                journal.ended().map(|it| json!({ "index": it.asked.index, "tool": it.asked.tool })).collect();
            ToolError::new(Code::PlanStale, text)
                .hint("Read `calls`: these calls were made. Repeating the script starts from the beginning.")
                .effect(effect_of(journal.changed()))
                .more("calls", json!(calls))
        }
        Refused::Disk(_) => ToolError::new(Code::AuditUnavailable, text),
    }
}

fn effect_of(changed: Changed) -> Effect {
    match changed {
        Changed::Nothing => Effect::None,
        Changed::Something => Effect::Done,
        Changed::Unknown => Effect::Unknown,
    }
}

/// Whether a repeated call to this tool could have a second effect. A change to the configuration
/// has none: it is only added to the plan of the script.
fn has_effect(tool: &Tool) -> bool {
    match tool.tier {
        Tier::ReadOnly => false,
        Tier::ConfigChange => tool.source != Source::Builtin,
        Tier::Stateful | Tier::HardwareIo => true,
    }
}

/// Whether a call may succeed later if it was refused with this code before its handler ran.
fn may_succeed_later(code: Code) -> bool {
    matches!(
        code,
        Code::ApprovalRequired
            | Code::PlanStale
            | Code::PlanExpired
            | Code::RateLimited
            | Code::Busy
            | Code::AuditUnavailable
    )
}

fn texts(content: &[Content]) -> String {
    let text = |it: &Content| match it {
        Content::Text(text) => Some(text.clone()),
        Content::Image { .. } | Content::Audio { .. } | Content::Resource { .. } | Content::Blob { .. } => None,
    };
    content.iter().filter_map(text).collect::<Vec<_>>().join("\n")
}

/// The error object for a plugin that reports its own failure.
fn own_error(value: Value) -> Value {
    let code = value["code"].as_str().unwrap_or(Code::SdkRejected.as_str()).to_owned();
    let message =
        value["message"].as_str().or(value["text"].as_str()).unwrap_or("the tool reports an error").to_owned();
    json!({ "code": code, "message": message, "details": value })
}

/// The answer as the process receives it.
fn frame(ended: &Ended) -> Value {
    match &ended.answer {
        Answer::Ok(value) => json!({ "ok": value }),
        Answer::Error(error) => json!({ "error": error, "call": ended.asked.index }),
    }
}
