//! `conductor doctor`: checks this machine, and reports how to fix problems. It changes nothing,
//! unless `--fix` is given and the person confirms.

use super::approvals::{ask_yes, at_a_terminal};
use super::args::Doctor;
use super::out::{Out, Tone, cell};
use super::{Failure, Verdict, block_on, file_error, list, text, texts};
use crate::config_check::Checked;
use crate::doors::control::client::{Client, ClientError};
use crate::home::Home;
use crate::owner::OWNER;
use conductor_core::config::PdMode;
use conductor_hosts::desktop::{Backends, Desktop as _};
use conductor_hosts::live::{self, Live};
use conductor_hosts::pd::TESTED;
use conductor_hosts::pd::examine::{Fit, Found, examine};
use conductor_hosts::pd::sandbox::Kept;
use conductor_hosts::plugin::sandbox::Strength;
use conductor_hosts::system::{Environment, files, priority};
use serde_json::{Value, json};
use std::io::Write;
use std::path::Path;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Grade {
    Good,
    /// Needs attention, but is not a failure.
    Note,
    Bad,
}

impl Grade {
    fn name(self) -> &'static str {
        match self {
            Grade::Good => "ok",
            Grade::Note => "note",
            Grade::Bad => "bad",
        }
    }

    fn tone(self) -> Tone {
        match self {
            Grade::Good => Tone::Good,
            Grade::Note => Tone::Note,
            Grade::Bad => Tone::Bad,
        }
    }
}

/// A fix that needs no administrator rights, and overwrites nothing that a person has written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fix {
    /// Creates the home, or removes the access of other users.
    Home,
    /// Writes the first configuration.
    Config,
}

impl Fix {
    fn question(self, home: &Home) -> String {
        match self {
            Fix::Home => format!("Make {} a folder that only you can open?", home.root().display()),
            Fix::Config => format!("Write {} with commented examples?", home.config_file().display()),
        }
    }

    fn apply(self, home: &Home) -> Result<(), Failure> {
        match self {
            Fix::Home => Ok(home.create()?),
            Fix::Config => {
                home.create()?;
                let path = home.config_file();
                let written = std::fs::File::create_new(&path)
                    .and_then(|mut file| file.write_all(conductor_core::config::TUTORIAL.as_bytes()));
                written.map_err(|error| file_error(&path, error))
            }
        }
    }
}

struct Finding {
    check: String,
    grade: Grade,
    detail: String,
    cure: Option<String>,
    fix: Option<Fix>,
}

impl Finding {
    fn new(check: impl Into<String>, grade: Grade, detail: impl Into<String>) -> Self {
        Finding { check: check.into(), grade, detail: detail.into(), cure: None, fix: None }
    }

    fn cure(mut self, cure: impl Into<String>) -> Self {
        self.cure = Some(cure.into());
        self
    }

    fn fix(mut self, fix: Fix) -> Self {
        self.fix = Some(fix);
        self
    }
}

pub fn checks(home: &Home, environment: &Environment) -> Result<Vec<Value>, String> {
    let findings = findings(home, environment).map_err(|failure| failure.to_string())?;
    Ok(findings.iter().map(wire).collect())
}

fn findings(home: &Home, environment: &Environment) -> Result<Vec<Finding>, Failure> {
    let mut findings = vec![folder(home), config(home)];
    findings.extend(daemon(home));
    findings.extend(live(home)?);
    findings.extend(pure_data(home, environment)?);
    findings.extend(pd_sandbox(home));
    findings.push(display(environment));
    findings.push(sandbox());
    Ok(findings)
}

pub fn run(args: &Doctor, home: &Home, environment: &Environment, out: &mut Out) -> Result<Verdict, Failure> {
    if args.fix {
        at_a_terminal()?;
        for finding in findings(home, environment)? {
            let Some(fix) = finding.fix else { continue };
            out.line(format_args!("{}: {}", finding.check, finding.detail))?;
            if ask_yes(out, &fix.question(home))? {
                fix.apply(home)?;
            }
        }
    }
    let findings = findings(home, environment)?;
    let bad = findings.iter().any(|it| it.grade == Grade::Bad);
    let value = json!({ "ok": !bad, "checks": findings.iter().map(wire).collect::<Vec<_>>() });
    out.show(&value, |out, _| {
        let mut rows = Vec::new();
        for it in &findings {
            rows.push(vec![it.grade.tone().cell(it.grade.name()), cell(&it.check), cell(&it.detail)]);
            rows.extend(it.cure.as_ref().map(|cure| vec![cell(""), cell(""), Tone::Faint.cell(cure)]));
        }
        out.table(&rows)?;
        if !args.fix && findings.iter().any(|it| it.fix.is_some()) {
            out.line("`conductor doctor --fix` asks about each problem that it can fix, and fixes it")?;
        }
        Ok(())
    })?;
    Ok(Verdict::good_if(!bad))
}

fn wire(it: &Finding) -> Value {
    json!({ "check": it.check, "grade": it.grade.name(), "detail": it.detail, "cure": it.cure })
}

fn folder(home: &Home) -> Finding {
    let root = home.root();
    match root.metadata() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Finding::new("home", Grade::Note, format!("{} does not exist yet", root.display()))
                .cure("`conductor up` creates it")
                .fix(Fix::Home)
        }
        Err(error) => Finding::new("home", Grade::Bad, format!("{}: {error}", root.display())),
        Ok(found) if !found.is_dir() => Finding::new("home", Grade::Bad, format!("{} is not a folder", root.display()))
            .cure("move the file to another folder, or choose another home with --home"),
        Ok(found) if files::is_open_to_others(root, &found) => {
            Finding::new("home", Grade::Bad, format!("{} is open to other users", root.display()))
                .cure(files::how_to_close(root))
                .fix(Fix::Home)
        }
        Ok(_) => Finding::new("home", Grade::Good, root.display().to_string()),
    }
}

fn config(home: &Home) -> Finding {
    let path = home.config_file();
    let checked = Checked::of(&path);
    let (errors, warnings) = (checked.errors(), checked.warnings());
    if !checked.exists() {
        return Finding::new("config", Grade::Note, "there is no config.toml; the built-in empty mode is in force")
            .cure("`conductor up` writes a file with comments")
            .fix(Fix::Config);
    }
    match (errors.first(), warnings.len()) {
        (Some(first), _) => {
            Finding::new("config", Grade::Bad, first.as_str()).cure("`conductor config check` lists every error")
        }
        (None, 0) => Finding::new("config", Grade::Good, path.display().to_string()),
        (None, warnings) => Finding::new("config", Grade::Note, format!("{warnings} warnings"))
            .cure("`conductor config check` lists them"),
    }
}

fn daemon(home: &Home) -> Vec<Finding> {
    let status = Client::connect(&home.control_socket()).and_then(|mut it| it.call("conductor_get_status", json!({})));
    let status = match status {
        Ok(status) => status,
        Err(ClientError::NoDaemon) => {
            let finding = Finding::new("daemon", Grade::Note, "not running").cure("start it with `conductor up`");
            return vec![finding];
        }
        Err(error) => return vec![Finding::new("daemon", Grade::Bad, error.to_string())],
    };
    let state = text(&status, "lifecycle_state");
    let mut findings = vec![match status["config"]["error"].as_str() {
        Some(error) => {
            Finding::new("daemon", Grade::Bad, format!("{state}, but the old configuration is still in force: {error}"))
                .cure("correct the file; the daemon reads it again when it is saved")
        }
        None => Finding::new("daemon", Grade::Good, format!("{state}, pid {}", status["pid"])),
    }];
    findings.extend(waiting(&status["config"]));
    findings.push(audit(&status["audit"]));
    findings.extend(realtime(&status));
    for backend in list(&status, "backends") {
        let name = text(backend, "name");
        findings.push(match backend["reason"].as_str() {
            None => Finding::new(name, Grade::Good, "ready"),
            Some(reason) => Finding::new(name, Grade::Note, reason),
        });
    }
    findings.extend(secrets(home));
    findings
}

/// Reports the parts of the configuration that are not in force until a person accepts them.
fn waiting(config: &Value) -> Option<Finding> {
    let cure = "check the changes and accept them with `conductor config accept`";
    if let Some(why) = config["closed"].as_str() {
        return Some(Finding::new("accepted", Grade::Bad, format!("no rights are granted: {why}")).cure(cure));
    }
    let held = texts(config, "held").join(", ");
    let since = text(config, "held_since");
    let detail = format!("{held} in config.toml changed at {since}; the changes are not in force");
    (!held.is_empty()).then(|| Finding::new("accepted", Grade::Note, detail).cure(cure))
}

/// Reports the state of the audit log. No tool is served while the log cannot be written.
fn audit(audit: &Value) -> Finding {
    match (audit["reason"].as_str(), audit["copy_fault"].as_str()) {
        (Some(reason), _) => Finding::new("audit", Grade::Bad, format!("no tool is served: {reason}"))
            .cure("free space on the disk, or check the log with `conductor audit verify`"),
        (None, Some(fault)) => Finding::new("audit", Grade::Note, format!("the second copy is behind: {fault}")),
        (None, None) => Finding::new("audit", Grade::Good, "every call is written to the log"),
    }
}

/// Reports whether the engine thread has real-time priority.
fn realtime(status: &Value) -> Option<Finding> {
    Some(match priority::is_urgent(status["pid"].as_u64()?, OWNER)? {
        true => Finding::new("realtime", Grade::Good, "the engine thread has real-time priority"),
        false => Finding::new(
            "realtime",
            Grade::Note,
            "the engine thread has ordinary priority, so a busy machine can delay the response to a pad",
        )
        .cure(
            "allow real-time priority; on Debian, run `sudo dpkg-reconfigure jackd2` and `sudo usermod -aG audio $USER`, then log in again",
        ),
    })
}

fn sandbox() -> Finding {
    let strength = Strength::here();
    let grade = match strength {
        Strength::Full => Grade::Good,
        Strength::NoLandlock | Strength::LimitsOnly | Strength::JobObject => Grade::Note,
    };
    Finding::new("sandbox", grade, strength.sentence())
}

/// Reports where the key of the secrets is stored. A home without secrets needs no key.
fn secrets(home: &Home) -> Option<Finding> {
    let status = Client::connect(&home.control_socket()).and_then(|mut it| it.ask("secrets.list", json!({}))).ok()?;
    let sentence = text(&status, "sentence");
    Some(match (status["open"].as_bool(), status["count"].as_u64()) {
        (Some(true), _) => Finding::new("secrets", Grade::Good, sentence),
        (_, Some(0)) => Finding::new("secrets", Grade::Note, sentence),
        _ => Finding::new("secrets", Grade::Bad, sentence).cure("`conductor secrets status` checks again"),
    })
}

/// Reports the connection to Live. If a daemon runs, the daemon does this check, because it may use
/// the ports that the check needs.
fn live(home: &Home) -> Result<Vec<Finding>, Failure> {
    let examined = match super::ask(home, "live.examine", json!({})) {
        Err(Failure::Client(ClientError::NoDaemon)) => {
            let Ok(serving) = super::offline(home) else { return Ok(Vec::new()) };
            let user_home = Environment::read().user_home;
            let settings = live::Settings::of_config(home.root(), user_home.as_deref(), &serving.config.live);
            json!({ "checks": block_on(Live::new(home.root(), settings).examine())? })
        }
        answer => answer?,
    };
    let grade = |name: &str| [Grade::Good, Grade::Note, Grade::Bad].into_iter().find(|it| it.name() == name);
    let of = |it: &Value| Finding {
        check: text(it, "check").to_owned(),
        grade: grade(text(it, "grade")).unwrap_or(Grade::Note),
        detail: text(it, "detail").to_owned(),
        cure: it["cure"].as_str().map(str::to_owned),
        fix: None,
    };
    Ok(list(&examined, "checks").iter().map(of).collect())
}

/// Reports whether Pd can be used. A missing Pd is bad only if the configuration starts Pd; patch
/// files can be edited without Pd.
fn pure_data(home: &Home, environment: &Environment) -> Result<Option<Finding>, Failure> {
    // An unreadable file is reported by the check `config`.
    let Ok(serving) = super::offline(home) else { return Ok(None) };
    let section = &serving.config.patch.pd;
    let wanted = section.mode == PdMode::Spawn;
    let found = block_on(examine(Path::new(&section.command), &environment.search_path))?;
    let missing = if wanted { Grade::Bad } else { Grade::Note };
    let other = "install Pure Data 0.53 to 0.57 (Debian: puredata-core), or set `command` of [patch.pd] to its program";
    Ok(Some(match found {
        Found::Nothing => {
            let detail = format!("{} was not found; patch files can still be edited", section.command);
            Finding::new("pd", missing, detail).cure(other)
        }
        Found::Dumb { program, why } => {
            Finding::new("pd", missing, format!("{}: {why}", program.display())).cure(other)
        }
        Found::Pd { program, version, fit } => {
            let program = program.display();
            let used = match section.mode {
                PdMode::Off => "; [patch.pd] mode is off, so no patch runs in it",
                PdMode::Attach => "; patches run in the Pd that connects through the helper patch",
                PdMode::Spawn => "",
            };
            let (grade, about) = match fit {
                Fit::Tested => (Grade::Good, ", the version Conductor is tested with".to_owned()),
                Fit::Driven => (Grade::Note, format!("; expected to work, but Conductor is tested with {TESTED}")),
                Fit::Refused => (missing, ", which Conductor does not support".to_owned()),
            };
            let finding = Finding::new("pd", grade, format!("{program}, Pd {version}{about}{used}"));
            if fit == Fit::Refused { finding.cure(other) } else { finding }
        }
    }))
}

/// Reports the limits that this system enforces for a Pd that the daemon starts.
fn pd_sandbox(home: &Home) -> Option<Finding> {
    let serving = super::offline(home).ok()?;
    let section = &serving.config.patch.pd;
    if section.mode != PdMode::Spawn {
        return None;
    }
    let kept = Kept::here(section.audio);
    let grade = if kept.is_whole() { Grade::Good } else { Grade::Note };
    Some(Finding::new("pd sandbox", grade, kept.sentence()))
}

/// Reports the desktop session, and how keys reach it.
fn display(environment: &Environment) -> Finding {
    let session = &environment.desktop;
    if session.native {
        // On macOS, this fails without the permission of the person.
        return match Backends::of(session).open() {
            Ok(()) => Finding::new("display", Grade::Good, "this system accepts keys, text and clicks"),
            Err(why) => Finding::new("display", Grade::Note, why.to_string()),
        };
    }
    let name = match (&session.wayland, &session.x11) {
        (Some(socket), _) => format!("Wayland, {}", socket.display()),
        (None, Some(display)) => format!("X11, {display}"),
        (None, None) => "neither DISPLAY nor WAYLAND_DISPLAY is set".to_owned(),
    };
    let uinput = session.uinput.as_deref().is_some_and(|it| std::fs::File::options().write(true).open(it).is_ok());
    let keys = uinput || session.x11.is_some();
    let fault = match (keys, session.focus_fault()) {
        (false, _) => "keystrokes and mouse clicks cannot be sent",
        (true, Some(why)) => why,
        (true, None) => return Finding::new("display", Grade::Good, name),
    };
    let finding = Finding::new("display", Grade::Note, format!("{name}: {fault}"));
    if keys {
        finding
    } else {
        finding.cure("allow writing to /dev/uinput: install the udev rule of the package, then log in again")
    }
}
