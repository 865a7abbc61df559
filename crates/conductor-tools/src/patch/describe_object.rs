//! `describe_object`: returns the known facts about a class.

use super::argument::{LongText, Program};
use super::prelude::*;
use conductor_patch::objects::{self, Confidence};

#[derive(Deserialize, JsonSchema)]
struct Args {
    /// Class and arguments, such as cycle~ 440.
    text: LongText,
    #[serde(default)]
    host: Program,
    /// Where the box is: in a patcher, or in a gen patcher.
    #[serde(default)]
    namespace: Namespace,
}

#[derive(Default, PartialEq, Deserialize, Serialize, JsonSchema)]
enum Namespace {
    #[default]
    #[serde(rename = "box")]
    Patcher,
    #[serde(rename = "dsp.gen")]
    Gen,
}

#[derive(Serialize, JsonSchema)]
struct Answer {
    /// The class as written in the text.
    class: String,
    /// Name of the class without aliases; null if the class is unknown.
    canonical: Option<&'static str>,
    /// Family of the class; null if the class is unknown.
    family: Option<&'static str>,
    /// Kind of box in a Max file.
    r#box: &'static str,
    /// Number of inlets; null if it is unknown.
    inlets: Option<u32>,
    /// Number of outlets; null if it is unknown.
    outlets: Option<u32>,
    /// A type per outlet; null if the types are unknown.
    outlet_types: Option<Vec<String>>,
    /// Width and height in pixels.
    size: [f64; 2],
    /// Names of the arguments with their types.
    args: Vec<&'static str>,
    /// The attributes.
    attributes: Vec<Attribute>,
    /// Source of the facts: rule or unknown.
    basis: &'static str,
    /// Reliability of the facts: exact, guess or unknown.
    confidence: &'static str,
}

#[derive(Serialize, JsonSchema)]
struct Attribute {
    /// Name of the attribute.
    name: &'static str,
    /// Type of the value.
    kind: &'static str,
}

pub fn definition(patches: &Arc<Patches>) -> Definition {
    read("describe_object", patches, run).text(
        "Describe a class",
        "Returns the known facts about a box text before the box is created: ports, size, arguments, attributes. An unknown class is \
         reported as unknown.",
    )
}

fn run(asked: &Asked<Args>) -> Result<Answer, ToolError> {
    let Args { text, host, namespace } = &asked.args;
    let it = objects::describe((*host).into(), text, *namespace == Namespace::Gen);
    let attributes = it.known.map(|it| it.attributes.as_slice()).unwrap_or_default();
    let (basis, confidence) = match it.confidence {
        Confidence::Exact => ("rule", "exact"),
        Confidence::Guess => ("rule", "guess"),
        Confidence::Unknown => ("unknown", "unknown"),
    };
    Ok(Answer {
        class: it.class,
        canonical: it.known.map(|it| it.name),
        family: it.known.map(|it| it.family),
        r#box: it.known.and_then(|it| it.ui).unwrap_or("newobj"),
        inlets: it.inlets,
        outlets: it.outlets,
        outlet_types: it.outlet_types,
        size: it.size.into(),
        args: it.known.map(|it| it.arguments.clone()).unwrap_or_default(),
        attributes: attributes.iter().map(|(name, kind)| Attribute { name, kind }).collect(),
        basis,
        confidence,
    })
}
