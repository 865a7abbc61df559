//! Names, toolsets, pins, and the rules that make tools usable in every client.

use std::sync::Arc;

use conductor_core::config::ToolNames;
use conductor_core::digest::Digest;
use conductor_core::policy::Tier;
use conductor_gateway::catalog::lint::{Rule, lint, lint_catalog};
use conductor_gateway::catalog::names::Toolset;
use conductor_gateway::catalog::{Catalog, CatalogError, Definition, Source, Tool};
use conductor_gateway::pipeline::Output;
use conductor_testkit::tools::{self, Runs};
use serde_json::{Value, json};

fn definition(name: &'static str, tier: Tier) -> Definition {
    Definition::new(name, tier, "daemon", |_, _, _| async { Ok(Output::new(json!({}))) }).text("Title", "Does a thing.")
}

fn tool(definition: Definition) -> Tool {
    Tool::new(definition).expect("the definition is not valid")
}

#[test]
fn both_spellings_find_one_tool_and_a_second_of_the_same_spelling_is_refused() {
    let mut catalog = Catalog::new([tool(definition("filesystem.read", Tier::ReadOnly))]).expect("one tool");
    for name in ["filesystem.read", "filesystem_read"] {
        assert_eq!(catalog.get(name).map(|it| it.name.to_string()), Some("filesystem.read".to_owned()));
    }
    assert!(catalog.get("filesystem-read").is_none());
    let refused = catalog.add(tool(definition("filesystem_read", Tier::ReadOnly)));
    let (name, other) = ("filesystem_read".to_owned(), "filesystem.read".to_owned());
    assert_eq!(refused, Err(CatalogError::SameName { name, other }));
    let listed = |form| catalog.list(&Toolset::All).map(|it| it.listed_name(form).to_owned()).collect::<Vec<_>>();
    assert_eq!(listed(ToolNames::Safe), ["filesystem_read"]);
    assert_eq!(listed(ToolNames::Dotted), ["filesystem.read"]);
}

#[test]
fn names_that_no_client_takes_are_refused() {
    for name in ["", "a b", "ü", "a/b", &"x".repeat(65)] {
        let fault = Tool::new(definition(Box::leak(name.to_owned().into_boxed_str()), Tier::ReadOnly)).err();
        assert_eq!(fault, Some(CatalogError::BadName(name.to_owned())));
    }
}

#[test]
fn a_pin_follows_what_a_person_saw_and_nothing_else() {
    let pin = |change: &dyn Fn(&mut Definition)| {
        let mut it = definition("a.b", Tier::Stateful);
        change(&mut it);
        tool(it).pin
    };
    let base = pin(&|_| {});
    assert_eq!(base, pin(&|it| it.timeout_ms = 1));
    assert_eq!(base, pin(&|it| it.title = "Another".into()));
    let changed: Vec<Digest> = vec![
        pin(&|it| it.description = "Does another thing.".into()),
        pin(&|it| it.tier = Tier::HardwareIo),
        pin(&|it| it.input_schema = json!({ "type": "object" }).into()),
        pin(&|it| it.destructive = Some(true)),
        pin(&|it| it.source = Source::Plugin { name: "p".into(), code: Digest::of(b"1") }),
        pin(&|it| it.source = Source::Plugin { name: "p".into(), code: Digest::of(b"2") }),
    ];
    let mut all = changed.clone();
    all.push(base);
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 7, "two different tools have the same pin");
    // The order of keys in a schema does not change the pin.
    let one = pin(&|it| it.input_schema = json!({ "type": "object", "additionalProperties": false }).into());
    let two = pin(&|it| it.input_schema = json!({ "additionalProperties": false, "type": "object" }).into());
    assert_eq!(one, two);
}

#[test]
fn a_toolset_is_toolsets_and_exact_names() {
    let runs = Arc::new(Runs::default());
    let catalog = tools::catalog(&runs);
    let parse = |words: &[&str]| {
        let words: Vec<String> = words.iter().map(|it| (*it).to_owned()).collect();
        Toolset::parse(&words, |name| catalog.get(name).is_some())
    };
    let names = |words: &[&str]| {
        let toolset = parse(words).expect("known words");
        catalog.list(&toolset).map(|it| it.name.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(names(&["patch"]), [tools::PICTURE]);
    assert_eq!(names(&["patch", "test_echo"]), [tools::ECHO, tools::PICTURE]);
    assert_eq!(names(&["test.echo"]), [tools::ECHO]);
    assert_eq!(
        names(&["all", "patch"]).len(),
        catalog.tools().count() - 1,
        "`all` lacks a tool, or contains the hidden one"
    );
    assert_eq!(parse(&["pach"]).map_err(|it| it.name), Err("pach".to_owned()));
    let nothing = parse(&["live"]).expect("a toolset without tools was refused");
    assert_eq!((catalog.resources(&nothing).count(), catalog.prompts(&nothing).count()), (0, 0));
}

#[test]
fn a_mistyped_name_finds_its_neighbours() {
    let catalog = tools::catalog(&Arc::new(Runs::default()));
    assert_eq!(catalog.nearest("test.ehco", &Toolset::All).first().map(String::as_str), Some(tools::ECHO));
    assert_eq!(catalog.nearest("ECHO", &Toolset::All), [tools::ECHO]);
    assert_eq!(catalog.nearest("zzzzzzzzzzzzzz", &Toolset::All), Vec::<String>::new());
    assert!(
        !catalog.nearest("test.hiden", &Toolset::All).contains(&tools::HIDDEN.to_owned()),
        "a suggestion contains the hidden tool"
    );
}

#[test]
fn every_tool_keeps_the_rules() {
    let runs = Arc::new(Runs::default());
    assert_eq!(lint_catalog(&tools::catalog(&runs)), []);
}

/// Negative control: each of these tools breaks one rule, and `lint` names this rule.
#[test]
fn each_rule_finds_its_bad_tool() {
    let with_input = |schema: Value| definition("a.b", Tier::ReadOnly).input(schema);
    let property = |schema: Value| {
        with_input(json!({ "type": "object", "properties": { "p": schema }, "additionalProperties": false }))
    };
    let deep = (0..12).fold(json!({ "type": "string" }), |inner, _| json!({ "type": "array", "items": inner }));
    let wide: serde_json::Map<String, Value> =
        (0..300).map(|n| (format!("p{n}"), json!({ "type": "string" }))).collect();
    let mut from_plugin = property(json!({ "type": "object", "properties": wide.clone() }));
    from_plugin.source = Source::Plugin { name: "p".into(), code: Digest::of(b"1") };
    let bad: Vec<(Rule, Definition)> = vec![
        (Rule::InputIsClosedObject, with_input(json!({ "type": "object", "properties": {} }))),
        (Rule::InputIsClosedObject, with_input(json!({ "properties": {}, "additionalProperties": false }))),
        (Rule::NoBareBoolean, property(json!(true))),
        (Rule::NoEmptySchema, property(json!({}))),
        (Rule::NoTypeArray, property(json!({ "type": ["string", "null"] }))),
        (Rule::NameIsNotAMethod, definition("ping", Tier::ReadOnly)),
        (Rule::NameIsNotAMethod, definition("conductor.hello", Tier::ReadOnly)),
        (Rule::DescriptionLength, definition("a.b", Tier::ReadOnly).text("t", "")),
        (Rule::DescriptionLength, definition("a.b", Tier::ReadOnly).text("t", "x".repeat(1025))),
        (Rule::Depth, property(deep)),
        (Rule::Subschemas, from_plugin),
    ];
    for (rule, definition) in bad {
        let found: Vec<Rule> = lint(&tool(definition)).into_iter().map(|it| it.0).collect();
        assert_eq!(found, [rule]);
    }
    // A built-in tool may have this many properties.
    assert_eq!(lint(&tool(property(json!({ "type": "object", "properties": wide })))), []);
    // The constructor repairs or refuses these faults, so `broken` adds them to the finished tool.
    let broken = |change: &dyn Fn(&mut Tool)| {
        let mut it = tool(definition("a.b", Tier::ReadOnly));
        change(&mut it);
        lint(&it).into_iter().map(|it| it.0).collect::<Vec<_>>()
    };
    let closed = || json!({ "type": "object", "properties": {}, "additionalProperties": false });
    let with = |word: &str, value: Value| {
        let mut schema = closed();
        schema[word] = value;
        schema
    };
    for word in ["anyOf", "oneOf", "allOf", "not", "if"] {
        assert_eq!(broken(&|it| it.published_schema = with(word, json!([])).into()), [Rule::InputRootHasNoCombinator]);
    }
    let output = |it: &Tool| it.output_schema.value();
    assert_eq!(
        broken(&|it| it.output_schema = {
            let mut schema = output(it);
            schema.as_object_mut().map(|words| words.remove("type"));
            schema.into()
        }),
        [Rule::OutputRootIsObject]
    );
    assert_eq!(broken(&|it| it.output_schema = json!({ "type": "object" }).into()), [Rule::OutputTakesToolError]);
    assert_eq!(
        broken(&|it| {
            let mut schema = output(it);
            schema["properties"] = json!({ "x": { "$ref": "http://example.org/x" } });
            it.output_schema = schema.into();
        }),
        [Rule::NoRemoteRef]
    );
    assert_eq!(broken(&|it| it.annotations.open_world = true), [Rule::Annotations]);
    assert_eq!(broken(&|it| it.annotations.read_only = false), [Rule::Annotations]);
}

#[test]
fn annotations_are_the_table_of_tiers() {
    let of = |tier, change: &dyn Fn(&mut Definition)| {
        let mut it = definition("a.b", tier);
        change(&mut it);
        let it = tool(it).annotations;
        [it.read_only, it.destructive, it.idempotent, it.open_world]
    };
    assert_eq!(of(Tier::ReadOnly, &|_| {}), [true, false, true, false]);
    assert_eq!(of(Tier::Stateful, &|_| {}), [false, false, false, false]);
    assert_eq!(of(Tier::Stateful, &|it| it.idempotent = true), [false, false, true, false]);
    assert_eq!(of(Tier::ConfigChange, &|it| it.idempotent = true), [false, false, false, false]);
    assert_eq!(of(Tier::HardwareIo, &|_| {}), [false, true, false, true]);
    assert_eq!(of(Tier::HardwareIo, &|it| it.destructive = Some(false)), [false, false, false, true]);
}
