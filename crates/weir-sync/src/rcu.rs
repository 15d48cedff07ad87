// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Read-copy-update: readers that never wait, and deferred freeing of the memory they may be using.
//!
//! # Use
//! A [`Domain`] belongs to one stack and is cheap to clone. A thread *pins* the domain before it
//! reads ([`Domain::pin`] for control threads, [`Reader::pin`] for a stack CPU, which re-pins once
//! per loop turn) and gets a [`Guard`]. Everything it loads under the guard ([`Published`], the
//! tables of [`crate::hash`]) stays valid until the guard is dropped or re-pinned. A writer
//! replaces a pointer and hands the old object to the domain. The domain frees the object, or calls
//! any closure ([`Domain::defer`], Linux's `call_rcu`), after a *grace period*: once every guard
//! that could have seen it is gone. [`Domain::synchronize`] waits for a grace period;
//! [`Domain::barrier`] waits until everything deferred before it has run.
//!
//! # How it works
//! The domain keeps an *epoch* counter, which only grows. Each reader has a slot on cache lines of
//! its own. The slot is one word: the epoch the reader saw when it pinned, and the number of guards
//! it holds. A reader without guards is quiescent.
//!
//! To **pin**: load the epoch, exchange it into the slot, full fence. To **retire** an object:
//! unlink it (so that no new reader can find it), full fence, load the epoch; this epoch is the
//! object's *tag*. To **complete** a tag `t`: raise the epoch to at least `t + 1` by a
//! read-modify-write, full fence, scan every slot, and take the minimum of the epoch just read and
//! the epochs of all pinned slots. Every object whose tag is below this minimum may be freed, no
//! matter when and by whom it was queued. The minimum is stored in `completed`, which also only
//! grows.
//!
//! Proof of correctness: take an object with tag `t`, and a scan whose minimum is above `t`. Let
//! `R` be the fence of the thread that retired the object, `W` the write that raised the epoch past
//! `t`, and `S` the fence of the scan. `R` precedes `W` in the order of fences, because after `R`
//! the retiring thread read an epoch older than `W`. When the scan reads a reader's slot, the
//! reader is in one of three states:
//!
//! 1. *Pinned with an epoch above `t`.* The reader read the epoch from `W` or later and then passed
//!    its own fence, so its fence comes after `W` and therefore after `R`. All its later loads see
//!    the object already unlinked.
//! 2. *Not pinned, and pins later.* The scan read the slot before the reader's exchange, so `S`
//!    precedes the reader's fence. `R` precedes `W`, and `W` precedes `S`, so this reader also sees
//!    the object unlinked.
//! 3. *No longer pinned.* The reader's unpin is a release, from which the scan's acquire load of
//!    the slot read. So everything it did under the guard happens before the object is freed.
//!
//! A reader pinned with an epoch of `t` or less keeps the minimum at or below `t`. A stale epoch
//! (loaded, then delayed before the exchange) is therefore never wrong, only conservative. Two
//! guards of one slot share its word; the second one is covered by the epoch of the first, whose
//! exchange it read.
//!
//! No other thread writes a slot's word while the slot is in use, so pinning costs one uncontended
//! locked instruction (which on x86 is the fence too), and unpinning another; nested pins cost the
//! same. There is no membarrier and no signal: a stack CPU pins once per batch, so a few
//! nanoseconds are spread over up to 64 packets, and writers need no system call.
//!
//! # Callbacks
//! Deferred closures wait in per-CPU queues (by a bound thread's CPU number). Unbound threads count
//! as CPU 0 but are spread over eight queues of their own. Each queue is ordered by tag. The
//! [`CallbackMode`], like Linux's `rcu_nocbs=`, selects the thread that runs the callbacks:
//!
//! - *in place*: the queueing thread, on every 64th callback it defers, and any thread that calls
//!   [`Domain::poll`]. A thread that holds a guard only queues; when it drops its last guard, it
//!   runs the ready callbacks if it has deferred 64 by then. So no callback runs inside a read
//!   section, or under a lock taken in one;
//! - *offload-all*, *offload=LIST*: one thread of the domain, for all CPUs or for the listed ones.
//!   This module never creates any other thread, and creates this one only once such a mode is
//!   chosen.
//!
//! [`Domain::set_mode`] changes the mode at run time. Callbacks stay in their queues, so none is
//! lost and their order is kept. One thread at a time runs a queue's callbacks, so it does not
//! matter that two threads look at a queue around a change. The offload thread still runs what
//! waited in a queue that it gives up, because the queue's own threads may never run again.
//!
//! The number of waiting callbacks is bounded per CPU ([`Config::bound`], Linux's `qhimark`), and
//! the bytes that wait with them in the whole domain ([`Config::bound_bytes`]). Bytes are those of
//! retired objects, without what the objects own, and of the callbacks themselves. Past
//! a bound the producer helps in any mode: it completes grace periods, runs ready callbacks
//! itself, and waits for readers, at most [`Config::patience`] for each object it defers. A
//! producer that holds a guard may itself be the reader that blocks the grace period, so it only
//! queues, and helps when it drops its last guard. A stalled reader thus slows producers to a crawl
//! instead of exhausting the memory, and cannot cause a deadlock. A reader that is in the way for
//! longer than [`Config::stall`] is reported with its name and where it pinned
//! ([`Domain::on_stall`]).
//!
//! Callbacks of one queue run in order, one at a time, with no lock of this module held. They may
//! defer, pin, and drop handles. They must not call [`Domain::synchronize`] or [`Domain::barrier`],
//! which panic there. They must not take a lock that another thread holds while it defers without a
//! guard.
//!
//! # The end of a domain
//! Guards, readers, published pointers and tables all keep the domain alive. When its last handle
//! is dropped there are no readers, and the dropping thread runs all waiting callbacks at once. A
//! waiting object that itself holds a handle (a table with a published pointer inside) keeps its
//! domain alive until its callback has run, so the owner of a stack calls [`Domain::barrier`] at
//! teardown.

mod callback;
mod deferred;
mod domain;
#[cfg(all(test, loom))]
mod loom_models;
mod mode;
#[cfg(all(test, not(loom)))]
mod mode_tests;
mod offload;
mod published;
mod reader;
mod report;
#[cfg(all(test, not(loom)))]
mod tests;
mod watch;

pub use domain::{Config, Domain};
pub use mode::CallbackMode;
pub use published::{Published, PublishedArc, PublishedOption};
pub use reader::{Guard, Reader};
pub use report::{CpuCallbacks, DomainStats, Report, Runner};
pub use watch::{SlowReader, Stall};
