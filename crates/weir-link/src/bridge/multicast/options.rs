// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The options of the groups of a VLAN (`br_vlan_process_global_one_opts`, `br_vlan_global_opts_fill`).

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use weir_netlink::ifla::vlandb::{self, gopts};
use weir_netlink::{Error, Table, Writer, errno};
use weir_sync::rcu::Guard;

use super::context::Context;
use super::run::{TICK, bounded};
use super::shared::Reach;
use super::{FAMILIES, Snoop, Step, wire};
use crate::bridge::Bridge;
use crate::stack::Stack;

/// The intervals, in the order of [`super::Options`] and in that in which they are written.
const INTERVALS: [u16; 6] = [
    gopts::MCAST_LAST_MEMBER_INTVL,
    gopts::MCAST_MEMBERSHIP_INTVL,
    gopts::MCAST_QUERIER_INTVL,
    gopts::MCAST_QUERY_INTVL,
    gopts::MCAST_QUERY_RESPONSE_INTVL,
    gopts::MCAST_STARTUP_QUERY_INTVL,
];

impl Step<'_> {
    /// Sets the versions of the protocols of the context (`br_multicast_set_igmp_version`,
    /// `br_multicast_set_mld_version`).
    pub(super) fn set_versions(&mut self, igmp: Option<u8>, mld: Option<u8>) {
        let options = &mut self.context_mut().options;
        options.igmp_version = igmp.unwrap_or(options.igmp_version);
        options.mld_version = mld.unwrap_or(options.mld_version);
        let has = FAMILIES.map(|family| options.has_sources(family));
        for (slot, has) in self.reach().sources.iter().zip(has) {
            slot.store(has, Relaxed);
        }
    }

    /// Sets what a request gives for the context. Returns whether listeners hear of it.
    fn set_options(&mut self, table: &Table<'_>) -> Result<bool, Error> {
        let version = |ty, least: u8| match table.u8(ty)? {
            Some(version) if !(least..=least + 1).contains(&version) => {
                Err(Error::new(errno::EINVAL))
            }
            version => Ok(version),
        };
        let mut told = false;
        if let Some(on) = table.u8(gopts::MCAST_SNOOPING)? {
            told = self.turn_vlan(on != 0);
        }
        if let Some(version) = version(gopts::MCAST_IGMP_VERSION, 2)? {
            self.set_versions(Some(version), None);
            told = true;
        }
        let options = &mut self.context_mut().options;
        if let Some(count) = table.u32(gopts::MCAST_LAST_MEMBER_CNT)? {
            (options.last_count, told) = (count, true);
        }
        if let Some(count) = table.u32(gopts::MCAST_STARTUP_QUERY_CNT)? {
            (options.startup_count, told) = (count, true);
        }
        for (interval, ty) in options.intervals.iter_mut().zip(INTERVALS) {
            let Some(ticks) = table.u64(ty)? else {
                continue;
            };
            let queries = [gopts::MCAST_QUERY_INTVL, gopts::MCAST_STARTUP_QUERY_INTVL];
            (*interval, told) = (bounded(ticks, queries.contains(&ty)), true);
        }
        if let Some(on) = table.u8(gopts::MCAST_QUERIER)? {
            self.set_querier(on != 0);
            told = true;
        }
        if let Some(version) = version(gopts::MCAST_MLD_VERSION, 1)? {
            self.set_versions(None, Some(version));
            told = true;
        }
        Ok(told)
    }
}

impl Context {
    /// Returns whether two VLANs are shown as one range (`br_vlan_global_opts_can_enter_range`).
    fn is_same(&self, other: &Self) -> bool {
        let flags = |reach: &Reach| (reach.snoops.load(Relaxed), reach.querier.load(Relaxed));
        self.options == other.options
            && flags(&self.reach) == flags(&other.reach)
            && !self.has_routers()
            && !other.has_routers()
    }

    /// Writes `BRIDGE_VLANDB_GLOBAL_OPTIONS` (`br_vlan_global_opts_fill`).
    fn fill(
        &self,
        ((first, last), msti): ((u16, u16), u16),
        querier_state: impl FnOnce(&mut Writer),
        (snoop, now): (&Snoop, u64),
        out: &mut Writer,
    ) {
        let nest = out.nest(vlandb::GLOBAL_OPTIONS);
        let options = &self.options;
        out.put_u16(gopts::ID, first);
        if first < last {
            out.put_u16(gopts::RANGE, last);
        }
        let snoops = self.reach.snoops.load(Relaxed);
        out.put_u8(gopts::MCAST_SNOOPING, u8::from(snoops));
        out.put_u8(gopts::MCAST_IGMP_VERSION, options.igmp_version);
        out.put_u32(gopts::MCAST_LAST_MEMBER_CNT, options.last_count);
        out.put_u32(gopts::MCAST_STARTUP_QUERY_CNT, options.startup_count);
        let querier = self.reach.querier.load(Relaxed);
        out.put_u8(gopts::MCAST_QUERIER, u8::from(querier));
        querier_state(out);
        for (ty, value) in INTERVALS.into_iter().zip(options.intervals) {
            out.put_u64_pad(ty, value / TICK, gopts::PAD);
        }
        if self.has_routers() {
            let nest = out.nest(gopts::MCAST_ROUTER_PORTS);
            wire::fill_routers(snoop, self, now, out);
            out.end(nest);
        }
        out.put_u8(gopts::MCAST_MLD_VERSION, options.mld_version);
        out.put_u16(gopts::MSTI, msti);
        out.end(nest);
    }
}

impl Bridge {
    /// Sets options of the groups of a VLAN. The caller holds the lock of the VLANs. Returns whether listeners hear of
    /// it.
    ///
    /// # Errors
    /// Linux's.
    pub fn set_vlan_groups(
        &self,
        stack: &Stack,
        guard: &Guard,
        vid: u16,
        table: &Table<'_>,
    ) -> Result<bool, Error> {
        self.keep_vlans(stack, guard);
        self.snoop_step(stack, guard, |step| {
            let done = match step.enter(vid) {
                true => step.set_options(table),
                false => Ok(false),
            };
            step.at = 0;
            done
        })
    }

    /// Returns whether two VLANs are shown as one range.
    pub fn have_same_groups(&self, one: u16, next: u16) -> bool {
        let snoop = self.snoop.lock();
        if !snoop.keeps_vlans {
            return true;
        }
        let both = snoop.of(one).zip(snoop.of(next));
        both.is_some_and(|(one, next)| one.is_same(next))
    }

    /// Returns `BRIDGE_VLANDB_GLOBAL_OPTIONS` of the VLANs of a range, which share them.
    pub fn vlan_groups(&self, stack: &Stack, guard: &Guard, vids: (u16, u16)) -> Vec<u8> {
        let now = stack.clock.now();
        // Where the addresses come from takes the lock as well.
        let own = FAMILIES.map(|family| self.query_source(guard, family));
        let mut out = Writer::new();
        let what = (vids, self.own_vlans.load(guard).msti(vids.0));
        let snoop = self.snoop.lock();
        match snoop.of(vids.0) {
            Some(context) => {
                let off =
                    self.snooping.by_vlan.load(Relaxed) && !context.reach.snoops.load(Relaxed);
                let state = |out: &mut Writer| {
                    if !off {
                        self.fill_querier(
                            guard,
                            (context, own),
                            now,
                            gopts::MCAST_QUERIER_STATE,
                            out,
                        );
                    }
                };
                context.fill(what, state, (&snoop, now), &mut out);
            }
            None => {
                let reach = Arc::new(Reach::new(&stack.domain));
                Context::new(vids.0, reach).fill(what, |_| {}, (&snoop, now), &mut out);
            }
        }
        out.into_vec()
    }
}
