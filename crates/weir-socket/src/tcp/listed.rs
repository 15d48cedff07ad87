// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Connections without a socket: half-open ones and those in TIME_WAIT.

use weir_sync::rcu::Guard;

use super::core::Kind;
use super::tuple::Tuple;
use crate::namespace::Namespace;
use crate::ports::tables;
use crate::socket::Proto;

/// A connection without a socket.
#[derive(Debug, Clone, Copy)]
pub struct Listed {
    /// Its addresses and ports.
    pub tuple: Tuple,
    /// Its listener or its socket is or was of IPv6.
    pub v6: bool,
    /// It is half-open; otherwise it is in TIME_WAIT.
    pub half_open: bool,
    /// When its timer expires, in ns, and how often it has.
    pub timer: (u64, u8),
    /// `SO_MARK` of its listener.
    pub mark: u32,
}

/// Returns the half-open connections and those in TIME_WAIT, each kind in the order of addresses.
pub fn listed(ns: &Namespace, guard: &Guard) -> Vec<Listed> {
    let all = tables(ns);
    let mut found = Vec::new();
    for socket in all.all() {
        let Proto::Tcp(tcp) = &socket.proto else {
            continue;
        };
        if !tcp.is_listening() {
            continue;
        }
        let core = tcp.core(&socket);
        let inner = core.lock();
        let Kind::Listening(listener) = &inner.kind else {
            continue;
        };
        found.extend(listener.requests().map(|(tuple, request)| Listed {
            tuple: *tuple,
            v6: core.v6,
            half_open: true,
            timer: (request.deadline(), request.resent()),
            mark: inner.options.mark,
        }));
    }
    let half_open = found.len();
    all.tcp_connections.each_waiting(guard, |tuple, waiting| {
        found.push(Listed {
            tuple: *tuple,
            v6: waiting.v6,
            half_open: false,
            timer: (waiting.rest.lock().deadline(), 0),
            mark: 0,
        });
    });
    if let Some(waiting) = found.get_mut(half_open..) {
        waiting.sort_by_key(|one| one.tuple);
    }
    found
}
