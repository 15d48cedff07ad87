// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Places in a stack, a namespace or a device for the state of modules that the core does not know.
//!
//! Linux has a pointer for each protocol in `struct net_device` (`ip_ptr`, `ip6_ptr`) and numbered places for
//! modules in `struct net` (`net_generic`). Here a module declares a static [`Key`] of a number and a type,
//! fills the place when the stack, the namespace or the device is made
//! ([`crate::layers::Module`]), and reads it through the same key. A read costs two loads and a comparison.
//! A place costs a word. It belongs to one key, the first that fills it, in all stacks of a process.
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
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::sync::atomic::{AtomicBool, AtomicPtr};

/// The places of a stack.
pub type StackParts = Parts<12>;
/// The places of a namespace.
pub type NamespaceParts = Parts<14>;
/// The places of a device.
pub type DeviceParts = Parts<4>;

const _: () = {
    let numbers = [
        size_of::<StackParts>(),
        size_of::<NamespaceParts>(),
        size_of::<DeviceParts>(),
    ];
    let [stack, namespace, device] = numbers;
    assert!(stack != namespace && namespace != device && device != stack);
};

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

/// The most places that a holder may have.
const MOST: usize = 14;

/// The keys that own the places of holders, by the holder's number of places, in which the kinds of holders differ.
static OWNERS: [[AtomicPtr<Head>; MOST]; MOST + 1] =
    [const { [const { AtomicPtr::new(std::ptr::null_mut()) }; MOST] }; MOST + 1];

/// The places of one holder: each null or a box, as a thin pointer, of the type of the key that owns the place.
pub struct Parts<const PLACES: usize>([*mut (); PLACES]);

// SAFETY: a holder owns values of types that are `Send` and `Sync`, which `Key` demands.
unsafe impl<const PLACES: usize> Send for Parts<PLACES> {}
// SAFETY: as for `Send`.
unsafe impl<const PLACES: usize> Sync for Parts<PLACES> {}

impl<const PLACES: usize> Drop for Parts<PLACES> {
    fn drop(&mut self) {
        for (value, owner) in self.0.iter().zip(&OWNERS[PLACES]) {
            // SAFETY: a place without an owner is null. An owner is a static key.
            let owner = unsafe { owner.load(Acquire).as_ref() };
            if let Some(owner) = owner.filter(|_| !value.is_null()) {
                // SAFETY: `fill` made the pointer from a box of this key's type, and the holder ends here.
                unsafe { (owner.drop)(*value) };
            }
        }
    }
}

impl<const PLACES: usize> Default for Parts<PLACES> {
    fn default() -> Self {
        const { assert!(PLACES <= MOST, "OWNERS has room for these places") };
        Self([std::ptr::null_mut(); PLACES])
    }
}

impl<const PLACES: usize> Parts<PLACES> {
    /// Puts a value into the key's place.
    ///
    /// # Panics
    /// If another key owns the place.
    pub fn fill<T: Any + Send + Sync, const N: usize>(
        &mut self,
        key: &'static Key<T, N>,
        value: T,
    ) {
        const { assert!(N < PLACES, "there is no such place") };
        debug_assert!(self.0[N].is_null(), "place {N} is taken");
        let head = (&raw const key.head).cast_mut();
        let owner = &OWNERS[PLACES][N];
        let was = owner.compare_exchange(std::ptr::null_mut(), head, AcqRel, Relaxed);
        assert!(
            was.is_ok() || was == Err(head),
            "place {N} is another module's"
        );
        self.0[N] = Box::into_raw(Box::new(value)).cast();
    }

    /// Returns the value in the key's place by exclusive borrow. An empty place is filled with the default.
    pub fn get_mut<T: Any + Send + Sync + Default, const N: usize>(
        &mut self,
        key: &'static Key<T, N>,
    ) -> &mut T {
        if self.find(key).is_none() {
            self.fill(key, T::default());
        }
        // SAFETY: the place was filled by this key, so the pointer is a box of the key's type. It is
        // borrowed exclusively, like the holder.
        unsafe { &mut *self.0[N].cast::<T>() }
    }

    /// Returns the value in the key's place, if it was filled.
    #[inline]
    pub fn find<T: Any + Send + Sync, const N: usize>(
        &self,
        key: &'static Key<T, N>,
    ) -> Option<&T> {
        let value = self.0[N];
        if value.is_null() || !std::ptr::eq(OWNERS[PLACES][N].load(Relaxed), &raw const key.head) {
            return None;
        }
        // SAFETY: the key owns the place, so only `fill` with this key stores a value there: a box of the key's type.
        // Keys are statics, so no key of another type can have the same address. The box lives as long as the holder.
        Some(unsafe { &*value.cast::<T>() })
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
    use std::sync::Arc;

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
    #[should_panic(expected = "place 1 is another module's")]
    fn a_place_has_one_owner() {
        StackParts::default().fill(&NUMBER, 7);
        StackParts::default().fill(&TEXT, String::new());
    }

    #[test]
    fn values_are_dropped_with_their_holder() {
        static SHARED: Key<Arc<()>, 5> = Key::new();
        let value = Arc::new(());
        let mut parts = StackParts::default();
        parts.fill(&SHARED, value.clone());
        assert_eq!(Arc::strong_count(&value), 2);
        drop(parts);
        assert_eq!(Arc::strong_count(&value), 1);
    }

    #[test]
    #[should_panic(expected = "the module of place 3 is not in this stack's layers")]
    fn an_empty_place_is_the_programs_mistake() {
        StackParts::default().get(&LIST);
    }
}
