// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Link kinds, and the life cycle of a device: register, up, down, rename, move, unregister.
//!
//! A kind is one file and one line in [`KINDS`]. A [`Kind`] creates devices from `IFLA_INFO_DATA`;
//! a [`Link`] is the kind-specific part of a device. Mirrors `net/core/dev.c` and `struct
//! rtnl_link_ops`.

use std::sync::Arc;

use weir_netlink::ifla::{arphrd, iff, link_mode, oper};
use weir_netlink::{Attr, Error, LinkStats64, Writer, errno, rtm};
use weir_packet::Batch;
use weir_sync::rcu::Guard;

use crate::cpu::Cx;
use crate::device::{AddressOrigin, Device, Mac, NameOrigin, NewDevice};
use crate::namespace::{Namespace, NsId};
use crate::rtnl::Ctl;
use crate::stack::Stack;

pub mod dummy;
pub mod ifb;
pub mod loopback;
pub mod netdevsim;
pub mod veth;
pub mod vlan;
pub mod vxlan;
mod wire;

pub use wire::{RxHandler, Wire};

/// The link kinds that `ip link add type KIND` accepts, one line each.
pub static KINDS: &[&Kind] = &[
    &dummy::KIND,
    &ifb::KIND,
    &netdevsim::KIND,
    &veth::KIND,
    &vlan::KIND,
    &vxlan::KIND,
];

/// Describes a link kind and how its devices are created.
pub struct Kind {
    /// `IFLA_INFO_KIND`
    pub name: &'static str,
    /// The name pattern for requests that give no name (`dummy%d`).
    pub pattern: &'static str,
    /// Creates and registers the device or devices (`rtnl_link_ops.newlink`) and returns the
    /// requested one. `Err` holds the reason why requests cannot create this kind
    /// (`rtnl_link_ops.validate`).
    pub create: Result<Create, &'static str>,
}

/// Creates a device of a kind; see [`Kind::create`].
pub type Create = fn(&mut Ctl<'_>, NewLink<'_>) -> Result<Arc<Device>, Error>;

/// The attributes of a device on a bus.
pub struct Port {
    /// `IFLA_PARENT_DEV_BUS_NAME`
    pub bus: &'static str,
    /// `IFLA_PARENT_DEV_NAME`
    pub parent: String,
    /// `IFLA_PHYS_PORT_NAME`
    pub name: String,
    /// `IFLA_PHYS_SWITCH_ID`
    pub switch: [u8; 32],
}

/// The validated common part of a request for a new link. Kinds parse their own part.
pub struct NewLink<'a> {
    /// The namespace of the new device.
    pub ns: Arc<Namespace>,
    /// The name, or a pattern with `%d`.
    pub name: String,
    /// The requested index, or 0 for the next free one.
    pub ifindex: u32,
    /// `IFLA_MTU`
    pub mtu: Option<u32>,
    /// `IFLA_ADDRESS`
    pub address: Option<Mac>,
    /// `IFLA_BROADCAST`
    pub broadcast: Option<Mac>,
    /// `IFLA_TXQLEN`
    pub txqlen: Option<u32>,
    /// `IFLA_GROUP`
    pub group: Option<u32>,
    /// `IFLA_NUM_TX_QUEUES` and `IFLA_NUM_RX_QUEUES`, each 1 by default.
    pub queues: (u32, u32),
    /// `IFLA_LINK`, an index in the namespace `link_ns`.
    pub link: Option<u32>,
    /// The namespace in which `IFLA_LINK` is looked up (`IFLA_LINK_NETNSID`, else the socket's
    /// namespace).
    pub link_ns: Arc<Namespace>,
    /// `ifi_flags` and `ifi_change`
    pub flags: (u32, u32),
    /// `IFLA_INFO_DATA`
    pub data: Option<Attr<'a>>,
}

/// The kind-specific part of a device (`struct net_device_ops`).
pub trait Link: Send + Sync {
    /// Returns `IFLA_INFO_KIND`. It is empty for devices that requests cannot create.
    fn kind(&self) -> &'static str;

    /// Returns `ARPHRD_*`.
    fn hardware_type(&self) -> u16 {
        arphrd::ETHER
    }

    /// Returns the smallest and the largest MTU in bytes (`min_mtu`, `max_mtu`). A maximum of 0
    /// means no limit.
    fn mtu_bounds(&self) -> (u32, u32) {
        (68, 65_535)
    }

    /// Checks a new Ethernet address. Weir does not distinguish devices with and without
    /// `IFF_LIVE_ADDR_CHANGE`.
    fn check_address(&self, mac: &Mac) -> Result<(), Error> {
        if mac[0] & 1 != 0 || mac == &[0; 6] {
            return Err(Error::new(errno::EADDRNOTAVAIL));
        }
        Ok(())
    }

    /// Returns `IFLA_TSO_MAX_SIZE` in bytes (`netif_set_tso_max_size`).
    fn tso_max_size(&self) -> u32 {
        65_536
    }

    /// Returns the reported speed in units of 10^6 bits per second (`get_link_ksettings`).
    fn speed(&self) -> Option<u32> {
        None
    }

    /// Returns whether the driver has a hook for traffic control offload (`ndo_setup_tc`). It
    /// refuses all offloads.
    fn has_offload_hook(&self) -> bool {
        false
    }

    /// Returns whether the device starts without a queue (`IFF_NO_QUEUE`).
    fn no_queue(&self) -> bool {
        true
    }

    /// Checks an MTU in ways that the bounds cannot express.
    fn check_mtu(&self, _mtu: u32) -> Result<(), Error> {
        Ok(())
    }

    /// Called before the device goes up (`ndo_open`).
    fn open(&self) -> Result<(), Error> {
        Ok(())
    }

    /// Returns whether the device goes up and down with its lower device.
    fn follows_lower(&self) -> bool {
        true
    }

    /// Maps the priority of a VLAN tag to a packet priority on ingress
    /// (`vlan_get_ingress_priority`).
    fn ingress_priority(&self, _pcp: u8) -> u32 {
        0
    }

    /// Called after the device has been unregistered.
    fn removed(&self, _stack: &Stack, _device: &Arc<Device>) {}

    /// Sets the carrier on request (`ndo_change_carrier`).
    fn set_carrier(
        &self,
        _ctl: &mut Ctl<'_>,
        _device: &Arc<Device>,
        _on: bool,
    ) -> Result<(), Error> {
        Err(Error::new(errno::EOPNOTSUPP))
    }

    /// Returns whether there is a carrier.
    fn carrier(&self, _stack: &Stack, device: &Device) -> bool {
        let _ = device;
        true
    }

    /// Sends frames (`ndo_start_xmit`). The device is up, and observers and counters have already
    /// been updated.
    fn transmit(&self, cx: &mut Cx<'_>, device: &Arc<Device>, batch: Batch);

    /// Returns whether the kind counts received and sent frames itself, because its frames are
    /// extracted from or put into other packets.
    fn counts_itself(&self) -> bool {
        false
    }

    /// Adds the counters that the kind keeps in addition to [`crate::device::LinkStats`].
    fn add_stats(&self, _stats: &mut LinkStats64) {}

    /// Returns the namespace the device leads to, if that can differ from its own
    /// (`rtnl_link_ops.get_link_net`).
    fn link_namespace(&self) -> Option<NsId> {
        None
    }

    /// Returns the forwarding table, if the kind has one.
    fn fdb(&self) -> Option<&dyn crate::rtnl::fdb::Fdb> {
        None
    }

    /// Returns the VXLAN state if the device is a VXLAN device.
    fn vxlan(&self) -> Option<&Arc<vxlan::Vxlan>> {
        None
    }

    /// Returns the device of `IFLA_LINK` as (namespace, index), if there is one.
    fn lower(&self, _stack: &Stack) -> Option<(NsId, u32)> {
        None
    }

    /// Returns the port on a bus, if the device is on one.
    fn port(&self) -> Option<&Port> {
        None
    }

    /// Writes the contents of `IFLA_INFO_DATA`. If it writes nothing, the attribute is left out.
    fn fill_data(&self, _stack: &Stack, _out: &mut Writer) {}

    /// Applies `IFLA_INFO_DATA` to an existing device (`changelink`).
    fn change(
        &self,
        _ctl: &mut Ctl<'_>,
        _device: &Arc<Device>,
        _data: Option<Attr<'_>>,
    ) -> Result<(), Error> {
        Err(Error::new(errno::EOPNOTSUPP))
    }

    /// Returns the devices that are deleted together with this one.
    fn dependents(&self, _stack: &Stack, _device: &Device) -> Vec<Arc<Device>> {
        Vec::new()
    }

    /// Called when the device went up or down.
    fn changed_state(&self, _stack: &Stack, _device: &Arc<Device>) {}

    /// Called when promiscuous or all-multicast mode is turned on or off, that is when it gets its
    /// first user or loses its last; see [`ask_for_all`] (`ndo_change_rx_flags`).
    fn asks_for_all(&self, _stack: &Stack, _guard: &Guard, _flag: u32, _more: bool) {}

    /// Returns whether the device may move to another namespace.
    fn may_move(&self) -> bool {
        true
    }
}

/// Finds a kind by name.
pub fn kind(name: &str) -> Option<&'static Kind> {
    KINDS.iter().copied().find(|kind| kind.name == name)
}

/// Returns whether a name is valid for a device (`dev_valid_name`).
pub fn is_valid_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() < 16
        && name != "."
        && name != ".."
        && !name
            .bytes()
            .any(|b| b == b'/' || b == b':' || b.is_ascii_whitespace() || b == 0x0b)
}

/// Replaces the `%d` of a name pattern by the first free number (`dev_alloc_name`). A name without
/// `%` is returned unchanged.
pub fn expand_name(links: &crate::namespace::Links, pattern: &str) -> Result<String, Error> {
    let Some((before, after)) = pattern.split_once('%') else {
        return Ok(pattern.to_owned());
    };
    let Some(after) = after.strip_prefix('d').filter(|rest| !rest.contains('%')) else {
        return Err(Error::new(errno::EINVAL));
    };
    let name = (0..32_768)
        .map(|number| format!("{before}{number}{after}"))
        .find(|name| !links.by_name.contains_key(name))
        .ok_or_else(|| Error::new(errno::ENFILE))?;
    if is_valid_name(&name) {
        Ok(name)
    } else {
        Err(Error::new(errno::ENAMETOOLONG))
    }
}

/// Returns the flags shown to users (`dev_get_flags`), with the current state of running, lower-up
/// and dormant.
pub fn reported_flags(stack: &Stack, device: &Device) -> u32 {
    let mut flags = device.flags() & !(iff::RUNNING | iff::LOWER_UP | iff::DORMANT);
    if flags & iff::UP != 0 {
        if matches!(operstate(stack, device), oper::UP | oper::UNKNOWN) {
            flags |= iff::RUNNING;
        }
        if device.link.carrier(stack, device) {
            flags |= iff::LOWER_UP;
        }
        if device.state_below() == oper::DORMANT {
            flags |= iff::DORMANT;
        }
    }
    flags
}

/// Returns `IFLA_OPERSTATE` (RFC 2863) as Linux's linkwatch sets it.
pub fn operstate(stack: &Stack, device: &Device) -> u8 {
    if !device.is_up() {
        return oper::DOWN;
    }
    let below = device.state_below();
    if below == oper::TESTING {
        return below;
    }
    if !device.link.carrier(stack, device) {
        // A lower index equal to the device's own index counts as no lower device, whichever
        // namespace it is in.
        let lower = device.link.lower(stack);
        return match lower.is_some_and(|(_, index)| index != device.ifindex()) {
            true => oper::LOWERLAYERDOWN,
            false => oper::DOWN,
        };
    }
    if below == oper::DORMANT {
        return below;
    }
    match device.known_operstate() {
        // Devices that never report a carrier stay in the unknown state.
        oper::UNKNOWN if matches!(device.link.kind(), "veth" | "vlan") => oper::UP,
        known => known,
    }
}

/// Resets the operational state after a carrier change (`rfc2863_policy`). A state set by a user is
/// discarded; the link mode still applies.
pub(crate) fn settle_operstate(device: &Device) {
    device.set_known_operstate(match device.link_mode() {
        link_mode::DORMANT => oper::DORMANT,
        link_mode::TESTING => oper::TESTING,
        _ => oper::UP,
    });
}

/// Adds or removes one user of promiscuous mode (`iff::PROMISC`) or all-multicast mode
/// (`iff::ALLMULTI`). Calls the kind if this turns the mode on or off (`__dev_set_promiscuity`,
/// `__dev_set_allmulti`).
pub fn ask_for_all(stack: &Stack, guard: &Guard, device: &Device, flag: u32, more: bool) {
    if device.ask_for_all(flag == iff::ALLMULTI, more) {
        device.link.asks_for_all(stack, guard, flag, more);
    }
}

/// Returns the default initial state of an Ethernet device (`ether_setup`).
pub fn ethernet(
    link: Box<dyn Link>,
    ns: &Namespace,
    new: &NewLink<'_>,
    extra_flags: u32,
) -> NewDevice {
    NewDevice {
        link,
        name: new.name.clone(),
        flags: iff::BROADCAST | iff::MULTICAST | extra_flags,
        mtu: new.mtu.unwrap_or(1500),
        txqlen: new.txqlen.unwrap_or(1000),
        queues: new.queues,
        address: new.address.unwrap_or_else(|| ns.random_mac()),
        address_origin: match new.address {
            Some(_) => AddressOrigin::Set,
            None => AddressOrigin::Random,
        },
        broadcast: new.broadcast.unwrap_or([0xff; 6]),
    }
}

/// Registers a device in its namespace (`register_netdevice`) and notifies the listeners.
pub fn register(
    stack: &Stack,
    ns: &Arc<Namespace>,
    new: NewDevice,
    ifindex: u32,
    group: u32,
) -> Result<Arc<Device>, Error> {
    let device = {
        let mut links = ns.links();
        if ns.is_closing() {
            return Err(Error::new(errno::ENODEV));
        }
        let name = expand_name(&links, &new.name)?;
        if links.by_name.contains_key(&name) {
            return Err(Error::new(errno::EEXIST));
        }
        let (min, max) = new.link.mtu_bounds();
        if new.mtu < min {
            return Err(Error::msg(errno::EINVAL, "mtu less than device minimum"));
        }
        if max > 0 && new.mtu > max {
            return Err(Error::msg(errno::EINVAL, "mtu greater than device maximum"));
        }
        if ifindex != 0 && links.by_index.contains_key(&ifindex) {
            return Err(Error::new(errno::EBUSY));
        }
        let ifindex = if ifindex == 0 {
            links.new_index()
        } else {
            ifindex
        };
        let origin = match new.link.kind() {
            _ if new.link.port().is_some() => None,
            "" => Some(NameOrigin::Predictable),
            _ if new.name.contains('%') => Some(NameOrigin::Enumerated),
            _ => Some(NameOrigin::User),
        };
        let new = NewDevice { name, ..new };
        let device = Arc::new(Device::new(stack.new_device_key(), &stack.domain, ns, new));
        device.set_group(group);
        if let Some(origin) = origin {
            device.set_name_origin(origin);
        }
        stack.enter_device(&device);
        ns.enter(&stack.domain.pin(), &mut links, &device, ifindex);
        device
    };
    attach(stack, &stack.domain.pin(), ns, &device);
    Ok(device)
}

/// Deletes devices and their dependents (`unregister_netdevice_many`).
pub fn unregister(stack: &Stack, devices: &[Arc<Device>]) {
    // Mark each device before collecting its dependents: a device that is attached later sees the
    // mark.
    let guard = &stack.domain.pin();
    let (mut all, mut roots) = (Vec::<Doomed>::new(), Vec::new());
    let mut rest: Vec<(Arc<Device>, Option<usize>)> = devices
        .iter()
        .rev()
        .map(|device| (device.clone(), None))
        .collect();
    while let Some((device, below)) = rest.pop() {
        let Some(ns) = doom(&device, guard) else {
            continue;
        };
        let at = all.len();
        match below {
            Some(below) => all[below].above.push(at),
            None => roots.push(at),
        }
        let dependents = device.link.dependents(stack, &device).into_iter();
        rest.extend(dependents.map(|dependent| (dependent, None)));
        let vlans = device.vlans(guard).iter();
        rest.extend(vlans.map(|(_, _, vlan)| (vlan.clone(), Some(at))));
        let tunnels = vxlan::above(&ns, &device, guard).into_iter();
        rest.extend(tunnels.map(|tunnel| (tunnel, Some(at))));
        let above = Vec::new();
        all.push(Doomed { device, ns, above });
    }
    for &root in &roots {
        // Going down cannot fail.
        let _ = set_up(stack, guard, &all[root].device, false);
    }
    for root in roots {
        end(stack, &all, root);
    }
}

/// A device that is being unregistered. `above` holds the list indices of the devices on top of it.
struct Doomed {
    device: Arc<Device>,
    ns: Arc<Namespace>,
    above: Vec<usize>,
}

/// Removes a device: first its state in the namespace, then the devices on top of it, then the
/// device itself. Notifications are sent in the order Linux sends them.
fn end(stack: &Stack, all: &[Doomed], at: usize) {
    let Doomed { device, ns, above } = &all[at];
    let guard = &stack.domain.pin();
    // Going down cannot fail.
    let _ = set_up(stack, guard, device, false);
    detach(stack, guard, ns, device);
    for &above in above {
        end(stack, all, above);
    }
    crate::rtnl::link::notify(stack, guard, ns, device, rtm::DELLINK, u32::MAX);
    ns.leave(guard, &mut ns.links(), device);
    stack.leave_device(device);
    device.link.removed(stack, device);
}

/// Marks a device as being unregistered. Returns its namespace to the first caller and `None` to
/// all others. From then on nothing is attached to the device, and it stays in its namespace.
fn doom(device: &Device, guard: &Guard) -> Option<Arc<Namespace>> {
    loop {
        let ns = device.namespace(guard).clone();
        let _links = ns.links();
        // A move holds the link locks of both namespaces.
        if Arc::ptr_eq(&ns, device.namespace(guard)) {
            return device.begin_to_die().then(|| ns.clone());
        }
    }
}

/// Removes a device's state from its namespace: addresses, routes, neighbours, qdiscs.
pub(crate) fn detach(stack: &Stack, guard: &Guard, ns: &Arc<Namespace>, device: &Arc<Device>) {
    crate::ipv4::device_gone(stack, guard, ns, device);
    crate::ipv6::device_gone(stack, guard, ns, device);
    crate::fib::host::rules_detach(ns, device.ifindex());
    crate::tc::device_gone(stack, guard, ns, device);
}

/// Sets up the state that every device has in its namespace, after it entered one.
pub(crate) fn attach(stack: &Stack, guard: &Guard, ns: &Arc<Namespace>, device: &Arc<Device>) {
    crate::fib::host::rules_attach(ns, &device.name(), device.ifindex());
    crate::ipv4::device_entered(stack, guard, ns, device);
    crate::ipv6::device_entered(stack, guard, ns, device);
    if device.is_up() {
        crate::tc::device_up(stack, guard, ns, device);
    }
}

/// Deletes all devices of a namespace that is being torn down.
pub fn remove_all(stack: &Stack, ns: &Arc<Namespace>) {
    // The loopback device goes last, as in Linux: other devices may still have routes through it.
    let mut devices = ns.all_devices();
    devices.extend(vxlan::all_of(ns));
    devices.reverse();
    unregister(stack, &devices);
}

/// Brings a device up or down (`__dev_change_flags`) and notifies the listeners. Returns whether
/// the state changed. The VLAN devices on top of it follow.
pub fn set_up(stack: &Stack, guard: &Guard, device: &Arc<Device>, up: bool) -> Result<bool, Error> {
    if device.is_up() == up {
        return Ok(false);
    }
    if up {
        if device.is_leaving() {
            return Err(Error::new(errno::ENODEV));
        }
        device.link.open()?;
    }
    let ns = device.namespace(guard).clone();
    device.change_flags(if up { iff::UP } else { 0 }, iff::UP);
    if up {
        crate::tc::device_up(stack, guard, &ns, device);
    } else {
        crate::tc::device_down(stack, guard, device);
    }
    // Announce the link itself first, then the consequences (`__dev_notify_flags`).
    crate::rtnl::link::notify(stack, guard, &ns, device, rtm::NEWLINK, iff::UP);
    if up {
        crate::ipv4::device_up(stack, guard, &ns, device);
        crate::ipv6::device_up(stack, guard, &ns, device);
    } else {
        crate::ipv4::device_down(stack, guard, &ns, device);
        crate::ipv6::device_down(stack, guard, &ns, device);
    }
    device.link.changed_state(stack, device);
    for (_, _, vlan) in device.vlans(guard) {
        if vlan.link.follows_lower() {
            // This can only fail if the lower device is down, and it just went up.
            let _ = set_up(stack, guard, vlan, up);
        }
    }
    Ok(true)
}

/// Returns whether a device uses neighbour resolution.
pub fn uses_neighbours(device: &Device) -> bool {
    device.flags() & (iff::NOARP | iff::LOOPBACK | iff::POINTOPOINT) == 0
}

/// Handles a possible carrier change: starts or stops the qdisc and notifies the listeners
/// (`linkwatch_do_dev`).
pub fn carrier_changed(stack: &Stack, guard: &Guard, device: &Arc<Device>) {
    let ns = device.namespace(guard).clone();
    let on = device.watch_carrier(|| device.link.carrier(stack, device));
    settle_operstate(device);
    if device.is_up() {
        match on {
            true => crate::tc::device_up(stack, guard, &ns, device),
            false => crate::tc::device_down(stack, guard, device),
        }
    }
    crate::ipv4::carrier_changed(stack, guard, &ns, device);
    crate::ipv6::carrier_changed(stack, guard, &ns, device);
    if !device.is_dying() {
        crate::rtnl::link::notify(stack, guard, &ns, device, rtm::NEWLINK, 0);
    }
    if device.is_up() {
        tell_vlans(stack, guard, device);
    }
}

/// Passes a device's carrier and state on to the VLAN devices on top of it
/// (`vlan_stacked_transfer_operstate`).
pub fn tell_vlans(stack: &Stack, guard: &Guard, device: &Arc<Device>) {
    let state = match operstate(stack, device) {
        state @ (oper::DORMANT | oper::TESTING) => state,
        _ => oper::UNKNOWN,
    };
    for (_, _, vlan) in device.vlans(guard) {
        let carrier = vlan.link.carrier(stack, vlan);
        let turned = vlan.lacks_carrier() == carrier;
        if vlan.set_state_below(state) == state && !turned {
            continue;
        }
        if turned {
            vlan.count_carrier_change(carrier);
        }
        if vlan.is_up() {
            carrier_changed(stack, guard, vlan);
        } else {
            vlan.watch_carrier(|| vlan.link.carrier(stack, vlan));
            settle_operstate(vlan);
        }
    }
}
