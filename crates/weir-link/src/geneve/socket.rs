// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How the Geneve devices of a namespace listen on UDP ports, and the device for each identifier and remote
//! (`geneve_sock_add`, `geneve_lookup`, `geneve_find_dev`).

use std::net::IpAddr;

use weir_netlink::{Error, errno};
use weir_sync::once_box::OnceBox;
use weir_sync::rcu::Guard;

use super::Geneve;
use super::config::Config;
use crate::namespace::Namespace;
use crate::parts::Key;
use crate::tunnel::ports;
use crate::udp::{self, Port, Receive};

/// What a packet needs to reach a device: the identifier and the source, unless the device is external.
pub type Address = Option<(u32, IpAddr)>;

/// The Geneve state of a namespace.
pub type Tunnels = ports::Tunnels<Address, Geneve>;

/// Made for the first device whose underlay the namespace is.
pub(super) static TUNNELS: Key<OnceBox<Tunnels>, 13> = Key::new();

/// Geneve's part of a namespace, if it is the underlay of a device.
pub fn tunnels(ns: &Namespace) -> Option<&Tunnels> {
    ns.parts.get(&TUNNELS).get()
}

/// The listener of a device's ports, whose datagrams `receive` takes. Its data are 1 for an external device.
pub(super) fn listener(conf: &Config, receive: Receive) -> udp::Socket {
    udp::Socket {
        receive,
        zero_csum6: !conf.need_csum6,
        data: conf.external.into(),
    }
}

/// Refuses a configuration that another device has, and one that does not agree with another device about a port
/// (`geneve_configure`).
pub fn check_unused(tunnels: &Tunnels, conf: &Config, guard: &Guard) -> Result<(), Error> {
    let (mut same, mut sharing, mut external) = (false, false, false);
    for (_, other) in tunnels.devices() {
        let other = other.config.load(guard);
        if other.port == conf.port {
            sharing = true;
            external |= other.external;
            same |= (other.vni, other.remote) == (conf.vni, conf.remote);
        }
    }
    let refuse = |text| Err(Error::msg(errno::EPERM, text));
    match (same, conf.external) {
        (true, _) => Err(Error::new(errno::EBUSY)),
        (_, true) if sharing => {
            refuse("There can be only one externally controlled device on a destination port")
        }
        (_, false) if external => {
            refuse("There already exists an externally controlled device on this destination port")
        }
        _ => Ok(()),
    }
}

/// Returns the ports of a device with its address there.
pub(super) fn entries(conf: &Config) -> Vec<(Port, Address)> {
    let six = conf.remote.is_ipv6();
    let families = (!six || conf.external, six || conf.external);
    let address = (!conf.external).then_some((conf.vni, conf.remote));
    ports::entries(conf.port, families, address)
}
