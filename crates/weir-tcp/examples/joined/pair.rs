// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Two connections joined in memory, on one CPU: how fast they carry data, and how many connections they make.

use std::sync::Arc;
use std::time::Instant;

use weir_tcp::request::Verdict;
use weir_tcp::{Config, Connection, Header, Opening, Path, Request, Segment, Settings, State};

/// A segment on its way: its header, and where its data are.
struct Sent {
    header: Header,
    start: usize,
    end: usize,
}

/// What one end has sent.
#[derive(Default)]
struct Wire {
    bytes: Vec<u8>,
    sent: Vec<Sent>,
}

impl Wire {
    fn take(&mut self, connection: &mut Connection, now: u64) {
        self.bytes.clear();
        self.sent.clear();
        connection.poll(now, &mut |segment: &Segment<'_>| {
            let start = self.bytes.len();
            self.bytes.extend_from_slice(segment.data[0]);
            self.bytes.extend_from_slice(segment.data[1]);
            self.sent.push(Sent {
                header: segment.header,
                start,
                end: self.bytes.len(),
            });
        });
    }

    fn deliver(&self, connection: &mut Connection, now: u64) {
        for sent in &self.sent {
            connection.segment(now, &sent.header, &self.bytes[sent.start..sent.end]);
        }
    }
}

const PATH: Path = Path::ipv4(1500);

fn opening(config: &Arc<Config>, settings: &Arc<Settings>, isn: u32) -> Opening {
    Opening {
        config: config.clone(),
        settings: settings.clone(),
        path: PATH,
        isn,
        timestamp_offset: 0,
        fast_open: None,
    }
}

/// Connects two ends.
fn pair(
    config: &Arc<Config>,
    settings: &Arc<Settings>,
    now: u64,
    isn: u32,
) -> (Connection, Connection) {
    let mut client = Connection::connect(now, opening(config, settings, isn));
    let mut wire = Wire::default();
    wire.take(&mut client, now);
    let mut request = Request::new(now, config, settings, &PATH, &wire.sent[0].header, !isn, 0);
    client.segment(now, &request.syn_ack(now).header, &[]);
    wire.take(&mut client, now);
    let ack = wire.sent[0].header;
    assert_eq!(request.segment(now, config, &ack, 0), Verdict::Complete);
    let (server, _) = request.accept(now, config, settings, PATH, &ack, &[]);
    (client, server)
}

/// Carries so many GiB in one direction. Returns Gbit/s, the bytes of a segment, and the segments that were sent again.
pub fn data(gibibytes: u64) -> [f64; 3] {
    let config = Arc::new(Config::default());
    let settings = Settings::shared();
    let start = Instant::now();
    let clock = || 1_000_000_000 + start.elapsed().as_nanos() as u64;
    let (mut client, mut server) = pair(&config, &settings, clock(), 1);
    let data = vec![7; 1 << 18];
    let (mut there, mut back) = (Wire::default(), Wire::default());
    let mut received = 0u64;
    let mut segments = 0u64;
    let begin = Instant::now();
    while received < gibibytes << 30 {
        let now = clock();
        client.send(now, &data);
        there.take(&mut client, now);
        segments += there.sent.len() as u64;
        there.deliver(&mut server, now);
        let count = server.readable();
        received += count as u64;
        server.consume(now, count);
        back.take(&mut server, now);
        back.deliver(&mut client, now);
        if there.sent.is_empty() && count == 0 {
            client.timeout(now);
            server.timeout(now);
        }
    }
    [
        received as f64 * 8.0 / begin.elapsed().as_secs_f64() / 1e9,
        received as f64 / segments.max(1) as f64,
        client.retransmitted().into(),
    ]
}

/// Makes and closes so many connections. Returns connections a second.
pub fn connections(count: u32) -> f64 {
    let config = Arc::new(Config::default());
    let settings = Settings::shared();
    let start = Instant::now();
    let clock = || 1_000_000_000 + start.elapsed().as_nanos() as u64;
    let (mut there, mut back) = (Wire::default(), Wire::default());
    let begin = Instant::now();
    for n in 0..count {
        let now = clock();
        let (mut client, mut server) = pair(&config, &settings, now, n.wrapping_mul(1000));
        client.close(now, false);
        let mut rounds = 0;
        while client.state() != State::TimeWait || server.state() != State::Closed {
            there.take(&mut client, now);
            there.deliver(&mut server, now);
            if server.state() == State::CloseWait {
                server.close(now, false);
            }
            back.take(&mut server, now);
            back.deliver(&mut client, now);
            rounds += 1;
            assert!(rounds < 10, "{:?} {:?}", client.state(), server.state());
        }
    }
    f64::from(count) / begin.elapsed().as_secs_f64()
}
