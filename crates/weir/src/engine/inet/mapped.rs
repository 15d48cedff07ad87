// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory that a program maps: the ring of its packet socket. It is a file in memory, which the stack writes.

use std::fs::File;
use std::os::unix::fs::FileExt;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};

/// A file of a fixed length in memory.
pub(super) struct Mapped {
    pub(super) file: File,
    /// In bytes.
    pub(super) length: usize,
}

impl Mapped {
    /// Makes a file of this length, all zero. `None` if the host gives none.
    pub(super) fn new(length: usize) -> Option<Self> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = File::from(memfd_create("packet ring", flags).ok()?);
        file.set_len(length as u64).ok()?;
        // The program can neither shorten it nor make it longer.
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL).ok()?;
        Some(Self { file, length })
    }
}

impl weir_socket::Memory for Mapped {
    fn byte(&self, at: usize) -> u8 {
        let mut byte = [0];
        // It is as long as the ring.
        let _ = self.file.read_exact_at(&mut byte, at as u64);
        byte[0]
    }

    fn write(&self, at: usize, bytes: &[u8]) {
        let _ = self.file.write_all_at(bytes, at as u64);
    }
}
