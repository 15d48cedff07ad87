// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Hosts behind ports that leave fast, each with the sources that it wants or does not want (`br_multicast_eht.c`): a
//! source is dropped with its last host, and a member without hosts ends at once.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;

use super::message::Kind;
use super::{Group, Key, Step};

/// The most sources of a member (`PG_SRC_ENT_LIMIT`).
pub(super) const MOST: usize = 32;

/// Which sources a member wants (`filter_mode`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// All but its sources (`MCAST_EXCLUDE`).
    Exclude = 0,
    /// Its sources (`MCAST_INCLUDE`).
    Include = 1,
}

/// The most hosts of a new port (`BR_MCAST_DEFAULT_EHT_HOSTS_LIMIT`).
pub const HOSTS: u32 = 512;

/// The hosts that have named a source, with the times until which that counts.
#[derive(Debug, Clone, Default)]
struct Set {
    until: u64,
    hosts: BTreeMap<Group, u64>,
}

/// A host of a member.
#[derive(Debug, Clone)]
struct Host {
    mode: Mode,
    /// The number of sets that it is in.
    sets: usize,
}

/// The hosts of a member. A host that excludes sources is in the set of `None` as well.
#[derive(Debug, Clone, Default)]
pub(super) struct Hosts {
    sets: BTreeMap<Option<Group>, Set>,
    hosts: BTreeMap<Group, Host>,
}

impl Hosts {
    /// Returns when the next of the timers expires.
    pub fn next(&self) -> Option<u64> {
        let sets = self.sets.values();
        sets.flat_map(|set| set.hosts.values().copied().chain([set.until]))
            .min()
    }

    fn len(&self) -> i64 {
        self.hosts.len() as i64
    }

    /// Forgets all. Returns by how many there are more hosts.
    pub fn clear(&mut self) -> i64 {
        let gone = self.len();
        self.sets.clear();
        self.hosts.clear();
        -gone
    }

    fn mode(&self, host: Group) -> Mode {
        self.hosts
            .get(&host)
            .map_or(Mode::Include, |host| host.mode)
    }

    /// Enters a host in a set, unless there are too many (`br_multicast_create_eht_set_entry`).
    fn enter(&mut self, source: Option<Group>, host: Group, mode: Mode, (room, until): (i64, u64)) {
        let own = self.hosts.get(&host).map(|host| host.sets);
        let is_in = |set: &Set| set.hosts.contains_key(&host);
        let known = self.sets.get(&source).is_some_and(is_in);
        let counted = own.unwrap_or(0) - usize::from(self.sets.get(&None).is_some_and(is_in));
        let full = own.is_none() && self.len() >= room;
        if !known && (full || source.is_some() && counted >= MOST) {
            return;
        }
        let set = self.sets.entry(source).or_default();
        set.until = until;
        if set.hosts.insert(host, until).is_none() {
            let one = self.hosts.entry(host).or_insert(Host { mode, sets: 0 });
            one.sets += 1;
        }
    }

    /// Takes a host out of a set. Returns whether it was the last.
    fn leave(&mut self, source: Option<Group>, host: Group) -> bool {
        let Some(set) = self.sets.get_mut(&source) else {
            return false;
        };
        if set.hosts.remove(&host).is_none() {
            return false;
        }
        let is_last = set.hosts.is_empty();
        if is_last {
            self.sets.remove(&source);
        }
        if let Some(one) = self.hosts.get_mut(&host) {
            one.sets -= 1;
            if one.sets == 0 {
                self.hosts.remove(&host);
            }
        }
        is_last
    }

    /// Takes a host out of all sets (`br_multicast_del_eht_host`).
    fn forget(&mut self, host: Group) {
        for source in self.sets.keys().copied().collect::<Vec<_>>() {
            self.leave(source, host);
        }
    }

    /// Forgets what has expired.
    fn expire(&mut self, now: u64) {
        let mut gone = Vec::new();
        for (source, set) in &self.sets {
            let hosts = set.hosts.iter();
            let late = hosts.filter(|(_, until)| set.until <= now || **until <= now);
            gone.extend(late.map(|(host, _)| (*source, *host)));
        }
        for (source, host) in gone {
            self.leave(source, host);
        }
    }
}

impl Step<'_> {
    /// Hears what a host behind a port that leaves fast has reported (`br_multicast_eht_handle`). Returns whether sources
    /// have gone.
    pub(super) fn track(&mut self, id: &(Key, u64), about: (Kind, &[Group], Group)) -> bool {
        let Some(member) = self.member(id) else {
            return false;
        };
        if !self.leaves_fast(member.port) {
            return false;
        }
        let number = member.port;
        let until = self.now + self.context().options.membership();
        let soon = self.now + self.context().options.last_members();
        let own = member.details.as_deref().map_or(0, |one| one.hosts.len());
        let most = self
            .port(number)
            .map_or(HOSTS, |port| port.most_hosts.load(Relaxed));
        let room = i64::from(most) - self.hosts_of(number) + own;
        let Some(member) = self.member_mut(id) else {
            return false;
        };
        let details = member.details();
        let hosts = &mut details.hosts;
        let (kind, sources, host) = about;
        let mut gone = Vec::new();
        let was = hosts.mode(host);
        match (kind, was) {
            (Kind::Allow, Mode::Include) | (Kind::Block, Mode::Exclude) => {
                for source in sources {
                    hosts.enter(Some(*source), host, was, (room, until));
                }
            }
            (Kind::Allow | Kind::Block, _) => {
                let left = sources.iter().copied();
                gone.extend(left.filter(|source| hosts.leave(Some(*source), host)));
            }
            _ => {
                let to_report = matches!(kind, Kind::ToInclude | Kind::ToExclude);
                let mode = match kind {
                    Kind::IsInclude | Kind::ToInclude => Mode::Include,
                    _ => Mode::Exclude,
                };
                let flush = to_report || was != mode;
                if flush {
                    hosts.forget(host);
                }
                for source in sources {
                    hosts.enter(Some(*source), host, mode, (room, until));
                }
                for source in details.sources.iter().filter(|_| flush) {
                    match hosts.sets.get_mut(&Some(source.address)) {
                        None => gone.push(source.address),
                        Some(set) if source.send && kind == Kind::ToInclude => set.until = soon,
                        Some(_) => {}
                    }
                }
                if let Some(host) = hosts.hosts.get_mut(&host) {
                    host.mode = mode;
                }
                match mode {
                    Mode::Include => {
                        hosts.leave(None, host);
                    }
                    Mode::Exclude => hosts.enter(None, host, mode, (room, until)),
                }
            }
        }
        let more = details.hosts.len() - own;
        self.count_hosts(number, more);
        let mut changed = false;
        for source in gone {
            changed |= self.source(id, source).is_some() && kind != Kind::Allow;
            self.drop_source(id, source, true);
        }
        changed
    }

    /// Returns whether a member of a port that leaves fast has no hosts (`br_multicast_eht_should_del_pg`).
    pub(super) fn is_deserted(&self, id: &(Key, u64)) -> bool {
        self.member(id).is_some_and(|member| {
            let details = member.details.as_deref();
            let has_hosts = details.is_some_and(|one| !one.hosts.hosts.is_empty());
            self.leaves_fast(member.port) && !has_hosts
        })
    }

    /// Forgets the hosts of a member that have not reported for long.
    pub(super) fn expire_hosts(&mut self, id: &(Key, u64)) {
        let now = self.now;
        let Some(member) = self.member_mut(id) else {
            return;
        };
        let (number, hosts) = (member.port, &mut member.details().hosts);
        let before = hosts.len();
        hosts.expire(now);
        let more = hosts.len() - before;
        self.count_hosts(number, more);
    }

    /// Returns the number of hosts of a port.
    fn hosts_of(&self, number: u16) -> i64 {
        self.snoop.contexts[0]
            .port(number)
            .map_or(0, |one| one.hosts)
    }

    /// Counts hosts of a port that have come, or gone.
    pub(super) fn count_hosts(&mut self, number: u16, more: i64) {
        let context = &mut self.snoop.contexts[0];
        let place = context.place(number);
        if let Some(one) = place.and_then(|at| context.ports.get_mut(at)) {
            one.hosts += more;
        }
    }

    fn leaves_fast(&self, number: u16) -> bool {
        let port = self.port(number);
        port.is_some_and(|port| port.has(weir_netlink::ifla::brport::FAST_LEAVE))
    }
}
