//! The login keychain of macOS.

pub use apple_native_keyring_store::keychain::Store;

/// How the keychain is reached, as part of an error message.
pub const ASKED_OVER: &str = "";
