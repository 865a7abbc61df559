//! X11, Wayland and the devices of the kernel.

use super::{Chosen, Desktop, Session};
use crate::desktop::enigo_keys::EnigoKeys;
use crate::desktop::uinput::Uinput;
use crate::desktop::virtual_keyboard::VirtualKeyboard;

pub fn choose(session: &Session) -> Chosen {
    let uinput = || session.uinput.clone().map(|it| Box::new(Uinput::at(it)) as Box<dyn Desktop>);
    let x11 = || session.x11.clone().map(|it| Box::new(EnigoKeys::on(Some(it))) as Box<dyn Desktop>);
    let wayland = session.wayland.clone().map(|it| Box::new(VirtualKeyboard::at(it)) as Box<dyn Desktop>);
    let text = wayland.into_iter().chain(x11()).collect();
    let keys = if session.wayland.is_some() {
        uinput().into_iter().chain(x11()).collect()
    } else {
        x11().into_iter().chain(uinput()).collect()
    };
    (keys, text, "there is no display; set DISPLAY or WAYLAND_DISPLAY in the daemon's environment")
}
