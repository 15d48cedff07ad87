// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `netdevsim`: a device on a simulated bus, with ports that accept and discard every frame
//! (`drivers/net/netdevsim`).
//!
//! Writing `ID [PORTS [QUEUES]]` (both 1 by default) to `/sys/bus/netdevsim/new_device` creates a
//! device and, in the writer's namespace, a link `eth%d` for each port, with that many transmit and
//! receive queues. Writing `ID` to `del_device` removes them, wherever they are. Ids are shared by
//! the whole stack. If the driver fails to create the links (no queue, more than 65,535 queues, no
//! name left; here also more than 2^20 queues in total), the device remains without ports and the
//! write succeeds, as in Linux. `ip link add` and `ip link del` are rejected. When the namespace is
//! removed, the ports are created again in the initial one. A port that was moved into a namespace
//! that is removed is moved on to the initial one.
//!
//! Not implemented: ports by `new_port` and `del_port`, debugfs, devlink and its simulated routes,
//! ethtool, virtual functions, and all offload. The hook for traffic control offload rejects
//! everything, as the driver's does except for BPF, but without the driver's text for filters.

use std::collections::BTreeMap;
use std::sync::Arc;
use weir_sync::order::{self, Mutex, MutexGuard};

use weir_netlink::ifla::iff;
use weir_netlink::{Error, errno, rtm};
use weir_packet::Batch;

use crate::cpu::Cx;
use crate::device::{Device, DeviceKey};
use crate::ethtool::{Driver, RELEASE};
use crate::features::{Offer, bit};
use crate::layers::Module;
use crate::namespace::{Namespace, NsId};
use crate::parts::Key;
use crate::random::Generator;
use crate::stack::Stack;
use crate::{Kind, Link, NewLink, Port, changed, ethernet, move_to, register, unregister};

/// The `netdevsim` link kind.
pub static KIND: Kind = Kind {
    name: "netdevsim",
    pattern: "eth%d",
    create: Err(
        "netdevsim: Please use: echo \"[ID] [PORT_COUNT] [NUM_QUEUES]\" > /sys/bus/netdevsim/new_device",
    ),
    validate: None,
};

/// The number of possible names for `eth%d` (`__dev_alloc_name`). A device with more ports than
/// this fails.
const NAMES: u32 = 32_768;

/// The maximum number of queues of all ports of a device together. There is no memory for more.
const QUEUES: u32 = 1 << 20;

/// The devices on the bus, by id (`nsim_bus_dev_list`).
#[derive(Debug, Default)]
pub struct Bus(Mutex<BTreeMap<u32, Simulated>, order::Bus>);

static BUS: Key<Bus, 4> = Key::new();

/// The bus in the stack.
pub static MODULE: Module = Module {
    stack: Some(|parts| parts.fill(&BUS, Bus::default())),
    ..Module::NONE
};

/// The stack's bus.
fn bus(stack: &Stack) -> &Bus {
    stack.parts.get(&BUS)
}

impl Bus {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u32, Simulated>, order::Bus> {
        self.0.lock()
    }
}

/// Returns the ids of the devices on the bus, with the links of each in the order of the ports.
pub fn devices(stack: &Stack) -> Vec<(u32, Vec<DeviceKey>)> {
    let bus = bus(stack).lock();
    let all = bus.values();
    all.map(|one| (one.id, one.ports.clone())).collect()
}

/// A device on the bus.
#[derive(Debug)]
struct Simulated {
    id: u32,
    /// The namespace in which its links are created.
    home: NsId,
    /// The requested numbers of ports and queues.
    asked: (u32, u32),
    /// The links, in the order of the ports.
    ports: Vec<DeviceKey>,
}

impl Simulated {
    /// Creates all links, or none if one fails (`nsim_drv_probe`).
    fn probe(&mut self, stack: &Stack, ns: &Arc<Namespace>) {
        let (ports, queues) = self.asked;
        let too_many = ports > NAMES || ports.saturating_mul(queues) > QUEUES;
        if too_many || !(1..=0xffff).contains(&queues) {
            return;
        }
        // Use the maximum length of an id (`MAX_PHYS_ITEM_ID_LEN`).
        let mut switch = [0; 32];
        let path = format!("netdevsim {}", self.id);
        let mut random = Generator::new(stack.config.seed, &path);
        for word in switch.chunks_exact_mut(8) {
            word.copy_from_slice(&random.next_u64().to_le_bytes());
        }
        for number in 1..=ports {
            let port = Port {
                bus: KIND.name,
                parent: format!("{}{}", KIND.name, self.id),
                name: format!("p{number}"),
                switch,
            };
            match self.add(stack, ns, port) {
                Ok(device) => self.ports.push(device.key),
                Err(_) => return self.remove(stack),
            }
        }
    }

    /// Creates the link of a port (`nsim_create`).
    fn add(&self, stack: &Stack, ns: &Arc<Namespace>, port: Port) -> Result<Arc<Device>, Error> {
        let new = NewLink {
            ns: ns.clone(),
            name: KIND.pattern.into(),
            ifindex: 0,
            mtu: None,
            address: None,
            broadcast: None,
            txqlen: None,
            group: None,
            queues: (Some(self.asked.1), Some(self.asked.1)),
            link: None,
            link_ns: ns.clone(),
            flags: (0, 0),
            data: None,
        };
        let mut device = ethernet(Box::new(Netdevsim(port)), ns, &new, iff::NOARP);
        device.flags &= !iff::MULTICAST;
        let device = register(stack, ns, device, 0, 0)?;
        changed(
            stack,
            &stack.domain.pin(),
            ns,
            &device,
            rtm::NEWLINK,
            u32::MAX,
        );
        Ok(device)
    }

    /// Removes the links, the last port first (`nsim_dev_port_del_all`).
    fn remove(&mut self, stack: &Stack) {
        for key in self.ports.drain(..).rev() {
            let device = stack.device(key, &stack.domain.pin()).cloned();
            unregister(stack, device.as_slice());
        }
    }
}

/// Parses up to `N` numbers as `sscanf` does for `%u`: values wrap, and anything that is not a
/// number ends the list.
fn numbers<const N: usize>(mut text: &[u8]) -> Vec<u32> {
    // The kernel's `isspace` includes the no-break space of Latin-1.
    let is_space = |octet: &u8| matches!(octet, b' ' | b'\t'..=b'\r' | 0xa0);
    let mut found = Vec::new();
    while found.len() < N {
        let start = text.iter().position(|octet| !is_space(octet));
        text = &text[start.unwrap_or(text.len())..];
        let end = text.iter().position(|octet| !octet.is_ascii_digit());
        let (digits, rest) = text.split_at(end.unwrap_or(text.len()));
        if digits.is_empty() {
            break;
        }
        let value = digits.iter().fold(0_u32, |value, digit| {
            value.wrapping_mul(10).wrapping_add(u32::from(digit - b'0'))
        });
        found.push(value);
        text = rest;
    }
    found
}

/// Creates a device on the bus and the links of its ports in `ns` (`new_device_store`).
///
/// # Errors
/// EINVAL if the id is not a number or exceeds 2^31 - 1; ENOSPC if it is in use.
pub fn new_device(stack: &Stack, ns: &Arc<Namespace>, text: &[u8]) -> Result<(), Error> {
    let asked = numbers::<3>(text);
    let id = checked(asked.first())?;
    let mut bus = bus(stack).lock();
    if bus.contains_key(&id) {
        return Err(Error::new(errno::ENOSPC));
    }
    let number = |at: usize| asked.get(at).copied().unwrap_or(1);
    let mut device = Simulated {
        id,
        home: ns.id,
        asked: (number(1), number(2)),
        ports: Vec::new(),
    };
    device.probe(stack, ns);
    bus.insert(id, device);
    Ok(())
}

/// Removes a device from the bus together with the links of its ports (`del_device_store`).
///
/// # Errors
/// EINVAL as for [`new_device`]; ENOENT if there is no such device.
pub fn del_device(stack: &Stack, text: &[u8]) -> Result<(), Error> {
    let id = checked(numbers::<1>(text).first())?;
    let mut bus = bus(stack).lock();
    let device = bus.remove(&id);
    device
        .ok_or_else(|| Error::new(errno::ENOENT))?
        .remove(stack);
    Ok(())
}

/// Checks that an id is in the valid range.
fn checked(id: Option<&u32>) -> Result<u32, Error> {
    let id = id.filter(|id| i32::try_from(**id).is_ok());
    id.copied().ok_or_else(|| Error::new(errno::EINVAL))
}

/// Moves everything on the bus out of a closing namespace into the initial one. Devices created
/// there are created again (`devlink_pernet_pre_exit`); ports that were moved there are moved
/// (`default_device_exit_net`).
pub fn leave(stack: &Stack, ns: &Arc<Namespace>) {
    let Some(initial) = stack.namespace(Stack::INITIAL) else {
        return;
    };
    let mut bus = bus(stack).lock();
    for device in bus.values_mut().filter(|device| device.home == ns.id) {
        device.remove(stack);
        device.home = initial.id;
        device.probe(stack, &initial);
    }
    let guard = &stack.domain.pin();
    for device in ns.all_devices() {
        if device.link.port().is_some() {
            // Keep the name, or else use one made from the index, or any free one.
            let numbered = format!("dev{}", device.ifindex());
            let moved = |name| move_to(stack, guard, &device, &initial, name, 0).is_ok();
            ["", &numbered, "dev%d"].into_iter().any(moved);
        }
    }
}

struct Netdevsim(Port);

impl Link for Netdevsim {
    /// Returns an empty kind: the driver's links have no `rtnl_link_ops`.
    fn kind(&self) -> &'static str {
        ""
    }

    fn port(&self) -> Option<&Port> {
        Some(&self.0)
    }

    fn features(&self) -> Offer {
        Offer {
            active: bit::HIGHDMA | bit::SG | bit::FRAGLIST | bit::HW_CSUM | bit::TSO,
            ..Offer::default()
        }
    }

    fn driver(&self) -> Driver {
        Driver {
            info: Some(("netdevsim", RELEASE, "")),
            ..Driver::default()
        }
    }

    fn has_offload_hook(&self) -> bool {
        true
    }

    fn transmit(&self, cx: &mut Cx<'_>, _device: &Arc<Device>, batch: Batch) {
        cx.consume_batch(batch);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_by_sscanf() {
        let three = numbers::<3>;
        assert_eq!(three(b"1 2 3\n"), [1, 2, 3]);
        assert_eq!(three(b" \t\x0b\xa01\n\r2x3"), [1, 2]);
        assert_eq!(three(b"4294967297 18446744073709551617"), [1, 1]);
        assert_eq!(three(b"007,8"), [7]);
        for none in [&b""[..], b"x", b"-1", b"+1", b"\x001", b"  "] {
            assert_eq!(three(none), [], "{none:?}");
        }
        assert_eq!(numbers::<1>(b"1 2"), [1]);
    }
}
