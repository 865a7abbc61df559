//! `live_transport`: play, stop and record in a running Live.

use super::prelude::*;
use super::whole_numbers;
use conductor_hosts::live::Transport;

pub fn definition(live: &Arc<Live>) -> Definition {
    on_set(live, "live_transport", Tier::Stateful, |mut ask, set| async move {
        let word: String = ask.need("action")?;
        let action = Transport::ALL.into_iter().find(|it| it.word() == word);
        let action = action.ok_or_else(|| ToolError::new(Code::BadInput, format!("{word:?} is not an action")))?;
        set.needs(Op::Transport).map_err(refused)?;
        let now = set.host.transport(action, ask.take("beat")?).await.map_err(refused)?;
        let now = json!({ "isPlaying": now.is_playing, "beat": now.beat, "tempo": now.tempo });
        Ok(Output::new(whole_numbers(now)))
    })
    .text(
        "Transport",
        "Plays, stops, continues, stops all clips, or switches recording on or off in a running Live. If `beat` is given, jumps to it first. \
         Not available for a closed file.",
    )
    .input(schema::look(json!({
        "action": { "type": "string", "enum": Transport::ALL.map(Transport::word), "description": "The action" },
        "beat?": schema::beats("Jump to this beat first"),
    })))
    .output(object(json!({ "isPlaying": boolean(), "beat": number(), "tempo": number() })))
}
