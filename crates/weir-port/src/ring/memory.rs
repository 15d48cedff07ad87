// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files in memory and their mappings. Every access is checked against the length of the mapping.
#![allow(unsafe_code)] // memory shared with another process

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// Nobody may shorten, lengthen or unseal the file.
pub const FIXED: i32 = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
/// Nobody may make another mapping that can write, or write in any other way.
pub const READ_ONLY: i32 = libc::F_SEAL_FUTURE_WRITE;

/// Makes a file of `bytes` zeros in memory. The memory is reserved: a page that is touched later
/// exists already.
pub fn file(name: &CStr, bytes: usize) -> io::Result<OwnedFd> {
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: the name ends with a NUL.
    let fd = unsafe { libc::memfd_create(name.as_ptr(), flags) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just returned the descriptor, and nobody else has it.
    let file = unsafe { OwnedFd::from_raw_fd(fd) };
    let bytes = libc::off_t::try_from(bytes).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: no pointers.
    match unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, bytes) } {
        0 => Ok(file),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Seals a file of [`file`].
pub fn seal(file: &impl AsFd, seals: i32) -> io::Result<()> {
    // SAFETY: no pointers.
    match unsafe { libc::fcntl(file.as_fd().as_raw_fd(), libc::F_ADD_SEALS, seals) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Returns the seals of a file, and its length in bytes.
pub fn state(file: &impl AsFd) -> io::Result<(i32, usize)> {
    let fd = file.as_fd().as_raw_fd();
    // SAFETY: no pointers.
    let seals = unsafe { libc::fcntl(fd, libc::F_GET_SEALS) };
    if seals < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: all-zero is a valid `stat`, which the kernel fills.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: the structure lives during the call.
    match unsafe { libc::fstat(fd, &raw mut stat) } {
        0 => Ok((seals, usize::try_from(stat.st_size).unwrap_or(0))),
        _ => Err(io::Error::last_os_error()),
    }
}

/// A mapping of a whole file, which other processes may read or write at any time.
#[derive(Debug)]
pub struct Map {
    base: NonNull<u8>,
    bytes: usize,
    writable: bool,
}

// SAFETY: the mapping stays at its place until it is dropped, and all accesses are atomic words or
// copies of bytes through raw pointers. Copies may race with those of other processes and threads;
// their bytes are then undefined, which callers take into account.
unsafe impl Send for Map {}
// SAFETY: as above.
unsafe impl Sync for Map {}

impl Map {
    /// Maps the first `bytes` of a file, which is sealed against shrinking.
    pub fn new(file: &impl AsFd, bytes: usize, writable: bool) -> io::Result<Self> {
        let access = match writable {
            true => libc::PROT_READ | libc::PROT_WRITE,
            false => libc::PROT_READ,
        };
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        let (none, fd) = (std::ptr::null_mut(), file.as_fd().as_raw_fd());
        // SAFETY: the kernel chooses the place of a new mapping.
        let base = unsafe { libc::mmap(none, bytes, access, flags, fd, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::InvalidData)?;
        Ok(Self {
            base,
            bytes,
            writable,
        })
    }

    /// Returns the word at a position, a multiple of 8. Panics if it is outside.
    #[inline]
    fn word(&self, at: usize) -> &AtomicU64 {
        assert!(
            at.is_multiple_of(8) && at + 8 <= self.bytes,
            "outside the mapping"
        );
        // SAFETY: the word is inside the mapping, which is aligned to a page and lives as long as
        // `self`. All accesses to it are atomic.
        unsafe { self.base.add(at).cast().as_ref() }
    }

    /// Loads the word at a position.
    #[inline]
    pub fn load(&self, at: usize, order: Ordering) -> u64 {
        self.word(at).load(order)
    }

    /// Stores the word at a position. Panics if the mapping is read-only.
    #[inline]
    pub fn store(&self, at: usize, value: u64, order: Ordering) {
        assert!(self.writable, "a mapping to read");
        self.word(at).store(value, order);
    }

    /// Exchanges the word at a position. Panics if the mapping is read-only.
    #[inline]
    pub fn swap(&self, at: usize, value: u64, order: Ordering) -> u64 {
        assert!(self.writable, "a mapping to read");
        self.word(at).swap(value, order)
    }

    /// Copies bytes to a position. Panics if they do not fit or the mapping is read-only.
    #[inline]
    pub fn write(&self, at: usize, bytes: &[u8]) {
        let fits = at <= self.bytes && bytes.len() <= self.bytes - at;
        assert!(self.writable && fits, "outside the mapping");
        // SAFETY: the target is inside the mapping, which no Rust reference to bytes exists of.
        unsafe {
            self.base
                .add(at)
                .copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len());
        }
    }

    /// Copies bytes from a position. Panics if the mapping has fewer.
    pub fn read(&self, at: usize, bytes: &mut [u8]) {
        let fits = at <= self.bytes && bytes.len() <= self.bytes - at;
        assert!(fits, "outside the mapping");
        // SAFETY: the source is inside the mapping, and the target is a slice of its own.
        unsafe {
            self.base
                .add(at)
                .copy_to_nonoverlapping(NonNull::from(&mut *bytes).cast(), bytes.len());
        }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: the mapping was made with this length, and no reference to it is left.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}
