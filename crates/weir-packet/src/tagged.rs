// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A packet's frame as it looks on the wire, with its accelerated VLAN tag back in place, without a
//! copy; on a device without a link-layer header, as a capture shows it.

use crate::Packet;

/// The length of the addresses, after which a tag stands.
const ADDRESSES: usize = 12;

/// The longest header that is inserted: the cooked one of netlink.
const MOST: usize = 16;
/// The length of an Ethernet header.
const ETHERNET: usize = 14;
/// `ARPHRD_NETLINK`
const ARPHRD_NETLINK: u16 = 824;

/// What the frames of a device begin with in a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Framing {
    /// Their own Ethernet header.
    #[default]
    Ethernet,
    /// Packets begin with their network header, and get an Ethernet header without addresses.
    Bare,
    /// Packets are netlink datagrams, and get the 16 bytes that libpcap puts in front of them: packet type, hardware
    /// type, an address of no bytes in eight, and the netlink protocol.
    Netlink,
}

impl Framing {
    /// Returns the link type of a capture (`LINKTYPE_*`).
    pub const fn link_type(self) -> u16 {
        match self {
            Self::Ethernet | Self::Bare => 1,
            Self::Netlink => 253,
        }
    }
}

/// A frame of which a part is not in the packet's data: its VLAN tag is still in the metadata, or its device has no
/// link-layer header.
#[derive(Debug, Clone, Copy)]
pub struct Tagged<'a> {
    data: &'a [u8],
    framing: Framing,
    /// What is inserted, how long it is, and where.
    inserted: [u8; MOST],
    len: u8,
    at: u8,
}

impl<'a> Tagged<'a> {
    /// Returns the frame of a packet whose data begins with it, or with what its device has in place of a header.
    #[inline]
    pub fn of(packet: &'a Packet, framing: Framing) -> Self {
        Self::new(packet, packet.data(), framing)
    }

    /// Returns the frame of a packet whose data may begin at any header. It begins with the
    /// link-layer header if that still exists.
    pub fn whole(packet: &'a Packet, framing: Framing) -> Self {
        let whole = packet.pulled_from_mac().is_some_and(|pulled| pulled > 0);
        let data = if whole { packet.mac() } else { packet.data() };
        Self::new(packet, data, framing)
    }

    #[inline]
    fn new(packet: &Packet, data: &'a [u8], framing: Framing) -> Self {
        let mut frame = Self {
            data,
            framing,
            inserted: [0; MOST],
            len: 0,
            at: 0,
        };
        let protocol = packet.protocol.to_be_bytes();
        match framing {
            Framing::Ethernet => {
                if let Some(tag) = packet.vlan().filter(|_| data.len() >= ADDRESSES) {
                    let [a, b, c, d, ..] = &mut frame.inserted;
                    ([*a, *b], [*c, *d]) = (tag.proto.to_be_bytes(), tag.tci.to_be_bytes());
                    (frame.len, frame.at) = (4, ADDRESSES as u8);
                }
            }
            Framing::Bare => {
                let [.., high, low, _, _] = &mut frame.inserted;
                [*high, *low] = protocol;
                frame.len = ETHERNET as u8;
            }
            Framing::Netlink => {
                let [_, kind, a, b, .., high, low] = &mut frame.inserted;
                *kind = packet.pkt_type() as u8;
                ([*a, *b], [*high, *low]) = (ARPHRD_NETLINK.to_be_bytes(), protocol);
                frame.len = MOST as u8;
            }
        }
        frame
    }

    /// Returns whether the frame begins with an Ethernet header, its own or an inserted one.
    #[inline]
    pub fn is_ethernet(&self) -> bool {
        self.framing != Framing::Netlink
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
        let frame = Tagged::of(&packet, Framing::Bare);
        let whole = [&[0; 12], &[8, 0][..], &[0x45, 1, 2, 3]].concat();
        assert_eq!((frame.to_vec(), frame.len()), (whole.clone(), 18));
        assert_eq!(frame.array(10), whole[10..16].first_chunk::<6>().copied());
        assert_eq!(frame.array::<4>(15), None);
        packet.set_pkt_type(crate::PacketType::Outgoing);
        packet.protocol = 16;
        let frame = Tagged::of(&packet, Framing::Netlink).to_vec();
        assert_eq!(frame[..4], [0, 4, 3, 0x38]);
        assert_eq!(frame[4..], [&[0; 11], &[16, 0x45, 1, 2, 3][..]].concat());
        packet.protocol = 0x0800;
        assert_eq!(
            Tagged::of(&packet, Framing::Ethernet).to_vec(),
            [0x45, 1, 2, 3]
        );
    }
}
