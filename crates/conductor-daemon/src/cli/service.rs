//! `conductor service`: starts the daemon at login, through the service manager of the system.
//!
//! Not here: what the daemon reports to the service manager (`conductor_hosts::system::service`).

use super::args::ServiceCommand;
use super::{Failure, Verdict, file_error, out::Out};
use crate::home::Home;
use conductor_hosts::system::{Environment, program_of};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const UNIT: &str = include_str!("../../../../packaging/systemd/conductor.service");
const AGENT: &str = include_str!("../../../../packaging/launchd/conductor.plist");
const TASK: &str = include_str!("../../../../packaging/windows/conductor-task.xml");

/// The message if systemd runs no manager for this user. systemd runs a manager for each user who
/// has logged in; `su` and `sudo` are not logins.
const NO_SESSION: &str =
    ". No service manager runs for you: log in as this user (not with su or sudo), and repeat the command";

/// The service manager of one operating system.
struct Service {
    /// The program of the service manager.
    program: &'static str,
    file: PathBuf,
    text: String,
    /// Arguments for `program` that start the service, stop it, and show its state.
    start: Vec<Vec<String>>,
    end: Vec<Vec<String>>,
    state: Vec<String>,
    /// The whole command that prints the log, and the argument that makes it print new lines too.
    logs: Vec<String>,
    follow: &'static str,
    /// Arguments for `program` that start an installed service. Only on systems where no other
    /// process may start the daemon.
    kick: Option<Vec<String>>,
}

pub fn run(
    command: &ServiceCommand,
    home: &Home,
    environment: &Environment,
    out: &mut Out,
) -> Result<Verdict, Failure> {
    let service = Service::of(std::env::consts::OS, home, environment)?;
    match command {
        ServiceCommand::Install => service.install(environment, out),
        ServiceCommand::Uninstall => service.uninstall(environment, out),
        ServiceCommand::Status => service.status(environment, out),
        ServiceCommand::Logs { follow } => service.show_logs(*follow),
    }
}

/// Starts the daemon through the service manager, on systems where no other process may start it.
/// Returns `None` on all other systems.
///
/// macOS grants the permission to send keys to the process that is responsible for a program. A
/// daemon that an AI client starts would use the permissions of the client, and macOS would ask the
/// person in the name of the client.
pub fn start_through_manager(home: &Home) -> Option<std::io::Result<()>> {
    let environment = Environment::read();
    let service = Service::of(std::env::consts::OS, home, &environment).ok()?;
    let kick = service.kick.clone()?;
    if !service.file.exists() {
        let why = "no daemon is running, and macOS lets only launchd start it; run `conductor service install` once";
        return Some(Err(std::io::Error::other(why)));
    }
    Some(service.call(&kick, &environment).map_err(std::io::Error::other))
}

impl Service {
    fn of(system: &str, home: &Home, environment: &Environment) -> Result<Self, Failure> {
        let user_home = environment.user_home.as_deref();
        let user_home = user_home.ok_or_else(|| Failure::Text("HOME is not set; a service needs it".into()))?;
        let program = std::env::current_exe()?;
        // A home other than the usual one becomes part of the command.
        let own_home = (home.root() != user_home.join(".conductor")).then(|| home.root());
        match system {
            "linux" => Self::systemd(&program, own_home, environment, user_home),
            "macos" => Ok(Self::launchd(&program, own_home, home, user_home)),
            "windows" => Self::logon_task(&program, own_home, home),
            other => Err(Failure::Text(format!(
                "`conductor service` does not support {other} yet; start `conductor up` at login by other means"
            ))),
        }
    }

    fn systemd(
        program: &Path,
        home: Option<&Path>,
        environment: &Environment,
        user_home: &Path,
    ) -> Result<Self, Failure> {
        let mut start = quote(program)?;
        if let Some(home) = home {
            start.push_str(" --home ");
            start.push_str(&quote(home)?);
        }
        let folder = environment.config_home.clone().unwrap_or_else(|| user_home.join(".config"));
        let unit = "conductor.service";
        let calls = |calls: &[&[&str]]| calls.iter().map(|it| words(it)).collect();
        Ok(Service {
            program: "systemctl",
            file: folder.join("systemd/user").join(unit),
            text: UNIT.replace("/usr/bin/conductor up", &format!("{start} up")),
            start: calls(&[&["--user", "daemon-reload"], &["--user", "enable", unit], &["--user", "restart", unit]]),
            end: calls(&[&["--user", "disable", "--now", unit], &["--user", "daemon-reload"]]),
            state: words(&["--user", "is-active", unit]),
            logs: words(&["journalctl", "--user", "--unit", unit, "--lines", "100", "--no-pager"]),
            follow: "-f",
            kick: None,
        })
    }

    fn launchd(program: &Path, own_home: Option<&Path>, home: &Home, user_home: &Path) -> Self {
        let label = "org.conductor.daemon";
        let file = user_home.join(format!("Library/LaunchAgents/{label}.plist"));
        let log = home.state().join("daemon.log");
        let mut arguments = vec![program.to_path_buf()];
        arguments.extend(own_home.iter().flat_map(|it| [PathBuf::from("--home"), it.to_path_buf()]));
        arguments.push("up".into());
        let arguments: String = arguments
            .iter()
            .map(|it| format!("    <string>{}</string>\n", escape_xml(&it.display().to_string())))
            .collect();
        let text = AGENT
            .replace("    <string>/usr/local/bin/conductor</string>\n    <string>up</string>\n", &arguments)
            .replace("LOG", &escape_xml(&log.display().to_string()));
        let domain = format!("gui/{}", conductor_hosts::system::processes::current_user());
        let target = format!("{domain}/{label}");
        Service {
            program: "launchctl",
            text,
            start: vec![words(&["bootstrap", &domain, &file.display().to_string()])],
            end: vec![words(&["bootout", &target])],
            state: words(&["print", &target]),
            logs: words(&["tail", "-n", "100", &log.display().to_string()]),
            follow: "-f",
            kick: Some(words(&["kickstart", &target])),
            file,
        }
    }

    /// A task of the Windows Task Scheduler.
    fn logon_task(program: &Path, own_home: Option<&Path>, home: &Home) -> Result<Self, Failure> {
        let task = "Conductor";
        let log = home.state().join("daemon.log");
        let mut command = word(program)?;
        if let Some(home) = own_home {
            command.push_str(" --home ");
            command.push_str(&word(home)?);
        }
        let command = format!("{command} up 2>>{}", word(&log)?);
        let user = conductor_hosts::system::processes::user_name();
        let file = home.state().join("conductor-task.xml");
        Ok(Service {
            program: "schtasks",
            text: TASK.replace("COMMAND", &escape_xml(&command)).replace("USER", &escape_xml(&user)),
            start: vec![
                words(&["/Create", "/F", "/TN", task, "/XML", &file.display().to_string()]),
                words(&["/Run", "/TN", task]),
            ],
            end: vec![words(&["/End", "/TN", task]), words(&["/Delete", "/F", "/TN", task])],
            state: words(&["/Query", "/TN", task]),
            logs: words(&[
                "powershell",
                "-NoProfile",
                "-Command",
                "Get-Content",
                "-Tail",
                "100",
                "-LiteralPath",
                &format!("'{}'", log.display().to_string().replace('\'', "''")),
            ]),
            follow: "-Wait",
            kick: None,
            file,
        })
    }

    /// The bytes of the file. The Task Scheduler reads UTF-16.
    fn bytes(&self) -> Vec<u8> {
        if !self.text.contains("encoding=\"UTF-16\"") {
            return self.text.as_bytes().to_vec();
        }
        self.text.encode_utf16().flat_map(|it| it.to_le_bytes()).fold(vec![0xFF, 0xFE], |mut bytes, it| {
            bytes.push(it);
            bytes
        })
    }

    fn install(&self, environment: &Environment, out: &mut Out) -> Result<Verdict, Failure> {
        let folder = self.file.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder).map_err(|error| file_error(folder, error))?;
        std::fs::write(&self.file, self.bytes()).map_err(|error| file_error(&self.file, error))?;
        for call in &self.start {
            self.call(call, environment).map_err(|why| {
                Failure::Text(format!("{} was written, but the service does not run yet: {why}", self.file.display()))
            })?;
        }
        let value = json!({ "installed": true, "file": self.file });
        out.show(&value, |out, _| {
            out.line(format_args!("wrote {}", self.file.display()))?;
            out.line("The daemon runs now and at every login. `conductor service uninstall` removes the service.")
        })
    }

    fn uninstall(&self, environment: &Environment, out: &mut Out) -> Result<Verdict, Failure> {
        if !self.file.exists() {
            return out.show(&json!({ "installed": false }), |out, _| out.line("no service is installed"));
        }
        let (last, first) = self.end.split_last().map_or((None, &[][..]), |(last, first)| (Some(last), first));
        for call in first {
            self.call(call, environment).map_err(Failure::Text)?;
        }
        std::fs::remove_file(&self.file).map_err(|error| file_error(&self.file, error))?;
        if let Some(call) = last {
            self.call(call, environment).map_err(Failure::Text)?;
        }
        out.show(&json!({ "installed": false, "file": self.file }), |out, _| {
            out.line(format_args!("removed {}; the daemon has ended", self.file.display()))
        })
    }

    fn status(&self, environment: &Environment, out: &mut Out) -> Result<Verdict, Failure> {
        let installed = self.file.exists();
        let running = installed && self.call(&self.state, environment).is_ok();
        let value = json!({ "installed": installed, "running": running, "file": self.file });
        out.show(&value, |out, _| match (installed, running) {
            (false, _) => out.line("no service is installed; `conductor service install` creates one"),
            (true, true) => out.line(format_args!("running, from {}", self.file.display())),
            (true, false) => out.line(format_args!(
                "installed in {}, but not running; `conductor service logs` shows why",
                self.file.display()
            )),
        })?;
        Ok(Verdict::good_if(running))
    }

    fn show_logs(&self, follow: bool) -> Result<Verdict, Failure> {
        let Some((program, arguments)) = self.logs.split_first() else { return Ok(Verdict::Bad) };
        let mut command = Command::new(program);
        command.args(arguments);
        if follow {
            command.arg(self.follow);
        }
        let status = command.status().map_err(|error| Failure::Text(format!("{program}: {error}")))?;
        Ok(Verdict::good_if(status.success()))
    }

    /// Runs the service manager once. The error is a sentence with the first line that the service
    /// manager printed.
    fn call(&self, arguments: &[String], environment: &Environment) -> Result<(), String> {
        let program = program_of(Path::new(self.program), &environment.search_path)
            .ok_or_else(|| format!("{} was not found; this system has another service manager", self.program))?;
        let done = Command::new(&program)
            .args(arguments)
            .stdin(Stdio::null())
            .output()
            .map_err(|error| format!("{}: {error}", program.display()))?;
        if done.status.success() {
            return Ok(());
        }
        let printed = String::from_utf8_lossy(&done.stderr);
        let reason = printed.lines().next().unwrap_or("no reason was given");
        let cure = if reason.contains("connect to bus") { NO_SESSION } else { "" };
        Err(format!("`{} {}` failed: {reason}{cure}", self.program, arguments.join(" ")))
    }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&it| it.to_owned()).collect()
}

/// A path as one word of `ExecStart`. systemd expands `%` and `$`, and removes quotes.
fn quote(path: &Path) -> Result<String, Failure> {
    let text = path.to_str().filter(|it| !it.chars().any(char::is_control));
    let text = text.ok_or_else(|| {
        let why = "a systemd unit cannot contain this path; choose one in UTF-8 without control characters";
        Failure::Text(format!("{}: {why}", path.display()))
    })?;
    let escaped = text.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%").replace('$', "$$");
    Ok(format!("\"{escaped}\""))
}

/// A path as one word of `cmd`, which expands `%` even inside quotes.
fn word(path: &Path) -> Result<String, Failure> {
    let text = path.to_str().filter(|it| !it.contains(['"', '%']) && !it.chars().any(char::is_control));
    let text = text.ok_or_else(|| {
        let why = "a task cannot contain this path; choose one in UTF-8 without %, quotes and control characters";
        Failure::Text(format!("{}: {why}", path.display()))
    })?;
    Ok(format!("\"{text}\""))
}

fn escape_xml(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(system: &str, home: &str) -> Service {
        let environment = Environment { user_home: Some("/home/ada".into()), ..Environment::default() };
        Service::of(system, &Home::at(home), &environment).unwrap()
    }

    #[test]
    fn the_unit_starts_this_program_with_its_home() {
        let usual = service("linux", "/home/ada/.conductor");
        assert_eq!(usual.file, Path::new("/home/ada/.config/systemd/user/conductor.service"));
        let program = std::env::current_exe().unwrap();
        let line = |it: &Service| it.text.lines().find(|it| it.starts_with("ExecStart")).unwrap().to_owned();
        assert_eq!(line(&usual), format!("ExecStart=\"{}\" up", program.display()));
        let other = service("linux", "/home/ada/my 100% $tudio");
        let home = "\"/home/ada/my 100%% $$tudio\"";
        assert_eq!(line(&other), format!("ExecStart=\"{}\" --home {home} up", program.display()));
    }

    #[test]
    fn the_agent_starts_this_program_and_names_its_log() {
        let agent = service("macos", "/Users/ada/R&D");
        assert!(agent.text.contains("<string>--home</string>\n    <string>/Users/ada/R&amp;D</string>"));
        assert!(agent.text.contains("<string>/Users/ada/R&amp;D/state/daemon.log</string>"), "{}", agent.text);
        assert!(!agent.text.contains("/usr/local/bin/conductor"));
        let kick = agent.kick.unwrap().join(" ");
        assert!(kick.starts_with("kickstart gui/") && kick.ends_with("/org.conductor.daemon"), "{kick}");
        assert_eq!(service("linux", "/h").kick, None, "on Linux, the daemon is started through the service manager");
    }

    #[test]
    fn the_task_starts_this_program_at_logon_and_appends_to_its_log() {
        let task = service("windows", "/home/ada/R&D");
        let program = std::env::current_exe().unwrap();
        let command = format!("cmd.exe /d /c \"\"{}\" --home \"/home/ada/R&amp;D\" up 2>>", program.display())
            .replace('>', "&gt;");
        assert!(task.text.contains(&command), "{}", task.text);
        assert!(!task.text.contains("USER") && !task.text.contains("COMMAND"), "{}", task.text);
        assert_eq!(task.bytes().get(..4), Some(&[0xFF, 0xFE, b'<', 0][..]));
        let environment = Environment { user_home: Some("/home/ada".into()), ..Environment::default() };
        assert!(Service::of("windows", &Home::at("/home/%PATH%"), &environment).is_err());
    }

    #[test]
    fn a_system_without_support_is_named() {
        let environment = Environment { user_home: Some("/home/ada".into()), ..Environment::default() };
        let error = Service::of("haiku", &Home::at("/h"), &environment).err().unwrap();
        assert!(error.to_string().contains("haiku"), "{error}");
    }
}
