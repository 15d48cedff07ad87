// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The actions of one kind in one namespace, by index, and their reference counts.
//!
//! Mirrors `struct tcf_idrinfo` and the functions around it (net/sched/act_api.c). References to an
//! action are held by each filter that uses it (a *bind*) and by its creation with `tc actions
//! add`; the last reference to be dropped removes the action from the table. Clients see the
//! counts, so they change immediately; the memory is freed after a grace period, when no packet can
//! still be running the action.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use std::sync::Arc;

use weir_netlink::Error;
use weir_netlink::errno::{EAGAIN, ENOENT, ENOSPC, EPERM};
use weir_sync::hash::RcuHash;
use weir_sync::order::{self, Mutex, MutexGuard};
use weir_sync::rcu::Domain;

use crate::action::{Action, ActionRef, Ops, Rare};
use crate::counters::Sets;
use crate::env::Env;
use crate::host::Device;
use crate::index::{IndexTable, Refused};

/// The devices that actions of a namespace refer to, by key; the actions store only keys. A device
/// that leaves the namespace is removed and is not found any more.
pub(crate) type Targets = RcuHash<u64, Arc<dyn Device>>;

/// The actions of a kind; see the module's documentation. The alignment keeps the fields, which
/// every action reads, in a different cache line from the `Arc`'s reference count in front, which
/// every new action writes.
#[repr(align(64))]
pub struct Table {
    /// The action kind.
    pub ops: &'static Ops,
    map: IndexTable<Action>,
    /// State that only few actions have, by index.
    pub(crate) rares: RcuHash<u32, Rare>,
    /// The devices, shared by all kinds of the namespace.
    pub(crate) targets: Arc<Targets>,
    /// The counters of the actions that have counted, by slot.
    pub(crate) counters: Sets,
    /// Each lock guards changes of some of the actions.
    locks: [Mutex<(), order::Action>; LOCKS],
}

/// The number of locks of a table.
const LOCKS: usize = 8;

/// The result of [`Table::find_or_reserve`].
pub enum Slot {
    /// The action exists; a reference (and a bind, if requested) was taken.
    Existing(ActionRef),
    /// The index was free and is now reserved.
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
    /// Creates an empty table.
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
    pub(crate) fn lock(&self, index: u32) -> MutexGuard<'_, (), order::Action> {
        self.locks[index as usize % LOCKS].lock()
    }

    /// Finds the action, or reserves its index; index 0 reserves the lowest free one
    /// (`tcf_idr_check_alloc`). Fails with EAGAIN while another request is creating or deleting the
    /// action.
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

    /// Releases a reserved index.
    pub fn cancel(&self, index: u32) {
        self.map.cancel(index);
    }

    /// Makes a new action visible at its reserved index.
    pub fn publish(&self, action: &ActionRef) {
        self.map.publish(action.common.index, action.clone());
    }

    /// Returns the action at an index and takes a reference (`tcf_idr_search`).
    pub fn search(&self, index: u32) -> Option<ActionRef> {
        self.map
            .get(index)
            .filter(|action| action.common.try_hold())
    }

    /// Returns the first action at `from` or above, without taking a reference.
    pub fn next(&self, from: u32) -> Option<(u32, ActionRef)> {
        self.map.next(from)
    }

    /// Drops a reference (and a bind) (`__tcf_action_put`). Returns whether it was the last
    /// reference.
    pub fn put(&self, action: &ActionRef, bind: bool, env: &Env<'_>) -> bool {
        let held = action.common.refs.fetch_sub(1, AcqRel);
        debug_assert_ne!(held, 0, "each reference is dropped once");
        // The bind is dropped after the reference: a request that sees no bind must not mistake the
        // bind's reference for that of the creation.
        if bind {
            action.common.binds.fetch_sub(1, Release);
        }
        if held != 1 {
            return false;
        }
        // The order matters: state stored by index must be removed before the index can be reused.
        action.release(env);
        self.map.remove(action.common.index, action);
        true
    }

    /// Drops the reference of the action's creation (`tcf_idr_delete_index`). Only one of several
    /// concurrent requests succeeds; the others fail with ENOENT. Fails with EPERM if a filter uses
    /// the action.
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

    /// Drops the creation's reference of all actions, up to the first that is bound
    /// (`tcf_del_walker`). Returns the number of actions deleted and whether all were.
    pub fn flush(&self, env: &Env<'_>) -> (u32, bool) {
        let (mut count, mut from) = (0, Some(1));
        while let Some((index, action)) = from.and_then(|from| self.map.next(from)) {
            if action.common.binds.load(Acquire) > 0 {
                return (count, false);
            }
            // An action that another request is deleting is removed when that request is done.
            if action.common.disown() {
                self.put(&action, false, env);
                count += 1;
            }
            from = index.checked_add(1);
        }
        (count, true)
    }

    /// Returns the number of actions in the table.
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// Returns whether the table is empty.
    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }
}
