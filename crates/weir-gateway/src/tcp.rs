// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A connection of the namespace, which ends here, joined to one of the host.
//!
//! The host's connection is opened first. Its end decides the answer to the SYN: a SYN-ACK, a reset or an ICMP error. Data
//! pass as far as the other side has room: the window that the namespace sees closes when the host's send buffer is full,
//! and the host's receive buffer fills when the namespace does not acknowledge. Ends of data and resets pass both ways.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, recvmsg, sendmsg,
    shutdown, sockopt,
};
use weir_tcp::header::{ACK, RST, SYN};
use weir_tcp::request::{Due, Verdict};
use weir_tcp::time_wait::Outcome;
use weir_tcp::{
    Answer, Config, Connection, Header, Part, Path, Request, Segment, Settings, State, TimeWait,
    error,
};

use crate::context::{Cx, Key};
use crate::counters::add;
use crate::host;
use crate::wire::{Outbox, Packet, TCP, Unreachable};

/// Bytes of the SYN that are kept for an ICMP error.
const QUOTE: usize = 128;
/// Time after which an idle peer inside is probed, in ns.
const KEEP_IDLE: u64 = 600_000_000_000;

/// Bytes that are taken from the host at first, and at once if there are many: the send buffer grows for them before it is
/// known how many come.
const FIRST: usize = 16 << 10;
const AT_ONCE: usize = 256 << 10;

/// How far a connection is.
#[derive(Debug)]
enum Stage {
    /// The host's connection is being opened.
    Connecting {
        syn: Header,
        quote: Box<[u8]>,
    },
    /// The SYN was answered.
    Answered(Request),
    Open(Box<Connection>),
    Waiting(TimeWait),
}

/// What follows for the flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    Keep,
    Remove,
    /// A new connection replaces it: the SYN is to be taken again.
    Replace,
}

/// A connection with both its ends.
#[derive(Debug)]
pub(crate) struct Tcp {
    pub key: Key,
    socket: Option<OwnedFd>,
    stage: Stage,
    config: Arc<Config>,
    mtu: u32,
    isn: u32,
    /// What the events of the host's socket have said, and its calls have not denied.
    readable: bool,
    writable: bool,
    broken: bool,
    /// The host's peer has sent its end; ours was sent to it.
    ended: bool,
    shut: bool,
}

/// Sends a segment to the namespace.
fn emit(out: &mut Outbox, key: &Key, segment: &Segment<'_>) {
    let header = Header {
        source: key.dst.port(),
        destination: key.src.port(),
        ..segment.header
    };
    let long = segment.length() > usize::from(segment.mss);
    let size = if long { segment.mss } else { 0 };
    out.packet(key.dst.ip(), key.src.ip(), TCP, size, |data| {
        let at = data.len();
        data.resize(at + header.length(), 0);
        header.write(data.get_mut(at..).unwrap_or_default());
        data.extend(segment.data[0]);
        data.extend(segment.data[1]);
    });
}

/// Answers a segment with a reset.
pub(crate) fn reset(out: &mut Outbox, key: &Key, header: &Header, length: usize) {
    if let Some(header) = header.reset(length) {
        let segment = Segment {
            header,
            data: [&[], &[]],
            mss: 1,
            ecn_capable: false,
        };
        emit(out, key, &segment);
    }
}

fn settings() -> Settings {
    Settings {
        nodelay: true,
        keepalive: true,
        keep_idle: Some(KEEP_IDLE),
        ..Settings::default()
    }
}

impl Tcp {
    /// A connection whose SYN has come, with the host's socket that was opened for it.
    pub(crate) fn new(
        key: Key,
        packet: &Packet<'_>,
        syn: &Header,
        socket: OwnedFd,
        config: Arc<Config>,
        mtu: u32,
        isn: u32,
    ) -> Self {
        Self {
            key,
            socket: Some(socket),
            stage: Stage::Connecting {
                syn: *syn,
                quote: packet.whole.get(..QUOTE).unwrap_or(packet.whole).into(),
            },
            config,
            mtu,
            isn,
            readable: false,
            writable: false,
            broken: false,
            ended: false,
            shut: false,
        }
    }

    fn path(&self) -> Path {
        match self.key.src {
            std::net::SocketAddr::V4(_) => Path::ipv4(self.mtu),
            std::net::SocketAddr::V6(_) => Path::ipv6(self.mtu),
        }
    }

    /// What the buffers may grow to, in bytes.
    pub(crate) fn memory(&self) -> usize {
        match self.stage {
            Stage::Waiting(_) => 0,
            _ => (self.config.rmem[2] + self.config.wmem[2]) as usize,
        }
    }

    pub(crate) fn socket(&self) -> Option<&OwnedFd> {
        self.socket.as_ref()
    }

    /// When [`timeout`](Self::timeout) is due, in ns.
    pub(crate) fn deadline(&self) -> Option<u64> {
        match &self.stage {
            Stage::Connecting { .. } => None,
            Stage::Answered(request) => Some(request.deadline()),
            Stage::Open(connection) => connection.deadline(),
            Stage::Waiting(wait) => Some(wait.deadline()),
        }
    }

    /// Notes events of the host's socket.
    pub(crate) fn event(&mut self, flags: EventFlags) {
        let end = flags.intersects(EventFlags::HUP | EventFlags::ERR);
        self.readable |= end || flags.intersects(EventFlags::IN | EventFlags::RDHUP);
        self.writable |= end || flags.intersects(EventFlags::OUT);
        self.broken |= flags.intersects(EventFlags::ERR);
    }

    /// The host's connection exists: answers the SYN.
    pub(crate) fn connected(&mut self, cx: &mut Cx<'_>) {
        if let Stage::Connecting { syn, .. } = &self.stage {
            add(&cx.counters.tcp_opened, 1);
            let request = Request::new(
                cx.now,
                &self.config,
                &settings(),
                &self.path(),
                syn,
                self.isn,
                0,
            );
            emit(cx.out, &self.key, &request.syn_ack(cx.now));
            self.stage = Stage::Answered(request);
        }
    }

    /// The host's connection cannot be had: answers the SYN.
    fn refused(&self, cx: &mut Cx<'_>, error: Errno) {
        let Stage::Connecting { syn, quote } = &self.stage else {
            return;
        };
        add(&cx.counters.tcp_failed, 1);
        match host::reason(error) {
            Some(Unreachable::Port) | None => reset(cx.out, &self.key, syn, 0),
            Some(reason) => cx.unreachable(self.key.dst.ip(), self.key.src.ip(), reason, quote),
        }
    }

    /// Closes the host's connection with a reset.
    fn reset_host(&mut self, cx: &Cx<'_>) {
        if let Some(socket) = self.socket.take() {
            add(&cx.counters.tcp_reset, 1);
            let _ = sockopt::set_socket_linger(&socket, Some(Duration::ZERO));
        }
    }

    /// Takes a segment of the namespace.
    pub(crate) fn segment(&mut self, cx: &mut Cx<'_>, header: &Header, data: &[u8]) -> Next {
        match &mut self.stage {
            Stage::Connecting { syn, .. } => {
                if header.has(RST) && header.seq == syn.seq.wrapping_add(1) {
                    self.reset_host(cx);
                    return Next::Remove;
                }
                if header.flags & (SYN | ACK | RST) == SYN {
                    // The peer tries again; the timestamp to echo is the later one.
                    *syn = *header;
                }
                Next::Keep
            }
            Stage::Answered(request) => {
                match request.segment(cx.now, &self.config, header, data.len()) {
                    Verdict::Drop | Verdict::Wait => Next::Keep,
                    Verdict::SynAck => {
                        emit(cx.out, &self.key, &request.syn_ack(cx.now));
                        Next::Keep
                    }
                    Verdict::Ack => {
                        emit(cx.out, &self.key, &request.ack(cx.now));
                        Next::Keep
                    }
                    Verdict::Complete => {
                        let request = request.clone();
                        let (connection, answer) = request.accept(
                            cx.now,
                            &self.config,
                            &Arc::new(settings()),
                            self.path(),
                            header,
                            data,
                        );
                        self.stage = Stage::Open(Box::new(connection));
                        if answer == Answer::Reset {
                            reset(cx.out, &self.key, header, data.len());
                        }
                        Next::Keep
                    }
                    Verdict::End => {
                        self.reset_host(cx);
                        Next::Remove
                    }
                    Verdict::Reset => {
                        reset(cx.out, &self.key, header, data.len());
                        Next::Keep
                    }
                }
            }
            Stage::Open(connection) => {
                if connection.segment(cx.now, header, data) == Answer::Reset {
                    reset(cx.out, &self.key, header, data.len());
                }
                Next::Keep
            }
            Stage::Waiting(wait) => match wait.segment(cx.now, &self.config, header, data.len()) {
                Outcome::Drop => Next::Keep,
                Outcome::Ack => {
                    emit(cx.out, &self.key, &wait.ack(cx.now));
                    Next::Keep
                }
                Outcome::Syn(_) => Next::Replace,
                Outcome::End => Next::Remove,
                Outcome::Reset => {
                    reset(cx.out, &self.key, header, data.len());
                    Next::Keep
                }
            },
        }
    }

    /// A router of the namespace has a smaller MTU for a segment that begins at `seq`.
    pub(crate) fn too_long(&mut self, seq: u32, mtu: u32) {
        if let Stage::Open(connection) = &mut self.stage
            && connection.is_outstanding(seq)
            && mtu < connection.mtu()
        {
            connection.set_mtu(mtu);
        }
    }

    /// Does what is due.
    pub(crate) fn timeout(&mut self, cx: &mut Cx<'_>) -> Next {
        let now = cx.now;
        match &mut self.stage {
            Stage::Connecting { .. } => Next::Keep,
            Stage::Answered(request) if request.deadline() <= now => {
                match request.timeout(now) {
                    Due::SynAck => emit(cx.out, &self.key, &request.syn_ack(now)),
                    Due::Nothing => {}
                    _ => {
                        self.reset_host(cx);
                        return Next::Remove;
                    }
                }
                Next::Keep
            }
            Stage::Waiting(wait) if wait.deadline() <= now => Next::Remove,
            Stage::Open(connection) => {
                connection.timeout(now);
                Next::Keep
            }
            _ => Next::Keep,
        }
    }

    /// Moves what can be moved in both directions and sends what is to be sent.
    pub(crate) fn pump(&mut self, cx: &mut Cx<'_>) -> Next {
        if matches!(self.stage, Stage::Connecting { .. }) {
            return self.look(cx);
        }
        if let Stage::Answered(_) = &self.stage {
            if self.broken {
                // The host's peer has gone before the handshake was over: the next segment meets nobody.
                return Next::Remove;
            }
            return Next::Keep;
        }
        let Stage::Open(connection) = &mut self.stage else {
            return Next::Keep;
        };
        if let Some(socket) = &self.socket {
            if std::mem::take(&mut self.broken)
                && !matches!(sockopt::socket_error(socket), Ok(Ok(())))
            {
                connection.abort(error::ECONNRESET);
            }
            to_host(cx, connection, socket, &mut self.writable);
            // A connection that was reset has no end of data.
            let over = connection.state() == State::Closed;
            if !self.shut && !over && connection.at_end() && connection.readable() == 0 {
                self.shut = true;
                let _ = shutdown(socket, Shutdown::Write);
            }
            if !self.ended {
                self.ended = from_host(cx, connection, socket, &mut self.readable);
            }
        }
        connection.poll(cx.now, &mut |segment: &Segment<'_>| {
            emit(cx.out, &self.key, segment)
        });
        connection.take_events();
        connection.take_counts();
        match connection.state() {
            State::Closed => {
                let failed = connection.error() != 0 || !self.ended;
                if !failed && connection.readable() > 0 {
                    // Both ends have ended well, and the host has still to take the rest.
                    return Next::Keep;
                }
                if failed {
                    self.reset_host(cx);
                }
                Next::Remove
            }
            State::TimeWait if connection.readable() == 0 => {
                match TimeWait::new(cx.now, connection) {
                    Some(wait) => {
                        self.stage = Stage::Waiting(wait);
                        self.socket = None;
                        Next::Keep
                    }
                    None => Next::Remove,
                }
            }
            _ => Next::Keep,
        }
    }

    /// Looks whether the host's connection is there, or has failed.
    fn look(&mut self, cx: &mut Cx<'_>) -> Next {
        let Some(socket) = self.socket.as_ref().filter(|_| self.writable) else {
            return Next::Keep;
        };
        match sockopt::socket_error(socket) {
            Ok(Ok(())) => {
                self.broken = false;
                self.connected(cx);
                Next::Keep
            }
            Ok(Err(error)) | Err(error) => {
                self.refused(cx, error);
                Next::Remove
            }
        }
    }
}

/// Passes what the namespace has sent to the host.
fn to_host(cx: &Cx<'_>, connection: &mut Connection, socket: &OwnedFd, writable: &mut bool) {
    while *writable && connection.readable() > 0 {
        let [first, second] = connection.received();
        let parts = [IoSlice::new(first), IoSlice::new(second)];
        let whole = first.len() + second.len();
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        match sendmsg(socket, &parts, &mut SendAncillaryBuffer::default(), flags) {
            Ok(count) => {
                add(&cx.counters.tcp_bytes_out, count as u64);
                connection.consume(cx.now, count);
                // A short write has filled the host's buffer; its event says when there is room.
                *writable = count == whole;
            }
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => *writable = false,
            Err(_) => {
                connection.abort(error::ECONNRESET);
                return;
            }
        }
    }
}

/// Passes what the host has received to the namespace, straight into the send buffer. Returns whether the end of data has
/// come.
fn from_host(
    cx: &Cx<'_>,
    connection: &mut Connection,
    socket: &OwnedFd,
    readable: &mut bool,
) -> bool {
    let mut want = FIRST;
    while *readable && connection.may_send() && connection.is_writable() {
        let mut got = None;
        let receive = &mut |[first, second]: [&mut [u8]; 2]| {
            let mut parts = [IoSliceMut::new(first), IoSliceMut::new(second)];
            let mut control = RecvAncillaryBuffer::default();
            let message = recvmsg(socket, &mut parts, &mut control, RecvFlags::DONTWAIT);
            let message = message.map(|message| message.bytes);
            *got.insert(message).as_ref().unwrap_or(&0)
        };
        connection.send_with(cx.now, want, Part::default(), receive);
        match got {
            Some(Ok(0)) => {
                connection.shutdown_send();
                return true;
            }
            Some(Ok(count)) => {
                add(&cx.counters.tcp_bytes_in, count as u64);
                if count == want {
                    want = (want * 4).min(AT_ONCE);
                }
            }
            Some(Err(Errno::INTR)) => {}
            Some(Err(Errno::AGAIN)) => *readable = false,
            Some(Err(_)) => {
                connection.abort(error::ECONNRESET);
                return false;
            }
            // There is no room.
            None => return false,
        }
    }
    false
}
