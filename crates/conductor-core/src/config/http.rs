//! Reading `[http]`. Not here: the listener, and the token every home has by itself.

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
    /// Without it only loopback addresses are bound.
    pub allow_remote: bool,
    /// Further values of the Host header, for a proxy.
    pub hosts: Vec<String>,
    /// Further values of the Origin header.
    pub origins: Vec<String>,
    /// Tokens in addition to the default one.
    pub tokens: Vec<HttpToken>,
}

/// A further token besides `state/http.token`. The file holds its digest only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpToken {
    /// What its principal is called: `http:<name>`.
    pub name: String,
    /// SHA-256 of the token.
    pub hash: Digest,
    /// What it allows.
    pub scopes: BTreeSet<Scope>,
}

named_enum! {
    /// What a token allows.
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
        let help =
            hosts.is_empty().then(|| "other machines can use it only after `hosts` names this machine".to_owned());
        let message =
            "every machine that reaches this address may try tokens on it, and nothing is encrypted".to_owned();
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
        let help = "write a number address and a port, such as \"127.0.0.1:3000\"".to_owned();
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
        let help =
            "write what a browser would send: a name, with its port unless that is 80, such as \"studio.local:3000\"";
        return r.reject(node, format!("\"{text}\" is not a value of the Host header"), help.to_owned());
    }
    Some(text)
}

fn origin<'t>(r: &mut Reader<'t>, node: &'t Node) -> Option<String> {
    let text = r.text(node, 1, 256)?;
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let fits = rest.is_some_and(|it| !it.is_empty() && !it.contains(['/', '?', '#', '*', ' ', '@']));
    if !fits {
        let help = "write scheme, name and port and nothing behind them, such as \"https://studio.example\"".to_owned();
        return r.reject(node, format!("\"{text}\" is not a value of the Origin header"), help);
    }
    Some(text)
}

fn token<'t>(r: &mut Reader<'t>, node: &'t Node, seen: &mut BTreeSet<String>) -> Option<HttpToken> {
    let before = r.errors();
    let mut f = r.table(node)?;
    let name = f.need(r, "name", |r, it| {
        if it.text() == Some("default") {
            r.rule(&it.place, "\"default\" is the token in state/http.token".to_owned());
            return None;
        }
        r.unique_alias(it, seen, "token")
    });
    let hash = f.need(r, "hash", |r, it| {
        let help = "printf %s \"$TOKEN\" | sha256sum, written as \"sha256:…\"; the token itself is never written here";
        r.digest(it, Some(help))
    });
    let scopes = f.need(r, "scopes", |r, it| r.set(it, 1, Scope::ALL.len(), Reader::named));
    f.finish(r);
    let token = HttpToken { name: name?, hash: hash?, scopes: scopes?.into_iter().collect() };
    (r.errors() == before).then_some(token)
}
