// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `cmp`: compares a number in the packet.
//!
//! Mirrors net/sched/em_cmp.c. Parameters: width (`u8`, `u16`, `u32`), `at` (offset in bytes),
//! `layer` (`link`, `network`, `transport`), `mask` (0: all bits), `trans` (swap the bytes of the
//! number), comparison (`eq`, `lt`, `gt`), value.

use weir_netlink::Error;
use weir_netlink::tca::ematch::opnd;
use weir_packet::Packet;

use super::{at, invalid, u32_ne};

/// Size of `struct tcf_em_cmp` in bytes.
const LEN: usize = 12;
/// `TCF_EM_CMP_TRANS`
const TRANS: u8 = 1;

/// A comparison of a number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cmp {
    value: u32,
    mask: u32,
    offset: u16,
    /// The size of the number in bytes.
    width: u8,
    flags: u8,
    layer: u8,
    operand: u8,
    /// The parameters as given.
    data: Box<[u8]>,
}

impl Cmp {
    pub(super) fn parse(data: &[u8]) -> Result<Self, Error> {
        let Some(&[a, b, c, d, e, f, g, h, i, j, k, l]) = data.first_chunk::<LEN>() else {
            return invalid();
        };
        Ok(Self {
            value: u32_ne([a, b, c, d]),
            mask: u32_ne([e, f, g, h]),
            offset: u16::from_ne_bytes([i, j]),
            width: k & 15,
            flags: k >> 4,
            layer: l & 15,
            operand: l >> 4,
            data: data.into(),
        })
    }

    pub(super) fn data(&self) -> Vec<u8> {
        self.data.to_vec()
    }

    #[inline]
    pub(super) fn holds(&self, packet: &Packet) -> bool {
        let width = usize::from(self.width);
        let trans = self.flags & TRANS != 0;
        let Some(bytes) = at(packet, self.layer, self.offset.into(), width) else {
            return false;
        };
        let mut value = match *bytes {
            [a] => a.into(),
            [a, b] if trans => u16::from_le_bytes([a, b]).into(),
            [a, b] => u16::from_be_bytes([a, b]).into(),
            [a, b, c, d] if trans => u32::from_le_bytes([a, b, c, d]),
            [a, b, c, d] => u32::from_be_bytes([a, b, c, d]),
            _ => return false,
        };
        if self.mask != 0 {
            value &= self.mask;
        }
        match self.operand {
            opnd::EQ => value == self.value,
            opnd::LT => value < self.value,
            opnd::GT => value > self.value,
            _ => false,
        }
    }
}
