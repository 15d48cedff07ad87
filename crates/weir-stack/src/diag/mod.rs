// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The server of `NETLINK_SOCK_DIAG` (`net/core/sock_diag.c`): lists of sockets for `ss`, and their end for `ss -K`.
//!
//! | family | requests |
//! |---|---|
//! | `AF_INET`, `AF_INET6` | TCP, UDP and raw sockets: dumps with filters, one socket, `SOCK_DESTROY` ([`inet`]) |
//! | `AF_PACKET` | dumps ([`packet`]) |
//! | others | ENOENT, as a kernel without the module |
//!
//! Not served: `TCPDIAG_GETSOCK` of kernels before 3.3 (ENOENT), notifications of closed sockets (no group has any).

mod filter;
pub mod inet;
pub mod packet;

use weir_netlink::{Error, errno, nlm};

use crate::rtnl::{Ctl, Dump};

/// `SOCK_DIAG_BY_FAMILY`
pub const BY_FAMILY: u16 = 20;
/// `SOCK_DESTROY`
pub const DESTROY: u16 = 21;
/// `TCPDIAG_GETSOCK` and `DCCPDIAG_GETSOCK`
const OLD: [u16; 2] = [18, 19];

const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
const AF_PACKET: u8 = 17;
/// `AF_MAX`
const FAMILIES: u8 = 46;

pub(crate) type Started = Result<Option<Box<dyn Dump>>, Error>;

/// Serves a request (`sock_diag_rcv_msg`).
pub fn start(ctl: &mut Ctl<'_>, dumping: bool) -> Started {
    let header = ctl.message.header;
    if OLD.contains(&header.ty) {
        return Err(Error::new(errno::ENOENT));
    }
    if !matches!(header.ty, BY_FAMILY | DESTROY) {
        return Err(Error::new(errno::EINVAL));
    }
    let payload = ctl.message.payload();
    let [family, _, ..] = *payload else {
        return Err(Error::new(errno::EINVAL));
    };
    let dump = header.flags & nlm::F_DUMP == nlm::F_DUMP && header.ty == BY_FAMILY;
    if dump && dumping {
        return Err(Error::new(errno::EBUSY));
    }
    match (family, header.ty) {
        (AF_INET | AF_INET6, _) => inet::start(ctl, dump),
        (AF_PACKET, BY_FAMILY) => packet::start(ctl, dump),
        (AF_PACKET, _) => Err(Error::new(errno::EOPNOTSUPP)),
        (FAMILIES.., _) => Err(Error::new(errno::EINVAL)),
        _ => Err(Error::new(errno::ENOENT)),
    }
}

/// Reads a `u32` in the order of the machine.
fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let word = bytes.get(at..)?.first_chunk()?;
    Some(u32::from_ne_bytes(*word))
}
