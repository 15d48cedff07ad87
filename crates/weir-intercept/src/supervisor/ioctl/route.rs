// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Routes set by ioctl: `route add`, `route del` (`SIOCADDRT`, `SIOCDELRT`), with a struct rtentry
//! or, on an IPv6 socket, a struct in6_rtmsg.
//!
//! Mirrors `rtentry_to_fib_config` (`net/ipv4/fib_frontend.c`) and `rtmsg_to_fib6_config`
//! (`net/ipv6/route.c`). The metric is one more than the priority, and a deletion matches routes of
//! every scope.
use super::address::mask_bits;
use super::{Key, int};
use crate::backend::{Errno, NsId};
use crate::seccomp::Call;
use crate::supervisor::Supervisor;
use crate::sys;
use weir_netlink::{RtMsg, nlm, rta, rtm};

/// Flags of a route (`RTF_*`).
const GATEWAY: u32 = 0x2;
const HOST: u32 = 0x4;
const MTU: u32 = 0x40;
const WINDOW: u32 = 0x80;
const IRTT: u32 = 0x100;
const REJECT: u32 = 0x200;
/// The length in bytes of the headers of TCP and IPv4, which `route add ... mss` excludes.
const HEADERS: u32 = 40;
/// The priority of an IPv6 route whose metric is 0.
const USER_PRIORITY: u32 = 1024;

/// Returns family and address of a sockaddr_in.
fn internet(sockaddr: &[u8]) -> (i32, [u8; 4]) {
    let family = u16::from_ne_bytes([sockaddr[0], sockaddr[1]]);
    (
        i32::from(family),
        [sockaddr[4], sockaddr[5], sockaddr[6], sockaddr[7]],
    )
}

fn words(add: bool) -> (u16, u16) {
    match add {
        true => (rtm::NEWROUTE, nlm::F_CREATE),
        false => (rtm::DELROUTE, 0),
    }
}

impl Supervisor {
    /// Serves a struct rtentry.
    pub(super) fn change_route(
        &mut self,
        call: &Call,
        ns: NsId,
        add: bool,
        entry: &[u8; 120],
    ) -> Result<(), Errno> {
        let long = |at: usize| int(&entry[at..]) as u32;
        let (family, destination) = internet(&entry[8..]);
        let (gateway_family, gateway) = internet(&entry[24..]);
        let (mask_family, mask) = internet(&entry[40..]);
        let flags = u32::from(u16::from_ne_bytes([entry[56], entry[57]]));
        if family != libc::AF_INET {
            return Err(Errno(libc::EAFNOSUPPORT));
        }
        let mut prefix = 32;
        if flags & HOST == 0 {
            if mask_family != libc::AF_INET && (mask_family != 0 || mask != [0; 4]) {
                return Err(Errno(libc::EAFNOSUPPORT));
            }
            let host = u32::from_be_bytes(destination) & !u32::from_be_bytes(mask);
            prefix = mask_bits(mask)
                .filter(|_| host == 0)
                .ok_or(Errno(libc::EINVAL))?;
        }
        let mut header = RtMsg {
            family: libc::AF_INET as u8,
            dst_len: prefix,
            table: rta::table::MAIN as u8,
            scope: rta::scope::NOWHERE,
            ty: rta::rtn::UNICAST,
            ..RtMsg::default()
        };
        if add {
            header.protocol = rta::prot::BOOT;
        }
        let metric = i16::from_ne_bytes([entry[80], entry[81]]);
        let (mut device, mut source) = (None, None);
        let mut next_hop = None;
        if flags & REJECT != 0 {
            header.ty = rta::rtn::UNREACHABLE;
            header.scope = rta::scope::HOST;
        } else {
            let name = u64::from(long(88)) | u64::from(long(92)) << 32;
            if name != 0 {
                let label = sys::read_string(call.tid, name)?.into_bytes();
                let label = label.get(..15).unwrap_or(&label);
                let plain = label.split(|&b| b == b':').next().unwrap_or_default();
                let link = self.link(ns, Key::Name(plain))?;
                if plain != label {
                    source = Some(self.address_of_label(ns, &link, label)?);
                }
                device = Some(link.index as u32);
            }
            if gateway_family == libc::AF_INET && gateway != [0; 4] {
                next_hop = Some(gateway);
                if flags & GATEWAY != 0 && self.is_unicast(ns, gateway)? {
                    header.scope = rta::scope::UNIVERSE;
                }
            }
            if add {
                if flags & GATEWAY != 0 && next_hop.is_none() {
                    return Err(Errno(libc::EINVAL));
                }
                if header.scope == rta::scope::NOWHERE {
                    header.scope = rta::scope::LINK;
                }
            }
        }
        let (ty, order) = words(add);
        self.still_waiting(call)?;
        self.order(ns, ty, order, &header, |w| {
            if prefix != 0 {
                w.put(rta::DST, &destination);
            }
            if metric != 0 {
                w.put_u32(rta::PRIORITY, (metric - 1) as u32);
            }
            if let Some(device) = device {
                w.put_u32(rta::OIF, device);
            }
            if let Some(gateway) = next_hop {
                w.put(rta::GATEWAY, &gateway);
            }
            if let Some(source) = source {
                w.put(rta::PREFSRC, &source);
            }
            if add && flags & (MTU | WINDOW | IRTT) != 0 {
                let metrics = w.nest(rta::METRICS);
                if flags & MTU != 0 {
                    w.put_u32(rta::ax::ADVMSS, long(96).wrapping_sub(HEADERS));
                }
                if flags & WINDOW != 0 {
                    w.put_u32(rta::ax::WINDOW, long(104));
                }
                if flags & IRTT != 0 {
                    let irtt = u16::from_ne_bytes([entry[112], entry[113]]);
                    w.put_u32(rta::ax::RTT, u32::from(irtt) << 3);
                }
                w.end(metrics);
            }
        })
    }

    /// Returns whether an address is neither the stack's own, nor broadcast, nor multicast.
    fn is_unicast(&self, ns: NsId, address: [u8; 4]) -> Result<bool, Errno> {
        Ok(match self.route_to(ns, address) {
            Ok((ty, _)) => ty == rta::rtn::UNICAST,
            Err(_) => address[0] < 224,
        })
    }

    /// Returns type and device of the route to an address.
    pub(super) fn route_to(&self, ns: NsId, address: [u8; 4]) -> Result<(u8, u32), Errno> {
        let header = RtMsg {
            family: libc::AF_INET as u8,
            dst_len: 32,
            ..RtMsg::default()
        };
        let mut found = (rta::rtn::UNSPEC, 0);
        let request = super::request(rtm::GETROUTE, nlm::F_REQUEST, &header, |w| {
            w.put(rta::DST, &address);
        })?;
        self.ask(ns, &request, |message| {
            if message.header.ty == rtm::NEWROUTE {
                let header: RtMsg = message.fixed().map_err(super::broken)?;
                found.0 = header.ty;
                for attr in message.attrs::<RtMsg>().filter(|attr| attr.ty == rta::OIF) {
                    found.1 = attr.u32().map_err(super::broken)?;
                }
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// Serves a struct in6_rtmsg.
    pub(super) fn change_ipv6_route(
        &self,
        ns: NsId,
        add: bool,
        entry: &[u8; 80],
    ) -> Result<(), Errno> {
        let short = |at: usize| u16::from_ne_bytes([entry[at], entry[at + 1]]);
        let (dst_len, src_len) = (short(52), short(54));
        if dst_len > 128 || src_len > 128 {
            return Err(Errno(libc::EINVAL));
        }
        let flags = int(&entry[72..]) as u32;
        let reject = flags & REJECT != 0;
        let header = RtMsg {
            family: libc::AF_INET6 as u8,
            dst_len: dst_len as u8,
            src_len: src_len as u8,
            table: rta::table::MAIN as u8,
            protocol: if add {
                rta::prot::BOOT
            } else {
                rta::prot::UNSPEC
            },
            ty: if reject {
                rta::rtn::UNREACHABLE
            } else {
                rta::rtn::UNICAST
            },
            ..RtMsg::default()
        };
        let (ty, order) = words(add);
        self.order(ns, ty, order, &header, |w| {
            if dst_len != 0 {
                w.put(rta::DST, &entry[..16]);
            }
            if src_len != 0 {
                w.put(rta::SRC, &entry[16..32]);
            }
            if flags & GATEWAY != 0 {
                w.put(rta::GATEWAY, &entry[32..48]);
            }
            let metric = match int(&entry[56..]) as u32 {
                0 => USER_PRIORITY,
                metric => metric,
            };
            w.put_u32(rta::PRIORITY, metric);
            let index = int(&entry[76..]) as u32;
            if index != 0 {
                w.put_u32(rta::OIF, index);
            }
        })
    }
}
