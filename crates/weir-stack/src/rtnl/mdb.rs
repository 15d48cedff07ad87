// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The groups of bridges: RTM_NEWMDB, RTM_DELMDB, RTM_GETMDB (`br_mdb.c`).

use weir_link::bridge::multicast;
use weir_netlink::{Error, Writer, rtm};

use crate::rtnl::{Collected, Ctl, Dump, Handler};

/// The handled request types.
pub const HANDLERS: &[Handler] = &[
    Handler {
        ty: rtm::NEWMDB,
        doit: Some(|ctl| multicast::change(ctl, false)),
        dumpit: None,
    },
    Handler {
        ty: rtm::DELMDB,
        doit: Some(|ctl| multicast::change(ctl, true)),
        dumpit: None,
    },
    Handler {
        ty: rtm::GETMDB,
        doit: None,
        dumpit: Some(dump),
    },
];

fn dump(ctl: &mut Ctl<'_>) -> Result<Box<dyn Dump>, Error> {
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
