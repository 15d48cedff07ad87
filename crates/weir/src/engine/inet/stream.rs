// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Streams: data between the pair and a socket of the stack.
//!
//! The stack always leaves a byte unread at its end. Closing an end with unread data makes the other read ECONNRESET,
//! which is how a reset reaches the program. The byte is one that is still to be taken over or, when all are, a *held*
//! byte: the last one taken over, at first one that is written when the pair is made. A short first message is held as
//! a whole.
//!
//! Data go from the pair straight into the send buffer of the connection.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::io::{Errno as Os, ioctl_fionread};
use rustix::net::{
    RecvAncillaryBuffer, RecvFlags, ReturnFlags, SendAncillaryBuffer, SendFlags,
    Shutdown as Direction, recv, recvmsg, send, sendmsg, shutdown, sockopt,
};
use weir_intercept::{Errno, InetReply};
use weir_socket::{Outgoing, Ready, Shutdown, Socket};
use weir_stack::cpu::Cx;
use weir_sync::turn::Turn;

use super::{Endpoint, Engine};

/// The most bytes that pass at once from a program to the stack.
const AT_ONCE: usize = 64 << 10;

/// So many bytes of a program are copied once more, which costs less than the system call that it saves.
const FEW: usize = 1024;

/// So many first bytes of a stream stay in the pair when the stack has taken them over. To take them out costs a system call,
/// and wakes a program that waits for the answer, which is a good part of the work for a connection with one short request.
/// (Where requests follow each other, that CPU is then awake when the answer comes, which saves more than it costs.)
///
/// Each may be a message of its own, which takes up to a kilobyte of the send buffer, and the kernel takes the program's end
/// for writable only while at most a quarter of that is in use ([`super::pairs::pair`]).
const KEPT: usize = 96;

/// The most bytes that pass at once to a program under virtual time: those of one message, which the kernel queues as a
/// whole (`UNIX_SKB_FRAGS_SZ`).
const ONE_MESSAGE: usize = 32 << 10;

/// The socket has changed: data, room, an error, an end.
pub(super) const WOKEN: u8 = 1;
/// The pair has changed: the program has written, read or closed.
pub(super) const EVENT: u8 = 2;
/// The program may have closed its end, or shut it down.
pub(super) const ENDS: u8 = 4;
/// The program will write no more.
const SHUT: u8 = 8;
/// The program has closed its end, or shut both directions down.
const CLOSED: u8 = 16;
/// The program has closed its end without reading all.
const BROKEN: u8 = 32;
/// Connections that wait are to be shown.
const SHOW: u8 = 64;

/// Returns what an event says about the end of the program's data.
pub(super) fn ends(events: epoll::EventFlags) -> u8 {
    [
        (epoll::EventFlags::RDHUP, SHUT),
        (epoll::EventFlags::HUP, CLOSED),
        (epoll::EventFlags::ERR, BROKEN),
    ]
    .into_iter()
    .filter(|(event, _)| events.contains(*event))
    .fold(0, |ends, (_, end)| ends | end)
}

/// A stream of a client.
pub(super) struct Stream {
    state: Mutex<State>,
    /// Who moves the data: one thread at a time, for all.
    turn: Turn,
    /// What has changed since the last look: [`WOKEN`], [`EVENT`], [`ENDS`] and what is known of the end ([`ends`]).
    changes: AtomicU8,
}

/// How far a stream is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Neither connected nor listening.
    New,
    /// The handshake goes on. `filled` is what the supervisor has reported: the length in bytes, and whether the caller of
    /// `connect` waits.
    Connecting { filled: Option<(u32, bool)> },
    /// Connected.
    Open,
    /// Connections are accepted. So many bytes stand in the pair for those that wait.
    Listening { shown: usize },
    /// The program's end is shut down, or the connection is gone.
    Over(Ending),
}

/// How a stream ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// The connection ends as it is.
    Closed,
    /// The connection is reset.
    Reset,
    /// The handshake has failed.
    Failed,
}

#[derive(Debug)]
struct State {
    phase: Phase,
    /// The pair is full; the event of room is awaited.
    full: bool,
    /// The end of the received data has been passed on.
    ended: bool,
    /// The program's end of data has been passed on.
    finished: bool,
    /// Closing resets the connection (`SO_LINGER` with no time).
    abrupt: bool,
    /// So many bytes at the front of the pair are ones that the stack has taken over.
    held: usize,
    /// The socket had no room for all that is in the pair; it reports room.
    waits: bool,
    /// The program may have closed its end, or shut it down.
    ends: bool,
    /// What is known of that: [`SHUT`], [`CLOSED`], [`BROKEN`]. All data of the program are in the pair.
    known: u8,
    /// The last data were more than [`FEW`].
    bulk: bool,
    /// Nothing has been taken out of the pair.
    fresh: bool,
    /// The handshake may wait for the first data.
    deferred: bool,
}

impl State {
    /// Returns whether the stack has taken over nothing that the program has written.
    fn is_untouched(&self) -> bool {
        self.fresh && self.held == 1
    }
}

/// The events of an end that are watched. Edges: each is served until nothing is left.
pub(super) fn interest(room: bool) -> epoll::EventFlags {
    let events = epoll::EventFlags::IN | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
    match room {
        true => events | epoll::EventFlags::OUT,
        false => events,
    }
}

impl Stream {
    /// The stream of a new pair.
    pub(super) fn new() -> Self {
        Self {
            state: Mutex::new(State {
                phase: Phase::New,
                full: false,
                ended: false,
                finished: false,
                abrupt: false,
                held: 1,
                waits: false,
                ends: false,
                known: 0,
                bulk: false,
                fresh: true,
                deferred: false,
            }),
            turn: Turn::default(),
            changes: AtomicU8::new(0),
        }
    }

    /// The events of the end that are watched when it is made: before a connection is open, only its end counts.
    pub(super) fn first_interest(&self) -> epoll::EventFlags {
        match self.state().phase {
            Phase::Open => interest(false),
            _ => epoll::EventFlags::RDHUP | epoll::EventFlags::ET,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection of an accepted socket exists.
    pub(super) fn opened(&self) {
        self.state().phase = Phase::Open;
    }

    /// The program has set `SO_LINGER` to this `struct linger`.
    pub(super) fn lingers(&self, value: &[u8]) {
        if let Some(value) = value.first_chunk::<8>() {
            let (on, time) = value.split_at(4);
            self.state().abrupt = on != [0; 4] && time == [0; 4];
        }
    }

    /// Returns whether the stream is over and its pair empty, and the program has closed its end or sees it as if the other
    /// was closed, too.
    pub(super) fn has_left(&self) -> bool {
        let state = self.state();
        let over = state.finished && state.phase == Phase::Over(Ending::Closed);
        over && state.known & CLOSED != 0
    }

    /// The number of connections that wait at a listening `socket` and do not make it readable.
    pub(super) fn unshown(&self, socket: &Socket) -> usize {
        match self.state().phase {
            Phase::Listening { shown } => socket.waiting().saturating_sub(shown),
            _ => 0,
        }
    }

    /// The supervisor has taken a byte that stood for a connection.
    pub(super) fn took_one(&self) {
        if let Phase::Listening { shown } = &mut self.state().phase {
            *shown = shown.saturating_sub(1);
        }
    }
}

impl Engine {
    /// Serves `connect`. EINPROGRESS if the handshake goes on; a failure shows when the supervisor has reported. The value
    /// is 1 if the handshake waits for data (`TCP_FASTOPEN_CONNECT`).
    pub(super) fn connect_stream(
        &self,
        endpoint: &Arc<Endpoint>,
        address: &[u8],
    ) -> Result<InetReply, Errno> {
        let mut waits = false;
        let begin = |socket: &Socket, cx: &mut Cx<'_>| {
            let begun = socket.connect(cx, address);
            waits = begun.is_ok();
            begun.map(|()| 0)
        };
        match self.open_stream(endpoint, begin)? {
            (_, true) => Ok(InetReply {
                value: waits.into(),
                ..InetReply::default()
            }),
            (_, false) => Err(Errno(libc::EINPROGRESS)),
        }
    }

    /// Serves a send that opens a stream (`MSG_FASTOPEN`). Returns how many bytes go with the SYN, and one byte more if the
    /// handshake goes on. EISCONN if the stream is open and has not taken the data.
    pub(super) fn send_fast(
        &self,
        endpoint: &Arc<Endpoint>,
        message: &Outgoing<'_>,
    ) -> Result<InetReply, Errno> {
        match endpoint.stream.as_ref().map(|stream| stream.state().phase) {
            Some(Phase::New) => {}
            Some(Phase::Connecting { .. }) => return Err(Errno(libc::EALREADY)),
            Some(Phase::Open) => return Err(Errno(libc::EISCONN)),
            _ => return Err(Errno(libc::EPIPE)),
        }
        let (count, open) = self.open_stream(endpoint, |socket, cx| socket.send(cx, message))?;
        if open && count == 0 && !message.data.is_empty() {
            return Err(Errno(libc::EISCONN));
        }
        Ok(InetReply {
            value: count as i64,
            bytes: if open { Vec::new() } else { vec![0] },
            ..InetReply::default()
        })
    }

    /// Begins a handshake by `begin`, which returns how many bytes go with the SYN. Returns that number, and whether the
    /// stream is open by the time the packets have passed that this causes.
    fn open_stream(
        &self,
        endpoint: &Arc<Endpoint>,
        begin: impl FnOnce(&Socket, &mut Cx<'_>) -> Result<usize, i32>,
    ) -> Result<(usize, bool), Errno> {
        let socket = endpoint.socket()?;
        let Some(stream) = &endpoint.stream else {
            return Err(Errno(libc::EOPNOTSUPP));
        };
        let begins = {
            let phase = &mut stream.state().phase;
            let begins = *phase == Phase::New;
            if begins {
                *phase = Phase::Connecting { filled: None };
            }
            begins
        };
        let begun = self.with_cx(|cx| begin(&socket, cx));
        let ready = socket.ready().0;
        let open = ready & Ready::OUT != 0 && ready & (Ready::ERR | Ready::HUP) == 0;
        let (count, phase) = match begun {
            Ok(count) if open => {
                stream.state().deferred = true;
                (count, Phase::Open)
            }
            Err(libc::EINPROGRESS) if open => (0, Phase::Open),
            Ok(count) if count > 0 => return Ok((count, false)),
            Err(libc::EINPROGRESS) => return Ok((0, false)),
            // AF_UNSPEC
            Ok(_) => (0, Phase::New),
            Err(error) => {
                if begins {
                    stream.state().phase = Phase::New;
                }
                return Err(Errno(error));
            }
        };
        stream.state().phase = phase;
        if phase == Phase::Open {
            if let Some(wire) = endpoint.wire() {
                endpoint.watch_room(&wire, false);
            }
            // The held byte makes an event at once.
            self.with_cx(|cx| endpoint.run(cx, WOKEN));
        }
        Ok((count, true))
    }

    /// Takes what a program has written before a call that stops: options act on data in the order of the calls. Under
    /// virtual time that happens when all programs wait.
    pub(super) fn take_written(&self, endpoint: &Endpoint) {
        if endpoint.stream.is_some() && !self.time.serves_sockets() {
            self.with_cx(|cx| endpoint.run_now(cx, self, WOKEN | EVENT | ENDS));
        }
    }

    /// Sends data of a stream that did not pass through the pair, because their flags would be lost. What the program wrote
    /// before goes first.
    ///
    /// # Errors
    /// EAGAIN if there is no room for all, or what was written before has not left.
    pub(super) fn send_stream(
        &self,
        endpoint: &Arc<Endpoint>,
        data: &[u8],
        flags: i32,
    ) -> Result<InetReply, Errno> {
        let (Some(stream), Some(wire)) = (&endpoint.stream, endpoint.wire()) else {
            return Err(Errno(libc::EPIPE));
        };
        let sent = self.with_cx(|cx| {
            endpoint.run_now(cx, self, WOKEN | EVENT | ENDS);
            {
                let state = stream.state();
                if state.phase != Phase::Open || state.finished || unread(&wire) > state.held {
                    return Err(libc::EAGAIN);
                }
            }
            let socket = endpoint.socket().map_err(|error| error.0)?;
            let sent = socket.write_part(cx, data, flags);
            // Something may have happened meanwhile.
            endpoint.run_now(cx, self, WOKEN | EVENT);
            sent
        });
        let length = sent.map_err(Errno)?;
        Ok(InetReply {
            value: length as i64,
            ..InetReply::default()
        })
    }
}

impl Endpoint {
    /// The supervisor has filled the client's send buffer.
    pub(super) fn filled(&self, cx: &mut Cx<'_>, length: u32, waits: bool) {
        if let Some(stream) = &self.stream {
            if let Phase::Connecting { filled } = &mut stream.state().phase {
                *filled = Some((length, waits));
            }
            self.run(cx, WOKEN | EVENT);
        }
    }

    /// The socket listens from now on.
    pub(super) fn listens(&self, cx: &mut Cx<'_>) {
        if let Some(stream) = &self.stream {
            {
                let phase = &mut stream.state().phase;
                if *phase == Phase::New {
                    *phase = Phase::Listening { shown: 0 };
                }
            }
            self.run(cx, WOKEN | EVENT);
        }
    }

    /// Moves what can be moved in both directions, and closes the socket if that was all. Under virtual time that happens
    /// when all programs wait.
    pub(super) fn run(&self, cx: &mut Cx<'_>, what: u8) {
        let Some(engine) = self.engine.upgrade() else {
            return;
        };
        if engine.time.serves_sockets() {
            super::lock(&engine.inet.later).insert(self.id);
            // The clock stops for it.
            engine.time.sent().fetch_add(1, SeqCst);
        } else {
            self.run_now(cx, &engine, what);
        }
    }

    /// As [`run`](Self::run), at once.
    pub(super) fn run_now(&self, cx: &mut Cx<'_>, engine: &Engine, what: u8) {
        if let Some(ending) = self.advance(cx, what) {
            engine.close_endpoint(cx, self, ending);
        }
    }

    /// Moves what can be moved in both directions. Called for every change on either side, from any thread, and from
    /// within its own calls of the socket; one of them works at a time, for the others too. If the stream is over, returns
    /// how it ends.
    fn advance(&self, cx: &mut Cx<'_>, what: u8) -> Option<Ending> {
        let (stream, socket, wire) = (self.stream.as_ref()?, self.socket().ok()?, self.wire()?);
        let mut over = None;
        stream.changes.fetch_or(what, SeqCst);
        stream.turn.serve(|| {
            let mut state = stream.state();
            let what = stream.changes.swap(0, SeqCst);
            self.step(cx, &wire, &mut state, &socket, what);
            if let Phase::Over(ending) = state.phase {
                over = Some(ending);
            }
        });
        over
    }

    fn step(&self, cx: &mut Cx<'_>, wire: &OwnedFd, state: &mut State, socket: &Socket, what: u8) {
        state.known |= what & (SHUT | CLOSED | BROKEN);
        state.ends |= what & ENDS != 0 || state.known != 0;
        match state.phase {
            Phase::New => look_for_end(wire, state),
            Phase::Connecting { filled } => {
                let ready = socket.ready().0;
                let failed = ready & (Ready::ERR | Ready::HUP) != 0;
                if ready & Ready::OUT == 0 && !failed {
                    return look_for_end(wire, state);
                }
                let Some((length, waits)) = filled else {
                    return; // until the supervisor reports
                };
                self.count_wake();
                if failed && !waits {
                    // The pair is closed with the filling unread: `poll` shows at once what it shows of a socket with an error.
                    state.phase = Phase::Over(Ending::Failed);
                    return;
                }
                take_out(wire, length as usize);
                state.fresh = false;
                // The caller of `connect` gets the error, and may try again.
                state.phase = if failed { Phase::New } else { Phase::Open };
                if !failed {
                    self.watch_room(wire, false);
                    self.step(cx, wire, state, socket, WOKEN | EVENT);
                }
            }
            Phase::Open
                if state.ended && what & WOKEN != 0 && socket.ready().0 & Ready::ERR != 0 =>
            {
                // A reset after the end of the data: reads return the end again, and writes fail with EPIPE.
                take_out(wire, usize::MAX);
                state.phase = Phase::Over(Ending::Closed);
                self.count_wake();
            }
            Phase::Open => {
                // A pair with room and a socket with room report what comes.
                if what & WOKEN != 0 || state.full {
                    self.deliver(cx, wire, state, socket);
                }
                let take = what & EVENT != 0 || state.waits || state.finished;
                if take && state.phase == Phase::Open {
                    self.take_over(cx, wire, state, socket);
                }
            }
            Phase::Listening { ref mut shown } => {
                let new = socket.waiting().saturating_sub(*shown);
                if new > 0 && (what & SHOW != 0 || !self.is_awaited(new)) {
                    // At once, so that a program that accepts until there are no more finds them all.
                    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
                    if let Ok(count @ 1..) = send(wire, &vec![0; new], flags) {
                        *shown += count;
                        self.count_wake();
                    }
                }
                look_for_end(wire, state);
                // What comes later is an event.
                state.ends = false;
            }
            Phase::Over(_) => {}
        }
    }

    /// How many bytes the program has written that the stack has not taken over.
    pub(super) fn untaken(&self) -> usize {
        match (&self.stream, self.wire()) {
            (Some(stream), Some(wire)) => {
                let state = stream.state();
                match state.phase {
                    Phase::Open => unread(&wire).saturating_sub(state.held),
                    _ => 0,
                }
            }
            _ => 0,
        }
    }

    /// Shows the connections that wait.
    pub(super) fn show_waiting(&self, cx: &mut Cx<'_>) {
        self.run(cx, SHOW);
    }

    /// Returns whether this thread, which attends to the sockets, has a call for each of so many connections. It accepts
    /// them when it has done its work.
    fn is_awaited(&self, count: usize) -> bool {
        self.engine.upgrade().is_some_and(|engine| {
            engine.inet.attendance.is_mine()
                && super::lock(&engine.inet.awaited).take(self.id, count)
        })
    }

    /// The program has got something to do.
    fn count_wake(&self) {
        if let Some(engine) = self.engine.upgrade() {
            engine.time.sent().fetch_add(1, SeqCst);
        }
    }

    /// Writes what the stack has received to the pair.
    fn deliver(&self, cx: &mut Cx<'_>, wire: &OwnedFd, state: &mut State, socket: &Socket) {
        if state.ended {
            return;
        }
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let by_rounds = self.by_rounds();
        let mut room = match by_rounds {
            true => room(wire),
            false => usize::MAX,
        };
        let mut full = false;
        let mut gone = false;
        // What is left behind the data, an end or an error, shows at the next read.
        let got = loop {
            let got = socket.read(cx, &mut |data| {
                let data = data.get(..room).unwrap_or(data);
                if data.is_empty() {
                    full = true;
                    return 0;
                }
                match sendmsg(
                    wire,
                    &[IoSlice::new(data)],
                    &mut SendAncillaryBuffer::default(),
                    flags,
                ) {
                    Ok(n) => {
                        // What follows, the end too, comes when the program has read this.
                        room = if by_rounds { 0 } else { room - n };
                        n
                    }
                    Err(Os::AGAIN | Os::NOBUFS) => {
                        full = true;
                        0
                    }
                    // The program reads no more: what comes is thrown away, as after SHUT_RD.
                    Err(_) => {
                        gone = true;
                        data.len()
                    }
                }
            });
            full |= room == 0;
            if matches!(got, Ok(n) if n > 0) {
                self.count_wake();
            }
            if full || !matches!(got, Ok(1..)) {
                break got;
            }
        };
        match got {
            Ok(0) if !full => {
                state.ended = true;
                let _ = shutdown(wire, Direction::Write); // the program may be gone
                self.count_wake();
            }
            Ok(_) | Err(libc::EAGAIN) => {}
            Err(error) => {
                self.error.store(error, SeqCst);
                // With the held byte unread, the program reads ECONNRESET.
                state.phase = Phase::Over(Ending::Closed);
                self.count_wake();
                return;
            }
        }
        if gone && is_closed(wire) {
            state.phase = Phase::Over(Ending::Reset);
            return;
        }
        if full != state.full {
            state.full = full;
            self.watch_room(wire, full);
        }
    }

    /// Whether streams are served when all programs wait.
    fn by_rounds(&self) -> bool {
        self.engine
            .upgrade()
            .is_some_and(|engine| engine.time.serves_sockets())
    }

    /// Watches a connection that is open; with `room`, asks for an event when the pair has room.
    fn watch_room(&self, wire: &OwnedFd, room: bool) {
        if let Some(engine) = self.engine.upgrade()
            && let Some(watch) = engine.inet.watch.get()
        {
            let data = epoll::EventData::new_u64(self.id);
            // The end of a socket that is being closed is not watched any more.
            let _ = epoll::modify(watch, wire, data, interest(room));
        }
    }

    /// Passes what the program has written to the stack if that is little: looks at it, and takes it out of the pair after
    /// the socket has taken it, unless the pair can hold it.
    fn take_few(&self, cx: &mut Cx<'_>, wire: &OwnedFd, state: &mut State, socket: &Socket) -> Few {
        let mut buffer = [0; KEPT + FEW + 1];
        let before = state.held;
        let mut parts = [IoSliceMut::new(&mut buffer)];
        let flags = RecvFlags::DONTWAIT | RecvFlags::PEEK;
        let (length, cut) =
            match recvmsg(wire, &mut parts, &mut RecvAncillaryBuffer::default(), flags) {
                // The look ends at a message with descriptors.
                Ok(message) => (message.bytes, message.flags.contains(ReturnFlags::CTRUNC)),
                Err(Os::AGAIN) => (0, false),
                Err(_) => return Few::NotAll,
            };
        let data = &buffer[before.min(length)..length];
        if data.len() > FEW || cut {
            return Few::NotAll;
        }
        if data.is_empty() {
            return Few::All;
        }
        match socket.write(cx, data) {
            Ok(taken) => {
                let over = before + taken;
                if taken < data.len() {
                    take_out(wire, over);
                    state.held = 0;
                    state.fresh = false;
                    return Few::NotAll;
                }
                state.fresh &= over <= KEPT;
                state.held = match state.fresh {
                    true => over,
                    false => {
                        take_out(wire, over - 1);
                        1
                    }
                };
                Few::All
            }
            Err(libc::EAGAIN) => Few::NoRoom,
            Err(_) => Few::Refused,
        }
    }

    /// Passes what the program has written to the stack.
    fn take_over(&self, cx: &mut Cx<'_>, wire: &OwnedFd, state: &mut State, socket: &Socket) {
        if state.finished {
            // With both directions shut the pair does not show whether the program has closed its end. The program has no
            // more use for the stack: without the held byte it reads the end, and no reset.
            if state.ended || state.known & CLOSED != 0 || is_closed(wire) {
                take_out(wire, state.held);
                state.phase = Phase::Over(Ending::Closed);
            }
            return;
        }
        state.waits = false;
        let by_rounds = self.by_rounds();
        let mut bound = None;
        loop {
            // Under virtual time those bytes that are there when all programs wait, not those that one writes as soon as
            // there is room.
            let few = match by_rounds || state.bulk {
                true => Few::NotAll,
                // A connection that waits for its first data begins by a write.
                false if state.known & CLOSED != 0 && !(state.deferred && state.is_untouched()) => {
                    take_last(cx, wire, state, socket)
                }
                false => self.take_few(cx, wire, state, socket),
            };
            let new = match (few, bound) {
                (Few::All, _) => 0,
                (Few::NotAll, Some(new)) => new,
                (Few::NotAll, None) => unread(wire).saturating_sub(state.held),
                (Few::NoRoom, _) => {
                    state.waits = true;
                    break;
                }
                (Few::Refused, _) => {
                    state.phase = Phase::Over(Ending::Closed);
                    break;
                }
            };
            if new > 0 {
                state.bulk = new > FEW;
                state.fresh = false;
                let held = &mut state.held;
                let want = new.min(AT_ONCE);
                match socket.write_with(cx, want, &mut |room| take(wire, room, new, held)) {
                    Ok(taken) if taken < new => {
                        bound = by_rounds.then_some(new - taken);
                        continue;
                    }
                    Ok(_) => {}
                    Err(libc::EAGAIN) => {
                        state.waits = true;
                        break;
                    }
                    Err(_) => {
                        state.phase = Phase::Over(Ending::Closed);
                        break;
                    }
                }
            }
            // Only the held byte is left, unless more came before the end. What comes later is an event.
            if !state.ends {
                break;
            }
            // What was known before the data were taken came after them.
            if state.known == 0 {
                state.known = ends_of(wire);
                state.ends = state.known != 0;
                if state.ends && unread(wire) > state.held {
                    bound = None;
                    continue;
                }
            }
            let known = state.known;
            if known & BROKEN != 0 {
                state.phase = Phase::Over(Ending::Reset);
            } else if known & CLOSED != 0 && !state.ended {
                // Closed, or shut in both directions: then the program reads the end, and no reset.
                take_out(wire, state.held);
                state.finished = true;
                state.phase = Phase::Over(Ending::Closed);
            } else if known & SHUT != 0 && !state.finished {
                state.finished = true;
                // With both directions shut, a close and a shutdown look the same. A program that wants resets closes.
                if state.ended && state.abrupt {
                    state.phase = Phase::Over(Ending::Reset);
                    break;
                }
                // A connection that is gone needs no end.
                let _ = socket.shutdown(cx, Shutdown::Write);
                if state.ended {
                    take_out(wire, state.held);
                    state.phase = Phase::Over(Ending::Closed);
                }
            }
            break;
        }
    }
}

/// What became of data that a program has written, if there are few.
enum Few {
    /// All were taken.
    All,
    /// There may be more.
    NotAll,
    /// The socket had no room for all.
    NoRoom,
    /// The socket takes no more.
    Refused,
}

/// Passes the last that a program has written to the stack, as far as that is little, together with taking out the bytes that
/// were held: the program has closed its end, and nobody will read what the held byte is for. There may be more.
fn take_last(cx: &mut Cx<'_>, wire: &OwnedFd, state: &mut State, socket: &Socket) -> Few {
    let held = state.held;
    let mut few = Few::NoRoom;
    let taken = socket.write_with(cx, FEW, &mut |[first, second]| {
        let room = held + first.len() + second.len();
        let mut old = [0; KEPT];
        let mut parts = [
            IoSliceMut::new(&mut old[..held]),
            IoSliceMut::new(first),
            IoSliceMut::new(second),
        ];
        let (got, cut) = receive(wire, &mut parts, RecvFlags::DONTWAIT);
        state.held = held.saturating_sub(got);
        state.fresh = false;
        few = match got < room && !cut {
            true => Few::All,
            false => Few::NotAll,
        };
        got.saturating_sub(held)
    });
    match taken {
        // EAGAIN also says that there were none.
        Ok(_) | Err(libc::EAGAIN) => few,
        Err(_) => Few::Refused,
    }
}

/// Takes bytes that the program has written, of which there are `new`, out of the pair and into the room of the socket. The
/// last byte stays in the pair: it is the held one if all were taken. The bytes held before go. Returns how many bytes were
/// taken.
fn take(wire: &OwnedFd, room: [&mut [u8]; 2], new: usize, held: &mut usize) -> usize {
    let [first, second] = room;
    let want = new.min(first.len() + second.len());
    // All but the last new byte leave the pair.
    let leave = if want == new { want - 1 } else { want };
    let before = *held;
    let mut got = 0;
    if before + leave > 0 {
        let mut old = [0; KEPT];
        let start = leave.min(first.len());
        let mut parts = [
            IoSliceMut::new(&mut old[..before]),
            IoSliceMut::new(&mut first[..start]),
            IoSliceMut::new(&mut second[..leave - start]),
        ];
        match receive(wire, &mut parts, RecvFlags::DONTWAIT).0 {
            0 => return 0,
            n => got = n.saturating_sub(before),
        }
        *held = 0;
    }
    if got == leave && leave < want {
        let place = match first.get_mut(leave) {
            Some(byte) => byte,
            None => &mut second[leave - first.len()],
        };
        let mut part = [IoSliceMut::new(std::slice::from_mut(place))];
        if receive(wire, &mut part, RecvFlags::DONTWAIT | RecvFlags::PEEK).0 == 1 {
            *held = 1;
            got += 1;
        }
    }
    got
}

/// Receives; returns the number of bytes, or 0 if there is none, and whether a message with descriptors was cut, behind
/// which the kernel stops.
fn receive(wire: &OwnedFd, parts: &mut [IoSliceMut<'_>], flags: RecvFlags) -> (usize, bool) {
    loop {
        match recvmsg(wire, parts, &mut RecvAncillaryBuffer::default(), flags) {
            Ok(message) => return (message.bytes, message.flags.contains(ReturnFlags::CTRUNC)),
            Err(Os::INTR) => {}
            Err(_) => return (0, false),
        }
    }
}

/// How many bytes there are to take from the pair, the held one included.
fn unread(wire: &OwnedFd) -> usize {
    ioctl_fionread(wire).map_or(0, |length| usize::try_from(length).unwrap_or(usize::MAX))
}

/// The most bytes to write to the pair now under virtual time. The program may not decide by reading meanwhile what it
/// gets: the pair gets one message when it is empty.
fn room(wire: &OwnedFd) -> usize {
    match weir_intercept::datagram::unread(wire) {
        // A message takes at most half of the buffer (`unix_stream_sendmsg`).
        0 => sockopt::socket_send_buffer_size(wire)
            .map_or(1, |size| (size / 2).saturating_sub(64))
            .clamp(1, ONE_MESSAGE),
        _ => 0,
    }
}

/// Takes the filling out of the pair, except for the byte that is held now.
fn take_out(wire: &OwnedFd, length: usize) {
    let mut left = length;
    let (mut few, mut many);
    let buffer = match left {
        0..=FEW => {
            few = [0; FEW];
            &mut few[..]
        }
        _ => {
            many = vec![0; left.min(AT_ONCE)];
            &mut many[..]
        }
    };
    while left > 0 {
        let most = left.min(buffer.len());
        match recv(wire, &mut buffer[..most], RecvFlags::DONTWAIT) {
            Ok((n, _)) if n > 0 => left -= n,
            Err(Os::INTR) => {}
            _ => return,
        }
    }
}

/// A socket without a connection is over when the program has closed it.
fn look_for_end(wire: &OwnedFd, state: &mut State) {
    if state.ends && is_closed(wire) {
        state.phase = Phase::Over(Ending::Closed);
    }
}

fn is_closed(wire: &OwnedFd) -> bool {
    ends_of(wire) & (CLOSED | BROKEN) != 0
}

/// Looks for the end of a program's data.
fn ends_of(wire: &OwnedFd) -> u8 {
    ends(epoll::EventFlags::from_bits_retain(
        events(wire).bits().into(),
    ))
}

pub(super) fn events(wire: &OwnedFd) -> PollFlags {
    let mut fds = [PollFd::new(wire, PollFlags::IN | PollFlags::RDHUP)];
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    match poll(&mut fds, Some(&now)) {
        Ok(_) => fds[0].revents(),
        Err(_) => PollFlags::empty(),
    }
}
