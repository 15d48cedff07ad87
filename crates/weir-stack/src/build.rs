// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Builds a stack with all its floors: the order of the data path, and the modules from the lowest floor up.

use crate::datapath;
use crate::genl::ethtool;
use crate::layers::{Layers, LinkRequests, Path};
use crate::link::{
    self, bond, bridge, geneve, ipvlan, macvlan, netdevsim, nlmon, tunnel, vrf, vxlan,
};
use crate::stack::{Config, Stack};
use crate::{fib, ipv4, ipv6, mib, mpls, neigh, protocols, rtnl, settings, sockets, tc, udp};

/// The floors of a stack.
pub static LAYERS: Layers = Layers {
    path: Path {
        receive: datapath::receive_all,
        steered: datapath::steered,
        redirected: datapath::receive_classified,
        resume: datapath::resume,
        unhandled: datapath::unhandled,
        transmit: datapath::transmit_all,
        run_queue: datapath::run_queue,
        restart: datapath::restart,
    },
    modules: &[
        &settings::MODULE,
        &fib::host::MODULE,
        &fib::mpls::MODULE,
        &neigh::MODULE,
        &mib::MODULE,
        &ipv4::MODULE,
        &ipv6::MODULE,
        &ipv4::ARP_MODULE,
        &ipv4::multicast::RULES_MODULE,
        &ipv6::multicast::RULES_MODULE,
        &mpls::MODULE,
        &udp::MODULE,
        &protocols::MODULE,
        &sockets::MODULE,
        &weir_socket::MODULE,
        &tunnel::MODULE,
        &netdevsim::MODULE,
        &nlmon::MODULE,
        &vxlan::MODULE,
        &geneve::MODULE,
        &bridge::MODULE,
        &bond::MODULE,
        &macvlan::MODULE,
        &ipvlan::MODULE,
        &vrf::MODULE,
        &link::MODULE,
        &tc::MODULE,
        &rtnl::MODULE,
        &ethtool::MODULE,
    ],
    links: LinkRequests {
        parse_peer: rtnl::link::parse_peer,
        configure: rtnl::link::configure,
    },
    inherit: settings::inherit,
};

/// Makes a stack with its initial namespace.
pub fn build(config: Config) -> Stack {
    Stack::new(config, &LAYERS)
}
