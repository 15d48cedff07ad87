// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The conversations of `weir/tests/conversations` without a flow table, as netfilter's hooks track them on Linux 6.1:
//! every segment meets the state machine and the windows. `record-events` there recorded the lines of `conntrack -E`
//! that are expected.
#![allow(clippy::unwrap_used, reason = "a test may stop there")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use weir_conntrack::{
    Action, Conntrack, Cx, Event, Family, Listener, Setting, Settings, Tuple, ipct, ips,
};
use weir_packet::{Pool, PoolConfig};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../weir/tests/conversations")
}

#[derive(Default)]
struct Lines(Mutex<Vec<String>>);

/// Writes a tuple as `conntrack` does.
fn tuple(of: &Tuple) -> String {
    let mut text = format!("src={} dst={}", of.source(), of.destination());
    text += &match (of.icmp(), of.protocol) {
        (Some((kind, code, id)), _) => format!(" type={kind} code={code} id={id}"),
        (None, 47) => format!(" srckey={:#x} dstkey={:#x}", of.src_port, of.dst_port),
        (None, 6 | 17 | 33 | 132) => format!(" sport={} dport={}", of.src_port, of.dst_port),
        _ => String::new(),
    };
    text
}

/// Rounds a time-out to the multiple of 10 that it is up to 3 seconds below.
fn rounded(seconds: u32) -> u32 {
    (seconds + 3) / 10 * 10
}

impl Listener for Lines {
    fn event(&self, event: &Event<'_>) {
        let of = event.connection;
        let kind = match event.events {
            events if events & ipct::DESTROY != 0 => "DESTROY",
            events if events & ipct::NEW != 0 => "NEW",
            _ => "UPDATE",
        };
        let protocol = match of.original.protocol {
            1 => "icmp",
            6 => "tcp",
            17 => "udp",
            33 => "dccp",
            47 => "gre",
            58 => "icmpv6",
            132 => "sctp",
            other => panic!("protocol {other}"),
        };
        let mut line = format!("[{kind}] {protocol} {}", of.original.protocol);
        line += &format!(" {}", rounded(of.timeout));
        if event.events & (ipct::PROTOINFO | ipct::DESTROY) != 0
            && let Some(state) = of.state_name()
        {
            line += &format!(" {state}");
        }
        line += &format!(" {}", tuple(&of.original));
        if of.status & ips::SEEN_REPLY == 0 {
            line += " [UNREPLIED]";
        }
        line += &format!(" {}", tuple(&of.reply));
        if of.status & ips::ASSURED != 0 {
            line += " [ASSURED]";
        }
        self.0.lock().unwrap().push(line);
    }
}

/// Tracks the frames of a capture at their times, and returns the lines.
fn track(capture: &[u8]) -> Vec<String> {
    let settings = Arc::new(Settings::default());
    settings.set(Setting::events, 1);
    let table = Conntrack::new(&settings, 7).unwrap();
    let lines = Arc::new(Lines::default());
    table.listen(Some(lines.clone()));
    let pool = Pool::new(PoolConfig::default());
    let action = Action {
        commit: true,
        ..Action::default()
    };
    let mut rest = &capture[24..];
    while let Some((head, behind)) = rest.split_first_chunk::<16>() {
        let word = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().unwrap());
        let now = (1000 + u64::from(word(0))) * 1_000_000_000 + u64::from(word(4)) * 1000;
        let (frame, behind) = behind.split_at(word(8) as usize);
        rest = behind;
        let (protocol, family) = match frame[12..14] {
            [0x08, 0x00] => (0x0800, Family::V4),
            [0x86, 0xdd] => (0x86dd, Family::V6),
            _ => continue,
        };
        let mut packet = pool.packet(&frame[14..]).unwrap();
        packet.set_network(0);
        packet.protocol = protocol;
        let mut cx = Cx {
            now,
            hook: 3,
            family: Some(family),
            random: &mut || 0,
        };
        table.act(&mut packet, &action, &mut cx);
    }
    table.listen(None);
    let lines = lines.0.lock().unwrap();
    lines.clone()
}

/// Returns the words of the lines of `conntrack -E`, with their time-outs rounded.
fn expected(text: &str) -> Vec<String> {
    let line = |line: &str| {
        let mut words: Vec<_> = line.split_ascii_whitespace().map(str::to_owned).collect();
        words[3] = rounded(words[3].parse().unwrap()).to_string();
        words.join(" ")
    };
    text.lines().map(line).collect()
}

#[test]
fn events_without_a_flow_table_are_those_of_netfilters_hooks() {
    let mut seen = 0;
    for entry in fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        if path
            .extension()
            .is_some_and(|extension| extension == "pcap")
        {
            let wanted = fs::read_to_string(path.with_extension("expected")).unwrap();
            let got = track(&fs::read(&path).unwrap());
            assert_eq!(got, expected(&wanted), "{}", path.display());
            seen += 1;
        }
    }
    assert!(seen >= 28, "{seen}");
}
