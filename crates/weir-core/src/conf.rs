// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Settings as slots of atomics: one slot is one `int` of Linux's sysctls.
//!
//! A module declares its slots by [`slots!`](crate::slots) and keeps the values where they belong, in a
//! namespace or a device. Reading a slot is one relaxed load.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};

use crate::device::Device;

/// Declares a family of slots: names, defaults, and the last parts of their paths.
#[macro_export]
macro_rules! slots {
    ($(#[$doc:meta])* $name:ident { $($(#[$slot_doc:meta])* $slot:ident = $default:expr, $path:literal;)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(usize)]
        pub enum $name { $($(#[$slot_doc])* #[doc = concat!("`", $path, "`, default `", stringify!($default), "`")] $slot,)* }

        impl $name {
            /// All slots: (slot, last part of the path, default).
            pub const ALL: &'static [($name, &'static str, i32)] = &[$(($name::$slot, $path, $default),)*];
        }

        impl $crate::conf::Slot for $name {
            type Values = [std::sync::atomic::AtomicI32; $name::ALL.len()];
            fn index(self) -> usize { self as usize }
            fn defaults() -> Self::Values { [$(std::sync::atomic::AtomicI32::new($default),)*] }
        }
    };
}

/// A family of slots.
pub trait Slot: Copy {
    /// A value for each slot.
    type Values: AsRef<[AtomicI32]> + Send + Sync + 'static;
    /// The slot's place.
    fn index(self) -> usize;
    /// The defaults, in the order of the slots.
    fn defaults() -> Self::Values;
}

crate::slots! {
    /// Per stack, `net.core.*`.
    Core {
        /// The maximum number of packets waiting in front of a qdisc's lock.
        QdiscMaxBurst = 1000, "qdisc_max_burst";
        /// How long a CPU works for one qdisc before it does its other work; see
        /// `datapath/queue.rs`.
        DevWeight = 64, "dev_weight";
        /// The multiplier of `dev_weight` for that.
        DevWeightTxBias = 1, "dev_weight_tx_bias";
    }
}

/// Whose settings are meant.
pub enum Target {
    /// One device's.
    Device(Arc<Device>),
    /// Those of devices to come.
    Default,
    /// Those that hold for all.
    All,
}

/// The values of one family of slots.
pub struct Conf<S: Slot> {
    values: S::Values,
}

impl<S: Slot> Default for Conf<S> {
    fn default() -> Self {
        Self {
            values: S::defaults(),
        }
    }
}

impl<S: Slot> Clone for Conf<S> {
    fn clone(&self) -> Self {
        let clone = Self::default();
        clone.copy(self);
        clone
    }
}

impl<S: Slot> Conf<S> {
    /// Returns the value of a slot.
    #[inline]
    pub fn get(&self, slot: S) -> i32 {
        self.values.as_ref()[slot.index()].load(Relaxed)
    }

    /// Returns whether the slot is not 0.
    #[inline]
    pub fn on(&self, slot: S) -> bool {
        self.get(slot) != 0
    }

    /// Copies all values of another set.
    pub fn copy(&self, from: &Self) {
        for (value, from) in self.values.as_ref().iter().zip(from.values.as_ref()) {
            value.store(from.load(Relaxed), Relaxed);
        }
    }

    /// Sets a slot. The caller checks the range.
    pub fn set(&self, slot: S, value: i32) {
        self.values.as_ref()[slot.index()].store(value, Relaxed);
    }
}

impl<S: Slot> std::fmt::Debug for Conf<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list()
            .entries(self.values.as_ref().iter().map(|v| v.load(Relaxed)))
            .finish()
    }
}
