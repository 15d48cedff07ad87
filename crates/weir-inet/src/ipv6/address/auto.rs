// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Addresses from the prefixes that routers advertise (SLAAC, RFC 4862; `addrconf_prefix_rcv`).
//!
//! A prefix with the flag L gets a route. One with the flag A and 64 bits gets an address, if `autoconf`
//! is set and the device has fewer than `max_addresses`. Its interface identifier is the token
//! (`ip token`), or derived from a secret (`addr_gen_mode` 2 and 3), or the EUI-64 of the device's
//! address. A further advertisement renews the lifetimes; it does not shorten a valid lifetime to less
//! than two hours.
//!
//! An address manages temporary ones (`temporary.rs`).
//!
//! Not implemented: another address after a duplicate one in the modes 2 and 3.

use std::net::Ipv6Addr;

use weir_netlink::ifa;

use super::super::facts::Facts;
use super::super::ra::{end_of, is_short, word};
use super::super::{RANDOM, STABLE_PRIVACY};
use super::{Address, Addresses, link_local, masked};
use crate::addresses::{Changes, News};
use crate::clock::SECOND;
use crate::fib::address::prefix6;
use crate::fib::host::WithRoutes;
use crate::ipv6::WithIpv6;
use crate::kind::InterfaceId;
use crate::layers::Site;
use crate::settings::{Ipv6Conf, WithSettings};

/// Flag of a prefix: it is on the link.
const ON_LINK: u8 = 0x80;
/// Flag of a prefix: hosts form addresses from it.
const AUTO: u8 = 0x40;
/// The valid lifetime in seconds below which an advertisement cannot shorten one
/// (`MIN_VALID_LIFETIME`).
const MIN_VALID: u32 = 7200;

/// A prefix information option (`struct prefix_info`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prefix {
    /// The prefix.
    pub prefix: Ipv6Addr,
    /// Its length in bits.
    pub len: u8,
    /// Its flags: on the link (0x80), hosts form addresses from it (0x40).
    pub flags: u8,
    /// The valid lifetime in seconds.
    pub valid: u32,
    /// The preferred lifetime in seconds.
    pub preferred: u32,
}

impl Prefix {
    /// Reads the body of an option.
    pub(in crate::ipv6) fn read(body: &[u8]) -> Option<Self> {
        let prefix: &[u8; 16] = body.get(14..)?.first_chunk()?;
        Some(Self {
            prefix: (*prefix).into(),
            len: *body.first()?,
            flags: *body.get(1)?,
            valid: word(body, 2)?,
            preferred: word(body, 6)?,
        })
    }
}

/// Returns the address of a device in a prefix of 64 bits, whether a token is its identifier, and the
/// flags that tell its origin.
fn address_in(site: &Site<'_>, prefix: Ipv6Addr) -> Option<(Ipv6Addr, bool, u32)> {
    let high = u128::from(prefix) >> 64 << 64;
    let device = site.device;
    let token = device.ipv6().token();
    if token != 0 {
        return Some(((high | u128::from(token)).into(), true, 0));
    }
    let mode = device.conf().ipv6.get(Ipv6Conf::AddrGenMode);
    if let STABLE_PRIVACY | RANDOM = mode
        && let Some(address) = super::stable(site, mode, high.into())
    {
        return Some((address, false, ifa::f::STABLE_PRIVACY));
    }
    let own = match device.link.interface_id() {
        InterfaceId::Fixed(id) => id.into(),
        _ => u128::from(link_local(device.address(), device.link.device_id())),
    };
    Some(((high | own << 64 >> 64).into(), false, 0))
}

impl Addresses {
    /// Handles a prefix that a router advertises.
    pub(in crate::ipv6) fn prefix_received(&self, site: &Site<'_>, prefix: &Prefix) {
        if prefix.prefix.is_multicast()
            || prefix.prefix.is_unicast_link_local()
            || prefix.preferred > prefix.valid
            || is_short(site, prefix.valid)
        {
            return;
        }
        if prefix.flags & ON_LINK != 0 {
            prefix_route(site, prefix);
        }
        if prefix.flags & AUTO != 0 && site.on(Ipv6Conf::Autoconf) {
            let address = (prefix.len == 64).then(|| address_in(site, prefix.prefix));
            let Some(found) = address.flatten() else {
                return;
            };
            if !self.configure(site, found, prefix) {
                return;
            }
        }
        crate::listen::prefix6(site, prefix);
    }

    /// Adds or renews an address. Returns whether there was room for it
    /// (`addrconf_prefix_rcv_add_addr`).
    fn configure(
        &self,
        site: &Site<'_>,
        (address, tokenized, flags): (Ipv6Addr, bool, u32),
        prefix: &Prefix,
    ) -> bool {
        let now = site.stack.clock.now();
        let most = site.device.conf().ipv6.get(Ipv6Conf::MaxAddresses);
        let mut fits = true;
        self.change_told(site, |work| {
            if let Some(present) = work.position(address).and_then(|at| work.list.get(at)) {
                let passed = (now.saturating_sub(present.updated) / SECOND) as u32;
                let stored = present.valid.saturating_sub(passed);
                if stored == 0 {
                    return work.manage_temporary(address, (prefix.valid, prefix.preferred), false);
                }
                let valid = prefix.valid.max(stored.min(MIN_VALID));
                let changed = work.edit(address, |a| {
                    a.valid = valid;
                    a.preferred = prefix.preferred;
                    a.updated = now;
                    a.flags &= !ifa::f::DEPRECATED;
                });
                let told = changed.filter(|a| !a.is_tentative());
                work.news.extend(told.map(News::Came));
                work.manage_temporary(address, (valid, prefix.preferred), false);
                return;
            }
            if prefix.valid == 0 {
                return;
            }
            let mut new = Address::new(address, prefix.len, now);
            new.flags = flags | ifa::f::MANAGETEMPADDR;
            new.protocol = ifa::prot::KERNEL_RA;
            (new.valid, new.preferred) = (prefix.valid, prefix.preferred);
            new.tokenized = tokenized;
            let count = i32::try_from(work.list.len()).unwrap_or(i32::MAX);
            fits = (most == 0 || count < most) && work.insert(new).is_ok();
            if fits {
                work.start_dad(address);
                work.manage_temporary(address, (prefix.valid, prefix.preferred), true);
            }
        });
        fits
    }

    /// Adds the automatic addresses that another `addr_gen_mode` gives (`addrconf_init_auto_addrs`).
    pub(in crate::ipv6) fn mode_changed(&self, site: &Site<'_>) {
        if self.is_ready() {
            self.change_told(site, |work| work.add_own(&[]));
        }
    }

    /// Sets the interface identifier of addresses to come, and ends the addresses of the one before
    /// (`inet6_set_iftoken`).
    pub fn set_token(&self, site: &Site<'_>, token: u64) {
        site.device.ipv6().set_token(token);
        if token != 0 && self.is_ready() && site.stack.config.link_chatter {
            site.device.ipv6().solicitations().start(site);
        }
        self.change_told(site, |work| {
            for address in work.list.clone().iter().filter(|a| a.tokenized) {
                work.remove(address.address);
            }
        });
    }
}

/// Adds, renews or deletes the route of a prefix on the link.
fn prefix_route(site: &Site<'_>, prefix: &Prefix) {
    let ifindex = site.device.ifindex();
    let fib = &site.ns.fib().v6;
    let network = masked(prefix.prefix, prefix.len.min(128));
    let expires = end_of(site, prefix.valid);
    let mut config = prefix6(network, prefix.len, site.device, 0, expires);
    let place = (config.table, u128::from(network), prefix.len);
    let is_ours = |info: &crate::fib::route::RouteInfo<_>| {
        let mut hops = info.hops.iter();
        info.spec.addrconf && hops.any(|hop| hop.oif == ifindex && hop.gateway.is_none())
    };
    let mut events = Vec::new();
    let present = fib.route_of(place, is_ours, site.guard).is_some();
    if present && prefix.valid == 0 {
        fib.purge((place.1, place.2), is_ours, &mut events);
    } else if present {
        fib.amend(place, is_ours, |spec| {
            spec.expires = expires.and_then(std::num::NonZero::new);
        });
    } else if prefix.valid != 0 {
        config.addrconf = true;
        // A route of an address by hand stays.
        let _ = fib.add(&config, &site.host(), site.guard, &mut events);
    }
    if let Some(expires) = expires.filter(|_| prefix.valid != 0) {
        super::super::expire_routes_at(site.stack, site.ns, expires);
    }
    site.tell_routes(&events);
}
