// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Segments and ICMP errors on their way to connections and listeners (`tcp_v4_rcv`, `tcp_v6_rcv`, `tcp_v4_err`).

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use weir_core::drops::Place;
use weir_inet::mib::{Count, Ext, Tcp as Mib};
use weir_inet::sockets::{Arrived, Report};
use weir_packet::{DropReason, Packet};
use weir_sync::rcu::Guard;
use weir_tcp::header::{ACK, FIN, RST, SYN};
use weir_tcp::listener::Admission;
use weir_tcp::request::Verdict;
use weir_tcp::time_wait::Outcome;
use weir_tcp::{Answer, Connection, Header, Output, Request, cookie};

use super::core::{Core, Inner, Kind, Locked};
use super::opening::FastOpening;
use super::send::Outbox;
use super::table::Holder;
use super::tuple::Tuple;
use super::{fast, signature};
use crate::cpu::Cx;

use crate::namespace::Namespace;
use crate::ports::{Target, Which, tables};
use crate::receive::{self, Head};
use crate::socket::Proto;

/// The sysctl that gives listeners without a device the connections of VRFs.
const ACCEPT: &str = "ipv4/tcp_l3mdev_accept";

/// Takes a segment; returns it if no socket wants it.
pub fn receive(cx: &mut Cx<'_>, arrived: &Arrived<'_>, packet: Packet) -> Option<Packet> {
    let segment = packet.data().get(arrived.at..).unwrap_or_default();
    let (Some(head), Some((mut header, length))) = (
        Head::of(arrived.ipv6, packet.data()),
        Header::parse(segment),
    ) else {
        return Some(packet);
    };
    header.congested = head.tos & 3 == 3;
    header.ecn_capable = head.tos & 3 != 0;
    let data = segment.get(length..).unwrap_or_default();
    let tuple = Tuple {
        local: head.dst,
        port: header.destination,
        remote: head.src,
        remote_port: header.source,
    };
    let connections = &tables(arrived.ns).tcp_connections;
    let mut isn = None;
    match connections.get(&tuple, cx.guard) {
        Some(Holder::Open(core)) => {
            if let Err((count, reason)) = core.judge(&tuple, &header, (length, segment)) {
                cx.mib(arrived.ns).ext.add(count, 1);
                cx.drop(arrived.device, place(arrived), reason, packet);
                return None;
            }
            core.segment(cx, &header, data);
            cx.consume(packet);
            return None;
        }
        Some(Holder::TimeWait(waiting)) => {
            let config = connections.config(arrived.ns);
            let mut rest = waiting.rest.lock();
            let outcome = rest.segment(cx.now, &config, &header, data.len());
            let ack = rest.ack(cx.now);
            drop(rest);
            match outcome {
                Outcome::Ack => {
                    let mut out = Outbox::new(cx.stack, tuple);
                    out.send(&ack);
                    if let Some(key) = &waiting.key {
                        out.sign(key);
                    }
                    out.flush(cx, arrived.ns, &waiting.way);
                }
                Outcome::Syn(from) => {
                    connections.end_wait(&tuple, &waiting, cx.guard);
                    isn = Some(from);
                }
                Outcome::End => connections.end_wait(&tuple, &waiting, cx.guard),
                Outcome::Drop => {}
                Outcome::Reset => return Some(packet),
            }
            if isn.is_none() {
                cx.consume(packet);
                return None;
            }
        }
        None => {}
    }
    let target = receive::target(cx, arrived, &head, header.source, ACCEPT);
    let hash = connections.secret().hash(1, &tuple.bytes()) as u32;
    let Some(core) = listener(arrived.ns, header.destination, &target, hash, cx.guard) else {
        return Some(packet);
    };
    if let Err((count, reason)) = core.judge(&tuple, &header, (length, segment)) {
        cx.mib(arrived.ns).ext.add(count, 1);
        cx.drop(arrived.device, place(arrived), reason, packet);
        return None;
    }
    let arrival = Arrival {
        tuple,
        header: &header,
        data,
        isn,
    };
    match core.listen(cx, &arrival) {
        true => {
            cx.consume(packet);
            None
        }
        false => Some(packet),
    }
}

/// Where a segment with a wrong signature is dropped.
fn place(arrived: &Arrived<'_>) -> Place {
    match arrived.ipv6 {
        true => Place::Ipv6Local,
        false => Place::Ipv4Local,
    }
}

/// Finds the listener of a port (`__inet_lookup_listener`); `hash` chooses among those that share it.
fn listener(
    ns: &Namespace,
    port: u16,
    target: &Target,
    hash: u32,
    guard: &Guard,
) -> Option<Arc<Core>> {
    let list = tables(ns).table(Which::Tcp).of(port, guard);
    let listening = |entry: &&crate::ports::Entry| entry.socket.is_listening();
    let best = list
        .iter()
        .filter(listening)
        .filter_map(|entry| entry.score(target))
        .max()?;
    let same = || {
        list.iter()
            .filter(listening)
            .filter(|entry| entry.score(target) == Some(best))
    };
    let count = same().filter(|entry| entry.reuseport).count().max(1);
    let chosen = ((u64::from(hash) * count as u64) >> 32) as usize;
    let entry = same().nth(chosen).or_else(|| same().next())?;
    match &entry.socket.proto {
        Proto::Tcp(tcp) => Some(tcp.core(&entry.socket)),
        _ => None,
    }
}

/// A segment for a listener.
struct Arrival<'a> {
    tuple: Tuple,
    header: &'a Header,
    data: &'a [u8],
    /// The sequence number that follows a connection in TIME_WAIT.
    isn: Option<u32>,
}

impl Core {
    /// Judges the signature of a segment.
    fn judge(
        &self,
        tuple: &Tuple,
        header: &Header,
        segment: (usize, &[u8]),
    ) -> Result<(), (Ext, DropReason)> {
        let key = match self.signs.load(Relaxed) {
            true => self.lock().keys.find(tuple.remote).cloned(),
            false => None,
        };
        signature::judge(key.as_deref(), tuple.remote, tuple.local, header, segment)
    }

    /// Takes a segment that belongs to no connection. Returns false if it is to be answered with a reset.
    fn listen(self: &Arc<Self>, cx: &mut Cx<'_>, arrival: &Arrival<'_>) -> bool {
        let Arrival {
            tuple,
            header,
            data,
            ..
        } = *arrival;
        let now = cx.now;
        let connections = &tables(&self.ns).tcp_connections;
        let config = connections.config(&self.ns);
        let mut inner = self.lock();
        let choice = inner.choice();
        let mut settings = inner.settings.clone();
        let signed = inner.keys.find(tuple.remote).is_some();
        if signed != settings.signed {
            Arc::make_mut(&mut settings).signed = signed;
        }
        let mut early = None;
        let defer = inner.defer_accept;
        let mut out = Outbox::new(cx.stack, tuple);
        let Inner {
            kind, fast_open, ..
        } = &mut *inner;
        let Kind::Listening(listener) = kind else {
            return false;
        };
        let full = listener.is_full();
        let mut complete = None;
        if let Some(request) = listener.request(&tuple) {
            match request.segment(now, &config, header, data.len()) {
                Verdict::Drop => {}
                Verdict::Wait => cx.mib(&self.ns).ext.add(Ext::TCPDeferAcceptDrop, 1),
                Verdict::SynAck => out.send(&request.syn_ack(now)),
                Verdict::Ack => out.send(&request.ack(now)),
                Verdict::End => drop(listener.remove(&tuple)),
                Verdict::Reset => return false,
                Verdict::Complete if full => {
                    cx.mib(&self.ns).ext.add(Ext::ListenOverflows, 1);
                    cx.mib(&self.ns).ext.add(Ext::ListenDrops, 1);
                    if config.abort_on_overflow {
                        listener.remove(&tuple);
                        return false;
                    }
                }
                Verdict::Complete => complete = listener.remove(&tuple),
            }
        } else if header.has(RST) {
            // A listener has nothing to reset.
        } else if header.has(ACK) {
            let irs = header.seq.wrapping_sub(1);
            let mss = match config.syncookies {
                0 => None,
                _ => {
                    connections
                        .secret()
                        .check(now, &tuple.bytes(), irs, header.ack.wrapping_sub(1))
                }
            };
            let (Some(mss), false) = (mss, header.has(SYN)) else {
                if config.syncookies != 0 {
                    cx.mib(&self.ns).ext.add(Ext::SyncookiesFailed, 1);
                }
                return false;
            };
            let ports = (tuple.port, tuple.remote_port);
            if !full
                && let Ok((_, path)) =
                    choice.path(cx, &self.ns, Some(tuple.local), tuple.remote, ports)
            {
                cx.mib(&self.ns).ext.add(Ext::SyncookiesRecv, 1);
                let remembered = cookie::remembered(&header.options);
                let offset = header
                    .options
                    .timestamps
                    .map_or(0, |(_, echo)| echo.wrapping_sub((now / 1_000_000) as u32));
                complete = Some(Request::from_cookie(
                    now, &config, &settings, &path, header, mss, remembered, offset,
                ));
            }
        } else if header.flags & (SYN | FIN) == SYN {
            let admission = listener.admit(&config);
            if admission == Admission::Drop {
                let ext = &cx.mib(&self.ns).ext;
                ext.add(Ext::ListenDrops, 1);
                ext.add(
                    if full {
                        Ext::ListenOverflows
                    } else {
                        Ext::TCPReqQFullDrop
                    },
                    1,
                );
            }
            let ports = (tuple.port, tuple.remote_port);
            if admission != Admission::Drop
                && let Ok((_, path)) =
                    choice.path(cx, &self.ns, Some(tuple.local), tuple.remote, ports)
            {
                let isn = arrival.isn.unwrap_or_else(|| connections.isn(now, &tuple));
                let offset = connections.timestamp_offset(&tuple);
                let mut request = Request::new(now, &config, &settings, &path, header, isn, offset);
                request.defer(defer);
                let verdict = match admission {
                    Admission::Queue => {
                        let opening = FastOpening {
                            most: fast::most(fast_open, &config, listener),
                            ..(**fast_open).clone()
                        };
                        fast::judge(
                            cx,
                            self,
                            &opening,
                            &config,
                            &tuple,
                            header,
                            !data.is_empty(),
                        )
                    }
                    _ => fast::Verdict::No,
                };
                if admission == Admission::Cookie {
                    cx.mib(&self.ns).ext.add(Ext::TCPReqQFullDoCookies, 1);
                    cx.mib(&self.ns).ext.add(Ext::SyncookiesSent, 1);
                    let secret = connections.secret();
                    request.set_isn(secret.make(now, &tuple.bytes(), header.seq, request.mss()));
                    request.remember_in_timestamp(now);
                }
                match verdict {
                    fast::Verdict::Yes(new) => {
                        if let Some(new) = new {
                            request.set_fast_open(new);
                        }
                        early =
                            Some(request.accept_early(now, &config, &settings, path, header, data));
                    }
                    verdict => {
                        if let fast::Verdict::Cookie(cookie) = verdict {
                            request.set_fast_open(cookie);
                        }
                        out.send(&request.syn_ack(now));
                        if admission == Admission::Queue {
                            listener.insert(tuple, request);
                        }
                    }
                }
            }
        }
        if let Some(connection) = early {
            self.enter(cx, inner, out, tuple, connection, true);
            return true;
        }
        let Some(request) = complete else {
            self.settle(cx, inner, out);
            return true;
        };
        let ports = (tuple.port, tuple.remote_port);
        let Ok((_, path)) = choice.path(cx, &self.ns, Some(tuple.local), tuple.remote, ports)
        else {
            self.settle(cx, inner, out);
            return true;
        };
        let (connection, answer) = request.accept(now, &config, &settings, path, header, data);
        if answer == Answer::Reset {
            self.settle(cx, inner, out);
            return false;
        }
        self.enter(cx, inner, out, tuple, connection, false);
        true
    }

    /// Enters a connection, and puts it into the queue of those that wait to be accepted. The handshake of an `early` one,
    /// which a SYN with data has made, is not complete.
    fn enter(
        self: &Arc<Self>,
        cx: &mut Cx<'_>,
        mut inner: Locked<'_>,
        out: Outbox<'_>,
        tuple: Tuple,
        connection: Connection,
        early: bool,
    ) {
        cx.mib(&self.ns).tcp.add(Mib::PassiveOpens, 1);
        let early = early.then(|| inner.fast_open.early.clone());
        let child = self.child(&inner, tuple, connection, early.clone());
        let connections = &tables(&self.ns).tcp_connections;
        if !connections.insert(&self.ns, tuple, &child, cx.guard) {
            return self.settle(cx, inner, out);
        }
        if let Some(early) = early {
            early.fetch_add(1, Relaxed);
        }
        if let Kind::Listening(listener) = &mut inner.kind {
            listener.push(child.clone());
        }
        let socket = inner.socket.upgrade();
        self.settle(cx, inner, out);
        let locked = child.lock();
        child.settle(cx, locked, Outbox::new(cx.stack, tuple));
        if let Some(socket) = socket {
            self.wake(cx, &socket);
        }
    }
}

/// Tells a connection of an ICMP error. Returns whether there is one.
pub fn report(cx: &mut Cx<'_>, report: &Report<'_>) -> bool {
    let quoted = report.quoted;
    let Some(head) = Head::of(report.ipv6, quoted) else {
        return false;
    };
    let Some(&[a, b, c, d, s0, s1, s2, s3]) = quoted
        .get(report.at..)
        .and_then(|rest| rest.first_chunk::<8>())
    else {
        return false;
    };
    let tuple = Tuple {
        local: head.src,
        port: u16::from_be_bytes([a, b]),
        remote: head.dst,
        remote_port: u16::from_be_bytes([c, d]),
    };
    let seq = u32::from_be_bytes([s0, s1, s2, s3]);
    let connections = &tables(report.ns).tcp_connections;
    let core = match connections.get(&tuple, cx.guard) {
        Some(Holder::Open(core)) => core,
        Some(Holder::TimeWait(_)) => return true,
        None => return false,
    };
    let Some(meaning) = crate::error::meaning(report) else {
        return true;
    };
    let mut inner = core.lock();
    let out = Outbox::new(cx.stack, tuple);
    if let Kind::Open(connection) = &mut inner.kind {
        match meaning.mtu {
            // Only errors about what is under way count (RFC 5927).
            Some(mtu) if connection.is_outstanding(seq) => connection.set_mtu(mtu),
            Some(_) => {}
            None => connection.icmp_error(seq, meaning.errno, true),
        }
    }
    core.settle(cx, inner, out);
    true
}
