//! Tests which changes of a file take effect without a person's approval.

use conductor_core::config::held::{Accepted, is_cut, load_accepted, load_held};
use conductor_core::config::{Config, Surroundings};

const HERE: &str = r#"
[[devices]]
alias = "pads"
trusted = true
matchers = [{ type = "NameContains", pattern = "APC" }]
[[devices]]
alias = "keys"
matchers = [{ type = "NameContains", pattern = "Keystation" }]
[[modes]]
name = "Default"
[[modes.mappings]]
id = "ls"
trigger = { type = "Note", note = 1 }
action = { type = "Shell", command = "ls" }
[policy.approval.pad]
device = "keys"
note = 36
[[policy.rules]]
tool = "shell.exec"
decision = "allow"
[[policy.rules]]
tool = "filesystem.write"
decision = "deny"
[tools.filesystem]
roots = [{ name = "a", path = "/tmp/a" }, { name = "b", path = "/tmp/b" }]
[[tools.shell.commands]]
name = "ls"
program = "/bin/ls"
[limits.effect]
per_minute = 100
[policy.approval]
cooldown_ms = 1000
ttl_ms = 60000
"#;

fn accepted(text: &str) -> Accepted {
    let judged = load_accepted(text, &Surroundings::default());
    assert!(judged.loaded.config.is_some(), "{:?}", judged.loaded.diagnostics);
    judged.accepted
}

/// The parts that are held after this change, and the configuration in force.
fn change(from: &str, to: &str) -> (Vec<String>, Config) {
    assert!(HERE.contains(from), "{from}");
    against(&accepted(HERE), &HERE.replacen(from, to, 1))
}

fn against(base: &Accepted, text: &str) -> (Vec<String>, Config) {
    let judged = load_held(text, base, &Surroundings::default());
    let config = judged.loaded.config.unwrap_or_else(|| panic!("{:?}", judged.loaded.diagnostics));
    (judged.held.names(), config)
}

fn narrows(from: &str, to: &str) {
    let (held, _) = change(from, to);
    assert_eq!(held, Vec::<String>::new(), "{from} -> {to}");
}

fn widens(from: &str, to: &str, section: &str) {
    let (held, config) = change(from, to);
    assert_eq!(held, [section], "{from} -> {to}");
    let old = load_accepted(HERE, &Surroundings::default()).loaded.config.unwrap();
    assert_eq!((config.policy, config.tools, config.limits), (old.policy, old.tools, old.limits), "{from} -> {to}");
    assert_eq!(config.devices, old.devices);
}

const ALLOW: &str = "[[policy.rules]]\ntool = \"shell.exec\"\ndecision = \"allow\"\n";
const DENY: &str = "[[policy.rules]]\ntool = \"filesystem.write\"\ndecision = \"deny\"\n";

#[test]
fn taking_a_grant_away_applies_at_once() {
    narrows(ALLOW, "");
    narrows("[[tools.shell.commands]]\nname = \"ls\"\nprogram = \"/bin/ls\"\n", "");
    narrows("{ name = \"a\", path = \"/tmp/a\" }, ", "");
    narrows(", { name = \"b\", path = \"/tmp/b\" }", "");
    narrows("per_minute = 100", "per_minute = 99");
    narrows("ttl_ms = 60000", "ttl_ms = 5000");
    narrows("[limits.effect]", "[mcp]\nmax_in_flight = 1\n[limits.effect]");
    let (held, config) = change(ALLOW, "");
    assert_eq!((held.len(), config.policy.unwrap().rules.len()), (0, 1));
}

#[test]
fn everything_else_waits_and_what_was_in_force_stays() {
    widens(DENY, "", "[policy]");
    widens(&format!("{ALLOW}{DENY}"), &format!("{DENY}{ALLOW}"), "[policy]");
    widens(ALLOW, &format!("{ALLOW}[[policy.rules]]\ntool = \"*\"\ndecision = \"allow\"\n"), "[policy]");
    widens("tool = \"shell.exec\"", "tool = \"shell.*\"", "[policy]");
    widens("cooldown_ms = 1000", "cooldown_ms = 0", "[policy]");
    widens("note = 36", "note = 37", "[policy]");
    widens("program = \"/bin/ls\"", "program = \"/bin/sh\"", "[tools]");
    widens("path = \"/tmp/a\"", "path = \"/\"", "[tools]");
    widens("{ name = \"a\", path = \"/tmp/a\" }", "{ name = \"a\", path = \"/tmp/a\", write = true }", "[tools]");
    widens("per_minute = 100", "per_minute = 101", "[limits]");
    widens("per_minute = 100", "", "[limits]");
    widens("[limits.effect]", "[http]\nallow_remote = true\n[http.tls]\nself_signed = true\n[limits.effect]", "[http]");
    widens("[limits.effect]", "[http.tls]\nself_signed = true\n[limits.effect]", "[http]");
    let hook = "[[http.hooks]]\nname = \"h\"\ntool = \"conductor_panic\"\nsecret = \"secret:h\"\n[limits.effect]";
    widens("[limits.effect]", hook, "[http]");
    let webhook = "[[webhooks]]\nname = \"w\"\nurl = \"https://evil.example\"\nevents = [\"tool.start\"]\nsecret = \"secret:w\"\n[limits.effect]";
    widens("[limits.effect]", webhook, "[webhooks]");
    widens("[limits.effect]", "[plugins.evil]\nenabled = true\n[limits.effect]", "[plugins]");
    widens("[limits.effect]", "[secrets]\nkey = \"file\"\n[limits.effect]", "[secrets]");
    widens("[limits.effect]", "[config]\nwatch = false\n[limits.effect]", "[config]");
    // A section with a restricting change and another change is held as a whole.
    widens("per_minute = 100", "per_minute = 1\nburst = 100000", "[limits]");
}

#[test]
fn the_spelling_of_a_section_makes_no_difference() {
    let base = accepted("[tools.filesystem]\nroots = [{ name = \"a\", path = \"/tmp/a\" }]\n");
    let same = [
        "tools = { filesystem = { roots = [{ path = \"/tmp/a\", name = \"a\" }] } }\n",
        "tools.filesystem.roots = [{ name = \"a\", path = \"/tmp/a\" }]\n",
        "[[tools.filesystem.roots]]\nname = \"a\"\npath = \"/tmp/a\"\n",
        "\u{feff}[\"tools\".'filesystem']\n\"roots\" = [{ name = \"a\", path = \"/tmp/\\u0061\" }]\n",
    ];
    for text in same {
        assert_eq!(against(&base, text).0, Vec::<String>::new(), "{text}");
        let (held, config) = against(&base, &text.replace("/tmp/", "/etc/"));
        assert_eq!(held, ["[tools]"], "{text}");
        assert_eq!(config.tools.roots[0].path, "/tmp/a");
    }
}

#[test]
fn a_device_keeps_its_trust_and_a_trusted_device_its_port() {
    widens("trusted = true", "trusted = true\necho_guard = true", "devices.pads.echo_guard");
    widens("pattern = \"APC\"", "pattern = \"\"", "devices.pads.matchers");
    widens("pattern = \"Keystation\"", "pattern = \"Midi Through\"", "devices.keys.matchers");
    widens("alias = \"keys\"", "alias = \"keys\"\nloopback = true", "devices.keys.loopback");
    let (held, config) = change("[[devices]]\nalias = \"keys\"", "[[devices]]\nalias = \"other\"");
    assert_eq!(held, ["devices.keys"], "the removal of the approval pad's device was not held");
    assert_eq!(config.devices.len(), 3);
    assert!(config.policy.is_some());
    // A controller may be added if it is not trusted.
    let more = format!(
        "{HERE}[[devices]]\nalias = \"new\"\ntrusted = true\nmatchers = [{{ type = \"NameContains\", pattern = \"X\" }}]\n"
    );
    assert_eq!(against(&accepted(HERE), &more).0, ["devices.new.trusted"]);
    assert_eq!(
        against(
            &accepted(HERE),
            &more.replace(
                "trusted = true\nmatchers = [{ type = \"NameContains\", pattern = \"X\"",
                "matchers = [{ type = \"NameContains\", pattern = \"X\""
            )
        )
        .0,
        Vec::<String>::new()
    );
}

fn with_row(action: &str) -> String {
    format!("{HERE}[[global_mappings]]\nid = \"new\"\ntrigger = {{ type = \"Note\", note = 9 }}\naction = {action}\n")
}

#[test]
fn a_row_that_runs_something_waits_by_itself() {
    let base = accepted(HERE);
    let actions = [
        r#"{ type = "Shell", command = "ls" }"#,
        r#"{ type = "Launch", app = "x" }"#,
        r#"{ type = "CallTool", tool = "conductor_panic" }"#,
        r#"{ type = "Plugin", plugin = "x", tool = "y" }"#,
        r#"{ type = "Sequence", actions = [{ type = "Delay", ms = 1 }, { type = "Shell", command = "ls" }] }"#,
        r#"{ type = "Repeat", count = 2, action = { type = "Sequence", actions = [{ type = "Launch", app = "x" }] } }"#,
        r#"{ type = "Conditional", condition = { type = "Always" }, then_action = { type = "Delay", ms = 1 }, else_action = { type = "Shell", command = "ls" } }"#,
    ];
    for action in actions {
        let text = with_row(action);
        let judged = load_held(&text, &base, &Surroundings::default());
        assert_eq!(judged.held.names(), ["mapping */new"], "{action}: {:?}", judged.loaded.diagnostics);
        let config = judged.loaded.config.unwrap();
        assert!(config.global.mappings[0].rule.is_none(), "{action}");
        assert!(config.modes[0].rows.mappings[0].rule.is_some(), "the accepted row is not in force");
        let fault = judged.loaded.diagnostics.iter().find(|it| it.path.starts_with("global")).unwrap();
        assert!(fault.help.as_ref().unwrap().contains("conductor config accept"));
        // The row is not accepted, so it is also held after a restart.
        assert_eq!(against(&judged.accepted, &text).0, ["mapping */new"]);
    }
    let zones = r#"trigger = { type = "VelocityRange", note = 9, min = 1, max = 127, zones = [{ max = 60, action = { type = "Shell", command = "ls" } }] }"#;
    let text = with_row(r#"{ type = "Delay", ms = 1 }"#).replace("trigger = { type = \"Note\", note = 9 }", zones);
    assert_eq!(against(&base, &text).0, ["mapping */new"], "the action of a zone was not held");
    // A row with another trigger, mode or id is a new row.
    for (from, to) in
        [("note = 1 }", "note = 2 }"), ("name = \"Default\"", "name = \"Live\""), ("id = \"ls\"", "id = \"la\"")]
    {
        assert_eq!(against(&base, &HERE.replacen(from, to, 1)).0.len(), 1, "{to}");
    }
}

#[test]
fn rows_that_type_load_and_are_named_until_a_person_accepts_them() {
    let base = accepted(HERE);
    let text = with_row(r#"{ type = "Sequence", actions = [{ type = "Text", text = "rm -rf ~" }] }"#);
    let judged = load_held(&text, &base, &Surroundings::default());
    assert!(judged.held.is_empty());
    assert!(judged.accepted.typing.contains("*/new"), "{:?}", judged.accepted.typing);
    let again = load_held(&format!("{text}# edited\n"), &judged.accepted, &Surroundings::default());
    assert!(again.accepted.typing.contains("*/new"));
    assert!(load_accepted(&text, &Surroundings::default()).accepted.typing.is_empty());
}

#[test]
fn a_plan_brings_in_what_it_changed_and_nothing_that_waited() {
    let base = accepted(HERE);
    let evil = HERE.replacen("path = \"/tmp/a\"", "path = \"/\"", 1);
    let row = |text: &str| {
        format!(
            "{text}[[global_mappings]]\nid = \"p\"\ntrigger = {{ type = \"Note\", note = 5 }}\naction = {{ type = \"Launch\", app = \"x\" }}\n"
        )
    };
    let after = row(&evil);
    let (held, config) = against(&base.with_plan(&evil, &after), &after);
    assert_eq!(held, ["[tools]"], "a plan accepted a root that was held");
    assert!(config.global.mappings[0].rule.is_some(), "the row of the plan is not in force");
    let more = format!("{evil}[[tools.shell.commands]]\nname = \"id\"\nprogram = \"/usr/bin/id\"\n");
    assert_eq!(
        against(&base.with_plan(&evil, &more), &more).0,
        ["[tools]"],
        "a plan that changes [tools] accepted a root that was held"
    );
    let clean = format!("{HERE}[plugins.echo]\nenabled = true\n");
    assert_eq!(against(&base.with_plan(HERE, &clean), &clean).0, Vec::<String>::new());
}

#[test]
fn closed_defaults_grant_nothing() {
    let (held, config) = against(&Accepted::closed(), HERE);
    assert!(held.contains(&"[policy]".to_owned()) && held.contains(&"[tools]".to_owned()), "{held:?}");
    assert!(config.policy.is_none(), "a policy is in force although nothing was accepted");
    assert!(config.tools.roots.is_empty() && config.tools.commands.is_empty());
    assert!(config.modes[0].rows.mappings[0].rule.is_none());
}

#[test]
fn a_file_that_was_cut_is_told_from_an_edit_where_it_can_be() {
    assert!(is_cut(HERE, "").is_some() && is_cut(HERE, " \n\t").is_some());
    assert_eq!(is_cut("", ""), None);
    let at = |word: &str| HERE.get(..HERE.find(word).unwrap()).unwrap();
    for cut in [at("[[modes]]"), at("[limits"), at("0\n[policy.approval]"), at("\n[policy.approval.pad]")] {
        assert!(is_cut(HERE, cut).is_some(), "{cut}");
    }
    assert_eq!(is_cut(HERE, HERE), None);
    assert_eq!(is_cut(HERE, HERE.trim_end()), None);
    assert_eq!(
        is_cut(HERE, &format!("{}# mine\n", at("[limits"))),
        None,
        "a file with new text after the cut was treated as truncated"
    );
    let two = "[[global_mappings]]\nid = \"a\"\n[[global_mappings]]\nid = \"b\"\n[[global_mappings]]\nid = \"c\"\n";
    assert_eq!(
        is_cut(two, two.strip_suffix("[[global_mappings]]\nid = \"c\"\n").unwrap()),
        None,
        "a deleted row was treated as a truncated file"
    );
}
