// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Bridge protocol data units on the wire (IEEE 802.1D-1998, 9; `br_stp_bpdu.c`). Times are in units of 1/256 s.

use super::{Id, Times};
use crate::clock::SECOND;

/// The units of a second in BPDUs.
pub const HZ: u64 = 256;
/// The LLC header of BPDUs: DSAP, SSAP, unnumbered information.
const LLC: [u8; 3] = [0x42, 0x42, 3];
const CONFIG: u8 = 0;
const NOTIFICATION: u8 = 0x80;
const CHANGE: u8 = 1;
const ACKNOWLEDGES: u8 = 0x80;

/// A configuration BPDU. Times are in ns.
#[derive(Debug, Clone)]
pub struct Config {
    /// The root says that the topology changes.
    pub change: bool,
    /// The sender has heard of a topology change.
    pub acknowledges: bool,
    /// The root.
    pub root: Id,
    /// The cost of the path to the root.
    pub cost: u32,
    /// The sender.
    pub bridge: Id,
    /// The sender's port.
    pub port: u16,
    /// The age of the root's message.
    pub age: u64,
    /// The root's times.
    pub times: Times,
}

/// A received BPDU.
#[derive(Debug, Clone)]
pub enum Message {
    /// A configuration.
    Config(Config),
    /// A configuration that is older than it may get. It is only counted.
    Old,
    /// A topology change notification.
    Notification,
}

impl Config {
    /// Returns LLC header and BPDU.
    pub fn to_octets(&self) -> Vec<u8> {
        let mut out = LLC.to_vec();
        let flags = (u8::from(self.change) * CHANGE) | (u8::from(self.acknowledges) * ACKNOWLEDGES);
        out.extend_from_slice(&[0, 0, 0, CONFIG, flags]);
        out.extend_from_slice(&self.root);
        out.extend_from_slice(&self.cost.to_be_bytes());
        out.extend_from_slice(&self.bridge);
        out.extend_from_slice(&self.port.to_be_bytes());
        let times = &self.times;
        for ns in [self.age, times.max_age, times.hello, times.delay] {
            let units = u128::from(ns) * u128::from(HZ) / u128::from(SECOND);
            out.extend_from_slice(&(units as u16).to_be_bytes());
        }
        out
    }
}

/// Returns LLC header and BPDU of a topology change notification.
pub fn notification() -> Vec<u8> {
    let mut out = LLC.to_vec();
    out.extend_from_slice(&[0, 0, 0, NOTIFICATION]);
    out
}

/// Parses LLC header and BPDU. Returns `None` for anything else.
pub fn parse(octets: &[u8]) -> Option<Message> {
    let rest = octets.strip_prefix(&LLC)?.strip_prefix(&[0, 0, 0])?;
    let (kind, rest) = rest.split_first()?;
    match *kind {
        CONFIG => {}
        NOTIFICATION => return Some(Message::Notification),
        _ => return None,
    }
    let (body, _) = rest.split_first_chunk::<31>()?;
    let ids = (body.get(1..9)?, body.get(13..21)?);
    let time = |at: usize| -> Option<u64> {
        let units = u16::from_be_bytes(body.get(at..at + 2)?.try_into().ok()?);
        Some((u64::from(units) * SECOND).div_ceil(HZ))
    };
    let config = Config {
        change: body[0] & CHANGE != 0,
        acknowledges: body[0] & ACKNOWLEDGES != 0,
        root: ids.0.try_into().ok()?,
        cost: u32::from_be_bytes(body.get(9..13)?.try_into().ok()?),
        bridge: ids.1.try_into().ok()?,
        port: u16::from_be_bytes(body.get(21..23)?.try_into().ok()?),
        age: time(23)?,
        times: Times {
            max_age: time(25)?,
            hello: time(27)?,
            delay: time(29)?,
        },
    };
    Some(match config.age > config.times.max_age {
        true => Message::Old,
        false => Message::Config(config),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_comes_back() {
        let config = Config {
            change: true,
            acknowledges: false,
            root: [0x10, 0, 2, 0, 0, 0, 0, 1],
            cost: 0x0102_0304,
            bridge: [0x80, 0, 2, 0, 0, 0, 0, 9],
            port: 0x8002,
            age: SECOND / HZ,
            times: Times {
                max_age: 20 * SECOND,
                hello: 2 * SECOND,
                delay: 15 * SECOND,
            },
        };
        let octets = config.to_octets();
        assert_eq!(octets.len(), 38);
        let Some(Message::Config(back)) = parse(&octets) else {
            panic!("{octets:?}");
        };
        assert_eq!(back.to_octets(), octets);
        for len in 0..octets.len() {
            assert!(parse(&octets[..len]).is_none(), "{len}");
        }
        assert!(matches!(
            parse(&notification()),
            Some(Message::Notification)
        ));
    }
}
