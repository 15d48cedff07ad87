// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Neighbours set by ioctl: `arp -s`, `arp -d`, `arp ADDRESS` (`SIOCSARP`, `SIOCDARP`, `SIOCGARP`).
//!
//! Mirrors `arp_ioctl` (`net/ipv4/arp.c`). Published entries (`arp -Ds`, `pub`) fail with
//! EOPNOTSUPP, since the stack has no proxy neighbours.
use super::{IFNAMSIZ, Key, c_bytes};
use crate::backend::{Errno, NsId};
use crate::seccomp::Call;
use crate::supervisor::Supervisor;
use crate::sys;
use weir_netlink::{NdMsg, nda, nlm, rtm};

pub(super) const DARP: u32 = 0x8953;
pub(super) const GARP: u32 = 0x8954;
pub(super) const SARP: u32 = 0x8955;

/// The size of a struct arpreq: protocol address, hardware address, flags, mask, device.
const ARPREQ: usize = 68;
/// The offsets of its parts.
const HARDWARE: usize = 16;
const FLAGS: usize = 32;
const DEVICE: usize = 52;

/// Flags of an entry (`ATF_*`).
const COMPLETE: u32 = 0x2;
const PERMANENT: u32 = 0x4;
const PUBLISHED: u32 = 0x8;
const NETMASK: u32 = 0x20;
const DONTPUB: u32 = 0x40;

impl Supervisor {
    pub(super) fn arp(
        &mut self,
        call: &Call,
        ns: NsId,
        request: u32,
        at: u64,
    ) -> Result<(), Errno> {
        let mut entry: [u8; ARPREQ] = sys::read_array(call.tid, at)?;
        let mut flags = super::int(&entry[FLAGS..]) as u32;
        if u16::from_ne_bytes([entry[0], entry[1]]) != libc::AF_INET as u16 {
            return Err(Errno(libc::EPFNOSUPPORT));
        }
        if flags & PUBLISHED == 0 && flags & (NETMASK | DONTPUB) != 0 {
            return Err(Errno(libc::EINVAL));
        }
        let address = [entry[4], entry[5], entry[6], entry[7]];
        let hardware = u16::from_ne_bytes([entry[HARDWARE], entry[HARDWARE + 1]]);
        let name = c_bytes(&entry[DEVICE..]).to_vec();
        let link = if name.is_empty() {
            if request == GARP {
                return Err(Errno(libc::ENODEV));
            }
            None
        } else {
            let link = self.link(ns, Key::Name(&name))?;
            if flags & COMPLETE != 0 && hardware != 0 && hardware != link.kind {
                return Err(Errno(libc::EINVAL));
            }
            Some(link)
        };
        if request != GARP && flags & PUBLISHED != 0 {
            // There is no entry to delete.
            return Err(Errno(match request {
                DARP => libc::ENOENT,
                _ => libc::EOPNOTSUPP,
            }));
        }
        let link = match link {
            Some(link) => link,
            None => {
                let (_, index) = self.route_to(ns, address)?;
                self.link(ns, Key::Index(index as i32))?
            }
        };
        let header = NdMsg {
            family: libc::AF_INET as u8,
            ifindex: link.index,
            ..NdMsg::default()
        };
        let none = |error: Errno| match error.0 {
            libc::ENOENT => Errno(libc::ENXIO),
            _ => error,
        };
        match request {
            SARP => {
                self.still_waiting(call)?;
                if flags & PERMANENT != 0 {
                    flags |= COMPLETE;
                }
                let state = if flags & PERMANENT != 0 {
                    nda::nud::PERMANENT
                } else {
                    nda::nud::STALE
                };
                let header = NdMsg { state, ..header };
                let length = link.address.len().min(14);
                let order = nlm::F_CREATE | nlm::F_REPLACE;
                self.order(ns, rtm::NEWNEIGH, order, &header, |w| {
                    w.put(nda::DST, &address);
                    if flags & COMPLETE != 0 {
                        w.put(nda::LLADDR, &entry[HARDWARE + 2..][..length]);
                    }
                })
            }
            DARP => {
                self.still_waiting(call)?;
                self.order(ns, rtm::DELNEIGH, 0, &header, |w| w.put(nda::DST, &address))
                    .map_err(none)
            }
            _ => {
                let mut found = None;
                let ask = super::request(rtm::GETNEIGH, nlm::F_REQUEST, &header, |w| {
                    w.put(nda::DST, &address);
                })?;
                self.ask(ns, &ask, |message| {
                    if message.header.ty == rtm::NEWNEIGH {
                        let header: NdMsg = message.fixed().map_err(super::broken)?;
                        let mut attrs = message.attrs::<NdMsg>();
                        let lladdr = attrs.find(|attr| attr.ty == nda::LLADDR);
                        found = Some((header.state, lladdr.map(|attr| attr.payload.to_vec())));
                    }
                    Ok(())
                })
                .map_err(none)?;
                let (state, lladdr) = found.ok_or(Errno(libc::ENXIO))?;
                if state & nda::nud::NOARP != 0 {
                    return Err(Errno(libc::ENXIO));
                }
                const VALID: u16 =
                    nda::nud::REACHABLE | nda::nud::PROBE | nda::nud::STALE | nda::nud::DELAY;
                let flags = if state & nda::nud::PERMANENT != 0 {
                    PERMANENT | COMPLETE
                } else if state & VALID != 0 {
                    COMPLETE
                } else {
                    0
                };
                entry[HARDWARE..FLAGS].fill(0);
                entry[HARDWARE..HARDWARE + 2].copy_from_slice(&link.kind.to_ne_bytes());
                let lladdr = lladdr.unwrap_or_default();
                let length = lladdr.len().min(14);
                entry[HARDWARE + 2..][..length].copy_from_slice(&lladdr[..length]);
                entry[FLAGS..FLAGS + 4].copy_from_slice(&flags.to_ne_bytes());
                entry[DEVICE..].fill(0);
                let length = link.name.len().min(IFNAMSIZ - 1);
                entry[DEVICE..][..length].copy_from_slice(&link.name[..length]);
                sys::write_memory(call.tid, at, &entry)
            }
        }
    }
}
