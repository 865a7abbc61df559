//! Waits for the signals that end the daemon.

use std::io;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals SIGINT, SIGTERM and SIGHUP. After this value is created, they no longer end the
/// process immediately.
pub struct EndSignals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

impl EndSignals {
    /// Installs the signal handlers. Must be called inside a tokio runtime.
    pub fn catch() -> io::Result<Self> {
        Ok(EndSignals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// Returns after the first signal. SIGHUP also stops the daemon, because without a terminal the
    /// person could not stop notes that still sound.
    pub async fn received(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hang_up.recv() => {}
        }
    }
}

/// Resolves on SIGINT or SIGTERM. The handlers are installed by the call and not by the first poll,
/// because a signal between the two would kill the process.
pub fn interrupted() -> impl Future<Output = ()> {
    let listening = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()));
    async move {
        let (Ok(mut interrupt), Ok(mut terminate)) = listening else {
            return std::future::pending().await;
        };
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    }
}
