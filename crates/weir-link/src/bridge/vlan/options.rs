// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `bridge vlan set` and `bridge vlan global`: `RTM_NEWVLAN` and `RTM_DELVLAN` (`br_vlan_rtm_process`,
//! `br_vlan_options.c`).
//!
//! An entry of a request adds or deletes VLANs, unless it has only options, and sets the state of each. Frames of a
//! VLAN are forwarded by a port whose VLAN is in the state forwarding; in the state learning their sources are
//! learned. The spanning tree protocol of the bridge sets the state of ports and none of VLANs, so a state is refused
//! while it runs.
//!
//! Global options are those of the groups of a VLAN, as is `mcast_router`. They are kept and shown, and take effect
//! with `mcast_vlan_snooping`. `msti` is in `mst.rs`.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use weir_netlink::ifla::bridge::{
    VLAN_INFO_ONLY_OPTS, VLAN_INFO_PVID, VLAN_INFO_RANGE_BEGIN, VLAN_INFO_RANGE_END,
};
use weir_netlink::ifla::vlandb::{self, gopts};
use weir_netlink::{
    Attr, BridgeVlanInfo, Error, Fixed, Policy, Rule, Strictness, Table, errno, policy, rtm,
};

use super::{Change, Group, Vlan};
use crate::bridge::Bridge;
use crate::bridge::port::{Port, state};
use crate::device::Device;
use crate::request::Ctl;

/// `br_vlan_db_policy`
static ENTRY: Policy = policy! { max vlandb::ENTRY_MCAST_ROUTER;
    vlandb::ENTRY_INFO => Rule::exact(4),
    vlandb::ENTRY_RANGE => Rule::u16(),
    vlandb::ENTRY_STATE => Rule::u8(),
    vlandb::ENTRY_TUNNEL_INFO => Rule::nested_any(),
    vlandb::ENTRY_MCAST_ROUTER => Rule::u8(),
};

/// `br_vlan_db_gpol`
static GLOBAL: Policy = policy! { max gopts::MSTI;
    gopts::ID => Rule::u16(),
    gopts::RANGE => Rule::u16(),
    gopts::MCAST_SNOOPING => Rule::u8(),
    gopts::MCAST_IGMP_VERSION => Rule::u8(),
    gopts::MCAST_MLD_VERSION => Rule::u8(),
    gopts::MCAST_LAST_MEMBER_CNT => Rule::u32(),
    gopts::MCAST_STARTUP_QUERY_CNT => Rule::u32(),
    gopts::MCAST_LAST_MEMBER_INTVL => Rule::u64(),
    gopts::MCAST_MEMBERSHIP_INTVL => Rule::u64(),
    gopts::MCAST_QUERIER_INTVL => Rule::u64(),
    gopts::MCAST_QUERY_INTVL => Rule::u64(),
    gopts::MCAST_QUERY_RESPONSE_INTVL => Rule::u64(),
    gopts::MCAST_STARTUP_QUERY_INTVL => Rule::u64(),
    gopts::MCAST_QUERIER => Rule::u8(),
    gopts::MSTI => Rule::u16().range(0, 4095),
};

fn invalid(message: &'static str) -> Error {
    Error::msg(errno::EINVAL, message)
}

fn absent(message: &'static str) -> Error {
    Error::msg(errno::ENOENT, message)
}

/// `br_vlan_valid_id`
fn check_vid(vid: u16) -> Result<(), Error> {
    match (1..4095).contains(&vid) {
        true => Ok(()),
        false => Err(invalid("bridge: Vlan id is invalid")),
    }
}

/// Collects consecutive VLANs that changed, and has their listeners told.
struct Runs<F: FnMut(u16, u16)> {
    run: Option<(u16, u16)>,
    tell: F,
}

impl<F: FnMut(u16, u16)> Runs<F> {
    fn end(&mut self) {
        if let Some((first, last)) = self.run.take() {
            (self.tell)(first, last);
        }
    }

    /// Adds a VLAN, which is in a run with the one before it if `joins`.
    fn add(&mut self, vid: u16, joins: bool) {
        match &mut self.run {
            Some((_, last)) if joins => *last = vid,
            _ => {
                self.end();
                self.run = Some((vid, vid));
            }
        }
    }
}

impl Change<'_> {
    /// Sets options of a range of VLANs (`br_vlan_process_options`).
    fn set_options(
        &mut self,
        port: Option<(&Port, &mut Group)>,
        (first, last): (u16, u16),
        table: &Table<'_>,
    ) -> Result<(), Error> {
        let bridge = self.bridge;
        let at = self.at;
        let (port, group) = match port {
            Some((port, group)) => (Some(port), group),
            None => (None, &mut self.own),
        };
        if group.usable(first).is_none() {
            return Err(absent(
                "bridge: Vlan range start doesn't exist, can't process options",
            ));
        }
        if group.usable(last).is_none() {
            return Err(absent(
                "bridge: Vlan range end doesn't exist, can't process options",
            ));
        }
        let wanted = table.u8(vlandb::ENTRY_STATE)?;
        let router = table.u8(vlandb::ENTRY_MCAST_ROUTER)?;
        let number = port.map(|port| port.number);
        let mut changed = Vec::new();
        let mut done = Ok(());
        for vid in first..=last {
            if group.usable(vid).is_none() {
                done = Err(absent(
                    "bridge: Vlan in range doesn't exist, can't process options",
                ));
                break;
            }
            let mut is_new = false;
            if let Some(wanted) = wanted {
                done = bridge.check_vlan_state(wanted);
                if done.is_err() {
                    break;
                }
                if let Some(vlan) = group.find(vid)
                    && vlan.state != wanted
                {
                    vlan.state = wanted;
                    is_new = true;
                    if let Some(number) = number {
                        bridge.vlan_state(at.0, at.1, (vid, number), wanted);
                    }
                }
            }
            if let Some(tunnel) = table.get(vlandb::ENTRY_TUNNEL_INFO) {
                done = group
                    .modify_tunnel(port, (vid, vid - first), &tunnel)
                    .map(|changed| is_new |= changed);
                if done.is_err() {
                    break;
                }
            }
            if let Some(to) = router {
                done = bridge.set_vlan_router(at.0, at.1, (vid, number), to);
                if done.is_err() {
                    break;
                }
                is_new = true;
            }
            if is_new {
                changed.push(vid);
            }
        }
        let group: &Group = group;
        let mut runs = Runs {
            run: None,
            tell: |first, last| {
                bridge.tell_vlans(at, port, group, (first, last), rtm::NEWVLAN);
            },
        };
        let mut before: Option<u16> = None;
        for vid in changed {
            let joins = before.is_some_and(|before| {
                let pair = group.usable(before).zip(group.usable(vid));
                before + 1 == vid
                    && group.pvid != vid
                    && pair.is_some_and(|(one, next)| bridge.join(group, number, one, next))
            });
            runs.add(vid, joins);
            before = Some(vid);
        }
        runs.end();
        done
    }
}

impl Bridge {
    /// Returns whether two consecutive VLANs are shown as one range (`br_vlan_can_enter_range`).
    pub(super) fn join(&self, group: &Group, number: Option<u16>, one: &Vlan, next: &Vlan) -> bool {
        (group.pvid == one.vid) == (group.pvid == next.vid)
            && one.untagged == next.untagged
            && one.state == next.state
            && one.tunnels_join(next)
            && self.vlan_router(one.vid, number) == self.vlan_router(next.vid, number)
    }

    /// Checks a state that a request gives a VLAN (`br_vlan_modify_state`).
    fn check_vlan_state(&self, wanted: u8) -> Result<(), Error> {
        if wanted > state::BLOCKING {
            return Err(invalid("bridge: Invalid vlan state"));
        }
        if self.settings.has_stp.load(Relaxed) {
            return Err(Error::msg(
                errno::EBUSY,
                "bridge: Can't modify vlan state when using kernel STP",
            ));
        }
        if self.settings.mst.load(Relaxed) {
            return Err(Error::msg(
                errno::EBUSY,
                "bridge: Can't modify vlan state directly when MST is enabled",
            ));
        }
        Ok(())
    }

    /// Serves the attributes of `RTM_NEWVLAN` or `RTM_DELVLAN` for a port or the bridge itself
    /// (`br_vlan_rtm_process`).
    ///
    /// # Errors
    /// Those of Linux with its texts; EOPNOTSUPP for options that are not served.
    pub fn process_vlans(
        &self,
        ctl: &mut Ctl<'_>,
        device: &Arc<Device>,
        attrs: &mut dyn Iterator<Item = Attr<'_>>,
        ty: u16,
    ) -> Result<(), Error> {
        let mut any = false;
        for attr in attrs {
            match attr.ty {
                vlandb::ENTRY => self.process_entry(ctl, device, &attr, ty)?,
                vlandb::GLOBAL_OPTIONS => self.process_global(ctl, device, &attr, ty)?,
                _ => continue,
            }
            any = true;
        }
        match any {
            true => Ok(()),
            false => Err(invalid("bridge: No vlans found to process")),
        }
    }

    /// `br_vlan_rtm_process_one`
    fn process_entry(
        &self,
        ctl: &mut Ctl<'_>,
        device: &Arc<Device>,
        attr: &Attr<'_>,
        ty: u16,
    ) -> Result<(), Error> {
        let at = (ctl.stack, ctl.guard);
        let table = attr.parse(&ENTRY, Strictness::Strict)?;
        let info = table.get(vlandb::ENTRY_INFO);
        let info = info.and_then(|info| BridgeVlanInfo::from_bytes(info.payload));
        let info = info.ok_or(invalid("bridge: Missing vlan entry info"))?;
        if info.flags & (VLAN_INFO_RANGE_BEGIN | VLAN_INFO_RANGE_END) != 0 {
            return Err(invalid(
                "bridge: Old-style vlan ranges are not allowed when using RTM vlan calls",
            ));
        }
        check_vid(info.vid)?;
        let last = table.u16(vlandb::ENTRY_RANGE)?;
        if let Some(last) = last {
            check_vid(last)?;
            if info.flags & VLAN_INFO_PVID != 0 {
                return Err(invalid("bridge: Pvid isn't allowed in a range"));
            }
            if last <= info.vid {
                return Err(invalid(
                    "bridge: End vlan id is less than or equal to start vlan id",
                ));
            }
        }
        let port = self.ports.load(ctl.guard).of(device).cloned();
        let port = port.as_deref();
        let vlans = self.vlans.lock();
        if table.has(vlandb::ENTRY_MCAST_ROUTER) {
            // Before the change, so that they follow it.
            self.keep_vlans(at.0, at.1);
        }
        let mut change = self.change_vlans(at, &vlans);
        let mut group = port.map(|port| port.vlans.load(at.1).clone());
        let range = (info.vid, last.unwrap_or(info.vid));
        let deletes = ty == rtm::DELVLAN;
        let mut changed = false;
        let mut done = Ok(());
        if deletes || info.flags & VLAN_INFO_ONLY_OPTS == 0 {
            done = change
                .process_range(port.zip(group.as_mut()), range, info.flags, deletes)
                .map(|any| changed = any);
        }
        if done.is_ok() && !deletes {
            done = change.set_options(port.zip(group.as_mut()), range, &table);
        }
        change.finish(port.zip(group));
        drop(vlans);
        if changed {
            self.announce_anyhow(at, device, port);
        }
        done
    }

    /// `br_vlan_rtm_process_global_options`
    fn process_global(
        &self,
        ctl: &mut Ctl<'_>,
        device: &Arc<Device>,
        attr: &Attr<'_>,
        ty: u16,
    ) -> Result<(), Error> {
        let at = (ctl.stack, ctl.guard);
        if ty != rtm::NEWVLAN {
            return Err(invalid(
                "bridge: Global vlan options support only set operation",
            ));
        }
        if crate::bridge::bridge_in(device).is_none() {
            return Err(invalid(
                "bridge: Global vlan options can only be set on bridge device",
            ));
        }
        let table = attr.parse(&GLOBAL, Strictness::Strict)?;
        let first = table.u16(gopts::ID)?;
        let first = first.ok_or(invalid("bridge: Missing vlan entry id"))?;
        check_vid(first)?;
        let last = match table.u16(gopts::RANGE)? {
            None => first,
            Some(last) => {
                check_vid(last)?;
                if first >= last {
                    return Err(invalid(
                        "bridge: End vlan id is less than or equal to start vlan id",
                    ));
                }
                last
            }
        };
        let msti = table.u16(gopts::MSTI)?;
        let mut types = table.types();
        let for_groups = types.any(|ty| !matches!(ty, gopts::ID | gopts::RANGE | gopts::MSTI));
        let vlans = self.vlans.lock();
        let mut change = self.change_vlans(at, &vlans);
        let mut changed = Vec::new();
        let mut done = Ok(());
        for vid in first..=last {
            if change.own.any(vid).is_none() {
                done = Err(absent(
                    "bridge: Vlan in range doesn't exist, can't process global options",
                ));
                break;
            }
            let done_here = match for_groups {
                true => self.set_vlan_groups(at.0, at.1, vid, &table),
                false => Ok(false),
            };
            match done_here {
                Ok(is_new) if is_new || msti.is_some() => changed.push(vid),
                Ok(_) => {}
                Err(error) => {
                    done = Err(error);
                    break;
                }
            }
        }
        if let Some(msti) = msti {
            change.set_msti(&changed, msti);
            change.finish(None);
        }
        let own = self.own_vlans.load(ctl.guard);
        let mut runs = Runs {
            run: None,
            tell: |first, last| {
                let body = self.vlan_groups(at.0, at.1, (first, last));
                let ns = device.namespace(ctl.guard);
                crate::request::announce(ns, rtm::grp::BRVLAN, rtm::NEWVLAN, |out| {
                    out.fixed(&super::wire::message(device));
                    out.raw(&body);
                });
            },
        };
        let mut before: Option<u16> = None;
        for vid in changed {
            let joins = before.is_some_and(|before| {
                before + 1 == vid
                    && own.msti(before) == own.msti(vid)
                    && self.have_same_groups(before, vid)
            });
            runs.add(vid, joins);
            before = Some(vid);
        }
        runs.end();
        done
    }
}
