// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A network device: the state that every link kind shares (Linux's `struct net_device`).
//!
//! The datapath reads a device through relaxed atomics and RCU-published pointers and never blocks.
//! Control code changes it under the namespace's link lock (name, index, namespace, up and down) or
//! under the lock named at the field.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU16, AtomicU32, AtomicU64};
use std::sync::{Arc, OnceLock};

use weir_netlink::ifla::arphrd;
use weir_packet::tagged::Framing;
use weir_packet::{DropReason, Packet};
use weir_sync::once_box::OnceBox;
use weir_sync::order::{self, Mutex};
use weir_sync::percpu::PerCpu;
use weir_sync::rare::Rare;
use weir_sync::rcu::{Domain, Guard, Published, PublishedOption};

use crate::clock::TimerId;
use crate::drops::{DropCounters, Place};
use crate::features::Features;
use crate::kind::Link;
pub use crate::link_stats::{LinkStats, LinkTotals};
use crate::measure;
use crate::name::Name;
use crate::namespace::{Namespace, NsId};
use crate::parts::DeviceParts;
use crate::random::SharedGenerator;
use crate::stack::Shared;
use crate::steer::Steering;
use crate::taken::Taken;
use crate::trace::TraceLog;
use crate::wire::{RxHandler, Wire};

/// Identifies a device for the lifetime of the stack. Keys are never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceKey(pub u32);

/// An Ethernet address.
pub type Mac = [u8; 6];

/// The direction in which a frame crosses a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// From the wire into the stack.
    Rx,
    /// From the stack to the wire.
    Tx,
}

/// A frame seen at a device, as passed to an observer.
#[derive(Debug)]
pub struct Tap<'a> {
    /// The device.
    pub device: &'a Device,
    /// The frame's direction.
    pub direction: Direction,
    /// The stack clock's time in nanoseconds.
    pub time: u64,
    /// The frame. An accelerated VLAN tag is still in its metadata.
    pub packet: &'a Packet,
    /// The packet's trace notes, if tracing is on.
    pub note: Option<&'a str>,
}

/// Watches the frames of a device (captures). It runs on the stack's CPUs and must not block for
/// long.
pub trait Observer: Send + Sync {
    /// Called for each frame that crosses the device.
    fn frame(&self, tap: &Tap<'_>);

    /// Called for the frames that cross the device together, in place of [`frame`](Self::frame).
    fn frames(&self, taps: &Taps<'_>) {
        for packet in taps.packets {
            let note = taps.trace.read(packet);
            let note = note.as_deref();
            self.frame(&Tap {
                device: taps.device,
                direction: taps.direction,
                time: taps.time,
                packet,
                note,
            });
        }
    }

    /// Whether the observer is one for which frames of this EtherType, received in this namespace, are meant: a packet
    /// socket, not a capture (`struct packet_type`).
    fn receives(&self, ns: NsId, protocol: u16) -> bool {
        let _ = (ns, protocol);
        false
    }
}

/// Frames seen together at a device.
pub struct Taps<'a> {
    /// The device.
    pub device: &'a Device,
    /// The direction of the frames.
    pub direction: Direction,
    /// The stack clock's time in nanoseconds.
    pub time: u64,
    /// The frames. An accelerated VLAN tag is still in their metadata.
    pub packets: &'a [Packet],
    /// The trace notes.
    pub trace: &'a TraceLog,
    /// The number of the CPU, which is in this call only once at a time.
    pub cpu: usize,
    /// The read section of the CPU's turn.
    pub guard: &'a Guard,
}

/// The names of a device, guarded by one lock.
#[derive(Debug, Default, Clone)]
pub struct Names {
    /// `IFLA_IFNAME`
    pub name: Name,
    others: Rare<OtherNames>,
}

/// The names of a device beside its own, which nearly every device lacks.
#[derive(Debug, Default, Clone)]
pub struct OtherNames {
    /// `IFLA_ALT_IFNAME`, in the order they were added.
    pub alt: Vec<String>,
    /// `IFLA_IFALIAS`
    pub alias: Option<String>,
}

impl Names {
    /// Returns all names by which the device is found, its own first.
    pub fn all(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&*self.name).chain(self.alt().iter().map(String::as_str))
    }

    /// Returns the alternative names (`IFLA_ALT_IFNAME`), in the order they were added.
    pub fn alt(&self) -> &[String] {
        self.others.get().map_or(&[], |others| &others.alt)
    }

    /// Returns the alias (`IFLA_IFALIAS`).
    pub fn alias(&self) -> Option<&str> {
        self.others.get().and_then(|others| others.alias.as_deref())
    }

    /// Returns the names beside the device's own, to be changed.
    pub fn others(&mut self) -> &mut OtherNames {
        self.others.change()
    }
}

/// Segmentation offload limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offload {
    /// `IFLA_GSO_MAX_SEGS`
    pub gso_max_segs: u32,
    /// `IFLA_GSO_MAX_SIZE`, in bytes.
    pub gso_max_size: u32,
    /// `IFLA_GRO_MAX_SIZE`, in bytes.
    pub gro_max_size: u32,
}

impl Offload {
    fn as_array(self) -> [u32; 3] {
        [self.gso_max_segs, self.gso_max_size, self.gro_max_size]
    }
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

/// The origin of a device's address (`NET_ADDR_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum AddressOrigin {
    /// The device's built-in address.
    Permanent = 0,
    /// Generated by the namespace's random generator.
    Random = 1,
    /// Copied from the lower device.
    Stolen = 2,
    /// Set by a request.
    Set = 3,
}

/// The origin of a device's name (`NET_NAME_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum NameOrigin {
    /// Numbered by the kernel from a pattern.
    Enumerated = 1,
    /// The same name every time.
    Predictable = 2,
    /// Set by the request that created the device.
    User = 3,
    /// Set by a later request.
    Renamed = 4,
}

/// A transmit queue (`struct netdev_queue`).
#[derive(Default)]
pub struct TxQueue {
    /// The timer at which the qdisc is asked again; see [`Path`](crate::layers::Path).
    pub watchdog: Mutex<Option<TimerId>, order::Watchdog>,
    /// Tracks whether the device has room for more frames.
    pub gate: weir_tc::Gate,
    /// The cost of transmits, if measuring was ever turned on.
    pub counts: OnceLock<Box<PerCpu<measure::Counts>>>,
}

/// The device stays in its namespace.
const HERE: u8 = 0;
/// The device is being moved to another namespace.
const MOVING: u8 = 1;
/// The device is being unregistered.
const DYING: u8 = 2;

/// A network device; see the module documentation.
pub struct Device {
    /// The stack-wide key.
    pub key: DeviceKey,
    /// The state of the link kind.
    pub link: Box<dyn Link>,
    /// The frames have no link-layer header.
    bare: bool,
    /// The device's names (`IFLA_IFNAME` and so on). Changes hold the namespace's link lock as
    /// well.
    names: Mutex<Names, order::Names>,
    ifindex: AtomicU32,
    flags: AtomicU32,
    mtu: AtomicU32,
    txqlen: AtomicU32,
    promiscuity: AtomicU32,
    allmulti: AtomicU32,
    /// The number of times the carrier was lost and regained.
    carrier_changes: [AtomicU32; 2],
    address_origin: AtomicU8,
    name_origin: AtomicU8,
    /// The result of the last carrier check. Changes hold `derived`.
    no_carrier: AtomicBool,
    /// Held while the carrier is checked and while the active features are computed.
    derived: Mutex<(), order::Derived>,
    address: AtomicU64,
    broadcast: AtomicU64,
    link_mode: AtomicU8,
    /// Whether the operational state was set or came with a carrier change; see
    /// [`crate::netdev::operstate`].
    operstate: AtomicU8,
    /// The state passed on by the lower device (`netif_dormant`, `netif_testing`).
    below: AtomicU8,
    /// The limits of [`Offload`], in its order.
    offload: [AtomicU32; 3],
    /// The offloads the device has (`dev->features`).
    pub features: Features,
    taken: Mutex<Taken, order::Taken>,
    registered: AtomicBool,
    /// Whether the device is leaving its namespace: [`HERE`], [`MOVING`] or [`DYING`]; see
    /// [`Device::is_leaving`].
    leaving: AtomicU8,
    namespace: Published<Arc<Namespace>>,
    stats: PerCpu<LinkStats>,
    /// What is attached to the device, once anything was.
    attached: OnceBox<Attached>,
    /// See [`Device::l3_table`].
    l3_table: AtomicU32,
    /// What modules have here (`ip_ptr`, `ip6_ptr`).
    pub parts: DeviceParts,
    /// Qdiscs and the ingress and egress filters.
    pub tc: weir_tc::DeviceTc,
    /// The CPUs that work on received packets.
    pub steering: Steering,
    /// The numbers of transmit and receive queues. Linux allows 65,535 each at most.
    queues: [u16; 2],
    /// How many of them are in use, transmit first.
    used_queues: [AtomicU16; 2],
}

/// A device is made of few words: most devices of a router have nothing but addresses.
#[cfg(not(loom))]
const _: () = assert!(size_of::<Device>() <= 368);

/// What is attached to a device, and what few devices have.
struct Attached {
    observers: PublishedOption<Vec<Arc<dyn Observer>>>,
    wire: PublishedOption<Arc<dyn Wire>>,
    rx_handler: PublishedOption<Arc<dyn RxHandler>>,
    /// The device of which this one is a port (`netdev_master_upper_dev_get`).
    master: PublishedOption<Arc<Device>>,
    /// The VLAN devices on top of this one, as (`ETH_P_8021Q` or `ETH_P_8021AD`, VLAN id, device).
    /// Changes hold the namespace's link lock.
    vlans: PublishedOption<Vec<(u16, u16, Arc<Device>)>>,
    /// The random generator for traffic control, seeded on first use.
    random: OnceBox<SharedGenerator>,
    /// `IFLA_GROUP`
    group: AtomicU32,
    drops: OnceBox<DropCounters>,
    /// The state of the transmit queues, once something has needed it.
    tx: OnceBox<Box<[TxQueue]>>,
}

impl Attached {
    fn new(domain: &Domain) -> Self {
        Self {
            observers: PublishedOption::new(domain, None),
            wire: PublishedOption::new(domain, None),
            rx_handler: PublishedOption::new(domain, None),
            master: PublishedOption::new(domain, None),
            vlans: PublishedOption::new(domain, None),
            random: OnceBox::default(),
            group: AtomicU32::new(0),
            drops: OnceBox::default(),
            tx: OnceBox::default(),
        }
    }
}

/// The initial state of a new device; see [`Device::new`].
pub struct NewDevice {
    /// The state of the link kind.
    pub link: Box<dyn Link>,
    /// The name. Its form has been checked; it may contain one `%d`.
    pub name: String,
    /// `IFF_*` flags in addition to those of the kind.
    pub flags: u32,
    /// The MTU in bytes.
    pub mtu: u32,
    /// The transmit queue length in packets.
    pub txqlen: u32,
    /// The numbers of transmit and receive queues, 1 to 65,535 each.
    pub queues: (u32, u32),
    /// The Ethernet address.
    pub address: Mac,
    /// The origin of `address`.
    pub address_origin: AddressOrigin,
    /// The Ethernet broadcast address.
    pub broadcast: Mac,
}

/// Returns a list, or `None` instead of an empty one.
fn some<T>(list: Vec<T>) -> Option<Vec<T>> {
    Some(list).filter(|list| !list.is_empty())
}

fn pack(mac: Mac) -> u64 {
    u64::from_be_bytes([0, 0, mac[0], mac[1], mac[2], mac[3], mac[4], mac[5]])
}

fn unpack(value: u64) -> Mac {
    let [_, _, a, b, c, d, e, f] = value.to_be_bytes();
    [a, b, c, d, e, f]
}

impl Device {
    /// Creates a device that is not in any table yet. Registration assigns its index.
    pub fn new(stack: &Shared, key: DeviceKey, ns: &Arc<Namespace>, new: NewDevice) -> Self {
        let domain = &stack.domain;
        let mut parts = DeviceParts::default();
        for module in stack.layers.modules {
            if let Some(fill) = module.device {
                fill(&mut parts, domain, ns, new.flags);
            }
        }
        let loopback = new.flags & weir_netlink::ifla::iff::LOOPBACK != 0;
        let features = Features::new(new.link.features(), loopback);
        let queues = [new.queues.0, new.queues.1].map(|number| number as u16);
        Self {
            key,
            steering: Steering::new(&stack.softnet, new.link.kind()),
            bare: new.link.is_bare(),
            link: new.link,
            names: Mutex::new(Names {
                name: new.name.as_str().into(),
                ..Names::default()
            }),
            ifindex: AtomicU32::new(0),
            flags: AtomicU32::new(new.flags),
            mtu: AtomicU32::new(new.mtu),
            txqlen: AtomicU32::new(new.txqlen),
            promiscuity: AtomicU32::new(0),
            allmulti: AtomicU32::new(0),
            carrier_changes: Default::default(),
            address_origin: AtomicU8::new(new.address_origin as u8),
            name_origin: AtomicU8::new(0),
            no_carrier: AtomicBool::new(false),
            derived: Mutex::default(),
            address: AtomicU64::new(pack(new.address)),
            broadcast: AtomicU64::new(pack(new.broadcast)),
            link_mode: AtomicU8::new(0),
            operstate: AtomicU8::new(0),
            below: AtomicU8::new(0),
            offload: Offload::default().as_array().map(AtomicU32::new),
            features,
            taken: Mutex::default(),
            registered: AtomicBool::new(false),
            leaving: AtomicU8::new(HERE),
            namespace: Published::new(domain, ns.clone()),
            stats: PerCpu::new(),
            attached: OnceBox::default(),
            l3_table: AtomicU32::new(0),
            parts,
            tc: weir_tc::DeviceTc::new(domain),
            queues,
            used_queues: queues.map(AtomicU16::new),
        }
    }

    /// Returns the cost of transmits on a queue, summed over the CPUs, for the time it was
    /// measured.
    pub fn transmit_counts(&self, queue: usize) -> measure::Totals {
        let tx = self.tx_made().get(queue);
        let counts = tx.and_then(|tx| tx.counts.get());
        counts.map_or_else(Default::default, |counts| {
            measure::Totals::of(counts.iter().map(|(_, counts)| counts))
        })
    }

    /// Returns the state of a transmit queue, or `None` if the device has no such queue.
    #[inline]
    pub fn tx(&self, queue: u16) -> Option<&TxQueue> {
        let make = || (0..self.queues[0]).map(|_| TxQueue::default()).collect();
        self.attached().tx.get_or_make(make).get(usize::from(queue))
    }

    /// Returns the state of the transmit queues, or nothing as long as nobody has asked for one.
    pub fn tx_made(&self) -> &[TxQueue] {
        let tx = self.attached.get().and_then(|attached| attached.tx.get());
        tx.map_or(&[], |queues| queues)
    }

    /// Returns what is attached to the device, to be changed.
    #[inline]
    fn attached(&self) -> &Attached {
        let domain = self.namespace.domain();
        self.attached.get_or_make(|| Attached::new(domain))
    }

    /// Locks the names.
    pub fn names(&self) -> order::MutexGuard<'_, Names, order::Names> {
        self.names.lock()
    }

    /// Returns the device's name.
    pub fn name(&self) -> String {
        self.names().name.to_string()
    }

    /// Returns the index in its namespace, or 0 before the device is registered.
    #[inline]
    pub fn ifindex(&self) -> u32 {
        self.ifindex.load(Relaxed)
    }

    /// Sets the index in the namespace.
    pub fn set_ifindex(&self, ifindex: u32) {
        self.ifindex.store(ifindex, Relaxed);
    }

    /// Returns whether the device is in its namespace's tables.
    pub fn is_registered(&self) -> bool {
        self.registered.load(Relaxed)
    }

    /// Sets whether the device is in its namespace's tables.
    pub fn set_registered(&self, yes: bool) {
        self.registered.store(yes, Relaxed);
    }

    /// Returns whether the device is being unregistered or moved to another namespace. Code that
    /// attaches something to a device checks this under the lock that guards the attachment. Code
    /// that removes the device sets the flag first and then detaches everything under the same
    /// lock.
    #[inline]
    pub fn is_leaving(&self) -> bool {
        // Acquire: a thread that sees the end of a move also sees the new namespace.
        self.leaving.load(Acquire) != HERE
    }

    /// Returns whether the device is in `ns` and is not leaving it.
    #[inline]
    pub fn is_in(&self, ns: &Namespace, guard: &Guard) -> bool {
        !self.is_leaving() && std::ptr::eq(&**self.namespace(guard), ns)
    }

    /// Returns whether the device is being unregistered.
    pub fn is_dying(&self) -> bool {
        self.leaving.load(Relaxed) == DYING
    }

    /// Marks the device as being unregistered. Returns `false` if it was already marked.
    pub fn begin_to_die(&self) -> bool {
        self.leaving.swap(DYING, Relaxed) != DYING
    }

    /// Marks the device as being moved. Returns `false` if it is already being moved or
    /// unregistered.
    pub fn begin_to_move(&self) -> bool {
        // Acquire: as in `is_leaving`.
        let change = self
            .leaving
            .compare_exchange(HERE, MOVING, Acquire, Relaxed);
        change.is_ok()
    }

    /// Marks the move as finished. Returns `false` if the device is being unregistered.
    pub fn end_move(&self) -> bool {
        let change = self
            .leaving
            .compare_exchange(MOVING, HERE, Release, Relaxed);
        change.is_ok()
    }

    /// `IFF_*` as stored: what was asked for and what the kind has; [`crate::netdev::reported_flags`]
    /// adds running and lower-up.
    #[inline]
    pub fn flags(&self) -> u32 {
        self.flags.load(Relaxed)
    }

    /// Sets the bits of `mask` to those of `value`. Returns the previous flags.
    pub fn change_flags(&self, value: u32, mask: u32) -> u32 {
        let change = |before| Some((before & !mask) | (value & mask));
        let done = self.flags.fetch_update(Relaxed, Relaxed, change);
        done.unwrap_or_else(|before| before)
    }

    /// Returns whether the device's frames begin with a network header; see [`Link::is_bare`].
    #[inline]
    pub fn is_bare(&self) -> bool {
        self.bare
    }

    /// Returns what the device's frames begin with in a capture.
    #[inline]
    pub fn framing(&self) -> Framing {
        match self.bare {
            false => Framing::Ethernet,
            true if self.link.hardware_type() == arphrd::NETLINK => Framing::Netlink,
            true => Framing::Bare,
        }
    }

    /// Returns whether the device is administratively up (`IFF_UP`).
    #[inline]
    pub fn is_up(&self) -> bool {
        self.flags() & weir_netlink::ifla::iff::UP != 0
    }

    /// Returns the MTU in bytes.
    #[inline]
    pub fn mtu(&self) -> u32 {
        self.mtu.load(Relaxed)
    }

    /// Sets the MTU, in bytes.
    pub fn set_mtu(&self, mtu: u32) {
        self.mtu.store(mtu, Relaxed);
    }

    /// Returns the default queue length in packets.
    pub fn txqlen(&self) -> u32 {
        self.txqlen.load(Relaxed)
    }

    /// Returns the number of transmit queues the device was created with (`num_tx_queues`).
    #[inline]
    pub fn tx_queues(&self) -> u32 {
        self.queues[0].into()
    }

    /// Returns the number of receive queues the device was created with (`num_rx_queues`).
    pub fn rx_queues(&self) -> u32 {
        self.queues[1].into()
    }

    /// Returns how many transmit and receive queues are in use (`real_num_tx_queues`,
    /// `real_num_rx_queues`), at least 1 each. Packets choose among the transmit queues in use.
    #[inline]
    pub fn used_queues(&self) -> (u32, u32) {
        let [tx, rx] = &self.used_queues;
        (tx.load(Relaxed).into(), rx.load(Relaxed).into())
    }

    /// Sets how many transmit and receive queues are in use. The caller has checked the numbers.
    pub fn use_queues(&self, (tx, rx): (u32, u32)) {
        self.used_queues[0].store(tx as u16, Relaxed);
        self.used_queues[1].store(rx as u16, Relaxed);
    }

    /// Computes the active features again. Returns whether they changed; see
    /// [`crate::netdev::update_features`].
    pub fn recompute_features(&self) -> bool {
        let _alone = self.derived.lock();
        let kind = |features| self.link.fix_features(features);
        self.features.recompute(kind)
    }

    /// Sets how many packets a default queue holds.
    pub fn set_txqlen(&self, len: u32) {
        self.txqlen.store(len, Relaxed);
    }

    /// `IFLA_GROUP`
    pub fn group(&self) -> u32 {
        let attached = self.attached.get();
        attached.map_or(0, |attached| attached.group.load(Relaxed))
    }

    /// Sets `IFLA_GROUP`.
    pub fn set_group(&self, group: u32) {
        if group != self.group() {
            self.attached().group.store(group, Relaxed);
        }
    }

    /// Returns the number of users of promiscuous mode.
    pub fn promiscuity(&self) -> u32 {
        self.promiscuity.load(Relaxed)
    }

    /// Returns the number of users of all-multicast mode.
    pub fn allmulti(&self) -> u32 {
        self.allmulti.load(Relaxed)
    }

    /// Adds or removes one user of promiscuous mode, or of all-multicast mode if `multicast` is
    /// set. Returns whether the mode was turned on or off by this.
    pub fn ask_for_all(&self, multicast: bool, more: bool) -> bool {
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

    /// Returns whether the last carrier check found no carrier. The qdisc then accepts no packets
    /// (`dev_deactivate`).
    #[inline]
    pub fn lacks_carrier(&self) -> bool {
        self.no_carrier.load(Relaxed)
    }

    /// Reads the carrier with `now` and stores the result. Callers use it when the carrier may have
    /// changed. Returns whether there is a carrier.
    pub fn watch_carrier(&self, now: impl FnOnce() -> bool) -> bool {
        let _alone = self.derived.lock();
        let on = now();
        self.no_carrier.store(!on, Relaxed);
        on
    }

    /// Returns how often the carrier came up and went down (`IFLA_CARRIER_UP_COUNT`,
    /// `IFLA_CARRIER_DOWN_COUNT`).
    pub fn carrier_changes(&self) -> (u32, u32) {
        let [lost, found] = &self.carrier_changes;
        (found.load(Relaxed), lost.load(Relaxed))
    }

    /// Counts a carrier that was found (`on`) or lost.
    pub fn count_carrier_change(&self, on: bool) {
        self.carrier_changes[usize::from(on)].fetch_add(1, Relaxed);
    }

    /// Returns the origin of the address (the values of `addr_assign_type`).
    pub fn address_origin(&self) -> u8 {
        self.address_origin.load(Relaxed)
    }

    /// Returns the origin of the name (`NET_NAME_*`), or 0 if it is unknown.
    pub fn name_origin(&self) -> u8 {
        self.name_origin.load(Relaxed)
    }

    /// Sets the origin of the name.
    pub fn set_name_origin(&self, origin: NameOrigin) {
        self.name_origin.store(origin as u8, Relaxed);
    }

    /// Returns the Ethernet address.
    #[inline]
    pub fn address(&self) -> Mac {
        unpack(self.address.load(Relaxed))
    }

    /// Sets the Ethernet address.
    pub fn set_address(&self, mac: Mac) {
        self.address.store(pack(mac), Relaxed);
        self.address_origin.store(AddressOrigin::Set as u8, Relaxed);
    }

    /// Sets the Ethernet address and its origin.
    pub fn set_address_of(&self, mac: Mac, origin: AddressOrigin) {
        self.address.store(pack(mac), Relaxed);
        self.address_origin.store(origin as u8, Relaxed);
    }

    /// Takes over the Ethernet address of the lower device. The origin stays
    /// [`AddressOrigin::Stolen`].
    pub fn inherit_address(&self, mac: Mac) {
        self.address.store(pack(mac), Relaxed);
    }

    /// Returns the Ethernet broadcast address.
    pub fn broadcast(&self) -> Mac {
        unpack(self.broadcast.load(Relaxed))
    }

    /// Sets the Ethernet broadcast address.
    pub fn set_broadcast(&self, mac: Mac) {
        self.broadcast.store(pack(mac), Relaxed);
    }

    /// `IFLA_LINKMODE`
    pub fn link_mode(&self) -> u8 {
        self.link_mode.load(Relaxed)
    }

    /// Sets `IFLA_LINKMODE`.
    pub fn set_link_mode(&self, mode: u8) {
        self.link_mode.store(mode, Relaxed);
    }

    /// Returns the operational state that a user or a carrier change set, or `oper::UNKNOWN` if
    /// neither did.
    pub fn known_operstate(&self) -> u8 {
        self.operstate.load(Relaxed)
    }

    /// Sets the operational state that a user or a carrier change set.
    pub fn set_known_operstate(&self, state: u8) {
        self.operstate.store(state, Relaxed);
    }

    /// Returns `oper::DORMANT` or `oper::TESTING` if the lower device is in that state, else
    /// `oper::UNKNOWN`.
    pub fn state_below(&self) -> u8 {
        self.below.load(Relaxed)
    }

    /// Sets the state passed on by the lower device. Returns the previous one.
    pub fn set_state_below(&self, state: u8) -> u8 {
        self.below.swap(state, Relaxed)
    }

    /// Locks the lists of additional addresses.
    pub fn taken(&self) -> order::MutexGuard<'_, Taken, order::Taken> {
        self.taken.lock()
    }

    /// Returns the segmentation offload limits (`IFLA_GSO_MAX_SIZE` and so on).
    #[inline]
    pub fn offload(&self) -> Offload {
        let [segments, gso, gro] = &self.offload;
        Offload {
            gso_max_segs: segments.load(Relaxed),
            gso_max_size: gso.load(Relaxed),
            gro_max_size: gro.load(Relaxed),
        }
    }

    /// Sets the limits of segmentation offload.
    pub fn set_offload(&self, offload: Offload) {
        for (limit, new) in self.offload.iter().zip(offload.as_array()) {
            limit.store(new, Relaxed);
        }
    }

    /// Returns the namespace the device is in.
    #[inline]
    pub fn namespace<'g>(&'g self, guard: &'g Guard) -> &'g Arc<Namespace> {
        self.namespace.load(guard)
    }

    /// Moves the device to another namespace's tables; the caller holds both link locks.
    pub fn set_namespace(&self, ns: Arc<Namespace>) {
        self.namespace.replace(ns);
    }

    /// Draws 32 random bits for traffic control from the device's own generator. The generator is
    /// seeded from the namespace and the device's name at the first draw.
    pub fn draw(&self, seed: u64, guard: &Guard) -> u32 {
        let generator = self.attached().random.get_or_make(|| {
            let path = format!(
                "namespace {}/{}/tc",
                self.namespace(guard).id.0,
                self.name()
            );
            SharedGenerator::new(seed, &path)
        });
        (generator.next_u64() >> 32) as u32
    }

    /// Returns the counters of one CPU.
    #[inline]
    pub fn stats(&self, cpu: usize) -> &LinkStats {
        self.stats.get(cpu)
    }

    /// Returns the sums of the counters over all CPUs.
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

    /// Counts several packets dropped for one reason.
    pub fn count_drops(&self, place: Place, reason: DropReason, count: u64) {
        let drops = self.attached().drops.get_or_make(DropCounters::default);
        drops.count(place, reason, count);
    }

    /// Returns the drop counters of the device as (place, reason, packets), in the order of the
    /// tables.
    pub fn drops(&self) -> Vec<(Place, DropReason, u64)> {
        let attached = self.attached.get();
        let drops = attached.and_then(|attached| attached.drops.get());
        drops.map(DropCounters::totals).unwrap_or_default()
    }

    /// Returns the VLAN device on top of this one with a protocol and VLAN id.
    #[inline]
    pub fn vlan<'g>(&'g self, proto: u16, vid: u16, guard: &'g Guard) -> Option<&'g Arc<Device>> {
        self.vlans(guard)
            .iter()
            .find(|(p, v, _)| (*p, *v) == (proto, vid))
            .map(|(_, _, device)| device)
    }

    /// Returns the VLAN devices on top of this one.
    pub fn vlans<'g>(&'g self, guard: &'g Guard) -> &'g [(u16, u16, Arc<Device>)] {
        let vlans = self.attached.get().map(|attached| &attached.vlans);
        vlans
            .and_then(|vlans| vlans.load(guard))
            .map_or(&[], Vec::as_slice)
    }

    /// Changes the list of VLAN devices. The caller holds the namespace's link lock.
    pub fn change_vlans(
        &self,
        guard: &Guard,
        change: impl FnOnce(&mut Vec<(u16, u16, Arc<Device>)>),
    ) {
        let mut vlans = self.vlans(guard).to_vec();
        change(&mut vlans);
        self.attached().vlans.replace(some(vlans));
    }

    /// Returns the wire that takes the device's outgoing frames, or `None` if the link kind
    /// transmits them.
    #[inline]
    pub fn wire<'g>(&'g self, guard: &'g Guard) -> Option<&'g Arc<dyn Wire>> {
        self.attached.get()?.wire.load(guard)
    }

    /// Returns whether a wire is attached.
    pub fn has_wire(&self) -> bool {
        let attached = self.attached.get();
        attached.is_some_and(|attached| attached.wire.is_some())
    }

    /// Attaches a wire to the device or detaches it. A device with a wire gets a queueing qdisc by
    /// default when it first goes up. A new wire starts with no frames in flight.
    pub fn connect(&self, stack: &Shared, wire: Option<Arc<dyn Wire>>) {
        self.attached().wire.replace(wire);
        (stack.layers.path.restart)(stack, self);
    }

    /// Returns the handler of received frames, if there is one.
    #[inline]
    pub fn rx_handler<'g>(&'g self, guard: &'g Guard) -> Option<&'g Arc<dyn RxHandler>> {
        self.attached.get()?.rx_handler.load(guard)
    }

    /// Sets or removes the handler of received frames (`netdev_rx_handler_register`).
    pub fn set_rx_handler(&self, handler: Option<Arc<dyn RxHandler>>) {
        self.attached().rx_handler.replace(handler);
    }

    /// Returns the device of which this one is a port.
    #[inline]
    pub fn master<'g>(&'g self, guard: &'g Guard) -> Option<&'g Arc<Device>> {
        self.attached.get()?.master.load(guard)
    }

    /// Makes the device a port of another one, or of none. The kind of the master calls this under the
    /// lock of its ports.
    pub fn set_master(&self, master: Option<Arc<Device>>) {
        self.attached().master.replace(master);
    }

    /// Returns the routing table of the device's L3 domain: its own table if it is a VRF, that of its VRF if it
    /// is a port of one, and otherwise 0 (`l3mdev_fib_table`).
    #[inline]
    pub fn l3_table(&self) -> u32 {
        self.l3_table.load(Relaxed)
    }

    /// Sets the table of the device's L3 domain. The kind of the VRF calls this.
    pub fn set_l3_table(&self, table: u32) {
        self.l3_table.store(table, Relaxed);
    }

    /// Returns the VRF of a port, or the device itself if it is a VRF (`l3mdev_master_dev_rcu`).
    #[inline]
    pub fn l3_master<'g>(self: &'g Arc<Self>, guard: &'g Guard) -> Option<&'g Arc<Self>> {
        if self.l3_table() == 0 {
            return None;
        }
        // The master of a VRF's port is the VRF. A VRF has no master.
        Some(self.master(guard).unwrap_or(self))
    }

    /// Returns the index of [`l3_master`](Self::l3_master), or 0 if there is none
    /// (`l3mdev_master_ifindex_rcu`).
    #[inline]
    pub fn l3_master_index(&self, guard: &Guard) -> u32 {
        if self.l3_table() == 0 {
            return 0;
        }
        self.master(guard)
            .map_or(self.ifindex(), |master| master.ifindex())
    }

    /// Returns whether the device is a VRF (`netif_is_l3_master`).
    #[inline]
    pub fn is_l3_master(&self) -> bool {
        self.l3_table() != 0 && self.link.is_l3_master()
    }

    /// Returns the observers of the device.
    #[inline]
    pub fn observers<'g>(&'g self, guard: &'g Guard) -> &'g [Arc<dyn Observer>] {
        let observers = self.attached.get().map(|attached| &attached.observers);
        observers
            .and_then(|observers| observers.load(guard))
            .map_or(&[], Vec::as_slice)
    }

    /// Adds an observer.
    pub fn observe(&self, guard: &Guard, observer: Arc<dyn Observer>) {
        let _names = self.names();
        let mut all = self.observers(guard).to_vec();
        all.push(observer);
        self.attached().observers.replace(Some(all));
    }

    /// Removes an observer.
    pub fn unobserve(&self, guard: &Guard, observer: &Arc<dyn Observer>) {
        let _names = self.names();
        let mut all = self.observers(guard).to_vec();
        all.retain(|other| !Arc::ptr_eq(other, observer));
        self.attached().observers.replace(some(all));
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
