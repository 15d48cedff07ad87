// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Segments of all kinds, in any state, never make a connection panic, and it stays bounded.

mod common;

use std::sync::Arc;

use common::{Random, opening};
use weir_tcp::time::SECOND;
use weir_tcp::{Config, Connection, Header, Path, Request, Segment, Settings};

/// Something near a number that matters.
fn near(random: &mut Random, value: u32) -> u32 {
    match random.next() % 6 {
        0 => value,
        1 => value.wrapping_add((random.next() % 8) as u32),
        2 => value.wrapping_sub((random.next() % 8) as u32),
        3 => value.wrapping_add((random.next() % 100_000) as u32),
        4 => value.wrapping_sub((random.next() % 100_000) as u32),
        _ => random.next() as u32,
    }
}

/// Runs a connection on random input. The peer's view follows what the connection sends.
fn run(seed: u64, steps: u32) {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let config = Arc::new(Config {
        ecn: (seed % 3) as u8,
        sack: !seed.is_multiple_of(5),
        timestamps: !seed.is_multiple_of(7),
        ..Config::default()
    });
    let settings = Settings {
        keepalive: seed.is_multiple_of(2),
        nodelay: seed.is_multiple_of(4),
        user_timeout: if seed.is_multiple_of(9) { SECOND } else { 0 },
        max_pacing_rate: if seed.is_multiple_of(11) {
            100_000
        } else {
            u64::MAX
        },
        ..Settings::default()
    };
    let path = Path::ipv4(1500);
    let isn = random.next() as u32;
    let mut now = SECOND;
    let mut peer = random.next() as u32;
    let mut end = if seed.is_multiple_of(2) {
        Connection::connect(now, opening(&config, &settings, path, isn))
    } else {
        let syn = Header {
            seq: peer.wrapping_sub(1),
            flags: 2,
            window: 1000,
            ..Header::default()
        };
        let request = Request::new(now, &config, &settings, &path, &syn, isn, 5);
        let ack = Header {
            seq: peer,
            ack: isn.wrapping_add(1),
            flags: 16,
            window: 5000,
            ..Header::default()
        };
        request
            .accept(now, &config, &Arc::new(settings.clone()), path, &ack, &[])
            .0
    };
    let mut last = Header {
        seq: isn,
        ack: peer,
        ..Header::default()
    };
    for _ in 0..steps {
        match random.next() % 10 {
            0 => {
                end.send(now, &vec![1; (random.next() % 20_000) as usize]);
            }
            1 => {
                let count = (random.next() % 20_000) as usize;
                end.consume(now, count);
            }
            2 => {
                now += random.next() % SECOND;
                end.timeout(now);
            }
            3 if random.chance(30) => end.shutdown_send(),
            3 if random.chance(30) => end.close(now, random.chance(100)),
            3 if random.chance(100) => end.set_mtu((random.next() % 3000) as u32),
            3 => end.icmp_error(near(&mut random, last.seq), 113, random.chance(500)),
            _ => {
                let mut header = Header {
                    seq: near(&mut random, peer),
                    ack: near(&mut random, last.seq),
                    flags: if random.chance(800) {
                        0x10
                    } else {
                        random.next() as u8
                    },
                    window: random.next() as u16 >> (random.next() % 16),
                    congested: random.chance(50),
                    ecn_capable: random.chance(500),
                    ..Header::default()
                };
                if random.chance(600) {
                    header.options.timestamps =
                        Some((random.next() as u32 >> 16, near(&mut random, now as u32)));
                }
                if random.chance(400) {
                    header.options.sack_count = (random.next() % 5) as u8;
                    for block in &mut header.options.sack {
                        *block = (near(&mut random, last.seq), near(&mut random, last.seq));
                    }
                }
                let data =
                    vec![7; (random.next() % 3000) as usize * usize::from(random.chance(500))];
                if header.seq == peer && random.chance(500) {
                    peer = peer.wrapping_add(data.len() as u32);
                }
                end.segment(now, &header, &data);
            }
        }
        if random.chance(10) {
            now += random.next() % (200 * SECOND);
        }
        let mut sent = 0u32;
        end.poll(now, &mut |segment: &Segment<'_>| {
            sent += 1;
            last = segment.header;
            last.seq = last.seq.wrapping_add(segment.length() as u32);
            if random.chance(300) {
                peer = last.ack;
            }
            let mut bytes = vec![0; segment.header.length()];
            segment.header.write(&mut bytes);
            assert!(bytes.len() <= 60);
        });
        assert!(sent < 10_000);
        assert!(end.memory() < 32 << 20);
        let _ = (end.info(now).bytes(), end.take_events(), end.take_counts());
    }
}

#[test]
fn random_segments_never_panic() {
    for seed in 0..600 {
        run(seed, 400);
    }
}

#[test]
fn random_bytes_are_headers_or_not() {
    let mut random = Random(99);
    for _ in 0..20_000 {
        let mut bytes: Vec<u8> = (0..random.next() % 64)
            .map(|_| random.next() as u8)
            .collect();
        if bytes.len() > 12 {
            bytes[12] = (random.next() % 16) as u8 * 16;
        }
        if let Some((header, length)) = Header::parse(&bytes) {
            let mut again = vec![0; header.length()];
            header.write(&mut again);
            assert!(length <= bytes.len());
            if header.length() <= 60 {
                let (second, _) = Header::parse(&again).expect("what was written is a header");
                assert_eq!(second.options, header.options);
            }
        }
    }
}
