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
//! | `multicast/shared` | what the data path reads |
//! | `multicast/run` | lock, timers, notifications, queries, settings |
//! | `multicast/wire` | `bridge mdb` |
//!
//! Reports of all versions are heard as by Linux with its settings `mcast_igmp_version 2` and `mcast_mld_version 1`:
//! sources are not told apart. Not implemented: the versions 3 and 2 with entries per source, `mcast_vlan_snooping`,
//! `mcast_to_unicast`; the bridge's own queries do not reach its own host.

pub mod message;
mod run;
mod shared;
mod wire;

pub use run::check;
pub use shared::{Audience, Counts, Shared};
pub use wire::{change, check_dump, messages};

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use weir_netlink::{Error, errno, rtm};
use weir_sync::rcu::Guard;

use self::message::{Heard, Query};
use super::port::{Port, state};
use crate::clock::{MILLISECOND, SECOND, TimerId};
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
            Self::V6(address) => address == message::ALL_NODES,
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

/// Who gets the frames of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listeners {
    /// The numbers of the ports.
    pub ports: Vec<u16>,
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

/// The settings.
#[derive(Debug, Clone)]
pub struct Options {
    use_ifaddr: bool,
    elasticity: u32,
    most: u32,
    last_count: u32,
    startup_count: u32,
    /// Intervals in ns, in the order of their attributes: last member, membership, querier, query, response, startup.
    intervals: [u64; 6],
}

impl Default for Options {
    fn default() -> Self {
        Self {
            use_ifaddr: false,
            elasticity: 16,
            most: 4096,
            last_count: 2,
            startup_count: 2,
            intervals: [1000, 260_000, 255_000, 125_000, 10_000, 31_250].map(|ms| ms * MILLISECOND),
        }
    }
}

impl Options {
    fn last_member(&self) -> u64 {
        self.intervals[0]
    }

    fn membership(&self) -> u64 {
        self.intervals[1]
    }

    fn querier(&self) -> u64 {
        self.intervals[2]
    }

    fn response(&self) -> u64 {
        self.intervals[4]
    }

    /// Returns after how long a member is gone that does not answer the last queries.
    fn last_members(&self) -> u64 {
        u64::from(self.last_count).saturating_mul(self.last_member())
    }
}

/// The queries of the bridge by a port (`struct bridge_mcast_own_query`).
#[derive(Debug, Clone, Copy, Default)]
struct Own {
    timer: Option<u64>,
    sent: u32,
}

/// A port.
struct Snooped {
    port: Arc<Port>,
    /// `MULTICAST_ROUTER`
    router: u8,
    /// By family: the port leads to a router.
    listed: [bool; 2],
    timers: [Option<u64>; 2],
    own: [Own; 2],
}

/// A member of a group (`struct net_bridge_port_group`).
#[derive(Debug, Clone)]
struct Member {
    /// Its place in the order in which memberships began.
    made: u64,
    port: u16,
    ifindex: u32,
    permanent: bool,
    fast_leave: bool,
    by_user: bool,
    timer: Option<u64>,
}

/// An entry of the mdb (`struct net_bridge_mdb_entry`).
#[derive(Debug, Default)]
struct Entry {
    made: u64,
    host: bool,
    host_timer: Option<u64>,
    /// The port of the highest number first.
    members: Vec<Member>,
}

/// The state under the lock.
#[derive(Default)]
pub struct Snoop {
    options: Options,
    own: [Own; 2],
    /// By family, the address of the known querier and the port behind which it is, 0 for the bridge.
    queriers: [Option<(Group, u16)>; 2],
    ports: Vec<Snooped>,
    entries: BTreeMap<Key, Entry>,
    /// The entries ever made.
    made: u64,
    armed: Option<TimerId>,
}

/// What follows from a step.
enum Effect {
    /// The listeners of `RTNLGRP_MDB` hear of it.
    Tell(u16, Vec<u8>),
    /// A query leaves by a port: family, group or all, time in ns in which hosts answer.
    Ask(Arc<Port>, Family, Option<Group>, u64),
}

/// One event; see the module documentation.
pub struct Step<'a> {
    snoop: &'a mut Snoop,
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

    fn place(&self, number: u16) -> Option<usize> {
        let mut ports = self.snoop.ports.iter();
        ports.position(|port| port.port.number == number)
    }

    /// Returns whether messages of a port, or of the bridge itself, count (`br_multicast_ctx_should_use`).
    fn counts(&self, port: Option<&Port>) -> bool {
        self.up && port.is_none_or(|port| port.state.load(Relaxed) != state::DISABLED)
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
            ports: entry.members.iter().map(|member| member.port).collect(),
            host: entry.host,
        };
        self.shared.table.insert(*key, listeners, self.guard);
    }

    fn tell(&mut self, key: &Key, member: Option<&Member>, timer: Option<u64>, ty: u16) {
        let body = wire::entry_body(self.ifindex, key, member, timer, self.now);
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
        let until = self.now + self.snoop.options.membership();
        let entry = self.entry(key)?;
        let is_new = !std::mem::replace(&mut entry.host, true);
        if !matches!(key.group, Group::Mac(_)) {
            entry.host_timer = Some(until);
        }
        self.publish(key);
        if is_new {
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
            self.tell(key, None, None, rtm::DELMDB);
        }
        self.publish(key);
    }

    /// Makes a port a member.
    fn insert(
        &mut self,
        key: &Key,
        port: &Port,
        permanent: bool,
        by_user: bool,
    ) -> Result<(), Error> {
        self.snoop.made += 1;
        let member = Member {
            made: self.snoop.made,
            port: port.number,
            ifindex: port.device.ifindex(),
            permanent,
            fast_leave: false,
            by_user,
            timer: (!permanent).then_some(self.now + self.snoop.options.membership()),
        };
        let entry = self.entry(key)?;
        let at = entry
            .members
            .partition_point(|other| other.port > member.port);
        entry.members.insert(at, member.clone());
        self.publish(key);
        // Linux starts the timer of a learned member after its notification.
        let timer = member.timer.filter(|_| by_user);
        self.tell(key, Some(&member), timer, rtm::NEWMDB);
        Ok(())
    }

    /// Ends the membership of a port (`br_multicast_del_pg`).
    fn remove(&mut self, key: &Key, number: u16, fast: bool) -> bool {
        let Some(entry) = self.snoop.entries.get_mut(key) else {
            return false;
        };
        let Some(at) = entry
            .members
            .iter()
            .position(|member| member.port == number)
        else {
            return false;
        };
        let mut member = entry.members.remove(at);
        member.fast_leave |= fast;
        self.publish(key);
        let timer = member.timer;
        self.tell(key, Some(&member), timer, rtm::DELMDB);
        true
    }

    /// Hears that a host behind a port, or the bridge's own, is a member (`__br_multicast_add_group`).
    fn join(&mut self, port: Option<&Port>, key: &Key) -> Result<(), Error> {
        if key.group.is_unreported() || !self.counts(port) {
            return Ok(());
        }
        let Some(port) = port else {
            return self.host_join(key);
        };
        let until = self.now + self.snoop.options.membership();
        let members = self.snoop.entries.get_mut(key);
        let mut members = members.into_iter().flat_map(|entry| &mut entry.members);
        match members.find(|member| member.port == port.number) {
            Some(member) => member.timer = Some(until),
            None => self.insert(key, port, false, false)?,
        }
        Ok(())
    }

    /// Hears that a host is no member any more (`br_multicast_leave_group`).
    fn leave(&mut self, port: Option<&Port>, key: &Key) {
        if key.group.is_unreported() || !self.counts(port) {
            return;
        }
        let Some(entry) = self.snoop.entries.get(key) else {
            return;
        };
        if let Some(port) = port.filter(|port| port.has(weir_netlink::ifla::brport::FAST_LEAVE)) {
            let mut members = entry.members.iter();
            if members.any(|member| member.port == port.number && !member.permanent) {
                self.remove(key, port.number, true);
            }
            return;
        }
        let Some(family) = key.group.family() else {
            return;
        };
        if self.shared.others[family as usize].load(Relaxed) > self.now {
            return;
        }
        let until = self.now + self.snoop.options.last_members();
        if self.shared.querier.load(Relaxed) {
            let delay = self.snoop.options.last_member();
            match port.and_then(|port| self.place(port.number)) {
                Some(at) => {
                    if let Some(one) = self.snoop.ports.get_mut(at) {
                        one.own[family as usize].timer = Some(until);
                        let ask = Effect::Ask(one.port.clone(), family, Some(key.group), delay);
                        self.out.push(ask);
                    }
                }
                None => self.snoop.own[family as usize].timer = Some(until),
            }
        }
        let Some(entry) = self.snoop.entries.get_mut(key) else {
            return;
        };
        match port {
            None if entry.host => sooner(&mut entry.host_timer, until),
            None => {}
            Some(port) => {
                let mut members = entry.members.iter_mut();
                if let Some(member) = members.find(|member| member.port == port.number) {
                    sooner(&mut member.timer, until);
                }
            }
        }
    }

    /// Notes that a router is behind a port or at the bridge itself (`br_multicast_mark_router`).
    fn mark_router(&mut self, port: Option<&Port>, family: Family) {
        if !self.counts(port) {
            return;
        }
        let until = self.now + self.snoop.options.querier();
        let Some(port) = port else {
            if self.shared.router.load(Relaxed) == router::QUERY {
                self.shared.local_routers[family as usize].store(until, Relaxed);
            }
            return;
        };
        let Some(at) = self.place(port.number) else {
            return;
        };
        if let Some(one) = self.snoop.ports.get_mut(at)
            && !matches!(one.router, router::DISABLED | router::PERMANENT)
        {
            one.timers[family as usize] = Some(until);
            self.add_router(at, family);
        }
    }

    /// Lists a port as one that leads to a router (`br_multicast_add_router`).
    fn add_router(&mut self, at: usize, family: Family) {
        let Some(one) = self.snoop.ports.get_mut(at) else {
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
            let body = wire::router_body(self.ifindex, index);
            self.out.push(Effect::Tell(rtm::NEWMDB, body));
        }
    }

    /// Takes a port out of the lists of routers (`br_multicast_rport_del_notify`).
    fn end_router(&mut self, at: usize, families: &[Family]) {
        let Some(one) = self.snoop.ports.get_mut(at) else {
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
            let body = wire::router_body(self.ifindex, one.port.device.ifindex());
            self.out.push(Effect::Tell(rtm::DELMDB, body));
        }
        for family in families {
            self.publish_routers(*family);
        }
    }

    fn publish_routers(&self, family: Family) {
        let listed = self.snoop.ports.iter();
        let listed = listed.filter(|port| port.listed[family as usize]);
        let numbers = listed.map(|port| port.port.number).collect();
        self.shared.routers[family as usize].replace(numbers);
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
        let count = u64::from(self.snoop.options.last_count);
        let until = self.now + query.delay.saturating_mul(count);
        if let Some(entry) = self.snoop.entries.get_mut(&key) {
            if entry.host {
                sooner(&mut entry.host_timer, until);
            }
            for member in &mut entry.members {
                sooner(&mut member.timer, until);
            }
        }
    }

    fn general_query(&mut self, port: Option<&Port>, family: Family, query: &Query) {
        let at = family as usize;
        let number = port.map_or(0, |port| port.number);
        let other = self.shared.others[at].load(Relaxed) > self.now;
        // `br_multicast_select_querier`
        let known = self.snoop.queriers[at].map(|(address, _)| address);
        let none = [Group::V4([0; 4]), Group::V6([0; 16])][at];
        let known = known.unwrap_or(none);
        let lower = query.source <= known || family == Family::V4 && known == none;
        let silent = self.snoop.own[at].timer.is_none() && !other;
        if !lower && !silent {
            return;
        }
        self.snoop.queriers[at] = Some((query.source, number));
        if !other {
            self.shared.delays[at].store(self.now + query.delay, Relaxed);
        }
        let until = self.now + self.snoop.options.querier();
        self.shared.others[at].store(until, Relaxed);
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
        family: Family,
    ) -> Result<(), Error> {
        let key = |group| Key {
            vid,
            group,
            source: None,
        };
        match heard {
            Heard::Data(_) | Heard::Bad => {}
            Heard::Router(_) => self.mark_router(port, family),
            Heard::Join(group, _) => self.join(port, &key(*group))?,
            Heard::Leave(group, _) => self.leave(port, &key(*group)),
            Heard::Query(query, _) => self.query(port, vid, query),
            Heard::Records(records, _) => {
                for (group, leaves) in records {
                    match leaves {
                        true => self.leave(port, &key(*group)),
                        false => self.join(port, &key(*group))?,
                    }
                }
            }
        }
        Ok(())
    }

    /// Asks by a port, or by the bridge itself (`br_multicast_send_query`).
    fn ask(&mut self, at: Option<usize>, family: Family) {
        let other = self.shared.others[family as usize].load(Relaxed) > self.now;
        if !self.is_on() || !self.up || !self.shared.querier.load(Relaxed) || other {
            return;
        }
        let options = &self.snoop.options;
        let (startup, response) = (options.startup_count, options.response());
        let [_, _, _, usual, _, quick] = options.intervals;
        let now = self.now;
        let next = move |own: &mut Own| {
            let wait = if own.sent < startup { quick } else { usual };
            own.timer = Some(now + wait);
        };
        match at {
            None => {
                if self.snoop.queriers[family as usize].is_some_and(|(_, port)| port != 0) {
                    self.snoop.queriers[family as usize] = None;
                }
                next(&mut self.snoop.own[family as usize]);
            }
            Some(at) => {
                if let Some(one) = self.snoop.ports.get_mut(at) {
                    next(&mut one.own[family as usize]);
                    let ask = Effect::Ask(one.port.clone(), family, None, response);
                    self.out.push(ask);
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
        self.snoop.own[family as usize] = match self.is_on() {
            true => begun,
            false => Own::default(),
        };
        for one in &mut self.snoop.ports {
            let stopped = [state::DISABLED, state::BLOCKING];
            if !stopped.contains(&one.port.state.load(Relaxed)) {
                one.own[family as usize] = begun;
            }
        }
    }

    /// Adds a port (`br_multicast_add_port`).
    pub fn add_port(&mut self, port: &Arc<Port>) {
        self.snoop.ports.insert(
            0,
            Snooped {
                port: port.clone(),
                router: router::QUERY,
                listed: [false; 2],
                timers: [None; 2],
                own: [Own::default(); 2],
            },
        );
    }

    /// Removes a port with its memberships (`br_multicast_del_port`).
    pub fn remove_port(&mut self, number: u16) {
        self.forget(number, true);
        if let Some(at) = self.place(number) {
            self.end_router(at, &FAMILIES);
            self.snoop.ports.remove(at);
        }
    }

    fn forget(&mut self, number: u16, permanent: bool) {
        let mut found = Vec::new();
        for (key, entry) in &self.snoop.entries {
            let mut members = entry.members.iter();
            let member = members.find(|member| member.port == number);
            if let Some(member) = member.filter(|member| permanent || !member.permanent) {
                found.push((member.made, *key));
            }
        }
        // The newest first.
        found.sort_by_key(|(made, _)| std::cmp::Reverse(*made));
        for (_, key) in found {
            self.remove(&key, number, false);
        }
    }

    /// Follows a port that is enabled or disabled (`br_multicast_toggle_port`).
    pub fn toggle_port(&mut self, number: u16, on: bool) {
        let Some(at) = self.place(number) else { return };
        if !on {
            self.forget(number, false);
            self.end_router(at, &FAMILIES);
            if let Some(one) = self.snoop.ports.get_mut(at) {
                one.timers = [None; 2];
                one.own = one.own.map(|own| Own { timer: None, ..own });
            }
            return;
        }
        if !self.is_on() || !self.up {
            return;
        }
        let begun = Own {
            timer: Some(self.now),
            sent: 0,
        };
        if let Some(one) = self.snoop.ports.get_mut(at) {
            one.own = [begun; 2];
            if one.router == router::PERMANENT {
                FAMILIES
                    .iter()
                    .for_each(|family| self.add_router(at, *family));
            }
        }
    }

    /// Begins when the bridge goes up (`br_multicast_open`).
    pub fn open(&mut self) {
        let timer = self.is_on().then_some(self.now);
        self.snoop.own = [Own { timer, sent: 0 }; 2];
    }

    /// Ends when the bridge goes down (`br_multicast_stop`).
    pub fn stop(&mut self) {
        self.snoop.own = self.snoop.own.map(|own| Own { timer: None, ..own });
        for at in 0..2 {
            self.shared.others[at].store(0, Relaxed);
            self.shared.delays[at].store(0, Relaxed);
            self.shared.local_routers[at].store(0, Relaxed);
        }
    }

    /// Turns snooping on or off (`br_multicast_toggle`).
    pub fn turn(&mut self, on: bool) {
        if self.shared.on.swap(on, Relaxed) == on {
            return;
        }
        let ports = self.snoop.ports.iter().map(|one| one.port.number);
        let ports: Vec<u16> = ports.collect();
        if on && self.up {
            self.open();
        }
        for number in ports {
            self.toggle_port(number, on);
        }
    }

    /// Makes the bridge a querier or not (`br_multicast_set_querier`).
    fn set_querier(&mut self, on: bool) {
        if self.shared.querier.swap(on, Relaxed) == on || !on {
            return;
        }
        let delay = self.now + self.snoop.options.response();
        for family in FAMILIES {
            let at = family as usize;
            if self.shared.others[at].load(Relaxed) <= self.now {
                self.shared.delays[at].store(delay, Relaxed);
            }
            self.start_querier(family);
        }
    }

    /// Sets `MULTICAST_ROUTER` of a port (`br_multicast_set_port_router`).
    pub fn set_port_router(&mut self, number: u16, to: u8) {
        let until = self.now + self.snoop.options.querier();
        let Some(at) = self.place(number) else { return };
        let Some(one) = self.snoop.ports.get_mut(at) else {
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

    /// Returns the time of the next timer.
    fn next(&self) -> Option<u64> {
        let snoop = &*self.snoop;
        let own = snoop.own.iter().filter_map(|own| own.timer);
        let others = self.shared.others.iter().map(|other| other.load(Relaxed));
        let ports = snoop.ports.iter().flat_map(|one| {
            let own = one.own.iter().filter_map(|own| own.timer);
            own.chain(one.timers.into_iter().flatten())
        });
        let entries = snoop.entries.values().flat_map(|entry| {
            let members = entry.members.iter().filter(|member| !member.permanent);
            let members = members.filter_map(|member| member.timer);
            members.chain(entry.host_timer)
        });
        let all = own.chain(others.filter(|time| *time != 0)).chain(ports);
        all.chain(entries).min()
    }

    /// Runs the timers that have expired.
    pub fn expire(&mut self) {
        let now = self.now;
        let due = move |timer: &mut Option<u64>| timer.take_if(|time| *time <= now).is_some();
        let startup = self.snoop.options.startup_count;
        for family in FAMILIES {
            let at = family as usize;
            if matches!(self.shared.others[at].load(Relaxed), 1.. if self.shared.others[at].load(Relaxed) <= now)
            {
                self.shared.others[at].store(0, Relaxed);
                if self.up && self.is_on() {
                    self.start_querier(family);
                }
            }
            if due(&mut self.snoop.own[at].timer) {
                let own = &mut self.snoop.own[at];
                own.sent = startup.min(own.sent + 1);
                self.ask(None, family);
            }
            for port in 0..self.snoop.ports.len() {
                let Some(one) = self.snoop.ports.get_mut(port) else {
                    continue;
                };
                let asks = due(&mut one.own[at].timer);
                let lost = due(&mut one.timers[at]);
                let stopped = [state::DISABLED, state::BLOCKING];
                if asks && !stopped.contains(&one.port.state.load(Relaxed)) {
                    one.own[at].sent = startup.min(one.own[at].sent + 1);
                    self.ask(Some(port), family);
                }
                let router = self.snoop.ports.get(port).map(|one| one.router);
                if lost && !matches!(router, Some(router::DISABLED | router::PERMANENT)) {
                    self.end_router(port, &[family]);
                }
            }
        }
        let is_due = |timer: Option<u64>| timer.is_some_and(|time| time <= now);
        let mut ended = Vec::new();
        for (key, entry) in &self.snoop.entries {
            if is_due(entry.host_timer) {
                ended.push((*key, None));
            }
            let members = entry.members.iter();
            let gone = members.filter(|member| !member.permanent && is_due(member.timer));
            ended.extend(gone.map(|member| (*key, Some(member.port))));
        }
        for (key, port) in ended {
            match port {
                None => self.host_leave(&key),
                Some(number) => {
                    let entry = self.snoop.entries.get_mut(&key);
                    let mut members = entry.into_iter().flat_map(|entry| &mut entry.members);
                    if let Some(member) = members.find(|member| member.port == number) {
                        member.timer = None;
                    }
                    self.remove(&key, number, false);
                }
            }
        }
    }
}

/// Brings a timer forward, and starts it if it does not run.
fn sooner(timer: &mut Option<u64>, until: u64) {
    *timer = Some(timer.map_or(until, |time| time.min(until)));
}

/// The largest query interval in ns, and the smallest (`BR_MULTICAST_QUERY_INTVL_MAX`).
const QUERY_INTERVALS: (u64, u64) = (SECOND, 86_400 * SECOND);
