//! Forms of values. A form reads a value, describes it as JSON Schema, and writes its default.
//!
//! Not here: the keys of a table (`section`), and checks that need more than one key.

use super::reader::{Reader, describe};
use super::tree::Node;
use crate::digest::Digest;
use crate::named_enum::Named;
use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

pub(crate) trait Form {
    type Out;

    /// Reads a value and reports every fault. A value with a fault gives `None`, or, for some forms
    /// such as [`List`], a value without the faulty parts.
    fn read<'t>(&self, r: &mut Reader<'t>, node: &'t Node) -> Option<Self::Out>;

    /// Reads a value. Parts that are missing or have a fault are taken from `base`.
    fn read_over<'t>(&self, r: &mut Reader<'t>, node: &'t Node, base: Self::Out) -> Self::Out {
        self.read(r, node).unwrap_or(base)
    }

    /// The JSON Schema of the values that `read` accepts. Rules that a schema cannot express are
    /// left out.
    fn schema(&self) -> Value {
        describe(|r, node| self.read(r, node))
    }

    /// The schema with `base` as the default.
    fn schema_over(&self, base: &Self::Out) -> Value {
        let mut schema = self.schema();
        if let Some(default) = self.written(base) {
            schema["default"] = default;
        }
        schema
    }

    /// The value as JSON. `None` if the file format cannot express the value.
    fn written(&self, value: &Self::Out) -> Option<Value>;

    /// Adds a rule that a schema cannot express. The rule reports faults of the value, and
    /// may replace the value.
    fn ruled<R>(self, rule: R) -> Ruled<Self, R>
    where
        Self: Sized,
        R: for<'t> Fn(&mut Reader<'t>, &'t Node, Self::Out) -> Option<Self::Out>,
    {
        Ruled { form: self, rule }
    }

    /// A key that may be missing and has no default.
    fn maybe(self) -> Maybe<Self>
    where
        Self: Sized,
    {
        Maybe(self)
    }
}

/// A form that consists of two functions.
pub(crate) struct Leaf<T, R> {
    read: R,
    written: fn(&T) -> Option<Value>,
}

impl<T, R: for<'t> Fn(&mut Reader<'t>, &'t Node) -> Option<T>> Form for Leaf<T, R> {
    type Out = T;

    fn read<'t>(&self, r: &mut Reader<'t>, node: &'t Node) -> Option<T> {
        (self.read)(r, node)
    }

    fn written(&self, value: &T) -> Option<Value> {
        (self.written)(value)
    }
}

/// A value that a function reads.
pub(crate) fn by<T: Serialize>(read: impl for<'t> Fn(&mut Reader<'t>, &'t Node) -> Option<T>) -> impl Form<Out = T> {
    Leaf { read, written: |it| serde_json::to_value(it).ok().filter(|it| !it.is_null()) }
}

/// Like [`by`], for a type without a JSON form, or for a default that the schema must not show.
pub(crate) fn opaque<T>(read: impl for<'t> Fn(&mut Reader<'t>, &'t Node) -> Option<T>) -> impl Form<Out = T> {
    Leaf { read, written: |_| None }
}

/// A whole number.
pub(crate) fn whole<T: TryFrom<i64> + Serialize>(range: RangeInclusive<i64>) -> impl Form<Out = T> {
    by(move |r, it| r.whole(it, *range.start(), *range.end()))
}

/// A MIDI value of seven bits.
pub(crate) fn u7() -> impl Form<Out = u8> {
    whole(0..=127)
}

/// A MIDI channel.
pub(crate) fn channel() -> impl Form<Out = u8> {
    whole(0..=15)
}

/// A time from 1 ms to one minute.
pub(crate) fn ms<T: TryFrom<i64> + Serialize>() -> impl Form<Out = T> {
    whole(1..=60_000)
}

/// A number that may have a fraction.
pub(crate) fn number(range: RangeInclusive<f64>) -> impl Form<Out = f64> {
    by(move |r, it| r.number(it, *range.start(), *range.end()))
}

pub(crate) fn boolean() -> impl Form<Out = bool> {
    by(|r, it| r.boolean(it))
}

/// The name of a variant.
pub(crate) fn named<T: Named + Serialize>() -> impl Form<Out = T> {
    by(|r, it| r.named(it))
}

/// A text; the range is its length in characters.
pub(crate) fn text(length: RangeInclusive<usize>) -> impl Form<Out = String> {
    by(move |r, it| r.text(it, *length.start(), *length.end()))
}

/// A text that is not empty.
pub(crate) fn filled() -> impl Form<Out = String> {
    by(|r, it| r.filled(it))
}

/// A name for other rows and for calls, such as that of a device, a file root or a token.
pub(crate) fn alias() -> impl Form<Out = String> {
    by(|r, it| r.alias(it))
}

/// The name of a mode of the file.
pub(crate) fn mode_name() -> impl Form<Out = String> {
    by(|r, it| r.mode_name(it))
}

/// A device that must have an input.
pub(crate) fn heard_device() -> impl Form<Out = String> {
    by(|r, it| r.heard_device(it))
}

/// A device alias or port name that must have an output.
pub(crate) fn output_port() -> impl Form<Out = String> {
    by(|r, it| r.port_name(it, true))
}

/// Any JSON object.
pub(crate) fn object() -> impl Form<Out = Map<String, Value>> {
    by(|r, it| r.object(it))
}

/// A SHA-256 digest: `sha256:` and 64 hex digits. `help` explains where the digest comes from.
pub(crate) fn hash(help: &'static str) -> impl Form<Out = Digest> {
    by(move |r, it| r.digest(it, Some(help)))
}

/// A list, or a set. A set must not contain a value twice. In a list, an entry with a fault is left
/// out. A set with a fault is refused as a whole.
pub(crate) struct List<F> {
    of: F,
    least: usize,
    most: usize,
    is_set: bool,
}

pub(crate) fn list<F: Form>(of: F, length: RangeInclusive<usize>) -> List<F> {
    List { of, least: *length.start(), most: *length.end(), is_set: false }
}

pub(crate) fn set<F: Form<Out: PartialEq>>(of: F, length: RangeInclusive<usize>) -> List<F> {
    List { is_set: true, ..list(of, length) }
}

impl<F: Form> List<F> {
    /// Reads the entries, and passes each entry with its value to `judge`, which may refuse it.
    pub fn read_each<'t, T>(
        &self,
        r: &mut Reader<'t>,
        node: &'t Node,
        mut judge: impl FnMut(&mut Reader<'t>, &'t Node, Option<F::Out>) -> Option<T>,
    ) -> Option<Vec<T>> {
        r.list_of(node, self.least, self.most, |r, item| {
            let value = self.of.read(r, item);
            judge(r, item, value)
        })
    }
}

impl<F: Form<Out: PartialEq>> Form for List<F> {
    type Out = Vec<F::Out>;

    fn read<'t>(&self, r: &mut Reader<'t>, node: &'t Node) -> Option<Vec<F::Out>> {
        if self.is_set {
            return r.set(node, self.least, self.most, |r, item| self.of.read(r, item));
        }
        self.read_each(r, node, |_, _, value| value)
    }

    fn written(&self, value: &Vec<F::Out>) -> Option<Value> {
        value.iter().map(|it| self.of.written(it)).collect::<Option<Vec<_>>>().map(Value::Array)
    }
}

/// A table whose keys are names.
pub(crate) struct Names<F>(F);

pub(crate) fn names<F: Form>(of: F) -> Names<F> {
    Names(of)
}

impl<F: Form> Form for Names<F> {
    type Out = BTreeMap<String, F::Out>;

    fn read<'t>(&self, r: &mut Reader<'t>, node: &'t Node) -> Option<Self::Out> {
        r.map_of(node, |r, entry| self.0.read(r, &entry.node))
    }

    fn written(&self, value: &Self::Out) -> Option<Value> {
        value.iter().map(|(key, it)| Some((key.clone(), self.0.written(it)?))).collect::<Option<_>>().map(Value::Object)
    }
}

pub(crate) struct Ruled<F, R> {
    form: F,
    rule: R,
}

impl<F: Form, R> Form for Ruled<F, R>
where
    R: for<'t> Fn(&mut Reader<'t>, &'t Node, F::Out) -> Option<F::Out>,
{
    type Out = F::Out;

    fn read<'t>(&self, r: &mut Reader<'t>, node: &'t Node) -> Option<F::Out> {
        let value = self.form.read(r, node)?;
        (self.rule)(r, node, value)
    }

    fn written(&self, value: &F::Out) -> Option<Value> {
        self.form.written(value)
    }
}

pub(crate) struct Maybe<F>(F);

impl<F: Form> Form for Maybe<F> {
    type Out = Option<F::Out>;

    fn read<'t>(&self, r: &mut Reader<'t>, node: &'t Node) -> Option<Option<F::Out>> {
        self.0.read(r, node).map(Some)
    }

    fn written(&self, value: &Option<F::Out>) -> Option<Value> {
        value.as_ref().and_then(|it| self.0.written(it))
    }
}
