// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The traffic control state of a network namespace: actions by kind, shared blocks, and the
//! counter that numbers qdiscs. Before the first use only a pointer is allocated. Automatic qdisc
//! handles are counted over all namespaces of a stack ([`Handles`]).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use weir_conntrack::{Conntrack, Setting, Settings};
use weir_netlink::tca::h;
use weir_sync::order::{self, Mutex, MutexGuard};
use weir_sync::rcu::Domain;

use crate::action;
use crate::block::Block;
use crate::budget::Budget;
use crate::env::Env;
use crate::host::Host;
use crate::psample::Groups;
use crate::qdisc::{Node, noqueue};
use crate::table::{Table, Targets};

/// The number of action kinds.
const KINDS: usize = action::KINDS.len();

#[derive(Default)]
struct Inner {
    actions: [OnceLock<Arc<Table>>; KINDS],
    /// Guards the set of shared blocks. Taken before the lock of a block.
    blocks: Mutex<BTreeMap<u32, Arc<Block>>, order::Blocks>,
    /// The number of qdiscs created.
    nodes: AtomicU32,
    psample: OnceLock<Arc<Groups>>,
    targets: OnceLock<Arc<Targets>>,
    conntrack_settings: OnceLock<Arc<Settings>>,
    conntrack: OnceLock<Arc<Conntrack>>,
    /// There has been an action `balance`.
    looks_up: AtomicBool,
}

/// The handles assigned to a stack's qdiscs that ask for none: from 8001: to fffe:, then 8000: and
/// 8001: again. Linux's `autohandle` in `qdisc_alloc_handle` is global to the machine as well.
#[derive(Debug, Default)]
pub struct Handles {
    /// The number of handles assigned, modulo [`Handles::COUNT`].
    given: AtomicU32,
    /// The `noqueue` of all devices that got it by default. It has no handle, so no request changes it.
    noqueue: OnceLock<Arc<Node>>,
    /// The settings of connection tracking that hold for all namespaces.
    conntrack: Settings,
}

impl Handles {
    const COUNT: u32 = 0x7fff;

    fn next(&self) -> u32 {
        let next = |given| Some((given + 1) % Self::COUNT);
        let (Ok(given) | Err(given)) = self.given.fetch_update(Relaxed, Relaxed, next);
        (0x8000 + (given + 1) % Self::COUNT) << 16
    }

    /// Returns the next handle that is not `taken`, or `None` if all are taken.
    pub(crate) fn free(&self, taken: impl Fn(u32) -> bool) -> Option<u32> {
        let mut all = (0..0x8000).map(|_| self.next());
        all.find(|&handle| !taken(handle))
    }
}

/// The traffic control state of a namespace; see the module's documentation.
pub struct NetTc {
    domain: Domain,
    budget: Arc<Budget>,
    handles: Arc<Handles>,
    /// The seed of the connection table's hashes.
    seed: u64,
    inner: OnceLock<Box<Inner>>,
}

impl std::fmt::Debug for NetTc {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("NetTc")
    }
}

impl NetTc {
    /// Creates the state of a namespace in the stack that `domain`, `budget` and `handles` belong
    /// to.
    pub fn new(domain: &Domain, budget: &Arc<Budget>, handles: &Arc<Handles>) -> Self {
        Self {
            domain: domain.clone(),
            budget: budget.clone(),
            handles: handles.clone(),
            seed: 0,
            inner: OnceLock::new(),
        }
    }

    /// Returns the state with the seed of the connection table.
    pub fn seeded(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Returns the stack's RCU domain.
    pub fn domain(&self) -> &Domain {
        &self.domain
    }

    /// Returns the `noqueue` that devices without a queue have by default.
    pub(crate) fn noqueue(&self) -> &Arc<Node> {
        self.handles.noqueue.get_or_init(|| {
            let node = Node::new(&noqueue::OPS, Box::new(noqueue::Noqueue), 0, h::ROOT, false);
            // Linux attaches it once for each queue. The root is the one of the first queue.
            node.refs.store(2, Relaxed);
            node
        })
    }

    /// Returns the limits on filters and actions.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    fn inner(&self) -> &Inner {
        self.inner.get_or_init(Box::default)
    }

    /// Returns the table of actions of a kind.
    pub fn actions(&self, ops: &'static action::Ops) -> &Arc<Table> {
        let behind = std::ptr::from_ref(ops)
            .addr()
            .wrapping_sub(action::KINDS.as_ptr().addr());
        let number = behind / size_of::<action::Ops>();
        // Every `Ops` is an element of the table; any other would share the first place, which does
        // no harm.
        let actions = &self.inner().actions;
        let place = actions.get(number).unwrap_or(&actions[0]);
        place.get_or_init(|| Arc::new(Table::new(ops, &self.domain, self.targets())))
    }

    /// Returns the table of actions of a kind, if the namespace has ever had an action or a filter.
    pub fn actions_if_used(&self, ops: &'static action::Ops) -> Option<&Arc<Table>> {
        self.inner.get().map(|_| self.actions(ops))
    }

    fn targets(&self) -> &Arc<Targets> {
        let targets = &self.inner().targets;
        targets.get_or_init(|| Arc::new(Targets::new(&self.domain)))
    }

    /// Registers a device that an action refers to, unless it is already registered. The device is
    /// looked up by index and checked by key; a device that has been unregistered since is not
    /// added.
    pub(crate) fn target(&self, ifindex: u32, key: u64, env: &Env<'_>) {
        let (targets, guard) = (self.targets(), env.guard);
        if targets.contains(&key, guard) {
            return;
        }
        let device = env.host.device(ifindex);
        let Some(device) = device.filter(|device| device.key() == key) else {
            return;
        };
        targets.insert(key, device.clone(), guard);
        // The device may have been unregistered before it was added.
        if !device.is_registered() {
            targets.remove(&key, guard);
        }
    }

    /// Returns the settings of connection tracking. They are there before the table is.
    pub fn conntrack_settings(&self) -> &Arc<Settings> {
        let place = &self.inner().conntrack_settings;
        place.get_or_init(|| Arc::new(Settings::sharing(&self.handles.conntrack)))
    }

    /// Sets a setting of connection tracking that holds for all namespaces, for those that will be made.
    pub fn set_conntrack_limit(&self, setting: Setting, value: u32) {
        self.handles.conntrack.set(setting, value);
    }

    /// Returns the connection table, which the first call makes. Returns `None` without address space.
    pub fn conntrack(&self) -> Option<&Arc<Conntrack>> {
        let place = &self.inner().conntrack;
        if let made @ Some(_) = place.get() {
            return made;
        }
        let made = Conntrack::new(self.conntrack_settings(), self.seed)?;
        Some(place.get_or_init(|| Arc::new(made)))
    }

    /// Returns the connection table, if there is one.
    #[inline]
    pub fn conntrack_if_used(&self) -> Option<&Arc<Conntrack>> {
        self.inner.get()?.conntrack.get()
    }

    /// Notes that the namespace has actions, other than `ct`, with memory that packets are looked up in.
    pub fn look_up(&self) {
        self.inner().looks_up.store(true, Relaxed);
    }

    /// Returns whether it has had such actions.
    #[inline]
    pub fn looks_up(&self) -> bool {
        let inner = self.inner.get();
        inner.is_some_and(|inner| inner.looks_up.load(Relaxed))
    }

    /// Returns the groups of sampled packets.
    pub fn psample(&self, host: &dyn Host) -> Arc<Groups> {
        let groups = &self.inner().psample;
        groups
            .get_or_init(|| Arc::new(Groups::new(host.generic())))
            .clone()
    }

    fn blocks(&self) -> MutexGuard<'_, BTreeMap<u32, Arc<Block>>, order::Blocks> {
        self.inner().blocks.lock()
    }

    /// Returns the shared block with an index.
    pub fn block(&self, index: u32) -> Option<Arc<Block>> {
        self.blocks().get(&index).cloned()
    }

    /// Returns the shared block with an index, created if necessary, and adds an owner
    /// (`tcf_block_get_ext` with an index).
    pub(crate) fn own_block(&self, index: u32) -> Arc<Block> {
        let mut blocks = self.blocks();
        if let Some(block) = blocks.get(&index).filter(|block| block.add_owner()) {
            return block.clone();
        }
        let block = Block::new(&self.domain, index, None);
        blocks.insert(index, block.clone());
        block
    }

    /// Removes a dead block.
    pub(crate) fn forget_block(&self, block: &Block) {
        if block.is_shared() {
            let mut blocks = self.blocks();
            if blocks
                .get(&block.index)
                .is_some_and(|other| std::ptr::eq(&**other, block))
            {
                blocks.remove(&block.index);
            }
        }
    }

    /// Returns the handles assigned to qdiscs that ask for none.
    pub(crate) fn handles(&self) -> &Handles {
        &self.handles
    }

    /// Returns the number for the next qdisc.
    pub(crate) fn node_number(&self) -> u32 {
        self.inner().nodes.fetch_add(1, Relaxed)
    }

    /// Drops the references of actions to a device that has been unregistered.
    pub fn device_gone(&self, key: u64) {
        let inner = self.inner.get();
        if let Some(targets) = inner.and_then(|inner| inner.targets.get()) {
            targets.remove(&key, &self.domain.pin());
        }
        for table in self.inner.get().iter().flat_map(|inner| &inner.actions) {
            let Some(table) = table.get() else { continue };
            let mut from = Some(1);
            while let Some((index, action)) = from.and_then(|from| table.next(from)) {
                action.kind.device_gone(key);
                from = index.checked_add(1);
            }
        }
    }

    /// Deletes the actions of a namespace that is being removed. The qdiscs of its devices are
    /// already destroyed.
    pub fn shutdown(&self, env: &Env<'_>) {
        for table in self.inner.get().iter().flat_map(|inner| &inner.actions) {
            if let Some(table) = table.get() {
                table.flush(env);
            }
        }
        if let Some(inner) = self.inner.get() {
            inner
                .targets
                .get()
                .iter()
                .for_each(|all| all.clear(env.guard));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_count_from_8001_to_fffe_and_on_from_8000() {
        let handles = Handles::default();
        let given: Vec<u32> = (0..0x8001).map(|_| handles.next() >> 16).collect();
        assert_eq!(given[..2], [0x8001, 0x8002]);
        assert_eq!(given[0x7ffd..], [0xfffe, 0x8000, 0x8001, 0x8002]);
    }

    #[test]
    fn taken_handles_are_skipped() {
        let handles = Handles::default();
        assert_eq!(
            handles.free(|handle| handle < 0x8003_0000),
            Some(0x8003_0000)
        );
        assert_eq!(handles.free(|_| true), None);
    }
}
