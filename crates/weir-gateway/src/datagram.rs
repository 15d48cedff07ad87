// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Flows without connections: UDP, and echo requests.
//!
//! A flow is one connected socket of the host for each pair of addresses and ports, or for each identifier of echo requests.
//! Replies come from the peer alone (address- and port-dependent filtering, RFC 4787), and errors are noticed.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, connect, recv, send};
use weir_packet::header::Udp;
use weir_packet::header::icmp::{ICMP_ECHOREPLY, ICMPV6_ECHO_REPLY};
use weir_packet::header::transport::udp;

use crate::context::{Cx, Key};
use crate::counters::add;
use crate::host;
use crate::resolver::PORT as DNS;
use crate::wire::{Packet, UDP};

const SECOND: u64 = 1_000_000_000;
/// How long a flow lives after a packet to the host (`nf_conntrack_udp_timeout`, `nf_conntrack_icmp_timeout`).
const NEW: u64 = 30 * SECOND;
/// The same once a packet has come from the host (`nf_conntrack_udp_timeout_stream`).
const REPLIED: u64 = 120 * SECOND;
/// The same of questions to a resolver.
const QUESTION: u64 = 10 * SECOND;
/// How long a resolver may take before a repeated question goes to the next one. Questions for several records leave at
/// once, and are no repetition.
const SILENCE: u64 = SECOND;
/// Datagrams that are taken at once from one socket.
const AT_ONCE: usize = 32;
/// Bytes of the last packet that are kept for an ICMP error.
const QUOTE: usize = 128;

/// A flow of UDP or of echo requests.
#[derive(Debug)]
pub(crate) struct Datagram {
    pub key: Key,
    socket: OwnedFd,
    /// The start of the last packet to the host.
    quote: Vec<u8>,
    pub expires: u64,
    replied: bool,
    /// The resolver that was asked last, when, and whether it has answered.
    server: usize,
    asked: u64,
    answered: bool,
}

impl Datagram {
    /// A flow with the host's socket that was opened for it.
    pub(crate) fn new(now: u64, key: Key, socket: OwnedFd) -> Self {
        Self {
            key,
            socket,
            quote: Vec::new(),
            expires: now + NEW,
            replied: false,
            server: 0,
            asked: now,
            answered: true,
        }
    }

    pub(crate) fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    fn is_udp(&self) -> bool {
        self.key.protocol == UDP
    }

    fn extend(&mut self, now: u64) {
        self.expires = now
            + match (self.key.dst.port(), self.replied) {
                (DNS, _) => QUESTION,
                (_, true) if self.is_udp() => REPLIED,
                _ => NEW,
            };
    }

    /// Asks the next resolver if the last one has not answered for some time.
    pub(crate) fn next_server(&mut self, now: u64, servers: &[SocketAddr]) {
        let silent = !self.answered && now.saturating_sub(self.asked) >= SILENCE;
        if silent && !servers.is_empty() {
            self.server = (self.server + 1) % servers.len();
            if let Some(server) = servers.get(self.server) {
                // A resolver that cannot be reached fails at the next send.
                let _ = connect(&self.socket, server);
            }
        }
        if silent || self.answered {
            self.asked = now;
        }
        self.answered = false;
    }

    /// Sends a packet's data to the host.
    pub(crate) fn send(&mut self, cx: &mut Cx<'_>, packet: &Packet<'_>) {
        self.quote.clear();
        self.quote
            .extend(packet.whole.get(..QUOTE).unwrap_or(packet.whole));
        self.extend(cx.now);
        let data = match self.is_udp() {
            true => packet.payload.get(Udp::LEN..).unwrap_or_default(),
            false => packet.payload,
        };
        // The first call may report the error of an earlier datagram.
        for _ in 0..2 {
            match send(&self.socket, data, SendFlags::NOSIGNAL) {
                Ok(_) => {
                    let counter = match self.is_udp() {
                        true => &cx.counters.udp_out,
                        false => &cx.counters.ping_out,
                    };
                    return add(counter, 1);
                }
                Err(Errno::INTR) => {}
                Err(error) => {
                    self.fail(cx, error);
                    if error != Errno::CONNREFUSED {
                        return;
                    }
                }
            }
        }
    }

    fn fail(&self, cx: &mut Cx<'_>, error: Errno) {
        if let Some(reason) = host::reason(error) {
            cx.unreachable(self.key.dst.ip(), self.key.src.ip(), reason, &self.quote);
        }
    }

    /// Passes what the host has received on to the namespace.
    pub(crate) fn receive(&mut self, cx: &mut Cx<'_>) {
        let Key { src, dst, .. } = self.key;
        for _ in 0..AT_ONCE {
            let length = match recv(&self.socket, &mut cx.scratch[..], RecvFlags::DONTWAIT) {
                Ok((length, _)) => length,
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => return,
                Err(error) => {
                    self.fail(cx, error);
                    continue;
                }
            };
            let data = cx.scratch.get(..length).unwrap_or_default();
            self.replied = true;
            self.answered = true;
            if self.is_udp() {
                add(&cx.counters.udp_in, 1);
                cx.out.packet(dst.ip(), src.ip(), UDP, 0, |to| {
                    to.extend(udp(dst.port(), src.port(), length));
                    to.extend(data);
                });
            } else if let (Some(&kind), Some(rest @ [_, _, ..])) = (data.first(), data.get(6..)) {
                // Echo replies: the host's identifier gives way to the namespace's.
                if !matches!(
                    (kind, dst),
                    (ICMP_ECHOREPLY, SocketAddr::V4(_)) | (ICMPV6_ECHO_REPLY, SocketAddr::V6(_))
                ) {
                    continue;
                }
                add(&cx.counters.ping_in, 1);
                let rest = [&src.port().to_be_bytes(), rest].concat();
                cx.out.echo_reply(dst.ip(), src.ip(), &rest);
            }
        }
        self.extend(cx.now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::Counters;
    use crate::wire::{MAC, Outbox};
    use std::net::UdpSocket;

    const MS: u64 = SECOND / 1000;

    #[test]
    fn a_question_that_nobody_answers_goes_to_the_next_resolver() {
        let servers: [UdpSocket; 2] = std::array::from_fn(|_| {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            socket.set_nonblocking(true).unwrap();
            socket
        });
        let addresses = servers
            .each_ref()
            .map(|server| server.local_addr().unwrap());
        let key = Key {
            protocol: UDP,
            src: "10.0.2.15:5000".parse().unwrap(),
            dst: "10.0.2.3:53".parse().unwrap(),
        };
        let payload = [&udp(5000, DNS, 8)[..], b"question"].concat();
        let packet = Packet {
            src: key.src.ip(),
            dst: key.dst.ip(),
            protocol: UDP,
            hops: 64,
            tos: 0,
            payload: &payload,
            whole: &payload,
        };
        let (socket, _) = host::connected(None, UDP, addresses[0]).unwrap();
        let mut flow = Datagram::new(SECOND, key, socket);
        let (mut out, mut scratch) = (Outbox::new(MAC, 1500), vec![0; 1500]);
        let counters = Counters::default();
        let mut at = |now, answered: bool| {
            let mut cx = Cx {
                now,
                out: &mut out,
                scratch: &mut scratch,
                counters: &counters,
                own: [None; 2],
            };
            flow.next_server(now, &addresses);
            flow.send(&mut cx, &packet);
            let mut data = [0; 100];
            let asked = servers.iter().position(|server| {
                let question = server.recv_from(&mut data);
                let (length, from) = match question {
                    Ok(question) => question,
                    Err(_) => return false,
                };
                assert_eq!(&data[..length], b"question");
                if answered {
                    server.send_to(b"answer", from).unwrap();
                }
                true
            });
            flow.receive(&mut cx);
            asked
        };
        // Questions for two records, then one of them again.
        assert_eq!(at(SECOND, false), Some(0));
        assert_eq!(at(SECOND + 10 * MS, false), Some(0));
        assert_eq!(at(SECOND + 1000 * MS, false), Some(1));
        assert_eq!(at(SECOND + 1500 * MS, true), Some(1));
        // An answer has come: the resolver is asked for more.
        assert_eq!(at(SECOND + 9000 * MS, false), Some(1));
        assert_eq!(at(SECOND + 9999 * MS, false), Some(1));
        assert_eq!(at(SECOND + 10_000 * MS, false), Some(0));
        assert_eq!(
            counters.udp_in.load(std::sync::atomic::Ordering::Relaxed),
            1
        );
    }
}
