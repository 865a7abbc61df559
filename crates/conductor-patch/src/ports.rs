//! How many inlets and outlets a box has, and how surely that is known.
//!
//! Order of truth: what the file states, then what an embedded patcher or a learned abstraction
//! shows, then the rule table.

use std::sync::Arc;

use crate::Format;
use crate::atoms;
use crate::canvas::Canvas;
use crate::document::{BoxView, View, read_value};
use crate::objects;

/// Where the counts of a box come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// Stated in the file.
    File,
    /// Counted in the embedded patcher or the abstraction's file.
    Structure,
    /// The rule table.
    Rule,
    /// A running host drew them.
    Host,
    /// Nothing says.
    Unknown,
}

/// Inlets and outlets of a box.
#[derive(Clone, Debug, PartialEq)]
pub struct Ports {
    /// Inlets, when known.
    pub inlets: Option<u32>,
    /// Outlets, when known.
    pub outlets: Option<u32>,
    /// A type per outlet, when known; `signal` and `multichannelsignal` are audio.
    pub outlet_types: Option<Vec<String>>,
    /// How they are known.
    pub basis: Basis,
    /// Whether a port past the counts is surely absent.
    pub exact: bool,
}

impl Ports {
    pub(crate) const UNKNOWN: Ports =
        Ports { inlets: None, outlets: None, outlet_types: None, basis: Basis::Unknown, exact: false };
}

pub(crate) fn of(object: &BoxView<'_>) -> Ports {
    let facts = &object.face.facts;
    if let (Some(inlets), Some(outlets)) = (facts.inlets, facts.outlets) {
        return Ports {
            inlets: Some(inlets),
            outlets: Some(outlets),
            outlet_types: types_in_file(object),
            basis: Basis::File,
            exact: true,
        };
    }
    expected(
        &object.view,
        &facts.maxclass,
        facts.native,
        &facts.text,
        object.view.canvas.inner(object.slot),
        object.file().as_deref(),
    )
}

fn types_in_file(object: &BoxView<'_>) -> Option<Vec<String>> {
    let shape = object.shape()?;
    let (raw, kind) = shape.get("outlettype")?;
    Some(read_value(raw, kind).atoms().iter().map(atoms::Atom::in_content).collect())
}

/// The ports a box of this kind and text would have, the file's own statement left aside.
pub(crate) fn expected(
    view: &View<'_>,
    maxclass: &str,
    native: Option<&str>,
    text: &str,
    inner: Option<&Arc<Canvas>>,
    file: Option<&str>,
) -> Ports {
    let document = view.document;
    if let Some(inner) = inner {
        let gen_family = !document.format.is_pd() && is_gen_inside(inner, text);
        return if gen_family { from_gen(inner, text) } else { from_inside(document.format, inner) };
    }
    if let Some(name) = file
        && let Some(ports) = document.abstraction(name)
    {
        return ports.clone();
    }
    let table = objects::table(document.format);
    let asked = match native {
        Some("obj" | "restore") => text,
        Some(native) => native,
        None if maxclass == "newobj" => text,
        None => maxclass,
    };
    let counted = if view.is_gen() { table.gen_count(asked) } else { table.count(asked, &|_, _| None) };
    if let Some(counted) = counted {
        return Ports {
            inlets: counted.inlets,
            outlets: counted.outlets,
            outlet_types: counted.outlet_types,
            basis: Basis::Rule,
            exact: counted.exact,
        };
    }
    let class = atoms::tokens(asked).first().copied().unwrap_or_default();
    document.abstraction(class).cloned().unwrap_or(Ports::UNKNOWN)
}

fn is_gen_inside(inner: &Canvas, text: &str) -> bool {
    match inner.facts.namespace.as_deref() {
        Some(namespace) => namespace == "dsp.gen",
        None => crate::document::GEN_CLASSES.contains(&text.split_whitespace().next().unwrap_or_default()),
    }
}

fn from_gen(inner: &Canvas, text: &str) -> Ports {
    let greatest = |class: &str| {
        let numbers = inner.faces().filter_map(|(_, face)| {
            let words = atoms::tokens(&face.facts.text);
            (words.first() == Some(&class)).then(|| words.get(1).and_then(|n| n.parse::<u32>().ok()).unwrap_or(1))
        });
        numbers.max().unwrap_or(0).min(4096)
    };
    let embedded = |from: &str, class: &str| (from == "embedded_numbers").then(|| greatest(class));
    match objects::table(Format::Maxpat).count(text, &embedded) {
        Some(counted) => Ports {
            inlets: counted.inlets,
            outlets: counted.outlets,
            outlet_types: counted.outlet_types,
            basis: Basis::Structure,
            exact: counted.exact,
        },
        None => Ports {
            inlets: Some(greatest("in").max(1)),
            outlets: Some(greatest("out")),
            outlet_types: None,
            basis: Basis::Structure,
            exact: true,
        },
    }
}

/// Ports that the inlet and outlet boxes of a canvas make, left to right.
pub(crate) fn from_inside(format: Format, canvas: &Canvas) -> Ports {
    let (mut inlets, mut outlets) = (0u32, Vec::new());
    let (mut numbered_in, mut numbered_out) = (0u32, 0u32);
    for (_, face) in canvas.faces() {
        let facts = &face.facts;
        let words: Vec<&str> = facts.text.split_whitespace().take(2).collect();
        let first = words.first().copied().unwrap_or_default();
        let class = if format.is_pd() || facts.maxclass.as_ref() == "newobj" { first } else { &facts.maxclass };
        let number = words.get(1).and_then(|n| n.parse::<u32>().ok()).unwrap_or(1).min(4096);
        match class {
            "inlet" | "inlet~" => inlets += 1,
            "outlet" => outlets.push((facts.rect.x, "")),
            "outlet~" => outlets.push((facts.rect.x, "signal")),
            // Patches for poly~ and pfft~ number theirs.
            "in" | "in~" | "fftin~" if !format.is_pd() => numbered_in = numbered_in.max(number),
            "out" | "out~" | "fftout~" if !format.is_pd() => numbered_out = numbered_out.max(number),
            _ => {}
        }
    }
    if inlets == 0 && outlets.is_empty() && numbered_in + numbered_out > 0 {
        return Ports {
            inlets: Some(numbered_in.max(1)),
            outlets: Some(numbered_out),
            outlet_types: None,
            basis: Basis::Structure,
            exact: true,
        };
    }
    outlets.sort_by(|a, b| a.0.total_cmp(&b.0));
    Ports {
        inlets: Some(inlets),
        outlets: Some(outlets.len() as u32),
        outlet_types: Some(outlets.into_iter().map(|(_, kind)| kind.to_owned()).collect()),
        basis: Basis::Structure,
        exact: true,
    }
}
