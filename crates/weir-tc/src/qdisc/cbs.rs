// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `cbs`: credit-based shaping of one class of traffic (802.1Q, Annex L).
//!
//! Mirrors the software half of net/sched/sch_cbs.c. Parameters: `idleslope` and `sendslope`
//! (kbit/s; `sendslope` is negative), `hicredit` and `locredit` (bytes). A packet leaves while the
//! credit is not negative and the previous packet has been sent at the port's rate. Sending costs
//! credit, waiting earns it. The port's rate is that of the device, or 10 Mbit/s if the device does
//! not report its speed. Offload is refused.
//!
//! It has one class, `:1`, with a `pfifo` until another qdisc is grafted.

use std::sync::Arc;

use weir_netlink::errno::{EINVAL, EOPNOTSUPP};
use weir_netlink::tca::{self, cbs as attr};
use weir_netlink::{Error, Fixed, Policy, Rule, Strictness, TcCbsQopt, Writer, policy};
use weir_packet::Packet;

use super::{Create, Drops, Enqueued, Gone, Leaf, Load, Node, Ops, Qdisc, QueueCx, pkt_len};

/// The entry of this kind in the table of kinds.
pub const OPS: Ops = Ops {
    can_change: true,
    classful: true,
    ..Ops::new("cbs", create)
};

static POLICY: Policy = policy! { max attr::MAX;
    attr::PARMS => Rule::unspec(TcCbsQopt::LEN as u16),
};

const SECOND: i64 = 1_000_000_000;
/// Bytes per second of one kbit/s (`BYTES_PER_KBIT`).
const KBIT: i64 = 125;
/// Speed in Mbit/s of a device that does not report one (`SPEED_10`).
const SPEED: u32 = 10;

/// The state of the qdisc.
struct Cbs {
    qopt: TcCbsQopt,
    /// Rate of the device, in bytes per second.
    port: i64,
    /// Credit in bytes.
    credits: i64,
    /// Time in ns at which the last packet was sent completely or the credit was last computed.
    last: i64,
    child: Leaf,
    total: Load,
}

fn parse(create: &Create<'_>) -> Result<TcCbsQopt, Error> {
    let missing = "Missing CBS qdisc options  which are mandatory";
    let options = create.options.ok_or(Error::msg(EINVAL, missing))?;
    let tb = options.parse(&POLICY, Strictness::Liberal)?;
    let parms = tb
        .get(attr::PARMS)
        .and_then(|parms| TcCbsQopt::from_bytes(parms.payload));
    let missing = "Missing CBS parameter which are mandatory";
    let qopt = parms.ok_or(Error::msg(EINVAL, missing))?;
    if qopt.offload != 0 {
        let message = match create.device.has_offload_hook() {
            true => "Specified device failed to setup cbs hardware offload",
            false => "Specified device does not support cbs offload",
        };
        return Err(Error::msg(EOPNOTSUPP, message));
    }
    Ok(qopt)
}

fn create(create: &Create<'_>) -> Result<Box<dyn Qdisc>, Error> {
    let speed = create.device.speed().filter(|&speed| speed > 0);
    Ok(Box::new(Cbs {
        qopt: parse(create)?,
        port: i64::from(speed.unwrap_or(SPEED)) * 1000 * KBIT,
        credits: 0,
        last: 0,
        child: create.shown_pfifo(0),
        total: Load::default(),
    }))
}

/// Returns `value * times / by`, rounded towards 0 and saturated.
fn scaled(value: i64, times: i64, by: i64) -> i64 {
    let exact = i128::from(value) * i128::from(times) / i128::from(by);
    exact.clamp(i128::from(i64::MIN + 1), i128::from(i64::MAX)) as i64
}

impl Qdisc for Cbs {
    fn enqueue(&mut self, q: &mut QueueCx<'_, '_, '_>, packet: Packet) -> Enqueued {
        if q.waiting(self.total).len == 0 && self.credits > 0 {
            // Positive credit is lost while nothing waits.
            (self.credits, self.last) = (0, q.now() as i64);
        }
        let before = q.drops.len();
        let (result, _) = self.child.enqueue(q, packet, &mut self.total);
        if q.drops.len() != before {
            q.note().uncounted += (q.drops.len() - before) as u32;
        }
        result
    }

    fn dequeue(&mut self, q: &mut QueueCx<'_, '_, '_>) -> Option<Packet> {
        let now = q.now() as i64;
        if now < self.last {
            q.watchdog(self.last as u64);
            return None;
        }
        let idle = i64::from(self.qopt.idleslope) * KBIT;
        if self.credits < 0 {
            let earned = scaled(now - self.last, idle, SECOND);
            let credits = self.credits.saturating_add(earned);
            self.credits = credits.min(i64::from(self.qopt.hicredit));
            if self.credits < 0 {
                // The wait is rounded up. Linux rounds it down, which works there because its timer
                // is late anyway; here the credit would never suffice. No credit is earned with a
                // zero or negative slope, and never enough with a negative upper bound.
                if idle > 0 && self.qopt.hicredit >= 0 {
                    let wait = scaled(-self.credits, SECOND, idle);
                    let rest = i128::from(-self.credits) * i128::from(SECOND) % i128::from(idle);
                    let wait = wait.saturating_add(i64::from(rest != 0));
                    q.watchdog(now.saturating_add(wait) as u64);
                }
                self.last = now;
                return None;
            }
        }
        let packet = self.child.dequeue(q, &mut self.total).0?;
        let len = i64::from(pkt_len(&packet));
        let cost = scaled(len, i64::from(self.qopt.sendslope) * KBIT, self.port);
        let credits = self.credits.saturating_add(cost);
        self.credits = credits.max(i64::from(self.qopt.locredit));
        self.last = now + len * SECOND / self.port;
        Some(packet)
    }

    fn load(&self) -> Load {
        self.total
    }

    fn reset(&mut self, out: &mut Drops) {
        self.child.purge(&mut self.total, out);
    }

    fn change(&mut self, create: &Create<'_>, gone: &mut Gone) -> Result<(), Error> {
        self.qopt = parse(create)?;
        // Packets that waited for credit that could never suffice may get it with the new options.
        gone.wake |= self.credits < 0;
        Ok(())
    }

    fn dump(&self, w: &mut Writer) {
        let nest = w.nest_noflag(tca::OPTIONS);
        w.put_fixed(attr::PARMS, &self.qopt);
        w.end(nest);
    }

    fn slot(&self, _class: u32) -> Option<&Leaf> {
        Some(&self.child)
    }

    fn slot_mut(&mut self, _class: u32) -> Option<(&mut Leaf, &mut Load)> {
        Some((&mut self.child, &mut self.total))
    }

    fn graft(
        &mut self,
        _class: u32,
        new: Option<Arc<Node>>,
        create: &Create<'_>,
        gone: &mut Gone,
    ) -> Result<Option<Arc<Node>>, Error> {
        let new = new.map_or_else(|| create.pfifo(0), |new| Leaf::new(Some(new)));
        Ok(self.child.replace(new, &mut self.total, gone))
    }
}
