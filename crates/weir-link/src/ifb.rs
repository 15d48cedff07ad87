// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `ifb`: the intermediate functional block. Packets that an action redirected to it pass through
//! its qdisc and filters and then continue on their original path (`drivers/net/ifb.c`). It has no
//! parameters.
//!
//! A packet that arrives in any other way is dropped. Frames taken from an ingress return to the
//! receive path of that device, frames taken from an egress to its transmit path. Neither is
//! classified there a second time.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use weir_netlink::ifla::iff;
use weir_netlink::{Error, errno};
use weir_packet::{Batch, DropReason, Flags};

use crate::cpu::Cx;
use crate::device::{Device, Mac, NewDevice};
use crate::drops::Place;
use crate::features::{Offer, bit};
use crate::request::Ctl;
use crate::{Kind, Link, NewLink, ethernet, register};

/// The `ifb` link kind.
pub static KIND: Kind = Kind {
    name: "ifb",
    pattern: "ifb%d",
    create: Ok(create),
    validate: None,
};

/// The default transmit queue length in packets (`TX_Q_LIMIT`).
const QUEUE: u32 = 32;

struct Ifb;

fn create(ctl: &mut Ctl<'_>, new: NewLink<'_>) -> Result<Arc<Device>, Error> {
    let device = ethernet(Box::new(Ifb), &new.ns, &new, iff::NOARP);
    let device = NewDevice {
        flags: device.flags & !iff::MULTICAST,
        txqlen: new.txqlen.unwrap_or(QUEUE),
        ..device
    };
    register(
        ctl.stack,
        &new.ns,
        device,
        new.ifindex,
        new.group.unwrap_or(0),
    )
}

impl Link for Ifb {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn features(&self) -> Offer {
        let active = bit::HW_CSUM
            | bit::SG
            | bit::FRAGLIST
            | bit::GSO_SOFTWARE
            | bit::GSO_ENCAP_ALL
            | bit::HIGHDMA
            | bit::HW_VLAN_CTAG_TX
            | bit::HW_VLAN_STAG_TX;
        Offer {
            active,
            changeable: active,
            vlan: active & !bit::VLAN_ACCELERATION,
            off: 0,
        }
    }

    fn driver_stats(&self, device: &Device) -> Vec<(String, u64)> {
        // The counters are those of the device, which has one set for all queues.
        let totals = device.totals();
        let mut list = Vec::new();
        let counts = [
            ("rx", totals.rx_packets, totals.rx_bytes),
            ("tx", totals.tx_packets, totals.tx_bytes),
        ];
        for (way, packets, bytes) in counts {
            for queue in 0..device.tx_queues() {
                let first = queue == 0;
                let count = |value| if first { value } else { 0 };
                list.push((format!("{way}_queue_{queue}_packets"), count(packets)));
                list.push((format!("{way}_queue_{queue}_bytes"), count(bytes)));
            }
        }
        list
    }

    fn check_address(&self, _mac: &Mac) -> Result<(), Error> {
        Err(Error::new(errno::EOPNOTSUPP))
    }

    fn has_filter(&self) -> bool {
        false
    }

    fn mtu_bounds(&self) -> (u32, u32) {
        (0, 0)
    }

    fn no_queue(&self) -> bool {
        false
    }

    fn transmit(&self, cx: &mut Cx<'_>, device: &Arc<Device>, batch: Batch) {
        let stats = device.stats(cx.state.id);
        let ns = device.namespace(cx.guard);
        for mut packet in batch {
            let from = ns
                .device(packet.iif, cx.guard)
                .filter(|_| packet.flags.contains(Flags::REDIRECTED));
            let Some(from) = from else {
                stats.rx_dropped.fetch_add(1, Relaxed);
                cx.drop(device, Place::Transmit, DropReason::DEV_READY, packet);
                continue;
            };
            stats.rx_packets.fetch_add(1, Relaxed);
            stats.rx_bytes.fetch_add(packet.len() as u64, Relaxed);
            let from_ingress = packet.flags.contains(Flags::FROM_INGRESS);
            packet.flags.remove(Flags::REDIRECTED);
            packet.flags.insert(Flags::SKIP_CLASSIFY);
            cx.resume_later(from, packet, from_ingress);
        }
    }
}
