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
use weir_sync::primitive::{Mutex, MutexGuard};
use weir_sync::rcu::{Domain, Guard, Published, PublishedOption};

use crate::block::{Block, Holds};
use crate::classifier::{Classifier, Hit, Hits, Lookup, Ops, Template};
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
        let start = Start {
            protos: self.protos.load(cx.guard),
            hit: None,
        };
        self.walk(start, cx, packet, out)
    }

    /// [`classify`](Self::classify) of a packet that matches nothing in front of `start`.
    pub(crate) fn walk<'g>(
        &'g self,
        start: Start<'g>,
        cx: &mut Context<'_, 'g>,
        packet: &mut Packet,
        out: &mut Outcome<'g>,
    ) -> Code {
        let mut chain = self;
        let mut limit = 0;
        let Start {
            mut protos,
            mut hit,
        } = start;
        'again: loop {
            for proto in protos {
                let result = match hit.take() {
                    Some(hit) => hit.run(cx, packet, out),
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

/// Where a packet of a batch begins its walk over a chain: what is in front was looked up.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Start<'g> {
    /// The instances that are left; none when the packet matches nothing.
    protos: &'g [Arc<Proto>],
    /// What the packet matches in the first of them, if that is known.
    hit: Option<Hit<'g>>,
}

impl Start<'_> {
    /// Whether the packet matches nothing.
    pub(crate) fn is_end(&self) -> bool {
        self.protos.is_empty()
    }

    /// Asks for what counting the packet will write.
    pub(crate) fn prefetch(&self, cpu: usize) {
        if let Some(hit) = &self.hit {
            hit.exts.prefetch_counters(cpu);
        }
    }
}

impl Chain {
    /// Looks up the packets with a bit in `wanted` together, as far as the kinds can; answers where
    /// each begins its walk, which is to be in order, packet by packet. Whether any has one.
    pub(crate) fn find_batch<'g>(
        &'g self,
        packets: &[Packet],
        wanted: u64,
        lookup: &mut Lookup,
        guard: &'g Guard,
        starts: &mut [Start<'g>; BATCH],
    ) -> bool {
        let mut protos = self.protos.load(guard).as_slice();
        let mut wanted = wanted;
        let mut any = false;
        let mut hits: Hits<'g> = [None; BATCH];
        while let Some((proto, rest)) = protos.split_first() {
            let mut fits = 0;
            for (i, packet) in packets.iter().enumerate() {
                fits |= u64::from(proto.is_for(packet)) << i;
            }
            fits &= wanted;
            let classifier = &proto.classifier;
            let found = fits == 0 || classifier.find_batch(packets, fits, lookup, guard, &mut hits);
            while fits != 0 {
                let at = fits.trailing_zeros() as usize;
                fits &= fits - 1;
                let hit = hits.get_mut(at).and_then(Option::take);
                if let Some(start) = starts.get_mut(at)
                    && (hit.is_some() || !found)
                {
                    *start = Start { protos, hit };
                    wanted &= !(1 << at);
                    any = true;
                }
            }
            protos = rest;
        }
        any
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
