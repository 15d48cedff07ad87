// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Snooping per VLAN (`mcast_vlan_snooping`; `br_multicast_toggle_vlan_snooping` and what it uses): each VLAN has a
//! context of its own, with its own queriers, routers and times, in place of that of the bridge.
//!
//! Contexts of VLANs exist once `mcast_vlan_snooping` or an option of one of them has been set; until then all have
//! the defaults. They follow the VLANs of the bridge and of its ports.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use weir_netlink::{Error, errno};
use weir_sync::rcu::{Domain, Guard};

use super::context::{Context, Snooped};
use super::shared::Reach;
use super::{FAMILIES, Step, router};
use crate::bridge::Bridge;
use crate::bridge::port::state;
use crate::stack::Stack;

/// A port or the bridge itself.
type Number = Option<u16>;

impl Step<'_> {
    /// Goes to the context of a VLAN, if there are such.
    pub(super) fn enter(&mut self, vid: u16) -> bool {
        let found = self.snoop.find(vid);
        if let Ok(at) = found {
            self.at = at;
        }
        found.is_ok() && vid != 0
    }

    /// Goes to the context of messages in a VLAN.
    pub(super) fn enter_for(&mut self, vid: u16) {
        if self.shared.by_vlan.load(Relaxed) {
            self.enter(vid);
        }
    }

    /// Returns whether the context is of the kind that is in use (`br_multicast_ctx_matches_vlan_snooping`).
    pub(super) fn is_current(&self) -> bool {
        self.shared.by_vlan.load(Relaxed) == (self.context().vid != 0)
    }

    /// Returns whether the VLAN of the context does not snoop (`br_multicast_ctx_vlan_global_disabled`).
    pub(super) fn is_off(&self) -> bool {
        self.shared.by_vlan.load(Relaxed)
            && self.context().vid != 0
            && !self.reach().snoops.load(Relaxed)
    }

    /// Turns the context's part of the bridge itself on or off (`br_multicast_toggle_one_vlan`).
    fn toggle_own(&mut self, on: bool) {
        let off = self.is_off();
        let context = self.context_mut();
        if context.on == on || !context.member || on && off {
            return;
        }
        context.on = on;
        match on {
            true => self.open_context(),
            false => self.stop_context(),
        }
    }

    /// Turns the context's part of a port on or off (`br_multicast_toggle_one_vlan`).
    fn toggle_port_vlan(&mut self, number: u16, on: bool) {
        let off = self.is_off();
        let place = self.place(number);
        let context = self.context_mut();
        let Some(one) = place.and_then(|at| context.ports.get_mut(at)) else {
            return;
        };
        if one.on == on || on && off {
            return;
        }
        one.on = on;
        match on {
            true => self.enable_port(number),
            false => self.disable_port(number),
        }
    }

    /// Turns a context on or off (`br_multicast_toggle_vlan`).
    fn toggle_vlan(&mut self, on: bool) {
        for number in self.numbers() {
            self.toggle_port_vlan(number, on);
        }
        if self.context().member {
            self.toggle_own(on);
        }
    }

    /// Returns the ports of the context, in the order in which they came.
    fn numbers(&self) -> Vec<u16> {
        let ports = self.context().ports.iter();
        ports.map(|one| one.port.number).collect()
    }

    fn each_vlan(&mut self, mut work: impl FnMut(&mut Self)) {
        for at in 1..self.snoop.contexts.len() {
            self.at = at;
            work(self);
        }
        self.at = 0;
    }

    /// Turns snooping per VLAN on or off (`br_multicast_toggle_vlan_snooping`).
    fn turn_vlans(&mut self, on: bool) {
        self.shared.by_vlan.store(on, Relaxed);
        match on {
            true => self.stop_context(),
            false => self.open_context(),
        }
        for number in self.numbers() {
            match on {
                true => self.disable_port(number),
                false => self.enable_port(number),
            }
        }
        self.each_vlan(|step| step.toggle_vlan(on));
    }

    /// Turns snooping in the VLAN of the context on or off (`br_multicast_toggle_global_vlan`). Returns whether that is
    /// new.
    pub(super) fn turn_vlan(&mut self, on: bool) -> bool {
        if self.reach().snoops.swap(on, Relaxed) == on {
            return false;
        }
        self.toggle_vlan(on);
        true
    }

    /// Makes the context of a VLAN, if there is none, and takes the bridge itself in or not (`__vlan_add`).
    fn begin_vlan(&mut self, domain: &Domain, vid: u16, member: bool) {
        self.at = match self.snoop.find(vid) {
            Ok(at) => at,
            Err(at) => {
                let reach = Arc::new(Reach::new(domain));
                self.shared.vlans.insert(vid, reach.clone(), self.guard);
                self.snoop.contexts.insert(at, Context::new(vid, reach));
                at
            }
        };
        self.context_mut().member = member;
        self.toggle_own(true);
        self.at = 0;
    }

    /// Takes a port into a VLAN.
    fn begin_port_vlan(&mut self, vid: u16, number: u16) {
        let mut ports = self.snoop.contexts[0].ports.iter();
        let Some(port) = ports.find(|one| one.port.number == number) else {
            return;
        };
        let port = port.port.clone();
        if self.enter(vid) {
            self.context_mut().ports.insert(0, Snooped::new(&port));
            self.toggle_port_vlan(number, true);
        }
        self.at = 0;
    }

    /// Takes a port out of a VLAN (`__vlan_del`).
    fn end_port_vlan(&mut self, vid: u16, number: u16) {
        if self.enter(vid) {
            self.toggle_port_vlan(number, false);
            if let Some(at) = self.place(number) {
                self.end_router(at, &FAMILIES);
                self.context_mut().ports.remove(at);
            }
        }
        self.at = 0;
    }

    fn end_vlan(&mut self, vid: u16) {
        if self.enter(vid) {
            self.snoop.contexts.remove(self.at);
            self.shared.vlans.remove(&vid, self.guard);
        }
        self.at = 0;
    }

    /// Begins what a port has in a VLAN whose state lets it (`br_multicast_update_vlan_mcast_ctx`).
    fn vlan_state(&mut self, vid: u16, number: u16, to: u8) {
        let begins = matches!(to, state::LEARNING | state::FORWARDING);
        if begins && self.shared.by_vlan.load(Relaxed) && self.enter(vid) {
            self.enable_port(number);
        }
        self.at = 0;
    }

    /// Follows a port that is enabled or disabled (`br_multicast_toggle_port`).
    pub fn toggle_port(&mut self, number: u16, on: bool) {
        if !self.shared.by_vlan.load(Relaxed) {
            return match on {
                true => self.enable_port(number),
                false => self.disable_port(number),
            };
        }
        let guard = self.guard;
        self.each_vlan(|step| match on && step.context().may_begin(number, guard) {
            true => step.enable_port(number),
            false => step.disable_port(number),
        });
    }

    /// Begins when the bridge goes up (`br_multicast_open`).
    pub fn open(&mut self) {
        match self.shared.by_vlan.load(Relaxed) {
            false => self.open_context(),
            true => self.each_vlan(|step| {
                if step.context().member && step.context().on {
                    step.open_context();
                }
            }),
        }
    }

    /// Ends when the bridge goes down (`br_multicast_stop`).
    pub fn stop(&mut self) {
        match self.shared.by_vlan.load(Relaxed) {
            false => self.stop_context(),
            true => self.each_vlan(|step| {
                if step.context().member && step.context().on {
                    step.stop_context();
                }
            }),
        }
    }

    /// Sets `MCAST_ROUTER` of the bridge itself in the context (`br_multicast_set_router`).
    pub(super) fn set_router(&mut self, to: u8) {
        let reach = self.reach();
        reach.router.store(to, Relaxed);
        if to != router::QUERY {
            let times = reach.local_routers.iter();
            times.for_each(|time| time.store(0, Relaxed));
        }
    }
}

impl Bridge {
    /// Runs a step about a VLAN, if VLANs have contexts. A request may have thousands of them.
    fn vlan_step(&self, stack: &Stack, guard: &Guard, vid: u16, work: impl FnOnce(&mut Step<'_>)) {
        if self.keeps_vlans() {
            self.snoop_step(stack, guard, |step| {
                step.only = Some(vid);
                work(step);
            });
        }
    }

    fn keeps_vlans(&self) -> bool {
        self.snoop.lock().keeps_vlans
    }

    /// Makes the contexts of all VLANs. The caller holds the lock of the VLANs.
    pub fn keep_vlans(&self, stack: &Stack, guard: &Guard) {
        if self.keeps_vlans() {
            return;
        }
        let own = self.own_vlans.load(guard);
        let ports = self.ports.load(guard);
        self.snoop_step(stack, guard, |step| {
            step.snoop.keeps_vlans = true;
            for (vid, member) in own.members() {
                step.begin_vlan(&stack.domain, vid, member);
            }
            let known = step.snoop.contexts[0].ports.iter().rev();
            let known: Vec<u16> = known.map(|one| one.port.number).collect();
            for number in known {
                let group = ports.numbered(number).map(|port| port.vlans.load(guard));
                for vlan in group.into_iter().flat_map(|group| group.all_usable()) {
                    step.begin_port_vlan(vlan.vid, number);
                }
            }
        });
    }

    /// Follows a VLAN that the bridge has, with itself in it or not.
    pub fn vlan_begun(&self, stack: &Stack, guard: &Guard, vid: u16, member: bool) {
        self.vlan_step(stack, guard, vid, |step| {
            step.begin_vlan(&stack.domain, vid, member);
        });
    }

    /// Follows the bridge itself, which leaves a VLAN that ports have.
    pub fn vlan_left(&self, stack: &Stack, guard: &Guard, vid: u16) {
        self.vlan_step(stack, guard, vid, |step| {
            if step.enter(vid) {
                step.context_mut().member = false;
            }
            step.at = 0;
        });
    }

    /// Follows a VLAN that the bridge has no more.
    pub fn vlan_ended(&self, stack: &Stack, guard: &Guard, vid: u16) {
        self.vlan_step(stack, guard, vid, |step| step.end_vlan(vid));
    }

    /// Follows a port that has come into a VLAN, or left it.
    pub fn port_vlan(&self, stack: &Stack, guard: &Guard, (vid, number): (u16, u16), is_in: bool) {
        self.vlan_step(stack, guard, vid, |step| match is_in {
            true => step.begin_port_vlan(vid, number),
            false => step.end_port_vlan(vid, number),
        });
    }

    /// Follows the state of a port's VLAN.
    pub fn vlan_state(&self, stack: &Stack, guard: &Guard, (vid, number): (u16, u16), to: u8) {
        self.vlan_step(stack, guard, vid, |step| step.vlan_state(vid, number, to));
    }

    /// Turns snooping per VLAN on or off (`br_multicast_toggle_vlan_snooping`).
    ///
    /// # Errors
    /// EINVAL if the bridge does not filter VLANs.
    pub fn turn_vlan_snooping(&self, stack: &Stack, guard: &Guard, on: bool) -> Result<(), Error> {
        if self.snooping.by_vlan.load(Relaxed) == on {
            return Ok(());
        }
        if on && self.settings.filters().is_none() {
            return Err(Error::msg(
                errno::EINVAL,
                "bridge: Cannot enable multicast vlan snooping with vlan filtering disabled",
            ));
        }
        let _vlans = self.vlans.lock();
        self.keep_vlans(stack, guard);
        self.snoop_step(stack, guard, |step| {
            step.turn_vlans(on);
        });
        Ok(())
    }

    /// Sets `MCAST_ROUTER` in a VLAN that has a context, of a port or of the bridge itself
    /// (`br_multicast_set_vlan_router`).
    ///
    /// # Errors
    /// EINVAL for a value that does not exist.
    pub fn set_vlan_router(
        &self,
        stack: &Stack,
        guard: &Guard,
        (vid, number): (u16, Number),
        to: u8,
    ) -> Result<(), Error> {
        let most = number.map_or(router::PERMANENT, |_| router::TEMPORARY);
        if to > most {
            return Err(Error::new(errno::EINVAL));
        }
        self.snoop_step(stack, guard, |step| {
            if step.enter(vid) {
                match number {
                    Some(number) => step.set_port_router(number, to),
                    None => step.set_router(to),
                }
            }
            step.at = 0;
        });
        Ok(())
    }

    /// Returns `MCAST_ROUTER` in a VLAN, of a port or of the bridge itself.
    pub fn vlan_router(&self, vid: u16, number: Number) -> u8 {
        let snoop = self.snoop.lock();
        let Some(context) = snoop.of(vid) else {
            return router::QUERY;
        };
        match number {
            None => context.reach.router.load(Relaxed),
            Some(number) => context.router_of(number),
        }
    }
}
