//! Waits until a started program connects.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::net::TcpListener;
use std::process::Child;
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// The listener has a connection.
    Connected,
    /// The program ended before it connected.
    Ended,
    Late,
}

/// Waits until the listener has a connection, or the child has ended. The child's stderr must be a
/// pipe: the end of the pipe shows that the child has ended.
pub fn for_connection(listener: &TcpListener, child: &Child, limit: Duration) -> io::Result<Waited> {
    let limit = Timespec { tv_sec: limit.as_secs().cast_signed(), tv_nsec: limit.subsec_nanos().into() };
    loop {
        let mut ready = vec![PollFd::new(listener, PollFlags::IN)];
        ready.extend(child.stderr.as_ref().map(|it| PollFd::new(it, PollFlags::empty())));
        match poll(&mut ready, Some(&limit)) {
            Ok(0) => return Ok(Waited::Late),
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(fault) => return Err(fault.into()),
        }
        let connected = ready.first().is_some_and(|it| it.revents().contains(PollFlags::IN));
        return Ok(if connected { Waited::Connected } else { Waited::Ended });
    }
}
