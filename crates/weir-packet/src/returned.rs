// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `Returned`: the lock-free stack of freed nodes, and the count that ends a pool.
//!
//! While the pool has handles, nodes in use are not counted. Freeing a node is one compare-and-swap
//! ([`Returned::push`]), and the pool takes the whole stack at once ([`Returned::take`]), so no
//! node is ever popped and pushed again under a reader (no ABA). The last handle closes the stack
//! ([`Returned::close`]): its head becomes the mark `CLOSED`, and from then on each freed node is
//! subtracted from `live` instead. The closer counts the free nodes and reports how many are still
//! in use ([`Returned::settle`]). `live` starts at a bias far from zero, so that nodes freed
//! between `close` and `settle` are counted correctly. Exactly one caller brings it to zero, and
//! frees the pool.
//!
//! Once `push` has returned false, the pool may be gone. The caller must not access it, and `push`
//! itself does not do so after its last atomic operation.
#![allow(unsafe_code)] // links are written through raw pointers

use std::ptr::NonNull;
use weir_sync::primitive::atomic::{AtomicI64, AtomicPtr, Ordering};
use weir_sync::primitive::prefetch_to_write;

/// The distance, in nodes, to the node whose address a node records. This is the number of cache
/// lines of another processor that are prefetched at once.
const AHEAD: usize = 8;

const BIAS: i64 = 1 << 60;

/// The first words of a free node.
#[repr(C)]
pub struct Link {
    next: *mut Link,
    /// A node further down the chain, or the node itself.
    ahead: *mut Link,
}

/// Returns the mark of a closed stack, which is never the address of a node.
fn closed() -> *mut Link {
    std::ptr::without_provenance_mut(1)
}

/// The lock-free stack of freed nodes. See the module documentation. Both fields are atomic.
pub struct Returned {
    head: AtomicPtr<Link>,
    live: AtomicI64,
}

impl Returned {
    pub fn new() -> Returned {
        Returned {
            head: AtomicPtr::new(std::ptr::null_mut()),
            live: AtomicI64::new(BIAS),
        }
    }

    /// Returns true if no node was freed since the last `take`. False once the stack is closed.
    pub fn is_empty(&self) -> bool {
        self.head.load(Ordering::Relaxed).is_null()
    }

    /// Frees the chain from `first` to `last`. Returns true if these were the last nodes of a
    /// closed pool, which the caller must then free. If it returns false, the caller must not
    /// access the pool any more.
    ///
    /// # Safety
    /// The caller owns the nodes, linked from `first` to `last`, and does not use them again.
    #[inline]
    #[must_use]
    pub unsafe fn push(&self, first: NonNull<Link>, last: NonNull<Link>) -> bool {
        let mut head = self.head.load(Ordering::Relaxed);
        while head != closed() {
            // SAFETY: the caller owns the node until the exchange succeeds.
            unsafe { (*last.as_ptr()).next = head };
            match self.head.compare_exchange_weak(
                head,
                first.as_ptr(),
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => return false,
                Err(now) => head = now,
            }
        }
        let mut n = 1;
        let mut at = first;
        while at != last {
            // SAFETY: the chain is linked and the caller owns it.
            match unsafe { next(at) } {
                Some(next) => at = next,
                None => break,
            }
            n += 1;
        }
        self.live.fetch_sub(n, Ordering::AcqRel) == n
    }

    /// Takes all freed nodes as a chain. Must not be called after `close`.
    pub fn take(&self) -> Option<NonNull<Link>> {
        NonNull::new(self.head.swap(std::ptr::null_mut(), Ordering::Acquire))
    }

    /// Closes the stack and takes the nodes on it. Must be called once.
    pub fn close(&self) -> Option<NonNull<Link>> {
        NonNull::new(self.head.swap(closed(), Ordering::AcqRel))
    }

    /// Reports that `live` nodes were in use when the stack was closed. Returns true if all have
    /// been freed since; the caller must then free the pool. If it returns false, the caller must
    /// not access the pool any more.
    #[must_use]
    pub fn settle(&self, live: usize) -> bool {
        let add = live as i64 - BIAS;
        self.live.fetch_add(add, Ordering::AcqRel) + add == 0
    }
}

/// A chain under construction, newest node first.
pub struct Chain {
    newest: NonNull<Link>,
    oldest: NonNull<Link>,
    recent: [NonNull<Link>; AHEAD],
    len: usize,
}

impl Chain {
    /// Creates a chain of one node.
    ///
    /// # Safety
    /// The caller owns the node.
    #[inline]
    pub unsafe fn new(node: NonNull<Link>) -> Chain {
        let ahead = node.as_ptr();
        // SAFETY: the caller owns the node.
        unsafe {
            node.write(Link {
                next: std::ptr::null_mut(),
                ahead,
            });
        }
        Chain {
            newest: node,
            oldest: node,
            recent: [node; AHEAD],
            len: 1,
        }
    }

    /// Prepends `node`.
    ///
    /// # Safety
    /// The caller owns the node.
    #[inline]
    pub unsafe fn push(&mut self, node: NonNull<Link>) {
        let recent = &mut self.recent[self.len % AHEAD];
        let link = Link {
            next: self.newest.as_ptr(),
            ahead: recent.as_ptr(),
        };
        // SAFETY: the caller owns the node.
        unsafe { node.write(link) };
        (*recent, self.newest) = (node, node);
        self.len += 1;
    }

    /// Returns the newest and the oldest node.
    pub fn ends(&self) -> (NonNull<Link>, NonNull<Link>) {
        (self.newest, self.oldest)
    }
}

/// Returns the node after `node` in a chain.
///
/// # Safety
/// The caller owns the chain.
#[inline]
pub unsafe fn next(node: NonNull<Link>) -> Option<NonNull<Link>> {
    // SAFETY: the caller owns the node, which is linked.
    let link = unsafe { node.as_ref() };
    prefetch_to_write(link.ahead);
    NonNull::new(link.next)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node() -> NonNull<Link> {
        let link = Link {
            next: std::ptr::null_mut(),
            ahead: std::ptr::null_mut(),
        };
        NonNull::from(Box::leak(Box::new(link)))
    }

    /// Frees a chain and returns its length.
    fn free(mut chain: Option<NonNull<Link>>) -> usize {
        let mut n = 0;
        while let Some(at) = chain {
            // SAFETY: the test owns the chain of leaked boxes.
            unsafe {
                chain = next(at);
                drop(Box::from_raw(at.as_ptr()));
            }
            n += 1;
        }
        n
    }

    #[cfg(not(loom))]
    #[test]
    fn chains_come_back_in_order() {
        let stack = Returned::new();
        let (a, b, c) = (node(), node(), node());
        // SAFETY: the test owns the nodes.
        unsafe {
            let mut chain = Chain::new(b);
            chain.push(a);
            assert_eq!(chain.ends(), (a, b));
            assert!(!stack.push(a, b));
            assert!(!stack.push(c, c));
        }
        assert!(!stack.is_empty());
        assert_eq!(free(stack.take()), 3);
        assert!(stack.is_empty() && stack.close().is_none());
        assert!(stack.settle(0));
    }

    /// Two threads free one node each while the last handle closes. All nodes are counted, and
    /// exactly one of the three is told to free the pool.
    #[cfg(loom)]
    #[test]
    fn exactly_one_frees() {
        use weir_sync::primitive::{Arc, thread};
        loom::model(|| {
            let stack = Arc::new(Returned::new());
            let give = || {
                let stack = stack.clone();
                thread::spawn(move || {
                    let n = node();
                    // SAFETY: this thread owns the node; a closed stack leaves it with its owner.
                    let last = unsafe { stack.push(n, n) };
                    last
                })
            };
            let threads = [give(), give()];
            let taken = free(stack.take());
            let free = taken + free(stack.close());
            let mut last = usize::from(stack.settle(2 - free));
            for t in threads {
                last += usize::from(t.join().unwrap());
            }
            assert_eq!(last, 1);
        });
    }
}
