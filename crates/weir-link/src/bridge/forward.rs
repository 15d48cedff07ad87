// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The data path of a bridge (`br_input.c`, `br_forward.c`, `br_device.c`).

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use weir_netlink::ifla::brport;
use weir_packet::header::Ethernet;
use weir_packet::{Batch, DropReason, LongPackets, Packet, PacketType};

use super::Bridge;
use super::config::word;
use super::port::{Port, state};
use crate::RxHandler;
use crate::cpu::Cx;
use crate::device::{Device, Mac};
use crate::drops::Place;

/// Takes the frames of a port.
pub struct Entrance {
    /// The bridge.
    pub bridge: Arc<Bridge>,
    /// The port.
    pub port: Arc<Port>,
}

const BROADCAST: Mac = [0xff; 6];

/// Collects consecutive frames to one place, and passes them on together.
#[derive(Default)]
struct Out {
    port: Option<Arc<Port>>,
    batch: Batch,
    up: Batch,
}

impl Out {
    fn send(&mut self, cx: &mut Cx<'_>, port: &Arc<Port>, packet: Packet) {
        if self.batch.is_full() || !self.port.as_ref().is_some_and(|at| Arc::ptr_eq(at, port)) {
            self.flush(cx);
            self.port = Some(port.clone());
        }
        // There is room: a full batch has just been sent.
        let _ = self.batch.push(packet);
    }

    fn flush(&mut self, cx: &mut Cx<'_>) {
        if let Some(port) = self.port.take()
            && !self.batch.is_empty()
        {
            cx.transmit(&port.device, self.batch.take());
        }
    }
}

impl RxHandler for Entrance {
    fn receive(&self, cx: &mut Cx<'_>, device: &Arc<Device>, batch: Batch) {
        let Some(own) = self.bridge.device() else {
            return cx.drop_batch(device, Place::Receive, DropReason::DEV_READY, batch);
        };
        let guard = cx.guard;
        // The look-ups of all sources and destinations overlap their cache misses.
        let mut keys = [0; 128];
        for (pair, packet) in keys.chunks_exact_mut(2).zip(batch.iter()) {
            if let (Some(eth), [from, to]) = (Ethernet::new(packet.data()), pair) {
                (*from, *to) = (word(eth.src()), word(eth.dst()));
            }
        }
        let count = batch.len() * 2;
        let mut found = [None; 128];
        let entries = &self.bridge.table.entries;
        entries.get_many(&keys[..count], guard, &mut found[..count]);
        let mut out = Out::default();
        for (at, packet) in batch.into_iter().enumerate() {
            let (from, to) = (found[at * 2], found[at * 2 + 1]);
            self.take(cx, &own, (keys[at * 2], from, to), packet, &mut out);
        }
        out.flush(cx);
        if !out.up.is_empty() {
            let up = out.up.take();
            (cx.stack.layers.path.steered)(cx, &own, up);
        }
    }

    fn long_packets(&self) -> LongPackets {
        LongPackets::NONE
    }
}

type Known<'g> = Option<&'g Arc<super::fdb::Entry>>;

impl Entrance {
    /// Takes one frame (`br_handle_frame`, `br_handle_frame_finish`).
    fn take(
        &self,
        cx: &mut Cx<'_>,
        own: &Arc<Device>,
        (address, from, to): (u64, Known<'_>, Known<'_>),
        packet: Packet,
        out: &mut Out,
    ) {
        let (bridge, port) = (&self.bridge, &*self.port);
        let refuse = |cx: &Cx<'_>, reason, packet| {
            cx.drop(&port.device, Place::Receive, reason, packet);
        };
        let Some(eth) = Ethernet::new(packet.data()) else {
            return refuse(cx, DropReason::PKT_TOO_SMALL, packet);
        };
        let (src, dst) = (eth.src(), eth.dst());
        if src[0] & 1 != 0 || src == [0; 6] {
            return refuse(cx, DropReason::MAC_INVALID_SOURCE, packet);
        }
        let now = cx.now;
        let learns = port.has(brport::LEARNING)
            && matches!(
                port.state.load(Relaxed),
                state::LEARNING | state::FORWARDING
            );
        let learn = |cx: &Cx<'_>| {
            if learns {
                // An earlier frame of the batch may have made the entry, which a second look-up finds.
                bridge.learn((cx.stack, cx.guard), now, port, address, from);
            }
        };
        if let [0x01, 0x80, 0xc2, 0, 0, last @ 0..=15] = dst {
            let mask =
                bridge.settings.group_forward.load(Relaxed) | port.group_forward.load(Relaxed);
            // Without the spanning tree protocol, its frames are forwarded.
            let forward = match last {
                0 => true,
                1 => return refuse(cx, DropReason::MAC_IEEE_MAC_CONTROL, packet),
                last => mask >> last & 1 != 0,
            };
            if !forward {
                learn(cx);
                return refuse(cx, DropReason::UNHANDLED_PROTO, packet);
            }
        }
        if !matches!(
            port.state.load(Relaxed),
            state::LEARNING | state::FORWARDING
        ) {
            return refuse(cx, DropReason::BRIDGE_INGRESS_STP_STATE, packet);
        }
        learn(cx);
        if !port.forwards() {
            return refuse(cx, DropReason::BRIDGE_INGRESS_STP_STATE, packet);
        }
        let mut local = bridge.settings.promiscuous.load(Relaxed);
        if dst[0] & 1 != 0 {
            if dst != BROADCAST {
                own.stats(cx.state.id).multicast.fetch_add(1, Relaxed);
            }
            local = true;
        } else if let Some(entry) = to {
            if entry.is_local() {
                return bridge.pass_up(cx, own, dst, packet, out);
            }
            entry.touch(now);
            let target = bridge.ports.load(cx.guard).numbered(entry.port());
            let target = target.filter(|target| should_deliver(target, Some(port)));
            let copy = local.then(|| packet.copy()).flatten();
            match target {
                Some(target) => send(cx, target, packet, out),
                None => cx.consume(packet),
            }
            if let Some(copy) = copy {
                bridge.pass_up(cx, own, dst, copy, out);
            }
            return;
        }
        let copy = local.then(|| packet.copy()).flatten();
        bridge.flood(cx, Some(port), dst, packet, out);
        if let Some(copy) = copy {
            bridge.pass_up(cx, own, dst, copy, out);
        }
    }
}

/// Returns whether a frame from a port, or from the bridge itself, may leave by `to` (`should_deliver`).
fn should_deliver(to: &Port, from: Option<&Port>) -> bool {
    let back = from.is_some_and(|from| from.number == to.number) && !to.has(brport::MODE);
    let isolated = to.has(brport::ISOLATED) && from.is_some_and(|from| from.has(brport::ISOLATED));
    !back && to.forwards() && !isolated
}

/// Sends a frame by a port, if it is not too long (`br_dev_queue_push_xmit`).
fn send(cx: &mut Cx<'_>, to: &Arc<Port>, packet: Packet, out: &mut Out) {
    let device = &to.device;
    // The MTU, the Ethernet header, and a VLAN tag (`is_skb_forwardable`).
    let longest = device.mtu() as usize + Ethernet::LEN + 4;
    if !device.is_up() {
        return cx.drop(device, Place::Transmit, DropReason::DEV_READY, packet);
    }
    if packet.len() > longest && packet.segments().is_none() {
        return cx.drop(device, Place::Transmit, DropReason::PKT_TOO_BIG, packet);
    }
    out.send(cx, to, packet);
}

impl Bridge {
    /// Passes a frame to the bridge's own device (`br_pass_frame_up`).
    fn pass_up(
        &self,
        cx: &mut Cx<'_>,
        own: &Arc<Device>,
        dst: Mac,
        mut packet: Packet,
        out: &mut Out,
    ) {
        if !own.is_up() {
            return cx.drop(own, Place::Receive, DropReason::DEV_READY, packet);
        }
        let stats = own.stats(cx.state.id);
        stats.rx_packets.fetch_add(1, Relaxed);
        let len = packet.len().saturating_sub(Ethernet::LEN);
        stats.rx_bytes.fetch_add(len as u64, Relaxed);
        (packet.dev, packet.iif) = (own.key.0, own.ifindex());
        if dst == own.address() {
            packet.set_pkt_type(PacketType::Host);
        }
        if out.up.is_full() {
            let up = out.up.take();
            (cx.stack.layers.path.steered)(cx, own, up);
        }
        // There is room: a full batch has just been passed on.
        let _ = out.up.push(packet);
    }

    /// Sends a frame by all ports that flood its kind (`br_flood`).
    fn flood(&self, cx: &mut Cx<'_>, from: Option<&Port>, dst: Mac, packet: Packet, out: &mut Out) {
        // The bridge's own group frames leave by every port.
        let flag = match dst {
            BROADCAST => brport::BCAST_FLOOD,
            [first, ..] if first & 1 != 0 => brport::MCAST_FLOOD,
            _ => brport::UNICAST_FLOOD,
        };
        let always = from.is_none() && dst[0] & 1 != 0;
        let mut last: Option<&Arc<Port>> = None;
        for port in &self.ports.load(cx.guard).list {
            if !always && !port.has(flag) || !should_deliver(port, from) {
                continue;
            }
            if let Some(before) = last.replace(port) {
                match packet.copy() {
                    Some(copy) => send(cx, before, copy, out),
                    None => before.device.count_drop(Place::Transmit, DropReason::NOMEM),
                }
            }
        }
        match last {
            Some(port) => send(cx, port, packet, out),
            None => cx.consume(packet),
        }
    }

    /// Sends the frames of the bridge's own device (`br_dev_xmit`).
    pub fn transmit(&self, cx: &mut Cx<'_>, device: &Arc<Device>, batch: Batch) {
        let stats = device.stats(cx.state.id);
        stats.tx_packets.fetch_add(batch.len() as u64, Relaxed);
        stats.tx_bytes.fetch_add(batch.bytes(), Relaxed);
        let mut out = Out::default();
        for packet in batch {
            let Some(eth) = Ethernet::new(packet.data()) else {
                cx.drop(device, Place::Transmit, DropReason::PKT_TOO_SMALL, packet);
                continue;
            };
            let dst = eth.dst();
            let entry = self.table.entries.get(&word(dst), cx.guard);
            match entry.filter(|_| dst[0] & 1 == 0) {
                None => self.flood(cx, None, dst, packet, &mut out),
                Some(entry) => {
                    entry.touch(cx.now);
                    let port = self.ports.load(cx.guard).numbered(entry.port());
                    match port.filter(|port| should_deliver(port, None)) {
                        Some(port) => send(cx, port, packet, &mut out),
                        None => cx.consume(packet),
                    }
                }
            }
        }
        out.flush(cx);
    }
}
