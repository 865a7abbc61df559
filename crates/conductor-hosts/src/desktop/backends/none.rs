//! A build without desktop support: there is no backend.

use super::{Chosen, Session};

pub fn choose(_: &Session) -> Chosen {
    (Vec::new(), Vec::new(), "this build has no support for displays")
}
