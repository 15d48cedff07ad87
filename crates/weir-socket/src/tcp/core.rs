// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A connection or a listener in the stack: its state, its timer, its segments and its owner.
//!
//! A core exists before the program has accepted the connection, and after it has closed the socket.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Weak};

use weir_core::clock::{Holds, TimerId};
use weir_inet::mib::{Count, Ext};
use weir_sync::order::{self, Mutex, MutexGuard};
use weir_tcp::listener::Listener;
use weir_tcp::{Answer, Connection, Events, Header, Settings, State, TimeWait};

use super::opening::Opening;
use super::send::{Choice, Outbox};
use super::signature::Keys;
use super::table::Waiting;
use super::tuple::Tuple;
use crate::Ready;
use crate::cpu::Cx;
use crate::namespace::Namespace;
use crate::options;
use crate::ports::tables;
use crate::socket::Socket;

/// What a socket is at the moment.
#[derive(Debug)]
pub enum Kind {
    /// It has never been connected.
    Idle,
    /// It waits for connections.
    Listening(Box<Listener<Tuple, Arc<Core>>>),
    /// It is connected, or was and has data to read.
    Open(Box<Connection>),
}

/// What the lock guards.
#[derive(Debug)]
pub struct Inner {
    pub kind: Kind,
    pub tuple: Tuple,
    /// The socket, once there is one.
    pub socket: Weak<Socket>,
    pub options: options::Shared,
    pub device: u32,
    /// The connection has the same.
    pub settings: Arc<Settings>,
    /// `TCP_DEFER_ACCEPT`, in time-outs of a SYN-ACK.
    pub defer_accept: u8,
    /// Fast Open.
    pub fast_open: Opening,
    /// `TCP_MD5SIG`
    pub keys: Keys,
    /// The listener's count of early connections, while this is one of them.
    pub early: Option<Arc<AtomicU32>>,
    timer: Option<TimerId>,
    /// The program has closed the socket.
    pub orphan: bool,
    /// The connection is out of the table.
    gone: bool,
}

/// A connection or a listener.
#[derive(Debug)]
pub struct Core {
    pub ns: Arc<Namespace>,
    pub v6: bool,
    pub listening: AtomicBool,
    /// There are keys of signatures.
    pub signs: AtomicBool,
    inner: Mutex<Inner, order::TcpConnection>,
}

/// The locked state of a core.
pub type Locked<'a> = MutexGuard<'a, Inner, order::TcpConnection>;

impl Core {
    /// Makes the core of a socket.
    pub fn new(ns: Arc<Namespace>, v6: bool, socket: Weak<Socket>) -> Arc<Self> {
        let any = crate::address::Address::any(v6).ip;
        let tuple = Tuple {
            local: any,
            port: 0,
            remote: any,
            remote_port: 0,
        };
        Self::make(
            ns,
            v6,
            socket,
            Kind::Idle,
            tuple,
            options::Shared::default(),
            0,
            Settings::shared(),
            (Keys::default(), None),
        )
    }

    /// Makes the core of a connection that a listener has got; `early` counts those whose handshake is not complete.
    pub fn child(
        &self,
        listener: &Inner,
        tuple: Tuple,
        connection: Connection,
        early: Option<Arc<AtomicU32>>,
    ) -> Arc<Self> {
        let settings = connection.settings().clone();
        let keys = listener.keys.of_child(tuple.remote);
        Self::make(
            self.ns.clone(),
            self.v6,
            Weak::new(),
            Kind::Open(Box::new(connection)),
            tuple,
            listener.options.clone(),
            listener.device,
            settings,
            (keys, early),
        )
    }

    #[expect(clippy::too_many_arguments, reason = "the fields, in their order")]
    fn make(
        ns: Arc<Namespace>,
        v6: bool,
        socket: Weak<Socket>,
        kind: Kind,
        tuple: Tuple,
        options: options::Shared,
        device: u32,
        settings: Arc<Settings>,
        (keys, early): (Keys, Option<Arc<AtomicU32>>),
    ) -> Arc<Self> {
        Arc::new(Self {
            ns,
            v6,
            listening: AtomicBool::new(false),
            signs: AtomicBool::new(!keys.is_empty()),
            inner: Mutex::new(Inner {
                kind,
                tuple,
                socket,
                options,
                device,
                settings,
                defer_accept: 0,
                fast_open: Opening::default(),
                keys,
                early,
                timer: None,
                orphan: false,
                gone: false,
            }),
        })
    }

    /// Locks the state.
    pub fn lock(&self) -> Locked<'_> {
        self.inner.lock()
    }

    /// Returns whether it waits for connections.
    pub fn is_listening(&self) -> bool {
        self.listening.load(Relaxed)
    }

    /// Takes a segment of the connection.
    pub fn segment(self: &Arc<Self>, cx: &mut Cx<'_>, header: &Header, data: &[u8]) {
        let mut inner = self.lock();
        let mut out = Outbox::new(cx.stack, inner.tuple);
        if let Kind::Open(connection) = &mut inner.kind {
            let answer = connection.segment(cx.now, header, data);
            if answer == Answer::Reset
                && let Some(reset) = header.reset(data.len())
            {
                out.header(reset);
            }
        }
        self.settle(cx, inner, out);
    }

    /// Does what is due.
    fn fire(self: &Arc<Self>, cx: &mut Cx<'_>) {
        let mut inner = self.lock();
        inner.timer = None;
        let out = Outbox::new(cx.stack, inner.tuple);
        let now = cx.now;
        let mut boxes = Vec::new();
        match &mut inner.kind {
            Kind::Idle => {}
            Kind::Open(connection) => connection.timeout(now),
            Kind::Listening(listener) => {
                listener.timeout(now, |tuple, request| {
                    let mut out = Outbox::new(cx.stack, *tuple);
                    weir_tcp::Output::send(&mut out, &request.syn_ack(now));
                    boxes.push(out);
                });
            }
        }
        let choice = inner.choice();
        for out in &mut boxes {
            if let Some(key) = inner.keys.find(out.remote()) {
                out.sign(key);
            }
        }
        self.settle(cx, inner, out);
        for out in boxes {
            out.flush(cx, &self.ns, &choice);
        }
    }

    /// Sends what a change of the state has caused, arms the timer, and tells the owner. Call it after each change.
    pub fn settle(self: &Arc<Self>, cx: &mut Cx<'_>, mut inner: Locked<'_>, mut out: Outbox<'_>) {
        let now = cx.now;
        let mut events = Events::default();
        let mut waiting = None;
        let mut learned = None;
        let choice = inner.choice();
        inner.count_early();
        if let Kind::Open(connection) = &mut inner.kind {
            let resent = connection.retransmitted();
            connection.poll(now, &mut out);
            events = connection.take_events();
            learned = connection.take_learned();
            let resent = connection.retransmitted().wrapping_sub(resent);
            super::count::add(cx, &self.ns, connection.take_counts(), resent);
            if events.has(Events::TIME_WAIT) {
                waiting = TimeWait::new(now, connection).map(|rest| {
                    Arc::new(Waiting {
                        rest: Mutex::new(rest),
                        way: choice,
                        v6: self.v6,
                        key: inner.keys.find(inner.tuple.remote).cloned(),
                    })
                });
            }
        }
        let closed =
            matches!(&inner.kind, Kind::Open(connection) if connection.state() == State::Closed);
        let over = closed || waiting.is_some();
        let leave = over && !inner.gone;
        if let Kind::Open(connection) = &inner.kind
            && leave
            && connection.has_ended_well()
        {
            let connections = &tables(&self.ns).tcp_connections;
            if !connections.config(&self.ns).no_metrics_save {
                let Tuple { local, remote, .. } = inner.tuple;
                connections.metrics().change(now, local, remote, |entry| {
                    connection.save(&mut entry.values)
                });
            }
        }
        inner.gone |= over;
        self.arm(cx, &mut inner);
        let (tuple, orphan) = (inner.tuple, inner.orphan);
        let socket = inner.socket.upgrade();
        let wake = events.0 & !Events::TIME_WAIT != 0 && !orphan;
        let over = inner.gone;
        if !inner.keys.is_empty()
            && let Some(key) = inner.keys.find(out.remote())
        {
            out.sign(key);
        }
        drop(inner);
        out.flush(cx, &self.ns, &choice);
        let connections = &tables(&self.ns).tcp_connections;
        if let Some(learned) = learned {
            connections
                .metrics()
                .learn(now, tuple.local, tuple.remote, &learned);
        }
        if let Some(waiting) = waiting {
            cx.mib(&self.ns).ext.add(Ext::TW, 1);
            connections.wait(tuple, waiting.clone(), cx.guard);
            arm_wait(cx, self.ns.clone(), tuple, waiting);
        } else if leave {
            connections.remove(&tuple, self, cx.guard);
        }
        let Some(socket) = socket else { return };
        if over && orphan {
            socket.release(cx);
        } else if wake {
            self.wake(cx, &socket);
        }
    }

    /// Tells the owner what the socket is ready for.
    pub fn wake(&self, cx: &mut Cx<'_>, socket: &Arc<Socket>) {
        let ready = self.ready();
        socket.user().wake(cx, ready);
    }

    fn arm(self: &Arc<Self>, cx: &Cx<'_>, inner: &mut Inner) {
        let (deadline, holds) = match &inner.kind {
            Kind::Open(connection)
                if !matches!(connection.state(), State::TimeWait | State::Closed) =>
            {
                let holds = if connection.unacknowledged() > 0 {
                    Holds::Packet
                } else {
                    Holds::Nothing
                };
                (connection.deadline(), holds)
            }
            Kind::Listening(listener) => (listener.deadline(), Holds::Packet),
            _ => (None, Holds::Nothing),
        };
        match (deadline, inner.timer) {
            // A timer that fires early arms the right one then.
            (Some(at), Some(timer)) if timer.time() <= at => {}
            (Some(at), armed) => {
                if let Some(timer) = armed {
                    cx.stack.timers.cancel(timer);
                }
                let core = Arc::downgrade(self);
                let job = move |cx: &mut Cx<'_>| {
                    if let Some(core) = core.upgrade() {
                        core.fire(cx);
                    }
                };
                inner.timer = Some(cx.stack.arm(at.max(cx.now), holds, Box::new(job)));
            }
            (None, Some(timer)) => {
                cx.stack.timers.cancel(timer);
                inner.timer = None;
            }
            (None, None) => {}
        }
    }

    /// Returns what the socket is ready for (`tcp_poll`).
    pub fn ready(&self) -> Ready {
        let inner = self.lock();
        let mut ready = 0;
        match &inner.kind {
            Kind::Idle => ready = Ready::OUT | Ready::HUP,
            Kind::Listening(listener) => {
                if listener.waiting() > 0 {
                    ready = Ready::IN;
                }
            }
            Kind::Open(connection) => {
                let state = connection.state();
                if connection.error() != 0 {
                    ready |= Ready::ERR;
                }
                if connection.is_shut() || state == State::Closed {
                    ready |= Ready::HUP;
                }
                if state == State::SynSent {
                    if connection.is_deferred() {
                        ready |= Ready::OUT;
                    }
                    return Ready(ready);
                }
                if connection.at_end() {
                    ready |= Ready::IN | Ready::RDHUP;
                }
                if connection.readable() >= inner.settings.receive_low as usize {
                    ready |= Ready::IN;
                }
                if !connection.may_send() || connection.is_writable() {
                    ready |= Ready::OUT;
                }
            }
        }
        Ready(ready)
    }
}

impl Inner {
    /// A new connection begins.
    pub fn restart(&mut self) {
        self.gone = false;
    }

    /// What decides about the packets.
    pub fn choice(&self) -> Choice {
        Choice::of(&self.options, self.device)
    }
}

/// Ends TIME_WAIT when its time has come.
fn arm_wait(cx: &Cx<'_>, ns: Arc<Namespace>, tuple: Tuple, waiting: Arc<Waiting>) {
    let at = waiting.rest.lock().deadline();
    let job = move |cx: &mut Cx<'_>| {
        if waiting.rest.lock().deadline() > cx.now {
            return arm_wait(cx, ns, tuple, waiting);
        }
        tables(&ns)
            .tcp_connections
            .end_wait(&tuple, &waiting, cx.guard);
    };
    cx.stack.arm(at, Holds::Nothing, Box::new(job));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What an idle connection's end holds. The allocator's classes of these sizes are 320, 192 and 896 bytes; the next
    /// ones are an eighth to a quarter larger. A reference-counted object has 16 bytes of its own.
    #[test]
    fn an_end_of_a_connection_is_small() {
        assert!(size_of::<Socket>() <= 320 - 16, "{}", size_of::<Socket>());
        assert!(size_of::<Core>() <= 192 - 16, "{}", size_of::<Core>());
        assert!(
            size_of::<Connection>() <= 896,
            "{}",
            size_of::<Connection>()
        );
    }
}
