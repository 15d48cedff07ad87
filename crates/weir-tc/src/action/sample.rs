// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sample`: sends copies of randomly chosen packets to the listeners of `psample`.
//!
//! Mirrors net/sched/act_sample.c; groups and messages are in [`crate::psample`].
//!
//! Parameters: the control action (default of tc: pipe), `rate` (on average one packet in `rate` is
//! sampled; from 1), `group` (the number of the psample group), and optionally `trunc` (the highest
//! number of bytes of a packet to send; default: all). A replace must give rate and group; without
//! `trunc` it keeps the current limit.
//!
//! Randomness comes from the seeded generator of the device. A sample begins at the link-layer
//! header and carries the devices the packet came from and goes to, the tunnel metadata, and the
//! wall-clock time of the stack's clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use weir_netlink::errno::EINVAL;
use weir_netlink::tca::sample as attr;
use weir_netlink::{Attr, Error, Fixed, Policy, Rule, Table, TcGen, Writer, policy};
use weir_packet::Packet;
use weir_sync::rcu::PublishedOption;

use super::init::required;
use super::{Common, Kind, Spec};
use crate::context::Context;
use crate::env::Env;
use crate::host::Host;
use crate::psample::{Group, Groups, Sampled};
use crate::verdict::{Code, Outcome};

static POLICY: Policy = policy! { max attr::MAX;
    attr::PARMS => Rule::unspec(TcGen::LEN as u16),
    attr::RATE => Rule::u32(),
    attr::TRUNC_SIZE => Rule::u32(),
    attr::PSAMPLE_GROUP => Rule::u32(),
};

/// The group that samples go to, and the sampling rate.
struct Sampling {
    group: Arc<Group>,
    rate: u32,
}

/// The kind's part of an action.
pub struct Sample {
    groups: Arc<Groups>,
    /// `None` once the action has been deleted.
    sampling: PublishedOption<Sampling>,
    /// The highest number of bytes to send; [`ALL`] for no limit.
    cut: AtomicU64,
    /// The start of the stack's clock, in nanoseconds since 1970.
    epoch: u64,
}

const ALL: u64 = u64::MAX;

impl Kind for Sample {
    fn run<'g>(
        &'g self,
        common: &'g Common,
        cx: &mut Context<'_, 'g>,
        packet: &mut Packet,
        _out: &mut Outcome<'g>,
    ) -> Code {
        common.hit(cx);
        let control = common.control();
        let Some(sampling) = self.sampling.load(cx.guard) else {
            return control;
        };
        if (u64::from((cx.random)()) * u64::from(sampling.rate)) >> 32 != 0 {
            return control;
        }
        let (iif, oif, data) = match cx.ingress {
            // At ingress the MAC header has been pulled; the sample includes it.
            true => (cx.ifindex, 0, packet.mac()),
            false => (packet.iif, cx.ifindex, packet.data()),
        };
        let cut = self.cut.load(Relaxed);
        let sampled = Sampled {
            iif,
            oif,
            rate: sampling.rate,
            time: self.epoch.wrapping_add(cx.now),
            protocol: packet.protocol,
            data,
            cut: u32::try_from(cut).unwrap_or(u32::MAX),
            tunnel: packet
                .tunnel()
                .map(|tunnel| &**tunnel)
                .filter(|tunnel| !tunnel.hop),
        };
        self.groups.sample(&sampling.group, &sampled);
        control
    }

    fn dump(&self, common: &Common, start: TcGen, env: &Env<'_>, w: &mut Writer) {
        w.put_fixed(attr::PARMS, &start);
        w.put_fixed(attr::TM, &common.ages(env));
        let sampling = self.sampling.load(env.guard);
        w.put_u32(attr::RATE, sampling.map_or(0, |sampling| sampling.rate));
        if let Ok(cut) = u32::try_from(self.cut.load(Relaxed)) {
            w.put_u32(attr::TRUNC_SIZE, cut);
        }
        let group = sampling.map_or(0, |sampling| sampling.group.number);
        w.put_u32(attr::PSAMPLE_GROUP, group);
    }

    fn release(&self, env: &Env<'_>) {
        if let Some(sampling) = self.sampling.load(env.guard) {
            self.groups.put(&sampling.group);
        }
        self.sampling.replace(None);
    }

    fn offload(&self, _common: &Common, _env: &Env<'_>) -> Result<(), Option<&'static str>> {
        Ok(())
    }
}

/// Options whose syntax has been checked.
#[derive(Debug)]
pub struct Request {
    control: Code,
    rate: Option<u32>,
    cut: Option<u32>,
    group: Option<u32>,
}

/// The parameters of an action.
#[derive(Debug)]
pub struct Params {
    rate: u32,
    cut: Option<u32>,
    group: u32,
}

impl Spec for Sample {
    const KIND: &'static str = "sample";
    type Request = Request;
    type Params = Params;

    fn parse(options: Option<&Attr<'_>>) -> Result<(u32, Request), Error> {
        let mut tb = Table::empty();
        let parms: TcGen = required(options, &POLICY, attr::PARMS, &mut tb)?;
        let number = |ty| tb.get(ty).map(|attr| attr.u32()).transpose();
        let request = Request {
            control: parms.action,
            rate: number(attr::RATE)?,
            cut: number(attr::TRUNC_SIZE)?,
            group: number(attr::PSAMPLE_GROUP)?,
        };
        Ok((parms.index, request))
    }

    fn verify(request: &mut Request, _exists: bool) -> Result<(), Error> {
        match (request.rate, request.group) {
            (Some(_), Some(_)) => Ok(()),
            _ => Err(Error::msg(EINVAL, "sample rate and group are required")),
        }
    }

    fn control(request: &Request) -> Code {
        request.control
    }

    fn prepare(request: Request, _host: &dyn Host) -> Result<Params, Error> {
        match request.rate {
            None | Some(0) => Err(Error::msg(EINVAL, "invalid sample rate")),
            Some(rate) => Ok(Params {
                rate,
                cut: request.cut,
                group: request.group.unwrap_or_default(),
            }),
        }
    }

    fn create(params: Params, env: &Env<'_>) -> Self {
        let sample = Self {
            groups: env.net.psample(env.host),
            sampling: PublishedOption::new(env.net.domain(), None),
            cut: AtomicU64::new(ALL),
            epoch: env.host.epoch(),
        };
        sample.change(params);
        sample
    }

    fn change(&self, params: Params) {
        let sampling = Sampling {
            group: self.groups.get(params.group),
            rate: params.rate,
        };
        let guard = self.sampling.domain().pin();
        let old = self.sampling.load(&guard).map(|old| old.group.clone());
        if let Some(cut) = params.cut {
            self.cut.store(u64::from(cut), Relaxed);
        }
        self.sampling.replace(Some(sampling));
        if let Some(old) = old {
            self.groups.put(&old);
        }
    }
}
