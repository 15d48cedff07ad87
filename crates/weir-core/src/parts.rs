// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Places in a stack, a namespace or a device for the state of modules that the core does not know.
//!
//! Linux has a pointer for each protocol in `struct net_device` (`ip_ptr`, `ip6_ptr`) and numbered places for
//! modules in `struct net` (`net_generic`). Here a module declares a static [`Key`] of a number and a type,
//! fills the place when the stack, the namespace or the device is made
//! ([`crate::layers::Module`]), and reads it through the same key. A read costs two loads and a comparison.
//! An empty place costs two words.
//!
//! | number | stack | namespace | device |
//! |---|---|---|---|
//! | 0 | listeners of routes and neighbours | settings | settings |
//! | 1 | resolvers of neighbours | routes and rules | SNMP counters |
//! | 2 | listeners of addresses and settings | neighbours | IPv4 |
//! | 3 | | IPv4 | IPv6 |
//! | 4 | netdevsim's bus | IPv6 | |
//! | 5 | | UDP ports | |
//! | 6 | sequence of ethtool notifications | VXLAN | |
//! | 7 | listeners of rules | SNMP counters | |
//! | 8 | listeners of nexthop objects | protocols above IP | |
//! | 9 | listeners of labels | tunnels by their ends | |
//! | 10 | devices that watch netlink | what is passed to sockets | |
//! | 11 | settings that were written | sockets | |
//! | 12 | | MPLS | |
//! | 13 | | Geneve | |
#![allow(unsafe_code)] // the value behind a key has the key's type

use std::any::Any;
use std::marker::PhantomData;
use std::sync::atomic::AtomicBool;

/// The places of a stack.
pub type StackParts = Parts<12>;
/// The places of a namespace.
pub type NamespaceParts = Parts<14>;
/// The places of a device.
pub type DeviceParts = Parts<4>;

/// The key of place `N`, which holds a `T`. Declare it as a `static`.
pub struct Key<T, const N: usize> {
    head: Head,
    value: PhantomData<fn() -> T>,
}

/// The part of a key that does not depend on its type.
struct Head {
    /// Gives each key its own address: the compiler never merges statics that contain an atomic.
    _own: AtomicBool,
    /// Drops a value that [`Parts::fill`] made with this key.
    ///
    /// # Safety
    /// The pointer comes from [`Box::into_raw`] of a box of the key's type, and is not used again.
    drop: unsafe fn(*mut ()),
}

impl<T: Any + Send + Sync, const N: usize> Key<T, N> {
    /// Makes the key of place `N`.
    #[allow(clippy::new_without_default)] // a key made by `Default` could not be a static
    pub const fn new() -> Self {
        /// # Safety
        /// As [`Head::drop`].
        unsafe fn drop_box<T>(value: *mut ()) {
            // SAFETY: the caller's promise.
            drop(unsafe { Box::from_raw(value.cast::<T>()) });
        }
        Self {
            head: Head {
                _own: AtomicBool::new(false),
                drop: drop_box::<T>,
            },
            value: PhantomData,
        }
    }
}

/// A place: the key that filled it and a box of the key's type, as a thin pointer.
struct Part {
    key: &'static Head,
    value: *mut (),
}

// SAFETY: a part owns a value of a type that is `Send` and `Sync`, which `Key` demands.
unsafe impl Send for Part {}
// SAFETY: as for `Send`.
unsafe impl Sync for Part {}

impl Drop for Part {
    fn drop(&mut self) {
        // SAFETY: `fill` made the pointer from a box of this key's type, and the part ends here.
        unsafe { (self.key.drop)(self.value) };
    }
}

/// The places of one holder.
pub struct Parts<const PLACES: usize>([Option<Part>; PLACES]);

impl<const PLACES: usize> Default for Parts<PLACES> {
    fn default() -> Self {
        Self([const { None }; PLACES])
    }
}

impl<const PLACES: usize> Parts<PLACES> {
    /// Puts a value into the key's place.
    pub fn fill<T: Any + Send + Sync, const N: usize>(
        &mut self,
        key: &'static Key<T, N>,
        value: T,
    ) {
        const { assert!(N < PLACES, "there is no such place") };
        debug_assert!(self.0[N].is_none(), "place {N} is taken");
        self.0[N] = Some(Part {
            key: &key.head,
            value: Box::into_raw(Box::new(value)).cast(),
        });
    }

    /// Returns the value in the key's place by exclusive borrow. An empty place is filled with the default.
    pub fn get_mut<T: Any + Send + Sync + Default, const N: usize>(
        &mut self,
        key: &'static Key<T, N>,
    ) -> &mut T {
        if self.find(key).is_none() {
            self.fill(key, T::default());
        }
        let part = self.0[N].as_mut().expect("the place was filled");
        // SAFETY: the place was filled by this key, so the pointer is a box of the key's type. It is
        // borrowed exclusively, like the holder.
        unsafe { &mut *part.value.cast::<T>() }
    }

    /// Returns the value in the key's place, if it was filled.
    #[inline]
    pub fn find<T: Any + Send + Sync, const N: usize>(
        &self,
        key: &'static Key<T, N>,
    ) -> Option<&T> {
        let part = self.0[N].as_ref()?;
        if !std::ptr::eq(part.key, &raw const key.head) {
            return None;
        }
        // SAFETY: only `fill` stores a key, together with a box of the key's type. Keys are statics, so no
        // key of another type can have the same address. The box lives as long as the holder.
        Some(unsafe { &*part.value.cast::<T>() })
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
    static LIST: Key<Vec<u8>, 3> = Key::new();

    #[test]
    fn a_value_is_read_by_its_own_key_alone() {
        let mut parts = StackParts::default();
        assert_eq!(parts.find(&NUMBER), None);
        parts.fill(&NUMBER, 7);
        parts.get_mut(&LIST).push(1);
        parts.get_mut(&LIST).push(2);
        assert_eq!((parts.get(&NUMBER), parts.find(&TEXT)), (&7, None));
        assert_eq!(parts.get(&LIST), &[1, 2]);
    }

    #[test]
    #[should_panic(expected = "the module of place 3 is not in this stack's layers")]
    fn an_empty_place_is_the_programs_mistake() {
        StackParts::default().get(&LIST);
    }
}
