// SPDX-License-Identifier: Apache-2.0 OR MIT
//! ARP requests and neighbour solicitations that a bridge answers for hosts behind its ports, and those that it does not
//! flood (`br_do_proxy_suppress_arp`, `br_do_suppress_nd`): `proxyarp`, `proxyarp_wifi` and `neigh_suppress` of ports.
//!
//! The bridge knows the host from the neighbours of its device, or of the VLAN device above it, and the port from the
//! forwarding table. Ports with `neigh_suppress` send no question that the bridge has answered or could answer, no
//! gratuitous ARP, and no unsolicited advertisement.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use weir_netlink::ifla::{brport, iff};
use weir_netlink::nda::ntf;
use weir_netlink::rta::scope;
use weir_packet::header::arp::ARPOP_REQUEST;
use weir_packet::header::ipv6::IPPROTO_ICMPV6;
use weir_packet::header::ndisc::{
    NA_SOLICITED, NDISC_NEIGHBOUR_ADVERTISEMENT, NDISC_NEIGHBOUR_SOLICITATION, Neighbour,
};
use weir_packet::header::{Arp, ETH_P_ARP, ETH_P_IPV6, Ethernet, Ipv6};
use weir_packet::{Packet, PacketType};

use super::Bridge;
use super::fdb::key;
use super::port::Port;
use crate::answer;
use crate::cpu::Cx;
use crate::device::{Device, Mac};
use crate::ipv4::select;
use crate::ipv6::WithIpv6;
use crate::neigh::WithNeighbours;

/// A frame that the bridge looks at.
struct Question<'a> {
    /// The bridge's device.
    own: &'a Arc<Device>,
    /// The port that it came by; nothing: the bridge's own host sends it.
    port: Option<&'a Port>,
    /// The VLAN, or 0.
    vid: u16,
    /// The frame.
    packet: &'a Packet,
}

/// What the bridge does about a question.
#[derive(Default)]
pub struct Proxied {
    /// The answer, for the port or the host that asks.
    pub answer: Option<Packet>,
    /// Ports that suppress questions do not send it (`proxyarp_replied`).
    pub suppressed: bool,
}

impl Proxied {
    /// No answer, and ports that suppress questions do not send it.
    fn suppressed() -> Self {
        Self {
            answer: None,
            suppressed: true,
        }
    }
}

/// A host whose link-layer address and port are known.
struct Known<'g> {
    mac: Mac,
    router: bool,
    /// Nothing for an address of the bridge itself.
    behind: Option<&'g Arc<Port>>,
}

impl Bridge {
    fn suppresses(&self, cx: &Cx<'_>) -> bool {
        let mut ports = self.ports.load(cx.guard).list.iter();
        ports.any(|port| port.has(brport::NEIGH_SUPPRESS))
    }

    /// Looks at a frame in a VLAN (0: none) that came by a port, or from the bridge's own host.
    #[inline]
    pub fn proxy(
        &self,
        cx: &Cx<'_>,
        own: &Arc<Device>,
        (port, vid): (Option<&Port>, u16),
        packet: &Packet,
    ) -> Proxied {
        let question = Question {
            own,
            port,
            vid,
            packet,
        };
        let found = match packet.protocol {
            ETH_P_ARP => self.proxy_arp(cx, &question),
            ETH_P_IPV6 => self.suppress_nd(cx, &question),
            _ => None,
        };
        found.unwrap_or_default()
    }

    /// Returns the device whose neighbours those of a VLAN are.
    fn of_vlan<'g>(cx: &Cx<'g>, question: &Question<'g>) -> Option<&'g Arc<Device>> {
        match question.vid {
            0 => Some(question.own),
            vid => {
                let tag = question.packet.vlan()?;
                question.own.vlan(tag.proto, vid, cx.guard)
            }
        }
    }

    fn known<'g>(
        &'g self,
        cx: &Cx<'g>,
        device: &Device,
        vid: u16,
        target: std::net::IpAddr,
    ) -> Option<Known<'g>> {
        let guard = cx.guard;
        let neighbours = device.namespace(guard).neighbours();
        let host = neighbours.get(device.key, target, guard)?;
        let (mac, router) = (host.mac()?, host.flags() & ntf::ROUTER != 0);
        let entry = self.table.entries.get(&key(mac, vid), guard)?;
        let behind = self.ports.load(guard).numbered(entry.port());
        let behind = behind.filter(|_| !entry.is_local());
        Some(Known {
            mac,
            router,
            behind,
        })
    }

    /// `br_do_proxy_suppress_arp`
    fn proxy_arp(&self, cx: &Cx<'_>, question: &Question<'_>) -> Option<Proxied> {
        let &Question {
            own,
            port,
            vid,
            packet,
        } = question;
        if own.flags() & iff::NOARP != 0 {
            return None;
        }
        let head = packet.data().get(Ethernet::LEN..).and_then(Arp::new)?;
        let (target, sender) = (Ipv4Addr::from(head.tip()), Ipv4Addr::from(head.sip()));
        if !head.is_ethernet_ipv4() || target.is_loopback() || target.is_multicast() {
            return None;
        }
        let suppresses = self.suppresses(cx);
        if suppresses {
            if port.is_some_and(|port| port.has(brport::NEIGH_SUPPRESS)) {
                return None;
            }
            // Gratuitous messages and probes do not leave by the ports.
            if sender.octets()[0] == 0 || sender == target {
                return Some(Proxied::suppressed());
            }
        }
        if head.op() != ARPOP_REQUEST || port.is_none() && !suppresses {
            return None;
        }
        let device = Self::of_vlan(cx, question)?;
        let ns = device.namespace(cx.guard);
        let any = Ipv4Addr::UNSPECIFIED;
        let ours = || {
            let on = Some(&**device);
            select::confirm_address(ns, on, any, target, scope::HOST, cx.guard)
        };
        if suppresses && ours() == Some(target) {
            return Some(Proxied::suppressed());
        }
        let known = self.known(cx, device, vid, target.into())?;
        let has = |flag| known.behind.is_some_and(|port| port.has(flag));
        let answers = port.is_some_and(|port| port.has(brport::PROXYARP))
            || has(brport::PROXYARP_WIFI)
            || has(brport::NEIGH_SUPPRESS);
        let answer = answers.then(|| sealed(cx, question, &answer::to_arp(&head, known.mac)));
        Some(Proxied {
            answer: answer.flatten(),
            suppressed: answers || suppresses,
        })
    }

    /// `br_do_suppress_nd`
    fn suppress_nd(&self, cx: &Cx<'_>, question: &Question<'_>) -> Option<Proxied> {
        let &Question {
            port, vid, packet, ..
        } = question;
        let network = packet.data().get(Ethernet::LEN..)?;
        let ip = Ipv6::new(network)?;
        let octets = network.get(Ipv6::LEN..)?;
        if ip.next_header() != IPPROTO_ICMPV6 {
            return None;
        }
        let message = Neighbour::new(octets)?;
        let ty = message.icmp_type();
        let neighbours = [NDISC_NEIGHBOUR_SOLICITATION, NDISC_NEIGHBOUR_ADVERTISEMENT];
        if !neighbours.contains(&ty)
            || message.code() != 0
            || !self.suppresses(cx)
            || port.is_some_and(|port| port.has(brport::NEIGH_SUPPRESS))
        {
            return None;
        }
        let only = Some(Proxied::suppressed());
        if ty == NDISC_NEIGHBOUR_ADVERTISEMENT {
            return only.filter(|_| message.flags() & NA_SOLICITED == 0);
        }
        let (src, dst) = (Ipv6Addr::from(ip.src()), Ipv6Addr::from(ip.dst()));
        if src.is_unspecified() || src == dst {
            return only;
        }
        let device = Self::of_vlan(cx, question)?;
        let target = Ipv6Addr::from(message.target());
        if device.ipv6().addresses.get(target, cx.guard).is_some() {
            return only;
        }
        let known = self.known(cx, device, vid, target.into())?;
        let answers = known
            .behind
            .is_some_and(|port| port.has(brport::NEIGH_SUPPRESS));
        let answer = answers.then(|| {
            let frame = answer::to_solicitation(packet.data(), known.mac, known.router)?;
            sealed(cx, question, &frame)
        });
        Some(Proxied {
            answer: answer.flatten(),
            suppressed: true,
        })
    }
}

/// Makes a packet of an answer, in the VLAN of the question.
fn sealed(cx: &Cx<'_>, question: &Question<'_>, frame: &[u8]) -> Option<Packet> {
    let &Question {
        own,
        port,
        vid,
        packet,
    } = question;
    let mut answer = answer::packet(cx, frame)?;
    let pvid = port.map_or(0, |port| port.vlans.load(cx.guard).pvid);
    answer.set_vlan(packet.vlan().filter(|tag| vid == 0 || tag.tci != pvid));
    answer.set_pkt_type(PacketType::Outgoing);
    (answer.dev, answer.iif) = (port.map_or(own.key.0, |port| port.device.key.0), 0);
    Some(answer)
}
