// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The stack: everything one embedding program or one `weir run` owns. No part of it is global.
//!
//! A [`Stack`] is a cheap handle. Control goes through [`crate::connection::Connection`] from any
//! thread; packets move on the CPUs ([`crate::cpu::Cpu`]), which the embedding program runs itself.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::AcqRel, Ordering::Relaxed,
};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use weir_packet::Pool;
use weir_sync::hash::RcuHash;
use weir_sync::lane::Lanes;
use weir_sync::rcu::{self, Domain, Guard};

use crate::clock::{Clock, Holds, TimerId, Timers};
use crate::cpu::Cx;
use crate::device::{Device, DeviceKey};
use crate::drops::{DropCounters, DropObserver};
use crate::namespace::{Namespace, NsId};
use crate::trace::TraceLog;

/// Work for a stack CPU: a timer's end, or what control code leaves to the data path.
pub type Job = Box<dyn FnOnce(&mut Cx<'_>) + Send>;

/// How a stack is made.
#[derive(Debug, Clone)]
pub struct Config {
    /// Virtual time instead of the machine's.
    pub virtual_time: bool,
    /// Seeds every generator of the stack.
    pub seed: u64,
    /// Stack CPUs.
    pub cpus: usize,
    /// Whether packets carry a record of the filters they hit.
    pub trace: bool,
    /// How RCU callbacks run.
    pub rcu: rcu::Config,
    /// Filters there may be in all namespaces; no limit without.
    pub max_rules: Option<u64>,
    /// Octets filters and actions may take in all namespaces, as [`weir_tc::budget`] reckons.
    pub max_memory: Option<u64>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            virtual_time: true,
            seed: 1,
            cpus: 1,
            trace: false,
            rcu: rcu::Config::default(),
            max_rules: None,
            max_memory: None,
        }
    }
}

/// What the handles of a stack share.
pub struct Shared {
    /// As it was made.
    pub config: Config,
    /// The stack's RCU domain.
    pub domain: Domain,
    /// What filters and actions may take.
    pub budget: Arc<weir_tc::Budget>,
    /// Handles of qdiscs that ask for none, of all namespaces.
    qdisc_handles: Arc<weir_tc::Handles>,
    /// Keeps connections that make rules beside each other apart.
    pub lanes: Arc<Lanes>,
    /// Packet memory.
    pub pool: Pool,
    /// The one clock.
    pub clock: Clock,
    /// Armed timers. Last in the lock order.
    pub timers: Timers<Job>,
    /// What packets met on their way, when tracing.
    pub trace: TraceLog,
    /// Packets dropped for devices that had gone.
    pub gone: DropCounters,
    /// Sees every dropped packet; set once, before packets move.
    pub drop_observer: OnceLock<Arc<dyn DropObserver>>,
    /// The simulated bus.
    pub(crate) netdevsim: crate::link::netdevsim::Bus,
    measuring: AtomicBool,
    namespaces: Mutex<BTreeMap<NsId, Arc<Namespace>>>,
    devices: RcuHash<DeviceKey, Arc<Device>>,
    /// While it is set, virtual time stands still: [`Cpu::run_until`](crate::cpu::Cpu::run_until) returns.
    pub interrupt: Arc<AtomicBool>,
    posted: Mutex<VecDeque<Job>>,
    waker: Mutex<Option<Box<dyn Fn() + Send>>>,
    last_namespace: AtomicU64,
    last_device: AtomicU32,
    /// Handles there are, and [`ENDING`] from when the last one went.
    handles: AtomicUsize,
}

/// Set in [`Shared::handles`] while the last handle takes the stack apart, when what goes may make
/// handles and drop them.
const ENDING: usize = 1 << (usize::BITS - 1);

/// A handle of a stack; see the module's head.
pub struct Stack(Arc<Shared>);

impl std::ops::Deref for Stack {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Stack {
    /// Makes a stack with its initial namespace.
    pub fn new(config: Config) -> Self {
        let domain = Domain::new(config.rcu.clone());
        let clock = if config.virtual_time {
            Clock::new_virtual()
        } else {
            Clock::new_real()
        };
        let stack = Self(Arc::new(Shared {
            budget: Arc::new(weir_tc::Budget::new(config.max_rules, config.max_memory)),
            qdisc_handles: Arc::default(),
            lanes: Arc::default(),
            pool: Pool::new(weir_packet::PoolConfig::default()),
            clock,
            timers: Timers::default(),
            trace: TraceLog::new(config.trace),
            gone: DropCounters::default(),
            drop_observer: OnceLock::new(),
            netdevsim: Default::default(),
            measuring: AtomicBool::new(false),
            namespaces: Mutex::default(),
            devices: RcuHash::new(&domain),
            interrupt: Arc::default(),
            posted: Mutex::default(),
            waker: Mutex::default(),
            last_namespace: AtomicU64::new(0),
            last_device: AtomicU32::new(0),
            handles: AtomicUsize::new(1),
            config,
            domain,
        }));
        stack.create_namespace();
        stack
    }

    /// The id of the initial namespace.
    pub const INITIAL: NsId = NsId(1);

    /// Makes a namespace with a loopback device that is down (`copy_net_ns`).
    pub fn create_namespace(&self) -> Arc<Namespace> {
        let id = NsId(self.last_namespace.fetch_add(1, Relaxed) + 1);
        let seed = crate::random::seed_of(self.config.seed, &format!("namespace {}", id.0));
        let ns = Arc::new(Namespace::new(
            id,
            &self.domain,
            (&self.budget, &self.qdisc_handles),
            seed,
        ));
        crate::link::loopback::add(self, &ns);
        lock(&self.namespaces).insert(id, ns.clone());
        ns
    }

    /// Tears a namespace down with all in it (`cleanup_net`); `false` when there is none or it is
    /// the initial one.
    pub fn remove_namespace(&self, id: NsId) -> bool {
        if id == Self::INITIAL {
            return false;
        }
        let Some(ns) = lock(&self.namespaces).remove(&id) else {
            return false;
        };
        ns.close();
        crate::link::netdevsim::leave(self, &ns);
        self.empty(&ns);
        for other in self.all_namespaces() {
            crate::rtnl::nsid::forget(&other, id);
        }
        true
    }

    /// Takes everything out of a namespace that goes.
    fn empty(&self, ns: &Arc<Namespace>) {
        ns.close();
        crate::link::remove_all(self, ns);
        let guard = self.domain.pin();
        crate::tc::with_env(self, ns, &guard, |env| ns.tc.shutdown(env));
    }

    /// The namespace with an id.
    pub fn namespace(&self, id: NsId) -> Option<Arc<Namespace>> {
        lock(&self.namespaces).get(&id).cloned()
    }

    /// All namespaces in the order they were made.
    pub fn all_namespaces(&self) -> Vec<Arc<Namespace>> {
        lock(&self.namespaces).values().cloned().collect()
    }

    /// A key for a new device.
    pub(crate) fn new_device_key(&self) -> DeviceKey {
        DeviceKey(self.last_device.fetch_add(1, Relaxed) + 1)
    }

    /// The device with a key.
    #[inline]
    pub fn device<'g>(&'g self, key: DeviceKey, guard: &'g Guard) -> Option<&'g Arc<Device>> {
        self.devices.get(&key, guard)
    }

    pub(crate) fn enter_device(&self, device: &Arc<Device>) {
        self.devices
            .insert(device.key, device.clone(), &self.domain.pin());
    }

    pub(crate) fn leave_device(&self, device: &Device) {
        self.devices.remove(&device.key, &self.domain.pin());
    }
}

impl Clone for Stack {
    fn clone(&self) -> Self {
        self.handles.fetch_add(1, Relaxed);
        Self(self.0.clone())
    }
}

/// A namespace and what is in it hold each other: the last handle takes them apart. It is the one whose
/// decrement reaches 0; the strong count would tell two that go at the same instant that neither is.
impl Drop for Stack {
    fn drop(&mut self) {
        if self.handles.fetch_sub(1, AcqRel) == 1 {
            self.handles.fetch_or(ENDING, Relaxed);
            for ns in self.all_namespaces().iter().rev() {
                self.empty(ns);
            }
        }
    }
}

/// What waits for a grace period holds the domain it waits in, so it must not be left there.
impl Drop for Shared {
    fn drop(&mut self) {
        // A reader of the domain that outlives the stack's handles is a bug of its owner's, and costs
        // memory.
        let _ = self.domain.drain();
    }
}

impl Shared {
    /// Measures what sending costs, from now on, or no longer ([`crate::datapath::measure`]).
    pub fn measure_transmit(&self, on: bool) {
        self.measuring.store(on, Relaxed);
    }

    /// Whether that is measured.
    #[inline]
    pub fn is_transmit_measured(&self) -> bool {
        self.measuring.load(Relaxed)
    }

    /// Arms a timer for a time of the stack's clock.
    pub fn arm(&self, time: u64, holds: Holds, job: Job) -> TimerId {
        let id = self.timers.arm(time, holds, job);
        self.wake();
        id
    }

    /// Leaves a job to a stack CPU, to be run in the order of posting.
    pub fn post(&self, job: Job) {
        lock(&self.posted).push_back(job);
        self.wake();
    }

    pub(crate) fn take_posted(&self) -> Option<Job> {
        lock(&self.posted).pop_front()
    }

    /// Sets what is called when a CPU has something to do.
    pub fn set_waker(&self, waker: Box<dyn Fn() + Send>) {
        *lock(&self.waker) = Some(waker);
    }

    fn wake(&self) {
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
