// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `/proc/net/vlan`: `config`, which shows the naming scheme of `vconfig` and lists the VLAN
//! devices, and one file per VLAN device (`net/8021q/vlanproc.c`).

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use weir_intercept::Errno;
use weir_netlink::ifla::{info, vlan, vlan_flag};
use weir_netlink::{Fixed, IflaVlanFlags, IflaVlanQosMapping, Table, Writer};
use weir_stack::link::vlan::KIND;
use weir_stack::{Device, Namespace, Stack};

const CONFIG: &str = "config";

/// `vlan_name_type_str`
const NAME_TYPES: [&str; 4] = [
    "VLAN_NAME_TYPE_PLUS_VID",
    "VLAN_NAME_TYPE_RAW_PLUS_VID",
    "VLAN_NAME_TYPE_PLUS_VID_NO_PAD",
    "VLAN_NAME_TYPE_RAW_PLUS_VID_NO_PAD",
];

/// The private flags that Linux 6.1 shows for a VLAN device.
const PRIVATE_FLAGS: u32 = 0x8_1001;

fn is_vlan(device: &Device) -> bool {
    device.link.kind() == KIND.name
}

/// Lists the names.
pub fn names(ns: &Namespace) -> Vec<String> {
    let devices = ns.all_devices();
    let devices = devices.iter().filter(|device| is_vlan(device));
    let devices = devices.map(|device| device.name());
    devices.chain([CONFIG.to_owned()]).collect()
}

/// Returns the content of a file in the directory.
pub fn read(stack: &Stack, ns: &Arc<Namespace>, name: &str) -> Option<String> {
    if name == CONFIG {
        return Some(config(stack, ns));
    }
    let device = ns.device_by_name(name).filter(|device| is_vlan(device))?;
    Some(show(stack, &device))
}

/// Sets the naming scheme of devices, for the supervisor's `SIOCSIFVLAN`.
pub fn write(ns: &Namespace, value: &[u8]) -> Result<(), Errno> {
    let name = NAME_TYPES.iter().position(|name| name.as_bytes() == value);
    let name = name.ok_or(Errno(libc::EINVAL))?;
    ns.vlan_names.store(name as u32, Relaxed);
    Ok(())
}

/// Calls `see` with `IFLA_INFO_DATA` of a device.
fn with_data<T>(stack: &Stack, device: &Device, see: impl FnOnce(&Table<'_>) -> T) -> T {
    let mut out = Writer::new();
    let nest = out.nest(info::DATA);
    device.link.fill_data(stack, &mut out);
    out.end(nest);
    let whole = weir_netlink::index(weir_netlink::attrs(out.bytes()), info::MAX);
    match whole.get(info::DATA) {
        Some(data) => see(&data.index(vlan::MAX)),
        None => see(&weir_netlink::index(weir_netlink::attrs(&[]), vlan::MAX)),
    }
}

fn id(data: &Table<'_>) -> u16 {
    data.u16(vlan::ID).ok().flatten().unwrap_or(0)
}

fn below(stack: &Stack, device: &Device) -> String {
    let lower = device.link.lower(stack);
    let lower = lower.and_then(|(ns, index)| {
        let guard = stack.domain.pin();
        let ns = stack.namespace(ns)?;
        ns.device(index, &guard).map(|lower| lower.name())
    });
    lower.unwrap_or_default()
}

/// Formats `config` (`vlan_seq_show`).
fn config(stack: &Stack, ns: &Namespace) -> String {
    let way = NAME_TYPES.get(ns.vlan_names.load(Relaxed) as usize);
    let way = way.unwrap_or(&"UNKNOWN");
    let mut text = format!("VLAN Dev name\t | VLAN ID\nName-Type: {way}\n");
    for device in ns.all_devices().iter().filter(|device| is_vlan(device)) {
        let id = with_data(stack, device, id);
        let lower = below(stack, device);
        let _ = writeln!(text, "{:<15}| {id}  | {lower}", device.name());
    }
    text
}

/// Formats the file of a device (`vlandev_seq_show`).
fn show(stack: &Stack, device: &Device) -> String {
    let totals = device.totals();
    with_data(stack, device, |data| {
        let flags = data.get(vlan::FLAGS);
        let flags = flags.and_then(|attr| IflaVlanFlags::from_bytes(attr.payload));
        let reorder = flags.unwrap_or_default().flags & vlan_flag::REORDER_HDR;
        let mut text = format!(
            "{}  VID: {}\t REORDER_HDR: {reorder}  dev->priv_flags: {PRIVATE_FLAGS:x}\n",
            device.name(),
            id(data),
        );
        let mut line = |name: &str, value: u64| {
            let _ = writeln!(text, "{name:>30} {value:12}");
        };
        line("total frames received", totals.rx_packets);
        line("total bytes received", totals.rx_bytes);
        line("Broadcast/Multicast Rcvd", totals.multicast);
        text.push('\n');
        let mut line = |name: &str, value: u64| {
            let _ = writeln!(text, "{name:>30} {value:12}");
        };
        line("total frames transmitted", totals.tx_packets);
        line("total bytes transmitted", totals.tx_bytes);
        let mappings = |ty| -> Vec<IflaVlanQosMapping> {
            let nest = data.get(ty).into_iter().flat_map(|nest| nest.attrs());
            nest.filter_map(|attr| IflaVlanQosMapping::from_bytes(attr.payload))
                .collect()
        };
        let mut ingress = [0; 8];
        for mapping in mappings(vlan::INGRESS_QOS) {
            ingress[(mapping.from & 7) as usize] = mapping.to;
        }
        let [a, b, c, d, e, f, g, h] = ingress;
        let _ = write!(
            text,
            "Device: {}\nINGRESS priority mappings: \
             0:{a}  1:{b}  2:{c}  3:{d}  4:{e}  5:{f}  6:{g} 7:{h}\n EGRESS priority mappings: ",
            below(stack, device),
        );
        // In the order of Linux's table of 16 lists.
        let mut egress = mappings(vlan::EGRESS_QOS);
        egress.sort_by_key(|mapping| (mapping.from & 0xf, mapping.from));
        for mapping in egress {
            let _ = write!(text, "{}:{} ", mapping.from, mapping.to);
        }
        text.push('\n');
        text
    })
}
