// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The header fields of a packet as text, to show which of them a step rewrote.

use std::net::{Ipv4Addr, Ipv6Addr};

use weir_packet::Packet;
use weir_packet::header::{Ethernet, Ipv4, Ipv6};

/// A field that differs between two steps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The field's name.
    pub field: &'static str,
    /// Its value before; empty if it did not exist.
    pub from: String,
    /// Its value after; empty if it no longer exists.
    pub to: String,
}

/// The fields of a packet at one step. Checksums are left out: they follow the other fields.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fields {
    named: Vec<(&'static str, String)>,
    /// The bytes after the headers.
    payload: Vec<u8>,
}

fn mac(bytes: [u8; 6]) -> String {
    bytes.map(|byte| format!("{byte:02x}")).join(":")
}

/// Returns the length of a transport header and whether it begins with two ports.
fn transport(protocol: u8) -> Option<usize> {
    match protocol {
        6 => Some(20),
        17 => Some(8),
        _ => None,
    }
}

impl Fields {
    /// Reads the fields of a packet whose data begins with the link-layer header.
    pub fn of(packet: &Packet) -> Self {
        let mut fields = Self::default();
        let data = packet.data();
        fields.named.extend([
            ("mark", packet.mark.to_string()),
            ("priority", format!("{:#x}", packet.priority)),
            ("queue", packet.queue.to_string()),
            ("length", data.len().to_string()),
        ]);
        if let Some(tag) = packet.vlan() {
            let text = format!("{:#x} id {} p {}", tag.proto, tag.vid(), tag.priority());
            fields.named.push(("vlan", text));
        }
        let mut rest = data;
        if let Some(header) = Ethernet::new(data) {
            fields.named.extend([
                ("eth.dst", mac(header.dst())),
                ("eth.src", mac(header.src())),
                ("eth.type", format!("{:#06x}", header.ethertype())),
            ]);
            rest = data.get(Ethernet::LEN..).unwrap_or_default();
            rest = match header.ethertype() {
                0x0800 => fields.ipv4(rest),
                0x86dd => fields.ipv6(rest),
                _ => rest,
            };
        }
        fields.payload = rest.to_vec();
        fields
    }

    fn ipv4<'d>(&mut self, data: &'d [u8]) -> &'d [u8] {
        let Some(header) = Ipv4::new(data) else {
            return data;
        };
        self.named.extend([
            ("ip.tos", format!("{:#04x}", header.tos())),
            ("ip.ttl", header.ttl().to_string()),
            ("ip.protocol", header.protocol().to_string()),
            ("ip.src", Ipv4Addr::from(header.src()).to_string()),
            ("ip.dst", Ipv4Addr::from(header.dst()).to_string()),
        ]);
        let rest = data.get(header.header_len()..).unwrap_or_default();
        self.ports(header.protocol(), rest)
    }

    fn ipv6<'d>(&mut self, data: &'d [u8]) -> &'d [u8] {
        let Some(header) = Ipv6::new(data) else {
            return data;
        };
        self.named.extend([
            ("ip6.class", format!("{:#04x}", header.traffic_class())),
            ("ip6.label", format!("{:#07x}", header.flow_label())),
            ("ip6.hops", header.hop_limit().to_string()),
            ("ip6.src", Ipv6Addr::from(header.src()).to_string()),
            ("ip6.dst", Ipv6Addr::from(header.dst()).to_string()),
        ]);
        let rest = data.get(Ipv6::LEN..).unwrap_or_default();
        self.ports(header.next_header(), rest)
    }

    fn ports<'d>(&mut self, protocol: u8, data: &'d [u8]) -> &'d [u8] {
        let (Some(len), Some(&[a, b, c, d])) = (transport(protocol), data.first_chunk()) else {
            return data;
        };
        self.named.extend([
            ("sport", u16::from_be_bytes([a, b]).to_string()),
            ("dport", u16::from_be_bytes([c, d]).to_string()),
        ]);
        data.get(len..).unwrap_or_default()
    }

    /// Returns the fields that differ in `after`.
    pub fn changes(&self, after: &Self) -> Vec<Change> {
        let value = |fields: &Self, name: &str| {
            let mut named = fields.named.iter();
            let found = named.find(|(field, _)| *field == name);
            found.map_or_else(String::new, |(_, value)| value.clone())
        };
        let gone = self.named.iter();
        let gone = gone.filter(|(name, _)| value(after, name).is_empty());
        let names = after.named.iter().chain(gone).map(|(name, _)| *name);
        let mut changes: Vec<_> = names
            .map(|field| Change {
                field,
                from: value(self, field),
                to: value(after, field),
            })
            .filter(|change| change.from != change.to)
            .collect();
        if self.payload.len() == after.payload.len() {
            let pairs = self.payload.iter().zip(&after.payload);
            let differing = pairs.filter(|(before, after)| before != after).count();
            if differing > 0 {
                changes.push(Change {
                    field: "payload",
                    from: String::new(),
                    to: format!("{differing} bytes"),
                });
            }
        }
        changes
    }
}
