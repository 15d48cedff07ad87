// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `bond`: several links as one (`drivers/net/bonding`).
//!
//! | file | contents |
//! |---|---|
//! | [`options`] | the options, their values, and when they may change |
//! | [`config`] | `IFLA_BOND_*` |
//! | [`slave`] | ports: enslave, release, `IFLA_BOND_SLAVE_*` |
//! | [`active`] | the active port, failover, carrier |
//! | [`transmit`] | the data path, hash policies |
//! | [`monitor`] | the MII monitor, the timer of the monitors |
//! | [`arp`] | the ARP monitor |
//! | [`lacp`] | the mode 802.3ad |
//!
//! Rejected: the modes balance-tlb and balance-alb. `lp_interval` belongs to these and is kept.

pub mod active;
pub mod arp;
pub mod config;
pub mod lacp;
pub mod monitor;
pub mod options;
pub mod slave;
pub mod times;
pub mod transmit;

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, OnceLock, Weak};

use weir_netlink::ifla::iff;
use weir_netlink::{Attr, Error, LinkStats64, Writer};
use weir_packet::Batch;
use weir_sync::order::{self, Mutex};
use weir_sync::rcu::{Guard, Published, PublishedOption};

use self::config::Params;
use self::slave::Slave;
use crate::clock::TimerId;
use crate::cpu::Cx;
use crate::device::{Device, LinkTotals, Mac};
use crate::ethtool::{Driver, Link as LinkReport, LinkSettings, RELEASE};
use crate::features::{Offer, bit};
use crate::kind::Master;
use crate::layers::{Event, Hears, Module, Site};
use crate::request::Ctl;
use crate::stack::Stack;
use crate::{Kind, Link, NewLink, ethernet, register};

/// The `bond` link kind.
pub static KIND: Kind = Kind {
    name: "bond",
    pattern: "bond%d",
    create: Ok(create),
    validate: None,
};

/// The number of transmit and of receive queues of a new bond (`BOND_DEFAULT_TX_QUEUES`).
const QUEUES: u32 = 16;

/// `NETIF_F_HW_VLAN_CTAG_FILTER` and `NETIF_F_HW_VLAN_STAG_FILTER`
const VLAN_FILTERS: u64 = 1 << 9 | 1 << 47;
/// `NETIF_F_GSO_ROBUST`
const GSO_ROBUST: u64 = 1 << 17;
/// `BOND_XFRM_FEATURES`, which a user may change
const XFRM_FEATURES: u64 = 1 << 31 | 1 << 50 | 1 << 51;
/// `BOND_VLAN_FEATURES`
const VLAN_FEATURES: u64 =
    bit::HW_CSUM | bit::SG | bit::FRAGLIST | bit::GSO_SOFTWARE | bit::HIGHDMA | bit::LRO;
/// `NETIF_F_ONE_FOR_ALL`
const ONE_FOR_ALL: u64 =
    bit::GSO_SOFTWARE | GSO_ROBUST | bit::SG | bit::HIGHDMA | bit::FRAGLIST | bit::VLAN_CHALLENGED;
/// `NETIF_F_ALL_FOR_ALL`
const ALL_FOR_ALL: u64 = bit::NOCACHE_COPY | bit::FSO;
/// `NETIF_F_CSUM_MASK`
const CHECKSUMS: u64 = bit::IP_CSUM | bit::IPV6_CSUM | bit::HW_CSUM;

/// The stack, and a read section.
#[derive(Clone, Copy)]
pub struct At<'a> {
    /// The stack.
    pub stack: &'a Stack,
    /// The read section.
    pub guard: &'a Guard,
}

/// The state of a bond (`struct bonding`).
pub struct Bond {
    device: OnceLock<Weak<Device>>,
    /// The bond itself, for timers.
    own: Weak<Bond>,
    params: Params,
    /// The ports, the oldest first.
    slaves: Published<Vec<Arc<Slave>>>,
    /// Held while the list of ports changes.
    changes: Mutex<(), order::BondPorts>,
    /// The ports among which the hash of a packet chooses (`usable_slaves`).
    usable: Published<Vec<Arc<Slave>>>,
    /// `curr_active_slave`
    active: PublishedOption<Arc<Slave>>,
    primary: PublishedOption<Arc<Slave>>,
    /// The port by which the ARP monitor looks for a target while no port is active (`current_arp_slave`).
    candidate: PublishedOption<Arc<Slave>>,
    force_primary: AtomicBool,
    no_carrier: AtomicBool,
    /// Whether the features were ever computed from those of ports.
    computed: AtomicBool,
    /// The packets sent in mode balance-rr.
    sent: AtomicU32,
    /// How often the neighbours are still to be told where the addresses are (`send_peer_notif`).
    notices: AtomicU32,
    /// How many times the groups are still to be reported.
    rejoins: AtomicU32,
    /// The counters of ports that have left, and of dropped packets.
    past: Mutex<LinkTotals, order::BondLists>,
    /// The timer of the monitor, armed while the device is up.
    timer: Mutex<Option<TimerId>, order::BondTimer>,
    /// The timer of LACP, armed while the device is up in mode 802.3ad.
    lacp_timer: Mutex<Option<TimerId>, order::BondTimer>,
    /// The ports and aggregators of the mode 802.3ad.
    lacp: Mutex<lacp::Lacp, order::Lacp>,
}

/// The `Link` implementation that the device owns.
struct Handle(Arc<Bond>);

/// Follows the ports of bonds.
pub static MODULE: Module = Module {
    device_event: Some(Hears::of(
        &[
            Event::Up,
            Event::Carrier,
            Event::Down,
            Event::Renamed,
            Event::Features,
            Event::Gone,
        ],
        device_event,
    )),
    ..Module::NONE
};

fn create(ctl: &mut Ctl<'_>, new: NewLink<'_>) -> Result<Arc<Device>, Error> {
    let at = At {
        stack: ctl.stack,
        guard: ctl.guard,
    };
    let domain = &ctl.stack.domain;
    let bond = Arc::new_cyclic(|own| Bond {
        device: OnceLock::new(),
        own: own.clone(),
        params: Params::default(),
        slaves: Published::new(domain, Vec::new()),
        changes: Mutex::default(),
        usable: Published::new(domain, Vec::new()),
        active: PublishedOption::new(domain, None),
        primary: PublishedOption::new(domain, None),
        candidate: PublishedOption::new(domain, None),
        force_primary: AtomicBool::new(false),
        no_carrier: AtomicBool::new(true),
        computed: AtomicBool::new(false),
        sent: AtomicU32::new(0),
        notices: AtomicU32::new(0),
        rejoins: AtomicU32::new(0),
        past: Mutex::default(),
        timer: Mutex::default(),
        lacp_timer: Mutex::default(),
        lacp: Mutex::default(),
    });
    let table = config::parse(new.data)?;
    // Names are looked up in the namespace of the request; there is no device yet.
    if let Some(table) = &table {
        bond.configure(at, &new.ns, table)?;
    }
    let (tx, rx) = new.queues;
    let queues = (tx.or(Some(QUEUES)), rx.or(Some(QUEUES)));
    let new = NewLink { queues, ..new };
    let device = ethernet(Box::new(Handle(bond.clone())), &new.ns, &new, iff::MASTER);
    let group = new.group.unwrap_or(0);
    let device = register(ctl.stack, &new.ns, device, new.ifindex, group)?;
    let set = bond.device.set(Arc::downgrade(&device)).is_ok();
    debug_assert!(set, "the device is new");
    // `netif_carrier_off`
    device.count_carrier_change(false);
    device.watch_carrier(|| false);
    crate::settle_operstate(&device);
    Ok(device)
}

/// Returns the bond of a port, with its device.
fn bond_of<'g>(port: &'g Device, guard: &'g Guard) -> Option<(&'g Arc<Device>, &'g Arc<Bond>)> {
    let master = port.master(guard)?;
    Some((master, bond_in(master)?))
}

/// Returns the bond's part of a device, if it is one.
pub fn bond_in(device: &Device) -> Option<&Arc<Bond>> {
    device.link.as_any()?.downcast_ref::<Arc<Bond>>()
}

/// `bond_netdev_event`
fn device_event(site: &Site<'_>, event: Event) {
    let at = At {
        stack: site.stack,
        guard: site.guard,
    };
    let device = site.device;
    let Some((_, bond)) = bond_of(device, at.guard) else {
        return;
    };
    match event {
        Event::Up | Event::Carrier => bond.port_changed(at, device),
        Event::Down => bond.update_usable(at),
        Event::Renamed => bond.port_renamed(at, device),
        Event::Features => bond.compute_features(at),
        // A port that is unregistered or moved leaves.
        Event::Gone => {
            let _ = bond.release_port(at, device, true);
        }
        _ => {}
    }
}

impl Bond {
    fn device(&self) -> Option<Arc<Device>> {
        self.device.get()?.upgrade()
    }

    /// Returns the ports, the oldest first.
    #[inline]
    pub fn slaves<'g>(&'g self, guard: &'g Guard) -> &'g [Arc<Slave>] {
        self.slaves.load(guard)
    }

    /// Returns the port of a device.
    pub fn slave_of<'g>(&'g self, guard: &'g Guard, device: &Device) -> Option<&'g Arc<Slave>> {
        let mut slaves = self.slaves(guard).iter();
        slaves.find(|slave| slave.device.key == device.key)
    }

    fn has_slaves(&self) -> bool {
        !self.slaves(&self.slaves.domain().pin()).is_empty()
    }

    /// Returns the active port.
    #[inline]
    pub fn active<'g>(&'g self, guard: &'g Guard) -> Option<&'g Arc<Slave>> {
        self.active.load(guard)
    }

    /// Returns the primary port.
    pub fn primary<'g>(&'g self, guard: &'g Guard) -> Option<&'g Arc<Slave>> {
        self.primary.load(guard)
    }

    /// Returns the settings.
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// Follows a port that went up, or whose carrier changed (`bond_slave_netdev_event`).
    fn port_changed(&self, at: At<'_>, device: &Device) {
        if let Some(slave) = self.slave_of(at.guard, device)
            && !slave.read_speed()
            && self.uses_lacp()
        {
            slave.set_link_quietly(match slave.was_up.load(Relaxed) {
                true => slave::link::FAIL,
                false => slave::link::DOWN,
            });
        }
        self.with_lacp(at, |lacp, _| lacp.speed_changed(device.key));
        self.update_usable(at);
    }

    /// Follows a port with another name, which may be or have been that of the primary port.
    fn port_renamed(&self, at: At<'_>, device: &Device) {
        let name = self.params.lists().primary;
        let Some(slave) = self.slave_of(at.guard, device) else {
            return;
        };
        if !self.params.uses_primary() || name.is_empty() {
            return;
        }
        let primary = self.primary(at.guard);
        if primary.is_some_and(|primary| Arc::ptr_eq(primary, slave)) {
            self.set_primary_slave(None);
        } else if device.name() == name {
            self.set_primary_slave(Some(slave));
        } else {
            return;
        }
        self.select_active(at);
    }

    /// Computes the features again from those of the ports (`bond_compute_features`).
    fn compute_features(&self, at: At<'_>) {
        self.computed.store(true, Relaxed);
        if let Some(device) = self.device().filter(|device| !device.is_dying()) {
            crate::update_features(at.stack, at.guard, &device);
        }
    }
}

/// Adds the features of one port to those of the others (`netdev_increment_features`).
fn increment(all: u64, one: u64, mask: u64) -> u64 {
    let mask = match mask & bit::HW_CSUM {
        0 => mask,
        _ => mask | CHECKSUMS,
    };
    let mask = mask | bit::VLAN_CHALLENGED;
    let mut all = all | one & (ONE_FOR_ALL | CHECKSUMS) & mask;
    all &= one | !ALL_FOR_ALL;
    if all & bit::HW_CSUM != 0 {
        all &= !(bit::IP_CSUM | bit::IPV6_CSUM);
    }
    all
}

impl Link for Handle {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn as_any(&self) -> Option<&dyn std::any::Any> {
        Some(&self.0)
    }

    fn extended_statistics(&self, of: &Device) -> Option<(u16, Vec<u8>)> {
        /// `LINK_XSTATS_TYPE_BOND`
        const TYPE: u16 = 2;
        Some((TYPE, self.0.lacp_counts(of)))
    }

    fn features(&self) -> Offer {
        let offered = VLAN_FEATURES
            | bit::HW_VLAN_CTAG_RX
            | bit::HW_VLAN_STAG_RX
            | VLAN_FILTERS
            | bit::GSO_ENCAP_ALL;
        Offer {
            active: offered
                | bit::HW_VLAN_CTAG_TX
                | bit::HW_VLAN_STAG_TX
                | bit::LLTX
                | bit::NETNS_LOCAL,
            changeable: offered | XFRM_FEATURES,
            vlan: VLAN_FEATURES,
            off: 0,
        }
    }

    /// `bond_fix_features`
    fn fix_features(&self, features: u64) -> u64 {
        let guard = self.0.slaves.domain().pin();
        let mut all = features & !ONE_FOR_ALL | ALL_FOR_ALL;
        for slave in self.0.slaves(&guard) {
            all = increment(all, slave.device.features.active(), features);
        }
        increment(all, bit::ALL_TSO, features)
    }

    fn tso_max_size(&self) -> u32 {
        let guard = self.0.slaves.domain().pin();
        let slaves = self.0.slaves(&guard).iter();
        let sizes = slaves.map(|slave| slave.device.link.tso_max_size());
        let none = match self.0.computed.load(Relaxed) {
            true => 524_280,
            false => 65_536,
        };
        sizes.min().unwrap_or(none)
    }

    /// The ports have merged them.
    fn polls(&self) -> bool {
        false
    }

    fn driver(&self) -> Driver {
        Driver {
            info: Some(("bonding", RELEASE, "2")),
            link: LinkReport::Carrier,
            ..Driver::default()
        }
    }

    /// `bond_ethtool_get_link_ksettings`
    fn link_settings(&self) -> Option<LinkSettings> {
        let guard = self.0.slaves.domain().pin();
        Some(self.0.link_settings(&guard))
    }

    fn speed(&self) -> Option<u32> {
        let settings = self.link_settings()?;
        Some(settings.speed).filter(|speed| *speed != u32::MAX)
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

    fn add_stats(&self, stats: &mut LinkStats64) {
        self.0.add_stats(stats);
    }

    fn has_unicast_filter(&self) -> bool {
        true
    }

    /// `bond_set_mac_address`
    fn set_address(
        &self,
        stack: &Stack,
        guard: &Guard,
        _device: &Arc<Device>,
        mac: &Mac,
    ) -> Result<(), Error> {
        if self.0.params.fail_over_mac() != 0 {
            return Ok(());
        }
        for slave in self.0.slaves(guard) {
            crate::change_address(stack, guard, &slave.device, *mac)?;
        }
        Ok(())
    }

    fn keeps_address(&self) -> bool {
        self.0.params.fail_over_mac() != 0
    }

    /// `bond_change_mtu`
    fn set_mtu(
        &self,
        stack: &Stack,
        guard: &Guard,
        device: &Arc<Device>,
        mtu: u32,
    ) -> Result<(), Error> {
        let slaves = self.0.slaves(guard);
        for (done, slave) in slaves.iter().enumerate() {
            if let Err(error) = slave.take_mtu(At { stack, guard }, mtu) {
                for slave in slaves.iter().take(done) {
                    // They had this MTU before.
                    let _ = slave.take_mtu(At { stack, guard }, device.mtu());
                }
                return Err(error);
            }
        }
        Ok(())
    }

    /// `bond_open`
    fn open(&self, stack: &Stack, guard: &Guard, _device: &Arc<Device>) -> Result<(), Error> {
        self.0.opened(At { stack, guard });
        Ok(())
    }

    fn changed_state(&self, stack: &Stack, guard: &Guard, device: &Arc<Device>) {
        let at = At { stack, guard };
        if !device.is_up() {
            self.0.notices.store(0, Relaxed);
        }
        self.0.start_monitors(at);
        self.0.start_lacp(at);
        self.0.update_usable(at);
    }

    /// `bond_set_rx_mode`
    fn accepts(&self, stack: &Stack, guard: &Guard, device: &Arc<Device>) {
        self.0.pass_addresses(At { stack, guard }, device);
    }

    /// `bond_change_rx_flags`
    fn asks_for_all(&self, stack: &Stack, guard: &Guard, flag: u32, more: bool) {
        let ask = |slave: &Slave| crate::ask_for_all(stack, guard, &slave.device, flag, more);
        match self.0.params.uses_primary() {
            true => self.0.active(guard).iter().for_each(|slave| ask(slave)),
            false => self.0.slaves(guard).iter().for_each(|slave| ask(slave)),
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
        let at = At {
            stack: ctl.stack,
            guard: ctl.guard,
        };
        match config::parse(data)? {
            Some(table) => {
                let ns = device.namespace(at.guard).clone();
                self.0.configure(at, &ns, &table)
            }
            None => Ok(()),
        }
    }

    fn leaves(&self, stack: &Stack, guard: &Guard, _device: &Arc<Device>) {
        for slave in self.0.slaves(guard).to_vec() {
            let _ = self
                .0
                .release_port(At { stack, guard }, &slave.device, false);
        }
    }

    fn removed(&self, stack: &Stack, device: &Arc<Device>) {
        let guard = &stack.domain.pin();
        // A port that came after the device was marked.
        self.leaves(stack, guard, device);
        self.0.stop_timer(stack);
        self.0.stop_lacp(stack);
    }

    fn master(&self) -> Option<&dyn Master> {
        Some(self)
    }
}

impl Bond {
    /// Passes the lists of addresses on to the active port, or to all ports.
    fn pass_addresses(&self, at: At<'_>, device: &Arc<Device>) {
        let lower: Vec<_> = match self.params.uses_primary() {
            true => self.active(at.guard).into_iter().cloned().collect(),
            false => self.slaves(at.guard).to_vec(),
        };
        for slave in lower {
            self.pass_to(at, device, &slave, device.is_up());
        }
    }
}
