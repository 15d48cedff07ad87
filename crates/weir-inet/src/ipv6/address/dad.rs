// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The steps of duplicate address detection, by a timer for each address (`addrconf_dad_work`).

use std::net::Ipv6Addr;
use std::sync::Arc;

use crate::addresses::Changes;
use crate::clock::{Holds, MILLISECOND, TimerId};
use crate::cpu::Cx;
use crate::device::Device;
use crate::ipv6::WithIpv6;
use crate::layers::Site;
use crate::settings::{Neigh, WithSettings};

/// Arms the timer for the next step of a detection.
pub(super) fn arm_dad(site: &Site<'_>, address: Ipv6Addr, time: u64) -> TimerId {
    let device = Arc::downgrade(site.device);
    let fire = Box::new(move |cx: &mut Cx<'_>| {
        if let Some(device) = device.upgrade() {
            step_dad(cx, &device, address);
        }
    });
    site.stack.arm(time, Holds::Nothing, fire)
}

/// Sends the next solicitation, or completes the detection (`addrconf_dad_work`).
fn step_dad(cx: &mut Cx<'_>, device: &Arc<Device>, address: Ipv6Addr) {
    let ns = device.namespace(cx.guard).clone();
    let site = Site::new(cx.stack, cx.guard, &ns, device);
    let mut probe = false;
    let changed = device.ipv6().addresses.change(&site, |work| {
        let joined = work.state.joined.get_mut(&address);
        let Some(dad) = joined.and_then(Option::as_mut) else {
            return Ok(());
        };
        if dad.probes <= 0 {
            work.finish_dad(address);
            return Ok(());
        }
        dad.probes -= 1;
        let retrans = device.conf().neigh6.get(Neigh::RetransTime).max(10) as u64 * MILLISECOND;
        dad.timer = arm_dad(&site, address, site.stack.clock.now() + retrans);
        probe = true;
        Ok(())
    });
    if let Ok(((), news)) = changed {
        site.tell(news);
    }
    if probe {
        super::super::nd::probe_address(cx, device, address);
    }
}
