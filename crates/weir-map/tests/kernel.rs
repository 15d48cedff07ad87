// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The same calls to a map of this crate and to one of the kernel: both give the same results. The
//! tests skip themselves where the bpf system call is not permitted.
#![allow(clippy::unwrap_used, reason = "a test may stop there")]
#![allow(unsafe_code, reason = "the bpf system call")]

use std::collections::BTreeSet;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use weir_map::{Kind, LruOptions, Map, MapOptions, Update};

/// A system call's errno.
type Errno = i32;

fn bpf(command: u32, attr: &mut [u64; 8]) -> Result<i32, Errno> {
    let size = size_of_val(attr);
    // SAFETY: `attr` holds the attributes and lives during the call; the pointers in it are to
    // buffers of the map's sizes, which the callers own.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, attr.as_mut_ptr(), size) };
    if result < 0 {
        Err(std::io::Error::last_os_error().raw_os_error().unwrap())
    } else {
        Ok(result as i32)
    }
}

/// A map of the kernel.
struct Kernel(OwnedFd);

impl Kernel {
    fn new(options: &MapOptions) -> Result<Self, Errno> {
        let two = |low: usize, high: usize| low as u64 | (high as u64) << 32;
        let flags = u64::from(options.kind == Kind::LpmTrie);
        let mut attr = [0; 8];
        attr[0] = two(options.kind.number() as usize, options.key_size);
        attr[1] = two(options.value_size, options.max_entries as usize);
        attr[2] = flags;
        let fd = bpf(0, &mut attr)?;
        // SAFETY: the kernel has just made this descriptor for us.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    fn call(&self, command: u32, key: Option<&[u8]>, value: u64, flags: u64) -> Result<(), Errno> {
        let mut attr = [0; 8];
        attr[0] = self.0.as_raw_fd() as u64;
        attr[1] = key.map_or(0, |key| key.as_ptr() as u64);
        attr[2] = value;
        attr[3] = flags;
        bpf(command, &mut attr).map(|_| ())
    }

    fn look_up(&self, key: &[u8], value: &mut [u8]) -> Result<(), Errno> {
        self.call(1, Some(key), value.as_mut_ptr() as u64, 0)
    }
    fn update(&self, key: &[u8], value: &[u8], flags: u64) -> Result<(), Errno> {
        self.call(2, Some(key), value.as_ptr() as u64, flags)
    }
    fn delete(&self, key: &[u8]) -> Result<(), Errno> {
        self.call(3, Some(key), 0, 0)
    }
    fn next_key(&self, key: Option<&[u8]>, next: &mut [u8]) -> Result<(), Errno> {
        self.call(4, key, next.as_mut_ptr() as u64, 0)
    }
    fn take(&self, key: &[u8], value: &mut [u8]) -> Result<(), Errno> {
        self.call(21, Some(key), value.as_mut_ptr() as u64, 0)
    }
    fn freeze(&self) -> Result<(), Errno> {
        self.call(22, None, 0, 0)
    }
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }

    fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }
}

/// The number of CPUs that the kernel keeps values for.
fn possible_cpus() -> usize {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/possible").unwrap();
    let last = text.trim().rsplit(['-', ',']).next().unwrap();
    last.parse::<usize>().unwrap() + 1
}

fn errno<T>(result: Result<T, weir_map::Error>) -> Result<T, Errno> {
    result.map_err(weir_map::Error::errno)
}

/// Returns the key of a trie with zeroes after its prefix. The kernel keeps what was there.
fn prefix(key: &[u8]) -> Vec<u8> {
    let length = u32::from_ne_bytes(key[..4].try_into().unwrap()) as usize;
    let mut prefix = key.to_vec();
    for (at, byte) in prefix[4..].iter_mut().enumerate() {
        *byte &= !(0xffu32 >> length.saturating_sub(8 * at).min(8)) as u8;
    }
    prefix
}

/// `BPF_MAP_GET_NEXT_KEY` of a map.
type NextKey<'a> = dyn Fn(Option<&[u8]>, &mut [u8]) -> Result<(), Errno> + 'a;

/// Compares all entries of both maps.
fn same_entries(ours: &Map, kernel: &Kernel, context: &str) {
    let size = ours.options().key_size;
    let trie = ours.options().kind == Kind::LpmTrie;
    let keys = |next: &NextKey<'_>| {
        let mut keys = BTreeSet::new();
        let mut last: Option<Vec<u8>> = None;
        loop {
            let mut key = vec![0; size];
            match next(last.as_deref(), &mut key) {
                Ok(()) => {
                    let prefix = if trie { prefix(&key) } else { key.clone() };
                    assert!(keys.insert(prefix), "{context}: twice {key:?}");
                }
                Err(error) => {
                    assert_eq!(error, libc::ENOENT, "{context}");
                    return keys;
                }
            }
            last = Some(key);
        }
    };
    let mine = keys(&|key, next| errno(ours.next_key(key, next)));
    assert_eq!(
        mine,
        keys(&|key, next| kernel.next_key(key, next)),
        "{context}"
    );
    for key in mine {
        let mut values = [vec![0; ours.value_size()], vec![0; ours.value_size()]];
        assert_eq!(
            errno(ours.look_up(&key, &mut values[0])),
            Ok(()),
            "{context}"
        );
        assert_eq!(kernel.look_up(&key, &mut values[1]), Ok(()), "{context}");
        assert_eq!(values[0], values[1], "{context}: {key:?}");
    }
}

/// Runs one sequence of calls. Returns whether the kernel permits it.
fn sequence(kind: Kind, seed: u64, calls: usize) -> bool {
    let mut random = Random(seed ^ u64::from(kind.number()) << 32);
    let (key_size, max_entries, keys) = match kind {
        Kind::Array | Kind::PercpuArray => (4, random.of(&[1, 7, 16]), 18),
        Kind::LpmTrie => (random.of(&[5, 6, 8]), random.of(&[1, 8, 64]), 256),
        // Far more nodes than keys: neither map evicts.
        Kind::LruHash | Kind::LruPercpuHash => (random.of(&[4, 5, 8]), 1024, 40),
        Kind::Hash | Kind::PercpuHash => (random.of(&[1, 4, 5, 8, 20]), random.of(&[1, 8, 40]), 24),
    };
    let options = MapOptions {
        kind,
        key_size,
        value_size: random.of(&[1, 4, 8, 12, 13, 64]),
        max_entries,
        lru: LruOptions {
            cpus: Some(possible_cpus()),
            ..LruOptions::default()
        },
    };
    let kernel = match Kernel::new(&options) {
        Ok(kernel) => kernel,
        Err(libc::EPERM | libc::ENOSYS) => return false,
        Err(error) => panic!("{options:?}: {error}"),
    };
    let ours = Map::new(options).unwrap();
    let size = ours.value_size();
    let mut frozen = false;
    for call in 0..calls {
        let mut key = vec![0; key_size];
        let number = random.below(keys) as u32;
        if kind == Kind::LpmTrie {
            let bits = 8 * (key_size as u64 - 4);
            key[..4].copy_from_slice(&(random.below(bits + 2) as u32).to_ne_bytes());
            for byte in &mut key[4..] {
                *byte = random.of(&[0, 0, 0x80, 0xc0, 0xff, 1]);
            }
        } else {
            let len = key_size.min(4);
            key[..len].copy_from_slice(&number.to_ne_bytes()[..len]);
            if key_size > 4 {
                key[key_size - 1] = number as u8;
            }
        }
        let (mut value, mut other) = (vec![0; size], vec![0; size]);
        let what = random.below(1000);
        let context = format!("{options:?}, seed {seed}, call {call}, {what}, key {key:?}");
        match what {
            0 => {
                frozen = true;
                assert_eq!(errno(ours.freeze()), kernel.freeze(), "{context}");
            }
            1..500 => {
                // A frozen map of the kernel refuses before it looks at the flags.
                let flags = random.of(&[0, 0, 1, 2, if frozen { 0 } else { 3 }]);
                for byte in &mut value {
                    *byte = random.below(256) as u8;
                }
                // The padding of a CPU's value is not part of it.
                if kind.is_percpu() {
                    for value in value.chunks_mut(options.value_size.next_multiple_of(8)) {
                        value[options.value_size..].fill(0);
                    }
                }
                let mine =
                    Update::from_flags(flags).and_then(|mode| ours.update(&key, &value, mode));
                let theirs = kernel.update(&key, &value, flags);
                assert_eq!(errno(mine), theirs, "{context} flags {flags}");
            }
            500..750 => {
                let result = errno(ours.look_up(&key, &mut value));
                assert_eq!(result, kernel.look_up(&key, &mut other), "{context}");
                assert_eq!(value, other, "{context}");
            }
            750..900 => {
                assert_eq!(errno(ours.delete(&key)), kernel.delete(&key), "{context}");
            }
            900..990 => {
                let result = errno(ours.take(&key, &mut value));
                assert_eq!(result, kernel.take(&key, &mut other), "{context}");
                if result.is_ok() {
                    assert_eq!(value, other, "{context}");
                }
            }
            990.. if matches!(kind, Kind::Array | Kind::PercpuArray) => {
                let (mut next, mut other) = (vec![0; 4], vec![0; 4]);
                let result = errno(ours.next_key(Some(&key), &mut next));
                assert_eq!(result, kernel.next_key(Some(&key), &mut other), "{context}");
                assert_eq!(next, other, "{context}");
            }
            _ => same_entries(&ours, &kernel, &context),
        }
    }
    same_entries(&ours, &kernel, &format!("{options:?}, seed {seed}, end"));
    true
}

/// Runs 1,000 sequences of 1,000 calls of each kind; fewer with `WEIR_TEST_SHORT`, and in a debug build.
#[test]
fn every_kind_is_like_the_kernels() {
    let short = cfg!(debug_assertions) || std::env::var_os("WEIR_TEST_SHORT").is_some();
    for kind in Kind::ALL {
        for seed in 0..if short { 50 } else { 1000 } {
            if !sequence(kind, seed, 1000) {
                eprintln!("SKIPPED: the bpf system call is not permitted");
                return;
            }
        }
    }
}

/// Keys beyond 512 bytes are not served; newer kernels serve them.
#[test]
fn sizes_are_refused_as_by_the_kernel() {
    for kind in Kind::ALL {
        for key_size in [0, 1, 4, 5, 260, 261, 512] {
            for value_size in [0, 1, 8, 32 << 10, (32 << 10) + 1] {
                for max_entries in [0, 1, 100] {
                    let options = MapOptions {
                        kind,
                        key_size,
                        value_size,
                        max_entries,
                        lru: LruOptions {
                            cpus: Some(possible_cpus()),
                            ..LruOptions::default()
                        },
                    };
                    let theirs = match Kernel::new(&options) {
                        Err(libc::EPERM | libc::ENOSYS) => return eprintln!("SKIPPED: bpf"),
                        other => other.map(|_| ()),
                    };
                    let mine = errno(Map::new(options)).map(|_| ());
                    assert_eq!(mine, theirs, "{options:?}");
                }
            }
        }
    }
}
