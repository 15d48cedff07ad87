// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The common part of the IPv4 and IPv6 address lists: the context of a change, the notifications
//! it causes, lifetimes, and the timer for the next expiry.

use std::sync::Arc;

use weir_netlink::rtm;

use crate::clock::{Holds, SECOND, TimerId};
use crate::cpu::Cx;
use crate::device::Device;
use crate::fib::host::{self, Host};
use crate::fib::route::Event;
use crate::layers::Site;

/// An infinite lifetime, in seconds (`INFINITY_LIFE_TIME`).
pub const FOREVER: u32 = u32::MAX;

/// An address in a device's list.
pub trait Listed: Sized + 'static {
    /// The destination type of the family's routes.
    type Key: crate::fib::Address;
    /// Returns when the address next changes state: when it stops being preferred, or valid.
    fn next_end(&self) -> Option<u64>;
    /// Notifies the listeners of address changes.
    fn announce(&self, site: &Site<'_>, ty: u16);
    /// Removes or deprecates the device's addresses whose lifetimes have expired.
    fn expire(site: &Site<'_>);
}

/// The addresses of a device, at least one, as readers see them. Nearly every device has one of a family.
#[derive(Debug)]
pub(crate) enum List<A> {
    One(Arc<A>),
    /// A box, so that one address takes no more memory than it needs.
    More(Box<Box<[Arc<A>]>>),
}

impl<A> List<A> {
    /// Returns `None` for no addresses.
    pub(crate) fn new(mut all: Vec<Arc<A>>) -> Option<Self> {
        match all.len() {
            0 => None,
            1 => all.pop().map(Self::One),
            _ => Some(Self::More(Box::new(all.into_boxed_slice()))),
        }
    }

    #[inline]
    pub(crate) fn all(&self) -> &[Arc<A>] {
        match self {
            Self::One(address) => std::slice::from_ref(address),
            Self::More(all) => all,
        }
    }
}

/// The effect of a change, for the notification of listeners.
#[derive(Debug)]
pub enum News<A: Listed> {
    /// An address was added or changed (`RTM_NEWADDR`).
    Came(Arc<A>),
    /// An address was deleted (`RTM_DELADDR`).
    Went(Arc<A>),
    /// Routes were added or deleted.
    Routes(Vec<Event<A::Key, Arc<Device>>>),
}

/// What the address lists do with a device in its namespace.
pub trait Changes<'a> {
    /// The namespace, as routes are looked at from it.
    fn host(&self) -> Host<'a>;
    /// Tells the listeners of changes that no request caused.
    fn tell<A: Listed>(&self, news: Vec<News<A>>);
    /// Tells the listeners of routes.
    fn tell_routes<K: crate::fib::Address>(&self, events: &[Event<K, Arc<Device>>]);
    /// Sees to it that `timer` is armed for the next end of an address in `list`.
    fn rearm<A: Listed>(&self, timer: &mut Option<TimerId>, list: &[Arc<A>]);
}

impl<'a> Changes<'a> for Site<'a> {
    fn host(&self) -> Host<'a> {
        Host {
            stack: self.stack,
            ns: self.ns,
            guard: self.guard,
        }
    }

    fn tell<A: Listed>(&self, news: Vec<News<A>>) {
        for news in news {
            match news {
                News::Came(address) => address.announce(self, rtm::NEWADDR),
                News::Went(address) => address.announce(self, rtm::DELADDR),
                News::Routes(events) => self.tell_routes(&events),
            }
        }
    }

    fn tell_routes<K: crate::fib::Address>(&self, events: &[Event<K, Arc<Device>>]) {
        host::tell(self.stack, self.ns, events);
    }

    fn rearm<A: Listed>(&self, timer: &mut Option<TimerId>, list: &[Arc<A>]) {
        let next = list.iter().filter_map(|address| address.next_end()).min();
        if timer.as_ref().map(TimerId::time) != next {
            if let Some(timer) = timer.take() {
                self.stack.timers.cancel(timer);
            }
            *timer = next.map(|time| arm::<A>(self, time));
        }
    }
}

fn arm<A: Listed>(site: &Site<'_>, time: u64) -> TimerId {
    let device = Arc::downgrade(site.device);
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
    site.stack.arm(time, Holds::Nothing, fire)
}

/// Returns whether a lifetime of `life` seconds that began at `updated` is over.
pub fn is_over(life: u32, updated: u64, now: u64) -> bool {
    life != FOREVER && updated + u64::from(life) * SECOND <= now
}

/// Returns the remaining seconds of a preferred and a valid lifetime.
pub fn rest(preferred: u32, valid: u32, updated: u64, now: u64) -> (u32, u32) {
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
