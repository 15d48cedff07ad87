// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests with recorded requests of real `ip` and `tc`.
//!
//! `tests/vectors/NAME.vec` holds commands and the datagrams they sent; `record.py` makes it from
//! `NAME.cmd`. `NAME.txt` holds the same datagrams formatted as text. The test fails if they
//! differ; `WEIR_BLESS=1` rewrites the texts, for review in the diff. Each datagram is also parsed
//! and written again, and must come out byte for byte the same.
#![allow(clippy::unwrap_used)] // Helpers of tests.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use weir_netlink::{Attrs, Writer, align, fuzz, messages, nlm, print};

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors")
}

fn names() -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(directory())
        .unwrap()
        .filter_map(|e| {
            let name = e.unwrap().file_name().into_string().unwrap();
            Some(name.strip_suffix(".vec")?.to_owned())
        })
        .collect();
    names.sort();
    names
}

/// A line of a file of vectors: a command or a datagram.
enum Line {
    Command(String),
    Datagram(Vec<u8>),
}

fn load(name: &str) -> Vec<Line> {
    let text = std::fs::read_to_string(directory().join(name).with_extension("vec")).unwrap();
    text.lines()
        .filter_map(|line| match line.split_at_checked(2)? {
            ("$ ", command) => Some(Line::Command(command.to_owned())),
            ("> ", hex) => Some(Line::Datagram(
                (0..hex.len() / 2)
                    .map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap())
                    .collect(),
            )),
            _ => None,
        })
        .collect()
}

#[test]
fn requests_of_ip_and_tc_read_as_shown() {
    let (mut commands, mut wrong) = (0, Vec::new());
    for name in names() {
        let mut text = String::new();
        for line in load(&name) {
            match line {
                Line::Command(command) => {
                    commands += 1;
                    writeln!(text, "$ {command}").unwrap();
                }
                Line::Datagram(bytes) => text.push_str(&print::datagram(&bytes)),
            }
        }
        let path = directory().join(&name).with_extension("txt");
        if std::env::var_os("WEIR_BLESS").is_some() {
            std::fs::write(&path, &text).unwrap();
        } else if std::fs::read_to_string(&path).unwrap_or_default() != text {
            wrong.push(name);
        }
    }
    assert!(wrong.is_empty(), "the text of these differs: {wrong:?}");
    assert!(commands >= 250, "{commands} commands");
}

/// Writes attributes again, as a nest where the payload is a complete run of attributes. Adds the
/// offsets of padding to `pads`.
fn copy(w: &mut Writer, attrs: Attrs<'_>, pads: &mut Vec<usize>) {
    for attr in attrs {
        let end = attr.offset as usize + 4 + attr.len();
        pads.extend(end..align(end));
        let mut ty = attr.ty;
        if attr.nested {
            ty |= nlm::nla::F_NESTED;
        }
        if attr.net_byteorder {
            ty |= nlm::nla::F_NET_BYTEORDER;
        }
        let mut inside = attr.attrs();
        let plain = inside.by_ref().all(|a| a.ty != 0 && a.ty < 200);
        if !attr.is_empty() && plain && inside.rest().is_empty() {
            let nest = w.nest_noflag(ty);
            copy(w, attr.attrs(), pads);
            w.end(nest);
        } else {
            w.put(ty, attr.payload);
        }
    }
}

#[test]
fn requests_of_ip_and_tc_are_written_again() {
    for name in names() {
        let mut command = String::new();
        for line in load(&name) {
            let bytes = match line {
                Line::Command(now) => {
                    command = now;
                    continue;
                }
                Line::Datagram(bytes) => bytes,
            };
            let (mut w, mut pads) = (Writer::new(), Vec::new());
            let mut walk = messages(&bytes);
            for m in walk.by_ref() {
                let head = match m.header.ty & !3 {
                    16 | 108 => 16,                     // ifinfomsg
                    24 | 28 | 32 | 92 | 72 => 12,       // rtmsg, ndmsg, fib_rule_hdr, ...
                    36 | 40 | 44 | 100 => 20,           // tcmsg
                    20 | 104 | 56 | 60 | 84 | 112 => 8, // ifaddrmsg, nhmsg, ...
                    _ => 4,
                };
                let head = head.min(m.payload().len());
                let h = m.header;
                let mark = w.message(h.ty, h.flags, h.seq, h.pid);
                w.raw(&m.payload()[..head]);
                copy(&mut w, m.attrs_after(head), &mut pads);
                if w.finish(mark).is_err() {
                    panic!("{command}: does not fit");
                }
            }
            // iproute2 sends some requests with its whole buffer, which is filled with zeros.
            let rest = walk.rest();
            assert!(rest.iter().all(|b| *b == 0), "{command}: trailing bytes");
            // It does not count the padding after the last attribute of some messages.
            let len = bytes.len() - rest.len();
            let written = w.bytes();
            assert_eq!(written.len(), align(len), "{command}");
            // Nor does it clear all padding. (Each of these datagrams has one message.)
            let mut bytes = bytes[..len].to_vec();
            for pad in pads.into_iter().filter(|pad| *pad < len) {
                bytes[pad] = 0;
            }
            assert_eq!(written[4..len], bytes[4..], "{command}");
        }
    }
}

/// Recorded requests with a few bytes changed, cut or repeated, as a fuzzer would start.
#[test]
fn changed_requests_are_accepted() {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 33) as usize % below.max(1)
    };
    for name in names() {
        for line in load(&name) {
            let Line::Datagram(bytes) = line else {
                continue;
            };
            for _ in 0..10 {
                let mut bytes = bytes.clone();
                for _ in 0..1 + random(4) {
                    let at = random(bytes.len());
                    match random(4) {
                        0 => bytes[at] = random(256) as u8,
                        1 => bytes[at] ^= 1 << random(8),
                        2 => bytes.truncate(bytes.len() - random(bytes.len() / 4)),
                        _ => {
                            let part = bytes[at..(at + 8).min(bytes.len())].to_vec();
                            bytes.splice(at..at, part);
                        }
                    }
                }
                fuzz::one(&bytes);
            }
        }
    }
}
