// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Records of reports of version 3 of IGMP and version 2 of MLD (`br_ip4_multicast_igmp3_report`,
//! `br_ip6_multicast_mld2_report`): what they change of the sources of a member (RFC 3376, 6.4), and the queries that
//! follow.

use std::sync::Arc;

use super::context::Options;
use super::hosts::Mode;
use super::message::{Form, Kind, Record};
use super::sources::{Id, Source};
use super::{Effect, Family, Group, Key, Member, Step};
use crate::bridge::port::Port;
use crate::clock::SECOND;
use crate::device::Mac;

/// A query that leaves by a port.
pub(super) struct Ask {
    pub port: Arc<Port>,
    /// The VLAN, or 0.
    pub vid: u16,
    pub family: Family,
    /// The group, or `None` for all.
    pub group: Option<Group>,
    /// It goes to the group and not to all hosts.
    pub is_direct: bool,
    /// The time in ns in which hosts answer.
    pub delay: u64,
    pub form: Form,
}

/// A record about a member that is there: its kind, its sources and the host's address.
type About<'a> = (Kind, &'a [Group], Group);

impl Options {
    /// Returns whether hosts report their sources (`br_multicast_should_handle_mode`).
    pub(super) fn has_sources(&self, family: Family) -> bool {
        match family {
            Family::V4 => self.igmp_version == 3,
            Family::V6 => self.mld_version == 2,
        }
    }

    /// Returns the form of queries.
    fn form(&self, family: Family, suppress: bool, sources: Vec<Group>) -> Form {
        match self.has_sources(family) {
            false => Form::Old,
            true => Form::New {
                suppress,
                interval: (self.query() / SECOND) as u8,
                sources,
            },
        }
    }
}

impl Step<'_> {
    /// Hears one record of a host behind a port.
    pub(super) fn record(
        &mut self,
        port: &Port,
        mac: Mac,
        key: &Key,
        (record, host): (&Record, Group),
    ) -> Result<(), weir_netlink::Error> {
        if !record.leaves() {
            self.report(port, mac, key)?;
        }
        if !self.counts(Some(port)) {
            return Ok(());
        }
        let entry = self.snoop.entries.get(key);
        let mut members = entry.into_iter().flat_map(|entry| &entry.members);
        let Some(member) = members.find(|member| member.is(port, mac)) else {
            return Ok(());
        };
        if member.permanent {
            return Ok(());
        }
        let id = (*key, member.made);
        let about = (record.kind, &record.sources[..], host);
        let changed = match record.kind {
            Kind::IsInclude | Kind::Allow => self.allow(&id, about),
            Kind::IsExclude | Kind::ToExclude => self.exclude(&id, about),
            Kind::ToInclude => self.turn_to_include(&id, about),
            Kind::Block => self.block(&id, about),
        };
        self.publish(key);
        if changed {
            self.tell_of(&id);
        }
        Ok(())
    }

    /// Makes the port of a host a member that includes nothing, if it is none.
    fn report(&mut self, port: &Port, mac: Mac, key: &Key) -> Result<(), weir_netlink::Error> {
        if key.group.is_unreported() || !self.counts(Some(port)) {
            return Ok(());
        }
        let entry = self.snoop.entries.get(key);
        let mut members = entry.into_iter().flat_map(|entry| &entry.members);
        if members.any(|member| member.is(port, mac)) {
            return Ok(());
        }
        let member = Member {
            mode: Mode::Include,
            ..Member::new(port, mac)
        };
        self.insert(key, member, None).map(|_| ())
    }

    fn mode(&self, id: &Id) -> Mode {
        self.member(id).map_or(Mode::Include, |member| member.mode)
    }

    /// Returns when a member is gone that nobody reports.
    fn until(&self) -> u64 {
        self.now + self.context().options.membership()
    }

    /// Returns when the timer of the group of a member expires or has expired.
    fn group_until(&self, id: &Id) -> u64 {
        let timer = self.member(id).and_then(|member| member.timer);
        timer.unwrap_or(self.now)
    }

    /// `IS_INCLUDE`, `ALLOW` (`br_multicast_isinc_allow`): sources are wanted.
    fn allow(&mut self, id: &Id, about: About<'_>) -> bool {
        let mut changed = false;
        for address in about.1 {
            if self.source(id, *address).is_none() {
                if !self.add_source(id, *address) {
                    continue;
                }
                changed = true;
            }
            self.want(id, *address, self.until());
        }
        self.track(id, about) || changed
    }

    /// `IS_EXCLUDE` and `TO_EXCLUDE` (`br_multicast_isexc`, `br_multicast_toex`).
    fn exclude(&mut self, id: &Id, about: About<'_>) -> bool {
        let was = self.mode(id);
        let mut changed = match was {
            Mode::Include => self.begin_to_exclude(id, about),
            Mode::Exclude => self.exclude_others(id, about),
        };
        if was == Mode::Include {
            self.follow_mode(id, Mode::Exclude);
            changed = true;
        }
        let until = self.until();
        if let Some(member) = self.member_mut(id) {
            (member.mode, member.timer) = (Mode::Exclude, Some(until));
        }
        changed
    }

    /// The member included sources: it keeps those of the record, and blocks the others of the record.
    fn begin_to_exclude(&mut self, id: &Id, about: About<'_>) -> bool {
        let asks = about.0 == Kind::ToExclude;
        self.mark(id, |source| (source.send, source.delete) = (false, true));
        let mut to_send = false;
        for address in about.1 {
            if let Some(source) = self.source_mut(id, *address) {
                (source.send, source.delete) = (asks, false);
                to_send |= asks;
            } else if !self.add_source(id, *address) {
                continue;
            }
            self.handle_source(id, *address);
        }
        self.track(id, about);
        self.drop_marked(id);
        if to_send {
            self.ask_marked(id);
        }
        true
    }

    /// The member excludes sources already: it keeps those of the record, and wants the new ones for some time.
    fn exclude_others(&mut self, id: &Id, about: About<'_>) -> bool {
        let asks = about.0 == Kind::ToExclude;
        let mut changed = false;
        let mut to_send = false;
        self.mark(id, |source| (source.send, source.delete) = (false, true));
        let until = if asks {
            self.group_until(id)
        } else {
            self.until()
        };
        for address in about.1 {
            if self.source(id, *address).is_none() {
                if !self.add_source(id, *address) {
                    continue;
                }
                self.want(id, *address, until);
                changed = true;
            }
            if let Some(source) = self.source_mut(id, *address) {
                source.delete = false;
                source.send = asks && source.runs;
                to_send |= source.send;
            }
        }
        changed |= self.track(id, about);
        changed |= self.drop_marked(id);
        if to_send {
            self.ask_marked(id);
        }
        changed
    }

    /// `TO_INCLUDE` (`br_multicast_toin`).
    fn turn_to_include(&mut self, id: &Id, about: About<'_>) -> bool {
        let excludes = self.mode(id) == Mode::Exclude;
        let mut changed = false;
        let mut left = self.member(id).map_or(0, |member| member.sources().len());
        self.mark(id, |source| source.send |= !excludes || source.runs);
        for address in about.1 {
            if let Some(source) = self.source_mut(id, *address) {
                if !excludes || source.runs {
                    source.send = false;
                    left = left.saturating_sub(1);
                }
            } else if self.add_source(id, *address) {
                changed = true;
            } else {
                continue;
            }
            self.want(id, *address, self.until());
        }
        changed |= self.track(id, about);
        if left > 0 {
            self.ask_marked(id);
        }
        if excludes {
            self.ask_group(id);
        }
        if self.is_deserted(id) {
            // Listeners have heard of the end.
            self.end(id, true);
            return false;
        }
        changed
    }

    /// `BLOCK` (`br_multicast_block`).
    fn block(&mut self, id: &Id, about: About<'_>) -> bool {
        let excludes = self.mode(id) == Mode::Exclude;
        let (mut changed, mut to_send) = (false, false);
        self.mark(id, |source| source.send = false);
        for address in about.1 {
            if excludes && self.source(id, *address).is_none() && self.add_source(id, *address) {
                self.want(id, *address, self.group_until(id));
                changed = true;
            }
            if let Some(source) = self.source_mut(id, *address)
                && (!excludes || source.runs)
            {
                source.send = true;
                to_send = true;
            }
        }
        changed |= self.track(id, about);
        if to_send {
            self.ask_marked(id);
        }
        let is_empty = self.member(id).is_none_or(|one| one.sources().is_empty());
        let deserted = self.is_deserted(id);
        if !excludes && is_empty || deserted {
            self.end(id, deserted);
            return false;
        }
        changed
    }

    fn drop_marked(&mut self, id: &Id) -> bool {
        let marked = self.sources(id, |source| source.delete);
        let any = !marked.is_empty();
        for address in marked {
            self.drop_source(id, address, false);
        }
        any
    }

    /// Returns whether the bridge may ask in a family: it is the querier.
    fn asks(&self, family: Family) -> bool {
        let other = self.reach().others[family as usize].load(super::Relaxed) > self.now;
        self.reach().querier.load(super::Relaxed) && !other
    }

    /// Lets the marked sources of a member expire soon, and asks for them
    /// (`__grp_src_query_marked_and_rexmit`).
    fn ask_marked(&mut self, id: &Id) {
        let Some(family) = id.0.group.family().filter(|_| self.up && self.is_on()) else {
            return;
        };
        let options = &self.context().options;
        let (count, soon) = (options.last_count, self.now + options.last_members());
        let next = self.now + options.last_member();
        let asks = self.asks(family);
        for address in self.sources(id, |source| source.send) {
            let Some(source) = self.source_mut(id, address) else {
                continue;
            };
            source.send = false;
            if source.expires > soon {
                if asks {
                    source.queries = count;
                }
                self.want(id, address, soon);
            }
        }
        if !asks {
            return;
        }
        self.ask_member(id, true, true);
        self.ask_again(id, next);
    }

    /// Asks for the group of a member, and lets it expire soon (`__grp_send_query_and_rexmit`).
    fn ask_group(&mut self, id: &Id) {
        let Some(family) = id.0.group.family().filter(|_| self.up && self.is_on()) else {
            return;
        };
        let options = &self.context().options;
        let (count, soon) = (options.last_count, self.now + options.last_members());
        let next = self.now + options.last_member();
        if self.asks(family) {
            if let Some(member) = self.member_mut(id) {
                member.details().queries = count.saturating_sub(1);
            }
            self.ask_member(id, false, false);
            self.ask_again(id, next);
        }
        if let Some(member) = self.member_mut(id)
            && member.mode == Mode::Exclude
        {
            super::sooner(&mut member.timer, soon);
        }
    }

    fn ask_again(&mut self, id: &Id, at: u64) {
        if let Some(member) = self.member_mut(id) {
            super::sooner(&mut member.details().again, at);
        }
    }

    /// Asks again for a member (`br_multicast_port_group_rexmit`).
    pub(super) fn ask_due(&mut self, id: &Id) {
        let Some(member) = self.member_mut(id) else {
            return;
        };
        let details = member.details();
        details.again = None;
        let queries = details.queries;
        let Some(family) = id.0.group.family().filter(|_| self.up && self.is_on()) else {
            return;
        };
        if !self.asks(family) {
            return;
        }
        if queries > 0 {
            if let Some(member) = self.member_mut(id) {
                member.details().queries = queries - 1;
            }
            self.ask_member(id, false, true);
        }
        let left = self.ask_member(id, true, false);
        if queries > 1 || left {
            let next = self.now + self.context().options.last_member();
            self.ask_again(id, next);
        }
    }

    /// Asks by a port for a group or for all.
    pub(super) fn ask_for(
        &mut self,
        port: Arc<Port>,
        family: Family,
        group: Option<Group>,
        delay: u64,
    ) {
        let context = self.context();
        let ask = Ask {
            port,
            vid: context.vid,
            family,
            group,
            is_direct: false,
            delay,
            form: context.options.form(family, false, Vec::new()),
        };
        self.out.push(Effect::Ask(ask));
    }

    /// Asks the port of a member for its group, or for those of its sources that are still asked for: with the flag
    /// `suppress`, which routers heed, first for those whose timers run for longer, then for the others
    /// (`__br_multicast_send_query`). Returns whether sources are to be asked for again.
    fn ask_member(&mut self, id: &Id, by_source: bool, suppress: bool) -> bool {
        let Some(member) = self.member(id) else {
            return false;
        };
        let Some(family) = id.0.group.family() else {
            return false;
        };
        let Some(port) = self.port(member.port) else {
            return false;
        };
        let options = &self.context().options;
        let soon = self.now + options.last_members();
        let has_sources = options.has_sources(family);
        let is_heard = self.is_current() && self.counts(Some(&port));
        if !is_heard {
            return false;
        }
        let mut again = false;
        let passes: &[bool] = match (by_source, suppress) {
            (true, true) => &[true, false],
            (true, false) => &[false],
            (false, _) => &[suppress],
        };
        for over in passes {
            let mut sources = Vec::new();
            if by_source && has_sources {
                let wanted =
                    |source: &Source| (source.expires > soon) == *over && source.queries > 0;
                sources = self.sources(id, wanted);
                if sources.is_empty() {
                    break;
                }
                for address in &sources {
                    if let Some(source) = self.source_mut(id, *address) {
                        source.queries -= 1;
                        again |= source.queries > 0;
                    }
                }
            }
            let form = self.context().options.form(family, suppress, sources);
            self.out.push(Effect::Ask(Ask {
                port: port.clone(),
                vid: self.context().vid,
                family,
                group: Some(id.0.group),
                is_direct: true,
                delay: self.context().options.last_member(),
                form,
            }));
        }
        again
    }
}
