//! Programs that a person allowed by a template, run without a shell and ended as a whole.
//!
//! A program gets its words as they are, an environment of three kinds of entries, no input, and a process group of its own: at the end,
//! at the deadline and when nobody waits any more the whole group is killed. Not here: which words fit (`conductor_core::command`), and
//! whether a person must be asked.

use super::files::{FileFault, Files};
use arc_swap::ArcSwap;
use conductor_core::command::{self, CommandEffect, CommandFault, Ready, Template};
use conductor_core::digest::Digest;
use conductor_core::error::{Code, RefusedBy, Subject, ToolError};
use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process_group, setrlimit, setsid};
use serde_json::{Map, Value};
use std::future::Future;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncReadExt};

/// Bytes kept of each stream; what comes behind is read and dropped, so that the program does not hang on a full pipe.
const KEPT: usize = 1 << 20;

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
pub enum ShellFault {
    #[error("{0}")]
    Command(#[from] CommandFault),
    #[error("{0}")]
    Path(#[from] FileFault),
    #[error("{program} is not the file that was allowed: its digest is {found}")]
    Digest { program: String, found: String },
    #[error("{program} cannot be started: {why}")]
    Start { program: String, why: String },
    #[error("{name} did not end within {ms} ms and was killed")]
    Late { name: String, ms: u64 },
}

impl From<ShellFault> for ToolError {
    fn from(fault: ShellFault) -> Self {
        let text = fault.to_string();
        let denied = |hint: &str| ToolError::new(Code::Denied, text.clone()).by(RefusedBy::Policy).hint(hint);
        match fault {
            ShellFault::Command(CommandFault::Unknown { asked, .. }) => {
                denied("Use one of the commands named; a person adds others under [[tools.shell.commands]].")
                    .subject(Subject::Other(asked))
            }
            ShellFault::Command(CommandFault::NoneAllowed | CommandFault::NoFit) => {
                denied("A person allows commands one by one under [[tools.shell.commands]] in config.toml.")
            }
            ShellFault::Command(
                CommandFault::Missing { .. } | CommandFault::NoSuchSlot { .. } | CommandFault::Value { .. },
            ) => ToolError::new(Code::BadInput, text).hint("Correct that value in args."),
            ShellFault::Path(fault) => fault.into(),
            ShellFault::Digest { .. } => denied("A person must look at the program and correct its digest."),
            ShellFault::Start { .. } => ToolError::new(Code::HostOffline, text),
            ShellFault::Late { .. } => ToolError::new(Code::Timeout, text),
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

    /// Whether a person said that it changes nothing. An unknown command does not exist, so it is not asked about either.
    pub fn effect(&self, wanted: &Wanted<'_>) -> Option<CommandEffect> {
        let templates = self.templates();
        find(&templates, wanted).ok().map(|(template, _)| template.effect)
    }

    /// Looks up paths and the program; runs nothing.
    pub fn prepare(&self, wanted: &Wanted<'_>) -> Result<Prepared, ShellFault> {
        let templates = self.templates();
        let (template, words) = find(&templates, wanted)?;
        let words = words.into_iter().map(|word| self.word(word)).collect::<Result<Vec<_>, _>>()?;
        if let Some(digest) = template.digest {
            let bytes = std::fs::read(&template.program)
                .map_err(|fault| ShellFault::Start { program: template.program.clone(), why: fault.to_string() })?;
            let found = Digest::of(&bytes);
            if found != digest {
                return Err(ShellFault::Digest { program: template.program.clone(), found: found.to_string() });
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

    /// A path is looked up under its root now and handed over absolute, so that it is no option and needs no folder to start from.
    fn word(&self, word: Ready) -> Result<String, ShellFault> {
        match word {
            Ready::Text(text) => Ok(text),
            Ready::Path { root, path } => {
                let place = self.files.place(Some(&root), &path)?;
                // Whether it leads out of the root is the kernel's answer; that nothing is there yet is no fault of the value.
                place.stays_inside()?;
                Ok(place.path().to_string_lossy().into_owned())
            }
        }
    }

    /// Runs to the end, or until `enough` is done. Dropping the future kills the group as well.
    pub async fn run(&self, prepared: &Prepared, enough: impl Future<Output = ()>) -> Result<Ran, ShellFault> {
        let start = |why: std::io::Error| ShellFault::Start {
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
            .stderr(Stdio::piped())
            .process_group(0);
        // SAFETY: between fork and exec only system calls are made: setrlimit neither allocates nor locks.
        unsafe {
            command.pre_exec(|| {
                for (resource, most) in LIMITS {
                    setrlimit(*resource, Rlimit { current: Some(*most), maximum: Some(*most) })?;
                }
                Ok(())
            });
        }
        let mut child = command.spawn().map_err(start)?;
        let group = Group::of(&child);
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let streams = async { tokio::join!(kept(stdout), kept(stderr)) };
        tokio::pin!(streams, enough);
        let mut read = None;
        let status = loop {
            tokio::select! {
                status = child.wait() => break status.map_err(start)?,
                all = &mut streams, if read.is_none() => read = Some(all),
                () = &mut enough => {
                    drop(group);
                    let _ = child.wait().await;
                    return Err(ShellFault::Late { name: prepared.name.clone(), ms: prepared.timeout_ms });
                }
            }
        };
        // What it left running ends with it, and with that the pipes close.
        drop(group);
        let ((stdout, cut_out), (stderr, cut_err)) = match read {
            Some(read) => read,
            None => streams.await,
        };
        Ok(Ran {
            exit_code: status.code(),
            signal: status.signal(),
            stdout: String::from_utf8_lossy(&stdout).into_owned(),
            stderr: String::from_utf8_lossy(&stderr).into_owned(),
            truncated: cut_out || cut_err,
        })
    }
}

impl Shell {
    /// Starts a program and leaves it alone: it has a session of its own, so it outlives the daemon. Besides its own environment it gets
    /// what it needs to find the desktop. Gives its process id.
    pub fn launch(&self, prepared: &Prepared) -> Result<u32, ShellFault> {
        let start = |why: std::io::Error| ShellFault::Start {
            program: prepared.program.display().to_string(),
            why: why.to_string(),
        };
        let mut command = tokio::process::Command::new(&prepared.program);
        command
            .args(&prepared.words)
            .env_clear()
            .envs(crate::outside::session_variables())
            .envs(prepared.env.iter().map(|(key, value)| (key, value)))
            .current_dir(&prepared.folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        // SAFETY: between fork and exec only one system call is made, which neither allocates nor locks.
        unsafe {
            command.pre_exec(|| setsid().map(drop).map_err(std::io::Error::from));
        }
        // The runtime waits for it when it ends, so that it leaves nothing behind.
        command.spawn().map_err(start)?.id().ok_or_else(|| start(std::io::Error::other("it ended at once")))
    }
}

/// No core files, few descriptors, and no file larger than a gigabyte.
const LIMITS: &[(Resource, u64)] = &[(Resource::Core, 0), (Resource::Nofile, 256), (Resource::Fsize, 1 << 30)];

fn find<'t>(templates: &'t [Template], wanted: &Wanted<'_>) -> Result<(&'t Template, Vec<Ready>), CommandFault> {
    match wanted {
        Wanted::Template { name, values } => command::by_name(templates, name, values),
        Wanted::Argv(argv) => command::by_argv(templates, argv),
        Wanted::App(app) => command::by_app(templates, app),
    }
}

/// Kills the whole group when it is dropped.
struct Group(Option<Pid>);

impl Group {
    fn of(child: &tokio::process::Child) -> Self {
        Group(child.id().and_then(|it| i32::try_from(it).ok()).and_then(Pid::from_raw))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            // Nothing left of it is what we want.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

async fn kept(stream: Option<impl AsyncRead + Unpin>) -> (Vec<u8>, bool) {
    let Some(mut stream) = stream else { return (Vec::new(), false) };
    let (mut all, mut cut, mut part) = (Vec::new(), false, vec![0; 16 * 1024]);
    while let Ok(n) = stream.read(&mut part).await {
        let Some(bytes) = part.get(..n).filter(|it| !it.is_empty()) else { break };
        let room = KEPT - all.len();
        cut |= n > room;
        all.extend_from_slice(bytes.get(..room.min(n)).unwrap_or_default());
    }
    (all, cut)
}
