// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Multicast groups: which sockets of a namespace receive which notifications, and the outgoing
//! queue of each socket.
//!
//! A [`Mailbox`] is the receive queue of one netlink socket. It holds [`Mailbox::LIMIT`] bytes plus
//! one more answer. Beyond that no answers are generated (see `weir_stack::connection`), and no more
//! requests are read from a socket whose queue is long (back-pressure). Notifications beyond the
//! limit are lost and counted, as in the kernel's `netlink_overrun`; the owner may then report
//! ENOBUFS to its client.

use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};
use std::sync::{Arc, OnceLock, Weak};
use weir_sync::once_box::OnceBox;
use weir_sync::order::{self, Mutex, MutexGuard};

/// A callback that runs when an empty mailbox receives a datagram.
pub type Waker = Box<dyn Fn() + Send + Sync>;

/// What shows the datagrams of a socket to the devices that watch netlink (`struct netlink_tap`).
pub struct Tap {
    /// The number of devices of the stack that watch.
    pub watched: Arc<AtomicUsize>,
    /// Shows a datagram.
    pub show: Show,
}

/// Shows a datagram; see [`Tap`].
pub type Show = Box<dyn Fn(&[u8]) + Send + Sync>;

/// A bitmap with one bit per group.
type Groups = [AtomicU64; 2];

/// The groups that at least one socket of a namespace listens to.
#[derive(Debug, Default)]
struct Heard {
    groups: Groups,
    /// Held while a socket joins groups and while the bitmap is recomputed.
    change: Mutex<(), order::Heard>,
}

impl Heard {
    fn change(&self) -> MutexGuard<'_, (), order::Heard> {
        self.change.lock()
    }
}

struct Queue {
    datagrams: VecDeque<Vec<u8>>,
    octets: usize,
}

/// The queue of one netlink socket; see the module documentation.
pub struct Mailbox {
    /// The socket's port id (`nl_pid`).
    pub portid: AtomicU32,
    groups: Groups,
    /// The groups that any socket of the namespace may listen to. It is set once the mailbox is
    /// added to a namespace.
    heard: OnceLock<Arc<Heard>>,
    queue: Mutex<Queue, order::Mailbox>,
    lost: AtomicU64,
    no_enobufs: AtomicBool,
    waker: Option<Waker>,
    tap: OnceLock<Tap>,
}

impl Mailbox {
    /// The maximum number of queued bytes (the receive buffer size that iproute2 requests from
    /// Linux).
    pub const LIMIT: usize = 1 << 20;

    /// Creates an empty mailbox.
    pub fn new(portid: u32, waker: Option<Waker>) -> Arc<Self> {
        Arc::new(Self {
            portid: AtomicU32::new(portid),
            groups: Default::default(),
            heard: OnceLock::new(),
            queue: Mutex::new(Queue {
                datagrams: VecDeque::new(),
                octets: 0,
            }),
            lost: AtomicU64::new(0),
            no_enobufs: AtomicBool::new(false),
            waker,
            tap: OnceLock::new(),
        })
    }

    fn queue(&self) -> MutexGuard<'_, Queue, order::Mailbox> {
        self.queue.lock()
    }

    /// Returns whether the socket listens to `group` (`RTNLGRP_*`).
    pub fn hears(&self, group: u32) -> bool {
        let Some(bit) = group.checked_sub(1) else {
            return false;
        };
        self.groups
            .get(bit as usize / 64)
            .is_some_and(|word| word.load(Relaxed) & (1 << (bit % 64)) != 0)
    }

    /// Joins or leaves one group. Returns `false` if the group number is out of range.
    pub fn set_group(&self, group: u32, member: bool) -> bool {
        let Some(bit) = group.checked_sub(1) else {
            return false;
        };
        let Some(word) = self.groups.get(bit as usize / 64) else {
            return false;
        };
        let mask = 1 << (bit % 64);
        self.change(|| {
            if member {
                word.fetch_or(mask, Relaxed);
            } else {
                word.fetch_and(!mask, Relaxed);
            }
        });
        true
    }

    /// Changes the socket's groups and adds them to the namespace's bitmap.
    fn change(&self, change: impl FnOnce()) {
        let Some(heard) = self.heard.get() else {
            return change();
        };
        let _lock = heard.change();
        change();
        for (all, own) in heard.groups.iter().zip(&self.groups) {
            all.fetch_or(own.load(Relaxed), Release);
        }
    }

    /// Sets the first 32 groups at once, as `bind` does. The other groups are unchanged.
    pub fn bind_groups(&self, mask: u32) {
        self.change(|| {
            let rest = self.groups[0].load(Relaxed) & !0xffff_ffff;
            self.groups[0].store(rest | u64::from(mask), Relaxed);
        });
    }

    /// `NETLINK_NO_ENOBUFS`
    pub fn set_no_enobufs(&self, yes: bool) {
        self.no_enobufs.store(yes, Relaxed);
    }

    /// Sets what shows the socket's datagrams. Only the first call has an effect.
    pub fn set_tap(&self, tap: Tap) {
        let _ = self.tap.set(tap);
    }

    /// Shows a datagram to the devices that watch netlink (`netlink_deliver_tap`). Costs one relaxed load while no
    /// device does.
    #[inline]
    pub fn show(&self, datagram: &[u8]) {
        if let Some(tap) = self.tap.get()
            && tap.watched.load(Relaxed) > 0
        {
            (tap.show)(datagram);
        }
    }

    /// Queues an answer.
    pub fn answer(&self, datagram: Vec<u8>) {
        self.show(&datagram);
        self.push(datagram);
    }

    /// Queues an answer that is not one of netlink: no device that watches sees it.
    pub fn answer_unseen(&self, datagram: Vec<u8>) {
        self.push(datagram);
    }

    /// Queues a notification, or counts it as lost if the queue is full. An empty `datagram` stands
    /// for a notification that did not fit into any message; it is counted as lost too.
    pub fn notify(&self, datagram: &[u8]) {
        if datagram.is_empty() || self.queue().octets + datagram.len() > Self::LIMIT {
            self.lost.fetch_add(1, Relaxed);
            return;
        }
        self.show(datagram);
        self.push(datagram.to_vec());
    }

    fn push(&self, mut datagram: Vec<u8>) {
        let first = {
            let mut queue = self.queue();
            if queue.octets > Self::LIMIT / 16 {
                // The client is slow: don't let the queue hold more memory than its contents need.
                datagram.shrink_to_fit();
            }
            queue.octets += datagram.len();
            queue.datagrams.push_back(datagram);
            queue.datagrams.len() == 1
        };
        if let (true, Some(wake)) = (first, &self.waker) {
            wake();
        }
    }

    /// Takes the oldest datagram.
    pub fn take(&self) -> Option<Vec<u8>> {
        let mut queue = self.queue();
        let datagram = queue.datagrams.pop_front()?;
        queue.octets -= datagram.len();
        Some(datagram)
    }

    /// Puts a datagram that could not be sent back at the front of the queue.
    pub fn put_back(&self, datagram: Vec<u8>) {
        let mut queue = self.queue();
        queue.octets += datagram.len();
        queue.datagrams.push_front(datagram);
    }

    /// Returns the number of queued bytes.
    pub fn octets(&self) -> usize {
        self.queue().octets
    }

    /// Returns whether notifications were lost since the last call and the client wants to know
    /// about it.
    pub fn take_overrun(&self) -> bool {
        self.lost.swap(0, Relaxed) > 0 && !self.no_enobufs.load(Relaxed)
    }
}

impl std::fmt::Debug for Mailbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mailbox")
            .field("portid", &self.portid)
            .finish_non_exhaustive()
    }
}

/// The netlink sockets of a namespace.
#[derive(Debug, Default)]
pub struct Subscribers(OnceBox<Sockets>);

/// The state of [`Subscribers`] from the first socket on.
#[derive(Debug, Default)]
struct Sockets {
    all: Mutex<Vec<Weak<Mailbox>>, order::Subscribers>,
    /// The groups that some socket may listen to. It includes every current group, may include stale
    /// ones, and is recomputed when a socket is added.
    heard: Arc<Heard>,
}

impl Subscribers {
    fn all(&self) -> Option<MutexGuard<'_, Vec<Weak<Mailbox>>, order::Subscribers>> {
        self.0.get().map(|sockets| sockets.all.lock())
    }

    /// Returns the mailboxes of the sockets that are `wanted`.
    fn mailboxes(&self, wanted: impl Fn(&Mailbox) -> bool) -> Vec<Arc<Mailbox>> {
        let all = self.all();
        let all = all.iter().flat_map(|all| all.iter());
        let all = all.filter_map(Weak::upgrade);
        all.filter(|mailbox| wanted(mailbox)).collect()
    }

    /// Adds a socket. It is removed by [`remove`](Self::remove), or counts no more once its mailbox is dropped.
    pub fn add(&self, mailbox: &Arc<Mailbox>) {
        let sockets = self.0.get_or_make(Sockets::default);
        // A mailbox belongs to the same namespace all its life.
        let heard = &sockets.heard;
        let _ = mailbox.heard.set(heard.clone());
        let mut all = sockets.all.lock();
        all.retain(|other| other.strong_count() > 0);
        all.push(Arc::downgrade(mailbox));
        // Drop the groups that nobody listens to any more.
        let _lock = heard.change();
        for (word, heard) in heard.groups.iter().enumerate() {
            let own = |m: Arc<Mailbox>| m.groups[word].load(Relaxed);
            let mailboxes = all.iter().filter_map(Weak::upgrade);
            heard.store(mailboxes.map(own).fold(0, |a, b| a | b), Release);
        }
    }

    /// Removes a socket that is closed, so that its memory is freed.
    pub fn remove(&self, mailbox: &Arc<Mailbox>) {
        let Some(mut all) = self.all() else { return };
        let gone = Arc::as_ptr(mailbox);
        all.retain(|other| !std::ptr::eq(other.as_ptr(), gone));
        if all.is_empty() {
            *all = Vec::new();
        }
    }

    /// Returns whether a port id is in use.
    pub fn has_portid(&self, portid: u32) -> bool {
        let is = |m: &Mailbox| m.portid.load(Relaxed) == portid;
        !self.mailboxes(is).is_empty()
    }

    /// Returns the process id if no other socket uses it, else the next free number below -4096
    /// (`netlink_autobind`).
    pub fn free_portid(&self, process: u32) -> u32 {
        let taken = self.mailboxes(|_| true).into_iter();
        let taken: HashSet<u32> = taken.map(|m| m.portid.load(Relaxed)).collect();
        let others = (0..=u32::MAX - 4096).rev();
        let mut candidates = std::iter::once(process).chain(others);
        let free = candidates.find(|portid| !taken.contains(portid));
        free.unwrap_or(process)
    }

    /// Returns whether any socket listens to `group`. The check is a single load as long as none
    /// does.
    pub fn anybody(&self, group: u32) -> bool {
        let Some(bit) = group.checked_sub(1) else {
            return false;
        };
        let sockets = self.0.get();
        let heard = sockets.and_then(|sockets| sockets.heard.groups.get(bit as usize / 64));
        if heard.is_none_or(|heard| heard.load(Acquire) & (1 << (bit % 64)) == 0) {
            return false;
        }
        !self.mailboxes(|m| m.hears(group)).is_empty()
    }

    /// Delivers one datagram to all sockets that listen to `group`, except the one with port id
    /// `except`.
    pub fn notify(&self, group: u32, datagram: &[u8], except: Option<u32>) {
        let hears = |m: &Mailbox| m.hears(group) && except != Some(m.portid.load(Relaxed));
        let hearers = self.mailboxes(hears);
        for mailbox in hearers {
            mailbox.notify(datagram);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_members_hear_and_a_full_mailbox_loses() {
        let subscribers = Subscribers::default();
        let mailbox = Mailbox::new(7, None);
        subscribers.add(&mailbox);
        subscribers.notify(1, &[1, 2, 3], None);
        assert_eq!(mailbox.take(), None);
        mailbox.bind_groups(1);
        assert!(mailbox.set_group(36, true));
        assert!(!mailbox.set_group(0, true) && !mailbox.set_group(200, true));
        subscribers.notify(1, &[1], None);
        subscribers.notify(36, &[2], None);
        subscribers.notify(36, &[3], Some(7));
        assert_eq!(
            (mailbox.take(), mailbox.take(), mailbox.take()),
            (Some(vec![1]), Some(vec![2]), None)
        );
        assert!(subscribers.anybody(36) && !subscribers.anybody(35) && !subscribers.anybody(0));
        mailbox.set_group(36, false);
        assert!(!subscribers.anybody(36));
        subscribers.notify(1, &vec![0; Mailbox::LIMIT + 1], None);
        assert!(mailbox.take_overrun() && !mailbox.take_overrun());
    }
}
