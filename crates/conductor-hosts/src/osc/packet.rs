//! Reads and writes OSC packets.
//!
//! Bundles are unpacked here, without recursion, and only single messages are passed to the decoder
//! of the library. That decoder is recursive, so one packet of nested bundles or arrays could
//! overflow the stack.
//!
//! Not here: sockets.

use conductor_core::event::{OscArg, OscMessage};
use rosc::{OscPacket, OscType};
use std::sync::atomic::{AtomicU64, Ordering};

/// Maximum nesting of bundles.
const DEPTH_MAX: usize = 8;
/// The largest UDP payload, in bytes.
pub const PACKET_MAX: usize = 65_507;

/// The message is longer than the largest packet. Contains its length in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong(pub usize);

/// How many messages a listener received and refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received<T = u64> {
    pub messages: T,
    /// Packets, and messages in a bundle, that are not OSC; packets whose bundles are nested too
    /// deeply.
    pub malformed: T,
    /// Messages with an argument that triggers cannot test, such as blobs, arrays and times.
    pub unsupported: T,
}

/// Reads a packet and passes its messages to `deliver`, in the order of the bundle.
pub fn receive(packet: &[u8], counters: &Received<AtomicU64>, mut deliver: impl FnMut(OscMessage)) {
    if packet.is_empty() {
        return;
    }
    let add = |counter: &AtomicU64| _ = counter.fetch_add(1, Ordering::Relaxed);
    let Some(messages) = messages(packet) else { return add(&counters.malformed) };
    for bytes in messages {
        match read_message(bytes) {
            Ok(message) => {
                add(&counters.messages);
                deliver(message);
            }
            Err(Refusal::Malformed) => add(&counters.malformed),
            Err(Refusal::Unsupported) => add(&counters.unsupported),
        }
    }
}

/// The single messages of a packet, in order. Returns `None` when a bundle is malformed or nested
/// too deeply.
fn messages(packet: &[u8]) -> Option<Vec<&[u8]>> {
    const BUNDLE: &[u8] = b"#bundle\0";
    let mut out = Vec::new();
    // Elements that are not unpacked yet. The last one is next.
    let mut open: Vec<(&[u8], usize)> = vec![(packet, 0)];
    while let Some((element, depth)) = open.pop() {
        let Some(body) = element.strip_prefix(BUNDLE) else {
            out.push(element);
            continue;
        };
        if depth == DEPTH_MAX {
            return None;
        }
        // The time tag is eight bytes.
        let mut rest = body.get(8..)?;
        let mut elements = Vec::new();
        while !rest.is_empty() {
            let (len, after) = rest.split_first_chunk::<4>()?;
            // The library pads from the start of the packet, so it reads other bytes than we do if
            // the length of an element is not a multiple of four. OSC does not allow such a length.
            let len = usize::try_from(u32::from_be_bytes(*len)).ok().filter(|it| it.is_multiple_of(4))?;
            elements.push((after.get(..len)?, depth + 1));
            rest = after.get(len..)?;
        }
        open.extend(elements.into_iter().rev());
    }
    Some(out)
}

enum Refusal {
    Malformed,
    Unsupported,
}

fn read_message(bytes: &[u8]) -> Result<OscMessage, Refusal> {
    // The address and the type tags each end with a zero and are padded to four bytes.
    let address_len = bytes.iter().position(|byte| *byte == 0).ok_or(Refusal::Malformed)?;
    if bytes.first() != Some(&b'/') {
        return Err(Refusal::Malformed);
    }
    let tags = bytes.get(address_len / 4 * 4 + 4..).unwrap_or_default();
    if tags.iter().take_while(|byte| **byte != 0).any(|byte| *byte == b'[') {
        return Err(Refusal::Unsupported);
    }
    if tags.is_empty() {
        // Some old senders omit the type tags when there are no arguments.
        let address = std::str::from_utf8(bytes.get(..address_len).unwrap_or_default());
        let address = address.map_err(|_| Refusal::Malformed)?;
        return Ok(OscMessage { address: address.into(), args: Vec::new() });
    }
    let Ok((_, OscPacket::Message(message))) = rosc::decoder::decode_udp(bytes) else { return Err(Refusal::Malformed) };
    let args: Option<Vec<OscArg>> = message.args.into_iter().map(read_arg).collect();
    Ok(OscMessage { address: message.addr, args: args.ok_or(Refusal::Unsupported)? })
}

fn read_arg(arg: OscType) -> Option<OscArg> {
    Some(match arg {
        OscType::Int(value) => OscArg::Int(value),
        OscType::Float(value) => OscArg::Float(value),
        OscType::String(text) => OscArg::Text(text),
        OscType::Bool(value) => OscArg::Bool(value),
        OscType::Double(value) => OscArg::Float(value as f32),
        OscType::Long(value) => i32::try_from(value).map_or(OscArg::Float(value as f32), OscArg::Int),
        // A text ends at a NUL, so the character NUL becomes an empty text.
        OscType::Char('\0') => OscArg::Text(String::new()),
        OscType::Char(c) => OscArg::Text(c.into()),
        OscType::Blob(_)
        | OscType::Time(_)
        | OscType::Color(_)
        | OscType::Midi(_)
        | OscType::Array(_)
        | OscType::Nil
        | OscType::Inf => return None,
    })
}

/// Encodes one message as a packet.
pub fn encode(message: &OscMessage) -> Result<Vec<u8>, TooLong> {
    let args = message.args.iter().map(|arg| match arg {
        OscArg::Int(value) => OscType::Int(*value),
        OscArg::Float(value) => OscType::Float(*value),
        OscArg::Text(text) => OscType::String(text.replace('\0', "")),
        OscArg::Bool(value) => OscType::Bool(*value),
    });
    let message = rosc::OscMessage { addr: message.address.replace('\0', ""), args: args.collect() };
    // Encoding these four types into memory cannot fail. If it did, the packet would be empty, and
    // receivers ignore an empty packet.
    let bytes = rosc::encoder::encode(&OscPacket::Message(message)).unwrap_or_default();
    if bytes.len() > PACKET_MAX { Err(TooLong(bytes.len())) } else { Ok(bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bundle_with_an_element_of_odd_length_is_malformed() {
        let bundle = |element: &[u8]| {
            let mut packet = b"#bundle\0\0\0\0\0\0\0\0\x01".to_vec();
            packet.extend(u32::try_from(element.len()).unwrap().to_be_bytes());
            packet.extend(element);
            packet
        };
        for (element, delivered) in [(b"/a\0\0,T\0\0".as_slice(), 1), (b"/a\0\0,T\0\0\0", 0), (b"/a\0", 0)] {
            let counters = Received::default();
            let mut messages = Vec::new();
            receive(&bundle(element), &counters, |it| messages.push(it));
            assert_eq!(messages.len(), delivered, "{element:?}");
            assert_eq!(counters.malformed.load(Ordering::Relaxed), 1 - delivered as u64, "{element:?}");
        }
    }

    #[test]
    fn a_character_is_written_back_as_it_was_read() {
        for character in ['\0', 'a'] {
            let args = vec![OscType::Char(character)];
            let message = rosc::OscMessage { addr: "/a".to_owned(), args };
            let read = read_message(&rosc::encoder::encode(&OscPacket::Message(message)).unwrap());
            let Ok(read) = read else { panic!("{character:?} is not read") };
            let written = encode(&read).unwrap_or_else(|_| panic!("{character:?} is too long"));
            let Ok(again) = read_message(&written) else { panic!("{character:?} is not read again") };
            assert_eq!(again, read);
        }
    }
}
