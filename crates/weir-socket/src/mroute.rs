// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The socket of a multicast routing daemon: a raw socket of IGMP, or of ICMPv6 (`ip_mroute_setsockopt`,
//! `ip_mroute_getsockopt`, `ipmr_ioctl`, and those of IPv6 in `net/ipv6/ip6mr.c`). What it asks for is in
//! [`weir_inet::multicast`].

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use weir_inet::fib::host::Host;
use weir_inet::ipv4::multicast::{self as v4, Ends, V4};
use weir_inet::ipv6::multicast::{self as v6, V6};
use weir_inet::multicast::{self, Daemon, Family, Key, MAX_VIFS, NewEntry, NewVif, Router};
use weir_inet::sockets::Arrived;
use weir_netlink::{errno, rta};
use weir_packet::Packet;

use crate::abi::{IPPROTO_ICMPV6, IPPROTO_IGMP, SOCK_RAW, mrt};
use crate::address::Address;
use crate::cpu::Cx;
use crate::device::Device;
use crate::namespace::Namespace;
use crate::options::{int, of_int};
use crate::receive::{self, Head};
use crate::socket::Socket;

/// The length of a `struct vifctl` in bytes.
const VIF: usize = 16;
/// The length of a `struct mif6ctl` in bytes.
const MIF: usize = 12;
/// The length of a `struct mfcctl` in bytes.
const ENTRY: usize = 60;
/// The length of a `struct mf6cctl` in bytes.
const ENTRY6: usize = 92;
/// The length of a `struct sockaddr_in6` in bytes.
const SOCKADDR6: usize = 28;
/// The version of the interface that programs see.
const VERSION: i32 = 0x0305;

/// Returns whether an option of `SOL_IP` or `SOL_IPV6` is about multicast routes (`ip_mroute_opt`, `ip6_mroute_opt`).
pub fn is_option(name: i32) -> bool {
    (mrt::INIT..=mrt::MAX).contains(&name)
}

impl Daemon for Socket {
    fn cookie(&self) -> u64 {
        Socket::cookie(self)
    }

    fn take(&self, cx: &Cx<'_>, device: &Arc<Device>, ns: &Namespace, packet: &Packet) -> bool {
        let data = packet.data();
        let ipv6 = self.is_v6();
        let (Some(socket), Some(head)) = (self.handle(), Head::of(ipv6, data)) else {
            return false;
        };
        let arrived = Arrived {
            device,
            ns,
            ipv6,
            at: 0,
            group: true,
        };
        let from = (&Address::new(head.src, 0), 0);
        receive::pass(&socket, cx, &arrived, &head, from, (packet, 0), data)
    }
}

fn host<'a>(socket: &'a Socket, cx: &Cx<'a>) -> Host<'a> {
    Host {
        stack: cx.stack,
        ns: socket.ns(),
        guard: cx.guard,
    }
}

fn check(socket: &Socket) -> Result<(), i32> {
    let protocol = match socket.is_v6() {
        false => i32::from(IPPROTO_IGMP),
        true => IPPROTO_ICMPV6,
    };
    match socket.kind() == SOCK_RAW && socket.protocol() == protocol {
        true => Ok(()),
        false => Err(errno::EOPNOTSUPP),
    }
}

fn number(value: &[u8]) -> Result<i32, i32> {
    match value.len() {
        4 => int(value),
        _ => Err(errno::EINVAL),
    }
}

/// Returns the number of the table that a socket has chosen (`MRT_TABLE`, `MRT6_TABLE`).
fn chosen<F: Family>(socket: &Socket) -> u32 {
    match socket.state().options.multicast_table {
        0 => F::TABLE,
        table => table,
    }
}

/// Returns the table of a socket. Nobody has used the one that every namespace has until this makes it.
fn router<'a, F: Family>(socket: &'a Socket, cx: &Cx<'a>) -> &'a Router<F> {
    // Tables stay, so that one that a socket has chosen exists.
    multicast::make::<F>(cx.stack, socket.ns(), chosen::<F>(socket))
}

/// Sets an option of IPv4.
///
/// # Errors
/// EOPNOTSUPP for other sockets, EADDRINUSE for a second daemon, and those of the table.
pub fn set4(socket: &Socket, cx: &mut Cx<'_>, name: i32, value: &[u8]) -> Result<(), i32> {
    check(socket)?;
    match name {
        mrt::INIT => {
            number(value)?;
            init::<V4>(socket, cx)
        }
        mrt::ADD_VIF => {
            let (router, host) = (router(socket, cx), host(socket, cx));
            v4::add_vif(&host, router, &vif(value)?, socket.cookie())
        }
        mrt::DEL_VIF => {
            let number = vif(value)?.number;
            router::<V4>(socket, cx).delete_vif(&host(socket, cx), number)
        }
        _ => set::<V4>(socket, cx, name, value, entry),
    }
}

/// Sets an option of IPv6.
///
/// # Errors
/// As [`set4`].
pub fn set6(socket: &Socket, cx: &mut Cx<'_>, name: i32, value: &[u8]) -> Result<(), i32> {
    check(socket)?;
    match name {
        mrt::INIT => {
            int(value)?;
            init::<V6>(socket, cx)
        }
        mrt::ADD_VIF => {
            // A `struct mif6ctl`: number, flags, threshold, index of the device, rate.
            let bytes: &[u8; MIF] = value.first_chunk().ok_or(errno::EINVAL)?;
            let number = u16::from_ne_bytes([bytes[0], bytes[1]]);
            if usize::from(number) >= MAX_VIFS {
                return Err(errno::ENFILE);
            }
            let ifindex = u16::from_ne_bytes([bytes[4], bytes[5]]);
            let host = host(socket, cx);
            let router = router(socket, cx);
            v6::add_mif(
                &host,
                router,
                number as u8,
                bytes[2],
                ifindex,
                socket.cookie(),
            )
        }
        mrt::DEL_VIF => {
            let number = u16::from_ne_bytes(*value.first_chunk().ok_or(errno::EINVAL)?);
            let number = u8::try_from(number).map_err(|_| errno::EADDRNOTAVAIL)?;
            router::<V6>(socket, cx).delete_vif(&host(socket, cx), number)
        }
        _ => set::<V6>(socket, cx, name, value, entry6),
    }
}

fn init<F: Family>(socket: &Socket, cx: &Cx<'_>) -> Result<(), i32> {
    let daemon = socket.handle().ok_or(errno::EBADF)?;
    router::<F>(socket, cx).init(&host(socket, cx), daemon)
}

/// Reads an entry, which is one of `MRT_ADD_MFC_PROXY` or not.
type Read<A> = fn(&[u8], bool) -> Result<NewEntry<A>, i32>;

/// Sets an option that both families have alike. `read` reads an entry.
fn set<F: Family>(
    socket: &Socket,
    cx: &mut Cx<'_>,
    name: i32,
    value: &[u8],
    read: Read<F::Address>,
) -> Result<(), i32> {
    let (router, host) = (router::<F>(socket, cx), host(socket, cx));
    let cookie = socket.cookie();
    match name {
        mrt::DONE => router.done(&host, cookie),
        mrt::DEL_MFC | mrt::DEL_MFC_PROXY => {
            let entry = read(value, name == mrt::DEL_MFC_PROXY)?;
            router.delete(&host, &entry)
        }
        mrt::ADD_MFC | mrt::ADD_MFC_PROXY => {
            let entry = read(value, name == mrt::ADD_MFC_PROXY)?;
            let is_static = !router.is_daemons(cookie);
            let resolved = router.add(&host, &entry, is_static, cx.now)?;
            if let Some(resolved) = resolved {
                multicast::resolve(cx, socket.ns(), resolved);
            }
            Ok(())
        }
        mrt::FLUSH => {
            router.flush(&host, number(value)?);
            Ok(())
        }
        mrt::ASSERT => {
            router.set_assert(number(value)? != 0);
            Ok(())
        }
        mrt::PIM => {
            router.set_pim(number(value)?);
            Ok(())
        }
        mrt::TABLE => {
            let table = number(value)? as u32;
            // Names of devices hold the number of their table.
            if table != rta::table::DEFAULT && table >= F::TABLES {
                return Err(errno::EINVAL);
            }
            if router.is_daemons(cookie) {
                return Err(errno::EBUSY);
            }
            multicast::make::<F>(cx.stack, socket.ns(), table);
            socket.state().options.multicast_table = table;
            Ok(())
        }
        _ => Err(errno::ENOPROTOOPT),
    }
}

/// Reads a `struct vifctl`.
fn vif(value: &[u8]) -> Result<NewVif<V4>, i32> {
    let bytes: &[u8; VIF] = value.try_into().map_err(|_| errno::EINVAL)?;
    let number = u16::from_ne_bytes([bytes[0], bytes[1]]);
    if usize::from(number) >= MAX_VIFS {
        return Err(errno::ENFILE);
    }
    Ok(NewVif {
        number: number as u8,
        flags: bytes[2],
        ends: Ends {
            local: [bytes[8], bytes[9], bytes[10], bytes[11]],
            remote: [bytes[12], bytes[13], bytes[14], bytes[15]],
        },
    })
}

/// Reads a source and a group.
fn key(bytes: &[u8; 8]) -> Key<Ipv4Addr> {
    let [a, b, c, d, e, f, g, h] = *bytes;
    Key::from((Ipv4Addr::new(a, b, c, d), Ipv4Addr::new(e, f, g, h)))
}

/// Reads a `struct mfcctl`: source, group, parent, thresholds, and counters that mean nothing.
fn entry(value: &[u8], proxy: bool) -> Result<NewEntry<Ipv4Addr>, i32> {
    let bytes: &[u8; ENTRY] = value.try_into().map_err(|_| errno::EINVAL)?;
    let head = bytes.first_chunk().ok_or(errno::EINVAL)?;
    let thresholds = bytes.get(10..).and_then(|rest| rest.first_chunk());
    Ok(NewEntry {
        key: key(head),
        parent: u16::from_ne_bytes([bytes[8], bytes[9]]),
        thresholds: *thresholds.ok_or(errno::EINVAL)?,
        proxy,
    })
}

/// Reads the addresses of two `struct sockaddr_in6`: a source and a group.
fn key6(value: &[u8]) -> Option<Key<Ipv6Addr>> {
    let address = |at: usize| {
        let bytes: [u8; 16] = *value.get(at + 8..)?.first_chunk()?;
        Some(Ipv6Addr::from(bytes))
    };
    Some(Key::from((address(0)?, address(SOCKADDR6)?)))
}

/// Reads a `struct mf6cctl`: source, group, parent, and one bit for each MIF that packets leave by.
fn entry6(value: &[u8], proxy: bool) -> Result<NewEntry<Ipv6Addr>, i32> {
    let bytes: &[u8; ENTRY6] = value.first_chunk().ok_or(errno::EINVAL)?;
    let set = u32::from_ne_bytes([bytes[60], bytes[61], bytes[62], bytes[63]]);
    Ok(NewEntry {
        key: key6(bytes).ok_or(errno::EINVAL)?,
        parent: u16::from_ne_bytes([bytes[56], bytes[57]]),
        thresholds: std::array::from_fn(|at| (set >> at & 1) as u8),
        proxy,
    })
}

/// Returns the value of an option of the socket's family.
///
/// # Errors
/// EOPNOTSUPP for other sockets, ENOPROTOOPT.
pub fn get(socket: &Socket, name: i32) -> Result<Vec<u8>, i32> {
    check(socket)?;
    match socket.is_v6() {
        true => get_of::<V6>(socket, name),
        false => get_of::<V4>(socket, name),
    }
}

fn get_of<F: Family>(socket: &Socket, name: i32) -> Result<Vec<u8>, i32> {
    let router = multicast::of::<F>(socket.ns(), chosen::<F>(socket));
    let flag = |get: fn(&Router<F>) -> bool| of_int(router.is_some_and(get).into());
    match name {
        mrt::VERSION => Ok(of_int(VERSION)),
        mrt::ASSERT => Ok(flag(Router::asserts)),
        mrt::PIM => Ok(flag(Router::speaks_pim)),
        _ => Err(errno::ENOPROTOOPT),
    }
}

/// The counters of a VIF (`SIOCGETVIFCNT`, `SIOCGETMIFCNT_IN6`): a `struct sioc_vif_req`, which is returned filled in, and
/// which a `struct sioc_mif_req6` is like.
const GET_VIF_COUNT: u32 = 0x89e0;
/// Those of an entry (`SIOCGETSGCNT`, `SIOCGETSGCNT_IN6`): a `struct sioc_sg_req` or `struct sioc_sg_req6`.
const GET_ENTRY_COUNT: u32 = 0x89e1;

/// Serves an ioctl of a raw socket.
///
/// # Errors
/// EINVAL for a number above those of all VIFs, EADDRNOTAVAIL for a VIF or an entry that does not exist, ENOTTY for others.
pub fn ioctl(socket: &Socket, cx: &Cx<'_>, request: u32, given: &[u8]) -> Result<Vec<u8>, i32> {
    if socket.kind() != SOCK_RAW {
        return Err(errno::ENOTTY);
    }
    match socket.is_v6() {
        true => counts::<V6>(socket, cx, request, given, 2 * SOCKADDR6, key6),
        false => {
            let read = |bytes: &[u8]| bytes.first_chunk().map(key);
            counts::<V4>(socket, cx, request, given, 8, read)
        }
    }
}

/// Returns counters behind what the program has given. A source and a group take `key` bytes, which `read` reads.
fn counts<F: Family>(
    socket: &Socket,
    cx: &Cx<'_>,
    request: u32,
    given: &[u8],
    key: usize,
    read: fn(&[u8]) -> Option<Key<F::Address>>,
) -> Result<Vec<u8>, i32> {
    let router = multicast::of::<F>(socket.ns(), chosen::<F>(socket));
    let (head, counts): (usize, Vec<u64>) = match request {
        GET_VIF_COUNT => {
            let number = u16::from_ne_bytes(*given.first_chunk().ok_or(errno::EFAULT)?);
            let vifs = router.map(|router| router.vifs(cx.guard));
            let vifs = vifs.filter(|vifs| usize::from(number) < vifs.end());
            let vif = vifs.ok_or(errno::EINVAL)?.get(number as u8);
            let vif = vif.ok_or(errno::EADDRNOTAVAIL)?;
            let ((packets, bytes), (sent, sent_bytes)) = (vif.received(), vif.sent());
            (8, vec![packets, sent, bytes, sent_bytes])
        }
        GET_ENTRY_COUNT => {
            let wanted = read(given).ok_or(errno::EFAULT)?;
            let entry = router.and_then(|router| router.entry(wanted, cx.guard));
            let counts = entry.ok_or(errno::EADDRNOTAVAIL)?.counts();
            (key, counts.to_vec())
        }
        _ => return Err(errno::ENOTTY),
    };
    let counts = counts.iter().flat_map(|count| count.to_ne_bytes());
    let head = given.get(..head).ok_or(errno::EFAULT)?;
    Ok(head.iter().copied().chain(counts).collect())
}

/// Ends the daemon whose socket is closed.
pub fn closed(socket: &Socket, cx: &Cx<'_>) {
    if check(socket).is_err() {
        return;
    }
    let host = host(socket, cx);
    match socket.is_v6() {
        true => multicast::closed::<V6>(&host, socket.cookie()),
        false => multicast::closed::<V4>(&host, socket.cookie()),
    }
}
