// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a filter of a socket reads beyond the data: the packet's metadata and its headers, at negative offsets
//! (`SKF_AD_OFF`, `SKF_NET_OFF`, `SKF_LL_OFF` of linux/filter.h).

use super::Frame;
use crate::VlanTag;

/// `SKF_AD_OFF`: the metadata.
pub(super) const METADATA: u32 = (-0x1000_i32) as u32;
/// `SKF_NET_OFF`: the network header.
const NETWORK: u32 = (-0x10_0000_i32) as u32;
/// `SKF_LL_OFF`: the link-layer header.
const LINK: u32 = (-0x20_0000_i32) as u32;

/// `SKF_AD_*`
mod field {
    pub const PROTOCOL: u32 = 0;
    pub const PKTTYPE: u32 = 4;
    pub const IFINDEX: u32 = 8;
    pub const MARK: u32 = 20;
    pub const QUEUE: u32 = 24;
    pub const HATYPE: u32 = 28;
    pub const RXHASH: u32 = 32;
    pub const CPU: u32 = 36;
    pub const VLAN_TAG: u32 = 44;
    pub const VLAN_TAG_PRESENT: u32 = 48;
    pub const VLAN_TPID: u32 = 60;
}

/// A packet as a socket's filter sees it.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// The data, at offset 0.
    pub data: &'a [u8],
    /// The packet from its link-layer header on.
    pub link: &'a [u8],
    /// Where the network header is in `link`.
    pub network: usize,
    /// The EtherType.
    pub protocol: u16,
    /// `PACKET_*`
    pub kind: u8,
    /// The index of the device.
    pub ifindex: u32,
    /// The `ARPHRD_*` of the device.
    pub hardware: u16,
    /// The mark.
    pub mark: u32,
    /// The transmit or receive queue.
    pub queue: u16,
    /// The hash of the flow; 0 if there is none.
    pub hash: u32,
    /// The VLAN tag in the metadata.
    pub vlan: Option<VlanTag>,
}

/// Returns whether a load from an absolute offset reads something known (`bpf_anc_helper`).
pub(super) fn is_known(k: u32) -> bool {
    use field::*;
    k < METADATA
        || matches!(
            k - METADATA,
            PROTOCOL
                | PKTTYPE
                | IFINDEX
                | MARK
                | QUEUE
                | HATYPE
                | RXHASH
                | CPU
                | VLAN_TAG
                | VLAN_TAG_PRESENT
                | VLAN_TPID
        )
}

impl Frame for Seen<'_> {
    fn total(&self) -> usize {
        self.data.len()
    }

    fn array<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        let of = |bytes: &[u8], at: usize| bytes.get(at..)?.first_chunk().copied();
        match u32::try_from(at).ok()? {
            k @ NETWORK.. => of(self.link.get(self.network..)?, (k - NETWORK) as usize),
            k @ LINK.. => of(self.link, (k - LINK) as usize),
            _ => of(self.data, at),
        }
    }

    fn metadata(&self, k: u32) -> Option<u32> {
        Some(match k {
            field::PROTOCOL => self.protocol.into(),
            field::PKTTYPE => self.kind.into(),
            field::IFINDEX => self.ifindex,
            field::MARK => self.mark,
            field::QUEUE => self.queue.into(),
            field::HATYPE => self.hardware.into(),
            field::RXHASH => self.hash,
            field::CPU => 0,
            field::VLAN_TAG => self.vlan.map_or(0, |tag| tag.tci.into()),
            field::VLAN_TAG_PRESENT => self.vlan.is_some().into(),
            field::VLAN_TPID => self.vlan.map_or(0, |tag| tag.proto.into()),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bpf::Program;

    /// A filter of libpcap on the device `any`: `ip and vlan 7`, and one that reads the source's port by `SKF_NET_OFF`.
    #[test]
    fn metadata_and_headers_lie_at_negative_offsets() {
        let frame: Vec<u8> = (0..60).collect();
        let seen = Seen {
            data: &frame[14..],
            link: &frame,
            network: 14,
            protocol: 0x800,
            kind: 4,
            ifindex: 3,
            hardware: 1,
            mark: 9,
            queue: 0,
            hash: 0,
            vlan: Some(VlanTag {
                proto: 0x8100,
                tci: 7,
            }),
        };
        let value = |code: u16, k: u32| {
            let text = format!("2\n{code} 0 0 {k}\n22 0 0 0\n");
            Program::parse(&text).unwrap().run_on(&seen)
        };
        assert_eq!(value(0x28, METADATA), Some(0x800));
        assert_eq!(value(0x20, METADATA + 4), Some(4));
        assert_eq!(value(0x30, METADATA + 8), Some(3));
        assert_eq!(value(0x20, METADATA + 20), Some(9));
        assert_eq!(value(0x20, METADATA + 28), Some(1));
        assert_eq!(value(0x20, METADATA + 44), Some(7));
        assert_eq!(value(0x20, METADATA + 48), Some(1));
        assert_eq!(value(0x20, METADATA + 60), Some(0x8100));
        assert_eq!(value(0x30, 0), Some(14));
        assert_eq!(value(0x30, NETWORK + 1), Some(15));
        assert_eq!(value(0x28, LINK + 1), Some(0x0102));
        assert_eq!(value(0x30, NETWORK + 100), None);
        // `ld #poff` and what no kernel knows.
        for k in [METADATA + 52, METADATA + 2, u32::MAX] {
            assert!(Program::parse(&format!("2\n32 0 0 {k}\n22 0 0 0\n")).is_err());
        }
    }
}
