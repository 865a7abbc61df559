//! The keys of Windows.

use enigo::Key;

pub const ABSENT: &str = "this session has no desktop to type on";
pub const RECEIVER: &str = "Windows";

pub const INSERT: Option<Key> = Some(Key::Insert);
pub const MEDIA_STOP: Option<Key> = Some(Key::MediaStop);
pub const PRINT_SCREEN: Option<Key> = Some(Key::PrintScr);
pub const SCROLL_LOCK: Option<Key> = Some(Key::Scroll);
pub const PAUSE: Option<Key> = Some(Key::Pause);
pub const NUM_LOCK: Option<Key> = Some(Key::Numlock);
