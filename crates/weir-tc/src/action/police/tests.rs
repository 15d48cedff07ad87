// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Policers compared with the virtual scheduling algorithm (ATM Forum's GCRA), which has no credit:
//! a packet conforms if it arrives no earlier than its theoretical arrival time minus the burst.

use std::sync::atomic::Ordering::Relaxed;

use proptest::prelude::*;
use proptest::test_runner::contextualize_config;
use weir_netlink::TcRateSpec;
use weir_packet::DropReason;

use super::*;
use crate::action::requests::at_ingress;
use crate::testing::{Stack, ipv4};
use crate::verdict::Verdict;

/// Rates in bytes per second at which a byte takes a whole number of nanoseconds.
const RATES: [u32; 6] = [1, 1_000, 125_000, 1_000_000, 12_500_000, 125_000_000];

#[derive(Debug, Clone, Copy, Default)]
struct Bucket {
    arrival: u64,
    burst: u64,
}

impl Bucket {
    /// Returns the next theoretical arrival time if a packet that takes `cost` conforms.
    fn after(self, now: u64, cost: u64) -> Option<u64> {
        let early = self.arrival.saturating_sub(now);
        (early + cost <= self.burst).then_some(self.arrival.max(now) + cost)
    }
}

fn put(w: &mut Writer, rate: u32, burst: u64, peak: Option<u32>, mtu: u32) {
    let spec = |rate| TcRateSpec {
        rate,
        cell_log: 3,
        linklayer: 1,
        ..TcRateSpec::default()
    };
    w.put_fixed(
        attr::TBF,
        &TcPolice {
            action: code::SHOT,
            burst: (burst / 64) as u32,
            mtu,
            rate: spec(rate),
            peakrate: peak.map(spec).unwrap_or_default(),
            ..TcPolice::default()
        },
    );
    w.put(attr::RATE, &[1; TABLE_LEN]);
    w.put(attr::PEAKRATE, &[1; TABLE_LEN]);
}

fn policed(options: impl FnOnce(&mut Writer)) -> Stack {
    let stack = Stack::default();
    for request in at_ingress("police", options) {
        stack.request(&request).unwrap();
    }
    stack
}

fn passes(stack: &Stack, payload: usize) -> (bool, u64) {
    let mut frame = ipv4(17, [10, 0, 0, 1], [10, 0, 0, 2], 1, 2);
    frame.resize(frame.len() + payload, 0);
    let verdict = stack.receive(&frame);
    assert!(matches!(
        verdict,
        Verdict::Pass | Verdict::Drop(DropReason::TC_INGRESS)
    ));
    (verdict == Verdict::Pass, frame.len() as u64 - 14)
}

proptest! {
    #![proptest_config(contextualize_config(ProptestConfig::with_cases(100)))]
    #[test]
    fn bytes_within_the_rate_and_the_peak_rate_pass(
        rate in 0..RATES.len(),
        peak: bool,
        packets in 1_u64..20,
        arrivals in prop::collection::vec((0_u64..30, 0_usize..1400), 1..120),
    ) {
        let (rate, faster) = (RATES[rate], RATES[(rate + 1).min(RATES.len() - 1)]);
        let ns = |rate: u32| 1_000_000_000 / u64::from(rate);
        // The request encodes the credit in units of 64 ns, in 32 bits.
        let burst = (packets * 1000 * ns(rate) / 64).min(u64::from(u32::MAX)) * 64;
        let mtu = 1500;
        let stack = policed(|w| put(w, rate, burst, peak.then_some(faster), mtu));
        let mut bucket = Bucket { arrival: 0, burst };
        let mut peak_bucket = Bucket { arrival: 0, burst: u64::from(mtu) * ns(faster) };
        // The burst limits what passes in one instant, so the credit of the peak rate must be
        // smaller.
        prop_assume!(!peak || peak_bucket.burst <= burst);
        for (gap, payload) in arrivals {
            let now = stack.now.fetch_add(gap * gap * ns(rate) * 7, Relaxed) + gap * gap * ns(rate) * 7;
            let (passed, len) = passes(&stack, payload);
            let after = bucket.after(now, len * ns(rate));
            let peak_after = peak_bucket.after(now, len * ns(faster));
            let conforms = after.is_some() && (!peak || peak_after.is_some());
            prop_assert_eq!(passed, conforms, "at {}", now);
            if let (true, Some(after)) = (conforms, after) {
                bucket.arrival = after;
                peak_bucket.arrival = peak_after.unwrap_or(0);
            }
        }
    }

    #[test]
    fn packets_within_the_packet_rate_pass(
        rate in 0..RATES.len(),
        burst in 1_u64..50,
        gaps in prop::collection::vec(0_u64..40, 1..120),
    ) {
        let cost = 1_000_000_000 / u64::from(RATES[rate]);
        let ticks = burst * cost / 64;
        let stack = policed(|w| {
            w.put_fixed(attr::TBF, &TcPolice { action: code::SHOT, ..TcPolice::default() });
            w.put_u64(attr::PKTRATE64, u64::from(RATES[rate]));
            w.put_u64(attr::PKTBURST64, ticks);
        });
        let mut bucket = Bucket { arrival: 0, burst: ticks * 64 };
        // A new policer has no packet credit except for the time since the start of the clock.
        bucket.arrival = stack.now.load(Relaxed) + bucket.burst;
        for gap in gaps {
            let gap = gap * gap * cost / 100;
            let now = stack.now.fetch_add(gap, Relaxed) + gap;
            let after = bucket.after(now, cost);
            prop_assert_eq!(passes(&stack, 0).0, after.is_some(), "at {}", now);
            bucket.arrival = after.unwrap_or(bucket.arrival);
        }
    }
}

#[test]
fn refused() {
    let stack = Stack::default();
    let refuse = |options: &dyn Fn(&mut Writer)| {
        let [qdisc, filter] = at_ingress("police", |w| options(w));
        // The first call has already created the qdisc.
        let _ = stack.request(&qdisc);
        let error = stack.request(&filter).unwrap_err();
        (error.errno, error.message.unwrap_or_default().into_owned())
    };
    let text = |text: &str| (EINVAL, text.to_owned());
    let parms = |w: &mut Writer| put(w, 1000, 6400, None, 0);
    assert_eq!(refuse(&|_| {}), text(""));
    let short = |w: &mut Writer| w.put(attr::TBF, &[0; 40]);
    assert_eq!(refuse(&short), text(""));
    let no_table = |w: &mut Writer| {
        let rate = TcRateSpec {
            rate: 1,
            ..TcRateSpec::default()
        };
        w.put_fixed(
            attr::TBF,
            &TcPolice {
                rate,
                ..TcPolice::default()
            },
        );
    };
    assert_eq!(refuse(&no_table), (ENOMEM, String::new()));
    for (result, sentence) in [
        (77, "invalid fallback control action"),
        (2 << 28 | 3, "goto chain not allowed on fallback"),
    ] {
        let with = |w: &mut Writer| {
            parms(w);
            w.put_u32(attr::RESULT, result);
        };
        assert_eq!(refuse(&with), text(sentence));
    }
    for (ty, rated, sentence) in [
        (
            attr::PKTRATE64,
            false,
            "Both or neither packet-per-second burst and rate must be provided",
        ),
        (
            attr::PKTBURST64,
            false,
            "Both or neither packet-per-second burst and rate must be provided",
        ),
        (
            attr::PKTRATE64,
            true,
            "packet-per-second and byte-per-second rate limits not allowed in same action",
        ),
    ] {
        let with = |w: &mut Writer| {
            parms(w);
            w.put_u64(ty, 5);
            if rated {
                w.put_u64(attr::PKTBURST64, 5);
            }
        };
        assert_eq!(refuse(&with), text(sentence));
    }
    let averaged = |w: &mut Writer| {
        parms(w);
        w.put_u32(attr::AVRATE, 1000);
    };
    assert_eq!(refuse(&averaged), text(""));
    let zero = |w: &mut Writer| {
        w.put_fixed(attr::TBF, &TcPolice::default());
        w.put_u64(attr::PKTRATE64, 0);
        w.put_u64(attr::PKTBURST64, 5);
    };
    // The policy gives a minimum but no validation type, so Linux ignores the minimum.
    let [_, filter] = at_ingress("police", zero);
    assert!(stack.request(&filter).is_ok());
}
