// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `mpls`: pushes, pops or changes MPLS labels.
//!
//! Mirrors net/sched/act_mpls.c.
//!
//! Parameters: the mode. `push` and `mac_push` take `label` (0 to 1048575, except 3), `tc` (0 to 7,
//! default 0), `ttl` (1 to 255, default 255), `bos` (bottom of stack; default: 1 if no label
//! follows) and `protocol` (mpls_uc, the default, or mpls_mc). `modify` takes any of label, tc, ttl
//! and bos. `pop` takes the `protocol` of what follows the label. `dec_ttl` takes nothing. `push`
//! adds a label after the Ethernet header, `mac_push` in front of it.
//!
//! `pop` passes a frame that is not MPLS unchanged. `modify` and `dec_ttl` drop such a frame, as
//! well as a label whose TTL would become 0 and a frame that is too short; each counts as a drop.

use weir_netlink::errno::{EINVAL, EPROTONOSUPPORT};
use weir_netlink::tca::mpls as attr;
use weir_netlink::{Attr, Error, Fixed, Policy, Rule, Strictness, TcGen, TcMpls, Writer, policy};
use weir_packet::Packet;
use weir_packet::edit::{self, EditError, is_mpls};
use weir_sync::rcu::Published;

use super::place::Place;
use super::{Common, Kind, Spec};
use crate::context::Context;
use crate::env::Env;
use crate::host::Host;
use crate::verdict::{Code, Outcome, code};

const ETH_P_MPLS_UC: u16 = 0x8847;
const ETH_P_802_3_MIN: u16 = 0x0600;
const TTL_DEFAULT: u8 = 255;
/// `MPLS_LABEL_IMPLNULL`
const LABEL_IMPLICIT_NULL: u32 = 3;

static POLICY: Policy = policy! { max attr::MAX;
    attr::PARMS => Rule::exact(TcMpls::LEN as u16),
    attr::PROTO => Rule::u16(),
    attr::LABEL => Rule::binary(0).check(valid_label),
    attr::TC => Rule::u8().range(0, 7),
    attr::TTL => Rule::u8().min(1),
    attr::BOS => Rule::u8().range(0, 1),
};

fn valid_label(attr: &Attr<'_>) -> Result<(), Error> {
    let Ok(octets) = <[u8; 4]>::try_from(attr.payload) else {
        return Err(text("act_mpls: Invalid MPLS label length"));
    };
    let label = u32::from_ne_bytes(octets);
    if label >> 20 != 0 || label == LABEL_IMPLICIT_NULL {
        return Err(text("act_mpls: MPLS label out of range"));
    }
    Ok(())
}

fn text(text: &'static str) -> Error {
    Error::msg(EINVAL, text)
}

/// The parameters of an action.
#[derive(Debug, Clone, Copy)]
pub struct Params {
    /// `TCA_MPLS_ACT_*`
    mode: i32,
    label: Option<u32>,
    tc: Option<u8>,
    /// The TTL; 0 leaves it unchanged.
    ttl: u8,
    bottom: Option<u8>,
    proto: u16,
}

/// The kind's part of an action.
pub struct Mpls {
    params: Published<Params>,
}

impl Params {
    /// Returns the label stack entry that replaces `old`. If `bottom` is set, the entry is the
    /// bottom of the stack by default (`tcf_mpls_get_lse`).
    fn entry(&self, old: u32, bottom: bool) -> u32 {
        let mut entry = old;
        let mut set = |shift: u32, mask: u32, value: u32| {
            entry = entry & !(mask << shift) | value << shift;
        };
        if let Some(label) = self.label {
            set(12, 0xf_ffff, label);
        }
        if self.ttl != 0 {
            set(0, 0xff, u32::from(self.ttl));
        }
        if let Some(tc) = self.tc {
            set(9, 7, u32::from(tc));
        }
        match self.bottom {
            Some(bottom) => set(8, 1, u32::from(bottom)),
            None if bottom => entry |= 1 << 8,
            None => {}
        }
        entry
    }

    fn apply(&self, packet: &mut Packet, place: Place, ethernet: bool) -> Result<(), EditError> {
        let mac_len = place.network;
        match self.mode {
            attr::ACT_POP => edit::mpls_pop(packet, self.proto, mac_len, ethernet),
            attr::ACT_PUSH => {
                let entry = self.entry(0, !is_mpls(place.protocol(packet)));
                edit::mpls_push(packet, entry, self.proto, mac_len, ethernet)
            }
            attr::ACT_MAC_PUSH => {
                edit::vlan_to_data(packet)?;
                let entry = self.entry(0, mac_len != 0 || !is_mpls(packet.protocol));
                edit::mpls_push(packet, entry, self.proto, 0, false)
            }
            _ => self.rewrite(packet, place),
        }
    }

    /// Applies `modify` or `dec_ttl`.
    fn rewrite(&self, packet: &mut Packet, place: Place) -> Result<(), EditError> {
        if !is_mpls(packet.protocol) {
            return Err(EditError::Malformed);
        }
        let label = packet.mac_mut().get_mut(place.network..);
        let label = label.and_then(|rest| rest.first_chunk_mut::<4>());
        let label = label.ok_or(EditError::Malformed)?;
        let old = u32::from_be_bytes(*label);
        let new = if self.mode == attr::ACT_MODIFY {
            self.entry(old, false)
        } else {
            let ttl = (old as u8).wrapping_sub(1);
            if ttl == 0 {
                return Err(EditError::Malformed);
            }
            old & !0xff | u32::from(ttl)
        };
        *label = new.to_be_bytes();
        Ok(())
    }
}

impl Kind for Mpls {
    fn run<'g>(
        &'g self,
        common: &'g Common,
        cx: &mut Context<'_, 'g>,
        packet: &mut Packet,
        _out: &mut Outcome<'g>,
    ) -> Code {
        common.hit(cx);
        let params = self.params.load(cx.guard);
        // In Linux the data begin at the MAC header for this action.
        let place = Place {
            data: 0,
            ..Place::of(packet, cx)
        };
        let done = params.apply(packet, place, cx.ethernet);
        cx.packet_changed();
        match done {
            Ok(()) => common.control(),
            Err(_) => {
                common.counters.count_drop(cx.cpu);
                code::SHOT
            }
        }
    }

    fn dump(&self, common: &Common, start: TcGen, env: &Env<'_>, w: &mut Writer) {
        let params = self.params.load(env.guard);
        let parms = TcMpls {
            common: start,
            m_action: params.mode,
        };
        w.put_fixed(attr::PARMS, &parms);
        if let Some(label) = params.label {
            w.put_u32(attr::LABEL, label);
        }
        if let Some(tc) = params.tc {
            w.put_u8(attr::TC, tc);
        }
        if params.ttl != 0 {
            w.put_u8(attr::TTL, params.ttl);
        }
        if let Some(bottom) = params.bottom {
            w.put_u8(attr::BOS, bottom);
        }
        w.put_be16(attr::PROTO, params.proto);
        w.put_fixed(attr::TM, &common.ages(env));
    }

    fn offload(&self, _common: &Common, env: &Env<'_>) -> Result<(), Option<&'static str>> {
        let mode = self.params.load(env.guard).mode;
        let could = matches!(mode, attr::ACT_PUSH | attr::ACT_POP | attr::ACT_MODIFY);
        could.then_some(()).ok_or(None)
    }
}

/// Options whose syntax has been checked.
#[derive(Debug)]
pub struct Request {
    control: Code,
    mode: i32,
    proto: Option<u16>,
    label: Option<u32>,
    tc: Option<u8>,
    ttl: Option<u8>,
    bottom: Option<u8>,
}

impl Spec for Mpls {
    const KIND: &'static str = "mpls";
    type Request = Request;
    type Params = Params;

    fn parse(options: Option<&Attr<'_>>) -> Result<(u32, Request), Error> {
        let options = options.ok_or(text("act_mpls: Missing netlink attributes"))?;
        let tb = options.parse(&POLICY, Strictness::Strict)?;
        let parms = tb.get(attr::PARMS);
        let parms = parms.and_then(|parms| TcMpls::from_bytes(parms.payload));
        let parms = parms.ok_or(text("act_mpls: No MPLS params"))?;
        let octet = |ty| tb.get(ty).and_then(|a| a.payload.first().copied());
        let proto = tb.get(attr::PROTO).and_then(|a| a.payload.first_chunk());
        let label = tb.get(attr::LABEL).and_then(|a| a.payload.first_chunk());
        let request = Request {
            control: parms.common.action,
            mode: parms.m_action,
            proto: proto.map(|octets| u16::from_be_bytes(*octets)),
            label: label.map(|octets| u32::from_ne_bytes(*octets)),
            tc: octet(attr::TC),
            ttl: octet(attr::TTL),
            bottom: octet(attr::BOS),
        };
        Ok((parms.common.index, request))
    }

    fn verify(request: &mut Request, _exists: bool) -> Result<(), Error> {
        let label = request.label.is_some();
        let others = request.ttl.or(request.tc).or(request.bottom).is_some();
        let refuse = |words| Err(text(words));
        match (request.mode, request.proto) {
            (attr::ACT_POP, None) => refuse("act_mpls: Protocol must be set for MPLS pop"),
            (attr::ACT_POP, Some(proto)) if proto < ETH_P_802_3_MIN => {
                refuse("act_mpls: Invalid protocol type for MPLS pop")
            }
            (attr::ACT_POP, _) if label || others => {
                refuse("act_mpls: Label, TTL, TC or BOS cannot be used with MPLS pop")
            }
            (attr::ACT_DEC_TTL, proto) if proto.is_some() || label || others => {
                refuse("act_mpls: Label, TTL, TC, BOS or protocol cannot be used with MPLS dec_ttl")
            }
            (attr::ACT_PUSH | attr::ACT_MAC_PUSH, _) if !label => {
                refuse("act_mpls: Label is required for MPLS push")
            }
            (attr::ACT_PUSH | attr::ACT_MAC_PUSH, Some(proto)) if !is_mpls(proto) => {
                Err(Error::msg(
                    EPROTONOSUPPORT,
                    "act_mpls: Protocol must be an MPLS type for MPLS push",
                ))
            }
            (attr::ACT_MODIFY, Some(_)) => {
                refuse("act_mpls: Protocol cannot be used with MPLS modify")
            }
            (attr::ACT_POP..=attr::ACT_MAC_PUSH, _) => Ok(()),
            _ => refuse("act_mpls: Unknown MPLS action"),
        }
    }

    fn control(request: &Request) -> Code {
        request.control
    }

    fn prepare(request: Request, _host: &dyn Host) -> Result<Params, Error> {
        let pushes = matches!(request.mode, attr::ACT_PUSH | attr::ACT_MAC_PUSH);
        Ok(Params {
            mode: request.mode,
            label: request.label,
            tc: request.tc,
            ttl: request.ttl.unwrap_or(if pushes { TTL_DEFAULT } else { 0 }),
            bottom: request.bottom,
            proto: request.proto.unwrap_or(ETH_P_MPLS_UC),
        })
    }

    published!(params: Published);
}
