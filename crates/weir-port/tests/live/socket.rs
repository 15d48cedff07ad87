// SPDX-License-Identifier: Apache-2.0 OR MIT
//! UNIX sockets: streams and datagrams.

use std::fs;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use proptest::prelude::*;
use weir_packet::packet::JUMBO_DATA;
use weir_packet::{Batch, Packet, Pool, VlanTag};
use weir_port::Port;

use crate::common::{Folder, pool, port, receive, wait};

/// A frame in the framing of a stream.
fn framed(frame: &[u8]) -> Vec<u8> {
    [&(frame.len() as u32).to_be_bytes(), frame].concat()
}

fn bytes(packets: &[Packet]) -> Vec<Vec<u8>> {
    packets
        .iter()
        .map(|packet| packet.data().to_vec())
        .collect()
}

/// Polls a port that has nothing to receive, so that it notices a change.
fn look(port: &dyn Port, pool: &Pool) {
    let mut batch = Batch::new();
    assert!(wait(&[port.descriptor(0).unwrap()], Duration::from_secs(5)));
    assert_eq!(port.receive(0, &mut pool.cache(), &mut batch).unwrap(), 0);
}

fn listener(folder: &Folder, pool: &Pool) -> (String, Arc<dyn Port>) {
    let path = folder.path("s");
    let port = port("socket", &format!("path={path}"), pool).unwrap();
    (path, port)
}

#[test]
fn a_stream_serves_one_client_after_the_other() {
    let (folder, pool) = (Folder::new(), pool());
    let (path, port) = listener(&folder, &pool);
    let mut cache = pool.cache();
    assert!(!port.has_carrier());
    assert_eq!(port.facts().name, path);
    // Without a client, frames are lost.
    let frame = pool.packet(&[9; 60]).unwrap();
    assert_eq!(port.send(0, std::slice::from_ref(&frame)).unwrap(), 1);
    assert_eq!(port.counters().tx_errors.load(Relaxed), 1);

    let mut first = UnixStream::connect(&path).unwrap();
    first.write_all(&framed(&[1; 60])).unwrap();
    // The second client waits for the end of the first one.
    let mut second = UnixStream::connect(&path).unwrap();
    second.write_all(&framed(&[2; 70])).unwrap();
    let found = receive(&*port, &mut cache, 1, |_| true);
    assert_eq!(bytes(&found), [vec![1; 60]]);
    assert!(port.has_carrier());
    assert_eq!(port.send(0, std::slice::from_ref(&frame)).unwrap(), 1);
    let mut found = [0; 64];
    first.read_exact(&mut found).unwrap();
    assert_eq!(found[..], framed(&[9; 60]));
    // The peer dies in the middle of a frame, which is not mixed with the next client's.
    first.write_all(&framed(&[3; 80])[..40]).unwrap();
    drop(first);
    let found = receive(&*port, &mut cache, 1, |_| true);
    assert_eq!(bytes(&found), [vec![2; 70]]);
    drop(second);
    look(&*port, &pool);
    assert!(!port.has_carrier());
}

#[test]
fn an_impossible_length_ends_the_connection() {
    let (folder, pool) = (Folder::new(), pool());
    let (path, port) = listener(&folder, &pool);
    let mut client = UnixStream::connect(&path).unwrap();
    client.write_all(&framed(&[1; 60])).unwrap();
    client
        .write_all(&(JUMBO_DATA as u32 + 1).to_be_bytes())
        .unwrap();
    let found = receive(&*port, &mut pool.cache(), 1, |_| true);
    assert_eq!(found.len(), 1);
    // The port has closed its end.
    assert!(matches!(client.read(&mut [0; 4]), Ok(0) | Err(_)));
    assert!(!port.has_carrier());
    // The longest frame is served.
    let mut client = UnixStream::connect(&path).unwrap();
    client.write_all(&framed(&vec![7; JUMBO_DATA])).unwrap();
    let found = receive(&*port, &mut pool.cache(), 1, |_| true);
    assert_eq!(bytes(&found), [vec![7; JUMBO_DATA]]);
}

#[test]
fn a_full_stream_takes_no_more_and_loses_nothing() {
    let (folder, pool) = (Folder::new(), pool());
    let (path, listening) = listener(&folder, &pool);
    let connected = port("socket", &format!("path={path},mode=connect"), &pool).unwrap();
    assert!(connected.has_carrier());
    look(&*listening, &pool);
    let frames: Vec<_> = (0..2000_u32)
        .map(|n| {
            pool.packet(&[&n.to_be_bytes()[..], &[0; 1496]].concat())
                .unwrap()
        })
        .collect();
    let mut sent = connected.send(0, &frames).unwrap();
    assert!(sent > 0 && sent < frames.len(), "{sent}");
    assert_eq!(connected.send(0, &frames[sent..]).unwrap(), 0);
    let mut cache = pool.cache();
    let mut found = Vec::new();
    while found.len() < frames.len() {
        let ends = [&listening, &connected].map(|port| port.descriptor(0).unwrap());
        assert!(wait(&ends, Duration::from_secs(5)), "{sent} sent");
        let mut full = true;
        while full {
            let mut batch = Batch::new();
            listening.receive(0, &mut cache, &mut batch).unwrap();
            full = batch.is_full();
            found.extend(batch.drain());
        }
        // The descriptor reports room, and the next poll writes the output that waits.
        if wait(&[connected.descriptor(0).unwrap()], Duration::ZERO) {
            look(&*connected, &pool);
            sent += connected.send(0, &frames[sent..]).unwrap();
        }
    }
    assert!(bytes(&found) == bytes(&frames));
    assert_eq!(connected.counters().tx_errors.load(Relaxed), 0);
    // The other end hangs up for good.
    drop(listening);
    let mut batch = Batch::new();
    assert!(connected.receive(0, &mut cache, &mut batch).is_err());
    assert!(connected.send(0, &frames[..1]).is_err());
}

#[test]
fn a_client_that_hangs_up_receives_no_more() {
    let (folder, pool) = (Folder::new(), pool());
    let (path, port) = listener(&folder, &pool);
    let client = UnixStream::connect(&path).unwrap();
    look(&*port, &pool);
    client.shutdown(Shutdown::Both).unwrap();
    let frame = pool.packet(&[9; 60]).unwrap();
    assert_eq!(port.send(0, &[frame]).unwrap(), 1);
    assert_eq!(port.counters().tx_errors.load(Relaxed), 1);
    look(&*port, &pool);
    assert!(!port.has_carrier());
}

#[test]
fn datagrams() {
    let (folder, pool) = (Folder::new(), pool());
    let (ours, theirs) = (folder.path("ours"), folder.path("theirs"));
    let port = |keys: &str| port("socket", &format!("path={keys},type=dgram"), &pool);
    let first = port(&ours).unwrap();
    let frame = pool.packet(&[9; 60]).unwrap();
    let frame = std::slice::from_ref(&frame);
    // Nobody has sent anything yet.
    assert_eq!(first.send(0, frame).unwrap(), 1);
    assert_eq!(first.counters().tx_errors.load(Relaxed), 1);
    let second = port(&format!("{theirs},peer={ours}")).unwrap();
    let mut tagged = pool.packet(&[5; 60]).unwrap();
    tagged.set_vlan(Some(VlanTag {
        proto: 0x8100,
        tci: 5,
    }));
    assert_eq!(second.send(0, &[tagged]).unwrap(), 1);
    let found = receive(&*first, &mut pool.cache(), 1, |_| true);
    let expected = [&[5; 12][..], &[0x81, 0, 0, 5], &[5; 48]].concat();
    assert_eq!(bytes(&found), [expected]);
    // The sender has become the peer.
    assert_eq!(first.send(0, frame).unwrap(), 1);
    let found = receive(&*second, &mut pool.cache(), 1, |_| true);
    assert_eq!(bytes(&found), [vec![9; 60]]);
    // A full queue loses frames.
    let many: Vec<_> = (0..2000).map(|_| pool.packet(&[1; 60]).unwrap()).collect();
    assert_eq!(first.send(0, &many).unwrap(), many.len());
    let lost = first.counters().tx_errors.load(Relaxed) - 1;
    assert!(lost > 0 && lost < 2000);
    let found = receive(&*second, &mut pool.cache(), 2000 - lost as usize, |_| true);
    assert_eq!(found.len(), 2000 - lost as usize);
    // The peer dies, and comes back at the same place.
    drop(second);
    assert_eq!(first.send(0, frame).unwrap(), 1);
    assert_eq!(first.counters().tx_errors.load(Relaxed), lost + 2);
    let second = port(&format!("{theirs},peer={ours}")).unwrap();
    assert_eq!(first.send(0, frame).unwrap(), 1);
    receive(&*second, &mut pool.cache(), 1, |_| true);
    assert_eq!(first.counters().tx_errors.load(Relaxed), lost + 2);
}

#[test]
fn paths_and_keys() {
    let (folder, pool) = (Folder::new(), pool());
    let (path, listening) = listener(&folder, &pool);
    let open = |keys: &str| {
        port("socket", &format!("path={path}{keys}"), &pool)
            .unwrap_err()
            .to_string()
    };
    // The path is in use.
    assert!(open("").contains("Address already in use"));
    assert!(open(",type=dgram,mode=connect").contains("mode= belongs to type=stream"));
    assert!(open(",peer=x").contains("peer= belongs to type=dgram"));
    drop(listening);
    assert!(open(",mode=connect").contains("Connection refused"));
    // A socket on which nobody listens is replaced; another file is not.
    drop(listener(&folder, &pool));
    fs::remove_file(&path).unwrap();
    fs::write(&path, "precious").unwrap();
    assert!(open("").contains("Address already in use"));
    assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    fs::remove_file(&path).unwrap();
    // So is a datagram socket whose owner died.
    drop(UnixDatagram::bind(&path).unwrap());
    port("socket", &format!("path={path},type=dgram"), &pool).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// A stream yields its frames, in whatever pieces it arrives.
    #[test]
    fn a_stream_in_pieces(
        lengths in prop::collection::vec(prop_oneof![0_usize..100, 1000_usize..2000, Just(JUMBO_DATA)], 1..30),
        pieces in prop::collection::vec(1_usize..3000, 1..30),
    ) {
        let (folder, pool) = (Folder::new(), pool());
        let (path, port) = listener(&folder, &pool);
        let mut client = UnixStream::connect(path).unwrap();
        let frames: Vec<_> = lengths.iter().enumerate().map(|(n, len)| vec![n as u8; *len]).collect();
        let stream: Vec<u8> = frames.iter().flat_map(|frame| framed(frame)).collect();
        let mut cache = pool.cache();
        let mut found = Vec::new();
        let mut rest = &stream[..];
        for piece in pieces.iter().chain(std::iter::repeat(&50_000)) {
            if rest.is_empty() {
                break;
            }
            let (piece, after) = rest.split_at((*piece).min(rest.len()));
            client.write_all(piece).unwrap();
            rest = after;
            let mut batch = Batch::new();
            port.receive(0, &mut cache, &mut batch).unwrap();
            found.extend(batch.drain());
        }
        prop_assert_eq!(bytes(&found), frames);
        prop_assert_eq!(port.counters().rx_dropped.load(Relaxed), 0);
    }

    /// Any bytes are frames or end the connection, and the port serves the next client.
    #[test]
    fn garbage(
        words in prop::collection::vec(prop_oneof![any::<u32>(), 0_u32..200], 0..200),
        tail in prop::collection::vec(any::<u8>(), 0..4),
    ) {
        let (folder, pool) = (Folder::new(), pool());
        let (path, port) = listener(&folder, &pool);
        let mut client = UnixStream::connect(&path).unwrap();
        let garbage: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).chain(tail).collect();
        client.write_all(&garbage).unwrap();
        drop(client);
        let mut cache = pool.cache();
        // The complete frames of the whole.
        let (mut expected, mut rest) = (Vec::new(), &garbage[..]);
        while let Some((len, after)) = rest.split_first_chunk() {
            let Some((frame, after)) = after.split_at_checked(u32::from_be_bytes(*len) as usize) else {
                break;
            };
            expected.push(frame.to_vec());
            rest = after;
        }
        let mut found = Vec::new();
        for _ in 0..=expected.len() / 64 + 1 {
            let mut batch = Batch::new();
            port.receive(0, &mut cache, &mut batch).unwrap();
            found.extend(batch.drain());
        }
        prop_assert_eq!(bytes(&found), expected);
        let mut client = UnixStream::connect(&path).unwrap();
        client.write_all(&framed(&[8; 60])).unwrap();
        let found = receive(&*port, &mut cache, 1, |_| true);
        prop_assert_eq!(bytes(&found), [vec![8; 60]]);
    }
}
