// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `police`: distinguishes packets within a rate from those that exceed it.
//!
//! Mirrors net/sched/act_police.c.
//!
//! Parameters:
//! - `rate` and `burst` (bytes per second, bytes);
//! - `peakrate` and `mtu` (bytes per second, bytes): a packet longer than the MTU exceeds the rate;
//!   default: 255 cells of the rate's table, or no limit;
//! - `pkts_rate` and `pkts_burst` (packets) instead of a rate;
//! - `conform-exceed`: the verdict on packets that exceed the rate (the control action; default of
//!   tc: reclassify) and on those within it (default: pass; may not go to a chain);
//! - `avrate` (bytes per second): packets exceed the rate unless the average is below it. This
//!   needs the filter's rate estimator (EINVAL without one; `tc actions` gives none).
//!
//! Without any rate only the MTU counts.
//!
//! A packet that exceeds the rate counts as an overlimit; a dropped packet, on either side, counts
//! as a drop.

use weir_netlink::errno::{EINVAL, ENOMEM};
use weir_netlink::tca::police as attr;
use weir_netlink::{Attr, Error, Fixed, Policy, Rule, TcGen, TcPolice, Writer, policy};
use weir_packet::Packet;
use weir_sync::rcu::Published;
use weir_sync::spin::SpinLock;

use super::{Common, Kind, Spec};
use crate::context::Context;
use crate::env::Env;
use crate::host::Host;
use crate::rate::{Rate, TABLE_LEN, check_table, ns_to_ticks, ticks_to_ns};
use crate::verdict::{Code, Outcome, code};

#[cfg(test)]
mod tests;

/// Size of the parameters of old clients, which lack the counts, in bytes.
const COMPAT_LEN: usize = 44;

static POLICY: Policy = policy! { max attr::MAX;
    attr::RATE => Rule::unspec(TABLE_LEN as u16),
    attr::PEAKRATE => Rule::unspec(TABLE_LEN as u16),
    attr::AVRATE => Rule::u32(),
    attr::RESULT => Rule::u32(),
    attr::RATE64 => Rule::u64(),
    attr::PEAKRATE64 => Rule::u64(),
    attr::PKTRATE64 => Rule::u64(),
    attr::PKTBURST64 => Rule::u64(),
};

/// The parameters of an action.
#[derive(Debug, Clone)]
pub struct Params {
    /// The verdict on packets within the rate.
    result: Code,
    mtu: u32,
    /// The credit limits in nanoseconds: of the rate, of the peak rate and of the packet rate.
    burst: i64,
    mtu_burst: i64,
    packet_burst: i64,
    rate: Option<Rate>,
    peak: Option<Rate>,
    packets: Option<Rate>,
    /// The limit of the average rate in bytes per second; 0 for none.
    average: u32,
    /// The time of the request that set the parameters.
    now: u64,
}

/// The remaining credit in nanoseconds.
#[derive(Debug, Default)]
struct Tokens {
    /// The time of the last update in nanoseconds of the stack's clock.
    at: u64,
    rate: i64,
    peak: i64,
    packets: i64,
}

/// The kind's part of an action.
pub struct Police {
    params: Published<Params>,
    /// Guards the credit. It is held only for some arithmetic.
    tokens: SpinLock<Tokens>,
}

impl Tokens {
    /// Subtracts a packet's time from the credit. Returns `false` and changes nothing if the credit
    /// is too small.
    fn take(&mut self, params: &Params, now: u64, len: u32) -> bool {
        let elapsed = now.saturating_sub(self.at);
        let earned = |bound: i64| i64::try_from(elapsed).unwrap_or(i64::MAX).min(bound);
        let (mut rate, mut peak, mut packets) = (earned(params.burst), 0, 0);
        if let Some(peak_rate) = &params.peak {
            peak = rate.saturating_add(self.peak).min(params.mtu_burst);
            peak = peak.wrapping_sub(peak_rate.time_of(len) as i64);
        }
        if let Some(byte_rate) = &params.rate {
            rate = rate.saturating_add(self.rate).min(params.burst);
            rate = rate.wrapping_sub(byte_rate.time_of(len) as i64);
        } else if let Some(packet_rate) = &params.packets {
            packets = earned(params.packet_burst).saturating_add(self.packets);
            packets = packets.min(params.packet_burst);
            packets = packets.wrapping_sub(packet_rate.time_of_units(1) as i64);
        }
        if rate < 0 || peak < 0 || packets < 0 {
            return false;
        }
        *self = Tokens {
            at: now,
            rate,
            peak,
            packets,
        };
        true
    }
}

impl Kind for Police {
    fn run<'g>(
        &'g self,
        common: &'g Common,
        cx: &mut Context<'_, 'g>,
        packet: &mut Packet,
        _out: &mut Outcome<'g>,
    ) -> Code {
        common.hit(cx);
        let params = self.params.load(cx.guard);
        let len = u32::try_from(cx.packet_len()).unwrap_or(u32::MAX);
        let frame = match packet.segments() {
            // Each segment must fit (`skb_gso_validate_mac_len`).
            Some(segments) => (segments.longest() + packet.mac_len()) as u32,
            None if cx.ingress => len.saturating_add(Context::mac_len(packet) as u32),
            None => len,
        };
        let mut result = common.control();
        let within = params.average == 0 || {
            let average = common.rate(cx.now, cx.guard);
            average.is_some_and(|(bytes, _)| bytes < u64::from(params.average))
        };
        let conforms = within && frame <= params.mtu && {
            if params.rate.is_none() && params.packets.is_none() {
                return params.result;
            }
            self.tokens.lock().take(params, cx.now, len)
        };
        if conforms {
            result = params.result;
        } else {
            common.counters.count_overlimit(cx.cpu);
        }
        if result == code::SHOT {
            common.counters.count_drop(cx.cpu);
        }
        result
    }

    fn dump(&self, common: &Common, start: TcGen, env: &Env<'_>, w: &mut Writer) {
        let params = self.params.load(env.guard);
        let large = |w: &mut Writer, ty, rate: &Option<Rate>| {
            if let Some(rate) = rate.filter(|rate| rate.per_second > u64::from(u32::MAX)) {
                w.put_u64(ty, rate.per_second);
            }
        };
        large(w, attr::RATE64, &params.rate);
        large(w, attr::PEAKRATE64, &params.peak);
        if let Some(packets) = &params.packets {
            w.put_u64(attr::PKTRATE64, packets.per_second);
            w.put_u64(attr::PKTBURST64, ns_to_ticks(params.packet_burst as u64));
        }
        let parms = TcPolice {
            index: start.index,
            action: start.action,
            burst: ns_to_ticks(params.burst as u64) as u32,
            mtu: params.mtu,
            rate: params.rate.map(|rate| rate.spec()).unwrap_or_default(),
            peakrate: params.peak.map(|rate| rate.spec()).unwrap_or_default(),
            refcnt: start.refcnt,
            bindcnt: start.bindcnt,
            ..TcPolice::default()
        };
        w.put_fixed(attr::TBF, &parms);
        if params.result != code::OK {
            w.put_u32(attr::RESULT, params.result as u32);
        }
        if params.average != 0 {
            w.put_u32(attr::AVRATE, params.average);
        }
        w.put_fixed(attr::TM, &common.ages(env));
    }

    fn offload(&self, common: &Common, env: &Env<'_>) -> Result<(), Option<&'static str>> {
        let could = |code| match code::opcode(code) {
            0 => matches!(code, code::OK | code::SHOT | code::PIPE),
            _ => true,
        };
        let both = could(common.control()) && could(self.params.load(env.guard).result);
        let message = "act_api: Failed to setup tc actions for offload";
        both.then_some(()).ok_or(Some(message))
    }
}

/// Options whose syntax has been checked.
pub struct Request {
    parms: TcPolice,
    rate_table: Option<Vec<u8>>,
    peak_table: Option<Vec<u8>>,
    avrate: Option<u32>,
    /// Whether there is a rate estimator.
    rated: Result<bool, Error>,
    result: Option<Code>,
    rate64: u64,
    peakrate64: u64,
    packet_rate: Option<u64>,
    packet_burst: Option<u64>,
}

impl Spec for Police {
    const KIND: &'static str = "police";
    type Request = Request;
    type Params = Params;

    fn parse(options: Option<&Attr<'_>>) -> Result<(u32, Request), Error> {
        let tb = options.ok_or(Error::new(EINVAL))?.parse_quietly(&POLICY)?;
        let parms = tb.get(attr::TBF).ok_or(Error::new(EINVAL))?;
        let mut bytes = [0; TcPolice::LEN];
        match parms.len() {
            TcPolice::LEN | COMPAT_LEN => bytes[..parms.len()].copy_from_slice(parms.payload),
            _ => return Err(Error::new(EINVAL)),
        }
        let parms = TcPolice::from_bytes(&bytes).ok_or(Error::new(EINVAL))?;
        let number = |ty| tb.get(ty).map(|attr| attr.u64()).transpose();
        let table = |ty| tb.get(ty).map(|attr| attr.payload.to_vec());
        let request = Request {
            parms,
            rate_table: table(attr::RATE),
            peak_table: table(attr::PEAKRATE),
            avrate: tb.get(attr::AVRATE).map(|attr| attr.u32()).transpose()?,
            rated: Ok(false),
            result: tb.get(attr::RESULT).map(|attr| attr.i32()).transpose()?,
            rate64: number(attr::RATE64)?.unwrap_or_default(),
            peakrate64: number(attr::PEAKRATE64)?.unwrap_or_default(),
            packet_rate: number(attr::PKTRATE64)?,
            packet_burst: number(attr::PKTBURST64)?,
        };
        Ok((parms.index, request))
    }

    /// Only stores the result, which is checked later in the order of Linux's checks.
    fn rated(request: &mut Request, rated: Result<bool, Error>) -> Result<(), Error> {
        request.rated = rated;
        Ok(())
    }

    fn control(request: &Request) -> Code {
        request.parms.action
    }

    fn prepare(request: Request, host: &dyn Host) -> Result<Params, Error> {
        let text = |message: &'static str| Err(Error::msg(EINVAL, message));
        let mut parms = request.parms;
        let (mut rate, mut peak) = (None, None);
        if parms.rate.rate != 0 {
            if !check_table(&mut parms.rate, request.rate_table.as_deref()) {
                return Err(Error::new(ENOMEM));
            }
            rate = Some(Rate::of(&parms.rate, request.rate64));
            if parms.peakrate.rate != 0 {
                if !check_table(&mut parms.peakrate, request.peak_table.as_deref()) {
                    return Err(Error::new(ENOMEM));
                }
                peak = Some(Rate::of(&parms.peakrate, request.peakrate64));
            }
        }
        if !request.rated? && request.avrate.is_some() {
            return Err(Error::new(EINVAL));
        }
        let result = request.result.unwrap_or(code::OK);
        if !code::is_valid(result) {
            return text("invalid fallback control action");
        }
        if code::is_goto(result) {
            return text("goto chain not allowed on fallback");
        }
        if request.packet_rate.is_some() != request.packet_burst.is_some() {
            return text("Both or neither packet-per-second burst and rate must be provided");
        }
        if request.packet_rate.is_some() && rate.is_some() {
            return text(
                "packet-per-second and byte-per-second rate limits not allowed in same action",
            );
        }
        let mtu = match (parms.mtu, &rate) {
            (0, Some(_)) => 255 << parms.rate.cell_log,
            (0, None) => u32::MAX,
            (mtu, _) => mtu,
        };
        let ns = |ticks: u64| i64::try_from(ticks_to_ns(ticks)).unwrap_or(i64::MAX);
        Ok(Params {
            result,
            mtu,
            burst: ns(u64::from(parms.burst)),
            mtu_burst: peak.map_or(0, |peak| peak.time_of(mtu) as i64),
            packet_burst: request.packet_burst.map_or(0, ns),
            rate,
            peak,
            packets: request.packet_rate.map(Rate::new),
            average: request.avrate.unwrap_or_default(),
            now: host.now(),
        })
    }

    fn create(params: Params, env: &Env<'_>) -> Self {
        let tokens = SpinLock::new(Tokens::default());
        let police = Self {
            params: Published::new(env.net.domain(), params.clone()),
            tokens,
        };
        police.change(params);
        police
    }

    fn change(&self, params: Params) {
        {
            let mut tokens = self.tokens.lock();
            (tokens.at, tokens.rate) = (params.now, params.burst);
            if params.peak.is_some() {
                tokens.peak = params.mtu_burst;
            }
        }
        self.params.replace(params);
    }
}
