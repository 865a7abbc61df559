//! Forms of values: a reader together with the text form of the default.
//!
//! Not here: the keys of a table (`section`), and checks that need more than one key.

use super::reader::{Reader, describe};
use super::tree::Node;
use crate::digest::Digest;
use crate::named_enum::Named;
use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::marker::PhantomData;
use std::ops::RangeInclusive;
use std::str::FromStr;

pub(crate) trait Form {
    type Out;

    /// Reads a value. Reports every fault, and then returns `None`.
    fn read<'t>(&self, r: &mut Reader<'t>, node: &'t Node) -> Option<Self::Out>;

    /// Reads a value; what is missing or has a fault is taken from `base`.
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

    /// The value as JSON; absent if the file has no way to write it.
    fn written(&self, value: &Self::Out) -> Option<Value>;

    /// Adds a rule that a schema cannot express. The rule reports its faults, and may replace the
    /// value.
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

fn to_json(value: &impl Serialize) -> Option<Value> {
    serde_json::to_value(value).ok().filter(|it| !it.is_null())
}

/// A whole number.
pub(crate) struct Whole<T>(i64, i64, PhantomData<T>);

pub(crate) fn whole<T>(range: RangeInclusive<i64>) -> Whole<T> {
    Whole(*range.start(), *range.end(), PhantomData)
}

/// A MIDI value of seven bits.
pub(crate) fn u7() -> Whole<u8> {
    whole(0..=127)
}

/// A time from 1 ms to one minute.
pub(crate) fn ms<T>() -> Whole<T> {
    whole(1..=60_000)
}

impl<T: TryFrom<i64> + Serialize> Form for Whole<T> {
    type Out = T;

    fn read<'t>(&self, r: &mut Reader<'t>, node: &'t Node) -> Option<T> {
        r.whole(node, self.0, self.1)
    }

    fn written(&self, value: &T) -> Option<Value> {
        to_json(value)
    }
}

/// A number that may have a fraction.
pub(crate) struct Number(f64, f64);

pub(crate) fn number(range: RangeInclusive<f64>) -> Number {
    Number(*range.start(), *range.end())
}

impl Form for Number {
    type Out = f64;

    fn read<'t>(&self, r: &mut Reader<'t>, node: &'t Node) -> Option<f64> {
        r.number(node, self.0, self.1)
    }

    fn written(&self, value: &f64) -> Option<Value> {
        to_json(value)
    }
}

/// A value that a function reads.
pub(crate) struct By<T> {
    read: Read<T>,
    written: fn(&T) -> Option<Value>,
}

type Read<T> = for<'t> fn(&mut Reader<'t>, &'t Node) -> Option<T>;

pub(crate) fn by<T: Serialize>(read: Read<T>) -> By<T> {
    By { read, written: to_json }
}

/// Like [`by`], for a type without a JSON form, or for a default that the schema must not show.
pub(crate) fn opaque<T>(read: Read<T>) -> By<T> {
    By { read, written: |_| None }
}

impl<T> Form for By<T> {
    type Out = T;

    fn read<'t>(&self, r: &mut Reader<'t>, node: &'t Node) -> Option<T> {
        (self.read)(r, node)
    }

    fn written(&self, value: &T) -> Option<Value> {
        (self.written)(value)
    }
}

pub(crate) fn boolean() -> By<bool> {
    by(|r, it| r.boolean(it))
}

/// The name of a variant.
pub(crate) fn named<T: Named + Serialize>() -> By<T> {
    by(|r, it| r.named(it))
}

/// The name of a device, a file root or a token.
pub(crate) fn alias() -> By<String> {
    by(|r, it| r.alias(it))
}

/// The name of a mode of the file.
pub(crate) fn mode_name() -> By<String> {
    by(|r, it| r.mode_name(it))
}

/// A device that must have an input.
pub(crate) fn heard_device() -> By<String> {
    by(|r, it| r.heard_device(it))
}

/// A device alias or port name that must have an output.
pub(crate) fn output_port() -> By<String> {
    by(|r, it| r.port_name(it, true))
}

/// Any JSON object.
pub(crate) fn object() -> By<Map<String, Value>> {
    by(|r, it| r.object(it))
}

/// A text; the range is its length in characters.
pub(crate) struct Text(usize, usize);

pub(crate) fn text(length: RangeInclusive<usize>) -> Text {
    Text(*length.start(), *length.end())
}

/// A text that is not empty.
pub(crate) fn filled() -> Text {
    text(1..=usize::MAX)
}

impl Form for Text {
    type Out = String;

    fn read<'t>(&self, r: &mut Reader<'t>, node: &'t Node) -> Option<String> {
        r.text(node, self.0, self.1)
    }

    fn written(&self, value: &String) -> Option<Value> {
        to_json(value)
    }
}

/// `sha256:` and 64 hex digits. `help` says where the digest comes from.
pub(crate) struct Hash(Option<&'static str>);

pub(crate) fn hash(help: Option<&'static str>) -> Hash {
    Hash(help)
}

impl Form for Hash {
    type Out = Digest;

    fn read<'t>(&self, r: &mut Reader<'t>, node: &'t Node) -> Option<Digest> {
        r.digest(node, self.0)
    }

    fn written(&self, value: &Digest) -> Option<Value> {
        to_json(value)
    }
}

/// A text of a type that has a text form. `refusal` gives the message and the help for other texts.
pub(crate) struct Parsed<T>(fn(&str) -> (String, &'static str), PhantomData<T>);

pub(crate) fn parsed<T>(refusal: fn(&str) -> (String, &'static str)) -> Parsed<T> {
    Parsed(refusal, PhantomData)
}

impl<T: FromStr + Display> Form for Parsed<T> {
    type Out = T;

    fn read<'t>(&self, r: &mut Reader<'t>, node: &'t Node) -> Option<T> {
        let text = r.filled(node)?;
        text.parse().ok().or_else(|| {
            let (message, help) = (self.0)(&text);
            r.reject(node, message, help)
        })
    }

    fn written(&self, value: &T) -> Option<Value> {
        Some(Value::String(value.to_string()))
    }
}

/// A list. In a set, no value occurs twice. In a plain list, an entry with a fault is left out; a
/// set with a fault is refused as a whole.
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
    /// Reads the entries, and gives each entry and its value to `judge`, which may refuse it.
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
