use super::*;
use proptest::prelude::*;
use std::sync::Arc;

fn all(decoder: &mut Decoder, bytes: &[u8]) -> Vec<Body> {
    let mut out = Vec::new();
    decoder.decode(bytes, |heard| {
        out.push(match heard {
            Heard::Message(body) => body,
            Heard::SysEx(data) => Body::SysEx(data.into()),
        });
    });
    out
}

fn fresh(bytes: &[u8]) -> (Vec<Body>, Swallowed) {
    let mut decoder = Decoder::default();
    let bodies = all(&mut decoder, bytes);
    (bodies, decoder.swallowed())
}

fn on(note: u8, velocity: u8) -> Body {
    Body::NoteOn { channel: 0, note, velocity }
}

fn off(note: u8, velocity: u8) -> Body {
    Body::NoteOff { channel: 0, note, velocity }
}

#[test]
fn running_status_carries_over_packets_and_real_time_bytes() {
    let mut decoder = Decoder::default();
    assert_eq!(all(&mut decoder, &[0x90, 36, 0xF8, 100, 37]), vec![Body::RealTime(RealTime::Clock), on(36, 100)]);
    assert_eq!(all(&mut decoder, &[0xFE, 101, 38, 0]), vec![on(37, 101), off(38, 0)]);
    assert_eq!(decoder.swallowed(), Swallowed { active_sensing: 1, ..Swallowed::default() });
}

#[test]
fn a_note_on_without_velocity_is_a_note_off() {
    assert_eq!(fresh(&[0x90, 36, 0]).0, vec![off(36, 0)]);
    assert_eq!(fresh(&[0x80, 36, 64]).0, vec![off(36, 64)]);
}

#[test]
fn real_time_bytes_inside_sysex_come_out_first_and_leave_it_whole() {
    let (bodies, swallowed) = fresh(&[0xF0, 0x7E, 0xF8, 0x7F, 0xFE, 6, 1, 0xF7]);
    assert_eq!(bodies, vec![Body::RealTime(RealTime::Clock), Body::SysEx(Arc::from([0x7E, 0x7F, 6, 1]))]);
    assert_eq!(swallowed.active_sensing, 1);
}

#[test]
fn sysex_ends_running_status() {
    let (bodies, swallowed) = fresh(&[0x90, 36, 100, 0xF0, 1, 0xF7, 37, 100]);
    assert_eq!(bodies, vec![on(36, 100), Body::SysEx(Arc::from([1]))]);
    assert_eq!(swallowed.stray, 2);
}

#[test]
fn a_sysex_without_its_end_is_dropped_and_the_next_message_is_not() {
    let (bodies, swallowed) = fresh(&[0xF0, 1, 2, 0x90, 36, 100]);
    assert_eq!(bodies, vec![on(36, 100)]);
    assert_eq!(swallowed.sysex_broken, 1);
}

#[test]
fn sysex_is_whole_at_the_limit_and_dropped_above_it() {
    for (len, whole) in [(SYSEX_MAX, true), (SYSEX_MAX + 1, false)] {
        let mut bytes = vec![0xF0];
        bytes.extend((0..len).map(|i| (i % 128) as u8));
        bytes.push(0xF7);
        bytes.extend([0x90, 36, 100]);
        let mut decoder = Decoder::default();
        let bodies: Vec<Body> = bytes.chunks(1000).flat_map(|packet| all(&mut decoder, packet)).collect();
        assert_eq!(bodies.last(), Some(&on(36, 100)));
        assert_eq!(bodies.len(), if whole { 2 } else { 1 });
        assert_eq!(decoder.swallowed().sysex_too_long, u64::from(!whole));
        if let Some(Body::SysEx(data)) = bodies.first() {
            assert_eq!(data[..], bytes[1..=len]);
        }
    }
}

#[test]
fn common_messages_are_complete_and_clear_running_status() {
    let (bodies, swallowed) = fresh(&[0x90, 1, 1, 0xF2, 3, 4, 0xF1, 5, 0xF3, 6, 0xF6, 9, 9]);
    let common = |status, data| Body::Common { status, data };
    assert_eq!(
        bodies,
        vec![on(1, 1), common(0xF2, [3, 4]), common(0xF1, [5, 0]), common(0xF3, [6, 0]), common(0xF6, [0, 0])]
    );
    assert_eq!(swallowed.stray, 2);
}

#[test]
fn undefined_bytes_and_resets_are_counted() {
    let (bodies, swallowed) = fresh(&[0xF4, 0xF5, 0xF9, 0xFD, 0xFF, 0xF7, 0x90, 36, 0x91, 36, 1]);
    assert_eq!(bodies, vec![Body::NoteOn { channel: 1, note: 36, velocity: 1 }]);
    assert_eq!(swallowed, Swallowed { undefined: 4, reset: 1, stray: 2, ..Swallowed::default() });
}

#[test]
fn numbers_out_of_range_are_refused_rather_than_cut() {
    let mut out = vec![1];
    for (body, field) in [
        (on(36, 0), "velocity"),
        (on(128, 1), "note"),
        (Body::Cc { channel: 16, controller: 0, value: 0 }, "channel"),
        (Body::PitchBend { channel: 0, value: 16384 }, "pitch bend"),
        (Body::SysEx(Arc::from([0x80])), "SysEx byte"),
        (Body::Common { status: 0xF4, data: [0, 0] }, "status"),
    ] {
        assert_eq!(encode(&body, &mut out), Err(NoBytes::OutOfRange(field)));
    }
    assert_eq!(encode(&Body::ButtonDown(crate::event::Button::South), &mut out), Err(NoBytes::NotMidi));
    assert_eq!(out, vec![1]);
}

fn any_midi() -> impl Strategy<Value = Body> {
    let (ch, n) = (0u8..16, 0u8..128);
    prop_oneof![
        (ch.clone(), n.clone(), 1u8..128).prop_map(|(channel, note, velocity)| Body::NoteOn {
            channel,
            note,
            velocity
        }),
        (ch.clone(), n.clone(), n.clone()).prop_map(|(channel, note, velocity)| Body::NoteOff {
            channel,
            note,
            velocity
        }),
        (ch.clone(), n.clone(), n.clone()).prop_map(|(channel, note, pressure)| Body::PolyPressure {
            channel,
            note,
            pressure
        }),
        (ch.clone(), n.clone(), n.clone()).prop_map(|(channel, controller, value)| Body::Cc {
            channel,
            controller,
            value
        }),
        (ch.clone(), n.clone()).prop_map(|(channel, program)| Body::Program { channel, program }),
        (ch.clone(), n.clone()).prop_map(|(channel, pressure)| Body::ChannelPressure { channel, pressure }),
        (ch, 0u16..16384).prop_map(|(channel, value)| Body::PitchBend { channel, value }),
        prop::collection::vec(n.clone(), 0..40).prop_map(|data| Body::SysEx(data.into())),
        prop::sample::select(vec![RealTime::Clock, RealTime::Start, RealTime::Continue, RealTime::Stop])
            .prop_map(Body::RealTime),
        (n.clone(), n.clone()).prop_map(|(a, b)| Body::Common { status: 0xF2, data: [a, b] }),
        n.prop_map(|a| Body::Common { status: 0xF3, data: [a, 0] }),
        Just(Body::Common { status: 0xF6, data: [0, 0] }),
    ]
}

/// The message that the independent decoder finds, as our event body.
#[expect(clippy::wildcard_enum_match_arm, reason = "an enum of another crate; the other messages have no event body")]
fn oracle(bytes: &[u8]) -> Option<Body> {
    use wmidi::MidiMessage as M;
    let seven = |value: wmidi::U7| u8::from(value);
    Some(match M::try_from(bytes).ok()? {
        M::NoteOn(ch, note, velocity) if seven(velocity) == 0 => {
            Body::NoteOff { channel: ch.index(), note: note.into(), velocity: 0 }
        }
        M::NoteOn(ch, note, v) => Body::NoteOn { channel: ch.index(), note: note.into(), velocity: seven(v) },
        M::NoteOff(ch, note, v) => Body::NoteOff { channel: ch.index(), note: note.into(), velocity: seven(v) },
        M::PolyphonicKeyPressure(ch, note, v) => {
            Body::PolyPressure { channel: ch.index(), note: note.into(), pressure: seven(v) }
        }
        M::ControlChange(ch, c, v) => Body::Cc { channel: ch.index(), controller: u8::from(c), value: seven(v) },
        M::ProgramChange(ch, p) => Body::Program { channel: ch.index(), program: seven(p) },
        M::ChannelPressure(ch, p) => Body::ChannelPressure { channel: ch.index(), pressure: seven(p) },
        M::PitchBendChange(ch, bend) => Body::PitchBend { channel: ch.index(), value: u16::from(bend) },
        M::SysEx(data) => Body::SysEx(data.iter().map(|byte| seven(*byte)).collect()),
        M::TimingClock => Body::RealTime(RealTime::Clock),
        M::Start => Body::RealTime(RealTime::Start),
        M::Continue => Body::RealTime(RealTime::Continue),
        M::Stop => Body::RealTime(RealTime::Stop),
        M::SongPositionPointer(value) => {
            let value = u16::from(value);
            Body::Common { status: 0xF2, data: [(value & 0x7F) as u8, (value >> 7) as u8] }
        }
        M::SongSelect(value) => Body::Common { status: 0xF3, data: [seven(value), 0] },
        M::TuneRequest => Body::Common { status: 0xF6, data: [0, 0] },
        _ => return None,
    })
}

#[test]
fn every_channel_message_reads_as_the_independent_decoder_reads_it() {
    for status in 0x80..=0xEFu8 {
        for (first, second) in (0..128u8).flat_map(|a| [0, 1, 63, 64, 127].map(|b| (a, b))) {
            let len = if matches!(status & 0xF0, 0xC0 | 0xD0) { 2 } else { 3 };
            let bytes = &[status, first, second][..len];
            let (bodies, swallowed) = fresh_small(bytes);
            assert_eq!(bodies, oracle(bytes).into_iter().collect::<Vec<_>>(), "{bytes:02x?}");
            assert_eq!(swallowed, Swallowed::default());
        }
    }
}

fn fresh_small(bytes: &[u8]) -> (Vec<Body>, Swallowed) {
    let mut decoder = Decoder::new(vec![0; 8].into_boxed_slice());
    let bodies = all(&mut decoder, bytes);
    (bodies, decoder.swallowed())
}

proptest! {
    #[test]
    fn any_bytes_in_any_cut_give_the_same_events(
        bytes in prop::collection::vec(prop_oneof![3 => 0u8..128, 1 => 128u8..=255], 0..300),
        cuts in prop::collection::vec(0usize..300, 0..20),
    ) {
        let mut whole = Decoder::new(vec![0; 32].into_boxed_slice());
        let expected = all(&mut whole, &bytes);
        let mut cut = Decoder::new(vec![0; 32].into_boxed_slice());
        let mut places: Vec<usize> = cuts.into_iter().map(|at| at.min(bytes.len())).collect();
        places.extend([0, bytes.len()]);
        places.sort_unstable();
        let got: Vec<Body> = places.windows(2).flat_map(|w| all(&mut cut, &bytes[w[0]..w[1]])).collect();
        prop_assert_eq!(got, expected);
        prop_assert_eq!(cut.swallowed(), whole.swallowed());
    }

    #[test]
    fn what_is_encoded_decodes_to_itself_and_the_oracle_agrees(bodies in prop::collection::vec(any_midi(), 0..30)) {
        let mut bytes = Vec::new();
        for body in &bodies {
            let start = bytes.len();
            encode(body, &mut bytes).unwrap();
            prop_assert_eq!(oracle(&bytes[start..]), Some(body.clone()));
        }
        let (got, swallowed) = fresh(&bytes);
        prop_assert_eq!(got, bodies);
        prop_assert_eq!(swallowed, Swallowed::default());
    }

    #[test]
    fn every_data_byte_is_in_range(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        for body in fresh(&bytes).0 {
            prop_assert!(encode(&body, &mut Vec::new()).is_ok(), "{:?}", body);
        }
    }
}
