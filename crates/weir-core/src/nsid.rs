// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The ids by which namespaces know each other (`net/core/net_namespace.c`).
//!
//! No operation depends on how many namespaces there are: an [`Ids`] finds an id by namespace, a namespace
//! by id and the lowest free id, and [`Holders`] finds the namespaces that gave an id to one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use weir_netlink::{RtGenMsg, Writer, netnsa, rtm};
use weir_sync::order::{self, Mutex};

use crate::namespace::{Global, Namespace, NsId};
use crate::request::announce;

/// For each namespace, those that gave it an id. One per stack.
pub type Holders = Mutex<BTreeMap<NsId, BTreeSet<NsId>>, order::NsIdHolders>;

/// The ids that a namespace gave to others.
#[derive(Debug, Default)]
pub struct Ids {
    by_namespace: BTreeMap<NsId, i32>,
    by_id: BTreeMap<i32, NsId>,
    /// All ids below this one are taken.
    taken_below: i32,
}

/// The reason why a namespace cannot have an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// The namespace has an id.
    Assigned,
    /// Another namespace has the id.
    Used,
}

impl Ids {
    /// Returns the id of a namespace.
    pub fn get(&self, other: NsId) -> Option<i32> {
        self.by_namespace.get(&other).copied()
    }

    /// Returns the namespaces and their ids, by id.
    pub fn iter(&self) -> impl Iterator<Item = (i32, NsId)> + '_ {
        self.by_id.iter().map(|(id, ns)| (*id, *ns))
    }

    /// Gives a namespace `wanted`, or the lowest free id (`alloc_netid`), and returns it.
    ///
    /// # Errors
    /// The namespace or the id is taken.
    fn insert(&mut self, other: NsId, wanted: Option<i32>) -> Result<i32, Refused> {
        if self.by_namespace.contains_key(&other) {
            return Err(Refused::Assigned);
        }
        let id = match wanted {
            Some(id) if self.by_id.contains_key(&id) => return Err(Refused::Used),
            Some(id) => id,
            None => {
                while self.by_id.contains_key(&self.taken_below) {
                    self.taken_below += 1;
                }
                self.taken_below
            }
        };
        self.by_namespace.insert(other, id);
        self.by_id.insert(id, other);
        Ok(id)
    }

    fn remove(&mut self, gone: NsId) -> Option<i32> {
        let id = self.by_namespace.remove(&gone)?;
        self.by_id.remove(&id);
        self.taken_below = self.taken_below.min(id);
        Some(id)
    }
}

/// Returns the namespace with the id `nsid` in `ns`.
pub fn find(ns: &Namespace, nsid: i32) -> Option<NsId> {
    ns.nsids.lock().get()?.by_id.get(&nsid).copied()
}

/// Returns the id of `other` in `ns`, if it has one (`peernet2id`).
pub fn known(ns: &Namespace, other: NsId) -> Option<i32> {
    ns.nsids.lock().get()?.get(other)
}

/// Gives `other` the id `wanted` in `ns`, or the lowest free one.
///
/// # Errors
/// The namespace has an id, or another namespace has the one wanted.
pub fn assign(ns: &Namespace, other: NsId, wanted: Option<i32>) -> Result<i32, Refused> {
    let mut ids = ns.nsids.lock();
    let id = ids.change().insert(other, wanted)?;
    ns.global
        .nsid_holders
        .lock()
        .entry(other)
        .or_default()
        .insert(ns.id);
    Ok(id)
}

/// Returns the id of `other` in `ns`, assigning one if necessary (`peernet2id_alloc`).
pub fn id_of(ns: &Namespace, other: NsId) -> i32 {
    loop {
        if let Some(id) = known(ns, other) {
            return id;
        }
        // Another thread may have assigned one meanwhile.
        if let Ok(id) = assign(ns, other, None) {
            announce(ns, rtm::grp::NSID, rtm::NEWNSID, |out| fill(out, id, None));
            return id;
        }
    }
}

/// Removes the ids that namespaces gave to one that no longer exists. `find` returns a namespace by its id.
pub fn forget(global: &Global, gone: NsId, find: impl Fn(NsId) -> Option<Arc<Namespace>>) {
    let holders = global.nsid_holders.lock().remove(&gone);
    for ns in holders.into_iter().flatten().filter_map(find) {
        let id = ns.nsids.lock().made().and_then(|ids| ids.remove(gone));
        if let Some(id) = id {
            announce(&ns, rtm::grp::NSID, rtm::DELNSID, |out| fill(out, id, None));
        }
    }
}

/// Removes the ids that a namespace gave to others.
pub fn forget_own(gone: &Namespace) {
    let mut ids = gone.nsids.lock();
    let mut holders = gone.global.nsid_holders.lock();
    let ids = std::mem::take(&mut *ids);
    for (_, other) in ids.get().into_iter().flat_map(Ids::iter) {
        if let Some(set) = holders.get_mut(&other) {
            set.remove(&gone.id);
            if set.is_empty() {
                holders.remove(&other);
            }
        }
    }
}

/// Writes an id, and the one it has in the namespace that asks.
pub fn fill(out: &mut Writer, id: i32, current: Option<i32>) {
    out.fixed(&RtGenMsg { family: 0 });
    out.put_i32(netnsa::NSID, id);
    if let Some(current) = current {
        out.put_i32(netnsa::CURRENT_NSID, current);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_free_id_is_given() {
        let mut ids = Ids::default();
        let ns = NsId;
        assert_eq!(ids.insert(ns(10), Some(1)), Ok(1));
        assert_eq!(ids.insert(ns(11), None), Ok(0));
        assert_eq!(ids.insert(ns(12), None), Ok(2));
        assert_eq!(ids.insert(ns(12), None), Err(Refused::Assigned));
        assert_eq!(ids.insert(ns(13), Some(2)), Err(Refused::Used));
        assert_eq!((ids.remove(ns(11)), ids.remove(ns(11))), (Some(0), None));
        assert_eq!(ids.insert(ns(13), None), Ok(0));
        assert_eq!(ids.insert(ns(14), None), Ok(3));
        assert_eq!(ids.get(ns(13)), Some(0));
        let all: Vec<_> = ids.iter().map(|(id, ns)| (id, ns.0)).collect();
        assert_eq!(all, [(0, 13), (1, 10), (2, 12), (3, 14)]);
    }
}
