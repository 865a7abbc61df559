//! The skills: pages that teach a model one task each, in the format of agentskills.io.
//!
//! Every fenced `call` block of a page is executed by a test. Not here: how a client reads the
//! skills (`doors/mcp/skill.rs`) and the copies for clients that read folders
//! (`doors/mcp/setup/skill_folders.rs`).

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::doors::mcp::setup::edit::Format;

/// The page of one skill. Its folder and its `name` in the front matter are the same word.
#[derive(Debug)]
pub struct Skill {
    name: &'static str,
    pub text: &'static str,
}

/// Includes `skills/NAME/SKILL.md`.
macro_rules! skill {
    ($name:literal) => {
        Skill { name: $name, text: include_str!(concat!("../skills/", $name, "/SKILL.md")) }
    };
}

/// All skills, in the order of their names.
pub static ALL: [Skill; 8] = [
    skill!("drive-hardware-by-cc"),
    skill!("first-show-checklist"),
    skill!("live-set-surgery"),
    skill!("map-a-control"),
    skill!("patch-a-synth"),
    skill!("set-up-a-controller"),
    skill!("why-did-it-not-fire"),
    skill!("write-a-plugin"),
];

impl Skill {
    pub const fn name(&self) -> &'static str {
        self.name
    }

    pub fn uri(&self) -> String {
        format!("skill://{}/SKILL.md", self.name)
    }

    pub fn with_uri(uri: &str) -> Option<&'static Self> {
        ALL.iter().find(|it| it.uri() == uri)
    }

    pub fn digest(&self) -> String {
        digest(self.text.as_bytes())
    }

    /// The front matter as an object, with every field of the page.
    pub fn front_matter(&self) -> Value {
        let inner = self.text.strip_prefix("---\n").and_then(|it| it.split_once("\n---\n")).map(|(inner, _)| inner);
        Format::Yaml.value(inner.unwrap_or_default()).unwrap_or_default()
    }

    pub fn description(&self) -> String {
        self.front_matter().get("description").and_then(Value::as_str).unwrap_or_default().to_owned()
    }
}

/// The digest in the format of the protocol: `sha256:` and hex digits.
pub fn digest(bytes: &[u8]) -> String {
    let hex: String = Sha256::digest(bytes).iter().map(|it| format!("{it:02x}")).collect();
    format!("sha256:{hex}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_has_its_own_name_and_a_description_and_fits_on_a_page() {
        for skill in &ALL {
            let front = skill.front_matter();
            assert_eq!(front.get("name").and_then(Value::as_str), Some(skill.name));
            let description = skill.description();
            assert!((60..=1024).contains(&description.len()), "{}: {description}", skill.name);
            assert!(description.contains("Use"), "{}: the description does not state when to use it", skill.name);
            let lines = skill.text.lines().count();
            assert!((25..=120).contains(&lines), "{} has {lines} lines", skill.name);
        }
        assert!(ALL.is_sorted_by_key(|it| it.name));
    }

    #[test]
    fn the_digest_is_that_of_the_bytes() {
        assert_eq!(digest(b""), "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    }
}
