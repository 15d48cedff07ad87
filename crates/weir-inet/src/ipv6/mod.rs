// SPDX-License-Identifier: Apache-2.0 OR MIT
//! IPv6: a device's addresses and settings, and the packet path through layer 3.

pub mod address;
pub mod egress;
mod facts;
pub mod forward;
pub mod fragment;
pub mod group;
pub mod icmp;
pub mod input;
pub mod label;
pub mod local;
mod mld;
pub mod multicast;
pub mod nd;
pub mod output;
pub mod path_mtu;
mod ra;
pub mod reassembly;
mod redirected;
pub mod select;
pub mod solicit;
mod straight;

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use weir_netlink::ifla::{arphrd, iff};
use weir_packet::Packet;
use weir_packet::header::ETH_P_IPV6;
use weir_packet::header::icmp::{ICMPV6_ADDR_UNREACH, ICMPV6_DEST_UNREACH};
use weir_packet::header::ndisc::solicited_node;
use weir_sync::once_box::OnceBox;
use weir_sync::order::{self, Mutex};
use weir_sync::rcu::{Domain, Guard};

use address::Addresses;
use facts::Facts;

use crate::clock::{Holds, TimerId};
use crate::cpu::Cx;
use crate::device::Device;
use crate::fib::host::{Host, WithRoutes};
use crate::layers::{Event, Hears, Module, PacketType, Site};
use crate::listen::{ConfEvent, conf6};
use crate::mib::WithMib;
use crate::namespace::Namespace;
use crate::neigh::{self, Protocol, WithNeighbours};
use crate::parts::Key;
use crate::settings::{Conf, HasIp, Ipv6Conf, SPECIAL6, Target, WithSettings};
use crate::stack::Stack;

/// A device's IPv6 side, beside settings.
#[derive(Debug)]
pub struct Inet {
    /// The addresses.
    pub addresses: Addresses,
    /// The groups.
    pub groups: group::Groups,
    /// What most devices lack, once it was first changed.
    seldom: OnceBox<Seldom>,
}

/// The parts of a device's IPv6 side that most devices lack.
#[derive(Debug, Default)]
struct Seldom {
    /// The router solicitations.
    solicitations: solicit::Solicitations,
    /// The interface identifier of automatic addresses (`ip token`), or 0.
    token: AtomicU64,
    /// The secret of stable addresses (`stable_secret`).
    secret: Mutex<Option<Ipv6Addr>, order::Groups>,
}

impl Inet {
    /// Starts with no address.
    pub fn new(domain: &Domain) -> Self {
        Self {
            addresses: Addresses::new(domain),
            groups: group::Groups::default(),
            seldom: OnceBox::default(),
        }
    }

    fn seldom(&self) -> &Seldom {
        self.seldom.get_or_make(Seldom::default)
    }

    /// Returns the router solicitations.
    pub(crate) fn solicitations(&self) -> &solicit::Solicitations {
        &self.seldom().solicitations
    }

    /// Ends the search for routers, if there is one.
    pub(crate) fn stop_solicitations(&self, site: &Site<'_>) {
        if let Some(seldom) = self.seldom.get() {
            seldom.solicitations.stop(site);
        }
    }

    /// Returns the interface identifier of automatic addresses (`ip token`), or 0.
    pub fn token(&self) -> u64 {
        let seldom = self.seldom.get();
        seldom.map_or(0, |seldom| seldom.token.load(Relaxed))
    }

    /// Sets the interface identifier of automatic addresses.
    pub(crate) fn set_token(&self, token: u64) {
        if token != self.token() {
            self.seldom().token.store(token, Relaxed);
        }
    }

    /// Returns the secret of stable addresses (`stable_secret`).
    pub fn secret(&self) -> Option<Ipv6Addr> {
        *self.seldom.get()?.secret.lock()
    }

    fn set_secret(&self, secret: Option<Ipv6Addr>) {
        if secret != self.secret() {
            *self.seldom().secret.lock() = secret;
        }
    }
}

static DEVICE: Key<Inet, 3> = Key::new();
static NAMESPACE: Key<Net, 4> = Key::new();

/// IPv6 in the stack (`inet6_init`).
pub static MODULE: Module = Module {
    stack: Some(|parts| neigh::resolve_by(parts, true, &DISCOVERY)),
    namespace: Some(|parts, new| parts.fill(&NAMESPACE, Net::new(new.domain, new.seed))),
    device: Some(|parts, domain, _, _| parts.fill(&DEVICE, Inet::new(domain))),
    packet_types: &[PacketType {
        protocol: ETH_P_IPV6,
        receive,
    }],
    device_event: Some(Hears::of(
        &[
            Event::Entered,
            Event::Up,
            Event::Down,
            Event::Carrier,
            Event::State,
            Event::Address,
            Event::Mtu { before: 0 },
            Event::L3Master,
            Event::NotifyPeers,
            Event::Gone,
        ],
        device_event,
    )),
    ..Module::NONE
};

/// `ndisc_generic_ops`
static DISCOVERY: Protocol = Protocol {
    solicit: |cx, device, target, to, waiting| {
        if let IpAddr::V6(target) = target {
            nd::solicit(cx, device, target, to, waiting);
        }
    },
    failed: neighbour_failed,
    proxied: |stack, guard, device, address, came| {
        let IpAddr::V6(address) = address else { return };
        let group = solicited_node(address.octets()).into();
        let site = Site::new(stack, guard, device.namespace(guard), device);
        match came {
            true => device.ipv6().groups.join(&site, group),
            false => device.ipv6().groups.leave(&site, group),
        }
    },
};

/// Has an IPv6 side: a device or a namespace.
pub trait WithIpv6 {
    /// The type of that side.
    type Side;
    /// The IPv6 side.
    fn ipv6(&self) -> &Self::Side;
}

impl WithIpv6 for Device {
    type Side = Inet;
    #[inline]
    fn ipv6(&self) -> &Inet {
        self.parts.get(&DEVICE)
    }
}

impl WithIpv6 for Namespace {
    type Side = Net;
    #[inline]
    fn ipv6(&self) -> &Net {
        self.parts.get(&NAMESPACE)
    }
}

fn device_event(site: &Site<'_>, event: Event) {
    let Site {
        stack,
        guard,
        ns,
        device,
    } = *site;
    match event {
        Event::Entered => device_entered(stack, guard, ns, device),
        Event::Up => device_up(stack, guard, ns, device),
        Event::Down => device_down(stack, guard, ns, device),
        Event::Carrier => carrier_changed(stack, guard, ns, device),
        Event::State => device.ipv6().addresses.state_changed(site),
        Event::Address => address_changed(stack, guard, device),
        Event::Mtu { before } => mtu_changed(stack, guard, ns, device, before),
        Event::L3Master => device.ipv6().addresses.device_down(site, false),
        Event::NotifyPeers => nd::announce(stack, guard, device),
        Event::Gone => device_gone(stack, guard, ns, device),
        _ => {}
    }
}

/// The IPv6 state of a namespace.
#[derive(Debug)]
pub struct Net {
    /// The fragments that wait for reassembly.
    fragments: OnceBox<reassembly::Fragments>,
    /// The fragments that wait for reassembly for connection tracking.
    tracked_fragments: OnceBox<reassembly::Fragments>,
    /// The seed of flow labels and identifications.
    pub seed: u64,
    idents: AtomicU32,
    /// Multicast routes.
    multicast: OnceBox<crate::multicast::Routers<multicast::V6>>,
    /// The label table for source address selection.
    pub labels: label::Labels,
    /// The secret of stable addresses of devices without one (`conf/default/stable_secret`).
    pub secret: Mutex<Option<Ipv6Addr>, order::Groups>,
    /// The timer of the next route that expires.
    expiry: Mutex<Option<TimerId>, order::Groups>,
}

/// Returns the secret of a device's stable addresses, if there is one.
pub(crate) fn stable_secret(ns: &Namespace, device: &Device) -> Option<Ipv6Addr> {
    let own = device.ipv6().secret();
    own.or_else(|| *ns.ipv6().secret.lock())
}

/// Has expired routes removed right after `expires`. Linux's garbage collector runs up to 30 seconds
/// later; until then it reports them, but no longer uses them.
pub fn expire_routes_at(stack: &Stack, ns: &Arc<Namespace>, expires: u64) {
    let time = expires.saturating_add(1);
    let mut timer = ns.ipv6().expiry.lock();
    if timer.as_ref().is_some_and(|timer| timer.time() <= time) {
        return;
    }
    if let Some(timer) = timer.take() {
        stack.timers.cancel(timer);
    }
    let ns = Arc::downgrade(ns);
    let fire = move |cx: &mut Cx<'_>| {
        if let Some(ns) = ns.upgrade() {
            ns.ipv6().expiry.lock().take();
            let mut events = Vec::new();
            let next = ns.fib().v6.expire(cx.stack.clock.now(), &mut events);
            crate::fib::host::tell(cx.stack, &ns, &events);
            if let Some(next) = next {
                expire_routes_at(cx.stack, &ns, next);
            }
        }
    };
    *timer = Some(stack.arm(time, Holds::Nothing, Box::new(fire)));
}

impl Net {
    /// Creates the state of a new namespace.
    pub fn new(domain: &Domain, seed: u64) -> Self {
        Self {
            labels: label::Labels::new(domain),
            fragments: OnceBox::default(),
            tracked_fragments: OnceBox::default(),
            multicast: OnceBox::default(),
            seed: crate::random::seed_of(seed, "ipv6"),
            idents: AtomicU32::new(0),
            secret: Mutex::default(),
            expiry: Mutex::default(),
        }
    }

    /// Returns the fragments that wait for reassembly.
    pub fn fragments(&self) -> &reassembly::Fragments {
        self.fragments.get_or_make(reassembly::Fragments::default)
    }

    /// Returns the fragments that wait for reassembly for connection tracking.
    pub fn tracked_fragments(&self) -> &reassembly::Fragments {
        self.tracked_fragments
            .get_or_make(reassembly::Fragments::default)
    }

    /// Returns the identification of the next fragmented datagram. It never repeats immediately and
    /// is hard to guess (`ipv6_select_ident`).
    pub fn next_ident(&self) -> u32 {
        let count = self.idents.fetch_add(1, Relaxed);
        crate::random::mix(self.seed ^ u64::from(count)) as u32
    }
}

/// The types of devices without temporary addresses (`ipv6_add_dev`).
const NEVER_TEMPORARY: [u16; 4] = [arphrd::TUNNEL, arphrd::TUNNEL6, arphrd::SIT, arphrd::NONE];

/// Initializes a device that entered a namespace with the namespace's `default` settings
/// (`ipv6_add_dev`).
pub fn device_entered(stack: &Stack, guard: &Guard, ns: &Arc<Namespace>, device: &Arc<Device>) {
    let loopback = device.flags() & iff::LOOPBACK != 0;
    let special = loopback.then_some(&SPECIAL6);
    device
        .conf()
        .ipv6
        .copy_but(&ns.conf().default.ipv6, special);
    device.mib().clear();
    device.ipv6().set_token(0);
    let secret = *ns.ipv6().secret.lock();
    device.ipv6().set_secret(secret);
    if secret.is_some() {
        device
            .conf()
            .ipv6
            .set(Ipv6Conf::AddrGenMode, STABLE_PRIVACY);
    }
    if device.flags() & iff::NOARP != 0 && !loopback {
        // Nor does such a device detect duplicates.
        device.conf().ipv6.set(Ipv6Conf::AcceptDad, -1);
    }
    let hardware = device.link.hardware_type();
    if !loopback && NEVER_TEMPORARY.contains(&hardware) {
        device.conf().ipv6.set(Ipv6Conf::UseTempaddr, -1);
    }
    device.conf().neigh6.copy(&ns.conf().default.neigh6);
    set_mtu(device);
    if device.has_ipv6() {
        conf6(stack, ns, &ConfEvent::Began(device));
    }
    let site = Site::new(stack, guard, ns, device);
    device.ipv6().addresses.device_entered(&site);
}

/// Restores addresses and routes when a device comes up.
pub fn device_up(stack: &Stack, guard: &Guard, ns: &Arc<Namespace>, device: &Arc<Device>) {
    let site = Site::new(stack, guard, ns, device);
    device.ipv6().addresses.device_up(&site);
}

/// Handles a device that went down.
pub fn device_down(stack: &Stack, guard: &Guard, ns: &Arc<Namespace>, device: &Arc<Device>) {
    let site = Site::new(stack, guard, ns, device);
    device.ipv6().addresses.device_down(&site, false);
}

/// Removes all addresses, routes and neighbours of a device that leaves its namespace.
pub fn device_gone(stack: &Stack, guard: &Guard, ns: &Arc<Namespace>, device: &Arc<Device>) {
    let site = Site::new(stack, guard, ns, device);
    crate::multicast::device_gone::<multicast::V6>(&Host { stack, ns, guard }, device);
    device.ipv6().addresses.device_down(&site, true);
    if device.has_ipv6() {
        conf6(stack, ns, &ConfEvent::Ended(device));
    }
}

/// Handles a gained or lost carrier.
pub fn carrier_changed(stack: &Stack, guard: &Guard, ns: &Arc<Namespace>, device: &Arc<Device>) {
    let site = Site::new(stack, guard, ns, device);
    device.ipv6().addresses.carrier_changed(&site);
    if device.is_up() && !device.link.carrier(stack, device) {
        ns.neighbours()
            .device_went(stack, guard, device.key, true, true);
    }
}

pub use input::receive;
pub use ra::accepts as accepts_advertisements;

/// Flushes the neighbours of a device whose link-layer address changed (`neigh_changeaddr`).
pub fn address_changed(stack: &Stack, guard: &Guard, device: &Arc<Device>) {
    device
        .namespace(guard)
        .neighbours()
        .device_went(stack, guard, device.key, true, false);
}

/// Writes a setting of `all`, `default` or one device, with its side effects
/// (`addrconf_fixup_forwarding`, `addrconf_disable_ipv6`).
pub fn set_conf(stack: &Stack, ns: &Namespace, target: Target, slot: Ipv6Conf, value: i32) {
    let set = |conf: &Conf<Ipv6Conf>, target: &Target| {
        if conf.get(slot) != value {
            conf.set(slot, value);
            conf6(stack, ns, &ConfEvent::Changed(target, slot));
        }
    };
    match &target {
        Target::Device(device) => set_on_device(stack, ns, device, slot, value),
        Target::Default => set(&ns.conf().default.ipv6, &target),
        Target::All => {
            set(&ns.conf().all.ipv6, &target);
            if matches!(
                slot,
                Ipv6Conf::Forwarding | Ipv6Conf::DisableIpv6 | Ipv6Conf::AddrGenMode
            ) {
                set(&ns.conf().default.ipv6, &Target::Default);
                for device in ns.all_devices() {
                    set_on_device(stack, ns, &device, slot, value);
                }
            }
        }
    }
}

fn set_on_device(stack: &Stack, ns: &Namespace, device: &Arc<Device>, slot: Ipv6Conf, value: i32) {
    let before = device.conf().ipv6.get(slot);
    if before == value {
        return;
    }
    device.conf().ipv6.set(slot, value);
    conf6(
        stack,
        ns,
        &ConfEvent::Changed(&Target::Device(device.clone()), slot),
    );
    let guard = stack.domain.pin();
    let ns = device.namespace(&guard);
    let site = Site::new(stack, &guard, ns, device);
    let addresses = &device.ipv6().addresses;
    if slot == Ipv6Conf::AddrGenMode {
        return addresses.mode_changed(&site);
    }
    let before = before != 0;
    if before == (value != 0) {
        return;
    }
    match slot {
        Ipv6Conf::DisableIpv6 if before && !device.is_up() => {}
        Ipv6Conf::DisableIpv6 if before => addresses.device_up(&site),
        Ipv6Conf::DisableIpv6 => addresses.device_down(&site, false),
        Ipv6Conf::Forwarding => {
            addresses.forwarding_changed(&site);
            if value != 0 {
                ra::purge_routers(&site);
            }
        }
        _ => {}
    }
}

/// `IN6_ADDR_GEN_MODE_STABLE_PRIVACY`
pub const STABLE_PRIVACY: i32 = 2;
/// `IN6_ADDR_GEN_MODE_RANDOM`: as stable addresses, with a secret of the device's own. A device without address gets it
/// in the place of EUI-64 when it goes up.
pub const RANDOM: i32 = 3;

/// Returns whether a device, or devices to come, may have an `addr_gen_mode` (`check_addr_gen_mode`,
/// `check_stable_privacy`).
pub fn is_mode(ns: &Namespace, device: Option<&Device>, mode: i32) -> bool {
    let has_secret = || device.is_none_or(|device| stable_secret(ns, device).is_some());
    (0..=3).contains(&mode) && (mode != STABLE_PRIVACY || has_secret())
}

/// Sets the secret of stable addresses of a device, or of all that have none
/// (`addrconf_sysctl_stable_secret`).
pub fn set_secret(ns: &Namespace, device: Option<&Device>, secret: Ipv6Addr) {
    let set = |device: &Device| {
        device
            .conf()
            .ipv6
            .set(Ipv6Conf::AddrGenMode, STABLE_PRIVACY)
    };
    match device {
        Some(device) => {
            device.ipv6().set_secret(Some(secret));
            set(device);
        }
        None => {
            *ns.ipv6().secret.lock() = Some(secret);
            ns.all_devices().iter().for_each(|device| set(device));
        }
    }
}

/// Sends an ICMP error to the sender of a packet whose next hop does not answer
/// (`ndisc_error_report`).
pub fn neighbour_failed(cx: &mut Cx<'_>, device: &Arc<Device>, packet: &Packet) {
    let code = ICMPV6_ADDR_UNREACH;
    icmp::send_error(cx, device, packet, ICMPV6_DEST_UNREACH, code, 0);
}

/// Handles an MTU change: shuts IPv6 down if the MTU became too small, and starts it again if it is
/// large enough now (`NETDEV_CHANGEMTU`).
pub fn mtu_changed(
    stack: &Stack,
    guard: &Guard,
    ns: &Arc<Namespace>,
    device: &Arc<Device>,
    before: u32,
) {
    set_mtu(device);
    let site = Site::new(stack, guard, ns, device);
    let (could, can) = (before >= output::MIN_MTU, site.is_able());
    // The loopback device keeps its settings, but not its addresses.
    if could && !can {
        let gone = !device.has_ipv6();
        device.ipv6().addresses.device_down(&site, gone);
        if gone {
            conf6(stack, ns, &ConfEvent::Ended(device));
        }
    } else if can && !could && device.flags() & iff::LOOPBACK == 0 {
        device_entered(stack, guard, ns, device);
        if device.is_up() {
            device.ipv6().addresses.device_up(&site);
        }
    }
}

/// Sets `net.ipv6.conf.DEV.mtu` to the device's MTU.
fn set_mtu(device: &Device) {
    let mtu = i32::try_from(device.mtu()).unwrap_or(i32::MAX);
    device.conf().ipv6.set(Ipv6Conf::Mtu, mtu);
}
