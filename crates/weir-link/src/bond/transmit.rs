// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The data path of a bond: the port of each packet that is sent (`bond_start_xmit`), and what becomes of received
//! frames (`bond_handle_frame`).

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use weir_netlink::ifla::bond as attr;
use weir_packet::dissect::{FlowKeys, Used, dissect};
use weir_packet::header::ethernet::{ETH_P_IP, ETH_P_IPV6, ETH_P_TEB};
use weir_packet::header::{Ethernet, Ipv4};
use weir_packet::{Batch, DropReason, LongPackets, Packet};

use super::Bond;
use super::options::{mode, policy};
use super::slave::Slave;
use crate::RxHandler;
use crate::cpu::Cx;
use crate::device::Device;
use crate::drops::Place;

const ICMP: u8 = 1;
const IGMP: u8 = 2;
const IPIP: u8 = 4;
const IPV6: u8 = 41;
const GRE: u8 = 47;
const ICMPV6: u8 = 58;

/// Takes the frames of a port.
pub struct Entrance {
    /// The bond.
    pub bond: Arc<Bond>,
    /// The port.
    pub slave: Arc<Slave>,
}

/// Returns whether a frame goes to a group that bridges keep, 01:80:c2:00:00:00 to 0f (`is_link_local_ether_addr`).
fn is_link_local(packet: &Packet) -> bool {
    let dst = Ethernet::new(packet.data()).map(|eth| eth.dst());
    matches!(dst, Some([0x01, 0x80, 0xc2, 0, 0, 0..=15]))
}

impl RxHandler for Entrance {
    fn receive(&self, cx: &mut Cx<'_>, device: &Arc<Device>, mut batch: Batch) {
        if self.bond.uses_lacp() {
            batch = self.bond.probe_lacp(cx, &self.slave, batch);
            if batch.is_empty() {
                return;
            }
        }
        if self.bond.arp_interval() != 0 {
            self.bond.note_received(cx, &self.slave, &batch);
        }
        if self.slave.is_inactive() {
            let mut passed = Batch::new();
            for packet in batch {
                match is_link_local(&packet) {
                    // There is room: the part is no larger than the batch it is taken from.
                    true => drop(passed.push(packet)),
                    // It is for those who listen at the port itself.
                    false => cx.drop(device, Place::Receive, DropReason::UNHANDLED_PROTO, packet),
                }
            }
            if !passed.is_empty() {
                (cx.stack.layers.path.unhandled)(cx, device, &mut passed);
            }
            return;
        }
        let own = self.bond.device().filter(|own| own.is_up());
        let Some(own) = own else {
            return cx.drop_batch(device, Place::Receive, DropReason::DEV_READY, batch);
        };
        let place = (own.key.0, own.ifindex());
        for packet in batch.iter_mut() {
            (packet.dev, packet.iif) = place;
        }
        (cx.stack.layers.path.steered)(cx, &own, &mut batch);
    }

    fn long_packets(&self) -> LongPackets {
        LongPackets {
            max_len: u32::MAX,
            udp: true,
        }
    }
}

/// Collects consecutive packets for one port, and passes them on together.
#[derive(Default)]
struct Out<'g> {
    to: Option<&'g Arc<Slave>>,
    batch: Batch,
}

impl<'g> Out<'g> {
    fn send(&mut self, cx: &mut Cx<'_>, to: &'g Arc<Slave>, packet: Packet) {
        if self.batch.is_full() || self.to.is_some_and(|before| !Arc::ptr_eq(before, to)) {
            self.flush(cx);
        }
        self.to = Some(to);
        // There is room: a full batch has just been sent.
        let _ = self.batch.push(packet);
    }

    fn flush(&mut self, cx: &mut Cx<'_>) {
        if let Some(to) = self.to.take()
            && !self.batch.is_empty()
        {
            cx.transmit(&to.device, self.batch.take());
        }
    }
}

impl Bond {
    /// Takes the frames that a port receives from now on.
    pub fn take_frames_of(self: &Arc<Self>, slave: &Arc<Slave>) {
        slave.device.set_rx_handler(Some(Arc::new(Entrance {
            bond: self.clone(),
            slave: slave.clone(),
        })));
    }

    /// Sends packets, each by the port that the mode chooses.
    pub fn transmit(&self, cx: &mut Cx<'_>, device: &Arc<Device>, batch: Batch) {
        let guard = cx.guard;
        let slaves = self.slaves(guard);
        let (mode, usable) = (self.params.mode(), self.usable.load(guard));
        let mut out = Out::default();
        for mut packet in batch {
            if let Some(slave) = self.override_of(cx, slaves, &packet) {
                packet.queue = 0;
                out.send(cx, slave, packet);
                continue;
            }
            let slave = match mode {
                mode::ACTIVE_BACKUP => self.active(guard),
                mode::ROUND_ROBIN => self.next(cx, device, slaves, &packet),
                mode::BROADCAST => {
                    self.broadcast(cx, device, slaves, packet, &mut out);
                    continue;
                }
                _ => {
                    let number = self.hash(&packet).checked_rem(usable.len() as u32);
                    number.and_then(|number| usable.get(number as usize))
                }
            };
            match slave {
                Some(slave) => out.send(cx, slave, packet),
                None => self.no_port(cx, device, packet),
            }
        }
        out.flush(cx);
    }

    /// Drops a packet for which there is no port (`bond_tx_drop`).
    fn no_port(&self, cx: &Cx<'_>, device: &Device, packet: Packet) {
        let stats = device.stats(cx.state.id);
        stats.tx_dropped.fetch_add(1, Relaxed);
        cx.drop(device, Place::Transmit, DropReason::NOT_SPECIFIED, packet);
    }

    /// Returns the port with the packet's queue number, if one has it (`bond_slave_override`).
    fn override_of<'g>(
        &self,
        cx: &Cx<'_>,
        slaves: &'g [Arc<Slave>],
        packet: &Packet,
    ) -> Option<&'g Arc<Slave>> {
        if packet.queue == 0 {
            return None;
        }
        let mut slaves = slaves.iter();
        let found = slaves.find(|slave| slave.queue.load(Relaxed) == packet.queue)?;
        Some(found).filter(|slave| slave.has_link() && slave.is_running(cx.stack))
    }

    /// Returns the next port of balance-rr (`bond_xmit_roundrobin_slave_get`).
    fn next<'g>(
        &'g self,
        cx: &Cx<'g>,
        device: &Device,
        slaves: &'g [Arc<Slave>],
        packet: &Packet,
    ) -> Option<&'g Arc<Slave>> {
        // The reports of groups leave by one port.
        if packet.protocol == ETH_P_IP
            && let Some(header) = Ipv4::new(packet.network())
            && header.protocol() == IGMP
        {
            let first = || numbered(cx, slaves, 0);
            return self.active(cx.guard).or_else(first);
        }
        let number = match self.params.get(attr::PACKETS_PER_SLAVE) {
            0 => device.draw(cx.stack.config.seed, cx.guard),
            share => self.sent.fetch_add(1, Relaxed).wrapping_add(1) / share,
        };
        let number = number.checked_rem(slaves.len() as u32)?;
        numbered(cx, slaves, number as usize)
    }

    /// Sends a packet by every port (`bond_xmit_broadcast`).
    fn broadcast<'g>(
        &self,
        cx: &mut Cx<'_>,
        device: &Device,
        slaves: &'g [Arc<Slave>],
        packet: Packet,
        out: &mut Out<'g>,
    ) {
        let mut last: Option<&Arc<Slave>> = None;
        for slave in slaves {
            if !slave.has_link() || !slave.is_running(cx.stack) {
                continue;
            }
            if let Some(before) = last.replace(slave) {
                match packet.copy() {
                    Some(copy) => out.send(cx, before, copy),
                    None => before.device.count_drop(Place::Transmit, DropReason::NOMEM),
                }
            }
        }
        match last {
            Some(last) => out.send(cx, last, packet),
            None => self.no_port(cx, device, packet),
        }
    }

    /// Hashes a packet by the policy (`bond_xmit_hash`).
    fn hash(&self, packet: &Packet) -> u32 {
        match self.params.get(attr::XMIT_HASH_POLICY) {
            policy::LAYER2 => ethernet_hash(packet),
            policy::VLAN_SRCMAC => vlan_hash(packet),
            chosen => {
                let flow = match chosen {
                    policy::ENCAP23 | policy::ENCAP34 => inner_flow(packet),
                    _ => outer_flow(packet, chosen == policy::LAYER34),
                };
                let Some(flow) = flow else {
                    return ethernet_hash(packet);
                };
                match chosen {
                    policy::LAYER23 | policy::ENCAP23 => mix(ethernet_hash(packet), &flow),
                    _ => mix(flow.ports, &flow) >> 1,
                }
            }
        }
    }
}

/// Returns the port at a place, or the next one that may send (`bond_get_slave_by_id`).
fn numbered<'g>(cx: &Cx<'_>, slaves: &'g [Arc<Slave>], number: usize) -> Option<&'g Arc<Slave>> {
    let (before, from) = slaves.split_at_checked(number)?;
    let mut order = from.iter().chain(before);
    order.find(|slave| slave.can_send(cx.stack))
}

/// The parts of a flow's identity that are hashed (`struct flow_keys`).
struct Flow {
    /// The addresses, folded together.
    addresses: u32,
    /// Both ports as they are on the wire, or type, code and id of an ICMP message with an id.
    ports: u32,
}

/// `bond_ip_hash`
fn mix(mut hash: u32, flow: &Flow) -> u32 {
    hash ^= flow.addresses;
    hash ^= hash >> 16;
    hash ^ hash >> 8
}

/// `bond_eth_hash`
fn ethernet_hash(packet: &Packet) -> u32 {
    let Some(eth) = Ethernet::new(packet.data()) else {
        return 0;
    };
    let last = |[.., last]: [u8; 6]| u32::from(last);
    last(eth.dst()) ^ last(eth.src()) ^ u32::from(eth.ethertype())
}

/// `bond_vlan_srcmac_hash`
fn vlan_hash(packet: &Packet) -> u32 {
    let Some(eth) = Ethernet::new(packet.data()) else {
        return 0;
    };
    let [a, b, c, d, e, f] = eth.src();
    let vlan = packet.vlan().map_or(0, |tag| u32::from(tag.tci));
    vlan ^ u32::from_be_bytes([0, a, b, c]) ^ u32::from_be_bytes([0, d, e, f])
}

/// Folds addresses as the words that they are in memory (`flow_get_u32_src`).
fn fold(addresses: &[u8]) -> u32 {
    let words = addresses.chunks_exact(4);
    words
        .filter_map(|word| word.try_into().ok().map(u32::from_le_bytes))
        .fold(0, |all, word| all ^ word)
}

/// An IP header: addresses, protocol unless it is a fragment, and the rest of the packet.
struct Header<'a> {
    addresses: u32,
    protocol: Option<u8>,
    rest: &'a [u8],
}

/// `bond_flow_ip`
fn header(protocol: u16, data: &[u8]) -> Option<Header<'_>> {
    match protocol {
        ETH_P_IP => {
            let head: &[u8; 20] = data.first_chunk()?;
            let [fragment, more] = [head[6], head[7]];
            let whole = (fragment & 0x3f, more) == (0, 0);
            let len = usize::from(head[0] & 15) * 4;
            Some(Header {
                addresses: fold(&head[12..20]),
                protocol: whole.then_some(head[9]),
                rest: data.get(len..).unwrap_or_default(),
            })
        }
        ETH_P_IPV6 => {
            let (head, rest) = data.split_first_chunk::<40>()?;
            Some(Header {
                addresses: fold(&head[8..40]),
                protocol: Some(head[6]),
                rest,
            })
        }
        _ => None,
    }
}

/// Returns the ports of a protocol as they are on the wire (`__skb_flow_get_ports`).
fn ports(protocol: Option<u8>, rest: &[u8]) -> u32 {
    let at = match protocol {
        // TCP, UDP, DCCP, ESP, SCTP, UDP-Lite.
        Some(6 | 17 | 33 | 50 | 132 | 136) => 0,
        // AH
        Some(51) => 4,
        _ => return 0,
    };
    let words = rest.get(at..).and_then(|rest| rest.first_chunk());
    words.map_or(0, |words| u32::from_le_bytes(*words))
}

/// Returns type, code and id of an ICMP message, or 0 if it has no id (`skb_flow_get_icmp_tci`).
fn icmp_id(rest: &[u8]) -> u32 {
    let Some([ty @ (0 | 8 | 13 | 14 | 128 | 129), code, _, _, high, low]) = rest.first_chunk()
    else {
        return 0;
    };
    let id = u16::from_be_bytes([*high, *low]).max(1);
    let [low, high] = id.to_le_bytes();
    u32::from_le_bytes([*ty, *code, low, high])
}

/// Reads the outer headers, and those of the packet that an ICMP error is about (`bond_flow_dissect`).
fn outer_flow(packet: &Packet, with_ports: bool) -> Option<Flow> {
    let head = header(packet.protocol, packet.network())?;
    let ports_of = |head: &Header<'_>| match with_ports {
        true => ports(head.protocol, head.rest),
        false => 0,
    };
    let about = match (head.protocol, head.rest.first()) {
        (Some(ICMP), Some(3 | 4 | 5 | 11 | 12)) | (Some(ICMPV6), Some(1..=4)) => {
            head.rest.get(8..).unwrap_or_default()
        }
        (Some(ICMP | ICMPV6), _) => {
            return Some(Flow {
                addresses: head.addresses,
                ports: icmp_id(head.rest),
            });
        }
        _ => {
            return Some(Flow {
                addresses: head.addresses,
                ports: ports_of(&head),
            });
        }
    };
    let inner = header(packet.protocol, about)?;
    Some(Flow {
        addresses: inner.addresses,
        ports: ports_of(&inner),
    })
}

/// Returns what IP carries if that is IP again, plainly or in GRE (`__skb_flow_dissect`): the protocol and the rest.
fn carried<'a>(head: &Header<'a>) -> Option<(u16, &'a [u8])> {
    match head.protocol? {
        IPIP => Some((ETH_P_IP, head.rest)),
        IPV6 => Some((ETH_P_IPV6, head.rest)),
        GRE => {
            let [flags, version, high, low] = *head.rest.first_chunk()?;
            // A checksum, a key and a sequence number take four octets each. Routing ends the way.
            let options = (flags & 0xb0).count_ones() as usize;
            let rest = head.rest.get(4 + 4 * options..)?;
            match (version & 7, flags & 0x40, u16::from_be_bytes([high, low])) {
                (0, 0, protocol @ (ETH_P_IP | ETH_P_IPV6)) => Some((protocol, rest)),
                (0, 0, ETH_P_TEB) => {
                    let eth = Ethernet::new(rest)?;
                    Some((eth.ethertype(), rest.get(14..)?))
                }
                _ => None,
            }
        }
        _ => None,
    }
}

/// Reads the innermost headers (`flow_keys_bonding`).
fn inner_flow(packet: &Packet) -> Option<Flow> {
    let outer = header(packet.protocol, packet.network());
    let Some(mut next) = outer.as_ref().and_then(carried) else {
        return dissected(packet);
    };
    loop {
        let head = header(next.0, next.1)?;
        match carried(&head) {
            Some(further) => next = further,
            None => {
                return Some(Flow {
                    addresses: head.addresses,
                    ports: match head.protocol {
                        Some(ICMP | ICMPV6) => icmp_id(head.rest),
                        protocol => ports(protocol, head.rest),
                    },
                });
            }
        }
    }
}

/// Reads the headers of a packet that carries no other.
fn dissected(packet: &Packet) -> Option<Flow> {
    let mut keys = FlowKeys::EMPTY;
    let used = Used::FIVE_TUPLE | Used::ICMP;
    let found = dissect(packet, used, &mut keys);
    if !found.good {
        return None;
    }
    let addresses = fold(&keys.src) ^ fold(&keys.dst);
    let ports = match keys.ip_proto {
        ICMP | ICMPV6 => {
            let at = packet.network().get(found.transport..);
            icmp_id(at.unwrap_or_default())
        }
        _ => {
            let [a, b] = keys.src_port.to_be_bytes();
            let [c, d] = keys.dst_port.to_be_bytes();
            u32::from_le_bytes([a, b, c, d])
        }
    };
    Some(Flow { addresses, ports })
}
