// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `/sys/class/net` of a namespace (`net/core/net-sysfs.c`): one directory per device with its
//! attributes, counters and queues, as in Linux 6.1 with SMP, XPS and BQL.
//!
//! Devices are directories, not links into `/sys/devices`; `/sys/devices/virtual/net` shows the same
//! directories. A write becomes the request with the same effect. Attributes that Linux stores, but
//! the stack would ignore, are refused with EOPNOTSUPP; so are the limits of byte queues. `xps_rxqs` is
//! stored: only packets of sockets follow it in Linux, and the stack has none.

use std::sync::Arc;

use weir_intercept::{Errno, Node};
use weir_netlink::{IfInfoMsg, LinkStats64, Writer, ifla, messages, nlm, rtm};
use weir_stack::connection::{Connection, NoPeer};
use weir_stack::link::bond::slave::Slave;
use weir_stack::link::bond::{Bond, bond_in};
use weir_stack::link::operstate;
use weir_stack::link::tun::tun_of;
use weir_stack::rtnl::link::statistics;
use weir_stack::{Device, Namespace, Stack};
use weir_sync::rcu::Guard;
use weir_tc::txq::xps;

use super::{sys_bond, sys_bridge};

const NO_SUCH: Errno = Errno(libc::ENOENT);
const INVALID: Errno = Errno(libc::EINVAL);
const NOT_SERVED: Errno = Errno(libc::EOPNOTSUPP);

/// The function that formats an attribute.
type Show = fn(&Stack, &Device) -> Result<String, Errno>;
/// The function that converts a write into the attributes of a request.
type Store = fn(&Device, &str, &mut IfInfoMsg, &mut Writer) -> Result<(), Errno>;

/// A file in a device's directory.
struct Attribute {
    name: &'static str,
    show: Show,
    /// The write handler, if the file can be written.
    store: Option<Store>,
}

const fn only(name: &'static str, show: Show) -> Attribute {
    Attribute {
        name,
        show,
        store: None,
    }
}

const fn both(name: &'static str, show: Show, store: Store) -> Attribute {
    Attribute {
        name,
        show,
        store: Some(store),
    }
}

fn say(value: impl ToString) -> Result<String, Errno> {
    Ok(value.to_string())
}

fn octets(address: &[u8]) -> Result<String, Errno> {
    let octets: Vec<_> = address.iter().map(|octet| format!("{octet:02x}")).collect();
    Ok(octets.join(":"))
}

/// Returns the device if it is up. A device that is down has no carrier, speed or state.
fn running(device: &Device) -> Result<&Device, Errno> {
    Some(device).filter(|device| device.is_up()).ok_or(INVALID)
}

fn refused(_: &Device, _: &str, _: &mut IfInfoMsg, _: &mut Writer) -> Result<(), Errno> {
    Err(NOT_SERVED)
}

fn failed(error: weir_netlink::Error) -> Errno {
    Errno(error.errno)
}

/// Parses a number like `kstrtouint`; see [`wide_number`].
fn number(text: &str) -> Result<u32, Errno> {
    u32::try_from(wide_number(text)?).map_err(|_| Errno(libc::ERANGE))
}

/// Parses a number like `kstrtoul`: decimal, hexadecimal after `0x` or octal after `0`, with at
/// most one newline at the end.
fn wide_number(text: &str) -> Result<u64, Errno> {
    let text = text.strip_suffix('\n').unwrap_or(text);
    let text = text.strip_prefix('+').unwrap_or(text);
    let (digits, radix) = match text.as_bytes() {
        [b'0', b'x' | b'X', ..] => (&text[2..], 16),
        [b'0', _, ..] => (&text[1..], 8),
        _ => (text, 10),
    };
    let fits = digits.bytes().all(|digit| digit.is_ascii_alphanumeric());
    match u64::from_str_radix(digits, radix) {
        Ok(value) if fits => Ok(value),
        Err(error) if matches!(error.kind(), std::num::IntErrorKind::PosOverflow) => {
            Err(Errno(libc::ERANGE))
        }
        _ => Err(INVALID),
    }
}

/// The names of the states `IF_OPER_*`.
const STATES: [&str; 7] = [
    "unknown",
    "notpresent",
    "down",
    "lowerlayerdown",
    "testing",
    "dormant",
    "up",
];

const TESTING: u8 = 4;
const DORMANT: u8 = 5;

fn state(stack: &Stack, device: &Device) -> u8 {
    operstate(stack, running(device).unwrap_or(device))
}

/// The attributes of each device, sorted.
const ATTRIBUTES: &[Attribute] = &[
    only("addr_assign_type", |_, device| say(device.address_origin())),
    only("addr_len", |_, device| {
        let other = device.link.hardware_addresses();
        say(other.map_or(6, |(own, _)| own.len()))
    }),
    only("address", |_, device| {
        match device.link.hardware_addresses() {
            Some((own, _)) => octets(&own),
            None => octets(&device.address()),
        }
    }),
    only("broadcast", |_, device| {
        match device.link.hardware_addresses() {
            Some((_, broadcast)) => octets(&broadcast),
            None => octets(&device.broadcast()),
        }
    }),
    both(
        "carrier",
        |stack, device| say(u8::from(running(device)?.link.carrier(stack, device))),
        |device, value, _, out| {
            let value = number(value)?;
            running(device)?;
            out.put_u8(ifla::CARRIER, u8::from(value != 0));
            Ok(())
        },
    ),
    only("carrier_changes", |_, device| {
        let (ups, downs) = device.carrier_changes();
        say(ups.wrapping_add(downs))
    }),
    only("carrier_down_count", |_, device| {
        say(device.carrier_changes().1)
    }),
    only("carrier_up_count", |_, device| {
        say(device.carrier_changes().0)
    }),
    only("dev_id", |_, _| say("0x0")),
    only("dev_port", |_, _| say(0)),
    only("dormant", |stack, device| {
        say(u8::from(state(stack, running(device)?) == DORMANT))
    }),
    only("duplex", |_, device| {
        let speed = running(device)?.link.speed();
        speed.map(|_| "full".into()).ok_or(INVALID)
    }),
    both(
        "flags",
        |_, device| say(format!("{:#x}", device.flags())),
        |_, value, header, _| {
            (header.flags, header.change) = (number(value)?, u32::MAX);
            Ok(())
        },
    ),
    both("gro_flush_timeout", |_, _| say(0), refused),
    both(
        "ifalias",
        |_, device| {
            let alias = device.names().alias().map(str::to_owned);
            // Without an alias the file is empty and has no newline.
            Ok(alias.unwrap_or_default())
        },
        |_, value, _, out| {
            let value = value.strip_suffix('\n').unwrap_or(value);
            out.put_c_str(ifla::IFALIAS, value.as_bytes());
            Ok(())
        },
    ),
    only("ifindex", |_, device| say(device.ifindex())),
    only("iflink", |stack, device| {
        let lower = device.link.lower(stack);
        say(lower.map_or(device.ifindex(), |(_, index)| index))
    }),
    only("link_mode", |_, device| say(device.link_mode())),
    both(
        "mtu",
        |_, device| say(device.mtu()),
        |_, value, _, out| {
            out.put_u32(ifla::MTU, number(value)?);
            Ok(())
        },
    ),
    only("name_assign_type", |_, device| {
        let origin = device.name_origin();
        if origin == 0 {
            Err(INVALID)
        } else {
            say(origin)
        }
    }),
    both("napi_defer_hard_irqs", |_, _| say(0), refused),
    both(
        "netdev_group",
        |_, device| say(device.group()),
        |_, value, _, out| {
            out.put_u32(ifla::GROUP, number(value)?);
            Ok(())
        },
    ),
    only("operstate", |stack, device| {
        let state = usize::from(state(stack, device));
        STATES.get(state).map(|name| (*name).into()).ok_or(INVALID)
    }),
    only("phys_port_id", |_, _| Err(NOT_SERVED)),
    only("phys_port_name", |_, device| {
        let port = device.link.port().ok_or(NOT_SERVED)?;
        say(&port.name)
    }),
    only("phys_switch_id", |_, device| {
        let port = device.link.port().ok_or(NOT_SERVED)?;
        let digits = port.switch.iter().map(|octet| format!("{octet:02x}"));
        Ok(digits.collect())
    }),
    both("proto_down", |_, _| say(0), refused),
    only("speed", |_, device| {
        running(device)?.link.speed().map_or(Err(INVALID), say)
    }),
    only("testing", |stack, device| {
        say(u8::from(state(stack, running(device)?) == TESTING))
    }),
    both("threaded", |_, _| say(0), refused),
    both(
        "tx_queue_len",
        // Linux formats it as a signed number (`fmt_dec`).
        |_, device| say(device.txqlen() as i32),
        |_, value, _, out| {
            out.put_u32(ifla::TXQLEN, number(value)?);
            Ok(())
        },
    ),
    only("type", |_, device| say(device.link.hardware_type())),
    both(
        "uevent",
        |_, device| {
            let ty = match device.link.kind() {
                kind @ ("vlan" | "vxlan") => format!("DEVTYPE={kind}\n"),
                _ => String::new(),
            };
            let (name, index) = (device.name(), device.ifindex());
            Ok(format!("{ty}INTERFACE={name}\nIFINDEX={index}"))
        },
        refused,
    ),
];

/// The counters, sorted.
type Counter = (&'static str, fn(&LinkStats64) -> u64);
const STATISTICS: &[Counter] = &[
    ("collisions", |s| s.collisions),
    ("multicast", |s| s.multicast),
    ("rx_bytes", |s| s.rx_bytes),
    ("rx_compressed", |s| s.rx_compressed),
    ("rx_crc_errors", |s| s.rx_crc_errors),
    // Linux adds the drops for want of a buffer (`rx_dropped_show`).
    ("rx_dropped", |s| s.rx_dropped),
    ("rx_errors", |s| s.rx_errors),
    ("rx_fifo_errors", |s| s.rx_fifo_errors),
    ("rx_frame_errors", |s| s.rx_frame_errors),
    ("rx_length_errors", |s| s.rx_length_errors),
    ("rx_missed_errors", |s| s.rx_missed_errors),
    ("rx_nohandler", |s| s.rx_nohandler),
    ("rx_over_errors", |s| s.rx_over_errors),
    ("rx_packets", |s| s.rx_packets),
    ("tx_aborted_errors", |s| s.tx_aborted_errors),
    ("tx_bytes", |s| s.tx_bytes),
    ("tx_carrier_errors", |s| s.tx_carrier_errors),
    ("tx_compressed", |s| s.tx_compressed),
    ("tx_dropped", |s| s.tx_dropped),
    ("tx_errors", |s| s.tx_errors),
    ("tx_fifo_errors", |s| s.tx_fifo_errors),
    ("tx_heartbeat_errors", |s| s.tx_heartbeat_errors),
    ("tx_packets", |s| s.tx_packets),
    ("tx_window_errors", |s| s.tx_window_errors),
];

/// The files of a receive queue, with their modes.
const RECEIVE: &[(&str, u32)] = &[("rps_cpus", 0o644), ("rps_flow_cnt", 0o644)];
/// The files of a transmit queue.
const TRANSMIT: &[(&str, u32)] = &[
    ("traffic_class", 0o444),
    ("tx_maxrate", 0o644),
    ("tx_timeout", 0o444),
    ("xps_cpus", 0o644),
    ("xps_rxqs", 0o644),
];
const LIMITS_FOLDER: &str = "byte_queue_limits";
/// The limits of a queue whose device does not report completions, with their values.
const LIMITS: &[(&str, u32, &str)] = &[
    ("hold_time", 0o644, "1000"),
    ("inflight", 0o444, "0"),
    ("limit", 0o644, "0"),
    ("limit_max", 0o644, "1879048192"),
    ("limit_min", 0o644, "0"),
];

/// The node at a path.
enum Place {
    Root,
    Device(Arc<Device>),
    Attribute(Arc<Device>, &'static Attribute),
    Statistics,
    Counter(Arc<Device>, &'static Counter),
    Queues(Arc<Device>),
    Queue(&'static [(&'static str, u32)]),
    /// A file of a receive queue.
    Receive(Arc<Device>, u16, &'static (&'static str, u32)),
    /// A file of a transmit queue.
    Transmit(Arc<Device>, u16, &'static (&'static str, u32)),
    Limits,
    Limit(&'static (&'static str, u32, &'static str)),
    /// The directory of a bridge's own files or of a port's.
    Bridging(&'static [sys_bridge::File]),
    /// A file of a bridge, or of a port if that is true.
    BridgeFile(Arc<Device>, bool, &'static sys_bridge::File),
    /// The ports of a bridge.
    BridgePorts(Arc<Device>),
    /// `brforward`: the forwarding database of a bridge.
    Forwarding(Arc<Device>),
    /// The directory of a bond's own files or of a port's.
    Bonding(&'static [sys_bond::File]),
    /// A file of a bond, or of a port.
    BondFile(Arc<Device>, &'static sys_bond::File),
}

/// Returns the files of the folder `bridge` or `brport` of a device, if it has them.
fn bridge_files(device: &Device, name: &str, guard: &Guard) -> Option<&'static [sys_bridge::File]> {
    let is_bridge = |device: &Device| device.link.bridging().is_some();
    match name {
        "bridge" => is_bridge(device).then_some(sys_bridge::BRIDGE),
        "brport" => {
            let above = device.master(guard)?;
            is_bridge(above).then_some(sys_bridge::PORT)
        }
        _ => None,
    }
}

/// Returns the files of the folder `bonding` or `bonding_slave` of a device, if it has them.
fn bond_files(device: &Device, name: &str, guard: &Guard) -> Option<&'static [sys_bond::File]> {
    match name {
        "bonding" => bond_in(device).map(|_| sys_bond::BOND),
        "bonding_slave" => sys_bond::above(device, guard, |_, _| sys_bond::PORT),
        _ => None,
    }
}

/// Returns the names of a bridge's ports, the oldest first.
fn bridge_ports(ns: &Namespace, bridge: &Arc<Device>, guard: &Guard) -> Vec<String> {
    let is_port = |device: &Arc<Device>| {
        let above = device.master(guard);
        above.is_some_and(|above| Arc::ptr_eq(above, bridge))
    };
    let devices = ns.all_devices();
    let ports = devices.iter().filter(|device| is_port(device));
    ports.map(|device| device.name()).collect()
}

/// The attributes of a device that a program serves (`drivers/net/tun.c`).
const OF_TUN: &[Attribute] = &[
    only("group", |_, device| {
        say_id(tun_of(device).ok_or(NO_SUCH)?.owners().1)
    }),
    only("owner", |_, device| {
        say_id(tun_of(device).ok_or(NO_SUCH)?.owners().0)
    }),
    only("tun_flags", |_, device| {
        let flags = tun_of(device).ok_or(NO_SUCH)?.flags();
        say(format!("{flags:#x}"))
    }),
];

fn say_id(id: Option<u32>) -> Result<String, Errno> {
    id.map_or_else(|| say(-1), say)
}

/// The attributes that devices of this kind have besides.
fn own_attributes(device: &Device) -> &'static [Attribute] {
    match tun_of(device) {
        Some(_) => OF_TUN,
        None => &[],
    }
}

fn place(ns: &Namespace, path: &str, guard: &Guard) -> Option<Place> {
    let mut parts = path.split('/');
    let name = parts.next().filter(|name| !name.is_empty());
    let Some(name) = name else {
        return Some(Place::Root);
    };
    let device = ns.device_by_name(name)?;
    // An alternative name does not resolve.
    if device.name() != name {
        return None;
    }
    let parts: Vec<&str> = parts.collect();
    Some(match parts[..] {
        [] => Place::Device(device),
        ["statistics"] => Place::Statistics,
        ["statistics", name] => {
            let counter = STATISTICS.iter().find(|(known, _)| *known == name)?;
            Place::Counter(device, counter)
        }
        ["queues"] => Place::Queues(device),
        ["queues", queue, ref rest @ ..] => {
            let (receives, number) = match queue.split_once('-')? {
                ("rx", number) => (true, number),
                ("tx", number) => (false, number),
                _ => return None,
            };
            let number: u16 = number.parse().ok()?;
            let count = match receives {
                true => device.rx_queues(),
                false => device.tx_queues(),
            };
            if u32::from(number) >= count || queue.ends_with(&format!("-0{number}")) {
                return None;
            }
            let files = if receives { RECEIVE } else { TRANSMIT };
            let file = |name: &str| files.iter().find(|(known, _)| *known == name);
            match (rest, receives) {
                ([], _) => Place::Queue(files),
                ([LIMITS_FOLDER], false) => Place::Limits,
                ([LIMITS_FOLDER, name], false) => {
                    Place::Limit(LIMITS.iter().find(|(known, ..)| known == name)?)
                }
                ([name], true) => Place::Receive(device, number, file(name)?),
                ([name], false) => Place::Transmit(device, number, file(name)?),
                _ => return None,
            }
        }
        [folder @ ("bridge" | "brport")] => Place::Bridging(bridge_files(&device, folder, guard)?),
        [folder @ ("bridge" | "brport"), name] => {
            let files = bridge_files(&device, folder, guard)?;
            let file = files.iter().find(|(known, ..)| *known == name)?;
            Place::BridgeFile(device, folder == "brport", file)
        }
        ["brforward"] => {
            device.link.bridging()?;
            Place::Forwarding(device)
        }
        [folder @ ("bonding" | "bonding_slave")] => {
            Place::Bonding(bond_files(&device, folder, guard)?)
        }
        [folder @ ("bonding" | "bonding_slave"), name] => {
            let files = bond_files(&device, folder, guard)?;
            let file = files.iter().find(|(known, _)| *known == name)?;
            Place::BondFile(device, file)
        }
        ["brif", ref rest @ ..] => {
            bridge_files(&device, "bridge", guard)?;
            let [port, rest @ ..] = rest else {
                return Some(Place::BridgePorts(device));
            };
            if !bridge_ports(ns, &device, guard)
                .iter()
                .any(|name| name == port)
            {
                return None;
            }
            let path = [port, "brport"].into_iter().chain(rest.iter().copied());
            return place(ns, &path.collect::<Vec<_>>().join("/"), guard);
        }
        [name] => {
            let mut all = ATTRIBUTES.iter().chain(own_attributes(&device));
            let attribute = all.find(|known| known.name == name)?;
            Place::Attribute(device, attribute)
        }
        _ => return None,
    })
}

/// Looks up a path.
pub fn lookup(stack: &Stack, ns: &Namespace, path: &str) -> Result<Node, Errno> {
    Ok(match place(ns, path, &stack.domain.pin()).ok_or(NO_SUCH)? {
        Place::Attribute(_, attribute) => Node::File(match attribute.store {
            Some(_) => 0o644,
            None => 0o444,
        }),
        Place::Counter(..) | Place::Forwarding(_) => Node::File(0o444),
        Place::BridgeFile(_, _, (_, mode, ..)) => Node::File(*mode),
        Place::BondFile(_, (_, mode)) => Node::File(*mode),
        Place::Receive(_, _, (_, mode))
        | Place::Transmit(_, _, (_, mode))
        | Place::Limit((_, mode, _)) => Node::File(*mode),
        _ => Node::Directory,
    })
}

/// Lists the names in a directory.
pub fn list(stack: &Stack, ns: &Namespace, path: &str) -> Result<Vec<String>, Errno> {
    let guard = &stack.domain.pin();
    let owned = |names: &mut dyn Iterator<Item = &str>| names.map(str::to_owned).collect();
    let names: Vec<String> = match place(ns, path, guard).ok_or(NO_SUCH)? {
        Place::Root => ns.all_devices().iter().map(|one| one.name()).collect(),
        Place::Bridging(files) => owned(&mut files.iter().map(|(name, ..)| *name)),
        Place::BridgePorts(device) => bridge_ports(ns, &device, guard),
        Place::Bonding(files) => owned(&mut files.iter().map(|(name, _)| *name)),
        Place::Device(device) => {
            let mut folders = vec!["queues", "statistics"];
            if bridge_files(&device, "bridge", guard).is_some() {
                folders.extend(["brforward", "brif", "bridge"]);
            }
            if bridge_files(&device, "brport", guard).is_some() {
                folders.push("brport");
            }
            for folder in ["bonding", "bonding_slave"] {
                if bond_files(&device, folder, guard).is_some() {
                    folders.push(folder);
                }
            }
            let mut names: Vec<&str> = ATTRIBUTES
                .iter()
                .chain(own_attributes(&device))
                .map(|one| one.name)
                .chain(folders)
                .collect();
            names.sort_unstable();
            owned(&mut names.into_iter())
        }
        Place::Statistics => owned(&mut STATISTICS.iter().map(|(name, _)| *name)),
        Place::Queues(device) => {
            let names = |what: &'static str, count| (0..count).map(move |n| format!("{what}-{n}"));
            let receive = names("rx", device.rx_queues());
            receive.chain(names("tx", device.tx_queues())).collect()
        }
        Place::Queue(files) => {
            let transmits = std::ptr::eq(files, TRANSMIT);
            let folder = transmits.then_some(LIMITS_FOLDER);
            owned(
                &mut folder
                    .into_iter()
                    .chain(files.iter().map(|(name, _)| *name)),
            )
        }
        Place::Limits => owned(&mut LIMITS.iter().map(|(name, ..)| *name)),
        _ => return Err(Errno(libc::ENOTDIR)),
    };
    Ok(names)
}

/// Returns the device if it has several transmit queues. Others have no such map (`xps_cpus_show`).
fn steered(device: &Device) -> Result<&Device, Errno> {
    Some(device)
        .filter(|device| device.tx_queues() > 1)
        .ok_or(NO_SUCH)
}

/// Returns the content of a file.
pub fn read(stack: &Stack, ns: &Namespace, path: &str) -> Result<Vec<u8>, Errno> {
    let guard = &stack.domain.pin();
    let place = place(ns, path, guard).ok_or(NO_SUCH)?;
    if let Place::Forwarding(device) = &place {
        let bridge = device.link.bridging().ok_or(NO_SUCH)?;
        return Ok(bridge.brforward(stack, guard));
    }
    text(stack, place, guard).map(String::into_bytes)
}

/// Returns the content of a file of text.
fn text(stack: &Stack, place: Place, guard: &Guard) -> Result<String, Errno> {
    let text = match place {
        Place::BridgeFile(_, _, (_, 0o200, ..)) => return Err(Errno(libc::EACCES)),
        Place::BridgeFile(device, is_port, file) => {
            let mut out = Writer::new();
            match device.master(guard).and_then(|above| above.link.master()) {
                Some(ports) if is_port => {
                    ports.fill_port(stack, guard, &device, &mut out);
                }
                _ => device.link.fill_data(stack, &mut out),
            }
            sys_bridge::show(file, out.bytes()).ok_or(INVALID)?
        }
        Place::BondFile(device, file @ (name, _)) => match bond_in(&device) {
            Some(bond) if sys_bond::BOND.iter().any(|known| std::ptr::eq(known, file)) => {
                sys_bond::show(stack, &device, bond, name, guard).ok_or(INVALID)?
            }
            _ => {
                let text = |bond: &Bond, slave: &Slave| sys_bond::show_port(bond, slave, name);
                sys_bond::above(&device, guard, text)
                    .flatten()
                    .ok_or(INVALID)?
            }
        },
        Place::Attribute(device, attribute) => (attribute.show)(stack, &device)?,
        Place::Counter(device, (_, of)) => of(&statistics(&device)).to_string(),
        Place::Receive(device, queue, ("rps_cpus", _)) => {
            return Ok(xps::shown(&device.steering.cpus(queue), stack.config.cpus));
        }
        Place::Receive(device, queue, _) => device.steering.flow_count(queue).to_string(),
        Place::Transmit(device, queue, (name, _)) => {
            let guard = stack.domain.pin();
            match *name {
                "xps_cpus" => {
                    let cpus = steered(&device)?.tc.xps_cpus(&guard, queue);
                    return Ok(xps::shown(&cpus.map_err(failed)?, stack.config.cpus));
                }
                "xps_rxqs" => {
                    let class = device.tc.traffic_class(&guard, queue);
                    class.map_err(failed)?;
                    let receivers = device.steering.receivers(queue);
                    return Ok(xps::shown(&receivers, device.rx_queues() as usize));
                }
                "traffic_class" => {
                    let class = steered(&device)?.tc.traffic_class(&guard, queue);
                    class.map_err(failed)?.to_string()
                }
                _ => "0".into(),
            }
        }
        Place::Limit((_, _, text)) => (*text).into(),
        _ => return Err(Errno(libc::EISDIR)),
    };
    Ok(if text.is_empty() { text } else { text + "\n" })
}

/// Writes to a file.
pub fn write(stack: &Stack, ns: &Arc<Namespace>, path: &str, value: &[u8]) -> Result<(), Errno> {
    let found = place(ns, path, &stack.domain.pin());
    match found.ok_or(NO_SUCH)? {
        Place::BridgeFile(_, _, (_, 0o444, ..)) => Err(Errno(libc::EACCES)),
        Place::BridgeFile(device, is_port, file) => {
            let text = std::str::from_utf8(value).map_err(|_| INVALID)?;
            let value = wide_number(text)?;
            let (kind, data) = match is_port {
                true => (ifla::info::SLAVE_KIND, ifla::info::SLAVE_DATA),
                false => (ifla::info::KIND, ifla::info::DATA),
            };
            request(stack, ns, &device, rtm::NEWLINK, |_, out| {
                let info = out.nest(ifla::LINKINFO);
                out.put_str(kind, "bridge");
                let nest = out.nest(data);
                sys_bridge::store(file, value, out)?;
                out.end(nest);
                out.end(info);
                Ok(())
            })
        }
        Place::BondFile(device, (name, 0o644)) => {
            let text = std::str::from_utf8(value).map_err(|_| INVALID)?;
            let bond = bond_in(&device).ok_or(NO_SUCH)?;
            let guard = stack.domain.pin();
            let made = sys_bond::store(ns, &device, bond, name, text, &guard)?;
            drop(guard);
            let about = ns.device_by_name(&made.device).ok_or(NO_SUCH)?;
            request(stack, ns, &about, rtm::NEWLINK, |_, out| {
                out.raw(made.attributes.bytes());
                Ok(())
            })
        }
        Place::Attribute(device, attribute) => {
            let store = attribute.store.ok_or(Errno(libc::EACCES))?;
            let text = std::str::from_utf8(value).map_err(|_| INVALID)?;
            set(stack, ns, &device, |header, out| {
                store(&device, text, header, out)
            })
        }
        Place::Transmit(device, queue, ("xps_cpus", _)) => {
            let tc = &steered(&device)?.tc;
            let cpus = xps::parsed(value, stack.config.cpus);
            cpus.and_then(|cpus| tc.set_xps_cpus(&stack.domain.pin(), queue, &cpus))
                .map_err(|error| Errno(error.errno))
        }
        Place::Transmit(device, queue, ("xps_rxqs", _)) => {
            let receivers = xps::parsed(value, device.rx_queues() as usize).map_err(failed)?;
            let class = device.tc.traffic_class(&stack.domain.pin(), queue);
            class.map_err(failed)?;
            device
                .steering
                .set_receivers(&stack.softnet, queue, receivers);
            Ok(())
        }
        Place::Receive(device, queue, ("rps_cpus", _)) => {
            let cpus = xps::parsed(value, stack.config.cpus).map_err(failed)?;
            device.steering.set_cpus(&stack.softnet, queue, cpus);
            Ok(())
        }
        Place::Receive(device, queue, _) => {
            let text = std::str::from_utf8(value).map_err(|_| INVALID)?;
            let set = device
                .steering
                .set_flow_count(&stack.softnet, queue, wide_number(text)?);
            set.map_err(failed)
        }
        Place::Transmit(_, _, (_, 0o644)) | Place::Limit((_, 0o644, _)) => Err(NOT_SERVED),
        _ => Err(Errno(libc::EACCES)),
    }
}

/// Changes a device with a request.
fn set(
    stack: &Stack,
    ns: &Arc<Namespace>,
    device: &Device,
    write: impl FnOnce(&mut IfInfoMsg, &mut Writer) -> Result<(), Errno>,
) -> Result<(), Errno> {
    request(stack, ns, device, rtm::SETLINK, write)
}

/// Sends a request of a type about a device.
fn request(
    stack: &Stack,
    ns: &Arc<Namespace>,
    device: &Device,
    ty: u16,
    write: impl FnOnce(&mut IfInfoMsg, &mut Writer) -> Result<(), Errno>,
) -> Result<(), Errno> {
    let mut header = IfInfoMsg {
        index: device.ifindex() as i32,
        ..IfInfoMsg::default()
    };
    let mut attributes = Writer::new();
    write(&mut header, &mut attributes)?;
    let mut out = Writer::new();
    let message = out.message(ty, nlm::F_REQUEST | nlm::F_ACK, 1, 0);
    out.fixed(&header);
    out.raw(attributes.bytes());
    out.finish(message).map_err(|_| INVALID)?;
    let mut connection = Connection::new(stack, ns, 0, Box::new(NoPeer), None);
    connection.request(out.bytes());
    let answer = connection.mailbox().take().ok_or(INVALID)?;
    let message = messages(&answer).next().ok_or(INVALID)?;
    let errno = message.payload().first_chunk().copied();
    match errno.map_or(0, i32::from_ne_bytes) {
        0 => Ok(()),
        error => Err(Errno(-error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted() {
        assert!(ATTRIBUTES.is_sorted_by_key(|attribute| attribute.name));
        assert!(OF_TUN.is_sorted_by_key(|attribute| attribute.name));
        assert!(STATISTICS.is_sorted_by_key(|(name, _)| *name));
        for files in [sys_bridge::BRIDGE, sys_bridge::PORT] {
            assert!(files.is_sorted_by_key(|(name, ..)| *name));
        }
        for files in [sys_bond::BOND, sys_bond::PORT] {
            assert!(files.is_sorted_by_key(|(name, _)| *name));
        }
    }

    #[test]
    fn numbers_are_the_kernel_s() {
        for (text, value) in [
            ("0", 0),
            ("1500\n", 1500),
            ("0x10", 16),
            ("010", 8),
            ("+7", 7),
        ] {
            assert_eq!(number(text), Ok(value), "{text}");
        }
        for text in ["", "\n", "-1", "1 ", " 1", "1\n\n", "0x", "08", "++1", "a"] {
            assert_eq!(number(text), Err(INVALID), "{text}");
        }
        assert_eq!(number("4294967296"), Err(Errno(libc::ERANGE)));
        assert_eq!(number("99999999999999999999"), Err(Errno(libc::ERANGE)));
    }
}
