// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a classification carries along: the RCU guard, the CPU, time, randomness, the copies mirrored
//! off, and the packet's dissection, done once and kept until an action changes the packet.

use std::cell::RefCell;

use weir_packet::header::ethernet::{ETH_P_IP, ETH_P_IPV6};
use weir_packet::{Cache, Flags, FlowKeys, Packet, Used};
use weir_sync::rcu::Guard;

use crate::classifier::flower::key::Flow;
use crate::host::Device;
use crate::verdict::Target;

/// A copy of a packet on its way to another device.
#[derive(Debug)]
pub struct Copy {
    /// The copy, as it stood when it was made: its data begin where the hook's packets begin.
    pub packet: Packet,
    /// Where it goes.
    pub target: Target,
    /// It is no copy, but the packet itself, redirected out of a batch.
    pub itself: bool,
}

/// The context of one run over packets at one hook.
pub struct Context<'a, 'g> {
    /// Keeps filters and actions alive.
    pub guard: &'g Guard,
    /// The stack CPU.
    pub cpu: usize,
    /// Nanoseconds of the stack's clock.
    pub now: u64,
    /// Draws uniform 32 bits from the seeded generator of the device.
    pub random: &'a mut dyn FnMut() -> u32,
    /// Copies mirrored off, and packets of a batch redirected, in order; the caller sends them on.
    pub copies: &'a mut Vec<Copy>,
    /// Index of the device whose hook runs.
    pub ifindex: u32,
    /// The hook is an ingress one.
    pub ingress: bool,
    /// Transmit queues the device uses (`real_num_tx_queues`); 1 unless told.
    pub tx_queues: u32,
    /// Its frames have Ethernet headers (`ARPHRD_ETHER`); so unless told.
    pub ethernet: bool,
    /// An action has chosen the packet's transmit queue (`netdev_xmit_skip_txqueue`).
    pub(crate) queue_chosen: bool,
    device: Option<&'a dyn Device>,
    trace: Option<Trace<'a>>,
    waits: Option<Waits<'a>>,
    memory: Option<&'a RefCell<Cache>>,
    flow: Flow,
    /// `qdisc_skb_cb(skb)->pkt_len`: the packet's length when it came.
    len: u64,
}

/// Notes on a packet what it met.
pub type Trace<'a> = &'a dyn Fn(&mut Packet, String);

/// Learns in which class a packet waits: called with the classid when the class's qdisc gets the packet.
pub type Waits<'a> = &'a dyn Fn(&Packet, u32);

impl<'a, 'g> Context<'a, 'g> {
    /// A context for packets of the device with index `ifindex`.
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
            ifindex,
            ingress: false,
            tx_queues: 1,
            queue_chosen: false,
            ethernet: true,
            device: None,
            trace: None,
            waits: None,
            memory: None,
            flow: Flow::default(),
            len: 0,
        }
    }

    /// A context for objects that live shorter than the guard: those a qdisc owns.
    pub fn reborrow(&mut self) -> Context<'_, '_> {
        Context {
            guard: self.guard,
            cpu: self.cpu,
            now: self.now,
            random: &mut *self.random,
            copies: &mut *self.copies,
            ifindex: self.ifindex,
            ingress: self.ingress,
            tx_queues: self.tx_queues,
            queue_chosen: false,
            ethernet: self.ethernet,
            device: self.device,
            trace: self.trace,
            waits: self.waits,
            memory: self.memory,
            flow: Flow::default(),
            len: 0,
        }
    }

    /// Copies of packets get their memory from here: the CPU's own, which needs no lock.
    pub fn memory(&mut self, memory: &'a RefCell<Cache>) {
        self.memory = Some(memory);
    }

    /// A copy of a packet; `None` without memory.
    pub fn copy(&self, packet: &Packet) -> Option<Packet> {
        match self.memory {
            Some(memory) => packet.copy_from(&mut memory.borrow_mut()),
            None => packet.copy(),
        }
    }

    /// Turns notes on: `note` is told of each filter a packet meets.
    pub fn trace(&mut self, note: Trace<'a>) {
        self.trace = Some(note);
    }

    /// Reports from now on in which class each packet waits.
    pub fn report_waits(&mut self, waits: Waits<'a>) {
        self.waits = Some(waits);
    }

    /// Reports that a packet is about to wait in the qdisc of `class`, if anyone asked.
    #[inline]
    pub(crate) fn waits_in(&self, packet: &Packet, class: u32) {
        if let Some(waits) = self.waits {
            waits(packet, class);
        }
    }

    /// Says whose hook runs.
    pub fn at(&mut self, device: &'a dyn Device) {
        self.device = Some(device);
    }

    /// The device whose hook runs, if it was said.
    pub fn device(&self) -> Option<&'a dyn Device> {
        self.device
    }

    /// Whether notes are on.
    #[inline]
    pub(crate) fn is_traced(&self) -> bool {
        self.trace.is_some()
    }

    /// Notes on the packet, if notes are on.
    #[inline]
    pub(crate) fn note(&self, packet: &mut Packet, text: impl FnOnce() -> String) {
        if let Some(note) = self.trace {
            note(packet, text());
        }
    }

    /// A packet's length as statistics count it (`skb->len`): at ingress without the link-layer header.
    #[inline]
    pub fn skb_len(&self, packet: &Packet) -> u64 {
        let header = if self.ingress {
            packet.network_offset().unwrap_or(0)
        } else {
            0
        };
        packet.len().saturating_sub(header) as u64
    }

    /// Whether a route has been found for the packet (`skb_dst`): it was forwarded, or made here.
    #[inline]
    pub fn is_routed(&self, packet: &Packet) -> bool {
        let by_ip = matches!(packet.protocol, ETH_P_IP | ETH_P_IPV6);
        let flags = packet.flags;
        !self.ingress && by_ip && (flags.contains(Flags::FORWARDED) || flags.contains(Flags::LOCAL))
    }

    /// Another packet comes. Its length, as by [`skb_len`](Self::skb_len) now, counts, whatever actions do
    /// to it.
    #[inline]
    pub fn packet_comes(&mut self, len: u64) {
        self.len = len;
        self.flow.forget();
    }

    /// Linux's `skb->mac_len` of a packet at ingress, where Linux has pulled the link-layer header: `ife`
    /// leaves a packet whose network header is further away.
    #[inline]
    pub(crate) fn mac_len(packet: &Packet) -> usize {
        match packet.pulled_from_mac() {
            None | Some(0) => packet.mac_len(),
            Some(pulled) => pulled,
        }
    }

    /// An action has changed the packet at hand: dissect anew when asked.
    #[inline]
    pub fn packet_changed(&mut self) {
        self.flow.forget();
    }

    /// The packet's dissection; at least the groups `used` are there.
    #[inline]
    pub(crate) fn flow(&mut self, packet: &Packet, used: Used) -> &FlowKeys {
        self.flow.of(packet, used)
    }

    /// Length of the packet at hand as statistics count it (`qdisc_pkt_len`), octets.
    #[inline]
    pub fn packet_len(&self) -> u64 {
        self.len
    }
}
