//! Credential Manager of Windows.

pub use windows_native_keyring_store::Store;

/// How the keychain is reached, as part of an error message.
pub const ASKED_OVER: &str = "";
