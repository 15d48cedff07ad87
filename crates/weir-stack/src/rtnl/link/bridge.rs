// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Requests of family AF_BRIDGE about links: ports, bridges and their VLANs (`rtnl_bridge_setlink`,
//! `rtnl_bridge_dellink`, `rtnl_bridge_getlink`).

use std::sync::Arc;

use weir_netlink::ifla::bridge;
use weir_netlink::rtm::ext_filter;
use weir_netlink::{Attr, Error, IfInfoMsg, Strictness, Table, errno, ifla, rtm};

use super::parse;
use crate::device::Device;
use crate::rtnl::{Collected, Ctl, Dump};

/// `BRIDGE_FLAGS_MASTER`: the request is for the bridge above the device.
const MASTER: u16 = 1;
/// `BRIDGE_FLAGS_SELF`: the request is for the device itself.
const SELF: u16 = 2;

fn text(message: &'static str) -> Error {
    Error::msg(errno::EINVAL, message)
}

/// Returns `IFLA_BRIDGE_FLAGS`, or 0.
fn flags_of(spec: Option<Attr<'_>>) -> Result<u16, Error> {
    let mut flags = None;
    for attr in spec.into_iter().flat_map(|spec| spec.attrs()) {
        if matches!(attr.ty, bridge::FLAGS | bridge::MODE) {
            let value = attr
                .payload
                .first_chunk()
                .map(|octets| u16::from_ne_bytes(*octets));
            let value = value.ok_or_else(|| Error::new(errno::EINVAL))?;
            if attr.ty == bridge::FLAGS && flags.is_none() {
                flags = Some(value);
            }
        }
    }
    Ok(flags.unwrap_or(0))
}

/// Changes a port or a bridge, or takes it out of VLANs.
pub fn change(
    ctl: &mut Ctl<'_>,
    info: &IfInfoMsg,
    attrs: &Table<'_>,
    delete: bool,
) -> Result<(), Error> {
    let device = u32::try_from(info.index)
        .ok()
        .and_then(|index| ctl.ns.device(index, ctl.guard))
        .cloned()
        .ok_or_else(|| Error::msg(errno::ENODEV, "unknown ifindex"))?;
    let (protinfo, spec) = (attrs.get(ifla::PROTINFO), attrs.get(ifla::AF_SPEC));
    let flags = flags_of(spec)?;
    let above = device.master(ctl.guard).cloned();
    let targets = [
        (flags == 0 || flags & MASTER != 0).then_some(above.as_ref()),
        (flags & SELF != 0).then_some(Some(&device)),
    ];
    for target in targets.into_iter().flatten() {
        let bridging = target.and_then(|target| target.link.bridging());
        let bridging = bridging.ok_or_else(|| Error::new(errno::EOPNOTSUPP))?;
        if delete {
            bridging.delete_link(ctl, &device, spec)?;
        } else {
            bridging.set_link(ctl, &device, protinfo, spec)?;
        }
    }
    Ok(())
}

/// Returns `IFLA_EXT_MASK` of a dump (`valid_bridge_getlink_req`).
fn mask_of(ctl: &Ctl<'_>) -> Result<u32, Error> {
    let message = ctl.message;
    if !ctl.strict {
        let parsed = message.parse::<IfInfoMsg>(&parse::POLICY, Strictness::Liberal);
        let Ok((_, attrs)) = parsed else { return Ok(0) };
        return Ok(attrs.u32(ifla::EXT_MASK)?.unwrap_or(0));
    }
    let (info, attrs) = message
        .parse::<IfInfoMsg>(&parse::POLICY, Strictness::DeprecatedStrict)
        .map_err(|error| error.or_msg("Invalid header for bridge link dump"))?;
    if info.pad != 0 || info.ty != 0 || info.flags != 0 || info.change != 0 || info.index != 0 {
        return Err(text(
            "Invalid values in header for bridge link dump request",
        ));
    }
    if attrs.types().any(|ty| ty != ifla::EXT_MASK) {
        return Err(text("Unsupported attribute in bridge link dump request"));
    }
    Ok(attrs.u32(ifla::EXT_MASK)?.unwrap_or(0))
}

/// Dumps ports, and bridges if their VLANs are asked for.
pub fn dump(ctl: &mut Ctl<'_>) -> Result<Box<dyn Dump>, Error> {
    let mask = mask_of(ctl)?;
    let mut items: Vec<(Arc<Device>, Arc<Device>)> = Vec::new();
    for device in ctl.ns.all_devices() {
        let above = device.master(ctl.guard);
        if let Some(above) = above.filter(|above| above.link.bridging().is_some()) {
            items.push((above.clone(), device.clone()));
        }
        let asked = mask & (ext_filter::BRVLAN | ext_filter::BRVLAN_COMPRESSED) != 0;
        if asked && device.link.bridging().is_some() {
            items.push((device.clone(), device.clone()));
        }
    }
    Ok(Collected::boxed(
        items,
        false,
        move |ctl, (bridge, device): &(Arc<Device>, Arc<Device>), out| {
            let Some(bridging) = bridge.link.bridging() else {
                return true;
            };
            ctl.message(out, rtm::NEWLINK, |out| {
                bridging.fill_link(ctl.stack, ctl.guard, device, mask, out);
            })
        },
    ))
}
