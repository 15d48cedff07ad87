// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir up --in`, `--gen` and `--out`: captures and generators of a stack in real time.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write as _};
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::time::{Duration, Instant};

use common::{Folder, WEIR, text};
use weir_port::pcap::{Reader, Writer};
use weir_port::{Frame, Sink, Source};

/// The time limit of a step: longer than any takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// A stack that is up.
struct Up {
    child: Child,
    socket: String,
}

impl Up {
    /// Starts a stack. With `on_errors` it reports on standard error instead of standard output
    /// that it is up.
    fn new(folder: &Folder, arguments: &[&str], on_errors: bool) -> Self {
        let socket = folder.file("control");
        let mut child = Command::new(WEIR)
            .args(["up", "--socket", &socket])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        // Reads byte by byte, because the output after the first line belongs to the test.
        let mut said: Box<dyn Read> = match on_errors {
            true => Box::new(child.stderr.as_mut().unwrap()),
            false => Box::new(child.stdout.as_mut().unwrap()),
        };
        while !line.ends_with('\n') {
            let mut octet = [0];
            assert_eq!(said.read(&mut octet).unwrap(), 1, "{line}");
            line.push(char::from(octet[0]));
        }
        drop(said);
        assert!(line.contains("is up"), "{line}");
        Self { child, socket }
    }

    fn exec(&self, script: &str) -> String {
        let ran = Command::new(WEIR)
            .args(["exec", "--socket", &self.socket, "--", "sh", "-ec", script])
            .output()
            .unwrap();
        assert!(ran.status.success(), "{}", text(&ran.stderr));
        text(&ran.stdout)
    }

    fn input(&mut self) -> ChildStdin {
        self.child.stdin.take().unwrap()
    }

    /// Waits until a device has received this number of packets.
    fn wait_for(&self, device: &str, packets: u32) {
        let began = Instant::now();
        loop {
            let shown = self.exec(&format!("ip -s -j link show {device}"));
            let received = shown.split_once("\"rx\":").unwrap().1;
            let count = received.split_once("\"packets\":").unwrap().1;
            let count: u32 = count.split(',').next().unwrap().parse().unwrap();
            if count >= packets {
                assert_eq!(count, packets, "{shown}");
                return;
            }
            assert!(began.elapsed() < PATIENCE, "{count} of {packets}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Stops the stack and returns its output.
    fn end(mut self) -> Output {
        let ended = Command::new("kill")
            .args(["-TERM", &self.child.id().to_string()])
            .status()
            .unwrap();
        assert!(ended.success());
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        let pipes = (self.child.stdout.take(), self.child.stderr.take());
        pipes.0.unwrap().read_to_end(&mut stdout).unwrap();
        pipes.1.unwrap().read_to_end(&mut stderr).unwrap();
        let status = self.child.wait().unwrap();
        Output {
            status,
            stdout,
            stderr,
        }
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the milliseconds since 1970.
fn now() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.unwrap().as_millis() as u64
}

/// Builds a broadcast frame of an unassigned type (local experimental) that carries its number.
fn frame(number: u8) -> Vec<u8> {
    let mut frame = vec![0xff; 6];
    frame.extend([2, 0, 0, 0, 0, 1, 0x88, 0xb5, number]);
    frame.resize(60, 0);
    frame
}

/// Builds a capture of numbered frames, each with its time in milliseconds.
fn capture(frames: &[(u64, u8)]) -> Vec<u8> {
    let folder = Folder::new();
    let file = folder.file("made.pcap");
    let mut writer = Writer::create(&file).unwrap();
    writer.interface("lan0").unwrap();
    for (time, number) in frames {
        let time = 1_700_000_000_000_000_000 + time * 1_000_000;
        writer.write(&Frame::new(time, frame(*number))).unwrap();
    }
    writer.finish().unwrap();
    fs::read(file).unwrap()
}

/// Reads the frames of a capture: the time in milliseconds since 1970, and the number.
fn numbers(octets: Vec<u8>) -> Vec<(u64, u8)> {
    let mut reader = Reader::new("capture", std::io::Cursor::new(octets)).unwrap();
    let (mut frame, mut found) = (Frame::default(), Vec::new());
    while reader.read(&mut frame).unwrap() {
        assert_eq!(frame.data.len(), 60);
        found.push((frame.time_ns / 1_000_000, frame.data[14]));
    }
    found
}

/// Frames that arrive at v0 leave v1's namespace by d0.
const SCRIPT: &str = "ip link add v0 type veth peer name v1
ip link add d0 type dummy
ip link set d0 addrgenmode none
ip link set d0 up
tc qdisc add dev v0 clsact
tc filter add dev v0 ingress matchall action mirred egress redirect dev d0
ip link set v1 addrgenmode none
ip link set v1 up
ip link set v0 addrgenmode none
ip link set v0 up
";

#[test]
fn a_file_a_pipe_and_a_generator() {
    let folder = Folder::new();
    let out = folder.file("out.pcapng");
    let input = folder.file("in.pcap");
    fs::write(&input, capture(&[(0, 1), (100, 2), (200, 3)])).unwrap();
    let (read, written) = (format!("v0={}", input), format!("d0={}", out));
    let arguments = [
        "--in",
        &read,
        "--in",
        "v0=-",
        "--gen",
        "v1=count=7,rate=100",
        "--out",
        &written,
    ];
    let mut up = Up::new(&folder, &arguments, false);
    let mut pipe = up.input();
    let began = now();
    up.exec(SCRIPT);
    // Nothing waits for the pipe.
    up.wait_for("v0", 3);
    up.wait_for("v1", 7);
    let written = now();
    pipe.write_all(&capture(&[(0, 11), (50, 12)])).unwrap();
    drop(pipe);
    up.wait_for("v0", 5);
    // A reader sees the frames at once.
    let seen = numbers(fs::read(&out).unwrap());
    let ended = up.end();
    assert!(ended.status.success(), "{}", text(&ended.stderr));
    let order: Vec<_> = seen.iter().map(|(_, number)| *number).collect();
    assert_eq!(order, [1, 2, 3, 11, 12]);
    // No frame came before its time: a file begins when its device is up, a pipe at its first
    // write. The stack's clock and the machine's may differ a little.
    for (at, since) in [
        (0, began),
        (1, began + 100),
        (2, began + 200),
        (3, written),
        (4, written + 50),
    ] {
        let came = seen[at].0 + 5;
        assert!(
            (since..since + 600_000).contains(&came),
            "{at}: {since} {seen:?}"
        );
    }
    assert_eq!(numbers(fs::read(&out).unwrap()), seen);
}

#[test]
fn outgoing_frames_go_to_standard_output() {
    let folder = Folder::new();
    let up = Up::new(&folder, &["--out", "d0=-", "--gen", "v0=count=1"], true);
    up.exec("ip link add d0 type dummy; ip link del d0");
    // The first device of this name is gone, and with it its output file.
    up.exec(SCRIPT);
    up.wait_for("v0", 1);
    let ended = up.end();
    assert!(ended.status.success(), "{}", text(&ended.stderr));
    let mut reader = Reader::new("capture", std::io::Cursor::new(ended.stdout)).unwrap();
    assert!(!reader.read(&mut Frame::default()).unwrap());
    let up = Up::new(&folder, &["--out", "d0=-", "--gen", "v0=count=9"], true);
    up.exec(SCRIPT);
    up.wait_for("v0", 9);
    let mut reader = Reader::new("capture", std::io::Cursor::new(up.end().stdout)).unwrap();
    let mut count = 0;
    while reader.read(&mut Frame::default()).unwrap() {
        count += 1;
    }
    assert_eq!(count, 9);
}

#[test]
fn files_are_opened_before_the_stack_is_up() {
    let folder = Folder::new();
    let (one, other) = (folder.file("one"), folder.file("two"));
    fs::write(&one, "no capture").unwrap();
    for (arguments, expected) in [
        (
            vec!["--in".into(), format!("v0={other}")],
            format!("{other}: cannot be opened"),
        ),
        (
            vec!["--in".into(), format!("v0={one}")],
            format!("{one}: offset 0"),
        ),
        (
            vec![
                "--in".into(),
                format!("v0={one}"),
                "--out".into(),
                format!("v1={one}"),
            ],
            format!("--in v0 reads what --out v1 would write: {one}"),
        ),
        (
            vec!["--out".into(), "v0=/nowhere/out".into()],
            "/nowhere/out".into(),
        ),
        (vec!["--gen".into(), "v0=size=20".into()], "size".into()),
    ] {
        let ran = Command::new(WEIR)
            .args(["up", "--socket"])
            .arg(folder.file("control"))
            .args(&arguments)
            .output()
            .unwrap();
        let said = text(&ran.stderr);
        assert!(
            !ran.status.success() && said.contains(&expected),
            "{arguments:?}: {said}"
        );
        assert!(!fs::exists(folder.file("control")).unwrap());
    }
    // A capture that ends in the middle of a frame is reported only when playback reaches that
    // point.
    let mut cut = capture(&[(0, 1), (0, 2)]);
    cut.truncate(cut.len() - 10);
    let file = folder.file("cut.pcap");
    fs::write(&file, cut).unwrap();
    let mut up = Up::new(&folder, &["--in", &format!("v0={}", file)], false);
    up.exec(SCRIPT);
    up.wait_for("v0", 1);
    let mut line = String::new();
    BufReader::new(up.child.stderr.as_mut().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert!(line.contains("cut.pcap"), "{line}");
    let ended = up.end();
    assert_eq!(ended.status.code(), Some(125));
}
