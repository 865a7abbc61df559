//! Programs that a person allowed by a template, run without a shell and ended as a whole.
//!
//! A program gets its words as they are, an environment of three kinds of entries, no input, and a
//! process group of its own: at the end, at the deadline and when nobody waits any more the whole
//! group is killed, and with it whatever left the group. Not here: which words fit
//! (`conductor_core::command`), and whether a person must be asked.

use super::files::{FileError, Files};
use crate::system::children::{self, ProcessTree};
use arc_swap::ArcSwap;
use conductor_core::command::{self, CommandEffect, CommandError, Ready, Template};
use conductor_core::digest::Digest;
use conductor_core::error::{Code, RefusedBy, Subject, ToolError};
use serde_json::{Map, Value};
use std::future::Future;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt};

/// Bytes kept of each stream; what comes behind is read and dropped, so that the program does not
/// hang on a full pipe.
const KEPT: usize = 1 << 20;
/// What a program wrote last is still read for so long after its end.
const PIPE_PATIENCE: Duration = Duration::from_secs(1);

pub struct Shell {
    templates: ArcSwap<Vec<Template>>,
    files: Arc<Files>,
    user_home: Option<PathBuf>,
}

/// A command line that is ready to run.
#[derive(Debug)]
pub struct Prepared {
    pub name: String,
    pub program: PathBuf,
    pub words: Vec<String>,
    pub timeout_ms: u64,
    folder: PathBuf,
    env: Vec<(String, String)>,
}

/// How the caller names a command.
pub enum Wanted<'a> {
    Template {
        name: &'a str,
        values: &'a Map<String, Value>,
    },
    Argv(&'a [String]),
    /// By the name of a command or its program; all of its words are fixed.
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
    fn from(fault: ShellError) -> Self {
        let text = fault.to_string();
        let denied = |hint: &str| ToolError::new(Code::Denied, text.clone()).by(RefusedBy::Policy).hint(hint);
        match fault {
            ShellError::Command(CommandError::Unknown { asked, .. }) => {
                denied("Use one of the commands named; a person adds others under [[tools.shell.commands]].")
                    .subject(Subject::Other(asked))
            }
            ShellError::Command(CommandError::NoneAllowed | CommandError::NoFit) => {
                denied("A person allows commands one by one under [[tools.shell.commands]] in config.toml.")
            }
            ShellError::Command(
                CommandError::Missing { .. } | CommandError::NoSuchSlot { .. } | CommandError::Value { .. },
            ) => ToolError::new(Code::BadInput, text).hint("Correct that value in args."),
            ShellError::Path(fault) => fault.into(),
            ShellError::Digest { .. } => denied("A person must look at the program and correct its digest."),
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

    /// Whether a person said that it changes nothing. An unknown command does not exist, so it is
    /// not asked about either.
    pub fn effect(&self, wanted: &Wanted<'_>) -> Option<CommandEffect> {
        let templates = self.templates();
        find(&templates, wanted).ok().map(|(template, _)| template.effect)
    }

    /// The template that is meant, and its whole command line.
    pub fn resolve(&self, wanted: &Wanted<'_>) -> Result<(Template, Vec<String>), ShellError> {
        let templates = self.templates();
        let (template, words) = find(&templates, wanted)?;
        let words = words.into_iter().map(|word| self.word(word)).collect::<Result<Vec<_>, _>>()?;
        Ok((template.clone(), words))
    }

    /// Looks up paths and the program; runs nothing.
    pub fn prepare(&self, wanted: &Wanted<'_>) -> Result<Prepared, ShellError> {
        let (template, words) = self.resolve(wanted)?;
        if let Some(digest) = template.digest {
            let bytes = std::fs::read(&template.program)
                .map_err(|fault| ShellError::Start { program: template.program.clone(), why: fault.to_string() })?;
            let found = Digest::of(&bytes);
            if found != digest {
                return Err(ShellError::Digest { program: template.program.clone(), found: found.to_string() });
            }
        }
        let folder = match &template.cwd {
            Some(root) => self.files.place(Some(root), "")?.path(),
            None => PathBuf::from("/"),
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

    /// A path is looked up under its root now and handed over absolute, so that it is no option and
    /// needs no folder to start from.
    fn word(&self, word: Ready) -> Result<String, ShellError> {
        match word {
            Ready::Text(text) => Ok(text),
            Ready::Path { root, path } => {
                let place = self.files.place(Some(&root), &path)?;
                // Whether it leads out of the root is the kernel's answer; that nothing is there
                // yet is no fault of the value.
                place.stays_inside()?;
                Ok(place.path().to_string_lossy().into_owned())
            }
        }
    }

    /// Runs to the end, or until `enough` is done. Dropping the future kills the group as well.
    pub async fn run(&self, prepared: &Prepared, enough: impl Future<Output = ()>) -> Result<Ran, ShellError> {
        let start = |why: std::io::Error| ShellError::Start {
            program: prepared.program.display().to_string(),
            why: why.to_string(),
        };
        let mut command = tokio::process::Command::new(&prepared.program);
        command
            .args(&prepared.words)
            .env_clear()
            .envs(prepared.env.iter().map(|(key, value)| (key, value)))
            .current_dir(&prepared.folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
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
            // What it left running ends with it, and with that the pipes close. A process that may
            // not be killed holds nothing up.
            drop(tree);
            if !is_read {
                tokio::select! {
                    _ = &mut streams => {}
                    () = tokio::time::sleep(PIPE_PATIENCE) => {}
                    () = &mut enough => {}
                }
            }
            status
        };
        Ok(Ran {
            exit_code: status.code(),
            signal: status.signal(),
            stdout: out.text(),
            stderr: err.text(),
            truncated: out.cut || err.cut,
        })
    }
}

impl Shell {
    /// Starts a program and leaves it alone: it has a session of its own, so it outlives the
    /// daemon. Besides its own environment it gets what it needs to find the desktop. Gives its
    /// process id.
    pub fn launch(&self, prepared: &Prepared) -> Result<u32, ShellError> {
        let start = |why: std::io::Error| ShellError::Start {
            program: prepared.program.display().to_string(),
            why: why.to_string(),
        };
        let mut command = tokio::process::Command::new(&prepared.program);
        command
            .args(&prepared.words)
            .env_clear()
            .envs(crate::system::session_variables())
            .envs(prepared.env.iter().map(|(key, value)| (key, value)))
            .current_dir(&prepared.folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        children::detach(command.as_std_mut());
        // The runtime waits for it when it ends, so that it leaves nothing behind.
        command.spawn().map_err(start)?.id().ok_or_else(|| start(std::io::Error::other("it ended at once")))
    }
}

fn find<'t>(templates: &'t [Template], wanted: &Wanted<'_>) -> Result<(&'t Template, Vec<Ready>), CommandError> {
    match wanted {
        Wanted::Template { name, values } => command::by_name(templates, name, values),
        Wanted::Argv(argv) => command::by_argv(templates, argv),
        Wanted::App(app) => command::by_app(templates, app),
    }
}

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
