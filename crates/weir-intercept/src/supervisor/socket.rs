// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Netlink sockets, which lead to the stack.
//!
//! `socket(AF_NETLINK, _, NETLINK_ROUTE)`, `NETLINK_GENERIC`, `NETLINK_NETFILTER` or `NETLINK_SOCK_DIAG`, and the protocol of
//! [`refuse`], returns one end of a `SOCK_SEQPACKET` pair ([`crate::transport`]). From then on the
//! kernel serves `sendmsg`, `recvmsg`, `poll`, `dup`, `fork` and `close` without a stop. Calls that
//! would show the difference stop here:
//!
//! | call | answer |
//! |---|---|
//! | `bind`, `connect` with a `sockaddr_nl` | passed to the backend |
//! | `getsockname`, `getpeername` | a `sockaddr_nl` |
//! | `setsockopt`, `getsockopt` of `SOL_NETLINK`; `SO_TYPE`, `SO_DOMAIN`, `SO_PROTOCOL` | as on a netlink socket |
//! | `recvfrom` with an address | writes the kernel's address first, then the call continues with an address length of 0 |
//! | sends and receives of programs that may not wait for the answer | continue or return once the stack has answered ([`super::traffic`]) |
//!
//! Other netlink protocols do not exist (`EPROTONOSUPPORT`). Sockets of the internet families and
//! packet sockets are in [`super::internet`].
//!
//! Not served: `NETLINK_RX_RING`, `NETLINK_TX_RING` (removed from Linux).
use super::internet::InetSocket;
use super::option::{KIND_MASK, write_option};
use super::{FileKey, Handled, Supervisor, own_key, refuse, traffic};
use crate::backend::{Errno, InetCall, SocketId, SocketOption, SocketRequest};
use crate::filter::{QUICK_FDS, TRAFFIC_FDS};
use crate::seccomp::{Answer, Call};
use crate::sys;
use crate::transport::{self, Connection};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};

/// The protocols that the stack serves.
const SERVED: [i32; 4] = [
    libc::NETLINK_ROUTE,
    libc::NETLINK_GENERIC,
    libc::NETLINK_NETFILTER,
    libc::NETLINK_SOCK_DIAG,
];

/// The length of a sockaddr_nl.
const SOCKADDR_NL: usize = 12;

/// A client's netlink socket.
#[derive(Debug)]
pub(super) struct NetlinkSocket {
    /// The socket's id; `None` for a socket that the stack does not know ([`refuse`]).
    pub(super) id: Option<SocketId>,
    pub(super) ns: crate::backend::NsId,
    portid: u32,
    groups: BTreeSet<u32>,
    kind: i32,
    pub(super) protocol: i32,
    /// The numbers of the options that are on.
    options: BTreeSet<i32>,
}

/// The sockets of this launch.
#[derive(Debug, Default)]
pub(super) struct Sockets {
    pub(super) netlink: BTreeMap<FileKey, NetlinkSocket>,
    /// Internet, raw and packet sockets.
    pub(super) inet: BTreeMap<FileKey, InetSocket>,
    /// The number of internet sockets at which to look for closed ones.
    pub(super) prune_inet_at: usize,
    /// The next number of [`HIGH_FDS`](crate::filter::HIGH_FDS) to try.
    pub(super) next_high: u32,
    /// The packet sockets with a ring.
    pub(super) rings: BTreeSet<SocketId>,
    /// The sockets whose descriptors are files of memory at the moment.
    pub(super) swapped: Vec<super::internet::Swapped>,
    /// The time of the last datagram of the sockets whose programs ask for it, by their id.
    pub(super) stamps: BTreeMap<u64, Option<u64>>,
    /// The datagram sockets whose packets are plain ([`crate::datagram`]).
    pub(super) plain: BTreeSet<SocketId>,
    /// The streams whose receives tell what is left ([`super::internet`]).
    pub(super) counted: BTreeSet<SocketId>,
    /// The streams without a connection that `socket` has made, as far as is known.
    pub(super) idle: BTreeMap<SocketId, super::internet::Idle>,
    /// The streams whose programs did not wait for the end of the handshake, and have not asked for it by `connect`.
    pub(super) beginning: BTreeSet<SocketId>,
    /// The files of `/dev/net/tun`.
    pub(super) tuns: BTreeMap<FileKey, SocketId>,
    /// The number of them at which to look for closed ones.
    pub(super) prune_tuns_at: usize,
    prune_at: usize,
}

impl Supervisor {
    pub(super) fn socket(&mut self, call: &Call) -> Handled {
        let (family, kind, protocol) = (call.int(0), call.int(1), call.int(2));
        match family {
            libc::AF_NETLINK if SERVED.contains(&protocol) => {
                self.netlink_socket(call, kind, protocol)
            }
            libc::AF_NETLINK if self.setup.host_network => Ok(Answer::Continue),
            libc::AF_NETLINK if refuse::PROTOCOLS.contains(&protocol) => {
                self.netlink_socket(call, kind, protocol)
            }
            libc::AF_NETLINK => Err(Errno(libc::EPROTONOSUPPORT)),
            _ => self.inet_socket(call),
        }
    }

    pub(super) fn hand_out(&mut self, call: &Call, socket: &OwnedFd, kind: i32) -> Handled {
        let close_on_exec = kind & libc::SOCK_CLOEXEC != 0;
        self.listener
            .answer_with(call, socket.as_fd(), close_on_exec, None)
    }

    /// Returns a socket to the caller at one of these numbers, if one is free and within the program's limit, else at the
    /// lowest that is free.
    fn hand_out_at(
        &mut self,
        call: &Call,
        socket: &OwnedFd,
        kind: i32,
        numbers: Range<u32>,
    ) -> Handled {
        let close_on_exec = kind & libc::SOCK_CLOEXEC != 0;
        for number in numbers {
            let taken =
                std::fs::symlink_metadata(format!("/proc/{}/fd/{number}", call.tid)).is_ok();
            if taken {
                continue;
            }
            match self
                .listener
                .answer_with(call, socket.as_fd(), close_on_exec, Some(number))
            {
                Ok(sent) => return Ok(sent),
                Err(_) => break, // above the caller's limit of open files
            }
        }
        self.hand_out(call, socket, kind)
    }

    fn netlink_socket(&mut self, call: &Call, kind: i32, protocol: i32) -> Handled {
        if !matches!(kind & KIND_MASK, libc::SOCK_RAW | libc::SOCK_DGRAM) {
            return Err(Errno(libc::ESOCKTNOSUPPORT));
        }
        let ns = self.namespace(call.tid);
        self.still_waiting(call)?;
        let (client, daemon) = transport::pair()?;
        if kind & libc::SOCK_NONBLOCK != 0 {
            sys::set_nonblocking(client.as_fd())?;
        }
        sys::set_nonblocking(daemon.as_fd())?;
        let key = own_key(&client)?;
        let process = self.process(call);
        let (id, portid) = if !refuse::PROTOCOLS.contains(&protocol) {
            let request = SocketRequest {
                ns,
                protocol,
                process,
                thread: call.tid,
            };
            match self.backend.open_socket(&request, daemon) {
                Ok(grant) => (Some(grant.id), grant.portid),
                Err(error) => {
                    self.say_if_gone(call, error);
                    return Err(error);
                }
            }
        } else {
            let portid = refuse::port_id(call, process);
            self.refused.add(Connection::new(daemon), portid);
            (None, portid)
        };
        self.prune_sockets();
        self.sockets.netlink.insert(
            key,
            NetlinkSocket {
                id,
                ns,
                portid,
                groups: BTreeSet::new(),
                kind: kind & KIND_MASK,
                protocol,
                options: BTreeSet::new(),
            },
        );
        let numbers = match Self::waits_for_answers(call) {
            true => QUICK_FDS,
            false => TRAFFIC_FDS,
        };
        self.hand_out_at(call, &client, kind, numbers)
    }

    pub(super) fn say_if_gone(&mut self, call: &Call, error: Errno) {
        if error.0 == libc::ECONNREFUSED {
            let directory = self.setup.stack.directory.display().to_string();
            self.say_once(
                call,
                "gone",
                &format!("the stack at {directory} is gone: its daemon has ended"),
            );
        }
    }

    fn prune_sockets(&mut self) {
        let sockets = &mut self.sockets;
        if sockets.netlink.len() < sockets.prune_at.max(1024) {
            return;
        }
        let backend = &self.backend;
        sockets
            .netlink
            .retain(|_, s| s.id.is_none_or(|id| backend.is_open(id)));
        sockets.prune_at = sockets.netlink.len() * 2;
    }

    pub(super) fn netlink(&mut self, call: &Call) -> Option<&mut NetlinkSocket> {
        let key = self.first_key(call).ok()?;
        self.sockets.netlink.get_mut(&key)
    }

    pub(super) fn bind(&mut self, call: &Call) -> Handled {
        if let Some(socket) = self.inet_of(call) {
            return self.inet_bind(call, socket);
        }
        let backend = self.backend.clone();
        let Some(socket) = self.netlink(call) else {
            return Ok(Answer::Continue);
        };
        let (family, portid, groups) = read_address(call)?;
        if family != libc::AF_NETLINK as u16 {
            return Err(Errno(libc::EINVAL));
        }
        if let Some(id) = socket.id {
            socket.portid = backend.bind(id, portid, groups)?;
        } else if portid != 0 {
            socket.portid = portid;
        }
        socket.groups.retain(|&group| group > 32);
        socket
            .groups
            .extend((1..=32).filter(|group| groups >> (group - 1) & 1 == 1));
        Ok(Answer::Value(0))
    }

    pub(super) fn connect(&mut self, call: &Call) -> Handled {
        if let Some(socket) = self.inet_of(call) {
            return self.inet_connect(call, socket);
        }
        if self.netlink(call).is_none() {
            return Ok(Answer::Continue);
        }
        match read_address(call)? {
            (family, 0, _) if family == libc::AF_NETLINK as u16 => Ok(Answer::Value(0)),
            (family, ..) if family == libc::AF_NETLINK as u16 => Err(Errno(libc::ECONNREFUSED)),
            _ => Err(Errno(libc::EINVAL)),
        }
    }

    pub(super) fn socket_name(&mut self, call: &Call) -> Handled {
        if let Some(socket) = self.netlink(call) {
            let mask = socket
                .groups
                .iter()
                .filter(|&&group| group <= 32)
                .fold(0, |mask, group| mask | 1u32 << (group - 1));
            let portid = socket.portid;
            return write_address(call, &netlink_address(portid, mask));
        }
        match self.inet_of(call) {
            Some(socket) => self.inet_name(call, InetCall::LocalAddress(socket.id)),
            None => Ok(Answer::Continue),
        }
    }

    pub(super) fn peer_name(&mut self, call: &Call) -> Handled {
        if self.netlink(call).is_some() {
            return write_address(call, &netlink_address(0, 0));
        }
        match self.inet_of(call) {
            Some(socket) => self.inet_name(call, InetCall::PeerAddress(socket.id)),
            None => Ok(Answer::Continue),
        }
    }

    pub(super) fn set_option(&mut self, call: &Call) -> Handled {
        if call.int(1) != libc::SOL_NETLINK {
            return match self.inet_of(call) {
                Some(socket) => self.set_inet_option(call, socket),
                None => Ok(Answer::Continue),
            };
        }
        let backend = self.backend.clone();
        let Some(socket) = self.netlink(call) else {
            return Ok(Answer::Continue);
        };
        if call.int(4) < 4 {
            return Err(Errno(libc::EINVAL));
        }
        let value = u32::from_ne_bytes(sys::read_array(call.tid, call.args[3])?);
        let number = call.int(2);
        let on = value != 0;
        let option = match number {
            libc::NETLINK_ADD_MEMBERSHIP => SocketOption::AddMembership(value),
            libc::NETLINK_DROP_MEMBERSHIP => SocketOption::DropMembership(value),
            libc::NETLINK_PKTINFO => SocketOption::PacketInfo(on),
            libc::NETLINK_BROADCAST_ERROR => SocketOption::BroadcastError(on),
            libc::NETLINK_NO_ENOBUFS => SocketOption::NoEnobufs(on),
            libc::NETLINK_LISTEN_ALL_NSID => SocketOption::ListenAllNsid(on),
            libc::NETLINK_CAP_ACK => SocketOption::CapAck(on),
            libc::NETLINK_EXT_ACK => SocketOption::ExtAck(on),
            libc::NETLINK_GET_STRICT_CHK => SocketOption::StrictCheck(on),
            _ => return Err(Errno(libc::ENOPROTOOPT)),
        };
        if let Some(id) = socket.id {
            backend.set_option(id, option)?;
        }
        match option {
            SocketOption::AddMembership(group) => {
                socket.groups.insert(group);
            }
            SocketOption::DropMembership(group) => {
                socket.groups.remove(&group);
            }
            _ if on => {
                socket.options.insert(number);
            }
            _ => {
                socket.options.remove(&number);
            }
        }
        Ok(Answer::Value(0))
    }

    pub(super) fn get_option(&mut self, call: &Call) -> Handled {
        let (level, number) = (call.int(1), call.int(2));
        if level != libc::SOL_NETLINK
            && let Some(socket) = self.inet_of(call)
        {
            return self.inet_option(call, socket);
        }
        let Some(socket) = self.netlink(call) else {
            return Ok(Answer::Continue);
        };
        if !matches!(level, libc::SOL_SOCKET | libc::SOL_NETLINK) {
            return Err(Errno(libc::ENOPROTOOPT));
        }
        if level == libc::SOL_SOCKET {
            let value = match number {
                libc::SO_TYPE => socket.kind,
                libc::SO_DOMAIN => libc::AF_NETLINK,
                libc::SO_PROTOCOL => socket.protocol,
                _ => return Ok(Answer::Continue),
            };
            return write_option(call, value);
        }
        match number {
            libc::NETLINK_LIST_MEMBERSHIPS => {
                let words = socket.groups.last().map_or(0, |last| last.div_ceil(32));
                let mut mask = vec![0u32; words as usize];
                for group in &socket.groups {
                    if let Some(word) = group.checked_sub(1).map(|bit| bit / 32) {
                        mask[word as usize] |= 1 << ((group - 1) % 32);
                    }
                }
                let bytes: Vec<u8> = mask.iter().flat_map(|word| word.to_ne_bytes()).collect();
                let room = u32::from_ne_bytes(sys::read_array(call.tid, call.args[4])?) as usize;
                sys::write_memory(call.tid, call.args[3], &bytes[..bytes.len().min(room) & !3])?;
                sys::write_memory(call.tid, call.args[4], &(bytes.len() as u32).to_ne_bytes())?;
                Ok(Answer::Value(0))
            }
            libc::NETLINK_PKTINFO
            | libc::NETLINK_BROADCAST_ERROR
            | libc::NETLINK_NO_ENOBUFS
            | libc::NETLINK_LISTEN_ALL_NSID
            | libc::NETLINK_CAP_ACK
            | libc::NETLINK_EXT_ACK
            | libc::NETLINK_GET_STRICT_CHK => {
                let on = socket.options.contains(&number);
                write_option(call, on.into())
            }
            _ => Err(Errno(libc::ENOPROTOOPT)),
        }
    }

    pub(super) fn receive_from(&mut self, call: &Call) -> Handled {
        let Some(id) = self.netlink(call).map(|socket| socket.id) else {
            return self.inet_receive(call);
        };
        if traffic::is_traffic(call) || call.int(3) & libc::MSG_DONTWAIT != 0 {
            self.settle(id);
        }
        if call.args[4] != 0 && call.args[5] != 0 {
            // With a length of 0 the kernel stores no byte of its AF_UNIX address, but writes a
            // length of 12.
            let room = u32::from_ne_bytes(sys::read_array(call.tid, call.args[5])?) as usize;
            let address = netlink_address(0, 0);
            let n = room.min(SOCKADDR_NL);
            sys::write_memory(call.tid, call.args[4], &address[..n])?;
            sys::write_memory(call.tid, call.args[5], &0u32.to_ne_bytes())?;
        }
        Ok(Answer::Continue)
    }

    /// Returns the namespace to which a socket's ioctls apply: a netlink socket's own, otherwise
    /// the caller's. Returns `None` if the descriptor is no socket.
    pub(super) fn namespace_for_ioctl(&mut self, call: &Call) -> Option<crate::backend::NsId> {
        if let Some(socket) = self.netlink(call) {
            return Some(socket.ns);
        }
        let link = std::fs::read_link(format!("/proc/{}/fd/{}", call.tid, call.int(0))).ok()?;
        link.to_str()?
            .starts_with("socket:[")
            .then(|| self.namespace(call.tid))
    }
}

/// Returns the bytes of a sockaddr_nl.
fn netlink_address(portid: u32, groups: u32) -> [u8; SOCKADDR_NL] {
    let mut address = [0; SOCKADDR_NL];
    address[..2].copy_from_slice(&(libc::AF_NETLINK as u16).to_ne_bytes());
    address[4..8].copy_from_slice(&portid.to_ne_bytes());
    address[8..].copy_from_slice(&groups.to_ne_bytes());
    address
}

/// Returns family, port id and groups of the address argument of `bind` or `connect`.
fn read_address(call: &Call) -> Result<(u16, u32, u32), Errno> {
    let address: [u8; SOCKADDR_NL] = sys::read_array(call.tid, call.args[1])?;
    let word = |at: usize| {
        let mut bytes = [0; 4];
        bytes.copy_from_slice(&address[at..at + 4]);
        u32::from_ne_bytes(bytes)
    };
    let family = u16::from_ne_bytes([address[0], address[1]]);
    Ok((family, word(4), word(8)))
}

/// Answers `getsockname` or `getpeername`: writes the address as far as it fits, and its full
/// length.
pub(super) fn write_address(call: &Call, address: &[u8]) -> Handled {
    let room = i32::from_ne_bytes(sys::read_array(call.tid, call.args[2])?);
    let room = usize::try_from(room).map_err(|_| Errno(libc::EINVAL))?;
    let length = (address.len() as u32).to_ne_bytes();
    let address = &address[..address.len().min(room)];
    sys::write_pieces(
        call.tid,
        &[(call.args[1], address), (call.args[2], &length)],
    )?;
    Ok(Answer::Value(0))
}
