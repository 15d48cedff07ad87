// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A list that many producers add to and a consumer takes as a whole, in order. No locks.
//!
//! Linux's `llist`, as its transmit path uses it in front of a qdisc's lock: who finds the list empty
//! becomes the consumer, takes the lock, then takes all that has come meanwhile; everybody else adds
//! and goes. So a contended lock is taken once for many packets, and producers do not wait.
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
//! Elements carry their link themselves ([`Linked`]), so nothing is allocated; [`Entry`] is a boxed
//! element for whatever has no link. A producer exchanges the head, one atomic instruction for one
//! element or a whole batch; the consumer takes the head and reverses the chain. The list is never
//! popped one by one, so there is no ABA problem and no reclamation.
//!
//! Any thread may do either at any time. Ordering: taking acquires what adding released. Elements come
//! out in the order in which they were added; those of a batch stay together.
#![allow(unsafe_code)] // an intrusive list of raw nodes

use crate::primitive::atomic::{AtomicPtr, Ordering};
use core::fmt;
use core::iter::empty;
use core::marker::PhantomData;
use core::ptr::{NonNull, null_mut};

/// The link in an element: only the list touches it, and only while the element is in one.
pub struct Link<N>(AtomicPtr<N>);

impl<N> Link<N> {
    /// A link of an element in no list.
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

/// An owning handle whose object has a [`Link`] in it.
///
/// # Safety
/// `into_node` gives up ownership of a node that stays where it is, valid and unaliased, until
/// `from_node` takes it back; `link` returns the same link for a node every time, and no other node's.
pub unsafe trait Linked: Sized {
    /// The object in the list.
    type Node;

    /// Gives the object up.
    fn into_node(self) -> NonNull<Self::Node>;

    /// Takes the object back.
    ///
    /// # Safety
    /// `node` came from `into_node`, and this is the only call for it.
    unsafe fn from_node(node: NonNull<Self::Node>) -> Self;

    /// The link of an object.
    ///
    /// # Safety
    /// `node` came from `into_node` and has not been taken back.
    unsafe fn link<'a>(node: NonNull<Self::Node>) -> &'a Link<Self::Node>;

    /// Notes with the node that the consumer comes to first where others of its batch lie, in the order in which it
    /// comes to them, so that it can ask for the memory of all at once: a chain tells of the next node only. Called
    /// for every node of a batch, of most with no others. Nothing by default.
    ///
    /// # Safety
    /// As for `link`; and nobody else knows the node yet.
    #[inline]
    unsafe fn note(node: NonNull<Self::Node>, others: impl Iterator<Item = NonNull<Self::Node>>) {
        let _ = (node, others);
    }

    /// Asks for the memory of a node, and for that of its notes.
    ///
    /// # Safety
    /// As for `link`.
    #[inline]
    unsafe fn prefetch(node: NonNull<Self::Node>) {
        let _ = node;
    }

    /// Asks for the memory of the nodes that a node notes.
    ///
    /// # Safety
    /// As for `link`.
    #[inline]
    unsafe fn prefetch_noted(node: NonNull<Self::Node>) {
        let _ = node;
    }
}

/// Others that a node notes at most.
pub const NOTED: usize = 31;

/// See the module.
pub struct LocklessList<L: Linked> {
    /// The newest; each links to the one added before it.
    head: AtomicPtr<L::Node>,
    owns: PhantomData<L>,
}

// SAFETY: elements only move through the list, from thread to thread.
unsafe impl<L: Linked + Send> Sync for LocklessList<L> {}
// SAFETY: it owns its elements.
unsafe impl<L: Linked + Send> Send for LocklessList<L> {}

fn set_next<L: Linked>(node: NonNull<L::Node>, next: *mut L::Node) {
    // SAFETY: called for nodes between `into_node` and `from_node` only.
    unsafe { L::link(node) }.0.store(next, Ordering::Relaxed);
}

fn next<L: Linked>(node: NonNull<L::Node>) -> *mut L::Node {
    // SAFETY: as in `set_next`.
    unsafe { L::link(node) }.0.load(Ordering::Relaxed)
}

impl<L: Linked> LocklessList<L> {
    /// An empty list.
    pub fn new() -> Self {
        Self {
            head: AtomicPtr::new(null_mut()),
            owns: PhantomData,
        }
    }

    /// Adds one. True if the list was empty: then it is on the caller to see that it is taken.
    pub fn push(&self, element: L) -> bool {
        let node = element.into_node();
        // SAFETY: the node has been given up just now.
        unsafe { L::note(node, empty()) };
        self.splice(node, node)
    }

    /// Adds all, in order, with one atomic instruction, so that they stay together. True if there were
    /// any and the list was empty.
    pub fn push_all(&self, elements: impl IntoIterator<Item = L>) -> bool {
        let mut nodes = elements.into_iter().map(L::into_node);
        let Some(oldest) = nodes.next() else {
            return false;
        };
        let (mut newest, mut count) = (oldest, 1);
        let mut recent = [oldest; NOTED + 1];
        for node in nodes {
            // SAFETY: the nodes have been given up just now, and only this call knows them.
            unsafe { L::note(newest, empty()) };
            set_next::<L>(node, newest.as_ptr());
            recent[count % recent.len()] = node;
            (newest, count) = (node, count + 1);
        }
        // The walk begins with the newest.
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

    /// Is it empty? The answer may be old when it arrives.
    pub fn is_empty(&self) -> bool {
        self.head.load(Ordering::Relaxed).is_null()
    }

    /// Takes all, oldest first. From here on the list is empty, and the next producer is told so.
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
            // SAFETY: the chain is this call's, and none of it has been taken back yet.
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

/// What was taken from a list, oldest first. Dropping it drops the rest.
pub struct Taken<L: Linked> {
    oldest: Option<NonNull<L::Node>>,
    /// The last of them, while there are any.
    newest: Option<NonNull<L::Node>>,
    len: u32,
    owns: PhantomData<L>,
}

// SAFETY: it owns its elements.
unsafe impl<L: Linked + Send> Send for Taken<L> {}

impl<L: Linked> Taken<L> {
    /// Elements left.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.oldest.is_none()
    }

    /// Puts others behind these.
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

/// Elements that have been in no list, in order.
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
        // SAFETY: from `into_node`, and out of the chain now.
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

/// A boxed element for values without a link of their own.
#[derive(Debug)]
pub struct Entry<T>(Box<Linkage<T>>);

/// A value with a link.
#[derive(Debug)]
pub struct Linkage<T> {
    link: Link<Linkage<T>>,
    value: T,
}

impl<T> Entry<T> {
    /// Boxes a value.
    pub fn new(value: T) -> Self {
        Self(Box::new(Linkage {
            link: Link::new(),
            value,
        }))
    }

    /// Unboxes it.
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

// SAFETY: the node is the box's contents, given up by `into_raw` and taken back by `from_raw`.
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
        // SAFETY: by contract it is valid; the caller uses the link only while that is so.
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
    fn whoever_is_told_so_drains_all() {
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
    fn a_list_that_is_dropped_drops_its_elements() {
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
