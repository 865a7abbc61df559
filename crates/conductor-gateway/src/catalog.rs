//! The catalog of tools, resources and prompts. A tool is found by the dotted and by the safe form
//! of its name.
//!
//! A catalog never changes: when a plugin is loaded or unloaded, the studio replaces the catalog
//! with a new one. Running calls keep their tool definitions. Not here: permissions (`pipeline`),
//! the rules that clients need (`lint`), and MCP types (`doors/mcp`).

pub mod docs;
pub mod examples;
pub mod lint;
pub mod mcp_methods;
pub mod names;
pub mod prompt;
pub mod resource;
pub mod schema;
pub mod signature;
pub mod typed;
pub mod views;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::sync::Arc;

use conductor_core::digest::Digest;
use conductor_core::error::{ToolError, Violation};
use conductor_core::policy::{AskFloor, ByArgs, Tier};
use conductor_core::principal::Principal;
use conductor_core::script::NESTING_TOOLS;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};

use self::names::{Toolset, safe_form};
use self::prompt::Prompt;
use self::resource::Resource;
use self::schema::{Schema, SchemaError, Validator, lean, published, with_error_branch};
use crate::pipeline::call::{Call, Output};
use crate::pipeline::gate::Clearance;
use crate::studio::Studio;

pub const DEFAULT_TIMEOUT_MS: u64 = 30_000;
pub const DEFAULT_RESULT_BYTES: usize = 1_048_576;

/// Runs a tool. It needs a [`Clearance`], so that it cannot be called without one.
pub type Handler =
    Arc<dyn Fn(Arc<Studio>, Clearance, Value) -> BoxFuture<'static, Result<Output, ToolError>> + Send + Sync>;
/// One line for the approver. It is written by the tool's author, not by the caller.
pub type Summary = Arc<dyn Fn(&Value) -> String + Send + Sync>;
/// Hash of the state that the call would change; `None` when there is nothing to compare.
pub type StateHash = Arc<dyn Fn(Arc<Studio>, Value) -> BoxFuture<'static, Option<Digest>> + Send + Sync>;
/// The decision of a tool about a call, based on the arguments.
pub type Decide = Arc<dyn Fn(&Studio, &Value) -> ByArgs + Send + Sync>;
/// Facts for the approver in addition to the target and the arguments, and the tool's own members
/// of `APPROVAL_REQUIRED`. May block on disk I/O.
pub type Facts = Arc<dyn Fn(&Studio, &Value) -> AskFacts + Send + Sync>;

/// Resolves the target of a call. Called before policy, and again before the handler of a call that
/// has an approval.
pub type ResolveTarget = Arc<dyn Fn(&Arc<Studio>, &Call) -> BoxFuture<'static, Target> + Send + Sync>;

/// Finds faults in the arguments that a schema cannot express.
pub type Check = Arc<dyn Fn(&Value) -> Vec<Violation> + Send + Sync>;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct AskFacts {
    pub facts: Vec<(String, String)>,
    /// Further members of the error, such as `risk_assessment`.
    pub more: serde_json::Map<String, Value>,
}

/// The target of a call, independent of how the arguments name it. Policy matches the target, a
/// question shows it, and each target has its own circuit breaker.
#[derive(Debug, Clone, Default)]
pub struct Target {
    /// Pairs of label and text, shown first in an approval request and never truncated.
    pub shown: Vec<(&'static str, String)>,
    /// Resolved forms of arguments, most exact first. Policy rules compare these forms instead of
    /// the arguments as the caller wrote them; see `conductor_core::policy::Rule::args`.
    pub forms: Vec<Value>,
    /// Name of the circuit breaker that counts the failures, such as a port, a host or a plugin.
    pub key: Option<String>,
    /// Decides before [`Definition::decide`], for tools that must resolve the target first.
    pub by_args: Option<ByArgs>,
    /// Hash of the state that the call would change. Replaces [`Definition::state_hash`].
    pub state: Option<Digest>,
    /// Facts for the approver, for tools without [`Definition::facts`].
    pub facts: AskFacts,
    /// Why the handler would refuse the call. If set, no person is asked.
    pub fault: Option<ToolError>,
}

impl Target {
    /// A target that is used only for the circuit breaker.
    pub fn keyed(key: impl Into<String>) -> Self {
        Self { key: Some(key.into()), ..Self::default() }
    }

    pub fn refused(fault: impl Into<ToolError>) -> Self {
        Self { fault: Some(fault.into()), ..Self::default() }
    }
}

/// When a tool runs regardless of policy, limits, circuit breakers and the state of the audit log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Availability {
    /// Never.
    Ordinary,
    /// When the call comes through the human door. For tools of the tier ReadOnly that a person
    /// needs to diagnose the daemon, for example when the audit log cannot be written.
    HumanDoor,
    /// Always (`conductor_panic`).
    Always,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    Builtin,
    Plugin { name: String, code: Digest },
}

/// A tool as defined by its author.
#[derive(Clone)]
pub struct Definition {
    pub name: Cow<'static, str>,
    pub title: Cow<'static, str>,
    pub description: Cow<'static, str>,
    pub tier: Tier,
    pub toolset: Cow<'static, str>,
    pub requires_approval: Option<bool>,
    pub ask_floor: AskFloor,
    pub idempotent: bool,
    pub grantable: bool,
    pub timeout_ms: u64,
    pub grant_ms: Option<u64>,
    pub max_result_bytes: usize,
    /// The host that the tool needs. When the host comes online, the circuit breakers of its tools
    /// are reset.
    pub host: Option<Cow<'static, str>>,
    pub source: Source,
    pub input_schema: Schema,
    /// Schema of a successful result; the error branch is added. `null` for plugins that return
    /// finished blocks without a value.
    pub output_schema: Schema,
    /// Whether the input schema is published unchanged, for fixtures that test schemas.
    pub verbatim: bool,
    pub destructive: Option<bool>,
    pub open_world: Option<bool>,
    /// Whether the tool is hidden: it is not listed, and unknown to all principals except people
    /// and mappings.
    pub hidden: bool,
    pub availability: Availability,
    /// A shorter input schema for lists, for tools whose complete schema is long.
    pub short_schema: Option<Schema>,
    pub summary: Option<Summary>,
    pub state_hash: Option<StateHash>,
    pub decide: Option<Decide>,
    pub facts: Option<Facts>,
    pub target: Option<ResolveTarget>,
    /// Whether the old state is kept, so that a call can be undone. The approval request mentions
    /// this.
    pub undoable: bool,
    /// Checks the arguments before any other code of the tool runs.
    pub check: Option<Check>,
    pub run: Handler,
}

impl Definition {
    pub fn new<F, R>(
        name: impl Into<Cow<'static, str>>,
        tier: Tier,
        toolset: impl Into<Cow<'static, str>>,
        run: F,
    ) -> Self
    where
        F: Fn(Arc<Studio>, Clearance, Value) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Output, ToolError>> + Send + 'static,
    {
        let run: Handler = Arc::new(move |studio, clearance, arguments| Box::pin(run(studio, clearance, arguments)));
        Self::of_handler(name.into(), tier, toolset.into(), run)
    }

    /// The part of [`Definition::new`] that does not depend on the type of the handler, so that it
    /// is compiled once and not for every tool.
    fn of_handler(name: Cow<'static, str>, tier: Tier, toolset: Cow<'static, str>, run: Handler) -> Self {
        Self {
            title: name.clone(),
            description: Cow::Borrowed(""),
            name,
            tier,
            toolset,
            requires_approval: None,
            ask_floor: AskFloor::None,
            idempotent: tier == Tier::ReadOnly,
            grantable: true,
            timeout_ms: DEFAULT_TIMEOUT_MS,
            grant_ms: None,
            max_result_bytes: DEFAULT_RESULT_BYTES,
            host: None,
            source: Source::Builtin,
            input_schema: json!({ "type": "object", "properties": {}, "additionalProperties": false }).into(),
            output_schema: json!({ "type": "object" }).into(),
            verbatim: false,
            destructive: None,
            open_world: None,
            hidden: false,
            availability: Availability::Ordinary,
            short_schema: None,
            summary: None,
            state_hash: None,
            decide: None,
            facts: None,
            target: None,
            undoable: false,
            check: None,
            run,
        }
    }

    /// Whether the tool runs other tools. Mappings, plugins, scripts and `conductor_call_tool`
    /// cannot call such a tool.
    pub fn runs_tools(&self) -> bool {
        NESTING_TOOLS.contains(&self.name.as_ref())
    }

    /// Whether this call runs regardless of policy, limits, circuit breakers and the audit log.
    pub fn is_exempt(&self, caller: &Principal) -> bool {
        match self.availability {
            Availability::Ordinary => false,
            Availability::HumanDoor => caller.is_at_human_door(),
            Availability::Always => true,
        }
    }

    #[must_use]
    pub fn text(mut self, title: impl Into<Cow<'static, str>>, description: impl Into<Cow<'static, str>>) -> Self {
        self.title = title.into();
        self.description = description.into();
        self
    }

    #[must_use]
    pub fn input(mut self, schema: impl Into<Schema>) -> Self {
        self.input_schema = schema.into();
        self
    }

    /// Sets the input schema in lists. Calls are validated against the complete schema.
    #[must_use]
    pub fn listed(mut self, schema: impl Into<Schema>) -> Self {
        self.short_schema = Some(schema.into());
        self
    }

    #[must_use]
    pub fn check(mut self, check: impl Fn(&Value) -> Vec<Violation> + Send + Sync + 'static) -> Self {
        self.check = Some(Arc::new(check));
        self
    }

    #[must_use]
    pub fn output(mut self, schema: impl Into<Schema>) -> Self {
        self.output_schema = schema.into();
        self
    }

    #[must_use]
    pub fn idempotent(mut self) -> Self {
        self.idempotent = true;
        self
    }

    /// Sets a function that resolves the target synchronously.
    #[must_use]
    pub fn target(mut self, target: impl Fn(&Studio, &Call) -> Target + Send + Sync + 'static) -> Self {
        self.target = Some(Arc::new(move |studio, call| Box::pin(std::future::ready(target(studio, call)))));
        self
    }

    #[must_use]
    pub fn summary(mut self, summary: impl Fn(&Value) -> String + Send + Sync + 'static) -> Self {
        self.summary = Some(Arc::new(summary));
        self
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Annotations {
    pub read_only: bool,
    pub destructive: bool,
    pub idempotent: bool,
    pub open_world: bool,
}

impl Annotations {
    /// Sets all four annotations, because the protocol's defaults are destructive and open-world.
    /// Annotations enforce nothing.
    fn of(definition: &Definition) -> Self {
        let (destructive, idempotent, open_world) = match definition.tier {
            Tier::ReadOnly => (false, true, false),
            Tier::Stateful => (false, definition.idempotent, false),
            Tier::ConfigChange => (false, false, false),
            Tier::HardwareIo => (true, definition.idempotent, true),
        };
        Self {
            read_only: definition.tier == Tier::ReadOnly,
            destructive: definition.destructive.unwrap_or(destructive),
            idempotent,
            open_world: definition.open_world.unwrap_or(open_world),
        }
    }

    pub fn to_wire(self) -> Value {
        json!({
            "readOnlyHint": self.read_only, "destructiveHint": self.destructive,
            "idempotentHint": self.idempotent, "openWorldHint": self.open_world
        })
    }
}

/// A checked and compiled definition.
pub struct Tool {
    definition: Definition,
    safe_name: String,
    /// The complete input schema, for documents and programs.
    pub published_schema: Schema,
    /// The input schema for lists that a model reads.
    pub listed_schema: Schema,
    pub output_schema: Schema,
    pub annotations: Annotations,
    pub pin: Digest,
    pub validator: Validator,
    pub output_validator: Validator,
}

impl std::ops::Deref for Tool {
    type Target = Definition;

    fn deref(&self) -> &Definition {
        &self.definition
    }
}

impl std::fmt::Debug for Tool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tool").field("name", &self.name).field("tier", &self.tier).field("pin", &self.pin).finish()
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CatalogError {
    #[error("{0:?} is not a valid tool name: use 1-64 characters of A-Z a-z 0-9 _ . -")]
    BadName(String),
    #[error("{name} and {other} have the same name when each dot is replaced by an underscore")]
    SameName { name: String, other: String },
    #[error("{name}: input schema: {fault}")]
    Input { name: String, fault: SchemaError },
    #[error("{name}: output schema: {fault}")]
    Output { name: String, fault: SchemaError },
    #[error("{name}: the definition cannot be pinned: {reason}")]
    NoPin { name: String, reason: String },
    #[error("two resources or two prompts are named {0}")]
    SameEntry(String),
}

impl Tool {
    pub fn new(definition: Definition) -> Result<Self, CatalogError> {
        let name = definition.name.to_string();
        let fits = (1..=64).contains(&name.len())
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-'));
        if !fits {
            return Err(CatalogError::BadName(name.chars().take(128).collect()));
        }
        // A debug build compiles every schema at registration, so that tests find invalid schemas.
        // A release build compiles the schema of a built-in tool at the first call.
        let trusted = definition.source == Source::Builtin && !cfg!(debug_assertions);
        let compile = |schema: &Schema| if trusted { Ok(Validator::later(schema)) } else { Validator::compile(schema) };
        let validator =
            compile(&definition.input_schema).map_err(|fault| CatalogError::Input { name: name.clone(), fault })?;
        let success = if definition.output_schema.is_null() {
            json!({ "type": "object" })
        } else {
            definition.output_schema.value()
        };
        let output_schema = with_error_branch(success).into();
        let output_validator =
            compile(&output_schema).map_err(|fault| CatalogError::Output { name: name.clone(), fault })?;
        let annotations = Annotations::of(&definition);
        let input = definition.input_schema.value();
        let code = match &definition.source {
            Source::Builtin => env!("CARGO_PKG_VERSION").to_owned(),
            Source::Plugin { code, .. } => code.to_string(),
        };
        let pin = Digest::of_json(&json!({
            "name": name,
            "description": definition.description,
            "inputSchema": input,
            "annotations": annotations.to_wire(),
            "tier": definition.tier,
            "code": code,
        }))
        .map_err(|fault| CatalogError::NoPin { name: name.clone(), reason: fault.to_string() })?;
        let published_schema: Schema =
            if definition.verbatim { definition.input_schema.clone() } else { published(input).into() };
        let listed_schema = match &definition.short_schema {
            Some(short) => short.clone(),
            None if definition.verbatim => published_schema.clone(),
            None => lean(published_schema.value()).into(),
        };
        Ok(Self {
            safe_name: safe_form(&name).into_owned(),
            published_schema,
            listed_schema,
            output_schema,
            annotations,
            pin,
            validator,
            output_validator,
            definition,
        })
    }

    /// The definition as written by its author. Clients receive [`Tool::output_schema`].
    pub fn definition(&self) -> &Definition {
        &self.definition
    }

    pub fn safe_name(&self) -> &str {
        &self.safe_name
    }

    /// Whether a failed attempt may be retried.
    pub fn retries(&self) -> bool {
        self.tier == Tier::ReadOnly || self.idempotent
    }

    pub fn summarize(&self, arguments: &Value) -> String {
        match &self.definition.summary {
            Some(summary) => summary(arguments),
            None => self.title.to_string(),
        }
    }
}

#[derive(Default)]
pub struct Catalog {
    /// Tools by dotted name. Lists have this order.
    tools: BTreeMap<String, Arc<Tool>>,
    by_safe: HashMap<String, Arc<Tool>>,
    resources: BTreeMap<String, Arc<Resource>>,
    prompts: BTreeMap<String, Arc<Prompt>>,
}

impl Catalog {
    pub fn new(tools: impl IntoIterator<Item = Tool>) -> Result<Self, CatalogError> {
        let mut catalog = Self::default();
        for tool in tools {
            catalog.add(tool)?;
        }
        Ok(catalog)
    }

    /// Refuses a tool whose safe name is in use, so that one name never means two tools.
    pub fn add(&mut self, tool: Tool) -> Result<(), CatalogError> {
        if let Some(taken) = self.by_safe.get(tool.safe_name()) {
            return Err(CatalogError::SameName { name: tool.name.to_string(), other: taken.name.to_string() });
        }
        let tool = Arc::new(tool);
        self.by_safe.insert(tool.safe_name().to_owned(), Arc::clone(&tool));
        self.tools.insert(tool.name.to_string(), tool);
        Ok(())
    }

    pub fn remove(&mut self, name: &str) -> bool {
        match self.by_safe.remove(safe_form(name).as_ref()) {
            Some(tool) => self.tools.remove(tool.name.as_ref()).is_some(),
            None => false,
        }
    }

    pub fn add_resource(&mut self, resource: Resource) -> Result<(), CatalogError> {
        let uri = resource.uri.to_string();
        if self.resources.insert(uri.clone(), Arc::new(resource)).is_some() {
            return Err(CatalogError::SameEntry(uri));
        }
        Ok(())
    }

    pub fn add_prompt(&mut self, prompt: Prompt) -> Result<(), CatalogError> {
        let name = prompt.name.to_string();
        if self.prompts.insert(name.clone(), Arc::new(prompt)).is_some() {
            return Err(CatalogError::SameEntry(name));
        }
        Ok(())
    }

    pub fn remove_prompt(&mut self, name: &str) -> bool {
        self.prompts.remove(name).is_some()
    }

    /// A new catalog that shares every entry of this catalog, for editing.
    pub fn copy(&self) -> Self {
        Self {
            tools: self.tools.clone(),
            by_safe: self.by_safe.clone(),
            resources: self.resources.clone(),
            prompts: self.prompts.clone(),
        }
    }

    /// Whether tools, resources and prompts differ.
    pub fn differs(&self, other: &Self) -> [bool; 3] {
        fn differ<T>(a: &BTreeMap<String, Arc<T>>, b: &BTreeMap<String, Arc<T>>) -> bool {
            a.len() != b.len() || a.iter().zip(b).any(|((k, v), (l, w))| k != l || !Arc::ptr_eq(v, w))
        }
        [
            differ(&self.tools, &other.tools),
            differ(&self.resources, &other.resources),
            differ(&self.prompts, &other.prompts),
        ]
    }

    /// Finds a tool by the dotted or the safe form of its name.
    pub fn get(&self, name: &str) -> Option<&Arc<Tool>> {
        self.by_safe.get(safe_form(name).as_ref())
    }

    /// Like [`Catalog::get`]; also accepts the name of a plugin that has exactly one tool.
    pub fn named(&self, name: &str) -> Option<&Arc<Tool>> {
        self.get(name).or_else(|| {
            let mut own = self.tools.values().filter(|tool| match &tool.source {
                Source::Plugin { name: plugin, .. } => plugin == name,
                Source::Builtin => false,
            });
            own.next().filter(|_| own.next().is_none())
        })
    }

    pub fn tools(&self) -> impl Iterator<Item = &Arc<Tool>> {
        self.tools.values()
    }

    pub fn list(&self, toolset: &Toolset) -> impl Iterator<Item = &Arc<Tool>> {
        self.tools.values().filter(|tool| !tool.hidden && toolset.has(tool))
    }

    pub fn resources(&self, toolset: &Toolset) -> impl Iterator<Item = &Arc<Resource>> {
        self.resources.values().filter(|resource| toolset.has_set(&resource.toolset))
    }

    pub fn prompts(&self, toolset: &Toolset) -> impl Iterator<Item = &Arc<Prompt>> {
        self.prompts.values().filter(|prompt| toolset.has_set(&prompt.toolset))
    }

    pub fn prompt(&self, name: &str) -> Option<&Arc<Prompt>> {
        self.prompts.get(name)
    }

    /// Up to three listed names that are similar to a mistyped name, the closest first.
    pub fn nearest(&self, name: &str, toolset: &Toolset) -> Vec<String> {
        let asked: String = safe_form(name).to_lowercase().chars().take(64).collect();
        let mut close: Vec<(usize, &str)> = self
            .list(toolset)
            .filter_map(|tool| {
                let known = tool.safe_name().to_lowercase();
                let far = strsim::levenshtein(&asked, &known);
                // A name is similar if at most a third of its letters differ. A name that contains
                // the requested text is similar at any length.
                let contained = asked.len() >= 4 && tool.safe_name().contains(&asked);
                (far <= (known.len() / 3).max(2) || contained).then_some((far, tool.name.as_ref()))
            })
            .collect();
        close.sort();
        close.into_iter().take(3).map(|(_, name)| name.to_owned()).collect()
    }
}
