// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Topologies of Mininet's graphical editor (MiniEdit, `.mn`): JSON with hosts, switches and links.
//!
//! Switches become learning bridges: a controller would need OpenFlow. Source: `saveTopology` in
//! MiniEdit, and `TCIntf` of Mininet for what the options of a link mean.

use std::collections::HashMap;
use std::net::Ipv4Addr;

use super::yaml::{self, Value};
use super::{End, Error, Line, Link, Node, Role, Topology, checked, checked_command};

pub fn parse(text: &str) -> Result<Topology, Error> {
    let document = yaml::load(text)?;
    let root = Value::root(&document);
    let mut topology = Topology::default();
    let mut names = HashMap::new();
    let mut base: (Ipv4Addr, u8) = (Ipv4Addr::new(10, 0, 0, 0), 8);
    if let Some(application) = root.get("application")?
        && let Some(value) = application.get("ipBase")?
    {
        base = prefix(&value)?;
    }
    for (key, value) in root.pairs()? {
        match key {
            "application" | "version" | "hosts" | "switches" | "links" => {}
            "controllers" => {
                if !value.items()?.is_empty() {
                    let text = "controllers: switches are bridges that learn addresses";
                    topology.notes.push(text.into());
                }
            }
            _ => return Err(value.error("MiniEdit has no such key")),
        }
    }
    for (index, value) in list(&root, "switches")?.iter().enumerate() {
        let options = value.get("opts")?;
        let kind = match &options {
            Some(options) => options.text_of("switchType")?,
            None => None,
        };
        let node = Node {
            name: name(options.as_ref(), &format!("s{}", index + 1))?,
            role: match kind {
                Some("legacyRouter") => Role::Router,
                _ => Role::Switch,
            },
            ..Node::default()
        };
        topology.add_node(&mut names, value.line(), node)?;
    }
    let mut addresses = HashMap::new();
    for (index, value) in list(&root, "hosts")?.iter().enumerate() {
        let options = value.get("opts")?;
        let mut node = Node {
            name: name(options.as_ref(), &format!("h{}", index + 1))?,
            role: Role::Host,
            ..Node::default()
        };
        let mut address = None;
        if let Some(options) = &options {
            if let Some(ip) = options
                .get("ip")?
                .filter(|ip| ip.text().is_ok_and(|ip| !ip.is_empty()))
            {
                let (ip, length) = with_length(&ip, base.1)?;
                address = Some(format!("{ip}/{length}"));
            }
            if let Some(route) = options.text_of("defaultRoute")? {
                let via = checked(options.line(), "defaultRoute", route, false)?;
                node.routes.push(format!("default via {via}"));
            }
            if let Some(command) = options.text_of("startCommand")? {
                node.run.push(checked_command(options.line(), command)?);
            }
            for key in ["externalInterfaces", "vlanInterfaces", "privateDirectory"] {
                if let Some(value) = options.get(key)?
                    && !value.items()?.is_empty()
                {
                    return Err(value.error("this is not served"));
                }
            }
        }
        // Mininet's default: the host's number in the base network.
        let address = match address {
            Some(address) => address,
            None => {
                let number = u32::try_from(index + 1).unwrap_or(u32::MAX);
                let own = u32::from(base.0).checked_add(number);
                let own = own.ok_or_else(|| value.error("the base network is full"))?;
                format!("{}/{}", Ipv4Addr::from(own), base.1)
            }
        };
        let index = topology.add_node(&mut names, value.line(), node)?;
        addresses.insert(index, address);
    }
    for value in list(&root, "links")? {
        let link = link(&value, &names, &mut addresses)?;
        topology.links.push(link);
    }
    topology.name_devices(|_| 0)?;
    Ok(topology)
}

fn list<'a>(root: &Value<'a>, key: &str) -> Result<Vec<Value<'a>>, Error> {
    root.get(key)?.map_or(Ok(Vec::new()), |value| value.items())
}

fn name(options: Option<&Value<'_>>, default: &str) -> Result<String, Error> {
    let text = match options {
        Some(options) => options.text_of("hostname")?,
        None => None,
    };
    Ok(text.unwrap_or(default).to_owned())
}

fn prefix(value: &Value<'_>) -> Result<(Ipv4Addr, u8), Error> {
    let (address, length) = with_length(value, 32)?;
    let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
    Ok(((u32::from(address) & mask).into(), length))
}

/// Reads `A.B.C.D`, or `A.B.C.D/N`.
fn with_length(value: &Value<'_>, default: u8) -> Result<(Ipv4Addr, u8), Error> {
    let text = value.text()?;
    let wrong = || value.error(&format!("{text:?} is not an IPv4 address"));
    let (address, length) = match text.split_once('/') {
        Some((address, length)) => (address, length.parse().map_err(|_| wrong())?),
        None => (text, default),
    };
    let address = address.parse().map_err(|_| wrong())?;
    if length > 32 {
        return Err(wrong());
    }
    Ok((address, length))
}

/// Reads a link. A host's address goes to its first link.
fn link(
    value: &Value<'_>,
    names: &HashMap<String, usize>,
    addresses: &mut HashMap<usize, String>,
) -> Result<Link, Error> {
    let mut netem = Vec::new();
    if let Some(options) = value.get("opts")? {
        for (key, option) in options.pairs()? {
            let text = option.text()?;
            if text.is_empty() {
                continue;
            }
            let checked = checked(option.line(), key, text, false)?;
            let number = || -> Result<f64, Error> {
                let number: f64 = text
                    .parse()
                    .map_err(|_| option.error("this is not a number"))?;
                match number.is_finite() && number >= 0.0 {
                    true => Ok(number),
                    false => Err(option.error("this is out of range")),
                }
            };
            let at = match key {
                "delay" => (0, format!("delay {checked}")),
                "jitter" => (1, checked),
                "loss" => (2, format!("loss {}%", number()?)),
                "bw" => (3, format!("rate {}mbit", number()?)),
                "max_queue_size" => (4, format!("limit {}", number()?)),
                "speedup" => continue,
                _ => return Err(option.error("MiniEdit has no such option of a link")),
            };
            netem.push(at);
        }
    }
    netem.sort();
    if netem.iter().any(|part| part.0 == 1) && !netem.iter().any(|part| part.0 == 0) {
        return Err(value.error("jitter is nothing without delay"));
    }
    let netem: Vec<String> = netem.into_iter().map(|part| part.1).collect();
    let line = Line {
        netem: netem.join(" "),
        queue: None,
    };
    let mut end = |key: &str| -> Result<End, Error> {
        let name = value.text_of(key)?;
        let name = name.ok_or_else(|| value.error(&format!("a link has {key}")))?;
        let node = names.get(name);
        let node = *node.ok_or_else(|| value.error(&format!("there is no node {name:?}")))?;
        Ok(End {
            node,
            addresses: addresses.remove(&node).into_iter().collect(),
            line: line.clone(),
            ..End::default()
        })
    };
    Ok(Link {
        ends: [end("src")?, end("dest")?],
        mtu: None,
    })
}
