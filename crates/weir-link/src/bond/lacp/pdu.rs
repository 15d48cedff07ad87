// SPDX-License-Identifier: Apache-2.0 OR MIT
//! LACPDUs and markers (IEEE 802.1AX clauses 6.4.2 and 6.5.3).

use weir_packet::header::Ethernet;
use weir_packet::header::ethernet::ethernet;

use super::super::options::LACP_GROUP;
use crate::device::Mac;

/// `ETH_P_SLOW`
pub const SLOW_PROTOCOLS: u16 = 0x8809;
/// The length of an LACPDU and of a marker without the Ethernet header.
const PDU_LEN: usize = 110;
/// `AD_TYPE_LACPDU`
const LACPDU: u8 = 1;
/// `AD_TYPE_MARKER`
const MARKER: u8 = 2;
/// `AD_MARKER_INFORMATION_SUBTYPE`
const MARKER_INFORMATION: u8 = 1;
/// `AD_MARKER_RESPONSE_SUBTYPE`
const MARKER_RESPONSE: u8 = 2;

/// The bits of a port's state (`LACP_STATE_*`).
#[allow(missing_docs)] // The names are Linux's.
pub mod bits {
    pub const ACTIVITY: u8 = 0x01;
    pub const TIMEOUT: u8 = 0x02;
    pub const AGGREGATION: u8 = 0x04;
    pub const SYNC: u8 = 0x08;
    pub const COLLECTING: u8 = 0x10;
    pub const DISTRIBUTING: u8 = 0x20;
    pub const DEFAULTED: u8 = 0x40;
    pub const EXPIRED: u8 = 0x80;
}

/// One end of a link as LACP describes it (`struct port_params`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// The priority of the system.
    pub system_priority: u16,
    /// The address of the system.
    pub system: Mac,
    /// The operational key.
    pub key: u16,
    /// The priority of the port.
    pub priority: u16,
    /// The number of the port.
    pub number: u16,
    /// `LACP_STATE_*`
    pub state: u8,
}

/// The partner of a port from which nothing was received.
pub const NOBODY: End = End {
    system_priority: 0xffff,
    system: [0; 6],
    key: 1,
    priority: 0xff,
    number: 1,
    state: 0,
};

impl End {
    /// Writes the fields of a TLV.
    fn write(&self, ty: u8, out: &mut Vec<u8>) {
        out.extend_from_slice(&[ty, 20]);
        out.extend_from_slice(&self.system_priority.to_be_bytes());
        out.extend_from_slice(&self.system);
        out.extend_from_slice(&self.key.to_be_bytes());
        out.extend_from_slice(&self.priority.to_be_bytes());
        out.extend_from_slice(&self.number.to_be_bytes());
        out.extend_from_slice(&[self.state, 0, 0, 0]);
    }

    /// Reads the fields of a TLV.
    fn read(bytes: &[u8]) -> Option<Self> {
        let [
            _,
            _,
            p0,
            p1,
            a,
            b,
            c,
            d,
            e,
            f,
            k0,
            k1,
            r0,
            r1,
            n0,
            n1,
            state,
            ..,
        ] = *bytes
        else {
            return None;
        };
        Some(Self {
            system_priority: u16::from_be_bytes([p0, p1]),
            system: [a, b, c, d, e, f],
            key: u16::from_be_bytes([k0, k1]),
            priority: u16::from_be_bytes([r0, r1]),
            number: u16::from_be_bytes([n0, n1]),
            state,
        })
    }

    /// Returns whether both ends are the same but for their states.
    pub fn is_same(&self, other: &Self) -> bool {
        Self { state: 0, ..*self } == Self { state: 0, ..*other }
    }
}

/// A received LACPDU.
#[derive(Clone, Copy, Debug)]
pub struct Pdu {
    /// The partner's end.
    pub actor: End,
    /// Our end as the partner knows it.
    pub partner: End,
}

/// What a received frame is.
#[derive(Debug)]
pub enum Heard {
    /// An LACPDU.
    Pdu(Pdu),
    /// A marker, with the frame that answers it.
    Marker(Vec<u8>),
    /// The answer to a marker.
    Answer,
    /// A frame of markers of another type.
    UnknownMarker,
    /// A frame of another type, which the stack receives like any other.
    Unknown,
    /// A frame that is too short, which the stack receives like any other.
    Short,
}

impl Heard {
    /// Reads a frame of the slow protocols that a port with an address received, if it is one of LACP
    /// (`bond_3ad_lacpdu_recv`, `bond_3ad_rx_indication`).
    pub fn read(frame: &[u8], own: Mac) -> Option<Self> {
        let eth = Ethernet::new(frame)?;
        if eth.dst() != LACP_GROUP {
            return None;
        }
        let Some(body) = frame.get(Ethernet::LEN..)?.get(..PDU_LEN) else {
            return Some(Self::Short);
        };
        match *body {
            [LACPDU, ..] => Some(Self::Pdu(Pdu {
                actor: End::read(body.get(2..)?)?,
                partner: End::read(body.get(22..)?)?,
            })),
            [MARKER, _, MARKER_INFORMATION, ..] => {
                let mut answer = ethernet(LACP_GROUP, own, SLOW_PROTOCOLS).to_vec();
                answer.extend_from_slice(body);
                if let Some(ty) = answer.get_mut(Ethernet::LEN + 2) {
                    *ty = MARKER_RESPONSE;
                }
                Some(Self::Marker(answer))
            }
            [MARKER, _, MARKER_RESPONSE, ..] => Some(Self::Answer),
            [MARKER, ..] => Some(Self::UnknownMarker),
            _ => Some(Self::Unknown),
        }
    }
}

/// Returns the frame of an LACPDU.
pub fn frame(mac: Mac, actor: &End, partner: &End) -> Vec<u8> {
    let mut frame = ethernet(LACP_GROUP, mac, SLOW_PROTOCOLS).to_vec();
    frame.extend_from_slice(&[LACPDU, 1]);
    actor.write(1, &mut frame);
    partner.write(2, &mut frame);
    // The collector, without a delay.
    frame.extend_from_slice(&[3, 16]);
    frame.resize(Ethernet::LEN + PDU_LEN, 0);
    frame
}
