// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fixed headers and plain structures of the wire format, read and written field by field.
//!
//! Each mirrors the Linux structure named in its comment: the same fields in the same order, in
//! native byte order unless stated otherwise, with the holes of the C layout as fields named `pad`.
//! The prefixes of the C field names are dropped, and `type` becomes `ty`.

mod base;
mod link;
mod tc;

pub use base::*;
pub use link::*;
pub use tc::*;

/// A structure of known length.
pub trait Fixed: Sized {
    /// The length on the wire, in bytes.
    const LEN: usize;
    /// Reads the structure from the start of `bytes`. Returns `None` if they are too short.
    fn from_bytes(bytes: &[u8]) -> Option<Self>;
    /// Writes the structure to the start of `room`. Writes nothing if `room` is too short.
    fn write(&self, room: &mut [u8]);
    /// Returns the structure's bytes.
    fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; Self::LEN];
        self.write(&mut bytes);
        bytes
    }
}

/// A field of such a structure.
pub trait Field: Sized {
    /// The length in bytes.
    const SIZE: usize;
    /// Reads the field from exactly [`SIZE`](Self::SIZE) bytes. Returns zero if there are fewer.
    fn get(bytes: &[u8]) -> Self;
    /// Writes the field to exactly [`SIZE`](Self::SIZE) bytes.
    fn put(&self, room: &mut [u8]);
}

macro_rules! integers {
    ($($ty:ty)*) => {$(
        impl Field for $ty {
            const SIZE: usize = size_of::<$ty>();
            #[inline]
            fn get(bytes: &[u8]) -> Self {
                bytes.first_chunk().map_or(0, |b| <$ty>::from_ne_bytes(*b))
            }
            #[inline]
            fn put(&self, room: &mut [u8]) {
                if let Some(room) = room.first_chunk_mut() {
                    *room = self.to_ne_bytes();
                }
            }
        }
    )*};
}
integers!(u8 u16 u32 u64 i8 i16 i32 i64);

impl<T: Field, const N: usize> Field for [T; N] {
    const SIZE: usize = T::SIZE * N;
    #[inline]
    fn get(bytes: &[u8]) -> Self {
        std::array::from_fn(|i| T::get(bytes.get(i * T::SIZE..).unwrap_or_default()))
    }
    #[inline]
    fn put(&self, room: &mut [u8]) {
        for (value, room) in self.iter().zip(room.chunks_exact_mut(T::SIZE.max(1))) {
            value.put(room);
        }
    }
}

/// Defines structures: name, length, fields in order.
macro_rules! fixed {
    ($($(#[$doc:meta])* $name:ident($len:literal) {
        $($(#[$fdoc:meta])* $field:ident: $ty:ty),* $(,)?
    })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs)] // The fields are Linux's.
        pub struct $name {
            $($(#[$fdoc])* pub $field: $ty,)*
        }

        const _: () = assert!(
            0 $(+ <$ty as $crate::header::Field>::SIZE)* == $len,
            "the fields add up to Linux's length"
        );

        impl $crate::header::Field for $name {
            const SIZE: usize = $len;
            #[inline]
            fn get(bytes: &[u8]) -> Self {
                let at = 0;
                $(
                    let end = at + <$ty as $crate::header::Field>::SIZE;
                    let $field = <$ty as $crate::header::Field>::get(
                        bytes.get(at..end).unwrap_or_default(),
                    );
                    let at = end;
                )*
                let _ = at;
                $name { $($field),* }
            }
            #[inline]
            fn put(&self, room: &mut [u8]) {
                let at = 0;
                $(
                    let end = at + <$ty as $crate::header::Field>::SIZE;
                    if let Some(room) = room.get_mut(at..end) {
                        $crate::header::Field::put(&self.$field, room);
                    }
                    let at = end;
                )*
                let _ = at;
            }
        }

        impl $crate::header::Fixed for $name {
            const LEN: usize = $len;
            #[inline]
            fn from_bytes(bytes: &[u8]) -> Option<Self> {
                let bytes = bytes.first_chunk::<$len>()?;
                Some($crate::header::Field::get(bytes.as_slice()))
            }
            #[inline]
            fn write(&self, room: &mut [u8]) {
                if let Some(room) = room.first_chunk_mut::<$len>() {
                    $crate::header::Field::put(self, room.as_mut_slice());
                }
            }
        }

        impl Default for $name {
            fn default() -> Self {
                $crate::header::Field::get(&[0; $len])
            }
        }
    )*};
}
pub(crate) use fixed;
