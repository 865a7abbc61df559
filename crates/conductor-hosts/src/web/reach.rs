//! Decides which hosts a request may reach. Not here: name lookup and connections.

use super::error::WebError;
use std::net::{IpAddr, SocketAddr};
use url::Url;

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
    /// Checks a URL before its host is resolved. Returns the host and the port.
    pub fn admit(&self, url: &Url) -> Result<(String, u16), WebError> {
        let bad = |why| WebError::BadUrl { url: url.to_string(), why };
        if !url.username().is_empty() || url.password().is_some() {
            return Err(bad("an address must not contain a user name or password"));
        }
        let host = host_of(url);
        let plain = match url.scheme() {
            "https" => false,
            "http" => true,
            _ => return Err(bad("only http and https are supported")),
        };
        let port = url.port_or_known_default().ok_or_else(|| bad("no port"))?;
        if self.only.as_ref().is_some_and(|only| !is_named(url, only)) {
            return Err(WebError::NotGranted { host });
        }
        if plain && !is_named(url, &self.http_hosts) {
            return Err(WebError::NeedsTls { host });
        }
        Ok((host, port))
    }

    /// Checks all addresses of the host. A private address needs an entry with the exact host and
    /// port, because other services may listen on the same host.
    pub fn admit_addresses(
        &self,
        url: &Url,
        addresses: &[SocketAddr],
        public: fn(IpAddr) -> bool,
    ) -> Result<(), WebError> {
        let host = host_of(url);
        if addresses.is_empty() {
            return Err(WebError::NoAddress { host, why: "no address was found".to_owned() });
        }
        let is_allowed = self.allow_hosts.contains(&host_and_port(url));
        match addresses.iter().find(|it| !is_allowed && !public(it.ip())) {
            Some(private) => Err(WebError::Private { host, address: private.ip() }),
            None => Ok(()),
        }
    }

    /// Whether a redirect may be followed: only to the same host and port, from HTTP to HTTPS on
    /// the same host, or to a host that a person named.
    pub fn follows(&self, from: &Url, to: &Url) -> bool {
        let named = self.only.as_ref().unwrap_or(&self.allow_hosts);
        // Whether the redirect leads from HTTP to HTTPS on the same host. Both must have their
        // default ports.
        let safer = (from.scheme(), to.scheme()) == ("http", "https")
            && host_of(from) == host_of(to)
            && from.port().is_none()
            && to.port().is_none();
        host_and_port(from) == host_and_port(to) || safer || is_named(to, named)
    }
}

/// Whether an entry `host` or `host:port` names this host.
pub fn covers(entry: &str, host: &str, with_port: &str) -> bool {
    entry.eq_ignore_ascii_case(host) || entry.eq_ignore_ascii_case(with_port)
}

pub fn host_of(url: &Url) -> String {
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
pub fn normalise(url: &mut Url) -> Result<(), WebError> {
    let Some(host) = url.host_str().filter(|it| it.ends_with('.')) else { return Ok(()) };
    let host = host.trim_end_matches('.').to_owned();
    let bad = WebError::BadUrl { url: url.to_string(), why: "this is not a host name" };
    if host.is_empty() || url.set_host(Some(&host)).is_err() { Err(bad) } else { Ok(()) }
}
