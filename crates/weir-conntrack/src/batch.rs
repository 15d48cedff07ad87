// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Calls on up to 64 connections, with the memory of all of them fetched in parallel: first the buckets of the index,
//! then the entries that these name.

use weir_packet::Packet;
use weir_sync::primitive::prefetch;

use crate::clock;
use crate::connection::{Create, CreateError, Handle, Origin};
use crate::conntrack::{Conntrack, REPLY};
use crate::headers::{Headers, family_of};
use crate::index::{Glance, Index};
use crate::key::Key;
use crate::tuple::{Direction, Tuple};

/// A table with fewer connections lies in the cache.
const SMALL: u32 = 1024;

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
        let index = self.index.newest();
        for (tuples, found) in tuples.chunks(64).zip(found.chunks_mut(64)) {
            let Some(first) = tuples.first() else { break };
            let mut keys = [self.key(first, zone); 64];
            for (key, tuple) in keys.iter_mut().zip(tuples) {
                *key = self.key(tuple, zone);
                index.prefetch(key.hash);
            }
            let mut glances = [index.glance(keys[0].hash); 64];
            let hashes = keys.iter().take(tuples.len()).map(|key| key.hash);
            self.prefetch_entries(index, hashes, &mut glances);
            for ((to, key), glance) in found.iter_mut().zip(&keys).zip(&glances).take(tuples.len())
            {
                let seen = glance.number.and_then(|number| self.compare(number, key));
                *to = match seen.filter(|_| glance.holds()) {
                    Some((slot, handle, direction)) if !self.is_over(&slot, handle, ticks) => {
                        Some((handle, direction))
                    }
                    _ => self.look_up_at(key, ticks, now),
                };
            }
        }
    }

    /// Prefetches the entries of up to 64 hashes whose home buckets were prefetched, and writes what those showed.
    #[inline(always)]
    fn prefetch_entries<'a>(
        &self,
        index: &'a Index,
        hashes: impl Iterator<Item = u64>,
        glances: &mut [Glance<'a>; 64],
    ) {
        let (mut passed, mut count) = ([0; 64], 0);
        for (glance, hash) in glances.iter_mut().zip(hashes) {
            *glance = index.glance(hash);
            self.prefetch_entry(glance.number);
            if glance.number.is_none() && index.prefetch_beyond(hash) {
                passed[count % 64] = hash;
                count += 1;
            }
        }
        for hash in passed.iter().take(count) {
            self.prefetch_entry(index.guess_beyond(*hash));
        }
    }

    /// Prefetches an entry by its number in the index.
    #[inline(always)]
    fn prefetch_entry(&self, number: Option<u32>) {
        if let Some(slot) = number.and_then(|number| self.entry(number & !REPLY)) {
            prefetch(std::ptr::from_ref(slot.entry));
        }
    }

    /// Prefetches what the action `ct` needs for these packets of a zone: the buckets, then the entries. Those of a new
    /// connection are the buckets of both directions.
    pub fn prefetch_batch(&self, packets: &[Packet], zone: u16) {
        if self.count() < SMALL {
            return;
        }
        let index = self.index.newest();
        for packets in packets.chunks(64) {
            let mut hashes = [0; 64];
            for (hash, packet) in hashes.iter_mut().zip(packets) {
                let tuple = family_of(packet).and_then(|family| {
                    let network = packet.network();
                    Headers::read(network, family).ok()?.tuple(network)
                });
                if let Some(tuple) = tuple {
                    *hash = self.key(&tuple, zone).hash;
                    index.prefetch(*hash);
                }
            }
            let mut glances = [index.glance(0); 64];
            self.prefetch_entries(
                index,
                hashes.iter().take(packets.len()).copied(),
                &mut glances,
            );
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
                    let key = Key::of(self.secret, tuple, new.zone, direction);
                    index.prefetch(key.hash);
                }
            }
            for (to, new) in made.iter_mut().zip(new) {
                *to = self.create(new, now, origin);
            }
        }
    }
}
