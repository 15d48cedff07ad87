// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The same calls to a map of this crate and to one of the kernel: both give the same results. The
//! tests skip themselves where the bpf system call is not permitted.
#![allow(clippy::unwrap_used, reason = "a test may stop there")]
#![allow(unsafe_code, reason = "the bpf system call")]

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;

use weir_map::model::{self, Answer, Model, Operation};
use weir_map::{Error, Kind, LruOptions, Map, MapOfMaps, MapOptions, OuterKind, Spread, Update};

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
        let percpu_lists = options.lru.spread == Spread::PerCpu;
        // `BPF_F_NO_PREALLOC`, `BPF_F_NO_COMMON_LRU`.
        let flags = u64::from(options.kind == Kind::LpmTrie) | u64::from(percpu_lists) << 1;
        let mut attr = [0; 8];
        attr[0] = two(options.kind.number() as usize, options.key_size);
        attr[1] = two(options.value_size, options.max_entries as usize);
        attr[2] = flags;
        let fd = bpf(0, &mut attr)?;
        // SAFETY: the kernel has just made this descriptor for us.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Creates a map of maps.
    fn nested(kind: OuterKind, key: usize, entries: u32, template: &Self) -> Result<Self, Errno> {
        let mut attr = [0; 8];
        attr[0] = u64::from(kind.number()) | (key as u64) << 32;
        attr[1] = 4 | u64::from(entries) << 32;
        attr[2] = (template.0.as_raw_fd() as u64) << 32;
        let fd = bpf(0, &mut attr)?;
        // SAFETY: the kernel has just made this descriptor for us.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// The number by which the kernel knows the map (`BPF_OBJ_GET_INFO_BY_FD`).
    fn id(&self) -> u32 {
        let mut info = [0u32; 32];
        let mut attr = [0; 8];
        attr[0] = self.0.as_raw_fd() as u64 | (size_of_val(&info) as u64) << 32;
        attr[1] = info.as_mut_ptr() as u64;
        bpf(15, &mut attr).unwrap();
        info[1]
    }

    /// Makes a call.
    fn run(
        &self,
        operation: &Operation,
        options: &MapOptions,
        size: usize,
    ) -> Result<Answer, Errno> {
        let mut out = vec![0; size];
        match operation {
            Operation::LookUp(key) => self.look_up(key, &mut out).map(|()| Answer::Value(out)),
            Operation::Update(key, value, flags) => {
                self.update(key, value, *flags).map(|()| Answer::Done)
            }
            Operation::Delete(key) => self.delete(key).map(|()| Answer::Done),
            Operation::Take(key) => self.take(key, &mut out).map(|()| Answer::Value(out)),
            Operation::Freeze => self.freeze().map(|()| Answer::Done),
            Operation::Keys => {
                let keys = model::keys(options, |last, next| {
                    self.next_key(last, next).map_err(|error| {
                        assert_eq!(error, libc::ENOENT);
                        Error::NoEnt
                    })
                });
                Ok(Answer::Keys(keys.unwrap()))
            }
            Operation::Entries(count) => self.entries(24, options, size, *count),
            Operation::Drain(count) => self.entries(25, options, size, *count),
            Operation::UpdateBatch(entries) => {
                let (mut keys, mut values) = model::joined(entries);
                let count = entries.len();
                let (done, result) = self.batch(26, count, &mut keys, &mut values, [0; 2]);
                let result = result.map_err(|error| (done, error_of(error)));
                model::batch(count, result).map_err(Error::errno)
            }
            Operation::DeleteBatch(keys) => {
                let (count, mut joined) = (keys.len(), keys.concat());
                let (done, result) = self.batch(27, count, &mut joined, &mut [], [0; 2]);
                let result = result.map_err(|error| (done, error_of(error)));
                model::batch(count, result).map_err(Error::errno)
            }
        }
    }

    /// Makes a call for a batch; `places` are the addresses of `in_batch` and `out_batch`. Returns the count that the
    /// kernel wrote, too.
    fn batch(
        &self,
        command: u32,
        count: usize,
        keys: &mut [u8],
        values: &mut [u8],
        places: [u64; 2],
    ) -> (usize, Result<(), Errno>) {
        let mut attr = [0; 8];
        attr[..2].copy_from_slice(&places);
        attr[2] = keys.as_mut_ptr() as u64;
        attr[3] = values.as_mut_ptr() as u64;
        attr[4] = count as u64 | (self.0.as_raw_fd() as u64) << 32;
        let result = bpf(command, &mut attr).map(|_| ());
        (attr[4] as u32 as usize, result)
    }

    /// Collects entries by `BPF_MAP_LOOKUP_BATCH` or `BPF_MAP_LOOKUP_AND_DELETE_BATCH`, `count` at once, and more where a
    /// bucket has more.
    fn entries(
        &self,
        command: u32,
        options: &MapOptions,
        size: usize,
        count: usize,
    ) -> Result<Answer, Errno> {
        // The place in a hash has 4 bytes, that in an array or a trie is a key.
        let (mut places, mut begun, mut room) = ([[0u8; 32]; 2], false, count);
        let found = model::entries(options, count, || {
            loop {
                let (mut keys, mut values) =
                    (vec![0; room * options.key_size], vec![0; room * size]);
                let [input, output] = &mut places;
                let input = if begun { input.as_ptr() as u64 } else { 0 };
                let at = [input, output.as_mut_ptr() as u64];
                let (done, result) = self.batch(command, room, &mut keys, &mut values, at);
                if result == Err(libc::ENOSPC) && done == 0 {
                    room *= 2;
                    continue;
                }
                (begun, places[0]) = (true, places[1]);
                let keys = keys.chunks(options.key_size).map(<[u8]>::to_vec);
                let all = keys.zip(values.chunks(size).map(<[u8]>::to_vec));
                // The count of a call that is refused is the caller's.
                let done = match result {
                    Err(error) if error != libc::ENOENT => 0,
                    _ => done,
                };
                return (all.take(done).collect(), result.err().map(error_of));
            }
        });
        found.map_err(Error::errno)
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

/// Runs one sequence of calls. Returns whether the kernel permits it.
fn sequence(kind: Kind, seed: u64, calls: usize) -> bool {
    let mut random = Random(seed ^ u64::from(kind.number()) << 32);
    let (key_size, max_entries) = match kind {
        Kind::Array | Kind::PercpuArray => (4, random.of(&[1, 7, 16])),
        Kind::LpmTrie => (random.of(&[5, 6, 8]), random.of(&[1, 8, 64])),
        // Far more nodes than keys: neither map evicts.
        Kind::LruHash | Kind::LruPercpuHash => (random.of(&[4, 5, 8]), 1024),
        Kind::Hash | Kind::PercpuHash => (random.of(&[1, 4, 5, 8, 20]), random.of(&[1, 8, 40])),
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
    let mut bytes = std::iter::repeat_with(|| random.below(256) as u8);
    let same = |number: usize, operation: &Operation| {
        let (mine, theirs) = (operation.run(&ours), kernel.run(operation, &options, size));
        let context = format!("{options:?}, seed {seed}, call {number}, {operation:?}");
        assert_eq!(errno(mine), theirs, "{context}");
        // Iterations over an array have an order.
        if matches!(kind, Kind::Array | Kind::PercpuArray)
            && let Operation::LookUp(key) = operation
        {
            let (mut next, mut other) = (vec![0; 4], vec![0; 4]);
            let mine = errno(ours.next_key(Some(key), &mut next));
            let theirs = kernel.next_key(Some(key), &mut other);
            assert_eq!((mine, next), (theirs, other), "{context}");
        }
    };
    for number in 0..calls {
        let operation = Operation::draw(&options, size, &mut bytes).unwrap();
        same(number, &operation);
    }
    // All entries.
    let Ok(Answer::Keys(keys)) = Operation::Keys.run(&ours) else {
        panic!("an iteration failed");
    };
    same(calls, &Operation::Keys);
    for key in keys {
        same(calls, &Operation::LookUp(key));
    }
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

/// Returns the error of an errno.
fn error_of(errno: Errno) -> Error {
    let all = [
        Error::Inval,
        Error::NoEnt,
        Error::Exist,
        Error::TooBig,
        Error::NoMem,
        Error::NoSpc,
        Error::Perm,
        Error::NotSupp,
    ];
    let found = all.into_iter().find(|error| error.errno() == errno);
    found.unwrap_or_else(|| panic!("errno {errno}"))
}

/// Runs a sequence of calls of LRU maps that are full. Which entries such a map evicts is its own affair, so each
/// map's results are compared with a model that permits losses. Of ours no entry may go, and nothing may fail, when an
/// existing key is updated. Returns whether the kernel permits it.
fn full(kind: Kind, seed: u64, calls: usize) -> bool {
    let mut random = Random(seed ^ u64::from(kind.number()) << 40);
    let options = MapOptions {
        kind,
        key_size: random.of(&[4, 5, 8]),
        value_size: random.of(&[1, 8, 13]),
        max_entries: random.of(&[1, 7, 20, 33]),
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
    // The kernel's may lose an entry from the second insertion on: nodes wait on the lists of other CPUs.
    let mut early = options;
    early.lru.spread = Spread::PerCpu;
    early.lru.cpus = Some(options.max_entries as usize);
    let mut models = [Model::new(options, size), Model::new(early, size)];
    let mut bytes = std::iter::repeat_with(|| random.below(256) as u8);
    let keys = || Operation::Keys.run(&ours).unwrap();
    for number in 0..calls {
        let operation = Operation::draw(&options, size, &mut bytes).unwrap();
        let context = format!("{options:?}, seed {seed}, call {number}, {operation:?}");
        let mut before = None;
        if let Operation::Update(key, ..) = &operation
            && ours.look_up(key, &mut vec![0; size]).is_ok()
        {
            before = Some(keys());
        }
        let mine = operation.run(&ours);
        if let Some(before) = before {
            assert!(mine != Err(Error::NoMem) && keys() == before, "{context}");
        }
        let theirs = kernel.run(&operation, &options, size).map_err(error_of);
        for (name, result, model) in [("ours", mine), ("the kernel's", theirs)]
            .into_iter()
            .zip(&mut models)
            .map(|((name, result), model)| (name, result, model))
        {
            let judged = model.judge(&operation, &result);
            assert_eq!(judged, Ok(()), "{name}: {context}");
        }
    }
    true
}

#[test]
fn full_lru_maps_lose_entries_and_nothing_else() {
    let short = cfg!(debug_assertions) || std::env::var_os("WEIR_TEST_SHORT").is_some();
    for kind in [Kind::LruHash, Kind::LruPercpuHash] {
        for seed in 0..if short { 50 } else { 1000 } {
            if !full(kind, seed, 1000) {
                return eprintln!("SKIPPED: the bpf system call is not permitted");
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

/// Runs one sequence of calls of a map of maps. Returns whether the kernel permits it.
fn nested(kind: OuterKind, seed: u64, calls: usize) -> bool {
    let mut random = Random(seed ^ u64::from(kind.number()) << 32);
    let inner_kind = random.of(&[Kind::Hash, Kind::Array, Kind::LruHash, Kind::PercpuArray]);
    let template = MapOptions {
        kind: inner_kind,
        key_size: 4,
        value_size: 8,
        max_entries: 4,
        lru: LruOptions {
            cpus: Some(possible_cpus()),
            ..LruOptions::default()
        },
    };
    // The first one is the template. Some others differ from it.
    let mut all = vec![template; 6];
    all[1].max_entries = 5;
    all[2].value_size = 4;
    all[3].kind = random.of(&[Kind::Hash, Kind::Array, Kind::LpmTrie]);
    if inner_kind == Kind::LruHash {
        all[4].lru.spread = Spread::PerCpu;
    }
    if all[3].kind == Kind::LpmTrie {
        all[3].key_size = 8;
    }
    let mut kernels = Vec::new();
    for options in &all {
        match Kernel::new(options) {
            Ok(kernel) => kernels.push(kernel),
            Err(libc::EPERM | libc::ENOSYS) => return false,
            Err(error) => panic!("{options:?}: {error}"),
        }
    }
    let ids: Vec<u32> = kernels.iter().map(Kernel::id).collect();
    let inner: Vec<_> = all
        .iter()
        .map(|&o| Arc::new(Map::new(o).unwrap()))
        .collect();
    let (key_size, max_entries) = match kind {
        OuterKind::Array => (4, random.of(&[1, 7])),
        OuterKind::Hash => (random.of(&[1, 4, 9]), random.of(&[1, 3, 12])),
    };
    let kernel = Kernel::nested(kind, key_size, max_entries, &kernels[0]).unwrap();
    let domain = weir_sync::rcu::Domain::default();
    let ours = MapOfMaps::new(&domain, kind, key_size, max_entries, &inner[0]).unwrap();
    for call in 0..calls {
        let mut key = vec![0; key_size];
        key[0] = random.below(16) as u8;
        let what = random.below(1000);
        let context = format!("{kind:?} of {template:?}, seed {seed}, call {call}, key {key:?}");
        match what {
            0 => assert_eq!(errno(ours.freeze()), kernel.freeze(), "{context}"),
            1..400 => {
                let (which, flags) = (random.below(6) as usize, random.of(&[0, 0, 0, 1, 2]));
                let fd = kernels[which].0.as_raw_fd().to_ne_bytes();
                let mode = Update::from_flags(flags).unwrap();
                let mine = errno(ours.update(&key, inner[which].clone(), mode));
                let theirs = kernel.update(&key, &fd, flags);
                assert_eq!(mine, theirs, "{context}, {which}, flags {flags}");
            }
            400..800 => {
                let mut id = [0; 4];
                let theirs = kernel.look_up(&key, &mut id);
                let guard = domain.pin();
                let mine = errno(ours.look_up(&key, &guard).map(|found| {
                    let at = inner
                        .iter()
                        .position(|map| std::ptr::eq(&raw const **map, found));
                    ids[at.unwrap()]
                }));
                let theirs = theirs.map(|()| u32::from_ne_bytes(id));
                assert_eq!(mine, theirs, "{context}");
            }
            800..950 => assert_eq!(errno(ours.delete(&key)), kernel.delete(&key), "{context}"),
            _ => {
                // Only the keys are compared, so the kind of hash will do.
                let options = MapOptions {
                    kind: Kind::Hash,
                    key_size,
                    max_entries,
                    ..template
                };
                let mine = model::keys(&options, |last, next| ours.next_key(last, next)).unwrap();
                let theirs = kernel.run(&Operation::Keys, &options, 4);
                assert_eq!(Ok(Answer::Keys(mine)), theirs, "{context}");
            }
        }
    }
    true
}

/// The kernel waits for a grace period after each update, and one grace period serves all threads. So
/// the sequences run side by side.
#[test]
fn maps_of_maps_are_like_the_kernels() {
    let short = cfg!(debug_assertions) || std::env::var_os("WEIR_TEST_SHORT").is_some();
    let (sequences, calls) = if short { (40, 200) } else { (1000, 1000) };
    for kind in [OuterKind::Array, OuterKind::Hash] {
        for first in (0..sequences).step_by(100) {
            let permitted = std::thread::scope(|scope| {
                let run = |seed| scope.spawn(move || nested(kind, seed, calls));
                let end = sequences.min(first + 100);
                let threads: Vec<_> = (first..end).map(run).collect();
                threads.into_iter().all(|thread| thread.join().unwrap())
            });
            if !permitted {
                return eprintln!("SKIPPED: the bpf system call is not permitted");
            }
        }
    }
}

#[test]
fn maps_of_maps_are_refused_as_by_the_kernel() {
    let template = MapOptions {
        kind: Kind::Hash,
        key_size: 4,
        value_size: 8,
        max_entries: 4,
        lru: LruOptions::default(),
    };
    let kernel = match Kernel::new(&template) {
        Err(libc::EPERM | libc::ENOSYS) => return eprintln!("SKIPPED: bpf"),
        other => other.unwrap(),
    };
    let (ours, domain) = (
        Map::new(template).unwrap(),
        weir_sync::rcu::Domain::default(),
    );
    for kind in [OuterKind::Array, OuterKind::Hash] {
        for key_size in [0, 1, 4, 8, 512] {
            for entries in [0, 1, 100] {
                let theirs = Kernel::nested(kind, key_size, entries, &kernel).map(|_| ());
                let mine = MapOfMaps::new(&domain, kind, key_size, entries, &ours).map(|_| ());
                assert_eq!(errno(mine), theirs, "{kind:?} {key_size} {entries}");
            }
        }
    }
}
