//! The URL guard: a request is allowed exactly if a slow reference allows it. The reference uses
//! network masks; the product compares parts of addresses.

use crate::SEEDED;
use crate::outside::address::is_public;
use crate::outside::reach::{Reach, normalise};
use std::net::{IpAddr, SocketAddr};
use url::Url;

/// Networks that are not the public internet, with the length of their masks.
const PRIVATE_V4: [(&str, u32); 16] = [
    ("0.0.0.0", 8),
    ("10.0.0.0", 8),
    ("100.64.0.0", 10),
    ("127.0.0.0", 8),
    ("169.254.0.0", 16),
    ("172.16.0.0", 12),
    ("192.0.0.0", 24),
    ("192.0.2.0", 24),
    ("192.88.99.0", 24),
    ("192.168.0.0", 16),
    ("198.18.0.0", 15),
    ("198.51.100.0", 24),
    ("203.0.113.0", 24),
    ("224.0.0.0", 4),
    ("240.0.0.0", 4),
    ("255.255.255.255", 32),
];
const PRIVATE_V6: [(&str, u32); 4] = [("2001::", 23), ("2001:db8::", 32), ("2002::", 16), ("3fff::", 20)];

fn is_in(address: u128, network: u128, bits: u32, mask: u32) -> bool {
    (address ^ network) >> (bits - mask) == 0
}

fn is_public_slowly(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(it) => {
            let it = u128::from(u32::from(it));
            PRIVATE_V4.iter().all(|(network, mask)| {
                let network = u128::from(u32::from(network.parse::<std::net::Ipv4Addr>().expect("an address")));
                !is_in(it, network, 32, *mask)
            })
        }
        IpAddr::V6(it) => {
            let bits = u128::from(it);
            let embeds_v4 = matches!((bits >> 32) as u32, 0x0000_5efe | 0x0200_5efe);
            bits >> 125 == 1
                && !embeds_v4
                && (bits >> 64) as u32 != u32::MAX
                && PRIVATE_V6.iter().all(|(network, mask)| {
                    !is_in(bits, u128::from(network.parse::<std::net::Ipv6Addr>().expect("an address")), 128, *mask)
                })
        }
    }
}

fn is_public_here(address: IpAddr) -> bool {
    // The seeded mistake: the network 100.0.0.0/8 counts as public.
    let seeded = SEEDED && matches!(address, IpAddr::V4(it) if it.octets()[0] == 100);
    seeded || is_public(address)
}

fn reach() -> Reach {
    Reach {
        allow_hosts: vec!["studio.local:8443".into(), "127.0.0.1:9000".into()],
        http_hosts: vec!["plain.example".into(), "127.0.0.1:9000".into()],
        only: None,
    }
}

/// Input: one byte that selects IPv4 or IPv6, sixteen bytes with the address, and a URL.
pub fn check(data: &[u8]) {
    let Some((head, text)) = data.split_first_chunk::<17>() else { return };
    let resolved: IpAddr = if head[0] % 2 == 0 {
        IpAddr::from([head[1], head[2], head[3], head[4]])
    } else {
        IpAddr::from(<[u8; 16]>::try_from(&head[1..]).expect("sixteen bytes"))
    };
    assert_eq!(is_public_here(resolved), is_public_slowly(resolved), "{resolved}");
    let Some(mut url) = std::str::from_utf8(text).ok().and_then(|it| Url::parse(it).ok()) else { return };
    if normalise(&mut url).is_err() {
        return;
    }
    let reach = reach();
    let literal = match url.host() {
        Some(url::Host::Ipv4(it)) => Some(IpAddr::V4(it)),
        Some(url::Host::Ipv6(it)) => Some(IpAddr::V6(it)),
        Some(url::Host::Domain(_)) | None => None,
    };
    let address = literal.unwrap_or(resolved);
    let allowed = reach
        .admit(&url)
        .is_ok_and(|(_, port)| reach.admit_addresses(&url, &[SocketAddr::new(address, port)], is_public_here).is_ok());
    let host = url.host_str().unwrap_or_default().to_ascii_lowercase();
    let port = url.port_or_known_default();
    let is_here = |name: &str, at: u16| host == name && port == Some(at);
    let scheme = match url.scheme() {
        "https" => true,
        "http" => host == "plain.example" || is_here("127.0.0.1", 9000),
        _ => false,
    };
    let named = is_here("studio.local", 8443) || is_here("127.0.0.1", 9000);
    let expected =
        scheme && url.username().is_empty() && url.password().is_none() && (named || is_public_slowly(address));
    assert_eq!(allowed, expected, "{url} at {address}");
    assert!(reach.follows(&url, &url), "a redirect to the same address is refused: {url}");
}
