// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The XDP program, its map of sockets, and its attachment to a device, by bpf(2).

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

pub(super) use crate::bpf::{DRV_MODE, SKB_MODE};
use crate::bpf::{Instruction, bpf, descriptor, instruction, load};

/// `enum bpf_cmd`.
const MAP_CREATE: libc::c_long = 0;
const MAP_UPDATE_ELEM: libc::c_long = 2;
const MAP_DELETE_ELEM: libc::c_long = 3;

/// `BPF_MAP_TYPE_XSKMAP`.
const XSKMAP: u32 = 17;

/// Passes each frame to the socket of its receive queue, and to the host if there is none:
/// `return bpf_redirect_map(&map, context->rx_queue_index, XDP_PASS)`.
fn program(map: i32) -> [Instruction; 6] {
    [
        // r2 = *(u32 *)(r1 + offsetof(struct xdp_md, rx_queue_index))
        instruction(0x61, 0x12, 16, 0),
        // r1 = map, in two slots (BPF_PSEUDO_MAP_FD)
        instruction(0x18, 0x11, 0, map),
        instruction(0, 0, 0, 0),
        // r3 = XDP_PASS
        instruction(0xb7, 0x03, 0, 2),
        // r0 = bpf_redirect_map(r1, r2, r3)
        instruction(0x85, 0, 0, 51),
        // return r0
        instruction(0x95, 0, 0, 0),
    ]
}

#[repr(C)]
struct MapCreate {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
}

#[repr(C)]
struct MapElement {
    map: u32,
    pad: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// Creates a map from receive queues to sockets.
pub(super) fn map(queues: u32) -> io::Result<OwnedFd> {
    let mut attribute = MapCreate {
        map_type: XSKMAP,
        key_size: 4,
        value_size: 4,
        max_entries: queues,
    };
    descriptor(MAP_CREATE, &mut attribute)
}

/// Sets the socket of a queue, or removes it.
pub(super) fn set(
    map: BorrowedFd<'_>,
    queue: u32,
    socket: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let value = socket.map_or(0, |socket| socket.as_raw_fd() as u32);
    let mut attribute = MapElement {
        map: map.as_raw_fd() as u32,
        pad: 0,
        key: (&raw const queue).addr() as u64,
        value: (&raw const value).addr() as u64,
        flags: 0,
    };
    let command = match socket {
        Some(_) => MAP_UPDATE_ELEM,
        None => MAP_DELETE_ELEM,
    };
    bpf(command, &mut attribute).map(drop)
}

/// Loads the program and attaches it to a device. Closing the link detaches it.
pub(super) fn attach(map: BorrowedFd<'_>, ifindex: u32, flags: u32) -> io::Result<OwnedFd> {
    let program = load(&program(map.as_raw_fd()))?;
    crate::bpf::attach(program.as_fd(), ifindex, flags)
}
