// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packet counters of actions, filters and qdiscs, and their encoding in dumps.
//!
//! Counters are per CPU (allocated when the first packet is counted) or plain atomics, depending on
//! `TCA_ACT_FLAGS_NO_PERCPU_STATS`; readers sum them up. [`Counters`] are those of a qdisc,
//! allocated individually. [`Tally`] holds those of an action, of which there may be millions.
//! Mirrors `struct gnet_stats_basic_sync`, `struct gnet_stats_queue` and net/core/gen_stats.c.

use std::sync::{Arc, OnceLock};

use weir_netlink::tca::{self, act, stats};
use weir_netlink::{
    Fixed, GnetStatsBasic, GnetStatsQueue, GnetStatsRateEst, GnetStatsRateEst64, Laid, Piece,
    TcStats, Writer,
};
use weir_sync::percpu::{self, PerCpu};
use weir_sync::primitive::atomic::{AtomicU32, AtomicU64, Ordering::*};
use weir_sync::primitive::prefetch;

use crate::table::Table;

/// The sums of a [`Counters`].
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Totals {
    /// Bytes seen.
    pub bytes: u64,
    /// Packets seen.
    pub packets: u64,
    /// Packets dropped.
    pub drops: u32,
    /// Packets that could not be handled as requested.
    pub overlimits: u32,
}

/// One set of counters.
#[derive(Debug, Default)]
pub struct Cell {
    bytes: AtomicU64,
    packets: AtomicU64,
    drops: AtomicU32,
    overlimits: AtomicU32,
}

impl Cell {
    fn add_to(&self, totals: &mut Totals) {
        totals.bytes = totals.bytes.wrapping_add(self.bytes.load(Relaxed));
        totals.packets = totals.packets.wrapping_add(self.packets.load(Relaxed));
        totals.drops = totals.drops.wrapping_add(self.drops.load(Relaxed));
        totals.overlimits = totals
            .overlimits
            .wrapping_add(self.overlimits.load(Relaxed));
    }
}

/// The counters of one qdisc; see the module's documentation.
#[derive(Debug)]
pub enum Counters {
    /// One set for all CPUs.
    Plain(Cell),
    /// One set for each CPU that has counted.
    PerCpu(OnceLock<Box<PerCpu<Cell>>>),
}

impl Counters {
    /// Creates counters that are all zero.
    pub fn new(per_cpu: bool) -> Self {
        if per_cpu {
            Self::PerCpu(OnceLock::new())
        } else {
            Self::Plain(Cell::default())
        }
    }

    #[inline]
    fn cell(&self, cpu: usize) -> &Cell {
        match self {
            Self::Plain(cell) => cell,
            Self::PerCpu(cells) => cells.get_or_init(Box::default).get(cpu),
        }
    }

    /// Counts packets.
    #[inline]
    pub fn count(&self, cpu: usize, packets: u64, bytes: u64) {
        let cell = self.cell(cpu);
        if let Self::PerCpu(_) = self {
            // No other CPU writes this set.
            cell.bytes
                .store(cell.bytes.load(Relaxed).wrapping_add(bytes), Relaxed);
            cell.packets
                .store(cell.packets.load(Relaxed).wrapping_add(packets), Relaxed);
        } else {
            cell.bytes.fetch_add(bytes, Relaxed);
            cell.packets.fetch_add(packets, Relaxed);
        }
    }

    /// Counts a drop.
    #[inline]
    pub fn count_drop(&self, cpu: usize) {
        self.count_drops(cpu, 1);
    }

    /// Counts drops.
    #[inline]
    pub fn count_drops(&self, cpu: usize, count: u32) {
        let drops = &self.cell(cpu).drops;
        if let Self::PerCpu(_) = self {
            drops.store(drops.load(Relaxed).wrapping_add(count), Relaxed);
        } else {
            drops.fetch_add(count, Relaxed);
        }
    }

    /// Counts a packet that could not be handled as requested.
    #[inline]
    pub fn count_overlimit(&self, cpu: usize) {
        self.cell(cpu).overlimits.fetch_add(1, Relaxed);
    }

    /// Returns the sums.
    pub fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        match self {
            Self::Plain(cell) => cell.add_to(&mut totals),
            Self::PerCpu(cells) => {
                for (_, cell) in cells.get().iter().flat_map(|cells| cells.iter()) {
                    cell.add_to(&mut totals);
                }
            }
        }
        totals
    }
}

/// Sets of counters by slot and CPU: bytes, packets, drops, overlimits.
pub type Sets = percpu::Counters<4>;

/// The counters of an action: a slot in its table's counters, allocated on the first packet. An
/// action that was never hit costs one word; one that was hit costs four more words on each CPU
/// that counted.
pub struct Tally {
    table: Arc<Table>,
    /// The slot plus one; 0 if there is none.
    slot: AtomicU32,
    /// Each CPU has its own set; otherwise all CPUs write that of CPU 0.
    per_cpu: bool,
}

impl Tally {
    /// Creates counters that are all zero.
    pub(crate) fn new(per_cpu: bool, table: &Arc<Table>) -> Self {
        Self {
            table: table.clone(),
            slot: AtomicU32::new(0),
            per_cpu,
        }
    }

    /// Returns the table whose counters these are in.
    pub(crate) fn table(&self) -> &Arc<Table> {
        &self.table
    }

    fn take_slot(&self) -> u32 {
        let Some(fresh) = self.table.counters.allocate() else {
            // All slots (2^32) are in use, so this action does not count.
            return 0;
        };
        match self.slot.compare_exchange(0, fresh + 1, AcqRel, Acquire) {
            Ok(_) => fresh + 1,
            Err(winner) => {
                self.table.counters.free(fresh);
                winner
            }
        }
    }

    #[inline(always)]
    fn add(&self, cpu: usize, by: [u64; 4]) {
        match self.made(cpu).or_else(|| self.make(cpu)) {
            Some(set) if self.per_cpu => percpu::add_to(set, by),
            set => {
                for (counter, by) in set.into_iter().flatten().zip(by) {
                    if by != 0 {
                        counter.fetch_add(by, Relaxed);
                    }
                }
            }
        }
    }

    /// Returns the CPU whose counters `cpu` writes.
    #[inline(always)]
    fn writer(&self, cpu: usize) -> usize {
        if self.per_cpu { cpu } else { 0 }
    }

    /// Returns the counters that the CPU writes, if they are allocated.
    #[inline(always)]
    fn made(&self, cpu: usize) -> Option<&[AtomicU64; 4]> {
        let slot = self.slot.load(Acquire).checked_sub(1)?;
        self.table.counters.made(self.writer(cpu), slot)
    }

    /// Allocates the counters. Returns `None` if all slots (2^32) are in use.
    #[cold]
    fn make(&self, cpu: usize) -> Option<&[AtomicU64; 4]> {
        let slot = match self.slot.load(Acquire) {
            0 => self.take_slot(),
            slot => slot,
        };
        let slot = slot.checked_sub(1)?;
        Some(self.table.counters.set(self.writer(cpu), slot))
    }

    /// Prefetches the memory that counting a packet will write.
    #[inline]
    pub fn prefetch(&self, cpu: usize) {
        if let Some(set) = self.made(cpu) {
            prefetch(set);
        }
    }

    /// Counts a packet, which may be dropped and which stands for `packets` on the wire. Must run on the CPU's
    /// own thread.
    #[inline]
    pub fn count(&self, cpu: usize, packets: u64, bytes: u64, dropped: bool) {
        self.add(cpu, [bytes, packets, u64::from(dropped), 0]);
    }

    /// Counts packets with their bytes. Must run on the CPU's own thread.
    pub fn count_many(&self, cpu: usize, packets: u64, bytes: u64) {
        self.add(cpu, [bytes, packets, 0, 0]);
    }

    /// Counts packets that are dropped, with their bytes. Must run on the CPU's own thread.
    pub fn count_drops(&self, cpu: usize, packets: u64, bytes: u64) {
        self.add(cpu, [bytes, packets, packets, 0]);
    }

    /// Counts a drop.
    #[inline]
    pub fn count_drop(&self, cpu: usize) {
        self.add(cpu, [0, 0, 1, 0]);
    }

    /// Counts a packet that could not be handled as requested.
    #[inline]
    pub fn count_overlimit(&self, cpu: usize) {
        self.add(cpu, [0, 0, 0, 1]);
    }

    /// Returns the sums.
    pub fn totals(&self) -> Totals {
        let Some(slot) = self.slot.load(Acquire).checked_sub(1) else {
            return Totals::default();
        };
        let [bytes, packets, drops, overlimits] = self.table.counters.sum(slot);
        Totals {
            bytes,
            packets,
            drops: drops as u32,
            overlimits: overlimits as u32,
        }
    }
}

/// Frees the slot. Nobody counts any more: actions are freed a grace period after their last
/// reference is dropped.
impl Drop for Tally {
    fn drop(&mut self) {
        if let Some(slot) = self.slot.load(Acquire).checked_sub(1) {
            self.table.counters.free(slot);
        }
    }
}

/// Gauges and counts of a queue (`struct gnet_stats_queue`).
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Queue {
    /// Packets in the queue.
    pub qlen: u32,
    /// Bytes in the queue.
    pub backlog: u32,
    /// Packets dropped.
    pub drops: u32,
    /// Packets requeued because the device was full.
    pub requeues: u32,
    /// How often a packet had to wait because of a rate limit.
    pub overlimits: u32,
}

impl Queue {
    /// Returns the queue statistics of plain counters.
    pub fn of(totals: &Totals) -> Self {
        Self {
            drops: totals.drops,
            overlimits: totals.overlimits,
            ..Self::default()
        }
    }

    /// Encodes the statistics as in messages.
    #[inline]
    fn shown(&self) -> GnetStatsQueue {
        let Self {
            qlen,
            backlog,
            drops,
            requeues,
            overlimits,
        } = *self;
        GnetStatsQueue {
            qlen,
            backlog,
            drops,
            requeues,
            overlimits,
        }
    }
}

fn put_basic(w: &mut Writer, ty: u16, bytes: u64, packets: u64) {
    let low = packets as u32;
    w.put_fixed(
        ty,
        &GnetStatsBasic {
            bytes,
            packets: low,
            pad: 0,
        },
    );
    if u64::from(low) != packets {
        w.put_u64(stats::PKT64, packets);
    }
}

/// Encodes the estimated rate (`gnet_stats_copy_rate_est`).
fn put_rate(w: &mut Writer, bps: u64, pps: u64) {
    let low = GnetStatsRateEst {
        bps: bps.min(u32::MAX.into()) as u32,
        pps: pps as u32,
    };
    w.put_fixed(stats::RATE_EST, &low);
    if u64::from(low.bps) != bps {
        w.put_fixed_pad(
            stats::RATE_EST64,
            &GnetStatsRateEst64 { bps, pps },
            stats::PAD,
        );
    }
}

fn put_queue(w: &mut Writer, queue: &Queue) {
    w.put_fixed(stats::QUEUE, &queue.shown());
}

/// Size in bytes of the output of [`put_usual_stats`].
pub const USUAL_STATS_LEN: usize = 68;

/// The layout of the output of [`put_usual_stats`].
pub const USUAL_STATS: [Laid; 4] = [
    Laid::Nest(act::STATS, USUAL_STATS_LEN - 4),
    Laid::Value(stats::BASIC, GnetStatsBasic::LEN),
    Laid::Value(stats::BASIC_HW, GnetStatsBasic::LEN),
    Laid::Value(stats::QUEUE, GnetStatsQueue::LEN),
];

/// Stores counters in attributes that begin with [`USUAL_STATS`].
pub fn fill_usual_stats<const N: usize>(out: &mut [u8; N], totals: &Totals) {
    const BASIC: usize = 8;
    const QUEUE: usize = BASIC + 2 * (GnetStatsBasic::LEN + 4);
    const { assert!(N >= USUAL_STATS_LEN) };
    let basic = GnetStatsBasic {
        bytes: totals.bytes,
        packets: totals.packets as u32,
        pad: 0,
    };
    basic.write(&mut out[BASIC..BASIC + GnetStatsBasic::LEN]);
    let queue = Queue::of(totals).shown();
    queue.write(&mut out[QUEUE..QUEUE + GnetStatsQueue::LEN]);
}

/// Encodes the same as [`put_action_stats`] for an action without a rate and with less than 2^32
/// packets.
#[inline(always)]
pub fn put_usual_stats<const N: usize>(out: &mut Piece<'_, N>, totals: &Totals) {
    let basic = |bytes, packets| GnetStatsBasic {
        bytes,
        packets,
        pad: 0,
    };
    out.put_head(act::STATS, USUAL_STATS_LEN);
    out.put_fixed(stats::BASIC, &basic(totals.bytes, totals.packets as u32));
    out.put_fixed(stats::BASIC_HW, &basic(0, 0));
    out.put_fixed(stats::QUEUE, &Queue::of(totals).shown());
}

/// Encodes `TCA_ACT_STATS` of an action (`tcf_action_copy_stats`). The hardware counters are always
/// zero.
pub fn put_action_stats(w: &mut Writer, totals: &Totals, rate: Option<(u64, u64)>) {
    let nest = w.nest_noflag(act::STATS);
    put_basic(w, stats::BASIC, totals.bytes, totals.packets);
    put_basic(w, stats::BASIC_HW, 0, 0);
    if let Some((bps, pps)) = rate {
        put_rate(w, bps, pps);
    }
    put_queue(w, &Queue::of(totals));
    w.end(nest);
}

/// Encodes `TCA_STATS` of a policer in the old form (`tcf_action_copy_stats` in its compatible
/// mode).
pub fn put_compat_stats(w: &mut Writer, totals: &Totals, rate: Option<(u64, u64)>) {
    let (bps, pps) = rate.unwrap_or_default();
    w.put_fixed(
        tca::STATS,
        &TcStats {
            bytes: totals.bytes,
            packets: totals.packets as u32,
            drops: totals.drops,
            overlimits: totals.overlimits,
            bps: bps.min(u32::MAX.into()) as u32,
            pps: pps as u32,
            ..TcStats::default()
        },
    );
}

/// Encodes `TCA_STATS2` and `TCA_STATS` of a class whose kind counts nothing.
pub fn put_no_stats(w: &mut Writer) {
    let nest = w.nest_noflag(tca::STATS2);
    w.end(nest);
    w.put_fixed(tca::STATS, &TcStats::default());
}

/// Encodes `TCA_STATS2` and `TCA_STATS` of a qdisc or class (`gnet_stats_start_copy_compat` and
/// following): bytes and packets, if counted; the queue; and the kind's own statistics, if it has
/// any. Old clients are not shown statistics that are attributes. A qdisc's own statistics come
/// first, a class's last.
pub fn put_queue_stats(
    w: &mut Writer,
    of_class: bool,
    basic: Option<(u64, u64)>,
    rate: Option<(u64, u64)>,
    queue: &Queue,
    (app, nested): (Option<Vec<u8>>, bool),
) {
    let nest = w.nest_noflag(tca::STATS2);
    let put_app = |w: &mut Writer, now: bool| {
        if let Some(app) = app.as_ref().filter(|_| now) {
            w.put(stats::APP, app);
        }
    };
    put_app(w, !of_class);
    if let Some((bytes, packets)) = basic {
        put_basic(w, stats::BASIC, bytes, packets);
    }
    let (bytes, packets) = basic.unwrap_or_default();
    if let Some((bps, pps)) = rate {
        put_rate(w, bps, pps);
    }
    let (bps, pps) = rate.unwrap_or_default();
    put_queue(w, queue);
    put_app(w, of_class);
    w.end(nest);
    w.put_fixed(
        tca::STATS,
        &TcStats {
            bytes,
            packets: packets as u32,
            drops: queue.drops,
            overlimits: queue.overlimits,
            bps: bps.min(u32::MAX.into()) as u32,
            pps: pps as u32,
            qlen: queue.qlen,
            backlog: queue.backlog,
            ..TcStats::default()
        },
    );
    if let Some(app) = app.filter(|_| !nested) {
        w.put(tca::XSTATS, &app);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_statistics_equal_those_encoded_one_by_one() {
        let totals = Totals {
            bytes: 0x0102_0304_0506_0708,
            packets: 0x1112_1314,
            drops: 0x2122_2324,
            overlimits: 0x3132_3334,
        };
        let mut w = Writer::new();
        let nest = w.nest_noflag(act::STATS);
        put_basic(&mut w, stats::BASIC, totals.bytes, totals.packets);
        put_basic(&mut w, stats::BASIC_HW, 0, 0);
        put_queue(&mut w, &Queue::of(&totals));
        w.end(nest);
        put_action_stats(&mut w, &totals, None);
        w.put_piece::<USUAL_STATS_LEN>(|all| put_usual_stats(all, &totals));
        let (one_by_one, all_at_once) = w.bytes().split_at(68);
        assert_eq!(one_by_one, &all_at_once[..68]);
        assert_eq!(one_by_one, &all_at_once[68..]);
    }
}
