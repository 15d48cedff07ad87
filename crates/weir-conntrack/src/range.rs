// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The range of addresses and ports that a translation chooses from.

/// The addresses and ports to choose from (`struct nf_nat_range2`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Range {
    /// The first and the last address, in the form of [`Tuple`](crate::tuple::Tuple).
    pub addresses: Option<([u8; 16], [u8; 16])>,
    /// The first and the last port.
    pub ports: Option<(u16, u16)>,
}
