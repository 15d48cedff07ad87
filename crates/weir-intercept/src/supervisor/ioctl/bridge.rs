// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Bridges by ioctl: `brctl` (`br_ioctl_stub` of `net/bridge/br_ioctl.c`).
//!
//! The settings of bridges and ports are files of `/sys/class/net`. Of the private requests of a bridge
//! (`SIOCDEVPRIVATE`), which older programs made for them, those that add and remove a port are served, because `brctl`
//! repeats a refused request that way. The others fail with EOPNOTSUPP.
use super::{IFNAMSIZ, Key, Link, c_bytes, int, long, read_link, request};
use crate::backend::{Errno, NsId};
use crate::seccomp::{Answer, Call};
use crate::supervisor::{Handled, Supervisor};
use crate::sys;
use weir_netlink::{IfInfoMsg, ifla, ifla::info, nlm, rtm};

pub(super) const GIFBR: u32 = 0x8940;
pub(super) const SIFBR: u32 = 0x8941;
pub(super) const ADDBR: u32 = 0x89a0;
pub(super) const DELBR: u32 = 0x89a1;
pub(super) const ADDIF: u32 = 0x89a2;
pub(super) const DELIF: u32 = 0x89a3;
/// `SIOCGETTUNNEL` has the same number.
pub(super) const DEVPRIVATE: u32 = 0x89f0;

/// Commands of `SIOCDEVPRIVATE`.
const ADD_IF: u64 = 4;
const DEL_IF: u64 = 5;

/// Commands of `SIOCGIFBR` and `SIOCSIFBR` (`BRCTL_GET_VERSION` and so on).
const GET_VERSION: u64 = 0;
const GET_BRIDGES: u64 = 1;
const ADD_BRIDGE: u64 = 2;
const DEL_BRIDGE: u64 = 3;
/// `BRCTL_VERSION`
const VERSION: i64 = 1;
/// A list of this many bridges or more is refused.
const TOO_MANY: u64 = 2048;

impl Supervisor {
    /// Serves the requests about bridges.
    pub(super) fn bridge(&mut self, call: &Call, ns: NsId, number: u32, at: u64) -> Handled {
        match number {
            ADDBR => self.add_bridge(call, ns, at)?,
            DELBR => self.delete_bridge(call, ns, at)?,
            ADDIF | DELIF => {
                let ifreq: [u8; IFNAMSIZ + 4] = sys::read_array(call.tid, at)?;
                let (name, index) = ifreq.split_at(IFNAMSIZ);
                self.change_port(call, ns, number == ADDIF, (name, int(index)))?;
            }
            DEVPRIVATE => {
                let ifreq: [u8; IFNAMSIZ + 8] = sys::read_array(call.tid, at)?;
                let (name, data) = ifreq.split_at(IFNAMSIZ);
                let [command, index, _] = words_at(call, long(data))?;
                if !matches!(command, ADD_IF | DEL_IF) {
                    return Err(Errno(libc::EOPNOTSUPP));
                }
                self.change_port(call, ns, command == ADD_IF, (name, index as i32))?;
            }
            _ => return self.old_bridge(call, ns, at),
        }
        Ok(Answer::Value(0))
    }

    /// Serves `SIOCGIFBR` and `SIOCSIFBR`, whose argument is a command and two words (`old_deviceless`).
    fn old_bridge(&mut self, call: &Call, ns: NsId, at: u64) -> Handled {
        let [command, pointer, room] = words_at(call, at)?;
        match command {
            GET_VERSION => return Ok(Answer::Value(VERSION)),
            GET_BRIDGES if room >= TOO_MANY => return Err(Errno(libc::ENOMEM)),
            GET_BRIDGES => {
                let mut numbers = vec![0; room as usize * 4];
                let found = self.bridges(ns)?;
                for (number, place) in found.iter().zip(numbers.chunks_exact_mut(4)) {
                    place.copy_from_slice(&number.to_ne_bytes());
                }
                sys::write_memory(call.tid, pointer, &numbers)?;
                let count = found.len().min(room as usize);
                return Ok(Answer::Value(count as i64));
            }
            ADD_BRIDGE => self.add_bridge(call, ns, pointer)?,
            DEL_BRIDGE => self.delete_bridge(call, ns, pointer)?,
            _ => return Err(Errno(libc::EOPNOTSUPP)),
        }
        Ok(Answer::Value(0))
    }

    /// Returns the numbers of all bridges.
    fn bridges(&self, ns: NsId) -> Result<Vec<i32>, Errno> {
        let flags = nlm::F_REQUEST | nlm::F_DUMP;
        let dump = request(rtm::GETLINK, flags, &IfInfoMsg::default(), |_| {})?;
        let mut found = Vec::new();
        self.ask(ns, &dump, |message| {
            if message.header.ty == rtm::NEWLINK {
                let link = read_link(message)?;
                found.extend(link.is_bridge.then_some(link.index));
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// Makes a bridge (`br_add_bridge`).
    fn add_bridge(&mut self, call: &Call, ns: NsId, at: u64) -> Result<(), Errno> {
        let name = name_at(call, at)?;
        let name = c_bytes(&name[..IFNAMSIZ - 1]);
        if name.is_empty() {
            return Err(Errno(libc::EINVAL));
        }
        self.still_waiting(call)?;
        let flags = nlm::F_CREATE | nlm::F_EXCL;
        self.order(ns, rtm::NEWLINK, flags, &IfInfoMsg::default(), |w| {
            w.put_c_str(ifla::IFNAME, name);
            let nest = w.nest(ifla::LINKINFO);
            w.put_str(info::KIND, "bridge");
            w.end(nest);
        })
    }

    /// Deletes a bridge that is down (`br_del_bridge`).
    fn delete_bridge(&mut self, call: &Call, ns: NsId, at: u64) -> Result<(), Errno> {
        let name = name_at(call, at)?;
        let link = self
            .link(ns, Key::Name(c_bytes(&name[..IFNAMSIZ - 1])))
            .map_err(|Errno(errno)| match errno {
                libc::ENODEV => Errno(libc::ENXIO),
                errno => Errno(errno),
            })?;
        if !link.is_bridge {
            return Err(Errno(libc::EPERM));
        }
        if link.flags & libc::IFF_UP as u32 != 0 {
            return Err(Errno(libc::EBUSY));
        }
        self.still_waiting(call)?;
        self.order(ns, rtm::DELLINK, 0, &numbered(&link), |_| {})
    }

    /// Returns whether the ifreq has the name of a bridge.
    pub(super) fn names_bridge(&self, call: &Call, ns: NsId, at: u64) -> bool {
        name_at(call, at).is_ok_and(|name| self.bridge_named(ns, &name).is_ok())
    }

    /// Returns the bridge of this name.
    fn bridge_named(&self, ns: NsId, name: &[u8]) -> Result<Link, Errno> {
        let link = self.link(ns, Key::Name(c_bytes(&name[..IFNAMSIZ - 1])))?;
        match link.is_bridge {
            true => Ok(link),
            false => Err(Errno(libc::EOPNOTSUPP)),
        }
    }

    /// Adds the port of this index to the bridge of this name, or removes it (`add_del_if`).
    fn change_port(
        &mut self,
        call: &Call,
        ns: NsId,
        add: bool,
        (name, index): (&[u8], i32),
    ) -> Result<(), Errno> {
        let bridge = self.bridge_named(ns, name)?;
        let port = self
            .link(ns, Key::Index(index))
            .map_err(|_| Errno(libc::EINVAL))?;
        let master = match (add, port.master) {
            (true, _) if port.is_bridge => return Err(Errno(libc::ELOOP)),
            (true, 0) => bridge.index,
            (true, _) => return Err(Errno(libc::EBUSY)),
            (false, master) if master == bridge.index => 0,
            (false, _) => return Err(Errno(libc::EINVAL)),
        };
        self.still_waiting(call)?;
        self.order(ns, rtm::NEWLINK, 0, &numbered(&port), |w| {
            w.put_u32(ifla::MASTER, master as u32);
        })
    }
}

fn name_at(call: &Call, at: u64) -> Result<[u8; IFNAMSIZ], Errno> {
    sys::read_array(call.tid, at)
}

/// Reads three words.
fn words_at(call: &Call, at: u64) -> Result<[u64; 3], Errno> {
    let bytes: [u8; 24] = sys::read_array(call.tid, at)?;
    let word = |n: usize| long(&bytes[n * 8..]);
    Ok([word(0), word(1), word(2)])
}

fn numbered(link: &Link) -> IfInfoMsg {
    IfInfoMsg {
        index: link.index,
        ..IfInfoMsg::default()
    }
}
