// SPDX-License-Identifier: Apache-2.0 OR MIT
//! containerlab's topology files: nodes become namespaces, links become veth pairs.
//!
//! Weir reads what describes the network: nodes, their kinds, `exec`, `sysctls`, links, addresses of
//! their ends. What describes containers has no counterpart, and becomes a note. Source:
//! containerlab's manual, "Topology definition", "Nodes" and "Links".

use std::collections::{BTreeMap, HashMap};

use super::yaml::{self, Value};
use super::{End, Error, Link, Node, Role, Topology, checked, checked_address, checked_command};

/// Kinds whose nodes are switches.
const SWITCHES: [&str; 2] = ["bridge", "ovs-bridge"];
/// Kinds whose nodes are hosts.
const HOSTS: [&str; 2] = ["linux", "host"];

pub fn parse(text: &str) -> Result<Topology, Error> {
    let document = yaml::load(text)?;
    let root = Value::root(&document);
    let mut left_out: BTreeMap<String, usize> = BTreeMap::new();
    for (key, value) in root.pairs()? {
        if !matches!(
            key,
            "name" | "topology" | "prefix" | "mgmt" | "settings" | "debug"
        ) {
            return Err(value.error("containerlab has no such key"));
        }
    }
    let Some(part) = root.get("topology")? else {
        return Err(Error::new(1, "there is no topology"));
    };
    let mut topology = Topology::default();
    let mut names = HashMap::new();
    let nodes = part
        .get("nodes")?
        .ok_or_else(|| part.error("there are no nodes"))?;
    let layers = Layers::new(&part)?;
    for (name, value) in nodes.pairs()? {
        let node = node(name, &value, &layers, &mut left_out)?;
        topology.add_node(&mut names, value.line(), node)?;
    }
    let mut lines = Vec::new();
    if let Some(links) = part.get("links")? {
        for value in links.items()? {
            if let Some(link) = link(&value, &names, &mut left_out)? {
                topology.links.push(link);
                lines.push(value.line());
            }
        }
    }
    topology.name_devices(|index| lines.get(index).copied().unwrap_or(0))?;
    topology.notes = left_out
        .into_iter()
        .map(|(what, count)| match count {
            1 => what,
            count => format!("{what} ({count} times)"),
        })
        .collect();
    Ok(topology)
}

/// What nodes inherit: `defaults`, then the kind's, then the group's.
struct Layers<'a> {
    defaults: Option<Value<'a>>,
    kinds: Option<Value<'a>>,
    groups: Option<Value<'a>>,
}

impl<'a> Layers<'a> {
    fn new(part: &Value<'a>) -> Result<Self, Error> {
        for (key, value) in part.pairs()? {
            if !matches!(key, "nodes" | "links" | "defaults" | "kinds" | "groups") {
                return Err(value.error("containerlab has no such key"));
            }
        }
        Ok(Self {
            defaults: part.get("defaults")?,
            kinds: part.get("kinds")?,
            groups: part.get("groups")?,
        })
    }

    /// Returns what applies to a node, the node itself last, and its kind.
    fn of(&self, node: &Value<'a>) -> Result<(Vec<Value<'a>>, &'a str), Error> {
        let below = |map: &Option<Value<'a>>, key: Option<&str>| match (map, key) {
            (Some(map), Some(key)) => map.get(key),
            _ => Ok(None),
        };
        let text = |value: &Option<Value<'a>>, key| match value {
            Some(value) => value.text_of(key),
            None => Ok(None),
        };
        let group = node.text_of("group")?.or(text(&self.defaults, "group")?);
        let group = below(&self.groups, group)?;
        let kind = node.text_of("kind")?.or(text(&group, "kind")?);
        let kind = kind.or(text(&self.defaults, "kind")?).unwrap_or("linux");
        let kinds = below(&self.kinds, Some(kind))?;
        let layers = [self.defaults.clone(), kinds, group, Some(node.clone())];
        Ok((layers.into_iter().flatten().collect(), kind))
    }
}

fn node(
    name: &str,
    value: &Value<'_>,
    layers: &Layers<'_>,
    left_out: &mut BTreeMap<String, usize>,
) -> Result<Node, Error> {
    let (layers, kind) = layers.of(value)?;
    let mut node = Node {
        name: name.to_owned(),
        role: Role::Router,
        ..Node::default()
    };
    if SWITCHES.contains(&kind) {
        node.role = Role::Switch;
    } else if HOSTS.contains(&kind) {
        node.role = Role::Host;
    } else {
        let text = format!("kind {kind}: the node is a namespace that forwards");
        *left_out.entry(text).or_default() += 1;
    }
    let mut sysctls = BTreeMap::new();
    for layer in &layers {
        for (key, value) in layer.pairs()? {
            match key {
                "kind" | "group" => {}
                // A list replaces that of the layer below, as in containerlab.
                "exec" => {
                    node.run.clear();
                    for item in value.items()? {
                        node.run.push(checked_command(item.line(), item.text()?)?);
                    }
                }
                "sysctls" => {
                    for (key, value) in value.pairs()? {
                        let line = value.line();
                        let text = checked(line, key, value.text()?, true)?;
                        sysctls.insert(checked(line, "sysctls", key, false)?, text);
                    }
                }
                other => {
                    let text = format!("{other}: nodes are namespaces and have none");
                    *left_out.entry(text).or_default() += 1;
                }
            }
        }
    }
    node.sysctls = sysctls.into_iter().collect();
    Ok(node)
}

fn link(
    value: &Value<'_>,
    names: &HashMap<String, usize>,
    left_out: &mut BTreeMap<String, usize>,
) -> Result<Option<Link>, Error> {
    let kind = value.text_of("type")?.unwrap_or("veth");
    if kind != "veth" {
        return Err(value.error(&format!("links of type {kind} are not served, only veth")));
    }
    let mut mtu = None;
    let mut addresses: [Vec<String>; 2] = Default::default();
    for (key, value) in value.pairs()? {
        match key {
            "type" | "endpoints" => {}
            "mtu" => {
                let number = value.text()?.parse();
                mtu = Some(number.map_err(|_| value.error("this is not a number"))?);
            }
            "ipv4" | "ipv6" => {
                let pair = value.items()?;
                if pair.len() != 2 {
                    return Err(value.error("a link has two ends"));
                }
                for (item, addresses) in pair.iter().zip(&mut addresses) {
                    if !item.text()?.is_empty() {
                        addresses.push(checked_address(item.line(), item.text()?)?);
                    }
                }
            }
            "labels" | "vars" => {
                let text = format!("{key} of links: nothing reads them");
                *left_out.entry(text).or_default() += 1;
            }
            _ => return Err(value.error("containerlab has no such key")),
        }
    }
    let ends = value.get("endpoints")?;
    let ends = ends
        .ok_or_else(|| value.error("a link has endpoints"))?
        .items()?;
    let [a, b] = ends.as_slice() else {
        return Err(value.error("a link has two endpoints"));
    };
    let mut ends = [end(a, names)?, end(b, names)?];
    for (end, addresses) in ends.iter_mut().zip(addresses) {
        end.addresses.extend(addresses);
    }
    Ok(Some(Link { ends, mtu }))
}

/// Reads an end: `node:device`, or a mapping.
fn end(value: &Value<'_>, names: &HashMap<String, usize>) -> Result<End, Error> {
    let mut end = End::default();
    let node = if value.is_mapping() {
        let mut node = None;
        for (key, value) in value.pairs()? {
            let text = value.text()?;
            match key {
                "node" => node = Some(text),
                "interface" => text.clone_into(&mut end.device),
                "mac" => end.mac = Some(checked(value.line(), key, text, false)?),
                "ipv4" | "ipv6" => end.addresses.push(checked_address(value.line(), text)?),
                _ => return Err(value.error("containerlab has no such key")),
            }
        }
        node.ok_or_else(|| value.error("an endpoint has a node"))?
    } else {
        let text = value.text()?;
        let parts = text.split_once(':');
        let (node, device) = parts.ok_or_else(|| value.error("an endpoint is NODE:DEVICE"))?;
        device.clone_into(&mut end.device);
        node
    };
    if end.device.is_empty() {
        return Err(value.error("an endpoint names its device"));
    }
    if matches!(node, "host" | "mgmt-net" | "macvlan" | "vxlan" | "dummy")
        && !names.contains_key(node)
    {
        return Err(value.error(&format!("links to {node} are not served")));
    }
    let known = names.get(node);
    end.node = *known.ok_or_else(|| value.error(&format!("there is no node {node:?}")))?;
    Ok(end)
}
