// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The messages of the two profiles, and a client that sends them as fast as they are answered.
//!
//! Profile A is two MAC addresses and drop. Profile B is seven keys, `tunnel_key set` and `mirred
//! redirect`. The attributes are those that `tc` sends for the lines of [`Rules::tc_line`].

use std::os::fd::OwnedFd;
use std::time::Instant;

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair,
};
use weir_netlink::tca::{self, act, cls_flags, flower, mirred, tunnel_key};
use weir_netlink::{TcGen, TcMirred, TcMsg, TcTunnelKey, Writer, messages, nlm, rtm};

/// Messages per datagram.
pub const BATCH: u32 = 100;
/// The maximum number of unacknowledged datagrams in flight.
const WINDOW: usize = 4;
/// The maximum length of an answer, bytes.
const ANSWER: usize = 1 << 18;

/// The kind of rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// Two MAC addresses, drop.
    A,
    /// Seven keys, two actions.
    B,
}

/// The rules' device, target and counters.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    pub profile: Profile,
    /// The device with the filters.
    pub ifindex: u32,
    /// The target of profile B's redirect.
    pub target: u32,
    pub prio: u16,
    /// `no_percpu`
    pub plain: bool,
}

fn mac(kind: u8, n: u32) -> [u8; 6] {
    let [_, a, b, c] = n.to_be_bytes();
    [0xe4, kind, 0, a, b, c]
}

impl Rules {
    fn header(&self, handle: u32) -> TcMsg {
        TcMsg {
            ifindex: self.ifindex as i32,
            handle,
            parent: 0xffff_fff2,
            info: TcMsg::make_info(self.prio, 0x0800),
            ..TcMsg::default()
        }
    }

    fn action(&self, out: &mut Writer, n: u16, kind: &str, options: impl FnOnce(&mut Writer)) {
        let nest = out.nest(n);
        out.put_str(act::KIND, kind);
        if self.plain {
            let flag = act::FLAGS_NO_PERCPU_STATS;
            out.put_bitfield32(act::FLAGS, flag, flag);
        }
        let inside = out.nest(act::OPTIONS);
        options(out);
        out.end(inside);
        out.end(nest);
    }

    fn keys(&self, out: &mut Writer, n: u32) {
        out.put(flower::KEY_ETH_DST, &mac(0x12, n));
        out.put(flower::KEY_ETH_DST_MASK, &[0xff; 6]);
        out.put(flower::KEY_ETH_SRC, &mac(0x11, n));
        out.put(flower::KEY_ETH_SRC_MASK, &[0xff; 6]);
        if self.profile == Profile::B {
            out.put_u8(flower::KEY_IP_PROTO, 17);
            out.put_be32(flower::KEY_IPV4_SRC, 56 << 24 | n);
            out.put_be32(flower::KEY_IPV4_SRC_MASK, u32::MAX);
            out.put_be32(flower::KEY_IPV4_DST, 57 << 24 | n);
            out.put_be32(flower::KEY_IPV4_DST_MASK, u32::MAX);
            out.put_be16(flower::KEY_UDP_SRC, 1 + ((n >> 8) % 65_000) as u16);
            out.put_be16(flower::KEY_UDP_SRC_MASK, 0xffff);
            out.put_be16(flower::KEY_UDP_DST, 1 + (n % 65_000) as u16);
            out.put_be16(flower::KEY_UDP_DST_MASK, 0xffff);
        }
    }

    fn actions(&self, out: &mut Writer) {
        let general = |action| TcGen {
            action,
            ..TcGen::default()
        };
        match self.profile {
            Profile::A => self.action(out, 1, "gact", |out| {
                out.put_fixed(tca::gact::PARMS, &general(2));
            }),
            Profile::B => {
                self.first_of_two(out);
                self.action(out, 2, "mirred", |out| {
                    let parms = TcMirred {
                        common: general(4),
                        eaction: mirred::EGRESS_REDIR,
                        ifindex: self.target,
                    };
                    out.put_fixed(mirred::PARMS, &parms);
                });
            }
        }
    }

    /// Writes the first action of profile B: the tunnel key with which vxlan1 encapsulates.
    fn first_of_two(&self, out: &mut Writer) {
        self.action(out, 1, "tunnel_key", |out| {
            let parms = TcTunnelKey {
                common: TcGen {
                    action: 3,
                    ..TcGen::default()
                },
                t_action: tunnel_key::ACT_SET,
            };
            out.put_fixed(tunnel_key::PARMS, &parms);
            out.put_be32(tunnel_key::ENC_KEY_ID, 1);
            out.put(tunnel_key::ENC_IPV4_SRC, &[2, 2, 2, 2]);
            out.put(tunnel_key::ENC_IPV4_DST, &[2, 2, 2, 3]);
            out.put_be16(tunnel_key::ENC_DST_PORT, 4789);
        });
    }

    fn message(&self, out: &mut Writer, ty: u16, flags: u16, seq: u32, n: u32) {
        let flags = flags | nlm::F_REQUEST | if seq == 0 { 0 } else { nlm::F_ACK };
        let mark = out.message(ty, flags, seq, 0);
        out.fixed(&self.header(n + 1));
        out.put_str(tca::KIND, "flower");
        if ty == rtm::NEWTFILTER {
            let options = out.nest(tca::OPTIONS);
            self.keys(out, n);
            let actions = out.nest(flower::ACT);
            self.actions(out);
            out.end(actions);
            out.put_u32(flower::FLAGS, cls_flags::SKIP_HW);
            out.put_be16(flower::KEY_ETH_TYPE, 0x0800);
            out.end(options);
        }
        // A message always fits an unbounded writer.
        let _ = out.finish(mark);
    }

    /// Builds datagrams of [`BATCH`] requests for the rules `from..to`. The last request of each
    /// asks for an acknowledgement.
    fn datagrams(&self, ty: u16, flags: u16, from: u32, to: u32) -> Vec<Vec<u8>> {
        let all: Vec<u32> = (from..to).collect();
        let datagram = |rules: &[u32]| {
            let mut out = Writer::new();
            for (i, &n) in rules.iter().enumerate() {
                let seq = if i + 1 == rules.len() { n + 1 } else { 0 };
                self.message(&mut out, ty, flags, seq, n);
            }
            out.into_vec()
        };
        all.chunks(BATCH as usize).map(datagram).collect()
    }

    /// Builds the requests that insert the rules `from..to`.
    pub fn add(&self, from: u32, to: u32) -> Vec<Vec<u8>> {
        self.datagrams(rtm::NEWTFILTER, nlm::F_CREATE | nlm::F_EXCL, from, to)
    }

    /// Builds the requests that delete them.
    pub fn delete(&self, from: u32, to: u32) -> Vec<Vec<u8>> {
        self.datagrams(rtm::DELTFILTER, 0, from, to)
    }

    /// Returns the line with which `tc -b` inserts rule `n`.
    pub fn tc_line(&self, n: u32, device: &str) -> String {
        let [_, a, b, c] = n.to_be_bytes();
        let counters = if self.plain { " no_percpu" } else { "" };
        format!(
            "filter add dev {device} ingress protocol ip prio {} handle {} flower skip_hw \
             src_mac e4:11:0:{a:x}:{b:x}:{c:x} dst_mac e4:12:0:{a:x}:{b:x}:{c:x} action drop{counters}\n",
            self.prio,
            n + 1,
        )
    }
}

/// A client's netlink socket.
#[derive(Debug)]
pub struct Client(pub OwnedFd);

impl Client {
    fn receive<'a>(&self, buffer: &'a mut [u8]) -> Result<&'a [u8], String> {
        let (len, _) =
            recv(&self.0, &mut *buffer, RecvFlags::empty()).map_err(|e| format!("recv: {e}"))?;
        match buffer.get(..len) {
            Some([]) | None => Err("the stack closed the socket".into()),
            Some(bytes) => Ok(bytes),
        }
    }

    fn send(&self, datagram: &[u8]) -> Result<(), String> {
        send(&self.0, datagram, SendFlags::empty())
            .map(drop)
            .map_err(|e| format!("send: {e}"))
    }

    /// Sends all datagrams with a few in flight, and waits for the last answer. A refusal is an
    /// error.
    pub fn send_all(&self, datagrams: &[Vec<u8>]) -> Result<(), String> {
        let mut buffer = vec![0; ANSWER];
        let (mut sent, mut answered) = (0, 0);
        while answered < datagrams.len() {
            while sent < datagrams.len() && sent - answered < WINDOW {
                self.send(&datagrams[sent])?;
                sent += 1;
            }
            for message in messages(self.receive(&mut buffer)?) {
                let errno = message.payload().first_chunk().copied();
                let errno = errno.map_or(0, i32::from_ne_bytes);
                if message.header.ty != nlm::ERROR || errno != 0 {
                    return Err(format!(
                        "message {} answered with type {} errno {}",
                        message.header.seq, message.header.ty, -errno
                    ));
                }
                answered += usize::from(message.header.seq != 0);
            }
        }
        Ok(())
    }

    /// Dumps the filters of a device's ingress and returns their number. The first datagrams, up to
    /// the capacity of `keep`, are stored in it.
    pub fn dump(&self, ifindex: u32, keep: &mut Vec<Vec<u8>>) -> Result<u32, String> {
        let mut out = Writer::new();
        let mark = out.message(rtm::GETTFILTER, nlm::F_REQUEST | nlm::F_DUMP, 1, 0);
        out.fixed(&TcMsg {
            ifindex: ifindex as i32,
            parent: 0xffff_fff2,
            ..TcMsg::default()
        });
        // A message always fits an unbounded writer.
        let _ = out.finish(mark);
        self.send(out.bytes())?;
        self.count_rules(keep)
    }

    /// Reads a dump to its end and returns the number of rules.
    fn count_rules(&self, keep: &mut Vec<Vec<u8>>) -> Result<u32, String> {
        let (mut buffer, mut count) = (vec![0; ANSWER], 0);
        loop {
            let datagram = self.receive(&mut buffer)?;
            if keep.len() < keep.capacity() {
                keep.push(datagram.to_vec());
            }
            for message in messages(datagram) {
                match message.header.ty {
                    nlm::DONE => return Ok(count),
                    nlm::ERROR => return Err("the dump was refused".into()),
                    // The message of a classifier instance itself has handle 0, 8 bytes into the
                    // payload.
                    _ => count += u32::from(message.payload().get(8..12) != Some(&[0; 4])),
                }
            }
        }
    }

    /// Reads `rules` rules that another thread sends as a dump from datagrams built before.
    /// Measures the share of the sockets and of this client in a dump, without the building of it.
    pub fn dump_ready(datagrams: &[Vec<u8>], rules: u32) -> Result<f64, String> {
        let pair = socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        );
        let (client, server) = pair.map_err(|error| format!("socketpair: {error}"))?;
        let (client, server) = (Client(client), Client(server));
        let rules_of = |datagram: &Vec<u8>| messages(datagram).count() as u32;
        let counted: Vec<_> = datagrams.iter().map(|d| (d, rules_of(d))).collect();
        let mut end = Writer::new();
        let mark = end.message(nlm::DONE, 0, 1, 0);
        // A message always fits an unbounded writer.
        let _ = end.finish(mark);
        let start = Instant::now();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut sent = 0;
                for (datagram, count) in counted.iter().cycle() {
                    if sent >= rules || server.send(datagram).is_err() {
                        break;
                    }
                    sent += count;
                }
                // A client that is gone does not read the end.
                let _ = server.send(end.bytes());
            });
            let read = client.count_rules(&mut Vec::new())?;
            Ok(f64::from(read) / start.elapsed().as_secs_f64())
        })
    }

    /// Sends one request that must succeed.
    pub fn request(
        &self,
        ty: u16,
        flags: u16,
        fill: impl FnOnce(&mut Writer),
    ) -> Result<(), String> {
        let mut out = Writer::new();
        let mark = out.message(ty, nlm::F_REQUEST | nlm::F_ACK | flags, 1, 0);
        fill(&mut out);
        // A message always fits an unbounded writer.
        let _ = out.finish(mark);
        self.send_all(&[out.into_vec()])
    }
}
