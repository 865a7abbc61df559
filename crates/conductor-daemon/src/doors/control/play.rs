//! Plays an event script on a port, in real time. Each step has a time, and the owner wakes the
//! player at that time. Notes that are still on at the end of the script are released. If the
//! connection closes earlier, they are released then.

use conductor_core::error::{Code, Subject, ToolError};
use conductor_core::event::script::{self, Step};
use conductor_core::event::{Body, Micros, midi};
use conductor_gateway::owner_handle::{OwnerHandle, SentBy};

/// Longest duration of a script. A person waits for its end, so it must not be long.
const LONGEST: Micros = Micros::from_ms(60_000);

/// Messages that are sent at the same time.
#[derive(Debug, Default, PartialEq, Eq)]
struct Beat {
    /// Time since the start of the script.
    at: Micros,
    messages: Vec<Vec<u8>>,
}

/// Plays the script. Returns the number of sent messages, without the releases at its end.
pub async fn play(
    handle: &OwnerHandle,
    port: &str,
    events: &str,
    by: SentBy,
    start: Micros,
) -> Result<usize, ToolError> {
    let (beats, held) = read(events)?;
    let mut sent = 0;
    for beat in beats {
        if beat.at > Micros(0) {
            handle.at(start.plus_us(beat.at.0)).await?;
        }
        if !beat.messages.is_empty() {
            sent += handle.send(port.to_owned(), beat.messages, by).await?;
        }
    }
    if !held.is_empty() {
        handle.send(port.to_owned(), held, by).await?;
    }
    Ok(sent)
}

fn bad(reason: String) -> ToolError {
    ToolError::new(Code::BadInput, reason).subject(Subject::Argument("events".into()))
}

/// The error for an invalid event script: all faults, one per line.
pub fn bad_script(errors: &[impl ToString]) -> ToolError {
    bad(errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
}

/// The steps of the script, and the note-offs of the notes that are still on at its end.
fn read(events: &str) -> Result<(Vec<Beat>, Vec<Vec<u8>>), ToolError> {
    let steps = script::parse(events).map_err(|errors| bad_script(&errors))?;
    let mut beats = vec![Beat::default()];
    let mut held: Vec<(u8, u8)> = Vec::new();
    let mut length = Micros(0);
    for step in steps {
        match step {
            Step::Event(body) => {
                let mut bytes = Vec::new();
                midi::encode(&body, &mut bytes).map_err(|_| bad("only MIDI events can be sent to a port".into()))?;
                if let Body::NoteOn { channel, note, .. } = body {
                    held.push((channel, note));
                } else if let Body::NoteOff { channel, note, .. } = body {
                    held.retain(|it| *it != (channel, note));
                }
                if let Some(beat) = beats.last_mut() {
                    beat.messages.push(bytes);
                }
            }
            Step::Advance(by) => {
                length = Micros(length.0.saturating_add(by.0));
                beats.push(Beat { at: length, messages: Vec::new() });
            }
            Step::Device(_) | Step::Mode(_) => {
                return Err(
                    bad("`dev:` and `mode:` are for simulations; here the port is a separate parameter".into()),
                );
            }
        }
    }
    if length > LONGEST {
        return Err(bad(format!("the script lasts {} ms; the limit is {} ms", length.0 / 1_000, LONGEST.0 / 1_000)));
    }
    held.sort_unstable();
    held.dedup();
    Ok((beats, held.into_iter().map(|(channel, note)| vec![0x80 | channel, note, 0]).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_becomes_bytes_at_times_and_releases_what_it_leaves_on() {
        let (beats, held) = read("on:36@100 on:40/2 t:600 off:40/2 t:2").unwrap();
        let beat = |ms, messages: &[&[u8]]| Beat {
            at: Micros::from_ms(ms),
            messages: messages.iter().map(|it| it.to_vec()).collect(),
        };
        assert_eq!(
            beats,
            [beat(0, &[&[0x90, 36, 100], &[0x92, 40, 100]]), beat(600, &[&[0x82, 40, 0]]), beat(602, &[])]
        );
        assert_eq!(held, [[0x80, 36, 0]]);
    }

    #[test]
    fn what_is_no_midi_or_too_long_is_refused_before_anything_is_sent() {
        for script in ["down:south", "dev:pads", "mode:Mix", "on:128", "t:60001"] {
            assert_eq!(read(script).unwrap_err().code, Code::BadInput, "{script}");
        }
    }
}
