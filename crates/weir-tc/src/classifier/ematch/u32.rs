// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `u32`: compares a word under a mask.
//!
//! Mirrors net/sched/em_u32.c. Parameters: a key as in the classifier u32, with its offset from the
//! network header. `nexthdr+` adds nothing here, because no classifier sets the offset of the next
//! header.

use weir_netlink::{Error, Fixed, TcU32Key};
use weir_packet::Packet;

use super::invalid;
use crate::classifier::octets;

/// A comparison of a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct U32 {
    key: TcU32Key,
    /// The parameters as given.
    data: Box<[u8]>,
}

impl U32 {
    pub(super) fn parse(data: &[u8]) -> Result<Self, Error> {
        let Some(key) = TcU32Key::from_bytes(data) else {
            return invalid();
        };
        let data = data.into();
        Ok(Self { key, data })
    }

    pub(super) fn data(&self) -> Vec<u8> {
        self.data.to_vec()
    }

    #[inline]
    pub(super) fn holds(&self, packet: &Packet) -> bool {
        let (bytes, network) = if packet.has_mac() {
            (packet.mac(), packet.mac_len())
        } else {
            (packet.network(), 0)
        };
        let start = network as i64 + i64::from(self.key.off);
        let word = octets(bytes, start);
        word.is_some_and(|word| (u32::from_ne_bytes(word) ^ self.key.val) & self.key.mask == 0)
    }
}
