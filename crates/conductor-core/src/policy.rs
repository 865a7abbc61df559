//! Decides whether a call runs, needs an approval or is refused: tiers, rules, floors and limits.
//!
//! Not here: reading `config.toml` (`config` reads the tables declared here), open approval
//! requests (`pending`) and the circuit breaker (`breaker`).

pub mod limits;

use crate::config::form::{Form, boolean, by, filled, heard_device, ms, named, set, u7, whole};
use crate::config::http::address;
use crate::config::policy::{arguments, decides_something, principal_pattern, report_faults, rules, tool_pattern};
use crate::config::section::{row, section, table};
use crate::config::webhooks::receiver;
use crate::digest::Digest;
use crate::named_enum::named_enum;
use crate::principal::Principal;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};
use std::net::SocketAddr;

named_enum! {
    /// The kind of effect that a tool has.
    #[derive(PartialOrd, Ord)]
    pub enum Tier {
        /// Changes nothing.
        ReadOnly = "ReadOnly",
        /// Changes the state of the daemon, or a document whose changes can be undone.
        Stateful = "Stateful",
        /// Changes the configuration, only through a plan.
        ConfigChange = "ConfigChange",
        /// Has an effect outside the daemon: devices, files, processes, databases, network.
        HardwareIo = "HardwareIO",
    }
}

named_enum! {
    /// The decision of a policy about a call.
    pub enum Decision {
        /// The call runs.
        Allow = "allow",
        /// The call needs the approval of a person.
        Ask = "ask",
        /// The call is refused.
        Deny = "deny",
        /// The tool only stores a plan, which a person can apply.
        Plan = "plan",
    }
}

named_enum! {
    /// The weakest kind of channel that may approve.
    #[derive(PartialOrd, Ord)]
    pub enum Floor {
        /// The AI client's own dialog is enough.
        Client = "client",
        /// Every channel except the AI client's own dialog.
        Local = "local",
        /// Only the approval pad, held by a person.
        Pad = "pad",
    }
}

named_enum! {
    /// The channel of a person's answer.
    pub enum Channel {
        /// A command of the `conductor` program.
        Cli = "cli",
        /// The prompt in the terminal that runs the daemon.
        Terminal = "terminal",
        /// The web console.
        Console = "console",
        /// The AI client's own dialog.
        Client = "client",
        /// The approval pad, held by a person.
        Pad = "pad",
        /// A person on another rig, with a key that was enrolled on this rig.
        Rig = "rig",
        /// A paired phone.
        Phone = "phone",
    }
}

impl Channel {
    /// Whether this channel may approve when `floor` is required.
    pub const fn satisfies(self, floor: Floor) -> bool {
        match floor {
            Floor::Client => true,
            Floor::Local => match self {
                Self::Cli | Self::Terminal | Self::Console | Self::Pad | Self::Phone | Self::Rig => true,
                Self::Client => false,
            },
            Floor::Pad => match self {
                Self::Pad => true,
                Self::Cli | Self::Terminal | Self::Console | Self::Client | Self::Phone | Self::Rig => false,
            },
        }
    }
}

impl Serialize for Pattern {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Exact(name) => serializer.serialize_str(name),
            Self::Prefix(start) => serializer.collect_str(&format_args!("{start}*")),
        }
    }
}

/// An exact name, or a prefix when written with a final `*`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pattern {
    /// The whole name.
    Exact(String),
    /// Every name with this prefix.
    Prefix(String),
}

impl Pattern {
    /// Reads `name` or `prefix*`.
    pub fn parse(text: &str) -> Self {
        match text.strip_suffix('*') {
            Some(prefix) => Self::Prefix(prefix.to_owned()),
            None => Self::Exact(text.to_owned()),
        }
    }

    /// Whether the pattern covers `text`.
    pub fn matches(&self, text: &str) -> bool {
        match self {
            Self::Exact(name) => name == text,
            Self::Prefix(prefix) => text.starts_with(prefix.as_str()),
        }
    }

    fn text(&self) -> &str {
        match self {
            Self::Exact(text) | Self::Prefix(text) => text,
        }
    }
}

section! {
    /// A rule of the policy. An absent key matches everything.
    #[derive(Serialize)]
    pub struct Rule {
        /// Full name of a tool, or a prefix followed by `*`.
        tool: Option<Pattern> = None, tool_pattern().maybe(), "\"conductor_send_midi\"";
        /// Principal, or a prefix followed by `*`.
        principal: Option<Pattern> = None, principal_pattern().maybe(), "\"http:ci\"";
        /// Tier of the tool.
        tier: Option<Tier> = None, named().maybe(), "\"HardwareIO\"";
        /// JSON pointers into the arguments, each with the exact value expected there. A rule also
        /// matches the normal forms of the arguments (root and path of a file, name of a command,
        /// host of an address), so another spelling of the same call cannot avoid the rule. An
        /// `allow` rule matches only the arguments as sent and their most exact normal form,
        /// because the other forms could match more calls than intended.
        args: Vec<(String, Value)> = Vec::new(), arguments(), "{ \"/port\" = \"synth\" }";
        /// The decision. If absent, the tool's default applies, and the rule sets only the
        /// `channel`. `plan` is only for the tier ConfigChange.
        decision: Option<Decision> = None, named().maybe(), "\"deny\"";
        /// Where a person must answer an approval request. A rule can only require a stricter
        /// channel than the default.
        channel: Option<Floor> = None, named().maybe(), "\"local\"";
    }
    check decides_something
}

/// A minimum that a tool requires and that no policy rule can lower.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AskFloor {
    /// No minimum: the rules decide.
    #[default]
    None,
    /// Every call needs an approval, regardless of the rules. Used for SysEx, which can rewrite a
    /// device's firmware.
    Always,
    /// Only a rule for one exact `mapping:` principal, or the tool's own decision
    /// ([`ByArgs::Allow`]), can allow a call without approval. Used for commands with `effect =
    /// "write"`.
    UnlessMapping,
    /// The tool decides by the arguments whether a call needs an approval. If it does, no rule, no
    /// grant and no client dialog can replace the approval. Used for edits to a running patch that
    /// use files, the network or the program. For other calls to the tool the rules decide.
    ByArgs,
}

/// The facts of a call that determine the decision of a policy.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// Full name of the tool.
    pub tool: &'a str,
    /// Tier of the tool.
    pub tier: Tier,
    /// The caller.
    pub principal: &'a Principal,
    /// The arguments as written.
    pub args: &'a Value,
    /// The normal forms of the arguments; see [`Rule::args`]. Each form replaces some members of
    /// `args`.
    pub forms: &'a [Value],
    /// Whether the tool needs an approval by default. If absent, the tier decides.
    pub requires_approval: Option<bool>,
    /// The tool's own decision based on the arguments, if it has one.
    pub by_args: Option<ByArgs>,
    /// The minimum that the tool requires.
    pub ask_floor: AskFloor,
}

/// A decision that a tool bases on the arguments of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ByArgs {
    /// The call runs without an approval.
    Allow,
    /// The call needs an approval.
    Ask,
    /// The arguments do not decide; `requires_approval` and the tier decide.
    Usual,
}

/// The decision of a policy and the channel that it requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verdict {
    pub decision: Decision,
    /// Index of the rule that decided, in the order of the file; absent if a default decided.
    pub rule: Option<usize>,
    /// Weakest channel that may approve the call or apply the plan.
    pub floor: Floor,
}

section! {
    /// Decisions for calls that match no rule, by tier.
    #[derive(Copy, Eq, Serialize)]
    pub struct TierDefaults {
        /// Decision for tools that change nothing.
        read_only as "ReadOnly": Decision = Decision::Allow, named();
        /// Decision for tools whose changes can be undone.
        stateful as "Stateful": Decision = Decision::Allow, named(), "\"ask\"";
        /// Decision for tools that change the configuration: `plan` or `deny`.
        config_change as "ConfigChange": Decision = Decision::Plan, named(), "\"deny\"";
        /// Decision for tools with an effect outside the daemon.
        hardware_io as "HardwareIO": Decision = Decision::Ask, named(), "\"deny\"";
    }
}

impl TierDefaults {
    /// The decision for a tier.
    pub const fn of(&self, tier: Tier) -> Decision {
        match tier {
            Tier::ReadOnly => self.read_only,
            Tier::Stateful => self.stateful,
            Tier::ConfigChange => self.config_change,
            Tier::HardwareIo => self.hardware_io,
        }
    }
}

row! {
    /// A pad that approves the shown request when a person holds it.
    #[derive(Eq, Serialize)]
    pub struct PadSettings {
        /// Alias of the controller.
        device: String, heard_device(), "\"pads\"";
        /// Note of the pad.
        note: u8, u7(), "36";
        /// How long the pad must be held, in milliseconds.
        hold_ms: u64 = 800, ms(), "1500";
        /// Tiers that the pad can approve.
        tiers: Vec<Tier> = vec![Tier::ConfigChange, Tier::HardwareIo], set(named(), 0..=Tier::ALL.len()), "[\"HardwareIO\"]";
    }
}

row! {
    /// A listener with TLS on which paired phones answer approval requests. It serves nothing else.
    /// It uses the certificate of `[http.tls]` and the names of `[http] hosts`.
    #[derive(Eq, Serialize)]
    pub struct PhoneSettings {
        /// Numeric address and port of the listener.
        bind: SocketAddr, by(address), "\"0.0.0.0:3444\"";
        /// Tiers that a phone can approve.
        tiers: Vec<Tier> = vec![Tier::Stateful, Tier::ConfigChange, Tier::HardwareIo], set(named(), 0..=Tier::ALL.len()), "[\"HardwareIO\"]";
        /// Topic of an ntfy server. It receives a fixed text when a request starts to wait.
        ntfy: Option<String> = None, filled().ruled(receiver).maybe(), "\"https://ntfy.example/a-long-random-topic\"";
    }
}

section! {
    /// Approval requests.
    #[derive(Eq, Serialize)]
    pub struct ApprovalSettings {
        /// How long a call waits for an answer if a person can be reached, in milliseconds.
        wait_ms: u64 = 30_000, whole(0..=600_000), "10000";
        /// Time in milliseconds after which a plan or an approval request expires.
        ttl_ms: u64 = 300_000, whole(1000..=86_400_000), "120000";
        /// Tiers that the AI client's own dialog may answer.
        client_tiers: Vec<Tier> = Vec::new(), set(named(), 0..=Tier::ALL.len()), "[\"Stateful\"]";
        /// Time in milliseconds after a denial in which an identical call is refused without a new
        /// request.
        cooldown_ms: u64 = 60_000, whole(0..=3_600_000), "10000";
        /// Whether answers from processes that an AI client started are refused.
        refuse_descendants: bool = true, boolean();
        /// The approval pad, if there is one.
        pad: Option<PadSettings> = None, table().maybe();
        /// The listener for paired phones, if there is one.
        phone: Option<PhoneSettings> = None, table().maybe();
    }
}

section! {
    /// The decisions about calls. If this section has an error, none of it is used, because one
    /// part could allow calls that another part refuses. The earlier policy then stays in force.
    #[derive(Serialize)]
    pub struct Policy {
        /// Decisions for calls that match no rule.
        default: TierDefaults = TierDefaults::default(), table();
        /// The rules; the first that matches a call decides.
        rules: Vec<Rule> = Vec::new(), rules();
        /// Approval requests.
        approval: ApprovalSettings = ApprovalSettings::default(), table();
    }
    check report_faults
}

/// A rule or default that cannot work as written. A policy with such a fault must not replace a
/// valid policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the error messages explain the variants")]
pub enum PolicyError {
    #[error(
        "rule {rule} allows a client by its own name ({principal}), but any client can use that name. \
         Write `*` after the slash (`socket:1000/*`), or allow an HTTP token instead"
    )]
    ClientIsOnlyAClaim { rule: usize, principal: String },
    #[error("rule {rule} has the decision `plan`, which is only for the tier ConfigChange")]
    PlanElsewhere { rule: usize },
    #[error("the default of {tier} is `plan`, which is only for ConfigChange")]
    DefaultPlanElsewhere { tier: Tier },
    #[error(
        "the default of ConfigChange must be `plan` or `deny`: the configuration may change only through a plan that a person applies"
    )]
    DefaultWithoutPlan,
    #[error("rule {rule}: {pointer:?} is not a JSON pointer; it must be empty or begin with `/`")]
    NoPointer { rule: usize, pointer: String },
}

impl Policy {
    /// The faults in rules and defaults.
    pub fn faults(&self) -> Vec<PolicyError> {
        let mut faults = Vec::new();
        for (index, rule) in self.rules.iter().enumerate() {
            if rule.decision == Some(Decision::Allow)
                && let Some(principal) = &rule.principal
                && principal
                    .text()
                    .strip_prefix("socket:")
                    .and_then(|rest| rest.split_once('/'))
                    .is_some_and(|(_, c)| !c.is_empty())
            {
                faults.push(PolicyError::ClientIsOnlyAClaim { rule: index, principal: principal.text().to_owned() });
            }
            if rule.decision == Some(Decision::Plan) && rule.tier.is_some_and(|tier| tier != Tier::ConfigChange) {
                faults.push(PolicyError::PlanElsewhere { rule: index });
            }
            for (pointer, _) in &rule.args {
                if !pointer.is_empty() && !pointer.starts_with('/') {
                    faults.push(PolicyError::NoPointer { rule: index, pointer: pointer.clone() });
                }
            }
        }
        for tier in [Tier::ReadOnly, Tier::Stateful, Tier::HardwareIo] {
            if self.default.of(tier) == Decision::Plan {
                faults.push(PolicyError::DefaultPlanElsewhere { tier });
            }
        }
        if matches!(self.default.config_change, Decision::Allow | Decision::Ask) {
            faults.push(PolicyError::DefaultWithoutPlan);
        }
        faults
    }

    /// Decides one call.
    pub fn decide(&self, subject: &Subject<'_>) -> Verdict {
        let principal = subject.principal.to_string();
        let found = self.rules.iter().enumerate().find(|(_, rule)| rule.matches(subject, &principal));
        let wanted = found.and_then(|(_, rule)| rule.decision).unwrap_or_else(|| self.default_decision(subject));
        let decision = match (subject.tier, wanted) {
            (_, Decision::Deny) => Decision::Deny,
            (Tier::ConfigChange, Decision::Allow | Decision::Ask | Decision::Plan) => Decision::Plan,
            (Tier::ReadOnly | Tier::Stateful | Tier::HardwareIo, Decision::Ask | Decision::Plan) => Decision::Ask,
            (Tier::ReadOnly | Tier::Stateful | Tier::HardwareIo, Decision::Allow) => match subject.ask_floor {
                AskFloor::None => Decision::Allow,
                AskFloor::Always => Decision::Ask,
                AskFloor::UnlessMapping if found.is_some_and(|(_, rule)| rule.names_one_mapping()) => Decision::Allow,
                // The tool has decided that a call with these arguments needs no approval.
                AskFloor::UnlessMapping if subject.by_args == Some(ByArgs::Allow) => Decision::Allow,
                AskFloor::UnlessMapping => Decision::Ask,
                AskFloor::ByArgs if subject.by_args == Some(ByArgs::Ask) => Decision::Ask,
                AskFloor::ByArgs => Decision::Allow,
            },
        };
        let local = subject.ask_floor == AskFloor::ByArgs && subject.by_args == Some(ByArgs::Ask);
        let by_client = self.approval.client_tiers.contains(&subject.tier) && !local;
        let base = if by_client { Floor::Client } else { Floor::Local };
        let floor = found.and_then(|(_, rule)| rule.channel).map_or(base, |raised| raised.max(base));
        Verdict { decision, rule: found.map(|(index, _)| index), floor }
    }

    fn default_decision(&self, subject: &Subject<'_>) -> Decision {
        let by_tier = self.default.of(subject.tier);
        // A denied tier denies all of its tools, even tools with their own decision.
        if by_tier == Decision::Deny {
            return Decision::Deny;
        }
        match (subject.by_args, subject.requires_approval) {
            (Some(ByArgs::Allow), _) | (None | Some(ByArgs::Usual), Some(false)) => Decision::Allow,
            (Some(ByArgs::Ask), _) | (None | Some(ByArgs::Usual), Some(true)) => Decision::Ask,
            (None | Some(ByArgs::Usual), None) => by_tier,
        }
    }

    /// Whether the tool is denied for every principal and all arguments. Such a tool is not listed.
    /// Lists are the same for all connections, so a tool that is denied only to some principals is
    /// listed.
    pub fn denies_everyone(&self, tool: &str, tier: Tier) -> bool {
        for rule in &self.rules {
            if !rule.tool.as_ref().is_none_or(|pattern| pattern.matches(tool))
                || rule.tier.is_some_and(|wanted| wanted != tier)
            {
                continue;
            }
            let for_all = rule.principal.as_ref().is_none_or(|pattern| *pattern == Pattern::Prefix(String::new()))
                && rule.args.is_empty();
            match rule.decision {
                Some(Decision::Deny) if for_all => return true,
                Some(Decision::Deny) => {}
                Some(Decision::Allow | Decision::Ask | Decision::Plan) => return false,
                None if for_all => break,
                None if self.default.of(tier) == Decision::Deny => {}
                None => return false,
            }
        }
        self.default.of(tier) == Decision::Deny
    }
}

impl Rule {
    fn matches(&self, subject: &Subject<'_>, principal: &str) -> bool {
        self.tool.as_ref().is_none_or(|pattern| pattern.matches(subject.tool))
            && self.principal.as_ref().is_none_or(|pattern| pattern.matches(principal))
            && self.tier.is_none_or(|tier| tier == subject.tier)
            && self.matches_args(subject)
    }

    fn matches_args(&self, subject: &Subject<'_>) -> bool {
        let fits = |form: Option<&Value>| {
            self.args.iter().all(|(pointer, wanted)| {
                let found = form.and_then(|it| it.pointer(pointer)).or_else(|| subject.args.pointer(pointer));
                found.is_some_and(|it| same(it, wanted))
            })
        };
        let counted = if self.decision == Some(Decision::Allow) { 1 } else { usize::MAX };
        self.args.is_empty() || fits(None) || subject.forms.iter().take(counted).any(|form| fits(Some(form)))
    }

    fn names_one_mapping(&self) -> bool {
        matches!(&self.principal, Some(Pattern::Exact(name)) if name.starts_with("mapping:"))
    }
}

/// Whether two JSON values are equal; `1` and `1.0` are the same number.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64().is_some_and(|a| b.as_f64() == Some(a)),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        (a, b) => a == b,
    }
}

impl Policy {
    /// The version of the policy together with the `tools` and `plugins` sections, because
    /// approvals depend on those too. An approval is valid only for one version. The version is
    /// computed from the parsed policy, so that comments and the order of keys do not change it.
    pub fn version(&self, tools: &Value, plugins: &Value) -> Digest {
        // Hashing can fail only for a number above 2^53 in a rule, which the file reader refuses. A
        // policy with such a number gets another version, so that earlier approvals are stale.
        Digest::of_json(&json!({ "policy": self, "tools": tools, "plugins": plugins }))
            .unwrap_or_else(|fault| Digest::of(fault.to_string().as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ask(tool: &'static str, tier: Tier) -> Asked {
        Asked {
            tool,
            tier,
            principal: "socket:1000/demo",
            args: json!({}),
            forms: Vec::new(),
            requires_approval: None,
            by_args: None,
            floor: AskFloor::None,
        }
    }

    struct Asked {
        tool: &'static str,
        tier: Tier,
        principal: &'static str,
        args: Value,
        forms: Vec<Value>,
        requires_approval: Option<bool>,
        by_args: Option<ByArgs>,
        floor: AskFloor,
    }

    impl Asked {
        fn under(&self, policy: &Policy) -> Decision {
            self.verdict(policy).decision
        }

        fn verdict(&self, policy: &Policy) -> Verdict {
            let principal: Principal = self.principal.parse().expect("a principal");
            policy.decide(&Subject {
                tool: self.tool,
                tier: self.tier,
                principal: &principal,
                args: &self.args,
                forms: &self.forms,
                requires_approval: self.requires_approval,
                by_args: self.by_args,
                ask_floor: self.floor,
            })
        }
    }

    fn rule(tool: &str, principal: &str, decision: Decision) -> Rule {
        Rule {
            tool: (!tool.is_empty()).then(|| Pattern::parse(tool)),
            principal: (!principal.is_empty()).then(|| Pattern::parse(principal)),
            decision: Some(decision),
            ..Rule::default()
        }
    }

    fn rules(rules: Vec<Rule>) -> Policy {
        Policy { rules, ..Policy::default() }
    }

    #[test]
    fn defaults_by_arguments_then_flag_then_tier() {
        let policy = Policy::default();
        assert_eq!(ask("t", Tier::ReadOnly).under(&policy), Decision::Allow);
        assert_eq!(ask("t", Tier::Stateful).under(&policy), Decision::Allow);
        assert_eq!(ask("t", Tier::ConfigChange).under(&policy), Decision::Plan);
        assert_eq!(ask("t", Tier::HardwareIo).under(&policy), Decision::Ask);
        let flagged = Asked { requires_approval: Some(false), ..ask("t", Tier::HardwareIo) };
        assert_eq!(flagged.under(&policy), Decision::Allow);
        let both = Asked { requires_approval: Some(false), by_args: Some(ByArgs::Ask), ..ask("t", Tier::HardwareIo) };
        assert_eq!(both.under(&policy), Decision::Ask);
        let denied = Policy {
            default: TierDefaults { hardware_io: Decision::Deny, ..TierDefaults::default() },
            ..Policy::default()
        };
        assert_eq!(flagged.under(&denied), Decision::Deny);
    }

    #[test]
    fn the_first_matching_rule_wins() {
        let mut scratch = rule("filesystem.write", "", Decision::Allow);
        scratch.args = vec![("/root".into(), json!("scratch"))];
        let policy =
            rules(vec![scratch, rule("shell.*", "http:ci", Decision::Deny), rule("shell.*", "", Decision::Allow)]);
        let write = |root| Asked { args: json!({"root": root}), ..ask("filesystem.write", Tier::HardwareIo) };
        assert_eq!(
            write("scratch").verdict(&policy),
            Verdict { decision: Decision::Allow, rule: Some(0), floor: Floor::Local }
        );
        assert_eq!(
            write("studio").verdict(&policy),
            Verdict { decision: Decision::Ask, rule: None, floor: Floor::Local }
        );
        let ci = Asked { principal: "http:ci", ..ask("shell.exec", Tier::HardwareIo) };
        assert_eq!(ci.under(&policy), Decision::Deny);
        assert_eq!(ask("shell.exec", Tier::HardwareIo).under(&policy), Decision::Allow);
    }

    #[test]
    fn a_rule_meets_every_form_of_a_call_and_an_allow_only_the_first() {
        let with = |decision| {
            let mut rule = rule("filesystem.*", "", decision);
            rule.args = vec![("/root".into(), json!("private")), ("/limit".into(), json!(1))];
            rules(vec![rule])
        };
        let call = |forms: Vec<Value>| Asked {
            args: json!({"path": "/x/private/diary", "limit": 1.0}),
            forms,
            ..ask("filesystem.read", Tier::ReadOnly)
        };
        let (outer, inner) = (json!({"root": "outer", "path": "p"}), json!({"root": "private", "path": "diary"}));
        assert_eq!(call(vec![]).under(&with(Decision::Deny)), Decision::Allow);
        for forms in [vec![inner.clone()], vec![outer.clone(), inner.clone()]] {
            assert_eq!(call(forms).under(&with(Decision::Deny)), Decision::Deny);
        }
        let allowed = |forms| call(forms).verdict(&with(Decision::Allow)).rule;
        assert_eq!(allowed(vec![inner.clone(), outer.clone()]), Some(0));
        assert_eq!(allowed(vec![outer, inner]), None);
    }

    #[test]
    fn floors_hold_against_every_rule() {
        let open = rules(vec![rule("", "", Decision::Allow)]);
        assert_eq!(ask("conductor_create_mapping", Tier::ConfigChange).under(&open), Decision::Plan);
        let sysex = Asked { floor: AskFloor::Always, ..ask("conductor_send_sysex", Tier::HardwareIo) };
        assert_eq!(sysex.under(&open), Decision::Ask);

        let command =
            |principal| Asked { floor: AskFloor::UnlessMapping, principal, ..ask("shell.exec", Tier::HardwareIo) };
        assert_eq!(command("mapping:Live/x1").under(&open), Decision::Ask);
        let named = rules(vec![rule("shell.exec", "mapping:Live/x1", Decision::Allow)]);
        assert_eq!(command("mapping:Live/x1").under(&named), Decision::Allow);
        assert_eq!(command("mapping:Live/x2").under(&named), Decision::Ask);
        let wide = rules(vec![rule("shell.exec", "mapping:Live/*", Decision::Allow)]);
        assert_eq!(command("mapping:Live/x1").under(&wide), Decision::Ask);
        let sysex =
            Asked { floor: AskFloor::Always, principal: "mapping:Live/x1", ..ask("shell.exec", Tier::HardwareIo) };
        assert_eq!(sysex.under(&named), Decision::Ask);
    }

    #[test]
    fn a_call_that_the_tool_says_must_be_asked_has_a_local_floor() {
        let edit =
            |by_args| Asked { floor: AskFloor::ByArgs, by_args: Some(by_args), ..ask("edit_patch", Tier::Stateful) };
        let approval = ApprovalSettings { client_tiers: vec![Tier::Stateful], ..ApprovalSettings::default() };
        let open = Policy { approval: approval.clone(), ..rules(vec![rule("edit_patch", "", Decision::Allow)]) };
        let asked = edit(ByArgs::Ask).verdict(&open);
        assert_eq!((asked.decision, asked.floor), (Decision::Ask, Floor::Local));
        assert_eq!(edit(ByArgs::Usual).under(&open), Decision::Allow);
        // The default `ask` of a tier still applies.
        let default = TierDefaults { stateful: Decision::Ask, ..TierDefaults::default() };
        let careful = Policy { default, approval, ..Policy::default() };
        let usual = edit(ByArgs::Usual).verdict(&careful);
        assert_eq!((usual.decision, usual.floor), (Decision::Ask, Floor::Client));
        let denied = rules(vec![rule("edit_patch", "", Decision::Deny)]);
        assert_eq!(edit(ByArgs::Ask).under(&denied), Decision::Deny);
    }

    #[test]
    fn a_rule_may_raise_the_channel_but_not_lower_it() {
        let raise = |channel| rules(vec![Rule { channel: Some(channel), ..Rule::default() }]);
        assert_eq!(
            ask("t", Tier::Stateful).verdict(&Policy::default()).floor,
            Floor::Local,
            "by default, a client dialog may answer"
        );
        let approval = ApprovalSettings { client_tiers: vec![Tier::Stateful], ..ApprovalSettings::default() };
        let widened = Policy { approval, ..Policy::default() };
        assert_eq!(ask("t", Tier::Stateful).verdict(&widened).floor, Floor::Client);
        assert_eq!(ask("t", Tier::Stateful).verdict(&raise(Floor::Pad)).floor, Floor::Pad);
        assert_eq!(ask("t", Tier::HardwareIo).verdict(&raise(Floor::Client)).floor, Floor::Local);
        assert_eq!(ask("t", Tier::HardwareIo).verdict(&raise(Floor::Pad)).decision, Decision::Ask);
    }

    #[test]
    fn channels_and_floors() {
        use Channel::{Client, Pad};
        for &channel in Channel::ALL {
            assert!(channel.satisfies(Floor::Client));
            assert_eq!(channel.satisfies(Floor::Local), channel != Client);
            assert_eq!(channel.satisfies(Floor::Pad), channel == Pad);
        }
    }

    #[test]
    fn faults_are_found() {
        let claim = |principal| rules(vec![rule("", principal, Decision::Allow)]).faults().len();
        assert_eq!(claim("socket:1000/claude"), 1);
        assert_eq!(claim("socket:1000/cl*"), 1);
        assert_eq!((claim("socket:1000/*"), claim("socket:*"), claim("http:ci"), claim("mapping:a/b")), (0, 0, 0, 0));
        assert_eq!(rules(vec![rule("", "socket:1000/claude", Decision::Deny)]).faults(), []);
        let mut plan = rule("", "", Decision::Plan);
        plan.tier = Some(Tier::Stateful);
        plan.args = vec![("root".into(), json!(1))];
        assert_eq!(rules(vec![plan]).faults().len(), 2);
        let default =
            TierDefaults { config_change: Decision::Allow, read_only: Decision::Plan, ..TierDefaults::default() };
        assert_eq!(Policy { default, ..Policy::default() }.faults().len(), 2);
        assert_eq!(Policy::default().faults(), []);
    }

    #[test]
    fn only_a_tool_nobody_can_reach_is_hidden() {
        let hidden = |list: Vec<Rule>| rules(list).denies_everyone("web.fetch", Tier::HardwareIo);
        let deny = |principal| rule("web.*", principal, Decision::Deny);
        assert!(hidden(vec![deny("")]) && hidden(vec![deny("*")]));
        assert!(hidden(vec![deny("http:ci"), deny("")]));
        assert!(!hidden(vec![deny("http:ci")]));
        assert!(!hidden(vec![rule("web.fetch", "http:ci", Decision::Ask), deny("")]));
        assert!(!hidden(vec![rule("shell.*", "", Decision::Deny)]));
    }

    #[test]
    fn the_version_follows_each_section() {
        let version = |ttl_ms, tools, plugins| {
            let approval = ApprovalSettings { ttl_ms, ..ApprovalSettings::default() };
            Policy { approval, ..Policy::default() }.version(&json!(tools), &json!(plugins))
        };
        let base = version(1, 2, 3);
        assert_eq!(base, version(1, 2, 3));
        assert!(base != version(0, 2, 3) && base != version(1, 0, 3) && base != version(1, 2, 0));
    }

    proptest! {
        /// Whatever the rules are, a ConfigChange call makes a plan or is denied, and a SysEx call
        /// needs an approval or is denied.
        #[test]
        fn no_rule_passes_a_floor(
            decisions in prop::collection::vec(prop_oneof![Just(Decision::Allow), Just(Decision::Ask), Just(Decision::Deny), Just(Decision::Plan)], 0..5),
            flag in any::<Option<bool>>(),
        ) {
            let policy = rules(decisions.into_iter().map(|decision| rule("", "mapping:a/b", decision)).collect());
            let change = Asked { principal: "mapping:a/b", requires_approval: flag, ..ask("x", Tier::ConfigChange) };
            prop_assert!(matches!(change.under(&policy), Decision::Plan | Decision::Deny));
            let sysex = Asked { principal: "mapping:a/b", requires_approval: flag, floor: AskFloor::Always, ..ask("x", Tier::HardwareIo) };
            prop_assert!(matches!(sysex.under(&policy), Decision::Ask | Decision::Deny));
        }
    }
}
