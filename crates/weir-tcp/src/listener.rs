// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The queues of a listener: half-open connections and those that wait to be accepted (`struct request_sock_queue`).
//!
//! The owner finds the listener, and knows addresses: `K` is the peer's address and port with the local ones, `C`
//! is what waits to be accepted.

use std::collections::{BTreeMap, VecDeque};

use crate::config::Config;
use crate::request::{Due, Request};

/// The queues of a listener.
#[derive(Debug, Clone)]
pub struct Listener<K, C> {
    /// In an order, so that time-outs come in the same order in each run.
    requests: BTreeMap<K, Request>,
    waiting: VecDeque<C>,
    backlog: u32,
    /// The earliest deadline of a request, or an earlier time.
    due: u64,
}

/// What a listener does with a SYN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// It is remembered.
    Queue,
    /// It is answered with a cookie and forgotten.
    Cookie,
    /// It is dropped: a queue is full.
    Drop,
}

impl<K: Ord + Clone, C> Listener<K, C> {
    /// A listener for at most `backlog` + 1 waiting connections.
    pub fn new(backlog: u32) -> Self {
        Self {
            requests: BTreeMap::new(),
            waiting: VecDeque::new(),
            backlog,
            due: u64::MAX,
        }
    }

    /// Sets how many connections may wait.
    pub fn set_backlog(&mut self, backlog: u32) {
        self.backlog = backlog;
    }

    /// The number that may wait (`sk_max_ack_backlog`).
    pub fn backlog(&self) -> u32 {
        self.backlog
    }

    /// The number that waits (`sk_ack_backlog`).
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// The number of half-open connections.
    pub fn half_open(&self) -> usize {
        self.requests.len()
    }

    /// Whether another connection may wait (`sk_acceptq_is_full`).
    pub fn is_full(&self) -> bool {
        self.waiting.len() > self.backlog as usize
    }

    /// Decides about a SYN (`tcp_conn_request`).
    pub fn admit(&self, config: &Config) -> Admission {
        let queued = self.requests.len();
        let full = queued >= self.backlog as usize;
        if self.is_full() {
            return Admission::Drop;
        }
        if config.syncookies == 2 || full && config.syncookies == 1 {
            return Admission::Cookie;
        }
        if full {
            return Admission::Drop;
        }
        let most = config.max_syn_backlog as usize;
        if config.syncookies == 0 && most.saturating_sub(queued) < most >> 2 {
            return Admission::Drop;
        }
        Admission::Queue
    }

    /// Remembers a request.
    pub fn insert(&mut self, key: K, request: Request) {
        self.due = self.due.min(request.deadline());
        self.requests.insert(key, request);
    }

    /// A request.
    pub fn request(&mut self, key: &K) -> Option<&mut Request> {
        self.requests.get_mut(key)
    }

    /// Removes a request.
    pub fn remove(&mut self, key: &K) -> Option<Request> {
        let removed = self.requests.remove(key);
        if self.requests.is_empty() {
            // Else the next request would have the deadline of one that is gone.
            self.due = u64::MAX;
        }
        removed
    }

    /// Puts a connection into the queue of those that wait.
    pub fn push(&mut self, connection: C) {
        self.waiting.push_back(connection);
    }

    /// Takes the connection that has waited longest.
    pub fn accept(&mut self) -> Option<C> {
        self.waiting.pop_front()
    }

    /// Takes everything out: the listener is closed.
    pub fn drain(&mut self) -> impl Iterator<Item = C> {
        self.requests.clear();
        std::mem::take(&mut self.waiting).into_iter()
    }

    /// When [`Listener::timeout`] is due, in ns.
    pub fn deadline(&self) -> Option<u64> {
        (!self.requests.is_empty()).then_some(self.due)
    }

    /// Calls `resend` for each request whose SYN-ACK is due again. Returns how many requests were given up.
    pub fn timeout(&mut self, now: u64, mut resend: impl FnMut(&K, &Request)) -> usize {
        if self.due > now {
            return 0;
        }
        let before = self.requests.len();
        let mut due = u64::MAX;
        self.requests.retain(|key, request| {
            if request.deadline() <= now {
                match request.timeout(now) {
                    Due::End => return false,
                    Due::SynAck => resend(key, request),
                    Due::Nothing => {}
                }
            }
            due = due.min(request.deadline());
            true
        });
        self.due = due;
        before - self.requests.len()
    }

    /// The half-open connections, for listing.
    pub fn requests(&self) -> impl Iterator<Item = (&K, &Request)> {
        self.requests.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::settings::{Path, Settings};
    use crate::header::{Header, SYN};
    use crate::time::SECOND;

    fn request(now: u64) -> Request {
        let syn = Header {
            flags: SYN,
            ..Header::default()
        };
        Request::new(
            now,
            &Config::default(),
            &Settings::default(),
            &Path::ipv4(1500),
            &syn,
            1,
            0,
        )
    }

    #[test]
    fn syn_acks_are_sent_again_five_times() {
        let mut listener: Listener<u32, ()> = Listener::new(10);
        listener.insert(1, request(0));
        let mut times = Vec::new();
        while let Some(at) = listener.deadline() {
            listener.timeout(at, |_, _| times.push(at / SECOND));
        }
        assert_eq!(times, [1, 3, 7, 15, 31]);
        assert_eq!(listener.half_open(), 0);
    }

    #[test]
    fn a_deadline_goes_with_its_request() {
        let mut listener: Listener<u32, ()> = Listener::new(10);
        listener.insert(1, request(0));
        assert!(listener.remove(&1).is_some());
        assert_eq!(listener.deadline(), None);
        listener.insert(2, request(9 * SECOND));
        assert_eq!(listener.deadline(), Some(10 * SECOND));
    }

    #[test]
    fn a_handshake_waits_for_data() {
        use crate::header::ACK;
        use crate::request::{Verdict, seconds_of, timeouts_of};
        let seconds = [1, 2, 3, 4, 10, 1000].map(timeouts_of);
        assert_eq!(seconds, [1, 2, 2, 3, 4, 15]);
        assert_eq!([0, 1, 2, 3, 4].map(seconds_of), [0, 1, 3, 7, 15]);
        let mut listener: Listener<u32, ()> = Listener::new(10);
        let mut waiting = request(0);
        waiting.defer(timeouts_of(5));
        listener.insert(1, waiting);
        let ack = Header {
            seq: 1,
            ack: 2,
            flags: ACK,
            ..Header::default()
        };
        let judge = |listener: &mut Listener<u32, ()>, data| {
            let request = listener.request(&1).expect("a request");
            request.segment(0, &Config::default(), &ack, data)
        };
        assert_eq!(judge(&mut listener, 0), Verdict::Wait);
        assert_eq!(judge(&mut listener, 3), Verdict::Complete);
        // The client is reminded once, at the end of the wait; then an ACK alone suffices.
        let mut times = Vec::new();
        for _ in 0..3 {
            let at = listener.deadline().expect("a time-out");
            listener.timeout(at, |_, _| times.push(at / SECOND));
        }
        assert_eq!(times, [7]);
        assert_eq!(judge(&mut listener, 0), Verdict::Complete);
    }

    #[test]
    fn a_full_queue_answers_with_cookies_or_not_at_all() {
        let mut config = Config::default();
        let mut listener: Listener<u32, u32> = Listener::new(2);
        for key in 0..2 {
            assert_eq!(listener.admit(&config), Admission::Queue);
            listener.insert(key, request(0));
        }
        assert_eq!(listener.admit(&config), Admission::Cookie);
        config.syncookies = 0;
        assert_eq!(listener.admit(&config), Admission::Drop);
        for n in 0..3 {
            assert!(!listener.is_full());
            listener.push(n);
        }
        assert!(listener.is_full());
        config.syncookies = 1;
        assert_eq!(listener.admit(&config), Admission::Drop);
        assert_eq!(listener.accept(), Some(0));
    }
}
