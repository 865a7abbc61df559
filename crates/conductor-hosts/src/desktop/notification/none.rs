//! Systems without the notification interface of freedesktop.org: every notification fails.

use crate::desktop::Unavailable;

pub fn show(_title: &str, _text: &str) -> Result<(), Unavailable> {
    Err(Unavailable("this system does not support freedesktop.org notifications".to_owned()))
}
