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
    let (config, settings, path) = (Arc::new(config()), Settings::shared(), Path::ipv4(1500));
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

#[test]
fn a_waiting_writer_acknowledges_with_its_data() {
    let mut end = client(Some(FastOpen::default()), 0);
    end.expect_data();
    end.undefer();
    sent(&mut end, NOW);
    end.segment(NOW + 20 * MS, &syn_ack(1, 1460, Some(cookie())), &[]);
    assert!(sent(&mut end, NOW + 20 * MS).is_empty());
    assert_eq!(end.deadline(), Some(NOW + 220 * MS));
    end.send(NOW + 20 * MS, &[7; 1000]);
    assert_eq!(
        shape(&sent(&mut end, NOW + 20 * MS)),
        [(ACK, 1, 1001, 1000)]
    );
    // The program answers, so the ACK of the peer's data waits for what it sends.
    end.segment(NOW + 40 * MS, &ack(1001, 1001), &[1; 500]);
    assert!(sent(&mut end, NOW + 40 * MS).is_empty());
    end.consume(NOW + 40 * MS, 500);
    end.close(NOW + 40 * MS, false);
    assert_eq!(
        shape(&sent(&mut end, NOW + 40 * MS)),
        [(FIN | ACK, 1001, 1501, 0)]
    );
}

#[test]
fn the_ack_of_a_writer_that_sends_nothing_is_delayed() {
    let mut end = client(Some(FastOpen::default()), 0);
    end.expect_data();
    end.undefer();
    sent(&mut end, NOW);
    end.segment(NOW + MS, &syn_ack(1, 1460, None), &[]);
    assert!(sent(&mut end, NOW + MS).is_empty());
    end.timeout(NOW + 201 * MS);
    assert_eq!(shape(&sent(&mut end, NOW + 201 * MS)), [(ACK, 1, 1001, 0)]);
}

#[test]
fn a_cookie_that_was_not_asked_for_is_not_kept() {
    let mut end = client(None, 0);
    end.send(NOW, &[7; 100]);
    end.undefer();
    sent(&mut end, NOW);
    end.segment(NOW + MS, &syn_ack(101, 1460, Some(cookie())), &[]);
    let learned = end.take_learned().expect("told");
    assert_eq!((learned.cookie, learned.ignored), (None, None));
}

#[test]
fn a_request_without_answer_is_told_with_its_option() {
    for experimental in [false, true] {
        let ask = FastOpen {
            experimental,
            ..FastOpen::default()
        };
        let mut end = client(Some(ask), 0);
        end.undefer();
        sent(&mut end, NOW);
        end.segment(NOW + MS, &syn_ack(1, 1460, None), &[]);
        let learned = end.take_learned().expect("told");
        assert_eq!(learned.ignored, Some(experimental));
    }
}

#[test]
fn data_that_are_sent_again_are_packets_of_the_size_that_the_server_takes() {
    let mut end = client(Some(cookie()), 0);
    end.send(NOW, &[7; 1420]);
    end.undefer();
    sent(&mut end, NOW);
    end.segment(NOW + 10 * MS, &syn_ack(101, 1000, None), &[]);
    let packets = sent(&mut end, NOW + 10 * MS);
    assert_eq!(
        shape(&packets),
        [(ACK, 101, 1001, 1000), (ACK, 1101, 1001, 320)]
    );
    assert_eq!(end.info(NOW).words[4], 2);
    end.send(NOW + 10 * MS, &[7; 4000]);
    sent(&mut end, NOW + 10 * MS);
    // All but the first packet arrive.
    let mut hole = ack(1001, 101);
    hole.options.sack[0] = (1101, 5421);
    hole.options.sack_count = 1;
    end.segment(NOW + 20 * MS, &hole, &[]);
    assert_eq!(
        shape(&sent(&mut end, NOW + 20 * MS)),
        [(ACK, 101, 1001, 1000)]
    );
}

#[test]
fn a_syn_that_is_too_large_for_the_path_is_repeated_at_once() {
    let mut end = client(Some(cookie()), 1040);
    end.send(NOW, &[7; 1000]);
    end.undefer();
    sent(&mut end, NOW);
    end.set_mtu(800);
    let packets = sent(&mut end, NOW + 10 * MS);
    assert_eq!(shape(&packets), [(SYN, 0, 0, 0)]);
    let options = packets[0].header().0.options;
    assert_eq!((options.mss, options.fast_open), (Some(760), None));
    end.segment(NOW + 30 * MS, &syn_ack(1, 1040, None), &[]);
    assert_eq!(
        shape(&sent(&mut end, NOW + 30 * MS)),
        [(ACK, 1, 1001, 760), (ACK, 761, 1001, 240)]
    );
}

#[test]
fn syns_with_data_cross() {
    let mut end = client(Some(cookie()), 0);
    end.send(NOW, &[7; 1000]);
    end.undefer();
    sent(&mut end, NOW);
    let syn = Header {
        ack: 0,
        flags: SYN,
        ..syn_ack(0, 1040, Some(cookie()))
    };
    end.segment(NOW + 5 * MS, &syn, &[1; 500]);
    let packets = sent(&mut end, NOW + 5 * MS);
    assert_eq!(shape(&packets), [(SYN | ACK, 0, 1001, 0)]);
    end.segment(NOW + 50 * MS, &syn_ack(1001, 940, None), &[]);
    assert_eq!(end.state(), State::Established);
    let packets = sent(&mut end, NOW + 50 * MS);
    assert_eq!(shape(&packets), [(ACK, 1001, 1001, 0)]);
    let options = packets[0].header().0.options;
    assert_eq!(options.sack_blocks(), [(1000, 1001)]);
}

#[test]
fn the_window_of_a_syn_is_for_the_data_after_it() {
    let syn = Header {
        seq: 0,
        flags: SYN,
        window: 10000,
        options: Options {
            mss: Some(1000),
            sack_permitted: true,
            ..Options::default()
        },
        ..Header::default()
    };
    let (config, settings, path) = (Arc::new(config()), Settings::shared(), Path::ipv4(1500));
    let request = Request::new(NOW, &config, &settings, &path, &syn, 500, 0);
    let mut end = request.accept_early(NOW, &config, &settings, path, &syn, &[1; 10]);
    sent(&mut end, NOW);
    end.send(NOW, &[2; 15000]);
    let packets = sent(&mut end, NOW);
    assert_eq!(packets.len(), 10);
    assert_eq!(shape(&packets)[9], (ACK, 9501, 11, 1000));
    assert_eq!(end.info(NOW).words[4], 10);
}

#[test]
fn a_short_answer_does_not_wait_for_the_end_of_the_handshake() {
    let (_, mut end) = server(&[1; 10], false);
    sent(&mut end, NOW);
    end.send(NOW, &[2; 100]);
    assert_eq!(shape(&sent(&mut end, NOW)), [(ACK, 501, 11, 100)]);
}

#[test]
fn a_fin_after_early_data_is_acknowledged_at_once() {
    let (_, mut end) = server(&[1; 10], false);
    sent(&mut end, NOW);
    let fin = Header {
        flags: FIN | ACK,
        ..ack(11, 501)
    };
    end.segment(NOW + 100 * MS, &fin, &[]);
    assert_eq!(shape(&sent(&mut end, NOW + 100 * MS)), [(ACK, 501, 12, 0)]);
    assert_eq!(end.state(), State::CloseWait);
}

#[test]
fn the_syn_ack_counts_as_delivered() {
    let (request, _) = server(&[], false);
    let (config, settings, path) = (Arc::new(config()), Settings::shared(), Path::ipv4(1500));
    let (end, _) = request.accept(NOW + MS, &config, &settings, path, &ack(1, 501), &[]);
    assert_eq!(end.state(), State::Established);
    assert_eq!(end.info(NOW).delivered, 1);
}
