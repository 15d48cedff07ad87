// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Classifiers: what tells packets apart.
//!
//! Mirrors `struct tcf_proto_ops` (net/sched/cls_api.c). A kind is one file (or folder) with a
//! [`Classifier`] and one line in [`KINDS`]. A [`Classifier`] is one instance: the filters of one
//! priority in one chain, by handle.

pub mod basic;
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
use weir_sync::rcu::Guard;

use crate::block::Block;
use crate::context::Context;
use crate::env::Env;
use crate::verdict::{Code, Outcome};

/// The classifier kinds, each with its file.
pub static KINDS: &[Ops] = &[
    basic::OPS,
    cgroup::OPS,
    flow::OPS,
    flower::OPS,
    fw::OPS,
    matchall::OPS,
    route::OPS,
    u32::OPS,
];

/// Makes a template from the attributes of a message.
pub type TemplateFn = fn(&Table<'_>, &Env<'_>) -> Result<Arc<dyn Template>, Error>;

/// Where an instance comes to be.
pub struct New<'a> {
    /// The surroundings.
    pub env: &'a Env<'a>,
    /// The block of its chain.
    pub block: &'a Arc<Block>,
    /// Its priority.
    pub prio: u16,
}

/// The line of a kind in [`KINDS`].
pub struct Ops {
    /// Name.
    pub kind: &'static str,
    /// Makes an empty instance.
    pub create: fn(&New<'_>) -> Result<Box<dyn Classifier>, Error>,
    /// Makes a template for a chain; `None` where the kind has none.
    pub template: Option<TemplateFn>,
}

impl std::fmt::Debug for Ops {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.kind)
    }
}

/// The kind with a name (`tcf_proto_lookup_ops`).
pub fn find_ops(kind: &[u8]) -> Option<&'static Ops> {
    KINDS.iter().find(|ops| ops.kind.as_bytes() == kind)
}

/// What a chain's filters must look like.
pub trait Template: Any + Send + Sync {
    /// The kind that made it.
    fn ops(&self) -> &'static Ops;
    /// Writes `TCA_OPTIONS`.
    fn dump(&self, w: &mut Writer, env: &Env<'_>);
}

/// A filter, as requests see it.
pub trait Filter: Any + Send + Sync {
    /// Handle in its instance.
    fn handle(&self) -> u32;
    /// Writes `TCA_OPTIONS`, with less in it when `terse`.
    fn dump(&self, w: &mut Writer, terse: bool, env: &Env<'_>);
    /// Its actions and class.
    fn exts(&self) -> &exts::Exts;
    /// What a terse dump does with it.
    fn terse(&self) -> Terse {
        Terse::Ends
    }
}

/// What a terse dump does with a filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Terse {
    /// Shows it.
    Shown,
    /// Ends with EMSGSIZE: the kind has no terse form (`tc_cls_stats_dump`).
    Ends,
    /// Goes on behind it: the walk of the kind counts what was not written (`mall_walk`).
    Passed,
}

/// A request to make or change a filter.
pub struct Change<'a> {
    /// The surroundings.
    pub env: &'a Env<'a>,
    /// The block the chain is in.
    pub block: &'a Arc<Block>,
    /// The chain's template, if it has one.
    pub template: Option<Arc<dyn Template>>,
    /// Handle asked for, 0 for any.
    pub handle: u32,
    /// The attributes of the message (`TCA_*`).
    pub tca: &'a Table<'a>,
    /// `TCA_OPTIONS` among them.
    pub options: Option<Attr<'a>>,
    /// Existing actions may be changed.
    pub replace: bool,
    /// The handle is that of a filter which is there.
    pub exists: bool,
}

/// Octets in front of the link-layer header that can be asked for (`NET_SKB_PAD`).
const PAD: i64 = 32;

/// `N` octets of a packet's `bytes` from `start` on; none where it has not all of them. In front of the
/// first one there are a few of no meaning, here 0: `u16 ... at -14` of tc is a word at -16.
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

/// The filter a packet matches, found ahead of its turn.
#[derive(Debug, Clone, Copy)]
pub struct Hit<'g> {
    /// Its handle.
    pub handle: u32,
    /// Its actions and class.
    pub exts: &'g exts::Exts,
}

impl<'g> Hit<'g> {
    /// Runs the filter's actions: what [`Classifier::classify`] does with the filter that matches.
    #[inline]
    pub fn run(self, cx: &mut Context<'_, 'g>, packet: &mut Packet, out: &mut Outcome<'g>) -> Code {
        out.handle = self.handle;
        self.exts.run(cx, packet, out)
    }
}

/// What each packet of a batch matches.
pub type Hits<'g> = [Option<Hit<'g>>; BATCH];

/// A CPU's memory for looking up batches, used again and again.
#[derive(Default)]
pub struct Lookup {
    pub(crate) flower: flower::mask::Scratch,
}

/// One instance of a classifier; see the module's head.
pub trait Classifier: Any + Send + Sync {
    /// Matches a packet and runs the actions of the filter that does: their code, or a negative one
    /// when no filter matches or the packet is to go on with the next instance.
    fn classify<'g>(
        &'g self,
        cx: &mut Context<'_, 'g>,
        packet: &mut Packet,
        out: &mut Outcome<'g>,
    ) -> Code;

    /// Finds what the packets with a bit in `wanted` match, before any action has run: for kinds that
    /// look many packets up faster than one by one, and whose look-ups neither count nor depend on what
    /// actions of packets in front do. Answers those that match something; `None`: this kind is not one
    /// that looks up so.
    fn find_batch<'g>(
        &'g self,
        _packets: &[Packet],
        _wanted: u64,
        _lookup: &mut Lookup,
        _guard: &'g Guard,
        _hits: &mut Hits<'g>,
    ) -> Option<u64> {
        None
    }

    /// The filter with a handle.
    fn get(&self, handle: u32) -> Option<Arc<dyn Filter>>;

    /// Makes a filter, or changes `old`, the one with that handle. Answers the filter to tell the
    /// listeners of. EAGAIN: look everything up again, something went meanwhile.
    fn change(
        &self,
        change: &Change<'_>,
        old: Option<&Arc<dyn Filter>>,
    ) -> Result<Option<Arc<dyn Filter>>, Error>;

    /// Removes a filter; answers whether the instance may be empty now. ENOENT: it went meanwhile.
    fn delete(&self, filter: &Arc<dyn Filter>, env: &Env<'_>) -> Result<bool, Error>;

    /// Closes the instance to further changes if it is empty, and answers whether it is
    /// (`delete_empty`); `None` for a kind that is serialized by itself and always may go.
    fn close_if_empty(&self) -> Option<bool> {
        None
    }

    /// The first filter at place `from` of the order of dumps or after it, with its place.
    fn next(&self, from: u64) -> Option<(u64, Arc<dyn Filter>)>;

    /// Adds to `few` the first filters at `from` or behind, one or some that are near each other; none
    /// when there are none.
    fn next_few(&self, from: u64, few: &mut Vec<(u64, Arc<dyn Filter>)>) {
        few.extend(self.next(from));
    }

    /// Closes the instance and removes all filters; it is out of its chain already.
    fn destroy(&self, env: &Env<'_>);
}
