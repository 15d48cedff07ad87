// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The life of a device, whatever its kind: register, up, down, carrier, move, unregister
//! (`net/core/dev.c`).
//!
//! Higher floors follow a device by the events that their modules get ([`crate::layers::Event`]).

use std::sync::Arc;

use weir_netlink::ifla::{iff, link_mode, oper};
use weir_netlink::{Error, errno, rtm};
use weir_sync::rcu::Guard;

use crate::device::{AddressOrigin, Device, Mac, NameOrigin, NewDevice};
use crate::kind::{Link, NewLink};
use crate::layers::{Event, Site};
use crate::namespace::{Links, Namespace};
use crate::stack::Stack;
use crate::taken;

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

/// Refuses the names of the folders of settings of all devices and of new ones (`sysctl_dev_name_is_allowed`).
///
/// # Errors
/// EINVAL for such a name.
pub fn refuse_folders(name: &str) -> Result<(), Error> {
    match name {
        "all" | "default" => Err(Error::new(errno::EINVAL)),
        _ => Ok(()),
    }
}

/// Finds the number for a name pattern (`dev_alloc_name`): a name without `%` stays as it is.
pub fn expand_name(links: &Links, pattern: &str) -> Result<String, Error> {
    let Some((before, after)) = pattern.split_once('%') else {
        return Ok(pattern.to_owned());
    };
    let Some(after) = after.strip_prefix('d').filter(|rest| !rest.contains('%')) else {
        return Err(Error::new(errno::EINVAL));
    };
    let name = (0..32_768)
        .map(|number| format!("{before}{number}{after}"))
        .find(|name| !links.by_name.contains_key(name.as_str()))
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
        // Devices that never report a carrier stay unknown.
        oper::UNKNOWN if device.link.reports_carrier() => oper::UP,
        known => known,
    }
}

/// Resets the operational state after a carrier change (`rfc2863_policy`). A state set by a user is
/// discarded; the link mode still applies.
pub fn settle_operstate(device: &Device) {
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
        queues: (new.queues.0.unwrap_or(1), new.queues.1.unwrap_or(1)),
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
    mut new: NewDevice,
    ifindex: u32,
    group: u32,
) -> Result<Arc<Device>, Error> {
    let guard = &stack.domain.pin();
    let device = {
        let mut links = ns.links();
        if ns.is_closing() {
            return Err(Error::new(errno::ENODEV));
        }
        let enumerated = new.name.contains('%');
        let name = match enumerated {
            true => expand_name(&links, &new.name)?,
            false => std::mem::take(&mut new.name),
        };
        if links.by_name.contains_key(name.as_str()) {
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
        refuse_folders(&name)?;
        let ifindex = if ifindex == 0 {
            links.new_index()
        } else {
            ifindex
        };
        let origin = match new.link.kind() {
            _ if new.link.port().is_some() => None,
            "" => Some(NameOrigin::Predictable),
            _ if enumerated => Some(NameOrigin::Enumerated),
            _ => Some(NameOrigin::User),
        };
        let new = NewDevice { name, ..new };
        let device = Arc::new(Device::new(stack, stack.new_device_key(), ns, new));
        device.recompute_features();
        device.set_group(group);
        if let Some(origin) = origin {
            device.set_name_origin(origin);
        }
        stack.enter_device(&device, guard);
        ns.enter(guard, &mut links, &device, ifindex);
        device
    };
    attach(stack, guard, ns, &device);
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
        device.link.leaves(stack, guard, &device);
        let at = all.len();
        match below {
            Some(below) => all[below].above.push(at),
            None => roots.push(at),
        }
        let dependents = device.link.dependents(stack, &device).into_iter();
        rest.extend(dependents.map(|dependent| (dependent, None)));
        let vlans = device.vlans(guard).iter();
        rest.extend(vlans.map(|(_, _, vlan)| (vlan.clone(), Some(at))));
        above(stack, &ns, Some(&device), guard, &mut |tunnel| {
            rest.push((tunnel, Some(at)));
        });
        let above = Vec::new();
        all.push(Doomed { device, ns, above });
    }
    for &root in &roots {
        // Going down cannot fail.
        let _ = set_up(stack, guard, &all[root].device, false);
    }
    for root in roots {
        end(stack, guard, &all, root);
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
fn end(stack: &Stack, guard: &Guard, all: &[Doomed], at: usize) {
    let Doomed { device, ns, above } = &all[at];
    // Going down cannot fail.
    let _ = set_up(stack, guard, device, false);
    detach(stack, guard, ns, device);
    for &above in above {
        end(stack, guard, all, above);
    }
    changed(stack, guard, ns, device, rtm::DELLINK, u32::MAX);
    ns.leave(guard, &mut ns.links(), device);
    stack.leave_device(device, guard);
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
pub fn detach(stack: &Stack, guard: &Guard, ns: &Arc<Namespace>, device: &Arc<Device>) {
    let site = Site::new(stack, guard, ns, device);
    site.notify(Event::Gone);
    site.notify(Event::Detached);
}

/// Sets up the state that every device has in its namespace, after it entered one.
pub fn attach(stack: &Stack, guard: &Guard, ns: &Arc<Namespace>, device: &Arc<Device>) {
    let site = Site::new(stack, guard, ns, device);
    site.notify(Event::Entered);
    if device.is_up() {
        site.notify(Event::Activated);
    }
}

/// Deletes all devices of a namespace that is being torn down.
pub fn remove_all(stack: &Stack, ns: &Arc<Namespace>) {
    // The loopback device goes last, as in Linux: other devices may still have routes through it.
    let mut devices = ns.all_devices();
    let add = &mut |device| devices.push(device);
    above(stack, ns, None, &stack.domain.pin(), add);
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
        device.link.open(stack, guard, device)?;
        device.link.inherit_address(stack, guard, device);
    }
    let ns = device.namespace(guard).clone();
    device.change_flags(if up { iff::UP } else { 0 }, iff::UP);
    match up {
        true => taken::changed(stack, guard, device),
        false => device.link.accepts(stack, guard, device),
    }
    let site = Site::new(stack, guard, &ns, device);
    site.notify(match up {
        true => Event::Activated,
        false => Event::Deactivated,
    });
    // First the link itself, then what follows from it (`__dev_notify_flags`).
    changed(stack, guard, &ns, device, rtm::NEWLINK, iff::UP);
    site.notify(if up { Event::Up } else { Event::Down });
    device.link.changed_state(stack, guard, device);
    for (_, _, vlan) in device.vlans(guard) {
        if vlan.link.follows_lower() {
            // This can only fail if the lower device is down, and it just went up.
            let _ = set_up(stack, guard, vlan, up);
        }
    }
    Ok(true)
}

/// Notifies listeners, modules and VLAN devices of a device's new link-layer address
/// (`dev_set_mac_address`, `vlan_sync_address`).
pub fn address_changed(stack: &Stack, guard: &Guard, device: &Arc<Device>) {
    let ns = device.namespace(guard);
    taken::changed(stack, guard, device);
    changed(stack, guard, ns, device, rtm::NEWLINK, 0);
    Site::new(stack, guard, ns, device).notify(Event::Address);
    for (_, _, vlan) in device.vlans(guard) {
        if vlan.is_up() {
            vlan.link.inherit_address(stack, guard, vlan);
            taken::changed(stack, guard, vlan);
        }
    }
}

/// Changes the link-layer address of a device, and tells everybody (`dev_set_mac_address`).
///
/// # Errors
/// Those of the kind.
pub fn change_address(
    stack: &Stack,
    guard: &Guard,
    device: &Arc<Device>,
    mac: Mac,
) -> Result<(), Error> {
    device.link.check_address(&mac)?;
    device.link.set_address(stack, guard, device, &mac)?;
    let kept = device.link.keeps_address();
    device.set_address(if kept { device.address() } else { mac });
    address_changed(stack, guard, device);
    Ok(())
}

/// Changes the MTU of a device, in bytes, and tells everybody (`dev_set_mtu_ext`). The MTU of VLAN devices on top
/// of it falls to the same (`vlan_device_event`). The MTU that the device has is set without a word.
///
/// # Errors
/// EINVAL outside the bounds of the kind, and those of the kind.
pub fn change_mtu(
    stack: &Stack,
    guard: &Guard,
    device: &Arc<Device>,
    mtu: u32,
) -> Result<(), Error> {
    if mtu == device.mtu() {
        return Ok(());
    }
    let (min, max) = device.link.mtu_bounds();
    if mtu < min {
        return Err(Error::msg(errno::EINVAL, "mtu less than device minimum"));
    }
    if (max > 0 && mtu > max) || mtu > i32::MAX as u32 {
        return Err(Error::msg(errno::EINVAL, "mtu greater than device maximum"));
    }
    device.link.check_mtu(mtu)?;
    device.link.set_mtu(stack, guard, device, mtu)?;
    take_mtu(stack, guard, device, mtu);
    Ok(())
}

/// Sets the MTU of a device and of the VLAN devices on top of it whose MTU is larger, and tells everybody.
fn take_mtu(stack: &Stack, guard: &Guard, device: &Arc<Device>, mtu: u32) {
    let before = device.mtu();
    device.set_mtu(mtu);
    let ns = device.namespace(guard).clone();
    changed(stack, guard, &ns, device, rtm::NEWLINK, 0);
    Site::new(stack, guard, &ns, device).notify(Event::Mtu { before });
    for (_, _, vlan) in device.vlans(guard) {
        if vlan.mtu() > device.mtu() {
            take_mtu(stack, guard, vlan, device.mtu());
        }
    }
}

/// Tells the neighbours of a device, and of the VLAN devices on top of it, where the addresses are now
/// (`NETDEV_NOTIFY_PEERS`).
pub fn notify_peers(stack: &Stack, guard: &Guard, device: &Arc<Device>) {
    let ns = device.namespace(guard);
    Site::new(stack, guard, ns, device).notify(Event::NotifyPeers);
    for (_, _, vlan) in device.vlans(guard) {
        notify_peers(stack, guard, vlan);
    }
}

/// Returns whether `device` is `other` or on top of it, by way of lower devices and ports
/// (`__netdev_has_upper_dev`).
pub fn stands_on(stack: &Stack, guard: &Guard, device: &Arc<Device>, other: &Device) -> bool {
    let mut rest = vec![(device.clone(), 0)];
    while let Some((device, depth)) = rest.pop() {
        // As deep as Linux nests devices (`MAX_NEST_DEV`).
        if device.key == other.key || depth > 8 {
            return true;
        }
        // The ends of a veth pair are not on top of each other.
        let below = device.link.lower(stack);
        let below = below.filter(|_| device.link.kind() != "veth");
        if let Some((ns, index)) = below
            && let Some(ns) = stack.namespace(ns)
            && let Some(lower) = ns.device(index, guard)
            && lower.key != device.key
        {
            rest.push((lower.clone(), depth + 1));
        }
        if device.link.master().is_some() {
            let is_port = |port: &Arc<Device>| {
                let master = port.master(guard);
                master.is_some_and(|master| Arc::ptr_eq(master, &device))
            };
            let ports = device.namespace(guard).all_devices().into_iter();
            rest.extend(ports.filter(is_port).map(|port| (port, depth + 1)));
        }
    }
    false
}

/// Calls `add` with each device that other modules delete together with a device, or with the namespace.
fn above(
    stack: &Stack,
    ns: &Namespace,
    device: Option<&Device>,
    guard: &Guard,
    add: &mut dyn FnMut(Arc<Device>),
) {
    for module in stack.layers.modules {
        if let Some(above) = module.above {
            above(ns, device, guard, add);
        }
    }
}

/// Sends a device's current state to the listeners; `change` is `ifi_change` (`rtmsg_ifinfo`).
pub fn changed(
    stack: &Stack,
    guard: &Guard,
    ns: &Arc<Namespace>,
    device: &Arc<Device>,
    ty: u16,
    change: u32,
) {
    Site::new(stack, guard, ns, device).notify(Event::Changed { ty, change });
}

/// Returns whether a device takes part in neighbour resolution.
pub fn uses_neighbours(device: &Device) -> bool {
    device.flags() & (iff::NOARP | iff::LOOPBACK | iff::POINTOPOINT) == 0
}

/// Handles a possible carrier change: starts or stops the qdisc and notifies the listeners
/// (`linkwatch_do_dev`).
pub fn carrier_changed(stack: &Stack, guard: &Guard, device: &Arc<Device>) {
    let ns = device.namespace(guard).clone();
    let on = device.watch_carrier(|| device.link.carrier(stack, device));
    settle_operstate(device);
    let site = Site::new(stack, guard, &ns, device);
    if device.is_up() {
        site.notify(match on {
            true => Event::Activated,
            false => Event::Deactivated,
        });
    }
    site.notify(Event::Carrier);
    if !device.is_dying() {
        changed(stack, guard, &ns, device, rtm::NEWLINK, 0);
    }
    if device.is_up() {
        tell_vlans(stack, guard, device);
    }
}

/// Passes a device's carrier and state on to the VLAN devices on top of it
/// (`vlan_stacked_transfer_operstate`), and tells the modules.
pub fn tell_vlans(stack: &Stack, guard: &Guard, device: &Arc<Device>) {
    for (_, _, vlan) in device.vlans(guard) {
        transfer_operstate(stack, guard, device, vlan);
    }
    let ns = device.namespace(guard);
    Site::new(stack, guard, ns, device).notify(Event::Operstate);
}

/// Passes a device's carrier and state on to a device on top of it (`netif_stacked_transfer_operstate`).
pub fn transfer_operstate(stack: &Stack, guard: &Guard, lower: &Device, upper: &Arc<Device>) {
    let state = match operstate(stack, lower) {
        state @ (oper::DORMANT | oper::TESTING) => state,
        _ => oper::UNKNOWN,
    };
    let carrier = upper.link.carrier(stack, upper);
    let turned = upper.lacks_carrier() == carrier;
    if upper.set_state_below(state) == state && !turned {
        return;
    }
    if turned {
        upper.count_carrier_change(carrier);
    }
    if upper.is_up() {
        carrier_changed(stack, guard, upper);
    } else {
        upper.watch_carrier(|| upper.link.carrier(stack, upper));
        settle_operstate(upper);
    }
}

/// Computes the active features of a device again. If they changed, tells the modules and updates the VLAN
/// devices on top (`netdev_update_features`, `vlan_transfer_features`).
pub fn update_features(stack: &Stack, guard: &Guard, device: &Arc<Device>) {
    if !device.recompute_features() {
        return;
    }
    let ns = device.namespace(guard).clone();
    Site::new(stack, guard, &ns, device).notify(Event::Features);
    for (_, _, vlan) in device.vlans(guard) {
        update_features(stack, guard, vlan);
    }
}

/// Moves a device to another namespace (`__dev_change_net_namespace`). The device goes down, loses
/// its state in the old namespace, and enters the new one under its own name, `pattern`, or the
/// next free `dev%d`.
pub fn move_to(
    stack: &Stack,
    guard: &Guard,
    device: &Arc<Device>,
    target: &Arc<Namespace>,
    pattern: &str,
    ifindex: u32,
) -> Result<(), Error> {
    if !device.link.may_move() {
        return Err(Error::new(errno::EINVAL));
    }
    // `planned` is the index of an earlier plan. It holds unless another device took it.
    let plan = |to: &mut Links, planned: u32| -> Result<(String, u32), Error> {
        let old = device.name();
        let name = if !pattern.is_empty() && pattern != old {
            if !is_valid_name(pattern) {
                return Err(Error::new(errno::EINVAL));
            }
            expand_name(to, pattern)?
        } else {
            old
        };
        if to.by_name.contains_key(name.as_str())
            || device
                .names()
                .alt()
                .iter()
                .any(|alt| to.by_name.contains_key(alt.as_str()))
        {
            return Err(Error::new(errno::EEXIST));
        }
        let index = match ifindex {
            0 if !to.by_index.contains_key(&device.ifindex()) => device.ifindex(),
            0 if planned != 0 && !to.by_index.contains_key(&planned) => planned,
            0 => to.new_index(),
            taken if to.by_index.contains_key(&taken) => return Err(Error::new(errno::EBUSY)),
            free => free,
        };
        Ok((name, index))
    };
    let (source, planned) = loop {
        let source = device.namespace(guard).clone();
        if Arc::ptr_eq(&source, target) {
            return Ok(());
        }
        if target.is_closing() {
            return Err(Error::new(errno::EINVAL));
        }
        let (_, planned) = plan(&mut target.links(), 0)?;
        // From here on nothing is attached to the device until it has arrived.
        if !device.begin_to_move() {
            return Err(Error::new(errno::ENODEV));
        }
        // Somebody else may have moved the device just before.
        if Arc::ptr_eq(&source, device.namespace(guard)) {
            break (source, planned);
        }
        if !device.end_move() {
            return Err(Error::new(errno::ENODEV));
        }
    };
    // Going down cannot fail.
    let _ = set_up(stack, guard, device, false);
    detach(stack, guard, &source, device);
    let nsid = crate::nsid::id_of(&source, target.id);
    Site::new(stack, guard, &source, device).notify(Event::Moves {
        nsid,
        ifindex: planned,
    });
    let moved = || {
        // Lock both tables, the lower id first: nobody sees the device in neither or in both.
        let (mut first, mut second);
        let (from, to) = if source.id < target.id {
            (first, second) = (source.links(), target.links());
            (&mut *first, &mut *second)
        } else {
            (second, first) = (target.links(), source.links());
            (&mut *first, &mut *second)
        };
        if device.is_dying() {
            return Err(Error::new(errno::ENODEV));
        }
        if target.is_closing() {
            return Err(Error::new(errno::EINVAL));
        }
        let (name, index) = plan(to, planned)?;
        source.leave(guard, from, device);
        device.taken().flush();
        device.names().name = name.as_str().into();
        device.set_namespace(target.clone());
        target.enter(guard, to, device, index);
        Ok(())
    };
    let moved = moved();
    if device.end_move() {
        let ns = if moved.is_ok() { target } else { &source };
        attach(stack, guard, ns, device);
        changed(stack, guard, ns, device, rtm::NEWLINK, u32::MAX);
    }
    moved
}
