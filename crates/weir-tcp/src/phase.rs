// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The states of loss recovery.

/// The states of congestion control (`enum tcp_ca_state`), with Linux's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Phase {
    /// Nothing suspicious.
    Open = 0,
    /// SACK blocks or duplicate ACKs, no loss yet.
    Disorder = 1,
    /// The window is reduced because of ECN or a tail loss.
    Cwr = 2,
    /// Fast recovery.
    Recovery = 3,
    /// After a time-out.
    Loss = 4,
}
