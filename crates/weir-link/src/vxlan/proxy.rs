// SPDX-License-Identifier: Apache-2.0 OR MIT
//! ARP requests and neighbour solicitations that a device answers instead of sending them (`arp_reduce`,
//! `neigh_reduce`): `proxy`.
//!
//! The device knows the host from its own neighbours. It sends no ARP packet and no solicitation at all: what it cannot
//! answer ends here, with a report if there is no entry (`l3miss`). It is silent about hosts on this side of the tunnel,
//! which answer themselves.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use weir_netlink::ifla::{arphrd, iff};
use weir_packet::header::arp::ARPOP_REQUEST;
use weir_packet::header::ipv6::IPPROTO_ICMPV6;
use weir_packet::header::ndisc::{NDISC_NEIGHBOUR_SOLICITATION, Neighbour};
use weir_packet::header::{Arp, ETH_P_ARP, ETH_P_IP, ETH_P_IPV6, Ethernet, Ipv6};
use weir_packet::{Batch, Packet, PacketType};

use super::Vxlan;
use super::config::Config;
use super::fdb::Missed;
use super::vnis::Count;
use crate::answer;
use crate::cpu::Cx;
use crate::device::{Device, Mac};
use crate::neigh::{WithNeighbours, nud};
use crate::settings::IPV6_MIN_MTU;

/// The types of hardware whose requests are answered.
const HARDWARE: [u16; 2] = [arphrd::ETHER, arphrd::IEEE802];

/// Takes a frame if it is one to answer, in the table's part for an identifier. Returns any other.
pub fn answer(
    vxlan: &Arc<Vxlan>,
    cx: &mut Cx<'_>,
    device: &Arc<Device>,
    (conf, vni): (&Config, u32),
    packet: Packet,
) -> Option<Packet> {
    let network = packet.data().get(Ethernet::LEN..).unwrap_or_default();
    let ethertype = Ethernet::new(packet.data()).map(|eth| eth.ethertype());
    let frame = match ethertype {
        Some(ETH_P_ARP) => {
            // As in Linux, a frame is short of a packet if it is shorter than the packet alone.
            if packet.len() < Arp::LEN {
                let stats = device.stats(cx.state.id);
                stats.tx_dropped.fetch_add(1, Relaxed);
                vxlan.count(vni, Count::SendDropped, cx.guard);
            }
            Arp::new(network).and_then(|head| {
                let target = wanted(device, &head)?;
                let (mac, _) = known(vxlan, cx, device, (conf, vni), target.into())?;
                Some(answer::to_arp(&head, mac))
            })
        }
        Some(ETH_P_IPV6) if is_solicitation(network) => solicited(device, network)
            .and_then(|target| known(vxlan, cx, device, (conf, vni), target.into()))
            .and_then(|(mac, router)| answer::to_solicitation(packet.data(), mac, router)),
        _ => return Some(packet),
    };
    if let Some(mut answer) = frame.and_then(|frame| answer::packet(cx, &frame)) {
        answer.set_pkt_type(PacketType::Host);
        cx.receive_later(device, Batch::from(answer));
    }
    cx.consume(packet);
    None
}

/// Returns the address that a request asks for, unless the device does not answer it.
fn wanted(device: &Device, head: &Arp<'_>) -> Option<Ipv4Addr> {
    let target = Ipv4Addr::from(head.tip());
    let asks = device.flags() & iff::NOARP == 0
        && HARDWARE.contains(&head.hardware())
        && (head.protocol(), head.op()) == (ETH_P_IP, ARPOP_REQUEST)
        && (head.hlen(), head.plen()) == (6, 4);
    (asks && !target.is_loopback() && !target.is_multicast()).then_some(target)
}

fn is_solicitation(network: &[u8]) -> bool {
    let message = network.get(Ipv6::LEN..).and_then(Neighbour::new);
    Ipv6::new(network).is_some_and(|ip| ip.next_header() == IPPROTO_ICMPV6)
        && message.is_some_and(|message| {
            (message.icmp_type(), message.code()) == (NDISC_NEIGHBOUR_SOLICITATION, 0)
        })
}

/// Returns the address that a solicitation asks for, unless the device does not answer it.
fn solicited(device: &Device, network: &[u8]) -> Option<Ipv6Addr> {
    let to = Ipv6Addr::from(Ipv6::new(network)?.dst());
    let target = Ipv6Addr::from(Neighbour::new(network.get(Ipv6::LEN..)?)?.target());
    let asks = device.mtu() >= IPV6_MIN_MTU && !to.is_loopback() && !target.is_multicast();
    asks.then_some(target)
}

/// Returns the link-layer address of a host behind the tunnel, and whether it is a router. Reports one that is no
/// neighbour.
fn known(
    vxlan: &Vxlan,
    cx: &Cx<'_>,
    device: &Arc<Device>,
    (conf, vni): (&Config, u32),
    target: IpAddr,
) -> Option<(Mac, bool)> {
    let neighbours = device.namespace(cx.guard).neighbours();
    let Some(host) = neighbours.get(device.key, target, cx.guard) else {
        if conf.l3miss {
            let site = vxlan.site(cx.stack, cx.guard, device);
            site.miss(Missed::Neighbour(target));
        }
        return None;
    };
    let mac = host.mac().filter(|_| host.state() & nud::CONNECTED != 0)?;
    let entry = vxlan.fdb.find(mac, vni, cx.now, cx.guard);
    match entry {
        Some(entry) if entry.is_here(cx.guard) => None,
        entry => Some((mac, entry.is_some_and(|entry| entry.is_router()))),
    }
}
