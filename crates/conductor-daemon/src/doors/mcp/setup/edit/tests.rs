//! Layouts that people and programs write, broken files, and generated layouts.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn fields(program: &str) -> Vec<Field> {
    vec![
        Field { key: "command", value: json!(program), is_required: true },
        Field { key: "args", value: json!(["mcp", "start"]), is_required: true },
        Field { key: "enabled", value: json!(true), is_required: false },
    ]
}

const PLACE: Place<'static> = Place { container: "servers", name: "conductor" };

fn set(format: Format, text: &str) -> String {
    format.set(text, PLACE, &fields("/bin/c")).unwrap_or_else(|fault| panic!("{fault}\n{text}"))
}

/// Sets the entry, compares the text, and removes it again without a backup.
fn check(format: Format, before: &str, after: &str) {
    let written = set(format, before);
    assert_eq!(written, after);
    assert_eq!(set(format, &written), after, "the second set-up changed the file");
    let had_container = format.value(before).is_ok_and(|it| it.get("servers").is_some());
    assert_eq!(format.unset(&written, PLACE, !had_container).ok().as_deref(), Some(before));
}

#[test]
fn json_keeps_its_layout() {
    check(
        Format::Jsonc,
        "{\n    // mine\n    \"a\": 1,\n    \"servers\": {\n        \"x\": {\"command\": \"y\"}, // the first\n    },\n}\n",
        "{\n    // mine\n    \"a\": 1,\n    \"servers\": {\n        \"x\": {\"command\": \"y\"}, // the first\n        \"conductor\": {\n            \
         \"command\": \"/bin/c\",\n            \"args\": [\"mcp\", \"start\"],\n            \"enabled\": true\n        },\n    },\n}\n",
    );
    check(
        Format::CommentedJson,
        "{\r\n\t\"servers\": {\r\n\t\t\"x\": {} // one\r\n\t\t/* end */\r\n\t}\r\n}",
        "{\r\n\t\"servers\": {\r\n\t\t\"x\": {}, // one\r\n\t\t\"conductor\": {\r\n\t\t\t\"command\": \"/bin/c\",\r\n\t\t\t\"args\": [\"mcp\", \
         \"start\"],\r\n\t\t\t\"enabled\": true\r\n\t\t}\r\n\t\t/* end */\r\n\t}\r\n}",
    );
    check(
        Format::Json,
        r#"{"a":[1,2],"servers":{"x":{"command":"y"}}}"#,
        r#"{"a":[1,2],"servers":{"x":{"command":"y"},"conductor":{"command":"/bin/c","args":["mcp","start"],"enabled":true}}}"#,
    );
    check(
        Format::Json,
        "\u{feff}{ \"servers\": { \"x\": {} } }",
        "\u{feff}{ \"servers\": { \"x\": {}, \"conductor\": {\"command\": \"/bin/c\", \"args\": [\"mcp\", \"start\"], \"enabled\": true} } }",
    );
    check(
        Format::Json,
        "{\n  \"theme\": \"dark\"\n}\n",
        "{\n  \"theme\": \"dark\",\n  \"servers\": {\n    \"conductor\": {\n      \"command\": \"/bin/c\",\n      \"args\": [\"mcp\", \"start\"],\n      \
         \"enabled\": true\n    }\n  }\n}\n",
    );
}

#[test]
fn yaml_keeps_its_layout() {
    check(
        Format::Yaml,
        "# mine\nmodel: a\nservers: # all of them\n  # the first\n  x:\n    command: y\n    note: |\n      two\n      lines\n\nz: 1\n",
        "# mine\nmodel: a\nservers: # all of them\n  conductor:\n    command: /bin/c\n    args: [\"mcp\", \"start\"]\n    enabled: true\n  # the \
         first\n  x:\n    command: y\n    note: |\n      two\n      lines\n\nz: 1\n",
    );
    check(
        Format::Yaml,
        "model: é\r\n# end",
        "model: é\r\n# end\r\nservers:\r\n  conductor:\r\n    command: /bin/c\r\n    args: [\"mcp\", \"start\"]\r\n    enabled: true",
    );
    check(
        Format::Yaml,
        "servers: {x: {command: y}} # short\nb: [1]\n",
        "servers: {x: {command: y}, \"conductor\": {\"command\": \"/bin/c\", \"args\": [\"mcp\", \"start\"], \"enabled\": true}} # short\nb: [1]\n",
    );
    check(
        Format::Yaml,
        "---\nservers:\n    x:\n        command: y\n",
        "---\nservers:\n    conductor:\n      command: /bin/c\n      args: [\"mcp\", \"start\"]\n      enabled: true\n    x:\n        command: y\n",
    );
}

#[test]
fn toml_keeps_its_layout() {
    check(
        Format::Toml,
        "# mine\nmodel = \"a\"   # here\n\n[servers.x]\ncommand = 'y'\nargs = [ \"1\", # one\n  \"2\" ]\n\n[other]\n",
        "# mine\nmodel = \"a\"   # here\n\n[servers.x]\ncommand = 'y'\nargs = [ \"1\", # one\n  \"2\" ]\n\n[other]\n\n[servers.conductor]\ncommand = \
         \"/bin/c\"\nargs = [\"mcp\", \"start\"]\nenabled = true\n",
    );
    check(
        Format::Toml,
        "a.b = 1\r\nservers.x.command = 'y'\r\n",
        "a.b = 1\r\nservers.x.command = 'y'\r\n\r\n[servers.conductor]\r\ncommand = \"/bin/c\"\r\nargs = [\"mcp\", \"start\"]\r\nenabled = true\r\n",
    );
}

#[test]
fn an_update_changes_the_command_and_keeps_what_a_person_set() {
    for (format, before, after) in [
        (
            Format::Jsonc,
            "{\"servers\": {\n  \"conductor\": {\n    \"enabled\": false, // off for now\n    \"command\": \"/old\",\n    \"env\": {\"A\": \"1\"}\n  }\n}}",
            "{\"servers\": {\n  \"conductor\": {\n    \"enabled\": false, // off for now\n    \"command\": \"/bin/c\",\n    \"env\": {\"A\": \"1\"},\n    \
             \"args\": [\"mcp\", \"start\"]\n  }\n}}",
        ),
        (
            Format::Yaml,
            "servers:\n  conductor:\n    enabled: false\n    command: /old # was here\n    args:\n    - mcp\n    - --old\n    envs: {}\n  x: {}\n",
            "servers:\n  conductor:\n    enabled: false\n    command: /bin/c # was here\n    args: [\"mcp\", \"start\"]\n    envs: {}\n  x: {}\n",
        ),
        (
            Format::Toml,
            "[servers.conductor]\nenabled = false\ncommand = '/old' # was here\n[servers.conductor.env]\nA = '1'\n",
            "[servers.conductor]\nargs = [\"mcp\", \"start\"]\nenabled = false\ncommand = \"/bin/c\" # was here\n[servers.conductor.env]\nA = '1'\n",
        ),
        (
            Format::Toml,
            "[servers]\nconductor = { command = '/old' }\n",
            "[servers]\nconductor = { args = [\"mcp\", \"start\"], command = \"/bin/c\" }\n",
        ),
    ] {
        assert_eq!(set(format, before), after);
        assert_eq!(set(format, after), after);
    }
}

#[test]
fn an_entry_is_removed_with_its_tables_and_its_neighbours_stay() {
    let toml = "[servers.conductor]\ncommand = 'c'\n\n# mine\n[other]\na = 1\n\n[servers.conductor.env]\nA = '1'\n[servers.x]\ncommand = 'y'\n";
    let after = "\n# mine\n[other]\na = 1\n[servers.x]\ncommand = 'y'\n";
    assert_eq!(Format::Toml.unset(toml, PLACE, false).ok().as_deref(), Some(after));
    let json = "{\"servers\": {\"conductor\": {}, \"x\": 1}}";
    assert_eq!(Format::Json.unset(json, PLACE, false).ok().as_deref(), Some("{\"servers\": {\"x\": 1}}"));
    let yaml = "servers:\n  conductor:\n    command: c # ours\n";
    assert_eq!(Format::Yaml.unset(yaml, PLACE, false).ok().as_deref(), Some("servers: {}\n"));
    assert_eq!(Format::Yaml.unset("a: 1\n", PLACE, false).ok().as_deref(), Some("a: 1\n"));
}

#[test]
fn an_empty_file_becomes_a_whole_one() {
    let json = "{\n  \"servers\": {\n    \"conductor\": {\n      \"command\": \"/bin/c\",\n      \"args\": [\"mcp\", \"start\"],\n      \"enabled\": \
                true\n    }\n  }\n}\n";
    let yaml = "servers:\n  conductor:\n    command: /bin/c\n    args: [\"mcp\", \"start\"]\n    enabled: true\n";
    let toml = "[servers.conductor]\ncommand = \"/bin/c\"\nargs = [\"mcp\", \"start\"]\nenabled = true\n";
    for (format, whole) in [(Format::Json, json), (Format::Jsonc, json), (Format::Yaml, yaml), (Format::Toml, toml)] {
        assert_eq!(set(format, ""), whole);
        assert!(format.value(&set(format, "\u{feff}\r\n")).is_ok());
    }
    assert_eq!(set(Format::Json, "{}"), json.trim_end());
    assert_eq!(set(Format::Yaml, "# nothing\n"), format!("# nothing\n{yaml}"));
    assert_eq!(set(Format::Yaml, "servers:\n"), yaml);
}

#[test]
fn a_broken_file_is_refused_with_its_place() {
    for (format, text, line, column) in [
        (Format::Json, "{\n  \"servers\": {\n", 2, 14),
        (Format::Json, "{\n  // no\n  \"servers\": {}\n}", 2, 3),
        (Format::Json, "{\n  \"a\": 1,\n}", 2, 9),
        (Format::CommentedJson, "{ // yes\n  \"a\": 1,\n}", 2, 9),
        (Format::Json, "[]", 1, 1),
        (Format::Json, "{\n  \"servers\": []\n}", 2, 14),
        (Format::Jsonc, "{\"servers\": {\"conductor\": true}}", 1, 27),
        (Format::Jsonc, "{\"servers\": {}, \"servers\": {}}", 1, 17),
        (Format::Json, "{\"a\": 'é'}", 1, 7),
        (Format::Json, "{\"é\": 1 \"b\": 2}", 1, 8),
        (Format::Json, "{\"a\": 1} {}", 1, 10),
        (Format::Toml, "a = 1\nb = \n", 2, 5),
        (Format::Toml, "servers = { x = {} }\n", 1, 11),
        (Format::Toml, "[servers]\nconductor = 1\n", 2, 13),
        (Format::Toml, "[a]\n[a]\n", 2, 2),
        (Format::Yaml, "a: 1\n  b: 2\n", 2, 4),
        (Format::Yaml, "a: [1, 2\n", 2, 1),
        (Format::Yaml, "a: 1\n---\nb: 2\n", 3, 1),
        (Format::Yaml, "servers: nothing\n", 1, 10),
        (Format::Yaml, "- a\n", 1, 1),
    ] {
        let fault = format.set(text, PLACE, &fields("/bin/c")).expect_err(text);
        assert_eq!((fault.line, fault.column), (line, column), "{text}\n{fault}");
        assert!(fault.reason.len() > 10, "{fault}");
    }
}

/// A layout of a generated file.
#[derive(Debug, Clone)]
struct Layout {
    newline: &'static str,
    indent: &'static str,
    comments: bool,
    last_newline: bool,
    bom: bool,
    trailing_comma: bool,
    one_line: bool,
}

fn layouts() -> impl Strategy<Value = Layout> {
    let newline = prop_oneof![Just("\n"), Just("\r\n")];
    let indent = prop_oneof![Just("  "), Just("    "), Just("\t"), Just("   ")];
    (newline, indent, any::<[bool; 5]>()).prop_map(
        |(newline, indent, [comments, last_newline, bom, trailing_comma, one_line])| Layout {
            newline,
            indent,
            comments,
            last_newline,
            bom,
            trailing_comma,
            one_line,
        },
    )
}

fn names() -> impl Strategy<Value = Vec<String>> {
    proptest::collection::btree_set("[a-bd-z][a-z0-9_-]{0,6}", 0..4).prop_map(|it| it.into_iter().collect())
}

fn json_text(layout: &Layout, before: &[String], servers: Option<&[String]>, after: &[String]) -> String {
    let Layout { newline, indent, .. } = layout;
    let one_line = layout.one_line;
    let comment = |text: &str| if layout.comments && !one_line { format!(" // {text}") } else { String::new() };
    let (open, between, tab) = if one_line { ("", ", ", "") } else { (*newline, *newline, *indent) };
    let tabs = |count: usize| tab.repeat(count);
    let list = |items: Vec<String>, depth: usize| {
        if items.is_empty() {
            return if layout.comments { "{ }".to_owned() } else { "{}".to_owned() };
        }
        let count = items.len();
        let lines: Vec<String> = items
            .into_iter()
            .enumerate()
            .map(|(index, it)| {
                let comma = index + 1 < count || (layout.trailing_comma && !one_line);
                let mark = if comma && !one_line { "," } else { "" };
                format!("{}{it}{mark}{}", tabs(depth), comment("note {é}"))
            })
            .collect();
        format!("{{{open}{}{open}{}}}", lines.join(between), tabs(depth - 1))
    };
    let server = |name: &String| format!("\"{name}\": {{ \"command\": \"{name}\", \"n\": [1, 2.50] }}");
    let mut members: Vec<String> = before.iter().map(|it| format!("\"{it}\": \"x\"")).collect();
    members.extend(servers.map(|it| format!("\"servers\": {}", list(it.iter().map(server).collect(), 2))));
    members.extend(after.iter().map(|it| format!("\"{it}-2\": null")));
    whole(layout, list(members, 1))
}

fn whole(layout: &Layout, body: String) -> String {
    let bom = if layout.bom { "\u{feff}" } else { "" };
    let end = if layout.last_newline { layout.newline } else { "" };
    format!("{bom}{body}{end}")
}

fn lines_text(layout: &Layout, lines: Vec<String>) -> String {
    whole(layout, lines.join(layout.newline))
}

fn yaml_text(layout: &Layout, before: &[String], servers: Option<&[String]>, after: &[String]) -> String {
    let indent = if layout.indent == "\t" { "  " } else { layout.indent };
    let comment = if layout.comments { " # é" } else { "" };
    let mut lines: Vec<String> = before.iter().map(|it| format!("{it}: 'x'{comment}")).collect();
    match servers {
        Some([]) => lines.push(format!("servers: {{}}{comment}")),
        Some(servers) => {
            lines.push(format!("servers:{comment}"));
            for name in servers {
                lines.extend(layout.comments.then(|| format!("{indent}# about {name}")));
                lines.push(format!("{indent}{name}:"));
                lines.push(format!("{indent}{indent}command: {name}{comment}"));
                lines.push(if layout.one_line {
                    format!("{indent}{indent}text: >-")
                } else {
                    format!("{indent}{indent}n: [1, 2]")
                });
                lines.extend(layout.one_line.then(|| format!("{indent}{indent}{indent}folded")));
            }
        }
        None => {}
    }
    lines.extend(after.iter().map(|it| format!("{it}-2: null")));
    lines_text(layout, lines)
}

fn toml_text(layout: &Layout, before: &[String], servers: Option<&[String]>, after: &[String]) -> String {
    let comment = if layout.comments { "  # é" } else { "" };
    let mut lines: Vec<String> = before.iter().map(|it| format!("{it} = 'x'{comment}")).collect();
    for name in servers.unwrap_or_default() {
        lines.push(format!("[servers.{name}]{comment}"));
        lines.push(format!("{}command = \"{name}\"", layout.indent));
        lines.push(format!("args = [\"a\",{comment}{} 'b']", layout.newline));
    }
    lines.extend(after.iter().map(|it| format!("[{it}-2]{comment}")));
    lines_text(layout, lines)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// In every layout, the entry is added once and removed again, and no other byte changes.
    #[test]
    fn a_generated_file_comes_back_byte_for_byte(
        layout in layouts(), before in names(), servers in proptest::option::of(names()), after in names(),
    ) {
        let json = if layout.comments || layout.trailing_comma { Format::Jsonc } else { Format::Json };
        for (format, text) in [
            (json, json_text(&layout, &before, servers.as_deref(), &after)),
            (Format::Yaml, yaml_text(&layout, &before, servers.as_deref(), &after)),
            (Format::Toml, toml_text(&layout, &before, servers.as_deref(), &after)),
        ] {
            let value = format.value(&text).unwrap_or_else(|fault| panic!("{fault}\n{text}"));
            let written = set(format, &text);
            prop_assert_eq!(&set(format, &written), &written, "the second set-up changed the file");
            let mut rest = written.chars();
            prop_assert!(text.chars().all(|wanted| rest.any(|it| it == wanted)), "existing text was changed:\n{}\n{}", text, written);
            let had_container = value.get("servers").is_some();
            let removed = format.unset(&written, PLACE, !had_container).unwrap_or_else(|fault| panic!("{fault}\n{written}"));
            prop_assert!(same(&format.value(&removed).expect("still valid"), &value));
            // Empty braces and the line end of the last line are restored from the backup only.
            let is_exact = servers.as_ref().is_some_and(|it| !it.is_empty()) && (format != Format::Toml || layout.last_newline);
            if is_exact {
                prop_assert_eq!(&removed, &text);
            }
        }
    }

    #[test]
    fn no_text_makes_it_panic(text in "[\\[\\]{}:,\"'#/*a-c \t\r\n=.&!|>~0-9-]{0,60}") {
        for format in [Format::Json, Format::CommentedJson, Format::Jsonc, Format::Toml, Format::Yaml] {
            if let Ok(written) = format.set(&text, PLACE, &fields("/bin/c")) {
                let again = format.set(&written, PLACE, &fields("/bin/c")).ok();
                prop_assert_eq!(again.as_ref(), Some(&written));
                prop_assert!(format.unset(&written, PLACE, true).is_ok());
            }
        }
    }
}
