// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ping sockets (`net/ipv4/ping.c`, `net/ipv6/ping.c`): echo requests and their replies, without privileges. The port
//! of the socket is the identifier of its messages.
//!
//! All groups may open them (`net.ipv4.ping_group_range` has no effect). Extended echo (RFC 8335) is refused.

use weir_inet::mib::{self, Count, Way};
use weir_inet::sockets::{Arrived, Report};
use weir_netlink::errno;
use weir_packet::Packet;
use weir_packet::header::Icmp;
use weir_packet::header::icmp::{ICMP_ECHO, ICMPV6_ECHO_REQUEST, fill_check_v4, fill_check_v6};

use crate::Outgoing;
use crate::abi::{IPPROTO_ICMP, IPPROTO_ICMPV6};
use crate::address::Address;
use crate::cpu::Cx;
use crate::error;
use crate::outgoing;
use crate::ports::{Which, tables};
use crate::receive::{self, Head};
use crate::socket::Socket;

/// Ping sockets follow the sysctl of raw sockets.
const ACCEPT: &str = "ipv4/raw_l3mdev_accept";

/// Sends an echo request (`ping_v4_sendmsg`, `ping_v6_sendmsg`). The data begin with the ICMP header, whose identifier
/// and checksum are filled in.
pub fn send(socket: &Socket, cx: &mut Cx<'_>, message: &Outgoing<'_>) -> Result<usize, i32> {
    let len = message.data.len();
    let Some(icmp) = Icmp::new(message.data).filter(|_| len <= 0xffff) else {
        return Err(if len > 0xffff {
            errno::EMSGSIZE
        } else {
            errno::EINVAL
        });
    };
    let wanted = if socket.is_v6() {
        ICMPV6_ECHO_REQUEST
    } else {
        ICMP_ECHO
    };
    if icmp.icmp_type() != wanted || icmp.code() != 0 {
        return Err(errno::EINVAL);
    }
    let mut prepared = outgoing::prepare(socket, message)?;
    let ident = socket.state().local.port;
    // Routes do not depend on identifiers.
    (prepared.port, prepared.to.port) = (0, 0);
    let mut bytes = message.data.to_vec();
    if let Some(place) = bytes.get_mut(4..6) {
        place.copy_from_slice(&ident.to_be_bytes());
    }
    let ns = socket.ns();
    if prepared.to.ip.is_ipv6() {
        let protocol = IPPROTO_ICMPV6 as u8;
        let way = prepared.route_v6(socket, cx, protocol)?;
        outgoing::pending(socket)?;
        let head = prepared.head_v6(socket, cx, &way, protocol, len)?;
        fill_check_v6(way.src.octets(), way.dst.octets(), &mut bytes);
        prepared.send_v6(socket, cx, &way, &head, (&bytes, false))?;
    } else {
        let protocol = IPPROTO_ICMP as u8;
        let way = prepared.route_v4(socket, cx, protocol)?;
        outgoing::pending(socket)?;
        let head = prepared.head_v4(socket, cx, &way, protocol, len)?;
        fill_check_v4(&mut bytes);
        let counters = cx.mib(ns);
        counters.icmp.add(mib::Icmp::OutMsgs, 1);
        counters.message(Way::Out, ICMP_ECHO);
        weir_inet::ipv4::egress::send(cx, ns, &way, &head, &[&bytes])?;
    }
    Ok(len)
}

/// Gives an echo reply to its socket (`ping_rcv`).
pub fn reply(cx: &mut Cx<'_>, arrived: &Arrived<'_>, packet: &Packet) -> bool {
    let message = packet.data().get(arrived.at..).unwrap_or_default();
    let (Some(head), Some(icmp)) = (Head::of(arrived.ipv6, packet.data()), Icmp::new(message))
    else {
        return false;
    };
    let ident = (icmp.rest() >> 16) as u16;
    let target = receive::target(cx, arrived, &head, 0, ACCEPT);
    let list = tables(arrived.ns).table(Which::Ping).of(ident, cx.guard);
    let fits = |entry: &&crate::ports::Entry| {
        let mut any_peer = (*entry).clone();
        any_peer.peer = None;
        entry.ipv6 == arrived.ipv6 && any_peer.score(&target).is_some()
    };
    let Some(entry) = list.iter().find(fits) else {
        return false;
    };
    let from = Address::new(head.src, 0);
    let at = arrived.at;
    receive::pass(
        &entry.socket,
        cx,
        arrived,
        &head,
        (&from, 0),
        (packet, at),
        message,
    );
    true
}

/// Tells the socket of an ICMP error about its request (`ping_err`).
pub fn report(cx: &mut Cx<'_>, report: &Report<'_>) -> bool {
    let message = report.quoted.get(report.at..).unwrap_or_default();
    let (Some(head), Some(icmp)) = (Head::of(report.ipv6, report.quoted), Icmp::new(message))
    else {
        return false;
    };
    let wanted = if report.ipv6 {
        ICMPV6_ECHO_REQUEST
    } else {
        ICMP_ECHO
    };
    if icmp.icmp_type() != wanted {
        return false;
    }
    let ident = (icmp.rest() >> 16) as u16;
    let list = tables(report.ns).table(Which::Ping).of(ident, cx.guard);
    let fits = |entry: &&crate::ports::Entry| {
        entry.ipv6 == report.ipv6 && (entry.local.is_unspecified() || entry.local == head.src)
    };
    let Some(entry) = list.iter().find(fits) else {
        return false;
    };
    let socket = entry.socket.clone();
    error::icmp(&socket, cx, report, Address::new(head.dst, 0), message);
    true
}
