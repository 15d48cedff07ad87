// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Read-copy-update: readers that never wait, and memory that outlives the last of them.
//!
//! # Use
//! A [`Domain`] belongs to one stack and is cheap to clone. A thread *pins* it before it reads
//! ([`Domain::pin`] for control threads, [`Reader::pin`] for a stack CPU, which re-pins once per loop
//! turn) and gets a [`Guard`]. What it loads under the guard ([`Published`], the tables of
//! [`crate::hash`]) stays valid until the guard is dropped or re-pinned. A writer replaces a pointer
//! and hands the old object to the domain, which frees it, or calls any closure ([`Domain::defer`],
//! Linux's `call_rcu`), once every guard that could have seen it is gone: after a *grace period*.
//! [`Domain::synchronize`] waits for one; [`Domain::barrier`] waits until everything deferred before
//! has run.
//!
//! # How it works
//! The domain counts an *epoch*, which only grows. Each reader has a slot on cache lines of its own,
//! one word: the epoch it saw when it pinned, and how many guards it holds (none: quiescent).
//!
//! To **pin**: load the epoch, exchange it into the slot, full fence. To **retire** an object: unlink
//! it (so that no new reader can find it), full fence, load the epoch: that is its *tag*. To
//! **complete** a tag `t`: raise the epoch to at least `t + 1` by a read-modify-write, full fence,
//! look at every slot, and take the least epoch among the pinned ones and the one just read. Every
//! object whose tag is below that least may go, whenever and by whomever it was queued; the least is
//! kept in `completed`, which only grows too.
//!
//! Why is that enough? Take an object with tag `t`, and a scan that came to a least above `t`; let `R`
//! be the fence of its retirer, `W` the write that took the epoch past `t`, `S` the fence of the scan.
//! `R` precedes `W` in the order of fences, since the retirer read an epoch before `W`, after `R`.
//! A reader is in one of three states as the scan passes its slot:
//!
//! 1. *Pinned with an epoch above `t`.* It read the epoch from `W` or later, then passed its own
//!    fence, hence after `W`, hence after `R`: what it loaded afterwards, it loaded with the object
//!    already unlinked.
//! 2. *Not pinned, and pins later.* The scan read its slot before the exchange, so `S` precedes the
//!    reader's fence; `R` precedes `W` precedes `S`: again it finds the object unlinked.
//! 3. *Not pinned any more.* Its unpin is a release which the scan's acquire load of the slot read
//!    from, so all it did under the guard happens before the object is freed.
//!
//! A reader pinned with an epoch of `t` or less keeps the least at or below `t`. A stale epoch (loaded,
//! then delayed before the exchange) is therefore never wrong, only conservative. Two guards of one
//! slot share its word; the second rides on the epoch of the first, whose exchange it read.
//!
//! Nobody else writes a slot's word while it is in use, so pinning costs one uncontended locked
//! instruction (which on x86 is the fence too) and unpinning another; nested pins cost the same. There
//! is no membarrier and no signal: a stack CPU pins once per batch, so a few nanoseconds are spread over
//! up to 64 packets, and writers need no system call.
//!
//! # Callbacks
//! Deferred closures wait in queues by CPU (a bound thread's number; unbound threads, which count as
//! CPU 0, are spread over eight queues of their own), each in order of tags. Who runs them is the
//! [`CallbackMode`], as Linux's `rcu_nocbs=`:
//!
//! - *in place*: the queueing thread, every 64th time it defers, and whoever calls [`Domain::poll`]. A
//!   thread that holds a guard only queues; the drop of its last guard runs what is ready, if it has
//!   deferred 64 by then. So nothing unexpected runs inside a read section, or under a lock taken in it;
//! - *offload-all*, *offload=LIST*: one thread of the domain, for all CPUs or the listed ones. It is the
//!   only thread this module ever makes, and only in these modes.
//!
//! What may wait is bounded per CPU ([`Config::bound`], Linux's `qhimark`). Past the bound the producer
//! helps in any mode: it completes grace periods, runs ready callbacks itself, and waits for the readers,
//! at most [`Config::patience`] for each object deferred. A producer that holds a guard may be what the
//! readers wait for: it just queues, and helps when it drops its last guard. So a stalled reader slows
//! producers down to a crawl instead of eating the memory, and nothing can deadlock on it.
//!
//! Callbacks of one queue run in order, one at a time, with no lock of this module held. They may
//! defer, pin, and drop handles; they must not call [`Domain::synchronize`] or [`Domain::barrier`]
//! (which panic there), nor take a lock that someone holds while he defers without a guard.
//!
//! # What a domain's end does
//! Guards, readers, published pointers and the tables all keep the domain alive. When the last handle
//! goes there are no readers, and what still waits is run at once, on that thread. An object that
//! waits *and* holds a handle (a table with a published pointer inside) keeps its domain alive until
//! it has run: the owner of a stack calls [`Domain::barrier`] when it tears the stack down.

mod callback;
mod deferred;
mod domain;
#[cfg(all(test, loom))]
mod loom_models;
mod published;
mod reader;
#[cfg(all(test, not(loom)))]
mod tests;

pub use domain::{CallbackMode, Config, Domain, DomainStats};
pub use published::{Published, PublishedArc, PublishedOption};
pub use reader::{Guard, Reader};
