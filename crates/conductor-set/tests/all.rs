//! The crate from outside: one binary, one module per concern.

#[cfg(test)]
#[path = "all/fixtures.rs"]
mod fixtures;

#[cfg(test)]
#[path = "all/large.rs"]
mod large;

// The one place that knows how recordings are compared; a dependency would bring the whole product
// along.
#[cfg(test)]
#[path = "../../conductor-testkit/src/golden.rs"]
mod recorded;

#[cfg(test)]
#[path = "all/documents.rs"]
mod documents;
#[cfg(test)]
#[path = "all/golden.rs"]
mod golden;
#[cfg(test)]
#[path = "all/history.rs"]
mod history;
#[cfg(test)]
#[path = "all/hostile.rs"]
mod hostile;
#[cfg(test)]
#[path = "all/property.rs"]
mod property;
#[cfg(test)]
#[path = "all/real.rs"]
mod real;
#[cfg(test)]
#[path = "all/traps.rs"]
mod traps;
