//! The faults. Each fault is injected while calls are made, and is over when [`heal`] returns. Only
//! a moved clock keeps its offset.
//!
//! The functions of the faults are in one file per kind. A function returns an error if the daemon
//! does not recover, or if it breaks another invariant.

mod clients;
mod config;
mod datagrams;
mod disk;
mod hosts;
mod jack;
mod pd;
mod plugin;

use super::checks::{Breach, RECOVERED};
use super::control::Client;
use super::daemon::{Daemon, Disk};
use super::parts::Parts;
use super::{Stage, calls, pause, until};
use rustix::process::Signal;
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// SIGKILL.
    Killed,
    /// SIGTERM: the daemon shuts down normally.
    Terminated,
    /// SIGSTOP, later SIGCONT.
    Stopped,
    /// SIGKILL, and the last line of the audit log is half written.
    TornLine,
    /// SIGKILL, and the last sector of the audit log contains zeros.
    TornSector,
    DiskFull,
    HomeReadOnly,
    FsyncFails,
    ShortWrites,
    WritesFail,
    ClockForward,
    ClockBack,
    /// Datagrams to the OSC input that are duplicated, truncated or damaged.
    BadDatagrams,
    /// Datagrams between the daemon and Live are lost.
    DatagramsLost,
    /// Replies of Live arrive late and in another order.
    DatagramsDelayed,
    /// Replies of Live arrive twice.
    DatagramsDuplicated,
    HalfOpenSockets,
    ManyClients,
    ClientsThatNeverRead,
    FewDescriptors,
    ConfigRewritten,
    /// The daemon is killed while its configuration file is rewritten.
    ConfigRewrittenAndKilled,
    /// The web server of a tool has ended: connections are refused.
    HostRefuses,
    /// The web server of a tool accepts connections and never answers.
    HostSilent,
    /// Live is killed, and a person starts it again.
    LiveKilled,
    /// Pd is killed during edits.
    PdKilled,
    /// The JACK server is killed while a note sounds, and is started again.
    JackKilled,
    /// The process of a plugin is killed during calls.
    PluginKilled,
}

impl Fault {
    pub const ALL: [Fault; 28] = [
        Fault::Killed,
        Fault::Terminated,
        Fault::Stopped,
        Fault::TornLine,
        Fault::TornSector,
        Fault::DiskFull,
        Fault::HomeReadOnly,
        Fault::FsyncFails,
        Fault::ShortWrites,
        Fault::WritesFail,
        Fault::ClockForward,
        Fault::ClockBack,
        Fault::BadDatagrams,
        Fault::DatagramsLost,
        Fault::DatagramsDelayed,
        Fault::DatagramsDuplicated,
        Fault::HalfOpenSockets,
        Fault::ManyClients,
        Fault::ClientsThatNeverRead,
        Fault::FewDescriptors,
        Fault::ConfigRewritten,
        Fault::ConfigRewrittenAndKilled,
        Fault::HostRefuses,
        Fault::HostSilent,
        Fault::LiveKilled,
        Fault::PdKilled,
        Fault::JackKilled,
        Fault::PluginKilled,
    ];

    /// Whether the process of the daemon ends without a chance to release notes.
    pub fn kills(self) -> bool {
        matches!(self, Fault::Killed | Fault::TornLine | Fault::TornSector | Fault::ConfigRewrittenAndKilled)
    }

    /// Whether the programs that the fault needs are installed.
    pub fn is_possible(self, parts: &Parts) -> bool {
        match self {
            Fault::JackKilled => parts.jack.is_some(),
            Fault::PdKilled => parts.has_pd,
            Fault::LiveKilled | Fault::DatagramsLost | Fault::DatagramsDelayed | Fault::DatagramsDuplicated => {
                parts.live.is_some()
            }
            Fault::Killed
            | Fault::Terminated
            | Fault::Stopped
            | Fault::TornLine
            | Fault::TornSector
            | Fault::DiskFull
            | Fault::HomeReadOnly
            | Fault::FsyncFails
            | Fault::ShortWrites
            | Fault::WritesFail
            | Fault::ClockForward
            | Fault::ClockBack
            | Fault::BadDatagrams
            | Fault::HalfOpenSockets
            | Fault::ManyClients
            | Fault::ClientsThatNeverRead
            | Fault::FewDescriptors
            | Fault::ConfigRewritten
            | Fault::ConfigRewrittenAndKilled
            | Fault::HostRefuses
            | Fault::HostSilent
            | Fault::PluginKilled => true,
        }
    }
}

/// An error of a fault function that names no invariant: the daemon did not recover.
impl From<String> for Breach {
    fn from(text: String) -> Self {
        Breach { invariant: RECOVERED, text }
    }
}

impl From<&str> for Breach {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

pub use jack::{NOTE as JACK_NOTE, PAD as JACK_PAD};

pub fn inject(fault: Fault, stage: &mut Stage) -> Result<(), Breach> {
    pause(stage.dice.below(60));
    match fault {
        Fault::Killed => stage.daemon.end(Signal::KILL),
        Fault::Terminated => stage.daemon.end(Signal::TERM),
        Fault::Stopped => {
            stage.daemon.signal(Signal::STOP);
            pause(100 + stage.dice.below(400));
            stage.daemon.signal(Signal::CONT);
        }
        Fault::TornLine => disk::tear_line(stage)?,
        Fault::TornSector => disk::tear_sector(stage)?,
        Fault::DiskFull => disk::fill(stage)?,
        Fault::HomeReadOnly => disk::make_read_only(stage)?,
        Fault::FsyncFails => disk::fail(stage, Disk::FsyncFails),
        Fault::ShortWrites => disk::fail(stage, Disk::ShortWrites),
        Fault::WritesFail => disk::fail(stage, Disk::WritesFail),
        Fault::ClockForward | Fault::ClockBack => {
            let step = 1 + stage.dice.below(86_400_000 * 3) as i64;
            stage.world.clock_ms += if fault == Fault::ClockForward { step } else { -step };
            stage.daemon.set_clock(stage.world.clock_ms);
            pause(100);
        }
        Fault::BadDatagrams => datagrams::damage(stage)?,
        Fault::DatagramsLost => datagrams::lose(stage)?,
        Fault::DatagramsDelayed => datagrams::delay(stage)?,
        Fault::DatagramsDuplicated => datagrams::duplicate(stage)?,
        Fault::HalfOpenSockets => clients::half_open(stage),
        Fault::ManyClients => clients::many(stage)?,
        Fault::ClientsThatNeverRead => clients::never_read(stage),
        Fault::FewDescriptors => clients::few_descriptors(stage)?,
        Fault::ConfigRewritten => config::rewrite(stage, None)?,
        Fault::ConfigRewrittenAndKilled => {
            let kill_at = stage.dice.below(config::ROUNDS);
            config::rewrite(stage, Some(kill_at))?;
        }
        Fault::HostRefuses => hosts::refuse(stage)?,
        Fault::HostSilent => hosts::be_silent(stage)?,
        Fault::LiveKilled => hosts::kill_live(stage)?,
        Fault::PdKilled => pd::kill(stage)?,
        Fault::JackKilled => jack::kill(stage)?,
        Fault::PluginKilled => plugin::kill(stage)?,
    }
    Ok(())
}

/// Uses each host once, so that the first fault finds them all in use.
pub fn try_hosts(stage: &Stage) -> Result<(), String> {
    hosts::try_each(stage)?;
    plugin::try_once(stage)?;
    if stage.parts.has_pd {
        pd::try_once(stage)?;
    }
    if stage.parts.jack.is_some() {
        jack::connected(stage, true)?;
    }
    Ok(())
}

/// Starts the daemon if it has ended, and waits until a call with an effect succeeds.
pub fn heal(daemon: &mut Daemon) -> Result<(), String> {
    if !daemon.is_running() {
        daemon.start()?;
    }
    until(super::RECOVERY, || {
        let mut client: Client = daemon.client()?;
        let _ = client.set_patience(Some(Duration::from_secs(5)));
        client.call(calls::EFFECT, calls::effect()).map(|_| ()).map_err(|it| format!("calls still fail: {it}"))
    })
}
