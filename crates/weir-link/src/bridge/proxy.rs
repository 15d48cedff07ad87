// SPDX-License-Identifier: Apache-2.0 OR MIT
//! ARP requests that a bridge answers for hosts behind its ports (`br_do_proxy_suppress_arp`): `proxyarp` and
//! `proxyarp_wifi` of ports.
//!
//! The bridge knows the host from the neighbours of its device, or of the VLAN device above it, and the port from the
//! forwarding table. Not implemented: `neigh_suppress`, answers to requests of the bridge's own host.

use std::net::Ipv4Addr;
use std::sync::Arc;

use weir_netlink::ifla::{brport, iff};
use weir_packet::header::arp::{ARPOP_REPLY, ARPOP_REQUEST, arp};
use weir_packet::header::ethernet::ethernet;
use weir_packet::header::{Arp, ETH_P_ARP, Ethernet};
use weir_packet::{Flags, Packet, PacketType};

use super::Bridge;
use super::fdb::key;
use super::port::Port;
use crate::cpu::Cx;
use crate::device::Device;
use crate::neigh::WithNeighbours;

impl Bridge {
    /// Returns the answer to a request that came by a port in a VLAN (0: none), if the bridge gives one.
    pub fn proxy_arp(
        &self,
        cx: &Cx<'_>,
        own: &Arc<Device>,
        (port, vid): (&Port, u16),
        packet: &Packet,
    ) -> Option<Packet> {
        if packet.protocol != ETH_P_ARP || own.flags() & iff::NOARP != 0 {
            return None;
        }
        let head = packet.data().get(Ethernet::LEN..).and_then(Arp::new)?;
        let target = Ipv4Addr::from(head.tip());
        let asks = head.is_ethernet_ipv4() && head.op() == ARPOP_REQUEST;
        if !asks || target.is_loopback() || target.is_multicast() {
            return None;
        }
        let guard = cx.guard;
        let device = match vid {
            0 => own,
            vid => own.vlan(packet.vlan()?.proto, vid, guard)?,
        };
        let ns = device.namespace(guard);
        let host = ns
            .neighbours()
            .get(device.key, target.into(), guard)?
            .mac()?;
        let entry = self.table.entries.get(&key(host, vid), guard)?;
        let behind = self.ports.load(guard).numbered(entry.port());
        let behind = behind.filter(|_| !entry.is_local());
        if !port.has(brport::PROXYARP)
            && !behind.is_some_and(|port| port.has(brport::PROXYARP_WIFI))
        {
            return None;
        }
        let mut frame = ethernet(head.sha(), host, ETH_P_ARP).to_vec();
        let body = arp(ARPOP_REPLY, host, head.tip(), head.sha(), head.sip());
        frame.extend_from_slice(&body);
        let mut answer = cx.stack.pool.packet(&frame)?;
        answer.reset_mac();
        answer.set_network(Ethernet::LEN);
        answer.protocol = ETH_P_ARP;
        let pvid = port.vlans.load(guard).pvid;
        answer.set_vlan(packet.vlan().filter(|tag| vid == 0 || tag.tci != pvid));
        answer.flags.insert(Flags::LOCAL);
        answer.set_pkt_type(PacketType::Outgoing);
        answer.time = cx.now;
        (answer.dev, answer.iif) = (port.device.key.0, 0);
        Some(answer)
    }
}
