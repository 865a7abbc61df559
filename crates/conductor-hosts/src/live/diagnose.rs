//! Diagnoses Live for `doctor`: checks the port, the script, the version and the permissions, and
//! suggests a fix for each fault.
//!
//! Uses an existing connection if there is one, because only one client of each kind can connect.
//! Otherwise connects, sends requests and disconnects.

use super::abletonosc::AbletonOscHost;
use super::abletonosc::wire::{self, Wire, nobody_listens};
use super::script::ScriptHost;
use super::script::rendezvous::{self, RendezvousError};
use super::{Live, LiveHostError, OSC_SET, SCRIPT_SET};
use conductor_core::config::LiveHostChoice;
use serde::Serialize;
use std::sync::Arc;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Grade {
    #[serde(rename = "ok")]
    Good,
    /// An optional part is missing.
    Note,
    Bad,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub check: &'static str,
    pub grade: Grade,
    pub detail: String,
    pub cure: Option<String>,
}

fn finding(check: &'static str, grade: Grade, detail: impl Into<String>) -> Finding {
    Finding { check, grade, detail: detail.into(), cure: None }
}

impl Finding {
    fn cure(mut self, cure: impl Into<String>) -> Finding {
        self.cure = Some(cure.into());
        self
    }
}

const INSTALL: &str =
    "run `conductor bridge install live`, then choose Conductor as a control surface in Live's settings";
/// The first version of Live whose scripts use Python 3 and support all fields of a note.
const OLDEST: u32 = 11;

impl Live {
    /// All findings about Live for `doctor`.
    pub async fn examine(&self) -> Vec<Finding> {
        let mut found = self.examine_roots();
        found.push(self.examine_script().await);
        found.extend(self.examine_osc().await);
        found
    }

    /// Severity of a missing host: an error if the configuration requires this host, else a note.
    fn missing(&self, wanted: LiveHostChoice) -> Grade {
        if self.settings().host == wanted { Grade::Bad } else { Grade::Note }
    }

    fn examine_roots(&self) -> Vec<Finding> {
        let missing = self.settings().file_roots.iter().filter(|it| !it.is_dir());
        missing
            .map(|root| {
                finding("live files", Grade::Note, format!("{} does not exist", root.display()))
                    .cure("create the folder, or change [live] file_roots in config.toml")
            })
            .collect()
    }

    async fn examine_script(&self) -> Finding {
        const CHECK: &str = "live script";
        let grade = self.missing(LiveHostChoice::Script);
        let home = self.settings().script.home.clone();
        match rendezvous::read(&home) {
            Err(RendezvousError::NoFile) => {
                return finding(CHECK, grade, "the script is not running in Live").cure(INSTALL);
            }
            Err(RendezvousError::Unsafe(why)) => {
                let file = rendezvous::path(&home);
                return finding(CHECK, Grade::Bad, format!("permission: {why}"))
                    .cure(format!("remove {} and choose the control surface in Live again", file.display()));
            }
            Err(RendezvousError::Nonsense(why)) => {
                return finding(CHECK, Grade::Bad, format!("version: {why}")).cure(INSTALL);
            }
            Ok(_) => {}
        }
        if let Some(set) = self.sets().into_iter().find(|it| it.id == SCRIPT_SET)
            && set.host.overview().await.is_ok()
        {
            return finding(CHECK, Grade::Good, "attached");
        }
        match ScriptHost::attach(self.settings().script.clone(), Arc::new(|_, _| {})).await {
            Ok(host) => {
                let greeting = host.greeting();
                let devices = if greeting.caps.iter().any(|it| it == "insert_device") {
                    ""
                } else {
                    "; it cannot insert devices, which needs Live 12.3"
                };
                finding(CHECK, Grade::Good, format!("Live {}{devices}", greeting.live))
            }
            Err(LiveHostError::Offline { reason, .. }) => finding(CHECK, grade, reason)
                .cure("choose the control surface in Live again; the script then writes a new file"),
            Err(LiveHostError::NoAnswer { .. }) => {
                finding(CHECK, Grade::Bad, "Live does not answer; it may show a dialog")
                    .cure("close the dialog in Live")
            }
            Err(LiveHostError::Said { message, .. }) => finding(CHECK, Grade::Note, message)
                .cure("stop the other Conductor, or use its home folder with `--home DIR`"),
            Err(refusal) => finding(CHECK, Grade::Bad, format!("{refusal:?}")),
        }
    }

    async fn examine_osc(&self) -> Vec<Finding> {
        const CHECK: &str = "abletonosc";
        let grade = self.missing(LiveHostChoice::AbletonOsc);
        let settings = self.settings().osc;
        let attached = self.sets().into_iter().any(|it| it.id == OSC_SET);
        if attached {
            return vec![finding(CHECK, Grade::Good, "attached"), open_port(settings.peer.port())];
        }
        if nobody_listens(settings.peer).await {
            return vec![
                finding(CHECK, grade, format!("script: nothing listens on UDP {}", settings.peer))
                    .cure("start Live and choose AbletonOSC as a control surface; see docs/live.md"),
            ];
        }
        let (wire, pushed) = match Wire::open(settings).await {
            Ok(open) => open,
            Err(LiveHostError::Offline { reason, .. }) => {
                return vec![finding(CHECK, Grade::Bad, format!("port: {reason}")).cure(
                    "stop the other client of AbletonOSC, or change reply_port in [live.osc] and in AbletonOSC",
                )];
            }
            Err(_) => return Vec::new(),
        };
        let host = match AbletonOscHost::over(wire, pushed, Arc::new(|_, _| {})).await {
            Ok(host) => host,
            Err(LiveHostError::NoAnswer { .. }) => {
                let detail = format!("script: {} accepts datagrams but sends no reply", settings.peer);
                let cure = format!(
                    "Live may show a dialog, or AbletonOSC sends its replies to a port other than {}",
                    settings.reply_port
                );
                return vec![finding(CHECK, Grade::Bad, detail).cure(cure)];
            }
            Err(refusal) => return vec![finding(CHECK, Grade::Bad, format!("{refusal:?}"))],
        };
        let version = match host.version().await {
            Ok((major, minor)) if major < OLDEST => {
                finding(CHECK, Grade::Bad, format!("version: Live {major}.{minor}")).cure("Live 11 or later is needed")
            }
            Ok((major, minor)) => finding(CHECK, Grade::Good, format!("Live {major}.{minor} answers")),
            Err(_) => finding(CHECK, Grade::Note, "version: Live answers but does not report its version")
                .cure("install a newer AbletonOSC"),
        };
        vec![version, open_port(settings.peer.port())]
    }
}

/// The finding that AbletonOSC listens on every interface and requires no password.
fn open_port(port: u16) -> Finding {
    let detail = format!("permission: AbletonOSC accepts commands on UDP {port} from every computer in the network");
    finding(wire::NAME, Grade::Note, detail)
        .cure("block this port in the firewall, or use Conductor's own script in Live")
}
