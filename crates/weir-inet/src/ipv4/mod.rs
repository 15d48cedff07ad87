// SPDX-License-Identifier: Apache-2.0 OR MIT
//! IPv4: a device's addresses and settings, and the packet path through layer 3.
//!
//! ```text
//! receive: input (checks) -> route -> forward -> output (fragment) -> neigh
//!                                  \-> local (reassembly) -> icmp, ...  -> output
//! ```
//!
//! | file | contents |
//! |---|---|
//! | [`address`], [`select`] | a device's addresses; source address selection |
//! | [`arp`] | link-layer addresses of next hops |
//! | [`route`] | routing decisions |
//! | `input`, `forward`, `local` | the packet path |
//! | `output`, `fragment`, `reassembly` | sending, fragmenting, reassembling |
//! | [`egress`], `ways` | packets of programs; their routes |
//! | [`multicast`] | the routes of a multicast routing daemon |
//! | [`icmp`], [`peer`] | messages and their rate limits |

pub mod address;
pub mod arp;
pub mod egress;
mod forward;
pub mod fragment;
pub mod group;
pub mod icmp;
pub mod igmp;
mod input;
mod local;
pub mod multicast;
pub mod output;
pub mod peer;
pub mod reassembly;
mod redirect;
mod redirected;
pub mod route;
pub mod select;
mod straight;
mod ways;

pub use input::receive;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use weir_netlink::ifla::iff;
use weir_packet::header::icmp::{ICMP_DEST_UNREACH, ICMP_HOST_UNREACH};
use weir_packet::header::{ETH_P_ARP, ETH_P_IP};
use weir_packet::{Flags, Packet};
use weir_sync::once_box::OnceBox;
use weir_sync::rcu::{Domain, Guard};

use address::Addresses;

use crate::autojoin::Autojoined;
use crate::cpu::Cx;
use crate::device::Device;
use crate::fib::host::Host;
use crate::fib::sync::Loss;
use crate::icmp_limit::Bucket;
use crate::layers::{Event, Hears, Module, PacketType, Site};
use crate::listen::{ConfEvent, conf4};
use crate::namespace::Namespace;
use crate::neigh::{self, Protocol, WithNeighbours};
use crate::parts::Key;
use crate::settings::{
    Conf, HasIp, IPV4_MIN_MTU, Ipv4Conf, SPECIAL4, Target, WithSettings, written,
};
use crate::sockets::{interest, sockets};
use crate::stack::Stack;

/// The IPv4 state of a namespace, apart from settings and tables.
#[derive(Debug)]
pub struct Net {
    /// Per-host state, of both families.
    pub peers: peer::Peers,
    /// Packets in reassembly.
    fragments: OnceBox<reassembly::Table>,
    /// Multicast routes.
    multicast: OnceBox<crate::multicast::Routers<multicast::V4>>,
    /// The groups joined by addresses of both families.
    pub autojoined: Autojoined,
    /// How many ICMP messages may be sent, both families.
    pub icmp: Bucket,
    /// The number of locally generated packets so far, for their identification field.
    ids: AtomicU32,
}

impl Net {
    /// The side of a new namespace.
    pub fn new(seed: u64) -> Self {
        Self {
            peers: peer::Peers::default(),
            fragments: OnceBox::default(),
            multicast: OnceBox::default(),
            autojoined: Autojoined::default(),
            icmp: Bucket::new(seed),
            ids: AtomicU32::new(0),
        }
    }

    /// Returns the packets in reassembly.
    pub fn fragments(&self) -> &reassembly::Table {
        self.fragments.get_or_make(reassembly::Table::default)
    }
}

/// A device's IPv4 side, beside settings.
#[derive(Debug)]
pub struct Inet {
    /// The addresses.
    pub addresses: Addresses,
    /// The groups.
    pub groups: group::Groups,
}

impl Inet {
    /// Starts with no address.
    pub fn new(domain: &Domain) -> Self {
        Self {
            addresses: Addresses::new(domain),
            groups: group::Groups::default(),
        }
    }
}

static DEVICE: Key<Inet, 2> = Key::new();
static NAMESPACE: Key<Net, 3> = Key::new();

/// IPv4 in the stack (`inet_init`).
pub static MODULE: Module = Module {
    stack: Some(|parts| neigh::resolve_by(parts, false, &ARP)),
    namespace: Some(|parts, new| parts.fill(&NAMESPACE, Net::new(new.seed))),
    device: Some(|parts, domain, _, _| parts.fill(&DEVICE, Inet::new(domain))),
    packet_types: &[PacketType {
        protocol: ETH_P_IP,
        receive,
    }],
    device_event: Some(Hears::of(
        &[
            Event::Entered,
            Event::Up,
            Event::Down,
            Event::Carrier,
            Event::Address,
            Event::Mtu { before: 0 },
            Event::NotifyPeers,
            Event::Renamed,
            Event::L3Master,
            Event::Gone,
        ],
        device_event,
    )),
    ..Module::NONE
};

/// ARP in the stack (`arp_init`): behind IPv6, so that of one batch IP is received first.
pub static ARP_MODULE: Module = Module {
    packet_types: &[PacketType {
        protocol: ETH_P_ARP,
        receive: arp::receive,
    }],
    ..Module::NONE
};

/// `arp_generic_ops`
static ARP: Protocol = Protocol {
    solicit: |cx, device, target, to, waiting| {
        if let IpAddr::V4(target) = target {
            arp::solicit(cx, device, target, to, waiting);
        }
    },
    failed: neighbour_failed,
    proxied: |_, _, _, _, _| {},
};

/// Has an IPv4 side: a device or a namespace.
pub trait WithIpv4 {
    /// The type of that side.
    type Side;
    /// The IPv4 side.
    fn ipv4(&self) -> &Self::Side;
}

impl WithIpv4 for Device {
    type Side = Inet;
    #[inline]
    fn ipv4(&self) -> &Inet {
        self.parts.get(&DEVICE)
    }
}

impl WithIpv4 for Namespace {
    type Side = Net;
    #[inline]
    fn ipv4(&self) -> &Net {
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
        Event::Address => address_changed(stack, guard, device),
        Event::Mtu { before } => mtu_changed(stack, guard, ns, device, before),
        Event::NotifyPeers => arp::announce(stack, guard, device),
        Event::Renamed => device_renamed(stack, guard, ns, device),
        Event::L3Master => l3_changed(stack, guard, ns, device),
        Event::Gone => device_gone(stack, guard, ns, device),
        _ => {}
    }
}

/// Returns a setting that is on if it is set for the device or for `all` (`IN_DEV_ORCONF`).
#[inline]
pub fn on_either(ns: &Namespace, device: &Device, slot: Ipv4Conf) -> bool {
    device.conf().ipv4.on(slot) || ns.conf().all.ipv4.on(slot)
}

/// Returns whether multicast packets of a device are routed (`IN_DEV_MFORWARD`).
#[inline]
pub fn forwards_multicast(ns: &Namespace, device: &Device) -> bool {
    device.conf().ipv4.on(Ipv4Conf::McForwarding) && ns.conf().all.ipv4.on(Ipv4Conf::McForwarding)
}

/// Returns the larger value of the device and of `all` (`IN_DEV_MAXCONF`).
#[inline]
pub fn larger(ns: &Namespace, device: &Device, slot: Ipv4Conf) -> i32 {
    device
        .conf()
        .ipv4
        .get(slot)
        .max(ns.conf().all.ipv4.get(slot))
}

/// Initializes a device that entered a namespace with the namespace's `default` settings
/// (`inetdev_init`).
pub fn device_entered(stack: &Stack, guard: &Guard, ns: &Arc<Namespace>, device: &Arc<Device>) {
    let loopback = device.flags() & iff::LOOPBACK != 0;
    let special = loopback.then_some(&SPECIAL4);
    device
        .conf()
        .ipv4
        .copy_but(&ns.conf().default.ipv4, special);
    device.conf().neigh4.copy(&ns.conf().default.neigh4);
    if device.has_ipv4() {
        conf4(stack, ns, &ConfEvent::Began(device));
        if device.is_up() {
            device
                .ipv4()
                .groups
                .up(&Site::new(stack, guard, ns, device));
        }
    }
}

/// Restores addresses and routes when a device comes up.
pub fn device_up(stack: &Stack, guard: &Guard, ns: &Arc<Namespace>, device: &Arc<Device>) {
    let site = Site::new(stack, guard, ns, device);
    if device.has_ipv4() {
        device.ipv4().groups.up(&site);
    }
    device.ipv4().addresses.device_up(&site);
    arp::notify(stack, guard, ns, device);
}

/// Flushes the neighbours of a device whose link-layer address changed (`neigh_changeaddr`).
pub fn address_changed(stack: &Stack, guard: &Guard, device: &Arc<Device>) {
    let ns = device.namespace(guard);
    ns.neighbours()
        .device_went(stack, guard, device.key, false, false);
    if device.is_up() {
        arp::notify(stack, guard, ns, device);
    }
}

/// Removes the routes of a device that went down. Its addresses stay (`fib_disable_ip`).
pub fn device_down(stack: &Stack, guard: &Guard, ns: &Arc<Namespace>, device: &Arc<Device>) {
    if device.has_ipv4() {
        let site = Site::new(stack, guard, ns, device);
        device.ipv4().groups.down(&site);
    }
    crate::fib::host::lost4(ns, device, Loss::Down, false);
    ns.neighbours()
        .device_went(stack, guard, device.key, false, false);
}

/// Removes all routes and neighbours of a device that joins or leaves a VRF (`fib_netdev_event`).
fn l3_changed(stack: &Stack, guard: &Guard, ns: &Arc<Namespace>, device: &Arc<Device>) {
    crate::fib::host::lost4(ns, device, Loss::Down, true);
    ns.neighbours()
        .device_went(stack, guard, device.key, false, false);
}

/// Removes all addresses, routes and neighbours of a device that leaves its namespace.
pub fn device_gone(stack: &Stack, guard: &Guard, ns: &Arc<Namespace>, device: &Arc<Device>) {
    ended(stack, guard, ns, device, device.has_ipv4());
    crate::multicast::device_gone::<multicast::V4>(&Host { stack, ns, guard }, device);
}

/// Shuts down IPv4 on a device. `had` says whether it was enabled.
fn ended(stack: &Stack, guard: &Guard, ns: &Arc<Namespace>, device: &Arc<Device>, had: bool) {
    let site = Site::new(stack, guard, ns, device);
    device.ipv4().groups.end(&site);
    device.ipv4().addresses.clear(&site);
    written::forget(stack, ns, device);
    crate::fib::host::lost4(ns, device, Loss::Gone, true);
    ns.neighbours()
        .device_went(stack, guard, device.key, false, false);
    if had {
        conf4(stack, ns, &ConfEvent::Ended(device));
    }
}

/// Handles an MTU change: shuts IPv4 down if the MTU became too small, and starts it again if it is
/// large enough now (`NETDEV_CHANGEMTU`).
pub fn mtu_changed(
    stack: &Stack,
    guard: &Guard,
    ns: &Arc<Namespace>,
    device: &Arc<Device>,
    before: u32,
) {
    match (before >= IPV4_MIN_MTU, device.has_ipv4()) {
        (true, false) => ended(stack, guard, ns, device, true),
        (false, true) => device_entered(stack, guard, ns, device),
        _ => {}
    }
}

/// Handles a renamed device.
pub fn device_renamed(stack: &Stack, guard: &Guard, ns: &Arc<Namespace>, device: &Arc<Device>) {
    device
        .ipv4()
        .addresses
        .device_renamed(&Site::new(stack, guard, ns, device));
}

/// Handles a gained or lost carrier.
pub fn carrier_changed(stack: &Stack, guard: &Guard, ns: &Arc<Namespace>, device: &Arc<Device>) {
    if !device.is_up() {
        return;
    }
    if device.link.carrier(stack, device) {
        crate::fib::host::found4(stack, ns, device);
        return;
    }
    crate::fib::host::lost4(ns, device, Loss::Carrier, false);
    if device.conf().ipv4.on(Ipv4Conf::ArpEvictNocarrier)
        && ns.conf().all.ipv4.on(Ipv4Conf::ArpEvictNocarrier)
    {
        ns.neighbours()
            .device_went(stack, guard, device.key, false, true);
    }
}

/// Writes a setting of `all`, `default` or one device, with its side effects
/// (`devinet_sysctl_forward`, `inet_forward_change`, `devinet_copy_dflt_conf`).
pub fn set_conf(stack: &Stack, ns: &Namespace, target: Target, slot: Ipv4Conf, value: i32) {
    let set = |conf: &Conf<Ipv4Conf>, target: &Target| {
        if conf.get(slot) != value {
            conf.set(slot, value);
            conf4(stack, ns, &ConfEvent::Changed(target, slot));
        }
    };
    match &target {
        Target::Device(device) => {
            written::written(stack, device, slot);
            set(&device.conf().ipv4, &target);
        }
        Target::Default => {
            set(&ns.conf().default.ipv4, &target);
            let guard = stack.domain.pin();
            let mut unused = ns.all_devices();
            unused.retain(|device| {
                device.has_ipv4() && device.ipv4().addresses.list(&guard).is_empty()
            });
            for device in written::default_written(stack, ns, slot, unused) {
                device.conf().ipv4.set(slot, value);
            }
        }
        Target::All => {
            set(&ns.conf().all.ipv4, &target);
            if matches!(slot, Ipv4Conf::Forwarding) {
                set(&ns.conf().default.ipv4, &Target::Default);
                for device in ns.all_devices() {
                    let target = Target::Device(device.clone());
                    set(&device.conf().ipv4, &target);
                }
            }
        }
    }
}

/// Sends an ICMP error to the sender of a packet whose next hop does not answer
/// (`arp_error_report`). Locally generated packets have a sender to notify only where programs have sockets.
pub fn neighbour_failed(cx: &mut Cx<'_>, device: &Arc<Device>, packet: &Packet) {
    let ns = device.namespace(cx.guard);
    let is_local = packet.iif == 0 || packet.flags.contains(Flags::LOCAL);
    if is_local && sockets(ns).hooks(interest::ANY).is_none() {
        return;
    }
    // Use the incoming device if it still exists.
    let input = ns.device(packet.iif, cx.guard).unwrap_or(device);
    icmp::error(
        cx,
        input,
        packet,
        ICMP_DEST_UNREACH,
        ICMP_HOST_UNREACH,
        0,
        false,
    );
}
