// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `netem`: emulates a network that delays, loses, duplicates, corrupts and reorders packets.
//!
//! Mirrors net/sched/sch_netem.c. Parameters:
//!
//! - `limit`: packets, tc's default 1000.
//! - `delay`: latency and jitter (ns), correlation and a distribution table.
//! - `loss random` with correlation, `loss state` (four states), `loss gemodel` (Gilbert-Elliott);
//!   `ecn` marks packets instead of losing them.
//! - `duplicate`, `corrupt`, and `reorder` with correlation and `gap`.
//! - `rate`: bytes per second, with overhead, cell size and cell overhead.
//! - `slot`: packets leave in rounds.
//!
//! Probabilities are in units of 2^-32. Every random number comes from the device's seeded
//! generator. A packet leaves at the exact nanosecond of its departure time. A duplicate enters at
//! the root of the tree again and is not duplicated a second time; its random numbers are drawn
//! after those of the original. Lost packets and those over the limit have the reason QDISC_DROP. A
//! tree with a duplicating netem may have no other netem. A long packet (GSO) to be corrupted is split first: one bit
//! of its first segment changes, and the others enter on their own.
//!
//! It has one class, `:1`, which has no qdisc at first. Packets whose time has come go through the
//! qdisc grafted there.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use weir_netlink::errno::EINVAL;
use weir_netlink::tca::{self, netem as attr};
use weir_netlink::{
    Attr, Error, Fixed, Policy, Rule, Strictness, TcNetemCorr, TcNetemQopt, TcNetemRate,
    TcNetemReorder, TcNetemSlot, Writer, policy,
};
use weir_packet::{DropReason, Flags, Packet};

use super::ecn;
use super::{Create, Drops, Enqueued, Gone, Leaf, Load, Ops, Qdisc, QueueCx, pkt_len};
use crate::rate::{ns_to_ticks, ticks_to_ns};

/// The entry of this kind in the table of kinds.
pub const OPS: Ops = Ops {
    can_change: true,
    classful: true,
    ..Ops::new("netem", create)
};

static POLICY: Policy = policy! { max attr::MAX;
    attr::CORR => Rule::unspec(TcNetemCorr::LEN as u16),
    attr::REORDER => Rule::unspec(TcNetemReorder::LEN as u16),
    attr::CORRUPT => Rule::unspec(TcNetemReorder::LEN as u16),
    attr::RATE => Rule::unspec(TcNetemRate::LEN as u16),
    attr::LOSS => Rule::nested_any(),
    attr::ECN => Rule::u32(),
    attr::RATE64 => Rule::u64(),
    attr::LATENCY64 => Rule::s64(),
    attr::JITTER64 => Rule::s64(),
    attr::SLOT => Rule::unspec(TcNetemSlot::LEN as u16),
};

/// Loss model with four states (`NETEM_LOSS_GI`).
const LOSS_STATE: u16 = 1;
/// Gilbert-Elliott loss model (`NETEM_LOSS_GE`).
const LOSS_GEMODEL: u16 = 2;
/// Scale of distribution tables (`NETEM_DIST_SCALE`).
const SCALE: i64 = 8192;
/// Largest length of a distribution table (`NETEM_DIST_MAX`).
const TABLE_MAX: usize = 16384;

/// A source of correlated random numbers (`struct crndstate`).
#[derive(Debug, Clone, Copy, Default)]
struct Correlated {
    rho: u32,
    /// The last number. Before the first draw there is none and a uniform number is used.
    last: Option<u32>,
}

impl Correlated {
    fn new(rho: u32) -> Self {
        Self { rho, last: None }
    }

    /// Draws a number (`get_crandom`).
    fn draw(&mut self, q: &mut QueueCx<'_, '_, '_>) -> u32 {
        if self.rho == 0 {
            return q.random();
        }
        let last = self.last.unwrap_or_else(|| q.random());
        let (value, rho) = (u64::from(q.random()), u64::from(self.rho) + 1);
        let sum = value.wrapping_mul((1 << 32) - rho);
        let value = (sum.wrapping_add(u64::from(last) * rho) >> 32) as u32;
        self.last = Some(value);
        value
    }

    /// Draws whether an event with a probability happens.
    fn happens(&mut self, probability: u32, q: &mut QueueCx<'_, '_, '_>) -> bool {
        probability != 0 && probability >= self.draw(q)
    }
}

/// A loss model with its state.
#[derive(Debug, Clone, Copy)]
enum Loss {
    Random,
    /// p13, p31, p32, p14 and p23; the state, 1 to 4.
    State([u32; 5], u8),
    /// p, r, h and k1; whether the state is the bad one.
    Gemodel([u32; 4], bool),
}

/// A packet with its departure time, ordered by time and then by arrival.
struct Timed {
    time: u64,
    seq: u64,
    packet: Packet,
}

impl PartialEq for Timed {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Timed {}

impl PartialOrd for Timed {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Timed {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.time, self.seq).cmp(&(other.time, other.seq))
    }
}

/// Rounds in which packets leave (`slot_config`, `struct slotstate`).
#[derive(Debug, Default)]
struct Slot {
    config: TcNetemSlot,
    /// Start of the round; 0 if there are no rounds.
    next: u64,
    packets_left: i32,
    bytes_left: i32,
}

/// The state of the qdisc.
struct Netem {
    qopt: TcNetemQopt,
    latency: i64,
    jitter: i32,
    rate: u64,
    cells: TcNetemRate,
    reorder: u32,
    corrupt: u32,
    ecn: u32,
    delay_cor: Correlated,
    loss_cor: Correlated,
    dup_cor: Correlated,
    reorder_cor: Correlated,
    corrupt_cor: Correlated,
    loss: Loss,
    delay_dist: Option<Box<[i16]>>,
    slot_dist: Option<Box<[i16]>>,
    slot: Slot,
    counter: u32,
    /// Packets put in front of the others by reordering.
    front: VecDeque<(Packet, u64)>,
    /// Packets that arrived in the order of their departure times.
    line: VecDeque<(Packet, u64)>,
    /// Packets that arrived after ones with a later departure time. `latest` is the latest time
    /// among them.
    late: BinaryHeap<Reverse<Timed>>,
    latest: u64,
    seq: u64,
    own: Load,
    child: Leaf,
    total: Load,
}

/// The parsed and checked options of a request.
struct Options<'a> {
    qopt: TcNetemQopt,
    tb: weir_netlink::Table<'a>,
    loss: Loss,
    delay_dist: Option<Box<[i16]>>,
    slot_dist: Option<Box<[i16]>>,
    slot: Option<TcNetemSlot>,
}

fn fixed<T: Fixed>(attr: Option<Attr<'_>>) -> Option<T> {
    T::from_bytes(attr?.payload)
}

/// Parses a distribution table (`get_dist_table`).
fn distribution(attr: Option<Attr<'_>>) -> Result<Option<Box<[i16]>>, Error> {
    let Some(attr) = attr else { return Ok(None) };
    let values = attr.payload.chunks_exact(2);
    let values: Box<[i16]> = values.map(|v| i16::from_ne_bytes([v[0], v[1]])).collect();
    match values.len() {
        1..=TABLE_MAX => Ok(Some(values)),
        _ => Err(Error::new(EINVAL)),
    }
}

/// Parses and checks the slot options (`validate_slot`).
fn slot(attr: Option<Attr<'_>>) -> Result<Option<TcNetemSlot>, Error> {
    let Some(slot) = fixed::<TcNetemSlot>(attr) else {
        return Ok(None);
    };
    let wrong = if slot.min_delay < 0 || slot.max_delay < 0 {
        "negative slot delay"
    } else if slot.min_delay > slot.max_delay {
        "slot min delay greater than max delay"
    } else if slot.dist_delay < 0 || slot.dist_jitter < 0 {
        "negative dist delay"
    } else if slot.max_packets < 0 || slot.max_bytes < 0 {
        "negative slot limit"
    } else {
        return Ok(Some(slot));
    };
    let error = Error::msg(EINVAL, wrong);
    Err(attr.map_or_else(|| error.clone(), |attr| error.clone().at(&attr)))
}

/// Parses the loss model (`get_loss_clg`).
fn loss(attr: Option<Attr<'_>>) -> Result<Loss, Error> {
    let mut model = Loss::Random;
    for attr in attr.iter().flat_map(|attr| attr.attrs()) {
        let word = |at: usize| {
            let bytes = attr.payload.get(at * 4..at * 4 + 4);
            let bytes: Option<[u8; 4]> = bytes.and_then(|bytes| bytes.try_into().ok());
            bytes.map(u32::from_ne_bytes).ok_or(Error::new(EINVAL))
        };
        model = match attr.ty {
            LOSS_STATE => Loss::State([word(0)?, word(1)?, word(2)?, word(3)?, word(4)?], 1),
            LOSS_GEMODEL => Loss::Gemodel([word(0)?, word(1)?, word(2)?, word(3)?], false),
            _ => return Err(Error::new(EINVAL)),
        };
    }
    Ok(model)
}

fn parse<'a>(create: &Create<'a>) -> Result<Options<'a>, Error> {
    let plain = |error: Error| Error::new(error.errno);
    let options = create.options.ok_or(Error::new(EINVAL))?;
    let qopt = TcNetemQopt::from_bytes(options.payload).ok_or(Error::new(EINVAL))?;
    let rest = options.payload.get(TcNetemQopt::LEN..).unwrap_or_default();
    let tb = weir_netlink::parse(rest, &POLICY, Strictness::Liberal).map_err(plain)?;
    let delay_dist = distribution(tb.get(attr::DELAY_DIST))?;
    let slot_dist = distribution(tb.get(attr::SLOT_DIST))?;
    let slot = slot(tb.get(attr::SLOT))?;
    let loss = loss(tb.get(attr::LOSS))?;
    if create
        .other_netem
        .is_some_and(|other| other || qopt.duplicate != 0)
    {
        let message = "netem: cannot mix duplicating netems with other netems in tree";
        return Err(Error::msg(EINVAL, message));
    }
    Ok(Options {
        qopt,
        tb,
        loss,
        delay_dist,
        slot_dist,
        slot,
    })
}

fn create(create: &Create<'_>) -> Result<Box<dyn Qdisc>, Error> {
    let options = parse(create)?;
    let mut netem = Netem {
        qopt: options.qopt,
        latency: 0,
        jitter: 0,
        rate: 0,
        cells: TcNetemRate::default(),
        reorder: 0,
        corrupt: 0,
        ecn: 0,
        delay_cor: Correlated::default(),
        loss_cor: Correlated::default(),
        dup_cor: Correlated::default(),
        reorder_cor: Correlated::default(),
        corrupt_cor: Correlated::default(),
        loss: Loss::Random,
        delay_dist: None,
        slot_dist: None,
        slot: Slot::default(),
        counter: 0,
        front: VecDeque::new(),
        line: VecDeque::new(),
        late: BinaryHeap::new(),
        latest: 0,
        seq: 0,
        own: Load::default(),
        child: Leaf::default(),
        total: Load::default(),
    };
    netem.set(options, create.now())?;
    Ok(Box::new(netem))
}

/// Draws a number around `mu` with spread `sigma` (`tabledist`).
fn spread(
    mu: i64,
    sigma: i32,
    cor: &mut Correlated,
    dist: Option<&[i16]>,
    q: &mut QueueCx<'_, '_, '_>,
) -> i64 {
    if sigma == 0 {
        return mu;
    }
    let drawn = cor.draw(q);
    let Some(dist) = dist else {
        let width = (sigma as u32).wrapping_mul(2);
        return i64::from(drawn % width) + mu - i64::from(sigma);
    };
    let (t, sigma) = (
        i64::from(dist[drawn as usize % dist.len()]),
        i64::from(sigma),
    );
    let x = (sigma % SCALE) * t;
    let x = if x >= 0 { x + SCALE / 2 } else { x - SCALE / 2 };
    x / SCALE + (sigma / SCALE) * t + mu
}

impl Netem {
    fn set(&mut self, options: Options<'_>, now: u64) -> Result<(), Error> {
        let (qopt, tb) = (options.qopt, &options.tb);
        self.qopt = qopt;
        self.loss = options.loss;
        self.latency = ticks_to_ns(u64::from(qopt.latency)) as i64;
        let mut jitter = ticks_to_ns(u64::from(qopt.jitter)) as i64;
        self.counter = 0;
        if qopt.gap != 0 {
            self.reorder = u32::MAX;
        }
        if let Some(dist) = options.delay_dist {
            self.delay_dist = Some(dist);
        }
        if let Some(dist) = options.slot_dist {
            self.slot_dist = Some(dist);
        }
        if let Some(cor) = fixed::<TcNetemCorr>(tb.get(attr::CORR)) {
            self.delay_cor = Correlated::new(cor.delay_corr);
            self.loss_cor = Correlated::new(cor.loss_corr);
            self.dup_cor = Correlated::new(cor.dup_corr);
        }
        if let Some(reorder) = fixed::<TcNetemReorder>(tb.get(attr::REORDER)) {
            self.reorder = reorder.probability;
            self.reorder_cor = Correlated::new(reorder.correlation);
        }
        if let Some(corrupt) = fixed::<TcNetemReorder>(tb.get(attr::CORRUPT)) {
            self.corrupt = corrupt.probability;
            self.corrupt_cor = Correlated::new(corrupt.correlation);
        }
        if let Some(cells) = fixed::<TcNetemRate>(tb.get(attr::RATE)) {
            self.rate = u64::from(cells.rate);
            self.cells = cells;
        }
        if let Some(rate) = tb.u64(attr::RATE64)? {
            self.rate = self.rate.max(rate);
        }
        if let Some(latency) = tb.i64(attr::LATENCY64)? {
            self.latency = latency;
        }
        if let Some(long) = tb.i64(attr::JITTER64)? {
            jitter = long;
        }
        if let Some(ecn) = tb.u32(attr::ECN)? {
            self.ecn = ecn;
        }
        if let Some(config) = options.slot {
            let most = |value: i32| if value == 0 { i32::MAX } else { value };
            let config = TcNetemSlot {
                max_packets: most(config.max_packets),
                max_bytes: most(config.max_bytes),
                dist_jitter: config.dist_jitter.min(i64::from(i32::MAX)),
                ..config
            };
            self.slot = Slot {
                config,
                next: if rounds(&config) { now } else { 0 },
                packets_left: config.max_packets,
                bytes_left: config.max_bytes,
            };
        }
        self.jitter = jitter.unsigned_abs().min(i32::MAX as u64) as i32;
        Ok(())
    }

    /// Draws whether a packet is lost (`loss_event`).
    fn lost(&mut self, q: &mut QueueCx<'_, '_, '_>) -> bool {
        match &mut self.loss {
            Loss::Random => self.loss_cor.happens(self.qopt.loss, q),
            Loss::State([p13, p31, p32, p14, p23], state) => {
                let drawn = q.random();
                let (next, lost) = match *state {
                    1 if drawn < *p14 => (4, true),
                    1 if drawn < p13.wrapping_add(*p14) => (3, true),
                    2 if drawn < *p23 => (3, true),
                    2 => (2, false),
                    3 if drawn < *p32 => (2, false),
                    3 if drawn < p31.wrapping_add(*p32) => (1, false),
                    3 => (3, true),
                    _ => (1, false),
                };
                *state = next;
                lost
            }
            Loss::Gemodel([p, r, h, k1], bad) => {
                if *bad {
                    *bad = q.random() >= *r;
                    q.random() > *h
                } else {
                    *bad = q.random() < *p;
                    q.random() < *k1
                }
            }
        }
    }

    /// Returns the transmission time of `len` bytes, in ns (`packet_time_ns`).
    fn time_of(&self, len: u32) -> u64 {
        let cells = &self.cells;
        let mut len = u64::from(len).wrapping_add_signed(i64::from(cells.packet_overhead));
        if cells.cell_size != 0 {
            let count = (len as u32).div_ceil(cells.cell_size);
            let cell = cells.cell_size.wrapping_add_signed(cells.cell_overhead);
            len = u64::from(count.wrapping_mul(cell));
        }
        len.wrapping_mul(1_000_000_000) / self.rate
    }

    /// Returns the latest departure time of the waiting packets.
    fn last_time(&self) -> Option<u64> {
        let front = self.front.back().map(|(_, time)| *time);
        let late = (!self.late.is_empty()).then_some(self.latest);
        let line = self.line.back().map(|(_, time)| *time);
        front.max(late).max(line)
    }

    /// Computes the departure time of a packet that arrives now.
    fn departure(&mut self, len: u32, q: &mut QueueCx<'_, '_, '_>) -> u64 {
        let dist = self.delay_dist.as_deref();
        let mut delay = spread(self.latency, self.jitter, &mut self.delay_cor, dist, q);
        let mut from = q.now();
        if self.rate != 0 {
            if let Some(last) = self.last_time() {
                // Transmission starts after the previous packet was sent.
                delay = delay.wrapping_sub(last.wrapping_sub(from) as i64).max(0);
                from = last;
            }
            delay = delay.wrapping_add(self.time_of(len) as i64);
        }
        from.wrapping_add(delay as u64)
    }

    /// Enqueues a packet with its departure time (`tfifo_enqueue`).
    fn put(&mut self, packet: Packet, time: u64) {
        if self.line.back().is_none_or(|(_, last)| time >= *last) {
            self.line.push_back((packet, time));
            return;
        }
        if self.late.is_empty() {
            self.latest = time;
        }
        self.latest = self.latest.max(time);
        self.seq += 1;
        let seq = self.seq;
        self.late.push(Reverse(Timed { time, seq, packet }));
    }

    /// Returns the next departure time, and whether that packet is in `late` (`netem_peek`).
    fn first(&self) -> Option<(u64, bool)> {
        let line = self.line.front().map(|(_, time)| (*time, false));
        let late = self.late.peek().map(|Reverse(timed)| (timed.time, true));
        match (line, late) {
            (Some(line), Some(late)) => Some(if late.0 < line.0 { late } else { line }),
            (line, late) => line.or(late),
        }
    }

    /// Starts the next round (`get_slot_next`).
    fn next_round(&mut self, q: &mut QueueCx<'_, '_, '_>) {
        let config = &self.slot.config;
        let delay = match self.slot_dist.as_deref() {
            None => {
                let width = (config.max_delay - config.min_delay) as u64;
                let part = (u128::from(width) * u128::from(q.random())) >> 32;
                config.min_delay + part as i64
            }
            dist => {
                let mut uniform = Correlated::default();
                let sigma = config.dist_jitter as i32;
                spread(config.dist_delay, sigma, &mut uniform, dist, q)
            }
        };
        self.slot.packets_left = config.max_packets;
        self.slot.bytes_left = config.max_bytes;
        self.slot.next = q.now().wrapping_add(delay as u64);
    }
}

fn rounds(config: &TcNetemSlot) -> bool {
    config.min_delay | config.max_delay | config.dist_jitter != 0
}

impl Qdisc for Netem {
    fn enqueue(&mut self, q: &mut QueueCx<'_, '_, '_>, packet: Packet) -> Enqueued {
        let mut packet = packet;
        let twice = !q.duplicate && self.dup_cor.happens(self.qopt.duplicate, q);
        let mut count = 1 + u32::from(twice);
        if self.lost(q) {
            if self.ecn != 0 && ecn::set_ce(&mut packet) {
                // Linux counts a mark as a drop.
                q.note().extra_drops += 1;
            } else {
                count -= 1;
            }
        }
        if count == 0 {
            return q.drop(packet, DropReason::QDISC_DROP);
        }
        let mut copy = if count > 1 { packet.copy() } else { None };
        if let Some(copy) = &mut copy {
            q.cx.duplicated(copy);
        }
        let mut others = Vec::new();
        if self.corrupt_cor.happens(self.corrupt, q) && !packet.is_empty() {
            if packet.segments().is_some() {
                match q.segments(packet) {
                    Ok(segments) => others = segments,
                    Err(packet) => return q.drop(packet, DropReason::QDISC_DROP),
                }
                packet = others.remove(0);
            }
            packet.flags.remove(Flags::CSUM_GOOD);
            let at = super::scale(q.random(), packet.len() as u32) as usize;
            let bit = super::scale(q.random(), 8);
            packet.data_mut()[at] ^= 1 << bit;
        }
        if q.waiting(self.total).len >= self.qopt.limit {
            if let Some(copy) = copy {
                q.drop(copy, DropReason::QDISC_DROP);
                // Linux frees the copy without counting it.
                q.note().extra_drops -= 1;
            }
            for other in others.drain(..) {
                q.drop(other, DropReason::QDISC_DROP);
                q.note().extra_drops -= 1;
            }
            q.cx.keep_list(others);
            return q.drop(packet, DropReason::QDISC_DROP);
        }
        if let Some(copy) = copy {
            q.enqueue_copy(copy);
        }
        let len = pkt_len(&packet);
        let gap = self.qopt.gap;
        if gap == 0 || self.counter < gap.wrapping_sub(1) || self.reorder < self.reorder_cor.draw(q)
        {
            let time = self.departure(len, q);
            self.counter = self.counter.wrapping_add(1);
            self.put(packet, time);
        } else {
            self.counter = 0;
            self.front.push_front((packet, q.now()));
            q.note().requeues += 1;
        }
        self.own.add(len);
        self.total.add(len);
        for other in others.drain(..) {
            self.enqueue(q, other);
        }
        q.cx.keep_list(others);
        Enqueued::Queued
    }

    fn dequeue(&mut self, q: &mut QueueCx<'_, '_, '_>) -> Option<Packet> {
        loop {
            if let Some((packet, _)) = self.front.pop_front() {
                self.own.sub(pkt_len(&packet));
                self.total.sub(pkt_len(&packet));
                return Some(packet);
            }
            let Some((time, is_late)) = self.first() else {
                return self.child.dequeue(q, &mut self.total).0;
            };
            let now = q.now();
            if self.slot.next != 0 && self.slot.next < time {
                self.next_round(q);
            }
            if time > now || self.slot.next > now {
                if let Some(packet) = self.child.dequeue(q, &mut self.total).0 {
                    return Some(packet);
                }
                q.watchdog(time.max(self.slot.next));
                return None;
            }
            let packet = match is_late {
                true => self.late.pop().map(|Reverse(timed)| timed.packet),
                false => self.line.pop_front().map(|(packet, _)| packet),
            }?;
            let len = pkt_len(&packet);
            self.own.sub(len);
            self.total.sub(len);
            if self.slot.next != 0 {
                self.slot.packets_left -= 1;
                self.slot.bytes_left = self.slot.bytes_left.wrapping_sub_unsigned(len);
                if self.slot.packets_left <= 0 || self.slot.bytes_left <= 0 {
                    self.next_round(q);
                }
            }
            if self.child.node().is_none() {
                return Some(packet);
            }
            self.child.enqueue(q, packet, &mut self.total);
        }
    }

    fn load(&self) -> Load {
        self.total
    }

    fn reset(&mut self, out: &mut Drops) {
        let queues = self.front.drain(..).chain(self.line.drain(..));
        let packets = queues.map(|(packet, _)| packet);
        let late = self.late.drain().map(|Reverse(timed)| timed.packet);
        out.extend(packets.chain(late).map(|p| (p, DropReason::QDISC_DROP)));
        self.child.purge(&mut self.total, out);
        (self.own, self.total) = (Load::default(), Load::default());
    }

    fn change(&mut self, create: &Create<'_>, _gone: &mut Gone) -> Result<(), Error> {
        self.set(parse(create)?, create.now())
    }

    fn duplicates(&self) -> Option<bool> {
        Some(self.qopt.duplicate != 0)
    }

    fn dump(&self, w: &mut Writer) {
        let ticks = |ns: i64| ns_to_ticks(ns as u64).min(u64::from(u32::MAX)) as u32;
        let nest = w.nest_noflag(tca::OPTIONS);
        w.fixed(&TcNetemQopt {
            latency: ticks(self.latency),
            jitter: ticks(i64::from(self.jitter)),
            ..self.qopt
        });
        w.put_u64(attr::LATENCY64, self.latency as u64);
        w.put_u64(attr::JITTER64, i64::from(self.jitter) as u64);
        let corr = TcNetemCorr {
            delay_corr: self.delay_cor.rho,
            loss_corr: self.loss_cor.rho,
            dup_corr: self.dup_cor.rho,
        };
        w.put_fixed(attr::CORR, &corr);
        let pair = |probability, cor: &Correlated| TcNetemReorder {
            probability,
            correlation: cor.rho,
        };
        w.put_fixed(attr::REORDER, &pair(self.reorder, &self.reorder_cor));
        w.put_fixed(attr::CORRUPT, &pair(self.corrupt, &self.corrupt_cor));
        if self.rate > u64::from(u32::MAX) {
            w.put_u64_pad(attr::RATE64, self.rate, attr::PAD);
        }
        let rate = TcNetemRate {
            rate: self.rate.min(u64::from(u32::MAX)) as u32,
            ..self.cells
        };
        w.put_fixed(attr::RATE, &rate);
        if self.ecn != 0 {
            w.put_u32(attr::ECN, self.ecn);
        }
        let model: Option<(u16, &[u32])> = match &self.loss {
            Loss::Random => None,
            Loss::State(p, _) => Some((LOSS_STATE, p)),
            Loss::Gemodel(p, _) => Some((LOSS_GEMODEL, p)),
        };
        if let Some((ty, p)) = model {
            let nest = w.nest_noflag(attr::LOSS);
            w.put(ty, &super::words(p));
            w.end(nest);
        }
        let config = &self.slot.config;
        if rounds(config) {
            let least = |value: i32| if value == i32::MAX { 0 } else { value };
            let config = TcNetemSlot {
                max_packets: least(config.max_packets),
                max_bytes: least(config.max_bytes),
                ..*config
            };
            w.put_fixed(attr::SLOT, &config);
        }
        w.end(nest);
    }

    fn slot(&self, _class: u32) -> Option<&Leaf> {
        Some(&self.child)
    }

    fn slot_mut(&mut self, _class: u32) -> Option<(&mut Leaf, &mut Load)> {
        Some((&mut self.child, &mut self.total))
    }

    /// Returns false: without a child the class passes packets through.
    fn is_empty(&self, _class: u32) -> bool {
        false
    }

    fn classes(&self) -> Vec<u32> {
        self.child.node().map(|_| 1).into_iter().collect()
    }
}
