// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Topology files: nodes and links, which expand to plain `ip` and `tc` commands.
//!
//! [`read`] reads a file into a [`Topology`]; the format follows from the file's name. [`script::write`]
//! writes the commands. Nothing else in Weir knows of topologies.

mod addresses;
mod containerlab;
mod mininet;
mod routes;
pub mod script;
mod shape;
mod short;
#[cfg(test)]
mod tests;
mod yaml;

use std::collections::HashMap;
use std::fmt;
use std::path::Path;

/// A topology: nodes, the links between them, and what the file says that has no counterpart.
#[derive(Debug, Default)]
pub struct Topology {
    pub nodes: Vec<Node>,
    pub links: Vec<Link>,
    /// Sentences about keys of an imported file that are left out.
    pub notes: Vec<String>,
}

/// What a node does with packets of others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Role {
    /// A namespace that forwards IPv4 and IPv6.
    #[default]
    Router,
    /// A namespace that does not forward.
    Host,
    /// A namespace whose devices are ports of a bridge `br0`.
    Switch,
}

/// A node: one namespace.
#[derive(Debug, Default)]
pub struct Node {
    /// The name of the namespace.
    pub name: String,
    pub role: Role,
    /// Addresses of the loopback, or of the bridge of a switch, with prefix lengths.
    pub addresses: Vec<String>,
    /// The network of a router, from which its hosts' addresses come: its first address and its
    /// prefix length. The other routers get routes to it.
    pub network: Option<(std::net::Ipv4Addr, u8)>,
    /// Arguments of `ip route add`.
    pub routes: Vec<String>,
    /// Pairs of a sysctl and its value.
    pub sysctls: Vec<(String, String)>,
    /// Commands that run in the namespace, by `sh`.
    pub run: Vec<String>,
}

/// A link: a pair of veth devices.
#[derive(Debug, Default)]
pub struct Link {
    pub ends: [End; 2],
    /// The MTU of both devices.
    pub mtu: Option<u32>,
}

/// One end of a link.
#[derive(Debug, Default, Clone)]
pub struct End {
    /// The index of the node.
    pub node: usize,
    /// The name of the device; empty until [`Topology::name_devices`] has chosen one.
    pub device: String,
    /// Addresses with prefix lengths.
    pub addresses: Vec<String>,
    pub mac: Option<String>,
    /// What packets that leave this end go through.
    pub line: Line,
}

/// The qdiscs of a device: arguments of `tc`, without the device.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Line {
    /// Parameters of netem: `delay 10ms loss 1%`.
    pub netem: String,
    /// Another qdisc, below netem if there is one: `fq_codel limit 100`.
    pub queue: Option<String>,
}

/// An error of a topology file.
#[derive(Debug, PartialEq, Eq)]
pub struct Error {
    /// The line, from 1; 0 if the error concerns the whole file.
    pub line: usize,
    pub text: String,
}

impl Error {
    fn new(line: usize, text: impl Into<String>) -> Self {
        let text = text.into();
        Self { line, text }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.text),
            line => write!(f, "line {line}: {}", self.text),
        }
    }
}

/// The format of a topology file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Short,
    Containerlab,
    Mininet,
}

/// Returns the format of a file by its name: `.toml` is Weir's short form, `.clab.yml` and
/// `.clab.yaml` containerlab's, `.mn` that of Mininet's editor.
fn format(path: &Path) -> Option<Format> {
    let name = path.file_name()?.to_str()?;
    let ends = |end: &str| name.len() > end.len() && name.ends_with(end);
    if ends(".toml") {
        Some(Format::Short)
    } else if ends(".clab.yml") || ends(".clab.yaml") {
        Some(Format::Containerlab)
    } else {
        ends(".mn").then_some(Format::Mininet)
    }
}

/// Returns whether a file is a topology by its name.
pub fn is_topology(path: &Path) -> bool {
    format(path).is_some()
}

/// Reads a topology and completes it: names of devices, addresses, routes.
///
/// # Errors
///
/// A sentence that begins with the file's name and, where there is one, the line.
pub fn read(path: &Path) -> Result<Topology, String> {
    let name = path.display();
    let Some(format) = format(path) else {
        return Err(format!(
            "{name}: not a topology: the name ends in none of .toml, .clab.yml, .clab.yaml and .mn"
        ));
    };
    let text = std::fs::read_to_string(path).map_err(|error| format!("{name}: {error}"))?;
    let parsed = match format {
        Format::Short => short::parse(&text),
        Format::Containerlab => containerlab::parse(&text),
        Format::Mininet => mininet::parse(&text),
    };
    parsed.map_err(|error| match error.line {
        0 => format!("{name}: {error}"),
        line => format!("{name}:{line}: {}", error.text),
    })
}

impl Topology {
    /// Returns the node of a name, which gets an entry of `names`.
    fn add_node(
        &mut self,
        names: &mut HashMap<String, usize>,
        line: usize,
        node: Node,
    ) -> Result<usize, Error> {
        if let Some(wrong) = wrong_name(&node.name) {
            return Err(Error::new(line, format!("node {:?}: {wrong}", node.name)));
        }
        let index = self.nodes.len();
        if names.insert(node.name.clone(), index).is_some() {
            return Err(Error::new(
                line,
                format!("node {} is there twice", node.name),
            ));
        }
        self.nodes.push(node);
        Ok(index)
    }

    /// Names the devices that have no name: eth0, eth1, … in the order of the node's links.
    ///
    /// `line` gives the line of a link for errors.
    fn name_devices(&mut self, line: impl Fn(usize) -> usize) -> Result<(), Error> {
        let mut taken: Vec<std::collections::HashSet<String>> =
            vec![["lo".into()].into(); self.nodes.len()];
        for (node, device) in self.nodes.iter().zip(&mut taken) {
            if node.role == Role::Switch {
                device.insert("br0".into());
            }
        }
        for (index, link) in self.links.iter().enumerate() {
            for end in link.ends.iter().filter(|end| !end.device.is_empty()) {
                if let Some(wrong) = wrong_device(&end.device) {
                    return Err(Error::new(
                        line(index),
                        format!("device {:?}: {wrong}", end.device),
                    ));
                }
                if !taken[end.node].insert(end.device.clone()) {
                    let node = &self.nodes[end.node].name;
                    let text = format!("{node} has a device {} already", end.device);
                    return Err(Error::new(line(index), text));
                }
            }
        }
        let mut next = vec![0; self.nodes.len()];
        for end in self.links.iter_mut().flat_map(|link| &mut link.ends) {
            while end.device.is_empty() {
                let name = format!("eth{}", next[end.node]);
                next[end.node] += 1;
                if taken[end.node].insert(name.clone()) {
                    end.device = name;
                }
            }
        }
        Ok(())
    }
}

/// Returns why a namespace cannot have a name.
fn wrong_name(name: &str) -> Option<&'static str> {
    match name {
        "" => Some("a name is not empty"),
        "." | ".." => Some("a name is not . or .."),
        _ if name.len() > 255 => Some("a name has at most 255 bytes"),
        _ if name.starts_with('-') => Some("a name does not begin with -"),
        _ if !name.chars().all(is_plain) => {
            Some("a name consists of letters, digits, dots, dashes and underscores")
        }
        _ => None,
    }
}

/// Returns why a device cannot have a name.
fn wrong_device(name: &str) -> Option<&'static str> {
    if name.len() > 15 {
        return Some("a device's name has at most 15 bytes");
    }
    wrong_name(name)
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_')
}

/// Refuses a value that would end its line or its word in the script.
///
/// `spaces` says whether it may consist of several words.
fn checked(line: usize, key: &str, value: &str, spaces: bool) -> Result<String, Error> {
    let fine = |c: char| {
        is_plain(c) || matches!(c, ':' | '/' | '%' | '+' | ',' | '=') || (spaces && c == ' ')
    };
    match !value.is_empty() && value.chars().all(fine) {
        true => Ok(value.to_owned()),
        false => Err(Error::new(
            line,
            format!("{key}: {value:?} is not a valid value"),
        )),
    }
}

/// Refuses an address that is not `A.B.C.D/N` or its IPv6 counterpart.
fn checked_address(line: usize, text: &str) -> Result<String, Error> {
    let wrong = || {
        let text = format!("{text:?} is not an address with its prefix length");
        Error::new(line, text)
    };
    let (address, length) = text.split_once('/').ok_or_else(wrong)?;
    let address: std::net::IpAddr = address.parse().map_err(|_| wrong())?;
    let length: u8 = length.parse().map_err(|_| wrong())?;
    match length <= if address.is_ipv4() { 32 } else { 128 } {
        true => Ok(format!("{address}/{length}")),
        false => Err(wrong()),
    }
}

/// Refuses a command that would not stay on its line of the script.
fn checked_command(line: usize, text: &str) -> Result<String, Error> {
    match text.is_empty() || text.contains(['\n', '\r', '\0']) {
        true => Err(Error::new(line, format!("{text:?} is not one command"))),
        false => Ok(text.to_owned()),
    }
}
