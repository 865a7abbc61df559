//! The login keychain of macOS.

pub use apple_native_keyring_store::keychain::Store;

/// The way to the keychain, for messages.
pub const ASKED_OVER: &str = "";
