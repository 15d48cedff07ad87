// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The options of Fast Open.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use weir_tcp::fast_open::Keys;

/// What `TCP_FASTOPEN` and its relatives set.
#[derive(Debug, Clone, Default)]
pub struct FastOpening {
    /// How many early connections of a listener may wait for their handshake; 0 for none.
    pub most: u32,
    /// `TCP_FASTOPEN_CONNECT`
    pub connect: bool,
    /// `TCP_FASTOPEN_NO_COOKIE`
    pub no_cookie: bool,
    /// `TCP_FASTOPEN_KEY`
    pub keys: Option<Keys>,
    /// How many early connections of a listener wait for their handshake.
    pub early: Arc<AtomicU32>,
}
