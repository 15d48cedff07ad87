// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `choke`: RED that also drops a packet together with a randomly drawn waiting packet of the same
//! flow.
//!
//! Mirrors net/sched/sch_choke.c (Pan, Prabhakar and Psounis, 2000). The parameters are those of
//! `red`, but `limit`, `min` and `max` are in packets and the limit is at most 131071. Drops,
//! including those of drawn packets, have the reason QDISC_CONGESTED; drops over the limit have
//! QDISC_OVERLIMIT. `adaptive` is accepted and has no effect, as in Linux.

use std::collections::VecDeque;

use weir_netlink::errno::EINVAL;
use weir_netlink::tca::{self, choke as attr};
use weir_netlink::{Error, Fixed, Policy, Rule, TcRedQopt, Writer, policy};
use weir_packet::{DropReason, Packet};

use super::red::{self, Action, Params, Vars};
use super::{Create, Drops, Enqueued, Front, Gone, Load, Ops, Peek, Qdisc, QueueCx};
use super::{ecn, packet_hash, pkt_len, table, words};

/// The entry of this kind in the table of kinds.
pub const OPS: Ops = Ops {
    can_change: true,
    ..Ops::new("choke", create)
};

static POLICY: Policy = policy! { max attr::MAX;
    attr::PARMS => Rule::unspec(TcRedQopt::LEN as u16),
    attr::STAB => Rule::unspec(red::STAB as u16),
    attr::MAX_P => Rule::u32(),
};

/// Largest limit, in packets (`CHOKE_MAX_QUEUE`).
const MAX_QUEUE: u32 = 128 * 1024 - 1;

/// The state of the qdisc.
struct Choke {
    /// The queue. A drawn packet leaves a hole, so that the indices of the others stay the same.
    queue: VecDeque<Option<Packet>>,
    load: Load,
    limit: u32,
    flags: u8,
    params: Params,
    vars: Vars,
    early: u32,
    limited: u32,
    marked: u32,
    matched: u32,
}

fn parse(create: &Create<'_>) -> Result<(TcRedQopt, Params), Error> {
    let options = create.options.ok_or(Error::new(EINVAL))?;
    let tb = table(Some(options), &POLICY)?;
    let parms = tb
        .get(attr::PARMS)
        .and_then(|parms| TcRedQopt::from_bytes(parms.payload));
    let stab = tb.get(attr::STAB).map(|stab| stab.payload);
    let (Some(qopt), Some(stab)) = (parms, stab) else {
        return Err(Error::new(EINVAL));
    };
    let fits = red::check(
        qopt.qth_min,
        qopt.qth_max,
        qopt.wlog,
        qopt.scell_log,
        Some(stab),
    );
    if !fits || qopt.limit > MAX_QUEUE {
        return Err(Error::new(EINVAL));
    }
    let max_p = tb.u32(attr::MAX_P)?.unwrap_or(0);
    Ok((qopt, Params::new(&qopt, Some(stab), max_p)))
}

fn create(create: &Create<'_>) -> Result<Box<dyn Qdisc>, Error> {
    let (qopt, params) = parse(create)?;
    Ok(Box::new(Choke {
        queue: VecDeque::new(),
        load: Load::default(),
        limit: qopt.limit,
        flags: qopt.flags,
        params,
        vars: Vars::new(),
        early: 0,
        limited: 0,
        marked: 0,
        matched: 0,
    }))
}

impl Choke {
    /// Removes the holes at both ends.
    fn trim(&mut self) {
        while matches!(self.queue.front(), Some(None)) {
            self.queue.pop_front();
        }
        while matches!(self.queue.back(), Some(None)) {
            self.queue.pop_back();
        }
    }

    /// Draws a packet from the queue and returns its index if it is of the same flow
    /// (`choke_match_random`).
    fn draw(&mut self, packet: &mut Packet, q: &mut QueueCx<'_, '_, '_>) -> Option<usize> {
        if self.queue.is_empty() {
            return None;
        }
        let mut at = 0;
        for _ in 0..3 {
            at = super::scale(q.random(), self.queue.len() as u32) as usize;
            if self.queue[at].is_some() {
                break;
            }
            at = 0;
        }
        let drawn = self.queue[at].as_mut()?;
        let same = drawn.protocol == packet.protocol && packet_hash(drawn) == packet_hash(packet);
        same.then_some(at)
    }

    fn take(&mut self, at: usize) -> Option<Packet> {
        let packet = self.queue.get_mut(at)?.take()?;
        self.load.sub(pkt_len(&packet));
        self.trim();
        Some(packet)
    }

    /// Returns whether a packet must be dropped, either by RED or with a drawn packet of its flow.
    fn congested(&mut self, packet: &mut Packet, q: &mut QueueCx<'_, '_, '_>) -> bool {
        if self.vars.average <= u64::from(self.params.min) {
            self.vars.pass();
            return false;
        }
        if let Some(at) = self.draw(packet, q) {
            self.matched += 1;
            if let Some(drawn) = self.take(at) {
                q.drop(drawn, DropReason::QDISC_CONGESTED);
            }
            return true;
        }
        let may_mark = match self.vars.action(&self.params, q) {
            Action::Pass => return false,
            Action::Chance => true,
            Action::Forced => self.flags & red::HARDDROP == 0,
        };
        q.note().overlimits += 1;
        if may_mark && self.flags & red::ECN != 0 && ecn::set_ce(packet) {
            self.marked += 1;
            return false;
        }
        self.early += 1;
        true
    }
}

impl Qdisc for Choke {
    fn enqueue(&mut self, q: &mut QueueCx<'_, '_, '_>, packet: Packet) -> Enqueued {
        let mut packet = packet;
        let waiting = q.waiting(self.load).len;
        self.vars.update(&self.params, waiting, q.now());
        self.vars.end_idle();
        if self.congested(&mut packet, q) {
            q.drop(packet, DropReason::QDISC_CONGESTED);
            return Enqueued::Congested;
        }
        if waiting >= self.limit {
            self.limited += 1;
            return q.drop(packet, DropReason::QDISC_OVERLIMIT);
        }
        self.load.add(pkt_len(&packet));
        self.queue.push_back(Some(packet));
        Enqueued::Queued
    }

    fn dequeue(&mut self, q: &mut QueueCx<'_, '_, '_>) -> Option<Packet> {
        let packet = self.take(0);
        if packet.is_none() && !self.vars.is_idle() {
            self.vars.start_idle(q.now());
        }
        packet
    }

    fn peek(&mut self, _q: &mut QueueCx<'_, '_, '_>) -> Peek {
        Peek::Next(self.queue.front().and_then(Option::as_ref).map(Front::of))
    }

    fn load(&self) -> Load {
        self.load
    }

    fn reset(&mut self, out: &mut Drops) {
        let all = self.queue.drain(..).flatten();
        out.extend(all.map(|packet| (packet, DropReason::QDISC_DROP)));
        self.load = Load::default();
        self.vars = Vars::new();
    }

    fn change(&mut self, create: &Create<'_>, gone: &mut Gone) -> Result<(), Error> {
        let (qopt, params) = parse(create)?;
        (self.limit, self.flags, self.params) = (qopt.limit, qopt.flags, params);
        let mut kept = 0;
        // As many packets stay as the table of the new size has slots.
        let places = (self.limit + 1).next_power_of_two() - 1;
        for place in &mut self.queue {
            if let Some(packet) = place.take_if(|_| kept >= places) {
                self.load.sub(pkt_len(&packet));
                gone.drops.push((packet, DropReason::QDISC_OVERLIMIT));
                gone.counted += 1;
            }
            kept += u32::from(place.is_some());
        }
        self.trim();
        let idle = !self.queue.is_empty() && self.vars.is_idle();
        self.vars = Vars::new();
        if idle {
            self.vars.start_idle(create.now());
        }
        Ok(())
    }

    fn dump(&self, w: &mut Writer) {
        let nest = w.nest_noflag(tca::OPTIONS);
        w.put_fixed(attr::PARMS, &self.params.qopt(self.limit, self.flags));
        w.put_u32(attr::MAX_P, self.params.max_p);
        w.end(nest);
    }

    /// Returns `struct tc_choke_xstats`.
    fn app_stats(&self) -> Option<Vec<u8>> {
        let other = 0;
        Some(words(&[
            self.early,
            self.limited,
            other,
            self.marked,
            self.matched,
        ]))
    }
}
