// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the address lists of IPv4 and IPv6 have in common: where a change happens, what it brings to be
//! told, lifetimes, and the timer of their next end.

use std::sync::Arc;

use weir_netlink::rtm;
use weir_sync::rcu::Guard;

use crate::clock::{Holds, SECOND, TimerId};
use crate::cpu::Cx;
use crate::device::Device;
use crate::fib::host::Host;
use crate::fib::route::Event;
use crate::namespace::Namespace;
use crate::stack::Stack;

/// A lifetime without end, in seconds (`INFINITY_LIFE_TIME`).
pub const FOREVER: u32 = u32::MAX;

/// An address in a device's list.
pub trait Listed: Sized + 'static {
    /// A route's destination.
    type Key: crate::fib::Address;
    /// When the next thing happens to it: it stops being preferred, or valid.
    fn next_end(&self) -> Option<u64>;
    /// Tells the listeners of addresses.
    fn announce(&self, site: &Site<'_>, ty: u16);
    /// Ends what is over among the device's addresses.
    fn expire(site: &Site<'_>);
}

/// What a change brought, to be told to the listeners.
#[derive(Debug)]
pub enum News<A: Listed> {
    /// An address came or changed (`RTM_NEWADDR`).
    Came(Arc<A>),
    /// An address went (`RTM_DELADDR`).
    Went(Arc<A>),
    /// Routes came or went.
    Routes(Vec<Event<A::Key, Arc<Device>>>),
}

/// A device in its namespace, for changes.
#[derive(Clone, Copy)]
pub struct Site<'a> {
    /// The stack.
    pub stack: &'a Stack,
    /// Keeps what is read alive.
    pub guard: &'a Guard,
    /// The namespace.
    pub ns: &'a Arc<Namespace>,
    /// The device.
    pub device: &'a Arc<Device>,
}

impl<'a> Site<'a> {
    /// The device in the namespace.
    pub fn new(
        stack: &'a Stack,
        guard: &'a Guard,
        ns: &'a Arc<Namespace>,
        device: &'a Arc<Device>,
    ) -> Self {
        Self {
            stack,
            guard,
            ns,
            device,
        }
    }

    pub(crate) fn host(&self) -> Host<'a> {
        Host {
            stack: self.stack,
            ns: self.ns,
            guard: self.guard,
        }
    }

    /// Tells the listeners of changes that no request caused.
    pub fn tell<A: Listed>(&self, news: Vec<News<A>>) {
        for news in news {
            match news {
                News::Came(address) => address.announce(self, rtm::NEWADDR),
                News::Went(address) => address.announce(self, rtm::DELADDR),
                News::Routes(events) => self.tell_routes(&events),
            }
        }
    }

    /// Tells the listeners of routes.
    pub fn tell_routes<K: crate::fib::Address>(&self, events: &[Event<K, Arc<Device>>]) {
        crate::rtnl::route::announce(self.stack, self.ns, events);
    }

    /// Sees to it that `timer` is armed for the next end of an address in `list`.
    pub(crate) fn rearm<A: Listed>(&self, timer: &mut Option<TimerId>, list: &[Arc<A>]) {
        let next = list.iter().filter_map(|address| address.next_end()).min();
        if timer.as_ref().map(TimerId::time) != next {
            if let Some(timer) = timer.take() {
                self.stack.timers.cancel(timer);
            }
            *timer = next.map(|time| self.arm::<A>(time));
        }
    }

    fn arm<A: Listed>(&self, time: u64) -> TimerId {
        let device = Arc::downgrade(self.device);
        let fire = Box::new(move |cx: &mut Cx<'_>| {
            if let Some(device) = device.upgrade() {
                A::expire(&Site::new(
                    cx.stack,
                    cx.guard,
                    device.namespace(cx.guard),
                    &device,
                ));
            }
        });
        self.stack.arm(time, Holds::Nothing, fire)
    }
}

/// Whether a lifetime that began at `updated` is over.
pub(crate) fn is_over(life: u32, updated: u64, now: u64) -> bool {
    life != FOREVER && updated + u64::from(life) * SECOND <= now
}

/// Seconds left of a preferred and a valid lifetime.
pub(crate) fn rest(preferred: u32, valid: u32, updated: u64, now: u64) -> (u32, u32) {
    let passed = (now.saturating_sub(updated) / SECOND).min(u64::from(FOREVER)) as u32;
    let left = |life: u32| {
        if life == FOREVER {
            life
        } else {
            life.saturating_sub(passed)
        }
    };
    if preferred == FOREVER {
        (preferred, valid)
    } else {
        (left(preferred), left(valid))
    }
}
