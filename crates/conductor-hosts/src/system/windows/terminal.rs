//! The console of this process: its size, and input without echo.

use std::io;
use std::os::windows::io::AsRawHandle as _;
use std::ptr::null;
use windows_sys::Win32::Foundation::HANDLE;
use windows_sys::Win32::System::Console::{
    CONSOLE_MODE, CONSOLE_SCREEN_BUFFER_INFO, ENABLE_ECHO_INPUT, ENABLE_LINE_INPUT, ENABLE_PROCESSED_INPUT,
    FlushConsoleInputBuffer, GetConsoleMode, GetConsoleScreenBufferInfo, ReadConsoleW, SetConsoleMode,
};

/// A stream that may be a console.
pub use std::os::windows::io::AsHandle as Stream;

/// The rows and columns of a console window, 0 if unknown. `None` if the stream is not a console.
pub fn size(terminal: impl Stream) -> Option<(usize, usize)> {
    let mut found = CONSOLE_SCREEN_BUFFER_INFO::default();
    // SAFETY: the handle is open, and the structure is written on success.
    let done = unsafe { GetConsoleScreenBufferInfo(terminal.as_handle().as_raw_handle(), &raw mut found) };
    let between = |from: i16, to: i16| usize::try_from(i32::from(to) - i32::from(from) + 1).unwrap_or(0);
    let window = found.srWindow;
    (done != 0).then(|| (between(window.Top, window.Bottom), between(window.Left, window.Right)))
}

/// Discards input that was typed and not read yet.
pub fn discard_input() {
    // SAFETY: the handle of stdin is open. The call fails if it is not a console.
    unsafe { FlushConsoleInputBuffer(io::stdin().as_raw_handle()) };
}

/// The console at stdin, with its echo turned off. Dropping this value restores the console.
pub struct Hidden {
    console: HANDLE,
    before: CONSOLE_MODE,
    /// Bytes of a character that was read and not returned yet, last byte first.
    left: Vec<u8>,
}

impl Hidden {
    pub fn begin() -> io::Result<Self> {
        let console = io::stdin().as_raw_handle();
        let mut before = 0;
        // SAFETY: the handle of stdin is open, and the mode is written on success.
        unsafe {
            if GetConsoleMode(console, &raw mut before) == 0 {
                return Err(io::Error::last_os_error());
            }
            let hidden = before & !(ENABLE_ECHO_INPUT | ENABLE_LINE_INPUT | ENABLE_PROCESSED_INPUT);
            if SetConsoleMode(console, hidden) == 0 {
                return Err(io::Error::last_os_error());
            }
        }
        discard_input();
        Ok(Hidden { console, before, left: Vec::new() })
    }

    /// The next byte of the typed text in UTF-8; `None` at the end of the input.
    pub fn read_byte(&mut self) -> io::Result<Option<u8>> {
        if let Some(byte) = self.left.pop() {
            return Ok(Some(byte));
        }
        let mut units = [0; 2];
        let mut length = self.read_unit(&mut units[..1])?;
        if length == 1 && (0xD800..0xDC00).contains(&units[0]) {
            length += self.read_unit(&mut units[1..])?;
        }
        let text = String::from_utf16_lossy(units.get(..length).unwrap_or_default());
        self.left.extend(text.bytes().rev());
        Ok(self.left.pop())
    }

    fn read_unit(&self, into: &mut [u16]) -> io::Result<usize> {
        let mut count = 0;
        // SAFETY: the buffer has space for the one character that is requested.
        let done = unsafe { ReadConsoleW(self.console, into.as_mut_ptr().cast(), 1, &raw mut count, null()) };
        if done == 0 { Err(io::Error::last_os_error()) } else { Ok(count as usize) }
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        // SAFETY: the handle of stdin stays open until the process ends.
        unsafe { SetConsoleMode(self.console, self.before) };
    }
}
