// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Active queue management in front of an 8 Mbit/s line: codel, fq_codel, red.

use std::collections::VecDeque;

use super::{Arrival, Line, START};
use weir_packet::DropReason;

const TBF: &str = "tc qdisc add dev d0 root handle 1: tbf rate 8mbit burst 2000 limit 10000000";
const MS: u64 = 1_000_000;

/// Returns the packets of a flow that sends 1000 bytes every `gap` ns.
fn flow(flow: u16, count: u64, gap: u64) -> Vec<Arrival> {
    let arrival = |i| Arrival {
        time: START + i * gap,
        len: 1000,
        flow,
        priority: 0,
    };
    (0..count).map(arrival).collect()
}

/// The algorithm of RFC 8289, section 5, in floating point. A packet leaves every `turn` ns.
/// Returns the times at which the law drops packets.
fn codel(arrivals: &[Arrival], turn: u64) -> Vec<u64> {
    let (target, interval) = (5 * MS, 100 * MS);
    let (mut queue, mut next) = (VecDeque::new(), 0);
    let (mut first_above, mut dropping, mut drop_next) = (0_u64, false, 0_u64);
    let (mut count, mut last_count) = (0_u32, 0_u32);
    let control_law =
        |time: u64, count: u32| time + (interval as f64 / f64::from(count).sqrt()) as u64;
    let (mut now, mut drops) = (START, Vec::new());
    loop {
        while next < arrivals.len() && arrivals[next].time <= now {
            queue.push_back(arrivals[next].time);
            next += 1;
        }
        let mut take = |queue: &mut VecDeque<u64>| -> (bool, bool) {
            let Some(arrived) = queue.pop_front() else {
                first_above = 0;
                return (false, false);
            };
            if now - arrived < target || queue.len() < 2 {
                first_above = 0;
                return (true, false);
            }
            if first_above == 0 {
                first_above = now + interval;
                return (true, false);
            }
            (true, now >= first_above)
        };
        let (some, ok) = take(&mut queue);
        if !some && next == arrivals.len() {
            return drops;
        }
        if dropping {
            if !ok {
                dropping = false;
            }
            while dropping && now >= drop_next {
                drops.push(now);
                count += 1;
                if take(&mut queue).1 {
                    drop_next = control_law(drop_next, count);
                } else {
                    dropping = false;
                }
            }
        } else if ok {
            drops.push(now);
            take(&mut queue);
            dropping = true;
            let delta = count.saturating_sub(last_count);
            count = if delta > 1 && now.saturating_sub(drop_next) < 16 * interval {
                delta
            } else {
                1
            };
            drop_next = control_law(now, count);
            last_count = count;
        }
        now += turn;
    }
}

#[test]
fn codel_drops_at_the_times_of_the_rfc() {
    let arrivals = flow(1, 6000, 800_000);
    let mut line = Line::new(&[
        TBF,
        "tc qdisc add dev d0 parent 1:1 handle 10: codel limit 10000",
    ]);
    line.run(&arrivals);
    assert!(
        line.drops
            .iter()
            .all(|(_, _, reason)| *reason == DropReason::QDISC_CONGESTED)
    );
    let ours: Vec<u64> = line.drops.iter().map(|(time, _, _)| *time).collect();
    let oracle = codel(&arrivals, MS);
    // The token bucket peeks at each packet one turn early, and passes a few packets without delay
    // at first. After that the gaps are compared. They differ because Linux's reciprocal root is a
    // step of an iteration and its unit of time is 1024 ns.
    assert!(ours[0].abs_diff(oracle[0]) <= 20 * MS);
    let gaps = |drops: &[u64]| drops.windows(2).map(|w| w[1] - w[0]).collect::<Vec<_>>();
    for (at, (ours, oracle)) in gaps(&ours).iter().zip(gaps(&oracle)).take(30).enumerate() {
        if at == 1 {
            // The first Newton step, from 1 towards 1 / sqrt(2), yields one half.
            assert!(ours.abs_diff(50 * MS) <= MS, "{ours}");
            continue;
        }
        assert!(ours.abs_diff(oracle) <= 3 * MS, "{ours} {oracle}");
    }
    let (ours, oracle) = (ours.len(), oracle.len());
    assert!(
        ours.abs_diff(oracle) * 10 <= oracle,
        "{ours} drops, {oracle} by the oracle"
    );
}

#[test]
fn fq_codel_does_not_drop_the_sparse_flow() {
    let mut line = Line::new(&[
        TBF,
        "tc qdisc add dev d0 parent 1:1 handle 10: fq_codel limit 1000 flows 256 quantum 1500",
    ]);
    let mut arrivals = flow(1, 8000, 500_000);
    arrivals.extend(flow(2, 200, 20 * MS));
    arrivals.sort_by_key(|arrival| arrival.time);
    line.run(&arrivals);
    let flow_of = |n: &u32| line.arrivals[*n as usize].flow;
    assert!(line.drops.iter().all(|(_, n, _)| flow_of(n) == 1));
    let sparse = line.left.iter().filter(|(_, n)| flow_of(n) == 2);
    let waits: Vec<u64> = sparse
        .map(|(time, n)| time - line.arrivals[*n as usize].time)
        .collect();
    assert_eq!(waits.len(), 200);
    assert!(
        waits.iter().all(|wait| *wait <= 3 * MS),
        "a packet waits for at most two of the other flow"
    );
}

/// Compares with Floyd and Jacobson's average and probability in floating point.
#[test]
fn red_drops_by_the_average() {
    let arrivals = flow(1, 30_000, 900_000);
    let mut line = Line::new(&[
        TBF,
        "tc qdisc add dev d0 parent 1:1 handle 10: red limit 400000 min 20000 max 60000 avpkt 1000 burst 30 bandwidth 8mbit probability 0.1",
    ]);
    line.run(&arrivals);
    assert!(
        line.drops
            .iter()
            .all(|(_, _, reason)| *reason == DropReason::QDISC_CONGESTED)
    );
    // The load is a tenth too high, so about that share is dropped, and the average settles where
    // the probability is that high. With the counter that spaces drops evenly, the probability is
    // about 2p / (1 + p) of the one between the thresholds.
    let share = line.drops.len() as f64 / arrivals.len() as f64;
    assert!((0.08..0.12).contains(&share), "{share}");
    let late = &line.left[line.left.len() / 2..];
    let waits = late
        .iter()
        .map(|(time, n)| time - line.arrivals[*n as usize].time);
    let octets = waits.sum::<u64>() as f64 / late.len() as f64 / 1000.0;
    assert!((35_000.0..62_000.0).contains(&octets), "{octets}");
}
