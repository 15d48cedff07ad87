// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The data path of a bridge (`br_input.c`, `br_forward.c`, `br_device.c`).

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use weir_netlink::ifla::brport;
use weir_packet::header::ethernet::BROADCAST;
use weir_packet::header::{ETH_P_IP, ETH_P_IPV6, Ethernet};
use weir_packet::{Batch, DropReason, LongPackets, Packet, PacketType, VlanTag, edit};
use weir_sync::rcu::Guard;

use super::Bridge;
use super::fdb::key;
use super::multicast::message::Heard;
use super::multicast::{Audience, Group as To, Target};
use super::port::Port;
use super::vlan::{Group, Vlan};
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

/// The VLAN of a frame, as the bridge filters it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lane {
    /// The bridge does not filter VLANs.
    Any,
    /// The frame is in the VLAN.
    In(u16),
    /// The frame is in the VLAN, which only learns where the frame has arrived.
    Learning(u16),
    /// The port of arrival is not in the frame's VLAN, or the frame has none.
    Refused,
}

impl Lane {
    /// Returns the VLAN id under which addresses are learned and found.
    fn vid(self) -> u16 {
        match self {
            Self::In(vid) | Self::Learning(vid) => vid,
            Self::Any | Self::Refused => 0,
        }
    }

    /// Returns whether a port or the bridge with these VLANs may send the frame (`br_allowed_egress`).
    fn may_leave(self, group: &Group) -> bool {
        match self {
            Self::Any => true,
            Self::In(vid) => group.usable(vid).is_some_and(Vlan::forwards),
            Self::Learning(_) | Self::Refused => false,
        }
    }
}

/// What becomes of a frame by its destination alone.
#[derive(PartialEq, Eq)]
enum Fate {
    Forward,
    /// A pause frame.
    Drop,
    /// It is for this bridge's own protocols.
    Local,
}

impl RxHandler for Entrance {
    fn receive(&self, cx: &mut Cx<'_>, device: &Arc<Device>, mut batch: Batch) {
        let Some(own) = self.bridge.device() else {
            return cx.drop_batch(device, Place::Receive, DropReason::DEV_READY, batch);
        };
        let guard = cx.guard;
        if self.port.has(brport::VLAN_TUNNEL) {
            let group = self.port.vlans.load(guard);
            for packet in batch.iter_mut() {
                group.enter_tunnel(self.bridge.settings.protocol(), packet);
            }
        }
        let mut lanes = [Lane::Any; 64];
        if let Some(protocol) = self.bridge.settings.filters() {
            for (lane, packet) in lanes.iter_mut().zip(batch.iter_mut()) {
                *lane = self.sort(cx, protocol, packet);
            }
        }
        // The look-ups of all sources and destinations overlap their cache misses.
        let mut keys = [0; 128];
        let pairs = keys.chunks_exact_mut(2);
        for ((pair, packet), lane) in pairs.zip(batch.iter()).zip(&lanes) {
            if let (Some(eth), [from, to]) = (Ethernet::new(packet.data()), pair) {
                let vid = lane.vid();
                (*from, *to) = (key(eth.src(), vid), key(eth.dst(), vid));
            }
        }
        let count = batch.len() * 2;
        let mut found = [None; 128];
        let entries = &self.bridge.table.entries;
        entries.get_many(&keys[..count], guard, &mut found[..count]);
        let mut out = Out::default();
        for (at, packet) in batch.into_iter().enumerate() {
            let (from, to) = (found[at * 2], found[at * 2 + 1]);
            let lane = lanes[at];
            self.take(cx, &own, (keys[at * 2], from, to), lane, packet, &mut out);
        }
        out.flush(cx);
        if !out.up.is_empty() {
            (cx.stack.layers.path.steered)(cx, &own, &mut out.up);
        }
    }

    fn long_packets(&self) -> LongPackets {
        LongPackets::NONE
    }
}

/// Returns the length of a frame without its Ethernet header.
fn payload_len(packet: &Packet) -> usize {
    packet.len().saturating_sub(Ethernet::LEN)
}

type Known<'g> = Option<&'g Arc<super::fdb::Entry>>;

impl Entrance {
    /// Returns whether the state of the port lets frames in. With multiple spanning trees, only those of VLANs count.
    #[inline]
    fn is_open(&self) -> bool {
        self.port.listens() || self.bridge.settings.mst.load(Relaxed)
    }

    /// Returns whether the state of the port lets frames pass.
    #[inline]
    fn forwards(&self) -> bool {
        self.port.forwards() || self.bridge.settings.mst.load(Relaxed)
    }

    /// Decides about the groups of IEEE 802.1D, 01:80:c2:00:00:00 to 0f.
    #[inline]
    fn fate(&self, dst: Mac) -> Fate {
        let [0x01, 0x80, 0xc2, 0, 0, last @ 0..=15] = dst else {
            return Fate::Forward;
        };
        let settings = &self.bridge.settings;
        let mask = settings.group_forward.load(Relaxed)
            | settings.required_forward()
            | self.port.group_forward.load(Relaxed);
        match last {
            // Without the spanning tree protocol, its frames are forwarded.
            0 if mask & 1 != 0 || !settings.has_stp.load(Relaxed) => Fate::Forward,
            1 => Fate::Drop,
            last if mask >> last & 1 != 0 => Fate::Forward,
            _ => Fate::Local,
        }
    }

    /// Finds the VLAN of a frame that the port receives, and tags the frame with it (`br_allowed_ingress`; for
    /// frames that are not forwarded, `br_should_learn`).
    #[cold]
    fn sort(&self, cx: &Cx<'_>, protocol: u16, packet: &mut Packet) -> Lane {
        let Some(eth) = Ethernet::new(packet.data()) else {
            return Lane::Any;
        };
        let group = self.port.vlans.load(cx.guard);
        let (src, fate) = (eth.src(), self.fate(eth.dst()));
        if fate == Fate::Local {
            let tag = packet.vlan().filter(|tag| tag.proto == protocol);
            let vid = match tag.map_or(0, |tag| tag.vid()) {
                0 => group.pvid,
                vid => vid,
            };
            return match group.usable(vid).is_some_and(Vlan::learns) {
                true => Lane::In(vid),
                false => Lane::Refused,
            };
        }
        // What is dropped for another reason is not counted.
        if fate == Fate::Drop || src[0] & 1 != 0 || src == [0; 6] || !self.is_open() {
            return Lane::Any;
        }
        self.bridge
            .admit(group, (protocol, self.forwards()), packet)
    }

    /// Takes one frame (`br_handle_frame`, `br_handle_frame_finish`).
    fn take(
        &self,
        cx: &mut Cx<'_>,
        own: &Arc<Device>,
        (address, from, to): (u64, Known<'_>, Known<'_>),
        lane: Lane,
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
        let learns = port.has(brport::LEARNING) && lane != Lane::Refused;
        let learn = |cx: &Cx<'_>| {
            if learns {
                // An earlier frame of the batch may have made the entry, which a second look-up finds.
                bridge.learn((cx.stack, cx.guard), now, port, address, from);
            }
        };
        match self.fate(dst) {
            Fate::Forward => {}
            Fate::Drop => return refuse(cx, DropReason::MAC_IEEE_MAC_CONTROL, packet),
            Fate::Local => {
                if port.listens() && !bridge.settings.no_local_learning.load(Relaxed) {
                    learn(cx);
                }
                let group = [1, 0x80, 0xc2, 0, 0, bridge.settings.group_octet()];
                // The length of an LLC frame comes in place of an EtherType.
                if dst == group && packet.protocol < 0x600 && bridge.settings.has_stp.load(Relaxed)
                {
                    let octets = packet.data().get(Ethernet::LEN..).unwrap_or_default();
                    let (stack, guard) = (cx.stack, cx.guard);
                    bridge.step(stack, guard, |step| step.take(port, octets));
                    return cx.consume(packet);
                }
                return refuse(cx, DropReason::UNHANDLED_PROTO, packet);
            }
        }
        if !self.is_open() {
            return refuse(cx, DropReason::BRIDGE_INGRESS_STP_STATE, packet);
        }
        if lane == Lane::Refused {
            return refuse(cx, DropReason::NOT_SPECIFIED, packet);
        }
        if port.has(brport::LOCKED) {
            let known = from.or_else(|| bridge.table.entries.get(&address, cx.guard));
            let is_here =
                |entry: &&Arc<super::fdb::Entry>| entry.port() == port.number && !entry.is_local();
            if known.filter(is_here).is_none() {
                return refuse(cx, DropReason::NOT_SPECIFIED, packet);
            }
        }
        learn(cx);
        let mut heard = Heard::Data(false);
        if dst[0] & 1 != 0 && dst != BROADCAST {
            match bridge.hear(cx, Some(port), lane.vid(), &packet) {
                Some(what) => heard = what,
                None => return refuse(cx, DropReason::NOT_SPECIFIED, packet),
            }
        }
        if !self.forwards() || matches!(lane, Lane::Learning(_)) {
            return refuse(cx, DropReason::BRIDGE_INGRESS_STP_STATE, packet);
        }
        let proxied = bridge.proxy(cx, own, (Some(port), lane.vid()), &packet);
        let answered = proxied.suppressed;
        if let Some(answer) = proxied.answer {
            cx.transmit(&port.device, Batch::from(answer));
        }
        let mut local = bridge.settings.promiscuous.load(Relaxed);
        if let Some(audience) = bridge.audience(cx, (dst, lane), &heard, &packet) {
            if audience.host {
                own.stats(cx.state.id).multicast.fetch_add(1, Relaxed);
                local = true;
            }
            let copy = local.then(|| packet.copy()).flatten();
            bridge.deliver(cx, Some(port), (lane, &heard), &audience, packet, out);
            if let Some(copy) = copy {
                bridge.snooping.count(&bridge.snooping.own, &heard, 1);
                bridge.pass_up(cx, own, (dst, lane), copy, out);
            }
            return;
        }
        if dst[0] & 1 != 0 {
            if dst != BROADCAST {
                own.stats(cx.state.id).multicast.fetch_add(1, Relaxed);
            }
            local = true;
        } else if let Some(entry) = to {
            if entry.is_local() {
                return bridge.pass_up(cx, own, (dst, lane), packet, out);
            }
            entry.touch(cx.time_of_use());
            let target = bridge.ports.load(cx.guard).numbered(entry.port());
            let target =
                target.filter(|target| bridge.may_leave(cx.guard, target, Some(port), lane));
            let copy = local.then(|| packet.copy()).flatten();
            match target {
                Some(target) => bridge.send(cx, target, lane, packet, out),
                None => cx.consume(packet),
            }
            if let Some(copy) = copy {
                bridge.pass_up(cx, own, (dst, lane), copy, out);
            }
            return;
        }
        let copy = local.then(|| packet.copy()).flatten();
        bridge.flood(cx, Some(port), (dst, lane, &heard, answered), packet, out);
        if let Some(copy) = copy {
            bridge.snooping.count(&bridge.snooping.own, &heard, 1);
            bridge.pass_up(cx, own, (dst, lane), copy, out);
        }
    }
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
    /// Returns whether a frame from a port, or from the bridge itself, may leave by `to` (`should_deliver`).
    #[inline]
    fn may_leave(&self, guard: &Guard, to: &Port, from: Option<&Port>, lane: Lane) -> bool {
        let back = from.is_some_and(|from| from.number == to.number) && !to.has(brport::MODE);
        let isolated =
            to.has(brport::ISOLATED) && from.is_some_and(|from| from.has(brport::ISOLATED));
        !back
            && (to.forwards() || self.settings.mst.load(Relaxed))
            && (lane == Lane::Any || lane.may_leave(to.vlans.load(guard)))
            && !isolated
    }

    /// Finds the VLAN of a frame, and tags the frame with it (`__allowed_ingress`). The state of the VLAN counts only
    /// if that of the port is forwarding.
    fn admit(&self, group: &Group, (protocol, forwards): (u16, bool), packet: &mut Packet) -> Lane {
        if packet.vlan().is_none() && packet.protocol == protocol && edit::untag(packet).is_none() {
            return Lane::Refused;
        }
        let mut tag = packet.vlan();
        if tag.is_some_and(|tag| tag.proto != protocol) {
            // A tag of another protocol is payload.
            if edit::vlan_to_data(packet).is_err() {
                return Lane::Refused;
            }
            tag = None;
        }
        let mut vid = tag.map_or(0, |tag| tag.vid());
        if vid == 0 {
            vid = group.pvid;
            if vid == 0 {
                return Lane::Refused;
            }
            let tci = tag.map_or(0, |tag| tag.tci) | vid;
            packet.set_vlan(Some(VlanTag {
                proto: protocol,
                tci,
            }));
        }
        let Some(vlan) = group.usable(vid) else {
            return Lane::Refused;
        };
        if forwards && !vlan.learns() {
            return Lane::Refused;
        }
        if self.settings.counts_vlans.load(Relaxed) {
            vlan.counters.received(payload_len(packet));
        }
        match vlan.forwards() || !forwards {
            true => Lane::In(vid),
            false => Lane::Learning(vid),
        }
    }

    /// Counts a frame that leaves by a port or by the bridge itself, and takes its tag off if the VLAN is untagged
    /// there (`br_handle_vlan`).
    fn untag(&self, group: &Group, (lane, tunnels): (Lane, bool), packet: &mut Packet) {
        let Lane::In(vid) = lane else { return };
        let Some(vlan) = group.usable(vid) else {
            return;
        };
        if self.settings.counts_vlans.load(Relaxed) {
            vlan.counters.sent(payload_len(packet));
        }
        if vlan.untagged {
            packet.set_vlan(None);
        }
        if tunnels {
            vlan.leave_by_tunnel(packet);
        }
    }

    /// Sends a frame by a port (`__br_forward`).
    fn send(&self, cx: &mut Cx<'_>, to: &Arc<Port>, lane: Lane, mut packet: Packet, out: &mut Out) {
        if lane != Lane::Any {
            let tunnels = to.has(brport::VLAN_TUNNEL);
            self.untag(to.vlans.load(cx.guard), (lane, tunnels), &mut packet);
        }
        send(cx, to, packet, out);
    }

    /// Passes a frame to the bridge's own device (`br_pass_frame_up`).
    fn pass_up(
        &self,
        cx: &mut Cx<'_>,
        own: &Arc<Device>,
        (dst, lane): (Mac, Lane),
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
        if lane != Lane::Any {
            let group = self.own_vlans.load(cx.guard);
            // A program that captures at the bridge sees everything.
            if !self.settings.promiscuous.load(Relaxed) && !lane.may_leave(group) {
                return cx.drop(own, Place::Receive, DropReason::NOT_SPECIFIED, packet);
            }
            self.untag(group, (lane, false), &mut packet);
        }
        (packet.dev, packet.iif) = (own.key.0, own.ifindex());
        if dst == own.address() {
            packet.set_pkt_type(PacketType::Host);
        }
        if out.up.is_full() {
            (cx.stack.layers.path.steered)(cx, own, &mut out.up);
        }
        // There is room: a full batch has just been passed on.
        let _ = out.up.push(packet);
    }

    /// Sends a frame by all ports that flood its kind (`br_flood`).
    fn flood(
        &self,
        cx: &mut Cx<'_>,
        from: Option<&Port>,
        (dst, lane, heard, answered): (Mac, Lane, &Heard, bool),
        packet: Packet,
        out: &mut Out,
    ) {
        // The bridge's own group frames leave by every port.
        let flag = match dst {
            BROADCAST => brport::BCAST_FLOOD,
            [first, ..] if first & 1 != 0 => brport::MCAST_FLOOD,
            _ => brport::UNICAST_FLOOD,
        };
        let always = from.is_none() && dst[0] & 1 != 0;
        let guard = cx.guard;
        let ports = self.ports.load(guard).list.iter();
        let ports = ports.filter(|port| {
            let suppresses = port.has(brport::PROXYARP_WIFI) || port.has(brport::NEIGH_SUPPRESS);
            let proxied = port.has(brport::PROXYARP) || answered && suppresses;
            !proxied && (always || port.has(flag))
        });
        self.spread(cx, from, (lane, heard), ports, packet, out);
    }

    /// Returns who gets a frame to a group; `None` means that it is flooded.
    fn audience<'g>(
        &'g self,
        cx: &Cx<'g>,
        (dst, lane): (Mac, Lane),
        heard: &Heard,
        packet: &Packet,
    ) -> Option<Audience<'g>> {
        if dst[0] & 1 == 0 || dst == BROADCAST || !self.snooping.on.load(Relaxed) {
            return None;
        }
        let octets = packet.data();
        let group = match packet.protocol {
            ETH_P_IP => To::V4(octets.get(30..34)?.try_into().ok()?),
            ETH_P_IPV6 => To::V6(octets.get(38..54)?.try_into().ok()?),
            _ => To::Mac(dst),
        };
        let source = || match packet.protocol {
            ETH_P_IP => Some(To::V4(octets.get(26..30)?.try_into().ok()?)),
            _ => Some(To::V6(octets.get(22..38)?.try_into().ok()?)),
        };
        self.snooping
            .audience(cx.guard, (lane.vid(), group), source, heard, cx.now)
    }

    /// Sends a frame by the ports with members or routers, and to single hosts (`br_multicast_flood`).
    fn deliver(
        &self,
        cx: &mut Cx<'_>,
        from: Option<&Port>,
        what: (Lane, &Heard),
        audience: &Audience<'_>,
        packet: Packet,
        out: &mut Out,
    ) {
        let ports = self.ports.load(cx.guard);
        let src = Ethernet::new(packet.data()).map_or(BROADCAST, |eth| eth.src());
        // The copy of a port's first member is that of its routers as well.
        let resolve = |(target, is_first): (Target, bool)| {
            let port = ports.numbered(target.port)?;
            let to_hosts = port.has(brport::MCAST_TO_UCAST);
            let to_router = is_first && audience.has_router(target.port);
            if audience.is_deaf(&target) && !to_hosts && !to_router {
                return None;
            }
            let alone = target.host != BROADCAST && to_hosts && !to_router;
            Some((port, alone.then_some(target.host)))
        };
        for (port, host) in audience.targets().filter_map(resolve) {
            let Some(host) = host else { continue };
            // A host does not hear itself, even by a hairpin port.
            let own = from.is_some_and(|from| from.number == port.number) && host == src;
            if own || !self.may_leave(cx.guard, port, from, what.0) {
                continue;
            }
            match packet.copy() {
                Some(mut copy) => {
                    if let Some(to) = copy.data_mut().first_chunk_mut() {
                        *to = host;
                    }
                    self.send(cx, port, what.0, copy, out);
                }
                None => port.device.count_drop(Place::Transmit, DropReason::NOMEM),
            }
        }
        let targets = audience.targets().filter_map(resolve);
        let rest = targets.filter_map(|(port, host)| host.is_none().then_some(port));
        self.spread(cx, from, what, rest, packet, out);
    }

    /// Sends copies of a frame by those of some ports by which it may leave.
    fn spread<'p>(
        &self,
        cx: &mut Cx<'_>,
        from: Option<&Port>,
        (lane, heard): (Lane, &Heard),
        targets: impl Iterator<Item = &'p Arc<Port>>,
        packet: Packet,
        out: &mut Out,
    ) {
        let mut last: Option<&Arc<Port>> = None;
        for port in targets {
            if !self.may_leave(cx.guard, port, from, lane) {
                continue;
            }
            self.snooping.count(&port.groups, heard, 1);
            if let Some(before) = last.replace(port) {
                match packet.copy() {
                    Some(copy) => self.send(cx, before, lane, copy, out),
                    None => before.device.count_drop(Place::Transmit, DropReason::NOMEM),
                }
            }
        }
        match last {
            Some(port) => self.send(cx, port, lane, packet, out),
            None => cx.consume(packet),
        }
    }

    /// Sends the frames of the bridge's own device (`br_dev_xmit`).
    pub fn transmit(&self, cx: &mut Cx<'_>, device: &Arc<Device>, batch: Batch) {
        let stats = device.stats(cx.state.id);
        stats.count_sent(batch.len() as u64, batch.bytes());
        let mut out = Out::default();
        let filters = self.settings.filters();
        for mut packet in batch {
            let Some(eth) = Ethernet::new(packet.data()) else {
                cx.drop(device, Place::Transmit, DropReason::PKT_TOO_SMALL, packet);
                continue;
            };
            let dst = eth.dst();
            let lane = match filters {
                None => Lane::Any,
                Some(protocol) => {
                    let group = self.own_vlans.load(cx.guard);
                    match self.admit(group, (protocol, true), &mut packet) {
                        // The bridge itself sends in a VLAN that learns.
                        Lane::Learning(vid) => Lane::In(vid),
                        lane => lane,
                    }
                }
            };
            if lane == Lane::Refused {
                cx.drop(device, Place::Transmit, DropReason::NOT_SPECIFIED, packet);
                continue;
            }
            let proxied = self.proxy(cx, device, (None, lane.vid()), &packet);
            if let Some(answer) = proxied.answer {
                cx.receive_later(device, Batch::from(answer));
            }
            let mut heard = Heard::Data(false);
            if dst[0] & 1 != 0 && dst != BROADCAST {
                match self.hear(cx, None, lane.vid(), &packet) {
                    Some(what) => heard = what,
                    None => {
                        cx.drop(device, Place::Transmit, DropReason::NOT_SPECIFIED, packet);
                        continue;
                    }
                }
                if let Some(audience) = self.audience(cx, (dst, lane), &heard, &packet) {
                    let what = (lane, &heard);
                    self.deliver(cx, None, what, &audience, packet, &mut out);
                    continue;
                }
            }
            let entry = self.table.entries.get(&key(dst, lane.vid()), cx.guard);
            match entry.filter(|_| dst[0] & 1 == 0) {
                None => {
                    let what = (dst, lane, &heard, proxied.suppressed);
                    self.flood(cx, None, what, packet, &mut out);
                }
                Some(entry) => {
                    entry.touch(cx.time_of_use());
                    let port = self.ports.load(cx.guard).numbered(entry.port());
                    match port.filter(|port| self.may_leave(cx.guard, port, None, lane)) {
                        Some(port) => self.send(cx, port, lane, packet, &mut out),
                        None => cx.consume(packet),
                    }
                }
            }
        }
        out.flush(cx);
    }
}
