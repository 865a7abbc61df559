//! Reads validated arguments and converts them to edits, for `edit_patch` and for the tools with
//! one edit.

use super::bad;
use conductor_core::error::ToolError;
use conductor_hosts::patch::{HostKind, Naming, Scene};
use conductor_patch::{Atom, BoxId, CordEnds, NewBox, Op, Point, Target, Value as Given};
use serde_json::{Value, json};

#[derive(Clone, Copy)]
pub struct Arguments<'a>(pub &'a Value);

impl<'a> Arguments<'a> {
    pub fn get(self, name: &str) -> Option<&'a Value> {
        self.0.get(name)
    }

    pub fn text(self, name: &str) -> Option<&'a str> {
        self.get(name)?.as_str()
    }

    /// A required text; the schema has checked that it is present.
    pub fn word(self, name: &str) -> &'a str {
        self.text(name).unwrap_or_default()
    }

    pub fn flag(self, name: &str) -> bool {
        self.get(name).and_then(Value::as_bool).unwrap_or(false)
    }

    pub fn number(self, name: &str) -> Option<f64> {
        self.get(name)?.as_f64()
    }

    pub fn whole(self, name: &str) -> Option<u64> {
        whole(self.get(name)?)
    }

    pub fn count(self, name: &str, default: usize) -> usize {
        self.whole(name).map_or(default, |it| usize::try_from(it).unwrap_or(usize::MAX))
    }

    pub fn port(self, name: &str) -> u32 {
        self.whole(name).and_then(|it| u32::try_from(it).ok()).unwrap_or(u32::MAX)
    }

    pub fn expected_revision(self) -> Option<u64> {
        // No patch has revision 0, so an invalid number matches no patch.
        self.get("expected_revision").map(|it| whole(it).unwrap_or(0))
    }

    pub fn list(self, name: &str) -> &'a [Value] {
        self.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
    }

    pub fn texts(self, name: &str) -> Vec<&'a str> {
        self.list(name).iter().filter_map(Value::as_str).collect()
    }

    /// The objects named by a list argument.
    pub fn objects(self, name: &str, scene: &Scene<'_>) -> Result<Vec<BoxId>, ToolError> {
        self.texts(name).into_iter().map(|name| scene.object(name).map(|it| it.id())).collect()
    }

    pub fn host(self) -> HostKind {
        self.text("host").and_then(HostKind::parse).unwrap_or(HostKind::Document)
    }

    pub fn naming(self) -> Naming {
        Naming { group: self.text("group").map(str::to_owned), alias: self.text("alias").map(str::to_owned) }
    }

    pub fn pair(self, name: &str) -> Option<(f64, f64)> {
        match self.get(name)?.as_array()?.as_slice() {
            [x, y] => Some((x.as_f64()?, y.as_f64()?)),
            _ => None,
        }
    }

    pub fn point(self, name: &str) -> Point {
        let (x, y) = self.pair(name).unwrap_or_default();
        Point::new(x, y)
    }

    fn target(self) -> Target {
        Target::from(self.word("varname"))
    }

    /// The four arguments that name a cord, for the result.
    pub fn cord(self) -> Value {
        json!({
            "src_varname": self.word("src_varname"), "outlet": self.port("outlet"), "dst_varname": self.word("dst_varname"),
            "inlet": self.port("inlet"),
        })
    }

    fn ends(self) -> CordEnds {
        CordEnds {
            from: self.word("src_varname").into(),
            outlet: self.port("outlet"),
            to: self.word("dst_varname").into(),
            inlet: self.port("inlet"),
        }
    }

    pub fn add(self) -> Result<Op, ToolError> {
        let size = self.pair("size");
        if size.is_some_and(|(w, h)| w <= 0.0 || h <= 0.0) {
            return Err(bad("size", "size: width and height must be more than 0")
                .hint("Leave size out to use the default size."));
        }
        Ok(Op::Add(NewBox {
            class: self.word("obj_type").to_owned(),
            position: self.point("position"),
            arguments: self.list("arguments").iter().map(atom).collect(),
            attributes: self.attributes()?,
            varname: self.text("varname").map(str::to_owned),
            size,
            allow_unknown: self.flag("allow_unknown"),
            handle: self.text("as").map(str::to_owned),
        }))
    }

    fn attributes(self) -> Result<Vec<(String, Given)>, ToolError> {
        let parsed;
        let members = match self.get("attributes") {
            None => return Ok(Vec::new()),
            Some(Value::String(text)) => {
                parsed = serde_json::from_str::<Value>(text).unwrap_or(Value::Null);
                &parsed
            }
            Some(value) => value,
        };
        let members = members.as_object().ok_or_else(|| {
            bad("attributes", "attributes: the text is not a JSON object")
                .hint("Give an object such as {\"fontsize\": 14}.")
        })?;
        members.iter().map(|(name, value)| Ok((name.clone(), given(value, "attributes")?))).collect()
    }

    pub fn remove(self) -> Op {
        Op::Remove(self.target())
    }

    pub fn set_text(self) -> Op {
        Op::SetText {
            target: self.target(),
            text: self.word("new_text").to_owned(),
            allow_unknown: self.flag("allow_unknown"),
        }
    }

    pub fn set_attribute(self) -> Result<Op, ToolError> {
        Ok(Op::SetAttribute {
            target: self.target(),
            name: self.word("attribute").to_owned(),
            value: given(self.get("value").unwrap_or(&Value::Null), "value")?,
            allow_unknown: self.flag("allow_unknown"),
        })
    }

    pub fn set_varname(self) -> Op {
        Op::SetVarname { target: self.target(), name: self.text("new_varname").map(str::to_owned) }
    }

    pub fn set_hidden(self) -> Op {
        Op::SetHidden { target: self.target(), hidden: self.flag("hidden") }
    }

    pub fn set_rect(self) -> Op {
        Op::SetRect { target: self.target(), position: self.point("position"), size: self.pair("size") }
    }

    pub fn connect(self) -> Op {
        Op::Connect { ends: self.ends(), hidden: self.flag("hidden") }
    }

    pub fn disconnect(self) -> Op {
        Op::Disconnect(self.ends())
    }

    pub fn set_midpoints(self) -> Op {
        let part = |it, name| Arguments(it).number(name).unwrap_or_default();
        let points = self.list("midpoints").iter().map(|it| Point::new(part(it, "x"), part(it, "y")));
        Op::SetMidpoints { ends: self.ends(), points: points.collect() }
    }
}

/// Parses an integer, which may be written as `2.0`.
fn whole(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| {
        let number = value.as_f64()?;
        (number >= 0.0 && number.fract() == 0.0 && number <= 9e15).then_some(number as u64)
    })
}

fn atom(value: &Value) -> Atom {
    match (value.as_i64(), value.as_f64(), value.as_str()) {
        (Some(whole), _, _) => Atom::Int(whole),
        (None, Some(number), _) => Atom::Float(number),
        (None, None, word) => Atom::Word(word.unwrap_or_default().to_owned()),
    }
}

/// A value for an attribute; true and false become 1 and 0.
pub fn given(value: &Value, argument: &str) -> Result<Given, ToolError> {
    let simple = |it: &Value| it.is_number() || it.is_string();
    match value {
        Value::Bool(truth) => Ok(Given::One(Atom::Int(i64::from(*truth)))),
        Value::Number(_) | Value::String(_) => Ok(Given::One(atom(value))),
        Value::Array(items) if items.iter().all(simple) => Ok(Given::Many(items.iter().map(atom).collect())),
        Value::Array(_) | Value::Object(_) | Value::Null => Err(bad(
            argument,
            format!("{argument}: a value is a number, a text, true, false or a list of numbers and texts"),
        )
        .hint("Give one value or one flat list.")),
    }
}
