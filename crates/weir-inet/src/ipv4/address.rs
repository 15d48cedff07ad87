// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A device's IPv4 addresses: the list, the consequences of changing it, and address lifetimes
//! (`struct in_ifaddr`, `__inet_insert_ifa`, `__inet_del_ifa`, `check_lifetime` of
//! `net/ipv4/devinet.c`).
//!
//! Primary addresses come first, ordered by scope and age. A further address of the same prefix is
//! secondary. It is deleted with its primary address, or promoted to primary if
//! `promote_secondaries` is set. Readers load the list under a guard; changes hold the device's
//! address lock. A change returns [`News`], which the caller announces in order after the lock is
//! released.
//!
//! Lifetimes are whole seconds. An address expires on the second, not up to 20 ms later. Not
//! implemented: the `IFA_IPV4` validator chain.

use std::net::Ipv4Addr;
use std::sync::Arc;

use weir_netlink::{Error, errno, ifa, rta};
use weir_sync::order::{self, Mutex, MutexGuard};
use weir_sync::rcu::{Domain, Guard, PublishedOption};

use crate::addresses::{self, Changes, FOREVER, Listed, is_over, rest};
use crate::clock::{SECOND, TimerId};
use crate::device::Device;
use crate::fib::address::Ifaddr;
use crate::fib::host::WithRoutes;
use crate::fib::route::Event;
use crate::fib::sync::Loss;
use crate::ipv4::WithIpv4;
use crate::layers::Site;
use crate::neigh::WithNeighbours;
use crate::neigh::nud;
use crate::settings::HasIp;
use crate::settings::Ipv4Conf;
use crate::settings::WithSettings;

/// The flags that only IPv6 addresses have (`IPV6ONLY_FLAGS`).
const IPV6_FLAGS: u32 = ifa::f::NODAD
    | ifa::f::OPTIMISTIC
    | ifa::f::DADFAILED
    | ifa::f::HOMEADDRESS
    | ifa::f::TENTATIVE
    | ifa::f::MANAGETEMPADDR
    | ifa::f::STABLE_PRIVACY;

/// An IPv4 address of a device (`struct in_ifaddr`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// `IFA_LOCAL`: our own address.
    pub local: Ipv4Addr,
    /// `IFA_ADDRESS`: equal to `local`, or the peer's address.
    pub address: Ipv4Addr,
    /// The prefix length in bits.
    pub prefix_len: u8,
    /// `IFA_BROADCAST`
    pub broadcast: Option<Ipv4Addr>,
    /// `IFA_LABEL`
    pub label: String,
    /// `RT_SCOPE_*`
    pub scope: u8,
    /// `IFA_F_*`
    pub flags: u32,
    /// `IFA_RT_PRIORITY`: the metric of its prefix route.
    pub metric: u32,
    /// `IFA_PROTO`
    pub protocol: u8,
    /// The preferred lifetime in seconds, starting at `updated`.
    pub preferred: u32,
    /// The valid lifetime in seconds, starting at `updated`.
    pub valid: u32,
    /// The creation time in ns of the stack's clock.
    pub created: u64,
    /// The time of the last update in ns of the stack's clock.
    pub updated: u64,
}

impl Address {
    /// Returns the network mask.
    pub fn mask(&self) -> u32 {
        mask(self.prefix_len)
    }

    /// Returns whether `other` is in the prefix (`inet_ifa_match`).
    #[inline]
    pub fn contains(&self, other: Ipv4Addr) -> bool {
        (u32::from(self.address) ^ u32::from(other)) & self.mask() == 0
    }

    /// Returns whether the device already had another address of the prefix.
    #[inline]
    pub fn is_secondary(&self) -> bool {
        self.flags & ifa::f::SECONDARY != 0
    }

    fn shares_prefix(&self, other: &Self) -> bool {
        self.prefix_len == other.prefix_len && self.contains(other.address)
    }

    fn is_twin(&self, other: &Self) -> bool {
        self.shares_prefix(other) && self.local == other.local
    }

    /// Converts the address to the form the routes use.
    fn ifaddr(&self) -> Ifaddr {
        Ifaddr {
            local: self.local,
            address: self.address,
            prefix_len: self.prefix_len,
            broadcast: self.broadcast,
            secondary: self.is_secondary(),
            no_prefix_route: self.flags & ifa::f::NOPREFIXROUTE != 0,
            metric: self.metric,
        }
    }

    /// Sets the lifetimes in seconds (`set_ifa_lifetime`).
    pub fn set_lifetime(&mut self, valid: u32, preferred: u32, now: u64) {
        self.flags &= !(ifa::f::PERMANENT | ifa::f::DEPRECATED);
        if valid == FOREVER {
            self.flags |= ifa::f::PERMANENT;
        }
        if preferred == 0 {
            self.flags |= ifa::f::DEPRECATED;
        }
        (self.valid, self.preferred, self.updated) = (valid, preferred, now);
    }

    /// Returns the remaining preferred and valid lifetimes in seconds.
    pub fn rest(&self, now: u64) -> (u32, u32) {
        if self.flags & ifa::f::PERMANENT != 0 {
            return (FOREVER, FOREVER);
        }
        rest(self.preferred, self.valid, self.updated, now)
    }
}

impl Listed for Address {
    type Key = u32;

    fn next_end(&self) -> Option<u64> {
        if self.flags & ifa::f::PERMANENT != 0 {
            return None;
        }
        let at = |life: u32| self.updated + u64::from(life) * SECOND;
        if self.flags & ifa::f::DEPRECATED == 0 && self.preferred != FOREVER {
            Some(at(self.preferred.min(self.valid)))
        } else {
            (self.valid != FOREVER).then(|| at(self.valid))
        }
    }

    fn announce(&self, site: &Site<'_>, ty: u16) {
        crate::listen::address4(site, self, ty);
    }

    fn expire(site: &Site<'_>) {
        site.device.ipv4().addresses.expire(site);
    }
}

/// Returns the network mask of a prefix length.
pub fn mask(prefix_len: u8) -> u32 {
    u32::MAX
        .checked_shl(32 - u32::from(prefix_len.min(32)))
        .unwrap_or(0)
}

/// The effect of a change, to be announced.
pub type News = crate::addresses::News<Address>;

type List = Vec<Arc<Address>>;

/// The addresses of a device.
#[derive(Debug)]
pub struct Addresses {
    list: PublishedOption<addresses::List<Address>>,
    /// Serializes changes of the list. It holds the timer of the next lifetime expiry.
    change: Mutex<Option<TimerId>, order::Addresses>,
}

/// A change in progress: the list it edits, and its effects.
struct Work<'a> {
    site: Site<'a>,
    list: List,
    news: Vec<News>,
}

impl Work<'_> {
    fn all(&self) -> Vec<Ifaddr> {
        self.list.iter().map(|address| address.ifaddr()).collect()
    }

    fn routes(&mut self, events: Vec<Event<u32, Arc<Device>>>) {
        if !events.is_empty() {
            self.news.push(News::Routes(events));
        }
    }

    /// Adds the routes of an address (`fib_add_ifaddr`).
    fn add_routes(&mut self, address: &Address) {
        let (site, mut events) = (self.site, Vec::new());
        let all = self.all();
        site.ns.fib().v4.address_came(
            site.device,
            &address.ifaddr(),
            &all,
            &site.host(),
            site.guard,
            &mut events,
        );
        self.routes(events);
        self.forget_unresolved(address);
    }

    /// Removes the unresolved neighbour entries of broadcast addresses, which need no resolution
    /// (`arp_invalidate`).
    fn forget_unresolved(&self, address: &Address) {
        let site = self.site;
        if !site.device.is_up() {
            return;
        }
        let network = u32::from(address.address) & address.mask();
        let host = network == u32::from(address.local) && address.prefix_len == 32;
        let last =
            !address.is_secondary() && !host && network >> 24 != 0 && address.prefix_len < 31;
        let last = last.then(|| Ipv4Addr::from(network | !address.mask()));
        let own = address.broadcast.filter(|own| !own.is_broadcast());
        for broadcast in own.into_iter().chain(last) {
            let neighbours = &site.ns.neighbours();
            let entry = neighbours.get(site.device.key, broadcast.into(), site.guard);
            if let Some(entry) = entry
                && entry.state() & nud::VALID == 0
            {
                neighbours.remove(site.stack, site.guard, &entry.clone());
            }
        }
    }

    /// Removes the routes of an address (`fib_del_ifaddr`).
    fn remove_routes(&mut self, address: &Address, promoted: Option<&Address>, gone: bool) {
        let (site, mut events) = (self.site, Vec::new());
        let all = self.all();
        let promoted = promoted.map(Address::ifaddr);
        site.ns.fib().v4.address_went(
            site.device,
            &address.ifaddr(),
            &all,
            promoted.as_ref(),
            gone,
            &mut events,
        );
        self.routes(events);
    }

    /// Updates the rest of the stack after an address was added (`fib_inetaddr_event`).
    fn came(&mut self, address: &Arc<Address>) {
        self.news.push(News::Came(address.clone()));
        self.add_routes(address);
        let site = self.site;
        crate::fib::host::found4(site.stack, site.ns, site.device);
    }

    /// Updates the rest of the stack after an address was deleted.
    fn went(&mut self, address: &Arc<Address>, gone: bool) {
        self.news.push(News::Went(address.clone()));
        self.remove_routes(address, None, gone);
        let site = self.site;
        if self.list.is_empty() {
            if !gone && !site.device.is_leaving() {
                crate::settings::written::had_address(site.stack, site.device);
            }
            crate::fib::host::lost4(site.ns, site.device, Loss::Down, true);
            let key = site.device.key;
            site.ns
                .neighbours()
                .device_went(site.stack, site.guard, key, false, false);
        }
    }

    /// Inserts an address (`__inet_insert_ifa`).
    fn insert(&mut self, mut address: Address) -> Result<(), Error> {
        if !self.site.device.is_in(self.site.ns, self.site.guard) {
            return Err(Error::new(errno::ENODEV));
        }
        if !self.site.device.has_ipv4() {
            return Err(Error::new(errno::ENOBUFS));
        }
        if address.local.is_unspecified() {
            return Ok(());
        }
        address.flags &= !(ifa::f::SECONDARY | IPV6_FLAGS);
        let mut at = 0;
        for (index, other) in self.list.iter().enumerate() {
            if !other.is_secondary() && address.scope <= other.scope {
                at = index + 1;
            }
            if address.shares_prefix(other) {
                if other.local == address.local {
                    return Err(Error::new(errno::EEXIST));
                }
                if other.scope != address.scope {
                    return Err(Error::new(errno::EINVAL));
                }
                address.flags |= ifa::f::SECONDARY;
            }
        }
        let device = self.site.device;
        device
            .link
            .check_ip(self.site.guard, address.local.into())?;
        if address.is_secondary() {
            at = self.list.len();
        }
        let address = Arc::new(address);
        self.list.reserve_exact(1);
        self.list.insert(at, address.clone());
        self.came(&address);
        Ok(())
    }

    /// Removes an address (`__inet_del_ifa`).
    fn remove(&mut self, at: usize, gone: bool) {
        let Some(first) = self.list.get(at).cloned() else {
            return;
        };
        let site = self.site;
        let promote = !gone
            && (site.device.conf().ipv4.on(Ipv4Conf::PromoteSecondaries)
                || site.ns.conf().all.ipv4.on(Ipv4Conf::PromoteSecondaries));
        let follows =
            |address: &Arc<Address>| address.is_secondary() && first.shares_prefix(address);
        let mut heir = None;
        if !gone && !first.is_secondary() {
            if promote {
                let found = self.list.iter().skip(at + 1).find(|other| follows(other));
                heir = found.cloned();
            } else {
                while let Some(next) = self.list.iter().skip(at + 1).position(&follows) {
                    let other = self.list.remove(at + 1 + next);
                    self.went(&other, false);
                }
            }
        }
        // The routes of the remaining secondary addresses get another source: remove them while the
        // list is still complete.
        let heirs: Vec<_> = match &heir {
            None => Vec::new(),
            Some(_) => self
                .list
                .iter()
                .skip(at + 1)
                .filter(|other| follows(other))
                .cloned()
                .collect(),
        };
        for other in &heirs {
            self.remove_routes(other, Some(&first), gone);
        }
        self.list.remove(at);
        self.went(&first, gone);
        if let Some(heir) = heir {
            self.list.retain(|other| !Arc::ptr_eq(other, &heir));
            // Insert it after the last primary address that the old one preceded.
            let place = self
                .list
                .iter()
                .rposition(|other| !other.is_secondary() && first.scope <= other.scope)
                .map_or(0, |last| last + 1);
            let promoted = Arc::new(Address {
                flags: heir.flags & !ifa::f::SECONDARY,
                ..(*heir).clone()
            });
            self.list.insert(place, promoted.clone());
            self.came(&promoted);
            for other in heirs.iter().skip(1) {
                self.add_routes(other);
            }
        }
    }

    fn replace(&mut self, at: usize, address: Address) {
        if let Some(slot) = self.list.get_mut(at) {
            *slot = Arc::new(address);
            self.news.push(News::Came(slot.clone()));
        }
    }
}

impl Addresses {
    /// Creates an empty list.
    pub fn new(domain: &Domain) -> Self {
        Self {
            list: PublishedOption::new(domain, None),
            change: Mutex::new(None),
        }
    }

    /// Returns the addresses, primary ones first.
    #[inline]
    pub fn list<'g>(&'g self, guard: &'g Guard) -> &'g [Arc<Address>] {
        self.list.load(guard).map_or(&[], addresses::List::all)
    }

    fn lock(&self) -> MutexGuard<'_, Option<TimerId>, order::Addresses> {
        self.change.lock()
    }

    /// Returns whether the device has no address, once the change in progress is over: the next one sees what became
    /// of the device before this call.
    fn has_none(&self) -> bool {
        let _alone = self.lock();
        !self.list.is_some()
    }

    /// Runs a change, publishes the result and rearms the timer.
    fn change<R>(
        &self,
        site: &Site<'_>,
        change: impl FnOnce(&mut Work<'_>) -> Result<R, Error>,
    ) -> Result<(R, Vec<News>), Error> {
        let mut timer = self.lock();
        let mut work = Work {
            site: *site,
            list: self.list(site.guard).to_vec(),
            news: Vec::new(),
        };
        let answer = change(&mut work)?;
        let Work { list, news, .. } = work;
        site.rearm(&mut timer, &list);
        self.list.replace(addresses::List::new(list));
        site.device.link.ips_changed(site.guard, site.device);
        Ok((answer, news))
    }

    /// Removes or deprecates addresses whose lifetimes are over (`check_lifetime`).
    fn expire(&self, site: &Site<'_>) {
        let now = site.stack.clock.now();
        // This timer has fired; the change below arms the next one.
        *self.lock() = None;
        let changed = self.change(site, |work| {
            let over = |life, address: &Address| is_over(life, address.updated, now);
            while let Some(at) = work.list.iter().position(|address| {
                address.flags & ifa::f::PERMANENT == 0 && over(address.valid, address)
            }) {
                work.remove(at, false);
            }
            for at in 0..work.list.len() {
                let Some(address) = work.list.get(at) else {
                    break;
                };
                let lively = address.flags & (ifa::f::PERMANENT | ifa::f::DEPRECATED) == 0;
                if lively && over(address.preferred, address) {
                    let mut address = (**address).clone();
                    address.flags |= ifa::f::DEPRECATED;
                    work.replace(at, address);
                }
            }
            Ok(())
        });
        if let Ok(((), news)) = changed {
            site.tell(news);
        }
    }

    /// Adds an address (`inet_rtm_newaddr`). If `replace` is set, an existing address is changed.
    ///
    /// # Errors
    /// EEXIST if the address exists; EINVAL if its scope differs from that of its prefix.
    pub fn add(
        &self,
        site: &Site<'_>,
        address: Address,
        replace: bool,
    ) -> Result<Vec<News>, Error> {
        let changed = self.change(site, |work| {
            let Some(at) = work.list.iter().position(|other| other.is_twin(&address)) else {
                return work.insert(address);
            };
            if !replace {
                return Err(Error::new(errno::EEXIST));
            }
            let Some(present) = work.list.get(at).cloned() else {
                return Ok(());
            };
            let mut changed = (*present).clone();
            if changed.metric != address.metric {
                let mut events = Vec::new();
                work.site.ns.fib().v4.prefix_metric(
                    work.site.device,
                    &present.ifaddr(),
                    address.metric,
                    &work.site.host(),
                    work.site.guard,
                    &mut events,
                );
                work.routes(events);
                changed.metric = address.metric;
            }
            changed.protocol = address.protocol;
            changed.set_lifetime(address.valid, address.preferred, address.updated);
            work.replace(at, changed);
            Ok(())
        });
        changed.map(|(_, news)| news)
    }

    /// Removes the first address for which `which` returns true (`inet_rtm_deladdr`).
    ///
    /// # Errors
    /// EADDRNOTAVAIL if there is none.
    pub fn remove(
        &self,
        site: &Site<'_>,
        which: impl Fn(&Address) -> bool,
    ) -> Result<Vec<News>, Error> {
        let changed = self.change(site, |work| {
            let at = work.list.iter().position(|address| which(address));
            let at = at.ok_or_else(|| Error::new(errno::EADDRNOTAVAIL))?;
            work.remove(at, false);
            Ok(())
        });
        changed.map(|(_, news)| news)
    }

    /// Removes all addresses when the device leaves its namespace (`inetdev_destroy`).
    pub(super) fn clear(&self, site: &Site<'_>) {
        if self.has_none() {
            return;
        }
        let changed = self.change(site, |work| {
            while !work.list.is_empty() {
                work.remove(0, true);
            }
            Ok(())
        });
        if let Ok(((), news)) = changed {
            site.tell(news);
        }
    }

    /// Restores the routes of the addresses when the device comes up. A loopback device without
    /// addresses gets 127.0.0.1/8 (`inetdev_event`, `fib_netdev_event`).
    pub(super) fn device_up(&self, site: &Site<'_>) {
        let loopback = site.device.flags() & weir_netlink::ifla::iff::LOOPBACK != 0;
        if !loopback && self.has_none() {
            return crate::fib::host::found4(site.stack, site.ns, site.device);
        }
        let changed = self.change(site, |work| {
            let device = work.site.device;
            let before = work.list.clone();
            if loopback {
                let now = work.site.stack.clock.now();
                let mut address = Address {
                    local: Ipv4Addr::LOCALHOST,
                    address: Ipv4Addr::LOCALHOST,
                    prefix_len: 8,
                    broadcast: None,
                    label: device.name(),
                    scope: rta::scope::HOST,
                    flags: 0,
                    metric: 0,
                    protocol: 0,
                    preferred: FOREVER,
                    valid: FOREVER,
                    created: now,
                    updated: now,
                };
                address.set_lifetime(FOREVER, FOREVER, now);
                // This fails if the address still exists from the last time the device was up.
                // A new address has its routes.
                let _ = work.insert(address);
            }
            for address in before {
                work.add_routes(&address);
            }
            Ok(())
        });
        if let Ok(((), news)) = changed {
            site.tell(news);
        }
        crate::fib::host::found4(site.stack, site.ns, site.device);
    }

    /// Updates the labels after the device was renamed (`inetdev_changename`).
    pub(super) fn device_renamed(&self, site: &Site<'_>) {
        let name = site.device.name();
        let changed = self.change(site, |work| {
            for at in 0..work.list.len() {
                let Some(address) = work.list.get(at) else {
                    break;
                };
                let mut address = (**address).clone();
                let suffix = match address.label.find(':').filter(|_| at > 0) {
                    Some(colon) => address.label.split_off(colon),
                    None if at > 0 => format!(":{}", at + 1),
                    None => String::new(),
                };
                let room = 15usize.saturating_sub(suffix.len());
                address.label = name.chars().take(room).collect::<String>() + &suffix;
                work.replace(at, address);
            }
            Ok(())
        });
        if let Ok(((), news)) = changed {
            site.tell(news);
        }
    }
}
