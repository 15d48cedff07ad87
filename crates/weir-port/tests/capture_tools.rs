// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests that tcpdump and tshark can read the written files; skipped with a note if they are not
//! installed.
#![allow(clippy::unwrap_used, reason = "a test may stop there")]

mod common;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use weir_port::generator::{Generator, Parameters};
use weir_port::pcap::{Reader, Writer};
use weir_port::{Direction, Frame, Sink, Source};

/// Returns the standard output of `tool`, or `None` if it is not installed.
fn output(tool: &str, arguments: &[&str]) -> Option<String> {
    let output = match Command::new(tool)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
    {
        Ok(output) => output,
        Err(error) => {
            let all = std::env::var("WEIR_REQUIRE_ALL").as_deref() == Ok("1");
            assert!(!all, "{tool}: {error}, and WEIR_REQUIRE_ALL is set");
            // The test runner does not capture this, unlike `eprintln!`.
            let _ = writeln!(std::io::stderr(), "weir tests: SKIPPED: {tool}: {error}");
            return None;
        }
    };
    assert!(
        output.status.success(),
        "{tool}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Some(String::from_utf8(output.stdout).unwrap())
}

/// A directory of the test's own, which is removed with it.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let name = format!("{name}-{}", std::process::id());
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// Returns the path of a file in the directory.
    fn file(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // A directory that cannot be removed is left among the temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Writes `count` generated frames to `name` and returns them.
fn generate(name: &str, parameters: &str) -> Vec<Frame> {
    let mut generator = Generator::new(parameters.parse::<Parameters>().unwrap()).unwrap();
    let mut writer = Writer::create(name).unwrap();
    let device = writer.interface("edge/lan0").unwrap();
    let mut frames = Vec::new();
    let mut frame = Frame::default();
    while generator.read(&mut frame).unwrap() {
        frame.interface = device;
        frame.direction = Direction::Out;
        frame.comment = Some(format!("frame {}", frames.len()));
        writer.write(&frame).unwrap();
        frames.push(frame.clone());
    }
    writer.finish().unwrap();
    frames
}

#[test]
fn tools_read_every_format() {
    let directory = Directory::new("formats");
    for name in ["a.pcap", "a.pcapng", "b.pcapng.gz", "b.pcap.gz"] {
        let path = &*directory.file(name);
        let frames = generate(
            path,
            "count=3,rate=2,start=1700000000123456789,flows=2,size=100,proto=udp",
        );
        let read: Vec<_> = Reader::open(path).unwrap().map(Result::unwrap).collect();
        assert_eq!(read.len(), frames.len());
        // tcpdump does not decompress, and its libpcap 1.10 reports nanoseconds only for
        // uncompressed files.
        if !name.ends_with(".gz")
            && let Some(text) = output("tcpdump", &["-nn", "-tt", "--nano", "-r", path])
        {
            let lines: Vec<_> = text.lines().collect();
            assert_eq!(lines.len(), 3, "{text}");
            assert!(
                lines[1].starts_with("1700000000.623456789 IP 10.1.0.2.10"),
                "{text}"
            );
            assert!(
                lines[1].ends_with(" > 10.2.0.2.5001: UDP, length 58"),
                "{text}"
            );
        }
        let fields = [
            "frame.time_epoch",
            "frame.len",
            "ip.checksum.status",
            "udp.checksum.status",
        ];
        let mut arguments = vec!["-n", "-r", path, "-T", "fields"];
        arguments.extend([
            "-o",
            "ip.check_checksum:TRUE",
            "-o",
            "udp.check_checksum:TRUE",
        ]);
        fields
            .iter()
            .for_each(|field| arguments.extend(["-e", field]));
        if let Some(text) = output("tshark", &arguments) {
            let lines: Vec<_> = text.lines().collect();
            assert_eq!(lines.len(), 3, "{text}");
            assert_eq!(lines[2], "1700000001.123456789\t100\t1\t1");
        }
    }
}

#[test]
fn tshark_sees_names_directions_and_comments() {
    let directory = Directory::new("options");
    let path = &*directory.file("a.pcapng");
    generate(
        path,
        "count=2,proto=tcp,src=2001:db8:1::2,dst=2001:db8:2::2",
    );
    let fields = [
        "frame.interface_name",
        "frame.packet_flags_direction",
        "frame.comment",
        "tcp.flags.syn",
        "tcp.checksum.status",
    ];
    let mut arguments = vec![
        "-n",
        "-r",
        path,
        "-T",
        "fields",
        "-o",
        "tcp.check_checksum:TRUE",
    ];
    fields
        .iter()
        .for_each(|field| arguments.extend(["-e", field]));
    let Some(text) = output("tshark", &arguments) else {
        return;
    };
    let lines: Vec<_> = text
        .lines()
        .map(|line| line.replace("0x00000002", "2"))
        .collect();
    assert_eq!(
        lines,
        ["edge/lan0\t2\tframe 0\t1\t1", "edge/lan0\t2\tframe 1\t0\t1"]
    );
}

#[test]
fn tcpdump_files_are_read() {
    let directory = Directory::new("tcpdump");
    let (ours, theirs) = (directory.file("ours.pcapng"), directory.file("theirs.pcap"));
    let (ours, theirs) = (&*ours, &*theirs);
    let frames = generate(ours, "count=10,flows=3,seed=4");
    if output("tcpdump", &["-r", ours, "-w", theirs]).is_some() {
        let read: Vec<_> = Reader::open(theirs).unwrap().map(Result::unwrap).collect();
        assert!(
            read.iter()
                .map(|frame| &frame.data)
                .eq(frames.iter().map(|frame| &frame.data))
        );
    }
}
