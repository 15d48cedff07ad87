// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `nbyte`: compares a byte string.
//!
//! Mirrors net/sched/em_nbyte.c. Parameters: the bytes, `at` (offset in bytes), `layer` (`link`,
//! `network`, `transport`).

use weir_netlink::Error;
use weir_packet::Packet;

use super::{at, invalid};

/// A comparison of a byte string.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nbyte {
    offset: u16,
    layer: u8,
    pattern: Box<[u8]>,
}

impl Nbyte {
    pub(super) fn parse(data: &[u8]) -> Result<Self, Error> {
        let Some((&[a, b, c, d], rest)) = data.split_first_chunk() else {
            return invalid();
        };
        let word = u16::from_ne_bytes([c, d]);
        let Some(pattern) = rest.get(..usize::from(word & 0xfff)) else {
            return invalid();
        };
        Ok(Self {
            offset: u16::from_ne_bytes([a, b]),
            layer: (word >> 12) as u8,
            pattern: pattern.into(),
        })
    }

    pub(super) fn data(&self) -> Vec<u8> {
        let word = self.pattern.len() as u16 | u16::from(self.layer) << 12;
        let mut data = self.offset.to_ne_bytes().to_vec();
        data.extend(word.to_ne_bytes());
        data.extend(&self.pattern);
        data
    }

    #[inline]
    pub(super) fn holds(&self, packet: &Packet) -> bool {
        at(packet, self.layer, self.offset.into(), self.pattern.len())
            .is_some_and(|bytes| bytes == &*self.pattern)
    }
}
