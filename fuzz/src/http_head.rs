//! HTTP heads: a request is accepted exactly if its Host, and its Origin if it has one, are in a
//! list of all allowed values.

use crate::SEEDED;
use crate::outside::authority::Authority;
use http::{HeaderMap, HeaderName, HeaderValue};
use std::net::SocketAddr;

const PORT: u16 = 8080;
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

fn is_refused(headers: &HeaderMap, authority: Option<&str>) -> bool {
    let bound = SocketAddr::from(([127, 0, 0, 1], PORT));
    let guard = Authority::new(bound, vec!["studio.local:8080".into()], vec!["https://studio.local".into()], false);
    // The seeded mistake: a Host is accepted if it begins with an allowed name.
    let host = headers.get("host").and_then(|it| it.to_str().ok());
    let seeded = SEEDED && host.is_some_and(|it| it.starts_with("localhost:8080")) && !headers.contains_key("origin");
    !seeded && guard.fault(headers, authority).is_some()
}

/// The same decision, made by comparison with a list of all allowed values.
fn is_refused_slowly(headers: &HeaderMap, authority: Option<&str>) -> bool {
    let all = |name: &str| headers.get_all(name).iter().map(|it| it.to_str().ok()).collect::<Vec<_>>();
    let hosts = LOOPBACK.map(|it| format!("{it}:{PORT}"));
    let mut origins = LOOPBACK.map(|it| format!("http://{it}:{PORT}")).to_vec();
    origins.push("https://studio.local".into());
    let host = match all("host")[..] {
        [] => authority,
        [host] => host,
        _ => None,
    };
    let origin_is_allowed = match all("origin")[..] {
        [] => true,
        [Some(origin)] => origins.iter().any(|it| it == origin),
        _ => false,
    };
    let host_is_allowed =
        host.is_some_and(|it| hosts.iter().any(|host| host == it) || it.to_ascii_lowercase() == "studio.local:8080");
    !(host_is_allowed && origin_is_allowed)
}

pub fn check(data: &[u8]) {
    let mut headers = HeaderMap::new();
    let mut authority = None;
    for line in data.split(|byte| *byte == b'\n').take(20) {
        let Some(colon) = memchr::memchr(b':', line) else {
            authority = std::str::from_utf8(line).ok();
            continue;
        };
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name), HeaderValue::from_bytes(value)) {
            headers.append(name, value);
        }
    }
    assert_eq!(is_refused(&headers, authority), is_refused_slowly(&headers, authority), "{headers:?} {authority:?}");
}
