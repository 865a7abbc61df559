//! A parsed JSON or YAML file: values with their places in the text.

use std::ops::Range;

use serde_json::Value;

use super::edit::Fault;

#[derive(Debug)]
pub struct Node {
    pub span: Range<usize>,
    pub kind: Kind,
}

#[derive(Debug)]
pub enum Kind {
    Map {
        members: Vec<Member>,
        /// Whether this is a YAML block mapping. If not, it is a flow mapping or a JSON object.
        is_block: bool,
    },
    List(Vec<Node>),
    Scalar(Value),
}

#[derive(Debug)]
pub struct Member {
    pub key: String,
    pub key_span: Range<usize>,
    pub node: Node,
}

impl Node {
    pub fn value(&self) -> Value {
        match &self.kind {
            Kind::Map { members, .. } => members.iter().map(|it| (it.key.clone(), it.node.value())).collect(),
            Kind::List(items) => items.iter().map(Self::value).collect(),
            Kind::Scalar(value) => value.clone(),
        }
    }

    /// The members of a map; `what` names the value in the message.
    pub fn members(&self, text: &str, what: &str) -> Result<&[Member], Fault> {
        match &self.kind {
            Kind::Map { members, .. } => Ok(members),
            Kind::List(_) | Kind::Scalar(_) => {
                Err(Fault::at(text, self.span.start, format!("{what} is not an object")))
            }
        }
    }

    pub fn is_block(&self) -> bool {
        matches!(&self.kind, Kind::Map { is_block: true, .. })
    }

    pub fn is_null(&self) -> bool {
        matches!(&self.kind, Kind::Scalar(Value::Null))
    }
}

/// The index of a key. A key that occurs twice is refused, because clients disagree on which one is
/// in force.
pub fn position(text: &str, members: &[Member], key: &str) -> Result<Option<usize>, Fault> {
    let mut found = members.iter().enumerate().filter(|(_, it)| it.key == key);
    let first = found.next();
    match found.next() {
        Some((_, twice)) => Err(Fault::at(text, twice.key_span.start, format!("the key {key:?} occurs twice"))),
        None => Ok(first.map(|(index, _)| index)),
    }
}
