//! Types of arguments that several patch tools share.

use super::bad;
use conductor_core::error::ToolError;
use conductor_hosts::patch::{HostKind, Naming, Scene};
use conductor_patch::{Atom as PatchAtom, BoxId, CordEnds, Format, Point, Target, Value as PatchValue};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value};
use std::collections::BTreeMap;
use std::ops::Deref;

/// Declares texts of a limited length.
macro_rules! texts {
    ($($(#[$meta:meta])* $name:ident($($length:tt)+);)+) => {$(
        $(#[$meta])*
        #[derive(Clone, Deserialize, JsonSchema)]
        pub struct $name(#[schemars($($length)+)] String);

        impl Deref for $name {
            type Target = str;

            fn deref(&self) -> &str {
                &self.0
            }
        }
    )+};
}

texts! {
    /// Id from list_active_patches; subpatcher: ID/BOX.
    PatchId(length(min = 1, max = 512));
    /// Varname, id or #index@revision.
    ObjectRef(length(min = 1, max = 512));
    /// Absolute, from ~/, or relative to the patches folder of the Conductor home.
    FilePath(length(min = 1, max = 4096));
    // These two types have no documentation, because each field of these types describes its own
    // content.
    Name(length(min = 1, max = 256));
    LongText(length(max = 32_767));
}

impl ObjectRef {
    pub fn target(&self) -> Target {
        Target::from(&**self)
    }
}

/// Finds the objects of a list.
pub fn objects(refs: &[ObjectRef], scene: &Scene<'_>) -> Result<Vec<BoxId>, ToolError> {
    refs.iter().map(|it| scene.object(it).map(|it| it.id())).collect()
}

#[derive(Deserialize, JsonSchema)]
pub struct OnePatch {
    pub patch_id: PatchId,
}

#[derive(Deserialize, JsonSchema)]
pub struct OneObject {
    pub patch_id: PatchId,
    pub varname: ObjectRef,
}

/// The patch that a call edits.
#[derive(Deserialize, JsonSchema)]
pub struct EditedPatch {
    pub patch_id: PatchId,
    /// Fail if the patch has another revision.
    expected_revision: Option<i64>,
}

/// The arguments of a tool with one edit.
#[derive(Deserialize, JsonSchema)]
pub struct OneEdit<T> {
    #[serde(flatten)]
    pub patch: EditedPatch,
    #[serde(flatten)]
    pub edit: T,
}

#[derive(Deserialize, JsonSchema)]
pub struct Varname {
    pub varname: ObjectRef,
}

impl EditedPatch {
    pub fn expected_revision(&self) -> Option<u64> {
        // Revision 0 does not exist, so a negative number becomes a revision that matches no patch.
        self.expected_revision.map(|it| u64::try_from(it).unwrap_or(0))
    }
}

/// Part of a long list.
#[derive(Deserialize, JsonSchema)]
pub struct Page {
    /// Number of items to skip: next_offset of the page before.
    #[serde(default)]
    pub offset: usize,
    /// Maximum number of items.
    #[serde(default = "count::<2000>")]
    #[schemars(range(min = 1, max = 10_000))]
    pub limit: usize,
}

/// Returns `N`, for `serde(default)`.
pub const fn count<const N: usize>() -> usize {
    N
}

/// Where and under which names a patch is opened.
#[derive(Deserialize, JsonSchema)]
pub struct Opening {
    /// Document runs nothing; pd and max run the patch in that program.
    #[serde(default)]
    pub host: Host,
    /// Group of the patch, a filter for list_active_patches.
    group: Option<Name>,
    /// The whole id of the patch, instead of an id from the file name.
    alias: Option<Name>,
}

impl Opening {
    pub fn naming(&self) -> Naming {
        let text = |name: &Option<Name>| name.as_deref().map(str::to_owned);
        Naming { group: text(&self.group), alias: text(&self.alias) }
    }
}

#[derive(Clone, Copy, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Host {
    #[default]
    Document,
    Pd,
    Max,
}

impl From<Host> for HostKind {
    fn from(host: Host) -> Self {
        match host {
            Host::Document => Self::Document,
            Host::Pd => Self::Pd,
            Host::Max => Self::Max,
        }
    }
}

/// The program that defines the classes.
#[derive(Clone, Copy, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Program {
    #[default]
    Max,
    Pd,
}

impl From<Program> for Format {
    fn from(program: Program) -> Self {
        match program {
            Program::Max => Self::Maxpat,
            Program::Pd => Self::Pd,
        }
    }
}

/// Inlet or outlet.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    Inlet,
    Outlet,
}

/// A position in pixels.
#[derive(Clone, Copy, Deserialize, Serialize, JsonSchema)]
pub struct Xy {
    /// Distance from the left.
    x: f64,
    /// Distance from the top.
    y: f64,
}

impl From<Point> for Xy {
    fn from(point: Point) -> Self {
        Self { x: point.x, y: point.y }
    }
}

impl From<Xy> for Point {
    fn from(at: Xy) -> Self {
        Self::new(at.x, at.y)
    }
}

/// The four arguments that identify a cord.
#[derive(Deserialize, JsonSchema)]
pub struct Cord {
    /// The object at the start of the cord.
    pub src_varname: ObjectRef,
    /// Outlet of the source object, counted from 0.
    #[schemars(range(max = 4095))]
    pub outlet: u32,
    /// The object at the end of the cord.
    pub dst_varname: ObjectRef,
    /// Inlet of the destination object, counted from 0.
    #[schemars(range(max = 4095))]
    pub inlet: u32,
}

impl Cord {
    pub fn ends(&self) -> CordEnds {
        CordEnds {
            from: self.src_varname.target(),
            outlet: self.outlet,
            to: self.dst_varname.target(),
            inlet: self.inlet,
        }
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Atom {
    Number(Number),
    Text(String),
}

impl From<&Atom> for PatchAtom {
    fn from(atom: &Atom) -> Self {
        match atom {
            Atom::Number(number) => number_atom(number),
            Atom::Text(text) => Self::Word(text.clone()),
        }
    }
}

/// Keeps integers and floats apart: in Max, 440 and 440. are different.
fn number_atom(number: &Number) -> PatchAtom {
    match number.as_i64() {
        Some(whole) => PatchAtom::Int(whole),
        None => PatchAtom::Float(number.as_f64().unwrap_or_default()),
    }
}

/// The value of an attribute; true and false become 1 and 0.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum AttributeValue {
    Number(Number),
    Text(String),
    Flag(bool),
    Many(#[schemars(length(max = 4096))] Vec<Atom>),
}

impl From<&AttributeValue> for PatchValue {
    fn from(value: &AttributeValue) -> Self {
        match value {
            AttributeValue::Number(number) => Self::One(number_atom(number)),
            AttributeValue::Text(text) => Self::One(PatchAtom::Word(text.clone())),
            AttributeValue::Flag(flag) => Self::One(PatchAtom::Int(i64::from(*flag))),
            AttributeValue::Many(atoms) => Self::Many(atoms.iter().map(PatchAtom::from).collect()),
        }
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Attributes {
    // A `Map` keeps the order of the members.
    Members(#[schemars(with = "BTreeMap<String, AttributeValue>")] Map<String, Value>),
    /// The attributes as JSON text.
    Text(#[schemars(length(max = 32_767))] String),
}

impl Attributes {
    pub fn values(&self) -> Result<Vec<(String, PatchValue)>, ToolError> {
        let parsed;
        let members = match self {
            Self::Members(members) => members,
            Self::Text(text) => {
                parsed = serde_json::from_str(text).map_err(|_| {
                    bad("attributes", "attributes: the text is not a JSON object")
                        .hint("Give an object such as {\"fontsize\": 14}.")
                })?;
                &parsed
            }
        };
        let value = |value: &Value| AttributeValue::deserialize(value).map(|it| PatchValue::from(&it));
        let one = |(name, given): (&String, &Value)| value(given).map(|value| (name.clone(), value));
        members.iter().map(one).collect::<Result<_, _>>().map_err(|_| {
            let text = "attributes: a value must be a number, a text, true, false or a list of numbers and texts";
            bad("attributes", text).hint("Give one value or one flat list.")
        })
    }
}
