//! The keys of macOS. Some keys of a PC keyboard are missing.

use enigo::Key;

pub const ABSENT: &str = "macOS does not allow Conductor to control this computer; allow it in System Settings, Privacy & Security, Accessibility";
pub const RECEIVER: &str = "macOS";

pub const INSERT: Option<Key> = None;
pub const MEDIA_STOP: Option<Key> = None;
pub const PRINT_SCREEN: Option<Key> = None;
pub const SCROLL_LOCK: Option<Key> = None;
pub const PAUSE: Option<Key> = None;
pub const NUM_LOCK: Option<Key> = None;
