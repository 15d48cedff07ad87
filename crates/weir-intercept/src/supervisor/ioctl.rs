// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `ioctl(SIOC*)` on sockets: the old interface to network devices.
//!
//! `ip` uses it to read and set the queue length, busybox for nearly everything, and glibc for
//! `if_nametoindex`. Each call becomes an rtnetlink request to the backend, so there is only one
//! implementation of devices. Mirrors `dev_ioctl` (`net/core/dev_ioctl.c`) and `devinet_ioctl`
//! (`net/ipv4/devinet.c`).
//!
//! Served: `SIOCGIFNAME`, `-INDEX`, `-CONF`, `-FLAGS`, `-ADDR`, `-DSTADDR`, `-BRDADDR`, `-NETMASK`,
//! `-METRIC`, `-MTU`, `-HWADDR`, `-TXQLEN`, `-MAP`; `SIOCSIFFLAGS`, `-MTU`, `-NAME`, `-HWADDR`,
//! `-HWBROADCAST`, `-TXQLEN`; `SIOCADDMULTI` and `-DELMULTI`; requests that set addresses
//! ([`address`]), routes ([`route`]) and neighbours ([`neighbour`]); VLAN devices ([`vlan`]);
//! bridges ([`bridge`]); `SIOCETHTOOL` ([`ethtool`]); IP tunnels ([`tunnel`]); `SIOCGSKNS`; counters of multicast routes
//! (`SIOCGETVIFCNT`, `SIOCGETSGCNT`). All others, among them
//! wireless calls, fail with EOPNOTSUPP for an existing device and with ENODEV otherwise.
mod address;
mod bridge;
mod ethtool;
mod neighbour;
mod route;
mod tunnel;
mod vlan;

use super::{Handled, Supervisor};
use crate::backend::{Errno, NsId, Tree};
use crate::seccomp::{Answer, Call};
use crate::sys;
use std::os::fd::AsFd;
use weir_netlink::{
    self as nl, Fixed, IfAddrMsg, IfInfoMsg, Writer, ifa, ifla, ifla::info, nlm, rtm,
};

const ADDRT: u32 = 0x890b;
const DELRT: u32 = 0x890c;
const GIFNAME: u32 = 0x8910;
const GIFCONF: u32 = 0x8912;
const GIFFLAGS: u32 = 0x8913;
const SIFFLAGS: u32 = 0x8914;
const GIFADDR: u32 = 0x8915;
const SIFADDR: u32 = 0x8916;
const GIFDSTADDR: u32 = 0x8917;
const SIFDSTADDR: u32 = 0x8918;
const GIFBRDADDR: u32 = 0x8919;
const SIFBRDADDR: u32 = 0x891a;
const GIFNETMASK: u32 = 0x891b;
const SIFNETMASK: u32 = 0x891c;
const GIFMETRIC: u32 = 0x891d;
const GIFMTU: u32 = 0x8921;
const SIFMTU: u32 = 0x8922;
const SIFNAME: u32 = 0x8923;
const SIFHWADDR: u32 = 0x8924;
const GIFHWADDR: u32 = 0x8927;
const DIFADDR: u32 = 0x8936;
const SIFHWBROADCAST: u32 = 0x8937;
const GIFINDEX: u32 = 0x8933;
const ADDMULTI: u32 = 0x8931;
const DELMULTI: u32 = 0x8932;
const GIFTXQLEN: u32 = 0x8942;
const SIFTXQLEN: u32 = 0x8943;
const GSKNS: u32 = 0x894c;
const GIFMAP: u32 = 0x8970;

/// The length of an interface name, NUL included.
const IFNAMSIZ: usize = 16;
/// The size of a struct ifreq: a name and a union.
const IFREQ: usize = 40;
/// The flags that `dev_change_flags` lets a caller set.
const SETTABLE: u32 = (libc::IFF_UP
    | libc::IFF_DEBUG
    | libc::IFF_NOTRAILERS
    | libc::IFF_NOARP
    | libc::IFF_PROMISC
    | libc::IFF_ALLMULTI
    | libc::IFF_MULTICAST
    | libc::IFF_PORTSEL
    | libc::IFF_AUTOMEDIA
    | libc::IFF_DYNAMIC) as u32;

/// A device as described by an `RTM_NEWLINK`.
#[derive(Debug, Default)]
struct Link {
    index: i32,
    name: Vec<u8>,
    kind: u16,
    flags: u32,
    mtu: u32,
    queue: u32,
    address: Vec<u8>,
    /// The index of the lower device.
    lower: i32,
    /// The index of the master, or 0.
    master: i32,
    is_bridge: bool,
    /// The id of a VLAN device.
    vlan: Option<u16>,
}

/// An IPv4 address as described by an `RTM_NEWADDR`.
#[derive(Clone, Debug, Default)]
struct Address {
    index: u32,
    label: Vec<u8>,
    local: [u8; 4],
    peer: [u8; 4],
    broadcast: [u8; 4],
    prefix: u8,
}

fn broken(_: nl::Error) -> Errno {
    Errno(libc::EPROTO)
}

impl Supervisor {
    pub(super) fn ioctl(&mut self, call: &Call) -> Handled {
        let request = call.args[1] as u32;
        let address = call.args[2];
        if let Some(file) = self.tun_of(call) {
            return self.tun_ioctl(call, file);
        }
        let Some(ns) = self.namespace_for_ioctl(call) else {
            return Ok(Answer::Continue);
        };
        if let Some(handled) = self.protocol_ioctl(call) {
            return handled;
        }
        if request == GSKNS {
            let file = self.setup.runtime.namespace_file(ns)?;
            return self.listener.answer_with(call, file.as_fd(), true, None);
        }
        if request == GIFCONF {
            return self.interface_list(call, ns, address);
        }
        let ipv6 = self
            .inet_of(call)
            .is_some_and(|socket| socket.family == libc::AF_INET6);
        match request {
            ADDRT | DELRT if ipv6 => {
                let entry = sys::read_array(call.tid, address)?;
                self.still_waiting(call)?;
                self.change_ipv6_route(ns, request == ADDRT, &entry)?;
                return Ok(Answer::Value(0));
            }
            ADDRT | DELRT => {
                let entry = sys::read_array(call.tid, address)?;
                self.change_route(call, ns, request == ADDRT, &entry)?;
                return Ok(Answer::Value(0));
            }
            SIFADDR | DIFADDR if ipv6 => {
                let entry = sys::read_array(call.tid, address)?;
                self.still_waiting(call)?;
                self.change_ipv6_address(ns, request == SIFADDR, &entry)?;
                return Ok(Answer::Value(0));
            }
            neighbour::DARP | neighbour::GARP | neighbour::SARP => {
                self.arp(call, ns, request, address)?;
                return Ok(Answer::Value(0));
            }
            ethtool::ETHTOOL => return self.ethtool(call, ns, address),
            bridge::DEVPRIVATE if self.names_bridge(call, ns, address) => {
                return self.bridge(call, ns, request, address);
            }
            tunnel::FIRST..=tunnel::LAST => return self.tunnel(call, ns, request, address),
            vlan::GIFVLAN | vlan::SIFVLAN => {
                self.vlan(call, ns, address)?;
                return Ok(Answer::Value(0));
            }
            bridge::GIFBR | bridge::SIFBR | bridge::ADDBR..=bridge::DELIF => {
                return self.bridge(call, ns, request, address);
            }
            _ => {}
        }
        let mut ifreq: [u8; IFREQ] = sys::read_array(call.tid, address)?;
        if request == GIFNAME {
            let link = self.link(ns, Key::Index(int(&ifreq[IFNAMSIZ..])))?;
            ifreq[..IFNAMSIZ].fill(0);
            put_name(&mut ifreq, &link.name);
            sys::write_memory(call.tid, address, &ifreq[..IFNAMSIZ])?;
            return Ok(Answer::Value(0));
        }
        let label = c_bytes(&ifreq[..IFNAMSIZ]).to_vec();
        // `eth0:1` is the label of an address of eth0.
        let name = label.split(|&b| b == b':').next().unwrap_or_default();
        let link = self.link(ns, Key::Name(name))?;
        if !is_served(request) {
            return Err(Errno(libc::EOPNOTSUPP));
        }
        let value = &mut ifreq[IFNAMSIZ..];
        match request {
            SIFFLAGS if name != label => {
                // For an alias the flags only decide whether it stays.
                self.still_waiting(call)?;
                if value[0] & libc::IFF_UP as u8 == 0 {
                    self.remove_alias(ns, &link, &label)?;
                } else {
                    self.has_alias(ns, &link, &label)?;
                }
                return Ok(Answer::Value(0));
            }
            SIFADDR | SIFBRDADDR | SIFDSTADDR | SIFNETMASK => {
                self.still_waiting(call)?;
                self.change_address(ns, &link, &label, request, value)?;
                return Ok(Answer::Value(0));
            }
            SIFFLAGS | SIFMTU | SIFNAME | SIFHWADDR | SIFHWBROADCAST | SIFTXQLEN => {
                self.still_waiting(call)?;
                self.change_link(ns, &link, request, value)?;
                return Ok(Answer::Value(0));
            }
            ADDMULTI | DELMULTI => {
                self.still_waiting(call)?;
                self.change_group(ns, &link, request == ADDMULTI, value)?;
                return Ok(Answer::Value(0));
            }
            GIFADDR | GIFDSTADDR | GIFBRDADDR | GIFNETMASK => {
                let list = self.addresses(ns)?;
                let of_link = |a: &&Address| a.index as i32 == link.index;
                let found = list
                    .iter()
                    .filter(of_link)
                    .find(|a| a.label == label)
                    .or_else(|| list.iter().find(of_link))
                    .ok_or(Errno(libc::EADDRNOTAVAIL))?;
                put_address(
                    value,
                    match request {
                        GIFADDR => found.local,
                        GIFDSTADDR => found.peer,
                        GIFBRDADDR => found.broadcast,
                        _ => u32::MAX
                            .checked_shl(32 - u32::from(found.prefix))
                            .unwrap_or(0)
                            .to_be_bytes(),
                    },
                );
            }
            GIFFLAGS => value[..2].copy_from_slice(&(link.flags as u16).to_ne_bytes()),
            GIFMTU => value[..4].copy_from_slice(&link.mtu.to_ne_bytes()),
            GIFTXQLEN => value[..4].copy_from_slice(&link.queue.to_ne_bytes()),
            GIFINDEX => value[..4].copy_from_slice(&link.index.to_ne_bytes()),
            GIFHWADDR => {
                value.fill(0);
                value[..2].copy_from_slice(&link.kind.to_ne_bytes());
                let n = link.address.len().min(14);
                value[2..2 + n].copy_from_slice(&link.address[..n]);
            }
            GIFMETRIC => value[..4].fill(0),
            _ => value.fill(0), // GIFMAP
        }
        sys::write_memory(call.tid, address, &ifreq)?;
        Ok(Answer::Value(0))
    }

    fn change_link(&self, ns: NsId, link: &Link, request: u32, value: &[u8]) -> Result<(), Errno> {
        let mut header = IfInfoMsg {
            index: link.index,
            ..IfInfoMsg::default()
        };
        if request == SIFFLAGS {
            header.flags = u32::from(u16::from_ne_bytes([value[0], value[1]])) & SETTABLE;
            header.change = SETTABLE;
        }
        let mut w = Writer::new();
        let message = w.message(rtm::NEWLINK, nlm::F_REQUEST | nlm::F_ACK, 1, 0);
        w.fixed(&header);
        match request {
            SIFMTU => w.put_u32(ifla::MTU, int(value) as u32),
            SIFTXQLEN => w.put_u32(ifla::TXQLEN, int(value) as u32),
            SIFNAME => w.put_c_str(ifla::IFNAME, c_bytes(&value[..IFNAMSIZ])),
            SIFHWADDR | SIFHWBROADCAST => {
                if u16::from_ne_bytes([value[0], value[1]]) != link.kind {
                    return Err(Errno(libc::EINVAL));
                }
                let attribute = if request == SIFHWADDR {
                    ifla::ADDRESS
                } else {
                    ifla::BROADCAST
                };
                w.put(attribute, &value[2..2 + link.address.len().min(14)]);
            }
            _ => {}
        }
        w.finish(message).map_err(|_| Errno(libc::EMSGSIZE))?;
        self.ask(ns, w.bytes(), |_| Ok(()))
    }

    /// Adds or removes a link-layer address that the device accepts. There is no rtnetlink request
    /// for it (`dev_ifsioc`).
    fn change_group(&self, ns: NsId, link: &Link, add: bool, value: &[u8]) -> Result<(), Errno> {
        let family = u16::from_ne_bytes([value[0], value[1]]);
        if family != libc::AF_UNSPEC as u16 {
            return Err(Errno(libc::EINVAL));
        }
        let mut order = String::from(if add { "+" } else { "-" });
        order.extend(value[2..8].iter().map(|octet| format!("{octet:02x}")));
        let order = [order.as_bytes(), &link.name].concat();
        self.backend.write(ns, Tree::ProcNet, "dev_mcast", &order)
    }

    fn link(&self, ns: NsId, key: Key<'_>) -> Result<Link, Errno> {
        let mut w = Writer::new();
        let message = w.message(rtm::GETLINK, nlm::F_REQUEST, 1, 0);
        w.fixed(&IfInfoMsg {
            index: match key {
                Key::Index(index) if index > 0 => index,
                Key::Index(_) => return Err(Errno(libc::ENODEV)),
                Key::Name(_) => 0,
            },
            ..IfInfoMsg::default()
        });
        if let Key::Name(name) = key {
            if name.is_empty() {
                return Err(Errno(libc::ENODEV));
            }
            w.put_c_str(ifla::IFNAME, name);
        }
        w.finish(message).map_err(|_| Errno(libc::EMSGSIZE))?;
        let mut found = None;
        self.ask(ns, w.bytes(), |message| {
            if message.header.ty == rtm::NEWLINK {
                found = Some(read_link(message)?);
            }
            Ok(())
        })?;
        found.ok_or(Errno(libc::ENODEV))
    }

    /// Returns the hardware type and the link-layer address of a device.
    pub(super) fn hardware_address(&self, ns: NsId, name: &[u8]) -> Result<(u16, Vec<u8>), Errno> {
        let link = self.link(ns, Key::Name(name))?;
        Ok((link.kind, link.address))
    }

    /// Checks that a device with this index exists.
    pub(super) fn device_numbered(&self, ns: NsId, index: i32) -> Result<(), Errno> {
        self.link(ns, Key::Index(index)).map(drop)
    }

    fn addresses(&self, ns: NsId) -> Result<Vec<Address>, Errno> {
        let mut w = Writer::new();
        let flags = nlm::F_REQUEST | nlm::F_DUMP;
        let message = w.message(rtm::GETADDR, flags, 1, 0);
        w.fixed(&IfAddrMsg {
            family: libc::AF_INET as u8,
            ..IfAddrMsg::default()
        });
        w.finish(message).map_err(|_| Errno(libc::EMSGSIZE))?;
        let mut list = Vec::new();
        self.ask(ns, w.bytes(), |message| {
            if message.header.ty == rtm::NEWADDR {
                list.push(read_address(message)?);
            }
            Ok(())
        })?;
        Ok(list)
    }

    /// Sends a request that changes state.
    fn order<T: Fixed>(
        &self,
        ns: NsId,
        ty: u16,
        flags: u16,
        header: &T,
        fill: impl FnOnce(&mut Writer),
    ) -> Result<(), Errno> {
        let flags = nlm::F_REQUEST | nlm::F_ACK | flags;
        self.ask(ns, &request(ty, flags, header, fill)?, |_| Ok(()))
    }

    /// Sends a request and walks its answer. An error in the answer becomes the result.
    fn ask(
        &self,
        ns: NsId,
        request: &[u8],
        mut each: impl FnMut(&nl::Message<'_>) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let answer = self.backend.request(ns, request)?;
        for message in nl::messages(&answer) {
            if message.header.ty == nlm::ERROR {
                match -int(message.payload()) {
                    0 => {}
                    errno => return Err(Errno(errno)),
                }
            }
            each(&message)?;
        }
        Ok(())
    }

    /// Serves `SIOCGIFCONF`: one ifreq per IPv4 address.
    fn interface_list(&mut self, call: &Call, ns: NsId, at: u64) -> Handled {
        let ifconf: [u8; 16] = sys::read_array(call.tid, at)?;
        let room = usize::try_from(int(&ifconf)).map_err(|_| Errno(libc::EINVAL))?;
        let pointer = long(&ifconf[8..]);
        let mut out = Vec::new();
        for address in self.addresses(ns)? {
            let mut ifreq = [0; IFREQ];
            let name = if address.label.is_empty() {
                self.link(ns, Key::Index(address.index as i32))?.name
            } else {
                address.label.clone()
            };
            put_name(&mut ifreq, &name);
            put_address(&mut ifreq[IFNAMSIZ..], address.local);
            out.extend(ifreq);
        }
        let mut length = out.len();
        if pointer != 0 {
            length = length.min(room) / IFREQ * IFREQ;
            sys::write_memory(call.tid, pointer, &out[..length])?;
        }
        sys::write_memory(call.tid, at, &(length as i32).to_ne_bytes())?;
        Ok(Answer::Value(0))
    }
}

/// The key of a device in a request.
#[derive(Clone, Copy)]
enum Key<'a> {
    Index(i32),
    Name(&'a [u8]),
}

/// Builds a request.
fn request<T: Fixed>(
    ty: u16,
    flags: u16,
    header: &T,
    fill: impl FnOnce(&mut Writer),
) -> Result<Vec<u8>, Errno> {
    let mut w = Writer::new();
    let message = w.message(ty, flags, 1, 0);
    w.fixed(header);
    fill(&mut w);
    w.finish(message).map_err(|_| Errno(libc::EMSGSIZE))?;
    Ok(w.into_vec())
}

fn is_served(request: u32) -> bool {
    matches!(
        request,
        GIFNAME
            | GIFFLAGS
            | SIFFLAGS
            | GIFADDR
            | GIFDSTADDR
            | GIFBRDADDR
            | GIFNETMASK
            | GIFMETRIC
            | GIFMTU
            | SIFMTU
            | SIFNAME
            | SIFHWADDR
            | SIFHWBROADCAST
            | SIFADDR
            | SIFBRDADDR
            | SIFDSTADDR
            | SIFNETMASK
            | GIFHWADDR
            | GIFINDEX
            | GIFTXQLEN
            | SIFTXQLEN
            | ADDMULTI
            | DELMULTI
            | GIFMAP
    )
}

fn read_link(message: &nl::Message<'_>) -> Result<Link, Errno> {
    let header: IfInfoMsg = message.fixed().map_err(broken)?;
    let mut link = Link {
        index: header.index,
        kind: header.ty,
        flags: header.flags,
        ..Link::default()
    };
    for attr in message.attrs::<IfInfoMsg>() {
        match attr.ty {
            ifla::IFNAME => link.name = attr.c_str().to_vec(),
            ifla::MTU => link.mtu = attr.u32().map_err(broken)?,
            ifla::TXQLEN => link.queue = attr.u32().map_err(broken)?,
            ifla::ADDRESS => link.address = attr.payload.to_vec(),
            ifla::LINK => link.lower = attr.u32().map_err(broken)? as i32,
            ifla::MASTER => link.master = attr.u32().map_err(broken)? as i32,
            ifla::LINKINFO => {
                link.vlan = vlan_id(&attr);
                let kind = attr.index(info::MAX).get(info::KIND);
                link.is_bridge = kind.is_some_and(|kind| kind.c_str() == b"bridge");
            }
            _ => {}
        }
    }
    Ok(link)
}

fn vlan_id(properties: &nl::Attr<'_>) -> Option<u16> {
    let table = properties.index(info::MAX);
    if table.get(info::KIND)?.c_str() != b"vlan" {
        return None;
    }
    let data = table.get(info::DATA)?.index(ifla::vlan::MAX);
    data.u16(ifla::vlan::ID).ok()?
}

fn read_address(message: &nl::Message<'_>) -> Result<Address, Errno> {
    let header: IfAddrMsg = message.fixed().map_err(broken)?;
    let mut address = Address {
        index: header.index,
        prefix: header.prefixlen,
        ..Address::default()
    };
    let mut local = None;
    for attr in message.attrs::<IfAddrMsg>() {
        match attr.ty {
            ifa::ADDRESS => address.peer = attr.array().map_err(broken)?,
            ifa::LOCAL => local = Some(attr.array().map_err(broken)?),
            ifa::BROADCAST => address.broadcast = attr.array().map_err(broken)?,
            ifa::LABEL => address.label = attr.c_str().to_vec(),
            _ => {}
        }
    }
    address.local = local.unwrap_or(address.peer);
    Ok(address)
}

fn int(bytes: &[u8]) -> i32 {
    bytes
        .first_chunk()
        .map_or(0, |bytes| i32::from_ne_bytes(*bytes))
}

fn long(bytes: &[u8]) -> u64 {
    bytes
        .first_chunk()
        .map_or(0, |bytes| u64::from_ne_bytes(*bytes))
}

fn c_bytes(bytes: &[u8]) -> &[u8] {
    bytes.split(|&b| b == 0).next().unwrap_or_default()
}

fn put_name(ifreq: &mut [u8], name: &[u8]) {
    let n = name.len().min(IFNAMSIZ - 1);
    ifreq[..n].copy_from_slice(&name[..n]);
}

/// Writes a sockaddr_in into the union of an ifreq.
fn put_address(value: &mut [u8], address: [u8; 4]) {
    value[..16].fill(0);
    value[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
    value[4..8].copy_from_slice(&address);
}
