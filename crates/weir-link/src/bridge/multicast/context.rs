// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a bridge keeps about queries and routers, once for the bridge or once for each VLAN
//! (`struct net_bridge_mcast`, `struct net_bridge_mcast_port`).

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use weir_sync::rcu::Guard;

use super::shared::Reach;
use super::{Group, router};
use crate::bridge::port::{Port, state};
use crate::bridge::vlan::Vlan;
use crate::clock::MILLISECOND;

/// The settings of the whole bridge.
#[derive(Debug, Clone)]
pub struct Common {
    pub(super) use_ifaddr: bool,
    pub(super) elasticity: u32,
    pub(super) most: u32,
}

impl Default for Common {
    fn default() -> Self {
        Self {
            use_ifaddr: false,
            elasticity: 16,
            most: 4096,
        }
    }
}

/// The settings of a context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// `MCAST_IGMP_VERSION`, 2 or 3.
    pub igmp_version: u8,
    /// `MCAST_MLD_VERSION`, 1 or 2.
    pub mld_version: u8,
    /// `MCAST_LAST_MEMBER_CNT`
    pub last_count: u32,
    /// `MCAST_STARTUP_QUERY_CNT`
    pub startup_count: u32,
    /// Intervals in ns, in the order of their attributes: last member, membership, querier, query, response, startup.
    pub intervals: [u64; 6],
}

impl Default for Options {
    /// `br_multicast_ctx_init`
    fn default() -> Self {
        Self {
            igmp_version: 2,
            mld_version: 1,
            last_count: 2,
            startup_count: 2,
            intervals: [1000, 260_000, 255_000, 125_000, 10_000, 31_250].map(|ms| ms * MILLISECOND),
        }
    }
}

impl Options {
    pub(super) fn last_member(&self) -> u64 {
        self.intervals[0]
    }

    pub(super) fn membership(&self) -> u64 {
        self.intervals[1]
    }

    pub(super) fn querier(&self) -> u64 {
        self.intervals[2]
    }

    pub(super) fn query(&self) -> u64 {
        self.intervals[3]
    }

    pub(super) fn response(&self) -> u64 {
        self.intervals[4]
    }

    /// Returns after how long a member is gone that does not answer the last queries.
    pub(super) fn last_members(&self) -> u64 {
        u64::from(self.last_count).saturating_mul(self.last_member())
    }
}

/// The queries of the bridge by a port (`struct bridge_mcast_own_query`).
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Own {
    pub timer: Option<u64>,
    pub sent: u32,
}

/// A port.
pub(super) struct Snooped {
    pub port: Arc<Port>,
    /// In a VLAN: it takes part (`BR_VLFLAG_MCAST_ENABLED`).
    pub on: bool,
    /// `MULTICAST_ROUTER`
    pub router: u8,
    /// By family: the port leads to a router.
    pub listed: [bool; 2],
    pub timers: [Option<u64>; 2],
    pub own: [Own; 2],
    /// In the context of the bridge: the hosts that are known behind it.
    pub hosts: i64,
}

impl Snooped {
    /// Returns the state of a new port.
    pub fn new(port: &Arc<Port>) -> Self {
        Self {
            port: port.clone(),
            on: false,
            router: router::QUERY,
            listed: [false; 2],
            timers: [None; 2],
            own: [Own::default(); 2],
            hosts: 0,
        }
    }
}

/// A context.
pub(super) struct Context {
    /// The VLAN, or 0 for the bridge.
    pub vid: u16,
    /// The bridge itself is in the VLAN (`br_vlan_is_brentry`).
    pub member: bool,
    /// In a VLAN: the bridge itself takes part (`BR_VLFLAG_MCAST_ENABLED`).
    pub on: bool,
    pub options: Options,
    /// What the data path reads.
    pub reach: Arc<Reach>,
    pub own: [Own; 2],
    /// By family: the bridge has asked.
    pub asks: [bool; 2],
    /// By family, the address of the known querier and the port behind which it is, 0 for the bridge.
    pub queriers: [Option<(Group, u16)>; 2],
    pub ports: Vec<Snooped>,
}

impl Context {
    pub fn new(vid: u16, reach: Arc<Reach>) -> Self {
        Self {
            vid,
            member: false,
            on: false,
            options: Options::default(),
            reach,
            own: Default::default(),
            asks: [false; 2],
            queriers: [None; 2],
            ports: Vec::new(),
        }
    }

    pub fn place(&self, number: u16) -> Option<usize> {
        let mut ports = self.ports.iter();
        ports.position(|port| port.port.number == number)
    }

    pub fn port(&self, number: u16) -> Option<&Snooped> {
        self.ports.get(self.place(number)?)
    }

    /// Returns `MULTICAST_ROUTER` of a port.
    pub fn router_of(&self, number: u16) -> u8 {
        self.port(number).map_or(router::QUERY, |one| one.router)
    }

    /// Returns the state of a port's VLAN; that of the bridge's context is as good as forwarding.
    fn vlan_state(&self, one: &Snooped, guard: &Guard) -> u8 {
        let vlan = one.port.vlans.load(guard).usable(self.vid);
        vlan.filter(|_| self.vid != 0)
            .map_or(state::FORWARDING, |vlan| vlan.state)
    }

    /// Returns whether messages of a port do not count (`br_multicast_port_ctx_state_disabled`).
    pub fn is_disabled(&self, one: &Snooped, guard: &Guard) -> bool {
        let vlan = self.vid != 0 && (!one.on || self.vlan_state(one, guard) == state::DISABLED);
        one.port.state.load(Relaxed) == state::DISABLED || vlan
    }

    /// Returns whether a port asks nothing (`br_multicast_port_ctx_state_stopped`).
    pub fn is_stopped(&self, one: &Snooped, guard: &Guard) -> bool {
        self.is_disabled(one, guard)
            || one.port.state.load(Relaxed) == state::BLOCKING
            || self.vlan_state(one, guard) == state::BLOCKING
    }

    /// Returns whether a port's VLAN lets the context of the port begin (`br_vlan_state_allowed`).
    pub fn may_begin(&self, number: u16, guard: &Guard) -> bool {
        let port = self.place(number).and_then(|at| self.ports.get(at));
        port.is_some_and(|one| {
            let vlan = one.port.vlans.load(guard).usable(self.vid);
            vlan.is_some_and(Vlan::learns)
        })
    }

    /// Returns whether a port leads to routers (`br_rports_have_mc_router`).
    pub fn has_routers(&self) -> bool {
        self.ports.iter().any(|one| one.listed.contains(&true))
    }

    /// Returns the times at which timers expire.
    pub fn timers(&self) -> impl Iterator<Item = u64> + '_ {
        let own = self.own.iter().filter_map(|own| own.timer);
        let others = self.reach.others.iter().map(|other| other.load(Relaxed));
        let ports = self.ports.iter().flat_map(|one| {
            let own = one.own.iter().filter_map(|own| own.timer);
            own.chain(one.timers.into_iter().flatten())
        });
        own.chain(others.filter(|time| *time != 0)).chain(ports)
    }
}
