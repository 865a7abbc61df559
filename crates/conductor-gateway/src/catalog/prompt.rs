//! Prompts: texts built from arguments. Prompts call no tools.

use std::borrow::Cow;
use std::sync::Arc;

use super::resource::{Completer, Variables};
use crate::pipeline::call::Content;

pub type Render = Arc<dyn Fn(&Variables) -> Vec<Message> + Send + Sync>;

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
    /// Completion is allowed only if the caller may call this read tool.
    pub source: Option<&'static str>,
}

impl Argument {
    pub fn required(name: &'static str, description: &'static str) -> Self {
        Self { name, description, required: true, complete: None, source: None }
    }

    pub fn optional(name: &'static str, description: &'static str) -> Self {
        Self { required: false, ..Self::required(name, description) }
    }

    #[must_use]
    pub fn completed(self, complete: Completer, source: Option<&'static str>) -> Self {
        Self { complete: Some(complete), source, ..self }
    }
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

impl Prompt {
    /// A prompt with one text.
    pub fn new(
        toolset: &'static str,
        name: &'static str,
        (title, description): (&'static str, &'static str),
        arguments: Vec<Argument>,
        text: impl Fn(&Variables) -> String + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            title: title.into(),
            description: description.into(),
            toolset: toolset.into(),
            arguments,
            render: Arc::new(move |given| vec![Message::text(text(given))]),
        }
    }
}
