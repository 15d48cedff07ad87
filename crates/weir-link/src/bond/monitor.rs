// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The MII monitor (`bond_mii_monitor`), and the timer of both monitors.
//!
//! Every `miimon` ms it asks each port whether there is a carrier. A link that is lost is down after `downdelay`, one
//! that is found is up after `updelay`, both rounded down to multiples of `miimon`. Every port reports its carrier,
//! whatever `use_carrier` is.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use weir_netlink::ifla::bond as attr;

use super::options::mode;
use super::slave::{Slave, link};
use super::{At, Bond};
use crate::clock::{Holds, MILLISECOND};
use crate::cpu::Cx;
use crate::stack::Stack;

/// The time between reports of groups after a failover (`bond_resend_igmp_join_requests_delayed`).
const REJOIN_INTERVAL: u64 = 200 * MILLISECOND;

impl Bond {
    /// Has the groups of the device reported `resend_igmp` times, 200 ms apart, soon (`mcast_work`).
    pub fn rejoin_groups(&self, at: At<'_>) {
        let count = self.params.get(attr::RESEND_IGMP);
        if count != 0 && self.rejoins.swap(count, Relaxed) == 0 {
            self.arm_rejoin(at.stack, at.stack.clock.now() + MILLISECOND);
        }
    }

    fn arm_rejoin(&self, stack: &Stack, time: u64) {
        let own = self.own.clone();
        let job = move |cx: &mut Cx<'_>| {
            let Some(bond) = own.upgrade() else { return };
            let Some(device) = bond.device().filter(|device| device.is_up()) else {
                return bond.rejoins.store(0, Relaxed);
            };
            crate::ipv4::igmp::rejoin(cx, &device);
            if bond.rejoins.fetch_sub(1, Relaxed) > 1 {
                bond.arm_rejoin(cx.stack, cx.now + REJOIN_INTERVAL);
            }
        };
        stack.arm(time, Holds::Nothing, Box::new(job));
    }

    /// Cancels the timer.
    pub fn stop_timer(&self, stack: &Stack) {
        if let Some(timer) = self.timer.lock().take() {
            stack.timers.cancel(timer);
        }
    }

    /// Starts the monitor that is set, now, or stops it. A bond that is down has none.
    pub fn start_monitors(&self, at: At<'_>) {
        self.stop_timer(at.stack);
        if self.device().is_some_and(|device| device.is_up()) && self.interval() != 0 {
            self.arm(at.stack, at.stack.clock.now());
        }
    }

    /// Returns the interval of the monitor in ns, or 0.
    fn interval(&self) -> u64 {
        match u64::from(self.params.get(attr::MIIMON)) * MILLISECOND {
            0 => self.arp_interval(),
            interval => interval,
        }
    }

    fn arm(&self, stack: &Stack, time: u64) {
        let own = self.own.clone();
        let job = move |cx: &mut Cx<'_>| {
            if let Some(bond) = own.upgrade() {
                bond.tick(cx);
            }
        };
        let timer = stack.arm(time, Holds::Nothing, Box::new(job));
        if let Some(old) = self.timer.lock().replace(timer) {
            stack.timers.cancel(old);
        }
    }

    /// One round of the monitor.
    fn tick(self: &Arc<Self>, cx: &mut Cx<'_>) {
        let at = At {
            stack: cx.stack,
            guard: cx.guard,
        };
        let interval = self.interval();
        if interval == 0 || !self.device().is_some_and(|device| device.is_up()) {
            return;
        }
        self.arm(cx.stack, cx.now + interval);
        match self.params.get(attr::MIIMON) {
            0 => self.arp_round(cx, at),
            _ => self.mii_round(at),
        }
    }

    /// `bond_mii_monitor`
    fn mii_round(&self, at: At<'_>) {
        if self.slaves(at.guard).is_empty() {
            return;
        }
        let notices = self.has_notice(at.guard);
        let changes = self.mii_inspect(at);
        // Only this timer and a failover, which sets the number, change it.
        let _ = self
            .notices
            .fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1));
        if !changes.is_empty() {
            self.mii_commit(at, &changes);
        }
        if notices && let Some(master) = self.device() {
            crate::notify_peers(at.stack, at.guard, &master);
        }
    }

    /// Looks at each port. Returns those whose links change, and how (`bond_miimon_inspect`).
    fn mii_inspect(&self, at: At<'_>) -> Vec<(Arc<Slave>, u8)> {
        let mut at_once = match self.params.mode() {
            mode::ACTIVE_BACKUP => self.active(at.guard).is_none(),
            _ => self.usable.load(at.guard).is_empty(),
        };
        let mut changes = Vec::new();
        for slave in self.slaves(at.guard) {
            let reported = slave.is_running(at.stack);
            let mut state = slave.link();
            let before = state;
            if state == link::UP && !reported {
                slave
                    .delay
                    .store(self.params.get(attr::DOWNDELAY) as i32, Relaxed);
                state = link::FAIL;
            } else if state == link::DOWN && reported {
                slave
                    .delay
                    .store(self.params.get(attr::UPDELAY) as i32, Relaxed);
                state = link::BACK;
            }
            let delay = slave.delay.load(Relaxed);
            match (state, reported) {
                (link::FAIL, true) => {
                    state = link::UP;
                }
                (link::FAIL, false) if delay <= 0 => state = link::DOWN,
                (link::BACK, false) => state = link::DOWN,
                (link::BACK, true) if at_once || delay <= 0 => {
                    slave.delay.store(0, Relaxed);
                    state = link::UP;
                    at_once = false;
                }
                (link::FAIL | link::BACK, _) => slave.delay.store(delay - 1, Relaxed),
                _ => {}
            }
            if state != before {
                changes.push((slave.clone(), state));
            }
        }
        changes
    }

    /// Applies the changes (`bond_miimon_commit`).
    fn mii_commit(&self, at: At<'_>, changes: &[(Arc<Slave>, u8)]) {
        let mut failover = false;
        let is = |other: Option<&Arc<Slave>>, slave: &Arc<Slave>| {
            other.is_some_and(|other| Arc::ptr_eq(other, slave))
        };
        for (slave, state) in changes {
            match *state {
                link::UP => {
                    if !slave.read_speed() && self.uses_lacp() {
                        slave.set_link_quietly(link::DOWN);
                        continue;
                    }
                    slave.set_link(at, link::UP);
                    slave.was_up.store(true, Relaxed);
                    match self.params.mode() {
                        mode::ACTIVE_BACKUP => {}
                        mode => slave.set_backup(at, mode == mode::AD),
                    }
                    self.with_lacp(at, |lacp, _| lacp.link_changed(slave.device.key, true));
                    self.update_usable(at);
                    let active = self.active(at.guard);
                    let prio = |slave: &Slave| slave.prio.load(Relaxed);
                    failover |= is(self.primary(at.guard), slave)
                        || active.is_none_or(|active| prio(slave) > prio(active));
                }
                link::DOWN => {
                    slave.failures.fetch_add(1, Relaxed);
                    slave.set_link(at, link::DOWN);
                    if matches!(self.params.mode(), mode::ACTIVE_BACKUP | mode::AD) {
                        self.set_inactive_flags(at, slave);
                    }
                    self.with_lacp(at, |lacp, _| lacp.link_changed(slave.device.key, false));
                    self.update_usable(at);
                    failover |= is(self.active(at.guard), slave);
                }
                state => slave.set_link(at, state),
            }
        }
        if failover {
            self.select_active(at);
        }
        self.set_carrier(at);
    }
}
