// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Calls of a map as data, and a model that knows their results: an oracle for tests.
//!
//! The property tests, the fuzz target and the comparison with the kernel's maps all draw
//! [`Operation`]s from bytes by [`Operation::draw`], and judge them by a [`Model`] or by each other.
//! [`check`] makes a map and its calls from bytes.

use std::collections::BTreeMap;

use crate::{Cursor, Error, Kind, LruOptions, Map, MapOptions, Policy, Spread, Update};

/// One call of a [`Map`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// `BPF_MAP_LOOKUP_ELEM` of a key.
    LookUp(Vec<u8>),
    /// `BPF_MAP_UPDATE_ELEM` with a key, a value and flags.
    Update(Vec<u8>, Vec<u8>, u64),
    /// `BPF_MAP_DELETE_ELEM` of a key.
    Delete(Vec<u8>),
    /// `BPF_MAP_LOOKUP_AND_DELETE_ELEM` of a key.
    Take(Vec<u8>),
    /// An iteration over all keys by `BPF_MAP_GET_NEXT_KEY`.
    Keys,
    /// `BPF_MAP_FREEZE`.
    Freeze,
    /// An iteration over all entries by `BPF_MAP_LOOKUP_BATCH`, so many at once.
    Entries(usize),
    /// The removal of all entries by `BPF_MAP_LOOKUP_AND_DELETE_BATCH`, so many at once.
    Drain(usize),
    /// `BPF_MAP_UPDATE_BATCH` of keys and values.
    UpdateBatch(Vec<(Vec<u8>, Vec<u8>)>),
    /// `BPF_MAP_DELETE_BATCH` of keys.
    DeleteBatch(Vec<Vec<u8>>),
}

/// The result of a call that succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The call was done.
    Done,
    /// A value.
    Value(Vec<u8>),
    /// The keys in ascending order of their bytes. Those of a trie have zeroes after their prefix.
    Keys(Vec<Vec<u8>>),
    /// The entries in ascending order of their keys, which are as those of [`Answer::Keys`].
    Entries(Vec<(Vec<u8>, Vec<u8>)>),
    /// The number of elements that a batch has handled, and the error of the next, if there was one.
    Batch(usize, Option<Error>),
}

/// The most elements of a batch of [`Operation::draw`].
const MOST: u8 = 9;

/// The data of a key of a trie begins after its length in bits.
const LEN: usize = 4;

/// Returns the length in bits of a key of a trie.
fn length(key: &[u8]) -> usize {
    crate::shape::word(key, 0) as usize
}

/// Returns a key of a trie with zeroes after the first `bits` bits, and with that length.
pub fn prefix(key: &[u8], bits: usize) -> Vec<u8> {
    let mut prefix = key.to_vec();
    prefix[..LEN].copy_from_slice(&(bits as u32).to_ne_bytes());
    for (at, byte) in prefix[LEN..].iter_mut().enumerate() {
        *byte &= !(0xffu32 >> bits.saturating_sub(8 * at).min(8)) as u8;
    }
    prefix
}

impl Operation {
    /// Draws a call of a map with these options and values of `value_size` bytes from `bytes`.
    /// Returns `None` at their end. Keys come from a small set, so that calls meet.
    pub fn draw(
        options: &MapOptions,
        value_size: usize,
        bytes: &mut impl Iterator<Item = u8>,
    ) -> Option<Self> {
        let what = bytes.next()?;
        let key = Self::key(options, bytes)?;
        Some(match what {
            0..128 => {
                let (fill, flags) = (bytes.next()?, bytes.next()?);
                let flags = [0, 0, 1, 2, 3][usize::from(flags % 5)];
                Self::Update(key, Self::value(options, value_size, fill), flags)
            }
            128..192 => Self::LookUp(key),
            192..224 => Self::Delete(key),
            224..244 => Self::Take(key),
            244..247 => {
                let mut entries = Vec::new();
                for _ in 0..bytes.next()? % MOST {
                    let key = Self::key(options, bytes)?;
                    entries.push((key, Self::value(options, value_size, bytes.next()?)));
                }
                Self::UpdateBatch(entries)
            }
            247..249 => {
                let count = bytes.next()? % MOST;
                let keys = (0..count).map(|_| Self::key(options, bytes));
                Self::DeleteBatch(keys.collect::<Option<_>>()?)
            }
            249 => Self::Drain(usize::from(bytes.next()? % MOST)),
            250..252 => Self::Entries(usize::from(bytes.next()? % MOST)),
            // Nothing changes any more after it, so it is rare.
            255 if bytes.next()? < 64 => Self::Freeze,
            _ => Self::Keys,
        })
    }

    fn value(options: &MapOptions, size: usize, fill: u8) -> Vec<u8> {
        let bytes = (0..size).map(|at| fill.wrapping_add((7 * at) as u8));
        let mut value: Vec<u8> = bytes.collect();
        // The padding of a CPU's value is not part of it.
        if options.kind.is_percpu() {
            for value in value.chunks_mut(options.value_size.next_multiple_of(8)) {
                value[options.value_size..].fill(0);
            }
        }
        value
    }

    fn key(options: &MapOptions, bytes: &mut impl Iterator<Item = u8>) -> Option<Vec<u8>> {
        let mut key = vec![0; options.key_size];
        match options.kind {
            Kind::LpmTrie => {
                let bits = 8 * (options.key_size - LEN);
                let length = u32::from(bytes.next()?) % (bits as u32 + 2);
                key[..LEN].copy_from_slice(&length.to_ne_bytes());
                for byte in &mut key[LEN..] {
                    *byte = [0, 0, 0x80, 0xc0, 0xff, 1][usize::from(bytes.next()? % 6)];
                }
            }
            kind => {
                let keys = match kind {
                    Kind::Array | Kind::PercpuArray => 18,
                    Kind::LruHash | Kind::LruPercpuHash => 40,
                    _ => 24,
                };
                let number = bytes.next()? % keys;
                key[0] = number;
                if options.key_size > 4 {
                    key[options.key_size - 1] = number;
                }
            }
        }
        Some(key)
    }

    /// Makes the call.
    ///
    /// # Errors
    /// Those of the call.
    pub fn run(&self, map: &Map) -> Result<Answer, Error> {
        let mut out = vec![0; map.value_size()];
        match self {
            Self::LookUp(key) => map.look_up(key, &mut out).map(|()| Answer::Value(out)),
            Self::Update(key, value, flags) => {
                map.update_flags(key, value, *flags).map(|()| Answer::Done)
            }
            Self::Delete(key) => map.delete(key).map(|()| Answer::Done),
            Self::Take(key) => map.take(key, &mut out).map(|()| Answer::Value(out)),
            Self::Freeze => map.freeze().map(|()| Answer::Done),
            Self::Keys => {
                let options = map.options();
                let all = keys(options, |last, next| map.next_key(last, next));
                all.map(Answer::Keys)
            }
            Self::Entries(count) => Self::iterate(map, *count, |cursor, keys, values| {
                match map.look_up_batch(cursor, keys, values) {
                    Ok(done) if done < *count => (done, Some(Error::NoEnt)),
                    Ok(done) => (done, None),
                    Err(error) => (0, Some(error)),
                }
            }),
            Self::Drain(count) => Self::iterate(map, *count, |cursor, keys, values| {
                match map.take_batch(cursor, keys, values) {
                    Ok(done) => (done, None),
                    Err((done, error)) => (done, Some(error)),
                }
            }),
            Self::UpdateBatch(entries) => {
                let (keys, values) = joined(entries);
                let result = map.update_batch(&keys, &values, Update::Any);
                batch(entries.len(), result)
            }
            Self::DeleteBatch(keys) => batch(keys.len(), map.delete_batch(&keys.concat())),
        }
    }

    /// Collects entries that `call` copies to keys and values, `count` at once.
    fn iterate(
        map: &Map,
        count: usize,
        mut call: impl FnMut(&mut Cursor, &mut [u8], &mut [u8]) -> (usize, Option<Error>),
    ) -> Result<Answer, Error> {
        let (options, size) = (map.options(), map.value_size());
        let mut keys = vec![0; count * options.key_size];
        let mut values = vec![0; count * size];
        let mut cursor = Cursor::default();
        entries(options, count, || {
            let (done, error) = call(&mut cursor, &mut keys, &mut values);
            let keys = keys.chunks(options.key_size).map(<[u8]>::to_vec);
            let all = keys.zip(values.chunks(size).map(<[u8]>::to_vec));
            (all.take(done).collect(), error)
        })
    }
}

/// Returns the keys one after the other, and the values.
pub fn joined(entries: &[(Vec<u8>, Vec<u8>)]) -> (Vec<u8>, Vec<u8>) {
    let keys = entries.iter().flat_map(|entry| entry.0.clone());
    let values = entries.iter().flat_map(|entry| entry.1.clone());
    (keys.collect(), values.collect())
}

/// Returns the answer of a batch of `count` elements. A call that is refused as a whole has an error instead.
///
/// # Errors
/// That of a frozen map, and of a kind without the call.
pub fn batch(count: usize, result: Result<(), (usize, Error)>) -> Result<Answer, Error> {
    match result {
        Ok(()) => Ok(Answer::Batch(count, None)),
        Err((_, error @ (Error::Perm | Error::NotSupp))) => Err(error),
        Err((done, error)) => Ok(Answer::Batch(done, Some(error))),
    }
}

/// Collects the entries that `next` gives, `count` or more at once, until it says that there are no others.
///
/// # Errors
/// The error of `next` unless it is that of the end.
pub fn entries(
    options: &MapOptions,
    count: usize,
    mut next: impl FnMut() -> (Vec<(Vec<u8>, Vec<u8>)>, Option<Error>),
) -> Result<Answer, Error> {
    let mut all = Vec::new();
    // An iteration that does not end shows as too many entries.
    while all.len() <= 2 * options.max_entries as usize {
        let (found, error) = next();
        all.extend(found.into_iter().map(|(key, value)| match options.kind {
            Kind::LpmTrie => (prefix(&key, length(&key)), value),
            _ => (key, value),
        }));
        match error {
            // A batch of no elements does nothing.
            None if count == 0 => break,
            None => {}
            Some(Error::NoEnt) => break,
            Some(error) => return Err(error),
        }
    }
    all.sort_unstable();
    Ok(Answer::Entries(all))
}

/// Collects the keys that `next_key` gives one after the other.
///
/// # Errors
/// The error of `next_key` unless it is that of the end.
pub fn keys(
    options: &MapOptions,
    next_key: impl Fn(Option<&[u8]>, &mut [u8]) -> Result<(), Error>,
) -> Result<Vec<Vec<u8>>, Error> {
    let mut keys = Vec::new();
    let mut last: Option<Vec<u8>> = None;
    // An iteration that does not end shows as too many keys.
    while keys.len() <= 2 * options.max_entries as usize {
        let mut key = vec![0; options.key_size];
        match next_key(last.as_deref(), &mut key) {
            Ok(()) if options.kind == Kind::LpmTrie => keys.push(prefix(&key, length(&key))),
            Ok(()) => keys.push(key.clone()),
            Err(Error::NoEnt) => break,
            Err(error) => return Err(error),
        }
        last = Some(key);
    }
    keys.sort_unstable();
    Ok(keys)
}

/// A map of any kind as an ordered map.
#[derive(Clone, Debug)]
pub struct Model {
    options: MapOptions,
    entries: BTreeMap<Vec<u8>, Vec<u8>>,
    /// The keys of a map with exact LRU, the one that was used last at the end.
    order: Vec<Vec<u8>>,
    frozen: bool,
    /// Insertions; a map that evicts has lost nothing while they are few.
    inserted: usize,
}

impl Model {
    /// Creates the model of a map with these options, whose values have `value_size` bytes.
    pub fn new(options: MapOptions, value_size: usize) -> Self {
        let mut entries = BTreeMap::new();
        if matches!(options.kind, Kind::Array | Kind::PercpuArray) {
            for index in 0..options.max_entries {
                entries.insert(index.to_ne_bytes().to_vec(), vec![0; value_size]);
            }
        }
        Self {
            options,
            entries,
            order: Vec::new(),
            frozen: false,
            inserted: 0,
        }
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn is_array(&self) -> bool {
        matches!(self.options.kind, Kind::Array | Kind::PercpuArray)
    }

    fn evicts(&self) -> bool {
        matches!(self.options.kind, Kind::LruHash | Kind::LruPercpuHash)
    }

    fn is_exact(&self) -> bool {
        self.evicts() && self.options.lru.policy == Policy::Exact
    }

    /// Notes a use of a key or its end.
    fn used(&mut self, key: &[u8], there: bool) {
        self.order.retain(|other| other != key);
        if there {
            self.order.push(key.to_vec());
        }
    }

    /// Makes a call. A map that evicts keeps everything here unless it has exact LRU; see
    /// [`Model::judge`].
    ///
    /// # Errors
    /// Those of the call.
    pub fn run(&mut self, operation: &Operation) -> Result<Answer, Error> {
        let trie = self.options.kind == Kind::LpmTrie;
        let bits = 8 * self.options.key_size.saturating_sub(LEN);
        match operation {
            Operation::LookUp(key) if trie => {
                let longest = length(key);
                let found = (longest <= bits)
                    .then(|| (0..=longest).rev())
                    .and_then(|mut all| all.find_map(|bits| self.entries.get(&prefix(key, bits))));
                found.cloned().map(Answer::Value).ok_or(Error::NoEnt)
            }
            Operation::LookUp(key) => {
                let found = self.entries.get(key);
                found.cloned().map(Answer::Value).ok_or(Error::NoEnt)
            }
            Operation::Keys => Ok(Answer::Keys(self.entries.keys().cloned().collect())),
            Operation::Entries(0) => Ok(Answer::Entries(Vec::new())),
            Operation::Entries(_) => {
                let all = self.entries.clone().into_iter().collect();
                Ok(Answer::Entries(all))
            }
            _ if self.frozen => Err(Error::Perm),
            Operation::Drain(_) if trie || self.is_array() => Err(Error::NotSupp),
            Operation::DeleteBatch(_) if self.is_array() => Err(Error::NotSupp),
            Operation::Drain(0) => Ok(Answer::Entries(Vec::new())),
            Operation::Drain(_) => {
                self.order.clear();
                let all = core::mem::take(&mut self.entries).into_iter().collect();
                Ok(Answer::Entries(all))
            }
            Operation::UpdateBatch(entries) => {
                let one = |(key, value): &(Vec<u8>, Vec<u8>)| {
                    Operation::Update(key.clone(), value.clone(), 0)
                };
                self.run_each(entries.iter().map(one))
            }
            Operation::DeleteBatch(keys) => {
                self.run_each(keys.iter().cloned().map(Operation::Delete))
            }
            Operation::Freeze => {
                self.frozen = true;
                Ok(Answer::Done)
            }
            Operation::Update(key, value, flags) => {
                let mode = Update::from_flags(*flags)?;
                if trie && length(key) > bits {
                    return Err(Error::Inval);
                }
                let key = if trie {
                    prefix(key, length(key))
                } else {
                    key.clone()
                };
                let there = self.entries.contains_key(&key);
                match mode {
                    _ if self.is_array() && !there => return Err(Error::TooBig),
                    Update::NoExist if there => return Err(Error::Exist),
                    Update::Exist if !there => return Err(Error::NoEnt),
                    _ => {}
                }
                let full = self.entries.len() >= self.options.max_entries as usize;
                if !there && full && !self.evicts() {
                    return Err(if trie { Error::NoSpc } else { Error::TooBig });
                }
                self.inserted += usize::from(!there);
                if self.is_exact() {
                    if !there && full {
                        let oldest = self.order.remove(0);
                        self.entries.remove(&oldest);
                    }
                    self.used(&key, true);
                }
                self.entries.insert(key, value.clone());
                Ok(Answer::Done)
            }
            Operation::Take(_) if trie || self.is_array() => Err(Error::NotSupp),
            Operation::Delete(_) if self.is_array() => Err(Error::Inval),
            Operation::Delete(key) if trie => {
                if length(key) > bits {
                    return Err(Error::Inval);
                }
                let removed = self.entries.remove(&prefix(key, length(key)));
                removed.map(|_| Answer::Done).ok_or(Error::NoEnt)
            }
            Operation::Delete(key) => {
                self.used(key, false);
                let removed = self.entries.remove(key);
                removed.map(|_| Answer::Done).ok_or(Error::NoEnt)
            }
            Operation::Take(key) => {
                self.used(key, false);
                let removed = self.entries.remove(key);
                removed.map(Answer::Value).ok_or(Error::NoEnt)
            }
        }
    }

    /// Makes the calls of a batch, until one fails.
    fn run_each(&mut self, calls: impl Iterator<Item = Operation>) -> Result<Answer, Error> {
        let mut done = 0;
        for call in calls {
            if let Err(error) = self.run(&call) {
                return Ok(Answer::Batch(done, Some(error)));
            }
            done += 1;
        }
        Ok(Answer::Batch(done, None))
    }

    /// Judges the result of a call that a map gave. A map that evicts may have lost entries once more
    /// were inserted than it, or one of its CPUs, can hold; the model then forgets them.
    ///
    /// # Errors
    /// A description of the difference.
    pub fn judge(
        &mut self,
        operation: &Operation,
        result: &Result<Answer, Error>,
    ) -> Result<(), String> {
        let cpus = match self.options.lru.spread {
            Spread::PerCpu => self.options.lru.cpus.unwrap_or(1).max(1),
            _ => 1,
        };
        let loses = self.evicts() && !self.is_exact();
        if loses && self.inserted >= (self.options.max_entries as usize / cpus).max(1) {
            self.forget(operation, result)?;
        }
        let scarce = loses && self.options.lru.spread != Spread::Common;
        if let (Operation::UpdateBatch(entries), Ok(Answer::Batch(done, Some(Error::NoMem)))) =
            (operation, result)
            && scarce
            && let Some((next, done)) = entries.get(..=*done).and_then(<[_]>::split_last)
        {
            // The nodes were in the hands of other CPUs.
            let first = Operation::UpdateBatch(done.to_vec());
            self.run(&first)
                .map_err(|error| format!("{first:?}: {error}"))?;
            self.entries.remove(&next.0);
            return Ok(());
        }
        let expected = self.run(operation);
        match (operation, result) {
            _ if expected == *result => Ok(()),
            // The nodes were in the hands of other CPUs.
            (Operation::Update(key, ..), Err(Error::NoMem)) if scarce => {
                self.entries.remove(key);
                Ok(())
            }
            _ => Err(format!("{operation:?}: {result:?} instead of {expected:?}")),
        }
    }

    /// Removes entries whose loss a result shows.
    fn forget(
        &mut self,
        operation: &Operation,
        result: &Result<Answer, Error>,
    ) -> Result<(), String> {
        match (operation, result) {
            (
                Operation::LookUp(key)
                | Operation::Delete(key)
                | Operation::Take(key)
                | Operation::Update(key, _, 2),
                Err(Error::NoEnt),
            )
            | (Operation::Update(key, _, 1), Ok(_)) => {
                self.entries.remove(key);
            }
            (Operation::Keys, Ok(Answer::Keys(keys))) => {
                self.entries
                    .retain(|key, _| keys.binary_search(key).is_ok());
                if keys.len() > self.options.max_entries as usize {
                    return Err(format!("{} entries are more than allowed", keys.len()));
                }
            }
            (Operation::Entries(1..) | Operation::Drain(1..), Ok(Answer::Entries(entries))) => {
                let there = |wanted: &Vec<u8>| entries.iter().any(|entry| entry.0 == *wanted);
                self.entries.retain(|wanted, _| there(wanted));
            }
            (Operation::DeleteBatch(keys), Ok(Answer::Batch(done, Some(Error::NoEnt)))) => {
                if let Some((missing, before)) = keys.get(..=*done).and_then(<[_]>::split_last)
                    && !before.contains(missing)
                {
                    self.entries.remove(missing);
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// Makes a map and calls from bytes and compares each result with a model's. The first five bytes are
/// the kind, the sizes, the number of entries and the policy; the calls are drawn from the others.
///
/// # Errors
/// A description of the difference.
pub fn check(bytes: &[u8]) -> Result<(), String> {
    let Some((&[kind, key_size, value_size, entries, policy], calls)) = bytes.split_first_chunk()
    else {
        return Ok(());
    };
    let options = MapOptions {
        kind: Kind::ALL[usize::from(kind) % Kind::ALL.len()],
        key_size: usize::from(key_size % 12),
        value_size: usize::from(value_size % 20),
        max_entries: u32::from(entries % 40),
        lru: LruOptions {
            policy: [Policy::Clock, Policy::S3Fifo, Policy::Exact][usize::from(policy % 3)],
            spread: [Spread::Common, Spread::PerCpu, Spread::Borrow][usize::from(policy / 3 % 3)],
            cpus: Some(2),
            ..LruOptions::default()
        },
    };
    let Ok(map) = Map::new(options) else {
        return Ok(());
    };
    let (key, mut value) = (vec![0; options.key_size + 1], vec![0; map.value_size() + 1]);
    let refused = [
        map.look_up(&key, &mut value[1..]),
        map.look_up(&key[1..], &mut value),
        map.update(&key, &value, Update::Any),
    ];
    if refused != [Err(Error::Inval); 3] {
        return Err(format!("{options:?}: wrong lengths: {refused:?}"));
    }
    let mut model = Model::new(options, map.value_size());
    let mut calls = calls.iter().copied();
    loop {
        let operation = Operation::draw(&options, map.value_size(), &mut calls);
        let last = operation.is_none();
        let operation = operation.unwrap_or(Operation::Keys);
        let result = operation.run(&map);
        model
            .judge(&operation, &result)
            .map_err(|difference| format!("{options:?}: {difference}"))?;
        if last {
            return Ok(());
        }
    }
}
