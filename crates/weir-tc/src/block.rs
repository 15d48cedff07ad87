// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A block: the chains of one hook, or of several hooks that share it.
//!
//! Mirrors `struct tcf_block` and the reference counts of its chains (net/sched/cls_api.c).
//! References to a chain are held by its classifier instances, by actions that go to it, and by its
//! explicit creation with `tc chain add`. A chain that only actions hold is not shown to clients.
//! Packets start at chain 0.
//!
//! Reference counts and the state clients see change immediately; memory is freed by RCU. When the
//! last qdisc releases a block, its chains are emptied and the block is dead. Requests that still
//! hold a dead block start over.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use weir_netlink::{Error, TCM_IFINDEX_MAGIC_BLOCK, TcMsg, Writer, nlm, rtm, tca};
use weir_packet::Packet;
use weir_sync::hash::RcuHash;
use weir_sync::order::{self, Mutex, MutexGuard};
use weir_sync::primitive::atomic::{AtomicU32, AtomicU64, Ordering::*};
use weir_sync::rcu::{Domain, Guard, PublishedOption};

use crate::chain::{Chain, Proto};
use crate::classifier::Template;
use crate::context::Context;
use crate::env::{Env, Requester};
use crate::host::Device;
use crate::verdict::{Code, Outcome, code};

/// A chain's entry in its block.
struct Entry {
    chain: Arc<Chain>,
}

impl Entry {
    fn held_by_actions_only(&self) -> bool {
        self.chain.holds.get().plain == 0
    }
}

/// The references of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Held {
    /// References held by instances, by requests and by the explicit creation.
    plain: u32,
    /// References held by actions.
    actions: u32,
    /// One of the `plain` references is that of the explicit creation.
    explicit: bool,
}

impl Held {
    fn to_word(self) -> u64 {
        u64::from(self.plain) << 32 | u64::from(self.explicit) << 31 | u64::from(self.actions)
    }

    fn of_word(word: u64) -> Self {
        Self {
            plain: (word >> 32) as u32,
            explicit: word >> 31 & 1 != 0,
            actions: word as u32 & 0x7fff_ffff,
        }
    }

    fn is_none(self) -> bool {
        (self.plain, self.actions) == (0, 0)
    }
}

/// A chain's reference counts in one word. They change under the block's lock. The only exceptions
/// are requests that join a chain others hold, or leave it while others still hold it: these only
/// do a compare-and-swap of the word.
#[derive(Debug, Default)]
pub(crate) struct Holds(AtomicU64);

impl Holds {
    fn get(&self) -> Held {
        Held::of_word(self.0.load(Acquire))
    }

    /// Updates the word with a compare-and-swap loop and returns the new value. Returns `None` and
    /// changes nothing if `change` returns `None`.
    fn change(&self, change: impl Fn(Held) -> Option<Held>) -> Option<Held> {
        let mut word = self.0.load(Acquire);
        loop {
            let new = change(Held::of_word(word))?;
            match self
                .0
                .compare_exchange_weak(word, new.to_word(), AcqRel, Acquire)
            {
                Ok(_) => return Some(new),
                Err(now) => word = now,
            }
        }
    }

    /// Takes a plain reference if another plain reference exists.
    fn join(&self) -> bool {
        let more = |held: Held| {
            (held.plain > 0).then(|| Held {
                plain: held.plain + 1,
                ..held
            })
        };
        self.change(more).is_some()
    }

    /// Drops a plain reference if it is not the last one besides that of the explicit creation.
    fn leave(&self) -> bool {
        let less = |held: Held| {
            let plain = held.plain.checked_sub(1)?;
            (plain > u32::from(held.explicit)).then_some(Held { plain, ..held })
        };
        self.change(less).is_some()
    }
}

#[derive(Default)]
struct State {
    /// The chains in order of creation, which is also the order of dumps.
    chains: BTreeMap<u64, Entry>,
    by_index: BTreeMap<u32, u64>,
    next: u64,
    /// The number of qdiscs that use the block.
    owners: u32,
    dead: bool,
}

impl State {
    fn entry(&mut self, index: u32) -> Option<&mut Entry> {
        self.chains.get_mut(self.by_index.get(&index)?)
    }
}

/// The place of a block that is not shared, for messages about its chains.
#[derive(Clone)]
pub struct Owner {
    /// The device.
    pub device: Weak<dyn Device>,
    /// The qdisc's handle.
    pub handle: u32,
}

/// The state that the instances of a classifier kind share within a qdisc, if the kind has any
/// (`tc_u_common`). It lives as long as the instances.
pub type Shelf = Arc<Mutex<Weak<dyn Any + Send + Sync>, order::Shelf>>;

/// The chains of one hook or of several hooks; see the module's documentation.
pub struct Block {
    /// The number in the namespace; 0 if the block is not shared.
    pub index: u32,
    owner: Option<Owner>,
    /// All blocks of a qdisc have the same one; a shared block has its own.
    pub(crate) shelf: Shelf,
    domain: Domain,
    /// Chain 0, where packets start.
    chain0: PublishedOption<Arc<Chain>>,
    /// The other chains by number, for requests.
    others: RcuHash<u32, Arc<Chain>>,
    /// The class the last filter was added under (`block->classid`).
    classid: AtomicU32,
    /// Guards the set of chains and the owners. Taken before a chain's lock, never after it.
    state: Mutex<State, order::Block>,
}

impl std::fmt::Debug for Block {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Block")
            .field("index", &self.index)
            .finish_non_exhaustive()
    }
}

/// The kind of a reference to a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hold {
    /// Held by a classifier instance or a request.
    Plain,
    /// Held by an action.
    Action,
    /// Held by the explicit creation.
    Explicit,
}

impl Block {
    /// Creates a block with one owner. The block is shared under `index`, or belongs to `owner` if
    /// `index` is 0.
    pub fn new(domain: &Domain, index: u32, owner: Option<Owner>) -> Arc<Self> {
        struct Nothing;
        let shelf: Weak<dyn Any + Send + Sync> = Weak::<Nothing>::new();
        Self::with_shelf(domain, index, owner, Arc::new(Mutex::new(shelf)))
    }

    /// Creates another block of the qdisc that `other` belongs to.
    pub fn beside(other: &Self) -> Arc<Self> {
        Self::with_shelf(&other.domain, 0, other.owner.clone(), other.shelf.clone())
    }

    fn with_shelf(domain: &Domain, index: u32, owner: Option<Owner>, shelf: Shelf) -> Arc<Self> {
        Arc::new(Self {
            index,
            owner,
            shelf,
            domain: domain.clone(),
            chain0: PublishedOption::new(domain, None),
            others: RcuHash::new(domain),
            classid: AtomicU32::new(0),
            state: Mutex::new(State {
                owners: 1,
                ..State::default()
            }),
        })
    }

    /// Returns the handle of the qdisc that owns the block, or `None` if the block is shared.
    pub fn qdisc(&self) -> Option<u32> {
        Some(self.owner.as_ref()?.handle)
    }

    /// Returns whether the block is shared by index.
    pub fn is_shared(&self) -> bool {
        self.index != 0
    }

    /// Returns whether the block is one of `ingress` or `clsact`, or shared (`is_ingress_or_clsact`).
    pub fn is_at_edge(&self) -> bool {
        self.qdisc().is_none_or(|handle| handle >> 16 == 0xffff)
    }

    fn state(&self) -> MutexGuard<'_, State, order::Block> {
        self.state.lock()
    }

    /// Adds a qdisc as an owner. Returns `false` if the block is dead.
    pub(crate) fn add_owner(&self) -> bool {
        let mut state = self.state();
        state.owners += u32::from(!state.dead);
        !state.dead
    }

    /// Removes a qdisc as an owner. The last one to go empties the block.
    pub(crate) fn drop_owner(&self, env: &Env<'_>) {
        let chains = {
            let mut state = self.state();
            state.owners -= 1;
            if state.owners > 0 {
                return;
            }
            state.dead = true;
            state
                .chains
                .values()
                .map(|entry| entry.chain.clone())
                .collect::<Vec<_>>()
        };
        env.net.forget_block(self);
        for chain in chains {
            // This reference keeps the chain alive while it is emptied.
            if self.hold(&chain) {
                self.put(&chain, Hold::Explicit, env);
                self.flush(&chain, env);
                self.put(&chain, Hold::Plain, env);
            }
        }
    }

    /// Records the class a filter was added under.
    pub(crate) fn set_classid(&self, classid: u32) {
        if self.classid.load(Relaxed) != classid {
            self.classid.store(classid, Relaxed);
        }
    }

    /// Returns the class that filters are shown under.
    pub fn classid(&self) -> u32 {
        self.classid.load(Relaxed)
    }

    /// Returns whether a filter refers to the class.
    pub fn refers_to_class(&self, classid: u32) -> bool {
        let mut from = 0;
        while let Some((seq, chain)) = self.next_chain(from) {
            from = seq + 1;
            for proto in chain.protos() {
                let mut place = 0;
                while let Some((at, filter)) = proto.classifier.next(place) {
                    place = at + 1;
                    if filter.exts().classid == classid {
                        return true;
                    }
                }
            }
        }
        false
    }

    /// Returns whether chain 0 has no filters.
    #[inline]
    pub fn is_empty(&self, cx: &Context<'_, '_>) -> bool {
        self.chain0
            .load(cx.guard)
            .is_none_or(|chain| chain.is_empty(cx))
    }

    /// Returns chain 0, where packets start, or `None` if it has no filters.
    #[inline]
    pub(crate) fn first_chain<'g>(&'g self, cx: &Context<'_, 'g>) -> Option<&'g Chain> {
        let chain: &Chain = self.chain0.load(cx.guard)?;
        (!chain.is_empty(cx)).then_some(chain)
    }

    /// Classifies a packet, starting at chain 0 (`tcf_classify`).
    #[inline]
    pub fn classify<'g>(
        &'g self,
        cx: &mut Context<'_, 'g>,
        packet: &mut Packet,
        out: &mut Outcome<'g>,
    ) -> Code {
        match self.chain0.load(cx.guard) {
            Some(chain) => chain.classify(cx, packet, out),
            None => code::UNSPEC,
        }
    }

    /// Creates a chain without references.
    fn create(self: &Arc<Self>, state: &mut State, index: u32) -> Arc<Chain> {
        let chain = Chain::new(&self.domain, self, index);
        let entry = Entry {
            chain: chain.clone(),
        };
        let seq = state.next;
        state.next += 1;
        state.chains.insert(seq, entry);
        state.by_index.insert(index, seq);
        if index == 0 {
            self.chain0.replace(Some(chain.clone()));
        } else {
            let guard = self.domain.pin();
            self.others.insert(index, chain.clone(), &guard);
        }
        chain
    }

    /// Finds a chain by number, without a lock and without taking a reference.
    pub(crate) fn find<'g>(&'g self, index: u32, guard: &'g Guard) -> Option<&'g Arc<Chain>> {
        match index {
            0 => self.chain0.load(guard),
            _ => self.others.get(&index, guard),
        }
    }

    /// Finds a chain by number and takes a reference (`tcf_chain_get`). If `create` is set, creates
    /// a missing chain; `None` then means that the block is dead.
    pub(crate) fn get_chain(
        self: &Arc<Self>,
        index: u32,
        create: bool,
        env: &Env<'_>,
    ) -> Option<Arc<Chain>> {
        if let Some(chain) = self.find(index, env.guard)
            && chain.holds.join()
        {
            return Some(chain.clone());
        }
        let (chain, first) = {
            let mut state = self.state();
            let dead = state.dead;
            let chain = match state.entry(index) {
                // Nothing may be added to a block that is being emptied.
                _ if dead => return None,
                Some(entry) => entry.chain.clone(),
                None if create => self.create(&mut state, index),
                None => return None,
            };
            let held = chain.holds.change(add_plain);
            (chain, held.is_some_and(|held| held.plain == 1))
        };
        if first {
            self.notify_chain(rtm::NEWCHAIN, NEW, index, None, env);
        }
        Some(chain)
    }

    /// Finds or creates the chain an action goes to, and takes an action's reference
    /// (`tcf_chain_get_by_act`).
    pub(crate) fn get_chain_for_action(self: &Arc<Self>, index: u32) -> Option<Arc<Chain>> {
        let mut state = self.state();
        let dead = state.dead;
        let chain = match state.entry(index) {
            Some(entry) => entry.chain.clone(),
            None if !dead => self.create(&mut state, index),
            None => return None,
        };
        chain.holds.change(|held| {
            let actions = held.actions + 1;
            Some(Held { actions, ..held })
        });
        Some(chain)
    }

    /// Takes a plain reference to a known chain. Returns `false` if the chain is no longer in the
    /// block.
    fn hold(&self, chain: &Arc<Chain>) -> bool {
        let mut state = self.state();
        match state.entry(chain.index) {
            Some(entry) if Arc::ptr_eq(&entry.chain, chain) => {
                chain.holds.change(add_plain).is_some()
            }
            _ => false,
        }
    }

    /// Drops a reference of the given kind (`__tcf_chain_put`).
    fn put(&self, chain: &Arc<Chain>, how: Hold, env: &Env<'_>) {
        if how == Hold::Plain && chain.holds.leave() {
            return;
        }
        let (visible_end, gone) = {
            let mut state = self.state();
            let Some(entry) = state.entry(chain.index) else {
                return;
            };
            if !Arc::ptr_eq(&entry.chain, chain) {
                return;
            }
            let held = chain.holds.change(|held| {
                let fewer = |count: u32| count.checked_sub(1);
                Some(match how {
                    Hold::Action => Held {
                        actions: fewer(held.actions)?,
                        ..held
                    },
                    Hold::Explicit if !held.explicit => return None,
                    Hold::Explicit => Held {
                        plain: fewer(held.plain)?,
                        explicit: false,
                        ..held
                    },
                    Hold::Plain => Held {
                        plain: fewer(held.plain)?,
                        ..held
                    },
                })
            });
            let Some(held) = held else { return };
            let mut visible_end = None;
            if held.plain == u32::from(held.explicit) && how != Hold::Action {
                if held.plain == 0 {
                    visible_end = Some(chain.template.load(env.guard).cloned());
                    chain.template.replace(None);
                }
                chain.lock().flushing = false;
            }
            let gone = if held.is_none() {
                self.detach(&mut state, chain.index)
            } else {
                None
            };
            (visible_end, gone)
        };
        drop(gone);
        if let Some(template) = visible_end {
            let by = Requester::default();
            self.notify_chain(rtm::DELCHAIN, by, chain.index, template.as_deref(), env);
        }
    }

    fn detach(&self, state: &mut State, index: u32) -> Option<Entry> {
        let seq = state.by_index.remove(&index)?;
        if index == 0 {
            self.chain0.replace(None);
        } else {
            self.others.remove(&index, &self.domain.pin());
        }
        state.chains.remove(&seq)
    }

    /// Drops a plain reference (`tcf_chain_put`).
    pub(crate) fn put_chain(&self, chain: &Arc<Chain>, env: &Env<'_>) {
        self.put(chain, Hold::Plain, env);
    }

    /// Drops the reference of the explicit creation (`tcf_chain_put_explicitly_created`).
    pub(crate) fn put_explicit(&self, chain: &Arc<Chain>, env: &Env<'_>) {
        self.put(chain, Hold::Explicit, env);
    }

    /// Returns the chain's template if `tc chain add` gave it one.
    pub(crate) fn template(&self, index: u32, guard: &Guard) -> Option<Arc<dyn Template>> {
        self.find(index, guard)?.template.load(guard).cloned()
    }

    pub(crate) fn set_template(&self, index: u32, template: Arc<dyn Template>) {
        if let Some(entry) = self.state().entry(index) {
            entry.chain.template.replace(Some(template));
        }
    }

    /// Does the first half of RTM_NEWCHAIN: creates the chain with two references, one for the
    /// request and one for the explicit creation.
    pub(crate) fn create_explicit(
        self: &Arc<Self>,
        index: u32,
        may_create: bool,
    ) -> Result<Arc<Chain>, NotCreated> {
        let mut state = self.state();
        let dead = state.dead;
        let chain = match state.entry(index) {
            Some(entry) if entry.held_by_actions_only() => entry.chain.clone(),
            Some(_) => return Err(NotCreated::Exists),
            None if dead => return Err(NotCreated::Dead),
            None if !may_create => return Err(NotCreated::NotAsked),
            None => self.create(&mut state, index),
        };
        chain.holds.change(|held| {
            Some(Held {
                plain: held.plain + 2,
                explicit: true,
                ..held
            })
        });
        Ok(chain)
    }

    /// Finds a chain that is visible to clients and takes a reference.
    pub(crate) fn get_visible(&self, index: u32) -> Option<Arc<Chain>> {
        let mut state = self.state();
        let entry = state
            .entry(index)
            .filter(|entry| !entry.held_by_actions_only())?;
        entry.chain.holds.change(add_plain);
        Some(entry.chain.clone())
    }

    /// Returns the first chain visible to clients at position `from` or later in the order of
    /// creation, with its position.
    pub fn next_chain(&self, from: u64) -> Option<(u64, Arc<Chain>)> {
        let state = self.state();
        let mut rest = state.chains.range(from..);
        let (&seq, entry) = rest.find(|(_, entry)| !entry.held_by_actions_only())?;
        Some((seq, entry.chain.clone()))
    }

    /// Removes all filters of a chain (`tcf_chain_flush`). The caller holds a reference.
    pub(crate) fn flush(&self, chain: &Arc<Chain>, env: &Env<'_>) {
        let protos = {
            let mut state = chain.lock();
            state.flushing = true;
            let protos = std::mem::take(&mut state.list);
            chain.publish(&state);
            protos
        };
        for proto in protos {
            self.destroy_proto(chain, &proto, env);
        }
    }

    /// Destroys an instance that was removed from its chain's list, and drops its reference to the
    /// chain (`tcf_proto_destroy`).
    pub(crate) fn destroy_proto(&self, chain: &Arc<Chain>, proto: &Arc<Proto>, env: &Env<'_>) {
        proto.classifier.destroy(env);
        self.put_chain(chain, env);
    }

    /// Fills in the header of a message about the block.
    pub(crate) fn address(&self, tcm: &mut TcMsg) {
        match &self.owner {
            Some(owner) => {
                tcm.ifindex = owner
                    .device
                    .upgrade()
                    .map_or(0, |device| device.ifindex() as i32);
                tcm.parent = owner.handle;
            }
            None => {
                tcm.ifindex = TCM_IFINDEX_MAGIC_BLOCK;
                tcm.parent = self.index;
            }
        }
    }

    /// Encodes a message about a chain (`tc_chain_fill_node`).
    pub(crate) fn dump_chain(
        &self,
        w: &mut Writer,
        ty: u16,
        (by, flags): (Requester, u16),
        index: u32,
        template: Option<&dyn Template>,
        env: &Env<'_>,
    ) -> Result<(), Error> {
        let mark = w.message(ty, flags, by.seq, by.portid);
        let mut tcm = TcMsg::default();
        self.address(&mut tcm);
        w.fixed(&tcm);
        w.put_u32(tca::CHAIN, index);
        if let Some(template) = template {
            w.put_str(tca::KIND, template.ops().kind);
            template.dump(w, env);
        }
        w.finish(mark).map_err(Error::from)
    }

    /// Notifies listeners about a chain (`tc_chain_notify`, `tc_chain_notify_delete`).
    /// Notifications for requests about chains have no sequence number, as in Linux.
    pub(crate) fn notify_chain(
        &self,
        ty: u16,
        by: Requester,
        index: u32,
        template: Option<&dyn Template>,
        env: &Env<'_>,
    ) {
        if !env.notify_needed(&by) {
            return;
        }
        let current = self.template(index, env.guard);
        let template = template.or(current.as_deref());
        let mut w = Writer::new();
        if self
            .dump_chain(&mut w, ty, (by, by.flags), index, template, env)
            .is_ok()
        {
            env.notify(&by, None, w.bytes());
        }
    }
}

fn add_plain(held: Held) -> Option<Held> {
    let plain = held.plain + 1;
    Some(Held { plain, ..held })
}

/// The flags of a notification of a new chain.
pub(crate) const NEW: Requester = Requester {
    portid: 0,
    seq: 0,
    flags: nlm::F_CREATE | nlm::F_EXCL,
};

/// The reason why [`Block::create_explicit`] created nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotCreated {
    /// The chain exists.
    Exists,
    /// The chain does not exist and the request did not ask for its creation.
    NotAsked,
    /// The block is dead.
    Dead,
}

/// Drops an action's reference to the chain it goes to (`tcf_chain_put_by_act`).
pub(crate) fn put_by_action(chain: &Arc<Chain>, env: &Env<'_>) {
    if let Some(block) = chain.block() {
        block.put(chain, Hold::Action, env);
    }
}

#[cfg(all(test, loom))]
mod loom_models;
