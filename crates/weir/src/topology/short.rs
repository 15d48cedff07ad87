// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Weir's short form of a topology, in TOML. docs/topologies.md describes its keys.

use std::collections::{BTreeMap, HashMap};

use serde::Deserialize;
use toml::Spanned;

use super::shape::{self, Kind};
use super::{
    End, Error, Line, Link, Node, Role, Topology, addresses, checked, checked_address,
    checked_command, routes,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct File {
    #[serde(default)]
    routes: Routes,
    shape: Option<Spanned<ShapeTable>>,
    /// What each link has that says nothing else.
    link: Option<Spanned<LineTable>>,
    #[serde(default)]
    nodes: BTreeMap<String, Spanned<NodeTable>>,
    #[serde(default)]
    links: Vec<Spanned<LinkTable>>,
}

#[derive(Deserialize, Default, PartialEq)]
#[serde(rename_all = "kebab-case")]
enum Routes {
    /// Each router knows the way to the network of each other one.
    #[default]
    Shortest,
    /// Only the routes of the nodes' `routes`.
    None,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct ShapeTable {
    kind: Kind,
    nodes: Option<usize>,
    k: Option<usize>,
    degree: Option<f64>,
    seed: Option<u64>,
    #[serde(default)]
    hosts: usize,
}

#[derive(Deserialize, Default, Clone)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
struct LineTable {
    delay: Option<String>,
    jitter: Option<String>,
    loss: Option<String>,
    duplicate: Option<String>,
    corrupt: Option<String>,
    reorder: Option<String>,
    rate: Option<String>,
    limit: Option<u32>,
    queue: Option<String>,
    mtu: Option<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct LinkTable {
    ends: [String; 2],
    addresses: Option<[String; 2]>,
    macs: Option<[String; 2]>,
    /// What only the second end sends through.
    back: Option<LineTable>,
    // serde cannot flatten a table that refuses unknown keys.
    delay: Option<String>,
    jitter: Option<String>,
    loss: Option<String>,
    duplicate: Option<String>,
    corrupt: Option<String>,
    reorder: Option<String>,
    rate: Option<String>,
    limit: Option<u32>,
    queue: Option<String>,
    mtu: Option<u32>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
struct NodeTable {
    role: RoleName,
    addresses: Vec<String>,
    routes: Vec<String>,
    sysctls: BTreeMap<String, Setting>,
    run: Vec<String>,
}

/// The value of a sysctl.
#[derive(Deserialize)]
#[serde(untagged)]
enum Setting {
    Number(i64),
    Text(String),
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
enum RoleName {
    #[default]
    Router,
    Host,
    Switch,
}

/// Limits of a shape, so that a wrong digit is an error and not a week's work.
const NODES: usize = 65_536;
const LINKS: usize = 500_000;

pub fn parse(text: &str) -> Result<Topology, Error> {
    let line = |span: std::ops::Range<usize>| {
        let before = text.get(..span.start).unwrap_or(text);
        1 + before.bytes().filter(|byte| *byte == b'\n').count()
    };
    let file: File = toml::from_str(text).map_err(|error| {
        let line = error.span().map_or(0, line);
        Error::new(line, error.message().trim_end())
    })?;
    let mut topology = Topology::default();
    let mut names = HashMap::new();
    let none = LineTable::default();
    let (default, default_line) = match &file.link {
        Some(table) => (table.get_ref(), line(table.span())),
        None => (&none, 0),
    };
    let mut lines = Vec::new();
    if let Some(table) = &file.shape {
        let line = line(table.span());
        add_shape(&mut topology, &mut names, line, table.get_ref())?;
        for link in &mut topology.links {
            let both = qdiscs(default_line, default)?;
            link.ends.iter_mut().for_each(|end| end.line = both.clone());
            link.mtu = default.mtu;
            lines.push(line);
        }
    }
    for (name, table) in &file.nodes {
        add_node(
            &mut topology,
            &mut names,
            line(table.span()),
            (name, table.get_ref()),
        )?;
    }
    for table in &file.links {
        let line = line(table.span());
        let link = link(&names, line, default, table.get_ref())?;
        topology.links.push(link);
        lines.push(line);
    }
    if topology.nodes.is_empty() {
        return Err(Error::new(0, "there is neither a shape nor a node"));
    }
    topology.name_devices(|index| lines.get(index).copied().unwrap_or(0))?;
    addresses::assign(&mut topology)?;
    if file.routes == Routes::Shortest {
        routes::add(&mut topology)?;
    }
    Ok(topology)
}

fn add_shape(
    topology: &mut Topology,
    names: &mut HashMap<String, usize>,
    line: usize,
    table: &ShapeTable,
) -> Result<(), Error> {
    let wrong = |text: &str| Err(Error::new(line, format!("shape: {text}")));
    let is_tree = table.kind == Kind::FatTree;
    let is_random = table.kind == Kind::Random;
    if table.k.is_some() != is_tree {
        return wrong("a fat tree, and no other kind, has k, the ports of a switch");
    }
    if table.nodes.is_none() != is_tree {
        return wrong("each kind but a fat tree has nodes, the number of routers");
    }
    if !is_random && (table.degree.is_some() || table.seed.is_some()) {
        return wrong("only a random graph has degree and seed");
    }
    let nodes = table.nodes.unwrap_or(1);
    if nodes == 0 || nodes > NODES {
        return wrong(&format!("nodes is from 1 to {NODES}"));
    }
    let k = table.k.unwrap_or(2);
    if k < 2 || k % 2 == 1 || k > 200 {
        return wrong("k is even and from 2 to 200");
    }
    let degree = table.degree.unwrap_or(3.0);
    if !(0.0..=1000.0).contains(&degree) {
        return wrong("degree is from 0 to 1000");
    }
    if table.hosts >= addresses::HOSTS {
        return wrong(&format!("hosts is less than {}", addresses::HOSTS));
    }
    let all = match table.kind {
        Kind::FatTree => k * k * 5 / 4 + k * k / 2 * table.hosts,
        _ => nodes * (1 + table.hosts),
    };
    let links = match table.kind {
        Kind::FatTree => k * k * k / 2,
        Kind::Random => (nodes as f64 * degree / 2.0) as usize,
        _ => nodes,
    };
    if all > NODES || links > LINKS {
        return wrong(&format!(
            "there are at most {NODES} nodes and {LINKS} links"
        ));
    }
    let shape = match table.kind {
        Kind::Chain => shape::chain(nodes),
        Kind::Ring => shape::ring(nodes),
        Kind::Star => shape::star(nodes),
        Kind::FatTree => shape::fat_tree(k),
        Kind::Random => shape::random(nodes, degree, table.seed.unwrap_or(1)),
    };
    for name in &shape.routers {
        let node = Node {
            name: name.clone(),
            ..Node::default()
        };
        topology.add_node(names, line, node)?;
    }
    let end = |node| End {
        node,
        ..End::default()
    };
    for (a, b) in shape.links {
        topology.links.push(Link {
            ends: [end(a), end(b)],
            mtu: None,
        });
    }
    for router in 0..shape.edge {
        for host in 1..=table.hosts {
            let node = Node {
                name: format!(
                    "h{}.{host}",
                    shape.routers[router].trim_start_matches(['r', 'e'])
                ),
                role: Role::Host,
                ..Node::default()
            };
            let host = topology.add_node(names, line, node)?;
            topology.links.push(Link {
                ends: [end(router), end(host)],
                mtu: None,
            });
        }
    }
    Ok(())
}

fn add_node(
    topology: &mut Topology,
    names: &mut HashMap<String, usize>,
    line: usize,
    (name, table): (&str, &NodeTable),
) -> Result<(), Error> {
    let node = Node {
        name: name.to_owned(),
        role: match table.role {
            RoleName::Router => Role::Router,
            RoleName::Host => Role::Host,
            RoleName::Switch => Role::Switch,
        },
        network: None,
        addresses: each(&table.addresses, |text| checked_address(line, text))?,
        routes: each(&table.routes, |text| checked(line, "routes", text, true))?,
        sysctls: each(&table.sysctls, |(key, value)| {
            let value = match value {
                Setting::Text(text) => text.clone(),
                Setting::Number(number) => number.to_string(),
            };
            let key = checked(line, "sysctls", key, false)?;
            Ok((key, checked(line, "sysctls", &value, true)?))
        })?,
        run: each(&table.run, |text| checked_command(line, text))?,
    };
    // A node of this name in the shape gets what the table says.
    if let Some(&index) = names.get(name) {
        let known = &mut topology.nodes[index];
        known.addresses.extend(node.addresses);
        known.routes.extend(node.routes);
        known.sysctls.extend(node.sysctls);
        known.run.extend(node.run);
        return Ok(());
    }
    topology.add_node(names, line, node).map(drop)
}

/// Returns what a function makes of each item, or its first error.
fn each<I: IntoIterator, T>(
    items: I,
    make: impl FnMut(I::Item) -> Result<T, Error>,
) -> Result<Vec<T>, Error> {
    items.into_iter().map(make).collect()
}

fn link(
    names: &HashMap<String, usize>,
    line: usize,
    default: &LineTable,
    table: &LinkTable,
) -> Result<Link, Error> {
    let own = LineTable {
        delay: table.delay.clone(),
        jitter: table.jitter.clone(),
        loss: table.loss.clone(),
        duplicate: table.duplicate.clone(),
        corrupt: table.corrupt.clone(),
        reorder: table.reorder.clone(),
        rate: table.rate.clone(),
        limit: table.limit,
        queue: table.queue.clone(),
        mtu: table.mtu,
    };
    let there = over(default, &own);
    let back = match &table.back {
        Some(back) if back.mtu.is_some() => {
            return Err(Error::new(line, "back: both ends have the same mtu"));
        }
        Some(back) => over(&there, back),
        None => there.clone(),
    };
    let end = |side: usize| -> Result<End, Error> {
        let text = &table.ends[side];
        let (node, device) = text.split_once(':').unwrap_or((text, ""));
        if device.is_empty() && text.contains(':') {
            return Err(Error::new(
                line,
                format!("{text:?}: the device has no name"),
            ));
        }
        let Some(&node) = names.get(node) else {
            return Err(Error::new(line, format!("there is no node {node:?}")));
        };
        let address = table.addresses.as_ref().map(|pair| pair[side].as_str());
        let address = address.filter(|text| !text.is_empty());
        let mac = table.macs.as_ref().map(|pair| pair[side].as_str());
        Ok(End {
            node,
            device: device.to_owned(),
            addresses: each(address, |text| checked_address(line, text))?,
            mac: mac
                .map(|mac| checked(line, "macs", mac, false))
                .transpose()?,
            line: qdiscs(line, if side == 0 { &there } else { &back })?,
        })
    };
    Ok(Link {
        ends: [end(0)?, end(1)?],
        mtu: there.mtu,
    })
}

/// Returns one table over another: what the upper one leaves out is the lower one's.
fn over(lower: &LineTable, upper: &LineTable) -> LineTable {
    let of = |upper: &Option<String>, lower: &Option<String>| upper.clone().or(lower.clone());
    LineTable {
        delay: of(&upper.delay, &lower.delay),
        jitter: of(&upper.jitter, &lower.jitter),
        loss: of(&upper.loss, &lower.loss),
        duplicate: of(&upper.duplicate, &lower.duplicate),
        corrupt: of(&upper.corrupt, &lower.corrupt),
        reorder: of(&upper.reorder, &lower.reorder),
        rate: of(&upper.rate, &lower.rate),
        limit: upper.limit.or(lower.limit),
        queue: of(&upper.queue, &lower.queue),
        mtu: upper.mtu.or(lower.mtu),
    }
}

/// Returns a line's qdiscs. An empty string takes back what the default says.
fn qdiscs(line: usize, table: &LineTable) -> Result<Line, Error> {
    if table.jitter.is_some() && table.delay.is_none() {
        return Err(Error::new(line, "jitter is nothing without delay"));
    }
    let mut netem = String::new();
    let mut word = |key: &str, value: &Option<String>| -> Result<(), Error> {
        if let Some(value) = value.as_deref().filter(|value| !value.is_empty()) {
            let value = checked(line, key, value, true)?;
            // Jitter is the second value of delay.
            let key = if key == "jitter" { "" } else { key };
            for part in [key, &value].into_iter().filter(|part| !part.is_empty()) {
                netem += if netem.is_empty() { "" } else { " " };
                netem += part;
            }
        }
        Ok(())
    };
    word("delay", &table.delay)?;
    word("jitter", &table.jitter)?;
    word("loss", &table.loss)?;
    word("duplicate", &table.duplicate)?;
    word("corrupt", &table.corrupt)?;
    word("reorder", &table.reorder)?;
    word("rate", &table.rate)?;
    word("limit", &table.limit.map(|limit| limit.to_string()))?;
    let queue = table.queue.as_deref().filter(|queue| !queue.is_empty());
    let queue = queue.map(|queue| checked(line, "queue", queue, true));
    Ok(Line {
        netem,
        queue: queue.transpose()?,
    })
}
