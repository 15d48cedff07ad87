// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Control messages: reading those of a program (`ip_cmsg_send`, `ip6_datagram_send_ctl`, `udp_cmsg_send`,
//! `__sock_cmsg_send`), and writing those of a received datagram (`put_cmsg`).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weir_netlink::errno;

use crate::abi::{SOL_IP, SOL_IPV6, SOL_SOCKET, SOL_UDP, ip, ipv6, so, udp};
use crate::address::unmapped;

/// The length of `struct cmsghdr` in bytes.
const HEADER: usize = 16;
/// `SCM_RIGHTS` and `SCM_CREDENTIALS`, which sockets of the internet ignore.
const IGNORED: [i32; 2] = [1, 2];
const SCM_TXTIME: i32 = 61;

/// What a program chooses for one datagram.
#[derive(Debug, Clone, Copy, Default)]
pub struct Choice {
    /// The outgoing device.
    pub oif: u32,
    /// The source address.
    pub src: Option<IpAddr>,
    /// The time to live or hop limit; IPv6: -1 is the default.
    pub ttl: Option<i32>,
    /// The type of service or traffic class; IPv6: -1 is the default.
    pub tos: Option<i32>,
    /// Firewall mark.
    pub mark: Option<u32>,
    /// The payload of each datagram that the data are split into (`UDP_SEGMENT`).
    pub segment: Option<u16>,
    /// The packet must not be fragmented (`IPV6_DONTFRAG`).
    pub dontfrag: Option<bool>,
    /// The flow label.
    pub flow: Option<u32>,
}

/// Walks over control messages as (level, type, data). A message with an impossible length ends the walk with EINVAL.
fn each(control: &[u8]) -> impl Iterator<Item = Result<(i32, i32, &[u8]), i32>> {
    let mut rest = control;
    std::iter::from_fn(move || {
        let header = rest.first_chunk::<HEADER>()?;
        let [len @ .., a, b, c, d, e, f, g, h] = *header;
        let len = usize::from_ne_bytes(len);
        let message = match rest.get(HEADER..len) {
            Some(data) if len >= HEADER => Ok((
                i32::from_ne_bytes([a, b, c, d]),
                i32::from_ne_bytes([e, f, g, h]),
                data,
            )),
            _ => Err(errno::EINVAL),
        };
        rest = match message {
            Ok(_) => rest.get(len.next_multiple_of(8)..).unwrap_or_default(),
            Err(_) => &[],
        };
        Some(message)
    })
}

fn int(data: &[u8]) -> Result<i32, i32> {
    let exact = data.first_chunk().filter(|_| data.len() == 4);
    exact.map(|b| i32::from_ne_bytes(*b)).ok_or(errno::EINVAL)
}

/// Reads the control messages of a program's datagram. `on_v6` says that the socket is an IPv6 socket, `to_v6` that the
/// datagram goes over IPv6.
///
/// # Errors
/// EINVAL for a message that is unknown or has a wrong length or value.
pub fn read(control: &[u8], on_v6: bool, to_v6: bool) -> Result<Choice, i32> {
    let mut choice = Choice::default();
    for message in each(control) {
        let (level, ty, data) = message?;
        match level {
            SOL_SOCKET => match ty {
                so::MARK => choice.mark = Some(int(data)? as u32),
                so::TIMESTAMPING_OLD => drop(int(data)?),
                SCM_TXTIME => return Err(errno::EINVAL),
                _ if IGNORED.contains(&ty) => {}
                _ => return Err(errno::EINVAL),
            },
            SOL_UDP if ty == udp::SEGMENT => {
                let exact = data.first_chunk().filter(|_| data.len() == 2);
                choice.segment = Some(u16::from_ne_bytes(*exact.ok_or(errno::EINVAL)?));
            }
            SOL_UDP => return Err(errno::EINVAL),
            SOL_IP if !to_v6 => read_ip(&mut choice, ty, data)?,
            SOL_IPV6 if to_v6 => read_ipv6(&mut choice, ty, data)?,
            // An IPv6 socket names the source of a datagram over IPv4.
            SOL_IPV6 if on_v6 && ty == ipv6::PKTINFO => {
                let (src, oif) = pktinfo6(data)?;
                let IpAddr::V4(src) = unmapped(src) else {
                    return Err(errno::EINVAL);
                };
                choice.src = Some(src.into()).filter(|_| !src.is_unspecified());
                choice.oif = oif;
            }
            _ => {}
        }
    }
    Ok(choice)
}

fn read_ip(choice: &mut Choice, ty: i32, data: &[u8]) -> Result<(), i32> {
    match ty {
        ip::PKTINFO => {
            let info: &[u8; 12] = data
                .first_chunk()
                .filter(|_| data.len() == 12)
                .ok_or(errno::EINVAL)?;
            let [i, j, k, l, a, b, c, d, ..] = *info;
            let index = u32::from_ne_bytes([i, j, k, l]);
            if index != 0 {
                choice.oif = index;
            }
            let src = Ipv4Addr::new(a, b, c, d);
            choice.src = Some(src.into()).filter(|_| !src.is_unspecified());
        }
        ip::TTL => {
            let ttl = int(data)?;
            if !(1..=255).contains(&ttl) {
                return Err(errno::EINVAL);
            }
            choice.ttl = Some(ttl);
        }
        ip::TOS => {
            let tos = match data {
                [tos] => i32::from(*tos),
                _ => int(data)?,
            };
            if !(0..=255).contains(&tos) {
                return Err(errno::EINVAL);
            }
            choice.tos = Some(tos);
        }
        ip::RETOPTS => return Err(errno::EOPNOTSUPP),
        _ => return Err(errno::EINVAL),
    }
    Ok(())
}

fn pktinfo6(data: &[u8]) -> Result<(Ipv6Addr, u32), i32> {
    let info: &[u8; 20] = data.first_chunk().ok_or(errno::EINVAL)?;
    let [address @ .., a, b, c, d] = *info;
    let address: [u8; 16] = address;
    Ok((address.into(), u32::from_ne_bytes([a, b, c, d])))
}

fn read_ipv6(choice: &mut Choice, ty: i32, data: &[u8]) -> Result<(), i32> {
    match ty {
        ipv6::PKTINFO | ipv6::PKTINFO_2292 => {
            let (src, oif) = pktinfo6(data)?;
            choice.src = Some(src.into()).filter(|_| !src.is_unspecified());
            choice.oif = oif;
        }
        ipv6::HOPLIMIT | ipv6::HOPLIMIT_2292 => {
            let limit = int(data)?;
            if !(-1..=255).contains(&limit) {
                return Err(errno::EINVAL);
            }
            choice.ttl = Some(limit);
        }
        ipv6::TCLASS => {
            let class = int(data)?;
            if !(-1..=255).contains(&class) {
                return Err(errno::EINVAL);
            }
            choice.tos = Some(class);
        }
        ipv6::DONTFRAG => {
            let on = int(data)?;
            if !(0..=1).contains(&on) {
                return Err(errno::EINVAL);
            }
            choice.dontfrag = Some(on == 1);
        }
        ipv6::FLOWINFO => {
            let flow: &[u8; 4] = data.first_chunk().ok_or(errno::EINVAL)?;
            choice.flow = Some(u32::from_be_bytes(*flow));
        }
        _ => return Err(errno::EINVAL),
    }
    Ok(())
}

/// Control messages for a program.
#[derive(Debug, Default)]
pub struct Messages(Vec<u8>);

impl Messages {
    /// Appends a message.
    pub fn put(&mut self, level: i32, ty: i32, data: &[u8]) {
        let len = HEADER + data.len();
        self.0.reserve(len.next_multiple_of(8));
        self.0.extend_from_slice(&len.to_ne_bytes());
        self.0.extend_from_slice(&level.to_ne_bytes());
        self.0.extend_from_slice(&ty.to_ne_bytes());
        self.0.extend_from_slice(data);
        self.0.resize(self.0.len().next_multiple_of(8), 0);
    }

    /// Appends a message with an `int`.
    pub fn put_int(&mut self, level: i32, ty: i32, value: i32) {
        self.put(level, ty, &value.to_ne_bytes());
    }

    /// Returns the bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(level: i32, ty: i32, data: &[u8]) -> Vec<u8> {
        let mut messages = Messages::default();
        messages.put(level, ty, data);
        messages.0
    }

    #[test]
    fn messages_are_read_as_they_are_written() {
        let mut messages = Messages::default();
        messages.put_int(SOL_IP, ip::TTL, 7);
        messages.put(SOL_IP, ip::TOS, &[16]);
        messages.put(SOL_IP, ip::PKTINFO, &[2, 0, 0, 0, 10, 0, 0, 1, 0, 0, 0, 0]);
        let choice = read(messages.bytes(), false, false).unwrap();
        assert_eq!((choice.ttl, choice.tos, choice.oif), (Some(7), Some(16), 2));
        assert_eq!(choice.src, Some([10, 0, 0, 1].into()));
    }

    #[test]
    fn messages_that_lie_are_refused() {
        let bad = Some(errno::EINVAL);
        let mut long = one(SOL_IP, ip::TTL, &7i32.to_ne_bytes());
        long[0] = 200;
        assert_eq!(read(&long, false, false).err(), bad);
        long[0] = 3;
        assert_eq!(read(&long, false, false).err(), bad);
        long[..8].copy_from_slice(&u64::MAX.to_ne_bytes());
        assert_eq!(read(&long, false, false).err(), bad);
        for (ty, data) in [
            (ip::TTL, vec![0; 4]),
            (ip::TTL, vec![1; 2]),
            (ip::TOS, vec![0; 3]),
            (ip::PKTINFO, vec![0; 11]),
            (99, vec![]),
        ] {
            assert_eq!(
                read(&one(SOL_IP, ty, &data), false, false).err(),
                bad,
                "{ty}"
            );
        }
        assert_eq!(
            read(&one(SOL_UDP, udp::SEGMENT, &[1]), false, false).err(),
            bad
        );
        // A rest that is shorter than a header is nothing, and messages of other levels are skipped.
        assert!(read(&[1; 15], false, false).is_ok());
        assert!(read(&one(77, 1, &[1]), false, false).is_ok());
    }
}
