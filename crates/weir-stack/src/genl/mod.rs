// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The generic netlink server: families by name and number, and their commands.
//!
//! Mirrors net/netlink/genetlink.c. Each family is one file with a `FAMILY`; `FAMILIES` lists them.
//! A message with an unknown family number gets ENOENT, and so does the lookup of an unknown name,
//! as on a kernel without the module.
//!
//! Not implemented: policies (`CTRL_CMD_GETPOLICY`), and adding or removing families at run time.

use weir_netlink::{Error, Fixed, GenlMsg, Policy, Strictness, Table, errno};

use crate::rtnl::{Ctl, Dump};

pub mod ctrl;
pub mod ethtool;
pub mod psample;
pub mod tcp_metrics;

/// The families, in the order of their numbers.
static FAMILIES: &[&Family] = &[
    &ctrl::FAMILY,
    &psample::FAMILY,
    &ethtool::FAMILY,
    &tcp_metrics::FAMILY,
];

/// A handler for a request that is not a dump.
type DoIt = fn(&mut Ctl<'_>, &Table<'_>) -> Result<(), Error>;
/// A function that starts a dump.
type DumpIt = fn(&Ctl<'_>, &Table<'_>) -> Result<Box<dyn Dump>, Error>;

/// A generic netlink family (`struct genl_family`).
pub struct Family {
    /// The message type of the family.
    id: u16,
    name: &'static str,
    version: u8,
    /// The highest attribute number.
    max: u16,
    /// Whether requests are checked strictly (no `GENL_DONT_VALIDATE_STRICT`).
    strict: bool,
    commands: &'static [Command],
    /// The multicast groups, with their numbers, which are unique across generic netlink.
    groups: &'static [(&'static str, u32)],
}

/// A command of a family (`struct genl_ops`).
struct Command {
    cmd: u8,
    /// Whether it takes a privilege of the namespace (`GENL_UNS_ADMIN_PERM`).
    admin: bool,
    doit: Option<DoIt>,
    dumpit: Option<DumpIt>,
    policy: Option<&'static Policy>,
}

/// Serves a request (`genl_rcv_msg`). Returns the dump to run, if the request asks for one.
pub fn start(ctl: &mut Ctl<'_>, dumping: bool) -> Result<Option<Box<dyn Dump>>, Error> {
    let ty = ctl.message.header.ty;
    let family = FAMILIES.iter().find(|family| family.id == ty);
    let family = family.ok_or(Error::new(errno::ENOENT))?;
    let header = GenlMsg::from_bytes(ctl.message.payload());
    let header = header.ok_or(Error::new(errno::EINVAL))?;
    let mut commands = family.commands.iter();
    let unknown = || Error::new(errno::EOPNOTSUPP);
    let command = commands
        .find(|command| command.cmd == header.cmd)
        .ok_or_else(unknown)?;
    let message = ctl.message;
    let strictness = match family.strict {
        true => Strictness::Strict,
        false => Strictness::Liberal,
    };
    let parse = || -> Result<Table<'_>, Error> {
        match command.policy {
            Some(policy) => Ok(message.parse::<GenlMsg>(policy, strictness)?.1),
            None => Ok(Table::empty()),
        }
    };
    if message.is_dump() {
        let dumpit = command.dumpit.ok_or_else(unknown)?;
        if dumping {
            return Err(Error::new(errno::EBUSY));
        }
        return dumpit(ctl, &parse()?).map(Some);
    }
    let doit = command.doit.ok_or_else(unknown)?;
    doit(ctl, &parse()?).map(|()| None)
}
