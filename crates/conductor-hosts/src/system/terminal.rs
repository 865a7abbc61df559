//! The terminal of this process: its size, and input without echo.

use rustix::termios::{LocalModes, OptionalActions, QueueSelector, SpecialCodeIndex, Termios};
use rustix::termios::{tcflush, tcgetattr, tcgetwinsize, tcsetattr};
use std::io;
/// A stream that may be a terminal.
pub use std::os::fd::AsFd as Stream;

/// The rows and columns of a terminal, 0 if unknown. `None` if the stream is not a terminal.
pub fn size(terminal: impl Stream) -> Option<(usize, usize)> {
    let size = tcgetwinsize(terminal).ok()?;
    Some((size.ws_row.into(), size.ws_col.into()))
}

/// Discards input that was typed and not read yet.
pub fn discard_input() {
    let _ = tcflush(io::stdin(), QueueSelector::IFlush);
}

/// The terminal at stdin, with its echo turned off. Dropping this value restores the terminal.
pub struct Hidden {
    before: Termios,
}

impl Hidden {
    pub fn begin() -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut hidden = before.clone();
        hidden.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG);
        hidden.special_codes[SpecialCodeIndex::VMIN] = 1;
        hidden.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(io::stdin(), OptionalActions::Flush, &hidden)?;
        Ok(Hidden { before })
    }

    /// Reads the next byte; `None` at the end of the input. `Stdin` is not used, because its buffer
    /// would keep a copy of the secret.
    pub fn read_byte(&mut self) -> io::Result<Option<u8>> {
        let mut key = [0];
        let count = rustix::io::retry_on_intr(|| rustix::io::read(io::stdin(), &mut key))?;
        Ok((count > 0).then_some(key[0]))
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
    }
}
