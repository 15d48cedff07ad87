// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `vxlan`: Ethernet frames in UDP datagrams (RFC 7348, drivers/net/vxlan).
//!
//! | attribute | meaning |
//! |---|---|
//! | `id` | network identifier, 24 bits |
//! | `remote`, `local` | outer addresses, both IPv4 or both IPv6; without a remote, frames need an entry |
//! | `group` | a remote that is a multicast group, which the device joins at `dev` while it is up |
//! | `dev` | underlay device; the MTU is its MTU minus the headers (1500 without a device) |
//! | `dstport` | UDP port for sending and listening, default 8472 |
//! | `srcport MIN MAX` | outer source ports, MAX exclusive; default: `ip_local_port_range` |
//! | `ttl`, `tos`, `df`, `flowlabel` | fields of the outer header; ttl 0 means the route's; all but the label may be `inherit` |
//! | `[no]learning`, `ageing`, `maxaddress` | forwarding table: seconds (default 300), number of entries (0: unlimited) |
//! | `proxy` | answers ARP requests and neighbour solicitations by the device's neighbours, and sends none |
//! | `rsc` | sends packets for routers (`bridge fdb ... router`) to the neighbours that they are for |
//! | `l2miss`, `l3miss` | reports of unicast addresses without an entry (RTM_GETNEIGH); of neighbours that `proxy` and `rsc` lack |
//! | `[no]udpcsum`, `udp6zerocsumtx`, `udp6zerocsumrx` | UDP checksums over IPv4; sending and accepting none over IPv6 |
//! | `remcsumtx`, `remcsumrx` | remote checksum offload: leaving checksums of inner packets to the receiver; computing them, at once with `remcsum_nopartial` |
//! | `gbp` | group policy: carried in the mark, or in the metadata's VXLAN option |
//! | `gpe` | generic protocol extension: packets of IP, Ethernet, MPLS and NSH by a next protocol, on a device without link-layer address; with `external` |
//! | `external` | all identifiers: sends by each packet's tunnel metadata (`tunnel_key`), and sets it on receive |
//! | `vnifilter` | receives only the identifiers of `bridge vni`, which may have remotes of their own; with `external` |
//!
//! | file | contents |
//! |---|---|
//! | [`config`] | attributes |
//! | [`fdb`] | forwarding table, `bridge fdb`, learning |
//! | [`socket`] | listening, and the device for each identifier |
//! | [`group`] | memberships in groups |
//! | [`proxy`] | answers for neighbours |
//! | [`shortcut`] | routers that are passed by |
//! | [`vnifilter`], [`vnis`] | identifiers of a device that filters, their remotes and counters |
//! | [`send`], [`receive`] | encapsulation and decapsulation |
//!
//! The underlay is the namespace in which the device was created, even after the device moves.

pub mod config;
pub mod fdb;
pub mod group;
pub mod proxy;
pub mod receive;
pub mod send;
pub mod shortcut;
pub mod socket;
pub mod vnifilter;
pub mod vnis;

use std::sync::{Arc, OnceLock, Weak};

use weir_netlink::ifla::{arphrd, iff};
use weir_netlink::nda::{ntf, nud};
use weir_netlink::{Attr, Error, LinkStats64, Writer, errno, nlm};
use weir_packet::Batch;
use weir_packet::header::ethernet::{ETH_P_IP, ETH_P_IPV6, ETH_P_MPLS_UC, ETH_P_NSH, ETH_P_TEB};
use weir_sync::once_box::OnceBox;
use weir_sync::order::{self, Mutex};
use weir_sync::rcu::{Guard, Published};

use self::config::Config;
use self::fdb::{ALL_ZEROS, Remote, Site, Table, To, Update};
use self::socket::Underlay;
use self::vnis::Filter;
use crate::clock::{Holds, SECOND, TimerId};
use crate::cpu::Cx;
use crate::device::{Device, Mac, NewDevice};
use crate::ethtool::{Driver, Link as LinkReport, LinkSettings};
use crate::features::{Offer, bit};
use crate::kind::{Fdb, InterfaceId, check_mac};
use crate::layers::Module;
use crate::namespace::{Namespace, NsId};
use crate::request::Ctl;
use crate::stack::Stack;
use crate::tunnel::Errors;
use crate::tunnel::inner::Remembered;
use crate::{Kind, Link, NewLink, ethernet, register};

/// The `vxlan` link kind.
pub static KIND: Kind = Kind {
    name: "vxlan",
    pattern: "vxlan%d",
    create: Ok(create),
    validate: None,
};

/// Flag in the first word of the header: an identifier is present (`VXLAN_HF_VNI`).
const VNI_FLAG: u32 = 1 << 27;
/// Flag: a group policy is present (`VXLAN_HF_GBP`).
const GBP_FLAG: u32 = 1 << 31;
/// The bits of the group policy that are used (`VXLAN_GBP_MASK`), at the same position in the word.
const GBP_MASK: u32 = 0x0048_ffff;
/// All bits that the group policy occupies (`VXLAN_GBP_USED_BITS`).
const GBP_USED: u32 = GBP_FLAG | 0x00ff_ffff;
/// Flag of remote checksum offload: the checksum of the inner packet is left to the receiver (`VXLAN_HF_RCO`). The last byte
/// of the header says where it begins, in words of two bytes, and whether it is UDP's or TCP's.
const RCO_FLAG: u32 = 1 << 21;
/// The bit for UDP (`VXLAN_RCO_UDP`).
const RCO_UDP: u8 = 0x80;
/// The farthest offset of the transport header in bytes (`VXLAN_MAX_REMCSUM_START`).
const RCO_MAX_START: usize = 254;
/// The offsets of the checksums in the headers of UDP and TCP, in bytes.
const RCO_UDP_CHECK: usize = 6;
const RCO_TCP_CHECK: usize = 16;
/// Flag of the generic protocol extension: a next protocol is present (`np_applied`), which is the word's last byte.
const GPE_NEXT: u32 = 1 << 26;
/// The bits of the generic protocol extension's version (`VXLAN_HF_VER`), and the one of packets for operation,
/// administration and maintenance (`VXLAN_HF_OAM`).
const GPE_VERSION: u32 = 3 << 28;
const GPE_OAM: u32 = 1 << 24;
/// All bits that the extension occupies (`VXLAN_GPE_USED_BITS`).
const GPE_USED: u32 = GPE_VERSION | GPE_NEXT | GPE_OAM | 0xff;
/// The next protocols (`TUN_P_*`) and their EtherTypes.
const NEXT_PROTOCOLS: [(u8, u16); 5] = [
    (1, ETH_P_IP),
    (2, ETH_P_IPV6),
    (3, ETH_P_TEB),
    (4, ETH_P_NSH),
    (5, ETH_P_MPLS_UC),
];
/// The interval in ns between scans for aged entries (`FDB_AGE_INTERVAL`).
const AGE_INTERVAL: u64 = 10 * SECOND;
/// The smallest and the largest MTU in bytes.
const MIN_MTU: u32 = 68;
const MAX_MTU: u32 = 65_535;

/// The VXLAN state of a device.
pub struct Vxlan {
    /// The configuration. Requests change it one at a time.
    pub config: Published<Config>,
    /// The underlay namespace.
    pub net: Weak<Namespace>,
    /// The forwarding table.
    pub fdb: Table,
    /// The identifiers that the device receives, if it filters.
    pub filter: Option<Box<Filter>>,
    errors: Errors,
    /// It uses the generic protocol extension ([`Config::gpe`]), which does not change.
    bare: bool,
    remembered: OnceLock<Remembered>,
    device: OnceLock<Weak<Device>>,
    /// `tso_max_size` of the underlay device at the time it was configured.
    tso_max_size: u32,
    /// The timer of the next ageing scan, armed while the device is up.
    timer: Mutex<Option<TimerId>, order::VxlanTimer>,
}

/// The `Link` implementation that the device owns.
struct Handle(Arc<Vxlan>);

fn largest(conf: &Config, lower: &Device) -> u32 {
    lower.mtu().saturating_sub(conf.headroom()).max(MIN_MTU)
}

fn create(ctl: &mut Ctl<'_>, new: NewLink<'_>) -> Result<Arc<Device>, Error> {
    if new
        .mtu
        .is_some_and(|mtu| !(MIN_MTU..=MAX_MTU).contains(&mtu))
    {
        return Err(Error::msg(
            errno::EINVAL,
            "MTU must be between 68 and 65535",
        ));
    }
    let table = config::parse(new.data)?;
    let mut conf = config::config(&table, None)?;
    let net = new.link_ns.clone();
    let lower = config::validate(&net, &mut conf, ctl.guard)?;
    socket::check_unused(&net, &conf, None, ctl.guard)?;
    let domain = &ctl.stack.domain;
    let mtu = match (&lower, new.mtu) {
        (Some(lower), mtu) => {
            let largest = largest(&conf, lower);
            mtu.map_or(largest, |mtu| mtu.min(largest))
        }
        (None, mtu) => mtu.unwrap_or(1500),
    };
    let vxlan = Arc::new(Vxlan {
        config: Published::new(domain, conf.clone()),
        net: Arc::downgrade(&net),
        fdb: Table::new(domain),
        filter: conf.vnifilter.then(|| Box::new(Filter::new(domain))),
        errors: Errors::default(),
        bare: conf.gpe,
        remembered: OnceLock::new(),
        device: OnceLock::new(),
        tso_max_size: lower
            .as_ref()
            .map_or(65_536, |lower| lower.link.tso_max_size()),
        timer: Mutex::new(None),
    });
    let device = ethernet(Box::new(Handle(vxlan.clone())), &new.ns, &new, 0);
    let flags = match conf.gpe {
        true => iff::POINTOPOINT | iff::NOARP | iff::MULTICAST,
        false => device.flags,
    };
    let device = NewDevice {
        mtu,
        flags,
        ..device
    };
    let group = new.group.unwrap_or(0);
    let device = register(ctl.stack, &new.ns, device, new.ifindex, group)?;
    let set = vxlan.device.set(Arc::downgrade(&device)).is_ok();
    debug_assert!(set, "the device is new");
    let underlay = net.parts.get(&socket::UNDERLAY);
    let underlay = underlay.get_or_make(|| Underlay::new(&ctl.stack.domain));
    underlay.tunnels.enter(&device, &vxlan);
    // The underlay may have been removed before the device was entered into its list.
    let lower = lower.filter(|lower| lower.is_dying());
    if lower.is_some() || net.is_closing() {
        crate::unregister(ctl.stack, &[device]);
        return Err(Error::new(errno::ENODEV));
    }
    vxlan.set_default(ctl, &device, &conf, nlm::F_CREATE)?;
    Ok(device)
}

impl Vxlan {
    /// Returns the forwarding table with the context for changing it.
    pub fn site<'a>(
        &'a self,
        stack: &'a Stack,
        guard: &'a Guard,
        device: &'a Arc<Device>,
    ) -> Site<'a> {
        Site {
            stack,
            guard,
            device,
            vxlan: self,
        }
    }

    /// Returns the part of an identifier that distinguishes entries of the table.
    fn key_of(&self, vni: u32, guard: &Guard) -> u32 {
        if self.config.load(guard).external {
            vni
        } else {
            0
        }
    }

    fn remembered(&self) -> &Remembered {
        self.remembered
            .get_or_init(|| Remembered::new(self.config.domain()))
    }

    /// Adds the default remote to the table.
    fn set_default(
        &self,
        ctl: &Ctl<'_>,
        device: &Arc<Device>,
        conf: &Config,
        flags: u16,
    ) -> Result<(), Error> {
        if conf.remote.is_unspecified() {
            return Ok(());
        }
        let update = Update {
            mac: ALL_ZEROS,
            src_vni: conf.vni,
            state: nud::REACHABLE | nud::PERMANENT,
            flags: u16::from(ntf::SELF),
            to: To::Remote(default_remote(conf)),
        };
        self.site(ctl.stack, ctl.guard, device)
            .update(&update, flags)
    }

    /// Arms the ageing timer.
    fn arm(self: &Arc<Self>, stack: &Stack, time: u64) {
        let weak = Arc::downgrade(self);
        let job = move |cx: &mut Cx<'_>| {
            let Some(vxlan) = weak.upgrade() else {
                return;
            };
            let device = vxlan.device.get().and_then(Weak::upgrade);
            if let Some(device) = device.filter(|device| device.is_up()) {
                let next = vxlan.site(cx.stack, cx.guard, &device).age();
                vxlan.arm(cx.stack, next.max(cx.now + 1));
            }
        };
        let timer = stack.arm(time, Holds::Nothing, Box::new(job));
        let old = self.timer().replace(timer);
        if let Some(old) = old {
            stack.timers.cancel(old);
        }
    }

    fn timer(&self) -> order::MutexGuard<'_, Option<TimerId>, order::VxlanTimer> {
        self.timer.lock()
    }
}

fn default_remote(conf: &Config) -> Remote {
    Remote {
        ip: conf.remote,
        port: conf.dst_port,
        vni: conf.vni,
        ifindex: conf.lower,
    }
}

/// The devices that go when `device` goes: those that name it as their underlay. Without it, all whose underlay
/// the namespace is.
fn above(ns: &Namespace, device: Option<&Device>, guard: &Guard, add: &mut dyn FnMut(Arc<Device>)) {
    let Some(tunnels) = socket::tunnels(ns) else {
        return;
    };
    let all = tunnels.devices().into_iter();
    let on = |vxlan: &Vxlan| {
        let lower = vxlan.config.load(guard).lower;
        device.is_none_or(|device| device.ifindex() == lower)
    };
    all.filter(|(_, vxlan)| on(vxlan))
        .for_each(|(device, _)| add(device));
}

/// VXLAN in the stack.
pub static MODULE: Module = Module {
    namespace: Some(|parts, _| parts.fill(&socket::UNDERLAY, OnceBox::default())),
    above: Some(above),
    ..Module::NONE
};

impl Link for Handle {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn hardware_type(&self) -> u16 {
        if self.0.bare {
            arphrd::NONE
        } else {
            arphrd::ETHER
        }
    }

    fn is_bare(&self) -> bool {
        self.0.bare
    }

    fn hardware_addresses(&self) -> Option<(Vec<u8>, Vec<u8>)> {
        self.0.bare.then(|| (Vec::new(), Vec::new()))
    }

    fn check_address(&self, mac: &Mac) -> Result<(), Error> {
        match self.0.bare {
            true => Err(Error::new(errno::EOPNOTSUPP)),
            false => check_mac(mac),
        }
    }

    fn interface_id(&self) -> InterfaceId {
        match self.0.bare {
            true => InterfaceId::Random,
            false => InterfaceId::Ethernet,
        }
    }

    fn mtu_bounds(&self) -> (u32, u32) {
        (MIN_MTU, MAX_MTU)
    }

    fn check_mtu(&self, mtu: u32) -> Result<(), Error> {
        let guard = self.0.config.domain().pin();
        let conf = self.0.config.load(&guard);
        let net = self.0.net.upgrade();
        let lower = net.as_ref().and_then(|net| net.device(conf.lower, &guard));
        match lower {
            Some(lower) if mtu > largest(conf, lower) => Err(Error::new(errno::EINVAL)),
            _ => Ok(()),
        }
    }

    fn features(&self) -> Offer {
        let changeable = bit::SG | bit::HW_CSUM | bit::FRAGLIST | bit::RXCSUM | bit::GSO_SOFTWARE;
        let active = changeable | bit::LLTX;
        Offer {
            active,
            changeable,
            vlan: active,
            off: 0,
        }
    }

    /// Each inner frame gets its own outer headers.
    fn takes_long_packets(&self) -> bool {
        false
    }

    /// Frames are merged by their Ethernet headers.
    fn polls(&self) -> bool {
        !self.0.bare
    }

    fn driver(&self) -> Driver {
        Driver {
            info: Some(("vxlan", "0.1", "")),
            link: LinkReport::Carrier,
            ..Driver::default()
        }
    }

    fn link_settings(&self) -> Option<LinkSettings> {
        Some(LinkSettings::OTHER)
    }

    fn tso_max_size(&self) -> u32 {
        self.0.tso_max_size
    }

    fn open(&self, stack: &Stack, guard: &Guard, _device: &Arc<Device>) -> Result<(), Error> {
        let device = self.0.device.get().and_then(Weak::upgrade);
        let (Some(net), Some(device)) = (self.0.net.upgrade(), device) else {
            return Err(Error::new(errno::ENODEV));
        };
        let underlay = socket::underlay(&net).ok_or(Error::new(errno::ENODEV))?;
        self.0.listen((stack, guard), &net, underlay, &device)
    }

    fn changed_state(&self, stack: &Stack, guard: &Guard, device: &Arc<Device>) {
        if device.is_up() {
            self.0.arm(stack, stack.clock.now() + AGE_INTERVAL);
            return;
        }
        let at = (stack, guard);
        let net = self.0.net.upgrade();
        let underlay = net
            .as_ref()
            .and_then(|net| Some((net, socket::underlay(net)?)));
        if let Some((net, underlay)) = underlay {
            self.0.leave_groups(at, net, underlay, device);
        }
        if let Some(timer) = self.0.timer().take() {
            stack.timers.cancel(timer);
        }
        self.0.site(stack, guard, device).forget_learned();
        if let Some((net, underlay)) = underlay {
            self.0.close(at, net, underlay, device);
        }
    }

    fn transmit(&self, cx: &mut Cx<'_>, device: &Arc<Device>, batch: Batch) {
        send::transmit(&self.0, cx, device, batch);
    }

    fn counts_itself(&self) -> bool {
        true
    }

    fn add_stats(&self, stats: &mut LinkStats64) {
        self.0.errors.add_to(stats);
    }

    fn link_namespace(&self) -> Option<NsId> {
        Some(self.0.net.upgrade()?.id)
    }

    fn fill_data(&self, stack: &Stack, out: &mut Writer) {
        config::fill(self.0.config.load(&stack.domain.pin()), out);
    }

    fn change(
        &self,
        ctl: &mut Ctl<'_>,
        device: &Arc<Device>,
        data: Option<Attr<'_>>,
    ) -> Result<(), Error> {
        let vxlan = &self.0;
        let old = vxlan.config.load(ctl.guard);
        let table = config::parse(data)?;
        let mut conf = config::config(&table, Some(old))?;
        let net = vxlan.net.upgrade().ok_or(Error::new(errno::ENODEV))?;
        let lower = config::validate(&net, &mut conf, ctl.guard)?;
        socket::check_unused(&net, &conf, Some(device), ctl.guard)?;
        if conf.remote != old.remote {
            let flags = nlm::F_APPEND | nlm::F_CREATE;
            vxlan.set_default(ctl, device, &conf, flags)?;
            if !old.remote.is_unspecified() {
                let site = vxlan.site(ctl.stack, ctl.guard, device);
                // It may have been deleted by hand.
                let _ = site.delete(ALL_ZEROS, old.vni, &default_remote(old));
            }
            if let Some(underlay) = socket::underlay(&net) {
                vxlan.replace_defaults(ctl, device, underlay, (old, conf.remote))?;
            }
        }
        if let Some(lower) = &lower {
            let largest = largest(&conf, lower);
            if device.mtu() > largest {
                device.set_mtu(largest);
            }
        }
        let moves = device.is_up() && (conf.remote, conf.lower) != (old.remote, old.lower);
        let underlay = socket::underlay(&net).filter(|_| moves);
        let at = (ctl.stack, ctl.guard);
        let mut done = Ok(());
        if let Some(underlay) = underlay {
            let all = underlay.vnis.lock();
            if old.remote.is_multicast() {
                done = group::leave_all(underlay.groups(), at, &net, (device, old), &all);
            }
            vxlan.config.replace(conf.clone());
            if done.is_ok() && conf.remote.is_multicast() {
                let vnis = all.get(&device.key);
                done = group::join_all(&underlay.joined, at, &net, &conf, vnis);
            }
        } else {
            vxlan.config.replace(conf);
        }
        if lower.is_some_and(|lower| lower.is_dying()) {
            crate::unregister(ctl.stack, std::slice::from_ref(device));
        }
        if device.is_up() {
            vxlan.arm(ctl.stack, ctl.stack.clock.now());
        }
        done
    }

    fn removed(&self, stack: &Stack, device: &Arc<Device>) {
        let guard = stack.domain.pin();
        self.0.site(stack, &guard, device).retain_not(|_| true);
        if let Some(net) = self.0.net.upgrade()
            && let Some(underlay) = socket::underlay(&net)
        {
            underlay.tunnels.leave(&self.0);
            self.0.forget_vnis(device, underlay, &guard);
        }
    }

    fn as_any(&self) -> Option<&dyn std::any::Any> {
        Some(&self.0)
    }

    fn fdb(&self) -> Option<&dyn Fdb> {
        (!self.0.bare).then_some(&*self.0 as &dyn Fdb)
    }
}
