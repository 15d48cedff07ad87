// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sources of members, with version 3 of IGMP and version 2 of MLD (RFC 3376, RFC 3810): a member includes its sources or
//! excludes them (`struct net_bridge_group_src`), and each that matters has an entry of its own, (S,G), which directs the
//! frames of the source.
//!
//! A port that excludes sources is in the entries of all sources that others have asked for, unless it excludes them: such
//! a member is marked as one by its group (`MDB_PG_FLAGS_STAR_EXCL`). A source that nobody asks for any more is blocked by
//! its entry (`MDB_PG_FLAGS_BLOCKED`) while the port excludes it, and has none otherwise.

use weir_netlink::rtm;

use super::hosts::{Hosts, MOST, Mode};
use super::{Entry, Group, Key, Member, Step};
use crate::bridge::port::Port;
use crate::device::Mac;

/// A source of a member.
#[derive(Debug, Clone)]
pub(super) struct Source {
    pub address: Group,
    /// When its timer expires or has expired.
    pub expires: u64,
    /// Its timer runs: somebody wants it.
    pub runs: bool,
    /// The member has made it an entry (`BR_SGRP_F_INSTALLED`).
    installed: bool,
    /// It is to be asked for (`BR_SGRP_F_SEND`).
    pub send: bool,
    /// It is to be deleted (`BR_SGRP_F_DELETE`).
    pub delete: bool,
    /// How often it is asked for again (`src_query_rexmit_cnt`).
    pub queries: u32,
}

/// What members have beside their ports that have sources or have been asked for them.
#[derive(Debug, Clone, Default)]
pub(super) struct Details {
    /// The newest first.
    pub sources: Vec<Source>,
    /// How often the group is asked for again (`grp_query_rexmit_cnt`).
    pub queries: u32,
    /// When that happens (`rexmit_timer`).
    pub again: Option<u64>,
    pub hosts: Hosts,
}

/// A member: the entry, and the number that the member has got.
pub(super) type Id = (Key, u64);

impl Key {
    /// Returns whether the entry is for all sources (`br_multicast_is_star_g`).
    pub(super) fn is_star(&self) -> bool {
        self.source.is_none()
    }

    fn star(self) -> Self {
        Self {
            source: None,
            ..self
        }
    }

    pub(super) fn of(self, source: Group) -> Self {
        Self {
            source: Some(source),
            ..self
        }
    }
}

impl Entry {
    /// Returns the member of a port, the oldest if there are several.
    fn at(&self, port: u16) -> Option<&Member> {
        self.members.iter().find(|member| member.port == port)
    }
}

impl Member {
    /// Returns the sources, the newest first.
    pub(super) fn sources(&self) -> &[Source] {
        let details = self.details.as_deref();
        details.map_or(&[], |details| &details.sources)
    }

    fn source(&mut self, address: Group) -> Option<&mut Source> {
        let sources = &mut self.details.as_deref_mut()?.sources;
        sources.iter_mut().find(|source| source.address == address)
    }

    pub(super) fn details(&mut self) -> &mut Details {
        self.details.get_or_insert_default()
    }

    /// Returns when the next of its timers expires.
    pub(super) fn timers(&self) -> impl Iterator<Item = u64> + '_ {
        let own = self.timer.filter(|_| !self.permanent);
        let details = self.details.as_deref();
        let again = details.and_then(|details| details.again);
        let hosts = details.and_then(|details| details.hosts.next());
        let sources = self.sources().iter().filter(|source| source.runs);
        let sources = sources.map(|source| source.expires);
        own.into_iter().chain(again).chain(hosts).chain(sources)
    }
}

/// Returns whether an address may be a source (`br_multicast_new_group_src`).
fn is_source(address: Group) -> bool {
    match address {
        Group::V4([first, ..]) => first != 0 && first & 0xf0 != 0xe0,
        Group::V6(address) => address != [0; 16] && address[0] != 0xff,
        Group::Mac(_) => false,
    }
}

impl Step<'_> {
    pub(super) fn member(&self, (key, made): &Id) -> Option<&Member> {
        let members = &self.snoop.entries.get(key)?.members;
        members.iter().find(|member| member.made == *made)
    }

    pub(super) fn member_mut(&mut self, (key, made): &Id) -> Option<&mut Member> {
        let members = &mut self.snoop.entries.get_mut(key)?.members;
        members.iter_mut().find(|member| member.made == *made)
    }

    pub(super) fn source(&self, id: &Id, address: Group) -> Option<&Source> {
        let mut sources = self.member(id)?.sources().iter();
        sources.find(|source| source.address == address)
    }

    pub(super) fn source_mut(&mut self, id: &Id, address: Group) -> Option<&mut Source> {
        self.member_mut(id)?.source(address)
    }

    /// Returns the addresses of the sources of a member that are such.
    pub(super) fn sources(&self, id: &Id, such: impl Fn(&Source) -> bool) -> Vec<Group> {
        let sources = self.member(id).map_or(&[][..], Member::sources).iter();
        let sources = sources.filter(|source| such(source));
        sources.map(|source| source.address).collect()
    }

    /// Changes all sources of a member.
    pub(super) fn mark(&mut self, id: &Id, mut change: impl FnMut(&mut Source)) {
        let details = self.member_mut(id);
        let details = details.and_then(|member| member.details.as_deref_mut());
        let sources = details.into_iter().flat_map(|details| &mut details.sources);
        sources.for_each(&mut change);
    }

    /// Tells listeners of a member.
    pub(super) fn tell_of(&mut self, id: &Id) {
        let Some(member) = self.member(id).cloned() else {
            return;
        };
        let timer = member.timer;
        self.tell(&id.0, Some(&member), timer, rtm::NEWMDB);
    }

    /// Gives a member a source that is new. Returns whether it has it now: it may have too many, or the address may be
    /// none of a source.
    pub(super) fn add_source(&mut self, id: &Id, address: Group) -> bool {
        let Some(member) = self.member_mut(id).filter(|_| is_source(address)) else {
            return false;
        };
        let sources = &mut member.details().sources;
        if sources.len() >= MOST {
            return false;
        }
        let source = Source {
            address,
            expires: 0,
            runs: false,
            installed: false,
            send: false,
            delete: false,
            queries: 0,
        };
        sources.insert(0, source);
        true
    }

    /// Starts the timer of a source, whose frames its member gets (`__grp_src_mod_timer`).
    pub(super) fn want(&mut self, id: &Id, address: Group, expires: u64) {
        if let Some(source) = self.source_mut(id, address) {
            (source.expires, source.runs) = (expires, true);
        }
        self.handle_source(id, address);
    }

    /// Takes a source from a member, with its entry (`br_multicast_del_group_src`).
    pub(super) fn drop_source(&mut self, id: &Id, address: Group, fast: bool) {
        let Some(member) = self.member(id) else {
            return;
        };
        let (port, host) = (member.port, member.host);
        self.drop_entry(&id.0.of(address), (port, host), fast);
        if let Some(member) = self.member_mut(id) {
            let sources = &mut member.details().sources;
            sources.retain(|source| source.address != address);
        }
    }

    /// Takes a port out of the entry of a source (`br_multicast_fwd_src_remove`).
    pub(super) fn drop_entry(&mut self, key: &Key, (port, host): (u16, Mac), fast: bool) {
        let Some(port) = self.port(port) else { return };
        let members = self.snoop.entries.get(key).map(|entry| &entry.members);
        let mut members = members.into_iter().flatten();
        if let Some(member) = members.find(|member| member.is(&port, host))
            && !(member.by_user && member.permanent)
        {
            let made = member.made;
            self.end(&(*key, made), fast);
        }
    }

    /// Makes the entry of a source, which blocks its frames or not (`br_multicast_fwd_src_handle`).
    pub(super) fn handle_source(&mut self, id: &Id, address: Group) {
        self.install(id, address);
        let (Some(member), Some(source)) = (self.member(id), self.source(id, address)) else {
            return;
        };
        let (port, blocked) = (member.port, !source.runs);
        let key = id.0.of(address);
        let entry = self.snoop.entries.get(&key);
        let Some(made) = entry
            .and_then(|entry| entry.at(port))
            .filter(|member| !member.permanent && member.blocked != blocked)
            .map(|member| member.made)
        else {
            return;
        };
        if let Some(member) = self.member_mut(&(key, made)) {
            member.blocked = blocked;
        }
        self.publish(&key);
        self.tell_of(&(key, made));
    }

    /// `br_multicast_fwd_src_add`
    fn install(&mut self, id: &Id, address: Group) {
        let (Some(member), Some(source)) = (self.member(id), self.source(id, address)) else {
            return;
        };
        let (number, host, blocked) = (member.port, member.host, !source.runs);
        if source.installed {
            return;
        }
        let key = id.0.of(address);
        let Some(port) = self.port(number) else {
            return;
        };
        let Some(made) = self.enter_member(&key, &port, host, Mode::Include, blocked) else {
            return;
        };
        if let Some(source) = self.source_mut(id, address) {
            source.installed = true;
        }
        let id = (key, made);
        let Some(member) = self.member_mut(&id) else {
            return;
        };
        member.by_group = false;
        if member.by_user && member.permanent {
            return;
        }
        // The source's timer counts from now on.
        member.timer = None;
        self.add_excluding(&id);
    }

    /// Makes a port a member, for a host, if it is none (`__br_multicast_add_group`). Returns the number of the member.
    pub(super) fn enter_member(
        &mut self,
        key: &Key,
        port: &Port,
        host: Mac,
        mode: Mode,
        blocked: bool,
    ) -> Option<u64> {
        if !self.counts(Some(port)) {
            return None;
        }
        if let Some(entry) = self.snoop.entries.get(key) {
            let mut members = entry.members.iter();
            if let Some(member) = members.find(|member| member.is(port, host)) {
                return Some(member.made);
            }
            // The entry of a source has a port once.
            if !key.is_star() && entry.at(port.number).is_some() {
                return None;
            }
        }
        let member = Member {
            mode,
            blocked,
            ..Member::new(port, host)
        };
        self.insert(key, member, None).ok()
    }

    /// Takes the ports that exclude sources into the entry of a source, of which a member is new
    /// (`br_multicast_sg_add_exclude_ports`).
    pub(super) fn add_excluding(&mut self, (key, made): &Id) {
        let Some(star) = self.snoop.entries.get(&key.star()) else {
            return;
        };
        let joined = star.host;
        let members = star.members.iter();
        let members = members.filter(|member| member.mode == Mode::Exclude);
        let ports: Vec<u16> = members.map(|member| member.port).collect();
        if joined && let Some(entry) = self.snoop.entries.get_mut(key) {
            entry.host = true;
        }
        self.publish(key);
        let Some(host) = self.member(&(*key, *made)).map(|member| member.host) else {
            return;
        };
        for port in ports {
            self.enter_by_group(key, port, host);
        }
    }

    /// Takes a port into the entry of a source, unless it is there (`__fwd_add_star_excl`).
    fn enter_by_group(&mut self, key: &Key, port: u16, host: Mac) {
        let entry = self.snoop.entries.get(key);
        if entry.is_some_and(|entry| entry.at(port).is_some()) {
            return;
        }
        let Some(port) = self.port(port) else { return };
        if let Some(made) = self.enter_member(key, &port, host, Mode::Include, false)
            && let Some(member) = self.member_mut(&(*key, made))
            && !member.by_user
        {
            member.by_group = true;
        }
    }

    /// Follows a member that has begun or ended to exclude sources, in the entries of the sources of other members
    /// (`br_multicast_star_g_handle_mode`).
    pub(super) fn handle_mode(&mut self, (key, made): &Id, (port, host): (u16, Mac), mode: Mode) {
        let Some(entry) = self.snoop.entries.get(key) else {
            return;
        };
        let others = entry.members.iter().filter(|member| member.made != *made);
        let sources = others.flat_map(Member::sources);
        let sources = sources.filter(|source| source.installed);
        let sources: Vec<Group> = sources.map(|source| source.address).collect();
        for source in sources {
            let key = key.of(source);
            if mode == Mode::Exclude {
                self.enter_by_group(&key, port, host);
                continue;
            }
            let member = self.snoop.entries.get(&key);
            let member = member.and_then(|entry| entry.at(port));
            if let Some(member) = member.filter(|member| member.by_group && !member.by_user) {
                let made = member.made;
                self.end(&(key, made), false);
            }
        }
    }

    /// Does the same for a member that is there.
    pub(super) fn follow_mode(&mut self, id: &Id, mode: Mode) {
        if let Some(member) = self.member(id) {
            let place = (member.port, member.host);
            self.handle_mode(id, place, mode);
        }
    }

    /// Makes the bridge's own host a listener of the entries of sources as it is one of the group
    /// (`br_multicast_star_g_host_state`).
    pub(super) fn follow_host(&mut self, key: &Key) {
        let Some(entry) = self.snoop.entries.get(key).filter(|_| key.is_star()) else {
            return;
        };
        let joined = entry.host;
        let sources = entry.members.iter().flat_map(Member::sources);
        let sources = sources.filter(|source| source.installed);
        let keys: Vec<Key> = sources.map(|source| key.of(source.address)).collect();
        for key in keys {
            if let Some(entry) = self.snoop.entries.get_mut(&key) {
                entry.host = joined;
                self.publish(&key);
            }
        }
    }

    /// Ends the entry of a source that is only there for ports that exclude other sources
    /// (`br_multicast_sg_del_exclude_ports`).
    fn drop_excluding(&mut self, key: &Key) {
        let Some(entry) = self.snoop.entries.get_mut(key) else {
            return;
        };
        if !entry
            .members
            .iter()
            .all(|one| one.by_group || one.permanent)
        {
            return;
        }
        entry.host = false;
        let members = entry.members.iter().filter(|member| !member.permanent);
        let members: Vec<u64> = members.map(|member| member.made).collect();
        for made in members {
            self.end(&(*key, made), false);
        }
    }

    /// Ends a membership, with its sources (`br_multicast_del_pg`).
    pub(super) fn end(&mut self, id: &Id, fast: bool) -> bool {
        let key = &id.0;
        let Some(entry) = self.snoop.entries.get_mut(key) else {
            return false;
        };
        let Some(at) = entry.members.iter().position(|one| one.made == id.1) else {
            return false;
        };
        let mut member = entry.members.remove(at);
        member.fast_leave |= fast;
        let place = (member.port, member.host);
        if let Some(mut details) = member.details.take() {
            self.count_hosts(member.port, details.hosts.clear());
            for source in details.sources {
                self.drop_entry(&key.of(source.address), place, false);
            }
        }
        let timer = member.timer;
        self.tell(key, Some(&member), timer, rtm::DELMDB);
        match key.is_star() {
            true => self.handle_mode(id, place, Mode::Include),
            false => self.drop_excluding(key),
        }
        self.publish(key);
        true
    }

    /// Runs the timer of a member that has expired (`br_multicast_port_group_expired`).
    pub(super) fn member_expired(&mut self, id: &Id) {
        let Some(member) = self.member_mut(id) else {
            return;
        };
        member.timer = None;
        let was = std::mem::replace(&mut member.mode, Mode::Include);
        let silent = self.sources(id, |source| !source.runs);
        let changed = was == Mode::Exclude || !silent.is_empty();
        for address in silent {
            self.drop_source(id, address, false);
        }
        if self.member(id).is_some_and(|one| one.sources().is_empty()) {
            self.end(id, false);
        } else if changed {
            if id.0.is_star() {
                self.follow_mode(id, Mode::Include);
            }
            self.publish(&id.0);
            self.tell_of(id);
        }
    }

    /// Runs the timer of a source that has expired (`br_multicast_group_src_expired`).
    pub(super) fn source_expired(&mut self, id: &Id, address: Group) {
        let now = self.now;
        match self.source_mut(id, address) {
            Some(source) if source.runs && source.expires <= now => source.runs = false,
            _ => return,
        }
        let includes = self.member(id).is_some_and(|one| one.mode == Mode::Include);
        if !includes {
            return self.handle_source(id, address);
        }
        self.drop_source(id, address, false);
        if self.member(id).is_some_and(|one| one.sources().is_empty()) {
            self.end(id, false);
        }
    }
}
