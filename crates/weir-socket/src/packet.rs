// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packet sockets. Not served yet: `socket` answers EAFNOSUPPORT.

use std::sync::Arc;

use weir_netlink::errno;
use weir_packet::bpf::Program;

use crate::Outgoing;
use crate::cpu::Cx;
use crate::socket::Socket;

/// The packet part of a socket.
#[derive(Debug)]
pub struct Packet {}

impl Packet {
    /// Makes the part of a new socket.
    pub fn new(kind: i32, protocol: i32) -> Result<Self, i32> {
        let _ = (kind, protocol);
        Err(errno::EAFNOSUPPORT)
    }

    pub fn bind(&self, socket: &Socket, cx: &mut Cx<'_>, address: &[u8]) -> Result<(), i32> {
        let _ = (socket, cx, address);
        Err(errno::EOPNOTSUPP)
    }

    pub fn send(
        &self,
        socket: &Socket,
        cx: &mut Cx<'_>,
        message: &Outgoing<'_>,
    ) -> Result<usize, i32> {
        let _ = (socket, cx, message);
        Err(errno::EOPNOTSUPP)
    }

    pub fn local_address(&self, socket: &Socket) -> Vec<u8> {
        let _ = socket;
        Vec::new()
    }

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

    pub fn option(&self, socket: &Socket, name: i32, room: &[u8]) -> Result<Vec<u8>, i32> {
        let _ = (socket, name, room);
        Err(errno::ENOPROTOOPT)
    }

    pub fn filter_changed(&self, filter: Option<Arc<Program>>) {
        let _ = filter;
    }

    pub fn close(&self, socket: &Socket, cx: &mut Cx<'_>) {
        let _ = (socket, cx);
    }
}

pub fn opened(socket: &Arc<Socket>, cx: &mut Cx<'_>) {
    let _ = (socket, cx);
}
