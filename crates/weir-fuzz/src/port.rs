// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Bytes from outside into live ports. The first byte selects the input: a stream socket, datagrams, a frame behind the
//! header of its offloads (TAP), a block of a packet socket's ring, a capture, the description of a port.
//!
//! Invariants: a port yields the frames that its input contains and counts the others; it may end with an error, and
//! yields nothing afterwards; when the port and its packets are gone, the memory has all frames back.

use std::fs::File;
use std::io::{Seek, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use rustix::fs::{MemfdFlags, memfd_create};
use weir_packet::packet::JUMBO_DATA;
use weir_packet::{Batch, Packet, Pool, PoolConfig};
use weir_port::fuzz::{Received, block, tap};
use weir_port::generator::{Generator, Parameters};
use weir_port::keys::Keys;
use weir_port::kinds::{KINDS, kind};
use weir_port::port::{Clock, Port, Site};
use weir_port::{Frame, Source};

/// The most frames used from one input.
const FRAMES: usize = 1_000;

/// Gives bytes to the port that the first one selects.
pub fn run(bytes: &[u8]) {
    let Some((selector, bytes)) = bytes.split_first() else {
        return;
    };
    let pool = Pool::new(PoolConfig {
        limit: 8 << 20,
        huge_pages: false,
        ..PoolConfig::default()
    });
    match selector % 6 {
        0 => stream(bytes, &pool),
        1 => datagrams(bytes, &pool),
        2 => from_kernel(bytes, &pool, tap),
        3 => from_kernel(bytes, &pool, block),
        4 => capture(bytes, &pool),
        _ => description(bytes),
    }
    let stats = pool.stats();
    assert_eq!(stats.frames, stats.frames_free, "frames are lost");
    assert_eq!(stats.jumbos, stats.jumbos_free, "jumbo frames are lost");
}

fn adopt(name: &str, keys: &str, file: OwnedFd, site: &Site) -> weir_port::Result<Arc<dyn Port>> {
    let kind = kind(name)?;
    let keys = Keys::parse(name, kind.keys, keys)?;
    (kind.adopt)(&keys, vec![file], site)
}

/// Receives until nothing waits or the port ends.
fn receive(port: &dyn Port, pool: &Pool) -> Vec<Packet> {
    let mut cache = pool.cache();
    let mut found: Vec<Packet> = Vec::new();
    while found.len() < FRAMES {
        let mut batch = Batch::new();
        let result = port.receive(0, &mut cache, &mut batch);
        let none = batch.is_empty();
        found.extend(batch.drain());
        if result.is_err() || none {
            break;
        }
    }
    found
}

fn assert_same(found: &[Packet], expected: &[&[u8]]) {
    assert_eq!(found.len(), expected.len(), "the number of frames");
    for (found, expected) in found.iter().zip(expected) {
        assert_eq!(found.data(), *expected, "a frame");
    }
}

fn stream(bytes: &[u8], pool: &Pool) {
    let Ok((mut theirs, ours)) = UnixStream::pair() else {
        return;
    };
    let bytes = bytes.get(..bytes.len().min(1 << 16)).unwrap_or_default();
    let site = Site::new(pool);
    let port = adopt("socket", "path=fuzz,mode=connect", ours.into(), &site);
    let port = port.expect("a socket of a pair is a stream");
    // In two pieces, so that a frame may be cut.
    let (first, rest) = bytes.split_at(bytes.len() / 2);
    theirs.write_all(first).expect("the buffer has room");
    let mut found = receive(&*port, pool);
    // The port has hung up after an impossible length.
    let _ = theirs.write_all(rest);
    drop(theirs);
    found.extend(receive(&*port, pool));
    let (mut expected, mut rest) = (Vec::new(), bytes);
    while let Some((len, after)) = rest.split_first_chunk() {
        let len = u32::from_be_bytes(*len) as usize;
        if len > JUMBO_DATA || expected.len() == FRAMES {
            break;
        }
        let Some((frame, after)) = after.split_at_checked(len) else {
            break;
        };
        expected.push(frame);
        rest = after;
    }
    if expected.len() < FRAMES && found.len() < FRAMES {
        assert_same(&found, &expected);
    }
}

/// Each datagram has a length of two bytes in front.
fn datagrams(bytes: &[u8], pool: &Pool) {
    /// Datagrams that a socket's queue holds for sure.
    const QUEUED: usize = 8;
    let Ok((theirs, ours)) = UnixDatagram::pair() else {
        return;
    };
    let port = adopt(
        "socket",
        "path=fuzz,type=dgram",
        ours.into(),
        &Site::new(pool),
    );
    let port = port.expect("a socket of a pair takes datagrams");
    let (mut sent, mut rest) = (Vec::new(), bytes);
    while let Some((len, after)) = rest.split_first_chunk().filter(|_| sent.len() < QUEUED) {
        let len = usize::from(u16::from_be_bytes(*len)).min(after.len());
        let (frame, after) = after.split_at(len);
        theirs.send(frame).expect("the queue has room");
        sent.push(frame);
        rest = after;
    }
    let found = receive(&*port, pool);
    let dropped =
        port.counters().rx_dropped.load(Relaxed) + port.counters().rx_errors.load(Relaxed);
    assert_eq!(
        found.len() + dropped as usize,
        sent.len(),
        "every datagram counts"
    );
    if dropped == 0 {
        // A longer one is cut, as by any receiver of datagrams.
        let cut: Vec<_> = sent
            .iter()
            .map(|frame| &frame[..frame.len().min(JUMBO_DATA)])
            .collect();
        assert_same(&found, &cut);
    }
}

fn from_kernel(
    bytes: &[u8],
    pool: &Pool,
    deliver: fn(&[u8], &mut weir_packet::Cache, &mut Received),
) {
    let mut cache = pool.cache();
    let mut received = Received::default();
    deliver(bytes, &mut cache, &mut received);
    let all = received.batch.iter().chain(&received.waiting);
    assert!(
        all.into_iter().all(|packet| packet.len() <= JUMBO_DATA),
        "too long"
    );
}

/// A capture that is played twice under virtual time.
fn capture(bytes: &[u8], pool: &Pool) {
    let Ok(file) = memfd_create("fuzz", MemfdFlags::CLOEXEC) else {
        return;
    };
    let mut file = File::from(file);
    file.write_all(bytes).expect("memory is there");
    file.rewind().expect("a file in memory has a beginning");
    let now = Arc::new(AtomicU64::new(0));
    let clock = now.clone();
    let site = Site {
        clock: Clock::new(true, move || (clock.load(Relaxed), 0)),
        ..Site::new(pool)
    };
    let port = adopt("pcap", "file=fuzz,loop=2", file.into(), &site);
    let port = port.expect("a port reads its file later");
    let mut cache = pool.cache();
    for _ in 0..FRAMES {
        let Some(due) = port.due() else { return };
        now.fetch_max(due, Relaxed);
        let mut batch = Batch::new();
        let before =
            port.counters().rx_errors.load(Relaxed) + port.counters().rx_dropped.load(Relaxed);
        let result = port.receive(0, &mut cache, &mut batch);
        let after =
            port.counters().rx_errors.load(Relaxed) + port.counters().rx_dropped.load(Relaxed);
        assert!(
            result.is_err() || !batch.is_empty() || after > before,
            "nothing was due"
        );
        if result.is_err() {
            assert_eq!(port.due(), None, "the port goes on after its end");
            return;
        }
    }
}

/// A description of every kind, and of a generator, which then generates.
fn description(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    for kind in KINDS {
        match Keys::parse(kind.name, kind.keys, text) {
            Ok(keys) => {
                let again = Keys::parse(kind.name, kind.keys, &keys.to_string());
                assert_eq!(again.expect("written as it was read"), keys);
            }
            Err(error) => assert!(!error.to_string().contains('\n') || text.contains('\n')),
        }
    }
    let Ok(parameters) = text.parse::<Parameters>() else {
        return;
    };
    // Other numbers of flows only take memory.
    if parameters.flows > 1 << 16 {
        return;
    }
    let Ok(mut generator) = Generator::new(parameters) else {
        return;
    };
    let mut frame = Frame::default();
    for _ in 0..20 {
        match generator.read(&mut frame) {
            Ok(true) => assert!(frame.is_complete() && frame.data.len() >= 42, "a frame"),
            _ => return,
        }
    }
}
