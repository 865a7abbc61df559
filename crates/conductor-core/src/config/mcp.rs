//! Reads `[mcp]`. Not here: the MCP listeners, and which tools are in a toolset.

use super::reader::{Reader, nearest};
use super::tree::Node;
use crate::named_enum::named_enum;

/// `[mcp]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mcp {
    /// The tools to list: names of toolsets and of tools.
    pub tools: Vec<String>,
    /// Form of tool names in lists.
    pub tool_names: ToolNames,
    /// Largest size of one line on the socket or one HTTP body.
    pub max_message_bytes: u32,
    /// Maximum number of calls of one connection that run at the same time.
    pub max_in_flight: u32,
    /// Maximum number of connections of all listeners together.
    pub max_connections: u32,
    /// Longest time that one call stays open while the client shows the approval request as a form.
    pub elicitation_wait_ms: u32,
    /// An HTTP session ends after this many idle seconds.
    pub session_idle_s: u32,
    /// Number of entries on one page of a list.
    pub page_size: u32,
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

impl Default for Mcp {
    fn default() -> Self {
        Mcp {
            tools: vec!["all".to_owned()],
            tool_names: ToolNames::Safe,
            max_message_bytes: 4 << 20,
            max_in_flight: 128,
            max_connections: 512,
            elicitation_wait_ms: 50_000,
            session_idle_s: 3600,
            page_size: 200,
        }
    }
}

/// Values of `tools` that name a set of tools.
const TOOLSETS: [&str; 9] = ["all", "daemon", "live", "patch", "filesystem", "shell", "database", "web", "plugins"];

pub(crate) fn mcp<'t>(r: &mut Reader<'t>, node: &'t Node) -> Option<Mcp> {
    let mut f = r.table(node)?;
    let d = Mcp::default();
    let mcp = Mcp {
        tools: f.or(r, "tools", d.tools, |r, it| r.set(it, 1, 256, toolset)),
        tool_names: f.or(r, "tool_names", d.tool_names, Reader::named),
        max_message_bytes: f.or(r, "max_message_bytes", d.max_message_bytes, |r, it| r.whole(it, 4096, 64 << 20)),
        max_in_flight: f.or(r, "max_in_flight", d.max_in_flight, |r, it| r.whole(it, 1, 4096)),
        max_connections: f.or(r, "max_connections", d.max_connections, |r, it| r.whole(it, 1, 65_536)),
        elicitation_wait_ms: f.or(r, "elicitation_wait_ms", d.elicitation_wait_ms, |r, it| r.whole(it, 0, 600_000)),
        session_idle_s: f.or(r, "session_idle_s", d.session_idle_s, |r, it| r.whole(it, 1, 604_800)),
        page_size: f.or(r, "page_size", d.page_size, |r, it| r.whole(it, 1, 1000)),
    };
    f.finish(r);
    Some(mcp)
}

fn toolset<'t>(r: &mut Reader<'t>, node: &'t Node) -> Option<String> {
    let word = r.text(node, 1, 128)?;
    if TOOLSETS.contains(&word.as_str()) || word.strip_prefix("plugin:").is_some_and(|name| !name.is_empty()) {
        return Some(word);
    }
    if let Some(near) = nearest(&word, TOOLSETS.into_iter()) {
        return r.reject(node, format!("there is no toolset \"{word}\""), format!("did you mean \"{near}\"?"));
    }
    // Accept both forms of a name; the catalog contains the dotted form.
    if r.surroundings.tools.is_some_and(|tools| tools.iter().any(|it| it.replace('.', "_") == word)) {
        return Some(word);
    }
    r.tool_name(node)
}
