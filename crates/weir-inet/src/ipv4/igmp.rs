// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reports of the groups that a device is a member of (IGMPv3, RFC 3376, and versions 1 and 2,
//! RFC 1112 and RFC 2236; `net/ipv4/igmp.c`).
//!
//! With IGMPv3, a join or a leave is announced `igmp_qrv` times: after two ticks, and then after
//! random times of at most `igmpv3_unsolicited_report_interval`. With an older version
//! (`force_igmp_version`), each group is reported on its own, and version 2 has a leave message.
//!
//! Queries are answered after random times: those of IGMPv3 about all groups by one report, others by
//! one for each group, unless another host reports the group before. After a query of an older version,
//! the device uses that version for `igmp_qrv` times 125 s, or what IGMPv3 queries told, and 10 s.
//!
//! A stack without [`link_chatter`](crate::stack::Config::link_chatter) only answers queries. All groups
//! are joined for all sources, as the sockets apply their own, and queries about sources are answered like
//! those about their group.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use weir_netlink::rta;
use weir_packet::checksum::{checksum, verify};
use weir_packet::header::ETH_P_IP;
use weir_packet::header::ipv4::{IP_DF, fill_check};
use weir_packet::{Batch, DropReason, Flags, Packet, PacketType};
use weir_sync::rare::Rare;

use super::group::{ALL_HOSTS, State, is_local};
use super::select::select_address;
use crate::chatter::{self, Chance, PRIORITY, TICK};
use crate::clock::{MILLISECOND, SECOND, TimerId};
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
/// `IGMP_HOST_MEMBERSHIP_QUERY`
const QUERY: u8 = 0x11;
/// `IGMP_HOST_MEMBERSHIP_REPORT`
const REPORT_V1: u8 = 0x12;
/// `IGMPV2_HOST_MEMBERSHIP_REPORT`
const REPORT_V2: u8 = 0x16;
/// `IGMP_HOST_LEAVE_MESSAGE`
const LEAVE: u8 = 0x17;
/// `IGMP_PIM`
const PIM: u8 = 0x14;
/// `IGMPV3_HOST_MEMBERSHIP_REPORT`
const REPORT_V3: u8 = 0x22;
/// `IGMPV3_MODE_IS_EXCLUDE`: of no source, that is, the host is in the group.
const IS_EXCLUDE: u8 = 2;
/// `IGMPV3_CHANGE_TO_INCLUDE`: of no source, that is, the host left the group.
const TO_INCLUDE: u8 = 3;
/// `IGMPV3_CHANGE_TO_EXCLUDE`: of no source, that is, the host joined the group.
const TO_EXCLUDE: u8 = 4;

/// The time between queries in ns, until a query tells another (`IGMP_QUERY_INTERVAL`).
const QUERY_INTERVAL: u64 = 125 * SECOND;
/// The longest time to an answer in ns, if a query tells none (`IGMP_QUERY_RESPONSE_INTERVAL`).
const RESPONSE_INTERVAL: u64 = 10 * SECOND;
/// The unit of the time to an answer in ns (`IGMP_TIMER_SCALE`).
const TENTH: u64 = SECOND / 10;

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
    /// The timer of the answer to a general query (`mr_gq_timer`).
    general: Option<TimerId>,
    chance: Chance,
}

/// What a device has learned from queries.
#[derive(Debug)]
pub(super) struct Querier {
    /// Until when, in ns of the stack's clock, the device uses IGMPv1 and IGMPv2 (`mr_v1_seen`,
    /// `mr_v2_seen`).
    old: [AtomicU64; 2],
    /// The robustness variable, or 0 for `igmp_qrv` (`mr_qrv`).
    robustness: AtomicU32,
    /// The time between queries in ns (`mr_qi`).
    interval: AtomicU64,
}

impl Querier {
    /// Nothing was learned.
    pub const fn new() -> Self {
        Self {
            old: [const { AtomicU64::new(0) }; 2],
            robustness: AtomicU32::new(0),
            interval: AtomicU64::new(QUERY_INTERVAL),
        }
    }

    /// Takes notice of a querier of version 1 or 2.
    fn saw(&self, site: &Site<'_>, version: usize) {
        let times = u64::from(robustness(site)) * self.interval.load(Relaxed);
        let until = site.stack.clock.now() + times + RESPONSE_INTERVAL;
        if let Some(old) = self.old.get(version - 1) {
            old.store(until, Relaxed);
        }
    }

    fn sees(&self, version: usize, now: u64) -> bool {
        let until = self.old.get(version - 1).map(|until| until.load(Relaxed));
        until.is_some_and(|until| now < until)
    }
}

impl Reports {
    /// Forgets that a group was left (`igmpv3_del_delrec`).
    pub fn forget_leave(&mut self, address: Ipv4Addr) {
        self.left.retain(|(left, _)| *left != address);
    }

    /// Stops the timer.
    pub fn stop(&mut self, site: &Site<'_>) {
        self.changes = 0;
        for timer in [self.timer.take(), self.general.take()]
            .into_iter()
            .flatten()
        {
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
    let told = site.device.ipv4().groups.querier().robustness.load(Relaxed);
    if told != 0 {
        return told;
    }
    site.ns.conf().ipv4.get(Slot::IgmpQrv).max(1) as u32
}

/// Returns the version of IGMP that a device uses at a time of the stack's clock (`IGMP_V1_SEEN`,
/// `IGMP_V2_SEEN`).
pub fn version(all: &Conf<Ipv4Conf>, device: &Device, now: u64) -> u8 {
    let own = &device.conf().ipv4;
    let is = |version: i32| {
        let forced = |conf: &Conf<Ipv4Conf>| conf.get(Ipv4Conf::ForceIgmpVersion) == version;
        forced(all) || forced(own) || device.ipv4().groups.querier().sees(version as usize, now)
    };
    match (is(1), is(2)) {
        (true, _) => 1,
        (false, true) => 2,
        (false, false) => 3,
    }
}

fn version_of(site: &Site<'_>) -> u8 {
    version(
        &site.ns.conf().all.ipv4,
        site.device,
        site.stack.clock.now(),
    )
}

/// Returns the longest time between unsolicited reports in ns (`unsolicited_report_interval`).
fn interval(site: &Site<'_>) -> u64 {
    let slot = match version_of(site) {
        3 => Ipv4Conf::Igmpv3UnsolicitedReportInterval,
        _ => Ipv4Conf::Igmpv2UnsolicitedReportInterval,
    };
    site.device.conf().ipv4.get(slot).max(1) as u64 * MILLISECOND
}

/// Returns whether a host answers queries about a group.
fn is_answered(site: &Site<'_>, address: Ipv4Addr) -> bool {
    let local = is_local(address);
    address != ALL_HOSTS && (!local || site.ns.conf().ipv4.on(Slot::IgmpLinkLocalMcastReports))
}

/// Returns whether joins and leaves of a group are reported.
fn is_reported(site: &Site<'_>, address: Ipv4Addr) -> bool {
    site.stack.config.link_chatter && is_answered(site, address)
}

/// Reports a new membership (`igmp_group_added`).
pub(super) fn joined(site: &Site<'_>, state: &mut State, at: usize) {
    let State { list, reports, .. } = state;
    let wanted = list
        .get_mut(at)
        .filter(|group| is_reported(site, group.address));
    let Some(group) = wanted else { return };
    let reports = reports.change();
    let times = robustness(site).try_into().unwrap_or(u16::MAX);
    group.unsolicited = times;
    if version_of(site) == 3 {
        group.changes = times;
        return reports.changed(site);
    }
    let next = reports.arm_one(site, 0, group.address);
    if let Some(timer) = group.timer.replace(next) {
        site.stack.timers.cancel(timer);
    }
}

/// Reports that a group was left (`__igmp_group_dropped`).
pub(super) fn left(
    site: &Site<'_>,
    reports: &mut Rare<Reports>,
    address: Ipv4Addr,
    reported: bool,
) {
    if !is_reported(site, address) {
        return;
    }
    match version_of(site) {
        3 => {
            let reports = reports.change();
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
        let State { list, reports, .. } = &mut *state;
        let group = list.iter_mut().find(|group| group.address == address);
        let Some(group) = group else { return };
        if group.timer.take().is_none() {
            return;
        }
        group.unsolicited = group.unsolicited.saturating_sub(1);
        if group.unsolicited != 0 {
            group.timer = Some(reports.change().arm_one(&site, interval(&site), address));
        }
        group.reported = true;
    }
    report(cx, device, version_of(&site), address);
}

/// Sends a report of one group (`igmp_send_report`).
fn report(cx: &mut Cx<'_>, device: &Arc<Device>, version: u8, address: Ipv4Addr) {
    match version {
        1 => send_one(cx, device, REPORT_V1, address),
        2 => send_one(cx, device, REPORT_V2, address),
        _ => send_records(cx, device, &[(IS_EXCLUDE, address)]),
    }
}

/// Reports all groups of a device, and of the VLAN devices on top of it, at once: it is reached by another port of a
/// switch now (`ip_mc_rejoin_groups`).
pub fn rejoin(cx: &mut Cx<'_>, device: &Arc<Device>) {
    let guard = cx.guard;
    let ns = device.namespace(guard).clone();
    let site = Site::new(cx.stack, guard, &ns, device);
    let version = version_of(&site);
    let groups: Vec<_> = {
        let state = device.ipv4().groups.lock();
        let addresses = state.list.iter().rev().map(|group| group.address);
        addresses
            .filter(|address| is_reported(&site, *address))
            .collect()
    };
    for address in groups {
        report(cx, device, version, address);
    }
    for (_, _, vlan) in device.vlans(guard) {
        rejoin(cx, vlan);
    }
}

/// Reports the changes of memberships (`igmp_ifc_timer_expire`, `igmpv3_send_cr`).
fn report_changes(cx: &mut Cx<'_>, device: &Arc<Device>) {
    let ns = device.namespace(cx.guard).clone();
    let site = Site::new(cx.stack, cx.guard, &ns, device);
    let mut records = Vec::new();
    {
        let mut state = device.ipv4().groups.lock();
        let State { list, reports, .. } = &mut *state;
        let reports = reports.change();
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

/// Receives a message (`igmp_rcv`). `at` is its offset.
///
/// # Errors
/// The reason for dropping it.
pub(super) fn receive(
    cx: &mut Cx<'_>,
    device: &Arc<Device>,
    packet: &Packet,
    at: usize,
) -> Result<(), DropReason> {
    let message = packet.data().get(at..).unwrap_or_default();
    let Some((head, group)) = message.get(..8).and_then(<[u8]>::split_first_chunk::<4>) else {
        return Err(DropReason::NOT_SPECIFIED);
    };
    if !verify(message) {
        return Err(DropReason::NOT_SPECIFIED);
    }
    let ns = device.namespace(cx.guard).clone();
    let site = Site::new(cx.stack, cx.guard, &ns, device);
    let group = group
        .first_chunk()
        .map_or(0, |group| u32::from_be_bytes(*group));
    match head[0] {
        QUERY => asked(&site, head[1], group.into(), message),
        // Unicast reports may not have reached the router.
        REPORT_V1 | REPORT_V2
            if matches!(
                packet.pkt_type(),
                PacketType::Multicast | PacketType::Broadcast
            ) =>
        {
            heard(&site, group.into());
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Returns whether a message is one of PIM version 1 (`IGMP_PIM`).
pub(super) fn is_pim(packet: &Packet, at: usize) -> bool {
    packet.data().get(at) == Some(&PIM)
}

/// Handles another host's report of a group: one suffices (`igmp_heard_report`).
fn heard(site: &Site<'_>, address: Ipv4Addr) {
    if !is_answered(site, address) {
        return;
    }
    let mut state = site.device.ipv4().groups.lock();
    if let Some(group) = state.list.iter_mut().find(|g| g.address == address) {
        if let Some(timer) = group.timer.take() {
            site.stack.timers.cancel(timer);
        }
        (group.reported, group.unsolicited) = (false, 0);
    }
}

/// Returns a number in the floating-point format of IGMPv3 (`IGMPV3_MRC`, `IGMPV3_QQIC`).
fn floating(code: u8) -> u64 {
    match u64::from(code) {
        code if code < 0x80 => code,
        code => (code & 0xf | 0x10) << ((code >> 4 & 7) + 3),
    }
}

/// Handles a query, which is answered after a random time (`igmp_heard_query`).
fn asked(site: &Site<'_>, code: u8, mut group: Ipv4Addr, message: &[u8]) -> Result<(), DropReason> {
    let groups = &site.device.ipv4().groups;
    let querier = groups.learn();
    let version = version_of(site);
    let mut most = floating(code) * TENTH;
    if message.len() == 8 {
        if code == 0 {
            most = RESPONSE_INTERVAL;
            querier.saw(site, 1);
            group = Ipv4Addr::UNSPECIFIED;
        } else {
            most = u64::from(code) * TENTH;
            querier.saw(site, 2);
        }
        let mut state = groups.lock();
        if let Some(reports) = state.reports.made() {
            reports.changes = 0;
            reports.left.clear();
            if let Some(timer) = reports.timer.take() {
                site.stack.timers.cancel(timer);
            }
        }
        drop(state);
    } else if version == 1 {
        most = RESPONSE_INTERVAL;
        group = Ipv4Addr::UNSPECIFIED;
    } else if version == 3 {
        let (Some(&robust), Some(&every), Some(sources)) =
            (message.get(8), message.get(9), message.get(10..12))
        else {
            return Err(DropReason::NOT_SPECIFIED);
        };
        querier.robustness.store(u32::from(robust & 7), Relaxed);
        let every = match floating(every) {
            0 => QUERY_INTERVAL,
            seconds => seconds * SECOND,
        };
        querier.interval.store(every, Relaxed);
        if group.is_unspecified() {
            if sources != [0, 0] {
                return Err(DropReason::NOT_SPECIFIED);
            }
            answer_all(site, most);
            return Ok(());
        }
    } else if message.len() < 12 {
        return Err(DropReason::NOT_SPECIFIED);
    }
    answer_each(site, group, most.max(TICK));
    Ok(())
}

/// Arms the timer of the answer to a general query (`igmp_gq_start_timer`).
fn answer_all(site: &Site<'_>, most: u64) {
    let mut state = site.device.ipv4().groups.lock();
    let reports = state.reports.change();
    let delay = reports.chance.below(site, CHANCE, most.max(TICK)) + 2 * TICK;
    let time = site.stack.clock.now() + delay;
    if reports.general.is_some_and(|timer| timer.time() <= time) {
        return;
    }
    let next = chatter::after(site, delay, report_all);
    if let Some(timer) = reports.general.replace(next) {
        site.stack.timers.cancel(timer);
    }
}

/// Arms the timers of the groups that a query concerns (`igmp_mod_timer`).
fn answer_each(site: &Site<'_>, asked: Ipv4Addr, most: u64) {
    let mut state = site.device.ipv4().groups.lock();
    let State { list, reports, .. } = &mut *state;
    let reports = reports.change();
    let now = site.stack.clock.now();
    for group in list.iter_mut().rev() {
        if !(asked.is_unspecified() || asked == group.address) || !is_answered(site, group.address)
        {
            continue;
        }
        group.unsolicited = 0;
        if group.timer.is_some_and(|timer| timer.time() < now + most) {
            continue;
        }
        let next = reports.arm_one(site, most, group.address);
        if let Some(timer) = group.timer.replace(next) {
            site.stack.timers.cancel(timer);
        }
    }
}

/// Reports all memberships (`igmp_gq_timer_expire`).
fn report_all(cx: &mut Cx<'_>, device: &Arc<Device>) {
    let ns = device.namespace(cx.guard).clone();
    let site = Site::new(cx.stack, cx.guard, &ns, device);
    let mut records = Vec::new();
    {
        let mut state = device.ipv4().groups.lock();
        if state.reports.change().general.take().is_none() {
            return;
        }
        let groups = state.list.iter().rev().map(|group| group.address);
        let groups = groups.filter(|address| is_answered(&site, *address));
        records.extend(groups.map(|address| (IS_EXCLUDE, address)));
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
