// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The context of a classification: the RCU guard, the CPU, time, randomness, the mirrored copies,
//! and the packet's dissection, which is cached until an action changes the packet.

use std::cell::RefCell;

use weir_conntrack::Conntrack;
use weir_packet::header::ethernet::{ETH_P_IP, ETH_P_IPV6};
use weir_packet::offload::segment_packet;
use weir_packet::{Cache, Conn, ConnInfo, DropReason, Flags, FlowKeys, Packet, Used};
use weir_sync::rcu::Guard;

use crate::classifier::flower::key::Flow;
use crate::host::Device;
use crate::verdict::Target;

/// A copy of a packet to be sent to another device.
#[derive(Debug)]
pub struct Copy {
    /// The packet as it was when the copy was made. Its data begin where the hook's packets begin.
    pub packet: Packet,
    /// The destination.
    pub target: Target,
    /// This is not a copy but the packet itself, redirected out of a batch.
    pub itself: bool,
    /// What the packet was reassembled from, as [`Defragmented::Whole`] named it; 0 if it was not.
    pub reassembled: u32,
}

/// Where all packets of a batch go. They are still in the batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whole {
    /// They are dropped.
    Dropped(DropReason),
    /// They have reached their destination and are freed.
    Consumed,
    /// They continue at another device. None of them was copied before.
    Redirected(Target),
}

/// The context of one run over packets at one hook.
pub struct Context<'a, 'g> {
    /// The RCU guard that keeps filters and actions alive.
    pub guard: &'g Guard,
    /// The stack CPU.
    pub cpu: usize,
    /// The time of the stack's clock in nanoseconds.
    pub now: u64,
    /// Draws uniform 32 bits from the seeded generator of the device.
    pub random: &'a mut dyn FnMut() -> u32,
    /// Mirrored copies and redirected packets of a batch, in order. The caller sends them.
    pub copies: &'a mut Vec<Copy>,
    /// All packets of a batch leave it for one destination, and the caller takes them out of it.
    pub whole: Option<Whole>,
    /// The index of the device whose hook runs.
    pub ifindex: u32,
    /// The hook is an ingress hook.
    pub ingress: bool,
    /// The number of transmit queues the device uses (`real_num_tx_queues`); 1 by default.
    pub tx_queues: u32,
    /// The device's frames have Ethernet headers (`ARPHRD_ETHER`); true by default.
    pub ethernet: bool,
    /// What is known of the batch that runs, if its packets are unaltered.
    pub(crate) received: Option<Received>,
    /// An action has chosen the packet's transmit queue (`netdev_xmit_skip_txqueue`).
    pub(crate) queue_chosen: bool,
    device: Option<&'a dyn Device>,
    /// The connection table of the device's namespace, if there is one.
    pub conntrack: Option<&'a Conntrack>,
    /// Actions of the namespace other than `ct` have memory that packets are looked up in.
    pub looks_up: bool,
    /// Reassembles fragments for the action `ct`.
    pub defragment: Option<Defragment<'a>>,
    trace: Option<Trace<'a>>,
    waits: Option<Waits<'a>>,
    duplicated: Option<Duplicated<'a>>,
    memory: Option<&'a RefCell<Cache>>,
    flow: Flow,
    /// The packet's length on arrival (`qdisc_skb_cb(skb)->pkt_len`).
    len: u64,
    /// The number of packets on the wire that it stands for (`gso_segs`).
    packets: u64,
    /// What it was reassembled from; 0 if it was not (`tc_skb_cb(skb)->mru`).
    pub(crate) reassembled: u32,
}

/// What is known of all packets of a batch, if they are unaltered: as their reception left them
/// ([`Packet::altered`]), with an Ethernet header in front.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received {
    /// Their protocol, if they have the same.
    pub protocol: Option<u16>,
    /// The length of the shortest one in bytes.
    pub shortest: u32,
    /// The sum of their lengths in bytes.
    pub bytes: u64,
}

/// A packet's connection as filters see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CtKey {
    /// `TCA_FLOWER_KEY_CT_FLAGS_*`
    pub state: u16,
    /// The zone.
    pub zone: u16,
    /// The mark.
    pub mark: u32,
    /// The labels.
    pub labels: [u8; 16],
}

impl CtKey {
    const NEW: u16 = 1;
    const ESTABLISHED: u16 = 2;
    const RELATED: u16 = 4;
    const TRACKED: u16 = 8;
    const INVALID: u16 = 16;
    const REPLY: u16 = 32;
}

/// Adds a fragment to those of a zone. The packet becomes the whole one, or an empty one if the fragment waits for
/// others.
pub type Defragment<'a> = &'a dyn Fn(&mut Packet, u16) -> Defragmented;

/// The result of adding a fragment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Defragmented {
    /// The packet is whole. The number, which is not 0, names its fragments until the hook ends; each [`struct@Copy`] of the
    /// packet has it.
    Whole(u32),
    /// The fragment waits for the others.
    Waits,
    /// The fragment is to be dropped.
    Dropped(DropReason),
}

/// Adds a note to the trace of a packet.
pub type Trace<'a> = &'a dyn Fn(&mut Packet, String);

/// Reports the class in which a packet waits. Called with the classid when the class's qdisc gets
/// the packet.
pub type Waits<'a> = &'a dyn Fn(&Packet, u32);

/// Gives a duplicate that a qdisc made its own trace record.
pub type Duplicated<'a> = &'a dyn Fn(&mut Packet);

impl<'a, 'g> Context<'a, 'g> {
    /// Creates a context for packets of the device with index `ifindex`.
    pub fn new(
        guard: &'g Guard,
        cpu: usize,
        now: u64,
        ifindex: u32,
        random: &'a mut dyn FnMut() -> u32,
        copies: &'a mut Vec<Copy>,
    ) -> Self {
        Self {
            guard,
            cpu,
            now,
            random,
            copies,
            whole: None,
            ifindex,
            ingress: false,
            tx_queues: 1,
            queue_chosen: false,
            received: None,
            ethernet: true,
            device: None,
            conntrack: None,
            looks_up: false,
            defragment: None,
            trace: None,
            waits: None,
            duplicated: None,
            memory: None,
            flow: Flow::default(),
            len: 0,
            packets: 1,
            reassembled: 0,
        }
    }

    /// Returns a context for objects that live shorter than the guard, such as those a qdisc owns.
    pub fn reborrow(&mut self) -> Context<'_, '_> {
        Context {
            guard: self.guard,
            cpu: self.cpu,
            now: self.now,
            random: &mut *self.random,
            copies: &mut *self.copies,
            whole: None,
            ifindex: self.ifindex,
            ingress: self.ingress,
            tx_queues: self.tx_queues,
            queue_chosen: false,
            received: None,
            ethernet: self.ethernet,
            device: self.device,
            conntrack: self.conntrack,
            looks_up: self.looks_up,
            defragment: self.defragment,
            trace: self.trace,
            waits: self.waits,
            duplicated: self.duplicated,
            memory: self.memory,
            flow: Flow::default(),
            len: 0,
            packets: 1,
            reassembled: 0,
        }
    }

    /// Sets the cache that copies of packets are allocated from: the CPU's own, which needs no
    /// lock.
    pub fn memory(&mut self, memory: &'a RefCell<Cache>) {
        self.memory = Some(memory);
    }

    /// Copies a packet. Returns `None` if memory is exhausted.
    pub fn copy(&self, packet: &Packet) -> Option<Packet> {
        match self.memory {
            Some(memory) => packet.copy_from(&mut memory.borrow_mut()),
            None => packet.copy(),
        }
    }

    /// Splits a long packet into the packets on the wire that it stands for (`skb_gso_segment`). Queues count
    /// each with the length of its data. Returns the packet if it cannot be split or memory is exhausted. The list is
    /// for [`keep_list`](Self::keep_list), so that the next one needs no allocation.
    pub fn segments(&mut self, packet: Packet) -> Result<Vec<Packet>, Packet> {
        let Some(memory) = self.memory else {
            return Err(packet);
        };
        let mut cache = memory.borrow_mut();
        let mut segments = cache.take_list();
        let whole = segment_packet(&packet, &mut cache, |mut segment| {
            segment.cb = 0;
            segments.push(segment);
        });
        if !whole {
            cache.keep_list(segments);
            return Err(packet);
        }
        cache.free(packet);
        drop(cache);
        // The first segment keeps the record of the long packet.
        for segment in segments.iter_mut().skip(1) {
            self.duplicated(segment);
        }
        Ok(segments)
    }

    /// Keeps the memory of a list of segments for the next one. Its packets are dropped.
    pub fn keep_list(&self, list: Vec<Packet>) {
        if let Some(memory) = self.memory {
            memory.borrow_mut().keep_list(list);
        }
    }

    /// Turns tracing on: `note` is called for each filter a packet matches.
    pub fn trace(&mut self, note: Trace<'a>) {
        self.trace = Some(note);
    }

    /// From now on reports the class in which each packet waits, and each duplicate that a qdisc
    /// makes.
    pub fn report_waits(&mut self, waits: Waits<'a>, duplicated: Duplicated<'a>) {
        self.waits = Some(waits);
        self.duplicated = Some(duplicated);
    }

    /// Reports that a qdisc made a duplicate, if reporting is on.
    #[inline]
    pub(crate) fn duplicated(&self, copy: &mut Packet) {
        if let Some(duplicated) = self.duplicated {
            duplicated(copy);
        }
    }

    /// Reports that a packet is about to wait in the qdisc of `class`, if reporting is on.
    #[inline]
    pub(crate) fn waits_in(&self, packet: &Packet, class: u32) {
        if let Some(waits) = self.waits {
            waits(packet, class);
        }
    }

    /// Sets the device whose hook runs.
    pub fn at(&mut self, device: &'a dyn Device) {
        self.device = Some(device);
    }

    /// Returns the device whose hook runs, if set.
    pub fn device(&self) -> Option<&'a dyn Device> {
        self.device
    }

    /// Returns whether tracing is on.
    #[inline]
    pub(crate) fn is_traced(&self) -> bool {
        self.trace.is_some()
    }

    /// Adds a note to the packet's trace, if tracing is on.
    #[inline]
    pub(crate) fn note(&self, packet: &mut Packet, text: impl FnOnce() -> String) {
        if let Some(note) = self.trace {
            note(packet, text());
        }
    }

    /// Returns a packet's length as statistics count it (`skb->len`): at ingress without the
    /// link-layer header.
    #[inline]
    pub fn skb_len(&self, packet: &Packet) -> u64 {
        let header = if self.ingress {
            packet.network_offset().unwrap_or(0)
        } else {
            0
        };
        packet.len().saturating_sub(header) as u64
    }

    /// Returns whether the packet has a route (`skb_dst`): it is being forwarded or was sent by
    /// this host.
    #[inline]
    pub fn is_routed(&self, packet: &Packet) -> bool {
        let by_ip = matches!(packet.protocol, ETH_P_IP | ETH_P_IPV6);
        let flags = packet.flags;
        !self.ingress && by_ip && (flags.contains(Flags::FORWARDED) || flags.contains(Flags::LOCAL))
    }

    /// Returns a number for the hook that runs.
    #[inline]
    pub(crate) fn hook(&self) -> u32 {
        self.ifindex << 1 | u32::from(self.ingress)
    }

    /// Returns the packet's connection for filters (`skb_flow_dissect_ct`); `None` if the packet was not tracked.
    /// What tracking found about a packet without a connection lasts for one hook.
    #[inline]
    pub fn ct(&self, packet: &Packet) -> Option<CtKey> {
        self.ct_of(packet.conn()?)
    }

    fn ct_of(&self, conn: Conn) -> Option<CtKey> {
        let state = match conn.info {
            ConnInfo::Established => CtKey::ESTABLISHED,
            ConnInfo::Related => CtKey::RELATED,
            ConnInfo::New => CtKey::NEW,
            ConnInfo::EstablishedReply => CtKey::ESTABLISHED | CtKey::REPLY,
            ConnInfo::RelatedReply => CtKey::RELATED | CtKey::REPLY,
            ConnInfo::Invalid if conn.generation == self.hook() => CtKey::INVALID,
            ConnInfo::Invalid | ConnInfo::Untracked => return None,
        };
        let mut key = CtKey {
            state: state | CtKey::TRACKED,
            zone: conn.zone,
            ..CtKey::default()
        };
        if !conn.is_entry() && conn.info != ConnInfo::Invalid {
            key.mark = conn.generation;
        } else if let Some(conntrack) = self.conntrack
            && let Some(handle) = conntrack.of(conn)
        {
            key.mark = conntrack.mark(handle).unwrap_or_default();
            key.labels = conntrack.labels(handle).unwrap_or_default();
        }
        Some(key)
    }

    /// Starts with the next packet. `len` is its length according to [`skb_len`](Self::skb_len) on
    /// arrival; statistics count this length even if actions change the packet.
    #[inline]
    pub fn start_packet(&mut self, len: u64, packet: &Packet) {
        self.len = len;
        self.packets = packet.wire_packets();
        self.reassembled = 0;
        self.flow.forget();
    }

    /// Returns Linux's `skb->mac_len` for a packet at ingress, where Linux has pulled the
    /// link-layer header. `ife` leaves packets alone whose network header is further away.
    #[inline]
    pub(crate) fn mac_len(packet: &Packet) -> usize {
        match packet.pulled_from_mac() {
            None | Some(0) => packet.mac_len(),
            Some(pulled) => pulled,
        }
    }

    /// Notes that the current packet was reassembled from the fragments of that number. It counts with its whole length
    /// from now on (`qdisc_skb_cb(skb)->pkt_len`).
    pub(crate) fn reassembled(&mut self, packet: &mut Packet, number: u32) {
        packet.cb = 0;
        self.reassembled = number;
        self.len = self.skb_len(packet);
        self.flow.forget();
    }

    /// Invalidates the dissection because an action changed the current packet.
    #[inline]
    pub fn packet_changed(&mut self) {
        self.flow.forget();
    }

    /// Returns the packet's dissection with at least the groups in `used`.
    #[inline]
    pub(crate) fn flow(&mut self, packet: &Packet, used: Used) -> &FlowKeys {
        if !used.any(Used::CT) {
            return self.flow.of(packet, used);
        }
        let CtKey {
            state,
            zone,
            mark,
            labels,
        } = self.ct(packet).unwrap_or_default();
        self.flow.of(packet, used);
        self.flow.connection(state, zone, mark, labels)
    }

    /// Returns how many packets on the wire the current packet counts as.
    #[inline]
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Returns the current packet's length in bytes as statistics count it (`qdisc_pkt_len`).
    #[inline]
    pub fn packet_len(&self) -> u64 {
        self.len
    }
}
