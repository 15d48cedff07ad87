// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs the steps of the spanning tree protocol: the lock of its variables, its timer, and what follows from a step.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use weir_netlink::rtm;
use weir_packet::{Batch, Flags, PacketType};
use weir_sync::rcu::Guard;

use super::{BridgeView, Effect, Step, View};
use crate::bridge::Bridge;
use crate::bridge::port::Port;
use crate::clock::Holds;
use crate::cpu::Cx;
use crate::stack::Stack;

/// The skb priority of BPDUs (`TC_PRIO_CONTROL`).
const PRIORITY: u32 = 7;

impl Bridge {
    /// Runs one step, and carries out what follows.
    pub fn step<R>(
        &self,
        stack: &Stack,
        guard: &Guard,
        work: impl FnOnce(&mut Step<'_>) -> R,
    ) -> R {
        let up = self.device().is_some_and(|device| device.is_up());
        let (result, effects) = {
            let mut stp = self.stp.lock();
            let mut step = Step {
                stp: &mut stp,
                now: stack.clock.now(),
                up,
                out: Vec::new(),
            };
            let result = work(&mut step);
            let effects = step.out;
            let next = stp.next();
            if next != stp.armed.map(|timer| timer.time()) {
                if let Some(old) = stp.armed.take() {
                    stack.timers.cancel(old);
                }
                stp.armed = next.map(|time| self.arm_stp(stack, time));
            }
            (result, effects)
        };
        for effect in effects {
            self.carry_out(stack, guard, effect);
        }
        result
    }

    fn arm_stp(&self, stack: &Stack, time: u64) -> crate::clock::TimerId {
        let weak = self.me.clone();
        let job = move |cx: &mut Cx<'_>| {
            let Some(bridge) = weak.upgrade() else { return };
            bridge.stp.lock().armed = None;
            bridge.step(cx.stack, cx.guard, |step| step.expire());
        };
        stack.arm(time, Holds::Nothing, Box::new(job))
    }

    fn carry_out(&self, stack: &Stack, guard: &Guard, effect: Effect) {
        match effect {
            Effect::Send(port, octets) => self.send_bpdu(stack, port, octets),
            Effect::Announce(port, view) => {
                self.announce_as((stack, guard), &port, &view, rtm::NEWLINK);
            }
            Effect::Flush(number) => self.flush(stack, guard, Some(number)),
            Effect::Snoop(number, on) => {
                self.snoop_step(stack, guard, |step| step.toggle_port(number, on));
            }
            Effect::Follow(port) => self.follow_state(guard, &port),
            Effect::Carrier(live) => self.set_carrier(stack, guard, live),
            Effect::Ageing(change, delay) => {
                self.settings.set_change(change.then_some(delay));
            }
        }
    }

    /// Sends a BPDU by a port (`br_send_bpdu`).
    fn send_bpdu(&self, stack: &Stack, port: Arc<Port>, octets: Vec<u8>) {
        let group = [0x01, 0x80, 0xc2, 0, 0, self.settings.group_octet()];
        stack.post(Box::new(move |cx: &mut Cx<'_>| {
            let device = &port.device;
            let mut bytes = Vec::with_capacity(64);
            bytes.extend_from_slice(&group);
            bytes.extend_from_slice(&device.address());
            bytes.extend_from_slice(&(octets.len() as u16).to_be_bytes());
            bytes.extend_from_slice(&octets);
            let Some(mut packet) = cx.stack.pool.packet(&bytes) else {
                return;
            };
            packet.reset_mac();
            packet.set_network(14);
            // `ETH_P_802_2`
            packet.protocol = 4;
            packet.priority = PRIORITY;
            packet.flags.insert(Flags::LOCAL);
            packet.set_pkt_type(PacketType::Outgoing);
            packet.time = cx.now;
            packet.iif = 0;
            packet.dev = device.key.0;
            cx.transmit(device, Batch::from(packet));
        }));
    }

    /// Returns what the attributes of a port show.
    pub fn stp_view(&self, stack: &Stack, port: &Port) -> View {
        self.stp.lock().view(port, stack.clock.now())
    }

    /// Returns what the attributes of the bridge show.
    pub fn stp_bridge_view(&self, stack: &Stack) -> BridgeView {
        self.stp.lock().bridge_view(stack.clock.now())
    }

    /// Derives the carrier of the bridge.
    fn set_carrier(&self, stack: &Stack, guard: &Guard, live: bool) {
        if self.no_carrier.swap(!live, Relaxed) == live
            && let Some(device) = self.device()
        {
            device.count_carrier_change(live);
            if device.is_up() {
                crate::carrier_changed(stack, guard, &device);
            } else {
                device.watch_carrier(|| live);
                crate::settle_operstate(&device);
            }
        }
    }
}
