//! Searches a patch for boxes.

use crate::atoms::{Atom, Value};
use crate::document::{BoxView, View};
use crate::objects;

/// A search. A box must match every given field.
#[derive(Clone, Debug, Default)]
pub struct Query {
    /// Part of the text; case is ignored.
    pub text: Option<String>,
    /// The class, or an alias of the class.
    pub class: Option<String>,
    /// Part of the scripting name; case is ignored.
    pub varname: Option<String>,
    /// Name of an attribute that must be set.
    pub attribute: Option<String>,
    /// The value of `attribute`; without `attribute`, the value of any attribute.
    pub value: Option<Value>,
    /// If true, only boxes without cords; if false, only boxes with cords.
    pub unconnected: Option<bool>,
}

/// Returns at most `limit` matching boxes, outer canvases first, and whether there are more.
pub fn find<'a>(view: &View<'a>, query: &Query, recursive: bool, limit: usize) -> (Vec<BoxView<'a>>, bool) {
    let mut found = Vec::new();
    let complete = search(view, query, recursive, limit, &mut found);
    (found, !complete)
}

fn search<'a>(view: &View<'a>, query: &Query, recursive: bool, limit: usize, found: &mut Vec<BoxView<'a>>) -> bool {
    for object in view.boxes() {
        if matches(&object, query) {
            if found.len() == limit {
                return false;
            }
            found.push(object);
        }
    }
    if recursive {
        for object in view.boxes() {
            if let Some(inside) = object.inside()
                && !search(&inside, query, true, limit, found)
            {
                return false;
            }
        }
    }
    true
}

fn matches(object: &BoxView<'_>, query: &Query) -> bool {
    let contains = |whole: &str, part: &str| whole.to_lowercase().contains(&part.to_lowercase());
    let table = objects::table(object.view.document.format);
    let canonical = |name: &str| table.class(name).map_or_else(|| name.to_owned(), |class| class.name.to_owned());
    query.text.as_ref().is_none_or(|part| contains(object.text(), part))
        && query
            .class
            .as_ref()
            .is_none_or(|class| canonical(class) == canonical(object.class()) || object.maxclass() == class)
        && query.varname.as_ref().is_none_or(|part| object.varname().is_some_and(|name| contains(name, part)))
        && query.unconnected.is_none_or(|wanted| object.unconnected() == wanted)
        && match (&query.attribute, &query.value) {
            (None, None) => true,
            (Some(name), None) => object.attribute(name).is_some(),
            (Some(name), Some(value)) => object.attribute(name).is_some_and(|found| same(&found, value)),
            (None, Some(value)) => {
                object.keys().iter().any(|key| object.attribute(key).is_some_and(|found| same(&found, value)))
            }
        }
}

/// Whether two values are equal; 1 and 1.0 are the same number.
fn same(a: &Value, b: &Value) -> bool {
    let (a, b) = (a.atoms(), b.atoms());
    let equal = |a: &Atom, b: &Atom| a == b || a.number().is_some_and(|a| b.number() == Some(a));
    !a.is_empty() && a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b))
}
