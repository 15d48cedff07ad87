// SPDX-License-Identifier: Apache-2.0 OR MIT
//! VLAN devices by ioctl: `vconfig` (`SIOCSIFVLAN`, `SIOCGIFVLAN`).
//!
//! Mirrors `vlan_ioctl_handler` (`net/8021q/vlan.c`). The naming scheme for new devices is a
//! setting of the namespace, shown in `/proc/net/vlan/config`.
use super::{Key, Link, c_bytes, int};
use crate::backend::{Errno, NsId, Tree};
use crate::seccomp::Call;
use crate::supervisor::Supervisor;
use crate::sys;
use weir_netlink::{
    IfInfoMsg, IflaVlanFlags, IflaVlanQosMapping, Writer, ifla, ifla::info, ifla::vlan, nlm, rtm,
};

pub(super) const GIFVLAN: u32 = 0x8982;
pub(super) const SIFVLAN: u32 = 0x8983;

/// The size of a struct vlan_ioctl_args: command, device, a union, priority.
const ARGUMENTS: usize = 56;
/// The offsets of its parts.
const DEVICE: usize = 4;
const UNION: usize = 28;
const QOS: usize = 52;
/// The length in bytes of a name in it.
const NAME: usize = 24;

/// Commands (`enum vlan_ioctl_cmds`).
const ADD: i32 = 0;
const DELETE: i32 = 1;
const SET_INGRESS: i32 = 2;
const SET_EGRESS: i32 = 3;
const SET_NAME_TYPE: i32 = 6;
const SET_FLAG: i32 = 7;
const GET_DEVICE: i32 = 8;
const GET_ID: i32 = 9;

/// `IFLA_VLAN_QOS_MAPPING`
const QOS_MAPPING: u16 = 1;

/// The naming schemes for devices (`enum vlan_name_types`).
const NAME_TYPES: [&str; 4] = [
    "VLAN_NAME_TYPE_PLUS_VID",
    "VLAN_NAME_TYPE_RAW_PLUS_VID",
    "VLAN_NAME_TYPE_PLUS_VID_NO_PAD",
    "VLAN_NAME_TYPE_RAW_PLUS_VID_NO_PAD",
];

/// The file that reads and writes the namespace's scheme.
const CONFIG: &str = "vlan/config";

impl Supervisor {
    pub(super) fn vlan(&mut self, call: &Call, ns: NsId, at: u64) -> Result<(), Errno> {
        let mut arguments: [u8; ARGUMENTS] = sys::read_array(call.tid, at)?;
        let command = int(&arguments);
        let value = int(&arguments[UNION..]) as u32;
        let qos = u16::from_ne_bytes([arguments[QOS], arguments[QOS + 1]]);
        let name = c_bytes(&arguments[DEVICE..DEVICE + NAME - 1]);
        if command == SET_NAME_TYPE {
            let name = NAME_TYPES.get(value as usize).ok_or(Errno(libc::EINVAL))?;
            self.still_waiting(call)?;
            return self
                .backend
                .write(ns, Tree::ProcNet, CONFIG, name.as_bytes());
        }
        if !matches!(
            command,
            ADD | DELETE | SET_INGRESS | SET_EGRESS | SET_FLAG | GET_DEVICE | GET_ID
        ) {
            return Err(Errno(libc::EOPNOTSUPP));
        }
        let link = self.link(ns, Key::Name(name))?;
        if command == ADD {
            self.still_waiting(call)?;
            return self.add_vlan(ns, &link, value);
        }
        let id = link.vlan.ok_or(Errno(libc::EINVAL))?;
        let mapping = |ty| {
            move |w: &mut Writer| {
                let nest = w.nest(ty);
                let mapping = match ty {
                    vlan::INGRESS_QOS => IflaVlanQosMapping {
                        from: u32::from(qos),
                        to: value,
                    },
                    _ => IflaVlanQosMapping {
                        from: value,
                        to: u32::from(qos),
                    },
                };
                w.put_fixed(QOS_MAPPING, &mapping);
                w.end(nest);
            }
        };
        match command {
            DELETE => {
                self.still_waiting(call)?;
                let header = IfInfoMsg {
                    index: link.index,
                    ..IfInfoMsg::default()
                };
                return self.order(ns, rtm::DELLINK, 0, &header, |_| {});
            }
            SET_INGRESS => {
                self.still_waiting(call)?;
                return self.change_vlan(ns, &link, mapping(vlan::INGRESS_QOS));
            }
            SET_EGRESS => {
                self.still_waiting(call)?;
                return self.change_vlan(ns, &link, mapping(vlan::EGRESS_QOS));
            }
            SET_FLAG => {
                let flags = IflaVlanFlags {
                    flags: if qos == 0 { 0 } else { value },
                    mask: value,
                };
                self.still_waiting(call)?;
                return self.change_vlan(ns, &link, |w| w.put_fixed(vlan::FLAGS, &flags));
            }
            GET_ID => arguments[UNION..UNION + 4].copy_from_slice(&u32::from(id).to_ne_bytes()),
            _ => {
                let lower = self.link(ns, Key::Index(link.lower))?.name;
                let room = &mut arguments[UNION..UNION + NAME];
                room.fill(0);
                let length = lower.len().min(NAME - 1);
                room[..length].copy_from_slice(&lower[..length]);
            }
        }
        sys::write_memory(call.tid, at, &arguments)
    }

    /// Creates a VLAN device (`register_vlan_device`).
    fn add_vlan(&self, ns: NsId, lower: &Link, id: u32) -> Result<(), Errno> {
        if id >= 4095 {
            return Err(Errno(libc::ERANGE));
        }
        let config = self.backend.read(ns, Tree::ProcNet, CONFIG)?;
        let config = String::from_utf8_lossy(&config);
        let way = NAME_TYPES
            .iter()
            .position(|name| config.lines().any(|line| line.ends_with(name)));
        let device = String::from_utf8_lossy(&lower.name);
        let name = match way {
            Some(0) => format!("vlan{id:04}"),
            Some(1) => format!("{device}.{id:04}"),
            Some(2) => format!("vlan{id}"),
            _ => format!("{device}.{id}"),
        };
        let name = &name.as_bytes()[..name.len().min(super::IFNAMSIZ - 1)];
        let order = nlm::F_CREATE | nlm::F_EXCL;
        self.order(ns, rtm::NEWLINK, order, &IfInfoMsg::default(), |w| {
            w.put_c_str(ifla::IFNAME, name);
            w.put_u32(ifla::LINK, lower.index as u32);
            properties(w, |w| w.put_u16(vlan::ID, id as u16));
        })
    }

    fn change_vlan(
        &self,
        ns: NsId,
        link: &Link,
        fill: impl FnOnce(&mut Writer),
    ) -> Result<(), Errno> {
        let header = IfInfoMsg {
            index: link.index,
            ..IfInfoMsg::default()
        };
        self.order(ns, rtm::NEWLINK, 0, &header, |w| properties(w, fill))
    }
}

/// Writes `IFLA_LINKINFO` of a VLAN device.
fn properties(w: &mut Writer, fill: impl FnOnce(&mut Writer)) {
    let whole = w.nest(ifla::LINKINFO);
    w.put_c_str(info::KIND, b"vlan");
    let data = w.nest(info::DATA);
    fill(w);
    w.end(data);
    w.end(whole);
}
