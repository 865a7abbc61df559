//! `live_transport`: play, stop and record in a running Live.

use super::{on_set, refused, schema, whole_numbers};
use crate::pipeline::call::Output;
use crate::tools::catalog::Definition;
use conductor_core::error::{Code, ToolError};
use conductor_core::policy::Tier;
use conductor_hosts::live::{Live, Op, Transport};
use schema::{boolean, number, object};
use serde_json::json;
use std::sync::Arc;

pub fn definition(live: &Arc<Live>) -> Definition {
    on_set(live, "live_transport", Tier::Stateful, |mut ask, set| async move {
        let word: String = ask.need("action")?;
        let action = Transport::ALL.into_iter().find(|it| it.word() == word);
        let action = action.ok_or_else(|| ToolError::new(Code::BadInput, format!("{word:?} is no action")))?;
        set.needs(Op::Transport).map_err(refused)?;
        let now = set.host.transport(action, ask.take("beat")?).await.map_err(refused)?;
        let now = json!({ "isPlaying": now.is_playing, "beat": now.beat, "tempo": now.tempo });
        Ok(Output::new(whole_numbers(now)))
    })
    .text("Transport", "Plays, stops, continues, stops all clips, or switches recording in a running Live; beat jumps there first. A closed file cannot play.")
    .input(schema::look(json!({
        "action": { "type": "string", "enum": Transport::ALL.map(Transport::word), "description": "What to do" },
        "beat?": schema::beats("Jump here first"),
    })))
    .output(object(json!({ "isPlaying": boolean(), "beat": number(), "tempo": number() })))
}
