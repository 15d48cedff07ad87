// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A chain: filters in the order of their priorities, and the walk of a packet over them.
//!
//! Mirrors `struct tcf_chain`, `__tcf_classify` and `tcf_chain_tp_*` (net/sched/cls_api.c). A chain
//! holds instances of classifiers ([`Proto`], Linux's `tcf_proto`), one for each priority; the filters
//! are inside those. The data path sees a published list; requests change it under the chain's lock.

use std::sync::{Arc, PoisonError, Weak};

use weir_netlink::Error;
use weir_netlink::errno::{EAGAIN, EINVAL};
use weir_packet::batch::BATCH;
use weir_packet::{DropReason, Packet};
use weir_sync::bits::set_bits;
use weir_sync::primitive::{Mutex, MutexGuard};
use weir_sync::rcu::{Domain, Guard, Published, PublishedOption};

use crate::block::{Block, Holds};
use crate::classifier::{Classifier, Hits, Lookup, Ops, Template};
use crate::context::Context;
use crate::verdict::{Code, Outcome, code};

/// `ETH_P_ALL`
pub const ETH_P_ALL: u16 = 3;

/// Times a packet may start anew, by reclassify or at another chain (`max_reclassify_loop`).
const MAX_RECLASSIFY: u32 = 16;

/// An instance of a classifier: all filters of one priority (`struct tcf_proto`).
pub struct Proto {
    /// Priority, lowest first.
    pub prio: u16,
    /// Ethertype, host order; [`ETH_P_ALL`] for any.
    pub protocol: u16,
    /// The kind.
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

/// What the chain's lock guards.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// As published, in the order of priorities.
    pub list: Vec<Arc<Proto>>,
    /// The chain is being emptied: nothing may be added.
    pub flushing: bool,
}

/// A chain; see the module's head.
pub struct Chain {
    /// Number in the block.
    pub index: u32,
    block: Weak<Block>,
    /// Who holds the chain; the block's business.
    pub(crate) holds: Holds,
    /// What its filters must look like; changed under the block's lock.
    pub(crate) template: PublishedOption<Arc<dyn Template>>,
    protos: Published<Vec<Arc<Proto>>>,
    /// Guards changes of the list. Taken after no other lock of this crate but that of the block.
    state: Mutex<State>,
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

    /// The block it is in; none once that is gone.
    pub fn block(&self) -> Option<Arc<Block>> {
        self.block.upgrade()
    }

    /// Locks the list for a change, which [`publish`](Self::publish) ends.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows the changed list to the data path.
    pub(crate) fn publish(&self, state: &State) {
        self.protos.replace(state.list.clone());
    }

    /// The instances, in the order of priorities.
    pub fn protos(&self) -> Vec<Arc<Proto>> {
        self.lock().list.clone()
    }

    /// [`State::find`] without the lock: what was published last.
    pub(crate) fn find<'g>(
        &'g self,
        protocol: u16,
        prio: u16,
        must_be_free: bool,
        guard: &'g Guard,
    ) -> Result<Option<&'g Arc<Proto>>, Error> {
        find(self.protos.load(guard), protocol, prio, must_be_free).map(Result::ok)
    }

    /// Whether a packet would find anything here.
    #[inline]
    pub fn is_empty(&self, cx: &Context<'_, '_>) -> bool {
        self.protos.load(cx.guard).is_empty()
    }

    /// Walks a packet over the filters (`__tcf_classify`); the code it ends with, or
    /// [`code::UNSPEC`] when none matched.
    pub fn classify<'g>(
        &'g self,
        cx: &mut Context<'_, 'g>,
        packet: &mut Packet,
        out: &mut Outcome<'g>,
    ) -> Code {
        self.walk(self.protos.load(cx.guard), None, cx, packet, out)
    }

    /// [`classify`](Self::classify) of packet `n` of a batch that was looked up.
    #[inline]
    pub(crate) fn walk_from<'g>(
        &'g self,
        (starts, n): (&Starts<'g>, usize),
        cx: &mut Context<'_, 'g>,
        packet: &mut Packet,
        out: &mut Outcome<'g>,
    ) -> Code {
        let hit = starts.hits.get(n).copied().flatten();
        let first = hit.map(|hit| hit.run(cx, packet, out));
        match first {
            // Mostly the first filter ends the walk.
            Some(result) if code::is_end(result) && !cx.is_traced() => result,
            _ => self.walk(starts.protos_of(n), first, cx, packet, out),
        }
    }

    /// Walks a packet that matches nothing in front of `protos`; what the filter it matches in the first
    /// of them has answered, if it was run.
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
                if result == code::RECLASSIFY {
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

/// Where the packets of a batch begin their walks over a chain: what is in front was looked up.
pub(crate) struct Starts<'g> {
    protos: &'g [Arc<Proto>],
    /// The packets that walk, a bit each: others match nothing.
    walking: u64,
    /// Which instance each begins with.
    at: [u16; BATCH],
    /// What each matches in that, if it is known.
    hits: Hits<'g>,
}

impl Default for Starts<'_> {
    fn default() -> Self {
        Self {
            protos: &[],
            walking: 0,
            at: [0; BATCH],
            hits: [None; BATCH],
        }
    }
}

impl<'g> Starts<'g> {
    /// The packets that walk, a bit each.
    pub(crate) fn walking(&self) -> u64 {
        self.walking
    }

    fn protos_of(&self, n: usize) -> &'g [Arc<Proto>] {
        let at = self.at.get(n).map_or(0, |&at| usize::from(at));
        self.protos.get(at..).unwrap_or_default()
    }

    /// Asks for what counting the packets will write.
    pub(crate) fn prefetch(&self, cpu: usize) {
        for hit in set_bits(self.walking).filter_map(|n| self.hits.get(n)?.as_ref()) {
            hit.exts.prefetch_counters(cpu);
        }
    }
}

impl Chain {
    /// Looks up the packets with a bit in `wanted` together, as far as the kinds can: where each begins
    /// its walk, which is to be in order, packet by packet.
    pub(crate) fn find_batch<'g>(
        &'g self,
        packets: &[Packet],
        mut wanted: u64,
        lookup: &mut Lookup,
        guard: &'g Guard,
        starts: &mut Starts<'g>,
    ) {
        starts.protos = self.protos.load(guard);
        for (n, proto) in starts.protos.iter().enumerate() {
            let fits = wanted & proto.fitting(packets);
            if fits == 0 {
                continue;
            }
            let classifier = &proto.classifier;
            let found = classifier.find_batch(packets, fits, lookup, guard, &mut starts.hits);
            let found = found.unwrap_or(fits);
            starts.walking |= found;
            wanted &= !found;
            if n > 0 {
                // There are no more than priorities.
                set_bits(found).for_each(|packet| starts.at[packet % BATCH] = n as u16);
            }
        }
    }

    /// What a trace says of a filter that matched.
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
        self.protocol == ETH_P_ALL || self.protocol == protocol(packet)
    }

    /// The packets it [`is_for`](Self::is_for), a bit each; all bits where it is for any.
    fn fitting(&self, packets: &[Packet]) -> u64 {
        if self.protocol == ETH_P_ALL {
            return u64::MAX;
        }
        let fits = |packet| u64::from(protocol(packet) == self.protocol);
        let packets = packets.iter().enumerate();
        packets.fold(0, |all, (n, packet)| all | fits(packet) << n)
    }
}

/// `skb_protocol(skb, false)`: that of the outermost header.
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
    /// `tcf_chain_tp_find`: where `prio` stands or would stand. `protocol` 0 is any; EINVAL when the
    /// priority has another protocol, or is there and was to be free.
    pub(crate) fn find(
        &self,
        protocol: u16,
        prio: u16,
        must_be_free: bool,
    ) -> Result<Result<Arc<Proto>, usize>, Error> {
        find(&self.list, protocol, prio, must_be_free).map(|found| found.cloned())
    }

    /// `tcf_auto_prio`: the priority for a filter that asks for none, at the place found for it.
    pub(crate) fn auto_prio(&self, at: usize) -> u16 {
        self.list
            .get(at)
            .map_or(0xc000, |proto| proto.prio.wrapping_sub(1))
    }

    /// `tcf_chain_tp_insert_unique`: puts `proto` in, or answers the one that came first.
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

    /// Takes `proto` out; `false` if it is not there.
    pub(crate) fn remove(&mut self, proto: &Arc<Proto>) -> bool {
        let before = self.list.len();
        self.list.retain(|other| !Arc::ptr_eq(other, proto));
        self.list.len() != before
    }
}
