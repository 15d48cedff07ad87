// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `ipvlan`: a device that shares the Ethernet address of its lower device and is told apart by its IP addresses
//! (`drivers/net/ipvlan`).
//!
//! | attribute | meaning |
//! |---|---|
//! | `IFLA_IPVLAN_MODE` | l2 or l3 (default); one for all ipvlans of a lower device |
//! | `IFLA_IPVLAN_FLAGS` | bridge (0), private or vepa; one for all as well |
//!
//! In mode l2 an ipvlan resolves its neighbours itself. In mode l3 it has no ARP, and what leaves is routed in the
//! lower device's namespace. [`port`] is the lower device's side.
//!
//! Not implemented: the mode l3s (refused), rules by source address for what leaves in mode l3, and fragments of
//! long packets there.

pub mod port;

use std::net::IpAddr;
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};
use std::sync::{Arc, OnceLock, Weak};

use weir_netlink::ifla::{iff, ipvlan as attr};
use weir_netlink::{
    Attr, Error, Policy, Rule, Strictness, Table, Writer, errno, parse_at, policy, rtm,
};
use weir_packet::{Batch, DropReason};
use weir_sync::order::{self, Mutex};
use weir_sync::rcu::{Guard, Published};

use self::port::{Port, port_of};
use crate::cpu::Cx;
use crate::device::{AddressOrigin, Device, Mac, NewDevice};
use crate::drops::Place;
use crate::ethtool::{Driver, Link as LinkReport, LinkSettings};
use crate::features::{Offer, bit};
use crate::ipv4::WithIpv4;
use crate::ipv6::WithIpv6;
use crate::layers::{Event, Hears, Module, Site};
use crate::macvlan::port::Filter;
use crate::namespace::{Namespace, NsId};
use crate::request::Ctl;
use crate::settings::HasIp;
use crate::stack::Stack;
use crate::taken;
use crate::{Kind, Link, NewLink, ethernet, register};

/// The `ipvlan` link kind.
pub static KIND: Kind = Kind {
    name: "ipvlan",
    pattern: "ipvlan%d",
    create: Ok(create),
    validate: None,
};

/// Follows the lower devices of ipvlans.
pub static MODULE: Module = Module {
    device_event: Some(Hears::of(
        &[
            Event::Up,
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

static POLICY: Policy = policy! {
    max attr::MAX;
    attr::MODE => Rule::u16(),
    attr::FLAGS => Rule::u16(),
};

/// The values of `IFLA_IPVLAN_MODE`.
pub mod mode {
    #![allow(missing_docs)] // The names are Linux's.
    pub const L2: u16 = 0;
    pub const L3: u16 = 1;
    pub const L3S: u16 = 2;
}
/// `IPVLAN_F_PRIVATE`
pub const PRIVATE: u16 = 1;
/// `IPVLAN_F_VEPA`
pub const VEPA: u16 = 2;

/// `NETIF_F_GSO_ROBUST`
const GSO_ROBUST: u64 = 1 << 17;
/// `IPVLAN_ALWAYS_ON_OFLOADS`
const ALWAYS: u64 = bit::SG | bit::HW_CSUM | bit::GSO_SOFTWARE | GSO_ROBUST | bit::GSO_ENCAP_ALL;
/// `IPVLAN_FEATURES`
const FEATURES: u64 = bit::SG
    | bit::HW_CSUM
    | bit::HIGHDMA
    | bit::FRAGLIST
    | bit::GSO
    | bit::ALL_TSO
    | GSO_ROBUST
    | bit::GRO
    | bit::RXCSUM;

/// The state of an ipvlan (`struct ipvl_dev`).
pub struct Ipvlan {
    lower: Weak<Device>,
    port: OnceLock<Weak<Port>>,
    /// The number among the ipvlans of the lower device (`dev_id`).
    id: AtomicU16,
    /// The addresses by which the port finds the ipvlan.
    known: Mutex<Vec<IpAddr>, order::IpvlanAddresses>,
    filter: Published<Filter>,
}

/// The `Link` implementation that the device owns.
struct Handle(Arc<Ipvlan>);

/// What a request asks for.
struct Asked {
    mode: Option<u16>,
    flags: Option<u16>,
}

/// Parses and checks `IFLA_INFO_DATA` (`ipvlan_nl_validate`).
fn parse(data: Option<Attr<'_>>) -> Result<Asked, Error> {
    let table = match data {
        None => Table::empty(),
        Some(data) => {
            let inside = data.attrs();
            parse_at(inside.rest(), inside.offset(), &POLICY, Strictness::Liberal)?
        }
    };
    let (mode, flags) = (table.u16(attr::MODE)?, table.u16(attr::FLAGS)?);
    match (mode, flags) {
        (Some(mode), _) if mode > mode::L3S => Err(Error::new(errno::EINVAL)),
        (_, Some(flags)) if flags > VEPA => Err(Error::new(errno::EINVAL)),
        (Some(mode::L3S), _) => Err(Error::unsupported("The mode l3s is not served")),
        (mode, flags) => Ok(Asked { mode, flags }),
    }
}

/// `ipvlan_link_new`
fn create(ctl: &mut Ctl<'_>, new: NewLink<'_>) -> Result<Arc<Device>, Error> {
    let (stack, guard) = (ctl.stack, ctl.guard);
    let asked = parse(new.data)?;
    let link = new.link.ok_or_else(|| Error::new(errno::EINVAL))?;
    let lower = new.link_ns.device(link, guard).cloned();
    let mut lower = lower.ok_or_else(|| Error::new(errno::ENODEV))?;
    let other = lower.link.as_any().and_then(|any| any.downcast_ref());
    let other = other.and_then(|other: &Arc<Ipvlan>| other.lower());
    if let Some(below) = other {
        lower = below;
    }
    Port::check(&lower, guard)?;
    let ipvlan = Arc::new(Ipvlan {
        lower: Arc::downgrade(&lower),
        port: OnceLock::new(),
        id: AtomicU16::new(0),
        known: Mutex::default(),
        filter: Published::new(&stack.domain, Filter::default()),
    });
    let device = ethernet(Box::new(Handle(ipvlan.clone())), &new.ns, &new, 0);
    let device = NewDevice {
        mtu: new.mtu.unwrap_or_else(|| lower.mtu()),
        address: lower.address(),
        address_origin: match new.address {
            Some(_) => AddressOrigin::Set,
            None => AddressOrigin::Permanent,
        },
        ..device
    };
    let device = register(stack, &new.ns, device, new.ifindex, new.group.unwrap_or(0))?;
    let joined = {
        let _links = lower.namespace(guard).links();
        // The lower device may be on its way out, or another request may have been faster.
        match lower.is_dying() {
            true => Err(Error::new(errno::ENODEV)),
            false => Port::check(&lower, guard)
                .and_then(|()| Port::join(stack, guard, &lower, &ipvlan, &device)),
        }
    };
    let port = match joined {
        Ok(port) => port,
        Err(error) => {
            crate::unregister(stack, &[device]);
            return Err(error);
        }
    };
    announce(stack, guard, &lower);
    if let Some(flags) = asked.flags {
        port.set_flags(flags);
    }
    port.set_mode(stack, guard, asked.mode.unwrap_or(mode::L3), Some(&device));
    // The state of the lower device is copied before changes are counted (`ipvlan_init`).
    device.watch_carrier(|| device.link.carrier(stack, &device));
    Ok(device)
}

/// Announces a change of the devices on top of a lower device (`NETDEV_CHANGEUPPER`).
fn announce(stack: &Stack, guard: &Guard, lower: &Arc<Device>) {
    if !lower.is_dying() {
        let ns = lower.namespace(guard);
        crate::changed(stack, guard, ns, lower, rtm::NEWLINK, 0);
    }
}

/// Adds the ipvlans of a device (`NETDEV_UNREGISTER`).
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

/// `ipvlan_device_event`
fn device_event(site: &Site<'_>, event: Event) {
    let (stack, guard, lower) = (site.stack, site.guard, site.device);
    let Some(port) = port_of(lower, guard) else {
        return;
    };
    for member in port.members(guard) {
        let device = &member.device;
        match event {
            Event::Up | Event::Operstate => {
                crate::transfer_operstate(stack, guard, lower, device);
            }
            Event::Features => crate::update_features(stack, guard, device),
            // `ipvlan_adjust_mtu` tells nobody.
            Event::Mtu { .. } => device.set_mtu(lower.mtu()),
            Event::Address => {
                device.inherit_address(lower.address());
                crate::address_changed(stack, guard, device);
            }
            _ => {}
        }
    }
}

impl Ipvlan {
    fn lower(&self) -> Option<Arc<Device>> {
        self.lower.upgrade().filter(|lower| lower.is_registered())
    }

    fn port(&self) -> Option<Arc<Port>> {
        self.port.get()?.upgrade()
    }

    /// Enters the ipvlan at its port under its addresses while it is up (`ipvlan_ht_addr_add`).
    fn enter(&self, guard: &Guard, device: &Device) {
        let Some(port) = self.port() else { return };
        let mut known = self.known.lock();
        let now = match device.is_up() {
            true => addresses(device, guard),
            false => Vec::new(),
        };
        for gone in known.iter().filter(|address| !now.contains(address)) {
            port.forget(guard, *gone, self);
        }
        for new in now.iter().filter(|address| !known.contains(address)) {
            port.list(guard, *new, self);
        }
        *known = now;
    }
}

/// Returns the IP addresses of a device.
fn addresses(device: &Device, guard: &Guard) -> Vec<IpAddr> {
    let mut all = Vec::new();
    if device.has_ipv4() {
        let list = device.ipv4().addresses.list(guard).iter();
        all.extend(list.map(|address| IpAddr::from(address.address)));
    }
    if device.has_ipv6() {
        let list = device.ipv6().addresses.list(guard).iter();
        all.extend(list.map(|address| IpAddr::from(address.address)));
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

    fn check_address(&self, _mac: &Mac) -> Result<(), Error> {
        Err(Error::new(errno::EOPNOTSUPP))
    }

    fn device_id(&self) -> u16 {
        self.0.id.load(Relaxed)
    }

    fn may_have_handler(&self) -> bool {
        false
    }

    /// `ipvlan_open`
    fn open(&self, _stack: &Stack, _guard: &Guard, device: &Arc<Device>) -> Result<(), Error> {
        let port = self.0.port().ok_or_else(|| Error::new(errno::ENODEV))?;
        let flags = if port.mode() == mode::L2 {
            0
        } else {
            iff::NOARP
        };
        device.change_flags(flags, iff::NOARP);
        Ok(())
    }

    /// `ipvlan_addr4_validator_event`, `ipvlan_addr6_validator_event`
    fn check_ip(&self, guard: &Guard, address: IpAddr) -> Result<(), Error> {
        let Some(port) = self.0.port() else {
            return Ok(());
        };
        let members = port.members(guard).iter();
        let mut taken = members.map(|member| addresses(&member.device, guard));
        match taken.any(|list| list.contains(&address)) {
            true => Err(Error::msg(
                errno::EADDRINUSE,
                "Address already assigned to an ipvlan device",
            )),
            false => Ok(()),
        }
    }

    fn ips_changed(&self, guard: &Guard, device: &Device) {
        self.0.enter(guard, device);
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
            active: active & FEATURES | ALWAYS | bit::LLTX | bit::VLAN_CHALLENGED,
            changeable: 0,
            vlan: vlan & FEATURES | ALWAYS,
            off: 0,
        }
    }

    /// `ipvlan_fix_features`
    fn fix_features(&self, features: u64) -> u64 {
        const CHECKSUMS: u64 = bit::IP_CSUM | bit::IPV6_CSUM | bit::HW_CSUM;
        const ON: u64 = ALWAYS | bit::LLTX | bit::VLAN_CHALLENGED;
        let features = features | bit::NOCACHE_COPY | bit::FSO;
        let lower = self.0.lower.upgrade();
        let mut all = lower.map_or(0, |lower| lower.features.active());
        // `netdev_increment_features`
        let one_for_all = bit::GSO_SOFTWARE | GSO_ROBUST | bit::SG | bit::HIGHDMA | bit::FRAGLIST;
        all |= features & (one_for_all | CHECKSUMS);
        all &= features | !(bit::NOCACHE_COPY | bit::FSO);
        if all & bit::HW_CSUM != 0 {
            all &= !(bit::IP_CSUM | bit::IPV6_CSUM);
        }
        (all | ON) & (ON | FEATURES)
    }

    /// The lower device has merged them.
    fn polls(&self) -> bool {
        false
    }

    fn driver(&self) -> Driver {
        Driver {
            info: Some(("ipvlan", "0.1", "")),
            link: LinkReport::Carrier,
            ..Driver::default()
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

    fn accepts(&self, stack: &Stack, guard: &Guard, device: &Arc<Device>) {
        self.0.filter.replace(Filter::of(device));
        self.0.enter(guard, device);
        if let Some(lower) = self.0.lower.upgrade() {
            taken::pass_on(stack, guard, device, &lower);
        }
    }

    /// `ipvlan_change_rx_flags`
    fn asks_for_all(&self, stack: &Stack, guard: &Guard, flag: u32, more: bool) {
        if flag == iff::ALLMULTI
            && let Some(lower) = self.0.lower()
        {
            crate::ask_for_all(stack, guard, &lower, flag, more);
        }
        if let Some(port) = self.0.port()
            && let Some(member) = port.member(guard, &self.0)
        {
            self.0.filter.replace(Filter::of(&member.device));
        }
    }

    fn transmit(&self, cx: &mut Cx<'_>, device: &Arc<Device>, batch: Batch) {
        let Some((port, lower)) = self.0.port().zip(self.0.lower()) else {
            return cx.drop_batch(device, Place::Transmit, DropReason::DEV_READY, batch);
        };
        match port.mode() {
            mode::L2 => port.send_l2(cx, &self.0, &lower, batch),
            _ => port.send_l3(cx, device, &lower, batch),
        }
    }

    fn fill_data(&self, _stack: &Stack, out: &mut Writer) {
        if let Some(port) = self.0.port() {
            out.put_u16(attr::MODE, port.mode());
            out.put_u16(attr::FLAGS, port.flags());
        }
    }

    /// `ipvlan_nl_changelink`
    fn change(
        &self,
        ctl: &mut Ctl<'_>,
        _device: &Arc<Device>,
        data: Option<Attr<'_>>,
    ) -> Result<(), Error> {
        let asked = parse(data)?;
        let port = self.0.port().ok_or_else(|| Error::new(errno::ENODEV))?;
        if let Some(mode) = asked.mode {
            port.set_mode(ctl.stack, ctl.guard, mode, None);
        }
        if let Some(flags) = asked.flags {
            port.set_flags(flags);
        }
        Ok(())
    }

    fn leaves(&self, stack: &Stack, guard: &Guard, _device: &Arc<Device>) {
        if let Some(lower) = self.0.lower() {
            announce(stack, guard, &lower);
        }
    }

    fn removed(&self, stack: &Stack, device: &Arc<Device>) {
        let guard = &stack.domain.pin();
        if let Some((port, lower)) = self.0.port().zip(self.0.lower.upgrade()) {
            let _links = lower.namespace(guard).links();
            port.leave(guard, &lower, device);
        }
    }
}
