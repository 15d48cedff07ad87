// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `/sys/class/net/BOND/bonding` and `/sys/class/net/PORT/bonding_slave` (`drivers/net/bonding/bond_sysfs.c`,
//! `bond_sysfs_slave.c`).
//!
//! A write becomes the request with the same effect. The name of a primary port must be that of a device, since
//! requests name it by its index.

use std::net::Ipv4Addr;
use std::sync::atomic::Ordering::Relaxed;

use weir_intercept::Errno;
use weir_netlink::Writer;
use weir_netlink::ifla::{self, bond as attr, bond_slave, info};
use weir_stack::link::bond::lacp::{Aggregator, Lacp, Port};
use weir_stack::link::bond::options::{OPTIONS, Opt};
use weir_stack::link::bond::slave::Slave;
use weir_stack::link::bond::{Bond, bond_in};
use weir_stack::{Device, Namespace, Stack};
use weir_sync::rcu::Guard;

const INVALID: Errno = Errno(libc::EINVAL);

/// A file: name and mode.
pub type File = (&'static str, u32);

/// The files of a bond, sorted.
pub static BOND: &[File] = &[
    ("active_slave", 0o644),
    ("ad_actor_key", 0o444),
    ("ad_actor_sys_prio", 0o644),
    ("ad_actor_system", 0o644),
    ("ad_aggregator", 0o444),
    ("ad_num_ports", 0o444),
    ("ad_partner_key", 0o444),
    ("ad_partner_mac", 0o444),
    ("ad_select", 0o644),
    ("ad_user_port_key", 0o644),
    ("all_slaves_active", 0o644),
    ("arp_all_targets", 0o644),
    ("arp_interval", 0o644),
    ("arp_ip_target", 0o644),
    ("arp_missed_max", 0o644),
    ("arp_validate", 0o644),
    ("downdelay", 0o644),
    ("fail_over_mac", 0o644),
    ("lacp_active", 0o644),
    ("lacp_rate", 0o644),
    ("lp_interval", 0o644),
    ("mii_status", 0o444),
    ("miimon", 0o644),
    ("min_links", 0o644),
    ("mode", 0o644),
    ("num_grat_arp", 0o644),
    ("num_unsol_na", 0o644),
    ("packets_per_slave", 0o644),
    ("peer_notif_delay", 0o644),
    ("primary", 0o644),
    ("primary_reselect", 0o644),
    ("queue_id", 0o644),
    ("resend_igmp", 0o644),
    ("slaves", 0o644),
    ("tlb_dynamic_lb", 0o644),
    ("updelay", 0o644),
    ("use_carrier", 0o644),
    ("xmit_hash_policy", 0o644),
];

/// The files of a port, sorted.
pub static PORT: &[File] = &[
    ("ad_actor_oper_port_state", 0o444),
    ("ad_aggregator_id", 0o444),
    ("ad_partner_oper_port_state", 0o444),
    ("link_failure_count", 0o444),
    ("mii_status", 0o444),
    ("perm_hwaddr", 0o444),
    ("queue_id", 0o444),
    ("state", 0o444),
];

/// Formats octets with colons.
pub fn colons(octets: &[u8]) -> String {
    let octets: Vec<_> = octets.iter().map(|octet| format!("{octet:02x}")).collect();
    octets.join(":")
}

/// Returns the option of a file.
fn option_of(name: &str) -> Option<&'static Opt> {
    let name = match name {
        "num_unsol_na" => "num_grat_arp",
        name => name,
    };
    OPTIONS.iter().find(|option| option.name == name)
}

/// Shows a file of a bond.
pub fn show(
    stack: &Stack,
    device: &Device,
    bond: &Bond,
    name: &str,
    guard: &Guard,
) -> Option<String> {
    let params = bond.params();
    let slaves = bond.slaves(guard);
    let name_of = |slave: &Slave| slave.device.name();
    let aggregator = |number: fn(&Aggregator, u16) -> u16| {
        bond.read_lacp(|lacp| {
            lacp.active()
                .map_or(0, |(active, live)| number(active, live))
        })
    };
    let for_lacp = |value: String| match bond.uses_lacp() {
        true => value,
        false => String::new(),
    };
    Some(match name {
        "active_slave" => match params.uses_primary() {
            true => bond.active(guard).map_or(String::new(), |one| name_of(one)),
            false => String::new(),
        },
        "primary" => bond
            .primary(guard)
            .map_or(String::new(), |one| name_of(one)),
        "slaves" => slaves
            .iter()
            .map(|one| name_of(one))
            .collect::<Vec<_>>()
            .join(" "),
        "queue_id" => {
            let queue = |one: &Slave| format!("{}:{}", name_of(one), one.queue.load(Relaxed));
            slaves
                .iter()
                .map(|one| queue(one))
                .collect::<Vec<_>>()
                .join(" ")
        }
        "mii_status" => match device.link.carrier(stack, device) {
            true => "up".into(),
            false => "down".into(),
        },
        "arp_ip_target" => {
            let targets = params.lists().arp;
            let targets: Vec<_> = targets.iter().map(ToString::to_string).collect();
            targets.join(" ")
        }
        "ad_aggregator" => for_lacp(aggregator(|active, _| active.id).to_string()),
        "ad_num_ports" => for_lacp(aggregator(|_, live| live).to_string()),
        "ad_actor_key" => for_lacp(aggregator(|active, _| active.key).to_string()),
        "ad_partner_key" => for_lacp(aggregator(|active, _| active.partner_key).to_string()),
        "ad_partner_mac" => {
            let partner = |lacp: &Lacp| lacp.active().map(|(active, _)| colons(&active.partner));
            for_lacp(bond.read_lacp(partner).unwrap_or_default())
        }
        "ad_actor_system" => for_lacp(colons(&params.lists().system)),
        "ad_actor_sys_prio" => for_lacp(params.get(attr::AD_ACTOR_SYS_PRIO).to_string()),
        "ad_user_port_key" => for_lacp(params.get(attr::AD_USER_PORT_KEY).to_string()),
        name => {
            let option = option_of(name)?;
            let value = params.get(option.ty);
            match option.ty {
                attr::UPDELAY | attr::DOWNDELAY | attr::PEER_NOTIF_DELAY => {
                    value.wrapping_mul(params.get(attr::MIIMON)).to_string()
                }
                _ => match option.names.get(value as usize) {
                    Some(word) => format!("{word} {value}"),
                    None => value.to_string(),
                },
            }
        }
    })
}

/// Shows a file of a port.
pub fn show_port(bond: &Bond, slave: &Slave, name: &str) -> Option<String> {
    let lacp = |show: fn(&Port) -> u16| {
        let joined = bond.read_lacp(|lacp| {
            let port = lacp.port(slave.device.key);
            port.filter(|port| port.aggregator != 0).map(show)
        });
        let joined = joined.filter(|_| bond.uses_lacp());
        joined.map_or("N/A".into(), |value| value.to_string())
    };
    Some(match name {
        "ad_aggregator_id" => lacp(|port| port.aggregator),
        "ad_actor_oper_port_state" => lacp(|port| u16::from(port.actor.state)),
        "ad_partner_oper_port_state" => lacp(|port| u16::from(port.partner.state)),
        "link_failure_count" => slave.failures.load(Relaxed).to_string(),
        "mii_status" => {
            let states = ["up", "going down", "down", "going back"];
            (*states.get(usize::from(slave.link()))?).into()
        }
        "perm_hwaddr" => colons(&slave.permanent),
        "queue_id" => slave.queue.load(Relaxed).to_string(),
        "state" => match slave.is_backup() {
            true => "backup".into(),
            false => "active".into(),
        },
        _ => return None,
    })
}

/// The request that a write becomes: the device that it is about, and its attributes.
pub struct Request {
    /// The name of the device.
    pub device: String,
    /// The attributes.
    pub attributes: Writer,
}

/// Writes `IFLA_LINKINFO` with data.
fn with_info(out: &mut Writer, (kind, data): (u16, u16), fill: impl FnOnce(&mut Writer)) {
    let info = out.nest(ifla::LINKINFO);
    out.put_str(kind, "bond");
    let nest = out.nest(data);
    fill(out);
    out.end(nest);
    out.end(info);
}

/// Reads a value by its name or its number (`bond_opt_parse`).
fn value_of(option: &Opt, text: &str) -> Result<u32, Errno> {
    let word = text.split_ascii_whitespace().next().unwrap_or_default();
    if let Some(number) = option.names.iter().position(|name| *name == word) {
        return Ok(number as u32);
    }
    word.parse().map_err(|_| INVALID)
}

/// Returns the request of a write to a file of a bond.
///
/// # Errors
/// EINVAL for a value that the file does not have, ENODEV for a port that is not there.
pub fn store(
    ns: &Namespace,
    device: &Device,
    bond: &Bond,
    name: &str,
    text: &str,
    guard: &Guard,
) -> Result<Request, Errno> {
    let mut out = Writer::new();
    let data = (info::KIND, info::DATA);
    let text = text.trim_ascii();
    let index_of = |name: &str| -> Result<u32, Errno> {
        if name.is_empty() {
            return Ok(0);
        }
        let found = ns.device_by_name(name).ok_or(Errno(libc::ENODEV))?;
        Ok(found.ifindex())
    };
    let mut about = device.name();
    match name {
        "slaves" => {
            let (adds, port) = match text.split_at_checked(1) {
                Some(("+", port)) => (true, port),
                Some(("-", port)) => (false, port),
                _ => return Err(INVALID),
            };
            let found = ns.device_by_name(port).ok_or(INVALID)?;
            if !adds && bond.slave_of(guard, &found).is_none() {
                return Err(Errno(libc::ENODEV));
            }
            about = found.name();
            out.put_u32(ifla::MASTER, if adds { device.ifindex() } else { 0 });
        }
        "queue_id" => {
            let (port, queue) = text.split_once(':').ok_or(INVALID)?;
            let found = ns.device_by_name(port).ok_or(INVALID)?;
            bond.slave_of(guard, &found).ok_or(INVALID)?;
            let queue: u16 = queue.parse().map_err(|_| INVALID)?;
            about = found.name();
            with_info(&mut out, (info::SLAVE_KIND, info::SLAVE_DATA), |out| {
                out.put_u16(bond_slave::QUEUE_ID, queue);
            });
        }
        "active_slave" | "primary" => {
            let index = index_of(text)?;
            let ty = match name {
                "primary" => attr::PRIMARY,
                _ => attr::ACTIVE_SLAVE,
            };
            with_info(&mut out, data, |out| out.put_u32(ty, index));
        }
        "arp_ip_target" => {
            let (adds, target) = match text.split_at_checked(1) {
                Some(("+", target)) => (true, target),
                Some(("-", target)) => (false, target),
                _ => return Err(INVALID),
            };
            let target: Ipv4Addr = target.parse().map_err(|_| INVALID)?;
            let mut targets = bond.params().lists().arp;
            match (adds, targets.iter().position(|one| *one == target)) {
                (true, _) => targets.push(target),
                (false, Some(at)) => drop(targets.remove(at)),
                (false, None) => return Err(INVALID),
            }
            with_info(&mut out, data, |out| {
                let nest = out.nest_noflag(attr::ARP_IP_TARGET);
                for (number, target) in (0..).zip(&targets) {
                    out.put_ipv4(number, *target);
                }
                out.end(nest);
            });
        }
        "ad_actor_system" => {
            let octets: Vec<u8> = text
                .split(':')
                .map(|octet| u8::from_str_radix(octet, 16))
                .collect::<Result<_, _>>()
                .map_err(|_| INVALID)?;
            let system: [u8; 6] = octets.try_into().map_err(|_| INVALID)?;
            with_info(&mut out, data, |out| {
                out.put(attr::AD_ACTOR_SYSTEM, &system)
            });
        }
        name => {
            let option = option_of(name).ok_or(INVALID)?;
            let value = value_of(option, text)?;
            // The attribute may be narrower than the number.
            option.check_value(value).map_err(|_| INVALID)?;
            with_info(&mut out, data, |out| match option.ty {
                attr::AD_ACTOR_SYS_PRIO | attr::AD_USER_PORT_KEY => {
                    out.put_u16(option.ty, value as u16);
                }
                attr::MODE
                | attr::USE_CARRIER
                | attr::PRIMARY_RESELECT
                | attr::FAIL_OVER_MAC
                | attr::XMIT_HASH_POLICY
                | attr::NUM_PEER_NOTIF
                | attr::ALL_SLAVES_ACTIVE
                | attr::AD_LACP_RATE
                | attr::AD_LACP_ACTIVE
                | attr::AD_SELECT
                | attr::TLB_DYNAMIC_LB
                | attr::MISSED_MAX => out.put_u8(option.ty, value as u8),
                ty => out.put_u32(ty, value),
            });
        }
    }
    Ok(Request {
        device: about,
        attributes: out,
    })
}

/// Returns the bond of a port, if the device is one.
pub fn above<T>(device: &Device, guard: &Guard, see: impl FnOnce(&Bond, &Slave) -> T) -> Option<T> {
    let bond = bond_in(device.master(guard)?)?;
    let slave = bond.slave_of(guard, device)?;
    Some(see(bond, slave))
}
