// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The addresses and ports of a connection.

use std::net::IpAddr;

/// The addresses and ports of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tuple {
    /// This end's address.
    pub local: IpAddr,
    /// This end's port.
    pub port: u16,
    /// The peer's address.
    pub remote: IpAddr,
    /// The peer's port.
    pub remote_port: u16,
}

impl Tuple {
    /// The bytes that hashes are made of.
    pub fn bytes(&self) -> [u8; 36] {
        let mut bytes = [0; 36];
        let octets = |ip: IpAddr| crate::address::mapped(ip).octets();
        bytes[..16].copy_from_slice(&octets(self.local));
        bytes[16..32].copy_from_slice(&octets(self.remote));
        bytes[32..34].copy_from_slice(&self.port.to_be_bytes());
        bytes[34..].copy_from_slice(&self.remote_port.to_be_bytes());
        bytes
    }
}
