// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The VLANs of a bridge in replies and notifications: `IFLA_AF_SPEC` of family AF_BRIDGE (`br_fill_ifvlaninfo`),
//! `RTM_GETVLAN` (`br_vlan_rtm_dump`) and `RTM_GETSTATS` (`br_fill_linkxstats`).

use weir_netlink::ifla::bridge::{
    self, VLAN_INFO_BRENTRY, VLAN_INFO_MASTER, VLAN_INFO_PVID, VLAN_INFO_RANGE_BEGIN,
    VLAN_INFO_RANGE_END, VLAN_INFO_UNTAGGED,
};
use weir_netlink::ifla::{self, bridge_xstats, vlandb};
use weir_netlink::{BrVlanMsg, BridgeVlanInfo, Writer, af, rtm};
use weir_sync::rcu::Guard;

use super::{Group, Vlan};
use crate::bridge::Bridge;
use crate::bridge::port::Port;
use crate::device::Device;
use crate::stack::Stack;

/// The number of VLANs in a message, at most. Linux fills the reader's buffer.
const CHUNK: usize = 100;

fn flags_of(group: &Group, vlan: &Vlan) -> u16 {
    let pvid = if group.pvid == vlan.vid {
        VLAN_INFO_PVID
    } else {
        0
    };
    let untagged = if vlan.untagged { VLAN_INFO_UNTAGGED } else { 0 };
    pvid | untagged
}

/// Splits the VLANs that frames use into runs of consecutive ids that `joins` accepts.
fn runs(group: &Group, joins: impl Fn(&Vlan, &Vlan) -> bool) -> Vec<(&Vlan, &Vlan)> {
    let mut runs: Vec<(&Vlan, &Vlan)> = Vec::new();
    for vlan in group.all_usable() {
        match runs.last_mut() {
            Some((_, last)) if last.vid + 1 == vlan.vid && joins(last, vlan) => *last = vlan,
            _ => runs.push((vlan, vlan)),
        }
    }
    runs
}

/// Writes `IFLA_AF_SPEC` as `mask` (`RTEXT_FILTER_*`) asks for it, with tunnel ids if `tunnels`. `own` is the
/// group of the bridge, if instances of a port may be asked for.
pub fn fill_spec(
    group: &Group,
    (own, tunnels): (Option<&Group>, bool),
    mask: u32,
    out: &mut Writer,
) {
    use rtm::ext_filter::{BRVLAN, BRVLAN_COMPRESSED, MST};
    let vlans = mask & (BRVLAN | BRVLAN_COMPRESSED) != 0;
    let own = own.filter(|_| mask & MST != 0 && !group.is_empty());
    if !vlans && own.is_none() {
        return;
    }
    let nest = out.nest_noflag(ifla::AF_SPEC);
    let mut put = |vid, flags| {
        let info = BridgeVlanInfo { flags, vid };
        out.put_fixed(bridge::VLAN_INFO, &info);
    };
    if mask & BRVLAN_COMPRESSED != 0 {
        let same = |one: &Vlan, next: &Vlan| flags_of(group, one) == flags_of(group, next);
        for (first, last) in runs(group, same) {
            let flags = flags_of(group, first);
            if first.vid == last.vid {
                put(first.vid, flags);
            } else {
                put(first.vid, flags | VLAN_INFO_RANGE_BEGIN);
                put(last.vid, flags | VLAN_INFO_RANGE_END);
            }
        }
    } else if vlans {
        for vlan in group.all_usable() {
            put(vlan.vid, flags_of(group, vlan));
        }
    }
    if tunnels && vlans {
        super::tunnel::fill(group, out);
    }
    if let Some(own) = own {
        super::mst::fill(group, own, out);
    }
    out.end_or_cancel(nest);
}

/// Writes `BRIDGE_VLANDB_ENTRY` (`br_vlan_fill_vids`). `vlan`, with its `MCAST_ROUTER`, is absent in a message that
/// deletes.
fn fill_entry(
    (first, last): (u16, u16),
    flags: u16,
    vlan: Option<(&Vlan, u8)>,
    stats: bool,
    out: &mut Writer,
) {
    let nest = out.nest(vlandb::ENTRY);
    let info = BridgeVlanInfo { flags, vid: first };
    out.put_fixed(vlandb::ENTRY_INFO, &info);
    if last > first && flags & VLAN_INFO_PVID == 0 {
        out.put_u16(vlandb::ENTRY_RANGE, last);
    }
    if let Some((vlan, router)) = vlan {
        out.put_u8(vlandb::ENTRY_STATE, vlan.state);
        if let Some(id) = vlan.tunnel_id() {
            let nest = out.nest(vlandb::ENTRY_TUNNEL_INFO);
            out.put_u32(vlandb::TINFO_ID, id);
            out.end(nest);
        }
        out.put_u8(vlandb::ENTRY_MCAST_ROUTER, router);
        if stats {
            let nest = out.nest(vlandb::ENTRY_STATS);
            let types = [
                vlandb::STATS_RX_BYTES,
                vlandb::STATS_RX_PACKETS,
                vlandb::STATS_TX_BYTES,
                vlandb::STATS_TX_PACKETS,
            ];
            for (ty, value) in types.into_iter().zip(vlan.counters.values()) {
                out.put_u64_pad(ty, value, vlandb::STATS_PAD);
            }
            out.end(nest);
        }
    }
    out.end(nest);
}

pub(super) fn message(device: &Device) -> BrVlanMsg {
    BrVlanMsg {
        family: af::BRIDGE,
        ifindex: device.ifindex(),
        ..BrVlanMsg::default()
    }
}

impl Bridge {
    /// Notifies the listeners of changed VLANs (`br_vlan_notify`). The last id is 0 for a single VLAN.
    pub(super) fn tell_vlans(
        &self,
        (_, guard): (&Stack, &Guard),
        port: Option<&Port>,
        group: &Group,
        vids: (u16, u16),
        ty: u16,
    ) {
        let device = match port {
            Some(port) => Some(port.device.clone()),
            None => self.device(),
        };
        let Some(device) = device else { return };
        let vlan = match ty {
            rtm::NEWVLAN => match group.usable(vids.0) {
                Some(vlan) => Some(vlan),
                None => return,
            },
            _ => None,
        };
        let flags = vlan.map_or(0, |vlan| flags_of(group, vlan));
        let ns = device.namespace(guard);
        let number = port.map(|port| port.number);
        let vlan = vlan.map(|vlan| (vlan, self.vlan_router(vlan.vid, number)));
        crate::request::announce(ns, rtm::grp::BRVLAN, ty, |out| {
            out.fixed(&message(&device));
            fill_entry(vids, flags, vlan, false, out);
        });
    }

    /// Returns the VLANs of a port or of the bridge, as bodies of `RTM_NEWVLAN`.
    pub fn vlan_messages(&self, guard: &Guard, device: &Device, stats: bool) -> Vec<Vec<u8>> {
        let Some(group) = self.group_of(guard, device) else {
            return Vec::new();
        };
        let port = self.ports.load(guard).of(device);
        let number = port.map(|port| port.number);
        // The PVID stands alone.
        let joins = |one: &Vlan, next: &Vlan| {
            !stats
                && ![one.vid, next.vid].contains(&group.pvid)
                && self.join(group, number, one, next)
                && one.users.min(1) == next.users.min(1)
        };
        let runs = runs(group, joins);
        let body = |part: &[(&Vlan, &Vlan)]| {
            let mut out = Writer::new();
            out.fixed(&message(device));
            for (first, last) in part {
                let flags = flags_of(group, first);
                let vlan = Some((*first, self.vlan_router(first.vid, number)));
                fill_entry((first.vid, last.vid), flags, vlan, stats, &mut out);
            }
            out.into_vec()
        };
        if runs.is_empty() {
            return vec![body(&[])];
        }
        runs.chunks(CHUNK).map(body).collect()
    }

    /// Returns the options of the groups of the bridge's VLANs, as bodies of `RTM_NEWVLAN`; nothing for a port.
    pub fn global_messages(&self, stack: &Stack, guard: &Guard, device: &Device) -> Vec<Vec<u8>> {
        if crate::bridge::bridge_in(device).is_none() {
            return Vec::new();
        }
        let group = self.own_vlans.load(guard);
        let joins = |one: &Vlan, next: &Vlan| {
            one.vid + 1 == next.vid
                && one.msti == next.msti
                && self.have_same_groups(one.vid, next.vid)
        };
        let runs: Vec<&[Vlan]> = group.list.chunk_by(joins).collect();
        let body = |part: &[&[Vlan]]| {
            let mut out = Writer::new();
            out.fixed(&message(device));
            for run in part {
                if let (Some(first), Some(last)) = (run.first(), run.last()) {
                    out.raw(&self.vlan_groups(stack, guard, (first.vid, last.vid)));
                }
            }
            out.into_vec()
        };
        if runs.is_empty() {
            return vec![body(&[])];
        }
        runs.chunks(CHUNK / 4).map(body).collect()
    }

    /// Returns the extended statistics of a port or of the bridge: the attributes of
    /// `LINK_XSTATS_TYPE_BRIDGE`, in as many parts as messages are needed.
    pub fn extended_statistics(&self, guard: &Guard, device: &Device) -> Vec<Vec<u8>> {
        let Some(group) = self.group_of(guard, device) else {
            return Vec::new();
        };
        let port = self.ports.load(guard).of(device);
        let entry = |vlan: &Vlan, out: &mut Writer| {
            let mut flags = flags_of(group, vlan);
            if port.is_none() {
                flags |= VLAN_INFO_MASTER;
                if vlan.usable {
                    flags |= VLAN_INFO_BRENTRY;
                }
            }
            // `struct bridge_vlan_xstats`
            let mut octets = Vec::with_capacity(40);
            for value in vlan.counters.values() {
                octets.extend_from_slice(&value.to_ne_bytes());
            }
            octets.extend_from_slice(&vlan.vid.to_ne_bytes());
            octets.extend_from_slice(&flags.to_ne_bytes());
            octets.extend_from_slice(&[0; 4]);
            out.put(bridge_xstats::VLAN, &octets);
        };
        let mut parts: Vec<Writer> = group
            .list
            .chunks(CHUNK)
            .map(|part| {
                let mut out = Writer::new();
                part.iter().for_each(|vlan| entry(vlan, &mut out));
                out
            })
            .collect();
        if parts.is_empty() {
            parts.push(Writer::new());
        }
        if let Some(out) = parts.last_mut() {
            let port = port.map(|port| &**port);
            out.put(bridge_xstats::MCAST, &self.multicast_octets(port));
            if let Some(port) = port {
                // `struct bridge_stp_xstats`
                let counts = self.stp.lock().view(port, 0).counts;
                let octets: Vec<u8> = counts.iter().flat_map(|n| n.to_ne_bytes()).collect();
                out.put(bridge_xstats::STP, &octets);
            }
        }
        parts.into_iter().map(Writer::into_vec).collect()
    }

    /// Returns the VLANs of a port or of the bridge itself.
    pub fn group_of<'g>(&'g self, guard: &'g Guard, device: &Device) -> Option<&'g Group> {
        if crate::bridge::bridge_in(device).is_some() {
            return Some(self.own_vlans.load(guard));
        }
        let port = self.ports.load(guard).of(device)?;
        Some(port.vlans.load(guard))
    }
}
