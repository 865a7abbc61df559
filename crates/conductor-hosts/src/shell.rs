//! Runs programs that a person has allowed with a template, without a shell.
//!
//! A program gets its arguments unchanged, no input, and an environment with `LANG`, `HOME` and the
//! template's entries. When it ends, at the deadline, or when the caller cancels, the program and
//! all its descendants are killed. A program that [`Shell::launch`] starts is not killed. Not here:
//! the check of arguments (`conductor_core::command`), and approval by a person.

use super::files::{FileError, Files};
use crate::system::basic_variables;
use crate::system::children::{self, ProcessTree};
use arc_swap::ArcSwap;
use conductor_core::command::{self, CommandEffect, CommandError, Ready, Template};
use conductor_core::digest::Digest;
use conductor_core::error::{Code, RefusedBy, Subject, ToolError};
use serde_json::{Map, Value};
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;

/// Maximum number of bytes kept of each output stream. The rest is read and dropped, so that the
/// program does not block on a full pipe.
const KEPT: usize = 1 << 20;
/// How long output is read after the program has ended.
const PIPE_TIMEOUT: Duration = Duration::from_secs(1);

pub struct Shell {
    templates: ArcSwap<Vec<Template>>,
    files: Arc<Files>,
    user_home: Option<PathBuf>,
}

/// A command that is ready to run.
#[derive(Debug)]
pub struct Prepared {
    pub name: String,
    pub program: PathBuf,
    pub words: Vec<String>,
    pub timeout_ms: u64,
    folder: PathBuf,
    env: Vec<(String, String)>,
}

/// How the caller selects a command.
pub enum Wanted<'a> {
    Template {
        name: &'a str,
        values: &'a Map<String, Value>,
    },
    Argv(&'a [String]),
    /// The name of a command, or of its program. The caller passes no arguments.
    App(&'a str),
}

#[derive(Debug)]
pub struct Ran {
    pub exit_code: Option<i32>,
    pub signal: Option<i32>,
    pub stdout: String,
    pub stderr: String,
    pub truncated: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum ShellError {
    #[error("{0}")]
    Command(#[from] CommandError),
    #[error("{0}")]
    Path(#[from] FileError),
    #[error("{program} is not the file that was allowed: its digest is {found}")]
    Digest { program: String, found: String },
    #[error("{program} cannot be started: {why}")]
    Start { program: String, why: String },
    #[error("{name} did not end within {ms} ms and was killed")]
    Late { name: String, ms: u64 },
}

impl From<ShellError> for ToolError {
    fn from(error: ShellError) -> Self {
        let text = error.to_string();
        let denied = |hint: &str| ToolError::new(Code::Denied, text.clone()).by(RefusedBy::Policy).hint(hint);
        match error {
            ShellError::Command(CommandError::Unknown { asked, .. }) => {
                denied("Use one of these commands; a person can add others under [[tools.shell.commands]].")
                    .subject(Subject::Other(asked))
            }
            ShellError::Command(CommandError::NoneAllowed | CommandError::NoFit) => {
                denied("A person allows commands one by one under [[tools.shell.commands]] in config.toml.")
            }
            ShellError::Command(
                CommandError::Missing { .. } | CommandError::NoSuchSlot { .. } | CommandError::Value { .. },
            ) => ToolError::new(Code::BadInput, text).hint("Correct that value in args."),
            ShellError::Path(error) => error.into(),
            ShellError::Digest { .. } => {
                denied("Ask the person to check the program and to correct its digest in config.toml.")
            }
            ShellError::Start { .. } => ToolError::new(Code::HostOffline, text),
            ShellError::Late { .. } => ToolError::new(Code::Timeout, text),
        }
    }
}

impl Shell {
    pub fn new(files: &Arc<Files>, user_home: Option<PathBuf>) -> Arc<Self> {
        Arc::new(Shell { templates: ArcSwap::default(), files: Arc::clone(files), user_home })
    }

    pub fn configure(&self, templates: &[Template]) {
        self.templates.store(Arc::new(templates.to_vec()));
    }

    pub fn templates(&self) -> Arc<Vec<Template>> {
        self.templates.load_full()
    }

    /// The declared effect of a command, from its template. `None` for an unknown command.
    pub fn effect(&self, wanted: &Wanted<'_>) -> Option<CommandEffect> {
        let templates = self.templates();
        find(&templates, wanted).ok().map(|(template, _)| template.effect)
    }

    /// Finds the template and builds the whole command line.
    pub fn resolve(&self, wanted: &Wanted<'_>) -> Result<(Template, Vec<String>), ShellError> {
        let templates = self.templates();
        let (template, words) = find(&templates, wanted)?;
        let words = words.into_iter().map(|word| self.word(word)).collect::<Result<Vec<_>, _>>()?;
        Ok((template.clone(), words))
    }

    /// Resolves paths and checks the program, but does not run it.
    pub fn prepare(&self, wanted: &Wanted<'_>) -> Result<Prepared, ShellError> {
        let (template, words) = self.resolve(wanted)?;
        if let Some(digest) = template.digest {
            let bytes = std::fs::read(&template.program)
                .map_err(|error| ShellError::Start { program: template.program.clone(), why: error.to_string() })?;
            let found = Digest::of(&bytes);
            if found != digest {
                return Err(ShellError::Digest { program: template.program.clone(), found: found.to_string() });
            }
        }
        let folder = match &template.cwd {
            Some(root) => self.files.place(Some(root), "")?.path(),
            None => PathBuf::from(std::path::MAIN_SEPARATOR_STR),
        };
        let home = self.user_home.as_deref().unwrap_or(Path::new("/")).to_string_lossy().into_owned();
        let mut env = vec![("LANG".to_owned(), "C.UTF-8".to_owned()), ("HOME".to_owned(), home)];
        env.extend(template.env.iter().map(|(key, value)| (key.clone(), value.clone())));
        Ok(Prepared {
            name: template.name.clone(),
            program: PathBuf::from(&template.program),
            words,
            timeout_ms: template.timeout_ms,
            folder,
            env,
        })
    }

    /// Converts one word of the command line. A path is resolved in its root and becomes absolute.
    /// The program then cannot parse the path as an option, and the path does not depend on the
    /// working folder.
    fn word(&self, word: Ready) -> Result<String, ShellError> {
        match word {
            Ready::Text(text) => Ok(text),
            Ready::Path { root, path } => {
                let place = self.files.place(Some(&root), &path)?;
                // This check also resolves links. A missing file is allowed.
                place.stays_inside()?;
                Ok(place.path().to_string_lossy().into_owned())
            }
        }
    }

    /// Runs the program to its end, or until `enough` resolves. Dropping the future also kills the
    /// program.
    pub async fn run(&self, prepared: &Prepared, enough: impl Future<Output = ()>) -> Result<Ran, ShellError> {
        let start = |error| prepared.start_error(&error);
        let mut command = prepared.command();
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let (mut child, tree) = ProcessTree::spawn(&mut command).map_err(start)?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let (mut out, mut err) = (Kept::default(), Kept::default());
        let status = {
            let streams = async { tokio::join!(out.read(stdout), err.read(stderr)) };
            tokio::pin!(streams, enough);
            let mut is_read = false;
            let status = loop {
                tokio::select! {
                    status = child.wait() => break status.map_err(start)?,
                    _ = &mut streams, if !is_read => is_read = true,
                    () = &mut enough => {
                        drop(tree);
                        let _ = child.wait().await;
                        return Err(ShellError::Late { name: prepared.name.clone(), ms: prepared.timeout_ms });
                    }
                }
            };
            // Killing the descendants closes the pipes. If a process cannot be killed, the timeout
            // below ends the wait.
            drop(tree);
            if !is_read {
                tokio::select! {
                    _ = &mut streams => {}
                    () = tokio::time::sleep(PIPE_TIMEOUT) => {}
                    () = &mut enough => {}
                }
            }
            status
        };
        Ok(Ran {
            exit_code: status.code(),
            signal: children::signal_of(status),
            stdout: out.text(),
            stderr: err.text(),
            truncated: out.cut || err.cut,
        })
    }
}

impl Shell {
    /// Starts a program in a new session, so that it continues when the daemon ends. In addition to
    /// the template's environment, it gets the variables of the desktop session. Returns its
    /// process id.
    pub fn launch(&self, prepared: &Prepared) -> Result<u32, ShellError> {
        let mut command = prepared.command();
        for (key, value) in crate::system::session_variables() {
            if !prepared.env.iter().any(|(own, _)| own == key) {
                command.env(key, value);
            }
        }
        command.stdout(Stdio::null()).stderr(Stdio::null());
        children::detach(command.as_std_mut());
        let child = command.spawn().map_err(|error| prepared.start_error(&error))?;
        // The runtime reaps the program when it ends.
        child.id().ok_or_else(|| prepared.start_error(&io::Error::other("it ended at once")))
    }
}

impl Prepared {
    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(&self.words)
            .env_clear()
            .envs(basic_variables())
            .envs(self.env.iter().map(|(key, value)| (key, value)));
        command.current_dir(&self.folder).stdin(Stdio::null());
        command
    }

    fn start_error(&self, error: &io::Error) -> ShellError {
        ShellError::Start { program: self.program.display().to_string(), why: error.to_string() }
    }
}

fn find<'t>(templates: &'t [Template], wanted: &Wanted<'_>) -> Result<(&'t Template, Vec<Ready>), CommandError> {
    match wanted {
        Wanted::Template { name, values } => command::by_name(templates, name, values),
        Wanted::Argv(argv) => command::by_argv(templates, argv),
        Wanted::App(app) => command::by_app(templates, app),
    }
}

/// The first [`KEPT`] bytes of a stream.
#[derive(Default)]
struct Kept {
    bytes: Vec<u8>,
    cut: bool,
}

impl Kept {
    async fn read(&mut self, stream: Option<impl AsyncRead + Unpin>) {
        let Some(mut stream) = stream else { return };
        let mut part = vec![0; 16 * 1024];
        while let Ok(n) = stream.read(&mut part).await {
            let Some(bytes) = part.get(..n).filter(|it| !it.is_empty()) else { break };
            let room = KEPT - self.bytes.len();
            self.cut |= n > room;
            self.bytes.extend_from_slice(bytes.get(..room.min(n)).unwrap_or_default());
        }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}
