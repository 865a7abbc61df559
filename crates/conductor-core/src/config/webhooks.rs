//! `[[webhooks]]`: events that Conductor sends to other servers. Not here: webhooks of other
//! programs (`http`), and sending.

use super::form::{Form, alias, filled, named, set};
use super::reader::Reader;
use super::section::row;
use super::tools::secret_name;
use super::tree::Node;
use crate::named_enum::named_enum;

row! {
    /// A server that receives events. Each event is signed, stored until the server has accepted
    /// it, and may arrive more than once.
    #[derive(Eq)]
    pub struct Webhook {
        /// Name of the webhook, for `status`.
        name: String, alias(), "\"alerts\"";
        /// Address of the receiver. It must use HTTPS, except on this machine.
        url: String, filled().ruled(receiver), "\"https://alerts.example/conductor\"";
        /// The events to send.
        events: Vec<WebhookEvent>, set(named(), 1..=WebhookEvent::ALL.len()), "[\"approval.pending\"]";
        /// The secret that signs the events, as `secret:NAME`.
        secret: String, filled().ruled(secret_name), "\"secret:alerts\"";
    }
}

named_enum! {
    /// An event that a webhook can send.
    #[derive(PartialOrd, Ord)]
    pub enum WebhookEvent {
        /// A call has started.
        ToolStart = "tool.start",
        /// A call has ended.
        ToolComplete = "tool.complete",
        /// A person must answer an approval request.
        ApprovalPending = "approval.pending",
        /// An approval request has ended.
        ApprovalDecided = "approval.decided",
        /// The state of a circuit breaker has changed.
        CircuitChanged = "circuit.changed",
        /// The status of a plugin has changed.
        PluginChanged = "plugin.changed",
        /// A checkpoint of the audit log was signed.
        AuditCheckpoint = "audit.checkpoint",
    }
}

pub(crate) fn receiver<'t>(r: &mut Reader<'t>, node: &'t Node, url: String) -> Option<String> {
    let here = ["localhost", "127.0.0.1", "[::1]"];
    let host = |rest: &str| {
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        rest.get(..end).unwrap_or_default().to_owned()
    };
    let plain = |it: &str| !it.is_empty() && !it.contains(['@', '\\', ' ']) && !it.contains(char::is_control);
    let is_here =
        |it: &str| here.iter().any(|name| it == *name || it.strip_prefix(name).is_some_and(|it| it.starts_with(':')));
    let fits = match (url.strip_prefix("https://"), url.strip_prefix("http://")) {
        (Some(rest), _) => plain(&host(rest)),
        (None, Some(rest)) => is_here(&host(rest)),
        (None, None) => false,
    };
    if !fits {
        let help = "write an address with https://; http:// is allowed only for this machine";
        return r.reject(node, format!("\"{url}\" is not an address of a receiver"), help);
    }
    Some(url)
}
