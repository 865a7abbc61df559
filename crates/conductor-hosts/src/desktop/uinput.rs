//! Keys and mouse through a virtual input device of the Linux kernel. It works on X11, Wayland and
//! a text console, but needs write access to `/dev/uinput`.
//!
//! The kernel releases every key when the device is closed, also when the daemon is killed.
//!
//! Not here: text. A key code is a position on the keyboard, so characters are named by the US
//! layout, and a desktop with another layout types different characters.

use super::{Desktop, Job, Unavailable};
use conductor_core::action::{KeyName, Keystroke, Modifier, MouseButton};
use conductor_core::engine::Stroke;
use evdev::uinput::VirtualDevice;
use evdev::{AttributeSet, InputEvent, KeyCode, KeyEvent, RelativeAxisCode};
use std::io;
use std::path::PathBuf;

pub struct Uinput {
    path: PathBuf,
    device: Option<VirtualDevice>,
}

impl Uinput {
    pub fn at(path: PathBuf) -> Self {
        Uinput { path, device: None }
    }

    fn device(&mut self) -> Result<&mut VirtualDevice, Unavailable> {
        if self.device.is_none() {
            self.device = Some(create().map_err(|why| refused(&self.path, &why))?);
        }
        self.device.as_mut().ok_or_else(|| Unavailable("no virtual input device".to_owned()))
    }
}

fn refused(path: &std::path::Path, why: &io::Error) -> Unavailable {
    let path = path.display();
    let cure = if why.kind() == io::ErrorKind::PermissionDenied {
        "; install the udev rule of the package, then log in again"
    } else if why.kind() == io::ErrorKind::NotFound {
        "; load the kernel module uinput"
    } else {
        ""
    };
    Unavailable(format!("{path}: {why}{cure}"))
}

fn create() -> io::Result<VirtualDevice> {
    let mut keys = AttributeSet::<KeyCode>::new();
    for code in 1..=248 {
        keys.insert(KeyCode::new(code));
    }
    for button in [KeyCode::BTN_LEFT, KeyCode::BTN_RIGHT, KeyCode::BTN_MIDDLE] {
        keys.insert(button);
    }
    // A desktop treats a device with buttons as a mouse only if it also has axes.
    let axes: AttributeSet<RelativeAxisCode> = [RelativeAxisCode::REL_X, RelativeAxisCode::REL_Y].into_iter().collect();
    VirtualDevice::builder()?.name("Conductor").with_keys(&keys)?.with_relative_axes(&axes)?.build()
}

impl Desktop for Uinput {
    fn open(&mut self) -> Result<(), Unavailable> {
        self.device().map(|_| ())
    }

    fn carry_out(&mut self, job: &Job) -> Result<(), Unavailable> {
        let (press, release) = match job {
            Job::Key { keys, stroke } => {
                let codes = codes(keys)?;
                match stroke {
                    Stroke::Tap => (codes.clone(), codes),
                    Stroke::Down => (codes, Vec::new()),
                    Stroke::Up => (Vec::new(), codes),
                }
            }
            Job::Click { at: Some(_), .. } => {
                return Err(Unavailable(
                    "a virtual input device cannot move the pointer to a position; leave out x and y".to_owned(),
                ));
            }
            Job::Click { button, at: None } => {
                let button = match button {
                    MouseButton::Left => KeyCode::BTN_LEFT,
                    MouseButton::Right => KeyCode::BTN_RIGHT,
                    MouseButton::Middle => KeyCode::BTN_MIDDLE,
                };
                (vec![button], vec![button])
            }
            Job::Text(_) => {
                return Err(Unavailable("a virtual input device cannot type text: it sends only key codes".to_owned()));
            }
        };
        let path = self.path.clone();
        let device = self.device()?;
        let events = |codes: &[KeyCode], value: i32| -> Vec<InputEvent> {
            codes.iter().map(|code| *KeyEvent::new(*code, value)).collect()
        };
        let mut release = events(&release, 0);
        release.reverse();
        // Send two reports: a desktop may ignore a key that goes down and up within one report.
        let done = [events(&press, 1), release].iter().filter(|it| !it.is_empty()).try_for_each(|it| device.emit(it));
        done.map_err(|why| {
            // Closing the device releases every key. The next job creates a new device.
            self.device = None;
            refused(&path, &why)
        })
    }
}

/// The keys of a stroke in the order in which they are pressed.
fn codes(keys: &Keystroke) -> Result<Vec<KeyCode>, Unavailable> {
    let mut codes: Vec<KeyCode> = keys.modifiers.iter().map(|it| modifier(*it)).collect();
    if let Some(name) = keys.key {
        let (code, shifted) = key(name)?;
        if shifted && !codes.contains(&KeyCode::KEY_LEFTSHIFT) {
            codes.push(KeyCode::KEY_LEFTSHIFT);
        }
        codes.push(code);
    }
    Ok(codes)
}

fn modifier(modifier: Modifier) -> KeyCode {
    match modifier {
        Modifier::Cmd => KeyCode::KEY_LEFTMETA,
        Modifier::Ctrl => KeyCode::KEY_LEFTCTRL,
        Modifier::Alt => KeyCode::KEY_LEFTALT,
        Modifier::Shift => KeyCode::KEY_LEFTSHIFT,
    }
}

/// The rows of a US keyboard, without and with Shift. Within a row, the codes are consecutive.
const ROWS: [(&str, &str, KeyCode); 4] = [
    ("1234567890-=", "!@#$%^&*()_+", KeyCode::KEY_1),
    ("qwertyuiop[]", "QWERTYUIOP{}", KeyCode::KEY_Q),
    ("asdfghjkl;'`", "ASDFGHJKL:\"~", KeyCode::KEY_A),
    ("\\zxcvbnm,./", "|ZXCVBNM<>?", KeyCode::KEY_BACKSLASH),
];

/// The code of a key, and whether it needs Shift.
fn key(name: KeyName) -> Result<(KeyCode, bool), Unavailable> {
    let code = match name {
        KeyName::Char(' ') | KeyName::Space => KeyCode::KEY_SPACE,
        KeyName::Char(c) => {
            let found = ROWS.iter().find_map(|(plain, shifted, first)| {
                let at = |row: &str| row.chars().position(|it| it == c).and_then(|it| u16::try_from(it).ok());
                let of = |at: u16| KeyCode::new(first.code() + at);
                at(plain).map(|it| (of(it), false)).or_else(|| at(shifted).map(|it| (of(it), true)))
            });
            return found.ok_or_else(|| {
                Unavailable(format!("no key of the US layout is named {c:?}; use the action Text to type it"))
            });
        }
        KeyName::Return => KeyCode::KEY_ENTER,
        KeyName::Tab => KeyCode::KEY_TAB,
        KeyName::Escape => KeyCode::KEY_ESC,
        KeyName::Backspace => KeyCode::KEY_BACKSPACE,
        KeyName::Delete => KeyCode::KEY_DELETE,
        KeyName::Insert => KeyCode::KEY_INSERT,
        KeyName::Up => KeyCode::KEY_UP,
        KeyName::Down => KeyCode::KEY_DOWN,
        KeyName::Left => KeyCode::KEY_LEFT,
        KeyName::Right => KeyCode::KEY_RIGHT,
        KeyName::Home => KeyCode::KEY_HOME,
        KeyName::End => KeyCode::KEY_END,
        KeyName::PageUp => KeyCode::KEY_PAGEUP,
        KeyName::PageDown => KeyCode::KEY_PAGEDOWN,
        // F1 to F10, F11 and F12, and F13 to F20 are three ranges of codes.
        KeyName::F(number @ ..=10) => KeyCode::new(KeyCode::KEY_F1.code() + u16::from(number.max(1)) - 1),
        KeyName::F(number @ 11..=12) => KeyCode::new(KeyCode::KEY_F11.code() + u16::from(number) - 11),
        KeyName::F(number) => KeyCode::new(KeyCode::KEY_F13.code() + u16::from(number.min(24)) - 13),
        KeyName::VolumeUp => KeyCode::KEY_VOLUMEUP,
        KeyName::VolumeDown => KeyCode::KEY_VOLUMEDOWN,
        KeyName::Mute => KeyCode::KEY_MUTE,
        KeyName::PlayPause => KeyCode::KEY_PLAYPAUSE,
        KeyName::Stop => KeyCode::KEY_STOPCD,
        KeyName::Next => KeyCode::KEY_NEXTSONG,
        KeyName::Previous => KeyCode::KEY_PREVIOUSSONG,
        KeyName::PrintScreen => KeyCode::KEY_SYSRQ,
        KeyName::ScrollLock => KeyCode::KEY_SCROLLLOCK,
        KeyName::Pause => KeyCode::KEY_PAUSE,
        KeyName::CapsLock => KeyCode::KEY_CAPSLOCK,
        KeyName::NumLock => KeyCode::KEY_NUMLOCK,
    };
    Ok((code, false))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(c: char) -> (KeyCode, bool) {
        key(KeyName::Char(c)).unwrap()
    }

    #[test]
    fn every_row_of_the_layout_has_the_right_codes() {
        assert_eq!(of('1'), (KeyCode::KEY_1, false));
        assert_eq!(of('='), (KeyCode::KEY_EQUAL, false));
        assert_eq!(of('q'), (KeyCode::KEY_Q, false));
        assert_eq!(of(']'), (KeyCode::KEY_RIGHTBRACE, false));
        assert_eq!(of('a'), (KeyCode::KEY_A, false));
        assert_eq!(of('`'), (KeyCode::KEY_GRAVE, false));
        assert_eq!(of('\\'), (KeyCode::KEY_BACKSLASH, false));
        assert_eq!(of('z'), (KeyCode::KEY_Z, false));
        assert_eq!(of('/'), (KeyCode::KEY_SLASH, false));
        assert_eq!(of('?'), (KeyCode::KEY_SLASH, true));
        assert_eq!(of('M'), (KeyCode::KEY_M, true));
        assert_eq!(key(KeyName::F(12)).unwrap().0, KeyCode::KEY_F12);
        assert_eq!(key(KeyName::F(13)).unwrap().0, KeyCode::KEY_F13);
        assert_eq!(key(KeyName::F(10)).unwrap().0, KeyCode::KEY_F10);
    }

    #[test]
    fn a_character_of_another_layout_is_refused_with_the_cure() {
        let why = key(KeyName::Char('ü')).unwrap_err();
        assert!(why.0.contains("Text"), "{why}");
    }

    #[test]
    fn a_missing_device_file_is_named_with_the_cure() {
        let why = refused(std::path::Path::new("/dev/uinput"), &io::Error::from(io::ErrorKind::PermissionDenied));
        assert!(why.0.starts_with("/dev/uinput: ") && why.0.contains("udev rule"), "{why}");
    }
}
