// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The parameters of a generator and their text.

use std::net::IpAddr;
use std::str::FromStr;

use super::NAME;
use crate::keys::unknown;
use crate::{Error, Result};

/// The transport protocol of the frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// UDP datagrams.
    Udp,
    /// TCP segments of one side, to which no peer replies.
    Tcp,
}

/// The rate of the frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    /// Frames per second.
    Frames(u64),
    /// Bits per second, counting frames without check sequence.
    Bits(u64),
}

/// The distribution of the gaps between frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gaps {
    /// Constant gaps, as given by the rate.
    Constant,
    /// Exponentially distributed gaps: the frames are independent of each other.
    Poisson,
}

/// The lengths of frames, in bytes without check sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// Any length from the first to the second, equally likely.
    Range(u16, u16),
    /// The simple IMIX.
    Imix,
}

/// A VLAN tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    /// The VLAN, 0 to 4094.
    pub id: u16,
    /// The priority, 0 to 7.
    pub priority: u8,
}

impl Tag {
    /// The tag control information (IEEE 802.1Q).
    pub(super) fn tci(self) -> u16 {
        u16::from(self.priority) << 13 | self.id
    }
}

/// The parameters of a generator. The module documentation lists units and defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the table above describes them")]
pub struct Parameters {
    pub proto: Protocol,
    pub rate: Rate,
    pub gaps: Gaps,
    pub on: u64,
    pub off: u64,
    pub burst: u64,
    pub count: u64,
    pub start: u64,
    pub stop: u64,
    pub size: Size,
    pub flows: u32,
    /// The exponent in millionths; 0 is uniform.
    pub zipf: u32,
    pub seed: u64,
    pub eth_src: [u8; 6],
    pub eth_dst: Option<[u8; 6]>,
    pub src: IpAddr,
    pub dst: IpAddr,
    pub sport: u16,
    pub dport: u16,
    pub ttl: u8,
    pub vlan: Option<Tag>,
    pub qinq: Option<Tag>,
}

impl Default for Parameters {
    fn default() -> Parameters {
        Parameters {
            proto: Protocol::Udp,
            rate: Rate::Frames(1_000),
            gaps: Gaps::Constant,
            on: 0,
            off: 0,
            burst: 1,
            count: 1_000,
            start: 0,
            stop: u64::MAX,
            size: Size::Range(SHORTEST, SHORTEST),
            flows: 1,
            zipf: 0,
            seed: 0,
            eth_src: [2, 0, 0, 0, 0, 1],
            eth_dst: None,
            src: IpAddr::from([10, 1, 0, 2]),
            dst: IpAddr::from([10, 2, 0, 2]),
            sport: 1_024,
            dport: 5_001,
            ttl: 64,
            vlan: None,
            qinq: None,
        }
    }
}

/// The length of an Ethernet header, of a VLAN tag and of the shortest Ethernet frame without check
/// sequence, in bytes.
const ETHERNET: u16 = 14;
const TAG: u16 = 4;
const SHORTEST: u16 = 60;

fn value<T: FromStr>(key: &str, text: &str) -> Result<T> {
    text.parse()
        .map_err(|_| Error::new(NAME, format!("{key}={text} is not a valid value for {key}")))
}

/// Parses a number with a unit.
fn with_unit(key: &str, text: &str, units: &[(&str, u64)]) -> Result<u64> {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    let known = units.iter().find(|(name, _)| *name == unit);
    let scaled = known.and_then(|(_, scale)| digits.parse::<u64>().ok()?.checked_mul(*scale));
    scaled.ok_or_else(|| Error::new(NAME, format!("{key}={text} is not a valid value for {key}")))
}

fn time(key: &str, text: &str) -> Result<u64> {
    const UNITS: [(&str, u64); 5] = [
        ("", 1),
        ("ns", 1),
        ("us", 1_000),
        ("ms", 1_000_000),
        ("s", 1_000_000_000),
    ];
    with_unit(key, text, &UNITS)
}

pub(crate) fn rate(key: &str, text: &str) -> Result<Rate> {
    const UNITS: [(&str, u64); 4] = [
        ("bit", 1),
        ("kbit", 1_000),
        ("mbit", 1_000_000),
        ("gbit", 1_000_000_000),
    ];
    match text.ends_with("bit") {
        true => with_unit(key, text, &UNITS).map(Rate::Bits),
        false => value(key, text).map(Rate::Frames),
    }
}

fn invalid(key: &str, text: &str) -> Error {
    Error::new(NAME, format!("{key}={text} is not a valid value for {key}"))
}

fn sizes(key: &str, text: &str) -> Result<Size> {
    if text == "imix" {
        return Ok(Size::Imix);
    }
    let (least, most) = text.split_once('-').unwrap_or((text, text));
    match (least.parse(), most.parse()) {
        (Ok(least), Ok(most)) if least <= most => Ok(Size::Range(least, most)),
        _ => Err(invalid(key, text)),
    }
}

/// Parses a decimal number from 0.000001 to 20 as millionths.
fn millionths(key: &str, text: &str) -> Result<u32> {
    const DECIMALS: usize = 6;
    const MOST: u32 = 20_000_000;
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    if !is_number(whole) || !is_number(fraction) || fraction.len() > DECIMALS {
        return Err(invalid(key, text));
    }
    let digits = format!("{whole}{fraction:0<DECIMALS$}");
    let number = digits.parse().ok();
    number
        .filter(|number| (1..=MOST).contains(number))
        .ok_or_else(|| invalid(key, text))
}

/// Parses `ID[:PRIO]`.
fn tag(key: &str, text: &str) -> Result<Tag> {
    let (id, priority) = text.split_once(':').unwrap_or((text, "0"));
    match (id.parse(), priority.parse()) {
        (Ok(id @ 0..=4094), Ok(priority @ 0..=7)) => Ok(Tag { id, priority }),
        _ => Err(invalid(key, text)),
    }
}

fn ethernet(key: &str, text: &str) -> Result<[u8; 6]> {
    let wrong = || Error::new(NAME, format!("{key}={text} is not an Ethernet address"));
    let mut bytes = text.split(':').map(|part| match part.len() {
        1 | 2 => u8::from_str_radix(part, 16).map_err(|_| wrong()),
        _ => Err(wrong()),
    });
    let mut address = [0; 6];
    for byte in &mut address {
        *byte = bytes.next().ok_or_else(wrong)??;
    }
    if bytes.next().is_some() {
        Err(wrong())
    } else {
        Ok(address)
    }
}

/// The keys, for [`unknown`].
pub(super) const KEYS: &[&str] = &[
    "proto", "rate", "gaps", "on", "off", "burst", "count", "start", "stop", "size", "flows",
    "zipf", "seed", "eth_src", "eth_dst", "src", "dst", "sport", "dport", "ttl", "vlan", "qinq",
];

impl FromStr for Parameters {
    type Err = Error;

    fn from_str(text: &str) -> Result<Parameters> {
        let mut parameters = Parameters::default();
        let (mut count, mut size) = (None, None);
        for pair in text.split(',').filter(|pair| !pair.is_empty()) {
            let (key, text) = pair
                .split_once('=')
                .ok_or_else(|| Error::new(NAME, format!("{pair} has no value")))?;
            let p = &mut parameters;
            match key {
                "proto" => {
                    p.proto = match text {
                        "udp" => Protocol::Udp,
                        "tcp" => Protocol::Tcp,
                        _ => {
                            let what = format!("proto={text} is neither udp nor tcp");
                            return Err(Error::new(NAME, what));
                        }
                    }
                }
                "rate" => p.rate = rate(key, text)?,
                "gaps" => {
                    p.gaps = match text {
                        "constant" => Gaps::Constant,
                        "poisson" => Gaps::Poisson,
                        _ => {
                            let what = format!("gaps={text} is neither constant nor poisson");
                            return Err(Error::new(NAME, what));
                        }
                    }
                }
                "on" => p.on = time(key, text)?,
                "off" => p.off = time(key, text)?,
                "burst" => p.burst = value(key, text)?,
                "count" => count = Some(value(key, text)?),
                "start" => p.start = time(key, text)?,
                "stop" => p.stop = time(key, text)?,
                "size" => size = Some(sizes(key, text)?),
                "flows" => p.flows = value(key, text)?,
                "zipf" => p.zipf = millionths(key, text)?,
                "seed" => p.seed = value(key, text)?,
                "eth_src" => p.eth_src = ethernet(key, text)?,
                "eth_dst" => p.eth_dst = Some(ethernet(key, text)?),
                "src" => p.src = value(key, text)?,
                "dst" => p.dst = value(key, text)?,
                "sport" => p.sport = value(key, text)?,
                "dport" => p.dport = value(key, text)?,
                "ttl" => p.ttl = value(key, text)?,
                "vlan" => p.vlan = Some(tag(key, text)?),
                "qinq" => p.qinq = Some(tag(key, text)?),
                _ => return Err(Error::new(NAME, unknown(key, KEYS))),
            }
        }
        parameters.size = size.unwrap_or_else(|| {
            let length = SHORTEST.max(parameters.shortest());
            Size::Range(length, length)
        });
        parameters.count = count.unwrap_or(match parameters.stop {
            u64::MAX => parameters.count,
            _ => 0,
        });
        Ok(parameters)
    }
}

impl Parameters {
    /// Returns the length of the headers in bytes, which is that of the shortest frame.
    pub(super) fn shortest(&self) -> u16 {
        let tags = [self.qinq, self.vlan].iter().flatten().count() as u16;
        let network = if self.src.is_ipv4() { 20 } else { 40 };
        let transport = match self.proto {
            Protocol::Udp => 8,
            Protocol::Tcp => 20,
        };
        ETHERNET + TAG * tags + network + transport
    }

    /// Returns true if the generator never ends.
    pub fn endless(&self) -> bool {
        self.count == 0 && self.stop == u64::MAX
    }
}
