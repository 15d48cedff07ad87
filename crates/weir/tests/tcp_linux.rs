// SPDX-License-Identifier: Apache-2.0 OR MIT
//! TCP sends the segments that Linux 6.1 sends: handshakes and their options, times of retransmissions and probes, and the
//! ways in which connections end.
//!
//! `tcp/segments.py` runs programs in two namespaces and prints what passes between them; `tcp/record` has recorded
//! `segments.txt` in user-mode Linux. Here the same script runs under virtual time. The segments of each end are compared
//! in their order: flags, relative sequence numbers, lengths, options, closed windows. Two ends that send at the same time
//! may do so in either order. A time may differ by 60 ms and a tenth: the ticks of the recorded kernel are 10 ms, each timer
//! rounds up, and the next wait doubles that.
#![allow(clippy::unwrap_used, reason = "a test may stop there")]

mod common;

use std::collections::BTreeMap;
use std::path::Path;

use common::{has, script_with, users};

/// A segment: its time in ms, and the rest of the line.
type Segment = (f64, String);

/// The segments of each end in each part of a scenario. The key is scenario, part, direction.
fn parse(text: &str) -> BTreeMap<(String, usize, String), Vec<Segment>> {
    let (mut scenario, mut part) = (String::new(), 0);
    let mut all: BTreeMap<_, Vec<Segment>> = BTreeMap::new();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("== ") {
            (scenario, part) = (name.to_owned(), 0);
        } else if line == "--" {
            part += 1;
        } else {
            let mut words = line.splitn(3, ' ');
            let time = words.next().unwrap().parse().unwrap();
            let direction = words.next().unwrap().to_owned();
            let rest = words.next().unwrap().to_owned();
            let key = (scenario.clone(), part, direction);
            all.entry(key).or_default().push((time, rest));
        }
    }
    all
}

fn is_near(linux: f64, weir: f64) -> bool {
    (linux - weir).abs() <= 60.0 + linux.max(weir) / 10.0
}

#[track_caller]
fn compare(linux: &str, weir: &str) {
    let (expected, found) = (parse(linux), parse(weir));
    for (key, segments) in &expected {
        let other = found.get(key).map(Vec::as_slice).unwrap_or_default();
        let same = segments.len() == other.len()
            && segments
                .iter()
                .zip(other)
                .all(|(a, b)| a.1 == b.1 && is_near(a.0, b.0));
        assert!(
            same,
            "{key:?}\nLinux: {segments:#?}\nWeir: {other:#?}\n{weir}"
        );
    }
    let more: Vec<_> = found
        .keys()
        .filter(|key| !expected.contains_key(key))
        .collect();
    assert!(more.is_empty(), "only under Weir: {more:?}\n{weir}");
}

#[test]
fn segments_are_those_of_linux() {
    if !has("python3", "python3") {
        return;
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tcp");
    let expected = std::fs::read_to_string(folder.join("segments.txt")).unwrap();
    // The user of the run may not be allowed to read the folder.
    let program = std::fs::read_to_string(folder.join("segments.py")).unwrap();
    let script = format!("python3 - <<'END'\n{program}\nEND\n");
    for user in users() {
        let (printed, status) = script_with(*user, &[], &script);
        assert_eq!(status, 0, "{user:?}: {printed}");
        compare(&expected, &printed);
    }
}

#[test]
fn another_time_flag_or_number_is_noticed() {
    let linux = "== a\n0 > S 0 0 0 -\n0 < SA 0 1 0 -\n--\n0 > FA 1 1 0 -\n200 > FA 1 1 0 -\n";
    compare(linux, linux);
    compare(linux, &linux.replace("200", "270"));
    for (from, to) in [
        ("200", "290"),
        ("SA", "S"),
        ("> FA 1", "> FA 2"),
        ("--\n", ""),
    ] {
        let other = linux.replace(from, to);
        let differs = std::panic::catch_unwind(|| compare(linux, &other)).is_err();
        assert!(differs, "{from} {to}");
    }
}
