// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Timers and random delays of the packets that a host sends of itself when a link comes up: router
//! solicitations and reports of group memberships. A stack sends them if it was made with
//! [`link_chatter`](crate::stack::Config::link_chatter).

use std::sync::Arc;

use crate::clock::{Holds, MILLISECOND, TimerId};
use crate::cpu::Cx;
use crate::device::Device;
use crate::layers::Site;
use crate::random::{mix, seed_of};

/// The granularity of Linux's timers in ns, at 250 Hz.
pub(crate) const TICK: u64 = 4 * MILLISECOND;

/// The skb priority of such packets (`TC_PRIO_CONTROL`).
pub(crate) const PRIORITY: u32 = 7;

/// The random numbers of one protocol on one device. They depend on the stack's seed, the namespace,
/// the device's name and the count of numbers drawn.
#[derive(Debug, Default)]
pub(crate) struct Chance(u64);

impl Chance {
    /// Draws a number below `bound`, or 0 if `bound` is 0.
    pub fn below(&mut self, site: &Site<'_>, protocol: &str, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(1);
        let path = format!(
            "namespace {}/{}/{protocol}",
            site.ns.id.0,
            site.device.name()
        );
        let number = mix(seed_of(site.stack.config.seed, &path) ^ self.0);
        ((u128::from(number) * u128::from(bound)) >> 64) as u64
    }
}

/// Arms a timer of a device that fires after `delay` ns. It does not keep a run alive.
pub(crate) fn after(
    site: &Site<'_>,
    delay: u64,
    fire: impl FnOnce(&mut Cx<'_>, &Arc<Device>) + Send + 'static,
) -> TimerId {
    let device = Arc::downgrade(site.device);
    let job = Box::new(move |cx: &mut Cx<'_>| {
        if let Some(device) = device.upgrade() {
            fire(cx, &device);
        }
    });
    let time = site.stack.clock.now().saturating_add(delay);
    site.stack.arm(time, Holds::Nothing, job)
}
