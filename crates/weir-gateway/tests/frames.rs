// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Any frames at all: the gateway neither stops nor keeps more than it may.
#![allow(clippy::unwrap_used, reason = "a test may stop there")]

mod common;

use std::net::TcpListener;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use common::{Inside, to_loopback};
use proptest::prelude::*;
use weir_gateway::Config;

const FLOWS: usize = 16;

/// A listener that accepts nothing, so that connections stay.
fn port() -> u16 {
    static LISTENER: OnceLock<TcpListener> = OnceLock::new();
    let listener = LISTENER.get_or_init(|| TcpListener::bind("127.0.0.1:0").unwrap());
    listener.local_addr().unwrap().port()
}

/// A change of a frame.
#[derive(Debug, Clone)]
enum Change {
    Byte(usize, u8),
    Cut(usize),
    Insert(usize, Vec<u8>),
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        4 => (0usize..120, any::<u8>()).prop_map(|(at, byte)| Change::Byte(at, byte)),
        1 => (0usize..200).prop_map(Change::Cut),
        1 => (14usize..80, prop::collection::vec(any::<u8>(), 1..40)).prop_map(|(at, bytes)| Change::Insert(at, bytes)),
    ]
}

fn apply(frame: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Byte(at, byte) => {
            if let Some(place) = frame.get_mut(*at) {
                *place = *byte;
            }
        }
        Change::Cut(at) => frame.truncate(*at),
        Change::Insert(at, bytes) => {
            let at = (*at).min(frame.len());
            frame.splice(at..at, bytes.iter().copied());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn any_frames_are_survived(
        steps in prop::collection::vec(
            (0usize..12, prop::collection::vec(change(), 0..4), any::<bool>(), any::<bool>(), any::<u32>()), 1..80)
    ) {
        let config = Config { translate: Some(to_loopback), flows: FLOWS, ..Config::default() };
        let mut inside = Inside::new(config);
        let port = port();
        for (kind, changes, fix, checked, number) in steps {
            let mut frame = inside.sample(kind, port, number);
            for change in &changes {
                apply(&mut frame, change);
            }
            if fix {
                common::fix_header(&mut frame);
            }
            inside.gateway.frame(&frame, checked);
            inside.gateway.turn(Duration::ZERO);
            while let Some(frame) = inside.gateway.pop() {
                prop_assert!(frame.data.len() > 14);
                inside.gateway.recycle(frame.data);
            }
            let counters = inside.gateway.counters();
            prop_assert!(counters.tcp_now.load(Relaxed) <= FLOWS as u64);
            let others = counters.udp_now.load(Relaxed) + counters.ping_now.load(Relaxed);
            prop_assert!(others <= FLOWS as u64);
        }
    }
}
