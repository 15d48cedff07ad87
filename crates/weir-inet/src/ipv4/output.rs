// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Outgoing packets: grouping by next hop, fragmentation, and the creation of locally generated
//! packets (`ip_output`, `ip_finish_output`, `ip_push_pending_frames`).

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use weir_packet::batch::BATCH;
use weir_packet::header::ipv4::ipv4;
use weir_packet::{Batch, DropReason, Flags, Packet, PacketType};

use super::fragment;
use super::route::{Hop, Output};
use crate::cpu::Cx;
use crate::device::Device;
use crate::drops::Place;
use crate::ipv4::WithIpv4;
use crate::mib::Count;
use crate::mib::Ip;
use crate::namespace::Namespace;
use crate::settings::Ipv4;
use crate::settings::WithSettings;

/// Outgoing packets with their next hops.
pub struct Groups<'g> {
    packets: [Option<Packet>; BATCH],
    /// The index of each packet's hop.
    which: [u8; BATCH],
    count: usize,
    /// The hops, in order of first use.
    hops: [Option<Hop<'g>>; BATCH],
    different: usize,
}

impl Default for Groups<'_> {
    fn default() -> Self {
        Self {
            packets: [const { None }; BATCH],
            which: [0; BATCH],
            count: 0,
            hops: [None; BATCH],
            different: 0,
        }
    }
}

fn same(a: &Hop<'_>, b: &Hop<'_>) -> bool {
    Arc::ptr_eq(a.device, b.device) && a.next_hop == b.next_hop && a.broadcast == b.broadcast
}

impl<'g> Groups<'g> {
    /// Adds a packet that fits the MTU.
    #[inline]
    pub fn push(&mut self, cx: &mut Cx<'_>, hop: &Hop<'g>, packet: Packet) {
        if self.count == BATCH {
            self.flush(cx);
        }
        // It is usually the most recent hop.
        let known = self.hops.iter().take(self.different).rposition(|known| {
            // All of these are set.
            known.as_ref().is_some_and(|known| same(known, hop))
        });
        let place = known.unwrap_or_else(|| {
            // There is room: there are no more hops than packets.
            if let Some(slot) = self.hops.get_mut(self.different) {
                *slot = Some(*hop);
            }
            self.different += 1;
            self.different - 1
        });
        if let (Some(slot), Some(which)) = (
            self.packets.get_mut(self.count),
            self.which.get_mut(self.count),
        ) {
            *slot = Some(packet);
            *which = place as u8;
            self.count += 1;
        }
    }

    /// Sends all packets as one batch per next hop, in order of first use.
    pub fn flush(&mut self, cx: &mut Cx<'_>) {
        let count = std::mem::take(&mut self.count);
        for place in 0..std::mem::take(&mut self.different) {
            let Some(Some(hop)) = self.hops.get(place) else {
                continue;
            };
            let mut batch = Batch::new();
            let packets = self.packets.iter_mut().zip(&self.which).take(count);
            for (packet, which) in packets {
                if usize::from(*which) == place
                    && let Some(packet) = packet.take()
                {
                    // There is room: the batch is no larger than the packets collected here.
                    let _ = batch.push(packet);
                }
            }
            send_group(cx, hop, batch);
        }
    }
}

fn send_group(cx: &mut Cx<'_>, hop: &Hop<'_>, batch: Batch) {
    let counters = if hop.broadcast {
        Some((Ip::OutBcastPkts, Ip::OutBcastOctets))
    } else if hop.next_hop.is_multicast() {
        Some((Ip::OutMcastPkts, Ip::OutMcastOctets))
    } else {
        None
    };
    if let Some((packets, octets)) = counters {
        let ip = &cx.mib(hop.device.namespace(cx.guard)).ip;
        ip.add(packets, batch.len() as u64);
        ip.add(octets, batch.bytes());
    }
    crate::neigh::output(cx, hop.device, hop.next_hop, hop.broadcast, batch);
}

/// Sends one packet, fragmented if necessary (`ip_finish_output`). A packet that cannot be sent is
/// counted at the device `at`.
pub fn send(cx: &mut Cx<'_>, at: &Device, ns: &Namespace, hop: &Hop<'_>, packet: Packet) {
    let mib = cx.mib(ns);
    mib.ip.add(Ip::OutRequests, 1);
    mib.ip.add(Ip::OutOctets, packet.len() as u64);
    let mut groups = Groups::default();
    push_fitting(cx, at, ns, hop, packet, &mut groups);
    groups.flush(cx);
}

/// Adds one packet to the groups, fragmented if necessary.
pub fn push_fitting<'g>(
    cx: &mut Cx<'_>,
    at: &Device,
    ns: &Namespace,
    hop: &Hop<'g>,
    packet: Packet,
    groups: &mut Groups<'g>,
) {
    if packet.len() <= hop.mtu as usize {
        return groups.push(cx, hop, packet);
    }
    match fragment::split(&packet, hop.mtu as usize, &cx.stack.pool) {
        Some(fragments) => {
            let mib = cx.mib(ns);
            mib.ip.add(Ip::FragOKs, 1);
            mib.ip.add(Ip::FragCreates, fragments.len() as u64);
            for mut fragment in fragments {
                cx.stack.trace.copied(&mut fragment);
                groups.push(cx, hop, fragment);
            }
            cx.consume(packet);
        }
        None => {
            cx.mib(ns).ip.add(Ip::FragFails, 1);
            cx.drop(at, Place::Ipv4Out, DropReason::PKT_TOO_BIG, packet);
        }
    }
}

/// The header fields of a locally generated packet that its creator chooses.
#[derive(Debug, Clone, Copy)]
pub struct Header {
    /// The protocol of the payload.
    pub protocol: u8,
    /// The type of service.
    pub tos: u8,
    /// `IP_DF` or 0. With `IP_DF`, the identification is 0.
    pub frag_off: u16,
    /// The destination address.
    pub dst: [u8; 4],
    /// Firewall mark.
    pub mark: u32,
}

/// Creates and sends a locally generated packet whose payload is the concatenation of `parts`.
/// Failures are counted at the device `at`.
pub fn send_own(
    cx: &mut Cx<'_>,
    at: &Arc<Device>,
    ns: &Namespace,
    route: &Output<'_>,
    header: &Header,
    parts: &[&[u8]],
) {
    let len: usize = parts.iter().map(|part| part.len()).sum();
    let ttl = match route.hop_limit {
        0 => ns.conf().ipv4.get(Ipv4::DefaultTtl),
        limit => limit as i32,
    };
    let id = if header.frag_off & weir_packet::header::ipv4::IP_DF != 0 {
        0
    } else {
        ns.ipv4().next_id(ns)
    };
    let head = ipv4(
        route.src.octets(),
        header.dst,
        header.protocol,
        ttl.clamp(1, 255) as u8,
        header.tos,
        id,
        header.frag_off,
        len,
    );
    let no_memory = |cx: &Cx<'_>| {
        cx.mib(ns).ip.add(Ip::OutDiscards, 1);
        at.count_drop(Place::Ipv4Out, DropReason::NOMEM);
    };
    let Some(mut packet) = cx.stack.pool.alloc(0) else {
        return no_memory(cx);
    };
    if packet.tailroom() < head.len() + len {
        match cx.stack.pool.alloc(head.len() + len) {
            Some(large) => packet = large,
            None => return no_memory(cx),
        }
        packet.trim(0);
    }
    let written = packet.append(&head) && parts.iter().all(|part| packet.append(part));
    debug_assert!(written, "the packet was allocated with room");
    packet.set_network(0);
    packet.protocol = weir_packet::header::ETH_P_IP;
    packet.mark = header.mark;
    packet.priority = priority(header.tos);
    packet.flags.insert(Flags::LOCAL);
    packet.set_pkt_type(PacketType::Outgoing);
    packet.time = cx.now;
    packet.iif = 0;
    packet.dev = route.hop.device.key.0;
    send(cx, at, ns, &route.hop, packet);
}

/// Prepends an IPv4 header to a tunnel's packet, which begins with its payload, and sends it
/// (`iptunnel_xmit`). `at` is the tunnel device.
pub fn send_tunnelled(
    cx: &mut Cx<'_>,
    at: &Arc<Device>,
    ns: &Namespace,
    route: &Output<'_>,
    header: &Header,
    ttl: u8,
    mut packet: Packet,
) {
    let head = ipv4(
        route.src.octets(),
        header.dst,
        header.protocol,
        ttl,
        header.tos,
        ns.ipv4().next_id(ns),
        header.frag_off,
        packet.len(),
    );
    let Some(room) = packet.push(head.len()) else {
        return cx.drop(at, Place::Ipv4Out, DropReason::NOMEM, packet);
    };
    room.copy_from_slice(&head);
    packet.set_network(0);
    packet.set_transport(head.len());
    packet.protocol = weir_packet::header::ETH_P_IP;
    packet.dev = route.hop.device.key.0;
    let too_big = packet.len() > route.hop.mtu as usize;
    if too_big && header.frag_off & weir_packet::header::ipv4::IP_DF != 0 {
        let mib = cx.mib(ns);
        mib.ip.add(Ip::OutRequests, 1);
        mib.ip.add(Ip::OutOctets, packet.len() as u64);
        mib.ip.add(Ip::FragFails, 1);
        return cx.drop(at, Place::Ipv4Out, DropReason::PKT_TOO_BIG, packet);
    }
    send(cx, at, ns, &route.hop, packet);
}

/// Maps a type of service to a packet priority (`rt_tos2priority`).
#[inline]
pub fn priority(tos: u8) -> u32 {
    const CLASSES: [u8; 16] = [0, 0, 0, 0, 2, 2, 2, 2, 6, 6, 6, 6, 4, 4, 4, 4];
    u32::from(CLASSES[usize::from(tos >> 1 & 15)])
}

impl super::Net {
    /// Returns the identification of the next locally generated packet. It counts up from a seeded
    /// start. (Linux counts per destination, with random steps.)
    fn next_id(&self, ns: &Namespace) -> u16 {
        let count = self.ids.fetch_add(1, Relaxed);
        (crate::random::mix(ns.id.0) as u16).wrapping_add(count as u16)
    }
}
