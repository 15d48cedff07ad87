// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a VRF sees of the packets that its ports receive (`vrf_ip_rcv`, `vrf_ip6_rcv` of `drivers/net/vrf.c`): it
//! counts them, and its observers get them. The packets themselves stay with the port, whose table
//! ([`Device::l3_table`]) the look-up uses.
//!
//! What our host sends by a port passes the VRF on its way ([`divert`]).

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use weir_packet::header::ethernet::ethernet;
use weir_packet::header::ipv6::IPPROTO_ICMPV6;
use weir_packet::header::ndisc::{NDISC_REDIRECT, NDISC_ROUTER_SOLICITATION};
use weir_packet::header::{ETH_P_IPV6, Ethernet, Ipv6};
use weir_packet::{Batch, DropReason, Packet};

use crate::cpu::Cx;
use crate::device::{Device, Direction, Taps};
use crate::drops::Place;

/// Returns the VRF whose port a device is.
#[inline]
pub fn of_port<'g>(cx: &Cx<'g>, device: &'g Arc<Device>) -> Option<&'g Arc<Device>> {
    let master = device.l3_master(cx.guard)?;
    (!Arc::ptr_eq(master, device)).then_some(master)
}

/// Returns whether a packet is a message of neighbour discovery, of which a VRF sees nothing (`ipv6_ndisc_frame`).
pub fn is_discovery(packet: &Packet) -> bool {
    let header = packet.network();
    let kind = |header: &[u8]| header.get(Ipv6::LEN).copied();
    let of_icmp = Ipv6::new(header).is_some_and(|header| header.next_header() == IPPROTO_ICMPV6);
    packet.protocol == ETH_P_IPV6
        && of_icmp
        && kind(header)
            .is_some_and(|kind| (NDISC_ROUTER_SOLICITATION..=NDISC_REDIRECT).contains(&kind))
}

/// Shows frames that a port received to the observers of its VRF, except those to groups and of neighbour discovery. The
/// frames begin with their Ethernet header.
pub fn observe(cx: &Cx<'_>, vrf: &Device, batch: &Batch) {
    let observers = vrf.observers(cx.guard);
    if observers.is_empty() {
        return;
    }
    let group = |packet: &Packet| packet.data().first().is_none_or(|first| first & 1 != 0);
    let shown = |packet: &&Packet| !group(packet) && !is_discovery(packet);
    for packet in batch.iter().filter(shown) {
        let taps = Taps {
            device: vrf,
            direction: Direction::Rx,
            time: cx.now,
            packets: std::slice::from_ref(packet),
            trace: &cx.stack.trace,
            cpu: cx.state.id,
            guard: cx.guard,
        };
        observers.iter().for_each(|one| one.frames(&taps));
    }
}

/// Passes a packet that our host sends by a device to the device's VRF, if it has one (`l3mdev_l3_out`). The packet begins
/// with its network header. It comes back and goes on to the device, unless the VRF has a qdisc: then it goes through that,
/// and the VRF routes it again. Packets that stay on their link do not pass the VRF.
#[inline]
pub fn divert(
    cx: &mut Cx<'_>,
    device: &Arc<Device>,
    packet: Packet,
    stays: fn(&Packet) -> bool,
) -> Option<Packet> {
    match of_port(cx, device) {
        Some(vrf) if !stays(&packet) => pass(cx, vrf, packet),
        _ => Some(packet),
    }
}

/// Shows a packet to the observers of a VRF or puts it into its qdisc, with an Ethernet header (`vrf_ip_out`,
/// `vrf_finish_direct`, `vrf_ip_out_redirect`).
#[cold]
fn pass(cx: &mut Cx<'_>, vrf: &Arc<Device>, mut packet: Packet) -> Option<Packet> {
    let queue = vrf.tc.has_queue();
    let observers = vrf.observers(cx.guard);
    if !queue && observers.is_empty() {
        return Some(packet);
    }
    let own = vrf.address();
    let to = if queue { own } else { [0; 6] };
    let header = ethernet(to, own, packet.protocol);
    match packet.push_link_header::<{ Ethernet::LEN }>() {
        Some(room) => *room = header,
        None if queue => {
            cx.drop(vrf, Place::Transmit, DropReason::NOMEM, packet);
            return None;
        }
        // As in Linux, nobody sees it then.
        None => return Some(packet),
    }
    if queue {
        packet.dev = vrf.key.0;
        cx.transmit(vrf, Batch::from(packet));
        return None;
    }
    let taps = Taps {
        device: vrf,
        direction: Direction::Tx,
        time: cx.now,
        packets: std::slice::from_ref(&packet),
        trace: &cx.stack.trace,
        cpu: cx.state.id,
        guard: cx.guard,
    };
    observers.iter().for_each(|one| one.frames(&taps));
    // The header that was put in front.
    let _ = packet.pull(Ethernet::LEN);
    packet.set_network(0);
    packet.unset_mac();
    Some(packet)
}

/// Counts packets of a port at its VRF. Their lengths are without the Ethernet header.
pub fn count(cx: &Cx<'_>, vrf: &Device, lengths: impl Iterator<Item = usize>) {
    let (mut packets, mut octets) = (0, 0);
    for len in lengths {
        packets += 1;
        octets += len as u64;
    }
    if packets > 0 {
        let stats = vrf.stats(cx.state.id);
        stats.rx_packets.fetch_add(packets, Relaxed);
        stats.rx_bytes.fetch_add(octets, Relaxed);
    }
}
