// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Routes along the shortest paths, all of them where several are equally long.

use std::collections::{BTreeMap, VecDeque};
use std::net::Ipv4Addr;

use super::{Role, Topology};

/// Adds to each router a route to the network of each other one, by the fewest links. Neighbouring
/// networks behind the same next hops share a route.
///
/// A route's preferred source is the router's own address, so that ICMP errors come from an address
/// that the others have routes to. Links to hosts and switches are no way between routers.
pub fn add(topology: &mut Topology) {
    let graph = Graph::new(topology);
    let mut tables = vec![BTreeMap::new(); topology.nodes.len()];
    let mut distance = vec![u32::MAX; topology.nodes.len()];
    for target in 0..topology.nodes.len() {
        let Some((network, length)) = topology.nodes[target].network else {
            continue;
        };
        graph.distances(target, &mut distance);
        for (node, table) in tables.iter_mut().enumerate() {
            if node == target || distance[node] == u32::MAX {
                continue;
            }
            let closer = |hop: &&Hop| distance[hop.node].checked_add(1) == Some(distance[node]);
            let hops = graph.0[node].iter().filter(closer);
            let hops: Vec<u32> = hops.map(|hop| hop.link).collect();
            table.insert((u32::from(network), length), hops);
        }
    }
    for (node, table) in tables.into_iter().enumerate() {
        let Some((network, _)) = topology.nodes[node].network else {
            continue;
        };
        let source = Ipv4Addr::from(u32::from(network) + 1);
        for ((network, length), hops) in merged(table) {
            let ways: Vec<String> = hops
                .iter()
                .map(|link| way(topology, node, *link as usize))
                .collect();
            let ways = match ways.as_slice() {
                [only] => only.clone(),
                several => several
                    .iter()
                    .map(|way| format!("nexthop {way}"))
                    .collect::<Vec<_>>()
                    .join(" "),
            };
            let network = Ipv4Addr::from(network);
            let route = format!("{network}/{length} src {source} {ways}");
            topology.nodes[node].routes.push(route);
        }
    }
}

/// Returns the arguments of `ip route` for the next hop over a link.
fn way(topology: &Topology, node: usize, link: usize) -> String {
    let ends = &topology.links[link].ends;
    let own = usize::from(ends[0].node != node);
    let gateway = ends[1 - own].addresses.iter().find_map(|text| {
        let (address, _) = text.split_once('/')?;
        address.parse::<Ipv4Addr>().ok()
    });
    let device = &ends[own].device;
    match gateway {
        Some(gateway) => format!("via {gateway} dev {device}"),
        None => format!("dev {device}"),
    }
}

struct Hop {
    node: usize,
    link: u32,
}

/// The routers that each router reaches over one link.
struct Graph(Vec<Vec<Hop>>);

impl Graph {
    fn new(topology: &Topology) -> Self {
        let mut hops: Vec<Vec<Hop>> = topology.nodes.iter().map(|_| Vec::new()).collect();
        for (link, ends) in topology.links.iter().map(|link| &link.ends).enumerate() {
            let routers = ends
                .iter()
                .all(|end| topology.nodes[end.node].role == Role::Router);
            if routers && ends[0].node != ends[1].node {
                for (from, to) in [(0, 1), (1, 0)] {
                    let node = ends[to].node;
                    let link = link as u32;
                    hops[ends[from].node].push(Hop { node, link });
                }
            }
        }
        Self(hops)
    }

    /// Writes the number of links from each node to a target; `u32::MAX` where there is no way.
    fn distances(&self, target: usize, distance: &mut [u32]) {
        distance.fill(u32::MAX);
        distance[target] = 0;
        let mut queue = VecDeque::from([target]);
        while let Some(node) = queue.pop_front() {
            for hop in &self.0[node] {
                if distance[hop.node] == u32::MAX {
                    distance[hop.node] = distance[node] + 1;
                    queue.push_back(hop.node);
                }
            }
        }
    }
}

type Table = BTreeMap<(u32, u8), Vec<u32>>;

/// Joins the two halves of a prefix that have the same next hops, again and again.
///
/// The prefixes of a table do not overlap.
fn merged(mut table: Table) -> Table {
    for length in (1..=32_u8).rev() {
        let bit = 1_u32 << (32 - length);
        let of_length = |&&(_, own): &&(u32, u8)| own == length;
        let keys: Vec<u32> = table.keys().filter(of_length).map(|key| key.0).collect();
        for low in keys.into_iter().filter(|network| network & bit == 0) {
            let high = (low | bit, length);
            if let (Some(a), Some(b)) = (table.get(&(low, length)), table.get(&high))
                && a == b
            {
                table.remove(&high);
                let hops = table.remove(&(low, length)).unwrap_or_default();
                table.insert((low, length - 1), hops);
            }
        }
    }
    table
}
