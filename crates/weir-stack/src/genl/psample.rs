// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `psample`: packets sampled by traffic control's `sample` action, and their groups.
//!
//! Mirrors net/psample/psample.c. The groups and samples are in [`weir_tc::psample`], which sends
//! to the multicast groups. The only request is the dump of groups.

use weir_netlink::{Error, Table, Writer, psample as attr};
use weir_tc::psample::{FAMILY as ID, GROUP_CONFIG, GROUP_PACKETS, Group};

use super::{Command, Family};
use crate::rtnl::{Collected, Ctl, Dump, DumpCtl};

/// The family; see the module documentation.
pub static FAMILY: Family = Family {
    id: ID,
    name: attr::GENL_NAME,
    version: attr::GENL_VERSION,
    max: attr::MAX,
    strict: false,
    commands: &[Command {
        cmd: attr::CMD_GET_GROUP,
        admin: false,
        doit: None,
        dumpit: Some(dump),
        policy: None,
    }],
    groups: &[
        (attr::NL_MCGRP_CONFIG_NAME, GROUP_CONFIG),
        (attr::NL_MCGRP_SAMPLE_NAME, GROUP_PACKETS),
    ],
};

/// Dumps the groups (`psample_nl_cmd_get_group_dumpit`).
fn dump(ctl: &Ctl<'_>, _tb: &Table<'_>) -> Result<Box<dyn Dump>, Error> {
    let groups = crate::tc::with_env(ctl.stack, ctl.ns, ctl.guard, |env| {
        env.net.psample(env.host).list()
    });
    let fill =
        |ctl: &DumpCtl<'_>, (group, refs): &(std::sync::Arc<Group>, u32), out: &mut Writer| {
            ctl.message(out, ID, |w| group.fill(w, attr::CMD_NEW_GROUP, *refs))
        };
    Ok(Collected::boxed(groups, false, fill))
}
