// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reports of the groups that a device is a member of (MLDv2, RFC 3810, and MLDv1, RFC 2710;
//! `net/ipv6/mcast.c`).
//!
//! With MLDv2, a join or a leave is announced twice: after two ticks, and then after a random
//! time of at most `mldv2_unsolicited_report_interval`. All memberships are announced again when
//! the device has got its first link-local address, since reports have no source before. With MLDv1
//! (`force_mld_version`), a report and a leave message for one group are sent immediately.
//!
//! A stack without [`link_chatter`](crate::stack::Config::link_chatter) sends nothing. Not
//! implemented: answers to queries, and therefore the switch to MLDv1 by an older query.

use std::net::Ipv6Addr;
use std::sync::Arc;

use weir_packet::header::Ipv6;
use weir_packet::header::icmp::fill_check_v6;
use weir_packet::header::ipv6::IPPROTO_ICMPV6;

use super::group::{ALL_ROUTERS, Group, State};
use super::nd::Outgoing;
use super::select::link_local_of;
use crate::chatter::{self, Chance, PRIORITY, TICK};
use crate::clock::{MILLISECOND, TimerId};
use crate::cpu::Cx;
use crate::device::Device;
use crate::ipv6::WithIpv6;
use crate::layers::Site;
use crate::settings::{Ipv6Conf, WithSettings};

/// The group of all MLDv2 routers.
const ALL_MLDV2_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x16);

/// `ICMPV6_MGM_REPORT`
const REPORT: u8 = 131;
/// `ICMPV6_MGM_REDUCTION`
const DONE: u8 = 132;
/// `ICMPV6_MLD2_REPORT`
const REPORT_V2: u8 = 143;
/// `MLD2_MODE_IS_EXCLUDE`: of no source, that is, the host is in the group.
const MODE_IS_EXCLUDE: u8 = 2;
/// `MLD2_CHANGE_TO_INCLUDE`: of no source, that is, the host left the group.
const TO_INCLUDE: u8 = 3;
/// `MLD2_CHANGE_TO_EXCLUDE`: of no source, that is, the host joined the group.
const TO_EXCLUDE: u8 = 4;

/// The hop-by-hop header with the router alert of multicast listener discovery (RFC 2711) and
/// padding.
const ROUTER_ALERT: [u8; 8] = [IPPROTO_ICMPV6, 0, 5, 2, 0, 0, 1, 0];
/// The size of a group record without sources in bytes.
const RECORD: usize = 20;
/// The largest packet that Linux puts reports into, whatever the MTU (`SKB_MAX_ORDER(0, 0)`).
const LARGEST: usize = 3_760;

/// How often a change is announced (`MLD_QRV_DEFAULT`; Linux has the sysctl `mld_qrv` in the initial
/// namespace only).
const ROBUSTNESS: u32 = 2;
/// The name of the random numbers.
const CHANCE: &str = "mld";

/// The progress of the reports of a device.
#[derive(Debug, Default)]
pub(super) struct Reports {
    /// The reports of changes still to be sent (`mc_ifc_count`).
    changes: u32,
    changes_timer: Option<TimerId>,
    /// The reports of all memberships still to be sent (`mc_dad_count`).
    initial: u32,
    initial_timer: Option<TimerId>,
    /// The groups left, with the number of reports that still have to say so, oldest first
    /// (`mc_tomb`).
    left: Vec<(Ipv6Addr, u32)>,
    chance: Chance,
}

impl Reports {
    /// Forgets that a group was left (`mld_del_delrec`).
    pub fn forget_leave(&mut self, address: Ipv6Addr) {
        self.left.retain(|(left, _)| *left != address);
    }

    /// Stops all timers (`mld_ifc_stop_work`, `mld_dad_stop_work`).
    pub fn stop(&mut self, site: &Site<'_>) {
        (self.changes, self.initial) = (0, 0);
        let timers = [self.changes_timer.take(), self.initial_timer.take()];
        for timer in timers.into_iter().flatten() {
            site.stack.timers.cancel(timer);
        }
    }

    /// Announces changes from now on (`mld_ifc_event`).
    fn changed(&mut self, site: &Site<'_>) {
        self.changes = ROBUSTNESS;
        self.arm_changes(site, 0);
    }

    /// Arms the timer of the next report of changes (`mld_ifc_start_work`).
    fn arm_changes(&mut self, site: &Site<'_>, most: u64) {
        let delay = self.chance.below(site, CHANCE, most) + 2 * TICK;
        let next = chatter::after(site, delay, report_changes);
        if let Some(timer) = self.changes_timer.replace(next) {
            site.stack.timers.cancel(timer);
        }
    }
}

/// Returns whether the device uses MLDv1 (`mld_in_v1_mode`).
fn is_v1(site: &Site<'_>) -> bool {
    let force = |conf: &crate::settings::Conf<Ipv6Conf>| conf.get(Ipv6Conf::ForceMldVersion);
    match force(&site.ns.conf().all.ipv6) {
        2 => false,
        1 => true,
        _ => force(&site.device.conf().ipv6) == 1,
    }
}

/// Returns the longest time between unsolicited reports in ns (`unsolicited_report_interval`).
fn interval(site: &Site<'_>) -> u64 {
    let slot = match is_v1(site) {
        true => Ipv6Conf::Mldv1UnsolicitedReportInterval,
        false => Ipv6Conf::Mldv2UnsolicitedReportInterval,
    };
    site.device.conf().ipv6.get(slot).max(1) as u64 * MILLISECOND
}

/// Reports a new membership (`igmp6_group_added`, `igmp6_join_group`).
pub(super) fn joined(site: &Site<'_>, state: &mut State, at: usize) {
    let State { list, reports } = state;
    let Some(group) = list.get_mut(at).filter(|_| site.stack.config.link_chatter) else {
        return;
    };
    if !is_v1(site) {
        group.changes = ROBUSTNESS;
        return reports.changed(site);
    }
    let address = group.address;
    chatter::after(site, 0, move |cx, device| {
        send_v1(cx, device, address, REPORT)
    });
    if group.timer.is_none() {
        let delay = reports.chance.below(site, CHANCE, interval(site));
        let again = move |cx: &mut Cx<'_>, device: &Arc<Device>| report_again(cx, device, address);
        group.timer = Some(chatter::after(site, delay, again));
    }
    group.reported = true;
}

/// Reports that a group was left (`igmp6_leave_group`).
pub(super) fn left(site: &Site<'_>, reports: &mut Reports, group: &Group) {
    if !site.stack.config.link_chatter {
        return;
    }
    let address = group.address;
    if !is_v1(site) {
        let changes = ROBUSTNESS;
        reports.left.push((address, changes));
        return reports.changed(site);
    }
    if group.reported {
        chatter::after(site, 0, move |cx, device| {
            send_v1(cx, device, address, DONE)
        });
    }
}

/// Reports all memberships, because the device has its first link-local address
/// (`ipv6_mc_dad_complete`).
pub(super) fn has_source(site: &Site<'_>) {
    let mut state = site.device.ipv6().groups.lock();
    let reports = &mut state.reports;
    reports.initial = ROBUSTNESS;
    let next = chatter::after(site, 0, report_all);
    if let Some(timer) = reports.initial_timer.replace(next) {
        site.stack.timers.cancel(timer);
    }
}

/// Sends a further MLDv1 report of a group (`mld_mca_work`).
fn report_again(cx: &mut Cx<'_>, device: &Arc<Device>, address: Ipv6Addr) {
    let ns = device.namespace(cx.guard).clone();
    let site = Site::new(cx.stack, cx.guard, &ns, device);
    let mut state = device.ipv6().groups.lock();
    let group = state.list.iter_mut().find(|group| group.address == address);
    let Some(group) = group else { return };
    if group.timer.take().is_none() {
        return;
    }
    group.reported = true;
    drop(state);
    if is_v1(&site) {
        send_v1(cx, device, address, REPORT);
    } else {
        send_records(cx, device, &[(MODE_IS_EXCLUDE, address)]);
    }
}

/// Reports the changes of memberships (`mld_ifc_work`, `mld_send_cr`).
fn report_changes(cx: &mut Cx<'_>, device: &Arc<Device>) {
    let ns = device.namespace(cx.guard).clone();
    let site = Site::new(cx.stack, cx.guard, &ns, device);
    let mut records = Vec::new();
    {
        let mut state = device.ipv6().groups.lock();
        let State { list, reports } = &mut *state;
        if reports.changes_timer.take().is_none() {
            return;
        }
        for (address, changes) in reports.left.iter_mut().rev() {
            records.push((TO_INCLUDE, *address));
            *changes -= 1;
        }
        reports.left.retain(|(_, changes)| *changes != 0);
        for group in list.iter_mut().rev().filter(|group| group.changes != 0) {
            records.push((TO_EXCLUDE, group.address));
            group.changes -= 1;
        }
        reports.changes = reports.changes.saturating_sub(1);
        if reports.changes != 0 {
            reports.arm_changes(&site, interval(&site));
        }
    }
    send_records(cx, device, &records);
}

/// Reports all memberships (`mld_dad_work`, `mld_send_initial_cr`).
fn report_all(cx: &mut Cx<'_>, device: &Arc<Device>) {
    let ns = device.namespace(cx.guard).clone();
    let site = Site::new(cx.stack, cx.guard, &ns, device);
    let mut records = Vec::new();
    {
        let mut state = device.ipv6().groups.lock();
        let State { list, reports } = &mut *state;
        if reports.initial_timer.take().is_none() {
            return;
        }
        if !is_v1(&site) {
            let groups = list.iter().rev().filter(|group| !group.is_silent());
            records.extend(groups.map(|group| (TO_EXCLUDE, group.address)));
        }
        reports.initial = reports.initial.saturating_sub(1);
        if reports.initial != 0 {
            let delay = reports.chance.below(&site, CHANCE, interval(&site)) + 2 * TICK;
            reports.initial_timer = Some(chatter::after(&site, delay, report_all));
        }
    }
    send_records(cx, device, &records);
}

/// Sends MLDv2 reports with these records, as many as are needed (`add_grec`, `mld_sendpack`).
fn send_records(cx: &mut Cx<'_>, device: &Arc<Device>, records: &[(u8, Ipv6Addr)]) {
    let room = LARGEST.min(device.mtu() as usize) - Ipv6::LEN - ROUTER_ALERT.len() - 8;
    for records in records.chunks(room / RECORD) {
        let mut message = vec![REPORT_V2, 0, 0, 0, 0, 0];
        message.extend((records.len() as u16).to_be_bytes());
        for (kind, group) in records {
            message.extend([*kind, 0, 0, 0]);
            message.extend(group.octets());
        }
        send(cx, device, ALL_MLDV2_ROUTERS, message);
    }
}

/// Sends an MLDv1 message about a group (`igmp6_send`).
fn send_v1(cx: &mut Cx<'_>, device: &Arc<Device>, group: Ipv6Addr, kind: u8) {
    let mut message = vec![kind, 0, 0, 0, 0, 0, 0, 0];
    message.extend(group.octets());
    let dst = if kind == DONE { ALL_ROUTERS } else { group };
    send(cx, device, dst, message);
}

/// Sends a message from the device's link-local address, or from the unspecified one if there is
/// none.
fn send(cx: &mut Cx<'_>, device: &Arc<Device>, dst: Ipv6Addr, mut message: Vec<u8>) {
    let src = link_local_of(device, cx.guard).unwrap_or(Ipv6Addr::UNSPECIFIED);
    fill_check_v6(src.octets(), dst.octets(), &mut message);
    let out = Outgoing {
        src,
        dst,
        hop_limit: 1,
        options: &ROUTER_ALERT,
        priority: PRIORITY,
    };
    super::nd::send(cx, device, &out, &message);
}
