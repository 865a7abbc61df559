//! Watches the desktop: the display, the frontmost window, and the running programs.
//!
//! It uses two threads, one for windows and one for programs, because both may block. Not here: the
//! protocols of desktops (`conductor_hosts::focus`), window rules (`conductor_core::focus`), and
//! sending keys (`dispatch`).

use super::wake::{Wake, Waker};
use conductor_hosts::apps;
use conductor_hosts::desktop::Session;
use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// The interval at which running programs are listed while a condition needs them.
const LOOK: Duration = Duration::from_secs(1);

/// The handles of the two threads.
pub(crate) struct Desktop {
    apps: (Arc<Apps>, JoinHandle<()>),
    #[cfg(feature = "desktop")]
    focus: Option<focus::FocusWatch>,
}

/// State shared with the thread that lists programs.
#[derive(Default)]
struct Apps {
    wanted: AtomicBool,
    end: AtomicBool,
}

/// Switches the listing of programs on while a condition needs it. This never blocks, because the
/// owner calls it.
#[derive(Clone)]
pub(crate) struct AppsWanted {
    apps: Arc<Apps>,
    thread: std::thread::Thread,
}

impl AppsWanted {
    pub fn set(&self, wanted: bool) {
        if self.apps.wanted.swap(wanted, Ordering::AcqRel) != wanted {
            self.thread.unpark();
        }
    }
}

impl Desktop {
    /// Starts the threads. The thread for windows is not started if nothing reports the front
    /// window ([`Session::focus_fault`]).
    #[cfg_attr(not(feature = "desktop"), expect(unused_variables, reason = "this build has no support for displays"))]
    pub fn start(session: Session, owner: &Waker) -> io::Result<Self> {
        let apps: Arc<Apps> = Arc::default();
        let (shared, waker) = (Arc::clone(&apps), owner.clone());
        let thread = Builder::new().name("programs".into()).spawn(move || look_for_programs(&shared, &waker))?;
        Ok(Desktop {
            apps: (apps, thread),
            #[cfg(feature = "desktop")]
            focus: match session.focus_fault() {
                None => Some(focus::FocusWatch::open(session, owner.clone())?),
                Some(_) => None,
            },
        })
    }

    pub fn apps_wanted(&self) -> AppsWanted {
        AppsWanted { apps: Arc::clone(&self.apps.0), thread: self.apps.1.thread().clone() }
    }

    pub fn stop(self) {
        let (apps, thread) = self.apps;
        apps.end.store(true, Ordering::Release);
        thread.thread().unpark();
        // If the thread panicked, it has already written the reason to stderr.
        let _ = thread.join();
        #[cfg(feature = "desktop")]
        if let Some(focus) = self.focus {
            focus.close();
        }
    }
}

fn look_for_programs(apps: &Apps, owner: &Waker) {
    let mut reported = BTreeSet::new();
    while !apps.end.load(Ordering::Acquire) {
        if !apps.wanted.load(Ordering::Acquire) {
            std::thread::park();
            continue;
        }
        let now = apps::running();
        if now != reported {
            reported.clone_from(&now);
            owner.post(Wake::Programs(now));
        }
        std::thread::park_timeout(LOOK);
    }
}

#[cfg(feature = "desktop")]
mod focus {
    use super::{Wake, Waker};
    use conductor_hosts::desktop::Session;
    use conductor_hosts::focus::{open, watch};
    use std::io;
    use std::ops::ControlFlow;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread::{Builder, Thread};
    use std::time::Duration;

    /// The interval between two attempts to connect to a missing display.
    const RETRY: Duration = Duration::from_secs(2);

    pub struct FocusWatch {
        end: Arc<AtomicBool>,
        thread: Thread,
    }

    impl FocusWatch {
        pub fn open(session: Session, owner: Waker) -> io::Result<Self> {
            let end: Arc<AtomicBool> = Arc::default();
            let ends = Arc::clone(&end);
            let thread = Builder::new().name("focus".into()).spawn(move || run(&session, &owner, &ends))?;
            Ok(FocusWatch { end, thread: thread.thread().clone() })
        }

        /// Asks the thread to end, but does not join it, because the thread may be blocked until
        /// the next event of the server. Until that event, the thread only keeps its connection
        /// open.
        pub fn close(self) {
            self.end.store(true, Ordering::Release);
            self.thread.unpark();
        }
    }

    fn run(session: &Session, owner: &Waker, end: &AtomicBool) {
        let over = || end.load(Ordering::Acquire);
        while !over() {
            let lost = match open(session) {
                Err(why) => why,
                Ok(mut watcher) => {
                    owner.post(Wake::Display(Ok(())));
                    watch(watcher.as_mut(), |window| {
                        owner.post(Wake::Front(window));
                        if over() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                    })
                }
            };
            if !over() {
                owner.post(Wake::Display(Err(lost.to_string())));
                std::thread::park_timeout(RETRY);
            }
        }
    }
}
