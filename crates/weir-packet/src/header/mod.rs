// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Typed views of protocol headers, one file per protocol.
//!
//! Each header has a read view (`Ipv4`) and a write view (`Ipv4Mut`) over the first bytes of a
//! slice. `new` returns `None` if the slice is too short, so no accessor can fail. Numbers are in
//! host order; addresses are arrays. Variable-length parts (options, extension headers) are walked
//! by iterators that report the first malformed element and end there.

/// The type of a header field and its encoding.
pub(crate) trait Field: Copy {
    fn read(bytes: &[u8], at: usize) -> Self;
    fn write(self, bytes: &mut [u8], at: usize);
}

macro_rules! number {
    ($($t:ty),*) => {$(
        impl Field for $t {
            #[inline(always)]
            fn read(bytes: &[u8], at: usize) -> $t {
                // The macro below passes only offsets inside the header.
                let b = bytes.get(at..).and_then(|b| b.first_chunk());
                b.map_or(0, |b| <$t>::from_be_bytes(*b))
            }
            #[inline(always)]
            fn write(self, bytes: &mut [u8], at: usize) {
                if let Some(b) = bytes.get_mut(at..).and_then(|b| b.first_chunk_mut()) {
                    *b = self.to_be_bytes();
                }
            }
        }
    )*};
}
number!(u8, u16, u32, u64);

impl<const N: usize> Field for [u8; N] {
    #[inline(always)]
    fn read(bytes: &[u8], at: usize) -> [u8; N] {
        let b = bytes.get(at..).and_then(|b| b.first_chunk());
        b.map_or([0; N], |b| *b)
    }
    #[inline(always)]
    fn write(self, bytes: &mut [u8], at: usize) {
        if let Some(b) = bytes.get_mut(at..).and_then(|b| b.first_chunk_mut()) {
            *b = self;
        }
    }
}

/// Defines the read view and the write view of a header of fixed length.
macro_rules! header {
    (
        $(#[$doc:meta])*
        $view:ident, $edit:ident, $len:literal {
            $($(#[$fdoc:meta])* $get:ident, $set:ident: $ty:ty = $at:literal;)*
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub struct $view<'a>(&'a [u8; $len]);

        impl<'a> $view<'a> {
            /// The size in bytes of the header, or of its fixed part.
            pub const LEN: usize = $len;

            /// Returns a view of the header at the start of `bytes`, or `None` if they are too
            /// short.
            #[inline]
            pub fn new(bytes: &'a [u8]) -> Option<Self> {
                bytes.first_chunk().map($view)
            }

            /// Returns the header's bytes.
            #[inline]
            pub fn bytes(&self) -> &'a [u8; $len] {
                self.0
            }

            $(
                $(#[$fdoc])*
                #[inline]
                pub fn $get(&self) -> $ty {
                    $crate::header::Field::read(self.0, $at)
                }
            )*
        }

        impl std::fmt::Debug for $view<'_> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($view))$(.field(stringify!($get), &self.$get()))*.finish()
            }
        }

        #[doc = concat!("Write view of [`", stringify!($view), "`].")]
        pub struct $edit<'a>(&'a mut [u8; $len]);

        impl<'a> $edit<'a> {
            /// Returns a view of the header at the start of `bytes`, or `None` if they are too
            /// short.
            #[inline]
            pub fn new(bytes: &'a mut [u8]) -> Option<Self> {
                bytes.first_chunk_mut().map($edit)
            }

            /// Does the same as [`new`](Self::new) and sets all bytes of the header to 0.
            #[inline]
            pub fn zeroed(bytes: &'a mut [u8]) -> Option<Self> {
                let b: &mut [u8; $len] = bytes.first_chunk_mut()?;
                b.fill(0);
                Some($edit(b))
            }

            /// Returns the read view.
            #[inline]
            pub fn view(&self) -> $view<'_> {
                $view(self.0)
            }

            $(
                #[doc = concat!("Sets [`", stringify!($view), "::", stringify!($get), "`].")]
                #[inline]
                pub fn $set(&mut self, v: $ty) -> &mut Self {
                    $crate::header::Field::write(v, self.0, $at);
                    self
                }
            )*
        }
    };
}

pub mod arp;
pub mod ethernet;
pub mod icmp;
pub mod ipv4;
pub mod ipv4_options;
pub mod ipv6;
pub mod ipv6_ext;
pub mod ndisc;
pub mod transport;

pub use arp::{Arp, ArpMut};
pub use ethernet::{
    ETH_P_8021AD, ETH_P_8021Q, ETH_P_ARP, ETH_P_IP, ETH_P_IPV6, Ethernet, EthernetMut, Vlan,
    VlanMut, is_multicast,
};
pub use icmp::{Icmp, IcmpMut};
pub use ipv4::{Ipv4, Ipv4Mut};
pub use ipv6::{Ipv6, Ipv6Mut};
pub use transport::{Tcp, TcpMut, Udp, UdpMut};
