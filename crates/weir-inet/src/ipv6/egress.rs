// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packets of programs: the route and the source address that a socket asks for (`ip6_dst_lookup_tail`), and their way
//! out, of which groups send a copy back to the host (`ip6_finish_output2`).

use std::net::Ipv6Addr;
use std::sync::Arc;

use weir_netlink::errno;
use weir_netlink::ifla::iff;
use weir_packet::Packet;
use weir_packet::header::Ipv6;
use weir_sync::rcu::Guard;

use super::output::{self, Head, Route};
use super::select::is_member;
use super::{local, multicast};
use crate::cpu::Cx;
use crate::device::Device;
use crate::namespace::Namespace;

/// What a program's packet needs of a route (`struct flowi6`).
#[derive(Debug, Clone, Copy)]
pub struct Wish {
    /// The destination address.
    pub dst: Ipv6Addr,
    /// The source address, if it is given.
    pub src: Option<Ipv6Addr>,
    /// The index of the outgoing device; 0 for any.
    pub oif: u32,
    /// Firewall mark.
    pub mark: u32,
    /// The protocol.
    pub protocol: u8,
    /// The source and the destination port, 0 without ports.
    pub ports: (u16, u16),
}

/// The route of a program's packet.
#[derive(Clone, Copy)]
pub struct Way<'g> {
    /// The route.
    pub route: Route<'g>,
    /// The source address.
    pub src: Ipv6Addr,
    /// The destination address.
    pub dst: Ipv6Addr,
}

/// Finds the route of a program's packet, and its source address.
///
/// # Errors
/// ENETUNREACH and so on: the errno of the route; EADDRNOTAVAIL if there is no source address.
pub fn find<'g>(ns: &'g Namespace, wish: &Wish, guard: &'g Guard) -> Result<Way<'g>, i32> {
    find_bound(ns, wish, false, guard)
}

/// Like [`find`], for a socket that may be bound to the device (`sk_bound_dev_if`): then only routes through it count.
///
/// # Errors
/// As [`find`].
pub fn find_bound<'g>(
    ns: &'g Namespace,
    wish: &Wish,
    bound: bool,
    guard: &'g Guard,
) -> Result<Way<'g>, i32> {
    let any = Ipv6Addr::UNSPECIFIED;
    let dst = match wish.dst {
        dst if dst.is_unspecified() => wish.src.unwrap_or(Ipv6Addr::LOCALHOST),
        dst => dst,
    };
    if wish.oif != 0 && ns.device(wish.oif, guard).is_none() {
        return Err(errno::ENETUNREACH);
    }
    let key = output::Key {
        mark: wish.mark,
        proto: wish.protocol,
        ports: wish.ports,
        strict: bound && wish.oif != 0,
    };
    let route = output::route_by(ns, wish.src.unwrap_or(any), dst, wish.oif, &key, guard)?;
    let src = match wish.src {
        Some(src) => src,
        None => route.source(ns, dst, guard).ok_or(errno::EADDRNOTAVAIL)?,
    };
    Ok(Way { route, src, dst })
}

/// Sends a program's packet, which begins with its payload (`ip6_send_skb`, `ip6_finish_output2`). Its mark and priority
/// are set. `looped` says whether a copy of a packet to a group is delivered to the host (`IPV6_MULTICAST_LOOP`).
pub fn send(
    cx: &mut Cx<'_>,
    ns: &Namespace,
    way: &Way<'_>,
    head: &Head,
    looped: bool,
    packet: Packet,
) {
    let device = way.route.device;
    if head.dst.is_multicast() && device.flags() & iff::LOOPBACK == 0 {
        let member = is_member(device, head.dst, cx.guard);
        if looped && (member || multicast::is_on(ns)) {
            loop_back(cx, device, head, member, &packet);
        }
        if head.hop_limit == 0 {
            return cx.consume(packet);
        }
    }
    output::send(cx, ns, &way.route, head, packet);
}

/// Delivers a copy of a packet that the host has sent to a group, if it is a `member`, and has it routed like a received
/// one.
fn loop_back(cx: &mut Cx<'_>, device: &Arc<Device>, head: &Head, member: bool, packet: &Packet) {
    let Some(copy) = packet.copy_with_headroom(Ipv6::LEN) else {
        return;
    };
    let Ok(mut copy) = output::with_header(copy, head) else {
        return;
    };
    copy.time = cx.now;
    local::come_back(cx, device, &mut copy);
    let ns = device.namespace(cx.guard);
    let copy = match multicast::is_on(ns) {
        true => multicast::input(cx, (device, ns), copy, member),
        false => Some(copy),
    };
    if let Some(copy) = copy {
        local::deliver(cx, device, device, copy);
    }
}
