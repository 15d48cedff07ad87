// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The lock order of the whole engine, as a table of classes, and mutexes that check it.
//!
//! Every [`Mutex`] of this module has a [`Class`]; a [`SpinLock`](crate::spin::SpinLock) may have one. A debug build
//! records the classes that each thread holds, as lockdep does. It panics when a thread takes a lock of a lower rank than
//! one it holds, or a second lock of a rank that does not nest. The message names both classes. A release build checks
//! nothing: the class is a type without a value.
//!
//! The table below documents the order. A thread that holds a lock may take only locks further down in it.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::PoisonError;

/// The class of a lock: its place in the order.
pub trait Class: 'static {
    /// The position in the order. Locks of equal rank are never held together.
    const RANK: u16;
    /// What the lock guards.
    const NAME: &'static str;
    /// Whether a thread may hold several locks of the class, in an order that the class states.
    const NESTS: bool;
}

/// A lock outside the order. Either no other lock is taken while it is held, or it is private to a data structure whose
/// documentation states the order.
#[derive(Debug)]
pub enum Unranked {}

impl Class for Unranked {
    const RANK: u16 = 0;
    const NAME: &'static str = "a lock outside the order";
    const NESTS: bool = true;
}

macro_rules! classes {
    ($($rank:literal $nests:literal { $($class:ident = $name:literal,)* })*) => {
        $($(
            #[doc = $name]
            #[derive(Debug)]
            pub enum $class {}

            impl Class for $class {
                const RANK: u16 = $rank;
                const NAME: &'static str = $name;
                const NESTS: bool = $nests;
            }
        )*)*

        /// The order: rank and name of each class, first taken first.
        pub const TABLE: &[(u16, &str)] = &[$($(($rank, $name),)*)*];
    };
}

// Rank, and whether a thread may hold several of the class.
classes! {
    10 false { Bus = "the bus of netdevsim", }
    20 false { Namespaces = "the table of namespaces", }
    // The daemon's socket gets reports while it is held.
    28 false { MulticastRoutes = "the multicast routes of a namespace", }
    29 false { TcpConnection = "a TCP connection or listener", }
    30 false { Socket = "a socket of a program", }
    31 false { SocketPorts = "the ports of a namespace's sockets", }
    32 false { SocketList = "the sockets of a namespace", }
    40 false { Addresses = "the IPv4 or IPv6 addresses of a device", }
    // The groups of VNIs.
    44 false { Vnis = "the VNIs of the VXLAN devices of a namespace", }
    45 false { Groups = "the IPv4 or IPv6 groups of a device", }
    // A bridge adds the entries of a VLAN while it changes its VLANs.
    47 false { BridgeVlans = "the VLANs of a bridge", }
    48 false { BondPorts = "the ports of a bond", }
    // The routes of a nexthop object go with it.
    49 false { Nexthops = "the nexthop objects of a namespace", }
    50 false {
        BondLists = "the settings of a bond that are no numbers, and the counters of its ports",
        Routes = "a FIB table, its set of tables, or a rule list",
        Labels = "the IPv6 address labels of a namespace",
        Neighbour = "a neighbour",
        Forwarding = "the forwarding table of a device",
        BridgePorts = "the ports of a bridge",
        VrfPorts = "the ports of a VRF",
        Tunnels = "the VXLAN or Geneve devices of a namespace, and their ports",
        IpTunnels = "the IP tunnels of a namespace",
        MplsTable = "the MPLS labels of a namespace",
        VlanSettings = "the settings of a VLAN device",
        IpvlanAddresses = "the addresses by which an ipvlan is known",
        MacvlanSources = "the sources that a macvlan lists",
    }
    52 false { NexthopEntries = "the entries of forwarding tables by a nexthop object", }
    55 false { Watchdog = "the timer of a transmit queue", }
    58 false { Tree = "the qdiscs of a device", }
    60 false { Shelf = "the place where the u32 instances of a qdisc find each other", }
    61 false { Instances = "the u32 instances of a qdisc", }
    62 false { Blocks = "the shared blocks of a namespace", }
    63 false { Block = "the chains of a block", }
    64 false { Chain = "the filters of a chain", }
    // A parent before its children.
    65 true { Qdisc = "a qdisc", }
    66 false { Classifier = "the changes of a classifier", }
    67 false { Ranges = "the ranges of a flower mask", }
    68 false { Action = "the changes of an action", }
    69 false { Samples = "the sample groups of a namespace", }
    // Of two namespaces, the one of the lower id first. A filter looks devices up by name while its
    // classifier is locked.
    70 true { Links = "the devices of a namespace", }
    // A VLAN device before its lower device.
    71 true { Taken = "the additional addresses of a device", }
    72 false {
        Names = "the names of a device",
        Derived = "what a device computes from its state: its carrier, its active features",
        NsIds = "the ids of other namespaces",
        Kept = "the sysctls that are only kept",
        Steering = "the receive steering of a device",
        Watching = "the observers of a stack",
    }
    73 false { NsIdHolders = "the namespaces that gave an id to one", }
    75 false {
        Fragments = "the fragments of a family",
        Peers = "the hosts we talk to",
        Joined = "the groups that addresses have joined",
        VxlanTimer = "the aging timer of a VXLAN device",
        BridgeTimer = "the aging timer of a bridge",
        BridgeSnoop = "the groups that a bridge snoops",
        BridgeStp = "the spanning tree variables of a bridge",
        ExceptionTimer = "the timer of the exceptions of a namespace's routes",
        NexthopTimer = "the timer of the resilient groups of a namespace",
        BondTimer = "the timer of a bond's monitor",
        Lacp = "the aggregators of a bond",
    }
    76 false { WrittenSettings = "the settings of devices that were written", }
    78 false { SocketTaps = "the devices that packet sockets watch", }
    80 false { Subscribers = "the sockets of a namespace", }
    81 false { Heard = "the groups that a namespace's sockets hear", }
    82 false { Mailbox = "the queue of a netlink socket", }
    83 false { NetlinkTaps = "the devices that watch netlink", }
    90 false { Posted = "the posted jobs", Timers = "the armed timers", RateLimit = "the ICMP rate limit", }
    91 false {
        Waker = "the stack's waker",
        Trace = "the records of traced packets",
        PacketRing = "the ring of a packet socket",
    }
    92 false { PacketTap = "what a packet socket selects", }
}

/// The classes this thread holds. Exists in debug builds only.
#[cfg(all(debug_assertions, not(loom)))]
mod held {
    use std::cell::RefCell;

    thread_local! {
        static HELD: RefCell<Vec<(u16, &'static str)>> = const { RefCell::new(Vec::new()) };
    }

    pub(super) fn check(rank: u16, name: &'static str, nests: bool) {
        let held = HELD.try_with(|held| {
            let held = held.borrow();
            let against = |other: &&(u16, &str)| other.0 > rank || other.0 == rank && !nests;
            held.iter().rev().find(against).copied()
        });
        if let Ok(Some((_, other))) = held {
            panic!("lock order: {name} is locked while {other} is held");
        }
    }

    pub(super) fn push(rank: u16, name: &'static str) {
        // A thread that ends holds nothing.
        let _ = HELD.try_with(|held| held.borrow_mut().push((rank, name)));
    }

    pub(super) fn pop(rank: u16, name: &'static str) {
        let _ = HELD.try_with(|held| {
            let mut held = held.borrow_mut();
            if let Some(at) = held.iter().rposition(|one| *one == (rank, name)) {
                held.remove(at);
            }
        });
    }
}

/// The record that this thread holds a lock of a class. Has no size and no effect in a release build.
#[derive(Debug)]
pub(crate) struct Held<C: Class>(PhantomData<(C, *const ())>);

#[allow(unsafe_code)] // guards of a lock are shared between threads as `&T` is
// SAFETY: shared access to a guard's record does nothing.
unsafe impl<C: Class> Sync for Held<C> {}

impl<C: Class> Held<C> {
    /// Checks the order, before a lock is taken.
    #[inline(always)]
    pub(crate) fn check() {
        #[cfg(all(debug_assertions, not(loom)))]
        if C::RANK != 0 {
            held::check(C::RANK, C::NAME, C::NESTS);
        }
    }

    /// Records a lock that was taken.
    #[inline(always)]
    pub(crate) fn new() -> Self {
        #[cfg(all(debug_assertions, not(loom)))]
        if C::RANK != 0 {
            held::push(C::RANK, C::NAME);
        }
        Self(PhantomData)
    }
}

#[cfg(all(debug_assertions, not(loom)))]
impl<C: Class> Drop for Held<C> {
    fn drop(&mut self) {
        if C::RANK != 0 {
            held::pop(C::RANK, C::NAME);
        }
    }
}

/// A mutex of a class. A panic of a holder leaves the value as it is, and later holders go on with it.
pub struct Mutex<T, C: Class> {
    inner: crate::primitive::Mutex<T>,
    class: PhantomData<fn() -> C>,
}

impl<T, C: Class> Mutex<T, C> {
    /// Returns an unlocked mutex around `value`.
    pub fn new(value: T) -> Self {
        Self {
            inner: crate::primitive::Mutex::new(value),
            class: PhantomData,
        }
    }

    /// Takes the lock, and waits for it. A debug build panics if that is against the order.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T, C> {
        Held::<C>::check();
        let inner = self.inner.lock();
        MutexGuard {
            inner: inner.unwrap_or_else(PoisonError::into_inner),
            held: Held::new(),
        }
    }
}

impl<T: Default, C: Class> Default for Mutex<T, C> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T: std::fmt::Debug, C: Class> std::fmt::Debug for Mutex<T, C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple(C::NAME).finish_non_exhaustive()
    }
}

/// Holds a [`Mutex`] until it is dropped.
#[must_use = "dropping the guard releases the lock"]
pub struct MutexGuard<'a, T, C: Class> {
    inner: crate::primitive::MutexGuard<'a, T>,
    #[allow(dead_code)] // dropped with the guard
    held: Held<C>,
}

impl<T, C: Class> Deref for MutexGuard<'_, T, C> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T, C: Class> DerefMut for MutexGuard<'_, T, C> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inner
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_its_own_order() {
        assert!(TABLE.is_sorted_by_key(|(rank, _)| *rank));
    }

    #[test]
    fn locks_taken_downwards_and_declared_nesting_pass() {
        let (links, other) = (Mutex::<u8, Links>::new(1), Mutex::<u8, Links>::new(2));
        let timers = Mutex::<u8, Timers>::new(3);
        let (mut links, other, timers) = (links.lock(), other.lock(), timers.lock());
        *links += *other + *timers;
        assert_eq!(*links, 6);
    }

    #[test]
    fn a_lock_may_be_taken_again_after_its_guard_is_dropped() {
        let (links, timers) = (Mutex::<(), Links>::new(()), Mutex::<(), Timers>::new(()));
        drop(timers.lock());
        let first = links.lock();
        let second = timers.lock();
        // Out of order of taking.
        drop(first);
        drop(second);
        drop(links.lock());
    }

    #[cfg(debug_assertions)]
    #[test]
    #[should_panic(
        expected = "lock order: the devices of a namespace is locked while the armed timers is held"
    )]
    fn a_lock_taken_upwards_is_caught() {
        let (links, timers) = (Mutex::<(), Links>::new(()), Mutex::<(), Timers>::new(()));
        let _timers = timers.lock();
        drop(links.lock());
    }

    #[cfg(debug_assertions)]
    #[test]
    #[should_panic(
        expected = "lock order: the posted jobs is locked while the armed timers is held"
    )]
    fn two_locks_of_one_rank_are_caught() {
        let (posted, timers) = (Mutex::<(), Posted>::new(()), Mutex::<(), Timers>::new(()));
        let _timers = timers.lock();
        drop(posted.lock());
    }

    #[cfg(debug_assertions)]
    #[test]
    #[should_panic(expected = "lock order: the qdiscs of a device is locked while a qdisc is held")]
    fn a_spinlock_has_a_place_in_the_order() {
        let tree = Mutex::<(), Tree>::new(());
        let qdisc = crate::spin::SpinLock::<(), Qdisc>::ranked(());
        let _qdisc = qdisc.lock();
        drop(tree.lock());
    }
}
