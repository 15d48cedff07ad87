// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Filters find about the connections of packets what they find on Linux 6.1. After each frame of a capture in
//! `ct-frames/`, the same frames leave, to the byte, by the same filters as those that `record.py` there recorded.
#![allow(clippy::unwrap_used, reason = "a test may stop there")]

use std::path::Path;
use std::process::Command;
use std::{env, fs, process};

use weir_port::pcap::Reader;
use weir_port::{Frame, Source};

const WEIR: &str = env!("CARGO_BIN_EXE_weir");

/// The time stamp of the first frame, and the time between frames, in ns.
const BEGIN: u64 = 1_000_000_000;
const GAP: u64 = 10_000_000;

fn to_hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

/// Returns the lines of a recording; a line whose frame is `=` gets the frame of the line before.
fn recorded(text: &str) -> Vec<String> {
    let mut last = "";
    let whole = |line| {
        let (head, frame): (&str, &str) = str::rsplit_once(line, ' ').unwrap();
        if frame != "=" {
            last = frame;
        }
        format!("{head} {last}")
    };
    text.lines().map(whole).collect()
}

#[track_caller]
fn same_as_linux(name: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ct-frames");
    let script = fs::read_to_string(folder.join(format!("{name}.sh"))).unwrap();
    let place = env::temp_dir().join(format!("weir-ct-{name}-{}", process::id()));
    fs::create_dir_all(&place).unwrap();
    let devices = "sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1\n\
                   ip link add d0 address 02:00:00:00:00:01 type veth peer name p0\n\
                   ip link add d2 address 02:00:00:00:00:02 type veth peer name p2\n\
                   for device in d0 p0 d2 p2; do ip link set $device up; done\n";
    fs::write(place.join("script"), format!("{devices}{script}")).unwrap();
    let output = place.join("out.pcap");
    let run = Command::new(WEIR)
        .args(["run", "-q", "--in"])
        .arg(format!(
            "d0={}",
            folder.join(format!("{name}.pcap")).display()
        ))
        .arg("--out")
        .arg(format!("d2={}", output.display()))
        .arg(place.join("script"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{said}");
    let mut reader = Reader::open(output.to_str().unwrap()).unwrap();
    let mut frame = Frame::new(0, Vec::new());
    let mut found = Vec::new();
    while reader.read(&mut frame).unwrap() {
        if frame.data[12..14] == [0x86, 0xdd] && frame.data[20] == 44 {
            // The identification is random on Linux.
            frame.data[58..62].fill(0);
        }
        let number = (frame.time_ns - BEGIN) / GAP;
        let (octet, rest) = (frame.data[5], to_hex(&frame.data[6..]));
        found.push(format!("{number} {octet:02x} {rest}"));
    }
    let wanted = recorded(&fs::read_to_string(folder.join(format!("{name}.txt"))).unwrap());
    assert!(!wanted.is_empty());
    let different = wanted
        .iter()
        .zip(&found)
        .find(|(wanted, found)| wanted != found);
    if let Some((wanted, found)) = different {
        panic!("{name}\nLinux {wanted}\nWeir  {found}\n{said}");
    }
    assert_eq!(found.len(), wanted.len(), "{name}");
    let _ = fs::remove_dir_all(&place);
}

/// `ct_state`, `ct_mark` and `ct_label` of packets of TCP, UDP, ICMP, SCTP, DCCP, GRE and others.
#[test]
fn states() {
    same_as_linux("states");
}

/// `connmark` and `ctinfo`, with and without `ct` before them.
#[test]
fn marks() {
    same_as_linux("marks");
}

/// Translated packets of each protocol, and errors about them, to the checksum.
#[test]
fn nat() {
    same_as_linux("nat");
}

/// The same addresses and ports in several zones.
#[test]
fn zones() {
    same_as_linux("zones");
}

/// Fragments that `ct` joins, and that leave with the lengths that they had.
#[test]
fn fragments() {
    same_as_linux("fragments");
}
