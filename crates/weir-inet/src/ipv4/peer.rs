// SPDX-License-Identifier: Apache-2.0 OR MIT
//! State kept per remote host (`struct inet_peer`): a token bucket for ICMP errors, shared by all
//! its users, and a count of received fragments.
//!
//! As in Linux, an unreachable destination costs its sender two tokens of one second each: one for
//! the route's error (burst 5) and one for the ICMP rate limit (burst 6). At most [`MOST`] hosts
//! are kept; the least recently used one is evicted.

use std::collections::BTreeMap;
use std::net::IpAddr;
use weir_sync::order::{self, Mutex, MutexGuard};

use crate::clock::{MILLISECOND, SECOND};

/// The maximum number of hosts.
pub const MOST: usize = 4096;
/// The cost of one unreachable destination in ns (`ip_rt_error_cost`).
const ERROR_COST: u64 = SECOND;
/// The bucket size for unreachable destinations in ns (`ip_rt_error_burst`).
const ERROR_BURST: u64 = 5 * SECOND;
/// The burst size of rate-limited messages (`XRLIM_BURST_FACTOR`).
const BURST_FACTOR: u64 = 6;
/// The number of redirects after which a host counts as ignoring them (`ip_rt_redirect_number`).
const REDIRECTS: u32 = 9;
/// The time between the first two redirects in ns is twice this (`ip_rt_redirect_load`).
const REDIRECT_LOAD: u64 = 20 * MILLISECOND;
/// The time of silence in ns after which redirects are sent again (`ip_rt_redirect_silence`).
const SILENCE: u64 = REDIRECT_LOAD << 10;

#[derive(Debug)]
struct Peer {
    /// The tokens in the bucket, in nanoseconds.
    tokens: u64,
    /// The time of the last refill.
    last: u64,
    /// The number of fragments received from the host.
    fragments: u32,
    /// The number of redirects sent, and the time of the last one, or of the last one that was not
    /// sent (`n_redirects`, `rate_last`).
    redirects: (u32, u64),
}

/// The remote hosts of a namespace, of both families.
#[derive(Debug, Default)]
pub struct Peers(Mutex<BTreeMap<IpAddr, Peer>, order::Peers>);

impl Peers {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<IpAddr, Peer>, order::Peers> {
        self.0.lock()
    }

    fn with<R>(&self, address: IpAddr, now: u64, work: impl FnOnce(&mut Peer) -> R) -> R {
        let mut peers = self.lock();
        if peers.len() >= MOST && !peers.contains_key(&address) {
            let oldest = peers.iter().min_by_key(|(_, peer)| peer.last);
            if let Some(oldest) = oldest.map(|(address, _)| *address) {
                peers.remove(&oldest);
            }
        }
        work(peers.entry(address).or_insert(Peer {
            // Enough for the first burst.
            tokens: 60 * SECOND,
            last: now,
            fragments: 0,
            redirects: (0, 0),
        }))
    }

    fn take(&self, address: IpAddr, now: u64, cost: u64, burst: u64) -> bool {
        self.with(address, now, |peer| {
            let passed = now.saturating_sub(peer.last);
            peer.tokens = peer.tokens.saturating_add(passed).min(burst);
            peer.last = now;
            if peer.tokens < cost {
                return false;
            }
            peer.tokens -= cost;
            true
        })
    }

    /// Returns whether an unreachable destination may be reported to its sender (`ip_error`).
    pub fn may_report(&self, address: IpAddr, now: u64) -> bool {
        self.take(address, now, ERROR_COST, ERROR_BURST)
    }

    /// Returns whether an ICMP message may be sent to a host, at a rate of one per `limit`
    /// milliseconds (`inet_peer_xrlim_allow`).
    pub fn may_send(&self, address: IpAddr, limit: u64, now: u64) -> bool {
        let cost = limit * MILLISECOND;
        limit == 0 || self.take(address, now, cost, BURST_FACTOR * cost)
    }

    /// Returns whether a redirect may be sent to a host (`ip_rt_send_redirect`).
    pub fn may_redirect(&self, address: IpAddr, now: u64) -> bool {
        self.with(address, now, |peer| {
            let (sent, last) = &mut peer.redirects;
            if now > *last + SILENCE {
                *sent = 0;
            }
            if *sent >= REDIRECTS {
                *last = now;
                return false;
            }
            let may = *sent == 0 || now > *last + (REDIRECT_LOAD << *sent);
            if may {
                *last = now;
                *sent += 1;
            }
            may
        })
    }

    /// Counts a fragment received from a host. Returns the total so far.
    pub fn count_fragment(&self, address: IpAddr, now: u64) -> u32 {
        self.with(address, now, |peer| {
            peer.fragments = peer.fragments.wrapping_add(1);
            peer.fragments
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_grow_rare_and_end_until_there_is_silence() {
        let peers = Peers::default();
        let host = IpAddr::from([10, 0, 0, 1]);
        let second = |second| {
            (0..100)
                .filter(|tick| peers.may_redirect(host, second * SECOND + tick * 10 * MILLISECOND))
                .count()
        };
        // After 20, 40, 80, 160, 320, 640 ms.
        let first: usize = second(1);
        assert_eq!(first, 5);
        let rest: usize = (2..20).map(second).sum();
        assert_eq!(first + rest, REDIRECTS as usize);
        // The sender is not silent, so there is none.
        assert_eq!((20..60).map(second).sum::<usize>(), 0);
        assert_eq!(second(90), 5);
    }

    #[test]
    fn a_burst_then_one_a_second_and_both_uses_share() {
        let peers = Peers::default();
        let host = IpAddr::from([10, 0, 0, 1]);
        let sent = |now| (0..10).filter(|_| peers.may_send(host, 1000, now)).count();
        assert_eq!(sent(0), 6);
        assert_eq!(sent(SECOND), 1);
        assert_eq!(sent(SECOND + 1), 0);
        let other = IpAddr::from([10, 0, 0, 2]);
        let told = (0..10)
            .filter(|_| peers.may_report(other, 0) && peers.may_send(other, 1000, 0))
            .count();
        assert_eq!(told, 2);
        assert!(peers.may_send(other, 0, 0));
    }
}
