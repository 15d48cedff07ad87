// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `vrf`: an L3 domain, that is a device whose ports have a routing table of their own (`drivers/net/vrf.c`).
//!
//! | attribute | meaning |
//! |---|---|
//! | `IFLA_VRF_TABLE` | the table, a required number other than 0 |
//! | `IFLA_VRF_PORT_TABLE` | the same, as shown at a port |
//!
//! A rule of each family, which comes with the first VRF of a namespace and has the priority 1000, looks up packets
//! that ports have received, and packets sent by the VRF or by a port, in the table. The routes of a port's addresses
//! are in that table too: they move when the device joins or leaves. As in Linux, IPv6 addresses other than the
//! link-local one get lost by that. Packets that are routed to the VRF itself are routed again, in its table.
//! The VRF counts what its ports receive.
//!
//! `net.vrf.strict_mode` lets a table have one VRF only.
//!
//! Groups are joined at ports or at the VRF, and packets to a group that is joined at either are received. Over IPv4 a socket
//! that is bound to the VRF sends to groups as one that is bound to nothing: by the device of `IP_MULTICAST_IF` or by the
//! main table. Over IPv6 it cannot.
//!
//! What our host sends by a port passes the VRF: its observers see it, and if the VRF has a qdisc, it goes through that
//! and is routed again ([`weir_inet::l3mdev`]).
//!
//! Not implemented: multicast routing.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use weir_netlink::ifla::{iff, vrf as attr, vrf_port};
use weir_netlink::{
    Attr, Error, Policy, Rule, Strictness, Writer, errno, parse_at, policy, rta, rtm,
};
use weir_packet::header::{ETH_P_IP, ETH_P_IPV6, Ethernet, Ipv4, Ipv6};
use weir_packet::{Batch, DropReason, Flags, Packet, PacketType};
use weir_sync::order::{self, Mutex};
use weir_sync::rcu::Guard;

use crate::cpu::Cx;
use crate::device::{Device, NewDevice};
use crate::drops::Place;
use crate::ethtool::{Driver, Link as LinkReport};
use crate::features::{Offer, bit};
use crate::ipv4::{self, route::Hop};
use crate::ipv6;
use crate::kind::Master;
use crate::layers::{Event, Hears, Module, Site};
use crate::namespace::Namespace;
use crate::neigh;
use crate::request::Ctl;
use crate::stack::Stack;
use crate::{Kind, Link, NewLink, ethernet, register, set_up};
use weir_inet::fib::host::{WithRoutes, add_l3mdev_rules};
use weir_inet::fib::lookup::{Flow, LookupFlags};
use weir_inet::ipv4::multicast::V4;
use weir_inet::ipv6::multicast::V6;
use weir_inet::multicast::tables;

/// The `vrf` link kind.
pub static KIND: Kind = Kind {
    name: "vrf",
    pattern: "vrf%d",
    create: Ok(create),
    validate: None,
};

/// Releases ports that go away.
pub static MODULE: Module = Module {
    device_event: Some(Hears::of(&[Event::Gone], device_event)),
    ..Module::NONE
};

static POLICY: Policy = policy! {
    max attr::MAX;
    attr::TABLE => Rule::u32(),
};

/// `IPV6_MIN_MTU` and `IP6_MAX_MTU`
const MTUS: (u32, u32) = (1280, 65_575);
/// The index of the loopback device, from which packets are sent.
const LOOPBACK: u32 = 1;

/// The `Link` implementation that the device owns.
struct Vrf {
    /// The table, which never changes.
    table: u32,
    /// Held while a device becomes a port or ends to be one.
    changes: Mutex<(), order::VrfPorts>,
}

fn table_of(data: Option<Attr<'_>>) -> Result<u32, Error> {
    let missing = || Error::msg(errno::EINVAL, "VRF table id is missing");
    let data = data.ok_or_else(missing)?;
    let inside = data.attrs();
    let table = parse_at(inside.rest(), inside.offset(), &POLICY, Strictness::Liberal)?;
    match table.u32(attr::TABLE)? {
        None => Err(missing()),
        Some(0) => {
            let at = table.get(attr::TABLE);
            let error = Error::msg(errno::EINVAL, "Invalid VRF table id");
            Err(at.map_or(error.clone(), |at| error.at(&at)))
        }
        Some(table) => Ok(table),
    }
}

fn create(ctl: &mut Ctl<'_>, new: NewLink<'_>) -> Result<Arc<Device>, Error> {
    let table = table_of(new.data)?;
    let vrf = Vrf {
        table,
        changes: Mutex::default(),
    };
    let fib = new.ns.fib();
    if fib.vrf.strict.load(Relaxed) && new.ns.all_devices().iter().any(|one| has(one, table)) {
        return Err(Error::msg(errno::EEXIST, "Table is used by another VRF"));
    }
    let device = NewDevice {
        flags: iff::NOARP | iff::MASTER,
        mtu: new.mtu.unwrap_or(MTUS.1),
        ..ethernet(Box::new(vrf), &new.ns, &new, 0)
    };
    let group = new.group.unwrap_or(0);
    let device = register(ctl.stack, &new.ns, device, new.ifindex, group)?;
    device.set_l3_table(table);
    if !fib.vrf.has_rules.swap(true, Relaxed) {
        add_l3mdev_rules(ctl.stack, &new.ns);
        tables::add_l3mdev_rule::<V4>(ctl.stack, &new.ns);
        tables::add_l3mdev_rule::<V6>(ctl.stack, &new.ns);
    }
    Ok(device)
}

/// Returns whether a device is a VRF of a table.
fn has(device: &Device, table: u32) -> bool {
    device.is_l3_master() && device.l3_table() == table
}

/// Returns `net.vrf.strict_mode` of a namespace.
pub fn is_strict(ns: &Namespace) -> bool {
    ns.fib().vrf.strict.load(Relaxed)
}

/// Sets `net.vrf.strict_mode` of a namespace.
///
/// # Errors
/// EBUSY if a table has more than one VRF (`vrf_strict_mode_change`).
pub fn set_strict(ns: &Namespace, strict: bool) -> Result<(), Error> {
    let devices = ns.all_devices();
    let vrfs = devices.iter().filter(|device| device.is_l3_master());
    let mut tables: Vec<u32> = vrfs.map(|vrf| vrf.l3_table()).collect();
    tables.sort_unstable();
    if strict && tables.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(Error::new(errno::EBUSY));
    }
    ns.fib().vrf.strict.store(strict, Relaxed);
    Ok(())
}

/// Returns the VRF of a port.
fn vrf_of<'g>(port: &'g Device, guard: &'g Guard) -> Option<&'g Arc<Device>> {
    port.master(guard)
        .filter(|master| master.link.is_l3_master())
}

fn device_event(site: &Site<'_>, event: Event) {
    if event == Event::Gone
        && let Some(vrf) = vrf_of(site.device, site.guard)
        && let Some(ports) = vrf.link.master()
    {
        let _ = ports.release(site.stack, site.guard, site.device);
    }
}

/// Takes a port down and up again, so that its routes are those of its new table (`cycle_netdev`).
fn cycle(stack: &Stack, guard: &Guard, port: &Arc<Device>) -> Result<(), Error> {
    if port.is_up() {
        set_up(stack, guard, port, false)?;
        set_up(stack, guard, port, true)?;
    }
    Ok(())
}

impl Master for Vrf {
    /// `vrf_add_slave`
    fn add(
        &self,
        stack: &Stack,
        guard: &Guard,
        master: &Arc<Device>,
        port: &Arc<Device>,
    ) -> Result<(), Error> {
        if port.is_l3_master() {
            let text = "Can not enslave an L3 master device to a VRF";
            return Err(Error::msg(errno::EINVAL, text));
        }
        if port.flags() & iff::LOOPBACK != 0 {
            let text = "Can not enslave loopback device to a VRF";
            return Err(Error::msg(errno::EOPNOTSUPP, text));
        }
        {
            let _alone = self.changes.lock();
            if port.master(guard).is_some() {
                return Err(Error::new(errno::EBUSY));
            }
            port.set_master(Some(master.clone()));
        }
        // A device that is being unregistered looks for its master after it was marked.
        if port.is_leaving() || master.is_leaving() {
            port.set_master(None);
            return Err(Error::new(errno::ENODEV));
        }
        let ns = port.namespace(guard);
        crate::changed(stack, guard, ns, port, rtm::NEWLINK, 0);
        Site::new(stack, guard, ns, port).notify(Event::L3Master);
        port.set_l3_table(self.table);
        cycle(stack, guard, port)
    }

    /// `vrf_del_slave`
    fn release(&self, stack: &Stack, guard: &Guard, port: &Arc<Device>) -> Result<(), Error> {
        {
            let _alone = self.changes.lock();
            if vrf_of(port, guard).is_none() {
                return Err(Error::new(errno::EINVAL));
            }
            port.set_master(None);
        }
        let ns = port.namespace(guard);
        crate::changed(stack, guard, ns, port, rtm::NEWLINK, 0);
        Site::new(stack, guard, ns, port).notify(Event::L3Master);
        port.set_l3_table(0);
        cycle(stack, guard, port)
    }

    fn fill_port(&self, _stack: &Stack, _guard: &Guard, _port: &Arc<Device>, out: &mut Writer) {
        out.put_u32(vrf_port::TABLE, self.table);
    }

    fn change_port(
        &self,
        _ctl: &mut Ctl<'_>,
        _port: &Arc<Device>,
        _data: Attr<'_>,
    ) -> Result<(), Error> {
        Err(Error::new(errno::EOPNOTSUPP))
    }
}

impl Link for Vrf {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn mtu_bounds(&self) -> (u32, u32) {
        MTUS
    }

    fn is_l3_master(&self) -> bool {
        true
    }

    fn may_have_handler(&self) -> bool {
        false
    }

    fn features(&self) -> Offer {
        let changeable = bit::GSO_SOFTWARE
            | bit::RXCSUM
            | bit::HW_CSUM
            | bit::SCTP_CRC
            | bit::SG
            | bit::FRAGLIST
            | bit::HIGHDMA;
        Offer {
            active: changeable | bit::LLTX | bit::NETNS_LOCAL | bit::VLAN_CHALLENGED,
            changeable,
            ..Offer::default()
        }
    }

    fn polls(&self) -> bool {
        false
    }

    fn driver(&self) -> Driver {
        Driver {
            info: Some(("vrf", "1.0", "")),
            link: LinkReport::Unknown,
            ..Driver::default()
        }
    }

    fn has_filter(&self) -> bool {
        false
    }

    fn may_move(&self) -> bool {
        false
    }

    fn master(&self) -> Option<&dyn Master> {
        Some(self)
    }

    fn fill_data(&self, _stack: &Stack, out: &mut Writer) {
        out.put_u32(attr::TABLE, self.table);
    }

    /// Releases the ports (`vrf_dellink`).
    fn leaves(&self, stack: &Stack, guard: &Guard, device: &Arc<Device>) {
        for port in device.namespace(guard).all_devices() {
            if port
                .master(guard)
                .is_some_and(|master| master.key == device.key)
            {
                let _ = self.release(stack, guard, &port);
            }
        }
    }

    fn removed(&self, stack: &Stack, device: &Arc<Device>) {
        // A port that came after the device was marked.
        self.leaves(stack, &stack.domain.pin(), device);
    }

    /// `vrf_xmit`
    fn transmit(&self, cx: &mut Cx<'_>, device: &Arc<Device>, batch: Batch) {
        for packet in batch {
            let protocol = Ethernet::new(packet.data()).map(|eth| eth.ethertype());
            match protocol {
                Some(ETH_P_IP) => send_v4(cx, device, packet),
                Some(ETH_P_IPV6) => send_v6(cx, device, packet),
                _ => cx.drop(device, Place::Transmit, DropReason::UNHANDLED_PROTO, packet),
            }
        }
    }
}

/// Gives a packet to one of the VRF's addresses back to the VRF (`vrf_local_xmit`).
fn receive(cx: &mut Cx<'_>, vrf: &Arc<Device>, packet: Packet) {
    cx.receive_later(vrf, Batch::from(packet));
}

/// Removes the Ethernet header of a packet that is sent again.
fn uncover(cx: &Cx<'_>, packet: &mut Packet, protocol: u16, out: &Device) -> bool {
    if !packet.pull(Ethernet::LEN) {
        return false;
    }
    packet.set_network(0);
    packet.unset_mac();
    packet.protocol = protocol;
    packet.flags.insert(Flags::LOCAL);
    packet.set_pkt_type(PacketType::Outgoing);
    (packet.iif, packet.queue, packet.time) = (0, 0, cx.now);
    packet.dev = out.key.0;
    true
}

/// Routes an IPv4 packet in the VRF's table (`vrf_process_v4_outbound`).
fn send_v4(cx: &mut Cx<'_>, vrf: &Arc<Device>, mut packet: Packet) {
    let guard = cx.guard;
    let ns = vrf.namespace(guard);
    let Some(header) = packet.data().get(Ethernet::LEN..).and_then(Ipv4::new) else {
        return cx.drop(vrf, Place::Transmit, DropReason::IP_INHDR, packet);
    };
    let (src, dst) = (Ipv4Addr::from(header.src()), Ipv4Addr::from(header.dst()));
    // Packets to groups leave by the device that has their source, without a route.
    let to_group = dst.is_multicast() || dst.is_broadcast();
    let owner = to_group.then(|| ipv4::egress::owner_of(ns, src, guard));
    if let Some(owner) = owner.flatten() {
        return match uncover(cx, &mut packet, ETH_P_IP, owner) {
            true => ipv4::output::send_past_vrf(cx, vrf, ns, &Hop::on_link(owner, dst), packet),
            false => cx.drop(vrf, Place::Transmit, DropReason::IP_INHDR, packet),
        };
    }
    let flow = Flow {
        dst: dst.into(),
        src: src.into(),
        iif: LOOPBACK,
        l3_table: vrf.l3_table(),
        mark: packet.mark,
        tos: header.tos() & 0x1c,
        proto: header.protocol(),
        ..Flow::default()
    };
    let found = match ns.fib().v4.lookup(&flow, LookupFlags::default(), guard) {
        Ok(found) => found,
        Err(_) => return cx.drop(vrf, Place::Transmit, DropReason::IP_OUTNOROUTES, packet),
    };
    match found.info.kind() {
        rta::rtn::LOCAL => return receive(cx, vrf, packet),
        rta::rtn::UNICAST | rta::rtn::BROADCAST => {}
        _ => return cx.drop(vrf, Place::Transmit, DropReason::IP_OUTNOROUTES, packet),
    }
    let found = match found.is_multipath() {
        true => found.select(ipv4::route::flow_hash(ns, &flow)),
        false => found,
    };
    let hop = Hop::new(ns, &found, flow.dst.into(), guard).filter(|hop| hop.device.key != vrf.key);
    match hop {
        Some(hop) if uncover(cx, &mut packet, ETH_P_IP, hop.device) => {
            ipv4::output::send_past_vrf(cx, vrf, ns, &hop, packet);
        }
        _ => cx.drop(vrf, Place::Transmit, DropReason::IP_OUTNOROUTES, packet),
    }
}

/// Routes an IPv6 packet in the VRF's table (`vrf_process_v6_outbound`).
fn send_v6(cx: &mut Cx<'_>, vrf: &Arc<Device>, mut packet: Packet) {
    let guard = cx.guard;
    let ns = vrf.namespace(guard);
    let Some(header) = packet.data().get(Ethernet::LEN..).and_then(Ipv6::new) else {
        return cx.drop(vrf, Place::Transmit, DropReason::IP_INHDR, packet);
    };
    let (src, dst) = (Ipv6Addr::from(header.src()), Ipv6Addr::from(header.dst()));
    let route = match ipv6::output::route(ns, src, dst, vrf.ifindex(), guard) {
        Ok(route) => route,
        Err(_) => return cx.drop(vrf, Place::Transmit, DropReason::IP_OUTNOROUTES, packet),
    };
    if route.is_local() {
        return receive(cx, vrf, packet);
    }
    let len = packet.len() - Ethernet::LEN;
    let mtu = route.mtu() as usize;
    let fits = len <= mtu || packet.segments().is_some();
    // Only its sender may split a packet.
    if !fits && !packet.flags.contains(Flags::LOCAL) {
        return cx.drop(vrf, Place::Transmit, DropReason::PKT_TOO_BIG, packet);
    }
    if route.device.key == vrf.key || !uncover(cx, &mut packet, ETH_P_IPV6, route.device) {
        return cx.drop(vrf, Place::Transmit, DropReason::IP_OUTNOROUTES, packet);
    }
    if !fits {
        let way = (route.device, route.device, route.next_hop);
        return ipv6::output::fragment(cx, ns, way, route.encap, mtu, packet);
    }
    let next_hop = route.next_hop.into();
    neigh::output(cx, route.device, next_hop, false, Batch::from(packet));
}
