//! `[http]`. Not here: the listener, and the default token in `state/http.token`.

use super::form::{Form, alias, boolean, by, filled, hash, named, object, set, text, whole};
use super::mcp::{ToolView, toolset};
use super::reader::{Fields, Reader};
use super::section::{row, section, table, unique_rows};
use super::tools::secret_name;
use super::tree::Node;
use super::webhooks::receiver;
use crate::digest::Digest;
use crate::named_enum::named_enum;
use crate::timestamp::Timestamp;
use serde_json::{Map, Value};
use std::net::{Ipv4Addr, SocketAddr};

section! {
    /// HTTP clients.
    #[derive(Eq)]
    pub struct Http {
        /// Whether `bind` may be an address that other machines can reach. Needs `[http.tls]`.
        allow_remote: bool = false, boolean();
        /// Numeric address and port of the listener.
        bind: SocketAddr = SocketAddr::from((Ipv4Addr::LOCALHOST, 3000)), by(address), "\"127.0.0.1:3001\"";
        /// Additional accepted values of the Host header, for example for a proxy.
        hosts: Vec<String> = Vec::new(), set(text(1..=253).ruled(host), 0..=64), "[\"studio.local:3000\"]";
        /// Additional accepted values of the Origin header.
        origins: Vec<String> = Vec::new(), set(text(1..=256).ruled(origin), 0..=64), "[\"https://studio.example\"]";
        /// Tokens in addition to the default token.
        tokens: Vec<HttpToken> = Vec::new(), unique_rows(64, "name", "token");
        /// Webhooks of other programs. Each one makes one call.
        hooks: Vec<HttpHook> = Vec::new(), unique_rows(64, "name", "hook");
        /// Tokens of an OAuth authorization server.
        oauth: Option<HttpOauth> = None, table().maybe();
        /// Encryption of the connections.
        tls: HttpTls = HttpTls::default(), table();
    }
    check reachable
}

section! {
    /// Encryption of HTTP connections. With a certificate, every listener uses HTTPS, even on this
    /// machine.
    #[derive(Eq)]
    pub struct HttpTls {
        /// File with the certificate and its chain, as PEM. A relative path starts at the home.
        certificate: Option<String> = None, filled().maybe(), "\"tls/studio.pem\"";
        /// File with the private key, as PEM. Other users must not be able to read it.
        key: Option<String> = None, filled().maybe(), "\"tls/studio.key\"";
        /// Whether Conductor creates a certificate if `certificate` is missing. Clients must check
        /// its fingerprint.
        self_signed: bool = false, boolean();
    }
    check complete_pair
}

impl HttpTls {
    /// Whether listeners use TLS.
    pub fn is_on(&self) -> bool {
        self.self_signed || self.certificate.is_some()
    }
}

row! {
    /// An OAuth 2.1 authorization server whose access tokens (JWT) are accepted. The principal of a
    /// call is `oauth:<subject>`.
    #[derive(Eq)]
    pub struct HttpOauth {
        /// The issuer, exactly as in its metadata and in the claim `iss`. It must use HTTPS, except
        /// on this machine.
        issuer: String, filled().ruled(receiver), "\"https://login.example\"";
        /// The address of this server for its clients (RFC 8707). The claim `aud` of a token must
        /// contain it.
        audience: String, filled().ruled(receiver), "\"https://studio.local:3443/mcp\"";
        /// Accepted signature algorithms.
        algorithms: Vec<JwtAlgorithm> = vec![JwtAlgorithm::Es256, JwtAlgorithm::EdDsa, JwtAlgorithm::Ps256, JwtAlgorithm::Rs256], set(named(), 1..=JwtAlgorithm::ALL.len()), "[\"ES256\"]";
        /// Scopes that grant rights. A token without any of these scopes is refused.
        scopes: Vec<OauthScope> = Vec::new(), unique_rows(64, "name", "scope");
    }
}

row! {
    /// A scope of OAuth tokens, and the tools that it grants.
    #[derive(Eq)]
    pub struct OauthScope {
        /// Name of the scope.
        name: String, text(1..=128).ruled(scope_name), "\"conductor.modes\"";
        /// The tools that tokens with the scope can use: names of toolsets and of tools, as in
        /// `[mcp] tools`.
        tools: Vec<String> = Vec::new(), set(text(1..=128).ruled(toolset), 0..=256), "[\"conductor_list_modes\"]";
        /// Whether the scope also allows reading status and events.
        observe: bool = false, boolean();
    }
}

named_enum! {
    /// A signature algorithm of JWTs. Symmetric algorithms and `none` are never accepted.
    #[derive(PartialOrd, Ord)]
    #[expect(missing_docs, reason = "the names are those of RFC 7518 and RFC 8037")]
    pub enum JwtAlgorithm {
        Es256 = "ES256",
        Es384 = "ES384",
        EdDsa = "EdDSA",
        Ps256 = "PS256",
        Ps384 = "PS384",
        Ps512 = "PS512",
        Rs256 = "RS256",
        Rs384 = "RS384",
        Rs512 = "RS512",
    }
}

row! {
    /// A webhook of another program: a signed `POST /hooks/<name>` makes one call, whose principal
    /// is `webhook:<name>`.
    #[derive(Eq)]
    pub struct HttpHook {
        /// Name of the hook, the last part of its path.
        name: String, alias(), "\"build-done\"";
        /// The tool that is called.
        tool: String, text(1..=128).ruled(not_a_runner), "\"conductor_switch_mode\"";
        /// Arguments of the call. The body of the request is not used.
        arguments: Map<String, Value> = Map::new(), object(), "{ mode = \"Mix\" }";
        /// The secret that the sender signs with, as `secret:NAME`.
        secret: String, filled().ruled(secret_name), "\"secret:build-hook\"";
        /// How the sender signs.
        signature: HookSignature = HookSignature::Conductor, named(), "\"github\"";
    }
}

named_enum! {
    /// The form of the signature of an incoming webhook.
    pub enum HookSignature {
        /// `X-Conductor-Signature`. The signature contains a time, which may differ from the clock
        /// of this machine by five minutes.
        Conductor = "conductor",
        /// `X-Hub-Signature-256`, the header of GitHub. The signature contains no time, so each
        /// body is accepted only once.
        Github = "github",
    }
}

row! {
    /// A token in addition to `state/http.token`. The row contains only its digest. `conductor
    /// http token create` writes this section.
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
        /// The tools that the token can use: names of toolsets and of tools, as in `[mcp] tools`.
        tools: Vec<String> = vec!["all".to_owned()], set(text(1..=128).ruled(toolset), 1..=256), "[\"live\"]";
        /// The views that the token may list. The first one is the default. If empty, all views
        /// are allowed.
        views: Vec<ToolView> = Vec::new(), set(named(), 0..=ToolView::ALL.len()), "[\"stage\"]";
        /// Time from which the token is refused.
        expires: Option<Timestamp> = None, by(time).maybe(), "\"2027-01-31\"";
        /// Maximum number of calls per minute, in addition to `[limits]`.
        per_minute: Option<u32> = None, whole(1..=1_000_000).maybe(), "60";
    }
}

named_enum! {
    /// A permission of a token.
    #[derive(PartialOrd, Ord)]
    pub enum Scope {
        /// The token may call tools.
        Call = "call",
        /// The token may read status and events.
        Observe = "observe",
    }
}

/// Refuses a certificate without its key, and a key without its certificate.
fn complete_pair(tls: HttpTls, r: &mut Reader<'_>, f: &Fields<'_>) -> HttpTls {
    let (key, message) = match (&tls.certificate, &tls.key) {
        (None, None) | (Some(_), Some(_)) => return tls,
        (Some(_), None) => ("certificate", "the certificate needs its private key in `key`"),
        (None, Some(_)) => ("key", "the key needs its certificate in `certificate`"),
    };
    let place = f.peek(key).and_then(|it| it.place.clone());
    r.under(key, |r| r.rule(&place, message.to_owned()));
    HttpTls::default()
}

/// Refuses or warns about an address that other machines can reach. Without TLS, such an address is
/// always refused.
fn reachable(mut http: Http, r: &mut Reader<'_>, f: &Fields<'_>) -> Http {
    const CURE: &str = "add [http.tls] with self_signed = true, or with a certificate and its key";
    let place = |key: &str| f.peek(key).and_then(|it| it.place.clone());
    if http.allow_remote && !http.tls.is_on() {
        let message = "other machines may connect only with TLS, because a token must not be sent unencrypted";
        r.under("allow_remote", |r| r.rule_help(&place("allow_remote"), message.to_owned(), CURE.to_owned()));
        http.allow_remote = false;
    }
    if http.bind.ip().is_loopback() {
        return http;
    }
    if http.allow_remote {
        let help = "other machines can connect only if `hosts` contains the name of this machine; \
                    `conductor http pair` proposes names";
        let help = http.hosts.is_empty().then(|| help.to_owned());
        let message = "every machine that can reach this address can try to guess a token";
        r.under("bind", |r| r.warn(&place("bind"), message.to_owned(), help));
    } else {
        let message = format!("{} can be reached from other machines", http.bind.ip());
        let help = format!("bind 127.0.0.1, or add allow_remote = true and {}", CURE.trim_start_matches("add "));
        r.under("bind", |r| r.rule_help(&place("bind"), message, help));
        http.bind = Http::default().bind;
    }
    http
}

fn scope_name<'t>(r: &mut Reader<'t>, node: &'t Node, name: String) -> Option<String> {
    let fits = name.bytes().all(|it| matches!(it, b'!' | b'#'..=b'[' | b']'..=b'~'));
    if !fits {
        let help = "write one name without spaces and quotation marks, such as \"conductor.modes\"";
        return r.reject(node, format!("\"{name}\" is not the name of a scope"), help);
    }
    Some(name)
}

fn time<'t>(r: &mut Reader<'t>, node: &'t Node) -> Option<Timestamp> {
    let text = r.filled(node)?;
    text.parse().ok().or_else(|| {
        r.reject(node, format!("\"{text}\" is not a time"), "write a day or a time in UTC, such as \"2027-01-31\"")
    })
}

/// Refuses tools that run other tools, because the audit log must show the tool of a webhook.
fn not_a_runner<'t>(r: &mut Reader<'t>, node: &'t Node, name: String) -> Option<String> {
    if ["conductor_call_tool", "conductor_run_script"].contains(&name.as_str()) {
        return r.reject(node, format!("a webhook cannot call {name}"), "name the tool that the webhook should call");
    }
    Some(name)
}

pub(crate) fn address<'t>(r: &mut Reader<'t>, node: &'t Node) -> Option<SocketAddr> {
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
