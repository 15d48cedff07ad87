// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `bridge vlan add` and `del`: `IFLA_BRIDGE_VLAN_INFO` (`br_afspec`, `br_process_vlan_info`).

use weir_netlink::ifla::bridge::{
    self, VLAN_INFO_BRENTRY, VLAN_INFO_MASTER, VLAN_INFO_PVID, VLAN_INFO_RANGE_BEGIN,
    VLAN_INFO_RANGE_END,
};
use weir_netlink::{Attr, BridgeVlanInfo, Error, Fixed, errno, rtm};
use weir_sync::rcu::Guard;

use super::{Change, Group};
use crate::bridge::Bridge;
use crate::bridge::port::Port;
use crate::stack::Stack;

fn text(message: &'static str) -> Error {
    Error::msg(errno::EINVAL, message)
}

/// Checks the begin or the end of a range (`br_vlan_valid_range`).
fn check_range(info: &BridgeVlanInfo, begin: Option<&BridgeVlanInfo>) -> Result<(), Error> {
    if info.flags & VLAN_INFO_PVID != 0 {
        return Err(text("bridge: Pvid isn't allowed in a range"));
    }
    if let Some(begin) = begin {
        if info.flags & VLAN_INFO_RANGE_BEGIN != 0 {
            return Err(text(
                "bridge: Found a new vlan range start while processing one",
            ));
        }
        if info.flags & VLAN_INFO_RANGE_END == 0 {
            return Err(text("bridge: Vlan range end flag is missing"));
        }
        if info.vid <= begin.vid {
            return Err(text(
                "bridge: End vlan id is less than or equal to start vlan id",
            ));
        }
    }
    if info.flags & (VLAN_INFO_RANGE_BEGIN | VLAN_INFO_RANGE_END) == 0 {
        return Err(text("bridge: Both vlan range flags are missing"));
    }
    Ok(())
}

impl Change<'_> {
    /// Adds or deletes one VLAN (`br_vlan_info`). Returns whether anything changed.
    fn apply(
        &mut self,
        port: Option<(&Port, &mut Group)>,
        vid: u16,
        flags: u16,
        delete: bool,
    ) -> Result<bool, Error> {
        match (port, delete) {
            (Some((port, group)), false) => self.add(port, group, vid, flags),
            (None, false) => self.add_own(vid, flags | VLAN_INFO_BRENTRY),
            (Some((port, group)), true) => {
                let left = self.delete(port, group, vid);
                let also = flags & VLAN_INFO_MASTER != 0 && self.delete_own(vid);
                Ok(left || also)
            }
            (None, true) => Ok(self.delete_own(vid)),
        }
    }
}

impl Bridge {
    /// Applies `IFLA_AF_SPEC` to a port, or to the bridge itself. Returns whether anything changed.
    ///
    /// # Errors
    /// EINVAL for VLAN ids outside 1 to 4094 and for bad ranges, with Linux's texts. What precedes the error in
    /// the request is done.
    pub fn change_membership(
        &self,
        at: (&Stack, &Guard),
        port: Option<&Port>,
        spec: Attr<'_>,
        delete: bool,
    ) -> Result<bool, Error> {
        let vlans = self.vlans.lock();
        let mut change = self.change_vlans(at, &vlans);
        let mut group = port.map(|port| port.vlans.load(at.1).clone());
        let mut changed = false;
        let mut begin = None;
        let mut tunnels = None;
        let done = spec.attrs().try_for_each(|attr| match attr.ty {
            bridge::VLAN_INFO => {
                let info = BridgeVlanInfo::from_bytes(attr.payload).filter(|_| attr.len() == 4);
                let info = info.ok_or_else(|| Error::new(errno::EINVAL))?;
                let port = port.zip(group.as_mut());
                changed |= change.process(port, info, &mut begin, delete)?;
                Ok(())
            }
            bridge::VLAN_TUNNEL_INFO => {
                let port = port.zip(group.as_mut());
                changed |= change.process_tunnel(port, &attr, &mut tunnels, delete)?;
                Ok(())
            }
            bridge::MRP | bridge::CFM => Err(Error::new(errno::EOPNOTSUPP)),
            bridge::MST => change.process_instances(group.as_mut(), &attr, delete),
            _ => Ok(()),
        });
        change.finish(port.zip(group));
        done.map(|()| changed)
    }
}

impl Change<'_> {
    /// Processes one attribute (`br_process_vlan_info`). Returns whether anything changed.
    fn process(
        &mut self,
        port: Option<(&Port, &mut Group)>,
        info: BridgeVlanInfo,
        begin: &mut Option<BridgeVlanInfo>,
        delete: bool,
    ) -> Result<bool, Error> {
        if !(1..4095).contains(&info.vid) {
            return Err(text("bridge: Vlan id is invalid"));
        }
        if info.flags & VLAN_INFO_RANGE_BEGIN != 0 {
            check_range(&info, begin.as_ref())?;
            *begin = Some(info);
            return Ok(false);
        }
        let (first, flags) = match begin.take() {
            None => (info.vid, info.flags),
            Some(first) => {
                check_range(&info, Some(&first))?;
                (first.vid, first.flags)
            }
        };
        self.process_range(port, (first, info.vid), flags, delete)
    }

    /// Adds or deletes the VLANs of a range. Returns whether anything changed.
    pub(super) fn process_range(
        &mut self,
        mut port: Option<(&Port, &mut Group)>,
        (first, last): (u16, u16),
        flags: u16,
        delete: bool,
    ) -> Result<bool, Error> {
        let ty = if delete { rtm::DELVLAN } else { rtm::NEWVLAN };
        let (mut any, mut start) = (false, 0);
        let mut result = Ok(());
        for vid in first..=last {
            let part = port.as_mut().map(|(port, group)| (*port, &mut **group));
            match self.apply(part, vid, flags, delete) {
                Ok(true) => {
                    any = true;
                    if start == 0 {
                        start = vid;
                    }
                }
                Ok(false) if start != 0 => {
                    self.tell(&port, (start, vid - 1), ty);
                    start = 0;
                }
                Ok(false) => {}
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
        }
        if start != 0 {
            // A single VLAN is announced without a range.
            let last = if first == last { 0 } else { last };
            self.tell(&port, (start, last), ty);
        }
        result.map(|()| any)
    }

    fn tell(&self, port: &Option<(&Port, &mut Group)>, vids: (u16, u16), ty: u16) {
        let group = port.as_ref().map_or(&self.own, |(_, group)| group);
        let port = port.as_ref().map(|(port, _)| *port);
        self.bridge.tell_vlans(self.at, port, group, vids, ty);
    }
}
