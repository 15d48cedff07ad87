// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The configuration of the program's device: given on the command line, or copied from a device of the
//! stack.

use std::fmt;
use std::net::IpAddr;

use weir_netlink::{IfAddrMsg, RtMsg, Writer, af, ifa, messages, nlm, rta, rtm};

use crate::cli::{Prefix, Route as Wanted};

/// Addresses and routes of a device.
#[derive(Debug, Default)]
pub struct Setup {
    /// The largest network packet in bytes.
    pub mtu: u32,
    /// The Ethernet address; empty for the device's own.
    pub mac: Vec<u8>,
    /// The addresses.
    pub addresses: Vec<Address>,
    /// The routes by the device.
    pub routes: Vec<Route>,
}

/// An address of the device.
#[derive(Debug)]
pub struct Address {
    local: IpAddr,
    /// The address at the other end; `local` unless the link is point-to-point.
    peer: IpAddr,
    broadcast: Option<IpAddr>,
    length: u8,
}

/// A unicast route by the device.
#[derive(Debug)]
pub struct Route {
    destination: Option<IpAddr>,
    length: u8,
    gateway: Option<IpAddr>,
    source: Option<IpAddr>,
    priority: Option<u32>,
    ipv6: bool,
}

fn family(ipv6: bool) -> u8 {
    if ipv6 { af::INET6 } else { af::INET }
}

fn put(out: &mut Writer, attribute: u16, address: Option<IpAddr>) {
    if let Some(address) = address {
        out.put_ip(attribute, address);
    }
}

impl Address {
    /// Writes the request that adds it.
    pub fn write(&self, out: &mut Writer, index: u32) {
        out.fixed(&IfAddrMsg {
            family: family(self.local.is_ipv6()),
            prefixlen: self.length,
            index,
            ..IfAddrMsg::default()
        });
        out.put_ip(ifa::LOCAL, self.local);
        out.put_ip(ifa::ADDRESS, self.peer);
        put(out, ifa::BROADCAST, self.broadcast);
        // The stack has detected duplicates already, or leaves it to the user.
        out.put_u32(ifa::FLAGS, ifa::f::NODAD);
    }
}

impl Route {
    /// Writes the request that adds it.
    pub fn write(&self, out: &mut Writer, index: u32) {
        out.fixed(&RtMsg {
            family: family(self.ipv6),
            dst_len: self.length,
            table: 254, // RT_TABLE_MAIN
            protocol: rta::prot::BOOT,
            scope: match (self.gateway, self.ipv6) {
                (None, false) => rta::scope::LINK,
                _ => rta::scope::UNIVERSE,
            },
            ty: rta::rtn::UNICAST,
            ..RtMsg::default()
        });
        put(out, rta::DST, self.destination);
        put(out, rta::GATEWAY, self.gateway);
        put(out, rta::PREFSRC, self.source);
        if let Some(priority) = self.priority {
            out.put_u32(rta::PRIORITY, priority);
        }
        out.put_u32(rta::OIF, index);
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.destination {
            Some(destination) => write!(f, "route {destination}/{}", self.length)?,
            None => f.write_str("route default")?,
        }
        match self.gateway {
            Some(gateway) => write!(f, " via {gateway}"),
            None => Ok(()),
        }
    }
}

impl Setup {
    /// Returns whether there is no address.
    pub fn has_no_address(&self) -> bool {
        self.addresses.is_empty()
    }

    /// Adds an address.
    pub fn add_address(&mut self, prefix: Prefix) {
        self.addresses.push(Address {
            local: prefix.address,
            peer: prefix.address,
            broadcast: None,
            length: prefix.length,
        });
    }

    /// Adds a route.
    pub fn add_route(&mut self, route: Wanted) {
        let ipv6 = match (route.destination, route.gateway) {
            (Some(prefix), _) => prefix.address.is_ipv6(),
            (None, Some(gateway)) => gateway.is_ipv6(),
            (None, None) => false,
        };
        self.routes.push(Route {
            destination: route.destination.map(|prefix| prefix.address),
            length: route.destination.map_or(0, |prefix| prefix.length),
            gateway: route.gateway,
            source: None,
            priority: None,
            ipv6,
        });
    }

    /// Copies the addresses of device `index`, and the routes by it that the kernel does not derive from
    /// them. `ask` sends a request to the device's namespace.
    pub fn copy(
        &mut self,
        index: u32,
        ask: impl Fn(&[u8]) -> Result<Vec<u8>, String>,
    ) -> Result<(), String> {
        let dump = |ty: u16, header: &dyn Fn(&mut Writer)| {
            let mut out = Writer::new();
            let message = out.message(ty, nlm::F_REQUEST | nlm::F_DUMP, 1, 0);
            header(&mut out);
            out.finish(message)
                .map_err(|_| "the request is too long".to_owned())?;
            ask(out.bytes())
        };
        let answer = dump(rtm::GETADDR, &|out| out.fixed(&IfAddrMsg::default()))?;
        for message in messages(&answer).filter(|message| message.header.ty == rtm::NEWADDR) {
            let Ok(header) = message.fixed::<IfAddrMsg>() else {
                continue;
            };
            let find = |attribute| message.attrs::<IfAddrMsg>().find_type(attribute);
            let ip = |attribute| find(attribute).and_then(|value| value.ip().ok());
            let flags = find(ifa::FLAGS).and_then(|value| value.u32().ok());
            let local = ip(ifa::LOCAL).or_else(|| ip(ifa::ADDRESS));
            if header.index != index || flags.is_some_and(|flags| flags & ifa::f::DADFAILED != 0) {
                continue;
            }
            if let Some(local) = local {
                self.addresses.push(Address {
                    local,
                    peer: ip(ifa::ADDRESS).unwrap_or(local),
                    broadcast: ip(ifa::BROADCAST),
                    length: header.prefixlen,
                });
            }
        }
        let answer = dump(rtm::GETROUTE, &|out| out.fixed(&RtMsg::default()))?;
        for message in messages(&answer).filter(|message| message.header.ty == rtm::NEWROUTE) {
            let Ok(header) = message.fixed::<RtMsg>() else {
                continue;
            };
            let find = |attribute| message.attrs::<RtMsg>().find_type(attribute);
            let ip = |attribute| find(attribute).and_then(|value| value.ip().ok());
            let number = |attribute| find(attribute).and_then(|value| value.u32().ok());
            let is_main = number(rta::TABLE).unwrap_or(header.table.into()) == 254;
            let derived = header.protocol == rta::prot::KERNEL;
            if number(rta::OIF) != Some(index)
                || !is_main
                || derived
                || header.ty != rta::rtn::UNICAST
            {
                continue;
            }
            self.routes.push(Route {
                destination: ip(rta::DST),
                length: header.dst_len,
                gateway: ip(rta::GATEWAY),
                source: ip(rta::PREFSRC),
                priority: number(rta::PRIORITY),
                ipv6: header.family == af::INET6,
            });
        }
        // A gateway can be added once its own route is there.
        self.routes.sort_by_key(|route| route.gateway.is_some());
        Ok(())
    }
}
