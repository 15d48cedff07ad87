// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A tin: its flows, the hash table that finds them, and the hosts they belong to.
//!
//! Mirrors `struct cake_tin_data`, `cake_hash` and `cake_get_flow_quantum` (net/sched/sch_cake.c).
//! The table has 1024 slots in sets of 8. A flow shares a slot only if all slots of its set are
//! taken. Hosts are hashed the same way.

use std::collections::VecDeque;

use weir_packet::Packet;

use super::cobalt;
use super::diffserv::Rate;

/// Number of flows of a tin (`CAKE_QUEUES`).
pub const FLOWS: usize = 1024;
/// Slots per set (`CAKE_SET_WAYS`).
const WAYS: usize = 8;

/// Flow modes: the packet fields that distinguish flows (`CAKE_FLOW_*`).
pub mod mode {
    /// All packets are one flow.
    pub const NONE: u8 = 0;
    /// Source address.
    pub const SRC_IP: u8 = 1;
    /// Destination address.
    pub const DST_IP: u8 = 2;
    /// Both addresses.
    pub const HOSTS: u8 = 3;
    /// Addresses, ports and protocol.
    pub const FLOWS: u8 = 4;
    /// Fair among the hosts at both ends, then among flows.
    pub const TRIPLE: u8 = 7;
    /// Mask of all modes.
    pub const MASK: u8 = 63;
    /// Flag: use the addresses before translation.
    pub const NAT: u8 = 64;

    /// Returns whether the rate is shared among source hosts first.
    pub fn by_source(mode: u8) -> bool {
        mode & (FLOWS | SRC_IP) == FLOWS | SRC_IP
    }

    /// Returns whether the rate is shared among destination hosts first.
    pub fn by_destination(mode: u8) -> bool {
        mode & (FLOWS | DST_IP) == FLOWS | DST_IP
    }
}

/// A waiting packet.
#[derive(Debug)]
pub struct Waiting {
    /// The packet.
    pub packet: Packet,
    /// Time of arrival, in ns.
    pub arrived: i64,
    /// Bytes it takes on the line.
    pub adjusted: u32,
}

/// State of a flow (`CAKE_SET_*`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Set {
    /// The flow is in no list.
    #[default]
    None,
    /// The flow is new.
    Sparse,
    /// The flow counts as new but takes turns with the old ones.
    SparseWait,
    /// The flow uses more than its share.
    Bulk,
    /// The flow is empty and its control law is not at rest yet.
    Decaying,
}

/// A flow (`struct cake_flow`).
#[derive(Debug, Default)]
pub struct Flow {
    /// Waiting packets.
    pub queue: VecDeque<Waiting>,
    /// Bytes it may still send in this turn.
    pub deficit: i32,
    /// Packets dropped.
    pub dropped: u32,
    /// State of its control law.
    pub vars: cobalt::Vars,
    /// Its state in the schedule.
    pub set: Set,
    src_host: u16,
    dst_host: u16,
    tag: u32,
}

#[derive(Debug, Clone, Copy, Default)]
struct Host {
    src_tag: u32,
    dst_tag: u32,
    src_bulk: u16,
    dst_bulk: u16,
}

/// List of new flows.
pub const NEW: usize = FLOWS;
/// List of old flows.
pub const OLD: usize = FLOWS + 1;
/// List of decaying flows.
pub const DECAYING: usize = FLOWS + 2;

/// Doubly linked rings of flows. Each list has an extra entry for its head.
#[derive(Debug, Default)]
struct Lists(Vec<(u16, u16)>);

impl Lists {
    fn remove(&mut self, at: usize) {
        let (before, behind) = self.0[at];
        self.0[usize::from(before)].1 = behind;
        self.0[usize::from(behind)].0 = before;
        self.0[at] = (at as u16, at as u16);
    }

    fn append(&mut self, list: usize, at: usize) {
        self.remove(at);
        let last = self.0[list].0;
        self.0[at] = (last, list as u16);
        self.0[usize::from(last)].1 = at as u16;
        self.0[list].0 = at as u16;
    }
}

/// The hashes of a packet.
#[derive(Debug, Clone, Copy, Default)]
pub struct Hashes {
    /// Hash of the flow.
    pub flow: u32,
    /// Hash of the source address.
    pub src: u32,
    /// Hash of the destination address.
    pub dst: u32,
}

/// A tin (`struct cake_tin_data`). Its flows are allocated at the first packet.
#[derive(Debug, Default)]
pub struct Tin {
    /// The flows.
    pub flows: Vec<Flow>,
    /// Backlog of each flow, in bytes.
    pub backlogs: Vec<u32>,
    hosts: Vec<Host>,
    lists: Lists,
    /// COBALT's parameters.
    pub params: cobalt::Params,
    /// Its rate.
    pub rate: Rate,
    /// Bytes a flow may send per turn.
    pub flow_quantum: u16,
    /// Bytes the tin may send per turn.
    pub quantum: u16,
    /// Bytes left of its turn.
    pub deficit: i32,
    /// Time at which its own rate permits the next packet, in ns.
    pub time_next: i64,
    /// Number of sparse flows.
    pub sparse: u16,
    /// Number of bulk flows.
    pub bulk: u16,
    /// Number of decaying flows.
    pub decaying: u16,
    /// Flows for which BLUE is active.
    pub unresponsive: u16,
    /// Backlog in bytes.
    pub backlog: u32,
    /// Packets dropped.
    pub dropped: u32,
    /// Packets marked.
    pub marked: u32,
    /// Packets that arrived.
    pub packets: u32,
    /// Bytes that arrived.
    pub octets: u64,
    /// Acknowledgements dropped.
    pub ack_drops: u32,
    /// Length of the largest packet, in bytes.
    pub max_len: u32,
    /// Sojourn times in ns: mean, peak, base.
    pub delays: (u64, u64, u64),
    /// Lookups that found the flow in another slot of its set, that took a free slot, and that
    /// shared a slot.
    pub ways: (u32, u32, u32),
}

impl Tin {
    /// Allocates the flows.
    pub fn open(&mut self) {
        if self.flows.is_empty() {
            self.flows.resize_with(FLOWS, Flow::default);
            self.backlogs = vec![0; FLOWS];
            self.hosts = vec![Host::default(); FLOWS];
            self.lists = Lists((0..DECAYING as u16 + 1).map(|at| (at, at)).collect());
        }
    }

    /// Returns whether a flow has something to send.
    pub fn busy(&self) -> bool {
        self.sparse as u32 + self.bulk as u32 > 0
    }

    /// Returns the first flow of a list.
    pub fn first(&self, list: usize) -> Option<usize> {
        let first = usize::from(self.lists.0.get(list)?.1);
        (first != list).then_some(first)
    }

    /// Iterates over the old flows.
    pub fn old(&self) -> impl Iterator<Item = usize> {
        let next = |at: &usize| Some(usize::from(self.lists.0.get(*at)?.1));
        std::iter::successors(self.first(OLD), next).take_while(|&at| at != OLD)
    }

    /// Appends a flow to a list.
    pub fn append(&mut self, list: usize, at: usize) {
        self.lists.append(list, at);
    }

    /// Removes a flow from its list.
    pub fn unlink(&mut self, at: usize) {
        self.lists.remove(at);
    }

    /// Returns whether a flow is in a list.
    pub fn is_listed(&self, at: usize) -> bool {
        self.lists
            .0
            .get(at)
            .is_some_and(|(_, next)| usize::from(*next) != at)
    }

    /// Counts a flow as a bulk flow of its hosts, or stops counting it if `more` is false.
    pub fn count_bulk(&mut self, at: usize, mode: u8, more: bool) {
        let (src, dst) = (self.flows[at].src_host, self.flows[at].dst_host);
        let step = |count: &mut u16| match more {
            true => *count = (*count + 1).min(FLOWS as u16),
            false => *count = count.saturating_sub(1),
        };
        if mode::by_source(mode) {
            step(&mut self.hosts[usize::from(src)].src_bulk);
        }
        if mode::by_destination(mode) {
            step(&mut self.hosts[usize::from(dst)].dst_bulk);
        }
    }

    /// Returns the bytes a flow may send per turn: its share of the quantum among the flows of its
    /// busier host. `random` rounds the quotient up or down at random.
    pub fn quantum_of(&self, at: usize, mode: u8, random: u16) -> i32 {
        let flow = &self.flows[at];
        let mut load = 1;
        if mode::by_source(mode) {
            load = load.max(self.hosts[usize::from(flow.src_host)].src_bulk);
        }
        if mode::by_destination(mode) {
            load = load.max(self.hosts[usize::from(flow.dst_host)].dst_bulk);
        }
        let part = u32::from(self.flow_quantum) * u32::from(u16::MAX / load);
        ((part + u32::from(random)) >> 16) as u16 as i32
    }

    /// Returns the flow of a packet (`cake_hash`).
    pub fn find(&mut self, hashes: &Hashes, mode: u8) -> usize {
        let hash = hashes.flow;
        let direct = hash as usize % FLOWS;
        let there = &self.flows[direct];
        if there.tag == hash && there.set != Set::None {
            return direct;
        }
        let (way, set) = (direct % WAYS, direct - direct % WAYS);
        let places = (0..WAYS).map(|i| set + (way + i) % WAYS);
        let (mut at, mut new) = (direct, true);
        if let Some(found) = places.clone().find(|&at| self.flows[at].tag == hash) {
            self.ways.0 = self.ways.0.wrapping_add(u32::from(found != direct));
            (at, new) = (found, self.flows[found].set == Set::None);
        } else if let Some(free) = places.clone().find(|&at| self.flows[at].set == Set::None) {
            self.ways.1 = self.ways.1.wrapping_add(1);
            at = free;
        } else {
            self.ways.2 = self.ways.2.wrapping_add(1);
            if self.flows[at].set == Set::Bulk {
                self.count_bulk(at, mode, false);
            }
        }
        self.flows[at].tag = hash;
        if !new {
            return at;
        }
        if mode::by_source(mode) {
            let host = self.host(hashes.src, |host| host.src_tag, |host| host.src_bulk);
            self.hosts[host].src_tag = hashes.src;
            self.flows[at].src_host = host as u16;
        }
        if mode::by_destination(mode) {
            let host = self.host(hashes.dst, |host| host.dst_tag, |host| host.dst_bulk);
            self.hosts[host].dst_tag = hashes.dst;
            self.flows[at].dst_host = host as u16;
        }
        if self.flows[at].set == Set::Bulk {
            self.count_bulk(at, mode, true);
        }
        at
    }

    /// Returns the slot of a host: its own, else one without flows, else a shared one.
    fn host(&self, hash: u32, tag: fn(&Host) -> u32, bulk: fn(&Host) -> u16) -> usize {
        let direct = hash as usize % FLOWS;
        let (way, set) = (direct % WAYS, direct - direct % WAYS);
        let mut places = (0..WAYS).map(|i| set + (way + i) % WAYS);
        let own = places.clone().find(|&at| tag(&self.hosts[at]) == hash);
        let free = || places.find(|&at| bulk(&self.hosts[at]) == 0);
        own.or_else(free).unwrap_or(direct)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hashes(flow: u32) -> Hashes {
        Hashes {
            flow,
            src: flow,
            dst: 77,
        }
    }

    /// Nine flows hash to the same slot. Eight find slots of their own in the set, the ninth shares
    /// one.
    #[test]
    fn a_set_holds_eight_flows() {
        let mut tin = Tin::default();
        tin.open();
        let flow = |i: u32| hashes(21 + i * FLOWS as u32);
        let mut places: Vec<usize> = Vec::new();
        for i in 0..8 {
            let at = tin.find(&flow(i), mode::TRIPLE);
            tin.flows[at].set = Set::Sparse;
            places.push(at);
        }
        assert_eq!(places, [21, 22, 23, 16, 17, 18, 19, 20]);
        assert_eq!(tin.ways, (0, 8, 0));
        for (i, place) in (0..).zip(&places) {
            assert_eq!(tin.find(&flow(i), mode::TRIPLE), *place);
        }
        assert_eq!(tin.ways, (7, 8, 0), "the first flow is in its own slot");
        assert_eq!(tin.find(&flow(8), mode::TRIPLE), 21);
        assert_eq!(tin.ways, (7, 8, 1));
        // A free slot goes to the next new flow.
        tin.flows[18].set = Set::None;
        assert_eq!(tin.find(&flow(9), mode::TRIPLE), 18);
    }

    /// A flow's turn is its part of the turn of its busier host.
    #[test]
    fn flows_of_a_host_share_its_turn() {
        let mut tin = Tin::default();
        tin.open();
        tin.flow_quantum = 1514;
        let flow = |i: u32| Hashes {
            flow: 100 * i,
            src: 5,
            dst: i,
        };
        let places: Vec<usize> = (1..=4).map(|i| tin.find(&flow(i), mode::TRIPLE)).collect();
        for &at in &places {
            tin.flows[at].set = Set::Bulk;
            tin.count_bulk(at, mode::TRIPLE, true);
        }
        let mean = |tin: &Tin, mode| {
            let drawn = (0..=u16::MAX).map(|random| tin.quantum_of(places[0], mode, random));
            f64::from(drawn.sum::<i32>()) / 65536.0
        };
        for (mode, share) in [
            (mode::TRIPLE, 4.0),
            (mode::FLOWS | mode::SRC_IP, 4.0),
            (mode::FLOWS | mode::DST_IP, 1.0),
            (mode::FLOWS, 1.0),
        ] {
            let wrong = mean(&tin, mode) - 1514.0 / share;
            assert!(wrong.abs() < 0.1, "{mode}: {wrong}");
        }
        for &at in &places[1..] {
            tin.count_bulk(at, mode::TRIPLE, false);
        }
        assert!((mean(&tin, mode::TRIPLE) - 1514.0).abs() < 0.1);
    }
}
