//! Chooses the backend for each job.
//!
//! | session | keys and mouse | text |
//! |---|---|---|
//! | X11 | X server, then uinput | X server |
//! | Wayland | uinput, then X server (reaches X11 programs only) | virtual keyboard, then X server |
//! | console | uinput | none |
//! | Windows, macOS | the system | the system |
//!
//! Text never uses uinput: a key code types another character on another keyboard layout.

use super::{Desktop, Job, Session, Unavailable};

/// Creates the backends of this system for keys and for text. Also returns the error message for a
/// system without backends.
#[cfg_attr(all(feature = "desktop", target_os = "linux"), path = "backends/linux.rs")]
#[cfg_attr(all(feature = "desktop", not(target_os = "linux")), path = "backends/native.rs")]
#[cfg_attr(not(feature = "desktop"), path = "backends/none.rs")]
mod platform;

type Chosen = (Vec<Box<dyn Desktop>>, Vec<Box<dyn Desktop>>, &'static str);

/// The backends of a session.
pub struct Backends {
    keys: Route,
    text: Route,
}

impl Backends {
    pub fn of(session: &Session) -> Self {
        let (mut keys, mut text, why) = platform::choose(session);
        Backends { keys: Route::new("keys and clicks", why, &mut keys), text: Route::new("text", why, &mut text) }
    }

    /// Creates input devices before the first job: a desktop needs a moment to notice a new device,
    /// and ignores it until then.
    pub fn prepare(&mut self) {
        // If no backend can be used, the first job reports the reason.
        let _ = self.keys.choose();
    }
}

impl Desktop for Backends {
    fn open(&mut self) -> Result<(), Unavailable> {
        self.keys.choose().map(|_| ())
    }

    fn carry_out(&mut self, job: &Job) -> Result<(), Unavailable> {
        let route = match job {
            Job::Key { .. } | Job::Click { .. } => &mut self.keys,
            Job::Text(_) => &mut self.text,
        };
        route.choose()?.carry_out(job)
    }
}

/// Backends for one kind of job, in order of preference.
struct Route {
    what: &'static str,
    /// The reason if there is no backend at all.
    why: &'static str,
    backends: Vec<Box<dyn Desktop>>,
    /// The index of the backend in use. It is used until it fails to open, so that a key is
    /// released by the backend that pressed it.
    chosen: usize,
}

impl Route {
    fn new(what: &'static str, why: &'static str, backends: &mut Vec<Box<dyn Desktop>>) -> Self {
        Route { what, why, backends: std::mem::take(backends), chosen: 0 }
    }

    fn choose(&mut self) -> Result<&mut dyn Desktop, Unavailable> {
        let count = self.backends.len();
        let mut reasons = Vec::new();
        for step in 0..count {
            let at = (self.chosen + step) % count;
            match self.backends.get_mut(at).map(|it| it.open()) {
                Some(Ok(())) => {
                    self.chosen = at;
                    break;
                }
                Some(Err(why)) => reasons.push(why.0),
                None => {}
            }
        }
        if reasons.len() == count {
            let reasons = if reasons.is_empty() { self.why.to_owned() } else { reasons.join("; ") };
            return Err(Unavailable(format!("{} cannot be sent: {reasons}", self.what)));
        }
        let chosen = self.backends.get_mut(self.chosen).map(|it| it.as_mut() as &mut dyn Desktop);
        chosen.ok_or_else(|| Unavailable(format!("{} cannot be sent: {}", self.what, self.why)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parking_lot::Mutex;
    use std::sync::Arc;

    /// A backend that can be switched off, and records its jobs.
    struct Recorded {
        name: &'static str,
        usable: Arc<Mutex<bool>>,
        jobs: Arc<Mutex<Vec<&'static str>>>,
    }

    impl Desktop for Recorded {
        fn open(&mut self) -> Result<(), Unavailable> {
            if *self.usable.lock() { Ok(()) } else { Err(Unavailable(format!("{} is off", self.name))) }
        }

        fn carry_out(&mut self, _: &Job) -> Result<(), Unavailable> {
            self.jobs.lock().push(self.name);
            Err(Unavailable("half done".to_owned()))
        }
    }

    #[test]
    fn a_backend_is_kept_until_it_cannot_be_opened() {
        let jobs: Arc<Mutex<Vec<&'static str>>> = Arc::default();
        let switches: Vec<Arc<Mutex<bool>>> = [false, true].map(|it| Arc::new(Mutex::new(it))).into();
        let backend = |name, at: usize| -> Box<dyn Desktop> {
            Box::new(Recorded { name, usable: switches[at].clone(), jobs: jobs.clone() })
        };
        let mut route = Route::new("keys", "none", &mut vec![backend("first", 0), backend("second", 1)]);
        let job = Job::Text("a".into());
        // A failed job is not repeated by the other backend.
        assert!(route.choose().unwrap().carry_out(&job).is_err());
        *switches[0].lock() = true;
        assert!(route.choose().unwrap().carry_out(&job).is_err());
        *switches[1].lock() = false;
        assert!(route.choose().unwrap().carry_out(&job).is_err());
        assert_eq!(*jobs.lock(), ["second", "second", "first"]);
        *switches[0].lock() = false;
        let Err(why) = route.choose().map(|_| ()) else { panic!("a backend was chosen that is off") };
        assert_eq!(why.0, "keys cannot be sent: first is off; second is off");
    }

    #[test]
    fn without_a_session_the_reason_names_the_cure() {
        let mut backends = Backends::of(&Session::default());
        let why = backends.carry_out(&Job::Text("a".into())).unwrap_err();
        assert!(why.0.starts_with("text cannot be sent: "), "{why}");
    }
}
