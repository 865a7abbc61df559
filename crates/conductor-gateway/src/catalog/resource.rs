//! Resources: fixed URIs and templates. Each resource returns the result of one read tool.
//!
//! Not here: reading. A read of a resource is a call to its tool, so that policy, limits and audit
//! apply to it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::studio::Studio;

/// Values by name: the variables of a template, or the arguments of a prompt.
pub type Variables = BTreeMap<String, String>;
/// Converts the variables of a template to the arguments of the resource's tool.
pub type ToArguments = Arc<dyn Fn(&Variables) -> Value + Send + Sync>;
/// Returns completions from cached state, without any I/O.
pub type Completer = Arc<dyn Fn(&Studio, &str) -> Vec<String> + Send + Sync>;

#[derive(Clone)]
pub struct Resource {
    /// `{name}` marks a variable; a URI without one is fixed.
    pub uri: Cow<'static, str>,
    pub name: Cow<'static, str>,
    pub title: Cow<'static, str>,
    pub description: Cow<'static, str>,
    pub mime: Cow<'static, str>,
    pub toolset: Cow<'static, str>,
    pub tool: Cow<'static, str>,
    pub arguments: ToArguments,
    pub complete: BTreeMap<&'static str, Completer>,
}

/// The value of a variable; empty if it is absent.
pub fn variable(given: &Variables, name: &str) -> String {
    given.get(name).cloned().unwrap_or_default()
}

impl Resource {
    /// A resource that returns the answer of a read tool, called without arguments.
    pub fn json(
        (toolset, tool): (&'static str, &'static str),
        uri: &'static str,
        name: &'static str,
        description: &'static str,
    ) -> Self {
        Self {
            uri: uri.into(),
            name: name.into(),
            title: name.into(),
            description: description.into(),
            mime: "application/json".into(),
            toolset: toolset.into(),
            tool: tool.into(),
            arguments: Arc::new(|_| json!({})),
            complete: BTreeMap::new(),
        }
    }
}

impl Resource {
    pub fn is_template(&self) -> bool {
        self.uri.contains('{')
    }

    /// The variables of a matching URI. A variable matches one segment: `%2F` matches, `/` does
    /// not.
    pub fn matches(&self, uri: &str) -> Option<BTreeMap<String, String>> {
        let mut variables = BTreeMap::new();
        let mut pattern: &str = &self.uri;
        let mut rest = uri;
        while let Some((before, after)) = pattern.split_once('{') {
            let (name, after) = after.split_once('}')?;
            rest = rest.strip_prefix(before)?;
            let end = match after.chars().next() {
                Some(stop) => rest.find(stop)?,
                None => rest.len(),
            };
            let (value, left) = rest.split_at_checked(end)?;
            if value.is_empty() || value.contains('/') {
                return None;
            }
            variables.insert(name.to_owned(), percent_decode(value)?);
            pattern = after;
            rest = left;
        }
        (pattern == rest).then_some(variables)
    }

    pub fn variables(&self) -> impl Iterator<Item = &str> {
        self.uri.split('{').skip(1).filter_map(|part| part.split_once('}').map(|(name, _)| name))
    }
}

/// Decodes once: `%252F` becomes `%2F`. Fails on incomplete escapes and on text that is not UTF-8.
pub fn percent_decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let high = (rest.next()? as char).to_digit(16)?;
            let low = (rest.next()? as char).to_digit(16)?;
            bytes.push((high * 16 + low) as u8);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

pub fn percent_encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            out.push(byte as char);
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn entry(uri: &'static str) -> Resource {
        Resource {
            uri: uri.into(),
            name: "n".into(),
            title: "t".into(),
            description: "d".into(),
            mime: "application/json".into(),
            toolset: "daemon".into(),
            tool: "x".into(),
            arguments: Arc::new(|_| json!({})),
            complete: BTreeMap::new(),
        }
    }

    #[test]
    fn a_variable_is_one_segment_decoded_once() {
        let clip = entry("ableton://clip/{path}/notes");
        let path = |uri| clip.matches(uri).map(|it| it["path"].clone());
        assert_eq!(path("ableton://clip/a%2Fb/notes"), Some("a/b".to_owned()));
        assert_eq!(path("ableton://clip/a%252Fb/notes"), Some("a%2Fb".to_owned()));
        for no in [
            "ableton://clip/a/b/notes",
            "ableton://clip//notes",
            "ableton://clip/a/notes/",
            "ableton://clip/%zz/notes",
            "x",
        ] {
            assert_eq!(path(no), None, "{no}");
        }
        let fixed = entry("conductor://status");
        assert!(fixed.matches("conductor://status").is_some_and(|it| it.is_empty()));
        assert_eq!(fixed.matches("conductor://status2"), None);
        assert_eq!(entry("a://{x}/{y}").variables().collect::<Vec<_>>(), ["x", "y"]);
    }

    proptest! {
        #[test]
        fn any_text_survives_a_template(text in "\\PC{1,30}") {
            let uri = format!("patch://{}", percent_encode(&text));
            prop_assert_eq!(entry("patch://{id}").matches(&uri).map(|it| it["id"].clone()), Some(text));
        }
    }
}
