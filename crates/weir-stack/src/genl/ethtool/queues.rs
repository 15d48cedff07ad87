// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The numbers of queues of a device (net/ethtool/channels.c).

use std::sync::Arc;

use weir_netlink::{Error, Policy, Rule, Table, Writer, errno, ethtool as attr, policy};

use super::{HEADER, device, put_header, reply, tell_of, unsupported};
use crate::device::Device;
use crate::rtnl::{Ctl, DumpCtl};
use attr::channels as ty;

/// `ethnl_channels_set_policy`
pub static SET: Policy = policy! { max ty::COMBINED_COUNT;
    attr::HEADER => Rule::nested(&HEADER),
    ty::RX_COUNT => Rule::u32(),
    ty::TX_COUNT => Rule::u32(),
    ty::OTHER_COUNT => Rule::u32(),
    ty::COMBINED_COUNT => Rule::u32(),
};

fn write(w: &mut Writer, cmd: u8, device: &Device) {
    put_header(w, cmd, Some(device), attr::HEADER);
    let (tx, rx) = device.used_queues();
    w.put_u32(ty::RX_MAX, device.rx_queues());
    w.put_u32(ty::RX_COUNT, rx);
    w.put_u32(ty::TX_MAX, device.tx_queues());
    w.put_u32(ty::TX_COUNT, tx);
}

/// Writes the numbers of queues (`channels_fill_reply`).
pub fn fill(_: &DumpCtl<'_>, w: &mut Writer, device: &Arc<Device>, _compact: bool) -> bool {
    write(w, attr::MSG_CHANNELS_GET_REPLY, device);
    device.link.driver().channels
}

/// Answers `ETHTOOL_MSG_CHANNELS_GET`.
pub fn get(ctl: &mut Ctl<'_>, tb: &Table<'_>) -> Result<(), Error> {
    reply(ctl, tb, fill, unsupported())
}

/// Changes how many queues are in use (`ethnl_set_channels`).
pub fn set(ctl: &mut Ctl<'_>, tb: &Table<'_>) -> Result<(), Error> {
    let (device, _) = device(ctl, tb)?;
    if !device.link.driver().channels {
        return Err(unsupported());
    }
    let (tx, rx) = device.used_queues();
    let wanted = |ty, now| Ok::<_, Error>(tb.u32(ty)?.unwrap_or(now));
    let new = (wanted(ty::TX_COUNT, tx)?, wanted(ty::RX_COUNT, rx)?);
    let others = [wanted(ty::COMBINED_COUNT, 0)?, wanted(ty::OTHER_COUNT, 0)?];
    if new == (tx, rx) && others == [0, 0] {
        return Ok(());
    }
    let at = |error: Error, ty| match tb.get(ty) {
        Some(attr) => error.at(&attr),
        None => error,
    };
    let limits = [
        (ty::RX_COUNT, new.1, device.rx_queues()),
        (ty::TX_COUNT, new.0, device.tx_queues()),
        (ty::COMBINED_COUNT, others[0], 0),
        (ty::OTHER_COUNT, others[1], 0),
    ];
    if let Some((ty, ..)) = limits.iter().find(|(_, count, most)| count > most) {
        let text = "requested channel count exceeds maximum";
        return Err(at(Error::msg(errno::EINVAL, text), *ty));
    }
    for (ty, count) in [(ty::RX_COUNT, new.1), (ty::TX_COUNT, new.0)] {
        if count == 0 {
            let text =
                "requested channel counts would result in no RX or TX channel being configured";
            return Err(at(Error::msg(errno::EINVAL, text), ty));
        }
    }
    device.use_queues(new);
    tell_of(&ctl.site(&device), attr::MSG_CHANNELS_NTF, |w| {
        write(w, attr::MSG_CHANNELS_NTF, &device);
    });
    Ok(())
}

/// Checks and applies the numbers of an old request as (transmit, receive) (`ethtool_set_channels`).
pub fn apply(device: &Device, (tx, rx): (u32, u32)) -> Result<(), Error> {
    let fits = tx <= device.tx_queues() && rx <= device.rx_queues() && tx > 0 && rx > 0;
    if !fits {
        return Err(Error::new(errno::EINVAL));
    }
    device.use_queues((tx, rx));
    Ok(())
}
