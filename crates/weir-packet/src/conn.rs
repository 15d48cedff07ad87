// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A packet's connection: which entry of a connection table it belongs to, and in which state
//! (`skb->_nfct`, and `post_ct` and `zone` of `struct tc_skb_cb`).
//!
//! The action `ct` attaches it. It is 16 bytes at the start of the frame, marked by a bit of the layout, and copies
//! of a packet have it too. It is a name, not a reference: the connection may go while the packet lives.

/// The relation of a packet to its connection (`enum ip_conntrack_info`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum ConnInfo {
    /// Original direction; packets have passed in both.
    Established = 0,
    /// An error about a packet of the original direction's connection.
    Related = 1,
    /// Original direction, and no reply so far.
    New = 2,
    /// Reply direction.
    EstablishedReply = 3,
    /// An error about a packet of the original direction, sent towards its source.
    RelatedReply = 4,
    /// Tracking found no connection for the packet (`post_ct` without a connection).
    Invalid = 6,
    /// The packet is not to be tracked.
    Untracked = 7,
}

impl ConnInfo {
    /// Returns whether the packet has the reply direction.
    #[inline]
    pub const fn is_reply(self) -> bool {
        matches!(self, Self::EstablishedReply | Self::RelatedReply)
    }

    /// Returns whether the packet is an error about the connection.
    #[inline]
    pub const fn is_related(self) -> bool {
        matches!(self, Self::Related | Self::RelatedReply)
    }

    const fn of(value: u8) -> Self {
        match value {
            0 => Self::Established,
            1 => Self::Related,
            2 => Self::New,
            3 => Self::EstablishedReply,
            4 => Self::RelatedReply,
            6 => Self::Invalid,
            _ => Self::Untracked,
        }
    }
}

/// A packet's connection; see the module documentation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Conn {
    /// The number of the connection table, unique in the process.
    pub table: u32,
    /// The index of the entry, or [`Conn::NONE`]: the connection is not in the table (it is not committed), or the
    /// packet has none.
    pub index: u32,
    /// The generation of the entry. Without an entry: the mark of the connection, or for [`ConnInfo::Invalid`] the hook.
    pub generation: u32,
    /// The zone in which the packet was tracked.
    pub zone: u16,
    /// The state.
    pub info: ConnInfo,
    /// Bits for the connection table.
    pub flags: u8,
}

impl Conn {
    /// The index that stands for no entry.
    pub const NONE: u32 = u32::MAX;

    /// Returns whether the packet refers to an entry of the table.
    #[inline]
    pub const fn is_entry(self) -> bool {
        self.index != Self::NONE
    }

    pub(crate) fn pack(self) -> [u64; 2] {
        [
            u64::from(self.table) | u64::from(self.index) << 32,
            u64::from(self.generation)
                | u64::from(self.zone) << 32
                | (self.info as u64) << 48
                | u64::from(self.flags) << 56,
        ]
    }

    pub(crate) fn unpack(words: [u64; 2]) -> Self {
        Self {
            table: words[0] as u32,
            index: (words[0] >> 32) as u32,
            generation: words[1] as u32,
            zone: (words[1] >> 32) as u16,
            info: ConnInfo::of((words[1] >> 48) as u8),
            flags: (words[1] >> 56) as u8,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Pool, PoolConfig};

    #[test]
    fn a_connection_stays_with_the_packet_and_its_copies() {
        let pool = Pool::new(PoolConfig::default());
        let mut packet = pool.packet(&[0; 100]).unwrap();
        packet.reset_mac();
        assert_eq!(packet.conn(), None);
        let conn = Conn {
            table: 0xdead_beef,
            index: 7,
            generation: u32::MAX,
            zone: 404,
            info: ConnInfo::RelatedReply,
            flags: 0x81,
        };
        let room = packet.headroom();
        assert!(packet.set_conn(Some(conn)));
        assert_eq!(packet.conn(), Some(conn));
        assert!(packet.headroom() < room);
        let mut copy = packet.copy().unwrap();
        assert_eq!(copy.conn(), Some(conn));
        // The headers cannot grow over it.
        assert!(copy.push(copy.headroom() + 1).is_none());
        let rest = copy.headroom();
        copy.push(rest).unwrap().fill(0xff);
        assert_eq!(copy.conn(), Some(conn));
        assert!(copy.set_conn(None));
        assert_eq!((copy.conn(), packet.conn()), (None, Some(conn)));
    }
}
