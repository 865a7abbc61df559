//! Reads and writes the frames of the two pipes. A frame is a length (four bytes, little-endian)
//! and that many bytes.
//!
//! Both ends close the connection when a frame is too long. Not here: the contents of frames.

use std::io;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Longest frame. This is longer than any allowed result, file or web page in base64.
pub const MAX_BYTES: usize = 8 * 1024 * 1024;

fn too_long(length: usize) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the message has {length} bytes; the limit is {MAX_BYTES}"))
}

fn encode(bytes: &[u8]) -> io::Result<Vec<u8>> {
    if bytes.len() > MAX_BYTES {
        return Err(too_long(bytes.len()));
    }
    Ok([&(bytes.len() as u32).to_le_bytes()[..], bytes].concat())
}

fn length(head: [u8; 4]) -> io::Result<usize> {
    let length = u32::from_le_bytes(head) as usize;
    if length > MAX_BYTES { Err(too_long(length)) } else { Ok(length) }
}

pub async fn write(to: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> io::Result<()> {
    to.write_all(&encode(bytes)?).await?;
    to.flush().await
}

pub async fn read(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Vec<u8>> {
    let mut head = [0; 4];
    from.read_exact(&mut head).await?;
    let mut bytes = vec![0; length(head)?];
    from.read_exact(&mut bytes).await?;
    Ok(bytes)
}

/// The blocking functions that the child uses.
pub mod blocking {
    use super::{encode, length};
    use std::io::{self, Read, Write};

    pub fn write(to: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
        to.write_all(&encode(bytes)?)
    }

    pub fn read(from: &mut impl Read) -> io::Result<Vec<u8>> {
        let mut head = [0; 4];
        from.read_exact(&mut head)?;
        let mut bytes = vec![0; length(head)?];
        from.read_exact(&mut bytes)?;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_written_is_read_and_the_ends_agree(messages in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..5)) {
            let mut pipe = Vec::new();
            for message in &messages {
                blocking::write(&mut pipe, message).unwrap();
            }
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let mut there = pipe.as_slice();
            let read: Vec<Vec<u8>> = messages.iter().map(|_| runtime.block_on(super::read(&mut there)).unwrap()).collect();
            prop_assert_eq!(&read, &messages);
            let mut back = Vec::new();
            for message in &messages {
                runtime.block_on(super::write(&mut back, message)).unwrap();
            }
            prop_assert_eq!(back, pipe);
        }
    }

    #[test]
    fn a_length_nobody_means_is_refused_before_memory_is_taken() {
        let fault = blocking::read(&mut [0xff, 0xff, 0xff, 0xff, 0].as_slice()).unwrap_err();
        assert_eq!(fault.kind(), io::ErrorKind::InvalidData);
        assert!(blocking::write(&mut Vec::new(), &vec![0; MAX_BYTES + 1]).is_err());
        assert_eq!(blocking::read(&mut [9, 0, 0, 0, 1].as_slice()).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
