// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The generator makes what it is asked for, and the same every time.
#![allow(clippy::unwrap_used, reason = "a test may stop there")]

use weir_port::generator::{Generator, Parameters, Protocol};
use weir_port::null::Null;
use weir_port::{Frame, Sink, Source};

fn frames(parameters: &str) -> Vec<Frame> {
    let mut generator = Generator::new(parameters.parse().unwrap()).unwrap();
    let mut frames = Vec::new();
    let mut frame = Frame::default();
    while generator.read(&mut frame).unwrap() {
        frames.push(frame.clone());
    }
    assert_eq!(generator.frames(), frames.len() as u64);
    frames
}

fn ports(frame: &Frame) -> (u16, u16) {
    let word = |at| u16::from_be_bytes([frame.data[at], frame.data[at + 1]]);
    (word(34), word(36))
}

#[test]
fn rate_burst_and_start() {
    let times: Vec<_> = frames("rate=3,burst=2,count=5,start=7")
        .iter()
        .map(|frame| frame.time_ns)
        .collect();
    assert_eq!(times, [7, 7, 666_666_673, 666_666_673, 1_333_333_340]);
}

#[test]
fn same_seed_same_frames() {
    assert_eq!(
        frames("flows=50,seed=1,proto=tcp"),
        frames("flows=50,seed=1,proto=tcp")
    );
    assert_ne!(frames("flows=50,seed=1"), frames("flows=50,seed=2"));
}

#[test]
fn flows_spread_over_ports_then_addresses() {
    let frames = frames("flows=4,sport=65534,count=100");
    let mut flows: Vec<_> = frames.iter().map(|f| (f.data[29], ports(f).0)).collect();
    flows.sort_unstable();
    flows.dedup();
    assert_eq!(flows, [(2, 65_534), (2, 65_535), (3, 65_534), (3, 65_535)]);
}

#[test]
fn short_sizes_are_raised_and_long_ones_kept() {
    assert_eq!(frames("size=0,count=1")[0].data.len(), 42);
    assert_eq!(frames("size=65535,count=1")[0].data.len(), 65_535);
    assert_eq!(
        frames("size=0,count=1,src=::1,dst=::2,proto=tcp")[0]
            .data
            .len(),
        74
    );
}

#[test]
fn a_tcp_flow_begins_once_and_runs_on() {
    let frames = frames("proto=tcp,size=154,count=3");
    let numbers = frames.iter().map(|f| {
        (
            f.data[47],
            u32::from_be_bytes(f.data[38..42].try_into().unwrap()),
        )
    });
    assert!(numbers.eq([(0x02, 0), (0x18, 1), (0x18, 101)]));
}

#[test]
fn every_parameter_is_parsed() {
    let text = "proto=tcp,rate=5,burst=2,count=3,start=4,size=80,flows=6,seed=7,\
                eth_src=02:0:0:0:0:a,eth_dst=02:00:00:00:00:0b,src=1.2.3.4,dst=5.6.7.8,sport=9,\
                dport=10,ttl=11";
    let expected = Parameters {
        proto: Protocol::Tcp,
        rate: 5,
        burst: 2,
        count: 3,
        start: 4,
        size: 80,
        flows: 6,
        seed: 7,
        eth_src: [2, 0, 0, 0, 0, 10],
        eth_dst: [2, 0, 0, 0, 0, 11],
        src: [1, 2, 3, 4].into(),
        dst: [5, 6, 7, 8].into(),
        sport: 9,
        dport: 10,
        ttl: 11,
    };
    assert_eq!(text.parse::<Parameters>().unwrap(), expected);
    assert_eq!("".parse::<Parameters>().unwrap(), Parameters::default());
}

#[test]
fn what_makes_no_sense_is_refused() {
    let message = |text: &str| match text.parse::<Parameters>() {
        Err(error) => error.to_string(),
        Ok(parameters) => Generator::new(parameters).unwrap_err().to_string(),
    };
    assert_eq!(message("speed=1"), "generator: speed is no parameter");
    assert_eq!(message("rate"), "generator: rate has no value");
    assert_eq!(
        message("rate=-1"),
        "generator: rate=-1 is no value for rate"
    );
    assert_eq!(
        message("proto=icmp"),
        "generator: proto=icmp is neither udp nor tcp"
    );
    assert_eq!(
        message("eth_src=1:2:3"),
        "generator: eth_src=1:2:3 is no Ethernet address"
    );
    assert_eq!(
        message("rate=0"),
        "generator: rate and burst must be 1 or more"
    );
    assert_eq!(
        message("flows=0"),
        "generator: flows must be from 1 to 16777216"
    );
    assert_eq!(
        message("src=::1"),
        "generator: src and dst must be of one family"
    );
}

#[test]
fn null_counts() {
    let mut null = Null::new();
    assert_eq!(
        (null.interface("a").unwrap(), null.interface("b").unwrap()),
        (0, 1)
    );
    for frame in frames("count=10,size=100") {
        null.write(&frame).unwrap();
    }
    let summary = null.finish().unwrap();
    assert_eq!(
        (summary.frames, summary.bytes, summary.lost),
        (10, 1_000, 0)
    );
}
