// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The features of a device (net/ethtool/features.c).

use std::sync::Arc;

use weir_netlink::{Error, Policy, Rule, Table, Writer, errno, ethtool as attr, policy};

use super::{HEADER, ID, bitset, device, put_header, reply, unsupported};
use crate::device::Device;
use crate::features::{NAMES, bit};
use crate::netdev::update_features;
use crate::rtnl::{Ctl, DumpCtl};
use attr::features as ty;

/// `ethnl_features_set_policy`
pub static SET: Policy = policy! { max ty::WANTED;
    attr::HEADER => Rule::nested(&HEADER),
    ty::WANTED => Rule::nested_any(),
};

/// Writes the features of a device as the message `cmd` (`features_fill_reply`).
pub fn fill(w: &mut Writer, cmd: u8, device: &Device, compact: bool) {
    let features = &device.features;
    put_header(w, cmd, Some(device), attr::HEADER);
    let mut put = |ty, value, mask| bitset::put(w, ty, value, mask, &NAMES, compact);
    put(ty::HW, features.changeable(), Some(u64::MAX));
    put(ty::WANTED, features.wanted(), None);
    put(ty::ACTIVE, features.active(), None);
    put(ty::NOCHANGE, bit::NEVER_CHANGE, None);
}

/// Does the same for a reply.
pub fn fill_dump(_: &DumpCtl<'_>, w: &mut Writer, device: &Arc<Device>, compact: bool) -> bool {
    fill(w, attr::MSG_FEATURES_GET_REPLY, device, compact);
    true
}

/// Answers `ETHTOOL_MSG_FEATURES_GET`.
pub fn get(ctl: &mut Ctl<'_>, tb: &Table<'_>) -> Result<(), Error> {
    reply(ctl, tb, fill_dump, unsupported())
}

/// Changes the wanted features and answers with the difference between the wish and the result
/// (`ethnl_set_features`).
pub fn set(ctl: &mut Ctl<'_>, tb: &Table<'_>) -> Result<(), Error> {
    let wanted = tb.get(ty::WANTED).ok_or(Error::new(errno::EINVAL))?;
    let (device, head) = device(ctl, tb)?;
    let (value, mask) = bitset::parse(&wanted, &NAMES)?;
    if mask & bit::NEVER_CHANGE != 0 {
        let text = "attempt to change non-ethtool features";
        return Err(Error::msg(errno::EINVAL, text));
    }
    let features = &device.features;
    let before = (features.wanted(), features.active());
    let wish = (before.0 & !mask) | (value & mask);
    features.want(value, mask);
    update_features(ctl.stack, ctl.guard, &device);
    let active = features.active();
    if head.flags & attr::flag::OMIT_REPLY as u32 != 0 {
        return Ok(());
    }
    let denied = (wish ^ active) & mask;
    let changed = before.1 ^ active;
    ctl.reply(ID, 0, |w| {
        put_header(w, attr::MSG_FEATURES_SET_REPLY, Some(&device), attr::HEADER);
        let compact = head.compact();
        let mut put =
            |ty, value, mask| bitset::put(w, ty, value & mask, Some(mask), &NAMES, compact);
        put(ty::WANTED, wish, denied);
        put(ty::ACTIVE, active, changed);
    })
}
