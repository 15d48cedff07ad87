// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Outgoing packets: grouping by next hop, fragmentation, and the creation of locally generated
//! packets (`ip_output`, `ip_finish_output`, `ip_push_pending_frames`).

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use weir_netlink::rta;
use weir_packet::header::ipv4::{fill_check, ipv4};
use weir_packet::header::{Ipv4 as Ipv4Header, Ipv4Mut, ipv4_options};
use weir_packet::{Batch, DropReason, Flags, List, Packet, PacketType};

use super::route::{Hop, Output};
use super::{fragment, route, select};
use crate::cpu::Cx;
use crate::device::Device;
use crate::drops::Place;
use crate::fib::encap::{self, Encap};
use crate::ipv4::WithIpv4;
use crate::l3mdev;
use crate::mib::Count;
use crate::mib::Ip;
use crate::namespace::Namespace;
use crate::neigh::{self, Run};
use crate::settings::Ipv4;
use crate::settings::WithSettings;

/// Runs of packets with their devices.
#[derive(Default)]
struct Runs<'g> {
    runs: List<Run<'g>>,
    devices: List<&'g Arc<Device>>,
}

/// Outgoing packets with their next hops, in order.
#[derive(Default)]
pub struct Groups<'g> {
    packets: Batch,
    to: Runs<'g>,
    /// The packets go to more than one device.
    several: bool,
}

impl<'g> Runs<'g> {
    /// Returns the last run and its device.
    #[inline]
    fn last(&mut self) -> Option<(&mut Run<'g>, &'g Arc<Device>)> {
        let device = *self.devices.last()?;
        Some((self.runs.last_mut()?, device))
    }

    /// Appends a run. There is room as long as there are no more runs than packets.
    #[inline]
    fn push(&mut self, run: Run<'g>, device: &'g Arc<Device>) {
        self.runs.push(run);
        self.devices.push(device);
    }

    #[inline]
    fn clear(&mut self) {
        self.runs.clear();
        self.devices.clear();
    }
}

impl<'g> Groups<'g> {
    /// Adds a packet that fits the MTU.
    #[inline]
    pub fn push(&mut self, cx: &mut Cx<'_>, hop: &Hop<'g>, packet: Packet) {
        let Some(packet) = attach(cx, hop, packet) else {
            return;
        };
        if self.packets.is_full() {
            self.flush(cx);
        }
        match self.to.last() {
            Some((run, device)) if Arc::ptr_eq(device, hop.device) && is_to(run, hop) => {
                run.count += 1;
            }
            last => {
                let other = last.is_some_and(|(_, device)| !Arc::ptr_eq(device, hop.device));
                self.several |= other;
                self.to.push(run_to(hop), hop.device);
            }
        }
        // There is room: a full batch has just been sent.
        let _ = self.packets.push(packet);
    }

    /// Sends all packets as one batch per device, in order of first use.
    pub fn flush(&mut self, cx: &mut Cx<'_>) {
        let several = std::mem::take(&mut self.several);
        let mut packets = self.packets.take();
        while let Some(device) = self.to.devices.first().copied()
            && !packets.is_empty()
        {
            if !several {
                send_runs(cx, device, &self.to.runs, &mut packets);
                break;
            }
            let (mut mine, mut others) = (Runs::default(), Runs::default());
            let (mut part, mut rest) = (Batch::new(), Batch::new());
            let mut all = packets.into_iter();
            for (run, of) in self.to.runs.iter().zip(self.to.devices.iter()) {
                let here = Arc::ptr_eq(of, device);
                let (runs, batch) = match here {
                    true => (&mut mine, &mut part),
                    false => (&mut others, &mut rest),
                };
                runs.push(*run, of);
                for packet in all.by_ref().take(run.count) {
                    // There is room: both parts together are one batch.
                    let _ = batch.push(packet);
                }
            }
            send_runs(cx, device, &mine.runs, &mut part);
            (self.to, packets) = (others, rest);
        }
        self.to.clear();
    }
}

#[inline]
fn is_to(run: &Run<'_>, hop: &Hop<'_>) -> bool {
    run.next_hop == hop.next_hop && run.broadcast == hop.broadcast
}

/// Returns the run of one packet to a hop.
#[inline]
fn run_to<'g>(hop: &Hop<'g>) -> Run<'g> {
    Run {
        next_hop: hop.next_hop,
        broadcast: hop.broadcast,
        count: 1,
        via: hop.via,
    }
}

/// Attaches what the hop puts on its packets. Returns `None` if the packet was dropped for that.
#[inline]
fn attach(cx: &mut Cx<'_>, hop: &Hop<'_>, packet: Packet) -> Option<Packet> {
    encap::attach(hop.encap, cx, (&**hop.device, Place::Ipv4Out), packet)
}

/// Returns whether a packet goes to a hop as it is.
#[inline]
fn fits(hop: &Hop<'_>, packet: &Packet) -> bool {
    // Labels go on packets of the wire.
    let split = Encap::is_mpls(hop.encap) && packet.segments().is_some();
    packet.network_len() <= hop.mtu as usize && !split
}

/// Sends runs on a device and counts those to groups. Leaves the batch empty.
fn send_runs(cx: &mut Cx<'_>, device: &Arc<Device>, runs: &[Run<'_>], batch: &mut Batch) {
    let mut at = 0;
    for run in runs {
        let counters = if run.broadcast {
            (Ip::OutBcastPkts, Ip::OutBcastOctets)
        } else if run.next_hop.is_multicast() {
            (Ip::OutMcastPkts, Ip::OutMcastOctets)
        } else {
            at += run.count;
            continue;
        };
        let packets = batch.get(at..at + run.count).unwrap_or_default();
        let octets: u64 = packets.iter().map(|packet| packet.len() as u64).sum();
        at += run.count;
        let ip = &cx.mib(device.namespace(cx.guard)).ip;
        ip.add(counters.0, run.count as u64);
        ip.add(counters.1, octets);
    }
    neigh::output_runs(cx, device, runs, batch);
}

/// Sends one packet, by way of the VRF whose port the device may be, and fragmented if necessary (`ip_local_out`). A packet
/// that cannot be sent is counted at the device `at`.
pub fn send(cx: &mut Cx<'_>, at: &Device, ns: &Namespace, hop: &Hop<'_>, packet: Packet) {
    count(cx, ns, packet.len());
    if let Some(packet) = l3mdev::divert(cx, hop.device, packet, stays_on_link) {
        finish(cx, at, ns, hop, packet);
    }
}

/// Returns whether a packet is to a group or to all hosts of a link.
fn stays_on_link(packet: &Packet) -> bool {
    let dst = Ipv4Header::new(packet.data()).map(|header| Ipv4Addr::from(header.dst()));
    dst.is_none_or(|dst| dst.is_multicast() || dst.is_broadcast())
}

/// Counts a packet that our host sends, of so many bytes.
fn count(cx: &Cx<'_>, ns: &Namespace, len: usize) {
    let mib = cx.mib(ns);
    mib.ip.add(Ip::OutRequests, 1);
    mib.ip.add(Ip::OutOctets, len as u64);
}

/// Sends a packet that has been through the VRF's qdisc, and counts it again, as Linux does.
pub fn send_past_vrf(cx: &mut Cx<'_>, at: &Device, ns: &Namespace, hop: &Hop<'_>, packet: Packet) {
    count(cx, ns, packet.len());
    finish(cx, at, ns, hop, packet);
}

/// Sends a packet to its next hop (`ip_finish_output`).
fn finish(cx: &mut Cx<'_>, at: &Device, ns: &Namespace, hop: &Hop<'_>, packet: Packet) {
    if fits(hop, &packet) {
        if let Some(packet) = attach(cx, hop, packet) {
            send_runs(cx, hop.device, &[run_to(hop)], &mut Batch::from(packet));
        }
        return;
    }
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
    if fits(hop, &packet) {
        return groups.push(cx, hop, packet);
    }
    if packet.segments().is_some() {
        return push_segments(cx, at, ns, hop, packet, groups);
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

/// Splits a long packet whose segments do not fit, and fragments each (`ip_finish_output_gso`).
#[cold]
fn push_segments<'g>(
    cx: &mut Cx<'_>,
    at: &Device,
    ns: &Namespace,
    hop: &Hop<'g>,
    packet: Packet,
    groups: &mut Groups<'g>,
) {
    crate::segments::each(cx, at, Place::Ipv4Out, packet, |cx, segment| {
        push_fitting(cx, at, ns, hop, segment, groups);
    });
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

/// Finishes a header that the packet begins with, and behind which are as many bytes of options: fills in what they ask for.
pub(super) fn finish_options(cx: &Cx<'_>, ns: &Namespace, packet: &mut Packet, len: usize) {
    if len == 0 {
        return;
    }
    let words = (Ipv4Header::LEN + len) / 4;
    let Some(mut fields) = Ipv4Mut::new(packet.data_mut()) else {
        return;
    };
    fields.set_version_ihl(0x40 | words as u8);
    let src = Ipv4Header::new(packet.data()).map_or([0; 4], |header| header.src());
    let guard = cx.guard;
    let here = ipv4_options::Here {
        address: src,
        time: cx.stack.clock.day_time(cx.now),
        elsewhere: &|address| route::is_elsewhere(ns, address, guard),
    };
    if let Some(header) = packet.data_mut().get_mut(..words * 4) {
        ipv4_options::send(header, &here);
    }
    fill_check(packet.data_mut());
}

/// Creates and sends a locally generated packet with these options, as [`Chosen`](ipv4_options::Chosen) has them, whose payload
/// is the concatenation of `parts`.
/// Failures are counted at the device `at`.
pub fn send_own(
    cx: &mut Cx<'_>,
    at: &Arc<Device>,
    ns: &Namespace,
    route: &Output<'_>,
    header: &Header,
    options: &[u8],
    parts: &[&[u8]],
) {
    let len: usize = parts.iter().map(|part| part.len()).sum();
    let len = options.len() + len;
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
    let written = packet.append(&head)
        && packet.append(options)
        && parts.iter().all(|part| packet.append(part));
    debug_assert!(written, "the packet was allocated with room");
    finish_options(cx, ns, &mut packet, options.len());
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

/// Records the address of the outgoing device (`ip_forward_options`).
pub(super) fn record_out(
    cx: &Cx<'_>,
    ns: &Namespace,
    packet: &mut Packet,
    hop: &Hop<'_>,
    options: &ipv4_options::Compiled,
) {
    let Some(header) = Ipv4Header::new(packet.data()) else {
        return;
    };
    let (dst, len) = (header.dst().into(), header.header_len());
    let address = select::select_address(ns, hop.device, dst, rta::scope::UNIVERSE, cx.guard);
    if let (Some(address), Some(header)) = (address, packet.data_mut().get_mut(..len))
        && ipv4_options::forward(header, options, address.octets())
    {
        fill_check(header);
    }
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
    pub(super) fn next_id(&self, ns: &Namespace) -> u16 {
        let count = self.ids.fetch_add(1, Relaxed);
        (crate::random::mix(ns.id.0) as u16).wrapping_add(count as u16)
    }
}
