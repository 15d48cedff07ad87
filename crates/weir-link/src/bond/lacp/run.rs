// SPDX-License-Identifier: Apache-2.0 OR MIT
//! LACP of a bond: its timer, its frames, and what becomes of its decisions.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use weir_netlink::Writer;
use weir_netlink::ifla::bond as attr;
use weir_packet::header::Ethernet;
use weir_packet::{Batch, DropReason, Flags, Packet, PacketType};

use super::count::Count;
use super::pdu::{Heard, SLOW_PROTOCOLS};
use super::{Action, INTERVAL_MS, Lacp, Look, Setup};
use crate::clock::{Holds, MILLISECOND};
use crate::cpu::Cx;
use crate::device::{Device, DeviceKey};
use crate::drops::Place;
use crate::stack::Stack;

use super::super::options::mode;
use super::super::slave::Slave;
use super::super::{At, Bond};

/// `TC_PRIO_CONTROL`
const PRIORITY: u32 = 7;

impl Slave {
    /// Returns what LACP asks of a port.
    pub fn look(&self, stack: &Stack) -> Look {
        Look {
            has_link: self.has_link(),
            running: self.is_running(stack),
            open: !self.is_backup(),
            speed: self.speed.load(Relaxed),
            duplex: self.duplex.load(Relaxed),
        }
    }
}

impl Bond {
    /// Returns whether the mode is 802.3ad.
    pub fn uses_lacp(&self) -> bool {
        self.params().mode() == mode::AD
    }

    /// Changes the state of LACP, and does what it decides. Does nothing in other modes.
    pub fn with_lacp(&self, at: At<'_>, change: impl FnOnce(&mut Lacp, &Setup)) {
        let Some(device) = self.device().filter(|_| self.uses_lacp()) else {
            return;
        };
        let setup = Setup::of(self.params(), device.address());
        let slaves = self.slaves(at.guard).iter();
        let looks = slaves.map(|slave| (slave.device.key, slave.look(at.stack)));
        let looks: Vec<(DeviceKey, Look)> = looks.collect();
        let actions = {
            let mut lacp = self.lacp.lock();
            lacp.look(setup.select, |key| {
                let found = looks.iter().find(|(other, _)| *other == key);
                found.map(|(_, look)| *look)
            });
            change(&mut lacp, &setup);
            lacp.take_actions()
        };
        self.act(at, actions);
    }

    /// Reads the state of LACP.
    pub fn read_lacp<T>(&self, read: impl FnOnce(&Lacp) -> T) -> T {
        read(&self.lacp.lock())
    }

    /// Returns the attributes of `LINK_XSTATS_TYPE_BOND` of a port, or those of the bond itself
    /// (`bond_fill_linkxstats`).
    pub fn lacp_counts(&self, of: &Device) -> Vec<u8> {
        let port = self.device().is_none_or(|device| device.key != of.key);
        let mut out = Writer::new();
        if self.uses_lacp() {
            let counts = self.read_lacp(|lacp| lacp.counts(port.then_some(of.key)));
            counts.fill(&mut out);
        }
        out.into_vec()
    }

    /// Does what LACP decided.
    fn act(&self, at: At<'_>, actions: Vec<Action>) {
        let find = |key| {
            let mut slaves = self.slaves(at.guard).iter();
            slaves.find(move |slave| slave.device.key == key)
        };
        for action in actions {
            match action {
                Action::Enable(key) => {
                    if let Some(slave) = find(key) {
                        self.set_active_flags(at, slave);
                    }
                }
                Action::Disable(key) => {
                    if let Some(slave) = find(key) {
                        self.set_inactive_flags(at, slave);
                    }
                }
                Action::Send(key, frame) => {
                    if let Some(slave) = find(key) {
                        send(at.stack, &slave.device, frame);
                    }
                }
            }
        }
        self.update_usable(at);
        self.set_carrier(at);
    }

    /// Returns whether the active aggregator has enough ports (`bond_3ad_set_carrier`).
    pub fn has_aggregator(&self) -> bool {
        let least = self.params().get(attr::MIN_LINKS);
        let lacp = self.lacp.lock();
        lacp.active()
            .is_some_and(|(_, live)| u32::from(live) >= least)
    }

    /// Returns the ports of the active aggregator, if the mode has one.
    pub fn aggregated(&self) -> Option<Vec<DeviceKey>> {
        if !self.uses_lacp() {
            return None;
        }
        let lacp = self.lacp.lock();
        let ports = lacp.active().map(|(active, _)| active.ports.clone());
        Some(ports.unwrap_or_default())
    }

    /// Starts the machines of LACP in a bond that is up, or stops them.
    pub fn start_lacp(&self, at: At<'_>) {
        let up = self.device().is_some_and(|device| device.is_up());
        match up && self.uses_lacp() {
            true => self.arm_lacp(at.stack, at.stack.clock.now()),
            false => self.stop_lacp(at.stack),
        }
    }

    /// Stops the machines.
    pub fn stop_lacp(&self, stack: &Stack) {
        if let Some(timer) = self.lacp_timer.lock().take() {
            stack.timers.cancel(timer);
        }
    }

    fn arm_lacp(&self, stack: &Stack, time: u64) {
        let own = self.own.clone();
        let job = move |cx: &mut Cx<'_>| {
            if let Some(bond) = own.upgrade() {
                bond.lacp_tick(cx);
            }
        };
        let timer = stack.arm(time, Holds::Nothing, Box::new(job));
        if let Some(old) = self.lacp_timer.lock().replace(timer) {
            stack.timers.cancel(old);
        }
    }

    /// One interval of the machines.
    fn lacp_tick(&self, cx: &Cx<'_>) {
        let at = At {
            stack: cx.stack,
            guard: cx.guard,
        };
        if self.device().is_some_and(|device| device.is_up()) && self.uses_lacp() {
            self.arm_lacp(cx.stack, cx.now + INTERVAL_MS * MILLISECOND);
            self.with_lacp(at, |lacp, _| lacp.tick());
        }
    }

    /// Takes the frames of LACP out of those that a port received (`bond_3ad_lacpdu_recv`).
    pub fn probe_lacp(&self, cx: &mut Cx<'_>, slave: &Slave, batch: Batch) -> Batch {
        let slow = |packet: &Packet| packet.protocol == SLOW_PROTOCOLS;
        let up = self.device().is_some_and(|device| device.is_up());
        if !up || !batch.iter().any(slow) {
            return batch;
        }
        let mut rest = Batch::new();
        for packet in batch {
            let heard = match slow(&packet) {
                true => Heard::read(packet.data(), slave.permanent),
                false => None,
            };
            let key = slave.device.key;
            let count = match &heard {
                Some(Heard::Marker(_)) => Some(Count::MarkerRx),
                Some(Heard::Answer) => Some(Count::MarkerRespRx),
                Some(Heard::UnknownMarker) => Some(Count::MarkerUnknownRx),
                Some(Heard::Unknown) => Some(Count::LacpduUnknownRx),
                Some(Heard::Short) => Some(Count::LacpduIllegalRx),
                Some(Heard::Pdu(_)) | None => None,
            };
            if let Some(count) = count {
                self.lacp.lock().count(key, count);
            }
            match heard {
                Some(Heard::Pdu(pdu)) => self.lacp.lock().received(key, &pdu),
                Some(Heard::Marker(answer)) => {
                    self.lacp.lock().count(key, Count::MarkerRespTx);
                    send(cx.stack, &slave.device, answer);
                }
                Some(Heard::Answer | Heard::UnknownMarker) => {}
                Some(Heard::Unknown | Heard::Short) | None => {
                    // There is room: the part is no larger than the batch it is taken from.
                    drop(rest.push(packet));
                    continue;
                }
            }
            cx.consume(packet);
        }
        rest
    }
}

/// Sends a frame of LACP by a port (`ad_lacpdu_send`).
fn send(stack: &Stack, device: &Arc<Device>, frame: Vec<u8>) {
    let device = device.clone();
    stack.post(Box::new(move |cx: &mut Cx<'_>| {
        let Some(mut packet) = cx.stack.pool.packet(&frame) else {
            return device.count_drop(Place::Transmit, DropReason::NOMEM);
        };
        packet.reset_mac();
        packet.set_network(Ethernet::LEN);
        packet.protocol = SLOW_PROTOCOLS;
        packet.priority = PRIORITY;
        packet.flags.insert(Flags::LOCAL);
        packet.set_pkt_type(PacketType::Outgoing);
        packet.time = cx.now;
        (packet.dev, packet.iif) = (device.key.0, 0);
        cx.transmit(&device, Batch::from(packet));
    }));
}
