//! MIDI bytes: the messages do not depend on how the bytes are split into chunks, encoding and
//! decoding a message returns the same message, and `wmidi` accepts the encoded bytes.

use crate::{SEEDED, split};
use conductor_core::event::Body;
use conductor_core::event::midi::{Decoder, Heard, encode};

fn decode(chunks: &[&[u8]]) -> Vec<Body> {
    let mut decoder = Decoder::new(vec![0; 64].into_boxed_slice());
    let mut bodies = Vec::new();
    for chunk in chunks {
        decoder.decode(chunk, |heard| {
            bodies.push(match heard {
                Heard::Message(body) => body,
                Heard::SysEx(bytes) => Body::SysEx(bytes.into()),
            });
        });
        // The seeded mistake: if a chunk ends inside a control change, the control change is lost.
        if SEEDED && matches!(chunk, [.., 0xB0..=0xBF, 0..=0x7F]) {
            decoder.reset();
        }
    }
    bodies
}

pub fn check(data: &[u8]) {
    let (first, second) = split(data);
    let bodies = decode(&[&[first, second].concat()]);
    assert_eq!(bodies, decode(&[first, second]), "the messages depend on the chunks");
    let mut bytes = Vec::new();
    for body in &bodies {
        let start = bytes.len();
        encode(body, &mut bytes).expect("a decoded message cannot be encoded");
        if !matches!(body, Body::SysEx(_)) {
            let message = wmidi::MidiMessage::try_from(&bytes[start..]).expect("wmidi refuses the message");
            assert_eq!(message.to_vec(), &bytes[start..]);
        }
    }
    assert_eq!(bodies, decode(&[&bytes]), "encoding and decoding changed a message");
}
