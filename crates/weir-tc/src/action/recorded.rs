// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Actions compared with Linux: replays the recordings of `tests/actions/record.py`, which
//! describes their format. Answers to requests and the options shown must be equal, and each frame
//! must leave with the same bytes and be counted in the same way.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;

use weir_netlink::psample;
use weir_netlink::tca::{self, act, stats};
use weir_netlink::{Attr, Attrs, Fixed, GnetStatsBasic, GnetStatsQueue, TcMsg};
use weir_packet::header::ethernet::{is_vlan, protocol};
use weir_packet::{Packet, VlanTag, edit};

use crate::psample::GROUP_PACKETS;
use crate::testing::{Answer, Stack};
use crate::verdict::{Target, Verdict};

/// The devices as record.py creates them.
const D0: u32 = 3;
const D1_KEY: u64 = 1005;

fn folder() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests", "actions"]
        .iter()
        .collect()
}

fn bytes(hex: &str) -> Vec<u8> {
    let digit = |i| u8::from_str_radix(&hex[i..i + 2], 16).expect(hex);
    (0..hex.len()).step_by(2).map(digit).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the frames by name.
fn frames() -> BTreeMap<String, Vec<u8>> {
    let text = std::fs::read_to_string(folder().join("frames.vec")).unwrap();
    let rows = text.lines().filter(|line| !line.starts_with('#'));
    let row = |line: &str| {
        let (name, frame) = line.split_once(' ').unwrap();
        (name.to_owned(), bytes(frame))
    };
    rows.map(row).collect()
}

/// A line of a .cmd file and everything recorded for it.
struct Case<'a> {
    line: &'a str,
    rows: Vec<&'a str>,
}

fn cases(recording: &str) -> Vec<Case<'_>> {
    let mut cases = Vec::new();
    for row in recording.lines() {
        if let Some(line) = row.strip_prefix("$ ") {
            cases.push(Case { line, rows: vec![] });
        } else if let Some(case) = cases.last_mut() {
            case.rows.push(row);
        }
    }
    cases
}

/// Returns a frame as it arrives at a hook of d0: `ingress` from the wire, `egress` from a packet
/// socket, `tagged` from the VLAN device with id 5. Returns `None` if the frame is dropped before
/// the hook.
fn arriving(stack: &Stack, hook: &str, frame: &[u8]) -> Option<Packet> {
    let mut packet = stack.pool.packet(frame).unwrap();
    packet.reset_mac();
    let ethertype = u16::from_be_bytes([frame[12], frame[13]]);
    packet.protocol = ethertype;
    if hook == "ingress" {
        packet.protocol = protocol(ethertype, &frame[14..]);
        edit::untag(&mut packet)?;
        packet.set_network(14);
        return Some(packet);
    }
    let (mut at, mut kind) = (14, ethertype);
    while is_vlan(kind) && at + 4 <= frame.len() {
        kind = u16::from_be_bytes([frame[at + 2], frame[at + 3]]);
        at += 4;
    }
    let cut = is_vlan(kind);
    if hook == "tagged" {
        // The protocol inside the tags in the data (`vlan_parse_protocol`).
        packet.protocol = if cut { 0 } else { kind };
        let (proto, tci) = (0x8100, 5);
        packet.set_vlan(Some(VlanTag { proto, tci }));
    }
    // A packet socket sets the network header after the tags it sees (`packet_parse_headers`).
    let behind_tags = hook == "egress" && !cut;
    packet.set_network(if behind_tags { at } else { 14 });
    Some(packet)
}

/// Returns the frame on the wire, with the tag of the metadata inserted.
fn on_wire(packet: &Packet) -> Vec<u8> {
    let data = packet.data();
    match packet.vlan() {
        Some(VlanTag { proto, tci }) => {
            let (head, rest) = data.split_at(12);
            [head, &proto.to_be_bytes(), &tci.to_be_bytes(), rest].concat()
        }
        None => data.to_vec(),
    }
}

/// Formats the row of a frame that left as `data`.
fn difference(frame: &[u8], data: Option<Vec<u8>>) -> String {
    let Some(data) = data else {
        return "-".into();
    };
    if data == frame {
        return "=".into();
    }
    let most = data.len().min(frame.len());
    let same =
        |pairs: &mut dyn Iterator<Item = (&u8, &u8)>| pairs.take_while(|(a, b)| a == b).count();
    let start = same(&mut data.iter().zip(frame));
    let end = same(&mut data.iter().rev().zip(frame.iter().rev())).min(most - start);
    let changed = match &data[start..data.len() - end] {
        [] => ".".into(),
        changed => hex(changed),
    };
    format!("{start} {changed} {end}")
}

fn find<'a>(mut attrs: Attrs<'a>, path: &[u16]) -> Option<Attr<'a>> {
    let (last, path) = path.split_last()?;
    for &ty in path {
        attrs = attrs.find_type(ty)?.attrs();
    }
    attrs.find_type(*last)
}

/// Formats options without the ages, which depend on the time: they are the last attribute of their
/// length. Kernels that pad 64-bit values, as UML does, put an empty attribute in front of each.
fn without_ages(options: &[u8]) -> String {
    let mut all: Vec<Attr<'_>> = weir_netlink::attrs(options).collect();
    all.retain(|attr| !attr.is_empty());
    if let Some(at) = all.iter().rposition(|attr| attr.len() == 32) {
        all.remove(at);
    }
    let one = |attr: &Attr<'_>| format!("{}:{}", attr.ty, hex(attr.payload));
    all.iter().map(one).collect::<Vec<_>>().join(" ")
}

/// Returns kind, options and statistics of the actions of the filter at a hook.
fn shown(stack: &Stack, egress: bool) -> Vec<(String, String, String)> {
    let parent = if egress { 0xffff_fff3 } else { 0xffff_fff2_u32 };
    let mut request = vec![36, 0, 0, 0, 46, 0, 1, 3];
    request.extend([0; 12]);
    request.extend(D0.to_ne_bytes());
    request.extend([0; 4]);
    request.extend(parent.to_ne_bytes());
    request.extend([0; 4]);
    let answers = stack.request(&request).unwrap();
    let nest = |answer: &Answer| -> Option<Vec<(String, String, String)>> {
        let attrs = answer.message().attrs::<TcMsg>();
        let actions = find(attrs, &[tca::OPTIONS, tca::matchall::ACT])?;
        let one = |action: Attr<'_>| {
            let get = |path: &[u16]| find(action.attrs(), path).unwrap();
            let basic = get(&[act::STATS, stats::BASIC]);
            let queue = get(&[act::STATS, stats::QUEUE]);
            let basic = GnetStatsBasic::from_bytes(basic.payload).unwrap();
            let queue = GnetStatsQueue::from_bytes(queue.payload).unwrap();
            (
                get(&[act::KIND]).str().unwrap().to_owned(),
                without_ages(get(&[act::OPTIONS]).payload),
                format!(
                    "{} {} {} {}",
                    basic.bytes, basic.packets, queue.drops, queue.overlimits
                ),
            )
        };
        Some(actions.attrs().map(one).collect())
    };
    answers.iter().find_map(nest).expect("the filter is there")
}

/// Returns the attributes of the sample messages since the last call, in the format of record.py.
fn sampled(stack: &Stack) -> Vec<String> {
    let mut heard = stack.generic.0.lock().unwrap();
    let packets = heard.drain(..).filter(|(group, _)| *group == GROUP_PACKETS);
    let one = |(_, message): (u32, Vec<u8>)| {
        let row = |attr: Attr<'_>| match attr.ty {
            psample::TIMESTAMP => format!("{}:{}", attr.ty, hex(&[0; 8])),
            ty => format!("{ty}:{}", hex(attr.payload)),
        };
        // The attributes follow the headers of the message and of generic netlink.
        let rows = weir_netlink::attrs(&message[20..]).map(row);
        rows.collect::<Vec<_>>().join(" ")
    };
    packets.map(one).collect()
}

/// Sends a frame through the hook. Returns the row of the resulting frame, and the packet's mark
/// and queue.
fn send_through(stack: &Stack, hook: &str, frame: &[u8]) -> (String, (u32, u16)) {
    let Some(mut packet) = arriving(stack, hook, frame) else {
        return ("-".into(), (0, 0));
    };
    let sent = match hook {
        "tagged" => [&frame[..12], &[0x81, 0, 0, 5], &frame[12..]].concat(),
        _ => frame.to_vec(),
    };
    let (verdict, copies) = stack.hook(D0, hook == "ingress", &mut packet);
    assert!(copies.is_empty());
    let target = Target {
        device: D1_KEY,
        ingress: false,
    };
    let out = match verdict {
        Verdict::Redirect(to) if hook == "ingress" && to == target => Some(on_wire(&packet)),
        Verdict::Pass if hook != "ingress" => Some(on_wire(&packet)),
        _ => None,
    };
    // The recorder cannot see an empty frame.
    let out = out.filter(|data| !data.is_empty());
    let meta = out.as_ref().map_or((0, 0), |_| (packet.mark, packet.queue));
    (difference(&sent, out), meta)
}

fn replay(name: &str, recording: &str, frames: &BTreeMap<String, Vec<u8>>) -> Vec<String> {
    let mut stack = Stack::default();
    let mut wrong = Vec::new();
    for case in cases(recording) {
        let requests: Vec<_> = case
            .rows
            .iter()
            .filter_map(|row| row.strip_prefix("> "))
            .collect();
        let mut tell = |expected: &str, got: &str| {
            if expected != got {
                wrong.push(format!(
                    "{name}: {}\n  Linux {expected}\n  Weir  {got}",
                    case.line
                ));
            }
        };
        let hook = case.line.split([' ', ':']).next().unwrap();
        let hook = Some(hook).filter(|hook| matches!(*hook, "ingress" | "egress" | "tagged"));
        if requests.len() > 1 {
            stack = Stack::default();
        }
        let mut answer = String::new();
        for request in &requests {
            // The clock must advance because in Linux a gate that is due has begun.
            stack.now.fetch_add(1_000_000, Relaxed);
            answer = match stack.request(&bytes(request)) {
                Ok(_) => {
                    let warning = stack.warning.lock().unwrap().unwrap_or_default();
                    format!("= 0 {warning}").trim_end().to_owned()
                }
                Err(error) => {
                    let text = error.message.unwrap_or_default();
                    format!("= {} {text}", error.errno).trim_end().to_owned()
                }
            };
        }
        stack.now.fetch_add(1_000_000, Relaxed);
        let mut dumps = Vec::new();
        let mut counted = None;
        let mut metas = BTreeMap::new();
        let mut samples: BTreeMap<&str, VecDeque<String>> = BTreeMap::new();
        for row in &case.rows {
            let (word, rest) = row.split_once(' ').unwrap();
            match (word, hook) {
                (">", _) => {}
                ("=", _) => {
                    tell(row, &answer);
                    if answer.starts_with("= 0") && hook.is_some() {
                        dumps = shown(&stack, hook != Some("ingress"));
                        dumps.reverse();
                    }
                }
                ("dump", _) => {
                    let (kind, options) = rest.split_once(' ').unwrap();
                    let expected = without_ages(&bytes(options));
                    let (kind_shown, options, _) = dumps.pop().unwrap_or_default();
                    tell(
                        &format!("dump {kind} {expected}"),
                        &format!("dump {kind_shown} {options}"),
                    );
                }
                ("meta", _) => {
                    let (frame, meta) = rest.split_once(' ').unwrap();
                    let (mark, queue) = metas.remove(frame).unwrap_or_default();
                    tell(row, &format!("meta {frame} mark {mark} queue {queue}"));
                    let _ = meta;
                }
                ("psample", _) => {
                    let (frame, expected) = rest.split_once(' ').unwrap();
                    let heard = samples.get_mut(frame).and_then(VecDeque::pop_front);
                    tell(expected, &heard.unwrap_or_default());
                }
                ("stats", Some(hook)) => {
                    let counted = counted.get_or_insert_with(|| {
                        let mut shown = shown(&stack, hook != "ingress");
                        shown.reverse();
                        shown
                    });
                    let (kind, _, stats) = counted.pop().unwrap_or_default();
                    tell(row, &format!("stats {kind} {stats}"));
                }
                (frame, Some(hook)) => {
                    let (out, meta) = send_through(&stack, hook, &frames[frame]);
                    tell(row, &format!("{frame} {out}"));
                    if meta != (0, 0) {
                        metas.insert(frame, meta);
                    }
                    samples.insert(frame, VecDeque::from(sampled(&stack)));
                }
                _ => tell(row, "not understood"),
            }
        }
        for (frame, meta) in metas {
            tell(&format!("{frame}: no mark and queue"), &format!("{meta:?}"));
        }
        for (frame, more) in samples.iter().filter(|(_, more)| !more.is_empty()) {
            tell(&format!("{frame}: no more samples"), &format!("{more:?}"));
        }
    }
    wrong
}

/// Returns the recordings by name.
fn recordings() -> BTreeMap<String, String> {
    let files = std::fs::read_dir(folder()).unwrap();
    let paths = files.map(|entry| entry.unwrap().path());
    let vectors = paths.filter(|path| path.extension().is_some_and(|end| end == "vec"));
    let name = |path: &PathBuf| path.file_stem().unwrap().to_str().unwrap().to_owned();
    let read = |path: PathBuf| (name(&path), std::fs::read_to_string(&path).unwrap());
    let mut found: BTreeMap<_, _> = vectors.map(read).collect();
    found.remove("frames");
    found
}

/// Returns a stack after the requests of a line of NAME.cmd, for tests of state that frames do not
/// show.
pub fn stack_of(name: &str, line: &str) -> Stack {
    let path = folder().join(name).with_extension("vec");
    let recording = std::fs::read_to_string(path).unwrap();
    let cases = cases(&recording);
    let case = cases.iter().find(|case| case.line == line).expect(line);
    let stack = Stack::default();
    for request in case.rows.iter().filter_map(|row| row.strip_prefix("> ")) {
        stack.request(&bytes(request)).expect(line);
    }
    stack
}

/// Returns a frame of frames.vec after the ingress hook of d0.
pub fn received(stack: &Stack, frame: &str) -> Packet {
    let mut packet = arriving(stack, "ingress", &frames()[frame]).expect(frame);
    stack.hook(D0, true, &mut packet);
    packet
}

#[test]
fn packets_equal_those_recorded_from_linux() {
    let frames = frames();
    let only = std::env::var("RECORDED").unwrap_or_default();
    let mut recordings = recordings();
    recordings.retain(|name, _| name.contains(&only));
    assert!(!recordings.is_empty());
    let replay = |(name, recording): (&String, &String)| replay(name, recording, &frames);
    let mut wrong: Vec<String> = recordings.iter().flat_map(replay).collect();
    let count = wrong.len();
    wrong.truncate(40);
    assert!(
        wrong.is_empty(),
        "{count} differences:\n{}",
        wrong.join("\n")
    );
}

/// Sends truncated frames with random changed bytes: an action must not panic, and a packet it
/// passes must be a frame.
#[test]
fn damaged_frames_cause_no_panic() {
    let frames: Vec<Vec<u8>> = frames().into_values().collect();
    let mut seed = 1_u64;
    let mut random = |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) as usize % below
    };
    for (name, recording) in recordings() {
        for case in cases(&recording) {
            let hook = case.line.split([' ', ':']).next().unwrap();
            if !matches!(hook, "ingress" | "egress" | "tagged") || !case.rows.contains(&"= 0") {
                continue;
            }
            let stack = stack_of(&name, case.line);
            for _ in 0..60 {
                let mut frame = frames[random(frames.len())].clone();
                frame.truncate(14 + random(frame.len() - 13));
                for _ in 0..random(4) {
                    let at = random(frame.len());
                    frame[at] = random(256) as u8;
                }
                send_through(&stack, hook, &frame);
            }
        }
    }
}
