// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The lower device of ipvlans (`struct ipvl_port`): who they are, and to whom frames go (`ipvlan_core.c`).
//!
//! The lower device owns the port as its handler of received frames, and ipvlans refer to it weakly. The data
//! path reads by RCU; changes hold the link lock of the lower device's namespace, except those of the table of
//! addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};

use weir_netlink::ifla::{arphrd, iff};
use weir_netlink::{Error, errno, rtm};
use weir_packet::header::ethernet::{ETH_P_ARP, ETH_P_IP, ETH_P_IPV6};
use weir_packet::header::{Ethernet, Ipv4};
use weir_packet::{Batch, DropReason, Flags, LongPackets, Packet, PacketType};
use weir_sync::hash::RcuHash;
use weir_sync::rcu::{Guard, Published};

use super::{Ipvlan, PRIVATE, VEPA, mode};
use crate::RxHandler;
use crate::cpu::Cx;
use crate::device::{Device, Mac};
use crate::drops::Place;
use crate::ipv4::route::Wanted;
use crate::macvlan::port::{comes_back, scrub, word, word_of};
use crate::stack::Stack;
use crate::{ipv4, ipv6, neigh};

/// An ipvlan with its device.
pub struct Member {
    /// The kind's part.
    pub ipvlan: Arc<Ipvlan>,
    /// The device.
    pub device: Arc<Device>,
}

/// See the module documentation.
pub struct Port {
    /// In the order in which they were made.
    members: Published<Vec<Arc<Member>>>,
    /// Those that are up, by address.
    by_address: RcuHash<IpAddr, Arc<Member>>,
    mode: AtomicU16,
    flags: AtomicU16,
    /// The next number of an ipvlan (`dev_id_start`).
    next: AtomicU16,
}

/// The handler of received frames that the lower device owns.
struct Entrance(Arc<Port>);

/// Returns the port of a device, if ipvlans are on top of it.
pub fn port_of<'g>(device: &'g Device, guard: &'g Guard) -> Option<&'g Arc<Port>> {
    let handler = device.rx_handler(guard)?.as_any()?;
    let entrance = handler.downcast_ref::<Entrance>();
    entrance.map(|entrance| &entrance.0)
}

impl Port {
    /// Checks that an ipvlan may be made on top of a device.
    pub fn check(lower: &Device, guard: &Guard) -> Result<(), Error> {
        let ethernet = lower.link.hardware_type() == arphrd::ETHER;
        if port_of(lower, guard).is_some() {
            return Ok(());
        }
        if !ethernet || lower.flags() & iff::LOOPBACK != 0 {
            return Err(Error::new(errno::EINVAL));
        }
        match lower.rx_handler(guard) {
            Some(_) => Err(Error::new(errno::EBUSY)),
            None => Ok(()),
        }
    }

    /// Adds an ipvlan to the port of a lower device, which is made with the first.
    pub fn join(
        stack: &Stack,
        guard: &Guard,
        lower: &Device,
        ipvlan: &Arc<Ipvlan>,
        device: &Arc<Device>,
    ) -> Result<Arc<Self>, Error> {
        let port = port_of(lower, guard).cloned().unwrap_or_else(|| {
            let port = Arc::new(Self {
                members: Published::new(&stack.domain, Vec::new()),
                by_address: RcuHash::new(&stack.domain),
                mode: AtomicU16::new(mode::L3),
                flags: AtomicU16::new(0),
                next: AtomicU16::new(1),
            });
            lower.set_rx_handler(Some(Arc::new(Entrance(port.clone()))));
            port
        });
        let mut members = port.members.load(guard).clone();
        // The numbers 1 to 0xfffd, beginning behind the last one.
        let start = match port.next.load(Relaxed) {
            0xfffe.. => 1,
            start => start,
        };
        let taken = |id: &u16| {
            members
                .iter()
                .any(|other| other.ipvlan.id.load(Relaxed) == *id)
        };
        let mut free = (start..0xfffe).chain(1..start).filter(|id| !taken(id));
        let id = free.next().ok_or_else(|| Error::new(errno::ENOSPC))?;
        port.next.store(id + 1, Relaxed);
        ipvlan.id.store(id, Relaxed);
        members.push(Arc::new(Member {
            ipvlan: ipvlan.clone(),
            device: device.clone(),
        }));
        port.members.replace(members);
        let set = ipvlan.port.set(Arc::downgrade(&port)).is_ok();
        debug_assert!(set, "an ipvlan joins once");
        Ok(port)
    }

    /// Removes an ipvlan. The port goes with the last one.
    pub fn leave(&self, guard: &Guard, lower: &Device, device: &Device) {
        let mut members = self.members.load(guard).clone();
        members.retain(|member| member.device.key != device.key);
        if members.is_empty() {
            lower.set_rx_handler(None);
        }
        self.members.replace(members);
    }

    /// Returns the ipvlans in the order in which they were made.
    pub fn members<'g>(&'g self, guard: &'g Guard) -> &'g [Arc<Member>] {
        self.members.load(guard)
    }

    /// Returns an ipvlan with its device.
    pub fn member<'g>(&'g self, guard: &'g Guard, ipvlan: &Ipvlan) -> Option<&'g Arc<Member>> {
        let mut members = self.members.load(guard).iter();
        members.find(|member| std::ptr::eq(&*member.ipvlan, ipvlan))
    }

    /// `IFLA_IPVLAN_MODE`
    pub fn mode(&self) -> u16 {
        self.mode.load(Relaxed)
    }

    /// `IFLA_IPVLAN_FLAGS`
    pub fn flags(&self) -> u16 {
        self.flags.load(Relaxed)
    }

    /// Sets `IFLA_IPVLAN_FLAGS`.
    pub fn set_flags(&self, flags: u16) {
        self.flags.store(flags, Relaxed);
    }

    /// Sets the mode of all ipvlans, except that `new` has no state yet (`ipvlan_set_port_mode`).
    pub fn set_mode(&self, stack: &Stack, guard: &Guard, wanted: u16, new: Option<&Device>) {
        if self.mode.swap(wanted, Relaxed) == wanted {
            return;
        }
        let flags = if wanted == mode::L2 { 0 } else { iff::NOARP };
        for member in self.members.load(guard) {
            let device = &member.device;
            if new.is_some_and(|new| new.key == device.key) {
                continue;
            }
            if device.change_flags(flags, iff::NOARP) & iff::NOARP != flags {
                let ns = device.namespace(guard);
                crate::changed(stack, guard, ns, device, rtm::NEWLINK, iff::NOARP);
            }
        }
    }

    /// Lists an ipvlan under an address.
    pub fn list(&self, guard: &Guard, address: IpAddr, ipvlan: &Ipvlan) {
        if let Some(member) = self.member(guard, ipvlan) {
            self.by_address.insert(address, member.clone(), guard);
        }
    }

    /// Forgets an address of an ipvlan.
    pub fn forget(&self, guard: &Guard, address: IpAddr, ipvlan: &Ipvlan) {
        let own = |member: &Arc<Member>| std::ptr::eq(&*member.ipvlan, ipvlan);
        self.by_address.remove_if(&address, guard, own);
    }

    /// Returns the ipvlan with the destination address of a frame, or with its source address
    /// (`ipvlan_addr_lookup`).
    fn find<'g>(
        &'g self,
        guard: &'g Guard,
        packet: &Packet,
        source: bool,
    ) -> Option<&'g Arc<Member>> {
        let address = address_in(packet.data(), source)?;
        self.by_address.get(&address, guard)
    }

    /// Gives a frame of an ipvlan to another one, unless the port is private.
    fn cross(&self, cx: &mut Cx<'_>, to: &Member, mut packet: Packet) {
        if self.flags() & PRIVATE != 0 {
            return cx.consume(packet);
        }
        scrub(&mut packet);
        cx.receive_later(&to.device, Batch::from(packet));
    }

    /// Sends frames of an ipvlan in mode l2 (`ipvlan_xmit_mode_l2`).
    pub fn send_l2(&self, cx: &mut Cx<'_>, from: &Ipvlan, lower: &Arc<Device>, batch: Batch) {
        let (mut world, mut back) = (Batch::new(), Batch::new());
        for mut packet in batch {
            let Some(eth) = Ethernet::new(packet.data()) else {
                cx.drop(lower, Place::Transmit, DropReason::PKT_TOO_SMALL, packet);
                continue;
            };
            let (dst, src) = (eth.dst(), eth.src());
            // There is room in both: they are no larger than the batch that is split.
            if dst[0] & 1 != 0 {
                self.broadcast(cx, Some(from), dst, &packet);
                let _ = world.push(packet);
            } else if self.flags() & VEPA != 0 || dst != src {
                let _ = world.push(packet);
            } else if let Some(to) = self.find(cx.guard, &packet, false) {
                self.cross(cx, to, packet);
            } else if !lower.is_up() {
                cx.drop(lower, Place::Receive, DropReason::DEV_READY, packet);
            } else if comes_back(&mut packet, cx.now, word_of(lower), dst, lower) {
                let _ = back.push(packet);
            } else {
                cx.drop(lower, Place::Receive, DropReason::PKT_TOO_SMALL, packet);
            }
        }
        cx.receive_counted_later(lower, back);
        if !world.is_empty() {
            cx.transmit(lower, world);
        }
    }

    /// Sends frames of an ipvlan in mode l3 (`ipvlan_xmit_mode_l3`).
    pub fn send_l3(&self, cx: &mut Cx<'_>, from: &Arc<Device>, lower: &Arc<Device>, batch: Batch) {
        for packet in batch {
            let to = match self.flags() & VEPA {
                0 => self.find(cx.guard, &packet, false),
                _ => None,
            };
            match to {
                Some(to) => self.cross(cx, to, packet),
                None => outbound(cx, from, lower, packet),
            }
        }
    }

    /// Gives copies of a group frame to the ipvlans that accept the group, except to `from`
    /// (`ipvlan_process_multicast`).
    fn broadcast(&self, cx: &mut Cx<'_>, from: Option<&Ipvlan>, dst: Mac, packet: &Packet) {
        for member in self.members.load(cx.guard) {
            let ipvlan = &*member.ipvlan;
            let own = from.is_some_and(|from| std::ptr::eq(from, ipvlan));
            let accepts = || ipvlan.filter.load(cx.guard).accepts(word(dst));
            if own || !member.device.is_up() || !accepts() {
                continue;
            }
            match packet.copy() {
                Some(mut copy) => {
                    if from.is_some() {
                        scrub(&mut copy);
                    }
                    cx.receive_later(&member.device, Batch::from(copy));
                }
                None => member.device.count_drop(Place::Receive, DropReason::NOMEM),
            }
        }
    }
}

/// Returns the address by which a frame's ipvlan is found: that of its destination, or of its source, in its IP or
/// ARP header, or the one that a neighbour solicitation asks for (`ipvlan_get_L3_hdr`).
fn address_in(frame: &[u8], source: bool) -> Option<IpAddr> {
    let eth = Ethernet::new(frame)?;
    let rest = frame.get(Ethernet::LEN..)?;
    let v4 = |at: usize| {
        let octets: [u8; 4] = *rest.get(at..)?.first_chunk()?;
        Some(IpAddr::from(Ipv4Addr::from(octets)))
    };
    let v6 = |at: usize| {
        let octets: [u8; 16] = *rest.get(at..)?.first_chunk()?;
        Some(IpAddr::from(Ipv6Addr::from(octets)))
    };
    match eth.ethertype() {
        ETH_P_ARP => v4(if source { 14 } else { 24 }),
        ETH_P_IP if rest.len() >= 20 && rest[0] >> 4 == 4 && rest[0] & 15 >= 5 => {
            v4(if source { 12 } else { 16 })
        }
        ETH_P_IPV6 if rest.len() >= 40 && rest[0] >> 4 == 6 => {
            // ICMPv6, neighbour solicitation
            let asks = rest[6] == 58 && rest.get(40) == Some(&135);
            match asks {
                true => v6(48),
                false => v6(if source { 8 } else { 24 }),
            }
        }
        _ => None,
    }
}

/// Routes a frame in the namespace of the lower device, by which it leaves (`ipvlan_process_outbound`).
fn outbound(cx: &mut Cx<'_>, from: &Arc<Device>, lower: &Arc<Device>, mut packet: Packet) {
    let guard = cx.guard;
    let drop = |cx: &mut Cx<'_>, reason, packet| cx.drop(from, Place::Transmit, reason, packet);
    let Some(eth) = Ethernet::new(packet.data()) else {
        return drop(cx, DropReason::PKT_TOO_SMALL, packet);
    };
    let protocol = eth.ethertype();
    if eth.dst()[0] & 1 != 0 || !packet.pull(Ethernet::LEN) {
        return drop(cx, DropReason::UNHANDLED_PROTO, packet);
    }
    let ns = lower.namespace(guard);
    scrub(&mut packet);
    packet.set_network(0);
    packet.unset_mac();
    packet.protocol = protocol;
    packet.flags.insert(Flags::LOCAL);
    packet.set_pkt_type(PacketType::Outgoing);
    (packet.iif, packet.queue, packet.time) = (0, 0, cx.now);
    match (protocol, packet.data().first_chunk::<40>()) {
        (ETH_P_IP, _) => {
            let Some(header) = Ipv4::new(packet.data()) else {
                return drop(cx, DropReason::IP_INHDR, packet);
            };
            let wanted = Wanted {
                dst: header.dst().into(),
                src: None,
                tos: header.tos() & 0x1e,
                mark: packet.mark,
                proto: header.protocol(),
            };
            match ipv4::route::output_by(ns, &wanted, lower.ifindex(), guard) {
                Ok(route) => {
                    packet.dev = route.hop.device.key.0;
                    ipv4::output::send(cx, from, ns, &route.hop, packet);
                }
                Err(_) => drop(cx, DropReason::IP_OUTNOROUTES, packet),
            }
        }
        (ETH_P_IPV6, Some(header)) => {
            let octets: [u8; 32] = *header.last_chunk().unwrap_or(&[0; 32]);
            let (src, dst) = octets.split_at(16);
            let address = |part: &[u8]| {
                let octets: [u8; 16] = part.try_into().unwrap_or_default();
                Ipv6Addr::from(octets)
            };
            match ipv6::output::route(ns, address(src), address(dst), lower.ifindex(), guard) {
                Ok(route) if packet.len() > route.mtu() as usize && packet.segments().is_none() => {
                    drop(cx, DropReason::PKT_TOO_BIG, packet);
                }
                Ok(route) => {
                    packet.dev = route.device.key.0;
                    let batch = Batch::from(packet);
                    neigh::output(cx, route.device, route.next_hop.into(), false, batch);
                }
                Err(_) => drop(cx, DropReason::IP_OUTNOROUTES, packet),
            }
        }
        _ => drop(cx, DropReason::UNHANDLED_PROTO, packet),
    }
}

impl RxHandler for Entrance {
    fn as_any(&self) -> Option<&dyn std::any::Any> {
        Some(self)
    }

    /// `ipvlan_handle_frame`
    fn receive(&self, cx: &mut Cx<'_>, device: &Arc<Device>, batch: Batch) {
        let (port, guard) = (&*self.0, cx.guard);
        let mut passed = Batch::new();
        for packet in batch {
            let Some(eth) = Ethernet::new(packet.data()) else {
                cx.drop(device, Place::Receive, DropReason::PKT_TOO_SMALL, packet);
                continue;
            };
            let (dst, src) = (eth.dst(), eth.src());
            let group = dst[0] & 1 != 0 && port.mode() == mode::L2;
            match port.find(guard, &packet, false).filter(|_| !group) {
                Some(to) if to.device.is_up() => cx.receive_later(&to.device, Batch::from(packet)),
                Some(to) => cx.drop(&to.device, Place::Receive, DropReason::DEV_READY, packet),
                None => {
                    // A frame that an ipvlan has sent is not from outside (`ipvlan_external_frame`).
                    let own =
                        || src == device.address() && port.find(guard, &packet, true).is_some();
                    if group && !own() {
                        port.broadcast(cx, None, dst, &packet);
                    }
                    // There is room: the part is no larger than the batch it is taken from.
                    let _ = passed.push(packet);
                }
            }
        }
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
