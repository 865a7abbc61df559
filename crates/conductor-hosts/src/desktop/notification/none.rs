//! Systems without the interface of freedesktop.org.

use crate::desktop::Unavailable;

pub fn show(_title: &str, _text: &str) -> Result<(), Unavailable> {
    Err(Unavailable("this system does not support freedesktop.org notifications".to_owned()))
}
