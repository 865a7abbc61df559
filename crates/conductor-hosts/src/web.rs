//! Fetching from the web without becoming somebody's arm into the local network.
//!
//! A name is looked up once, every address it has is checked, and the connection goes to a checked
//! address: a name that changes its mind between the look and the call changes nothing. Each
//! redirect starts over, and one to a host that was not named is given back unfollowed. Proxies of
//! the environment are not used, and nothing is kept between two requests: no cookies, no pool. Not
//! here: whether a person must be asked.

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

/// Names to addresses.
pub trait Lookup: Send + Sync {
    fn addresses(&self, host: String, port: u16) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>>;
}

/// As the system does it.
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

/// What is asked for.
pub struct Wanted {
    pub method: Method,
    pub url: Url,
    pub headers: HeaderMap,
    pub body: Option<Vec<u8>>,
    pub max_bytes: usize,
    /// Values that only these hosts may see. They are put in at each hop, and only there.
    pub sealed: Vec<Sealed>,
}

/// A header with a secret in it.
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

/// How far a request may reach.
#[derive(Clone, Debug, Default)]
pub struct Reach {
    /// `host:port` entries may be private addresses.
    pub allow_hosts: Vec<String>,
    /// Reached without TLS.
    pub http_hosts: Vec<String>,
    /// When present, no other host is reached at all.
    pub only: Option<Vec<String>>,
}

impl Reach {
    /// Whether a redirect may be followed without a question: to where it came from, or to a host
    /// that a person named.
    fn follows(&self, from: &Url, to: &Url) -> bool {
        let named = self.only.as_ref().unwrap_or(&self.allow_hosts);
        // The same site over TLS, both at their usual ports.
        let safer = (from.scheme(), to.scheme()) == ("http", "https")
            && host_of(from) == host_of(to)
            && from.port().is_none()
            && to.port().is_none();
        shown(from) == shown(to) || safer || is_named(to, named)
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
    #[error("{host} may not be reached from here")]
    NotGranted { host: String },
    #[error("{host} has the address {address}, which is not on the public internet")]
    Private { host: String, address: IpAddr },
    #[error("{host} may be reached over https only")]
    NeedsTls { host: String },
    #[error("more than {REDIRECTS} redirects")]
    TooManyRedirects,
    #[error("the redirect to {to} is refused: {why}")]
    BadRedirect { to: String, why: &'static str },
    #[error("{host} has no address: {why}")]
    NoAddress { host: String, why: String },
    #[error("{host} did not answer: {why}")]
    NoAnswer { host: String, why: String },
    #[error("the certificate of {host} is not trusted: {why}")]
    Untrusted { host: String, why: String },
    #[error("{host} did not answer within {ms} ms")]
    Late { host: String, ms: u64 },
}

impl From<WebError> for ToolError {
    fn from(fault: WebError) -> Self {
        let text = fault.to_string();
        match fault {
            WebError::BadUrl { .. } => ToolError::new(Code::BadInput, text).hint("Give a whole https:// address."),
            WebError::NotGranted { host } => ToolError::new(Code::Denied, text)
                .by(RefusedBy::Policy)
                .hint("A person grants hosts in config.toml.")
                .subject(Subject::Other(host)),
            WebError::Private { host, .. } => ToolError::new(Code::Denied, text)
                .by(RefusedBy::Policy)
                .hint("A person may name that exact host:port in [tools.web] allow_hosts.")
                .subject(Subject::Other(host)),
            WebError::NeedsTls { host } => ToolError::new(Code::Denied, text)
                .by(RefusedBy::Policy)
                .hint("Use https, or ask the person to name the host in [tools.web] http_hosts.")
                .subject(Subject::Other(host)),
            WebError::TooManyRedirects | WebError::BadRedirect { .. } => {
                ToolError::new(Code::SdkRejected, text).hint("Fetch the address it leads to directly, if it is wanted.")
            }
            WebError::NoAddress { host, .. } | WebError::NoAnswer { host, .. } => {
                ToolError::new(Code::HostOffline, text).subject(Subject::Other(host))
            }
            WebError::Untrusted { host, .. } => ToolError::new(Code::Denied, text)
                .by(RefusedBy::Policy)
                .hint(
                    "Do not repeat it. A person may add the authority that signed it to the system's certificates, or start \
                     the daemon with SSL_CERT_FILE naming a file of them.",
                )
                .subject(Subject::Other(host)),
            WebError::Late { host, .. } => ToolError::new(Code::Timeout, text).subject(Subject::Other(host)),
        }
    }
}

/// What rustls needs to know whom to trust: the system's own list.
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

    /// With another lookup and another idea of what is public, for tests.
    pub fn with(tls: rustls::ClientConfig, lookup: Arc<dyn Lookup>, public: fn(IpAddr) -> bool) -> Arc<Self> {
        Arc::new(Web { rules: ArcSwap::default(), lookup, public, tls })
    }

    pub fn configure(&self, rules: &config::Web) {
        self.rules.store(Arc::new(rules.clone()));
    }

    pub fn rules(&self) -> Arc<config::Web> {
        self.rules.load_full()
    }

    /// As `[tools.web]` says.
    pub fn reach(&self) -> Reach {
        let rules = self.rules();
        Reach { allow_hosts: rules.allow_hosts.clone(), http_hosts: rules.http_hosts.clone(), only: None }
    }

    /// Follows redirects, each checked like the first. The time is that of all hops together.
    pub async fn fetch(&self, wanted: Wanted, reach: &Reach) -> Result<Fetched, WebError> {
        let ms = self.rules().timeout_ms;
        let host = shown(&wanted.url);
        let work = self.hops(wanted, reach, Duration::from_millis(ms));
        match tokio::time::timeout(Duration::from_millis(ms), work).await {
            Ok(done) => done,
            Err(_) => Err(WebError::Late { host, ms }),
        }
    }

    async fn hops(&self, mut wanted: Wanted, reach: &Reach, patience: Duration) -> Result<Fetched, WebError> {
        normalise(&mut wanted.url)?;
        for _ in 0..=REDIRECTS {
            let mut response = self.hop(&wanted, reach, patience).await?;
            let status = response.status();
            let location = response.headers().get(LOCATION).filter(|_| status.is_redirection()).cloned();
            let next = location.as_ref().map(|it| target(&wanted.url, it)).transpose()?;
            // A plugin hears that it was not granted; a person's list is one to fetch without a
            // question.
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

    async fn hop(&self, wanted: &Wanted, reach: &Reach, patience: Duration) -> Result<reqwest::Response, WebError> {
        let (host, addresses) = self.checked(&wanted.url, reach).await?;
        let client = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .tls_backend_preconfigured(self.tls.clone())
            .resolve_to_addrs(&host, &addresses)
            .connect_timeout(patience)
            .build()
            .map_err(|fault| WebError::NoAnswer { host: host.clone(), why: reason(&fault) })?;
        let mut request = client.request(wanted.method.clone(), wanted.url.clone()).headers(wanted.headers.clone());
        let own = shown(&wanted.url);
        for sealed in
            wanted.sealed.iter().filter(|it| it.hosts.iter().any(|host| covers(host, &host_of(&wanted.url), &own)))
        {
            request = request.header(sealed.name.clone(), sealed.value.clone());
        }
        if let Some(body) = &wanted.body {
            request = request.body(body.clone());
        }
        request.send().await.map_err(|fault| match distrust(&fault) {
            Some(why) => WebError::Untrusted { host, why },
            None => WebError::NoAnswer { host, why: reason(&fault) },
        })
    }

    /// The host, and addresses that every check passed. Nothing was connected to yet.
    async fn checked(&self, url: &Url, reach: &Reach) -> Result<(String, Vec<SocketAddr>), WebError> {
        let bad = |why| WebError::BadUrl { url: url.to_string(), why };
        if !url.username().is_empty() || url.password().is_some() {
            return Err(bad("a name and password do not belong into an address"));
        }
        let host = host_of(url);
        let with_port = shown(url);
        let plain = match url.scheme() {
            "https" => false,
            "http" => true,
            _ => return Err(bad("only http and https are spoken")),
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
                found.map_err(|fault| WebError::NoAddress { host: host.clone(), why: fault.to_string() })?
            }
        };
        if addresses.is_empty() {
            return Err(WebError::NoAddress { host, why: "none was found".to_owned() });
        }
        // Only the exact host and port lift the wall: a name alone says nothing about what else
        // listens there.
        let lifted = reach.allow_hosts.contains(&with_port);
        match addresses.iter().find(|it| !lifted && !(self.public)(it.ip())) {
            Some(private) => Err(WebError::Private { host, address: private.ip() }),
            None => Ok((host, addresses)),
        }
    }
}

/// `host`, or `host:port`.
fn covers(entry: &str, host: &str, with_port: &str) -> bool {
    entry.eq_ignore_ascii_case(host) || entry.eq_ignore_ascii_case(with_port)
}

fn host_of(url: &Url) -> String {
    url.host_str().unwrap_or_default().trim_end_matches('.').to_ascii_lowercase()
}

/// Host and port, the port always written.
pub fn shown(url: &Url) -> String {
    format!("{}:{}", host_of(url), url.port_or_known_default().unwrap_or(0))
}

/// Whether a person has named this host in a list of hosts.
pub fn is_named(url: &Url, hosts: &[String]) -> bool {
    hosts.iter().any(|it| covers(it, &host_of(url), &shown(url)))
}

/// A final dot is dropped: `a.example.` is the same host as `a.example` and would be looked up a
/// second time under its other name.
fn normalise(url: &mut Url) -> Result<(), WebError> {
    let Some(host) = url.host_str().filter(|it| it.ends_with('.')) else { return Ok(()) };
    let host = host.trim_end_matches('.').to_owned();
    let bad = WebError::BadUrl { url: url.to_string(), why: "this is not a name of a host" };
    if host.is_empty() || url.set_host(Some(&host)).is_err() { Err(bad) } else { Ok(()) }
}

/// Where a redirect leads.
fn target(from: &Url, location: &HeaderValue) -> Result<Url, WebError> {
    let text = String::from_utf8_lossy(location.as_bytes()).into_owned();
    let mut next = from.join(&text).map_err(|_| WebError::BadRedirect { to: text, why: "it is not an address" })?;
    normalise(&mut next)?;
    Ok(next)
}

/// What the next hop no longer carries.
fn redirect(wanted: &mut Wanted, status: u16, next: Url) -> Result<(), WebError> {
    let bad = |why| WebError::BadRedirect { to: next.to_string(), why };
    if wanted.url.scheme() == "https" && next.scheme() != "https" {
        return Err(bad("it leads from https to something weaker"));
    }
    if shown(&next) != shown(&wanted.url) {
        for name in [AUTHORIZATION, COOKIE, PROXY_AUTHORIZATION] {
            wanted.headers.remove(name);
        }
    }
    wanted.headers.remove(HOST);
    // 307 and 308 keep the method by definition; a body is not sent to a host that was not asked
    // about.
    if matches!(status, 307 | 308) && wanted.body.is_some() && shown(&next) != shown(&wanted.url) {
        return Err(bad("a body is not sent on to another host"));
    }
    if !matches!(status, 307 | 308) && wanted.method != Method::HEAD {
        wanted.method = Method::GET;
        wanted.body = None;
        wanted.headers.remove(CONTENT_LENGTH);
    }
    wanted.url = next;
    Ok(())
}

/// The body up to `limit` bytes; the rest stays unread.
async fn read(url: &Url, response: &mut reqwest::Response, limit: usize) -> Result<Fetched, WebError> {
    let mut body = Vec::new();
    let mut truncated = false;
    loop {
        let chunk = response.chunk().await;
        let chunk = chunk.map_err(|fault| WebError::NoAnswer { host: shown(url), why: reason(&fault) })?;
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

/// Why the certificate of the other end was refused, when that is what happened.
fn distrust(fault: &reqwest::Error) -> Option<String> {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(fault);
    while let Some(now) = cause {
        if let Some(rustls::Error::InvalidCertificate(why)) = now.downcast_ref() {
            return Some(why.to_string());
        }
        // What an error of the system wraps is not among its sources, and may be another one.
        let wrapped = now.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        cause = wrapped.map(|it| it as &(dyn std::error::Error + 'static)).or_else(|| now.source());
    }
    None
}

/// The last cause says what happened; the address is not repeated, it may carry data.
fn reason(fault: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = fault;
    while let Some(next) = cause.source() {
        cause = next;
    }
    if std::ptr::eq(cause, fault) { "the request could not be made".to_owned() } else { cause.to_string() }
}

#[cfg(test)]
mod tests;
