// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Nexthop objects (`net/ipv4/nexthop.c`): next hops and groups of them with ids of their own, to which
//! routes refer.
//!
//! A route by an object has no hops itself. It reads those of the object's current [`State`], so that a
//! replaced object changes all its routes at once, whatever their number. The state of a group holds a copy of
//! each member's hop. A member that is replaced or deleted makes new states of its groups.
//!
//! An object goes when its device goes down, loses its carrier or leaves, and takes along its routes and
//! the groups that are left without members. Nobody is told of that, except of IPv6 routes.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use weir_netlink::{Error, af, errno, nlm, rta};
use weir_sync::once_box::OnceBox;
use weir_sync::order::{self, Mutex, MutexGuard};
use weir_sync::primitive::atomic::{AtomicU32, Ordering::Relaxed};
use weir_sync::rcu::{Domain, Guard};

use super::hop::{NextHop, flag};
use super::object::{Kind, Member, Object, State, TableEntry, invalid};
use super::resilient::{IDLE_TIMER, Resilient};
use super::route::{Event, HopConfig, LOOPBACK, Route, RouteConfig, shares};
use super::{Address, Family, Fib, FibHost, RouteDevice};
use crate::clock::Clock;

/// A change to be announced, in order.
#[derive(Debug)]
pub enum Change<D: RouteDevice> {
    /// An object was added or changed (`RTM_NEWNEXTHOP`), or deleted (`RTM_DELNEXTHOP`).
    Object {
        /// It exists now.
        new: bool,
        /// Its id.
        id: u32,
        /// Its state then.
        state: Arc<State<D>>,
    },
    /// A bucket moved to another member (`RTM_NEWNEXTHOPBUCKET`).
    Bucket {
        /// The id of the group.
        id: u32,
        /// The state of the group then.
        state: Arc<State<D>>,
        /// The number of the bucket.
        index: u16,
    },
    /// The entries of forwarding tables that named a deleted object.
    Entries(BTreeSet<TableEntry>),
    /// A route of IPv4 changed with its object.
    V4(Event<u32, D>),
    /// A route of IPv6 changed or went with its object.
    V6(Event<u128, D>),
}

/// An object as requested (`struct nh_config`).
#[derive(Debug, Clone, Default)]
pub struct NexthopConfig {
    /// `NHA_ID`; 0 asks for an unused one.
    pub id: u32,
    /// `nh_family`
    pub family: u8,
    /// `nh_protocol`
    pub protocol: u8,
    /// `nh_flags`
    pub flags: u8,
    /// `nlmsg_flags`
    pub nlflags: u16,
    /// `NHA_BLACKHOLE`
    pub blackhole: bool,
    /// `NHA_FDB`
    pub fdb: bool,
    /// `NHA_OIF`
    pub oif: u32,
    /// `NHA_GATEWAY`
    pub gateway: Option<IpAddr>,
    /// `NHA_GROUP`
    pub group: Option<Vec<Member>>,
    /// The group is resilient.
    pub resilient: Option<ResilientConfig>,
}

/// `NHA_RES_GROUP`: what is given.
#[derive(Debug, Clone, Copy, Default)]
pub struct ResilientConfig {
    /// The number of buckets.
    pub buckets: Option<u16>,
    /// The idle timer in nanoseconds.
    pub idle_timer: Option<u64>,
    /// The unbalanced timer in nanoseconds.
    pub unbalanced_timer: Option<u64>,
}

/// The objects of a namespace.
#[derive(Debug)]
pub struct Nexthops<D: RouteDevice> {
    /// The objects, once one was asked for.
    table: OnceBox<Mutex<Table<D>, order::Nexthops>>,
    /// The change counter, for `NLM_F_DUMP_INTR`.
    generation: AtomicU32,
    domain: Domain,
}

#[derive(Debug)]
struct Table<D: RouteDevice> {
    objects: BTreeMap<u32, Entry<D>>,
    last_id: u32,
}

impl<D: RouteDevice> Default for Table<D> {
    fn default() -> Self {
        Self {
            objects: BTreeMap::new(),
            last_id: 0,
        }
    }
}

#[derive(Debug)]
struct Entry<D: RouteDevice> {
    object: Arc<Object<D>>,
    state: Arc<State<D>>,
    /// The groups with this member, latest first (`grp_list`).
    groups: Vec<u32>,
    /// The time at which buckets may move.
    due: Option<u64>,
}

impl<D: RouteDevice> Entry<D> {
    fn publish(&mut self, state: State<D>) -> Arc<State<D>> {
        self.state = Arc::new(state);
        self.object.publish(self.state.clone());
        self.state.clone()
    }
}

impl<D: RouteDevice> Nexthops<D> {
    pub(super) fn new(domain: &Domain) -> Self {
        Self {
            table: OnceBox::default(),
            generation: AtomicU32::new(0),
            domain: domain.clone(),
        }
    }

    fn table(&self) -> MutexGuard<'_, Table<D>, order::Nexthops> {
        self.table.get_or_make(Mutex::default).lock()
    }

    /// Returns the change counter.
    pub fn generation(&self) -> u32 {
        self.generation.load(Relaxed)
    }

    /// Returns whether there are no objects.
    pub fn is_empty(&self) -> bool {
        self.table
            .get()
            .is_none_or(|table| table.lock().objects.is_empty())
    }

    /// Returns the object with an id.
    pub fn find(&self, id: u32) -> Option<Arc<Object<D>>> {
        let table = self.table();
        table.objects.get(&id).map(|entry| entry.object.clone())
    }

    /// Returns the state of the object with an id.
    pub fn state(&self, id: u32) -> Option<Arc<State<D>>> {
        let table = self.table();
        table.objects.get(&id).map(|entry| entry.state.clone())
    }

    /// Returns up to `most` objects from an id on, in order.
    pub fn list(&self, from: u32, most: usize) -> Vec<(u32, Arc<State<D>>)> {
        let table = self.table();
        let range = table.objects.range(from..).take(most);
        range
            .map(|(&id, entry)| (id, entry.state.clone()))
            .collect()
    }

    /// Checks the members of a group (`nh_check_attr_group`).
    ///
    /// # Errors
    /// EINVAL with Linux's text.
    pub fn check_group(&self, members: &[Member], fdb: bool) -> Result<(), Error> {
        self.table().check_group(members, fdb)
    }

    /// Returns the time at which buckets of a group may move next.
    pub fn due(&self) -> Option<u64> {
        let table = self.table();
        table.objects.values().filter_map(|entry| entry.due).min()
    }

    /// Moves the buckets that may move now, and adds a change for each.
    pub fn upkeep(&self, now: u64, changes: &mut Vec<Change<D>>) {
        let mut table = self.table();
        let due = |entry: &Entry<D>| entry.due.is_some_and(|due| due <= now);
        let ids = table.objects.iter().filter(|(_, entry)| due(entry));
        let ids: Vec<u32> = ids.map(|(&id, _)| id).collect();
        for id in ids {
            let Some(entry) = table.objects.get_mut(&id) else {
                continue;
            };
            let mut moved = Vec::new();
            let old = entry.state.clone();
            let mut kind = old.kind.clone();
            entry.due = kind.upkeep(&mut moved);
            if moved.is_empty() {
                continue;
            }
            let state = entry.publish(State {
                protocol: old.protocol,
                kind,
                hops: old.hops.iter().map(|hop| hop.copy(&self.domain)).collect(),
            });
            changes.extend(moved.into_iter().map(|index| Change::Bucket {
                id,
                state: state.clone(),
                index,
            }));
        }
    }
}

impl Kind {
    /// Moves buckets of a resilient group. Returns when to look again.
    fn upkeep(&mut self, moved: &mut Vec<u16>) -> Option<u64> {
        match self {
            Self::Group {
                members,
                resilient: Some(buckets),
                ..
            } => buckets.upkeep(&weights(members), moved),
            _ => None,
        }
    }
}

fn weights(members: &[Member]) -> Vec<u32> {
    members.iter().map(|member| member.weight).collect()
}

impl<D: RouteDevice> Table<D> {
    fn check_group(&self, members: &[Member], fdb: bool) -> Result<(), Error> {
        let mut common = None;
        for member in members {
            let Some(entry) = self.objects.get(&member.id) else {
                return invalid("Invalid nexthop id");
            };
            let (family, blackhole, is_fdb) = match &entry.state.kind {
                Kind::Group {
                    resilient: None, ..
                } => {
                    return invalid("Hash-threshold group can not be a nexthop within a group");
                }
                Kind::Group { .. } => {
                    return invalid("Resilient group can not be a nexthop within a group");
                }
                &Kind::Single {
                    family,
                    blackhole,
                    fdb,
                } => (family, blackhole, fdb),
            };
            if blackhole && members.len() > 1 {
                return invalid(
                    "Blackhole nexthop can not be used in a group with more than 1 path",
                );
            }
            if fdb && !is_fdb {
                return invalid("FDB nexthop group can only have fdb nexthops");
            }
            if fdb && *common.get_or_insert(family) != family {
                return invalid("FDB nexthop group cannot have mixed family nexthops");
            }
            if !fdb && is_fdb {
                return invalid("Non FDB nexthop group cannot have fdb nexthops");
            }
        }
        Ok(())
    }

    /// Creates the state of a group from its members' hops.
    fn group_state(
        &self,
        domain: &Domain,
        protocol: u8,
        members: Vec<Member>,
        fdb: bool,
        resilient: Option<Resilient>,
    ) -> State<D> {
        let (mut has_v4, mut blackhole) = (false, false);
        let mut hops: Vec<NextHop<D>> = Vec::with_capacity(members.len());
        for member in &members {
            let Some(entry) = self.objects.get(&member.id) else {
                continue;
            };
            if let Kind::Single {
                family,
                blackhole: drops,
                ..
            } = entry.state.kind
            {
                has_v4 |= family == af::INET;
                blackhole |= drops && members.len() == 1;
            }
            if let Some(hop) = entry.state.hops.first() {
                hops.push(hop.weighted(domain, member.weight));
            }
        }
        for (hop, bound) in hops
            .iter()
            .zip(shares(members.iter().map(|member| member.weight)))
        {
            hop.set_upper_bound(bound);
        }
        State {
            protocol,
            kind: Kind::Group {
                members,
                fdb,
                has_v4,
                blackhole,
                resilient,
            },
            hops: hops.into(),
        }
    }

    /// Puts a group at the head of its members' lists.
    fn enlist(&mut self, id: u32, members: &[Member]) {
        for member in members {
            if let Some(entry) = self.objects.get_mut(&member.id) {
                entry.groups.retain(|&group| group != id);
                entry.groups.insert(0, id);
            }
        }
    }

    /// Returns an unused id (`nh_find_unused_id`).
    fn unused_id(&mut self) -> Option<u32> {
        let start = self.last_id;
        loop {
            self.last_id = self.last_id.wrapping_add(1);
            if self.last_id == start {
                return None;
            }
            if self.last_id != 0 && !self.objects.contains_key(&self.last_id) {
                return Some(self.last_id);
            }
        }
    }
}

impl<D: RouteDevice> Fib<D> {
    /// Adds or replaces an object as `config.nlflags` says (`nexthop_add`). With `compat`
    /// (`net.ipv4.nexthop_compat_mode`), the routes of a replaced object are announced.
    ///
    /// # Errors
    /// Linux's errno and text. Nothing has then changed.
    pub fn add_nexthop(
        &self,
        mut config: NexthopConfig,
        host: &impl FibHost<D>,
        clock: &Arc<Clock>,
        compat: bool,
        changes: &mut Vec<Change<D>>,
    ) -> Result<(), Error> {
        let guard = self.nexthops.domain.pin();
        let mut table = self.nexthops.table();
        if config.nlflags & nlm::F_REPLACE != 0 && config.id == 0 {
            return invalid("Replace requires nexthop id");
        }
        if config.id == 0 {
            let Some(id) = table.unused_id() else {
                return invalid("No unused id");
            };
            config.id = id;
        }
        let state = match &config.group {
            Some(members) => {
                table.check_group(members, config.fdb)?;
                let resilient = config.resilient.map(|given| {
                    Resilient::new(
                        given.buckets.unwrap_or(0),
                        given.idle_timer.unwrap_or(IDLE_TIMER),
                        given.unbalanced_timer.unwrap_or(0),
                        clock.clone(),
                    )
                });
                let domain = &self.nexthops.domain;
                let members = members.clone();
                table.group_state(domain, config.protocol, members, config.fdb, resilient)
            }
            None => self.single_state(&config, host, &guard)?,
        };
        let device = state.hops.first().and_then(|hop| hop.device.clone());
        let device = device.filter(|_| !state.is_group() && !state.is_blackhole());
        if table.objects.contains_key(&config.id) {
            if config.nlflags & nlm::F_REPLACE == 0 {
                return Err(Error::new(errno::EEXIST));
            }
            self.replace(&mut table, &config, state, &guard, compat, changes)?;
        } else {
            self.insert(&mut table, &config, state, changes)?;
        }
        self.nexthops.generation.fetch_add(1, Relaxed);
        // No lock keeps the device up.
        if let Some(device) = device {
            let v6 = config.family == af::INET6;
            if !device.is_up() || !host.is_here(&device, v6) {
                self.remove(&mut table, config.id, false, compat, changes);
            }
        }
        Ok(())
    }

    fn insert(
        &self,
        table: &mut Table<D>,
        config: &NexthopConfig,
        mut state: State<D>,
        changes: &mut Vec<Change<D>>,
    ) -> Result<(), Error> {
        let id = config.id;
        if config.nlflags & (nlm::F_REPLACE | nlm::F_CREATE) == nlm::F_REPLACE {
            return Err(Error::msg(
                errno::ENOENT,
                "Replace specified without create and no entry exists",
            ));
        }
        let mut due = None;
        if let Some(given) = config.resilient {
            if given.buckets.is_none() {
                return invalid("Number of buckets not specified for nexthop group insertion");
            }
            if let Kind::Group {
                members,
                resilient: Some(buckets),
                ..
            } = &mut state.kind
            {
                buckets.rebalance(&weights(members), Some);
            }
            due = state.kind.upkeep(&mut Vec::new());
        }
        if let Kind::Group { members, .. } = &state.kind {
            table.enlist(id, members);
        }
        let state = Arc::new(state);
        let object = Arc::new(Object::new(&self.nexthops.domain, id, state.clone()));
        let entry = Entry {
            object,
            state: state.clone(),
            groups: Vec::new(),
            due,
        };
        table.objects.insert(id, entry);
        let new = true;
        changes.push(Change::Object { new, id, state });
        Ok(())
    }

    /// Creates the state of a next hop (`nexthop_create`).
    fn single_state(
        &self,
        config: &NexthopConfig,
        host: &impl FibHost<D>,
        guard: &Guard,
    ) -> Result<State<D>, Error> {
        let hop = HopConfig {
            oif: if config.blackhole {
                LOOPBACK
            } else {
                config.oif
            },
            gateway: config.gateway.filter(|gateway| !gateway.is_unspecified()),
            flags: config.flags & flag::ONLINK,
            weight: 1,
            encap: None,
        };
        let hop = match (config.fdb, config.family) {
            (true, _) => {
                let domain = &self.nexthops.domain;
                let mut end = NextHop::new(domain, 0, None, hop.gateway, 1, config.flags);
                end.scope = rta::scope::LINK;
                end
            }
            (false, af::INET) => {
                let route = RouteConfig {
                    table: host.device(hop.oif).map_or(0, |device| device.l3_table()),
                    ..RouteConfig::default()
                };
                self.v4
                    .check_hop(&hop, &route, host, Some(&self.v6), guard)?
            }
            (false, _) => {
                let mut hop = self.v6.nexthop(&hop, host, guard)?;
                hop.scope = rta::scope::LINK;
                hop
            }
        };
        Ok(State {
            protocol: config.protocol,
            kind: Kind::Single {
                family: config.family,
                blackhole: config.blackhole,
                fdb: config.fdb,
            },
            hops: Box::new([hop]),
        })
    }

    /// Checks that the routes of an object, and of its groups, may have another state
    /// (`fib_check_nh_list`, `fib6_check_nh_list`).
    fn check_routes(&self, object: &Arc<Object<D>>, state: &State<D>) -> Result<(), Error> {
        let mut done = Ok(());
        self.v4.each_info_by(object, |info| {
            if done.is_ok() {
                done = state.check4(info.spec.scope);
            }
        });
        self.v6.each_info_by(object, |_| {
            if done.is_ok() {
                done = state.check6();
            }
        });
        done
    }

    fn replace(
        &self,
        table: &mut Table<D>,
        config: &NexthopConfig,
        state: State<D>,
        guard: &Guard,
        compat: bool,
        changes: &mut Vec<Change<D>>,
    ) -> Result<(), Error> {
        let id = config.id;
        let Some(entry) = table.objects.get(&id) else {
            return Err(Error::new(errno::ENOENT));
        };
        let (object, groups) = (entry.object.clone(), entry.groups.clone());
        self.check_routes(&object, &state)?;
        let members_of = |table: &Table<D>, id| match table.objects.get(id).map(|e| &e.state.kind) {
            Some(Kind::Group { members, .. }) => members.clone(),
            _ => Vec::new(),
        };
        for group in &groups {
            if state.is_blackhole() && members_of(table, group).len() > 1 {
                return invalid(
                    "Blackhole nexthop can not be a member of a group with more than one path",
                );
            }
            if let Some(group) = table.objects.get(group) {
                self.check_routes(&group.object, &state)?;
            }
        }
        let announced = match (&entry.state.kind, state.kind.clone()) {
            (Kind::Single { .. }, Kind::Single { .. }) => {
                let announced = match table.objects.get_mut(&id) {
                    Some(entry) => entry.publish(state),
                    None => return Err(Error::new(errno::ENOENT)),
                };
                for group in &groups {
                    self.renew(table, *group, None);
                }
                announced
            }
            (Kind::Single { .. }, Kind::Group { .. }) => {
                return invalid("Can not replace a nexthop with a nexthop group.");
            }
            (Kind::Group { .. }, Kind::Single { .. }) => {
                return invalid("Can not replace a nexthop group with a nexthop.");
            }
            (
                Kind::Group {
                    members: old,
                    resilient: was,
                    ..
                },
                Kind::Group {
                    members,
                    fdb,
                    resilient,
                    ..
                },
            ) => {
                let (old, mut buckets) = (old.clone(), was.clone());
                if buckets.is_some() != resilient.is_some() {
                    return invalid(
                        "Can not replace a nexthop group with one of a different type.",
                    );
                }
                if let (Some(buckets), Some(given)) = (&mut buckets, config.resilient) {
                    if given
                        .buckets
                        .is_some_and(|count| count != buckets.buckets())
                    {
                        return invalid(
                            "Can not change number of buckets of a resilient nexthop group.",
                        );
                    }
                    buckets.idle_timer = given.idle_timer.unwrap_or(buckets.idle_timer);
                    let timer = given.unbalanced_timer;
                    buckets.unbalanced_timer = timer.unwrap_or(buckets.unbalanced_timer);
                }
                let domain = &self.nexthops.domain;
                let state =
                    table.group_state(domain, config.protocol, members.clone(), fdb, buckets);
                for member in &old {
                    if let Some(entry) = table.objects.get_mut(&member.id) {
                        entry.groups.retain(|&group| group != id);
                    }
                }
                table.enlist(id, &members);
                match self.regroup(table, id, &old, state) {
                    Some(state) => state,
                    None => return Err(Error::new(errno::ENOENT)),
                }
            }
        };
        changes.push(Change::Object {
            new: true,
            id,
            state: announced,
        });
        if compat {
            self.routes_changed(&object, guard, changes);
            for group in &groups {
                if let Some(group) = table.objects.get(group) {
                    self.routes_changed(&group.object, guard, changes);
                }
            }
        }
        Ok(())
    }

    /// Publishes a new state of a group, whose buckets still count in the members `old`.
    fn regroup(
        &self,
        table: &mut Table<D>,
        id: u32,
        old: &[Member],
        mut state: State<D>,
    ) -> Option<Arc<State<D>>> {
        if let Kind::Group {
            members,
            resilient: Some(buckets),
            ..
        } = &mut state.kind
        {
            let place = |at: usize| {
                let member = old.get(at)?;
                members.iter().position(|other| other.id == member.id)
            };
            buckets.rebalance(&weights(members), place);
        }
        let due = state.kind.upkeep(&mut Vec::new());
        let entry = table.objects.get_mut(&id)?;
        entry.due = due;
        Some(entry.publish(state))
    }

    /// Makes a new state of a group: a member has changed, or `without` leaves.
    fn renew(&self, table: &mut Table<D>, id: u32, without: Option<u32>) -> Option<Arc<State<D>>> {
        let state = table.objects.get(&id)?.state.clone();
        let Kind::Group {
            members: old,
            fdb,
            resilient,
            ..
        } = &state.kind
        else {
            return None;
        };
        let stays = |member: &&Member| Some(member.id) != without;
        let members: Vec<Member> = old.iter().filter(stays).copied().collect();
        let (domain, protocol) = (&self.nexthops.domain, state.protocol);
        if without.is_some() {
            table.enlist(id, &members);
            let state = table.group_state(domain, protocol, members, *fdb, resilient.clone());
            return self.regroup(table, id, old, state);
        }
        let state = table.group_state(domain, protocol, members, *fdb, resilient.clone());
        Some(table.objects.get_mut(&id)?.publish(state))
    }

    /// Adds the routes of an object, as changed.
    fn routes_changed(&self, object: &Arc<Object<D>>, guard: &Guard, changes: &mut Vec<Change<D>>) {
        let v4 = self.v4.routes_by(object, guard).into_iter().map(|route| {
            let (new, flags) = (true, nlm::F_REPLACE);
            Change::V4(Event { new, flags, route })
        });
        changes.extend(v4);
        let v6 = self.v6.routes_by(object, guard).into_iter().map(|route| {
            let (new, flags) = (true, 0);
            Change::V6(Event { new, flags, route })
        });
        changes.extend(v6);
    }

    /// Deletes an object, its routes, and the groups that are left without members.
    ///
    /// # Errors
    /// ENOENT if there is no such object.
    pub fn delete_nexthop(
        &self,
        id: u32,
        compat: bool,
        changes: &mut Vec<Change<D>>,
    ) -> Result<(), Error> {
        let mut table = self.nexthops.table();
        if !table.objects.contains_key(&id) {
            return Err(Error::new(errno::ENOENT));
        }
        self.remove(&mut table, id, true, compat, changes);
        Ok(())
    }

    /// Removes an object (`remove_nexthop`). With `tell`, the object's end and changes of groups are
    /// announced.
    fn remove(
        &self,
        table: &mut Table<D>,
        id: u32,
        tell: bool,
        compat: bool,
        changes: &mut Vec<Change<D>>,
    ) {
        let Some(entry) = table.objects.remove(&id) else {
            return;
        };
        self.nexthops.generation.fetch_add(1, Relaxed);
        let entries = entry.object.end();
        if !entries.is_empty() {
            changes.push(Change::Entries(entries));
        }
        if tell {
            changes.push(Change::Object {
                new: false,
                id,
                state: entry.state.clone(),
            });
        }
        self.v4.remove_by(&entry.object);
        let mut events = Vec::new();
        self.v6.remove_by(&entry.object, &mut events);
        if compat {
            changes.extend(events.into_iter().map(Change::V6));
        }
        if let Kind::Group { members, .. } = &entry.state.kind {
            for member in members {
                if let Some(member) = table.objects.get_mut(&member.id) {
                    member.groups.retain(|&group| group != id);
                }
            }
            return;
        }
        for group in entry.groups {
            let last = match table.objects.get(&group).map(|entry| &entry.state.kind) {
                Some(Kind::Group { members, .. }) => members.len() == 1,
                _ => continue,
            };
            if last {
                self.remove(table, group, tell, compat, changes);
            } else if let Some(state) = self.renew(table, group, Some(id))
                && tell
            {
                let (new, id) = (true, group);
                changes.push(Change::Object { new, id, state });
            }
        }
    }

    /// Removes the objects through a device that went down or lost its carrier, or, if it leaves (`gone`), also
    /// its blackholes (`nexthop_flush_dev`).
    pub fn nexthops_lost(
        &self,
        ifindex: u32,
        gone: bool,
        compat: bool,
        changes: &mut Vec<Change<D>>,
    ) {
        let mut table = self.nexthops.table();
        let by = |state: &State<D>| {
            !state.is_group()
                && !state.is_fdb()
                && (gone || !state.is_blackhole())
                && state.hops.first().is_some_and(|hop| hop.oif == ifindex)
        };
        let ids = table.objects.iter().rev();
        let ids: Vec<u32> = ids
            .filter(|(_, entry)| by(&entry.state))
            .map(|(&id, _)| id)
            .collect();
        for id in ids {
            self.remove(&mut table, id, false, compat, changes);
        }
    }

    /// Removes all objects, at the end of the namespace.
    pub fn clear_nexthops(&self) {
        let mut table = self.nexthops.table();
        for entry in std::mem::take(&mut table.objects).into_values() {
            entry.object.end();
        }
    }
}

impl<K: Address, D: RouteDevice> Family<K, D> {
    /// Returns the routes by an object, in the order of dumps.
    fn routes_by(&self, object: &Arc<Object<D>>, guard: &Guard) -> Vec<Route<K, D>> {
        let mut found = false;
        self.each_info_by(object, |_| found = true);
        let mut routes = Vec::new();
        for table in self.tables(guard).filter(|_| found) {
            let _ = table.dump(None, guard, |dst, len, leaf| {
                let by = leaf.iter().filter(|alias| alias.info.is_by(object));
                routes.extend(by.map(|alias| table.route(dst, len, alias)));
                std::ops::ControlFlow::<()>::Continue(())
            });
        }
        routes
    }
}
