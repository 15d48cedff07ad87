// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The type of a socket and the value of an option, for netlink sockets and stand-ins alike.
use super::Handled;
use crate::backend::Errno;
use crate::seccomp::{Answer, Call};
use crate::sys;

/// The bits of the second argument of `socket` that are the type (`SOCK_TYPE_MASK`).
pub(super) const KIND_MASK: i32 = 0xf;

/// Answers `getsockopt` of an int.
pub(super) fn write_option(call: &Call, value: i32) -> Handled {
    let room = i32::from_ne_bytes(sys::read_array(call.tid, call.args[4])?);
    let room = usize::try_from(room)
        .map_err(|_| Errno(libc::EINVAL))?
        .min(4);
    sys::write_memory(call.tid, call.args[3], &value.to_ne_bytes()[..room])?;
    sys::write_memory(call.tid, call.args[4], &(room as u32).to_ne_bytes())?;
    Ok(Answer::Value(0))
}
