// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Addresses set by ioctl: `ifconfig DEV ADDRESS`, `netmask`, `broadcast`, `pointopoint`, aliases
//! (`DEV:1`), and on an IPv6 socket `add` and `del`.
//!
//! Mirrors `devinet_ioctl` (`net/ipv4/devinet.c`): an address is found by its label, removed, and
//! added again with the change, so its routes are removed and added too. A new address has the mask
//! of its class. IPv6 mirrors `addrconf_add_ifaddr` and `addrconf_del_ifaddr`
//! (`net/ipv6/addrconf.c`).
use super::{Address, IFNAMSIZ, Link, put_name};
use super::{SIFADDR, SIFBRDADDR, SIFDSTADDR};
use crate::backend::{Errno, NsId};
use crate::supervisor::Supervisor;
use weir_netlink::{IfAddrMsg, ifa, ifla, nlm, rta, rtm};

/// Returns the number of bits of a mask, or `None` if it has a gap (`bad_mask`).
pub(super) fn mask_bits(mask: [u8; 4]) -> Option<u8> {
    let mask = u32::from_be_bytes(mask);
    let bits = mask.leading_ones();
    (mask.checked_shl(bits).unwrap_or(0) == 0).then_some(bits as u8)
}

/// Returns the prefix length of an address's class (`inet_abc_len`).
fn class_bits(address: [u8; 4]) -> Result<u8, Errno> {
    match address {
        [0, ..] | [255, 255, 255, 255] => Ok(0),
        [1..=127, ..] => Ok(8),
        [128..=191, ..] => Ok(16),
        [192..=223, ..] => Ok(24),
        [224..=239, ..] => Err(Errno(libc::EINVAL)),
        [240..=255, ..] => Ok(32),
    }
}

/// Returns the last address of a network.
fn broadcast(local: [u8; 4], prefix: u8) -> [u8; 4] {
    let host = u32::MAX.checked_shr(u32::from(prefix)).unwrap_or(0);
    (u32::from_be_bytes(local) | host).to_be_bytes()
}

impl Supervisor {
    /// Serves `SIOCSIFADDR`, `-BRDADDR`, `-DSTADDR`, `-NETMASK`. `value` is the address in its
    /// sockaddr_in.
    pub(super) fn change_address(
        &self,
        ns: NsId,
        link: &Link,
        label: &[u8],
        request: u32,
        value: &[u8],
    ) -> Result<(), Errno> {
        let family = u16::from_ne_bytes([value[0], value[1]]);
        if family != libc::AF_INET as u16 {
            return Err(Errno(libc::EINVAL));
        }
        let new = [value[4], value[5], value[6], value[7]];
        let old = self.labelled(ns, link, label)?;
        let point_to_point = link.flags & ifla::iff::POINTOPOINT != 0;
        let broadcasts = link.flags & ifla::iff::BROADCAST != 0;
        let Some(old) = old else {
            if request != SIFADDR {
                return Err(Errno(libc::EADDRNOTAVAIL));
            }
            return self.first_address(ns, link, label, new);
        };
        let mut next = old.clone();
        match request {
            SIFADDR if old.local == new => return Ok(()),
            SIFADDR => {
                class_bits(new)?;
                self.address(ns, rtm::DELADDR, 0, &old)?;
                return self.first_address(ns, link, label, new);
            }
            SIFBRDADDR if old.broadcast == new => return Ok(()),
            SIFBRDADDR => next.broadcast = new,
            SIFDSTADDR if old.peer == new => return Ok(()),
            SIFDSTADDR => {
                class_bits(new)?;
                next.peer = new;
            }
            _ => {
                next.prefix = mask_bits(new).ok_or(Errno(libc::EINVAL))?;
                if next.prefix == old.prefix {
                    return Ok(());
                }
                let usual = old.broadcast == broadcast(old.local, old.prefix);
                if broadcasts && !point_to_point && next.prefix < 31 && usual {
                    next.broadcast = broadcast(old.local, next.prefix);
                }
            }
        }
        self.address(ns, rtm::DELADDR, 0, &old)?;
        self.address(ns, rtm::NEWADDR, nlm::F_CREATE | nlm::F_EXCL, &next)
    }

    /// Removes the address of a label, for an alias that is set down.
    pub(super) fn remove_alias(&self, ns: NsId, link: &Link, label: &[u8]) -> Result<(), Errno> {
        let address = self.labelled(ns, link, label)?;
        self.address(
            ns,
            rtm::DELADDR,
            0,
            &address.ok_or(Errno(libc::EADDRNOTAVAIL))?,
        )
    }

    /// Checks that an alias has an address.
    pub(super) fn has_alias(&self, ns: NsId, link: &Link, label: &[u8]) -> Result<(), Errno> {
        let address = self.labelled(ns, link, label)?;
        address.map(drop).ok_or(Errno(libc::EADDRNOTAVAIL))
    }

    /// Returns the local address of a label, as the source address of a route through it.
    pub(super) fn address_of_label(
        &self,
        ns: NsId,
        link: &Link,
        label: &[u8],
    ) -> Result<[u8; 4], Errno> {
        let address = self.labelled(ns, link, label)?;
        address
            .map(|address| address.local)
            .ok_or(Errno(libc::ENODEV))
    }

    fn labelled(&self, ns: NsId, link: &Link, label: &[u8]) -> Result<Option<Address>, Errno> {
        let mut list = self.addresses(ns)?.into_iter();
        Ok(list.find(|a| a.index as i32 == link.index && a.label == label))
    }

    fn first_address(
        &self,
        ns: NsId,
        link: &Link,
        label: &[u8],
        local: [u8; 4],
    ) -> Result<(), Errno> {
        let mut prefix = class_bits(local)?;
        if local == [0; 4] {
            return Ok(()); // `ifconfig DEV 0.0.0.0` only removes the old address
        }
        let mut address = Address {
            index: link.index as u32,
            label: label.to_vec(),
            local,
            peer: local,
            ..Address::default()
        };
        if link.flags & ifla::iff::POINTOPOINT != 0 {
            prefix = 32;
        } else if link.flags & ifla::iff::BROADCAST != 0 && prefix < 31 {
            address.broadcast = broadcast(local, prefix);
        }
        address.prefix = prefix;
        self.address(ns, rtm::NEWADDR, nlm::F_CREATE | nlm::F_EXCL, &address)
    }

    fn address(&self, ns: NsId, ty: u16, flags: u16, address: &Address) -> Result<(), Errno> {
        let loopback = address.local[0] == 127;
        let header = IfAddrMsg {
            family: libc::AF_INET as u8,
            prefixlen: address.prefix,
            scope: if loopback {
                rta::scope::HOST
            } else {
                rta::scope::UNIVERSE
            },
            index: address.index,
            ..IfAddrMsg::default()
        };
        self.order(ns, ty, flags, &header, |w| {
            w.put(ifa::LOCAL, &address.local);
            w.put(ifa::ADDRESS, &address.peer);
            if ty == rtm::NEWADDR && address.broadcast != [0; 4] {
                w.put(ifa::BROADCAST, &address.broadcast);
            }
            let mut label = [0; IFNAMSIZ];
            put_name(&mut label, &address.label);
            w.put_c_str(ifa::LABEL, super::c_bytes(&label));
        })
    }

    /// Serves `SIOCSIFADDR` and `SIOCDIFADDR` of an IPv6 socket, with a struct in6_ifreq.
    pub(super) fn change_ipv6_address(
        &self,
        ns: NsId,
        add: bool,
        request: &[u8; 24],
    ) -> Result<(), Errno> {
        let prefix = super::int(&request[16..]);
        let index = super::int(&request[20..]);
        if !(0..=128).contains(&prefix) {
            return Err(Errno(libc::EINVAL));
        }
        self.device_numbered(ns, index)?;
        let header = IfAddrMsg {
            family: libc::AF_INET6 as u8,
            prefixlen: prefix as u8,
            index: index as u32,
            ..IfAddrMsg::default()
        };
        let (ty, flags) = match add {
            true => (rtm::NEWADDR, nlm::F_CREATE | nlm::F_EXCL),
            false => (rtm::DELADDR, 0),
        };
        self.order(ns, ty, flags, &header, |w| {
            w.put(ifa::LOCAL, &request[..16])
        })
    }
}
