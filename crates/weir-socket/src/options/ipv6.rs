// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The options of IPv6 (`do_ipv6_setsockopt`, `do_ipv6_getsockopt` of `net/ipv6/ipv6_sockglue.c`).
//!
//! Not served: extension headers (`IPV6_HOPOPTS` and so on), anycast memberships, flow label leases, `IPV6_ADDRFORM`,
//! `IPV6_ROUTER_ALERT`, multicast filters given as lists.

use std::net::{IpAddr, Ipv6Addr};

use weir_netlink::errno;

use super::{int, of_int, word};
use crate::abi::{SOCK_RAW, SOCK_STREAM, ipv6, mcast};
use crate::cpu::Cx;
use crate::group::{self, Change};
use crate::mroute;
use crate::socket::Socket;

/// The options that only say which control messages a program wants, and their bits in `receive6`.
const MESSAGES: [i32; 11] = [
    ipv6::RECVPKTINFO,
    ipv6::RECVHOPLIMIT,
    ipv6::RECVTCLASS,
    ipv6::FLOWINFO,
    ipv6::RECVPATHMTU,
    ipv6::RECVORIGDSTADDR,
    ipv6::RECVFRAGSIZE,
    ipv6::PKTINFO_2292,
    ipv6::HOPLIMIT_2292,
    ipv6::RECVHOPOPTS,
    ipv6::RECVDSTOPTS,
];

/// Returns the bit of an option in `receive6`.
pub fn bit(name: i32) -> u32 {
    let at = MESSAGES.iter().position(|one| *one == name);
    at.map_or(0, |at| 1 << at)
}

/// Sets an option.
///
/// # Errors
/// ENOPROTOOPT, EINVAL, ENODEV, EADDRNOTAVAIL, EADDRINUSE, those of [`mroute::set6`].
pub fn set(socket: &Socket, cx: &mut Cx<'_>, name: i32, value: &[u8]) -> Result<(), i32> {
    match name {
        ipv6::JOIN_GROUP | ipv6::LEAVE_GROUP | mcast::JOIN_GROUP..=mcast::LEAVE_SOURCE_GROUP => {
            return membership(socket, cx, name, value);
        }
        ipv6::PKTINFO => return sticky_info(socket, value),
        _ if mroute::is_option(name) => return mroute::set6(socket, cx, name, value),
        _ => {}
    }
    let val = int(value)?;
    let on = val != 0;
    let device = |index: i32| match index {
        0 => Ok(0),
        1.. if socket.ns().device(index as u32, cx.guard).is_some() => Ok(index as u32),
        _ => Err(errno::ENODEV),
    };
    let mut state = socket.state();
    let (bound, has_port) = (state.device, state.is_bound());
    let options = &mut state.options;
    match name {
        _ if bit(name) != 0 => {
            options.receive6 = (options.receive6 & !bit(name)) | (u32::from(on) * bit(name));
        }
        ipv6::V6ONLY => {
            if has_port {
                return Err(errno::EINVAL);
            }
            options.v6only = on;
        }
        ipv6::UNICAST_HOPS => {
            if !(-1..=255).contains(&val) {
                return Err(errno::EINVAL);
            }
            options.hops = val;
        }
        ipv6::MULTICAST_HOPS => {
            if socket.kind() == SOCK_STREAM {
                return Err(errno::ENOPROTOOPT);
            }
            if !(-1..=255).contains(&val) {
                return Err(errno::EINVAL);
            }
            options.mc_hops = if val == -1 { 1 } else { val };
        }
        ipv6::MULTICAST_LOOP if !(0..=1).contains(&val) => return Err(errno::EINVAL),
        ipv6::MULTICAST_LOOP => options.mc_loop6 = on,
        ipv6::MULTICAST_ALL => options.mc_all6 = on,
        ipv6::MULTICAST_IF => {
            if socket.kind() == SOCK_STREAM {
                return Err(errno::ENOPROTOOPT);
            }
            let index = device(val)?;
            if index != 0 && !group::may_send_by(socket.ns(), bound, index, cx.guard) {
                return Err(errno::EINVAL);
            }
            options.mc_device6 = index;
        }
        ipv6::UNICAST_IF => {
            let index = u32::from_be(val as u32);
            device(index as i32).map_err(|_| errno::EADDRNOTAVAIL)?;
            if index != 0 && bound != 0 && bound != index {
                return Err(errno::EINVAL);
            }
            options.uc_device6 = index;
        }
        ipv6::TCLASS => {
            if !(-1..=255).contains(&val) {
                return Err(errno::EINVAL);
            }
            let class = val.max(0) as u8;
            options.tclass = match socket.kind() {
                SOCK_STREAM => class & !3 | options.tclass & 3,
                _ => class,
            };
        }
        ipv6::MTU_DISCOVER if !(0..=5).contains(&val) => return Err(errno::EINVAL),
        ipv6::MTU_DISCOVER => options.pmtudisc6 = val as u8,
        ipv6::MTU if val != 0 && val < 1280 => return Err(errno::EINVAL),
        ipv6::MTU => state.frag_size = val as u32,
        ipv6::RECVERR => {
            options.recverr6 = on;
            if !on {
                state.errors = None;
            }
        }
        ipv6::RECVERR_RFC4884 if !(0..=1).contains(&val) => return Err(errno::EINVAL),
        ipv6::RECVERR_RFC4884 => options.rfc4884_6 = on,
        ipv6::FLOWINFO_SEND => options.flowinfo_send = on,
        ipv6::AUTOFLOWLABEL => options.autoflowlabel = Some(on),
        ipv6::DONTFRAG => options.dontfrag = on,
        ipv6::HDRINCL if socket.kind() != SOCK_RAW => return Err(errno::ENOPROTOOPT),
        ipv6::HDRINCL => options.hdrincl = on,
        ipv6::TRANSPARENT => options.transparent = on,
        ipv6::FREEBIND => options.freebind = on,
        ipv6::MINHOPCOUNT if !(0..=255).contains(&val) => return Err(errno::EINVAL),
        ipv6::MINHOPCOUNT => options.min_hops = val as u8,
        ipv6::ADDR_PREFERENCES => {
            options.preferences = preferences(options.preferences, val).ok_or(errno::EINVAL)?;
        }
        _ => return Err(errno::ENOPROTOOPT),
    }
    Ok(())
}

/// The preferences of source addresses (`IPV6_PREFER_SRC_*`): temporary ones are 1, public ones 2.
const COA: i32 = 4;
const CGA: i32 = 8;
const PUBTMP_DEFAULT: i32 = 0x100;
const HOME: i32 = 0x400;
const NON_CGA: i32 = 0x800;

/// Returns the preferences that follow from `old` ones and those that are set; none if these contradict each other
/// (`ipv6_sock_set_addr_preferences`). Unknown ones count for nothing.
fn preferences(old: u8, val: i32) -> Option<u8> {
    let mut new = i32::from(old);
    match val & (3 | PUBTMP_DEFAULT) {
        0 => {}
        one @ (1 | 2) => new = new & !3 | one,
        PUBTMP_DEFAULT => new &= !3,
        _ => return None,
    }
    match val & (HOME | COA) {
        0 => {}
        HOME => new &= !COA,
        COA => new |= COA,
        _ => return None,
    }
    (val & (CGA | NON_CGA) != CGA | NON_CGA).then_some(new as u8)
}

/// Sets the device that packets leave by, as a control message does for one (`IPV6_PKTINFO`). A source address is set by
/// binding.
fn sticky_info(socket: &Socket, value: &[u8]) -> Result<(), i32> {
    if value.is_empty() {
        socket.state().sticky_device = 0;
        return Ok(());
    }
    if value.len() < 20 {
        return Err(errno::EINVAL);
    }
    let index = word(value, 16).unwrap_or(0);
    let mut state = socket.state();
    if state.device != 0 && index != state.device {
        return Err(errno::EINVAL);
    }
    state.sticky_device = index;
    Ok(())
}

/// Changes the groups of the socket.
fn membership(socket: &Socket, cx: &mut Cx<'_>, name: i32, value: &[u8]) -> Result<(), i32> {
    if socket.kind() == SOCK_STREAM {
        return Err(errno::EPROTO);
    }
    let v6 = |address: IpAddr| match address {
        IpAddr::V6(address) => Ok(address),
        IpAddr::V4(_) => Err(errno::EADDRNOTAVAIL),
    };
    let (change, index, group, source) = match name {
        ipv6::JOIN_GROUP | ipv6::LEAVE_GROUP => {
            let group: [u8; 16] = *value.first_chunk().ok_or(errno::EINVAL)?;
            let index = word(value, 16).ok_or(errno::EINVAL)?;
            let change = match name {
                ipv6::JOIN_GROUP => Change::Join,
                _ => Change::Leave,
            };
            (change, index, Ipv6Addr::from(group), None)
        }
        _ => {
            let (change, index, group, source) = group::request(name, value)?;
            let source = source.map(v6).transpose()?;
            (change, index, v6(group)?, source)
        }
    };
    group::change_v6(socket, cx, change, group, index, source)
}

/// Returns an option's value.
///
/// # Errors
/// ENOPROTOOPT, ENOTCONN.
pub fn get(socket: &Socket, name: i32, room: &[u8]) -> Result<Vec<u8>, i32> {
    let _ = room;
    if mroute::is_option(name) {
        return mroute::get(socket, name);
    }
    let state = socket.state();
    let options = &state.options;
    let val = match name {
        _ if bit(name) != 0 => i32::from(options.receive6 & bit(name) != 0),
        ipv6::V6ONLY => options.v6only.into(),
        ipv6::UNICAST_HOPS => match options.hops {
            -1 => 64,
            hops => hops,
        },
        ipv6::MULTICAST_HOPS => options.mc_hops,
        ipv6::MULTICAST_LOOP => options.mc_loop6.into(),
        ipv6::MULTICAST_ALL => options.mc_all6.into(),
        ipv6::MULTICAST_IF => options.mc_device6 as i32,
        ipv6::UNICAST_IF => options.uc_device6.to_be() as i32,
        ipv6::TCLASS => options.tclass.into(),
        ipv6::MTU_DISCOVER => options.pmtudisc6.into(),
        ipv6::RECVERR => options.recverr6.into(),
        ipv6::RECVERR_RFC4884 => options.rfc4884_6.into(),
        ipv6::FLOWINFO_SEND => options.flowinfo_send.into(),
        ipv6::AUTOFLOWLABEL => options.autoflowlabel.unwrap_or(true).into(),
        ipv6::DONTFRAG => options.dontfrag.into(),
        ipv6::HDRINCL if socket.kind() != SOCK_RAW => return Err(errno::ENOPROTOOPT),
        ipv6::HDRINCL => options.hdrincl.into(),
        ipv6::TRANSPARENT => options.transparent.into(),
        ipv6::FREEBIND => options.freebind.into(),
        ipv6::MINHOPCOUNT => options.min_hops.into(),
        ipv6::ADDR_PREFERENCES => {
            let set = i32::from(options.preferences);
            let public = if set & 3 == 0 {
                PUBTMP_DEFAULT
            } else {
                set & 3
            };
            let home = if set & COA == 0 { HOME } else { COA };
            public | home
        }
        ipv6::MTU => {
            drop(state);
            socket.path_mtu().ok_or(errno::ENOTCONN)? as i32
        }
        _ => return Err(errno::ENOPROTOOPT),
    };
    Ok(of_int(val))
}
