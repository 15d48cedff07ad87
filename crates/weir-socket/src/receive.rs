// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The way of a packet to the owner of its socket, with the control messages that the socket's options want
//! (`ip_cmsg_recv_offset`, `ip6_datagram_recv_ctl`, `__sock_recv_timestamp`).

use std::net::IpAddr;
use std::sync::Arc;

use weir_inet::ipv4::route::{To, is_elsewhere, specific_destination};
use weir_inet::sockets::Arrived;
use weir_packet::Packet;
use weir_packet::header::ipv4_options::{self, Chosen};
use weir_packet::header::{Ipv4, Ipv6};

use crate::Message;
use crate::abi::{SOL_IP, SOL_IPV6, SOL_SOCKET, ip, ipv6, so};
use crate::address::{self, Address, unmapped};
use crate::control::Messages;
use crate::cpu::Cx;
use crate::namespace::Namespace;
use crate::options::{Options, Timestamp, ipv6::bit};
use crate::ports::{self, Target};
use crate::socket::{Socket, scope_of};

/// The fields of a received packet that sockets look at.
#[derive(Debug, Clone, Copy)]
pub struct Head {
    pub src: IpAddr,
    pub dst: IpAddr,
    pub ttl: u8,
    pub tos: u8,
}

impl Head {
    /// Reads the IP header of a packet.
    pub fn of(ipv6: bool, data: &[u8]) -> Option<Self> {
        if ipv6 {
            let header = Ipv6::new(data)?;
            return Some(Self {
                src: unmapped(header.src().into()),
                dst: unmapped(header.dst().into()),
                ttl: header.hop_limit(),
                tos: header.traffic_class(),
            });
        }
        let header = Ipv4::new(data)?;
        Some(Self {
            src: IpAddr::from(header.src()),
            dst: IpAddr::from(header.dst()),
            ttl: header.ttl(),
            tos: header.tos(),
        })
    }
}

/// Returns what decides about the receiver of a packet. `accept` names the sysctl that lets sockets without a device
/// have packets of VRFs.
pub fn target(
    cx: &Cx<'_>,
    arrived: &Arrived<'_>,
    head: &Head,
    remote_port: u16,
    accept: &str,
) -> Target {
    let (device, master, any_vrf) = ports::devices(arrived.ns, arrived.device, accept, cx.guard);
    Target {
        local: head.dst,
        remote: head.src,
        remote_port,
        device,
        master,
        any_vrf,
    }
}

/// Passes a packet to the owner of a socket. `from` is the sender as the program sees it, `data` what it gets, `local_port`
/// the packet's destination port. Returns false if it was dropped.
pub fn pass(
    socket: &Arc<Socket>,
    cx: &Cx<'_>,
    arrived: &Arrived<'_>,
    head: &Head,
    (from, local_port): (&Address, u16),
    (packet, filtered): (&Packet, usize),
    data: &[u8],
) -> bool {
    let (options, filter, drops, shut) = {
        let state = socket.state();
        let drops = state.drops;
        (
            state.options.clone(),
            state.filter.clone(),
            drops,
            state.shut.0 || state.closed,
        )
    };
    let mut data = data;
    if shut {
        return false;
    }
    if let Some(filter) = filter {
        let whole = packet.data().get(filtered..).unwrap_or_default();
        let keep = filter.run(whole).unwrap_or(0) as usize;
        if keep == 0 {
            return dropped(socket);
        }
        // The program may cut the packet, but not its header.
        let cut = whole.len().saturating_sub(keep).min(data.len());
        data = data.get(..data.len() - cut).unwrap_or_default();
    }
    let least = if arrived.ipv6 {
        options.min_hops
    } else {
        options.min_ttl
    };
    if head.ttl < least {
        return dropped(socket);
    }
    let mut control = Messages::default();
    let wall = cx.stack.clock.wall_ns();
    common(&mut control, wall, &options, drops, packet.mark);
    let index = arrived.device.ifindex();
    if socket.is_v6() && options.receive6 != 0 {
        messages_v6(&mut control, arrived, &options, head, local_port);
    }
    if !arrived.ipv6 && options.receive != 0 {
        messages_v4(
            &mut control,
            cx,
            arrived,
            &options,
            head,
            (packet, local_port),
        );
    }
    let mut sender = *from;
    sender.scope = scope_of(sender.ip, index);
    let bytes = address::write(socket.is_v6(), &sender);
    let message = Message {
        from: bytes.get(),
        control: control.bytes(),
        data,
        flags: 0,
        length: data.len(),
        time: wall,
    };
    socket.user().message(&message) || dropped(socket)
}

/// Counts a packet that a socket does not get.
pub fn dropped(socket: &Socket) -> bool {
    let mut state = socket.state();
    state.drops = state.drops.wrapping_add(1);
    false
}

/// Writes the messages of `SOL_SOCKET`. `wall` is the time in ns since 1970.
pub fn common(control: &mut Messages, wall: u64, options: &Options, drops: u32, mark: u32) {
    let (seconds, nanos) = (wall / 1_000_000_000, wall % 1_000_000_000);
    let pair = |fraction: u64| {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&seconds.to_ne_bytes());
        bytes[8..].copy_from_slice(&fraction.to_ne_bytes());
        bytes
    };
    match options.timestamp {
        Timestamp::Off => {}
        Timestamp::Micro(new) => {
            let ty = if new {
                so::TIMESTAMP_NEW
            } else {
                so::TIMESTAMP_OLD
            };
            control.put(SOL_SOCKET, ty, &pair(nanos / 1000));
        }
        Timestamp::Nano(new) => {
            let ty = if new {
                so::TIMESTAMPNS_NEW
            } else {
                so::TIMESTAMPNS_OLD
            };
            control.put(SOL_SOCKET, ty, &pair(nanos));
        }
    }
    const RX_SOFTWARE: u32 = 1 << 3;
    const SOFTWARE: u32 = 1 << 4;
    let (flags, new) = options.timestamping;
    if flags & (RX_SOFTWARE | SOFTWARE) == RX_SOFTWARE | SOFTWARE {
        let ty = if new {
            so::TIMESTAMPING_NEW
        } else {
            so::TIMESTAMPING_OLD
        };
        let mut three = [0; 48];
        three[..16].copy_from_slice(&pair(nanos));
        control.put(SOL_SOCKET, ty, &three);
    }
    if options.rxq_ovfl && drops != 0 {
        control.put(SOL_SOCKET, so::RXQ_OVFL, &drops.to_ne_bytes());
    }
    if options.rcvmark {
        control.put(SOL_SOCKET, so::MARK, &mark.to_ne_bytes());
    }
}

fn octets(address: IpAddr) -> [u8; 4] {
    match address {
        IpAddr::V4(address) => address.octets(),
        IpAddr::V6(_) => [0; 4],
    }
}

fn messages_v4(
    control: &mut Messages,
    cx: &Cx<'_>,
    arrived: &Arrived<'_>,
    options: &Options,
    head: &Head,
    (packet, port): (&Packet, u16),
) {
    let wants = |name: i32| options.receive >> name & 1 != 0;
    if wants(ip::PKTINFO) {
        let ns: &Namespace = arrived.ns;
        let to = if arrived.group { To::Group } else { To::Us };
        let own = specific_destination(ns, arrived.device, packet, Some(to), cx.guard);
        let mut info = [0; 12];
        info[..4].copy_from_slice(&arrived.device.ifindex().to_ne_bytes());
        info[4..8].copy_from_slice(&own.map_or([0; 4], |own| own.octets()));
        info[8..].copy_from_slice(&octets(head.dst));
        control.put(SOL_IP, ip::PKTINFO, &info);
    }
    hops(control, false, options, head.ttl, head.tos);
    let len = Ipv4::new(packet.data()).map_or(0, |header| header.header_len());
    let whole = packet.data().get(..len).unwrap_or_default();
    if let Some(found) = whole.get(Ipv4::LEN..).filter(|found| !found.is_empty()) {
        if wants(ip::RECVOPTS) {
            control.put(SOL_IP, ip::RECVOPTS, found);
        }
        // Those of an answer, as the program would choose them.
        let elsewhere = |address| is_elsewhere(arrived.ns, address, cx.guard);
        let answer = || Chosen::new(ipv4_options::echo(whole).ok()?.bytes(), &elsewhere).ok();
        if wants(ip::RETOPTS)
            && let Some(answer) = answer()
        {
            control.put(SOL_IP, ip::RETOPTS, answer.bytes());
        }
    }
    if wants(ip::RECVORIGDSTADDR) {
        let to = Address::new(head.dst, port);
        control.put(
            SOL_IP,
            ip::RECVORIGDSTADDR,
            address::write(false, &to).get(),
        );
    }
}

/// Adds the TTL or hop limit, and the TOS or traffic class, as the options want them.
pub fn hops(control: &mut Messages, over_ipv6: bool, options: &Options, ttl: u8, tos: u8) {
    if over_ipv6 {
        let wants = |name: i32| options.receive6 & bit(name) != 0;
        if wants(ipv6::RECVHOPLIMIT) {
            control.put_int(SOL_IPV6, ipv6::HOPLIMIT, ttl.into());
        }
        if wants(ipv6::RECVTCLASS) {
            control.put_int(SOL_IPV6, ipv6::TCLASS, tos.into());
        }
        if wants(ipv6::HOPLIMIT_2292) {
            control.put_int(SOL_IPV6, ipv6::HOPLIMIT_2292, ttl.into());
        }
        return;
    }
    let wants = |name: i32| options.receive >> name & 1 != 0;
    if wants(ip::RECVTTL) {
        control.put_int(SOL_IP, ip::TTL, ttl.into());
    }
    if wants(ip::RECVTOS) {
        control.put(SOL_IP, ip::TOS, &[tos]);
    }
}

fn messages_v6(
    control: &mut Messages,
    arrived: &Arrived<'_>,
    options: &Options,
    head: &Head,
    port: u16,
) {
    let wants = |name: i32| options.receive6 & bit(name) != 0;
    let info = || {
        let mut info = [0; 20];
        info[..16].copy_from_slice(&address::mapped(head.dst).octets());
        info[16..].copy_from_slice(&arrived.device.ifindex().to_ne_bytes());
        info
    };
    if wants(ipv6::RECVPKTINFO) {
        control.put(SOL_IPV6, ipv6::PKTINFO, &info());
    }
    if arrived.ipv6 {
        hops(control, true, options, head.ttl, head.tos);
    }
    if wants(ipv6::PKTINFO_2292) {
        control.put(SOL_IPV6, ipv6::PKTINFO_2292, &info());
    }
    if wants(ipv6::RECVORIGDSTADDR) {
        let to = Address::new(head.dst, port);
        control.put(
            SOL_IPV6,
            ipv6::RECVORIGDSTADDR,
            address::write(true, &to).get(),
        );
    }
}
