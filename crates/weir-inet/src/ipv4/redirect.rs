// SPDX-License-Identifier: Apache-2.0 OR MIT
//! ICMP redirects sent by a router (RFC 1812, 5.2.7.2; `ip_rt_send_redirect`).
//!
//! A sender on the link whose packet leaves by the device it came in by is told of the better first hop,
//! if `send_redirects` is on, and if `shared_media` is on or the gateway is in a subnet of the sender. The
//! time between two redirects to one sender doubles, from 20 ms on; after nine, none is sent until the
//! sender has been silent for 20.48 s.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use weir_packet::Packet;
use weir_packet::header::Ipv4;

use super::route::{self, Hop, Wanted};
use super::{icmp, on_either, select};
use crate::cpu::Cx;
use crate::device::Device;
use crate::ipv4::WithIpv4;
use crate::namespace::Namespace;
use crate::settings::Ipv4Conf;

/// `ICMP_REDIRECT`
const REDIRECT: u8 = 5;
/// `ICMP_REDIR_HOST`
const HOST: u8 = 1;

/// Tells the sender of a packet that leaves by the device it came in by of a better first hop. The
/// packet's TTL is decremented already.
#[cold]
pub(super) fn send(
    cx: &mut Cx<'_>,
    device: &Arc<Device>,
    ns: &Namespace,
    packet: &Packet,
    hop: &Hop<'_>,
) {
    let guard = cx.guard;
    let Some(header) = Ipv4::new(packet.data()) else {
        return;
    };
    let src = Ipv4Addr::from(header.src());
    let (IpAddr::V4(gateway), true) =
        (hop.next_hop, on_either(ns, device, Ipv4Conf::SendRedirects))
    else {
        return;
    };
    // The way back to the sender leads over no gateway.
    let wanted = Wanted {
        dst: src,
        src: None,
        tos: header.tos(),
        mark: 0,
        proto: 0,
    };
    let back = route::output(ns, &wanted, guard);
    let near = back.is_ok_and(|back| {
        Arc::ptr_eq(back.hop.device, device) && back.hop.next_hop == IpAddr::V4(src)
    });
    let any = Ipv4Addr::UNSPECIFIED;
    let via = if hop.via.is_some() { gateway } else { any };
    let shares = on_either(ns, device, Ipv4Conf::SharedMedia)
        || select::is_on_link(device, src, Some(via), guard);
    if near && shares && ns.ipv4().peers.may_redirect(src.into(), cx.now) {
        icmp::error(cx, device, packet, REDIRECT, HOST, gateway.into(), false);
    }
}
