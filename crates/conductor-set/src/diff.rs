//! Compares two Sets and lists the differences as edits. Changes that no edit can express are
//! reported as `other`. Not here: a text diff.

use crate::clip::Clip;
use crate::device::{FoundParam, class_name};
use crate::document::Document;
use crate::note::Note;
use crate::path::{ChainPart, PathId, TrackPart};
use crate::track::{Chain, Track, TrackKind};
use crate::xml::{El, number};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;

/// One difference.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Difference {
    /// The kind of edit that makes this change, or `other` when no edit can make it.
    pub op: &'static str,
    /// A path id in the newer Set (for deleted objects, in the older Set), or the name of a
    /// property of the Set.
    pub subject: String,
    /// Value in the older Set.
    pub before: Option<String>,
    /// Value in the newer Set.
    pub after: Option<String>,
}

/// The differences between two Sets.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Diff {
    /// Differences in the order of the Set.
    pub changes: Vec<Difference>,
    /// Number of differences.
    pub count: usize,
    /// The differences as text, one per line.
    pub text: String,
}

struct Changes(Vec<Difference>);

impl Changes {
    fn push(&mut self, op: &'static str, subject: impl ToString, before: Option<String>, after: Option<String>) {
        if before != after {
            self.0.push(Difference { op, subject: subject.to_string(), before, after });
        }
    }

    fn field(&mut self, op: &'static str, subject: impl ToString, name: &str, before: String, after: String) {
        if before != after {
            self.push(op, subject, Some(format!("{name} {before}")), Some(format!("{name} {after}")));
        }
    }
}

/// Pairs items by the first key, then the remaining items by the next key, and so on. Returns (old,
/// new) pairs; an item without a partner is paired with `None`.
fn pair<T: Copy>(old: &[T], new: &[T], keys: &[&dyn Fn(&T) -> String]) -> Vec<(Option<T>, Option<T>)> {
    let mut partner: Vec<Option<usize>> = vec![None; new.len()];
    let mut taken = vec![false; old.len()];
    for key in keys {
        let mut by_key: HashMap<String, Vec<usize>> = HashMap::new();
        for (i, item) in old.iter().enumerate().rev().filter(|(i, _)| !taken[*i]) {
            by_key.entry(key(item)).or_default().push(i);
        }
        for (j, item) in new.iter().enumerate() {
            if partner[j].is_none()
                && let Some(i) = by_key.get_mut(&key(item)).and_then(Vec::pop)
            {
                partner[j] = Some(i);
                taken[i] = true;
            }
        }
    }
    let gone = old.iter().zip(&taken).filter(|(_, taken)| !**taken).map(|(o, _)| (Some(*o), None));
    let there = new.iter().zip(&partner).map(|(n, p)| (p.and_then(|i| old.get(i)).copied(), Some(*n)));
    gone.chain(there).collect()
}

/// The differences from `old` to `new`. Chunks that both documents share are skipped, so the cost
/// of a preview depends only on the size of the edit.
pub fn diff(old: &Document, new: &Document) -> Diff {
    let mut changes = Changes(Vec::new());
    set_level(old, new, &mut changes);
    tracks(old, new, &mut changes);
    let changes = changes.0;
    let mut text = String::new();
    for c in &changes {
        let show = |v: &Option<String>| v.clone().unwrap_or_else(|| "-".into());
        let _ = writeln!(text, "{} {}: {} -> {}", c.op, c.subject, show(&c.before), show(&c.after));
    }
    Diff { count: changes.len(), changes, text }
}

fn set_level(old: &Document, new: &Document, changes: &mut Changes) {
    let shared = |index_old: usize, index_new: usize| Arc::ptr_eq(&old.chunks[index_old], &new.chunks[index_new]);
    if shared(0, 0) && shared(old.tail_index(), new.tail_index()) {
        return;
    }
    let before = changes.0.len();
    let (a, b) = (old.overview(), new.overview());
    changes.push("set_tempo", "tempo", a.tempo.map(number), b.tempo.map(number));
    let mut plain = |name: &str, x: Option<String>, y: Option<String>| changes.push("other", name, x, y);
    plain("timeSignature", a.time_signature, b.time_signature);
    plain("rootNote", a.root_note.map(|n| n.to_string()), b.root_note.map(|n| n.to_string()));
    plain("scaleName", a.scale_name, b.scale_name);
    plain("scaleMode", a.scale_mode.map(|m| m.to_string()), b.scale_mode.map(|m| m.to_string()));
    plain("gridQuantization", a.grid_quantization, b.grid_quantization);
    let (a, b) = (old.scenes(), new.scenes());
    for n in 0..a.scenes.len().max(b.scenes.len()) {
        let show = |s: &crate::song::Scene| {
            let tempo = s.tempo.map(|t| format!(", tempo {}", number(t))).unwrap_or_default();
            let signature = s.time_signature.as_ref().map(|t| format!(", {t}")).unwrap_or_default();
            format!("scene {:?}{tempo}{signature}", s.name)
        };
        changes.push("other", format!("scene:{n}"), a.scenes.get(n).map(show), b.scenes.get(n).map(show));
    }
    for n in 0..a.cue_points.len().max(b.cue_points.len()) {
        let show = |c: &crate::song::CuePoint| format!("locator {:?} at {}", c.name, number(c.beat));
        changes.push("other", format!("cuepoint:{n}"), a.cue_points.get(n).map(show), b.cue_points.get(n).map(show));
    }
    if let (Some(a), Some(b)) = (old.main(), new.main()) {
        chain(a, b, changes);
    }
    let head_differs = old.chunks[0].text != new.chunks[0].text && !only_next_pointee(old, new);
    let tail_differs = old.chunks[old.tail_index()].text != new.chunks[new.tail_index()].text;
    if (head_differs || tail_differs) && changes.0.len() == before {
        changes.push(
            "other",
            "song",
            Some("XML".into()),
            Some("the XML differs in a part that no edit can change".into()),
        );
    }
}

/// Whether the heads differ only in the next free id. Edits to other chunks increase this id.
fn only_next_pointee(old: &Document, new: &Document) -> bool {
    let without = |doc: &Document| {
        let text = &doc.chunks[0].text;
        let span =
            doc.in_set("NextPointeeId").and_then(|(chunk, el)| (chunk == 0).then(|| el.attr_span("Value")).flatten());
        span.map(|s| (text[..s.start].to_owned(), text[s.end..].to_owned()))
    };
    without(old).is_some() && without(old) == without(new)
}

fn tracks(old: &Document, new: &Document, changes: &mut Changes) {
    let (a, b): (Vec<Track<'_>>, Vec<Track<'_>>) = (old.tracks().collect(), new.tracks().collect());
    let id = |t: &Track<'_>| format!("{}:{:?}", t.kind.as_str(), t.xml_id());
    let place = |t: &Track<'_>| format!("{}:{}:{}", t.kind.as_str(), t.name(), t.index);
    let show = |t: Track<'_>| format!("{} track {:?}", t.kind.as_str(), t.name());
    for pair in pair(&a, &b, &[&id, &place]) {
        match pair {
            (Some(x), Some(y)) if Arc::ptr_eq(&old.chunks[x.chunk], &new.chunks[y.chunk]) => {}
            (Some(x), Some(y)) => track(old, new, x, y, changes),
            (Some(x), None) => changes.push("delete_track", x.path(), Some(show(x)), None),
            (None, Some(y)) => {
                changes.push("create_track", y.path(), None, Some(show(y)));
                for clip in y.session().into_iter().chain(y.arrangement()) {
                    changes.push("create_midi_clip", clip.path, None, Some(clip_text(clip)));
                }
            }
            (None, None) => {}
        }
    }
    let (a, b): (Vec<Chain<'_>>, Vec<Chain<'_>>) = (old.returns().collect(), new.returns().collect());
    for n in 0..a.len().max(b.len()) {
        match (a.get(n), b.get(n)) {
            (Some(x), Some(y)) if Arc::ptr_eq(&old.chunks[x.chunk], &new.chunks[y.chunk]) => {}
            (Some(x), Some(y)) => {
                changes.field(
                    "other",
                    y.owner.path(),
                    "name",
                    crate::track::name_of(x.el),
                    crate::track::name_of(y.el),
                );
                chain(*x, *y, changes);
            }
            (x, y) => {
                let show = |c: &Chain<'_>| format!("return track {:?}", crate::track::name_of(c.el));
                changes.push("other", format!("returntrack:{n}"), x.map(show), y.map(show));
            }
        }
    }
}

fn track(old: &Document, new: &Document, a: Track<'_>, b: Track<'_>, changes: &mut Changes) {
    if old.chunks[a.chunk].text == new.chunks[b.chunk].text {
        return;
    }
    let before = changes.0.len();
    let subject = b.path();
    changes.field("set_track_props", subject, "name", format!("{:?}", a.name()), format!("{:?}", b.name()));
    for (name, x, y) in [("mute", a.mute(), b.mute()), ("solo", a.solo(), b.solo()), ("arm", a.arm(), b.arm())] {
        changes.field("set_track_props", subject, name, x.to_string(), y.to_string());
    }
    changes.field("other", subject, "color", a.color_index().to_string(), b.color_index().to_string());
    let group = |t: Track<'_>| t.el.integer("TrackGroupId").unwrap_or(-1).to_string();
    changes.field("other", subject, "group", group(a), group(b));
    chain(a.chain(), b.chain(), changes);
    if b.kind != TrackKind::Group {
        slots(a, b, changes);
        arrangement(a, b, changes);
    }
    if changes.0.len() == before {
        changes.push(
            "other",
            subject,
            Some("XML".into()),
            Some("the XML differs in a part that no edit can change".into()),
        );
    }
}

fn chain(a: Chain<'_>, b: Chain<'_>, changes: &mut Changes) {
    params(&a.mixer_params(), &b.mixer_params(), changes);
    let x: Vec<(u32, El<'_>)> = (0..).zip(a.devices()).collect();
    let y: Vec<(u32, El<'_>)> = (0..).zip(b.devices()).collect();
    let id = |d: &(u32, El<'_>)| format!("{}:{:?}", d.1.name(), d.1.attr_raw("Id"));
    let place = |d: &(u32, El<'_>)| format!("{}:{}", d.1.name(), d.0);
    for pair in pair(&x, &y, &[&id, &place]) {
        match pair {
            (Some((m, x)), Some((n, y))) if x.raw() != y.raw() => {
                params(&a.device_params(m, x), &b.device_params(n, y), changes);
            }
            (Some(_), Some(_)) | (None, None) => {}
            (Some((m, x)), None) => {
                changes.push("other", a.owner.part(ChainPart::Device(m)), Some(class_name(x)), None)
            }
            (None, Some((n, y))) => {
                changes.push("insert_device", b.owner.part(ChainPart::Device(n)), None, Some(class_name(y)));
            }
        }
    }
}

fn params(old: &[FoundParam<'_>], new: &[FoundParam<'_>], changes: &mut Changes) {
    let before: HashMap<&str, &FoundParam<'_>> = old.iter().map(|p| (p.name.as_str(), p)).collect();
    let same_names = old.len() == new.len();
    for (n, param) in new.iter().enumerate() {
        // Pair by position if the number of parameters is the same, because all parameters of a
        // plug-in have the same name.
        let was = if same_names { old.get(n) } else { before.get(param.name.as_str()).copied() };
        if let Some(was) = was {
            let (x, y) = (was.info(), param.info());
            let show = |v: f64| format!("{} {}", param.name, number(v));
            changes.push("set_param", param.id, Some(show(x.value)), Some(show(y.value)));
        }
    }
}

fn clip_text(clip: Clip<'_>) -> String {
    let info = clip.info();
    let notes = if info.is_midi { format!(", {} notes", clip.notes().len()) } else { String::new() };
    format!("clip {:?}, {} beats{notes}", info.name, number(info.duration))
}

fn slots(a: Track<'_>, b: Track<'_>, changes: &mut Changes) {
    fn by_slot(t: Track<'_>) -> HashMap<PathId, Clip<'_>> {
        t.session().into_iter().map(|c| (relative(c.path), c)).collect()
    }
    let (old, new) = (by_slot(a), by_slot(b));
    let mut keys: Vec<PathId> = old.keys().chain(new.keys()).copied().collect();
    keys.sort_unstable();
    keys.dedup();
    for key in keys {
        clips(old.get(&key).copied(), new.get(&key).copied(), changes);
    }
}

/// The path with its track number replaced by 0, so that a clip is found even if its track moved.
fn relative(path: PathId) -> PathId {
    if let PathId::OnTrack(_, part) = path { PathId::OnTrack(0, part) } else { path }
}

fn arrangement(a: Track<'_>, b: Track<'_>, changes: &mut Changes) {
    let id = |c: &Clip<'_>| format!("{:?}:{:?}", c.el.attr_raw("Id"), c.el.attr_raw("Time"));
    let place = |c: &Clip<'_>| format!("{}:{}", c.name(), c.start());
    for (x, y) in pair(&a.arrangement(), &b.arrangement(), &[&id, &place]) {
        clips(x, y, changes);
    }
}

fn clips(old: Option<Clip<'_>>, new: Option<Clip<'_>>, changes: &mut Changes) {
    match (old, new) {
        (Some(x), Some(y)) if x.el.raw() != y.el.raw() => {
            let before = changes.0.len();
            clip_props(x, y, changes);
            notes(x, y, changes);
            if changes.0.len() == before {
                changes.push(
                    "other",
                    y.path,
                    Some("XML".into()),
                    Some("the XML differs in a part that no edit can change".into()),
                );
            }
        }
        (Some(x), None) => changes.push("delete_clip", x.path, Some(clip_text(x)), None),
        (None, Some(y)) => {
            let op =
                if matches!(y.path, PathId::OnTrack(_, TrackPart::SlotClip(_))) { "create_midi_clip" } else { "other" };
            changes.push(op, y.path, None, Some(clip_text(y)));
        }
        (Some(_), Some(_)) | (None, None) => {}
    }
}

fn clip_props(x: Clip<'_>, y: Clip<'_>, changes: &mut Changes) {
    let (a, b) = (x.info(), y.info());
    let mut field = |name: &str, p: String, q: String| changes.field("set_clip_props", y.path, name, p, q);
    field("name", format!("{:?}", a.name), format!("{:?}", b.name));
    field("muted", a.muted.to_string(), b.muted.to_string());
    field("color", format!("#{:06X}", a.color), format!("#{:06X}", b.color));
    field("looping", a.looping.to_string(), b.looping.to_string());
    for (name, p, q) in [
        ("startTime", a.start_time, b.start_time),
        ("endTime", a.end_time, b.end_time),
        ("loopStart", a.loop_start, b.loop_start),
        ("loopEnd", a.loop_end, b.loop_end),
        ("startMarker", a.start_marker, b.start_marker),
        ("endMarker", a.end_marker, b.end_marker),
    ] {
        field(name, number(p), number(q));
    }
}

fn notes(x: Clip<'_>, y: Clip<'_>, changes: &mut Changes) {
    let (old, new) = (x.notes(), y.notes());
    if old == new {
        return;
    }
    let place = |n: &Note| (n.pitch, n.start_time.to_bits());
    let was: HashMap<_, &Note> = old.iter().map(|n| (place(n), n)).collect();
    let is: HashMap<_, &Note> = new.iter().map(|n| (place(n), n)).collect();
    let added = new.iter().filter(|n| !was.contains_key(&place(n))).count();
    let removed = old.iter().filter(|n| !is.contains_key(&place(n))).count();
    let altered = new.iter().filter(|n| was.get(&place(n)).is_some_and(|o| *o != *n)).count();
    let mut first: Vec<&Note> = new.iter().filter(|n| was.get(&place(n)).is_none_or(|o| *o != *n)).collect();
    first.sort_by(|a, b| a.order(b));
    let at = first.first().map(|n| format!(", first at beat {}", number(n.start_time))).unwrap_or_default();
    let after = format!("{} notes ({added} added, {removed} removed, {altered} altered{at})", new.len());
    changes.push("replace_notes", y.path, Some(format!("{} notes", old.len())), Some(after));
}
