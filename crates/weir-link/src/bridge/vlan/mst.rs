// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Multiple spanning trees (`BR_BOOLOPT_MST_ENABLE`, `net/bridge/br_mst.c`).
//!
//! A VLAN of the bridge belongs to an instance (`bridge vlan global set ... msti`), and a request gives a port one state
//! for its VLANs of an instance (`IFLA_BRIDGE_MST`). Those of instance 0 follow the state of the port. Frames pass by the
//! state of their VLAN alone.

use std::sync::atomic::Ordering::Relaxed;

use weir_netlink::ifla::bridge;
use weir_netlink::{Attr, Error, Policy, Rule, Strictness, Writer, errno, policy};
use weir_sync::rcu::Guard;

use super::{Change, Group};
use crate::bridge::Bridge;
use crate::bridge::port::{Port, state};

/// `br_mst_nl_policy`
static ENTRY: Policy = policy! { max bridge::MST_ENTRY_STATE;
    bridge::MST_ENTRY_MSTI => Rule::u16().range(1, 4095),
    bridge::MST_ENTRY_STATE => Rule::u8().range(0, 4),
};

impl Group {
    /// Returns the instance of a VLAN of the bridge, whose group this is.
    pub fn msti(&self, vid: u16) -> u16 {
        self.any(vid).map_or(0, |vlan| vlan.msti)
    }

    /// Gives the VLANs of an instance a state (`br_mst_set_state`). `own` is the group of the bridge. Returns whether
    /// anything changed.
    fn set_instance(&mut self, own: &Self, msti: u16, state: u8) -> bool {
        let list = self.list.iter_mut();
        let others = list.filter(|vlan| own.msti(vlan.vid) == msti && vlan.state != state);
        others.map(|vlan| vlan.state = state).count() > 0
    }
}

/// Writes `IFLA_BRIDGE_MST`: the state of the first VLAN of each instance (`br_mst_fill_info`).
pub(super) fn fill(group: &Group, own: &Group, out: &mut Writer) {
    let nest = out.nest(bridge::MST);
    let mut seen = [0u64; 64];
    for vlan in &group.list {
        let msti = own.msti(vlan.vid);
        let (word, bit) = (usize::from(msti >> 6), 1 << (msti & 63));
        if seen.get(word).is_none_or(|word| word & bit != 0) {
            continue;
        }
        seen[word] |= bit;
        let nest = out.nest_noflag(bridge::MST_ENTRY);
        out.put_u16(bridge::MST_ENTRY_MSTI, msti);
        out.put_u8(bridge::MST_ENTRY_STATE, vlan.state);
        out.end(nest);
    }
    out.end(nest);
}

impl Change<'_> {
    /// Moves VLANs to an instance (`br_mst_vlan_set_msti`). A port's VLAN takes the state that the port has in the
    /// instance, and is disabled if the port had no VLAN there.
    pub(super) fn set_msti(&mut self, vids: &[u16], msti: u16) {
        let vids = vids.iter().copied();
        let moved: Vec<u16> = vids.filter(|vid| self.own.msti(*vid) != msti).collect();
        if moved.is_empty() {
            return;
        }
        for port in &self.bridge.ports.load(self.at.1).list {
            let group = port.vlans.load(self.at.1);
            if moved.iter().all(|vid| group.any(*vid).is_none()) {
                continue;
            }
            let mut group = group.clone();
            let mut list = group.list.iter();
            let member = list.find(|vlan| self.own.msti(vlan.vid) == msti);
            let state = member.map_or(state::DISABLED, |vlan| vlan.state);
            for vid in &moved {
                if let Some(vlan) = group.find(*vid) {
                    vlan.state = state;
                }
            }
            port.vlans.replace(group);
        }
        for vid in moved {
            if let Some(vlan) = self.own.find(vid) {
                vlan.msti = msti;
            }
        }
    }

    /// Processes `IFLA_BRIDGE_MST` (`br_mst_process`). `group` is that of a port.
    ///
    /// # Errors
    /// EINVAL for the bridge itself, in a request that deletes, and for what an entry lacks; EBUSY without
    /// `mst_enable`.
    pub(super) fn process_instances(
        &self,
        group: Option<&mut Group>,
        attr: &Attr<'_>,
        delete: bool,
    ) -> Result<(), Error> {
        let invalid = |text| Err(Error::msg(errno::EINVAL, text));
        let Some(group) = group else {
            return invalid("MST states can only be set on bridge ports");
        };
        if delete {
            return Err(Error::new(errno::EINVAL));
        }
        if !self.bridge.settings.mst.load(Relaxed) {
            let text = "bridge: Can't modify MST state when MST is disabled";
            return Err(Error::msg(errno::EBUSY, text));
        }
        let entries = attr.attrs();
        let mut entries = entries
            .filter(|entry| entry.ty == bridge::MST_ENTRY)
            .peekable();
        if entries.peek().is_none() {
            return invalid("bridge: Found no MST entries to process");
        }
        for entry in entries {
            let table = entry.parse(&ENTRY, Strictness::Strict)?;
            let Some(msti) = table.u16(bridge::MST_ENTRY_MSTI)? else {
                return invalid("bridge: MSTI not specified");
            };
            let Some(state) = table.u8(bridge::MST_ENTRY_STATE)? else {
                return invalid("bridge: State not specified");
            };
            group.set_instance(&self.own, msti, state);
        }
        Ok(())
    }
}

impl Bridge {
    /// Turns multiple spanning trees on or off (`br_mst_set_enabled`).
    ///
    /// # Errors
    /// EBUSY while ports have VLANs.
    pub fn turn_mst(&self, guard: &Guard, on: bool) -> Result<(), Error> {
        let _vlans = self.vlans.lock();
        let ports = &self.ports.load(guard).list;
        if !ports.iter().all(|port| port.vlans.load(guard).is_empty()) {
            let text = "MST mode can't be changed while VLANs exist";
            return Err(Error::msg(errno::EBUSY, text));
        }
        self.settings.mst.store(on, Relaxed);
        Ok(())
    }

    /// Gives the VLANs of instance 0 of a port the state of the port, which was set (`br_set_state`).
    pub fn follow_state(&self, guard: &Guard, port: &Port) {
        if !self.settings.mst.load(Relaxed) {
            return;
        }
        let _vlans = self.vlans.lock();
        let own = self.own_vlans.load(guard);
        let mut group = port.vlans.load(guard).clone();
        if group.set_instance(own, 0, port.state.load(Relaxed)) {
            port.vlans.replace(group);
        }
    }
}
