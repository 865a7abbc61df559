//! Waits for a connection of a started program.

use std::io;
use std::net::TcpListener;
use std::os::windows::io::{AsRawHandle as _, AsRawSocket as _};
use std::process::Child;
use std::time::Duration;
use windows_sys::Win32::Foundation::WAIT_OBJECT_0;
use windows_sys::Win32::Networking::WinSock::{POLLRDNORM, WSAGetLastError, WSAPOLLFD, WSAPoll};
use windows_sys::Win32::System::Threading::WaitForSingleObject;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// The listener has a connection.
    Connected,
    /// The program ended before it connected.
    Ended,
    Late,
}

/// Sockets and processes cannot be awaited together, so the process is checked at this interval.
const SLICE_MS: i32 = 50;

/// Waits until the listener has a connection, or the child has ended.
pub fn for_connection(listener: &TcpListener, child: &Child, limit: Duration) -> io::Result<Waited> {
    let slices = limit.as_millis().div_ceil(SLICE_MS.unsigned_abs().into());
    for _ in 0..slices {
        let mut wanted = WSAPOLLFD { fd: listener.as_raw_socket() as usize, events: POLLRDNORM, revents: 0 };
        // SAFETY: the list has one entry, and the socket is open.
        match unsafe { WSAPoll(&raw mut wanted, 1, SLICE_MS) } {
            0 => {}
            // SAFETY: reads the error of this thread.
            ..0 => return Err(io::Error::from_raw_os_error(unsafe { WSAGetLastError() })),
            1.. => return Ok(Waited::Connected),
        }
        // SAFETY: the handle of the child is open.
        if unsafe { WaitForSingleObject(child.as_raw_handle(), 0) } == WAIT_OBJECT_0 {
            return Ok(Waited::Ended);
        }
    }
    Ok(Waited::Late)
}
