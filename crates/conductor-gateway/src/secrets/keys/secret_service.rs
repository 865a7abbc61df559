//! The Secret Service of freedesktop.org.

pub use dbus_secret_service_keyring_store::Store;

/// How the keychain is reached, as part of an error message.
pub const ASKED_OVER: &str = " on the session bus";
