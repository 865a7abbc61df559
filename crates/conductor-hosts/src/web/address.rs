//! Decides which addresses are on the public internet. All other addresses are private or reserved,
//! or embed another address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Whether an address is on the public internet, according to the registries of special-purpose
/// addresses (RFC 6890 and its successors). IPv6 addresses that contain an IPv4 address are never
/// public.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(it) => is_public_v4(it),
        IpAddr::V6(it) => is_public_v6(it),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    !(a == 0
        || address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_documentation()
        // The next ranges are provider networks, protocol assignments, 6to4 relays, benchmarks, and
        // multicast and reserved addresses.
        || (a == 100 && (64..128).contains(&b))
        || (a == 192 && b == 0 && c == 0)
        || (a == 192 && b == 88 && c == 99)
        || (a == 198 && (b == 18 || b == 19))
        || a >= 224)
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let [a, b, c, d, e, f, ..] = address.segments();
    // Public addresses are in 2000::/3 (global unicast), except the following ranges.
    (0x2000..0x4000).contains(&a)
        && !(a == 0x2001 && b < 0x0200)
        && !(a == 0x2001 && b == 0x0db8)
        && a != 0x2002
        && !(a == 0x3fff && b < 0x1000)
        // Interface identifiers that embed an IPv4 address (ISATAP).
        && !((e == 0 || e == 0x0200) && f == 0x5efe)
        && (c, d) != (0xffff, 0xffff)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_not_public() {
        for text in [
            "127.0.0.1",
            "127.255.0.9",
            "0.0.0.0",
            "10.1.2.3",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "192.0.0.8",
            "198.18.0.1",
            "224.0.0.1",
            "239.1.1.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:8.8.8.8",
            "::127.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b::808:808",
            "64:ff9b:1::1",
            "fe80::1",
            "fec0::1",
            "fc00::1",
            "fd00:ec2::254",
            "ff02::1",
            "2001:db8::1",
            "2001::1",
            "2002:7f00:1::",
            "100::1",
        ] {
            assert!(!is_public(text.parse().unwrap()), "{text}");
        }
        for text in
            ["1.1.1.1", "8.8.8.8", "93.184.216.34", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "2a00:1450:4001::1"]
        {
            assert!(is_public(text.parse().unwrap()), "{text}");
        }
    }

    proptest! {
        #[test]
        fn nothing_the_standard_library_calls_local_is_public(bits in any::<u32>(), wide in any::<u128>()) {
            let four = Ipv4Addr::from_bits(bits);
            prop_assert!(!((four.is_loopback() || four.is_private() || four.is_link_local() || four.is_multicast()
                || four.is_broadcast() || four.is_unspecified()) && is_public(four.into())));
            for carrier in [four.to_ipv6_mapped(), four.to_ipv6_compatible()] {
                prop_assert!(!is_public(carrier.into()), "{}", carrier);
            }
            let six = Ipv6Addr::from_bits(wide);
            prop_assert!(!((six.is_loopback() || six.is_unique_local() || six.is_unicast_link_local() || six.is_multicast())
                && is_public(six.into())));
        }
    }
}
