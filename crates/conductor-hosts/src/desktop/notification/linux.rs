//! Shows notifications through the D-Bus interface of freedesktop.org.

use crate::desktop::Unavailable;

/// Shows a notification, and waits until the desktop has accepted it. Markup in the text
/// is not interpreted.
pub fn show(title: &str, text: &str) -> Result<(), Unavailable> {
    use dbus::arg::{PropMap, Variant};
    use dbus::blocking::Connection;
    const NAME: &str = "org.freedesktop.Notifications";
    const PATIENCE: std::time::Duration = std::time::Duration::from_secs(5);
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let unavailable = |error: dbus::Error| Unavailable(error.to_string());
    let bus = Connection::new_session().map_err(unavailable)?;
    let desktop = bus.with_proxy(NAME, "/org/freedesktop/Notifications", PATIENCE);
    let urgent = Variant(Box::new(2_u8) as Box<dyn dbus::arg::RefArg>);
    let hints = PropMap::from([("urgency".to_owned(), urgent)]);
    // The arguments are: program, id of a notification to replace, icon, title, text, actions,
    // hints, and time limit (-1: the desktop decides).
    let call = ("Conductor", 0_u32, "", title, text, Vec::<String>::new(), hints, -1_i32);
    let (_id,): (u32,) = desktop.method_call(NAME, "Notify", call).map_err(unavailable)?;
    Ok(())
}
