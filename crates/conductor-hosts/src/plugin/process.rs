//! The daemon's side of a plugin's process: starts it, sends messages, and kills its whole process
//! group.
//!
//! Dropping a [`Process`] kills it, because nothing else stops the code of a cancelled call. Not
//! here: the answers to the plugin's requests ([`Answers`]), queues and restarts (`runner`).

use super::frame::MAX_BYTES;
use super::{Kind, Limits, Thrown, frame};
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

/// The program and the plugin file to run.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The path of this binary.
    pub program: PathBuf,
    pub limits: Limits,
    /// The file name for error messages.
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

/// The error that the plugin's code gets when its request is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub message: String,
    pub code: &'static str,
}

/// Answers a plugin's requests. Each request is checked separately, because the process is not
/// trusted.
pub trait Answers: Send + Sync {
    fn answer(&self, what: String, with: Value) -> BoxFuture<'static, Result<Value, Refusal>>;
    fn log(&self, level: LogLevel, text: &str);
    /// Called before the process is started again.
    fn restarted(&self) {}
    /// Maximum number of bytes of console output per call. Further output is dropped.
    fn log_bytes(&self) -> usize {
        LOG_BYTES
    }
}

/// Refuses all requests. Used when a file is only inspected.
pub struct NoAnswers;

impl Answers for NoAnswers {
    fn answer(&self, what: String, _: Value) -> BoxFuture<'static, Result<Value, Refusal>> {
        let message = format!("{what} is not available while a plugin is only inspected");
        Box::pin(std::future::ready(Err(Refusal { message, code: "DENIED" })))
    }

    fn log(&self, _: LogLevel, _: &str) {}
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PluginError {
    /// An error in the plugin's code. The process can still be used.
    #[error("{0}")]
    Threw(Thrown),
    /// The plugin reached its limit on processor time or memory, and its process has ended.
    #[error("{1}")]
    Over(Over, Thrown),
    /// The file cannot be loaded.
    #[error("{0}")]
    NotLoaded(Thrown),
    #[error("its process ended unexpectedly ({0})")]
    Died(String),
    #[error("its process cannot be started: {0}")]
    NotStarted(String),
    #[error("{0} calls are waiting already")]
    Busy(usize),
    /// The loaded file differs from the one that a person enabled.
    #[error("{0}")]
    Changed(String),
}

/// The limit that was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    Time,
    Memory,
}

pub struct Process {
    child: Child,
    input: ChildStdin,
    output: ChildStdout,
    /// Received bytes that are not a complete frame yet.
    arrived: Vec<u8>,
    group: ProcessGroup,
}

/// Maximum number of bytes of console output that one call may write to the log.
const LOG_BYTES: usize = 8 * 1024;
/// Maximum number of a plugin's requests that are answered at the same time. Further requests wait
/// in order.
const UNDER_WAY: usize = 32;
/// Maximum number of bytes of waiting requests. It is larger than the default heap.
const WAITING_BYTES: usize = 64 << 20;
/// Maximum number of bytes of unread answers. Above it, no further request is answered.
const UNREAD_BYTES: usize = 8 << 20;

impl Process {
    /// Starts the child, which evaluates the file. Returns the declarations of the file.
    pub async fn start(launch: &Launch) -> Result<(Self, Value), PluginError> {
        Self::start_as(Kind::Plugin, launch).await
    }

    /// Starts a child for one run of a script. The child compiles the code and waits.
    pub async fn start_script(launch: &Launch) -> Result<Self, PluginError> {
        Self::start_as(Kind::Script, launch).await.map(|(process, _)| process)
    }

    async fn start_as(kind: Kind, launch: &Launch) -> Result<(Self, Value), PluginError> {
        let failed = |error: io::Error| PluginError::NotStarted(error.to_string());
        let Limits { cpu_ms, heap_mb, stack_kb } = launch.limits;
        let mut command = Command::new(&launch.program);
        command.arg("plugin-host");
        for (flag, most) in [("--cpu-ms", cpu_ms), ("--heap-mb", heap_mb), ("--stack-kb", stack_kb)] {
            command.args([flag, &most.to_string()]);
        }
        match kind {
            Kind::Plugin => {}
            Kind::Script => drop(command.arg("--script")),
        }
        command.env_clear().stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
        let (mut child, group) = ProcessGroup::spawn(&mut command).map_err(failed)?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(PluginError::NotStarted("its pipes cannot be opened".into()));
        };
        let mut process = Process { child, input, output, arrived: Vec::new(), group };
        let sent = async {
            frame::write(&mut process.input, launch.file.as_bytes()).await?;
            frame::write(&mut process.input, &launch.source).await
        };
        if let Err(error) = sent.await
            && error.kind() == io::ErrorKind::InvalidData
        {
            // The file is too long for a frame. The child would wait for it forever.
            return Err(PluginError::NotLoaded(Thrown { message: error.to_string(), ..Thrown::default() }));
        }
        // If the child has ended, reading fails below.
        let declared = match process.next().await {
            Some(mut message) => {
                if let Ok(thrown) = serde_json::from_value(message["failed"].take()) {
                    return Err(PluginError::NotLoaded(thrown));
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

    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Sends one message, and answers the plugin's requests until the result arrives.
    pub async fn request(&mut self, message: &Value, answers: &dyn Answers) -> Result<Value, PluginError> {
        let mut leaving = Vec::new();
        queue(&mut leaving, message);
        let mut written = 0;
        let mut answered = FuturesUnordered::new();
        // Waiting requests are stored as bytes, because parsed values need more memory.
        let (mut waiting, mut waiting_bytes) = (VecDeque::<Vec<u8>>::new(), 0);
        let mut log_left = answers.log_bytes();
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
                        write_log(answers, log, &mut log_left);
                    } else if message.get("ask").is_some() {
                        waiting_bytes += body.len();
                        if waiting_bytes > WAITING_BYTES {
                            self.kill();
                            return Err(PluginError::Died("it sent more requests at once than the daemon can store".into()));
                        }
                        waiting.push_back(body);
                    } else if message.get("threw").is_some() {
                        let thrown = serde_json::from_value(message["threw"].take()).unwrap_or_default();
                        return Err(match message["over"].as_str() {
                            // No limit was reached. `stuck` means that the code waits for an event
                            // that never happens.
                            None | Some("stuck") => PluginError::Threw(thrown),
                            Some("time") => PluginError::Over(Over::Time, thrown),
                            Some(_) => PluginError::Over(Over::Memory, thrown),
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
                // Write while reading. Otherwise both sides could block when each has sent more
                // than a pipe can buffer.
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

    /// The bytes of the next message. If the future is dropped, no bytes are lost. `None` if the
    /// child has ended or the frame is too long.
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

    async fn died(&mut self) -> PluginError {
        self.kill();
        PluginError::Died(self.child.wait().await.map_or_else(|error| error.to_string(), |status| status.to_string()))
    }

    fn kill(&self) {
        // After the child was reaped, its pid may belong to another process.
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
    // Every length fits into 32 bits. The child closes the pipe when a frame is too long.
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    leaving.extend_from_slice(&length.to_le_bytes());
    leaving.extend_from_slice(bytes.as_bytes());
}

fn write_log(answers: &dyn Answers, log: &Value, left: &mut usize) {
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
        return answers.log(LogLevel::Warning, "this call logged more than the limit; its further output is dropped");
    }
    *left -= text.len().max(1);
    answers.log(level, text);
}
