// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packets for a router that a device sends to the host behind it instead (`route_shortcircuit`): `rsc`.
//!
//! The entry of the frame's destination says that it is a router (`bridge fdb ... router`), and the device's neighbours
//! know the destination of the packet: the frame goes there, as from the router. A neighbour that the device lacks is
//! reported (`l3miss`).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use weir_packet::Packet;
use weir_packet::header::{ETH_P_IP, ETH_P_IPV6, Ethernet, EthernetMut, Ipv4, Ipv6};

use super::Vxlan;
use super::config::Config;
use super::fdb::Missed;
use crate::cpu::Cx;
use crate::device::Device;
use crate::neigh::WithNeighbours;

/// Returns where the packet in a frame goes.
fn destination(frame: &[u8]) -> Option<IpAddr> {
    let network = frame.get(Ethernet::LEN..)?;
    match Ethernet::new(frame)?.ethertype() {
        ETH_P_IP => Some(Ipv4Addr::from(Ipv4::new(network)?.dst()).into()),
        ETH_P_IPV6 => Some(Ipv6Addr::from(Ipv6::new(network)?.dst()).into()),
        _ => None,
    }
}

/// Gives a frame for a router the address of the host that its packet is for. Returns whether that is another one.
pub fn take(
    vxlan: &Vxlan,
    cx: &Cx<'_>,
    device: &Arc<Device>,
    conf: &Config,
    packet: &mut Packet,
) -> bool {
    let Some(target) = destination(packet.data()) else {
        return false;
    };
    let neighbours = device.namespace(cx.guard).neighbours();
    let Some(host) = neighbours.get(device.key, target, cx.guard) else {
        if conf.l3miss {
            let site = vxlan.site(cx.stack, cx.guard, device);
            site.miss(Missed::Neighbour(target));
        }
        return false;
    };
    let mac = host.mac().unwrap_or_default();
    let router = Ethernet::new(packet.data()).map(|eth| eth.dst());
    let (Some(router), Some(mut eth)) = (router, EthernetMut::new(packet.data_mut())) else {
        return false;
    };
    if router != mac {
        eth.set_src(router).set_dst(mac);
    }
    router != mac
}
