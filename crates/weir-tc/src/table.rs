// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The actions of one kind in one namespace, by index, and their reference counts.
//!
//! Mirrors `struct tcf_idrinfo` and the functions around it (net/sched/act_api.c). An action is held
//! by each filter that names it (a *bind*) and by its own creation through `tc actions add`; the last
//! one to let go takes it out of the table. Counting is what clients see and is done at once; memory
//! goes when the last packet that may run the action is through.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weir_netlink::Error;
use weir_netlink::errno::{EAGAIN, ENOENT, ENOSPC, EPERM};
use weir_sync::hash::RcuHash;
use weir_sync::rcu::Domain;

use crate::action::{Action, ActionRef, Ops, Rare};
use crate::counters::Sets;
use crate::env::Env;
use crate::host::Device;
use crate::index::{IndexTable, Refused};

/// Devices that actions of a namespace name, by key: an action keeps the key alone. A device leaves with
/// the namespace, and then none is found.
pub(crate) type Targets = RcuHash<u64, Arc<dyn Device>>;

/// The actions of a kind; see the module's head. What each reads stands off the count of the references
/// in front, which each new one writes.
#[repr(align(64))]
pub struct Table {
    /// The kind.
    pub ops: &'static Ops,
    map: IndexTable<Action>,
    /// What few actions have, by index.
    pub(crate) rares: RcuHash<u32, Rare>,
    /// Shared by all kinds of the namespace.
    pub(crate) targets: Arc<Targets>,
    /// The counters of those that have counted, by slot.
    pub(crate) counters: Sets,
    /// Each guards changes of some of the actions.
    locks: [Mutex<()>; LOCKS],
}

/// Locks of a table for changes.
const LOCKS: usize = 8;

/// What [`Table::find_or_reserve`] answers.
pub enum Slot {
    /// The action is there; a reference (and a bind, if asked for) was taken.
    Existing(ActionRef),
    /// The index is free and now reserved.
    Reserved(u32),
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Table")
            .field("ops", &self.ops)
            .field("map", &self.map)
            .finish_non_exhaustive()
    }
}

impl Table {
    /// An empty table.
    pub(crate) fn new(ops: &'static Ops, domain: &Domain, targets: &Arc<Targets>) -> Self {
        Self {
            ops,
            targets: targets.clone(),
            map: IndexTable::default(),
            rares: RcuHash::new(domain),
            counters: Sets::new(),
            locks: Default::default(),
        }
    }

    /// Locks an action for changes by requests.
    pub(crate) fn lock(&self, index: u32) -> MutexGuard<'_, ()> {
        self.locks[index as usize % LOCKS]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// `tcf_idr_check_alloc`: finds the action, or reserves its index; index 0 is the lowest free one.
    /// EAGAIN while another request is about to create or delete it.
    pub fn find_or_reserve(&self, index: u32, bind: bool) -> Result<Slot, Error> {
        if index == 0 {
            return match self.map.reserve(None, u32::MAX) {
                Ok(index) => Ok(Slot::Reserved(index)),
                Err(_) => Err(Error::new(ENOSPC)),
            };
        }
        if let Some(action) = self.map.get(index) {
            if !action.common.try_hold() {
                return Err(Error::new(EAGAIN));
            }
            if bind {
                action.common.binds.fetch_add(1, Relaxed);
            }
            return Ok(Slot::Existing(action));
        }
        match self.map.reserve(Some(index), index) {
            Ok(index) => Ok(Slot::Reserved(index)),
            Err(Refused::InUse | Refused::Full) => Err(Error::new(EAGAIN)),
        }
    }

    /// Gives up a reserved index.
    pub fn cancel(&self, index: u32) {
        self.map.cancel(index);
    }

    /// Makes a new action visible at the index reserved for it.
    pub fn publish(&self, action: &ActionRef) {
        self.map.publish(action.common.index, action.clone());
    }

    /// `tcf_idr_search`: the action at an index, with a reference taken.
    pub fn search(&self, index: u32) -> Option<ActionRef> {
        self.map
            .get(index)
            .filter(|action| action.common.try_hold())
    }

    /// The first action at `from` or above, without a reference.
    pub fn next(&self, from: u32) -> Option<(u32, ActionRef)> {
        self.map.next(from)
    }

    /// `__tcf_action_put`: lets go of a reference (and a bind). Answers whether it was the last.
    pub fn put(&self, action: &ActionRef, bind: bool, env: &Env<'_>) -> bool {
        let held = action.common.refs.fetch_sub(1, AcqRel);
        debug_assert_ne!(held, 0, "each reference is let go of once");
        // After the reference: who sees no bind may not take the bind's reference for the creation's.
        if bind {
            action.common.binds.fetch_sub(1, Release);
        }
        if held != 1 {
            return false;
        }
        // In this order: what is kept by index goes before the index can be another's.
        action.release(env);
        self.map.remove(action.common.index, action);
        true
    }

    /// `tcf_idr_delete_index`: takes away the reference of the action's own creation, which only one of
    /// several requests can. ENOENT: it has none any more.
    pub fn delete(&self, index: u32, env: &Env<'_>) -> Result<(), Error> {
        let action = self.map.get(index).ok_or(Error::new(ENOENT))?;
        if action.common.binds.load(Acquire) > 0 {
            return Err(Error::new(EPERM));
        }
        if !action.common.disown() {
            return Err(Error::new(ENOENT));
        }
        self.put(&action, false, env);
        Ok(())
    }

    /// `tcf_del_walker`: takes that reference away from all, up to the first that is bound. Answers how
    /// many, and whether all.
    pub fn flush(&self, env: &Env<'_>) -> (u32, bool) {
        let (mut count, mut from) = (0, Some(1));
        while let Some((index, action)) = from.and_then(|from| self.map.next(from)) {
            if action.common.binds.load(Acquire) > 0 {
                return (count, false);
            }
            // One that another request has deleted goes when that is done.
            if action.common.disown() {
                self.put(&action, false, env);
                count += 1;
            }
            from = index.checked_add(1);
        }
        (count, true)
    }

    /// Actions in the table.
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// Whether the table is empty.
    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }
}
