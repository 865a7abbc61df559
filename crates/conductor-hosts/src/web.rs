//! Sends HTTP requests to the public internet. They cannot be misused to reach the local network.
//!
//! A host name is resolved once, all its addresses are checked, and the connection uses a checked
//! address, so that a later change of the name has no effect. Redirects are checked in the same
//! way; a redirect to a host that no person has named is returned and not followed. Proxy settings
//! of the environment are not used, and no cookies or connections are kept. Not here: approval by a
//! person.

mod address;

pub use address::is_public;

use arc_swap::ArcSwap;
use conductor_core::config;
use conductor_core::error::{Code, RefusedBy, Subject, ToolError};
use futures_util::future::BoxFuture;
use http::header::{AUTHORIZATION, CONTENT_LENGTH, COOKIE, HOST, LOCATION, PROXY_AUTHORIZATION};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use reqwest::Url;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

const REDIRECTS: usize = 5;
pub const MOST_BYTES: usize = 1 << 20;

/// Resolves host names.
pub trait Lookup: Send + Sync {
    fn addresses(&self, host: String, port: u16) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>>;
}

/// Uses the system's resolver.
pub struct SystemLookup;

impl Lookup for SystemLookup {
    fn addresses(&self, host: String, port: u16) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>> {
        Box::pin(async move { Ok(tokio::net::lookup_host((host, port)).await?.collect()) })
    }
}

pub struct Web {
    rules: ArcSwap<config::Web>,
    lookup: Arc<dyn Lookup>,
    public: fn(IpAddr) -> bool,
    tls: rustls::ClientConfig,
}

/// A request.
pub struct Wanted {
    pub method: Method,
    pub url: Url,
    pub headers: HeaderMap,
    pub body: Option<Vec<u8>>,
    pub max_bytes: usize,
    /// Headers with secrets. At each redirect, a secret is sent only if the host is one of the
    /// secret's hosts.
    pub sealed: Vec<Sealed>,
}

/// A header that contains a secret.
pub struct Sealed {
    pub name: HeaderName,
    pub value: HeaderValue,
    pub hosts: Vec<String>,
}

impl Wanted {
    pub fn get(url: Url) -> Self {
        Wanted {
            method: Method::GET,
            url,
            headers: HeaderMap::new(),
            body: None,
            max_bytes: MOST_BYTES,
            sealed: Vec::new(),
        }
    }
}

/// The hosts that a request may reach.
#[derive(Clone, Debug, Default)]
pub struct Reach {
    /// Hosts named by a person. An entry of the form `host:port` may have a private address.
    pub allow_hosts: Vec<String>,
    /// Hosts that may be reached without TLS.
    pub http_hosts: Vec<String>,
    /// If present, only these hosts may be reached.
    pub only: Option<Vec<String>>,
}

impl Reach {
    /// Whether a redirect may be followed: only to the same host, or to a host that a person named.
    fn follows(&self, from: &Url, to: &Url) -> bool {
        let named = self.only.as_ref().unwrap_or(&self.allow_hosts);
        // Whether the redirect leads from HTTP to HTTPS on the same host, both with their default
        // ports.
        let safer = (from.scheme(), to.scheme()) == ("http", "https")
            && host_of(from) == host_of(to)
            && from.port().is_none()
            && to.port().is_none();
        host_and_port(from) == host_and_port(to) || safer || is_named(to, named)
    }
}

#[derive(Debug)]
pub struct Fetched {
    pub url: Url,
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
    pub truncated: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum WebError {
    #[error("{url}: {why}")]
    BadUrl { url: String, why: &'static str },
    #[error("{host} is not one of the granted hosts")]
    NotGranted { host: String },
    #[error("{host} has the address {address}, which is not on the public internet")]
    Private { host: String, address: IpAddr },
    #[error("{host} may be reached over https only")]
    NeedsTls { host: String },
    #[error("more than {REDIRECTS} redirects")]
    TooManyRedirects,
    #[error("the redirect to {to} is refused: {why}")]
    BadRedirect { to: String, why: &'static str },
    #[error("{host} cannot be resolved: {why}")]
    NoAddress { host: String, why: String },
    #[error("{host} did not answer: {why}")]
    NoAnswer { host: String, why: String },
    #[error("the certificate of {host} is not trusted: {why}")]
    Untrusted { host: String, why: String },
    #[error("{host} did not answer within {ms} ms")]
    Late { host: String, ms: u64 },
}

impl From<WebError> for ToolError {
    fn from(error: WebError) -> Self {
        let text = error.to_string();
        let denied = |host: String, hint: &str| {
            let error = ToolError::new(Code::Denied, text.clone()).by(RefusedBy::Policy);
            error.hint(hint).subject(Subject::Other(host))
        };
        match error {
            WebError::BadUrl { .. } => ToolError::new(Code::BadInput, text).hint("Use a complete https:// address."),
            WebError::NotGranted { host } => denied(host, "A person can grant hosts in config.toml."),
            WebError::Private { host, .. } => {
                denied(host, "A person can add this exact host:port to [tools.web] allow_hosts.")
            }
            WebError::NeedsTls { host } => {
                denied(host, "Use https, or ask the person to add the host to [tools.web] http_hosts.")
            }
            WebError::TooManyRedirects | WebError::BadRedirect { .. } => ToolError::new(Code::SdkRejected, text)
                .hint("If you need the target of the redirect, fetch its address directly."),
            WebError::NoAddress { host, .. } | WebError::NoAnswer { host, .. } => {
                ToolError::new(Code::HostOffline, text).subject(Subject::Other(host))
            }
            WebError::Untrusted { host, .. } => denied(
                host,
                "Do not repeat the call. A person can add the authority that signed the certificate to the system's certificates, \
                 or start the daemon with SSL_CERT_FILE set to a file that contains the authority.",
            ),
            WebError::Late { host, .. } => ToolError::new(Code::Timeout, text).subject(Subject::Other(host)),
        }
    }
}

/// A TLS configuration that trusts the certificates of the system.
pub fn system_tls() -> Result<rustls::ClientConfig, rustls::Error> {
    use rustls_platform_verifier::BuilderVerifierExt as _;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(builder.with_platform_verifier()?.with_no_client_auth())
}

impl Web {
    pub fn new(tls: rustls::ClientConfig) -> Arc<Self> {
        Self::with(tls, Arc::new(SystemLookup), is_public)
    }

    /// Creates a client for tests, with another resolver and another definition of public
    /// addresses.
    pub fn with(tls: rustls::ClientConfig, lookup: Arc<dyn Lookup>, public: fn(IpAddr) -> bool) -> Arc<Self> {
        Arc::new(Web { rules: ArcSwap::default(), lookup, public, tls })
    }

    pub fn configure(&self, rules: &config::Web) {
        self.rules.store(Arc::new(rules.clone()));
    }

    pub fn rules(&self) -> Arc<config::Web> {
        self.rules.load_full()
    }

    /// The hosts that `[tools.web]` grants.
    pub fn reach(&self) -> Reach {
        let rules = self.rules();
        Reach { allow_hosts: rules.allow_hosts.clone(), http_hosts: rules.http_hosts.clone(), only: None }
    }

    /// Sends a request and follows redirects, each checked like the first address. The time limit
    /// is for all redirects together.
    pub async fn fetch(&self, wanted: Wanted, reach: &Reach) -> Result<Fetched, WebError> {
        let ms = self.rules().timeout_ms;
        let host = host_and_port(&wanted.url);
        let work = self.hops(wanted, reach, Duration::from_millis(ms));
        match tokio::time::timeout(Duration::from_millis(ms), work).await {
            Ok(done) => done,
            Err(_) => Err(WebError::Late { host, ms }),
        }
    }

    async fn hops(&self, mut wanted: Wanted, reach: &Reach, timeout: Duration) -> Result<Fetched, WebError> {
        normalise(&mut wanted.url)?;
        for _ in 0..=REDIRECTS {
            let mut response = self.hop(&wanted, reach, timeout).await?;
            let status = response.status();
            let location = response.headers().get(LOCATION).filter(|_| status.is_redirection()).cloned();
            let next = location.as_ref().map(|it| target(&wanted.url, it)).transpose()?;
            // If `only` is set, a forbidden redirect is an error. Otherwise the redirect response
            // is returned as it is.
            if let (Some(next), Some(_)) = (&next, &reach.only)
                && !reach.follows(&wanted.url, next)
            {
                return Err(WebError::NotGranted { host: host_of(next) });
            }
            let Some(next) = next.filter(|next| reach.follows(&wanted.url, next)) else {
                return read(&wanted.url, &mut response, wanted.max_bytes).await;
            };
            redirect(&mut wanted, status.as_u16(), next)?;
        }
        Err(WebError::TooManyRedirects)
    }

    async fn hop(&self, wanted: &Wanted, reach: &Reach, timeout: Duration) -> Result<reqwest::Response, WebError> {
        let (host, addresses) = self.checked(&wanted.url, reach).await?;
        let client = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .tls_backend_preconfigured(self.tls.clone())
            .resolve_to_addrs(&host, &addresses)
            .connect_timeout(timeout)
            .build()
            .map_err(|error| WebError::NoAnswer { host: host.clone(), why: reason(&error) })?;
        let mut request = client.request(wanted.method.clone(), wanted.url.clone()).headers(wanted.headers.clone());
        let own = host_and_port(&wanted.url);
        for sealed in
            wanted.sealed.iter().filter(|it| it.hosts.iter().any(|host| covers(host, &host_of(&wanted.url), &own)))
        {
            request = request.header(sealed.name.clone(), sealed.value.clone());
        }
        if let Some(body) = &wanted.body {
            request = request.body(body.clone());
        }
        request.send().await.map_err(|error| match certificate_error(&error) {
            Some(why) => WebError::Untrusted { host, why },
            None => WebError::NoAnswer { host, why: reason(&error) },
        })
    }

    /// Checks a URL before any connection. Returns the host and its addresses.
    async fn checked(&self, url: &Url, reach: &Reach) -> Result<(String, Vec<SocketAddr>), WebError> {
        let bad = |why| WebError::BadUrl { url: url.to_string(), why };
        if !url.username().is_empty() || url.password().is_some() {
            return Err(bad("an address must not contain a user name or password"));
        }
        let host = host_of(url);
        let with_port = host_and_port(url);
        let plain = match url.scheme() {
            "https" => false,
            "http" => true,
            _ => return Err(bad("only http and https are supported")),
        };
        let port = url.port_or_known_default().ok_or_else(|| bad("no port"))?;
        let named = |list: &[String]| list.iter().any(|it| covers(it, &host, &with_port));
        if reach.only.as_ref().is_some_and(|only| !named(only)) {
            return Err(WebError::NotGranted { host });
        }
        if plain && !named(&reach.http_hosts) {
            return Err(WebError::NeedsTls { host });
        }
        let literal = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        let addresses = match literal {
            Ok(address) => vec![SocketAddr::new(address, port)],
            Err(_) => {
                let found = self.lookup.addresses(host.clone(), port).await;
                found.map_err(|error| WebError::NoAddress { host: host.clone(), why: error.to_string() })?
            }
        };
        if addresses.is_empty() {
            return Err(WebError::NoAddress { host, why: "no address was found".to_owned() });
        }
        // A private address needs an entry with the exact host and port, because other services may
        // listen on the same host.
        let is_allowed = reach.allow_hosts.contains(&with_port);
        match addresses.iter().find(|it| !is_allowed && !(self.public)(it.ip())) {
            Some(private) => Err(WebError::Private { host, address: private.ip() }),
            None => Ok((host, addresses)),
        }
    }
}

/// Whether an entry `host` or `host:port` names this host.
fn covers(entry: &str, host: &str, with_port: &str) -> bool {
    entry.eq_ignore_ascii_case(host) || entry.eq_ignore_ascii_case(with_port)
}

fn host_of(url: &Url) -> String {
    url.host_str().unwrap_or_default().trim_end_matches('.').to_ascii_lowercase()
}

/// Host and port of a URL, even if the port is the default.
pub fn host_and_port(url: &Url) -> String {
    format!("{}:{}", host_of(url), url.port_or_known_default().unwrap_or(0))
}

/// Whether a person has named this host in a list of hosts.
pub fn is_named(url: &Url, hosts: &[String]) -> bool {
    hosts.iter().any(|it| covers(it, &host_of(url), &host_and_port(url)))
}

/// Removes a final dot of the host: `a.example.` is the same host as `a.example` and must be
/// checked as such.
fn normalise(url: &mut Url) -> Result<(), WebError> {
    let Some(host) = url.host_str().filter(|it| it.ends_with('.')) else { return Ok(()) };
    let host = host.trim_end_matches('.').to_owned();
    let bad = WebError::BadUrl { url: url.to_string(), why: "this is not a host name" };
    if host.is_empty() || url.set_host(Some(&host)).is_err() { Err(bad) } else { Ok(()) }
}

/// The target of a redirect.
fn target(from: &Url, location: &HeaderValue) -> Result<Url, WebError> {
    let text = String::from_utf8_lossy(location.as_bytes()).into_owned();
    let mut next = from.join(&text).map_err(|_| WebError::BadRedirect { to: text, why: "it is not an address" })?;
    normalise(&mut next)?;
    Ok(next)
}

/// Prepares the request for the target of a redirect.
fn redirect(wanted: &mut Wanted, status: u16, next: Url) -> Result<(), WebError> {
    let bad = |why| WebError::BadRedirect { to: next.to_string(), why };
    if wanted.url.scheme() == "https" && next.scheme() != "https" {
        return Err(bad("it leads from https to an unencrypted address"));
    }
    if host_and_port(&next) != host_and_port(&wanted.url) {
        for name in [AUTHORIZATION, COOKIE, PROXY_AUTHORIZATION] {
            wanted.headers.remove(name);
        }
    }
    wanted.headers.remove(HOST);
    // 307 and 308 keep the method and the body. A body is sent only to the same host and port.
    if matches!(status, 307 | 308) && wanted.body.is_some() && host_and_port(&next) != host_and_port(&wanted.url) {
        return Err(bad("a body is not sent to another host"));
    }
    if !matches!(status, 307 | 308) && wanted.method != Method::HEAD {
        wanted.method = Method::GET;
        wanted.body = None;
        wanted.headers.remove(CONTENT_LENGTH);
    }
    wanted.url = next;
    Ok(())
}

/// Reads the body up to `limit` bytes.
async fn read(url: &Url, response: &mut reqwest::Response, limit: usize) -> Result<Fetched, WebError> {
    let mut body = Vec::new();
    let mut truncated = false;
    loop {
        let chunk = response.chunk().await;
        let chunk = chunk.map_err(|error| WebError::NoAnswer { host: host_and_port(url), why: reason(&error) })?;
        let Some(chunk) = chunk else { break };
        let room = limit - body.len();
        body.extend_from_slice(chunk.get(..room.min(chunk.len())).unwrap_or_default());
        if chunk.len() > room {
            truncated = true;
            break;
        }
    }
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    Ok(Fetched { url: url.clone(), status, headers, body, truncated })
}

/// The reason why the server's certificate was refused; `None` for other errors.
fn certificate_error(error: &reqwest::Error) -> Option<String> {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(now) = cause {
        if let Some(rustls::Error::InvalidCertificate(why)) = now.downcast_ref() {
            return Some(why.to_string());
        }
        // `source` skips the error that is wrapped in an `io::Error`.
        let wrapped = now.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        cause = wrapped.map(|it| it as &(dyn std::error::Error + 'static)).or_else(|| now.source());
    }
    None
}

/// The innermost cause of an error. The address is not repeated, because it may contain data.
fn reason(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    if std::ptr::eq(cause, error) { "the request could not be made".to_owned() } else { cause.to_string() }
}

#[cfg(test)]
mod tests;
