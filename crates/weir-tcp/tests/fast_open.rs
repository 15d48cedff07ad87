// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fast Open of both ends (RFC 7413), as packetdrill's scripts in `gtests/net/tcp/fastopen` expect it.

mod common;

use std::sync::Arc;

use common::{Packet, cut, opening};
use weir_tcp::fast_open::{Client, Keys};
use weir_tcp::header::{ACK, FIN, PSH, RST, SYN};
use weir_tcp::options::FastOpen;
use weir_tcp::time::{MS, SECOND};
use weir_tcp::{
    Config, Connection, Counter, Header, Options, Path, Request, Segment, Settings, State,
};

const NOW: u64 = 10 * SECOND;

fn cookie() -> FastOpen {
    let mut open = FastOpen {
        length: 4,
        ..FastOpen::default()
    };
    open.cookie[..4].copy_from_slice(&[0xab, 0xcd, 0x12, 0x34]);
    open
}

fn config() -> Config {
    Config {
        timestamps: false,
        ..Config::default()
    }
}

fn client(option: Option<FastOpen>, mss: u16) -> Connection {
    let config = Arc::new(config());
    let mut opening = opening(&config, &Settings::default(), Path::ipv4(1500), 0);
    opening.fast_open = Some(Client { option, mss });
    let mut client = Connection::connect(NOW, opening);
    client.defer();
    client
}

fn sent(end: &mut Connection, now: u64) -> Vec<Packet> {
    let mut packets = Vec::new();
    end.poll(now, &mut |segment: &Segment<'_>| {
        packets.extend(cut(segment))
    });
    packets
}

/// Flags, sequence number, acknowledgement and data of packets.
fn shape(packets: &[Packet]) -> Vec<(u8, u32, u32, usize)> {
    let one = |packet: &Packet| {
        let (header, data) = packet.header();
        (
            header.flags & (SYN | ACK | FIN | RST),
            header.seq,
            header.ack,
            data.len(),
        )
    };
    packets.iter().map(one).collect()
}

fn syn_ack(ack: u32, mss: u16, open: Option<FastOpen>) -> Header {
    Header {
        seq: 1000,
        ack,
        flags: SYN | ACK,
        window: 14600,
        options: Options {
            mss: Some(mss),
            sack_permitted: true,
            window_scale: Some(6),
            fast_open: open,
            ..Options::default()
        },
        ..Header::default()
    }
}

#[test]
fn a_syn_carries_cookie_and_data() {
    let mut end = client(Some(cookie()), 0);
    assert!(end.is_deferred() && sent(&mut end, NOW).is_empty());
    assert_eq!(end.syn_room(), 1420);
    assert_eq!(end.send(NOW, &[7; 1000]), 1000);
    end.undefer();
    let packets = sent(&mut end, NOW);
    assert_eq!(shape(&packets), [(SYN, 0, 0, 1000)]);
    assert_eq!(packets[0].header().0.options.fast_open, Some(cookie()));
    // The server takes the data, and answers with another MSS and cookie.
    let mut other = cookie();
    other.cookie[0] = 9;
    end.segment(NOW + 50 * MS, &syn_ack(1001, 940, Some(other)), &[]);
    assert_eq!(end.state(), State::Established);
    assert_eq!(
        shape(&sent(&mut end, NOW + 50 * MS)),
        [(ACK, 1001, 1001, 0)]
    );
    let learned = end.take_learned().expect("what the SYN-ACK told");
    assert_eq!(
        (learned.cookie, learned.mss, learned.dropped),
        (Some(other), 940, false)
    );
    let info = end.info(NOW);
    assert_eq!(info.options & 32, 32);
    assert_eq!((info.delivered, info.words[4]), (1, 0));
    assert!(end.take_counts().has(Counter::FastOpenActive));
    // With the server's MSS known, its SYN has less room.
    assert_eq!(client(Some(cookie()), 940).syn_room(), 900);
}

#[test]
fn a_request_for_a_cookie_carries_no_data_and_is_not_repeated() {
    let mut end = client(Some(FastOpen::default()), 0);
    assert_eq!(end.syn_room(), 0);
    end.undefer();
    let packets = sent(&mut end, NOW);
    assert_eq!(shape(&packets), [(SYN, 0, 0, 0)]);
    assert_eq!(
        packets[0].header().0.options.fast_open,
        Some(FastOpen::default())
    );
    let due = end.deadline().expect("the SYN is sent again");
    assert_eq!(due, NOW + SECOND);
    end.timeout(due);
    let packets = sent(&mut end, due);
    assert_eq!(packets[0].header().0.options.fast_open, None);
    end.segment(due + MS, &syn_ack(1, 1240, Some(cookie())), &[]);
    let learned = end.take_learned().expect("what the SYN-ACK told");
    assert_eq!((learned.cookie, learned.mss), (Some(cookie()), 1240));
    assert_eq!(end.info(due).options & 32, 0);
}

#[test]
fn data_that_the_server_did_not_take_are_sent_again_at_once() {
    let mut end = client(Some(cookie()), 0);
    end.send(NOW, &[7; 18]);
    end.undefer();
    sent(&mut end, NOW);
    end.segment(NOW + 5 * MS, &syn_ack(10, 1460, None), &[]);
    let packets = sent(&mut end, NOW + 5 * MS);
    assert_eq!(shape(&packets), [(ACK, 10, 1001, 9)]);
    assert!(packets[0].header().0.has(PSH));
    assert_eq!(end.info(NOW).options & 32, 0);
    assert!(end.take_counts().has(Counter::FastOpenActiveFail));
    assert!(!end.take_learned().expect("told").dropped);
}

#[test]
fn a_lost_syn_with_data_is_followed_by_a_plain_one() {
    let mut end = client(Some(cookie()), 0);
    end.send(NOW, &[7; 100]);
    end.undefer();
    sent(&mut end, NOW);
    end.timeout(NOW + SECOND);
    let packets = sent(&mut end, NOW + SECOND);
    assert_eq!(shape(&packets), [(SYN, 0, 0, 0)]);
    end.segment(NOW + SECOND + MS, &syn_ack(1, 1460, None), &[]);
    assert!(end.take_learned().expect("told").dropped);
    assert_eq!(
        shape(&sent(&mut end, NOW + SECOND + MS)),
        [(ACK, 1, 1001, 100)]
    );
}

fn server(data: &[u8], fin: bool) -> (Request, Connection) {
    let syn = Header {
        seq: 0,
        flags: if fin { SYN | FIN } else { SYN },
        window: 32792,
        options: Options {
            mss: Some(1460),
            sack_permitted: true,
            ..Options::default()
        },
        ..Header::default()
    };
    let (config, settings, path) = (Arc::new(config()), Settings::default(), Path::ipv4(1500));
    let mut request = Request::new(NOW, &config, &settings, &path, &syn, 500, 0);
    request.set_fast_open(cookie());
    let end = request.accept_early(NOW, &config, &settings, path, &syn, data);
    (request, end)
}

fn ack(seq: u32, ack: u32) -> Header {
    Header {
        seq,
        ack,
        flags: ACK,
        window: 5840,
        ..Header::default()
    }
}

#[test]
fn a_server_reads_and_answers_before_the_handshake_is_complete() {
    let (_, mut end) = server(&[1; 1000], false);
    assert!(end.is_early());
    let packets = sent(&mut end, NOW);
    assert_eq!(shape(&packets), [(SYN | ACK, 500, 1001, 0)]);
    assert_eq!(packets[0].header().0.options.fast_open, Some(cookie()));
    assert_eq!((end.state(), end.readable()), (State::SynReceived, 1000));
    assert_eq!(end.info(NOW).options & 32, 32);
    assert_eq!(end.send(NOW, &[2; 2920]), 2920);
    let data = [(ACK, 501, 1001, 1460), (ACK, 1961, 1001, 1460)];
    assert_eq!(shape(&sent(&mut end, NOW)), data);
    end.segment(NOW + 100 * MS, &ack(1001, 501), &[]);
    assert_eq!(end.state(), State::Established);
    assert!(!end.is_early());
    assert_eq!(end.info(NOW).delivered, 1);
    end.segment(NOW + 100 * MS, &ack(1001, 3421), &[]);
    assert_eq!(end.unacknowledged(), 0);
    end.segment(NOW + 101 * MS, &ack(1001, 3421), &[3; 1000]);
    assert_eq!(end.readable(), 2000);
}

#[test]
fn the_syn_ack_is_sent_again() {
    let (_, mut end) = server(&[1; 10], false);
    sent(&mut end, NOW);
    let due = end.deadline().expect("a time-out");
    assert_eq!(due, NOW + SECOND);
    end.timeout(due);
    let packets = sent(&mut end, due);
    assert_eq!(shape(&packets), [(SYN | ACK, 500, 11, 0)]);
    assert_eq!(packets[0].header().0.options.fast_open, None);
    // And when the client repeats its SYN.
    let syn = Header {
        flags: SYN,
        ..ack(0, 0)
    };
    end.segment(due + SECOND / 2, &syn, &[]);
    assert_eq!(
        shape(&sent(&mut end, due + SECOND / 2)),
        [(SYN | ACK, 500, 11, 0)]
    );
    // A reset ends it.
    let reset = Header {
        flags: RST,
        ..ack(11, 0)
    };
    end.segment(due + SECOND, &reset, &[]);
    assert_eq!((end.state(), end.error()), (State::Closed, 104));
}

#[test]
fn a_server_may_close_before_the_handshake_is_complete() {
    let (_, mut end) = server(&[], true);
    assert_eq!(end.state(), State::CloseWait);
    assert_eq!(shape(&sent(&mut end, NOW)), [(SYN | ACK, 500, 2, 0)]);
    end.close(NOW, false);
    assert_eq!(shape(&sent(&mut end, NOW)), [(FIN | ACK, 501, 2, 0)]);
    end.segment(NOW + MS, &ack(2, 502), &[]);
    assert_eq!(end.state(), State::Closed);
    assert_eq!(end.error(), 0);
}

#[test]
fn a_cookie_of_a_key_opens() {
    let keys = Keys::of(&[3; 16]).expect("a key");
    let made = keys.cookie(&[1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(made.length, 8);
    let options = Options {
        fast_open: Some(FastOpen {
            experimental: true,
            ..made
        }),
        ..Options::default()
    };
    let mut bytes = vec![0; options.length()];
    options.write(&mut bytes);
    assert_eq!(bytes.len(), 12);
    assert_eq!(bytes[..4], [254, 12, 0xf9, 0x89]);
    assert_eq!(Options::parse(&bytes, true), options);
}
