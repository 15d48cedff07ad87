// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The socket of a multicast routing daemon: a raw socket of IGMP (`ip_mroute_setsockopt`, `ip_mroute_getsockopt`,
//! `ipmr_ioctl`). What it asks for is in [`weir_inet::ipv4::multicast`].
//!
//! Not served, as without the kernel's options for them: PIM (`MRT_PIM`, VIFs with `VIFF_REGISTER`), further tables
//! (`MRT_TABLE`).

use std::net::Ipv4Addr;
use std::sync::Arc;

use weir_inet::fib::host::Host;
use weir_inet::ipv4::multicast::{self, Daemon, Key, MAX_VIFS, NewEntry, NewVif};
use weir_inet::sockets::Arrived;
use weir_netlink::errno;
use weir_packet::Packet;

use crate::abi::{IPPROTO_IGMP, SOCK_RAW, mrt};
use crate::address::Address;
use crate::cpu::Cx;
use crate::device::Device;
use crate::namespace::Namespace;
use crate::options::{int, of_int};
use crate::receive::{self, Head};
use crate::socket::Socket;

/// The length of a `struct vifctl` in bytes.
const VIF: usize = 16;
/// The length of a `struct mfcctl` in bytes.
const ENTRY: usize = 60;
/// The version of the interface that programs see.
const VERSION: i32 = 0x0305;

/// Returns whether an option of `SOL_IP` is about multicast routes (`ip_mroute_opt`).
pub fn is_option(name: i32) -> bool {
    (mrt::INIT..=mrt::MAX).contains(&name)
}

impl Daemon for Socket {
    fn cookie(&self) -> u64 {
        Socket::cookie(self)
    }

    fn take(&self, cx: &Cx<'_>, device: &Arc<Device>, ns: &Namespace, packet: &Packet) -> bool {
        let data = packet.data();
        let (Some(socket), Some(head)) = (self.handle(), Head::of(false, data)) else {
            return false;
        };
        let arrived = Arrived {
            device,
            ns,
            ipv6: false,
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
    match socket.kind() == SOCK_RAW && socket.protocol() == IPPROTO_IGMP.into() {
        true => Ok(()),
        false => Err(errno::EOPNOTSUPP),
    }
}

/// Sets an option.
///
/// # Errors
/// EOPNOTSUPP for other sockets, EADDRINUSE for a second daemon, and those of the table.
pub fn set(socket: &Socket, cx: &mut Cx<'_>, name: i32, value: &[u8]) -> Result<(), i32> {
    check(socket)?;
    let host = host(socket, cx);
    let cookie = socket.cookie();
    let number = || match value.len() {
        4 => int(value),
        _ => Err(errno::EINVAL),
    };
    match name {
        mrt::INIT => {
            number()?;
            let daemon = socket.handle().ok_or(errno::EBADF)?;
            multicast::init(&host, daemon)
        }
        mrt::DONE => multicast::done(&host, cookie),
        mrt::ADD_VIF | mrt::DEL_VIF => {
            let vif = vif(value)?;
            match name {
                mrt::ADD_VIF => multicast::add_vif(&host, &vif, cookie),
                _ => multicast::delete_vif(&host, vif.number),
            }
        }
        mrt::DEL_MFC | mrt::DEL_MFC_PROXY => {
            let entry = entry(value, name == mrt::DEL_MFC_PROXY)?;
            multicast::delete(&host, &entry)
        }
        mrt::ADD_MFC | mrt::ADD_MFC_PROXY => {
            let entry = entry(value, name == mrt::ADD_MFC_PROXY)?;
            let router = multicast::of(socket.ns());
            let is_static = router.is_none_or(|router| !router.is_daemons(cookie));
            let resolved = multicast::add(&host, &entry, is_static, cx.now)?;
            if let Some(resolved) = resolved {
                multicast::resolve(cx, socket.ns(), resolved);
            }
            Ok(())
        }
        mrt::FLUSH => {
            multicast::flush_all(&host, number()?);
            Ok(())
        }
        mrt::ASSERT => {
            multicast::set_assert(&host, number()? != 0);
            Ok(())
        }
        _ => Err(errno::ENOPROTOOPT),
    }
}

/// Reads a `struct vifctl`.
fn vif(value: &[u8]) -> Result<NewVif, i32> {
    let bytes: &[u8; VIF] = value.try_into().map_err(|_| errno::EINVAL)?;
    let number = u16::from_ne_bytes([bytes[0], bytes[1]]);
    if usize::from(number) >= MAX_VIFS {
        return Err(errno::ENFILE);
    }
    Ok(NewVif {
        number: number as u8,
        flags: bytes[2],
        local: [bytes[8], bytes[9], bytes[10], bytes[11]],
        remote: [bytes[12], bytes[13], bytes[14], bytes[15]],
    })
}

/// Reads a source and a group.
fn key(bytes: &[u8; 8]) -> Key {
    let [a, b, c, d, e, f, g, h] = *bytes;
    Key::from((Ipv4Addr::new(a, b, c, d), Ipv4Addr::new(e, f, g, h)))
}

/// Reads a `struct mfcctl`: source, group, parent, thresholds, and counters that mean nothing.
fn entry(value: &[u8], proxy: bool) -> Result<NewEntry, i32> {
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

/// Returns an option's value.
///
/// # Errors
/// EOPNOTSUPP for other sockets, ENOPROTOOPT.
pub fn get(socket: &Socket, name: i32) -> Result<Vec<u8>, i32> {
    check(socket)?;
    match name {
        mrt::VERSION => Ok(of_int(VERSION)),
        mrt::ASSERT => {
            let router = multicast::of(socket.ns());
            Ok(of_int(router.is_some_and(|r| r.asserts()).into()))
        }
        _ => Err(errno::ENOPROTOOPT),
    }
}

/// The counters of a VIF (`SIOCGETVIFCNT`): a `struct sioc_vif_req`, which is returned filled in.
const GET_VIF_COUNT: u32 = 0x89e0;
/// Those of an entry (`SIOCGETSGCNT`): a `struct sioc_sg_req`.
const GET_ENTRY_COUNT: u32 = 0x89e1;

/// Serves an ioctl of a raw socket.
///
/// # Errors
/// EINVAL for a number above those of all VIFs, EADDRNOTAVAIL for a VIF or an entry that does not exist, ENOTTY for others.
pub fn ioctl(socket: &Socket, cx: &Cx<'_>, request: u32, given: &[u8]) -> Result<Vec<u8>, i32> {
    if socket.kind() != SOCK_RAW || socket.is_v6() {
        return Err(errno::ENOTTY);
    }
    let router = multicast::of(socket.ns());
    let head: &[u8; 8] = given.first_chunk().ok_or(errno::EFAULT)?;
    let counts: Vec<u64> = match request {
        GET_VIF_COUNT => {
            let number = u16::from_ne_bytes([head[0], head[1]]);
            let vifs = router.map(|router| router.vifs(cx.guard));
            let vifs = vifs.filter(|vifs| usize::from(number) < vifs.end());
            let vif = vifs.ok_or(errno::EINVAL)?.get(number as u8);
            let vif = vif.ok_or(errno::EADDRNOTAVAIL)?;
            let ((packets, bytes), (sent, sent_bytes)) = (vif.received(), vif.sent());
            vec![packets, sent, bytes, sent_bytes]
        }
        GET_ENTRY_COUNT => {
            let entry = router.and_then(|router| router.entry(key(head), cx.guard));
            entry.ok_or(errno::EADDRNOTAVAIL)?.counts().to_vec()
        }
        _ => return Err(errno::ENOTTY),
    };
    let counts = counts.iter().flat_map(|count| count.to_ne_bytes());
    Ok(head.iter().copied().chain(counts).collect())
}

/// Ends the daemon whose socket is closed.
pub fn closed(socket: &Socket, cx: &Cx<'_>) {
    if check(socket).is_ok() && !socket.is_v6() && multicast::of(socket.ns()).is_some() {
        // Most sockets are not the daemon's.
        let _ = multicast::done(&host(socket, cx), socket.cookie());
    }
}
