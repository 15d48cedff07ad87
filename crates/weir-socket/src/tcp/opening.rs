// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The options of Fast Open.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, LazyLock};

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

/// The same, allocated when one of them is set.
#[derive(Debug, Default)]
pub struct Opening(Option<Box<FastOpening>>);

impl Opening {
    /// A socket that listens counts the early connections of its own.
    pub fn listens(&mut self) {
        self.0.get_or_insert_default();
    }
}

impl Deref for Opening {
    type Target = FastOpening;

    fn deref(&self) -> &FastOpening {
        static DEFAULT: LazyLock<FastOpening> = LazyLock::new(FastOpening::default);
        self.0.as_deref().unwrap_or(&DEFAULT)
    }
}

impl DerefMut for Opening {
    fn deref_mut(&mut self) -> &mut FastOpening {
        self.0.get_or_insert_default()
    }
}
