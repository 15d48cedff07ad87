// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The forwarding table of a VXLAN device: the remotes behind which an address is reached.
//!
//! Mirrors `vxlan_fdb_*`, `vxlan_snoop` and `vxlan_cleanup` (drivers/net/vxlan/vxlan_core.c). The
//! entry of the all-zeros address is the default: frames for addresses without an entry go to all
//! its remotes. The datapath looks up entries by RCU; changes take the table's lock. Dumps are
//! ordered by address.
//!
//! An entry may name a nexthop object, a group of remotes, from which the hash of a frame's flow chooses one
//! (`nhid`). The object knows its entries, and they go with it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering::Relaxed};

use weir_netlink::nda::{self, ntf, nud};
use weir_netlink::{Error, NdMsg, NdaCacheInfo, Table as Attrs, Writer, af, errno, nlm, rta, rtm};
use weir_packet::DropReason;
use weir_sync::hash::RcuHash;
use weir_sync::order::{self, Mutex, MutexGuard};
use weir_sync::rcu::{Domain, Guard, Published, PublishedArc};

use super::Vxlan;
use super::config::VNI_END;
use crate::clock::{SECOND, USER_HZ};
use crate::device::{Device, Mac};
use crate::fib::host::WithRoutes;
use crate::fib::object::{Object, TableEntry};
use crate::kind::Fdb;
use crate::request::Ctl;
use crate::stack::Stack;

/// `NTF_VXLAN_ADDED_BY_USER`
const ADDED_BY_USER: u16 = 0x100;
/// The address of the default entry.
pub const ALL_ZEROS: Mac = [0; 6];

/// A destination for frames (`struct vxlan_rdst`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Remote {
    /// The address, or unspecified for none.
    pub ip: IpAddr,
    /// The UDP port, or 0 for the device's.
    pub port: u16,
    /// The network identifier.
    pub vni: u32,
    /// The index of the underlay device, or 0 for any.
    pub ifindex: u32,
}

/// An entry (`struct vxlan_fdb`).
#[derive(Debug)]
pub struct Entry {
    mac: Mac,
    /// The identifier it applies to, used in external mode only.
    vni: u32,
    /// `NUD_*`
    state: AtomicU16,
    /// `NTF_*` and [`ADDED_BY_USER`].
    flags: AtomicU16,
    used: AtomicU64,
    updated: AtomicU64,
    /// The remotes. Changes hold the table's lock.
    remotes: Published<Vec<Remote>>,
    /// The object that has the remotes. An entry has it from its beginning or never.
    object: PublishedArc<Nexthop>,
}

/// A nexthop object.
pub type Nexthop = Object<Arc<Device>>;

impl Entry {
    /// Returns the object that has the destinations of frames instead of the entry.
    #[inline]
    pub fn object<'g>(&'g self, guard: &'g Guard) -> Option<&'g Nexthop> {
        self.object.load(guard)
    }

    /// Returns whether the address is behind this host: the first remote is none.
    pub fn is_here(&self, guard: &Guard) -> bool {
        let first = self.remotes(guard).first();
        first.is_some_and(|remote| remote.ip.is_unspecified())
    }

    /// Returns whether the address is a router's.
    pub fn is_router(&self) -> bool {
        self.flags.load(Relaxed) & u16::from(ntf::ROUTER) != 0
    }

    /// Returns the destinations of frames.
    #[inline]
    pub fn remotes<'g>(&'g self, guard: &'g Guard) -> &'g [Remote] {
        self.remotes.load(guard)
    }

    fn is_static(&self) -> bool {
        self.state.load(Relaxed) & (nud::PERMANENT | nud::NOARP) != 0
    }

    /// Returns whether the entry can only be appended to: each frame goes to all of its remotes.
    fn is_group(&self) -> bool {
        self.mac[0] & 1 != 0 || self.mac == ALL_ZEROS
    }
}

/// The forwarding table.
pub struct Table {
    entries: RcuHash<(Mac, u32), Arc<Entry>>,
    /// Serializes changes and counts the entries.
    changes: Mutex<u32, order::Forwarding>,
}

/// A table with the context for changing it.
#[derive(Clone, Copy)]
pub struct Site<'a> {
    /// The stack.
    pub stack: &'a Stack,
    /// The RCU guard.
    pub guard: &'a Guard,
    /// The device.
    pub device: &'a Arc<Device>,
    /// The device's VXLAN state.
    pub vxlan: &'a Vxlan,
}

/// A change of an entry, from a request or a received packet.
#[derive(Debug, Clone, Copy)]
pub struct Update {
    /// The address.
    pub mac: Mac,
    /// The identifier it applies to.
    pub src_vni: u32,
    /// `NUD_*`
    pub state: u16,
    /// `NTF_*` and `ADDED_BY_USER`.
    pub flags: u16,
    /// The remote behind which the address is.
    pub to: To,
}

/// What a frame asked for and the device did not find.
#[derive(Debug, Clone, Copy)]
pub enum Missed {
    /// The entry of a unicast address.
    Mac(Mac),
    /// The neighbour of an address.
    Neighbour(IpAddr),
}

/// What an entry is told to send frames to.
#[derive(Debug, Clone, Copy)]
pub enum To {
    /// A remote.
    Remote(Remote),
    /// One of the remotes of a nexthop object, by its id.
    Object(u32),
}

impl Table {
    /// Creates an empty table.
    pub fn new(domain: &Domain) -> Self {
        Self {
            entries: RcuHash::new(domain),
            changes: Mutex::new(0),
        }
    }

    /// Returns the entry of an address and marks it as used.
    #[inline]
    pub fn find<'g>(&'g self, mac: Mac, vni: u32, now: u64, guard: &'g Guard) -> Option<&'g Entry> {
        let entry = self.entries.get(&(mac, vni), guard)?;
        if entry.used.load(Relaxed) != now {
            entry.used.store(now, Relaxed);
        }
        Some(entry)
    }

    fn lock(&self) -> MutexGuard<'_, u32, order::Forwarding> {
        self.changes.lock()
    }
}

impl Site<'_> {
    fn table(&self) -> &Table {
        &self.vxlan.fdb
    }

    /// Returns the second part of an entry's key, beside the address.
    fn key(&self, vni: u32) -> u32 {
        self.vxlan.key_of(vni, self.guard)
    }

    /// Returns what an object calls an entry.
    fn name(&self, entry: &Entry) -> TableEntry {
        TableEntry {
            device: self.device.key,
            mac: entry.mac,
            vni: self.key(entry.vni),
        }
    }

    /// Finds the object that an update names, for entries of this table. No lock of a table is held.
    fn find_object(&self, to: &To) -> Result<Option<Arc<Nexthop>>, Error> {
        let To::Object(id) = *to else {
            return Ok(None);
        };
        let net = self.vxlan.net.upgrade();
        let object = net.and_then(|net| net.fib().nexthops.find(id));
        let object = object.ok_or(text("Nexthop id does not exist"))?;
        if let Some(state) = object.state(self.guard) {
            state.check_entry(self.vxlan.config.load(self.guard).is_ipv6())?;
        }
        Ok(Some(object))
    }

    /// Gives an entry of the table an object, for the one that it has (`vxlan_fdb_nh_update`). Returns whether that
    /// is another one. The lock of the table is held.
    fn set_object(&self, entry: &Entry, object: Arc<Nexthop>) -> Result<bool, Error> {
        let old = entry.object.get(self.guard);
        if old.as_ref().is_some_and(|old| Arc::ptr_eq(old, &object)) {
            return Ok(false);
        }
        if !object.enter(self.name(entry)) {
            return Err(text("Nexthop has been deleted"));
        }
        if let Some(old) = old {
            old.leave(&self.name(entry));
        }
        entry.object.replace(Some(object));
        Ok(true)
    }

    fn notify(&self, ty: u16, entry: &Entry, remote: Option<&Remote>) {
        let ns = self.device.namespace(self.guard);
        crate::request::announce(ns, rtm::grp::NEIGH, ty, |out| {
            self.fill(entry, remote, out);
        });
    }

    /// Reports what has no entry (`vxlan_fdb_miss`, `vxlan_ip_miss`).
    pub fn miss(&self, missed: Missed) {
        let ns = self.device.namespace(self.guard);
        crate::request::announce(ns, rtm::grp::NEIGH, rtm::GETNEIGH, |out| {
            out.fixed(&NdMsg {
                family: match missed {
                    Missed::Neighbour(IpAddr::V6(_)) => af::INET6,
                    _ => af::INET,
                },
                ifindex: self.device.ifindex() as i32,
                state: nud::STALE,
                ty: rta::rtn::UNICAST,
                ..NdMsg::default()
            });
            self.fill_namespace(out);
            // The entry is made for the message alone: its identifier is 0, or for a neighbour one past the largest,
            // and it was used when the kernel's clock was 0, five minutes before it wraps.
            let vni = match missed {
                Missed::Mac(mac) => {
                    out.put(nda::LLADDR, &mac);
                    0
                }
                Missed::Neighbour(address) => {
                    out.put_ip(nda::DST, address);
                    VNI_END
                }
            };
            if self.vxlan.config.load(self.guard).vni != vni {
                out.put_u32(nda::VNI, vni);
            }
            let now = (self.stack.clock.now() / (SECOND / USER_HZ)) as u32;
            let age = now.wrapping_sub(300 * USER_HZ as u32);
            out.put_fixed(
                nda::CACHEINFO,
                &NdaCacheInfo {
                    confirmed: 0,
                    used: age,
                    updated: age,
                    refcnt: 0,
                },
            );
        });
    }

    /// Writes the namespace of the underlay if it is another one.
    fn fill_namespace(&self, out: &mut Writer) {
        let ns = self.device.namespace(self.guard);
        if let Some(net) = self.vxlan.net.upgrade().filter(|net| net.id != ns.id) {
            out.put_i32(nda::LINK_NETNSID, crate::nsid::id_of(ns, net.id));
        }
    }

    /// Writes an entry with one of its remotes (`vxlan_fdb_info`).
    fn fill(&self, entry: &Entry, remote: Option<&Remote>, out: &mut Writer) {
        let conf = self.vxlan.config.load(self.guard);
        out.fixed(&NdMsg {
            family: af::BRIDGE,
            ifindex: self.device.ifindex() as i32,
            state: entry.state.load(Relaxed),
            flags: entry.flags.load(Relaxed) as u8,
            ty: rta::rtn::UNICAST,
            ..NdMsg::default()
        });
        self.fill_namespace(out);
        out.put(nda::LLADDR, &entry.mac);
        if let Some(object) = entry.object(self.guard) {
            out.put_u32(nda::NH_ID, object.id);
        } else if let Some(remote) = remote {
            out.put_ip(nda::DST, remote.ip);
            if remote.port != 0 && remote.port != conf.dst_port {
                out.put_be16(nda::PORT, remote.port);
            }
            if remote.vni != conf.vni {
                out.put_u32(nda::VNI, remote.vni);
            }
            if remote.ifindex != 0 {
                out.put_u32(nda::IFINDEX, remote.ifindex);
            }
        }
        if conf.external && entry.vni != 0 {
            out.put_u32(nda::SRC_VNI, entry.vni);
        }
        let now = self.stack.clock.now();
        let age = |then: u64| (now.saturating_sub(then) / (SECOND / USER_HZ)) as u32;
        out.put_fixed(
            nda::CACHEINFO,
            &NdaCacheInfo {
                confirmed: 0,
                used: age(entry.used.load(Relaxed)),
                updated: age(entry.updated.load(Relaxed)),
                refcnt: 0,
            },
        );
    }

    /// Adds or changes an entry. `flags` are those of the request (`vxlan_fdb_update`).
    pub fn update(&self, update: &Update, flags: u16) -> Result<(), Error> {
        let table = self.table();
        let object = self.find_object(&update.to);
        let mut count = table.lock();
        let key = (update.mac, self.key(update.src_vni));
        let now = self.stack.clock.now();
        let Some(entry) = table.entries.get(&key, self.guard) else {
            if flags & nlm::F_CREATE == 0 {
                return Err(Error::new(errno::ENOENT));
            }
            let group = update.mac[0] & 1 != 0 || update.mac == ALL_ZEROS;
            if flags & nlm::F_REPLACE != 0 && group {
                return Err(Error::new(errno::EOPNOTSUPP));
            }
            if self.device.is_dying() {
                return Err(Error::new(errno::ENODEV));
            }
            let limit = self.vxlan.config.load(self.guard).limit;
            if limit != 0 && *count >= limit {
                return Err(Error::new(errno::ENOSPC));
            }
            let object = object?;
            let remotes = match update.to {
                To::Remote(remote) => vec![remote],
                To::Object(_) => Vec::new(),
            };
            let shown = remotes.first().copied();
            let entry = Arc::new(Entry {
                mac: update.mac,
                vni: update.src_vni,
                state: AtomicU16::new(update.state),
                flags: AtomicU16::new(update.flags & !u16::from(ntf::USE)),
                used: AtomicU64::new(now),
                updated: AtomicU64::new(now),
                remotes: Published::new(table.entries.domain(), remotes),
                object: PublishedArc::new(table.entries.domain(), None),
            });
            if let Some(object) = object {
                self.set_object(&entry, object)?;
            }
            table.entries.insert(key, entry.clone(), self.guard);
            *count += 1;
            self.notify(rtm::NEWNEIGH, &entry, shown.as_ref());
            return Ok(());
        };
        if flags & nlm::F_EXCL != 0 {
            return Err(Error::new(errno::EEXIST));
        }
        self.change(entry, update, object, flags, now)
    }

    /// Changes an existing entry (`vxlan_fdb_update_existing`).
    fn change(
        &self,
        entry: &Entry,
        update: &Update,
        object: Result<Option<Arc<Nexthop>>, Error>,
        flags: u16,
        now: u64,
    ) -> Result<(), Error> {
        if matches!(update.to, To::Object(_)) {
            if entry.object(self.guard).is_none() {
                return Err(Error::msg(
                    errno::EOPNOTSUPP,
                    "Cannot replace an existing non nexthop fdb with a nexthop",
                ));
            }
            if flags & nlm::F_APPEND != 0 {
                return Err(Error::msg(
                    errno::EOPNOTSUPP,
                    "Cannot append to a nexthop fdb",
                ));
            }
        }
        if flags & nlm::F_REPLACE != 0 && entry.is_group() {
            return Err(Error::msg(
                errno::EOPNOTSUPP,
                "Cannot replace non-unicast fdb entries",
            ));
        }
        let object = match flags & nlm::F_REPLACE {
            0 => None,
            _ => object?,
        };
        let wanted = update.flags & !u16::from(ntf::USE);
        let mut changed = false;
        let learned = wanted & u16::from(ntf::EXT_LEARNED) != 0;
        if !learned || entry.flags.load(Relaxed) & ADDED_BY_USER == 0 {
            let before = (entry.state.load(Relaxed), entry.flags.load(Relaxed));
            if before != (update.state, wanted) {
                entry.state.store(update.state, Relaxed);
                entry.flags.store(wanted, Relaxed);
                entry.updated.store(now, Relaxed);
                changed = true;
            }
        }
        let mut remotes = entry.remotes(self.guard).to_vec();
        let mut shown = remotes.first().copied();
        if let Some(object) = object {
            changed |= self.set_object(entry, object)?;
        }
        if let To::Remote(remote) = update.to
            && !remotes.contains(&remote)
        {
            let place = match remotes.first_mut() {
                Some(first) if flags & nlm::F_REPLACE != 0 => Some(first),
                _ if flags & nlm::F_APPEND != 0 && entry.is_group() => {
                    remotes.push(remote);
                    remotes.last_mut()
                }
                _ => None,
            };
            if let Some(place) = place {
                *place = remote;
                entry.remotes.replace(remotes);
                (changed, shown) = (true, Some(remote));
            }
        }
        if update.flags & u16::from(ntf::USE) != 0 {
            entry.used.store(now, Relaxed);
        }
        if changed {
            self.notify(rtm::NEWNEIGH, entry, shown.as_ref());
        }
        Ok(())
    }

    /// Removes a remote from an entry. Removes the whole entry if it was the last one or if the
    /// remote is unspecified (`__vxlan_fdb_delete`).
    pub fn delete(&self, mac: Mac, src_vni: u32, remote: &Remote) -> Result<(), Error> {
        let table = self.table();
        let mut count = table.lock();
        let key = (mac, self.key(src_vni));
        let entry = table
            .entries
            .get(&key, self.guard)
            .ok_or(Error::new(errno::ENOENT))?;
        let mut remotes = entry.remotes(self.guard).to_vec();
        if !remote.ip.is_unspecified() {
            let Some(at) = remotes.iter().position(|other| other == remote) else {
                // As in Linux, this is not an error.
                return Ok(());
            };
            if remotes.len() > 1 {
                remotes.remove(at);
                entry.remotes.replace(remotes);
                self.notify(rtm::DELNEIGH, entry, Some(remote));
                return Ok(());
            }
        }
        self.destroy(entry, &mut count);
        Ok(())
    }

    fn destroy(&self, entry: &Entry, count: &mut u32) {
        if let Some(object) = entry.object(self.guard) {
            self.notify(rtm::DELNEIGH, entry, None);
            object.leave(&self.name(entry));
        } else {
            for remote in entry.remotes(self.guard) {
                self.notify(rtm::DELNEIGH, entry, Some(remote));
            }
        }
        let key = (entry.mac, self.key(entry.vni));
        if self.table().entries.remove(&key, self.guard).is_some() {
            *count -= 1;
        }
    }

    /// Returns all entries, ordered by address.
    fn all(&self) -> Vec<Arc<Entry>> {
        let entries = self.table().entries.iter(self.guard);
        let mut all: Vec<_> = entries.map(|(_, entry)| entry.clone()).collect();
        all.sort_unstable_by_key(|entry| (entry.mac, entry.vni));
        all
    }

    /// Removes all entries for which `goes` returns true (`vxlan_flush`, `vxlan_cleanup`).
    pub fn retain_not(&self, goes: impl Fn(&Entry) -> bool) {
        let mut count = self.table().lock();
        for entry in self.all() {
            if goes(&entry) {
                self.destroy(&entry, &mut count);
            }
        }
    }

    /// Removes the learned entries when the device goes down.
    pub fn forget_learned(&self) {
        let own = self.vxlan.config.load(self.guard).vni;
        self.retain_not(|entry| !entry.is_static() && (entry.mac, entry.vni) != (ALL_ZEROS, own));
    }

    /// Removes aged entries. Returns the time of the next scan.
    pub fn age(&self) -> u64 {
        let conf = self.vxlan.config.load(self.guard);
        let now = self.stack.clock.now();
        let ends = |entry: &Entry| entry.used.load(Relaxed) + u64::from(conf.ageing) * SECOND;
        let ages = |entry: &Entry| {
            let learned = entry.flags.load(Relaxed) & u16::from(ntf::EXT_LEARNED) != 0;
            !entry.is_static() && !learned
        };
        self.retain_not(|entry| {
            let old = ages(entry) && ends(entry) <= now;
            if old {
                entry.state.store(nud::STALE, Relaxed);
            }
            old
        });
        let all = self.all();
        let next = all.iter().filter(|entry| ages(entry)).map(|e| ends(e));
        next.min()
            .unwrap_or(u64::MAX)
            .min(now + super::AGE_INTERVAL)
    }
}

/// Learns the location of a received frame's source (`vxlan_snoop`).
///
/// # Errors
/// The reason for which the frame must be dropped.
pub fn snoop(
    site: &Site<'_>,
    now: u64,
    from: IpAddr,
    mac: Mac,
    ifindex: u32,
    vni: u32,
) -> Result<(), DropReason> {
    if mac[0] & 1 != 0 || mac == ALL_ZEROS {
        return Err(DropReason::MAC_INVALID_SOURCE);
    }
    let ifindex = match from {
        IpAddr::V6(v6) if v6.is_unicast_link_local() => ifindex,
        _ => 0,
    };
    let table = site.table();
    let Some(entry) = table.find(mac, site.key(vni), now, site.guard) else {
        let conf = site.vxlan.config.load(site.guard);
        let update = Update {
            mac,
            src_vni: vni,
            state: nud::REACHABLE,
            flags: u16::from(ntf::SELF),
            to: To::Remote(Remote {
                ip: from,
                port: conf.dst_port,
                vni: conf.vni,
                ifindex,
            }),
        };
        if site.device.is_up() {
            // If the table is full, or another packet added the entry first, the frame continues
            // anyway.
            let _ = site.update(&update, nlm::F_EXCL | nlm::F_CREATE);
        }
        return Ok(());
    };
    let first = entry.remotes(site.guard).first();
    if first.is_some_and(|first| first.ip == from && first.ifindex == ifindex) {
        return Ok(());
    }
    if entry.is_static() || entry.object(site.guard).is_some() {
        return Err(DropReason::VXLAN_ENTRY_EXISTS);
    }
    let _lock = table.lock();
    let mut remotes = entry.remotes(site.guard).to_vec();
    if let Some(first) = remotes.first_mut() {
        first.ip = from;
        let shown = *first;
        entry.remotes.replace(remotes);
        entry.updated.store(now, Relaxed);
        site.notify(rtm::NEWNEIGH, entry, Some(&shown));
    }
    Ok(())
}

fn text(message: &'static str) -> Error {
    Error::msg(errno::EINVAL, message)
}

/// Parses the identifier and the remote of a request (`vxlan_fdb_parse`).
fn parse(site: &Site<'_>, attrs: &Attrs<'_>) -> Result<(u32, Remote), Error> {
    let conf = site.vxlan.config.load(site.guard);
    if attrs.has(nda::NH_ID) {
        let others = [nda::DST, nda::VNI, nda::IFINDEX, nda::PORT];
        if others.iter().any(|ty| attrs.has(*ty)) {
            return Err(text(
                "DST, VNI, ifindex and port are mutually exclusive with NH_ID",
            ));
        }
    }
    let ip = match attrs.get(nda::DST) {
        Some(attr) => attr
            .ip()
            .map_err(|_| Error::msg(errno::EAFNOSUPPORT, "Unsupported address family"))?,
        None if conf.is_ipv6() => Ipv6Addr::UNSPECIFIED.into(),
        None => Ipv4Addr::UNSPECIFIED.into(),
    };
    let sized = |ty, len, message| match attrs.get(ty) {
        Some(attr) if attr.len() != len => Err(text(message)),
        attr => Ok(attr),
    };
    let port = match sized(nda::PORT, 2, "Invalid vxlan port")? {
        Some(attr) => attr.be16()?,
        None => conf.dst_port,
    };
    let vni = match sized(nda::VNI, 4, "Invalid vni")? {
        Some(attr) => attr.u32()?,
        None => conf.vni,
    };
    let src_vni = match sized(nda::SRC_VNI, 4, "Invalid src vni")? {
        Some(attr) => attr.u32()?,
        None => conf.vni,
    };
    let ifindex = match sized(nda::IFINDEX, 4, "Invalid ifindex")? {
        Some(attr) => attr.u32()?,
        None => 0,
    };
    let ns = site.device.namespace(site.guard);
    if ifindex != 0 && ns.device(ifindex, site.guard).is_none() {
        return Err(Error::msg(errno::EADDRNOTAVAIL, "Device not found"));
    }
    let remote = Remote {
        ip,
        port,
        vni,
        ifindex,
    };
    Ok((src_vni, remote))
}

impl Fdb for Vxlan {
    fn add(
        &self,
        ctl: &mut Ctl<'_>,
        device: &Arc<Device>,
        message: &NdMsg,
        attrs: &Attrs<'_>,
        mac: Mac,
    ) -> Result<(), Error> {
        let site = self.site(ctl.stack, ctl.guard, device);
        if message.state & (nud::PERMANENT | nud::REACHABLE) == 0 {
            return Err(Error::new(errno::EINVAL));
        }
        if !attrs.has(nda::DST) && !attrs.has(nda::NH_ID) {
            return Err(Error::new(errno::EINVAL));
        }
        let (src_vni, remote) = parse(&site, attrs)?;
        if remote.ip.is_ipv6() != self.config.load(ctl.guard).is_ipv6() {
            return Err(Error::new(errno::EAFNOSUPPORT));
        }
        let update = Update {
            mac,
            src_vni,
            state: message.state,
            flags: u16::from(message.flags) | ADDED_BY_USER,
            to: match attrs.u32(nda::NH_ID)?.unwrap_or(0) {
                0 => To::Remote(remote),
                id => To::Object(id),
            },
        };
        site.update(&update, ctl.message.header.flags)
    }

    fn delete(
        &self,
        ctl: &mut Ctl<'_>,
        device: &Arc<Device>,
        attrs: &Attrs<'_>,
        mac: Mac,
    ) -> Result<(), Error> {
        let site = self.site(ctl.stack, ctl.guard, device);
        let (src_vni, remote) = parse(&site, attrs)?;
        site.delete(mac, src_vni, &remote)
    }

    fn get(
        &self,
        ctl: &mut Ctl<'_>,
        device: &Arc<Device>,
        attrs: &Attrs<'_>,
        mac: Mac,
    ) -> Result<(), Error> {
        let (stack, guard) = (ctl.stack, ctl.guard);
        let site = self.site(stack, guard, device);
        let own = self.config.load(guard).vni;
        let vni = attrs.u32(nda::VNI)?.unwrap_or(own);
        let key = (mac, site.key(vni));
        let entry = self.fdb.entries.get(&key, guard).cloned();
        let entry = entry.ok_or(Error::msg(errno::ENOENT, "Fdb entry not found"))?;
        let first = entry.remotes(guard).first().copied();
        ctl.reply(rtm::NEWNEIGH, 0, |out| {
            site.fill(&entry, first.as_ref(), out)
        })
    }

    fn lost_object(
        &self,
        _stack: &Stack,
        guard: &Guard,
        _device: &Arc<Device>,
        mac: Mac,
        vni: u32,
    ) {
        let mut count = self.fdb.lock();
        let key = (mac, vni);
        // The entry may have another object by now.
        let entry = self.fdb.entries.get(&key, guard);
        let object = entry.and_then(|entry| entry.object(guard));
        if object.is_some_and(|object| object.is_gone())
            && self.fdb.entries.remove(&key, guard).is_some()
        {
            *count -= 1;
        }
    }

    fn messages(&self, stack: &Stack, guard: &Guard, device: &Arc<Device>) -> Vec<Vec<u8>> {
        let site = self.site(stack, guard, device);
        let mut messages = Vec::new();
        for entry in site.all() {
            let mut show = |remote| {
                let mut out = Writer::new();
                site.fill(&entry, remote, &mut out);
                messages.push(out.bytes().to_vec());
            };
            match entry.object(guard) {
                Some(_) => show(None),
                None => entry
                    .remotes(guard)
                    .iter()
                    .for_each(|remote| show(Some(remote))),
            }
        }
        messages
    }
}
