// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Places in a stack, a namespace or a device for the state of modules that the core does not know.
//!
//! Linux has a pointer for each protocol in `struct net_device` (`ip_ptr`, `ip6_ptr`) and numbered places for
//! modules in `struct net` (`net_generic`). Here a module declares a static [`Key`] of a number and a type,
//! fills the place when the stack, the namespace or the device is made
//! ([`crate::layers::Module`]), and reads it through the same key. A read costs two loads and a comparison.
//!
//! | number | stack | namespace | device |
//! |---|---|---|---|
//! | 0 | listeners of routes and neighbours | settings | settings |
//! | 1 | resolvers of neighbours | routes and rules | |
//! | 2 | listeners of addresses and settings | neighbours | IPv4 |
//! | 3 | | IPv4 | IPv6 |
//! | 4 | netdevsim's bus | IPv6 | SNMP counters |
//! | 5 | | UDP ports | |
//! | 6 | | VXLAN | |
//! | 7 | | SNMP counters | |
#![allow(unsafe_code)] // the value behind a key has the key's type

use std::any::Any;
use std::marker::PhantomData;
use std::sync::atomic::AtomicBool;

/// The number of places in each holder.
pub const PLACES: usize = 12;

/// The key of place `N`, which holds a `T`. Declare it as a `static`.
pub struct Key<T, const N: usize> {
    /// Gives each key its own address: the compiler never merges statics that contain an atomic.
    _own: AtomicBool,
    value: PhantomData<fn() -> T>,
}

impl<T: Any + Send + Sync, const N: usize> Key<T, N> {
    /// Makes the key of place `N`.
    #[allow(clippy::new_without_default)] // a key made by `Default` could not be a static
    pub const fn new() -> Self {
        const { assert!(N < PLACES, "there is no such place") };
        Self {
            _own: AtomicBool::new(false),
            value: PhantomData,
        }
    }

    fn address(&'static self) -> usize {
        std::ptr::from_ref(self).addr()
    }
}

struct Part {
    /// The address of the key that filled the place; 0 while the place is empty.
    key: usize,
    value: Box<dyn Any + Send + Sync>,
}

/// The places of one holder.
pub struct Parts([Part; PLACES]);

impl Default for Parts {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Part {
            key: 0,
            value: Box::new(()),
        }))
    }
}

impl Parts {
    /// Puts a value into the key's place.
    pub fn fill<T: Any + Send + Sync, const N: usize>(
        &mut self,
        key: &'static Key<T, N>,
        value: T,
    ) {
        debug_assert_eq!(self.0[N].key, 0, "place {N} is taken");
        self.0[N] = Part {
            key: key.address(),
            value: Box::new(value),
        };
    }

    /// Returns the value in the key's place by exclusive borrow. An empty place is filled with the default.
    pub fn get_mut<T: Any + Send + Sync + Default, const N: usize>(
        &mut self,
        key: &'static Key<T, N>,
    ) -> &mut T {
        if self.0[N].key != key.address() {
            self.fill(key, T::default());
        }
        let value = self.0[N].value.downcast_mut();
        value.expect("a place holds a value of its key's type")
    }

    /// Returns the value in the key's place, if it was filled.
    #[inline]
    pub fn find<T: Any + Send + Sync, const N: usize>(
        &self,
        key: &'static Key<T, N>,
    ) -> Option<&T> {
        let part = &self.0[N];
        if part.key != key.address() {
            return None;
        }
        debug_assert!(part.value.is::<T>());
        // SAFETY: only `fill` writes a key's address, together with a box of the key's type. Keys are
        // statics, so no key of another type can have the same address.
        Some(unsafe { &*std::ptr::from_ref(&*part.value).cast::<T>() })
    }

    /// Returns the value in the key's place. The module that owns the key must belong to the stack.
    #[inline]
    pub fn get<T: Any + Send + Sync, const N: usize>(&self, key: &'static Key<T, N>) -> &T {
        match self.find(key) {
            Some(value) => value,
            None => missing(N),
        }
    }
}

#[cold]
fn missing(place: usize) -> ! {
    panic!("the module of place {place} is not in this stack's layers")
}

#[cfg(test)]
mod tests {
    use super::*;

    static NUMBER: Key<u32, 1> = Key::new();
    static TEXT: Key<String, 1> = Key::new();
    static LIST: Key<Vec<u8>, 11> = Key::new();

    #[test]
    fn a_value_is_read_by_its_own_key_alone() {
        let mut parts = Parts::default();
        assert_eq!(parts.find(&NUMBER), None);
        parts.fill(&NUMBER, 7);
        parts.get_mut(&LIST).push(1);
        parts.get_mut(&LIST).push(2);
        assert_eq!((parts.get(&NUMBER), parts.find(&TEXT)), (&7, None));
        assert_eq!(parts.get(&LIST), &[1, 2]);
    }

    #[test]
    #[should_panic(expected = "the module of place 11 is not in this stack's layers")]
    fn an_empty_place_is_the_programs_mistake() {
        Parts::default().get(&LIST);
    }
}
