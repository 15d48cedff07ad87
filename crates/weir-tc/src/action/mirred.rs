// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `mirred`: sends the packet, or a copy of it, to another device.
//!
//! Mirrors net/sched/act_mirred.c.
//!
//! Parameters: the direction at the target (`egress`: it sends the packet; `ingress`: it receives it),
//! `mirror` (a copy) or `redirect` (the packet itself), the target device, and the control action for
//! what stays (default of tc: pipe for mirror, stolen for redirect). A replace without a device keeps
//! the one there is.
//!
//! A target that is gone, down or without carrier, and a copy for which there is no memory, count as
//! overlimits; a redirect then drops the packet. A packet can be sent on four times.
//!
//! Not as Linux: that count goes along with the packet even where Linux leaves the call stack (egress
//! to ingress), so that a loop ends; and what becomes of the packet at the target is not known here and
//! never counts as an overlimit.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering::*};

use weir_netlink::errno::{EINVAL, ENODEV};
use weir_netlink::tca::mirred as attr;
use weir_netlink::{
    Attr, Error, Fixed, Policy, Rule, Strictness, Table, TcGen, TcMirred, Writer, policy,
};
use weir_packet::{Flags, Packet};
use weir_sync::rcu::Guard;

use super::{Common, Kind, Spec};
use crate::context::{Context, Copy};
use crate::env::Env;
use crate::host::{Device, Host};
use crate::verdict::{Code, Outcome, Target, code};

/// `MIRRED_NEST_LIMIT`
const NEST_LIMIT: u8 = 4;

static POLICY: Policy = policy! { max attr::MAX;
    attr::PARMS => Rule::unspec(TcMirred::LEN as u16),
};

/// The kind's part of an action.
pub struct Mirred {
    /// `TCA_EGRESS_REDIR` and its like.
    eaction: AtomicI32,
    /// Key of the target; [`NONE`] once it is gone. A rule in a million has no room for more.
    target: AtomicU64,
}

/// No device's key.
const NONE: u64 = u64::MAX;

impl Mirred {
    /// The target.
    #[inline]
    fn device<'g>(&self, common: &'g Common, guard: &'g Guard) -> Option<&'g Arc<dyn Device>> {
        find(self.target.load(Acquire), common, guard)
    }
}

fn find<'g>(key: u64, common: &'g Common, guard: &'g Guard) -> Option<&'g Arc<dyn Device>> {
    common.table().targets.get(&key, guard)
}

fn is_redirect(eaction: i32) -> bool {
    matches!(eaction, attr::EGRESS_REDIR | attr::INGRESS_REDIR)
}

fn wants_ingress(eaction: i32) -> bool {
    matches!(eaction, attr::INGRESS_REDIR | attr::INGRESS_MIRROR)
}

/// `tcf_mirred_can_reinsert`: nothing stays with the one who redirects.
fn nothing_stays(control: Code) -> bool {
    matches!(
        control,
        code::SHOT | code::STOLEN | code::QUEUED | code::TRAP
    )
}

/// Makes a packet ready for its way on, its data at the MAC header; `false` if that is not set.
fn prepare(
    packet: &mut Packet,
    cx: &Context<'_, '_>,
    redirect: bool,
    target_ingress: bool,
) -> bool {
    packet.nest += 1;
    packet.iif = cx.ifindex;
    if redirect {
        packet.flags.insert(Flags::REDIRECTED);
        if cx.ingress {
            packet.flags.insert(Flags::FROM_INGRESS);
        } else {
            packet.flags.remove(Flags::FROM_INGRESS);
        }
    }
    // As Linux, which puts the link-layer header back only where the data begin at the network header.
    let pulled = packet.pulled_from_mac().unwrap_or(0);
    if target_ingress || pulled == packet.mac_len() {
        return packet.data_to_mac();
    }
    true
}

impl Kind for Mirred {
    fn run<'g>(
        &'g self,
        common: &'g Common,
        cx: &mut Context<'_, 'g>,
        packet: &mut Packet,
        out: &mut Outcome<'g>,
    ) -> Code {
        if packet.nest >= NEST_LIMIT {
            return code::SHOT;
        }
        common.hit(cx);
        let eaction = self.eaction.load(Relaxed);
        let control = common.control();
        let (redirect, ingress) = (is_redirect(eaction), wants_ingress(eaction));
        let fail = || {
            common.counters.count_overlimit(cx.cpu);
            if redirect { code::SHOT } else { control }
        };
        let Some(device) = self.device(common, cx.guard) else {
            return fail();
        };
        if !device.is_registered() || !device.is_running() {
            return fail();
        }
        let target = Target {
            device: device.key(),
            ingress,
        };
        // Where nothing of the packet is left behind, it goes itself. At egress Linux sends a copy and
        // ends the original with the control action: only a drop shows the difference.
        if redirect && nothing_stays(control) && (cx.ingress || control != code::SHOT) {
            if !prepare(packet, cx, true, ingress) {
                return fail();
            }
            out.target = Some(target);
            return code::CONSUMED;
        }
        let Some(mut copy) = cx.copy(packet) else {
            return fail();
        };
        if !prepare(&mut copy, cx, redirect, ingress) {
            return fail();
        }
        cx.copies.push(Copy {
            packet: copy,
            target,
            itself: false,
        });
        control
    }

    fn dump(&self, common: &Common, start: TcGen, env: &Env<'_>, w: &mut Writer) {
        let key = self.target.load(Acquire);
        let ifindex = env.index_of_target(key, || {
            let device = find(key, common, env.guard);
            let device = device.filter(|device| device.is_registered());
            device.map_or(0, |device| device.ifindex())
        });
        let parms = TcMirred {
            common: start,
            eaction: self.eaction.load(Relaxed),
            ifindex,
        };
        w.put_piece::<68>(|all| {
            all.put_fixed(attr::PARMS, &parms);
            all.put_fixed(attr::TM, &common.ages(env));
        });
    }

    fn device_gone(&self, key: u64) {
        // The device may come back; the action does not find it then.
        let _ = self.target.compare_exchange(key, NONE, AcqRel, Acquire);
    }

    fn offload(&self, _common: &Common, _env: &Env<'_>) -> Result<(), Option<&'static str>> {
        Ok(())
    }
}

/// What the action gets: `eaction` and the target, if one is named: its index and key.
pub struct Params {
    eaction: i32,
    device: Option<(u32, u64)>,
}

fn text(message: &'static str) -> Error {
    Error::msg(EINVAL, message)
}

impl Spec for Mirred {
    const KIND: &'static str = "mirred";
    type Request = TcMirred;
    type Params = Params;

    fn parse(options: Option<&Attr<'_>>) -> Result<(u32, TcMirred), Error> {
        let options =
            options.ok_or_else(|| text("act_mirred: Mirred requires attributes to be passed"))?;
        let mut tb = Table::empty();
        options.parse_into(&POLICY, Strictness::Liberal, &mut tb)?;
        let parms = tb
            .get(attr::PARMS)
            .and_then(|parms| TcMirred::from_bytes(parms.payload));
        let parms = parms.ok_or_else(|| text("act_mirred: Missing required mirred parameters"))?;
        Ok((parms.common.index, parms))
    }

    fn validate(request: &TcMirred, exists: bool) -> Result<(), Error> {
        if !(attr::EGRESS_REDIR..=attr::INGRESS_MIRROR).contains(&request.eaction) {
            return Err(text("act_mirred: Unknown mirred option"));
        }
        if !exists && request.ifindex == 0 {
            return Err(text("act_mirred: Specified device does not exist"));
        }
        Ok(())
    }

    fn control(request: &TcMirred) -> Code {
        request.common.action
    }

    fn prepare(request: TcMirred, host: &dyn Host) -> Result<Params, Error> {
        let device = match request.ifindex {
            0 => None,
            ifindex => {
                let device = host.device_ref(ifindex).ok_or(Error::new(ENODEV))?;
                Some((ifindex, device.key()))
            }
        };
        Ok(Params {
            eaction: request.eaction,
            device,
        })
    }

    fn note(params: &Params, env: &Env<'_>) {
        if let Some((ifindex, key)) = params.device {
            env.net.target(ifindex, key, env);
        }
    }

    fn create(params: Params, _env: &Env<'_>) -> Self {
        Self {
            eaction: AtomicI32::new(params.eaction),
            target: AtomicU64::new(params.device.map_or(NONE, |(_, key)| key)),
        }
    }

    fn change(&self, params: Params) {
        if let Some((_, key)) = params.device {
            self.target.store(key, Release);
        }
        self.eaction.store(params.eaction, Relaxed);
    }
}
