// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Labels of IPv6 prefixes, by which source addresses are chosen (RFC 6724): the table of a namespace
//! (`net/ipv6/addrlabel.c`), which `ip addrlabel` shows and changes.
//!
//! The first entry that matches counts. Longer prefixes come first, and of equal length those of one
//! device.

use std::net::Ipv6Addr;
use std::sync::{Mutex, PoisonError};

use weir_netlink::{Error, errno};
use weir_sync::rcu::{Domain, Guard, Published};

use super::address::masked;

/// The label of an address without an entry (`IPV6_ADDR_LABEL_DEFAULT`).
pub const NONE: u32 = u32::MAX;

/// The table a namespace starts with (`ip6addrlbl_init_table`): prefix, bits, label.
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

/// What an address may be beside its scope (`ipv6_addr_type`, of which labels look at these).
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
    /// The prefix, without further bits.
    pub prefix: Ipv6Addr,
    /// Its length, bits.
    pub prefix_len: u8,
    /// The device whose addresses it is for; 0 for all.
    pub ifindex: u32,
    /// The label; never [`NONE`].
    pub label: u32,
    only: Option<Special>,
}

impl Label {
    /// An entry (`ip6addrlbl_alloc`): EINVAL for a part of the mapped addresses.
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

/// The entries, and a number that grows with each change (`ifal_seq`).
#[derive(Debug, Clone, Default)]
pub struct Table {
    /// In the order in which they are looked at.
    pub list: Vec<Label>,
    /// The number.
    pub seq: u32,
}

impl Table {
    /// `__ip6addrlbl_add`
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

    /// The entry of an address that a device has, or that packets of it go to (`__ipv6_addr_label`).
    pub fn find(&self, address: Ipv6Addr, ifindex: u32) -> Option<&Label> {
        let kind = special(address);
        self.list.iter().find(|entry| {
            (entry.ifindex == 0 || entry.ifindex == ifindex)
                && (entry.only.is_none() || entry.only == kind)
                && masked(address, entry.prefix_len) == entry.prefix
        })
    }

    /// The label of an address.
    pub fn label(&self, address: Ipv6Addr, ifindex: u32) -> u32 {
        self.find(address, ifindex)
            .map_or(NONE, |entry| entry.label)
    }
}

/// The labels of a namespace.
#[derive(Debug)]
pub struct Labels {
    /// Changed under the lock.
    table: Published<Table>,
    change: Mutex<()>,
}

impl Labels {
    /// The default ones.
    pub fn new(domain: &Domain) -> Self {
        let mut table = Table::default();
        for (prefix, prefix_len, label) in DEFAULT {
            // None is refused: see the test.
            let _ = Label::new(prefix, prefix_len, 0, label).and_then(|new| table.add(new, false));
        }
        Self {
            table: Published::new(domain, table),
            change: Mutex::default(),
        }
    }

    /// The table.
    pub fn table<'g>(&'g self, guard: &'g Guard) -> &'g Table {
        self.table.load(guard)
    }

    /// Adds an entry; EEXIST if there is one of the prefix and device and it is not to be replaced.
    pub fn add(&self, guard: &Guard, new: Label, replace: bool) -> Result<(), Error> {
        let _change = self.change.lock().unwrap_or_else(PoisonError::into_inner);
        let mut table = self.table.load(guard).clone();
        table.add(new, replace)?;
        self.table.replace(table);
        Ok(())
    }

    /// Takes out the entry of a prefix and device; ESRCH if there is none.
    pub fn remove(
        &self,
        guard: &Guard,
        prefix: Ipv6Addr,
        prefix_len: u8,
        ifindex: u32,
    ) -> Result<(), Error> {
        let _change = self.change.lock().unwrap_or_else(PoisonError::into_inner);
        let mut table = self.table.load(guard).clone();
        let wanted = (masked(prefix, prefix_len), prefix_len, ifindex);
        let at = table
            .list
            .iter()
            .position(|old| (old.prefix, old.prefix_len, old.ifindex) == wanted)
            .ok_or_else(|| Error::new(errno::ESRCH))?;
        table.list.remove(at);
        self.table.replace(table);
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
