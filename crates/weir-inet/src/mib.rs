// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The SNMP counters of the protocols (RFC 4293; `include/uapi/linux/snmp.h`), per namespace and, for IPv6, per device as well.
//!
//! Each stack CPU has its own slot of counters, allocated when it first counts, and updates it with plain loads and stores.
//! The receive path adds once per batch. Readers sum the slots. As in Linux 6.1, a forwarded IPv4 packet counts as both
//! `OutForwDatagrams` and `OutRequests`, and its bytes count twice in `OutOctets`.
//!
//! Linux 6.1 counts its timestamp replies by the type of echo replies; here they have their own type.
//!
//! Not counted: locally generated packets that a qdisc drops (`OutDiscards`).

use std::marker::PhantomData;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use weir_sync::percpu::PerCpu;

use crate::cpu::Cx;
use crate::device::Device;
use crate::layers::Module;
use crate::namespace::Namespace;
use crate::parts::Key;

/// An enumeration of counters.
pub trait Counter: Copy + Send + Sync + 'static {
    /// All counters, in index order.
    const ALL: &'static [Self];
    /// The counter's index in a row.
    fn index(self) -> usize;
    /// Linux's name.
    fn name(self) -> &'static str;
}

macro_rules! counters {
    ($($(#[$doc:meta])* $set:ident { $($counter:ident,)* })*) => { $(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[allow(missing_docs)] // the names are Linux's
        pub enum $set { $($counter,)* }

        impl $set {
            /// The number of counters.
            pub const COUNT: usize = <Self as Counter>::ALL.len();
        }

        impl Counter for $set {
            const ALL: &'static [Self] = &[$($set::$counter,)*];
            #[inline(always)]
            fn index(self) -> usize {
                self as usize
            }
            fn name(self) -> &'static str {
                match self { $($set::$counter => stringify!($counter),)* }
            }
        }
    )* };
}

counters! {
    /// IPv4 and IPv6 (`IPSTATS_MIB_*`).
    Ip {
        InReceives, InHdrErrors, InTooBigErrors, InNoRoutes, InAddrErrors, InUnknownProtos,
        InTruncatedPkts, InDiscards, InDelivers, OutForwDatagrams, OutRequests, OutDiscards,
        OutNoRoutes, ReasmTimeout, ReasmReqds, ReasmOKs, ReasmFails, FragOKs, FragFails,
        FragCreates, InMcastPkts, OutMcastPkts, InBcastPkts, OutBcastPkts, InOctets, OutOctets,
        InMcastOctets, OutMcastOctets, InBcastOctets, OutBcastOctets, InCsumErrors,
        InNoECTPkts, InECT1Pkts, InECT0Pkts, InCEPkts, ReasmOverlaps,
    }
    /// ICMP and ICMPv6, without the message types (`ICMP_MIB_*`).
    Icmp {
        InMsgs, InErrors, OutMsgs, OutErrors, InCsumErrors, OutRateLimitGlobal, OutRateLimitHost,
    }
    /// UDP and UDP-Lite (`UDP_MIB_*`).
    Udp {
        InDatagrams, NoPorts, InErrors, OutDatagrams, RcvbufErrors, SndbufErrors, InCsumErrors, IgnoredMulti,
        MemErrors,
    }
    /// TCP over both families (`TCP_MIB_*`).
    Tcp {
        ActiveOpens, PassiveOpens, AttemptFails, EstabResets, InSegs, OutSegs, RetransSegs, InErrs, OutRsts,
        InCsumErrors,
    }
    /// The extended counters of Linux (`LINUX_MIB_*`).
    Ext {
        ArpFilter, IPReversePathFilter, SyncookiesSent, SyncookiesRecv, SyncookiesFailed, TW, ListenOverflows,
        ListenDrops, PAWSEstab, DelayedACKs, DelayedACKLost, TCPTimeouts, TCPLossProbes, TCPLossProbeRecovery,
        TCPSackRecovery, TCPRenoRecovery, TCPSACKReneging, TCPSACKReorder, TCPFullUndo, TCPPartialUndo,
        TCPLossUndo, TCPSpuriousRTOs, TCPDSACKOldSent, TCPDSACKOfoSent, TCPDSACKRecv, TCPOFOQueue,
        TCPChallengeACK, TCPSYNChallenge, TCPAbortOnData, TCPAbortOnClose, TCPAbortOnTimeout,
        TCPAbortOnLinger, TCPKeepAlive, TCPWinProbe, TCPToZeroWindowAdv, TCPFromZeroWindowAdv,
        TCPZeroWindowDrop, TCPReqQFullDoCookies, TCPReqQFullDrop, TCPFastOpenActive,
        TCPFastOpenActiveFail, TCPFastOpenPassive, TCPFastOpenPassiveFail, TCPFastOpenListenOverflow,
        TCPFastOpenCookieReqd, TCPFastOpenPassiveAltKey, TCPMD5NotFound, TCPMD5Unexpected, TCPMD5Failure,
        TCPDeferAcceptDrop, TCPAckCompressed,
    }
}

/// One CPU's values of an enumeration of counters.
#[derive(Debug)]
pub struct Row<C, const N: usize>([AtomicU64; N], PhantomData<C>);

impl<C, const N: usize> Default for Row<C, N> {
    fn default() -> Self {
        Self([const { AtomicU64::new(0) }; N], PhantomData)
    }
}

impl<C: Counter, const N: usize> Row<C, N> {
    /// Adds to a counter. Only the thread of the CPU that owns the row calls this.
    #[inline(always)]
    pub fn add(&self, counter: C, by: u64) {
        if let Some(counter) = self.0.get(counter.index()) {
            counter.store(counter.load(Relaxed).wrapping_add(by), Relaxed);
        }
    }

    fn get(&self, counter: C) -> u64 {
        self.0.get(counter.index()).map_or(0, |c| c.load(Relaxed))
    }

    fn clear(&self) {
        self.0.iter().for_each(|counter| counter.store(0, Relaxed));
    }
}

/// The direction of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Received.
    In,
    /// Sent.
    Out,
}

/// Counts ICMP messages by type. Uncommon types take memory only once they occur.
#[derive(Debug)]
pub struct Messages<const N: usize> {
    /// The common types, received and sent; [`Messages::place`] gives the index.
    known: [[AtomicU64; N]; 2],
    others: OnceLock<Box<[[AtomicU64; 256]; 2]>>,
}

impl<const N: usize> Default for Messages<N> {
    fn default() -> Self {
        Self {
            known: [const { [const { AtomicU64::new(0) }; N] }; 2],
            others: OnceLock::new(),
        }
    }
}

/// The number of ICMP types up to `NR_ICMP_TYPES`.
const KNOWN: usize = 19;
/// The number of ICMPv6 types that are errors, echo, MLD or neighbour discovery.
const KNOWN6: usize = 15;

impl<const N: usize> Messages<N> {
    fn place(ty: u8) -> Option<usize> {
        match (N, ty) {
            (KNOWN, _) => Some(usize::from(ty)).filter(|place| *place < N),
            (_, 1..=4) => Some(usize::from(ty) - 1),
            (_, 128..=137) => Some(usize::from(ty) - 124),
            (_, 143) => Some(14),
            _ => None,
        }
    }

    fn add(&self, way: Way, ty: u8) {
        let counter = match Self::place(ty) {
            Some(place) => self.known[way as usize].get(place),
            None => {
                let others = self
                    .others
                    .get_or_init(|| Box::new([const { [const { AtomicU64::new(0) }; 256] }; 2]));
                others[way as usize].get(usize::from(ty))
            }
        };
        if let Some(counter) = counter {
            counter.store(counter.load(Relaxed).wrapping_add(1), Relaxed);
        }
    }

    fn get(&self, way: Way, ty: u8) -> u64 {
        let counter = match Self::place(ty) {
            Some(place) => self.known[way as usize].get(place),
            None => self
                .others
                .get()
                .and_then(|others| others[way as usize].get(usize::from(ty))),
        };
        counter.map_or(0, |counter| counter.load(Relaxed))
    }

    fn clear(&self) {
        let others = self
            .others
            .get()
            .into_iter()
            .flat_map(|others| others.iter().flatten());
        self.known
            .iter()
            .flatten()
            .chain(others)
            .for_each(|counter| counter.store(0, Relaxed));
    }
}

/// One CPU's IPv6 counters of a namespace or a device.
#[derive(Debug, Default)]
pub struct Slot6 {
    ip: Row<Ip, { Ip::COUNT }>,
    icmp: Row<Icmp, { Icmp::COUNT }>,
    types: Messages<KNOWN6>,
}

/// A datagram protocol over one family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Datagram {
    /// UDP over IPv4.
    Udp,
    /// UDP-Lite over IPv4.
    UdpLite,
    /// UDP over IPv6.
    Udp6,
    /// UDP-Lite over IPv6.
    UdpLite6,
}

/// One CPU's counters of a namespace.
#[derive(Debug, Default)]
pub struct Slot {
    /// IPv4.
    pub ip: Row<Ip, { Ip::COUNT }>,
    /// ICMP.
    pub icmp: Row<Icmp, { Icmp::COUNT }>,
    types: Messages<KNOWN>,
    v6: Slot6,
    datagrams: [Row<Udp, { Udp::COUNT }>; 4],
    /// TCP.
    pub tcp: Row<Tcp, { Tcp::COUNT }>,
    /// The extended counters.
    pub ext: Row<Ext, { Ext::COUNT }>,
}

impl Slot {
    /// Returns the counters of a datagram protocol.
    pub fn datagrams(&self, which: Datagram) -> &Row<Udp, { Udp::COUNT }> {
        &self.datagrams[which as usize]
    }

    /// Counts an ICMP message of a type.
    pub fn message(&self, way: Way, ty: u8) {
        self.types.add(way, ty);
    }
}

/// A namespace's counters.
#[derive(Debug, Default)]
pub struct Mib(PerCpu<Slot>);

impl Mib {
    fn sum(&self, of: impl Fn(&Slot) -> u64) -> u64 {
        self.0.iter().map(|(_, slot)| of(slot)).sum()
    }

    /// Returns the sum of an IPv4 counter.
    pub fn ip(&self, counter: Ip) -> u64 {
        self.sum(|slot| slot.ip.get(counter))
    }

    /// Returns the sum of an ICMP counter.
    pub fn icmp(&self, counter: Icmp) -> u64 {
        self.sum(|slot| slot.icmp.get(counter))
    }

    /// Returns the number of ICMP messages of a type.
    pub fn messages(&self, way: Way, ty: u8) -> u64 {
        self.sum(|slot| slot.types.get(way, ty))
    }

    /// Returns the sum of a counter of a datagram protocol.
    pub fn datagrams(&self, which: Datagram, counter: Udp) -> u64 {
        self.sum(|slot| slot.datagrams(which).get(counter))
    }

    /// Returns the sum of a TCP counter.
    pub fn tcp(&self, counter: Tcp) -> u64 {
        self.sum(|slot| slot.tcp.get(counter))
    }

    /// Returns the sum of an extended counter.
    pub fn ext(&self, counter: Ext) -> u64 {
        self.sum(|slot| slot.ext.get(counter))
    }

    /// Returns a function that sums an IPv6 counter.
    pub fn v6(&self) -> impl Fn(Value6) -> u64 + '_ {
        |value| self.sum(|slot| slot.v6.get(value))
    }
}

/// An IPv6 or ICMPv6 counter.
#[derive(Debug, Clone, Copy)]
pub enum Value6 {
    /// IPv6.
    Ip(Ip),
    /// ICMPv6.
    Icmp(Icmp),
    /// ICMPv6 messages of a type.
    Messages(Way, u8),
}

impl Slot6 {
    fn get(&self, value: Value6) -> u64 {
        match value {
            Value6::Ip(counter) => self.ip.get(counter),
            Value6::Icmp(counter) => self.icmp.get(counter),
            Value6::Messages(way, ty) => self.types.get(way, ty),
        }
    }
}

/// A device's IPv6 counters (`/proc/net/dev_snmp6/DEV`).
#[derive(Debug, Default)]
pub struct DeviceMib(PerCpu<Slot6>);

impl DeviceMib {
    /// Returns a function that sums a counter.
    pub fn v6(&self) -> impl Fn(Value6) -> u64 + '_ {
        |value| self.0.iter().map(|(_, slot)| slot.get(value)).sum()
    }

    /// Resets all counters, because IPv6 starts again on the device.
    pub fn clear(&self) {
        for (_, slot) in self.0.iter() {
            slot.ip.clear();
            slot.icmp.clear();
            slot.types.clear();
        }
    }
}

/// One CPU's IPv6 counters of a namespace and of one of its devices, which are incremented together.
#[derive(Clone, Copy)]
pub struct Pair<'a>(&'a Slot6, Option<&'a Slot6>);

impl Pair<'_> {
    fn each(&self, add: impl Fn(&Slot6)) {
        add(self.0);
        if let Some(device) = self.1 {
            add(device);
        }
    }

    /// Adds to an IPv6 counter.
    #[inline]
    pub fn ip(&self, counter: Ip, by: u64) {
        self.each(|slot| slot.ip.add(counter, by));
    }

    /// Increments an ICMPv6 counter.
    pub fn icmp(&self, counter: Icmp) {
        self.each(|slot| slot.icmp.add(counter, 1));
    }

    /// Counts an ICMPv6 message of a type.
    pub fn message(&self, way: Way, ty: u8) {
        self.each(|slot| slot.types.add(way, ty));
    }
}

static NAMESPACE: Key<Mib, 7> = Key::new();
static DEVICE: Key<DeviceMib, 1> = Key::new();

/// The counters' places in the stack.
pub static MODULE: Module = Module {
    namespace: Some(|parts, _| parts.fill(&NAMESPACE, Mib::default())),
    device: Some(|parts, _, _, _| parts.fill(&DEVICE, DeviceMib::default())),
    ..Module::NONE
};

/// A namespace or a device, which has counters.
pub trait WithMib {
    /// The type of the counters.
    type Mib;
    /// Returns the counters.
    fn mib(&self) -> &Self::Mib;
}

impl WithMib for Namespace {
    type Mib = Mib;
    #[inline]
    fn mib(&self) -> &Mib {
        self.parts.get(&NAMESPACE)
    }
}

impl WithMib for Device {
    type Mib = DeviceMib;
    #[inline]
    fn mib(&self) -> &DeviceMib {
        self.parts.get(&DEVICE)
    }
}

/// The counters that a CPU increments.
pub trait Count<'c> {
    /// Returns this CPU's counters of a namespace.
    fn mib<'a>(&self, ns: &'a Namespace) -> &'a Slot;
    /// Returns this CPU's IPv6 counters of a namespace, without a device.
    fn mib6_all<'a>(&self, ns: &'a Namespace) -> Pair<'a>;
    /// Returns this CPU's IPv6 counters of a device and its namespace.
    fn mib6<'a>(&self, device: &'a Device) -> Pair<'a>
    where
        'c: 'a;
}

impl<'c> Count<'c> for Cx<'c> {
    #[inline]
    fn mib<'a>(&self, ns: &'a Namespace) -> &'a Slot {
        ns.mib().0.get(self.state.id)
    }

    fn mib6_all<'a>(&self, ns: &'a Namespace) -> Pair<'a> {
        Pair(&self.mib(ns).v6, None)
    }

    #[inline]
    fn mib6<'a>(&self, device: &'a Device) -> Pair<'a>
    where
        'c: 'a,
    {
        let ns = device.namespace(self.guard);
        Pair(&self.mib(ns).v6, Some(device.mib().0.get(self.state.id)))
    }
}

/// The counts of a batch of received packets.
#[derive(Debug, Default)]
pub(crate) struct Received {
    pub packets: u64,
    /// Bytes from the network header on, including link-layer padding.
    pub octets: u64,
    /// Packets by ECN code point.
    pub ecn: [u64; 4],
    pub header_errors: u64,
    pub checksum_errors: u64,
    pub truncated: u64,
    pub discards: u64,
}

impl Received {
    /// Passes every count that is not zero to `add`.
    pub fn flush(&self, add: impl Fn(Ip, u64)) {
        if self.packets == 0 {
            return;
        }
        add(Ip::InReceives, self.packets);
        add(Ip::InOctets, self.octets);
        let [none, ect1, ect0, ce] = self.ecn;
        for (counter, by) in [
            (Ip::InNoECTPkts, none),
            (Ip::InECT1Pkts, ect1),
            (Ip::InECT0Pkts, ect0),
            (Ip::InCEPkts, ce),
            (Ip::InHdrErrors, self.header_errors),
            (Ip::InCsumErrors, self.checksum_errors),
            (Ip::InTruncatedPkts, self.truncated),
            (Ip::InDiscards, self.discards),
        ] {
            if by > 0 {
                add(counter, by);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_all_cpus_add_up() {
        let mib = Mib::default();
        for cpu in [0, 3] {
            let slot = mib.0.get(cpu);
            slot.ip.add(Ip::InReceives, 5);
            slot.message(Way::In, 8);
            slot.message(Way::Out, 200);
        }
        assert_eq!(mib.ip(Ip::InReceives), 10);
        assert_eq!(mib.ip(Ip::InOctets), 0);
        assert_eq!(mib.messages(Way::In, 8), 2);
        assert_eq!(mib.messages(Way::Out, 8), 0);
        assert_eq!(mib.messages(Way::Out, 200), 2);
    }

    #[test]
    fn every_type_has_a_place_of_its_own() {
        let device = DeviceMib::default();
        for ty in 0..=255 {
            for _ in 0..=ty {
                device.0.get(1).types.add(Way::In, ty);
            }
        }
        for ty in 0..=255 {
            assert_eq!(
                device.v6()(Value6::Messages(Way::In, ty)),
                u64::from(ty) + 1
            );
        }
        device.clear();
        assert_eq!(device.v6()(Value6::Messages(Way::In, 135)), 0);
    }
}
