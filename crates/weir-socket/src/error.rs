// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors of sockets: what an ICMP error means (`icmp_err_convert`, `icmpv6_err_convert`, `__udp4_lib_err`,
//! `__udp6_lib_err`, `ping_err`, `raw_err`, `rawv6_err`), and the error queue (`ip_icmp_error`, `ip_local_error`,
//! `ip_recv_error`, `ipv6_recv_error`).

use std::net::IpAddr;

use weir_inet::sockets::Report;
use weir_netlink::errno;
use weir_packet::header::icmp::{
    ICMP_DEST_UNREACH, ICMP_FRAG_NEEDED, ICMP_PARAMETERPROB, ICMP_REDIRECT, ICMP_TIME_EXCEEDED,
    ICMPV6_DEST_UNREACH, ICMPV6_PARAMPROB, ICMPV6_PKT_TOOBIG,
};
use weir_packet::header::ndisc::NDISC_REDIRECT;

use crate::Message;
use crate::abi::{MSG_ERRQUEUE, SOL_IP, SOL_IPV6, ip, ipv6, origin, pmtudisc};
use crate::address::{self, Address};
use crate::control::Messages;
use crate::cpu::Cx;
use crate::receive;
use crate::socket::{Socket, scope_of};

const ENONET: i32 = 64;
/// The most bytes that the queue of a socket holds. (Linux counts them against the receive buffer.)
const QUEUE: usize = 212_992;
/// What a message costs beside its data (`sizeof(struct sk_buff)`).
const OVERHEAD: usize = 768;
/// `ICMPV6_TIME_EXCEED`
const ICMPV6_TIME_EXCEED: u8 = 3;
/// `ICMP_SOURCE_QUENCH`
const ICMP_SOURCE_QUENCH: u8 = 4;

/// A message of the error queue (`struct sock_exterr_skb`).
#[derive(Debug, Clone)]
pub struct Queued {
    errno: i32,
    origin: u8,
    ty: u8,
    code: u8,
    info: u32,
    /// Where the packet was sent to.
    to: Address,
    /// Who reported the error.
    offender: Option<IpAddr>,
    device: u32,
    /// The TTL and TOS of the ICMP error, or the same of IPv6.
    outer: Option<(u8, u8)>,
    /// The wall-clock time, ns since 1970.
    wall: u64,
    data: Vec<u8>,
}

/// What an error means: the errno, whether it ends the association, and the new path MTU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Meaning {
    pub errno: i32,
    pub hard: bool,
    pub mtu: Option<u32>,
}

/// The errno of each code of "destination unreachable", and whether it is fatal (`icmp_err_convert`).
const UNREACHABLE: [(i32, bool); 16] = [
    (errno::ENETUNREACH, false),
    (errno::EHOSTUNREACH, false),
    (errno::ENOPROTOOPT, true),
    (errno::ECONNREFUSED, true),
    (errno::EMSGSIZE, false),
    (errno::EOPNOTSUPP, false),
    (errno::ENETUNREACH, true),
    (errno::EHOSTDOWN, true),
    (ENONET, true),
    (errno::ENETUNREACH, true),
    (errno::EHOSTUNREACH, true),
    (errno::ENETUNREACH, false),
    (errno::EHOSTUNREACH, false),
    (errno::EHOSTUNREACH, true),
    (errno::EHOSTUNREACH, true),
    (errno::EHOSTUNREACH, true),
];

/// The same for ICMPv6 (`tab_unreach`).
const UNREACHABLE6: [(i32, bool); 7] = [
    (errno::ENETUNREACH, false),
    (errno::EACCES, true),
    (errno::EHOSTUNREACH, false),
    (errno::EHOSTUNREACH, false),
    (errno::ECONNREFUSED, true),
    (errno::EACCES, true),
    (errno::EACCES, true),
];

/// Returns what an ICMP error means; `None` if sockets ignore it.
pub fn meaning(report: &Report<'_>) -> Option<Meaning> {
    let plain = |(errno, hard)| {
        Some(Meaning {
            errno,
            hard,
            mtu: None,
        })
    };
    if report.ipv6 {
        return match report.ty {
            ICMPV6_DEST_UNREACH => {
                let found = UNREACHABLE6.get(usize::from(report.code));
                plain(found.copied().unwrap_or((errno::EPROTO, true)))
            }
            ICMPV6_PKT_TOOBIG => Some(Meaning {
                errno: errno::EMSGSIZE,
                hard: false,
                mtu: Some(report.info.max(1280)),
            }),
            ICMPV6_PARAMPROB => plain((errno::EPROTO, true)),
            ICMPV6_TIME_EXCEED => plain((errno::EHOSTUNREACH, false)),
            NDISC_REDIRECT => None,
            _ => plain((errno::EPROTO, false)),
        };
    }
    match (report.ty, report.code) {
        (ICMP_SOURCE_QUENCH | ICMP_REDIRECT, _) => None,
        (ICMP_DEST_UNREACH, ICMP_FRAG_NEEDED) => Some(Meaning {
            errno: errno::EMSGSIZE,
            hard: false,
            mtu: Some(report.info.max(68)),
        }),
        (ICMP_DEST_UNREACH, code) => {
            let found = UNREACHABLE.get(usize::from(code));
            plain(found.copied().unwrap_or((errno::EHOSTUNREACH, false)))
        }
        (ICMP_PARAMETERPROB, _) => plain((errno::EPROTO, true)),
        (ICMP_TIME_EXCEEDED, _) => plain((errno::EHOSTUNREACH, false)),
        _ => plain((errno::EHOSTUNREACH, false)),
    }
}

/// Tells a datagram socket of an ICMP error about a packet that it sent to `to`. `payload` is what the queue gets of the
/// quoted packet (`__udp4_lib_err`).
pub fn icmp(socket: &Socket, cx: &mut Cx<'_>, report: &Report<'_>, to: Address, payload: &[u8]) {
    let Some(meaning) = meaning(report) else {
        return;
    };
    let mut hard = meaning.hard;
    {
        let mut state = socket.state();
        let (discover, recverr) = match report.ipv6 {
            true => (state.options.pmtudisc6, state.options.recverr6),
            false => (state.options.pmtudisc, state.options.recverr),
        };
        if let Some(mtu) = meaning.mtu {
            if !matches!(discover, pmtudisc::INTERFACE | pmtudisc::OMIT) {
                state.learned = Some(Box::new((to.ip, mtu)));
            }
            if discover == pmtudisc::DONT && !report.ipv6 {
                return;
            }
            hard |= discover != pmtudisc::DONT;
        }
        match recverr {
            false if !hard || state.peer.is_none() => return,
            false => {}
            true => {
                let queued = Queued {
                    errno: meaning.errno,
                    origin: if report.ipv6 {
                        origin::ICMP6
                    } else {
                        origin::ICMP
                    },
                    ty: report.ty,
                    code: report.code,
                    info: report.info,
                    to,
                    offender: Some(report.from),
                    device: report.device.ifindex(),
                    outer: Some((report.ttl, report.tos)),
                    wall: cx.stack.clock.wall_ns(),
                    data: payload.to_vec(),
                };
                push(state.errors.get_or_insert_default(), queued);
            }
        }
    }
    socket.fail(cx, meaning.errno);
}

fn push(errors: &mut std::collections::VecDeque<Queued>, queued: Queued) {
    let held: usize = errors.iter().map(|one| one.data.len() + OVERHEAD).sum();
    if held + queued.data.len() + OVERHEAD <= QUEUE {
        errors.push_back(queued);
    }
}

/// Queues the error that a packet of the program is longer than the path's MTU (`ip_local_error`, `ipv6_local_error`).
/// The pending error stays as it is, since the call fails.
pub fn too_long(socket: &Socket, cx: &mut Cx<'_>, to: Address, over_v6: bool, mtu: u32) {
    {
        let mut state = socket.state();
        let wanted = match over_v6 {
            true => state.options.recverr6,
            false => state.options.recverr,
        };
        if !wanted {
            return;
        }
        let queued = Queued {
            errno: errno::EMSGSIZE,
            origin: origin::LOCAL,
            ty: 0,
            code: 0,
            info: mtu,
            to,
            offender: None,
            device: 0,
            outer: None,
            wall: cx.stack.clock.wall_ns(),
            data: Vec::new(),
        };
        push(state.errors.get_or_insert_default(), queued);
    }
    let ready = socket.ready();
    socket.user().wake(cx, ready);
}

/// Passes the oldest message of the queue on (`ip_recv_error`, `sock_dequeue_err_skb`).
pub fn receive(socket: &Socket, take: &mut dyn FnMut(&Message<'_>)) -> bool {
    let (queued, options) = {
        let mut state = socket.state();
        let Some(queued) = state.errors.as_mut().and_then(|errors| errors.pop_front()) else {
            return false;
        };
        let next = state.errors.as_ref().and_then(|errors| errors.front());
        let is_icmp = |one: &Queued| matches!(one.origin, origin::ICMP | origin::ICMP6);
        let next = next.map(|next| (is_icmp(next), next.errno));
        match next {
            Some((true, errno)) => state.error = errno,
            _ if is_icmp(&queued) => state.error = 0,
            _ => {}
        }
        if next.is_none() {
            state.errors = None;
        }
        (queued, state.options.clone())
    };
    let on_v6 = socket.is_v6();
    let mut to = queued.to;
    to.scope = scope_of(to.ip, queued.device);
    let mut value = Vec::with_capacity(44);
    value.extend_from_slice(&(queued.errno as u32).to_ne_bytes());
    value.extend_from_slice(&[queued.origin, queued.ty, queued.code, 0]);
    value.extend_from_slice(&queued.info.to_ne_bytes());
    value.extend_from_slice(&[0; 4]);
    match queued.offender {
        Some(from) => {
            let mut offender = Address::new(from, 0);
            offender.scope = scope_of(from, queued.device);
            value.extend_from_slice(address::write(on_v6, &offender).get());
        }
        None => {
            let len = if on_v6 {
                address::LEN_V6
            } else {
                address::LEN_V4
            };
            value.resize(value.len() + len, 0);
        }
    }
    let mut control = Messages::default();
    receive::common(&mut control, queued.wall, &options, 0, 0);
    if let Some((ttl, tos)) = queued.outer {
        receive::hops(
            &mut control,
            queued.origin == origin::ICMP6,
            &options,
            ttl,
            tos,
        );
    }
    match on_v6 {
        true => control.put(SOL_IPV6, ipv6::RECVERR, &value),
        false => control.put(SOL_IP, ip::RECVERR, &value),
    }
    let from = address::write(on_v6, &to);
    take(&Message {
        from: from.get(),
        control: control.bytes(),
        data: &queued.data,
        flags: MSG_ERRQUEUE,
        length: queued.data.len(),
        time: queued.wall,
    });
    true
}
