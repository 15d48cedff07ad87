// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `gact`: the generic action, whose only effect is its control action.
//!
//! Mirrors net/sched/act_gact.c.
//!
//! Parameters: the control action (pass, pipe, drop, continue, reclassify, trap, stolen, queued,
//! repeat, jump N, goto chain N), and optionally an alternative one that applies at random:
//! `netrand` applies it to one packet in `pval` on average, `determ` to every `pval`-th (a value of
//! 0 counts as 1). The alternative may not go to a chain. Default: no randomness.
//!
//! A dropped packet counts in the action's drop counter.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::*};

use weir_netlink::errno::EINVAL;
use weir_netlink::tca::gact as attr;
use weir_netlink::{Attr, Error, Fixed, Policy, Rule, Table, TcGactP, TcGen, Writer, policy};
use weir_packet::Packet;
use weir_sync::rcu::Guard;

use super::init::required;
use super::{Common, Kind, More, Spec};
use crate::context::Context;
use crate::env::Env;
use crate::host::Host;
use crate::verdict::{Code, Outcome, code};

static POLICY: Policy = policy! { max attr::MAX;
    attr::PARMS => Rule::unspec(TcGen::LEN as u16),
    attr::PROB => Rule::unspec(TcGactP::LEN as u16),
};

/// The kind's part of an action. It is empty: the random alternative is stored separately.
#[derive(Debug)]
pub struct Gact;

/// The alternative control action and its probability.
#[derive(Debug)]
struct Random {
    prob: TcGactP,
    /// Packets counted by `determ`.
    packets: AtomicU32,
}

impl Random {
    #[cold]
    fn decide(&self, control: Code, cx: &mut Context<'_, '_>) -> Code {
        let pval = u32::from(self.prob.pval);
        let draw = match self.prob.ptype {
            attr::PGACT_NONE => return control,
            attr::PGACT_NETRAND => ((u64::from((cx.random)()) * u64::from(pval)) >> 32) as u32,
            _ => self.packets.fetch_add(1, Relaxed).wrapping_add(1) % pval,
        };
        if draw == 0 {
            self.prob.paction
        } else {
            control
        }
    }
}

impl Kind for Gact {
    fn run<'g>(
        &'g self,
        common: &'g Common,
        cx: &mut Context<'_, 'g>,
        _packet: &mut Packet,
        _out: &mut Outcome<'g>,
    ) -> Code {
        let control = common.control();
        let action = match common.more::<Random>(cx.guard) {
            None => control,
            Some(random) => random.decide(control, cx),
        };
        common.hit_or_drop(cx, action == code::SHOT);
        action
    }

    fn plan(&self, common: &Common, cx: &Context<'_, '_>, _packets: &[Packet]) -> Option<Code> {
        match common.more::<Random>(cx.guard) {
            None => Some(common.control()),
            Some(_) => None,
        }
    }

    fn run_planned<'g>(
        &'g self,
        common: &'g Common,
        cx: &mut Context<'_, 'g>,
        (packets, bytes): (&mut [Packet], u64),
        _out: &mut Outcome<'g>,
    ) {
        let dropped = common.control() == code::SHOT;
        common.hit_many(cx, packets.len() as u64, bytes, dropped);
    }

    fn only_drops(&self, common: &Common, guard: &Guard) -> bool {
        common.control() == code::SHOT && common.more::<Random>(guard).is_none()
    }

    fn dump(&self, common: &Common, start: TcGen, env: &Env<'_>, w: &mut Writer) {
        let random = common.more::<Random>(env.guard);
        let random = random.filter(|random| random.prob.ptype != attr::PGACT_NONE);
        w.put_piece::<72>(|all| {
            all.put_fixed(attr::PARMS, &start);
            if let Some(random) = random {
                all.put_fixed(attr::PROB, &random.prob);
            }
            all.put_fixed(attr::TM, &common.ages(env));
        });
    }

    fn offload(&self, common: &Common, _env: &Env<'_>) -> Result<(), Option<&'static str>> {
        let control = common.control();
        let could = matches!(control, code::OK | code::SHOT | code::TRAP);
        let could = could || code::is_goto(control);
        could.then_some(()).ok_or(None)
    }
}

/// Options whose syntax has been checked.
#[derive(Debug)]
pub struct Request {
    control: Code,
    prob: Option<TcGactP>,
}

impl Spec for Gact {
    const KIND: &'static str = "gact";
    type Request = Request;
    type Params = Option<TcGactP>;

    fn parse(options: Option<&Attr<'_>>) -> Result<(u32, Request), Error> {
        let mut tb = Table::empty();
        let parms: TcGen = required(options, &POLICY, attr::PARMS, &mut tb)?;
        let prob = tb
            .get(attr::PROB)
            .and_then(|prob| TcGactP::from_bytes(prob.payload));
        if let Some(prob) = &prob {
            if prob.ptype > attr::PGACT_DETERM {
                return Err(Error::new(EINVAL));
            }
            if !code::is_valid(prob.paction) {
                return Err(Error::msg(EINVAL, "invalid fallback control action"));
            }
            if code::is_goto(prob.paction) {
                return Err(Error::msg(EINVAL, "goto chain not allowed on fallback"));
            }
        }
        Ok((
            parms.index,
            Request {
                control: parms.action,
                prob,
            },
        ))
    }

    fn control(request: &Request) -> Code {
        request.control
    }

    fn prepare(request: Request, _host: &dyn Host) -> Result<Self::Params, Error> {
        Ok(request.prob)
    }

    fn more(params: &Self::Params, old: Option<&More>) -> Option<More> {
        let prob = params.as_ref()?;
        let old = old.and_then(|old| old.downcast_ref::<Random>());
        Some(Arc::new(Random {
            prob: TcGactP {
                pval: prob.pval.max(1),
                ..*prob
            },
            packets: AtomicU32::new(old.map_or(0, |old| old.packets.load(Relaxed))),
        }))
    }

    fn create(_params: Self::Params, _env: &Env<'_>) -> Self {
        Self
    }

    fn change(&self, _params: Self::Params) {}
}
