// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Maps whose values are maps: `array_of_maps` and `hash_of_maps` (`kernel/bpf/map_in_map.c`).
//!
//! An inner map must have the kind and sizes of the template that the outer map was created with, so
//! a reader knows what it gets. A reader takes no lock: it finds the inner map under a guard of an RCU
//! domain, and a map that was replaced or deleted lives until the guards that may have seen it are gone.
#![allow(unsafe_code)] // counted pointers in atomic words

use core::cell::Cell;
use std::sync::Arc;

use crate::hash::Hash;
use crate::map::{Kind, Map};
use crate::memory::Words;
use crate::shape::{Sizes, hash, word};
use crate::{Error, Spread, Update};
use weir_sync::primitive::atomic::{AtomicBool, AtomicU64, Ordering};
use weir_sync::rcu::{Domain, Guard};

/// The kind of a [`MapOfMaps`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OuterKind {
    /// `array_of_maps`; keys are indices of 4 bytes, and places are empty at first.
    Array,
    /// `hash_of_maps`.
    Hash,
}

impl OuterKind {
    /// Linux's number of the kind.
    pub const fn number(self) -> u32 {
        match self {
            Self::Array => 12,
            Self::Hash => 13,
        }
    }
}

/// The properties that an inner map has in common with the template (`bpf_map_meta_equal`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Meta {
    kind: Kind,
    key_size: usize,
    value_size: usize,
    /// The size of the values of all CPUs, so that inner maps also agree on their number.
    whole_size: usize,
    /// `BPF_F_NO_COMMON_LRU`.
    percpu_lists: bool,
    /// The size of an array, whose look-ups may be compiled with it.
    max_entries: Option<u32>,
}

impl Meta {
    fn of(map: &Map) -> Self {
        let options = map.options();
        let lru = matches!(options.kind, Kind::LruHash | Kind::LruPercpuHash);
        Self {
            kind: options.kind,
            key_size: options.key_size,
            value_size: options.value_size,
            whole_size: map.value_size(),
            percpu_lists: lru && options.lru.spread == Spread::PerCpu,
            max_entries: (options.kind == Kind::Array).then_some(options.max_entries),
        }
    }
}

/// The bytes of a pointer in a table.
const POINTER: usize = 8;

enum Body {
    /// A pointer or zero for each index.
    Array(Words<AtomicU64>),
    Hash(Box<Hash<Sizes>>),
}

/// A map whose values are maps.
///
/// ```
/// use std::sync::Arc;
/// use weir_map::{Kind, LruOptions, Map, MapOfMaps, MapOptions, OuterKind, Update};
/// let inner = |max_entries| Map::new(MapOptions {
///     kind: Kind::Hash, key_size: 4, value_size: 8, max_entries, lru: LruOptions::default(),
/// });
/// let domain = weir_sync::rcu::Domain::default();
/// let tenants = MapOfMaps::new(&domain, OuterKind::Hash, 2, 100, &inner(1)?)?;
/// tenants.update(&[0, 7], Arc::new(inner(1000)?), Update::Any)?;
/// let guard = domain.pin();
/// tenants.look_up(&[0, 7], &guard)?.update(&[1, 2, 3, 4], &[0; 8], Update::Any)?;
/// # Ok::<(), weir_map::Error>(())
/// ```
pub struct MapOfMaps {
    domain: Domain,
    kind: OuterKind,
    key_size: usize,
    max_entries: u32,
    meta: Meta,
    body: Body,
    frozen: AtomicBool,
}

impl core::fmt::Debug for MapOfMaps {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("MapOfMaps")
            .field("kind", &self.kind)
            .field("key_size", &self.key_size)
            .field("max_entries", &self.max_entries)
            .field("meta", &self.meta)
            .finish_non_exhaustive()
    }
}

/// Makes a word of a map, which the word owns from now on.
fn into_word(map: Arc<Map>) -> u64 {
    Arc::into_raw(map).expose_provenance() as u64
}

/// Returns the pointer of a word; null for an empty place.
fn pointer(word: u64) -> *const Map {
    core::ptr::with_exposed_provenance(word as usize)
}

impl MapOfMaps {
    /// Creates a map of up to `max_entries` maps that are like `template`, which it does not keep.
    /// Readers pin `domain`.
    ///
    /// # Errors
    /// [`Error::Inval`] for a size of zero, or another key size than 4 for an array;
    /// [`Error::TooBig`] for a size beyond bounds; [`Error::NoMem`] if there is no memory.
    pub fn new(
        domain: &Domain,
        kind: OuterKind,
        key_size: usize,
        max_entries: u32,
        template: &Map,
    ) -> Result<Self, Error> {
        if key_size == 0 || max_entries == 0 || (kind == OuterKind::Array && key_size != 4) {
            return Err(Error::Inval);
        }
        let sizes = Sizes {
            key: key_size,
            value: POINTER,
        };
        Ok(Self {
            domain: domain.clone(),
            kind,
            key_size,
            max_entries,
            meta: Meta::of(template),
            body: match kind {
                OuterKind::Array => Body::Array(Words::new(max_entries as usize)?),
                OuterKind::Hash => Body::Hash(Box::new(Hash::new(sizes, max_entries)?)),
            },
            frozen: AtomicBool::new(false),
        })
    }

    /// The kind.
    pub fn kind(&self) -> OuterKind {
        self.kind
    }

    /// The domain that readers pin.
    pub fn domain(&self) -> &Domain {
        &self.domain
    }

    fn check_key(&self, key: &[u8]) -> Result<(), Error> {
        (key.len() == self.key_size)
            .then_some(())
            .ok_or(Error::Inval)
    }

    fn writable(&self) -> Result<(), Error> {
        let frozen = self.frozen.load(Ordering::Acquire);
        (!frozen).then_some(()).ok_or(Error::Perm)
    }

    /// Makes the map read-only (`BPF_MAP_FREEZE`). Its inner maps are not.
    ///
    /// # Errors
    /// [`Error::Perm`] if it is frozen already.
    pub fn freeze(&self) -> Result<(), Error> {
        let before = self.frozen.swap(true, Ordering::AcqRel);
        (!before).then_some(()).ok_or(Error::Perm)
    }

    fn find(&self, key: &[u8]) -> Option<*const Map> {
        let mut found = 0;
        match &self.body {
            Body::Array(places) => {
                let index = word(key, 0);
                if index < self.max_entries {
                    found = places.at(index as usize).load(Ordering::Acquire);
                }
            }
            Body::Hash(hash) => {
                let mut bytes = [0; POINTER];
                let read = |slot| hash.table().read_value(slot, 0, &mut bytes);
                if hash.look_up(key, read) {
                    found = u64::from_ne_bytes(bytes);
                }
            }
        }
        (found != 0).then(|| pointer(found))
    }

    /// Returns the inner map of a key, as `bpf_map_lookup_elem` of a program does.
    ///
    /// # Errors
    /// [`Error::NoEnt`] if the key or the index has none; [`Error::Inval`] for a wrong key size.
    ///
    /// # Panics
    /// If the guard is not one of the map's domain.
    #[inline]
    pub fn look_up<'g>(&'g self, key: &[u8], guard: &'g Guard) -> Result<&'g Map, Error> {
        self.check_key(key)?;
        guard.check(&self.domain);
        let map = self.find(key).ok_or(Error::NoEnt)?;
        // SAFETY: the guard was pinned before the pointer was read, and `release` drops the map's
        // count only when such guards are gone.
        Ok(unsafe { &*map })
    }

    /// Returns the inner map of a key, to be kept.
    ///
    /// # Errors
    /// Those of [`MapOfMaps::look_up`].
    pub fn get(&self, key: &[u8]) -> Result<Arc<Map>, Error> {
        self.check_key(key)?;
        let guard = self.domain.pin();
        let map = self.find(key).ok_or(Error::NoEnt)?;
        // SAFETY: the pointer is that of an `Arc`, which the guard keeps as in `look_up`.
        let map = unsafe {
            Arc::increment_strong_count(map);
            Arc::from_raw(map)
        };
        drop(guard);
        Ok(map)
    }

    /// Gives up a word that readers can no longer find.
    fn release(&self, word: u64) {
        if word != 0 {
            // SAFETY: the word owned the count, and nobody else took it: it was exchanged, or
            // replaced or removed under its bucket's lock.
            self.domain
                .defer_drop(unsafe { Arc::from_raw(pointer(word)) });
        }
    }

    /// Inserts an inner map or replaces the one of a key (`BPF_MAP_UPDATE_ELEM`).
    ///
    /// # Errors
    /// [`Error::Inval`] if the inner map is not like the template, or for a mode other than
    /// [`Update::Any`] in an array; [`Error::Exist`], [`Error::NoEnt`] by `mode`; [`Error::TooBig`] if
    /// a hash is full or an index out of range; [`Error::Perm`] if the map is frozen.
    pub fn update(&self, key: &[u8], inner: Arc<Map>, mode: Update) -> Result<(), Error> {
        self.writable()?;
        self.check_key(key)?;
        let alike = Meta::of(&inner) == self.meta;
        match &self.body {
            Body::Array(places) => {
                let index = word(key, 0);
                if mode != Update::Any {
                    return Err(Error::Inval);
                }
                if index >= self.max_entries {
                    return Err(Error::TooBig);
                }
                if !alike {
                    return Err(Error::Inval);
                }
                let place = places.at(index as usize);
                self.release(place.swap(into_word(inner), Ordering::AcqRel));
                Ok(())
            }
            Body::Hash(_) if !alike => Err(Error::Inval),
            Body::Hash(hash) => {
                let (new, old) = (into_word(inner), Cell::new(0));
                let updated = hash.update(key, mode, |slot| {
                    old.set(slot.replaced());
                    slot.write(&new.to_ne_bytes());
                });
                // A map that was not stored was seen by nobody, but may go the same way.
                self.release(if updated.is_ok() { old.get() } else { new });
                updated
            }
        }
    }

    /// Removes the inner map of a key (`BPF_MAP_DELETE_ELEM`).
    ///
    /// # Errors
    /// [`Error::NoEnt`] if there is none; [`Error::TooBig`] if an index is out of range;
    /// [`Error::Perm`] if the map is frozen.
    pub fn delete(&self, key: &[u8]) -> Result<(), Error> {
        self.writable()?;
        self.check_key(key)?;
        let old = match &self.body {
            Body::Array(places) => {
                let index = word(key, 0);
                if index >= self.max_entries {
                    return Err(Error::TooBig);
                }
                places.at(index as usize).swap(0, Ordering::AcqRel)
            }
            Body::Hash(hash) => {
                let mut bytes = [0; POINTER];
                hash.remove(key, |slot| hash.table().read_value(slot, 0, &mut bytes));
                u64::from_ne_bytes(bytes)
            }
        };
        self.release(old);
        (old != 0).then_some(()).ok_or(Error::NoEnt)
    }

    /// Copies the key after `key`, or the first one if `key` is `None` or absent, to `next`
    /// (`BPF_MAP_GET_NEXT_KEY`). The indices of an array follow whether they have a map or not.
    ///
    /// # Errors
    /// [`Error::NoEnt`] if there is no further key; [`Error::Inval`] for a wrong key size.
    pub fn next_key(&self, key: Option<&[u8]>, next: &mut [u8]) -> Result<(), Error> {
        self.check_key(next)?;
        key.map_or(Ok(()), |key| self.check_key(key))?;
        match &self.body {
            Body::Array(_) => {
                let index = match key.map(|key| word(key, 0)) {
                    Some(index) if index < self.max_entries => index + 1,
                    _ => 0,
                };
                if index >= self.max_entries {
                    return Err(Error::NoEnt);
                }
                next.copy_from_slice(&index.to_ne_bytes());
                Ok(())
            }
            Body::Hash(map) => {
                let table = map.table();
                let at = key.and_then(|key| table.search(hash(key), key, |_| ()));
                let from = at.map_or(0, |(slot, ())| slot + 1);
                let found = table.next_live(from, |slot| table.read_key(slot, next));
                found.map(|_| ()).ok_or(Error::NoEnt)
            }
        }
    }
}

impl Drop for MapOfMaps {
    fn drop(&mut self) {
        let release = |word: u64| {
            if word != 0 {
                // SAFETY: no reference outlives the map, so no reader holds one.
                drop(unsafe { Arc::from_raw(pointer(word)) });
            }
        };
        match &self.body {
            Body::Array(places) => {
                for index in 0..places.len() {
                    release(places.at(index).load(Ordering::Acquire));
                }
            }
            Body::Hash(hash) => {
                let (table, mut bytes, mut from) = (hash.table(), [0; POINTER], 0);
                while let Some(slot) =
                    table.next_live(from, |slot| table.read_value(slot, 0, &mut bytes))
                {
                    release(u64::from_ne_bytes(bytes));
                    from = slot + 1;
                }
            }
        }
    }
}
