// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A chain: filters in the order of their priorities, and the walk of a packet over them.
//!
//! Mirrors `struct tcf_chain`, `__tcf_classify` and `tcf_chain_tp_*` (net/sched/cls_api.c). A chain
//! holds instances of classifiers ([`Proto`], Linux's `tcf_proto`), one for each priority; each
//! instance holds its filters. The data path reads a published list, which requests change under
//! the chain's lock.

use std::sync::{Arc, Weak};

use weir_netlink::Error;
use weir_netlink::errno::{EAGAIN, EINVAL};
use weir_packet::batch::BATCH;
use weir_packet::{DropReason, Packet};
use weir_sync::bits::set_bits;
use weir_sync::order::{self, Mutex, MutexGuard};
use weir_sync::rcu::{Domain, Guard, Published, PublishedOption};

use crate::block::{Block, Holds};
use crate::classifier::{Classifier, Found, Hit, Hits, Lookup, Ops, Template};
use crate::context::{Context, Received};
use crate::early::Packets;
use crate::verdict::{Code, Outcome, code};

/// `ETH_P_ALL`
pub const ETH_P_ALL: u16 = 3;

/// How often a packet may start over, by reclassify or at another chain (`max_reclassify_loop`).
const MAX_RECLASSIFY: u32 = 16;

/// An instance of a classifier: all filters of one priority (`struct tcf_proto`).
pub struct Proto {
    /// The priority; the lowest is tried first.
    pub prio: u16,
    /// The Ethertype in host order; [`ETH_P_ALL`] for any.
    pub protocol: u16,
    /// The classifier kind.
    pub ops: &'static Ops,
    /// The filters.
    pub classifier: Box<dyn Classifier>,
}

impl std::fmt::Debug for Proto {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} pref {} protocol {:#x}",
            self.ops.kind, self.prio, self.protocol
        )
    }
}

/// The state guarded by the chain's lock.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// The instances in the order of priorities, as published.
    pub list: Vec<Arc<Proto>>,
    /// The chain is being emptied and nothing may be added.
    pub flushing: bool,
}

/// The filters of a hook in the order of their priorities; see the module's documentation.
pub struct Chain {
    /// The number in the block.
    pub index: u32,
    block: Weak<Block>,
    /// The reference counts, which the block manages.
    pub(crate) holds: Holds,
    /// The shape that filters of the chain must have. It changes under the block's lock.
    pub(crate) template: PublishedOption<Arc<dyn Template>>,
    protos: Published<Vec<Arc<Proto>>>,
    /// Guards changes of the list. Among this crate's locks, only the block's may be held when
    /// taking it.
    state: Mutex<State, order::Chain>,
}

impl std::fmt::Debug for Chain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Chain")
            .field("index", &self.index)
            .field("protos", &self.protos)
            .finish_non_exhaustive()
    }
}

impl Chain {
    pub(crate) fn new(domain: &Domain, block: &Arc<Block>, index: u32) -> Arc<Self> {
        Arc::new(Self {
            index,
            block: Arc::downgrade(block),
            holds: Holds::default(),
            template: PublishedOption::new(domain, None),
            protos: Published::new(domain, Vec::new()),
            state: Mutex::default(),
        })
    }

    /// Returns the block the chain is in, or `None` if the block is gone.
    pub fn block(&self) -> Option<Arc<Block>> {
        self.block.upgrade()
    }

    /// Locks the list for a change; [`publish`](Self::publish) completes the change.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State, order::Chain> {
        self.state.lock()
    }

    /// Publishes the changed list to the data path.
    pub(crate) fn publish(&self, state: &State) {
        self.protos.replace(state.list.clone());
    }

    /// Returns the instances in the order of priorities.
    pub fn protos(&self) -> Vec<Arc<Proto>> {
        self.lock().list.clone()
    }

    /// Returns the instances in the order of priorities, as the data path sees them.
    pub(crate) fn published<'g>(&'g self, guard: &'g Guard) -> &'g [Arc<Proto>] {
        self.protos.load(guard)
    }

    /// Does the same as [`State::find`] on the published list, without the lock.
    pub(crate) fn find<'g>(
        &'g self,
        protocol: u16,
        prio: u16,
        must_be_free: bool,
        guard: &'g Guard,
    ) -> Result<Option<&'g Arc<Proto>>, Error> {
        find(self.protos.load(guard), protocol, prio, must_be_free).map(Result::ok)
    }

    /// Returns whether the chain has no filters.
    #[inline]
    pub fn is_empty(&self, cx: &Context<'_, '_>) -> bool {
        self.protos.load(cx.guard).is_empty()
    }

    /// Classifies a packet (`__tcf_classify`). Returns the final code, or [`code::UNSPEC`] if no
    /// filter matched.
    pub fn classify<'g>(
        &'g self,
        cx: &mut Context<'_, 'g>,
        packet: &mut Packet,
        out: &mut Outcome<'g>,
    ) -> Code {
        self.walk(self.protos.load(cx.guard), None, cx, packet, out)
    }

    /// Classifies packet `n` of a batch whose lookup is done, as [`classify`](Self::classify) does.
    #[inline]
    pub(crate) fn walk_from<'g>(
        &'g self,
        (starts, n): (&Starts<'g>, usize),
        cx: &mut Context<'_, 'g>,
        packet: &mut Packet,
        out: &mut Outcome<'g>,
    ) -> Code {
        let first = starts.hit(n).map(|hit| hit.run(cx, packet, out));
        match first {
            // In most cases the first filter ends the walk.
            Some(result) if code::is_end(result) && !cx.is_traced() => result,
            _ => self.walk(starts.protos_of(n), first, cx, packet, out),
        }
    }

    /// Walks a packet over `protos`; no earlier instance matches it. `first` is the result of the
    /// filter that matches in the first of `protos`, if that filter has already run.
    fn walk<'g>(
        &'g self,
        mut protos: &'g [Arc<Proto>],
        mut first: Option<Code>,
        cx: &mut Context<'_, 'g>,
        packet: &mut Packet,
        out: &mut Outcome<'g>,
    ) -> Code {
        let mut chain = self;
        let mut limit = 0;
        'again: loop {
            for proto in protos {
                let result = match first.take() {
                    Some(result) => result,
                    None if !proto.is_for(packet) => continue,
                    None => proto.classifier.classify(cx, packet, out),
                };
                if result != code::UNSPEC || out.handle != 0 {
                    cx.note(packet, || chain.describe(proto, out, result, cx.ingress));
                    out.handle = 0;
                }
                if result == code::RECLASSIFY && !out.compat {
                    chain = self;
                } else if code::is_goto(result) {
                    match out.chain {
                        Some(next) => chain = next,
                        None => {
                            out.reason = Some(DropReason::TC_CHAIN_NOTFOUND);
                            return code::SHOT;
                        }
                    }
                } else if result >= 0 {
                    return result;
                } else {
                    continue;
                }
                if limit >= MAX_RECLASSIFY {
                    out.reason = Some(DropReason::TC_RECLASSIFY_LOOP);
                    return code::SHOT;
                }
                limit += 1;
                protos = chain.protos.load(cx.guard);
                continue 'again;
            }
            return code::UNSPEC;
        }
    }
}

/// The starting points of a batch of packets in a chain, after the batched lookup.
pub(crate) struct Starts<'g> {
    protos: &'g [Arc<Proto>],
    /// A bit for each packet that has to be walked; the others match nothing.
    walking: u64,
    /// The filter that all packets match, and the index of its instance.
    every: Option<(Hit<'g>, usize)>,
    /// The starting points one by one, if packets were looked up in more than one instance.
    each: Option<Each<'g>>,
}

struct Each<'g> {
    /// The index of the instance each packet starts at.
    at: [u16; BATCH],
    /// The filter each packet matches in that instance, if known.
    hits: Hits<'g>,
}

impl<'g> Starts<'g> {
    /// Returns those of no packet.
    #[inline]
    pub(crate) fn new() -> Self {
        Self {
            protos: &[],
            walking: 0,
            every: None,
            each: None,
        }
    }

    /// Returns a bit for each packet that has to be walked.
    pub(crate) fn walking(&self) -> u64 {
        self.walking
    }

    /// Returns the filter that all packets match, if it is the same.
    #[inline]
    pub(crate) fn every(&self) -> Option<Hit<'g>> {
        self.every.map(|(hit, _)| hit)
    }

    /// Returns the filter that packet `n` matches, if it is known.
    #[inline]
    pub(crate) fn hit(&self, n: usize) -> Option<Hit<'g>> {
        if self.walking >> (n % BATCH) & 1 == 0 {
            return None;
        }
        match (&self.every, &self.each) {
            (Some((hit, _)), _) => Some(*hit),
            (None, Some(each)) => each.hits.get(n).copied().flatten(),
            (None, None) => None,
        }
    }

    fn protos_of(&self, n: usize) -> &'g [Arc<Proto>] {
        let at = match (&self.every, &self.each) {
            (Some((_, at)), _) => *at,
            (None, Some(each)) => each.at.get(n).map_or(0, |&at| usize::from(at)),
            (None, None) => 0,
        };
        self.protos.get(at..).unwrap_or_default()
    }

    /// Prefetches the counters that the packets will write.
    pub(crate) fn prefetch(&self, cpu: usize) {
        let (None, Some(each)) = (&self.every, &self.each) else {
            return;
        };
        for hit in set_bits(self.walking).filter_map(|n| each.hits.get(n)?.as_ref()) {
            hit.exts.prefetch_counters(cpu);
        }
    }
}

impl<'g> Starts<'g> {
    /// Lets the actions of the filters that the packets match bring their memory into the cache.
    pub(crate) fn prefetch_for_actions(&self, cx: &Context<'_, 'g>, packets: &[Packet]) {
        // Few kinds of actions have memory of their own to look up.
        if cx.conntrack.is_none() && !cx.looks_up {
            return;
        }
        let prefetch = |hit: Hit<'g>, packets: &[Packet]| {
            for action in hit.exts.actions() {
                action.kind.prefetch_packets(cx, packets);
            }
        };
        if let Some(hit) = self.every() {
            return prefetch(hit, packets);
        }
        let mut from = 0;
        while from < packets.len() {
            let mut to = from + 1;
            if let Some(hit) = self.hit(from) {
                let same = |other: Hit<'_>| std::ptr::eq(other.exts, hit.exts);
                while to < packets.len() && self.hit(to).is_some_and(same) {
                    to += 1;
                }
                prefetch(hit, packets.get(from..to).unwrap_or_default());
            }
            from = to;
        }
    }
}

impl Chain {
    /// Looks up the packets with a bit in `wanted` as a batch, as far as the classifier kinds
    /// support that. With the packets comes what is known of them. Writes to `starts`, which are those of no packet, where
    /// each packet starts its walk; the caller then walks the packets in order, one by one.
    pub(crate) fn find_batch<'g>(
        &'g self,
        (packets, received): (&[Packet], Option<Received>),
        mut wanted: u64,
        lookup: &mut Lookup,
        guard: &'g Guard,
        starts: &mut Starts<'g>,
    ) {
        starts.protos = self.protos.load(guard);
        let all = u64::MAX >> (BATCH - packets.len().clamp(1, BATCH));
        for (n, proto) in starts.protos.iter().enumerate() {
            let fits = match received.and_then(|received| received.protocol) {
                Some(protocol) if proto.takes(protocol) => wanted,
                Some(_) => 0,
                None => wanted & proto.fitting(packets),
            };
            if fits == 0 {
                continue;
            }
            let classifier = &proto.classifier;
            if fits == all
                && let Some(hit) = classifier.every(guard)
            {
                (starts.walking, starts.every) = (all, Some((hit, n)));
                return;
            }
            let each = match &mut starts.each {
                Some(each) => each,
                none => none.insert(Each {
                    at: [0; BATCH],
                    hits: [None; BATCH],
                }),
            };
            let packets = Packets {
                all: packets,
                unaltered: received.is_some(),
            };
            let found = classifier.find_batch(packets, fits, lookup, guard, &mut each.hits);
            let found = found.unwrap_or(Found::each(fits));
            if found.which == all
                && let Some(hit) = found.one
            {
                (starts.walking, starts.every) = (all, Some((hit, n)));
                return;
            }
            found.spread(&mut each.hits);
            let found = found.which;
            starts.walking |= found;
            wanted &= !found;
            if n > 0 {
                // The cast is safe because there are no more instances than priorities.
                set_bits(found).for_each(|packet| each.at[packet % BATCH] = n as u16);
            }
        }
    }

    /// Describes a matching filter for a trace.
    #[cold]
    fn describe(&self, proto: &Proto, out: &Outcome<'_>, result: Code, ingress: bool) -> String {
        let hook = if ingress { "ingress" } else { "egress" };
        let (index, prio, kind) = (self.index, proto.prio, proto.ops.kind);
        let (handle, result) = (out.handle, code::name(result));
        format!("{hook} chain {index} pref {prio} {kind} handle {handle:#x} {result}")
    }
}

impl Proto {
    #[inline]
    fn is_for(&self, packet: &Packet) -> bool {
        self.takes(protocol(packet))
    }

    #[inline]
    fn takes(&self, protocol: u16) -> bool {
        self.protocol == ETH_P_ALL || self.protocol == protocol
    }

    /// Returns a bit for each packet that passes [`is_for`](Self::is_for); all bits if the instance
    /// takes any protocol.
    fn fitting(&self, packets: &[Packet]) -> u64 {
        if self.protocol == ETH_P_ALL {
            return u64::MAX;
        }
        let fits = |packet| u64::from(protocol(packet) == self.protocol);
        let packets = packets.iter().enumerate();
        packets.fold(0, |all, (n, packet)| all | fits(packet) << n)
    }
}

/// Returns the protocol of the outermost header (`skb_protocol(skb, false)`).
#[inline]
pub(crate) fn protocol(packet: &Packet) -> u16 {
    packet.vlan().map_or(packet.protocol, |tag| tag.proto)
}

fn find(
    list: &[Arc<Proto>],
    protocol: u16,
    prio: u16,
    must_be_free: bool,
) -> Result<Result<&Arc<Proto>, usize>, Error> {
    let at = list.partition_point(|proto| proto.prio < prio);
    match list.get(at) {
        Some(proto) if proto.prio == prio => {
            if must_be_free || (protocol != 0 && proto.protocol != protocol) {
                return Err(Error::new(EINVAL));
            }
            Ok(Ok(proto))
        }
        _ => Ok(Err(at)),
    }
}

impl State {
    /// Finds the position where `prio` is or would be inserted (`tcf_chain_tp_find`). `protocol` 0
    /// matches any. Fails with EINVAL if the priority has another protocol, or if it exists
    /// although `must_be_free` is set.
    pub(crate) fn find(
        &self,
        protocol: u16,
        prio: u16,
        must_be_free: bool,
    ) -> Result<Result<Arc<Proto>, usize>, Error> {
        find(&self.list, protocol, prio, must_be_free).map(|found| found.cloned())
    }

    /// Returns the priority for a filter that asks for none, given the position found for it
    /// (`tcf_auto_prio`).
    pub(crate) fn auto_prio(&self, at: usize) -> u16 {
        self.list
            .get(at)
            .map_or(0xc000, |proto| proto.prio.wrapping_sub(1))
    }

    /// Inserts `proto`, or returns the instance that another request inserted first
    /// (`tcf_chain_tp_insert_unique`).
    pub(crate) fn insert(&mut self, proto: &Arc<Proto>) -> Result<Arc<Proto>, Error> {
        match self.find(proto.protocol, proto.prio, false)? {
            Ok(first) => Ok(first),
            Err(_) if self.flushing => Err(Error::new(EAGAIN)),
            Err(at) => {
                self.list.insert(at, proto.clone());
                Ok(proto.clone())
            }
        }
    }

    /// Removes `proto`. Returns `false` if it is not in the list.
    pub(crate) fn remove(&mut self, proto: &Arc<Proto>) -> bool {
        let before = self.list.len();
        self.list.retain(|other| !Arc::ptr_eq(other, proto));
        self.list.len() != before
    }
}
