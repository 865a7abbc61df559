//! Inserts a device by cloning a device of the same class in the Set.

use super::{Done, Outcome, check_text, track::raise_next_pointee};
use crate::change::Draft;
use crate::device::{class_name, device_name};
use crate::error::{Elsewhere, LiveError};
use crate::facts::{DEVICES, DeviceRole, device_role};
use crate::ids::renumber;
use crate::path::{ChainOwner, ChainPart, PathId};
use crate::track::{TrackKind, chain_of};
use crate::xml::{Outline, Splices, reindent, splice};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// A device by id and name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceRef {
    /// Path of the device.
    pub id: PathId,
    /// Name of the device in Live.
    pub name: String,
}

/// A parameter by id and name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ParamRef {
    /// Path of the parameter.
    pub id: PathId,
    /// Path of the parameter's XML element below the device, with dots between the element names.
    pub name: String,
}

/// A new device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeviceInserted {
    /// Path of the track.
    pub track_id: PathId,
    /// The device.
    pub device: DeviceRef,
    /// Parameters of the device.
    pub params: Vec<ParamRef>,
}

pub(super) fn insert(draft: &mut Draft, path: PathId, name: &str, index: u32) -> Result<Done, LiveError> {
    let doc = &draft.doc;
    let track = doc.need_track(path)?;
    check_text("deviceName", name)?;
    let donors = doc.donors();
    let Some((_, donor)) = donors.iter().find(|(class, _)| class == name) else {
        if !DEVICES.iter().any(|(_, known, _)| *known == name) {
            return Err(LiveError::UnknownDevice { name: name.to_owned() });
        }
        let names: BTreeSet<&str> = donors.iter().map(|(class, _)| class.as_str()).collect();
        let names = names.into_iter().collect::<Vec<_>>().join(", ");
        return Err(LiveError::Unsupported {
            subject: Some(name.to_owned()),
            reason: format!("a device can be added only by cloning a device of this Set, and the Set has no {name}"),
            instead: if names.is_empty() {
                "ask the person to add a device in Live and save; this Set has no devices".into()
            } else {
                format!("use a device of this Set ({names}), or ask the person to add one in Live and save")
            },
            elsewhere: Elsewhere::Script,
        });
    };
    doc.need_thawed(track)?;
    match device_role(donor.name()) {
        Some(DeviceRole::Instrument | DeviceRole::Midi) if track.kind != TrackKind::Midi => {
            return Err(LiveError::Refused {
                subject: path,
                reason: format!("{name} requires a MIDI track; the kind of this track is {}", track.kind.as_str()),
                cure: "pick a MIDI track from the track list, or create one",
            });
        }
        Some(DeviceRole::Instrument | DeviceRole::Midi | DeviceRole::Audio) | None => {}
    }
    let list = chain_of(track.el)
        .and_then(|c| c.at("DeviceChain/Devices"))
        .ok_or_else(|| LiveError::unsupported(path, "the track stores no device chain"))?;
    let present: Vec<_> = list.children().collect();
    let position = (index as usize).min(present.len());
    let id = present.iter().filter_map(|d| d.attr_u32("Id")).max().map_or(0, |id| id.saturating_add(1));
    let indent = format!("{}{}", list.indent(), doc.unit);
    let mut next = doc.next_pointee()?;
    let clone = renumber(&reindent(donor.raw(), donor.indent(), &indent), &mut next)?;
    let clone = fresh(&clone, id)?;
    let mut splices = Splices::default();
    splices.insert_child(list, position, &clone, &doc.unit, doc.newline);
    let last = position == present.len();
    let (chunk, owner) = (track.chunk, ChainOwner::Track(track.index));
    raise_next_pointee(draft, next)?;
    draft.splice(chunk, splices)?;

    let n = u32::try_from(position).unwrap_or(u32::MAX);
    let device_path = owner.part(ChainPart::Device(n));
    let chain = draft.doc.need_chain(path)?;
    let device = *chain.devices().get(position).ok_or_else(|| LiveError::broken("the new device is missing"))?;
    let params = chain.device_params(n, device).into_iter().map(|p| ParamRef { id: p.id, name: p.name }).collect();
    let inserted =
        DeviceInserted { track_id: path, device: DeviceRef { id: device_path, name: device_name(device) }, params };
    let warning = format!("{} has the settings of the device from which it was cloned", class_name(device));
    Ok(Done { warnings: vec![warning], shifted: !last, ..Done::new(Outcome::Device(inserted), path) })
}

/// The text of the clone with a new id and without the name that a person gave to the original.
fn fresh(raw: &str, id: u32) -> Result<String, LiveError> {
    let (outline, _) = Outline::read(raw, &[]).map_err(|e| LiveError::broken(e.to_string()))?;
    let mut splices = Splices::default();
    if let Some(root) = outline.roots(raw).next() {
        splices.attr(root, "Id", &id.to_string());
        splices.value(root, "UserName", "");
    }
    splice(raw, &splices.sorted()).ok_or_else(|| LiveError::broken("two replacements overlap"))
}
