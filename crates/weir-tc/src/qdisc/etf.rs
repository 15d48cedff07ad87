// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `etf`: packets leave at the time set by their sender.
//!
//! Mirrors net/sched/sch_etf.c. Parameters: `clockid` (only CLOCK_TAI, which is the stack's clock
//! here), `delta` (ns by which a packet leaves the queue ahead of its time), `deadline_mode`
//! (packets leave as soon as possible, and the time is the latest one), `skip_sock_check`. Offload
//! is refused. The options cannot be changed.
//!
//! The time of a packet is [`Packet::departure`], set by programs that embed the stack. A packet
//! without a time is dropped on arrival (QDISC_DROP), as Linux drops packets that were not sent by
//! a socket with SO_TXTIME. A packet is also dropped if its time has passed, on arrival or while it
//! waits, or is before that of the last packet that left. A packet leaves 1 ns after its time less
//! `delta`; timers in Linux are later than that.

use std::collections::BTreeMap;

use weir_netlink::errno::{EINVAL, ENOTSUPP, EOPNOTSUPP};
use weir_netlink::tca::{self, etf as attr};
use weir_netlink::{Error, Fixed, Policy, Rule, Strictness, TcEtfQopt, Writer, policy};
use weir_packet::{DropReason, Packet};

use super::{Create, Drops, Enqueued, Load, Ops, Qdisc, QueueCx, pkt_len};

/// The entry of this kind in the table of kinds.
pub const OPS: Ops = Ops::new("etf", create);

static POLICY: Policy = policy! { max attr::MAX;
    attr::PARMS => Rule::unspec(TcEtfQopt::LEN as u16),
};

/// The only supported clock.
const CLOCK_TAI: i32 = 11;
/// Flag of offload (`TC_ETF_OFFLOAD_ON`).
const OFFLOAD: u32 = 2;
/// Flag of deadline mode (`TC_ETF_DEADLINE_MODE_ON`).
const DEADLINE: u32 = 1;
/// The flags that are kept: deadline mode and `TC_ETF_SKIP_SOCK_CHECK`.
const FLAGS: u32 = DEADLINE | 4;

/// The state of the qdisc.
struct Etf {
    qopt: TcEtfQopt,
    /// Packets by time; those with equal times are in the order of arrival.
    waiting: BTreeMap<(u64, u64), Packet>,
    seq: u64,
    /// Time of the last packet that left.
    last: u64,
    load: Load,
}

fn create(create: &Create<'_>) -> Result<Box<dyn Qdisc>, Error> {
    let missing = "Missing ETF qdisc options which are mandatory";
    let options = create.options.ok_or(Error::msg(EINVAL, missing))?;
    let tb = options.parse(&POLICY, Strictness::Liberal)?;
    let parms = tb
        .get(attr::PARMS)
        .and_then(|parms| TcEtfQopt::from_bytes(parms.payload));
    let missing = Error::msg(EINVAL, "Missing mandatory ETF parameters");
    let qopt = parms.ok_or(missing)?;
    if qopt.clockid < 0 {
        let message = "Dynamic clockids are not supported";
        return Err(Error::msg(ENOTSUPP, message));
    }
    if qopt.clockid != CLOCK_TAI {
        let message = "Invalid clockid. CLOCK_TAI must be used";
        return Err(Error::msg(EINVAL, message));
    }
    if qopt.delta < 0 {
        return Err(Error::msg(EINVAL, "Delta must be positive"));
    }
    if qopt.flags & OFFLOAD != 0 {
        let message = match create.device.has_offload_hook() {
            true => "Specified device failed to setup ETF hardware offload",
            false => "Specified device does not support ETF offload",
        };
        return Err(Error::msg(EOPNOTSUPP, message));
    }
    Ok(Box::new(Etf {
        qopt,
        waiting: BTreeMap::new(),
        seq: 0,
        last: 0,
        load: Load::default(),
    }))
}

impl Etf {
    /// Returns the time at which the first packet may leave (`reset_watchdog`).
    fn first(&self) -> Option<u64> {
        let ((time, _), _) = self.waiting.first_key_value()?;
        Some(
            time.saturating_add(1)
                .saturating_sub(self.qopt.delta as u64),
        )
    }

    fn pop(&mut self) -> Option<(u64, Packet)> {
        let ((time, _), packet) = self.waiting.pop_first()?;
        self.load.sub(pkt_len(&packet));
        Some((time, packet))
    }

    /// Removes the first packet if it may leave (`etf_dequeue_timesortedlist`).
    fn take(&mut self, q: &mut QueueCx<'_, '_, '_>) -> Option<Packet> {
        let (now, first) = (q.now(), self.first()?);
        let (&(time, _), _) = self.waiting.first_key_value()?;
        if time < now {
            // Drops all packets whose time has passed (`timesortedlist_drop`).
            while self
                .waiting
                .first_key_value()
                .is_some_and(|((time, _), _)| *time < now)
                && let Some((_, packet)) = self.pop()
            {
                q.note().overlimits += 1;
                q.drop(packet, DropReason::QDISC_DROP);
            }
            return None;
        }
        if self.qopt.flags & DEADLINE != 0 {
            let (_, mut packet) = self.pop()?;
            packet.set_departure(Some(now));
            return Some(packet);
        }
        if now < first {
            return None;
        }
        let (time, packet) = self.pop()?;
        self.last = time;
        Some(packet)
    }
}

impl Qdisc for Etf {
    fn enqueue(&mut self, q: &mut QueueCx<'_, '_, '_>, packet: Packet) -> Enqueued {
        let wanted = packet.departure();
        let Some(time) = wanted.filter(|&time| time >= q.now() && time >= self.last) else {
            return q.drop(packet, DropReason::QDISC_DROP);
        };
        self.load.add(pkt_len(&packet));
        self.seq += 1;
        self.waiting.insert((time, self.seq), packet);
        Enqueued::Queued
    }

    fn dequeue(&mut self, q: &mut QueueCx<'_, '_, '_>) -> Option<Packet> {
        let packet = self.take(q);
        if let Some(next) = self.first() {
            // In deadline mode a packet may leave at any dequeue, otherwise not before its time.
            q.watchdog(next.max(q.now()));
        }
        packet
    }

    fn load(&self) -> Load {
        self.load
    }

    fn reset(&mut self, out: &mut Drops) {
        let waiting = std::mem::take(&mut self.waiting).into_values();
        out.extend(waiting.map(|packet| (packet, DropReason::QDISC_DROP)));
        (self.load, self.last) = (Load::default(), 0);
    }

    fn dump(&self, w: &mut Writer) {
        let nest = w.nest_noflag(tca::OPTIONS);
        let flags = self.qopt.flags & FLAGS;
        w.put_fixed(attr::PARMS, &TcEtfQopt { flags, ..self.qopt });
        w.end(nest);
    }
}
