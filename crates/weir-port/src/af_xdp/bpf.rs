// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The XDP program, its map of sockets, and its attachment to a device, by bpf(2).
#![allow(unsafe_code)] // bpf(2) with structures made here

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// `enum bpf_cmd`.
const MAP_CREATE: libc::c_long = 0;
const MAP_UPDATE_ELEM: libc::c_long = 2;
const MAP_DELETE_ELEM: libc::c_long = 3;
const PROG_LOAD: libc::c_long = 5;
const LINK_CREATE: libc::c_long = 28;

/// `BPF_MAP_TYPE_XSKMAP`, `BPF_PROG_TYPE_XDP` and `BPF_XDP`.
const XSKMAP: u32 = 17;
const PROG_XDP: u32 = 6;
const ATTACH_XDP: u32 = 37;
/// `XDP_FLAGS_SKB_MODE` and `XDP_FLAGS_DRV_MODE`.
pub(super) const SKB_MODE: u32 = 1 << 1;
pub(super) const DRV_MODE: u32 = 1 << 2;

/// `struct bpf_insn`.
#[repr(C)]
struct Instruction {
    code: u8,
    /// The destination in the lower half, the source in the upper.
    registers: u8,
    offset: i16,
    value: i32,
}

const fn instruction(code: u8, registers: u8, offset: i16, value: i32) -> Instruction {
    Instruction {
        code,
        registers,
        offset,
        value,
    }
}

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

#[repr(C)]
struct ProgLoad {
    prog_type: u32,
    insn_cnt: u32,
    insns: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buf: u64,
    kern_version: u32,
    prog_flags: u32,
    prog_name: [u8; 16],
    prog_ifindex: u32,
    expected_attach_type: u32,
}

#[repr(C)]
struct LinkCreate {
    prog: u32,
    target_ifindex: u32,
    attach_type: u32,
    flags: u32,
}

/// Makes a bpf(2) call with an attribute, the first bytes of `union bpf_attr`.
fn bpf<T>(command: libc::c_long, attribute: &mut T) -> io::Result<i32> {
    let (at, len) = (std::ptr::from_mut(attribute), size_of::<T>());
    // SAFETY: the attribute is whole, and what it refers to lives through the call.
    match unsafe { libc::syscall(libc::SYS_bpf, command, at, len) } {
        -1 => Err(io::Error::last_os_error()),
        result => Ok(result as i32),
    }
}

/// Makes a bpf(2) call that returns a descriptor.
fn descriptor<T>(command: libc::c_long, attribute: &mut T) -> io::Result<OwnedFd> {
    // SAFETY: the call returned a new descriptor.
    bpf(command, attribute).map(|fd| unsafe { OwnedFd::from_raw_fd(fd) })
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
    let program = program(map.as_raw_fd());
    let license = c"Apache-2.0";
    let mut attribute = ProgLoad {
        prog_type: PROG_XDP,
        insn_cnt: program.len() as u32,
        insns: program.as_ptr().addr() as u64,
        license: license.as_ptr().addr() as u64,
        log_level: 0,
        log_size: 0,
        log_buf: 0,
        kern_version: 0,
        prog_flags: 0,
        prog_name: *b"weir\0\0\0\0\0\0\0\0\0\0\0\0",
        prog_ifindex: 0,
        expected_attach_type: ATTACH_XDP,
    };
    let program = descriptor(PROG_LOAD, &mut attribute)?;
    let mut attribute = LinkCreate {
        prog: program.as_raw_fd() as u32,
        target_ifindex: ifindex,
        attach_type: ATTACH_XDP,
        flags,
    };
    descriptor(LINK_CREATE, &mut attribute)
}
