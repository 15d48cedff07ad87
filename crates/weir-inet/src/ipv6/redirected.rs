// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Redirects received (RFC 4861, 8.3; `ndisc_redirect_rcv`, `rt6_do_redirect`): a router tells of a better first hop for
//! one destination, or that it is on the link. The hop becomes an exception of the route
//! ([`crate::fib::exception`]).
//!
//! A redirect counts if all of this is so:
//!
//! - It comes from a link-local address that is the gateway of a route to the destination through the receiving device.
//! - The target is the destination itself, which then is on the link, or a router's link-local address.
//! - The device does not forward, and `accept_redirects` is on.
//! - It is about a segment of a TCP socket or an ICMPv6 message, or quotes no packet. One about a packet of a UDP or
//!   raw socket does not count, as in Linux unless the socket is bound to the device.
//!
//! The target becomes a neighbour with the link-layer address of the option. An exception ends when no packet has used it
//! for 60 to 90 seconds, or when its gateway turns out to be no router.
//!
//! Not implemented: redirects about the packets of tunnels and of UDP and raw sockets that are bound to a device. Unlike
//! in Linux, one about a TCP segment counts only if it comes from the gateway, too.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use weir_packet::DropReason;
use weir_packet::header::Ipv6;
use weir_packet::header::ipv4::IPPROTO_TCP;
use weir_packet::header::ipv6::{IPPROTO_ICMPV6, upper_layer};
use weir_packet::header::ndisc::{
    ND_OPT_REDIRECT_HDR, ND_OPT_TARGET_LL_ADDR, NDISC_REDIRECT, Redirect, options,
};
use weir_sync::rcu::Guard;

use crate::clock::Holds;
use crate::cpu::Cx;
use crate::device::Device;
use crate::fib::exception::{Exception, INTERVAL};
use crate::fib::host::{WithRoutes, l3_output};
use crate::fib::lookup::{Flow, Found};
use crate::namespace::Namespace;
use crate::neigh::{Update, WithNeighbours, nud};
use crate::settings::{Ipv6Conf, WithSettings};
use crate::sockets::{Report, interest, sockets};
use crate::stack::Stack;

/// The index of the loopback device.
const LOOPBACK: u32 = 1;

/// A redirect that counts.
pub(super) struct Accepted<'g> {
    /// The better first hop.
    pub target: Ipv6Addr,
    /// Its link-layer address and that it is a router.
    pub neighbour: Update,
    destination: Ipv6Addr,
    found: Found<'g, u128, Arc<Device>>,
}

/// Judges a redirect that `header` begins and that was sent by a host on the link. Returns `None` if it does not count.
///
/// # Errors
/// The reason for dropping it, if it is malformed.
pub(super) fn judge<'d, 'g: 'd>(
    cx: &mut Cx<'g>,
    device: &'d Arc<Device>,
    header: &Ipv6<'_>,
    message: &[u8],
) -> Result<Option<Accepted<'d>>, DropReason> {
    let (from, own) = (Ipv6Addr::from(header.src()), Ipv6Addr::from(header.dst()));
    let redirect = Redirect::new(message).ok_or(DropReason::PKT_TOO_SMALL)?;
    let target = Ipv6Addr::from(redirect.target());
    let destination = Ipv6Addr::from(redirect.destination());
    if !from.is_unicast_link_local() {
        return Err(DropReason::NOT_SPECIFIED);
    }
    let (mut quoted, mut address) = (None, None);
    for option in options(message.get(Redirect::LEN..).unwrap_or_default()) {
        let option = option.map_err(|_| DropReason::IPV6_NDISC_BAD_OPTIONS)?;
        match option.kind {
            ND_OPT_REDIRECT_HDR if quoted.is_none() => {
                quoted = Some(option.body.get(6..).unwrap_or_default());
            }
            ND_OPT_TARGET_LL_ADDR if address.is_none() => address = Some(option),
            _ => {}
        }
    }
    let (src, about) = match quoted {
        None => (own, destination),
        Some(quoted) => {
            if !is_ours(cx, device, header, quoted) {
                return Ok(None);
            }
            let ip = Ipv6::new(quoted).ok_or(DropReason::PKT_TOO_SMALL)?;
            (ip.src().into(), ip.dst().into())
        }
    };
    let on_link = destination == target;
    let conf = &device.conf().ipv6;
    if destination.is_multicast()
        || (!on_link && !target.is_unicast_link_local())
        || conf.on(Ipv6Conf::Forwarding)
        || !conf.on(Ipv6Conf::AcceptRedirects)
    {
        return Ok(None);
    }
    if address
        .as_ref()
        .is_some_and(|option| option.body.len() != 6)
    {
        // It belongs to a different link layer.
        return Err(DropReason::NOT_SPECIFIED);
    }
    let guard: &'d Guard = cx.guard;
    let ns = device.namespace(guard);
    let (l3_table, _) = l3_output(ns, device.ifindex(), guard);
    let flow = Flow {
        dst: u128::from(about),
        src: u128::from(src),
        iif: LOOPBACK,
        oif: device.ifindex(),
        l3_table,
        now: cx.now,
        ..Flow::default()
    };
    let Some(found) = ns.fib().v6.redirected(&flow, from.into(), guard) else {
        return Ok(None);
    };
    // The router is alive, since it has redirected a packet.
    if let Some(router) = ns.neighbours().get(device.key, from.into(), guard) {
        router.confirm(cx.now);
    }
    let neighbour = Update {
        mac: address.and_then(|option| option.mac()),
        state: nud::STALE,
        replace: true,
        weak: true,
        admin: false,
        router: (!on_link).then_some(true),
        learned_elsewhere: None,
    };
    Ok(Some(Accepted {
        target,
        neighbour,
        destination,
        found,
    }))
}

impl Accepted<'_> {
    /// Gives the destination the target as its first hop, which is a neighbour now.
    pub(super) fn take(&self, cx: &Cx<'_>, device: &Arc<Device>) {
        let ns = device.namespace(cx.guard);
        let on_link = self.destination == self.target;
        let gateway = (!on_link).then_some(IpAddr::V6(self.target));
        let destination = self.destination.into();
        ns.fib()
            .v6
            .set_exception(destination, &self.found, gateway, None);
        look_again(cx.stack, ns, cx.now);
    }
}

/// Returns whether a quoted packet is an ICMPv6 message or a segment of a socket (`icmpv6_notify`).
fn is_ours(cx: &mut Cx<'_>, device: &Arc<Device>, header: &Ipv6<'_>, quoted: &[u8]) -> bool {
    let Some(upper) = upper_layer(quoted).filter(|upper| quoted.len() >= upper.offset + 8) else {
        return false;
    };
    let ns = device.namespace(cx.guard);
    let told = sockets(ns).hooks(interest::ANY).is_some_and(|hooks| {
        let report = Report {
            device,
            ns,
            ipv6: true,
            from: Ipv6Addr::from(header.src()).into(),
            ttl: header.hop_limit(),
            tos: header.traffic_class(),
            ty: NDISC_REDIRECT,
            code: 0,
            info: 0,
            quoted,
            protocol: upper.protocol,
            at: upper.offset,
        };
        (hooks.error)(cx, &report)
    });
    match upper.protocol {
        IPPROTO_ICMPV6 => true,
        IPPROTO_TCP => told,
        _ => false,
    }
}

/// Returns whether an exception's gateway is known to be no router (`rt6_age_examine_exception`).
fn is_no_router(ns: &Namespace, exception: &Exception<u128, Arc<Device>>, guard: &Guard) -> bool {
    let Some(gateway) = exception.gateway else {
        return false;
    };
    let entry = ns
        .device(exception.oif(), guard)
        .and_then(|device| ns.neighbours().get(device.key, gateway, guard));
    entry.is_none_or(|entry| entry.flags() & weir_netlink::nda::ntf::ROUTER == 0)
}

/// Looks for exceptions that have ended, an interval after a time in ns and then as long as there are any
/// (`fib6_run_gc`).
pub(super) fn look_again(stack: &Stack, ns: &Arc<Namespace>, now: u64) {
    let mut timer = ns.fib().v6.exceptions.timer();
    if timer.is_some() {
        return;
    }
    let ns = Arc::downgrade(ns);
    let fire = move |cx: &mut Cx<'_>| {
        let Some(ns) = ns.upgrade() else { return };
        ns.fib().v6.exceptions.timer().take();
        let no_router = |one: &Exception<_, _>| is_no_router(&ns, one, cx.guard);
        let fib = &ns.fib().v6;
        let now = cx.stack.clock.now();
        if fib.look_after_exceptions(now, no_router).is_some() {
            look_again(cx.stack, &ns, now);
        }
    };
    *timer = Some(stack.arm(now + INTERVAL, Holds::Nothing, Box::new(fire)));
}
