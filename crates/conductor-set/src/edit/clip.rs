//! Creates clips and sets clip properties.

use super::{ClipCreated, ClipProps, Done, Outcome, check_range};
use crate::change::Draft;
use crate::clip::in_slot;
use crate::document::Document;
use crate::error::{Listing, LiveError};
use crate::path::{PathId, TrackPart};
use crate::skeleton;
use crate::track::TrackKind;
use crate::xml::{El, Outline, Splices, number, reindent, splice};

/// A MIDI clip of the Set to clone. It determines the child elements of the new clip and their
/// order.
fn donor(doc: &Document) -> Option<El<'_>> {
    doc.tracks()
        .filter(|t| t.kind == TrackKind::Midi)
        .flat_map(|t| t.session().into_iter().chain(t.arrangement()))
        .map(|c| c.el)
        .next()
}

/// Converts a cloned clip to a new clip without notes.
fn strip(text: &str, doc: &Document, length: f64, color: i64) -> Result<String, LiveError> {
    let (outline, _) = Outline::read(text, &[]).map_err(|e| LiveError::broken(e.to_string()))?;
    let clip =
        outline.roots(text).next().ok_or_else(|| LiveError::broken("the clip used as a template has no elements"))?;
    let length = number(length);
    let (numerator, denominator) = doc.time_signature().unwrap_or((4, 4));
    let mut splices = Splices::default();
    splices.attr(clip, "Id", "0");
    splices.attr(clip, "Time", "0");
    for (path, value) in [
        ("LomId", "0"),
        ("LomIdView", "0"),
        ("CurrentStart", "0"),
        ("CurrentEnd", &length),
        ("Loop/LoopStart", "0"),
        ("Loop/LoopEnd", &length),
        ("Loop/StartRelative", "0"),
        ("Loop/LoopOn", "true"),
        ("Loop/OutMarker", &length),
        ("Loop/HiddenLoopStart", "0"),
        ("Loop/HiddenLoopEnd", &length),
        ("Name", ""),
        ("Annotation", ""),
        ("LaunchMode", "0"),
        ("LaunchQuantisation", "0"),
        ("ScrollerTimePreserver/LeftTime", "0"),
        ("ScrollerTimePreserver/RightTime", &length),
        ("TimeSelection/AnchorTime", "0"),
        ("TimeSelection/OtherTime", "0"),
        ("Legato", "false"),
        ("GrooveSettings/GrooveId", "-1"),
        ("Disabled", "false"),
        ("VelocityAmount", "0"),
        ("FollowAction/FollowActionEnabled", "false"),
        ("FreezeStart", "0"),
        ("FreezeEnd", "0"),
        ("BankSelectCoarse", "-1"),
        ("BankSelectFine", "-1"),
        ("ProgramChange", "-1"),
        ("Notes/ProbabilityGroupIdGenerator/NextId", "1"),
        ("Notes/NoteIdGenerator/NextId", "1"),
    ] {
        splices.value(clip, path, value);
    }
    if color >= 0 {
        splices.value(clip, "Color", &color.to_string());
    }
    for path in
        ["Envelopes/Envelopes", "Notes/KeyTracks", "Notes/PerNoteEventStore/EventLists", "Notes/NoteProbabilityGroups"]
    {
        splices.empty_at(clip, path);
    }
    if let Some(list) = clip.at("TimeSignature/TimeSignatures") {
        if let Some(first) = list.children().next() {
            splices.value(first, "Numerator", &numerator.to_string());
            splices.value(first, "Denominator", &denominator.to_string());
            splices.value(first, "Time", "0");
        }
        let first = list.children().next().map(|c| c.key());
        splices.remove_children(list, |c| Some(c.key()) != first);
    }
    splice(text, &splices.sorted()).ok_or_else(|| LiveError::broken("two replacements overlap"))
}

pub(super) fn create(draft: &mut Draft, path: PathId, length: f64) -> Result<Done, LiveError> {
    let doc = &draft.doc;
    let (track, slot, n) = doc.need_slot(path)?;
    if track.kind != TrackKind::Midi {
        return Err(LiveError::wrong_type(
            path,
            format!("a MIDI clip requires a MIDI track; the kind of this track is {}", track.kind.as_str()),
            Listing::Tracks,
        ));
    }
    check_range("lengthBeats", length, 0.25, 1e9)?;
    if in_slot(slot).is_some() {
        return Err(LiveError::SlotOccupied { subject: path });
    }
    doc.need_thawed(track)?;
    let value =
        slot.at("ClipSlot/Value").ok_or_else(|| LiveError::unsupported(path, "the slot has no element for a clip"))?;
    let indent = format!("{}{}", value.indent(), doc.unit);
    let mut warnings = Vec::new();
    let raw = match donor(doc) {
        Some(el) => reindent(el.raw(), el.indent(), &indent),
        None => {
            warnings.push(
                "the Set has no MIDI clip to clone, so a built-in clip was used; it was not tested in Live".to_owned(),
            );
            reindent(&skeleton::midi_clip(doc), "", &indent)
        }
    };
    let text = strip(&raw, doc, length, track.color_index())?;
    let mut splices = Splices::default();
    splices.insert_child(value, 0, &text, &doc.unit, doc.newline);
    let (chunk, index) = (track.chunk, track.index);
    draft.splice(chunk, splices)?;
    let clip_id = PathId::OnTrack(index, TrackPart::SlotClip(n));
    let created = ClipCreated { clip_id, slot_id: path, length_beats: length };
    Ok(Done { warnings, ..Done::new(Outcome::ClipCreated(created), clip_id) })
}

pub(super) fn set_props(draft: &mut Draft, path: PathId, props: &ClipProps) -> Result<Done, LiveError> {
    let doc = &draft.doc;
    let clip = doc.need_clip(path)?;
    props.check()?;
    doc.need_thawed(clip.track)?;
    let now = clip.info();
    if props.looping.is_some_and(|on| on != now.looping) {
        return Err(LiveError::unsupported(
            path,
            "looping cannot be changed in a document, because it changes the meaning of the loop and the markers",
        ));
    }
    let mut splices = Splices::default();
    if let Some(name) = &props.name {
        splices.value(clip.el, "Name", name);
    }
    if let Some(muted) = props.muted {
        splices.value(clip.el, "Disabled", if muted { "true" } else { "false" });
    }
    if let Some(color) = props.color {
        splices.value(clip.el, "Color", &color.to_string());
    }
    let (loop_start, loop_end) = props.loop_after((now.loop_start, now.loop_end))?;
    splices.number(clip.el, "Loop/LoopStart", loop_start);
    splices.number(clip.el, "Loop/LoopEnd", loop_end);
    // The start marker is stored relative to the loop start. If only the loop moves, the marker
    // must stay.
    if props.start_marker.is_some() || props.loop_start.is_some() {
        let marker = props.start_marker.unwrap_or(now.start_marker);
        splices.number(clip.el, "Loop/StartRelative", marker - loop_start);
    }
    if let Some(marker) = props.end_marker {
        splices.number(clip.el, "Loop/OutMarker", marker);
    }
    // The start and end of a session clip normally equal its loop. If they differ, they are not
    // changed.
    if clip.is_session() && now.start_time == now.loop_start && now.end_time == now.loop_end {
        splices.number(clip.el, "CurrentStart", loop_start);
        splices.number(clip.el, "CurrentEnd", loop_end);
    }
    let chunk = clip.track.chunk;
    draft.splice(chunk, splices)?;
    Ok(Done::new(Outcome::Clip(draft.doc.clip_info(path)?), path))
}
