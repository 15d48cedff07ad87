// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Calls on up to 64 connections, with the memory of all of them fetched in parallel: first the buckets of the index,
//! then the entries that these name. The look-up of a known connection reads nothing else.

use std::sync::atomic::Ordering::*;

use weir_packet::Packet;
use weir_sync::primitive::prefetch;

use crate::clock;
use crate::connection::{Create, CreateError, Handle, Origin};
use crate::conntrack::Conntrack;
use crate::headers::{Headers, family_of};
use crate::index::{Glance, Index};
use crate::key::{IPV6, Key, Words};
use crate::store::{Entry, REPLY, Store, direction_of};
use crate::tuple::{Direction, TCP, Tuple};

/// A table with fewer connections lies in the cache.
const SMALL: u32 = 1024;

/// The buckets behind the home bucket that are prefetched if the key is not there. Few keys lie further on.
const BEYOND: usize = 2;

/// How many keys the buckets are prefetched ahead of their use, and then the entries. A processor has few buffers for
/// lines on their way (24 in Zen 4) and drops a prefetch that finds none free: of 64 prefetches in a row it drops one in
/// eight, and a look-up waits for memory. So the stages of different keys alternate.
const AHEAD: usize = 12;

/// What is known of a key that is looked up.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Sight<'a> {
    hash: u64,
    glance: Glance<'a>,
    /// The entry of the glance's number.
    entry: Option<&'a Entry>,
    words: Words,
}

impl<'a> Sight<'a> {
    /// Prefetches the home bucket.
    #[inline(always)]
    fn new(index: &'a Index, key: &Key<'_>) -> Self {
        let glance = index.glance(key.hash, 0);
        glance.prefetch();
        Self {
            hash: key.hash,
            glance,
            entry: None,
            words: key.words,
        }
    }

    /// Looks at a bucket that was prefetched, and prefetches the entries of the key's numbers there. Returns whether
    /// there are any.
    #[inline(always)]
    fn look(&mut self, store: &'a Store) -> bool {
        let fetch = |number: u32| {
            let entry = store.entry(number & !REPLY);
            if let Some(entry) = entry {
                prefetch(std::ptr::from_ref(entry));
            }
            entry
        };
        let entry = &mut self.entry;
        self.glance.look(
            self.hash,
            |number| *entry = fetch(number),
            |number| {
                fetch(number);
            },
        )
    }

    /// The same with the home bucket. If the key is not there and may lie further on, prefetches the next buckets.
    #[inline(always)]
    fn look_home(&mut self, index: &Index, store: &'a Store) {
        if !self.look(store) && self.glance.is_passed() {
            for beyond in 1..=BEYOND {
                index.glance(self.hash, beyond).prefetch();
            }
        }
    }

    /// Goes on behind the home bucket if the key is not there.
    #[inline(never)]
    fn look_beyond(&mut self, index: &'a Index, store: &'a Store) {
        for beyond in 1..=BEYOND {
            if self.entry.is_some() || !self.glance.is_passed() {
                break;
            }
            self.glance = index.glance(self.hash, beyond);
            self.look(store);
        }
    }

    /// Returns the connection in sight, if its key is the one looked for, nothing is peculiar about it, and it has not
    /// expired. `None` says nothing.
    #[inline(always)]
    fn known(&self, ticks: u32) -> Option<(Handle, Direction)> {
        let (glance, entry) = (&self.glance, self.entry?);
        let generation = entry.generation.load(Acquire);
        let known = entry.has_plain(glance.number, self.words)
            && self.words.meta & IPV6 == 0
            && !clock::is_over(entry.deadline.load(Relaxed), ticks)
            // The entry was this connection's all the time.
            && glance.holds();
        let index = glance.number & !REPLY;
        known.then_some((Handle { index, generation }, direction_of(glance.number)))
    }
}

impl Conntrack {
    /// Finds the connections of up to 64 keys, with the memory of all of them fetched in parallel.
    pub fn find_batch(
        &self,
        tuples: &[Tuple],
        zone: u16,
        now: u64,
        found: &mut [Option<(Handle, Direction)>],
    ) {
        let ticks = clock::ticks(now);
        let (index, store) = (self.index.newest(), &self.store);
        for (tuples, found) in tuples.chunks(64).zip(found.chunks_mut(64)) {
            let Some(first) = tuples.first() else { break };
            let mut sights = [Sight::new(index, &self.key(first, zone)); 64];
            let count = tuples.len().min(found.len());
            let (Some(sights), Some(tuples), Some(found)) = (
                sights.get_mut(..count),
                tuples.get(..count),
                found.get_mut(..count),
            ) else {
                break;
            };
            let mut late = 0u64;
            for at in 0..count + 2 * AHEAD {
                if let (Some(sight), Some(tuple)) = (sights.get_mut(at), tuples.get(at)) {
                    *sight = Sight::new(index, &self.key(tuple, zone));
                }
                if let Some(sight) = sights.get_mut(at.wrapping_sub(AHEAD)) {
                    sight.look_home(index, store);
                }
                let at = at.wrapping_sub(2 * AHEAD);
                if let (Some(sight), Some(to)) = (sights.get_mut(at), found.get_mut(at)) {
                    *to = sight.known(ticks);
                    if to.is_none() {
                        sight.look_beyond(index, store);
                        late |= 1 << at;
                    }
                }
            }
            while late != 0 {
                let at = late.trailing_zeros() as usize;
                late &= late - 1;
                if let (Some(sight), Some(to), Some(tuple)) =
                    (sights.get(at), found.get_mut(at), tuples.get(at))
                {
                    let known = sight.known(ticks);
                    *to = known.or_else(|| self.find(tuple, zone, now));
                }
            }
        }
    }

    /// Prefetches what the action `ct` needs for these packets of a zone: the buckets, then the entries and the windows
    /// of TCP.
    pub fn prefetch_batch(&self, packets: &[Packet], zone: u16) {
        if self.count() < SMALL {
            return;
        }
        let index = self.index.newest();
        for packets in packets.chunks(64) {
            let (mut hashes, mut count) = ([(0, false); 64], 0);
            for packet in packets {
                let tuple = family_of(packet).and_then(|family| {
                    let network = packet.network();
                    Headers::read(network, family).ok()?.tuple(network)
                });
                let (Some(tuple), Some(to)) = (tuple, hashes.get_mut(count)) else {
                    continue;
                };
                let hash = self.key(&tuple, zone).hash;
                index.glance(hash, 0).prefetch();
                *to = (hash, tuple.protocol == TCP);
                if let Some(&(hash, windows)) = hashes.get(count.wrapping_sub(AHEAD)) {
                    self.prefetch_entry(index, hash, windows);
                }
                count += 1;
            }
            let rest = hashes.get(count.saturating_sub(AHEAD)..count);
            for &(hash, windows) in rest.unwrap_or_default() {
                self.prefetch_entry(index, hash, windows);
            }
        }
    }

    /// Prefetches the entries, and the windows of TCP, that a bucket shows which was prefetched.
    #[inline(always)]
    fn prefetch_entry(&self, index: &Index, hash: u64, windows: bool) {
        let fetch = |number: u32| {
            if let Some(entry) = self.store.entry(number & !REPLY) {
                prefetch(std::ptr::from_ref(entry));
                if windows {
                    self.store.prefetch_windows(number & !REPLY);
                }
            }
        };
        let mut glance = index.glance(hash, 0);
        if !glance.look(hash, fetch, fetch) && glance.is_passed() {
            index.glance(hash, 1).prefetch();
        }
    }

    /// Makes connections as [`create`](Self::create) does, up to 64 with the memory of all of them fetched in
    /// parallel.
    pub fn create_batch(
        &self,
        new: &[Create],
        now: u64,
        origin: Origin,
        made: &mut [Result<Handle, CreateError>],
    ) {
        let index = self.index.newest();
        for (new, made) in new.chunks(64).zip(made.chunks_mut(64)) {
            for new in new {
                for (tuple, direction) in [
                    (&new.original, Direction::Original),
                    (&new.reply, Direction::Reply),
                ] {
                    let key = Key::of(&self.secret, tuple, new.zone, direction);
                    index.prefetch(key.hash);
                }
            }
            for (to, new) in made.iter_mut().zip(new) {
                *to = self.create(new, now, origin);
            }
        }
    }
}
