// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `/proc/net/bonding`: one file per bond (`drivers/net/bonding/bond_procfs.c`).

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use weir_netlink::ifla::bond as attr;
use weir_stack::ethtool::RELEASE;
use weir_stack::link::bond::lacp::{Churn, Port};
use weir_stack::link::bond::options::{mode, option};
use weir_stack::link::bond::slave::Slave;
use weir_stack::link::bond::{Bond, bond_in};
use weir_stack::{Device, Namespace, Stack};
use weir_sync::rcu::Guard;

use crate::engine::sys_bond::colons;

/// `bond_mode_name`
const MODES: [&str; 7] = [
    "load balancing (round-robin)",
    "fault-tolerance (active-backup)",
    "load balancing (xor)",
    "fault-tolerance (broadcast)",
    "IEEE 802.3ad Dynamic link aggregation",
    "transmit load balancing",
    "adaptive load balancing",
];

/// `bond_slave_link_status`
const LINKS: [&str; 4] = ["up", "going down", "down", "going back"];

/// Lists the names.
pub fn names(ns: &Namespace) -> Vec<String> {
    let devices = ns.all_devices();
    let bonds = devices.iter().filter(|device| bond_in(device).is_some());
    bonds.map(|device| device.name()).collect()
}

/// Returns the content of a file in the directory.
pub fn read(stack: &Stack, ns: &Arc<Namespace>, name: &str) -> Option<String> {
    let device = ns.device_by_name(name)?;
    let bond = bond_in(&device)?;
    let guard = &stack.domain.pin();
    let mut out = format!("Ethernet Channel Bonding Driver: v{RELEASE}\n\n");
    // Writing to a string does not fail.
    let _ = show(&mut out, stack, &device, bond, guard);
    for slave in bond.slaves(guard) {
        let _ = show_port(&mut out, bond, slave);
    }
    Some(out)
}

/// Returns the name of an option's value.
fn named(bond: &Bond, ty: u16) -> &'static str {
    let names = option(ty).map_or(&[][..], |option| option.names);
    let name = names.get(bond.params().get(ty) as usize);
    name.copied().unwrap_or_default()
}

/// `bond_info_show_master`
fn show(
    out: &mut String,
    stack: &Stack,
    device: &Device,
    bond: &Bond,
    guard: &Guard,
) -> std::fmt::Result {
    let params = bond.params();
    let get = |ty| params.get(ty);
    let name = MODES.get(params.mode() as usize).unwrap_or(&"unknown");
    write!(out, "Bonding Mode: {name}")?;
    if params.fail_over_mac() != 0 {
        let chosen = named(bond, attr::FAIL_OVER_MAC);
        write!(out, " (fail_over_mac {chosen})")?;
    }
    writeln!(out)?;
    if matches!(params.mode(), mode::XOR | mode::AD) {
        let policy = named(bond, attr::XMIT_HASH_POLICY);
        let number = get(attr::XMIT_HASH_POLICY);
        writeln!(out, "Transmit Hash Policy: {policy} ({number})")?;
    }
    if params.uses_primary() {
        let of = |slave: Option<&Arc<Slave>>| slave.map(|slave| slave.device.name());
        match of(bond.primary(guard)) {
            Some(primary) => {
                let reselect = named(bond, attr::PRIMARY_RESELECT);
                writeln!(
                    out,
                    "Primary Slave: {primary} (primary_reselect {reselect})"
                )?;
            }
            None => writeln!(out, "Primary Slave: None")?,
        }
        let active = of(bond.active(guard));
        let active = active.as_deref().unwrap_or("None");
        writeln!(out, "Currently Active Slave: {active}")?;
    }
    let up = device.link.carrier(stack, device);
    writeln!(out, "MII Status: {}", if up { "up" } else { "down" })?;
    let interval = get(attr::MIIMON);
    writeln!(out, "MII Polling Interval (ms): {interval}")?;
    for (text, ty) in [
        ("Up Delay", attr::UPDELAY),
        ("Down Delay", attr::DOWNDELAY),
        ("Peer Notification Delay", attr::PEER_NOTIF_DELAY),
    ] {
        writeln!(out, "{text} (ms): {}", get(ty).wrapping_mul(interval))?;
    }
    if get(attr::ARP_INTERVAL) != 0 {
        let lists = params.lists();
        writeln!(
            out,
            "ARP Polling Interval (ms): {}",
            get(attr::ARP_INTERVAL)
        )?;
        writeln!(out, "ARP Missed Max: {}", get(attr::MISSED_MAX))?;
        let listed = |addresses: &mut dyn Iterator<Item = String>| -> String {
            let addresses: Vec<String> = addresses.map(|one| format!(" {one}")).collect();
            addresses.join(",")
        };
        let arp = listed(&mut lists.arp.iter().map(ToString::to_string));
        writeln!(out, "ARP IP target/s (n.n.n.n form):{arp}")?;
        let ns = listed(&mut lists.ns.iter().map(ToString::to_string));
        writeln!(out, "NS IPv6 target/s (xx::xx form):{ns}")?;
    }
    if params.mode() != mode::AD {
        return Ok(());
    }
    let active = if get(attr::AD_LACP_ACTIVE) != 0 {
        "on"
    } else {
        "off"
    };
    let rate = if get(attr::AD_LACP_RATE) != 0 {
        "fast"
    } else {
        "slow"
    };
    writeln!(
        out,
        "\n802.3ad info\nLACP active: {active}\nLACP rate: {rate}"
    )?;
    writeln!(out, "Min links: {}", get(attr::MIN_LINKS))?;
    let select = named(bond, attr::AD_SELECT);
    writeln!(out, "Aggregator selection policy (ad_select): {select}")?;
    let own = device.name();
    bond.read_lacp(|lacp| {
        let (priority, system) = lacp.system();
        writeln!(out, "System priority: {priority}")?;
        writeln!(out, "System MAC address: {}", colons(&system))?;
        let Some((active, live)) = lacp.active() else {
            return writeln!(out, "bond {own} has no active aggregator");
        };
        writeln!(out, "Active Aggregator Info:")?;
        writeln!(out, "\tAggregator ID: {}", active.id)?;
        writeln!(out, "\tNumber of ports: {live}")?;
        writeln!(out, "\tActor Key: {}", active.key)?;
        writeln!(out, "\tPartner Key: {}", active.partner_key)?;
        writeln!(out, "\tPartner Mac Address: {}", colons(&active.partner))
    })
}

/// `bond_info_show_slave`
fn show_port(out: &mut String, bond: &Bond, slave: &Slave) -> std::fmt::Result {
    let state = LINKS.get(usize::from(slave.link())).unwrap_or(&"unknown");
    writeln!(out, "\nSlave Interface: {}", slave.device.name())?;
    writeln!(out, "MII Status: {state}")?;
    match slave.speed.load(Relaxed) {
        u32::MAX => writeln!(out, "Speed: Unknown")?,
        speed => writeln!(out, "Speed: {speed} Mbps")?,
    }
    let duplex = match slave.duplex.load(Relaxed) {
        0 => "half",
        1 => "full",
        _ => "Unknown",
    };
    writeln!(out, "Duplex: {duplex}")?;
    let failures = slave.failures.load(Relaxed);
    writeln!(out, "Link Failure Count: {failures}")?;
    writeln!(out, "Permanent HW addr: {}", colons(&slave.permanent))?;
    writeln!(out, "Slave queue ID: {}", slave.queue.load(Relaxed))?;
    if !bond.uses_lacp() {
        return Ok(());
    }
    bond.read_lacp(|lacp| match lacp.port(slave.device.key) {
        Some(port) if port.aggregator != 0 => show_lacp(out, port),
        _ => writeln!(out, "Aggregator ID: N/A"),
    })
}

/// The part of a port about LACP.
fn show_lacp(out: &mut String, port: &Port) -> std::fmt::Result {
    writeln!(out, "Aggregator ID: {}", port.aggregator)?;
    let state = |churn: &Churn| match churn.ended {
        None => "monitoring",
        Some(true) => "churned",
        Some(false) => "none",
    };
    let [actor, partner] = &port.churn;
    writeln!(out, "Actor Churn State: {}", state(actor))?;
    writeln!(out, "Partner Churn State: {}", state(partner))?;
    writeln!(out, "Actor Churned Count: {}", actor.count)?;
    writeln!(out, "Partner Churned Count: {}", partner.count)?;
    for (name, key, end) in [
        ("actor", "port key", &port.actor),
        ("partner", "oper key", &port.partner),
    ] {
        writeln!(out, "details {name} lacp pdu:")?;
        writeln!(out, "    system priority: {}", end.system_priority)?;
        writeln!(out, "    system mac address: {}", colons(&end.system))?;
        writeln!(out, "    {key}: {}", end.key)?;
        writeln!(out, "    port priority: {}", end.priority)?;
        writeln!(out, "    port number: {}", end.number)?;
        writeln!(out, "    port state: {}", end.state)?;
    }
    Ok(())
}
