//! Reads JSON arguments of a tool with the same code that reads the configuration file. A fault has
//! a JSON pointer instead of a line number.
//!
//! Not here: checks of mode, device and port names. These checks need the whole file, so the
//! planner does them.

use super::reader::{Paths, Reader};
use super::tree::Node;
use super::{Diagnostic, Matcher, Rule, Severity, Surroundings};
use crate::action::Action;
use crate::mapping::{Continuous, Trigger};
use serde_json::Value;

/// Reads a trigger. `at` is the JSON pointer of `value` within the tool's arguments. It is empty if
/// `value` contains all arguments.
pub fn trigger(value: &Value, at: &str) -> Result<Trigger, Vec<Diagnostic>> {
    read(value, at, super::trigger::read)
}

/// Reads an action. For `at` see [`trigger`].
pub fn action(value: &Value, at: &str) -> Result<Action, Vec<Diagnostic>> {
    read(value, at, super::action::read)
}

/// Reads a whole mapping row. Does not check whether the id is unique. For `at` see [`trigger`].
pub fn mapping(value: &Value, at: &str) -> Result<Rule, Vec<Diagnostic>> {
    read(value, at, |r, node| super::rows::mapping(r, node).held)
}

/// Reads a whole continuous row. For `at` see [`trigger`].
pub fn continuous(value: &Value, at: &str) -> Result<Continuous, Vec<Diagnostic>> {
    read(value, at, |r, node| super::rows::continuous(r, node).held)
}

/// Reads a matcher of a device. For `at` see [`trigger`].
pub fn matcher(value: &Value, at: &str) -> Result<Matcher, Vec<Diagnostic>> {
    read(value, at, super::device::matcher)
}

pub(crate) fn read<T>(
    value: &Value,
    at: &str,
    read: impl for<'t> FnOnce(&mut Reader<'t>, &'t Node) -> Option<T>,
) -> Result<T, Vec<Diagnostic>> {
    let surroundings = Surroundings::default();
    let tree = Node::from_json(value);
    let mut r = Reader::new(&surroundings, Paths::Pointer, at);
    let held = read(&mut r, &tree);
    let sound = r.errors() == 0;
    match held {
        Some(held) if sound => Ok(held),
        Some(_) | None => {
            let errors = r.faults.into_iter().filter(|it| it.severity >= Severity::Error);
            Err(errors
                .map(|fault| Diagnostic {
                    severity: fault.severity,
                    class: fault.class,
                    message: fault.message,
                    help: fault.help,
                    path: fault.path,
                    span: 0..0,
                    line: 0,
                    column: 0,
                })
                .collect())
        }
    }
}
