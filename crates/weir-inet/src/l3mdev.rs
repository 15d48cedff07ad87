// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a VRF sees of the packets that its ports receive (`vrf_ip_rcv`, `vrf_ip6_rcv` of `drivers/net/vrf.c`): it
//! counts them, and its observers get them. The packets themselves stay with the port, whose table
//! ([`Device::l3_table`]) the look-up uses.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use weir_packet::{Batch, Packet};

use crate::cpu::Cx;
use crate::device::{Device, Direction, Taps};

/// Returns the VRF whose port a device is.
#[inline]
pub fn of_port<'g>(cx: &Cx<'g>, device: &'g Arc<Device>) -> Option<&'g Arc<Device>> {
    let master = device.l3_master(cx.guard)?;
    (!Arc::ptr_eq(master, device)).then_some(master)
}

/// Shows frames that a port received to the observers of its VRF, except those to groups. The frames begin with
/// their Ethernet header.
pub fn observe(cx: &Cx<'_>, vrf: &Device, batch: &Batch) {
    let observers = vrf.observers(cx.guard);
    if observers.is_empty() {
        return;
    }
    let group = |packet: &Packet| packet.data().first().is_none_or(|first| first & 1 != 0);
    for packet in batch.iter().filter(|packet| !group(packet)) {
        let taps = Taps {
            device: vrf,
            direction: Direction::Rx,
            time: cx.now,
            packets: std::slice::from_ref(packet),
            trace: &cx.stack.trace,
            cpu: cx.state.id,
            guard: cx.guard,
        };
        observers.iter().for_each(|one| one.frames(&taps));
    }
}

/// Counts packets of a port at its VRF. Their lengths are without the Ethernet header.
pub fn count(cx: &Cx<'_>, vrf: &Device, lengths: impl Iterator<Item = usize>) {
    let (mut packets, mut octets) = (0, 0);
    for len in lengths {
        packets += 1;
        octets += len as u64;
    }
    if packets > 0 {
        let stats = vrf.stats(cx.state.id);
        stats.rx_packets.fetch_add(packets, Relaxed);
        stats.rx_bytes.fetch_add(octets, Relaxed);
    }
}
