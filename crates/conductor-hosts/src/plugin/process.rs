//! One process of one plugin, as the daemon sees it: started, spoken to, and ended with everything
//! it may have become.
//!
//! Dropping a [`Process`] ends it: a call that is given up takes its process along, because nothing
//! else would stop the code in it. Not here: what a request is answered with ([`Answers`] is
//! given), queues and restarts (`runner`).

use super::frame::MAX_BYTES;
use super::{Limits, Thrown, frame};
use crate::system::children::ProcessGroup;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// What to run.
#[derive(Clone, Debug)]
pub struct Launch {
    /// This binary.
    pub program: PathBuf,
    pub limits: Limits,
    /// As it is named in errors.
    pub file: String,
    pub source: Arc<[u8]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    Debug,
    Info,
    Warning,
    Error,
}

/// Why a request of a plugin is not granted, in words for its code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub message: String,
    pub code: &'static str,
}

/// Who answers a plugin's requests. Every request is judged anew: nothing the process says about
/// itself is believed.
pub trait Answers: Send + Sync {
    fn answer(&self, what: String, with: Value) -> BoxFuture<'static, Result<Value, Refusal>>;
    fn log(&self, level: LogLevel, text: &str);
    /// Its process was started anew.
    fn restarted(&self) {}
}

/// For a file that is only looked at: it is given nothing.
pub struct NoAnswers;

impl Answers for NoAnswers {
    fn answer(&self, what: String, _: Value) -> BoxFuture<'static, Result<Value, Refusal>> {
        let message = format!("{what} is not given to a plugin that is only looked at");
        Box::pin(std::future::ready(Err(Refusal { message, code: "DENIED" })))
    }

    fn log(&self, _: LogLevel, _: &str) {}
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The plugin's own error; its process is as good as before.
    #[error("{0}")]
    Threw(Thrown),
    /// It used up its processor time or its memory, and its process is gone.
    #[error("{1}")]
    Over(Over, Thrown),
    /// The file cannot be loaded.
    #[error("{0}")]
    NotLoaded(Thrown),
    #[error("its process ended by itself ({0})")]
    Died(String),
    #[error("its process does not start: {0}")]
    NotStarted(String),
    #[error("{0} calls wait already")]
    Busy(usize),
    /// What was loaded is not what a person enabled.
    #[error("{0}")]
    Changed(String),
}

/// What was used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    Time,
    Memory,
}

pub struct Process {
    child: Child,
    input: ChildStdin,
    output: ChildStdout,
    /// Bytes that arrived and are no whole frame yet.
    arrived: Vec<u8>,
    group: ProcessGroup,
}

/// How much of a plugin's console one call may put into the log.
const LOG_BYTES: usize = 8 * 1024;
/// Requests of a plugin that are worked on at once; the others wait as they came.
const UNDER_WAY: usize = 32;
/// Bytes of requests that wait. Its heap could hold no more of them.
const WAITING_BYTES: usize = 64 << 20;
/// Bytes of answers that it has not read; until it does, no other request is worked on.
const UNREAD_BYTES: usize = 8 << 20;

impl Process {
    /// Starts the child, has it evaluate the file, and gives what the file declares.
    pub async fn start(launch: &Launch) -> Result<(Self, Value), Fault> {
        let failed = |fault: io::Error| Fault::NotStarted(fault.to_string());
        let Limits { cpu_ms, heap_mb, stack_kb } = launch.limits;
        let mut command = Command::new(&launch.program);
        command.arg("plugin-host");
        for (flag, most) in [("--cpu-ms", cpu_ms), ("--heap-mb", heap_mb), ("--stack-kb", stack_kb)] {
            command.args([flag, &most.to_string()]);
        }
        command.env_clear().stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
        let (mut child, group) = ProcessGroup::spawn(&mut command).map_err(failed)?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Fault::NotStarted("no pipes".into()));
        };
        let mut process = Process { child, input, output, arrived: Vec::new(), group };
        let sent = async {
            frame::write(&mut process.input, launch.file.as_bytes()).await?;
            frame::write(&mut process.input, &launch.source).await
        };
        // A child that ends early is told by its silence below.
        let _ = sent.await;
        let declared = match process.next().await {
            Some(mut message) => {
                if let Ok(thrown) = serde_json::from_value(message["failed"].take()) {
                    return Err(Fault::NotLoaded(thrown));
                }
                message["declared"].take()
            }
            None => return Err(process.died().await),
        };
        Ok((process, declared))
    }

    pub fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// Whether it is still there.
    pub fn lives(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Says one thing, and serves its requests until it has answered.
    pub async fn tell(&mut self, message: &Value, answers: &dyn Answers) -> Result<Value, Fault> {
        let mut leaving = Vec::new();
        queue(&mut leaving, message);
        let mut written = 0;
        let mut answered = FuturesUnordered::new();
        // A request that waits is kept as it was written: small.
        let (mut waiting, mut waiting_bytes) = (VecDeque::<Vec<u8>>::new(), 0);
        let mut log_left = LOG_BYTES;
        loop {
            let has_room = leaving.len() - written < UNREAD_BYTES;
            while has_room
                && answered.len() < UNDER_WAY
                && let Some(asked) = waiting.pop_front()
            {
                waiting_bytes -= asked.len();
                let Some(ask) = serde_json::from_slice::<Value>(&asked).ok().map(|mut it| it["ask"].take()) else {
                    continue;
                };
                let (id, what, with) =
                    (ask["id"].clone(), ask["what"].as_str().unwrap_or_default().to_owned(), ask["with"].clone());
                let answer = answers.answer(what, with);
                answered.push(async move { (id, answer.await) });
            }
            tokio::select! {
                arrived = Self::next_of(&mut self.output, &mut self.arrived) => {
                    let Some(body) = arrived else { return Err(self.died().await) };
                    let Ok(mut message) = serde_json::from_slice::<Value>(&body) else { return Err(self.died().await) };
                    if let Some(log) = message.get("log") {
                        tell_log(answers, log, &mut log_left);
                    } else if message.get("ask").is_some() {
                        waiting_bytes += body.len();
                        if waiting_bytes > WAITING_BYTES {
                            self.kill();
                            return Err(Fault::Died("it asked for more at once than can be kept".into()));
                        }
                        waiting.push_back(body);
                    } else if message.get("threw").is_some() {
                        let thrown = serde_json::from_value(message["threw"].take()).unwrap_or_default();
                        return Err(match message["over"].as_str() {
                            // Nothing is used up; the code merely has no way on.
                            None | Some("stuck") => Fault::Threw(thrown),
                            Some("time") => Fault::Over(Over::Time, thrown),
                            Some(_) => Fault::Over(Over::Memory, thrown),
                        });
                    } else if let Some(done) = message.get_mut("done") {
                        return Ok(done.take());
                    }
                }
                Some((id, answer)) = answered.next(), if has_room && !answered.is_empty() => {
                    queue(&mut leaving, &match answer {
                        Ok(value) => json!({ "answer": { "id": id, "ok": value } }),
                        Err(Refusal { message, code }) => json!({ "answer": { "id": id, "error": { "message": message, "code": code } } }),
                    });
                }
                // Beside the reading: both sides may have more to say than a pipe holds.
                sent = self.input.write(leaving.get(written..).unwrap_or_default()), if written < leaving.len() => match sent {
                    Ok(count) => {
                        written += count;
                        if written == leaving.len() {
                            leaving = Vec::new();
                            written = 0;
                        } else if written > UNREAD_BYTES {
                            leaving.drain(..written);
                            written = 0;
                        }
                    }
                    Err(_) => return Err(self.died().await),
                },
            }
        }
    }

    async fn next(&mut self) -> Option<Value> {
        let body = Self::next_of(&mut self.output, &mut self.arrived).await?;
        serde_json::from_slice(&body).ok()
    }

    /// The next message as it was written. Nothing is lost when it is given up in the middle.
    /// `None`: the child is gone, or makes no sense.
    async fn next_of(output: &mut ChildStdout, arrived: &mut Vec<u8>) -> Option<Vec<u8>> {
        loop {
            if let Some(head) = arrived.first_chunk::<4>() {
                let length = u32::from_le_bytes(*head) as usize;
                if length > MAX_BYTES {
                    return None;
                }
                if let Some(body) = arrived.get(4..4 + length) {
                    let body = body.to_vec();
                    arrived.drain(..4 + length);
                    return Some(body);
                }
            }
            match output.read_buf(arrived).await {
                Ok(0) | Err(_) => return None,
                Ok(_) => {}
            }
        }
    }

    async fn died(&mut self) -> Fault {
        self.kill();
        Fault::Died(self.child.wait().await.map_or_else(|fault| fault.to_string(), |status| status.to_string()))
    }

    fn kill(&self) {
        // Once the child was waited for, its pid may belong to another process.
        if self.child.id().is_some() {
            self.group.kill();
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

fn queue(leaving: &mut Vec<u8>, message: &Value) {
    let bytes = message.to_string();
    // Whoever answers keeps answers below this; a longer one would end the child.
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    leaving.extend_from_slice(&length.to_le_bytes());
    leaving.extend_from_slice(bytes.as_bytes());
}

fn tell_log(answers: &dyn Answers, log: &Value, left: &mut usize) {
    let level = match log["level"].as_str() {
        Some("debug") => LogLevel::Debug,
        Some("warning") => LogLevel::Warning,
        Some("error") => LogLevel::Error,
        Some(_) | None => LogLevel::Info,
    };
    let text = log["text"].as_str().unwrap_or_default();
    if *left == 0 {
        return;
    }
    if text.len() > *left {
        *left = 0;
        return answers.log(LogLevel::Warning, "said more than fits into the log; the rest of this call is left out");
    }
    *left -= text.len().max(1);
    answers.log(level, text);
}
