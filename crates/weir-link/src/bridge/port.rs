// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The ports of a bridge (`net/bridge/br_if.c`, `br_stp.c`, `br_netlink.c`).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed};

use weir_netlink::ifla::{arphrd, brport, iff, oper};
use weir_netlink::{
    Attr, Error, IfInfoMsg, Policy, Rule, Strictness, Table, Writer, af, errno, ifla, parse_at,
    policy, rtm,
};
use weir_sync::rcu::{Guard, Published};

use super::forward::Entrance;
use super::multicast::{Counts, HOSTS};
use super::stp::View;
use super::vlan::Group;
use super::{Bridge, Handle, refuse};
use crate::device::{AddressOrigin, Device};
use crate::kind::{Bridging, Master};
use crate::request::Ctl;
use crate::stack::Stack;

/// The states of a port (`BR_STATE_*`).
pub mod state {
    #![allow(missing_docs)] // The names are Linux's.
    pub const DISABLED: u8 = 0;
    pub const LISTENING: u8 = 1;
    pub const LEARNING: u8 = 2;
    pub const FORWARDING: u8 = 3;
    pub const BLOCKING: u8 = 4;
}

/// The flags of a port that are on at first: learning and the three kinds of flooding.
const DEFAULT_FLAGS: u32 = 1 << brport::LEARNING
    | 1 << brport::UNICAST_FLOOD
    | 1 << brport::MCAST_FLOOD
    | 1 << brport::BCAST_FLOOD;
/// The flags that are served, as attributes.
const FLAGS: [u16; 15] = [
    brport::FAST_LEAVE,
    brport::MCAST_TO_UCAST,
    brport::MODE,
    brport::GUARD,
    brport::PROTECT,
    brport::LOCKED,
    brport::LEARNING,
    brport::UNICAST_FLOOD,
    brport::MCAST_FLOOD,
    brport::BCAST_FLOOD,
    brport::ISOLATED,
    brport::PROXYARP,
    brport::PROXYARP_WIFI,
    brport::NEIGH_SUPPRESS,
    brport::VLAN_TUNNEL,
];
/// The largest number of a port (`BR_MAX_PORTS` - 1).
const MAX_PORT: usize = 1023;

static POLICY: Policy = policy! {
    max brport::MAX;
    brport::STATE => Rule::u8(),
    brport::COST => Rule::u32(),
    brport::PRIORITY => Rule::u16(),
    brport::MODE => Rule::u8(),
    brport::FAST_LEAVE => Rule::u8(),
    brport::MCAST_TO_UCAST => Rule::u8(),
    brport::MULTICAST_ROUTER => Rule::u8(),
    brport::GUARD => Rule::u8(),
    brport::PROTECT => Rule::u8(),
    brport::LOCKED => Rule::u8(),
    brport::LEARNING => Rule::u8(),
    brport::UNICAST_FLOOD => Rule::u8(),
    brport::MCAST_FLOOD => Rule::u8(),
    brport::BCAST_FLOOD => Rule::u8(),
    brport::ISOLATED => Rule::u8(),
    brport::PROXYARP => Rule::u8(),
    brport::PROXYARP_WIFI => Rule::u8(),
    brport::NEIGH_SUPPRESS => Rule::u8(),
    brport::GROUP_FWD_MASK => Rule::u16(),
    brport::MCAST_EHT_HOSTS_LIMIT => Rule::u32(),
};

/// A port (`struct net_bridge_port`).
pub struct Port {
    /// The number, from 1.
    pub number: u16,
    /// The device.
    pub device: Arc<Device>,
    /// `BR_STATE_*`
    pub state: AtomicU8,
    /// `GROUP_FWD_MASK`
    pub group_forward: AtomicU16,
    /// A bit for each flag of `FLAGS` that is on.
    flags: AtomicU64,
    priority: AtomicU16,
    /// The path cost.
    pub cost: AtomicU32,
    /// A request set the cost (`BR_ADMIN_COST`).
    cost_is_set: AtomicBool,
    /// Messages about groups (`struct br_mcast_stats`).
    pub groups: Counts,
    /// The most hosts that are tracked behind the port (`MCAST_EHT_HOSTS_LIMIT`), at least 1.
    pub most_hosts: AtomicU32,
    /// The VLANs.
    pub vlans: Published<Group>,
}

impl Port {
    /// Returns whether the flag of an attribute is on.
    #[inline]
    pub fn has(&self, flag: u16) -> bool {
        self.flags.load(Relaxed) >> flag & 1 != 0
    }

    /// Returns whether the port sends and takes frames.
    #[inline]
    pub fn forwards(&self) -> bool {
        self.state.load(Relaxed) == state::FORWARDING
    }

    /// Returns whether the port's state lets it learn and take frames.
    #[inline]
    pub fn listens(&self) -> bool {
        matches!(
            self.state.load(Relaxed),
            state::LEARNING | state::FORWARDING
        )
    }

    /// Returns the identifier.
    pub fn id(&self) -> u16 {
        // Six bits of priority and ten of the number.
        self.priority.load(Relaxed) << 10 | self.number
    }
}

/// The ports of a bridge.
#[derive(Default, Clone)]
pub struct Ports {
    /// The newest first.
    pub list: Vec<Arc<Port>>,
    /// By number.
    pub numbers: Vec<Option<Arc<Port>>>,
}

impl Ports {
    /// Returns the port of a device.
    pub fn of(&self, device: &Device) -> Option<&Arc<Port>> {
        self.list.iter().find(|port| port.device.key == device.key)
    }

    /// Returns the port with a number.
    #[inline]
    pub fn numbered(&self, number: u16) -> Option<&Arc<Port>> {
        self.numbers.get(usize::from(number))?.as_ref()
    }
}

/// Returns the path cost by the speed of the device (`port_cost`).
fn cost_of(device: &Device) -> u32 {
    match device.link.speed() {
        Some(10_000) => 2,
        Some(1000) => 4,
        Some(100) => 19,
        _ => 100,
    }
}

fn is_usable(stack: &Stack, device: &Device) -> bool {
    let state = crate::operstate(stack, device);
    device.is_up() && matches!(state, oper::UP | oper::UNKNOWN)
}

impl Bridge {
    fn enable(&self, stack: &Stack, guard: &Guard, port: &Port) {
        self.step(stack, guard, |step| step.enable(port));
    }

    fn disable(&self, stack: &Stack, guard: &Guard, port: &Port) {
        self.step(stack, guard, |step| step.disable(port));
    }

    /// Enables the ports that are usable, when the bridge goes up (`br_stp_enable_bridge`).
    pub fn enable_all(&self, stack: &Stack, guard: &Guard) {
        for port in &self.ports.load(guard).list {
            if is_usable(stack, &port.device) {
                self.enable(stack, guard, port);
            }
        }
    }

    /// Disables the ports, when the bridge goes down (`br_stp_disable_bridge`).
    pub fn disable_all(&self, stack: &Stack, guard: &Guard) {
        for port in &self.ports.load(guard).list {
            if port.state.load(Relaxed) != state::DISABLED {
                self.disable(stack, guard, port);
            }
        }
    }

    /// Follows the state of a port's device (`br_port_carrier_check`).
    pub fn check_carrier(&self, stack: &Stack, guard: &Guard, device: &Device) {
        let up = self.device().is_some_and(|bridge| bridge.is_up());
        let Some(port) = self.ports.load(guard).of(device).filter(|_| up) else {
            return;
        };
        let enabled = port.state.load(Relaxed) != state::DISABLED;
        if is_usable(stack, device) && !port.cost_is_set.load(Relaxed) {
            port.cost.store(cost_of(device), Relaxed);
        }
        match is_usable(stack, device) {
            true if !enabled => self.enable(stack, guard, port),
            false if enabled => self.disable(stack, guard, port),
            _ => {}
        }
    }

    /// Takes the lowest address of the ports, unless a user set one (`br_stp_recalculate_bridge_id`).
    fn choose_address(&self, stack: &Stack, guard: &Guard) {
        let Some(device) = self.device() else { return };
        if device.address_origin() == AddressOrigin::Set as u8 {
            return;
        }
        let ports = &self.ports.load(guard).list;
        let mac = ports.iter().map(|port| port.device.address()).min();
        let mac = mac.unwrap_or_default();
        if self.stp.lock().mac() == mac {
            return;
        }
        self.replace_own(stack, guard, mac);
        device.inherit_address(mac);
        self.step(stack, guard, |step| step.set_address(mac));
        crate::address_changed(stack, guard, &device);
    }

    /// Follows a new address of a port (`NETDEV_CHANGEADDR`).
    pub fn port_address_changed(&self, stack: &Stack, guard: &Guard, device: &Arc<Device>) {
        if let Some(port) = self.ports.load(guard).of(device) {
            self.move_local(stack, guard, port.number, device.address());
            self.choose_address(stack, guard);
        }
    }

    fn announce(&self, stack: &Stack, guard: &Guard, port: &Port, ty: u16) {
        let view = self.stp_view(stack, port);
        self.announce_as((stack, guard), port, &view, ty);
    }

    /// Notifies the listeners of a port, or of the bridge itself, as they are.
    pub fn announce_anyhow(&self, at: (&Stack, &Guard), device: &Device, port: Option<&Port>) {
        match port {
            Some(port) => self.announce(at.0, at.1, port, rtm::NEWLINK),
            None => self.announce_link(at, device, None, rtm::NEWLINK),
        }
    }

    /// Notifies the listeners of a port with these variables.
    pub fn announce_as(&self, at: (&Stack, &Guard), port: &Port, view: &View, ty: u16) {
        self.announce_link(at, &port.device, Some((port, view)), ty);
    }

    /// Notifies the listeners of a port, or of the bridge itself (`br_ifinfo_notify`).
    fn announce_link(
        &self,
        (stack, guard): (&Stack, &Guard),
        device: &Device,
        port: Option<(&Port, &View)>,
        ty: u16,
    ) {
        let ns = device.namespace(guard);
        let what = (ty, rtm::ext_filter::BRVLAN_COMPRESSED);
        crate::request::announce(ns, rtm::grp::LINK, ty, |out| {
            self.fill_link((stack, guard), device, port, what, out);
        });
    }

    /// Writes a port, or the bridge itself (`br_fill_ifinfo`), in a message of type `ty`.
    fn fill_link(
        &self,
        (stack, guard): (&Stack, &Guard),
        device: &Device,
        port: Option<(&Port, &View)>,
        (ty, mask): (u16, u32),
        out: &mut Writer,
    ) {
        out.fixed(&IfInfoMsg {
            family: af::BRIDGE,
            pad: 0,
            ty: device.link.hardware_type(),
            index: device.ifindex() as i32,
            flags: crate::reported_flags(stack, device),
            change: 0,
        });
        out.put_str(ifla::IFNAME, &device.name());
        let master = self.device().map_or(0, |master| master.ifindex());
        out.put_u32(ifla::MASTER, master);
        out.put_u32(ifla::MTU, device.mtu());
        out.put_u8(ifla::OPERSTATE, crate::operstate(stack, device));
        out.put(ifla::ADDRESS, &device.address());
        if let Some((_, index)) = device.link.lower(stack) {
            out.put_u32(ifla::LINK, index);
        }
        if let Some((port, view)) = port.filter(|_| ty == rtm::NEWLINK) {
            let nest = out.nest(ifla::PROTINFO);
            fill_attributes(port, view, self.port_groups(port.number), out);
            out.end(nest);
        }
        let group = match port {
            Some((port, _)) => port.vlans.load(guard),
            None => self.own_vlans.load(guard),
        };
        let tunnels = port.is_some_and(|(port, _)| port.has(brport::VLAN_TUNNEL));
        let own = port.filter(|_| self.settings.mst.load(Relaxed));
        let own = own.map(|_| self.own_vlans.load(guard));
        super::vlan::fill_spec(group, (own, tunnels), mask, out);
    }

    /// Removes a port (`br_del_if`).
    pub fn release_port(
        &self,
        stack: &Stack,
        guard: &Guard,
        device: &Arc<Device>,
    ) -> Result<(), Error> {
        let port = self.ports.load(guard).of(device).cloned();
        let port = port.ok_or_else(|| Error::new(errno::EINVAL))?;
        {
            let _alone = self.changes.lock();
            let mut ports = self.ports.load(guard).clone();
            let before = ports.list.len();
            ports.list.retain(|other| !Arc::ptr_eq(other, &port));
            if ports.list.len() == before {
                return Err(Error::new(errno::EINVAL));
            }
            if let Some(slot) = ports.numbers.get_mut(usize::from(port.number)) {
                *slot = None;
            }
            self.ports.replace(ports);
        }
        if port.state.load(Relaxed) != state::DISABLED {
            self.disable(stack, guard, &port);
        }
        for flag in [iff::ALLMULTI, iff::PROMISC] {
            crate::ask_for_all(stack, guard, device, flag, false);
        }
        self.announce(stack, guard, &port, rtm::DELLINK);
        self.step(stack, guard, |step| step.remove(&port));
        self.end_port_vlans(stack, guard, &port);
        self.snoop_step(stack, guard, |step| step.remove_port(port.number));
        self.forget_port(stack, guard, port.number);
        device.set_rx_handler(None);
        device.set_master(None);
        let ns = device.namespace(guard);
        crate::changed(stack, guard, ns, device, rtm::NEWLINK, 0);
        if self.device().is_some_and(|device| !device.is_dying()) {
            self.adjust_mtu(stack, guard);
            self.choose_address(stack, guard);
        }
        Ok(())
    }

    /// Applies the attributes of a port (`br_setport`).
    fn set_port(
        &self,
        ctl: &Ctl<'_>,
        device: &Device,
        table: &Table<'_>,
        announced: bool,
    ) -> Result<(), Error> {
        let (stack, guard) = (ctl.stack, ctl.guard);
        let port = self.ports.load(guard).of(device);
        let port = port.ok_or_else(|| Error::new(errno::EINVAL))?;
        for ty in table.types() {
            match ty {
                brport::STATE if table.u8(ty)?.is_some_and(|state| state > state::BLOCKING) => {
                    return Err(Error::new(errno::EINVAL));
                }
                brport::STATE => {
                    let wanted = table.u8(ty)?.unwrap_or(0);
                    if self.stp.lock().is_on() {
                        return Err(Error::new(errno::EBUSY));
                    }
                    let usable = is_usable(stack, device);
                    if !device.is_up() || !usable && wanted != state::DISABLED {
                        return Err(Error::new(errno::ENETDOWN));
                    }
                }
                brport::COST if !matches!(table.u32(ty)?, Some(1..=65_535)) => {
                    return Err(Error::new(errno::ERANGE));
                }
                brport::PRIORITY if !matches!(table.u16(ty)?, Some(0..=63)) => {
                    return Err(Error::new(errno::ERANGE));
                }
                brport::GROUP_FWD_MASK if table.u16(ty)?.unwrap_or(0) & 3 != 0 => {
                    return Err(Error::new(errno::EINVAL));
                }
                brport::MULTICAST_ROUTER if table.u8(ty)? > Some(3) => {
                    return Err(Error::new(errno::EINVAL));
                }
                brport::MCAST_EHT_HOSTS_LIMIT if table.u32(ty)? == Some(0) => {
                    return Err(Error::new(errno::EINVAL));
                }
                brport::MULTICAST_ROUTER | brport::MCAST_EHT_HOSTS_LIMIT => {}
                brport::COST | brport::PRIORITY | brport::GROUP_FWD_MASK | brport::FLUSH => {}
                ty if FLAGS.contains(&ty) => {}
                _ => return Err(refuse("The option of the port is not served")),
            }
        }
        for ty in FLAGS {
            if let Some(on) = table.u8(ty)? {
                let bit = 1 << ty;
                match on {
                    0 => port.flags.fetch_and(!bit, Relaxed),
                    _ => port.flags.fetch_or(bit, Relaxed),
                };
            }
        }
        if table.u8(brport::VLAN_TUNNEL)? == Some(0) {
            self.forget_tunnels(guard, port);
        }
        if let Some(cost) = table.u32(brport::COST)? {
            port.cost.store(cost, Relaxed);
            port.cost_is_set.store(true, Relaxed);
            self.step(stack, guard, |step| step.port_cost());
        }
        if let Some(priority) = table.u16(brport::PRIORITY)? {
            port.priority.store(priority, Relaxed);
            self.step(stack, guard, |step| step.port_priority(port));
        }
        if let Some(to) = table.u8(brport::MULTICAST_ROUTER)? {
            let number = port.number;
            self.snoop_step(stack, guard, |step| step.set_port_router(number, to));
        }
        if let Some(most) = table.u32(brport::MCAST_EHT_HOSTS_LIMIT)? {
            port.most_hosts.store(most, Relaxed);
        }
        if let Some(mask) = table.u16(brport::GROUP_FWD_MASK)? {
            port.group_forward.store(mask, Relaxed);
        }
        if table.has(brport::FLUSH) {
            self.flush(stack, guard, Some(port.number));
        }
        if let Some(wanted) = table.u8(brport::STATE)? {
            self.step(stack, guard, |step| step.set_by_hand(port, wanted));
        }
        if announced {
            self.announce(stack, guard, port, rtm::NEWLINK);
        }
        Ok(())
    }
}

/// Writes the attributes of a port (`br_port_fill_attrs`).
fn fill_attributes(port: &Port, view: &View, (router, hosts): (u8, u32), out: &mut Writer) {
    let flag = |out: &mut Writer, ty| out.put_u8(ty, u8::from(port.has(ty)));
    out.put_u8(brport::STATE, view.state);
    out.put_u16(brport::PRIORITY, port.priority.load(Relaxed));
    out.put_u32(brport::COST, port.cost.load(Relaxed));
    for ty in [
        brport::MODE,
        brport::GUARD,
        brport::PROTECT,
        brport::FAST_LEAVE,
        brport::MCAST_TO_UCAST,
        brport::LEARNING,
        brport::UNICAST_FLOOD,
        brport::MCAST_FLOOD,
        brport::BCAST_FLOOD,
        brport::PROXYARP,
        brport::PROXYARP_WIFI,
    ] {
        flag(out, ty);
    }
    out.put(brport::ROOT_ID, &view.root);
    out.put(brport::BRIDGE_ID, &view.bridge);
    out.put_u16(brport::DESIGNATED_PORT, view.designated);
    out.put_u16(brport::DESIGNATED_COST, view.cost as u16);
    out.put_u16(brport::ID, view.id);
    out.put_u16(brport::NO, port.number);
    out.put_u8(brport::TOPOLOGY_CHANGE_ACK, u8::from(view.acknowledges));
    out.put_u8(brport::CONFIG_PENDING, u8::from(view.pending));
    flag(out, brport::VLAN_TUNNEL);
    out.put_u16(brport::GROUP_FWD_MASK, port.group_forward.load(Relaxed));
    for ty in [
        brport::NEIGH_SUPPRESS,
        brport::MRP_RING_OPEN,
        brport::MRP_IN_OPEN,
        brport::ISOLATED,
        brport::LOCKED,
    ] {
        flag(out, ty);
    }
    let timers = [
        brport::MESSAGE_AGE_TIMER,
        brport::FORWARD_DELAY_TIMER,
        brport::HOLD_TIMER,
    ];
    for (ty, ticks) in timers.into_iter().zip(view.timers) {
        out.put_u64_pad(ty, ticks, brport::PAD);
    }
    out.put_u8(brport::MULTICAST_ROUTER, router);
    let most = port.most_hosts.load(Relaxed);
    out.put_u32(brport::MCAST_EHT_HOSTS_LIMIT, most);
    out.put_u32(brport::MCAST_EHT_HOSTS_CNT, hosts);
}

/// Checks that `device` is not above the bridge, by way of its lower devices.
fn is_above(stack: &Stack, guard: &Guard, device: &Arc<Device>, bridge: &Device) -> bool {
    let mut at = device.clone();
    // As deep as Linux nests devices (`MAX_NEST_DEV`).
    for _ in 0..8 {
        if at.key == bridge.key {
            return true;
        }
        let below = at.link.lower(stack).filter(|_| at.link.kind() != "veth");
        let ns = below.and_then(|(ns, _)| stack.namespace(ns));
        let next = ns
            .zip(below)
            .and_then(|(ns, (_, index))| ns.device(index, guard).cloned());
        match next {
            Some(next) => at = next,
            None => return false,
        }
    }
    true
}

impl Master for Handle {
    fn add(
        &self,
        stack: &Stack,
        guard: &Guard,
        master: &Arc<Device>,
        device: &Arc<Device>,
    ) -> Result<(), Error> {
        let bridge = &self.0;
        let mac = device.address();
        let ethernet = device.link.hardware_type() == arphrd::ETHER;
        if device.flags() & iff::LOOPBACK != 0 || !ethernet || mac[0] & 1 != 0 || mac == [0; 6] {
            return Err(Error::new(errno::EINVAL));
        }
        if super::bridge_in(device).is_some() {
            return Err(Error::msg(
                errno::ELOOP,
                "Can not enslave a bridge to a bridge",
            ));
        }
        if is_above(stack, guard, device, master) {
            return Err(Error::new(errno::EBUSY));
        }
        let port = {
            let _alone = bridge.changes.lock();
            if device.master(guard).is_some() || device.rx_handler(guard).is_some() {
                return Err(Error::new(errno::EBUSY));
            }
            if device.is_leaving() || master.is_leaving() {
                return Err(Error::new(errno::ENODEV));
            }
            let mut ports = bridge.ports.load(guard).clone();
            if ports.numbers.is_empty() {
                ports.numbers.push(None);
            }
            let free = ports.numbers.iter().skip(1).position(Option::is_none);
            let number = free.map_or(ports.numbers.len(), |free| free + 1);
            if number > MAX_PORT {
                return Err(Error::new(errno::ENOSPC));
            }
            let port = Arc::new(Port {
                number: number as u16,
                device: device.clone(),
                state: AtomicU8::new(state::DISABLED),
                group_forward: AtomicU16::new(0),
                flags: AtomicU64::new(u64::from(DEFAULT_FLAGS)),
                priority: AtomicU16::new(32),
                cost: AtomicU32::new(cost_of(device)),
                cost_is_set: AtomicBool::new(false),
                groups: Counts::default(),
                most_hosts: AtomicU32::new(HOSTS),
                vlans: Published::new(&stack.domain, Group::default()),
            });
            if number == ports.numbers.len() {
                ports.numbers.push(None);
            }
            if let Some(slot) = ports.numbers.get_mut(number) {
                *slot = Some(port.clone());
            }
            ports.list.insert(0, port.clone());
            bridge.ports.replace(ports);
            device.set_master(Some(master.clone()));
            port
        };
        crate::ask_for_all(stack, guard, device, iff::ALLMULTI, true);
        device.set_rx_handler(Some(Arc::new(Entrance {
            bridge: bridge.clone(),
            port: port.clone(),
        })));
        let ns = device.namespace(guard);
        crate::changed(stack, guard, ns, device, rtm::NEWLINK, 0);
        crate::ask_for_all(stack, guard, device, iff::PROMISC, true);
        crate::changed(stack, guard, ns, device, rtm::NEWLINK, iff::PROMISC);
        bridge.step(stack, guard, |step| step.add(&port));
        bridge.snoop_step(stack, guard, |step| step.add_port(&port));
        bridge.add_local(stack, guard, port.number, (mac, 0));
        bridge.begin_port_vlans(stack, guard, &port);
        bridge.choose_address(stack, guard);
        if is_usable(stack, device) && master.is_up() {
            bridge.enable(stack, guard, &port);
        }
        bridge.announce(stack, guard, &port, rtm::NEWLINK);
        bridge.adjust_mtu(stack, guard);
        Ok(())
    }

    fn release(&self, stack: &Stack, guard: &Guard, port: &Arc<Device>) -> Result<(), Error> {
        self.0.release_port(stack, guard, port)
    }

    fn fill_port(&self, stack: &Stack, guard: &Guard, port: &Arc<Device>, out: &mut Writer) {
        if let Some(port) = self.0.ports.load(guard).of(port) {
            let view = self.0.stp_view(stack, port);
            fill_attributes(port, &view, self.0.port_groups(port.number), out);
        }
    }

    fn change_port(
        &self,
        ctl: &mut Ctl<'_>,
        port: &Arc<Device>,
        data: Attr<'_>,
    ) -> Result<(), Error> {
        let inside = data.attrs();
        let table = parse_at(inside.rest(), inside.offset(), &POLICY, Strictness::Liberal)?;
        self.0.set_port(ctl, port, &table, true)
    }
}

impl Bridging for Handle {
    fn fill_link(
        &self,
        stack: &Stack,
        guard: &Guard,
        device: &Arc<Device>,
        mask: u32,
        out: &mut Writer,
    ) {
        let port = self.0.ports.load(guard).of(device);
        let view = port.map(|port| self.0.stp_view(stack, port));
        let port = port.map(|port| &**port).zip(view.as_ref());
        self.0
            .fill_link((stack, guard), device, port, (rtm::NEWLINK, mask), out);
    }

    fn set_link(
        &self,
        ctl: &mut Ctl<'_>,
        device: &Arc<Device>,
        protinfo: Option<Attr<'_>>,
        spec: Option<Attr<'_>>,
    ) -> Result<(), Error> {
        let (stack, guard) = (ctl.stack, ctl.guard);
        let port = self.0.ports.load(guard).of(device).cloned();
        if port.is_none() && spec.is_none() && protinfo.is_some() {
            return Err(Error::new(errno::EINVAL));
        }
        if let (Some(data), true) = (protinfo, port.is_some()) {
            let inside = data.attrs();
            let table = parse_at(inside.rest(), inside.offset(), &POLICY, Strictness::Liberal)?;
            // A request with both parts is announced once.
            self.0.set_port(ctl, device, &table, spec.is_none())?;
        }
        let Some(spec) = spec else { return Ok(()) };
        let done = self
            .0
            .change_membership((stack, guard), port.as_deref(), spec, false);
        if *done.as_ref().unwrap_or(&false) || port.is_some() && protinfo.is_some() {
            self.0
                .announce_anyhow((stack, guard), device, port.as_deref());
        }
        done.map(|_| ())
    }

    fn delete_link(
        &self,
        ctl: &mut Ctl<'_>,
        device: &Arc<Device>,
        spec: Option<Attr<'_>>,
    ) -> Result<(), Error> {
        let at = (ctl.stack, ctl.guard);
        let Some(spec) = spec else { return Ok(()) };
        let port = self.0.ports.load(ctl.guard).of(device).cloned();
        let changed = self.0.change_membership(at, port.as_deref(), spec, true)?;
        if changed {
            self.0.announce_anyhow(at, device, port.as_deref());
        }
        Ok(())
    }

    fn brforward(&self, stack: &Stack, guard: &Guard) -> Vec<u8> {
        self.0.brforward(stack, guard)
    }

    fn vlans(&self, guard: &Guard, device: &Arc<Device>, stats: bool) -> Vec<Vec<u8>> {
        self.0.vlan_messages(guard, device, stats)
    }

    fn global_vlans(&self, stack: &Stack, guard: &Guard, device: &Arc<Device>) -> Vec<Vec<u8>> {
        self.0.global_messages(stack, guard, device)
    }

    fn process_vlans(
        &self,
        ctl: &mut Ctl<'_>,
        device: &Arc<Device>,
        attrs: &mut dyn Iterator<Item = Attr<'_>>,
        ty: u16,
    ) -> Result<(), Error> {
        self.0.process_vlans(ctl, device, attrs, ty)
    }

    fn extended_statistics(&self, guard: &Guard, device: &Arc<Device>) -> Vec<Vec<u8>> {
        self.0.extended_statistics(guard, device)
    }
}
