// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Maps of any kind, with sizes given at run time and the calls of the bpf system call.

use crate::array::Array;
use crate::hash::Hash;
use crate::lpm::Lpm;
use crate::lru::{BATCH, Lru, LruOptions, LruStats};
use crate::shape::Sizes;
use crate::table::Table;
use crate::{Error, Update};
use weir_sync::percpu;
use weir_sync::primitive::atomic::{AtomicBool, Ordering};

/// The kind of a [`Map`]: one of `enum bpf_map_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `hash`.
    Hash,
    /// `array`; keys are indices of 4 bytes.
    Array,
    /// `percpu_hash`: a value for each CPU.
    PercpuHash,
    /// `percpu_array`.
    PercpuArray,
    /// `lru_hash`.
    LruHash,
    /// `lru_percpu_hash`.
    LruPercpuHash,
    /// `lpm_trie`.
    LpmTrie,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 7] = [
        Self::Hash,
        Self::Array,
        Self::PercpuHash,
        Self::PercpuArray,
        Self::LruHash,
        Self::LruPercpuHash,
        Self::LpmTrie,
    ];

    /// Linux's number of the kind.
    pub const fn number(self) -> u32 {
        match self {
            Self::Hash => 1,
            Self::Array => 2,
            Self::PercpuHash => 5,
            Self::PercpuArray => 6,
            Self::LruHash => 9,
            Self::LruPercpuHash => 10,
            Self::LpmTrie => 11,
        }
    }

    /// Whether each CPU has a value of its own.
    pub const fn is_percpu(self) -> bool {
        matches!(
            self,
            Self::PercpuHash | Self::PercpuArray | Self::LruPercpuHash
        )
    }
}

/// The parameters of a [`Map`].
#[derive(Clone, Copy, Debug)]
pub struct MapOptions {
    /// The kind.
    pub kind: Kind,
    /// The size of a key in bytes.
    pub key_size: usize,
    /// The size of a value in bytes.
    pub value_size: usize,
    /// The most entries.
    pub max_entries: u32,
    /// The number of CPUs, and the options of LRU kinds. `BPF_F_NO_COMMON_LRU` is
    /// [`Spread::PerCpu`](crate::Spread::PerCpu).
    pub lru: LruOptions,
}

enum Body {
    Hash(Hash<Sizes>),
    Lru(Lru<Sizes>),
    Array(Array),
    Lpm(Lpm),
}

/// A map of any kind. Keys and values are byte strings of the map's sizes; others are
/// [`Error::Inval`].
///
/// In a map with values per CPU, `value` is the values of all CPUs in order, each rounded up to 8
/// bytes, as in the bpf system call. The calls that end in `_here` access the calling thread's CPU's
/// value alone, as a BPF program does.
pub struct Map {
    options: MapOptions,
    cpus: usize,
    body: Body,
    frozen: AtomicBool,
}

impl core::fmt::Debug for Map {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Map")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

/// A place in an iteration by [`Map::look_up_batch`] or [`Map::take_batch`]: their `in_batch` and `out_batch`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cursor(u32);

impl Map {
    /// Creates a map (`BPF_MAP_CREATE`).
    ///
    /// # Errors
    /// [`Error::Inval`] for a size of zero or a wrong one, [`Error::TooBig`] for a size beyond
    /// bounds, [`Error::NoMem`] if there is no memory.
    pub fn new(options: MapOptions) -> Result<Self, Error> {
        let machine = || std::thread::available_parallelism().map_or(1, usize::from);
        let cpus = options.lru.cpus.unwrap_or_else(machine);
        if cpus == 0 || cpus > percpu::MAX_CPUS {
            return Err(Error::Inval);
        }
        let MapOptions {
            kind,
            key_size,
            value_size,
            max_entries,
            mut lru,
        } = options;
        lru.cpus = Some(cpus);
        if key_size == 0 || value_size == 0 || max_entries == 0 {
            return Err(Error::Inval);
        }
        if matches!(kind, Kind::Array | Kind::PercpuArray) && key_size != 4 {
            return Err(Error::Inval);
        }
        // A value per CPU is bounded by the allocator of such memory (`PCPU_MIN_UNIT_SIZE`).
        if kind.is_percpu() && value_size.next_multiple_of(8) > 32 << 10 {
            return Err(Error::TooBig);
        }
        let value = if kind.is_percpu() {
            value_size.next_multiple_of(8) * cpus
        } else {
            value_size
        };
        let sizes = Sizes {
            key: key_size,
            value,
        };
        let body = match kind {
            Kind::Hash | Kind::PercpuHash => Body::Hash(Hash::new(sizes, max_entries)?),
            Kind::LruHash | Kind::LruPercpuHash => {
                Body::Lru(Lru::new(sizes, max_entries, lru, None)?)
            }
            Kind::Array | Kind::PercpuArray => Body::Array(Array::new(value, max_entries)?),
            Kind::LpmTrie => Body::Lpm(Lpm::new(sizes, max_entries)?),
        };
        Ok(Self {
            options,
            cpus,
            body,
            frozen: AtomicBool::new(false),
        })
    }

    /// The parameters that the map was created with.
    pub fn options(&self) -> &MapOptions {
        &self.options
    }

    /// The size of a value as the calls without `_here` have it.
    pub fn value_size(&self) -> usize {
        if self.options.kind.is_percpu() {
            self.options.value_size.next_multiple_of(8) * self.cpus
        } else {
            self.options.value_size
        }
    }

    /// Makes the map read-only for these calls (`BPF_MAP_FREEZE`).
    ///
    /// # Errors
    /// [`Error::Perm`] if it is frozen already.
    pub fn freeze(&self) -> Result<(), Error> {
        if self.frozen.swap(true, Ordering::AcqRel) {
            Err(Error::Perm)
        } else {
            Ok(())
        }
    }

    fn writable(&self) -> Result<(), Error> {
        if self.frozen.load(Ordering::Acquire) {
            Err(Error::Perm)
        } else {
            Ok(())
        }
    }

    fn check_key(&self, key: &[u8]) -> Result<(), Error> {
        (key.len() == self.options.key_size)
            .then_some(())
            .ok_or(Error::Inval)
    }

    /// The part of a value of the calling thread's CPU: its first byte.
    fn here(&self) -> usize {
        if self.options.kind.is_percpu() {
            percpu::current() % self.cpus * self.options.value_size.next_multiple_of(8)
        } else {
            0
        }
    }

    fn index(key: &[u8]) -> u32 {
        crate::shape::word(key, 0)
    }

    fn read(&self, key: &[u8], from: usize, out: &mut [u8], mark: bool) -> Result<(), Error> {
        let found = match &self.body {
            Body::Array(array) => return array.look_up(Self::index(key), from, out),
            Body::Hash(hash) => hash.look_up(key, |slot| hash.table().read_value(slot, from, out)),
            Body::Lru(lru) if mark => {
                lru.look_up(key, |slot| lru.table().read_value(slot, from, out))
            }
            Body::Lru(lru) => lru.peek(key, |slot| lru.table().read_value(slot, from, out)),
            Body::Lpm(lpm) => lpm.look_up(key, |slot| {
                lpm.prefixes().table().read_value(slot, from, out);
            }),
        };
        found.then_some(()).ok_or(Error::NoEnt)
    }

    /// Copies the value of a key to `value`. Like the bpf system call, it does not mark the entry of
    /// an LRU map as used; [`Map::look_up_here`] does.
    ///
    /// # Errors
    /// [`Error::NoEnt`] if the key is absent.
    pub fn look_up(&self, key: &[u8], value: &mut [u8]) -> Result<(), Error> {
        self.check_key(key)?;
        if value.len() != self.value_size() {
            return Err(Error::Inval);
        }
        self.read(key, 0, value, false)
    }

    /// Copies the value of a key, or the calling CPU's, to `value`, and marks the entry of an LRU map
    /// as used, as `bpf_map_lookup_elem` of a program does.
    ///
    /// # Errors
    /// [`Error::NoEnt`] if the key is absent.
    pub fn look_up_here(&self, key: &[u8], value: &mut [u8]) -> Result<(), Error> {
        self.check_key(key)?;
        if value.len() != self.options.value_size {
            return Err(Error::Inval);
        }
        self.read(key, self.here(), value, true)
    }

    /// Inserts a key or changes its value, as `mode` permits (`BPF_MAP_UPDATE_ELEM`).
    ///
    /// # Errors
    /// [`Error::Exist`], [`Error::NoEnt`] by `mode`; [`Error::TooBig`] if a hash is full or an index
    /// out of range, [`Error::NoSpc`] if a trie is full; [`Error::Perm`] if the map is frozen.
    pub fn update(&self, key: &[u8], value: &[u8], mode: Update) -> Result<(), Error> {
        self.writable()?;
        self.check_key(key)?;
        if value.len() != self.value_size() {
            return Err(Error::Inval);
        }
        match &self.body {
            Body::Hash(hash) => hash.update(key, mode, |slot| slot.write(value)),
            Body::Lru(lru) => lru.update(key, mode, |slot| slot.write(value)),
            Body::Array(array) => array.update(Self::index(key), 0, value, mode),
            Body::Lpm(lpm) => lpm.update(key, value, mode),
        }
    }

    /// Does the same as [`Map::update`] with the flags of the bpf system call.
    ///
    /// # Errors
    /// Those of [`Map::update`]; [`Error::Inval`] for flags that are not served, after
    /// [`Error::Perm`].
    pub fn update_flags(&self, key: &[u8], value: &[u8], flags: u64) -> Result<(), Error> {
        self.writable()?;
        self.update(key, value, Update::from_flags(flags)?)
    }

    /// Inserts a key or changes its value, or the calling CPU's, as a program does. Other CPUs' values
    /// of a new entry are zero. A frozen map may be changed by programs.
    ///
    /// # Errors
    /// Those of [`Map::update`] but for [`Error::Perm`].
    pub fn update_here(&self, key: &[u8], value: &[u8], mode: Update) -> Result<(), Error> {
        self.check_key(key)?;
        if value.len() != self.options.value_size {
            return Err(Error::Inval);
        }
        let from = self.here();
        let mut padded = Vec::new();
        let part = if self.options.kind.is_percpu() && !value.len().is_multiple_of(8) {
            padded.extend_from_slice(value);
            padded.resize(value.len().next_multiple_of(8), 0);
            &padded
        } else {
            value
        };
        match &self.body {
            Body::Hash(hash) => hash.update(key, mode, |slot| slot.write_part(from, part)),
            Body::Lru(lru) => lru.update(key, mode, |slot| slot.write_part(from, part)),
            Body::Array(array) => array.update(Self::index(key), from, part, mode),
            Body::Lpm(lpm) => lpm.update(key, value, mode),
        }
    }

    /// Removes a key (`BPF_MAP_DELETE_ELEM`).
    ///
    /// # Errors
    /// [`Error::NoEnt`] if it is absent; [`Error::Inval`] for an array; [`Error::Perm`] if the map is
    /// frozen.
    pub fn delete(&self, key: &[u8]) -> Result<(), Error> {
        self.writable()?;
        self.check_key(key)?;
        let removed = match &self.body {
            Body::Hash(hash) => hash.remove(key, |_| ()),
            Body::Lru(lru) => lru.remove(key, |_| ()),
            Body::Array(_) => return Err(Error::Inval),
            Body::Lpm(lpm) => return lpm.delete(key),
        };
        removed.then_some(()).ok_or(Error::NoEnt)
    }

    /// Removes a key and copies its value (`BPF_MAP_LOOKUP_AND_DELETE_ELEM`).
    ///
    /// # Errors
    /// Those of [`Map::delete`]; [`Error::NotSupp`] for an array or a trie.
    pub fn take(&self, key: &[u8], value: &mut [u8]) -> Result<(), Error> {
        self.writable()?;
        self.check_key(key)?;
        if value.len() != self.value_size() {
            return Err(Error::Inval);
        }
        let removed = match &self.body {
            Body::Hash(hash) => hash.remove(key, |slot| hash.table().read_value(slot, 0, value)),
            Body::Lru(lru) => lru.remove(key, |slot| lru.table().read_value(slot, 0, value)),
            Body::Array(_) | Body::Lpm(_) => return Err(Error::NotSupp),
        };
        removed.then_some(()).ok_or(Error::NoEnt)
    }

    fn table(&self) -> Option<&Table<Sizes>> {
        match &self.body {
            Body::Hash(hash) => Some(hash.table()),
            Body::Lru(lru) => Some(lru.table()),
            Body::Lpm(lpm) => Some(lpm.prefixes().table()),
            Body::Array(_) => None,
        }
    }

    fn is_present(&self, slot: u32) -> bool {
        match &self.body {
            Body::Lru(lru) => lru.is_present(slot),
            _ => true,
        }
    }

    /// Finds the first entry at a cursor or after it, and returns the cursor of the next.
    fn next(&self, cursor: Cursor, key: &mut [u8], value: &mut [u8]) -> Option<Cursor> {
        let Some(table) = self.table() else {
            if cursor.0 >= self.options.max_entries {
                return None;
            }
            key.copy_from_slice(&cursor.0.to_ne_bytes());
            self.read(key, 0, value, false).ok()?;
            return Some(Cursor(cursor.0 + 1));
        };
        let mut from = cursor.0;
        loop {
            let slot = table.next_live(from, |slot| {
                table.read_key(slot, key);
                table.read_value(slot, 0, value);
            })?;
            from = slot + 1;
            if self.is_present(slot) {
                return Some(Cursor(from));
            }
        }
    }

    /// Copies the key after `key`, or the first one if `key` is `None` or absent, to `next`
    /// (`BPF_MAP_GET_NEXT_KEY`). The order of the keys of a hash or trie is not specified.
    ///
    /// # Errors
    /// [`Error::NoEnt`] if there is no further key.
    pub fn next_key(&self, key: Option<&[u8]>, next: &mut [u8]) -> Result<(), Error> {
        if next.len() != self.options.key_size {
            return Err(Error::Inval);
        }
        let mut cursor = Cursor::default();
        if let Some(key) = key {
            self.check_key(key)?;
            cursor = match &self.body {
                Body::Array(_) => match Self::index(key) {
                    index if index < self.options.max_entries => Cursor(index + 1),
                    _ => cursor,
                },
                _ => self
                    .table()
                    .and_then(|table| self.after(table, key))
                    .unwrap_or(cursor),
            };
        }
        let mut value = vec![0; self.value_size()];
        self.next(cursor, next, &mut value)
            .map(|_| ())
            .ok_or(Error::NoEnt)
    }

    fn after(&self, table: &Table<Sizes>, key: &[u8]) -> Option<Cursor> {
        let found = table.search(crate::shape::hash(key), key, |_| ());
        found.map(|(slot, ())| Cursor(slot + 1))
    }

    /// Copies entries from a cursor on to `keys` and `values`, whose lengths say how many, and moves
    /// the cursor (`BPF_MAP_LOOKUP_BATCH`). Returns the number of entries. An entry that is present
    /// throughout an iteration is returned exactly once.
    ///
    /// # Errors
    /// [`Error::NoEnt`] if there are none left; [`Error::Inval`] if the lengths do not fit.
    pub fn look_up_batch(
        &self,
        cursor: &mut Cursor,
        keys: &mut [u8],
        values: &mut [u8],
    ) -> Result<usize, Error> {
        let count = self.count(keys.len(), values.len())?;
        let (key, value) = (self.options.key_size, self.value_size());
        let mut done = 0;
        for (key, value) in keys.chunks_mut(key).zip(values.chunks_mut(value)) {
            match self.next(*cursor, key, value) {
                Some(next) => *cursor = next,
                None => break,
            }
            done += 1;
        }
        if done == 0 && count > 0 {
            return Err(Error::NoEnt);
        }
        Ok(done)
    }

    /// Removes entries from a cursor on, copies them to `keys` and `values`, whose lengths say how many at most, and
    /// moves the cursor (`BPF_MAP_LOOKUP_AND_DELETE_BATCH`). Returns the number of entries where others are left.
    ///
    /// The kernel takes whole buckets, so it may take fewer entries than asked for, and fails with ENOSPC where a
    /// bucket has more than that. This call never does.
    ///
    /// # Errors
    /// The number of entries removed, and [`Error::NoEnt`] if the iteration has come to its end, as in the kernel
    /// also where it removed some; [`Error::NotSupp`] for an array or a trie, [`Error::Perm`] if the map is
    /// frozen, and [`Error::Inval`] if the lengths do not fit, all with 0.
    pub fn take_batch(
        &self,
        cursor: &mut Cursor,
        keys: &mut [u8],
        values: &mut [u8],
    ) -> Result<usize, (usize, Error)> {
        self.writable().map_err(|error| (0, error))?;
        if matches!(self.body, Body::Array(_) | Body::Lpm(_)) {
            return Err((0, Error::NotSupp));
        }
        let count = (self.count(keys.len(), values.len())).map_err(|error| (0, error))?;
        let (key, value) = (self.options.key_size, self.value_size());
        let mut done = 0;
        for (key, value) in keys.chunks_mut(key).zip(values.chunks_mut(value)) {
            loop {
                let Some(next) = self.next(*cursor, key, value) else {
                    *cursor = Cursor(u32::MAX);
                    return Err((done, Error::NoEnt));
                };
                *cursor = next;
                // Another thread may have removed it meanwhile.
                if self.take(key, value).is_ok() {
                    break;
                }
            }
            done += 1;
        }
        let (mut key, mut value) = (vec![0; key], vec![0; value]);
        if count > 0 && self.next(*cursor, &mut key, &mut value).is_none() {
            *cursor = Cursor(u32::MAX);
            return Err((done, Error::NoEnt));
        }
        Ok(done)
    }

    /// The number of entries of a batch.
    fn count(&self, keys: usize, values: usize) -> Result<usize, Error> {
        let count = keys / self.options.key_size;
        let fits = keys.is_multiple_of(self.options.key_size)
            && count.checked_mul(self.value_size()) == Some(values);
        fits.then_some(count).ok_or(Error::Inval)
    }

    /// Inserts or changes all entries of a batch (`BPF_MAP_UPDATE_BATCH`), 64 at a time with
    /// prefetches where the map evicts.
    ///
    /// # Errors
    /// The number of entries written, and the error of the next as [`Map::update`] gives it.
    pub fn update_batch(
        &self,
        keys: &[u8],
        values: &[u8],
        mode: Update,
    ) -> Result<(), (usize, Error)> {
        self.writable().map_err(|error| (0, error))?;
        let count = self
            .count(keys.len(), values.len())
            .map_err(|error| (0, error))?;
        let (key, value) = (self.options.key_size, self.value_size());
        if let Body::Lru(lru) = &self.body {
            for first in (0..count).step_by(BATCH) {
                let (done, result) = lru.update_batch(
                    count - first,
                    |at| &keys[(first + at) * key..][..key],
                    mode,
                    |at, slot| slot.write(&values[(first + at) * value..][..value]),
                );
                result.map_err(|error| (first + done, error))?;
            }
            return Ok(());
        }
        for (at, (key, value)) in keys.chunks(key).zip(values.chunks(value)).enumerate() {
            self.update(key, value, mode).map_err(|error| (at, error))?;
        }
        Ok(())
    }

    /// Removes all keys of a batch (`BPF_MAP_DELETE_BATCH`).
    ///
    /// # Errors
    /// The number of keys removed, and the error of the next as [`Map::delete`] gives it.
    pub fn delete_batch(&self, keys: &[u8]) -> Result<(), (usize, Error)> {
        self.writable().map_err(|error| (0, error))?;
        if !keys.len().is_multiple_of(self.options.key_size) {
            return Err((0, Error::Inval));
        }
        if matches!(self.body, Body::Array(_)) {
            return Err((0, Error::NotSupp));
        }
        for (at, key) in keys.chunks(self.options.key_size).enumerate() {
            self.delete(key).map_err(|error| (at, error))?;
        }
        Ok(())
    }

    /// Returns the counters of an LRU map.
    pub fn stats(&self) -> Option<LruStats> {
        match &self.body {
            Body::Lru(lru) => Some(lru.stats()),
            _ => None,
        }
    }
}
