//! Waits for the events that end the daemon: Ctrl-C, Ctrl-Break, a closed console window, and the
//! end of the person's session.
//!
//! Windows reports the end of a session to the console handlers of a program only if the program
//! has no window. A hidden window therefore also waits for the end of the session.

use std::io;
use std::sync::Arc;
use tokio::signal::windows::{
    CtrlBreak, CtrlC, CtrlClose, CtrlLogoff, CtrlShutdown, ctrl_break, ctrl_c, ctrl_close, ctrl_logoff, ctrl_shutdown,
};
use tokio::sync::Notify;

/// The events that end the daemon. After this value is created, they no longer end the process
/// immediately.
pub struct EndSignals {
    interrupt: CtrlC,
    stop: CtrlBreak,
    close: CtrlClose,
    logoff: CtrlLogoff,
    shutdown: CtrlShutdown,
    session_end: Arc<Notify>,
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
            session_end: session_end::watch()?,
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
            () = self.session_end.notified() => {}
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

/// The hidden window.
mod session_end {
    use super::Notify;
    use std::io;
    use std::ptr::{null, null_mut};
    use std::sync::{Arc, OnceLock};
    use std::time::Duration;
    use windows_sys::Win32::Foundation::{HWND, LPARAM, LRESULT, WPARAM};
    use windows_sys::Win32::System::LibraryLoader::GetModuleHandleW;
    use windows_sys::Win32::UI::WindowsAndMessaging::{
        CreateWindowExW, DefWindowProcW, DispatchMessageW, GetMessageW, MSG, RegisterClassW, WM_ENDSESSION, WNDCLASSW,
    };

    static ENDING: OnceLock<Arc<Notify>> = OnceLock::new();
    /// How long Windows waits for a program at the end of a session. Windows may end the process as
    /// soon as the window procedure has returned.
    const GRACE: Duration = Duration::from_secs(5);

    pub fn watch() -> io::Result<Arc<Notify>> {
        let notify = ENDING.get_or_init(Arc::default);
        std::thread::Builder::new().name("session end".into()).spawn(run)?;
        Ok(Arc::clone(notify))
    }

    /// Creates the window, and handles its messages until the process ends. Without a desktop there
    /// is no window, and the thread ends.
    fn run() {
        let name: Vec<u16> = "ConductorSessionEnd".encode_utf16().chain([0]).collect();
        // SAFETY: the name lives as long as the window, and the procedure has the right signature.
        unsafe {
            let instance = GetModuleHandleW(null());
            let class = WNDCLASSW {
                lpfnWndProc: Some(procedure),
                hInstance: instance,
                lpszClassName: name.as_ptr(),
                ..WNDCLASSW::default()
            };
            RegisterClassW(&raw const class);
            // A message-only window would not be notified of the end of the session.
            let window = CreateWindowExW(
                0,
                name.as_ptr(),
                name.as_ptr(),
                0,
                0,
                0,
                0,
                0,
                null_mut(),
                null_mut(),
                instance,
                null(),
            );
            if window.is_null() {
                return;
            }
            let mut message = MSG::default();
            while GetMessageW(&raw mut message, null_mut(), 0, 0) > 0 {
                DispatchMessageW(&raw const message);
            }
        }
    }

    unsafe extern "system" fn procedure(window: HWND, message: u32, first: WPARAM, second: LPARAM) -> LRESULT {
        if message == WM_ENDSESSION && first != 0 {
            if let Some(notify) = ENDING.get() {
                notify.notify_one();
            }
            // Wait while the daemon stops, at most for `GRACE`, because Windows may end the process
            // when this function returns.
            std::thread::park_timeout(GRACE);
            return 0;
        }
        // SAFETY: passes on the arguments that the system gave.
        unsafe { DefWindowProcW(window, message, first, second) }
    }
}
