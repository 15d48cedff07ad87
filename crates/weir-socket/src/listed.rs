// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is shown of TCP connections without a socket (`inet_req_diag_fill`, `inet_twsk_diag_fill`).

use std::net::IpAddr;

use weir_sync::rcu::Guard;

use crate::abi::{AF_INET, AF_INET6, IPPROTO_TCP, SOCK_STREAM};
use crate::address::mapped;
use crate::namespace::Namespace;
use crate::shown::{Kind, Shown};
use crate::tcp::{self, Listed};

const SYN_RECEIVED: u8 = 3;
const TIME_WAIT: u8 = 6;
/// The timers that are shown: a retransmission, TIME_WAIT.
const RETRANSMIT: u8 = 1;
const WAIT: u8 = 3;
const MS: u64 = 1_000_000;

/// Returns the half-open connections and those in TIME_WAIT at the time `now` (ns), each kind in the order of addresses.
/// They have neither options nor `TCP_INFO`.
pub fn listed(ns: &Namespace, now: u64, guard: &Guard) -> Vec<Shown> {
    let all = tcp::listed(ns, guard);
    all.iter().map(|one| shown(one, now)).collect()
}

fn shown(one: &Listed, now: u64) -> Shown {
    let tuple = &one.tuple;
    let as_family = |ip: IpAddr| match ip {
        IpAddr::V4(_) if one.v6 => mapped(ip).into(),
        ip => ip,
    };
    let (due, times) = one.timer;
    let when = (due.saturating_sub(now) / MS) as u32;
    let (state, timer) = match one.half_open {
        true => (SYN_RECEIVED, RETRANSMIT),
        false => (TIME_WAIT, WAIT),
    };
    Shown {
        kind: Kind::Tcp,
        family: if one.v6 { AF_INET6 } else { AF_INET }.into(),
        ty: SOCK_STREAM,
        protocol: IPPROTO_TCP,
        state,
        local: (as_family(tuple.local), tuple.port),
        remote: (as_family(tuple.remote), tuple.remote_port),
        device: 0,
        queued: (0, 0),
        timer: (timer, when, times),
        uid: 0,
        inode: 0,
        cookie: 0,
        drops: 0,
        mark: one.mark,
        tos: 0,
        tclass: 0,
        v6only: false,
        buffers: (0, 0),
        shutdown: 0,
        running: false,
        tcp: None,
        congestion_info: None,
    }
}
