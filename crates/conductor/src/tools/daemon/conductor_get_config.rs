//! `conductor_get_config`: the file as it stands, with the hash a plan would start from.

use super::{TOOLSET, object, said, text};
use crate::daemon::handle::Handle;
use crate::pipeline::call::Output;
use crate::tools::catalog::Definition;
use conductor_core::error::{Code, Subject, ToolError};
use conductor_core::policy::Tier;
use serde_json::json;

pub fn definition(owner: &Handle) -> Definition {
    let owner = owner.clone();
    Definition::new("conductor_get_config", Tier::ReadOnly, TOOLSET, move |studio, _leave, _arguments| {
        let serving = owner.serving();
        async move {
            let Some(content) = serving.text.as_deref() else {
                return Err(ToolError::new(Code::NotFound, "there is no config.toml; the built-in empty mode serves")
                    .subject(Subject::Config("config.toml".into()))
                    .hint("Make a plan with conductor_plan_changes; applying it writes the file."));
            };
            let path = studio.home.join("config.toml");
            Ok(Output::new(json!({ "content": content, "path": path.to_string_lossy(), "hash": serving.hash.to_string() })))
        }
    })
    .text("Get configuration", "The content of config.toml as it is in force, its path, and its hash. The hash is what a plan made now has as its base.")
    .output(object(json!({
        "content": said("The file, byte for byte", text()),
        "path": text(),
        "hash": said("sha256: and 64 hex digits over the raw bytes", text()),
    })))
}
