// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What connections leave behind about their peers (`net/ipv4/tcp_metrics.c`): round-trip time, window, threshold, and what
//! Fast Open needs. A new connection begins with it. `ip tcp_metrics` lists it.

use std::collections::BTreeMap;
use std::net::IpAddr;

use weir_sync::order::{self, Mutex};
use weir_tcp::Metrics as Values;
use weir_tcp::fast_open::{Client, Learned};
use weir_tcp::options::FastOpen;

/// The most peers of a namespace; one more replaces the oldest.
const MOST: usize = 8192;

/// What is known about the pair of an own address and a peer's.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Entry {
    /// When it was last changed, in ns.
    pub time: u64,
    /// What is known of the path.
    pub values: Values,
    /// The peer's MSS, for data in a SYN; 0 if it is not known.
    pub mss: u16,
    /// The peer's cookie.
    pub cookie: Option<FastOpen>,
    /// How often in a row a SYN with data was lost, and when the last was, in ns.
    pub drops: (u16, u64),
    /// How many of the two options for a cookie the peer did not answer. After the first the experimental one is tried,
    /// after that the first for good.
    pub tries: u8,
}

/// The table of a namespace.
#[derive(Debug)]
pub struct Metrics {
    table: Mutex<BTreeMap<(IpAddr, IpAddr), Entry>, order::Unranked>,
}

impl Metrics {
    /// An empty table.
    pub fn new() -> Self {
        Self {
            table: Mutex::new(BTreeMap::new()),
        }
    }

    /// Returns what is known about a peer.
    pub fn get(&self, local: IpAddr, remote: IpAddr) -> Option<Entry> {
        self.table.lock().get(&(local, remote)).cloned()
    }

    /// Changes what is known about a peer at the time `now`, in ns.
    pub fn change(&self, now: u64, local: IpAddr, remote: IpAddr, change: impl FnOnce(&mut Entry)) {
        let mut table = self.table.lock();
        if table.len() >= MOST && !table.contains_key(&(local, remote)) {
            let oldest = table.iter().min_by_key(|(_, entry)| entry.time);
            if let Some(key) = oldest.map(|(key, _)| *key) {
                table.remove(&key);
            }
        }
        let entry = table.entry((local, remote)).or_default();
        change(entry);
        entry.time = now;
    }

    /// Forgets what is known about a peer, from one own address or from all. Returns whether there was anything.
    pub fn remove(&self, local: Option<IpAddr>, remote: IpAddr) -> bool {
        let mut table = self.table.lock();
        let before = table.len();
        table.retain(|key, _| key.1 != remote || local.is_some_and(|local| local != key.0));
        table.len() != before
    }

    /// Forgets everything.
    pub fn clear(&self) {
        self.table.lock().clear();
    }

    /// Returns everything: own address, peer's address, what is known.
    pub fn all(&self) -> Vec<(IpAddr, IpAddr, Entry)> {
        let table = self.table.lock();
        let entry = |((local, remote), entry): (&(IpAddr, IpAddr), &Entry)| {
            (*local, *remote, entry.clone())
        };
        table.iter().map(entry).collect()
    }

    /// How a client opens to a peer. `no_cookie` if it needs none.
    pub fn client(&self, local: IpAddr, remote: IpAddr, no_cookie: bool) -> Client {
        let entry = self.get(local, remote).unwrap_or_default();
        let ask = FastOpen {
            experimental: entry.tries == 1,
            ..FastOpen::default()
        };
        Client {
            option: match no_cookie {
                true => None,
                false => Some(entry.cookie.unwrap_or(ask)),
            },
            mss: entry.mss,
        }
    }

    /// Notes what a SYN-ACK told (`tcp_fastopen_cache_set`).
    pub fn learn(&self, now: u64, local: IpAddr, remote: IpAddr, learned: &Learned) {
        self.change(now, local, remote, |entry| {
            entry.mss = learned.mss;
            if learned.cookie.is_some() {
                entry.cookie = learned.cookie;
            } else if let (Some(experimental), None) = (learned.ignored, entry.cookie) {
                entry.tries = entry.tries.max(1 + u8::from(experimental));
            }
            entry.drops = match learned.dropped {
                true => (entry.drops.0.saturating_add(1), now),
                false => (0, 0),
            };
        });
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_peer_is_replaced() {
        let metrics = Metrics::new();
        let own = IpAddr::from([10, 0, 0, 1]);
        let peer = |n: usize| IpAddr::from([10, 1, (n >> 8) as u8, n as u8]);
        for n in 0..=MOST {
            metrics.change(n as u64 + 1, own, peer(n), |entry| entry.mss = 1000);
        }
        assert_eq!(metrics.all().len(), MOST);
        assert!(metrics.get(own, peer(0)).is_none());
        assert!(metrics.remove(None, peer(1)));
        assert!(!metrics.remove(Some(peer(7)), peer(2)));
        assert!(metrics.remove(Some(own), peer(2)));
        metrics.clear();
        assert!(metrics.all().is_empty());
    }

    #[test]
    fn a_cookie_is_kept_and_replaced() {
        let metrics = Metrics::new();
        let (own, peer) = (IpAddr::from([1; 4]), IpAddr::from([2; 4]));
        assert!(!metrics.client(own, peer, false).carries_data());
        assert!(metrics.client(own, peer, true).carries_data());
        let cookie = FastOpen {
            length: 4,
            ..FastOpen::default()
        };
        let mut learned = Learned {
            cookie: Some(cookie),
            mss: 940,
            dropped: false,
            ignored: None,
        };
        metrics.learn(1, own, peer, &learned);
        let client = metrics.client(own, peer, false);
        assert!(client.carries_data() && client.mss == 940);
        learned.cookie = None;
        learned.dropped = true;
        metrics.learn(2, own, peer, &learned);
        let entry = metrics.get(own, peer).expect("an entry");
        assert_eq!((entry.cookie, entry.drops), (Some(cookie), (1, 2)));
    }

    /// packetdrill's `client/fallback-exp-opt.pkt`.
    #[test]
    fn the_experimental_option_is_tried_once() {
        let metrics = Metrics::new();
        let (own, peer) = (IpAddr::from([1; 4]), IpAddr::from([2; 4]));
        for experimental in [false, true, false, false] {
            let ask = metrics.client(own, peer, false).option.expect("a request");
            assert_eq!(ask.experimental, experimental);
            let learned = Learned {
                cookie: None,
                mss: 1460,
                dropped: false,
                ignored: Some(experimental),
            };
            metrics.learn(1, own, peer, &learned);
        }
    }
}
