// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir capture` through shared memory and `weir run --capture-all` and `--drops`: tcpdump and
//! tshark read what they write.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use weir_port::pcap::Reader;
use weir_port::{Direction, Frame, Source};

const WEIR: &str = env!("CARGO_BIN_EXE_weir");
/// The time limit of a step: longer than any takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(100);

/// A folder that is removed in the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder =
            std::env::temp_dir().join(format!("weir-capture-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A stack that is up.
struct Stack {
    child: Child,
    folder: Folder,
}

impl Stack {
    fn up(name: &str, args: &[&str]) -> Self {
        let folder = Folder::new(name);
        let mut child = Command::new(WEIR)
            .args(["up", "--socket", &folder.path("control")])
            .args(args)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        common::wait_until_up(&mut child);
        Self { child, folder }
    }

    /// Returns `weir COMMAND ARGS` for this stack.
    fn command(&self, command: &str, args: &[&str]) -> Command {
        let mut weir = Command::new(WEIR);
        weir.args([command, "--socket", &self.folder.path("control")])
            .args(args);
        weir
    }

    fn weir(&self, command: &str, args: &[&str]) -> Output {
        self.command(command, args).output().unwrap()
    }

    fn sh(&self, script: &str) {
        let done = self.weir("exec", &["--", "sh", "-ec", script]);
        assert!(done.status.success(), "{}", err(&done));
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn wait(child: &mut Child) {
    let start = Instant::now();
    while child.try_wait().unwrap().is_none() {
        assert!(start.elapsed() < PATIENCE, "it does not end");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn signal(child: &Child, signal: &str) {
    let pid = child.id().to_string();
    let sent = Command::new("kill").args([signal, &pid]).status();
    assert!(sent.unwrap().success());
}

/// A router between two namespaces: in0 of `edge` receives generated frames, which leave by out0.
/// The frames to the second port are dropped by a filter.
const ROUTER: &str = "ip netns add edge
    ip netns exec edge sysctl -qw net.ipv4.ip_forward=1
    ip -n edge link add in0 type dummy
    ip -n edge link add out0 type dummy
    ip -n edge address add 10.1.0.1/24 dev in0
    ip -n edge address add 10.2.0.1/24 dev out0
    ip -n edge link set out0 up
    ip -n edge neighbour add 10.2.0.2 lladdr 02:00:00:00:00:02 dev out0
    tc -n edge qdisc add dev in0 clsact
    tc -n edge filter add dev in0 ingress protocol ip flower ip_proto udp dst_port 54 action drop
    ip -n edge link set in0 up";
/// Generators of frames that pass, and of frames that are dropped.
const PASS: &str =
    "edge/in0=rate=1000,count=1000000,size=100,src=10.1.0.9,dst=10.2.0.2,dport=53,flows=1";
const DROP: &str =
    "edge/in0=rate=1000,count=1000000,size=100,src=10.1.0.9,dst=10.2.0.2,dport=54,flows=1";

/// Reads a capture: the names of its interfaces and its frames.
fn read(octets: Vec<u8>) -> (Vec<String>, Vec<Frame>) {
    let mut reader = Reader::new("capture", std::io::Cursor::new(octets)).unwrap();
    let mut frames = Vec::new();
    let mut frame = Frame::new(0, Vec::new());
    while Source::read(&mut reader, &mut frame).unwrap() {
        frames.push(frame.clone());
    }
    let names = reader
        .interfaces()
        .iter()
        .map(|one| one.name.clone().unwrap_or_default());
    (names.collect(), frames)
}

/// Returns what a program prints about a capture on its standard input; `None` if it is not there.
fn told_by(program: &str, args: &[&str], octets: &[u8]) -> Option<String> {
    let folder = Folder::new(&format!("told-{program}-{}", octets.len()));
    let file = folder.path("file.pcapng");
    std::fs::write(&file, octets).unwrap();
    let mut command = Command::new(program);
    let path = std::env::var("PATH").unwrap();
    command.env("PATH", format!("{path}:/usr/sbin"));
    match command.args(args).arg(&file).output() {
        Ok(done) => {
            assert!(done.status.success(), "{program}: {}", err(&done));
            Some(String::from_utf8_lossy(&done.stdout).into_owned())
        }
        Err(_) => {
            eprintln!("weir tests: {program} is not installed");
            None
        }
    }
}

/// Returns the destination port of a UDP datagram in a frame.
fn port_of(frame: &Frame) -> u16 {
    u16::from_be_bytes([frame.data[36], frame.data[37]])
}

#[test]
fn frames_come_through_shared_memory_with_direction_and_filter() {
    let stack = Stack::up("one", &["--cpus", "2", "--gen", PASS, "--gen", DROP]);
    stack.sh(ROUTER);
    let done = stack.weir("capture", &["-c", "20", "edge/in0", "udp", "port", "53"]);
    assert!(done.status.success(), "{}", err(&done));
    assert!(
        err(&done).contains("20 frames captured, 0 lost"),
        "{done:?}"
    );
    let (names, frames) = read(done.stdout.clone());
    assert_eq!((names, frames.len()), (vec!["edge/in0".into()], 20));
    for frame in &frames {
        assert_eq!((port_of(frame), frame.direction), (53, Direction::In));
        assert!(frame.comment.is_none() && frame.is_complete());
    }
    // A snap length cuts the frames, and the whole output is what tcpdump reads.
    let done = stack.weir("capture", &["-c", "5", "-s", "60", "edge/out0"]);
    let (_, frames) = read(done.stdout.clone());
    assert_eq!(frames.len(), 5);
    for frame in &frames {
        assert_eq!((frame.data.len(), frame.orig_len), (60, 100));
        assert_eq!(frame.direction, Direction::Out);
    }
    if let Some(told) = told_by("tcpdump", &["-nr"], &done.stdout) {
        assert_eq!(told.matches("10.1.0.9").count(), 5, "{told}");
    }
    // Inside the stack, the command finds it without a path.
    let inside = stack.folder.path("inside.pcapng");
    stack.sh(&format!("weir capture -q -c 3 edge/in0 >{inside}"));
    assert_eq!(read(std::fs::read(&inside).unwrap()).1.len(), 3);
}

#[test]
fn all_devices_and_drops_are_in_one_file() {
    let stack = Stack::up("all", &["--gen", PASS, "--gen", DROP]);
    stack.sh("ip link add d0 type dummy; ip link set d0 up; ip address add 10.9.0.1/24 dev d0");
    let mut capture = stack
        .command("capture", &["--all", "--drops"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = capture.stdout.take().unwrap();
    // The capture has begun once its head is there. The devices of the router come later.
    let mut octets = vec![0; 4];
    output.read_exact(&mut octets).unwrap();
    stack.sh(ROUTER);
    let reading = std::thread::spawn(move || {
        output.read_to_end(&mut octets).unwrap();
        octets
    });
    let start = Instant::now();
    loop {
        let report = stack.weir("stat", &["stages", "--json"]);
        let report: serde_json::Value = serde_json::from_slice(&report.stdout).unwrap();
        if report["packets"].as_u64().unwrap() > 500 {
            break;
        }
        assert!(start.elapsed() < PATIENCE, "no packets");
        std::thread::sleep(Duration::from_millis(50));
    }
    // A device that is gone keeps its name.
    stack.sh("ip netns exec edge ip link delete out0");
    signal(&capture, "-INT");
    wait(&mut capture);
    let mut said = String::new();
    let mut errors = capture.stderr.take().unwrap();
    errors.read_to_string(&mut said).unwrap();
    let octets = reading.join().unwrap();
    let (names, frames) = read(octets.clone());
    assert!(
        said.contains(&format!("{} frames captured, 0 lost", frames.len())),
        "{said}"
    );
    for name in ["lo", "d0", "edge/in0", "edge/out0"] {
        assert!(names.contains(&name.to_owned()), "{name}: {names:?}");
    }
    let drops: Vec<_> = frames
        .iter()
        .filter(|frame| frame.comment.is_some())
        .collect();
    let others: Vec<_> = frames
        .iter()
        .filter(|frame| frame.comment.is_none())
        .collect();
    assert!(
        drops.len() > 100 && others.len() > 300,
        "{} {}",
        drops.len(),
        others.len()
    );
    let filtered = drops.iter().filter(|frame| port_of(frame) == 54);
    for frame in filtered {
        let comment = frame.comment.as_deref().unwrap();
        assert_eq!(comment, "edge/in0: ingress: TC_INGRESS");
        assert_eq!(names[frame.interface as usize], "edge/in0");
    }
    let both = |way| {
        others
            .iter()
            .filter(move |frame| frame.direction == way)
            .count()
    };
    assert!(both(Direction::In) > 100 && both(Direction::Out) > 50);
    let fields = [
        "-T",
        "fields",
        "-e",
        "frame.interface_name",
        "-e",
        "frame.comment",
    ];
    let args = [&fields[..], &["-r"]].concat();
    if let Some(told) = told_by("tshark", &args, &octets) {
        assert_eq!(told.lines().count(), frames.len());
        assert!(
            told.contains("edge/in0\tedge/in0: ingress: TC_INGRESS"),
            "{told}"
        );
    }
    // The statistics of the interfaces end the file.
    assert!(
        octets
            .windows(8)
            .any(|eight| eight[..4] == [5, 0, 0, 0] && eight[4] == 64)
    );
    // One namespace only.
    let done = stack.weir("capture", &["--all", "--netns", "edge", "-c", "10", "ip"]);
    let (names, frames) = read(done.stdout);
    assert_eq!(frames.len(), 10);
    assert!(
        names.iter().all(|name| name.starts_with("edge/")),
        "{names:?}"
    );
    let missing = stack.weir("capture", &["--all", "--netns", "nowhere"]);
    assert!(
        err(&missing).contains("there is no namespace nowhere"),
        "{missing:?}"
    );
}

#[test]
fn a_reader_that_stops_loses_frames_and_nothing_else() {
    let fast =
        "edge/in0=rate=20000,count=10000000,size=1400,src=10.1.0.9,dst=10.2.0.2,dport=53,flows=1";
    let stack = Stack::up("slow", &["--gen", fast]);
    stack.sh(ROUTER);
    let mut capture = stack
        .command("capture", &["--buffer", "64K", "edge/in0"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = capture.stdout.take().unwrap();
    output.read_exact(&mut [0; 4]).unwrap();
    // The pipe fills up, then the ring. The stack goes on.
    let packets = || {
        let report = stack.weir("stat", &["stages", "--json"]);
        let report: serde_json::Value = serde_json::from_slice(&report.stdout).unwrap();
        report["packets"].as_u64().unwrap()
    };
    let (before, start) = (packets(), Instant::now());
    while packets() < before + 5_000 {
        assert!(start.elapsed() < PATIENCE, "the stack stands still");
        std::thread::sleep(Duration::from_millis(50));
    }
    signal(&capture, "-TERM");
    let mut rest = Vec::new();
    output.read_to_end(&mut rest).unwrap();
    wait(&mut capture);
    let mut said = String::new();
    let mut errors = capture.stderr.take().unwrap();
    errors.read_to_string(&mut said).unwrap();
    let lost = said.split_whitespace().rev().nth(1).unwrap();
    assert!(lost.parse::<u64>().unwrap() > 1_000, "{said}");
    // A killed reader leaves nothing behind.
    let mut capture = stack
        .command("capture", &["edge/in0"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    capture
        .stdout
        .as_mut()
        .unwrap()
        .read_exact(&mut [0; 4])
        .unwrap();
    let threads = || {
        let tasks = format!("/proc/{}/task", stack.child.id());
        let names = std::fs::read_dir(tasks)
            .unwrap()
            .filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
        names.filter(|name| name.starts_with("capture")).count()
    };
    let until = |count| {
        let start = Instant::now();
        while threads() != count {
            assert!(start.elapsed() < PATIENCE, "not {count} captures");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    until(1);
    capture.kill().unwrap();
    capture.wait().unwrap();
    until(0);
    assert_eq!(
        stack
            .weir("capture", &["-qc", "1", "edge/in0"])
            .status
            .code(),
        Some(0)
    );
}

#[test]
fn wrong_captures_are_refused_with_a_sentence() {
    let stack = Stack::up("wrong", &[]);
    for (args, text) in [
        (&["nosuch"][..], "there is no device nosuch"),
        (&["--netns", "edge", "lo"], "--netns needs --all or --drops"),
        (&["--buffer", "1K", "lo"], "it has 64K to 1G"),
        (&["lo", "tcp", "prt", "80"], "is no filter expression"),
        (&["--all", "tcp", "prt", "80"], "is no filter expression"),
    ] {
        let refused = stack.weir("capture", args);
        assert!(err(&refused).contains(text), "{args:?}: {}", err(&refused));
        assert_eq!(refused.status.code(), Some(125), "{args:?}");
    }
    assert_eq!(stack.weir("capture", &[]).status.code(), Some(2));
}

#[test]
fn a_run_writes_all_devices_and_drops_the_same_on_every_run() {
    let folder = Folder::new("run");
    let script = folder.path("script.sh");
    std::fs::write(&script, ROUTER).unwrap();
    let mut files = Vec::new();
    for round in 0..2 {
        let all = folder.path(&format!("all-{round}.pcapng"));
        let drops = folder.path(&format!("drops-{round}.pcapng"));
        let frames = |spec: &str| spec.replace("count=1000000", "count=40");
        let done = Command::new(WEIR)
            .args([
                "run",
                "--quiet",
                "--gen",
                &frames(PASS),
                "--gen",
                &frames(DROP),
            ])
            .args(["--capture-all", &all, "--drops", &drops, &script])
            .output()
            .unwrap();
        assert!(done.status.success(), "{}", err(&done));
        files.push((std::fs::read(all).unwrap(), std::fs::read(drops).unwrap()));
    }
    assert!(files[0] == files[1], "two runs wrote different files");
    let (all, drops) = files.swap_remove(0);
    let (names, frames) = read(all);
    let seen = |name: &str, way| {
        let at = names.iter().position(|one| one == name).unwrap();
        let of = frames.iter().filter(|frame| frame.interface as usize == at);
        of.filter(|frame| frame.direction == way).count()
    };
    assert_eq!(seen("edge/in0", Direction::In), 80);
    // Besides IPv6 messages of the device itself.
    assert!(seen("edge/out0", Direction::Out) >= 40);
    let (names, frames) = read(drops);
    let filtered: Vec<_> = frames.iter().filter(|frame| port_of(frame) == 54).collect();
    assert_eq!(filtered.len(), 40);
    for frame in filtered {
        let comment = frame.comment.as_deref().unwrap();
        assert!(
            comment.contains("edge/in0: ingress: TC_INGRESS: "),
            "{comment}"
        );
        assert_eq!(names[frame.interface as usize], "edge/in0");
    }
    // A capture inside a run, under virtual time.
    let inside = folder.path("inside.pcapng");
    let wrapped = format!(
        "{ROUTER}\nweir capture -c 30 --all udp >{inside} & \n sleep 1; weir play --until 3s; wait"
    );
    std::fs::write(&script, wrapped).unwrap();
    let done = Command::new(WEIR)
        .args(["run", "--quiet", "--until", "3s"])
        .args(["--gen", &format!("{PASS},start=1s,stop=2s"), &script])
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", err(&done));
    let (names, frames) = read(std::fs::read(inside).unwrap());
    assert_eq!(frames.len(), 30);
    assert!(names.contains(&"edge/in0".into()), "{names:?}");
}

/// The cooked header that libpcap writes for what Linux's nlmon sends of NETLINK_ROUTE; `crates/weir/tests/linux/nlmon.txt`
/// has it from Linux.
const COOKED: [u8; 16] = [0, 4, 3, 0x38, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
/// LINKTYPE_NETLINK and the length of a section header of Weir.
const NETLINK: ([u8; 2], usize) = ([253, 0], 40);

#[test]
fn netlink_messages_have_a_link_type_of_their_own() {
    let stack = Stack::up("netlink", &[]);
    stack.sh("ip link add nlmon0 type nlmon; ip link set nlmon0 up");
    let mut capture = stack
        .command("capture", &["-c", "6", "nlmon0"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = capture.stdout.take().unwrap();
    let mut octets = vec![0; 4];
    output.read_exact(&mut octets).unwrap();
    stack.sh("ip link set lo mtu 60000; ip link set lo mtu 50000");
    output.read_to_end(&mut octets).unwrap();
    wait(&mut capture);
    let (link_type, head) = NETLINK;
    assert_eq!(octets[head..][..4], [1, 0, 0, 0]);
    assert_eq!(octets[head + 8..][..2], link_type);
    // A reader of Ethernet refuses it by name.
    let mut reader = Reader::new("capture", std::io::Cursor::new(octets.clone())).unwrap();
    let refused = Source::read(&mut reader, &mut Frame::default()).unwrap_err();
    assert!(refused.to_string().contains("NETLINK"), "{refused}");
    let messages = octets.windows(16).filter(|bytes| **bytes == COOKED);
    assert_eq!(messages.count(), 6);
    if let Some(told) = told_by(
        "tshark",
        &["-T", "fields", "-e", "netlink.hdr_type", "-r"],
        &octets,
    ) {
        // NLMSG_ERROR: the acknowledgements.
        assert!(told.contains("0x0002"), "{told}");
    }
    let filtered = stack.command("capture", &["nlmon0", "len", ">", "1"]);
    let filtered = { filtered }.output().unwrap();
    let told = String::from_utf8_lossy(&filtered.stderr);
    let sentence = "an expression looks at Ethernet frames, and nlmon0 has netlink messages";
    assert!(
        !filtered.status.success() && told.contains(sentence),
        "{told}"
    );
}

#[test]
fn a_run_writes_netlink_messages_to_a_classic_file() {
    let folder = Folder::new("netlink-run");
    let file = folder.path("out.pcap");
    let script = "ip link add nlmon0 type nlmon; ip link set nlmon0 up; sleep 1
        ip link set lo mtu 60000; sleep 1";
    let out = format!("nlmon0={file}");
    let done = Command::new(WEIR)
        .args(["run", "--quiet", "--out", &out, "--", "sh", "-ec", script])
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", err(&done));
    let octets = std::fs::read(&file).unwrap();
    assert_eq!(octets[20..24], [253, 0, 0, 0]);
    assert_eq!(octets[40..56], COOKED);
    if let Some(told) = told_by("tcpdump", &["-r"], &octets) {
        assert!(told.lines().count() >= 3, "{told}");
    }
}
