// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What every control function carries along: the namespace's side of the stack and of traffic
//! control, and a read guard for what is published.

use std::cell::{Cell, OnceCell};

use weir_netlink::{Header, Writer, nlm};
use weir_sync::rcu::Guard;

use crate::host::Host;
use crate::net::NetTc;

/// `RTNLGRP_TC`
pub const GROUP: u32 = 4;

/// Nanoseconds in a tick of `USER_HZ`, in which ages are shown.
pub const TICK_NS: u64 = 10_000_000;

/// The surroundings of one control request.
pub struct Env<'a> {
    /// The namespace, as the stack sees it.
    pub host: &'a dyn Host,
    /// The namespace's actions and shared blocks.
    pub net: &'a NetTc,
    /// Keeps published objects alive.
    pub guard: &'a Guard,
    ticks: OnceCell<u32>,
    /// The device an action named last, by key, with its index: most of a dump name one.
    target: Cell<Option<(u64, u32)>>,
}

impl<'a> Env<'a> {
    /// The surroundings of a request.
    pub fn new(host: &'a dyn Host, net: &'a NetTc, guard: &'a Guard) -> Self {
        Self {
            host,
            net,
            guard,
            ticks: OnceCell::new(),
            target: Cell::new(None),
        }
    }

    /// Index of the device with a key, asked for unless it is that of the last call.
    pub(crate) fn index_of_target(&self, key: u64, index: impl FnOnce() -> u32) -> u32 {
        match self.target.get() {
            Some((last, index)) if last == key => index,
            _ => {
                let index = index();
                self.target.set(Some((key, index)));
                index
            }
        }
    }

    /// The time is known already: requests of a datagram ask for it once.
    pub fn set_ticks(&self, ticks: Option<u32>) {
        if let Some(ticks) = ticks {
            let _ = self.ticks.set(ticks);
        }
    }

    /// The time, if it was asked for.
    pub fn known_ticks(&self) -> Option<u32> {
        self.ticks.get().copied()
    }

    /// The time in `USER_HZ` ticks: one for the whole request, as far as it is asked for.
    pub fn ticks(&self) -> u32 {
        *self
            .ticks
            .get_or_init(|| (self.host.now() / TICK_NS) as u32)
    }
}

/// Who asked, for the headers of answers and notifications.
#[derive(Debug, Clone, Copy, Default)]
pub struct Requester {
    /// Port id of the client's socket.
    pub portid: u32,
    /// Sequence number of the request.
    pub seq: u32,
    /// Its flags (`NLM_F_*`).
    pub flags: u16,
}

impl Requester {
    /// The sender of a request.
    pub fn of(header: &Header, portid: u32) -> Self {
        Self {
            portid,
            seq: header.seq,
            flags: header.flags,
        }
    }

    /// Whether the client wants to see the notification itself.
    pub fn echo(&self) -> bool {
        self.flags & nlm::F_ECHO != 0
    }
}

/// What a request leaves for its client beside the acknowledgement.
#[derive(Debug, Default)]
pub struct Reply {
    /// Messages to the client, in order.
    pub out: Writer,
    /// A sentence beside a success.
    pub warning: Option<&'static str>,
}

impl Env<'_> {
    /// `rtnl_notify_needed`: whether anybody would see a notification.
    pub fn notify_needed(&self, by: &Requester) -> bool {
        by.echo() || self.host.listening(GROUP)
    }

    /// `rtnetlink_send`: to the listeners, and to the client if it asked for an echo.
    pub fn notify(&self, by: &Requester, reply: Option<&mut Reply>, message: &[u8]) {
        if message.is_empty() {
            return;
        }
        let echo = by.echo();
        self.host.notify(GROUP, message, echo.then_some(by.portid));
        if let (true, Some(reply)) = (echo, reply) {
            reply.out.raw(message);
        }
    }
}
