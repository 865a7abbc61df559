//! `conductor bridge`: puts what runs inside other programs where they find it, with the address of
//! this studio in it.

use super::args::{Bridge, BridgeCommand, BridgeName};
use super::{Failure, Verdict, out::Out};
use crate::home::Home;
use conductor_hosts::max;
use conductor_hosts::pd::attach;
use conductor_hosts::system::{Environment, RandomIds};
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};

/// The script as it lies in the User Library of Live.
const SCRIPT: [(&str, &str); 7] = [
    ("__init__.py", include_str!("../../../../bridges/live/Conductor/__init__.py")),
    ("door.py", include_str!("../../../../bridges/live/Conductor/door.py")),
    ("edits.py", include_str!("../../../../bridges/live/Conductor/edits.py")),
    ("path_ids.py", include_str!("../../../../bridges/live/Conductor/path_ids.py")),
    ("reads.py", include_str!("../../../../bridges/live/Conductor/reads.py")),
    ("surface.py", include_str!("../../../../bridges/live/Conductor/surface.py")),
    ("watch.py", include_str!("../../../../bridges/live/Conductor/watch.py")),
];

pub fn run(args: &Bridge, home: &Home, environment: &Environment, out: &mut Out) -> Result<Verdict, Failure> {
    let BridgeCommand::Install { name, to } = &args.command;
    match name {
        BridgeName::Live => {
            let folder = install_script(home, environment, to.as_deref())?;
            out.show(&json!({ "bridge": "live", "folder": folder }), |out, _| {
                out.line(format_args!("wrote {}", folder.display()))?;
                out.line("In Live: Settings > Link, Tempo & MIDI > Control Surface > Conductor (start Live again if it is not listed).")?;
                out.line("Then `conductor doctor` says whether it is found.")
            })?;
        }
        BridgeName::Max | BridgeName::Pd if to.is_some() => {
            return Err(Failure::Text("the helper patch lies in the studio's own folder; --to is for live".into()));
        }
        BridgeName::Max => {
            let file = max::install(home.root(), &RandomIds)?;
            out.show(&json!({ "bridge": "max", "file": file }), |out, _| {
                out.line(format_args!("wrote {}", file.display()))?;
                out.line("Open it in Max and keep it open. In config.toml: [patch.max] enabled = true")?;
                out.line("It was tested against a fake Max only: please report what does not work.")
            })?;
        }
        BridgeName::Pd => {
            let file = attach::install(home.root(), &RandomIds)?;
            out.show(&json!({ "bridge": "pd", "file": file }), |out, _| {
                out.line(format_args!("wrote {}", file.display()))?;
                out.line("Open it in your Pd and keep it open. In config.toml: [patch.pd] mode = \"attach\"")
            })?;
        }
    }
    Ok(Verdict::Good)
}

/// Where Live looks for scripts, when it has been started once.
fn remote_scripts(environment: &Environment) -> Option<PathBuf> {
    let library = environment.user_home.as_ref()?.join("Music/Ableton/User Library");
    library.is_dir().then(|| library.join("Remote Scripts"))
}

/// The folder that Live then shows as a control surface.
fn install_script(home: &Home, environment: &Environment, to: Option<&Path>) -> Result<PathBuf, Failure> {
    let scripts = to.map(Path::to_owned).or_else(|| remote_scripts(environment)).ok_or_else(|| {
        Failure::Text(
            "no User Library of Live was found under ~/Music/Ableton; say where with --to \"…/User Library/Remote Scripts\""
                .into(),
        )
    })?;
    let folder = scripts.join("Conductor");
    fs::create_dir_all(&folder)?;
    for (name, text) in SCRIPT {
        fs::write(folder.join(name), text)?;
    }
    // The script writes its token into this home and nowhere else.
    fs::write(folder.join("home.txt"), format!("{}\n", home.root().display()))?;
    Ok(folder)
}
