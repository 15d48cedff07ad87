// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The bytes of an input as the arguments of steps.

/// The bytes of an input, one argument after the other; zeros after its end.
pub(crate) struct Input<'a>(pub &'a [u8]);

impl Input<'_> {
    /// Takes a byte.
    pub fn byte(&mut self) -> u8 {
        let (byte, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *byte
    }

    /// Takes two bytes.
    pub fn short(&mut self) -> u16 {
        u16::from_le_bytes([self.byte(), self.byte()])
    }

    /// Takes four bytes.
    pub fn word(&mut self) -> u32 {
        u32::from_le_bytes([self.byte(), self.byte(), self.byte(), self.byte()])
    }

    /// Takes `length` bytes, or those that are left.
    pub fn bytes(&mut self, length: usize) -> &[u8] {
        let (bytes, rest) = self.0.split_at(length.min(self.0.len()));
        self.0 = rest;
        bytes
    }
}
