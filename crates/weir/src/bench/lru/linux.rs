// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The peer: an `lru_hash` of this machine's kernel. A BPF program of 25 instructions looks up or
//! updates random keys in a loop (`bpf_loop`), run by `BPF_PROG_TEST_RUN`.
#![allow(unsafe_code)] // the bpf system call

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

/// Keys in a run of the program.
const KEYS: u64 = 4096;
const RUNS: u32 = 4;

fn bpf(command: u32, attr: &mut [u32; 24]) -> Result<i32, String> {
    // SAFETY: `attr` holds the attributes and lives during the call; the addresses in it are those of
    // buffers that the callers own.
    let result =
        unsafe { libc::syscall(libc::SYS_bpf, command, attr.as_mut_ptr(), size_of_val(attr)) };
    if result < 0 {
        let error = std::io::Error::last_os_error();
        Err(format!("Linux's map is left out: bpf: {error}"))
    } else {
        Ok(result as i32)
    }
}

fn own(fd: i32) -> OwnedFd {
    // SAFETY: the kernel has just made this descriptor for us.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

fn put(attr: &mut [u32; 24], at: usize, address: u64) {
    attr[at] = address as u32;
    attr[at + 1] = (address >> 32) as u32;
}

/// A map of the kernel.
pub struct Map(OwnedFd);

/// Encodes an instruction.
fn instruction(code: u8, to: u8, from: u8, offset: i16, value: i32) -> u64 {
    u64::from(code)
        | u64::from(to | from << 4) << 8
        | u64::from(offset as u16) << 16
        | u64::from(value as u32) << 32
}

/// The program. `helper` is 1 for a look-up and 2 for an update; keys are below `range`.
fn program(map: i32, helper: i32, range: u32) -> Vec<u64> {
    let i = instruction;
    let (mov, exit, call) = (0xbf, i(0x95, 0, 0, 0, 0), |helper| i(0x85, 0, 0, 0, helper));
    let shift_xor = |code, by| {
        [
            i(mov, 3, 1, 0, 0),
            i(code, 3, 0, 0, by),
            i(0xaf, 1, 3, 0, 0),
        ]
    };
    let mut code = vec![
        call(7), // bpf_get_prandom_u32, the seed
        i(0x47, 0, 0, 0, 1),
        i(0x7b, 10, 0, -8, 0),
        i(0xb7, 1, 0, 0, KEYS as i32),
        // The address of the callback: 6 instructions after the next one.
        i(0x18, 2, 4, 0, 6),
        0,
        i(mov, 3, 10, 0, 0),
        i(0x07, 3, 0, 0, -8),
        i(0xb7, 4, 0, 0, 0),
        call(181), // bpf_loop
        i(0xb7, 0, 0, 0, 0),
        exit,
    ];
    code[4] = i(0x18, 2, 4, 0, (code.len() - 5) as i32);
    code.extend([i(mov, 6, 2, 0, 0), i(0x79, 1, 6, 0, 0)]);
    code.extend(shift_xor(0x67, 13));
    code.extend(shift_xor(0x77, 7));
    code.extend(shift_xor(0x67, 17));
    code.push(i(0x7b, 6, 1, 0, 0));
    code.extend([i(0x77, 1, 0, 0, 16), i(0xbc, 1, 1, 0, 0)]);
    if range != u32::MAX {
        code.extend([i(0x27, 1, 0, 0, range as i32), i(0x77, 1, 0, 0, 32)]);
    }
    code.extend([
        i(0x63, 10, 1, -4, 0),
        i(0x7a, 10, 0, -16, 1),
        i(0x18, 1, 1, 0, map),
        0,
        i(mov, 2, 10, 0, 0),
        i(0x07, 2, 0, 0, -4),
        i(mov, 3, 10, 0, 0),
        i(0x07, 3, 0, 0, -16),
        i(0xb7, 4, 0, 0, 0),
        call(helper),
        i(0xb7, 0, 0, 0, 0),
        exit,
    ]);
    code
}

impl Map {
    /// Creates an `lru_hash` of u32 to u64 and fills it.
    pub fn new(max_entries: u32) -> Result<Self, String> {
        let mut attr = [0; 24];
        attr[..4].copy_from_slice(&[9, 4, 8, max_entries]);
        let map = Self(own(bpf(0, &mut attr)?));
        let values = vec![1u64; 65536];
        for first in (0..max_entries).step_by(values.len()) {
            let keys: Vec<u32> = (first..max_entries.min(first + values.len() as u32)).collect();
            let mut attr = [0; 24];
            put(&mut attr, 4, keys.as_ptr() as u64);
            put(&mut attr, 6, values.as_ptr() as u64);
            attr[8] = keys.len() as u32;
            attr[9] = map.0.as_raw_fd() as u32;
            bpf(26, &mut attr)?;
        }
        Ok(map)
    }

    fn load(&self, helper: i32, range: u32) -> Result<OwnedFd, String> {
        let code = program(self.0.as_raw_fd(), helper, range);
        let licence = c"Dual MIT/GPL";
        let mut attr = [0; 24];
        (attr[0], attr[1]) = (3, code.len() as u32);
        put(&mut attr, 2, code.as_ptr() as u64);
        put(&mut attr, 4, licence.as_ptr() as u64);
        Ok(own(bpf(5, &mut attr)?))
    }

    /// Prepares look-ups of keys below `range`.
    pub fn hits(&self, range: u32) -> Result<Program, String> {
        self.load(1, range).map(Program)
    }

    /// Prepares insertions of keys of 32 bits.
    pub fn inserts(&self) -> Result<Program, String> {
        self.load(2, u32::MAX).map(Program)
    }
}

/// A loaded program.
pub struct Program(OwnedFd);

impl Program {
    /// Runs until stopped. Returns the number of keys.
    pub fn run(&self, stop: &AtomicBool) -> u64 {
        let frame = [0u8; 64];
        let mut keys = 0;
        while !stop.load(Ordering::Relaxed) {
            let mut attr = [0; 24];
            attr[0] = self.0.as_raw_fd() as u32;
            attr[2] = frame.len() as u32;
            put(&mut attr, 4, frame.as_ptr() as u64);
            attr[8] = RUNS;
            if bpf(10, &mut attr).is_err() {
                return 0;
            }
            keys += KEYS * u64::from(RUNS);
        }
        keys
    }
}
