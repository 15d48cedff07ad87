// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the data path of a bridge reads about groups, without a lock, and the counters.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed};

use weir_packet::header::ethernet::BROADCAST;
use weir_sync::hash::RcuHash;
use weir_sync::rcu::{Domain, Guard, Published};

use super::message::Heard;
use super::{Family, Group, Key, Listeners, Target, router};

/// `struct br_mcast_stats`
pub struct Counts([AtomicU64; 30]);

impl Default for Counts {
    fn default() -> Self {
        Self([const { AtomicU64::new(0) }; 30])
    }
}

impl Counts {
    fn add(&self, at: usize) {
        if let Some(counter) = self.0.get(at) {
            counter.fetch_add(1, Relaxed);
        }
    }

    /// Returns the attribute's octets.
    pub fn octets(&self) -> Vec<u8> {
        let values = self.0.iter().map(|counter| counter.load(Relaxed));
        values.flat_map(u64::to_ne_bytes).collect()
    }
}

/// Who gets a frame to a group.
pub struct Audience<'g> {
    members: &'g [Target],
    routers: &'g [u16],
    /// The members that include sources get nothing: the source has no entry of its own.
    for_all: bool,
    /// The host does.
    pub host: bool,
}

impl Audience<'_> {
    /// Returns where copies go: the members, and the ports that lead to routers alone. The flag is that of a port's
    /// first member.
    pub fn targets(&self) -> impl Iterator<Item = (Target, bool)> {
        let host = BROADCAST;
        let members = self.members.iter().scan(None, |before, target| {
            let is_first = before.replace(target.port) != Some(target.port);
            Some((*target, is_first))
        });
        // The highest number is first.
        let is_member = |number: u16| self.members.binary_search_by(|one| number.cmp(&one.port));
        let routers = self.routers.iter().copied();
        let routers = routers.filter(move |&number| is_member(number).is_err());
        let router = move |port| Target {
            port,
            host,
            includes: false,
            blocked: false,
        };
        members.chain(routers.map(move |port| (router(port), true)))
    }

    /// Returns whether a member's port does not get the frame as one with members.
    pub fn is_deaf(&self, target: &Target) -> bool {
        target.blocked || target.includes && self.for_all
    }

    /// Returns whether a port leads to routers.
    pub fn has_router(&self, port: u16) -> bool {
        self.routers.contains(&port)
    }
}

/// What the data path reads of a context.
pub struct Reach {
    /// In a VLAN: it snoops (`BR_VLFLAG_GLOBAL_MCAST_ENABLED`).
    pub(super) snoops: AtomicBool,
    /// `MCAST_QUERIER`
    pub(super) querier: AtomicBool,
    /// `MCAST_ROUTER` of the bridge itself.
    pub(super) router: AtomicU8,
    /// By family: hosts report their sources.
    pub(super) sources: [AtomicBool; 2],
    /// By family: until when another querier is known, a new one waits, a router is at the bridge itself.
    pub(super) others: [AtomicU64; 2],
    pub(super) delays: [AtomicU64; 2],
    pub(super) local_routers: [AtomicU64; 2],
    /// By family: the numbers of the ports that lead to routers.
    pub(super) routers: [Published<Vec<u16>>; 2],
}

impl Reach {
    pub(super) fn new(domain: &Domain) -> Self {
        Self {
            snoops: AtomicBool::new(true),
            querier: AtomicBool::new(false),
            router: AtomicU8::new(router::QUERY),
            sources: Default::default(),
            others: Default::default(),
            delays: Default::default(),
            local_routers: Default::default(),
            routers: [(), ()].map(|()| Published::new(domain, Vec::new())),
        }
    }

    /// Returns whether somebody asks hosts for their groups, so that silence means something
    /// (`br_multicast_querier_exists`).
    fn has_querier(
        &self,
        family: Option<Family>,
        has_ipv6: bool,
        is_listed: bool,
        now: u64,
    ) -> bool {
        let Some(family) = family else {
            return is_listed;
        };
        let at = family as usize;
        let own = self.querier.load(Relaxed) && (family == Family::V4 || has_ipv6);
        self.delays[at].load(Relaxed) <= now && (own || self.others[at].load(Relaxed) > now)
    }

    /// Returns whether a router is at the bridge itself (`br_multicast_is_router`).
    fn is_router(&self, family: Option<Family>, now: u64) -> bool {
        match self.router.load(Relaxed) {
            router::PERMANENT => true,
            router::QUERY => {
                family.is_some_and(|family| self.local_routers[family as usize].load(Relaxed) > now)
            }
            _ => false,
        }
    }
}

/// What the data path reads.
pub struct Shared {
    /// `MCAST_SNOOPING`
    pub on: AtomicBool,
    /// `BR_BOOLOPT_MCAST_VLAN_SNOOPING`
    pub by_vlan: AtomicBool,
    /// `MCAST_STATS_ENABLED`
    pub(super) counts: AtomicBool,
    /// The bridge has an IPv6 address from which to ask.
    pub(super) has_ipv6: AtomicBool,
    /// Who listens to a group.
    pub(super) table: RcuHash<Key, Listeners>,
    /// The context of the bridge.
    pub(super) whole: Arc<Reach>,
    /// Those of VLANs, by id.
    pub(super) vlans: RcuHash<u16, Arc<Reach>>,
    /// The counters of the bridge itself.
    pub own: Counts,
}

impl Shared {
    /// Returns the state of a new bridge, which snoops.
    pub fn new(domain: &Domain) -> Self {
        Self {
            on: AtomicBool::new(true),
            by_vlan: AtomicBool::new(false),
            counts: AtomicBool::new(false),
            has_ipv6: AtomicBool::new(true),
            table: RcuHash::new(domain),
            whole: Arc::new(Reach::new(domain)),
            vlans: RcuHash::new(domain),
            own: Counts::default(),
        }
    }

    /// Returns the context of the frames of a VLAN. `None` means that the VLAN does not snoop.
    fn reach<'g>(&'g self, guard: &'g Guard, vid: u16) -> Option<&'g Reach> {
        if vid == 0 || !self.by_vlan.load(Relaxed) {
            return Some(&self.whole);
        }
        let reach = self.vlans.get(&vid, guard)?;
        Some(&**reach).filter(|reach| reach.snoops.load(Relaxed))
    }

    /// Returns whether messages about groups are heard in a VLAN.
    pub fn hears(&self, guard: &Guard, vid: u16) -> bool {
        self.on.load(Relaxed) && self.reach(guard, vid).is_some()
    }

    /// Returns who gets a frame to a group; `None` means that it is flooded.
    pub fn audience<'g>(
        &'g self,
        guard: &'g Guard,
        (vid, group): (u16, Group),
        source: impl FnOnce() -> Option<Group>,
        heard: &Heard,
        now: u64,
    ) -> Option<Audience<'g>> {
        if !self.on.load(Relaxed) {
            return None;
        }
        let reach = self.reach(guard, vid)?;
        let key = Key {
            vid,
            group,
            source: None,
        };
        let family = group.family();
        let by_source = family.is_some_and(|family| reach.sources[family as usize].load(Relaxed));
        let of_source = || {
            let source = source();
            source.and_then(|_| self.table.get(&Key { source, ..key }, guard))
        };
        let (mut listed, mut for_all) = (None, false);
        if !heard.is_message() {
            listed = by_source.then(of_source).flatten();
            for_all = by_source && listed.is_none();
            listed = listed.or_else(|| self.table.get(&key, guard));
        }
        let has_ipv6 = self.has_ipv6.load(Relaxed);
        let is_for_few = listed.is_some() || heard.is_for_routers();
        if !is_for_few || !reach.has_querier(family, has_ipv6, listed.is_some(), now) {
            return None;
        }
        // Linux takes the IPv4 routers for what is not IPv6.
        let routers = reach.routers[family.unwrap_or(Family::V4) as usize].load(guard);
        Some(Audience {
            members: listed.map_or(&[], |listed| &listed.members),
            routers,
            for_all,
            host: listed.is_some_and(|listed| listed.host) || reach.is_router(family, now),
        })
    }

    /// Counts a message of a port, or of the bridge itself. `sent` is 1 if it was sent.
    pub fn count(&self, counts: &Counts, heard: &Heard, sent: usize) {
        if let Some(counter) = heard.counter()
            && self.counts.load(Relaxed)
        {
            counts.add(counter + sent);
        }
    }

    /// Counts a damaged message.
    pub(super) fn count_bad(&self, counts: &Counts, family: Family) {
        if self.counts.load(Relaxed) {
            counts.add([14, 25][family as usize]);
        }
    }
}
