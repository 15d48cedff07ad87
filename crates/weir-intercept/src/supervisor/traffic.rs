// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is sent and received through sockets whose program may not wait for the answer.
//!
//! In Linux a netlink request runs inside `sendmsg`: the answer is there when that returns, and so
//! are the first datagrams of a dump; each `recvmsg` makes the next ones. Here a thread of the stack
//! answers, which a program that waits in `recvmsg` does not notice, but one that does not wait
//! finds nothing: with `O_NONBLOCK`, with `MSG_DONTWAIT`, or if it asks `poll` with a time-out of 0.
//!
//! A filter cannot see whether a socket waits, only its number. So netlink sockets get numbers of
//! [`TRAFFIC_FDS`](crate::filter::TRAFFIC_FDS), however they are made and whatever is set later, and
//! a call to send that names one of these stops: the supervisor sends the datagram in the program's
//! place, lets the stack answer, and returns. A call to receive stops as well and goes on when the stack has
//! written what the socket takes, so that a dump longer than its buffer has no gap. Both cost a
//! stop, which `tc -b` should not pay: the programs of [`WAITING`] never look without waiting, and
//! their sockets get the lowest number, as do all once these numbers are taken or beyond
//! the limit of open files. Then only calls with `MSG_DONTWAIT` stop.
//!
//! Datagram stand-ins of internet sockets ([`super::internet`]) get such numbers too, so that
//! `sendmsg` through one is refused as `sendto` is.
//!
//! Not served: duplicates of a socket (`dup`) at other numbers; `read` beyond what a socket's buffer takes.
use super::internet::NO_NETFILTER;
use super::{Handled, Supervisor};
use crate::backend::{Errno, SocketId};
use crate::filter::TRAFFIC_FDS;
use crate::seccomp::{Answer, Call};
use crate::sys;
use crate::transport::MAX_REQUEST;
use std::fs;
use std::os::fd::{AsFd, BorrowedFd};
use weir_netlink as nl;

/// Programs that wait for each answer, by the name the kernel has of them: iproute2's and busybox's, and our
/// own, whose `weir play` takes as long as it plays.
const WAITING: [&str; 4] = ["ip", "tc", "bridge", "weir"];
/// Size of a struct msghdr.
const MSGHDR: usize = 56;
/// Most parts of one datagram that are read here.
const MAX_PARTS: u64 = 1024;

/// Whether a call names a descriptor of [`TRAFFIC_FDS`].
pub(super) fn is_traffic(call: &Call) -> bool {
    TRAFFIC_FDS.contains(&(call.args[0] as u32))
}

impl Supervisor {
    /// Whether the caller is a program that waits for each answer.
    pub(super) fn waits_for_answers(call: &Call) -> bool {
        let name = fs::read_to_string(format!("/proc/{}/comm", call.tid)).unwrap_or_default();
        WAITING.contains(&name.trim_end())
    }

    /// Lets the stack answer what a socket has sent; `None`: one the stack knows nothing of.
    pub(super) fn settle(&mut self, id: Option<SocketId>) {
        match id {
            Some(id) => self.backend.settle(id),
            None => self.refused.serve(),
        }
    }

    /// A call that sends.
    pub(super) fn send(&mut self, call: &Call) -> Handled {
        if self.stand_in_of(call).is_some() {
            return Err(self.unreachable(call));
        }
        let Some((id, protocol)) = self.netlink(call).map(|s| (s.id, s.protocol)) else {
            return Ok(Answer::Continue);
        };
        // What cannot be read or sent from here, the kernel sends, or says why not.
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
        self.say_what_is_missing(call, protocol, &datagram, socket.as_fd());
        if call.number == libc::SYS_sendmmsg {
            let length = (datagram.len() as u32).to_ne_bytes();
            sys::write_memory(call.tid, call.args[1] + MSGHDR as u64, &length)?;
            return Ok(Answer::Value(1));
        }
        Ok(Answer::Value(datagram.len() as i64))
    }

    /// A sentence for a request to what is not served, which the program knows only a number of.
    fn say_what_is_missing(
        &mut self,
        call: &Call,
        protocol: i32,
        datagram: &[u8],
        socket: BorrowedFd<'_>,
    ) {
        match protocol {
            libc::NETLINK_NETFILTER => self.say_once(call, "netfilter", NO_NETFILTER),
            libc::NETLINK_XFRM => {
                self.say_once(
                    call,
                    "xfrm",
                    "there is no IPsec in the stack (NETLINK_XFRM)",
                );
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
                    let sentence = format!("the stack has no {family} (generic netlink)");
                    self.say_once(call, "family", &sentence);
                }
            }
            _ => {}
        }
    }

    /// A call that receives and says nothing of an address ([`receive_from`](Self::receive_from)).
    pub(super) fn receive(&mut self, call: &Call) -> Handled {
        if let Some(id) = self.netlink(call).map(|socket| socket.id) {
            self.settle(id);
        }
        Ok(Answer::Continue)
    }
}

/// The family whose number a generic netlink request asks for.
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

/// The datagram a call sends; of several, the first.
fn datagram(call: &Call) -> Result<Vec<u8>, Errno> {
    let [_, address, length, ..] = call.args;
    match call.number {
        libc::SYS_sendto | libc::SYS_write => gather(call.tid, &[(address, length)]),
        libc::SYS_writev => gather(call.tid, &parts(call.tid, address, length)?),
        libc::SYS_sendmmsg if length == 0 => Err(Errno(libc::EINVAL)),
        _ => {
            let header: [u8; MSGHDR] = sys::read_array(call.tid, address)?;
            let (at, count, control) = (word(&header, 2), word(&header, 3), word(&header, 4));
            if control != 0 {
                return Err(Errno(libc::EINVAL)); // descriptors, credentials: not ours to repeat
            }
            gather(call.tid, &parts(call.tid, at, count)?)
        }
    }
}

/// A word of a structure of words.
fn word(bytes: &[u8], number: usize) -> u64 {
    let at = number * 8;
    let word = bytes.get(at..at + 8).and_then(|word| word.first_chunk());
    word.map_or(0, |word| u64::from_ne_bytes(*word))
}

/// Addresses and lengths of an array of struct iovec.
fn parts(tid: u32, address: u64, count: u64) -> Result<Vec<(u64, u64)>, Errno> {
    if count > MAX_PARTS {
        return Err(Errno(libc::EMSGSIZE));
    }
    let mut bytes = vec![0; count as usize * 16];
    if sys::read_memory(tid, address, &mut bytes)? < bytes.len() {
        return Err(Errno(libc::EFAULT));
    }
    let part = |part: &[u8]| (word(part, 0), word(part, 1));
    Ok(bytes.chunks_exact(16).map(part).collect())
}

/// What stands at these addresses, one after the other.
fn gather(tid: u32, parts: &[(u64, u64)]) -> Result<Vec<u8>, Errno> {
    let mut out = Vec::new();
    for &(address, length) in parts {
        let start = out.len();
        let room = MAX_REQUEST - start;
        let length = usize::try_from(length)
            .ok()
            .filter(|length| *length <= room)
            .ok_or(Errno(libc::EMSGSIZE))?;
        out.resize(start + length, 0);
        if length > 0 && sys::read_memory(tid, address, &mut out[start..])? < length {
            return Err(Errno(libc::EFAULT));
        }
    }
    Ok(out)
}
