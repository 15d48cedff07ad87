// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The ARP monitor (`bond_activebackup_arp_mon`, `bond_loadbalance_arp_mon`, `bond_rcv_validate`).
//!
//! Every `arp_interval` ms it sends ARP requests for the targets, in active-backup by the active port alone, and looks
//! when each port sent and received last. A link is down after `arp_missed_max` intervals without either. With
//! `arp_validate` only ARP packets between us and a target count as received. IPv6 targets (`ns_ip6_target`) are
//! refused together with an interval.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use weir_netlink::ifla::bond as attr;
use weir_netlink::rta;
use weir_packet::header::arp::{ARPOP_REPLY, ARPOP_REQUEST, arp};
use weir_packet::header::ethernet::{BROADCAST, ethernet};
use weir_packet::header::{Arp, ETH_P_ARP, Ethernet};
use weir_packet::{Batch, DropReason, Flags, Packet, PacketType, VlanTag};

use super::options::{self, mode};
use super::slave::{Slave, link};
use super::{At, Bond};
use crate::clock::MILLISECOND;
use crate::cpu::Cx;
use crate::device::Device;
use crate::drops::Place;
use crate::ipv4::route::{self, Wanted};
use crate::ipv4::select;

/// `BOND_ARP_FILTER`
const FILTER: u32 = 4;

/// The length of an interval, and the present, in ns.
#[derive(Clone, Copy)]
struct Clock {
    now: u64,
    interval: u64,
}

impl Clock {
    /// Returns whether something happened less than `count` and a half intervals ago (`bond_time_in_interval`).
    fn is_recent(&self, time: u64, count: u64) -> bool {
        let (now, step) = (self.now as i128, i128::from(self.interval));
        let time = i128::from(time as i64);
        (time - step..=time + i128::from(count) * step + step / 2).contains(&now)
    }
}

fn same(one: Option<&Arc<Slave>>, other: &Arc<Slave>) -> bool {
    one.is_some_and(|one| Arc::ptr_eq(one, other))
}

impl Bond {
    /// Returns the interval of the ARP monitor in ns, or 0.
    pub fn arp_interval(&self) -> u64 {
        u64::from(self.params.get(attr::ARP_INTERVAL)) * MILLISECOND
    }

    fn missed(&self) -> u64 {
        u64::from(self.params.get(attr::MISSED_MAX))
    }

    /// `slave_last_rx`
    fn last_received(&self, slave: &Slave) -> u64 {
        let count = self.params.lists().arp.len();
        if self.params.get(attr::ARP_ALL_TARGETS) != options::ALL_TARGETS || count == 0 {
            return slave.times.received.load(Relaxed);
        }
        let targets = slave.times.targets.iter().take(count);
        let times = targets.map(|target| target.load(Relaxed));
        times.min_by_key(|time| *time as i64).unwrap_or(0)
    }

    /// One round of the monitor.
    pub fn arp_round(&self, cx: &mut Cx<'_>, at: At<'_>) {
        let clock = Clock {
            now: cx.now,
            interval: self.arp_interval(),
        };
        if self.slaves(at.guard).is_empty() {
            return;
        }
        if self.params.mode() != mode::ACTIVE_BACKUP {
            return self.balanced_round(cx, at, clock);
        }
        let notices = self.has_notice(at.guard);
        let changes = self.arp_inspect(at, clock);
        if !changes.is_empty() {
            self.arp_commit(at, clock, &changes);
        }
        self.arp_probe(cx, at);
        if notices && let Some(master) = self.device() {
            // Only this timer and a failover, which sets the number, change it.
            let _ = self
                .notices
                .fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1));
            crate::notify_peers(at.stack, at.guard, &master);
        }
    }

    /// `bond_loadbalance_arp_mon`
    fn balanced_round(&self, cx: &mut Cx<'_>, at: At<'_>, clock: Clock) {
        let active = self.active(at.guard);
        let (mut failover, mut changes) = (false, Vec::new());
        for slave in self.slaves(at.guard) {
            let sent = slave.times.sent.load(Relaxed);
            let received = slave.times.received.load(Relaxed);
            let heard = |count| clock.is_recent(sent, count) && clock.is_recent(received, count);
            if !slave.has_link() {
                if heard(1) {
                    changes.push((slave, link::UP));
                    failover |= active.is_none();
                }
            } else if !heard(self.missed()) {
                changes.push((slave, link::DOWN));
                slave.failures.fetch_add(1, Relaxed);
                failover |= same(active, slave);
            }
            if slave.is_running(at.stack) {
                self.ask_targets(cx, at, slave);
            }
        }
        for (slave, state) in &changes {
            slave.set_link_quietly(*state);
        }
        if !changes.is_empty() {
            for slave in self.slaves(at.guard) {
                match slave.link() {
                    link::UP => slave.set_backup(at, false),
                    link::DOWN => slave.set_backup(at, true),
                    _ => {}
                }
            }
            self.update_usable(at);
        }
        if failover {
            self.select_active(at);
        }
    }

    /// Returns the ports whose links change, and how (`bond_ab_arp_inspect`).
    fn arp_inspect(&self, at: At<'_>, clock: Clock) -> Vec<(Arc<Slave>, u8)> {
        let searching = self.candidate.load(at.guard).is_some();
        let mut changes = Vec::new();
        for slave in self.slaves(at.guard) {
            let received = self.last_received(slave);
            if !slave.has_link() {
                if clock.is_recent(received, 1) {
                    changes.push((slave.clone(), link::UP));
                } else if slave.link() == link::BACK {
                    changes.push((slave.clone(), link::FAIL));
                }
                continue;
            }
            if clock.is_recent(slave.times.up.load(Relaxed), 2) {
                continue;
            }
            let missed = self.missed();
            let silent = match slave.is_backup() {
                true => !searching && !clock.is_recent(received, missed + 1),
                false => {
                    let sent = slave.times.sent.load(Relaxed);
                    !clock.is_recent(sent, missed) || !clock.is_recent(received, missed)
                }
            };
            if silent {
                changes.push((slave.clone(), link::DOWN));
            }
        }
        changes
    }

    /// `bond_ab_arp_commit`
    fn arp_commit(&self, at: At<'_>, clock: Clock, changes: &[(Arc<Slave>, u8)]) {
        let mut failover = false;
        for (slave, state) in changes {
            let active = self.active(at.guard);
            match *state {
                link::UP => {
                    let sent = clock.is_recent(slave.times.sent.load(Relaxed), 1);
                    if same(active, slave) && !(active.is_none() && sent) {
                        continue;
                    }
                    slave.set_link(at, link::UP);
                    if let Some(candidate) = self.candidate.load(at.guard) {
                        self.set_inactive_flags(at, candidate);
                        self.candidate.replace(None);
                    }
                    let prio = |slave: &Slave| slave.prio.load(Relaxed);
                    failover |= same(self.primary(at.guard), slave)
                        || active.is_none_or(|active| prio(slave) > prio(active));
                }
                link::DOWN => {
                    slave.failures.fetch_add(1, Relaxed);
                    slave.set_link(at, link::DOWN);
                    self.set_inactive_flags(at, slave);
                    if same(active, slave) {
                        self.candidate.replace(None);
                        failover = true;
                    }
                }
                state => {
                    slave.set_link(at, state);
                    self.set_inactive_flags(at, slave);
                    if active.is_some() {
                        self.candidate.replace(None);
                    }
                }
            }
        }
        if failover {
            self.select_active(at);
        }
        self.set_carrier(at);
    }

    /// Asks the targets by the active port, or by the next port that may become it (`bond_ab_arp_probe`).
    fn arp_probe(&self, cx: &mut Cx<'_>, at: At<'_>) {
        if let Some(active) = self.active(at.guard) {
            return self.ask_targets(cx, at, active);
        }
        let slaves = self.slaves(at.guard);
        let candidate = self.candidate.load(at.guard).or(slaves.first());
        let (mut before, mut next, mut found) = (None, None, false);
        for slave in slaves {
            let running = slave.is_running(at.stack);
            if running && !found && before.is_none() {
                before = Some(slave);
            }
            if running && found && next.is_none() {
                next = Some(slave);
            }
            if !running && slave.has_link() {
                slave.set_link(at, link::DOWN);
                slave.failures.fetch_add(1, Relaxed);
                self.set_inactive_flags(at, slave);
            }
            found |= same(candidate, slave);
        }
        let Some(new) = next.or(before) else { return };
        slave_becomes_candidate(self, at, new);
        self.ask_targets(cx, at, new);
        self.candidate.replace(Some(new.clone()));
    }

    /// Sends a request for each target that is reached by the bond (`bond_arp_send_all`).
    fn ask_targets(&self, cx: &mut Cx<'_>, at: At<'_>, slave: &Arc<Slave>) {
        let Some(master) = self.device() else { return };
        let ns = master.namespace(at.guard);
        for target in self.params.lists().arp {
            let wanted = Wanted {
                dst: target,
                src: None,
                tos: 0,
                mark: 0,
                proto: 0,
            };
            let (source, tag) = match route::output(ns, &wanted, at.guard) {
                Err(_) => (None, None),
                Ok(route) => {
                    let Some(tag) = self.path_to(at, &master, route.hop.device) else {
                        continue;
                    };
                    let source = select::confirm_address(
                        ns,
                        Some(route.hop.device),
                        target,
                        Ipv4Addr::UNSPECIFIED,
                        rta::scope::UNIVERSE,
                        at.guard,
                    );
                    (source, tag)
                }
            };
            let source = source.unwrap_or(Ipv4Addr::UNSPECIFIED);
            slave.times.sent.store(cx.now, Relaxed);
            send(cx, &slave.device, (source, target), tag);
        }
    }

    /// Returns the tag of a packet that leaves by the bond for a device above it, or `None` if the device is not above
    /// the bond (`bond_verify_device_path`).
    fn path_to(
        &self,
        at: At<'_>,
        master: &Arc<Device>,
        out: &Arc<Device>,
    ) -> Option<Option<VlanTag>> {
        let is_ours = |device: &Arc<Device>| {
            let above = master.master(at.guard);
            Arc::ptr_eq(device, master) || above.is_some_and(|above| Arc::ptr_eq(above, device))
        };
        if is_ours(out) {
            return Some(None);
        }
        let tag = crate::vlan::tag_of(out)?;
        let (ns, index) = out.link.lower(at.stack)?;
        let lower = at.stack.namespace(ns)?.device(index, at.guard)?.clone();
        is_ours(&lower).then_some(Some(tag))
    }

    /// Notes when a port received something that counts (`bond_rcv_validate`).
    pub fn note_received(&self, cx: &Cx<'_>, slave: &Arc<Slave>, batch: &Batch) {
        let at = At {
            stack: cx.stack,
            guard: cx.guard,
        };
        let validate = self.params.get(attr::ARP_VALIDATE);
        let checks = validate & 1 << u32::from(slave.is_backup()) != 0;
        for packet in batch.iter() {
            let is_arp = packet.protocol == ETH_P_ARP;
            if !checks {
                if validate & FILTER == 0 || is_arp {
                    slave.times.received.store(cx.now, Relaxed);
                }
            } else if is_arp {
                self.validate(cx, at, slave, packet);
            }
        }
    }

    /// `bond_arp_rcv`
    fn validate(&self, cx: &Cx<'_>, at: At<'_>, slave: &Arc<Slave>, packet: &Packet) {
        let body = packet.data().get(Ethernet::LEN..).and_then(Arp::new);
        let Some(head) = body else { return };
        if !head.is_ethernet_ipv4() || packet.pkt_type() == PacketType::OtherHost {
            return;
        }
        let (sip, tip) = (Ipv4Addr::from(head.sip()), Ipv4Addr::from(head.tip()));
        let clock = Clock {
            now: cx.now,
            interval: self.arp_interval(),
        };
        let answers = |active: &&Arc<Slave>| {
            self.last_received(active) as i64 > active.times.up.load(Relaxed) as i64
        };
        if !slave.is_backup() {
            self.note_target(cx, at, slave, (sip, tip));
        } else if self.active(at.guard).filter(answers).is_some() {
            self.note_target(cx, at, slave, (tip, sip));
        } else if let Some(candidate) = self.candidate.load(at.guard)
            && head.op() == ARPOP_REPLY
            && clock.is_recent(candidate.times.sent.load(Relaxed), 1)
        {
            self.note_target(cx, at, slave, (sip, tip));
        }
    }

    /// `bond_validate_arp`
    fn note_target(
        &self,
        cx: &Cx<'_>,
        at: At<'_>,
        slave: &Slave,
        (target, own): (Ipv4Addr, Ipv4Addr),
    ) {
        let targets = self.params.lists().arp;
        let Some(number) = targets.iter().position(|one| *one == target) else {
            return;
        };
        let Some(master) = self.device() else { return };
        let ns = master.namespace(at.guard);
        let has = |device: &Arc<Device>| {
            let scope = rta::scope::HOST;
            let any = Ipv4Addr::UNSPECIFIED;
            let found = select::confirm_address(ns, Some(device), any, own, scope, at.guard);
            found.is_some() && self.path_to(at, &master, device).is_some()
        };
        let above = |device: &&Arc<Device>| self.path_to(at, &master, device).is_some();
        if has(&master) || ns.all_devices().iter().filter(above).any(has) {
            slave.times.received.store(cx.now, Relaxed);
            if let Some(time) = slave.times.targets.get(number) {
                time.store(cx.now, Relaxed);
            }
        }
    }
}

/// Lets frames pass a port whose link is not known to be up.
fn slave_becomes_candidate(bond: &Bond, at: At<'_>, slave: &Slave) {
    slave.set_link(at, link::BACK);
    bond.set_active_flags(at, slave);
}

/// Sends an ARP request by a port (`bond_arp_send`).
fn send(
    cx: &mut Cx<'_>,
    device: &Arc<Device>,
    (source, target): (Ipv4Addr, Ipv4Addr),
    tag: Option<VlanTag>,
) {
    let own = device.address();
    let mut frame = ethernet(BROADCAST, own, ETH_P_ARP).to_vec();
    let (source, target) = (source.octets(), target.octets());
    frame.extend_from_slice(&arp(ARPOP_REQUEST, own, source, [0; 6], target));
    let Some(mut packet) = cx.stack.pool.packet(&frame) else {
        return device.count_drop(Place::Transmit, DropReason::NOMEM);
    };
    packet.reset_mac();
    packet.set_network(Ethernet::LEN);
    packet.protocol = ETH_P_ARP;
    packet.set_vlan(tag);
    packet.flags.insert(Flags::LOCAL);
    packet.set_pkt_type(PacketType::Outgoing);
    packet.time = cx.now;
    (packet.dev, packet.iif) = (device.key.0, 0);
    cx.transmit(device, Batch::from(packet));
}
