// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The ioctls of IP tunnels, which `ip tunnel` and `ip -6 tunnel` use (`ip_tunnel_ctl`, `ipip6_tunnel_siocdevprivate`,
//! `ip6_tnl_siocdevprivate`, `ip6gre_tunnel_siocdevprivate`): of ipip, gre, sit, ip6tnl and ip6gre.
//!
//! A request goes to a device, usually the fallback device of the kind, and passes a structure: `struct ip_tunnel_parm` of
//! 52 bytes over IPv4, `struct ip6_tnl_parm` of 64 bytes for ip6tnl, `struct ip6_tnl_parm2` of 76 bytes for ip6gre. Integers
//! have the host's byte order; addresses, keys, flags of GRE and the flow information that of the network. A request to a
//! fallback device that is not there yet makes it, as loading the module does in Linux.
//!
//! Not implemented: 6rd (EINVAL, as of a kernel without it).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use weir_netlink::ifla::iff;
use weir_netlink::{Error, errno, rtm};
use weir_packet::header::ipv4::{IPPROTO_GRE, IPPROTO_IPIP, IPPROTO_IPV6};
use weir_sync::rcu::Guard;

use crate::device::Device;
use crate::ipip::{self, IPPROTO_MPLS};
use crate::namespace::Namespace;
use crate::stack::Stack;
use crate::tunnel::isatap::{ISATAP, Router};
use crate::tunnel::lookup::{Family, Tunnels, tunnels};
use crate::tunnel::parms::{GRE_CSUM, GRE_KEY, GRE_ROUTING, GRE_SEQ, GRE_VERSION, Parms};
use crate::tunnel::{self, Flavour, IpTunnel};
use crate::{changed, gre, ip6gre, ip6tnl, is_valid_name, sit, unregister};

/// `SIOCGETTUNNEL`
pub const GET: u32 = 0x89f0;
/// `SIOCADDTUNNEL`
pub const ADD: u32 = 0x89f1;
/// `SIOCDELTUNNEL`
pub const DELETE: u32 = 0x89f2;
/// `SIOCCHGTUNNEL`
pub const CHANGE: u32 = 0x89f3;
/// `SIOCGETPRL`
const GET_ROUTERS: u32 = 0x89f4;
/// `SIOCADDPRL`
const ADD_ROUTER: u32 = 0x89f5;
/// `SIOCDELPRL`
const DELETE_ROUTER: u32 = 0x89f6;
/// `SIOCCHGPRL`
const CHANGE_ROUTER: u32 = 0x89f7;

/// The length in bytes of a name.
const NAME: usize = 16;
/// The sizes in bytes of the structures: over IPv4, over IPv6, with keys, of a router.
const PARM: usize = 52;
const PARM6: usize = 64;
const PARM6_KEYS: usize = 76;
const ROUTER: usize = 16;
/// The offset in bytes of the IPv4 header in `struct ip_tunnel_parm`.
const IP: usize = 32;
/// `IP_DF`
const DF: u16 = 0x4000;

/// The fallback devices with their kinds.
static MODULES: [(&str, &Flavour); 7] = [
    ("tunl0", &ipip::FLAVOUR),
    ("gre0", &gre::GRE),
    ("gretap0", &gre::GRE),
    ("erspan0", &gre::GRE),
    ("sit0", &sit::FLAVOUR),
    ("ip6tnl0", &ip6tnl::FLAVOUR),
    ("ip6gre0", &ip6gre::IP6GRE),
];

fn failed<T>(errno: i32) -> Result<T, Error> {
    Err(Error::new(errno))
}

/// A device with its tunnel.
type Found = (Arc<Device>, Arc<IpTunnel>);

/// A device that requests are for.
struct At<'a> {
    stack: &'a Stack,
    guard: &'a Guard,
    /// The underlay namespace.
    net: Arc<Namespace>,
    device: Arc<Device>,
    tunnel: Arc<IpTunnel>,
}

/// Serves an ioctl for the device `name`. `given` is as much of the structure as can be read. Returns the bytes that
/// replace it.
///
/// # Errors
/// ENODEV for an unknown device, EOPNOTSUPP for one of another kind, EFAULT for a short structure; otherwise as the
/// request fails on Linux.
pub fn serve(
    stack: &Stack,
    guard: &Guard,
    ns: &Arc<Namespace>,
    name: &str,
    request: u32,
    given: &[u8],
) -> Result<Vec<u8>, Error> {
    let find = || ns.device_by_name(name);
    let found = find().or_else(|| {
        let (_, flavour) = MODULES.iter().find(|(fallback, _)| *fallback == name)?;
        tunnel::load(stack, guard, ns, flavour);
        find()
    });
    let device = found.ok_or(Error::new(errno::ENODEV))?;
    let served = MODULES.iter().any(|(_, f)| f.name == device.link.kind());
    let net = device.link.link_namespace().filter(|_| served);
    let net = net.and_then(|id| stack.namespace(id));
    let net = net.ok_or(Error::new(errno::EOPNOTSUPP))?;
    let tunnel = tunnels(&net).and_then(|all| all.of(&device));
    let tunnel = tunnel.ok_or(Error::new(errno::ENODEV))?;
    let at = At {
        stack,
        guard,
        net,
        device,
        tunnel,
    };
    match (request, at.tunnel.flavour.family) {
        (GET | ADD | DELETE | CHANGE, _) => at.tunnel(request, given),
        (_, Family::Sit) => at.sit(request, given),
        _ => failed(errno::EINVAL),
    }
}

impl At<'_> {
    fn family(&self) -> Family {
        self.tunnel.flavour.family
    }

    /// Returns the tunnels of the underlay namespace.
    fn all(&self) -> Result<&Tunnels, Error> {
        tunnels(&self.net).ok_or(Error::new(errno::ENODEV))
    }

    /// Finds the device and the tunnel that have these parameters.
    fn find(&self, parms: &Parms) -> Result<Option<Found>, Error> {
        let same = self.all()?.same(self.family(), parms, self.guard);
        Ok(same.and_then(|receiver| receiver.parts(self.stack, self.guard)))
    }

    fn tunnel(&self, request: u32, given: &[u8]) -> Result<Vec<u8>, Error> {
        let size = match self.family() {
            Family::Ip6Tnl => PARM6,
            Family::Ip6Gre => PARM6_KEYS,
            _ => PARM,
        };
        let reads_nothing =
            self.family().is_ipv6() && !self.tunnel.fallback && matches!(request, GET | DELETE);
        let Some(given) = given
            .get(..size)
            .or(reads_nothing.then_some(&[0; PARM6_KEYS][..size]))
        else {
            return failed(errno::EFAULT);
        };
        let parms = self.parse(given);
        match request {
            GET => {
                let found = match self.tunnel.fallback {
                    true => self.find(&parms)?,
                    false => None,
                };
                let this = (self.device.clone(), self.tunnel.clone());
                Ok(self.fill(&found.unwrap_or(this), size))
            }
            DELETE => {
                self.delete(&parms)?;
                Ok(given.to_vec())
            }
            _ => {
                self.check(given, &parms)?;
                let served = match request {
                    ADD => self.add(c_bytes(&given[..NAME]), parms.clone())?,
                    _ => self.change(parms.clone())?,
                };
                if self.family().is_ipv6() {
                    return Ok(self.fill(&served, size));
                }
                let mut answer = given.to_vec();
                match self.family() {
                    Family::Ipip => answer[20..32].fill(0),
                    Family::Gre => {
                        answer[24..28].copy_from_slice(&parms.ikey.to_be_bytes());
                        answer[28..32].copy_from_slice(&parms.okey.to_be_bytes());
                    }
                    _ => {}
                }
                if answer[IP + 8] != 0 {
                    answer[IP + 6] |= (DF >> 8) as u8;
                }
                Ok(answer)
            }
        }
    }

    /// Returns the parameters of a structure.
    fn parse(&self, given: &[u8]) -> Parms {
        let family = self.family();
        let mut parms = Parms::new(family.is_ipv6());
        parms.link = word(given, NAME);
        let flags = |at| match family {
            Family::Gre | Family::Ip6Gre => half(given, at) & (GRE_CSUM | GRE_KEY | GRE_SEQ),
            _ => 0,
        };
        let key = |flags: u16, at| match flags & GRE_KEY {
            0 => 0,
            _ => word(given, at).to_be(),
        };
        if !family.is_ipv6() {
            let ip = &given[IP..];
            (parms.iflags, parms.oflags) = (flags(20), flags(22));
            (parms.ikey, parms.okey) = (key(parms.iflags, 24), key(parms.oflags, 28));
            (parms.tos, parms.ttl) = (ip[1], ip[8]);
            parms.isatap = family == Family::Sit && native(given, 20) & ISATAP != 0;
            parms.df = half(ip, 6) & DF != 0 || parms.ttl != 0;
            parms.proto = if family == Family::Gre { 0 } else { ip[9] };
            parms.local = address_at(ip, 12).into();
            parms.remote = address_at(ip, 16).into();
            return parms;
        }
        if family == Family::Ip6Tnl {
            parms.proto = given[20];
        } else {
            (parms.iflags, parms.oflags) = (flags(64), flags(66));
            (parms.ikey, parms.okey) = (key(parms.iflags, 68), key(parms.oflags, 72));
        }
        (parms.encap_limit, parms.ttl) = (given[21], given[22]);
        (parms.flowinfo, parms.flags) = (word(given, 24).to_be(), word(given, 28));
        let address = |at: usize| {
            let octets = given[at..].first_chunk::<16>();
            IpAddr::from(octets.map_or(Ipv6Addr::UNSPECIFIED, |octets| (*octets).into()))
        };
        (parms.local, parms.remote) = (address(32), address(48));
        parms
    }

    /// Refuses parameters for a new tunnel or a change (`ipip_tunnel_ctl`, `ipgre_tunnel_ctl`,
    /// `__ipip6_tunnel_ioctl_validate`).
    fn check(&self, given: &[u8], parms: &Parms) -> Result<(), Error> {
        let family = self.family();
        let flags = |at| half(given, at) & (GRE_VERSION | GRE_ROUTING) == 0;
        let known = match family {
            Family::Ip6Tnl => matches!(parms.proto, 0 | IPPROTO_IPV6 | IPPROTO_IPIP),
            Family::Ip6Gre => flags(64) && flags(66),
            _ => {
                let ip = &given[IP..];
                let proto = match (family, ip[9]) {
                    (Family::Gre, proto) => proto == IPPROTO_GRE && flags(20) && flags(22),
                    (Family::Sit, IPPROTO_IPV6) => true,
                    (_, proto) => matches!(proto, 0 | IPPROTO_IPIP | IPPROTO_MPLS),
                };
                proto && ip[0] == 0x45 && half(ip, 6) & !DF == 0
            }
        };
        if !known {
            return failed(errno::EINVAL);
        }
        tunnel::check(parms)?;
        match parms.proto == IPPROTO_MPLS {
            true => failed(errno::EOPNOTSUPP),
            false => Ok(()),
        }
    }

    fn add(&self, name: &[u8], parms: Parms) -> Result<Found, Error> {
        let family = self.family();
        let hides_errors = matches!(family, Family::Sit | Family::Ip6Gre);
        let create = || {
            if self.find(&parms)?.is_some() {
                return failed(errno::EEXIST);
            }
            let name = match std::str::from_utf8(name) {
                Ok("") => format!("{}%d", self.tunnel.flavour.name),
                Ok(name) if is_valid_name(name) => name.to_owned(),
                _ => return failed(errno::E2BIG),
            };
            let (stack, guard, flavour) = (self.stack, self.guard, self.tunnel.flavour);
            let device =
                tunnel::create_by_ioctl(stack, guard, flavour, &self.net, parms.clone(), name)?;
            let change = u32::MAX;
            changed(stack, guard, &self.net, &device, rtm::NEWLINK, change);
            let tunnel = self.all()?.of(&device);
            Ok((device, tunnel.ok_or(Error::new(errno::ENODEV))?))
        };
        match create() {
            Err(_) if hides_errors => failed(errno::ENOBUFS),
            result => result,
        }
    }

    fn delete(&self, parms: &Parms) -> Result<(), Error> {
        let device = match self.tunnel.fallback {
            false => self.device.clone(),
            true => match self.find(parms)? {
                None => return failed(errno::ENOENT),
                Some((_, tunnel)) if tunnel.fallback => return failed(errno::EPERM),
                Some((device, _)) => device,
            },
        };
        unregister(self.stack, &[device]);
        Ok(())
    }

    /// Changes a tunnel, and returns the one that has the parameters now. As in Linux, a request to the fallback device
    /// changes the tunnel with these ends over IPv4, nothing for sit and ip6gre, and only its own protocol for ip6tnl.
    fn change(&self, mut parms: Parms) -> Result<Found, Error> {
        let this = (self.device.clone(), self.tunnel.clone());
        let (family, fallback) = (self.family(), self.tunnel.fallback);
        let found = self.find(&parms)?;
        let other = found
            .as_ref()
            .is_some_and(|found| !Arc::ptr_eq(&found.0, &this.0));
        if other && (!fallback || family == Family::Ip6Tnl) {
            return failed(errno::EEXIST);
        }
        let (device, tunnel) = match (family, found) {
            (Family::Ip6Tnl, _) if fallback => {
                let old = this.1.parms.load(self.guard).clone();
                let proto = parms.proto;
                self.all()?
                    .change(&this.0, &this.1, Parms { proto, ..old }, self.guard)?;
                self.tell(&this.0);
                return Ok(this);
            }
            (_, None) if fallback => return failed(errno::ENOENT),
            (Family::Sit, Some(found)) if fallback => return Ok(found),
            // Only other ends or another key change this kind.
            (Family::Ip6Gre, Some(found)) => return Ok(found),
            (_, Some(found)) => found,
            (_, None) => this,
        };
        let to_one = device.flags() & iff::POINTOPOINT != 0;
        if !family.is_ipv6() && to_one == parms.remote.is_unspecified() {
            return failed(errno::EINVAL);
        }
        if family == Family::Sit {
            parms.fwmark = tunnel.parms.load(self.guard).fwmark;
        }
        tunnel::update(&tunnel, &device, &self.net, parms, self.guard)?;
        self.tell(&device);
        Ok((device, tunnel))
    }

    /// Tells that a device that is up has changed (`netdev_state_change`).
    fn tell(&self, device: &Arc<Device>) {
        if !device.is_up() {
            return;
        }
        let ns = device.namespace(self.guard).clone();
        changed(self.stack, self.guard, &ns, device, rtm::NEWLINK, 0);
    }

    /// Writes the structure of a tunnel.
    fn fill(&self, (device, tunnel): &Found, size: usize) -> Vec<u8> {
        let parms = tunnel.parms.load(self.guard);
        let mut out = vec![0; size];
        let name = device.name();
        out[..name.len().min(NAME - 1)]
            .copy_from_slice(&name.as_bytes()[..name.len().min(NAME - 1)]);
        let mut put = |at: usize, bytes: &[u8]| out[at..at + bytes.len()].copy_from_slice(bytes);
        put(NAME, &parms.link.to_ne_bytes());
        let keys = match self.family() {
            Family::Gre => Some(20),
            Family::Ip6Gre => Some(64),
            _ => None,
        };
        if let Some(at) = keys {
            put(at, &parms.iflags.to_be_bytes());
            put(at + 2, &parms.oflags.to_be_bytes());
            put(at + 4, &parms.ikey.to_be_bytes());
            put(at + 8, &parms.okey.to_be_bytes());
        }
        if parms.isatap {
            put(20, &ISATAP.to_ne_bytes());
        }
        match (parms.local, parms.remote) {
            (IpAddr::V4(local), IpAddr::V4(remote)) => {
                let proto = match self.family() {
                    Family::Gre => IPPROTO_GRE,
                    _ => parms.proto,
                };
                put(IP, &[0x45, parms.tos]);
                put(IP + 6, &if parms.df { DF } else { 0 }.to_be_bytes());
                put(IP + 8, &[parms.ttl, proto]);
                put(IP + 12, &local.octets());
                put(IP + 16, &remote.octets());
            }
            (IpAddr::V6(local), IpAddr::V6(remote)) => {
                let proto = match self.family() {
                    Family::Ip6Gre => IPPROTO_GRE,
                    _ => parms.proto,
                };
                put(20, &[proto, parms.encap_limit, parms.ttl]);
                put(24, &parms.flowinfo.to_be_bytes());
                put(28, &parms.flags.to_ne_bytes());
                put(32, &local.octets());
                put(48, &remote.octets());
            }
            _ => {}
        }
        out
    }

    /// Answers a request for potential routers with as many as fit, or with that of an address (`ipip6_tunnel_get_prl`).
    fn routers(&self, given: &[u8]) -> Vec<u8> {
        let wanted = address_at(given, 0);
        let most = match (word(given, 8) as usize / ROUTER, wanted.is_unspecified()) {
            (most, true) => most,
            (most, false) => most.min(1),
        };
        let routers = self.tunnel.routers(self.guard).iter();
        let routers = routers.filter(|known| wanted.is_unspecified() || known.address == wanted);
        let mut out = given.to_vec();
        for router in routers.take(most) {
            out.extend(router.address.octets());
            out.extend(router.flags.to_ne_bytes());
            out.resize(out.len().next_multiple_of(ROUTER), 0);
        }
        let len = (out.len() - ROUTER) as u32;
        out[8..12].copy_from_slice(&len.to_ne_bytes());
        out
    }

    /// Serves the requests of sit for potential routers of ISATAP (`ipip6_tunnel_get_prl`, `ipip6_tunnel_prl_ctl`).
    fn sit(&self, request: u32, given: &[u8]) -> Result<Vec<u8>, Error> {
        let of = |size: usize| given.get(..size).ok_or(Error::new(errno::EFAULT));
        match request {
            GET_ROUTERS | ADD_ROUTER | DELETE_ROUTER | CHANGE_ROUTER if self.tunnel.fallback => {
                failed(errno::EINVAL)
            }
            GET_ROUTERS => Ok(self.routers(of(ROUTER)?)),
            ADD_ROUTER | DELETE_ROUTER | CHANGE_ROUTER => {
                let given = of(ROUTER)?;
                let router = Router {
                    address: address_at(given, 0),
                    flags: native(given, 4),
                };
                let all = self.all()?;
                let done = all.change_routers(&self.tunnel, self.guard, |routers| {
                    change_routers(request, router, routers)
                });
                self.tell(&self.device);
                done.map(|()| given.to_vec())
            }
            // Those for 6rd, as of a kernel without it.
            _ => failed(errno::EINVAL),
        }
    }
}

/// Adds, deletes or changes a potential router (`ipip6_tunnel_add_prl`, `ipip6_tunnel_del_prl`).
fn change_routers(request: u32, router: Router, routers: &mut Vec<Router>) -> Result<(), Error> {
    let mut known = routers.iter();
    let found = known.position(|known| known.address == router.address);
    match (request, router.address.is_unspecified(), found) {
        (DELETE_ROUTER, true, _) => routers.clear(),
        (_, true, _) => return failed(errno::EINVAL),
        (ADD_ROUTER, _, Some(_)) => return failed(errno::EEXIST),
        (ADD_ROUTER, _, None) => routers.insert(0, router),
        (_, _, None) => return failed(errno::ENXIO),
        (DELETE_ROUTER, _, Some(at)) => {
            routers.remove(at);
        }
        (_, _, Some(at)) => routers[at] = router,
    }
    Ok(())
}

fn c_bytes(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// Returns the integer of the host's byte order at an offset in bytes.
fn word(bytes: &[u8], at: usize) -> u32 {
    let word = bytes.get(at..).and_then(|rest| rest.first_chunk());
    word.map_or(0, |word| u32::from_ne_bytes(*word))
}

/// Returns the short integer of the host's byte order at an offset in bytes.
fn native(bytes: &[u8], at: usize) -> u16 {
    half(bytes, at).to_be()
}

/// Returns the IPv4 address at an offset in bytes.
fn address_at(bytes: &[u8], at: usize) -> Ipv4Addr {
    Ipv4Addr::from(word(bytes, at).to_be())
}

/// Returns the integer of the network's byte order at an offset in bytes.
fn half(bytes: &[u8], at: usize) -> u16 {
    let half = bytes.get(at..).and_then(|rest| rest.first_chunk());
    half.map_or(0, |half| u16::from_be_bytes(*half))
}
