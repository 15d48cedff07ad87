// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `flower`: matches header fields under masks.
//!
//! Mirrors net/sched/cls_flower.c. Parameters: the keys of tc-flower(8) ([`parse`]), `classid` (0:
//! none), actions, offload flags (`skip_sw` is refused because there is no hardware).
//!
//! Filters with the same mask are in one hash table, by their key under the mask ([`mask`]). A
//! packet is looked up under each mask in turn, in the order in which the masks were created, and
//! the first filter found wins. Ranges of ports are part of the key: under a mask with ranges the
//! packet is looked up with each range that its ports are in, in the order in which the ranges were
//! created. Two filters of one priority cannot have the same key and mask (EEXIST); a replaced
//! filter keeps its mask (EINVAL). Handles are assigned from 1 upwards.
//!
//! The data path takes no locks. Requests share no lock over filters: those for the same mask
//! contend only for a shard of its table, those for the same instance only for its handles, each
//! for one map operation.
//!
//! Not implemented: see [`parse`]. Replacing a filter by one that equals a third hides the third,
//! as in Linux; here it stays hidden when the new one is deleted.

pub mod dump;
mod enc_opts;
mod few;
mod isa;
pub mod key;
mod keyed;
mod lanes;
pub mod mask;
pub mod parse;
mod plain;
mod shape;

#[cfg(all(test, loom))]
mod loom_models;
#[cfg(test)]
mod stress;
#[cfg(test)]
mod tests;

use std::any::Any;
use std::sync::Arc;

use weir_netlink::errno::{EAGAIN, EEXIST, EINVAL, ENOENT};
use weir_netlink::tca::{self, flower as attr};
use weir_netlink::{Error, Strictness, Table, Writer};
use weir_packet::{Packet, Used};
use weir_sync::gate::Gate;
use weir_sync::rcu::{Domain, Guard};

use self::key::Packed;
use self::keyed::Keyed;
use self::mask::{FEW_RUNS, Masks, UnderMask};
use self::parse::Masked;
use super::exts::{self, Exts};
use super::{Change, Classifier, Found, Hit, Hits, Lookup, Ops, Template, Terse};
use crate::context::Context;
use crate::early::{Frames, Packets, Source};
use crate::env::Env;
use crate::index::IndexTable;
use crate::verdict::{Code, Outcome, code};

/// The kind's entry in the list of kinds.
pub const OPS: Ops = Ops {
    kind: "flower",
    create: |new| Ok(Box::new(Flower::new(new.env.net.domain()))),
    template: Some(template),
};

const EXTS: exts::Attrs = exts::Attrs {
    act: attr::ACT,
    police: 0,
    classid: attr::CLASSID,
};

/// The highest handle assigned automatically (`INT_MAX`).
const HANDLE_MAX: u32 = i32::MAX as u32;

/// A filter. It fills one cache line, including the reference counts in front. Its own flags are
/// stored among those of [`Exts`].
pub struct Filter {
    /// The handle, mask and key.
    keyed: Keyed,
    exts: Exts,
}

const _: () = assert!(size_of::<Filter>() <= 64 - 2 * size_of::<usize>());

/// The filter has been removed from the tables.
const DELETED: u32 = 1 << 16;
/// The original key has bits outside the mask and is stored separately with the mask.
const ORIGINAL: u32 = 1 << 17;

impl Drop for Filter {
    fn drop(&mut self) {
        if self.exts.flags() & ORIGINAL != 0 {
            self.under().remove_original(self);
        }
    }
}

impl Filter {
    fn new(keyed: Keyed, exts: Exts) -> Self {
        Self { keyed, exts }
    }

    /// Marks the filter as deleted. Returns whether the caller is the one that must remove it from
    /// the tables.
    fn delete(&self) -> bool {
        self.exts.set_flags(DELETED) & DELETED == 0
    }

    fn is_deleted(&self) -> bool {
        self.exts.flags() & DELETED != 0
    }

    /// Returns what a packet that matches the filter runs.
    #[inline]
    fn hit(&self) -> Hit<'_> {
        Hit {
            handle: self.keyed.handle,
            exts: &self.exts,
            seen: None,
        }
    }

    /// Returns the mask with its filters.
    fn under(&self) -> &Arc<UnderMask> {
        self.keyed.under()
    }

    /// Returns the key under the mask.
    #[inline]
    fn packed(&self) -> &[u32] {
        self.keyed.packed()
    }
}

impl std::fmt::Debug for Filter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.keyed.fmt(f)
    }
}

/// Returns what groups of packets match, each with its filter.
#[inline]
fn found_groups<'g>(
    groups: impl Iterator<Item = (u64, &'g Filter)>,
    wanted: u64,
    hits: &mut Hits<'g>,
) -> Found<'g> {
    let mut matched = 0;
    for (which, filter) in groups {
        let found = Found::one(which, filter.hit());
        if which == wanted {
            return found;
        }
        found.spread(hits);
        matched |= which;
    }
    Found::each(matched)
}

/// The keys that a frame without a packet does not have.
const OF_PACKETS: Used = Used::META.with(Used::TUNNEL).with(Used::CT);

/// An instance; see the module's documentation.
pub struct Flower {
    masks: Masks,
    handles: IndexTable<Filter>,
    gate: Gate,
}

impl Flower {
    /// Creates an empty instance.
    pub fn new(domain: &Domain) -> Self {
        Self {
            masks: Masks::new(domain),
            handles: IndexTable::default(),
            gate: Gate::default(),
        }
    }

    /// Returns the filter that matches a packet.
    #[inline]
    pub fn find<'g>(&'g self, cx: &mut Context<'_, 'g>, packet: &Packet) -> Option<&'g Filter> {
        let guard = cx.guard;
        let list = self.masks.list(guard);
        if list.is_empty() {
            return None;
        }
        list.find(cx.flow(packet, list.used), guard)
    }

    /// Finds the filters of a batch, as [`Classifier::find_batch`] does.
    #[inline]
    fn find_in<'g>(
        &'g self,
        packets: &impl Source,
        wanted: u64,
        lookup: &mut Lookup,
        guard: &'g Guard,
        hits: &mut Hits<'g>,
    ) -> Found<'g> {
        let list = self.masks.list(guard);
        if list.is_empty() {
            return Found::each(0);
        }
        let mut runs = [None; FEW_RUNS];
        let few = self.masks.few(guard);
        if isa::find_runs((list, few), (packets, wanted), &mut runs, guard) {
            lookup.flower.dissected += u64::from(wanted.count_ones());
            return found_groups(runs.into_iter().flatten(), wanted, hits);
        }
        let mut matched = 0;
        let mut wanted = wanted;
        if let Some(few) = few {
            let (rows, left) = isa::find_few(few, packets, wanted);
            lookup.flower.dissected += u64::from((wanted & !left).count_ones());
            let found = found_groups(few.matched(rows), wanted, hits);
            if left == 0 {
                return found;
            }
            (matched, wanted) = (found.which, left);
        }
        let found = |at: usize, filter: &'g Filter| {
            if let Some(hit) = hits.get_mut(at) {
                filter.exts.prefetch();
                *hit = Some(filter.hit());
                matched |= 1 << at;
            }
        };
        isa::find_group(list, (packets, wanted), &mut lookup.flower, guard, found);
        Found::each(matched)
    }

    /// Removes a filter from the tables.
    fn unlink(&self, filter: &Arc<Filter>, env: &Env<'_>) -> Result<(), Error> {
        if !filter.delete() {
            return Err(Error::new(ENOENT));
        }
        filter.exts.prefetch();
        filter.under().remove(filter, env.guard);
        self.masks.changed(Some(filter), None, env.guard);
        filter.exts.prefetch_release();
        self.handles.remove(filter.keyed.handle, filter);
        self.masks.put(filter.under(), env.guard);
        filter.exts.release(env);
        Ok(())
    }

    /// Inserts a filter, new or in place of `old`. The mask may have been found and the key packed
    /// already.
    fn link(
        &self,
        change: &Change<'_>,
        masked: &Masked,
        near: Option<(&Arc<UnderMask>, Packed)>,
        flags: u32,
        exts: exts::NewExts,
        old: Option<&Arc<Filter>>,
    ) -> Result<Arc<Filter>, Error> {
        let env = change.env;
        let (near, packed) = near.unzip();
        let old_under = old.map(|old| old.under());
        let under = match self.masks.get(&masked.mask, old_under, near, env.guard) {
            Ok(under) => under,
            Err(error) => {
                exts.undo(env);
                return Err(error);
            }
        };
        // If the key is taken, the table reports it and everything created is undone.
        let give_up = |exts: exts::NewExts, error| {
            self.masks.put(&under, env.guard);
            exts.undo(env);
            Err(error)
        };
        let handle = match old {
            Some(old) => Ok(old.keyed.handle),
            None if change.handle == 0 => self.handles.reserve(None, HANDLE_MAX),
            None => self.handles.reserve(Some(change.handle), change.handle),
        };
        let handle = match handle {
            Ok(handle) => handle,
            // Another request has taken this handle.
            Err(_) if change.handle != 0 => return give_up(exts, Error::new(EAGAIN)),
            Err(_) => return give_up(exts, Error::new(weir_netlink::errno::ENOSPC)),
        };
        let packed = packed.filter(|_| near.is_some_and(|near| Arc::ptr_eq(near, &under)));
        let packed = packed.unwrap_or_else(|| under.mask.pack(&masked.key));
        let original = masked.exceeds_mask();
        let exts = exts.commit();
        exts.set_flags(if original { flags | ORIGINAL } else { flags });
        let filter = Arc::new(Filter::new(Keyed::new(handle, under, &packed), exts));
        let under = filter.under();
        if original {
            under.store_original(&filter, masked.key, env.guard);
        }
        let linked = match old {
            Some(old) => self.exchange(old, &filter, env),
            None if under.insert(&filter, env.guard) => {
                self.masks.changed(None, Some(&filter), env.guard);
                self.handles.publish(handle, filter.clone());
                Ok(())
            }
            None => {
                self.handles.cancel(handle);
                Err(Error::new(EEXIST))
            }
        };
        if let Err(error) = linked {
            self.masks.put(under, env.guard);
            filter.exts.release(env);
            return Err(error);
        }
        Ok(filter)
    }

    fn exchange(&self, old: &Arc<Filter>, new: &Arc<Filter>, env: &Env<'_>) -> Result<(), Error> {
        if !old.delete() || !self.handles.replace(old.keyed.handle, old, new.clone()) {
            return Err(Error::new(EAGAIN));
        }
        new.under().replace(old, new, env.guard);
        self.masks.changed(Some(old), Some(new), env.guard);
        self.masks.put(old.under(), env.guard);
        old.exts.release(env);
        Ok(())
    }
}

fn flower(filter: &Arc<dyn super::Filter>) -> Result<Arc<Filter>, Error> {
    let any: Arc<dyn Any + Send + Sync> = filter.clone();
    any.downcast().map_err(|_| Error::new(EINVAL))
}

impl Classifier for Flower {
    #[inline]
    fn classify<'g>(
        &'g self,
        cx: &mut Context<'_, 'g>,
        packet: &mut Packet,
        out: &mut Outcome<'g>,
    ) -> Code {
        match self.find(cx, packet) {
            Some(filter) => filter.hit().run(cx, packet, out),
            None => code::UNSPEC,
        }
    }

    fn find_batch<'g>(
        &'g self,
        packets: Packets<'_>,
        wanted: u64,
        lookup: &mut Lookup,
        guard: &'g Guard,
        hits: &mut Hits<'g>,
    ) -> Option<Found<'g>> {
        // The actions of a packet can change the connection of the next one.
        let plain = !self.masks.list(guard).used.any(Used::CT);
        plain.then(|| self.find_in(&packets, wanted, lookup, guard, hits))
    }

    fn takes_frames(&self, guard: &Guard) -> bool {
        let list = self.masks.list(guard);
        !list.is_empty() && !list.used.any(OF_PACKETS)
    }

    fn find_frames<'g>(
        &'g self,
        frames: Frames<'_>,
        wanted: u64,
        lookup: &mut Lookup,
        guard: &'g Guard,
        hits: &mut Hits<'g>,
    ) -> Option<Found<'g>> {
        let list = self.masks.list(guard);
        let takes = !list.used.any(OF_PACKETS);
        takes.then(|| self.find_in(&frames, wanted, lookup, guard, hits))
    }

    fn get(&self, handle: u32) -> Option<Arc<dyn super::Filter>> {
        Some(self.handles.get(handle)?)
    }

    fn change(
        &self,
        change: &Change<'_>,
        old: Option<&Arc<dyn super::Filter>>,
    ) -> Result<Option<Arc<dyn super::Filter>>, Error> {
        let options = change.options.as_ref().ok_or_else(|| Error::new(EINVAL))?;
        // Linux parses these without an extended acknowledgement.
        let mut tb = Table::empty();
        options
            .parse_into(&parse::POLICY, Strictness::Liberal, &mut tb)
            .map_err(|e| Error::new(e.errno))?;
        let old = old.map(flower).transpose()?;
        let flags = exts::flags(&tb, attr::FLAGS)?;
        // Errors in the keys are reported after errors in the actions, but the memory that the
        // insertion accesses is prefetched as early as possible.
        let mut masked = Masked::default();
        let parsed = parse::parse(&tb, change.env.host, &mut masked);
        let near = self.masks.near(&masked.mask, change.env.guard);
        let near = near.map(|under| (under, under.prefetch_insert(&masked.key, change.env.guard)));
        let exts = exts::parse(change, &tb, EXTS, flags)?;
        let checked = parsed.and_then(|()| {
            let template: Option<&dyn Any> = change.template.as_deref().map(|t| t as _);
            if let Some(template) = template.and_then(|t| t.downcast_ref::<FlowerTemplate>())
                && masked.mask.exceeds(&template.masked.mask)
            {
                return Err(Error::msg(
                    EINVAL,
                    "cls_flower: Mask does not fit the template",
                ));
            }
            exts::offload(flags)
        });
        let flags = match checked {
            Ok(flags) => flags,
            Err(error) => {
                exts.undo(change.env);
                return Err(error);
            }
        };
        let mut exts = Some(exts);
        let linked = self.gate.pass(|| {
            let exts = exts.take().ok_or_else(|| Error::new(EINVAL))?;
            self.link(change, &masked, near, flags, exts, old.as_ref())
        });
        match linked {
            Some(linked) => Ok(Some(linked?)),
            // The instance is being removed, or another request is checking whether it may be
            // removed.
            None => {
                if let Some(exts) = exts {
                    exts.undo(change.env);
                }
                Err(Error::new(EAGAIN))
            }
        }
    }

    fn delete(&self, filter: &Arc<dyn super::Filter>, env: &Env<'_>) -> Result<bool, Error> {
        self.unlink(&flower(filter)?, env)?;
        Ok(self.masks.list(env.guard).is_empty())
    }

    fn close_if_empty(&self) -> Option<bool> {
        // The first check avoids blocking concurrent requests for nothing.
        let empty = || self.handles.is_empty();
        Some(empty() && self.gate.close_if(empty))
    }

    fn next(&self, from: u64) -> Option<(u64, Arc<dyn super::Filter>)> {
        let (handle, filter) = self.handles.next(u32::try_from(from).ok()?)?;
        Some((u64::from(handle), filter))
    }

    fn next_few(&self, from: u64, few: &mut Vec<(u64, Arc<dyn super::Filter>)>) {
        let Ok(from) = u32::try_from(from) else {
            return;
        };
        let of = |handle, filter: &Arc<Filter>| {
            filter.keyed.prefetch();
            filter.exts.prefetch();
            let filter: Arc<dyn super::Filter> = filter.clone();
            (u64::from(handle), filter)
        };
        self.handles.next_few(from, few, of);
    }

    fn destroy(&self, env: &Env<'_>) {
        self.gate.close_if(|| true);
        self.masks.clear(env.guard);
        let mut from = Some(0);
        // The tables are freed as a whole with the instance. Once the gate is closed, only requests
        // that started earlier can still delete filters.
        while let Some((handle, filter)) = from.and_then(|from| self.handles.next(from)) {
            if filter.delete() {
                filter.exts.release(env);
            }
            from = handle.checked_add(1);
        }
    }
}

impl super::Filter for Filter {
    fn handle(&self) -> u32 {
        self.keyed.handle
    }

    fn exts(&self) -> &Exts {
        &self.exts
    }

    fn terse(&self) -> Terse {
        Terse::Shown
    }

    fn dump(&self, w: &mut Writer, terse: bool, env: &Env<'_>) {
        let options = w.nest_noflag(tca::OPTIONS);
        if !terse {
            if self.exts.classid != 0 {
                w.put_u32(attr::CLASSID, self.exts.classid);
            }
            let under = self.under();
            let UnderMask { mask, shapes, .. } = &**under;
            let original = match self.exts.flags() & ORIGINAL {
                0 => None,
                _ => under.original(self, env.guard),
            };
            match original {
                Some(key) => dump::dump(w, env.host, key, &mask.key),
                None => shapes.dump(w, env.host, mask, self.packed()),
            }
        }
        let flags = self.exts.flags() & !(DELETED | ORIGINAL);
        w.put_piece::<16>(|end| {
            end.put(attr::FLAGS, flags.to_ne_bytes());
            if !terse {
                end.put(attr::IN_HW_COUNT, [0; 4]);
            }
        });
        self.exts.dump(w, EXTS, terse, env);
        w.end(options);
    }
}

/// The template of a chain: filters may only match bits of this mask.
struct FlowerTemplate {
    masked: Masked,
}

/// Creates a template (`fl_tmplt_create`).
fn template(tca: &Table<'_>, env: &Env<'_>) -> Result<Arc<dyn Template>, Error> {
    let options = tca.get(tca::OPTIONS).ok_or(Error::new(EINVAL))?;
    let tb = options
        .parse(&parse::POLICY, Strictness::Liberal)
        .map_err(|e| Error::new(e.errno))?;
    let mut masked = Masked::default();
    parse::parse(&tb, env.host, &mut masked)?;
    Ok(Arc::new(FlowerTemplate { masked }))
}

impl Template for FlowerTemplate {
    fn ops(&self) -> &'static Ops {
        &OPS
    }

    fn dump(&self, w: &mut Writer, env: &Env<'_>) {
        let options = w.nest_noflag(tca::OPTIONS);
        dump::dump(w, env.host, &self.masked.key, &self.masked.mask);
        w.end(options);
    }
}
