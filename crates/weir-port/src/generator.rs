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
//! | `size` | length without check sequence, or `A-B` for random lengths in that range; at least the length of the headers (a SYN has exactly that length); or `imix`, see below | bytes | 60, or the length of the headers |
//! | `flows` | number of flows, among which frames are distributed uniformly at random | | 1 |
//! | `zipf` | exponent s of Zipf's law, up to 20 and with at most 6 decimals: flow n, from 0, has a share proportional to 1 / (n + 1)^s | | none: uniform |
//! | `seed` | seed of the random numbers | | 0 |
//! | `eth_src`, `eth_dst` | Ethernet addresses | | `02:00:00:00:00:01`, `02:00:00:00:00:02` |
//! | `src`, `dst` | IPv4 or IPv6 addresses of the first flow | | `10.1.0.2`, `10.2.0.2` |
//! | `sport`, `dport` | ports of the first flow | | 1024, 5001 |
//! | `ttl` | time to live or hop limit | hops | 64 |
//! | `vlan` | `ID[:PRIO]`: an 802.1Q tag | | none |
//! | `qinq` | `ID[:PRIO]`: an 802.1ad tag in front of that of `vlan` | | none |
//!
//! Flow n has the source port `sport + n`. After port 65535 the flows continue at `sport` with the
//! next source address. Checksums are correct. All random numbers come from integers or from IEEE
//! 754's basic operations, which give the same result on every machine.
//!
//! `size=imix` is the simple IMIX: of 12 frames on average 7 have 64 bytes, 4 have 594 and 1 has 1518,
//! with the check sequence, so the frames here have 60, 590 and 1514 bytes. A length includes VLAN tags.
//! A frame is never shorter than its headers.
//!
//! Not implemented: IPv4 options, fragments, replies of the other side.

mod pace;
mod parameters;
mod port;
mod zipf;

use std::net::IpAddr;

use self::pace::{Pace, random};
pub(crate) use self::parameters::rate;
pub use self::parameters::{Gaps, Parameters, Protocol, Rate, Size, Tag};
pub use self::port::KIND;

use self::zipf::Zipf;
use crate::{Error, Frame, Result, Source};

/// The name in error messages.
const NAME: &str = "generator";

/// The maximum number of flows. A TCP-like generator keeps four bytes per flow.
const MAX_FLOWS: u32 = 16_777_216;

/// The simple IMIX: lengths without check sequence, and how many of 12 frames have them.
const IMIX: [(u16, u64); 3] = [(60, 7), (590, 4), (1514, 1)];

/// The source that generates frames.
#[derive(Debug)]
pub struct Generator {
    parameters: Parameters,
    frames: u64,
    random: u64,
    pace: Pace,
    /// The distribution of frames among the flows, unless it is uniform.
    zipf: Option<Zipf>,
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
        if parameters.qinq.is_some() && parameters.vlan.is_none() {
            return wrong("qinq= needs vlan=, the tag behind it");
        }
        let shortest = parameters.shortest();
        if let Size::Range(least, _) = parameters.size
            && least < shortest
        {
            let what = format!("size={least} is too short: the headers need {shortest} bytes");
            return Err(Error::new(NAME, what));
        }
        let flows = match parameters.proto {
            Protocol::Udp => 0,
            Protocol::Tcp => parameters.flows as usize,
        };
        let mut random = parameters.seed;
        let pace = Pace::new(&parameters, &mut random);
        let zipf = match parameters.zipf {
            0 => None,
            exponent => Some(Zipf::new(parameters.flows, f64::from(exponent) / 1e6)),
        };
        Ok(Generator {
            parameters,
            frames: 0,
            random,
            pace,
            zipf,
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
        for (protocol, tag) in [(0x88a8_u16, p.qinq), (0x8100, p.vlan)] {
            if let Some(tag) = tag {
                data.extend_from_slice(&protocol.to_be_bytes());
                data.extend_from_slice(&tag.tci().to_be_bytes());
            }
        }
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

/// Returns a length of the simple IMIX for a random number.
fn imix(number: u64) -> u16 {
    let all: u64 = IMIX.iter().map(|(_, share)| share).sum();
    let mut left = number % all;
    for (size, share) in IMIX {
        if left < share {
            return size;
        }
        left -= share;
    }
    IMIX[0].0
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
        let flow = match &self.zipf {
            Some(zipf) => zipf.draw(&mut self.random),
            // Below `flows` because of the remainder.
            None => (random(&mut self.random) % u64::from(p.flows)) as u32,
        };
        let size = match p.size {
            Size::Range(least, most) if least == most => least,
            Size::Range(least, most) => {
                let more = u64::from(most - least);
                // At most `more`, which came from a `u16`.
                least + (random(&mut self.random) % (more + 1)) as u16
            }
            Size::Imix => imix(random(&mut self.random)).max(p.shortest()),
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
