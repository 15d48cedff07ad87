// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A packet's frame as it looks on the wire, with its accelerated VLAN tag back in place, without a
//! copy; on a device without a link-layer header, as a capture shows it.

use crate::Packet;

/// The length of the addresses, after which a tag stands.
const ADDRESSES: usize = 12;

/// The longest header that is inserted: Ethernet's.
const MOST: usize = 14;

/// A frame of which a part is not in the packet's data: its VLAN tag is still in the metadata, or its device has no
/// link-layer header.
#[derive(Debug, Clone, Copy)]
pub struct Tagged<'a> {
    data: &'a [u8],
    /// What is inserted, how long it is, and where.
    inserted: [u8; MOST],
    len: u8,
    at: u8,
}

impl<'a> Tagged<'a> {
    /// Returns the frame of a packet whose data begins with it. On a bare device, whose packets begin with their
    /// network header, it has an Ethernet header without addresses in front, as every frame of a capture has one.
    #[inline]
    pub fn of(packet: &'a Packet, bare: bool) -> Self {
        Self::new(packet, packet.data(), bare)
    }

    /// Returns the frame of a packet whose data may begin at any header. It begins with the
    /// link-layer header if that still exists.
    pub fn whole(packet: &'a Packet, bare: bool) -> Self {
        let whole = packet.pulled_from_mac().is_some_and(|pulled| pulled > 0);
        let data = if whole { packet.mac() } else { packet.data() };
        Self::new(packet, data, bare)
    }

    #[inline]
    fn new(packet: &Packet, data: &'a [u8], bare: bool) -> Self {
        let mut frame = Self {
            data,
            inserted: [0; MOST],
            len: 0,
            at: 0,
        };
        if bare {
            let [.., high, low] = &mut frame.inserted;
            [*high, *low] = packet.protocol.to_be_bytes();
            frame.len = MOST as u8;
        } else if let Some(tag) = packet.vlan().filter(|_| data.len() >= ADDRESSES) {
            let [a, b, c, d, ..] = &mut frame.inserted;
            ([*a, *b], [*c, *d]) = (tag.proto.to_be_bytes(), tag.tci.to_be_bytes());
            (frame.len, frame.at) = (4, ADDRESSES as u8);
        }
        frame
    }

    #[inline]
    fn inserted(&self) -> &[u8] {
        self.inserted
            .get(..usize::from(self.len))
            .unwrap_or_default()
    }

    /// Returns the parts of the frame in order.
    #[inline]
    pub fn pieces(&self) -> [&[u8]; 3] {
        match self.len {
            0 => [self.data, &[], &[]],
            _ => {
                let (before, rest) = self.data.split_at(usize::from(self.at));
                [before, self.inserted(), rest]
            }
        }
    }

    /// Returns the number of bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.data.len() + usize::from(self.len)
    }

    /// Returns whether the frame has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the `N` bytes at a position, or `None` if the frame ends before.
    #[inline]
    pub fn array<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        let inserted = self.inserted();
        if inserted.is_empty() {
            return self.data.get(at..)?.first_chunk().copied();
        }
        let byte = |at: usize| match at.checked_sub(self.at.into()) {
            None => self.data.get(at),
            Some(past) => inserted
                .get(past)
                .or_else(|| self.data.get(at - inserted.len())),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Pool;

    #[test]
    fn a_packet_of_a_bare_device_gets_a_header() {
        let pool = Pool::new(crate::PoolConfig::default());
        let mut packet = pool.packet(&[0x45, 1, 2, 3]).unwrap();
        packet.protocol = 0x0800;
        let frame = Tagged::of(&packet, true);
        let whole = [&[0; 12], &[8, 0][..], &[0x45, 1, 2, 3]].concat();
        assert_eq!((frame.to_vec(), frame.len()), (whole.clone(), 18));
        assert_eq!(frame.array(10), whole[10..16].first_chunk::<6>().copied());
        assert_eq!(frame.array::<4>(15), None);
        assert_eq!(Tagged::of(&packet, false).to_vec(), [0x45, 1, 2, 3]);
    }
}
