//! Waits for the events that end the daemon: Ctrl-C, Ctrl-Break, a closed console window, and the
//! end of the person's session.

use std::io;
use tokio::signal::windows::{
    CtrlBreak, CtrlC, CtrlClose, CtrlLogoff, CtrlShutdown, ctrl_break, ctrl_c, ctrl_close, ctrl_logoff, ctrl_shutdown,
};

/// After this value is created, these events no longer end the process at once.
pub struct EndSignals {
    interrupt: CtrlC,
    stop: CtrlBreak,
    close: CtrlClose,
    logoff: CtrlLogoff,
    shutdown: CtrlShutdown,
}

impl EndSignals {
    /// Installs the handlers. Must be called inside a tokio runtime.
    pub fn catch() -> io::Result<Self> {
        Ok(EndSignals {
            interrupt: ctrl_c()?,
            stop: ctrl_break()?,
            close: ctrl_close()?,
            logoff: ctrl_logoff()?,
            shutdown: ctrl_shutdown()?,
        })
    }

    /// Returns after the first event. After a closed window, a logoff or a shutdown, Windows ends
    /// the process some seconds later, which is enough to release every note.
    pub async fn received(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.stop.recv() => {}
            _ = self.close.recv() => {}
            _ = self.logoff.recv() => {}
            _ = self.shutdown.recv() => {}
        }
    }
}

/// Resolves on Ctrl-C or Ctrl-Break. The handlers are installed by the call and not by the first
/// poll, because an event between the two would end the process.
pub fn interrupted() -> impl Future<Output = ()> {
    let listening = (ctrl_c(), ctrl_break());
    async move {
        let (Ok(mut interrupt), Ok(mut stop)) = listening else {
            return std::future::pending().await;
        };
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = stop.recv() => {}
        }
    }
}
