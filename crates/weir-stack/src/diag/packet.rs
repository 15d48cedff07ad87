// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packet sockets (`net/packet/diag.c`).

use weir_netlink::{Error, errno};

use super::{BY_FAMILY, Started, word};
use crate::request::Collected;
use crate::rtnl::Ctl;
use crate::socket::shown::{Kind, Shown};

/// The length of `struct packet_diag_req` in bytes.
const REQUEST: usize = 20;
/// `PACKET_SHOW_INFO` and `PACKET_SHOW_MEMINFO`
const SHOW_INFO: u32 = 1;
const SHOW_MEMINFO: u32 = 0x10;

/// `PACKET_DIAG_*`
mod attr {
    pub const INFO: u16 = 0;
    pub const UID: u16 = 5;
    pub const MEMINFO: u16 = 6;
}

/// Starts a dump (`packet_diag_handler_dump`).
pub fn start(ctl: &mut Ctl<'_>, dump: bool) -> Started {
    let payload = ctl.message.payload();
    if payload.len() < REQUEST || payload.get(1) != Some(&0) {
        return Err(Error::new(errno::EINVAL));
    }
    if !dump {
        return Err(Error::new(errno::EOPNOTSUPP));
    }
    let show = word(payload, 8).unwrap_or(0);
    let now = ctl.stack.clock.now();
    let shown: Vec<Shown> = crate::socket::all(ctl.ns)
        .iter()
        .filter(|socket| socket.shown_as() == Kind::Packet)
        .map(|socket| socket.shown(now))
        .collect();
    Ok(Some(Collected::boxed(
        shown,
        false,
        move |ctl, one, out| {
            ctl.message(out, BY_FAMILY, |out| {
                let mut head = vec![17, one.ty as u8];
                head.extend((one.protocol as u16).to_ne_bytes());
                head.extend((one.inode as u32).to_ne_bytes());
                head.extend((one.cookie as u32).to_ne_bytes());
                head.extend(((one.cookie >> 32) as u32).to_ne_bytes());
                out.raw(&head);
                if show & SHOW_INFO != 0 {
                    // struct packet_diag_info: index, version, reserve, threshold, time stamps, flags.
                    let words = [one.device as u32, 0, 0, 0, 0, u32::from(one.running)];
                    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
                    out.put(attr::INFO, &bytes);
                    out.put_u32(attr::UID, one.uid);
                }
                if show & SHOW_MEMINFO != 0 {
                    let (rcvbuf, sndbuf) = one.buffers;
                    let words = [
                        one.queued.0,
                        rcvbuf,
                        one.queued.1,
                        sndbuf,
                        0,
                        0,
                        0,
                        0,
                        one.drops,
                    ];
                    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
                    out.put(attr::MEMINFO, &bytes);
                }
            })
        },
    )))
}
