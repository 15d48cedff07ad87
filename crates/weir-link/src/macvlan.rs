// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `macvlan`: a device with an address of its own on top of another Ethernet device (`drivers/net/macvlan.c`).
//!
//! | attribute | meaning |
//! |---|---|
//! | `IFLA_MACVLAN_MODE` | private, vepa (default), bridge, passthru or source |
//! | `IFLA_MACVLAN_FLAGS` | nopromisc, nodst |
//! | `IFLA_MACVLAN_MACADDR_MODE` and two more | the sources of the mode source: add, del, set, flush |
//! | `IFLA_MACVLAN_BC_QUEUE_LEN` | received group frames that may wait; 0 passes none on (default 1000) |
//!
//! [`port`] is the lower device's side: the macvlans by address, and the frames that the lower device receives.
//!
//! A macvlan takes the group frames of exactly the groups it accepts; Linux also passes on some of others, by a
//! hash. Fragments of group frames are not reassembled before they are copied (`ip_check_defrag`). Group frames
//! are copied at once, so none is ever refused by the length of a queue, except by a length of 0.

pub mod config;
pub mod port;

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock, Weak};

use weir_netlink::ifla::{iff, macvlan_mode as mode};
use weir_netlink::{Attr, Error, Writer, errno, rtm};
use weir_packet::header::Ethernet;
use weir_packet::{Batch, DropReason};
use weir_sync::order::{self, Mutex};
use weir_sync::rcu::{Guard, Published};

use self::port::{Filter, Member, Port, port_of, word};
use crate::cpu::Cx;
use crate::device::{AddressOrigin, Device, Mac, NewDevice};
use crate::drops::Place;
use crate::ethtool::{Driver, Link as LinkReport, LinkSettings};
use crate::features::{Offer, bit};
use crate::layers::{Event, Hears, Module, Site};
use crate::namespace::{Namespace, NsId};
use crate::request::Ctl;
use crate::stack::Stack;
use crate::taken;
use crate::{Kind, Link, NewLink, ethernet, register};

/// The `macvlan` link kind.
pub static KIND: Kind = Kind {
    name: "macvlan",
    pattern: "macvlan%d",
    create: Ok(create),
    validate: None,
};

/// Follows the lower devices of macvlans.
pub static MODULE: Module = Module {
    device_event: Some(Hears::of(
        &[
            Event::Up,
            Event::Down,
            Event::Operstate,
            Event::Features,
            Event::Mtu { before: 0 },
            Event::Address,
        ],
        device_event,
    )),
    above: Some(above),
    ..Module::NONE
};

/// `MACVLAN_FLAG_NOPROMISC`: a macvlan of mode passthru does not turn on promiscuous mode.
const NOPROMISC: u16 = 1;
/// `MACVLAN_FLAG_NODST`: a frame from a listed source goes to nobody else.
const NODST: u16 = 2;

/// The modes that the lower device is asked for, as bits of [`Macvlan::asked`].
const ASKS_PASSTHRU: u8 = 1;
const ASKS_PROMISC: u8 = 2;
const ASKS_ALLMULTI: u8 = 4;

/// `NETIF_F_GSO_ROBUST`
const GSO_ROBUST: u64 = 1 << 17;
/// `ALWAYS_ON_OFFLOADS`
const ALWAYS: u64 = bit::SG | bit::HW_CSUM | bit::GSO_SOFTWARE | GSO_ROBUST | bit::GSO_ENCAP_ALL;
/// `MACVLAN_FEATURES`
const FEATURES: u64 = bit::SG
    | bit::HW_CSUM
    | bit::HIGHDMA
    | bit::FRAGLIST
    | bit::GSO
    | bit::TSO
    | bit::LRO
    | bit::TSO_ECN
    | bit::TSO6
    | bit::GRO
    | bit::RXCSUM;

/// The state of a macvlan (`struct macvlan_dev`).
pub struct Macvlan {
    lower: Weak<Device>,
    port: OnceLock<Weak<Port>>,
    /// `IFLA_MACVLAN_MODE`
    mode: AtomicU32,
    flags: AtomicU16,
    /// `IFLA_MACVLAN_BC_QUEUE_LEN`
    queue: AtomicU32,
    /// The listed sources in the order in which they were added, as [`word`] packs them.
    sources: Mutex<Vec<u64>, order::MacvlanSources>,
    /// The address by which the port finds the macvlan while it is up, or 0.
    known: AtomicU64,
    asked: AtomicU8,
    filter: Published<Filter>,
}

/// The `Link` implementation that the device owns.
struct Handle(Arc<Macvlan>);

/// Returns the kind's own part of a macvlan.
fn macvlan_in(device: &Device) -> Option<&Arc<Macvlan>> {
    device.link.as_any()?.downcast_ref()
}

fn create(ctl: &mut Ctl<'_>, new: NewLink<'_>) -> Result<Arc<Device>, Error> {
    let (stack, guard) = (ctl.stack, ctl.guard);
    let invalid = || Error::new(errno::EINVAL);
    let table = config::parse(new.data)?;
    let link = new.link.ok_or_else(invalid)?;
    let lower = new.link_ns.device(link, guard).cloned();
    let mut lower = lower.ok_or_else(|| Error::new(errno::ENODEV))?;
    // A macvlan of a macvlan is one of the same lower device.
    if let Some(other) = macvlan_in(&lower) {
        lower = other.lower().ok_or_else(|| Error::new(errno::ENODEV))?;
    }
    if new.mtu.is_some_and(|mtu| mtu > lower.mtu()) {
        return Err(invalid());
    }
    let settings = config::new(&table)?;
    let passthru = settings.mode == mode::PASSTHRU;
    let check = || Port::check(&lower, guard, passthru);
    check()?;
    let mut sources = Vec::new();
    config::change_sources(&mut sources, settings.mode, &table)?;
    let macvlan = Arc::new(Macvlan {
        lower: Arc::downgrade(&lower),
        port: OnceLock::new(),
        mode: AtomicU32::new(settings.mode),
        flags: AtomicU16::new(settings.flags),
        queue: AtomicU32::new(settings.queue),
        sources: Mutex::new(sources),
        known: AtomicU64::new(0),
        asked: AtomicU8::new(0),
        filter: Published::new(&stack.domain, Filter::default()),
    });
    let device = ethernet(Box::new(Handle(macvlan.clone())), &new.ns, &new, 0);
    let mut device = NewDevice {
        mtu: new.mtu.unwrap_or_else(|| lower.mtu()),
        ..device
    };
    if passthru {
        // `eth_hw_addr_inherit`
        device.address = lower.address();
        device.address_origin = match lower.address_origin() {
            0 => AddressOrigin::Permanent,
            1 => AddressOrigin::Random,
            2 => AddressOrigin::Stolen,
            _ => AddressOrigin::Set,
        };
    }
    let device = register(stack, &new.ns, device, new.ifindex, new.group.unwrap_or(0))?;
    let joined = {
        let ns = lower.namespace(guard);
        let _links = ns.links();
        // A concurrent request may have been faster, or the lower device may be on its way out.
        match lower.is_dying() {
            true => Err(Error::new(errno::ENODEV)),
            false => check().map(|()| Port::join(stack, guard, &lower, &macvlan, &device)),
        }
    };
    if let Err(error) = joined {
        crate::unregister(stack, &[device]);
        return Err(error);
    }
    macvlan.list_sources(guard);
    // The state of the lower device is copied before changes are counted (`macvlan_init`).
    device.watch_carrier(|| device.link.carrier(stack, &device));
    crate::settle_operstate(&device);
    announce(stack, guard, &lower, 0);
    Ok(device)
}

/// Announces a change of a lower device, such as of the devices on top of it (`NETDEV_CHANGEUPPER`).
fn announce(stack: &Stack, guard: &Guard, lower: &Arc<Device>, change: u32) {
    if !lower.is_dying() {
        let ns = lower.namespace(guard);
        crate::changed(stack, guard, ns, lower, rtm::NEWLINK, change);
    }
}

/// Adds the macvlans of a device (`NETDEV_UNREGISTER`).
fn above(
    _ns: &Namespace,
    device: Option<&Device>,
    guard: &Guard,
    add: &mut dyn FnMut(Arc<Device>),
) {
    if let Some(port) = device.and_then(|device| port_of(device, guard)) {
        let members = port.members(guard).iter();
        members.for_each(|member| add(member.device.clone()));
    }
}

/// `macvlan_device_event`
fn device_event(site: &Site<'_>, event: Event) {
    let (stack, guard, lower) = (site.stack, site.guard, site.device);
    let Some(port) = port_of(lower, guard) else {
        return;
    };
    let members = port.members(guard);
    match event {
        Event::Up | Event::Down | Event::Operstate => {
            for member in members {
                crate::transfer_operstate(stack, guard, lower, &member.device);
            }
        }
        Event::Features => {
            for member in members {
                crate::update_features(stack, guard, &member.device);
            }
        }
        Event::Mtu { .. } => {
            for member in members {
                let (device, before) = (&member.device, member.device.mtu());
                if before > lower.mtu() {
                    device.set_mtu(lower.mtu());
                    let ns = device.namespace(guard);
                    crate::changed(stack, guard, ns, device, rtm::NEWLINK, 0);
                    Site::new(stack, guard, ns, device).notify(Event::Mtu { before });
                }
            }
        }
        Event::Address => {
            if let Some(member) = members.first().filter(|_| port.is_passthru()) {
                member.device.inherit_address(lower.address());
                taken::changed(stack, guard, &member.device);
                port.keep_address(lower.address());
            }
        }
        _ => {}
    }
}

impl Macvlan {
    fn lower(&self) -> Option<Arc<Device>> {
        self.lower.upgrade().filter(|lower| lower.is_registered())
    }

    fn port(&self) -> Option<Arc<Port>> {
        self.port.get()?.upgrade()
    }

    /// Returns whether the mode is among those of a mask.
    fn has_mode(&self, modes: u32) -> bool {
        self.mode.load(Relaxed) & modes != 0
    }

    fn has_flag(&self, flag: u16) -> bool {
        self.flags.load(Relaxed) & flag != 0
    }

    /// Lists the macvlan at the port under its sources.
    fn list_sources(&self, guard: &Guard) {
        let sources = self.sources.lock();
        if let Some((port, lower)) = self.port().zip(self.lower()) {
            let _links = lower.namespace(guard).links();
            port.set_sources(guard, self, &sources);
        }
    }

    /// Asks the lower device for promiscuous and all-multicast mode, as the macvlan needs them at present, or
    /// takes that back (`macvlan_open`, `macvlan_stop`, `macvlan_change_rx_flags`).
    fn ask(&self, stack: &Stack, guard: &Guard, device: &Device, lower: &Arc<Device>) {
        let mut wanted = 0;
        if device.is_up() {
            if self.has_mode(mode::PASSTHRU) && !self.has_flag(NOPROMISC) {
                wanted |= ASKS_PASSTHRU;
            }
            if device.promiscuity() > 0 {
                wanted |= ASKS_PROMISC;
            }
            if device.allmulti() > 0 {
                wanted |= ASKS_ALLMULTI;
            }
        }
        let before = self.asked.swap(wanted, Relaxed);
        for (ask, flag) in [
            (ASKS_PASSTHRU, iff::PROMISC),
            (ASKS_ALLMULTI, iff::ALLMULTI),
            (ASKS_PROMISC, iff::PROMISC),
        ] {
            if (before ^ wanted) & ask == 0 {
                continue;
            }
            crate::ask_for_all(stack, guard, lower, flag, wanted & ask != 0);
            if flag == iff::PROMISC {
                announce(stack, guard, lower, flag);
            }
        }
    }

    /// Enters the macvlan at its port under its address while it is up.
    fn enter(&self, guard: &Guard, device: &Device, port: &Port) {
        let wanted = match device.is_up() {
            true => word(device.address()),
            false => 0,
        };
        let before = self.known.swap(wanted, Relaxed);
        if before != wanted {
            port.rehash(guard, self, (before, wanted));
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

    fn mtu_bounds(&self) -> (u32, u32) {
        let lower = self.0.lower.upgrade();
        (68, lower.map_or(0, |lower| lower.link.mtu_bounds().1))
    }

    fn check_mtu(&self, mtu: u32) -> Result<(), Error> {
        match self.0.lower() {
            Some(lower) if mtu > lower.mtu() => Err(Error::new(errno::EINVAL)),
            _ => Ok(()),
        }
    }

    /// `macvlan_set_mac_address`
    fn set_address(
        &self,
        stack: &Stack,
        guard: &Guard,
        device: &Arc<Device>,
        mac: &Mac,
    ) -> Result<(), Error> {
        if device.address() == *mac {
            return Ok(());
        }
        let (Some(port), Some(lower)) = (self.0.port(), self.0.lower()) else {
            return Err(Error::new(errno::ENODEV));
        };
        if self.0.has_mode(mode::PASSTHRU) {
            lower.link.check_address(mac)?;
            lower.link.set_address(stack, guard, &lower, mac)?;
            port.keeps_address(true);
            lower.set_address(*mac);
            crate::address_changed(stack, guard, &lower);
            return Ok(());
        }
        port.check_free(guard, &lower, mac)
    }

    /// `macvlan_open`
    fn open(&self, _stack: &Stack, guard: &Guard, device: &Arc<Device>) -> Result<(), Error> {
        match (self.0.port(), self.0.lower()) {
            (Some(port), _) if port.is_passthru() => Ok(()),
            (Some(port), Some(lower)) => port.check_free(guard, &lower, &device.address()),
            _ => Err(Error::new(errno::ENODEV)),
        }
    }

    fn speed(&self) -> Option<u32> {
        self.0.lower.upgrade()?.link.speed()
    }

    fn features(&self) -> Offer {
        let lower = self.0.lower.upgrade();
        let (active, vlan) = lower.map_or((0, 0), |lower| {
            (lower.features.active(), lower.features.vlan())
        });
        Offer {
            active: active & FEATURES | ALWAYS | bit::LLTX,
            changeable: bit::LRO,
            vlan: vlan & FEATURES | ALWAYS,
            off: 0,
        }
    }

    /// `macvlan_fix_features`
    fn fix_features(&self, features: u64) -> u64 {
        const CHECKSUMS: u64 = bit::IP_CSUM | bit::IPV6_CSUM | bit::HW_CSUM;
        let features = features | bit::NOCACHE_COPY | bit::FSO;
        let lower = self.0.lower.upgrade();
        let below = lower.map_or(0, |lower| lower.features.active());
        let mut all = below & (features | !bit::LRO);
        // `netdev_increment_features`
        let one_for_all = bit::GSO_SOFTWARE | GSO_ROBUST | bit::SG | bit::HIGHDMA | bit::FRAGLIST;
        all |= features & (one_for_all | CHECKSUMS);
        all &= features | !(bit::NOCACHE_COPY | bit::FSO);
        if all & bit::HW_CSUM != 0 {
            all &= !(bit::IP_CSUM | bit::IPV6_CSUM);
        }
        (all | ALWAYS | bit::LLTX) & (ALWAYS | bit::LLTX | FEATURES)
    }

    /// The lower device has merged them.
    fn polls(&self) -> bool {
        false
    }

    fn driver(&self) -> Driver {
        let lower = self.0.lower.upgrade();
        Driver {
            info: Some(("macvlan", "0.1", "")),
            link: LinkReport::Carrier,
            stamps: lower.is_some_and(|lower| lower.link.driver().stamps),
            channels: false,
        }
    }

    fn link_settings(&self) -> Option<LinkSettings> {
        self.0.lower.upgrade()?.link.link_settings()
    }

    fn tso_max_size(&self) -> u32 {
        let lower = self.0.lower.upgrade();
        lower.map_or(65_536, |lower| lower.link.tso_max_size())
    }

    fn carrier(&self, stack: &Stack, _device: &Device) -> bool {
        let lower = self.0.lower();
        lower.is_some_and(|lower| lower.link.carrier(stack, &lower))
    }

    fn lower(&self, stack: &Stack) -> Option<(NsId, u32)> {
        let lower = self.0.lower.upgrade()?;
        let guard = stack.domain.pin();
        Some((lower.namespace(&guard).id, lower.ifindex()))
    }

    fn has_unicast_filter(&self) -> bool {
        true
    }

    /// `macvlan_fdb_add`
    fn filters_unicast(&self) -> bool {
        self.0.port().is_some_and(|port| port.is_passthru())
    }

    fn accepts(&self, stack: &Stack, guard: &Guard, device: &Arc<Device>) {
        let Some((port, lower)) = self.0.port().zip(self.0.lower.upgrade()) else {
            return;
        };
        self.0.filter.replace(Filter::of(device));
        self.0.ask(stack, guard, device, &lower);
        self.0.enter(guard, device, &port);
        taken::pass_on(stack, guard, device, &lower);
    }

    fn asks_for_all(&self, stack: &Stack, guard: &Guard, _flag: u32, _more: bool) {
        let Some((port, lower)) = self.0.port().zip(self.0.lower()) else {
            return;
        };
        if let Some(member) = port.member(guard, &self.0) {
            self.0.filter.replace(Filter::of(&member.device));
            self.0.ask(stack, guard, &member.device, &lower);
        }
    }

    fn changed_state(&self, _stack: &Stack, _guard: &Guard, device: &Arc<Device>) {
        crate::settle_operstate(device);
    }

    fn transmit(&self, cx: &mut Cx<'_>, device: &Arc<Device>, mut batch: Batch) {
        let Some((port, lower)) = self.0.port().zip(self.0.lower()) else {
            return cx.drop_batch(device, Place::Transmit, DropReason::DEV_READY, batch);
        };
        if self.0.has_mode(mode::BRIDGE) {
            batch = port.switch(cx, &self.0, &lower, batch);
        }
        if !batch.is_empty() {
            cx.transmit(&lower, batch);
        }
    }

    fn fill_data(&self, stack: &Stack, out: &mut Writer) {
        let guard = stack.domain.pin();
        let used = self.0.port().map_or(0, |port| port.queue(&guard));
        config::fill(&self.0, used, out);
    }

    fn change(
        &self,
        ctl: &mut Ctl<'_>,
        device: &Arc<Device>,
        data: Option<Attr<'_>>,
    ) -> Result<(), Error> {
        let table = config::parse(data)?;
        config::change(&self.0, &table)?;
        self.0.list_sources(ctl.guard);
        if let Some(lower) = self.0.lower() {
            self.0.ask(ctl.stack, ctl.guard, device, &lower);
        }
        Ok(())
    }

    fn leaves(&self, stack: &Stack, guard: &Guard, _device: &Arc<Device>) {
        if let Some(lower) = self.0.lower() {
            announce(stack, guard, &lower, 0);
        }
    }

    fn removed(&self, stack: &Stack, device: &Arc<Device>) {
        let guard = &stack.domain.pin();
        let Some((port, lower)) = self.0.port().zip(self.0.lower.upgrade()) else {
            return;
        };
        let address = {
            let _links = lower.namespace(guard).links();
            port.leave(guard, &lower, &self.0, device)
        };
        // The last one gives the lower device its address back (`macvlan_port_destroy`).
        if let Some(mac) = address.filter(|mac| *mac != lower.address()) {
            lower.set_address(mac);
            if !lower.is_dying() {
                crate::address_changed(stack, guard, &lower);
            }
        }
    }
}

/// Returns the destination and the source of a frame.
fn addresses(packet: &weir_packet::Packet) -> Option<(Mac, Mac)> {
    Ethernet::new(packet.data()).map(|eth| (eth.dst(), eth.src()))
}

impl std::fmt::Debug for Member {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Member").field(&self.device).finish()
    }
}
