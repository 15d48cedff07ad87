// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Temporary addresses (RFC 8981, privacy extensions; `ipv6_create_tempaddr`, `manage_tempaddrs` of
//! `net/ipv6/addrconf.c`).
//!
//! An address with the flag `IFA_F_MANAGETEMPADDR`, as those from advertised prefixes have, gets temporary ones beside
//! it while `use_tempaddr` is above 0: the prefix with 64 random bits, which come from the stack's seed. A temporary
//! address lives at most `temp_valid_lft` seconds and is preferred for `temp_prefered_lft` seconds less a delay. The delay
//! is drawn once per device, below `max_desync_factor`. Its lifetimes follow those of the address that manages it within
//! these bounds. Another one is made `regen_max_retry` · `dad_transmits` · `retrans_time_ms` before it is deprecated, and
//! at once if another host has it. After `regen_max_retry` attempts without a pause `use_tempaddr` becomes -1.
//!
//! With `use_tempaddr` 2 they are preferred as sources, otherwise the others are ([`crate::ipv6::select_address`]).
//! They are deleted with the address that manages them, and when it no longer does.

use std::net::Ipv6Addr;

use weir_netlink::{errno, ifa};

use super::stable::is_reserved;
use super::{Address, News, Work};
use crate::addresses::FOREVER;
use crate::clock::{Holds, MILLISECOND, SECOND, TimerId};
use crate::cpu::Cx;
use crate::ipv6::WithIpv6;
use crate::layers::Site;
use crate::random::Generator;
use crate::settings::{Ipv6Conf, Neigh, WithSettings};

/// The time by which an age is rounded up (`ADDRCONF_TIMER_FUZZ_MINUS`).
const FUZZ: u64 = 20 * MILLISECOND;

/// A temporary address.
#[derive(Debug)]
struct Temporary {
    address: Ipv6Addr,
    /// The address that manages it.
    public: Ipv6Addr,
    /// Its successor has been made.
    succeeded: bool,
}

/// What a device with temporary addresses remembers.
#[derive(Debug, Default)]
pub(super) struct Privacy {
    /// The temporary addresses, the newest first.
    list: Vec<Temporary>,
    /// For each address that manages some, how many were made without a pause (`regen_count`).
    made: Vec<(Ipv6Addr, i32)>,
    /// The delay in seconds (`desync_factor`).
    desync: Option<u32>,
    /// The number of random values drawn.
    draws: u32,
    /// Runs when the next successor is due.
    timer: Option<TimerId>,
}

impl Privacy {
    fn managed_by(&self, public: Ipv6Addr) -> Vec<Ipv6Addr> {
        let own = self.list.iter().filter(|one| one.public == public);
        own.map(|one| one.address).collect()
    }

    fn draw(&mut self, site: &Site<'_>) -> u64 {
        self.draws = self.draws.wrapping_add(1);
        let (ns, mac) = (site.ns.id.0, site.device.address());
        let path = format!(
            "{ns} temporary {} {mac:?} {}",
            site.device.ifindex(),
            self.draws
        );
        Generator::new(site.stack.config.seed, &path).next_u64()
    }
}

fn conf(site: &Site<'_>, which: Ipv6Conf) -> i64 {
    site.device.conf().ipv6.get(which).into()
}

/// Returns how many seconds before a temporary address is deprecated its successor is made (`regen_advance`).
fn advance(site: &Site<'_>) -> i64 {
    let retrans = site.device.conf().neigh6.get(Neigh::RetransTime).max(10);
    let solicitations = conf(site, Ipv6Conf::RegenMaxRetry) * conf(site, Ipv6Conf::DadTransmits);
    solicitations.saturating_mul(retrans.into()) / 1000
}

/// Returns the whole seconds since a time in ns.
fn age(since: u64, now: u64) -> i64 {
    (now.saturating_sub(since) / SECOND) as i64
}

/// Brings a lifetime into the range of one.
fn lifetime(seconds: i64) -> u32 {
    seconds.clamp(0, FOREVER.into()) as u32
}

impl Work<'_, '_> {
    fn privacy(&mut self) -> &mut Privacy {
        let seldom = self.state.seldom.change();
        seldom.privacy.get_or_insert_default()
    }

    fn present(&self, address: Ipv6Addr) -> Option<&Address> {
        let at = self.position(address)?;
        self.list.get(at).map(|present| &**present)
    }

    /// Gives the temporary addresses of `public` its new lifetimes in seconds, and makes one if there is none or if
    /// `create` says so (`manage_tempaddrs`).
    pub(super) fn manage_temporary(
        &mut self,
        public: Ipv6Addr,
        (mut valid, mut preferred): (u32, u32),
        mut create: bool,
    ) {
        let site = self.site;
        let now = site.stack.clock.now();
        let privacy = self.state.privacy();
        let managed = privacy.map_or_else(Vec::new, |privacy| privacy.managed_by(public));
        let desync = privacy.and_then(|privacy| privacy.desync).unwrap_or(0);
        let most_valid = conf(&site, Ipv6Conf::TempValidLft);
        let most_preferred = conf(&site, Ipv6Conf::TempPreferedLft) - i64::from(desync);
        for address in managed {
            let changed = self.edit(address, |a| {
                let age = age(a.created, now);
                valid = valid.min(lifetime(most_valid - age));
                preferred = preferred.min(lifetime(most_preferred - age));
                (a.valid, a.preferred, a.updated) = (valid, preferred, now);
                if preferred > 0 {
                    a.flags &= !ifa::f::DEPRECATED;
                }
            });
            let told = changed.filter(|a| !a.is_tentative());
            self.news.extend(told.map(News::Came));
        }
        let none = (self.state.privacy()).is_none_or(|privacy| privacy.list.is_empty());
        create |= none && (valid, preferred) != (0, 0);
        if create && conf(&site, Ipv6Conf::UseTempaddr) > 0 {
            self.create_temporary(public);
        }
    }

    /// Counts an attempt to make a temporary address. Returns false, and makes no more, if there were too many
    /// without a pause.
    fn may_try(&mut self, public: Ipv6Addr) -> bool {
        let site = self.site;
        if conf(&site, Ipv6Conf::UseTempaddr) <= 0 {
            return false;
        }
        let most = site.device.conf().ipv6.get(Ipv6Conf::RegenMaxRetry);
        let made = &mut self.privacy().made;
        let at = made.iter().position(|(other, _)| *other == public);
        let at = at.unwrap_or_else(|| {
            made.push((public, 0));
            made.len() - 1
        });
        let Some((_, tries)) = made.get_mut(at) else {
            return false;
        };
        *tries += 1;
        let may = *tries <= most;
        if !may {
            site.device.conf().ipv6.set(Ipv6Conf::UseTempaddr, -1);
        }
        may
    }

    /// Makes a temporary address beside `public` (`ipv6_create_tempaddr`).
    fn create_temporary(&mut self, public: Ipv6Addr) {
        let site = self.site;
        let now = site.stack.clock.now();
        loop {
            let Some(from) = self.present(public).cloned() else {
                return;
            };
            if !self.may_try(public) {
                return;
            }
            let mut id = self.privacy().draw(&site);
            while is_reserved(id) {
                id = self.privacy().draw(&site);
            }
            let advance = advance(&site);
            let preferred = conf(&site, Ipv6Conf::TempPreferedLft);
            let most = preferred.saturating_sub(advance);
            let most = most.min(conf(&site, Ipv6Conf::MaxDesyncFactor));
            let mut desync = self.privacy().desync;
            if desync.is_none_or(|desync| i64::from(desync) > most) {
                let drawn = match u32::try_from(most) {
                    Ok(most) if most > 0 => self.privacy().draw(&site) % u64::from(most),
                    _ => 0,
                };
                desync = Some(drawn as u32);
                self.privacy().desync = desync;
            }
            let old = age(from.updated, now);
            let valid = conf(&site, Ipv6Conf::TempValidLft) + old;
            let preferred = preferred + old - i64::from(desync.unwrap_or(0));
            let preferred = from.preferred.min(lifetime(preferred));
            let passed = age(from.updated, now + FUZZ);
            if i64::from(preferred) <= advance.saturating_add(passed) {
                return;
            }
            let network = u128::from(from.address) >> 64 << 64;
            let address = Ipv6Addr::from(network | u128::from(id));
            let mut new = Address::new(address, from.prefix_len, now);
            new.flags = ifa::f::TEMPORARY;
            (new.valid, new.preferred) = (from.valid.min(lifetime(valid)), preferred);
            new.updated = from.updated;
            match self.insert(new) {
                Ok(()) => {}
                Err(error) if error.errno == errno::EEXIST => continue,
                Err(_) => return,
            }
            let temporary = Temporary {
                address,
                public,
                succeeded: false,
            };
            self.privacy().list.insert(0, temporary);
            self.start_dad(address);
            return;
        }
    }

    /// Deletes the temporary addresses of `public` (`delete_tempaddrs`).
    pub(super) fn delete_temporary(&mut self, public: Ipv6Addr) {
        let privacy = self.state.privacy();
        let managed = privacy.map_or_else(Vec::new, |privacy| privacy.managed_by(public));
        for address in managed {
            self.remove(address);
        }
    }

    /// Makes another temporary address for one that another host has (`addrconf_dad_stop`).
    pub(super) fn replace_temporary(&mut self, address: Ipv6Addr) {
        let list = self.state.privacy().map(|privacy| &privacy.list);
        let one = list.and_then(|list| list.iter().find(|one| one.address == address));
        if let Some(public) = one.map(|one| one.public) {
            self.create_temporary(public);
        }
    }

    /// Returns when the successor of a temporary address is to be made, in ns of the stack's clock.
    fn due(&self, one: &Temporary) -> Option<u64> {
        let address = self.present(one.address)?;
        let waits = !one.succeeded && !address.is_tentative() && address.preferred != FOREVER;
        self.present(one.public).filter(|_| waits)?;
        let rest = i64::from(address.preferred).saturating_sub(advance(&self.site));
        let rest = lifetime(rest);
        Some(address.updated + u64::from(rest) * SECOND)
    }

    /// Makes the successors that are due (`addrconf_verify_rtnl`).
    fn succeed(&mut self) {
        let now = self.site.stack.clock.now();
        loop {
            let Some(privacy) = self.state.privacy() else {
                return;
            };
            let is_due = |one: &Temporary| self.due(one).is_some_and(|due| due <= now);
            let Some(at) = privacy.list.iter().position(is_due) else {
                return;
            };
            let privacy = self.privacy();
            let Some(one) = privacy.list.get_mut(at) else {
                return;
            };
            one.succeeded = true;
            let public = one.public;
            for (_, tries) in privacy.made.iter_mut().filter(|(made, _)| *made == public) {
                *tries = 0;
            }
            self.create_temporary(public);
        }
    }

    /// Forgets what is gone, and arms the timer of the next successor.
    pub(super) fn settle_temporary(&mut self) {
        let seldom = self.state.seldom.made();
        let Some(mut privacy) = seldom.and_then(|seldom| seldom.privacy.take()) else {
            return;
        };
        privacy
            .list
            .retain(|one| self.present(one.address).is_some());
        privacy
            .made
            .retain(|(public, _)| self.present(*public).is_some());
        let next = privacy.list.iter().filter_map(|one| self.due(one)).min();
        if privacy.timer.as_ref().map(TimerId::time) != next {
            if let Some(timer) = privacy.timer.take() {
                self.site.stack.timers.cancel(timer);
            }
            privacy.timer = next.map(|time| arm(&self.site, time));
        }
        self.state.seldom.change().privacy = Some(privacy);
    }
}

fn arm(site: &Site<'_>, time: u64) -> TimerId {
    let device = std::sync::Arc::downgrade(site.device);
    let fire = Box::new(move |cx: &mut Cx<'_>| {
        if let Some(device) = device.upgrade() {
            let site = Site::new(cx.stack, cx.guard, device.namespace(cx.guard), &device);
            device.ipv6().addresses.change_told(&site, |work| {
                // This timer has fired.
                work.privacy().timer = None;
                work.succeed();
            });
        }
    });
    site.stack.arm(time, Holds::Nothing, fire)
}
