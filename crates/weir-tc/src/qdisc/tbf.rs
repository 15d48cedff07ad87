// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `tbf`: a token bucket, with a second one for the peak rate.
//!
//! Mirrors net/sched/sch_tbf.c. Parameters: `rate` (bytes per second, with overhead, mpu and link
//! layer), `burst` (bytes, or the time they take), `limit` (bytes of the initial `bfifo`; tc
//! computes it from `latency`), `peakrate` (above the rate), `mtu` (burst of the peak rate). A
//! packet larger than a burst is dropped (QDISC_DROP), unless it is a long packet (GSO) whose segments are not. A packet leaves when both buckets hold its
//! transmission time, exact to the nanosecond. Credit grows up to the burst.
//!
//! It has one class, `:1`, whose queue can be replaced; the limit then has no effect. Offload is
//! not supported.

use weir_netlink::errno::EINVAL;
use weir_netlink::tca::{self, tbf as attr};
use weir_netlink::{Error, Fixed, Policy, Rule, TcTbfQopt, Writer, policy};
use weir_packet::{DropReason, Packet};

use super::{Create, Drops, Enqueued, Gone, Leaf, Load, Ops, Qdisc, QueueCx, pkt_len, table};
use crate::rate::{self, Rate, TABLE_LEN, ns_to_ticks, ticks_to_ns};

/// The entry of this kind in the table of kinds.
pub const OPS: Ops = Ops {
    can_change: true,
    classful: true,
    ..Ops::new("tbf", create)
};

static POLICY: Policy = policy! { max attr::MAX;
    attr::PARMS => Rule::unspec(TcTbfQopt::LEN as u16),
    attr::RTAB => Rule::binary(TABLE_LEN as u16),
    attr::PTAB => Rule::binary(TABLE_LEN as u16),
    attr::RATE64 => Rule::u64(),
    attr::PRATE64 => Rule::u64(),
    attr::BURST => Rule::u32(),
    attr::PBURST => Rule::u32(),
};

/// The parameters of a request.
#[derive(Debug, Default)]
struct Params {
    limit: u32,
    max_size: u64,
    /// Bucket depth of `rate`, in ns. `mtu` is that of the peak rate.
    buffer: i64,
    mtu: i64,
    rate: Rate,
    peak: Option<Rate>,
}

/// The state of the qdisc.
#[derive(Default)]
pub struct Tbf {
    params: Params,
    /// Credit, in ns.
    tokens: i64,
    peak_tokens: i64,
    /// Time at which the credit was computed, in ns.
    at: u64,
    /// Whether the next packet needs more than the buckets hold. It waits for a change of the
    /// options.
    stuck: bool,
    child: Leaf,
    total: Load,
}

fn parse(create: &Create<'_>) -> Result<Params, Error> {
    let tb = table(create.options, &POLICY)?;
    let parms = tb.get(attr::PARMS).ok_or(Error::new(EINVAL))?;
    let mut qopt = TcTbfQopt::from_bytes(parms.payload).ok_or(Error::new(EINVAL))?;
    // The tables only name the link layer. An unusable table is ignored.
    for (spec, ty) in [
        (&mut qopt.rate, attr::RTAB),
        (&mut qopt.peakrate, attr::PTAB),
    ] {
        if spec.linklayer == tca::linklayer::UNAWARE {
            rate::check_table(spec, tb.get(ty).map(|table| table.payload));
        }
    }
    let bounded = |ticks: u32| ticks_to_ns(u64::from(ticks)).min(u64::from(u32::MAX));
    let all = |ticks: u32| ticks_to_ns(u64::from(ticks)) as i64;
    let long = |ty| tb.get(ty).map_or(Ok(0), |attr| attr.u64());
    let short = |ty| tb.get(ty).map(|attr| attr.u32()).transpose();

    let rate = Rate::of(&qopt.rate, long(attr::RATE64)?);
    let (mut max_size, buffer) = match short(attr::BURST)? {
        Some(burst) => (u64::from(burst), rate.time_of(burst) as i64),
        None => {
            let size = rate.octets_in(bounded(qopt.buffer));
            (size.min(u64::from(u32::MAX)), all(qopt.buffer))
        }
    };
    let (mut peak, mut mtu) = (None, all(qopt.mtu));
    if qopt.peakrate.rate != 0 {
        let fast = Rate::of(&qopt.peakrate, long(attr::PRATE64)?);
        if fast.per_second <= rate.per_second {
            return Err(Error::new(EINVAL));
        }
        match short(attr::PBURST)? {
            Some(burst) => {
                max_size = max_size.min(u64::from(burst));
                mtu = fast.time_of(burst) as i64;
            }
            None => max_size = max_size.min(fast.octets_in(bounded(qopt.mtu))),
        }
        peak = Some(fast);
    }
    if max_size == 0 {
        return Err(Error::new(EINVAL));
    }
    Ok(Params {
        limit: qopt.limit,
        max_size,
        buffer,
        mtu,
        rate,
        peak,
    })
}

fn create(create: &Create<'_>) -> Result<Box<dyn Qdisc>, Error> {
    create.options.ok_or(Error::new(EINVAL))?;
    let mut tbf = Tbf {
        at: create.now(),
        ..Tbf::default()
    };
    tbf.set(parse(create)?, create, &mut Gone::default());
    Ok(Box::new(tbf))
}

impl Tbf {
    fn set(&mut self, params: Params, create: &Create<'_>, gone: &mut Gone) {
        match self.child.node() {
            Some(child) => child.lock().qdisc.set_limit(params.limit),
            None if params.limit > 0 => {
                self.child
                    .replace(create.bfifo(params.limit), &mut self.total, gone);
            }
            None => {}
        }
        (self.tokens, self.peak_tokens) = (params.buffer, params.mtu);
        self.params = params;
    }
}

impl Qdisc for Tbf {
    fn enqueue(&mut self, q: &mut QueueCx<'_, '_, '_>, packet: Packet) -> Enqueued {
        if u64::from(pkt_len(&packet)) > self.params.max_size {
            let most = self.params.max_size;
            let fits = |packet: &Packet| packet.wire_frame_len() as u64 <= most;
            if packet.segments().is_none() || !fits(&packet) {
                return q.drop(packet, DropReason::QDISC_DROP);
            }
            return q.enqueue_segments(packet, |q, segment| {
                self.child.enqueue(q, segment, &mut self.total).0
            });
        }
        self.child.enqueue(q, packet, &mut self.total).0
    }

    fn dequeue(&mut self, q: &mut QueueCx<'_, '_, '_>) -> Option<Packet> {
        let len = self.child.peek(q, &mut self.total)?;
        let params = &self.params;
        let now = q.now();
        let left_after = |elapsed: i64| {
            let peak_tokens = params.peak.map_or(0, |peak| {
                let tokens = elapsed.wrapping_add(self.peak_tokens).min(params.mtu);
                tokens.wrapping_sub(peak.time_of(len) as i64)
            });
            let tokens = elapsed.wrapping_add(self.tokens).min(params.buffer);
            let tokens = tokens.wrapping_sub(params.rate.time_of(len) as i64);
            (tokens, peak_tokens)
        };
        let elapsed = (now.wrapping_sub(self.at) as i64).min(params.buffer);
        let (tokens, peak_tokens) = left_after(elapsed);
        if tokens < 0 || peak_tokens < 0 {
            q.note().overlimits += 1;
            // Even full buckets are not enough. Linux retries forever without success.
            let (most, peak_most) = left_after(params.buffer);
            self.stuck = most < 0 || peak_most < 0;
            if !self.stuck {
                let wait = tokens.wrapping_neg().max(peak_tokens.wrapping_neg());
                q.watchdog(now.wrapping_add(wait as u64));
            }
            return None;
        }
        let packet = self.child.dequeue(q, &mut self.total).0?;
        (self.at, self.tokens, self.peak_tokens) = (now, tokens, peak_tokens);
        Some(packet)
    }

    fn load(&self) -> Load {
        self.total
    }

    fn reset(&mut self, out: &mut Drops) {
        self.child.purge(&mut self.total, out);
        (self.tokens, self.peak_tokens) = (self.params.buffer, self.params.mtu);
    }

    fn change(&mut self, create: &Create<'_>, gone: &mut Gone) -> Result<(), Error> {
        self.set(parse(create)?, create, gone);
        gone.wake |= std::mem::take(&mut self.stuck);
        Ok(())
    }

    fn dump(&self, w: &mut Writer) {
        let params = &self.params;
        let nest = w.nest_noflag(tca::OPTIONS);
        let qopt = TcTbfQopt {
            limit: params.limit,
            rate: params.rate.spec(),
            peakrate: params.peak.map(|peak| peak.spec()).unwrap_or_default(),
            mtu: ns_to_ticks(params.mtu as u64) as u32,
            buffer: ns_to_ticks(params.buffer as u64) as u32,
        };
        w.put_fixed(attr::PARMS, &qopt);
        let rates = [
            (attr::RATE64, Some(params.rate)),
            (attr::PRATE64, params.peak),
        ];
        for (ty, rate) in rates {
            if let Some(rate) = rate.filter(|rate| rate.per_second > u64::from(u32::MAX)) {
                w.put_u64_pad(ty, rate.per_second, attr::PAD);
            }
        }
        w.end(nest);
    }

    fn slot(&self, _class: u32) -> Option<&Leaf> {
        Some(&self.child)
    }

    fn slot_mut(&mut self, _class: u32) -> Option<(&mut Leaf, &mut Load)> {
        Some((&mut self.child, &mut self.total))
    }
}
