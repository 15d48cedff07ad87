// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The errors of map operations: those of the bpf system call.

use core::fmt;

/// An error of a map operation, named as Linux names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Error {
    /// The map is frozen.
    Perm,
    /// The key is not in the map, or an iteration is at its end.
    NoEnt,
    /// A size, a flag or a key is not valid.
    Inval,
    /// The map is full, or an index is out of range, or a size is too large.
    TooBig,
    /// Memory, or the nodes of the map, ran out.
    NoMem,
    /// The trie is full.
    NoSpc,
    /// The key is in the map already.
    Exist,
    /// The kind of map does not have the operation.
    NotSupp,
}

impl Error {
    /// Returns Linux's number of the error, as in `errno`.
    pub const fn errno(self) -> i32 {
        match self {
            Self::Perm => libc::EPERM,
            Self::NoEnt => libc::ENOENT,
            Self::Inval => libc::EINVAL,
            Self::TooBig => libc::E2BIG,
            Self::NoMem => libc::ENOMEM,
            Self::NoSpc => libc::ENOSPC,
            Self::Exist => libc::EEXIST,
            Self::NotSupp => 524,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Perm => "the map is frozen",
            Self::NoEnt => "no such key",
            Self::Inval => "invalid size, flag or key",
            Self::TooBig => "the map is full, or a size or index is too large",
            Self::NoMem => "out of memory",
            Self::NoSpc => "the trie is full",
            Self::Exist => "the key exists",
            Self::NotSupp => "this kind of map does not have the operation",
        })
    }
}

impl core::error::Error for Error {}

/// The condition of an update, `BPF_ANY`, `BPF_NOEXIST` or `BPF_EXIST`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Update {
    /// Inserts the key or replaces its value.
    #[default]
    Any,
    /// Inserts the key, and fails with [`Error::Exist`] if it is present.
    NoExist,
    /// Replaces the value, and fails with [`Error::NoEnt`] if the key is absent.
    Exist,
}

impl Update {
    /// Returns the condition of `flags` as the bpf system call has it.
    ///
    /// # Errors
    /// [`Error::Inval`] for any other flag; `BPF_F_LOCK` is not served.
    pub const fn from_flags(flags: u64) -> Result<Self, Error> {
        match flags {
            0 => Ok(Self::Any),
            1 => Ok(Self::NoExist),
            2 => Ok(Self::Exist),
            _ => Err(Error::Inval),
        }
    }
}
