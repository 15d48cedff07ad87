// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The groups of bridges: RTM_NEWMDB, RTM_DELMDB, RTM_GETMDB (`br_mdb.c`).

use weir_link::bridge::multicast;
use weir_netlink::{Error, Writer, af, errno, rtm};

use crate::rtnl::{Collected, Ctl, Dump, Handler};

/// The handled request types.
pub const HANDLERS: &[Handler] = &[
    Handler {
        ty: rtm::NEWMDB,
        doit: Some(|ctl| change(ctl, false)),
        dumpit: None,
    },
    Handler {
        ty: rtm::DELMDB,
        doit: Some(|ctl| change(ctl, true)),
        dumpit: None,
    },
    Handler {
        ty: rtm::GETMDB,
        doit: None,
        dumpit: Some(dump),
    },
];

fn check_family(ctl: &Ctl<'_>) -> Result<(), Error> {
    match ctl.message.family() {
        Some(af::BRIDGE) => Ok(()),
        _ => Err(Error::new(errno::EOPNOTSUPP)),
    }
}

fn change(ctl: &mut Ctl<'_>, delete: bool) -> Result<(), Error> {
    check_family(ctl)?;
    multicast::change(ctl, delete)
}

fn dump(ctl: &mut Ctl<'_>) -> Result<Box<dyn Dump>, Error> {
    check_family(ctl)?;
    if ctl.strict {
        multicast::check_dump(&ctl.message)?;
    }
    let devices = ctl.ns.all_devices();
    let found = devices
        .iter()
        .filter_map(|device| multicast::messages(ctl.stack, ctl.guard, device));
    let messages: Vec<Vec<u8>> = found.flatten().collect();
    Ok(Collected::boxed(
        messages,
        false,
        |ctl, message: &Vec<u8>, out: &mut Writer| {
            ctl.message(out, rtm::GETMDB, |out| out.raw(message))
        },
    ))
}
