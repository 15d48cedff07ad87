// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The options of IPv4 (`do_ip_setsockopt`, `do_ip_getsockopt` of `net/ipv4/ip_sockglue.c`).
//!
//! Not served: `IP_OPTIONS` of TCP and with source routes, `IP_ROUTER_ALERT`, multicast filters given as lists (`IP_MSFILTER`, `MCAST_MSFILTER`), IPsec.

use std::net::{IpAddr, Ipv4Addr};

use weir_inet::ipv4::output::priority;
use weir_inet::ipv4::route::is_elsewhere;
use weir_inet::settings::{Ipv4, WithSettings};
use weir_netlink::errno;
use weir_packet::header::ipv4_options::{Chosen, Refused};

use super::{int_or_byte, of_int, word};
use crate::abi::{SOCK_RAW, SOCK_STREAM, ip, mcast};
use crate::cpu::Cx;
use crate::group::{self, Change};
use crate::mroute;
use crate::socket::Socket;

/// The options that only say which control messages a program wants.
const MESSAGES: [i32; 9] = [
    ip::PKTINFO,
    ip::RECVTTL,
    ip::RECVTOS,
    ip::RECVOPTS,
    ip::RETOPTS,
    ip::PASSSEC,
    ip::RECVORIGDSTADDR,
    ip::CHECKSUM,
    ip::RECVFRAGSIZE,
];

fn address(value: &[u8], at: usize) -> Option<Ipv4Addr> {
    let bytes = value.get(at..)?.first_chunk::<4>()?;
    Some((*bytes).into())
}

/// Sets an option.
///
/// # Errors
/// ENOPROTOOPT, EINVAL, ENODEV, EADDRNOTAVAIL, EADDRINUSE, ENOBUFS, those of [`mroute::set4`].
pub fn set(socket: &Socket, cx: &mut Cx<'_>, name: i32, value: &[u8]) -> Result<(), i32> {
    match name {
        ip::ADD_MEMBERSHIP..=ip::DROP_SOURCE_MEMBERSHIP
        | mcast::JOIN_GROUP..=mcast::LEAVE_SOURCE_GROUP => {
            return membership(socket, cx, name, value);
        }
        ip::MULTICAST_IF => return multicast_if(socket, cx, value),
        _ if mroute::is_option(name) => return mroute::set4(socket, cx, name, value),
        _ => {}
    }
    let val = int_or_byte(value);
    let on = val != 0;
    let some = || match value {
        [] => Err(errno::EINVAL),
        _ => Ok(()),
    };
    let mut state = socket.state();
    let options = &mut state.options;
    match name {
        _ if MESSAGES.contains(&name) => {
            options.receive = options.receive & !(1 << name) | u64::from(on) << name;
        }
        ip::TOS => {
            options.tos = match socket.kind() {
                // The ECN bits are TCP's.
                SOCK_STREAM => val as u8 & !3 | options.tos & 3,
                _ => val as u8,
            };
            options.priority = priority(options.tos);
        }
        ip::TTL => {
            some()?;
            if val != -1 && !(1..=255).contains(&val) {
                return Err(errno::EINVAL);
            }
            options.ttl = val;
        }
        ip::HDRINCL if socket.kind() != SOCK_RAW => return Err(errno::ENOPROTOOPT),
        ip::HDRINCL => options.hdrincl = on,
        ip::MTU_DISCOVER => {
            if !(0..=5).contains(&val) {
                return Err(errno::EINVAL);
            }
            options.pmtudisc = val as u8;
        }
        ip::RECVERR => {
            options.recverr = on;
            if !on {
                state.errors = None;
            }
        }
        ip::RECVERR_RFC4884 if !(0..=1).contains(&val) => return Err(errno::EINVAL),
        ip::RECVERR_RFC4884 => options.rfc4884 = on,
        ip::FREEBIND => {
            some()?;
            options.freebind = on;
        }
        ip::TRANSPARENT => {
            some()?;
            options.transparent = on;
        }
        ip::NODEFRAG if socket.kind() != SOCK_RAW => return Err(errno::ENOPROTOOPT),
        ip::NODEFRAG => options.nodefrag = on,
        ip::BIND_ADDRESS_NO_PORT => options.bind_no_port = on,
        ip::MINTTL => {
            some()?;
            if !(0..=255).contains(&val) {
                return Err(errno::EINVAL);
            }
            options.min_ttl = val as u8;
        }
        ip::MULTICAST_TTL => {
            if socket.kind() == SOCK_STREAM {
                return Err(errno::EINVAL);
            }
            some()?;
            options.mc_ttl = match val {
                -1 => 1,
                0..=255 => val as u8,
                _ => return Err(errno::EINVAL),
            };
        }
        ip::MULTICAST_LOOP => {
            some()?;
            options.mc_loop = on;
        }
        ip::MULTICAST_ALL => {
            some()?;
            if val != 0 && val != 1 {
                return Err(errno::EINVAL);
            }
            options.mc_all = on;
        }
        ip::UNICAST_IF => {
            if value.len() != 4 {
                return Err(errno::EINVAL);
            }
            let index = u32::from_be(val as u32);
            if index != 0 {
                let device = socket.ns().device(index, cx.guard);
                let device = device.ok_or(errno::EADDRNOTAVAIL)?;
                let bound = state.device;
                // To a VRF, as Linux has it: not to the device itself.
                if bound != 0 && device.l3_master_index(cx.guard) != bound {
                    return Err(errno::EINVAL);
                }
            }
            state.options.uc_device = index;
        }
        ip::OPTIONS => {
            let (ns, guard) = (socket.ns(), cx.guard);
            let elsewhere = |address| is_elsewhere(ns, address, guard);
            let chosen = match Chosen::new(value, &elsewhere) {
                Ok(chosen) if chosen.is_empty() || socket.kind() != SOCK_STREAM => chosen,
                Ok(_) | Err(Refused::SourceRoute) => return Err(errno::EOPNOTSUPP),
                Err(Refused::Invalid) => return Err(errno::EINVAL),
            };
            options.ip_options = Some(chosen);
        }
        _ => return Err(errno::ENOPROTOOPT),
    }
    Ok(())
}

/// Sets the device of packets to groups.
fn multicast_if(socket: &Socket, cx: &mut Cx<'_>, value: &[u8]) -> Result<(), i32> {
    if socket.kind() == SOCK_STREAM {
        return Err(errno::EINVAL);
    }
    let any = Ipv4Addr::UNSPECIFIED;
    let (own, mut index) = match value.len() {
        12.. => (
            address(value, 4).unwrap_or(any),
            word(value, 8).unwrap_or(0),
        ),
        8.. => (address(value, 4).unwrap_or(any), 0),
        4.. => (address(value, 0).unwrap_or(any), 0),
        _ => return Err(errno::EINVAL),
    };
    let mut source = any;
    if index == 0 {
        if !own.is_unspecified() {
            let device = group::owner(socket.ns(), own, cx.guard).ok_or(errno::EADDRNOTAVAIL)?;
            (index, source) = (device.ifindex(), own);
        }
    } else {
        let device = socket.ns().device(index, cx.guard);
        device.ok_or(errno::EADDRNOTAVAIL)?;
        source = own;
    }
    let mut state = socket.state();
    if index != 0 && !group::may_send_by(socket.ns(), state.device, index, cx.guard) {
        return Err(errno::EINVAL);
    }
    (state.options.mc_device, state.options.mc_address) = (index, source);
    Ok(())
}

/// Changes the groups of the socket.
fn membership(socket: &Socket, cx: &mut Cx<'_>, name: i32, value: &[u8]) -> Result<(), i32> {
    if socket.kind() == SOCK_STREAM {
        return Err(errno::EPROTO);
    }
    let any = Ipv4Addr::UNSPECIFIED;
    let (change, group, own, index, source) = match name {
        ip::ADD_MEMBERSHIP | ip::DROP_MEMBERSHIP => {
            if value.len() < 8 {
                return Err(errno::EINVAL);
            }
            let change = match name {
                ip::ADD_MEMBERSHIP => Change::Join,
                _ => Change::Leave,
            };
            let index = match value.len() {
                12.. => word(value, 8).unwrap_or(0),
                _ => 0,
            };
            (change, address(value, 0), address(value, 4), index, None)
        }
        ip::UNBLOCK_SOURCE
        | ip::BLOCK_SOURCE
        | ip::ADD_SOURCE_MEMBERSHIP
        | ip::DROP_SOURCE_MEMBERSHIP => {
            if value.len() != 12 {
                return Err(errno::EINVAL);
            }
            let change = match name {
                ip::UNBLOCK_SOURCE => Change::Unblock,
                ip::BLOCK_SOURCE => Change::Block,
                ip::ADD_SOURCE_MEMBERSHIP => Change::JoinSource,
                _ => Change::LeaveSource,
            };
            (
                change,
                address(value, 0),
                address(value, 4),
                0,
                address(value, 8),
            )
        }
        _ => {
            let (change, index, group, source) = group::request(name, value)?;
            let v4 = |address: IpAddr| match address {
                IpAddr::V4(address) => Ok(address),
                IpAddr::V6(_) => Err(errno::EADDRNOTAVAIL),
            };
            let source = source.map(v4).transpose()?;
            (change, Some(v4(group)?), Some(any), index, source)
        }
    };
    let group = group.ok_or(errno::EINVAL)?;
    let own = own.filter(|own| !own.is_unspecified());
    group::change_v4(socket, cx, change, group, own, index, source)
}

/// Returns an option's value.
///
/// # Errors
/// ENOPROTOOPT, ENOTCONN.
pub fn get(socket: &Socket, name: i32, room: &[u8]) -> Result<Vec<u8>, i32> {
    if mroute::is_option(name) {
        return mroute::get(socket, name);
    }
    let state = socket.state();
    let options = &state.options;
    let val = match name {
        _ if MESSAGES.contains(&name) => i32::from(options.receive >> name & 1 != 0),
        ip::TOS => options.tos.into(),
        ip::TTL => match options.ttl {
            -1 => 64,
            ttl => ttl,
        },
        ip::HDRINCL => options.hdrincl.into(),
        ip::MTU_DISCOVER => options.pmtudisc.into(),
        ip::RECVERR => options.recverr.into(),
        ip::RECVERR_RFC4884 => options.rfc4884.into(),
        ip::FREEBIND => options.freebind.into(),
        ip::TRANSPARENT => options.transparent.into(),
        ip::NODEFRAG => options.nodefrag.into(),
        ip::BIND_ADDRESS_NO_PORT => options.bind_no_port.into(),
        ip::MINTTL => options.min_ttl.into(),
        ip::MULTICAST_TTL => options.mc_ttl.into(),
        ip::MULTICAST_LOOP => options.mc_loop.into(),
        ip::MULTICAST_ALL => options.mc_all.into(),
        ip::UNICAST_IF => options.uc_device.to_be() as i32,
        ip::MTU => {
            drop(state);
            socket.path_mtu().ok_or(errno::ENOTCONN)? as i32
        }
        ip::MULTICAST_IF => return Ok(options.mc_address.octets().to_vec()),
        ip::OPTIONS => return Ok(options.chosen().to_vec()),
        _ => return Err(errno::ENOPROTOOPT),
    };
    Ok(match room.len() {
        1..4 if (0..=255).contains(&val) => vec![val as u8],
        _ => of_int(val),
    })
}

/// Returns how many groups a socket may join.
pub fn most_groups(socket: &Socket) -> usize {
    let most = socket.ns().conf().ipv4.get(Ipv4::IgmpMaxMemberships);
    most.max(0) as usize
}
