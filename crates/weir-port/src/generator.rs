// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `generator`: generates UDP or TCP-like frames, always the same ones for the same parameters.
//!
//! The parameters are written as `key=value` pairs separated by commas. All are optional, for
//! example `rate=10000,size=64,flows=100,count=1000`:
//!
//! | key | meaning | unit | default |
//! |---|---|---|---|
//! | `proto` | `udp`, or `tcp`: a SYN, then segments with increasing sequence numbers | | `udp` |
//! | `rate` | frames per second or, with `bit`, `kbit`, `mbit`, `gbit`, bits per second; the interval between bursts grows with their length | 1/s | 1000 |
//! | `gaps` | `constant`, or `poisson`: exponentially distributed gaps with the same mean | | `constant` |
//! | `on`, `off` | mean lengths of active and of silent periods (exponentially distributed); 0 means never silent | ns, or with `us`, `ms`, `s` | 0 |
//! | `burst` | number of frames with the same time stamp | frames | 1 |
//! | `count` | total number of frames, 0 for no limit | frames | 1000; 0 with `stop` |
//! | `start` | time stamp of the first frame | ns, or with `us`, `ms`, `s` | 0 |
//! | `stop` | no frames from this time on | as `start` | none |
//! | `size` | length without check sequence, or `A-B` for random lengths in that range; at least the length of the headers (a SYN has exactly that length) | bytes | 60, or the length of the headers |
//! | `flows` | number of flows, among which frames are distributed at random | | 1 |
//! | `seed` | seed of the random numbers | | 0 |
//! | `eth_src`, `eth_dst` | Ethernet addresses | | `02:00:00:00:00:01`, `02:00:00:00:00:02` |
//! | `src`, `dst` | IPv4 or IPv6 addresses of the first flow | | `10.1.0.2`, `10.2.0.2` |
//! | `sport`, `dport` | ports of the first flow | | 1024, 5001 |
//! | `ttl` | time to live or hop limit | hops | 64 |
//!
//! Flow n has the source port `sport + n`. After port 65535 the flows continue at `sport` with the
//! next source address. Checksums are correct. All random numbers come from integer arithmetic,
//! which gives the same result on every machine. Not implemented: VLAN tags, IPv4 options,
//! fragments, replies of the other side.

mod pace;

use std::net::IpAddr;
use std::str::FromStr;

use self::pace::{Pace, random};
use crate::keys::unknown;
use crate::{Error, Frame, Result, Source};

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
    pub size: (u16, u16),
    pub flows: u32,
    pub seed: u64,
    pub eth_src: [u8; 6],
    pub eth_dst: Option<[u8; 6]>,
    pub src: IpAddr,
    pub dst: IpAddr,
    pub sport: u16,
    pub dport: u16,
    pub ttl: u8,
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
            size: (60, 60),
            flows: 1,
            seed: 0,
            eth_src: [2, 0, 0, 0, 0, 1],
            eth_dst: None,
            src: IpAddr::from([10, 1, 0, 2]),
            dst: IpAddr::from([10, 2, 0, 2]),
            sport: 1_024,
            dport: 5_001,
            ttl: 64,
        }
    }
}

/// The name in error messages.
const NAME: &str = "generator";

/// The length of an Ethernet header, in bytes.
const ETHERNET: u16 = 14;

/// The maximum number of flows. A TCP-like generator keeps four bytes per flow.
const MAX_FLOWS: u32 = 16_777_216;

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

fn rate(key: &str, text: &str) -> Result<Rate> {
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

fn sizes(key: &str, text: &str) -> Result<(u16, u16)> {
    let (least, most) = text.split_once('-').unwrap_or((text, text));
    match (least.parse(), most.parse()) {
        (Ok(least), Ok(most)) if least <= most => Ok((least, most)),
        _ => Err(Error::new(
            NAME,
            format!("{key}={text} is not a valid value for {key}"),
        )),
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
const KEYS: [&str; 19] = [
    "proto", "rate", "gaps", "on", "off", "burst", "count", "start", "stop", "size", "flows",
    "seed", "eth_src", "eth_dst", "src", "dst", "sport", "dport", "ttl",
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
                "seed" => p.seed = value(key, text)?,
                "eth_src" => p.eth_src = ethernet(key, text)?,
                "eth_dst" => p.eth_dst = Some(ethernet(key, text)?),
                "src" => p.src = value(key, text)?,
                "dst" => p.dst = value(key, text)?,
                "sport" => p.sport = value(key, text)?,
                "dport" => p.dport = value(key, text)?,
                "ttl" => p.ttl = value(key, text)?,
                _ => return Err(Error::new(NAME, unknown(key, &KEYS))),
            }
        }
        parameters.size = size.unwrap_or_else(|| {
            let length = parameters.size.0.max(parameters.shortest());
            (length, length)
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
    fn shortest(&self) -> u16 {
        let network = if self.src.is_ipv4() { 20 } else { 40 };
        let transport = match self.proto {
            Protocol::Udp => 8,
            Protocol::Tcp => 20,
        };
        ETHERNET + network + transport
    }

    /// Returns true if the generator never ends.
    pub fn endless(&self) -> bool {
        self.count == 0 && self.stop == u64::MAX
    }
}

/// The source that generates frames.
#[derive(Debug)]
pub struct Generator {
    parameters: Parameters,
    frames: u64,
    random: u64,
    pace: Pace,
    /// For TCP, the next sequence number of each flow; 0 before the SYN.
    sequence: Vec<u32>,
}

impl Generator {
    /// Checks `parameters` and creates the source.
    pub fn new(parameters: Parameters) -> Result<Generator> {
        let wrong = |what: &'static str| Err(Error::new(NAME, what));
        if matches!(parameters.rate, Rate::Frames(0) | Rate::Bits(0)) || parameters.burst == 0 {
            return wrong("rate and burst must be 1 or more");
        }
        if !(1..=MAX_FLOWS).contains(&parameters.flows) {
            return wrong("flows must be from 1 to 16777216");
        }
        if parameters.src.is_ipv4() != parameters.dst.is_ipv4() {
            return wrong("src and dst must be of the same family");
        }
        let (least, shortest) = (parameters.size.0, parameters.shortest());
        if least < shortest {
            let what = format!("size={least} is too short: the headers need {shortest} bytes");
            return Err(Error::new(NAME, what));
        }
        let flows = match parameters.proto {
            Protocol::Udp => 0,
            Protocol::Tcp => parameters.flows as usize,
        };
        let mut random = parameters.seed;
        let pace = Pace::new(&parameters, &mut random);
        Ok(Generator {
            parameters,
            frames: 0,
            random,
            pace,
            sequence: vec![0; flows],
        })
    }

    /// Builds a frame of `flow` with `size` bytes, which is enough for the headers.
    fn build(&mut self, flow: u32, size: u16, data: &mut Vec<u8>) {
        let p = &self.parameters;
        let ports = 65_536 - u32::from(p.sport);
        // Below 65,536 because of the remainder.
        let sport = p.sport + (flow % ports) as u16;
        let source = next_address(p.src, flow / ports);

        data.clear();
        data.extend_from_slice(&p.eth_dst.unwrap_or([2, 0, 0, 0, 0, 2]));
        data.extend_from_slice(&p.eth_src);
        let (ether_type, network_len): (u16, usize) = match p.src {
            IpAddr::V4(_) => (0x0800, 20),
            IpAddr::V6(_) => (0x86dd, 40),
        };
        data.extend_from_slice(&ether_type.to_be_bytes());
        let (number, header_len) = match p.proto {
            Protocol::Udp => (17, 8),
            Protocol::Tcp => (6, 20),
        };
        let network = data.len();
        let transport = network + network_len;
        // The SYN carries no data.
        let syn = p.proto == Protocol::Tcp && self.sequence[flow as usize] == 0;
        let shortest = transport + header_len;
        let size = if syn { shortest } else { size.into() };
        // `size` came from a `u16` or is the length of the headers.
        let transport_len = (size - transport) as u16;
        match source {
            IpAddr::V4(_) => {
                data.extend_from_slice(&[0x45, 0]);
                data.extend_from_slice(&((size - network) as u16).to_be_bytes());
                data.extend_from_slice(&(self.frames as u16).to_be_bytes());
                data.extend_from_slice(&[0x40, 0, p.ttl, number, 0, 0]);
            }
            IpAddr::V6(_) => {
                data.extend_from_slice(&[0x60, 0, 0, 0]);
                data.extend_from_slice(&transport_len.to_be_bytes());
                data.extend_from_slice(&[number, p.ttl]);
            }
        }
        let addresses = data.len();
        for address in [source, p.dst] {
            match address {
                IpAddr::V4(address) => data.extend_from_slice(&address.octets()),
                IpAddr::V6(address) => data.extend_from_slice(&address.octets()),
            }
        }
        let address_sum = sum(&data[addresses..]);
        if source.is_ipv4() {
            let checksum = fold(sum(&data[network..]));
            data[network + 10..network + 12].copy_from_slice(&checksum.to_be_bytes());
        }

        data.extend_from_slice(&sport.to_be_bytes());
        data.extend_from_slice(&p.dport.to_be_bytes());
        let checksum_at = match p.proto {
            Protocol::Udp => {
                data.extend_from_slice(&transport_len.to_be_bytes());
                data.extend_from_slice(&[0, 0]);
                transport + 6
            }
            Protocol::Tcp => {
                let sequence = &mut self.sequence[flow as usize];
                let (flags, acknowledged): (u8, u32) = if syn { (0x02, 0) } else { (0x18, 1) };
                data.extend_from_slice(&sequence.to_be_bytes());
                data.extend_from_slice(&acknowledged.to_be_bytes());
                data.extend_from_slice(&[0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
                // The SYN counts as one. 0 is reserved for a flow that has not begun.
                let step = if syn {
                    1
                } else {
                    u32::from(transport_len) - 20
                };
                *sequence = sequence.wrapping_add(step).max(1);
                transport + 16
            }
        };
        data.resize(size, 0);
        let pseudo = address_sum + u64::from(number) + (size - transport) as u64;
        let checksum = match fold(pseudo + sum(&data[transport..])) {
            0 if p.proto == Protocol::Udp => 0xffff,
            checksum => checksum,
        };
        data[checksum_at..checksum_at + 2].copy_from_slice(&checksum.to_be_bytes());
    }
}

/// Returns the address `step` after `address`, wrapping around at the end of the address space.
fn next_address(address: IpAddr, step: u32) -> IpAddr {
    match address {
        IpAddr::V4(address) => IpAddr::V4(address.to_bits().wrapping_add(step).into()),
        IpAddr::V6(address) => IpAddr::V6(address.to_bits().wrapping_add(step.into()).into()),
    }
}

/// Returns the unfolded sum of 16-bit words of the internet checksum (RFC 1071).
fn sum(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<2>();
    let sum: u64 = words
        .iter()
        .map(|word| u64::from(u16::from_be_bytes(*word)))
        .sum();
    sum + rest.first().map_or(0, |byte| u64::from(*byte) << 8)
}

/// Returns the checksum of a sum.
fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    !(sum as u16)
}

impl Source for Generator {
    fn read(&mut self, frame: &mut Frame) -> Result<bool> {
        if self.parameters.count != 0 && self.frames == self.parameters.count {
            return Ok(false);
        }
        let p = &self.parameters;
        let stamp = self.pace.stamp(p, self.frames, &mut self.random);
        let Some(time_ns) = stamp.filter(|&stamp| stamp < p.stop) else {
            return Ok(false);
        };
        // Below `flows` because of the remainder.
        let flow = (random(&mut self.random) % u64::from(p.flows)) as u32;
        let (least, most) = p.size;
        let size = match u64::from(most - least) {
            0 => least,
            // At most `more`, which came from a `u16`.
            more => least + (random(&mut self.random) % (more + 1)) as u16,
        };
        self.build(flow, size, &mut frame.data);
        let p = &self.parameters;
        self.pace.pay(p, frame.data.len(), &mut self.random);
        frame.time_ns = time_ns;
        frame.orig_len = frame.data.len() as u32;
        frame.interface = 0;
        frame.direction = crate::Direction::Unknown;
        frame.comment = None;
        self.frames += 1;
        Ok(true)
    }

    fn frames(&self) -> u64 {
        self.frames
    }
}
