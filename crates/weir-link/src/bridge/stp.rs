// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The spanning tree protocol of IEEE 802.1D-1998 (`br_stp.c`, `br_stp_if.c`, `br_stp_timer.c`).
//!
//! [`Stp`] has the variables of the bridge and of its ports; [`Step`] is one event under the lock of the variables: a
//! BPDU, a timer, a request, a port that comes or goes. A step changes states of ports at once and collects what
//! follows ([`Effect`]): BPDUs to send, notifications, addresses to forget. `stp/run` carries that out when the lock is
//! free again.
//!
//! | file | contents |
//! |---|---|
//! | `stp/bpdu` | BPDUs on the wire |
//! | `stp/run` | locks, timers, effects |
//!
//! Without the protocol (`stp_state 0`) the same steps run, as in Linux: every enabled port is designated and forwards
//! at once. Times are ns of the stack's clock.
//!
//! Not implemented: a protocol in user space (`stp_state 2`), rapid and multiple spanning trees.

pub mod bpdu;
mod run;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use self::bpdu::Config;
use super::config::TICK;
use super::port::{Port, state};
use crate::clock::{SECOND, TimerId};
use crate::device::Mac;

/// A bridge identifier: two octets of priority and six of address (`struct bridge_id`).
pub type Id = [u8; 8];

/// The shortest and the longest forward delay in ns with the protocol on (`BR_MIN_FORWARD_DELAY`).
pub const FORWARD_DELAYS: std::ops::RangeInclusive<u64> = 2 * SECOND..=30 * SECOND;
/// The shortest time between two configuration BPDUs of a port (`BR_HOLD_TIME`).
const HOLD: u64 = SECOND;
/// What a bridge adds to the age of the root's message (`MESSAGE_AGE_INCR`).
const AGE_INCREMENT: u64 = SECOND / bpdu::HZ;

/// The three times of a bridge, in ns.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    /// The age at which a BPDU's information ends.
    pub max_age: u64,
    /// The interval of configuration BPDUs.
    pub hello: u64,
    /// The time in each of the states listening and learning.
    pub delay: u64,
}

/// The variables of a port.
pub struct Member {
    port: Arc<Port>,
    id: u16,
    root: Id,
    cost: u32,
    bridge: Id,
    designated: u16,
    /// When the root sent what the port knows.
    since: u64,
    acknowledges: bool,
    pending: bool,
    message_age: Option<u64>,
    forward_delay: Option<u64>,
    hold: Option<u64>,
    /// `struct bridge_stp_xstats`: to blocking, to forwarding, BPDUs received and sent, notifications received and
    /// sent.
    counts: [u64; 6],
}

/// What attributes of a port show.
#[derive(Debug, Clone, Default)]
pub struct View {
    /// `BR_STATE_*`
    pub state: u8,
    /// The root that the port knows.
    pub root: Id,
    /// The bridge that is designated for the port's network.
    pub bridge: Id,
    /// The port of that bridge.
    pub designated: u16,
    /// The cost from there to the root.
    pub cost: u32,
    /// The port's identifier.
    pub id: u16,
    /// The next BPDU acknowledges a topology change.
    pub acknowledges: bool,
    /// A BPDU waits for the hold timer.
    pub pending: bool,
    /// The ticks until the end of message age, forward delay and hold time, 0 if they do not run.
    pub timers: [u64; 3],
    /// `struct bridge_stp_xstats`
    pub counts: [u64; 6],
}

/// What attributes of the bridge show.
#[derive(Debug, Clone)]
pub struct BridgeView {
    /// `stp_state`
    pub enabled: bool,
    /// The identifier.
    pub id: Id,
    /// The root.
    pub root: Id,
    /// The number of the port towards it, or 0.
    pub root_port: u16,
    /// The cost of the path to it.
    pub root_cost: u32,
    /// The times in effect.
    pub times: Times,
    /// The root says that the topology changes.
    pub change: bool,
    /// The bridge found that the topology changed.
    pub detected: bool,
    /// The ticks until hello, topology change notification and end of the topology change.
    pub timers: [u64; 3],
}

/// The variables of a bridge.
pub struct Stp {
    enabled: bool,
    id: Id,
    root: Id,
    root_cost: u32,
    root_port: u16,
    /// The bridge's own times.
    own: Times,
    /// The root's times.
    times: Times,
    change: bool,
    detected: bool,
    hello: Option<u64>,
    notification: Option<u64>,
    end_of_change: Option<u64>,
    /// The newest port first.
    members: Vec<Member>,
    armed: Option<TimerId>,
}

impl Stp {
    /// Returns the state of a new bridge with this address.
    pub fn new(mac: Mac) -> Self {
        let [a, b, c, d, e, f] = mac;
        let times = Times {
            max_age: 20 * SECOND,
            hello: 2 * SECOND,
            delay: 15 * SECOND,
        };
        Self {
            enabled: false,
            id: [0x80, 0, a, b, c, d, e, f],
            root: [0; 8],
            root_cost: 0,
            root_port: 0,
            own: times,
            times,
            change: false,
            detected: false,
            hello: None,
            notification: None,
            end_of_change: None,
            members: Vec::new(),
            armed: None,
        }
    }

    /// Returns whether the protocol is on.
    pub fn is_on(&self) -> bool {
        self.enabled
    }

    /// Returns the address in the identifier.
    pub fn mac(&self) -> Mac {
        let [_, _, a, b, c, d, e, f] = self.id;
        [a, b, c, d, e, f]
    }

    fn is_root(&self) -> bool {
        self.id == self.root
    }

    fn is_designated(&self, at: usize) -> bool {
        let member = self.members.get(at);
        member.is_some_and(|member| member.bridge == self.id && member.designated == member.id)
    }

    fn place(&self, number: u16) -> Option<usize> {
        let mut members = self.members.iter();
        members.position(|member| member.port.number == number)
    }

    /// Returns what the attributes of a port show.
    pub fn view(&self, port: &Port, now: u64) -> View {
        let Some(member) = self.place(port.number).and_then(|at| self.members.get(at)) else {
            return View {
                state: port.state.load(Relaxed),
                id: port.id(),
                ..View::default()
            };
        };
        View {
            state: port.state.load(Relaxed),
            root: member.root,
            bridge: member.bridge,
            designated: member.designated,
            cost: member.cost,
            id: member.id,
            acknowledges: member.acknowledges,
            pending: member.pending,
            timers: [member.message_age, member.forward_delay, member.hold]
                .map(|time| ticks_until(time, now)),
            counts: member.counts,
        }
    }

    /// Returns what the attributes of the bridge show.
    pub fn bridge_view(&self, now: u64) -> BridgeView {
        BridgeView {
            enabled: self.enabled,
            id: self.id,
            root: self.root,
            root_port: self.root_port,
            root_cost: self.root_cost,
            times: self.times,
            change: self.change,
            detected: self.detected,
            timers: [self.hello, self.notification, self.end_of_change]
                .map(|time| ticks_until(time, now)),
        }
    }

    /// Returns the time of the next timer.
    fn next(&self) -> Option<u64> {
        let ports = self.members.iter();
        let ports =
            ports.flat_map(|member| [member.message_age, member.forward_delay, member.hold]);
        let own = [self.hello, self.notification, self.end_of_change];
        own.into_iter().chain(ports).flatten().min()
    }
}

fn ticks_until(time: Option<u64>, now: u64) -> u64 {
    time.map_or(0, |time| time.saturating_sub(now) / TICK)
}

/// What follows from a step.
pub enum Effect {
    /// A BPDU leaves by a port.
    Send(Arc<Port>, Vec<u8>),
    /// The listeners hear of a port.
    Announce(Arc<Port>, View),
    /// The learned addresses of a port are forgotten.
    Flush(u16),
    /// The groups behind a port are snooped, or forgotten.
    Snoop(u16, bool),
    /// The state of a port was set.
    Follow(Arc<Port>),
    /// Some port forwards, or none.
    Carrier(bool),
    /// Addresses age after another time: whether the topology changes, and the forward delay in ns.
    Ageing(bool, u64),
}

/// One event; see the module documentation.
pub struct Step<'a> {
    stp: &'a mut Stp,
    now: u64,
    /// The bridge is up.
    up: bool,
    out: Vec<Effect>,
}

impl Step<'_> {
    fn announce(&mut self, at: usize) {
        if let Some(member) = self.stp.members.get(at) {
            let view = self.stp.view(&member.port, self.now);
            self.out.push(Effect::Announce(member.port.clone(), view));
        }
    }

    /// Sets the state of a port (`br_set_state`).
    fn set(&mut self, at: usize, to: u8) {
        let counts = self.stp.enabled;
        if let Some(member) = self.stp.members.get_mut(at) {
            member.port.state.store(to, Relaxed);
            self.out.push(Effect::Follow(member.port.clone()));
            if counts && to == state::BLOCKING {
                member.counts[0] += 1;
            } else if counts && to == state::FORWARDING {
                member.counts[1] += 1;
            }
        }
    }

    fn state(&self, at: usize) -> u8 {
        let member = self.stp.members.get(at);
        member.map_or(state::DISABLED, |member| member.port.state.load(Relaxed))
    }

    /// Returns whether a port is the better root port (`br_should_become_root_port`).
    fn is_better_root(&self, at: usize, known: Option<usize>) -> bool {
        if self.state(at) == state::DISABLED || self.stp.is_designated(at) {
            return false;
        }
        let Some(member) = self.stp.members.get(at) else {
            return false;
        };
        if self.stp.id <= member.root {
            return false;
        }
        let rank = |member: &Member| {
            let cost = u64::from(member.cost) + u64::from(member.port.cost.load(Relaxed));
            (
                member.root,
                cost,
                member.bridge,
                member.designated,
                member.id,
            )
        };
        let known = known.and_then(|known| self.stp.members.get(known));
        known.is_none_or(|known| rank(member) < rank(known))
    }

    /// Chooses the root and the port towards it (`br_root_selection`).
    fn select_root(&mut self) {
        let mut root = None;
        for at in 0..self.stp.members.len() {
            if !self.is_better_root(at, root) {
                continue;
            }
            let Some(member) = self.stp.members.get(at) else {
                continue;
            };
            if member.port.has(weir_netlink::ifla::brport::PROTECT) {
                self.block_root(at);
            } else {
                root = Some(at);
            }
        }
        let stp = &mut *self.stp;
        match root.and_then(|at| stp.members.get(at)) {
            None => (stp.root_port, stp.root, stp.root_cost) = (0, stp.id, 0),
            Some(member) => {
                stp.root_port = member.port.number;
                stp.root = member.root;
                stp.root_cost = member.cost.saturating_add(member.port.cost.load(Relaxed));
            }
        }
    }

    /// Keeps a port with `root_block` from becoming the root port (`br_root_port_block`).
    fn block_root(&mut self, at: usize) {
        self.set(at, state::LISTENING);
        self.announce(at);
        self.start_delay(at);
    }

    fn start_delay(&mut self, at: usize) {
        let delay = self.stp.times.delay;
        if delay != 0
            && let Some(member) = self.stp.members.get_mut(at)
        {
            member.forward_delay = Some(self.now + delay);
        }
    }

    fn become_designated(&mut self, at: usize) {
        let stp = &mut *self.stp;
        if let Some(member) = stp.members.get_mut(at) {
            (member.root, member.cost) = (stp.root, stp.root_cost);
            (member.bridge, member.designated) = (stp.id, member.id);
        }
    }

    /// Returns whether the bridge is better for a port's network than the one that the port knows
    /// (`br_should_become_designated_port`).
    fn should_be_designated(&self, at: usize) -> bool {
        let stp = &*self.stp;
        let Some(member) = stp.members.get(at) else {
            return false;
        };
        stp.is_designated(at)
            || member.root != stp.root
            || (stp.root_cost, stp.id, member.id) < (member.cost, member.bridge, member.designated)
    }

    /// Chooses root port and designated ports (`br_configuration_update`).
    fn update(&mut self) {
        self.select_root();
        for at in 0..self.stp.members.len() {
            if self.state(at) != state::DISABLED && self.should_be_designated(at) {
                self.become_designated(at);
            }
        }
    }

    /// Notes a change of the topology, which shortens the age of addresses (`__br_set_topology_change`).
    fn set_change(&mut self, change: bool) {
        if self.stp.change != change {
            self.stp.change = change;
            let delay = self.stp.times.delay;
            self.out.push(Effect::Ageing(change, delay));
        }
    }

    /// Begins to tell the others that the topology changed (`br_topology_change_detection`).
    fn detect_change(&mut self) {
        if !self.stp.enabled {
            return;
        }
        if self.stp.is_root() {
            self.set_change(true);
            let own = self.stp.own;
            self.stp.end_of_change = Some(self.now + own.delay + own.max_age);
        } else if !self.stp.detected {
            self.notify_root();
            self.stp.notification = Some(self.now + self.stp.own.hello);
        }
        self.stp.detected = true;
    }

    /// Sends a topology change notification (`br_transmit_tcn`).
    fn notify_root(&mut self) {
        let enabled = self.stp.enabled;
        if let Some(at) = self.stp.place(self.stp.root_port)
            && let Some(member) = self.stp.members.get_mut(at)
            && enabled
        {
            member.counts[5] += 1;
            self.out
                .push(Effect::Send(member.port.clone(), bpdu::notification()));
        }
    }

    /// Sends a configuration BPDU by a port, or notes that one is due (`br_transmit_config`).
    fn transmit(&mut self, at: usize) {
        let stp = &mut *self.stp;
        let root_since = stp.place(stp.root_port).and_then(|at| stp.members.get(at));
        let age = match (stp.id == stp.root, root_since) {
            (false, Some(member)) => self.now.saturating_sub(member.since) + AGE_INCREMENT,
            _ => 0,
        };
        let Some(member) = stp.members.get_mut(at) else {
            return;
        };
        if member.hold.is_some() {
            member.pending = true;
            return;
        }
        if age >= stp.times.max_age {
            return;
        }
        if stp.enabled {
            let config = Config {
                change: stp.change,
                acknowledges: member.acknowledges,
                root: stp.root,
                cost: stp.root_cost,
                bridge: stp.id,
                port: member.id,
                age,
                times: stp.times,
            };
            member.counts[3] += 1;
            self.out
                .push(Effect::Send(member.port.clone(), config.to_octets()));
        }
        (member.acknowledges, member.pending) = (false, false);
        member.hold = Some(self.now + HOLD);
    }

    /// Sends configuration BPDUs by all designated ports (`br_config_bpdu_generation`).
    fn transmit_all(&mut self) {
        for at in 0..self.stp.members.len() {
            if self.state(at) != state::DISABLED && self.stp.is_designated(at) {
                self.transmit(at);
            }
        }
    }

    fn block(&mut self, at: usize) {
        let was = self.state(at);
        if matches!(was, state::DISABLED | state::BLOCKING) {
            return;
        }
        if matches!(was, state::FORWARDING | state::LEARNING) {
            self.detect_change();
        }
        self.set(at, state::BLOCKING);
        self.announce(at);
        if let Some(member) = self.stp.members.get_mut(at) {
            member.forward_delay = None;
        }
    }

    fn unblock(&mut self, at: usize) {
        if self.state(at) != state::BLOCKING {
            return;
        }
        if self.stp.enabled && self.stp.times.delay != 0 {
            self.set(at, state::LISTENING);
        } else {
            self.set(at, state::FORWARDING);
            self.detect_change();
            if let Some(member) = self.stp.members.get_mut(at) {
                member.forward_delay = None;
            }
        }
        self.announce(at);
        self.start_delay(at);
    }

    /// Unblocks the root port and designated ports, blocks the others, and derives the carrier
    /// (`br_port_state_selection`).
    pub fn select(&mut self) {
        let mut live = false;
        for at in 0..self.stp.members.len() {
            if self.state(at) == state::DISABLED {
                continue;
            }
            let designated = self.stp.is_designated(at);
            let root_port = self.stp.root_port;
            let Some(member) = self.stp.members.get_mut(at) else {
                continue;
            };
            let is_root = member.port.number == root_port;
            if is_root || !designated {
                (member.pending, member.acknowledges) = (false, false);
            } else {
                member.message_age = None;
            }
            if is_root || designated {
                self.unblock(at);
            } else {
                self.block(at);
            }
            live |= self.state(at) == state::FORWARDING;
            if self.state(at) != state::BLOCKING {
                let number = self
                    .stp
                    .members
                    .get(at)
                    .map_or(0, |member| member.port.number);
                self.out.push(Effect::Snoop(number, true));
            }
        }
        self.out.push(Effect::Carrier(live));
    }

    /// Begins to be the root (`br_become_root_bridge`).
    fn become_root(&mut self) {
        self.stp.times = self.stp.own;
        self.detect_change();
        self.stp.notification = None;
        if self.up {
            self.transmit_all();
            self.stp.hello = Some(self.now + self.stp.times.hello);
        }
    }

    /// Chooses and selects anew. A bridge that was not the root may become it.
    fn settle(&mut self, was_root: bool) {
        self.update();
        self.select();
        if self.stp.is_root() && !was_root {
            self.become_root();
        }
    }

    /// Adds a port, disabled (`new_nbp`).
    pub fn add(&mut self, port: &Arc<Port>) {
        let member = Member {
            port: port.clone(),
            id: port.id(),
            root: self.stp.root,
            cost: self.stp.root_cost,
            bridge: self.stp.id,
            designated: port.id(),
            since: self.now,
            acknowledges: false,
            pending: false,
            message_age: None,
            forward_delay: None,
            hold: None,
            counts: [0; 6],
        };
        self.stp.members.insert(0, member);
    }

    /// Removes a port, which is disabled.
    pub fn remove(&mut self, port: &Port) {
        let members = &mut self.stp.members;
        members.retain(|member| member.port.number != port.number);
    }

    /// Enables a port (`br_stp_enable_port`).
    pub fn enable(&mut self, port: &Port) {
        let Some(at) = self.stp.place(port.number) else {
            return;
        };
        if let Some(member) = self.stp.members.get_mut(at) {
            member.id = port.id();
        }
        self.become_designated(at);
        self.set(at, state::BLOCKING);
        if let Some(member) = self.stp.members.get_mut(at) {
            (member.acknowledges, member.pending) = (false, false);
        }
        self.select();
        self.announce(at);
    }

    /// Disables a port (`br_stp_disable_port`).
    pub fn disable(&mut self, port: &Port) {
        let Some(at) = self.stp.place(port.number) else {
            return;
        };
        let was_root = self.stp.is_root();
        self.become_designated(at);
        self.set(at, state::DISABLED);
        if let Some(member) = self.stp.members.get_mut(at) {
            (member.acknowledges, member.pending) = (false, false);
        }
        self.announce(at);
        if let Some(member) = self.stp.members.get_mut(at) {
            (member.message_age, member.forward_delay, member.hold) = (None, None, None);
        }
        self.out.push(Effect::Flush(port.number));
        self.out.push(Effect::Snoop(port.number, false));
        self.settle(was_root);
    }

    /// Begins when the bridge goes up (`br_stp_enable_bridge`).
    pub fn begin(&mut self) {
        if self.stp.enabled {
            self.stp.hello = Some(self.now + self.stp.times.hello);
        }
        self.transmit_all();
    }

    /// Ends when the bridge goes down, after its ports (`br_stp_disable_bridge`).
    pub fn end(&mut self) {
        self.set_change(false);
        self.stp.detected = false;
        (self.stp.hello, self.stp.notification) = (None, None);
        self.stp.end_of_change = None;
    }

    /// Turns the protocol on or off (`br_stp_set_enabled`).
    pub fn turn(&mut self, on: bool) {
        if self.stp.enabled == on {
            return;
        }
        self.stp.enabled = on;
        if !on {
            return;
        }
        let delay = self.stp.own.delay;
        let bounded = delay.clamp(*FORWARD_DELAYS.start(), *FORWARD_DELAYS.end());
        if bounded != delay {
            let own = self.stp.own;
            self.set_times(Times {
                delay: bounded,
                ..own
            });
        }
        if self.up {
            self.stp.hello = Some(self.now + self.stp.times.hello);
        }
        self.select();
    }

    /// Returns the bridge's own times.
    pub fn own_times(&self) -> Times {
        self.stp.own
    }

    /// Sets the bridge's own times.
    pub fn set_times(&mut self, times: Times) {
        self.stp.own = times;
        if self.stp.is_root() {
            self.stp.times = times;
        }
    }

    /// Sets the priority of the bridge (`br_stp_set_bridge_priority`).
    pub fn set_priority(&mut self, priority: u16) {
        let was_root = self.stp.is_root();
        let [high, low] = priority.to_be_bytes();
        for at in 0..self.stp.members.len() {
            let designated = self.stp.is_designated(at);
            if self.state(at) != state::DISABLED
                && designated
                && let Some(member) = self.stp.members.get_mut(at)
            {
                member.bridge[..2].copy_from_slice(&[high, low]);
            }
        }
        self.stp.id[..2].copy_from_slice(&[high, low]);
        self.settle(was_root);
    }

    /// Sets the address of the bridge (`br_stp_change_bridge_id`).
    pub fn set_address(&mut self, mac: Mac) {
        let was_root = self.stp.is_root();
        let old = self.stp.mac();
        self.stp.id[2..].copy_from_slice(&mac);
        for member in &mut self.stp.members {
            for id in [&mut member.bridge, &mut member.root] {
                if id[2..] == old {
                    id[2..].copy_from_slice(&mac);
                }
            }
        }
        self.settle(was_root);
    }

    /// Sets the state of a port as a request asks for it (`br_set_port_state`).
    pub fn set_by_hand(&mut self, port: &Port, to: u8) {
        if let Some(at) = self.stp.place(port.number) {
            self.set(at, to);
            self.select();
        }
    }

    /// Follows a new priority of a port (`br_stp_set_port_priority`).
    pub fn port_priority(&mut self, port: &Port) {
        let Some(at) = self.stp.place(port.number) else {
            return;
        };
        let designated = self.stp.is_designated(at);
        let own = self.stp.id;
        let Some(member) = self.stp.members.get_mut(at) else {
            return;
        };
        member.id = port.id();
        if designated {
            member.designated = member.id;
        }
        if member.bridge == own && member.id < member.designated {
            self.become_designated(at);
            self.select();
        }
    }

    /// Follows a new cost of a port (`br_stp_set_path_cost`).
    pub fn port_cost(&mut self) {
        self.update();
        self.select();
    }

    /// Takes a configuration BPDU (`br_received_config_bpdu`).
    fn received(&mut self, at: usize, config: &Config) {
        let was_root = self.stp.is_root();
        let own = self.stp.id;
        let now = self.now;
        let Some(member) = self.stp.members.get_mut(at) else {
            return;
        };
        member.counts[2] += 1;
        // `br_supersedes_port_info`
        let theirs = (config.root, config.cost, config.bridge);
        let known = (member.root, member.cost, member.bridge);
        let supersedes = theirs < known
            || theirs == known && (config.bridge != own || config.port <= member.designated);
        if !supersedes {
            if self.stp.is_designated(at) {
                self.transmit(at);
            }
            return;
        }
        (member.root, member.cost, member.bridge) = theirs;
        member.designated = config.port;
        member.since = now.saturating_sub(config.age);
        member.message_age = Some(now + config.times.max_age.saturating_sub(config.age));
        let number = member.port.number;
        self.update();
        self.select();
        if !self.stp.is_root() && was_root {
            self.stp.hello = None;
            if self.stp.detected {
                self.stp.end_of_change = None;
                self.notify_root();
                self.stp.notification = Some(now + self.stp.own.hello);
            }
        }
        if number == self.stp.root_port {
            self.stp.times = config.times;
            self.set_change(config.change);
            self.transmit_all();
            if config.acknowledges {
                self.stp.detected = false;
                self.stp.notification = None;
            }
        }
    }

    /// Takes a frame to the bridge group address: LLC header and BPDU (`br_stp_rcv`).
    pub fn take(&mut self, port: &Port, octets: &[u8]) {
        let Some(at) = self.stp.place(port.number) else {
            return;
        };
        let Some(message) = bpdu::parse(octets) else {
            return;
        };
        if !self.stp.enabled || !self.up || self.state(at) == state::DISABLED {
            return;
        }
        if port.has(weir_netlink::ifla::brport::GUARD) {
            return self.disable(port);
        }
        match message {
            bpdu::Message::Config(config) => self.received(at, &config),
            bpdu::Message::Old => {
                if let Some(member) = self.stp.members.get_mut(at) {
                    member.counts[2] += 1;
                }
            }
            bpdu::Message::Notification => {
                if let Some(member) = self.stp.members.get_mut(at) {
                    member.counts[4] += 1;
                }
                if self.stp.is_designated(at) {
                    self.detect_change();
                    if let Some(member) = self.stp.members.get_mut(at) {
                        member.acknowledges = true;
                    }
                    self.transmit(at);
                }
            }
        }
    }

    /// Runs the timers that have expired (`br_stp_timer.c`).
    pub fn expire(&mut self) {
        let now = self.now;
        let due = move |timer: &mut Option<u64>| timer.take_if(|time| *time <= now).is_some();
        if due(&mut self.stp.hello) && self.up {
            self.transmit_all();
            if self.stp.enabled {
                self.stp.hello = Some(now + self.stp.times.hello);
            }
        }
        if due(&mut self.stp.notification) && !self.stp.is_root() && self.up {
            self.notify_root();
            self.stp.notification = Some(now + self.stp.own.hello);
        }
        if due(&mut self.stp.end_of_change) {
            self.stp.detected = false;
            self.set_change(false);
        }
        for at in 0..self.stp.members.len() {
            let Some(member) = self.stp.members.get_mut(at) else {
                continue;
            };
            let lost = due(&mut member.message_age);
            let delayed = due(&mut member.forward_delay);
            let held = due(&mut member.hold);
            if lost && self.state(at) != state::DISABLED {
                let was_root = self.stp.is_root();
                self.become_designated(at);
                self.settle(was_root);
            }
            if delayed {
                self.advance(at);
            }
            let pending = self
                .stp
                .members
                .get(at)
                .is_some_and(|member| member.pending);
            if held && pending {
                self.transmit(at);
            }
        }
    }

    /// Brings a port into the next state (`br_forward_delay_timer_expired`).
    fn advance(&mut self, at: usize) {
        match self.state(at) {
            state::LISTENING => {
                self.set(at, state::LEARNING);
                self.start_delay(at);
            }
            state::LEARNING => {
                self.set(at, state::FORWARDING);
                let own = self.stp.id;
                let designates = (0..self.stp.members.len()).any(|at| {
                    let member = self.stp.members.get(at);
                    self.state(at) != state::DISABLED && member.is_some_and(|one| one.bridge == own)
                });
                if designates {
                    self.detect_change();
                }
                self.out.push(Effect::Carrier(true));
            }
            _ => {}
        }
        self.announce(at);
    }
}
