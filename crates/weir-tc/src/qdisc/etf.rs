// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `etf`: packets leave at the time their sender has put on them.
//!
//! Mirrors net/sched/sch_etf.c. Parameters: `clockid` (CLOCK_TAI only), `delta` (ns ahead of a packet's time),
//! `deadline_mode`, `skip_sock_check`. Offload is refused. It cannot be changed.
//!
//! Only a socket with SO_TXTIME puts times on packets, and no packet here comes from one: each is dropped
//! on arrival (QDISC_DROP), as Linux drops a packet without a time.

use weir_netlink::errno::{EINVAL, ENOTSUPP, EOPNOTSUPP};
use weir_netlink::tca::{self, etf as attr};
use weir_netlink::{Error, Fixed, Policy, Rule, Strictness, TcEtfQopt, Writer, policy};
use weir_packet::{DropReason, Packet};

use super::{Create, Drops, Enqueued, Load, Ops, Qdisc, QueueCx};

/// The kind's line.
pub const OPS: Ops = Ops::new("etf", create);

static POLICY: Policy = policy! { max attr::MAX;
    attr::PARMS => Rule::unspec(TcEtfQopt::LEN as u16),
};

/// `CLOCK_TAI`, `TC_ETF_OFFLOAD_ON` and the flags that are kept.
const CLOCK_TAI: i32 = 11;
const OFFLOAD: u32 = 2;
const FLAGS: u32 = 1 | 4;

/// The qdisc.
struct Etf(TcEtfQopt);

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
        let message = "Specified device does not support ETF offload";
        return Err(Error::msg(EOPNOTSUPP, message));
    }
    Ok(Box::new(Etf(qopt)))
}

impl Qdisc for Etf {
    fn enqueue(&mut self, q: &mut QueueCx<'_, '_, '_>, packet: Packet) -> Enqueued {
        q.drop(packet, DropReason::QDISC_DROP)
    }

    fn dequeue(&mut self, _q: &mut QueueCx<'_, '_, '_>) -> Option<Packet> {
        None
    }

    fn load(&self) -> Load {
        Load::default()
    }

    fn reset(&mut self, _out: &mut Drops) {}

    fn dump(&self, w: &mut Writer) {
        let nest = w.nest_noflag(tca::OPTIONS);
        let flags = self.0.flags & FLAGS;
        w.put_fixed(attr::PARMS, &TcEtfQopt { flags, ..self.0 });
        w.end(nest);
    }
}
