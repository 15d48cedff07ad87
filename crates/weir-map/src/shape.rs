// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The sizes of keys and values: fixed by types, or given at run time.
#![allow(unsafe_code)] // views plain values as bytes

use core::marker::PhantomData;
use weir_sync::hash::FoldHasher;

/// A type whose every bit pattern is a value, without padding.
///
/// # Safety
/// The type has no padding bytes, no invalid bit patterns and no pointers or cells.
pub unsafe trait Plain: Copy + Send + Sync + 'static {}

macro_rules! plain {
    ($($type:ty),*) => { $(
        // SAFETY: integers have no padding and no invalid values.
        unsafe impl Plain for $type {}
    )* };
}
plain!(
    u8, u16, u32, u64, u128, i8, i16, i32, i64, i128, usize, isize
);
// SAFETY: an array has no padding between its elements.
unsafe impl<T: Plain, const N: usize> Plain for [T; N] {}

/// Returns the bytes of a value.
#[inline(always)]
pub(crate) fn bytes_of<T: Plain>(value: &T) -> &[u8] {
    // SAFETY: a plain value has no padding, so all its bytes are initialised.
    unsafe { core::slice::from_raw_parts(core::ptr::from_ref(value).cast(), size_of::<T>()) }
}

/// Returns the bytes of a value for writing.
#[inline(always)]
pub(crate) fn bytes_of_mut<T: Plain>(value: &mut T) -> &mut [u8] {
    // SAFETY: as in `bytes_of`, and any bytes are a plain value.
    unsafe { core::slice::from_raw_parts_mut(core::ptr::from_mut(value).cast(), size_of::<T>()) }
}

/// Returns a value of zeroes.
#[inline(always)]
pub(crate) fn zeroed<T: Plain>() -> T {
    // SAFETY: any bytes are a plain value.
    unsafe { core::mem::zeroed() }
}

/// The sizes of a map's keys and values.
pub trait Shape: Copy + Send + Sync + 'static {
    /// The size of a key in bytes.
    fn key_size(&self) -> usize;
    /// The size of a value in bytes.
    fn value_size(&self) -> usize;
}

/// Sizes fixed by types, known to the compiler.
#[derive(Debug)]
pub struct Of<K, V>(PhantomData<fn() -> (K, V)>);

impl<K, V> Of<K, V> {
    pub(crate) const NEW: Self = Self(PhantomData);
}

impl<K, V> Clone for Of<K, V> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<K, V> Copy for Of<K, V> {}

impl<K: Plain, V: Plain> Shape for Of<K, V> {
    #[inline(always)]
    fn key_size(&self) -> usize {
        size_of::<K>()
    }
    #[inline(always)]
    fn value_size(&self) -> usize {
        size_of::<V>()
    }
}

/// Sizes given at run time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// The size of a key in bytes.
    pub key: usize,
    /// The size of a value in bytes.
    pub value: usize,
}

impl Shape for Sizes {
    #[inline(always)]
    fn key_size(&self) -> usize {
        self.key
    }
    #[inline(always)]
    fn value_size(&self) -> usize {
        self.value
    }
}

/// Returns word `index` of a byte string, padded with zeroes at its end.
#[inline(always)]
pub(crate) fn word(bytes: &[u8], index: usize) -> u32 {
    let rest = &bytes[4 * index..];
    let mut word = [0; 4];
    if rest.len() >= 4 {
        word.copy_from_slice(&rest[..4]);
    } else {
        word[..rest.len()].copy_from_slice(rest);
    }
    u32::from_ne_bytes(word)
}

/// Stores word `index` of a byte string.
#[inline(always)]
pub(crate) fn set_word(bytes: &mut [u8], index: usize, word: u32) {
    let rest = &mut bytes[4 * index..];
    let len = rest.len().min(4);
    rest[..len].copy_from_slice(&word.to_ne_bytes()[..len]);
}

/// Returns the hash of a key.
#[inline(always)]
pub(crate) fn hash(key: &[u8]) -> u64 {
    use core::hash::Hasher;
    let mut hasher = FoldHasher::default();
    match key.len() {
        4 => hasher.write_u64(u64::from(word(key, 0))),
        8 => hasher.write_u64(u64::from(word(key, 0)) | u64::from(word(key, 1)) << 32),
        _ => hasher.write(key),
    }
    hasher.finish()
}

/// Folds a hash to the part that policies remember.
#[inline(always)]
pub(crate) fn fold(hash: u64) -> u32 {
    (hash ^ (hash >> 32)) as u32
}
