// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Datagrams of internet sockets on their way from the stack to a client.
//!
//! A client's datagram socket is one end of a `SOCK_SEQPACKET` pair. The stack writes one packet per datagram: a head of
//! [`HEAD`] bytes, the sender's address, the control messages, the data. The supervisor takes the packet when the client
//! calls `recvmsg`, and writes its parts where the call wants them.
//!
//! A *plain* socket is one that the client also has at a number at which calls do not stop. Its packets are the data alone,
//! so that the client's own `read` and `recv` get them. The rest goes with the packet as a file in memory, which only the
//! supervisor looks at ([`send_plain`]).

use crate::backend::Errno;
use crate::sys;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The length of the head in bytes.
pub const HEAD: usize = 28;
/// The flag of a packet without a datagram: it makes the descriptor readable because an error is pending or the error
/// queue is not empty.
pub const WAKE: u32 = 1 << 31;

/// A datagram of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram<'a> {
    /// The sender's address: a `sockaddr`.
    pub from: &'a [u8],
    /// The control messages.
    pub control: &'a [u8],
    /// The data.
    pub data: &'a [u8],
    /// The length of the datagram that was sent, in bytes; more than the data if they were cut.
    pub length: u32,
    /// Flags for `msg_flags`, and [`WAKE`].
    pub flags: u32,
    /// When it was received, in ns since 1970.
    pub time: u64,
}

impl<'a> Datagram<'a> {
    /// Returns the head of the packet.
    pub fn head(&self) -> [u8; HEAD] {
        let mut head = [0; HEAD];
        let words = [
            self.from.len() as u32,
            self.control.len() as u32,
            self.data.len() as u32,
            self.length,
            self.flags,
            self.time as u32,
            (self.time >> 32) as u32,
        ];
        for (place, word) in head.chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_ne_bytes());
        }
        head
    }

    /// Returns all but the data: head, address and control messages.
    fn before_data(&self) -> Vec<u8> {
        [&self.head(), self.from, self.control].concat()
    }

    /// Returns the whole packet.
    pub fn to_bytes(&self) -> Vec<u8> {
        [&self.head(), self.from, self.control, self.data].concat()
    }

    /// Reads a packet. Returns `None` if its lengths are wrong.
    pub fn parse(packet: &'a [u8]) -> Option<Self> {
        let (head, rest) = packet.split_first_chunk::<HEAD>()?;
        let word = |at: usize| {
            let mut bytes = [0; 4];
            bytes.copy_from_slice(&head[at * 4..at * 4 + 4]);
            u32::from_ne_bytes(bytes)
        };
        let (from, rest) = rest.split_at_checked(word(0) as usize)?;
        let (control, data) = rest.split_at_checked(word(1) as usize)?;
        (data.len() == word(2) as usize).then_some(Self {
            from,
            control,
            data,
            length: word(3),
            flags: word(4),
            time: u64::from(word(5)) | u64::from(word(6)) << 32,
        })
    }
}

/// Writes a datagram to the pair of a plain socket.
///
/// # Errors
/// EAGAIN if there is no room, and the errors of `memfd_create` and `sendmsg`.
pub fn send_plain(end: &OwnedFd, datagram: &Datagram<'_>) -> Result<(), Errno> {
    let rest = sys::memory_file(c"datagram", &datagram.before_data())?;
    let flags = libc::MSG_DONTWAIT;
    sys::send_with_fds(end.as_fd(), datagram.data, &[rest.as_fd()], flags).map(drop)
}

/// Takes the next packet from the pair, plain or not, as one with its head. Returns its length; less than [`HEAD`] at the
/// end.
pub(crate) fn receive(
    end: BorrowedFd<'_>,
    packet: &mut [u8],
    flags: i32,
    plain: bool,
) -> Result<usize, Errno> {
    let flags = flags | libc::MSG_DONTWAIT;
    if !plain {
        return sys::receive(end, packet, flags);
    }
    let (length, files) = sys::receive_with_fds(end, packet, flags)?;
    let Some(rest) = files.first() else {
        return Ok(length);
    };
    let rest = sys::content_of(rest.as_fd())?;
    let room = packet.len().checked_sub(rest.len());
    let data = room.ok_or(Errno(libc::EMSGSIZE))?.min(length);
    packet.copy_within(..data, rest.len());
    packet[..rest.len()].copy_from_slice(&rest);
    Ok(rest.len() + data)
}

/// Returns the memory in bytes of what the other end of a pair has not read (`SIOCOUTQ`).
pub fn unread(end: &OwnedFd) -> usize {
    sys::unread(end.as_fd())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_packet_is_its_data_to_a_reader_and_whole_to_the_supervisor() {
        let (client, wire) = sys::socket_pair(libc::SOCK_SEQPACKET).unwrap();
        for data in [&b"data"[..], b""] {
            let datagram = Datagram {
                from: &[2, 0, 0, 53, 10, 0, 0, 1],
                control: &[1; 24],
                data,
                length: 9,
                flags: 0x20,
                time: 7,
            };
            for _ in 0..3 {
                send_plain(&wire, &datagram).unwrap();
            }
            let mut packet = [0; 100];
            let flags = libc::MSG_DONTWAIT;
            assert_eq!(
                sys::receive(client.as_fd(), &mut packet, flags),
                Ok(data.len())
            );
            assert_eq!(packet[..data.len()], *data);
            for flags in [libc::MSG_PEEK, 0, 0] {
                let n = receive(client.as_fd(), &mut packet, flags, true).unwrap();
                assert_eq!(Datagram::parse(&packet[..n]), Some(datagram));
            }
            assert_eq!(
                receive(client.as_fd(), &mut packet, 0, true),
                Err(Errno(libc::EAGAIN))
            );
        }
        drop(wire);
        assert_eq!(receive(client.as_fd(), &mut [0; 9], 0, true), Ok(0));
    }

    #[test]
    fn a_packet_is_read_as_it_was_written() {
        let datagram = Datagram {
            from: &[2, 0, 0, 53, 10, 0, 0, 1],
            control: &[1; 24],
            data: b"data",
            length: 9,
            flags: 0x20,
            time: 0x1234_5678_9abc_def0,
        };
        let bytes = datagram.to_bytes();
        assert_eq!(Datagram::parse(&bytes), Some(datagram));
        for end in 0..bytes.len() {
            assert_eq!(Datagram::parse(&bytes[..end]), None, "{end}");
        }
    }
}
