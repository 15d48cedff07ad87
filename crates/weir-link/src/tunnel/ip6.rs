// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the tunnels over IPv6 share (`net/ipv6/ip6_tunnel.c`, RFC 2473): what a tunnel can do by its addresses, its MTU,
//! and outer headers.
//!
//! A tunnel sends only if its local address is the namespace's and its remote address is not. A packet that does not fit
//! is answered with "packet too big" or "fragmentation needed", and a routed one without a route for its outer header with
//! "address unreachable" or "host unreachable". Packets that cannot be sent are counted as errors and as dropped.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use weir_netlink::{Error, errno, rta};
use weir_packet::header::icmp::{
    ICMP_DEST_UNREACH, ICMP_FRAG_NEEDED, ICMP_HOST_UNREACH, ICMPV6_ADDR_UNREACH,
    ICMPV6_DEST_UNREACH, ICMPV6_HDR_FIELD, ICMPV6_PARAMPROB, ICMPV6_PKT_TOOBIG,
};
use weir_packet::header::ipv4::IPPROTO_IPV6;
use weir_packet::header::ipv6::{
    NEXTHDR_AUTH, NEXTHDR_DEST, NEXTHDR_FRAGMENT, NEXTHDR_HOP, NEXTHDR_ROUTING,
};
use weir_packet::header::{ETH_P_IP, ETH_P_IPV6, Ipv6};
use weir_packet::{DropReason, Flags, Packet};
use weir_sync::rcu::Guard;

use super::inner::Inner;
use super::lookup::Family;
use super::outer::{self, Header, Kind};
use super::parms::Parms;
use super::{Flavour, IpTunnel, MIN_MTU, overhead};
use crate::cpu::Cx;
use crate::device::Device;
use crate::drops::Place;
use crate::ipv6::output::{self, Head, Key};
use crate::ipv6::select::{needs_device, own_kind};
use crate::namespace::Namespace;
use crate::settings::{Ipv6Conf, WithSettings};

/// `IP6_TNL_F_*`
#[allow(missing_docs)] // the names are those of Linux
pub mod flag {
    pub const IGN_ENCAP_LIMIT: u32 = 0x1;
    pub const USE_ORIG_TCLASS: u32 = 0x2;
    pub const USE_ORIG_FLOWLABEL: u32 = 0x4;
    pub const RCV_DSCP_COPY: u32 = 0x10;
    pub const USE_ORIG_FWMARK: u32 = 0x20;
    pub const ALLOW_LOCAL_REMOTE: u32 = 0x40;
    pub const CAP_XMIT: u32 = 0x10000;
    pub const CAP_RCV: u32 = 0x20000;
    pub const CAP_PER_PACKET: u32 = 0x40000;
}

/// The largest outer packet in bytes (`IP6_MAX_MTU`).
const IP6_MAX_MTU: u32 = 0xffff + 40;
/// The length in bytes of the destination options with an encapsulation limit.
const OPTION: usize = 8;
/// The type of the option (`IPV6_TLV_TNL_ENCAP_LIMIT`).
const ENCAP_LIMIT: u8 = 4;
/// How long an error about an outer packet counts, in nanoseconds (`IP6TUNNEL_ERR_TIMEO`).
const FAILURE: u64 = 30_000_000_000;
/// The index of the loopback device.
const LOOPBACK: u32 = 1;

/// Returns the addresses of a tunnel over IPv6: its own and the remote one.
fn ends(parms: &Parms) -> Option<(Ipv6Addr, Ipv6Addr)> {
    match (parms.local, parms.remote) {
        (IpAddr::V6(local), IpAddr::V6(remote)) => Some((local, remote)),
        _ => None,
    }
}

/// Returns what a tunnel with these ends can do, `CAP_*` (`ip6_tnl_get_cap`).
fn capabilities(local: Ipv6Addr, remote: Ipv6Addr, link: u32) -> u32 {
    if local.is_unspecified() || remote.is_unspecified() {
        return flag::CAP_PER_PACKET;
    }
    let fits = |end: &Ipv6Addr| {
        end.to_ipv4_mapped().is_none()
            && !end.is_loopback()
            && (link != 0 || !end.is_unicast_link_local())
    };
    if ![local, remote].iter().all(fits) {
        return 0;
    }
    let xmit = if local.is_multicast() {
        0
    } else {
        flag::CAP_XMIT
    };
    let rcv = if remote.is_multicast() {
        0
    } else {
        flag::CAP_RCV
    };
    xmit | rcv
}

/// Sets the flags that follow from the addresses (`ip6_tnl_link_config`).
pub fn configure(parms: &mut Parms) {
    parms.flags &= !(flag::CAP_XMIT | flag::CAP_RCV | flag::CAP_PER_PACKET);
    if let Some((local, remote)) = ends(parms) {
        parms.flags |= capabilities(local, remote, parms.link);
    }
}

/// Returns whether the tunnel connects two hosts (`IFF_POINTOPOINT`).
pub fn is_to_one(parms: &Parms) -> bool {
    let both = flag::CAP_XMIT | flag::CAP_RCV;
    parms.flags & both == both
}

/// Returns the MTU in bytes over a device with this one.
fn over(flavour: &Flavour, parms: &Parms, lower: u32) -> u32 {
    let option = match parms.flags & flag::IGN_ENCAP_LIMIT {
        0 => OPTION as u32,
        _ => 0,
    };
    lower.saturating_sub(overhead(flavour, parms) + option)
}

/// Returns the MTU in bytes of a tunnel whose lower device is not known.
pub fn default_mtu(flavour: &Flavour, parms: &Parms) -> u32 {
    over(flavour, parms, 1500)
}

/// Returns the MTU in bytes by the device that outer packets leave by, if there is one.
pub fn route_mtu(flavour: &Flavour, net: &Namespace, parms: &Parms, guard: &Guard) -> Option<u32> {
    let (local, remote) = ends(parms)?;
    if parms.flags & flag::CAP_XMIT == 0 {
        return None;
    }
    let key = Key {
        strict: needs_device(remote),
        ..Key::default()
    };
    let route = output::route_by(net, local, remote, parms.link, &key, guard).ok();
    let lower = route.map(|route| route.named);
    let lower = match flavour.family {
        Family::Ip6Tnl => lower.or_else(|| net.device(parms.link, guard))?,
        _ => lower?,
    };
    let mtu = over(flavour, parms, lower.mtu().min(IP6_MAX_MTU));
    Some(mtu.max(output::MIN_MTU))
}

/// Checks an MTU in bytes (`ip6_tnl_change_mtu`).
pub fn check_mtu(flavour: &Flavour, parms: &Parms, mtu: u32) -> Result<(), Error> {
    let least = match parms.proto {
        IPPROTO_IPV6 => output::MIN_MTU,
        _ => MIN_MTU,
    };
    let most = match parms.proto {
        0 | IPPROTO_IPV6 => IP6_MAX_MTU,
        _ => 0xffff,
    };
    let most = most - overhead(flavour, parms);
    match (least..=most).contains(&mtu) {
        true => Ok(()),
        false => Err(Error::new(errno::EINVAL)),
    }
}

/// Returns whether an address is one of the namespace's (`ipv6_chk_addr_and_flags`).
fn is_own(net: &Namespace, address: Ipv6Addr, link: u32, guard: &Guard) -> bool {
    let index = if link == 0 { LOOPBACK } else { link };
    net.device(index, guard)
        .is_some_and(|device| own_kind(net, device, address, guard) == Some(rta::rtn::LOCAL))
}

/// Returns whether a tunnel may send or receive packets with these outer ends, `own` being this host's
/// (`ip6_tnl_xmit_ctl`, `ip6_tnl_rcv_ctl`); `cap` is `CAP_XMIT` or `CAP_RCV`.
fn may_pass(
    net: &Namespace,
    parms: &Parms,
    cap: u32,
    (own, other): (Ipv6Addr, Ipv6Addr),
    guard: &Guard,
) -> bool {
    let by_packet =
        parms.flags & flag::CAP_PER_PACKET != 0 && capabilities(own, other, parms.link) & cap != 0;
    if parms.flags & cap == 0 && !by_packet {
        return false;
    }
    is_own(net, own, parms.link, guard)
        && (parms.flags & flag::ALLOW_LOCAL_REMOTE != 0 || !is_own(net, other, parms.link, guard))
}

/// Returns whether a tunnel may send from `own` to `other` (`ip6_tnl_xmit_ctl`).
pub fn may_send(net: &Namespace, parms: &Parms, guard: &Guard) -> bool {
    parms.external
        || ends(parms).is_some_and(|ends| may_pass(net, parms, flag::CAP_XMIT, ends, guard))
}

/// Returns whether a tunnel may receive a packet to `own` from `other` (`ip6_tnl_rcv_ctl`).
pub fn may_receive(
    net: &Namespace,
    parms: &Parms,
    (own, other): (IpAddr, IpAddr),
    guard: &Guard,
) -> bool {
    match (own, other) {
        (IpAddr::V6(own), IpAddr::V6(other)) => {
            may_pass(net, parms, flag::CAP_RCV, (own, other), guard)
        }
        _ => false,
    }
}

/// Returns whether an IPv6 packet comes from the remote end (`ip6_tnl_addr_conflict`).
pub fn is_from_remote(parms: &Parms, packet: &[u8]) -> bool {
    let src = Ipv6::new(packet).map(|ip| Ipv6Addr::from(ip.src()));
    ends(parms).is_some_and(|(_, remote)| src == Some(remote))
}

/// Returns the offset in bytes of an encapsulation limit option in an IPv6 packet (`ip6_tnl_parse_tlv_enc_lim`). The
/// limit is two bytes behind.
pub fn encap_limit(packet: &[u8]) -> Option<usize> {
    let mut next = Ipv6::new(packet)?.next_header();
    let mut at = Ipv6::LEN;
    while matches!(
        next,
        NEXTHDR_HOP | NEXTHDR_ROUTING | NEXTHDR_FRAGMENT | NEXTHDR_AUTH | NEXTHDR_DEST
    ) {
        let rest = packet.get(at..)?;
        let [following, len] = *rest.first_chunk()?;
        let octets = match next {
            NEXTHDR_FRAGMENT => 8,
            NEXTHDR_AUTH => (usize::from(len) + 2) * 4,
            _ => (usize::from(len) + 1) * 8,
        };
        let header = rest.get(..octets)?;
        if next == NEXTHDR_FRAGMENT && header.get(2..4) != Some(&[0, 0]) {
            return None;
        }
        let mut option = 2;
        while next == NEXTHDR_DEST && option + 3 <= octets {
            let (Some(ty), Some(len)) = (header.get(option), header.get(option + 1)) else {
                break;
            };
            match (*ty, *len) {
                (ENCAP_LIMIT, 1) => return Some(at + option),
                (0, _) => option += 1,
                (_, len) => option += usize::from(len) + 2,
            }
        }
        (next, at) = (following, at + octets);
    }
    None
}

/// The parameters for sending a packet over IPv6.
#[derive(Debug, Clone, Copy)]
pub struct Way {
    /// The outer source, or unspecified if the route selects it.
    pub src: Ipv6Addr,
    /// The outer destination.
    pub dst: Ipv6Addr,
    /// The protocol of the outer packet's payload.
    pub protocol: u8,
    /// The outer hop limit, or 0 to copy the inner packet's.
    pub hop_limit: u8,
    /// The outer traffic class.
    pub class: u8,
    /// The outer flow label; 0: by the flow.
    pub label: u32,
    /// The encapsulation limit, if one is sent.
    pub encap_limit: Option<u8>,
    /// The mark of the outer packet's route.
    pub mark: u32,
    /// The index of the underlay device, or 0 for any.
    pub link: u32,
}

impl Way {
    /// The way of a tunnel that has its own remote. Returns the offset of the inner packet's encapsulation limit if that
    /// forbids encapsulation.
    pub fn of(parms: &Parms, inner: &Inner, packet: &Packet, protocol: u8) -> Result<Self, usize> {
        let any = Ipv6Addr::UNSPECIFIED;
        let (src, dst) = ends(parms).unwrap_or((any, any));
        let is = |flag| parms.flags & flag != 0;
        let mut encap_limit = (!is(flag::IGN_ENCAP_LIMIT)).then_some(parms.encap_limit);
        let mut label = match is(flag::USE_ORIG_FLOWLABEL) {
            true => 0,
            false => parms.flowinfo & 0xf_ffff,
        };
        if inner.protocol == ETH_P_IPV6 {
            let network = packet.data().get(inner.link..).unwrap_or_default();
            if let Some(at) = self::encap_limit(network) {
                match network.get(at + 2) {
                    Some(0) | None => return Err(at),
                    Some(limit) => encap_limit = Some(limit - 1),
                }
            }
            if is(flag::USE_ORIG_FLOWLABEL) {
                let word = Ipv6::new(network).map_or(0, |ip| ip.version_class_flow());
                label |= word & 0xf_ffff;
            }
        }
        Ok(Self {
            src,
            dst,
            protocol,
            hop_limit: parms.ttl,
            class: match is(flag::USE_ORIG_TCLASS) {
                true => inner.tos,
                false => (parms.flowinfo >> 20) as u8,
            },
            label,
            encap_limit,
            mark: match is(flag::USE_ORIG_FWMARK) {
                true => packet.mark,
                false => parms.fwmark,
            },
            link: parms.link,
        })
    }

    /// The way that the packet's metadata give, if they are for sending over IPv6.
    pub fn by_metadata(packet: &Packet, protocol: u8) -> Option<Self> {
        let tunnel = packet.tunnel().filter(|tunnel| tunnel.transmit)?;
        let (IpAddr::V6(src), IpAddr::V6(dst)) = (tunnel.ends.src(), tunnel.ends.dst()) else {
            return None;
        };
        Some(Self {
            src,
            dst,
            protocol,
            hop_limit: tunnel.ttl,
            class: tunnel.tos,
            label: 0,
            encap_limit: None,
            mark: 0,
            link: 0,
        })
    }
}

/// Drops a packet that the tunnel does not send, and counts it as an error and as dropped.
pub fn refuse(cx: &Cx<'_>, device: &Device, reason: DropReason, packet: Packet) {
    let stats = device.stats(cx.state.id);
    stats.tx_errors.fetch_add(1, Relaxed);
    outer::discard(cx, device, reason, packet);
}

/// Refuses a packet that may not be encapsulated once more, `at` being the offset of its limit
/// (`ICMPV6_PARAMPROB`).
pub fn refuse_limit(
    cx: &mut Cx<'_>,
    device: &Arc<Device>,
    inner: &Inner,
    at: usize,
    mut packet: Packet,
) {
    let kind = Kind {
        v4: (0, 0),
        v6: (ICMPV6_PARAMPROB, ICMPV6_HDR_FIELD),
    };
    outer::answer(cx, device, inner, &kind, (at + 2) as u32, &mut packet);
    refuse(cx, device, DropReason::NOT_SPECIFIED, packet);
}

/// Returns whether a route has brought the packet to the tunnel.
fn is_routed(packet: &Packet) -> bool {
    let flags = packet.flags;
    (flags.contains(Flags::FORWARDED) || flags.contains(Flags::LOCAL))
        && !flags.contains(Flags::REDIRECTED)
}

/// Refuses a packet whose outer packet has no route (`dst_link_failure`).
pub fn unreachable(
    tunnel: &IpTunnel,
    cx: &mut Cx<'_>,
    device: &Arc<Device>,
    inner: &Inner,
    mut packet: Packet,
) {
    tunnel.errors.tx_carrier.fetch_add(1, Relaxed);
    tell_unreachable(cx, device, inner, &mut packet);
    refuse(cx, device, DropReason::IP_OUTNOROUTES, packet);
}

/// Tells the sender of a routed packet that its destination cannot be reached.
fn tell_unreachable(cx: &mut Cx<'_>, device: &Arc<Device>, inner: &Inner, packet: &mut Packet) {
    if inner.ip && is_routed(packet) {
        let kind = Kind {
            v4: (ICMP_DEST_UNREACH, ICMP_HOST_UNREACH),
            v6: (ICMPV6_DEST_UNREACH, ICMPV6_ADDR_UNREACH),
        };
        outer::answer(cx, device, inner, &kind, 0, packet);
    }
}

/// Remembers an error about an outer packet: the tunnel answers one more of the next packets (`ip6gre_err`).
pub fn remember_failure(tunnel: &IpTunnel, now: u64) {
    let failed = tunnel.failed.swap(now, Relaxed);
    match now < failed + FAILURE {
        true => {
            tunnel.failures.fetch_add(1, Relaxed);
        }
        false => tunnel.failures.store(1, Relaxed),
    }
}

/// Returns whether the next packet is answered for an error that is not too old, and counts it.
fn take_failure(tunnel: &IpTunnel, now: u64) -> bool {
    let recent = now < tunnel.failed.load(Relaxed) + FAILURE;
    let left = |count: u32| Some(if recent { count.saturating_sub(1) } else { 0 });
    let before = tunnel.failures.fetch_update(Relaxed, Relaxed, left);
    recent && before.is_ok_and(|count| count > 0)
}

/// Refuses a packet that does not fit `mtu` bytes.
fn too_big(cx: &mut Cx<'_>, device: &Arc<Device>, inner: &Inner, mtu: usize, mut packet: Packet) {
    if inner.protocol == ETH_P_IPV6 || inner.protocol == ETH_P_IP && is_routed(&packet) {
        let kind = Kind {
            v4: (ICMP_DEST_UNREACH, ICMP_FRAG_NEEDED),
            v6: (ICMPV6_PKT_TOOBIG, 0),
        };
        outer::answer(cx, device, inner, &kind, mtu as u32, &mut packet);
    }
    refuse(cx, device, DropReason::PKT_TOO_BIG, packet);
}

/// Sends one packet (`ip6_tnl_xmit`) of a tunnel that [may](may_send).
pub fn send(
    tunnel: &IpTunnel,
    cx: &mut Cx<'_>,
    device: &Arc<Device>,
    net: &Namespace,
    (way, inner, header): (&Way, &Inner, &Header),
    mut packet: Packet,
) {
    let guard = cx.guard;
    let key = Key {
        mark: way.mark,
        proto: way.protocol,
        ..Key::default()
    };
    let Ok(route) = output::route_by(net, way.src, way.dst, way.link, &key, guard) else {
        return unreachable(tunnel, cx, device, inner, packet);
    };
    let src = match way.src.is_unspecified() {
        true => route.source(net, way.dst, guard),
        false => Some(way.src),
    };
    let Some(src) = src else {
        return unreachable(tunnel, cx, device, inner, packet);
    };
    if Arc::ptr_eq(route.device, device) {
        tunnel.errors.collisions.fetch_add(1, Relaxed);
        return refuse(cx, device, DropReason::RECURSION_LIMIT, packet);
    }
    let option = way.encap_limit.map_or(0, |_| OPTION);
    let link = outer::ethernet_len(tunnel);
    let least = match inner.first {
        ETH_P_IPV6 => output::MIN_MTU,
        _ => MIN_MTU,
    };
    // The metadata may ask for a longer header than the tunnel's own.
    let own = (tunnel.flavour.header_len)(tunnel.parms.load(guard)) as usize;
    let mtu = (route.mtu() as usize).saturating_sub(Ipv6::LEN + own + option + link);
    let mtu = mtu.max(least as usize);
    if packet.len() + header.len() > mtu + own + link {
        return too_big(cx, device, inner, mtu, packet);
    }
    if tunnel.failures.load(Relaxed) > 0 && take_failure(tunnel, cx.now) {
        tell_unreachable(cx, device, inner, &mut packet);
        let _ = packet.push(inner.link);
    }
    let octets = packet.len().saturating_sub(inner.link);
    let room = option + header.len();
    let Some(mut packet) = outer::make_room(cx, device, net, room, packet) else {
        return;
    };
    header.write(&mut packet, option);
    let mut protocol = way.protocol;
    if let Some(limit) = way.encap_limit
        && let Some(front) = packet.data_mut().first_chunk_mut()
    {
        // The rest is padding (PadN).
        *front = [protocol, 0, ENCAP_LIMIT, 1, limit, 1, 1, 0];
        protocol = NEXTHDR_DEST;
    }
    let head = Head {
        src,
        dst: way.dst,
        protocol,
        hop_limit: match way.hop_limit {
            // Behind tags the packet's own is not found.
            0 if inner.ip && inner.first == inner.protocol => inner.ttl,
            0 => route.hop_limit(),
            limit => limit,
        },
        class: way.class,
        label: match way.label {
            0 => output::flow_label(net, src, way.dst, way.protocol),
            label => label,
        },
    };
    device.stats(cx.state.id).count_sent(1, octets as u64);
    if route.device.conf().ipv6.on(Ipv6Conf::DisableIpv6) {
        return cx.drop(device, Place::Ipv6Out, DropReason::IPV6DISABLED, packet);
    }
    output::send_tunnelled(cx, &route, &head, packet);
}
