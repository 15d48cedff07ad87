// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `dummy`: accepts and discards every frame (`drivers/net/dummy.c`). In Weir it is also the usual
//! device for playing captures in and recording them. It has no parameters; its carrier can be set.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use weir_netlink::Error;
use weir_netlink::ifla::iff;
use weir_packet::Batch;

use crate::cpu::Cx;
use crate::device::Device;
use crate::ethtool::Driver;
use crate::features::{Offer, bit};
use crate::request::Ctl;
use crate::stack::Stack;
use crate::{Kind, Link, NewLink, ethernet, register};

/// The `dummy` link kind.
pub static KIND: Kind = Kind {
    name: "dummy",
    pattern: "dummy%d",
    create: Ok(create),
    validate: None,
};

#[derive(Default)]
struct Dummy {
    no_carrier: AtomicBool,
}

fn create(ctl: &mut Ctl<'_>, new: NewLink<'_>) -> Result<Arc<Device>, Error> {
    let mut device = ethernet(Box::new(Dummy::default()), &new.ns, &new, iff::NOARP);
    device.flags &= !iff::MULTICAST;
    register(
        ctl.stack,
        &new.ns,
        device,
        new.ifindex,
        new.group.unwrap_or(0),
    )
}

impl Link for Dummy {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn features(&self) -> Offer {
        let active = bit::SG
            | bit::FRAGLIST
            | bit::GSO_SOFTWARE
            | bit::HW_CSUM
            | bit::HIGHDMA
            | bit::LLTX
            | bit::GSO_ENCAP_ALL;
        Offer {
            active,
            changeable: active,
            ..Offer::default()
        }
    }

    fn driver(&self) -> Driver {
        Driver {
            stamps: true,
            ..Driver::default()
        }
    }

    fn mtu_bounds(&self) -> (u32, u32) {
        (0, 0)
    }

    fn carrier(&self, _stack: &Stack, _device: &Device) -> bool {
        !self.no_carrier.load(Relaxed)
    }

    fn set_carrier(&self, ctl: &mut Ctl<'_>, device: &Arc<Device>, on: bool) -> Result<(), Error> {
        if self.no_carrier.swap(!on, Relaxed) == on {
            device.count_carrier_change(on);
            crate::carrier_changed(ctl.stack, ctl.guard, device);
        }
        Ok(())
    }

    fn transmit(&self, cx: &mut Cx<'_>, _device: &Arc<Device>, batch: Batch) {
        cx.consume_batch(batch);
    }
}
