//! Which addresses lie in the open net: everything that the IANA special-purpose registries do not keep for something else.
//!
//! In: an address. Out: whether a request that somebody else asked for may go there. In doubt it may not.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Blocks of IPv4 that are not the open net: the IANA special-purpose registry, multicast and what is reserved.
const SPECIAL: &[(Ipv4Addr, u32)] = &[
    (Ipv4Addr::new(0, 0, 0, 0), 8),
    (Ipv4Addr::new(10, 0, 0, 0), 8),
    (Ipv4Addr::new(100, 64, 0, 0), 10),
    (Ipv4Addr::new(127, 0, 0, 0), 8),
    (Ipv4Addr::new(169, 254, 0, 0), 16),
    (Ipv4Addr::new(172, 16, 0, 0), 12),
    (Ipv4Addr::new(192, 0, 0, 0), 24),
    (Ipv4Addr::new(192, 0, 2, 0), 24),
    (Ipv4Addr::new(192, 31, 196, 0), 24),
    (Ipv4Addr::new(192, 52, 193, 0), 24),
    (Ipv4Addr::new(192, 88, 99, 0), 24),
    (Ipv4Addr::new(192, 168, 0, 0), 16),
    (Ipv4Addr::new(192, 175, 48, 0), 24),
    (Ipv4Addr::new(198, 18, 0, 0), 15),
    (Ipv4Addr::new(198, 51, 100, 0), 24),
    (Ipv4Addr::new(203, 0, 113, 0), 24),
    (Ipv4Addr::new(224, 0, 0, 0), 4),
    (Ipv4Addr::new(240, 0, 0, 0), 4),
];

/// Blocks within the global unicast of IPv6, 2000::/3, that are not the open net: protocol assignments with Teredo, documentation,
/// 6to4, which leads to whatever IPv4 address it holds, and AS112.
const SPECIAL_6: &[(Ipv6Addr, u32)] = &[
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23),
    (Ipv6Addr::new(0x2001, 0x0db8, 0, 0, 0, 0, 0, 0), 32),
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16),
    (Ipv6Addr::new(0x2620, 0x004f, 0x8000, 0, 0, 0, 0, 0), 48),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20),
];

/// Whether the address is globally routable.
pub(super) fn is_open(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => is_open_v4(v4),
        IpAddr::V6(v6) => is_open_v6(v6),
    }
}

fn is_open_v4(address: Ipv4Addr) -> bool {
    let bits = u32::from(address);
    SPECIAL.iter().all(|(block, len)| (bits ^ u32::from(*block)) >> (32 - len) != 0)
}

fn is_open_v6(address: Ipv6Addr) -> bool {
    // IPv4 in the dress of IPv6: what it leads to counts.
    if let Some(v4) = address.to_ipv4_mapped().or_else(|| translated(address)) {
        return is_open_v4(v4);
    }
    let bits = u128::from(address);
    let is_unicast = bits >> 125 == 1;
    is_unicast && SPECIAL_6.iter().all(|(block, len)| (bits ^ u128::from(*block)) >> (128 - len) != 0)
}

/// What 64:ff9b::/96 (NAT64) translates to.
fn translated(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let [prefix @ .., a, b] = address.segments();
    (prefix == [0x64, 0xff9b, 0, 0, 0, 0]).then(|| Ipv4Addr::from(u32::from(a) << 16 | u32::from(b)))
}

#[cfg(test)]
mod tests {
    use super::is_open;

    #[test]
    fn only_the_open_net_is_open_in_whatever_dress() {
        for open in ["1.1.1.1", "8.8.8.8", "172.32.0.1", "100.128.0.1", "192.0.1.1", "223.255.255.255", "2606:4700::1"]
        {
            assert!(is_open(open.parse().unwrap()), "{open}");
        }
        for open in ["::ffff:1.1.1.1", "64:ff9b::808:808", "2a00:1450::1", "2001:200::1", "2620:4f:8001::"] {
            assert!(is_open(open.parse().unwrap()), "{open}");
        }
        for shut in [
            "0.0.0.0",
            "0.1.2.3",
            "10.255.0.1",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "127.8.8.8",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.8",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.1",
            "203.0.113.9",
            "224.0.0.1",
            "239.1.1.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::7f00:1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "::ffff:0:1.1.1.1",
            "64:ff9b::a00:1",
            "64:ff9b::7f00:1",
            "64:ff9b:1::101:101",
            "100::1",
            "2001::1",
            "2001:10::1",
            "2001:1ff::1",
            "2001:db8::1",
            "2002:7f00:1::",
            "2002:101:101::1",
            "3fff::1",
            "5f00::1",
            "fc00::1",
            "fd12::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "4000::1",
        ] {
            assert!(!is_open(shut.parse().unwrap()), "{shut}");
        }
    }
}
