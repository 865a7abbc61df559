//! Deletes clips and tracks.

use super::{Deleted, Done, Outcome};
use crate::change::Draft;
use crate::clip::arrangement_events;
use crate::document::Document;
use crate::error::LiveError;
use crate::path::{PathId, TrackPart};
use crate::track::{Track, TrackKind};
use crate::xml::Splices;
use std::collections::BTreeSet;

pub(super) fn clip(draft: &mut Draft, path: PathId) -> Result<Done, LiveError> {
    let clip = draft.doc.need_clip(path)?;
    draft.doc.need_thawed(clip.track)?;
    let mut splices = Splices::default();
    let shifted = !clip.is_session();
    if let PathId::OnTrack(_, TrackPart::SlotClip(n)) = path {
        let slot = clip.track.slots().get(n as usize).and_then(|s| s.at("ClipSlot/Value"));
        splices.empty(slot.ok_or_else(|| LiveError::broken("a clip is not in a slot"))?);
    } else {
        let events =
            arrangement_events(clip.track).ok_or_else(|| LiveError::broken("the clip list of a track is missing"))?;
        let doomed = clip.el.key();
        splices.remove_children(events, |c| c.key() == doomed);
    }
    let (chunk, track) = (clip.track.chunk, clip.track.path());
    draft.splice(chunk, splices)?;
    let outcome = Outcome::Deleted(Deleted { deleted: vec![path], shifted });
    Ok(Done { shifted, ..Done::new(outcome, track) })
}

/// The track and, if it is a group, all tracks inside it.
fn with_children<'a>(tracks: &[Track<'a>], track: Track<'a>) -> Vec<Track<'a>> {
    let mut groups: BTreeSet<i64> = BTreeSet::new();
    let mut doomed = vec![track];
    if track.kind == TrackKind::Group {
        groups.extend(track.xml_id().map(i64::from));
    }
    // A group precedes its tracks, so one pass in order also finds nested groups.
    for t in tracks.iter().filter(|t| t.index != track.index) {
        if t.el.integer("TrackGroupId").is_some_and(|id| groups.contains(&id)) {
            doomed.push(*t);
            if t.kind == TrackKind::Group {
                groups.extend(t.xml_id().map(i64::from));
            }
        }
    }
    doomed.sort_by_key(|t| t.index);
    doomed
}

/// Number of routings in other tracks that refer to one of the deleted tracks.
fn routings_to(doc: &Document, doomed: &[Track<'_>]) -> usize {
    let names: Vec<String> = doomed.iter().filter_map(|t| t.xml_id()).map(|id| format!("Track.{id}")).collect();
    let gone: BTreeSet<usize> = doomed.iter().map(|t| t.chunk).collect();
    let mut count = 0;
    for (_, chunk) in doc.chunks.iter().enumerate().filter(|(i, _)| !gone.contains(i)) {
        for name in &names {
            count += chunk
                .text
                .match_indices(name.as_str())
                .filter(|(at, _)| !chunk.text[at + name.len()..].starts_with(|c: char| c.is_ascii_digit()))
                .count();
        }
    }
    count
}

pub(super) fn track(draft: &mut Draft, path: PathId) -> Result<Done, LiveError> {
    let track = draft.doc.need_track(path)?;
    let tracks: Vec<Track<'_>> = draft.doc.tracks().collect();
    let doomed = with_children(&tracks, track);
    if doomed.len() == tracks.len() {
        return Err(LiveError::Refused {
            subject: path,
            reason: "a Set must have at least one track".into(),
            cure: "create another track first",
        });
    }
    let routings = routings_to(&draft.doc, &doomed);
    let mut warnings = Vec::new();
    if routings > 0 {
        warnings.push(format!("routings of other tracks that still name a deleted track: {routings}"));
    }
    let deleted: Vec<PathId> = doomed.iter().map(|t| t.path()).collect();
    let mut chunks: Vec<usize> = doomed.iter().map(|t| t.chunk).collect();
    chunks.sort_unstable();
    for chunk in chunks.into_iter().rev() {
        draft.remove(chunk);
    }
    let outcome = Outcome::Deleted(Deleted { deleted: deleted.clone(), shifted: true });
    Ok(Done { outcome, changed: deleted, warnings, shifted: true })
}
