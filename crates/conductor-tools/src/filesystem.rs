//! `filesystem.*`: files in folders that a person granted. One file per tool; this file contains
//! the shared parts.
//!
//! Reading needs no approval. A person must approve writing and deleting, and can undo both. Not
//! here: keeping paths inside the folders (`hosts/files`).

mod change;
mod delete;
mod list;
mod read;
mod search;
mod undo;
mod write;

pub use undo::UNDO;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use conductor_core::digest::Digest;
use conductor_core::error::{Code, Subject, ToolError};
use conductor_core::policy::Tier;
use conductor_gateway::catalog::typed::{Answer, Context, parse, tool};
use conductor_gateway::catalog::{Catalog, CatalogError, Definition, Target, Tool};
use conductor_hosts::files::{FileError, Files, Kind, Place};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

pub const TOOLSET: &str = "filesystem";

pub fn add(catalog: &mut Catalog, files: &Arc<Files>) -> Result<(), CatalogError> {
    for definition in definitions(files) {
        catalog.add(Tool::new(definition)?)?;
    }
    Ok(())
}

pub fn definitions(files: &Arc<Files>) -> Vec<Definition> {
    vec![
        delete::definition(files),
        list::definition(files),
        read::definition(files),
        search::definition(files),
        undo::definition(files),
        write::definition(files),
    ]
}

/// A tool that works on the granted folders, on a thread that may block on disk I/O.
fn over<A, T>(
    name: &'static str,
    tier: Tier,
    files: &Arc<Files>,
    run: fn(&Asked<A>) -> Result<T, ToolError>,
) -> Definition
where
    A: DeserializeOwned + JsonSchema + Send + 'static,
    T: Answer + Send + 'static,
{
    let looked = Arc::clone(files);
    let mut definition =
        tool(name, tier, TOOLSET, files, move |files, cx, args| blocking(move || run(&Asked { args, cx, files })));
    definition.target = Some(Arc::new(move |_, call| {
        let (files, arguments) = (Arc::clone(&looked), call.arguments.clone());
        Box::pin(async move {
            let found = tokio::task::spawn_blocking(move || target(&files, &arguments)).await;
            found.unwrap_or_default()
        })
    }));
    definition
}

/// A change to a file: a person sees the difference, approves the change, and can undo it.
fn undoable(mut definition: Definition, files: &Arc<Files>) -> Definition {
    let (looked, compared) = (Arc::clone(files), Arc::clone(files));
    definition.requires_approval = Some(true);
    definition.open_world = Some(false);
    definition.undoable = true;
    definition.facts = Some(Arc::new(move |_, arguments| change::facts(&compared, arguments)));
    definition.state_hash = Some(Arc::new(move |_, arguments| Box::pin(state(Arc::clone(&looked), arguments))));
    definition
}

/// The file or folder of a call, relative to every granted folder that contains it. A folder also
/// matches the granted folders inside it, because a search descends into them.
fn target(files: &Files, arguments: &Value) -> Target {
    let word = |key: &str| arguments.get(key).and_then(Value::as_str);
    let place = match files.place(word("root"), word("path").unwrap_or_default()) {
        Ok(place) => place,
        Err(fault) => return Target::refused(fault),
    };
    let real = place.real();
    let shown = |it: &Path| it.to_string_lossy().into_owned();
    let mut forms = vec![json!({ "root": place.root().name, "path": place.inside() })];
    for root in files.roots().iter() {
        if let Ok(inside) = real.strip_prefix(&root.path) {
            let inside = if inside.as_os_str().is_empty() { ".".to_owned() } else { shown(inside) };
            forms.push(json!({ "root": root.name, "path": inside }));
        } else if root.path.starts_with(&real) {
            forms.push(json!({ "root": root.name, "path": "." }));
        }
    }
    forms.push(json!({ "root": place.root().name, "path": shown(&real) }));
    let root = place.root();
    let there = match place.kind() {
        Ok((Kind::File, size, _)) => format!("a file of {size} bytes"),
        Ok((Kind::Folder, ..)) => "a folder".to_owned(),
        Ok((Kind::Link, ..)) => "a link".to_owned(),
        Ok((Kind::Other, ..)) => "neither a file nor a folder".to_owned(),
        Err(FileError::Missing { .. }) => "nothing".to_owned(),
        Err(fault) => return Target { forms, ..Target::refused(fault) },
    };
    Target {
        shown: vec![
            ("file", shown(&real)),
            ("folder", format!("{} ({})", root.name, root.path.display())),
            ("there now", there),
        ],
        forms,
        key: Some(root.name.clone()),
        ..Target::default()
    }
}

struct Asked<A> {
    args: A,
    cx: Context,
    files: Arc<Files>,
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|_| Err(ToolError::new(Code::Internal, "the work was stopped before it finished")))
}

/// The path arguments of a tool.
#[derive(Deserialize, JsonSchema)]
struct At {
    /// Relative to the root, without `..`; or absolute under a root
    #[schemars(length(min = 1, max = 4096))]
    path: String,
    /// Name of a granted folder; default: the first
    #[schemars(length(min = 1, max = 64))]
    root: Option<String>,
}

impl At {
    fn place(&self, files: &Files) -> Result<Place, ToolError> {
        Ok(files.place(self.root.as_deref(), &self.path)?)
    }

    /// The path as shown in the list of approval requests. The request itself starts with the
    /// resolved path.
    fn shown(&self) -> String {
        // `components` removes double slashes and most `.` components. Remove a leading `.` too.
        let path: PathBuf = Path::new(&self.path).components().filter(|it| *it != Component::CurDir).collect();
        match &self.root {
            Some(root) => format!("{path:?} in {root}"),
            None => format!("{path:?}"),
        }
    }
}

/// Hash of the present content; a missing file has a hash too.
async fn state(files: Arc<Files>, arguments: Value) -> Option<Digest> {
    let look = move || parse::<At>(&arguments).ok()?.place(&files).ok()?.state();
    tokio::task::spawn_blocking(look).await.ok().flatten()
}

fn expected(given: Option<&str>, found: Option<Digest>, path: &str) -> Result<(), ToolError> {
    let Some(given) = given else { return Ok(()) };
    let found = found.map_or_else(|| "absent".to_owned(), |it| it.to_string());
    if given == found {
        return Ok(());
    }
    Err(ToolError::new(Code::StaleReference, format!("{path} has changed: its hash is {found}, not {given}"))
        .hint("Nothing was changed. Read the file again, and use the hash it has now; \"absent\" means that nothing is there.")
        .subject(Subject::Other(path.to_owned())))
}

#[derive(Clone, Copy, Default, Deserialize, Serialize, JsonSchema)]
enum Encoding {
    #[default]
    #[serde(rename = "utf-8")]
    Utf8,
    #[serde(rename = "base64")]
    Base64,
}

impl Encoding {
    fn read(self, content: &str) -> Result<Vec<u8>, ToolError> {
        match self {
            Encoding::Utf8 => Ok(content.as_bytes().to_vec()),
            Encoding::Base64 => STANDARD.decode(content).map_err(|fault| {
                ToolError::new(Code::BadInput, format!("content is not base64: {fault}"))
                    .subject(Subject::Argument("/content".into()))
            }),
        }
    }
}
