//! Tests plans: the written text, preview, refusals and undo.

use crate::generate::{Dice, Maker};
use conductor_core::config::{self, Config, Surroundings};
use conductor_core::plan::{self, Change, Draft, PlanError, RowRef, Subject, Template, diff};
use serde_json::{Value, json};

const STUDIO: &str = include_str!("../config_fixtures/studio.toml");

fn no_templates(_: &str) -> Option<Template> {
    None
}

fn draft(base: &str, changes: &[Value]) -> Result<Draft, PlanError> {
    let changes: Vec<Change> = changes.iter().map(|it| Change::read(it, "").unwrap()).collect();
    plan::draft(base.as_bytes(), &changes, &Surroundings::default(), &no_templates)
}

fn text(draft: &Draft) -> &str {
    std::str::from_utf8(&draft.result).unwrap()
}

fn loaded(text: &str) -> Config {
    config::load(text).config.unwrap()
}

fn undo(before: &str, after: &str, present: &str) -> Result<Draft, PlanError> {
    plan::undo(before.as_bytes(), after.as_bytes(), present.as_bytes(), &Surroundings::default())
}

const CREATE: &str = r#"{"change_type":"CreateMapping","mode":"Session","mapping":{"id":"new","trigger":{"type":"Note","note":36},"action":{"type":"Keystroke","keys":["cmd","c"]}}}"#;

fn create() -> Value {
    serde_json::from_str(CREATE).unwrap()
}

#[test]
fn a_mapping_is_appended_behind_the_last_of_its_mode() {
    let made = draft(STUDIO, &[create()]).unwrap();
    assert_eq!(
        made.diff_preview,
        "  trigger = { type = \"DoubleTap\", note = 51, device = \"pads\" }\n  action = { type = \"CallTool\", tool = \"live_undo\", arguments = {} }\n  \n+ [[modes.mappings]]\n+ id = \"new\"\n+ trigger = { type = \"Note\", note = 36 }\n+ action = { type = \"Keystroke\", keys = [\"cmd\", \"c\"] }\n+ \n  [[modes.continuous]]\n  id = \"cutoff\"\n  source = { type = \"Encoder\", cc = 16, mode = \"twos_complement\", acceleration = 0.5, device = \"pads\" }"
    );
    assert_eq!(made.changes.len(), 1);
    let row = &made.changes[0];
    assert_eq!((row.change_type, row.index, row.mapping_id.as_deref()), ("CreateMapping", Some(3), Some("new")));
    assert_eq!(row.description, "Add Note 36 -> Keystroke cmd+c");
    assert_eq!(made.base_state_hash, plan::state_hash(STUDIO.as_bytes()));
    assert_eq!(made.result_state_hash, plan::state_hash(&made.result));
    assert!(made.result_state_hash.starts_with("sha256:") && made.result_state_hash.len() == 71);
}

#[test]
fn an_empty_file_gets_its_default_mode_spelled_out() {
    let change = json!({"change_type": "CreateMapping", "mode": "Default", "mapping": {"trigger": {"type": "Note", "note": 1}, "action": {"type": "Delay", "ms": 1}}});
    let made = draft("", &[change]).unwrap();
    let id = made.changes[0].mapping_id.clone().unwrap();
    assert_eq!(
        text(&made),
        format!(
            "[[modes]]\nname = \"Default\"\n\n[[modes.mappings]]\nid = \"{id}\"\ntrigger = {{ type = \"Note\", note = 1 }}\naction = {{ type = \"Delay\", ms = 1 }}\n"
        )
    );
    assert_eq!(made.base_state_hash, "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    let second = draft("# mine\n", &[json!({"change_type": "CreateMode", "mode": "Mix", "color": "red"})]).unwrap();
    let modes: Vec<String> = loaded(text(&second)).modes.iter().map(|it| it.name.clone()).collect();
    assert_eq!(modes, ["Default", "Mix"], "the implied mode disappeared");
}

#[test]
fn an_index_is_resolved_and_the_id_is_written_when_a_row_is_touched() {
    let base = "[[modes]]\nname = \"A\"\n[[modes.mappings]] # pad\ntrigger = { type = \"Note\", note = 1 } # one\naction = { type = \"Delay\", ms = 1 }\n";
    let id = loaded(base).modes[0].rows.mappings[0].id.clone();
    let change =
        json!({"change_type": "UpdateMapping", "mode": "A", "index": 0, "trigger": {"type": "Note", "note": 2}});
    let made = draft(base, &[change]).unwrap();
    assert_eq!(
        text(&made),
        format!(
            "[[modes]]\nname = \"A\"\n[[modes.mappings]] # pad\nid = \"{id}\"\ntrigger = {{ type = \"Note\", note = 2 }} # one\naction = {{ type = \"Delay\", ms = 1 }}\n"
        )
    );
    assert_eq!(made.changes[0].mapping_id.as_deref(), Some(id.as_str()), "the id of the row changed");
}

#[test]
fn inline_rows_stay_inline() {
    let base = "modes = [{ name = \"A\", mappings = [\n  # first\n  { id = \"a\", trigger = { type = \"Note\", note = 1 }, action = { type = \"Delay\", ms = 1 } }, # one\n  { id = \"b\", trigger = { type = \"Note\", note = 2 }, action = { type = \"Delay\", ms = 1 } } # two\n] }]\n";
    let mapping = json!({"id": "c", "trigger": {"type": "Note", "note": 3}, "action": {"type": "Delay", "ms": 1}});
    let made = draft(base, &[json!({"change_type": "CreateMapping", "mode": "A", "mapping": mapping})]).unwrap();
    assert_eq!(
        text(&made),
        "modes = [{ name = \"A\", mappings = [\n  # first\n  { id = \"a\", trigger = { type = \"Note\", note = 1 }, action = { type = \"Delay\", ms = 1 } }, # one\n  { id = \"b\", trigger = { type = \"Note\", note = 2 }, action = { type = \"Delay\", ms = 1 } }, # two\n  { id = \"c\", trigger = { type = \"Note\", note = 3 }, action = { type = \"Delay\", ms = 1 } }\n] }]\n"
    );
    let made = draft(base, &[json!({"change_type": "DeleteMapping", "mode": "A", "id": "a"})]).unwrap();
    assert_eq!(
        text(&made),
        "modes = [{ name = \"A\", mappings = [\n  # first\n  { id = \"b\", trigger = { type = \"Note\", note = 2 }, action = { type = \"Delay\", ms = 1 } } # two\n] }]\n"
    );
}

#[test]
fn dotted_keys_and_sub_tables_are_replaced_whole() {
    let base = "[[global_mappings]]\nid = \"a\"\ntrigger.type = \"Note\" # kind\ntrigger.note = 1\n[global_mappings.action]\ntype = \"Delay\"\nms = 1\n\n# end\n";
    let change = json!({"change_type": "UpdateMapping", "mode": "*", "id": "a", "trigger": {"type": "CC", "cc": 7}, "action": {"type": "Delay", "ms": 2}});
    let made = draft(base, &[change]).unwrap();
    assert_eq!(
        text(&made),
        "[[global_mappings]]\nid = \"a\"\ntrigger = { type = \"CC\", cc = 7 } # kind\naction = { type = \"Delay\", ms = 2 }\n\n# end\n"
    );
}

#[test]
fn deleting_takes_the_remarks_directly_above_and_nothing_else() {
    let base = "[[modes]]\nname = \"A\"\n\n# --- pads ---\n\n# the first pad\n[[modes.mappings]]\nid = \"a\"\ntrigger = { type = \"Note\", note = 1 }\naction = { type = \"Delay\", ms = 1 }\n\n# about b\n[[modes.mappings]]\nid = \"b\"\ntrigger = { type = \"Note\", note = 2 }\naction = { type = \"Delay\", ms = 1 }\n";
    let made = draft(base, &[json!({"change_type": "DeleteMapping", "mode": "A", "index": 0})]).unwrap();
    assert_eq!(
        text(&made),
        "[[modes]]\nname = \"A\"\n\n# --- pads ---\n\n# about b\n[[modes.mappings]]\nid = \"b\"\ntrigger = { type = \"Note\", note = 2 }\naction = { type = \"Delay\", ms = 1 }\n"
    );
}

#[test]
fn crlf_and_byte_order_mark_survive() {
    let base = format!("\u{feff}{}", STUDIO.replace('\n', "\r\n"));
    let made = draft(&base, &[create(), json!({"change_type": "DeleteMapping", "mode": "Mix", "id": "back"})]).unwrap();
    let result = text(&made);
    assert!(result.starts_with('\u{feff}'));
    assert_eq!(result.matches('\n').count(), result.matches("\r\n").count());
    assert_eq!(diff::apply(&base, &made.diff_preview).as_deref(), Some(result));
}

#[test]
fn devices_modes_and_templates() {
    let template = |name: &str| {
        let matchers = vec![json!({"type": "NameContains", "pattern": "APC"})];
        (name == "apc-mini-mk2").then_some(Template { description: Some("AKAI".into()), matchers })
    };
    let change = |value: Value| Change::read(&value, "").unwrap();
    let plan =
        |base: &str, value: Value| plan::draft(base.as_bytes(), &[change(value)], &Surroundings::default(), &template);
    let made =
        plan(STUDIO, json!({"change_type": "ApplyTemplate", "template": "apc-mini-mk2", "alias": "apc"})).unwrap();
    let device = loaded(text(&made)).devices.pop().unwrap();
    assert_eq!(
        (device.alias.as_str(), device.template.as_deref(), device.matchers.len()),
        ("apc", Some("apc-mini-mk2"), 1)
    );
    let made =
        plan(STUDIO, json!({"change_type": "ApplyTemplate", "template": "apc-mini-mk2", "alias": "pads"})).unwrap();
    assert_eq!(loaded(text(&made)).devices[0].template.as_deref(), Some("apc-mini-mk2"));
    let missing = plan(STUDIO, json!({"change_type": "ApplyTemplate", "template": "x", "alias": "a"})).unwrap_err();
    assert!(matches!(missing, PlanError::NotFound { subject: Subject::Template, .. }));

    let matchers = json!([{"type": "ExactName", "pattern": "Synth"}]);
    let identity =
        json!({"change_type": "CreateDeviceIdentity", "alias": "synth", "matchers": matchers, "description": "mono"});
    let made = plan(STUDIO, identity).unwrap();
    assert!(made.diff_preview.contains("+ [[devices]]\n+ alias = \"synth\"\n+ description = \"mono\"\n+ matchers = [{ type = \"ExactName\", pattern = \"Synth\" }]"), "{}", made.diff_preview);
    let made =
        plan("devices = []\n", json!({"change_type": "CreateDeviceIdentity", "alias": "synth", "matchers": matchers}))
            .unwrap();
    assert_eq!(
        text(&made),
        "devices = [{ alias = \"synth\", matchers = [{ type = \"ExactName\", pattern = \"Synth\" }] }]\n"
    );

    let taken = plan(STUDIO, json!({"change_type": "CreateDeviceIdentity", "alias": "pads", "matchers": matchers}))
        .unwrap_err();
    assert_eq!(taken, PlanError::Taken { subject: Subject::Device, name: "pads".into() });
    let needed = plan(STUDIO, json!({"change_type": "DeleteDeviceIdentity", "alias": "pads"})).unwrap_err();
    assert!(matches!(needed, PlanError::WouldBreak { .. }), "the device is in use, but the error is: {needed}");

    let made = plan(STUDIO, json!({"change_type": "CreateMode", "mode": "Solo", "color": "green"})).unwrap();
    assert_eq!(loaded(text(&made)).modes[2].color.as_deref(), Some("green"));
    let needed = plan(STUDIO, json!({"change_type": "DeleteMode", "mode": "Mix"})).unwrap_err();
    assert!(matches!(needed, PlanError::WouldBreak { .. }), "{needed}");
    let made = plan("[[modes]]\nname = \"A\"\n[[modes]]\nname = \"B\"\n[[modes.mappings]]\ntrigger = { type = \"Note\", note = 1 }\naction = { type = \"Delay\", ms = 1 }\n", json!({"change_type": "DeleteMode", "mode": "B"})).unwrap();
    assert_eq!(text(&made), "[[modes]]\nname = \"A\"\n");
    let only = plan("", json!({"change_type": "DeleteMode", "mode": "Default"})).unwrap_err();
    assert!(matches!(only, PlanError::Refused { .. }));
}

#[test]
fn what_resolves_to_nothing_is_told_apart() {
    let delete = |mode: &str, row: Value| {
        let mut change = json!({"change_type": "DeleteMapping", "mode": mode});
        change.as_object_mut().unwrap().extend(row.as_object().unwrap().clone());
        draft(STUDIO, &[change]).unwrap_err()
    };
    let stale = |row| PlanError::StaleRow { mode: "Session".into(), row, count: 3 };
    assert_eq!(delete("Session", json!({"index": 3})), stale(RowRef::Index(3)));
    assert_eq!(delete("Session", json!({"id": "gone"})), stale(RowRef::Id("gone".into())));
    let PlanError::NotFound { subject: Subject::Mode, known, .. } = delete("Sesion", json!({"index": 0})) else {
        panic!()
    };
    assert_eq!(known, ["Session", "Mix"]);
    let error = draft(STUDIO, &[json!({"change_type": "DeleteContinuous", "mode": "Mix", "id": "nope"})]).unwrap_err();
    assert!(matches!(error, PlanError::StaleRow { .. }));
    let mut twin = create();
    twin["mapping"]["id"] = json!("copy");
    assert_eq!(
        draft(STUDIO, &[twin]).unwrap_err(),
        PlanError::Taken { subject: Subject::Mapping, name: "copy".into() }
    );
    assert!(matches!(draft("schema = 2\n", &[create()]).unwrap_err(), PlanError::Unreadable { .. }));
    let latin: &[u8] = b"# \xe4\n";
    let error = plan::draft(latin, &[], &Surroundings::default(), &no_templates).unwrap_err();
    assert!(matches!(error, PlanError::Refused { .. }));
}

#[test]
fn new_faults_are_refused_and_old_ones_are_no_hindrance() {
    let mut bad = create();
    bad["mapping"]["action"] = json!({"type": "ModeChange", "mode": "Sesion"});
    let PlanError::WouldBreak { diagnostics } = draft(STUDIO, &[bad.clone()]).unwrap_err() else { panic!() };
    assert_eq!(diagnostics[0].help.as_deref(), Some("did you mean \"Session\"?"));
    let faulty = format!(
        "{STUDIO}\n[[global_mappings]]\ntrigger = {{ type = \"CC\", cc = 128 }}\naction = {{ type = \"Delay\", ms = 1 }}\n"
    );
    assert!(draft(&faulty, &[create()]).is_ok());
    assert!(matches!(draft(&faulty, &[bad]).unwrap_err(), PlanError::WouldBreak { .. }));
}

#[test]
fn warnings_name_the_row_that_wins_and_the_waits_that_are_new() {
    let mut twin = create();
    twin["mapping"]["trigger"] = json!({"type": "DoubleTap", "note": 51, "device": "pads"});
    let made = draft(STUDIO, &[twin]).unwrap();
    assert_eq!(made.warnings, ["this mode already has this trigger: \"undo-last\" wins and \"new\" never fires"]);
    let mut press = create();
    press["mapping"]["trigger"] = json!({"type": "Note", "note": 51});
    let made = draft(STUDIO, &[press]).unwrap();
    assert_eq!(
        made.warnings,
        [
            "Session: note 51 waits up to 1500 ms because of LongPress",
            "Session: note 51 waits up to 300 ms because of DoubleTap"
        ]
    );
}

#[test]
fn undo_restores_bytes_or_puts_items_back_by_name() {
    let changes = [
        create(),
        json!({"change_type": "DeleteMapping", "mode": "Session", "id": "save"}),
        json!({"change_type": "UpdateMapping", "mode": "Mix", "id": "back", "description": "home", "enabled": false}),
        json!({"change_type": "DeleteContinuous", "mode": "Mix", "id": "fader1"}),
        json!({"change_type": "CreateDeviceIdentity", "alias": "synth", "matchers": [{"type": "ExactName", "pattern": "S"}]}),
        json!({"change_type": "CreateMode", "mode": "Solo"}),
    ];
    let made = draft(STUDIO, &changes).unwrap();
    let after = text(&made).to_owned();
    let back = undo(STUDIO, &after, &after).unwrap();
    assert_eq!(text(&back), STUDIO);
    assert_eq!(diff::apply(&after, &back.diff_preview).as_deref(), Some(STUDIO));
    assert_eq!(back.base_state_hash, made.result_state_hash);

    let edited = after.replace("brightness = 96", "brightness = 12 # dim");
    let back = undo(STUDIO, &after, &edited).unwrap();
    assert!(text(&back).contains("brightness = 12 # dim"), "the undo removed a later edit");
    assert_eq!(loaded(text(&back)), loaded(&STUDIO.replace("brightness = 96", "brightness = 12")));

    let touched = after.replace(
        "keys = [\"cmd\", \"c\"] }\n\n[[modes.continuous]]",
        "keys = [\"cmd\", \"d\"] }\n\n[[modes.continuous]]",
    );
    assert_ne!(touched, after);
    let error = undo(STUDIO, &after, &touched).unwrap_err();
    assert_eq!(error, PlanError::Stale { item: "mapping \"new\" of mode \"Session\"".into() });
    let gone = after.replace("description = \"home\"\n", "");
    assert_eq!(
        undo(STUDIO, &after, &gone).unwrap_err(),
        PlanError::Stale { item: "mapping \"back\" of mode \"Mix\"".into() }
    );
}

/// Generates files with the same content in many TOML layouts.
struct Layouts {
    dice: Dice,
    newline: &'static str,
}

impl Layouts {
    fn remark(&mut self) -> String {
        match self.dice.below(6) {
            0 => format!("# remark {}\n", self.dice.below(100)),
            1 => "\n".to_owned(),
            2 => "\n# ------- ♪\n\n".to_owned(),
            _ => String::new(),
        }
    }

    fn tail(&mut self) -> String {
        if self.dice.chance(20) { format!(" # {}", self.dice.below(100)) } else { String::new() }
    }

    fn trigger(&mut self, number: usize) -> [(&'static str, String); 2] {
        [("type", "\"Note\"".to_owned()), ("note", number.to_string())]
    }

    fn row_inline(&mut self, id: usize) -> String {
        let named = if self.dice.chance(60) { format!("id = \"row-{id}\", ") } else { String::new() };
        match self.dice.below(6) {
            5 => format!(
                "{{\n    {named}trigger = {{ type = \"Note\", note = {id} }}, # kind, }} and ]\n    action = {{ type = \"Delay\", ms = {id} }},\n  }}"
            ),
            0 => format!(
                "{{ {named}trigger.type = \"Note\", trigger.note = {id}, action = {{ type = \"Delay\", ms = {id} }} }}"
            ),
            1 => format!("{{{named}trigger={{type=\"Note\",note={id}}},action={{type='Delay',ms={id}}}}}"),
            _ => format!(
                "{{ {named}trigger = {{ type = \"Note\", note = {id} }}, action = {{ type = \"Delay\", ms = {id} }} }}"
            ),
        }
    }

    fn rows_inline(&mut self, key: &str, ids: std::ops::Range<usize>) -> String {
        let count = ids.len();
        let multi = self.dice.chance(60);
        let trailing = self.dice.chance(50);
        let mut out = format!("{key} = [");
        for (at, id) in ids.enumerate() {
            let comma = if at + 1 < count || (trailing && multi) { "," } else { "" };
            let row = self.row_inline(id);
            if multi {
                let above = if self.dice.chance(20) { "\n  # above" } else { "" };
                let tail = self.tail();
                out.push_str(&format!("{above}\n  {row}{comma}{tail}"));
            } else {
                out.push_str(&format!("{row}{comma}{}", if comma.is_empty() { "" } else { " " }));
            }
        }
        out.push_str(if multi { "\n]" } else { "]" });
        out
    }

    fn rows_sections(&mut self, header: &str, ids: std::ops::Range<usize>) -> String {
        let mut out = String::new();
        for id in ids {
            out.push_str(&self.remark());
            let indent = if self.dice.chance(15) { "  " } else { "" };
            let tail = self.tail();
            let spelled = match self.dice.below(8) {
                0 => format!("[[ {} ]]", header.replace('.', " . ")),
                1 => format!("[[\"{}\"]]", header.replace('.', "\".\"")),
                _ => format!("[[{header}]]"),
            };
            out.push_str(&format!("{indent}{spelled}{tail}\n"));
            match self.dice.below(8) {
                0 => out.push_str("description = \"\"\"\n[[modes.mappings]]\n# no remark, }, ]\n\"\"\"\n"),
                1 => out.push_str("description = ''' { \"a\", # b ''' # c\n"),
                _ => {}
            }
            if self.dice.chance(60) {
                out.push_str(&format!("{indent}id = \"row-{id}\"\n"));
            }
            let trigger = self.trigger(id);
            match self.dice.below(4) {
                0 => {
                    for (key, value) in trigger {
                        let tail = self.tail();
                        out.push_str(&format!("{indent}trigger.{key} = {value}{tail}\n"));
                    }
                    out.push_str(&format!("{indent}action = {{ type = \"Delay\", ms = {id} }}\n"));
                }
                1 => {
                    out.push_str(&format!("{indent}action = {{ type = \"Delay\", ms = {id} }}\n"));
                    out.push_str(&self.remark());
                    out.push_str(&format!("[{header}.trigger]\ntype = \"Note\"\nnote = {id}\n"));
                }
                _ => {
                    let tail = self.tail();
                    out.push_str(&format!("{indent}trigger = {{ type = \"Note\", note = {id} }}{tail}\n"));
                    out.push_str(&format!("{indent}action = {{ type = \"Delay\", ms = {id} }}\n"));
                }
            }
        }
        out
    }

    fn file(&mut self) -> String {
        let mut out = self.remark();
        if self.dice.chance(50) {
            out.push_str("schema = 1 # first\n");
        }
        let global_inline = self.dice.chance(30);
        if global_inline {
            out.push_str(&self.rows_inline("global_mappings", 90..92));
            out.push('\n');
        }
        let devices_inline = self.dice.chance(20);
        if devices_inline {
            let multi = self.dice.chance(50);
            let (open, close) = if multi { ("\n\t", ", # the pads\n") } else { ("", "") };
            out.push_str(&format!(
                "devices = [{open}{{ alias = \"pads\", matchers = [{{ type = \"NameContains\", pattern = \"P\" }}] }}{close}]\n"
            ));
        }
        if self.dice.chance(20) {
            let first = self.rows_inline("mappings", 1..3);
            // The inline table contains line breaks, which TOML allows only from version 1.1 on.
            out.push_str(&format!("modes = [{{ name = \"A\", {first} }}, {{ name = \"B\" }}]\n"));
        } else {
            for (mode, ids) in [("A", 1..4), ("B", 11..12), ("C", 20..20)] {
                out.push_str(&self.remark());
                out.push_str(&format!("[[modes]]\nname = \"{mode}\"\n"));
                if self.dice.chance(35) {
                    out.push_str(&self.rows_inline("mappings", ids));
                    out.push('\n');
                } else {
                    out.push_str(&self.rows_sections("modes.mappings", ids));
                }
                if self.dice.chance(30) {
                    out.push_str("[[modes.continuous]]\nid = \"k\"\nsource = { type = \"CC\", cc = 1 }\ntargets = [{ type = \"LiveParameter\", path = \"p\" }]\n");
                }
                if self.dice.chance(20) {
                    out.push_str(&format!(
                        "[{}]\n",
                        ["led", "config", "performance"][if mode == "A" { 0 } else { 1 + usize::from(mode == "B") }]
                    ));
                }
            }
        }
        if !global_inline && self.dice.chance(50) {
            out.push_str(&self.rows_sections("global_mappings", 90..92));
        }
        if !devices_inline && self.dice.chance(40) {
            out.push_str("[[devices]]\nalias = \"pads\"\nmatchers = [{ type = \"NameContains\", pattern = \"P\" }]\n");
        }
        out.push_str(&self.remark());
        if self.dice.chance(15) {
            out = out.trim_end().to_owned();
        }
        let out = out.replace('\n', self.newline);
        if self.dice.chance(15) { format!("\u{feff}{out}") } else { out }
    }
}

fn some_change(dice: &mut Dice, maker: &mut Maker<'_>, schema: &Value, round: usize) -> Option<Change> {
    let mode = *dice.pick(&["A", "B", "C", "*"]);
    let mut mapping = maker.value(schema, "Mapping", 2);
    // References to devices and modes are not tested here. Ids must differ from those in the file.
    if mapping.to_string().contains("\"device\"") || mapping.to_string().contains("\"mode\"") {
        mapping =
            json!({"trigger": {"type": "CC", "cc": dice.below(128)}, "action": {"type": "Text", "text": "a\n\"b\" ♪"}});
    }
    if let Some(id) = mapping.get_mut("id") {
        *id = json!(format!("new-{round}"));
    }
    let value = match dice.below(9) {
        0 | 1 => json!({"change_type": "CreateMapping", "mode": mode, "mapping": mapping}),
        2 => json!({"change_type": "CreateMapping", "mode": mode, "mapping": mapping, "position": dice.below(4)}),
        3 => {
            json!({"change_type": "UpdateMapping", "mode": mode, "index": dice.below(3), "trigger": mapping["trigger"], "description": "told"})
        }
        4 => {
            json!({"change_type": "UpdateMapping", "mode": mode, "index": dice.below(3), "action": mapping["action"], "enabled": false})
        }
        5 => json!({"change_type": "DeleteMapping", "mode": mode, "index": dice.below(3)}),
        6 => {
            json!({"change_type": "CreateContinuous", "mode": mode, "continuous": {"source": {"type": "CC", "cc": dice.below(128)}, "targets": [{"type": "LiveParameter", "path": "p"}]}})
        }
        7 => match dice.below(4) {
            0 => json!({"change_type": "CreateMode", "mode": format!("M{round}")}),
            1 => json!({"change_type": "DeleteMode", "mode": dice.pick(&["B", "C"])}),
            2 => json!({"change_type": "DeleteContinuous", "mode": mode, "id": "k"}),
            _ => json!({"change_type": "DeleteDeviceIdentity", "alias": "pads"}),
        },
        _ => {
            json!({"change_type": "CreateDeviceIdentity", "alias": format!("d{round}"), "matchers": [{"type": "ExactName", "pattern": "x y"}]})
        }
    };
    Change::read(&value, "").ok()
}

/// The content of a file, independent of its layout. Generated ids are included, because they
/// depend only on the content.
fn meaning(text: &str) -> Config {
    loaded(text)
}

#[test]
fn any_changes_on_any_layout_show_what_they_write_and_can_be_taken_back() {
    let defs = conductor_core::config::schema::defs();
    let schema = defs["Mapping"].clone();
    let around = Surroundings::default();
    let (mut planned, mut refused, mut edited_since, mut stale) = (0, 0, 0, 0);
    for seed in 0..150 {
        let mut dice = Dice(seed);
        let newline = if dice.chance(30) { "\r\n" } else { "\n" };
        let base = Layouts { dice: Dice(seed * 31), newline }.file();
        let check = config::load(&base);
        assert!(check.valid(), "the generated file has faults: {base}\n{:?}", check.diagnostics);
        let mut maker = Maker { defs, dice: Dice(seed * 7) };
        let mut changes: Vec<Change> = Vec::new();
        let mut last: Option<Draft> = None;
        for round in 0..1 + dice.below(4) {
            let Some(change) = some_change(&mut dice, &mut maker, &schema, round) else { continue };
            changes.push(change);
            match plan::draft(base.as_bytes(), &changes, &around, &no_templates) {
                Ok(made) => last = Some(made),
                Err(PlanError::Refused { message }) => {
                    assert!(message.contains("only mode"), "seed {seed}: {message}\n{base}\n{changes:?}");
                    changes.pop();
                }
                Err(_) => {
                    refused += 1;
                    changes.pop();
                }
            }
        }
        let Some(made) = last else { continue };
        planned += 1;
        let result = text(&made);
        assert_eq!(
            diff::apply(&base, &made.diff_preview).as_deref(),
            Some(result),
            "seed {seed}: the diff does not lead to the written text"
        );
        assert!(
            made.diff_preview.split('\n').all(|it| ["+ ", "- ", "  "].iter().any(|sign| it.starts_with(sign)))
                || result == base
        );
        assert!(config::load(result).valid(), "seed {seed}");
        assert_eq!(result.starts_with('\u{feff}'), base.starts_with('\u{feff}'), "seed {seed}");
        if base.contains('\n') {
            let odd = if newline == "\n" {
                result.contains("\r\n")
            } else {
                result.matches('\n').count() != result.matches("\r\n").count()
            };
            assert!(!odd, "seed {seed}: the newline style changed");
        }
        // Comments may be lost only if a row is deleted.
        let deletes = changes.iter().any(|it| it.name().starts_with("Delete"));
        let remarks = |text: &str| {
            text.lines().filter(|it| it.trim_start().starts_with('#') && !it.contains("no remark")).count()
        };
        let lost = remarks(&base).saturating_sub(remarks(result));
        assert!(deletes || lost == 0, "seed {seed}: {lost} comments were lost\n{base}\n{}", made.diff_preview);

        let back = plan::undo(base.as_bytes(), &made.result, &made.result, &around).unwrap();
        assert_eq!(text(&back), base, "seed {seed}: undo did not restore the old bytes");

        // Add a setting and a comment to the file, then undo the plan by name.
        let extra = format!("{newline}[logging] # since{newline}level = \"debug\"{newline}");
        let mark = if result.starts_with('\u{feff}') { "\u{feff}" } else { "" };
        let top = format!("{mark}# since, at the top{newline}{newline}");
        let present = format!("{top}{}{extra}", result.trim_start_matches('\u{feff}'));
        match plan::undo(base.as_bytes(), &made.result, present.as_bytes(), &around) {
            Ok(back) => {
                edited_since += 1;
                assert!(text(&back).starts_with(&top), "seed {seed}: the edit at the top is gone");
                assert!(text(&back).contains("[logging] # since"), "seed {seed}: the edit is gone");
                let wanted = format!("{base}{extra}");
                let (got, wanted) = (meaning(text(&back)), meaning(&wanted));
                assert_eq!(
                    got.global,
                    wanted.global,
                    "seed {seed}\n{base}\n--- plan\n{}\n--- back\n{}",
                    made.diff_preview,
                    text(&back)
                );
                assert_eq!(
                    got.modes,
                    wanted.modes,
                    "seed {seed}\n{base}\n--- plan\n{}\n--- back\n{}",
                    made.diff_preview,
                    text(&back)
                );
                assert_eq!(got, wanted, "seed {seed}");
            }
            Err(error) => panic!("seed {seed}: {error}\n{base}\n--- plan\n{}", made.diff_preview),
        }

        // Change a row that the plan wrote. The undo must then be refused.
        let ours =
            made.changes.iter().find(|it| it.change_type.ends_with("Mapping") && it.change_type != "DeleteMapping");
        if let Some((mode, id)) = ours.and_then(|it| Some((it.mode.clone()?, it.mapping_id.clone()?))) {
            let touch = json!({"change_type": "UpdateMapping", "mode": mode, "id": id, "description": "mine"});
            let touch = Change::read(&touch, "").unwrap();
            if let Ok(theirs) = plan::draft(&made.result, &[touch], &around, &no_templates) {
                let error = plan::undo(base.as_bytes(), &made.result, &theirs.result, &around).unwrap_err();
                assert!(matches!(&error, PlanError::Stale { .. }), "seed {seed}: {error}");
                stale += 1;
            }
        }
    }
    assert!(
        planned > 90 && refused > 10 && edited_since > 90 && stale > 40,
        "{planned} planned, {refused} refused, {edited_since} undone by name, {stale} stale"
    );
}

#[test]
fn the_tutorial_can_be_planned_on() {
    use conductor_core::config::TUTORIAL;
    let row = json!({"trigger": {"type": "Note", "note": 1}, "action": {"type": "Delay", "ms": 1}});
    let create = |mode: &str| json!({"change_type": "CreateMapping", "mode": mode, "mapping": row});
    let made = draft(TUTORIAL, &[create("Default"), create("*")]).unwrap();
    assert!(
        made.diff_preview.split('\n').all(|it| !it.starts_with("- ")),
        "a line was removed:\n{}",
        made.diff_preview
    );
    assert_eq!(diff::apply(TUTORIAL, &made.diff_preview).as_deref(), Some(text(&made)));
    assert_eq!(text(&undo(TUTORIAL, text(&made), text(&made)).unwrap()), TUTORIAL);
}

#[test]
fn the_diff_of_any_two_texts_applies() {
    let mut dice = Dice(5);
    for _ in 0..3000 {
        let words = ["a", "b", "", "a", "@@ -1,2 +1,2 @@"];
        let make = |dice: &mut Dice| {
            let lines: Vec<&str> = (0..dice.below(14)).map(|_| *dice.pick::<&str>(&words)).collect();
            lines.join("\n")
        };
        let (old, new) = (make(&mut dice), make(&mut dice));
        let shown = diff::preview(&old, &new);
        assert_eq!(diff::apply(&old, &shown).as_ref(), Some(&new), "{old:?} to {new:?}:\n{shown}");
    }
    assert_eq!(diff::apply("a\nb", "- c"), None, "a diff of another text was applied");
    let lines: Vec<String> = (0..40).map(|it| format!("line {it}")).collect();
    let old = lines.join("\n");
    let new = old.replace("line 5\n", "line five\n").replace("line 30\n", "");
    let shown = diff::preview(&old, &new);
    assert_eq!(
        shown,
        "  line 2\n  line 3\n  line 4\n- line 5\n+ line five\n  line 6\n  line 7\n  line 8\n  line 27\n  line 28\n  line 29\n- line 30\n  line 31\n  line 32\n  line 33"
    );
    assert_eq!(diff::apply(&old, &shown), Some(new));
}
