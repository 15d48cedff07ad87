// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Forwarding tables: RTM_NEWNEIGH, RTM_DELNEIGH and RTM_GETNEIGH of family AF_BRIDGE
//! (`rtnl_fdb_add`, `rtnl_fdb_del`, `rtnl_fdb_get`, `rtnl_fdb_dump` of net/core/rtnetlink.c).
//!
//! A link kind with its own table provides an [`Fdb`](crate::kind::Fdb). For other kinds, the table is the device's
//! list of additional addresses (`ndo_dflt_fdb_add`). These are only reported, since the devices
//! accept every frame. They come from requests, from groups that IP joins, and from the VLAN
//! devices on top that are up. Only bridges serve
//! bulk deletes.

use std::sync::Arc;

use weir_netlink::nda::{self, ntf, nud};
use weir_netlink::{
    Error, Message, NdMsg, Policy, Rule, Strictness, Table, Writer, af, errno, ifla, nlm, policy,
    rtm,
};

use crate::device::{Device, Mac};
use crate::rtnl::{Collected, Ctl, Dump};
use crate::taken::{self, Reference};

/// The policy checks nothing: each attribute is validated where it is read.
static POLICY: Policy = policy! { max nda::MAX; nda::UNSPEC => Rule::unspec(0) };

fn text(message: &'static str) -> Error {
    Error::msg(errno::EINVAL, message)
}

/// Parses the common part of add and delete requests.
fn named<'a>(
    ctl: &Ctl<'a>,
    not_ethernet: &'static str,
) -> Result<(NdMsg, Table<'a>, Arc<Device>, Mac, u16), Error> {
    let request = ctl.message;
    let (message, attrs) = request.parse::<NdMsg>(&POLICY, Strictness::Liberal)?;
    if message.ifindex == 0 {
        return Err(text("invalid ifindex"));
    }
    let device = u32::try_from(message.ifindex)
        .ok()
        .and_then(|index| ctl.ns.device(index, ctl.guard))
        .ok_or(Error::msg(errno::ENODEV, "unknown ifindex"))?;
    let mac = attrs
        .get(nda::LLADDR)
        .and_then(|attr| attr.payload.try_into().ok())
        .ok_or(text("invalid address"))?;
    if device.link.hardware_type() != ifla::arphrd::ETHER {
        return Err(text(not_ethernet));
    }
    let vid = vid(&attrs)?;
    Ok((message, attrs, device.clone(), mac, vid))
}

/// Parses the VLAN id (`fdb_vid_parse`).
fn vid(attrs: &Table<'_>) -> Result<u16, Error> {
    let Some(attr) = attrs.get(nda::VLAN) else {
        return Ok(0);
    };
    if attr.len() != 2 {
        return Err(text("invalid vlan attribute size"));
    }
    match attr.u16()? {
        vid @ 1..4095 => Ok(vid),
        _ => Err(text("invalid vlan id")),
    }
}

/// Returns the bridge that a request for a port's entry addresses.
fn bridge_of(ctl: &Ctl<'_>, message: &NdMsg, device: &Device) -> Option<Arc<Device>> {
    let asked = message.flags == 0 || message.flags & ntf::MASTER != 0;
    device.master(ctl.guard).filter(|_| asked).cloned()
}

/// Checks that the request addresses the device itself.
fn check_self(message: &NdMsg) -> Result<(), Error> {
    if message.flags & ntf::SELF == 0 {
        return Err(Error::new(errno::EOPNOTSUPP));
    }
    Ok(())
}

/// Checks that the device's filter takes the address from users.
fn check_filter(device: &Device, mac: Mac) -> Result<(), Error> {
    if mac[0] & 1 == 0 && !device.link.filters_unicast() {
        return Err(Error::new(errno::EOPNOTSUPP));
    }
    Ok(())
}

/// Adds an address to the device's list (`ndo_dflt_fdb_add`).
fn take(
    ctl: &Ctl<'_>,
    device: &Arc<Device>,
    message: &NdMsg,
    mac: Mac,
    vid: u16,
) -> Result<(), Error> {
    check_filter(device, mac)?;
    let local = message.state == 0 || message.state & nud::PERMANENT != 0;
    if !local || vid != 0 {
        return Err(Error::new(errno::EINVAL));
    }
    let added = device.taken().list(mac).add(mac, Reference::Exclusive);
    if added.is_err() && !ctl.has(nlm::F_EXCL) {
        return Ok(());
    }
    added?;
    taken::changed(ctl.stack, ctl.guard, device);
    Ok(())
}

/// Removes an address from the device's list (`ndo_dflt_fdb_del`).
fn refuse(ctl: &Ctl<'_>, device: &Arc<Device>, message: &NdMsg, mac: Mac) -> Result<(), Error> {
    check_filter(device, mac)?;
    if message.state & nud::PERMANENT == 0 {
        return Err(Error::new(errno::EINVAL));
    }
    device.taken().list(mac).remove(mac, Reference::Plain)?;
    taken::changed(ctl.stack, ctl.guard, device);
    Ok(())
}

/// Returns the entries of a device without its own table (`ndo_dflt_fdb_dump`).
fn shown(device: &Device) -> Vec<Vec<u8>> {
    if device.link.hardware_type() != ifla::arphrd::ETHER {
        return Vec::new();
    }
    let message = |mac: &Mac| {
        let mut out = Writer::new();
        entry(&mut out, device, mac, 0, nud::PERMANENT);
        out.bytes().to_vec()
    };
    let taken = device.taken();
    taken
        .unicast()
        .chain(taken.multicast.entries())
        .map(|entry| message(&entry.mac))
        .collect()
}

/// Writes an entry (`nlmsg_populate_fdb_fill`).
fn entry(out: &mut Writer, device: &Device, mac: &Mac, vid: u16, state: u16) {
    out.fixed(&NdMsg {
        family: af::BRIDGE,
        ifindex: device.ifindex() as i32,
        state,
        flags: ntf::SELF,
        ..NdMsg::default()
    });
    out.put(nda::LLADDR, mac);
    if vid != 0 {
        out.put_u16(nda::VLAN, vid);
    }
}

/// Notifies the listeners of a change (`rtnl_fdb_notify`).
fn notify(ctl: &Ctl<'_>, device: &Device, ty: u16, mac: Mac, vid: u16, state: u16) {
    crate::rtnl::announce(ctl.ns, rtm::grp::NEIGH, ty, |out| {
        entry(out, device, &mac, vid, state);
    });
}

/// Adds an entry (`rtnl_fdb_add`).
pub fn new(ctl: &mut Ctl<'_>) -> Result<(), Error> {
    let (message, attrs, device, mac, vid) =
        named(ctl, "FDB add only supported for Ethernet devices")?;
    if let Some(bridge) = bridge_of(ctl, &message, &device)
        && let Some(fdb) = bridge.link.fdb()
    {
        fdb.add(ctl, &device, &message, &attrs, mac)?;
        if message.flags & ntf::SELF == 0 {
            return Ok(());
        }
    }
    check_self(&message)?;
    match device.link.fdb() {
        Some(fdb) => fdb.add(ctl, &device, &message, &attrs, mac)?,
        None => take(ctl, &device, &message, mac, vid)?,
    }
    notify(ctl, &device, rtm::NEWNEIGH, mac, vid, message.state);
    Ok(())
}

/// Returns whether a request may have the bulk flag.
pub fn has_bulk(request: &Message<'_>) -> bool {
    request.header.ty == rtm::DELNEIGH && request.family() == Some(af::BRIDGE)
}

/// `fdb_del_bulk_policy`
static BULK_POLICY: Policy = policy! {
    max nda::MAX;
    nda::VLAN => Rule::u16(),
    nda::IFINDEX => Rule::u32(),
    nda::NDM_STATE_MASK => Rule::u16(),
    nda::NDM_FLAGS_MASK => Rule::u8(),
};

/// Handles a bulk delete.
fn delete_many(ctl: &mut Ctl<'_>) -> Result<(), Error> {
    let request = ctl.message;
    let (message, attrs) = request.parse::<NdMsg>(&BULK_POLICY, Strictness::Strict)?;
    if message.ifindex == 0 {
        return Err(text("invalid ifindex"));
    }
    let index = u32::try_from(message.ifindex).ok();
    let device = index.and_then(|index| ctl.ns.device(index, ctl.guard));
    let device = device.ok_or(Error::msg(errno::ENODEV, "unknown ifindex"))?;
    if device.link.hardware_type() != ifla::arphrd::ETHER {
        return Err(text("FDB delete only supported for Ethernet devices"));
    }
    vid(&attrs)?;
    let device = device.clone();
    let mut served = false;
    let above = bridge_of(ctl, &message, &device);
    let own = (message.flags & ntf::SELF != 0).then(|| device.clone());
    for target in above.into_iter().chain(own) {
        let fdb = target.link.fdb();
        let fdb = fdb.ok_or_else(|| Error::new(errno::EOPNOTSUPP))?;
        fdb.delete_many(ctl, &device, &message, &attrs)?;
        served = true;
    }
    match served {
        true => Ok(()),
        false => Err(Error::new(errno::EOPNOTSUPP)),
    }
}

/// Deletes an entry (`rtnl_fdb_del`).
pub fn delete(ctl: &mut Ctl<'_>) -> Result<(), Error> {
    if ctl.has(nlm::F_BULK) {
        return delete_many(ctl);
    }
    let (message, attrs, device, mac, vid) =
        named(ctl, "FDB delete only supported for Ethernet devices")?;
    if let Some(bridge) = bridge_of(ctl, &message, &device)
        && let Some(fdb) = bridge.link.fdb()
    {
        fdb.delete(ctl, &device, &attrs, mac)?;
        if message.flags & ntf::SELF == 0 {
            return Ok(());
        }
    }
    check_self(&message)?;
    match device.link.fdb() {
        Some(fdb) => fdb.delete(ctl, &device, &attrs, mac)?,
        None => refuse(ctl, &device, &message, mac)?,
    }
    notify(ctl, &device, rtm::DELNEIGH, mac, vid, message.state);
    Ok(())
}

/// Returns an entry (`rtnl_fdb_get`).
pub fn get(ctl: &mut Ctl<'_>) -> Result<(), Error> {
    let request = ctl.message;
    let (message, attrs) = request.parse::<NdMsg>(&POLICY, Strictness::Liberal)?;
    if message.state != 0 || message.ty != 0 {
        return Err(text("Invalid values in header for fdb get request"));
    }
    if message.flags & !(ntf::MASTER | ntf::SELF) != 0 {
        return Err(text("Invalid flags in header for fdb get request"));
    }
    let mac = match attrs.get(nda::LLADDR) {
        Some(attr) => attr
            .payload
            .try_into()
            .map_err(|_| text("Invalid address in fdb get request"))?,
        None => return Err(text("Missing lookup address for fdb get request")),
    };
    vid(&attrs)?;
    let no_get = Error::msg(
        errno::EOPNOTSUPP,
        "Fdb get operation not supported by device",
    );
    let index = u32::try_from(message.ifindex).unwrap_or(0);
    let master = attrs.u32(nda::MASTER)?.unwrap_or(0);
    if index == 0 && master != 0 {
        let bridge = ctl.ns.device(master, ctl.guard).cloned();
        let bridge = bridge.ok_or(text("Invalid master ifindex"))?;
        let fdb = bridge.link.fdb().ok_or(no_get)?;
        return fdb.get(ctl, &bridge, &attrs, mac);
    }
    if index == 0 {
        return Err(Error::msg(errno::ENODEV, "No device specified"));
    }
    let device = ctl.ns.device(index, ctl.guard).cloned();
    let device = device.ok_or(Error::msg(errno::ENODEV, "Unknown device ifindex"))?;
    if master != 0 {
        return Err(text("Master and device are mutually exclusive"));
    }
    if message.flags == 0 || message.flags & ntf::MASTER != 0 {
        let above = device.master(ctl.guard).cloned();
        let above = above.ok_or(text("Device is not a bridge port"))?;
        let fdb = above.link.fdb().ok_or(no_get)?;
        return fdb.get(ctl, &device, &attrs, mac);
    }
    let fdb = device.link.fdb().ok_or(no_get)?;
    fdb.get(ctl, &device, &attrs, mac)
}

/// Dumps entries (`rtnl_fdb_dump`).
pub fn dump(ctl: &mut Ctl<'_>) -> Result<Box<dyn Dump>, Error> {
    let request = ctl.message;
    let payload = request.payload();
    // Old clients send an `ifinfomsg`; its index is at the same offset.
    let index = payload
        .get(4..8)
        .and_then(|octets| octets.first_chunk())
        .map_or(0, |octets| u32::from_ne_bytes(*octets));
    let (mut only, mut master) = (0, 0);
    if ctl.strict {
        let (message, attrs) = request
            .parse::<NdMsg>(&POLICY, Strictness::Liberal)
            .map_err(|error| error.or_msg("Invalid header for fdb dump request"))?;
        if message.state != 0 || message.flags != 0 || message.ty != 0 {
            return Err(text("Invalid values in header for fdb dump request"));
        }
        only = index;
        for ty in attrs.types() {
            match ty {
                nda::IFINDEX => only = attrs.u32(ty)?.unwrap_or(0),
                nda::MASTER => master = attrs.u32(ty)?.unwrap_or(0),
                _ => return Err(text("Unsupported attribute in fdb dump request")),
            }
        }
    } else if !matches!(payload.len(), 12 | 20) {
        only = index;
    }
    let mut messages = Vec::new();
    let bridge = match master {
        0 => None,
        master => Some(
            ctl.ns
                .device(master, ctl.guard)
                .ok_or(Error::new(errno::ENODEV))?,
        ),
    };
    for device in ctl.ns.all_devices() {
        let above = device.master(ctl.guard);
        let inside = bridge.is_none_or(|bridge| {
            Arc::ptr_eq(bridge, &device) || above.is_some_and(|above| Arc::ptr_eq(above, bridge))
        });
        if !inside || only != 0 && only != device.ifindex() {
            continue;
        }
        if let Some(fdb) = above.and_then(|above| above.link.fdb()) {
            messages.extend(fdb.messages(ctl.stack, ctl.guard, &device));
        }
        // A bridge has a list of addresses beside its table.
        if device.link.fdb().is_none() || device.link.master().is_some() {
            messages.extend(shown(&device));
        }
        if let Some(fdb) = device.link.fdb() {
            messages.extend(fdb.messages(ctl.stack, ctl.guard, &device));
        }
    }
    Ok(Collected::boxed(
        messages,
        false,
        |ctl, message: &Vec<u8>, out: &mut Writer| {
            ctl.message(out, rtm::NEWNEIGH, |out| out.raw(message))
        },
    ))
}
