// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `lo`: sent frames are received again (`drivers/net/loopback.c`). Each namespace has exactly one,
//! with index 1 and MTU 65536. It cannot be created, deleted or moved.

use std::sync::Arc;

use weir_netlink::ifla::{arphrd, iff};
use weir_packet::Batch;

use crate::Link;
use crate::cpu::Cx;
use crate::device::{AddressOrigin, Device, NewDevice};
use crate::ethtool::{Driver, Link as LinkReport};
use crate::features::{Offer, bit};
use crate::namespace::Namespace;
use crate::stack::Stack;

struct Loopback;

/// Registers the loopback device of a new namespace.
pub fn add(stack: &Stack, ns: &Arc<Namespace>) {
    let new = NewDevice {
        link: Box::new(Loopback),
        name: "lo".into(),
        flags: iff::LOOPBACK,
        mtu: 65_536,
        txqlen: 1000,
        queues: (1, 1),
        address: [0; 6],
        address_origin: AddressOrigin::Permanent,
        broadcast: [0; 6],
    };
    // Only a name conflict or a closing namespace can make this fail, and neither is possible here.
    let added = super::register(stack, ns, new, 1, 0);
    debug_assert!(added.is_ok(), "a new namespace has no devices");
}

impl Link for Loopback {
    fn kind(&self) -> &'static str {
        ""
    }

    fn hardware_type(&self) -> u16 {
        arphrd::LOOPBACK
    }

    fn features(&self) -> Offer {
        Offer {
            active: bit::SG
                | bit::FRAGLIST
                | bit::GSO_SOFTWARE
                | bit::HW_CSUM
                | bit::RXCSUM
                | bit::SCTP_CRC
                | bit::HIGHDMA
                | bit::LLTX
                | bit::NETNS_LOCAL
                | bit::VLAN_CHALLENGED
                | bit::LOOPBACK,
            changeable: bit::GSO_SOFTWARE,
            ..Offer::default()
        }
    }

    fn polls(&self) -> bool {
        false
    }

    fn driver(&self) -> Driver {
        Driver {
            link: LinkReport::Always,
            stamps: true,
            ..Driver::default()
        }
    }

    fn mtu_bounds(&self) -> (u32, u32) {
        (0, 0)
    }

    fn has_filter(&self) -> bool {
        false
    }

    fn tso_max_size(&self) -> u32 {
        524_280
    }

    fn transmit(&self, cx: &mut Cx<'_>, device: &Arc<Device>, batch: Batch) {
        cx.receive_later(device, batch);
    }

    fn may_move(&self) -> bool {
        false
    }
}
