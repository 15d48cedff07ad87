// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The forwarding table of a bridge (`net/bridge/br_fdb.c`).
//!
//! The data path looks entries up by RCU and refreshes them by relaxed stores; changes take the table's lock.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU64, Ordering::Relaxed};

use weir_netlink::nda::{self, ntf, nud};
use weir_netlink::{Error, NdMsg, NdaCacheInfo, Table as Attrs, Writer, af, errno, nlm, rtm};
use weir_sync::hash::{Cursor, RcuHash};
use weir_sync::order::{self, Mutex};
use weir_sync::rcu::{Domain, Guard};

use super::Bridge;
use super::config::{TICK, mac, word};
use super::port::Port;
use super::vlan::Group;
use crate::device::{Device, Mac};
use crate::kind::Fdb;
use crate::request::Ctl;
use crate::stack::Stack;

/// The entry is an address of the bridge or of a port (`BR_FDB_LOCAL`).
const LOCAL: u8 = 1;
/// The entry does not age (`BR_FDB_STATIC`).
const STATIC: u8 = 2;
/// The entry does not move to another port (`BR_FDB_STICKY`).
const STICKY: u8 = 4;
/// A request made the entry (`BR_FDB_ADDED_BY_USER`).
const USER: u8 = 8;

/// An entry (`struct net_bridge_fdb_entry`).
pub struct Entry {
    /// Address and VLAN id, as [`key`] packs them.
    key: u64,
    /// The number of the port, or 0 for the bridge itself.
    port: AtomicU16,
    flags: AtomicU8,
    used: AtomicU64,
    updated: AtomicU64,
    /// Its place in the order in which entries were made.
    made: u64,
}

/// Packs an address and a VLAN id.
#[inline]
pub fn key(mac: Mac, vid: u16) -> u64 {
    word(mac) | u64::from(vid) << 48
}

impl Entry {
    fn mac(&self) -> Mac {
        mac(self.key)
    }

    fn vid(&self) -> u16 {
        (self.key >> 48) as u16
    }

    /// Returns whether frames for the address are for this host.
    #[inline]
    pub fn is_local(&self) -> bool {
        self.flags.load(Relaxed) & LOCAL != 0
    }

    /// Returns the number of the port behind which the address is.
    #[inline]
    pub fn port(&self) -> u16 {
        self.port.load(Relaxed)
    }

    /// Notes that a frame was sent to the address.
    #[inline]
    pub fn touch(&self, now: u64) {
        if self.used.load(Relaxed) != now {
            self.used.store(now, Relaxed);
        }
    }
}

/// The entries that one step of an ageing scan looks at.
const STEP: usize = 1024;

/// How far an ageing scan has come.
#[derive(Default)]
pub struct Scan {
    at: Cursor,
    /// The time in ns until the first of the entries seen ends.
    soonest: Option<u64>,
}

/// What a flush removes (`struct net_bridge_fdb_flush_desc`).
#[derive(Default)]
struct Flush {
    /// A VLAN id, or 0 for all.
    vid: u16,
    /// The number of a port, or 0 for the bridge.
    port: Option<u16>,
    flags: u8,
    /// The flags that count. 0 means that all entries are removed.
    mask: u8,
}

/// The forwarding table, by address.
pub struct Table {
    /// The entries.
    pub entries: RcuHash<u64, Arc<Entry>>,
    /// Serializes changes and counts the entries ever made.
    changes: Mutex<u64, order::Forwarding>,
}

impl Table {
    /// Creates an empty table.
    pub fn new(domain: &Domain) -> Self {
        Self {
            entries: RcuHash::new(domain),
            changes: Mutex::default(),
        }
    }
}

impl Bridge {
    fn state_of(&self, entry: &Entry, now: u64) -> u16 {
        match entry.flags.load(Relaxed) {
            flags if flags & LOCAL != 0 => nud::PERMANENT,
            flags if flags & STATIC != 0 => nud::NOARP,
            _ if entry.updated.load(Relaxed) + self.settings.ageing() <= now => nud::STALE,
            _ => nud::REACHABLE,
        }
    }

    fn fill_entry(&self, stack: &Stack, guard: &Guard, entry: &Entry, out: &mut Writer) {
        let now = stack.clock.now();
        let own = self.device().map_or(0, |device| device.ifindex());
        let port = self.ports.load(guard).numbered(entry.port());
        let index = port.map_or(own, |port| port.device.ifindex());
        let sticky = entry.flags.load(Relaxed) & STICKY != 0;
        out.fixed(&NdMsg {
            family: af::BRIDGE,
            ifindex: index as i32,
            state: self.state_of(entry, now),
            flags: if sticky { ntf::STICKY } else { 0 },
            ..NdMsg::default()
        });
        out.put(nda::LLADDR, &entry.mac());
        out.put_u32(nda::MASTER, own);
        let age = |then: u64| (now.saturating_sub(then) / TICK) as u32;
        let ages = NdaCacheInfo {
            confirmed: 0,
            used: age(entry.used.load(Relaxed)),
            updated: age(entry.updated.load(Relaxed)),
            refcnt: 0,
        };
        out.put_fixed(nda::CACHEINFO, &ages);
        if entry.vid() != 0 {
            out.put_u16(nda::VLAN, entry.vid());
        }
    }

    fn tell(&self, stack: &Stack, guard: &Guard, entry: &Entry, ty: u16) {
        if let Some(device) = self.device() {
            let ns = device.namespace(guard);
            crate::request::announce(ns, rtm::grp::NEIGH, ty, |out| {
                self.fill_entry(stack, guard, entry, out);
            });
        }
    }

    /// Makes an entry, with the table's lock held, and tells the listeners.
    fn make(
        &self,
        (stack, guard): (&Stack, &Guard),
        made: &mut u64,
        key: u64,
        (port, flags): (u16, u8),
    ) {
        let now = stack.clock.now();
        *made += 1;
        let entry = Arc::new(Entry {
            key,
            port: AtomicU16::new(port),
            flags: AtomicU8::new(flags),
            used: AtomicU64::new(now),
            updated: AtomicU64::new(now),
            made: *made,
        });
        self.table.entries.insert(key, entry.clone(), guard);
        self.tell(stack, guard, &entry, rtm::NEWNEIGH);
    }

    /// Ends the entries that match. The table's lock is free between two of them, so that frames of other ports are
    /// learned meanwhile.
    fn sweep(&self, guard: &Guard, matches: impl Fn(&Entry) -> bool, end: impl Fn(&Entry)) {
        for (_, entry) in self.table.entries.iter(guard) {
            if !matches(entry) {
                continue;
            }
            let _made = self.table.changes.lock();
            // A frame, or a request, may have been faster.
            let known = self.table.entries.get(&entry.key, guard);
            if known.is_some_and(|known| Arc::ptr_eq(known, entry)) && matches(entry) {
                end(entry);
            }
        }
    }

    fn remove(&self, stack: &Stack, guard: &Guard, entry: &Entry) {
        self.table.entries.remove(&entry.key, guard);
        self.tell(stack, guard, entry, rtm::DELNEIGH);
    }

    /// Adds an address of a port, or of the bridge if `port` is 0, in a VLAN or in 0 (`fdb_add_local`).
    pub fn add_local(&self, stack: &Stack, guard: &Guard, port: u16, (mac, vid): (Mac, u16)) {
        if mac[0] & 1 != 0 || mac == [0; 6] {
            return;
        }
        let mut made = self.table.changes.lock();
        let key = key(mac, vid);
        if let Some(entry) = self.table.entries.get(&key, guard) {
            if entry.is_local() {
                return;
            }
            self.remove(stack, guard, entry);
        }
        self.make((stack, guard), &mut made, key, (port, LOCAL | STATIC));
    }

    /// Adds the bridge's own address.
    pub fn add_own(&self, stack: &Stack, guard: &Guard, mac: Mac) {
        self.add_local(stack, guard, 0, (mac, 0));
    }

    /// Replaces the bridge's own address (`br_fdb_change_mac_address`).
    pub fn replace_own(&self, stack: &Stack, guard: &Guard, mac: Mac) {
        self.move_local(stack, guard, 0, mac);
    }

    /// Replaces the address of a port, or of the bridge if `port` is 0, in all its VLANs (`br_fdb_changeaddr`).
    pub fn move_local(&self, stack: &Stack, guard: &Guard, port: u16, mac: Mac) {
        let is_own = |entry: &Entry| {
            entry.port() == port && entry.flags.load(Relaxed) & (LOCAL | USER) == LOCAL
        };
        self.sweep(guard, is_own, |entry| self.end_local(stack, guard, entry));
        self.add_local(stack, guard, port, (mac, 0));
        let group = match self.ports.load(guard).numbered(port) {
            Some(port) => port.vlans.load(guard),
            None => self.own_vlans.load(guard),
        };
        for vlan in group.all_usable() {
            self.add_local(stack, guard, port, (mac, vlan.vid));
        }
    }

    /// Removes a local entry unless another port, or the bridge, has the address in the VLAN (`fdb_delete_local`).
    fn end_local(&self, stack: &Stack, guard: &Guard, entry: &Entry) {
        let (mac, vid) = (entry.mac(), entry.vid());
        let is_in = |group: &Group| vid == 0 || group.usable(vid).is_some();
        let ports = &self.ports.load(guard).list;
        let other = ports.iter().find(|port| {
            port.number != entry.port()
                && port.device.address() == mac
                && is_in(port.vlans.load(guard))
        });
        let own = entry.port() != 0
            && self.device().is_some_and(|device| device.address() == mac)
            && is_in(self.own_vlans.load(guard));
        match other {
            Some(other) => entry.port.store(other.number, Relaxed),
            None if own => entry.port.store(0, Relaxed),
            None => self.remove(stack, guard, entry),
        }
    }

    /// Removes the local entry of a port, or of the bridge, in a VLAN (`br_fdb_find_delete_local`).
    pub fn end_own_local(&self, stack: &Stack, guard: &Guard, port: u16, (mac, vid): (Mac, u16)) {
        let _made = self.table.changes.lock();
        let entry = self.table.entries.get(&key(mac, vid), guard);
        if let Some(entry) = entry
            && entry.port() == port
            && entry.flags.load(Relaxed) & (LOCAL | USER) == LOCAL
        {
            self.end_local(stack, guard, entry);
        }
    }

    /// Removes the learned entries of ports, or of the bridge, in VLANs they have left (`br_fdb_delete_by_port`).
    /// `left` has (number of the port, VLAN id).
    pub fn forget_vlans(&self, stack: &Stack, guard: &Guard, left: &BTreeSet<(u16, u16)>) {
        let has_left = |entry: &Entry| {
            let is_learned = entry.flags.load(Relaxed) & STATIC == 0;
            is_learned && left.contains(&(entry.port(), entry.vid()))
        };
        self.sweep(guard, has_left, |entry| self.remove(stack, guard, entry));
    }

    /// Removes the entries of a port that leaves (`br_fdb_delete_by_port`).
    pub fn forget_port(&self, stack: &Stack, guard: &Guard, port: u16) {
        let is_of_port = |entry: &Entry| entry.port() == port;
        self.sweep(guard, is_of_port, |entry| match entry.is_local() {
            true => self.end_local(stack, guard, entry),
            false => self.remove(stack, guard, entry),
        });
    }

    /// Removes the learned entries of a port, or of all (`br_fdb_flush`).
    pub fn flush(&self, stack: &Stack, guard: &Guard, port: Option<u16>) {
        let ends = |entry: &Entry| {
            let other = port.is_some_and(|port| port != entry.port());
            !other && entry.flags.load(Relaxed) & STATIC == 0
        };
        self.sweep(guard, ends, |entry| self.remove(stack, guard, entry));
    }

    /// Removes entries that are too old, in one step of a scan (`br_fdb_cleanup`). Returns the time in ns until the
    /// next scan, or `None` if this one has not reached the end of the table.
    pub fn age(&self, stack: &Stack, guard: &Guard, now: u64, scan: &mut Scan) -> Option<u64> {
        let limit = self.settings.ageing();
        let mut entries = self.table.entries.iter_from(scan.at, guard);
        for (_, entry) in entries.by_ref().take(STEP) {
            if entry.flags.load(Relaxed) & STATIC != 0 {
                continue;
            }
            let left = |entry: &Entry| (entry.updated.load(Relaxed) + limit).saturating_sub(now);
            if left(entry) == 0 {
                let _made = self.table.changes.lock();
                // A frame, or a request, may have been faster.
                let is_same = |other: &&Arc<Entry>| Arc::ptr_eq(other, entry);
                let known = self.table.entries.get(&entry.key, guard).filter(is_same);
                if known.is_some() && left(entry) == 0 {
                    self.remove(stack, guard, entry);
                }
            } else {
                scan.soonest = Some(left(entry).min(scan.soonest.unwrap_or(u64::MAX)));
            }
        }
        scan.at = entries.cursor();
        let is_over = scan.at.is_end() || self.table.entries.is_empty(guard);
        is_over.then(|| scan.soonest.unwrap_or(limit).min(limit))
    }

    /// Learns the source of a frame (`br_fdb_update`). `known` is its entry, if there is one.
    #[inline]
    pub fn learn(
        &self,
        (stack, guard): (&Stack, &Guard),
        now: u64,
        port: &Port,
        key: u64,
        known: Option<&Arc<Entry>>,
    ) {
        if let Some(entry) = known {
            if entry.port() == port.number && !entry.is_local() {
                if entry.updated.load(Relaxed) != now {
                    entry.updated.store(now, Relaxed);
                }
                return;
            }
            if entry.is_local() {
                return;
            }
        }
        self.learn_anew((stack, guard), now, port, key);
    }

    #[cold]
    fn learn_anew(&self, (stack, guard): (&Stack, &Guard), now: u64, port: &Port, key: u64) {
        if self.settings.ageing() == 0 {
            return;
        }
        let mut made = self.table.changes.lock();
        // The port may have left, and its number may be another's.
        if self.ports.load(guard).of(&port.device).is_none() {
            return;
        }
        match self.table.entries.get(&key, guard) {
            None => self.make((stack, guard), &mut made, key, (port.number, 0)),
            Some(entry) if entry.is_local() => {}
            Some(entry) => {
                entry.updated.store(now, Relaxed);
                let sticky = entry.flags.load(Relaxed) & STICKY != 0;
                if !sticky && entry.port.swap(port.number, Relaxed) != port.number {
                    self.tell(stack, guard, entry, rtm::NEWNEIGH);
                }
            }
        }
    }

    /// Removes the entries that a flush describes (`br_fdb_flush`).
    fn remove_matching(&self, stack: &Stack, guard: &Guard, flush: &Flush) {
        let matches = |entry: &Entry| {
            let flags = entry.flags.load(Relaxed) & flush.mask;
            (flush.vid == 0 || flush.vid == entry.vid())
                && flush.port.is_none_or(|port| port == entry.port())
                && (flush.mask == 0 || flags == flush.flags)
        };
        self.sweep(guard, matches, |entry| self.remove(stack, guard, entry));
    }

    /// Returns the entries that `accepts`, the newest first.
    fn newest_first<'g>(
        &'g self,
        guard: &'g Guard,
        accepts: impl Fn(&Entry) -> bool,
    ) -> Vec<&'g Arc<Entry>> {
        let entries = self.table.entries.iter(guard).map(|(_, entry)| entry);
        let mut entries: Vec<_> = entries.filter(|entry| accepts(entry)).collect();
        entries.sort_by_key(|entry| std::cmp::Reverse(entry.made));
        entries
    }

    /// Returns the entries behind ports as `struct __fdb_entry`s: address, number of the port, whether it is local,
    /// age in ticks of [`USER_HZ`](crate::clock::USER_HZ).
    pub(super) fn brforward(&self, stack: &Stack, guard: &Guard) -> Vec<u8> {
        let now = stack.clock.now();
        let mut out = Vec::new();
        for entry in self.newest_first(guard, |entry| entry.port() != 0) {
            let age = match entry.flags.load(Relaxed) & (LOCAL | STATIC) {
                0 => now.saturating_sub(entry.updated.load(Relaxed)) / TICK,
                _ => 0,
            };
            let [low, high] = entry.port().to_le_bytes();
            out.extend(entry.mac());
            out.extend([low, u8::from(entry.is_local())]);
            out.extend((age as u32).to_ne_bytes());
            out.extend([high, 0, 0, 0]);
        }
        out
    }

    /// Returns the number of the port that a flush names by its index, or 0 for the bridge
    /// (`__fdb_flush_validate_ifindex`).
    fn flushed(&self, guard: &Guard, index: u32) -> Result<u16, Error> {
        let own = self.device().ok_or_else(|| Error::new(errno::ENODEV))?;
        let device = own.namespace(guard).device(index, guard);
        let device = device.ok_or(Error::msg(
            errno::ENODEV,
            "bridge: Unknown flush device ifindex",
        ))?;
        let above = super::bridge_of(device, guard);
        let text = match super::bridge_in(device) {
            Some(_) if Arc::ptr_eq(device, &own) => return Ok(0),
            Some(_) => "bridge: Flush bridge device does not match target bridge device",
            None if above.is_none() => "bridge: Flush device is not a bridge or bridge port",
            None => match self.ports.load(guard).of(device) {
                Some(port) => return Ok(port.number),
                None => "bridge: Port belongs to a different bridge device",
            },
        };
        Err(Error::msg(errno::EINVAL, text))
    }

    /// Adds or changes one entry as a request asks for it (`fdb_add_entry`).
    fn add_entry(&self, ctl: &Ctl<'_>, key: u64, (number, flags): (u16, u8)) -> Result<(), Error> {
        let (stack, guard) = (ctl.stack, ctl.guard);
        let mut made = self.table.changes.lock();
        let now = stack.clock.now();
        let Some(entry) = self.table.entries.get(&key, guard) else {
            if !ctl.has(nlm::F_CREATE) {
                return Err(Error::new(errno::ENOENT));
            }
            self.make((stack, guard), &mut made, key, (number, flags));
            return Ok(());
        };
        if ctl.has(nlm::F_EXCL) {
            return Err(Error::new(errno::EEXIST));
        }
        let moved = entry.port.swap(number, Relaxed) != number;
        let before = entry.flags.swap(flags, Relaxed);
        entry.used.store(now, Relaxed);
        if moved || before & !USER != flags & !USER {
            entry.updated.store(now, Relaxed);
            self.tell(stack, guard, entry, rtm::NEWNEIGH);
        }
        Ok(())
    }

    /// Returns the number of the port of a request's device, or 0 for the bridge.
    fn number_of(&self, guard: &Guard, device: &Device) -> Result<u16, Error> {
        if super::bridge_in(device).is_some() {
            return Ok(0);
        }
        let port = self.ports.load(guard).of(device);
        let port = port.ok_or_else(|| Error::new(errno::EINVAL))?;
        Ok(port.number)
    }
}

/// The flags by which a flush may choose entries (`FDB_FLUSH_ALLOWED_NDM_FLAGS`).
const FLUSHED_FLAGS: u8 = ntf::USE | ntf::EXT_LEARNED | ntf::STICKY | ntf::OFFLOADED;

/// Returns the flags of entries that states and flags of a request mean.
fn flags_of(state: u16, flags: u8) -> u8 {
    let bit = |on: bool, bit| if on { bit } else { 0 };
    bit(state & nud::PERMANENT != 0, LOCAL)
        | bit(state & nud::NOARP != 0, STATIC)
        | bit(flags & ntf::USE != 0, USER)
        | bit(flags & ntf::STICKY != 0, STICKY)
}

/// Returns the VLAN ids that a request about an address means: the one it names, or 0 and all in which the device is.
fn vids_of(attrs: &Attrs<'_>, group: &Group) -> Result<Vec<u16>, Error> {
    if let Some(vid) = attrs.u16(nda::VLAN)? {
        return match group.usable(vid) {
            Some(_) => Ok(vec![vid]),
            None => Err(Error::new(errno::EINVAL)),
        };
    }
    let all = group.all_usable().map(|vlan| vlan.vid);
    Ok(std::iter::once(0).chain(all).collect())
}

impl Fdb for Bridge {
    fn add(
        &self,
        ctl: &mut Ctl<'_>,
        device: &Arc<Device>,
        message: &NdMsg,
        attrs: &Attrs<'_>,
        mac: Mac,
    ) -> Result<(), Error> {
        let guard = ctl.guard;
        let wanted = message.state;
        if wanted & (nud::PERMANENT | nud::NOARP | nud::REACHABLE) == 0 || mac == [0; 6] {
            return Err(Error::new(errno::EINVAL));
        }
        if message.flags & (ntf::USE | ntf::EXT_LEARNED) != 0 {
            return Err(super::refuse("Entries of others are not served"));
        }
        let number = self.number_of(guard, device)?;
        let vids = match self.group_of(guard, device) {
            Some(group) => vids_of(attrs, group)?,
            None => vec![0],
        };
        let sticky = message.flags & ntf::STICKY != 0;
        let permanent = wanted & nud::PERMANENT != 0;
        let port = self.ports.load(guard).numbered(number);
        let learns = port.is_some_and(|port| port.listens());
        if number != 0 && !permanent && wanted & nud::NOARP == 0 && !learns {
            return Err(Error::new(errno::EPERM));
        }
        if number == 0 && !permanent || sticky && permanent {
            return Err(Error::new(errno::EINVAL));
        }
        let mut flags = USER;
        if permanent {
            flags |= LOCAL | STATIC;
        } else if wanted & nud::NOARP != 0 {
            flags |= STATIC;
        }
        if sticky {
            flags |= STICKY;
        }
        for vid in vids {
            self.add_entry(ctl, key(mac, vid), (number, flags))?;
        }
        Ok(())
    }

    fn delete(
        &self,
        ctl: &mut Ctl<'_>,
        device: &Arc<Device>,
        attrs: &Attrs<'_>,
        mac: Mac,
    ) -> Result<(), Error> {
        let (stack, guard) = (ctl.stack, ctl.guard);
        let number = self.number_of(guard, device)?;
        let vids = match self.group_of(guard, device) {
            Some(group) => vids_of(attrs, group)?,
            None => vec![0],
        };
        let _made = self.table.changes.lock();
        let mut found = false;
        for vid in vids {
            let entry = self.table.entries.get(&key(mac, vid), guard);
            if let Some(entry) = entry.filter(|entry| entry.port() == number) {
                self.remove(stack, guard, entry);
                found = true;
            }
        }
        match found {
            true => Ok(()),
            false => Err(Error::new(errno::ENOENT)),
        }
    }

    fn delete_many(
        &self,
        ctl: &mut Ctl<'_>,
        device: &Arc<Device>,
        message: &NdMsg,
        attrs: &Attrs<'_>,
    ) -> Result<(), Error> {
        let (stack, guard) = (ctl.stack, ctl.guard);
        let text = |text| Error::msg(errno::EINVAL, text);
        let own = match super::bridge_in(device) {
            Some(_) => None,
            None => Some(
                self.number_of(guard, device)
                    .map_err(|error| error.or_msg("bridge: Device is not a bridge port"))?,
            ),
        };
        let flags = message.flags & !(ntf::MASTER | ntf::SELF);
        if flags & !FLUSHED_FLAGS != 0 {
            return Err(text("Unsupported fdb flush ndm flag bits set"));
        }
        if message.state & !(nud::PERMANENT | nud::NOARP) != 0 {
            return Err(text("Unsupported fdb flush ndm state bits set"));
        }
        let state_mask = attrs.u16(nda::NDM_STATE_MASK)?.unwrap_or(0);
        let flags_mask = attrs.u8(nda::NDM_FLAGS_MASK)?.unwrap_or(0);
        let port = match attrs.u32(nda::IFINDEX)? {
            Some(index) => Some(self.flushed(guard, index)?),
            None => own,
        };
        let flush = Flush {
            vid: attrs.u16(nda::VLAN)?.unwrap_or(0),
            port,
            flags: flags_of(message.state, flags),
            mask: flags_of(state_mask, flags_mask),
        };
        // No entry is offloaded or learned by others.
        let others = ntf::EXT_LEARNED | ntf::OFFLOADED;
        if flags & others & flags_mask == 0 {
            self.remove_matching(stack, guard, &flush);
        }
        Ok(())
    }

    fn get(
        &self,
        ctl: &mut Ctl<'_>,
        _device: &Arc<Device>,
        attrs: &Attrs<'_>,
        mac: Mac,
    ) -> Result<(), Error> {
        let (stack, guard) = (ctl.stack, ctl.guard);
        let key = key(mac, attrs.u16(nda::VLAN)?.unwrap_or(0));
        let entry = self.table.entries.get(&key, guard).cloned();
        let entry = entry.ok_or(Error::msg(errno::ENOENT, "Fdb entry not found"))?;
        ctl.reply(rtm::NEWNEIGH, 0, |out| {
            self.fill_entry(stack, guard, &entry, out);
        })
    }

    fn messages(&self, stack: &Stack, guard: &Guard, device: &Arc<Device>) -> Vec<Vec<u8>> {
        let Ok(number) = self.number_of(guard, device) else {
            return Vec::new();
        };
        let entries = self.newest_first(guard, |entry| entry.port() == number);
        let message = |entry: &Arc<Entry>| {
            let mut out = Writer::new();
            self.fill_entry(stack, guard, entry, &mut out);
            out.into_vec()
        };
        entries.into_iter().map(message).collect()
    }
}
