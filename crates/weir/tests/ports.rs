// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ports without a live outside: `weir run --port` under virtual time, `weir up --port` in real time, and `weir port
//! add` inside a script.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant};

use common::{Folder, User, output, text, users, weir};
use serde_json::Value;
use weir_port::pcap::{Reader, Writer};
use weir_port::{Frame, Sink};

/// The time limit of a step: longer than any takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn read(path: &str) -> Vec<Frame> {
    let reader = Reader::open(path).unwrap();
    reader.map(Result::unwrap).collect()
}

/// Writes a capture of broadcast frames with their times in milliseconds.
fn capture(path: &str, frames: &[(u64, u8)]) {
    let mut writer = Writer::create(path).unwrap();
    writer.interface("made").unwrap();
    for (ms, number) in frames {
        let mut data = vec![0xff; 60];
        data[6..15].copy_from_slice(&[2, 0, 0, 0, 0, 1, 0x88, 0xb5, *number]);
        writer.write(&Frame::new(ms * 1_000_000, data)).unwrap();
    }
    writer.finish().unwrap();
}

/// A device in, a device out and a filter between them.
const SCRIPT: &str = "set -e
ip link add d0 type dummy
ip link add d1 type dummy
tc qdisc add dev d0 clsact
tc filter add dev d0 ingress matchall action mirred egress redirect dev d1
ip link set d0 addrgenmode none; ip link set d1 addrgenmode none
ip link set d0 up; ip link set d1 up
";

#[test]
fn a_run_plays_and_writes_captures_by_its_clock() {
    for user in users() {
        let folder = Folder::new();
        let (input, json) = (folder.file("in.pcap"), folder.file("report.json"));
        capture(&input, &[(1000, 1), (1010, 2), (1030, 3)]);
        let run = |out: &str| {
            let ports = [
                format!("d0=pcap,file={input},loop=2"),
                format!("d1=pcap,out={out}"),
            ];
            let args = [
                "run", "--json", &json, "--port", &ports[0], "--port", &ports[1],
            ];
            let mut command = weir(*user, &args);
            let ran = output(command.args(["--", "sh", "-c", SCRIPT]));
            assert!(ran.status.success(), "{}", text(&ran.stderr));
            text(&ran.stdout)
        };
        let [one, two] = ["one.pcapng", "two.pcapng"].map(|name| folder.file(name));
        let shown = run(&one);
        run(&two);
        assert_eq!(fs::read(&one).unwrap(), fs::read(&two).unwrap());
        let found = read(&one);
        let numbers: Vec<_> = found.iter().map(|frame| frame.data[14]).collect();
        assert_eq!(numbers, [1, 2, 3, 1, 2, 3]);
        let times = found
            .iter()
            .map(|frame| (frame.time_ns - found[0].time_ns) / 1_000_000);
        // A repetition begins one mean gap, 15 ms, after the last frame.
        assert_eq!(times.collect::<Vec<_>>(), [0, 10, 30, 45, 55, 75]);
        assert!(
            shown.contains("in.pcap") && shown.contains("one.pcapng"),
            "{shown}"
        );
        let report: Value = serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
        assert_eq!(report["inputs"][0]["device"], "d0", "{report}");
        assert_eq!(report["inputs"][0]["frames"], 6);
        assert_eq!(report["outputs"][0]["frames"], 6);
    }
}

#[test]
fn generated_frames_depend_on_seed_and_device() {
    let folder = Folder::new();
    let run = |seed: &str, name: &str| {
        let out = folder.file(name);
        let ports = [
            "d0=generator,count=50,flows=9,gaps=poisson,size=imix".to_owned(),
            format!("d1=pcap,out={out}"),
        ];
        let args = [
            "run", "-q", "--seed", seed, "--port", &ports[0], "--port", &ports[1],
        ];
        let mut command = weir(User::Own, &args);
        let ran = output(command.args(["--", "sh", "-c", SCRIPT]));
        assert!(ran.status.success(), "{}", text(&ran.stderr));
        assert_eq!(read(&out).len(), 50);
        fs::read(out).unwrap()
    };
    assert_eq!(run("1", "a"), run("1", "b"));
    assert_ne!(run("1", "a"), run("2", "b"));
}

#[test]
fn a_script_attaches_what_virtual_time_serves() {
    for user in users() {
        let script = format!(
            "{SCRIPT}
            weir port add d0 generator count=3,rate=10,busy=on
            sleep 1
            weir port show
            weir port del d0
            weir port add d0 null
            weir port add d0 tap"
        );
        let (said, status) = common::script(*user, &script);
        assert_eq!(status, 125, "{said}");
        assert!(
            said.contains("d0: generator count=3,rate=10 as wire, up, cpu 0, busy polling"),
            "{said}"
        );
        assert!(said.contains("rx: 3 packets"), "{said}");
        assert!(
            said.contains("outside of `weir exec` and `weir run`"),
            "{said}"
        );
    }
}

#[test]
fn ports_of_a_run_that_cannot_be() {
    let folder = Folder::new();
    let file = folder.file("in.pcap");
    capture(&file, &[(0, 1)]);
    let looped = format!("d0=pcap,file={file},loop=0");
    let read = format!("d0=pcap,file={file}");
    let written = format!("d1=pcap,out={file}");
    for (ports, status, said) in [
        (
            &["d0=tap,name=x"][..],
            125,
            "d0: a tap port has a live outside, which virtual time cannot wait for",
        ),
        (&["d0=af_packet,dev=x"], 125, "has a live outside"),
        (
            &["d0=generator,count=0"],
            125,
            "the generator port never ends",
        ),
        (&[&looped], 125, "the pcap port never ends"),
        (
            &[&read, &written],
            125,
            "--port d0 reads what --port d1 would write",
        ),
        (
            &["d0=pcap,file=/nowhere"],
            125,
            "--port d0: /nowhere: cannot be opened",
        ),
        (&["d9=null"], 125, "--port d9: there is no such device"),
        (&["d0=generator,rat=5"], 2, "did you mean rate?"),
        (
            &["d0=genrator"],
            2,
            "the kinds are af_packet, af_xdp, generator",
        ),
        (&["d0"], 2, "is not DEV=KIND"),
        (&["d0=null", "d0=null"], 125, "d0 has a port already"),
    ] {
        let mut command = weir(User::Own, &["run", "-q"]);
        for port in ports {
            command.args(["--port", port]);
        }
        let ran = output(command.args(["--", "sh", "-c", SCRIPT]));
        let message = text(&ran.stderr);
        assert_eq!(ran.status.code(), Some(status), "{ports:?}: {message}");
        assert!(message.contains(said), "{ports:?}: {message}");
    }
    // The file is as it was.
    assert_eq!(self::read(&file).len(), 1);
    // An endless port ends with --until, and a null port takes what it gets.
    let args = [
        "run",
        "-q",
        "--until",
        "1s",
        "--port",
        "d0=generator,count=0",
        "--port",
        "d1=null",
    ];
    let mut command = weir(User::Own, &args);
    let ran = output(command.args(["--", "sh", "-c", SCRIPT]));
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    // Damage of a capture is reported at the end, after the frames before it.
    let mut bytes = fs::read(&file).unwrap();
    bytes.extend([0; 3]);
    fs::write(&file, bytes).unwrap();
    let out = folder.file("out.pcap");
    let out_port = format!("d1=pcap,out={out}");
    let mut command = weir(
        User::Own,
        &["run", "-q", "--port", &read, "--port", &out_port],
    );
    let ran = output(command.args(["--", "sh", "-c", SCRIPT]));
    assert_eq!(ran.status.code(), Some(125));
    assert!(
        text(&ran.stderr).contains("in.pcap: offset 100"),
        "{}",
        text(&ran.stderr)
    );
    assert_eq!(self::read(&out).len(), 1);
}

#[test]
fn a_stack_in_real_time_attaches_ports_with_their_devices() {
    for user in users() {
        let folder = Folder::new();
        let (socket, input) = (folder.file("control"), folder.file("in.pcap"));
        let out = folder.file("out");
        fs::create_dir(&out).unwrap();
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(&out, fs::Permissions::from_mode(0o777)).unwrap();
        capture(&input, &[(0, 1), (20, 2)]);
        let ports = [
            format!("d0=pcap,file={input},loop=5,busy=on"),
            format!("d1=pcap,out={out}"),
        ];
        let args = [
            "up", "--socket", &socket, "--port", &ports[0], "--port", &ports[1],
        ];
        let mut up = weir(*user, &args).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let mut said = BufReader::new(up.stdout.take().unwrap());
        said.read_line(&mut line).unwrap();
        let run = |args: &[&str]| {
            let ran = output(&mut weir(*user, args));
            assert!(ran.status.success(), "{}", text(&ran.stderr));
            text(&ran.stdout)
        };
        // Frames that come before d0 is up are lost, so it is up first.
        let devices = "ip link add d1 type dummy; ip link add tmp type dummy
            tc qdisc add dev tmp clsact
            tc filter add dev tmp ingress matchall action mirred egress redirect dev d1
            ip link set d1 addrgenmode none; ip link set d1 up; ip link set tmp addrgenmode none
            ip link set tmp up; ip link set tmp down; ip link set tmp name d0 up";
        run(&["exec", "--socket", &socket, "--", "sh", "-ec", devices]);
        let began = Instant::now();
        let show = || -> Vec<Value> {
            let all = run(&["port", "show", "--socket", &socket, "--json"]);
            serde_json::from_str(&all).unwrap()
        };
        while show().iter().all(|port| port["rx_packets"] != 10) {
            assert!(began.elapsed() < PATIENCE, "{:?}", show());
            std::thread::sleep(Duration::from_millis(20));
        }
        let shown = run(&["port", "show", "--socket", &socket]);
        assert!(
            shown.contains("as wire, up, cpu 0, busy polling"),
            "{shown}"
        );
        assert!(shown.contains("as wire, up, cpu 0, sleeping"), "{shown}");
        let busy: Vec<_> = show().iter().map(|port| port["busy"].clone()).collect();
        assert!(busy.contains(&Value::Bool(true)) && busy.contains(&Value::Bool(false)));
        let killed = std::process::Command::new("kill")
            .arg(up.id().to_string())
            .status();
        assert!(killed.unwrap().success());
        assert!(up.wait().unwrap().success());
        let numbers: Vec<_> = read(&format!("{out}/d1.pcapng"))
            .iter()
            .map(|f| f.data[14])
            .collect();
        assert_eq!(numbers, [1, 2].repeat(5));
    }
}
