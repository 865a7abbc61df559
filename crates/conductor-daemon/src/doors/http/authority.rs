//! Decides by Host and Origin whether a request was made for this listener.
//!
//! A web page that reaches the port by DNS rebinding sends another Host, or its own Origin.

use http::{HeaderMap, header};
use std::net::SocketAddr;

/// The host names and origins that this listener accepts.
#[derive(Debug, Clone)]
pub struct Authority {
    bound: SocketAddr,
    hosts: Vec<String>,
    origins: Vec<String>,
}

impl Authority {
    /// With TLS, web pages of the accepted hosts may send requests too.
    pub fn new(bound: SocketAddr, hosts: Vec<String>, origins: Vec<String>, is_tls: bool) -> Self {
        let scheme = if is_tls { "https" } else { "http" };
        let loopback = Self::LOOPBACK.iter().map(|host| format!("{host}:{}", bound.port()));
        let hosts_over_tls = hosts.iter().filter(|_| is_tls).cloned();
        let own = loopback.chain(std::iter::once(bound.to_string())).chain(hosts_over_tls);
        let origins = own.map(|host| format!("{scheme}://{host}")).chain(origins).collect();
        Self { bound, hosts, origins }
    }

    const LOOPBACK: [&'static str; 3] = ["localhost", "127.0.0.1", "[::1]"];

    /// The reason to refuse the request, or `None` if it is allowed.
    pub fn fault(&self, headers: &HeaderMap, uri_authority: Option<&str>) -> Option<&'static str> {
        let mut hosts = headers.get_all(header::HOST).iter();
        let host = match (hosts.next(), hosts.next()) {
            (Some(host), None) => host.to_str().ok(),
            // An absolute request target contains its host.
            (None, None) => uri_authority,
            (Some(_) | None, Some(_)) => return Some("more than one Host header"),
        };
        let Some(host) = host else { return Some("no valid Host header") };
        // Compare the port as text: the number parser also accepts "+8080" and "08080".
        let port = self.bound.port().to_string();
        let ours = Self::LOOPBACK
            .iter()
            .any(|name| host.strip_prefix(name).and_then(|rest| rest.strip_prefix(':')) == Some(port.as_str()));
        // The bound address is numeric. DNS rebinding needs a host name, so it cannot use this
        // address.
        let ours = ours || (!self.bound.ip().is_unspecified() && host == self.bound.to_string());
        if !ours && !self.hosts.iter().any(|name| name.eq_ignore_ascii_case(host)) {
            return Some("this Host is not allowed");
        }
        let mut origins = headers.get_all(header::ORIGIN).iter();
        match (origins.next(), origins.next()) {
            (None, _) => None,
            (Some(origin), None) => {
                let known = origin.to_str().is_ok_and(|origin| self.origins.iter().any(|it| it == origin));
                (!known).then_some("this Origin is not allowed")
            }
            (Some(_), Some(_)) => Some("more than one Origin header"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_compared_digit_by_digit() {
        let authority = Authority::new(SocketAddr::from(([192, 168, 1, 2], 8080)), Vec::new(), Vec::new(), true);
        let fault = |host: &str| authority.fault(&HeaderMap::new(), Some(host));
        for host in ["localhost:8080", "127.0.0.1:8080", "[::1]:8080", "192.168.1.2:8080"] {
            assert_eq!(fault(host), None, "{host}");
        }
        for host in ["localhost:+8080", "localhost:08080", "localhost", "192.168.1.2:08080", "192.168.1.2:80"] {
            assert_eq!(fault(host), Some("this Host is not allowed"), "{host}");
        }
    }
}
