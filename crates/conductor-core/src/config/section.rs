//! Tables whose keys are declared once. [`section!`] and [`row!`] turn the declaration of a table
//! into its struct, its defaults, its reader and its JSON Schema. The reference page and the
//! completion of editors derive from the schema.
//!
//! ```text
//! section! {
//!     /// MCP servers.
//!     pub struct Mcp {
//!         /// Number of entries on one page of a list.
//!         page_size: usize = 200, whole(1..=1000), "50";
//!     }
//! }
//! ```
//!
//! A key has a documentation comment, a name, a type, a default, a form (`form`), and optionally an
//! example in TOML; without an example, the default is the example. `name as "Name"` is for a key
//! that is not spelt like a field. A row is an entry of a list or of a table of names: a key of a
//! row without a default is required, and a row with a fault is left out. `check` names a function
//! for rules about more than one key; it runs after all keys are read.
//!
//! Not here: tables with a `type` that decides which keys are allowed.

use super::form::{Form, List};
use super::reader::{Fields, Reader, is_slug};
use super::tree::Node;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::marker::PhantomData;

pub(crate) trait Table: Clone {
    /// The documentation of the table, one entry per line.
    const ABOUT: &'static [&'static str];

    /// Reads all keys. Missing keys are taken from `base`, or from the declared defaults.
    fn read<'t>(r: &mut Reader<'t>, f: &mut Fields<'t>, base: Option<Self>) -> Option<Self>;

    /// Describes all keys, with the defaults of `base` or else the declared defaults.
    fn keys(base: Option<&Self>) -> Keys;
}

/// The schemas of the keys of a table.
#[derive(Default)]
pub(crate) struct Keys {
    properties: Map<String, Value>,
    required: Vec<&'static str>,
}

impl Keys {
    /// Adds a key. A key without a default is required.
    pub fn add<F: Form>(
        &mut self,
        key: &'static str,
        about: &[&str],
        form: &F,
        default: Option<&F::Out>,
        example: Option<&str>,
    ) {
        let mut schema = default.map_or_else(|| form.schema(), |it| form.schema_over(it));
        describe(&mut schema, about);
        if let Some(example) = example {
            schema["examples"] = json!([toml_value(example)]);
        }
        self.properties.insert(key.to_owned(), schema);
        if default.is_none() {
            self.required.push(key);
        }
    }

    /// The schema of the table.
    pub fn schema(self, about: &[&str]) -> Value {
        let mut schema = json!({ "type": "object" });
        if !self.required.is_empty() {
            schema["required"] = json!(self.required);
        }
        schema["additionalProperties"] = false.into();
        schema["properties"] = Value::Object(self.properties);
        describe(&mut schema, about);
        schema
    }
}

/// Adds the text of a documentation comment to a schema. If the value of a key is a table, the
/// description of the table is kept.
fn describe(schema: &mut Value, about: &[&str]) {
    let text = about.iter().map(|it| it.trim()).collect::<Vec<_>>().join(" ");
    if !text.is_empty() && schema.get("description").is_none() {
        schema["description"] = text.into();
    }
}

/// A value in the notation of the file, as JSON; null if it is not valid TOML.
fn toml_value(text: &str) -> Value {
    let document = toml_edit::Document::parse(format!("value = {text}"));
    document.ok().and_then(|it| Node::from_toml(&it, 0).get("value").map(Node::to_json)).unwrap_or_default()
}

/// The form of a table. A row with a fault is left out.
pub(crate) struct TableForm<T> {
    is_row: bool,
    table: PhantomData<T>,
}

pub(crate) fn table<T: Table>() -> TableForm<T> {
    TableForm { is_row: false, table: PhantomData }
}

/// The form of an entry of a list or of a table of names.
pub(crate) fn entry<T: Table>() -> TableForm<T> {
    TableForm { is_row: true, table: PhantomData }
}

impl<T: Table> TableForm<T> {
    fn read_with<'t>(&self, r: &mut Reader<'t>, node: &'t Node, base: Option<T>) -> Option<T> {
        r.describe(|| T::keys(base.as_ref()).schema(T::ABOUT))?;
        let before = r.errors();
        let mut f = r.table(node)?;
        let table = T::read(r, &mut f, base);
        f.finish(r);
        table.filter(|_| !self.is_row || r.errors() == before)
    }
}

impl<T: Table> Form for TableForm<T> {
    type Out = T;

    fn read<'t>(&self, r: &mut Reader<'t>, node: &'t Node) -> Option<T> {
        self.read_with(r, node, None)
    }

    fn read_over<'t>(&self, r: &mut Reader<'t>, node: &'t Node, base: T) -> T {
        self.read_with(r, node, Some(base.clone())).unwrap_or(base)
    }

    fn schema_over(&self, base: &T) -> Value {
        T::keys(Some(base)).schema(T::ABOUT)
    }

    fn written(&self, _: &T) -> Option<Value> {
        None
    }
}

/// A list of rows with unique names.
pub(crate) struct Unique<T> {
    rows: List<TableForm<T>>,
    key: &'static str,
    what: &'static str,
}

/// A list of at most `most` rows, in which the alias in `key` is unique. Messages call a row
/// `what`.
pub(crate) fn unique_rows<T: Table + PartialEq>(most: usize, key: &'static str, what: &'static str) -> Unique<T> {
    Unique { rows: super::form::list(entry(), 0..=most), key, what }
}

impl<T: Table + PartialEq> Form for Unique<T> {
    type Out = Vec<T>;

    fn read<'t>(&self, r: &mut Reader<'t>, node: &'t Node) -> Option<Vec<T>> {
        let mut seen = BTreeSet::new();
        self.rows.read_each(r, node, |r, item, row: Option<T>| {
            let name = item.get(self.key);
            let alias = name.and_then(Node::text).filter(|it| is_slug(it, 32));
            if let Some((name, alias)) = name.zip(alias)
                && !seen.insert(alias)
            {
                let message = format!("there is already a {} \"{alias}\"", self.what);
                r.under(self.key, |r| r.rule(&name.place, message));
                return None;
            }
            row
        })
    }

    fn written(&self, value: &Vec<T>) -> Option<Value> {
        self.rows.written(value)
    }
}

/// Declares a table in which every key has a default. See the module documentation.
macro_rules! section {
    (
        $(#[doc = $about:literal])* $(#[derive($($derive:ident),+)])?
        $vis:vis struct $table:ident {
            $(
                $(#[doc = $doc:literal])*
                $key:ident $(as $name:literal)?: $type:ty = $default:expr, $form:expr $(, $example:literal)?;
            )*
        }
        $(check $check:path)?
    ) => {
        $crate::config::section::row! {
            $(#[doc = $about])* $(#[derive($($derive),+)])?
            $vis struct $table {
                $($(#[doc = $doc])* $key $(as $name)?: $type = $default, $form $(, $example)?;)*
            }
            $(check $check)?
        }

        impl Default for $table {
            fn default() -> Self {
                $table { $($key: $default,)* }
            }
        }
    };
}

/// Declares a table in which a key without a default is required. See the module documentation.
macro_rules! row {
    (
        $(#[doc = $about:literal])* $(#[derive($($derive:ident),+)])?
        $vis:vis struct $table:ident {
            $(
                $(#[doc = $doc:literal])*
                $key:ident $(as $name:literal)?: $type:ty $(= $default:expr)?, $form:expr $(, $example:literal)?;
            )*
        }
        $(check $check:path)?
    ) => {
        $(#[doc = $about])*
        #[derive(Clone, Debug, PartialEq $(, $($derive),+)?)]
        $vis struct $table { $($(#[doc = $doc])* pub $key: $type,)* }

        impl $crate::config::section::Table for $table {
            const ABOUT: &'static [&'static str] = &[$($about),*];

            fn read<'t>(
                r: &mut $crate::config::reader::Reader<'t>,
                f: &mut $crate::config::reader::Fields<'t>,
                base: Option<Self>,
            ) -> Option<Self> {
                // Read every key before the first `?`, so that all faults are reported.
                $(
                    let default = base.as_ref().map(|it| it.$key.clone()).or($crate::config::section::default!($($default)?));
                    let name = $crate::config::section::key!($key $($name)?);
                    let $key: Option<$type> = f.over_or_need(r, name, default, &$form);
                )*
                let table = $table { $($key: $key?,)* };
                $(let table = $check(table, r, f);)?
                Some(table)
            }

            fn keys(base: Option<&Self>) -> $crate::config::section::Keys {
                let mut keys = $crate::config::section::Keys::default();
                $(
                    let default: Option<$type> =
                        base.map(|it| it.$key.clone()).or($crate::config::section::default!($($default)?));
                    let example: &[&str] = &[$($example)?];
                    let name = $crate::config::section::key!($key $($name)?);
                    keys.add(name, &[$($doc),*], &$form, default.as_ref(), example.first().copied());
                )*
                keys
            }
        }
    };
}

/// The name of a key in the file.
macro_rules! key {
    ($key:ident) => {
        stringify!($key)
    };
    ($key:ident $name:literal) => {
        $name
    };
}

/// The default of a key, if it has one.
macro_rules! default {
    () => {
        None
    };
    ($default:expr) => {
        Some($default)
    };
}

pub(crate) use {default, key, row, section};
