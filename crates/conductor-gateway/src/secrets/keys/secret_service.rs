//! The Secret Service of freedesktop.org.

pub use dbus_secret_service_keyring_store::Store;

/// The way to the keychain, for messages.
pub const ASKED_OVER: &str = " on the session bus";
