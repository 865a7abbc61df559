//! `[mcp]`. Not here: the MCP listeners, and which tools are in a toolset.

use super::form::{Form, named, set, text, whole};
use super::reader::{Reader, nearest};
use super::section::section;
use super::tree::Node;
use crate::named_enum::named_enum;

section! {
    /// MCP clients.
    #[derive(Eq)]
    pub struct Mcp {
        /// The tools that clients can list and call: names of toolsets (`all`, `daemon`, `live`,
        /// `patch`, `filesystem`, `shell`, `database`, `web`, `plugins`, `plugin:<name>`) and of
        /// tools.
        tools: Vec<String> = vec!["all".to_owned()], set(text(1..=128).ruled(toolset), 1..=256), "[\"daemon\"]";
        /// The tools that a client over stdio or HTTP lists, if `tools` contains `all`: about 24
        /// for most tasks (`core`), one host (`live`, `patch`), a running show (`stage`), the tools
        /// of the first documents (`seed`), or `all`. Other tools can still be found and called.
        view: ToolView = ToolView::Core, named(), "\"live\"";
        /// Whether lists contain the schemas of results. With `none`, the schemas of arguments are
        /// shortened too, to save tokens. With `full`, all schemas are complete.
        output_schemas: OutputSchemas = OutputSchemas::None, named(), "\"full\"";
        /// Form of tool names in lists: with `_` (`safe`), which every client accepts, or with `.`
        /// (`dotted`), as in the documentation. A call may use either form.
        tool_names: ToolNames = ToolNames::Safe, named(), "\"dotted\"";
        /// Largest size in bytes of one line on the socket or one HTTP body.
        max_message_bytes: usize = 4 << 20, whole(4096..=64 << 20), "1048576";
        /// Maximum number of calls of one connection that run at the same time.
        max_in_flight: usize = 128, whole(1..=4096), "16";
        /// Maximum number of connections of all listeners together.
        max_connections: usize = 512, whole(1..=65_536), "64";
        /// Longest time in milliseconds that one call stays open while the client shows the
        /// approval request as a form.
        elicitation_wait_ms: u64 = 50_000, whole(0..=600_000), "20000";
        /// An HTTP session ends after this many idle seconds.
        session_idle_s: u64 = 3600, whole(1..=604_800), "600";
        /// Number of entries on one page of a list.
        page_size: usize = 200, whole(1..=1000), "50";
    }
}

named_enum! {
    /// The form of tool names in lists. A call may use either form.
    pub enum ToolNames {
        /// Names with `_`, which every client accepts.
        Safe = "safe",
        /// Names with `.`, as in the documentation.
        Dotted = "dotted",
    }
}

named_enum! {
    /// The tools that a client lists. A view saves context; it does not limit calls.
    pub enum ToolView {
        /// The tools of most tasks.
        Core = "core",
        /// All tools for Live Sets.
        Live = "live",
        /// All tools for Max and Pure Data patches.
        Patch = "patch",
        /// The tools of a running show, without edits.
        Stage = "stage",
        /// The tools that are named in the first documents of the product.
        Seed = "seed",
        /// All tools.
        All = "all",
    }
}

named_enum! {
    /// Whether lists contain the schemas of results.
    pub enum OutputSchemas {
        /// No schemas of results.
        None = "none",
        /// The schema of every result.
        Full = "full",
    }
}

/// The names of toolsets in `tools`, except `plugin:<name>`.
const TOOLSETS: [&str; 9] = ["all", "daemon", "live", "patch", "filesystem", "shell", "database", "web", "plugins"];

pub(super) fn toolset<'t>(r: &mut Reader<'t>, node: &'t Node, word: String) -> Option<String> {
    if TOOLSETS.contains(&word.as_str()) || word.strip_prefix("plugin:").is_some_and(|name| !name.is_empty()) {
        return Some(word);
    }
    if let Some(near) = nearest(&word, TOOLSETS.into_iter()) {
        return r.reject(node, format!("there is no toolset \"{word}\""), format!("did you mean \"{near}\"?"));
    }
    // Accept both forms of a name. The catalog contains the dotted form.
    if r.surroundings.tools.is_some_and(|tools| tools.iter().any(|it| it.replace('.', "_") == word)) {
        return Some(word);
    }
    r.tool_name(node)
}
