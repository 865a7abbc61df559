//! Prompts: text built from arguments. They call nothing.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::resource::Completer;
use crate::pipeline::call::Content;

pub type Render = Arc<dyn Fn(&BTreeMap<String, String>) -> Vec<Message> + Send + Sync>;

#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    pub content: Content,
}

impl Message {
    pub fn text(text: impl Into<String>) -> Self {
        Self { content: Content::Text(text.into()) }
    }
}

#[derive(Clone)]
pub struct Argument {
    pub name: &'static str,
    pub description: &'static str,
    pub required: bool,
    pub complete: Option<Completer>,
    /// The read tool whose permission completion needs.
    pub source: Option<&'static str>,
}

#[derive(Clone)]
pub struct Prompt {
    pub name: Cow<'static, str>,
    pub title: Cow<'static, str>,
    pub description: Cow<'static, str>,
    pub toolset: Cow<'static, str>,
    pub arguments: Vec<Argument>,
    pub render: Render,
}
