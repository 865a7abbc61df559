//! The stdin and stdout of a proxy. Windows cannot pass them to the daemon, so the proxy copies the
//! bytes.

use super::listener::{Stream, Watched};
use std::convert::Infallible;
use std::io;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite};

pub type Input = Box<dyn AsyncRead + Unpin + Send>;
pub type Target = Box<dyn AsyncWrite + Unpin + Send>;

/// stdin or stdout of this process.
pub use std::os::windows::io::AsHandle as Standard;

/// A client's handles. Handles cannot be passed on Windows, so no value of this type exists.
#[derive(Debug)]
pub struct Ends(Infallible);

impl Ends {
    pub fn of(_: &impl Standard, _: &impl Standard) -> Option<Self> {
        None
    }

    pub fn drive(self) -> io::Result<(Input, Target, Watched)> {
        match self.0 {}
    }
}

/// Reads stdin with a blocking thread.
pub fn input(_: &impl Standard) -> Input {
    Box::new(tokio::io::stdin())
}

pub fn output(_: &impl Standard) -> Target {
    Box::new(tokio::io::stdout())
}

pub async fn send_with(_: &Stream, _: &[u8], ends: Ends) -> io::Result<()> {
    match ends.0 {}
}

/// The first bytes of a connection. They are empty if the peer has closed the connection.
pub async fn receive_first(stream: &mut Stream, most: usize) -> io::Result<(Vec<u8>, Option<Ends>)> {
    let mut bytes = vec![0; most];
    let count = stream.read(&mut bytes).await?;
    bytes.truncate(count);
    Ok((bytes, None))
}
