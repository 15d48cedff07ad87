// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The peer: an `lru_hash` of this machine's kernel. A BPF program looks up or updates random keys in
//! a loop, run by `BPF_PROG_TEST_RUN`.
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
///
/// It is a loop that the verifier walks to its end. `bpf_loop` would need type information for its
/// callback.
fn program(map: i32, helper: i32, range: u32) -> Vec<u64> {
    let i = instruction;
    let (mov, exit, call) = (0xbf, i(0x95, 0, 0, 0, 0), |helper| i(0x85, 0, 0, 0, helper));
    let shift_xor = |code, by| {
        [
            i(mov, 3, 6, 0, 0),
            i(code, 3, 0, 0, by),
            i(0xaf, 6, 3, 0, 0),
        ]
    };
    // Register 6 is the state of the generator, register 7 the number of keys left.
    let mut code = vec![
        call(7), // bpf_get_prandom_u32
        i(0x47, 0, 0, 0, 1),
        i(mov, 6, 0, 0, 0),
        i(0xb7, 7, 0, 0, KEYS as i32),
    ];
    let start = code.len();
    code.extend(shift_xor(0x67, 13));
    code.extend(shift_xor(0x77, 7));
    code.extend(shift_xor(0x67, 17));
    code.extend([
        i(mov, 1, 6, 0, 0),
        i(0x77, 1, 0, 0, 16),
        i(0xbc, 1, 1, 0, 0),
    ]);
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
        i(0x07, 7, 0, 0, -1),
    ]);
    // While register 7 is not zero.
    let back = start as i16 - code.len() as i16 - 1;
    code.extend([i(0x55, 7, 0, back, 0), i(0xb7, 0, 0, 0, 0), exit]);
    code
}

/// Accesses in a run of the program of `trace_program`.
const ACCESSES: usize = 4000;

/// A program that accesses the keys of array `trace` and inserts those that `map` does not have. It
/// returns their number.
fn trace_program(map: i32, trace: i32) -> Vec<u64> {
    let i = instruction;
    let (mov, exit, call) = (0xbf, i(0x95, 0, 0, 0, 0), |helper| i(0x85, 0, 0, 0, helper));
    // Registers 2 and 3 point to the stack, below register 10.
    let point = |to, offset| [i(mov, to, 10, 0, 0), i(0x07, to, 0, 0, offset)];
    let of = |fd| [i(0x18, 1, 1, 0, fd), 0];
    // Register 7 is the number of the access. Registers 8 and 9 count misses from a time on, which the
    // verifier does not know, so that it need not follow each count.
    let mut code = vec![
        call(5),
        i(mov, 8, 0, 0, 0),
        i(mov, 9, 0, 0, 0),
        i(0xb7, 7, 0, 0, 0),
    ];
    let start = code.len();
    code.push(i(0x63, 10, 7, -4, 0));
    code.extend(of(trace));
    code.extend(point(2, -4));
    code.push(call(1));
    let first = code.len();
    code.extend([
        i(0x15, 0, 0, 0, 0),
        i(0x61, 1, 0, 0, 0),
        i(0x63, 10, 1, -8, 0),
    ]);
    code.extend(of(map));
    code.extend(point(2, -8));
    code.push(call(1));
    let second = code.len();
    code.extend([
        i(0x55, 0, 0, 0, 0),
        i(0x07, 8, 0, 0, 1),
        i(0x7a, 10, 0, -16, 1),
    ]);
    code.extend(of(map));
    code.extend(point(2, -8));
    code.extend(point(3, -16));
    code.extend([i(0xb7, 4, 0, 0, 1), call(2)]);
    let next = code.len() as i16;
    code[first] = i(0x15, 0, 0, next - first as i16 - 1, 0);
    code[second] = i(0x55, 0, 0, next - second as i16 - 1, 0);
    code.push(i(0x07, 7, 0, 0, 1));
    let back = start as i16 - code.len() as i16 - 1;
    code.push(i(0x55, 7, 0, back, ACCESSES as i32));
    code.extend([i(mov, 0, 8, 0, 0), i(0x1f, 0, 9, 0, 0), exit]);
    code
}

/// Returns the misses of an `lru_hash` on a trace of keys, whose length is a multiple of 4,000.
pub fn misses(max_entries: u32, percpu: bool, trace: &[u32]) -> Result<u64, String> {
    let map = Map::empty(max_entries, percpu)?;
    let mut attr = [0; 24];
    attr[..4].copy_from_slice(&[2, 4, 4, ACCESSES as u32]);
    let array = Map(own(bpf(0, &mut attr)?));
    let code = trace_program(map.0.as_raw_fd(), array.0.as_raw_fd());
    let program = load(&code)?;
    let numbers: Vec<u32> = (0..ACCESSES as u32).collect();
    let (frame, mut misses) = ([0u8; 64], 0);
    for keys in trace.chunks_exact(ACCESSES) {
        array.update(&numbers, keys.as_ptr() as u64)?;
        let mut attr = [0; 24];
        (attr[0], attr[2], attr[8]) = (program.as_raw_fd() as u32, frame.len() as u32, 1);
        put(&mut attr, 4, frame.as_ptr() as u64);
        bpf(10, &mut attr)?;
        misses += u64::from(attr[1]);
    }
    Ok(misses)
}

fn load(code: &[u64]) -> Result<OwnedFd, String> {
    let licence = c"Dual MIT/GPL";
    let mut attr = [0; 24];
    (attr[0], attr[1]) = (3, code.len() as u32);
    put(&mut attr, 2, code.as_ptr() as u64);
    put(&mut attr, 4, licence.as_ptr() as u64);
    Ok(own(bpf(5, &mut attr)?))
}

impl Map {
    /// Creates an `lru_hash` of u32 to u64. With `percpu` its lists are those of CPUs.
    fn empty(max_entries: u32, percpu: bool) -> Result<Self, String> {
        let mut attr = [0; 24];
        // `BPF_F_NO_COMMON_LRU` is 2.
        attr[..5].copy_from_slice(&[9, 4, 8, max_entries, if percpu { 2 } else { 0 }]);
        Ok(Self(own(bpf(0, &mut attr)?)))
    }

    /// Writes as many values as there are keys (`BPF_MAP_UPDATE_BATCH`).
    fn update(&self, keys: &[u32], values: u64) -> Result<(), String> {
        let mut attr = [0; 24];
        put(&mut attr, 4, keys.as_ptr() as u64);
        put(&mut attr, 6, values);
        attr[8] = keys.len() as u32;
        attr[9] = self.0.as_raw_fd() as u32;
        bpf(26, &mut attr).map(|_| ())
    }

    /// Creates an `lru_hash` and fills it.
    pub fn new(max_entries: u32, percpu: bool) -> Result<Self, String> {
        let map = Self::empty(max_entries, percpu)?;
        let values = vec![1u64; 65536];
        for first in (0..max_entries).step_by(values.len()) {
            let keys: Vec<u32> = (first..max_entries.min(first + values.len() as u32)).collect();
            map.update(&keys, values.as_ptr() as u64)?;
        }
        Ok(map)
    }

    /// Returns the bytes of an entry that the kernel accounts for.
    pub fn bytes(&self, max_entries: u32) -> Option<f64> {
        let path = format!("/proc/self/fdinfo/{}", self.0.as_raw_fd());
        let text = std::fs::read_to_string(path).ok()?;
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("memlock:"))?;
        let bytes: f64 = line.trim().parse().ok()?;
        Some(bytes / f64::from(max_entries))
    }

    fn load(&self, helper: i32, range: u32) -> Result<OwnedFd, String> {
        load(&program(self.0.as_raw_fd(), helper, range))
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
    /// Runs until stopped, and once at least. Returns the number of keys.
    pub fn run(&self, stop: &AtomicBool) -> u64 {
        let frame = [0u8; 64];
        let mut keys = 0;
        loop {
            let mut attr = [0; 24];
            attr[0] = self.0.as_raw_fd() as u32;
            attr[2] = frame.len() as u32;
            put(&mut attr, 4, frame.as_ptr() as u64);
            attr[8] = RUNS;
            if bpf(10, &mut attr).is_err() {
                return 0;
            }
            keys += KEYS * u64::from(RUNS);
            if stop.load(Ordering::Relaxed) {
                return keys;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_runs_the_programs() {
        for percpu in [false, true] {
            let map = match Map::new(1000, percpu) {
                Ok(map) => map,
                Err(error) if error.contains("os error 1)") => {
                    return eprintln!("SKIPPED: {error}");
                }
                Err(error) => panic!("{error}"),
            };
            assert!(map.bytes(1000).unwrap() > 40.0);
            for program in [map.hits(1000).unwrap(), map.inserts().unwrap()] {
                let stop = AtomicBool::new(false);
                let keys = std::thread::scope(|scope| {
                    let run = scope.spawn(|| program.run(&stop));
                    std::thread::sleep(std::time::Duration::from_millis(20));
                    stop.store(true, Ordering::Relaxed);
                    run.join().unwrap()
                });
                assert!(keys >= KEYS);
            }
        }
    }

    #[test]
    fn the_kernel_misses_new_keys_and_those_it_lost() {
        let trace: Vec<u32> = (0..8000).map(|at| at % 100).collect();
        match misses(1000, false, &trace) {
            Ok(misses) => assert_eq!(misses, 100),
            Err(error) if error.contains("os error 1)") => eprintln!("SKIPPED: {error}"),
            Err(error) => panic!("{error}"),
        }
    }
}
