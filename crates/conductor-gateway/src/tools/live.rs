//! The `live_*` tools: they read and edit Live Sets, as files or in a running Live. One file per
//! tool; this file contains the shared parts.
//!
//! A tool parses its arguments, finds its Set, calls the host once, and builds the result. Not
//! here: the hosts (`hosts/live`), and the effect of an edit on a document (`conductor-set`).

mod errors;
mod live_create_midi_clip;
mod live_create_track;
mod live_delete_clip;
mod live_delete_track;
mod live_diff_set;
mod live_find_track;
mod live_fire_clip;
mod live_fire_scene;
mod live_get_notes;
mod live_get_song_overview;
mod live_get_track;
mod live_insert_device;
mod live_list_clips;
mod live_list_devices;
mod live_list_scenes;
mod live_list_sets;
mod live_new_set;
mod live_open_set;
mod live_redo;
mod live_render_clip;
mod live_render_track;
mod live_save_set;
mod live_set_clip_props;
mod live_set_notes;
mod live_set_param;
mod live_set_tempo;
mod live_set_track_props;
mod live_transport;
mod live_undo;
mod prelude;
mod prompts;
mod resources;
mod schema;

pub use prompts::add_prompts;
pub use resources::add_resources;

use super::catalog::{AskFacts, Catalog, CatalogError, Definition, ResolveTarget, Target, Tool};
use crate::pipeline::call::Output;
use crate::pipeline::gate::Clearance;
use crate::studio::Studio;
use conductor_core::digest::Digest;
use conductor_core::error::{Code, Subject, ToolError};
use conductor_core::policy::{ByArgs, Tier};
use conductor_hosts::live::sessions::SessionKey;
use conductor_hosts::live::{Live, LiveHostError, LiveSet, Mode, Way, blocking, is_running};
use conductor_set::{Applied, LiveEdit, PathId, Resource, TrackPart};
pub use errors::refused;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use std::future::Future;
use std::sync::Arc;

pub const TOOLSET: &str = "live";
/// The host of all these tools. When a Set is opened, their circuit breakers are reset.
const HOST: &str = "live";

/// Adds the tools, resources and prompts of Live Sets to a catalog.
pub fn add(catalog: &mut Catalog, live: &Arc<Live>) -> Result<(), CatalogError> {
    for definition in definitions(live) {
        catalog.add(Tool::new(definition)?)?;
    }
    add_resources(catalog, live)?;
    add_prompts(catalog, live)
}

pub fn definitions(live: &Arc<Live>) -> Vec<Definition> {
    let mut all = vec![
        live_create_midi_clip::definition(live),
        live_create_track::definition(live),
        live_delete_clip::definition(live),
        live_delete_track::definition(live),
        live_diff_set::definition(live),
        live_find_track::definition(live),
        live_fire_clip::definition(live),
        live_fire_scene::definition(live),
        live_get_notes::definition(live),
        live_get_song_overview::definition(live),
        live_get_track::definition(live),
        live_insert_device::definition(live),
        live_list_clips::definition(live),
        live_list_devices::definition(live),
        live_list_scenes::definition(live),
        live_list_sets::definition(live),
        live_new_set::definition(live),
        live_open_set::definition(live),
        live_redo::definition(live),
        live_render_clip::definition(live),
        live_render_track::definition(live),
        live_save_set::definition(live),
        live_set_clip_props::definition(live),
        live_set_notes::definition(live),
        live_set_param::definition(live),
        live_set_tempo::definition(live),
        live_set_track_props::definition(live),
        live_transport::definition(live),
        live_undo::definition(live),
    ];
    for definition in &mut all {
        definition.host = Some(HOST.into());
        let deletes = matches!(definition.name.as_ref(), "live_delete_clip" | "live_delete_track");
        definition.target = Some(set_target(live, deletes));
    }
    all
}

/// The Set of a call. The question about a deletion shows the Set.
fn set_target(live: &Arc<Live>, deletes: bool) -> ResolveTarget {
    let live = Arc::clone(live);
    Arc::new(move |_, call| {
        let live = Arc::clone(&live);
        let key = SessionKey::of(&call.principal, call.conn.0);
        let named = call.arguments.get("setId").and_then(Value::as_str).map(str::to_owned);
        let dry = call.arguments.get("dryRun") == Some(&Value::Bool(true));
        Box::pin(async move {
            if !deletes || dry {
                return live
                    .meant(&key, named.as_deref())
                    .map_or_else(Target::default, |set| Target::keyed(set.id.clone()));
            }
            let set = match live.set(&key, named.as_deref()).await {
                Ok(set) => set,
                Err(refusal) => return Target::refused(refused(refusal)),
            };
            let state = set.host.state();
            let file = state.path.map(|it| format!(", {}", it.display())).unwrap_or_default();
            Target {
                shown: vec![("Set", format!("{} ({}{file})", set.id, state.host))],
                forms: vec![json!({ "setId": set.id })],
                ..Target::keyed(set.id.clone())
            }
        })
    })
}

/// One call of a Live tool.
struct Ask {
    studio: Arc<Studio>,
    live: Arc<Live>,
    key: SessionKey,
    arguments: Map<String, Value>,
}

impl Ask {
    fn new(studio: Arc<Studio>, live: Arc<Live>, clearance: &Clearance, arguments: Value) -> Ask {
        let arguments = match whole_numbers(arguments) {
            Value::Object(arguments) => arguments,
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Map::new(),
        };
        Ask { studio, live, key: SessionKey::of(clearance.principal(), clearance.conn().0), arguments }
    }

    /// Removes an optional argument and parses it. The arguments that remain belong to the edit.
    fn take<T: DeserializeOwned>(&mut self, name: &str) -> Result<Option<T>, ToolError> {
        let Some(value) = self.arguments.remove(name) else { return Ok(None) };
        serde_json::from_value(value).map(Some).map_err(|fault| {
            ToolError::new(Code::BadInput, format!("{name}: {fault}")).subject(Subject::Argument(name.into()))
        })
    }

    fn need<T: DeserializeOwned>(&mut self, name: &str) -> Result<T, ToolError> {
        self.take(name)?.ok_or_else(|| {
            ToolError::new(Code::BadInput, format!("{name} is missing")).subject(Subject::Argument(name.into()))
        })
    }

    fn id(&mut self, name: &str) -> Result<PathId, ToolError> {
        self.need::<String>(name)?.parse().map_err(|error| refused(LiveHostError::Set(error)))
    }

    async fn set(&mut self) -> Result<Arc<LiveSet>, ToolError> {
        let named: Option<String> = self.take("setId")?;
        self.live.set(&self.key, named.as_deref()).await.map_err(refused)
    }

    /// Notifies subscribers of the resources that a write changed.
    fn notify(&self, set: &LiveSet, changed: &[PathId], shifted: bool) {
        notify_watchers(&self.studio, set, changed, shifted);
    }
}

/// Sends a change event for each changed resource, under both of its URIs.
fn notify_watchers(studio: &Studio, set: &LiveSet, changed: &[PathId], shifted: bool) {
    let tracks = set.host.known_ids().tracks;
    for resource in Resource::touched_by(changed, tracks, shifted) {
        let uri = resource.uri();
        studio.events.uri_changed(&format!("{uri}?set={}", set.id));
        studio.events.uri_changed(&uri);
    }
    studio.events.uri_changed("ableton://sets");
}

/// Notifies subscribers of changes that a person makes in a running Live.
pub fn connect(studio: &Arc<Studio>, live: &Live) {
    // A strong reference would form a cycle: studio, tools, Sets, studio.
    let studio = Arc::downgrade(studio);
    live.on_change(move |set, changed, shifted| {
        if let Some(studio) = studio.upgrade() {
            notify_watchers(&studio, set, changed, shifted);
        }
    });
}

/// Converts `60.0` to the integer 60: JSON Schema accepts both as an integer.
fn whole_numbers(value: Value) -> Value {
    match value {
        Value::Number(number) => match number.as_f64() {
            #[expect(clippy::cast_possible_truncation, reason = "checked to be whole and exact")]
            Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < 9.0e15 => Value::from(float as i64),
            Some(_) | None => Value::Number(number),
        },
        Value::Array(items) => items.into_iter().map(whole_numbers).collect(),
        Value::Object(members) => members.into_iter().map(|(key, value)| (key, whole_numbers(value))).collect(),
        other @ (Value::Null | Value::Bool(_) | Value::String(_)) => other,
    }
}

fn to_object(value: &impl Serialize) -> Result<Map<String, Value>, ToolError> {
    match serde_json::to_value(value) {
        Ok(Value::Object(members)) => Ok(members),
        Ok(_) => Err(ToolError::new(Code::Internal, "the result is not an object")),
        Err(fault) => Err(ToolError::new(Code::Internal, format!("the result cannot be written: {fault}"))),
    }
}

/// A tool that only reads. After any read, the session has seen shifted ids.
fn reading<F, R>(live: &Arc<Live>, name: &'static str, run: F) -> Definition
where
    F: Fn(Ask, Arc<LiveSet>) -> R + Clone + Send + Sync + 'static,
    R: Future<Output = Result<Output, ToolError>> + Send + 'static,
{
    on_set(live, name, Tier::ReadOnly, run)
}

fn on_set<F, R>(live: &Arc<Live>, name: &'static str, tier: Tier, run: F) -> Definition
where
    F: Fn(Ask, Arc<LiveSet>) -> R + Clone + Send + Sync + 'static,
    R: Future<Output = Result<Output, ToolError>> + Send + 'static,
{
    let live = Arc::clone(live);
    Definition::new(name, tier, TOOLSET, move |studio, clearance, arguments| {
        let (live, run) = (Arc::clone(&live), run.clone());
        async move {
            let mut ask = Ask::new(studio, Arc::clone(&live), &clearance, arguments);
            let set = ask.set().await?;
            let key = ask.key.clone();
            if tier == Tier::ReadOnly {
                set.host.refresh().await.map_err(refused)?;
            }
            // Read this before the work, so that a shift during the work counts as unseen.
            let structure = set.host.state().structure;
            let done = run(ask, Arc::clone(&set)).await?;
            live.saw(&key, &set, structure);
            Ok(done)
        }
    })
}

/// A tool that opens, saves or moves Sets.
fn on_files<F, R>(live: &Arc<Live>, name: &'static str, run: F) -> Definition
where
    F: Fn(Ask) -> R + Clone + Send + Sync + 'static,
    R: Future<Output = Result<Output, ToolError>> + Send + 'static,
{
    let live = Arc::clone(live);
    Definition::new(name, Tier::Stateful, TOOLSET, move |studio, clearance, arguments| {
        let (live, run) = (Arc::clone(&live), run.clone());
        async move { run(Ask::new(studio, live, &clearance, arguments)).await }
    })
}

/// A tool with one edit. Its arguments are the JSON of the edit, its result is the outcome.
fn editing(live: &Arc<Live>, name: &'static str, edit: &'static str) -> Definition {
    let run = move |mut ask: Ask, set: Arc<LiveSet>| async move {
        let expected: Option<String> = ask.take("expectRevision")?;
        let mode = if ask.take("dryRun")?.unwrap_or(false) { Mode::Preview } else { Mode::Apply };
        let edit = parse_edit(&ask.arguments, edit)?;
        let guard = ask.live.guard(&ask.key, &set, expected);
        let turn = set.lane.enter().await.map_err(refused)?;
        let mut applied = Arc::clone(&set.host).write(turn, vec![edit.clone()], guard, mode).await.map_err(refused)?;
        if mode == Mode::Apply {
            note_reading(&ask, &set, &edit, &mut applied);
            if applied.undo_steps > 0 {
                ask.notify(&set, &applied.changed, applied.shifted);
            }
        }
        ask.live.saw(&ask.key, &set, if applied.shifted { set.host.state().structure } else { 0 });
        let result = applied
            .result(mode == Mode::Preview)
            .ok_or_else(|| ToolError::new(Code::Internal, "the edit had no outcome"))?;
        let mut value = to_object(&result)?;
        if matches!(edit, LiveEdit::SetTempo { .. }) {
            add_identity(&mut value, &set);
        }
        Ok(Output::new(Value::Object(value)))
    };
    let mut definition = on_set(live, name, Tier::Stateful, run);
    definition.state_hash = Some(state_hash(live));
    definition.summary = Some(Arc::new(move |arguments| summarize(name, arguments)));
    definition
}

/// A deletion. In a running Live a person must approve it, because it is audible at once.
fn deleting(live: &Arc<Live>, name: &'static str, edit: &'static str, id: &'static str) -> Definition {
    let mut definition = editing(live, name, edit);
    definition.destructive = Some(true);
    let (decides, shows, checks) = (Arc::clone(live), Arc::clone(live), Arc::clone(live));
    definition.decide = Some(Arc::new(move |_, arguments| {
        // Do not ask a person about a call that the host would refuse.
        let preview = arguments.get("dryRun") == Some(&Value::Bool(true));
        let clip = arguments.get("clipId").and_then(Value::as_str).and_then(|it| it.parse().ok());
        let arranged = matches!(clip, Some(PathId::OnTrack(_, TrackPart::Clip(_))));
        let refused = preview || (arranged && decides.reaches_session_clips_only(named_set(arguments)));
        if !refused && decides.may_be_running(named_set(arguments)) { ByArgs::Ask } else { ByArgs::Allow }
    }));
    definition.facts = Some(Arc::new(move |_, arguments| facts_of_deletion(&shows, arguments, id)));
    let run = Arc::clone(&definition.run);
    definition.run = Arc::new(move |studio, clearance, mut arguments| {
        let (live, run) = (Arc::clone(&checks), Arc::clone(&run));
        Box::pin(async move {
            if !live.may_be_running(named_set(&arguments)) {
                // The call itself may attach a running Live, which did not exist when policy
                // decided. Use the Set's id from here on, so that no other call of the session can
                // replace it.
                let key = SessionKey::of(clearance.principal(), clearance.conn().0);
                let set = live.set(&key, named_set(&arguments)).await.map_err(refused)?;
                if is_running(&set.id) {
                    return Err(ToolError::new(
                        Code::StaleReference,
                        "this session has read nothing of the running Live",
                    )
                    .hint(format!("Call live_get_song_overview, then repeat with setId {}.", set.id))
                    .subject(Subject::Argument("setId".into())));
                }
                arguments["setId"] = Value::from(set.id.clone());
            }
            run(studio, clearance, arguments).await
        })
    });
    definition
}

fn named_set(arguments: &Value) -> Option<&str> {
    arguments.get("setId").and_then(Value::as_str)
}

/// Facts for the approver of a deletion in a running Live. They include the name of the deleted
/// item, because an id is only a position.
fn facts_of_deletion(live: &Live, arguments: &Value, id: &str) -> AskFacts {
    let named = named_set(arguments);
    let running: Vec<Arc<LiveSet>> =
        live.sets().into_iter().filter(|it| named.map_or(is_running(&it.id), |id| id == it.id)).collect();
    let text = arguments.get(id).and_then(Value::as_str).unwrap_or_default();
    let mut facts = Vec::new();
    for set in running {
        let name = text.parse().ok().and_then(|it: PathId| set.host.known_ids().names.get(&it).cloned());
        facts.push(("deletes".into(), name.map_or_else(|| text.to_owned(), |name| format!("{text} {name:?}"))));
        facts.push(("in".into(), format!("the Set that is open in Live ({})", set.id)));
    }
    AskFacts { facts, ..AskFacts::default() }
}

fn summarize(name: &str, arguments: &Value) -> String {
    let shown = super::schema::cut(&arguments.to_string(), 300);
    format!("{name} {shown}")
}

/// Hash of the Set's state. A call without a setId uses the Set of its session, which is not known
/// here. The hash then covers every open Set.
fn state_hash(live: &Arc<Live>) -> super::catalog::StateHash {
    let live = Arc::clone(live);
    Arc::new(move |_studio, arguments| {
        let named = arguments.get("setId").and_then(Value::as_str).map(str::to_owned);
        let sets = live.sets();
        let states: Vec<Value> = sets
            .iter()
            .filter(|set| named.as_ref().is_none_or(|it| *it == set.id))
            .map(|set| json!([set.id, set.host.state().revision]))
            .collect();
        Box::pin(std::future::ready(Digest::of_json(&Value::Array(states)).ok()))
    })
}

fn parse_edit(arguments: &Map<String, Value>, edit: &str) -> Result<LiveEdit, ToolError> {
    // Check ids first: the error of a malformed id explains the grammar.
    for key in ["trackId", "clipId", "slotId", "paramId"] {
        if let Some(text) = arguments.get(key).and_then(Value::as_str) {
            text.parse::<PathId>().map_err(|error| refused(LiveHostError::Set(error)))?;
        }
    }
    let mut body = arguments.clone();
    // Any index beyond the end of a chain means its end.
    if let Some(index) = body.get("index").and_then(Value::as_u64) {
        body.insert("index".into(), Value::from(index.min(u64::from(u32::MAX))));
    }
    body.insert("edit".into(), Value::from(edit));
    serde_json::from_value(Value::Object(body)).map_err(|fault| ToolError::new(Code::BadInput, fault.to_string()))
}

/// Warns when a replaced clip had notes that this session never read.
fn note_reading(ask: &Ask, set: &LiveSet, edit: &LiveEdit, applied: &mut Applied) {
    if applied.shifted {
        ask.live.sessions(|sessions| sessions.shifted(&set.id));
    }
    let LiveEdit::ReplaceNotes { clip_id, window, .. } = edit else { return };
    let Some(conductor_set::Outcome::Notes(written)) = applied.outcomes.first() else { return };
    let (clip, count, removed) = (*clip_id, written.count, written.removed);
    let warning = ask.live.sessions(|sessions| {
        let read = sessions.notes_read(&ask.key, &set.id, clip);
        if window.is_none() {
            sessions.wrote_notes(&ask.key, &set.id, clip, count);
        }
        (window.is_none() && removed > read).then(|| {
            format!("{removed} notes were removed, but only {read} notes of this clip were read before; live_undo restores them")
        })
    });
    applied.warnings.extend(warning);
}

/// Adds members that the document itself does not have.
fn add_identity(value: &mut Map<String, Value>, set: &LiveSet) {
    let state = set.host.state();
    value.insert("setId".into(), Value::from(set.id.clone()));
    value.insert("host".into(), Value::from(state.host));
    value.insert("dirty".into(), Value::from(state.dirty));
    value.insert("path".into(), state.path.map_or(Value::Null, |path| Value::from(path.to_string_lossy())));
}

/// The overview of a Set.
async fn overview(set: &Arc<LiveSet>) -> Result<Map<String, Value>, ToolError> {
    let mut value = to_object(&set.host.overview().await.map_err(refused)?)?;
    add_identity(&mut value, set);
    if let Some(document) = Arc::clone(&set.host).document()
        // A file that cannot be read is not reported as changed; saving checks it again.
        && blocking(move || document.changed_on_disk()).await.unwrap_or(false)
    {
        value.insert("externalChange".into(), Value::Bool(true));
    }
    Ok(value)
}

/// A tool that undoes or redoes.
fn stepping(live: &Arc<Live>, name: &'static str, way: Way) -> Definition {
    let run = move |mut ask: Ask, set: Arc<LiveSet>| async move {
        let expected: Option<String> = ask.take("expectRevision")?;
        let mode = if ask.take("dryRun")?.unwrap_or(false) { Mode::Preview } else { Mode::Apply };
        let steps: u32 = ask.take("steps")?.unwrap_or(1);
        let guard = ask.live.guard(&ask.key, &set, expected);
        let turn = set.lane.enter().await.map_err(refused)?;
        let done = Arc::clone(&set.host).step(turn, way, steps, guard, mode).await.map_err(refused)?;
        let stepped = &done.stepped;
        let (word, undo_steps) = match (way, mode) {
            (Way::Undo, _) => ("undone", 0),
            (Way::Redo, Mode::Preview) => ("redone", 0),
            (Way::Redo, Mode::Apply) => ("redone", stepped.count),
        };
        let mut value = json!({
            word: stepped.count, "labels": stepped.labels, "canUndo": stepped.can_undo, "canRedo": stepped.can_redo,
            "revision": stepped.revision, "undoSteps": undo_steps,
        });
        if stepped.shifted {
            value["shifted"] = Value::Bool(true);
        }
        if !done.warnings.is_empty() {
            value["warnings"] = json!(done.warnings);
        }
        match mode {
            Mode::Preview => value["diff"] = json!(done.diff),
            Mode::Apply if stepped.count > 0 => {
                let changed: Vec<PathId> = done.diff.changes.iter().filter_map(|it| it.subject.parse().ok()).collect();
                ask.notify(&set, &changed, stepped.shifted);
                if stepped.shifted {
                    ask.live.sessions(|sessions| sessions.shifted(&set.id));
                    ask.live.saw(&ask.key, &set, set.host.state().structure);
                }
            }
            Mode::Apply => {}
        }
        Ok(Output::new(value))
    };
    let mut definition = on_set(live, name, Tier::Stateful, run);
    definition.state_hash = Some(state_hash(live));
    definition
}
