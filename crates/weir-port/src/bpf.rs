// SPDX-License-Identifier: Apache-2.0 OR MIT
//! XDP programs: loaded, attached and run on test frames by bpf(2), without libbpf.
#![allow(unsafe_code)] // bpf(2) with structures made here

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// `enum bpf_cmd`.
const PROG_LOAD: libc::c_long = 5;
const PROG_TEST_RUN: libc::c_long = 10;
const LINK_CREATE: libc::c_long = 28;

/// `BPF_PROG_TYPE_XDP` and `BPF_XDP`.
const PROG_XDP: u32 = 6;
const ATTACH_XDP: u32 = 37;
/// `XDP_FLAGS_SKB_MODE`: the program runs in the generic receive path.
pub const SKB_MODE: u32 = 1 << 1;
/// `XDP_FLAGS_DRV_MODE`: the program runs in the driver.
pub const DRV_MODE: u32 = 1 << 2;
/// `BPF_F_TEST_XDP_LIVE_FRAMES`.
const LIVE_FRAMES: u32 = 1 << 1;

/// `struct bpf_insn`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Instruction {
    code: u8,
    /// The destination in the lower half, the source in the upper.
    registers: u8,
    offset: i16,
    value: i32,
}

/// Makes an instruction. The lower half of `registers` is the destination, the upper the source.
pub const fn instruction(code: u8, registers: u8, offset: i16, value: i32) -> Instruction {
    Instruction {
        code,
        registers,
        offset,
        value,
    }
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

#[repr(C)]
#[derive(Default)]
struct TestRun {
    prog: u32,
    retval: u32,
    data_size_in: u32,
    data_size_out: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration: u32,
    ctx_size_in: u32,
    ctx_size_out: u32,
    ctx_in: u64,
    ctx_out: u64,
    flags: u32,
    cpu: u32,
    batch_size: u32,
    pad: u32,
}

/// Makes a bpf(2) call with an attribute, the first bytes of `union bpf_attr`.
pub(crate) fn bpf<T>(command: libc::c_long, attribute: &mut T) -> io::Result<i32> {
    let (at, len) = (std::ptr::from_mut(attribute), size_of::<T>());
    // SAFETY: the attribute is whole, and the memory to which it refers lives through the call.
    match unsafe { libc::syscall(libc::SYS_bpf, command, at, len) } {
        -1 => Err(io::Error::last_os_error()),
        result => Ok(result as i32),
    }
}

/// Makes a bpf(2) call that returns a descriptor.
pub(crate) fn descriptor<T>(command: libc::c_long, attribute: &mut T) -> io::Result<OwnedFd> {
    // SAFETY: the call returned a new descriptor.
    bpf(command, attribute).map(|fd| unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Loads an XDP program.
///
/// # Errors
/// The kernel refuses the program, or the caller lacks `CAP_BPF` and `CAP_NET_ADMIN`.
pub fn load(program: &[Instruction]) -> io::Result<OwnedFd> {
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
    descriptor(PROG_LOAD, &mut attribute)
}

/// Attaches a program to a device. Closing the link detaches it.
///
/// # Errors
/// The device has another program, or its driver runs none.
pub fn attach(program: BorrowedFd<'_>, ifindex: u32, flags: u32) -> io::Result<OwnedFd> {
    let mut attribute = LinkCreate {
        prog: program.as_raw_fd() as u32,
        target_ifindex: ifindex,
        attach_type: ATTACH_XDP,
        flags,
    };
    descriptor(LINK_CREATE, &mut attribute)
}

/// Runs a program `repeat` times on a copy of a frame. Returns the time of a run and the last verdict.
///
/// # Errors
/// The caller lacks `CAP_BPF`, a signal interrupts the call, or the frame is shorter than an Ethernet header.
pub fn test_run(program: BorrowedFd<'_>, frame: &[u8], repeat: u32) -> io::Result<(Duration, u32)> {
    let mut attribute = TestRun {
        prog: program.as_raw_fd() as u32,
        data_size_in: frame.len() as u32,
        data_in: frame.as_ptr().addr() as u64,
        repeat,
        ..TestRun::default()
    };
    bpf(PROG_TEST_RUN, &mut attribute)?;
    let time = Duration::from_nanos(attribute.duration.into());
    Ok((time, attribute.retval))
}

/// Runs a program once on each of `count` copies of a frame, in memory as drivers receive into, and carries out its
/// verdicts in batches of 64. The frames arrive at the loopback device of the caller's network namespace.
///
/// # Errors
/// As for [`test_run`].
pub fn test_run_live(program: BorrowedFd<'_>, frame: &[u8], count: u32) -> io::Result<()> {
    let mut attribute = TestRun {
        prog: program.as_raw_fd() as u32,
        data_size_in: frame.len() as u32,
        data_in: frame.as_ptr().addr() as u64,
        repeat: count,
        flags: LIVE_FRAMES,
        batch_size: 64,
        ..TestRun::default()
    };
    bpf(PROG_TEST_RUN, &mut attribute).map(drop)
}
