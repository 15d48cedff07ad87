// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The IPv4 groups that a device is a member of (`struct ip_mc_list`, `net/ipv4/igmp.c`).
//!
//! A device is a member of the all-hosts group while it is up, and of the groups of addresses that
//! are added with `autojoin`, and of the groups of sockets. All are joined for all sources: a socket applies its own. While
//! the device is up, the link-layer address of each group is in its list ([`crate::taken`]), and the
//! memberships are reported ([`super::igmp`]).

use std::net::Ipv4Addr;

use weir_sync::exact;
use weir_sync::once_box::OnceBox;
use weir_sync::order::{self, Mutex, MutexGuard};
use weir_sync::rare::Rare;

use super::igmp::{Querier, Reports};
use crate::clock::TimerId;
use crate::layers::Site;
use crate::link_groups;
use crate::sketch::Sketch;

/// The group of all hosts (`IGMP_ALL_HOSTS`), which is never reported.
pub const ALL_HOSTS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 1);

/// Returns whether a group is of one link (`ipv4_is_local_multicast`).
pub fn is_local(group: Ipv4Addr) -> bool {
    matches!(group.octets(), [224, 0, 0, _])
}

/// A membership.
#[derive(Debug)]
pub(super) struct Group {
    pub address: Ipv4Addr,
    /// The number of joins.
    pub users: u32,
    /// The link-layer address is in the device's list.
    pub loaded: bool,
    /// The device was the last host to report the group.
    pub reported: bool,
    /// The timer of a report by IGMPv1 or IGMPv2.
    pub timer: Option<TimerId>,
    /// The number of such reports still to be sent (`unsolicit_count`).
    pub unsolicited: u16,
    /// The number of IGMPv3 reports that still have to announce the join.
    pub changes: u16,
}

const _: () = assert!(size_of::<Group>() == 32);

/// A membership as `/proc/net/igmp` shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shown {
    /// The group.
    pub address: Ipv4Addr,
    /// The number of joins.
    pub users: u32,
    /// The time to the next report in ns, if a timer runs.
    pub wait: Option<u64>,
    /// The device was the last host to report the group.
    pub reported: bool,
}

/// The state that the lock guards.
#[derive(Debug, Default)]
pub(super) struct State {
    /// The memberships, oldest first. Linux's list begins with the newest.
    pub list: Box<[Group]>,
    pub reports: Rare<Reports>,
    /// The device is a member of [`ALL_HOSTS`], has its link-layer address in its list, and that membership is not in
    /// `list`: it is older than those there, and has one user. Nearly every device that is up has it first and never
    /// reports it.
    hosts: bool,
}

impl Group {
    fn new(address: Ipv4Addr) -> Self {
        Self {
            address,
            users: 1,
            loaded: false,
            reported: false,
            timer: None,
            unsolicited: 0,
            changes: 0,
        }
    }

    fn shown(&self, now: u64) -> Shown {
        Shown {
            address: self.address,
            users: self.users,
            wait: self.timer.map(|timer| timer.time().saturating_sub(now)),
            reported: self.reported,
        }
    }
}

impl State {
    /// Returns the membership that is not in the list.
    fn unlisted(&self) -> Option<Group> {
        self.hosts.then(|| Group {
            loaded: true,
            ..Group::new(ALL_HOSTS)
        })
    }

    /// Returns the addresses of all memberships.
    fn addresses(&self) -> impl Iterator<Item = Ipv4Addr> {
        let listed = self.list.iter().map(|group| group.address);
        self.hosts.then_some(ALL_HOSTS).into_iter().chain(listed)
    }

    /// Puts a membership that is about to change into the list.
    fn unfold(&mut self, address: Ipv4Addr) {
        if address == ALL_HOSTS
            && let Some(group) = self.unlisted()
        {
            exact::insert(&mut self.list, 0, group);
            self.hosts = false;
        }
    }

    /// Forgets that a group was left.
    fn forget_leave(&mut self, address: Ipv4Addr) {
        if let Some(reports) = self.reports.made() {
            reports.forget_leave(address);
        }
    }
}

/// The groups of a device.
#[derive(Debug, Default)]
pub struct Groups {
    state: Mutex<State, order::Groups>,
    /// The addresses of the memberships.
    sketch: Sketch,
    querier: OnceBox<Querier>,
}

impl Groups {
    pub(super) fn lock(&self) -> MutexGuard<'_, State, order::Groups> {
        self.state.lock()
    }

    /// Returns what the device has learned from queries.
    pub(super) fn querier(&self) -> &Querier {
        static UNHEARD: Querier = Querier::new();
        self.querier.get().unwrap_or(&UNHEARD)
    }

    /// Returns what the device has learned from queries, to be changed.
    pub(super) fn learn(&self) -> &Querier {
        self.querier.get_or_make(Querier::new)
    }

    /// Returns whether the device is a member of a group (`ip_check_mc_rcu`).
    pub fn has(&self, address: Ipv4Addr) -> bool {
        self.sketch.may_have(address) && self.lock().addresses().any(|own| own == address)
    }

    /// Returns the memberships, newest first.
    pub fn list(&self, now: u64) -> Vec<Shown> {
        let state = self.lock();
        let listed = state.list.iter().rev().map(|group| group.shown(now));
        let unlisted = state.unlisted().map(|group| group.shown(now));
        listed.chain(unlisted).collect()
    }

    /// Joins a group, or adds a user to a membership (`ip_mc_inc_group`).
    pub fn join(&self, site: &Site<'_>, address: Ipv4Addr) {
        self.join_locked(site, &mut self.lock(), address);
    }

    fn join_locked(&self, site: &Site<'_>, state: &mut State, address: Ipv4Addr) {
        state.unfold(address);
        let known = state
            .list
            .iter_mut()
            .rev()
            .find(|group| group.address == address);
        if let Some(group) = known {
            group.users += 1;
            return;
        }
        exact::push(&mut state.list, Group::new(address));
        self.sketch.add(address);
        state.forget_leave(address);
        let at = state.list.len() - 1;
        added(site, state, at);
    }

    /// Removes a user of a membership, and leaves the group with the last one (`ip_mc_dec_group`).
    pub fn leave(&self, site: &Site<'_>, address: Ipv4Addr) {
        self.leave_locked(site, &mut self.lock(), address);
    }

    fn leave_locked(&self, site: &Site<'_>, state: &mut State, address: Ipv4Addr) {
        state.unfold(address);
        let found = state
            .list
            .iter()
            .rposition(|group| group.address == address);
        let Some(at) = found else { return };
        if let Some(group) = state.list.get_mut(at) {
            group.users -= 1;
            if group.users != 0 {
                return;
            }
        }
        let mut group = exact::remove(&mut state.list, at);
        self.sketch.set(state.addresses());
        dropped(site, &mut state.reports, &mut group);
    }

    /// Has the device accept and report its groups and that of all hosts, because it is up
    /// (`ip_mc_up`).
    pub fn up(&self, site: &Site<'_>) {
        let mut state = self.lock();
        if state.list.is_empty() && !state.hosts {
            state.hosts = true;
            self.sketch.add(ALL_HOSTS);
            return link_groups::accept(site, ALL_HOSTS);
        }
        self.join_locked(site, &mut state, ALL_HOSTS);
        for at in (0..state.list.len()).rev() {
            if let Some(group) = state.list.get(at) {
                let address = group.address;
                state.forget_leave(address);
            }
            added(site, &mut state, at);
        }
    }

    /// Has the device accept no group any more, because it is down (`ip_mc_down`).
    pub fn down(&self, site: &Site<'_>) {
        self.down_locked(site, &mut self.lock());
    }

    fn down_locked(&self, site: &Site<'_>, state: &mut State) {
        let State {
            list,
            reports,
            hosts,
        } = &mut *state;
        for group in list.iter_mut().rev() {
            dropped(site, reports, group);
        }
        if let Some(reports) = reports.made() {
            reports.stop(site);
        }
        if std::mem::take(hosts) {
            self.sketch.set(state.addresses());
            return link_groups::refuse(site, ALL_HOSTS);
        }
        self.leave_locked(site, state, ALL_HOSTS);
    }

    /// Leaves all groups, because IPv4 ends on the device (`ip_mc_destroy_dev`).
    pub fn end(&self, site: &Site<'_>) {
        let mut state = self.lock();
        self.down_locked(site, &mut state);
        if let Some(reports) = state.reports.made() {
            reports.stop(site);
        }
        *state = State::default();
        self.sketch.set(std::iter::empty::<Ipv4Addr>());
    }
}

/// Has the device accept a group and reports it (`igmp_group_added`).
fn added(site: &Site<'_>, state: &mut State, at: usize) {
    let Some(group) = state.list.get_mut(at) else {
        return;
    };
    if !std::mem::replace(&mut group.loaded, true) {
        link_groups::accept(site, group.address);
    }
    super::igmp::joined(site, state, at);
}

/// Has the device no longer accept a group and reports that (`igmp_group_dropped`).
fn dropped(site: &Site<'_>, reports: &mut Rare<Reports>, group: &mut Group) {
    if std::mem::replace(&mut group.loaded, false) {
        link_groups::refuse(site, group.address);
    }
    let reported = group.reported;
    if let Some(timer) = group.timer.take() {
        site.stack.timers.cancel(timer);
    }
    (group.reported, group.unsolicited) = (false, 0);
    super::igmp::left(site, reports, group.address, reported);
}
