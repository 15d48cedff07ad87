// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The ARP monitor (`bond_activebackup_arp_mon`, `bond_loadbalance_arp_mon`, `bond_rcv_validate`).
//!
//! Every `arp_interval` ms it sends ARP requests for the targets, in active-backup by the active port alone, and looks
//! when each port sent and received last. A link is down after `arp_missed_max` intervals without either. With
//! `arp_validate` only ARP packets between us and a target count as received. For IPv6 targets (`ns_ip6_target`) it sends
//! neighbour solicitations, and these and advertisements count (`bond_ns_send_all`, `bond_na_rcv`).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use weir_netlink::ifla::bond as attr;
use weir_netlink::rta;
use weir_packet::header::arp::{ARPOP_REPLY, ARPOP_REQUEST, arp};
use weir_packet::header::ethernet::{BROADCAST, ethernet};
use weir_packet::header::ipv6::IPPROTO_ICMPV6;
use weir_packet::header::ndisc::{
    ALL_NODES, NDISC_NEIGHBOUR_ADVERTISEMENT, NDISC_NEIGHBOUR_SOLICITATION, solicited_node,
};
use weir_packet::header::{Arp, ETH_P_ARP, ETH_P_IPV6, Ethernet, Icmp, Ipv6};
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
use crate::ipv6::{self, WithIpv6, nd};

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
        if self.params.get(attr::ARP_ALL_TARGETS) != options::ALL_TARGETS {
            return slave.times.received.load(Relaxed);
        }
        // As in Linux, the times of IPv6 targets but the first do not count.
        let count = self.params.lists().arp.len();
        let targets = slave.times.targets.iter().take(count.max(1));
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
        let lists = self.params.lists();
        for target in lists.arp {
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
        for target in lists.ns {
            let found = ipv6::output::route(ns, Ipv6Addr::UNSPECIFIED, target, 0, at.guard);
            let (source, tag) = match found {
                Err(_) => (None, None),
                Ok(route) => {
                    let Some(tag) = self.path_to(at, &master, route.device) else {
                        continue;
                    };
                    let out = Some(&**route.device);
                    (ipv6::select::select_address(ns, out, target, at.guard), tag)
                }
            };
            let source = source.unwrap_or(Ipv6Addr::UNSPECIFIED);
            slave.times.sent.store(cx.now, Relaxed);
            nd::solicit_by_port(cx, &slave.device, (source, target), tag);
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
            let may_count = matches!(packet.protocol, ETH_P_ARP | ETH_P_IPV6);
            if !checks {
                if validate & FILTER == 0 || may_count {
                    slave.times.received.store(cx.now, Relaxed);
                }
            } else if may_count && let Some(found) = Probe::of(packet) {
                self.validate(cx, at, slave, found);
            }
        }
    }

    /// `bond_arp_rcv`, `bond_na_rcv`
    fn validate(&self, cx: &Cx<'_>, at: At<'_>, slave: &Arc<Slave>, found: Probe) {
        let (from, to) = found.ends;
        let clock = Clock {
            now: cx.now,
            interval: self.arp_interval(),
        };
        let answers = |active: &&Arc<Slave>| {
            self.last_received(active) as i64 > active.times.up.load(Relaxed) as i64
        };
        if !slave.is_backup() {
            self.note_target(cx, at, slave, (from, to));
        } else if self.active(at.guard).filter(answers).is_some() {
            self.note_target(cx, at, slave, (to, from));
        } else if let Some(candidate) = self.candidate.load(at.guard)
            && found.may_answer
            && clock.is_recent(candidate.times.sent.load(Relaxed), 1)
        {
            self.note_target(cx, at, slave, (from, to));
        }
    }

    /// `bond_validate_arp`, `bond_validate_na`
    fn note_target(&self, cx: &Cx<'_>, at: At<'_>, slave: &Slave, (target, own): (IpAddr, IpAddr)) {
        let lists = self.params.lists();
        let number = match target {
            IpAddr::V4(target) => lists.arp.iter().position(|one| *one == target),
            // A solicitation for a target is to its group.
            IpAddr::V6(target) => lists
                .ns
                .iter()
                .position(|one| *one == target || solicited_node(one.octets()) == target.octets()),
        };
        let Some(number) = number else { return };
        let Some(master) = self.device() else { return };
        let ns = master.namespace(at.guard);
        let has = |device: &Arc<Device>| {
            let found = match own {
                IpAddr::V4(own) => {
                    let (scope, any) = (rta::scope::HOST, Ipv4Addr::UNSPECIFIED);
                    select::confirm_address(ns, Some(device), any, own, scope, at.guard).is_some()
                }
                IpAddr::V6(own) => {
                    let list = &device.ipv6().addresses;
                    own.octets() == ALL_NODES
                        || list
                            .get(own, at.guard)
                            .is_some_and(|own| !own.is_tentative())
                }
            };
            found && self.path_to(at, &master, device).is_some()
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

/// A packet that may be a target's answer, or a copy of what another port asked.
struct Probe {
    /// The sender and the receiver.
    ends: (IpAddr, IpAddr),
    /// It may be an answer.
    may_answer: bool,
}

impl Probe {
    /// Reads a received frame.
    fn of(packet: &Packet) -> Option<Self> {
        let body = packet.data().get(Ethernet::LEN..)?;
        let kind = packet.pkt_type();
        if packet.protocol == ETH_P_ARP {
            let head = Arp::new(body)?;
            let is_ours = head.is_ethernet_ipv4() && kind != PacketType::OtherHost;
            return is_ours.then(|| Self {
                ends: (
                    Ipv4Addr::from(head.sip()).into(),
                    Ipv4Addr::from(head.tip()).into(),
                ),
                may_answer: head.op() == ARPOP_REPLY,
            });
        }
        let head = Ipv6::new(body)?;
        let message = Icmp::new(body.get(Ipv6::LEN..)?)?.icmp_type();
        let (from, to) = (Ipv6Addr::from(head.src()), Ipv6Addr::from(head.dst()));
        let is_ours = head.next_header() == IPPROTO_ICMPV6
            && matches!(
                message,
                NDISC_NEIGHBOUR_SOLICITATION | NDISC_NEIGHBOUR_ADVERTISEMENT
            )
            && !matches!(kind, PacketType::OtherHost | PacketType::Loopback);
        is_ours.then(|| Self {
            ends: (from.into(), to.into()),
            may_answer: true,
        })
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
