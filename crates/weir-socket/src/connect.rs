// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Peers of datagram sockets (`__ip4_datagram_connect`, `__ip6_datagram_connect`, `__udp_disconnect`).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weir_inet::mib::{Count, Ip};
use weir_inet::{ipv4, ipv6};
use weir_netlink::{errno, rta};

use crate::abi::{AF_INET, AF_INET6, pmtudisc};
use crate::address::{Address, LEAST_V6, LEN_V6, family, read_v4, read_v6};
use crate::bind;
use crate::cpu::Cx;
use crate::group;
use crate::ports::tables;
use crate::socket::{Proto, Socket};

const AF_UNSPEC: u16 = 0;

/// Sets the peer, or removes it.
///
/// # Errors
/// EINVAL, EAFNOSUPPORT, EAGAIN without a free port, EACCES for a broadcast without `SO_BROADCAST`, those of the route.
pub fn connect(socket: &Socket, cx: &mut Cx<'_>, bytes: &[u8]) -> Result<(), i32> {
    let family = family(bytes).ok_or(errno::EINVAL)?;
    if family == AF_UNSPEC {
        disconnect(socket, cx);
        return Ok(());
    }
    if !matches!(socket.proto, Proto::Raw) {
        bind::autobind(socket, cx)?;
    }
    if !socket.is_v6() {
        let to = read_v4(bytes).ok_or(errno::EINVAL)?;
        if family != AF_INET {
            return Err(errno::EAFNOSUPPORT);
        }
        return connect_v4(socket, cx, to);
    }
    let v6only = socket.state().options.v6only;
    if family == AF_INET {
        if v6only {
            return Err(errno::EAFNOSUPPORT);
        }
        return connect_v4(socket, cx, read_v4(bytes).ok_or(errno::EINVAL)?);
    }
    if bytes.len() < LEAST_V6 {
        return Err(errno::EINVAL);
    }
    if family != AF_INET6 {
        return Err(errno::EAFNOSUPPORT);
    }
    let to = read_v6(bytes).ok_or(errno::EINVAL)?;
    let local = socket.state().local.ip;
    match to.ip {
        IpAddr::V4(_) if v6only => Err(errno::ENETUNREACH),
        IpAddr::V4(_) => connect_v4(socket, cx, to),
        IpAddr::V6(ip) => {
            let any = ip.is_unspecified();
            if any && local.is_ipv4() {
                let to = Address::new(Ipv4Addr::LOCALHOST.into(), to.port);
                return connect_v4(socket, cx, to);
            }
            let ip = if any { Ipv6Addr::LOCALHOST } else { ip };
            let scope = if bytes.len() >= LEN_V6 { to.scope } else { 0 };
            connect_v6(socket, cx, ip, &Address { scope, ..to })
        }
    }
}

fn connect_v4(socket: &Socket, cx: &mut Cx<'_>, to: Address) -> Result<(), i32> {
    let IpAddr::V4(dst) = to.ip else {
        return Err(errno::EAFNOSUPPORT);
    };
    let ns = socket.ns().clone();
    let wish = {
        let state = socket.state();
        let options = &state.options;
        let mut oif = state.device;
        let mut src = match state.source {
            IpAddr::V4(src) if !src.is_unspecified() => Some(src),
            _ => None,
        };
        if dst.is_multicast() {
            if oif == 0 || group::is_vrf(&ns, oif, cx.guard) {
                oif = options.mc_device;
            }
            let chosen = Some(options.mc_address).filter(|own| !own.is_unspecified());
            src = src.or(chosen);
        } else if oif == 0 {
            oif = options.uc_device;
        }
        ipv4::egress::Wish {
            dst,
            src,
            oif,
            tos: options.tos,
            mark: options.mark,
            protocol: socket.protocol() as u8,
            ports: (state.local.port, to.port),
            any_source: options.transparent,
            on_link: options.dontroute,
        }
    };
    let way = ipv4::egress::find(&ns, &wish, cx.guard).inspect_err(|error| {
        if *error == errno::ENETUNREACH {
            cx.mib(&ns).ip.add(Ip::OutNoRoutes, 1);
        }
    })?;
    let mut state = socket.state();
    if way.kind == rta::rtn::BROADCAST && !state.options.broadcast {
        return Err(errno::EACCES);
    }
    if state.source.is_unspecified() {
        state.source = way.src.into();
    }
    if state.local.ip.is_unspecified() {
        state.local.ip = way.src.into();
    }
    let to = Address::new(way.dst.into(), to.port);
    state.peer = Some(to);
    state.learned = None;
    socket.publish_locked(&state, cx);
    Ok(())
}

fn connect_v6(socket: &Socket, cx: &mut Cx<'_>, dst: Ipv6Addr, to: &Address) -> Result<(), i32> {
    let ns = socket.ns().clone();
    let wish = {
        let mut state = socket.state();
        if state.local.ip.is_ipv4() {
            // Bound to an IPv4-mapped address.
            return Err(errno::ENETUNREACH);
        }
        let link = dst.is_unicast_link_local() || (dst.is_multicast() && dst.octets()[1] & 15 <= 2);
        if link {
            if to.scope != 0 {
                if state.device != 0 && state.device != to.scope {
                    return Err(errno::EINVAL);
                }
                state.device = to.scope;
            }
            if state.device == 0 && dst.is_multicast() {
                state.device = state.options.mc_device6;
            }
            if state.device == 0 {
                return Err(errno::EINVAL);
            }
        }
        let options = &state.options;
        let oif = match state.device {
            0 if state.sticky_device != 0 => state.sticky_device,
            0 if dst.is_multicast() => options.mc_device6,
            0 => options.uc_device6,
            bound => bound,
        };
        ipv6::egress::Wish {
            dst,
            src: match state.source {
                IpAddr::V6(src) if !src.is_unspecified() => Some(src),
                _ => None,
            },
            oif,
            mark: options.mark,
            protocol: socket.protocol() as u8,
            ports: (state.local.port, to.port),
        }
    };
    let bound = socket.state().device != 0;
    let way = ipv6::egress::find_bound(&ns, &wish, bound, cx.guard)?;
    let mut state = socket.state();
    if state.source.is_unspecified() {
        state.source = way.src.into();
    }
    if state.local.ip.is_unspecified() {
        state.local.ip = way.src.into();
    }
    state.peer = Some(Address {
        ip: way.dst.into(),
        port: to.port,
        scope: 0,
        flow: if state.options.flowinfo_send {
            to.flow
        } else {
            0
        },
    });
    state.learned = None;
    socket.publish_locked(&state, cx);
    Ok(())
}

/// Removes the peer, and the address and the port that the program has not chosen.
pub fn disconnect(socket: &Socket, cx: &mut Cx<'_>) {
    let mut state = socket.state();
    state.peer = None;
    state.device = 0;
    if !state.chosen.0 {
        let any = Address::any(socket.is_v6()).ip;
        (state.local.ip, state.source) = (any, any);
    }
    let raw = matches!(socket.proto, Proto::Raw);
    if state.chosen.1 || raw {
        socket.publish_locked(&state, cx);
    } else if let Some((which, port)) = state.bound.take() {
        state.local.port = 0;
        tables(socket.ns()).remove(socket.ns(), which, port, socket, cx.guard);
    }
}

/// Returns the path MTU of a connected datagram socket (`IP_MTU`, `IPV6_MTU`).
pub fn path_mtu(socket: &Socket) -> Option<u32> {
    let guard = socket.domain().pin();
    let ns = socket.ns();
    let state = socket.state();
    let peer = state.peer?;
    let learned = state
        .learned
        .as_deref()
        .filter(|(ip, _)| *ip == peer.ip)
        .map(|&(_, mtu)| mtu);
    let mtu = match (peer.ip, state.source) {
        (IpAddr::V4(dst), source) => {
            let wish = ipv4::egress::Wish {
                dst,
                src: match source {
                    IpAddr::V4(src) if !src.is_unspecified() => Some(src),
                    _ => None,
                },
                oif: state.device,
                tos: state.options.tos,
                mark: state.options.mark,
                protocol: socket.protocol() as u8,
                ports: (state.local.port, peer.port),
                any_source: true,
                on_link: state.options.dontroute,
            };
            ipv4::egress::find(ns, &wish, &guard).ok()?.hop.mtu
        }
        (IpAddr::V6(dst), _) => {
            let wish = ipv6::egress::Wish {
                dst,
                src: None,
                oif: state.device,
                mark: state.options.mark,
                protocol: socket.protocol() as u8,
                ports: (state.local.port, peer.port),
            };
            ipv6::egress::find(ns, &wish, &guard).ok()?.route.mtu()
        }
    };
    let discover = match peer.ip {
        IpAddr::V4(_) => state.options.pmtudisc,
        IpAddr::V6(_) => state.options.pmtudisc6,
    };
    Some(match learned {
        Some(learned) if discover < pmtudisc::PROBE => mtu.min(learned),
        _ => mtu,
    })
}
