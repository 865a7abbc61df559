//! Watches the front window of Windows.
//!
//! Windows calls a program back only if the program handles window messages. The watcher instead
//! polls the front window at an interval; each poll makes a few short calls.

use super::FrontWindow;
use crate::desktop::Unavailable;
use crate::desktop::session::Session;
use conductor_core::focus::Window;
use std::os::windows::io::{AsRawHandle as _, FromRawHandle as _, OwnedHandle};
use std::path::Path;
use std::time::Duration;
use windows_sys::Win32::System::Threading::{
    OpenProcess, PROCESS_NAME_WIN32, PROCESS_QUERY_LIMITED_INFORMATION, QueryFullProcessImageNameW,
};
use windows_sys::Win32::UI::WindowsAndMessaging::{GetForegroundWindow, GetWindowTextW, GetWindowThreadProcessId};

const INTERVAL: Duration = Duration::from_millis(200);

struct Watcher;

pub fn open(_: &Session) -> Result<Box<dyn FrontWindow>, Unavailable> {
    Ok(Box::new(Watcher))
}

impl FrontWindow for Watcher {
    fn current(&mut self) -> Result<Option<Window>, Unavailable> {
        // SAFETY: the call takes no arguments. If the window is closed later, the calls below
        // return nothing.
        let window = unsafe { GetForegroundWindow() };
        if window.is_null() {
            return Ok(None);
        }
        let mut title = [0; 512];
        let mut pid = 0;
        // SAFETY: the buffer has the length that is passed.
        let length = unsafe {
            GetWindowThreadProcessId(window, &raw mut pid);
            GetWindowTextW(window, title.as_mut_ptr(), title.len() as i32)
        };
        let title = title.get(..usize::try_from(length).unwrap_or(0)).unwrap_or_default();
        let Some(app) = program(pid) else { return Ok(None) };
        Ok(Some(Window { id: window.expose_provenance() as u64, app, title: String::from_utf16_lossy(title) }))
    }

    fn wait(&mut self) -> Result<(), Unavailable> {
        std::thread::park_timeout(INTERVAL);
        Ok(())
    }
}

/// The name of a program file without `.exe`.
fn program(pid: u32) -> Option<String> {
    let mut path = [0; 1024];
    let mut length = path.len() as u32;
    // SAFETY: the handle gets an owner immediately, and the buffer has the length that is passed.
    let done = unsafe {
        let handle = OpenProcess(PROCESS_QUERY_LIMITED_INFORMATION, 0, pid);
        if handle.is_null() {
            return None;
        }
        let handle = OwnedHandle::from_raw_handle(handle);
        QueryFullProcessImageNameW(handle.as_raw_handle(), PROCESS_NAME_WIN32, path.as_mut_ptr(), &raw mut length)
    };
    let path = String::from_utf16_lossy(path.get(..length as usize).filter(|_| done != 0)?);
    Some(Path::new(&path).file_stem()?.to_string_lossy().into_owned())
}
