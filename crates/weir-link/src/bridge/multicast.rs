// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Snooping of multicast groups (`br_multicast.c`): which ports have members of a group (the mdb) and which lead to
//! multicast routers, learned from IGMP and MLD or set by `bridge mdb`.
//!
//! [`Shared`] is what the data path reads without a lock. [`Snoop`] has the members, routers and queriers with their
//! timers, under the lock of the bridge; [`Step`] is one event under it. Times are ns of the stack's clock.
//!
//! | file | contents |
//! |---|---|
//! | `multicast/message` | IGMP and MLD in frames |
//! | `multicast/records` | reports with sources, and the queries that follow |
//! | `multicast/sources` | sources of members and their entries |
//! | `multicast/hosts` | hosts behind ports that leave fast |
//! | `multicast/context` | timers, times and routers: of the bridge, or of one VLAN with `mcast_vlan_snooping` |
//! | `multicast/shared` | what the data path reads |
//! | `multicast/vlan` | contexts of VLANs |
//! | `multicast/options` | `bridge vlan global` |
//! | `multicast/run` | lock, timers, notifications, queries, settings |
//! | `multicast/wire` | `bridge mdb` |
//!
//! Reports of all versions are heard. With `mcast_igmp_version 2` and `mcast_mld_version 1`, the default, sources are not
//! told apart. Not implemented: the bridge's own queries do not reach its own host.

mod context;
mod hosts;
pub mod message;
mod options;
mod records;
mod run;
mod shared;
mod sources;
mod vlan;
mod wire;

pub use context::Options;
pub use hosts::HOSTS;
pub use run::check;
pub use shared::{Audience, Counts, Shared};
pub use wire::{change, check_dump, messages};

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use weir_netlink::{Error, errno, rtm};
use weir_sync::rcu::Guard;

use self::context::{Common, Context, Own, Snooped};
use self::hosts::Mode;
use self::message::{Heard, Query};
use self::records::Ask;
use self::shared::Reach;
use self::sources::{Details, Id};
use super::port::Port;
use crate::clock::{SECOND, TimerId};
use crate::device::Mac;

/// The address of a group or of a sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Group {
    /// An IPv4 address.
    V4([u8; 4]),
    /// An IPv6 address.
    V6([u8; 16]),
    /// An Ethernet address.
    Mac(Mac),
}

impl Group {
    fn family(self) -> Option<Family> {
        match self {
            Self::V4(_) => Some(Family::V4),
            Self::V6(_) => Some(Family::V6),
            Self::Mac(_) => None,
        }
    }

    /// Returns whether hosts need no report to get the group's frames.
    fn is_unreported(self) -> bool {
        match self {
            Self::V4([224, 0, 0, _]) => true,
            Self::V6(address) => address == weir_packet::header::ndisc::ALL_NODES,
            _ => false,
        }
    }
}

/// The protocol of reports and queries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// IGMP
    V4 = 0,
    /// MLD
    V6 = 1,
}

const FAMILIES: [Family; 2] = [Family::V4, Family::V6];

/// The key of an entry (`struct br_ip`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// The VLAN id, or 0.
    pub vid: u16,
    /// The group.
    pub group: Group,
    /// The sender, in entries for one sender.
    pub source: Option<Group>,
}

/// A member of a group, as the data path sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target {
    /// The number of the port.
    pub port: u16,
    /// The address of the host, or that of everyone.
    pub host: Mac,
    /// Frames of sources of which the table says nothing are not for it: it includes sources.
    pub includes: bool,
    /// The frames of the source are not for it.
    pub blocked: bool,
}

/// Who gets the frames of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listeners {
    /// The members.
    pub members: Vec<Target>,
    /// The bridge's own host.
    pub host: bool,
}

/// `MDB_RTR_TYPE_*`
pub mod router {
    #![allow(missing_docs)] // The names are Linux's.
    pub const DISABLED: u8 = 0;
    pub const QUERY: u8 = 1;
    pub const PERMANENT: u8 = 2;
    pub const TEMPORARY: u8 = 3;
}

/// A member of a group (`struct net_bridge_port_group`).
#[derive(Debug, Clone)]
struct Member {
    /// Its place in the order in which memberships began.
    made: u64,
    port: u16,
    /// The host that reported the group, or [`BROADCAST`] for a member by hand (`eth_addr`).
    host: Mac,
    ifindex: u32,
    permanent: bool,
    fast_leave: bool,
    by_user: bool,
    timer: Option<u64>,
    mode: Mode,
    /// In the entry of a source: its frames are blocked.
    blocked: bool,
    /// In the entry of a source: it is there since it excludes others (`MDB_PG_FLAGS_STAR_EXCL`).
    by_group: bool,
    details: Option<Box<Details>>,
}

impl Member {
    /// Returns a member that a host has reported.
    fn new(port: &Port, host: Mac) -> Self {
        Self {
            made: 0,
            port: port.number,
            host,
            ifindex: port.device.ifindex(),
            permanent: false,
            fast_leave: false,
            by_user: false,
            timer: None,
            mode: Mode::Exclude,
            blocked: false,
            by_group: false,
            details: None,
        }
    }

    /// Returns whether this is a port's membership, or, if each host of the port gets copies of its own, that of a
    /// host (`br_port_group_equal`).
    fn is(&self, port: &Port, host: Mac) -> bool {
        let alone = port.has(weir_netlink::ifla::brport::MCAST_TO_UCAST);
        self.port == port.number && (!alone || self.host == host)
    }
}

/// An entry of the mdb (`struct net_bridge_mdb_entry`).
#[derive(Debug, Default)]
struct Entry {
    made: u64,
    host: bool,
    host_timer: Option<u64>,
    /// The port of the highest number first; of those of one port, the oldest.
    members: Vec<Member>,
}

/// The state under the lock.
pub struct Snoop {
    options: Common,
    /// That of the bridge, and those of VLANs by id, if any of them has ever been asked for.
    contexts: Vec<Context>,
    /// There are contexts of VLANs.
    keeps_vlans: bool,
    entries: BTreeMap<Key, Entry>,
    /// The entries ever made.
    made: u64,
    armed: Option<TimerId>,
}

impl Snoop {
    /// Returns the state of a new bridge.
    pub fn new(shared: &Shared) -> Self {
        Self {
            options: Common::default(),
            contexts: vec![Context::new(0, shared.whole.clone())],
            keeps_vlans: false,
            entries: BTreeMap::new(),
            made: 0,
            armed: None,
        }
    }

    /// Returns the place of a VLAN's context, or that where it would be.
    fn find(&self, vid: u16) -> Result<usize, usize> {
        self.contexts.binary_search_by_key(&vid, |one| one.vid)
    }

    /// Returns whether the sources of an entry's members are shown.
    fn shows_sources(&self, key: &Key) -> bool {
        let options = &self.contexts[0].options;
        let family = key.group.family();
        family.is_some_and(|family| options.has_sources(family))
    }

    /// Returns the context of a VLAN.
    fn of(&self, vid: u16) -> Option<&Context> {
        self.contexts.get(self.find(vid).ok()?)
    }
}

/// What follows from a step.
enum Effect {
    /// The listeners of `RTNLGRP_MDB` hear of it.
    Tell(u16, Vec<u8>),
    /// A query leaves.
    Ask(Ask),
}

/// One event; see the module documentation.
pub struct Step<'a> {
    snoop: &'a mut Snoop,
    /// The place of the context that the event is about.
    at: usize,
    /// The VLAN that the event is about, if no timer of others can come earlier by it.
    only: Option<u16>,
    shared: &'a Shared,
    guard: &'a Guard,
    now: u64,
    /// The bridge is up.
    up: bool,
    /// The index of the bridge.
    ifindex: u32,
    out: Vec<Effect>,
}

impl Step<'_> {
    fn is_on(&self) -> bool {
        self.shared.on.load(Relaxed)
    }

    /// Returns the context that the event is about.
    fn context(&self) -> &Context {
        &self.snoop.contexts[self.at]
    }

    fn context_mut(&mut self) -> &mut Context {
        &mut self.snoop.contexts[self.at]
    }

    /// Returns what the data path reads of the context.
    fn reach(&self) -> &Reach {
        &self.context().reach
    }

    fn place(&self, number: u16) -> Option<usize> {
        self.context().place(number)
    }

    fn port(&self, number: u16) -> Option<Arc<Port>> {
        Some(self.snoop.contexts[0].port(number)?.port.clone())
    }

    /// Returns whether messages of a port, or of the bridge itself, count (`br_multicast_ctx_should_use`).
    fn counts(&self, port: Option<&Port>) -> bool {
        let context = self.context();
        self.up
            && match port {
                None => context.vid == 0 || context.on,
                Some(port) => context
                    .place(port.number)
                    .and_then(|at| context.ports.get(at))
                    .is_some_and(|one| !context.is_disabled(one, self.guard)),
            }
    }

    /// Publishes who listens to a group, or removes the entry if nobody does.
    fn publish(&mut self, key: &Key) {
        let Some(entry) = self.snoop.entries.get(key) else {
            return;
        };
        if entry.members.is_empty() && !entry.host {
            self.snoop.entries.remove(key);
            self.shared.table.remove(key, self.guard);
            return;
        }
        let listeners = Listeners {
            members: entry
                .members
                .iter()
                .map(|member| Target {
                    port: member.port,
                    host: member.host,
                    includes: member.mode == Mode::Include,
                    blocked: member.blocked,
                })
                .collect(),
            host: entry.host,
        };
        self.shared.table.insert(*key, listeners, self.guard);
    }

    fn tell(&mut self, key: &Key, member: Option<&Member>, timer: Option<u64>, ty: u16) {
        let sources = self.snoop.shows_sources(key);
        let body = wire::entry_body(self.ifindex, key, member, (timer, sources), self.now);
        self.out.push(Effect::Tell(ty, body));
    }

    /// Returns the entry of a group, which is made if there is none (`br_multicast_new_group`).
    fn entry(&mut self, key: &Key) -> Result<&mut Entry, Error> {
        let full = self.snoop.entries.len() >= self.snoop.options.most as usize;
        if full && !self.snoop.entries.contains_key(key) {
            self.shared.on.store(false, Relaxed);
            return Err(Error::new(errno::E2BIG));
        }
        self.snoop.made += 1;
        let made = self.snoop.made;
        Ok(self.snoop.entries.entry(*key).or_insert_with(|| Entry {
            made,
            ..Entry::default()
        }))
    }

    /// Makes the bridge's own host a member (`br_multicast_host_join`).
    fn host_join(&mut self, key: &Key) -> Result<(), Error> {
        let until = self.now + self.context().options.membership();
        let entry = self.entry(key)?;
        let is_new = !std::mem::replace(&mut entry.host, true);
        if !matches!(key.group, Group::Mac(_)) {
            entry.host_timer = Some(until);
        }
        self.publish(key);
        if is_new {
            self.follow_host(key);
            let timer = self
                .snoop
                .entries
                .get(key)
                .and_then(|entry| entry.host_timer);
            self.tell(key, None, timer, rtm::NEWMDB);
        }
        Ok(())
    }

    /// Ends the membership of the bridge's own host (`br_multicast_host_leave`).
    fn host_leave(&mut self, key: &Key) {
        if let Some(entry) = self.snoop.entries.get_mut(key)
            && entry.host
        {
            entry.host = false;
            entry.host_timer = None;
            self.follow_host(key);
            self.tell(key, None, None, rtm::DELMDB);
        }
        self.publish(key);
    }

    /// Makes a port a member. `shown` is the time of its timer that listeners hear of. Returns the number of the member.
    fn insert(&mut self, key: &Key, mut member: Member, shown: Option<u64>) -> Result<u64, Error> {
        self.snoop.made += 1;
        member.made = self.snoop.made;
        let entry = self.entry(key)?;
        let at = entry
            .members
            .partition_point(|other| other.port >= member.port);
        entry.members.insert(at, member.clone());
        self.publish(key);
        self.tell(key, Some(&member), shown, rtm::NEWMDB);
        Ok(member.made)
    }

    /// Ends the membership of a port, for a host or as the oldest one of the port (`br_multicast_del_pg`).
    fn remove(&mut self, key: &Key, number: u16, host: Option<Mac>, fast: bool) -> bool {
        let entry = self.snoop.entries.get(key);
        let mut members = entry.into_iter().flat_map(|entry| &entry.members);
        let found =
            members.find(|one| one.port == number && host.is_none_or(|host| one.host == host));
        match found.map(|member| (*key, member.made)) {
            Some(id) => self.end(&id, fast),
            None => false,
        }
    }

    /// Hears that a host behind a port, or the bridge's own, is a member (`__br_multicast_add_group`).
    fn join(&mut self, port: Option<&Port>, host: Mac, key: &Key) -> Result<(), Error> {
        if key.group.is_unreported() || !self.counts(port) {
            return Ok(());
        }
        let Some(port) = port else {
            return self.host_join(key);
        };
        let until = self.now + self.context().options.membership();
        let members = self.snoop.entries.get_mut(key);
        let mut members = members.into_iter().flat_map(|entry| &mut entry.members);
        match members.find(|member| member.is(port, host)) {
            Some(member) => member.timer = Some(until),
            None => {
                let member = Member {
                    timer: Some(until),
                    ..Member::new(port, host)
                };
                // Linux starts the timer of a learned member after its notification.
                self.insert(key, member, None)?;
            }
        }
        Ok(())
    }

    /// Hears that a host is no member any more (`br_multicast_leave_group`).
    fn leave(&mut self, port: Option<&Port>, host: Mac, key: &Key) {
        if key.group.is_unreported() || !self.counts(port) {
            return;
        }
        let Some(entry) = self.snoop.entries.get(key) else {
            return;
        };
        if let Some(port) = port.filter(|port| port.has(weir_netlink::ifla::brport::FAST_LEAVE)) {
            let mut members = entry.members.iter();
            if let Some(member) = members.find(|member| member.is(port, host))
                && !member.permanent
            {
                let host = member.host;
                self.remove(key, port.number, Some(host), true);
            }
            return;
        }
        let Some(family) = key.group.family() else {
            return;
        };
        if self.reach().others[family as usize].load(Relaxed) > self.now {
            return;
        }
        let until = self.now + self.context().options.last_members();
        let asks = self.reach().querier.load(Relaxed);
        if asks {
            let delay = self.context().options.last_member();
            let at = port.and_then(|port| self.place(port.number));
            let context = &mut self.snoop.contexts[self.at];
            match at.and_then(|at| context.ports.get_mut(at)) {
                Some(one) => {
                    one.own[family as usize].timer = Some(until);
                    let port = one.port.clone();
                    self.ask_for(port, family, Some(key.group), delay);
                }
                None => context.own[family as usize].timer = Some(until),
            }
        }
        let Some(entry) = self.snoop.entries.get_mut(key) else {
            return;
        };
        match port {
            None if entry.host => sooner(&mut entry.host_timer, until),
            None => {}
            Some(port) => {
                let members = &mut entry.members;
                let of_host = members.iter().position(|one| asks && one.is(port, host));
                let oldest = members.iter().position(|one| one.port == port.number);
                for at in of_host.into_iter().chain(oldest) {
                    if let Some(member) = members.get_mut(at) {
                        sooner(&mut member.timer, until);
                    }
                }
            }
        }
    }

    /// Notes that a router is behind a port or at the bridge itself (`br_multicast_mark_router`).
    fn mark_router(&mut self, port: Option<&Port>, family: Family) {
        if !self.counts(port) {
            return;
        }
        let until = self.now + self.context().options.querier();
        let Some(port) = port else {
            if self.reach().router.load(Relaxed) == router::QUERY {
                self.reach().local_routers[family as usize].store(until, Relaxed);
            }
            return;
        };
        let Some(at) = self.place(port.number) else {
            return;
        };
        if let Some(one) = self.context_mut().ports.get_mut(at)
            && !matches!(one.router, router::DISABLED | router::PERMANENT)
        {
            one.timers[family as usize] = Some(until);
            self.add_router(at, family);
        }
    }

    /// Lists a port as one that leads to a router (`br_multicast_add_router`).
    fn add_router(&mut self, at: usize, family: Family) {
        let Some(one) = self.context_mut().ports.get_mut(at) else {
            return;
        };
        let was = one.listed;
        one.listed[family as usize] = true;
        if was[family as usize] {
            return;
        }
        let index = one.port.device.ifindex();
        self.publish_routers(family);
        if was == [false; 2] {
            let body = wire::router_body(self.ifindex, index, self.context().vid);
            self.out.push(Effect::Tell(rtm::NEWMDB, body));
        }
    }

    /// Takes a port out of the lists of routers (`br_multicast_rport_del_notify`).
    fn end_router(&mut self, at: usize, families: &[Family]) {
        let context = &mut self.snoop.contexts[self.at];
        let Some(one) = context.ports.get_mut(at) else {
            return;
        };
        let was = one.listed;
        for family in families {
            one.listed[*family as usize] = false;
        }
        if was == one.listed {
            return;
        }
        if one.listed == [false; 2] {
            if one.router == router::TEMPORARY {
                one.router = router::QUERY;
            }
            let index = one.port.device.ifindex();
            let body = wire::router_body(self.ifindex, index, context.vid);
            self.out.push(Effect::Tell(rtm::DELMDB, body));
        }
        for family in families {
            self.publish_routers(*family);
        }
    }

    fn publish_routers(&self, family: Family) {
        let listed = self.context().ports.iter();
        let listed = listed.filter(|port| port.listed[family as usize]);
        let numbers = listed.map(|port| port.port.number).collect();
        self.reach().routers[family as usize].replace(numbers);
    }

    /// Hears a query (`br_ip4_multicast_query`, `br_ip6_multicast_query`).
    fn query(&mut self, port: Option<&Port>, vid: u16, query: &Query) {
        let Some(family) = query.source.family() else {
            return;
        };
        if query.ignored || !self.counts(port) {
            return;
        }
        let Some(group) = query.group else {
            return self.general_query(port, family, query);
        };
        let key = Key {
            vid,
            group,
            source: None,
        };
        let has_sources = self.context().options.has_sources(family);
        if has_sources && query.suppressed {
            return;
        }
        let count = u64::from(self.context().options.last_count);
        let until = self.now + query.delay.saturating_mul(count);
        if let Some(entry) = self.snoop.entries.get_mut(&key) {
            if entry.host {
                sooner(&mut entry.host_timer, until);
            }
            for member in &mut entry.members {
                if member.timer.is_some() || !has_sources || member.mode == Mode::Exclude {
                    sooner(&mut member.timer, until);
                }
            }
        }
    }

    fn general_query(&mut self, port: Option<&Port>, family: Family, query: &Query) {
        let at = family as usize;
        let number = port.map_or(0, |port| port.number);
        let other = self.reach().others[at].load(Relaxed) > self.now;
        // `br_multicast_select_querier`
        let known = self.context().queriers[at].map(|(address, _)| address);
        let none = [Group::V4([0; 4]), Group::V6([0; 16])][at];
        let known = known.unwrap_or(none);
        let lower = query.source <= known || family == Family::V4 && known == none;
        let silent = self.context().own[at].timer.is_none() && !other;
        if !lower && !silent {
            return;
        }
        self.context_mut().queriers[at] = Some((query.source, number));
        if !other {
            self.reach().delays[at].store(self.now + query.delay, Relaxed);
        }
        let until = self.now + self.context().options.querier();
        self.reach().others[at].store(until, Relaxed);
        self.mark_router(port, family);
    }

    /// Takes a frame to a group (`br_multicast_rcv`).
    ///
    /// # Errors
    /// E2BIG if the table is full, after which the bridge does not snoop.
    pub fn take(
        &mut self,
        port: Option<&Port>,
        vid: u16,
        heard: &Heard,
        (family, host): (Family, Mac),
    ) -> Result<(), Error> {
        let key = |group| Key {
            vid,
            group,
            source: None,
        };
        match heard {
            Heard::Data(_) | Heard::Bad => {}
            Heard::Router(_) => self.mark_router(port, family),
            Heard::Join(group, _) => self.join(port, host, &key(*group))?,
            Heard::Leave(group, _) => self.leave(port, host, &key(*group)),
            Heard::Query(query, _) => self.query(port, vid, query),
            Heard::Records(records, from, _) => {
                let has_sources = self.context().options.has_sources(family);
                for record in records {
                    let key = key(record.group);
                    match port.filter(|_| has_sources) {
                        Some(port) => self.record(port, host, &key, (record, *from))?,
                        None if record.leaves() => self.leave(port, host, &key),
                        None => self.join(port, host, &key)?,
                    }
                }
            }
        }
        Ok(())
    }

    /// Asks by a port, or by the bridge itself (`br_multicast_send_query`).
    fn ask(&mut self, at: Option<usize>, family: Family) {
        let other = self.reach().others[family as usize].load(Relaxed) > self.now;
        let is_heard = self.is_current() && !self.is_off();
        if !self.is_on() || !self.up || !self.reach().querier.load(Relaxed) || other || !is_heard {
            return;
        }
        let context = &mut self.snoop.contexts[self.at];
        let options = &context.options;
        let (startup, response) = (options.startup_count, options.response());
        let [_, _, _, usual, _, quick] = options.intervals;
        let now = self.now;
        let next = move |own: &mut Own| {
            let wait = if own.sent < startup { quick } else { usual };
            own.timer = Some(now + wait);
        };
        match at {
            None if context.vid != 0 && !context.on => {}
            None => {
                context.asks[family as usize] = true;
                if context.queriers[family as usize].is_some_and(|(_, port)| port != 0) {
                    context.queriers[family as usize] = None;
                }
                next(&mut context.own[family as usize]);
            }
            Some(at) => {
                if let Some(one) = context.ports.get_mut(at) {
                    next(&mut one.own[family as usize]);
                    let port = one.port.clone();
                    self.ask_for(port, family, None, response);
                }
            }
        }
    }

    /// Begins to ask by all ports (`br_multicast_start_querier`).
    fn start_querier(&mut self, family: Family) {
        let begun = Own {
            timer: Some(self.now),
            sent: 0,
        };
        let is_on = self.is_on();
        let context = &mut self.snoop.contexts[self.at];
        context.own[family as usize] = match is_on {
            true => begun,
            false => Own::default(),
        };
        let stopped: Vec<bool> = context
            .ports
            .iter()
            .map(|one| context.is_stopped(one, self.guard))
            .collect();
        for (one, stopped) in context.ports.iter_mut().zip(stopped) {
            if !stopped {
                one.own[family as usize] = begun;
            }
        }
    }

    /// Adds a port (`br_multicast_add_port`).
    pub fn add_port(&mut self, port: &Arc<Port>) {
        self.context_mut().ports.insert(0, Snooped::new(port));
    }

    /// Removes a port with its memberships (`br_multicast_del_port`).
    pub fn remove_port(&mut self, number: u16) {
        self.forget(number, None, true);
        if let Some(at) = self.place(number) {
            self.end_router(at, &FAMILIES);
            self.context_mut().ports.remove(at);
        }
    }

    /// Ends the memberships of a port, in one VLAN or in all.
    fn forget(&mut self, number: u16, vid: Option<u16>, permanent: bool) {
        let mut found = Vec::new();
        for (key, entry) in &self.snoop.entries {
            if vid.is_some_and(|vid| vid != key.vid) {
                continue;
            }
            let members = entry.members.iter().filter(|member| member.port == number);
            let members = members.filter(|member| permanent || !member.permanent);
            found.extend(members.map(|member| (member.made, *key, member.host)));
        }
        // The newest first.
        found.sort_by_key(|(made, ..)| std::cmp::Reverse(*made));
        for (_, key, host) in found {
            self.remove(&key, number, Some(host), false);
        }
    }

    /// Ends what a context has of a port (`__br_multicast_disable_port_ctx`).
    fn disable_port(&mut self, number: u16) {
        let Some(at) = self.place(number) else { return };
        let vid = self.context().vid;
        self.forget(number, (vid != 0).then_some(vid), false);
        self.end_router(at, &FAMILIES);
        if let Some(one) = self.context_mut().ports.get_mut(at) {
            one.timers = [None; 2];
            one.own = one.own.map(|own| Own { timer: None, ..own });
        }
    }

    /// Begins what a context has of a port (`__br_multicast_enable_port_ctx`).
    fn enable_port(&mut self, number: u16) {
        let Some(at) = self.place(number) else { return };
        if !self.is_on() || !self.up {
            return;
        }
        let begun = Own {
            timer: Some(self.now),
            sent: 0,
        };
        if let Some(one) = self.context_mut().ports.get_mut(at) {
            one.own = [begun; 2];
            if one.router == router::PERMANENT {
                FAMILIES
                    .iter()
                    .for_each(|family| self.add_router(at, *family));
            }
        }
    }

    /// Begins to ask in a context (`__br_multicast_open`).
    fn open_context(&mut self) {
        let timer = self.is_on().then_some(self.now);
        self.context_mut().own = [Own { timer, sent: 0 }; 2];
    }

    /// Ends the timers of a context (`__br_multicast_stop`).
    fn stop_context(&mut self) {
        let context = self.context_mut();
        context.own = context.own.map(|own| Own { timer: None, ..own });
        for at in 0..2 {
            context.reach.others[at].store(0, Relaxed);
            context.reach.delays[at].store(0, Relaxed);
            context.reach.local_routers[at].store(0, Relaxed);
        }
    }

    /// Turns snooping on or off (`br_multicast_toggle`).
    pub fn turn(&mut self, on: bool) {
        if self.shared.on.swap(on, Relaxed) == on || !on || !self.up {
            return;
        }
        self.open();
        let ports = self.snoop.contexts[0].ports.iter();
        let ports: Vec<u16> = ports.map(|one| one.port.number).collect();
        for number in ports {
            self.enable_port(number);
        }
    }

    /// Makes the bridge a querier or not (`br_multicast_set_querier`).
    fn set_querier(&mut self, on: bool) {
        if self.reach().querier.swap(on, Relaxed) == on || !on {
            return;
        }
        let delay = self.now + self.context().options.response();
        for family in FAMILIES {
            let at = family as usize;
            if self.reach().others[at].load(Relaxed) <= self.now {
                self.reach().delays[at].store(delay, Relaxed);
            }
            self.start_querier(family);
        }
    }

    /// Sets `MULTICAST_ROUTER` of a port (`br_multicast_set_port_router`).
    pub fn set_port_router(&mut self, number: u16, to: u8) {
        let until = self.now + self.context().options.querier();
        let Some(at) = self.place(number) else { return };
        let Some(one) = self.context_mut().ports.get_mut(at) else {
            return;
        };
        let before = std::mem::replace(&mut one.router, to);
        match to {
            router::TEMPORARY if before == to => one.timers = [Some(until); 2],
            _ if before == to => {}
            router::DISABLED => {
                one.timers = [None; 2];
                self.end_router(at, &FAMILIES);
            }
            router::QUERY => self.end_router(at, &FAMILIES),
            router::PERMANENT => {
                one.timers = [None; 2];
                FAMILIES
                    .iter()
                    .for_each(|family| self.add_router(at, *family));
            }
            _ => {
                let port = one.port.clone();
                for family in FAMILIES {
                    self.mark_router(Some(&port), family);
                }
            }
        }
    }

    /// Returns the time of the next timer that may have changed.
    fn next(&self) -> Option<u64> {
        if let Some(vid) = self.only {
            return self.snoop.of(vid)?.timers().min();
        }
        let contexts = self.snoop.contexts.iter().flat_map(Context::timers);
        let entries = self.snoop.entries.values().flat_map(|entry| {
            let members = entry.members.iter().flat_map(Member::timers);
            members.chain(entry.host_timer)
        });
        contexts.chain(entries).min()
    }

    /// Runs the timers of a context that have expired.
    fn expire_context(&mut self) {
        let now = self.now;
        let due = move |timer: &mut Option<u64>| timer.take_if(|time| *time <= now).is_some();
        let startup = self.context().options.startup_count;
        for family in FAMILIES {
            let at = family as usize;
            let other = self.reach().others[at].load(Relaxed);
            if other != 0 && other <= now {
                self.reach().others[at].store(0, Relaxed);
                if self.up && !self.is_off() && self.is_on() {
                    self.start_querier(family);
                }
            }
            let own = &mut self.context_mut().own[at];
            if due(&mut own.timer) {
                own.sent = startup.min(own.sent + 1);
                self.ask(None, family);
            }
            for port in 0..self.context().ports.len() {
                let context = &mut self.snoop.contexts[self.at];
                let Some(one) = context.ports.get_mut(port) else {
                    continue;
                };
                let asks = due(&mut one.own[at].timer);
                let lost = due(&mut one.timers[at]);
                let router = one.router;
                let off = context.vid != 0 && !context.reach.snoops.load(Relaxed);
                let asks = asks
                    && !off
                    && context
                        .ports
                        .get(port)
                        .is_some_and(|one| !context.is_stopped(one, self.guard));
                if asks {
                    if let Some(one) = context.ports.get_mut(port) {
                        one.own[at].sent = startup.min(one.own[at].sent + 1);
                    }
                    self.ask(Some(port), family);
                }
                if lost && !matches!(router, router::DISABLED | router::PERMANENT) {
                    self.end_router(port, &[family]);
                }
            }
        }
    }

    /// Runs the timers that have expired.
    pub fn expire(&mut self) {
        let now = self.now;
        for at in 0..self.snoop.contexts.len() {
            self.at = at;
            self.expire_context();
        }
        self.at = 0;
        let is_due = |timer: Option<u64>| timer.is_some_and(|time| time <= now);
        let (mut hosts, mut members, mut details) = (Vec::new(), Vec::new(), Vec::new());
        for (key, entry) in &self.snoop.entries {
            if is_due(entry.host_timer) {
                hosts.push(*key);
            }
            for member in &entry.members {
                let id: Id = (*key, member.made);
                if !member.permanent && is_due(member.timer) {
                    members.push(id);
                }
                if member.details.is_some() && member.timers().any(|time| time <= now) {
                    details.push(id);
                }
            }
        }
        // The last query leaves before what it asks for ends.
        for id in &details {
            let about = self.member(id).and_then(|one| one.details.as_deref());
            if is_due(about.and_then(|about| about.again)) {
                self.at = 0;
                self.enter_for(id.0.vid);
                self.ask_due(id);
            }
        }
        self.at = 0;
        hosts.iter().for_each(|key| self.host_leave(key));
        for id in members {
            self.at = 0;
            self.enter_for(id.0.vid);
            self.member_expired(&id);
        }
        for id in details {
            self.at = 0;
            self.enter_for(id.0.vid);
            for address in self.sources(&id, |source| source.runs && source.expires <= now) {
                self.source_expired(&id, address);
            }
            self.expire_hosts(&id);
        }
        self.at = 0;
    }
}

/// Brings a timer forward, and starts it if it does not run.
fn sooner(timer: &mut Option<u64>, until: u64) {
    *timer = Some(timer.map_or(until, |time| time.min(until)));
}

/// The largest query interval in ns, and the smallest (`BR_MULTICAST_QUERY_INTVL_MAX`).
const QUERY_INTERVALS: (u64, u64) = (SECOND, 86_400 * SECOND);
