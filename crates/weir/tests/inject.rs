// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir inject`: frames enter a device of a run, or of a stack that is up, as from a packet socket
//! or a driver.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use std::fs;
use std::process::{Child, Command, Stdio};

use common::{Folder, User, text};
use weir_port::pcap::{Reader, Writer};
use weir_port::{Frame, Sink, Source};

const WEIR: &str = env!("CARGO_BIN_EXE_weir");
const LAN: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../examples/edge-router/lan.pcapng.gz"
);

fn file(folder: &Folder, name: &str) -> String {
    folder.0.join(name).to_str().unwrap().to_owned()
}

/// Writes a capture of frames, each with its time (ms) and its bytes.
fn capture(folder: &Folder, name: &str, frames: &[(u64, Vec<u8>)]) -> String {
    let file = file(folder, name);
    let mut writer = Writer::create(&file).unwrap();
    let interface = writer.interface("lan0").unwrap();
    for (time, data) in frames {
        let mut frame = Frame::new(1_700_000_000_000_000_000 + time * 1_000_000, data.clone());
        frame.interface = interface;
        writer.write(&frame).unwrap();
    }
    writer.finish().unwrap();
    file
}

/// Builds a broadcast frame of an unassigned type (local experimental) that carries its number.
fn frame(number: u8, length: usize) -> Vec<u8> {
    let mut frame = vec![0xff; 6];
    frame.extend([2, 0, 0, 0, 0, 1, 0x88, 0xb5, number]);
    frame.resize(length, 0);
    frame
}

/// Reads the frames of a capture: the time in milliseconds after the first, and the bytes.
fn frames(file: &str) -> Vec<(u64, Vec<u8>)> {
    let mut reader = Reader::open(file).unwrap();
    let (mut frame, mut found) = (Frame::default(), Vec::new());
    let mut first = None;
    while reader.read(&mut frame).unwrap() {
        let first = *first.get_or_insert(frame.time_ns);
        found.push(((frame.time_ns - first) / 1_000_000, frame.data.clone()));
    }
    found
}

/// Runs a script under virtual time. Returns its output and standard error, and whether it
/// succeeded.
fn run(user: User, arguments: &[&str], script: &str) -> (String, String, bool) {
    let mut run = common::weir(user, &["run", "--quiet"]);
    run.args(arguments).args(["--", "sh", "-c", script]);
    let ran = common::output(&mut run);
    (text(&ran.stdout), text(&ran.stderr), ran.status.success())
}

const PAIR: &str = "set -e
ip link add v0 type veth peer name v1
ip link set v0 addrgenmode none
ip link set v0 up
ip link set v1 addrgenmode none
ip link set v1 up
";

#[test]
fn frames_meet_the_qdisc_and_reach_the_peer_at_their_times() {
    for &user in common::users() {
        let folder = Folder::new();
        let given: Vec<_> = [(0, 1), (0, 2), (40, 3), (1_000, 4)]
            .into_iter()
            .map(|(time, number)| (time, frame(number, 60)))
            .collect();
        let input = capture(&folder, "in.pcapng", &given);
        let out = file(&folder, "out.pcapng");
        let script = format!(
            "{PAIR}tc qdisc add dev v0 root netem delay 5ms
tc qdisc add dev v1 clsact
tc filter add dev v1 ingress matchall action gact pass
weir inject v0 {input}
tc -s qdisc show dev v0 | grep Sent
weir play
tc -s filter show dev v1 ingress | grep Sent
"
        );
        let (said, errors, done) = run(user, &["--out", &format!("v0={out}")], &script);
        assert!(done, "{errors}");
        // The last frame still waits when the command ends.
        assert!(said.contains("Sent 180 bytes 3 pkt"), "{said}");
        assert!(said.contains("Sent 184 bytes 4 pkt"), "{said}");
        assert_eq!(frames(&out), given);
    }
}

#[test]
fn received_frames_pass_the_ingress_side() {
    for &user in common::users() {
        let script = format!(
            "set -e
ip link add d0 up type dummy
tc qdisc add dev d0 clsact
tc filter add dev d0 ingress matchall action gact pass
zcat {LAN} | weir inject --receive --topspeed --count 10 d0
weir inject --receive -c 5 d0 {LAN}
tc -s filter show dev d0 ingress | grep -o 'Sent .* pkt'
ip -s -j link show d0
"
        );
        let (said, errors, done) = run(user, &[], &script);
        assert!(done, "{said}{errors}");
        assert!(said.contains(" 15 pkt"), "{said}");
        let received = said.split_once("\"rx\":").unwrap().1;
        assert!(received.contains("\"packets\":15,"), "{said}");
    }
}

#[test]
fn a_refusal_names_the_file_and_the_frame() {
    let folder = Folder::new();
    let long = capture(
        &folder,
        "long.pcap",
        &[(0, frame(1, 60)), (0, frame(2, 60)), (0, frame(3, 1515))],
    );
    let short = capture(&folder, "short.pcap", &[(0, vec![1; 10])]);
    fs::write(folder.0.join("text"), "no capture").unwrap();
    let cut = file(&folder, "cut.pcap");
    {
        let mut writer = Writer::create(&cut).unwrap();
        writer.interface("lan0").unwrap();
        let mut whole = Frame::new(0, frame(1, 60));
        whole.orig_len = 1000;
        writer.write(&whole).unwrap();
        writer.finish().unwrap();
    }
    let tried = |command: &str| {
        let script = format!("{PAIR}set +e\n{command}\necho $?\nip -s -j link show v0");
        let (said, errors, done) = run(User::Own, &[], &script);
        assert!(done);
        (said, errors)
    };
    for (command, expected) in [
        (
            format!("weir inject v0 {long}"),
            format!("{long}: frame 3: v0: Message too long: the MTU is 1500"),
        ),
        (
            format!("weir inject v0 {short}"),
            format!("{short}: frame 1: v0: Invalid argument: shorter than an Ethernet header"),
        ),
        (
            format!("weir inject v0 {cut}"),
            format!("{cut}: frame 1: the capture holds 60 of its 1000 bytes"),
        ),
        (
            format!("ip link set v0 down; weir inject v0 {long}"),
            format!("{long}: frame 1: v0: Network is down"),
        ),
        (
            format!("ip link set v0 down; weir inject --receive v0 {long}"),
            format!("{long}: frame 1: v0: Network is down"),
        ),
        (
            format!("weir inject nobody {long}"),
            "there is no device nobody".into(),
        ),
        (
            format!("weir inject there/v0 {long}"),
            "there is no namespace there".into(),
        ),
        (
            format!("weir inject v0 {}", file(&folder, "text")),
            "is neither pcap nor pcapng".into(),
        ),
        (
            "weir inject v0 /nowhere".into(),
            "/nowhere: cannot be opened: No such file".into(),
        ),
    ] {
        let (said, errors) = tried(&command);
        assert!(said.starts_with("125\n"), "{command}: {said}");
        assert!(errors.contains(&expected), "{command}: {errors}");
    }
    // The frames before it were sent.
    let (said, _) = tried(&format!("weir inject v0 {long}"));
    assert!(said.contains("\"packets\":2"), "{said}");
}

/// A process that is killed when the test ends.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn into_a_stack_that_is_up() {
    let folder = Folder::new();
    let socket = file(&folder, "control");
    let mut stack = Command::new(WEIR)
        .args(["up", "--socket", &socket])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    common::wait_until_up(&mut stack);
    let _stack = Running(stack);
    let exec = |words: &[&str]| {
        let mut command = Command::new(WEIR);
        command
            .args(["exec", "--socket", &socket, "--"])
            .args(words);
        let ran = command.output().unwrap();
        assert!(ran.status.success(), "{}", text(&ran.stderr));
        text(&ran.stdout)
    };
    exec(&["sh", "-c", PAIR]);
    let given = [(0, frame(1, 60)), (30, frame(2, 80)), (60, frame(3, 100))];
    let input = capture(&folder, "in.pcap", &given);
    let live = Command::new(WEIR)
        .args(["capture", "--socket", &socket, "--count", "3", "v1"])
        .stdout(fs::File::create(folder.0.join("out.pcapng")).unwrap())
        .spawn()
        .unwrap();
    let out = file(&folder, "out.pcapng");
    // The file's header shows that the capture has begun.
    while fs::metadata(&out).unwrap().len() == 0 {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let injected = Command::new(WEIR)
        .args(["inject", "--socket", &socket, "v0", &input])
        .output()
        .unwrap();
    assert!(injected.status.success(), "{}", text(&injected.stderr));
    let captured = live.wait_with_output().unwrap();
    assert!(captured.status.success());
    let came = frames(&out);
    let octets = |frames: &[(u64, Vec<u8>)]| -> Vec<_> {
        frames.iter().map(|(_, octets)| octets.clone()).collect()
    };
    assert_eq!(octets(&came), octets(&given));
    // No frame came before its time; rounding may remove a millisecond at either end.
    assert!(came[1].0 >= 28 && came[2].0 >= 58, "{came:?}");
    // Inside the stack it needs no socket.
    exec(&["weir", "inject", "--topspeed", "v0", &input]);
    let links = exec(&["ip", "-s", "-j", "link", "show", "v0"]);
    assert!(links.contains("\"bytes\":480,\"packets\":6"), "{links}");
}
