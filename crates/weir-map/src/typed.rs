// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Maps whose keys and values are types: sizes are known to the compiler.

use crate::hash::Hash;
use crate::lru::{BATCH, Lru, LruOptions, LruStats};
use crate::shape::{Of, Plain, bytes_of, bytes_of_mut, zeroed};
use crate::table::Table;
use crate::{Error, Reason, Update};

macro_rules! common {
    ($map:ident) => {
        impl<K: Plain, V: Plain> $map<K, V> {
            /// Returns the value of a key.
            #[inline]
            pub fn get(&self, key: &K) -> Option<V> {
                if self.core.is_plain() {
                    let (mut value, key) = (zeroed::<V>(), bytes_of(key));
                    let table = self.core.table();
                    let aim = table.aim(crate::shape::hash(key));
                    if let Some(entry) = table.glance(aim, key, bytes_of_mut(&mut value)) {
                        self.core.mark(entry);
                        return Some(value);
                    }
                }
                self.get_beyond(key)
            }

            /// Looks up all keys, [`BATCH`] at a time with prefetches. Calls `found` with the index and
            /// the value of each key that is in the map.
            #[inline]
            pub fn get_batch(&self, keys: &[K], mut found: impl FnMut(usize, V)) {
                let table = self.core.table();
                let aim = |key: &K| {
                    let aim = table.aim(crate::shape::hash(bytes_of(key)));
                    aim.prefetch();
                    aim
                };
                if !self.core.is_plain() {
                    for (batch, keys) in keys.chunks(BATCH).enumerate() {
                        for key in keys {
                            aim(key);
                        }
                        for (at, key) in keys.iter().enumerate() {
                            if let Some(value) = self.get_beyond(key) {
                                found(batch * BATCH + at, value);
                            }
                        }
                    }
                    return;
                }
                let (batches, rest) = keys.as_chunks::<BATCH>();
                let mut see = |at, key: &K, aim| {
                    let (mut value, bytes) = (zeroed::<V>(), bytes_of(key));
                    let entry = table.glance(aim, bytes, bytes_of_mut(&mut value));
                    if let Some(entry) = entry {
                        self.core.mark(entry);
                        found(at, value);
                    } else if let Some(value) = self.get_beyond(key) {
                        found(at, value);
                    }
                };
                for (batch, keys) in batches.iter().enumerate() {
                    let aims: [_; BATCH] = core::array::from_fn(|at| aim(&keys[at]));
                    for (at, (key, &aim)) in keys.iter().zip(&aims).enumerate() {
                        see(batch * BATCH + at, key, aim);
                    }
                }
                if let Some(first) = rest.first() {
                    let mut aims = [aim(first); BATCH];
                    for (aim_of, key) in aims.iter_mut().zip(rest) {
                        *aim_of = aim(key);
                    }
                    for (at, (key, &aim)) in rest.iter().zip(&aims).enumerate() {
                        see(batches.len() * BATCH + at, key, aim);
                    }
                }
            }

            /// Looks up a key that was not seen in its home bucket, or whose use means more than a mark.
            #[inline(never)]
            fn get_beyond(&self, key: &K) -> Option<V> {
                let (mut value, key) = (zeroed::<V>(), bytes_of(key));
                if self.core.is_plain() {
                    let table = self.core.table();
                    if let Some(entry) = table.glance_beyond(key, bytes_of_mut(&mut value)) {
                        self.core.mark(entry);
                        return Some(value);
                    }
                }
                self.core
                    .look_up(key, |slot| self.read(slot, &mut value))
                    .then_some(value)
            }

            /// Inserts a key or replaces its value.
            ///
            /// # Errors
            /// Those of [`Self::update`] with [`Update::Any`].
            #[inline]
            pub fn insert(&self, key: K, value: V) -> Result<(), Error> {
                self.update(key, value, Update::Any)
            }

            /// Inserts a key or replaces its value, as `mode` permits.
            ///
            /// # Errors
            /// [`Error::Exist`] or [`Error::NoEnt`] by `mode`. For a full hash map [`Error::TooBig`];
            /// for an LRU map [`Error::NoMem`] if other threads hold all its nodes.
            #[inline]
            pub fn update(&self, key: K, value: V, mode: Update) -> Result<(), Error> {
                self.core
                    .update(bytes_of(&key), mode, |slot| slot.write(bytes_of(&value)))
            }

            /// Removes a key.
            ///
            /// # Errors
            /// [`Error::NoEnt`] if it is absent.
            pub fn delete(&self, key: &K) -> Result<(), Error> {
                let removed = self.core.remove(bytes_of(key), |_| ());
                removed.then_some(()).ok_or(Error::NoEnt)
            }

            /// Removes a key and returns its value.
            pub fn take(&self, key: &K) -> Option<V> {
                let mut value = zeroed::<V>();
                self.core
                    .remove(bytes_of(key), |slot| self.read(slot, &mut value))
                    .then_some(value)
            }

            /// Iterates over the entries. An entry that is present throughout is returned exactly once;
            /// one that comes, goes or changes meanwhile at most once for each time it was inserted.
            pub fn iter(&self) -> impl Iterator<Item = (K, V)> + '_ {
                let mut next = 0;
                core::iter::from_fn(move || {
                    loop {
                        let (mut key, mut value) = (zeroed::<K>(), zeroed::<V>());
                        let slot = self.core.table().next_live(next, |slot| {
                            self.core.table().read_key(slot, bytes_of_mut(&mut key));
                            self.read(slot, &mut value);
                        })?;
                        next = slot + 1;
                        if self.core.is_present(slot) {
                            return Some((key, value));
                        }
                    }
                })
            }

            /// The number of entries that the map can hold.
            pub fn capacity(&self) -> u32 {
                self.core.max_entries()
            }

            #[inline(always)]
            fn read(&self, slot: u32, value: &mut V) {
                let table: &Table<Of<K, V>> = self.core.table();
                table.read_value(slot, 0, bytes_of_mut(value));
            }
        }

        impl<K: Plain, V: Plain> core::fmt::Debug for $map<K, V> {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.debug_struct(stringify!($map))
                    .field("capacity", &self.capacity())
                    .finish_non_exhaustive()
            }
        }
    };
}

/// A hash map with a fixed number of entries: BPF's `hash`. A full map refuses new keys.
pub struct HashMap<K: Plain, V: Plain> {
    core: Hash<Of<K, V>>,
}

/// A hash map that evicts entries when it is full: BPF's `lru_hash`.
///
/// ```
/// use weir_map::{LruHashMap, LruOptions};
/// let map = LruHashMap::<u32, u64>::new(1000, LruOptions::default())?;
/// for key in 0..2000 {
///     map.insert(key, u64::from(key))?;
/// }
/// assert_eq!(map.get(&1999), Some(1999));
/// assert_eq!(map.get(&0), None);
/// # Ok::<(), weir_map::Error>(())
/// ```
pub struct LruHashMap<K: Plain, V: Plain> {
    core: Lru<Of<K, V>>,
}

common!(HashMap);
common!(LruHashMap);

impl<K: Plain, V: Plain> HashMap<K, V> {
    /// Creates a map for up to `max_entries` entries.
    ///
    /// # Errors
    /// [`Error::Inval`] for no entries or types without size, [`Error::TooBig`] for more entries than
    /// can be numbered or larger keys than 512 bytes, [`Error::NoMem`] if there is no memory.
    pub fn new(max_entries: u32) -> Result<Self, Error> {
        Ok(Self {
            core: Hash::new(Of::NEW, max_entries)?,
        })
    }
}

impl<K: Plain, V: Plain> LruHashMap<K, V> {
    /// Creates a map that holds up to `max_entries` entries.
    ///
    /// # Errors
    /// As [`HashMap::new`]; [`Error::NotSupp`] for exact LRU with lists per CPU.
    pub fn new(max_entries: u32, options: LruOptions) -> Result<Self, Error> {
        Ok(Self {
            core: Lru::new(Of::NEW, max_entries, options, None)?,
        })
    }

    /// Creates a map that calls `on_evict` with each entry it evicts, after the operation that
    /// evicted it has released its locks. `on_evict` may use the map.
    ///
    /// # Errors
    /// As [`LruHashMap::new`].
    pub fn with_callback(
        max_entries: u32,
        options: LruOptions,
        on_evict: impl Fn(K, V, Reason) + Send + Sync + 'static,
    ) -> Result<Self, Error> {
        let call = move |key: &[u8], value: &[u8], reason| {
            let (mut k, mut v) = (zeroed::<K>(), zeroed::<V>());
            bytes_of_mut(&mut k).copy_from_slice(key);
            bytes_of_mut(&mut v).copy_from_slice(value);
            on_evict(k, v, reason);
        };
        Ok(Self {
            core: Lru::new(Of::NEW, max_entries, options, Some(Box::new(call)))?,
        })
    }

    /// Inserts or changes all entries, [`BATCH`] at a time with prefetches and one lock of the CPU's
    /// lane.
    ///
    /// # Errors
    /// The number of entries that were written, and the error of the next one as [`Self::update`]
    /// gives it.
    #[inline]
    pub fn update_batch(&self, entries: &[(K, V)], mode: Update) -> Result<(), (usize, Error)> {
        for (chunk, entries) in entries.chunks(BATCH).enumerate() {
            let (done, result) = self.core.update_batch(
                entries.len(),
                |at| bytes_of(&entries[at].0),
                mode,
                |at, slot| slot.write(bytes_of(&entries[at].1)),
            );
            result.map_err(|error| (chunk * BATCH + done, error))?;
        }
        Ok(())
    }

    /// Returns the value of a key without marking the entry as used.
    pub fn peek(&self, key: &K) -> Option<V> {
        let mut value = zeroed::<V>();
        self.core
            .peek(bytes_of(key), |slot| self.read(slot, &mut value))
            .then_some(value)
    }

    /// Prefetches what the map has of a key.
    #[inline]
    pub fn prefetch(&self, key: &K) {
        let aim = self.core.table().aim(crate::shape::hash(bytes_of(key)));
        aim.prefetch();
    }

    /// Sets the time in ticks, for [`LruOptions::idle`].
    pub fn set_time(&self, ticks: u32) {
        self.core.set_time(ticks);
    }

    /// Returns the counters.
    pub fn stats(&self) -> LruStats {
        self.core.stats()
    }

    #[cfg(all(test, not(loom)))]
    pub(crate) fn is_balanced(&self) -> bool {
        self.core.is_balanced()
    }

    #[cfg(all(test, not(loom)))]
    pub(crate) fn nodes(&self) -> (u32, u32) {
        self.core.nodes()
    }

    /// The number of places for entries, four of them in a bucket of the table: more than `max_entries`.
    pub fn slots(&self) -> u32 {
        self.core.table().slots()
    }

    /// The bytes of address space that the map uses; pages that were never written take no memory.
    pub fn bytes(&self) -> usize {
        self.core.bytes()
    }
}
