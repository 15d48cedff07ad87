// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The generic netlink server: families by name and number, and their commands.
//!
//! Mirrors net/netlink/genetlink.c. Each family is one file with a `FAMILY`; `FAMILIES` lists them. A
//! message for a number that is no family's is answered ENOENT, as is the look-up of a name that is
//! none's: what has no module does not exist.
//!
//! Not implemented: policies (`CTRL_CMD_GETPOLICY`); families that come and go.

use weir_netlink::{Error, Fixed, GenlMsg, Policy, Strictness, Table, errno};

use crate::rtnl::{Ctl, Dump};

pub mod ctrl;
pub mod psample;

/// The families, in the order of their numbers.
static FAMILIES: &[&Family] = &[&ctrl::FAMILY, &psample::FAMILY];

/// Serves a request that is not a dump.
type DoIt = fn(&mut Ctl<'_>, &Table<'_>) -> Result<(), Error>;
/// Starts a dump.
type DumpIt = fn(&Ctl<'_>) -> Box<dyn Dump>;

/// A family (`struct genl_family`).
pub struct Family {
    /// Type of its messages.
    id: u16,
    name: &'static str,
    version: u8,
    /// The largest attribute.
    max: u16,
    commands: &'static [Command],
    /// Multicast groups, with their numbers among all of generic netlink.
    groups: &'static [(&'static str, u32)],
}

/// A command (`struct genl_ops`).
struct Command {
    cmd: u8,
    doit: Option<DoIt>,
    dumpit: Option<DumpIt>,
    policy: Option<&'static Policy>,
}

/// Serves a request (`genl_rcv_msg`); answers a dump that is to be run.
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
    if ctl.message.is_dump() {
        let dumpit = command.dumpit.ok_or_else(unknown)?;
        if dumping {
            return Err(Error::new(errno::EBUSY));
        }
        return Ok(Some(dumpit(ctl)));
    }
    let doit = command.doit.ok_or_else(unknown)?;
    let message = ctl.message;
    let table = match command.policy {
        Some(policy) => message.parse::<GenlMsg>(policy, Strictness::Liberal)?.1,
        None => Table::empty(),
    };
    doit(ctl, &table).map(|()| None)
}
