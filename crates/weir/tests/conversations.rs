// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Conversations of real hosts, tracked by the action `ct`: the unmodified `conntrack -E` prints the
//! lines that it prints on Linux 6.1 for the same frames and filter. `conversations/record.py` recorded the
//! frames, and `conversations/record-action` the lines. Those of `record-events`, without a flow table, are the
//! expectation of `weir-conntrack`'s test.
#![allow(clippy::unwrap_used, reason = "a test may stop there")]

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::User;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conversations")
}

/// Returns the names of all captures, sorted.
fn names() -> Vec<String> {
    let entries = fs::read_dir(folder()).unwrap();
    let files = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = files
        .filter_map(|file| file.strip_suffix(".pcap").map(str::to_owned))
        .collect();
    names.sort();
    names
}

/// Replaces the seconds of a time-out, the first number behind the protocol's, by the time-out that
/// they are up to 3 seconds below. All time-outs here are multiples of 10.
fn lines(text: &str) -> Vec<String> {
    let line = |line: &str| {
        let mut numbers = 0;
        let word = |word: &str| match word.parse::<u64>() {
            Ok(number) => {
                numbers += 1;
                match numbers {
                    2 => ((number + 3) / 10 * 10).to_string(),
                    _ => word.to_owned(),
                }
            }
            Err(_) => word.to_owned(),
        };
        line.split_ascii_whitespace()
            .map(word)
            .collect::<Vec<_>>()
            .join(" ")
    };
    text.lines().map(line).collect()
}

fn track(user: User) {
    let names = names();
    let script = format!(
        "cd {}
        tmp=$(mktemp -d)
        ip link add v0 type veth peer name v1
        ip link set v0 up addrgenmode none
        ip link set v1 up addrgenmode none
        tc qdisc add dev v1 clsact
        tc filter add dev v1 ingress protocol all matchall action ct commit
        for name in {}; do
            conntrack -E >$tmp/events 2>/dev/null & monitor=$!
            sleep 0.5
            $WEIR inject v0 $name.pcap >/dev/null
            sleep 0.5
            kill $monitor
            wait $monitor
            echo \"== $name\"
            cat $tmp/events
            conntrack -F 2>/dev/null
        done
        rm -r $tmp",
        folder().display(),
        names.join(" ")
    );
    let (printed, status) = common::script(user, &script);
    assert_eq!(status, 0, "{printed}");
    let mut wrong = String::new();
    let mut parts = printed.split("== ").skip(1);
    for name in &names {
        let part = parts.next().unwrap_or_default();
        let (found, events) = part.split_once('\n').unwrap_or_default();
        assert_eq!(found, name, "{printed}");
        let expected = fs::read_to_string(folder().join(format!("{name}.action"))).unwrap();
        if lines(events) != lines(&expected) {
            wrong += &format!("{name}: Linux\n{expected}\nWeir\n{events}\n");
        }
    }
    assert!(wrong.is_empty(), "as {user:?}\n{wrong}");
}

#[test]
fn events_are_linuxs() {
    if !common::has("conntrack", "conntrack") {
        return;
    }
    for &user in common::users() {
        track(user);
    }
}
