//! Systems other than Linux have no sandbox for Pd. `doctor` and the approval request of a patch
//! report this.

use super::{Kept, Network, PdAudio, Sandbox, Walls};
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::process::{Child, Command};

pub fn protection(_: Walls, audio: PdAudio) -> Kept {
    Kept { paths: false, network: Network::Open, calls: false, audio }
}

pub fn spawn(_: &Sandbox<'_>, _: Kept, command: impl Fn(u16) -> Command) -> io::Result<(Child, TcpListener)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let child = command(listener.local_addr()?.port()).spawn()?;
    Ok((child, listener))
}
