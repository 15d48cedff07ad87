// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Transfers over links that delay, lose, reorder, duplicate and mark.

mod common;

use common::{Link, Net, pattern};
use weir_tcp::time::{MS, SECOND};
use weir_tcp::{Algorithm, Config, Path, Settings, State};

fn transfer(config: Config, link: Link, bytes: usize, seed: u64) -> (Net, u64) {
    let mut net = Net::new(config, Settings::default(), Path::ipv4(1500), link, seed);
    let data = pattern(bytes, seed);
    let time = net.transfer(0, &data);
    (net, time)
}

fn close(net: &mut Net) {
    let now = net.now;
    net.ends[0].open().close(now, false);
    net.flush(0);
    net.run(SECOND);
    let now = net.now;
    net.ends[1].open().close(now, false);
    net.flush(1);
    net.run(200 * SECOND);
    assert_eq!(net.ends[0].open().state(), State::Closed);
    assert_eq!(net.ends[1].open().state(), State::Closed);
    assert_eq!(net.ends[0].open().error(), 0);
    assert_eq!(net.ends[1].open().error(), 0);
}

#[test]
fn a_clean_link_sends_nothing_twice() {
    let (mut net, time) = transfer(Config::default(), Link::clean(10 * MS), 4 << 20, 1);
    assert_eq!(net.ends[0].open().retransmitted(), 0);
    // Slow start from 10 packets doubles each 20 ms: 4 MiB are there in about 10 round trips.
    assert!(time < 400 * MS, "{time}");
    close(&mut net);
}

#[test]
fn loss_reordering_and_duplication_for_many_seeds() {
    for seed in 0..50 {
        let link = Link {
            delay: 20 * MS,
            jitter: if seed % 2 == 0 { 0 } else { 5 * MS },
            loss: [0, 10, 30, 100][seed as usize % 4],
            duplicate: [0, 10, 50][seed as usize % 3],
            mark: 0,
            serialize: 12_000,
        };
        let (mut net, _) = transfer(Config::default(), link, 1 << 20, seed);
        net.links = [Link::clean(20 * MS); 2];
        close(&mut net);
    }
}

#[test]
fn both_directions_at_once() {
    for seed in 0..10 {
        let link = Link {
            loss: 20,
            jitter: 2 * MS,
            duplicate: 10,
            ..Link::clean(5 * MS)
        };
        let mut net = Net::new(
            Config::default(),
            Settings::default(),
            Path::ipv6(1500),
            link,
            seed,
        );
        net.establish();
        let data = [pattern(300_000, seed), pattern(400_000, seed + 100)];
        let mut queued = [0; 2];
        let mut got = [Vec::new(), Vec::new()];
        let limit = net.now + 1000 * SECOND;
        while got[0].len() < data[1].len() || got[1].len() < data[0].len() {
            for end in 0..2 {
                queued[end] += net.write(end, &data[end][queued[end]..]);
                net.read(end, &mut got[end]);
            }
            assert!(net.step(limit), "stuck");
        }
        assert!(got[1] == data[0] && got[0] == data[1]);
    }
}

#[test]
fn without_sack_timestamps_or_scaling() {
    for (bits, seed) in (0..8).flat_map(|bits| (0..4).map(move |seed| (bits, seed))) {
        let config = Config {
            sack: bits & 1 != 0,
            timestamps: bits & 2 != 0,
            window_scaling: bits & 4 != 0,
            congestion: if seed % 2 == 0 {
                Algorithm::Reno
            } else {
                Algorithm::Cubic
            },
            ..Config::default()
        };
        let link = Link {
            loss: 20,
            jitter: 3 * MS,
            duplicate: 5,
            ..Link::clean(10 * MS)
        };
        transfer(config, link, 400_000, seed + bits * 10);
    }
}

#[test]
fn marks_slow_down_without_loss() {
    let config = Config {
        ecn: 1,
        ..Config::default()
    };
    let link = Link {
        mark: 10,
        serialize: 12_000,
        ..Link::clean(10 * MS)
    };
    let (mut net, _) = transfer(config.clone(), link, 4 << 20, 3);
    let info = net.ends[0].open().info(net.now);
    assert_eq!(net.ends[0].open().retransmitted(), 0);
    assert!(info.options & 8 != 0 && info.delivered_ce > 0, "{info:?}");
    // ssthresh is no longer infinite: the marks were heard.
    assert!(info.words[17] < 10_000, "{info:?}");
}

#[test]
fn a_slow_reader_closes_the_window_and_opens_it() {
    let mut net = Net::new(
        Config::default(),
        Settings::default(),
        Path::ipv4(1500),
        Link::clean(MS),
        5,
    );
    net.establish();
    let data = pattern(2 << 20, 5);
    let mut queued = 0;
    for _ in 0..200 {
        queued += net.write(0, &data[queued..]);
        net.run(100 * MS);
    }
    let stuck = net.ends[1].open().readable();
    assert!(queued < data.len() && stuck < 200_000, "{stuck}");
    let before = net.sent;
    net.run(60 * SECOND);
    assert!(net.sent[0] - before[0] >= 2, "the window is probed");
    assert!(net.sent[0] - before[0] < 6, "with backoff");
    let mut got = Vec::new();
    let limit = net.now + 1000 * SECOND;
    while got.len() < data.len() {
        queued += net.write(0, &data[queued..]);
        net.read(1, &mut got);
        assert!(net.step(limit), "stuck");
    }
    assert!(got == data);
}

#[test]
fn a_smaller_mtu_is_followed() {
    let mut net = Net::new(
        Config::default(),
        Settings::default(),
        Path::ipv4(9000),
        Link::clean(5 * MS),
        6,
    );
    net.establish();
    let data = pattern(1 << 20, 6);
    let mut queued = net.write(0, &data);
    net.run(3 * MS);
    // The packets under way were too large.
    net.queue.clear();
    net.ends[0].open().set_mtu(1500);
    net.flush(0);
    assert_eq!(net.ends[0].open().mss(), 1448);
    let mut got = Vec::new();
    let limit = net.now + 1000 * SECOND;
    while got.len() < data.len() {
        queued += net.write(0, &data[queued..]);
        net.read(1, &mut got);
        assert!(net.step(limit), "stuck at {}", got.len());
    }
    assert!(got == data);
}

#[test]
fn two_runs_with_one_seed_are_the_same() {
    let link = Link {
        loss: 30,
        jitter: 9 * MS,
        duplicate: 20,
        ..Link::clean(30 * MS)
    };
    let run = || {
        let (net, time) = transfer(Config::default(), link, 500_000, 77);
        (time, net.sent, net.lost)
    };
    assert_eq!(run(), run());
}

/// A long fat pipe is filled: 100 Mbit/s with 100 ms of round trip.
#[test]
fn auto_tuning_fills_a_long_pipe() {
    let link = Link {
        serialize: 120_000,
        ..Link::clean(50 * MS)
    };
    let (mut net, time) = transfer(Config::default(), link, 30 << 20, 8);
    let rate = (30u64 << 20) * 8 * SECOND / time / 1_000_000;
    assert!(
        rate > 60,
        "{rate} Mbit/s: {:?}",
        net.ends[0].open().info(net.now)
    );
}

/// BBR fills a link that loses one packet in a hundred, and holds the queue short.
#[test]
fn bbr_fills_a_lossy_link() {
    let config = Config {
        congestion: Algorithm::Bbr,
        ..Config::default()
    };
    // 48 Mbit/s, 40 ms of round trip.
    let link = Link {
        loss: 10,
        serialize: 250_000,
        ..Link::clean(20 * MS)
    };
    let (mut net, time) = transfer(config, link, 20 << 20, 9);
    let rate = (20u64 << 20) * 8 * SECOND / time / 1_000_000;
    let info = net.ends[0].open().info(net.now);
    assert!(rate > 30, "{rate} Mbit/s: {info:?}");
    // The estimate is the rate of the link, in bytes per second.
    assert!(
        (4_500_000..6_500_000).contains(&info.delivery_rate),
        "{info:?}"
    );
    let shown = net.ends[0].open().congestion_info().expect("BBR's");
    let bandwidth = u64::from_ne_bytes(shown[..8].try_into().expect("8 bytes"));
    assert!((4_500_000..7_000_000).contains(&bandwidth), "{bandwidth}");
    // The smoothed round-trip time stays near the smallest one: no queue of a window.
    assert!(info.words[15] < 110_000, "{info:?}");
}

/// Every ten seconds BBR measures the round-trip time with a small window.
#[test]
fn bbr_probes_the_round_trip_time() {
    let config = Config {
        congestion: Algorithm::Bbr,
        ..Config::default()
    };
    let link = Link {
        serialize: 2_000_000,
        ..Link::clean(20 * MS)
    };
    let mut net = Net::new(config, Settings::default(), Path::ipv4(1500), link, 4);
    net.establish();
    let data = pattern(1 << 20, 4);
    let mut least = u32::MAX;
    let mut got = Vec::new();
    let end = net.now + 25 * SECOND;
    net.write(0, &data[..20_000]);
    while net.step(end) {
        net.write(0, &data[..20_000]);
        got.clear();
        net.read(1, &mut got);
        if net.now > end - 15 * SECOND {
            least = least.min(net.ends[0].open().info(net.now).words[18]);
        }
    }
    assert_eq!(least, 4);
    assert!(net.ends[0].open().info(net.now).words[18] > 4);
}

/// `SO_MAX_PACING_RATE` bounds the rate, and segments leave one after the other.
#[test]
fn a_pacing_rate_is_kept() {
    let settings = Settings {
        max_pacing_rate: 250_000,
        ..Settings::default()
    };
    let link = Link::clean(10 * MS);
    let mut net = Net::new(Config::default(), settings, Path::ipv4(1500), link, 2);
    let data = pattern(1 << 20, 2);
    let time = net.transfer(0, &data);
    let rate = data.len() as u64 * SECOND / time;
    assert!(
        (200_000..275_000).contains(&rate),
        "{rate} bytes per second"
    );
    assert_eq!(net.ends[0].open().info(net.now).pacing_rate, 250_000);
}

/// Where the qdisc is `fq`, flows are paced by their window.
#[test]
fn a_path_with_fair_queueing_paces() {
    let path = Path {
        paced: true,
        ..Path::ipv4(1500)
    };
    let mut net = Net::new(
        Config::default(),
        Settings::default(),
        path,
        Link::clean(50 * MS),
        3,
    );
    net.establish();
    net.write(0, &pattern(16_000, 1));
    net.run(SECOND);
    let now = net.now;
    // 40 packets of a window that is not paced would leave at once.
    net.write(0, &pattern(16_384, 1));
    let at_once = net.queue.len();
    assert!(at_once < 12, "{at_once} packets at once");
    net.run(SECOND);
    assert_eq!(net.ends[0].open().unacknowledged(), 0);
    assert!(net.now > now);
}

/// A transfer over a link with 1% loss, reordering, duplication and 200 ms of round trip. The data are made and checked as
/// they pass, so that they may be many.
fn netem(bytes: u64, seed: u64) -> (u64, Net) {
    let link = Link {
        delay: 95 * MS,
        jitter: 10 * MS,
        loss: 10,
        duplicate: 10,
        mark: 0,
        serialize: 12_000,
    };
    let mut net = Net::new(
        Config::default(),
        Settings::default(),
        Path::ipv4(1500),
        link,
        seed,
    );
    net.establish();
    let byte = |at: u64| (at ^ at >> 8 ^ at >> 17 ^ seed) as u8;
    let (mut queued, mut got) = (0u64, 0u64);
    let start = net.now;
    let mut piece = Vec::new();
    let mut read = Vec::new();
    while got < bytes {
        let room = net.ends[0].open().send_room() as u64;
        let count = room.min(bytes - queued).min(1 << 16);
        if count > 0 {
            piece.clear();
            piece.extend((queued..queued + count).map(byte));
            queued += net.write(0, &piece) as u64;
        }
        read.clear();
        net.read(1, &mut read);
        for (n, value) in read.iter().enumerate() {
            assert_eq!(
                *value,
                byte(got + n as u64),
                "seed {seed}, byte {}",
                got + n as u64
            );
        }
        got += read.len() as u64;
        assert!(
            got == bytes || net.step(u64::MAX),
            "seed {seed}: stuck at {got}"
        );
    }
    (net.now - start, net)
}

#[test]
fn netem_for_fifty_seeds() {
    for seed in 1..=50 {
        let (_, mut net) = netem(300_000, seed);
        net.links = [Link::clean(100 * MS); 2];
        close(&mut net);
    }
}

/// 1 GB for each of 50 seeds: `cargo test --release -p weir-tcp --test link -- --ignored --nocapture`. `WEIR_NETEM_BYTES`
/// and `WEIR_NETEM_SEEDS` (FIRST-LAST) choose others.
#[test]
#[ignore = "takes minutes"]
fn netem_gigabytes() {
    let number =
        |name: &str, default: &str| std::env::var(name).unwrap_or_else(|_| default.to_owned());
    let bytes: u64 = number("WEIR_NETEM_BYTES", "1000000000")
        .parse()
        .expect("a number");
    let seeds = number("WEIR_NETEM_SEEDS", "1-50");
    let (first, last) = seeds.split_once('-').expect("FIRST-LAST");
    let seed = |text: &str| text.parse::<u64>().expect("a number");
    for seed in seed(first)..=seed(last) {
        let (time, mut net) = netem(bytes, seed);
        let again = net.ends[0].open().retransmitted();
        println!(
            "seed {seed}: {bytes} bytes in {} s of the link's time, {again} packets sent again of {}",
            time / SECOND,
            net.sent[0]
        );
    }
}
