//! Types text on a Wayland desktop through a virtual keyboard (`zwp_virtual_keyboard_v1`: sway,
//! Hyprland, niri).
//!
//! The keyboard has a keymap of its own, made for each text: one key for each different character.
//! The text therefore does not depend on the layout of the person's keyboard. The crate enigo
//! supports the same protocol, but types on every server that it finds. If an X server also runs,
//! it would type the text twice.

use super::{Desktop, Job, Unavailable};
use rustix::fs::{MemfdFlags, memfd_create};
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use wayland_client::globals::{GlobalListContents, registry_queue_init};
use wayland_client::protocol::wl_keyboard::KeymapFormat;
use wayland_client::protocol::wl_registry::{self, WlRegistry};
use wayland_client::protocol::wl_seat::{self, WlSeat};
use wayland_client::{Connection, Dispatch, EventQueue, Proxy, QueueHandle};
use wayland_protocols_misc::zwp_virtual_keyboard_v1::client::zwp_virtual_keyboard_manager_v1::{
    self, ZwpVirtualKeyboardManagerV1,
};
use wayland_protocols_misc::zwp_virtual_keyboard_v1::client::zwp_virtual_keyboard_v1::{self, ZwpVirtualKeyboardV1};

/// The first code of a keymap in X numbering, which is 8 above the kernel's.
const FIRST_CODE: u32 = 9;
/// Maximum number of different characters in one keymap; codes end at 255.
const KEYS: usize = 240;
const PRESSED: u32 = 1;
const RELEASED: u32 = 0;

pub struct VirtualKeyboard {
    socket: PathBuf,
    open: Option<Open>,
}

struct Open {
    queue: EventQueue<Events>,
    keyboard: ZwpVirtualKeyboardV1,
}

impl VirtualKeyboard {
    pub fn at(socket: PathBuf) -> Self {
        VirtualKeyboard { socket, open: None }
    }

    fn keyboard(&mut self) -> Result<&mut Open, Unavailable> {
        if self.open.is_none() {
            let stream = UnixStream::connect(&self.socket).map_err(gone)?;
            let connection = Connection::from_socket(stream).map_err(gone)?;
            let (globals, mut queue) = registry_queue_init::<Events>(&connection).map_err(gone)?;
            let handle = queue.handle();
            let seat: WlSeat = globals.bind(&handle, 1..=1, ()).map_err(gone)?;
            let keyboards: ZwpVirtualKeyboardManagerV1 =
                globals.bind(&handle, 1..=1, ()).map_err(|_| gone("the compositor offers no virtual keyboard"))?;
            let keyboard = keyboards.create_virtual_keyboard(&seat, &handle, ());
            queue.roundtrip(&mut Events).map_err(gone)?;
            self.open = Some(Open { queue, keyboard });
        }
        self.open.as_mut().ok_or_else(|| gone("no connection"))
    }
}

impl Desktop for VirtualKeyboard {
    fn open(&mut self) -> Result<(), Unavailable> {
        self.keyboard().map(|_| ())
    }

    fn carry_out(&mut self, job: &Job) -> Result<(), Unavailable> {
        let Job::Text(text) = job else {
            return Err(Unavailable("the virtual keyboard is used for text only".to_owned()));
        };
        let pages = pages(text)?;
        let done = self.keyboard()?.type_pages(&pages);
        if done.is_err() {
            // The next job connects again.
            self.open = None;
        }
        done
    }
}

impl Open {
    fn type_pages(&mut self, pages: &[Page]) -> Result<(), Unavailable> {
        for page in pages {
            let keymap = page.keymap();
            let size = u32::try_from(keymap.len()).map_err(gone)?;
            let mut file = File::from(memfd_create("conductor-keymap", MemfdFlags::CLOEXEC).map_err(gone)?);
            file.write_all(keymap.as_bytes()).map_err(gone)?;
            self.keyboard.keymap(KeymapFormat::XkbV1.into(), file.as_fd(), size);
            // Programs must have the keymap before the first key.
            self.queue.roundtrip(&mut Events).map_err(gone)?;
            for &key in &page.keys {
                let code = FIRST_CODE + key - 8;
                self.keyboard.key(0, code, PRESSED);
                self.keyboard.key(0, code, RELEASED);
            }
            self.queue.roundtrip(&mut Events).map_err(gone)?;
        }
        Ok(())
    }
}

/// A part of a text whose different characters fit into one keymap.
#[derive(Debug, Default, PartialEq)]
struct Page {
    characters: Vec<char>,
    /// Indexes into `characters`, in the order of the text.
    keys: Vec<u32>,
}

fn pages(text: &str) -> Result<Vec<Page>, Unavailable> {
    let mut pages: Vec<Page> = Vec::new();
    let mut page = Page::default();
    for c in text.chars() {
        if c.is_control() && !matches!(c, '\n' | '\t') {
            return Err(Unavailable(format!("the character {c:?} cannot be typed; use the action Keystroke")));
        }
        let known = page.characters.iter().position(|it| *it == c);
        if known.is_none() && page.characters.len() == KEYS {
            pages.push(std::mem::take(&mut page));
        }
        let at = page.characters.iter().position(|it| *it == c).unwrap_or_else(|| {
            page.characters.push(c);
            page.characters.len() - 1
        });
        page.keys.push(u32::try_from(at).map_err(gone)?);
    }
    pages.push(page);
    Ok(pages)
}

impl Page {
    /// The keymap in the text format of XKB, with the final NUL that the protocol requires.
    fn keymap(&self) -> String {
        let mut codes = String::new();
        let mut symbols = String::new();
        for (at, c) in self.characters.iter().enumerate() {
            // Writing to a string cannot fail.
            let _ = writeln!(codes, "<K{at}> = {};", FIRST_CODE as usize + at);
            let symbol = match c {
                '\n' => "Return".to_owned(),
                '\t' => "Tab".to_owned(),
                other => format!("U{:04X}", u32::from(*other)),
            };
            let _ = writeln!(symbols, "key <K{at}> {{[ {symbol} ]}};");
        }
        format!(
            "xkb_keymap {{\nxkb_keycodes \"conductor\" {{\nminimum = 8;\nmaximum = 255;\n{codes}}};\n\
             xkb_types \"conductor\" {{ include \"complete\" }};\n\
             xkb_compatibility \"conductor\" {{ include \"complete\" }};\n\
             xkb_symbols \"conductor\" {{\n{symbols}}};\n}};\n\0"
        )
    }
}

/// Ignores all events from the compositor.
struct Events;

impl Dispatch<WlRegistry, GlobalListContents> for Events {
    fn event(
        _: &mut Self,
        _: &WlRegistry,
        _: wl_registry::Event,
        _: &GlobalListContents,
        _: &Connection,
        _: &QueueHandle<Self>,
    ) {
    }
}

macro_rules! ignore_events {
    ($($proxy:ty, $module:ident;)+) => {$(
        impl Dispatch<$proxy, ()> for Events {
            fn event(_: &mut Self, _: &$proxy, _: $module::Event, _: &(), _: &Connection, _: &QueueHandle<Self>) {}
        }
    )+};
}

ignore_events! {
    WlSeat, wl_seat;
    ZwpVirtualKeyboardManagerV1, zwp_virtual_keyboard_manager_v1;
    ZwpVirtualKeyboardV1, zwp_virtual_keyboard_v1;
}

impl Drop for Open {
    fn drop(&mut self) {
        if self.keyboard.is_alive() {
            self.keyboard.destroy();
        }
    }
}

fn gone(why: impl std::fmt::Display) -> Unavailable {
    Unavailable(format!("no virtual keyboard on Wayland: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_different_character_is_one_key() {
        let pages = pages("Tütü\n").unwrap();
        assert_eq!(pages, [Page { characters: vec!['T', 'ü', 't', '\n'], keys: vec![0, 1, 2, 1, 3] }]);
        let keymap = pages[0].keymap();
        assert!(keymap.contains("<K1> = 10;") && keymap.contains("key <K1> {[ U00FC ]};"), "{keymap}");
        assert!(keymap.contains("key <K3> {[ Return ]};") && keymap.ends_with('\0'), "{keymap}");
    }

    #[test]
    fn a_text_with_many_characters_uses_several_keymaps() {
        let text: String = (0..500).filter_map(|it| char::from_u32(0x4e00 + it)).collect();
        let pages = pages(&text).unwrap();
        assert_eq!(pages.iter().map(|it| it.characters.len()).collect::<Vec<_>>(), [240, 240, 20]);
        let typed: String =
            pages.iter().flat_map(|page| page.keys.iter().map(|it| page.characters[*it as usize])).collect();
        assert_eq!(typed, text);
    }

    #[test]
    fn a_control_character_is_refused_before_anything_is_typed() {
        assert!(pages("ok\u{1b}[2J").is_err());
    }
}
