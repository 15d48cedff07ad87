// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Settings as slots of atomics: one slot is one `int` of Linux's sysctls.
//!
//! A module declares its slots by [`slots!`](crate::slots) and keeps the values where they belong, in a
//! namespace or a device. A set of values that nobody has changed refers to its defaults; one changed value lies
//! beside that reference, and the second one makes a copy of all.
//!
//! Any thread reads and changes a value without a lock. A thread that finds another slot changed copies all values, puts
//! the copy in place of the one value if that is still the same, and changes its own value in the copy that is there then.

#[cfg(all(test, loom))]
mod loom_models;

use std::sync::Arc;

pub use weir_sync::primitive::atomic::AtomicI32;
use weir_sync::primitive::atomic::Ordering::Relaxed;
use weir_sync::word_or_box::{Held, WordOrBox};

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
            /// The defaults, in the order of the slots.
            pub const DEFAULTS: [i32; $name::ALL.len()] = [$($default,)*];

            /// Returns values of which some are others.
            #[allow(dead_code)] // few families have two sets of defaults
            pub const fn with<const N: usize>(
                mut values: [i32; $name::ALL.len()],
                others: [($name, i32); N],
            ) -> [i32; $name::ALL.len()] {
                let mut at = 0;
                while at < N {
                    values[others[at].0 as usize] = others[at].1;
                    at += 1;
                }
                values
            }
        }

        impl $crate::conf::Slot for $name {
            type Defaults = [i32; $name::ALL.len()];
            type Values = [$crate::conf::AtomicI32; $name::ALL.len()];
            #[inline]
            fn index(self) -> usize { self as usize }
            fn defaults() -> &'static Self::Defaults {
                static DEFAULTS: [i32; $name::ALL.len()] = $name::DEFAULTS;
                &DEFAULTS
            }
            fn values(value: impl Fn(usize) -> i32) -> Self::Values {
                std::array::from_fn(|index| $crate::conf::AtomicI32::new(value(index)))
            }
        }
    };
}

/// A family of slots.
pub trait Slot: Copy + 'static {
    /// An unchangeable value for each slot.
    type Defaults: AsRef<[i32]> + Send + Sync + 'static;
    /// A value for each slot.
    type Values: AsRef<[AtomicI32]> + Send + Sync + 'static;
    /// The slot's place.
    fn index(self) -> usize;
    /// The defaults, in the order of the slots.
    fn defaults() -> &'static Self::Defaults;
    /// Makes a value for each slot from its index.
    fn values(value: impl Fn(usize) -> i32) -> Self::Values;
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
        /// Whose settings a new namespace begins with; see [`Layers::inherit`](crate::layers::Layers::inherit).
        DevconfInheritInitNet = 0, "devconf_inherit_init_net";
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

/// The values by which a kind of device differs from the others.
pub struct Special<S: Slot> {
    /// The slots, and their values.
    pub values: &'static [(S, i32)],
    /// Returns the defaults of sets of the other devices: those, and not others with the same values.
    pub of: fn() -> &'static S::Defaults,
    /// The same with `values` in place of theirs. A set with these defaults that nobody changed has them already.
    pub defaults: &'static S::Defaults,
}

/// The values of one family of slots; see the module documentation.
pub struct Conf<S: Slot> {
    defaults: &'static S::Defaults,
    /// The only slot that differs from its default ([`one`]), or 0 for none. All values once a second one has been changed.
    own: WordOrBox<S::Values>,
}

/// Packs a slot's index and value.
fn one(index: usize, value: i32) -> u64 {
    (index as u64 + 1) << 32 | u64::from(value as u32)
}

/// Returns the value if `packed` is that of the slot with this index.
#[inline]
fn value_of(packed: u64, index: usize) -> Option<i32> {
    (packed >> 32 == index as u64 + 1).then_some(packed as i32)
}

impl<S: Slot> Default for Conf<S> {
    fn default() -> Self {
        Self::with_defaults(S::defaults())
    }
}

impl<S: Slot> Clone for Conf<S> {
    fn clone(&self) -> Self {
        let clone = Self::with_defaults(self.defaults);
        clone.copy(self);
        clone
    }
}

impl<S: Slot> Conf<S> {
    /// Makes a set of values with defaults of its own.
    pub fn with_defaults(defaults: &'static S::Defaults) -> Self {
        Self {
            defaults,
            own: WordOrBox::default(),
        }
    }

    /// Returns the value of a slot.
    #[inline]
    pub fn get(&self, slot: S) -> i32 {
        self.at(slot.index())
    }

    #[inline]
    fn at(&self, index: usize) -> i32 {
        match self.own.get() {
            Held::Word(one) => self.shared(one, index),
            Held::Boxed(own) => own.as_ref()[index].load(Relaxed),
        }
    }

    /// Returns a value while no more than `one` differs from its default.
    #[inline]
    fn shared(&self, one: u64, index: usize) -> i32 {
        value_of(one, index).unwrap_or_else(|| self.defaults.as_ref()[index])
    }

    /// Returns whether no value was ever changed.
    fn is_untouched(&self) -> bool {
        matches!(self.own.get(), Held::Word(0))
    }

    /// Returns whether the slot is not 0.
    #[inline]
    pub fn on(&self, slot: S) -> bool {
        self.get(slot) != 0
    }

    /// Returns whether all values are their defaults.
    pub fn is_default(&self) -> bool {
        let defaults = self.defaults.as_ref();
        let is_default = |(index, value): (usize, &i32)| self.at(index) == *value;
        self.is_untouched() || defaults.iter().enumerate().all(is_default)
    }

    /// Returns whether all values are those of another set.
    pub fn equals(&self, other: &Self) -> bool {
        (0..self.defaults.as_ref().len()).all(|index| self.at(index) == other.at(index))
    }

    /// Copies all values of another set.
    pub fn copy(&self, from: &Self) {
        if std::ptr::eq(self.defaults, from.defaults) && self.is_untouched() && from.is_untouched()
        {
            return;
        }
        for index in 0..self.defaults.as_ref().len() {
            self.put(index, from.at(index));
        }
    }

    /// Copies all values of another set, except those of the slots in `special`, if any, which get the values there.
    pub fn copy_but(&self, from: &Self, special: Option<&Special<S>>) {
        let Some(special) = special else {
            return self.copy(from);
        };
        let untouched =
            |conf: &Self, defaults| std::ptr::eq(conf.defaults, defaults) && conf.is_untouched();
        if untouched(self, special.defaults) && untouched(from, (special.of)()) {
            return;
        }
        for index in 0..self.defaults.as_ref().len() {
            let mut own = special.values.iter();
            let own = own.find(|(slot, _)| slot.index() == index);
            self.put(
                index,
                own.map_or_else(|| from.at(index), |(_, value)| *value),
            );
        }
    }

    /// Sets a slot. The caller checks the range.
    pub fn set(&self, slot: S, value: i32) {
        self.put(slot.index(), value);
    }

    fn put(&self, index: usize, value: i32) {
        let mut held = self.own.get();
        let own = loop {
            let before = match held {
                Held::Boxed(own) => break own,
                Held::Word(before) => before,
            };
            let same = value_of(before, index).is_some();
            if !same && value == self.defaults.as_ref()[index] {
                return;
            }
            if !same && before != 0 {
                let copy = |one| S::values(|index| self.shared(one, index));
                break self.own.boxed(copy);
            }
            match self.own.replace(before, one(index, value)) {
                Ok(()) => return,
                Err(now) => held = now,
            }
        };
        own.as_ref()[index].store(value, Relaxed);
    }
}

impl<S: Slot> std::fmt::Debug for Conf<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let indices = 0..self.defaults.as_ref().len();
        f.debug_list()
            .entries(indices.map(|index| self.at(index)))
            .finish()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    crate::slots! {
        Few {
            A = 1, "a";
            B = 2, "b";
            C = 3, "c";
        }
    }

    #[test]
    fn values_are_those_last_set() {
        static OTHER: [i32; 3] = Few::with(Few::DEFAULTS, [(Few::B, -2)]);
        let conf = Conf::<Few>::with_defaults(&OTHER);
        let all = |conf: &Conf<Few>| [Few::A, Few::B, Few::C].map(|slot| conf.get(slot));
        let is_copied = |conf: &Conf<Few>| matches!(conf.own.get(), Held::Boxed(_));
        assert_eq!((all(&conf), size_of_val(&conf)), ([1, -2, 3], 16));
        conf.set(Few::A, 1);
        assert!(conf.is_untouched());
        conf.set(Few::C, -9);
        conf.set(Few::C, 0);
        assert_eq!((all(&conf), is_copied(&conf)), ([1, -2, 0], false));
        conf.set(Few::C, 3);
        conf.set(Few::A, 7);
        conf.set(Few::C, 5);
        assert_eq!((all(&conf), is_copied(&conf)), ([7, -2, 5], true));
        let copy = Conf::<Few>::default();
        assert_eq!(all(&copy), [1, 2, 3]);
        copy.copy(&conf);
        assert_eq!((all(&copy), all(&conf.clone())), ([7, -2, 5], [7, -2, 5]));
        assert!(copy.equals(&conf) && !copy.is_default() && !conf.is_default());
        for (slot, value) in [(Few::A, 1), (Few::B, 2), (Few::C, 3)] {
            copy.set(slot, value);
        }
        assert!(copy.is_default() && !copy.equals(&conf) && Conf::<Few>::default().is_default());
        static OWN: [i32; 3] = Few::with(Few::DEFAULTS, [(Few::A, 8), (Few::B, 9)]);
        let special = Conf::<Few>::with_defaults(&OWN);
        let own = Special {
            values: &[(Few::A, 8), (Few::B, 9)],
            of: Few::defaults,
            defaults: &OWN,
        };
        special.copy_but(&Conf::default(), Some(&own));
        assert!(all(&special) == [8, 9, 3] && special.is_untouched());
        special.copy_but(&conf, Some(&own));
        assert!(all(&special) == [8, 9, 5] && !is_copied(&special));
    }

    #[test]
    fn stress_no_change_is_lost() {
        for _ in 0..200 {
            let conf = Conf::<Few>::default();
            std::thread::scope(|scope| {
                for (slot, value) in [(Few::A, 10), (Few::B, 20), (Few::C, 30)] {
                    let conf = &conf;
                    scope.spawn(move || {
                        conf.set(slot, value + 1);
                        conf.set(slot, value);
                        assert_eq!(conf.get(slot), value);
                    });
                }
            });
            let all = [Few::A, Few::B, Few::C].map(|slot| conf.get(slot));
            assert_eq!(all, [10, 20, 30]);
        }
    }
}
