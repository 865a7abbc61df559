//! The sandbox of a Pd that we start. A patch may contain boxes that read and write files, open
//! connections, and load code. The kernel confines Pd to the patch folders.
//!
//! Landlock limits paths, programs and TCP ports. In a separate network namespace, Pd can connect
//! only to our listener. Seccomp refuses other sockets, and system calls that Landlock does not
//! cover. The sandbox is entered between fork and exec, so that no code of Pd runs outside the
//! sandbox. A shared object in a patch folder can still be loaded; its code runs inside the
//! sandbox. Not here: which patches need an approval.

use conductor_core::config::PdAudio;
use std::io;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

#[cfg_attr(target_os = "linux", path = "sandbox/linux.rs")]
#[cfg_attr(not(target_os = "linux"), path = "sandbox/other.rs")]
mod platform;

/// The mechanisms to use. Tests disable some of them to check the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Walls {
    pub namespace: bool,
    pub ports: bool,
}

impl Default for Walls {
    fn default() -> Self {
        Walls { namespace: true, ports: true }
    }
}

/// How the network access of Pd is restricted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// A network namespace that contains only our listener.
    Namespace,
    /// A Landlock rule that allows one TCP port. The kernel compares only the port, not the
    /// address.
    Port,
    /// TCP is not restricted.
    Open,
}

/// The protection that the sandbox offers on this system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Whether paths and programs are limited.
    pub paths: bool,
    pub network: Network,
    /// Whether the list of refused system calls is in force.
    pub calls: bool,
    pub audio: PdAudio,
}

impl Kept {
    /// The protection of a Pd with this audio setting on this system. Starts a short process that
    /// checks whether namespaces are available.
    pub fn here(audio: PdAudio) -> Kept {
        Self::with(Walls::default(), audio)
    }

    fn with(walls: Walls, audio: PdAudio) -> Kept {
        platform::protection(walls, audio)
    }

    pub fn is_whole(self) -> bool {
        self.paths && self.network == Network::Namespace && self.calls
    }

    /// A sentence for `doctor`, and for the person who approves a patch.
    pub fn sentence(self) -> String {
        let mut parts = Vec::new();
        parts.push(match self.paths {
            true => "Pd can read and write the patch folders, and read its own program and libraries; it cannot use other files or start programs",
            false => "this system cannot limit files (Landlock is missing): Pd can read and write all your files and start programs",
        });
        parts.push(match (self.network, self.calls) {
            (Network::Namespace, _) => "it has no network",
            (Network::Port, _) => {
                "it has no network, except TCP connections to the port number on which Conductor listens"
            }
            (Network::Open, true) => {
                "this system cannot limit TCP: Pd can connect to any address, but cannot send datagrams"
            }
            (Network::Open, false) => "this system cannot limit the network: Pd can reach any address",
        });
        match self.audio {
            PdAudio::Off => {}
            PdAudio::Default => {
                parts.push("for sound it can also use the sound devices and the local sockets of other programs")
            }
            PdAudio::Jack => {
                parts.push("for JACK it can also use shared memory and the local sockets of other programs")
            }
        }
        parts.join("; ")
    }
}

/// Additional permissions for audio. docs/patches.md has the same list.
pub struct Sound {
    /// Paths to read: absolute, in the user's home folder (`~/`), or in the session's runtime
    /// folder (`$/`).
    pub read: &'static [&'static str],
    /// Devices and shared memory, for reading and writing.
    pub written: &'static [&'static str],
    /// Environment variables that Pd receives.
    pub variables: &'static [&'static str],
}

impl Sound {
    pub const fn of(audio: PdAudio) -> Sound {
        match audio {
            PdAudio::Off => Sound { read: &[], written: &["/dev/null"], variables: &[] },
            PdAudio::Default => Sound {
                read: &[
                    "/proc/asound",
                    "/usr/share/alsa",
                    "/etc/alsa",
                    "/etc/asound.conf",
                    "/etc/pulse",
                    "/etc/machine-id",
                    "/usr/share/pipewire",
                    "/etc/pipewire",
                    "~/.asoundrc",
                    "~/.config/pulse",
                    "$/pulse",
                ],
                written: &["/dev/null", "/dev/snd", "/dev/dsp", "/dev/shm"],
                variables: &["HOME", "XDG_RUNTIME_DIR", "PULSE_SERVER", "PULSE_COOKIE", "PIPEWIRE_RUNTIME_DIR"],
            },
            PdAudio::Jack => Sound {
                read: &["/usr/share/pipewire", "/etc/pipewire"],
                written: &["/dev/null", "/dev/shm"],
                variables: &[
                    "JACK_DEFAULT_SERVER",
                    "JACK_PROMISCUOUS_SERVER",
                    "XDG_RUNTIME_DIR",
                    "PIPEWIRE_RUNTIME_DIR",
                    "PIPEWIRE_LATENCY",
                ],
            },
        }
    }
}

/// The sandbox of one Pd.
pub struct Sandbox<'a> {
    pub program: &'a Path,
    /// Folders of patches, for reading and writing.
    pub folders: &'a [PathBuf],
    pub audio: PdAudio,
    pub walls: Walls,
    /// The user's home folder and the session's runtime folders, for the audio paths.
    pub user_home: Option<&'a Path>,
    pub runtime: &'a [PathBuf],
}

impl Sandbox<'_> {
    /// Starts the command that `command` builds for a port, and returns the listener on that port.
    pub fn spawn(&self, command: impl Fn(u16) -> Command) -> io::Result<(Child, TcpListener, Kept)> {
        let kept = Kept::with(self.walls, self.audio);
        platform::spawn(self, kept, command).map(|(child, listener)| (child, listener, kept))
    }
}
