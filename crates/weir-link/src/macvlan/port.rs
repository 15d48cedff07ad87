// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The lower device of macvlans (`struct macvlan_port`): who they are, and to whom frames go
//! (`macvlan_handle_frame`, `macvlan_queue_xmit`, `macvlan_broadcast`).
//!
//! The lower device owns the port as its handler of received frames. Macvlans refer to the port weakly, so that
//! no circle keeps devices alive. The data path reads by RCU; changes hold the link lock of the lower device's
//! namespace, except those of the table of addresses.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use weir_netlink::ifla::{arphrd, iff, macvlan_mode as mode};
use weir_netlink::{Error, errno};
use weir_packet::header::Ethernet;
use weir_packet::header::ethernet::is_vlan;
use weir_packet::{Arrival, Batch, DropReason, LongPackets, Packet, PacketType};
use weir_sync::hash::RcuHash;
use weir_sync::rcu::{Guard, Published};

use super::{Macvlan, NODST, addresses};
use crate::RxHandler;
use crate::cpu::Cx;
use crate::device::{Device, Mac};
use crate::drops::Place;
use crate::stack::Stack;

/// `ETH_P_PAUSE`
const PAUSE: u16 = 0x8808;

/// Packs an address into a word.
pub fn word([a, b, c, d, e, f]: Mac) -> u64 {
    u64::from_be_bytes([0, 0, a, b, c, d, e, f])
}

/// Unpacks an address.
pub fn mac(word: u64) -> Mac {
    let [_, _, a, b, c, d, e, f] = word.to_be_bytes();
    [a, b, c, d, e, f]
}

/// The groups that a macvlan accepts (`macvlan_compute_filter`).
#[derive(Default)]
pub struct Filter {
    all: bool,
    /// Sorted.
    groups: Vec<u64>,
}

impl Filter {
    /// Returns what a device accepts at present.
    pub fn of(device: &Device) -> Self {
        let taken = device.taken();
        let entries = taken.multicast.entries();
        let mut groups: Vec<u64> = entries.map(|entry| word(entry.mac)).collect();
        groups.push(word(device.broadcast()));
        groups.sort_unstable();
        Self {
            all: device.promiscuity() > 0 || device.allmulti() > 0,
            groups,
        }
    }

    /// Returns whether a group, as [`word`] packs its address, is accepted.
    pub fn accepts(&self, group: u64) -> bool {
        self.all || self.groups.binary_search(&group).is_ok()
    }
}

/// A macvlan with its device.
pub struct Member {
    /// The kind's part.
    pub macvlan: Arc<Macvlan>,
    /// The device.
    pub device: Arc<Device>,
}

/// See the module documentation.
pub struct Port {
    /// In the order in which they were made.
    members: Published<Vec<Arc<Member>>>,
    /// Those that are up, by address.
    by_address: RcuHash<u64, Arc<Member>>,
    /// By the sources they list, the newest first.
    sources: Published<BTreeMap<u64, Vec<Arc<Member>>>>,
    passthru: bool,
    /// The address that the lower device gets back from a macvlan of mode passthru (`perm_addr`).
    own: AtomicU64,
    /// A macvlan changes the lower device's address (`MACVLAN_F_ADDRCHANGE`).
    keeps: AtomicBool,
}

/// The handler of received frames that the lower device owns.
struct Entrance(Arc<Port>);

/// Returns the port of a device, if macvlans are on top of it.
pub fn port_of<'g>(device: &'g Device, guard: &'g Guard) -> Option<&'g Arc<Port>> {
    let handler = device.rx_handler(guard)?.as_any()?;
    handler
        .downcast_ref::<Entrance>()
        .map(|entrance| &entrance.0)
}

impl Port {
    /// Checks that a macvlan may be made on top of a device (`macvlan_port_create`).
    pub fn check(lower: &Device, guard: &Guard, passthru: bool) -> Result<(), Error> {
        let ethernet = lower.link.hardware_type() == arphrd::ETHER;
        match port_of(lower, guard) {
            Some(port) if passthru || port.passthru => Err(Error::new(errno::EINVAL)),
            Some(_) => Ok(()),
            None if !ethernet || lower.flags() & iff::LOOPBACK != 0 => {
                Err(Error::new(errno::EINVAL))
            }
            None if !lower.link.may_have_handler() => Err(Error::new(errno::EINVAL)),
            None if lower.rx_handler(guard).is_some() => Err(Error::new(errno::EBUSY)),
            None => Ok(()),
        }
    }

    /// Adds a macvlan to the port of a lower device, which is made with the first.
    pub fn join(
        stack: &Stack,
        guard: &Guard,
        lower: &Device,
        macvlan: &Arc<Macvlan>,
        device: &Arc<Device>,
    ) {
        let port = port_of(lower, guard).cloned().unwrap_or_else(|| {
            let port = Arc::new(Self {
                members: Published::new(&stack.domain, Vec::new()),
                by_address: RcuHash::new(&stack.domain),
                sources: Published::new(&stack.domain, BTreeMap::new()),
                passthru: macvlan.has_mode(mode::PASSTHRU),
                own: AtomicU64::new(word(lower.address())),
                keeps: AtomicBool::new(false),
            });
            lower.set_rx_handler(Some(Arc::new(Entrance(port.clone()))));
            port
        });
        let mut members = port.members.load(guard).clone();
        members.push(Arc::new(Member {
            macvlan: macvlan.clone(),
            device: device.clone(),
        }));
        port.members.replace(members);
        let set = macvlan.port.set(Arc::downgrade(&port)).is_ok();
        debug_assert!(set, "a macvlan joins once");
    }

    /// Removes a macvlan. With the last one the port goes; then returns the address that the lower device had
    /// before a macvlan of mode passthru.
    pub fn leave(
        &self,
        guard: &Guard,
        lower: &Device,
        macvlan: &Arc<Macvlan>,
        device: &Device,
    ) -> Option<Mac> {
        let mut members = self.members.load(guard).clone();
        members.retain(|member| member.device.key != device.key);
        let last = members.is_empty();
        self.members.replace(members);
        self.set_sources(guard, macvlan, &[]);
        if !last {
            return None;
        }
        lower.set_rx_handler(None);
        self.passthru.then(|| mac(self.own.load(Relaxed)))
    }

    /// Returns the macvlans in the order in which they were made.
    pub fn members<'g>(&'g self, guard: &'g Guard) -> &'g [Arc<Member>] {
        self.members.load(guard)
    }

    /// Returns a macvlan with its device.
    pub fn member<'g>(&'g self, guard: &'g Guard, macvlan: &Macvlan) -> Option<&'g Arc<Member>> {
        let mut members = self.members.load(guard).iter();
        members.find(|member| std::ptr::eq(&*member.macvlan, macvlan))
    }

    /// Returns whether the only macvlan has the mode passthru.
    pub fn is_passthru(&self) -> bool {
        self.passthru
    }

    /// Returns the largest queue that a macvlan asked for (`update_port_bc_queue_len`).
    pub fn queue(&self, guard: &Guard) -> u32 {
        let members = self.members.load(guard).iter();
        let queues = members.map(|member| member.macvlan.queue.load(Relaxed));
        queues.max().unwrap_or(0)
    }

    /// Sets whether the next change of the lower device's address is a macvlan's.
    pub fn keeps_address(&self, keeps: bool) {
        self.keeps.store(keeps, Relaxed);
    }

    /// Notes a new address of the lower device, unless a macvlan set it.
    pub fn keep_address(&self, mac: Mac) {
        if !self.keeps.swap(false, Relaxed) {
            self.own.store(word(mac), Relaxed);
        }
    }

    /// Checks that neither the lower device nor a macvlan that is up has an address (`macvlan_addr_busy`).
    pub fn check_free(&self, guard: &Guard, lower: &Device, mac: &Mac) -> Result<(), Error> {
        let free = lower.address() != *mac && !self.by_address.contains(&word(*mac), guard);
        free.then_some(()).ok_or(Error::new(errno::EADDRINUSE))
    }

    /// Enters a macvlan under another address; 0 is none.
    pub fn rehash(&self, guard: &Guard, macvlan: &Macvlan, (before, now): (u64, u64)) {
        if before != 0 {
            let own = |member: &Arc<Member>| std::ptr::eq(&*member.macvlan, macvlan);
            self.by_address.remove_if(&before, guard, own);
        }
        if now != 0
            && let Some(member) = self.member(guard, macvlan)
        {
            self.by_address.insert(now, member.clone(), guard);
        }
    }

    /// Lists a macvlan under the sources that it listens to.
    pub fn set_sources(&self, guard: &Guard, macvlan: &Macvlan, sources: &[u64]) {
        let own = |member: &Arc<Member>| std::ptr::eq(&*member.macvlan, macvlan);
        let before = self.sources.load(guard);
        if sources.is_empty() && !before.values().flatten().any(own) {
            return;
        }
        let mut all = before.clone();
        all.retain(|source, members| {
            if !sources.contains(source) {
                members.retain(|member| !own(member));
            }
            !members.is_empty()
        });
        if let Some(member) = self.member(guard, macvlan) {
            for source in sources {
                let members = all.entry(*source).or_default();
                if !members.iter().any(own) {
                    members.insert(0, member.clone());
                }
            }
        }
        self.sources.replace(all);
    }

    /// Sends the frames of a macvlan of mode bridge to the others of that mode, and returns those that leave by
    /// the lower device (`macvlan_queue_xmit`).
    pub fn switch(
        &self,
        cx: &mut Cx<'_>,
        from: &Macvlan,
        lower: &Arc<Device>,
        batch: Batch,
    ) -> Batch {
        let (mut world, mut back) = (Batch::new(), Batch::new());
        let place = word_of(lower);
        for mut packet in batch {
            // A whole Ethernet header is in front of every frame that is sent.
            let Some((dst, _)) = addresses(&packet) else {
                cx.drop(lower, Place::Transmit, DropReason::PKT_TOO_SMALL, packet);
                continue;
            };
            let other = match dst[0] & 1 {
                0 => self.by_address.get(&word(dst), cx.guard),
                _ => {
                    self.broadcast(cx, Some(from), mode::BRIDGE, dst, &packet);
                    None
                }
            };
            // There is room in both: they are no larger than the batch that is split.
            if other.is_none_or(|other| !other.macvlan.has_mode(mode::BRIDGE)) {
                let _ = world.push(packet);
            } else if !lower.is_up() {
                cx.drop(lower, Place::Receive, DropReason::DEV_READY, packet);
            } else if comes_back(&mut packet, cx.now, place, dst, lower) {
                let _ = back.push(packet);
            } else {
                cx.drop(lower, Place::Receive, DropReason::PKT_TOO_SMALL, packet);
            }
        }
        cx.receive_counted_later(lower, back);
        world
    }

    /// Gives copies of a group frame to the macvlans of some modes that accept the group, except to `from`
    /// (`macvlan_broadcast`).
    fn broadcast(
        &self,
        cx: &mut Cx<'_>,
        from: Option<&Macvlan>,
        modes: u32,
        dst: Mac,
        packet: &Packet,
    ) {
        if packet.protocol == PAUSE {
            return;
        }
        for member in self.members.load(cx.guard) {
            let macvlan = &*member.macvlan;
            let own = from.is_some_and(|from| std::ptr::eq(from, macvlan));
            if own || !macvlan.has_mode(modes) || !member.device.is_up() {
                continue;
            }
            if !macvlan.filter.load(cx.guard).accepts(word(dst)) {
                continue;
            }
            match packet.copy() {
                Some(mut copy) => {
                    if modes == mode::BRIDGE {
                        scrub(&mut copy);
                    }
                    let mut batch = Batch::new();
                    let _ = batch.push(copy);
                    cx.receive_later(&member.device, batch);
                }
                None => member.device.count_drop(Place::Receive, DropReason::NOMEM),
            }
        }
    }

    /// Gives copies of a frame to the macvlans that list its source. Returns whether nobody else gets it
    /// (`macvlan_forward_source`).
    fn forward_source(&self, cx: &mut Cx<'_>, src: Mac, packet: &Packet) -> bool {
        let sources = self.sources.load(cx.guard);
        if sources.is_empty() {
            return false;
        }
        let mut alone = false;
        for member in sources.get(&word(src)).into_iter().flatten() {
            alone |= member.macvlan.has_flag(NODST);
            if !member.device.is_up() {
                continue;
            }
            match packet.copy() {
                Some(copy) => {
                    let mut batch = Batch::new();
                    let _ = batch.push(copy);
                    cx.receive_later(&member.device, batch);
                }
                None => member.device.count_drop(Place::Receive, DropReason::NOMEM),
            }
        }
        alone
    }
}

/// Returns the key and the index of a device.
pub fn word_of(device: &Device) -> (u32, u32) {
    (device.key.0, device.ifindex())
}

/// Removes what a frame does not take along to another device (`skb_scrub_packet`).
pub fn scrub(packet: &mut Packet) {
    if packet.tunnel().is_some() {
        packet.set_tunnel(None);
    }
    packet.set_conn(None);
    packet.priority = 0;
}

/// Makes a frame that is sent one that the lower device receives (`dev_forward_skb`). Returns `false` if its VLAN
/// tag is truncated.
pub fn comes_back(
    packet: &mut Packet,
    now: u64,
    (key, index): (u32, u32),
    dst: Mac,
    lower: &Device,
) -> bool {
    scrub(packet);
    let Some(eth) = Ethernet::new(packet.data()) else {
        return false;
    };
    let protocol = eth.ethertype();
    let ty = match dst == lower.address() {
        true => PacketType::Host,
        false => PacketType::OtherHost,
    };
    packet.set_received(Arrival::new(now, key, index), (ty, protocol), Ethernet::LEN);
    if is_vlan(protocol) && packet.vlan().is_none() {
        let Some(inner) = weir_packet::edit::untag(packet) else {
            return false;
        };
        packet.protocol = inner;
        packet.set_network(Ethernet::LEN);
    }
    true
}

/// Collects consecutive frames for one macvlan and passes them up together.
#[derive(Default)]
struct Up<'g> {
    to: Option<&'g Arc<Member>>,
    batch: Batch,
    octets: u64,
}

impl<'g> Up<'g> {
    fn push(&mut self, cx: &mut Cx<'_>, to: &'g Arc<Member>, mut packet: Packet) {
        if self.to.is_some_and(|before| !Arc::ptr_eq(before, to)) {
            self.flush(cx);
        }
        self.to = Some(to);
        (packet.dev, packet.iif) = word_of(&to.device);
        packet.set_pkt_type(PacketType::Host);
        self.octets += packet.len() as u64;
        // There is room: the part is no larger than the batch it is taken from.
        let _ = self.batch.push(packet);
    }

    fn flush(&mut self, cx: &mut Cx<'_>) {
        let Some(to) = self.to.take() else { return };
        let (device, mut batch) = (&to.device, self.batch.take());
        let octets = std::mem::take(&mut self.octets);
        if !device.is_up() {
            return cx.drop_batch(device, Place::Receive, DropReason::DEV_READY, batch);
        }
        let stats = device.stats(cx.state.id);
        stats.rx_packets.fetch_add(batch.len() as u64, Relaxed);
        stats.rx_bytes.fetch_add(octets, Relaxed);
        (cx.stack.layers.path.steered)(cx, device, &mut batch);
    }
}

impl RxHandler for Entrance {
    fn as_any(&self) -> Option<&dyn std::any::Any> {
        Some(self)
    }

    /// `macvlan_handle_frame`
    fn receive(&self, cx: &mut Cx<'_>, device: &Arc<Device>, batch: Batch) {
        let (port, guard) = (&*self.0, cx.guard);
        let (mut up, mut passed) = (Up::default(), Batch::new());
        for packet in batch {
            let Some((dst, src)) = addresses(&packet) else {
                cx.drop(device, Place::Receive, DropReason::PKT_TOO_SMALL, packet);
                continue;
            };
            if port.forward_source(cx, src, &packet) {
                cx.consume(packet);
                continue;
            }
            if dst[0] & 1 == 0 {
                let to = match port.passthru {
                    true => port.members.load(guard).first(),
                    false => port.by_address.get(&word(dst), guard),
                };
                match to.filter(|to| !to.macvlan.has_mode(mode::SOURCE)) {
                    Some(to) => up.push(cx, to, packet),
                    None => {
                        // There is room: the part is no larger than the batch it is taken from.
                        let _ = passed.push(packet);
                    }
                }
                continue;
            }
            let from = port.by_address.get(&word(src), guard);
            let modes = match from.map(|from| &*from.macvlan) {
                None => mode::PRIVATE | mode::VEPA | mode::PASSTHRU | mode::BRIDGE,
                // To all but the sender.
                Some(from) if from.has_mode(mode::VEPA) => mode::VEPA | mode::BRIDGE,
                // Those of mode bridge saw the frame when it was sent.
                Some(from) if from.has_mode(mode::BRIDGE) => mode::VEPA,
                // The frame came back to its sender.
                Some(_) => {
                    if let Some(from) = from {
                        let mut batch = Batch::new();
                        let _ = batch.push(packet);
                        cx.receive_later(&from.device, batch);
                    }
                    continue;
                }
            };
            if port.queue(guard) > 0 {
                let from = from.map(|from| &*from.macvlan);
                port.broadcast(cx, from, modes, dst, &packet);
            }
            let _ = passed.push(packet);
        }
        up.flush(cx);
        if !passed.is_empty() {
            (cx.stack.layers.path.unhandled)(cx, device, &mut passed);
        }
    }

    fn long_packets(&self) -> LongPackets {
        LongPackets {
            max_len: u32::MAX,
            udp: true,
        }
    }
}
