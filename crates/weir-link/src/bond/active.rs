// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The active port, failover and carrier (`bond_select_active_slave`, `bond_change_active_slave`,
//! `bond_set_carrier`).

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use weir_netlink::ifla::{bond as attr, iff};
use weir_sync::rcu::Guard;

use super::options::{self, mode};
use super::slave::{Slave, announce_failover, link};
use super::{At, Bond};
use crate::device::{AddressOrigin, Device};
use crate::ethtool::LinkSettings;

fn same(one: Option<&Arc<Slave>>, other: Option<&Arc<Slave>>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => Arc::ptr_eq(one, other),
        (one, other) => one.is_none() && other.is_none(),
    }
}

impl Bond {
    /// `bond_choose_primary_or_current`
    fn prefer<'g>(&'g self, guard: &'g Guard) -> Option<&'g Arc<Slave>> {
        let current = self.active(guard);
        let current = current.filter(|slave| slave.has_link());
        let primary = self.primary(guard).filter(|slave| slave.has_link());
        let better = match primary {
            Some(primary) if self.force_primary.swap(false, Relaxed) => return Some(primary),
            Some(primary) => primary,
            None => {
                let mut best: Option<&Arc<Slave>> = None;
                for slave in self.slaves(guard).iter().filter(|slave| slave.has_link()) {
                    let prio = |slave: &Slave| slave.prio.load(Relaxed);
                    if best.is_none_or(|best| prio(slave) > prio(best)) {
                        best = Some(slave);
                    }
                }
                match best {
                    Some(best) if !same(Some(best), self.active(guard)) => best,
                    _ => return current,
                }
            }
        };
        let Some(current) = current else {
            return Some(better);
        };
        match self.params.get(attr::PRIMARY_RESELECT) {
            options::RESELECT_BETTER => {
                let of = |slave: &Slave| {
                    let speed = slave.speed.load(Relaxed);
                    (speed, slave.duplex.load(Relaxed))
                };
                Some(if of(better) > of(current) {
                    better
                } else {
                    current
                })
            }
            options::RESELECT_FAILURE => Some(current),
            _ => Some(better),
        }
    }

    /// `bond_find_best_slave`
    fn best<'g>(&'g self, at: At<'g>) -> Option<&'g Arc<Slave>> {
        if let Some(preferred) = self.prefer(at.guard) {
            return Some(preferred);
        }
        let mut best = None;
        let mut least = self.params.get(attr::UPDELAY) as i32;
        for slave in self.slaves(at.guard) {
            if slave.has_link() {
                return Some(slave);
            }
            let delay = slave.delay.load(Relaxed);
            if slave.link() == link::BACK && slave.is_running(at.stack) && delay < least {
                (best, least) = (Some(slave), delay);
            }
        }
        best
    }

    /// Chooses the active port (`bond_select_active_slave`).
    pub fn select_active(&self, at: At<'_>) {
        if !self.has_slaves() && self.active(at.guard).is_none() {
            return;
        }
        let best = self.best(at);
        if !same(best, self.active(at.guard)) {
            self.change_active(at, best);
            self.set_carrier(at);
        }
    }

    /// Makes another port the active one (`bond_change_active_slave`).
    pub fn change_active(&self, at: At<'_>, new: Option<&Arc<Slave>>) {
        let new = new.cloned();
        let old = self.active(at.guard).cloned();
        if same(new.as_ref(), old.as_ref()) {
            return;
        }
        if let Some(new) = new.as_ref().filter(|new| new.link() == link::BACK) {
            new.delay.store(0, Relaxed);
            new.set_link(at, link::UP);
        }
        if let Some(new) = &new {
            new.times.up.store(at.stack.clock.now(), Relaxed);
        }
        let Some(master) = self.device() else { return };
        if self.params.uses_primary() {
            self.swap_addresses(at, &master, new.as_ref(), old.as_ref());
        }
        self.active.replace(new.clone());
        let rejoins = match self.params.mode() {
            mode::ACTIVE_BACKUP => new.is_some(),
            mode => mode == mode::ROUND_ROBIN,
        };
        if rejoins && master.is_up() {
            self.rejoin_groups(at);
        }
        if self.params.mode() != mode::ACTIVE_BACKUP {
            return;
        }
        if let Some(old) = &old {
            self.set_inactive_flags(at, old);
        }
        let Some(new) = new else { return };
        self.set_active_flags(at, &new);
        self.fail_over_mac(at, &master, &new, old.as_ref());
        if master.is_up() {
            let count = self.params.get(attr::NUM_PEER_NOTIF);
            let delay = self.params.get(attr::PEER_NOTIF_DELAY).max(1);
            self.notices.store(count.wrapping_mul(delay), Relaxed);
        }
        announce_failover(at, &master);
        if self.has_notice(at.guard) {
            self.notices.fetch_sub(1, Relaxed);
            crate::notify_peers(at.stack, at.guard, &master);
        }
    }

    /// Returns whether the neighbours are to be told now (`bond_should_notify_peers`).
    pub fn has_notice(&self, guard: &Guard) -> bool {
        let left = self.notices.load(Relaxed);
        let delay = self.params.get(attr::PEER_NOTIF_DELAY).max(1);
        left != 0
            && left.is_multiple_of(delay)
            && self.active(guard).is_some()
            && !self.no_carrier.load(Relaxed)
    }

    /// Moves what the bond asks of its active port to another port (`bond_hw_addr_swap`).
    fn swap_addresses(
        &self,
        at: At<'_>,
        master: &Arc<Device>,
        new: Option<&Arc<Slave>>,
        old: Option<&Arc<Slave>>,
    ) {
        for (slave, more) in [(old, false), (new, true)] {
            let Some(slave) = slave else { continue };
            for (flag, users) in [
                (iff::PROMISC, master.promiscuity()),
                (iff::ALLMULTI, master.allmulti()),
            ] {
                if users > 0 {
                    crate::ask_for_all(at.stack, at.guard, &slave.device, flag, more);
                }
            }
            if master.is_up() {
                self.pass_to(at, master, slave, more);
            }
        }
    }

    /// `bond_do_fail_over_mac`
    fn fail_over_mac(
        &self,
        at: At<'_>,
        master: &Arc<Device>,
        new: &Arc<Slave>,
        old: Option<&Arc<Slave>>,
    ) {
        match self.params.fail_over_mac() {
            options::FOLLOW_ACTIVE => {
                master.set_address_of(new.device.address(), AddressOrigin::Stolen);
                crate::address_changed(at.stack, at.guard, master);
            }
            options::FOLLOW => {
                let own = master.address();
                let holder =
                    |slave: &&Arc<Slave>| !Arc::ptr_eq(slave, new) && slave.device.address() == own;
                let old = old.or_else(|| self.slaves(at.guard).iter().find(holder));
                let before = new.device.address();
                let wanted = old.map_or(own, |old| old.device.address());
                // A device that refuses an address keeps its own.
                let _ = crate::change_address(at.stack, at.guard, &new.device, wanted);
                if let Some(old) = old {
                    let _ = crate::change_address(at.stack, at.guard, &old.device, before);
                }
            }
            _ => {}
        }
    }

    /// Derives the carrier from the ports (`bond_set_carrier`).
    pub fn set_carrier(&self, at: At<'_>) {
        let slaves = self.slaves(at.guard);
        let on = match self.uses_lacp() {
            true => !slaves.is_empty() && self.has_aggregator(),
            false => slaves.iter().any(|slave| slave.has_link()),
        };
        if self.no_carrier.swap(!on, Relaxed) != on {
            return;
        }
        let Some(device) = self.device() else { return };
        device.count_carrier_change(on);
        if device.is_up() {
            crate::carrier_changed(at.stack, at.guard, &device);
        } else {
            device.watch_carrier(|| on);
            crate::settle_operstate(&device);
        }
    }

    /// Lists the ports by which hashed packets may leave (`bond_update_slave_arr`).
    pub fn update_usable(&self, at: At<'_>) {
        let aggregated = self.aggregated();
        let is_in = |slave: &Slave| match &aggregated {
            Some(ports) => ports.contains(&slave.device.key),
            None => true,
        };
        let _alone = self.changes.lock();
        let slaves = self.slaves(at.guard).iter();
        let usable = slaves.filter(|slave| is_in(slave) && slave.can_send(at.stack));
        self.usable.replace(usable.cloned().collect());
    }

    /// Sets the states of the ports when the device goes up (`bond_open`).
    pub fn opened(&self, at: At<'_>) {
        let active = self.active(at.guard);
        self.with_lacp(at, |lacp, _| lacp.choose_soon());
        for slave in self.slaves(at.guard) {
            if self.params.uses_primary() && !same(active, Some(slave)) {
                self.set_inactive_flags(at, slave);
            } else if !self.uses_lacp() {
                self.set_active_flags(at, slave);
            }
        }
    }

    /// Returns the settings of the link (`bond_ethtool_get_link_ksettings`).
    pub fn link_settings(&self, guard: &Guard) -> LinkSettings {
        let mut settings = LinkSettings::OTHER;
        let mut speed = 0_u32;
        for slave in self.slaves(guard) {
            if !slave.has_link() || slave.is_backup() {
                continue;
            }
            let (of, duplex) = (slave.speed.load(Relaxed), slave.duplex.load(Relaxed));
            if settings.duplex == 0xff {
                settings.duplex = duplex;
            }
            speed = match self.params.mode() {
                _ if of == u32::MAX => speed,
                mode::BROADCAST if speed != 0 => speed.min(of),
                _ => speed.saturating_add(of),
            };
        }
        if speed != 0 {
            settings.speed = speed;
        }
        settings
    }
}
