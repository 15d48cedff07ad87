// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Hardware counters of the calling thread by perf_event_open(2): cycles, instructions and misses of the last-level
//! cache, in user space.
//!
//! The counters are one group, so that they count together. If the kernel shares the machine's counters among more
//! groups, it runs each for a part of the time, and the values are scaled to the whole time. Virtual machines often
//! have no counters, and `kernel.perf_event_paranoid` above 2 keeps them from ordinary users.
#![allow(unsafe_code)] // system calls with a structure made here

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd};

use weir_stack::stages::{EVENTS, Events};

/// The type and the number of an event.
type Event = (u32, u64);

/// `PERF_TYPE_HARDWARE`, with `PERF_COUNT_HW_CPU_CYCLES`, `_INSTRUCTIONS` and `_CACHE_MISSES`.
const HARDWARE: [Event; EVENTS] = [(0, 0), (0, 1), (0, 3)];
/// `PERF_FORMAT_TOTAL_TIME_ENABLED`, `_TOTAL_TIME_RUNNING` and `_GROUP`.
const FORMAT: u64 = 1 | 2 | 8;
/// The attributes `exclude_kernel` and `exclude_hv`.
const USER_ONLY: u64 = 1 << 5 | 1 << 6;
/// The attribute `disabled`.
const DISABLED: u64 = 1;
/// `PERF_EVENT_IOC_ENABLE`
const ENABLE: libc::Ioctl = 0x2400;
/// `PERF_FLAG_FD_CLOEXEC`
const CLOSE_ON_EXEC: libc::c_ulong = 8;
/// The words of a reading: the number of events, the times, and the values.
const WORDS: usize = 3 + EVENTS;

/// `struct perf_event_attr` in its first version (`PERF_ATTR_SIZE_VER0`).
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    bp_type: u32,
    config1: u64,
}

const _: () = assert!(size_of::<Attributes>() == 64);

/// Open counters. They count the thread that opened them.
#[derive(Debug)]
pub struct Counters {
    /// The first is the leader of the group, which is read.
    files: Vec<File>,
    last: [u64; EVENTS],
}

/// Opens the hardware counters of the calling thread.
///
/// # Errors
/// ENOENT where the machine has none, EACCES or EPERM where the user may not have them.
pub fn hardware() -> io::Result<Box<dyn Events>> {
    Ok(Box::new(Counters::open(HARDWARE)?))
}

impl Counters {
    fn open(events: [Event; EVENTS]) -> io::Result<Self> {
        let mut files: Vec<File> = Vec::new();
        for (kind, config) in events {
            let attributes = Attributes {
                kind,
                size: size_of::<Attributes>() as u32,
                config,
                read_format: FORMAT,
                // The leader stands still until its group is whole: a member that joins a running group may count
                // only from the next tick on.
                flags: USER_ONLY | if files.is_empty() { DISABLED } else { 0 },
                ..Attributes::default()
            };
            let leader = files.first().map_or(-1, AsRawFd::as_raw_fd);
            let (number, this, any) = (libc::SYS_perf_event_open, 0_i32, -1_i32);
            let attributes = &raw const attributes;
            // SAFETY: the structure is whole and lives through the call.
            let fd = unsafe { libc::syscall(number, attributes, this, any, leader, CLOSE_ON_EXEC) };
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            // SAFETY: the call returned a new descriptor.
            files.push(unsafe { File::from_raw_fd(fd as i32) });
        }
        let leader = files.first().map_or(-1, AsRawFd::as_raw_fd);
        // SAFETY: the call takes no memory.
        if unsafe { libc::ioctl(leader, ENABLE, 0) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let mut counters = Self {
            files,
            last: [0; EVENTS],
        };
        // A counter that cannot be read is none.
        counters.last = counters.take()?;
        Ok(counters)
    }

    fn take(&self) -> io::Result<[u64; EVENTS]> {
        let mut bytes = [0; WORDS * 8];
        let mut leader = self.files.first().ok_or(io::ErrorKind::NotFound)?;
        let len = leader.read(&mut bytes)?;
        let read = bytes.get(..len).and_then(parse);
        read.ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}

/// Reads the values of a group, scaled by the part of the time for which it ran. `None` if it is not one of
/// [`EVENTS`] events.
fn parse(bytes: &[u8]) -> Option<[u64; EVENTS]> {
    let words = bytes.as_chunks::<8>().0;
    let mut words = words.iter().map(|word| u64::from_ne_bytes(*word));
    let (count, enabled, running) = (words.next()?, words.next()?, words.next()?);
    if count != EVENTS as u64 {
        return None;
    }
    let mut values = [0; EVENTS];
    for value in &mut values {
        let counted = u128::from(words.next()?);
        *value = match running {
            0 => 0,
            running => (counted * u128::from(enabled) / u128::from(running)) as u64,
        };
    }
    Some(values)
}

impl Events for Counters {
    fn read(&mut self) -> [u64; EVENTS] {
        if let Ok(values) = self.take() {
            self.last = values;
        }
        self.last
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    fn bytes(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    #[test]
    fn a_group_is_scaled_to_the_time() {
        assert_eq!(parse(&bytes(&[3, 100, 100, 7, 8, 9])), Some([7, 8, 9]));
        assert_eq!(parse(&bytes(&[3, 100, 25, 7, 8, 9])), Some([28, 32, 36]));
        let large = u64::MAX / 2;
        assert_eq!(
            parse(&bytes(&[3, 200, 100, large, 0, 1])),
            Some([large * 2, 0, 2])
        );
        // A group that never ran has counted nothing.
        assert_eq!(parse(&bytes(&[3, 100, 0, 0, 0, 0])), Some([0; 3]));
        assert_eq!(parse(&bytes(&[2, 100, 100, 7, 8, 9])), None);
        assert_eq!(parse(&bytes(&[3, 100, 100, 7, 8])), None);
        assert_eq!(parse(&[]), None);
    }

    /// Events that the kernel counts itself stand for those of the machine: the clocks of the thread and of its CPU,
    /// and context switches.
    #[test]
    fn a_group_of_the_thread_is_read() {
        const SOFTWARE: [Event; EVENTS] = [(1, 1), (1, 0), (1, 3)];
        let mut counters = match Counters::open(SOFTWARE) {
            Ok(counters) => counters,
            Err(error) => {
                eprintln!("SKIPPED: perf_event_open: {error}");
                return;
            }
        };
        let [thread, cpu, _] = counters.read();
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(5) {}
        let [thread_then, cpu_then, _] = counters.read();
        assert!(thread_then > thread, "{thread} {thread_then}");
        assert!(cpu_then > cpu, "{cpu} {cpu_then}");
        // What the machine does not have is an error with a reason.
        let none = Counters::open([(u32::MAX, 0); EVENTS]).unwrap_err();
        assert!(none.raw_os_error().is_some());
    }
}
