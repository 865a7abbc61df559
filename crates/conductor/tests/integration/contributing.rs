//! Compiles and calls the example tool of CONTRIBUTING.md.

mod conductor_count_mappings;

/// The names that a file in `conductor-tools/src/daemon` imports.
mod prelude {
    pub use conductor_core::error::ToolError;
    pub use conductor_core::policy::Tier;
    pub use conductor_gateway::catalog::Definition;
    pub use conductor_gateway::catalog::typed::{Context, tool};
    pub use conductor_gateway::owner_handle::OwnerHandle;
    pub use conductor_tools::daemon::TOOLSET;
    pub use schemars::JsonSchema;
    pub use serde::{Deserialize, Serialize};
}

use conductor_core::principal::Principal;
use conductor_gateway::catalog::Tool;
use conductor_gateway::catalog::lint;
use conductor_gateway::pipeline::call::Outcome;
use conductor_gateway::pipeline::{self, Call};
use conductor_testkit::daemon::TestDaemon;
use serde_json::{Value, json};
use std::sync::Arc;

const CONFIG: &str = r#"
schema = 1
[[modes]]
name = "Default"
[[modes.mappings]]
trigger = { type = "Note", note = 36 }
action = { type = "Keystroke", keys = ["a"] }
[[modes.mappings]]
enabled = false
trigger = { type = "Note", note = 37 }
action = { type = "Keystroke", keys = ["b"] }
"#;

#[test]
fn the_example_tool_is_the_one_in_the_text_and_works() {
    let text = include_str!("../../../../CONTRIBUTING.md");
    let example = include_str!("contributing/conductor_count_mappings.rs");
    assert!(text.contains(&format!("```rust\n{example}```\n")), "CONTRIBUTING.md does not contain the example file");

    let daemon = TestDaemon::start(CONFIG);
    let tool = Tool::new(conductor_count_mappings::definition(daemon.handle())).unwrap();
    assert_eq!((lint::lint(&tool), lint::undescribed(&tool)), (Vec::new(), Vec::new()));
    let studio = Arc::clone(&daemon.gateway().studio);
    studio.edit_catalog(|catalog| catalog.add(tool).unwrap());
    let call = |arguments: Value| {
        let call = Call::new(Principal::Person { uid: 1000 }, "conductor_count_mappings", arguments);
        daemon.block_on(pipeline::run(&studio, call)).into_outcome()
    };
    let count = |arguments: Value| {
        let Outcome::Done(Ok(output)) = call(arguments) else { panic!("the call failed") };
        output.value
    };
    assert_eq!(count(json!({ "mode": "Default" })), json!({ "count": 1 }));
    assert_eq!(count(json!({ "mode": "Default", "disabled": true })), json!({ "count": 2 }));
    assert!(
        matches!(call(json!({ "mode": "" })), Outcome::Done(Err(_))),
        "arguments that violate the schema were accepted"
    );
}
