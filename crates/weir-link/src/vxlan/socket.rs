// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How the VXLAN devices of a namespace listen on UDP ports, and the device for each identifier (`struct vxlan_sock`,
//! `vxlan_sock_add`, `vxlan_vs_find_vni`).

use std::sync::Arc;

use weir_netlink::{Error, errno};
use weir_sync::once_box::OnceBox;
use weir_sync::order::{self, Mutex};
use weir_sync::rcu::{Domain, Guard};

use super::Vxlan;
use super::config::{Config, received};
use super::group::{Groups, Joined};
use super::vnis::All;
use crate::device::Device;
use crate::namespace::Namespace;
use crate::parts::Key;
use crate::tunnel::ports;
use crate::udp::{self, Port, Receive};

/// What the devices that share a port agree on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Socket {
    /// The devices send and receive metadata ([`Config::external`]).
    pub external: bool,
    /// Parse the group policy extension.
    pub gbp: bool,
    /// The devices use the generic protocol extension.
    pub gpe: bool,
    /// Compute checksums of inner packets that the sender has left to the receiver.
    pub remcsum: bool,
    /// Do so at once, and verify them.
    pub nopartial: bool,
    /// Accept packets without UDP checksums over IPv6.
    pub zero_csum6: bool,
    /// Each identifier belongs to a device, although they are external ([`Config::vnifilter`]).
    pub vnifilter: bool,
}

impl Socket {
    /// What `listener` was made of.
    #[inline]
    pub fn of(socket: &udp::Socket) -> Self {
        let has = |flag| socket.data & flag != 0;
        Self {
            external: has(received::EXTERNAL),
            gbp: has(received::GBP),
            zero_csum6: has(received::ZERO_CSUM6),
            vnifilter: has(received::VNIFILTER),
            gpe: has(received::GPE),
            remcsum: has(received::REMCSUM),
            nopartial: has(received::NOPARTIAL),
        }
    }

    /// Returns the address of the device for an identifier.
    #[inline]
    pub fn address(self, vni: u32) -> u32 {
        if self.external && !self.vnifilter {
            0
        } else {
            vni
        }
    }
}

/// The listener of a device's ports, whose datagrams `receive` takes.
pub(super) fn listener(conf: &Config, receive: Receive) -> udp::Socket {
    udp::Socket {
        receive,
        zero_csum6: conf.zero_csum6_rx,
        data: conf.receive_flags(),
    }
}

/// The VXLAN state of a namespace: its devices by identifier, where 0 stands for all.
pub type Tunnels = ports::Tunnels<u32, Vxlan>;

/// VXLAN's part of a namespace that is the underlay of devices.
#[derive(Debug)]
pub struct Underlay {
    /// The devices and their ports.
    pub tunnels: Tunnels,
    /// The groups that the ports' sockets have joined.
    pub joined: Joined,
    /// The identifiers of the devices that filter by them.
    pub vnis: Mutex<All, order::Vnis>,
}

impl Underlay {
    /// Creates an empty part.
    pub fn new(domain: &Domain) -> Self {
        Self {
            tunnels: Tunnels::new(domain),
            joined: Joined::default(),
            vnis: Mutex::default(),
        }
    }

    /// Returns what concerns groups.
    pub fn groups(&self) -> Groups<'_> {
        Groups {
            tunnels: &self.tunnels,
            joined: &self.joined,
        }
    }
}

/// Made for the first device whose underlay the namespace is.
pub(super) static UNDERLAY: Key<OnceBox<Underlay>, 6> = Key::new();

/// VXLAN's part of a namespace, if it is the underlay of a device.
pub fn underlay(ns: &Namespace) -> Option<&Underlay> {
    ns.parts.get(&UNDERLAY).get()
}

/// The devices whose underlay the namespace is.
pub fn tunnels(ns: &Namespace) -> Option<&Tunnels> {
    underlay(ns).map(|underlay| &underlay.tunnels)
}

/// Returns EEXIST if another device of the namespace has the identifier, port and receive flags of
/// a configuration (the end of `vxlan_config_validate`). `own` is the device being changed, if it
/// exists already.
pub fn check_unused(
    ns: &Namespace,
    conf: &Config,
    own: Option<&Arc<Device>>,
    guard: &Guard,
) -> Result<(), Error> {
    let in_use = |tunnels: &Tunnels| is_used(tunnels, conf, conf.vni, own, guard);
    if tunnels(ns).is_some_and(in_use) {
        return Err(Error::msg(
            errno::EEXIST,
            "A VXLAN device with the specified VNI already exists",
        ));
    }
    Ok(())
}

/// Returns whether a device of the namespace other than `own` has an identifier, and the port and receive flags of a
/// configuration (`vxlan_vni_in_use`).
pub fn is_used(
    tunnels: &Tunnels,
    conf: &Config,
    vni: u32,
    own: Option<&Arc<Device>>,
    guard: &Guard,
) -> bool {
    tunnels.devices().iter().any(|(device, vxlan)| {
        let other = vxlan.config.load(guard);
        let has = match &vxlan.filter {
            Some(filter) => filter.contains(vni, guard),
            None => other.vni == vni,
        };
        has && own.is_none_or(|own| !Arc::ptr_eq(own, device))
            && other.dst_port == conf.dst_port
            && other.receive_flags() == conf.receive_flags()
            && other.is_ipv6() == conf.is_ipv6()
    })
}

/// Returns the ports of a device.
pub(super) fn ports(conf: &Config) -> Vec<Port> {
    let ipv6 = conf.is_ipv6() || conf.external;
    let ipv4 = !ipv6 || conf.external;
    let entries = ports::entries(conf.dst_port, (ipv4, ipv6), ());
    entries.into_iter().map(|(port, ())| port).collect()
}

/// Returns the ports of a device with its addresses there, which are the `vnis` of one that filters by them.
pub(super) fn entries(conf: &Config, vnis: impl Iterator<Item = u32>) -> Vec<(Port, u32)> {
    let ports = ports(conf);
    let at = |address: u32| ports.iter().map(move |port| (*port, address));
    match conf {
        Config {
            vnifilter: true, ..
        } => vnis.flat_map(at).collect(),
        Config { external: true, .. } => at(0).collect(),
        _ => at(conf.vni).collect(),
    }
}
