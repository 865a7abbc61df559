//! Sets the tempo and parameters. The value may be stored in an envelope too.

use super::{Done, Outcome, check_range};
use crate::change::Draft;
use crate::device::{Param, RangeSource, envelope};
use crate::document::Document;
use crate::error::LiveError;
use crate::path::PathId;
use crate::wire;
use crate::xml::{El, Splices, number};
use serde::Serialize;

/// A parameter after it was set.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct ParamWritten {
    /// The parameter with its new value.
    #[serde(flatten)]
    pub param: Param,
    /// The old value.
    #[serde(serialize_with = "wire::number")]
    pub previous: f64,
    /// Fields that the document does not store.
    pub unknown: Vec<&'static str>,
}

/// Writes a parameter's value, and the event of its envelope if there is exactly one. If there are
/// several events, the edit is refused: the parameter is automated, and the automation would
/// override the value.
pub(super) fn write(
    splices: &mut Splices,
    track: El<'_>,
    param: El<'_>,
    text: &str,
    subject: &str,
) -> Result<(), LiveError> {
    let events = envelope(track, param).unwrap_or_default();
    if events.len() > 1 {
        return Err(LiveError::unsupported(subject, format!("the value is automated ({} events)", events.len())));
    }
    for el in param.child("Manual").into_iter().chain(events) {
        let same = el.attr_raw("Value").is_some_and(|old| old == text || old.parse::<f64>().ok() == text.parse().ok());
        if !same || text.parse::<f64>().is_err() {
            splices.attr(el, "Value", text);
        }
    }
    Ok(())
}

pub(super) fn set_tempo(draft: &mut Draft, bpm: f64) -> Result<Done, LiveError> {
    check_range("bpm", bpm, 20.0, 999.0)?;
    let main = draft.doc.main().ok_or_else(|| LiveError::unsupported("tempo", "the Set has no main track"))?;
    let Some((track, param)) = draft.doc.main_param("Tempo") else {
        return Err(LiveError::unsupported("tempo", "the main track stores no tempo"));
    };
    let mut splices = Splices::default();
    write(&mut splices, track, param, &number(bpm), "tempo")?;
    let chunk = main.chunk;
    draft.splice(chunk, splices)?;
    Ok(Done {
        outcome: Outcome::Tempo(draft.doc.overview()),
        changed: vec![PathId::Main],
        warnings: Vec::new(),
        shifted: false,
    })
}

fn check_value(param: &Param, value: f64) -> Result<(), LiveError> {
    let subject = param.id.to_string();
    if !value.is_finite() {
        return Err(LiveError::value("value", "must be a finite number"));
    }
    match param.range_source {
        RangeSource::Unknown if value == param.value => Ok(()),
        RangeSource::Unknown => Err(LiveError::unsupported(
            subject,
            format!("the document does not contain the range of {}, only its value {}", param.name, param.value),
        )),
        RangeSource::Mapping if param.is_quantized => {
            if value == 0.0 || value == 1.0 {
                Ok(())
            } else {
                Err(LiveError::value("value", format!("{} is a switch and must be 0 or 1, not {value}", param.name)))
            }
        }
        // Many Sets store values outside the mapping range, so the stored value extends the range.
        RangeSource::Mapping | RangeSource::Host => {
            check_range("value", value, param.min.min(param.value), param.max.max(param.value))
        }
    }
}

pub(super) fn set(draft: &mut Draft, path: PathId, value: f64) -> Result<Done, LiveError> {
    let found = draft.doc.need_param(path)?;
    let before = found.info();
    check_value(&before, value)?;
    if let PathId::OnTrack(n, crate::path::TrackPart::Chain(crate::path::ChainPart::Param(..))) = path {
        thawed(&draft.doc, n)?;
    }
    let is_word = matches!(crate::track::stored_text(found.el).as_deref(), Some("true" | "false"));
    let text = match (is_word, value != 0.0) {
        (true, true) => "true".to_owned(),
        (true, false) => "false".to_owned(),
        (false, _) => number(value),
    };
    let mut splices = Splices::default();
    write(&mut splices, found.chain.el, found.el, &text, &path.to_string())?;
    let chunk = found.chain.chunk;
    draft.splice(chunk, splices)?;
    let param = draft.doc.param(path)?;
    Ok(Done::new(Outcome::Param(ParamWritten { param, previous: before.value, unknown: vec!["defaultValue"] }), path))
}

fn thawed(doc: &Document, n: u32) -> Result<(), LiveError> {
    doc.tracks().nth(n as usize).map_or(Ok(()), |track| doc.need_thawed(track))
}
