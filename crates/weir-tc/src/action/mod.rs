// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Actions: the operations applied to a packet that a filter matched.
//!
//! Mirrors net/sched/act_api.c. An [`Action`] consists of the part that all kinds share
//! ([`Common`]) and the kind's own part. A kind is one file with a [`Kind`] (run and dump) and a
//! [`Spec`] (attributes to parameters), and one line in [`KINDS`].

/// Implements `create` and `change` of a [`Spec`] whose own part of an action is its parameters,
/// published by RCU.
macro_rules! published {
    ($field:ident: $Published:ident) => {
        fn create(params: Self::Params, env: &Env<'_>) -> Self {
            Self {
                $field: $Published::new(env.net.domain(), params),
            }
        }

        fn change(&self, params: Self::Params) {
            self.$field.replace(params);
        }
    };
}

pub mod balance;
pub mod connmark;
pub mod csum;
pub mod ct;
pub mod ctinfo;
mod dump;
mod exec;
pub mod gact;
pub mod gate;
pub mod ife;
mod init;
pub mod mirred;
pub mod mpls;
pub mod nat;
pub mod pedit;
mod place;
pub mod police;
#[cfg(test)]
mod recorded;
#[cfg(test)]
pub(crate) mod requests;
#[cfg(test)]
mod round_trip;
pub mod sample;
pub mod simple;
pub mod skbedit;
pub mod skbmod;
pub mod tunnel_key;
pub mod vlan;

#[cfg(test)]
mod tests;

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering::*};

use weir_netlink::tca::act;
use weir_netlink::{Attr, Error, Name, TcGen, TcfT, Writer};
use weir_packet::Packet;
use weir_sync::order::{self, MutexGuard};
use weir_sync::rcu::Guard;
use weir_sync::spin::SpinLock;

use crate::block;
use crate::chain::Chain;
use crate::context::Context;
use crate::counters::Tally;
use crate::early::Early;
use crate::env::{Env, TICK_NS};
use crate::estimator::Estimator;
use crate::host::Host;
use crate::table::Table;
use crate::verdict::{Code, Outcome};

pub use dump::{Own, dump_action, dump_list, dump_old};
pub use exec::run;
pub(crate) use init::POLICY;
pub use init::{Init, InitList, Inited, find_ops, init_list, init_police};

/// The action kinds, one file each, in the order of `TCA_ID_*`. The last is not of Linux.
pub static KINDS: &[Ops] = &[
    Ops::of::<police::Police>(),
    Ops::of::<gact::Gact>(),
    Ops::of::<pedit::Pedit>(),
    Ops::of::<mirred::Mirred>(),
    Ops::of::<nat::Nat>(),
    Ops::of::<skbedit::Skbedit>(),
    Ops::of::<vlan::Vlan>(),
    Ops::of::<connmark::Connmark>(),
    Ops::of::<skbmod::Skbmod>(),
    Ops::of::<csum::Csum>(),
    Ops::of::<tunnel_key::TunnelKey>(),
    Ops::of::<simple::Simple>(),
    Ops::of::<ife::Ife>(),
    Ops::of::<sample::Sample>(),
    Ops::of::<ctinfo::Ctinfo>(),
    Ops::of::<mpls::Mpls>(),
    Ops::of::<ct::Ct>(),
    Ops::of::<gate::Gate>(),
    Ops::of::<balance::Balance>(),
];

/// `TCA_ACT_HW_STATS_ANY`
pub const HW_STATS_ANY: u8 = (act::HW_STATS_IMMEDIATE | act::HW_STATS_DELAYED) as u8;
/// The `TCA_ACT_FLAGS_*` that a client can set.
pub const USER_FLAGS: u32 = act::FLAGS_NO_PERCPU_STATS | act::FLAGS_SKIP_HW | act::FLAGS_SKIP_SW;
/// The action was created by a filter, not by a request of its own (`TCA_ACT_FLAGS_BIND`).
const FLAG_BIND: u32 = 1 << 17;
/// The action's creation holds a reference.
const FLAG_OWN: u32 = 1 << 19;

/// The action has an entry in the table's `rares`.
const FLAG_RARE: u32 = 1 << 18;
/// The action has a rate estimator in its entry of `rares`.
const FLAG_RATED: u32 = 1 << 20;
/// The action has state of its kind in its entry of `rares`.
const FLAG_MORE: u32 = 1 << 21;
/// The position of `TCA_ACT_HW_STATS` in the flags.
const HW_STATS: u32 = 24;

/// The highest number of actions of a filter or request (`TCA_ACT_MAX_PRIO`).
pub const MAX: usize = act::MAX_PRIO as usize;

/// An operation applied to packets; see the module's documentation.
pub struct Action<K: ?Sized = dyn Kind> {
    /// The part that all kinds share.
    pub common: Common,
    /// The kind's own part.
    pub kind: K,
}

/// A shared action.
pub type ActionRef = Arc<Action>;

impl<K: ?Sized> std::fmt::Debug for Action<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Action")
            .field("common", &self.common)
            .finish_non_exhaustive()
    }
}

/// The behaviour of an action of a kind on packets and in dumps.
pub trait Kind: Any + Send + Sync {
    /// Runs the action (`tc_action_ops.act`): counts, changes or sends the packet. Returns the
    /// resulting code.
    fn run<'g>(
        &'g self,
        common: &'g Common,
        cx: &mut Context<'_, 'g>,
        packet: &mut Packet,
        out: &mut Outcome<'g>,
    ) -> Code;

    /// Encodes the options (`tc_action_ops.dump`). `start` is the common start of the parameters.
    fn dump(&self, common: &Common, start: TcGen, env: &Env<'_>, w: &mut Writer);

    /// Brings the memory that the action needs for these packets into the cache, before it runs on them one by one.
    fn prefetch_packets(&self, _cx: &Context<'_, '_>, _packets: &[Packet]) {}

    /// Returns the code with which the action ends for all of these packets, if it can run on them
    /// together by [`run_planned`](Self::run_planned) and changes nothing that other actions plan by.
    fn plan(&self, _common: &Common, _cx: &Context<'_, '_>, _packets: &[Packet]) -> Option<Code> {
        None
    }

    /// Runs the action on packets for which [`plan`](Self::plan) gave a code. Their lengths as
    /// statistics count them add up to `bytes`.
    fn run_planned<'g>(
        &'g self,
        _common: &'g Common,
        _cx: &mut Context<'_, 'g>,
        (_packets, _bytes): (&mut [Packet], u64),
        _out: &mut Outcome<'g>,
    ) {
    }

    /// Returns whether the action does nothing but count and drop every packet.
    fn only_drops(&self, _common: &Common, _guard: &Guard) -> bool {
        false
    }

    /// Prefetches what a dump reads beside the action itself. The action should already be in the
    /// cache.
    fn prefetch(&self, _guard: &Guard) {}

    /// Drops references to a device that has been unregistered.
    fn device_gone(&self, _key: u64) {}

    /// Returns whether some hardware could run the action, or the error message otherwise
    /// (`offload_act_setup`). By default none could.
    fn offload(&self, _common: &Common, _env: &Env<'_>) -> Result<(), Option<&'static str>> {
        Err(None)
    }

    /// Releases resources when the last reference is dropped (`tc_action_ops.cleanup`). Packets in
    /// flight may still run the action.
    fn release(&self, _env: &Env<'_>) {}
}

/// The creation of actions of a kind from attributes. The steps are called in this order. Each may
/// refuse; a refusal leaves everything unchanged.
pub trait Spec: Kind + Sized {
    /// The name (`TCA_ACT_KIND`).
    const KIND: &'static str;
    /// The message for a request that may not replace an existing action (EEXIST).
    const EXISTS: Option<&'static str> = None;
    /// The message for filters of qdiscs other than `ingress` and `clsact`, if those cannot have the action (EOPNOTSUPP).
    const AT_EDGES: Option<&'static str> = None;
    /// Attributes whose syntax has been checked.
    type Request;
    /// The parameters of an action.
    type Params;

    /// Checks the options. Also returns the requested index, 0 for any.
    fn parse(options: Option<&Attr<'_>>) -> Result<(u32, Self::Request), Error>;

    /// Does the checks that depend on whether the action `exists`.
    fn validate(_request: &Self::Request, _exists: bool) -> Result<(), Error> {
        Ok(())
    }

    /// Does the checks that come after it is known that the action may be created or changed (it
    /// `exists`), and before those of the control action.
    fn verify(_request: &mut Self::Request, _exists: bool) -> Result<(), Error> {
        Ok(())
    }

    /// Checks whether there is a rate estimator. The existing action has one, or the filter
    /// creating the action asks for one; the error is that of an invalid estimator, which all kinds
    /// but one refuse here.
    fn rated(_request: &mut Self::Request, rated: Result<bool, Error>) -> Result<(), Error> {
        rated.map(drop)
    }

    /// Returns the requested control action.
    fn control(request: &Self::Request) -> Code;

    /// Looks up the objects the request refers to.
    fn prepare(request: Self::Request, host: &dyn Host) -> Result<Self::Params, Error>;

    /// Registers in the namespace the objects the action will look up there, before the action is
    /// created or changed.
    fn note(_params: &Self::Params, _env: &Env<'_>) {}

    /// Returns state that only few actions of the kind have; it is stored separately to keep the
    /// others small. `old` is the previous state. `None` leaves that unchanged.
    fn more(_params: &Self::Params, _old: Option<&More>) -> Option<More> {
        None
    }

    /// Creates the kind's part of a new action.
    fn create(params: Self::Params, env: &Env<'_>) -> Self;

    /// Changes an existing action. Called with the action's lock held.
    fn change(&self, params: Self::Params);
}

type IndexFn = fn(Option<&Attr<'_>>) -> Option<u32>;
type InitFn = fn(&Init<'_>, &Arc<Table>, Option<&Attr<'_>>) -> Result<Inited, Error>;

/// An entry in [`KINDS`].
pub struct Ops {
    /// The name.
    pub kind: &'static str,
    /// The name as an attribute.
    name: Name,
    /// The size of an action in bytes.
    pub(crate) size: usize,
    init: InitFn,
    index: IndexFn,
}

impl std::fmt::Debug for Ops {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.kind)
    }
}

impl Ops {
    /// Returns the entry of kind `K`.
    pub const fn of<K: Spec>() -> Self {
        Self {
            kind: K::KIND,
            name: Name::new(act::KIND, K::KIND),
            size: size_of::<Action<K>>(),
            init: init::init_kind::<K>,
            index: |options| K::parse(options).ok().map(|(index, _)| index),
        }
    }
}

/// State that only few actions of a kind have; the kind knows its type.
pub type More = Arc<dyn Any + Send + Sync>;

/// State that only few actions have.
#[derive(Default, Clone)]
pub(crate) struct Rare {
    cookie: Option<Box<[u8]>>,
    /// The chain that "goto chain" goes to, with a reference held as an action.
    chain: Option<Arc<Chain>>,
    /// The estimator of the rate of packets.
    rate: Option<Arc<SpinLock<Estimator>>>,
    /// The state of the kind.
    more: Option<More>,
}

/// The part of an action that all kinds share (`struct tc_action`).
pub struct Common {
    /// The index in the table of its kind.
    pub index: u32,
    /// The reference count: one for the creation by `tc actions add`, one for each bind, and those
    /// of requests in progress.
    pub refs: AtomicU32,
    /// The number of filters the action is bound to.
    pub binds: AtomicU32,
    /// `TCA_ACT_FLAGS_*`, [`FLAG_RARE`], [`FLAG_RATED`], [`FLAG_MORE`], and `TCA_ACT_HW_STATS` in
    /// the bits from [`HW_STATS`] upwards.
    flags: AtomicU32,
    control: AtomicI32,
    /// In `USER_HZ` ticks, like `lastuse`. `firstuse` is one more than the ticks, 0 for never.
    install: u32,
    lastuse: AtomicU32,
    firstuse: AtomicU32,
    /// Counts of packets seen, dropped and not handled; and the table the action is in.
    pub counters: Tally,
}

impl std::fmt::Debug for Common {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Common")
            .field("kind", &self.table().ops)
            .field("index", &self.index)
            .field("refs", &self.refs)
            .field("binds", &self.binds)
            .finish_non_exhaustive()
    }
}

impl Common {
    fn new(index: u32, flags: u32, bind: bool, table: &Arc<Table>, env: &Env<'_>) -> Self {
        let now = env.ticks();
        Self {
            index,
            refs: AtomicU32::new(1),
            binds: AtomicU32::new(u32::from(bind)),
            flags: AtomicU32::new(
                flags
                    | u32::from(HW_STATS_ANY) << HW_STATS
                    | if bind { FLAG_BIND } else { FLAG_OWN },
            ),
            control: AtomicI32::new(0),
            install: now,
            lastuse: AtomicU32::new(now),
            firstuse: AtomicU32::new(0),
            counters: Tally::new(flags & act::FLAGS_NO_PERCPU_STATS == 0, table),
        }
    }

    /// Returns the table the action is in.
    pub fn table(&self) -> &Arc<Table> {
        self.counters.table()
    }

    /// Returns `TCA_ACT_HW_STATS_*`.
    fn hw_stats(&self) -> u8 {
        (self.flags.load(Relaxed) >> HW_STATS) as u8
    }

    fn set_hw_stats(&self, stats: u8) {
        let both = u32::from(self.hw_stats() ^ stats) << HW_STATS;
        if both != 0 {
            self.flags.fetch_xor(both, Relaxed);
        }
    }

    /// Returns the action's entry in the table's `rares`.
    #[inline]
    fn rare<'g>(&'g self, guard: &'g Guard) -> Option<&'g Rare> {
        if self.flags.load(Acquire) & FLAG_RARE == 0 {
            return None;
        }
        self.table().rares.get(&self.index, guard)
    }

    /// Returns the control action.
    #[inline]
    pub fn control(&self) -> Code {
        self.control.load(Relaxed)
    }

    /// Returns the `TCA_ACT_FLAGS_*` that a client set.
    pub fn flags(&self) -> u32 {
        self.flags.load(Relaxed) & USER_FLAGS
    }

    /// Returns whether a filter created the action.
    fn is_bound_kind(&self) -> bool {
        self.flags.load(Relaxed) & FLAG_BIND != 0
    }

    /// Takes over the creation's reference, which the caller must then drop. Returns `false` if it
    /// has already been taken.
    pub(crate) fn disown(&self) -> bool {
        self.flags.fetch_and(!FLAG_OWN, AcqRel) & FLAG_OWN != 0
    }

    /// Counts a packet and updates the times of use (`tcf_action_update_bstats`,
    /// `tcf_lastuse_update`).
    #[inline]
    pub fn hit(&self, cx: &Context<'_, '_>) {
        self.hit_or_drop(cx, false);
    }

    /// Does the same as [`hit`](Self::hit), and counts a drop if the packet is `dropped`.
    #[inline(always)]
    pub fn hit_or_drop(&self, cx: &Context<'_, '_>, dropped: bool) {
        if self.flags.load(Relaxed) & FLAG_RATED != 0 {
            // The samples that are due must not include this packet.
            self.rate(cx.now, cx.guard);
        }
        let bytes = cx.packet_len();
        self.counters.count(cx.cpu, cx.packets(), bytes, dropped);
        self.used(cx.now);
    }

    /// Counts frames that were dropped before packets were made of them, as
    /// [`hit_or_drop`](Self::hit_or_drop) counts packets.
    pub(crate) fn drop_many(&self, cx: Early<'_>, packets: u64, bytes: u64) {
        if self.flags.load(Relaxed) & FLAG_RATED != 0 {
            self.rate(cx.now, cx.guard);
        }
        self.counters.count_drops(cx.cpu, packets, bytes);
        self.used(cx.now);
    }

    /// Does the same as [`hit_or_drop`](Self::hit_or_drop) for several packets with `bytes` in all.
    pub(crate) fn hit_many(&self, cx: &Context<'_, '_>, packets: u64, bytes: u64, dropped: bool) {
        if self.flags.load(Relaxed) & FLAG_RATED != 0 {
            self.rate(cx.now, cx.guard);
        }
        match dropped {
            true => self.counters.count_drops(cx.cpu, packets, bytes),
            false => self.counters.count_many(cx.cpu, packets, bytes),
        }
        self.used(cx.now);
    }

    /// Records the time of use.
    #[inline(always)]
    fn used(&self, now: u64) {
        let now = (now / TICK_NS) as u32;
        if self.lastuse.load(Relaxed) != now {
            self.lastuse.store(now, Relaxed);
        }
        if self.firstuse.load(Relaxed) == 0 {
            self.firstuse.store(now.wrapping_add(1).max(1), Relaxed);
        }
    }

    /// Returns bytes and packets per second, if the action has a rate estimator
    /// (`gen_estimator_read`).
    #[cold]
    pub(crate) fn rate(&self, now: u64, guard: &Guard) -> Option<(u64, u64)> {
        let rare = self.rare(guard)?;
        // See `chain`.
        if self.refs.load(Acquire) == 0 {
            return None;
        }
        let mut estimator = rare.rate.as_ref()?.lock();
        let totals = self.counters.totals();
        estimator.settle(now, (totals.bytes, totals.packets));
        Some(estimator.rate())
    }

    /// Gives a new action an estimator.
    fn set_rate(&self, estimator: Estimator, env: &Env<'_>) {
        let rate = Some(Arc::new(SpinLock::new(estimator)));
        self.change_rare(env, |rare| rare.rate = rate);
        self.flags.fetch_or(FLAG_RATED, Release);
    }

    /// Returns the separately stored state of the kind, if it is a `T`.
    #[inline]
    pub(crate) fn more<'g, T: Any>(&'g self, guard: &'g Guard) -> Option<&'g T> {
        match self.flags.load(Acquire) & FLAG_MORE {
            0 => None,
            _ => self.more_of_few(guard)?.downcast_ref(),
        }
    }

    #[cold]
    fn more_of_few<'g>(&'g self, guard: &'g Guard) -> Option<&'g (dyn Any + Send + Sync)> {
        let rare = self.rare(guard)?;
        // See `chain`.
        if self.refs.load(Acquire) == 0 {
            return None;
        }
        rare.more.as_deref()
    }

    /// Sets the separately stored state of the kind according to the parameters. The caller holds
    /// the lock.
    fn set_more<K: Spec>(&self, params: &K::Params, env: &Env<'_>) {
        let old = self.rare(env.guard).and_then(|rare| rare.more.as_ref());
        if let more @ Some(_) = K::more(params, old) {
            self.change_rare(env, |rare| rare.more = more);
            self.flags.fetch_or(FLAG_MORE, Release);
        }
    }

    /// Returns the rate for a dump.
    pub(crate) fn shown_rate(&self, env: &Env<'_>) -> Option<(u64, u64)> {
        self.is_rated()
            .then(|| self.rate(env.host.now(), env.guard))
            .flatten()
    }

    /// Returns whether a dump of the action has attributes that most actions lack.
    fn is_unusual(&self) -> bool {
        const USUAL: u32 = (HW_STATS_ANY as u32) << HW_STATS;
        let flags = self.flags.load(Relaxed);
        flags & (FLAG_RARE | FLAG_RATED | 0xff << HW_STATS) != USUAL
    }

    /// Returns whether the action has a rate estimator (`gen_estimator_active`).
    fn is_rated(&self) -> bool {
        self.flags.load(Relaxed) & FLAG_RATED != 0
    }

    /// Returns the time of the last use in ticks.
    pub fn lastuse(&self) -> u32 {
        self.lastuse.load(Relaxed)
    }

    /// Returns the ages in ticks (`tcf_tm_dump`).
    pub fn ages(&self, env: &Env<'_>) -> TcfT {
        let now = env.ticks();
        let age = |then: u32| u64::from(now.wrapping_sub(then));
        let first = self.firstuse.load(Relaxed);
        TcfT {
            install: age(self.install),
            lastuse: age(self.lastuse()),
            expires: 0,
            firstuse: if first == 0 {
                0
            } else {
                age(first.wrapping_sub(1))
            },
        }
    }

    /// Takes a reference unless the count is zero (`refcount_inc_not_zero`).
    pub fn try_hold(&self) -> bool {
        self.refs
            .fetch_update(AcqRel, Acquire, |n| (n > 0).then(|| n + 1))
            .is_ok()
    }

    /// Locks the action against changes by other requests. Several actions share a lock.
    fn lock(&self) -> MutexGuard<'_, (), order::Action> {
        self.table().lock(self.index)
    }

    /// Changes the action's entry in `rares`. The caller holds the lock.
    fn change_rare(&self, env: &Env<'_>, change: impl FnOnce(&mut Rare)) {
        let rares = &self.table().rares;
        let mut rare = self.rare(env.guard).cloned().unwrap_or_default();
        change(&mut rare);
        if matches!(
            rare,
            Rare {
                cookie: None,
                chain: None,
                rate: None,
                more: None
            }
        ) {
            if self.flags.fetch_and(!FLAG_RARE, AcqRel) & FLAG_RARE != 0 {
                rares.remove(&self.index, env.guard);
            }
        } else {
            rares.insert(self.index, rare, env.guard);
            self.flags.fetch_or(FLAG_RARE, AcqRel);
        }
    }

    /// Returns the chain that "goto chain" goes to.
    #[inline]
    fn chain<'g>(&'g self, cx: &Context<'_, 'g>) -> Option<&'g Chain> {
        let rare = self.rare(cx.guard)?;
        // If the action has been deleted, its index may already belong to another one.
        if self.refs.load(Acquire) == 0 {
            return None;
        }
        rare.chain.as_deref()
    }

    /// Sets the control action and the chain it goes to (`tcf_action_set_ctrlact`). The caller
    /// holds the lock, and must drop the reference to the returned chain.
    fn set_control(
        &self,
        control: Code,
        chain: Option<Arc<Chain>>,
        env: &Env<'_>,
    ) -> Option<Arc<Chain>> {
        let old = self.rare(env.guard).and_then(|rare| rare.chain.clone());
        // The chain must be set first: a packet that sees the new code must find its chain.
        if chain.is_some() {
            self.change_rare(env, |rare| rare.chain = chain);
            self.control.store(control, Release);
        } else {
            self.control.store(control, Release);
            if old.is_some() {
                self.change_rare(env, |rare| rare.chain = None);
            }
        }
        old
    }

    fn set_cookie(&self, cookie: &[u8], env: &Env<'_>) {
        let _lock = self.lock();
        self.change_rare(env, |rare| rare.cookie = Some(cookie.into()));
    }

    /// Drops the reference to the chain and removes the entry in `rares`.
    fn release(&self, env: &Env<'_>) {
        if let Some(chain) = self.rare(env.guard).and_then(|rare| rare.chain.as_ref()) {
            block::put_by_action(chain, env);
        }
        self.change_rare(env, |rare| *rare = Rare::default());
        env.net.budget().give_action(self.table().ops.size);
    }
}

impl Action {
    /// Releases resources when the last reference is dropped (`tcf_action_cleanup`).
    pub(crate) fn release(&self, env: &Env<'_>) {
        self.kind.release(env);
        self.common.release(env);
    }
}
