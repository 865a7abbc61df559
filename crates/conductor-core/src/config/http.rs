//! Reads `[http]`. Not here: the listener, and the default token in `state/http.token`.

use super::reader::Reader;
use super::tree::Node;
use crate::digest::Digest;
use crate::named_enum::named_enum;
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};

/// `[http]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Http {
    /// Address and port of the listener.
    pub bind: SocketAddr,
    /// Whether `bind` may be an address that other machines can reach.
    pub allow_remote: bool,
    /// Additional accepted values of the Host header, for example for a proxy.
    pub hosts: Vec<String>,
    /// Additional accepted values of the Origin header.
    pub origins: Vec<String>,
    /// Tokens in addition to the default token.
    pub tokens: Vec<HttpToken>,
}

/// A token in addition to `state/http.token`. The file contains only its digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpToken {
    /// Name of the token; the principal is `http:<name>`.
    pub name: String,
    /// SHA-256 of the token.
    pub hash: Digest,
    /// The permissions of the token.
    pub scopes: BTreeSet<Scope>,
}

named_enum! {
    /// A permission of a token.
    #[derive(PartialOrd, Ord)]
    pub enum Scope {
        /// Calling tools.
        Call = "call",
        /// Reading status and events.
        Observe = "observe",
    }
}

impl Default for Http {
    fn default() -> Self {
        Http {
            bind: SocketAddr::from((Ipv4Addr::LOCALHOST, 3000)),
            allow_remote: false,
            hosts: Vec::new(),
            origins: Vec::new(),
            tokens: Vec::new(),
        }
    }
}

pub(crate) fn http<'t>(r: &mut Reader<'t>, node: &'t Node) -> Option<Http> {
    let mut f = r.table(node)?;
    let d = Http::default();
    let allow_remote = f.or(r, "allow_remote", d.allow_remote, Reader::boolean);
    let bind = f.or(r, "bind", d.bind, |r, it| address(r, it, allow_remote));
    let hosts = f.or_default(r, "hosts", |r, it| r.set(it, 0, 64, host));
    if !bind.ip().is_loopback() {
        let place = node.get("bind").and_then(|it| it.place.clone());
        let help = hosts
            .is_empty()
            .then(|| "other machines can connect only if `hosts` contains the name of this machine".to_owned());
        let message =
            "every machine that can reach this address can try tokens, and the connection is not encrypted".to_owned();
        r.under("bind", |r| r.warn(&place, message, help));
    }
    let origins = f.or_default(r, "origins", |r, it| r.set(it, 0, 64, origin));
    let mut seen = BTreeSet::new();
    let tokens = f.or_default(r, "tokens", |r, it| r.list_of(it, 0, 64, |r, item| token(r, item, &mut seen)));
    f.finish(r);
    Some(Http { bind, allow_remote, hosts, origins, tokens })
}

fn address<'t>(r: &mut Reader<'t>, node: &'t Node, allow_remote: bool) -> Option<SocketAddr> {
    let text = r.filled(node)?;
    let Ok(address) = text.parse::<SocketAddr>() else {
        let help = "write a numeric address and a port, such as \"127.0.0.1:3000\"".to_owned();
        return r.reject(node, format!("\"{text}\" is not an address"), help);
    };
    if !address.ip().is_loopback() && !allow_remote {
        let help = "bind 127.0.0.1, or add allow_remote = true".to_owned();
        return r.reject(node, format!("{} can be reached from other machines", address.ip()), help);
    }
    Some(address)
}

fn host<'t>(r: &mut Reader<'t>, node: &'t Node) -> Option<String> {
    let text = r.text(node, 1, 253)?;
    let fits = text.bytes().all(|it| it.is_ascii_alphanumeric() || b".-_:[]".contains(&it));
    if !fits {
        let help = "write a name, with its port unless the port is 80, such as \"studio.local:3000\"";
        return r.reject(node, format!("\"{text}\" is not a value of the Host header"), help.to_owned());
    }
    Some(text)
}

fn origin<'t>(r: &mut Reader<'t>, node: &'t Node) -> Option<String> {
    let text = r.text(node, 1, 256)?;
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let fits = rest.is_some_and(|it| !it.is_empty() && !it.contains(['/', '?', '#', '*', ' ', '@']));
    if !fits {
        let help = "write only scheme, name and port, such as \"https://studio.example\"".to_owned();
        return r.reject(node, format!("\"{text}\" is not a value of the Origin header"), help);
    }
    Some(text)
}

fn token<'t>(r: &mut Reader<'t>, node: &'t Node, seen: &mut BTreeSet<String>) -> Option<HttpToken> {
    let before = r.errors();
    let mut f = r.table(node)?;
    let name = f.need(r, "name", |r, it| {
        if it.text() == Some("default") {
            r.rule(&it.place, "the name \"default\" is reserved for the token in state/http.token".to_owned());
            return None;
        }
        r.unique_alias(it, seen, "token")
    });
    let hash = f.need(r, "hash", |r, it| {
        let help =
            "write \"sha256:\" and the digest from: printf %s \"$TOKEN\" | sha256sum; do not write the token itself";
        r.digest(it, Some(help))
    });
    let scopes = f.need(r, "scopes", |r, it| r.set(it, 1, Scope::ALL.len(), Reader::named));
    f.finish(r);
    let token = HttpToken { name: name?, hash: hash?, scopes: scopes?.into_iter().collect() };
    (r.errors() == before).then_some(token)
}
