// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `bridge`: an Ethernet bridge (`net/bridge`) without netfilter's hooks.
//!
//! | file | contents |
//! |---|---|
//! | [`config`] | `IFLA_BR_*` |
//! | [`port`] | ports and their flags (`IFLA_BRPORT_*`), address of the bridge |
//! | [`multicast`] | snooping of multicast groups, `bridge mdb` |
//! | [`stp`] | states of ports, carrier, the spanning tree protocol |
//! | [`fdb`] | forwarding table, learning, ageing, `bridge fdb` |
//! | [`vlan`] | VLAN filtering, `bridge vlan` |
//! | [`forward`] | the data path |
//!
//! Rejected: versions 3 of IGMP and 2 of MLD with sources, backup ports.

pub mod config;
pub mod fdb;
pub mod forward;
pub mod multicast;
pub mod port;
pub mod proxy;
pub mod stp;
pub mod vlan;

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock, Weak};

use weir_netlink::ifla::iff;
use weir_netlink::{Attr, Error, Writer, errno};
use weir_packet::Batch;
use weir_sync::order::{self, Mutex};
use weir_sync::rcu::{Guard, Published};

use self::config::Settings;
use self::port::Ports;
use crate::clock::{Holds, MILLISECOND, SECOND, TimerId};
use crate::cpu::Cx;
use crate::device::{Device, Mac};
use crate::ethtool::{Driver, Link as LinkReport};
use crate::features::{Offer, bit};
use crate::kind::{Bridging, Fdb, Master};
use crate::layers::{Event, Hears, Module, Site};
use crate::request::Ctl;
use crate::stack::Stack;
use crate::{Kind, Link, NewLink, ethernet, register};

/// The `bridge` link kind.
pub static KIND: Kind = Kind {
    name: "bridge",
    pattern: "bridge%d",
    create: Ok(create),
    validate: None,
};

/// The state of a bridge (`struct net_bridge`).
pub struct Bridge {
    /// The bridge, for its timers.
    me: Weak<Bridge>,
    device: OnceLock<Weak<Device>>,
    settings: Settings,
    ports: Published<Ports>,
    /// Held while the list of ports changes.
    changes: Mutex<(), order::BridgePorts>,
    table: fdb::Table,
    /// Held while VLANs of the bridge or of a port change.
    vlans: Mutex<vlan::Vlans, order::BridgeVlans>,
    /// The VLANs of the bridge itself, and those that only ports have.
    own_vlans: Published<vlan::Group>,
    no_carrier: AtomicBool,
    /// The variables of the spanning tree protocol.
    stp: Mutex<stp::Stp, order::BridgeStp>,
    /// The members of groups, and routers.
    snoop: Mutex<multicast::Snoop, order::BridgeSnoop>,
    /// What the data path reads of them.
    snooping: multicast::Shared,
    mtu_set: AtomicBool,
    /// The timer of the next ageing scan, armed while the device is up.
    timer: Mutex<Option<TimerId>, order::BridgeTimer>,
}

/// The `Link` implementation that the device owns.
struct Handle(Arc<Bridge>);

/// Follows the ports of bridges.
pub static MODULE: Module = Module {
    device_event: Some(Hears::of(
        &[
            Event::Address,
            Event::Up,
            Event::Down,
            Event::Carrier,
            Event::Mtu { before: 0 },
            Event::Gone,
        ],
        device_event,
    )),
    ..Module::NONE
};

fn create(ctl: &mut Ctl<'_>, new: NewLink<'_>) -> Result<Arc<Device>, Error> {
    let domain = &ctl.stack.domain;
    let snooping = multicast::Shared::new(domain);
    let bridge = Arc::new_cyclic(|me| Bridge {
        me: me.clone(),
        device: OnceLock::new(),
        settings: Settings::default(),
        ports: Published::new(domain, Ports::default()),
        changes: Mutex::default(),
        table: fdb::Table::new(domain),
        vlans: Mutex::default(),
        own_vlans: Published::new(domain, vlan::Group::default()),
        no_carrier: AtomicBool::new(false),
        stp: Mutex::new(stp::Stp::new([0; 6])),
        snoop: Mutex::new(multicast::Snoop::new(&snooping)),
        snooping,
        mtu_set: AtomicBool::new(false),
        timer: Mutex::default(),
    });
    let request = config::Request::parse(new.data)?;
    let device = ethernet(Box::new(Handle(bridge.clone())), &new.ns, &new, 0);
    let group = new.group.unwrap_or(0);
    let device = register(ctl.stack, &new.ns, device, new.ifindex, group)?;
    let set = bridge.device.set(Arc::downgrade(&device)).is_ok();
    debug_assert!(set, "the device is new");
    bridge.add_own(ctl.stack, ctl.guard, device.address());
    bridge.begin_vlans(ctl.stack, ctl.guard);
    if let Some(mac) = new.address {
        // Without ports there is no carrier.
        bridge.step(ctl.stack, ctl.guard, |step| step.set_address(mac));
    }
    if let Err(error) = bridge.configure((ctl.stack, ctl.guard), &request) {
        crate::unregister(ctl.stack, &[device]);
        return Err(error);
    }
    Ok(device)
}

/// Returns the bridge of a port, with its device.
fn bridge_of<'g>(port: &'g Device, guard: &'g Guard) -> Option<(&'g Arc<Device>, &'g Bridge)> {
    let master = port.master(guard)?;
    Some((master, bridge_in(master)?))
}

fn bridge_in(device: &Device) -> Option<&Bridge> {
    device
        .link
        .as_any()?
        .downcast_ref::<Arc<Bridge>>()
        .map(|bridge| &**bridge)
}

fn device_event(site: &Site<'_>, event: Event) {
    let (stack, guard, device) = (site.stack, site.guard, site.device);
    if event == Event::Address
        && let Some(bridge) = bridge_in(device)
    {
        bridge.address_set(stack, guard, device.address());
    }
    let Some((_, bridge)) = bridge_of(device, guard) else {
        return;
    };
    match event {
        Event::Up | Event::Down | Event::Carrier => bridge.check_carrier(stack, guard, device),
        Event::Address => bridge.port_address_changed(stack, guard, device),
        Event::Mtu { .. } => bridge.adjust_mtu(stack, guard),
        // A port that is unregistered or moved leaves.
        Event::Gone => {
            let _ = bridge.release_port(stack, guard, device);
        }
        _ => {}
    }
}

impl Bridge {
    fn device(&self) -> Option<Arc<Device>> {
        self.device.get()?.upgrade()
    }

    /// Arms the ageing timer (`br->gc_work`).
    fn arm(stack: &Stack, bridge: &Arc<Self>, time: u64) {
        Self::arm_step(stack, bridge, time, fdb::Scan::default());
    }

    /// Arms the timer of one step of an ageing scan. Other work comes between the steps of a large table.
    fn arm_step(stack: &Stack, bridge: &Arc<Self>, time: u64, mut scan: fdb::Scan) {
        let weak = Arc::downgrade(bridge);
        let job = move |cx: &mut Cx<'_>| {
            let Some(bridge) = weak.upgrade() else { return };
            if bridge.device().is_some_and(|device| device.is_up()) {
                match bridge.age(cx.stack, cx.guard, cx.now, &mut scan) {
                    Some(wait) => {
                        Self::arm(cx.stack, &bridge, cx.now + wait.max(10 * MILLISECOND));
                    }
                    None => Self::arm_step(cx.stack, &bridge, cx.now, scan),
                }
            }
        };
        let timer = stack.arm(time, Holds::Nothing, Box::new(job));
        let old = bridge.timer.lock().replace(timer);
        if let Some(old) = old {
            stack.timers.cancel(old);
        }
    }

    /// Takes the MTU of the ports, unless a user set one (`br_mtu_auto_adjust`).
    fn adjust_mtu(&self, stack: &Stack, guard: &Guard) {
        let Some(device) = self.device().filter(|_| !self.mtu_set.load(Relaxed)) else {
            return;
        };
        let ports = &self.ports.load(guard).list;
        let mtu = ports.iter().map(|port| port.device.mtu()).min();
        let (mtu, before) = (mtu.unwrap_or(1500), device.mtu());
        if mtu != before {
            device.set_mtu(mtu);
            let ns = device.namespace(guard);
            crate::changed(stack, guard, ns, &device, weir_netlink::rtm::NEWLINK, 0);
            Site::new(stack, guard, ns, &device).notify(Event::Mtu { before });
        }
    }

    /// Takes a new address of the bridge itself (`br_set_mac_address`).
    fn address_set(&self, stack: &Stack, guard: &Guard, mac: Mac) {
        if self.stp.lock().mac() != mac {
            self.replace_own(stack, guard, mac);
            self.step(stack, guard, |step| step.set_address(mac));
        }
    }
}

impl Link for Handle {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn as_any(&self) -> Option<&dyn std::any::Any> {
        Some(&self.0)
    }

    fn check_mtu(&self, _mtu: u32) -> Result<(), Error> {
        self.0.mtu_set.store(true, Relaxed);
        Ok(())
    }

    fn features(&self) -> Offer {
        let changeable = bit::SG
            | bit::FRAGLIST
            | bit::HIGHDMA
            | bit::GSO_SOFTWARE
            | bit::GSO_ENCAP_ALL
            | bit::HW_CSUM
            | bit::HW_VLAN_CTAG_TX
            | bit::HW_VLAN_STAG_TX;
        let active = changeable | bit::LLTX | bit::NETNS_LOCAL;
        Offer {
            active,
            changeable,
            vlan: changeable,
            off: 0,
        }
    }

    /// The ports have merged them.
    fn polls(&self) -> bool {
        false
    }

    /// Ports are asked one by one.
    fn takes_long_packets(&self) -> bool {
        false
    }

    fn driver(&self) -> Driver {
        Driver {
            info: Some(("bridge", "2.3", "N/A")),
            link: LinkReport::Carrier,
            ..Driver::default()
        }
    }

    fn carrier(&self, _stack: &Stack, _device: &Device) -> bool {
        !self.0.no_carrier.load(Relaxed)
    }

    fn may_move(&self) -> bool {
        false
    }

    fn counts_itself(&self) -> bool {
        true
    }

    fn changed_state(&self, stack: &Stack, guard: &Guard, device: &Arc<Device>) {
        if device.is_up() {
            Bridge::arm(stack, &self.0, stack.clock.now() + SECOND / 10);
            self.0.step(stack, guard, |step| step.begin());
            self.0.enable_all(stack, guard);
            self.0.snoop_step(stack, guard, |step| step.open());
            if self.0.snooping.on.load(Relaxed) {
                self.0.join_snoopers(stack, guard, true);
            }
        } else {
            if let Some(timer) = self.0.timer.lock().take() {
                stack.timers.cancel(timer);
            }
            self.0.disable_all(stack, guard);
            self.0.step(stack, guard, |step| step.end());
            self.0.snoop_step(stack, guard, |step| step.stop());
            if self.0.snooping.on.load(Relaxed) {
                self.0.join_snoopers(stack, guard, false);
            }
        }
    }

    fn asks_for_all(&self, _stack: &Stack, _guard: &Guard, flag: u32, more: bool) {
        if flag == iff::PROMISC {
            self.0.settings.promiscuous.store(more, Relaxed);
        }
    }

    fn transmit(&self, cx: &mut Cx<'_>, device: &Arc<Device>, batch: Batch) {
        self.0.transmit(cx, device, batch);
    }

    fn fill_data(&self, stack: &Stack, out: &mut Writer) {
        self.0.fill(stack, out);
    }

    fn change(
        &self,
        ctl: &mut Ctl<'_>,
        device: &Arc<Device>,
        data: Option<Attr<'_>>,
    ) -> Result<(), Error> {
        let request = config::Request::parse(data)?;
        self.0.configure((ctl.stack, ctl.guard), &request)?;
        if device.is_up() {
            Bridge::arm(ctl.stack, &self.0, ctl.stack.clock.now());
        }
        Ok(())
    }

    fn leaves(&self, stack: &Stack, guard: &Guard, _device: &Arc<Device>) {
        for port in self.0.ports.load(guard).list.clone() {
            let _ = self.0.release_port(stack, guard, &port.device);
        }
    }

    fn removed(&self, stack: &Stack, device: &Arc<Device>) {
        let guard = &stack.domain.pin();
        // A port that came after the device was marked.
        self.leaves(stack, guard, device);
    }

    fn fdb(&self) -> Option<&dyn Fdb> {
        Some(&*self.0)
    }

    fn master(&self) -> Option<&dyn Master> {
        Some(self)
    }

    fn bridging(&self) -> Option<&dyn Bridging> {
        Some(self)
    }
}

/// Returns the error of an option that is not served.
fn refuse(text: &'static str) -> Error {
    Error::msg(errno::EOPNOTSUPP, text)
}
