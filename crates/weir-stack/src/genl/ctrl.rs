// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `nlctrl`: lists the families (`ctrl_getfamily`, `ctrl_dumpfamily`).

use weir_netlink::genl::{self as attr, CMD_CAP_DO, CMD_CAP_DUMP, CMD_CAP_HASPOL};
use weir_netlink::{Error, GenlMsg, Policy, Rule, Table, Writer, errno, policy};

use super::{Command, FAMILIES, Family};
use crate::rtnl::{Collected, Ctl, Dump, DumpCtl};

const VERSION: u8 = 2;
/// `GENL_UNS_ADMIN_PERM`
const ADMIN: u32 = 0x10;

/// The family; see the module documentation.
pub static FAMILY: Family = Family {
    id: attr::ID_CTRL,
    name: "nlctrl",
    version: VERSION,
    max: 0,
    strict: false,
    commands: &[Command {
        cmd: attr::CTRL_CMD_GETFAMILY,
        admin: false,
        doit: Some(get),
        dumpit: Some(dump),
        policy: Some(&POLICY),
    }],
    groups: &[("notify", attr::ID_CTRL as u32)],
};

/// `ctrl_policy_family`
static POLICY: Policy = policy! { max attr::CTRL_ATTR_FAMILY_NAME;
    attr::CTRL_ATTR_FAMILY_ID => Rule::u16(),
    attr::CTRL_ATTR_FAMILY_NAME => Rule::nul_string(15),
};

fn get(ctl: &mut Ctl<'_>, tb: &Table<'_>) -> Result<(), Error> {
    let (id, name) = (
        tb.get(attr::CTRL_ATTR_FAMILY_ID),
        tb.get(attr::CTRL_ATTR_FAMILY_NAME),
    );
    if id.is_none() && name.is_none() {
        return Err(Error::new(errno::EINVAL));
    }
    // If both are given, the name counts.
    let family = FAMILIES.iter().find(|family| match (&name, &id) {
        (Some(name), _) => name.c_str() == family.name.as_bytes(),
        (None, id) => id.and_then(|id| id.u16().ok()) == Some(family.id),
    });
    let family = family.ok_or(Error::new(errno::ENOENT))?;
    ctl.reply(attr::ID_CTRL, 0, |w| fill(w, family))
}

fn dump(_ctl: &Ctl<'_>, _tb: &Table<'_>) -> Result<Box<dyn Dump>, Error> {
    let fill = |ctl: &DumpCtl<'_>, family: &&Family, out: &mut Writer| {
        ctl.message(out, attr::ID_CTRL, |w| fill(w, family))
    };
    Ok(Collected::boxed(FAMILIES.to_vec(), false, fill))
}

/// Writes a family (`ctrl_fill_info`).
fn fill(w: &mut Writer, family: &Family) {
    w.fixed(&GenlMsg {
        cmd: attr::CTRL_CMD_NEWFAMILY,
        version: VERSION,
        reserved: 0,
    });
    w.put_str(attr::CTRL_ATTR_FAMILY_NAME, family.name);
    w.put_u16(attr::CTRL_ATTR_FAMILY_ID, family.id);
    w.put_u32(attr::CTRL_ATTR_VERSION, u32::from(family.version));
    w.put_u32(attr::CTRL_ATTR_HDRSIZE, 0);
    w.put_u32(attr::CTRL_ATTR_MAXATTR, u32::from(family.max));
    let list = w.nest_noflag(attr::CTRL_ATTR_OPS);
    for (i, command) in (1..).zip(family.commands) {
        let can = |yes: bool, flag| if yes { flag } else { 0 };
        let flags = can(command.dumpit.is_some(), CMD_CAP_DUMP)
            | can(command.doit.is_some(), CMD_CAP_DO)
            | can(command.policy.is_some(), CMD_CAP_HASPOL)
            | can(command.admin, ADMIN);
        let nest = w.nest_noflag(i);
        w.put_u32(attr::CTRL_ATTR_OP_ID, u32::from(command.cmd));
        w.put_u32(attr::CTRL_ATTR_OP_FLAGS, flags);
        w.end(nest);
    }
    w.end(list);
    let list = w.nest_noflag(attr::CTRL_ATTR_MCAST_GROUPS);
    for (i, (name, number)) in (1..).zip(family.groups) {
        let nest = w.nest_noflag(i);
        w.put_u32(attr::CTRL_ATTR_MCAST_GRP_ID, *number);
        w.put_str(attr::CTRL_ATTR_MCAST_GRP_NAME, name);
        w.end(nest);
    }
    w.end(list);
}
