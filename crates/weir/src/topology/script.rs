// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The commands of a topology: a shell script of plain `ip`, `tc` and `sysctl`.

use std::fmt::Write;

use super::{Line, Role, Topology};

/// The end of the lines that a batch reads. No line of a batch consists of it.
const END: &str = "END";

/// The links that one `ip -batch` makes: their namespaces are fewer than the 1,024 files of a process.
const LINKS: usize = 400;

/// Returns the script, which makes the topology in a stack or on Linux. `name` is that of the file.
///
/// It stops at the first command that fails. `ip -batch` reads many commands from one process:
/// a thousand nodes take a thousand processes, not tens of thousands.
pub fn write(topology: &Topology, name: &str) -> String {
    let mut text = String::new();
    let (nodes, links) = (topology.nodes.len(), topology.links.len());
    let name = name.replace(['\n', '\r'], " ");
    text += &format!("#!/bin/sh\n# {name}: {nodes} nodes, {links} links.\nset -e\n");
    let names = topology.nodes.iter().map(|node| &node.name);
    batch(
        &mut text,
        "ip",
        names.map(|name| format!("netns add {name}")),
    );
    let pairs = topology.links.iter().map(|link| {
        let [a, b] = &link.ends;
        let (left, right) = (&topology.nodes[a.node].name, &topology.nodes[b.node].name);
        let side = |mac: &Option<String>| match mac {
            Some(mac) => format!(" address {mac}"),
            None => String::new(),
        };
        let mtu = link.mtu.map_or(String::new(), |mtu| format!(" mtu {mtu}"));
        format!(
            "link add {}{}{mtu} netns {left} type veth peer name {}{}{mtu} netns {right}",
            a.device,
            side(&a.mac),
            b.device,
            side(&b.mac),
        )
    });
    // `ip -batch` keeps the files of the namespaces open that its lines name, at most two a line.
    let pairs: Vec<String> = pairs.collect();
    for pairs in pairs.chunks(LINKS) {
        batch(&mut text, "ip", pairs.iter().cloned());
    }
    let mut ends = vec![Vec::new(); nodes];
    for end in topology.links.iter().flat_map(|link| &link.ends) {
        ends[end.node].push(end);
    }
    for (node, ends) in topology.nodes.iter().zip(&ends) {
        let mut lines = vec!["link set lo up".to_owned()];
        let is_switch = node.role == Role::Switch;
        if is_switch {
            lines.push("link add br0 type bridge".into());
        }
        for end in ends {
            let master = if is_switch { " master br0" } else { "" };
            lines.push(format!("link set {}{master} up", end.device));
        }
        if is_switch {
            lines.push("link set br0 up".into());
        }
        let own = if is_switch { "br0" } else { "lo" };
        for address in &node.addresses {
            lines.push(format!("address add {address} dev {own}"));
        }
        for end in ends {
            for address in &end.addresses {
                lines.push(format!("address add {address} dev {}", end.device));
            }
        }
        lines.extend(node.routes.iter().map(|route| format!("route add {route}")));
        batch(&mut text, &format!("ip -n {}", node.name), lines);
        let qdiscs = ends.iter().flat_map(|end| qdiscs(&end.device, &end.line));
        batch(&mut text, &format!("tc -n {}", node.name), qdiscs);
        if node.role == Role::Router {
            inside(
                &mut text,
                &node.name,
                "sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1",
            );
        }
        for (key, value) in &node.sysctls {
            inside(
                &mut text,
                &node.name,
                &format!("sysctl -qw {}", quoted(&format!("{key}={value}"))),
            );
        }
        for command in &node.run {
            inside(&mut text, &node.name, &format!("sh -c {}", quoted(command)));
        }
    }
    text
}

fn inside(text: &mut String, node: &str, command: &str) {
    // Writing to a string does not fail.
    let _ = writeln!(text, "ip netns exec {node} {command}");
}

/// Adds one process that reads commands, unless there are none.
fn batch(text: &mut String, program: &str, lines: impl IntoIterator<Item = String>) {
    let mut lines = lines.into_iter().peekable();
    if lines.peek().is_none() {
        return;
    }
    let _ = writeln!(text, "{program} -batch - <<'{END}'");
    for line in lines {
        let _ = writeln!(text, "{line}");
    }
    let _ = writeln!(text, "{END}");
}

/// Returns the commands for a device's qdiscs.
fn qdiscs(device: &str, line: &Line) -> Vec<String> {
    let mut commands = Vec::new();
    if !line.netem.is_empty() {
        commands.push(format!(
            "qdisc add dev {device} root handle 1: netem {}",
            line.netem
        ));
    }
    if let Some(queue) = &line.queue {
        let place = match line.netem.is_empty() {
            true => "root",
            false => "parent 1:1",
        };
        commands.push(format!("qdisc add dev {device} {place} handle 10: {queue}"));
    }
    commands
}

/// Returns one word for the shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}
