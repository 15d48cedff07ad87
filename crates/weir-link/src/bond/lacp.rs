// SPDX-License-Identifier: Apache-2.0 OR MIT
//! 802.3ad: LACP and the choice of the aggregator (IEEE 802.1AX clause 6.4, `bond_3ad.c`).
//!
//! | file | contents |
//! |---|---|
//! | here | ports, aggregators and the choice of one, the machines of selection and multiplexing |
//! | `port` | the other machines of a port |
//! | [`pdu`] | what LACPDUs and markers say |
//! | [`count`] | counters of frames |
//! | [`run`] | the timer, received frames, what the machines decide is done |
//!
//! The machines run every 100 ms while the bond is up. Each port has an aggregator of its own, which other ports may
//! join; one aggregator is active. What the machines decide is collected as [`Action`]s and done when the lock is
//! free. Left out: the last LACPDU of a port that is released, which goes down at once.

pub mod count;
pub mod pdu;
mod port;
pub mod run;

use weir_netlink::ifla::bond as attr;

use self::count::{Count, Counts};
use self::pdu::bits::{ACTIVITY, AGGREGATION, COLLECTING, DISTRIBUTING, SYNC, TIMEOUT};
use self::pdu::{End, NOBODY, Pdu};
use super::config::Params;
use crate::device::{DeviceKey, Mac};

/// The interval of the machines in ms (`AD_TIMER_INTERVAL`).
pub const INTERVAL_MS: u64 = 100;
/// Intervals in a second.
const SECOND: u32 = 10;
/// `AD_SLOW_PERIODIC_TIME`
const SLOW: u32 = 30 * SECOND;
/// `AD_SHORT_TIMEOUT_TIME`
const SHORT_TIMEOUT: u32 = 3 * SECOND;
/// `AD_LONG_TIMEOUT_TIME`
const LONG_TIMEOUT: u32 = 90 * SECOND;
/// `AD_AGGREGATE_WAIT_TIME`
const WAIT: u32 = 2 * SECOND;
/// `AD_CHURN_DETECTION_TIME`
const CHURN: u32 = 60 * SECOND;
/// Intervals between two frames (`AD_MAX_TX_IN_SECOND`).
const PACE: u32 = SECOND / 3;
/// Intervals before the first choice of an aggregator (`AD_AGGREGATOR_SELECTION_TIMER`).
const FIRST_CHOICE: u32 = 8 * SECOND;
/// `BOND_AD_STABLE`
const STABLE: u32 = 0;
/// `BOND_AD_COUNT`
const COUNT: u32 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Receive {
    /// Nothing has happened yet.
    New,
    Initialize,
    Disabled,
    NoLacp,
    Expired,
    Defaulted,
    Current,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Periodic {
    No,
    Fast,
    Slow,
    Transmit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mux {
    /// Nothing has happened yet.
    New,
    Detached,
    Waiting,
    Attached,
    Open,
}

/// A churn machine of one end (`churn_state_t`).
#[derive(Clone, Copy, Debug, Default)]
pub struct Churn {
    /// Nothing happened for 60 s: whether the end did not synchronize.
    pub ended: Option<bool>,
    /// How often the end did not synchronize.
    pub count: u16,
    timer: u32,
}

impl Churn {
    fn begin(&mut self) {
        (self.ended, self.timer) = (None, CHURN);
    }

    fn step(&mut self, syncs: bool) {
        if self.timer == 0 {
            return;
        }
        self.timer -= 1;
        if self.timer == 0 && self.ended.is_none() {
            self.count = self.count.wrapping_add(u16::from(!syncs));
            self.ended = Some(!syncs);
        }
    }
}

/// What is to be done for a port.
#[derive(Debug, PartialEq, Eq)]
pub enum Action {
    /// Frames may pass.
    Enable(DeviceKey),
    /// No frames may pass.
    Disable(DeviceKey),
    /// A frame leaves.
    Send(DeviceKey, Vec<u8>),
}

/// What a bond knows of a port's link.
#[derive(Clone, Copy, Debug, Default)]
pub struct Look {
    /// The monitor holds the link for up.
    pub has_link: bool,
    /// The device is up and has a carrier.
    pub running: bool,
    /// Frames pass.
    pub open: bool,
    /// In Mbit/s, or `u32::MAX`.
    pub speed: u32,
    /// `DUPLEX_*`
    pub duplex: u8,
}

/// A port (`struct port`).
#[derive(Debug)]
pub struct Port {
    /// The device.
    pub key: DeviceKey,
    /// The permanent address, from which frames are sent.
    mac: Mac,
    /// Our end.
    pub actor: End,
    /// The other end.
    pub partner: End,
    /// The number of the aggregator that the port has joined, or 0.
    pub aggregator: u16,
    /// The churn machines of our end and of the partner's.
    pub churn: [Churn; 2],
    look: Look,
    /// `AD_PORT_BEGIN`
    begin: bool,
    /// `AD_PORT_CHURNED`
    churned: bool,
    /// The link is up (`is_enabled`).
    enabled: bool,
    /// `AD_PORT_LACP_ENABLED`
    lacp: bool,
    selected: bool,
    /// `AD_PORT_READY_N`
    waited: bool,
    /// `AD_PORT_READY`
    ready: bool,
    /// `ntt`: a frame is to leave.
    due: bool,
    receive: Receive,
    receive_timer: u32,
    periodic: Periodic,
    periodic_timer: u32,
    mux: Mux,
    mux_timer: u32,
    transmit_timer: u32,
    counts: Counts,
}

/// An aggregator (`struct aggregator`), which belongs to one port.
#[derive(Clone, Debug, Default)]
pub struct Aggregator {
    /// The number.
    pub id: u16,
    active: bool,
    individual: bool,
    /// The key of its ports.
    pub key: u16,
    /// The partner's system.
    pub partner: Mac,
    partner_priority: u16,
    /// The partner's key.
    pub partner_key: u16,
    /// The ports that have joined, the last first (`lag_ports`).
    ports: Vec<DeviceKey>,
}

impl Aggregator {
    fn has_partner(&self) -> bool {
        self.partner != [0; 6]
    }

    /// `ad_clear_agg`
    fn clear(&mut self) {
        *self = Self {
            id: self.id,
            ..Self::default()
        };
    }
}

/// The settings that the machines use.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// The address of the system.
    pub system: Mac,
    /// `AD_ACTOR_SYS_PRIO`
    pub priority: u16,
    /// `AD_USER_PORT_KEY`
    pub user_key: u16,
    /// `AD_LACP_RATE`
    pub fast: bool,
    /// `AD_LACP_ACTIVE`
    pub active: bool,
    /// `AD_SELECT`
    pub select: u32,
}

impl Setup {
    /// Reads the settings of a bond with an address.
    pub fn of(params: &Params, address: Mac) -> Self {
        let own = params.lists().system;
        Self {
            system: if own == [0; 6] { address } else { own },
            priority: params.get(attr::AD_ACTOR_SYS_PRIO) as u16,
            user_key: params.get(attr::AD_USER_PORT_KEY) as u16,
            fast: params.get(attr::AD_LACP_RATE) != 0,
            active: params.get(attr::AD_LACP_ACTIVE) != 0,
            select: params.get(attr::AD_SELECT),
        }
    }
}

/// All ports and aggregators of a bond (`struct ad_bond_info`).
#[derive(Debug, Default)]
pub struct Lacp {
    ports: Vec<Port>,
    /// One for each port, in the same order.
    aggregators: Vec<Aggregator>,
    /// The system of the bond, taken with the first port and when a setting changes.
    system: (u16, Mac),
    /// The number of the newest aggregator.
    newest: u16,
    /// The intervals until the next choice of the aggregator.
    choice: u32,
    select: u32,
    actions: Vec<Action>,
    /// Those of all ports together.
    counts: Counts,
}

/// Returns the part of the key that stands for a speed (`__get_link_speed`).
fn speed_key(speed: u32) -> u16 {
    const SPEEDS: [u32; 17] = [
        1, 10, 100, 1000, 2500, 5000, 10_000, 14_000, 20_000, 25_000, 40_000, 50_000, 56_000,
        100_000, 200_000, 400_000, 800_000,
    ];
    let at = SPEEDS.iter().skip(1).position(|known| *known == speed);
    at.map_or(0, |at| at as u16 + 2)
}

impl Lacp {
    /// Adds a port (`bond_3ad_initialize` with the first, `bond_3ad_bind_slave`).
    pub fn add(&mut self, key: DeviceKey, mac: Mac, setup: &Setup, look: Look) {
        if self.ports.is_empty() {
            self.system = (setup.priority, setup.system);
            self.choice = FIRST_CHOICE;
            self.newest = 0;
        }
        self.newest = self.newest.wrapping_add(1);
        let last = self.ports.last().map_or(0, |last| last.actor.number);
        let mut port = Port {
            key,
            mac,
            actor: End {
                system_priority: self.system.0,
                system: self.system.1,
                key: setup.user_key << 6,
                priority: 0xff,
                number: last.wrapping_add(1),
                state: AGGREGATION,
            },
            partner: NOBODY,
            aggregator: 0,
            churn: Default::default(),
            look,
            begin: true,
            churned: false,
            enabled: true,
            lacp: true,
            selected: false,
            waited: false,
            ready: false,
            due: false,
            receive: Receive::New,
            receive_timer: 0,
            periodic: Periodic::No,
            periodic_timer: 0,
            mux: Mux::New,
            mux_timer: 0,
            transmit_timer: PACE,
            counts: Counts::default(),
        };
        port.set(ACTIVITY, setup.active);
        port.set(TIMEOUT, setup.fast);
        port.set_key(false);
        self.ports.push(port);
        self.aggregators.push(Aggregator {
            id: self.newest,
            ..Aggregator::default()
        });
    }

    /// Removes a port and its aggregator, whose ports go to another one (`bond_3ad_unbind_slave`).
    pub fn remove(&mut self, key: DeviceKey) {
        let Some(at) = self.ports.iter().position(|port| port.key == key) else {
            return;
        };
        let alone = |aggregator: &Aggregator| aggregator.ports == [key];
        if alone(&self.aggregators[at]) {
            let was_active = self.aggregators[at].active;
            self.aggregators[at].clear();
            if was_active {
                self.choose();
            }
        } else if !self.aggregators[at].ports.is_empty() {
            let mut others = self.aggregators.iter();
            let heir = others.position(|other| other.ports.is_empty() || alone(other));
            if let Some(heir) = heir {
                let reselects = alone(&self.aggregators[heir]) && self.aggregators[heir].active;
                let id = self.aggregators[heir].id;
                let old = std::mem::take(&mut self.aggregators[at]);
                for port in &mut self.ports {
                    if old.ports.contains(&port.key) {
                        port.aggregator = id;
                    }
                }
                self.aggregators[at].id = old.id;
                self.aggregators[heir] = Aggregator { id, ..old };
                if reselects {
                    self.choose();
                }
            }
        }
        let joined = |aggregator: &Aggregator| aggregator.ports.contains(&key);
        if let Some(joined) = self.aggregators.iter().position(joined) {
            self.aggregators[joined].ports.retain(|port| *port != key);
            if self.live(joined) == 0 {
                let was_active = self.aggregators[joined].active;
                if self.aggregators[joined].ports.is_empty() {
                    self.aggregators[joined].clear();
                }
                if was_active {
                    self.choose();
                }
            }
        }
        self.ports.remove(at);
        self.aggregators.remove(at);
    }

    /// Returns the priority and the address of the system, zero before the first port.
    pub fn system(&self) -> (u16, Mac) {
        self.system
    }

    /// Returns the port of a device.
    pub fn port(&self, key: DeviceKey) -> Option<&Port> {
        self.ports.iter().find(|port| port.key == key)
    }

    /// Returns the active aggregator that ports have joined, with the number of those that have a link
    /// (`bond_3ad_get_active_agg_info`).
    pub fn active(&self) -> Option<(&Aggregator, u16)> {
        let mut all = self.aggregators.iter();
        let at = all.position(|one| one.active && !one.ports.is_empty())?;
        Some((self.aggregators.get(at)?, self.live(at) as u16))
    }

    /// Takes note of the links of all ports, and of `AD_SELECT`.
    pub fn look(&mut self, select: u32, look: impl Fn(DeviceKey) -> Option<Look>) {
        self.select = select;
        for port in &mut self.ports {
            port.look = look(port.key).unwrap_or_default();
        }
    }

    /// Follows the link of a port (`bond_3ad_handle_link_change`).
    pub fn link_changed(&mut self, key: DeviceKey, up: bool) {
        if let Some(port) = self.ports.iter_mut().find(|port| port.key == key) {
            port.enabled = up;
            port.set_key(!up);
            self.choose();
        }
    }

    /// Follows speed and duplex of a port (`bond_3ad_adapter_speed_duplex_changed`).
    pub fn speed_changed(&mut self, key: DeviceKey) {
        if let Some(port) = self.ports.iter_mut().find(|port| port.key == key) {
            port.set_key(false);
        }
    }

    /// Chooses the aggregator in the next interval (`bond_3ad_initiate_agg_selection`).
    pub fn choose_soon(&mut self) {
        self.choice = 1;
    }

    /// Follows the system and its priority (`bond_3ad_update_ad_actor_settings`).
    pub fn system_changed(&mut self, setup: &Setup) {
        self.system = (setup.priority, setup.system);
        for port in &mut self.ports {
            (port.actor.system_priority, port.actor.system) = self.system;
            port.due = true;
        }
    }

    /// Follows `AD_LACP_RATE` and `AD_LACP_ACTIVE` (`bond_3ad_update_lacp_rate`, `bond_3ad_update_lacp_active`).
    pub fn rate_changed(&mut self, setup: &Setup) {
        for port in &mut self.ports {
            port.set(TIMEOUT, setup.fast);
            port.set(ACTIVITY, setup.active);
        }
    }

    /// Takes what is to be done.
    pub fn take_actions(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.actions)
    }

    /// Takes a received LACPDU.
    pub fn received(&mut self, key: DeviceKey, pdu: &Pdu) {
        self.count(key, Count::LacpduRx);
        if let Some(port) = self.ports.iter_mut().find(|port| port.key == key) {
            port.receive(Some(pdu));
        }
    }

    /// Counts a frame of a port.
    pub fn count(&mut self, key: DeviceKey, what: Count) {
        if let Some(port) = self.ports.iter_mut().find(|port| port.key == key) {
            port.counts.add(what);
            self.counts.add(what);
        }
    }

    /// Returns the counters of a port, or those of the bond.
    pub fn counts(&self, port: Option<DeviceKey>) -> Counts {
        match port {
            Some(key) => self.port(key).map(|port| port.counts).unwrap_or_default(),
            None => self.counts,
        }
    }

    /// One interval of all machines (`bond_3ad_state_machine_handler`).
    pub fn tick(&mut self) {
        if self.ports.is_empty() {
            return;
        }
        if self.choice > 0 {
            self.choice -= 1;
            if self.choice == 0 {
                self.choose();
            }
        }
        for at in 0..self.ports.len() {
            self.ports[at].receive(None);
            self.ports[at].periodic();
            if !self.ports[at].selected {
                self.select(at);
            }
            self.mux(at);
            let port = &mut self.ports[at];
            if let Some(frame) = port.transmit() {
                port.counts.add(Count::LacpduTx);
                self.counts.add(Count::LacpduTx);
                self.actions.push(Action::Send(port.key, frame));
            }
            port.churn();
            port.begin = false;
        }
    }

    /// Returns the place of the aggregator that a port has joined.
    fn joined(&self, at: usize) -> Option<usize> {
        let id = self.ports[at].aggregator;
        self.aggregators.iter().position(|one| one.id == id)
    }

    /// Returns the ports of an aggregator, the last that joined first.
    fn members(&self, at: usize) -> impl Iterator<Item = &Port> {
        let keys = self.aggregators[at].ports.iter();
        keys.filter_map(|key| self.port(*key))
    }

    /// Counts the ports of an aggregator that have a link (`__agg_active_ports`).
    fn live(&self, at: usize) -> usize {
        self.members(at).filter(|port| port.enabled).count()
    }

    /// `__agg_ports_are_ready`, `__set_agg_ports_ready`
    fn settle_ready(&mut self, at: usize) {
        let ready = self.members(at).all(|port| port.waited);
        let keys = self.aggregators[at].ports.clone();
        for port in &mut self.ports {
            if keys.contains(&port.key) {
                port.ready = ready;
            }
        }
    }

    /// Puts a port into an aggregator (`ad_port_selection_logic`).
    fn select(&mut self, at: usize) {
        let key = self.ports[at].key;
        if let Some(old) = self.joined(at) {
            self.aggregators[old].ports.retain(|port| *port != key);
            self.ports[at].aggregator = 0;
            if self.aggregators[old].ports.is_empty() {
                self.aggregators[old].clear();
            }
        }
        let port = &self.ports[at];
        let partner = port.partner;
        let (mut free, mut found) = (None, None);
        for (place, aggregator) in self.aggregators.iter().enumerate() {
            if aggregator.ports.is_empty() {
                free = free.or(Some(place));
            } else if aggregator.key == port.actor.key
                && aggregator.partner == partner.system
                && aggregator.partner_priority == partner.system_priority
                && aggregator.partner_key == partner.key
                && aggregator.has_partner()
                && !aggregator.individual
            {
                found = Some(place);
                break;
            }
        }
        // There are as many aggregators as ports, so one of them is free.
        let Some(place) = found.or(free) else { return };
        let aggregator = &mut self.aggregators[place];
        if found.is_none() {
            *aggregator = Aggregator {
                id: aggregator.id,
                active: aggregator.active,
                individual: !port.is_duplex(),
                key: port.actor.key,
                partner: partner.system,
                partner_priority: partner.system_priority,
                partner_key: partner.key,
                ports: Vec::new(),
            };
        }
        aggregator.ports.insert(0, key);
        self.ports[at].aggregator = aggregator.id;
        self.ports[at].selected = true;
        self.settle_ready(place);
        self.choose();
        if !self.aggregators[place].active {
            self.ports[at].set(SYNC, false);
        }
    }

    /// `__get_agg_bandwidth`
    fn bandwidth(&self, at: usize) -> u64 {
        let first = self.members(at).next();
        let first = first.filter(|port| port.look.has_link && speed_key(port.look.speed) != 0);
        let speed = first.map_or(0, |port| u64::from(port.look.speed));
        self.live(at) as u64 * speed
    }

    /// Returns whether an aggregator is better than another one (`ad_agg_selection_test`).
    fn is_better(&self, new: usize, old: usize) -> bool {
        let (one, other) = (&self.aggregators[new], &self.aggregators[old]);
        if one.individual != other.individual {
            return other.individual;
        }
        if one.has_partner() != other.has_partner() {
            return one.has_partner();
        }
        let (ports, before) = (self.live(new), self.live(old));
        match self.select {
            COUNT if ports != before => ports > before,
            _ => self.bandwidth(new) > self.bandwidth(old),
        }
    }

    /// Chooses the active aggregator (`ad_agg_selection_logic`).
    fn choose(&mut self) {
        let runs = |at| self.members(at).any(|port| port.look.running);
        let before = self.aggregators.iter().position(|one| one.active);
        let mut best = before.filter(|at| runs(*at));
        for at in 0..self.aggregators.len() {
            if self.live(at) > 0
                && runs(at)
                && best.is_none_or(|best| best != at && self.is_better(at, best))
            {
                best = Some(at);
            }
        }
        if let (Some(new), Some(old), STABLE) = (best, before, self.select) {
            let (one, other) = (&self.aggregators[new], &self.aggregators[old]);
            let keeps = self.live(old) > 0
                && (other.has_partner() || !one.has_partner())
                && (other.key != 0 || one.key == 0);
            if keeps {
                best = before;
            }
        }
        for (at, one) in self.aggregators.iter_mut().enumerate() {
            one.active = Some(at) == best;
        }
        let keys = |at: Option<usize>| at.map(|at| self.aggregators[at].ports.clone());
        if best.is_some() && best != before {
            for key in keys(before).into_iter().flatten() {
                self.actions.push(Action::Disable(key));
            }
        }
        // Ports without a partner pass frames all the same.
        if best.is_some_and(|best| !self.aggregators[best].has_partner()) {
            for key in self.aggregators[best.unwrap_or(0)].ports.clone() {
                self.enable(key);
            }
        }
    }

    /// `__enable_port`
    fn enable(&mut self, key: DeviceKey) {
        let port = self.ports.iter_mut().find(|port| port.key == key);
        if let Some(port) = port.filter(|port| port.look.has_link && port.look.running) {
            port.look.open = true;
            self.actions.push(Action::Enable(key));
        }
    }

    /// `ad_disable_collecting_distributing`
    fn disable(&mut self, at: usize) {
        let joined = self.joined(at);
        if joined.is_some_and(|joined| self.aggregators[joined].has_partner()) {
            self.ports[at].look.open = false;
            self.actions.push(Action::Disable(self.ports[at].key));
        }
    }

    /// Returns the state that the mux machine goes to.
    fn next_mux(&mut self, at: usize) -> Mux {
        let joined = self.joined(at);
        let active = joined.is_some_and(|joined| self.aggregators[joined].active);
        let port = &mut self.ports[at];
        let syncs = port.partner.state & SYNC != 0;
        match port.mux {
            _ if port.begin => Mux::Detached,
            Mux::Detached if port.selected => Mux::Waiting,
            Mux::Detached | Mux::New => port.mux,
            Mux::Attached if port.selected && syncs && self.choice == 0 => match active {
                true => Mux::Open,
                false => Mux::Attached,
            },
            Mux::Waiting | Mux::Attached if !port.selected => {
                port.waited = false;
                if let Some(joined) = joined {
                    self.settle_ready(joined);
                }
                Mux::Detached
            }
            Mux::Waiting => {
                if port.mux_timer > 0 {
                    port.mux_timer -= 1;
                    port.waited |= port.mux_timer == 0;
                }
                if let Some(joined) = joined {
                    self.settle_ready(joined);
                }
                let port = &self.ports[at];
                match port.ready && port.mux_timer == 0 {
                    true => Mux::Attached,
                    false => Mux::Waiting,
                }
            }
            Mux::Attached => {
                port.actor.state |= if active { SYNC } else { 0 };
                Mux::Attached
            }
            Mux::Open if !port.selected || !syncs || port.actor.state & SYNC == 0 => Mux::Attached,
            Mux::Open => {
                if active && !port.look.open {
                    let key = port.key;
                    self.enable(key);
                }
                Mux::Open
            }
        }
    }

    /// The mux machine (`ad_mux_machine`).
    fn mux(&mut self, at: usize) {
        let next = self.next_mux(at);
        let joined = self.joined(at);
        let active = joined.is_some_and(|joined| self.aggregators[joined].active);
        let port = &mut self.ports[at];
        if std::mem::replace(&mut port.mux, next) == next {
            return;
        }
        match next {
            Mux::Detached => {
                port.set(SYNC | COLLECTING | DISTRIBUTING, false);
                port.due = true;
                self.disable(at);
            }
            Mux::New => {}
            Mux::Waiting => port.mux_timer = WAIT,
            Mux::Attached => {
                port.set(SYNC, active);
                port.set(COLLECTING | DISTRIBUTING, false);
                port.due = true;
                self.disable(at);
            }
            Mux::Open => {
                port.set(SYNC | COLLECTING | DISTRIBUTING, true);
                port.due = true;
                let key = port.key;
                if active {
                    self.enable(key);
                }
            }
        }
    }
}
