// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Frames that a sieve drops before packets are made of them, for every kind of port that has frames judged.
#![allow(unsafe_code)] // write(2) to a packet socket

use std::io::Write;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use weir_packet::{Batch, Pool};
use weir_port::Port;

use crate::common::*;

/// More than a call takes and a batch holds, and more than the fill ring of AF_XDP has entries.
const FRAMES: u32 = 5000;
/// Frames are sent in groups that the host's queues hold.
const GROUP: u32 = 100;

/// A frame with a number, of a length that depends on it. Some do not fit into a packet of the frame class if the
/// outside takes such frames.
fn frame(number: u32, longest: usize) -> Vec<u8> {
    let length = [60, 61, 200, 1514, longest][number as usize % 5];
    let mut bytes = vec![2; length];
    bytes[12..14].copy_from_slice(&[0x88, 0xb5]);
    bytes[14..18].copy_from_slice(&number.to_be_bytes());
    bytes
}

/// The number of one of our frames.
fn number(frame: &[u8]) -> Option<u32> {
    let is_ours = frame.get(12..14) == Some(&[0x88, 0xb5]);
    let number = frame.get(14..18).filter(|_| is_ours)?;
    Some(u32::from_be_bytes(number.try_into().unwrap()))
}

/// Sends numbered frames to a port. Its sieve drops two of three. Checks that each frame comes to the sieve at
/// most once, and to the batch if it was kept, in order, with its bytes.
fn sift(port: &dyn Port, pool: &Pool, longest: usize, mut send: impl FnMut(&[u8])) {
    assert!(port.sifts());
    let mut cache = pool.cache();
    let (mut judged, mut dropped, mut found) = (Vec::new(), Vec::new(), Vec::new());
    let mut sent = 0;
    let end = Instant::now() + LONG;
    while (dropped.len() + found.len()) < FRAMES as usize {
        assert!(
            Instant::now() < end,
            "{} and {}",
            dropped.len(),
            found.len()
        );
        if sent < FRAMES && dropped.len() + found.len() == sent as usize {
            (sent..sent + GROUP).for_each(|number| send(&frame(number, longest)));
            sent += GROUP;
        }
        wait(&[port.descriptor(0).unwrap()], Duration::from_millis(100));
        let mut batch = Batch::new();
        let (mut shown, mut gone) = (0, 0);
        let mut sieve = |frames: &[&[u8]]| {
            assert!((1..=64).contains(&frames.len()));
            let mut verdict = 0;
            for (n, bytes) in frames.iter().enumerate() {
                let Some(number) = number(bytes) else {
                    continue;
                };
                assert!(*bytes == frame(number, longest));
                judged.push(number);
                if !number.is_multiple_of(3) {
                    dropped.push(number);
                    (verdict, gone) = (verdict | 1 << n, gone + 1);
                }
            }
            shown += frames.len();
            verdict
        };
        let taken = port.take(0, &mut cache, &mut batch, Some(&mut sieve));
        assert_eq!(taken.unwrap(), batch.len() + gone);
        assert!(shown <= 128, "{shown} frames in one call");
        for packet in &batch {
            assert_eq!((packet.dev, packet.iif, packet.time), (0, 0, 0));
            if let Some(number) = number(packet.data()) {
                assert!(packet.data() == frame(number, longest));
                found.push(number);
            }
        }
    }
    let is_kept = |number: &u32| number.is_multiple_of(3);
    assert!(found.iter().copied().eq((0..FRAMES).filter(is_kept)));
    assert!(
        dropped
            .iter()
            .copied()
            .eq((0..FRAMES).filter(|n| !is_kept(n)))
    );
    assert!(judged.is_sorted_by(|a, b| a < b));
    assert_eq!(port.counters().rx_errors.load(Relaxed), 0);
    assert_eq!(port.counters().rx_dropped.load(Relaxed), 0);
}

/// Does the same to a port behind a device of the host.
fn sift_device(port: &dyn Port, pool: &Pool, longest: usize, device: &str) {
    let socket = weir_port::af_packet::AfPacket::open(device).unwrap();
    let send = |frame: &[u8]| {
        while socket.send([frame]).unwrap() == 0 {
            socket.wait().unwrap();
        }
    };
    // The kernel activates a device some time after it has a carrier.
    let end = Instant::now() + LONG;
    let mut cache = pool.cache();
    loop {
        assert!(Instant::now() < end, "no frame arrives");
        send(&[1; 60]);
        wait(&[port.descriptor(0).unwrap()], Duration::from_millis(50));
        let mut batch = Batch::new();
        port.receive(0, &mut cache, &mut batch).unwrap();
        if batch.iter().any(|packet| packet.data() == [1; 60]) {
            break;
        }
    }
    sift(port, pool, longest, send);
}

#[test]
fn streams() {
    const LONGEST: usize = 69_376;
    let (folder, pool) = (Folder::new(), pool());
    let path = folder.path("s");
    let port = port("socket", &format!("path={path}"), &pool).unwrap();
    let mut client = UnixStream::connect(&path).unwrap();
    // A stream holds the sender back.
    let sender = std::thread::spawn(move || {
        for number in 0..FRAMES {
            let frame = frame(number, LONGEST);
            let length = (frame.len() as u32).to_be_bytes();
            client.write_all(&[&length, &frame[..]].concat()).unwrap();
        }
        client
    });
    sift(&*port, &pool, LONGEST, |_| {});
    sender.join().unwrap();
}

#[test]
fn datagrams() {
    const LONGEST: usize = 30_000;
    let (folder, pool) = (Folder::new(), pool());
    let path = folder.path("s");
    let port = port("socket", &format!("path={path},type=dgram"), &pool).unwrap();
    let client = UnixDatagram::unbound().unwrap();
    client.connect(&path).unwrap();
    let sender = std::thread::spawn(move || {
        for number in 0..FRAMES {
            client.send(&frame(number, LONGEST)).unwrap();
        }
    });
    sift(&*port, &pool, LONGEST, |_| {});
    sender.join().unwrap();
}

#[test]
fn tap_devices() {
    in_namespaces("sieve::tap_inside");
}

#[test]
#[ignore = "the other test runs it, in namespaces of its own"]
fn tap_inside() {
    assert_inside();
    crate::tap::need_tun();
    let pool = pool();
    let port = port("tap", "name=t0", &pool).unwrap();
    run("ip link set t0 mtu 9000 up");
    sift_device(&*port, &pool, 8000, "t0");
}

#[test]
fn packet_sockets() {
    in_namespaces("sieve::packet_sockets_inside");
}

#[test]
#[ignore = "the other test runs it, in namespaces of its own"]
fn packet_sockets_inside() {
    assert_inside();
    run("ip link add v0 mtu 9000 type veth peer name v1 mtu 9000
        ip link set v0 up; ip link set v1 up");
    let pool = pool();
    let port = port("af_packet", "dev=v1", &pool).unwrap();
    sift_device(&*port, &pool, 8000, "v0");
}

#[test]
fn xdp_sockets() {
    in_network_namespace("sieve::xdp_sockets_inside");
}

#[test]
#[ignore = "the other test runs it, in a namespace of its own"]
fn xdp_sockets_inside() {
    assert_inside();
    run("ip link add v0 type veth peer name v1; ip link set v0 up; ip link set v1 up");
    for keys in ["dev=v1,zero_copy=off", "dev=v1,zero_copy=off,attach=skb"] {
        let pool = pool();
        let port = crate::af_xdp::xdp(keys, &pool);
        sift_device(&*port, &pool, 1514, "v0");
    }
}
