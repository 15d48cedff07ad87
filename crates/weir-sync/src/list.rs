// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A lockless list: many producers push, and a consumer takes everything at once, in order.
//!
//! This is Linux's `llist` as the transmit path uses it in front of a qdisc's lock: the producer
//! that finds the list empty becomes the consumer, takes the lock, and then takes everything that
//! has been pushed meanwhile. All other producers push and return. So a contended lock is taken
//! once for many packets, and producers do not wait.
//!
//! ```
//! # use weir_sync::{list::{Entry, LocklessList}, spin::SpinLock};
//! let (list, qdisc) = (LocklessList::new(), SpinLock::new(Vec::new()));
//! if list.push(Entry::new("packet")) {
//!     let mut queue = qdisc.lock();
//!     queue.extend(list.take_all().map(Entry::into_inner));
//! }
//! assert_eq!(*qdisc.lock(), ["packet"]);
//! ```
//!
//! The list is intrusive: elements contain their link ([`Linked`]), so it allocates nothing.
//! [`Entry`] is a boxed element for values without a link. A producer exchanges the head, in one
//! atomic instruction for one element or for a whole batch. The consumer takes the head and
//! reverses the chain. Elements are never popped one by one, so there is no ABA problem and no need
//! for reclamation.
//!
//! Any thread may push or take at any time. Ordering: a take acquires what the pushes released.
//! Elements come out in the order in which they were pushed; those of a batch stay together.
#![allow(unsafe_code)] // an intrusive list of raw nodes

use crate::primitive::atomic::{AtomicPtr, Ordering};
use core::fmt;
use core::iter::empty;
use core::marker::PhantomData;
use core::ptr::{NonNull, null_mut};

/// The link in an element. Only the list accesses it, and only while the element is in a list.
pub struct Link<N>(AtomicPtr<N>);

impl<N> Link<N> {
    /// Creates a link for an element that is in no list.
    pub fn new() -> Self {
        Self(AtomicPtr::new(null_mut()))
    }
}

impl<N> Default for Link<N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<N> fmt::Debug for Link<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Link")
    }
}

/// An owning handle of an object that contains a [`Link`].
///
/// # Safety
/// `into_node` gives up ownership of a node, which stays valid, unaliased and in place until
/// `from_node` takes it back. `link` returns the same link for a node every time, and a different
/// one for each node.
pub unsafe trait Linked: Sized {
    /// The object in the list.
    type Node;

    /// Gives up ownership of the object.
    fn into_node(self) -> NonNull<Self::Node>;

    /// Takes back ownership of the object.
    ///
    /// # Safety
    /// `node` came from `into_node`, and this is called once for it.
    unsafe fn from_node(node: NonNull<Self::Node>) -> Self;

    /// Returns the link of an object.
    ///
    /// # Safety
    /// `node` came from `into_node` and has not been taken back.
    unsafe fn link<'a>(node: NonNull<Self::Node>) -> &'a Link<Self::Node>;

    /// Records the addresses of other nodes of a batch in the node that the consumer reaches first,
    /// in the order in which the consumer reaches them. The consumer can then prefetch them all at
    /// once; the chain itself reveals only the next node. Called for every node of a batch, for
    /// most of them with an empty list. Does nothing by default.
    ///
    /// # Safety
    /// As for `link`; also, no other thread has access to the node yet.
    #[inline]
    unsafe fn note(node: NonNull<Self::Node>, others: impl Iterator<Item = NonNull<Self::Node>>) {
        let _ = (node, others);
    }

    /// Prefetches a node and the addresses recorded in it.
    ///
    /// # Safety
    /// As for `link`.
    #[inline]
    unsafe fn prefetch(node: NonNull<Self::Node>) {
        let _ = node;
    }

    /// Prefetches the nodes whose addresses a node has recorded.
    ///
    /// # Safety
    /// As for `link`.
    #[inline]
    unsafe fn prefetch_noted(node: NonNull<Self::Node>) {
        let _ = node;
    }
}

/// The maximum number of other nodes recorded in a node.
pub const NOTED: usize = 31;

/// A lockless list. See the module documentation.
pub struct LocklessList<L: Linked> {
    /// The newest element. Each element links to the one pushed before it.
    head: AtomicPtr<L::Node>,
    owns: PhantomData<L>,
}

// SAFETY: the list only moves elements from thread to thread.
unsafe impl<L: Linked + Send> Sync for LocklessList<L> {}
// SAFETY: the list owns its elements.
unsafe impl<L: Linked + Send> Send for LocklessList<L> {}

fn set_next<L: Linked>(node: NonNull<L::Node>, next: *mut L::Node) {
    // SAFETY: called only for nodes between `into_node` and `from_node`.
    unsafe { L::link(node) }.0.store(next, Ordering::Relaxed);
}

fn next<L: Linked>(node: NonNull<L::Node>) -> *mut L::Node {
    // SAFETY: as in `set_next`.
    unsafe { L::link(node) }.0.load(Ordering::Relaxed)
}

impl<L: Linked> LocklessList<L> {
    /// Creates an empty list.
    pub fn new() -> Self {
        Self {
            head: AtomicPtr::new(null_mut()),
            owns: PhantomData,
        }
    }

    /// Pushes one element. Returns true if the list was empty: the caller must then see to it that
    /// the list is drained.
    pub fn push(&self, element: L) -> bool {
        let node = element.into_node();
        // SAFETY: the node was given up just now.
        unsafe { L::note(node, empty()) };
        self.splice(node, node)
    }

    /// Pushes all elements, in order and together, with one atomic instruction. Returns true if
    /// there were any and the list was empty.
    pub fn push_all(&self, elements: impl IntoIterator<Item = L>) -> bool {
        let mut nodes = elements.into_iter().map(L::into_node);
        let Some(oldest) = nodes.next() else {
            return false;
        };
        let (mut newest, mut count) = (oldest, 1);
        let mut recent = [oldest; NOTED + 1];
        for node in nodes {
            // SAFETY: the nodes were given up just now, and only this call has access to them.
            unsafe { L::note(newest, empty()) };
            set_next::<L>(node, newest.as_ptr());
            recent[count % recent.len()] = node;
            (newest, count) = (node, count + 1);
        }
        // The consumer walks the chain from the newest element.
        let first = count.saturating_sub(recent.len());
        let others = (first..count - 1).rev().map(|at| recent[at % recent.len()]);
        // SAFETY: as above.
        unsafe { L::note(newest, others) };
        self.splice(newest, oldest)
    }

    fn splice(&self, newest: NonNull<L::Node>, oldest: NonNull<L::Node>) -> bool {
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            set_next::<L>(oldest, head);
            let newest = newest.as_ptr();
            match self.head.compare_exchange_weak(
                head,
                newest,
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => return head.is_null(),
                Err(now) => head = now,
            }
        }
    }

    /// Returns true if the list is empty. Another thread may push at any time.
    pub fn is_empty(&self) -> bool {
        self.head.load(Ordering::Relaxed).is_null()
    }

    /// Takes all elements, oldest first. The list is then empty, and the next `push` returns true.
    pub fn take_all(&self) -> Taken<L> {
        if self.is_empty() {
            return Taken::default();
        }
        let newest = NonNull::new(self.head.swap(null_mut(), Ordering::Acquire));
        if let Some(newest) = newest {
            // SAFETY: as below.
            unsafe { L::prefetch(newest) };
        }
        let (mut node, mut oldest, mut len) = (newest, None, 0);
        while let Some(this) = node {
            len += 1;
            // SAFETY: this call owns the chain, and no node of it has been taken back yet.
            unsafe { L::prefetch_noted(this) };
            node = NonNull::new(next::<L>(this));
            set_next::<L>(this, oldest.map_or(null_mut(), NonNull::as_ptr));
            oldest = Some(this);
        }
        Taken {
            oldest,
            newest,
            len,
            owns: PhantomData,
        }
    }
}

impl<L: Linked> Default for LocklessList<L> {
    fn default() -> Self {
        Self::new()
    }
}

impl<L: Linked> Drop for LocklessList<L> {
    fn drop(&mut self) {
        drop(self.take_all());
    }
}

impl<L: Linked> fmt::Debug for LocklessList<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocklessList")
            .field("empty", &self.is_empty())
            .finish()
    }
}

/// The elements taken from a list, oldest first. Dropping it drops the elements that are left.
pub struct Taken<L: Linked> {
    oldest: Option<NonNull<L::Node>>,
    /// The newest element, while there are any.
    newest: Option<NonNull<L::Node>>,
    len: u32,
    owns: PhantomData<L>,
}

// SAFETY: it owns its elements.
unsafe impl<L: Linked + Send> Send for Taken<L> {}

impl<L: Linked> Taken<L> {
    /// Returns the number of elements left.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Returns true if no element is left.
    pub fn is_empty(&self) -> bool {
        self.oldest.is_none()
    }

    /// Appends the elements of `others`.
    #[inline]
    pub fn append(&mut self, mut others: Self) {
        let Some(first) = others.oldest.take() else {
            return;
        };
        match self.newest.filter(|_| self.oldest.is_some()) {
            Some(newest) => set_next::<L>(newest, first.as_ptr()),
            None => self.oldest = Some(first),
        }
        self.newest = others.newest;
        self.len += others.len;
    }
}

/// Chains elements that have been in no list, in order.
impl<L: Linked> FromIterator<L> for Taken<L> {
    #[inline]
    fn from_iter<I: IntoIterator<Item = L>>(elements: I) -> Self {
        let mut all = Self::default();
        for node in elements.into_iter().map(L::into_node) {
            match all.newest {
                Some(newest) => set_next::<L>(newest, node.as_ptr()),
                None => all.oldest = Some(node),
            }
            all.newest = Some(node);
            all.len += 1;
        }
        if let Some(newest) = all.newest {
            set_next::<L>(newest, null_mut());
        }
        all
    }
}

impl<L: Linked> Default for Taken<L> {
    fn default() -> Self {
        Self {
            oldest: None,
            newest: None,
            len: 0,
            owns: PhantomData,
        }
    }
}

impl<L: Linked> Iterator for Taken<L> {
    type Item = L;

    fn next(&mut self) -> Option<L> {
        let node = self.oldest?;
        self.oldest = NonNull::new(next::<L>(node));
        self.len -= 1;
        // SAFETY: it came from `into_node` and is no longer in the chain.
        Some(unsafe { L::from_node(node) })
    }
}

impl<L: Linked> Drop for Taken<L> {
    fn drop(&mut self) {
        self.for_each(drop);
    }
}

impl<L: Linked> fmt::Debug for Taken<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Taken")
            .field("empty", &self.oldest.is_none())
            .finish()
    }
}

/// A boxed element, for values without a link of their own.
#[derive(Debug)]
pub struct Entry<T>(Box<Linkage<T>>);

/// A value with a link.
#[derive(Debug)]
pub struct Linkage<T> {
    link: Link<Linkage<T>>,
    value: T,
}

impl<T> Entry<T> {
    /// Boxes `value`.
    pub fn new(value: T) -> Self {
        Self(Box::new(Linkage {
            link: Link::new(),
            value,
        }))
    }

    /// Returns the value.
    pub fn into_inner(self) -> T {
        self.0.value
    }
}

impl<T> core::ops::Deref for Entry<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0.value
    }
}

impl<T> core::ops::DerefMut for Entry<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0.value
    }
}

// SAFETY: the node is the box's content, given up by `into_raw` and taken back by `from_raw`.
unsafe impl<T> Linked for Entry<T> {
    type Node = Linkage<T>;

    fn into_node(self) -> NonNull<Linkage<T>> {
        // SAFETY: a box is not null.
        unsafe { NonNull::new_unchecked(Box::into_raw(self.0)) }
    }

    unsafe fn from_node(node: NonNull<Linkage<T>>) -> Self {
        // SAFETY: by contract.
        Self(unsafe { Box::from_raw(node.as_ptr()) })
    }

    unsafe fn link<'a>(node: NonNull<Linkage<T>>) -> &'a Link<Linkage<T>> {
        // SAFETY: the node is valid by contract, and the caller uses the link only as long as it
        // is.
        unsafe { &(*node.as_ptr()).link }
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    use super::*;
    use crate::models::{Tracked, check};
    use crate::primitive::Arc;

    fn drain(list: &LocklessList<Entry<Tracked>>) -> Vec<usize> {
        list.take_all()
            .map(|entry| entry.into_inner().read())
            .collect()
    }

    #[test]
    fn the_pusher_to_an_empty_list_drains_it() {
        check(3, || {
            let list = Arc::new(LocklessList::new());
            let produce = |list: &LocklessList<Entry<Tracked>>, base: usize| {
                let batch = [base, base + 1].map(|value| Entry::new(Tracked::new(value)));
                if list.push_all(batch) {
                    drain(list)
                } else {
                    Vec::new()
                }
            };
            let other = {
                let list = list.clone();
                loom::thread::spawn(move || produce(&list, 1))
            };
            let mine = produce(&list, 11);
            let other = other.join().unwrap();
            assert!(list.is_empty());
            let seen = match (&mine[..], &other[..]) {
                ([], all) | (all, []) => all.to_vec(),
                (mine, other) => [mine, other].concat(),
            };
            assert!([[1, 2, 11, 12], [11, 12, 1, 2]].contains(&seen[..].try_into().unwrap()));
        });
    }

    #[test]
    fn dropping_a_list_drops_its_elements() {
        check(2, || {
            let list = Arc::new(LocklessList::new());
            let other = {
                let list = list.clone();
                loom::thread::spawn(move || list.push(Entry::new(Tracked::new(1))))
            };
            let first = list.push(Entry::new(Tracked::new(2)));
            assert!(first != other.join().unwrap());
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
