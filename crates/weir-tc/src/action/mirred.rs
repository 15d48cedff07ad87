// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `mirred`: sends the packet, or a copy of it, to another device.
//!
//! Mirrors net/sched/act_mirred.c.
//!
//! Parameters: the direction at the target (`egress`: it sends the packet; `ingress`: it receives
//! it), `mirror` (a copy) or `redirect` (the packet itself), the target device, and the control
//! action for the original (default of tc: pipe for mirror, stolen for redirect). A replace without
//! a device keeps the current one.
//!
//! If the target is gone, down or without carrier, or if there is no memory for a copy, the packet
//! counts as an overlimit; a redirect then drops it. A packet can be mirrored or redirected four
//! times.
//!
//! There are two differences from Linux. The count of redirections stays with the packet even where
//! Linux leaves the call stack (egress to ingress), so that every loop ends. And the fate of the
//! packet at the target is not known here, so it never counts as an overlimit.

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
    /// The operation, `TCA_EGRESS_REDIR` and so on.
    eaction: AtomicI32,
    /// The key of the target, or [`NONE`] once it is gone. It is only a word because there may be a
    /// million such actions.
    target: AtomicU64,
}

/// A key that no device has.
const NONE: u64 = u64::MAX;

impl Mirred {
    /// Returns the target.
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

/// Returns whether a redirect leaves nothing of the packet behind (`tcf_mirred_can_reinsert`).
fn nothing_stays(control: Code) -> bool {
    matches!(
        control,
        code::SHOT | code::STOLEN | code::QUEUED | code::TRAP
    )
}

/// Prepares a packet for its target, with the data at the MAC header. Returns `false` if the MAC
/// header is not set.
fn prepare(
    packet: &mut Packet,
    cx: &Context<'_, '_>,
    redirect: bool,
    target_ingress: bool,
) -> bool {
    packet.nest += 1;
    packet.iif = cx.ifindex;
    packet.set_conn(None);
    if redirect {
        packet.flags.insert(Flags::REDIRECTED);
        if cx.ingress {
            packet.flags.insert(Flags::FROM_INGRESS);
        } else {
            packet.flags.remove(Flags::FROM_INGRESS);
        }
    }
    // Linux also restores the link-layer header only if the data begin at the network header.
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
        // If nothing of the packet is left behind, the packet itself is sent. At egress Linux
        // always sends a copy and ends the original with the control action. This makes a
        // difference only for a drop.
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
            reassembled: cx.reassembled,
        });
        control
    }

    fn plan(&self, common: &Common, cx: &Context<'_, '_>, packets: &[Packet]) -> Option<Code> {
        let control = common.control();
        let device = self.device(common, cx.guard)?;
        let moves = is_redirect(self.eaction.load(Relaxed))
            && nothing_stays(control)
            && (cx.ingress || control != code::SHOT);
        let there = device.is_registered() && device.is_running();
        let fits = |packet: &Packet| (packet.nest < NEST_LIMIT) & packet.has_mac();
        let all = |packets: &[Packet]| packets.iter().fold(true, |all, packet| all & fits(packet));
        let fit = || cx.received.is_some() || all(packets);
        (moves && there && fit()).then_some(code::CONSUMED)
    }

    fn run_planned<'g>(
        &'g self,
        common: &'g Common,
        cx: &mut Context<'_, 'g>,
        (packets, bytes): (&mut [Packet], u64),
        out: &mut Outcome<'g>,
    ) {
        common.hit_many(cx, packets.len() as u64, bytes, false);
        let ingress = wants_ingress(self.eaction.load(Relaxed));
        if cx.received.is_some() {
            // Their data begin at the MAC header, and they have no connection.
            let (set, unset) = match cx.ingress {
                true => (Flags::REDIRECTED | Flags::FROM_INGRESS, Flags::NONE),
                false => (Flags::REDIRECTED, Flags::FROM_INGRESS),
            };
            for packet in packets {
                (packet.nest, packet.iif) = (1, cx.ifindex);
                packet.flags.remove(unset);
                packet.flags.insert(set);
            }
        } else {
            for packet in packets {
                // The plan has made sure that the MAC header is set.
                let _ = prepare(packet, cx, true, ingress);
            }
        }
        out.target = self.device(common, cx.guard).map(|device| Target {
            device: device.key(),
            ingress,
        });
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
        // If the device comes back to the namespace, the action does not find it again.
        let _ = self.target.compare_exchange(key, NONE, AcqRel, Acquire);
    }

    fn offload(&self, _common: &Common, _env: &Env<'_>) -> Result<(), Option<&'static str>> {
        Ok(())
    }
}

/// The parameters of an action: `eaction`, and the index and key of the target if one is given.
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
