// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sends and receives on sockets of programs that may not wait for the answer.
//!
//! In Linux a netlink request runs inside `sendmsg`: when that returns, the answer and the first
//! datagrams of a dump are available, and each `recvmsg` produces further ones. Here a thread of
//! the stack answers. A program that waits in `recvmsg` does not notice the difference. A program
//! that does not wait would find nothing: with `O_NONBLOCK`, with `MSG_DONTWAIT`, or in `poll` with
//! a time-out of 0.
//!
//! A filter sees only the number of a socket, not whether its owner waits. Therefore netlink
//! sockets get numbers of [`TRAFFIC_FDS`](crate::filter::TRAFFIC_FDS), regardless of how they are
//! created and which options are set later. A send on such a number stops: the supervisor sends the
//! datagram in the program's place, lets the stack answer, and returns. A receive stops as well and
//! continues when the stack has written as much as the socket holds, so that a dump longer than its
//! buffer has no gap. Each stop takes time, which `tc -b` should not pay. The programs of
//! [`WAITING`] always wait, so their sockets get numbers of [`QUICK_FDS`](crate::filter::QUICK_FDS),
//! where only calls with `MSG_DONTWAIT` stop. Once such numbers are taken, or above the limit of
//! open files, sockets get the lowest free number, where calls on messages stop.
//!
//! Datagram sockets of the internet families ([`super::internet`]) get numbers of their own, at which everything stops.
//!
//! Not served: duplicates of a socket (`dup`) at other numbers; `read` beyond the capacity of a
//! socket's buffer.
use super::internet::NO_NETFILTER;
use super::message::{MSGHDR, Place};
use super::{Handled, Supervisor};
use crate::backend::{Errno, SocketId};
use crate::filter::{HIGH_FDS, SOCKET_FDS, TRAFFIC_FDS};
use crate::seccomp::{Answer, Call};
use crate::sys;
use crate::transport::MAX_REQUEST;
use std::fs;
use std::os::fd::{AsFd, BorrowedFd};
use weir_netlink as nl;

/// Programs that wait for each answer, by their name in the kernel: those of iproute2 and busybox,
/// and `weir`, whose `weir play` takes as long as it plays.
const WAITING: [&str; 4] = ["ip", "tc", "bridge", "weir"];

/// Returns whether a call names a descriptor whose traffic stops.
pub(super) fn is_traffic(call: &Call) -> bool {
    let fd = call.args[0] as u32;
    [TRAFFIC_FDS, SOCKET_FDS, HIGH_FDS]
        .iter()
        .any(|range| range.contains(&fd))
}

impl Supervisor {
    /// Returns whether the caller is a program that waits for each answer.
    pub(super) fn waits_for_answers(call: &Call) -> bool {
        let name = fs::read_to_string(format!("/proc/{}/comm", call.tid)).unwrap_or_default();
        WAITING.contains(&name.trim_end())
    }

    /// Lets the stack answer the requests that a socket has sent. `None` is a socket that the stack
    /// does not know.
    pub(super) fn settle(&mut self, id: Option<SocketId>) {
        match id {
            Some(id) => self.backend.settle(id),
            None => self.refused.serve(),
        }
    }

    /// Serves a send.
    pub(super) fn send(&mut self, call: &Call) -> Handled {
        let Some((id, protocol)) = self.netlink(call).map(|s| (s.id, s.protocol)) else {
            return match self.inet_of(call) {
                Some(socket) if !socket.is_stream() => self.send_datagram(call, socket),
                Some(socket) => self.send_stream(call, socket),
                None => {
                    self.before_passing(call);
                    Ok(Answer::Continue)
                }
            };
        };
        // If the datagram cannot be read or sent here, the kernel sends it or reports the error.
        let Ok(datagram) = datagram(call) else {
            return Ok(Answer::Continue);
        };
        let Ok(socket) = sys::pidfd_open(self.process(call))
            .and_then(|process| sys::pidfd_getfd(process.as_fd(), call.int(0)))
        else {
            return Ok(Answer::Continue);
        };
        self.still_waiting(call)?;
        if sys::send(socket.as_fd(), &datagram, libc::MSG_DONTWAIT).is_err() {
            return Ok(Answer::Continue);
        }
        self.settle(id);
        self.report_missing_family(call, protocol, &datagram, socket.as_fd());
        if call.number == libc::SYS_sendmmsg {
            let length = (datagram.len() as u32).to_ne_bytes();
            sys::write_memory(call.tid, call.args[1] + MSGHDR as u64, &length)?;
            return Ok(Answer::Value(1));
        }
        Ok(Answer::Value(datagram.len() as i64))
    }

    /// Prints a message for a request to a family that is not served, since the program itself sees
    /// only an errno.
    fn report_missing_family(
        &mut self,
        call: &Call,
        protocol: i32,
        datagram: &[u8],
        socket: BorrowedFd<'_>,
    ) {
        match protocol {
            libc::NETLINK_NETFILTER if !is_about_connections(datagram) => {
                self.say_once(call, "netfilter", NO_NETFILTER);
            }
            libc::NETLINK_XFRM => {
                self.say_once(call, "xfrm", "the stack has no IPsec (NETLINK_XFRM)");
            }
            libc::NETLINK_GENERIC => {
                let mut answer = [0; 20];
                let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT;
                let n = sys::receive(socket, &mut answer, flags).unwrap_or(0);
                if let Some(family) = family_asked_for(datagram)
                    && n == answer.len()
                    && u16::from_ne_bytes([answer[4], answer[5]]) == nl::nlm::ERROR
                    && answer[16..] == (-libc::ENOENT).to_ne_bytes()
                {
                    let sentence =
                        format!("the stack does not serve the generic netlink family {family}");
                    self.say_once(call, "family", &sentence);
                }
            }
            _ => {}
        }
    }

    /// Serves a receive without an address argument ([`receive_from`](Self::receive_from) serves
    /// the others).
    pub(super) fn receive(&mut self, call: &Call) -> Handled {
        match self.netlink(call).map(|socket| socket.id) {
            Some(id) => self.settle(id),
            None => return self.inet_receive(call),
        }
        Ok(Answer::Continue)
    }

    /// Serves a receive on a socket that is not a netlink socket.
    pub(super) fn inet_receive(&mut self, call: &Call) -> Handled {
        match self.inet_of(call) {
            Some(socket) if !socket.is_stream() => self.receive_datagram(call, socket),
            // There are no messages about what a stream has sent.
            Some(_) if receive_flags(call) & libc::MSG_ERRQUEUE != 0 => Err(Errno(libc::EAGAIN)),
            Some(_) if call.number == libc::SYS_recvmmsg && call.args[2] == 0 => {
                Ok(Answer::Value(0))
            }
            Some(socket) if self.is_idle(socket) => {
                check_messages(call)?;
                Err(Errno(libc::ENOTCONN))
            }
            Some(socket) if self.is_counted(call, socket) => self.receive_counted(call, socket),
            _ => Ok(Answer::Continue),
        }
    }
}

/// Returns what is wrong with a receive of messages on a stream without a connection, which comes before ENOTCONN.
fn check_messages(call: &Call) -> Result<(), Errno> {
    let many = call.number == libc::SYS_recvmmsg;
    if many && call.args[4] != 0 {
        let _time: [u8; 16] = sys::read_array(call.tid, call.args[4])?;
    }
    if many || call.number == libc::SYS_recvmsg {
        Place::at(call.tid, call.args[1])?;
    }
    Ok(())
}

/// Returns the flags of a receive.
pub(super) fn receive_flags(call: &Call) -> i32 {
    match call.number {
        libc::SYS_recvfrom | libc::SYS_recvmmsg => call.int(3),
        libc::SYS_recvmsg => call.int(2),
        _ => 0,
    }
}

/// Returns whether the first request of a datagram is for connection tracking.
fn is_about_connections(datagram: &[u8]) -> bool {
    nl::messages(datagram).next().is_some_and(|message| {
        let subsystem = (message.header.ty >> 8) as u8;
        matches!(
            subsystem,
            nl::nfnl::SUBSYS_CTNETLINK | nl::nfnl::SUBSYS_CTNETLINK_EXP
        )
    })
}

/// Returns the family that a generic netlink request looks up.
fn family_asked_for(datagram: &[u8]) -> Option<String> {
    const CONTROLLER: u16 = 16;
    const GET_FAMILY: u8 = 3;
    const HEADER: usize = 4;
    const FAMILY_NAME: u16 = 2;
    let message = nl::messages(datagram).next()?;
    let payload = message.payload();
    if message.header.ty != CONTROLLER || payload.first() != Some(&GET_FAMILY) {
        return None;
    }
    let name = nl::attrs(payload.get(HEADER..)?).find(|attr| attr.ty == FAMILY_NAME)?;
    Some(String::from_utf8_lossy(name.c_str()).into_owned())
}

/// Returns the datagram of a send, or the first one of several.
fn datagram(call: &Call) -> Result<Vec<u8>, Errno> {
    let place = match call.number {
        libc::SYS_sendto => Place::of_sendto(call),
        libc::SYS_write | libc::SYS_writev => Place::of_transfer(call)?,
        libc::SYS_sendmmsg if call.args[2] == 0 => return Err(Errno(libc::EINVAL)),
        _ => Place::at(call.tid, call.args[1])?,
    };
    if place.has_control() {
        return Err(Errno(libc::EINVAL)); // descriptors and credentials cannot be repeated here
    }
    let mut datagram = Vec::new();
    place.gather(call.tid, MAX_REQUEST, &mut datagram)?;
    Ok(datagram)
}
