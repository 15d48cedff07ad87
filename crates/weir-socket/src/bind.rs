// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Local addresses and ports of sockets (`__inet_bind`, `__inet6_bind`, `ping_bind`, `raw_bind`, `rawv6_bind`).
//!
//! Programs have all privileges of their namespace, so ports below 1024 are free to all.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weir_core::device::Device;
use weir_inet::ipv4::route::address_type;
use weir_inet::ipv6::select::own_kind;
use weir_netlink::{errno, rta};
use weir_sync::rcu::Guard;

use crate::abi::{AF_INET, AF_INET6};
use crate::address::{Address, LEAST_V6, LEN_V4, LEN_V6, family, read_v4, read_v6};
use crate::cpu::Cx;
use crate::namespace::Namespace;
use crate::ports::{Entry, Which, tables};
use crate::socket::{Proto, Socket};

const LOOPBACK: u32 = 1;
const AF_UNSPEC: u16 = 0;

/// Returns whether an IPv6 address is one of the namespace's; one that is valid on one link must be on `device`.
pub fn is_ours_v6(ns: &Namespace, ip: Ipv6Addr, device: u32, guard: &Guard) -> bool {
    let index = if device == 0 { LOOPBACK } else { device };
    let on = |device: &Device| own_kind(ns, device, ip, guard).is_some();
    ns.device(index, guard).is_some_and(|device| on(device))
}

/// Returns whether an IPv4 address may be bound without `IP_FREEBIND` (`inet_addr_valid_or_nonlocal`).
fn is_valid_v4(ns: &Namespace, ip: Ipv4Addr, device: u32, guard: &Guard) -> bool {
    use weir_inet::fib::host::WithRoutes;
    let table = ns
        .device(device, guard)
        .map_or(0, |device| device.l3_table());
    let kind = match (device, table) {
        (0, _) | (_, 0) => address_type(ns, ip, guard),
        _ => ns.fib().v4.address_type(ip, table, guard),
    };
    ip.is_unspecified()
        || matches!(
            kind,
            rta::rtn::LOCAL | rta::rtn::MULTICAST | rta::rtn::BROADCAST
        )
}

fn nonlocal(ns: &Namespace, ipv6: bool) -> bool {
    let name = match ipv6 {
        true => "ipv6/ip_nonlocal_bind",
        false => "ipv4/ip_nonlocal_bind",
    };
    ns.kept.lock().get(name).is_some_and(|value| value == "1")
}

/// An address that a program wants to bind, checked: the address, the source of packets, and the device that a scope id
/// names (0: none).
#[derive(Debug, Clone, Copy)]
pub struct Wanted {
    /// The address and the port.
    pub address: Address,
    /// The source address of packets; unspecified for groups and broadcasts.
    pub source: IpAddr,
    /// The device that the socket is bound to from now on.
    pub device: u32,
}

/// Reads and checks an address for `bind` on an internet socket.
///
/// # Errors
/// EINVAL, EAFNOSUPPORT, EADDRNOTAVAIL, ENODEV.
pub fn check(socket: &Socket, cx: &Cx<'_>, bytes: &[u8]) -> Result<Wanted, i32> {
    let ns = socket.ns();
    let (device, free, v6only, is_raw) = {
        let state = socket.state();
        let options = &state.options;
        let raw = matches!(socket.proto, Proto::Raw);
        (
            state.device,
            options.freebind || options.transparent,
            options.v6only,
            raw,
        )
    };
    let free_v4 = free || nonlocal(ns, false);
    if !socket.is_v6() {
        let address = read_v4(bytes).ok_or(errno::EINVAL)?;
        match family(bytes) {
            Some(AF_INET) => {}
            Some(AF_UNSPEC) if address.ip.is_unspecified() => {}
            _ if is_raw => {}
            _ => return Err(errno::EAFNOSUPPORT),
        }
        return wanted_v4(ns, cx, address, device, free_v4);
    }
    if bytes.len() < LEAST_V6 {
        return Err(errno::EINVAL);
    }
    if family(bytes) != Some(AF_INET6) {
        return Err(match is_raw {
            true => errno::EINVAL,
            false => errno::EAFNOSUPPORT,
        });
    }
    let address = read_v6(bytes).ok_or(errno::EINVAL)?;
    let ip = match address.ip {
        IpAddr::V4(_) if is_raw => return Err(errno::EADDRNOTAVAIL),
        IpAddr::V4(_) if v6only => return Err(errno::EINVAL),
        IpAddr::V4(_) => {
            return wanted_v4(
                ns,
                cx,
                Address::new(address.ip, address.port),
                device,
                free_v4,
            );
        }
        IpAddr::V6(ip) => ip,
    };
    let mut wanted = Wanted {
        address: Address::new(ip.into(), address.port),
        source: ip.into(),
        device,
    };
    if ip.is_multicast() {
        if matches!(socket.proto, Proto::Tcp(_)) {
            return Err(errno::EINVAL);
        }
        wanted.source = Ipv6Addr::UNSPECIFIED.into();
    }
    if ip.is_unspecified() {
        return Ok(wanted);
    }
    let link = ip.is_unicast_link_local() || (ip.is_multicast() && ip.octets()[1] & 15 <= 2);
    if link {
        if bytes.len() >= LEN_V6 && address.scope != 0 {
            wanted.device = address.scope;
            // As in Linux, the socket stays bound to it if what follows fails.
            socket.state().device = address.scope;
        }
        if wanted.device == 0 {
            return Err(errno::EINVAL);
        }
    }
    if wanted.device != 0 && ns.device(wanted.device, cx.guard).is_none() {
        return Err(errno::ENODEV);
    }
    let free = free || nonlocal(ns, true);
    if !ip.is_multicast() && !free && !is_ours_v6(ns, ip, wanted.device, cx.guard) {
        return Err(errno::EADDRNOTAVAIL);
    }
    Ok(wanted)
}

fn wanted_v4(
    ns: &Namespace,
    cx: &Cx<'_>,
    address: Address,
    device: u32,
    free: bool,
) -> Result<Wanted, i32> {
    let IpAddr::V4(ip) = address.ip else {
        return Err(errno::EAFNOSUPPORT);
    };
    if !free && !is_valid_v4(ns, ip, device, cx.guard) {
        return Err(errno::EADDRNOTAVAIL);
    }
    let kind = address_type(ns, ip, cx.guard);
    let source = match kind {
        rta::rtn::MULTICAST | rta::rtn::BROADCAST => Ipv4Addr::UNSPECIFIED,
        _ => ip,
    };
    Ok(Wanted {
        address,
        source: source.into(),
        device,
    })
}

/// Binds a UDP or ping socket.
///
/// # Errors
/// Those of [`check`], EINVAL if it has a port, EADDRINUSE.
pub fn bind(socket: &Socket, cx: &mut Cx<'_>, bytes: &[u8]) -> Result<(), i32> {
    if matches!(socket.proto, Proto::Ping) {
        // `ping_bind` has other checks for the form.
        let least = if socket.is_v6() { LEAST_V6 } else { LEN_V4 };
        if bytes.len() < least {
            return Err(errno::EINVAL);
        }
    }
    let wanted = check(socket, cx, bytes)?;
    let mut state = socket.state();
    if state.is_bound() || state.peer.is_some() {
        return Err(errno::EINVAL);
    }
    let before = (state.local, state.source, state.device);
    let v6only = state.options.v6only;
    // A socket with an IPv6 address takes no IPv4.
    if wanted.address.ip.is_ipv6() && !wanted.address.ip.is_unspecified() && !v6only {
        state.options.v6only = true;
    }
    state.local.ip = wanted.address.ip;
    state.source = wanted.source;
    state.device = wanted.device;
    if wanted.address.port == 0 && state.options.bind_no_port {
        state.chosen.0 = !wanted.address.ip.is_unspecified();
        return Ok(());
    }
    if let Err(error) = take_port(socket, &mut state, cx, wanted.address.port) {
        (state.local, state.source, state.device) = before;
        if !v6only && state.options.v6only {
            state.options.v6only = false;
        }
        return Err(error);
    }
    state.chosen.0 = !wanted.address.ip.is_unspecified();
    state.chosen.1 = wanted.address.port != 0;
    Ok(())
}

/// Gives a socket a port for its present address, and enters it into its table.
pub fn take_port(
    socket: &Socket,
    state: &mut crate::socket::State,
    cx: &Cx<'_>,
    port: u16,
) -> Result<(), i32> {
    let ns = socket.ns();
    let entry = socket.entry(state).ok_or(errno::EINVAL)?;
    let (which, conflicts): (_, fn(&Entry, &Entry) -> bool) = match socket.proto {
        Proto::Ping => (Which::Ping, Entry::conflicts_ping),
        _ => (Which::Udp, Entry::conflicts_udp),
    };
    let automatic = |a: &Entry, b: &Entry| match port {
        // No port that anybody has, even if it could be shared by `SO_REUSEPORT`.
        0 if which == Which::Udp => !(a.reuse && b.reuse) && a.overlaps(b),
        0 => true,
        _ => conflicts(a, b),
    };
    let port = tables(ns).bind(ns, which, port, entry, automatic, cx.guard)?;
    state.local.port = port;
    state.bound = Some((which, port));
    Ok(())
}

/// Gives a socket without a port one (`inet_autobind`).
///
/// # Errors
/// EAGAIN if none is free.
pub fn autobind(socket: &Socket, cx: &Cx<'_>) -> Result<(), i32> {
    if matches!(socket.proto, Proto::Raw) {
        return Ok(());
    }
    let mut state = socket.state();
    if state.is_bound() {
        return Ok(());
    }
    take_port(socket, &mut state, cx, 0).map_err(|_| errno::EAGAIN)
}

/// Gives a raw socket a local address.
///
/// # Errors
/// Those of [`check`]; EINVAL if it is connected.
pub fn bind_raw(socket: &Socket, cx: &mut Cx<'_>, bytes: &[u8]) -> Result<(), i32> {
    let wanted = check(socket, cx, bytes)?;
    let mut state = socket.state();
    if state.peer.is_some() {
        return Err(errno::EINVAL);
    }
    state.local.ip = wanted.address.ip;
    state.source = wanted.source;
    state.device = wanted.device;
    state.chosen.0 = !wanted.address.ip.is_unspecified();
    socket.publish_locked(&state, cx);
    Ok(())
}
