//! `conductor bridge`: installs the scripts and patches that run inside other programs and connect
//! them to this home.

use super::args::{BridgeCommand, BridgeName};
use super::{Failure, Verdict, out::Out};
use crate::home::Home;
use conductor_hosts::max;
use conductor_hosts::pd::attach;
use conductor_hosts::system::{Environment, RandomIds};
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};

/// The control surface script, as installed in the User Library of Live.
const SCRIPT: [(&str, &str); 7] = [
    ("__init__.py", include_str!("../../../../bridges/live/Conductor/__init__.py")),
    ("door.py", include_str!("../../../../bridges/live/Conductor/door.py")),
    ("edits.py", include_str!("../../../../bridges/live/Conductor/edits.py")),
    ("path_ids.py", include_str!("../../../../bridges/live/Conductor/path_ids.py")),
    ("reads.py", include_str!("../../../../bridges/live/Conductor/reads.py")),
    ("surface.py", include_str!("../../../../bridges/live/Conductor/surface.py")),
    ("watch.py", include_str!("../../../../bridges/live/Conductor/watch.py")),
];

pub fn run(command: &BridgeCommand, home: &Home, environment: &Environment, out: &mut Out) -> Result<Verdict, Failure> {
    let BridgeCommand::Install { name, to } = command;
    let (value, path, next) = match name {
        BridgeName::Live => {
            let folder = install_script(home, environment, to.as_deref())?;
            (json!({ "bridge": "live", "folder": folder }), folder, LIVE_NEXT)
        }
        BridgeName::Max | BridgeName::Pd if to.is_some() => {
            return Err(Failure::Text(
                "the helper patch is always written to the Conductor home; --to works only with live".into(),
            ));
        }
        BridgeName::Max => {
            let file = max::install(home.root(), &RandomIds)?;
            (json!({ "bridge": "max", "file": file }), file, MAX_NEXT)
        }
        BridgeName::Pd => {
            let file = attach::install(home.root(), &RandomIds)?;
            (json!({ "bridge": "pd", "file": file }), file, PD_NEXT)
        }
    };
    out.show(&value, |out, _| out.line(format_args!("wrote {}\n{next}", path.display())))
}

const LIVE_NEXT: &str = "\
In Live, choose Settings > Link, Tempo & MIDI > Control Surface > Conductor (restart Live if it is not listed).
Then run `conductor doctor`, which reports whether the script was found.";
const MAX_NEXT: &str = "\
Open this patch in Max and keep it open. Set [patch.max] enabled = true in config.toml.
This bridge was tested only with a simulated Max: please report any problem.";
const PD_NEXT: &str = "Open this patch in your Pd and keep it open. Set [patch.pd] mode = \"attach\" in config.toml.";

/// The folder in which Live searches for scripts. `None` if Live's User Library was not found; the
/// first start of Live creates it.
fn remote_scripts(environment: &Environment) -> Option<PathBuf> {
    let user_home = environment.user_home.as_ref()?;
    // The first path is for macOS, the second for Windows.
    let libraries = ["Music/Ableton/User Library", "Documents/Ableton/User Library"].map(|it| user_home.join(it));
    libraries.into_iter().find(|it| it.is_dir()).map(|it| it.join("Remote Scripts"))
}

/// Writes the script. Live lists the script's folder as a control surface.
fn install_script(home: &Home, environment: &Environment, to: Option<&Path>) -> Result<PathBuf, Failure> {
    let scripts = to.map(Path::to_owned).or_else(|| remote_scripts(environment)).ok_or_else(|| {
        Failure::Text(
            "no User Library of Live was found under ~/Music/Ableton or ~/Documents/Ableton; set the folder with --to \"…/User Library/Remote Scripts\""
                .into(),
        )
    })?;
    let folder = scripts.join("Conductor");
    fs::create_dir_all(&folder)?;
    for (name, text) in SCRIPT {
        fs::write(folder.join(name), text)?;
    }
    // The script writes its token only into the home that this file names.
    fs::write(folder.join("home.txt"), format!("{}\n", home.root().display()))?;
    Ok(folder)
}
