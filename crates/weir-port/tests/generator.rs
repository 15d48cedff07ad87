// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests that the generator produces what was requested, and the same every time.
#![allow(clippy::unwrap_used, reason = "a test may stop there")]

use weir_port::generator::{Gaps, Generator, Parameters, Protocol, Rate, Size, Tag};
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

/// A frame is due once the frames before it have taken their time at the rate, rounded once.
#[test]
fn a_rate_in_bits_is_kept() {
    let frames = frames("rate=3mbit,size=60-1514,count=1000,start=1ms");
    let mut bits = 0;
    for frame in &frames {
        assert_eq!(frame.time_ns, 1_000_000 + bits * 1_000 / 3);
        bits += frame.data.len() as u64 * 8;
    }
    let lengths = frames.iter().map(|frame| frame.data.len());
    assert!(lengths.clone().all(|len| (60..=1514).contains(&len)));
    // 1455 equally likely lengths: the mean of 1000 of them is within 4 deviations of 787.
    let mean = lengths.sum::<usize>() as f64 / 1000.0;
    assert!(
        (mean - 787.0).abs() < 4.0 * 420.0 / 1000_f64.sqrt(),
        "{mean}"
    );
}

#[test]
fn there_are_no_frames_after_the_stop() {
    let times: Vec<_> = frames("rate=10,start=1s,stop=1500ms")
        .iter()
        .map(|frame| frame.time_ns / 1_000_000)
        .collect();
    assert_eq!(times, [1000, 1100, 1200, 1300, 1400]);
}

/// The gaps of a Poisson process are exponentially distributed: their mean and deviation follow
/// from the rate, and a gap exceeds t with probability e^-t. All four estimates are within 5
/// deviations, which fails with probability 6e-7 for each.
#[test]
fn poisson_gaps_are_exponential() {
    let count = 100_000;
    let frames = frames(&format!("rate=1000,gaps=poisson,count={count},seed=3"));
    let gaps: Vec<f64> = frames
        .windows(2)
        .map(|w| (w[1].time_ns - w[0].time_ns) as f64 / 1e6)
        .collect();
    let n = gaps.len() as f64;
    let mean = gaps.iter().sum::<f64>() / n;
    assert!((mean - 1.0).abs() < 5.0 / n.sqrt(), "{mean}");
    let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / n;
    assert!(
        (variance - 1.0).abs() < 5.0 * (8.0 / n).sqrt(),
        "{variance}"
    );
    for above in [1.0_f64, 3.0] {
        let chance = (-above).exp();
        let share = gaps.iter().filter(|gap| **gap > above).count() as f64 / n;
        let deviation = (chance * (1.0 - chance) / n).sqrt();
        assert!((share - chance).abs() < 5.0 * deviation, "{above}: {share}");
    }
}

/// A quarter of the time is active if silent periods are three times as long on average.
#[test]
fn silent_periods_separate_frames() {
    let frames = frames("rate=10000,on=10ms,off=30ms,stop=40s,seed=5");
    let gaps: Vec<u64> = frames
        .windows(2)
        .map(|w| w[1].time_ns - w[0].time_ns)
        .collect();
    // 1000 periods of 40 ms, each with a deviation of at most 32 ms: within 5 deviations of the
    // sum.
    let silences = gaps.iter().filter(|gap| **gap > 100_000).count();
    assert!(silences.abs_diff(1000) < 130, "{silences}");
    let share = frames.len() as f64 / 400_000.0;
    assert!((share - 0.25).abs() < 0.05, "{share}");
    let silent: u64 = gaps.iter().map(|gap| gap - 100_000).sum();
    let mean = silent as f64 / silences as f64;
    assert!((mean - 30e6).abs() < 5.0 * 30e6 / 1000_f64.sqrt(), "{mean}");
    assert!(gaps.iter().all(|gap| *gap >= 100_000));
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
fn sizes_are_kept_and_the_default_fits_the_headers() {
    let length = |text: &str| frames(text)[0].data.len();
    assert_eq!(length("size=42,count=1"), 42);
    assert_eq!(length("size=65535,count=1"), 65_535);
    assert_eq!(length("count=1"), 60);
    assert_eq!(length("count=1,src=::1,dst=::2,proto=tcp"), 74);
}

#[test]
fn a_tcp_flow_has_one_syn_and_continues() {
    let frames = frames("proto=tcp,size=154,count=3");
    let numbers = frames.iter().map(|f| {
        (
            f.data[47],
            u32::from_be_bytes(f.data[38..42].try_into().unwrap()),
        )
    });
    assert!(numbers.eq([(0x02, 0), (0x18, 1), (0x18, 101)]));
}

/// The first flow has the share of Zipf's law, within 5 deviations: 1 of the sum of 1/n^2 for 3 flows.
#[test]
fn flows_follow_zipfs_law() {
    let frames = frames("flows=3,zipf=2,count=10000,seed=2");
    let first = frames.iter().filter(|f| ports(f).0 == 1024).count();
    let chance: f64 = 36.0 / 49.0;
    let deviation = (10_000.0 * chance * (1.0 - chance)).sqrt();
    assert!(
        (first as f64 - 10_000.0 * chance).abs() < 5.0 * deviation,
        "{first}"
    );
}

/// 7, 4 and 1 of 12 frames have 64, 594 and 1518 bytes with their check sequence, within 5 deviations.
#[test]
fn the_simple_imix() {
    let frames = frames("size=imix,count=12000,seed=4");
    for (size, share) in [(60, 7.0), (590, 4.0), (1514, 1.0)] {
        let count = frames.iter().filter(|f| f.data.len() == size).count();
        let chance = share / 12.0;
        let deviation = (12_000.0_f64 * chance * (1.0 - chance)).sqrt();
        assert!(
            (count as f64 - 1000.0 * share).abs() < 5.0 * deviation,
            "{size}: {count}"
        );
    }
    // Headers of 74 bytes do not fit into the shortest frame.
    let long = self::frames("size=imix,count=100,src=::1,dst=::2,proto=tcp");
    assert!(long.iter().all(|f| [74, 590, 1514].contains(&f.data.len())));
}

#[test]
fn tags_stand_in_front_of_the_ethertype() {
    let tagged = frames("vlan=5:3,qinq=7:1,count=1");
    assert_eq!(tagged[0].data.len(), 60);
    let tags = [0x88, 0xa8, 0x20, 7, 0x81, 0, 0x60, 5, 8, 0, 0x45];
    assert_eq!(tagged[0].data[12..23], tags);
    assert_eq!(
        frames("vlan=5,size=46,count=1")[0].data[12..18],
        [0x81, 0, 0, 5, 8, 0]
    );
    // The checksums are correct: the IPv4 header and the datagram with its pseudo header sum to 0xffff.
    let data = &frames("vlan=5,size=100,count=1")[0].data;
    let sum = |bytes: &[u8]| -> u32 {
        let words = bytes
            .chunks(2)
            .map(|w| u32::from(w[0]) << 8 | u32::from(*w.get(1).unwrap_or(&0)));
        words.sum()
    };
    let fold = |sum: u32| (sum & 0xffff) + (sum >> 16);
    assert_eq!(fold(sum(&data[18..38])), 0xffff);
    assert_eq!(
        fold(sum(&data[30..]) + 17 + (data.len() as u32 - 38)),
        0xffff
    );
}

#[test]
fn every_parameter_is_parsed() {
    let text = "proto=tcp,rate=5mbit,gaps=poisson,on=1ms,off=2s,burst=2,count=3,start=4us,stop=5s,\
                size=80-90,flows=6,seed=7,\
                eth_src=02:0:0:0:0:a,eth_dst=02:00:00:00:00:0b,src=1.2.3.4,dst=5.6.7.8,sport=9,\
                dport=10,ttl=11,zipf=1.01,vlan=5:3,qinq=4094";
    let expected = Parameters {
        proto: Protocol::Tcp,
        rate: Rate::Bits(5_000_000),
        gaps: Gaps::Poisson,
        on: 1_000_000,
        off: 2_000_000_000,
        burst: 2,
        count: 3,
        start: 4_000,
        stop: 5_000_000_000,
        size: Size::Range(80, 90),
        flows: 6,
        zipf: 1_010_000,
        seed: 7,
        eth_src: [2, 0, 0, 0, 0, 10],
        eth_dst: Some([2, 0, 0, 0, 0, 11]),
        src: [1, 2, 3, 4].into(),
        dst: [5, 6, 7, 8].into(),
        sport: 9,
        dport: 10,
        ttl: 11,
        vlan: Some(Tag { id: 5, priority: 3 }),
        qinq: Some(Tag {
            id: 4094,
            priority: 0,
        }),
    };
    assert_eq!(text.parse::<Parameters>().unwrap(), expected);
    assert_eq!("stop=1s".parse::<Parameters>().unwrap().count, 0);
    assert_eq!("".parse::<Parameters>().unwrap(), Parameters::default());
}

#[test]
fn invalid_parameters_are_refused() {
    let message = |text: &str| match text.parse::<Parameters>() {
        Err(error) => error.to_string(),
        Ok(parameters) => Generator::new(parameters).unwrap_err().to_string(),
    };
    assert_eq!(
        message("speed=1"),
        "generator: speed is not a parameter; did you mean seed?"
    );
    assert_eq!(
        message("dprot=1"),
        "generator: dprot is not a parameter; did you mean dport?"
    );
    assert!(
        message("x=1")
            .starts_with("generator: x is not a parameter; the parameters are proto, rate, gaps, ")
    );
    for (text, shortest) in [
        ("size=20", 42),
        ("size=41-100", 42),
        ("size=53,proto=tcp", 54),
        ("proto=tcp,src=::1,dst=::2,size=73", 74),
        ("vlan=1,size=45", 46),
        ("vlan=1,qinq=2,size=49", 50),
    ] {
        let error = message(text);
        assert!(
            error.ends_with(&format!(" is too short: the headers need {shortest} bytes")),
            "{error}"
        );
    }
    assert_eq!(message("rate"), "generator: rate has no value");
    assert_eq!(
        message("rate=-1"),
        "generator: rate=-1 is not a valid value for rate"
    );
    assert_eq!(
        message("proto=icmp"),
        "generator: proto=icmp is neither udp nor tcp"
    );
    assert_eq!(
        message("eth_src=1:2:3"),
        "generator: eth_src=1:2:3 is not an Ethernet address"
    );
    assert_eq!(
        message("rate=0"),
        "generator: rate and burst must be 1 or more"
    );
    for text in [
        "rate=5tbit",
        "rate=bit",
        "on=1m",
        "size=9-8",
        "size=-",
        "stop=-1s",
        "zipf=0",
        "zipf=20.1",
        "zipf=1.0000001",
        "zipf=1e3",
        "vlan=4095",
        "vlan=5:8",
        "vlan=5:",
        "qinq=",
    ] {
        let key = text.split('=').next().unwrap();
        assert_eq!(
            message(text),
            format!("generator: {text} is not a valid value for {key}")
        );
    }
    assert_eq!(
        message("gaps=pareto"),
        "generator: gaps=pareto is neither constant nor poisson"
    );
    assert_eq!(
        message("rate=0bit"),
        "generator: rate and burst must be 1 or more"
    );
    assert_eq!(
        message("flows=0"),
        "generator: flows must be from 1 to 16777216"
    );
    assert_eq!(
        message("qinq=1"),
        "generator: qinq= needs vlan=, the tag behind it"
    );
    assert_eq!(
        message("src=::1"),
        "generator: src and dst must be of the same family"
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
