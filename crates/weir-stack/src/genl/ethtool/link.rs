// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The link of a device: its settings, modes, state and time stamps (net/ethtool/linkinfo.c, linkmodes.c,
//! linkstate.c, tsinfo.c).

use std::sync::Arc;

use weir_netlink::{Error, Table, Writer, errno, ethtool as attr};

use super::{bitset, names, put_header, reply, unsupported};
use crate::device::Device;
use crate::ethtool::Link;
use crate::rtnl::{Ctl, DumpCtl};
use crate::stack::Stack;

/// `SOF_TIMESTAMPING_TX_SOFTWARE`, `_RX_SOFTWARE`, `_SOFTWARE`.
const TX_SOFTWARE: u32 = 1 << 1;
const RX_SOFTWARE: u32 = 1 << 3;
const SOFTWARE: u32 = 1 << 4;

fn no_settings() -> Error {
    Error::msg(errno::EOPNOTSUPP, "failed to retrieve link settings")
}

/// Writes port and transceiver (`linkinfo_fill_reply`).
pub fn fill_info(_: &DumpCtl<'_>, w: &mut Writer, device: &Arc<Device>, _: bool) -> bool {
    use attr::linkinfo as ty;
    put_header(w, attr::MSG_LINKINFO_GET_REPLY, Some(device), attr::HEADER);
    let Some(settings) = device.link.link_settings() else {
        return false;
    };
    w.put_u8(ty::PORT, settings.port);
    for ty in [ty::PHYADDR, ty::TP_MDIX, ty::TP_MDIX_CTRL, ty::TRANSCEIVER] {
        w.put_u8(ty, 0);
    }
    true
}

/// Answers `ETHTOOL_MSG_LINKINFO_GET`.
pub fn get_info(ctl: &mut Ctl<'_>, tb: &Table<'_>) -> Result<(), Error> {
    reply(ctl, tb, fill_info, no_settings())
}

/// Writes speed and duplex (`linkmodes_fill_reply`).
pub fn fill_modes(_: &DumpCtl<'_>, w: &mut Writer, device: &Arc<Device>, compact: bool) -> bool {
    use attr::linkmodes as ty;
    put_header(w, attr::MSG_LINKMODES_GET_REPLY, Some(device), attr::HEADER);
    let Some(settings) = device.link.link_settings() else {
        return false;
    };
    w.put_u8(ty::AUTONEG, 0);
    bitset::put(w, ty::OURS, 0, Some(0), names::LINK_MODES, compact);
    w.put_u32(ty::SPEED, settings.speed);
    w.put_u8(ty::DUPLEX, settings.duplex);
    w.put_u8(ty::RATE_MATCHING, 0);
    true
}

/// Answers `ETHTOOL_MSG_LINKMODES_GET`.
pub fn get_modes(ctl: &mut Ctl<'_>, tb: &Table<'_>) -> Result<(), Error> {
    reply(ctl, tb, fill_modes, no_settings())
}

/// Returns whether there is a link, if the driver reports it (`__ethtool_get_link`).
pub fn state(stack: &Stack, device: &Device) -> Option<bool> {
    match device.link.driver().link {
        Link::Unknown => None,
        Link::Always => Some(true),
        Link::Carrier => Some(device.is_up() && device.link.carrier(stack, device)),
    }
}

/// Writes whether there is a link (`linkstate_fill_reply`).
pub fn fill_state(ctl: &DumpCtl<'_>, w: &mut Writer, device: &Arc<Device>, _: bool) -> bool {
    put_header(w, attr::MSG_LINKSTATE_GET_REPLY, Some(device), attr::HEADER);
    if let Some(link) = state(ctl.stack, device) {
        w.put_u8(attr::linkstate::LINK, u8::from(link));
    }
    true
}

/// Answers `ETHTOOL_MSG_LINKSTATE_GET`.
pub fn get_state(ctl: &mut Ctl<'_>, tb: &Table<'_>) -> Result<(), Error> {
    reply(ctl, tb, fill_state, unsupported())
}

/// Returns the time stamps that the device can take (`SOF_TIMESTAMPING_*`).
pub fn stamps(device: &Device) -> u32 {
    let sent = if device.link.driver().stamps {
        TX_SOFTWARE
    } else {
        0
    };
    sent | RX_SOFTWARE | SOFTWARE
}

/// Writes the time stamps (`tsinfo_fill_reply`).
pub fn fill_stamps(_: &DumpCtl<'_>, w: &mut Writer, device: &Arc<Device>, compact: bool) -> bool {
    put_header(w, attr::MSG_TSINFO_GET_REPLY, Some(device), attr::HEADER);
    let value = u64::from(stamps(device));
    bitset::put(
        w,
        attr::tsinfo::TIMESTAMPING,
        value,
        None,
        names::TIME_STAMPS,
        compact,
    );
    true
}

/// Answers `ETHTOOL_MSG_TSINFO_GET`.
pub fn get_stamps(ctl: &mut Ctl<'_>, tb: &Table<'_>) -> Result<(), Error> {
    reply(ctl, tb, fill_stamps, unsupported())
}
