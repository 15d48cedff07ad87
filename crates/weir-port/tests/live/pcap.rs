// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Captures and generators as live ports.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use weir_packet::{Batch, Packet, VlanTag};
use weir_port::pcap::{Reader, Writer};
use weir_port::{Frame, Port, Sink};

use crate::common::*;

/// A directory of the test's own, removed on drop.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        use std::sync::atomic::AtomicU32;
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Relaxed);
        let name = format!("weir-port-pcap-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn frame(number: u8) -> Vec<u8> {
    let mut frame = vec![number; 60];
    frame[12..14].copy_from_slice(&[0x88, 0xb5]);
    frame
}

/// Writes a capture of frames with their times in milliseconds.
fn capture(path: &str, frames: &[(u64, u8)]) {
    let mut writer = Writer::create(path).unwrap();
    writer.interface("made").unwrap();
    for (ms, number) in frames {
        let time = 1_700_000_000_000_000_000 + ms * 1_000_000;
        writer.write(&Frame::new(time, frame(*number))).unwrap();
    }
    writer.finish().unwrap();
}

fn numbers(packets: &[Packet]) -> Vec<u8> {
    packets.iter().map(|packet| packet.data()[20]).collect()
}

/// Receives for this time.
fn receive_for(port: &dyn Port, limit: Duration) -> Vec<Packet> {
    let pool = weir_packet::Pool::new(weir_packet::PoolConfig::default());
    let mut cache = pool.cache();
    let end = Instant::now() + limit;
    let mut found = Vec::new();
    while Instant::now() < end {
        wait(&[port.descriptor(0).unwrap()], Duration::from_millis(10));
        let mut batch = Batch::new();
        port.receive(0, &mut cache, &mut batch).unwrap();
        found.extend(batch.drain());
    }
    found
}

fn read(path: impl AsRef<Path>) -> Vec<Frame> {
    let reader = Reader::open(path.as_ref().to_str().unwrap()).unwrap();
    reader.map(Result::unwrap).collect()
}

#[test]
fn files_arrive_at_their_times() {
    let (folder, pool) = (Folder::new(), pool());
    for name in ["a.pcap", "a.pcapng.gz"] {
        let path = folder.path(name);
        capture(&path, &[(0, 1), (0, 2), (150, 3)]);
        let port = port("pcap", &format!("file={path}"), &pool).unwrap();
        let begun = Instant::now();
        let mut cache = pool.cache();
        let first = receive(&*port, &mut cache, 2, |_| true);
        assert_eq!(numbers(&first), [1, 2]);
        let rest = receive(&*port, &mut cache, 1, |_| true);
        assert!(begun.elapsed() >= Duration::from_millis(149));
        assert_eq!(numbers(&rest), [3]);
        // Nothing follows, and the descriptor stays silent.
        assert!(!wait(
            &[port.descriptor(0).unwrap()],
            Duration::from_millis(50)
        ));
        assert_eq!(port.facts().name, path);
    }
}

#[test]
fn directories_repetitions_and_rates() {
    let (folder, pool) = (Folder::new(), pool());
    capture(&folder.path("2.pcap"), &[(5, 3), (6, 4)]);
    capture(&folder.path("1.pcap.gz"), &[(0, 1), (2, 2)]);
    fs::write(folder.path(".hidden"), "no capture").unwrap();
    let path = folder.path("");
    let all = port("pcap", &format!("file={path},loop=3"), &pool).unwrap();
    let begun = Instant::now();
    let found = receive(&*all, &mut pool.cache(), 12, |_| true);
    assert_eq!(numbers(&found), [1, 2, 3, 4].repeat(3));
    // 6 ms three times, and twice the mean gap of 2 ms.
    assert!(begun.elapsed() >= Duration::from_millis(21));
    assert!(receive_for(&*all, Duration::from_millis(50)).is_empty());
    // Without end, as fast as it goes.
    let fast = port(
        "pcap",
        &format!("file={path},loop=0,rate=1000000000"),
        &pool,
    )
    .unwrap();
    let found = receive(&*fast, &mut pool.cache(), 10_000, |_| true);
    assert_eq!(numbers(&found[..6]), [1, 2, 3, 4, 1, 2]);
    // 60 bytes at 48 kbit/s are 10 ms.
    let slow = port("pcap", &format!("file={path},rate=48kbit"), &pool).unwrap();
    let begun = Instant::now();
    receive(&*slow, &mut pool.cache(), 4, |_| true);
    assert!(begun.elapsed() >= Duration::from_millis(29));
}

#[test]
fn a_pipe_begins_with_its_first_frame() {
    let (folder, pool) = (Folder::new(), pool());
    let (path, file) = (folder.path("fifo"), folder.path("a.pcap"));
    run(&format!("mkfifo {path}"));
    let port = port("pcap", &format!("file={path}"), &pool).unwrap();
    assert!(receive_for(&*port, Duration::from_millis(50)).is_empty());
    let mut writer = File::options().write(true).open(&path).unwrap();
    capture(&file, &[(0, 1), (20, 2)]);
    let bytes = fs::read(&file).unwrap();
    // In the middle of the first frame.
    writer.write_all(&bytes[..60]).unwrap();
    assert!(receive_for(&*port, Duration::from_millis(50)).is_empty());
    writer.write_all(&bytes[60..]).unwrap();
    let found = receive(&*port, &mut pool.cache(), 2, |_| true);
    assert_eq!(numbers(&found), [1, 2]);
    // The port goes while its thread waits for the pipe.
    drop(port);
    drop(writer);
}

#[test]
fn damage_comes_after_the_frames_before_it() {
    let (folder, pool) = (Folder::new(), pool());
    let path = folder.path("a.pcap");
    capture(&path, &[(0, 1), (0, 2), (0, 3)]);
    let mut bytes = fs::read(&path).unwrap();
    bytes.truncate(bytes.len() - 10);
    // The second frame was truncated when it was captured.
    let second = 24 + 16 + 60;
    bytes[second + 12..second + 16].copy_from_slice(&100_u32.to_le_bytes());
    fs::write(&path, bytes).unwrap();
    let port = port("pcap", &format!("file={path}"), &pool).unwrap();
    let mut cache = pool.cache();
    assert_eq!(numbers(&receive(&*port, &mut cache, 1, |_| true)), [1]);
    let error = port.receive(0, &mut cache, &mut Batch::new()).unwrap_err();
    assert!(error.to_string().contains("is truncated"), "{error}");
    assert_eq!(port.counters().rx_errors.load(Relaxed), 1);
    assert_eq!(port.receive(0, &mut cache, &mut Batch::new()).unwrap(), 0);
}

#[test]
fn frames_are_written_to_files_directories_and_pipes() {
    let (folder, pool) = (Folder::new(), pool());
    let mut tagged = pool.packet(&frame(1)).unwrap();
    tagged.set_vlan(Some(VlanTag {
        proto: 0x8100,
        tci: 5,
    }));
    let frames = [tagged, pool.packet(&frame(2)).unwrap()];
    let path = folder.path("a.pcapng");
    let file = port("pcap", &format!("out={path}"), &pool).unwrap();
    assert_eq!(file.send(0, &frames).unwrap(), 2);
    // A reader sees them at once.
    let found = read(&path);
    assert_eq!(found[0].data[12..20], [0x81, 0, 0, 5, 0x88, 0xb5, 1, 1]);
    assert_eq!(found[1].data, frame(2));
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    let age = now.as_nanos() as u64 - found[1].time_ns;
    assert!(age < LONG.as_nanos() as u64, "{age}");
    file.close().unwrap();

    let dir = folder.path("dir");
    fs::create_dir(&dir).unwrap();
    let rotated = port("pcap", &format!("out={dir},rotate=120"), &pool).unwrap();
    for _ in 0..3 {
        assert_eq!(rotated.send(0, &frames).unwrap(), 2);
    }
    rotated.close().unwrap();
    let mut counts: Vec<_> = fs::read_dir(&dir)
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    counts.sort();
    let names: Vec<_> = counts
        .iter()
        .map(|p| p.file_name().unwrap().to_str().unwrap())
        .collect();
    assert_eq!(
        names,
        [
            "port-00001.pcapng",
            "port-00002.pcapng",
            "port-00003.pcapng"
        ]
    );
    assert!(counts.iter().all(|path| read(path).len() == 2));

    // The reader of a pipe goes: the port ends, with the reason.
    let fifo = folder.path("fifo");
    run(&format!("mkfifo {fifo}"));
    let reader = std::thread::spawn({
        let fifo = fifo.clone();
        move || drop(File::open(fifo).unwrap())
    });
    let port = port("pcap", &format!("out={fifo}"), &pool).unwrap();
    reader.join().unwrap();
    let error = port.send(0, &frames).unwrap_err().to_string();
    assert!(error.contains("fifo: cannot be written"), "{error}");
}

#[test]
fn generated_frames() {
    let pool = pool();
    let port = port(
        "generator",
        "count=1000,rate=100000,flows=5,size=imix",
        &pool,
    )
    .unwrap();
    let begun = Instant::now();
    let found = receive(&*port, &mut pool.cache(), 1000, |_| true);
    assert!(begun.elapsed() >= Duration::from_millis(9));
    assert!(
        found
            .iter()
            .all(|packet| [60, 590, 1514].contains(&packet.len()))
    );
    assert!(receive_for(&*port, Duration::from_millis(30)).is_empty());
    // It takes frames and forgets them.
    assert_eq!(port.send(0, &found).unwrap(), 1000);
    // A tag is in the frame, as on a wire.
    let tagged = crate::common::port("generator", "count=1,vlan=7", &pool).unwrap();
    let found = receive(&*tagged, &mut pool.cache(), 1, |_| true);
    assert_eq!(found[0].data()[12..16], [0x81, 0, 0, 7]);
}

#[test]
fn no_memory_loses_frames_and_goes_on() {
    let small = weir_packet::Pool::new(weir_packet::PoolConfig {
        limit: 1,
        ..weir_packet::PoolConfig::default()
    });
    let port = port("generator", "count=100,rate=1000000,size=60", &small).unwrap();
    let mut few = small.cache();
    let mut held = Vec::new();
    while let Some(packet) = few.alloc(100) {
        held.push(packet);
    }
    let end = Instant::now() + LONG;
    while port.counters().rx_dropped.load(Relaxed) == 0 {
        port.receive(0, &mut few, &mut Batch::new()).unwrap();
        assert!(Instant::now() < end);
    }
    drop(held);
    let dropped = port.counters().rx_dropped.load(Relaxed);
    let found = receive(&*port, &mut few, 100 - dropped as usize, |_| true);
    assert_eq!(found.len() as u64 + dropped, 100);
    drop((found, few));
    let stats = small.stats();
    assert_eq!(stats.frames, stats.frames_free);
}

#[test]
fn keys_of_captures_and_generators() {
    let (folder, pool) = (Folder::new(), pool());
    let path = folder.path("a.pcap");
    capture(&path, &[(0, 1)]);
    let text = folder.path("text");
    fs::write(&text, "no capture").unwrap();
    let fifo = folder.path("fifo");
    run(&format!("mkfifo {fifo}"));
    for (kind, keys, said) in [
        ("pcap", String::new(), "pcap: file= or out= is required"),
        ("pcap", "fil=x".into(), "did you mean file?"),
        ("pcap", format!("out={path},loop=2"), "loop= needs file="),
        (
            "pcap",
            format!("file={path},rotate=2"),
            "rotate= needs out=",
        ),
        (
            "pcap",
            format!("file={path},loop=x"),
            "loop=x is not a valid value",
        ),
        (
            "pcap",
            format!("file={path},rate=1tbit"),
            "rate=1tbit is not a valid value",
        ),
        (
            "pcap",
            format!("file={path},rate=0"),
            "rate must be 1 or more",
        ),
        (
            "pcap",
            format!("out={path},rotate=1M"),
            "rotate= needs a directory",
        ),
        (
            "pcap",
            format!("out={},rotate=0K", folder.path("")),
            "rotate=0K is not a valid value",
        ),
        (
            "pcap",
            format!("out={},rotate=KM", folder.path("")),
            "rotate=KM is not a valid value",
        ),
        ("pcap", format!("file={text}"), "is neither pcap nor pcapng"),
        (
            "pcap",
            format!("file={}", folder.path("absent")),
            "absent: cannot be opened",
        ),
        (
            "pcap",
            "out=/nowhere/x".into(),
            "/nowhere/x: cannot be created",
        ),
        (
            "pcap",
            format!("file={fifo},loop=2"),
            "is a pipe, which is not played again",
        ),
        (
            "pcap",
            format!("file={fifo},rate=2"),
            "is a pipe, which keeps its times",
        ),
        ("generator", "sise=imix".into(), "did you mean size?"),
        ("generator", "size=20".into(), "is too short"),
        (
            "generator",
            "busy=maybe".into(),
            "busy=maybe is none of off, on",
        ),
    ] {
        let error = port(kind, &keys, &pool).unwrap_err().to_string();
        assert!(error.contains(said), "{kind} {keys}: {error}");
    }
    // A capture that is refused is not overwritten.
    assert_eq!(read(&path).len(), 1);
}
