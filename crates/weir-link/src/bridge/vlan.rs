// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The VLANs of a bridge and of its ports (`net/bridge/br_vlan.c`).
//!
//! The bridge and each port have a [`Group`], published by RCU. The bridge's group also holds the VLANs that only
//! ports have; those keep the counters, and frames do not use them at the bridge itself. Changes take the lock of the
//! bridge's VLANs, work on copies of the groups, and publish the copies once per request.
//!
//! | file | contents |
//! |---|---|
//! | `vlan/request` | `IFLA_BRIDGE_VLAN_INFO`: single VLANs and ranges |
//! | `vlan/options` | `RTM_NEWVLAN`: the state and router of a VLAN, and the options of its groups |
//! | `vlan/mst` | instances of multiple spanning trees |
//! | `vlan/tunnel` | tunnel ids |
//! | `vlan/wire` | replies and notifications |

mod mst;
mod options;
mod request;
mod tunnel;
mod wire;

pub use wire::fill_spec;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use weir_netlink::ifla::bridge::{
    VLAN_INFO_BRENTRY, VLAN_INFO_MASTER, VLAN_INFO_PVID, VLAN_INFO_UNTAGGED,
};
use weir_netlink::{Error, errno, rtm};
use weir_packet::tunnel::Tunnel;
use weir_sync::rcu::Guard;

use super::Bridge;
use super::port::{Port, state};
use crate::stack::Stack;

/// The flags of the VLAN that a new port gets (`default_pvid`).
const DEFAULT: u16 = VLAN_INFO_PVID | VLAN_INFO_UNTAGGED;

/// The packets and bytes of a VLAN (`struct pcpu_sw_netstats`). Bytes are without the Ethernet header.
#[derive(Debug, Default)]
pub struct Counters {
    rx_packets: AtomicU64,
    rx_bytes: AtomicU64,
    tx_packets: AtomicU64,
    tx_bytes: AtomicU64,
}

impl Counters {
    /// Counts a received frame.
    pub fn received(&self, bytes: usize) {
        self.rx_packets.fetch_add(1, Relaxed);
        self.rx_bytes.fetch_add(bytes as u64, Relaxed);
    }

    /// Counts a sent frame.
    pub fn sent(&self, bytes: usize) {
        self.tx_packets.fetch_add(1, Relaxed);
        self.tx_bytes.fetch_add(bytes as u64, Relaxed);
    }

    /// Returns bytes and packets received, then bytes and packets sent.
    fn values(&self) -> [u64; 4] {
        let all = [
            &self.rx_bytes,
            &self.rx_packets,
            &self.tx_bytes,
            &self.tx_packets,
        ];
        all.map(|counter| counter.load(Relaxed))
    }
}

/// A VLAN of the bridge or of a port (`struct net_bridge_vlan`).
#[derive(Debug, Clone)]
pub struct Vlan {
    /// The VLAN id, 1 to 4094.
    pub vid: u16,
    /// Frames leave untagged (`BRIDGE_VLAN_INFO_UNTAGGED`).
    pub untagged: bool,
    /// Its state (`BR_STATE_*`).
    pub state: u8,
    /// Its packets and bytes.
    pub counters: Arc<Counters>,
    /// The metadata of frames that leave by a port (`br_tunnel_info`).
    tunnel: Option<Arc<Tunnel>>,
    /// Frames use it (`br_vlan_should_use`): it is a port's, or the bridge itself is a member.
    usable: bool,
    /// In the group of the bridge, the number of ports that have it, and one for the bridge itself.
    users: u32,
    /// In the group of the bridge, the spanning tree instance to which it belongs.
    msti: u16,
}

impl Vlan {
    /// Returns whether the sources of its frames are learned (`br_vlan_state_allowed`).
    #[inline]
    pub fn learns(&self) -> bool {
        matches!(self.state, state::LEARNING | state::FORWARDING)
    }

    /// Returns whether its frames are forwarded.
    #[inline]
    pub fn forwards(&self) -> bool {
        self.state == state::FORWARDING
    }
}

/// The VLANs of the bridge or of a port (`struct net_bridge_vlan_group`).
#[derive(Debug, Clone, Default)]
pub struct Group {
    /// The VLAN of untagged frames, or 0.
    pub pvid: u16,
    /// By VLAN id.
    list: Vec<Vlan>,
    /// The VLANs of tunnel ids, by id.
    tunnels: Vec<(u32, u16)>,
}

impl Group {
    fn place(&self, vid: u16) -> Result<usize, usize> {
        self.list.binary_search_by_key(&vid, |vlan| vlan.vid)
    }

    /// Returns a VLAN that frames use.
    #[inline]
    pub fn usable(&self, vid: u16) -> Option<&Vlan> {
        let vlan = self.list.get(self.place(vid).ok()?)?;
        Some(vlan).filter(|vlan| vlan.usable)
    }

    /// Returns a VLAN, whether or not frames use it.
    fn any(&self, vid: u16) -> Option<&Vlan> {
        self.list.get(self.place(vid).ok()?)
    }

    /// Returns the ids of all VLANs, with whether frames use them.
    pub fn members(&self) -> impl Iterator<Item = (u16, bool)> {
        self.list.iter().map(|vlan| (vlan.vid, vlan.usable))
    }

    /// Returns the VLANs that frames use, by id.
    pub fn all_usable(&self) -> impl Iterator<Item = &Vlan> {
        self.list.iter().filter(|vlan| vlan.usable)
    }

    /// Returns whether frames use no VLAN (`num_vlans` is 0).
    pub fn is_empty(&self) -> bool {
        self.all_usable().next().is_none()
    }

    fn find(&mut self, vid: u16) -> Option<&mut Vlan> {
        let at = self.place(vid).ok()?;
        self.list.get_mut(at)
    }

    /// Returns a VLAN, which is made if there is none.
    fn find_or_make(&mut self, vid: u16, usable: bool) -> &mut Vlan {
        let at = match self.place(vid) {
            Ok(at) => at,
            Err(at) => {
                let vlan = Vlan {
                    vid,
                    untagged: false,
                    state: state::FORWARDING,
                    tunnel: None,
                    counters: Arc::default(),
                    usable,
                    users: u32::from(usable),
                    msti: 0,
                };
                self.list.insert(at, vlan);
                at
            }
        };
        &mut self.list[at]
    }

    /// Sets the flags of a VLAN, and the PVID (`__vlan_add_flags`). Returns whether anything changed.
    fn set_flags(&mut self, vid: u16, flags: u16) -> bool {
        let untagged = flags & VLAN_INFO_UNTAGGED != 0;
        let before = self.pvid;
        if flags & VLAN_INFO_PVID != 0 {
            self.pvid = vid;
        } else if self.pvid == vid {
            self.pvid = 0;
        }
        let Some(vlan) = self.find(vid) else {
            return false;
        };
        let changed = std::mem::replace(&mut vlan.untagged, untagged) != untagged;
        changed || before != self.pvid
    }

    /// Returns whether a VLAN is the untagged PVID (`vlan_default_pvid`).
    fn has_default(&self, vid: u16) -> bool {
        self.pvid == vid && self.usable(vid).is_some_and(|vlan| vlan.untagged)
    }

    fn remove(&mut self, vid: u16) {
        if self.pvid == vid {
            self.pvid = 0;
        }
        self.remove_tunnel(vid);
        if let Ok(at) = self.place(vid) {
            self.list.remove(at);
        }
    }

    /// Drops one user of a VLAN of the bridge (`br_vlan_put_master`). Returns whether it was the last one.
    fn put(&mut self, vid: u16) -> bool {
        let Some(vlan) = self.find(vid) else {
            return false;
        };
        vlan.users -= 1;
        let is_last = vlan.users == 0;
        if is_last {
            self.remove(vid);
        }
        is_last
    }
}

/// The state of a bridge's VLANs that the data path does not read.
#[derive(Debug)]
pub struct Vlans {
    /// `VLAN_DEFAULT_PVID`, or 0.
    pub default_pvid: u16,
    /// `VLAN_STATS_PER_PORT`
    pub per_port: bool,
}

impl Default for Vlans {
    fn default() -> Self {
        Self {
            default_pvid: 1,
            per_port: false,
        }
    }
}

/// Copies of groups, while a request changes them.
struct Change<'a> {
    bridge: &'a Bridge,
    at: (&'a Stack, &'a Guard),
    per_port: bool,
    /// The bridge's group.
    own: Group,
    /// The (number of the port, or 0 for the bridge, VLAN id) whose learned entries end.
    left: BTreeSet<(u16, u16)>,
}

impl Change<'_> {
    /// Adds a VLAN to the bridge, or changes its flags (`br_vlan_add`). Returns whether anything changed.
    fn add_own(&mut self, vid: u16, flags: u16) -> Result<bool, Error> {
        let joins = flags & VLAN_INFO_BRENTRY != 0;
        let known = self.own.place(vid).is_ok();
        let vlan = self.own.find_or_make(vid, joins);
        let mut changed = !known;
        if known && !vlan.usable {
            if !joins {
                return Err(Error::new(errno::EINVAL));
            }
            (vlan.usable, vlan.users) = (true, vlan.users + 1);
            changed = true;
        }
        if changed
            && joins
            && let Some(device) = self.bridge.device()
        {
            let (stack, guard) = self.at;
            self.bridge
                .add_local(stack, guard, 0, (device.address(), vid));
        }
        if changed {
            let (stack, guard) = self.at;
            self.bridge.vlan_begun(stack, guard, vid, joins);
        }
        Ok(self.own.set_flags(vid, flags) || changed)
    }

    /// Drops one user of a VLAN of the bridge.
    fn put(&mut self, vid: u16) {
        if self.own.put(vid) {
            let (stack, guard) = self.at;
            self.bridge.vlan_ended(stack, guard, vid);
        }
    }

    /// Takes the bridge itself out of a VLAN (`br_vlan_delete`). Returns whether it was in it.
    fn delete_own(&mut self, vid: u16) -> bool {
        if self.own.usable(vid).is_none() {
            return false;
        }
        let (stack, guard) = self.at;
        if let Some(device) = self.bridge.device() {
            let key = (device.address(), vid);
            self.bridge.end_own_local(stack, guard, 0, key);
        }
        self.left.insert((0, vid));
        if self.own.pvid == vid {
            self.own.pvid = 0;
        }
        if let Some(vlan) = self.own.find(vid) {
            vlan.usable = false;
        }
        self.bridge.vlan_left(stack, guard, vid);
        self.put(vid);
        true
    }

    /// Adds a VLAN to a port, or changes its flags (`nbp_vlan_add`). Returns whether anything changed.
    fn add(&mut self, port: &Port, group: &mut Group, vid: u16, flags: u16) -> Result<bool, Error> {
        if group.place(vid).is_ok() {
            return Ok(group.set_flags(vid, flags));
        }
        if flags & VLAN_INFO_MASTER != 0 {
            self.add_own(vid, flags | VLAN_INFO_BRENTRY)?;
        }
        let (stack, guard) = self.at;
        if self.own.place(vid).is_err() {
            self.bridge.vlan_begun(stack, guard, vid, false);
        }
        let master = self.own.find_or_make(vid, false);
        master.users += 1;
        let shared = master.counters.clone();
        let vlan = group.find_or_make(vid, true);
        if !self.per_port {
            vlan.counters = shared;
        }
        if self.bridge.settings.mst.load(Relaxed) {
            vlan.state = port.state.load(Relaxed);
        }
        let key = (port.device.address(), vid);
        self.bridge.add_local(stack, guard, port.number, key);
        group.set_flags(vid, flags);
        let place = (vid, port.number);
        self.bridge.port_vlan(stack, guard, place, true);
        Ok(true)
    }

    /// Takes a port out of a VLAN (`nbp_vlan_delete`). Returns whether it was in it.
    fn delete(&mut self, port: &Port, group: &mut Group, vid: u16) -> bool {
        if group.place(vid).is_err() {
            return false;
        }
        let (stack, guard) = self.at;
        let key = (port.device.address(), vid);
        self.bridge.end_own_local(stack, guard, port.number, key);
        self.left.insert((port.number, vid));
        group.remove(vid);
        let place = (vid, port.number);
        self.bridge.port_vlan(stack, guard, place, false);
        self.put(vid);
        true
    }

    /// Publishes the groups, and then removes the entries of VLANs that were left.
    fn finish(self, port: Option<(&Port, Group)>) {
        self.bridge.own_vlans.replace(self.own);
        if let Some((port, group)) = port {
            port.vlans.replace(group);
        }
        if !self.left.is_empty() {
            let (stack, guard) = self.at;
            self.bridge.forget_vlans(stack, guard, &self.left);
        }
    }
}

impl Bridge {
    fn change_vlans<'a>(&'a self, at: (&'a Stack, &'a Guard), vlans: &Vlans) -> Change<'a> {
        Change {
            bridge: self,
            at,
            per_port: vlans.per_port,
            own: self.own_vlans.load(at.1).clone(),
            left: BTreeSet::new(),
        }
    }

    /// Puts a new bridge into its default VLAN (`br_vlan_bridge_event`).
    pub fn begin_vlans(&self, stack: &Stack, guard: &Guard) {
        let vlans = self.vlans.lock();
        let mut change = self.change_vlans((stack, guard), &vlans);
        let flags = DEFAULT | VLAN_INFO_BRENTRY;
        // A VLAN that is new cannot fail.
        let _ = change.add_own(vlans.default_pvid, flags);
        self.tell_vlans(
            change.at,
            None,
            &change.own,
            (vlans.default_pvid, 0),
            rtm::NEWVLAN,
        );
        change.finish(None);
    }

    /// Puts a new port into the default VLAN (`nbp_vlan_init`).
    pub fn begin_port_vlans(&self, stack: &Stack, guard: &Guard, port: &Port) {
        let vlans = self.vlans.lock();
        if vlans.default_pvid == 0 {
            return;
        }
        let mut change = self.change_vlans((stack, guard), &vlans);
        let mut group = Group::default();
        // A VLAN that is new cannot fail.
        let _ = change.add(port, &mut group, vlans.default_pvid, DEFAULT);
        let vids = (vlans.default_pvid, 0);
        self.tell_vlans(change.at, Some(port), &group, vids, rtm::NEWVLAN);
        change.finish(Some((port, group)));
    }

    /// Takes a port that leaves out of its VLANs (`nbp_vlan_flush`).
    pub fn end_port_vlans(&self, stack: &Stack, guard: &Guard, port: &Port) {
        let vlans = self.vlans.lock();
        let mut change = self.change_vlans((stack, guard), &vlans);
        let group = port.vlans.load(guard).clone();
        let vids: Vec<u16> = group.list.iter().map(|vlan| vlan.vid).collect();
        for range in vids.chunk_by(|one, next| next - one == 1) {
            if let (Some(first), Some(last)) = (range.first(), range.last()) {
                let vids = (*first, *last);
                self.tell_vlans(change.at, Some(port), &group, vids, rtm::DELVLAN);
            }
        }
        for vid in vids {
            let place = (vid, port.number);
            self.port_vlan(stack, guard, place, false);
            change.put(vid);
        }
        change.finish(Some((port, Group::default())));
    }

    /// Checks that counters per port may be turned on or off (`br_vlan_set_stats_per_port`).
    pub fn check_per_port(&self, guard: &Guard) -> Result<(), Error> {
        let ports = &self.ports.load(guard).list;
        match ports.iter().all(|port| port.vlans.load(guard).is_empty()) {
            true => Ok(()),
            false => Err(Error::new(errno::EBUSY)),
        }
    }

    /// Replaces the default VLAN where it is still as it was made (`__br_vlan_set_default_pvid`). 0 means none.
    pub fn set_default_pvid(&self, stack: &Stack, guard: &Guard, pvid: u16) -> Result<(), Error> {
        let mut vlans = self.vlans.lock();
        let old = vlans.default_pvid;
        let mut change = self.change_vlans((stack, guard), &vlans);
        let tell = |change: &Change<'_>, port, group: &Group, vid, ty| {
            self.tell_vlans(change.at, port, group, (vid, 0), ty);
        };
        if pvid == 0 {
            if change.own.has_default(old) && change.delete_own(old) {
                tell(&change, None, &Group::default(), old, rtm::DELVLAN);
            }
        } else if (old == 0 || change.own.has_default(old)) && change.own.usable(pvid).is_none() {
            change.add_own(pvid, DEFAULT | VLAN_INFO_BRENTRY)?;
            if change.delete_own(old) {
                tell(&change, None, &Group::default(), old, rtm::DELVLAN);
            }
            let own = change.own.clone();
            tell(&change, None, &own, pvid, rtm::NEWVLAN);
        }
        for port in &self.ports.load(guard).list {
            let mut group = port.vlans.load(guard).clone();
            let is_default = group.has_default(old);
            if pvid == 0 {
                if is_default && change.delete(port, &mut group, old) {
                    tell(&change, Some(&**port), &group, old, rtm::DELVLAN);
                }
            } else if old != 0 && !is_default || group.place(pvid).is_ok() {
                continue;
            } else {
                change.add(port, &mut group, pvid, DEFAULT)?;
                if change.delete(port, &mut group, old) {
                    tell(&change, Some(&**port), &group, old, rtm::DELVLAN);
                }
                tell(&change, Some(&**port), &group, pvid, rtm::NEWVLAN);
            }
            port.vlans.replace(group);
        }
        change.finish(None);
        vlans.default_pvid = pvid;
        Ok(())
    }
}
