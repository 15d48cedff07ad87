// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Policy rules (`net/core/fib_rules.c`, `fib_rules.c` of IPv4 and `fib6_rules.c`): a list in
//! ascending order of priority. Each rule has a selector and an action.
//!
//! The list is published as a whole. A family whose rules have never been changed has no list: the
//! default rules (0 local, 32766 main, and for IPv4 32767 default) are then implied, and lookups
//! take the fast path.
//!
//! Not implemented, and rejected by the netlink handler: realms.

use std::sync::Arc;

use weir_netlink::Error;
use weir_netlink::{errno, fra, nlm, rta};
use weir_packet::Packet;
use weir_sync::order::{self, Mutex};
use weir_sync::rcu::{Domain, Guard, PublishedOption};

use super::lookup::{Flow, Found, LookupFlags};
use super::{Address, Family, RouteDevice};

/// Returns the value that `FRA_TUN_ID` is compared with: the key of the tunnel a packet was
/// received from.
pub fn tunnel_of(packet: &Packet) -> u64 {
    let tunnel = packet.tunnel().filter(|tunnel| !tunnel.transmit);
    tunnel.map_or(0, |tunnel| u64::from(tunnel.id))
}

/// A range of ports, both ends inclusive.
pub type Ports = (u16, u16);

/// A rule (`struct fib_rule`). Zero, empty and `None` match anything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule<K> {
    /// `FRA_PRIORITY`. Smaller ones come first.
    pub priority: u32,
    /// `FR_ACT_*`
    pub action: u8,
    /// The table to look up, for the lookup action.
    pub table: u32,
    /// `FRA_L3MDEV`: look up the table of the flow's L3 domain.
    pub l3mdev: bool,
    /// The `FIB_RULE_*` flags as given (invert).
    pub flags: u32,
    /// The source prefix. Bits past its length are stored for display only.
    pub src: K,
    /// The length of the source prefix in bits.
    pub src_len: u8,
    /// The destination prefix. Bits past its length are stored for display only.
    pub dst: K,
    /// The length of the destination prefix in bits.
    pub dst_len: u8,
    /// Type of service.
    pub tos: u8,
    /// `FRA_FWMARK`
    pub mark: u32,
    /// `FRA_FWMASK`
    pub mask: u32,
    /// `FRA_IIFNAME`
    pub iif: String,
    /// `FRA_OIFNAME`
    pub oif: String,
    /// `FRA_GOTO`: the priority of the rule to continue at.
    pub target: u32,
    /// Ignore routes whose prefix has at most this many bits.
    pub suppress_prefixlen: Option<u32>,
    /// Ignore routes through devices of this group.
    pub suppress_ifgroup: Option<u32>,
    /// `FRA_PROTOCOL`: the origin of the rule (`RTPROT_*`).
    pub protocol: u8,
    /// `FRA_IP_PROTO`
    pub ip_proto: u8,
    /// Transport source ports.
    pub sport: Option<Ports>,
    /// Transport destination ports.
    pub dport: Option<Ports>,
    /// `FRA_TUN_ID`: the key of the tunnel that packets were received from.
    pub tunnel: u64,
    /// `FRA_UID_RANGE`: the sender's user id, both ends inclusive.
    pub uids: Option<(u32, u32)>,
}

impl<K: Address> Rule<K> {
    /// Checks a goto against the rule's action and priority (`fib_nl2rule`). Returns the target, 0 for none.
    ///
    /// # Errors
    /// EINVAL with Linux's text.
    pub fn check_goto(&self, goto: Option<u32>) -> Result<u32, Error> {
        let invalid = |text| Err(Error::msg(errno::EINVAL, text));
        match (goto, self.action) {
            (Some(_), action) if action != fra::act::GOTO => invalid("Unexpected goto"),
            (Some(target), _) if target <= self.priority => invalid("Backward goto not supported"),
            (None, fra::act::GOTO) => invalid("Missing goto target for action goto"),
            (goto, _) => Ok(goto.unwrap_or(0)),
        }
    }

    /// Creates a rule that looks up all packets in a table.
    pub fn lookup(priority: u32, table: u32) -> Self {
        Self {
            priority,
            action: fra::act::TO_TBL,
            table,
            l3mdev: false,
            flags: 0,
            src: K::ZERO,
            src_len: 0,
            dst: K::ZERO,
            dst_len: 0,
            tos: 0,
            mark: 0,
            mask: 0,
            iif: String::new(),
            oif: String::new(),
            target: 0,
            suppress_prefixlen: None,
            suppress_ifgroup: None,
            protocol: rta::prot::UNSPEC,
            ip_proto: 0,
            sport: None,
            dport: None,
            tunnel: 0,
            uids: None,
        }
    }

    fn default_rules() -> Vec<Self> {
        let rules = [(0, rta::table::LOCAL), (32_766, rta::table::MAIN)];
        let mut rules: Vec<_> = rules
            .map(|(priority, table)| Self::lookup(priority, table))
            .into();
        if !K::IPV6 {
            rules.push(Self::lookup(32_767, rta::table::DEFAULT));
        }
        for rule in &mut rules {
            rule.protocol = rta::prot::KERNEL;
        }
        rules
    }

    /// Returns whether the rule matches a delete request. Fields that the request leaves out match
    /// anything (`rule_find`).
    fn answers(&self, request: &Self, by_priority: bool) -> bool {
        (request.action == 0 || self.action == request.action)
            && (request.table == 0 || self.table == request.table)
            && (!by_priority || self.priority == request.priority)
            && (request.iif.is_empty() || self.iif == request.iif)
            && (request.oif.is_empty() || self.oif == request.oif)
            && (request.mark == 0 || self.mark == request.mark)
            && (request.mask == 0 || self.mask == request.mask)
            && (request.suppress_prefixlen.is_none()
                || self.suppress_prefixlen == request.suppress_prefixlen)
            && (request.suppress_ifgroup.is_none()
                || self.suppress_ifgroup == request.suppress_ifgroup)
            && (request.ip_proto == 0 || self.ip_proto == request.ip_proto)
            && (request.protocol == 0 || self.protocol == request.protocol)
            && (request.sport.is_none() || self.sport == request.sport)
            && (request.dport.is_none() || self.dport == request.dport)
            && (request.tunnel == 0 || self.tunnel == request.tunnel)
            && (!request.l3mdev || self.l3mdev)
            && (request.uids.is_none() || self.uids == request.uids)
            && self.selects_as(request)
    }

    /// Compares the family-specific selectors (`fib4_rule_compare`, `fib6_rule_compare`).
    fn selects_as(&self, request: &Self) -> bool {
        (request.src_len == 0 || (self.src_len == request.src_len && self.src == request.src))
            && (request.dst_len == 0
                || (self.dst_len == request.dst_len && self.dst == request.dst))
            && (request.tos == 0 || self.tos == request.tos)
    }

    /// Returns whether an exclusive add considers the two rules equal (`rule_exists`).
    fn is_twin(&self, other: &Self) -> bool {
        self.action == other.action
            && self.table == other.table
            && self.priority == other.priority
            && self.iif == other.iif
            && self.oif == other.oif
            && self.mark == other.mark
            && self.mask == other.mask
            && self.suppress_prefixlen == other.suppress_prefixlen
            && self.suppress_ifgroup == other.suppress_ifgroup
            && self.ip_proto == other.ip_proto
            && self.protocol == other.protocol
            && self.sport == other.sport
            && self.dport == other.dport
            && self.tunnel == other.tunnel
            && self.l3mdev == other.l3mdev
            && self.uids == other.uids
            && self.selects_as(other)
    }
}

/// A device named by a rule, resolved if it exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Port {
    Any,
    Detached,
    Index(u32),
}

impl Port {
    fn new(name: &str, index: impl Fn(&str) -> Option<u32>) -> Self {
        match name {
            "" => Self::Any,
            name => index(name).map_or(Self::Detached, Self::Index),
        }
    }

    fn takes(self, ifindex: u32) -> bool {
        match self {
            Self::Any => true,
            Self::Detached => false,
            Self::Index(index) => index == ifindex,
        }
    }
}

/// A rule in its list.
#[derive(Debug, Clone)]
pub struct Entry<K> {
    /// The rule.
    pub rule: Arc<Rule<K>>,
    iif: Port,
    oif: Port,
    /// The list index of the goto's target.
    target: Option<usize>,
}

impl<K: Address> Entry<K> {
    /// Returns the entry of a rule that names no device and no target.
    fn new(rule: Rule<K>) -> Self {
        Self {
            rule: Arc::new(rule),
            iif: Port::Any,
            oif: Port::Any,
            target: None,
        }
    }

    /// Returns the entries of initial rules.
    pub(crate) fn all(rules: Initial<K>) -> Vec<Self> {
        rules.into_iter().map(Self::new).collect()
    }

    /// Returns the rule's flags plus its state: detached devices, an unresolved goto.
    pub fn flags(&self) -> u32 {
        let mut flags = self.rule.flags;
        if self.iif == Port::Detached {
            flags |= fra::f::IIF_DETACHED;
        }
        if self.oif == Port::Detached {
            flags |= fra::f::OIF_DETACHED;
        }
        if self.rule.action == fra::act::GOTO && self.target.is_none() {
            flags |= fra::f::UNRESOLVED;
        }
        flags
    }

    /// Returns whether what all families look at fits (`fib_rule_match`).
    fn fits(&self, flow: &Flow<K>) -> bool {
        let rule = &*self.rule;
        self.iif.takes(flow.iif)
            && self.oif.takes(flow.oif)
            && (rule.mark ^ flow.mark) & rule.mask == 0
            && (rule.tunnel == 0 || rule.tunnel == flow.tunnel)
            && (!rule.l3mdev || flow.l3_table != 0)
            && rule
                .uids
                .is_none_or(|(first, last)| (first..=last).contains(&flow.uid))
    }

    /// Returns whether what routes of unicast packets look at fits (`fib4_rule_match`, `fib6_rule_match`).
    fn fits_unicast(&self, flow: &Flow<K>) -> bool {
        let rule = &*self.rule;
        let within = |ports: Option<Ports>, port: u16| {
            ports.is_none_or(|ports| (ports.0..=ports.1).contains(&port))
        };
        flow.src.masked(rule.src_len) == rule.src.masked(rule.src_len)
            && flow.dst.masked(rule.dst_len) == rule.dst.masked(rule.dst_len)
            // The two low bits are for congestion notification (ECN) and not part of a rule
            // (`inet_dsfield_to_dscp`).
            && (rule.tos == 0 || rule.tos == flow.tos & !3)
            && (rule.ip_proto == 0 || rule.ip_proto == flow.proto)
            && within(rule.sport, flow.sport)
            && within(rule.dport, flow.dport)
    }

    fn is_inverted(&self) -> bool {
        self.rule.flags & fra::f::INVERT != 0
    }

    fn suppresses<D: RouteDevice>(&self, found: &Found<'_, K, D>, guard: &Guard) -> bool {
        let rule = &*self.rule;
        let first = || found.info.paths(guard).first();
        let device = || first().and_then(|hop| hop.device.as_ref());
        rule.suppress_prefixlen
            .is_some_and(|len| u32::from(found.dst_len) <= len)
            || rule
                .suppress_ifgroup
                .is_some_and(|group| device().is_some_and(|device| device.group() == group))
    }
}

/// The rules of a family in order.
#[derive(Debug)]
pub struct RuleList<K> {
    entries: Vec<Entry<K>>,
}

impl<K: Address> RuleList<K> {
    fn new(mut entries: Vec<Entry<K>>) -> Self {
        let priorities: Vec<_> = entries.iter().map(|entry| entry.rule.priority).collect();
        for entry in &mut entries {
            let wanted = entry.rule.target;
            entry.target = (entry.rule.action == fra::act::GOTO)
                .then(|| priorities.iter().position(|&priority| priority == wanted))
                .flatten();
        }
        Self { entries }
    }

    /// Walks the rules for a flow.
    pub(super) fn lookup<'g, D: RouteDevice>(
        &'g self,
        family: &'g Family<K, D>,
        flow: &Flow<K>,
        flags: LookupFlags,
        guard: &'g Guard,
    ) -> Result<Found<'g, K, D>, i32> {
        let takes = |entry: &Entry<K>| {
            (entry.fits(flow) && entry.fits_unicast(flow)) != entry.is_inverted()
        };
        self.walk(flow, takes, |entry, id| {
            let table = family.table(id, guard).ok_or(errno::EAGAIN)?;
            match table.lookup(flow, flags, guard) {
                Ok(found) if entry.suppresses(&found, guard) => Err(errno::EAGAIN),
                other => other,
            }
        })
    }

    /// Walks the rules (`fib_rules_lookup`). `look` looks up a table, and answers EAGAIN if the walk goes on.
    #[inline]
    fn walk<R>(
        &self,
        flow: &Flow<K>,
        takes: impl Fn(&Entry<K>) -> bool,
        mut look: impl FnMut(&Entry<K>, u32) -> Result<R, i32>,
    ) -> Result<R, i32> {
        let mut next = 0;
        while let Some(entry) = self.entries.get(next) {
            next += 1;
            if !takes(entry) {
                continue;
            }
            match entry.rule.action {
                // A goto only leads forwards, so the walk terminates.
                fra::act::GOTO => next = entry.target.unwrap_or(next),
                fra::act::NOP => {}
                fra::act::TO_TBL => {
                    let id = match entry.rule.l3mdev {
                        true => flow.l3_table,
                        false => entry.rule.table,
                    };
                    match look(entry, id) {
                        Err(errno::EAGAIN) => {}
                        other => return other,
                    }
                }
                fra::act::UNREACHABLE => return Err(errno::ENETUNREACH),
                fra::act::PROHIBIT => return Err(errno::EACCES),
                _ => return Err(errno::EINVAL),
            }
        }
        Err(errno::ENETUNREACH)
    }
}

/// The rules that a family begins with, in order.
pub type Initial<K> = Vec<Rule<K>>;

/// Inserts a rule behind those of its priority. Returns it as it is in the list, with its goto's target.
fn insert<K: Address>(entries: &mut Vec<Entry<K>>, entry: Entry<K>) -> Entry<K> {
    let priority = entry.rule.priority;
    let at = entries.partition_point(|other| other.rule.priority <= priority);
    entries.insert(at, entry);
    *entries = RuleList::new(std::mem::take(entries)).entries;
    entries[at].clone()
}

/// The rules of a family.
#[derive(Debug)]
pub struct Rules<K: Address> {
    list: PublishedOption<RuleList<K>>,
    /// Serializes changes of the list.
    change: Mutex<(), order::Routes>,
    domain: Domain,
}

impl<K: Address> Rules<K> {
    pub(crate) fn new(domain: &Domain) -> Self {
        Self {
            list: PublishedOption::new(domain, None),
            change: Mutex::new(()),
            domain: domain.clone(),
        }
    }

    /// Returns the list, or `None` while the default rules have never been changed.
    #[inline]
    pub(super) fn list<'g>(&'g self, guard: &'g Guard) -> Option<&'g RuleList<K>> {
        self.list.load(guard)
    }

    /// Returns whether the rules were ever changed, so that lookups must walk them.
    #[inline]
    pub fn are_changed(&self, guard: &Guard) -> bool {
        self.list(guard).is_some()
    }

    /// Returns all rules in order, including the default ones.
    pub fn entries(&self, guard: &Guard) -> Vec<Entry<K>> {
        self.entries_or(Rule::default_rules, guard)
    }

    /// Returns all rules in order, or the initial ones if they have never been changed.
    pub(crate) fn entries_or(
        &self,
        initial: impl FnOnce() -> Initial<K>,
        guard: &Guard,
    ) -> Vec<Entry<K>> {
        match self.list(guard) {
            Some(list) => list.entries.clone(),
            None => Entry::all(initial()),
        }
    }

    /// Walks rules of multicast routing, which must have been changed.
    ///
    /// # Errors
    /// That of the rule, or ENETUNREACH if no rule fits.
    pub(crate) fn walk<R>(
        &self,
        flow: &Flow<K>,
        guard: &Guard,
        mut look: impl FnMut(u32) -> Result<R, i32>,
    ) -> Result<R, i32> {
        let list = self.list(guard).ok_or(errno::ENETUNREACH)?;
        let takes = |entry: &Entry<K>| entry.fits(flow) != entry.is_inverted();
        list.walk(flow, takes, |_, table| look(table))
    }

    fn edit<R>(
        &self,
        initial: impl FnOnce() -> Initial<K>,
        change: impl FnOnce(&mut Vec<Entry<K>>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let lock = self.change.lock();
        let mut entries = self.entries_or(initial, &self.domain.pin());
        let answer = change(&mut entries)?;
        self.list.replace(Some(RuleList::new(entries)));
        drop(lock);
        Ok(answer)
    }

    /// Adds a rule. Without a priority, it goes in front of the second rule (`fib_nl_newrule`).
    /// `index` looks up a device's index by name.
    ///
    /// # Errors
    /// EEXIST for an exclusive request if the rule exists; EINVAL for an invalid or backward goto.
    pub fn add(
        &self,
        rule: Rule<K>,
        priority: Option<u32>,
        goto: Option<u32>,
        nlflags: u16,
        index: impl Fn(&str) -> Option<u32>,
    ) -> Result<Entry<K>, Error> {
        self.add_to(Rule::default_rules, rule, priority, goto, nlflags, index)
    }

    /// Adds a rule to the initial ones if they have never been changed; see [`add`](Self::add).
    ///
    /// # Errors
    /// As [`add`](Self::add).
    pub(crate) fn add_to(
        &self,
        initial: impl FnOnce() -> Initial<K>,
        mut rule: Rule<K>,
        priority: Option<u32>,
        goto: Option<u32>,
        nlflags: u16,
        index: impl Fn(&str) -> Option<u32>,
    ) -> Result<Entry<K>, Error> {
        self.edit(initial, |entries| {
            rule.priority = priority.unwrap_or_else(|| {
                entries
                    .get(1)
                    .map_or(0, |entry| entry.rule.priority.saturating_sub(1))
            });
            rule.target = rule.check_goto(goto)?;
            if nlflags & nlm::F_EXCL != 0 && entries.iter().any(|entry| entry.rule.is_twin(&rule)) {
                return Err(Error::new(errno::EEXIST));
            }
            let entry = Entry {
                iif: Port::new(&rule.iif, &index),
                oif: Port::new(&rule.oif, &index),
                target: None,
                rule: Arc::new(rule),
            };
            Ok(insert(entries, entry))
        })
    }

    /// Adds a rule of the kernel, unless the rules have never been changed: then it is one of the initial ones.
    ///
    /// # Errors
    /// EEXIST if the rule exists.
    pub(crate) fn add_unless_initial(&self, rule: Rule<K>) -> Result<Entry<K>, Error> {
        let lock = self.change.lock();
        let guard = self.domain.pin();
        let Some(list) = self.list(&guard) else {
            return Ok(Entry::new(rule));
        };
        if list.entries.iter().any(|entry| entry.rule.is_twin(&rule)) {
            return Err(Error::new(errno::EEXIST));
        }
        let mut entries = list.entries.clone();
        let entry = insert(&mut entries, Entry::new(rule));
        self.list.replace(Some(RuleList::new(entries)));
        drop(lock);
        Ok(entry)
    }

    /// Removes the first matching rule (`fib_nl_delrule`). `by_priority` means that the request
    /// gives a priority.
    ///
    /// # Errors
    /// ENOENT if there is none.
    pub fn delete(&self, request: &Rule<K>, by_priority: bool) -> Result<Entry<K>, Error> {
        self.delete_from(Rule::default_rules, request, by_priority)
    }

    /// Removes the first matching rule, of the initial ones if they have never been changed.
    ///
    /// # Errors
    /// As [`delete`](Self::delete).
    pub(crate) fn delete_from(
        &self,
        initial: impl FnOnce() -> Initial<K>,
        request: &Rule<K>,
        by_priority: bool,
    ) -> Result<Entry<K>, Error> {
        self.edit(initial, |entries| {
            let at = entries
                .iter()
                .position(|entry| entry.rule.answers(request, by_priority))
                .ok_or_else(|| Error::new(errno::ENOENT))?;
            if entries[at].rule.flags & fra::f::PERMANENT != 0 {
                return Err(Error::new(errno::EPERM));
            }
            Ok(entries.remove(at))
        })
    }

    /// Returns whether the rules are those that a namespace begins with. They name no device.
    pub fn are_default(&self) -> bool {
        !self.list.is_some()
    }

    /// Attaches rules to a device that appeared under this name, possibly by renaming
    /// (`attach_rules`).
    pub fn device_came(&self, name: &str, ifindex: u32) {
        self.ports(|port, wanted| {
            if port == Port::Detached && wanted == name {
                Port::Index(ifindex)
            } else {
                port
            }
        });
    }

    /// Detaches rules from a device that was removed or renamed (`detach_rules`).
    pub fn device_went(&self, ifindex: u32) {
        self.ports(|port, _| {
            if port == Port::Index(ifindex) {
                Port::Detached
            } else {
                port
            }
        });
    }

    fn ports(&self, change: impl Fn(Port, &str) -> Port) {
        let touched = |entry: &Entry<K>| {
            change(entry.iif, &entry.rule.iif) != entry.iif
                || change(entry.oif, &entry.rule.oif) != entry.oif
        };
        // A rule that another thread adds has its devices looked up under the lock.
        let lock = self.change.lock();
        let guard = self.domain.pin();
        let Some(list) = self.list(&guard) else {
            return;
        };
        if !list.entries.iter().any(touched) {
            return;
        }
        let mut entries = list.entries.clone();
        for entry in &mut entries {
            entry.iif = change(entry.iif, &entry.rule.iif);
            entry.oif = change(entry.oif, &entry.rule.oif);
        }
        self.list.replace(Some(RuleList::new(entries)));
        drop(lock);
    }
}
