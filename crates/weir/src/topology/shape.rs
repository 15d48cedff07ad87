// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Shapes of networks: chain, ring, star, fat tree, random graph.

use serde::Deserialize;

/// The names of the shapes, as files write them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Each router is linked to the next one.
    Chain,
    /// A chain whose last router is linked to its first.
    Ring,
    /// One router in the middle, to which the others are linked.
    Star,
    /// Three layers of switches with `k` ports each (Al-Fares et al., SIGCOMM 2008): k²/2 edge, k²/2
    /// aggregation and k²/4 core routers.
    FatTree,
    /// A random tree that reaches all routers, and random links until the mean degree is reached.
    Random,
}

/// A shape: names of routers, pairs of linked ones, and those that get hosts.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Shape {
    pub routers: Vec<String>,
    pub links: Vec<(usize, usize)>,
    /// The number of routers at the front of the list that get hosts.
    pub edge: usize,
}

/// Numbers the routers r1, r2, …
fn numbered(nodes: usize, links: Vec<(usize, usize)>) -> Shape {
    Shape {
        routers: (1..=nodes).map(|n| format!("r{n}")).collect(),
        links,
        edge: nodes,
    }
}

pub fn chain(nodes: usize) -> Shape {
    numbered(nodes, (1..nodes).map(|n| (n - 1, n)).collect())
}

/// A ring of at least three routers; with fewer it is a chain.
pub fn ring(nodes: usize) -> Shape {
    let mut shape = chain(nodes);
    if nodes > 2 {
        shape.links.push((nodes - 1, 0));
    }
    shape
}

/// The middle is the last router, and gets no hosts if there are others.
pub fn star(nodes: usize) -> Shape {
    let middle = nodes - 1;
    let mut shape = numbered(nodes, (0..middle).map(|leaf| (leaf, middle)).collect());
    shape.edge = middle.max(1);
    shape
}

/// `k` is even. Edge routers are numbered by pod, the others by the column of their links to the core:
/// the networks behind one next hop then lie side by side.
pub fn fat_tree(k: usize) -> Shape {
    let half = k / 2;
    let (edges, cores) = (k * half, half * half);
    let edge = |pod: usize, place: usize| pod * half + place;
    let aggregation = |pod: usize, column: usize| edges + column * k + pod;
    let core = |column: usize, place: usize| 2 * edges + column * half + place;
    let mut routers: Vec<String> = (0..edges)
        .map(|n| format!("e{}-{}", n / half + 1, n % half + 1))
        .collect();
    routers.extend((0..edges).map(|n| format!("a{}-{}", n % k + 1, n / k + 1)));
    routers.extend((0..cores).map(|n| format!("c{}-{}", n / half + 1, n % half + 1)));
    let mut links = Vec::new();
    for pod in 0..k {
        for column in 0..half {
            links.extend((0..half).map(|place| (edge(pod, place), aggregation(pod, column))));
            links.extend((0..half).map(|place| (aggregation(pod, column), core(column, place))));
        }
    }
    Shape {
        routers,
        links,
        edge: edges,
    }
}

/// `degree` is the mean number of links of a router; a seed gives the same graph on every machine.
pub fn random(nodes: usize, degree: f64, seed: u64) -> Shape {
    let mut state = seed;
    // SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
    let mut below = |bound: usize| {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        ((u128::from(z) * bound as u128) >> 64) as usize
    };
    let mut links: std::collections::BTreeSet<(usize, usize)> =
        (1..nodes).map(|n| (below(n), n)).collect();
    let possible = nodes * nodes.saturating_sub(1) / 2;
    let wanted = ((nodes as f64 * degree / 2.0).round() as usize).min(possible);
    while links.len() < wanted {
        let (a, b) = (below(nodes), below(nodes));
        if a != b {
            links.insert((a.min(b), a.max(b)));
        }
    }
    numbered(nodes, links.into_iter().collect())
}
