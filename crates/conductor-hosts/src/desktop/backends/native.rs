//! Windows and macOS: the system itself accepts keys, text and clicks.

use super::{Chosen, Desktop, Session};
use crate::desktop::enigo_keys::EnigoKeys;

pub fn choose(session: &Session) -> Chosen {
    let backend = || session.native.then(|| Box::new(EnigoKeys::on(None)) as Box<dyn Desktop>);
    (backend().into_iter().collect(), backend().into_iter().collect(), "this process belongs to no desktop session")
}
