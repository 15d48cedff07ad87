// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What UDP, ping and raw sockets do alike to send a datagram: its destination, the choices of its control messages, its
//! route and the limits of its length (`udp_sendmsg`, `udpv6_sendmsg`, `__ip_append_data`, `__ip6_append_data`).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weir_inet::mib::{Count, Ip};
use weir_inet::{ipv4, ipv6};
use weir_netlink::{errno, rta};
use weir_packet::Flags;
use weir_packet::header::{Ipv4, Ipv6};

use crate::Outgoing;
use crate::abi::{AF_INET, AF_INET6, MSG_DONTROUTE, MSG_OOB, pmtudisc};
use crate::address::{Address, LEAST_V6, LEN_V6, family, read_v4, read_v6};
use crate::control::{self, Choice};
use crate::cpu::Cx;
use crate::error;
use crate::group;
use crate::options;
use crate::socket::{Proto, Socket};

const AF_UNSPEC: u16 = 0;

/// A datagram whose destination and options are known.
#[derive(Debug, Clone)]
pub struct Prepared {
    /// The destination.
    pub to: Address,
    /// The choices for this datagram.
    pub choice: Choice,
    /// The socket's options.
    pub options: options::Shared,
    /// The source address of the socket.
    pub source: IpAddr,
    /// The socket's port.
    pub port: u16,
    /// The device that the socket is bound to.
    pub device: u32,
    /// The device of `IPV6_PKTINFO`.
    pub sticky: u32,
    /// `IPV6_MTU`, or 0.
    pub frag_size: u32,
    /// The path MTU to this destination that an error has told.
    pub learned: Option<u32>,
    /// `MSG_*`
    pub flags: i32,
    /// The datagram goes to the socket's peer.
    pub connected: bool,
}

/// Reads the destination of a datagram.
fn destination(socket: &Socket, to: &[u8], peer: Option<Address>) -> Result<(Address, bool), i32> {
    let connected = || {
        let peer = peer.ok_or(errno::EDESTADDRREQ)?;
        Ok((peer, true))
    };
    if to.is_empty() {
        return connected();
    }
    let ports = matches!(socket.proto, Proto::Udp);
    if !socket.is_v6() {
        let address = read_v4(to).ok_or(errno::EINVAL)?;
        if !matches!(family(to), Some(AF_INET | AF_UNSPEC)) {
            return Err(errno::EAFNOSUPPORT);
        }
        if ports && address.port == 0 {
            return Err(errno::EINVAL);
        }
        return Ok((address, false));
    }
    let v6only = socket.state().options.v6only;
    match family(to) {
        Some(AF_INET6) => {}
        Some(AF_UNSPEC) if ports => return connected(),
        Some(AF_INET) if ports => {
            if v6only {
                return Err(errno::ENETUNREACH);
            }
            let address = read_v4(to).ok_or(errno::EINVAL)?;
            return match address.port {
                0 => Err(errno::EINVAL),
                _ => Ok((address, false)),
            };
        }
        Some(_) if to.len() >= LEAST_V6 => {
            return Err(match ports || matches!(socket.proto, Proto::Ping) {
                true => errno::EINVAL,
                false => errno::EAFNOSUPPORT,
            });
        }
        _ => return Err(errno::EINVAL),
    }
    if to.len() < LEAST_V6 {
        return Err(errno::EINVAL);
    }
    let mut address = read_v6(to).ok_or(errno::EINVAL)?;
    if ports && address.port == 0 {
        return Err(errno::EINVAL);
    }
    if to.len() < LEN_V6 {
        address.scope = 0;
    }
    match address.ip {
        IpAddr::V4(_) if !ports => return Err(errno::EINVAL),
        IpAddr::V4(_) if v6only => return Err(errno::ENETUNREACH),
        IpAddr::V6(ip) if ip.is_unspecified() => {
            let mapped = ports && socket.state().local.ip.is_ipv4();
            address.ip = match mapped {
                true => Ipv4Addr::LOCALHOST.into(),
                false => Ipv6Addr::LOCALHOST.into(),
            };
        }
        _ => {}
    }
    Ok((address, false))
}

/// Reads what a program sends, up to its destination and its control messages.
///
/// # Errors
/// EMSGSIZE, EOPNOTSUPP for `MSG_OOB`, EINVAL, EAFNOSUPPORT, EDESTADDRREQ, ENETUNREACH.
pub fn prepare(socket: &Socket, message: &Outgoing<'_>) -> Result<Prepared, i32> {
    // Over IPv6 the path MTU refuses it, and the error queue is told.
    if message.data.len() > 0xffff && !socket.is_v6() {
        return Err(errno::EMSGSIZE);
    }
    let urgent = message.flags & MSG_OOB != 0;
    // `udpv6_sendmsg` alone ignores it.
    let ignored = socket.is_v6() && matches!(socket.proto, Proto::Udp);
    if urgent && !ignored {
        return Err(errno::EOPNOTSUPP);
    }
    let peer = socket.state().peer;
    let (to, connected) = destination(socket, message.to, peer)?;
    if urgent && to.ip.is_ipv4() {
        return Err(errno::EOPNOTSUPP);
    }
    let choice = control::read(message.control, socket.is_v6(), to.ip.is_ipv6())?;
    let state = socket.state();
    Ok(Prepared {
        to,
        choice,
        options: state.options.clone(),
        source: state.source,
        port: state.local.port,
        device: state.device,
        sticky: state.sticky_device,
        frag_size: state.frag_size,
        learned: state
            .learned
            .as_deref()
            .filter(|(ip, _)| *ip == to.ip)
            .map(|&(_, mtu)| mtu),
        flags: message.flags,
        connected,
    })
}

/// Returns and clears the socket's pending error, as an allocation for a packet would (`sock_alloc_send_pskb`).
///
/// # Errors
/// The pending error; EPIPE if the program has closed the direction.
pub fn pending(socket: &Socket) -> Result<(), i32> {
    let mut state = socket.state();
    match std::mem::take(&mut state.error) {
        0 if state.shut.1 => Err(errno::EPIPE),
        0 => Ok(()),
        error => Err(error),
    }
}

impl Prepared {
    /// Finds the route over IPv4.
    ///
    /// # Errors
    /// Those of the route; EACCES for a broadcast without `SO_BROADCAST`.
    pub fn route_v4<'g>(
        &self,
        socket: &'g Socket,
        cx: &Cx<'g>,
        protocol: u8,
    ) -> Result<ipv4::egress::Way<'g>, i32> {
        let IpAddr::V4(dst) = self.to.ip else {
            return Err(errno::EAFNOSUPPORT);
        };
        let options = &self.options;
        let mut oif = match self.choice.oif {
            0 => self.device,
            oif => oif,
        };
        let own = |ip: IpAddr| match ip {
            IpAddr::V4(ip) if !ip.is_unspecified() => Some(ip),
            _ => None,
        };
        let mut src = self.choice.src.and_then(own).or_else(|| own(self.source));
        if dst.is_multicast() {
            if oif == 0 || group::is_vrf(socket.ns(), oif, cx.guard) {
                oif = options.mc_device;
            }
            src = src.or_else(|| own(options.mc_address.into()));
        } else if oif == 0 {
            oif = options.uc_device;
        }
        let wish = ipv4::egress::Wish {
            dst,
            src,
            oif,
            tos: self.choice.tos.map_or(options.tos, |tos| tos as u8),
            mark: self.choice.mark.unwrap_or(options.mark),
            protocol,
            ports: (self.port, self.to.port),
            any_source: options.transparent || options.hdrincl,
            on_link: options.dontroute || self.flags & MSG_DONTROUTE != 0,
        };
        let ns = socket.ns();
        let mut way = ipv4::egress::find(ns, &wish, cx.guard).inspect_err(|error| {
            if *error == errno::ENETUNREACH {
                cx.mib(ns).ip.add(Ip::OutNoRoutes, 1);
            }
        })?;
        if way.kind == rta::rtn::BROADCAST && !options.broadcast {
            return Err(errno::EACCES);
        }
        if let Some(learned) = self.learned
            && options.pmtudisc < pmtudisc::PROBE
            && !options.hdrincl
        {
            way.hop.mtu = way.hop.mtu.min(learned);
        }
        Ok(way)
    }

    /// Returns the header fields of a packet over IPv4 with `len` bytes behind its header.
    ///
    /// # Errors
    /// EMSGSIZE if the packet may not be fragmented and does not fit; the error queue is told.
    pub fn head_v4(
        &self,
        socket: &Socket,
        cx: &mut Cx<'_>,
        way: &ipv4::egress::Way<'_>,
        protocol: u8,
        len: usize,
    ) -> Result<ipv4::egress::Head<'_>, i32> {
        let options = &self.options;
        let chosen = options.chosen();
        let discover = options.pmtudisc;
        let mtu = match discover {
            pmtudisc::PROBE.. => way.hop.device.mtu().min(0xffff),
            _ => way.hop.mtu,
        };
        let free = discover < pmtudisc::DO || discover == pmtudisc::OMIT;
        let most = if free { 0xffff } else { mtu as usize };
        let total = Ipv4::LEN + chosen.len() + len;
        if total > most {
            // As in Linux, the options count against the MTU that the error tells.
            let told = mtu.saturating_sub(chosen.len() as u32);
            error::too_long(socket, cx, self.to, false, told);
            return Err(errno::EMSGSIZE);
        }
        let fits = total <= mtu as usize;
        let tos = self.choice.tos.map_or(options.tos, |tos| tos as u8);
        let ttl = match self.choice.ttl {
            Some(ttl) => Some(ttl as u8),
            None if way.is_multicast() => Some(options.mc_ttl),
            None => u8::try_from(options.ttl).ok(),
        };
        Ok(ipv4::egress::Head {
            protocol,
            tos,
            ttl,
            df: match discover {
                pmtudisc::DO | pmtudisc::PROBE => true,
                pmtudisc::WANT => fits,
                _ => false,
            },
            options: chosen,
            mark: self.choice.mark.unwrap_or(options.mark),
            priority: match self.choice.tos {
                Some(_) => ipv4::output::priority(tos),
                None => options.priority,
            },
            looped: options.mc_loop,
            checked: false,
        })
    }

    /// Finds the route over IPv6.
    ///
    /// # Errors
    /// Those of the route; EINVAL for a source that is not ours, ENODEV.
    pub fn route_v6<'g>(
        &self,
        socket: &'g Socket,
        cx: &Cx<'g>,
        protocol: u8,
    ) -> Result<ipv6::egress::Way<'g>, i32> {
        let IpAddr::V6(dst) = self.to.ip else {
            return Err(errno::EAFNOSUPPORT);
        };
        if self.source.is_ipv4() {
            // The socket is bound to an IPv4-mapped address.
            return Err(errno::ENETUNREACH);
        }
        let options = &self.options;
        let ns = socket.ns();
        let link = dst.is_unicast_link_local() || (dst.is_multicast() && dst.octets()[1] & 15 <= 2);
        let mut oif = match self.device {
            0 if link && !self.connected => self.to.scope,
            bound => bound,
        };
        if oif == 0 {
            oif = self.sticky;
        }
        if self.choice.oif != 0 {
            if oif != 0 && oif != self.choice.oif {
                return Err(errno::EINVAL);
            }
            ns.device(self.choice.oif, cx.guard).ok_or(errno::ENODEV)?;
            oif = self.choice.oif;
        }
        let own = |ip: IpAddr| match ip {
            IpAddr::V6(ip) if !ip.is_unspecified() => Some(ip),
            _ => None,
        };
        let chosen = self.choice.src.and_then(own);
        if let Some(src) = chosen {
            let free = options.freebind || options.transparent;
            if !free && !crate::bind::is_ours_v6(ns, src, oif, cx.guard) {
                return Err(errno::EINVAL);
            }
        }
        if oif == 0 {
            oif = match dst.is_multicast() {
                true => options.mc_device6,
                false => options.uc_device6,
            };
        }
        let wish = ipv6::egress::Wish {
            dst,
            src: chosen.or_else(|| own(self.source)),
            oif,
            mark: self.choice.mark.unwrap_or(options.mark),
            protocol,
            ports: (self.port, self.to.port),
        };
        let way = ipv6::egress::find_bound(ns, &wish, self.device != 0, cx.guard);
        let mut way = way.inspect_err(|error| {
            if *error == errno::ENETUNREACH {
                cx.mib6_all(ns).ip(Ip::OutNoRoutes, 1);
            }
        })?;
        if let Some(learned) = self.learned
            && options.pmtudisc6 < pmtudisc::PROBE
            && !options.hdrincl
        {
            way.route.limit(learned);
        }
        if self.frag_size != 0 {
            way.route.limit(self.frag_size);
        }
        Ok(way)
    }

    /// Returns the header fields of a packet over IPv6 with `len` bytes behind its header.
    ///
    /// # Errors
    /// EMSGSIZE if the packet may not be fragmented and does not fit; the error queue is told.
    pub fn head_v6(
        &self,
        socket: &Socket,
        cx: &mut Cx<'_>,
        way: &ipv6::egress::Way<'_>,
        protocol: u8,
        len: usize,
    ) -> Result<ipv6::output::Head, i32> {
        let options = &self.options;
        let discover = options.pmtudisc6;
        let mtu = match (discover, self.frag_size) {
            (pmtudisc::PROBE.., 0) => way.route.device.mtu(),
            (pmtudisc::PROBE.., most) => way.route.device.mtu().min(most),
            _ => way.route.mtu(),
        };
        let free = discover < pmtudisc::DO || discover == pmtudisc::OMIT;
        let total = Ipv6::LEN + len;
        let whole = self.choice.dontfrag.unwrap_or(options.dontfrag);
        let most = if free && !whole {
            Ipv6::LEN + 0xffff
        } else {
            mtu as usize
        };
        if total > most {
            error::too_long(socket, cx, self.to, true, mtu);
            return Err(errno::EMSGSIZE);
        }
        let limit = match self.choice.ttl {
            Some(limit @ 0..) => limit,
            _ if way.dst.is_multicast() => options.mc_hops,
            _ => options.hops,
        };
        let class = match self.choice.tos {
            Some(class @ 0..) => class as u8,
            _ => options.tclass,
        };
        let ns = socket.ns();
        let label = match self.choice.flow.unwrap_or(self.to.flow) & 0xf_ffff {
            0 if options.autoflowlabel == Some(false) => 0,
            0 => ipv6::output::flow_label(ns, way.src, way.dst, protocol),
            label if options.flowinfo_send => label,
            _ => ipv6::output::flow_label(ns, way.src, way.dst, protocol),
        };
        Ok(ipv6::output::Head {
            src: way.src,
            dst: way.dst,
            protocol,
            hop_limit: match u8::try_from(limit) {
                Ok(limit) => limit,
                Err(_) => way.route.hop_limit(),
            },
            class,
            label,
        })
    }

    /// Sends a packet over IPv6 whose payload is `bytes`.
    ///
    /// # Errors
    /// ENOBUFS without memory.
    pub fn send_v6(
        &self,
        socket: &Socket,
        cx: &mut Cx<'_>,
        way: &ipv6::egress::Way<'_>,
        head: &ipv6::output::Head,
        (bytes, checked): (&[u8], bool),
    ) -> Result<(), i32> {
        let mut packet = cx.stack.pool.packet(bytes).ok_or(errno::ENOBUFS)?;
        if checked {
            packet.flags.insert(Flags::CSUM_GOOD);
        }
        packet.mark = self.choice.mark.unwrap_or(self.options.mark);
        packet.priority = self.options.priority;
        ipv6::egress::send(cx, socket.ns(), way, head, self.options.mc_loop6, packet);
        Ok(())
    }
}
