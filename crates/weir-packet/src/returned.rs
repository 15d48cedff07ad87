// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `Returned`: the lock-free stack on which freed nodes wait, and the count that
//! ends a pool.
//!
//! While the pool has handles, nobody counts the nodes that are out: giving back
//! is one compare-and-swap ([`Returned::push`]), and the pool takes the stack as a
//! whole ([`Returned::take`]), so that no node is ever popped and re-pushed under
//! a reader (no ABA). The last handle closes the stack ([`Returned::close`]): its
//! head becomes the mark `CLOSED`, and from then on each node given back is
//! subtracted from `live` instead. The closer counts what lies free and tells how
//! many nodes are still out ([`Returned::settle`]). `live` starts at a bias far
//! from zero, so that nodes given back between `close` and `settle` are accounted
//! right; who brings it to zero, exactly one, is told to free the pool.
//!
//! After `push` has returned false the pool may be gone: the caller must not
//! touch it, and `push` itself does not after its last atomic operation.
#![allow(unsafe_code)] // links are written through raw pointers

use std::ptr::NonNull;
use weir_sync::primitive::atomic::{AtomicI64, AtomicPtr, Ordering};
use weir_sync::primitive::prefetch_to_write;

/// How many nodes ahead of itself a node notes another, so that as many lines of another processor's cache are
/// under way at once.
const AHEAD: usize = 8;

const BIAS: i64 = 1 << 60;

/// The first words of a free node.
#[repr(C)]
pub struct Link {
    next: *mut Link,
    /// One that comes some nodes later, or itself.
    ahead: *mut Link,
}

/// The mark of a closed stack; never the address of a node.
fn closed() -> *mut Link {
    std::ptr::without_provenance_mut(1)
}

/// See the module. All of it is atomic.
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

    /// Whether nothing was given back since the last `take` (or a closing).
    pub fn is_empty(&self) -> bool {
        self.head.load(Ordering::Relaxed).is_null()
    }

    /// Gives back the chain from `first` to `last`. True: this was the last of a closed pool, which
    /// the caller frees. False: the pool is none of the caller's business any more.
    ///
    /// # Safety
    /// The caller owns the nodes, linked from `first` to `last`, and does not use them again.
    #[inline]
    #[must_use]
    pub unsafe fn push(&self, first: NonNull<Link>, last: NonNull<Link>) -> bool {
        let mut head = self.head.load(Ordering::Relaxed);
        while head != closed() {
            // SAFETY: the node is the caller's until the exchange succeeds.
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
            // SAFETY: the chain is linked and the caller's.
            match unsafe { next(at) } {
                Some(next) => at = next,
                None => break,
            }
            n += 1;
        }
        self.live.fetch_sub(n, Ordering::AcqRel) == n
    }

    /// Takes all that was given back, as a chain. Not to be called after `close`.
    pub fn take(&self) -> Option<NonNull<Link>> {
        NonNull::new(self.head.swap(std::ptr::null_mut(), Ordering::Acquire))
    }

    /// Closes the stack and takes what is on it. To be called once.
    pub fn close(&self) -> Option<NonNull<Link>> {
        NonNull::new(self.head.swap(closed(), Ordering::AcqRel))
    }

    /// Tells that `live` nodes were out when the stack was closed. True: all have come back since,
    /// and the caller frees the pool. False: it must not be touched again.
    #[must_use]
    pub fn settle(&self, live: usize) -> bool {
        let add = live as i64 - BIAS;
        self.live.fetch_add(add, Ordering::AcqRel) + add == 0
    }
}

/// A chain in the making, newest first.
pub struct Chain {
    newest: NonNull<Link>,
    oldest: NonNull<Link>,
    recent: [NonNull<Link>; AHEAD],
    len: usize,
}

impl Chain {
    /// A chain of one node.
    ///
    /// # Safety
    /// The caller owns the node.
    #[inline]
    pub unsafe fn new(node: NonNull<Link>) -> Chain {
        let ahead = node.as_ptr();
        // SAFETY: the node is the caller's.
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

    /// Puts `node` in front.
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
        // SAFETY: the node is the caller's.
        unsafe { node.write(link) };
        (*recent, self.newest) = (node, node);
        self.len += 1;
    }

    /// Its newest and its oldest node.
    pub fn ends(&self) -> (NonNull<Link>, NonNull<Link>) {
        (self.newest, self.oldest)
    }
}

/// The node behind `node` in a chain.
///
/// # Safety
/// The caller owns the chain.
#[inline]
pub unsafe fn next(node: NonNull<Link>) -> Option<NonNull<Link>> {
    // SAFETY: the node is the caller's and linked.
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

    /// Frees a chain and counts it.
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
        // SAFETY: the nodes are ours.
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

    /// Two threads give a node back each while the last handle closes: all nodes are accounted for
    /// and exactly one of the three is told to free.
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
                    // SAFETY: the node is ours; a closed stack leaves it to us.
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
