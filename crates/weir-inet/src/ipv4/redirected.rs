// SPDX-License-Identifier: Apache-2.0 OR MIT
//! ICMP redirects received (`icmp_redirect`, `__ip_do_redirect`): a router tells of a better gateway for one
//! destination. It becomes an exception of the route ([`crate::fib::exception`]) for 300 seconds.
//!
//! A redirect counts if all of this is so:
//!
//! - It is about a packet of a socket, or about an echo reply of ours.
//! - It comes from the gateway that packets to the destination take now.
//! - The receiving device accepts redirects: with `forwarding`, `accept_redirects` of the device and of `all`; else one
//!   of the two.
//! - The new gateway is another one and a unicast address that is not ours. Without `shared_media` (of the device and of
//!   `all`) it is in the subnet of the old gateway, and with `secure_redirects` it is the gateway of a route.
//! - The link-layer address of the new gateway is known. Otherwise the host asks for it, and the next redirect counts.
//!
//! Not implemented: redirects about the packets of tunnels; `net.ipv4.route.gc_timeout` is only stored.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use weir_netlink::rta;
use weir_packet::header::{Icmp, Ipv4};

use super::{on_either, route, select};
use crate::clock::Holds;
use crate::cpu::Cx;
use crate::device::Device;
use crate::fib::exception::LIFETIME;
use crate::fib::host::{WithRoutes, l3_output};
use crate::fib::lookup::{Flow, LookupFlags};
use crate::namespace::Namespace;
use crate::neigh::{WithNeighbours, nud};
use crate::settings::{Ipv4Conf, WithSettings};
use crate::stack::Stack;

/// `ICMP_REDIR_HOSTTOS`, the highest code.
const HIGHEST_CODE: u8 = 3;
/// The index of the loopback device.
const LOOPBACK: u32 = 1;

/// Takes over the gateway of a redirect that `from` has sent. `message` begins with the ICMP header. `oif` is the index of
/// the device of the packet that it is about (0: any).
pub(super) fn received(
    cx: &Cx<'_>,
    device: &Arc<Device>,
    from: Ipv4Addr,
    message: &[u8],
    oif: u32,
) {
    let guard = cx.guard;
    let ns = device.namespace(guard);
    let quoted = message.get(Icmp::LEN..).unwrap_or_default();
    let (Some(head), Some(about)) = (Icmp::new(message), Ipv4::new(quoted)) else {
        return;
    };
    if head.code() & 7 > HIGHEST_CODE {
        return;
    }
    let new = Ipv4Addr::from(head.rest());
    let (l3_table, oif) = l3_output(ns, oif, guard);
    let flow = Flow {
        dst: u32::from_be_bytes(about.dst()),
        src: u32::from_be_bytes(about.src()),
        iif: LOOPBACK,
        oif,
        l3_table,
        tos: about.tos() & 0x1c,
        proto: about.protocol(),
        ..Flow::default()
    };
    let fib = &ns.fib().v4;
    let Ok(mut found) = fib.lookup(&flow, LookupFlags::default(), guard) else {
        return;
    };
    if oif == 0 && found.is_multipath() {
        found = found.select(route::flow_hash(ns, &flow));
    }
    let exception = fib.exceptions.find(flow.dst, &found, guard);
    let now = exception.map_or(found.hop.gateway, |one| one.gateway);
    let Some(by) = found.hop.device.as_ref() else {
        return;
    };
    let is_unicast = found.info.spec.kind == rta::rtn::UNICAST;
    if !is_unicast || now != Some(IpAddr::V4(from)) || !is_accepted(cx, ns, device, from, new) {
        return;
    }
    let entry = ns.neighbours().get_or_make(cx.stack, by, new.into(), guard);
    let Some(entry) = entry else { return };
    if entry.state() & nud::VALID == 0 {
        // Without an entry any more, there is nothing to ask.
        let _ = entry.make_used(cx.stack, guard, by, false);
        return;
    }
    let expires = cx.now + LIFETIME;
    fib.set_exception(flow.dst, &found, Some(new.into()), Some(expires));
    look_again(cx.stack, ns, expires + 1);
}

/// Returns whether a device accepts a gateway in place of another.
fn is_accepted(
    cx: &Cx<'_>,
    ns: &Namespace,
    device: &Arc<Device>,
    old: Ipv4Addr,
    new: Ipv4Addr,
) -> bool {
    let guard = cx.guard;
    let own = device.conf().ipv4.on(Ipv4Conf::AcceptRedirects);
    let all = ns.conf().all.ipv4.on(Ipv4Conf::AcceptRedirects);
    let accepts = match device.conf().ipv4.on(Ipv4Conf::Forwarding) {
        true => own && all,
        false => own || all,
    };
    if !accepts || new == old || new.is_multicast() || new.is_broadcast() || new.octets()[0] == 0 {
        return false;
    }
    if on_either(ns, device, Ipv4Conf::SharedMedia) {
        return route::address_type(ns, new, guard) == rta::rtn::UNICAST;
    }
    let known = || ns.fib().v4.has_gateway(device.ifindex(), new.into(), guard);
    select::is_on_link(device, new, Some(old), guard)
        && (!on_either(ns, device, Ipv4Conf::SecureRedirects) || known())
}

/// Has exceptions that have ended removed at a time in ns.
fn look_again(stack: &Stack, ns: &Arc<Namespace>, time: u64) {
    let exceptions = &ns.fib().v4.exceptions;
    let mut timer = exceptions.timer();
    if timer.as_ref().is_some_and(|timer| timer.time() <= time) {
        return;
    }
    if let Some(timer) = timer.take() {
        stack.timers.cancel(timer);
    }
    let ns = Arc::downgrade(ns);
    let fire = move |cx: &mut Cx<'_>| {
        let Some(ns) = ns.upgrade() else { return };
        ns.fib().v4.exceptions.timer().take();
        let now = cx.stack.clock.now();
        if let Some(next) = ns.fib().v4.look_after_exceptions(now, |_| false) {
            look_again(cx.stack, &ns, next);
        }
    };
    *timer = Some(stack.arm(time, Holds::Nothing, Box::new(fire)));
}
