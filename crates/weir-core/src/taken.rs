// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The link-layer addresses that a device accepts beside its own: unicast and multicast lists with
//! reference counts (`struct netdev_hw_addr_list`, `net/core/dev_addr_lists.c`).
//!
//! The lists are only reported, since the devices accept every frame. IP adds the addresses of the
//! groups it joins, requests add addresses (`bridge fdb add`, `ip maddr add`), and a VLAN device
//! passes its lists on to its lower device while it is up.

use std::sync::Arc;

use weir_netlink::ifla::iff;
use weir_netlink::{Error, errno};
use weir_sync::exact;
use weir_sync::rare::Rare;
use weir_sync::rcu::Guard;

use crate::device::{Device, Mac};
use crate::stack::Stack;

/// An address of a list (`struct netdev_hw_addr`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// The address.
    pub mac: Mac,
    /// The number of references.
    pub users: u32,
    /// A request of a user holds one of the references (`global_use`).
    pub global: bool,
    /// The references held by devices above this one.
    synced: u32,
    /// The number of devices below that have the address from this list (`sync_cnt`).
    passed: u32,
}

/// The kind of reference that is added or removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reference {
    /// A reference of a protocol (`dev_mc_add`).
    Plain,
    /// The one reference of users (`dev_mc_add_global`).
    Global,
    /// The first reference of users to an address nobody else has (`dev_mc_add_excl`).
    Exclusive,
}

impl Entry {
    fn new(mac: Mac) -> Self {
        Self {
            mac,
            users: 1,
            global: false,
            synced: 0,
            passed: 0,
        }
    }
}

/// The groups of all nodes (IPv6) and of all hosts (IPv4). Nearly every device accepts them before others, for IP alone.
const USUAL: [Mac; 2] = [[0x33, 0x33, 0, 0, 0, 1], [0x01, 0, 0x5e, 0, 0, 1]];

/// A list of addresses, in the order in which they were added.
#[derive(Debug, Default)]
pub struct List {
    /// The addresses of [`USUAL`], as a bitmap, that are in front of `rest` with one plain reference each. They take no
    /// memory there.
    usual: u8,
    rest: Box<[Entry]>,
}

impl List {
    fn usual(&self) -> impl Iterator<Item = Entry> + use<> {
        let usual = self.usual;
        let own = move |(at, mac)| (usual >> at & 1 == 1).then(|| Entry::new(mac));
        USUAL.into_iter().enumerate().filter_map(own)
    }

    /// Returns the entries.
    pub fn entries(&self) -> impl Iterator<Item = Entry> + '_ {
        self.usual().chain(self.rest.iter().copied())
    }

    /// Returns whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.usual == 0 && self.rest.is_empty()
    }

    /// Adds a plain reference to an address of [`USUAL`] where that takes no memory. Returns whether it did.
    fn add_usual(&mut self, mac: Mac) -> bool {
        let at = USUAL.iter().position(|usual| *usual == mac);
        // The entries are in the order in which they came.
        let fits = |at: &usize| self.rest.is_empty() && self.usual >> at == 0;
        match at.filter(fits) {
            Some(at) => {
                self.usual |= 1 << at;
                true
            }
            None => false,
        }
    }

    /// Removes a plain reference to an address of [`USUAL`] that takes no memory. Returns whether it did.
    fn remove_usual(&mut self, mac: Mac) -> bool {
        let at = USUAL.iter().position(|usual| *usual == mac);
        let there = |at: &usize| self.usual >> at & 1 == 1;
        match at.filter(there) {
            Some(at) => {
                self.usual &= !(1 << at);
                true
            }
            None => false,
        }
    }

    /// Returns all entries, to be changed.
    fn all(&mut self) -> &mut [Entry] {
        if self.usual != 0 {
            self.rest = self.entries().collect();
            self.usual = 0;
        }
        &mut self.rest
    }

    /// Returns the place of an address in `rest`, where its entry is then.
    fn find(&mut self, mac: Mac) -> Option<usize> {
        if USUAL.contains(&mac) {
            self.all();
        }
        // The newest addresses are looked for most often.
        self.rest.iter().rposition(|entry| entry.mac == mac)
    }

    fn push(&mut self, mac: Mac, global: bool, synced: u32) {
        let entry = Entry {
            global,
            synced,
            ..Entry::new(mac)
        };
        exact::push(&mut self.rest, entry);
    }

    /// Adds a reference (`__hw_addr_add_ex`).
    ///
    /// # Errors
    /// EEXIST if the reference is exclusive and the address is in the list.
    pub fn add(&mut self, mac: Mac, reference: Reference) -> Result<(), Error> {
        let global = reference != Reference::Plain;
        if !global && self.add_usual(mac) {
            return Ok(());
        }
        let Some(entry) = self.find(mac).and_then(|at| self.rest.get_mut(at)) else {
            self.push(mac, global, 0);
            return Ok(());
        };
        if reference == Reference::Exclusive {
            return Err(Error::new(errno::EEXIST));
        }
        if global && std::mem::replace(&mut entry.global, true) {
            return Ok(());
        }
        entry.users += 1;
        Ok(())
    }

    /// Removes a reference (`__hw_addr_del_ex`).
    ///
    /// # Errors
    /// ENOENT if there is no such reference.
    pub fn remove(&mut self, mac: Mac, reference: Reference) -> Result<(), Error> {
        let none = || Error::new(errno::ENOENT);
        if reference == Reference::Plain && self.remove_usual(mac) {
            return Ok(());
        }
        let at = self.find(mac).ok_or_else(none)?;
        let entry = self.rest.get_mut(at).ok_or_else(none)?;
        if reference != Reference::Plain && !std::mem::replace(&mut entry.global, false) {
            return Err(none());
        }
        self.release(at);
        Ok(())
    }

    /// Drops one reference, and the entry with the last one.
    fn release(&mut self, at: usize) {
        if let Some(entry) = self.rest.get_mut(at) {
            entry.users -= 1;
            if entry.users == 0 {
                exact::remove(&mut self.rest, at);
            }
        }
    }

    /// Takes an address over from a device above.
    fn take_over(&mut self, mac: Mac) {
        match self.find(mac).and_then(|at| self.rest.get_mut(at)) {
            None => self.push(mac, false, 1),
            Some(entry) => {
                entry.synced += 1;
                entry.users += 1;
            }
        }
    }

    /// Gives back an address that was taken over from a device above. Returns `false` if it is not
    /// there.
    fn give_back(&mut self, mac: Mac) -> bool {
        let Some(at) = self.find(mac) else {
            return false;
        };
        match self.rest.get_mut(at) {
            Some(entry) if entry.synced != 0 => entry.synced -= 1,
            _ => return false,
        }
        self.release(at);
        true
    }

    /// Passes the addresses on to the list of a device below. Takes back those that only the device
    /// below still refers to (`__hw_addr_sync`).
    fn pass_on(&mut self, below: &mut Self) {
        let mut at = 0;
        while let Some(entry) = self.all().get_mut(at) {
            if entry.passed == 0 {
                below.take_over(entry.mac);
                entry.passed += 1;
                entry.users += 1;
            } else if entry.users == 1 && self.take_back(at, below) {
                continue;
            }
            at += 1;
        }
    }

    /// Takes one address back from the list of a device below (`__hw_addr_unsync_one`). Returns
    /// whether the entry is gone.
    fn take_back(&mut self, at: usize, below: &mut Self) -> bool {
        let Some(entry) = self.rest.get_mut(at) else {
            return false;
        };
        if !below.give_back(entry.mac) {
            return false;
        }
        entry.passed -= 1;
        let last = entry.users == 1;
        self.release(at);
        last
    }

    /// Takes all addresses back from the list of a device below (`__hw_addr_unsync`).
    fn take_all_back(&mut self, below: &mut Self) {
        let mut at = 0;
        while let Some(entry) = self.all().get(at) {
            if entry.passed == 0 || !self.take_back(at, below) {
                at += 1;
            }
        }
    }
}

/// The addresses that a device accepts beside its own and its broadcast address.
#[derive(Debug, Default)]
pub struct Taken {
    unicast: Rare<Unicast>,
    /// `dev->mc`
    pub multicast: List,
}

/// The unicast addresses, which nearly every device lacks.
#[derive(Debug, Default)]
struct Unicast {
    list: List,
    /// The device's own address, while its lower device accepts it for it.
    own: Option<Mac>,
    /// A device without a filter for unicast addresses is promiscuous because of the list (`uc_promisc`).
    promiscuous: bool,
}

impl Taken {
    /// Forgets all addresses (`dev_uc_flush`, `dev_mc_flush`).
    pub fn flush(&mut self) {
        self.multicast = List::default();
        if let Some(unicast) = self.unicast.made() {
            *unicast = Unicast {
                promiscuous: unicast.promiscuous,
                ..Unicast::default()
            };
        }
    }

    /// Returns the unicast addresses (`dev->uc`).
    pub fn unicast(&self) -> impl Iterator<Item = Entry> + '_ {
        let unicast = self.unicast.get().into_iter();
        unicast.flat_map(|unicast| unicast.list.entries())
    }

    /// Returns the unicast and the multicast addresses, to be changed.
    pub fn lists(&mut self) -> [&mut List; 2] {
        [&mut self.unicast.change().list, &mut self.multicast]
    }

    /// Returns the list that a request's address belongs to. The link-local group addresses of
    /// bridges are in the unicast list (`ndo_dflt_fdb_add`).
    pub fn list(&mut self, mac: Mac) -> &mut List {
        let bridge = matches!(mac, [0x01, 0x80, 0xc2, 0, 0, 0..=15]);
        match mac[0] & 1 == 0 || bridge {
            true => &mut self.unicast.change().list,
            false => &mut self.multicast,
        }
    }
}

/// Adds a reference to a multicast address (`dev_mc_add`, `dev_mc_add_global`).
///
/// # Errors
/// Those of [`List::add`].
pub fn add_group(
    stack: &Stack,
    guard: &Guard,
    device: &Arc<Device>,
    mac: Mac,
    reference: Reference,
) -> Result<(), Error> {
    device.taken().multicast.add(mac, reference)?;
    groups_changed(stack, guard, device);
    Ok(())
}

/// Removes a reference to a multicast address (`dev_mc_del`, `dev_mc_del_global`).
///
/// # Errors
/// Those of [`List::remove`].
pub fn remove_group(
    stack: &Stack,
    guard: &Guard,
    device: &Arc<Device>,
    mac: Mac,
    reference: Reference,
) -> Result<(), Error> {
    device.taken().multicast.remove(mac, reference)?;
    groups_changed(stack, guard, device);
    Ok(())
}

/// Tells the kind of a device that is up that its multicast list changed, which makes no device promiscuous.
fn groups_changed(stack: &Stack, guard: &Guard, device: &Arc<Device>) {
    if device.is_up() {
        device.link.accepts(stack, guard, device);
    }
}

/// Tells the kind of a device that is up that the lists, or the device's own address, changed
/// (`__dev_set_rx_mode`).
pub fn changed(stack: &Stack, guard: &Guard, device: &Arc<Device>) {
    if device.is_up() {
        let turned = !device.link.has_unicast_filter() && {
            let mut taken = device.taken();
            taken.unicast.made().is_some_and(|unicast| {
                let wanted = !unicast.list.is_empty();
                std::mem::replace(&mut unicast.promiscuous, wanted) != wanted
            })
        };
        if turned {
            let taken = device.taken();
            let more = taken
                .unicast
                .get()
                .is_some_and(|unicast| unicast.promiscuous);
            drop(taken);
            crate::netdev::ask_for_all(stack, guard, device, iff::PROMISC, more);
        }
        device.link.accepts(stack, guard, device);
    }
}

/// Passes the lists of a VLAN device that is up, and its own address if it differs, on to its lower
/// device. Takes them back from there if it is down (`vlan_dev_set_rx_mode`, `vlan_dev_open`,
/// `vlan_dev_stop`).
pub fn pass_on(stack: &Stack, guard: &Guard, upper: &Device, lower: &Arc<Device>) {
    {
        let (mut above, mut below) = (upper.taken(), lower.taken());
        let (above, below) = (&mut *above, &mut *below);
        let up = upper.is_up();
        let wanted = Some(upper.address()).filter(|mac| up && *mac != lower.address());
        let own = above.unicast.get().and_then(|unicast| unicast.own);
        if own != wanted {
            above.unicast.change().own = wanted;
            let list = &mut below.unicast.change().list;
            if let Some(mac) = wanted {
                // A plain reference is always granted.
                let _ = list.add(mac, Reference::Plain);
            }
            if let Some(mac) = own {
                // The lower device may have lost its list on a move to another namespace.
                let _ = list.remove(mac, Reference::Plain);
            }
        }
        if up {
            above.multicast.pass_on(&mut below.multicast);
            if let Some(unicast) = above.unicast.made() {
                unicast.list.pass_on(&mut below.unicast.change().list);
            }
        } else {
            above.multicast.take_all_back(&mut below.multicast);
            if let Some(unicast) = above.unicast.made() {
                unicast.list.take_all_back(&mut below.unicast.change().list);
            }
        }
    }
    changed(stack, guard, lower);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a list in which every entry takes memory.
    fn plain(entries: impl Iterator<Item = Entry>) -> List {
        List {
            usual: 0,
            rest: entries.collect(),
        }
    }

    #[test]
    fn usual_addresses_are_like_others() {
        let macs = [USUAL[0], USUAL[1], A, B];
        for seed in 0..2_000 {
            let (mut list, mut below) = (List::default(), List::default());
            for step in 0..20 {
                let bits = crate::random::mix(seed << 8 | step);
                let (op, which) = (bits >> 8 & 7, (bits & 3) as usize);
                let mut others = (plain(list.entries()), plain(below.entries()));
                let done = [(&mut list, &mut below), (&mut others.0, &mut others.1)].map(
                    |(list, below)| match op {
                        0..3 => list.add(macs[which], Reference::Plain).is_ok(),
                        3 | 4 => list.remove(macs[which], Reference::Plain).is_ok(),
                        5 => list.add(macs[which], Reference::Global).is_ok(),
                        6 => list.remove(macs[which], Reference::Global).is_ok(),
                        _ => {
                            match which {
                                0 => list.take_all_back(below),
                                1 => return below.add(macs[0], Reference::Plain).is_ok(),
                                _ => list.pass_on(below),
                            }
                            true
                        }
                    },
                );
                assert_eq!(done[0], done[1], "seed {seed}, step {step}");
                assert!(list.entries().eq(others.0.entries()), "seed {seed}");
                assert!(below.entries().eq(others.1.entries()), "seed {seed}");
            }
        }
    }

    #[test]
    fn usual_addresses_take_no_memory() {
        let mut list = List::default();
        for mac in USUAL {
            list.add(mac, Reference::Plain).unwrap();
        }
        list.add(A, Reference::Plain).unwrap();
        assert_eq!((list.entries().count(), list.rest.len()), (3, 1));
        list.remove(USUAL[1], Reference::Plain).unwrap();
        list.remove(A, Reference::Plain).unwrap();
        list.remove(USUAL[0], Reference::Plain).unwrap();
        assert!(list.is_empty());
    }

    const A: Mac = [1, 0, 0, 0, 0, 1];
    const B: Mac = [1, 0, 0, 0, 0, 2];

    fn shown(list: &List) -> Vec<(u8, u32, bool)> {
        let entries = list.entries();
        entries.map(|e| (e.mac[5], e.users, e.global)).collect()
    }

    #[test]
    fn users_have_one_reference_and_protocols_many() {
        let mut list = List::default();
        list.add(A, Reference::Global).unwrap();
        list.add(A, Reference::Global).unwrap();
        assert_eq!(shown(&list), [(1, 1, true)]);
        list.add(A, Reference::Plain).unwrap();
        list.add(A, Reference::Plain).unwrap();
        assert_eq!(shown(&list), [(1, 3, true)]);
        assert!(list.add(A, Reference::Exclusive).is_err());
        list.remove(A, Reference::Global).unwrap();
        assert!(list.remove(A, Reference::Global).is_err());
        list.remove(A, Reference::Plain).unwrap();
        assert_eq!(shown(&list), [(1, 1, false)]);
        list.remove(A, Reference::Plain).unwrap();
        assert!(list.remove(A, Reference::Plain).is_err());
        assert!(list.is_empty());
    }

    #[test]
    fn an_address_is_passed_on_once_and_taken_back_with_its_last_user() {
        let (mut above, mut below) = (List::default(), List::default());
        above.add(A, Reference::Plain).unwrap();
        above.add(B, Reference::Plain).unwrap();
        below.add(B, Reference::Plain).unwrap();
        above.pass_on(&mut below);
        above.pass_on(&mut below);
        assert_eq!(shown(&above), [(1, 2, false), (2, 2, false)]);
        assert_eq!(shown(&below), [(2, 2, false), (1, 1, false)]);
        above.remove(A, Reference::Plain).unwrap();
        above.pass_on(&mut below);
        assert_eq!(shown(&above), [(2, 2, false)]);
        assert_eq!(shown(&below), [(2, 2, false)]);
        above.take_all_back(&mut below);
        assert_eq!(shown(&above), [(2, 1, false)]);
        assert_eq!(shown(&below), [(2, 1, false)]);
    }

    #[test]
    fn two_devices_above_share_an_address_below() {
        let (mut one, mut two, mut below) = (List::default(), List::default(), List::default());
        for above in [&mut one, &mut two] {
            above.add(A, Reference::Plain).unwrap();
            above.pass_on(&mut below);
        }
        assert_eq!(shown(&below), [(1, 2, false)]);
        one.take_all_back(&mut below);
        assert_eq!(shown(&below), [(1, 1, false)]);
        two.take_all_back(&mut below);
        assert!(below.is_empty());
    }
}
