// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Forwarding tables: RTM_NEWNEIGH, RTM_DELNEIGH and RTM_GETNEIGH of family AF_BRIDGE
//! (`rtnl_fdb_add`, `rtnl_fdb_del`, `rtnl_fdb_get`, `rtnl_fdb_dump` of net/core/rtnetlink.c).
//!
//! A kind of link with a table of its own gives an [`Fdb`]. Not served: bridges, and the addresses
//! other devices take (`ndo_dflt_fdb_add`), neither added nor shown.

use std::sync::Arc;

use weir_netlink::nda::{self, ntf};
use weir_netlink::{
    Error, NdMsg, Policy, Rule, Strictness, Table, Writer, af, errno, ifla, policy, rtm,
};
use weir_sync::rcu::Guard;

use crate::device::{Device, Mac};
use crate::rtnl::{Collected, Ctl, Dump};
use crate::stack::Stack;

/// Attributes are read without a policy, each by its reader.
static POLICY: Policy = policy! { max nda::MAX; nda::UNSPEC => Rule::unspec(0) };

/// The forwarding table of a device.
pub trait Fdb {
    /// Adds an entry (`ndo_fdb_add`).
    fn add(
        &self,
        ctl: &mut Ctl<'_>,
        device: &Arc<Device>,
        message: &NdMsg,
        attrs: &Table<'_>,
        mac: Mac,
    ) -> Result<(), Error>;

    /// Deletes an entry (`ndo_fdb_del`).
    fn delete(
        &self,
        ctl: &mut Ctl<'_>,
        device: &Arc<Device>,
        attrs: &Table<'_>,
        mac: Mac,
    ) -> Result<(), Error>;

    /// Answers with an entry (`ndo_fdb_get`).
    fn get(
        &self,
        ctl: &mut Ctl<'_>,
        device: &Arc<Device>,
        attrs: &Table<'_>,
        mac: Mac,
    ) -> Result<(), Error>;

    /// All entries, each a message behind its header (`ndo_fdb_dump`).
    fn messages(&self, stack: &Stack, guard: &Guard, device: &Arc<Device>) -> Vec<Vec<u8>>;
}

fn text(message: &'static str) -> Error {
    Error::msg(errno::EINVAL, message)
}

/// What requests that add and delete have in common.
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

/// `fdb_vid_parse`
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

fn own<'a>(device: &'a Device, message: &NdMsg) -> Result<&'a dyn Fdb, Error> {
    if message.flags & ntf::SELF == 0 {
        return Err(Error::new(errno::EOPNOTSUPP));
    }
    device.link.fdb().ok_or(Error::unsupported(
        "Weir keeps no forwarding table for this kind of device",
    ))
}

/// Tells listeners that a request was served (`rtnl_fdb_notify`).
fn notify(ctl: &Ctl<'_>, device: &Device, ty: u16, mac: Mac, vid: u16, state: u16) {
    crate::rtnl::announce(ctl.ns, rtm::grp::NEIGH, ty, |out| {
        out.fixed(&NdMsg {
            family: af::BRIDGE,
            ifindex: device.ifindex() as i32,
            state,
            flags: ntf::SELF,
            ..NdMsg::default()
        });
        out.put(nda::LLADDR, &mac);
        if vid != 0 {
            out.put_u16(nda::VLAN, vid);
        }
    });
}

/// `rtnl_fdb_add`
pub fn new(ctl: &mut Ctl<'_>) -> Result<(), Error> {
    let (message, attrs, device, mac, vid) =
        named(ctl, "FDB add only supported for Ethernet devices")?;
    own(&device, &message)?.add(ctl, &device, &message, &attrs, mac)?;
    notify(ctl, &device, rtm::NEWNEIGH, mac, vid, message.state);
    Ok(())
}

/// `rtnl_fdb_del`
pub fn delete(ctl: &mut Ctl<'_>) -> Result<(), Error> {
    let (message, attrs, device, mac, vid) =
        named(ctl, "FDB delete only supported for Ethernet devices")?;
    own(&device, &message)?.delete(ctl, &device, &attrs, mac)?;
    notify(ctl, &device, rtm::DELNEIGH, mac, vid, message.state);
    Ok(())
}

/// `rtnl_fdb_get`
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
    let index = u32::try_from(message.ifindex).unwrap_or(0);
    if index == 0 {
        return Err(Error::msg(errno::ENODEV, "No device specified"));
    }
    let device = ctl.ns.device(index, ctl.guard).cloned();
    let device = device.ok_or(Error::msg(errno::ENODEV, "Unknown device ifindex"))?;
    if message.flags == 0 || message.flags & ntf::MASTER != 0 {
        return Err(text("Device is not a bridge port"));
    }
    let fdb = device.link.fdb().ok_or(Error::msg(
        errno::EOPNOTSUPP,
        "Fdb get operation not supported by device",
    ))?;
    fdb.get(ctl, &device, &attrs, mac)
}

/// `rtnl_fdb_dump`
pub fn dump(ctl: &mut Ctl<'_>) -> Result<Box<dyn Dump>, Error> {
    let request = ctl.message;
    let payload = request.payload();
    // Old clients send an `ifinfomsg`: the index is at the same place.
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
    if master != 0 {
        // There are no bridges: nothing is a port of that device.
        if ctl.ns.device(master, ctl.guard).is_none() {
            return Err(Error::new(errno::ENODEV));
        }
    } else {
        for device in ctl.ns.all_devices() {
            if (only == 0 || only == device.ifindex())
                && let Some(fdb) = device.link.fdb()
            {
                messages.extend(fdb.messages(ctl.stack, ctl.guard, &device));
            }
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
