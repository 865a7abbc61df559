//! Inlet and outlet counts of a box, and their reliability.
//!
//! Order of precedence: the counts in the file, then an embedded patcher, then the patch file
//! that a bpatcher, `poly~` or `pfft~` box names, then the rule table, then an abstraction with
//! the name of the class.

use std::sync::Arc;

use crate::Format;
use crate::atoms;
use crate::canvas::Canvas;
use crate::document::{BoxView, View};
use crate::objects::{self, Counted};

/// The source of the port counts of a box.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// The file states the counts.
    File,
    /// The counts come from the embedded patcher or from the abstraction's file.
    Structure,
    /// The counts come from the rule table.
    Rule,
    /// The counts come from the drawing of a running host.
    Host,
    /// The counts are unknown.
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
    /// Source of the counts.
    pub basis: Basis,
    /// Whether the counts are certain, so that no further ports can exist.
    pub exact: bool,
}

impl Ports {
    pub(crate) const UNKNOWN: Ports =
        Ports { inlets: None, outlets: None, outlet_types: None, basis: Basis::Unknown, exact: false };

    pub(crate) fn exact(inlets: u32, outlets: u32, outlet_types: Option<Vec<String>>, basis: Basis) -> Ports {
        Ports { inlets: Some(inlets), outlets: Some(outlets), outlet_types, basis, exact: true }
    }

    fn counted(counted: Counted, basis: Basis) -> Ports {
        let Counted { inlets, outlets, outlet_types, exact } = counted;
        Ports { inlets, outlets, outlet_types, basis, exact }
    }
}

pub(crate) fn of(object: &BoxView<'_>) -> Ports {
    let facts = &object.face.facts;
    if let (Some(inlets), Some(outlets)) = (facts.inlets, facts.outlets) {
        return Ports::exact(inlets, outlets, types_in_file(object), Basis::File);
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
    Some(object.key_value("outlettype")?.atoms().iter().map(atoms::Atom::in_content).collect())
}

/// The ports of a box with this kind and text. Counts in the file are ignored.
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
    let named = match native {
        Some("obj" | "restore") => text,
        Some(native) => native,
        None if maxclass == "newobj" => text,
        None => maxclass,
    };
    let counted = if view.is_gen() { table.gen_count(named) } else { table.count(named, &|_, _| None) };
    if let Some(counted) = counted {
        return Ports::counted(counted, Basis::Rule);
    }
    let class = atoms::tokens(named).first().copied().unwrap_or_default();
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
        Some(counted) => Ports::counted(counted, Basis::Structure),
        None => Ports::exact(greatest("in").max(1), greatest("out"), None, Basis::Structure),
    }
}

/// The ports that the inlet and outlet boxes of a canvas define, left to right.
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
            // Patches for poly~ and pfft~ number their inlets and outlets.
            "in" | "in~" | "fftin~" if !format.is_pd() => numbered_in = numbered_in.max(number),
            "out" | "out~" | "fftout~" if !format.is_pd() => numbered_out = numbered_out.max(number),
            _ => {}
        }
    }
    if inlets == 0 && outlets.is_empty() && numbered_in + numbered_out > 0 {
        return Ports::exact(numbered_in.max(1), numbered_out, None, Basis::Structure);
    }
    outlets.sort_by(|a, b| a.0.total_cmp(&b.0));
    let types: Vec<String> = outlets.into_iter().map(|(_, kind)| kind.to_owned()).collect();
    Ports::exact(inlets, types.len() as u32, Some(types), Basis::Structure)
}
