//! The front program of macOS. **This code compiles but was never run.**
//!
//! The title of a window would need the permission to record the screen, so it is empty, and rules
//! for titles do not apply.

use super::FrontWindow;
use crate::desktop::Unavailable;
use crate::desktop::session::Session;
use conductor_core::focus::Window;
use objc2_app_kit::NSWorkspace;
use std::time::Duration;

const INTERVAL: Duration = Duration::from_millis(200);

struct Watcher;

pub fn open(_: &Session) -> Result<Box<dyn FrontWindow>, Unavailable> {
    Ok(Box::new(Watcher))
}

impl FrontWindow for Watcher {
    fn current(&mut self) -> Result<Option<Window>, Unavailable> {
        let Some(front) = NSWorkspace::sharedWorkspace().frontmostApplication() else { return Ok(None) };
        let app = front.localizedName().map(|it| it.to_string()).unwrap_or_default();
        let id = front.processIdentifier().unsigned_abs().into();
        Ok(Some(Window { id, app, title: String::new() }))
    }

    fn wait(&mut self) -> Result<(), Unavailable> {
        std::thread::park_timeout(INTERVAL);
        Ok(())
    }
}
