// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Changes of existing devices (`do_setlink`), and moves between namespaces
//! (`__dev_change_net_namespace`).

use std::sync::Arc;

use weir_netlink::ifla::oper;
use weir_netlink::{Error, IfInfoMsg, Table, errno, ifla, rtm};
use weir_sync::rcu::Guard;

use super::parse;
use crate::device::{Device, Mac, NameOrigin};
use crate::layers::{Event, Site};
use crate::link::{self, NewLink};
use crate::listen::ConfEvent;
use crate::name::Name;
use crate::rtnl::{Ctl, netconf};
use crate::stack::Stack;
use crate::sysctl::{HasIp, Ipv4Conf, Ipv6Conf};
use weir_netlink::ifla::iff;

/// The maximum number of bytes an alternative name takes in a message
/// (`nla_total_size(ALTIFNAMSIZ)`).
const PROPERTY: usize = 132;
/// The flags that a request may set or clear (`__dev_change_flags`).
const SETTABLE: u32 = iff::DEBUG
    | iff::NOTRAILERS
    | iff::NOARP
    | iff::DYNAMIC
    | iff::MULTICAST
    | iff::PORTSEL
    | iff::AUTOMEDIA;

/// Applies the flags of a new device and announces it (`rtnl_configure_link`).
pub fn configure(ctl: &mut Ctl<'_>, device: &Arc<Device>, new: &NewLink<'_>) -> Result<(), Error> {
    let (flags, change) = new.flags;
    let ns = device.namespace(ctl.guard).clone();
    if flags != 0 || change != 0 {
        change_flags(ctl.stack, ctl.guard, device, combine(device, flags, change))?;
    }
    super::notify(ctl.stack, ctl.guard, &ns, device, rtm::NEWLINK, u32::MAX);
    Ok(())
}

/// Returns the flags requested by `ifi_flags` and `ifi_change` (`rtnl_dev_combine_flags`).
fn combine(device: &Device, flags: u32, change: u32) -> u32 {
    if change != 0 {
        (flags & change) | (device.flags() & !change)
    } else {
        flags
    }
}

fn change_flags(
    stack: &Stack,
    guard: &Guard,
    device: &Arc<Device>,
    flags: u32,
) -> Result<bool, Error> {
    let before = device.flags();
    device.change_flags(flags, SETTABLE);
    link::set_up(stack, guard, device, flags & iff::UP != 0)?;
    for bit in [iff::PROMISC, iff::ALLMULTI] {
        let wanted = flags & bit != 0;
        if wanted != (device.change_flags(flags, bit) & bit != 0) {
            link::ask_for_all(stack, guard, device, bit, wanted);
        }
    }
    // Up and down have already been announced.
    Ok((device.flags() ^ before) & !iff::UP != 0)
}

/// Refuses a link-layer address that is shorter than the device's (`validate_linkmsg`).
fn check_address_len(device: &Device, attrs: &Table<'_>) -> Result<(), Error> {
    let own = device.link.hardware_addresses();
    let least = own.map_or(size_of::<Mac>(), |(own, _)| own.len());
    for ty in [ifla::ADDRESS, ifla::BROADCAST] {
        if attrs.get(ty).is_some_and(|attr| attr.payload.len() < least) {
            return Err(Error::new(errno::EINVAL));
        }
    }
    Ok(())
}

/// Changes a device (`do_setlink`).
pub fn set(
    ctl: &mut Ctl<'_>,
    device: &Arc<Device>,
    info: &IfInfoMsg,
    attrs: &Table<'_>,
) -> Result<(), Error> {
    check_address_len(device, attrs)?;
    let target = parse::target_namespace(ctl, attrs)?;
    // Linux's devices of these kinds have no `ndo_set_config`, `ndo_set_vf_*` and `ndo_set_vf_port`.
    let absent = [
        ifla::MAP,
        ifla::VFINFO_LIST,
        ifla::VF_PORTS,
        ifla::PORT_SELF,
    ];
    if absent.iter().any(|ty| attrs.has(*ty)) {
        return Err(Error::new(errno::EOPNOTSUPP));
    }
    if attrs.has(ifla::PROTO_DOWN) || attrs.has(ifla::PROTO_DOWN_REASON) {
        return Err(Error::unsupported("Protodown not supported by device"));
    }
    check_xdp(attrs)?;
    let name = attrs.str(ifla::IFNAME)?.unwrap_or("");
    if let Some(target) = target {
        let index = attrs.i32(ifla::NEW_IFINDEX)?.unwrap_or(0) as u32;
        link::move_to(ctl.stack, ctl.guard, device, &target, name, index)?;
    }
    // Address, MTU, name and queue length are announced one by one, before the protocols react
    // (`rtnetlink_event`).
    let tell = |ctl: &Ctl<'_>| {
        let ns = device.namespace(ctl.guard).clone();
        super::notify(ctl.stack, ctl.guard, &ns, device, rtm::NEWLINK, 0);
    };
    // Changes announced at the end, and those announced only if the device is up
    // (`netdev_state_change`).
    let (mut changed, mut changed_if_up) = (false, false);
    let was_up = device.is_up();
    if let Some(mac) = parse::mac(attrs, ifla::ADDRESS)? {
        link::change_address(ctl.stack, ctl.guard, device, mac)?;
    }
    if let Some(mtu) = attrs.u32(ifla::MTU)? {
        link::change_mtu(ctl.stack, ctl.guard, device, mtu)?;
    }
    if let Some(group) = attrs.u32(ifla::GROUP)? {
        device.set_group(group);
        changed_if_up = true;
    }
    if info.index > 0 && !name.is_empty() && device.name() != name {
        rename(ctl, device, name)?;
        tell(ctl);
        let ns = device.namespace(ctl.guard);
        if device.has_ipv4() {
            netconf::hear::<Ipv4Conf>(ns, &ConfEvent::Ended(device));
            netconf::hear::<Ipv4Conf>(ns, &ConfEvent::Began(device));
        }
        if device.has_ipv6() {
            netconf::hear::<Ipv6Conf>(ns, &ConfEvent::Ended(device));
            netconf::hear::<Ipv6Conf>(ns, &ConfEvent::Began(device));
        }
    }
    if let Some(alias) = attrs.get(ifla::IFALIAS) {
        let text = alias.payload.split(|octet| *octet == 0).next();
        let text = String::from_utf8_lossy(text.unwrap_or_default()).into_owned();
        let alias = Some(text).filter(|alias| !alias.is_empty());
        let mut names = device.names();
        if alias.is_some() || names.alias().is_some() {
            names.others().alias = alias;
        }
        changed_if_up = true;
    }
    if let Some(mac) = parse::mac(attrs, ifla::BROADCAST)? {
        device.set_broadcast(mac);
        // This is `NETDEV_CHANGEADDR` as well.
        tell(ctl);
        let ns = device.namespace(ctl.guard);
        Site::new(ctl.stack, ctl.guard, ns, device).notify(Event::Address);
    }
    set_master(ctl, device, attrs)?;
    if info.flags != 0 || info.change != 0 {
        changed |= change_flags(
            ctl.stack,
            ctl.guard,
            device,
            combine(device, info.flags, info.change),
        )?;
    }
    if let Some(carrier) = attrs.u8(ifla::CARRIER)? {
        device.link.set_carrier(ctl, device, carrier != 0)?;
        changed = true;
    }
    if let Some(len) = attrs.u32(ifla::TXQLEN)? {
        device.set_txqlen(len);
        tell(ctl);
    }
    offload(device, attrs, false)?;
    if let Some(state) = attrs.u8(ifla::OPERSTATE)?
        && set_operstate(ctl.stack, device, state)
    {
        changed_if_up = true;
        link::tell_vlans(ctl.stack, ctl.guard, device);
    }
    if let Some(mode) = attrs.u8(ifla::LINKMODE)? {
        changed_if_up |= mode != device.link_mode();
        device.set_link_mode(mode);
    }
    if let Some(spec) = attrs.get(ifla::AF_SPEC) {
        crate::rtnl::af_spec::apply(ctl, device, spec)?;
        changed_if_up = true;
    }
    let up = device.is_up();
    if changed || changed_if_up && up {
        tell(ctl);
    }
    // A new device is no change of state.
    if up && was_up && (changed || changed_if_up) {
        let ns = device.namespace(ctl.guard);
        Site::new(ctl.stack, ctl.guard, ns, device).notify(Event::State);
    }
    Ok(())
}

/// Makes the device a port of another one, or of none (`do_set_master`).
pub fn set_master(ctl: &Ctl<'_>, device: &Arc<Device>, attrs: &Table<'_>) -> Result<(), Error> {
    let Some(index) = attrs.u32(ifla::MASTER)? else {
        return Ok(());
    };
    let (stack, guard) = (ctl.stack, ctl.guard);
    if let Some(before) = device.master(guard) {
        if before.ifindex() == index {
            return Ok(());
        }
        let ports = before.link.master();
        let ports = ports.ok_or_else(|| Error::new(errno::EOPNOTSUPP))?;
        ports.release(stack, guard, device)?;
    }
    if index == 0 {
        return Ok(());
    }
    let ns = device.namespace(guard);
    let master = ns.device(index, guard);
    let master = master.ok_or_else(|| Error::new(errno::EINVAL))?;
    let ports = master.link.master();
    let ports = ports.ok_or_else(|| Error::new(errno::EOPNOTSUPP))?;
    // A VRF has no handler of its ports' frames.
    if !device.link.may_have_handler() && !master.link.is_l3_master() {
        return Err(Error::new(errno::EINVAL));
    }
    ports.add(stack, guard, master, device)
}

/// Refuses an XDP program. A negative descriptor detaches, which succeeds without one (`dev_xdp_attach`).
fn check_xdp(attrs: &Table<'_>) -> Result<(), Error> {
    let Some(nest) = attrs.get(ifla::XDP) else {
        return Ok(());
    };
    for attr in nest.attrs() {
        match attr.ty {
            ifla::xdp::ATTACHED | ifla::xdp::PROG_ID => return Err(Error::new(errno::EINVAL)),
            ifla::xdp::FD if attr.i32()? >= 0 => {
                return Err(Error::unsupported("XDP programs are not served"));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Sets the operational state (`set_operstate`). Returns whether it changed.
fn set_operstate(stack: &Stack, device: &Device, wanted: u8) -> bool {
    let now = link::operstate(stack, device);
    let is_up = matches!(now, oper::UP | oper::UNKNOWN);
    let new = match wanted {
        oper::UP
            if matches!(now, oper::DORMANT | oper::TESTING | oper::UNKNOWN)
                && device.state_below() == oper::UNKNOWN =>
        {
            oper::UP
        }
        oper::TESTING | oper::DORMANT if is_up => wanted,
        _ => return false,
    };
    device.set_known_operstate(new);
    now != new
}

/// Sets the segmentation offload limits (`IFLA_GSO_MAX_SIZE` and so on). As in Linux, the change is not
/// announced, and the upper limits of the device do not count for a device that is being created.
pub fn offload(device: &Device, attrs: &Table<'_>, created: bool) -> Result<(), Error> {
    let mut offload = device.offload();
    if let Some(size) = attrs.u32(ifla::GSO_MAX_SIZE)? {
        if size > device.link.tso_max_size() && !created {
            return Err(Error::new(errno::EINVAL));
        }
        offload.gso_max_size = size;
    }
    if let Some(segments) = attrs.u32(ifla::GSO_MAX_SEGS)? {
        if segments > 65_535 {
            return Err(Error::new(errno::EINVAL));
        }
        offload.gso_max_segs = segments;
    }
    if let Some(size) = attrs.u32(ifla::GRO_MAX_SIZE)? {
        offload.gro_max_size = size;
    }
    device.set_offload(offload);
    Ok(())
}

/// Renames a device (`dev_change_name`).
fn rename(ctl: &Ctl<'_>, device: &Arc<Device>, pattern: &str) -> Result<(), Error> {
    if !link::is_valid_name(pattern) {
        return Err(Error::new(errno::EINVAL));
    }
    if device.is_up() {
        return Err(Error::new(errno::EBUSY));
    }
    let ns = device.namespace(ctl.guard);
    let mut links = ns.links();
    if !device.is_registered() {
        return Err(Error::new(errno::ENODEV));
    }
    let name = link::expand_name(&links, pattern)?;
    if links.by_name.contains_key(name.as_str()) {
        return Err(Error::new(errno::EEXIST));
    }
    link::refuse_folders(&name)?;
    let name = Name::from(name.as_str());
    let old = std::mem::replace(&mut device.names().name, name.clone());
    device.set_name_origin(NameOrigin::Renamed);
    links.by_name.remove(&*old);
    links.by_name.insert(name, device.clone());
    links.generation = links.generation.wrapping_add(1);
    drop(links);
    Site::new(ctl.stack, ctl.guard, ns, device).notify(Event::Renamed);
    Ok(())
}

/// Adds or removes an alternative name (`netdev_name_node_alt_create`, `_destroy`).
///
/// A device has at most as many as fit into one attribute (496).
pub fn alternative_name(
    ctl: &Ctl<'_>,
    device: &Arc<Device>,
    name: &str,
    add: bool,
) -> Result<(), Error> {
    let ns = device.namespace(ctl.guard);
    let mut links = ns.links();
    if add {
        // Like `rtnl_prop_list_size`, assume the maximum length for each name.
        let size = match device.names().alt().len() {
            0 => 0,
            count => 4 + PROPERTY * count,
        };
        if size + PROPERTY >= usize::from(u16::MAX) {
            let text = "effective property list too long";
            return Err(Error::msg(errno::EINVAL, text));
        }
        if name.is_empty() || links.by_name.contains_key(name) {
            return Err(Error::new(if name.is_empty() {
                errno::EINVAL
            } else {
                errno::EEXIST
            }));
        }
        device.names().others().alt.push(name.to_owned());
        links.by_name.insert(name.into(), device.clone());
        return Ok(());
    }
    let Some(owner) = links.find(name) else {
        return Err(Error::new(errno::ENOENT));
    };
    let own = Arc::ptr_eq(owner, device);
    let mut names = device.names();
    if !own || *names.name == *name {
        return Err(Error::new(errno::EINVAL));
    }
    names.others().alt.retain(|other| other != name);
    links.by_name.remove(name);
    Ok(())
}
