// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A network device: what every link kind has in common (Linux's `struct net_device`).
//!
//! The data path reads a device through relaxed atomics and RCU-published pointers and never waits.
//! Control code changes it under the namespace's link lock (name, index, namespace, up and down) or
//! under the lock named at the field.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use weir_packet::{DropReason, Packet};
use weir_sync::percpu::PerCpu;
use weir_sync::rcu::{Domain, Guard, Published, PublishedOption};

use crate::clock::TimerId;
use crate::drops::{DropCounters, Place};
use crate::link::{Link, Wire};
use crate::namespace::Namespace;
use crate::random::SharedGenerator;
use crate::stack::Shared;
use crate::sysctl::{Conf, Ipv4Conf, Ipv6Conf, Neigh};

/// Names a device for as long as the stack lives; never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceKey(pub u32);

/// An Ethernet address.
pub type Mac = [u8; 6];

/// Per-CPU packet counters (`struct rtnl_link_stats64`); octets and packets, ever growing.
#[derive(Debug, Default)]
#[allow(missing_docs)] // the names are Linux's
pub struct LinkStats {
    pub rx_packets: AtomicU64,
    pub rx_bytes: AtomicU64,
    pub rx_errors: AtomicU64,
    pub rx_dropped: AtomicU64,
    pub multicast: AtomicU64,
    pub tx_packets: AtomicU64,
    pub tx_bytes: AtomicU64,
    pub tx_errors: AtomicU64,
    pub tx_dropped: AtomicU64,
}

/// The sum of [`LinkStats`] over the CPUs.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // the names are Linux's
pub struct LinkTotals {
    pub rx_packets: u64,
    pub rx_bytes: u64,
    pub rx_errors: u64,
    pub rx_dropped: u64,
    pub multicast: u64,
    pub tx_packets: u64,
    pub tx_bytes: u64,
    pub tx_errors: u64,
    pub tx_dropped: u64,
}

/// Which way a frame crosses a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// From the wire into the stack.
    Rx,
    /// From the stack to the wire.
    Tx,
}

/// A frame seen at a device, as an observer gets it.
#[derive(Debug)]
pub struct Tap<'a> {
    /// The device.
    pub device: &'a Device,
    /// The way the frame goes.
    pub direction: Direction,
    /// Nanoseconds of the stack's clock.
    pub time: u64,
    /// The frame; an accelerated VLAN tag is still in its metadata.
    pub packet: &'a Packet,
    /// What the packet met on its way, when tracing.
    pub note: Option<&'a str>,
}

/// Watches the frames of a device (captures). Runs on the stack's CPUs: must not block for long.
pub trait Observer: Send + Sync {
    /// A frame crosses the device.
    fn frame(&self, tap: &Tap<'_>);
}

/// Names of a device, under one lock.
#[derive(Debug, Default, Clone)]
pub struct Names {
    /// `IFLA_IFNAME`
    pub name: String,
    /// `IFLA_ALT_IFNAME`, in the order they were added.
    pub alt: Vec<String>,
    /// `IFLA_IFALIAS`
    pub alias: Option<String>,
}

/// Addresses a device takes beside its own (`dev->uc`, `dev->mc`), of requests and of groups. Devices here take
/// every frame, so they are only shown.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    unicast: Vec<Mac>,
    multicast: Vec<Mac>,
    /// Of groups, each by who joined.
    joined: [Vec<Mac>; 3],
}

/// Who joins groups for a device.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Joiner {
    Ipv4,
    Ipv6,
    /// A VLAN on it (`vlan_gvrp_init_applicant`).
    Vlan,
}

impl Taken {
    /// The list an address belongs to; those of the bridge group are among the unicast ones, as in Linux.
    fn list(&mut self, mac: &Mac) -> &mut Vec<Mac> {
        let bridge = matches!(mac, [0x01, 0x80, 0xc2, 0, 0, 0..=15]);
        match mac[0] & 1 == 0 || bridge {
            true => &mut self.unicast,
            false => &mut self.multicast,
        }
    }

    /// Adds an address; `false` if it is there.
    pub fn add(&mut self, mac: Mac) -> bool {
        let list = self.list(&mac);
        let new = !list.contains(&mac);
        if new {
            list.push(mac);
        }
        new
    }

    /// Takes an address out; `false` if it is not there.
    pub fn remove(&mut self, mac: &Mac) -> bool {
        let list = self.list(mac);
        let at = list.iter().position(|other| other == mac);
        at.map(|at| list.remove(at)).is_some()
    }

    /// From now on `who` is in these groups; new ones come last.
    pub fn join(&mut self, who: Joiner, wanted: Vec<Mac>) {
        let before = std::mem::replace(&mut self.joined[who as usize], wanted);
        let wanted = &self.joined[who as usize];
        // There may be many, and most often one comes or goes: what is the same at either end is passed over.
        let equal = |(old, new): &(&Mac, &Mac)| old == new;
        let start = before.iter().zip(wanted).take_while(equal).count();
        let (old, new) = (&before[start..], &wanted[start..]);
        let end = old
            .iter()
            .rev()
            .zip(new.iter().rev())
            .take_while(equal)
            .count();
        let (old, new) = (&old[..old.len() - end], &new[..new.len() - end]);
        let stays = |mac: &&Mac| self.joined.iter().any(|joined| joined.contains(*mac));
        let gone: Vec<&Mac> = old.iter().filter(|mac| !stays(mac)).collect();
        if !gone.is_empty() {
            self.multicast.retain(|mac| !gone.contains(&mac));
        }
        for mac in new {
            if !before.contains(mac) && !self.multicast.contains(mac) {
                self.multicast.push(*mac);
            }
        }
    }

    /// Those of single hosts and those of groups, in the order in which they came.
    pub fn lists(&self) -> (Vec<Mac>, Vec<Mac>) {
        (self.unicast.clone(), self.multicast.clone())
    }
}

/// Limits of segmentation offload: kept and shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offload {
    /// `IFLA_GSO_MAX_SEGS`
    pub gso_max_segs: u32,
    /// `IFLA_GSO_MAX_SIZE`, octets.
    pub gso_max_size: u32,
    /// `IFLA_GRO_MAX_SIZE`, octets.
    pub gro_max_size: u32,
}

impl Default for Offload {
    fn default() -> Self {
        Self {
            gso_max_segs: 65_535,
            gso_max_size: 65_536,
            gro_max_size: 65_536,
        }
    }
}

/// Where an address is from (`NET_ADDR_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum AddressOrigin {
    /// The device has none but this.
    Permanent = 0,
    /// From the namespace's generator.
    Random = 1,
    /// That of the device below.
    Stolen = 2,
    /// From a request.
    Set = 3,
}

/// Where a name is from (`NET_NAME_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum NameOrigin {
    /// Numbered by the kernel.
    Enumerated = 1,
    /// Always this.
    Predictable = 2,
    /// From a request.
    User = 3,
    /// From a later request.
    Renamed = 4,
}

/// A transmit queue (`struct netdev_queue`).
#[derive(Default)]
pub(crate) struct TxQueue {
    /// The timer at which the qdisc is asked again; see [`crate::datapath::run_queue`].
    pub watchdog: Mutex<Option<TimerId>>,
    /// Whether the device has room.
    pub gate: weir_tc::Gate,
    /// What sending costs, when that was asked for.
    pub counts: OnceLock<Box<PerCpu<crate::datapath::measure::Counts>>>,
}

/// A device stays in its namespace.
const HERE: u8 = 0;
/// It is being moved to another namespace.
const MOVING: u8 = 1;
/// It is being unregistered.
const DYING: u8 = 2;

/// A network device; see the module's head.
pub struct Device {
    /// The stack-wide name.
    pub key: DeviceKey,
    /// What the kind adds.
    pub link: Box<dyn Link>,
    /// `IFLA_IFNAME` and its like. Changed under the namespace's link lock as well.
    names: Mutex<Names>,
    ifindex: AtomicU32,
    flags: AtomicU32,
    mtu: AtomicU32,
    txqlen: AtomicU32,
    group: AtomicU32,
    promiscuity: AtomicU32,
    allmulti: AtomicU32,
    /// How often the carrier was lost, and found.
    carrier_changes: [AtomicU32; 2],
    address_origin: AtomicU8,
    name_origin: AtomicU8,
    /// What the last look at the carrier found; guarded, for changes, by the lock.
    no_carrier: AtomicBool,
    watch: Mutex<()>,
    address: AtomicU64,
    broadcast: AtomicU64,
    link_mode: AtomicU8,
    /// Whether the operational state was set or came with a carrier change; see
    /// [`crate::link::operstate`].
    operstate: AtomicU8,
    /// What the device below passed on (`netif_dormant`, `netif_testing`).
    below: AtomicU8,
    offload: Mutex<Offload>,
    taken: Mutex<Taken>,
    registered: AtomicBool,
    /// Whether it is about to leave its namespace, see [`Device::is_leaving`]: [`HERE`], [`MOVING`] or
    /// [`DYING`].
    leaving: AtomicU8,
    namespace: Published<Arc<Namespace>>,
    stats: PerCpu<LinkStats>,
    drops: OnceLock<Box<DropCounters>>,
    observers: Published<Vec<Arc<dyn Observer>>>,
    wire: PublishedOption<Arc<dyn Wire>>,
    /// Devices on VLANs of this one: (`ETH_P_8021Q` or `ETH_P_8021AD`, VLAN id, device). Changed under
    /// the namespace's link lock.
    vlans: Published<Vec<(u16, u16, Arc<Device>)>>,
    /// IPv4's side (`struct in_device`).
    pub ipv4: crate::ipv4::Inet,
    /// IPv6's side (`struct inet6_dev`).
    pub ipv6: crate::ipv6::Inet,
    /// Qdiscs, ingress and egress filters.
    pub tc: weir_tc::DeviceTc,
    /// Transmit and receive queues.
    queues: (u32, u32),
    /// What belongs to each transmit queue.
    pub(crate) tx: Box<[TxQueue]>,
    /// The generator of traffic control's randomness, seeded when first drawn from.
    random: OnceLock<SharedGenerator>,
}

/// What a new device starts with; see [`Device::new`].
pub struct NewDevice {
    /// The kind's part.
    pub link: Box<dyn Link>,
    /// The name, already checked for form; may hold one `%d`.
    pub name: String,
    /// `IFF_*` beside those of the kind.
    pub flags: u32,
    /// Octets.
    pub mtu: u32,
    /// Packets.
    pub txqlen: u32,
    /// Transmit and receive queues, at least 1 each.
    pub queues: (u32, u32),
    /// Ethernet address.
    pub address: Mac,
    /// Where that is from.
    pub address_origin: AddressOrigin,
    /// Ethernet broadcast address.
    pub broadcast: Mac,
}

fn pack(mac: Mac) -> u64 {
    u64::from_be_bytes([0, 0, mac[0], mac[1], mac[2], mac[3], mac[4], mac[5]])
}

fn unpack(value: u64) -> Mac {
    let [_, _, a, b, c, d, e, f] = value.to_be_bytes();
    [a, b, c, d, e, f]
}

impl Device {
    /// Makes a device that is in no table yet; registering gives it its index.
    pub fn new(key: DeviceKey, domain: &Domain, ns: &Arc<Namespace>, new: NewDevice) -> Self {
        Self {
            key,
            link: new.link,
            names: Mutex::new(Names {
                name: new.name,
                ..Names::default()
            }),
            ifindex: AtomicU32::new(0),
            flags: AtomicU32::new(new.flags),
            mtu: AtomicU32::new(new.mtu),
            txqlen: AtomicU32::new(new.txqlen),
            group: AtomicU32::new(0),
            promiscuity: AtomicU32::new(0),
            allmulti: AtomicU32::new(0),
            carrier_changes: Default::default(),
            address_origin: AtomicU8::new(new.address_origin as u8),
            name_origin: AtomicU8::new(0),
            no_carrier: AtomicBool::new(false),
            watch: Mutex::default(),
            address: AtomicU64::new(pack(new.address)),
            broadcast: AtomicU64::new(pack(new.broadcast)),
            link_mode: AtomicU8::new(0),
            operstate: AtomicU8::new(0),
            below: AtomicU8::new(0),
            offload: Mutex::default(),
            taken: Mutex::default(),
            registered: AtomicBool::new(false),
            leaving: AtomicU8::new(HERE),
            namespace: Published::new(domain, ns.clone()),
            stats: PerCpu::new(),
            drops: OnceLock::new(),
            observers: Published::new(domain, Vec::new()),
            wire: PublishedOption::new(domain, None),
            vlans: Published::new(domain, Vec::new()),
            ipv4: crate::ipv4::Inet::new(domain, ns),
            ipv6: crate::ipv6::Inet::new(domain, ns),
            tc: weir_tc::DeviceTc::new(domain),
            queues: new.queues,
            tx: (0..new.queues.0).map(|_| TxQueue::default()).collect(),
            random: OnceLock::new(),
        }
    }

    /// What sending at a transmit queue has cost while that was measured.
    pub fn transmit_counts(&self, queue: usize) -> crate::datapath::measure::Totals {
        let counts = self.tx.get(queue).and_then(|tx| tx.counts.get());
        counts.map_or_else(Default::default, |counts| {
            crate::datapath::measure::Totals::of(counts.iter().map(|(_, counts)| counts))
        })
    }

    /// The names.
    pub fn names(&self) -> std::sync::MutexGuard<'_, Names> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The device's name.
    pub fn name(&self) -> String {
        self.names().name.clone()
    }

    /// The index in its namespace; 0 before it is registered.
    #[inline]
    pub fn ifindex(&self) -> u32 {
        self.ifindex.load(Relaxed)
    }

    pub(crate) fn set_ifindex(&self, ifindex: u32) {
        self.ifindex.store(ifindex, Relaxed);
    }

    /// Whether the device stands in its namespace's tables.
    pub fn is_registered(&self) -> bool {
        self.registered.load(Relaxed)
    }

    pub(crate) fn set_registered(&self, yes: bool) {
        self.registered.store(yes, Relaxed);
    }

    /// Whether the device is being unregistered, or moved to another namespace. Who attaches something to a
    /// device asks under the lock that guards it; who takes the device away says so before it takes what is
    /// attached away under the same lock.
    #[inline]
    pub fn is_leaving(&self) -> bool {
        // Who sees that a move is over sees where the device is.
        self.leaving.load(Acquire) != HERE
    }

    /// Whether the device is in a namespace, and about to stay there.
    #[inline]
    pub fn is_in(&self, ns: &Namespace, guard: &Guard) -> bool {
        !self.is_leaving() && std::ptr::eq(&**self.namespace(guard), ns)
    }

    /// Whether the device is being unregistered.
    pub(crate) fn is_dying(&self) -> bool {
        self.leaving.load(Relaxed) == DYING
    }

    /// Sets that; false: somebody else has.
    pub(crate) fn begin_to_die(&self) -> bool {
        self.leaving.swap(DYING, Relaxed) != DYING
    }

    /// It is being moved from now on; false: somebody else takes it away.
    pub(crate) fn begin_to_move(&self) -> bool {
        let change = self
            .leaving
            .compare_exchange(HERE, MOVING, Relaxed, Relaxed);
        change.is_ok()
    }

    /// It is where it belongs again; false: it is being unregistered.
    pub(crate) fn end_move(&self) -> bool {
        let change = self
            .leaving
            .compare_exchange(MOVING, HERE, Release, Relaxed);
        change.is_ok()
    }

    /// `IFF_*` as stored: what was asked for and what the kind has; [`crate::link::reported_flags`]
    /// adds running and lower-up.
    #[inline]
    pub fn flags(&self) -> u32 {
        self.flags.load(Relaxed)
    }

    /// Sets the bits of `mask` to those of `value`; answers the flags before.
    pub(crate) fn change_flags(&self, value: u32, mask: u32) -> u32 {
        let change = |before| Some((before & !mask) | (value & mask));
        let done = self.flags.fetch_update(Relaxed, Relaxed, change);
        done.unwrap_or_else(|before| before)
    }

    /// Whether the device is administratively up (`IFF_UP`).
    #[inline]
    pub fn is_up(&self) -> bool {
        self.flags() & weir_netlink::ifla::iff::UP != 0
    }

    /// Octets of the largest network packet.
    #[inline]
    pub fn mtu(&self) -> u32 {
        self.mtu.load(Relaxed)
    }

    /// Whether IPv4 is on the device (`struct in_device`): on one with too small an MTU it is not.
    #[inline]
    pub fn has_ipv4(&self) -> bool {
        self.mtu() >= crate::ipv4::MIN_MTU
    }

    /// Whether IPv6 is on the device (`struct inet6_dev`): on one with too small an MTU, the loopback device
    /// excepted, it is not.
    #[inline]
    pub fn has_ipv6(&self) -> bool {
        self.mtu() >= crate::ipv6::output::MIN_MTU
            || self.flags() & weir_netlink::ifla::iff::LOOPBACK != 0
    }

    /// Whether IPv6, or IPv4, is on the device.
    #[inline]
    pub fn has_ip(&self, ipv6: bool) -> bool {
        match ipv6 {
            false => self.has_ipv4(),
            true => self.has_ipv6(),
        }
    }

    pub(crate) fn set_mtu(&self, mtu: u32) {
        self.mtu.store(mtu, Relaxed);
    }

    /// Packets a default queue holds.
    pub fn txqlen(&self) -> u32 {
        self.txqlen.load(Relaxed)
    }

    /// Transmit queues it was made with; all are used (`num_tx_queues`, `real_num_tx_queues`).
    #[inline]
    pub fn tx_queues(&self) -> u32 {
        self.queues.0
    }

    /// Receive queues it was made with (`num_rx_queues`).
    pub fn rx_queues(&self) -> u32 {
        self.queues.1
    }

    pub(crate) fn set_txqlen(&self, len: u32) {
        self.txqlen.store(len, Relaxed);
    }

    /// `IFLA_GROUP`
    pub fn group(&self) -> u32 {
        self.group.load(Relaxed)
    }

    pub(crate) fn set_group(&self, group: u32) {
        self.group.store(group, Relaxed);
    }

    /// How many asked for promiscuous mode.
    pub fn promiscuity(&self) -> u32 {
        self.promiscuity.load(Relaxed)
    }

    /// How many asked for all multicast frames.
    pub fn allmulti(&self) -> u32 {
        self.allmulti.load(Relaxed)
    }

    /// One more, or one less, asks for all frames, or for all multicast ones; answers whether that makes the
    /// difference between none and some.
    pub(crate) fn ask_for_all(&self, multicast: bool, more: bool) -> bool {
        let count = match multicast {
            true => &self.allmulti,
            false => &self.promiscuity,
        };
        match more {
            true => count.fetch_add(1, Relaxed) == 0,
            false => {
                let less = |count: u32| count.checked_sub(1);
                count.fetch_update(Relaxed, Relaxed, less) == Ok(1)
            }
        }
    }

    /// Whether the device is known to have no carrier: then its qdisc takes nothing (`dev_deactivate`).
    #[inline]
    pub fn lacks_carrier(&self) -> bool {
        self.no_carrier.load(Relaxed)
    }

    /// Looks at the carrier by `now`, after it may have changed; answers whether there is one.
    pub(crate) fn watch_carrier(&self, now: impl FnOnce() -> bool) -> bool {
        let _watch = self.watch.lock().unwrap_or_else(PoisonError::into_inner);
        let on = now();
        self.no_carrier.store(!on, Relaxed);
        on
    }

    /// How often the carrier was found, and lost (`IFLA_CARRIER_UP_COUNT`, `IFLA_CARRIER_DOWN_COUNT`).
    pub fn carrier_changes(&self) -> (u32, u32) {
        let [lost, found] = &self.carrier_changes;
        (found.load(Relaxed), lost.load(Relaxed))
    }

    pub(crate) fn count_carrier_change(&self, on: bool) {
        self.carrier_changes[usize::from(on)].fetch_add(1, Relaxed);
    }

    /// Where the address is from (`enum` of `addr_assign_type`).
    pub fn address_origin(&self) -> u8 {
        self.address_origin.load(Relaxed)
    }

    /// Where the name is from (`NET_NAME_*`); 0 if nobody has said.
    pub fn name_origin(&self) -> u8 {
        self.name_origin.load(Relaxed)
    }

    pub(crate) fn set_name_origin(&self, origin: NameOrigin) {
        self.name_origin.store(origin as u8, Relaxed);
    }

    /// The Ethernet address.
    #[inline]
    pub fn address(&self) -> Mac {
        unpack(self.address.load(Relaxed))
    }

    pub(crate) fn set_address(&self, mac: Mac) {
        self.address.store(pack(mac), Relaxed);
        self.address_origin.store(AddressOrigin::Set as u8, Relaxed);
    }

    /// The Ethernet broadcast address.
    pub fn broadcast(&self) -> Mac {
        unpack(self.broadcast.load(Relaxed))
    }

    pub(crate) fn set_broadcast(&self, mac: Mac) {
        self.broadcast.store(pack(mac), Relaxed);
    }

    /// `IFLA_LINKMODE`
    pub fn link_mode(&self) -> u8 {
        self.link_mode.load(Relaxed)
    }

    pub(crate) fn set_link_mode(&self, mode: u8) {
        self.link_mode.store(mode, Relaxed);
    }

    /// The operational state a user or a carrier change set; `oper::UNKNOWN` if none did.
    pub(crate) fn known_operstate(&self) -> u8 {
        self.operstate.load(Relaxed)
    }

    pub(crate) fn set_known_operstate(&self, state: u8) {
        self.operstate.store(state, Relaxed);
    }

    /// `oper::DORMANT` or `oper::TESTING` if the device below is, else `oper::UNKNOWN`.
    pub(crate) fn state_below(&self) -> u8 {
        self.below.load(Relaxed)
    }

    /// Sets that; answers what it was.
    pub(crate) fn set_state_below(&self, state: u8) -> u8 {
        self.below.swap(state, Relaxed)
    }

    /// Addresses it takes beside its own.
    pub(crate) fn taken(&self) -> std::sync::MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What `IFLA_GSO_MAX_SIZE` and its like say; nothing here makes or takes such packets.
    pub fn offload(&self) -> Offload {
        *self.offload.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_offload(&self, offload: Offload) {
        *self.offload.lock().unwrap_or_else(PoisonError::into_inner) = offload;
    }

    /// The namespace the device is in.
    #[inline]
    pub fn namespace<'g>(&'g self, guard: &'g Guard) -> &'g Arc<Namespace> {
        self.namespace.load(guard)
    }

    pub(crate) fn set_namespace(&self, ns: Arc<Namespace>) {
        self.namespace.replace(ns);
    }

    /// Draws 32 bits for traffic control from the device's own generator, which is named by the
    /// namespace and the name the device has when it first draws.
    pub fn draw(&self, seed: u64, guard: &Guard) -> u32 {
        let generator = self.random.get_or_init(|| {
            let path = format!(
                "namespace {}/{}/tc",
                self.namespace(guard).id.0,
                self.name()
            );
            SharedGenerator::new(seed, &path)
        });
        (generator.next_u64() >> 32) as u32
    }

    /// The counters of one CPU.
    #[inline]
    pub fn stats(&self, cpu: usize) -> &LinkStats {
        self.stats.get(cpu)
    }

    /// The counters' sums.
    pub fn totals(&self) -> LinkTotals {
        let mut totals = LinkTotals::default();
        for (_, stats) in self.stats.iter() {
            totals.rx_packets += stats.rx_packets.load(Relaxed);
            totals.rx_bytes += stats.rx_bytes.load(Relaxed);
            totals.rx_errors += stats.rx_errors.load(Relaxed);
            totals.rx_dropped += stats.rx_dropped.load(Relaxed);
            totals.multicast += stats.multicast.load(Relaxed);
            totals.tx_packets += stats.tx_packets.load(Relaxed);
            totals.tx_bytes += stats.tx_bytes.load(Relaxed);
            totals.tx_errors += stats.tx_errors.load(Relaxed);
            totals.tx_dropped += stats.tx_dropped.load(Relaxed);
        }
        totals
    }

    /// Counts a dropped packet.
    pub fn count_drop(&self, place: Place, reason: DropReason) {
        self.count_drops(place, reason, 1);
    }

    /// Counts packets dropped for one reason.
    pub fn count_drops(&self, place: Place, reason: DropReason, count: u64) {
        let drops = self.drops.get_or_init(Box::default);
        drops.count(place, reason, count);
    }

    /// What was dropped here: (place, reason, packets), in the order of the tables.
    pub fn drops(&self) -> Vec<(Place, DropReason, u64)> {
        self.drops
            .get()
            .map(|drops| drops.totals())
            .unwrap_or_default()
    }

    /// The device on a VLAN of this one.
    #[inline]
    pub fn vlan<'g>(&'g self, proto: u16, vid: u16, guard: &'g Guard) -> Option<&'g Arc<Device>> {
        let vlans = self.vlans.load(guard);
        vlans
            .iter()
            .find(|(p, v, _)| (*p, *v) == (proto, vid))
            .map(|(_, _, device)| device)
    }

    /// The devices on VLANs of this one.
    pub fn vlans<'g>(&'g self, guard: &'g Guard) -> &'g [(u16, u16, Arc<Device>)] {
        self.vlans.load(guard)
    }

    /// Changes the VLAN devices; the caller holds the link lock of the namespace.
    pub(crate) fn change_vlans(
        &self,
        guard: &Guard,
        change: impl FnOnce(&mut Vec<(u16, u16, Arc<Device>)>),
    ) {
        let mut vlans = self.vlans.load(guard).clone();
        change(&mut vlans);
        self.vlans.replace(vlans);
    }

    /// Where the frames go that leave the device, if not where its kind says.
    #[inline]
    pub fn wire<'g>(&'g self, guard: &'g Guard) -> Option<&'g Arc<dyn Wire>> {
        self.wire.load(guard)
    }

    pub(crate) fn has_wire(&self) -> bool {
        self.wire.is_some()
    }

    /// Puts a wire behind the device, or takes it away. A device that has one before it first goes up gets a
    /// queue by default. Nothing is on its way on the new one yet.
    pub fn connect(&self, stack: &Shared, wire: Option<Arc<dyn Wire>>) {
        self.wire.replace(wire);
        crate::datapath::restart(stack, self);
    }

    /// Who watches the device.
    #[inline]
    pub fn observers<'g>(&'g self, guard: &'g Guard) -> &'g [Arc<dyn Observer>] {
        self.observers.load(guard)
    }

    /// Adds an observer.
    pub fn observe(&self, guard: &Guard, observer: Arc<dyn Observer>) {
        let _names = self.names();
        let mut all = self.observers.load(guard).clone();
        all.push(observer);
        self.observers.replace(all);
    }

    /// Removes an observer.
    pub fn unobserve(&self, guard: &Guard, observer: &Arc<dyn Observer>) {
        let _names = self.names();
        let mut all = self.observers.load(guard).clone();
        all.retain(|other| !Arc::ptr_eq(other, observer));
        self.observers.replace(all);
    }
}

impl std::fmt::Debug for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Device")
            .field("key", &self.key)
            .field("name", &self.name())
            .field("ifindex", &self.ifindex())
            .field("kind", &self.link.kind())
            .finish()
    }
}

/// The per-device sysctls of one namespace's `default`, copied into new devices.
#[derive(Debug, Clone)]
pub struct DeviceConf {
    /// `net.ipv4.conf.*`
    pub ipv4: Conf<Ipv4Conf>,
    /// `net.ipv6.conf.*`
    pub ipv6: Conf<Ipv6Conf>,
    /// `net.ipv4.neigh.*`
    pub neigh4: Conf<Neigh>,
    /// `net.ipv6.neigh.*`
    pub neigh6: Conf<Neigh>,
}

impl Default for DeviceConf {
    fn default() -> Self {
        let conf = Self {
            ipv4: Conf::default(),
            ipv6: Conf::default(),
            neigh4: Conf::default(),
            neigh6: Conf::default(),
        };
        // Where `ipv4_devconf_dflt` differs from `ipv4_devconf`.
        conf.ipv4.set(Ipv4Conf::AcceptSourceRoute, 1);
        // Of the tables of the two families (`arp_tbl`, `nd_tbl`) this differs.
        conf.neigh6.set(Neigh::Locktime, 0);
        conf
    }
}
