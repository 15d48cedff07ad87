// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The packets that hosts send of themselves (`weir run --link-chatter`): router solicitations, MLD
//! and IGMP reports. Their bytes are those of Linux 6.1 (`chatter/record.sh`), and without the
//! option there are none.
#![allow(clippy::unwrap_used, reason = "a test may stop there")]

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use common::{Folder, User, output, text, users, weir};
use weir_packet::checksum::{verify, verify_v6};

/// Lets v0 live through the scene.
const SCRIPT: &str = r#"set -e
pass() { sleep "$1"; }
ip link add v0 address 02:00:00:00:00:10 type veth peer name v1 address 02:00:00:00:00:11
sysctl -q -w net.ipv6.conf.v1.disable_ipv6=1
ip link set v1 up
. "$SCENE"
"#;

/// Returns the frames of a pcap file with their times in ns.
fn frames(file: &[u8]) -> Vec<(u64, Vec<u8>)> {
    let number = |at: usize| u32::from_le_bytes(*file[at..].first_chunk().unwrap());
    let unit = match number(0) {
        0xa1b2_3c4d => 1,
        0xa1b2_c3d4 => 1000,
        magic => panic!("{magic:#x}"),
    };
    let (mut at, mut frames) = (24, Vec::new());
    while at < file.len() {
        let time = u64::from(number(at)) * 1_000_000_000 + u64::from(number(at + 4)) * unit;
        let len = number(at + 8) as usize;
        frames.push((time, file[at + 16..at + 16 + len].to_vec()));
        at += 16 + len;
    }
    frames
}

/// Returns whether a frame is a neighbour solicitation: Linux's has a nonce.
fn is_solicitation(frame: &[u8]) -> bool {
    frame[12..14] == [0x86, 0xdd] && frame[20] == 58 && frame[54] == 135
}

/// Returns the frames of each protocol in the order of their first occurrence, without neighbour
/// solicitations. Random times decide how often Linux sends some of them, and in which order
/// different protocols send.
fn distinct(frames: &[(u64, Vec<u8>)]) -> [Vec<String>; 3] {
    let mut seen = [Vec::new(), Vec::new(), Vec::new()];
    for (_, frame) in frames.iter().filter(|(_, frame)| !is_solicitation(frame)) {
        let hex: String = frame.iter().map(|octet| format!("{octet:02x}")).collect();
        let protocol = match (frame[12], frame[20]) {
            (8, _) => 0,
            (_, 0) => 1,
            _ => 2,
        };
        if !seen[protocol].contains(&hex) {
            seen[protocol].push(hex);
        }
    }
    seen
}

fn run(user: User, arguments: &[&str]) -> Vec<u8> {
    play(user, "scene", arguments)
}

fn play(user: User, scene: &str, arguments: &[&str]) -> Vec<u8> {
    let folder = Folder::new();
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let scene = tests.join(format!("chatter/{scene}.sh"));
    let mut command = weir(user, &["run", "--quiet", "--out", "v0=v0.pcap"]);
    command.args(arguments).args(["--", "bash", "-c", SCRIPT]);
    command.env("FRAMES", tests.join("golden/frames.py"));
    command.env("SCENE", scene).current_dir(folder.file(""));
    let output = output(&mut command);
    assert!(output.status.success(), "{}", text(&output.stderr));
    fs::read(folder.file("v0.pcap")).unwrap()
}

#[test]
fn the_bytes_are_those_of_linux() {
    let linux = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/chatter/linux.pcap");
    let linux = distinct(&frames(&fs::read(linux).unwrap()));
    for user in users() {
        let weir = distinct(&frames(&run(*user, &["--link-chatter"])));
        for (linux, weir) in linux.iter().zip(&weir) {
            assert!(!linux.is_empty());
            assert_eq!(linux, weir, "{user:?}: the left ones are Linux's");
        }
    }
}

#[test]
fn queries_are_answered_as_by_linux() {
    let linux = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/chatter/queries.pcap");
    let linux = distinct(&frames(&fs::read(linux).unwrap()));
    for user in users() {
        let weir = distinct(&frames(&play(*user, "queries", &["--link-chatter"])));
        // Random times decide in which order groups are reported.
        let sorted = |frames: &[String]| BTreeSet::from_iter(frames.to_vec());
        for (linux, weir) in linux.iter().zip(&weir).take(2) {
            assert!(!linux.is_empty());
            assert_eq!(
                sorted(linux),
                sorted(weir),
                "{user:?}: the left ones are Linux's"
            );
        }
    }
}

/// Returns the frames that v0 sends under a scene on Linux and in Weir, which are to be equal.
fn compare(scene: &str) {
    let hex = |file: &[u8]| {
        let all = frames(file).into_iter();
        let text = |octets: Vec<u8>| octets.iter().map(|o| format!("{o:02x}")).collect();
        // Solicitations of Linux have a nonce, and reports of groups come at random times.
        let ours = |frame: &Vec<u8>| {
            !is_solicitation(frame) && (frame[12..14] != [0x86, 0xdd] || frame[20] != 0)
        };
        // Identifications of IPv4 differ, and with them the header's checksum.
        let masked = |(_, mut frame): (u64, Vec<u8>)| {
            if frame[12..14] == [8, 0] {
                frame[18..20].fill(0);
                frame[24..26].fill(0);
            }
            frame
        };
        let kept = all.map(masked).filter(ours);
        kept.map(text).collect::<Vec<String>>()
    };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/chatter");
    let linux = hex(&fs::read(folder.join(format!("{scene}.pcap"))).unwrap());
    assert!(!linux.is_empty());
    for user in users() {
        let weir = hex(&play(*user, scene, &[]));
        assert_eq!(linux, weir, "{user:?}: the left ones are Linux's");
    }
}

#[test]
fn redirects_are_those_of_linux() {
    compare("redirect");
}

#[test]
fn proxies_answer_as_in_linux() {
    compare("proxy");
}

/// Answers for others wait (`proxy_delay`), not too many of them (`proxy_qlen`).
#[test]
fn proxies_answer_late_as_in_linux() {
    compare("proxy-delay");
}

#[test]
fn two_runs_with_one_seed_are_equal() {
    let run = |seed| run(User::Own, &["--link-chatter", "--seed", seed]);
    let first = run("1");
    assert_eq!(first, run("1"));
    assert_ne!(first, run("2"));
}

#[test]
fn without_the_option_there_are_only_solicitations_of_neighbours() {
    let all = frames(&run(User::Own, &[]));
    assert!(!all.is_empty());
    assert!(all.iter().all(|(_, frame)| is_solicitation(frame)));
}

/// Hop limits and router alerts keep the packets on the link, and checksums hold.
#[test]
fn headers_and_checksums_hold() {
    let all = frames(&run(User::Own, &["--link-chatter"]));
    let (mut solicitations, mut listeners, mut igmp) = (Vec::new(), 0, 0);
    for (time, frame) in &all {
        let packet = &frame[14..];
        if frame[12..14] == [8, 0] {
            assert_eq!((packet[8], packet[9], packet[1]), (1, 2, 0xc0));
            assert_eq!(packet[20..24], [0x94, 4, 0, 0]);
            assert!(verify(&packet[..24]) && verify(&packet[24..]));
            assert_eq!(frame[..3], [1, 0, 0x5e]);
            igmp += 1;
            continue;
        }
        let (src, dst) = (packet[8..].first_chunk(), packet[24..].first_chunk());
        let at = if packet[6] == 0 { 48 } else { 40 };
        let message = &packet[at..];
        assert!(verify_v6(*src.unwrap(), *dst.unwrap(), 58, message));
        assert_eq!(frame[..2], [0x33, 0x33]);
        match message[0] {
            133 => {
                assert_eq!((packet[6], packet[7]), (58, 255));
                solicitations.push(*time);
            }
            135 => assert_eq!(packet[7], 255),
            131 | 132 | 143 => {
                assert_eq!(packet[7], 1);
                assert_eq!(packet[40..48], [58, 0, 5, 2, 0, 0, 1, 0]);
                listeners += 1;
            }
            kind => panic!("an ICMPv6 message of type {kind}"),
        }
    }
    assert!(listeners > 10 && igmp > 10, "{listeners}, {igmp}");
    // Ten percent around 4 s, and then around twice as long.
    let seconds = |a: u64, b: u64| (b - a) as f64 / 1e9;
    let first = seconds(solicitations[0], solicitations[1]);
    assert!((3.6..=4.4).contains(&first), "{first}");
    let second = seconds(solicitations[1], solicitations[2]);
    assert!(
        (1.9 * first..=2.1 * first + 0.001).contains(&second),
        "{second}"
    );
}
