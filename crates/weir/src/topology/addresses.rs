// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Addresses of the links and routers that have none in the file.

use std::net::Ipv4Addr;

use super::{Error, Role, Topology};

/// The networks of routers: one /24 each. The router has the address .1 of its network on its
/// loopback, its hosts have pairs of addresses (RFC 3021) from .2 on.
const NETWORKS: (u32, u32) = (0x0a00_0000, 1 << 16);
/// Pairs of addresses for the links between routers, from 172.16.0.0/12.
const PAIRS: (u32, u32) = (0xac10_0000, 1 << 19);
/// The hosts of one router, at most: 127 pairs less the first.
pub const HOSTS: usize = 127;

/// Gives each router a network and its loopback an address, and each link without addresses a pair.
///
/// Ends at a switch get none. A link between a router and a host takes its pair from the router's
/// network, and the host a default route to the router.
///
/// # Errors
///
/// If there are more routers than networks, more links than pairs, or more hosts at a router than
/// [`HOSTS`].
pub fn assign(topology: &mut Topology) -> Result<(), Error> {
    let routers = topology
        .nodes
        .iter_mut()
        .filter(|node| node.role == Role::Router);
    for (index, node) in routers.enumerate() {
        if index as u32 >= NETWORKS.1 {
            let text = format!("at most {} routers get addresses", NETWORKS.1);
            return Err(Error::new(0, text));
        }
        let first = NETWORKS.0 + ((index as u32) << 8);
        node.network = Some((first.into(), 24));
        node.addresses.push(format!("{}/32", address(first + 1)));
    }
    let mut pairs = 0;
    let mut hosts = vec![0_usize; topology.nodes.len()];
    for link in &mut topology.links {
        if link.ends.iter().any(|end| !end.addresses.is_empty()) {
            continue;
        }
        let [a, b] = link.ends.each_ref().map(|end| end.node);
        let roles = [topology.nodes[a].role, topology.nodes[b].role];
        let (first, host) = match roles {
            [Role::Switch, _] | [_, Role::Switch] => continue,
            [Role::Router, Role::Host] | [Role::Host, Role::Router] => {
                let (router, host) = if roles[0] == Role::Router {
                    (a, b)
                } else {
                    (b, a)
                };
                hosts[router] += 1;
                let Some((network, _)) = topology.nodes[router].network else {
                    continue;
                };
                if hosts[router] >= HOSTS {
                    let name = &topology.nodes[router].name;
                    let text = format!("{name} has more hosts than addresses ({})", HOSTS - 1);
                    return Err(Error::new(0, text));
                }
                (u32::from(network) + 2 * hosts[router] as u32, Some(host))
            }
            _ => {
                pairs += 1;
                if pairs > PAIRS.1 {
                    let text = format!("at most {} links get addresses", PAIRS.1);
                    return Err(Error::new(0, text));
                }
                (PAIRS.0 + 2 * (pairs - 1), None)
            }
        };
        // A router's end comes first, so that its address is the even one.
        let swapped = usize::from(host == Some(a));
        for (end, offset) in link.ends.iter_mut().zip([0, 1]) {
            let own = first + (offset ^ swapped as u32);
            end.addresses.push(format!("{}/31", address(own)));
        }
        if let Some(host) = host {
            let routes = &mut topology.nodes[host].routes;
            if !routes.iter().any(|route| route.starts_with("default")) {
                routes.push(format!("default via {}", address(first)));
            }
        }
    }
    Ok(())
}

fn address(bits: u32) -> Ipv4Addr {
    bits.into()
}
