// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sockets of families that would reach an outside network.
//!
//! An AF_UNIX socket stands in for a datagram, stream or raw socket of the internet families. The
//! supervisor answers its `ioctl`s ([`super::ioctl`]; busybox uses stream sockets for them) and
//! accepts its options, but it reaches no network. Calls that would reach one fail as on a machine
//! without routes, which programs know how to report:
//!
//! | call | answer |
//! |---|---|
//! | `connect`, `sendto`, `sendmsg`, `sendmmsg` | ENETUNREACH |
//! | `bind` to port 0, as clients do; `connect` to AF_UNSPEC | success |
//! | `bind` to another port, `listen` | EADDRNOTAVAIL |
//! | `setsockopt` of IP, IPv6, TCP, UDP, ICMPv6 and raw levels | success, without effect; `getsockopt` reads 0 |
//! | `SO_BINDTODEVICE`, `SO_BINDTOIFINDEX` | success if the device exists, otherwise ENODEV |
//! | the options of iptables, ip6tables, arptables and ebtables | ENOPROTOOPT, as without their modules |
//!
//! Packet, XDP and vsock sockets fail with EAFNOSUPPORT. A message on standard error, once per
//! program, says which function is missing and what replaces it.
//!
//! Not served: a stand-in beyond the numbers of [`super::traffic`] fails in `sendmsg` to an address
//! with EINVAL, which is the kernel's answer.
use super::option::{KIND_MASK, write_option};
use super::{Handled, Supervisor, own_key};
use crate::backend::Errno;
use crate::seccomp::{Answer, Call};
use crate::sys;

/// The maximum number of stand-ins remembered; the oldest are forgotten first.
const MAX_STAND_INS: usize = 65_536;

/// The socket that a stand-in stands for.
#[derive(Clone, Copy, Debug)]
pub(super) struct StandIn {
    pub(super) family: i32,
    pub(super) kind: i32,
    pub(super) protocol: i32,
}

const NO_WAY: &str = "programs cannot send through the stack yet; \
     frames enter it with --in and --gen of weir run";
const NO_LISTENER: &str = "programs cannot receive through the stack yet; \
     weir capture DEV shows what a device sends and receives";
const NO_PACKETS: &str = "packet sockets are not served; \
     weir capture DEV | tcpdump -r - shows a device's frames";
const NO_FAMILY: &str = "XDP and vsock sockets are not served";
/// The message for every way to ask for the tables of netfilter.
pub(super) const NO_NETFILTER: &str = "the stack has no tables of netfilter: no nft, iptables or ipset; tc filters can drop and change packets, and tc's ct tracks connections";

/// Returns whether an option addresses the tables of netfilter.
fn is_of_netfilter(level: i32, option: i32) -> bool {
    match level {
        libc::IPPROTO_IP => option >= 64,
        libc::IPPROTO_IPV6 => matches!(option, 64 | 65 | 68 | 69),
        _ => false,
    }
}

impl Supervisor {
    /// Serves `socket` of a family that would reach an outside network.
    pub(super) fn outside_socket(&mut self, call: &Call) -> Handled {
        let (family, kind, protocol) = (call.int(0), call.int(1), call.int(2));
        let sentence = match family {
            libc::AF_INET | libc::AF_INET6 => {
                let plain = kind & KIND_MASK;
                let protocol = match (protocol, plain) {
                    (0, libc::SOCK_STREAM) => libc::IPPROTO_TCP,
                    (0, libc::SOCK_DGRAM) => libc::IPPROTO_UDP,
                    (0, _) => return Err(Errno(libc::EPROTONOSUPPORT)),
                    _ => protocol,
                };
                // AF_UNIX treats a raw socket as a datagram socket.
                if !matches!(plain, libc::SOCK_DGRAM | libc::SOCK_STREAM | libc::SOCK_RAW) {
                    return Err(Errno(libc::ESOCKTNOSUPPORT));
                }
                let socket = sys::unix_socket(kind)?;
                let stand_ins = &mut self.sockets.stand_ins;
                if stand_ins.len() >= MAX_STAND_INS {
                    stand_ins.pop_first();
                }
                let stand_in = StandIn {
                    family,
                    kind: plain,
                    protocol,
                };
                stand_ins.insert(own_key(&socket)?, stand_in);
                return if plain == libc::SOCK_STREAM {
                    self.hand_out(call, &socket, kind)
                } else {
                    self.hand_out_for_traffic(call, &socket, kind)
                };
            }
            libc::AF_PACKET => NO_PACKETS,
            _ => NO_FAMILY,
        };
        self.say_once(call, "network", sentence);
        Err(Errno(libc::EAFNOSUPPORT))
    }

    /// Returns the socket that a caller's stand-in stands for.
    pub(super) fn stand_in_of(&self, call: &Call) -> Option<StandIn> {
        let key = Self::file_key(call.tid, call.int(0)).ok()?;
        self.sockets.stand_ins.get(&key).copied()
    }

    /// Refuses a connection or a datagram that would leave the program.
    pub(super) fn unreachable(&mut self, call: &Call) -> Errno {
        self.say_once(call, "network", NO_WAY);
        Errno(libc::ENETUNREACH)
    }

    fn no_listener(&mut self, call: &Call) -> Handled {
        self.say_once(call, "network", NO_LISTENER);
        Err(Errno(libc::EADDRNOTAVAIL))
    }

    /// Serves `bind` of a stand-in.
    pub(super) fn bind_stand_in(&mut self, call: &Call, stand_in: StandIn) -> Handled {
        let address: [u8; 4] = sys::read_array(call.tid, call.args[1])?;
        let family = i32::from(u16::from_ne_bytes([address[0], address[1]]));
        if family != stand_in.family && family != libc::AF_UNSPEC {
            return Err(Errno(libc::EAFNOSUPPORT));
        }
        let port = u16::from_be_bytes([address[2], address[3]]);
        if port == 0 || stand_in.kind == libc::SOCK_RAW {
            return Ok(Answer::Value(0));
        }
        self.no_listener(call)
    }

    /// Serves `connect` of a stand-in.
    pub(super) fn connect_stand_in(&mut self, call: &Call) -> Handled {
        let family: [u8; 2] = sys::read_array(call.tid, call.args[1])?;
        if i32::from(u16::from_ne_bytes(family)) == libc::AF_UNSPEC {
            return Ok(Answer::Value(0));
        }
        Err(self.unreachable(call))
    }

    /// Serves `listen`. Nobody can connect to a stand-in.
    pub(super) fn listen(&mut self, call: &Call) -> Handled {
        if self.stand_in_of(call).is_none() {
            return Ok(Answer::Continue);
        }
        self.no_listener(call)
    }

    /// Serves `setsockopt` of a stand-in.
    pub(super) fn set_stand_in_option(&mut self, call: &Call) -> Handled {
        let (level, option) = (call.int(1), call.int(2));
        if level != libc::SOL_SOCKET {
            return if is_of_netfilter(level, option) {
                self.say_once(call, "netfilter", NO_NETFILTER);
                Err(Errno(libc::ENOPROTOOPT))
            } else {
                Ok(Answer::Value(0))
            };
        }
        let ns = self.namespace(call.tid);
        match option {
            libc::SO_BINDTODEVICE => {
                let mut name = vec![0; (call.int(4).clamp(0, 15)) as usize];
                let n = sys::read_memory(call.tid, call.args[3], &mut name)?;
                name.truncate(n);
                let end = name.iter().position(|&byte| byte == 0);
                name.truncate(end.unwrap_or(name.len()));
                if !name.is_empty() {
                    self.device_named(ns, &name)?;
                }
            }
            libc::SO_BINDTOIFINDEX => {
                let index = i32::from_ne_bytes(sys::read_array(call.tid, call.args[3])?);
                if index != 0 {
                    self.device_numbered(ns, index)?;
                }
            }
            _ => {} // SO_MARK, and options that AF_UNIX refuses: SO_REUSEPORT, ...
        }
        Ok(Answer::Value(0))
    }

    /// Serves `getsockopt` of a stand-in.
    pub(super) fn stand_in_option(&mut self, call: &Call, stand_in: StandIn) -> Handled {
        let (level, option) = (call.int(1), call.int(2));
        match (level, option) {
            (libc::SOL_SOCKET, libc::SO_DOMAIN) => write_option(call, stand_in.family),
            (libc::SOL_SOCKET, libc::SO_PROTOCOL) => write_option(call, stand_in.protocol),
            (libc::SOL_SOCKET, _) => write_option(call, stand_in.kind),
            _ if is_of_netfilter(level, option) => {
                self.say_once(call, "netfilter", NO_NETFILTER);
                Err(Errno(libc::ENOPROTOOPT))
            }
            (libc::IPPROTO_IP, libc::IP_MTU) | (libc::IPPROTO_IPV6, libc::IPV6_MTU) => {
                Err(Errno(libc::ENOTCONN))
            }
            _ => write_option(call, 0),
        }
    }
}
