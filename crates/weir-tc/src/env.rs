// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The environment of the control functions: the stack's and traffic control's side of the
//! namespace, and a read guard for published objects.

use std::cell::{Cell, OnceCell};

use weir_netlink::{Header, Writer, nlm};
use weir_sync::rcu::Guard;

use crate::host::Host;
use crate::net::NetTc;

/// `RTNLGRP_TC`
pub const GROUP: u32 = 4;

/// Nanoseconds in a tick of `USER_HZ`, the unit of the ages shown to clients.
pub const TICK_NS: u64 = 10_000_000;

/// The environment of one control request.
pub struct Env<'a> {
    /// The namespace from the stack's point of view.
    pub host: &'a dyn Host,
    /// The namespace's actions and shared blocks.
    pub net: &'a NetTc,
    /// The guard that keeps published objects alive.
    pub guard: &'a Guard,
    ticks: OnceCell<u32>,
    /// Key and index of the device that an action referred to last. Most actions of a dump refer to
    /// the same device.
    target: Cell<Option<(u64, u32)>>,
}

impl<'a> Env<'a> {
    /// Creates the environment of a request.
    pub fn new(host: &'a dyn Host, net: &'a NetTc, guard: &'a Guard) -> Self {
        Self {
            host,
            net,
            guard,
            ticks: OnceCell::new(),
            target: Cell::new(None),
        }
    }

    /// Returns the index of the device with a key. Calls `index` only if the key differs from that
    /// of the last call.
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

    /// Sets the time if it is already known, so that the requests of a datagram read the clock only
    /// once.
    pub fn set_ticks(&self, ticks: Option<u32>) {
        if let Some(ticks) = ticks {
            let _ = self.ticks.set(ticks);
        }
    }

    /// Returns the time if the clock has been read.
    pub fn known_ticks(&self) -> Option<u32> {
        self.ticks.get().copied()
    }

    /// Returns the time in `USER_HZ` ticks. The clock is read at most once per request.
    pub fn ticks(&self) -> u32 {
        *self
            .ticks
            .get_or_init(|| (self.host.now() / TICK_NS) as u32)
    }
}

/// The requesting client, for the headers of answers and notifications.
#[derive(Debug, Clone, Copy, Default)]
pub struct Requester {
    /// The port id of the client's socket.
    pub portid: u32,
    /// The sequence number of the request.
    pub seq: u32,
    /// The flags of the request (`NLM_F_*`).
    pub flags: u16,
}

impl Requester {
    /// Returns the sender of a request.
    pub fn of(header: &Header, portid: u32) -> Self {
        Self {
            portid,
            seq: header.seq,
            flags: header.flags,
        }
    }

    /// Returns whether the client asked to receive the notification itself.
    pub fn echo(&self) -> bool {
        self.flags & nlm::F_ECHO != 0
    }
}

/// The answer of a request to its client, besides the acknowledgement.
#[derive(Debug, Default)]
pub struct Reply {
    /// Messages to the client, in order.
    pub out: Writer,
    /// The message of a warning that accompanies a success.
    pub warning: Option<&'static str>,
}

impl Env<'_> {
    /// Returns whether anybody would receive a notification (`rtnl_notify_needed`).
    pub fn notify_needed(&self, by: &Requester) -> bool {
        by.echo() || self.host.listening(GROUP)
    }

    /// Sends a message to the listeners, and to the client if it asked for an echo
    /// (`rtnetlink_send`).
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
