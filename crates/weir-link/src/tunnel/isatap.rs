// SPDX-License-Identifier: Apache-2.0 OR MIT
//! IPv4 addresses in IPv6 addresses, and the potential routers of ISATAP (RFC 3056, RFC 5214).

use std::net::{Ipv4Addr, Ipv6Addr};

/// `SIT_ISATAP`
pub(crate) const ISATAP: u16 = 1;
/// `PRL_DEFAULT`
pub(crate) const PRL_DEFAULT: u16 = 1;

/// A potential router of ISATAP (`struct ip_tunnel_prl_entry`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Router {
    /// Its outer address.
    pub address: Ipv4Addr,
    /// `PRL_DEFAULT`, and whatever else a request has set.
    pub flags: u16,
}

/// Returns the IPv4 address in an address of 6to4 (`check_6rd`).
pub(crate) fn in_6to4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let [0x20, 0x02, a, b, c, d, ..] = address.octets() else {
        return None;
    };
    Some(Ipv4Addr::new(a, b, c, d))
}

/// Returns the IPv4 address in an address of ISATAP (`ipv6_addr_is_isatap`).
pub(crate) fn in_isatap(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let low = u128::from(address) as u64;
    (low >> 32 | 0x0200_0000 == 0x0200_5efe).then(|| Ipv4Addr::from(low as u32))
}

/// Returns the IPv4 address in the IPv6 address of a next hop, for a tunnel of ISATAP or another one, or 0.0.0.0.
pub(crate) fn embedded(next_hop: Ipv6Addr, isatap: bool) -> Ipv4Addr {
    let found = match isatap {
        true => in_isatap(next_hop).filter(|_| !next_hop.is_multicast()),
        // IPv4-compatible.
        false => Some(u128::from(next_hop))
            .filter(|address| (2..1 << 32).contains(address))
            .map(|address| Ipv4Addr::from(address as u32)),
    };
    found.unwrap_or(Ipv4Addr::UNSPECIFIED)
}
