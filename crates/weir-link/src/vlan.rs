// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `vlan`: an IEEE 802.1Q or 802.1ad VLAN on top of another device (`net/8021q`).
//!
//! | attribute | meaning |
//! |---|---|
//! | `IFLA_VLAN_ID` | VLAN id, 0 to 4094 |
//! | `IFLA_VLAN_PROTOCOL` | `ETH_P_8021Q` (default) or `ETH_P_8021AD`, big-endian |
//! | `IFLA_VLAN_FLAGS` | reorder_hdr (always on here), loose_binding; gvrp, mvrp, bridge_binding are rejected |
//! | `IFLA_VLAN_INGRESS_QOS` | maps tag priorities to packet priorities |
//! | `IFLA_VLAN_EGRESS_QOS` | maps packet priorities to tag priorities |
//!
//! Unless the binding is loose, the device goes down and comes up together with its lower device,
//! and can be up only while the lower device is. It is deleted with the lower device.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Weak};

use weir_netlink::ifla::{arphrd, iff, vlan, vlan_flag};
use weir_netlink::{
    Attr, Error, Fixed, IflaVlanFlags, IflaVlanQosMapping, Policy, Rule, Strictness, Table, Writer,
    errno, parse_at, policy, rtm,
};
use weir_packet::{Batch, DropReason, VlanTag};
use weir_sync::order::{self, Mutex, MutexGuard};
use weir_sync::rcu::{Guard, Published};

use crate::cpu::Cx;
use crate::device::{AddressOrigin, Device, Mac, NewDevice};
use crate::drops::Place;
use crate::ethtool::{Driver, Link as LinkReport, LinkSettings};
use crate::features::{Offer, bit, intersect};
use crate::namespace::NsId;
use crate::request::Ctl;
use crate::stack::Stack;
use crate::taken::{self, Reference};
use crate::{Kind, Link, NewLink, ethernet, register};

/// The `vlan` link kind.
pub static KIND: Kind = Kind {
    name: "vlan",
    pattern: "vlan%d",
    create: Ok(create),
    validate: None,
};

/// `IFLA_VLAN_QOS_MAPPING`
const QOS_MAPPING: u16 = 1;
const ETH_P_8021Q: u16 = 0x8100;
const ETH_P_8021AD: u16 = 0x88a8;
/// The multicast group of the VLAN registration protocols (GVRP, MVRP).
const REGISTRATION: Mac = [0x01, 0x80, 0xc2, 0, 0, 0x21];
/// The supported flags.
const FLAGS: u32 = vlan_flag::REORDER_HDR | vlan_flag::LOOSE_BINDING;

/// `vlan_policy`
static POLICY: Policy = policy! {
    max vlan::MAX;
    vlan::ID => Rule::u16(),
    vlan::FLAGS => Rule::unspec(8),
    vlan::EGRESS_QOS => Rule::nested_any(),
    vlan::INGRESS_QOS => Rule::nested_any(),
    vlan::PROTOCOL => Rule::u16(),
};

/// The settings that can be changed.
#[derive(Debug, Clone)]
struct Settings {
    flags: u32,
    ingress: [u32; 8],
    egress: BTreeMap<u32, u8>,
}

struct Vlan {
    lower: Weak<Device>,
    proto: u16,
    vid: u16,
    /// The requested settings. The two fields below hold copies for the datapath and are changed
    /// under this lock.
    settings: Mutex<Settings, order::VlanSettings>,
    ingress: [AtomicU32; 8],
    egress: Published<BTreeMap<u32, u8>>,
}

/// Returns the tag of a VLAN device, with priority 0, or `None` for other devices.
pub fn tag_of(device: &Device) -> Option<VlanTag> {
    let vlan: &Vlan = device.link.as_any()?.downcast_ref()?;
    Some(VlanTag {
        proto: vlan.proto,
        tci: vlan.vid,
    })
}

fn parse<'a>(data: Option<Attr<'a>>) -> Result<Table<'a>, Error> {
    let data =
        data.ok_or_else(|| Error::msg(errno::EINVAL, "8021q: VLAN properties not specified"))?;
    let inside = data.attrs();
    let table = parse_at(inside.rest(), inside.offset(), &POLICY, Strictness::Liberal)?;
    if let Some(flags) = table.get(vlan::FLAGS) {
        let flags =
            IflaVlanFlags::from_bytes(flags.payload).ok_or_else(|| Error::new(errno::EINVAL))?;
        if flags.flags & flags.mask & !FLAGS != 0 {
            return Err(Error::unsupported(
                "Only the VLAN flags reorder_hdr and loose_binding are supported",
            ));
        }
    }
    Ok(table)
}

/// Applies flags and priority maps (`vlan_changelink`).
fn apply(settings: &mut Settings, table: &Table<'_>) -> Result<(), Error> {
    if let Some(flags) = table
        .get(vlan::FLAGS)
        .and_then(|attr| IflaVlanFlags::from_bytes(attr.payload))
    {
        settings.flags = (settings.flags & !flags.mask) | (flags.flags & flags.mask);
    }
    let mappings = |ty| {
        let nest = table.get(ty);
        nest.into_iter()
            .flat_map(|nest| nest.attrs())
            .filter(|attr| attr.ty == QOS_MAPPING)
            .map(|attr| {
                IflaVlanQosMapping::from_bytes(attr.payload)
                    .ok_or_else(|| Error::new(errno::EINVAL))
            })
    };
    for mapping in mappings(vlan::INGRESS_QOS) {
        let mapping = mapping?;
        settings.ingress[(mapping.from & 7) as usize] = mapping.to;
    }
    for mapping in mappings(vlan::EGRESS_QOS) {
        let mapping = mapping?;
        settings.egress.insert(mapping.from, (mapping.to & 7) as u8);
    }
    Ok(())
}

fn create(ctl: &mut Ctl<'_>, new: NewLink<'_>) -> Result<Arc<Device>, Error> {
    let table = parse(new.data)?;
    let proto = match table.get(vlan::PROTOCOL) {
        None => ETH_P_8021Q,
        Some(attr) => attr.be16()?,
    };
    if !matches!(proto, ETH_P_8021Q | ETH_P_8021AD) {
        return Err(Error::msg(
            errno::EPROTONOSUPPORT,
            "8021q: Invalid VLAN protocol",
        ));
    }
    let vid = table
        .u16(vlan::ID)?
        .ok_or_else(|| Error::msg(errno::EINVAL, "8021q: VLAN id not specified"))?;
    if vid >= 4095 {
        return Err(Error::msg(errno::ERANGE, "8021q: Invalid VLAN id"));
    }
    let link = new
        .link
        .ok_or_else(|| Error::msg(errno::EINVAL, "8021q: link not specified"))?;
    let lower = new
        .link_ns
        .device(link, ctl.guard)
        .cloned()
        .ok_or_else(|| Error::msg(errno::ENODEV, "8021q: link does not exist"))?;
    let challenged = lower.features.active() & bit::VLAN_CHALLENGED != 0;
    if challenged || lower.link.hardware_type() != arphrd::ETHER {
        return Err(Error::msg(
            errno::EOPNOTSUPP,
            "8021q: VLANs not supported on device",
        ));
    }
    if lower.vlan(proto, vid, ctl.guard).is_some() {
        return Err(Error::msg(
            errno::EEXIST,
            "8021q: VLAN device already exists",
        ));
    }
    if new.mtu.is_some_and(|mtu| mtu > lower.mtu()) {
        return Err(Error::new(errno::EINVAL));
    }
    let mut settings = Settings {
        flags: vlan_flag::REORDER_HDR,
        ingress: [0; 8],
        egress: BTreeMap::new(),
    };
    apply(&mut settings, &table)?;
    let link = Box::new(Vlan {
        lower: Arc::downgrade(&lower),
        proto,
        vid,
        ingress: settings.ingress.map(AtomicU32::new),
        egress: Published::new(&ctl.stack.domain, settings.egress.clone()),
        settings: Mutex::new(settings),
    });
    let inherited =
        lower.flags() & !(iff::UP | iff::PROMISC | iff::ALLMULTI | iff::MASTER | iff::SLAVE);
    let device = ethernet(link, &new.ns, &new, 0);
    let device = NewDevice {
        flags: inherited,
        mtu: new.mtu.unwrap_or_else(|| lower.mtu()),
        address: new.address.unwrap_or_else(|| lower.address()),
        address_origin: match new.address {
            Some(_) => AddressOrigin::Set,
            None => AddressOrigin::Stolen,
        },
        broadcast: new.broadcast.unwrap_or_else(|| lower.broadcast()),
        ..device
    };
    let device = register(
        ctl.stack,
        &new.ns,
        device,
        new.ifindex,
        new.group.unwrap_or(0),
    )?;
    let put = {
        let _links = lower.namespace(ctl.guard).links();
        let free = lower.vlan(proto, vid, ctl.guard).is_none();
        let put = free && !lower.is_dying();
        if put {
            let first = lower.vlans(ctl.guard).is_empty();
            lower.change_vlans(ctl.guard, |vlans| vlans.push((proto, vid, device.clone())));
            if first {
                register_vlans(&lower, true);
            }
        }
        (put, free)
    };
    match put {
        (true, _) => {
            taken::changed(ctl.stack, ctl.guard, &lower);
            // A VLAN starts without a carrier, before carrier changes are counted
            // (`vlan_dev_init`), and then takes over that of its lower device
            // (`netif_stacked_transfer_operstate`).
            device.watch_carrier(|| false);
            if device.link.carrier(ctl.stack, &device) {
                device.watch_carrier(|| true);
                device.count_carrier_change(true);
            }
            Ok(device)
        }
        // A concurrent request was faster, or the lower device is being removed.
        (false, free) => {
            crate::unregister(ctl.stack, &[device]);
            Err(match free {
                true => Error::msg(errno::ENODEV, "8021q: link does not exist"),
                false => Error::msg(errno::EEXIST, "8021q: VLAN device already exists"),
            })
        }
    }
}

/// Joins the group of the registration protocols on the lower device of the first VLAN, or leaves it
/// with the last one: GVRP and MVRP one time each (`vlan_gvrp_init_applicant`,
/// `vlan_mvrp_init_applicant`).
fn register_vlans(lower: &Device, join: bool) {
    let mut taken = lower.taken();
    for _ in 0..2 {
        // The device loses the group on a move to another namespace.
        let _ = match join {
            true => taken.multicast.add(REGISTRATION, Reference::Plain),
            false => taken.multicast.remove(REGISTRATION, Reference::Plain),
        };
    }
}

impl Vlan {
    fn settings(&self) -> MutexGuard<'_, Settings, order::VlanSettings> {
        self.settings.lock()
    }

    fn lower(&self) -> Option<Arc<Device>> {
        self.lower.upgrade().filter(|lower| lower.is_registered())
    }
}

impl Link for Vlan {
    fn as_any(&self) -> Option<&dyn std::any::Any> {
        Some(self)
    }

    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn mtu_bounds(&self) -> (u32, u32) {
        (0, 65_535)
    }

    fn check_mtu(&self, mtu: u32) -> Result<(), Error> {
        match self.lower() {
            Some(lower) if mtu > lower.mtu() => Err(Error::new(errno::ERANGE)),
            _ => Ok(()),
        }
    }

    fn open(&self, _stack: &Stack, _guard: &Guard, _device: &Arc<Device>) -> Result<(), Error> {
        let loose = self.settings().flags & vlan_flag::LOOSE_BINDING != 0;
        match self.lower() {
            Some(lower) if lower.is_up() || loose => Ok(()),
            _ => Err(Error::new(errno::ENETDOWN)),
        }
    }

    fn speed(&self) -> Option<u32> {
        self.lower.upgrade()?.link.speed()
    }

    fn features(&self) -> Offer {
        let changeable = bit::HW_CSUM
            | bit::SG
            | bit::FRAGLIST
            | bit::GSO_SOFTWARE
            | bit::GSO_ENCAP_ALL
            | bit::HIGHDMA
            | bit::SCTP_CRC
            | bit::ALL_FCOE;
        let lower = self.lower.upgrade();
        let below = lower.map_or(0, |lower| lower.features.vlan());
        Offer {
            active: changeable | bit::LLTX,
            changeable,
            vlan: below & !bit::ALL_FCOE,
            off: 0,
        }
    }

    /// `vlan_dev_fix_features`
    fn fix_features(&self, features: u64) -> u64 {
        let Some(lower) = self.lower.upgrade() else {
            return features;
        };
        let lower = &lower.features;
        let mut below = intersect(lower.vlan() | bit::RXCSUM, lower.active());
        if below & (bit::IP_CSUM | bit::IPV6_CSUM) != 0 {
            below |= bit::HW_CSUM;
        }
        let soft = features & (bit::SOFT | bit::GSO_SOFTWARE);
        intersect(features, below) | soft | bit::LLTX
    }

    /// The lower device has merged them.
    fn polls(&self) -> bool {
        false
    }

    fn driver(&self) -> Driver {
        let lower = self.lower.upgrade();
        Driver {
            info: Some(("802.1Q VLAN Support", "1.8", "N/A")),
            link: LinkReport::Carrier,
            stamps: lower.is_some_and(|lower| lower.link.driver().stamps),
            channels: false,
        }
    }

    fn link_settings(&self) -> Option<LinkSettings> {
        self.lower.upgrade()?.link.link_settings()
    }

    fn tso_max_size(&self) -> u32 {
        let lower = self.lower.upgrade();
        lower.map_or(65_536, |lower| lower.link.tso_max_size())
    }

    fn carrier(&self, stack: &Stack, _device: &Device) -> bool {
        // With loose binding, the lower device may be down.
        self.lower()
            .is_some_and(|lower| lower.link.carrier(stack, &lower))
    }

    fn transmit(&self, cx: &mut Cx<'_>, device: &Arc<Device>, batch: Batch) {
        let Some(lower) = self.lower() else {
            return cx.drop_batch(device, Place::Transmit, DropReason::DEV_READY, batch);
        };
        let egress = self.egress.load(cx.guard);
        let mut tagged = Batch::new();
        for mut packet in batch {
            if packet.vlan().is_some() && weir_packet::edit::vlan_to_data(&mut packet).is_err() {
                cx.drop(device, Place::Transmit, DropReason::NOMEM, packet);
                continue;
            }
            let priority = egress.get(&packet.priority).copied().unwrap_or(0);
            packet.set_vlan(Some(VlanTag {
                proto: self.proto,
                tci: self.vid | u16::from(priority) << 13,
            }));
            // There is room: the part is no larger than the batch it is taken from.
            let _ = tagged.push(packet);
        }
        if !tagged.is_empty() {
            cx.transmit(&lower, tagged);
        }
    }

    fn lower(&self, stack: &Stack) -> Option<(NsId, u32)> {
        let lower = self.lower()?;
        let guard = stack.domain.pin();
        Some((lower.namespace(&guard).id, lower.ifindex()))
    }

    fn ingress_priority(&self, pcp: u8) -> u32 {
        self.ingress[usize::from(pcp & 7)].load(Relaxed)
    }

    fn fill_data(&self, _stack: &Stack, out: &mut Writer) {
        let settings = self.settings();
        out.put_be16(vlan::PROTOCOL, self.proto);
        out.put_u16(vlan::ID, self.vid);
        if settings.flags != 0 {
            out.put_fixed(
                vlan::FLAGS,
                &IflaVlanFlags {
                    flags: settings.flags,
                    mask: u32::MAX,
                },
            );
        }
        let mut mappings = |ty, pairs: &mut dyn Iterator<Item = (u32, u32)>| {
            let nest = out.nest_noflag(ty);
            for (from, to) in pairs {
                out.put_fixed(QOS_MAPPING, &IflaVlanQosMapping { from, to });
            }
            out.end_or_cancel(nest);
        };
        let ingress = (0..).zip(settings.ingress).filter(|(_, to)| *to != 0);
        mappings(vlan::INGRESS_QOS, &mut { ingress });
        let egress = settings
            .egress
            .iter()
            .filter(|(_, to)| **to != 0)
            .map(|(from, to)| (*from, u32::from(*to)));
        mappings(vlan::EGRESS_QOS, &mut { egress });
    }

    fn change(
        &self,
        _ctl: &mut Ctl<'_>,
        _device: &Arc<Device>,
        data: Option<Attr<'_>>,
    ) -> Result<(), Error> {
        let table = parse(data)?;
        let mut settings = self.settings();
        let mut changed = settings.clone();
        apply(&mut changed, &table)?;
        for (slot, to) in self.ingress.iter().zip(changed.ingress) {
            slot.store(to, Relaxed);
        }
        self.egress.replace(changed.egress.clone());
        *settings = changed;
        Ok(())
    }

    fn inherit_address(&self, stack: &Stack, guard: &Guard, device: &Arc<Device>) {
        let stolen = device.address_origin() == AddressOrigin::Stolen as u8;
        let Some(lower) = self.lower().filter(|_| stolen) else {
            return;
        };
        if lower.address() != device.address() {
            device.inherit_address(lower.address());
            crate::address_changed(stack, guard, device);
        }
    }

    fn has_unicast_filter(&self) -> bool {
        true
    }

    fn accepts(&self, stack: &Stack, guard: &Guard, device: &Arc<Device>) {
        if let Some(lower) = self.lower.upgrade() {
            taken::pass_on(stack, guard, device, &lower);
        }
    }

    fn changed_state(&self, _stack: &Stack, _guard: &Guard, device: &Arc<Device>) {
        crate::settle_operstate(device);
    }

    /// Passes the request on to the lower device and, for promiscuous mode, announces the lower
    /// device's change (`vlan_dev_change_rx_flags`).
    fn asks_for_all(&self, stack: &Stack, guard: &Guard, flag: u32, more: bool) {
        let Some(lower) = self.lower() else { return };
        crate::ask_for_all(stack, guard, &lower, flag, more);
        if flag == iff::PROMISC {
            let ns = lower.namespace(guard);
            crate::changed(stack, guard, ns, &lower, rtm::NEWLINK, flag);
        }
    }

    fn follows_lower(&self) -> bool {
        self.settings().flags & vlan_flag::LOOSE_BINDING == 0
    }

    fn removed(&self, stack: &Stack, device: &Arc<Device>) {
        if let Some(lower) = self.lower.upgrade() {
            let guard = stack.domain.pin();
            let links = lower.namespace(&guard).links();
            lower.change_vlans(&guard, |vlans| {
                vlans.retain(|(_, _, other)| !Arc::ptr_eq(other, device));
                if vlans.is_empty() {
                    register_vlans(&lower, false);
                }
            });
            drop(links);
            taken::changed(stack, &guard, &lower);
        }
    }
}
