//! Sends HTTP requests to the public internet, and to private addresses only if a person has named
//! the exact host and port.
//!
//! A host name is resolved once, all its addresses are checked, and the connection uses a checked
//! address, so that a later change of the name has no effect. Redirects are checked in the same
//! way; a redirect to another host that no person has named is not followed. Proxy settings of the
//! environment are not used, and no cookies or connections are kept. Not here: approval by a
//! person.

mod address;
mod error;
mod reach;

pub use address::is_public;
pub use error::WebError;
pub use reach::{Reach, host_and_port, is_named};

use arc_swap::ArcSwap;
use conductor_core::config;
use error::REDIRECTS;
use futures_util::future::BoxFuture;
use http::header::{AUTHORIZATION, CONTENT_LENGTH, COOKIE, HOST, LOCATION, PROXY_AUTHORIZATION};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use reach::{covers, host_of, normalise};
use reqwest::Url;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

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
    /// Headers with secrets. For the first request and for each redirect, a secret is sent only if
    /// the host is one of the secret's hosts.
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

#[derive(Debug)]
pub struct Fetched {
    pub url: Url,
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
    pub truncated: bool,
}

/// A TLS configuration that trusts the certificates of the system. If the system has no certificate
/// authorities, this function still succeeds, but all TLS connections fail with that reason.
pub fn system_tls() -> Result<rustls::ClientConfig, rustls::Error> {
    use rustls_platform_verifier::BuilderVerifierExt as _;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        rustls::ClientConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions()?;
    let builder = match builder.clone().with_platform_verifier() {
        Ok(trusting) => trusting,
        Err(reason) => {
            let refuse = RefuseAll { reason: reason.to_string(), provider };
            builder.dangerous().with_custom_certificate_verifier(Arc::new(refuse))
        }
    };
    Ok(builder.with_no_client_auth())
}

/// Refuses every server, because no certificate authority of the system could be read.
#[derive(Debug)]
struct RefuseAll {
    reason: String,
    provider: Arc<rustls::crypto::CryptoProvider>,
}

impl RefuseAll {
    fn error(&self) -> rustls::Error {
        let why = format!("this machine has no certificate authorities ({}); install ca-certificates", self.reason);
        rustls::CertificateError::Other(rustls::OtherError(Arc::new(io::Error::other(why)))).into()
    }
}

impl rustls::client::danger::ServerCertVerifier for RefuseAll {
    fn verify_server_cert(
        &self,
        _end_entity: &rustls::pki_types::CertificateDer<'_>,
        _intermediates: &[rustls::pki_types::CertificateDer<'_>],
        _server_name: &rustls::pki_types::ServerName<'_>,
        _ocsp_response: &[u8],
        _now: rustls::pki_types::UnixTime,
    ) -> Result<rustls::client::danger::ServerCertVerified, rustls::Error> {
        Err(self.error())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &rustls::pki_types::CertificateDer<'_>,
        _dss: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        Err(self.error())
    }

    fn verify_tls13_signature(
        &self,
        _message: &[u8],
        _cert: &rustls::pki_types::CertificateDer<'_>,
        _dss: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        Err(self.error())
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
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

    /// Sends a request and follows redirects. Each target of a redirect is checked like the first
    /// address. The time limit applies to all redirects together.
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
            None if error.is_connect() || error.is_builder() => WebError::NoAnswer { host, why: reason(&error) },
            None => WebError::Lost { host, why: reason(&error) },
        })
    }

    /// Checks a URL before any connection. Returns the host and its addresses.
    async fn checked(&self, url: &Url, reach: &Reach) -> Result<(String, Vec<SocketAddr>), WebError> {
        let (host, port) = reach.admit(url)?;
        let addresses = match host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
            Ok(address) => vec![SocketAddr::new(address, port)],
            Err(_) => {
                let found = self.lookup.addresses(host.clone(), port).await;
                found.map_err(|error| WebError::NoAddress { host: host.clone(), why: error.to_string() })?
            }
        };
        reach.admit_addresses(url, &addresses, self.public)?;
        Ok((host, addresses))
    }
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
        let chunk = chunk.map_err(|error| WebError::Lost { host: host_and_port(url), why: reason(&error) })?;
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
            let other = if let rustls::CertificateError::Other(other) = why { Some(other) } else { None };
            return Some(other.map_or_else(|| why.to_string(), |it| it.0.to_string()));
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
