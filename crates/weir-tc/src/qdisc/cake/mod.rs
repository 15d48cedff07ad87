// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `cake`: a shaper, tins by code point, fair sharing among hosts and flows, and COBALT per flow.
//!
//! Mirrors net/sched/sch_cake.c (Høiland-Jørgensen, Täht, Morton: "Piece of CAKE", 2018).
//! Parameters:
//!
//! - `bandwidth` (default `unlimited`); `autorate-ingress` estimates it.
//! - `besteffort`, `diffserv3` (default), `diffserv4`, `diffserv8`, `precedence`: the tins.
//! - `flowblind`, `srchost`, `dsthost`, `hosts`, `flows`, `dual-srchost`, `dual-dsthost`,
//!   `triple-isolate` (default): the parties among which the rate is shared fairly.
//! - `nat`: use the addresses before translation. There is no connection tracking, so this acts as
//!   Linux does without an entry.
//! - `rtt` and `target`: microseconds, default 100 ms and a twentieth of it.
//! - `overhead`, `mpu`, `atm`, `ptm`, `raw`: the bytes that a packet takes on the line.
//! - `wash`: clear the code point.
//! - `ingress`: count dropped packets as sent, because this is the receiving end of the line.
//! - `ack-filter`, `ack-filter-aggressive`.
//! - `memlimit`: bytes, default four times rate and rtt, at least 4 MiB.
//! - `split-gso` (default) splits long packets into the packets of the wire; `no-split-gso`.
//! - `fwmark`: mask of the mark that names a tin.
//!
//! A packet's tin is named by its mark, else by its priority if that has the qdisc's handle, else
//! by its code point. Filters may name a flow by the minor number and a host by the major number.
//! COBALT drops with QDISC_CONGESTED, the memory limit with QDISC_OVERLIMIT. A packet counts as
//! much memory as its buffer has capacity.

mod ack;
mod cobalt;
mod diffserv;
mod longest;
mod show;
mod tin;

use std::sync::Arc;

use weir_netlink::tca::{self, cake as attr, h};
use weir_netlink::{Error, Policy, Rule, Strictness, TcMsg, Writer, policy};
use weir_packet::dissect::{ADDR_NONE, FlowKeys, Used, dissect, l3_hash};
use weir_packet::header::ethernet::ETH_P_ARP;
use weir_packet::{DropReason, Packet};

use self::diffserv::Rate;
use self::longest::Longest;
use self::tin::{DECAYING, FLOWS, Hashes, NEW, OLD, Set, Tin, Waiting, mode};
use super::idle;
use super::{
    ClassStats, Create, Drops, Enqueued, Gone, Load, Ops, Qdisc, QueueCx, classify, ecn,
    packet_hash, pkt_len, truesize,
};
use crate::block::Block;
use crate::counters::Queue;

/// The entry of this kind in the table of kinds.
pub const OPS: Ops = Ops {
    can_change: true,
    classful: true,
    filters: true,
    nested_stats: true,
    ..Ops::new("cake", create)
};

static POLICY: Policy = policy! { max attr::MAX;
    attr::BASE_RATE64 => Rule::u64(),
    attr::DIFFSERV_MODE => Rule::u32(),
    attr::ATM => Rule::u32(),
    attr::FLOW_MODE => Rule::u32(),
    attr::OVERHEAD => Rule::s32(),
    attr::RTT => Rule::u32(),
    attr::TARGET => Rule::u32(),
    attr::AUTORATE => Rule::u32(),
    attr::MEMORY => Rule::u32(),
    attr::NAT => Rule::u32(),
    attr::RAW => Rule::u32(),
    attr::WASH => Rule::u32(),
    attr::MPU => Rule::u32(),
    attr::INGRESS => Rule::u32(),
    attr::ACK_FILTER => Rule::u32(),
    attr::SPLIT_GSO => Rule::u32(),
    attr::FWMARK => Rule::u32(),
};

/// Largest number of tins (`CAKE_MAX_TINS`).
const TINS: usize = 8;
/// ATM framing (`CAKE_ATM_ATM`).
const ATM: u8 = 1;
/// PTM framing (`CAKE_ATM_PTM`).
const PTM: u8 = 2;
/// Aggressive mode of the ACK filter (`CAKE_ACK_AGGRESSIVE`).
const AGGRESSIVE: u8 = 2;
/// Number of MTU-sized packets that may wait if no memory limit is configured (`sch->limit`).
const LIMIT: u32 = 10240;
const SECOND: u64 = 1_000_000_000;
const RECONFIGURE: i64 = 250_000_000;

/// The options.
#[derive(Debug, Clone)]
struct Options {
    rate: u64,
    tins: u8,
    flows: u8,
    atm: u8,
    ack_filter: u8,
    overhead: i16,
    mpu: u16,
    /// Interval of COBALT, in microseconds.
    rtt: u64,
    /// Target of COBALT, in microseconds.
    target: u64,
    memory: u32,
    fwmark: u32,
    /// Whether lengths count from the network header on.
    counts_overhead: bool,
    autorate: bool,
    ingress: bool,
    wash: bool,
    split_gso: bool,
}

/// Smallest and largest lengths of packets (`struct cake_sched_data`).
#[derive(Debug, Clone, Copy)]
struct Lengths {
    net: (u16, u16),
    adjusted: (u16, u16),
}

impl Lengths {
    const NONE: Self = Self {
        net: (u16::MAX, 0),
        adjusted: (u16::MAX, 0),
    };
}

fn include((least, most): &mut (u16, u16), len: u32) {
    if u32::from(*most) < len {
        *most = len as u16;
    }
    if u32::from(*least) > len {
        *least = len as u16;
    }
}

/// Updates a moving average (`cake_ewma`).
fn ewma(average: u64, sample: u64, shift: u32) -> u64 {
    average - (average >> shift) + (sample >> shift)
}

/// Estimate of the arrival rate.
#[derive(Debug, Default)]
struct Estimate {
    last_packet: i64,
    window_begin: i64,
    last_change: i64,
    interval: u64,
    window_octets: u64,
    peak: u64,
}

/// The state of the qdisc.
struct Cake {
    block: Arc<Block>,
    handle: u32,
    options: Options,
    mtu: u32,
    tins: [Tin; TINS],
    load: Load,
    /// Time in ns at which the rate permits the next packet. `failsafe_next` is the latest such
    /// time.
    time_next: i64,
    failsafe_next: i64,
    tin: usize,
    memory: u32,
    memory_max: u32,
    memory_limit: u32,
    longest: Longest,
    lengths: Lengths,
    /// Moving average of the network header's offset, in units of 2^-16 bytes.
    net_offset: u32,
    estimate: Estimate,
    now: i64,
}

fn create(create: &Create<'_>) -> Result<Box<dyn Qdisc>, Error> {
    let mut cake = Cake {
        block: create.block(),
        handle: create.handle,
        options: Options {
            rate: 0,
            tins: 0,
            flows: mode::TRIPLE,
            atm: 0,
            ack_filter: 0,
            overhead: 0,
            mpu: 0,
            rtt: 100_000,
            target: 5000,
            memory: 0,
            fwmark: 0,
            counts_overhead: false,
            autorate: false,
            ingress: false,
            wash: false,
            split_gso: true,
        },
        mtu: create.psched_mtu(),
        tins: Default::default(),
        load: Load::default(),
        time_next: 0,
        failsafe_next: 0,
        tin: 0,
        memory: 0,
        memory_max: 0,
        memory_limit: 0,
        longest: Longest::default(),
        lengths: Lengths::NONE,
        net_offset: 0,
        estimate: Estimate::default(),
        now: create.now() as i64,
    };
    cake.change(create, &mut Gone::default())?;
    cake.estimate.peak = cake.options.rate;
    Ok(Box::new(cake))
}

impl Cake {
    fn tin_count(&self) -> usize {
        diffserv::count(self.options.tins)
    }

    fn rate(&self) -> &Rate {
        &self.tins[0].rate
    }

    /// Applies the options to all tins (`cake_reconfigure`). Packets of tins that no longer exist
    /// go to `out`.
    fn configure(&mut self, out: &mut Drops) {
        let options = &self.options;
        let shares = diffserv::shares(options.tins, options.rate);
        for (tin, (rate, quantum)) in self.tins.iter_mut().zip(&shares) {
            tin.rate = Rate::new(*rate);
            tin.flow_quantum = tin.rate.flow_quantum();
            tin.params = tin.rate.params(self.mtu, options.target, options.rtt);
            tin.quantum = *quantum;
        }
        self.memory_limit = match (options.memory, options.rate) {
            (0, 0) => u32::MAX,
            (0, rate) => {
                let octets = rate.wrapping_mul(options.rtt) / 250_000;
                (octets as u32).max(4 << 20)
            }
            (memory, _) => memory,
        };
        let most = LIMIT.wrapping_mul(self.mtu).max(options.memory);
        self.memory_limit = self.memory_limit.min(most);
        let mtu_time = self.tins[0].params.mtu_time;
        for at in self.tin_count()..TINS {
            self.clear_tin(at, out);
            self.tins[at].params.mtu_time = mtu_time;
        }
    }

    /// Empties a tin (`cake_clear_tin`).
    fn clear_tin(&mut self, at: usize, out: &mut Drops) {
        self.tin = at;
        for flow in 0..self.tins[at].flows.len() {
            while let Some(waiting) = self.take_one(at, flow) {
                out.push((waiting.packet, DropReason::QDISC_DROP));
            }
        }
    }

    /// Removes the first packet of a flow (`cake_dequeue_one`).
    fn take_one(&mut self, tin: usize, flow: usize) -> Option<Waiting> {
        let waiting = self.uncount(tin, flow)?;
        if self.longest.kept != 0 {
            let place = self.longest.place(tin, flow);
            self.longest.sink(&self.tins, place);
        }
        Some(waiting)
    }

    fn uncount(&mut self, tin: usize, flow: usize) -> Option<Waiting> {
        let tin = &mut self.tins[tin];
        let waiting = tin.flows[flow].queue.pop_front()?;
        let len = pkt_len(&waiting.packet);
        tin.backlogs[flow] = tin.backlogs[flow].wrapping_sub(len);
        tin.backlog = tin.backlog.wrapping_sub(len);
        self.load.sub(len);
        self.memory = self.memory.wrapping_sub(truesize(&waiting.packet));
        Some(waiting)
    }

    /// Advances the shaper by a packet of `len` bytes on the line (`cake_advance_shaper`). With
    /// `dropped` the packet was dropped instead of sent.
    fn advance(&mut self, tin: usize, len: u32, now: i64, dropped: bool) {
        if self.rate().ns == 0 {
            return;
        }
        let all = self.rate().time_of(len);
        let tin = &mut self.tins[tin];
        let own = tin.rate.time_of(len);
        if tin.time_next < now {
            tin.time_next = tin.time_next.wrapping_add_unsigned(own);
        } else {
            tin.time_next = tin.time_next.max(now.wrapping_add_unsigned(own));
        }
        self.time_next = self.time_next.wrapping_add_unsigned(all);
        if !dropped {
            let late = all.wrapping_add(all >> 1);
            self.failsafe_next = self.failsafe_next.wrapping_add_unsigned(late);
        }
    }

    /// Returns the bytes that a packet takes on the line (`cake_overhead`, `cake_calc_overhead`).
    fn adjusted(&mut self, packet: &Packet) -> u32 {
        let offset = packet.network_offset().unwrap_or(0) as u32;
        self.net_offset = ewma(u64::from(self.net_offset), u64::from(offset << 16), 8) as u32;
        let Some(segments) = packet.segments() else {
            return self.on_line(pkt_len(packet), offset);
        };
        // `cake_overhead` counts the packets of the wire.
        let (full, others) = (
            packet.wire_frame_len() as u32,
            u32::from(segments.count) - 1,
        );
        let last =
            (packet.len() as u32).wrapping_sub(u32::from(segments.size).wrapping_mul(others));
        let each = self.on_line(full, offset);
        let last = self.on_line(last, offset);
        each.wrapping_mul(others).wrapping_add(last)
    }

    /// Returns the bytes that a packet of the wire takes on the line (`cake_calc_overhead`).
    fn on_line(&mut self, mut len: u32, offset: u32) -> u32 {
        let options = &self.options;
        if options.counts_overhead {
            len = len.wrapping_sub(offset);
        }
        include(&mut self.lengths.net, len);
        let with = (len as i32).wrapping_add(i32::from(options.overhead));
        let mut len = with.max(i32::from(options.mpu)) as u32;
        match options.atm {
            ATM => len = len.wrapping_add(47) / 48 * 53,
            PTM => len = len.wrapping_add(len.wrapping_add(63) / 64),
            _ => {}
        }
        include(&mut self.lengths.adjusted, len);
        len
    }

    /// Returns the code point of a packet, and clears it with `wash` (`cake_handle_diffserv`).
    fn code_point(packet: &mut Packet, wash: bool) -> u8 {
        const NETWORK_CONTROL: u8 = 0x38;
        if packet.protocol == ETH_P_ARP {
            return NETWORK_CONTROL;
        }
        let Some(field) = ecn::ds_field(packet) else {
            return 0;
        };
        if wash && field >> 2 != 0 {
            ecn::set_ds_field(packet, field & 3);
        }
        field >> 2
    }

    /// Selects the tin of a packet (`cake_select_tin`).
    fn select_tin(&self, packet: &mut Packet) -> usize {
        let options = &self.options;
        let order = diffserv::order(options.tins);
        let nth = |number: u32| {
            let index = (number as usize).checked_sub(1)?;
            order.get(index).map(|tin| usize::from(*tin))
        };
        let mask = options.fwmark;
        let mark = (packet.mark & mask)
            .checked_shr(mask.trailing_zeros())
            .unwrap_or(0);
        let washed = options.wash.then(|| Self::code_point(packet, true));
        if options.tins == diffserv::BESTEFFORT {
            return 0;
        }
        let own = packet.priority & h::MAJ_MASK == self.handle;
        let named = nth(mark).or_else(|| nth(packet.priority & h::MIN_MASK).filter(|_| own));
        named.unwrap_or_else(|| {
            let dscp = washed.unwrap_or_else(|| Self::code_point(packet, false));
            diffserv::tin(options.tins, dscp)
        })
    }

    /// Returns the hashes of a packet. `class` is the class that a filter named.
    fn hashes(&self, packet: &mut Packet, class: u32) -> Hashes {
        let (flow, host) = (class & h::MIN_MASK, (class & h::MAJ_MASK) >> 16);
        let named = |number: u32| (1..=FLOWS as u32).contains(&number).then(|| number - 1);
        let (flow, host) = (named(flow), named(host));
        let mode = self.options.flows & mode::MASK;
        let mut hashes = Hashes::default();
        if mode & mode::HOSTS != 0 && host.is_none() {
            let mut keys = FlowKeys::EMPTY;
            dissect(packet, Used::FIVE_TUPLE, &mut keys);
            if keys.addr_type != ADDR_NONE {
                hashes.src = l3_hash(&keys.src, &[0; 16], 0);
                hashes.dst = l3_hash(&keys.dst, &[0; 16], 0);
            }
        }
        if let Some(host) = host {
            (hashes.src, hashes.dst) = (host, host);
        }
        hashes.flow = match flow {
            Some(flow) => flow,
            None if mode & mode::FLOWS != 0 => packet_hash(packet),
            None => 0,
        };
        if mode & mode::FLOWS == 0 {
            if mode & mode::SRC_IP != 0 {
                hashes.flow ^= hashes.src;
            }
            if mode & mode::DST_IP != 0 {
                hashes.flow ^= hashes.dst;
            }
        }
        hashes
    }

    /// Drops from the longest queue and returns its tin and flow (`cake_drop`).
    fn drop_longest(&mut self, q: &mut QueueCx<'_, '_, '_>, now: i64) -> Option<(usize, usize)> {
        let (at, flow) = self.longest.first(&self.tins);
        let open = !self.tins[at].flows.is_empty();
        let Some(waiting) = open.then(|| self.uncount(at, flow)).flatten() else {
            // The heap is out of date. It is rebuilt next time.
            self.longest.kept = 0;
            return None;
        };
        let tin = &mut self.tins[at];
        let up = tin.flows[flow].vars.full(&tin.params, now);
        tin.unresponsive = tin.unresponsive.wrapping_add(u16::from(up));
        tin.flows[flow].dropped = tin.flows[flow].dropped.wrapping_add(1);
        tin.dropped = tin.dropped.wrapping_add(1);
        if self.options.ingress {
            self.advance(at, waiting.adjusted, now, true);
        }
        q.drop(waiting.packet, DropReason::QDISC_OVERLIMIT);
        self.longest.sink(&self.tins, 0);
        Some((at, flow))
    }

    /// Estimates the arrival rate and configures it as the rate.
    fn estimate(&mut self, now: i64) {
        let estimate = &mut self.estimate;
        if !self.options.autorate {
            estimate.window_octets = 0;
            estimate.last_packet = now;
            return;
        }
        let interval = (now.wrapping_sub(estimate.last_packet) as u64).min(SECOND);
        let shift = if interval > estimate.interval { 2 } else { 8 };
        estimate.interval = ewma(estimate.interval, interval, shift);
        estimate.last_packet = now;
        if interval <= estimate.interval {
            return;
        }
        let window = now.wrapping_sub(estimate.window_begin) as u64;
        let octets = estimate.window_octets.wrapping_mul(SECOND);
        let rate = octets.checked_div(window).unwrap_or(0);
        let shift = if rate > estimate.peak { 2 } else { 8 };
        estimate.peak = ewma(estimate.peak, rate, shift);
        (estimate.window_octets, estimate.window_begin) = (0, now);
        // Linux never sets the time of the last change.
        if now > estimate.last_change + RECONFIGURE {
            self.options.rate = estimate.peak.wrapping_mul(15) >> 4;
            self.configure(&mut Drops::new());
        }
    }

    /// Returns the time at which the shaper permits the next packet, in ns.
    fn next_turn(&self) -> u64 {
        self.time_next.min(self.failsafe_next) as u64
    }

    /// Skips the rounds in which no tin with packets may send.
    #[cold]
    fn skip_idle_tins(&mut self) {
        let count = self.tin_count();
        // A tin may send from a deficit of 0 on. Its deficit grows while it is at most 0.
        let turn =
            |tin: &Tin, from| idle::of_deficit(tin.deficit.wrapping_sub(from), tin.quantum.into());
        let busy = self.tins.iter().take(count).filter(|tin| tin.busy());
        let rounds = idle::rounds(busy.map(|tin| turn(tin, -1)));
        for tin in self.tins.iter_mut().take(count) {
            let own = idle::rounds(std::iter::once(turn(tin, 0)));
            tin.deficit = idle::after(tin.deficit, tin.quantum.into(), rounds.min(own));
        }
    }

    /// Skips the rounds in which no flow of the tin may send.
    #[cold]
    fn skip_idle_flows(&mut self) {
        let mode = self.options.flows;
        let tin = &mut self.tins[self.tin];
        // This is the largest value of a turn. Except for rounding, no flow gets more than it
        // would round by round.
        let turns = tin.old().map(|at| {
            let quantum = tin.quantum_of(at, mode, u16::MAX);
            (at, idle::of_deficit(tin.flows[at].deficit, quantum))
        });
        let turns: Vec<_> = turns.collect();
        let rounds = idle::rounds(turns.iter().map(|&(_, turn)| turn));
        for (at, turn) in turns {
            let deficit = &mut tin.flows[at].deficit;
            *deficit = idle::after(*deficit, turn.quantum as i32, rounds);
        }
    }

    fn choose_tin(&mut self, now: i64) -> bool {
        if self.rate().ns != 0 {
            let mut best = (i64::MAX, 0);
            for (at, tin) in self.tins.iter().enumerate().take(self.tin_count()) {
                let until = tin.time_next.wrapping_sub(now);
                if tin.busy() && (until <= 0 || until <= best.0) {
                    best = (until, at);
                }
            }
            self.tin = best.1;
            return self.tins[self.tin].busy();
        }
        let (mut wrapped, mut empty) = (false, true);
        loop {
            let tin = &mut self.tins[self.tin];
            if tin.deficit >= 0 && tin.busy() {
                return true;
            }
            if tin.deficit <= 0 {
                tin.deficit = tin.deficit.wrapping_add(i32::from(tin.quantum));
            }
            empty &= !tin.busy();
            self.tin += 1;
            if self.tin >= self.tin_count() {
                self.tin = 0;
                if wrapped && empty {
                    return false;
                }
                if wrapped {
                    self.skip_idle_tins();
                }
                wrapped = true;
            }
        }
    }

    /// Removes an empty flow from its list, or moves it to the decaying flows until its control law
    /// is at rest.
    fn retire(&mut self, at: usize, now: i64) {
        let mode = self.options.flows;
        let tin = &mut self.tins[self.tin];
        let flow = &mut tin.flows[at];
        if flow.vars.empty(&tin.params, now) {
            tin.unresponsive = tin.unresponsive.wrapping_sub(1);
        }
        let (at_rest, set) = (flow.vars.at_rest(now), flow.set);
        flow.set = if at_rest { Set::None } else { Set::Decaying };
        match set {
            Set::Bulk => {
                tin.bulk -= 1;
                tin.count_bulk(at, mode, false);
            }
            Set::Sparse | Set::SparseWait => tin.sparse -= 1,
            Set::Decaying | Set::None => tin.decaying = tin.decaying.saturating_sub(1),
        }
        if at_rest {
            tin.unlink(at);
        } else {
            tin.decaying += 1;
            tin.append(DECAYING, at);
        }
    }

    /// Starts the next turn of a flow.
    fn refill(&mut self, at: usize, random: u16) {
        let mode = self.options.flows;
        let tin = &mut self.tins[self.tin];
        if tin.flows[at].set == Set::Sparse {
            if tin.flows[at].queue.is_empty() {
                tin.flows[at].set = Set::SparseWait;
            } else {
                tin.sparse -= 1;
                tin.bulk += 1;
                tin.count_bulk(at, mode, true);
                tin.flows[at].set = Set::Bulk;
            }
        }
        tin.flows[at].deficit = tin.flows[at]
            .deficit
            .wrapping_add(tin.quantum_of(at, mode, random));
        tin.append(OLD, at);
    }

    /// Dequeues the next packet. Returns it with its flow.
    fn take(&mut self, q: &mut QueueCx<'_, '_, '_>) -> Option<(Waiting, usize)> {
        let now = q.now() as i64;
        let mut first = true;
        let mut refilled = 0;
        'begin: loop {
            if self.load.len == 0 {
                return None;
            }
            if self.time_next > now && self.failsafe_next > now {
                q.note().overlimits += 1;
                q.watchdog(self.next_turn());
                return None;
            }
            if !self.choose_tin(now) {
                return None;
            }
            'retry: loop {
                let tin = &self.tins[self.tin];
                let decaying = tin.first(DECAYING).filter(|_| first);
                let found = decaying
                    .or_else(|| tin.first(NEW))
                    .or_else(|| tin.first(OLD))
                    .or_else(|| tin.first(DECAYING));
                let Some(at) = found else { continue 'begin };
                first = false;
                if tin.flows[at].deficit <= 0 {
                    let random = (q.random() >> 16) as u16;
                    self.refill(at, random);
                    refilled += 1;
                    let tin = &self.tins[self.tin];
                    let others = tin.first(NEW).or_else(|| tin.first(DECAYING));
                    if refilled > FLOWS && others.is_none() {
                        self.skip_idle_flows();
                        refilled = 0;
                    }
                    continue;
                }
                loop {
                    let Some(mut waiting) = self.take_one(self.tin, at) else {
                        self.retire(at, now);
                        continue 'begin;
                    };
                    let tin = &mut self.tins[self.tin];
                    let bulk = match self.options.ingress {
                        true => u64::from(tin.bulk),
                        false => 0,
                    };
                    let flow = &mut tin.flows[at];
                    let random = || q.random();
                    let packet = (&mut waiting.packet, waiting.arrived);
                    let params = &tin.params;
                    let drop = flow.vars.should_drop(params, now, packet, bulk, random);
                    // The last packet of a flow may be marked but not dropped.
                    if !drop || flow.queue.is_empty() {
                        return Some((waiting, at));
                    }
                    flow.dropped = flow.dropped.wrapping_add(1);
                    tin.dropped = tin.dropped.wrapping_add(1);
                    let len = waiting.adjusted;
                    if self.options.ingress {
                        flow.deficit = flow.deficit.wrapping_sub(len as i32);
                        tin.deficit = tin.deficit.wrapping_sub(len as i32);
                        self.advance(self.tin, len, now, true);
                    }
                    q.drop(waiting.packet, DropReason::QDISC_CONGESTED);
                    if self.options.ingress {
                        continue 'retry;
                    }
                }
            }
        }
    }

    /// Appends a packet to a flow of a tin.
    fn append(&mut self, packet: Packet, (at, flow): (usize, usize), now: i64) {
        let (len, adjusted) = (pkt_len(&packet), self.adjusted(&packet));
        let tin = &mut self.tins[at];
        self.memory = self.memory.wrapping_add(truesize(&packet));
        tin.flows[flow].queue.push_back(Waiting {
            packet,
            arrived: now,
            adjusted,
        });
        self.load.add(len);
        tin.packets = tin.packets.wrapping_add(1);
        tin.octets = tin.octets.wrapping_add(u64::from(len));
        tin.backlogs[flow] = tin.backlogs[flow].wrapping_add(len);
        tin.backlog = tin.backlog.wrapping_add(len);
        self.estimate.window_octets = self.estimate.window_octets.wrapping_add(u64::from(len));
    }

    /// Returns the flow that a class stands for (`cake_dump_class_stats`).
    fn class(&self, class: u32) -> Option<(&Tin, usize)> {
        let index = (class as usize).checked_sub(1)?;
        let order = diffserv::order(self.options.tins);
        let tin = &self.tins[usize::from(*order.get(index / FLOWS)?)];
        (!tin.flows.is_empty()).then_some((tin, index % FLOWS))
    }
}

impl Qdisc for Cake {
    fn enqueue(&mut self, q: &mut QueueCx<'_, '_, '_>, packet: Packet) -> Enqueued {
        let (mut packet, class) = match classify(&self.block, q, packet) {
            Ok((packet, class)) => (packet, class.unwrap_or(0)),
            Err(ended) => return ended,
        };
        let (now, len) = (q.now() as i64, pkt_len(&packet));
        let at = self.select_tin(&mut packet);
        let hashes = self.hashes(&mut packet, class);
        let mode = self.options.flows;
        self.tins[at].open();
        let flow = match mode {
            mode::NONE => 0,
            mode => self.tins[at].find(&hashes, mode),
        };
        if self.tins[at].backlog == 0 {
            self.tins[at].time_next = self.tins[at].time_next.max(now);
            if q.waiting(self.load).len == 0 {
                if self.time_next < now {
                    (self.time_next, self.failsafe_next) = (now, now);
                } else if self.time_next > now && self.failsafe_next > now {
                    q.note().overlimits += 1;
                    q.watchdog(self.next_turn());
                }
            }
        }
        self.tins[at].max_len = self.tins[at].max_len.max(len);
        let splits = self.options.split_gso && packet.segments().is_some();
        if splits {
            match q.segments(packet) {
                Ok(mut segments) => {
                    for segment in segments.drain(..) {
                        self.append(segment, (at, flow), now);
                    }
                    q.cx.keep_list(segments);
                }
                Err(packet) => return q.drop(packet, DropReason::QDISC_DROP),
            }
        } else {
            self.append(packet, (at, flow), now);
        }
        let tin = &mut self.tins[at];
        if self.options.ack_filter != 0 && !splits {
            let queue = &mut tin.flows[flow].queue;
            let aggressive = self.options.ack_filter == AGGRESSIVE;
            let found = ack::redundant(queue, aggressive);
            if let Some(ack) = found.and_then(|found| queue.remove(found)) {
                let len = pkt_len(&ack.packet);
                tin.ack_drops = tin.ack_drops.wrapping_add(1);
                tin.backlogs[flow] = tin.backlogs[flow].wrapping_sub(len);
                tin.backlog = tin.backlog.wrapping_sub(len);
                self.load.sub(len);
                self.memory = self.memory.wrapping_sub(truesize(&ack.packet));
                self.estimate.window_octets =
                    self.estimate.window_octets.wrapping_sub(u64::from(len));
                if self.options.ingress {
                    self.advance(at, ack.adjusted, now, true);
                }
                q.drop(ack.packet, DropReason::QDISC_DROP);
            }
        }
        if self.longest.kept != 0 {
            let place = self.longest.place(at, flow);
            self.longest.rise(&self.tins, place);
        }
        self.estimate(now);
        let tin = &mut self.tins[at];
        match tin.flows[flow].set {
            Set::None | Set::Decaying => {
                if tin.flows[flow].set == Set::Decaying {
                    tin.decaying -= 1;
                }
                tin.append(NEW, flow);
                tin.flows[flow].set = Set::Sparse;
                tin.sparse += 1;
                let random = (q.random() >> 16) as u16;
                tin.flows[flow].deficit = tin.quantum_of(flow, mode, random);
            }
            Set::SparseWait => {
                tin.flows[flow].set = Set::Bulk;
                tin.sparse -= 1;
                tin.bulk += 1;
                tin.count_bulk(flow, mode, true);
            }
            Set::Sparse | Set::Bulk => {}
        }
        self.memory_max = self.memory_max.max(self.memory);
        let mut same = false;
        while self.memory > self.memory_limit && self.load.len > 0 {
            same |= self.drop_longest(q, now) == Some((at, flow));
        }
        match same {
            true => Enqueued::Congested,
            false => Enqueued::Queued,
        }
    }

    fn dequeue(&mut self, q: &mut QueueCx<'_, '_, '_>) -> Option<Packet> {
        let now = q.now() as i64;
        let (waiting, flow) = self.take(q)?;
        let (tin, len) = (&mut self.tins[self.tin], waiting.adjusted);
        let marked = tin.flows[flow].vars.marked;
        tin.marked = tin.marked.wrapping_add(u32::from(marked));
        let waited = now.wrapping_sub(waiting.arrived) as u64;
        let (mean, peak, base) = &mut tin.delays;
        *mean = ewma(*mean, waited, 8);
        *peak = ewma(*peak, waited, if waited > *peak { 2 } else { 8 });
        *base = ewma(*base, waited, if waited < *base { 2 } else { 8 });
        tin.flows[flow].deficit = tin.flows[flow].deficit.wrapping_sub(len as i32);
        tin.deficit = tin.deficit.wrapping_sub(len as i32);
        self.advance(self.tin, len, now, false);
        if self.time_next > now && self.load.len > 0 {
            q.watchdog(self.next_turn());
        }
        self.longest.kept = self.longest.kept.saturating_sub(1);
        Some(waiting.packet)
    }

    fn load(&self) -> Load {
        self.load
    }

    fn reset(&mut self, out: &mut Drops) {
        for at in 0..TINS {
            self.clear_tin(at, out);
        }
    }

    fn change(&mut self, create: &Create<'_>, gone: &mut Gone) -> Result<(), Error> {
        self.mtu = create.psched_mtu();
        if let Some(options) = create.options {
            let tb = options.parse(&POLICY, Strictness::Liberal)?;
            let o = &mut self.options;
            let flag = |ty, to: &mut bool| -> Result<(), Error> {
                *to = tb.u32(ty)?.map_or(*to, |value| value != 0);
                Ok(())
            };
            if let Some(nat) = tb.u32(attr::NAT)? {
                o.flows = (o.flows & mode::MASK) | if nat != 0 { mode::NAT } else { 0 };
            }
            o.rate = tb.u64(attr::BASE_RATE64)?.unwrap_or(o.rate);
            o.tins = tb
                .u32(attr::DIFFSERV_MODE)?
                .map_or(o.tins, |tins| tins as u8);
            flag(attr::WASH, &mut o.wash)?;
            if let Some(flows) = tb.u32(attr::FLOW_MODE)? {
                o.flows = (o.flows & mode::NAT) | (flows as u8 & mode::MASK);
            }
            o.atm = tb.u32(attr::ATM)?.map_or(o.atm, |atm| atm as u8);
            if let Some(overhead) = tb.i32(attr::OVERHEAD)? {
                (o.overhead, o.counts_overhead) = (overhead as i16, true);
                self.lengths = Lengths::NONE;
            }
            if tb.has(attr::RAW) {
                o.counts_overhead = false;
                self.lengths = Lengths::NONE;
            }
            o.mpu = tb.u32(attr::MPU)?.map_or(o.mpu, |mpu| mpu as u16);
            o.rtt = tb
                .u32(attr::RTT)?
                .map_or(o.rtt, |rtt| u64::from(rtt.max(1)));
            let target = tb.u32(attr::TARGET)?;
            o.target = target.map_or(o.target, |target| u64::from(target.max(1)));
            flag(attr::AUTORATE, &mut o.autorate)?;
            flag(attr::INGRESS, &mut o.ingress)?;
            let filter = tb.u32(attr::ACK_FILTER)?;
            o.ack_filter = filter.map_or(o.ack_filter, |filter| filter as u8);
            o.memory = tb.u32(attr::MEMORY)?.unwrap_or(o.memory);
            flag(attr::SPLIT_GSO, &mut o.split_gso)?;
            o.fwmark = tb.u32(attr::FWMARK)?.unwrap_or(o.fwmark);
        }
        self.configure(&mut gone.drops);
        Ok(())
    }

    fn settle(&mut self, now: u64) {
        self.now = now as i64;
    }

    fn dump(&self, w: &mut Writer) {
        let o = &self.options;
        let nest = w.nest_noflag(tca::OPTIONS);
        w.put_u64_pad(attr::BASE_RATE64, o.rate, attr::PAD);
        w.put_u32(attr::FLOW_MODE, u32::from(o.flows & mode::MASK));
        w.put_u32(attr::RTT, o.rtt as u32);
        w.put_u32(attr::TARGET, o.target as u32);
        w.put_u32(attr::MEMORY, o.memory);
        w.put_u32(attr::AUTORATE, u32::from(o.autorate));
        w.put_u32(attr::INGRESS, u32::from(o.ingress));
        w.put_u32(attr::ACK_FILTER, u32::from(o.ack_filter));
        w.put_u32(attr::NAT, u32::from(o.flows & mode::NAT != 0));
        w.put_u32(attr::DIFFSERV_MODE, u32::from(o.tins));
        w.put_u32(attr::WASH, u32::from(o.wash));
        w.put_i32(attr::OVERHEAD, i32::from(o.overhead));
        if !o.counts_overhead {
            w.put_u32(attr::RAW, 0);
        }
        w.put_u32(attr::ATM, u32::from(o.atm));
        w.put_u32(attr::MPU, u32::from(o.mpu));
        w.put_u32(attr::SPLIT_GSO, u32::from(o.split_gso));
        w.put_u32(attr::FWMARK, o.fwmark);
        w.end(nest);
    }

    fn app_stats(&self) -> Option<Vec<u8>> {
        Some(self.put_stats())
    }

    fn filters(&self) -> Option<&Arc<Block>> {
        Some(&self.block)
    }

    fn classes(&self) -> Vec<u32> {
        let order = diffserv::order(self.options.tins);
        let tins = (0..).step_by(FLOWS).zip(order);
        let listed = |(first, at): (u32, &u8)| {
            let tin = &self.tins[usize::from(*at)];
            let flows = (0..tin.flows.len()).filter(|flow| tin.is_listed(*flow));
            flows.map(move |flow| first + flow as u32 + 1)
        };
        tins.flat_map(listed).collect()
    }

    fn dump_class(&self, class: u32, tcm: &mut TcMsg, _w: &mut Writer) {
        tcm.handle |= class & h::MIN_MASK;
    }

    fn class_stats(&self, class: u32) -> Option<ClassStats> {
        let (tin, at) = self.class(class)?;
        let flow = &tin.flows[at];
        Some(ClassStats {
            queue: Queue {
                qlen: flow.queue.len() as u32,
                backlog: tin.backlogs[at],
                drops: flow.dropped,
                ..Queue::default()
            },
            app: Some(flow.put_stats(self.now)),
            queue_only: true,
            ..ClassStats::default()
        })
    }
}
