// SPDX-License-Identifier: Apache-2.0 OR MIT
//! TCP sockets. Not served yet: `socket` answers ESOCKTNOSUPPORT.

use std::sync::Arc;

use weir_inet::sockets::{Arrived, Report};
use weir_netlink::errno;
use weir_packet::Packet;
use weir_sync::rcu::Domain;

use crate::cpu::Cx;
use crate::socket::Socket;
use crate::{Outgoing, Ready, Shutdown, User};

/// The connections of a namespace.
#[derive(Debug)]
pub struct Connections {}

impl Connections {
    /// Makes the table of a new namespace.
    pub fn new(domain: &Domain, seed: u64) -> Self {
        let _ = (domain, seed);
        Self {}
    }
}

/// The TCP part of a socket.
#[derive(Debug)]
pub struct Tcp {}

impl Tcp {
    /// Makes the part of a new socket.
    ///
    /// # Errors
    /// ESOCKTNOSUPPORT.
    pub fn new() -> Result<Self, i32> {
        Err(errno::ESOCKTNOSUPPORT)
    }

    /// Returns whether the socket waits for connections.
    pub fn is_listening(&self) -> bool {
        false
    }

    /// Returns the number of connections that wait to be accepted.
    pub fn waiting(&self) -> usize {
        0
    }

    /// Binds the socket.
    pub fn bind(&self, socket: &Socket, cx: &mut Cx<'_>, address: &[u8]) -> Result<(), i32> {
        let _ = (socket, cx, address);
        Err(errno::EOPNOTSUPP)
    }

    /// Begins the handshake.
    pub fn connect(&self, socket: &Socket, cx: &mut Cx<'_>, address: &[u8]) -> Result<(), i32> {
        let _ = (socket, cx, address);
        Err(errno::EOPNOTSUPP)
    }

    /// Waits for connections.
    pub fn listen(&self, socket: &Socket, cx: &mut Cx<'_>, backlog: i32) -> Result<(), i32> {
        let _ = (socket, cx, backlog);
        Err(errno::EOPNOTSUPP)
    }

    /// Takes a connection.
    pub fn accept(
        &self,
        socket: &Socket,
        cx: &mut Cx<'_>,
        user: Arc<dyn User>,
    ) -> Result<Arc<Socket>, i32> {
        let _ = (socket, cx, user);
        Err(errno::EOPNOTSUPP)
    }

    /// Queues data that come with flags.
    pub fn send(
        &self,
        socket: &Socket,
        cx: &mut Cx<'_>,
        message: &Outgoing<'_>,
    ) -> Result<usize, i32> {
        self.write(socket, cx, message.data)
    }

    /// Queues data.
    pub fn write(&self, socket: &Socket, cx: &mut Cx<'_>, data: &[u8]) -> Result<usize, i32> {
        let _ = (socket, cx, data);
        Err(errno::EOPNOTSUPP)
    }

    /// Passes received data on.
    pub fn read(
        &self,
        socket: &Socket,
        cx: &mut Cx<'_>,
        take: &mut dyn FnMut(&[u8]) -> usize,
    ) -> Result<usize, i32> {
        let _ = (socket, cx, take);
        Err(errno::EOPNOTSUPP)
    }

    /// Returns and clears the pending error.
    pub fn take_error(&self, socket: &Socket) -> i32 {
        std::mem::take(&mut socket.state().error)
    }

    /// Returns what the socket is ready for.
    pub fn ready(&self, socket: &Socket) -> Ready {
        let _ = socket;
        Ready::default()
    }

    /// Sets an option of `SOL_TCP`.
    pub fn set_option(
        &self,
        socket: &Socket,
        cx: &mut Cx<'_>,
        name: i32,
        value: &[u8],
    ) -> Result<(), i32> {
        let _ = (socket, cx, name, value);
        Err(errno::ENOPROTOOPT)
    }

    /// Returns an option of `SOL_TCP`.
    pub fn option(&self, socket: &Socket, name: i32, room: &[u8]) -> Result<Vec<u8>, i32> {
        let _ = (socket, name, room);
        Err(errno::ENOPROTOOPT)
    }

    /// Returns the path MTU of a connection.
    pub fn path_mtu(&self, socket: &Socket) -> Option<u32> {
        let _ = socket;
        None
    }

    /// Closes one or both directions.
    pub fn shutdown(&self, socket: &Socket, cx: &mut Cx<'_>, how: Shutdown) -> Result<(), i32> {
        let _ = (socket, cx, how);
        Err(errno::ENOTCONN)
    }

    /// The program has closed the socket.
    pub fn close(&self, socket: &Socket, cx: &mut Cx<'_>, reset: bool) {
        let _ = reset;
        socket.release(cx);
    }

    /// Ends the connection (`tcp_abort`).
    pub fn destroy(&self, socket: &Socket, cx: &mut Cx<'_>) -> Result<(), i32> {
        let _ = (socket, cx);
        Err(errno::EOPNOTSUPP)
    }
}

/// Takes a segment; returns it if no socket wants it.
pub fn receive(cx: &mut Cx<'_>, arrived: &Arrived<'_>, packet: Packet) -> Option<Packet> {
    let _ = (cx, arrived);
    Some(packet)
}

/// Tells a connection of an ICMP error. Returns whether there is one.
pub fn report(cx: &mut Cx<'_>, report: &Report<'_>) -> bool {
    let _ = (cx, report);
    false
}
