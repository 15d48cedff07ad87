// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Route lookup for a flow: `fib_table_lookup`, `__fib_lookup`, `fib_select_multipath` of IPv4;
//! `fib6_table_lookup`, `rt6_select`, `fib6_select_path` of IPv6.
//!
//! A lookup walks the policy rules, each of which may name a table. The walk is skipped as long as
//! the rules have never been changed: IPv4 then merges the local and main tables (the longer prefix
//! wins; local wins if they are equal) and tries the default table last; IPv6 tries local, then
//! main. Within a table, the longest prefix is tried first. If none of its routes fits (type of
//! service, scope, dead device), the next shorter one is tried.
//!
//! Errors are positive errno values: EINVAL (blackhole), EHOSTUNREACH (unreachable), EACCES
//! (prohibit), ENETUNREACH (no route). A throw route (EAGAIN) ends the lookup in its table, and the
//! walk continues with the next rule.
//!
//! Not implemented: router reachability in IPv6 route selection (`RT6_LOOKUP_F_REACHABLE`) and its
//! round robin; neighbour state in multipath (`fib_multipath_use_neigh`). Exceptions of the
//! route found are looked up afterwards ([`super::exception`]).

use std::net::IpAddr;
use std::sync::Arc;

use weir_netlink::{errno, rta};
use weir_sync::rcu::Guard;

use super::lpm::Key;
use super::object::State;
use super::route::{Alias, LOOPBACK, Leaf, NextHop, RouteInfo, error_of, flag, shares, siblings};
use super::table::Table;
use super::{Address, Family, RouteDevice};

/// The lookup key of a packet (`struct flowi4`, `struct flowi6`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flow<K> {
    /// The destination address.
    pub dst: K,
    /// The source address, or zero if it has not been selected yet.
    pub src: K,
    /// The index of the incoming device; 1 (loopback) for locally generated packets.
    pub iif: u32,
    /// The index of the required outgoing device, or 0 for any.
    pub oif: u32,
    /// Firewall mark.
    pub mark: u32,
    /// The type of service without the ECN bits (IPv4), or the traffic class (IPv6).
    pub tos: u8,
    /// IPv4: the widest scope a route may have. Routes with a smaller number are skipped.
    pub scope: u8,
    /// The transport protocol.
    pub proto: u8,
    /// The transport source port.
    pub sport: u16,
    /// The transport destination port.
    pub dport: u16,
    /// The key of the tunnel the packet was received from, or 0 if there is none.
    pub tunnel: u64,
    /// The table of the L3 domain, for `l3mdev` rules, or 0 if there is none (`flowi_l3mdev`).
    pub l3_table: u32,
    /// The user id of the sender, or 0 for packets that no socket sent.
    pub uid: u32,
    /// The stack clock's time in nanoseconds, for IPv6 routes that expire. With 0, no route counts
    /// as expired.
    pub now: u64,
}

impl<K: Address> Default for Flow<K> {
    fn default() -> Self {
        Self {
            dst: K::ZERO,
            src: K::ZERO,
            iif: 0,
            oif: 0,
            mark: 0,
            tos: 0,
            scope: 0,
            proto: 0,
            sport: 0,
            dport: 0,
            tunnel: 0,
            l3_table: 0,
            uid: 0,
            now: 0,
        }
    }
}

/// Lookup options.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct LookupFlags {
    /// Also use hops whose link is down although the device ignores them.
    pub ignore_linkstate: bool,
    /// IPv6: use only routes through the given device (`RT6_LOOKUP_F_IFACE`).
    pub iface: bool,
    /// IPv6: the packet was received, so the given device is `iif`, not `oif`.
    pub input: bool,
    /// IPv6: for display, return a route that rejects packets although its type does not (one
    /// through the loopback device). Otherwise it counts as unreachable.
    pub show_reject: bool,
}

/// The route found for a flow.
#[derive(Debug)]
pub struct Found<'g, K, D: RouteDevice> {
    /// The table of the route.
    pub table: u32,
    /// The prefix.
    pub dst: K,
    /// The prefix length in bits.
    pub dst_len: u8,
    /// The route's type of service.
    pub tos: u8,
    /// The type, scope, metrics and preferred source.
    pub info: &'g Arc<RouteInfo<D>>,
    /// The first usable next hop, or the selected one.
    pub hop: &'g NextHop<D>,
    leaf: &'g Leaf<D>,
    pub(super) guard: &'g Guard,
}

impl<K: Copy, D: RouteDevice> Clone for Found<'_, K, D> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<K: Copy, D: RouteDevice> Copy for Found<'_, K, D> {}

/// The reason a table has no route: the errno, and the length of the prefix that decided it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Miss {
    pub(super) errno: i32,
    pub(super) dst_len: u8,
}

const NONE: Miss = Miss {
    errno: errno::EAGAIN,
    dst_len: 0,
};

/// The longest prefix of a destination and its routes, found ahead of the lookup.
pub type Hint<'g, D> = Option<(u8, &'g Leaf<D>)>;

impl<K: Address, D: RouteDevice> Table<K, D> {
    /// Looks up a flow's route in this table.
    ///
    /// # Errors
    /// The error of the route's type, or EAGAIN if there is no route or a throw route.
    pub fn lookup<'g>(
        &'g self,
        flow: &Flow<K>,
        flags: LookupFlags,
        guard: &'g Guard,
    ) -> Result<Found<'g, K, D>, i32> {
        self.find(flow, flags, guard).map_err(|miss| miss.errno)
    }

    #[inline]
    pub(super) fn find<'g>(
        &'g self,
        flow: &Flow<K>,
        flags: LookupFlags,
        guard: &'g Guard,
    ) -> Result<Found<'g, K, D>, Miss> {
        self.find_after(None, flow, flags, guard)
    }

    /// Does the same as [`find`](Self::find), and begins with the prefix of `first`, if given.
    #[inline]
    fn find_after<'g>(
        &'g self,
        mut first: Hint<'g, D>,
        flow: &Flow<K>,
        flags: LookupFlags,
        guard: &'g Guard,
    ) -> Result<Found<'g, K, D>, Miss> {
        let mut limit = K::BITS;
        loop {
            let longest = || self.lpm.longest(flow.dst, limit, guard).ok_or(NONE);
            let (dst_len, leaf) = first.take().map_or_else(longest, Ok)?;
            let choice = if K::IPV6 {
                choose6(leaf, flow, flags, guard)
            } else {
                choose4(leaf, flow, flags, guard)
            };
            match choice {
                Some(Ok((alias, hop))) => {
                    return Ok(Found {
                        table: self.id,
                        dst: flow.dst.masked(dst_len),
                        dst_len,
                        tos: alias.tos,
                        info: &alias.info,
                        hop,
                        leaf,
                        guard,
                    });
                }
                Some(Err(errno)) => return Err(Miss { errno, dst_len }),
                None => limit = dst_len.checked_sub(1).ok_or(NONE)?,
            }
        }
    }
}

impl<D: RouteDevice> Family<u128, D> {
    /// Finds the route of `flow` whose hop has the gateway that sent a redirect, through the flow's outgoing device
    /// (`__ip6_route_redirect`, `ip6_redirect_nh_match`). The gateway of an exception counts, too.
    pub fn redirected<'g>(
        &'g self,
        flow: &Flow<u128>,
        gateway: IpAddr,
        guard: &'g Guard,
    ) -> Option<Found<'g, u128, D>> {
        let first = self.lookup(flow, LookupFlags::default(), guard).ok()?;
        let table = self.table(first.table, guard)?;
        let mut limit = 128;
        loop {
            let (dst_len, leaf) = table.lpm.longest(flow.dst, limit, guard)?;
            for alias in leaf.iter() {
                let info = &alias.info;
                if info
                    .spec
                    .expires
                    .is_some_and(|expires| flow.now > expires.get())
                {
                    continue;
                }
                if info.spec.reject {
                    return None;
                }
                let fits = |hop: &&NextHop<D>| {
                    hop.flags() & flag::DEAD == 0
                        && hop.gateway.is_some()
                        && hop.oif == flow.oif
                        && (hop.gateway == Some(gateway)
                            || self
                                .exceptions
                                .of(flow.dst, info, hop, guard)
                                .is_some_and(|one| one.gateway == Some(gateway)))
                };
                if let Some(hop) = info.paths(guard).iter().find(fits) {
                    return Some(Found {
                        table: table.id,
                        dst: flow.dst.masked(dst_len),
                        dst_len,
                        tos: alias.tos,
                        info,
                        hop,
                        leaf,
                        guard,
                    });
                }
            }
            limit = dst_len.checked_sub(1)?;
        }
    }
}

/// The result for one prefix: a route, the error of its type, or `None` if no route fits.
type Choice<'g, D> = Option<Result<(&'g Alias<D>, &'g NextHop<D>), i32>>;

/// Selects the first route that fits and has a usable hop.
#[inline]
fn choose4<'g, K: Address, D: RouteDevice>(
    leaf: &'g Leaf<D>,
    flow: &Flow<K>,
    flags: LookupFlags,
    guard: &'g Guard,
) -> Choice<'g, D> {
    for alias in leaf.iter() {
        let info = &alias.info;
        if (alias.tos != 0 && alias.tos != flow.tos) || info.scope() < flow.scope {
            continue;
        }
        let errno = error_of(info.kind());
        if errno != 0 {
            return Some(Err(errno));
        }
        if info.is_dead() {
            continue;
        }
        if let Some(object) = info.object()
            && object.state(guard).is_some_and(State::is_blackhole)
        {
            return Some(Err(error_of(rta::rtn::BLACKHOLE)));
        }
        let hop = info.paths(guard).iter().find(|hop| {
            hop.is_usable(false, flags.ignore_linkstate) && (flow.oif == 0 || flow.oif == hop.oif)
        });
        if let Some(hop) = hop {
            return Some(Ok((alias, hop)));
        }
    }
    None
}

/// Selects the route with the best score among those with the smallest metric, or else among the
/// others (`find_rr_leaf`, `rt6_score_route`).
#[inline]
fn choose6<'g, K: Address, D: RouteDevice>(
    leaf: &'g Leaf<D>,
    flow: &Flow<K>,
    flags: LookupFlags,
    guard: &'g Guard,
) -> Choice<'g, D> {
    let device = if flags.input { flow.iif } else { flow.oif };
    let metric = leaf.first().info.spec.priority;
    let mut best: Option<(u8, &Alias<D>, &NextHop<D>)> = None;
    for alias in leaf.iter() {
        let spec = &alias.info.spec;
        if spec.priority != metric && best.is_some_and(|best| best.1.info.spec.priority == metric) {
            break;
        }
        if spec.expires.is_some_and(|expires| flow.now > expires.get()) {
            continue;
        }
        if let Some(object) = alias.info.object()
            && object.state(guard).is_some_and(State::is_blackhole)
        {
            return Some(Err(error_of(rta::rtn::BLACKHOLE)));
        }
        // Of the hops of an object, the first that is better than those of other routes counts.
        for hop in alias.info.paths(guard) {
            if !hop.is_usable(true, flags.ignore_linkstate) {
                continue;
            }
            let by_device = if device == 0 || hop.oif == device {
                2
            } else {
                0
            };
            if by_device == 0 && flags.iface {
                continue;
            }
            let score = by_device | (spec.pref ^ 2) << 2;
            if best.is_none_or(|best| score > best.0) {
                best = Some((score, alias, hop));
                break;
            }
        }
    }
    let (_, alias, hop) = best?;
    let spec = &alias.info.spec;
    if spec.reject {
        let errno = error_of(spec.kind);
        if errno == 0 && flags.show_reject {
            return Some(Ok((alias, hop)));
        }
        return Some(Err(if errno == 0 {
            errno::ENETUNREACH
        } else {
            errno
        }));
    }
    Some(Ok((alias, hop)))
}

impl<'g, K: Address, D: RouteDevice> Found<'g, K, D> {
    /// Returns whether there is more than one hop to choose from, that is, whether a hash is
    /// needed.
    #[inline]
    pub fn is_multipath(&self) -> bool {
        if let Some(object) = self.info.object() {
            object.hops(self.guard).len() > 1
        } else if K::IPV6 {
            self.info.is_ecmp() && self.siblings().nth(1).is_some()
        } else {
            self.info.hops.len() > 1
        }
    }

    /// Returns whether a hash is needed by a flow that names its outgoing device, if it is not 0. As in
    /// Linux, a nexthop object of IPv6 selects regardless of the device.
    #[inline]
    pub fn is_multipath_of(&self, oif: u32) -> bool {
        (oif == 0 || self.info.object().is_some()) && self.is_multipath()
    }

    /// Selects a hop by a 31-bit hash of the flow (`fib_select_multipath`, `fib6_select_path`).
    /// Must not be used if the flow names its outgoing device.
    pub fn select(mut self, hash: u32) -> Self {
        if let Some(object) = self.info.object() {
            let state = object.state(self.guard);
            if let Some(hop) = state.and_then(|state| state.select(hash, self.guard)) {
                self.hop = hop;
            }
            return self;
        }
        let hash = (hash & 0x7fff_ffff) as i32;
        if K::IPV6 {
            let weights = self.siblings().map(|info| {
                let hop = info.hops.first().filter(|hop| hop.is_usable(true, false));
                hop.map_or(0, |hop| hop.weight)
            });
            let found = self
                .siblings()
                .zip(shares(weights))
                .find(|(_, bound)| hash <= *bound);
            if let Some((info, _)) = found
                && let Some(hop) = info.hops.first()
            {
                self.info = info;
                self.hop = hop;
            }
        } else if let Some(hop) = self.info.hops.iter().find(|hop| hash <= hop.upper_bound()) {
            self.hop = hop;
        }
        self
    }

    /// IPv6: returns the routes that share the traffic with this one, in order and including
    /// itself.
    pub fn siblings(&self) -> impl Iterator<Item = &'g Arc<RouteInfo<D>>> + Clone + use<'g, K, D> {
        siblings(self.leaf, self.info)
    }

    /// Returns all routes of the prefix (for a dump of the route found).
    pub fn leaf(&self) -> &'g Leaf<D> {
        self.leaf
    }
}

impl<K: Address, D: RouteDevice> Family<K, D> {
    /// Looks up destinations of a batch in the main table, with their cache misses overlapped, and
    /// prefetches what [`lookup_after`](Self::lookup_after) reads of the routes. Fills `hints` up to
    /// the shorter of the two lengths, at most 64.
    pub fn look_ahead<'g>(
        &'g self,
        destinations: &[K],
        guard: &'g Guard,
        hints: &mut [Hint<'g, D>],
    ) {
        let Some(main) = &self.tables.load(guard).main else {
            return;
        };
        main.lpm.longest_many(destinations, guard, hints);
        let found = || hints.iter().take(destinations.len()).flatten();
        for (_, leaf) in found() {
            leaf.first().info.prefetch();
        }
        for (_, leaf) in found() {
            leaf.first().info.prefetch_neighbour(guard);
        }
    }

    /// Does the same for one destination, without prefetching.
    #[inline]
    pub fn look_ahead_one<'g>(&'g self, destination: K, guard: &'g Guard) -> Hint<'g, D> {
        let main = self.tables.load(guard).main.as_ref()?;
        main.lpm.longest(destination, K::BITS, guard)
    }

    /// Looks up the route of a flow.
    ///
    /// # Errors
    /// A positive errno; see the module documentation.
    #[inline]
    pub fn lookup<'g>(
        &'g self,
        flow: &Flow<K>,
        flags: LookupFlags,
        guard: &'g Guard,
    ) -> Result<Found<'g, K, D>, i32> {
        self.lookup_after(None, flow, flags, guard)
    }

    /// Does the same as [`lookup`](Self::lookup). `hint` is the result of
    /// [`look_ahead`](Self::look_ahead) for the destination under the same guard, if there is one.
    ///
    /// # Errors
    /// As for [`lookup`](Self::lookup).
    #[inline]
    pub fn lookup_after<'g>(
        &'g self,
        hint: Hint<'g, D>,
        flow: &Flow<K>,
        flags: LookupFlags,
        guard: &'g Guard,
    ) -> Result<Found<'g, K, D>, i32> {
        if let Some(rules) = self.rules.list(guard) {
            return rules.lookup(self, flow, flags, guard);
        }
        let tables = self.tables.load(guard);
        let find = |table: &'g Option<Arc<Table<K, D>>>| match table {
            Some(table) => table.find(flow, flags, guard),
            None => Err(NONE),
        };
        let local = match &tables.local {
            Some(local) if local.may_cover(flow.dst) => local.find(flow, flags, guard),
            _ => Err(NONE),
        };
        let found = if K::IPV6 {
            match local {
                Err(miss) if miss.errno == errno::EAGAIN => find(&tables.main),
                other => other,
            }
        } else {
            let local_len = length(&local);
            if local_len == Some(K::BITS) {
                local.map(|found| Found {
                    table: rta::table::MAIN,
                    ..found
                })
            } else {
                let main = match &tables.main {
                    Some(table) => table.find_after(hint, flow, flags, guard),
                    None => Err(NONE),
                };
                let merged = if length(&main) > local_len {
                    main
                } else {
                    local
                };
                match (&merged, &tables.default) {
                    // Linux 6.1 continues after any error; the result of the default table then
                    // decides.
                    (Err(_), Some(default)) => default.find(flow, flags, guard),
                    // Linux's single merged trie reports the main table.
                    _ => merged.map(|found| Found {
                        table: rta::table::MAIN,
                        ..found
                    }),
                }
            }
        };
        found.map_err(|miss| match miss.errno {
            errno::EAGAIN => errno::ENETUNREACH,
            errno => errno,
        })
    }
}

/// Returns the length of the prefix that decided, or `None` if no prefix matched.
fn length<K, D: RouteDevice>(outcome: &Result<Found<'_, K, D>, Miss>) -> Option<u8> {
    match outcome {
        Ok(found) => Some(found.dst_len),
        Err(miss) if *miss == NONE => None,
        Err(miss) => Some(miss.dst_len),
    }
}

/// The fields that select a multipath hop (`fib_multipath_hash_policy`).
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum HashPolicy {
    /// Policy 0: addresses.
    #[default]
    Layer3,
    /// Policy 1: addresses, protocol and ports.
    Layer4,
    /// Policy 3: the fields of `fib_multipath_hash_fields`. The bits are 0 source, 1 destination, 2
    /// protocol, 4 source port, 5 destination port. Policy 2 (inner headers) and the inner fields
    /// are not supported.
    Fields(u32),
}

impl HashPolicy {
    /// Creates a policy from the sysctl values. Unsupported policies count as layer 3.
    pub fn new(policy: i32, fields: i32) -> Self {
        match policy {
            1 => Self::Layer4,
            3 => Self::Fields(fields as u32),
            _ => Self::Layer3,
        }
    }

    fn fields(self) -> u32 {
        match self {
            Self::Layer3 => 0x3,
            Self::Layer4 => 0x37,
            Self::Fields(fields) => fields,
        }
    }

    /// Computes the 31-bit hash of a flow. It is the same for all packets of the flow, in every
    /// run.
    pub fn hash<K: Address>(self, flow: &Flow<K>) -> u32 {
        let fields = self.fields();
        let on = |bit: u32, value: u64| if fields >> bit & 1 == 1 { value } else { 0 };
        let fold = |key: K| match key.ip() {
            std::net::IpAddr::V4(address) => u64::from(u32::from(address)),
            std::net::IpAddr::V6(address) => {
                let bits = u128::from(address);
                mix((bits >> 64) as u64) ^ bits as u64
            }
        };
        let ports = on(4, u64::from(flow.sport)) << 16 | on(5, u64::from(flow.dport));
        let mut hash = mix(on(0, fold(flow.src)));
        hash = mix(hash ^ on(1, fold(flow.dst)));
        hash = mix(hash ^ ports << 8 ^ on(2, u64::from(flow.proto)));
        (hash >> 33) as u32
    }
}

/// Mixes 64 bits (the finalizer of splitmix64).
fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// The inputs of reverse-path filtering.
#[derive(Debug, Default, Clone, Copy)]
pub struct SourceCheck {
    /// The larger `rp_filter` value of the device and of `all`: 0 off, 1 strict, 2 loose.
    pub rp_filter: i32,
    /// `accept_local`: accept packets from our own addresses.
    pub accept_local: bool,
    /// The device has no IPv4 address.
    pub no_address: bool,
    /// The device is the loopback device.
    pub loopback: bool,
}

impl<D: RouteDevice> Family<u32, D> {
    /// Checks the source of a packet received on `flow.iif` by looking up the way back
    /// (`__fib_validate_source`). Returns whether the source is on the device's link.
    ///
    /// # Errors
    /// EINVAL if the source is one of our own addresses, broadcast or multicast; EXDEV if the
    /// filter rejects it.
    pub fn validate_source(
        &self,
        flow: &Flow<u32>,
        check: SourceCheck,
        guard: &Guard,
    ) -> Result<bool, i32> {
        let back = Flow {
            dst: flow.src,
            src: flow.dst,
            iif: LOOPBACK,
            ..*flow
        };
        let refused = |filter: bool| {
            if filter { Err(errno::EXDEV) } else { Ok(false) }
        };
        let Ok(found) = self.lookup(&back, LookupFlags::default(), guard) else {
            return refused(check.rp_filter != 0);
        };
        let local = found.info.spec.kind == rta::rtn::LOCAL;
        if found.info.spec.kind != rta::rtn::UNICAST && !(local && check.accept_local) {
            return Err(errno::EINVAL);
        }
        let on_link = |found: &Found<'_, u32, D>| found.hop.scope >= rta::scope::HOST;
        let same = found
            .info
            .paths(guard)
            .iter()
            .any(|hop| hop.oif == flow.iif);
        if same || (local && check.loopback) {
            return Ok(on_link(&found));
        }
        if check.no_address {
            return refused(check.rp_filter != 0);
        }
        if check.rp_filter == 1 {
            return Err(errno::EXDEV);
        }
        let back = Flow {
            oif: flow.iif,
            ..back
        };
        let flags = LookupFlags {
            ignore_linkstate: true,
            ..LookupFlags::default()
        };
        Ok(match self.lookup(&back, flags, guard) {
            Ok(found) if found.info.spec.kind == rta::rtn::UNICAST => on_link(&found),
            _ => false,
        })
    }
}
