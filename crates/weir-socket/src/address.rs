// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The bytes of `sockaddr_in` and `sockaddr_in6`.
//!
//! An IPv4-mapped address of an IPv6 socket is an [`IpAddr::V4`] inside the crate.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::abi::{AF_INET, AF_INET6};

/// The length of `struct sockaddr_in` in bytes.
pub const LEN_V4: usize = 16;
/// The length of `struct sockaddr_in6` in bytes.
pub const LEN_V6: usize = 28;
/// The least length of an IPv6 address, without the scope id (`SIN6_LEN_RFC2133`).
pub const LEAST_V6: usize = 24;

/// An address and a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Address {
    /// The address.
    pub ip: IpAddr,
    /// The port, or the identifier of a ping socket.
    pub port: u16,
    /// IPv6: the index of the link, or 0.
    pub scope: u32,
    /// IPv6: traffic class and flow label, as in the header.
    pub flow: u32,
}

impl Address {
    /// The unspecified address of a family.
    pub const fn any(ipv6: bool) -> Self {
        Self {
            ip: match ipv6 {
                true => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
                false => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            },
            port: 0,
            scope: 0,
            flow: 0,
        }
    }

    /// Makes an address without a scope.
    pub const fn new(ip: IpAddr, port: u16) -> Self {
        Self {
            ip,
            port,
            scope: 0,
            flow: 0,
        }
    }
}

/// Returns the address family.
pub fn family(bytes: &[u8]) -> Option<u16> {
    bytes
        .first_chunk()
        .map(|family| u16::from_ne_bytes(*family))
}

/// Reads a `sockaddr_in`, whatever family it claims. Returns `None` if it is too short.
pub fn read_v4(bytes: &[u8]) -> Option<Address> {
    let &[_, _, a, b, c, d, e, f, ..] = bytes.first_chunk::<LEN_V4>()?;
    Some(Address::new(
        Ipv4Addr::new(c, d, e, f).into(),
        u16::from_be_bytes([a, b]),
    ))
}

/// Reads a `sockaddr_in6`, whatever family it claims. Returns `None` if it is too short.
pub fn read_v6(bytes: &[u8]) -> Option<Address> {
    let head = bytes.first_chunk::<LEAST_V6>()?;
    let flow = u32::from_be_bytes(*head.get(4..8)?.first_chunk()?);
    let ip = Ipv6Addr::from(*head.get(8..24)?.first_chunk::<16>()?);
    let scope = match bytes.get(24..28).and_then(|bytes| bytes.first_chunk()) {
        Some(scope) => u32::from_ne_bytes(*scope),
        None => 0,
    };
    Some(Address {
        ip: unmapped(ip),
        port: u16::from_be_bytes([head[2], head[3]]),
        scope,
        flow,
    })
}

/// Returns an IPv6 address, or the IPv4 address that it stands for.
pub fn unmapped(ip: Ipv6Addr) -> IpAddr {
    match ip.to_ipv4_mapped() {
        Some(mapped) => mapped.into(),
        None => ip.into(),
    }
}

/// Returns the bytes of an address in IPv6 form.
pub fn mapped(ip: IpAddr) -> Ipv6Addr {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    }
}

/// The bytes of an address, in memory of its own.
#[derive(Debug, Clone, Copy)]
pub struct Bytes([u8; LEN_V6], usize);

impl Bytes {
    /// Returns the bytes.
    pub fn get(&self) -> &[u8] {
        self.0.get(..self.1).unwrap_or_default()
    }
}

/// Writes an address for a socket of a family.
pub fn write(ipv6: bool, address: &Address) -> Bytes {
    let mut bytes = [0; LEN_V6];
    let mut put = |at: usize, part: &[u8]| {
        if let Some(place) = bytes.get_mut(at..at + part.len()) {
            place.copy_from_slice(part);
        }
    };
    put(2, &address.port.to_be_bytes());
    match (ipv6, address.ip) {
        (false, IpAddr::V4(ip)) => {
            put(0, &AF_INET.to_ne_bytes());
            put(4, &ip.octets());
            Bytes(bytes, LEN_V4)
        }
        (_, ip) => {
            put(0, &AF_INET6.to_ne_bytes());
            put(4, &address.flow.to_be_bytes());
            put(8, &mapped(ip).octets());
            put(24, &address.scope.to_ne_bytes());
            Bytes(bytes, LEN_V6)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_they_are_written() {
        let v6 = Address {
            ip: "fe80::1".parse().unwrap(),
            port: 53,
            scope: 7,
            flow: 0x123,
        };
        assert_eq!(read_v6(write(true, &v6).get()), Some(v6));
        assert_eq!(read_v6(&write(true, &v6).get()[..24]).unwrap().scope, 0);
        assert_eq!(read_v6(&write(true, &v6).get()[..23]), None);
        let v4 = Address::new([10, 0, 0, 1].into(), 80);
        assert_eq!(read_v4(write(false, &v4).get()), Some(v4));
        assert_eq!(read_v4(&write(false, &v4).get()[..15]), None);
        let both = write(true, &v4);
        assert_eq!(both.get().len(), LEN_V6);
        assert_eq!(read_v6(both.get()), Some(v4));
    }
}
