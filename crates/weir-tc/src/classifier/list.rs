// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The filters of an instance in the order in which they are tried and dumped, for kinds with few
//! filters. The data path reads a published list; a change copies it.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use weir_netlink::Error;
use weir_netlink::errno::{EAGAIN, EINVAL, ENOENT, ENOSPC};
use weir_packet::Packet;
use weir_sync::order::{self, Mutex, MutexGuard};
use weir_sync::rcu::{Domain, Guard, Published};

use super::exts::{NewExts, Pending};
use super::{Change, Classifier, Filter};
use crate::context::Context;
use crate::env::Env;
use crate::verdict::{Code, Outcome};

/// The filters with their keys.
type Entries<F> = Vec<(u64, Arc<F>)>;

/// The filters of an instance; see the module's documentation.
pub struct List<F: Filter> {
    /// The filters in the order of their keys.
    entries: Published<Entries<F>>,
    domain: Domain,
    /// Guards changes of the list.
    lock: Mutex<(), order::Classifier>,
    /// The list accepts no more changes. Written under the lock.
    closed: AtomicBool,
    /// The number of numbers returned.
    given: AtomicU64,
}

/// The highest handle assigned automatically (`INT_MAX`).
const HANDLE_MAX: u32 = i32::MAX as u32;

/// Returns the lowest free handle from 1 (`idr_alloc_u32`).
pub fn free_handle<F: Filter>(entries: &[(u64, Arc<F>)]) -> Result<u32, Error> {
    let mut taken: Vec<u32> = entries.iter().map(|(_, f)| f.handle()).collect();
    taken.sort_unstable();
    let first = (1..).zip(taken.iter().chain(&[0]));
    let gap = first.into_iter().find(|&(free, &taken)| free != taken);
    match gap {
        Some((free, _)) if free <= HANDLE_MAX => Ok(free),
        _ => Err(Error::new(ENOSPC)),
    }
}

impl<F: Filter> List<F> {
    /// Creates an empty list.
    pub fn new(domain: &Domain) -> Self {
        Self {
            entries: Published::new(domain, Vec::new()),
            domain: domain.clone(),
            lock: Mutex::default(),
            closed: AtomicBool::new(false),
            given: AtomicU64::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, (), order::Classifier> {
        self.lock.lock()
    }

    /// Returns the filters and their keys, in order.
    #[inline]
    pub fn entries<'g>(&'g self, guard: &'g Guard) -> &'g [(u64, Arc<F>)] {
        self.entries.load(guard)
    }

    /// Returns the filter with a handle.
    pub fn get(&self, handle: u32) -> Option<Arc<F>> {
        let guard = self.domain.pin();
        let mut entries = self.entries(&guard).iter();
        let found = entries.find(|(_, filter)| filter.handle() == handle);
        found.map(|(_, filter)| filter.clone())
    }

    /// Returns a number larger than all earlier ones.
    pub fn number(&self) -> u64 {
        self.given.fetch_add(1, Relaxed)
    }

    /// Inserts the filter that `make` creates from the current entries, under a key or after those
    /// with the same key. With `old`, the new filter replaces it and keeps its key unless `key` is
    /// given. Fails with EAGAIN if `old` is gone, the instance is closed, or the handle is no
    /// longer free.
    pub fn put(
        &self,
        key: Option<u64>,
        old: Option<&Arc<F>>,
        make: impl FnOnce(&[(u64, Arc<F>)]) -> Result<F, Error>,
    ) -> Result<Arc<F>, Error> {
        let again = Err(Error::new(EAGAIN));
        let _lock = self.lock();
        if self.closed.load(Relaxed) {
            return again;
        }
        let guard = self.domain.pin();
        let mut entries = self.entries(&guard).to_vec();
        let place = |old: &Arc<F>| entries.iter().position(|(_, f)| Arc::ptr_eq(f, old));
        let old = match old.map(place) {
            Some(None) => return again,
            old => old.flatten(),
        };
        let filter = make(&entries)?;
        let held = entries.iter().enumerate();
        let mut others = held.filter(|&(at, _)| Some(at) != old);
        if old.is_none() && others.any(|(_, (_, other))| other.handle() == filter.handle()) {
            return again;
        }
        let filter = Arc::new(filter);
        match (old, key) {
            (Some(at), None) => entries[at].1 = filter.clone(),
            (old, key) => {
                if let Some(at) = old {
                    entries.remove(at);
                }
                let mut key = key.unwrap_or_default();
                let mut at = entries.partition_point(|(other, _)| *other < key);
                while entries.get(at).is_some_and(|(other, _)| *other == key) {
                    (key, at) = (key + 1, at + 1);
                }
                entries.insert(at, (key, filter.clone()));
            }
        }
        self.entries.replace(entries);
        Ok(filter)
    }

    /// Removes a filter. Returns whether the list is now empty, and in that case closes it:
    /// concurrent requests start over and create another instance. Fails with ENOENT if the filter
    /// was already removed.
    pub fn remove(&self, filter: &Arc<F>) -> Result<bool, Error> {
        let _lock = self.lock();
        let guard = self.domain.pin();
        let mut entries = self.entries(&guard).to_vec();
        let before = entries.len();
        entries.retain(|(_, other)| !Arc::ptr_eq(other, filter));
        if entries.len() == before {
            return Err(Error::new(ENOENT));
        }
        let empty = entries.is_empty();
        self.closed.fetch_or(empty, Relaxed);
        self.entries.replace(entries);
        Ok(empty)
    }

    /// Does the same as [`put`](Self::put) with the parameters in `parsed`, and handles the
    /// actions. On success they belong to the filter that `make` creates, and those of `old` are
    /// released. On failure they are undone.
    pub fn settle<P>(
        &self,
        change: &Change<'_>,
        old: Option<&Arc<F>>,
        exts: NewExts,
        parsed: Result<(Option<u64>, P), Error>,
        make: impl FnOnce(P, &[(u64, Arc<F>)], &mut Pending) -> Result<F, Error>,
    ) -> Result<Option<Arc<F>>, Error> {
        let mut pending = Pending::new(exts);
        let put = parsed.and_then(|(key, parsed)| {
            self.put(key, old, |entries| make(parsed, entries, &mut pending))
        });
        let replaced = old.filter(|_| put.is_ok());
        pending.settle(replaced.map(|old| &**old as _), change.env);
        put.map(Some)
    }

    /// Returns the first filter under a key or after it, for [`Classifier::next`].
    pub fn next(&self, from: u64) -> Option<(u64, Arc<dyn Filter>)> {
        let guard = self.domain.pin();
        let entries = self.entries(&guard);
        let at = entries.partition_point(|(key, _)| *key < from);
        let (key, filter) = entries.get(at)?;
        Some((*key, filter.clone()))
    }

    /// Closes the list and releases the actions of the filters.
    pub fn destroy(&self, env: &Env<'_>) {
        let entries = {
            let _lock = self.lock();
            self.closed.store(true, Relaxed);
            let entries = self.entries(env.guard).to_vec();
            self.entries.replace(Vec::new());
            entries
        };
        for (_, filter) in entries {
            filter.exts().release(env);
        }
    }
}

/// The part of a [`Classifier`] that is specific to a kind whose instances are a [`List`] of
/// filters.
pub trait Listed: Any + Send + Sync {
    /// The kind's filter type.
    type Filter: Filter;

    /// Returns the filters.
    fn list(&self) -> &List<Self::Filter>;

    /// See [`Classifier::classify`].
    fn classify<'g>(
        &'g self,
        cx: &mut Context<'_, 'g>,
        packet: &mut Packet,
        out: &mut Outcome<'g>,
    ) -> Code;

    /// Returns whether a filter may have that handle.
    fn may_have(&self, _handle: u32) -> bool {
        true
    }

    /// See [`Classifier::change`].
    fn change(
        &self,
        change: &Change<'_>,
        old: Option<Arc<Self::Filter>>,
    ) -> Result<Option<Arc<Self::Filter>>, Error>;
}

impl<K: Listed> Classifier for K {
    #[inline]
    fn classify<'g>(
        &'g self,
        cx: &mut Context<'_, 'g>,
        packet: &mut Packet,
        out: &mut Outcome<'g>,
    ) -> Code {
        Listed::classify(self, cx, packet, out)
    }

    fn get(&self, handle: u32) -> Option<Arc<dyn Filter>> {
        let found = self.list().get(handle).filter(|_| self.may_have(handle))?;
        Some(found)
    }

    fn change(
        &self,
        change: &Change<'_>,
        old: Option<&Arc<dyn Filter>>,
    ) -> Result<Option<Arc<dyn Filter>>, Error> {
        let old = old.map(own).transpose()?;
        let changed = Listed::change(self, change, old)?;
        Ok(changed.map(|filter| filter as _))
    }

    fn delete(&self, filter: &Arc<dyn Filter>, env: &Env<'_>) -> Result<bool, Error> {
        let last = self.list().remove(&own(filter)?)?;
        filter.exts().release(env);
        Ok(last)
    }

    fn next(&self, from: u64) -> Option<(u64, Arc<dyn Filter>)> {
        self.list().next(from)
    }

    fn destroy(&self, env: &Env<'_>) {
        self.list().destroy(env);
    }
}

/// Downcasts a filter to the type of its kind.
fn own<F: Filter>(filter: &Arc<dyn Filter>) -> Result<Arc<F>, Error> {
    let any: Arc<dyn Any + Send + Sync> = filter.clone();
    any.downcast().map_err(|_| Error::new(EINVAL))
}
