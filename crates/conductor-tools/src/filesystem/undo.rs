//! Stores file changes for undo. Also contains `filesystem.undo`, which only a person can call.
//!
//! A stored change is a record of kind `edit` together with the old bytes. The record is stored in
//! the same folder as plans and approvals, and is removed after a week.

use super::{Asked, TOOLSET, blocking};
use crate::prelude::*;
use conductor_core::digest::Digest;
use conductor_core::pending::{Ask, Fact, Kind, Present, Record, State};
use conductor_core::policy::Floor;
use conductor_gateway::pending_store::Attachment;
use conductor_gateway::studio::Studio;
use conductor_hosts::files::{Files, Place};
use uuid::Uuid;

/// Name of the hidden tool.
pub const UNDO: &str = "filesystem.undo";

const ROOT: &str = "root";
const PATH: &str = "path";
const WAS: &str = "was";

fn io(fault: &std::io::Error) -> ToolError {
    ToolError::new(Code::SdkRejected, format!("the old content cannot be stored, so nothing was changed: {fault}"))
}

/// The content before a change.
#[derive(Clone, Copy)]
pub(super) enum Was<'a> {
    Nothing,
    File(&'a [u8]),
    /// A folder. It has no content to store, because only an empty folder can be deleted.
    Folder,
}

const NOTHING: &str = "nothing";
const FOLDER: &str = "folder";

impl Was<'_> {
    fn digest(self) -> Digest {
        match self {
            Self::Nothing | Self::Folder => absent(),
            Self::File(bytes) => Digest::of(bytes),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Nothing => NOTHING,
            Self::File(_) => "file",
            Self::Folder => FOLDER,
        }
    }
}

fn absent() -> Digest {
    Digest::of(b"absent")
}

/// Stores the old content. `after` is the hash of the new content; `None` for a deletion.
pub(super) fn keep<T>(
    asked: &Asked<T>,
    place: &Place,
    before: Was<'_>,
    after: Option<Digest>,
) -> Result<Uuid, ToolError> {
    let studio = &asked.cx.studio;
    let store = studio.approvals.store();
    let ids = studio.new_ids();
    let tool = asked.cx.clearance.tool();
    let fact = |label: &str, text: String| Fact { label: label.to_owned(), text };
    let ask = Ask {
        principal: asked.cx.clearance.principal().clone(),
        tool: tool.name.to_string(),
        tier: tool.tier,
        args_hash: Digest::of_json(&asked.cx.arguments)
            .map_err(|fault| ToolError::new(Code::BadInput, fault.to_string()))?,
        present: Present { pin: tool.pin, policy_version: studio.policy().version, state: Some(before.digest()) },
        summary: format!("{} {}", tool.title, place.path().display()),
        facts: vec![
            fact(ROOT, place.root().name.clone()),
            fact(PATH, place.inside()),
            fact(WAS, before.name().to_owned()),
        ],
        floor: Floor::Local,
        from_plugin: false,
        tainted: false,
    };
    let now = studio.timestamp();
    let bytes: Vec<(Attachment, &[u8])> = match before {
        Was::File(before) => vec![(Attachment::Before, before)],
        Was::Nothing | Was::Folder => Vec::new(),
    };
    let after = after.unwrap_or_else(absent);
    let kept = store.change_with(&bytes, |pending| {
        let id = pending.record_edit(ask, Some(after), ids, now);
        Ok::<_, std::convert::Infallible>((id, id))
    });
    let Ok(id) = kept.map_err(|fault| io(&fault))?;
    Ok(id)
}

/// Marks the record of a failed change as undone.
pub(super) fn forget<T>(asked: &Asked<T>, id: Uuid) {
    let now = asked.cx.studio.timestamp();
    // A failure is harmless: the remaining record does not match the file, so it cannot be used for
    // an undo.
    let _ = asked.cx.studio.approvals.store().change(|pending| pending.undo(id, now));
}

#[derive(Deserialize, JsonSchema)]
struct Args {
    /// Id from filesystem.write or filesystem.delete
    #[schemars(extend("format" = "uuid"))]
    undo_id: String,
}

#[derive(Serialize, JsonSchema)]
struct Answer {
    /// Relative to the root
    path: String,
    /// False if the undo removed a file that the change had created
    restored: bool,
}

pub fn definition(files: &Arc<Files>) -> Definition {
    let mut definition = tool(UNDO, Tier::HardwareIo, TOOLSET, files, |files, cx, args: Args| {
        blocking(move || {
            if !cx.clearance.principal().is_person() {
                let name = cx.clearance.tool().name.to_string();
                return Err(
                    ToolError::new(Code::NotFound, format!("Unknown tool: {name}")).subject(Subject::Tool(name))
                );
            }
            run(&cx.studio, &files, &args.undo_id)
        })
    })
    .text("Undo file change", "Restores the old content of a file, if the file has not changed since.");
    definition.hidden = true;
    // Only a person can call this tool, so it needs no approval.
    definition.requires_approval = Some(false);
    definition
}

fn run(studio: &Studio, files: &Files, id: &str) -> Result<Answer, ToolError> {
    let subject = || Subject::Plan(id.to_owned());
    let record = find(studio, id)
        .ok_or_else(|| ToolError::new(Code::NotFound, format!("there is no change {id:?}")).subject(subject()))?;
    if record.state != State::Used {
        let text = format!("the change is {}; only an applied change can be undone", record.state);
        return Err(ToolError::new(Code::BadInput, text).subject(subject()));
    }
    let fact =
        |label: &str| record.facts.iter().find(|it| it.label == label).map(|it| it.text.clone()).unwrap_or_default();
    let place = files.place(Some(&fact(ROOT)), &fact(PATH))?;
    if place.state() != record.result_state_hash {
        return Err(ToolError::new(
            Code::PlanStale,
            format!("{} has changed since the edit; nothing was undone", place.inside()),
        )
        .subject(subject()));
    }
    let present = place.present()?;
    let was = fact(WAS);
    let created = was == NOTHING;
    match (&present, created) {
        (Some(present), true) => place.remove_file(present)?,
        (None, true) => {}
        (_, false) if was == FOLDER => place.make_folder()?,
        (_, false) => {
            let before = studio.approvals.store().bytes(record.id, Attachment::Before).map_err(|fault| {
                ToolError::new(Code::Internal, format!("the old content cannot be read: {fault}")).subject(subject())
            })?;
            place.replace(&before, present.as_ref(), true, &record.id.to_string())?;
        }
    }
    let now = studio.timestamp();
    let undone = studio.approvals.store().change(|pending| pending.undo(record.id, now));
    undone
        .map_err(|fault| ToolError::new(Code::Internal, fault.to_string()))?
        .map_err(|why| ToolError::new(Code::BadInput, why.to_string()).subject(subject()))?;
    Ok(Answer { path: place.inside(), restored: !created })
}

fn find(studio: &Studio, id: &str) -> Option<Record> {
    studio.approvals.store().read(|pending| {
        let id = pending.find(id).ok()?;
        pending.get(id).filter(|it| it.kind == Kind::Edit).cloned()
    })
}
