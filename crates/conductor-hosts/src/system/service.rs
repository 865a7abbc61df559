//! Sends messages to the service manager that started this process. Without a service manager,
//! nothing is sent.

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
    // An error is ignored, because the daemon also runs without a service manager.
    let _ = sd_notify::notify(&[if ready { Ready } else { Stopping }]);
}

#[cfg(not(target_os = "linux"))]
fn send(_ready: bool) {}
