// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A packet's frame as it looks on the wire, with its accelerated VLAN tag back in place, without a
//! copy.

use crate::Packet;

/// The length of the addresses, after which a tag stands.
const ADDRESSES: usize = 12;

/// A frame whose VLAN tag may still be in the packet's metadata.
#[derive(Debug, Clone, Copy)]
pub struct Tagged<'a> {
    data: &'a [u8],
    tag: Option<[u8; 4]>,
}

impl<'a> Tagged<'a> {
    /// Returns the frame of a packet whose data begins with it.
    #[inline]
    pub fn of(packet: &'a Packet) -> Self {
        Self::new(packet, packet.data())
    }

    /// Returns the frame of a packet whose data may begin at any header. It begins with the
    /// link-layer header if that still exists.
    pub fn whole(packet: &'a Packet) -> Self {
        let whole = packet.pulled_from_mac().is_some_and(|pulled| pulled > 0);
        let data = if whole { packet.mac() } else { packet.data() };
        Self::new(packet, data)
    }

    #[inline]
    fn new(packet: &Packet, data: &'a [u8]) -> Self {
        let tag = packet.vlan().filter(|_| data.len() >= ADDRESSES);
        let tag = tag.map(|tag| {
            let ([a, b], [c, d]) = (tag.proto.to_be_bytes(), tag.tci.to_be_bytes());
            [a, b, c, d]
        });
        Self { data, tag }
    }

    /// Returns the parts of the frame in order.
    #[inline]
    pub fn pieces(&self) -> [&[u8]; 3] {
        match &self.tag {
            Some(tag) => {
                let (addresses, rest) = self.data.split_at(ADDRESSES);
                [addresses, tag, rest]
            }
            None => [self.data, &[], &[]],
        }
    }

    /// Returns the number of bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.data.len() + self.tag.map_or(0, |tag| tag.len())
    }

    /// Returns whether the frame has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the `N` bytes at a position, or `None` if the frame ends before.
    #[inline]
    pub fn array<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        let Some(tag) = &self.tag else {
            return self.data.get(at..)?.first_chunk().copied();
        };
        let byte = |at: usize| match at.checked_sub(ADDRESSES) {
            None => self.data.get(at),
            Some(past) => tag.get(past).or_else(|| self.data.get(at - tag.len())),
        };
        let mut bytes = [0; N];
        for (n, to) in bytes.iter_mut().enumerate() {
            *to = *byte(at.checked_add(n)?)?;
        }
        Some(bytes)
    }

    /// Returns a copy of the bytes.
    pub fn to_vec(&self) -> Vec<u8> {
        self.pieces().concat()
    }
}
