//! `conductor_send_midi`: sends MIDI messages to a device. All messages are checked before the
//! first byte is sent.

use super::output_target;
use super::prelude::*;
use conductor_core::error::RefusedBy;
use conductor_core::event::Body;
use conductor_core::event::midi::short;
use conductor_gateway::owner_handle::SentBy;
use conductor_gateway::pipeline::call::{ConnId, Principal};
use conductor_gateway::pipeline::gate::Clearance;
use parking_lot::Mutex;
use std::collections::HashMap;

/// Maximum number of messages that a principal may send in one minute.
const PER_MINUTE: u64 = 2000;
/// Time after which the notes of callers without a connection are released.
const RELEASE_AFTER_US: u64 = 10_000_000;

#[derive(Deserialize, JsonSchema)]
struct Args {
    /// Device alias or exact output port name
    #[schemars(length(min = 1, max = 256))]
    port: String,
    /// The messages, in the order of sending
    #[schemars(length(min = 1, max = 256))]
    messages: Vec<Message>,
}

#[derive(Deserialize, JsonSchema)]
#[schemars(with = "Value", extend("$ref" = "#/$defs/MidiMessage"))]
struct Message {
    #[serde(rename = "type")]
    kind: String,
    /// 1-16 in the arguments, 0-15 in the code.
    channel: u8,
    note: Option<u8>,
    velocity: Option<u8>,
    controller: Option<u8>,
    value: Option<u8>,
    program: Option<u8>,
}

#[derive(Serialize, JsonSchema)]
struct Answer {
    /// Always true; a failure is an error
    success: bool,
    /// Number of messages
    messages_sent: usize,
    /// The given port
    port: String,
}

/// Number of messages that each principal has sent in the current minute.
type Sent = Arc<Mutex<HashMap<String, Minute>>>;

pub fn definition(owner: &OwnerHandle) -> Definition {
    let mut definition = tool("conductor_send_midi", Tier::HardwareIo, TOOLSET, &(owner.clone(), Sent::default()), run)
        .text(
            "Send MIDI",
            "Sends note_on, note_off, cc and program_change messages to a device, all or none: if a message is invalid, its index is reported \
             and nothing is sent. `channel` is 1-16 here (0-15 everywhere else). `velocity` defaults to 100 for note_on and 0 for note_off. \
             Notes that are still on are released when this connection ends. `port` is a device alias or an exact port name. For a loopback \
             device NAME, the port 'NAME hand' sends events to its input, but these events never count as played by a person.",
        )
        .summary(with_args(|args: &Args| format!("send {} MIDI messages to {:?}", args.messages.len(), args.port)));
    definition.requires_approval = Some(false);
    definition.destructive = Some(false);
    definition.target = Some(output_target(owner, true));
    definition
}

async fn run((owner, sent): (OwnerHandle, Sent), cx: Context, args: Args) -> Result<Answer, ToolError> {
    let Context { studio, clearance, .. } = cx;
    let Args { port, messages } = args;
    let bytes = encode(&messages)?;
    if !clearance.by_person() {
        let allowed = owner.serving().config.performance.allow_output.contains(&port);
        if !allowed && owner.status().await?.performance_lock {
            return Err(locked(&format!("nothing is sent to {port}")));
        }
    }
    charge(&sent, clearance.principal(), bytes.len() as u64, studio.now_ms())?;
    let connection = clearance.conn().0;
    let messages_sent = owner.send(port.clone(), bytes, sent_by(&clearance)).await?;
    if clearance.conn() == ConnId::NONE {
        let until = studio.sleeper.until(studio.clock.now().plus_us(RELEASE_AFTER_US));
        tokio::spawn(async move {
            until.await;
            owner.tool_gone(connection);
        });
    }
    Ok(Answer { success: true, messages_sent, port })
}

/// Only a call made by a person counts as played by hand.
fn sent_by(clearance: &Clearance) -> SentBy {
    let connection = clearance.conn().0;
    if clearance.by_person() { SentBy::Hand { connection } } else { SentBy::Tool { connection } }
}

fn encode(messages: &[Message]) -> Result<Vec<Vec<u8>>, ToolError> {
    let bad = |index: usize, why: String| {
        ToolError::new(Code::BadInput, format!("messages[{index}]: {why}; nothing was sent"))
            .subject(Subject::Argument(format!("/messages/{index}")))
    };
    let mut bytes = Vec::with_capacity(messages.len());
    for (index, message) in messages.iter().enumerate() {
        let channel = message
            .channel
            .checked_sub(1)
            .filter(|it| *it < 16)
            .ok_or_else(|| bad(index, format!("channel {} is not 1-16", message.channel)))?;
        let need =
            |name: &str, value: Option<u8>| value.ok_or_else(|| bad(index, format!("{} needs {name}", message.kind)));
        let body = match message.kind.as_str() {
            // On the wire a note-on with velocity 0 is a note-off.
            "note_on" if message.velocity == Some(0) => {
                Body::NoteOff { channel, note: need("note", message.note)?, velocity: 0 }
            }
            "note_on" => {
                Body::NoteOn { channel, note: need("note", message.note)?, velocity: message.velocity.unwrap_or(100) }
            }
            "note_off" => {
                Body::NoteOff { channel, note: need("note", message.note)?, velocity: message.velocity.unwrap_or(0) }
            }
            "cc" => Body::Cc {
                channel,
                controller: need("controller", message.controller)?,
                value: need("value", message.value)?,
            },
            "program_change" => Body::Program { channel, program: need("program", message.program)? },
            other => return Err(bad(index, format!("type {other:?} is not note_on, note_off, cc or program_change"))),
        };
        bytes.push(short(&body).map_err(|why| bad(index, why.to_string()))?.as_bytes().to_vec());
    }
    Ok(bytes)
}

#[derive(Clone, Copy, Default)]
struct Minute {
    began_ms: u64,
    count: u64,
}

fn charge(
    sent: &Mutex<HashMap<String, Minute>>,
    principal: &Principal,
    count: u64,
    now_ms: u64,
) -> Result<(), ToolError> {
    let mut sent = sent.lock();
    sent.retain(|_, minute| now_ms.saturating_sub(minute.began_ms) < 60_000);
    let minute = sent.entry(principal.to_string()).or_insert(Minute { began_ms: now_ms, count: 0 });
    if minute.count + count > PER_MINUTE {
        let wait = 60_000 - now_ms.saturating_sub(minute.began_ms).min(60_000);
        return Err(ToolError::new(
            Code::RateLimited,
            format!("the limit of {PER_MINUTE} MIDI messages per minute is reached"),
        )
        .by(RefusedBy::Limit)
        .retry_after_ms(wait.max(1)));
    }
    minute.count += count;
    Ok(())
}
