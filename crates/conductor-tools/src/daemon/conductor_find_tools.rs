//! `conductor_find_tools`: finds tools for a task.

use super::prelude::*;
use conductor_core::tool_search::{self, ToolText};
use conductor_gateway::catalog::Tool;
use conductor_gateway::catalog::examples;
use conductor_gateway::catalog::names::TOOLSETS;
use conductor_gateway::catalog::signature::{self, Detail};

/// Number of results unless the caller asks for another number.
const RESULTS: usize = 5;

#[derive(Deserialize, JsonSchema)]
struct Args {
    /// The task in a musician's words, or the name of a tool for its complete signature
    #[schemars(length(max = 512))]
    query: Option<String>,
    /// Only tools of this toolset
    set: Option<ToolSet>,
    /// Maximum number of results; default 5
    #[schemars(range(min = 1, max = 50))]
    limit: Option<usize>,
}

#[derive(Clone, Copy, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum ToolSet {
    Daemon,
    Live,
    Patch,
    Filesystem,
    Shell,
    Database,
    Web,
    Plugins,
}

impl ToolSet {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Daemon => "daemon",
            Self::Live => "live",
            Self::Patch => "patch",
            Self::Filesystem => "filesystem",
            Self::Shell => "shell",
            Self::Database => "database",
            Self::Web => "web",
            Self::Plugins => "plugins",
        }
    }
}

/// The purpose of each toolset, in the words of a musician.
fn purpose_of(set: &str) -> &'static str {
    match set {
        "daemon" => "controllers, pads, knobs, pedals, mappings, modes, MIDI and SysEx out, plans, status",
        "live" => "Ableton Live Sets: tracks, clips, notes, scenes, tempo, devices, volume, transport",
        "patch" => "Max and Pure Data patches: objects, cords, layout, pictures",
        "filesystem" => "files in the folders that a person granted",
        "shell" => "commands and programs that a person allowed",
        "database" => "SQL databases",
        "web" => "requests to web pages",
        _ => "tools of plugins",
    }
}

#[derive(Serialize, JsonSchema)]
struct Answer {
    /// The tools, the best first.
    tools: Vec<Found>,
    /// The toolsets, if no tool is listed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    sets: Vec<Set>,
    /// Number of further results.
    more: usize,
}

#[derive(Serialize, JsonSchema)]
struct Found {
    /// Name for a direct call or for conductor_call_tool.
    name: String,
    /// What the tool does.
    purpose: String,
    /// Its arguments; `?` marks optional ones.
    signature: String,
    /// Arguments of an example call.
    #[serde(skip_serializing_if = "Option::is_none")]
    example: Option<Map<String, Value>>,
}

#[derive(Serialize, JsonSchema)]
struct Set {
    /// Name of the toolset.
    set: String,
    /// Purpose of its tools.
    purpose: String,
    /// Number of its tools.
    tools: usize,
}

pub fn definition() -> Definition {
    tool("conductor_find_tools", Tier::ReadOnly, TOOLSET, &(), run).text(
        "Find tools",
        "Finds tools for a task, also those that are not in your list, with signature and example. Without a query and a set, lists the \
         toolsets. Call a found tool with conductor_call_tool.",
    )
}

async fn run((): (), cx: Context, args: Args) -> Result<Answer, ToolError> {
    let catalog = cx.studio.catalog();
    let force = cx.studio.policy();
    let set = args.set.map(ToolSet::as_str);
    let visible: Vec<&Arc<Tool>> = catalog
        .list(cx.clearance.toolset())
        .filter(|it| it.runs_tools() || !force.policy.denies_everyone(&it.name, it.tier))
        .collect();
    let query = args.query.as_deref().map(str::trim).filter(|it| !it.is_empty());
    let in_set: Vec<&Arc<Tool>> =
        visible.iter().filter(|it| set.is_none_or(|set| it.toolset == set)).copied().collect();
    let ranked: Vec<&Arc<Tool>> = match (query, set) {
        (Some(query), _) => rank(query, &in_set),
        (None, Some(_)) => in_set,
        (None, None) => Vec::new(),
    };
    let limit = args.limit.unwrap_or(if query.is_some() { RESULTS } else { usize::MAX });
    let is_name =
        query.is_some_and(|query| ranked.first().is_some_and(|it| it.name == query || it.safe_name() == query));
    let shown: Vec<&Arc<Tool>> = ranked.iter().take(if is_name { 1 } else { limit }).copied().collect();
    let detail = if is_name { Detail::Full } else { Detail::Short };
    let sets = if shown.is_empty() { sets(&visible) } else { Vec::new() };
    Ok(Answer { tools: shown.iter().map(|it| found(it, detail)).collect(), sets, more: ranked.len() - shown.len() })
}

/// The tools that match the query, the best first.
fn rank<'a>(query: &str, tools: &[&'a Arc<Tool>]) -> Vec<&'a Arc<Tool>> {
    // Leave out tools that run other tools: they would match every task.
    let tools: Vec<&'a Arc<Tool>> = tools.iter().filter(|it| !it.runs_tools()).copied().collect();
    let schemas: Vec<Value> = tools.iter().map(|it| it.published_schema.value()).collect();
    let arguments: Vec<Vec<&str>> = schemas
        .iter()
        .map(|it| it["properties"].as_object().into_iter().flatten().map(|(name, _)| name.as_str()).collect())
        .collect();
    let texts: Vec<ToolText<'_>> = tools
        .iter()
        .zip(&arguments)
        .map(|(tool, arguments)| ToolText {
            name: &tool.name,
            title: &tool.title,
            description: &tool.description,
            arguments,
            toolset: &tool.toolset,
        })
        .collect();
    tool_search::rank(query, &texts).into_iter().filter_map(|it| tools.get(it).copied()).collect()
}

fn found(tool: &Tool, detail: Detail) -> Found {
    let purpose = match detail {
        Detail::Full => tool.description.as_ref(),
        Detail::Short => tool.description.split_once(". ").map_or(tool.description.as_ref(), |(first, _)| first),
    };
    Found {
        name: tool.safe_name().to_owned(),
        purpose: purpose.trim_end_matches('.').to_owned(),
        signature: signature::of(&tool.published_schema.value(), detail),
        example: examples::of(&tool.name),
    }
}

fn sets(tools: &[&Arc<Tool>]) -> Vec<Set> {
    let count = |set: &str| tools.iter().filter(|it| it.toolset == set).count();
    let sets = TOOLSETS.iter().map(|set| (*set, count(set))).filter(|(_, count)| *count > 0);
    sets.map(|(set, tools)| Set { set: set.to_owned(), purpose: purpose_of(set).to_owned(), tools }).collect()
}
