// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The IPv6 groups that a device is a member of (`struct ifmcaddr6`, `net/ipv6/mcast.c`).
//!
//! A device joins the all-nodes groups when IPv6 starts on it, the solicited-node groups of its
//! addresses, the all-routers groups while it forwards, and the groups of addresses that are added
//! with `autojoin`, and of the groups of sockets. All are joined for all sources: a socket applies its own. While IPv6 is up
//! on the device, the link-layer address of each group is in the device's list
//! ([`crate::taken`]), and the memberships are reported (`mld.rs`).

use std::net::Ipv6Addr;

use weir_sync::exact;
use weir_sync::once_box::OnceBox;
use weir_sync::order::{self, Mutex, MutexGuard};
use weir_sync::rare::Rare;

use super::mld::{Querier, Reports};
use crate::clock::TimerId;
use crate::layers::Site;
use crate::link_groups;
use crate::sketch::Sketch;

const fn all(scope: u16, last: u16) -> Ipv6Addr {
    Ipv6Addr::new(0xff00 | scope, 0, 0, 0, 0, 0, 0, last)
}

/// The all-nodes groups of an interface and of a link.
pub const ALL_NODES: [Ipv6Addr; 2] = [all(1, 1), all(2, 1)];
/// The all-routers group of a link.
pub const ALL_ROUTERS: Ipv6Addr = all(2, 2);
/// The groups of a router, in the order in which it joins them (`dev_forward_change`).
pub const ROUTERS: [Ipv6Addr; 3] = [ALL_ROUTERS, all(1, 2), all(5, 2)];

/// `IPV6_ADDR_SCOPE_LINKLOCAL`
const LINK_SCOPE: u8 = 2;

/// Flags of a membership as `/proc/net/igmp6` shows them (`MAF_*`).
mod maf {
    pub const TIMER_RUNNING: u32 = 1;
    pub const LAST_REPORTER: u32 = 2;
    pub const LOADED: u32 = 4;
    pub const NOREPORT: u32 = 8;
}

/// A membership.
#[derive(Debug)]
pub(super) struct Group {
    pub address: Ipv6Addr,
    /// The number of joins.
    pub users: u32,
    /// The link-layer address is in the device's list.
    pub loaded: bool,
    /// The device was the last host to report the group.
    pub reported: bool,
    /// The timer of a further MLDv1 report.
    pub timer: Option<Box<TimerId>>,
    /// The number of MLDv2 reports that still have to announce the join.
    pub changes: u16,
}

const _: () = assert!(size_of::<Group>() == 32);

impl Group {
    fn new(address: Ipv6Addr) -> Self {
        Self {
            address,
            users: 1,
            loaded: false,
            reported: false,
            timer: None,
            changes: 0,
        }
    }

    fn scope(&self) -> u8 {
        self.address.octets()[1] & 0xf
    }

    /// Returns whether the group is never reported (`MAF_NOREPORT`).
    pub fn is_silent(&self) -> bool {
        self.scope() < LINK_SCOPE || ALL_NODES.contains(&self.address)
    }

    fn shown(&self, now: u64) -> Shown {
        let flag = |set, flag| if set { flag } else { 0 };
        Shown {
            address: self.address,
            users: self.users,
            flags: flag(self.timer.is_some(), maf::TIMER_RUNNING)
                | flag(self.reported, maf::LAST_REPORTER)
                | flag(self.loaded, maf::LOADED)
                | flag(self.is_silent(), maf::NOREPORT),
            wait: self
                .timer
                .as_ref()
                .map_or(0, |timer| timer.time().saturating_sub(now)),
        }
    }
}

/// A membership as `/proc/net/igmp6` shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shown {
    /// The group.
    pub address: Ipv6Addr,
    /// The number of joins.
    pub users: u32,
    /// `MAF_*`
    pub flags: u32,
    /// The time to the next MLDv1 report, in ns.
    pub wait: u64,
}

/// The memberships in the groups of all nodes, which nearly every device joins first, has once, and never reports.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Nodes {
    /// The list has what there is.
    #[default]
    Listed,
    /// They stand for two entries in front of the list, of one user each.
    Joined,
    /// Likewise, and the link-layer address is in the device's list.
    Loaded,
}

/// The state that the lock guards.
#[derive(Debug, Default)]
pub(super) struct State {
    /// The memberships beside those of `nodes`, oldest first. Linux's list begins with the newest.
    pub list: Box<[Group]>,
    pub reports: Rare<Reports>,
    nodes: Nodes,
}

impl State {
    /// Returns the memberships that are not in the list, oldest first.
    fn unlisted(&self) -> impl DoubleEndedIterator<Item = Group> + use<> {
        let nodes = self.nodes;
        let groups = (nodes != Nodes::Listed).then(|| ALL_NODES.map(Group::new));
        groups.into_iter().flatten().map(move |mut group| {
            group.loaded = nodes == Nodes::Loaded && group.scope() >= LINK_SCOPE;
            group
        })
    }

    /// Returns the addresses of all memberships.
    fn addresses(&self) -> impl Iterator<Item = Ipv6Addr> {
        let listed = self.list.iter().map(|group| group.address);
        self.unlisted().map(|group| group.address).chain(listed)
    }

    /// Puts a membership that is about to change into the list.
    fn unfold(&mut self, address: Ipv6Addr) {
        if self.nodes != Nodes::Listed && ALL_NODES.contains(&address) {
            let unlisted = self.unlisted();
            self.list = unlisted.chain(std::mem::take(&mut self.list)).collect();
            self.nodes = Nodes::Listed;
        }
    }

    /// Forgets that a group was left.
    fn forget_leave(&mut self, address: Ipv6Addr) {
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

    /// Returns whether the device has joined a group.
    pub(super) fn has(&self, address: Ipv6Addr) -> bool {
        self.sketch.may_have(address) && self.lock().addresses().any(|own| own == address)
    }

    /// Returns the memberships, newest first.
    pub fn list(&self, now: u64) -> Vec<Shown> {
        let state = self.lock();
        let listed = state.list.iter().rev().map(|group| group.shown(now));
        let unlisted = state.unlisted().rev().map(|group| group.shown(now));
        listed.chain(unlisted).collect()
    }

    /// Joins the groups of all nodes, and those of `others`, when IPv6 starts on the device (`ipv6_mc_init_dev`).
    pub(super) fn start(&self, site: &Site<'_>, others: impl IntoIterator<Item = Ipv6Addr>) {
        let mut state = self.lock();
        if state.list.is_empty() && state.nodes == Nodes::Listed {
            state.nodes = Nodes::Joined;
            ALL_NODES
                .into_iter()
                .for_each(|group| self.sketch.add(group));
            load_nodes(site, &mut state);
        } else {
            for address in ALL_NODES {
                self.join_locked(site, &mut state, address);
            }
        }
        for address in others {
            self.join_locked(site, &mut state, address);
        }
    }

    /// Joins a group, or adds a user to a membership (`__ipv6_dev_mc_inc`).
    pub fn join(&self, site: &Site<'_>, address: Ipv6Addr) {
        self.join_locked(site, &mut self.lock(), address);
    }

    fn join_locked(&self, site: &Site<'_>, state: &mut State, address: Ipv6Addr) {
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

    /// Removes a user of a membership, and leaves the group with the last one (`__ipv6_dev_mc_dec`).
    pub fn leave(&self, site: &Site<'_>, address: Ipv6Addr) {
        let mut state = self.lock();
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
        dropped(site, &mut group);
        if !group.is_silent() {
            super::mld::left(site, &mut state.reports, &group);
        }
    }

    /// Has the device accept and report all groups, again if it has done so already (`ipv6_mc_up`).
    pub fn up(&self, site: &Site<'_>) {
        let mut state = self.lock();
        for at in (0..state.list.len()).rev() {
            if let Some(group) = state.list.get(at) {
                let address = group.address;
                state.forget_leave(address);
            }
            added(site, &mut state, at);
        }
        load_nodes(site, &mut state);
    }

    /// Has the device accept no group any more (`ipv6_mc_down`).
    pub fn down(&self, site: &Site<'_>) {
        down_locked(site, &mut self.lock());
    }

    /// Leaves all groups, because IPv6 ends on the device (`ipv6_mc_destroy_dev`).
    pub fn end(&self, site: &Site<'_>) {
        let mut state = self.lock();
        down_locked(site, &mut state);
        *state = State::default();
        self.sketch.set(std::iter::empty::<Ipv6Addr>());
    }
}

fn down_locked(site: &Site<'_>, state: &mut State) {
    let State {
        list,
        reports,
        nodes,
    } = state;
    for group in list.iter_mut().rev() {
        dropped(site, group);
    }
    if *nodes == Nodes::Loaded {
        *nodes = Nodes::Joined;
        link_groups::refuse(site, ALL_NODES[1]);
    }
    if let Some(reports) = reports.made() {
        reports.stop(site);
    }
}

/// Has the device accept the groups of all nodes, unless they are in the list.
fn load_nodes(site: &Site<'_>, state: &mut State) {
    if state.nodes == Nodes::Joined {
        state.nodes = Nodes::Loaded;
        link_groups::accept(site, ALL_NODES[1]);
    }
}

/// Has the device accept a group and reports it (`igmp6_group_added`).
fn added(site: &Site<'_>, state: &mut State, at: usize) {
    let device = site.device;
    let Some(group) = state.list.get_mut(at) else {
        return;
    };
    if group.scope() < LINK_SCOPE {
        return;
    }
    if !std::mem::replace(&mut group.loaded, true) {
        link_groups::accept(site, group.address);
    }
    if device.is_up() && !group.is_silent() {
        super::mld::joined(site, state, at);
    }
}

/// Has the device no longer accept a group (`igmp6_group_dropped`).
fn dropped(site: &Site<'_>, group: &mut Group) {
    if std::mem::replace(&mut group.loaded, false) {
        link_groups::refuse(site, group.address);
    }
    if let Some(timer) = group.timer.take() {
        site.stack.timers.cancel(*timer);
    }
}
