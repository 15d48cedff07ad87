// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ioctls that belong to a kind of device (`SIOCDEVPRIVATE`): those of IP tunnels, `ip tunnel`. The backend knows the
//! requests and the structures.

use super::{IFNAMSIZ, IFREQ, c_bytes, long};
use crate::backend::NsId;
use crate::seccomp::{Answer, Call};
use crate::supervisor::{Handled, Supervisor};
use crate::sys;

/// `SIOCDEVPRIVATE`, which is `SIOCGETTUNNEL`.
pub(super) const FIRST: u32 = 0x89f0;
/// The last private ioctl.
pub(super) const LAST: u32 = 0x89ff;
/// The length in bytes of the longest structure (`struct ip6_tnl_parm2`).
const LONGEST: usize = 76;

impl Supervisor {
    /// Serves a request whose ifreq holds a name and the address of a structure.
    pub(super) fn tunnel(&mut self, call: &Call, ns: NsId, request: u32, address: u64) -> Handled {
        let ifreq: [u8; IFREQ] = sys::read_array(call.tid, address)?;
        let pointer = long(&ifreq[IFNAMSIZ..]);
        let mut given = vec![0; LONGEST];
        // Not every request passes a structure, and most are shorter.
        let n = sys::read_memory(call.tid, pointer, &mut given).unwrap_or(0);
        given.truncate(n);
        self.still_waiting(call)?;
        let label = c_bytes(&ifreq[..IFNAMSIZ]);
        let name = label.split(|&b| b == b':').next().unwrap_or_default();
        let out = self.backend.tunnel(ns, name, request, &given)?;
        sys::write_memory(call.tid, pointer, &out)?;
        Ok(Answer::Value(0))
    }
}
