// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Classifiers: the kinds of filters that match packets.
//!
//! Mirrors `struct tcf_proto_ops` (net/sched/cls_api.c). A kind is one file (or folder) with a
//! [`Classifier`] and one line in [`KINDS`]. A [`Classifier`] is one instance: the filters of one
//! priority in one chain, by handle.

pub mod basic;
pub mod bpf;
pub mod cgroup;
pub mod ematch;
pub mod exts;
pub mod flow;
pub mod flower;
pub mod fw;
pub mod list;
pub mod matchall;
pub mod route;
pub mod u32;

use std::any::Any;
use std::sync::Arc;

use weir_netlink::{Attr, Error, Table, Writer};
use weir_packet::Packet;
use weir_packet::batch::BATCH;
use weir_sync::bits::set_bits;
use weir_sync::percpu::PerCpu;
use weir_sync::primitive::atomic::{AtomicU64, Ordering::Relaxed};
use weir_sync::rcu::Guard;

use crate::block::Block;
use crate::context::Context;
use crate::early::{Frames, Packets};
use crate::env::Env;
use crate::verdict::{Code, Outcome};

/// The classifier kinds, one file each.
pub static KINDS: &[Ops] = &[
    basic::OPS,
    bpf::OPS,
    cgroup::OPS,
    flow::OPS,
    flower::OPS,
    fw::OPS,
    matchall::OPS,
    route::OPS,
    u32::OPS,
];

/// Creates a template from the attributes of a message.
pub type TemplateFn = fn(&Table<'_>, &Env<'_>) -> Result<Arc<dyn Template>, Error>;

/// The circumstances in which an instance is created.
pub struct New<'a> {
    /// The environment of the request.
    pub env: &'a Env<'a>,
    /// The block of the instance's chain.
    pub block: &'a Arc<Block>,
    /// The priority.
    pub prio: u16,
}

/// An entry in [`KINDS`].
pub struct Ops {
    /// The name.
    pub kind: &'static str,
    /// Creates an empty instance.
    pub create: fn(&New<'_>) -> Result<Box<dyn Classifier>, Error>,
    /// Creates a template for a chain; `None` if the kind has no templates.
    pub template: Option<TemplateFn>,
}

impl std::fmt::Debug for Ops {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.kind)
    }
}

/// Returns the kind with a name (`tcf_proto_lookup_ops`).
pub fn find_ops(kind: &[u8]) -> Option<&'static Ops> {
    KINDS.iter().find(|ops| ops.kind.as_bytes() == kind)
}

/// The shape that filters of a chain must have.
pub trait Template: Any + Send + Sync {
    /// Returns the kind that created the template.
    fn ops(&self) -> &'static Ops;
    /// Encodes `TCA_OPTIONS`.
    fn dump(&self, w: &mut Writer, env: &Env<'_>);
}

/// A filter from the point of view of requests.
pub trait Filter: Any + Send + Sync {
    /// Returns the handle in the filter's instance.
    fn handle(&self) -> u32;
    /// Encodes `TCA_OPTIONS`, with fewer attributes if `terse`.
    fn dump(&self, w: &mut Writer, terse: bool, env: &Env<'_>);
    /// Returns the actions and the class.
    fn exts(&self) -> &exts::Exts;
    /// Returns how a terse dump treats the filter.
    fn terse(&self) -> Terse {
        Terse::Ends
    }
}

/// The treatment of a filter in a terse dump.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Terse {
    /// The filter is shown.
    Shown,
    /// The dump ends with EMSGSIZE: the kind has no terse form (`tc_cls_stats_dump`).
    Ends,
    /// The filter is skipped: the walk of the kind counts filters that were not written
    /// (`mall_walk`).
    Passed,
}

/// A request to create or change a filter.
pub struct Change<'a> {
    /// The environment of the request.
    pub env: &'a Env<'a>,
    /// The block the chain is in.
    pub block: &'a Arc<Block>,
    /// The chain's template, if it has one.
    pub template: Option<Arc<dyn Template>>,
    /// The requested handle, 0 for any.
    pub handle: u32,
    /// The attributes of the message (`TCA_*`).
    pub tca: &'a Table<'a>,
    /// The attribute `TCA_OPTIONS`.
    pub options: Option<Attr<'a>>,
    /// Existing actions may be changed.
    pub replace: bool,
    /// A filter with the handle exists.
    pub exists: bool,
}

/// The number of readable bytes in front of the link-layer header (`NET_SKB_PAD`).
const PAD: i64 = 32;

/// Returns `N` bytes of a packet from offset `start`, or `None` if the packet is too short. The
/// bytes in front of the packet, which have no meaning, read as 0: tc turns `u16 ... at -14` into a
/// word at -16.
#[inline]
fn octets<const N: usize>(bytes: &[u8], start: i64) -> Option<[u8; N]> {
    let Ok(start) = usize::try_from(start) else {
        return front(bytes, start);
    };
    bytes.get(start..)?.first_chunk().copied()
}

#[cold]
fn front<const N: usize>(bytes: &[u8], start: i64) -> Option<[u8; N]> {
    let missing = usize::try_from(-start.max(-PAD - 1)).ok()?;
    if missing as i64 > PAD {
        return None;
    }
    let mut found = [0; N];
    if let Some(rest) = found.get_mut(missing..) {
        rest.copy_from_slice(bytes.get(..rest.len())?);
    }
    Some(found)
}

/// The filter that a packet matches, found before the packet's actions run.
#[derive(Debug, Clone, Copy)]
pub struct Hit<'g> {
    /// The filter's handle.
    pub handle: u32,
    /// The filter's actions and class.
    pub exts: &'g exts::Exts,
    /// The filter's own counter of packets, if its kind has one.
    pub seen: Option<&'g PerCpu<AtomicU64>>,
}

impl<'g> Hit<'g> {
    /// Runs the filter's actions, as [`Classifier::classify`] does for the filter that matches.
    #[inline]
    pub fn run(self, cx: &mut Context<'_, 'g>, packet: &mut Packet, out: &mut Outcome<'g>) -> Code {
        out.handle = self.handle;
        self.count(cx.cpu, 1);
        self.exts.run(cx, packet, out)
    }

    /// Counts packets that match the filter.
    #[inline]
    pub fn count(self, cpu: usize, packets: u64) {
        if let Some(seen) = self.seen {
            let seen = seen.get(cpu);
            seen.store(seen.load(Relaxed).wrapping_add(packets), Relaxed);
        }
    }
}

/// The filter that each packet of a batch matches.
pub type Hits<'g> = [Option<Hit<'g>>; BATCH];

/// The packets of a batch that match a filter of an instance.
#[derive(Debug, Clone, Copy)]
pub struct Found<'g> {
    /// A bit for each of them.
    pub which: u64,
    /// The filter that all of them match, if that is known. Their [`Hits`] are then not set; otherwise each has its
    /// own there.
    pub one: Option<Hit<'g>>,
}

impl<'g> Found<'g> {
    /// Returns the packets whose filters are in the [`Hits`].
    pub fn each(which: u64) -> Self {
        Self { which, one: None }
    }

    /// Returns packets that match one filter.
    pub fn one(which: u64, hit: Hit<'g>) -> Self {
        Self {
            which,
            one: Some(hit),
        }
    }

    /// Sets the [`Hits`] of packets that match one filter.
    pub fn spread(self, hits: &mut Hits<'g>) {
        if self.one.is_some() {
            set_bits(self.which).for_each(|n| hits[n % BATCH] = self.one);
        }
    }
}

/// The scratch memory of a CPU for batched lookups.
#[derive(Default)]
pub struct Lookup {
    pub(crate) flower: flower::mask::Scratch,
}

impl Lookup {
    /// Switches the timing of dissections.
    #[inline]
    pub fn time(&mut self, on: bool) {
        self.flower.timed = on;
    }

    /// Returns the number of packets that were dissected since the last call, and the cycles this
    /// took.
    #[inline]
    pub fn take_dissected(&mut self) -> (u64, u64) {
        let taken = (self.flower.dissected, self.flower.cycles);
        (self.flower.dissected, self.flower.cycles) = (0, 0);
        taken
    }
}

/// An instance of a classifier kind; see the module's documentation.
pub trait Classifier: Any + Send + Sync {
    /// Finds the filter that matches a packet and runs its actions. Returns their code, or a
    /// negative code if no filter matches or the packet continues with the next instance.
    fn classify<'g>(
        &'g self,
        cx: &mut Context<'_, 'g>,
        packet: &mut Packet,
        out: &mut Outcome<'g>,
    ) -> Code;

    /// Finds the filters that the packets with a bit in `wanted` match, before any action runs.
    /// Kinds implement this if a batched lookup is faster, and if their lookups count nothing and do
    /// not depend on the actions of earlier packets. Other kinds return `None`.
    fn find_batch<'g>(
        &'g self,
        _packets: Packets<'_>,
        _wanted: u64,
        _lookup: &mut Lookup,
        _guard: &'g Guard,
        _hits: &mut Hits<'g>,
    ) -> Option<Found<'g>> {
        None
    }

    /// Returns the filter that every packet matches, if one does. Finding it counts nothing.
    fn every<'g>(&'g self, _guard: &'g Guard) -> Option<Hit<'g>> {
        None
    }

    /// Returns whether [`find_frames`](Self::find_frames) works for the instance as it is now.
    fn takes_frames(&self, _guard: &Guard) -> bool {
        false
    }

    /// Does the same as [`find_batch`](Self::find_batch) for frames that are not packets yet.
    /// Nothing is counted. Returns `None` if a lookup needs more than the frames.
    fn find_frames<'g>(
        &'g self,
        _frames: Frames<'_>,
        _wanted: u64,
        _lookup: &mut Lookup,
        _guard: &'g Guard,
        _hits: &mut Hits<'g>,
    ) -> Option<Found<'g>> {
        None
    }

    /// Returns the filter with a handle.
    fn get(&self, handle: u32) -> Option<Arc<dyn Filter>>;

    /// Creates a filter, or changes `old`, which has the requested handle. Returns the filter to
    /// notify listeners about. EAGAIN means that an object disappeared concurrently and the caller
    /// must repeat all lookups.
    fn change(
        &self,
        change: &Change<'_>,
        old: Option<&Arc<dyn Filter>>,
    ) -> Result<Option<Arc<dyn Filter>>, Error>;

    /// Removes a filter. Returns whether the instance may be empty now. Fails with ENOENT if the
    /// filter was removed concurrently.
    fn delete(&self, filter: &Arc<dyn Filter>, env: &Env<'_>) -> Result<bool, Error>;

    /// Closes the instance to further changes if it is empty, and returns whether it is
    /// (`delete_empty`). Returns `None` for a kind that serializes changes itself and may always be
    /// removed.
    fn close_if_empty(&self) -> Option<bool> {
        None
    }

    /// Returns the first filter at position `from` or later in the order of dumps, with its
    /// position.
    fn next(&self, from: u64) -> Option<(u64, Arc<dyn Filter>)>;

    /// Appends the first filter at position `from` or later, possibly with some that follow it.
    /// Appends nothing if there is none.
    fn next_few(&self, from: u64, few: &mut Vec<(u64, Arc<dyn Filter>)>) {
        few.extend(self.next(from));
    }

    /// Closes the instance and removes all filters. The instance is no longer in its chain.
    fn destroy(&self, env: &Env<'_>);
}
