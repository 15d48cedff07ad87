// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sends and receives on datagram, raw and packet sockets.
use super::super::message::{Longer, MMSGHDR, MSGHDR, Place, word};
use super::super::parked::Waiting;
use super::super::traffic::receive_flags;
use super::{Handled, InetSocket, Supervisor};
use crate::backend::{Errno, InetCall};
use crate::datagram::{self, Datagram, HEAD, WAKE};
use crate::seccomp::{Answer, Call};
use crate::sys;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The longest packet of the pair: a datagram of 64 KiB (or a jumbo frame), its address and control messages.
const MAX_PACKET: usize = 512 << 10;
/// The requests for the time of the last datagram (`asm/sockios.h`, `linux/sockios.h`).
const GSTAMP_OLD: u32 = 0x8906;
const GSTAMPNS_OLD: u32 = 0x8907;
const GSTAMP_NEW: u32 = 0x8010_8906;
const GSTAMPNS_NEW: u32 = 0x8010_8907;
/// All of them.
pub(crate) const STAMPS: &[u32] = &[GSTAMP_OLD, GSTAMPNS_OLD, GSTAMP_NEW, GSTAMPNS_NEW];
/// The most sockets whose times are kept.
const MOST_STAMPS: usize = 4096;
/// The size of a struct timespec.
const TIMESPEC: usize = 16;
/// The most messages of one `sendmmsg` or `recvmmsg` (`UIO_MAXIOV`).
const MAX_MESSAGES: u64 = 1024;

impl Supervisor {
    /// Serves a send.
    pub(in super::super) fn send_datagram(&mut self, call: &Call, socket: InetSocket) -> Handled {
        match call.number {
            libc::SYS_sendmmsg => {
                let count = call.args[2].min(MAX_MESSAGES);
                let mut sent = 0;
                while sent < count {
                    let header = call.args[1] + sent * MMSGHDR;
                    let done = Place::at(call.tid, header)
                        .and_then(|place| self.send_one(call, socket, &place, call.int(3)));
                    match done {
                        Ok(length) => {
                            let length = (length as u32).to_ne_bytes();
                            sys::write_memory(call.tid, header + MSGHDR as u64, &length)?;
                        }
                        Err(error) if sent == 0 => return Err(error),
                        Err(_) => break,
                    }
                    sent += 1;
                }
                Ok(Answer::Value(sent as i64))
            }
            libc::SYS_sendmsg => {
                let place = Place::at(call.tid, call.args[1])?;
                self.send_one(call, socket, &place, call.int(2))
                    .map(Answer::Value)
            }
            libc::SYS_sendto => self
                .send_one(call, socket, &Place::of_sendto(call), call.int(3))
                .map(Answer::Value),
            _ => {
                let place = Place::of_transfer(call)?;
                self.send_one(call, socket, &place, 0).map(Answer::Value)
            }
        }
    }

    fn send_one(
        &mut self,
        call: &Call,
        socket: InetSocket,
        place: &Place,
        flags: i32,
    ) -> Result<i64, Errno> {
        let (bytes, to, control) = place.outgoing(call.tid, Longer::Refused)?;
        self.still_waiting(call)?;
        let request = InetCall::Send {
            socket: socket.id,
            flags,
            to,
            control,
        };
        Ok(self.inet(request, &bytes)?.value)
    }

    /// Serves a receive.
    pub(in super::super) fn receive_datagram(
        &mut self,
        call: &Call,
        socket: InetSocket,
    ) -> Handled {
        let file = self.duplicate(call)?;
        let flags = receive_flags(call);
        let takes_all = call.number == libc::SYS_recvmmsg
            || flags & libc::MSG_DONTWAIT != 0
            || sys::is_nonblocking(file.as_fd());
        if takes_all && self.setup.waits.is_some() {
            // Of packets that come at one time, a program that does not wait finds all or none.
            self.inet(InetCall::Delivered(socket.id), &[])?;
        }
        let done = if flags & libc::MSG_ERRQUEUE != 0 {
            self.receive_error(call, socket, flags)
        } else if call.number == libc::SYS_recvmmsg {
            self.receive_several(call, socket, file.as_fd(), flags)
        } else {
            let place = match call.number {
                libc::SYS_recvfrom => Place::of_recvfrom(call),
                libc::SYS_recvmsg => Place::at(call.tid, call.args[1])?,
                _ => Place::of_transfer(call)?,
            };
            self.receive_one(call, socket, file.as_fd(), &place, flags)
        };
        match done {
            Ok(value) => Ok(Answer::Value(value as i64)),
            Err(Errno(libc::EAGAIN))
                if flags & (libc::MSG_DONTWAIT | libc::MSG_ERRQUEUE) == 0
                    && !sys::is_nonblocking(file.as_fd()) =>
            {
                self.park(call, file, Waiting::Datagram)
            }
            Err(error) => Err(error),
        }
    }

    fn receive_one(
        &mut self,
        call: &Call,
        socket: InetSocket,
        file: BorrowedFd<'_>,
        place: &Place,
        flags: i32,
    ) -> Result<u64, Errno> {
        let deliver = |datagram: &Datagram<'_>| place.deliver(call.tid, datagram, flags);
        self.take_one(socket, file, flags, deliver)
    }

    /// Takes the next datagram from the pair. Returns the result of `deliver`; 0 if the socket is shut down.
    pub(super) fn take_one(
        &mut self,
        socket: InetSocket,
        file: BorrowedFd<'_>,
        flags: i32,
        deliver: impl Fn(&Datagram<'_>) -> Result<u64, Errno>,
    ) -> Result<u64, Errno> {
        let peek = flags & libc::MSG_PEEK;
        loop {
            // Data beyond the caller's room are cut here; the head says how many there were.
            let mut packet = std::mem::take(&mut self.packet);
            packet.resize(MAX_PACKET, 0);
            let plain = self.sockets.plain.contains(&socket.id);
            let n = datagram::receive(file, &mut packet, peek, plain);
            let taken = match n {
                // The socket is shut down, or gone in the stack. Only a call that may wait shows that.
                Ok(n)
                    if n < HEAD
                        && (flags & libc::MSG_DONTWAIT != 0 || sys::is_nonblocking(file)) =>
                {
                    Err(Errno(libc::EAGAIN))
                }
                Ok(n) if n < HEAD => Ok(Some(0)),
                Ok(n) => match Datagram::parse(&packet[..n]) {
                    Some(datagram) if datagram.flags & WAKE == 0 => {
                        if peek == 0
                            && let Some(stamp) = self.sockets.stamps.get_mut(&socket.id.0)
                        {
                            *stamp = Some(datagram.time);
                        }
                        deliver(&datagram).map(Some)
                    }
                    _ => Ok(None),
                },
                Err(error) => Err(error),
            };
            self.packet = packet;
            match taken {
                Ok(Some(length)) => return Ok(length),
                Ok(None) => {
                    if peek != 0 {
                        let _ = sys::receive(file, &mut [], libc::MSG_DONTWAIT);
                    }
                    let error = InetCall::Option(socket.id, libc::SOL_SOCKET, libc::SO_ERROR);
                    let error = self.inet(error, &[0; 4])?.bytes;
                    match error.first_chunk().map(|error| i32::from_ne_bytes(*error)) {
                        None | Some(0) => {}
                        Some(error) => return Err(Errno(error)),
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Serves `recvmmsg`: waits for one datagram, and takes those that follow it.
    fn receive_several(
        &mut self,
        call: &Call,
        socket: InetSocket,
        file: BorrowedFd<'_>,
        flags: i32,
    ) -> Result<u64, Errno> {
        let count = call.args[2].min(MAX_MESSAGES);
        if call.args[4] != 0 {
            let time: [u8; TIMESPEC] = sys::read_array(call.tid, call.args[4])?;
            // `timespec64_valid`
            let (seconds, rest) = (word(&time, 0), word(&time, 1));
            if seconds > i64::MAX as u64 || rest >= 1_000_000_000 {
                return Err(Errno(libc::EINVAL));
            }
        }
        let mut received = 0;
        while received < count {
            let header = call.args[1] + received * MMSGHDR;
            let done = Place::at(call.tid, header)
                .and_then(|place| self.receive_one(call, socket, file, &place, flags));
            match done {
                Ok(length) => {
                    let length = (length as u32).to_ne_bytes();
                    sys::write_memory(call.tid, header + MSGHDR as u64, &length)?;
                }
                Err(error) if received == 0 => return Err(error),
                Err(_) => break,
            }
            received += 1;
        }
        Ok(received)
    }

    fn receive_error(&mut self, call: &Call, socket: InetSocket, flags: i32) -> Result<u64, Errno> {
        let header = match call.number {
            libc::SYS_recvmsg | libc::SYS_recvmmsg => call.args[1],
            _ => return Err(Errno(libc::EAGAIN)),
        };
        let place = Place::at(call.tid, header)?;
        let packet = self.inet(InetCall::ReceiveError(socket.id), &[])?.bytes;
        let datagram = Datagram::parse(&packet).ok_or(Errno(libc::EPROTO))?;
        let length = place.deliver(call.tid, &datagram, flags)?;
        if call.number == libc::SYS_recvmsg {
            return Ok(length);
        }
        let length = (length as u32).to_ne_bytes();
        sys::write_memory(call.tid, header + MSGHDR as u64, &length)?;
        Ok(1)
    }

    /// Serves `ioctl(SIOCGSTAMP)` and `ioctl(SIOCGSTAMPNS)`: the time of the last datagram that was received since the
    /// first such call (`sock_gettstamp`).
    pub(in super::super) fn last_time(&mut self, call: &Call, socket: InetSocket) -> Handled {
        let stamps = &mut self.sockets.stamps;
        if stamps.len() > MOST_STAMPS {
            stamps.clear();
        }
        let time = (*stamps.entry(socket.id.0).or_insert(None)).ok_or(Errno(libc::ENOENT))?;
        let (seconds, rest) = (time / 1_000_000_000, time % 1_000_000_000);
        let rest = match call.args[1] as u32 {
            GSTAMP_OLD | GSTAMP_NEW => rest / 1000,
            _ => rest,
        };
        let mut value = seconds.to_ne_bytes().to_vec();
        value.extend(rest.to_ne_bytes());
        sys::write_memory(call.tid, call.args[2], &value)?;
        Ok(Answer::Value(0))
    }

    /// Serves `ioctl(FIONREAD)`: the length of the next datagram.
    pub(in super::super) fn next_length(&mut self, call: &Call, socket: InetSocket) -> Handled {
        let file: OwnedFd = self.duplicate(call)?;
        let head = self.next_head(socket, file.as_fd());
        let length = head.map_or(0, |head| {
            u32::from_ne_bytes([head[8], head[9], head[10], head[11]])
        });
        sys::write_memory(call.tid, call.args[2], &length.to_ne_bytes())?;
        Ok(Answer::Value(0))
    }

    /// Returns the head of the next packet of the pair.
    pub(super) fn next_head(
        &mut self,
        socket: InetSocket,
        file: BorrowedFd<'_>,
    ) -> Option<[u8; HEAD]> {
        if !self.sockets.plain.contains(&socket.id) {
            let mut head = [0; HEAD];
            let n = datagram::receive(file, &mut head, libc::MSG_PEEK, false);
            return (n == Ok(HEAD)).then_some(head);
        }
        self.packet.resize(MAX_PACKET, 0);
        let n = datagram::receive(file, &mut self.packet, libc::MSG_PEEK, true);
        let head = self.packet.first_chunk().copied();
        head.filter(|_| n.is_ok_and(|n| n >= HEAD))
    }
}
