// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Answers to ARP requests and neighbour solicitations for other hosts: a bridge (`br_arp_send`, `br_nd_send`) and a
//! vxlan device (`arp_reduce`, `vxlan_na_create`) give them from their neighbours.

use weir_packet::header::arp::{ARPOP_REPLY, arp};
use weir_packet::header::ethernet::ethernet;
use weir_packet::header::ipv6::{IPPROTO_ICMPV6, ipv6};
use weir_packet::header::ndisc::{
    NA_OVERRIDE, NA_ROUTER, NA_SOLICITED, ND_OPT_SOURCE_LL_ADDR, Neighbour, advertisement, options,
};
use weir_packet::header::{Arp, ETH_P_ARP, ETH_P_IPV6, Ethernet, Ipv6};
use weir_packet::{Flags, Packet};

use crate::cpu::Cx;
use crate::device::Mac;

/// The hop limit of neighbour discovery.
const HOP_LIMIT: u8 = 255;

/// Returns the frame that answers an ARP request: the target has `mac`.
pub fn to_arp(request: &Arp<'_>, mac: Mac) -> Vec<u8> {
    let mut frame = ethernet(request.sha(), mac, ETH_P_ARP).to_vec();
    let (asker, target) = ((request.sha(), request.sip()), (mac, request.tip()));
    let body = arp(ARPOP_REPLY, target.0, target.1, asker.0, asker.1);
    frame.extend_from_slice(&body);
    frame
}

/// Returns the frame that answers a neighbour solicitation: the target has `mac`, and may be a router. A solicitation
/// with an option of length 0, or beyond its end, has no answer.
pub fn to_solicitation(solicitation: &[u8], mac: Mac, router: bool) -> Option<Vec<u8>> {
    let eth = Ethernet::new(solicitation)?;
    let network = solicitation.get(Ethernet::LEN..)?;
    let ip = Ipv6::new(network)?;
    let octets = network.get(Ipv6::LEN..)?;
    let target = Neighbour::new(octets)?.target();
    let asker = source_address(octets.get(Neighbour::LEN..)?)?.unwrap_or_else(|| eth.src());
    let router = if router { NA_ROUTER } else { 0 };
    let flags = router | NA_SOLICITED | NA_OVERRIDE;
    let message = advertisement(target, ip.src(), flags, target, Some(mac));
    let mut frame = ethernet(asker, mac, ETH_P_IPV6).to_vec();
    // The upper half of the class is what Linux calls a header's priority.
    let class = ip.traffic_class() & 0xf0;
    let len = message.len();
    frame.extend_from_slice(&ipv6(
        target,
        ip.src(),
        IPPROTO_ICMPV6,
        HOP_LIMIT,
        class,
        0,
        len,
    ));
    frame.extend_from_slice(&message);
    Some(frame)
}

/// Returns the address in the first option that has the sender's, if there is one; nothing if a length before it is wrong.
fn source_address(bytes: &[u8]) -> Option<Option<Mac>> {
    // An octet alone at the end is no option.
    for option in options(&bytes[..bytes.len() & !1]) {
        let option = option.ok()?;
        if option.kind == ND_OPT_SOURCE_LL_ADDR {
            return Some(option.mac());
        }
    }
    Some(None)
}

/// Makes a packet of an answer, whose time is now.
pub fn packet(cx: &Cx<'_>, frame: &[u8]) -> Option<Packet> {
    let mut answer = cx.stack.pool.packet(frame)?;
    answer.reset_mac();
    answer.set_network(Ethernet::LEN);
    answer.protocol = Ethernet::new(frame)?.ethertype();
    answer.flags.insert(Flags::LOCAL);
    answer.time = cx.now;
    Some(answer)
}
