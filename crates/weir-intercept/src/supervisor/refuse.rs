// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Netlink protocols that programs open without needing them: these sockets answer every request
//! with an error.
//!
//! Go's vishvananda/netlink opens ROUTE, XFRM and NETFILTER sockets for each handle and fails if
//! one is missing. The supervisor serves XFRM itself and answers `EOPNOTSUPP`. The stack never sees
//! these sockets.
use crate::seccomp::Call;
use crate::transport::{Connection, MAX_REQUEST, Received};
use std::os::fd::{AsFd, BorrowedFd};
use weir_netlink::{self as nl, AckOptions, Error, Writer};

/// The protocols served here: XFRM.
pub(super) const PROTOCOLS: [i32; 1] = [6];

/// The daemon's ends of such sockets.
#[derive(Debug, Default)]
pub(super) struct Refused {
    /// The sockets, each with its port id.
    sockets: Vec<(Connection, u32)>,
}

impl Refused {
    /// Takes over a socket.
    pub(super) fn add(&mut self, connection: Connection, portid: u32) {
        self.sockets.push((connection, portid));
    }

    /// Returns the descriptors to poll.
    pub(super) fn fds(&self) -> impl ExactSizeIterator<Item = BorrowedFd<'_>> {
        self.sockets
            .iter()
            .map(|(connection, _)| connection.as_fd())
    }

    /// Answers the requests that have arrived and forgets closed sockets.
    pub(super) fn serve(&mut self) {
        let mut buffer = vec![0; MAX_REQUEST];
        self.sockets.retain(|(connection, portid)| {
            loop {
                match connection.receive(&mut buffer) {
                    Received::Datagram(n) => {
                        let answer = answer(*portid, &buffer[..n]);
                        // A client that does not read loses the answer.
                        if !answer.is_empty() {
                            let _ = connection.send(&answer);
                        }
                    }
                    Received::TooLong(_) => {}
                    Received::Nothing => return true,
                    Received::Closed => return false,
                }
            }
        });
    }
}

fn answer(portid: u32, datagram: &[u8]) -> Vec<u8> {
    let error = Error::new(libc::EOPNOTSUPP);
    let mut w = Writer::new();
    for message in nl::messages(datagram).filter(nl::Message::is_served) {
        // Uses the socket's own port id instead of the request's, because iproute2 accepts no
        // other.
        let options = AckOptions::default();
        if nl::write_ack(&mut w, &message, portid, Some(&error), options).is_err() {
            break;
        }
    }
    w.into_vec()
}

/// Returns the port id for such a socket. They are few, and nobody looks twice at their port ids.
pub(super) fn port_id(call: &Call, process: u32) -> u32 {
    if process == call.tid {
        process
    } else {
        call.tid
    }
}
