//! `conductor_get_config`: the file on disk, the hash that a plan would start from, and the parts
//! of the file that are not in force.

use super::prelude::*;
use conductor_core::digest::Digest;
use conductor_gateway::studio::Studio;
use conductor_hosts::atomic_file;
use std::io;

#[derive(Serialize, JsonSchema)]
struct Answer {
    /// Content of the file
    content: String,
    /// Path of the file
    path: String,
    /// sha256: and 64 hex digits over the raw bytes
    hash: String,
    /// Present only if the configuration in force differs from the file
    #[serde(skip_serializing_if = "Option::is_none")]
    in_force: Option<InForce>,
}

#[derive(Serialize, JsonSchema)]
struct InForce {
    /// Hash of the file that was loaded last
    hash: Option<String>,
    /// Parts of the file that wait for a person
    held: Vec<String>,
    /// Why the configuration that was accepted earlier is not in force
    closed: Option<String>,
}

pub fn definition(owner: &OwnerHandle) -> Definition {
    tool("conductor_get_config", Tier::ReadOnly, TOOLSET, owner, run).text(
        "Get configuration",
        "Returns the content of config.toml on disk, its path and its hash. A plan that is made now starts from this hash. `in_force` is \
         present if parts of the file are not in force; a person accepts them with `conductor config accept`.",
    )
}

async fn run(owner: OwnerHandle, cx: Context, _args: NoArgs) -> Result<Answer, ToolError> {
    let serving = owner.serving();
    let content = file(&cx.studio)?;
    let (hash, loaded) = (Digest::of(content.as_bytes()).to_string(), serving.hash_text());
    let differs = loaded.as_ref() != Some(&hash) || serving.waiting.needs_a_person();
    let in_force = differs.then(|| InForce {
        hash: loaded,
        held: serving.waiting.held.names(),
        closed: serving.waiting.closed.as_deref().map(str::to_owned),
    });
    let path = cx.studio.home.join("config.toml").to_string_lossy().into_owned();
    Ok(Answer { content, path, hash, in_force })
}

/// Reads the file from the disk.
pub(super) fn file(studio: &Studio) -> Result<String, ToolError> {
    let about = |code, message: String| ToolError::new(code, message).subject(Subject::Config("config.toml".into()));
    let bytes = atomic_file::read(&studio.home.join("config.toml")).map_err(|fault| {
        if fault.kind() == io::ErrorKind::NotFound {
            about(Code::NotFound, "Config not found: there is no config.toml".to_owned())
                .hint("Make a plan with conductor_plan_changes; applying it writes the file.")
        } else {
            about(Code::SdkRejected, format!("config.toml cannot be read: {fault}"))
                .hint("The person should check the file: its type and its permissions.")
        }
    })?;
    String::from_utf8(bytes).map_err(|_| about(Code::BadInput, "config.toml is not UTF-8 text".to_owned()))
}
