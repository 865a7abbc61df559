//! Keys, text and mouse through `enigo`: the XTest extension of an X server, `SendInput` of
//! Windows, and the event services of macOS.
//!
//! The connection is opened when it is first needed, and opened again after a loss. The daemon may
//! therefore start before the desktop. If a stroke fails, the keys that it has pressed are
//! released.
//!
//! Not here: the record of held keys (the ledger of `conductor_core::engine`).

use super::{Desktop, Job, Unavailable};
use conductor_core::action::{KeyName, Keystroke, Modifier, MouseButton};
use conductor_core::engine::Stroke;
use enigo::{Button, Coordinate, Direction, Enigo, InputError, Key, Keyboard, Mouse, Settings};

/// Keys that not every system has, and system-specific parts of error messages.
#[cfg_attr(target_os = "macos", path = "enigo_keys/macos.rs")]
#[cfg_attr(windows, path = "enigo_keys/windows.rs")]
#[cfg_attr(not(any(target_os = "macos", windows)), path = "enigo_keys/x11.rs")]
mod platform;

pub struct EnigoKeys {
    /// The X display; absent on systems without X.
    display: Option<String>,
    connection: Option<Enigo>,
}

impl EnigoKeys {
    pub fn on(display: Option<String>) -> Self {
        EnigoKeys { display, connection: None }
    }

    fn connection(&mut self) -> Result<&mut Enigo, Unavailable> {
        if self.connection.is_none() {
            let settings = Settings {
                x11_display: self.display.clone(),
                // Do not open a dialog: it would show the name of the program that started the
                // daemon. `doctor` reports the missing permission instead.
                open_prompt_to_get_permissions: false,
                // `release_keys_when_dropped` is only a fallback: the engine's ledger releases held
                // keys, even when the daemon ends.
                release_keys_when_dropped: true,
                ..Settings::default()
            };
            let opened = Enigo::new(&settings);
            self.connection = Some(opened.map_err(|why| Unavailable(format!("{}: {why}", platform::ABSENT)))?);
        }
        self.connection.as_mut().ok_or_else(|| Unavailable(platform::ABSENT.to_owned()))
    }
}

impl Desktop for EnigoKeys {
    fn open(&mut self) -> Result<(), Unavailable> {
        self.connection().map(|_| ())
    }

    fn carry_out(&mut self, job: &Job) -> Result<(), Unavailable> {
        let desk = self.connection()?;
        let done = match job {
            Job::Key { keys, stroke } => stroke_keys(desk, keys, *stroke),
            Job::Text(text) => desk.text(text),
            Job::Click { button, at } => click(desk, *button, *at),
        };
        done.map_err(|why| {
            // The connection may be lost, so the next job opens a new one.
            if matches!(why, InputError::Simulate(_)) {
                self.connection = None;
            }
            Unavailable(format!("{} refused: {why}", platform::RECEIVER))
        })
    }
}

fn stroke_keys(desk: &mut Enigo, keys: &Keystroke, stroke: Stroke) -> Result<(), InputError> {
    let last = keys.key.map(|name| {
        let missing = || InputError::InvalidInput("this system has no such key");
        key(name).ok_or_else(missing)
    });
    let all: Vec<Key> = keys.modifiers.iter().map(|it| modifier(*it)).chain(last.transpose()?).collect();
    match stroke {
        Stroke::Tap => press(desk, &all).and_then(|()| release(desk, &all)),
        Stroke::Down => press(desk, &all),
        Stroke::Up => release(desk, &all),
    }
}

fn press(desk: &mut Enigo, keys: &[Key]) -> Result<(), InputError> {
    for (at, key) in keys.iter().enumerate() {
        if let Err(why) = desk.key(*key, Direction::Press) {
            let down = keys.get(..at).unwrap_or_default();
            // The error of `release` is ignored: if a key cannot be released, the next stroke
            // reports an error too.
            let _ = release(desk, down);
            return Err(why);
        }
    }
    Ok(())
}

/// Releases every key in reverse order, even if some releases fail.
fn release(desk: &mut Enigo, keys: &[Key]) -> Result<(), InputError> {
    let errors: Vec<InputError> =
        keys.iter().rev().filter_map(|key| desk.key(*key, Direction::Release).err()).collect();
    errors.into_iter().next().map_or(Ok(()), Err)
}

fn click(desk: &mut Enigo, button: MouseButton, at: Option<(i32, i32)>) -> Result<(), InputError> {
    if let Some((x, y)) = at {
        desk.move_mouse(x, y, Coordinate::Abs)?;
    }
    let button = match button {
        MouseButton::Left => Button::Left,
        MouseButton::Right => Button::Right,
        MouseButton::Middle => Button::Middle,
    };
    desk.button(button, Direction::Click)
}

/// `cmd` is Super on Linux and the Windows key on Windows.
fn modifier(modifier: Modifier) -> Key {
    match modifier {
        Modifier::Cmd => Key::Meta,
        Modifier::Ctrl => Key::Control,
        Modifier::Alt => Key::Alt,
        Modifier::Shift => Key::Shift,
    }
}

/// `None` if this system has no such key.
fn key(name: KeyName) -> Option<Key> {
    #[rustfmt::skip]
    const FUNCTION: [Key; 20] = [
        Key::F1, Key::F2, Key::F3, Key::F4, Key::F5, Key::F6, Key::F7, Key::F8, Key::F9, Key::F10,
        Key::F11, Key::F12, Key::F13, Key::F14, Key::F15, Key::F16, Key::F17, Key::F18, Key::F19, Key::F20,
    ];
    Some(match name {
        KeyName::Char(c) => Key::Unicode(c),
        KeyName::Space => Key::Space,
        KeyName::Return => Key::Return,
        KeyName::Tab => Key::Tab,
        KeyName::Escape => Key::Escape,
        KeyName::Backspace => Key::Backspace,
        KeyName::Delete => Key::Delete,
        KeyName::Insert => platform::INSERT?,
        KeyName::Up => Key::UpArrow,
        KeyName::Down => Key::DownArrow,
        KeyName::Left => Key::LeftArrow,
        KeyName::Right => Key::RightArrow,
        KeyName::Home => Key::Home,
        KeyName::End => Key::End,
        KeyName::PageUp => Key::PageUp,
        KeyName::PageDown => Key::PageDown,
        // The configuration allows F1 to F20.
        KeyName::F(number) => FUNCTION.get(usize::from(number.saturating_sub(1))).copied().unwrap_or(Key::F1),
        KeyName::VolumeUp => Key::VolumeUp,
        KeyName::VolumeDown => Key::VolumeDown,
        KeyName::Mute => Key::VolumeMute,
        KeyName::PlayPause => Key::MediaPlayPause,
        KeyName::Stop => platform::MEDIA_STOP?,
        KeyName::Next => Key::MediaNextTrack,
        KeyName::Previous => Key::MediaPrevTrack,
        KeyName::PrintScreen => platform::PRINT_SCREEN?,
        KeyName::ScrollLock => platform::SCROLL_LOCK?,
        KeyName::Pause => platform::PAUSE?,
        KeyName::CapsLock => Key::CapsLock,
        KeyName::NumLock => platform::NUM_LOCK?,
    })
}
