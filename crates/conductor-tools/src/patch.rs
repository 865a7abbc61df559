//! The patch tools: they read and edit Max and Pure Data patches. One file per tool; this file
//! contains the shared parts.
//!
//! On the host `document`, nothing in a patch is run. On the hosts `pd` and `max`, the patch runs,
//! and a call needs a person's approval if it adds or changes a box that has an effect outside the
//! patch, or anything that can send to such a box. Not here: the effect of an edit
//! (`conductor-patch`), and files, hosts and the boxes that may run (`hosts/patch`).

mod add_max_object;
mod align_objects;
mod answer;
mod argument;
mod assign_varnames;
mod close_patch;
mod connect_max_objects;
mod create_patch;
mod describe_object;
mod diff_patch;
mod disconnect_max_objects;
mod edit_patch;
mod encapsulate_objects;
mod find_objects;
mod get_avoid_rect_position;
mod get_console_log;
mod get_frontmost_patch;
mod get_io_position;
mod get_object_attribute;
mod get_object_hidden;
mod get_object_io_info;
mod get_object_value;
mod get_objects_in_patch;
mod get_parent_patcher;
mod get_patch_dirty;
mod get_patch_info;
mod get_patch_lock_state;
mod get_patchlines;
mod get_subpatchers;
mod list_active_patches;
mod list_object_types;
mod open_patch;
mod prelude;
mod prompts;
mod redo_patch;
mod redraw_object;
mod remove_max_object;
mod render_patch;
mod replace_object_text;
mod resources;
mod save_patch;
mod set_object_attribute;
mod set_object_hidden;
mod set_patch_lock_state;
mod set_patchline_midpoints;
mod suggest_alignment;
mod undo_patch;
mod validate_layout;

use answer::{EditAnswer, PatchAnswer};
use argument::EditedPatch;
use conductor_core::error::{Code, Effect, Subject, ToolError};
use conductor_core::policy::{AskFloor, ByArgs, Tier};
use conductor_gateway::catalog::resource::percent_encode;
use conductor_gateway::catalog::typed::{self, Answer, Context, parse};
use conductor_gateway::catalog::{AskFacts, Catalog, CatalogError, Definition, Target, Tool};
use conductor_gateway::pipeline::call::{Call, Output};
use conductor_gateway::studio::Studio;
use conductor_hosts::patch::reach::{Consent, Question, Rehearsal};
use conductor_hosts::patch::{Ask, HostKind, Patches, Scene};
use conductor_patch::{Applied, Op, Outcome};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::sync::Arc;

pub const TOOLSET: &str = "patch";

/// Adds the tools, resources and prompts of patches to a catalog.
pub fn add(catalog: &mut Catalog, patches: &Arc<Patches>) -> Result<(), CatalogError> {
    for definition in definitions(patches) {
        catalog.add(Tool::new(definition)?)?;
    }
    resources::add(catalog, patches)?;
    prompts::add(catalog, patches)
}

/// Every patch tool.
pub fn definitions(patches: &Arc<Patches>) -> Vec<Definition> {
    let all: [fn(&Arc<Patches>) -> Definition; 43] = [
        add_max_object::definition,
        align_objects::definition,
        assign_varnames::definition,
        close_patch::definition,
        connect_max_objects::definition,
        create_patch::definition,
        describe_object::definition,
        diff_patch::definition,
        disconnect_max_objects::definition,
        edit_patch::definition,
        encapsulate_objects::definition,
        find_objects::definition,
        get_avoid_rect_position::definition,
        get_console_log::definition,
        get_frontmost_patch::definition,
        get_io_position::definition,
        get_object_attribute::definition,
        get_object_hidden::definition,
        get_object_io_info::definition,
        get_object_value::definition,
        get_objects_in_patch::definition,
        get_parent_patcher::definition,
        get_patch_dirty::definition,
        get_patch_info::definition,
        get_patch_lock_state::definition,
        get_patchlines::definition,
        get_subpatchers::definition,
        list_active_patches::definition,
        list_object_types::definition,
        open_patch::definition,
        redo_patch::definition,
        redraw_object::definition,
        remove_max_object::definition,
        render_patch::definition,
        replace_object_text::definition,
        save_patch::definition,
        set_object_attribute::definition,
        set_object_hidden::definition,
        set_patch_lock_state::definition,
        set_patchline_midpoints::definition,
        suggest_alignment::definition,
        undo_patch::definition,
        validate_layout::definition,
    ];
    all.iter().map(|definition| definition(patches)).collect()
}

/// The patch whose circuit breaker counts the call. A call that opens a patch is counted for its
/// host.
fn patch_target(call: &Call) -> Target {
    let patch = call.arguments["patch_id"].as_str().and_then(|it| it.split('/').next());
    patch.or_else(|| call.arguments["host"].as_str()).map_or_else(Target::default, Target::keyed)
}

/// One call to a patch tool.
struct Asked<A> {
    patches: Arc<Patches>,
    principal: String,
    tool: &'static str,
    args: A,
    consent: Consent,
}

impl<A> Asked<A> {
    /// Returns the body from `read`, and the id and revision of the patch.
    fn look<T>(
        &self,
        patch_id: &str,
        read: impl FnOnce(&Scene<'_>) -> Result<T, ToolError>,
    ) -> Result<PatchAnswer<T>, ToolError> {
        self.patches.look(patch_id, |scene| Ok(PatchAnswer::new(scene, read(scene)?)))
    }

    /// Makes one edit and returns the body that `report` builds from its outcome.
    fn edit<T>(
        &self,
        patch: &EditedPatch,
        op: Op,
        report: impl FnOnce(&Scene<'_>, &Outcome) -> Option<T>,
    ) -> Result<EditAnswer<T>, ToolError> {
        let report = |scene: &Scene<'_>, applied: &Applied| {
            applied.outcomes.first().and_then(|outcome| report(scene, outcome)).ok_or_else(unexpected_outcome)
        };
        let done = self.patches.edit(&self.ask(patch, None), |_| Ok(vec![op]), report);
        done.map(|done| EditAnswer::new(done, |body| body)).map_err(single)
    }

    /// The change that this call requests. The undo history shows the label or the tool, and the
    /// principal.
    fn ask<'a>(&self, patch: &'a EditedPatch, label: Option<&str>) -> Ask<'a> {
        Ask {
            patch_id: &patch.patch_id,
            expected_revision: patch.expected_revision(),
            label: format!("{} by {}", label.unwrap_or(self.tool), self.principal),
            consent: self.consent.clone(),
        }
    }
}

type Work<A, T> = fn(&Asked<A>) -> Result<T, ToolError>;

/// The arguments of a tool.
trait Args: DeserializeOwned + JsonSchema + Send + Sync + 'static {}

impl<A: DeserializeOwned + JsonSchema + Send + Sync + 'static> Args for A {}

/// A tool that changes nothing.
fn read<A: Args, T: Answer + 'static>(name: &'static str, patches: &Arc<Patches>, work: Work<A, T>) -> Definition {
    tool(name, Tier::ReadOnly, patches, work)
}

/// A tool that changes a patch. An approval is valid only for the state of the document at the time
/// of the question.
fn change<A: Args, T: Answer + 'static>(name: &'static str, patches: &Arc<Patches>, work: Work<A, T>) -> Definition {
    let mut definition = tool(name, Tier::Stateful, patches, work);
    let patches = Arc::clone(patches);
    definition.state_hash = Some(Arc::new(move |_studio, arguments| {
        let hash = patches.state_hash(arguments["patch_id"].as_str().unwrap_or_default());
        Box::pin(std::future::ready(hash))
    }));
    definition
}

/// A change to a patch that may run. The change needs a person's approval if boxes would then have
/// an effect outside the patch. The approval covers exactly these boxes: other changes to the patch
/// do not invalidate it. No rule and no grant replaces the approval.
fn gated<A: Args, T: Answer + 'static>(name: &'static str, patches: &Arc<Patches>, work: Work<A, T>) -> Definition {
    let whose = Arc::clone(patches);
    let mut definition = change(name, patches, work).target(move |_, call| {
        let target = patch_target(call);
        match rehearse(name, &whose, work, &call.arguments) {
            Some(question) => {
                Target { by_args: Some(ByArgs::Ask), state: Some(question.digest), facts: facts(question), ..target }
            }
            None => Target { by_args: Some(ByArgs::Usual), ..target },
        }
    });
    definition.ask_floor = AskFloor::ByArgs;
    definition.grantable = false;
    definition
}

/// The question that a person must answer before this call, if there is one. Runs the code of the
/// call, which stops before it changes anything.
fn rehearse<A: Args, T>(
    name: &'static str,
    patches: &Arc<Patches>,
    work: Work<A, T>,
    arguments: &Value,
) -> Option<Question> {
    let patch_id = arguments["patch_id"].as_str().unwrap_or_default();
    let slow = match name {
        "open_patch" if matches!(arguments["host"].as_str(), None | Some("document")) => return None,
        "save_patch" if !patches.any_runs() => return None,
        "open_patch" | "save_patch" => true,
        _ if !patches.runs(patch_id) => return None,
        _ => patches.is_busy(patch_id),
    };
    let rehearsal = Arc::new(Rehearsal::default());
    let asked = Asked {
        patches: Arc::clone(patches),
        principal: String::new(),
        tool: name,
        args: parse(arguments).ok()?,
        consent: Consent::Rehearsal(Arc::clone(&rehearsal)),
    };
    look(slow, || drop(work(&asked)));
    rehearsal.question()
}

/// Runs a read that may wait for a file or a busy program, without blocking other calls on this
/// thread.
fn look<T>(slow: bool, look: impl FnOnce() -> T) -> T {
    let many = tokio::runtime::Handle::try_current()
        .is_ok_and(|it| it.runtime_flavor() == tokio::runtime::RuntimeFlavor::MultiThread);
    if slow && many { tokio::task::block_in_place(look) } else { look() }
}

fn facts(question: Question) -> AskFacts {
    let Question { patch, host, boxes, driven_by, confinement, .. } = question;
    let program = match host {
        HostKind::Document => "document",
        HostKind::Pd => "a running Pure Data",
        HostKind::Max => "a running Max",
    };
    let mut facts = vec![
        ("patch".to_owned(), patch),
        ("runs in".to_owned(), format!("{program}; these boxes have effects on this machine")),
        ("limits".to_owned(), confinement),
        ("reaches".to_owned(), boxes),
    ];
    if !driven_by.is_empty() {
        facts.push(("driven by".to_owned(), driven_by));
    }
    AskFacts { facts, ..AskFacts::default() }
}

fn tool<A: Args, T: Answer + 'static>(
    name: &'static str,
    tier: Tier,
    patches: &Arc<Patches>,
    work: Work<A, T>,
) -> Definition {
    let run = move |patches: Arc<Patches>, cx: Context, args: A| async move {
        let principal = cx.clearance.principal().to_string();
        let asked = Asked { patches, principal, tool: name, args, consent: Consent::Call(cx.clearance.seen_state()) };
        // Use a blocking thread, because a large document or a slow disk would block the threads
        // that serve all calls. The work is boxed, so that the code of the task is compiled once.
        let work: Box<dyn FnOnce() -> Result<Output, ToolError> + Send> = Box::new(move || work(&asked)?.into_output());
        let done = tokio::task::spawn_blocking(work).await;
        let failed = |_| ToolError::new(Code::Internal, format!("{name} failed with an internal error"));
        let output = done.map_err(|error| failed(error).effect(Effect::Unknown))??;
        if tier != Tier::ReadOnly {
            announce(&cx.studio, &output.value);
        }
        Ok(output)
    };
    typed::tool(name, tier, TOOLSET, patches, run).output(T::schema()).target(|_, call| patch_target(call))
}

/// Notifies clients that watch the changed patch or a patcher around it.
fn announce(studio: &Studio, body: &Value) {
    if body["dry_run"] == Value::Bool(true) {
        return;
    }
    let Some(id) = body["patch_id"].as_str() else { return };
    let ends = id.match_indices('/').map(|(at, _)| at).chain([id.len()]);
    for end in ends {
        let uri = format!("patch://{}", percent_encode(id.get(..end).unwrap_or_default()));
        studio.events.uri_changed(&uri);
        studio.events.uri_changed(&format!("{uri}/objects"));
    }
    studio.events.uri_changed("patch://console");
}

fn bad(argument: &str, text: impl Into<String>) -> ToolError {
    ToolError::new(Code::BadInput, text).subject(Subject::Argument(argument.to_owned()))
}

/// Removes the subject `edits[0]`: a tool with one edit has no such argument.
fn single(fault: ToolError) -> ToolError {
    let listed = fault.subject.as_ref().is_some_and(|it| it.as_str().starts_with("edits["));
    if listed { ToolError { subject: None, ..fault } } else { fault }
}

/// The error if an edit was applied but has an outcome of an unexpected kind.
fn unexpected_outcome() -> ToolError {
    ToolError::new(Code::Internal, "the edit was made, but its outcome cannot be reported").effect(Effect::Done)
}
