//! `conductor doctor`: what works on this machine, what does not, and the cure. Looks, changes
//! nothing.

use super::{Failure, Verdict, out::Out};
use crate::config_check::Checked;
use crate::doors::control::client::{Client, ClientError};
use crate::home::Home;
use crate::owner::realtime_priority;
use conductor_core::config::PdMode;
use conductor_hosts::live::{self, Live};
use conductor_hosts::pd::TESTED;
use conductor_hosts::pd::examine::{Fit, Found, examine};
use conductor_hosts::pd::sandbox::Kept;
use conductor_hosts::plugin::sandbox::Strength;
use conductor_hosts::system::Environment;
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Grade {
    Good,
    /// Something optional is missing.
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
}

struct Finding {
    check: String,
    grade: Grade,
    detail: String,
    cure: Option<String>,
}

impl Finding {
    fn new(check: impl Into<String>, grade: Grade, detail: impl Into<String>) -> Self {
        Finding { check: check.into(), grade, detail: detail.into(), cure: None }
    }

    fn cure(mut self, cure: impl Into<String>) -> Self {
        self.cure = Some(cure.into());
        self
    }
}

pub fn run(home: &Home, environment: &Environment, out: &mut Out) -> Result<Verdict, Failure> {
    let mut findings = vec![folder(home), config(home)];
    findings.extend(daemon(home));
    findings.extend(live(home)?);
    findings.extend(pure_data(home, environment)?);
    findings.extend(pd_sandbox(home));
    findings.push(display(environment));
    findings.push(sandbox());
    let bad = findings.iter().any(|it| it.grade == Grade::Bad);
    let value = json!({ "ok": !bad, "checks": findings.iter().map(wire).collect::<Vec<_>>() });
    out.show(&value, |out, _| {
        for it in &findings {
            out.line(format_args!("{:<5} {:<12} {}", it.grade.name(), it.check, it.detail))?;
            if let Some(cure) = &it.cure {
                out.line(format_args!("{:<5} {:<12} {cure}", "", ""))?;
            }
        }
        Ok(())
    })?;
    Ok(if bad { Verdict::Bad } else { Verdict::Good })
}

fn wire(it: &Finding) -> Value {
    json!({ "check": it.check, "grade": it.grade.name(), "detail": it.detail, "cure": it.cure })
}

fn folder(home: &Home) -> Finding {
    let root = home.root();
    match root.metadata() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Finding::new("home", Grade::Note, format!("{} does not exist yet", root.display()))
                .cure("`conductor up` makes it")
        }
        Err(error) => Finding::new("home", Grade::Bad, format!("{}: {error}", root.display())),
        Ok(found) if !found.is_dir() => Finding::new("home", Grade::Bad, format!("{} is not a folder", root.display()))
            .cure("move it away, or choose another folder with --home"),
        Ok(found) if found.permissions().mode() & 0o077 != 0 => {
            Finding::new("home", Grade::Bad, format!("{} is open to other users", root.display()))
                .cure(format!("chmod 700 {}", root.display()))
        }
        Ok(_) => Finding::new("home", Grade::Good, root.display().to_string()),
    }
}

fn config(home: &Home) -> Finding {
    let path = home.config_file();
    let checked = Checked::of(&path);
    let (errors, warnings) = (checked.errors(), checked.warnings());
    if !checked.exists() {
        return Finding::new("config", Grade::Note, "no config.toml; the built-in empty mode serves")
            .cure("`conductor up` writes one with explanations");
    }
    match (errors.first(), warnings.len()) {
        (Some(first), _) => {
            Finding::new("config", Grade::Bad, first.as_str()).cure("`conductor config check` lists every fault")
        }
        (None, 0) => Finding::new("config", Grade::Good, path.display().to_string()),
        (None, warnings) => Finding::new("config", Grade::Note, format!("{warnings} warnings"))
            .cure("`conductor config check` lists them"),
    }
}

fn daemon(home: &Home) -> Vec<Finding> {
    let status = Client::connect(&home.control_socket()).and_then(|mut it| it.ask("status", json!({})));
    let status = match status {
        Ok(status) => status,
        Err(ClientError::NoDaemon) => {
            let finding = Finding::new("daemon", Grade::Note, "not running").cure("start it with `conductor up`");
            return vec![finding];
        }
        Err(error) => return vec![Finding::new("daemon", Grade::Bad, error.to_string())],
    };
    let state = super::text(&status, "lifecycle_state");
    let mut findings = vec![match status["config"]["error"].as_str() {
        Some(error) => Finding::new("daemon", Grade::Bad, format!("{state}, and keeps an old configuration: {error}"))
            .cure("correct the file; it is read again when saved"),
        None => Finding::new("daemon", Grade::Good, format!("{state}, pid {}", status["pid"])),
    }];
    findings.extend(waiting(&status["config"]));
    findings.push(audit(&status["audit"]));
    findings.extend(hands(&status));
    for backend in super::list(&status, "backends") {
        let name = super::text(backend, "name");
        findings.push(match backend["reason"].as_str() {
            None => Finding::new(name, Grade::Good, "ready"),
            Some(reason) => Finding::new(name, Grade::Note, reason),
        });
    }
    findings.extend(secrets(home));
    findings
}

/// What of the configuration is not in force until a person accepts it.
fn waiting(config: &Value) -> Option<Finding> {
    let cure = "read it and accept it with `conductor config accept`";
    if let Some(why) = config["closed"].as_str() {
        return Some(Finding::new("accepted", Grade::Bad, format!("closed defaults serve: {why}")).cure(cure));
    }
    let held: Vec<&str> = super::list(config, "held").iter().filter_map(Value::as_str).collect();
    let since = super::text(config, "held_since");
    let detail = format!("{} changed in config.toml at {since} and are not in force", held.join(", "));
    (!held.is_empty()).then(|| Finding::new("accepted", Grade::Note, detail).cure(cure))
}

/// With a log that cannot be written no tool is served.
fn audit(audit: &Value) -> Finding {
    match (audit["reason"].as_str(), audit["copy_fault"].as_str()) {
        (Some(reason), _) => Finding::new("audit", Grade::Bad, format!("no tool is served: {reason}"))
            .cure("make room on the disk, or look with `conductor audit verify`"),
        (None, Some(fault)) => Finding::new("audit", Grade::Note, format!("the second copy is behind: {fault}")),
        (None, None) => Finding::new("audit", Grade::Good, "every call is written to the log"),
    }
}

/// Whether a busy machine can make a pad wait.
fn hands(status: &Value) -> Option<Finding> {
    Some(match realtime_priority::is_urgent(status["pid"].as_u64()?, realtime_priority::OWNER)? {
        true => Finding::new("hands", Grade::Good, "come before all ordinary work"),
        false => Finding::new(
            "hands",
            Grade::Note,
            "take turns with other programs, so a busy machine can make a pad wait",
        )
        .cure(
            "allow real-time priority; on Debian `sudo dpkg-reconfigure jackd2`, then `sudo usermod -aG audio $USER`",
        ),
    })
}

fn sandbox() -> Finding {
    let strength = Strength::here();
    let grade = match strength {
        Strength::Full => Grade::Good,
        Strength::NoLandlock | Strength::LimitsOnly => Grade::Note,
    };
    Finding::new("sandbox", grade, strength.sentence())
}

/// The truth about who holds the key. A home that has none and needs none is fine.
fn secrets(home: &Home) -> Option<Finding> {
    let status = Client::connect(&home.control_socket()).and_then(|mut it| it.ask("secrets.status", json!({}))).ok()?;
    let sentence = super::text(&status, "sentence").to_owned();
    Some(match (status["open"].as_bool(), status["count"].as_u64()) {
        (Some(true), _) => Finding::new("secrets", Grade::Good, sentence),
        (_, Some(0)) => Finding::new("secrets", Grade::Note, sentence),
        _ => Finding::new("secrets", Grade::Bad, sentence).cure("`conductor secrets status` asks again"),
    })
}

/// The daemon looks when it runs: it may hold the ports that a look needs.
fn live(home: &Home) -> Result<Vec<Finding>, Failure> {
    let told = match super::ask(home, "live.examine", json!({})) {
        Ok(told) => told,
        Err(Failure::Client(ClientError::NoDaemon)) => {
            let Ok(serving) = super::offline(home) else { return Ok(Vec::new()) };
            let user_home = Environment::read().user_home;
            let settings = live::Settings::of_config(home.root(), user_home.as_deref(), &serving.config.live);
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            json!({ "checks": runtime.block_on(Live::new(home.root(), settings).examine()) })
        }
        Err(failure) => return Err(failure),
    };
    let grade = |name: &str| [Grade::Good, Grade::Note, Grade::Bad].into_iter().find(|it| it.name() == name);
    let of = |it: &Value| Finding {
        check: super::text(it, "check").to_owned(),
        grade: grade(super::text(it, "grade")).unwrap_or(Grade::Note),
        detail: super::text(it, "detail").to_owned(),
        cure: it["cure"].as_str().map(str::to_owned),
    };
    Ok(super::list(&told, "checks").iter().map(of).collect())
}

/// Needed only where the configuration asks for a running Pd: documents are edited without one.
fn pure_data(home: &Home, environment: &Environment) -> Result<Option<Finding>, Failure> {
    // A file with a fault is told of above.
    let Ok(serving) = super::offline(home) else { return Ok(None) };
    let section = &serving.config.patch.pd;
    let wanted = section.mode == PdMode::Spawn;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let found = runtime.block_on(examine(Path::new(&section.command), &environment.search_path));
    let missing = if wanted { Grade::Bad } else { Grade::Note };
    let other =
        "install Pure Data 0.53 to 0.57 (Debian: puredata-core), or name its program in `command` of [patch.pd]";
    Ok(Some(match found {
        Found::Nothing => {
            let detail = format!("{} was not found; patches are edited as documents all the same", section.command);
            Finding::new("pd", missing, detail).cure(other)
        }
        Found::Dumb { program, why } => {
            Finding::new("pd", missing, format!("{}: {why}", program.display())).cure(other)
        }
        Found::Pd { program, version, fit } => {
            let program = program.display();
            let used = match section.mode {
                PdMode::Off => "; [patch.pd] mode is off, so no patch runs in it",
                PdMode::Attach => "; patches run in the Pd that dials in through the helper patch",
                PdMode::Spawn => "",
            };
            match fit {
                Fit::Tested => {
                    let detail = format!("{program}, Pd {version}, the version Conductor is tested with{used}");
                    Finding::new("pd", Grade::Good, detail)
                }
                Fit::Driven => {
                    let detail =
                        format!("{program}, Pd {version}; known to be driven alike, tested with {TESTED}{used}");
                    Finding::new("pd", Grade::Note, detail)
                }
                Fit::Refused => {
                    let detail = format!("{program}, Pd {version}, which Conductor does not know how to drive{used}");
                    Finding::new("pd", missing, detail).cure(other)
                }
            }
        }
    }))
}

/// What the system keeps of the limits of a Pd that the daemon starts.
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

fn display(environment: &Environment) -> Finding {
    match &environment.display {
        Some(display) => Finding::new("display", Grade::Good, display.clone()),
        None => {
            Finding::new("display", Grade::Note, "DISPLAY is not set: keystrokes, text and mouse clicks cannot be sent")
        }
    }
}
