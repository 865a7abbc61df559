//! The principal of a call: who or what made it.
//!
//! Not here: authentication. A listener creates a principal after it has checked the peer's uid or
//! token. The text form alone proves nothing.

use std::fmt;
use std::str::FromStr;

use crate::digest::Digest;
use crate::named_enum::serde_as_text;

/// The caller of a tool, or the author of a decision. `Display` writes the text form of the audit
/// log, policy rules and approvals.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Principal {
    /// A person at a terminal or the console. Only a person may answer approval requests, apply and
    /// undo plans, enable plugins, set secrets or reset a circuit breaker.
    Person {
        /// User id of the peer.
        uid: u32,
    },
    /// A person with a paired phone. This principal can only answer approval requests and plans.
    Phone {
        /// Name of the phone.
        device: String,
    },
    /// A process at the control socket that does not count as a person, such as a script.
    Cli {
        /// User id of the peer.
        uid: u32,
    },
    /// An MCP client on the socket.
    Socket {
        /// User id of the peer.
        uid: u32,
        /// The name that the client declared, as [`client_name`] writes it. Not verified.
        client: String,
    },
    /// An HTTP client.
    Http {
        /// Name of the client's token.
        token: String,
    },
    /// A client with a token of the OAuth authorization server.
    Oauth {
        /// The subject of the token, as [`oauth_subject`] writes it.
        subject: String,
    },
    /// The daemon itself, when a mapping calls a tool.
    Mapping {
        /// Mode of the mapping.
        mode: String,
        /// Id of the mapping.
        id: String,
    },
    /// A plugin that calls a tool.
    Plugin {
        /// Name of the plugin.
        name: String,
    },
    /// A webhook that calls a tool.
    Webhook {
        /// Name of the webhook.
        name: String,
    },
}

impl Principal {
    /// An MCP client on the socket. A declared name that is not safe in a rule or in a log line
    /// becomes `unknown`.
    pub fn socket(uid: u32, declared: &str) -> Self {
        Self::Socket { uid, client: client_name(declared) }
    }

    /// Whether this is a person, who may answer approval requests.
    pub const fn is_person(&self) -> bool {
        matches!(self, Self::Person { .. } | Self::Phone { .. })
    }

    /// Whether the call came through the control socket, which serves no MCP client.
    pub const fn is_at_human_door(&self) -> bool {
        matches!(self, Self::Person { .. } | Self::Cli { .. })
    }
}

/// The declared name in lower case if it then matches `[a-z0-9._-]{1,32}`, else `unknown`.
pub fn client_name(declared: &str) -> String {
    let lowered = declared.to_lowercase();
    let fits = (1..=32).contains(&lowered.len())
        && lowered.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'.' | b'_' | b'-'));
    if fits { lowered } else { "unknown".to_owned() }
}

/// Maximum length of the subject of an OAuth token in a principal.
const MOST_SUBJECT: usize = 64;

/// The subject of an OAuth token as part of a principal. A long subject, or a subject with
/// characters other than `[A-Za-z0-9._@|-]`, becomes `sha256-` and 32 hex digits of its digest. So
/// two subjects never have the same principal, and a log line contains no hidden characters.
pub fn oauth_subject(subject: &str) -> String {
    const DIGEST: &str = "sha256-";
    let fits = (1..=MOST_SUBJECT).contains(&subject.len())
        && !subject.starts_with(DIGEST)
        && subject.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'@' | b'|' | b'-'));
    if fits {
        return subject.to_owned();
    }
    let hex: String = Digest::of(subject.as_bytes()).to_hex().chars().take(32).collect();
    format!("{DIGEST}{hex}")
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Person { uid } => write!(f, "person:{uid}"),
            Self::Phone { device } => write!(f, "phone:{device}"),
            Self::Cli { uid } => write!(f, "cli:{uid}"),
            Self::Socket { uid, client } => write!(f, "socket:{uid}/{client}"),
            Self::Http { token } => write!(f, "http:{token}"),
            Self::Oauth { subject } => write!(f, "oauth:{subject}"),
            Self::Mapping { mode, id } => write!(f, "mapping:{mode}/{id}"),
            Self::Plugin { name } => write!(f, "plugin:{name}"),
            Self::Webhook { name } => write!(f, "webhook:{name}"),
        }
    }
}

/// The text is not a principal. Contains its first 64 characters.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a principal such as person:1000 or socket:1000/client: {0:?}")]
pub struct NotAPrincipal(pub String);

impl FromStr for Principal {
    type Err = NotAPrincipal;

    fn from_str(text: &str) -> Result<Self, NotAPrincipal> {
        let parse = || {
            let (kind, rest) = text.split_once(':')?;
            if rest.is_empty() {
                return None;
            }
            match kind {
                "person" => Some(Self::Person { uid: rest.parse().ok()? }),
                "phone" => Some(Self::Phone { device: rest.to_owned() }),
                "cli" => Some(Self::Cli { uid: rest.parse().ok()? }),
                "socket" => {
                    let (uid, client) = rest.split_once('/')?;
                    Some(Self::Socket { uid: uid.parse().ok()?, client: client.to_owned() })
                }
                "http" => Some(Self::Http { token: rest.to_owned() }),
                "oauth" => Some(Self::Oauth { subject: rest.to_owned() }),
                // A mode name can contain a slash; an id cannot.
                "mapping" => {
                    let (mode, id) = rest.rsplit_once('/')?;
                    Some(Self::Mapping { mode: mode.to_owned(), id: id.to_owned() })
                }
                "plugin" => Some(Self::Plugin { name: rest.to_owned() }),
                "webhook" => Some(Self::Webhook { name: rest.to_owned() }),
                _ => None,
            }
        };
        parse().ok_or_else(|| NotAPrincipal(text.chars().take(64).collect()))
    }
}

serde_as_text!(Principal);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_subjects_have_different_principals() {
        assert_eq!(oauth_subject("ada@studio.example"), "ada@studio.example");
        let long = "x".repeat(65);
        let unusual = ["", "a b", "ada\u{200b}", "ada\n", "sha256-0", "\u{430}da", long.as_str()];
        let names: std::collections::BTreeSet<String> = unusual.into_iter().map(oauth_subject).collect();
        assert_eq!(names.len(), unusual.len());
        assert!(names.iter().all(|it| it.len() == 39 && it.starts_with("sha256-")), "{names:?}");
    }

    #[test]
    fn text_and_back() {
        for text in [
            "person:1000",
            "cli:0",
            "socket:1000/claude-code",
            "http:ci",
            "phone:kitchen",
            "oauth:auth0|12",
            "mapping:Live/Set/x1",
            "plugin:weather",
            "webhook:w",
        ] {
            assert_eq!(text.parse::<Principal>().map(|p| p.to_string()), Ok(text.to_owned()));
        }
        for text in ["", "person:", "person:me", "person:-1", "socket:1000", "robot:1", "person"] {
            assert!(text.parse::<Principal>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_declared_name_cannot_smuggle_anything() {
        for (declared, name) in [
            ("Claude-Code", "claude-code"),
            ("", "unknown"),
            ("a/b", "unknown"),
            ("x\u{202e}y", "unknown"),
            ("two words", "unknown"),
            (&"n".repeat(33), "unknown"),
        ] {
            assert_eq!(client_name(declared), name);
        }
        assert!(!Principal::socket(1, "person:1").is_person());
    }
}
