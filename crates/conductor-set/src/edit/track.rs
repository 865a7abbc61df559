//! Sets track properties, and adds tracks. If possible, a new track is a clone of a track of the
//! same kind, so that it has the same elements as the other tracks of the file.

use super::{Done, Outcome, TrackProps, param};
use crate::change::Draft;
use crate::document::{Document, Family};
use crate::error::{Listing, LiveError};
use crate::ids::renumber;
use crate::path::PathId;
use crate::skeleton;
use crate::track::{Track, TrackKind, chain_of, mixer_of};
use crate::xml::{El, Outline, Splices, reindent, splice};

pub(super) fn set_props(draft: &mut Draft, path: PathId, props: &TrackProps) -> Result<Done, LiveError> {
    let track = draft.doc.need_track(path)?;
    props.check()?;
    let mut splices = Splices::default();
    if let Some(name) = &props.name {
        splices.value(track.el, "Name/EffectiveName", name);
        splices.value(track.el, "Name/UserName", name);
    }
    if let Some(arm) = props.arm {
        let recorder = track.sequencer().and_then(|s| s.at("Recorder/IsArmed"));
        let recorder = recorder.ok_or_else(|| {
            LiveError::wrong_type(path, format!("a {} track cannot be armed", track.kind.as_str()), Listing::Tracks)
        })?;
        splices.attr(recorder, "Value", if arm { "true" } else { "false" });
    }
    let mixer = mixer_of(track.el).ok_or_else(|| LiveError::unsupported(path, "the track stores no mixer"))?;
    if let Some(mute) = props.mute {
        let speaker =
            mixer.child("Speaker").ok_or_else(|| LiveError::unsupported(path, "the track stores no mute switch"))?;
        param::write(&mut splices, track.el, speaker, if mute { "false" } else { "true" }, &path.to_string())?;
    }
    if let Some(solo) = props.solo {
        splices.value(mixer, "SoloSink", if solo { "true" } else { "false" });
    }
    let chunk = track.chunk;
    draft.splice(chunk, splices)?;
    Ok(Done::new(Outcome::Track(draft.doc.track_state(path)?), path))
}

/// Adds children to an element without children.
fn fill(splices: &mut Splices, parent: El<'_>, children: impl Iterator<Item = String>, doc: &Document) {
    let indent = format!("{}{}", parent.indent(), doc.unit);
    let children: Vec<String> = children.map(|c| reindent(&c, "", &indent)).collect();
    if !children.is_empty() {
        let lines = children.join(&format!("{}{indent}", doc.newline));
        splices.insert_child(parent, 0, &lines, &doc.unit, doc.newline);
    }
}

/// Makes a slot list as long as the scene list and empties every slot.
fn fit_slots(splices: &mut Splices, list: El<'_>, scenes: usize, doc: &Document) {
    let slots: Vec<El<'_>> = list.children().filter(|c| c.name() == "ClipSlot").collect();
    let Some(pattern) = slots.first() else {
        fill(splices, list, (0..scenes).map(|n| skeleton::slot(n, doc)), doc);
        return;
    };
    // Rewrite the whole list at once: two replacements, one for the length and one for the content,
    // would overlap.
    let mut clean = Splices::default();
    let base = pattern.span().start;
    if let Some(value) = pattern.at("ClipSlot/Value") {
        clean.empty(value);
    }
    let moved = clean.sorted().into_iter().map(|mut s| {
        s.span = s.span.start - base..s.span.end - base;
        s
    });
    let empty = splice(pattern.raw(), &moved.collect::<Vec<_>>()).unwrap_or_else(|| pattern.raw().to_owned());
    let mut text = String::from("<ClipSlotList>");
    for n in 0..scenes {
        text.push_str(pattern.lead());
        text.push_str(&with_id(&empty, n));
    }
    text.push_str(list.lead());
    text.push_str("</ClipSlotList>");
    if scenes == 0 {
        splices.empty(list);
    } else {
        splices.put("", list.span(), text);
    }
}

/// The text of the element with another `Id` in its first tag.
fn with_id(raw: &str, id: usize) -> String {
    let Ok((outline, _)) = Outline::read(raw, &[]) else {
        return raw.to_owned();
    };
    let mut splices = Splices::default();
    if let Some(root) = outline.roots(raw).next() {
        splices.attr(root, "Id", &id.to_string());
    }
    splice(raw, &splices.sorted()).unwrap_or_else(|| raw.to_owned())
}

/// Makes the number of sends equal to the number of return tracks.
fn fit_sends(splices: &mut Splices, sends: El<'_>, returns: usize, doc: &Document) {
    let holders: Vec<El<'_>> = sends.children().collect();
    let Some(pattern) = holders.first().copied() else {
        fill(splices, sends, (0..returns).map(|n| skeleton::send(n, doc)), doc);
        return;
    };
    for holder in holders.iter().take(returns) {
        splices.value(*holder, "Send/Manual", skeleton::SILENCE);
    }
    if returns < holders.len() {
        let doomed: Vec<usize> = holders.iter().skip(returns).map(|h| h.key()).collect();
        splices.remove_children(sends, |c| doomed.contains(&c.key()));
    }
    for n in holders.len()..returns {
        splices.insert_child(sends, usize::MAX, &with_id(pattern.raw(), n), &doc.unit, doc.newline);
    }
}

/// Removes everything that belongs to the original from a cloned track.
fn strip(text: &str, doc: &Document, id: u32, name: &str) -> Result<String, LiveError> {
    let (outline, _) = Outline::read(text, &[]).map_err(|e| LiveError::broken(e.to_string()))?;
    let track =
        outline.roots(text).next().ok_or_else(|| LiveError::broken("the track used as a template has no elements"))?;
    let scenes = doc.scene_elements().len();
    let mut splices = Splices::default();
    splices.attr(track, "Id", &id.to_string());
    for (path, value) in [
        ("Name/EffectiveName", name),
        ("Name/UserName", ""),
        ("Name/Annotation", ""),
        ("Name/MemorizedFirstClipName", ""),
        ("TrackGroupId", "-1"),
        ("LinkedTrackGroupId", "-1"),
        ("ViewData", "{}"),
        ("IsContentSelectedInDocument", "false"),
        ("SavedPlayingSlot", "-1"),
        ("SavedPlayingOffset", "0"),
    ] {
        splices.value(track, path, value);
    }
    splices.empty_at(track, "AutomationEnvelopes/Envelopes");
    splices.empty_at(track, "TakeLanes/TakeLanes");
    let chain = chain_of(track).ok_or_else(|| LiveError::broken("the track used as a template has no device chain"))?;
    splices.empty_at(chain, "DeviceChain/Devices");
    for sequencer in ["MainSequencer", "FreezeSequencer"] {
        let Some(sequencer) = chain.child(sequencer) else {
            continue;
        };
        splices.empty_at(sequencer, "ClipTimeable/ArrangerAutomation/Events");
        splices.empty_at(sequencer, "Sample/ArrangerAutomation/Events");
        splices.value(sequencer, "Recorder/IsArmed", "false");
        splices.value(sequencer, "Recorder/TakeCounter", "0");
        if let Some(list) = sequencer.child("ClipSlotList") {
            fit_slots(&mut splices, list, scenes, doc);
        }
    }
    // A track in a group sends its output to the group; the new track is outside the group.
    if chain.value("AudioOutputRouting/Target").as_deref() == Some("AudioOut/GroupTrack") {
        let main = if doc.schema.family >= Family::Live12 { "Main" } else { "Master" };
        splices.value(chain, "AudioOutputRouting/Target", &format!("AudioOut/{main}"));
        splices.value(chain, "AudioOutputRouting/UpperDisplayString", main);
    }
    if let Some(mixer) = chain.child("Mixer") {
        splices.value(mixer, "Volume/Manual", "1");
        splices.value(mixer, "Pan/Manual", "0");
        splices.value(mixer, "Speaker/Manual", "true");
        splices.value(mixer, "SoloSink", "false");
        if let Some(sends) = mixer.child("Sends") {
            fit_sends(&mut splices, sends, doc.returns().count(), doc);
        }
    }
    splice(text, &splices.sorted()).ok_or_else(|| LiveError::broken("two replacements overlap"))
}

pub(super) fn create(draft: &mut Draft, kind: TrackKind) -> Result<Done, LiveError> {
    let doc = &draft.doc;
    let (tag, word) = match kind {
        TrackKind::Midi => ("MidiTrack", "MIDI"),
        TrackKind::Audio => ("AudioTrack", "Audio"),
        TrackKind::Group => {
            return Err(LiveError::value("kind", "must be midi or audio, not group"));
        }
    };
    if !doc.has_track_list() {
        return Err(LiveError::unsupported("kind", "the Set has no track list to which a track can be added"));
    }
    let tracks: Vec<Track<'_>> = doc.tracks().collect();
    let mut warnings = Vec::new();
    let donor = tracks.iter().find(|t| t.kind == kind && !t.is_frozen());
    let (lead, raw) = match donor {
        Some(donor) => (donor.el.lead().to_owned(), donor.el.raw().to_owned()),
        None => {
            warnings.push(format!(
                "the Set has no {} track to clone, so a built-in track was used; it was not tested in Live",
                kind.as_str()
            ));
            let lead = doc.chunks[1].root().map(|el| el.lead().to_owned()).unwrap_or_default();
            let indent = lead.trim_start_matches(['\r', '\n']);
            (lead.clone(), reindent(&skeleton::track(tag, doc), "", indent))
        }
    };
    let every_id = doc.chunks.iter().skip(1).filter_map(|c| c.root()).filter(|el| el.name().ends_with("Track"));
    let id = every_id.filter_map(|el| el.attr_u32("Id")).max().map_or(0, |id| id.saturating_add(1));
    let index = u32::try_from(tracks.len()).unwrap_or(u32::MAX);
    let mut next = doc.next_pointee()?;
    let text = strip(&raw, doc, id, &format!("{}-{word}", tracks.len() + 1))?;
    let text = format!("{lead}{}", renumber(&text, &mut next)?);
    let at = tracks.last().map_or(1, |t| t.chunk + 1);
    raise_next_pointee(draft, next)?;
    draft.insert(at, text)?;
    let path = PathId::Track(index);
    Ok(Done { warnings, ..Done::new(Outcome::TrackCreated(draft.doc.track_info(path)?), path) })
}

pub(super) fn raise_next_pointee(draft: &mut Draft, next: u32) -> Result<(), LiveError> {
    let mut splices = Splices::default();
    let Some((chunk, el)) = draft.doc.in_set("NextPointeeId") else {
        return Err(LiveError::unsupported("NextPointeeId", "the Set does not state its next free id"));
    };
    splices.attr(el, "Value", &next.to_string());
    draft.splice(chunk, splices)
}
