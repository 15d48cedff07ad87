// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Load balancing: a Maglev table that spreads flows over backends, and an LRU map that keeps them
//! there.
//!
//! [`Maglev`] is the table of Eisenbud et al., "Maglev: A Fast and Reliable Software Network Load
//! Balancer" (NSDI 2016), section 3.4. Each backend has a permutation of the table's places that
//! depends on its number alone. The backends take places in turn, each the first free one of its
//! permutation, so all get nearly the same share. A backend that leaves or comes changes few places of
//! the others. Here a backend with a higher weight takes more turns.
//!
//! [`Balancer`] looks a flow up in its memory first, so that flows stay where they are while the set
//! of backends changes. Only a flow of a backend that left is moved. The memory is an LRU map: a flood
//! of new flows evicts flows that are not in use, and a forgotten flow still finds its backend by the
//! table unless that place has changed. The memory also notes what the table alone said, so
//! [`Balancer::moves`] can tell how many flows it kept where the table would have moved them.

use weir_sync::percpu::PerCpu;
use weir_sync::primitive::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use weir_sync::rcu::{Domain, Guard, Published};

use crate::shape::{Plain, bytes_of, hash};
use crate::{BATCH, Error, LruHashMap, LruOptions, LruStats, Update};

/// A backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backend {
    /// The number by which the caller knows it. Its places in the table depend on it.
    pub id: u16,
    /// Its share of new flows, relative to those of others. A backend of weight 0 keeps its flows and
    /// gets no new ones.
    pub weight: u16,
}

/// The words of 64 bits with a bit for each number of a backend.
const WORDS: usize = 1 << 10;
/// A place that no backend has.
const NONE: u16 = u16::MAX;

/// A table that spreads hashes over backends.
#[derive(Clone, Debug)]
pub struct Maglev {
    /// For each place the number of a backend.
    places: Box<[u16]>,
}

/// Returns a number that depends on a backend's.
fn mix(id: u16, salt: u64) -> u64 {
    let mut z = (u64::from(id) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ salt;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn is_prime(number: u32) -> bool {
    number > 1
        && (2..)
            .take_while(|part| part * part <= number)
            .all(|part| !number.is_multiple_of(part))
}

impl Maglev {
    /// The usual number of places. A hundred times the number of backends keeps their shares within 1%.
    pub const PLACES: u32 = 65_537;
    /// The largest number of places that is accepted.
    pub const MOST: u32 = 1 << 24;

    /// Fills a table with `places` places, a prime number.
    ///
    /// # Errors
    /// [`Error::Inval`] if the number of places is not prime, or two backends have the same number, or
    /// one has number 65,535; [`Error::TooBig`] if there are more than [`Maglev::MOST`] places.
    pub fn new(places: u32, backends: &[Backend]) -> Result<Self, Error> {
        if places > Self::MOST {
            return Err(Error::TooBig);
        }
        if !is_prime(places) {
            return Err(Error::Inval);
        }
        // The order of the backends does not matter.
        let mut sorted = backends.to_vec();
        sorted.sort_unstable_by_key(|backend| backend.id);
        let twice = sorted.windows(2).any(|pair| pair[0].id == pair[1].id);
        if twice || sorted.iter().any(|backend| backend.id == NONE) {
            return Err(Error::Inval);
        }
        let size = u64::from(places);
        let mut table = vec![NONE; places as usize].into_boxed_slice();
        let most = sorted.iter().map(|backend| backend.weight).max();
        let Some(most) = most.filter(|&most| most > 0) else {
            return Ok(Self { places: table });
        };
        // For each backend its place at the next turn, and the step to the one after it.
        let mut turns: Vec<_> = sorted
            .iter()
            .filter(|backend| backend.weight > 0)
            .map(|backend| {
                let offset = mix(backend.id, 0) % size;
                let skip = if size > 2 {
                    mix(backend.id, 0x6d61_676c_6576) % (size - 1) + 1
                } else {
                    1
                };
                (*backend, offset, skip)
            })
            .collect();
        let (mut left, most) = (places, u64::from(most));
        for round in 0u64.. {
            for (backend, next, skip) in &mut turns {
                let weight = u64::from(backend.weight);
                // A backend of half the weight sits out every other round.
                if (round + 1) * weight / most == round * weight / most {
                    continue;
                }
                while table[*next as usize] != NONE {
                    *next = (*next + *skip) % size;
                }
                table[*next as usize] = backend.id;
                left -= 1;
                if left == 0 {
                    return Ok(Self { places: table });
                }
            }
        }
        Ok(Self { places: table })
    }

    /// Returns the backend of a hash; `None` if no backend has a weight.
    #[inline]
    pub fn pick(&self, hash: u64) -> Option<u16> {
        let place = (u128::from(hash) * self.places.len() as u128) >> 64;
        Some(self.places[place as usize]).filter(|&id| id != NONE)
    }

    /// The number of the backend of each place; 65,535 if there is none.
    pub fn places(&self) -> &[u16] {
        &self.places
    }
}

/// How a flow found its backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// The memory knew it.
    Known,
    /// The flow is new, or was forgotten.
    New,
    /// The memory named a backend that has left, so the flow has another now.
    Moved,
}

/// The backends at a time.
#[derive(Debug)]
struct Set {
    /// The number of the set.
    period: u32,
    table: Maglev,
    /// A bit for each number of a backend.
    present: Box<[u64]>,
}

impl Set {
    fn new(period: u32, places: u32, backends: &[Backend]) -> Result<Self, Error> {
        let mut present = vec![0; WORDS].into_boxed_slice();
        for backend in backends {
            present[usize::from(backend.id / 64)] |= 1 << (backend.id % 64);
        }
        Ok(Self {
            period,
            table: Maglev::new(places, backends)?,
            present,
        })
    }

    #[inline(always)]
    fn has(&self, id: u16) -> bool {
        self.present[usize::from(id / 64)] & 1 << (id % 64) != 0
    }
}

/// What the changes of a balancer's backends did to flows. A flow counts when its first packet after a
/// change, or after several, comes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moves {
    /// Flows that were new, or had been forgotten.
    pub new: u64,
    /// Known flows that stayed with their backend.
    pub kept: u64,
    /// Known flows whose backend had left.
    pub moved: u64,
    /// Known flows that the table alone would have moved.
    pub table_moved: u64,
}

/// The counters of a CPU.
#[derive(Debug, Default)]
struct Counts {
    new: AtomicU64,
    kept: AtomicU64,
    moved: AtomicU64,
    table_moved: AtomicU64,
}

/// What the memory holds of a flow.
#[derive(Clone, Copy)]
struct Known {
    /// Its backend.
    id: u16,
    /// The backend that the table alone said.
    by_table: u16,
    /// The lower bits of the period of the last packet that changed the entry.
    period: u32,
}

impl Known {
    fn unpack(word: u64) -> Self {
        Self {
            id: word as u16,
            by_table: (word >> 16) as u16,
            period: (word >> 32) as u32,
        }
    }

    fn pack(self) -> u64 {
        u64::from(self.id) | u64::from(self.by_table) << 16 | u64::from(self.period) << 32
    }
}

/// The memory of a [`Balancer`].
#[derive(Debug)]
pub struct Memory<K: Plain>(LruHashMap<K, u64>);

impl<K: Plain> Memory<K> {
    /// Creates a memory of up to `flows` flows.
    ///
    /// # Errors
    /// Those of [`LruHashMap::new`].
    pub fn new(flows: u32, options: LruOptions) -> Result<Self, Error> {
        LruHashMap::new(flows, options).map(Self)
    }
}

/// A load balancer. `K` is what identifies a flow, such as its addresses and ports.
///
/// ```
/// use weir_map::balance::{Backend, Balancer, Found, Maglev};
/// let domain = weir_sync::rcu::Domain::default();
/// let balancer = Balancer::<[u8; 13]>::new(&domain, Maglev::PLACES, 100_000, Default::default())?;
/// let backend = |id| Backend { id, weight: 1 };
/// balancer.set_backends(&[backend(1), backend(2), backend(3)])?;
/// let (flow, guard) = ([7; 13], domain.pin());
/// let (id, found) = balancer.pick(&flow, &guard).expect("there are backends");
/// assert_eq!(found, Found::New);
/// assert_eq!(balancer.pick(&flow, &guard), Some((id, Found::Known)));
/// # Ok::<(), weir_map::Error>(())
/// ```
#[derive(Debug)]
pub struct Balancer<K: Plain> {
    set: Published<Set>,
    flows: LruHashMap<K, u64>,
    places: u32,
    periods: AtomicU32,
    counts: PerCpu<Counts>,
}

impl<K: Plain> Balancer<K> {
    /// Creates a balancer without backends that remembers up to `flows` flows. Readers pin `domain`.
    ///
    /// # Errors
    /// Those of [`Maglev::new`] and [`LruHashMap::new`].
    pub fn new(
        domain: &Domain,
        places: u32,
        flows: u32,
        options: LruOptions,
    ) -> Result<Self, Error> {
        let first = Set::new(0, places, &[])?;
        let memory = Memory::new(flows, options)?;
        Ok(Self::of(domain, places, first, memory))
    }

    /// Creates a balancer without backends with a memory, and a table of the usual number of places.
    pub fn with_memory(domain: &Domain, memory: Memory<K>) -> Self {
        let table = Maglev {
            places: vec![NONE; Maglev::PLACES as usize].into(),
        };
        let first = Set {
            period: 0,
            table,
            present: vec![0; WORDS].into(),
        };
        Self::of(domain, Maglev::PLACES, first, memory)
    }

    fn of(domain: &Domain, places: u32, first: Set, memory: Memory<K>) -> Self {
        Self {
            set: Published::new(domain, first),
            flows: memory.0,
            places,
            periods: AtomicU32::new(0),
            counts: PerCpu::new(),
        }
    }

    /// Replaces the backends. Flows of backends that stay are not moved.
    ///
    /// # Errors
    /// Those of [`Maglev::new`]; the old backends stay then.
    pub fn set_backends(&self, backends: &[Backend]) -> Result<(), Error> {
        // Sets of two threads that change the backends at once have different numbers.
        let period = self.periods.fetch_add(1, Relaxed).wrapping_add(1);
        self.set.replace(Set::new(period, self.places, backends)?);
        Ok(())
    }

    /// Returns the hash of a flow that the table is asked with.
    #[inline]
    pub fn hash(flow: &K) -> u64 {
        hash(bytes_of(flow))
    }

    /// Returns a flow's backend and remembers it; `None` if no backend has a weight.
    #[inline]
    pub fn pick(&self, flow: &K, guard: &Guard) -> Option<(u16, Found)> {
        let set = self.set.load(guard);
        let known = self.flows.get(flow);
        self.choose(set, flow, known)
    }

    /// Does the same for up to [`BATCH`] flows, with prefetches. `out` has the length of `flows`.
    pub fn pick_batch(&self, flows: &[K], out: &mut [Option<(u16, Found)>], guard: &Guard) {
        let set = self.set.load(guard);
        for (flows, out) in flows.chunks(BATCH).zip(out.chunks_mut(BATCH)) {
            let mut known = [None; BATCH];
            self.flows.get_batch(flows, |at, id| known[at] = Some(id));
            for ((flow, out), known) in flows.iter().zip(out).zip(known) {
                // A flow may occur twice in a batch. The first packet has made it known then.
                let known = known.or_else(|| self.flows.peek(flow));
                *out = self.choose(set, flow, known);
            }
        }
    }

    #[inline(always)]
    fn choose(&self, set: &Set, flow: &K, known: Option<u64>) -> Option<(u16, Found)> {
        let known = known.map(Known::unpack);
        if let Some(known) = known
            && known.period == set.period
        {
            return Some((known.id, Found::Known));
        }
        self.choose_anew(set, flow, known)
    }

    /// The same for a flow that is not known, or has not sent since the backends changed.
    #[inline(never)]
    fn choose_anew(&self, set: &Set, flow: &K, known: Option<Known>) -> Option<(u16, Found)> {
        let by_table = set.table.pick(Self::hash(flow));
        let stays = known.map(|known| known.id).filter(|&id| set.has(id));
        let id = stays.or(by_table)?;
        let entry = Known {
            id,
            by_table: by_table.unwrap_or(NONE),
            period: set.period,
        };
        // If the memory has no room, the table alone decides.
        let _ = self.flows.update(*flow, entry.pack(), Update::Any);
        let counts = self.counts.local();
        let Some(known) = known else {
            counts.new.fetch_add(1, Relaxed);
            return Some((id, Found::New));
        };
        if known.by_table != entry.by_table {
            counts.table_moved.fetch_add(1, Relaxed);
        }
        let (count, found) = match stays {
            Some(_) => (&counts.kept, Found::Known),
            None => (&counts.moved, Found::Moved),
        };
        count.fetch_add(1, Relaxed);
        Some((id, found))
    }

    /// Prefetches what the memory may know of a flow.
    #[inline]
    pub fn prefetch(&self, flow: &K) {
        self.flows.prefetch(flow);
    }

    /// Returns what the changes of the backends did to flows.
    pub fn moves(&self) -> Moves {
        let mut moves = Moves::default();
        for (_, counts) in self.counts.iter() {
            moves.new += counts.new.load(Relaxed);
            moves.kept += counts.kept.load(Relaxed);
            moves.moved += counts.moved.load(Relaxed);
            moves.table_moved += counts.table_moved.load(Relaxed);
        }
        moves
    }

    /// The number of flows that are remembered at most.
    pub fn capacity(&self) -> u32 {
        self.flows.capacity()
    }

    /// Forgets a flow, for example at its end. Returns whether it was known.
    pub fn forget(&self, flow: &K) -> bool {
        self.flows.delete(flow).is_ok()
    }

    /// The counters of the memory.
    pub fn stats(&self) -> LruStats {
        self.flows.stats()
    }
}

#[cfg(all(test, not(loom)))]
#[allow(clippy::unwrap_used, reason = "a test may stop there")]
mod tests {
    use super::*;

    fn backends(ids: impl Iterator<Item = u16>) -> Vec<Backend> {
        ids.map(|id| Backend { id, weight: 1 }).collect()
    }

    fn shares(table: &Maglev) -> std::collections::BTreeMap<u16, usize> {
        let mut shares = std::collections::BTreeMap::new();
        for &id in table.places() {
            *shares.entry(id).or_default() += 1;
        }
        shares
    }

    #[test]
    fn shares_are_even_or_by_weight() {
        // Taking turns, the shares of equal backends differ by one place.
        let table = Maglev::new(65_537, &backends(0..100)).unwrap();
        let shares_of = shares(&table);
        assert_eq!(shares_of.len(), 100);
        assert!(
            shares_of
                .values()
                .all(|&share| share == 655 || share == 656)
        );
        let mut weighted = backends(0..4);
        weighted[0].weight = 3;
        weighted[1].weight = 2;
        weighted[2].weight = 0;
        let shares_of = shares(&Maglev::new(65_537, &weighted).unwrap());
        let expected = [(0, 3), (1, 2), (3, 1)];
        assert_eq!(shares_of.len(), 3);
        for (id, parts) in expected {
            assert!(
                shares_of[&id].abs_diff(65_537 * parts / 6) <= 6,
                "{shares_of:?}"
            );
        }
    }

    /// The paper's figure 12: with 65,537 places few of the other backends' places change.
    #[test]
    fn a_backend_that_leaves_moves_few_of_the_others() {
        let all = backends(0..100);
        let before = Maglev::new(65_537, &all).unwrap();
        let without: Vec<_> = all.iter().copied().filter(|b| b.id != 37).collect();
        let after = Maglev::new(65_537, &without).unwrap();
        let pairs = before.places().iter().zip(after.places());
        let moved = pairs.filter(|(was, is)| **was != 37 && was != is).count();
        assert!(moved * 100 < 65_537 * 3, "{moved}");
        assert!(!after.places().contains(&37));
        // The backend comes back to its old places, in whatever order it is given.
        let mut again = without;
        again.push(Backend { id: 37, weight: 1 });
        let again = Maglev::new(65_537, &again).unwrap();
        assert_eq!(again.places(), before.places());
    }

    #[test]
    fn bad_tables_are_refused() {
        let (one, many) = (backends(0..1), backends(0..2));
        for places in [0, 1, 4, 65_536] {
            assert_eq!(Maglev::new(places, &one).err(), Some(Error::Inval));
        }
        assert_eq!(Maglev::new(u32::MAX, &one).err(), Some(Error::TooBig));
        let twice = [one[0], one[0]];
        assert_eq!(Maglev::new(7, &twice).err(), Some(Error::Inval));
        assert_eq!(
            Maglev::new(7, &backends(NONE..=NONE)).err(),
            Some(Error::Inval)
        );
        assert_eq!(Maglev::new(7, &[]).unwrap().pick(u64::MAX), None);
        assert!(Maglev::new(2, &many).unwrap().pick(u64::MAX).is_some());
        // More backends than places: some get none.
        assert_eq!(shares(&Maglev::new(7, &backends(0..100)).unwrap()).len(), 7);
    }

    #[test]
    fn flows_stay_with_backends_that_stay() {
        let domain = Domain::default();
        let balancer = Balancer::<u64>::new(&domain, 251, 10_000, LruOptions::default()).unwrap();
        let guard = domain.pin();
        assert_eq!(balancer.pick(&1, &guard), None);
        drop(guard);
        let flows: Vec<u64> = (0..1000).collect();
        let pick = || {
            let (mut out, guard) = (vec![None; flows.len()], domain.pin());
            balancer.pick_batch(&flows, &mut out, &guard);
            out.into_iter().map(Option::unwrap).collect::<Vec<_>>()
        };
        balancer.set_backends(&backends(0..10)).unwrap();
        let first = pick();
        assert!(first.iter().all(|pick| pick.1 == Found::New));
        assert!(pick().iter().all(|pick| pick.1 == Found::Known));
        // Backend 3 leaves, and two others come.
        let next = backends((0..12).filter(|&id| id != 3));
        balancer.set_backends(&next).unwrap();
        let second = pick();
        for (before, after) in first.iter().zip(&second) {
            if before.0 == 3 {
                assert!(after.0 != 3 && after.1 == Found::Moved);
            } else {
                assert_eq!(*after, (before.0, Found::Known));
            }
        }
        let left = first.iter().filter(|pick| pick.0 == 3).count() as u64;
        let moves = balancer.moves();
        assert_eq!(
            (moves.new, moves.kept, moves.moved),
            (1000, 1000 - left, left)
        );
        // The table alone moves the flows of the backend that left, and those that the two new ones get.
        assert!((left..500).contains(&moves.table_moved), "{moves:?}");
        // A backend of weight 0 keeps its flows; a forgotten flow does not come to it.
        let mut drained = next.clone();
        drained.iter_mut().find(|b| b.id == 5).unwrap().weight = 0;
        balancer.set_backends(&drained).unwrap();
        assert!(pick().iter().all(|pick| pick.1 == Found::Known));
        let at = second.iter().position(|pick| pick.0 == 5).unwrap();
        assert!(balancer.forget(&flows[at]) && !balancer.forget(&flows[at]));
        let guard = domain.pin();
        let (id, found) = balancer.pick(&flows[at], &guard).unwrap();
        assert!(id != 5 && found == Found::New);
        // An unusable set changes nothing.
        let twice = [next[0], next[0]];
        assert_eq!(balancer.set_backends(&twice), Err(Error::Inval));
        assert_eq!(balancer.pick(&flows[at], &guard), Some((id, Found::Known)));
    }

    #[test]
    fn a_batch_that_has_a_flow_twice_picks_once() {
        let domain = Domain::default();
        let balancer = Balancer::<u64>::new(&domain, 251, 100, LruOptions::default()).unwrap();
        balancer.set_backends(&backends(0..10)).unwrap();
        let mut out = [None; 2];
        balancer.pick_batch(&[9, 9], &mut out, &domain.pin());
        let [Some(first), Some(second)] = out else {
            panic!("no backend");
        };
        assert_eq!((first.1, second), (Found::New, (first.0, Found::Known)));
    }
}
