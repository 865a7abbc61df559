//! The contract test for MIDI backends: the in-process backend and the real backends. Each test
//! binary connects the two ends in its own way.

use crate::real::wait_for;
use conductor_core::event::midi::{Decoder, Heard};
use conductor_core::event::{Body, Taint};
use conductor_hosts::midi::ring::EventReceiver;
use conductor_hosts::midi::{Backend, Input, Malformed, Output, PortError, SendError};
use std::time::Duration;

/// The two ends of one connection through a backend.
pub struct Cable {
    pub output: Box<dyn Output>,
    pub input: Box<dyn Input>,
    pub lane: EventReceiver,
    pub patience: Duration,
}

impl Cable {
    fn send(&mut self, message: &[u8]) {
        let sent = wait_for(self.patience, || match self.output.send(message, Taint::Clean.into()) {
            Ok(()) => Some(()),
            Err(SendError::Busy) => None,
            Err(other) => panic!("{message:02x?}: {other}"),
        });
        assert!(sent.is_some(), "the queue stayed full");
    }

    fn hear(&mut self, count: usize) -> Vec<Body> {
        let mut out = Vec::new();
        wait_for(self.patience, || {
            out.extend(std::iter::from_fn(|| self.lane.pop()).map(|event| event.body));
            (out.len() >= count).then_some(())
        });
        out
    }
}

fn decoded(messages: &[Vec<u8>]) -> Vec<Body> {
    let mut decoder = Decoder::default();
    let mut out = Vec::new();
    for message in messages {
        decoder.decode(message, |heard| {
            out.push(match heard {
                Heard::Message(body) => body,
                Heard::SysEx(data) => Body::SysEx(data.into()),
            });
        });
    }
    out
}

/// Sets the velocity of a note-off to 0, because a backend may change this velocity.
fn plain(body: Body) -> Body {
    if let Body::NoteOff { channel, note, .. } = body { Body::NoteOff { channel, note, velocity: 0 } } else { body }
}

pub fn keeps_the_contract(backend: &mut dyn Backend, mut cable: Cable) {
    let sysex = |len: usize, seed: usize| {
        let body: Vec<u8> = (0..len).map(|i| ((i * 31 + seed) % 128) as u8).collect();
        [&[0xF0][..], &body, &[0xF7]].concat()
    };

    // Every kind of message arrives complete and in order.
    let mut messages: Vec<Vec<u8>> = Vec::new();
    for channel in 0..16 {
        messages.extend([
            vec![0x90 | channel, 60, 1 + channel],
            vec![0xA0 | channel, 60, 3],
            vec![0xB0 | channel, 7, channel],
            vec![0xC0 | channel, 5],
            vec![0xD0 | channel, 9],
            vec![0xE0 | channel, channel, 64],
            vec![0x80 | channel, 60, 64],
        ]);
    }
    messages.extend([
        vec![0xF8],
        vec![0xFA],
        vec![0xFB],
        vec![0xFC],
        vec![0xF1, 3],
        vec![0xF2, 1, 2],
        vec![0xF3, 4],
        vec![0xF6],
    ]);
    messages.extend([sysex(1, 0), sysex(255, 1), sysex(256, 2), sysex(257, 3), sysex(8192, 4)]);
    messages.extend((0..300).map(|i| vec![0xB0, (i % 64) as u8, (i / 64) as u8]));
    for message in &messages {
        cable.send(message);
    }
    let wanted: Vec<Body> = decoded(&messages).into_iter().map(plain).collect();
    let got: Vec<Body> = cable.hear(wanted.len()).into_iter().map(plain).collect();
    let wrong = got.iter().zip(&wanted).position(|(got, wanted)| got != wanted);
    assert!(
        got == wanted,
        "received {} of {} messages; first difference at {wrong:?}: {:?}",
        got.len(),
        wanted.len(),
        wrong.map(|i| &got[i])
    );

    // A refused message sends nothing, and the next message arrives unchanged.
    for bad in [vec![], vec![60, 1], vec![0x90, 60], vec![0x90, 60, 200], vec![0xF4], vec![0xF0, 1, 2], sysex(8193, 0)]
    {
        let refused = cable.output.send(&bad, Taint::Clean.into());
        assert!(matches!(refused, Err(SendError::Malformed(_))), "{} bytes: {refused:?}", bad.len());
    }
    let long = cable.output.send(&sysex(65_536, 0), Taint::Clean.into());
    assert_eq!(long, Err(SendError::Malformed(Malformed::SysExTooLong { len: 65_536 })));
    cable.send(&[0xB0, 1, 2]);
    assert_eq!(cable.hear(1), [Body::Cc { channel: 0, controller: 1, value: 2 }]);

    // The error for a missing port contains its id.
    let missing = backend.open_output("no such port").err();
    assert_eq!(missing, Some(PortError::Gone { id: "no such port".into() }));
    let Cable { output, input, lane, patience } = cable;
    assert!(input.is_open() && output.is_open());
    drop((input, output));
    let ended = wait_for(patience, || {
        // A backend releases closed ports when it lists its ports.
        let _ = backend.ports();
        lane.is_abandoned().then_some(())
    });
    assert!(ended.is_some(), "a closed input did not release its event ring");
}
