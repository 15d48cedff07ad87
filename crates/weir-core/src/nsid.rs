// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The ids by which namespaces know each other (`net/core/net_namespace.c`).

use std::collections::BTreeMap;
use weir_sync::order::{self, MutexGuard};

use weir_netlink::{RtGenMsg, Writer, netnsa, rtm};

use crate::namespace::{Namespace, NsId};
use crate::request::announce;

/// The ids a namespace gave to others.
pub fn ids(ns: &Namespace) -> MutexGuard<'_, BTreeMap<NsId, i32>, order::NsIds> {
    ns.nsids.lock()
}

/// Returns the namespace with the id `nsid` in `ns`.
pub fn find(ns: &Namespace, nsid: i32) -> Option<NsId> {
    ids(ns)
        .iter()
        .find(|(_, id)| **id == nsid)
        .map(|(ns, _)| *ns)
}

/// Returns the id of `other` in `ns`, assigning one if necessary (`peernet2id_alloc`).
pub fn id_of(ns: &Namespace, other: NsId) -> i32 {
    let mut ids = ids(ns);
    if let Some(id) = ids.get(&other) {
        return *id;
    }
    let free = (0..)
        .find(|id| !ids.values().any(|taken| taken == id))
        .unwrap_or(i32::MAX);
    ids.insert(other, free);
    drop(ids);
    announce(ns, rtm::grp::NSID, rtm::NEWNSID, |out| {
        fill(out, free, None)
    });
    free
}

/// Removes the id of a namespace that no longer exists.
pub fn forget(ns: &Namespace, gone: NsId) {
    let id = ids(ns).remove(&gone);
    if let Some(id) = id {
        announce(ns, rtm::grp::NSID, rtm::DELNSID, |out| fill(out, id, None));
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
