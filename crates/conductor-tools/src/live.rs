//! The `live_*` tools: they read and edit Live Sets, as files or in a running Live. One file per
//! tool; this file contains the shared parts.
//!
//! A tool parses its arguments, finds its Set, calls the host once, and builds the result. Not
//! here: the hosts (`hosts/live`), and the effect of an edit on a document (`conductor-set`).

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

pub use prompts::add_prompts;
pub use resources::add_resources;

use conductor_core::digest::Digest;
use conductor_core::error::{Code, Subject, ToolError};
use conductor_core::policy::{ByArgs, Tier};
use conductor_gateway::catalog::typed::{Answer, Context, answer_schema, parse, tool};
use conductor_gateway::catalog::{AskFacts, Catalog, CatalogError, Definition, ResolveTarget, Target, Tool};
use conductor_gateway::live::errors::refused;
use conductor_gateway::live::notify_watchers;
use conductor_gateway::studio::Studio;
use conductor_hosts::live::sessions::SessionKey;
use conductor_hosts::live::{Live, LiveHostError, LiveSet, Mode, Op, Way, blocking, is_running};
use conductor_set::{Applied, Deleted, Diff, LiveEdit, Outcome, Overview, PathId, Stepped, TrackPart, WriteResult};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
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
        definition.target = Some(set_target(live, definition.destructive == Some(true)));
    }
    all
}

/// The Set of a call. The question about a deletion shows the Set.
fn set_target(live: &Arc<Live>, deletes: bool) -> ResolveTarget {
    let live = Arc::clone(live);
    Arc::new(move |_, call| {
        let live = Arc::clone(&live);
        let key = SessionKey::of(&call.principal, call.conn.0);
        let (named, preview) = (named_set(&call.arguments), call.arguments.get("dryRun") == Some(&Value::Bool(true)));
        Box::pin(async move {
            if !deletes || preview {
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

/// The trait bounds of a tool's arguments.
trait Arguments: DeserializeOwned + JsonSchema + Send + 'static {}
impl<A: DeserializeOwned + JsonSchema + Send + 'static> Arguments for A {}

/// A path id as the caller wrote it. A tool parses it, because the error of the parser explains the
/// grammar.
#[derive(Deserialize, JsonSchema)]
struct Id(#[schemars(length(min = 1))] String);

impl Id {
    fn path(&self) -> Result<PathId, ToolError> {
        self.0.parse().map_err(|error| refused(LiveHostError::Set(error)))
    }
}

/// The arguments of a tool that works on one Set.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct OnSet<A> {
    #[serde(flatten)]
    own: A,
    /// Default: the current Set.
    #[schemars(length(min = 1))]
    set_id: Option<String>,
}

/// The arguments of a tool that changes a Set.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Write<A> {
    #[serde(flatten)]
    own: A,
    /// Fail if the Set has another revision.
    expect_revision: Option<String>,
    /// Only return the diff.
    #[serde(default)]
    dry_run: bool,
}

impl<A> Write<A> {
    fn mode(&self) -> Mode {
        if self.dry_run { Mode::Preview } else { Mode::Apply }
    }
}

/// One call to a Live tool.
struct Ask {
    studio: Arc<Studio>,
    live: Arc<Live>,
    key: SessionKey,
    /// Whether this call attached a running Live after policy had decided about the call.
    attached: bool,
}

impl Ask {
    fn new(live: Arc<Live>, context: Context) -> Ask {
        let key = SessionKey::of(context.clearance.principal(), context.clearance.conn().0);
        Ask { studio: context.studio, live, key, attached: false }
    }

    async fn set(&self, named: Option<&str>) -> Result<Arc<LiveSet>, ToolError> {
        self.live.set(&self.key, named).await.map_err(refused)
    }

    /// Notifies subscribers of the resources that a write changed.
    fn notify(&self, set: &LiveSet, changed: &[PathId], shifted: bool) {
        notify_watchers(&self.studio, set, changed, shifted);
    }
}

/// A tool that works on one Set. Ids are positions. After a successful call, all shifts of ids that
/// happened before the call count as seen by the session.
fn on_set<A, T, F, R>(live: &Arc<Live>, name: &'static str, tier: Tier, run: F) -> Definition
where
    A: Arguments,
    T: Answer,
    F: Fn(Arc<Ask>, Arc<LiveSet>, A) -> R + Clone + Send + Sync + 'static,
    R: Future<Output = Result<T, ToolError>> + Send + 'static,
{
    tool(name, tier, TOOLSET, live, move |live, context, args: OnSet<A>| {
        let (mut ask, run) = (Ask::new(live, context), run.clone());
        async move {
            let named = args.set_id.as_deref();
            let known = ask.live.may_be_running(named);
            let set = ask.set(named).await?;
            ask.attached = !known && is_running(&set.id);
            let ask = Arc::new(ask);
            if tier == Tier::ReadOnly {
                set.host.refresh().await.map_err(refused)?;
            }
            // Read the counter before the work, so that a shift of ids during the work counts as
            // unseen.
            let structure = set.host.state().structure;
            let done = run(Arc::clone(&ask), Arc::clone(&set), args.own).await?;
            ask.live.saw(&ask.key, &set, structure);
            Ok(done)
        }
    })
}

/// A launched clip or scene.
#[derive(Serialize, JsonSchema)]
struct Launched {
    /// Id of the clip, slot or scene.
    id: PathId,
    /// State after the launch.
    state: &'static str,
}

async fn launch(set: &LiveSet, id: PathId) -> Result<Launched, ToolError> {
    set.needs(Op::Launch).map_err(refused)?;
    Ok(Launched { id, state: set.host.launch(id).await.map_err(refused)? })
}

/// The answer of an edit.
#[derive(Serialize, JsonSchema)]
struct Written<'a> {
    #[serde(flatten)]
    result: WriteResult<'a, &'a Outcome>,
    /// Only for an edit that returns the overview.
    #[serde(flatten)]
    identity: Option<Identity>,
}

/// Converts the arguments of a tool call to an edit.
type MakeEdit<A> = fn(A) -> Result<LiveEdit, ToolError>;

/// A tool with one edit. `O` is the outcome of the edit.
fn editing<A: Arguments, O: JsonSchema>(live: &Arc<Live>, name: &'static str, edit: MakeEdit<A>) -> Definition {
    let run = move |ask: Arc<Ask>, set: Arc<LiveSet>, args: Write<A>| async move {
        let mode = args.mode();
        let edit = edit(args.own)?;
        if ask.attached && matches!(edit, LiveEdit::DeleteClip { .. } | LiveEdit::DeleteTrack { .. }) {
            let message = "this session has not read the running Live yet";
            return Err(ToolError::new(Code::StaleReference, message)
                .hint(format!("Call live_get_song_overview, then repeat with setId {}.", set.id))
                .subject(Subject::Argument("setId".into())));
        }
        let guard = ask.live.guard(&ask.key, &set, args.expect_revision);
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
            .ok_or_else(|| ToolError::new(Code::Internal, "the edit returned no result"))?;
        let identity = matches!(edit, LiveEdit::SetTempo { .. }).then(|| Identity::of(&set));
        Written { result, identity }.into_output()
    };
    let mut definition = on_set(live, name, Tier::Stateful, run).output(answer_schema::<WriteResult<'_, O>>());
    definition.state_hash = Some(state_hash(live));
    definition.summary = Some(Arc::new(move |arguments| summarize(name, arguments)));
    definition
}

/// A deletion. In a running Live a person must approve it, because it is audible at once.
fn deleting<A: Arguments>(live: &Arc<Live>, name: &'static str, id: fn(&A) -> &Id, edit: MakeEdit<A>) -> Definition {
    let mut definition = editing::<A, Deleted>(live, name, edit);
    definition.destructive = Some(true);
    let (decides, shows) = (Arc::clone(live), Arc::clone(live));
    definition.decide = Some(Arc::new(move |_, arguments| {
        let Ok(args) = parse::<OnSet<Write<A>>>(arguments) else { return ByArgs::Ask };
        let (named, write) = (args.set_id.as_deref(), args.own);
        // Do not ask a person about a call that the host would refuse anyway.
        let arranged = matches!(id(&write.own).path(), Ok(PathId::OnTrack(_, TrackPart::Clip(_))));
        let refused = write.dry_run || (arranged && decides.reaches_session_clips_only(named));
        if !refused && decides.may_be_running(named) { ByArgs::Ask } else { ByArgs::Allow }
    }));
    definition.facts = Some(Arc::new(move |_, arguments| match parse::<OnSet<Write<A>>>(arguments) {
        Ok(args) => facts_of_deletion(&shows, args.set_id.as_deref(), id(&args.own.own)),
        Err(_) => AskFacts::default(),
    }));
    definition
}

fn named_set(arguments: &Value) -> Option<String> {
    arguments.get("setId").and_then(Value::as_str).map(str::to_owned)
}

/// Facts for the approver of a deletion in a running Live. They include the name of the deleted
/// item, because an id is only a position.
fn facts_of_deletion(live: &Live, named: Option<&str>, Id(text): &Id) -> AskFacts {
    let sets = live.sets().into_iter().filter(|it| named.map_or(is_running(&it.id), |id| id == it.id));
    let mut facts = Vec::new();
    for set in sets {
        let name = text.parse().ok().and_then(|it: PathId| set.host.known_ids().names.get(&it).cloned());
        facts.push(("deletes".into(), name.map_or_else(|| text.clone(), |name| format!("{text} {name:?}"))));
        facts.push(("in".into(), format!("the Set that is open in Live ({})", set.id)));
    }
    AskFacts { facts, ..AskFacts::default() }
}

fn summarize(name: &str, arguments: &Value) -> String {
    let shown = conductor_gateway::catalog::schema::cut(&arguments.to_string(), 300);
    format!("{name} {shown}")
}

/// Hash of the Set's state. A call without a setId uses the Set of its session, which is not known
/// here. The hash then covers every open Set.
fn state_hash(live: &Arc<Live>) -> conductor_gateway::catalog::StateHash {
    let live = Arc::clone(live);
    Arc::new(move |_studio, arguments| {
        let named = named_set(&arguments);
        let sets = live.sets();
        let states: Vec<Value> = sets
            .iter()
            .filter(|set| named.as_ref().is_none_or(|it| *it == set.id))
            .map(|set| json!([set.id, set.host.state().revision]))
            .collect();
        Box::pin(std::future::ready(Digest::of_json(&Value::Array(states)).ok()))
    })
}

/// Notes for the sessions that ids have shifted and which notes were written. Warns when a replaced
/// clip had notes that this session never read.
fn note_reading(ask: &Ask, set: &LiveSet, edit: &LiveEdit, applied: &mut Applied) {
    if applied.shifted {
        ask.live.sessions(|sessions| sessions.shifted(&set.id));
    }
    let LiveEdit::ReplaceNotes { clip_id, window, .. } = edit else { return };
    let Some(Outcome::Notes(written)) = applied.outcomes.first() else { return };
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

/// The members of an overview that the document itself does not have.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Identity {
    /// Id of the Set.
    set_id: String,
    /// The host of the Set: document, abletonosc or script.
    host: &'static str,
    /// Whether the Set has unsaved edits.
    dirty: bool,
    /// The file; none for a running Live.
    path: Option<String>,
}

impl Identity {
    fn of(set: &LiveSet) -> Identity {
        let state = set.host.state();
        let path = state.path.map(|it| it.to_string_lossy().into_owned());
        Identity { set_id: set.id.clone(), host: state.host, dirty: state.dirty, path }
    }
}

/// The overview of a Set.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct SetOverview {
    #[serde(flatten)]
    song: Overview,
    #[serde(flatten)]
    identity: Identity,
    /// Whether another program changed the file after it was opened or saved.
    #[serde(skip_serializing_if = "Option::is_none")]
    external_change: Option<bool>,
}

async fn overview(set: &Arc<LiveSet>) -> Result<SetOverview, ToolError> {
    let song = set.host.overview().await.map_err(refused)?;
    let changed = match Arc::clone(&set.host).document() {
        // If the file cannot be read, do not report it as changed. Saving checks the file again.
        Some(document) => blocking(move || document.changed_on_disk()).await.unwrap_or(false),
        None => false,
    };
    Ok(SetOverview { song, identity: Identity::of(set), external_change: changed.then_some(true) })
}

/// The arguments of undo and redo.
#[derive(Deserialize, JsonSchema)]
struct Steps {
    /// Number of steps; default 1.
    #[schemars(range(min = 1, max = 100))]
    steps: Option<u32>,
}

/// The members that undo and redo have in common.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct StepResult {
    #[serde(flatten)]
    stepped: Stepped,
    /// Number of new undo entries.
    undo_steps: u32,
    /// Warnings for the caller.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
    /// The differences that the steps would make; only for a dry run.
    #[serde(skip_serializing_if = "Option::is_none")]
    diff: Option<Diff>,
}

/// A tool that undoes or redoes. `answer` adds the number of steps.
fn stepping<T: Answer + 'static>(
    live: &Arc<Live>,
    name: &'static str,
    way: Way,
    answer: fn(u32, StepResult) -> T,
) -> Definition {
    let run = move |ask: Arc<Ask>, set: Arc<LiveSet>, args: Write<Steps>| async move {
        let mode = args.mode();
        let guard = ask.live.guard(&ask.key, &set, args.expect_revision);
        let turn = set.lane.enter().await.map_err(refused)?;
        let done =
            Arc::clone(&set.host).step(turn, way, args.own.steps.unwrap_or(1), guard, mode).await.map_err(refused)?;
        let stepped = done.stepped;
        if mode == Mode::Apply && stepped.count > 0 {
            let changed: Vec<PathId> = done.diff.changes.iter().filter_map(|it| it.subject.parse().ok()).collect();
            ask.notify(&set, &changed, stepped.shifted);
            if stepped.shifted {
                ask.live.sessions(|sessions| sessions.shifted(&set.id));
                ask.live.saw(&ask.key, &set, set.host.state().structure);
            }
        }
        let (count, diff) = (stepped.count, (mode == Mode::Preview).then_some(done.diff));
        let undo_steps = if (way, mode) == (Way::Redo, Mode::Apply) { count } else { 0 };
        Ok(answer(count, StepResult { stepped, undo_steps, warnings: done.warnings, diff }))
    };
    let mut definition = on_set(live, name, Tier::Stateful, run);
    definition.state_hash = Some(state_hash(live));
    definition
}
