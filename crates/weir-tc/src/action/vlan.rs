// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `vlan`: pushes, pops or changes VLAN tags and Ethernet headers.
//!
//! Mirrors net/sched/act_vlan.c.
//!
//! Parameters: the mode. `push` and `modify` take `id` (0 to 4094), `protocol` (802.1Q or 802.1ad,
//! default 802.1Q) and `priority` (0 to 7; default 0 for push, unchanged for modify). `push_eth`
//! takes `dst_mac` and `src_mac`. `pop` and `pop_eth` take nothing. A frame without a tag passes
//! `pop` and `modify` unchanged. `pop_eth` is for frames without a tag, `push_eth` for packets
//! without an Ethernet header.
//!
//! A frame that cannot be edited is dropped and counts as a drop.

use weir_netlink::errno::{EINVAL, EPROTONOSUPPORT, ERANGE};
use weir_netlink::tca::vlan as attr;
use weir_netlink::{Attr, Error, Fixed, Policy, Rule, Table, TcGen, TcVlan, Writer, policy};
use weir_packet::{Packet, VlanTag, edit};
use weir_sync::rcu::Published;

use super::init::required;
use super::{Common, Kind, Spec};
use crate::context::Context;
use crate::env::Env;
use crate::host::Host;
use crate::verdict::{Code, Outcome, code};

const ETH_P_8021Q: u16 = 0x8100;
const ETH_P_8021AD: u16 = 0x88a8;
const VID_MASK: u16 = 0x0fff;
const PRIO_MASK: u16 = 0xe000;

static POLICY: Policy = policy! { max attr::MAX;
    attr::PARMS => Rule::unspec(TcVlan::LEN as u16),
    attr::PUSH_VLAN_ID => Rule::u16(),
    attr::PUSH_VLAN_PROTOCOL => Rule::u16(),
    attr::PUSH_VLAN_PRIORITY => Rule::u8(),
    attr::PUSH_ETH_DST => Rule::eth_addr(),
    attr::PUSH_ETH_SRC => Rule::eth_addr(),
}
.strict_from(attr::PUSH_ETH_DST);

/// The parameters of an action.
#[derive(Debug, Clone, Copy)]
pub enum Params {
    /// Removes the outermost tag.
    Pop,
    /// Adds a tag in front.
    Push(Tag),
    /// Changes the outermost tag.
    Modify(Tag),
    /// Removes the Ethernet header.
    PopEth,
    /// Adds an Ethernet header: destination, source.
    PushEth([u8; 6], [u8; 6]),
}

/// The tag to push, or the fields to change.
#[derive(Debug, Clone, Copy)]
pub struct Tag {
    proto: u16,
    vid: u16,
    priority: Option<u8>,
}

impl Tag {
    /// Returns the tag that replaces `old`.
    fn over(self, old: u16) -> VlanTag {
        let mut tci = old & !VID_MASK | self.vid;
        if let Some(priority) = self.priority {
            tci = tci & !PRIO_MASK | u16::from(priority) << 13;
        }
        VlanTag {
            proto: self.proto,
            tci,
        }
    }
}

/// The kind's part of an action.
pub struct Vlan {
    params: Published<Params>,
}

impl Kind for Vlan {
    fn run<'g>(
        &'g self,
        common: &'g Common,
        cx: &mut Context<'_, 'g>,
        packet: &mut Packet,
        _out: &mut Outcome<'g>,
    ) -> Code {
        common.hit(cx);
        let done = match *self.params.load(cx.guard) {
            Params::Pop => edit::vlan_pop(packet).map(drop),
            Params::Push(tag) => {
                let tag = tag.over(0);
                edit::vlan_push(packet, tag.proto, tag.tci)
            }
            Params::Modify(tag) => edit::vlan_take(packet).map(|old| {
                if let Some(old) = old {
                    packet.set_vlan(Some(tag.over(old.tci)));
                }
            }),
            Params::PopEth => edit::eth_pop(packet),
            Params::PushEth(dst, src) => edit::eth_push(packet, dst, src),
        };
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
        let v_action = match params {
            Params::Pop => attr::ACT_POP,
            Params::Push(_) => attr::ACT_PUSH,
            Params::Modify(_) => attr::ACT_MODIFY,
            Params::PopEth => attr::ACT_POP_ETH,
            Params::PushEth(..) => attr::ACT_PUSH_ETH,
        };
        w.put_fixed(
            attr::PARMS,
            &TcVlan {
                common: start,
                v_action,
            },
        );
        match params {
            Params::Push(tag) | Params::Modify(tag) => {
                w.put_u16(attr::PUSH_VLAN_ID, tag.vid);
                w.put_be16(attr::PUSH_VLAN_PROTOCOL, tag.proto);
                if let Some(priority) = tag.priority {
                    w.put_u8(attr::PUSH_VLAN_PRIORITY, priority);
                }
            }
            Params::PushEth(dst, src) => {
                w.put(attr::PUSH_ETH_DST, dst);
                w.put(attr::PUSH_ETH_SRC, src);
            }
            Params::Pop | Params::PopEth => {}
        }
        w.put_fixed(attr::TM, &common.ages(env));
    }

    fn offload(&self, _common: &Common, _env: &Env<'_>) -> Result<(), Option<&'static str>> {
        Ok(())
    }
}

/// Options whose syntax has been checked. Their values are checked only when an action is created
/// or changed.
pub struct Request {
    control: Code,
    params: Result<Params, Error>,
}

fn tag(push: bool, vid: Option<u16>, proto: Option<u16>, prio: Option<u8>) -> Result<Tag, Error> {
    let vid = vid.ok_or(Error::new(EINVAL))?;
    if vid >= VID_MASK {
        return Err(Error::new(ERANGE));
    }
    let proto = proto.unwrap_or(ETH_P_8021Q);
    if !matches!(proto, ETH_P_8021Q | ETH_P_8021AD) {
        return Err(Error::new(EPROTONOSUPPORT));
    }
    let priority = if push { prio.or(Some(0)) } else { prio };
    Ok(Tag {
        proto,
        vid,
        priority,
    })
}

impl Spec for Vlan {
    const KIND: &'static str = "vlan";
    type Request = Request;
    type Params = Params;

    fn parse(options: Option<&Attr<'_>>) -> Result<(u32, Request), Error> {
        let mut tb = Table::empty();
        let parms: TcVlan = required(options, &POLICY, attr::PARMS, &mut tb)?;
        let address = |ty| {
            tb.get(ty)
                .and_then(|a| a.payload.first_chunk::<6>().copied())
        };
        let tag = |push| {
            let number = |ty| {
                tb.get(ty)
                    .and_then(|a| a.payload.first_chunk::<2>().copied())
            };
            let vid = number(attr::PUSH_VLAN_ID).map(u16::from_ne_bytes);
            let proto = number(attr::PUSH_VLAN_PROTOCOL).map(u16::from_be_bytes);
            let priority = tb.get(attr::PUSH_VLAN_PRIORITY);
            tag(
                push,
                vid,
                proto,
                priority.and_then(|a| a.payload.first().copied()),
            )
        };
        let params = match parms.v_action {
            attr::ACT_POP => Ok(Params::Pop),
            attr::ACT_PUSH => tag(true).map(Params::Push),
            attr::ACT_MODIFY => tag(false).map(Params::Modify),
            attr::ACT_POP_ETH => Ok(Params::PopEth),
            attr::ACT_PUSH_ETH => {
                match (address(attr::PUSH_ETH_DST), address(attr::PUSH_ETH_SRC)) {
                    (Some(dst), Some(src)) => Ok(Params::PushEth(dst, src)),
                    _ => Err(Error::new(EINVAL)),
                }
            }
            _ => Err(Error::new(EINVAL)),
        };
        let control = parms.common.action;
        Ok((parms.common.index, Request { control, params }))
    }

    fn validate(request: &Request, _exists: bool) -> Result<(), Error> {
        match &request.params {
            Ok(_) => Ok(()),
            Err(error) => Err(Error::new(error.errno)),
        }
    }

    fn control(request: &Request) -> Code {
        request.control
    }

    fn prepare(request: Request, _host: &dyn Host) -> Result<Params, Error> {
        request.params
    }

    published!(params: Published);
}
