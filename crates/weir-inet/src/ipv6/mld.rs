// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reports of the groups that a device is a member of (MLDv2, RFC 3810, and MLDv1, RFC 2710;
//! `net/ipv6/mcast.c`).
//!
//! With MLDv2, a join or a leave is announced twice: after two ticks, and then after a random
//! time of at most `mldv2_unsolicited_report_interval`. All memberships are announced again when
//! the device has got its first link-local address, since reports have no source before. With MLDv1
//! (`force_mld_version`), a report and a leave message for one group are sent immediately.
//!
//! Queries are answered after random times: those of MLDv2 about all groups by one report, others by
//! one for each group, unless another host reports the group before. After an MLDv1 query, the device
//! uses MLDv1 for as long as RFC 3810, 9.12 says.
//!
//! A stack without [`link_chatter`](crate::stack::Config::link_chatter) only answers queries. All groups
//! are joined for all sources, as the sockets apply their own, and queries about sources are answered like
//! those about their group.

use std::net::Ipv6Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use weir_packet::header::Ipv6;
use weir_packet::header::icmp::fill_check_v6;
use weir_packet::header::ipv6::{IPPROTO_ICMPV6, NEXTHDR_HOP};
use weir_packet::{Packet, PacketType};
use weir_sync::rare::Rare;

use super::group::{ALL_ROUTERS, Group, State};
use super::nd::Outgoing;
use super::select::{is_member, link_local_of};
use crate::chatter::{self, Chance, PRIORITY, TICK};
use crate::clock::{MILLISECOND, SECOND, TimerId};
use crate::cpu::Cx;
use crate::device::Device;
use crate::ipv6::WithIpv6;
use crate::layers::Site;
use crate::settings::{Ipv6Conf, WithSettings};

/// The group of all MLDv2 routers.
const ALL_MLDV2_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x16);

/// `ICMPV6_MGM_QUERY`
pub(super) const QUERY: u8 = 130;
/// `ICMPV6_MGM_REPORT`
pub(super) const REPORT: u8 = 131;
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
/// The length of an MLDv1 query in bytes.
const QUERY_V1: usize = 24;
/// The length of an MLDv2 query without sources in bytes.
const QUERY_V2: usize = 28;
/// The time between queries in ns, until a query tells another (`MLD_QI_DEFAULT`).
const QUERY_INTERVAL: u64 = 125 * SECOND;
/// The longest time to an answer in ns, until a query tells another (`MLD_QRI_DEFAULT`).
const RESPONSE_INTERVAL: u64 = 10 * SECOND;
/// The longest delay in ms of a host in MLDv1 mode that gets an MLDv2 query
/// (`MLDV1_MRD_MAX_COMPAT`).
const COMPATIBLE: u16 = 0x7fff;
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
    /// The timer of the answer to a general query (`mc_gq_work`).
    general: Option<TimerId>,
    chance: Chance,
}

/// What a device has learned from queries.
#[derive(Debug)]
pub(super) struct Querier {
    /// Until when, in ns of the stack's clock, the device uses MLDv1 (`mc_v1_seen`).
    old: AtomicU64,
    /// The robustness variable (`mc_qrv`).
    robustness: AtomicU32,
    /// The time between queries in ns (`mc_qi`).
    interval: AtomicU64,
    /// The longest time to an answer in ns (`mc_qri`).
    response: AtomicU64,
}

impl Querier {
    /// Nothing was learned.
    pub const fn new() -> Self {
        Self {
            old: AtomicU64::new(0),
            robustness: AtomicU32::new(ROBUSTNESS),
            interval: AtomicU64::new(QUERY_INTERVAL),
            response: AtomicU64::new(RESPONSE_INTERVAL),
        }
    }

    /// Takes notice of a querier of version 1 (`mld_set_v1_mode`).
    fn saw_old(&self, now: u64) {
        let times = u64::from(self.robustness.load(Relaxed)) * self.interval.load(Relaxed);
        self.old
            .store(now + times + self.response.load(Relaxed), Relaxed);
    }
}

impl Reports {
    /// Forgets that a group was left (`mld_del_delrec`).
    pub fn forget_leave(&mut self, address: Ipv6Addr) {
        self.left.retain(|(left, _)| *left != address);
    }

    /// Stops all timers (`mld_ifc_stop_work`, `mld_dad_stop_work`).
    pub fn stop(&mut self, site: &Site<'_>) {
        (self.changes, self.initial) = (0, 0);
        let timers = [
            self.changes_timer.take(),
            self.initial_timer.take(),
            self.general.take(),
        ];
        for timer in timers.into_iter().flatten() {
            site.stack.timers.cancel(timer);
        }
    }

    /// Announces changes from now on (`mld_ifc_event`).
    fn changed(&mut self, site: &Site<'_>) {
        self.changes = robustness(site);
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
        _ => match force(&site.device.conf().ipv6) {
            2 => false,
            1 => true,
            _ => {
                let until = site.device.ipv6().groups.querier().old.load(Relaxed);
                site.stack.clock.now() < until
            }
        },
    }
}

/// Returns whether the device ignores MLDv1 (`mld_in_v2_mode_only`).
fn is_v2_only(site: &Site<'_>) -> bool {
    let force = |conf: &crate::settings::Conf<Ipv6Conf>| conf.get(Ipv6Conf::ForceMldVersion);
    let all = force(&site.ns.conf().all.ipv6);
    all == 2 || (all == 0 && force(&site.device.conf().ipv6) == 2)
}

/// Returns how often a change is announced.
fn robustness(site: &Site<'_>) -> u32 {
    site.device.ipv6().groups.querier().robustness.load(Relaxed)
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
    let State { list, reports, .. } = state;
    let Some(group) = list.get_mut(at).filter(|_| site.stack.config.link_chatter) else {
        return;
    };
    let reports = reports.change();
    if !is_v1(site) {
        group.changes = robustness(site).try_into().unwrap_or(u16::MAX);
        return reports.changed(site);
    }
    let address = group.address;
    chatter::after(site, 0, move |cx, device| {
        send_v1(cx, device, address, REPORT)
    });
    if group.timer.is_none() {
        let delay = reports.chance.below(site, CHANCE, interval(site));
        let again = move |cx: &mut Cx<'_>, device: &Arc<Device>| report_again(cx, device, address);
        group.timer = Some(Box::new(chatter::after(site, delay, again)));
    }
    group.reported = true;
}

/// Reports that a group was left (`igmp6_leave_group`).
pub(super) fn left(site: &Site<'_>, reports: &mut Rare<Reports>, group: &Group) {
    if !site.stack.config.link_chatter {
        return;
    }
    let address = group.address;
    if !is_v1(site) {
        let (changes, reports) = (robustness(site), reports.change());
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
    let reports = state.reports.change();
    reports.initial = robustness(site);
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
        let State { list, reports, .. } = &mut *state;
        let reports = reports.change();
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
        let State { list, reports, .. } = &mut *state;
        let reports = reports.change();
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

/// Handles a query, which is answered after a random time, or another host's report
/// (`igmp6_event_query`, `igmp6_event_report`). `at` is the offset of the message.
pub(super) fn receive(cx: &mut Cx<'_>, device: &Arc<Device>, at: usize, packet: &Packet) {
    let data = packet.data();
    let (Some(header), Some(message)) = (Ipv6::new(data), data.get(at..)) else {
        return;
    };
    let (Some(&kind), Some(group)) = (message.first(), message.get(8..24)) else {
        return;
    };
    let ns = device.namespace(cx.guard).clone();
    let site = Site::new(cx.stack, cx.guard, &ns, device);
    let group = group
        .first_chunk()
        .map_or(Ipv6Addr::UNSPECIFIED, |g: &[u8; 16]| (*g).into());
    let from = Ipv6Addr::from(header.src());
    if kind == REPORT {
        let told = matches!(
            packet.pkt_type(),
            PacketType::Multicast | PacketType::Broadcast
        );
        if told && (from.is_unspecified() || from.is_unicast_link_local()) {
            heard(&site, group);
        }
        return;
    }
    let alerted =
        header.next_header() == NEXTHDR_HOP && data.get(Ipv6::LEN..at).is_some_and(is_alert);
    if from.is_unicast_link_local()
        && header.hop_limit() == 1
        && alerted
        && (group.is_unspecified() || group.is_multicast())
    {
        asked(&site, group, message);
    }
}

/// Returns whether a hop-by-hop header has the router alert of multicast listener discovery.
fn is_alert(header: &[u8]) -> bool {
    let mut rest = header.get(2..).unwrap_or_default();
    loop {
        match rest {
            [0, more @ ..] => rest = more,
            [5, 2, 0, 0, ..] => return true,
            [_, len, more @ ..] => rest = more.get(usize::from(*len)..).unwrap_or_default(),
            _ => return false,
        }
    }
}

/// Handles another host's report of a group: one suffices.
fn heard(site: &Site<'_>, address: Ipv6Addr) {
    let mut state = site.device.ipv6().groups.lock();
    if let Some(group) = state.list.iter_mut().find(|g| g.address == address) {
        if let Some(timer) = group.timer.take() {
            site.stack.timers.cancel(*timer);
        }
        group.reported = false;
    }
}

/// Handles a query (`__mld_query_work`).
fn asked(site: &Site<'_>, group: Ipv6Addr, message: &[u8]) {
    let groups = &site.device.ipv6().groups;
    let querier = groups.learn();
    let code = message.get(4..6).and_then(|code| code.first_chunk());
    let code = code.map_or(0, |code| u16::from_be_bytes(*code));
    let is_old = message.len() == QUERY_V1;
    if is_old || is_v1(site) {
        if is_v2_only(site) {
            return;
        }
        if is_old {
            querier.saw_old(site.stack.clock.now());
        }
        let mut state = groups.lock();
        if let Some(reports) = state.reports.made() {
            reports.changes = 0;
            reports.left.clear();
            let timers = [reports.changes_timer.take(), reports.general.take()];
            for timer in timers.into_iter().flatten() {
                site.stack.timers.cancel(timer);
            }
        }
        drop(state);
        let code = if is_old { code } else { code.min(COMPATIBLE) };
        return answer_each(site, group, (u64::from(code) * MILLISECOND).max(TICK));
    }
    let (Some(&robust), Some(&every), Some(sources)) =
        (message.get(24), message.get(25), message.get(26..QUERY_V2))
    else {
        return;
    };
    // The format of RFC 3810, 5.1.3 and 5.1.9.
    let delay = match u64::from(code) {
        code if code < 0x8000 => code,
        code => (code & 0xfff | 0x1000) << ((code >> 12 & 7) + 3),
    };
    let most = (delay * MILLISECOND).max(TICK);
    let every = match u64::from(every) {
        every if every < 0x80 => every,
        every => (every & 0xf | 0x10) << ((every >> 4 & 7) + 3),
    };
    if robust & 7 != 0 {
        querier
            .robustness
            .store(u32::from(robust & 7).max(ROBUSTNESS), Relaxed);
    }
    if every != 0 {
        querier.interval.store(every * SECOND, Relaxed);
    }
    querier.response.store(most, Relaxed);
    if !group.is_unspecified() {
        answer_each(site, group, most);
    } else if sources == [0, 0] {
        let mut state = groups.lock();
        let reports = state.reports.change();
        let delay = reports.chance.below(site, CHANCE, most) + 2 * TICK;
        let next = chatter::after(site, delay, answer_all);
        if let Some(timer) = reports.general.replace(next) {
            site.stack.timers.cancel(timer);
        }
    }
}

/// Arms the timers of the groups that a query concerns (`igmp6_group_queried`).
fn answer_each(site: &Site<'_>, asked: Ipv6Addr, most: u64) {
    let mut state = site.device.ipv6().groups.lock();
    let State { list, reports, .. } = &mut *state;
    let reports = reports.change();
    let now = site.stack.clock.now();
    for group in list.iter_mut().rev().filter(|group| !group.is_silent()) {
        let address = group.address;
        if !(asked.is_unspecified() || asked == address)
            || group
                .timer
                .as_ref()
                .is_some_and(|timer| timer.time() < now + most)
        {
            continue;
        }
        let delay = reports.chance.below(site, CHANCE, most);
        let next = move |cx: &mut Cx<'_>, device: &Arc<Device>| report_again(cx, device, address);
        let next = Box::new(chatter::after(site, delay, next));
        if let Some(timer) = group.timer.replace(next) {
            site.stack.timers.cancel(*timer);
        }
    }
}

/// Reports all memberships in answer to a general query (`mld_gq_work`).
fn answer_all(cx: &mut Cx<'_>, device: &Arc<Device>) {
    let mut records = Vec::new();
    {
        let mut state = device.ipv6().groups.lock();
        if state.reports.change().general.take().is_none() {
            return;
        }
        let groups = state.list.iter().rev().filter(|group| !group.is_silent());
        records.extend(groups.map(|group| (MODE_IS_EXCLUDE, group.address)));
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
    let all = &device.namespace(cx.guard).conf().all.ipv6;
    let out = Outgoing {
        src,
        dst,
        hop_limit: 1,
        options: &ROUTER_ALERT,
        priority: PRIORITY,
        tag: None,
        // Members hear of it, and a multicast routing daemon (`mroute6_is_socket`).
        loops: is_member(device, dst, cx.guard) || all.on(Ipv6Conf::McForwarding),
    };
    super::nd::send(cx, device, &out, &message);
}
