// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A device's IPv6 addresses: the list, duplicate address detection, and the effect of the device
//! going up and down (`struct inet6_ifaddr`, `net/ipv6/addrconf.c`).
//!
//! An address is tentative until `dad_transmits` solicitations, sent `retrans_time_ms` apart, have
//! gone unanswered; then its route is created. This happens immediately if the device has no
//! neighbour discovery (`NOARP`, loopback), with `nodad`, or if `accept_dad` is 0. Without a
//! carrier, detection waits for one. When the device goes down, its addresses are deleted, except
//! permanent ones if `keep_addr_on_down` is set. Readers load the list under a guard; changes hold
//! the device's address lock and return [`News`].
//!
//! Not implemented: the random delay before the first solicitation (it is 0), optimistic addresses.

pub mod auto;
mod dad;
mod routes;
mod stable;
mod temporary;

use std::collections::BTreeSet;
use std::net::Ipv6Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use weir_netlink::{Error, errno, ifa, rta};
use weir_packet::header::ndisc::solicited_node;
use weir_sync::order::{self, Mutex, MutexGuard};
use weir_sync::rare::Rare;
use weir_sync::rcu::{Domain, Guard, PublishedOption};
use weir_sync::small_map::SmallMap;

use super::facts::Facts;
use super::group::{ALL_ROUTERS, ROUTERS};
use super::select::reach;
use crate::addresses::{self, Changes, FOREVER, Listed, is_over, rest};
use crate::clock::{SECOND, TimerId};
use crate::fib::address::{local6, prefix6};
use crate::fib::host::WithRoutes;
use crate::fib::sync::Loss;
use crate::ipv6::WithIpv6;
use crate::kind::InterfaceId;
use crate::layers::Site;
use crate::neigh::WithNeighbours;
use crate::settings::{HasIp, Ipv6Conf, WithSettings};
use dad::arm_dad;
use temporary::Privacy;

/// An IPv6 address of a device (`struct inet6_ifaddr`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// Our own address.
    pub address: Ipv6Addr,
    /// The peer's address, for a point-to-point prefix.
    pub peer: Option<Box<Ipv6Addr>>,
    /// The prefix length in bits.
    pub prefix_len: u8,
    /// `IFA_F_*`
    pub flags: u32,
    /// `IFA_RT_PRIORITY`: the metric of its prefix route; 0 stands for 256.
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
    /// Its interface identifier is the device's token.
    tokenized: bool,
    /// Whether its local route has been created.
    routed: bool,
}

impl Address {
    /// Creates an address that is not on a device yet.
    pub fn new(address: Ipv6Addr, prefix_len: u8, now: u64) -> Self {
        Self {
            address,
            peer: None,
            prefix_len,
            flags: 0,
            metric: 0,
            protocol: 0,
            preferred: FOREVER,
            valid: FOREVER,
            created: now,
            updated: now,
            tokenized: false,
            routed: false,
        }
    }

    /// Returns whether all of `flags` (`IFA_F_*`) are set.
    #[inline]
    pub fn has(&self, flags: u32) -> bool {
        self.flags & flags == flags
    }

    /// Returns whether the address may not be used yet.
    #[inline]
    pub fn is_tentative(&self) -> bool {
        self.has(ifa::f::TENTATIVE)
    }

    /// Returns `RT_SCOPE_*` (`rt_scope`).
    pub fn scope(&self) -> u8 {
        scope(self.address)
    }

    /// Returns the network address of the prefix.
    pub fn network(&self) -> Ipv6Addr {
        masked(self.address, self.prefix_len)
    }

    fn shares_prefix(&self, other: &Self) -> bool {
        self.prefix_len == other.prefix_len && self.network() == other.network()
    }

    /// Returns the remaining preferred and valid lifetimes in seconds.
    pub fn rest(&self, now: u64) -> (u32, u32) {
        if self.has(ifa::f::PERMANENT) && self.preferred == FOREVER {
            return (FOREVER, FOREVER);
        }
        rest(self.preferred, self.valid, self.updated, now)
    }

    /// Returns when its prefix route expires.
    fn expires(&self) -> Option<u64> {
        (self.valid != FOREVER).then(|| self.updated + u64::from(self.valid) * SECOND)
    }
}

impl Listed for Address {
    type Key = u128;

    fn next_end(&self) -> Option<u64> {
        if !self.has(ifa::f::DEPRECATED) && self.preferred != FOREVER {
            Some(self.updated + u64::from(self.preferred) * SECOND)
        } else {
            self.expires()
        }
    }

    fn announce(&self, site: &Site<'_>, ty: u16) {
        crate::listen::address6(site, self, ty);
    }

    fn expire(site: &Site<'_>) {
        site.device.ipv6().addresses.expire(site);
    }
}

/// Returns the `RT_SCOPE_*` of an address.
pub fn scope(address: Ipv6Addr) -> u8 {
    if address.is_multicast() {
        match address.octets()[1] & 0xf {
            1 => rta::scope::HOST,
            2 => rta::scope::LINK,
            5 => rta::scope::SITE,
            _ => rta::scope::UNIVERSE,
        }
    } else if address.is_loopback() {
        rta::scope::HOST
    } else if address.is_unicast_link_local() {
        rta::scope::LINK
    } else if address.segments()[0] & 0xffc0 == 0xfec0 {
        rta::scope::SITE
    } else {
        rta::scope::UNIVERSE
    }
}

/// Returns the prefix of an address.
pub fn masked(address: Ipv6Addr, prefix_len: u8) -> Ipv6Addr {
    let mask = u128::MAX
        .checked_shl(128 - u32::from(prefix_len.min(128)))
        .unwrap_or(0);
    Ipv6Addr::from(u128::from(address) & mask)
}

/// Returns the link-local address of a device: the EUI-64 of its Ethernet address, or its number, if it has one,
/// within the address (`addrconf_ifid_eui48`).
pub fn link_local(mac: [u8; 6], id: u16) -> Ipv6Addr {
    let [a, b, c, d, e, f] = mac;
    let (a, [high, low]) = match id {
        0 => (a ^ 2, [0xff, 0xfe]),
        id => (a, id.to_be_bytes()),
    };
    Ipv6Addr::from([0xfe, 0x80, 0, 0, 0, 0, 0, 0, a, b, c, high, low, d, e, f])
}

/// Returns the address in a prefix of 64 bits that belongs to the device's secret: the one that is set
/// (`stable_secret`) in mode 2, if there is one, and one from the stack's seed in mode 3.
fn stable(site: &Site<'_>, mode: i32, prefix: Ipv6Addr) -> Option<Ipv6Addr> {
    let secret = match mode {
        super::STABLE_PRIVACY => super::stable_secret(site.ns, site.device)?,
        _ => {
            let path = format!("{} stable {:?}", site.ns.id.0, site.device.address());
            let low = crate::random::seed_of(site.stack.config.seed, &path);
            Ipv6Addr::from(u128::from(low))
        }
    };
    stable::derive(secret, prefix)
}

/// The effect of a change, to be announced.
pub type News = crate::addresses::News<Address>;

type List = Vec<Arc<Address>>;

/// A running duplicate address detection.
#[derive(Debug)]
struct Dad {
    timer: TimerId,
    /// The number of solicitations still to be sent.
    probes: i32,
}

/// The state that changes need in addition to the list.
#[derive(Debug, Default)]
struct State {
    /// The addresses whose solicited-node group the device has joined, and the detection that runs for each.
    joined: SmallMap<Ipv6Addr, Option<Dad>>,
    seldom: Rare<Seldom>,
}

/// The state that a device with nothing but lasting addresses lacks.
#[derive(Debug, Default)]
struct Seldom {
    /// The timer of the next lifetime expiry.
    timer: Option<TimerId>,
    /// The subnet-router anycast addresses that have a route.
    anycast: BTreeSet<Ipv6Addr>,
    /// The temporary addresses. `None` on a device that never had any.
    privacy: Option<Box<Privacy>>,
}

impl State {
    /// Returns whether the detection of duplicates of an address runs.
    fn detects(&self, address: Ipv6Addr) -> bool {
        let joined = self.joined.get(&address);
        joined.is_some_and(Option::is_some)
    }

    /// Returns the temporary addresses, if the device ever had any.
    fn privacy(&self) -> Option<&Privacy> {
        self.seldom.get()?.privacy.as_deref()
    }

    /// Sees to it that the timer is armed for the next end of an address in `list`.
    fn rearm(&mut self, site: &Site<'_>, list: &[Arc<Address>]) {
        let seldom = self.seldom.made();
        let mut timer = seldom.and_then(|seldom| seldom.timer.take());
        site.rearm(&mut timer, list);
        if timer.is_some() {
            self.seldom.change().timer = timer;
        }
    }
}

/// The addresses of a device.
#[derive(Debug)]
pub struct Addresses {
    list: PublishedOption<addresses::List<Address>>,
    /// Whether the device has had a carrier since it went up (`IF_READY`).
    ready: AtomicBool,
    /// Serializes changes.
    state: Mutex<State, order::Addresses>,
}

/// A change in progress: the list it edits, and its effects.
struct Work<'a, 's> {
    site: Site<'a>,
    list: List,
    state: &'s mut State,
    news: Vec<News>,
    /// The device has its first usable link-local address.
    has_source: bool,
}

impl Work<'_, '_> {
    fn position(&self, address: Ipv6Addr) -> Option<usize> {
        self.list.iter().position(|other| other.address == address)
    }

    fn edit(&mut self, address: Ipv6Addr, edit: impl FnOnce(&mut Address)) -> Option<Arc<Address>> {
        let at = self.position(address)?;
        let slot = self.list.get_mut(at)?;
        let mut changed = (**slot).clone();
        edit(&mut changed);
        *slot = Arc::new(changed);
        Some(slot.clone())
    }

    /// Announces a usable address and creates its routes (`ipv6_ifa_notify`).
    fn usable(&mut self, address: Ipv6Addr) {
        let mut first = false;
        let changed = self.edit(address, |address| {
            first = !address.routed;
            address.routed = true;
        });
        let Some(changed) = changed else { return };
        self.news.push(News::Came(changed.clone()));
        let device = self.site.device;
        if first {
            self.add_route(&local6(address, device, false));
        }
        if let Some(peer) = changed.peer.as_deref() {
            self.add_route(&prefix6(*peer, 128, device, changed.metric, None));
        }
    }

    /// Inserts an address into the list (`ipv6_add_addr`).
    fn insert(&mut self, mut address: Address) -> Result<(), Error> {
        let site = self.site;
        let wanted = address.address;
        if !site.device.is_in(site.ns, site.guard) {
            return Err(Error::new(errno::ENODEV));
        }
        if !site.device.has_ipv6() {
            return Err(Error::new(errno::EINVAL));
        }
        if wanted.is_unspecified()
            || (wanted.is_multicast() && !address.has(ifa::f::MCAUTOJOIN))
            || (wanted.is_loopback() && !site.is_loopback())
        {
            return Err(Error::new(errno::EADDRNOTAVAIL));
        }
        if site.on(Ipv6Conf::DisableIpv6) {
            return Err(Error::new(errno::EACCES));
        }
        site.device.link.check_ip(site.guard, wanted.into())?;
        if self.position(wanted).is_some() {
            return Err(Error::new(errno::EEXIST));
        }
        if !address.has(ifa::f::NODAD) {
            address.flags |= ifa::f::TENTATIVE;
        }
        let at = self
            .list
            .iter()
            .position(|other| reach(wanted) >= reach(other.address));
        self.list.reserve_exact(1);
        self.list
            .insert(at.unwrap_or(self.list.len()), Arc::new(address));
        Ok(())
    }

    /// Joins the solicited-node group of an address (`addrconf_join_solict`).
    fn join_solicited(&self, address: Ipv6Addr) {
        if !self.site.is_quiet() {
            let group = solicited_node(address.octets()).into();
            self.site.device.ipv6().groups.join(&self.site, group);
        }
    }

    /// Leaves the solicited-node group of an address (`addrconf_leave_solict`).
    fn leave_solicited(&self, address: Ipv6Addr) {
        let group = solicited_node(address.octets()).into();
        self.site.device.ipv6().groups.leave(&self.site, group);
    }

    /// Leaves the solicited-node group of one of the device's own addresses.
    fn leave_own(&mut self, address: Ipv6Addr) {
        if self.state.joined.remove(&address).is_some() {
            self.leave_solicited(address);
        }
    }

    /// Starts duplicate address detection (`addrconf_dad_begin`).
    fn start_dad(&mut self, address: Ipv6Addr) {
        let Some(at) = self.position(address) else {
            return;
        };
        let site = self.site;
        let mut detects = None;
        if !site.is_quiet() {
            detects = self.state.joined.get(&address).map(Option::is_some);
            if detects.is_none() {
                self.state.joined.insert(address, None);
                self.join_solicited(address);
            }
        }
        let tentative = self.list.get(at).is_some_and(|a| a.is_tentative());
        let unwanted = site.device.conf().ipv6.get(Ipv6Conf::AcceptDad) < 1
            && site.ns.conf().all.ipv6.get(Ipv6Conf::AcceptDad) < 1;
        if site.is_quiet() || unwanted || !tentative {
            return self.finish_dad(address);
        }
        if !site.device.ipv6().addresses.is_ready() || detects == Some(true) {
            return;
        }
        let probes = site.device.conf().ipv6.get(Ipv6Conf::DadTransmits);
        let timer = arm_dad(&site, address, site.stack.clock.now());
        if let Some(dad) = self.state.joined.get_mut(&address) {
            *dad = Some(Dad { timer, probes });
        }
    }

    fn start_all(&mut self, addresses: &[&Arc<Address>]) {
        for address in addresses {
            self.start_dad(address.address);
        }
    }

    /// Completes duplicate address detection: no other host has the address
    /// (`addrconf_dad_completed`).
    fn finish_dad(&mut self, address: Ipv6Addr) {
        self.stop_dad(address);
        self.edit(address, |address| {
            address.flags &= !(ifa::f::TENTATIVE | ifa::f::OPTIMISTIC | ifa::f::DADFAILED);
        });
        self.usable(address);
        self.has_source |= self.is_lonely(address);
    }

    /// Returns whether an address is the only usable link-local one (`ipv6_lonely_lladdr`).
    fn is_lonely(&self, address: Ipv6Addr) -> bool {
        const STATE: u32 =
            ifa::f::PERMANENT | ifa::f::TENTATIVE | ifa::f::OPTIMISTIC | ifa::f::DADFAILED;
        let is_link = |a: &Address| a.scope() == rta::scope::LINK;
        let other = |a: &Address| {
            a.address != address && is_link(a) && a.flags & STATE == ifa::f::PERMANENT
        };
        let at = self.position(address).and_then(|at| self.list.get(at));
        at.is_some_and(|a| is_link(a)) && !self.list.iter().any(|a| other(a))
    }

    fn stop_dad(&mut self, address: Ipv6Addr) {
        let joined = self.state.joined.get_mut(&address);
        if let Some(dad) = joined.and_then(Option::take) {
            self.site.stack.timers.cancel(dad.timer);
        }
    }

    /// Removes an address (`ipv6_del_addr`).
    fn remove(&mut self, address: Ipv6Addr) {
        let Some(at) = self.position(address) else {
            return;
        };
        let gone = self.list.remove(at);
        self.went(&gone);
        if !gone.has(ifa::f::PERMANENT) || gone.has(ifa::f::NOPREFIXROUTE) {
            return;
        }
        let keeps = ifa::f::PERMANENT | ifa::f::NOPREFIXROUTE;
        let needed = self
            .list
            .iter()
            .any(|other| other.shares_prefix(&gone) && other.flags & keeps != 0);
        if !needed {
            self.remove_prefix_route(gone.network(), gone.prefix_len);
        }
    }

    /// Updates the rest of the stack after an address was deleted (`__ipv6_ifa_notify`).
    fn went(&mut self, gone: &Arc<Address>) {
        self.stop_dad(gone.address);
        self.leave_own(gone.address);
        self.news.push(News::Went(gone.clone()));
        let ifindex = self.site.ifindex();
        if let Some(peer) = gone.peer.as_deref() {
            self.remove_prefix_route(*peer, 128);
        }
        if gone.routed {
            self.remove_route(&local6(gone.address, self.site.device, false));
        }
        self.site.ns.fib().v6.address_lost(gone.address, ifindex);
    }

    /// Has a device that is up accept and report its groups (`ipv6_find_idev`).
    fn renew_groups(&self) {
        self.site.device.ipv6().addresses.renew_groups(&self.site);
    }

    /// Starts detection for the `kept` addresses of a device, and adds its automatically generated ones
    /// (`addrconf_init_auto_addrs`).
    fn add_own(&mut self, kept: &[&Arc<Address>]) {
        let site = self.site;
        let now = site.stack.clock.now();
        if site.is_loopback() {
            self.renew_groups();
            self.start_all(kept);
            let mut address = Address::new(Ipv6Addr::LOCALHOST, 128, now);
            address.flags = ifa::f::PERMANENT;
            address.protocol = ifa::prot::KERNEL_LO;
            if self.insert(address).is_ok() {
                self.edit(Ipv6Addr::LOCALHOST, |a| a.flags &= !ifa::f::TENTATIVE);
                self.usable(Ipv6Addr::LOCALHOST);
            }
            return;
        }
        if site.on(Ipv6Conf::DisableIpv6) {
            return;
        }
        match site.device.link.has_group_route() {
            true => self.add_multicast_route(),
            false => self.renew_groups(),
        }
        self.start_all(kept);
        if site.device.is_l3_master() {
            return;
        }
        let mut mode = site.device.conf().ipv6.get(Ipv6Conf::AddrGenMode);
        let identifier = site.device.link.interface_id();
        if (mode, identifier) == (0, InterfaceId::Random) {
            mode = super::RANDOM;
            site.device.conf().ipv6.set(Ipv6Conf::AddrGenMode, mode);
        }
        let network = 0xfe80 << 112;
        let (wanted, flags) = match (mode, identifier) {
            (0, InterfaceId::None) => return,
            (0, InterfaceId::Fixed(id)) => (Some(Ipv6Addr::from(network | u128::from(id))), 0),
            (0, InterfaceId::Ethernet) => {
                let own = link_local(site.device.address(), site.device.link.device_id());
                (Some(own), 0)
            }
            (super::STABLE_PRIVACY | super::RANDOM, _) => {
                let network = Ipv6Addr::from(network);
                (stable(&site, mode, network), ifa::f::STABLE_PRIVACY)
            }
            _ => return,
        };
        let Some(wanted) = wanted else { return };
        let mut address = Address::new(wanted, 64, now);
        address.flags = ifa::f::PERMANENT | flags;
        address.protocol = ifa::prot::KERNEL_LL;
        if self.insert(address.clone()).is_ok() {
            self.add_prefix_route(&address);
            self.start_dad(wanted);
        }
    }

    /// Updates the routes of the subnet-router anycast addresses, which a router has
    /// (`addrconf_join_anycast`).
    fn sync_anycast(&mut self) {
        let forwards = self.site.on(Ipv6Conf::Forwarding);
        let has_some = self.state.seldom.get();
        let has_some = has_some.is_some_and(|seldom| !seldom.anycast.is_empty());
        if !forwards && !has_some {
            return;
        }
        let wanted: BTreeSet<_> = self
            .list
            .iter()
            .filter(|a| forwards && a.routed && !a.is_tentative() && a.prefix_len < 127)
            .map(|a| a.network())
            .filter(|network| !network.is_unspecified())
            .collect();
        if wanted.is_empty() && !has_some {
            return;
        }
        let present = std::mem::replace(&mut self.state.seldom.change().anycast, wanted.clone());
        let device = self.site.device;
        for network in present.difference(&wanted) {
            self.leave_solicited(*network);
            self.remove_route(&local6(*network, device, true));
        }
        for network in wanted.difference(&present) {
            self.join_solicited(*network);
            self.add_route(&local6(*network, device, true));
        }
    }

    /// Handles a device whose link became ready: adds its automatic addresses and starts detection
    /// for waiting ones (`addrconf_notify`).
    fn ready(&mut self) {
        let site = self.site;
        site.device.ipv6().addresses.ready.store(true, Relaxed);
        // Addresses that were kept while the device was down come first (`addrconf_permanent_addr`).
        let before = self.list.clone();
        let (waiting, kept): (Vec<_>, Vec<_>) = before
            .iter()
            .filter(|a| !a.routed && !a.has(ifa::f::DADFAILED))
            .partition(|a| self.state.joined.contains_key(&a.address));
        self.add_own(&kept);
        self.start_all(&waiting);
        crate::fib::host::found6(site.stack, site.ns, site.device);
    }

    /// Handles a device that goes down or away (`addrconf_ifdown`).
    fn down(&mut self, gone: bool) {
        let site = self.site;
        let loss = if gone { Loss::Gone } else { Loss::Down };
        let events = crate::fib::host::lost6(site.ns, site.device, loss);
        self.routes(events);
        let key = site.device.key;
        site.ns
            .neighbours()
            .device_went(site.stack, site.guard, key, true, false);
        let was_ready = site.device.ipv6().addresses.ready.swap(false, Relaxed);
        let all = site.ns.conf().all.ipv6.get(Ipv6Conf::KeepAddrOnDown);
        let own = site.device.conf().ipv6.get(Ipv6Conf::KeepAddrOnDown);
        let keep =
            !gone && !site.on(Ipv6Conf::DisableIpv6) && if all != 0 { all > 0 } else { own > 0 };
        for address in std::mem::take(&mut self.list) {
            let local = address.address.is_loopback() || address.address.is_unicast_link_local();
            if keep && address.has(ifa::f::PERMANENT) && !local {
                self.stop_dad(address.address);
                self.leave_own(address.address);
                if address.routed {
                    self.remove_route(&local6(address.address, site.device, false));
                }
                let mut kept = (*address).clone();
                kept.routed = false;
                if !kept.has(ifa::f::NODAD) {
                    kept.flags |= ifa::f::TENTATIVE;
                }
                self.list.push(Arc::new(kept));
            } else {
                self.went(&address);
            }
        }
        let inet = site.device.ipv6();
        inet.stop_solicitations(&site);
        if gone {
            // Its groups are left as a whole.
            self.state.joined.take();
            if let Some(seldom) = self.state.seldom.made() {
                seldom.anycast.clear();
            }
            inet.groups.end(&site);
        } else if was_ready {
            inet.groups.down(&site);
        }
    }
}

impl Addresses {
    /// Creates an empty list.
    pub fn new(domain: &Domain) -> Self {
        Self {
            list: PublishedOption::new(domain, None),
            ready: AtomicBool::new(false),
            state: Mutex::default(),
        }
    }

    /// Returns the addresses. Those with the widest scope come first and, within a scope, the
    /// newest.
    #[inline]
    pub fn list<'g>(&'g self, guard: &'g Guard) -> &'g [Arc<Address>] {
        self.list.load(guard).map_or(&[], addresses::List::all)
    }

    /// Returns one of the addresses.
    pub fn get<'g>(&'g self, address: Ipv6Addr, guard: &'g Guard) -> Option<&'g Arc<Address>> {
        self.list(guard)
            .iter()
            .find(|other| other.address == address)
    }

    /// Returns whether the device is up with a link (`IF_READY`).
    pub fn is_ready(&self) -> bool {
        self.ready.load(Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, State, order::Addresses> {
        self.state.lock()
    }

    /// Runs a change, publishes the result, and updates the timer and the anycast routes.
    fn change<R>(
        &self,
        site: &Site<'_>,
        change: impl FnOnce(&mut Work<'_, '_>) -> Result<R, Error>,
    ) -> Result<(R, Vec<News>), Error> {
        let mut state = self.lock();
        let mut work = Work {
            site: *site,
            list: self.list(site.guard).to_vec(),
            state: &mut state,
            news: Vec::new(),
            has_source: false,
        };
        let answer = change(&mut work)?;
        work.sync_anycast();
        work.settle_temporary();
        let Work {
            list,
            news,
            has_source,
            ..
        } = work;
        state.rearm(site, &list);
        self.list.replace(addresses::List::new(list));
        site.device.link.ips_changed(site.guard, site.device);
        if has_source && site.stack.config.link_chatter {
            super::mld::has_source(site);
            site.device.ipv6().solicitations().start(site);
        }
        Ok((answer, news))
    }

    /// Runs a change that cannot fail and notifies the listeners.
    fn change_told(&self, site: &Site<'_>, change: impl FnOnce(&mut Work<'_, '_>)) {
        let changed = self.change(site, |work| {
            change(work);
            Ok(())
        });
        if let Ok(((), news)) = changed {
            site.tell(news);
        }
    }

    /// Removes or deprecates addresses whose lifetimes are over (`addrconf_verify_rtnl`).
    fn expire(&self, site: &Site<'_>) {
        let now = site.stack.clock.now();
        // This timer has fired; the change below arms the next one.
        if let Some(seldom) = self.lock().seldom.made() {
            seldom.timer = None;
        }
        self.change_told(site, |work| {
            let over = |life, address: &Address| is_over(life, address.updated, now);
            for address in work.list.clone() {
                if over(address.valid, &address) {
                    work.remove(address.address);
                } else if over(address.preferred, &address) && !address.has(ifa::f::DEPRECATED) {
                    let changed = work.edit(address.address, |a| a.flags |= ifa::f::DEPRECATED);
                    work.news.extend(changed.map(News::Came));
                }
            }
        });
        let mut events = Vec::new();
        site.ns.fib().v6.expire(now, &mut events);
        site.tell_routes(&events);
    }

    /// Has a device that is up accept and report its groups, as Linux does at several requests
    /// (`ipv6_find_idev`).
    pub fn renew_groups(&self, site: &Site<'_>) {
        if site.device.is_up() {
            site.device.ipv6().groups.up(site);
        }
    }

    /// Adds an address (`inet6_addr_add`). Its flags are the requested ones.
    ///
    /// # Errors
    /// EADDRNOTAVAIL for an address that no device can have, EACCES if IPv6 is disabled, EEXIST if
    /// the address exists.
    pub fn add(&self, site: &Site<'_>, mut address: Address) -> Result<Vec<News>, Error> {
        let changed = self.change(site, |work| {
            let name = address.address;
            if !site.device.is_in(site.ns, site.guard) {
                return Err(Error::new(errno::ENODEV));
            }
            if site.on(Ipv6Conf::DisableIpv6) && !site.is_loopback() {
                work.renew_groups();
                return Err(Error::new(errno::EACCES));
            }
            if address.valid == FOREVER {
                address.flags |= ifa::f::PERMANENT;
            }
            if address.preferred == 0 {
                address.flags |= ifa::f::DEPRECATED;
            }
            work.add_multicast_route();
            work.insert(address.clone())?;
            if !address.has(ifa::f::NOPREFIXROUTE) {
                work.add_prefix_route(&address);
            }
            if address.flags & (ifa::f::OPTIMISTIC | ifa::f::NODAD) == 0
                && let Some(at) = work.position(name)
                && let Some(present) = work.list.get(at).cloned()
            {
                work.news.push(News::Came(present));
            }
            work.start_dad(name);
            if address.has(ifa::f::MANAGETEMPADDR) {
                work.manage_temporary(name, (address.valid, address.preferred), true);
            }
            Ok(())
        });
        changed.map(|(_, news)| news)
    }

    /// Changes an existing address (`inet6_addr_modify`).
    ///
    /// # Errors
    /// EADDRNOTAVAIL if it does not exist any more.
    pub fn modify(&self, site: &Site<'_>, wanted: Address) -> Result<Vec<News>, Error> {
        const REPLACED: u32 = ifa::f::DEPRECATED
            | ifa::f::PERMANENT
            | ifa::f::NODAD
            | ifa::f::HOMEADDRESS
            | ifa::f::MANAGETEMPADDR
            | ifa::f::NOPREFIXROUTE;
        let changed = self.change(site, |work| {
            let name = wanted.address;
            let at = work.position(name);
            let present = at.and_then(|at| work.list.get(at).cloned());
            let old = present.ok_or_else(|| Error::new(errno::EADDRNOTAVAIL))?;
            let had_route = old.has(ifa::f::PERMANENT) && !old.has(ifa::f::NOPREFIXROUTE);
            let new_peer = wanted.peer.is_some() && wanted.peer != old.peer;
            if let (true, Some(peer)) = (new_peer, old.peer.as_deref()) {
                work.remove_prefix_route(*peer, 128);
            }
            let mut flags = wanted.flags;
            if wanted.valid == FOREVER {
                flags |= ifa::f::PERMANENT;
            }
            if wanted.preferred == 0 {
                flags |= ifa::f::DEPRECATED;
            }
            let changed = work.edit(name, |address| {
                address.flags = (address.flags & !REPLACED) | flags;
                address.updated = wanted.updated;
                (address.valid, address.preferred) = (wanted.valid, wanted.preferred);
                address.protocol = wanted.protocol;
                if wanted.metric != 0 {
                    address.metric = wanted.metric;
                }
                if new_peer {
                    address.peer = wanted.peer.clone();
                }
            });
            let Some(changed) = changed else {
                return Ok(());
            };
            if !changed.is_tentative() {
                work.news.push(News::Came(changed.clone()));
            }
            if had_route {
                work.remove_prefix_route(changed.network(), changed.prefix_len);
            }
            if !changed.has(ifa::f::NOPREFIXROUTE) {
                work.add_prefix_route(&changed);
            }
            if let (true, Some(peer)) = (new_peer, changed.peer.as_deref().copied()) {
                work.add_route(&prefix6(peer, 128, site.device, changed.metric, None));
            }
            let managed = old.has(ifa::f::MANAGETEMPADDR);
            if changed.has(ifa::f::MANAGETEMPADDR) {
                work.manage_temporary(name, (changed.valid, changed.preferred), !managed);
            } else if managed {
                work.delete_temporary(name);
            }
            Ok(())
        });
        changed.map(|(_, news)| news)
    }

    /// Removes an address (`inet6_addr_del`).
    ///
    /// # Errors
    /// EADDRNOTAVAIL if there is none.
    pub fn remove(
        &self,
        site: &Site<'_>,
        address: Ipv6Addr,
        prefix_len: u8,
    ) -> Result<Vec<News>, Error> {
        let changed = self.change(site, |work| {
            let present = work
                .list
                .iter()
                .any(|other| other.address == address && other.prefix_len == prefix_len);
            if !present {
                return Err(Error::new(errno::EADDRNOTAVAIL));
            }
            work.delete_temporary(address);
            work.remove(address);
            Ok(())
        });
        changed.map(|(_, news)| news)
    }

    /// Handles a tentative address that another host has (`addrconf_dad_failure`).
    pub fn duplicate(&self, site: &Site<'_>, address: Ipv6Addr) {
        self.change_told(site, |work| {
            if !work.state.detects(address) {
                return;
            }
            work.stop_dad(address);
            let permanent = work
                .list
                .iter()
                .any(|a| a.address == address && a.has(ifa::f::PERMANENT));
            if permanent {
                let changed = work.edit(address, |a| a.flags |= ifa::f::DADFAILED);
                work.news.extend(changed.map(News::Came));
            } else {
                work.replace_temporary(address);
                work.remove(address);
            }
        });
    }

    /// Handles a device that entered a namespace (`ipv6_add_dev`).
    pub(super) fn device_entered(&self, site: &Site<'_>) {
        if !site.device.has_ipv6() {
            return;
        }
        let routes = site.on(Ipv6Conf::Forwarding) && site.has_multicast();
        let routers = routes.then_some(ALL_ROUTERS);
        site.device.ipv6().groups.start(site, routers);
    }

    /// Handles a device that went up (`NETDEV_UP`).
    pub(super) fn device_up(&self, site: &Site<'_>) {
        if site.on(Ipv6Conf::DisableIpv6) || !site.is_able() || is_slave(site) {
            return;
        }
        self.change_told(site, |work| {
            for address in work.list.clone() {
                if address.has(ifa::f::PERMANENT) && !address.has(ifa::f::NOPREFIXROUTE) {
                    work.add_prefix_route(&address);
                }
            }
            if site.has_link() {
                work.ready();
            }
        });
    }

    /// Handles a possible carrier change (`NETDEV_CHANGE`).
    pub(super) fn carrier_changed(&self, site: &Site<'_>) {
        if site.on(Ipv6Conf::DisableIpv6) || !site.is_able() || !site.device.is_up() {
            return;
        }
        if is_slave(site) {
            return;
        }
        if !site.has_link() {
            let events = crate::fib::host::lost6(site.ns, site.device, Loss::Carrier);
            site.tell_routes(&events);
        } else if self.is_ready() {
            site.device.ipv6().groups.up(site);
            crate::fib::host::found6(site.stack, site.ns, site.device);
        } else {
            self.change_told(site, |work| work.ready());
        }
    }

    /// Handles a device that went down, or that leaves its namespace if `gone` is set.
    pub(super) fn device_down(&self, site: &Site<'_>, gone: bool) {
        self.change_told(site, |work| work.down(gone));
    }

    /// Handles forwarding being turned on or off (`dev_forward_change`).
    pub(super) fn forwarding_changed(&self, site: &Site<'_>) {
        if site.has_multicast() {
            let groups = &site.device.ipv6().groups;
            for group in ROUTERS {
                match site.on(Ipv6Conf::Forwarding) {
                    true => groups.join(site, group),
                    false => groups.leave(site, group),
                }
            }
        }
        self.change_told(site, |_| {});
    }

    /// Handles another change of a device's state (`NETDEV_CHANGE`): its neighbours may have changed,
    /// so it reports its groups again.
    pub(super) fn state_changed(&self, site: &Site<'_>) {
        if !site.on(Ipv6Conf::DisableIpv6) && site.is_able() && site.has_link() && self.is_ready() {
            site.device.ipv6().groups.up(site);
        }
    }
}
/// Returns whether the device is a port of a bond, which has no addresses of its own (`addrconf_notify`).
fn is_slave(site: &Site<'_>) -> bool {
    site.device.flags() & weir_netlink::ifla::iff::SLAVE != 0
}
