// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The effect of device and address changes on routes: `fib_sync_down_dev`, `fib_sync_down_addr`,
//! `fib_sync_up`, `fib_flush` of IPv4; `fib6_ifdown`, `fib6_ifup`, `fib6_run_gc` of IPv6.
//!
//! IPv4 marks hops dead and removes routes that have none left, without notifications. IPv6 removes
//! the device's routes and announces each. A lost carrier only marks hops (`linkdown`).

use std::net::Ipv4Addr;
use std::num::NonZeroU64;
use std::sync::Arc;

use weir_netlink::rta;

use super::object::Object;
use super::route::{Alias, Event, Leaf, NextHop, Route, RouteInfo, flag};
use super::table::delivers;
use super::{Address, Family, RouteDevice, Tables};

/// The event that made a device unusable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// The carrier was lost (`NETDEV_CHANGE`).
    Carrier,
    /// The device was taken down, or lost its last address (`NETDEV_DOWN`).
    Down,
    /// The device is leaving the namespace (`NETDEV_UNREGISTER`).
    Gone,
}

impl Loss {
    fn flags(self) -> u8 {
        match self {
            Self::Carrier => flag::LINKDOWN,
            Self::Down | Self::Gone => flag::DEAD | flag::LINKDOWN,
        }
    }
}

impl<K: Address, D: RouteDevice> Family<K, D> {
    /// Forgets all tables with their routes at once, without notifications, when the namespace ends. They are freed
    /// after a grace period. Events of devices then find nothing to remove.
    pub fn forget(&self) {
        {
            let _alone = self.making.lock();
            self.tables.replace(Tables::none());
        }
        self.infos.forget();
        self.changed();
    }
}

impl<D: RouteDevice> Family<u32, D> {
    /// Marks the hops through a device. `force` includes routes to local addresses (the last
    /// address was deleted, or the device is going away). Removes and returns dead routes, without
    /// notifications.
    pub fn device_lost(&self, ifindex: u32, loss: Loss, force: bool) -> Vec<Route<u32, D>> {
        let force = force || loss == Loss::Gone;
        let mut dead_routes = 0;
        self.each_info_of(ifindex, |info| {
            if !info
                .hops
                .iter()
                .any(|hop| hop.oif == ifindex && hop.device.is_some())
            {
                return;
            }
            let mut lost = 0;
            for hop in &info.hops {
                if hop.flags() & flag::DEAD != 0 {
                    lost += 1;
                } else if hop.oif == ifindex && (force || hop.scope != rta::scope::NOWHERE) {
                    hop.set(loss.flags());
                    lost += 1;
                }
                if loss == Loss::Gone && hop.oif == ifindex {
                    lost = info.hops.len();
                    break;
                }
            }
            if lost == info.hops.len() {
                info.set(loss.flags());
                dead_routes += 1;
            }
            info.rebalance();
        });
        if dead_routes == 0 || loss == Loss::Carrier {
            Vec::new()
        } else {
            self.flush_dead()
        }
    }

    /// Revives the hops through a device that came up or regained its carrier. `carrier` says
    /// whether it has one.
    pub fn device_found(&self, device: &D, carrier: bool) {
        let flags = flag::DEAD | if carrier { flag::LINKDOWN } else { 0 };
        let ifindex = device.ifindex();
        self.each_info_of(ifindex, |info| {
            let ours = |hop: &NextHop<D>| hop.oif == ifindex && hop.device.is_some();
            // The device may have gone down again, and its hops may be marked. They are marked under the same lock
            // after it has gone down.
            if !device.is_up() || !info.hops.iter().any(ours) {
                return;
            }
            let mut alive = false;
            for hop in &info.hops {
                if hop.flags() & flags == 0 {
                    alive = true;
                } else if hop.oif == ifindex {
                    hop.clear(flags);
                    alive = true;
                }
            }
            if alive {
                info.clear(flags);
            }
            info.rebalance();
        });
    }

    /// Removes and returns the routes that prefer a deleted address as source.
    pub fn address_lost(&self, device: &D, address: Ipv4Addr) -> Vec<Route<u32, D>> {
        let table = match device.l3_table() {
            0 => rta::table::MAIN,
            own => own,
        };
        let mut found = false;
        self.each_info(|info| {
            if info.spec.prefsrc == Some(address.into()) && info.spec.table == table {
                info.set(flag::DEAD);
                found = true;
            }
        });
        if found { self.flush_dead() } else { Vec::new() }
    }

    /// Removes the routes by a nexthop object, without notifications (`__remove_nexthop_fib`).
    pub(super) fn remove_by(&self, object: &Arc<Object<D>>) {
        let mut found = false;
        self.each_info_by(object, |info| {
            info.set(flag::DEAD);
            found = true;
        });
        if !found {
            return;
        }
        let guard = self.domain.pin();
        for table in self.tables(&guard) {
            table.flush(&guard, |alias| alias.info.is_by(object));
        }
        self.changed();
    }

    fn flush_dead(&self) -> Vec<Route<u32, D>> {
        let guard = self.domain.pin();
        let dead = |info: &RouteInfo<D>| info.is_dead() && delivers(info.spec.kind);
        let gone = self
            .tables(&guard)
            .flat_map(|table| table.flush(&guard, |alias| dead(&alias.info)));
        let gone = gone.collect();
        self.changed();
        gone
    }
}

impl<D: RouteDevice> Family<u128, D> {
    /// Removes the routes through a device that went down or away. A multipath route is removed
    /// together with its last device. A lost carrier only marks hops.
    pub fn device_lost(&self, ifindex: u32, loss: Loss, events: &mut Vec<Event<u128, D>>) {
        let by = |info: &RouteInfo<D>| info.hops.first().is_some_and(|hop| hop.oif == ifindex);
        if loss == Loss::Carrier {
            self.each_info_of(ifindex, |info| {
                let ours = [rta::rtn::LOCAL, rta::rtn::ANYCAST].contains(&info.spec.kind);
                if by(info) && !ours {
                    self.infos.mark();
                    info.hops.iter().for_each(|hop| hop.set(loss.flags()));
                }
            });
            return;
        }
        // Most devices that go away have gone down before.
        let (mut tables, mut routes) = (Vec::new(), 0);
        self.each_info_of(ifindex, |info| {
            if by(info) {
                routes += info.users();
                if !tables.contains(&info.spec.table) {
                    tables.push(info.spec.table);
                }
            }
        });
        if tables.is_empty() {
            return;
        }
        let is_dead = |info: &Arc<RouteInfo<D>>| {
            by(info)
                || info
                    .hops
                    .first()
                    .is_some_and(|hop| hop.flags() & flag::DEAD != 0)
        };
        let before = events.len();
        self.remove(events, Some((ifindex, &tables)), |info, siblings| {
            by(info) && (loss == Loss::Gone || siblings.iter().all(is_dead))
                || (!siblings.is_empty() && is_dead(info) && siblings.iter().all(is_dead))
        });
        let gone = events[before..].iter();
        if gone.filter(|event| by(&event.route.info)).count() >= routes {
            return self.infos.forget_ended(ifindex);
        }
        // The remaining routes through the device belong to multipath routes.
        self.infos.mark();
        self.each_info_of(ifindex, |info| {
            if by(info) {
                info.hops.iter().for_each(|hop| hop.set(loss.flags()));
            }
        });
    }

    /// Removes the routes by a nexthop object, and adds an event for each.
    pub(super) fn remove_by(&self, object: &Arc<Object<D>>, events: &mut Vec<Event<u128, D>>) {
        let mut tables = Vec::new();
        self.each_info_by(object, |info| tables.push(info.spec.table));
        if !tables.is_empty() {
            // Their routes are filed under no device.
            let by = Some((0, &tables[..]));
            self.remove(events, by, |info, _| info.is_by(object));
        }
    }

    /// Revives the multipath hops through a device that came up or regained its carrier.
    pub fn device_found(&self, device: &D, carrier: bool) {
        let ifindex = device.ifindex();
        let flags = flag::DEAD | if carrier { flag::LINKDOWN } else { 0 };
        if !self.infos.are_marked() {
            return;
        }
        self.each_info_of(ifindex, |info| {
            // As for IPv4: it may have gone down again.
            if device.is_up() {
                let ours = info.hops.iter().filter(|hop| hop.oif == ifindex);
                ours.for_each(|hop| hop.clear(flags));
            }
        });
    }

    /// Removes expired routes (`fib6_run_gc`). Returns the next expiry time.
    pub fn expire(&self, now: u64, events: &mut Vec<Event<u128, D>>) -> Option<u64> {
        let mut next: Option<u64> = None;
        let mut due = false;
        self.each_info(|info| match info.spec.expires.map(NonZeroU64::get) {
            Some(expires) if expires < now => due = true,
            Some(expires) => next = Some(next.map_or(expires, |next| next.min(expires))),
            None => {}
        });
        if due {
            self.remove(events, None, |info, _| {
                info.spec.expires.is_some_and(|expires| expires.get() < now)
            });
        }
        next
    }

    /// Removes the routes for which `goes` returns true, given a route and its siblings, and adds
    /// an event for each. If a device is given, with the tables that have its routes, routes that are
    /// not part of a multipath route go only if they are through it.
    fn remove(
        &self,
        events: &mut Vec<Event<u128, D>>,
        by: Option<(u32, &[u32])>,
        goes: impl Fn(&Arc<RouteInfo<D>>, &[Arc<RouteInfo<D>>]) -> bool,
    ) {
        let guard = self.domain.pin();
        let before = events.len();
        let device = by.map(|(device, _)| device);
        let concerned = |id: u32| by.is_none_or(|(_, tables)| tables.contains(&id));
        for table in self.tables(&guard).filter(|table| concerned(table.id)) {
            let mut prefixes = Vec::new();
            let mut look = |key: u128, len: u8, leaf: &Leaf<D>| {
                if device.is_some() && leaf.many().is_some() {
                    // The removal looks for the route.
                    prefixes.push((key, len));
                    return;
                }
                let alone = |alias: &Alias<D>| !alias.info.is_ecmp() && goes(&alias.info, &[]);
                let together = || {
                    table.routes_of(key, len, leaf).iter().any(|route| {
                        route.info.is_ecmp()
                            && (goes(&route.info, &route.siblings)
                                || route
                                    .siblings
                                    .iter()
                                    .any(|info| goes(info, &route.siblings)))
                    })
                };
                let ecmp = leaf.iter().any(|alias| alias.info.is_ecmp());
                if leaf.iter().any(alone) || ecmp && together() {
                    prefixes.push((key, len));
                }
            };
            match device.and_then(|device| table.prefixes_of(device)) {
                Some(known) => {
                    for (key, len) in known {
                        if let Some(leaf) = table.lpm.get(key, len, &guard) {
                            look(key, len, leaf);
                        }
                    }
                }
                None => {
                    let _ = table.dump(None, &guard, |key, len, leaf| {
                        look(key, len, leaf);
                        std::ops::ControlFlow::<()>::Continue(())
                    });
                }
            }
            for (key, len) in prefixes {
                let mut more = true;
                while more
                    && let Some(device) = device
                    && let Some((event, others)) =
                        table.take_from_many((key, len), device, |info| goes(info, &[]), &guard)
                {
                    events.push(event);
                    more = others;
                }
                let many = |leaf: &Leaf<D>| leaf.many().is_some();
                if !more || device.is_some() && table.lpm.get(key, len, &guard).is_some_and(many) {
                    continue;
                }
                let _ = table.edit(key, len, &guard, |routes| {
                    let all = routes.clone();
                    routes.retain(|alias| {
                        let mut route = table.route6(key, len, &all, &alias.info);
                        let dies = goes(&alias.info, &route.siblings);
                        if dies {
                            route.siblings.clear();
                            events.push(Event {
                                new: false,
                                flags: 0,
                                route,
                            });
                        }
                        !dies
                    });
                    Ok((true, ()))
                });
            }
        }
        if events.len() != before {
            self.changed();
        }
    }
}
