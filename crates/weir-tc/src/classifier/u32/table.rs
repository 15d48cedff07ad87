// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The hash tables of a qdisc's u32 instances, and their handles.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use weir_netlink::errno::{ENOMEM, ENOSPC};
use weir_netlink::tca::{self, cls_flags, u32 as attr};
use weir_netlink::{Error, TcU32Key, Writer};
use weir_sync::order::{self, Mutex, MutexGuard};
use weir_sync::rcu::{Domain, Guard, PublishedOption};

use super::node::{Node, Stats};
use crate::block::Shelf;
use crate::classifier::Filter;
use crate::classifier::exts::{self, Exts};
use crate::env::Env;

/// Returns the table of a handle (`TC_U32_HTID`).
pub const fn htid(handle: u32) -> u32 {
    handle & 0xfff0_0000
}

/// Returns the bucket and node of a handle (`TC_U32_KEY`); 0 for a table.
pub const fn key(handle: u32) -> u32 {
    handle & 0xf_ffff
}

/// Returns the bucket of a handle (`TC_U32_HASH`).
pub const fn hash(handle: u32) -> u32 {
    handle >> 12 & 0xff
}

/// Returns the node of a handle (`TC_U32_NODE`).
pub const fn node_id(handle: u32) -> u32 {
    handle & 0xfff
}

/// The upper bound, exclusive, of automatically assigned table ids; they start at 1.
const TABLE_IDS: u32 = 0x7ff;
/// Positions of tables in dumps count down from here: the newest table comes first.
const NEWEST: u64 = 1 << 43;

/// Returns the table id of a handle (`handle2id`).
fn id_of(handle: u32) -> u32 {
    if handle & 0x8000_0000 != 0 {
        handle >> 20 & 0x7ff
    } else {
        handle
    }
}

/// A node in its bucket, with copies of the fields that show for most packets that the node does
/// not match.
#[derive(Clone)]
pub struct Slot {
    /// The value and mask of the packet's mark.
    pub mark: (u32, u32),
    /// The first key, if there is one.
    pub first: Option<TcU32Key>,
    /// The counters.
    pub stats: Arc<Stats>,
    /// The node.
    pub node: Arc<Node>,
}

impl Slot {
    fn new(node: &Arc<Node>) -> Self {
        // A node with `skip_sw` must never match: a mark with an empty mask never equals 1.
        let skip = node.flags & cls_flags::SKIP_SW != 0;
        Self {
            mark: if skip { (1, 0) } else { node.mark },
            first: node.selector.keys.first().copied(),
            stats: node.stats.clone(),
            node: node.clone(),
        }
    }
}

/// The nodes of a bucket by id.
type Bucket = PublishedOption<Vec<Slot>>;

/// A hash table. Requests change it under the lock of [`Common`].
pub struct Table {
    /// The handle, with the table's id in the upper 12 bits.
    pub handle: u32,
    /// The priority it was created under.
    prio: u16,
    /// The number of buckets minus one, which is the mask of a hash.
    pub divisor: u32,
    /// This is the root table of an instance.
    pub is_root: bool,
    /// The number of nodes that link to it.
    pub links: AtomicU32,
    /// The position in the order of dumps.
    place: u64,
    buckets: Box<[Bucket]>,
    exts: Exts,
}

impl Table {
    fn new(
        domain: &Domain,
        handle: u32,
        prio: u16,
        divisor: u32,
        is_root: bool,
        place: u64,
    ) -> Self {
        Self {
            handle,
            prio,
            divisor,
            is_root,
            links: AtomicU32::new(0),
            place,
            buckets: (0..=divisor)
                .map(|_| PublishedOption::new(domain, None))
                .collect(),
            exts: Exts::default(),
        }
    }

    /// Returns the nodes of a bucket by id; no nodes if the bucket does not exist.
    #[inline]
    pub fn bucket<'g>(&'g self, index: u32, guard: &'g Guard) -> &'g [Slot] {
        let bucket = self.buckets.get(index as usize);
        let nodes = bucket.and_then(|bucket| bucket.load(guard));
        nodes.map_or(&[], Vec::as_slice)
    }

    fn position(slots: &[Slot], handle: u32) -> Result<usize, usize> {
        slots.binary_search_by_key(&handle, |slot| slot.node.handle)
    }

    /// Returns the node with a handle (`u32_lookup_key`).
    pub fn get(&self, handle: u32) -> Option<Arc<Node>> {
        let guard = self.buckets[0].domain().pin();
        let slots = self.bucket(hash(handle), &guard);
        let at = Self::position(slots, handle).ok()?;
        Some(slots[at].node.clone())
    }

    fn is_taken(&self, handle: u32, guard: &Guard) -> bool {
        Self::position(self.bucket(hash(handle), guard), handle).is_ok()
    }

    /// Returns the requested handle if it is free. Fails with ENOSPC otherwise.
    pub fn claim(&self, handle: u32, guard: &Guard) -> Result<u32, Error> {
        match self.is_taken(handle, guard) {
            true => Err(Error::new(ENOSPC)),
            false => Ok(handle),
        }
    }

    /// Returns a free handle in the table and bucket of `id` (`gen_new_kid`).
    pub fn free_handle(&self, id: u32, guard: &Guard) -> Result<u32, Error> {
        let slots = self.bucket(hash(id), guard);
        let free = |first: u32| {
            let at = Self::position(slots, first).unwrap_or_else(|at| at);
            let taken = slots[at..].iter().map(|slot| slot.node.handle);
            let gap = (first..=id | 0xfff).zip(taken.map(Some).chain(std::iter::repeat(None)));
            gap.into_iter()
                .find(|&(handle, taken)| taken != Some(handle))
                .map(|(handle, _)| handle)
        };
        let handle = free(id | 0x800).or_else(|| free(id + 1));
        handle.ok_or(Error::msg(
            ENOSPC,
            "cls_u32: Hash table node ID pool exhausted",
        ))
    }

    /// Removes and returns all nodes.
    fn clear(&self) -> Vec<Arc<Node>> {
        let mut nodes = Vec::new();
        for bucket in &self.buckets {
            let guard = bucket.domain().pin();
            let slots = bucket.take(&guard).map_or(&[][..], Vec::as_slice);
            nodes.extend(slots.iter().map(|slot| slot.node.clone()));
        }
        nodes
    }
}

impl Filter for Table {
    fn handle(&self) -> u32 {
        self.handle
    }

    fn exts(&self) -> &Exts {
        &self.exts
    }

    fn dump(&self, w: &mut Writer, _terse: bool, _env: &Env<'_>) {
        let options = w.nest_noflag(tca::OPTIONS);
        w.put_u32(attr::DIVISOR, self.divisor + 1);
        w.end(options);
    }
}

/// The state guarded by the lock of [`Common`].
#[derive(Default)]
pub struct State {
    /// The tables by their positions in dumps.
    tables: BTreeMap<u64, Arc<Table>>,
    by_handle: BTreeMap<u32, Arc<Table>>,
    /// The ids of tables in use, without that of the first root.
    ids: BTreeSet<u32>,
    next_id: u32,
    made: u64,
    instances: u32,
    nodes: usize,
    domain: Domain,
}

/// The state shared by the u32 instances of a qdisc or of a shared block (`struct tc_u_common`).
pub struct Common(Mutex<State, order::Instances>);

impl Common {
    /// Locks the tables. In the crate's lock order this lock is on the level of flower's gate.
    pub fn lock(&self) -> MutexGuard<'_, State, order::Instances> {
        self.0.lock()
    }

    /// Adds an instance with its root table (`u32_init`).
    pub fn join(
        shelf: &Shelf,
        prio: u16,
        domain: &Domain,
    ) -> Result<(Arc<Self>, Arc<Table>), Error> {
        let mut shelf = shelf.lock();
        let there = shelf.upgrade().and_then(|any| any.downcast::<Self>().ok());
        if let Some(common) = there {
            let mut state = common.lock();
            // The last instance may have left concurrently.
            if state.instances > 0 {
                let id = state.new_id().ok_or(Error::new(ENOMEM))?;
                state.instances += 1;
                let root = state.add((id | 0x800) << 20, prio, 0, true);
                drop(state);
                return Ok((common, root));
            }
        }
        let mut state = State {
            instances: 1,
            domain: domain.clone(),
            ..State::default()
        };
        let root = state.add(0x8000_0000, prio, 0, true);
        let common = Arc::new(Self(Mutex::new(state)));
        let any: Arc<dyn Any + Send + Sync> = common.clone();
        *shelf = Arc::downgrade(&any);
        Ok((common, root))
    }
}

impl State {
    /// Returns the table with a handle (`u32_lookup_ht`).
    pub fn find(&self, handle: u32) -> Option<Arc<Table>> {
        self.by_handle.get(&handle).cloned()
    }

    /// Returns the next free id after the last one assigned, with wraparound (`gen_new_htid`).
    fn new_id(&mut self) -> Option<u32> {
        let start = self.next_id.max(1);
        let id = (start..TABLE_IDS)
            .chain(1..start.min(TABLE_IDS))
            .find(|id| !self.ids.contains(id))?;
        self.ids.insert(id);
        self.next_id = id + 1;
        Some(id)
    }

    /// Returns the handle of a new table: the requested one, or a free one for 0.
    pub fn table_handle(&mut self, wanted: u32) -> Result<u32, Error> {
        if wanted == 0 {
            let id = self.new_id().ok_or(Error::new(ENOMEM))?;
            return Ok((id | 0x800) << 20);
        }
        match self.ids.insert(id_of(wanted)) {
            true => Ok(wanted),
            false => Err(Error::new(ENOSPC)),
        }
    }

    /// Frees a handle.
    pub fn free_table_handle(&mut self, handle: u32) {
        self.ids.remove(&id_of(handle));
    }

    /// Adds a table in front of all others.
    pub fn add(&mut self, handle: u32, prio: u16, divisor: u32, is_root: bool) -> Arc<Table> {
        self.made += 1;
        let place = NEWEST - self.made;
        let table = Table::new(&self.domain, handle, prio, divisor, is_root, place);
        let table = Arc::new(table);
        self.tables.insert(place, table.clone());
        self.by_handle.insert(handle, table.clone());
        table
    }

    /// Returns the table a node is in, if it has not been removed.
    pub fn table_of(&self, node: &Arc<Node>) -> Option<Arc<Table>> {
        let table = self.find(htid(node.handle))?;
        let there = table.get(node.handle)?;
        exts::same(&there, node).then_some(table)
    }

    /// Inserts a node, whose handle must be free, into its bucket.
    pub fn insert(&mut self, table: &Table, node: &Arc<Node>, guard: &Guard) {
        let index = hash(node.handle);
        let mut slots = table.bucket(index, guard).to_vec();
        let at = Table::position(&slots, node.handle).unwrap_or_else(|at| at);
        slots.insert(at, Slot::new(node));
        table.buckets[index as usize].replace(Some(slots));
        self.count(node);
    }

    /// Replaces a node by another.
    pub fn replace(&mut self, table: &Table, old: &Arc<Node>, new: &Arc<Node>, guard: &Guard) {
        let index = hash(old.handle);
        let mut slots = table.bucket(index, guard).to_vec();
        if let Ok(at) = Table::position(&slots, old.handle) {
            slots[at] = Slot::new(new);
        }
        table.buckets[index as usize].replace(Some(slots));
        self.forget(old);
        self.count(new);
    }

    fn count(&mut self, node: &Node) {
        if let Some(down) = &node.down {
            down.links.fetch_add(1, Relaxed);
        }
        self.nodes += 1;
    }

    fn forget(&mut self, node: &Node) {
        if let Some(down) = &node.down {
            down.links.fetch_sub(1, Relaxed);
        }
        self.nodes -= 1;
    }

    /// Removes a node from its bucket.
    pub fn remove(&mut self, table: &Table, node: &Arc<Node>) {
        let guard = self.domain.pin();
        let index = hash(node.handle);
        let slots = table.bucket(index, &guard).iter();
        let rest = slots.filter(|slot| slot.node.handle != node.handle);
        let rest: Vec<Slot> = rest.cloned().collect();
        table.buckets[index as usize].replace((!rest.is_empty()).then_some(rest));
        self.forget(node);
    }

    fn clear(&mut self, table: &Table) -> Vec<Arc<Node>> {
        let nodes = table.clear();
        for node in &nodes {
            self.forget(node);
        }
        nodes
    }

    /// Removes a table and returns the nodes that were in it (`u32_destroy_hnode`).
    pub fn drop_table(&mut self, table: &Table) -> Vec<Arc<Node>> {
        self.tables.remove(&table.place);
        self.by_handle.remove(&table.handle);
        self.free_table_handle(table.handle);
        self.clear(table)
    }

    /// Removes an instance: its root, and with the last instance all tables. Returns the nodes
    /// removed.
    pub fn leave(&mut self, root: &Table) -> Vec<Arc<Node>> {
        let mut nodes = self.drop_table(root);
        self.instances -= 1;
        if self.instances == 0 {
            self.by_handle.clear();
            for table in std::mem::take(&mut self.tables).into_values() {
                nodes.extend(self.clear(&table));
            }
        }
        nodes
    }

    /// Returns whether only one instance is left and there are no nodes.
    pub fn is_last(&self) -> bool {
        self.instances == 1 && self.nodes == 0
    }

    /// Returns the first table or node of a priority at position `from` or later in the order of
    /// dumps, with its position. The position consists of that of the table, the bucket and the
    /// node.
    pub fn next(&self, prio: u16, from: u64) -> Option<(u64, Arc<dyn Filter>)> {
        let guard = self.domain.pin();
        let tables = self.tables.range(from >> 20..);
        for (&place, table) in tables.filter(|(_, table)| table.prio == prio) {
            let base = place << 20;
            if from <= base {
                return Some((base, table.clone()));
            }
            let first = (from - base) as u32;
            for bucket in hash(first)..=table.divisor {
                let slots = table.bucket(bucket, &guard);
                let at = slots.partition_point(|slot| key(slot.node.handle) < first);
                if let Some(slot) = slots.get(at) {
                    let place = base + u64::from(key(slot.node.handle));
                    return Some((place, slot.node.clone()));
                }
            }
        }
        None
    }
}
