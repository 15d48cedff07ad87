// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of cake: its shaper to the nanosecond, COBALT compared with the papers, shares of tins,
//! hosts and flows.

use super::driven::Driven;
use super::{Arrival, Line, START, traffic};
use weir_packet::DropReason;

const MS: u64 = 1_000_000;

/// Returns the departure times on a line of 1 MB/s if no packet is dropped. `on_the_line` maps a
/// length to the bytes on the line.
fn closed_form(arrivals: &[Arrival], on_the_line: impl Fn(u64) -> u64) -> Vec<u64> {
    let mut free = 0;
    let leave = |arrival: &Arrival| {
        let time = arrival.time.max(free);
        free = time + on_the_line(arrival.len as u64) * 1000;
        time
    };
    arrivals.iter().map(leave).collect()
}

#[test]
fn cake_shapes_to_the_nanosecond() {
    let cells = |len: u64| (len - 14 + 20).max(200).div_ceil(48) * 53;
    let code = |len: u64| len - 14 + 8 + (len - 14 + 8).div_ceil(64);
    let whole = |len: u64| len;
    let cases: [(&str, &dyn Fn(u64) -> u64); 3] = [
        (
            "tc qdisc add dev d0 root handle 1: cake bandwidth 8mbit besteffort flowblind rtt 1000s",
            &whole,
        ),
        (
            "tc qdisc add dev d0 root handle 1: cake bandwidth 8mbit besteffort flowblind rtt 1000s overhead 20 mpu 200 atm",
            &cells,
        ),
        (
            "tc qdisc add dev d0 root handle 1: cake bandwidth 8mbit besteffort flowblind rtt 1000s overhead 8 ptm",
            &code,
        ),
    ];
    for (command, on_the_line) in cases {
        let arrivals = traffic(7, 2000, 5_000_000);
        let mut line = Line::new(&[command]);
        line.run(&arrivals);
        assert!(line.drops.is_empty());
        assert_eq!(line.departures(), closed_form(&arrivals, on_the_line));
        assert_eq!(line.root().1 as usize, arrivals.len());
    }
}

/// RFC 8289's control law in floating point, as modified by COBALT ("Piece of CAKE", section III.C,
/// and the kernel's comments). The count also falls step by step, the last packet is never dropped,
/// the target is at least four frames, and the first signal of a new queue comes with the second
/// packet over the target.
fn cobalt(arrivals: &[Arrival], turn: u64, frame: u64) -> Vec<u64> {
    let (over, interval) = ((5 * MS).max(4 * frame), (100 * MS) as f64);
    let root = |count: u32| interval / f64::from(count.max(1)).sqrt();
    let (mut queue, mut next) = (std::collections::VecDeque::new(), 0);
    let (mut count, mut dropping, mut drop_next, mut fresh) = (0_u32, false, 0.0_f64, true);
    let (mut now, mut drops) = (START, Vec::new());
    loop {
        while next < arrivals.len() && arrivals[next].time <= now {
            queue.push_back(arrivals[next].time);
            next += 1;
        }
        loop {
            let Some(arrived) = queue.pop_front() else {
                if next == arrivals.len() {
                    return drops;
                }
                break;
            };
            let time = now as f64;
            let mut past = time - drop_next;
            let due = count > 0 && past >= 0.0;
            if now - arrived > over {
                if !dropping {
                    dropping = true;
                    drop_next = time + if fresh { 0.0 } else { root(count) };
                }
                count = count.max(1);
            } else {
                dropping = false;
            }
            let mut drop = false;
            if due && dropping {
                (drop, fresh) = (true, false);
                count += 1;
                drop_next += root(count);
                past = time - drop_next;
            } else if due {
                while count > 0 && past >= 0.0 {
                    (count, fresh) = (count - 1, false);
                    drop_next += root(count);
                    past = time - drop_next;
                }
            }
            if count == 0 {
                drop_next = time + interval;
            } else if past > 0.0 && !drop {
                drop_next = time;
            }
            if !drop || queue.is_empty() {
                break;
            }
            drops.push(now);
        }
        now += turn;
    }
}

#[test]
fn cobalt_drops_at_the_times_of_the_papers() {
    let arrival = |i: u64| Arrival {
        time: START + i * 800_000,
        len: 1000,
        ..Arrival::default()
    };
    let arrivals: Vec<Arrival> = (0..8000).map(arrival).collect();
    let mut line = Line::new(&[
        "tc qdisc add dev d0 root handle 1: cake bandwidth 8mbit besteffort flowblind",
    ]);
    line.run(&arrivals);
    let congested = DropReason::QDISC_CONGESTED;
    assert!(line.drops.iter().all(|(_, _, reason)| *reason == congested));
    let ours: Vec<u64> = line.drops.iter().map(|(time, _, _)| *time).collect();
    let oracle = cobalt(&arrivals, MS, 1_514_000);
    // Each of the first hundred drops is within one turn of the oracle's, because a reciprocal root
    // is wrong by a few parts in ten thousand.
    for (at, (ours, oracle)) in ours.iter().zip(&oracle).take(100).enumerate() {
        assert!(
            ours.abs_diff(*oracle) <= MS,
            "drop {at}: {ours}, by the oracle {oracle}"
        );
    }
    let (ours, oracle) = (ours.len(), oracle.len());
    assert!(
        oracle > 500 && ours.abs_diff(oracle) * 50 <= oracle,
        "{ours} drops, {oracle} by the oracle"
    );
}

/// Returns `count` packets of 1000 bytes for each pair of flow and priority, one every `gap` ns.
fn steady(flows: &[(u16, u32)], count: u64, gap: u64) -> Vec<Arrival> {
    let all = |i: u64| {
        flows.iter().map(move |&(flow, priority)| Arrival {
            time: START + i * gap,
            len: 1000,
            flow,
            priority,
        })
    };
    (0..count).flat_map(all).collect()
}

/// Returns the shares in percent, by `kind`, of the packets that left from the 1000th to the
/// 3000th.
fn shares<const N: usize>(line: &Line, kind: impl Fn(&Arrival) -> usize) -> [f64; N] {
    let mut counts = [0.0; N];
    let measured = &line.left[1000..3000];
    for (_, number) in measured {
        counts[kind(&line.arrivals[*number as usize])] += 100.0 / measured.len() as f64;
    }
    counts
}

/// Runs one host with one flow and another with three. Each flow sends at the rate of the line.
/// Returns the shares of the hosts.
fn hosts(command: &str) -> [f64; 2] {
    let mut line = Line::new(&[command]);
    let flows = [(1, 0), (0x101, 0), (0x102, 0), (0x103, 0)];
    line.run(&steady(&flows, 4000, MS));
    shares(&line, |arrival| usize::from(arrival.flow >> 8))
}

#[test]
fn cake_shares_among_hosts_first_if_configured() {
    let near = |[one, three]: [f64; 2], share: f64| {
        assert!((one - share).abs() < 2.0, "{one} {three}, not {share}");
    };
    near(
        hosts("tc qdisc add dev d0 root handle 1: cake bandwidth 8mbit besteffort flows"),
        25.0,
    );
    near(
        hosts("tc qdisc add dev d0 root handle 1: cake bandwidth 8mbit besteffort dual-srchost"),
        50.0,
    );
    near(
        hosts("tc qdisc add dev d0 root handle 1: cake bandwidth 8mbit besteffort srchost"),
        50.0,
    );
    // All flows have the same destination host. There the flows count, and at the sources the
    // hosts. The busier host decides.
    near(
        hosts("tc qdisc add dev d0 root handle 1: cake bandwidth 8mbit besteffort dual-dsthost"),
        25.0,
    );
    near(
        hosts("tc qdisc add dev d0 root handle 1: cake bandwidth 8mbit besteffort"),
        25.0,
    );
}

/// With three overloaded tins, bulk has a sixteenth of the rate, voice a quarter, and best effort
/// the rest. Without a rate the turns have weights of 1, 1/4 and 1/16.
#[test]
fn cake_gives_each_tin_its_share() {
    let tins = [(1, 0x1_0001), (2, 0x1_0002), (3, 0x1_0003)];
    let kind = |arrival: &Arrival| (arrival.priority & 3) as usize - 1;
    let mut line = Line::new(&["tc qdisc add dev d0 root handle 1: cake bandwidth 8mbit"]);
    line.run(&steady(&tins, 4000, MS));
    let [bulk, best, voice] = shares(&line, kind);
    assert!((bulk - 6.25).abs() < 0.5, "{bulk}");
    assert!((voice - 25.0).abs() < 0.5, "{voice}");
    assert!((best - 68.75).abs() < 1.0, "{best}");

    let mut line = Line::new(&[
        "tc qdisc add dev d0 root handle 2: tbf rate 8mbit burst 2000 limit 10000000",
        "tc qdisc add dev d0 parent 2:1 handle 1: cake",
    ]);
    line.run(&steady(&tins, 4000, MS));
    let [bulk, best, voice] = shares(&line, kind);
    assert!((bulk - 100.0 / 21.0).abs() < 0.5, "{bulk}");
    assert!((voice - 400.0 / 21.0).abs() < 0.5, "{voice}");
    assert!((best - 1600.0 / 21.0).abs() < 1.0, "{best}");
}

/// Over the memory limit, the longest queue loses its oldest packet.
#[test]
fn cake_drops_from_the_longest_queue_when_full() {
    let mut line = Line::new(&[
        "tc qdisc add dev d0 root handle 1: cake bandwidth 8mbit besteffort rtt 1000s memlimit 100000",
    ]);
    let mut arrivals = steady(&[(1, 0)], 400, 0);
    arrivals.extend(steady(&[(2, 0)], 3, 0));
    line.run(&arrivals);
    assert!(!line.drops.is_empty());
    for (_, number, reason) in &line.drops {
        assert_eq!(line.arrivals[*number as usize].flow, 1);
        assert_eq!(*reason, DropReason::QDISC_OVERLIMIT);
    }
    // The oldest packets are dropped, except those that left at once.
    let numbers: Vec<u32> = line.drops.iter().map(|(_, number, _)| *number).collect();
    assert!(numbers.is_sorted() && line.left.iter().any(|(_, number)| *number == 399));
}

/// The masked mark names a tin. Without a mark the code point names it, which is best effort here.
#[test]
fn cake_uses_the_tin_named_by_the_mark() {
    let mut line = Line::new(&["tc qdisc add dev d0 root handle 1: cake bandwidth 8mbit fwmark 3"]);
    // The marks are the numbers of the arrivals.
    line.run(&steady(&[(1, 0), (2, 0), (3, 0), (4, 0)], 4000, MS));
    let [unmarked, bulk, best, voice] = shares(&line, |arrival| usize::from(arrival.flow - 1));
    assert!((bulk - 6.25).abs() < 0.5, "{bulk}");
    assert!((voice - 25.0).abs() < 0.5, "{voice}");
    // Both share a tin.
    assert!((unmarked - best).abs() < 1.0, "{unmarked} {best}");
}

/// `wash` clears the code point, keeps congestion marks and updates the checksum.
#[test]
fn cake_clears_the_code_point_with_wash() {
    for (command, expected) in [
        ("tc qdisc add dev d0 root handle 1: cake besteffort wash", 1),
        ("tc qdisc add dev d0 root handle 1: cake besteffort", 0xb9),
    ] {
        let mut line = Line::new(&[command]).keep();
        let mut packet = line.packet(0, &steady(&[(1, 0)], 1, MS)[0]);
        let header = |packet: &weir_packet::Packet| packet.data()[14..34].to_vec();
        packet.data_mut()[15] = 0xb9;
        let before = header(&packet);
        line.visit(vec![packet]);
        let after = header(&line.packets[0]);
        assert_eq!(after[1], expected, "{command}");
        let sum = |header: &[u8]| {
            let words = header.chunks(2);
            let sum: u32 = words.map(|w| u32::from(w[0]) << 8 | u32::from(w[1])).sum();
            sum % 0xffff
        };
        assert_eq!(sum(&after), sum(&before), "{command}");
    }
}

/// At the receiving end of a line, a dropped packet has used the line as well.
#[test]
fn cake_counts_drops_as_sent_at_ingress() {
    let arrival = |i: u64| Arrival {
        time: START + i * 800_000,
        len: 1000,
        ..Arrival::default()
    };
    let arrivals: Vec<Arrival> = (0..8000).map(arrival).collect();
    let run = |command: &str| {
        let mut line = Line::new(&[command]);
        line.run(&arrivals);
        assert!(line.drops.len() > 500, "{}", line.drops.len());
        let turns = (line.left.last().unwrap().0 - START) / MS;
        (turns as usize, line.left.len(), line.drops.len())
    };
    let (turns, left, _) =
        run("tc qdisc add dev d0 root handle 1: cake bandwidth 8mbit besteffort flowblind");
    assert!(turns.abs_diff(left) <= 20, "{turns} for {left}");
    let (turns, left, dropped) =
        run("tc qdisc add dev d0 root handle 1: cake bandwidth 8mbit besteffort flowblind ingress");
    assert!(
        turns.abs_diff(left + dropped) <= 20,
        "{turns} for {left} and {dropped}"
    );
}

/// Packets arrive at 1 MB/s. The rate becomes 15/16 of that.
#[test]
fn cake_estimates_the_rate() {
    let mut line = Line::new(&[
        "tc qdisc add dev d0 root handle 1: cake bandwidth 100mbit autorate-ingress besteffort flowblind",
    ]);
    // A window of the estimate ends at a gap that is longer than most.
    let mut arrivals = steady(&[(1, 0)], 20_000, MS);
    for pair in arrivals.chunks_mut(2) {
        pair[1].time += MS / 2;
    }
    line.run(&arrivals);
    let measured = &line.left[line.left.len() - 3000..line.left.len() - 1000];
    let gap = (measured[1999].0 - measured[0].0) as f64 / 1999.0;
    let expected = MS as f64 * 16.0 / 15.0;
    assert!((gap / expected - 1.0).abs() < 0.01, "{gap}, not {expected}");
}

/// A packet that was peeked by the parent still waits, so the next packet finds a queue that is not
/// empty. On an empty queue, a packet that arrives before the shaper permits it counts as over the
/// limit.
#[test]
fn cake_is_not_empty_while_its_packet_is_peeked() {
    let command = "tc qdisc add dev d0 root handle 1: cake bandwidth 8mbit besteffort";
    let mut driven = Driven::new(command, START, 1);
    let arrival = Arrival {
        len: 1000,
        ..Arrival::default()
    };
    for number in 0..2 {
        driven.arrive(START, number, &arrival);
        assert!(driven.at(START, |inner, q| inner.peek(q)).is_some());
    }
    let root = driven.stack.devices[&3].tc.tree().root.clone().unwrap();
    assert_eq!(root.stats().2.overlimits, 0);
}
