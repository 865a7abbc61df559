//! `[http]`. Not here: the listener, and the default token in `state/http.token`.

use super::form::{Form, alias, boolean, by, hash, named, set, text};
use super::reader::{Fields, Reader};
use super::section::{row, section, unique_rows};
use super::tree::Node;
use crate::digest::Digest;
use crate::named_enum::named_enum;
use std::net::{Ipv4Addr, SocketAddr};

section! {
    /// HTTP clients.
    #[derive(Eq)]
    pub struct Http {
        /// Whether `bind` may be an address that other machines can reach.
        allow_remote: bool = false, boolean();
        /// Numeric address and port of the listener.
        bind: SocketAddr = SocketAddr::from((Ipv4Addr::LOCALHOST, 3000)), by(address), "\"127.0.0.1:3001\"";
        /// Additional accepted values of the Host header, for example for a proxy.
        hosts: Vec<String> = Vec::new(), set(text(1..=253).ruled(host), 0..=64), "[\"studio.local:3000\"]";
        /// Additional accepted values of the Origin header.
        origins: Vec<String> = Vec::new(), set(text(1..=256).ruled(origin), 0..=64), "[\"https://studio.example\"]";
        /// Tokens in addition to the default token.
        tokens: Vec<HttpToken> = Vec::new(), unique_rows(64, "name", "token");
    }
    check reachable
}

row! {
    /// A token in addition to `state/http.token`. The file contains only its digest.
    #[derive(Eq)]
    pub struct HttpToken {
        /// Name of the token; the principal is `http:<name>`.
        name: String, alias().ruled(not_reserved), "\"ci\"";
        /// SHA-256 of the token, as printed by `printf %s "$TOKEN" | sha256sum`.
        hash: Digest, hash(
            "write \"sha256:\" and the digest from: printf %s \"$TOKEN\" | sha256sum; do not write the token itself"
        ), "\"sha256:0000000000000000000000000000000000000000000000000000000000000000\"";
        /// The permissions of the token.
        scopes: Vec<Scope>, set(named(), 1..=Scope::ALL.len()), "[\"call\", \"observe\"]";
    }
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

/// Refuses or warns about an address that other machines can reach.
fn reachable(mut http: Http, r: &mut Reader<'_>, f: &Fields<'_>) -> Http {
    if http.bind.ip().is_loopback() {
        return http;
    }
    let place = f.peek("bind").and_then(|it| it.place.clone());
    if http.allow_remote {
        let help = "other machines can connect only if `hosts` contains the name of this machine";
        let help = http.hosts.is_empty().then(|| help.to_owned());
        let message = "every machine that can reach this address can try tokens, and the connection is not encrypted";
        r.under("bind", |r| r.warn(&place, message.to_owned(), help));
    } else {
        let message = format!("{} can be reached from other machines", http.bind.ip());
        let help = "bind 127.0.0.1, or add allow_remote = true".to_owned();
        r.under("bind", |r| r.rule_help(&place, message, help));
        http.bind = Http::default().bind;
    }
    http
}

fn address<'t>(r: &mut Reader<'t>, node: &'t Node) -> Option<SocketAddr> {
    let text = r.filled(node)?;
    text.parse().ok().or_else(|| {
        let help = "write a numeric address and a port, such as \"127.0.0.1:3000\"";
        r.reject(node, format!("\"{text}\" is not an address"), help)
    })
}

fn host<'t>(r: &mut Reader<'t>, node: &'t Node, text: String) -> Option<String> {
    let fits = text.bytes().all(|it| it.is_ascii_alphanumeric() || b".-_:[]".contains(&it));
    if !fits {
        let help = "write a name, with its port unless the port is 80, such as \"studio.local:3000\"";
        return r.reject(node, format!("\"{text}\" is not a value of the Host header"), help);
    }
    Some(text)
}

fn origin<'t>(r: &mut Reader<'t>, node: &'t Node, text: String) -> Option<String> {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let fits = rest.is_some_and(|it| !it.is_empty() && !it.contains(['/', '?', '#', '*', ' ', '@']));
    if !fits {
        let help = "write only scheme, name and port, such as \"https://studio.example\"";
        return r.reject(node, format!("\"{text}\" is not a value of the Origin header"), help);
    }
    Some(text)
}

fn not_reserved<'t>(r: &mut Reader<'t>, node: &'t Node, name: String) -> Option<String> {
    if name == "default" {
        r.rule(&node.place, "the name \"default\" is reserved for the token in state/http.token".to_owned());
        return None;
    }
    Some(name)
}
