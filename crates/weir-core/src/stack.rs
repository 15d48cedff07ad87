// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The stack: everything that one embedding program or one `weir run` owns. No part of it is
//! global.
//!
//! A [`Stack`] is a cheap handle. Control requests go through `weir_stack::Connection`
//! from any thread. Packets move on the CPUs ([`crate::cpu::Cpu`]), which the embedding program
//! runs itself.

use std::collections::BTreeMap;
use std::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::AcqRel, Ordering::Relaxed,
};
use std::sync::{Arc, OnceLock};

use weir_packet::Pool;
use weir_sync::hash::RcuHash;
use weir_sync::lane::Lanes;
use weir_sync::order::{self, Mutex, MutexGuard};
use weir_sync::percpu::PerCpu;
use weir_sync::rcu::{self, Domain, Guard, Published};

use crate::clock::{Clock, Holds, TimerId, Timers};
use crate::cpu::Cx;
use crate::device::{Device, DeviceKey, Observer};
use crate::drops::{DropCounters, DropObserver};
use crate::layers::{Hearers, Inherited, Layers, NamespaceEvent, PROTOCOLS, PacketType};
use crate::namespace::{Global, Namespace, NsId, Slot};
use crate::parts::StackParts;
use crate::posted::Posted;
use crate::steer::Softnet;
use crate::trace::TraceLog;

/// Work for a stack CPU: an expired timer, or a job that control code leaves to the datapath.
pub type Job = Box<dyn FnOnce(&mut Cx<'_>) + Send>;

/// The configuration of a new stack.
#[derive(Debug, Clone)]
pub struct Config {
    /// Use virtual time instead of the machine's clock.
    pub virtual_time: bool,
    /// The seed of all generators of the stack.
    pub seed: u64,
    /// The number of stack CPUs.
    pub cpus: usize,
    /// Whether hosts send packets of themselves when a link comes up and when they join or leave a
    /// group: router solicitations and reports of memberships (MLD, IGMP).
    pub link_chatter: bool,
    /// Whether packets carry a record of the filters they hit.
    pub trace: bool,
    /// The configuration of RCU callbacks.
    pub rcu: rcu::Config,
    /// The maximum number of filters in all namespaces together; `None` means no limit.
    pub max_rules: Option<u64>,
    /// The maximum memory of filters and actions in all namespaces together, in bytes as
    /// [`weir_tc::budget`] counts them; `None` means no limit.
    pub max_memory: Option<u64>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            virtual_time: true,
            seed: 1,
            cpus: 1,
            link_chatter: false,
            trace: false,
            rcu: rcu::Config::default(),
            max_rules: None,
            max_memory: None,
        }
    }
}

/// The state that all handles of a stack share.
pub struct Shared {
    /// The configuration the stack was created with.
    pub config: Config,
    /// The stack's RCU domain.
    pub domain: Domain,
    /// The limits on filters and actions.
    pub budget: Arc<weir_tc::Budget>,
    /// The automatically assigned qdisc handles, shared by all namespaces.
    qdisc_handles: Arc<weir_tc::Handles>,
    /// The sysctls that exist once per stack.
    global: Arc<Global>,
    /// Separates connections that add rules concurrently.
    pub lanes: Arc<Lanes>,
    /// The packet memory pool.
    pub pool: Pool,
    /// The stack's only clock.
    pub clock: Arc<Clock>,
    /// The armed timers. Their lock is last in the lock order.
    pub timers: Timers<Job>,
    /// The trace notes of packets, if tracing is on.
    pub trace: TraceLog,
    /// Counts packets dropped for devices that had been removed.
    pub gone: DropCounters,
    /// The frames each CPU has received (`softnet_data.processed`).
    pub received: PerCpu<AtomicU64>,
    /// The stage counters of each CPU.
    pub stages: PerCpu<OnceLock<Arc<crate::stages::Cells>>>,
    /// The steering of received packets to CPUs.
    pub softnet: Arc<Softnet>,
    /// The observers of all devices, and of dropped packets. They change under `watching`.
    observers: Published<Vec<Arc<dyn Observer>>>,
    drop_observers: Published<Vec<Arc<dyn DropObserver>>>,
    watching: Mutex<(), order::Watching>,
    /// The floors above the core.
    pub layers: &'static Layers,
    /// The protocols of all modules, in their order.
    pub packet_types: Box<[PacketType]>,
    /// The modules that hear of devices, in their order.
    pub(crate) device_hearers: Hearers,
    /// What modules have here.
    pub parts: StackParts,
    measuring: AtomicBool,
    namespaces: Mutex<Namespaces, order::Namespaces>,
    /// The initial namespace, once it is made.
    initial: OnceLock<Arc<Namespace>>,
    devices: RcuHash<DeviceKey, Arc<Device>>,
    /// While this is set, virtual time stands still: [`Cpu::run_until`](crate::cpu::Cpu::run_until)
    /// returns.
    pub interrupt: Arc<AtomicBool>,
    posted: Posted<Job>,
    waker: Mutex<Option<Box<dyn Fn() + Send>>, order::Waker>,
    last_namespace: AtomicU64,
    last_device: AtomicU32,
    /// The number of handles. [`ENDING`] is set once the last one has been dropped.
    handles: AtomicUsize,
}

/// The namespaces of a stack.
#[derive(Default)]
struct Namespaces {
    slots: BTreeMap<NsId, Arc<Slot>>,
    /// What namespaces that were never used will take over. Those that take over nothing are not here.
    inherited: BTreeMap<NsId, Arc<Inherited>>,
}

/// A flag in [`Shared::handles`], set while the last handle tears the stack down. During that time,
/// destructors may create and drop handles.
const ENDING: usize = 1 << (usize::BITS - 1);

/// A handle of a stack; see the module documentation.
pub struct Stack(Arc<Shared>);

impl std::ops::Deref for Stack {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}

fn lock<T, C: order::Class>(mutex: &Mutex<T, C>) -> MutexGuard<'_, T, C> {
    mutex.lock()
}

impl Shared {
    /// Returns the number of devices made so far, which is the key of the last one.
    pub fn devices_made(&self) -> u32 {
        self.last_device.load(Relaxed)
    }

    /// Returns the observers of all devices.
    #[inline]
    pub fn observers<'g>(&'g self, guard: &'g Guard) -> &'g [Arc<dyn Observer>] {
        self.observers.load(guard)
    }

    /// Returns the observers of dropped packets.
    #[inline]
    pub fn drop_observers<'g>(&'g self, guard: &'g Guard) -> &'g [Arc<dyn DropObserver>] {
        self.drop_observers.load(guard)
    }

    /// Adds an observer of all devices, those that are still to come included.
    pub fn observe(&self, observer: Arc<dyn Observer>) {
        self.change(&self.observers, |all| all.push(observer));
    }

    /// Removes an observer of all devices.
    pub fn unobserve(&self, observer: &Arc<dyn Observer>) {
        let other = |one: &Arc<dyn Observer>| !Arc::ptr_eq(one, observer);
        self.change(&self.observers, |all| all.retain(other));
    }

    /// Adds an observer of dropped packets.
    pub fn observe_drops(&self, observer: Arc<dyn DropObserver>) {
        self.change(&self.drop_observers, |all| all.push(observer));
    }

    /// Removes an observer of dropped packets.
    pub fn unobserve_drops(&self, observer: &Arc<dyn DropObserver>) {
        let other = |one: &Arc<dyn DropObserver>| !Arc::ptr_eq(one, observer);
        self.change(&self.drop_observers, |all| all.retain(other));
    }

    fn change<T: Clone + Send + Sync + 'static>(
        &self,
        list: &Published<Vec<T>>,
        by: impl FnOnce(&mut Vec<T>),
    ) {
        let _watching = self.watching.lock();
        let guard = self.domain.pin();
        let mut all = list.load(&guard).clone();
        by(&mut all);
        list.replace(all);
    }
}

impl Stack {
    /// Makes a stack of these layers with its initial namespace.
    pub fn new(config: Config, layers: &'static Layers) -> Self {
        let mut parts = StackParts::default();
        for fill in layers.modules.iter().filter_map(|module| module.stack) {
            fill(&mut parts);
        }
        let types = layers.modules.iter().flat_map(|module| module.packet_types);
        let types: Box<[PacketType]> = types.copied().collect();
        debug_assert!(types.len() <= PROTOCOLS, "a protocol would not be received");
        let domain = Domain::new(config.rcu.clone());
        let clock = if config.virtual_time {
            Arc::new(Clock::new_virtual())
        } else {
            Arc::new(Clock::new_real())
        };
        let stack = Self(Arc::new(Shared {
            budget: Arc::new(
                weir_tc::Budget::new(config.max_rules, config.max_memory).freeing(&domain),
            ),
            qdisc_handles: Arc::default(),
            global: Arc::default(),
            lanes: Arc::default(),
            pool: Pool::new(weir_packet::PoolConfig::default()),
            clock,
            timers: Timers::default(),
            trace: TraceLog::new(config.trace),
            gone: DropCounters::default(),
            received: PerCpu::new(),
            stages: PerCpu::new(),
            softnet: Arc::new(Softnet::new(&domain, config.cpus, !config.virtual_time)),
            observers: Published::new(&domain, Vec::new()),
            drop_observers: Published::new(&domain, Vec::new()),
            watching: Mutex::default(),
            layers,
            packet_types: types,
            device_hearers: Hearers::of(layers.modules),
            parts,
            measuring: AtomicBool::new(false),
            namespaces: Mutex::default(),
            initial: OnceLock::new(),
            devices: RcuHash::new(&domain),
            interrupt: Arc::default(),
            posted: Posted::default(),
            waker: Mutex::default(),
            last_namespace: AtomicU64::new(0),
            last_device: AtomicU32::new(0),
            handles: AtomicUsize::new(1),
            config,
            domain,
        }));
        let initial = stack.create_namespace();
        stack.initial.get_or_init(|| initial);
        stack
    }

    /// The id of the initial namespace.
    pub const INITIAL: NsId = NsId(1);

    /// Creates a namespace from the initial one, as [`add_namespace_from`](Self::add_namespace_from).
    pub fn add_namespace(&self) -> NsId {
        self.add_namespace_from(Self::INITIAL)
    }

    /// Creates a namespace for a process of the namespace `creator` (`copy_net_ns`) and returns its id. The
    /// namespace is one small object until [`namespace`](Self::namespace) is asked for it. It takes over
    /// settings as they are now ([`Layers::inherit`]).
    pub fn add_namespace_from(&self, creator: NsId) -> NsId {
        let initial = self.initial.get();
        let last = || {
            let namespaces = lock(&self.namespaces);
            namespaces.inherited.values().next_back().cloned()
        };
        let inherit = |ns| (self.layers.inherit)(self, ns, creator, &last);
        let inherited = initial.and_then(|ns| inherit(ns));
        let id = NsId(self.last_namespace.fetch_add(1, Relaxed) + 1);
        let mut namespaces = lock(&self.namespaces);
        namespaces.slots.insert(id, Arc::default());
        if let Some(inherited) = inherited {
            namespaces.inherited.insert(id, inherited);
        }
        id
    }

    /// Creates a namespace with a loopback device that is down, and returns it.
    pub fn create_namespace(&self) -> Arc<Namespace> {
        let id = self.add_namespace();
        // Only the caller could remove the namespace, and it does not know the id yet.
        let ns = self.namespace(id);
        ns.expect("a new namespace is there")
    }

    /// Fills a namespace that is used for the first time: its tables, and a loopback device.
    fn fill_namespace(&self, id: NsId) -> Arc<Namespace> {
        let seed = crate::random::seed_of(self.config.seed, &format!("namespace {}", id.0));
        let inherited = lock(&self.namespaces).inherited.remove(&id);
        let ns = Arc::new(Namespace::new(
            id,
            &self.domain,
            self.layers,
            (
                &self.budget,
                &self.qdisc_handles,
                &self.softnet,
                &self.global,
            ),
            seed,
            inherited.as_deref(),
        ));
        self.tell(&ns, NamespaceEvent::Made);
        ns
    }

    /// Tears down a namespace and everything in it (`cleanup_net`). Returns `false` if there is no
    /// such namespace or if it is the initial one.
    pub fn remove_namespace(&self, id: NsId) -> bool {
        if id == Self::INITIAL {
            return false;
        }
        let slot = {
            let mut namespaces = lock(&self.namespaces);
            namespaces.inherited.remove(&id);
            namespaces.slots.remove(&id)
        };
        let Some(slot) = slot else {
            return false;
        };
        let unused = || None;
        if let Some(ns) = slot.get_or_init(unused) {
            ns.close();
            self.tell(ns, NamespaceEvent::Closing);
            self.empty(ns);
            crate::nsid::forget_own(ns);
        }
        crate::nsid::forget(&self.global, id, |id| self.namespace(id));
        true
    }

    /// Removes everything from a namespace that is being torn down.
    fn empty(&self, ns: &Arc<Namespace>) {
        ns.close();
        crate::netdev::remove_all(self, ns);
        self.tell(ns, NamespaceEvent::Emptied);
    }

    /// Tells the modules what happens to a namespace, in their order.
    fn tell(&self, ns: &Arc<Namespace>, event: NamespaceEvent) {
        for hear in self.layers.modules.iter().filter_map(|m| m.namespace_event) {
            hear(self, ns, event);
        }
    }

    /// Returns the namespace with an id. The first call for a namespace fills it.
    pub fn namespace(&self, id: NsId) -> Option<Arc<Namespace>> {
        let slot = lock(&self.namespaces).slots.get(&id).cloned()?;
        // A namespace that was removed before its first use stays empty.
        slot.get_or_init(|| Some(self.fill_namespace(id))).clone()
    }

    /// Returns whether a namespace exists. It need not have been used.
    pub fn has_namespace(&self, id: NsId) -> bool {
        lock(&self.namespaces).slots.contains_key(&id)
    }

    /// Returns the ids of all namespaces in the order they were created.
    pub fn namespace_ids(&self) -> Vec<NsId> {
        lock(&self.namespaces).slots.keys().copied().collect()
    }

    /// Returns all namespaces in the order they were created, and fills those that were never used.
    pub fn all_namespaces(&self) -> Vec<Arc<Namespace>> {
        let ids = self.namespace_ids().into_iter();
        ids.filter_map(|id| self.namespace(id)).collect()
    }

    /// Returns the namespaces that were used, in the order they were created.
    pub fn used_namespaces(&self) -> Vec<Arc<Namespace>> {
        let namespaces = lock(&self.namespaces);
        let used = namespaces
            .slots
            .values()
            .filter_map(|slot| slot.get()?.clone());
        used.collect()
    }

    /// Returns a key for a new device.
    pub fn new_device_key(&self) -> DeviceKey {
        DeviceKey(self.last_device.fetch_add(1, Relaxed) + 1)
    }

    /// Returns the device with a key.
    #[inline]
    pub fn device<'g>(&'g self, key: DeviceKey, guard: &'g Guard) -> Option<&'g Arc<Device>> {
        self.devices.get(&key, guard)
    }

    /// Enters a device into the table of all devices.
    pub fn enter_device(&self, device: &Arc<Device>, guard: &Guard) {
        self.devices.insert(device.key, device.clone(), guard);
    }

    /// Takes a device out of the table of all devices.
    pub fn leave_device(&self, device: &Device, guard: &Guard) {
        self.devices.remove(&device.key, guard);
    }
}

impl Clone for Stack {
    fn clone(&self) -> Self {
        self.handles.fetch_add(1, Relaxed);
        Self(self.0.clone())
    }
}

/// A namespace and its contents reference each other, so the last handle takes them apart. The last
/// handle is the one that decrements `handles` to 0. `Arc`'s strong count cannot tell: if two
/// handles are dropped at the same instant, both would see a count above one.
impl Drop for Stack {
    fn drop(&mut self) {
        if self.handles.fetch_sub(1, AcqRel) == 1 {
            self.handles.fetch_or(ENDING, Relaxed);
            self.softnet.clear();
            for ns in self.used_namespaces().iter().rev() {
                self.empty(ns);
            }
        }
    }
}

/// Callbacks that wait for a grace period hold the domain they wait in, so they must be run before
/// the domain is dropped.
impl Drop for Shared {
    fn drop(&mut self) {
        // A reader of the domain that outlives the stack's handles is a bug of its owner and leaks
        // memory.
        let _ = self.domain.drain();
    }
}

impl Shared {
    /// Measures what sending costs, from now on, or no longer ([`crate::measure`]).
    pub fn measure_transmit(&self, on: bool) {
        self.measuring.store(on, Relaxed);
    }

    /// Returns whether transmit costs are measured.
    #[inline]
    pub fn is_transmit_measured(&self) -> bool {
        self.measuring.load(Relaxed)
    }

    /// Arms a timer for a time of the stack's clock, in ns.
    pub fn arm(&self, time: u64, holds: Holds, job: Job) -> TimerId {
        let (id, wakes) = self.timers.arm_next(time, holds, job);
        // A CPU that sleeps until an earlier time looks for the next timer then.
        if wakes {
            self.wake();
        }
        id
    }

    /// Posts a job for a stack CPU. Jobs run in the order of posting.
    pub fn post(&self, job: Job) {
        self.posted.push(job);
        self.wake();
    }

    /// Takes the oldest posted job.
    pub fn take_posted(&self) -> Option<Job> {
        self.posted.pop()
    }

    /// Sets the callback that runs when a CPU has something to do.
    pub fn set_waker(&self, waker: Box<dyn Fn() + Send>) {
        *lock(&self.waker) = Some(waker);
    }

    /// Calls the callback that runs when a CPU has something to do.
    pub(crate) fn wake(&self) {
        if let Some(wake) = lock(&self.waker).as_ref() {
            wake();
        }
    }
}

impl std::fmt::Debug for Stack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stack")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}
