//! Messages to the service manager that started this process. Without a service manager, they are
//! not sent.

/// Reports that the daemon is ready: its sockets are open and its devices are being opened.
pub fn report_ready() {
    send(true);
}

/// Reports that the daemon has begun to stop.
pub fn report_stopping() {
    send(false);
}

#[cfg(target_os = "linux")]
fn send(ready: bool) {
    use sd_notify::NotifyState::{Ready, Stopping};
    // The manager may have gone; the daemon runs without it.
    let _ = sd_notify::notify(&[if ready { Ready } else { Stopping }]);
}

#[cfg(not(target_os = "linux"))]
fn send(_ready: bool) {}
