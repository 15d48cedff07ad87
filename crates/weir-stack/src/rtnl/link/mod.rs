// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Links: RTM_NEWLINK, RTM_SETLINK, RTM_DELLINK, RTM_GETLINK, RTM_NEWLINKPROP, RTM_DELLINKPROP
//! (`net/core/rtnetlink.c`).
//!
//! | file | contents |
//! |---|---|
//! | `parse` | parsing of attributes |
//! | `set` | changes of existing devices, and moves between namespaces |
//! | `fill` | writing of attributes |
//! | `bridge` | requests of family AF_BRIDGE |
//!
//! Not implemented: VFs, XDP, `IFLA_MAP`, target namespaces by id in
//! get requests.

mod bridge;
mod fill;
mod parse;
mod set;

use std::sync::Arc;

use weir_netlink::{Error, IfInfoMsg, Strictness, Table, af, errno, ifla, nlm, rtm};

use crate::device::Device;
use crate::link::NewLink;
use crate::rtnl::{Collected, Ctl, Dump, Handler};
use crate::settings::HasIp;

pub use fill::{fill, notify, notify_event, notify_move, statistics};
pub use parse::parse_peer;
pub use set::configure;

/// The handled request types.
pub const HANDLERS: &[Handler] = &[
    Handler {
        ty: rtm::NEWLINK,
        doit: Some(new),
        dumpit: None,
    },
    Handler {
        ty: rtm::SETLINK,
        doit: Some(set),
        dumpit: None,
    },
    Handler {
        ty: rtm::DELLINK,
        doit: Some(delete),
        dumpit: None,
    },
    Handler {
        ty: rtm::GETLINK,
        doit: Some(get),
        dumpit: Some(dump),
    },
    Handler {
        ty: rtm::NEWLINKPROP,
        doit: Some(|ctl| properties(ctl, true)),
        dumpit: None,
    },
    Handler {
        ty: rtm::DELLINKPROP,
        doit: Some(|ctl| properties(ctl, false)),
        dumpit: None,
    },
];

fn no_device() -> Error {
    Error::new(errno::ENODEV)
}

/// Returns the device that a request names by index, name or alternative name.
fn named(ctl: &Ctl<'_>, info: &IfInfoMsg, attrs: &Table<'_>) -> Result<Option<Arc<Device>>, Error> {
    if info.index < 0 {
        return Err(Error::msg(errno::EINVAL, "ifindex can't be negative"));
    }
    if info.index > 0 {
        return Ok(ctl.ns.device(info.index as u32, ctl.guard).cloned());
    }
    match attrs.str(ifla::IFNAME)?.filter(|name| !name.is_empty()) {
        Some(name) => Ok(ctl.ns.device_by_name(name)),
        None => match attrs.str(ifla::ALT_IFNAME)? {
            Some(name) => Ok(ctl.ns.device_by_name(name)),
            None => Ok(None),
        },
    }
}

fn names_one(info: &IfInfoMsg, attrs: &Table<'_>) -> bool {
    info.index > 0 || attrs.has(ifla::IFNAME) || attrs.has(ifla::ALT_IFNAME)
}

/// Creates or changes a device (`rtnl_newlink`).
fn new(ctl: &mut Ctl<'_>) -> Result<(), Error> {
    let message = ctl.message;
    let (info, attrs) = message.parse::<IfInfoMsg>(&parse::POLICY, Strictness::Liberal)?;
    parse::one_namespace(&attrs)?;
    let device = named(ctl, &info, &attrs)?;
    let linkinfo = parse::LinkInfo::parse(&attrs)?;
    let kind = linkinfo.kind.and_then(crate::link::kind);
    let create = kind.map(|kind| kind.create).transpose();
    let create = create.map_err(|text| Error::msg(errno::EOPNOTSUPP, text))?;
    if let Some(validate) = kind.and_then(|kind| kind.validate) {
        validate(&attrs)?;
    }
    if let Some(device) = device {
        if ctl.has(nlm::F_EXCL) {
            return Err(Error::new(errno::EEXIST));
        }
        if ctl.has(nlm::F_REPLACE) {
            return Err(Error::new(errno::EOPNOTSUPP));
        }
        if let Some(data) = linkinfo.data {
            if linkinfo.kind != Some(device.link.kind()) {
                return Err(Error::new(errno::EOPNOTSUPP));
            }
            device.link.change(ctl, &device, Some(data))?;
            notify(
                ctl.stack,
                ctl.guard,
                &ctl.ns.clone(),
                &device,
                rtm::NEWLINK,
                0,
            );
        }
        if let Some(data) = linkinfo.slave_data {
            let master = device.master(ctl.guard).cloned();
            let ports = master.as_ref().and_then(|master| master.link.master());
            let ports = ports.ok_or_else(|| Error::new(errno::EOPNOTSUPP))?;
            ports.change_port(ctl, &device, data)?;
            if device.is_up() {
                let ns = ctl.ns.clone();
                notify(ctl.stack, ctl.guard, &ns, &device, rtm::NEWLINK, 0);
            }
        }
        return set::set(ctl, &device, &info, &attrs);
    }
    if !ctl.has(nlm::F_CREATE) {
        let Some(group) = attrs.u32(ifla::GROUP)?.filter(|_| info.index == 0) else {
            return Err(no_device());
        };
        for device in ctl
            .ns
            .all_devices()
            .iter()
            .filter(|device| device.group() == group)
        {
            set::set(ctl, device, &info, &attrs)?;
        }
        return Ok(());
    }
    if attrs.has(ifla::MAP) || attrs.has(ifla::PROTINFO) {
        return Err(Error::new(errno::EOPNOTSUPP));
    }
    let (Some(kind), Some(create)) = (kind, create) else {
        return Err(Error::msg(errno::EOPNOTSUPP, "Unknown device type"));
    };
    let target = parse::target_namespace(ctl, &attrs)?.unwrap_or_else(|| ctl.ns.clone());
    let link_ns = parse::link_namespace(ctl, &attrs)?;
    // Linux makes the device in the namespace of its link, with an index of that namespace, and moves it.
    let made_at = match &link_ns {
        Some(ns) if !Arc::ptr_eq(ns, &target) => ns.links().new_index(),
        _ => 0,
    };
    let mut request = parse::new_link(
        &info,
        &attrs,
        linkinfo.data,
        target,
        link_ns.unwrap_or_else(|| ctl.ns.clone()),
        kind.pattern,
    )?;
    if request.ifindex == 0 && !request.ns.links().by_index.contains_key(&made_at) {
        request.ifindex = made_at;
    }
    let device = create(ctl, copy_of(&request))?;
    // Linux sets the limits before it registers the device, and announces the device with them.
    let done = set::offload(&device, &attrs, true).and_then(|()| {
        configure(ctl, &device, &request)?;
        set::set_master(ctl, &device, &attrs)
    });
    if done.is_err() {
        crate::link::unregister(ctl.stack, &[device]);
    }
    done
}

/// Returns a copy of the request for the kind to consume.
fn copy_of<'a>(new: &NewLink<'a>) -> NewLink<'a> {
    NewLink {
        ns: new.ns.clone(),
        name: new.name.clone(),
        link_ns: new.link_ns.clone(),
        ..*new
    }
}

/// Changes a device (`rtnl_setlink`).
fn set(ctl: &mut Ctl<'_>) -> Result<(), Error> {
    let message = ctl.message;
    let (info, attrs) = message.parse::<IfInfoMsg>(&parse::POLICY, Strictness::Liberal)?;
    if info.family == af::BRIDGE {
        return bridge::change(ctl, &info, &attrs, false);
    }
    parse::one_namespace(&attrs)?;
    if !names_one(&info, &attrs) {
        return Err(Error::new(errno::EINVAL));
    }
    let device = named(ctl, &info, &attrs)?.ok_or_else(no_device)?;
    set::set(ctl, &device, &info, &attrs)
}

/// Deletes devices (`rtnl_dellink`).
fn delete(ctl: &mut Ctl<'_>) -> Result<(), Error> {
    let message = ctl.message;
    let (info, attrs) = message.parse::<IfInfoMsg>(&parse::POLICY, Strictness::Liberal)?;
    if info.family == af::BRIDGE {
        return bridge::change(ctl, &info, &attrs, true);
    }
    let devices = if names_one(&info, &attrs) {
        vec![named(ctl, &info, &attrs)?.ok_or_else(no_device)?]
    } else if let Some(group) = attrs.u32(ifla::GROUP)? {
        if group == 0 {
            return Err(Error::new(errno::EPERM));
        }
        let devices: Vec<_> = ctl
            .ns
            .all_devices()
            .into_iter()
            .filter(|device| device.group() == group)
            .collect();
        if devices.is_empty() {
            return Err(no_device());
        }
        devices
    } else {
        return Err(Error::new(errno::EINVAL));
    };
    if devices.iter().any(|device| device.link.kind().is_empty()) {
        return Err(Error::new(errno::EOPNOTSUPP));
    }
    let mut devices = devices;
    devices.retain(|device| device.link.may_be_deleted());
    crate::link::unregister(ctl.stack, &devices);
    Ok(())
}

/// Returns a device (`rtnl_getlink`).
fn get(ctl: &mut Ctl<'_>) -> Result<(), Error> {
    let message = ctl.message;
    let strictness = if ctl.strict {
        Strictness::DeprecatedStrict
    } else {
        Strictness::Liberal
    };
    let (info, attrs) = message.parse::<IfInfoMsg>(&parse::POLICY, strictness)?;
    if ctl.strict && (info.pad != 0 || info.ty != 0 || info.flags != 0 || info.change != 0) {
        return Err(Error::msg(
            errno::EINVAL,
            "Invalid values in header for get link request",
        ));
    }
    if !names_one(&info, &attrs) {
        return Err(Error::new(errno::EINVAL));
    }
    if attrs.has(ifla::TARGET_NETNSID) {
        return Err(Error::unsupported(
            "Links of another namespace are only served to sockets in it",
        ));
    }
    let device = named(ctl, &info, &attrs)?.ok_or_else(no_device)?;
    let (stack, guard, ns) = (ctl.stack, ctl.guard, ctl.ns.clone());
    ctl.reply(rtm::NEWLINK, 0, |out| {
        fill(stack, guard, &ns, &device, 0, out)
    })
}

/// Dumps devices (`rtnl_dump_ifinfo`).
fn dump(ctl: &mut Ctl<'_>) -> Result<Box<dyn Dump>, Error> {
    let message = ctl.message;
    if message.family() == Some(af::IPMR) {
        return crate::rtnl::route::multicast::dump_tables(ctl);
    }
    if message.family() == Some(af::BRIDGE) {
        return bridge::dump(ctl);
    }
    let mut filtered = false;
    let mut devices = ctl.ns.all_devices();
    if message.family() == Some(af::INET6) {
        return Ok(Collected::boxed(
            devices,
            false,
            |ctl, device: &Arc<Device>, out| {
                !device.is_registered()
                    || !device.has_ipv6()
                    || ctl.message(out, rtm::NEWLINK, |out| {
                        fill::fill_ipv6(ctl.stack, device, out)
                    })
            },
        ));
    }
    // Old clients send a bare rtgenmsg.
    if ctl.strict || message.payload().len() >= <IfInfoMsg as weir_netlink::Fixed>::LEN {
        let strictness = if ctl.strict {
            Strictness::DeprecatedStrict
        } else {
            Strictness::Liberal
        };
        if message.fixed::<IfInfoMsg>().is_err() {
            return Err(Error::msg(errno::EINVAL, "Invalid header for link dump"));
        }
        let (info, attrs) = message.parse::<IfInfoMsg>(&parse::POLICY, strictness)?;
        if ctl.strict {
            if info.pad != 0 || info.ty != 0 || info.flags != 0 || info.change != 0 {
                return Err(Error::msg(
                    errno::EINVAL,
                    "Invalid values in header for link dump request",
                ));
            }
            if info.index != 0 {
                return Err(Error::msg(
                    errno::EINVAL,
                    "Filter by device index not supported for link dumps",
                ));
            }
        }
        for ty in attrs.types() {
            match ty {
                ifla::TARGET_NETNSID => {
                    return Err(Error::unsupported(
                        "Links of another namespace are only served to sockets in it",
                    ));
                }
                ifla::EXT_MASK => {}
                // `u32::MAX` asks for those without a master (`link_master_filtered`).
                ifla::MASTER => {
                    let wanted = attrs.u32(ifla::MASTER)?.unwrap_or(0);
                    if wanted != 0 {
                        let guard = ctl.guard;
                        let master = |device: &Arc<Device>| match device.master(guard) {
                            Some(master) => master.ifindex(),
                            None => u32::MAX,
                        };
                        devices.retain(|device| master(device) == wanted);
                        filtered = true;
                    }
                }
                ifla::LINKINFO => {
                    let info = parse::LinkInfo::parse(&attrs)?;
                    if let Some(kind) = info.kind {
                        devices.retain(|device| device.link.kind() == kind);
                        filtered = true;
                    }
                }
                _ if ctl.strict => {
                    return Err(Error::msg(
                        errno::EINVAL,
                        "Unsupported attribute in link dump request",
                    ));
                }
                _ => {}
            }
        }
    }
    Ok(Collected::boxed(
        devices,
        filtered,
        |ctl, device: &Arc<Device>, out| {
            !device.is_registered()
                || ctl.message(out, rtm::NEWLINK, |out| {
                    fill(ctl.stack, ctl.guard, ctl.ns, device, 0, out)
                })
        },
    ))
}

/// Adds or removes alternative names (`rtnl_linkprop`).
fn properties(ctl: &mut Ctl<'_>, add: bool) -> Result<(), Error> {
    let message = ctl.message;
    let (info, attrs) = message.parse::<IfInfoMsg>(&parse::POLICY, Strictness::Liberal)?;
    if !names_one(&info, &attrs) {
        return Err(Error::new(errno::EINVAL));
    }
    let device = named(ctl, &info, &attrs)?.ok_or_else(no_device)?;
    let Some(list) = attrs.get(ifla::PROP_LIST) else {
        return Ok(());
    };
    let mut changed = false;
    let result = list.attrs().try_for_each(|attr| {
        if attr.ty != ifla::ALT_IFNAME {
            return Err(Error::new(errno::EOPNOTSUPP));
        }
        set::alternative_name(ctl, &device, attr.str()?, add)?;
        changed = true;
        Ok(())
    });
    // `netdev_state_change`
    if result.is_ok() && changed && device.flags() & ifla::iff::UP != 0 {
        notify(
            ctl.stack,
            ctl.guard,
            &ctl.ns.clone(),
            &device,
            rtm::NEWLINK,
            0,
        );
    }
    result
}
