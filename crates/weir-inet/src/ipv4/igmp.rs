// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reports of the groups that a device is a member of (IGMPv3, RFC 3376, and versions 1 and 2,
//! RFC 1112 and RFC 2236; `net/ipv4/igmp.c`).
//!
//! With IGMPv3, a join or a leave is announced `igmp_qrv` times: after two ticks, and then after
//! random times of at most `igmpv3_unsolicited_report_interval`. With an older version
//! (`force_igmp_version`), each group is reported on its own, and version 2 has a leave message.
//!
//! A stack without [`link_chatter`](crate::stack::Config::link_chatter) sends nothing. Not
//! implemented: answers to queries, and therefore the switch to an older version by its queries.

use std::net::Ipv4Addr;
use std::sync::Arc;

use weir_netlink::rta;
use weir_packet::checksum::checksum;
use weir_packet::header::ETH_P_IP;
use weir_packet::header::ipv4::{IP_DF, fill_check};
use weir_packet::{Batch, Flags, PacketType};

use super::group::{ALL_HOSTS, State};
use super::select::select_address;
use crate::chatter::{self, Chance, PRIORITY, TICK};
use crate::clock::{MILLISECOND, TimerId};
use crate::cpu::Cx;
use crate::device::Device;
use crate::ipv4::WithIpv4;
use crate::layers::Site;
use crate::mib::{Count, Ip};
use crate::settings::{Conf, HasIp, Ipv4 as Slot, Ipv4Conf, WithSettings};

/// The group of all routers (`IGMP_ALL_ROUTER`).
const ALL_ROUTERS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 2);
/// The group of all IGMPv3 routers (`IGMPV3_ALL_MCR`).
const ALL_IGMPV3_ROUTERS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 22);

/// `IPPROTO_IGMP`
const PROTOCOL: u8 = 2;
/// `IGMP_HOST_MEMBERSHIP_REPORT`
const REPORT_V1: u8 = 0x12;
/// `IGMPV2_HOST_MEMBERSHIP_REPORT`
const REPORT_V2: u8 = 0x16;
/// `IGMP_HOST_LEAVE_MESSAGE`
const LEAVE: u8 = 0x17;
/// `IGMPV3_HOST_MEMBERSHIP_REPORT`
const REPORT_V3: u8 = 0x22;
/// `IGMPV3_MODE_IS_EXCLUDE`: of no source, that is, the host is in the group.
const IS_EXCLUDE: u8 = 2;
/// `IGMPV3_CHANGE_TO_INCLUDE`: of no source, that is, the host left the group.
const TO_INCLUDE: u8 = 3;
/// `IGMPV3_CHANGE_TO_EXCLUDE`: of no source, that is, the host joined the group.
const TO_EXCLUDE: u8 = 4;

/// The length of the header with the router alert option in bytes (RFC 2113).
const HEADER: usize = 24;
/// The size of a group record without sources in bytes.
const RECORD: usize = 8;
/// The largest packet that Linux puts reports into, whatever the MTU.
const LARGEST: usize = 3_760;
/// The name of the random numbers.
const CHANCE: &str = "igmp";

/// The progress of the reports of a device.
#[derive(Debug, Default)]
pub(super) struct Reports {
    /// The IGMPv3 reports still to be sent (`mr_ifc_count`).
    changes: u32,
    timer: Option<TimerId>,
    /// The groups left, with the number of reports that still have to say so, oldest first
    /// (`mc_tomb`).
    left: Vec<(Ipv4Addr, u32)>,
    chance: Chance,
}

impl Reports {
    /// Forgets that a group was left (`igmpv3_del_delrec`).
    pub fn forget_leave(&mut self, address: Ipv4Addr) {
        self.left.retain(|(left, _)| *left != address);
    }

    /// Stops the timer.
    pub fn stop(&mut self, site: &Site<'_>) {
        self.changes = 0;
        if let Some(timer) = self.timer.take() {
            site.stack.timers.cancel(timer);
        }
    }

    /// Announces changes from now on (`igmp_ifc_event`).
    fn changed(&mut self, site: &Site<'_>) {
        self.changes = robustness(site);
        self.arm(site, 0);
    }

    /// Arms the timer of the next report of changes (`igmp_ifc_start_timer`).
    fn arm(&mut self, site: &Site<'_>, most: u64) {
        let delay = self.chance.below(site, CHANCE, most) + 2 * TICK;
        let next = chatter::after(site, delay, report_changes);
        if let Some(timer) = self.timer.replace(next) {
            site.stack.timers.cancel(timer);
        }
    }

    /// Returns a timer for the next report of one group (`igmp_start_timer`).
    fn arm_one(&mut self, site: &Site<'_>, most: u64, address: Ipv4Addr) -> TimerId {
        let delay = self.chance.below(site, CHANCE, most) + 2 * TICK;
        chatter::after(site, delay, move |cx, device| {
            report_one(cx, device, address)
        })
    }
}

/// Returns how often a change is announced.
fn robustness(site: &Site<'_>) -> u32 {
    site.ns.conf().ipv4.get(Slot::IgmpQrv).max(1) as u32
}

/// Returns the version of IGMP that the device uses (`IGMP_V1_SEEN`, `IGMP_V2_SEEN`).
pub fn version(all: &Conf<Ipv4Conf>, own: &Conf<Ipv4Conf>) -> u8 {
    let forced = |version| {
        [all, own]
            .iter()
            .any(|c| c.get(Ipv4Conf::ForceIgmpVersion) == version)
    };
    match (forced(1), forced(2)) {
        (true, _) => 1,
        (false, true) => 2,
        (false, false) => 3,
    }
}

fn version_of(site: &Site<'_>) -> u8 {
    version(&site.ns.conf().all.ipv4, &site.device.conf().ipv4)
}

/// Returns the longest time between unsolicited reports in ns (`unsolicited_report_interval`).
fn interval(site: &Site<'_>) -> u64 {
    let slot = match version_of(site) {
        3 => Ipv4Conf::Igmpv3UnsolicitedReportInterval,
        _ => Ipv4Conf::Igmpv2UnsolicitedReportInterval,
    };
    site.device.conf().ipv4.get(slot).max(1) as u64 * MILLISECOND
}

/// Returns whether a group is reported at all.
fn is_reported(site: &Site<'_>, address: Ipv4Addr) -> bool {
    let local = matches!(address.octets(), [224, 0, 0, _]);
    site.stack.config.link_chatter
        && address != ALL_HOSTS
        && (!local || site.ns.conf().ipv4.on(Slot::IgmpLinkLocalMcastReports))
}

/// Reports a new membership (`igmp_group_added`).
pub(super) fn joined(site: &Site<'_>, state: &mut State, at: usize) {
    let State { list, reports } = state;
    let wanted = list
        .get_mut(at)
        .filter(|group| is_reported(site, group.address));
    let Some(group) = wanted else { return };
    group.unsolicited = robustness(site);
    if version_of(site) == 3 {
        group.changes = robustness(site);
        return reports.changed(site);
    }
    let next = reports.arm_one(site, 0, group.address);
    if let Some(timer) = group.timer.replace(next) {
        site.stack.timers.cancel(timer);
    }
}

/// Reports that a group was left (`__igmp_group_dropped`).
pub(super) fn left(site: &Site<'_>, reports: &mut Reports, address: Ipv4Addr, reported: bool) {
    if !is_reported(site, address) {
        return;
    }
    match version_of(site) {
        3 => {
            reports.left.push((address, robustness(site)));
            reports.changed(site);
        }
        2 if reported => {
            chatter::after(site, 0, move |cx, device| {
                send_one(cx, device, LEAVE, address)
            });
        }
        _ => {}
    }
}

/// Sends a report of one group, when its timer fires (`igmp_timer_expire`).
fn report_one(cx: &mut Cx<'_>, device: &Arc<Device>, address: Ipv4Addr) {
    let ns = device.namespace(cx.guard).clone();
    let site = Site::new(cx.stack, cx.guard, &ns, device);
    {
        let mut state = device.ipv4().groups.lock();
        let State { list, reports } = &mut *state;
        let group = list.iter_mut().find(|group| group.address == address);
        let Some(group) = group else { return };
        if group.timer.take().is_none() {
            return;
        }
        group.unsolicited = group.unsolicited.saturating_sub(1);
        if group.unsolicited != 0 {
            group.timer = Some(reports.arm_one(&site, interval(&site), address));
        }
        group.reported = true;
    }
    match version_of(&site) {
        1 => send_one(cx, device, REPORT_V1, address),
        2 => send_one(cx, device, REPORT_V2, address),
        _ => send_records(cx, device, &[(IS_EXCLUDE, address)]),
    }
}

/// Reports the changes of memberships (`igmp_ifc_timer_expire`, `igmpv3_send_cr`).
fn report_changes(cx: &mut Cx<'_>, device: &Arc<Device>) {
    let ns = device.namespace(cx.guard).clone();
    let site = Site::new(cx.stack, cx.guard, &ns, device);
    let mut records = Vec::new();
    {
        let mut state = device.ipv4().groups.lock();
        let State { list, reports } = &mut *state;
        if reports.timer.take().is_none() {
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
            let most = interval(&site);
            reports.arm(&site, most);
        }
    }
    send_records(cx, device, &records);
}

/// Sends IGMPv3 reports with these records, as many as are needed (`add_grec`,
/// `igmpv3_sendpack`).
fn send_records(cx: &mut Cx<'_>, device: &Arc<Device>, records: &[(u8, Ipv4Addr)]) {
    let room = LARGEST
        .min(device.mtu() as usize)
        .saturating_sub(HEADER + 8);
    for records in records.chunks((room / RECORD).max(1)) {
        let mut message = vec![REPORT_V3, 0, 0, 0, 0, 0];
        message.extend((records.len() as u16).to_be_bytes());
        for (kind, group) in records {
            message.extend([*kind, 0, 0, 0]);
            message.extend(group.octets());
        }
        send(cx, device, ALL_IGMPV3_ROUTERS, message);
    }
}

/// Sends a message of version 1 or 2 about a group (`igmp_send_report`).
fn send_one(cx: &mut Cx<'_>, device: &Arc<Device>, kind: u8, group: Ipv4Addr) {
    let mut message = vec![kind, 0, 0, 0];
    message.extend(group.octets());
    let dst = if kind == LEAVE { ALL_ROUTERS } else { group };
    send(cx, device, dst, message);
}

/// Sends a message to a group on the device's link, with TTL 1 and the router alert option.
fn send(cx: &mut Cx<'_>, device: &Arc<Device>, dst: Ipv4Addr, mut message: Vec<u8>) {
    let ns = device.namespace(cx.guard);
    if !device.is_up() || !device.has_ipv4() {
        return;
    }
    let any = Ipv4Addr::UNSPECIFIED;
    let own = device.ipv4().addresses.list(cx.guard);
    // Linux takes an address of another device for the older versions only (`igmpv3_get_srcaddr`).
    let src = select_address(ns, device, any, rta::scope::LINK, cx.guard)
        .filter(|src| dst != ALL_IGMPV3_ROUTERS || own.iter().any(|a| a.local == *src))
        .unwrap_or(any);
    if let Some(check) = message.get_mut(2..4) {
        check.fill(0);
    }
    let sum = checksum(&message).to_be_bytes();
    if let Some(check) = message.get_mut(2..4) {
        check.copy_from_slice(&sum);
    }
    let len = HEADER + message.len();
    let [df, _] = IP_DF.to_be_bytes();
    let mut bytes = vec![0x46, 0xc0, 0, 0, 0, 0, df, 0, 1, PROTOCOL, 0, 0];
    if let Some(total) = bytes.get_mut(2..4) {
        total.copy_from_slice(&(len as u16).to_be_bytes());
    }
    bytes.extend(src.octets());
    bytes.extend(dst.octets());
    bytes.extend([0x94, 4, 0, 0]);
    bytes.extend(message);
    fill_check(&mut bytes);
    let Some(mut packet) = cx.stack.pool.alloc(bytes.len()) else {
        return;
    };
    packet.data_mut().copy_from_slice(&bytes);
    packet.set_network(0);
    packet.set_transport(HEADER);
    packet.protocol = ETH_P_IP;
    packet.priority = PRIORITY;
    packet.flags.insert(Flags::LOCAL);
    packet.set_pkt_type(PacketType::Outgoing);
    packet.time = cx.now;
    packet.iif = 0;
    packet.dev = device.key.0;
    let mib = cx.mib(ns);
    mib.ip.add(Ip::OutRequests, 1);
    mib.ip.add(Ip::OutOctets, len as u64);
    mib.ip.add(Ip::OutMcastPkts, 1);
    mib.ip.add(Ip::OutMcastOctets, len as u64);
    crate::neigh::output(cx, device, dst.into(), false, Batch::from(packet));
}
