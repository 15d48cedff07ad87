// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The labels of IPv6 prefixes, which guide source address selection (RFC 6724): the per-namespace
//! table (`net/ipv6/addrlabel.c`) that `ip addrlabel` shows and changes.
//!
//! The first matching entry counts. Longer prefixes come first and, among those of equal length,
//! entries for a specific device.

use std::net::Ipv6Addr;
use std::sync::LazyLock;

use weir_netlink::{Error, errno};
use weir_sync::order::{self, Mutex};
use weir_sync::rcu::{Domain, Guard, PublishedOption};

use super::address::masked;

/// The label of an address without an entry (`IPV6_ADDR_LABEL_DEFAULT`).
pub const NONE: u32 = u32::MAX;

/// The initial table of a namespace (`ip6addrlbl_init_table`): prefix, prefix length, label.
const DEFAULT: [(Ipv6Addr, u8, u32); 10] = [
    (Ipv6Addr::UNSPECIFIED, 0, 1),
    (Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0), 7, 5),
    (Ipv6Addr::new(0xfec0, 0, 0, 0, 0, 0, 0, 0), 10, 11),
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16, 2),
    (Ipv6Addr::new(0x3ffe, 0, 0, 0, 0, 0, 0, 0), 16, 12),
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 32, 6),
    (Ipv6Addr::new(0x2001, 0x10, 0, 0, 0, 0, 0, 0), 28, 7),
    (Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0, 0), 96, 4),
    (Ipv6Addr::UNSPECIFIED, 96, 3),
    (Ipv6Addr::LOCALHOST, 128, 0),
];

/// The address types that labels distinguish in addition to the scope (part of `ipv6_addr_type`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Special {
    Mapped,
    Compatible,
    Loopback,
}

fn special(address: Ipv6Addr) -> Option<Special> {
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0] => None,
        [0, 0, 0, 0, 0, 0, 0, 1] => Some(Special::Loopback),
        [0, 0, 0, 0, 0, 0, ..] => Some(Special::Compatible),
        [0, 0, 0, 0, 0, 0xffff, ..] => Some(Special::Mapped),
        _ => None,
    }
}

/// An entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Label {
    /// The prefix. All further bits are zero.
    pub prefix: Ipv6Addr,
    /// The prefix length in bits.
    pub prefix_len: u8,
    /// The index of the device whose addresses it applies to, or 0 for all devices.
    pub ifindex: u32,
    /// The label; never [`NONE`].
    pub label: u32,
    only: Option<Special>,
}

impl Label {
    /// Creates an entry (`ip6addrlbl_alloc`). Returns EINVAL for a part of the IPv4-mapped range.
    pub fn new(prefix: Ipv6Addr, prefix_len: u8, ifindex: u32, label: u32) -> Result<Self, Error> {
        let only = match special(prefix) {
            Some(Special::Mapped) if prefix_len > 96 => return Err(Error::new(errno::EINVAL)),
            Some(kind @ (Special::Mapped | Special::Compatible)) if prefix_len == 96 => Some(kind),
            Some(Special::Loopback) if prefix_len == 128 => Some(Special::Loopback),
            _ => None,
        };
        Ok(Self {
            prefix: masked(prefix, prefix_len),
            prefix_len,
            ifindex,
            label,
            only,
        })
    }

    fn is_for(&self, other: &Self) -> bool {
        (self.prefix, self.prefix_len, self.ifindex)
            == (other.prefix, other.prefix_len, other.ifindex)
    }
}

/// The entries, and a sequence number that grows with each change (`ifal_seq`).
#[derive(Debug, Clone, Default)]
pub struct Table {
    /// The entries in matching order.
    pub list: Vec<Label>,
    /// The sequence number.
    pub seq: u32,
}

impl Table {
    /// Creates the table that a namespace starts with.
    fn initial() -> Self {
        let mut table = Self::default();
        for (prefix, prefix_len, label) in DEFAULT {
            // None is rejected: see the test.
            let _ = Label::new(prefix, prefix_len, 0, label).and_then(|new| table.add(new, false));
        }
        table
    }

    /// Adds an entry (`__ip6addrlbl_add`).
    fn add(&mut self, new: Label, replace: bool) -> Result<(), Error> {
        let place = self.list.iter().position(|old| {
            old.is_for(&new)
                || old.prefix_len == new.prefix_len && old.ifindex == 0
                || old.prefix_len < new.prefix_len
        });
        match place {
            Some(at) if self.list[at].is_for(&new) && !replace => {
                return Err(Error::new(errno::EEXIST));
            }
            Some(at) if self.list[at].is_for(&new) => self.list[at] = new,
            Some(at) => self.list.insert(at, new),
            None => self.list.push(new),
        }
        self.seq = self.seq.wrapping_add(1);
        Ok(())
    }

    /// Returns the entry of an address on a device, or of a destination reached through it
    /// (`__ipv6_addr_label`).
    pub fn find(&self, address: Ipv6Addr, ifindex: u32) -> Option<&Label> {
        let kind = special(address);
        self.list.iter().find(|entry| {
            (entry.ifindex == 0 || entry.ifindex == ifindex)
                && (entry.only.is_none() || entry.only == kind)
                && masked(address, entry.prefix_len) == entry.prefix
        })
    }

    /// Returns the label of an address.
    pub fn label(&self, address: Ipv6Addr, ifindex: u32) -> u32 {
        self.find(address, ifindex)
            .map_or(NONE, |entry| entry.label)
    }
}

/// The labels of a namespace.
#[derive(Debug)]
pub struct Labels {
    /// The table, or `None` while it is the default one. Changes hold the lock.
    table: PublishedOption<Table>,
    change: Mutex<(), order::Labels>,
}

impl Labels {
    /// Creates the default table.
    pub fn new(domain: &Domain) -> Self {
        Self {
            table: PublishedOption::new(domain, None),
            change: Mutex::default(),
        }
    }

    /// Returns the table.
    pub fn table<'g>(&'g self, guard: &'g Guard) -> &'g Table {
        static INITIAL: LazyLock<Table> = LazyLock::new(Table::initial);
        self.table.load(guard).unwrap_or(&INITIAL)
    }

    /// Adds an entry. Returns EEXIST if there is one for the prefix and device and `replace` is not
    /// set.
    pub fn add(&self, guard: &Guard, new: Label, replace: bool) -> Result<(), Error> {
        let _change = self.change.lock();
        let mut table = self.table(guard).clone();
        table.add(new, replace)?;
        self.table.replace(Some(table));
        Ok(())
    }

    /// Removes the entry of a prefix and device. Returns ESRCH if there is none.
    pub fn remove(
        &self,
        guard: &Guard,
        prefix: Ipv6Addr,
        prefix_len: u8,
        ifindex: u32,
    ) -> Result<(), Error> {
        let _change = self.change.lock();
        let mut table = self.table(guard).clone();
        let wanted = (masked(prefix, prefix_len), prefix_len, ifindex);
        let at = table
            .list
            .iter()
            .position(|old| (old.prefix, old.prefix_len, old.ifindex) == wanted)
            .ok_or_else(|| Error::new(errno::ESRCH))?;
        table.list.remove(at);
        self.table.replace(Some(table));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_sync::rcu::Config;

    #[test]
    fn labels_are_linux_defaults() {
        let domain = Domain::new(Config::default());
        let labels = Labels::new(&domain);
        let guard = domain.pin();
        assert_eq!(labels.table(&guard).list.len(), DEFAULT.len());
        let of = |text: &str| labels.table(&guard).label(text.parse().unwrap(), 0);
        assert_eq!(
            [of("::1"), of("::2"), of("::ffff:1.2.3.4"), of("2002::1")],
            [0, 3, 4, 2]
        );
        assert_eq!(
            [of("2001::1"), of("2001:1f::"), of("fd00::"), of("2003::")],
            [6, 7, 5, 1]
        );
    }
}
