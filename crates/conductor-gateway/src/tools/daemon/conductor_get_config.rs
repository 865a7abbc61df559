//! `conductor_get_config`: the file on disk, the hash that a plan would start from, and the parts
//! of the file that are not in force.

use super::prelude::*;
use crate::studio::Studio;
use conductor_core::digest::Digest;
use conductor_hosts::atomic_file;
use std::io;

pub fn definition(owner: &OwnerHandle) -> Definition {
    let owner = owner.clone();
    Definition::new("conductor_get_config", Tier::ReadOnly, TOOLSET, move |studio, _clearance, _arguments| {
        let serving = owner.serving();
        async move {
            let content = file(&studio)?;
            let path = studio.home.join("config.toml");
            let hash = Digest::of(content.as_bytes());
            let in_force = serving.hash_text();
            let mut value = json!({ "content": content, "path": path.to_string_lossy(), "hash": hash.to_string() });
            let held = serving.waiting.held.names();
            if in_force.as_deref() != Some(&hash.to_string()) || serving.waiting.needs_a_person() {
                value["in_force"] = json!({ "hash": in_force, "held": held, "closed": serving.waiting.closed.as_deref() });
            }
            Ok(Output::new(value))
        }
    })
    .text(
        "Get configuration",
        "Returns the content of config.toml on disk, its path and its hash. A plan that is made now starts from this hash. `in_force` is \
         present if parts of the file are not in force; a person accepts them with `conductor config accept`.",
    )
    .output(object(json!({
        "content": said("Content of the file", text()),
        "path": text(),
        "hash": said("sha256: and 64 hex digits over the raw bytes", text()),
        "in_force?": said("Present only if the configuration in force differs from the file", object(json!({
            "hash": said("Hash of the file that was loaded last", nullable(text())),
            "held": said("Parts of the file that wait for a person", list(text())),
            "closed": said("Why the configuration that was accepted earlier is not in force", nullable(text())),
        }))),
    })))
}

/// Reads the file from the disk.
pub(super) fn file(studio: &Studio) -> Result<String, ToolError> {
    let about = |code, message: String| ToolError::new(code, message).subject(Subject::Config("config.toml".into()));
    let bytes = atomic_file::read(&studio.home.join("config.toml")).map_err(|fault| {
        if fault.kind() == io::ErrorKind::NotFound {
            about(Code::NotFound, "Config not found: there is no config.toml".to_owned())
                .hint("Make a plan with conductor_plan_changes; applying it writes the file.")
        } else {
            about(Code::NotFound, format!("config.toml cannot be read: {fault}"))
        }
    })?;
    String::from_utf8(bytes).map_err(|_| about(Code::BadInput, "config.toml is not UTF-8 text".to_owned()))
}
