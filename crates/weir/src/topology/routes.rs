// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Routes along the shortest paths, all of them where several are equally long.

use std::collections::{BTreeMap, VecDeque};
use std::net::Ipv4Addr;

use super::{Error, Role, Topology};

/// The routers that get such routes, at most: their number grows with the square.
const ROUTERS: usize = 4096;

/// Adds to each router a route to the network of each other one, by the fewest links. Neighbouring
/// networks behind the same next hops share a route.
///
/// A route's preferred source is the router's own address, so that ICMP errors come from an address
/// that the others have routes to. Links to hosts and switches are no way between routers.
///
/// # Errors
///
/// If there are more than [`ROUTERS`].
pub fn add(topology: &mut Topology) -> Result<(), Error> {
    let routers = topology.nodes.iter().filter(|node| node.network.is_some());
    if routers.count() > ROUTERS {
        let text = format!(
            "routes along the shortest paths are for at most {ROUTERS} routers; routes = \"none\" leaves them out"
        );
        return Err(Error::new(0, text));
    }
    let graph = Graph::new(topology);
    for node in 0..topology.nodes.len() {
        let Some((network, _)) = topology.nodes[node].network else {
            continue;
        };
        let source = Ipv4Addr::from(u32::from(network) + 1);
        let hops = graph.first_hops(node).into_iter().enumerate();
        let known = hops.filter(|(target, hops)| *target != node && !hops.is_empty());
        let table = known.filter_map(|(target, hops)| {
            let (network, length) = topology.nodes[target].network?;
            Some(((u32::from(network), length), hops))
        });
        for ((network, length), hops) in merged(table.collect()) {
            let ways = hops.iter().map(|link| way(topology, node, *link as usize));
            let ways: Vec<String> = ways.collect();
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
    Ok(())
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

    /// Returns the links by which the shortest paths from a node to each other one begin, sorted; none where there is
    /// no path.
    fn first_hops(&self, from: usize) -> Vec<Vec<u32>> {
        let mut distance = vec![u32::MAX; self.0.len()];
        let mut first = vec![Vec::new(); self.0.len()];
        distance[from] = 0;
        let mut queue = VecDeque::from([from]);
        while let Some(node) = queue.pop_front() {
            for hop in &self.0[node] {
                let next = distance[node] + 1;
                if distance[hop.node] < next {
                    continue;
                }
                if distance[hop.node] > next {
                    distance[hop.node] = next;
                    queue.push_back(hop.node);
                }
                let begin = match node == from {
                    true => vec![hop.link],
                    // All paths to this node are known: those to nearer nodes are.
                    false => first[node].clone(),
                };
                first[hop.node].extend(begin);
            }
            // The nodes at the front of the queue get no more paths once all nearer ones have been looked at.
            if let Some(&next) = queue.front() {
                first[next].sort_unstable();
                first[next].dedup();
            }
        }
        first
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
