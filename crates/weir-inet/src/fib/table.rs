// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One routing table: the routes of each prefix in an [`Lpm`]; IPv4's insert and delete
//! (`fib_table_insert`, `fib_table_delete` of `fib_trie.c`), removal of dead routes, dumps.
//!
//! A dump resumes after the last prefix it returned ([`Cursor`]), in Linux's order. IPv4 goes by
//! address, and the longest prefix of an address comes first. IPv6 follows `fib6_walk`: longer
//! prefixes come before those that cover them.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use weir_netlink::Error;
use weir_netlink::{errno, nlm, rta};
use weir_sync::rcu::{Domain, Guard};
use weir_sync::small_map::SmallMap;
use weir_sync::spin::SpinLock;

use super::filter::{Filter, Words};
use super::lpm::{Change, Lpm};
use super::route::{
    Alias, Event, HopConfig, Leaf, Many, Route, RouteConfig, RouteInfo, error_of, siblings,
};
use super::sequence::Element;
use super::{Address, RouteDevice};

/// A routing table.
pub struct Table<K: Address, D: RouteDevice> {
    /// `RTA_TABLE`
    pub id: u32,
    pub(super) lpm: Lpm<K, Leaf<D>>,
    /// The filter in front of the local table.
    filter: Option<Box<Filter>>,
    /// IPv6: the prefixes with a route through each device, once there are many prefixes. Changes under
    /// the table's lock.
    devices: SpinLock<Option<Box<Devices<K>>>>,
}

type Devices<K> = HashMap<u32, SmallMap<(K, u8), ()>>;

/// A table of at least this many prefixes knows those of each device.
const MANY: usize = 64;

/// The position of a dump: after this prefix, or `None` at the start.
pub type Cursor<K> = Option<(K, u8)>;

impl<K: Address, D: RouteDevice> std::fmt::Debug for Table<K, D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Table")
            .field("id", &self.id)
            .field("prefixes", &self.lpm.len())
            .finish()
    }
}

impl<K: Address, D: RouteDevice> Table<K, D> {
    pub(super) fn new(id: u32, domain: &Domain) -> Self {
        Self {
            id,
            lpm: Lpm::new(domain),
            filter: (id == rta::table::LOCAL).then(Box::default),
            devices: SpinLock::new(None),
        }
    }

    /// Returns `false` if the table certainly has no prefix that covers an address.
    #[inline]
    pub fn may_cover(&self, address: K) -> bool {
        self.filter
            .as_ref()
            .is_none_or(|filter| filter.may_cover(address))
    }

    /// Returns whether the table has a prefix that covers an address.
    #[inline]
    pub fn covers(&self, address: K, guard: &Guard) -> bool {
        self.may_cover(address) && self.lpm.longest(address, K::BITS, guard).is_some()
    }

    /// Keeps the filter in step with the prefixes, under the table's lock.
    fn filter(&self, dst: K, dst_len: u8, change: &Change<Leaf<D>>, guard: &Guard) {
        let Some(filter) = &self.filter else {
            return;
        };
        let words_but = |gone: Option<(K, u8)>| {
            let mut words = Words::default();
            let _ = self.lpm.walk((K::ZERO, 0), guard, |key, len, _| {
                if Some((key, len)) != gone {
                    words.add(key, len);
                }
                ControlFlow::<()>::Continue(())
            });
            words
        };
        match change {
            Change::Keep => {}
            Change::Set(_) => {
                if filter.is_small_for(self.lpm.len()) {
                    filter.grow(&words_but(None));
                }
                filter.add(dst, dst_len);
            }
            Change::Remove if filter.removed(self.lpm.len()) => {
                filter.rebuild(&words_but(Some((dst, dst_len))));
            }
            Change::Remove => {}
        }
    }

    /// Returns the number of prefixes in the table.
    pub fn prefixes(&self) -> usize {
        self.lpm.len()
    }

    pub(super) fn route(&self, dst: K, dst_len: u8, alias: &Alias<D>) -> Route<K, D> {
        let info = alias.info.clone();
        Route {
            table: self.id,
            dst,
            dst_len,
            tos: alias.tos,
            info,
            siblings: Vec::new(),
        }
    }

    /// Changes the routes of a prefix under the table's lock. `change` may edit the list freely.
    /// The edit takes effect only if it returns `Ok` with `true` for "changed".
    pub(super) fn edit<R>(
        &self,
        dst: K,
        dst_len: u8,
        guard: &Guard,
        change: impl FnOnce(&mut Vec<Alias<D>>) -> Result<(bool, R), Error>,
    ) -> Result<R, Error> {
        let dst = dst.masked(dst_len);
        self.lpm.update(dst, dst_len, |leaf| {
            let mut routes = leaf.map_or_else(|| Vec::with_capacity(1), Leaf::to_vec);
            let answer = match change(&mut routes) {
                Err(error) => return (Change::Keep, Err(error)),
                Ok((false, answer)) => return (Change::Keep, Ok(answer)),
                Ok((true, answer)) => answer,
            };
            self.note_edit((dst, dst_len), leaf, &routes, guard);
            routes.iter().for_each(|alias| alias.info.entered());
            for alias in leaf.into_iter().flat_map(Leaf::iter) {
                alias.info.left();
            }
            let change = Leaf::new(routes).map_or(Change::Remove, Change::Set);
            self.filter(dst, dst_len, &change, guard);
            (change, Ok(answer))
        })
    }

    /// Keeps the prefixes of devices in step with an edit, under the table's lock.
    fn note_edit(&self, prefix: (K, u8), old: Option<&Leaf<D>>, new: &[Alias<D>], guard: &Guard) {
        if !K::IPV6 {
            return;
        }
        let mut lock = self.devices.lock();
        let Some(devices) = &mut *lock else {
            if self.lpm.len() >= MANY {
                let mut all = Box::new(Devices::new());
                let mut note = |prefix, alias: &Alias<D>| {
                    let of_device = all.entry(alias.device()).or_default();
                    of_device.insert(prefix, ());
                };
                let _ = self.lpm.walk((K::ZERO, 0), guard, |key, len, leaf| {
                    if (key, len) != prefix {
                        leaf.iter().for_each(|alias| note((key, len), alias));
                    }
                    ControlFlow::<()>::Continue(())
                });
                new.iter().for_each(|alias| note(prefix, alias));
                *lock = Some(all);
            }
            return;
        };
        let mut present: Vec<u32> = new.iter().map(Element::device).collect();
        present.sort_unstable();
        present.dedup();
        for alias in old.into_iter().flat_map(Leaf::iter) {
            let device = alias.device();
            if present.binary_search(&device).is_err()
                && let Some(prefixes) = devices.get_mut(&device)
            {
                prefixes.remove(&prefix);
                if prefixes.is_empty() {
                    devices.remove(&device);
                }
            }
        }
        for device in present {
            devices.entry(device).or_default().insert(prefix, ());
        }
    }

    /// Notes that a prefix has a route through a device, or has none any more. Under the table's lock.
    pub(super) fn note(&self, dst: K, dst_len: u8, device: u32, present: bool) {
        let Some(devices) = &mut *self.devices.lock() else {
            return;
        };
        let prefix = (dst.masked(dst_len), dst_len);
        if present {
            devices.entry(device).or_default().insert(prefix, ());
        } else if let Some(prefixes) = devices.get_mut(&device) {
            prefixes.remove(&prefix);
            if prefixes.is_empty() {
                devices.remove(&device);
            }
        }
    }

    /// IPv6: returns the prefixes with a route through a device in dump order, or `None` if there are so
    /// few prefixes that nobody keeps a list.
    pub(super) fn prefixes_of(&self, device: u32) -> Option<Vec<(K, u8)>> {
        let lock = self.devices.lock();
        let prefixes = lock.as_ref()?.get(&device);
        let mut prefixes: Vec<_> = prefixes
            .into_iter()
            .flat_map(|all| all.keys())
            .copied()
            .collect();
        prefixes.sort_unstable_by_key(|(key, len)| (key.filled(*len), std::cmp::Reverse(*len)));
        Some(prefixes)
    }

    /// Changes the routes of a prefix that has many, none of which may be part of a multipath route.
    /// `change` returns the new leaf, if any, and an answer; or `None` if the list has to be edited as
    /// a whole, which this function then returns too. It marks the infos that enter and leave.
    pub(super) fn edit_many<R>(
        &self,
        dst: K,
        dst_len: u8,
        guard: &Guard,
        change: impl FnOnce(&Many<'_, D>) -> Option<(Option<Leaf<D>>, R)>,
    ) -> Option<R> {
        let dst = dst.masked(dst_len);
        // Most prefixes have one route. The list may change before the lock is taken.
        self.lpm.get(dst, dst_len, guard)?.many()?;
        self.lpm.update(dst, dst_len, |leaf| {
            match leaf.and_then(Leaf::many).and_then(|many| change(&many)) {
                None => (Change::Keep, None),
                Some((None, answer)) => (Change::Keep, Some(answer)),
                Some((Some(leaf), answer)) => (Change::Set(leaf), Some(answer)),
            }
        })
    }

    /// Returns the routes of a prefix as dumps show them, with IPv6 siblings merged into one.
    pub fn routes_of(&self, dst: K, dst_len: u8, leaf: &Leaf<D>) -> Vec<Route<K, D>> {
        let mut shown: Vec<Route<K, D>> = Vec::new();
        let mut aliases = leaf.iter();
        while let Some(alias) = aliases.next() {
            let mut route = self.route(dst, dst_len, alias);
            if K::IPV6 && alias.info.is_ecmp() {
                let all = siblings(leaf, &alias.info);
                route.siblings = all.skip(1).cloned().collect();
                // As in Linux, skip to the last sibling, including any routes in between.
                if let Some(last) = route.siblings.last() {
                    aliases.find(|other| Arc::ptr_eq(&other.info, last));
                }
            }
            shown.push(route);
        }
        shown
    }

    /// Calls `visit` for each prefix after `cursor` and its routes, in dump order, until it breaks.
    /// The caller's next cursor is the last prefix it finished.
    pub fn dump<'g, B>(
        &'g self,
        cursor: Cursor<K>,
        guard: &'g Guard,
        visit: impl FnMut(K, u8, &'g Leaf<D>) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        if K::IPV6 {
            self.dump_upwards(cursor, guard, visit)
        } else {
            self.dump_by_address(cursor, guard, visit)
        }
    }

    /// Walks the trie by (address, length) and reverses the order of the prefixes of each address.
    fn dump_by_address<'g, B>(
        &'g self,
        cursor: Cursor<K>,
        guard: &'g Guard,
        mut visit: impl FnMut(K, u8, &'g Leaf<D>) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        let start = cursor.map_or(K::ZERO, |cursor| cursor.0);
        let mut run: Vec<(K, u8, &Leaf<D>)> = Vec::new();
        let mut flush = |run: &mut Vec<(K, u8, &'g Leaf<D>)>| {
            while let Some((key, len, leaf)) = run.pop() {
                if cursor.is_some_and(|cursor| key == cursor.0 && len >= cursor.1) {
                    continue;
                }
                visit(key, len, leaf)?;
            }
            ControlFlow::Continue(())
        };
        self.lpm.walk((start, 0), guard, |key, len, leaf| {
            if run.last().is_some_and(|last| last.0 != key) {
                flush(&mut run)?;
            }
            run.push((key, len, leaf));
            ControlFlow::Continue(())
        })?;
        flush(&mut run)
    }

    /// Visits each prefix after all prefixes it covers: a covering prefix waits on a stack until
    /// the walk has left it.
    fn dump_upwards<'g, B>(
        &'g self,
        cursor: Cursor<K>,
        guard: &'g Guard,
        mut visit: impl FnMut(K, u8, &'g Leaf<D>) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        let mut open: Vec<(K, u8, &Leaf<D>)> = Vec::new();
        let mut start = Some((K::ZERO, 0));
        if let Some((key, len)) = cursor {
            // Still to come: the prefixes that cover the last one returned, and everything after
            // it.
            let mut limit = len;
            while let Some(next) = limit.checked_sub(1) {
                let Some((len, leaf)) = self.lpm.longest(key, next, guard) else {
                    break;
                };
                open.push((key.masked(len), len, leaf));
                limit = len;
            }
            open.reverse();
            start = key.filled(len).next().map(|key| (key, 0));
        }
        let mut close = |open: &mut Vec<(K, u8, &'g Leaf<D>)>, next: Option<K>| {
            while let Some(&(key, len, leaf)) = open.last() {
                if next.is_some_and(|next| next.masked(len) == key) {
                    break;
                }
                open.pop();
                visit(key, len, leaf)?;
            }
            ControlFlow::Continue(())
        };
        if let Some(start) = start {
            self.lpm.walk(start, guard, |key, len, leaf| {
                close(&mut open, Some(key))?;
                open.push((key, len, leaf));
                ControlFlow::Continue(())
            })?;
        }
        close(&mut open, None)
    }

    /// Removes the routes for which `dead` returns true. Returns them in dump order
    /// (`fib_table_flush`, `fib6_clean_tree`).
    pub(super) fn flush(
        &self,
        guard: &Guard,
        mut dead: impl FnMut(&Alias<D>) -> bool,
    ) -> Vec<Route<K, D>> {
        let mut prefixes = Vec::new();
        let _ = self.dump(None, guard, |key, len, leaf| {
            if leaf.iter().any(&mut dead) {
                prefixes.push((key, len));
            }
            ControlFlow::<()>::Continue(())
        });
        let mut gone = Vec::new();
        for (key, len) in prefixes {
            let _ = self.edit(key, len, guard, |routes| {
                routes.retain(|alias| {
                    let dies = dead(alias);
                    if dies {
                        gone.push(self.route(key, len, alias));
                    }
                    !dies
                });
                Ok((true, ()))
            });
        }
        gone
    }
}

impl<D: RouteDevice> Table<u32, D> {
    /// Inserts a valid route as `config.nlflags` says. Returns the event to announce, if any.
    pub(super) fn insert(
        &self,
        config: &RouteConfig<u32>,
        info: Arc<RouteInfo<D>>,
        guard: &Guard,
    ) -> Result<Option<Event<u32, D>>, Error> {
        let wants = |flag: u16| config.nlflags & flag != 0;
        let (tos, priority) = (config.tos, info.spec.priority);
        let alias = Alias::new(info, tos);
        self.edit(config.dst, config.dst_len, guard, |routes| {
            let mut flags = nlm::F_EXCL;
            let mut at = place(routes, tos, priority);
            let same = |alias: &Alias<D>| alias.tos == tos && alias.info.spec.priority == priority;
            if routes.get(at).is_some_and(same) {
                if wants(nlm::F_EXCL) {
                    return Err(Error::new(errno::EEXIST));
                }
                flags &= !nlm::F_EXCL;
                let end = at + routes[at..].iter().take_while(|alias| same(alias)).count();
                let twin = (at..end).find(|&index| Arc::ptr_eq(&routes[index].info, &alias.info));
                if wants(nlm::F_REPLACE) {
                    return match twin {
                        // Nothing to do or announce.
                        Some(index) if index == at => Ok((false, None)),
                        Some(_) => Err(Error::new(errno::EEXIST)),
                        None => {
                            routes[at] = alias.clone();
                            let flags = flags | nlm::F_REPLACE;
                            let route = self.route(config.dst, config.dst_len, &alias);
                            Ok((
                                true,
                                Some(Event {
                                    new: true,
                                    flags,
                                    route,
                                }),
                            ))
                        }
                    };
                }
                if twin.is_some() {
                    return Err(Error::new(errno::EEXIST));
                }
                if wants(nlm::F_APPEND) {
                    flags |= nlm::F_APPEND;
                    at = end;
                }
            }
            if !wants(nlm::F_CREATE) {
                return Err(Error::new(errno::ENOENT));
            }
            flags |= nlm::F_CREATE;
            let route = self.route(config.dst, config.dst_len, &alias);
            routes.insert(at, alias.clone());
            Ok((
                true,
                Some(Event {
                    new: true,
                    flags,
                    route,
                }),
            ))
        })
    }

    /// Removes the first route of the prefix that matches all given attributes.
    pub(super) fn delete(
        &self,
        config: &RouteConfig<u32>,
        guard: &Guard,
    ) -> Result<Event<u32, D>, Error> {
        self.edit(config.dst, config.dst_len, guard, |routes| {
            let start = place(routes, config.tos, 0);
            let found = routes[start..]
                .iter()
                .take_while(|alias| alias.tos == config.tos)
                .position(|alias| matches(config, &alias.info))
                .ok_or_else(|| Error::new(errno::ESRCH))?;
            let alias = routes.remove(start + found);
            let route = self.route(config.dst, config.dst_len, &alias);
            Ok((
                true,
                Event {
                    new: false,
                    flags: 0,
                    route,
                },
            ))
        })
    }
}

/// Returns the list position for a route of this type of service and priority: in front of the
/// first one that sorts at or after it (`fib_find_alias`).
fn place<D: RouteDevice>(routes: &[Alias<D>], tos: u8, priority: u32) -> usize {
    let at = |alias: &Alias<D>| {
        alias.tos < tos || (alias.tos == tos && alias.info.spec.priority >= priority)
    };
    routes.iter().position(at).unwrap_or(routes.len())
}

/// Returns whether a route matches a delete request (`fib_table_delete`, `fib_nh_match`,
/// `fib_metrics_match`).
fn matches<D: RouteDevice>(config: &RouteConfig<u32>, info: &RouteInfo<D>) -> bool {
    let spec = &info.spec;
    if config.nhid != 0 && info.object().is_none_or(|object| object.id != config.nhid) {
        return false;
    }
    let named = config.hop.oif != 0 || config.hop.gateway.is_some() || config.multipath.is_some();
    if info.object().is_some() && config.nhid == 0 && named {
        return false;
    }
    let fits = |hop: &HopConfig, found: &super::route::NextHop<D>| {
        (hop.oif == 0 || hop.oif == found.oif)
            && (hop.gateway.is_none() || hop.gateway == found.gateway)
            && (hop.encap.is_none() || hop.encap.as_ref() == info.encap_of(found))
    };
    (config.kind == rta::rtn::UNSPEC || config.kind == spec.kind)
        && (config.scope == rta::scope::NOWHERE || config.scope == spec.scope)
        && (config.prefsrc.is_none() || config.prefsrc == spec.prefsrc)
        && (config.protocol == rta::prot::UNSPEC || config.protocol == spec.protocol)
        && (config.priority == 0 || config.priority == spec.priority)
        && if info.object().is_some() {
            true
        } else if config.hop.oif != 0 || config.hop.gateway.is_some() {
            info.hops
                .first()
                .is_some_and(|found| fits(&config.hop, found))
        } else if let Some(hops) = &config.multipath {
            // Linux walks the route's hops. Fewer hops in the request are an error there and a
            // mismatch here.
            hops.len() >= info.hops.len() && hops.iter().zip(&info.hops).all(|(a, b)| fits(a, b))
        } else {
            true
        }
        && config.metrics.as_ref().is_none_or(|metrics| {
            let found = spec.metrics.as_deref();
            metrics.values.iter().enumerate().all(|(index, &value)| {
                value == 0 || found.is_some_and(|found| found.values[index] == value)
            }) && (metrics.congestion.is_none()
                || found.is_some_and(|found| found.congestion == metrics.congestion))
        })
}

/// Returns whether routes of this type deliver packets.
pub(super) fn delivers(kind: u8) -> bool {
    error_of(kind) == 0
}
