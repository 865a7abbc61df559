//! Credential Manager of Windows.

pub use windows_native_keyring_store::Store;

/// The way to the keychain, for messages.
pub const ASKED_OVER: &str = "";
