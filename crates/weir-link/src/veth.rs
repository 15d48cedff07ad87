// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `veth`: a pair of Ethernet devices; each receives what the other sends (`drivers/net/veth.c`).
//!
//! `IFLA_INFO_DATA` holds `VETH_INFO_PEER`: an `ifinfomsg` and link attributes for the peer (name,
//! address, mtu, namespace...). Without it, the peer has the same settings as the first device,
//! except for its address and its name, which is the next free `veth%d`. A device has a carrier
//! while both ends are up. Deleting one end deletes both.

use std::sync::{Arc, OnceLock, Weak};

use weir_netlink::{Error, errno, ifla};
use weir_packet::{Batch, DropReason, Flags};
use weir_sync::rcu::Guard;

use crate::cpu::Cx;
use crate::device::Device;
use crate::drops::Place;
use crate::ethtool::{Driver, Link as LinkReport, LinkSettings};
use crate::features::{Offer, bit};
use crate::namespace::NsId;
use crate::request::Ctl;
use crate::stack::Stack;
use crate::{Kind, Link, NewLink, ethernet, register};

/// The `veth` link kind.
pub static KIND: Kind = Kind {
    name: "veth",
    pattern: "veth%d",
    create: Ok(create),
    validate: Some(|attrs| check_mtu(attrs.u32(ifla::MTU)?)),
};

/// The counters of a receive and of a transmit queue (`veth_rq_stats_desc`, `veth_tq_stats_desc`).
const RX_COUNTERS: &[&str] = &[
    "xdp_packets",
    "xdp_bytes",
    "drops",
    "xdp_redirect",
    "xdp_drops",
    "xdp_tx",
    "xdp_tx_errors",
];
const TX_COUNTERS: &[&str] = &["xdp_xmit", "xdp_xmit_errors"];
/// `VETH_INFO_PEER`
const INFO_PEER: u16 = 1;

/// The kind-specific part of a device: the other end, from when both ends are registered.
#[derive(Default)]
struct Half(OnceLock<Weak<Device>>);

impl Half {
    fn peer(&self) -> Option<Arc<Device>> {
        let peer = self.0.get()?.upgrade();
        peer.filter(|peer| peer.is_registered())
    }
}

/// Makes `other` the peer of a new device.
fn join(device: &Device, other: &Arc<Device>) {
    let half = device.link.as_any().and_then(|link| link.downcast_ref());
    let joined = half.is_some_and(|Half(peer)| peer.set(Arc::downgrade(other)).is_ok());
    debug_assert!(joined, "the half is new");
}

/// `veth_validate`
fn check_mtu(mtu: Option<u32>) -> Result<(), Error> {
    match mtu {
        Some(..68 | 65_536..) => Err(Error::new(errno::EINVAL)),
        _ => Ok(()),
    }
}

fn create(ctl: &mut Ctl<'_>, new: NewLink<'_>) -> Result<Arc<Device>, Error> {
    let peer = match new.data.and_then(|data| data.attrs().find_type(INFO_PEER)) {
        Some(info) => (ctl.stack.layers.links.parse_peer)(ctl, &new, info, KIND.pattern)?,
        None => NewLink {
            ns: new.ns.clone(),
            name: KIND.pattern.into(),
            ifindex: 0,
            mtu: new.mtu,
            address: None,
            broadcast: new.broadcast,
            txqlen: new.txqlen,
            group: new.group,
            queues: new.queues,
            link: None,
            link_ns: new.ns.clone(),
            flags: (0, 0),
            data: None,
        },
    };
    check_mtu(peer.mtu)?;
    // As in Linux, the peer comes first and gets the lower index.
    let device = ethernet(Box::<Half>::default(), &peer.ns, &peer, 0);
    let other = register(
        ctl.stack,
        &peer.ns,
        device,
        peer.ifindex,
        peer.group.unwrap_or(0),
    )?;
    let device = ethernet(Box::<Half>::default(), &new.ns, &new, 0);
    let device = match register(
        ctl.stack,
        &new.ns,
        device,
        new.ifindex,
        new.group.unwrap_or(0),
    ) {
        Ok(device) => device,
        Err(error) => {
            crate::unregister(ctl.stack, &[other]);
            return Err(error);
        }
    };
    join(&device, &other);
    join(&other, &device);
    for end in [&other, &device] {
        count_carrier(ctl.stack, end);
    }
    (ctl.stack.layers.links.configure)(ctl, &other, &peer)?;
    Ok(device)
}

/// Counts a carrier change, and returns whether there is one. The next carrier check then sees no further change.
fn count_carrier(stack: &Stack, end: &Arc<Device>) -> bool {
    let on = end.link.carrier(stack, end);
    let changed = end.lacks_carrier() == on;
    if changed {
        end.count_carrier_change(on);
        end.watch_carrier(|| on);
    }
    changed
}

impl Link for Half {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn carrier(&self, _stack: &Stack, device: &Device) -> bool {
        device.is_up() && self.peer().is_some_and(|peer| peer.is_up())
    }

    fn reports_carrier(&self) -> bool {
        true
    }

    fn as_any(&self) -> Option<&dyn std::any::Any> {
        Some(self)
    }

    fn features(&self) -> Offer {
        let changeable = bit::SG
            | bit::FRAGLIST
            | bit::HW_CSUM
            | bit::RXCSUM
            | bit::SCTP_CRC
            | bit::HIGHDMA
            | bit::GSO_SOFTWARE
            | bit::GSO_ENCAP_ALL
            | bit::VLAN_ACCELERATION;
        let active = changeable | bit::LLTX;
        Offer {
            active,
            changeable,
            vlan: active & !bit::VLAN_ACCELERATION,
            // `veth_disable_gro`
            off: bit::GRO,
        }
    }

    fn driver(&self) -> Driver {
        Driver {
            info: Some(("veth", "1.0", "")),
            link: LinkReport::Carrier,
            stamps: true,
            channels: true,
        }
    }

    fn link_settings(&self) -> Option<LinkSettings> {
        Some(LinkSettings::twisted_pair(10_000))
    }

    fn driver_stats(&self, device: &Device) -> Vec<(String, u64)> {
        let peer = self.peer();
        let index = peer.map_or(0, |peer| peer.ifindex());
        let mut list = vec![("peer_ifindex".to_owned(), u64::from(index))];
        let (tx, rx) = device.used_queues();
        // There is no XDP, so nothing counts here.
        for (way, queues, names) in [("rx", rx, RX_COUNTERS), ("tx", tx, TX_COUNTERS)] {
            for queue in 0..queues {
                let named = |name: &&str| (format!("{way}_queue_{queue}_{name}"), 0);
                list.extend(names.iter().map(named));
            }
        }
        list
    }

    fn speed(&self) -> Option<u32> {
        Some(10_000)
    }

    fn tso_max_size(&self) -> u32 {
        524_280
    }

    fn transmit(&self, cx: &mut Cx<'_>, device: &Arc<Device>, mut batch: Batch) {
        // Tunnel metadata, the route, the connection and `ignore_df` end here (`skb_scrub_packet`).
        for packet in batch.iter_mut() {
            if packet.tunnel().is_some() {
                packet.set_tunnel(None);
            }
            packet.set_conn(None);
            for flag in [Flags::REASSEMBLED, Flags::FORWARDED, Flags::LOCAL] {
                packet.flags.remove(flag);
            }
        }
        match self.peer().filter(|peer| peer.is_up()) {
            Some(peer) => cx.receive_later(&peer, batch),
            None => cx.drop_batch(device, Place::Transmit, DropReason::DEV_READY, batch),
        }
    }

    fn lower(&self, stack: &Stack) -> Option<(NsId, u32)> {
        // The ends of a pair are disconnected before their removal is announced (`veth_dellink`).
        let Some(peer) = self.peer().filter(|peer| !peer.is_dying()) else {
            return Some((Stack::INITIAL, 0));
        };
        let guard = stack.domain.pin();
        Some((peer.namespace(&guard).id, peer.ifindex()))
    }

    fn dependents(&self, _stack: &Stack, _device: &Device) -> Vec<Arc<Device>> {
        self.peer().into_iter().collect()
    }

    fn changed_state(&self, stack: &Stack, guard: &Guard, device: &Arc<Device>) {
        count_carrier(stack, device);
        crate::carrier_changed(stack, guard, device);
        // Nothing changed at a peer that is down.
        if let Some(peer) = self.peer().filter(|peer| count_carrier(stack, peer)) {
            crate::carrier_changed(stack, guard, &peer);
        }
    }
}
