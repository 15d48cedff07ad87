// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The program with which `ss` selects sockets (`inet_diag_bc_audit`, `inet_diag_bc_run`).
//!
//! A program is a list of operations. Each says how many bytes to go on by if it holds (`yes`) and if not (`no`). A
//! socket is selected if the run ends exactly behind the program. Operations lead forward only.

use std::net::IpAddr;

use weir_netlink::errno;

use crate::socket::shown::Shown;

/// `INET_DIAG_BC_*`
mod code {
    pub const NOP: u8 = 0;
    pub const JMP: u8 = 1;
    pub const S_GE: u8 = 2;
    pub const S_LE: u8 = 3;
    pub const D_GE: u8 = 4;
    pub const D_LE: u8 = 5;
    pub const AUTO: u8 = 6;
    pub const S_COND: u8 = 7;
    pub const D_COND: u8 = 8;
    pub const DEV_COND: u8 = 9;
    pub const MARK_COND: u8 = 10;
    pub const S_EQ: u8 = 11;
    pub const D_EQ: u8 = 12;
}

/// The length of an operation in bytes.
const OP: usize = 4;

/// A program that was checked.
#[derive(Debug, Clone, Default)]
pub struct Filter(Vec<u8>);

fn op(bytes: &[u8], at: usize) -> Option<(u8, usize, usize)> {
    let [code, yes, low, high] = *bytes.get(at..)?.first_chunk()?;
    Some((code, yes.into(), u16::from_ne_bytes([low, high]).into()))
}

/// The operands of a condition on an address (`struct inet_diag_hostcond`).
struct Host {
    family: u8,
    bits: usize,
    port: i32,
    address: Vec<u8>,
}

fn host(bytes: &[u8], at: usize) -> Option<Host> {
    let [family, bits, _, _, port @ ..] = *bytes.get(at + OP..)?.first_chunk::<8>()?;
    let len = match family {
        2 => 4,
        10 => 16,
        _ => 0,
    };
    let address = bytes.get(at + OP + 8..)?.get(..len)?.to_vec();
    Some(Host {
        family,
        bits: bits.into(),
        port: i32::from_ne_bytes(port),
        address,
    })
}

impl Filter {
    /// Checks a program.
    ///
    /// # Errors
    /// EINVAL if it is empty, has an unknown operation, or leads out of itself.
    pub fn new(bytes: &[u8]) -> Result<Self, i32> {
        let mut at = 0;
        if bytes.is_empty() {
            return Err(errno::EINVAL);
        }
        while at < bytes.len() {
            let left = bytes.len() - at;
            let (code, yes, no) = op(bytes, at).ok_or(errno::EINVAL)?;
            let least = match code {
                code::S_COND | code::D_COND => {
                    let host = host(bytes, at).ok_or(errno::EINVAL)?;
                    if host.bits > 8 * host.address.len() {
                        return Err(errno::EINVAL);
                    }
                    OP + 8 + host.address.len()
                }
                code::DEV_COND => OP + 4,
                code::MARK_COND => OP + 8,
                code::S_GE..=code::D_LE | code::S_EQ | code::D_EQ => 2 * OP,
                code::NOP | code::JMP | code::AUTO => OP,
                _ => return Err(errno::EINVAL),
            };
            // A jump may lead one operation behind the end, which is "not selected".
            let bad = |by: usize| by < OP || by > left + OP || !by.is_multiple_of(OP);
            if code != code::NOP && bad(no) {
                return Err(errno::EINVAL);
            }
            if left < least || yes < least || yes > left || !yes.is_multiple_of(OP) {
                return Err(errno::EINVAL);
            }
            at += yes;
        }
        Ok(Self(bytes.to_vec()))
    }

    /// Returns whether a socket is selected.
    pub fn takes(&self, socket: &Shown) -> bool {
        let bytes = &self.0;
        let mut at = 0;
        while at < bytes.len() {
            let Some((code, yes, no)) = op(bytes, at) else {
                return false;
            };
            let port = || op(bytes, at + OP).map_or(0, |(_, _, port)| port as u16);
            let holds = match code {
                code::NOP => true,
                code::JMP => false,
                code::S_EQ => socket.local.1 == port(),
                code::S_GE => socket.local.1 >= port(),
                code::S_LE => socket.local.1 <= port(),
                code::D_EQ => socket.remote.1 == port(),
                code::D_GE => socket.remote.1 >= port(),
                code::D_LE => socket.remote.1 <= port(),
                // The port was not chosen by the program.
                code::AUTO => false,
                code::S_COND => host(bytes, at).is_some_and(|host| host.takes(socket.local)),
                code::D_COND => host(bytes, at).is_some_and(|host| host.takes(socket.remote)),
                code::DEV_COND => super::word(bytes, at + OP) == Some(socket.device as u32),
                code::MARK_COND => {
                    let (mark, mask) = (
                        super::word(bytes, at + OP).unwrap_or(0),
                        super::word(bytes, at + OP + 4).unwrap_or(0),
                    );
                    socket.mark & mask == mark
                }
                _ => false,
            };
            at += if holds { yes } else { no.max(OP) };
        }
        at == bytes.len()
    }
}

impl Host {
    fn takes(&self, (ip, port): (IpAddr, u16)) -> bool {
        if self.port != -1 && self.port != i32::from(port) {
            return false;
        }
        let octets = match (self.family, ip) {
            (0, _) => return true,
            (2, IpAddr::V4(ip)) => ip.octets().to_vec(),
            (10, IpAddr::V6(ip)) => ip.octets().to_vec(),
            (2, IpAddr::V6(ip)) => match ip.to_ipv4_mapped() {
                Some(ip) => ip.octets().to_vec(),
                None => return false,
            },
            _ => return false,
        };
        (0..self.bits).all(|bit| {
            let of = |bytes: &[u8]| bytes.get(bit / 8).map(|byte| byte << (bit % 8) & 0x80);
            of(&octets) == of(&self.address)
        })
    }
}
