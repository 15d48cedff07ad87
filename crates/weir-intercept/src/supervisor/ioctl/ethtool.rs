// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `SIOCETHTOOL`: the old interface of `ethtool` (`dev_ethtool`, net/ethtool/ioctl.c). The backend knows the
//! commands; the number of bytes that a client passes with each is here.

use super::{IFNAMSIZ, IFREQ, c_bytes, long};
use crate::backend::NsId;
use crate::seccomp::{Answer, Call};
use crate::supervisor::{Handled, Supervisor};
use crate::sys;

/// `SIOCETHTOOL`
pub(super) const ETHTOOL: u32 = 0x8946;

const GDRVINFO: u32 = 0x03;
const GSTRINGS: u32 = 0x1b;
const GSSET_INFO: u32 = 0x37;
const SFEATURES: u32 = 0x3b;
const GCHANNELS: u32 = 0x3c;
const SCHANNELS: u32 = 0x3d;
const GET_TS_INFO: u32 = 0x41;
const GLINKSETTINGS: u32 = 0x4c;
/// The most blocks of features that a client may pass (Linux 6.1 has 2).
const BLOCKS: u32 = 8;

/// Returns how many bytes of a command a client passes, given its number and the word behind it.
fn length(command: u32, second: u32) -> usize {
    match command {
        GDRVINFO => 196,
        GSTRINGS => 12,
        GSSET_INFO => 16,
        GCHANNELS | SCHANNELS => 36,
        GET_TS_INFO => 44,
        GLINKSETTINGS => 48,
        SFEATURES => 8 + 8 * second.min(BLOCKS) as usize,
        _ => 8,
    }
}

impl Supervisor {
    /// Serves `SIOCETHTOOL`, whose ifreq holds a name and the address of the command.
    pub(super) fn ethtool(&mut self, call: &Call, ns: NsId, address: u64) -> Handled {
        let ifreq: [u8; IFREQ] = sys::read_array(call.tid, address)?;
        let pointer = long(&ifreq[IFNAMSIZ..]);
        let [a, b, c, d] = sys::read_array(call.tid, pointer)?;
        let number = u32::from_ne_bytes([a, b, c, d]);
        // Not every command has a second word.
        let second = sys::read_array(call.tid, pointer + 4).map_or(0, u32::from_ne_bytes);
        let mut command = vec![0; length(number, second)];
        let n = sys::read_memory(call.tid, pointer, &mut command)?;
        command.truncate(n);
        self.still_waiting(call)?;
        let name = c_bytes(&ifreq[..IFNAMSIZ]);
        let (out, result) = self.backend.ethtool(ns, name, &command)?;
        sys::write_memory(call.tid, pointer, &out)?;
        Ok(Answer::Value(result))
    }
}
