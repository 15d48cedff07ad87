// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `ct`: tracks a packet's connection, and translates addresses and ports.
//!
//! Mirrors net/sched/act_ct.c; the work is done in `weir-conntrack`.
//!
//! Parameters: `zone` (16 bits, default 0); `commit` (the connection enters the namespace's table; with it `force`
//! and the bits of `mark` and `label` that are set under their masks); `nat` alone (packets of a connection that is
//! translated) or `nat src|dst addr FIRST[-LAST] port FIRST[-LAST]` (how a new connection is); `clear` (the packet
//! forgets its connection). The control action defaults to pipe in tc.
//!
//! A packet without a connection that can be tracked passes with the state "tracked, invalid", which lasts for the
//! hook. Packets that are not IP or whose network header is truncated are dropped, as are those of new connections if
//! the table is full, if the translation finds no free port, or if another connection has the same key. All of them
//! count as drops of the action, and the trace names the reason.
//!
//! Established connections go into the flow table of the zone, which is there as long as an action has the zone. Their
//! packets are not checked any more (`weir_conntrack::flow`).
//!
//! Fragments wait for the others of their packet, for each zone apart, and count as stolen. The last one goes on as
//! the whole packet. `mirred` sends it to the egress of a device in fragments again: `redirect` in the original ones,
//! if they fit, `mirror` in fragments no longer than the largest of those. Forwarding splits it if it does not fit.
//! The memory and the time-outs of IPv4 are those of the namespace's other fragments (`ipfrag_*`), those of IPv6 its own
//! (`nf_conntrack_frag6_*`).
//!
//! Filters of a qdisc other than `ingress` and `clsact` cannot have the action, except in shared blocks.
//!
//! Not implemented: there are no helpers, which are refused by name. The labels of a connection that its packet ends (a
//! reset in answer to the first segment) are gone when the action ends.

use std::sync::Arc;

use weir_conntrack::{Action, Cx, Done, Family, Manip, Nat, Range, Settings, Why};
use weir_netlink::errno::{EINVAL, EOPNOTSUPP};
use weir_netlink::tca::ct as attr;
use weir_netlink::{Attr, Error, Fixed, Policy, Rule, Strictness, Table, TcGen, Writer, policy};
use weir_packet::Packet;
use weir_packet::header::ethernet::{ETH_P_IP, ETH_P_IPV6};
use weir_sync::rcu::Published;

use super::place::Place;
use super::{Common, Kind, Spec};
use crate::context::{Context, Defragmented};
use crate::env::Env;
use crate::host::Host;
use crate::verdict::{Code, Outcome, code};

static POLICY: Policy = policy! { max attr::MAX;
    attr::ACTION => Rule::u16(),
    attr::PARMS => Rule::exact(TcGen::LEN as u16),
    attr::ZONE => Rule::u16(),
    attr::MARK => Rule::u32(),
    attr::MARK_MASK => Rule::u32(),
    attr::LABELS => Rule::binary(16),
    attr::LABELS_MASK => Rule::binary(16),
    attr::NAT_IPV4_MIN => Rule::u32(),
    attr::NAT_IPV4_MAX => Rule::u32(),
    attr::NAT_IPV6_MIN => Rule::exact(16),
    attr::NAT_IPV6_MAX => Rule::exact(16),
    attr::NAT_PORT_MIN => Rule::u16(),
    attr::NAT_PORT_MAX => Rule::u16(),
};

/// `TCA_CT_HELPER_NAME`, which Linux knows from 6.2 on.
const HELPER_NAME: u16 = 16;

/// The names of Linux's helpers, each with the message it is refused with.
static HELPERS: &[(&str, &str)] = &[
    ("amanda", "Helper amanda is not served"),
    ("ftp", "Helper ftp is not served"),
    ("H.245", "Helper H.245 is not served"),
    ("irc", "Helper irc is not served"),
    ("netbios-ns", "Helper netbios-ns is not served"),
    ("pptp", "Helper pptp is not served"),
    ("Q.931", "Helper Q.931 is not served"),
    ("RAS", "Helper RAS is not served"),
    ("sane", "Helper sane is not served"),
    ("sip", "Helper sip is not served"),
    ("snmp", "Helper snmp is not served"),
    ("tftp", "Helper tftp is not served"),
];

/// The kind's part of an action.
pub struct Ct {
    params: Published<Params>,
    /// Of the namespace, for the flow table of the action's zone.
    settings: Arc<Settings>,
}

/// The parameters of an action.
#[derive(Debug, Clone, Copy, Default)]
pub struct Params {
    /// `TCA_CT_ACT_*`
    flags: u16,
    /// The addresses of the range are IPv4.
    ipv4: bool,
    /// What is done with packets.
    action: Action,
}

/// The attributes of a request.
pub struct Request {
    control: Code,
    flags: u16,
    zone: u16,
    mark: Option<(u32, u32)>,
    labels: Option<([u8; 16], [u8; 16])>,
    ipv4: Option<([u8; 4], [u8; 4])>,
    ipv6: Option<([u8; 16], [u8; 16])>,
    ports: Option<(u16, u16)>,
}

fn text(message: &'static str) -> Error {
    Error::msg(EINVAL, message)
}

/// Refuses a helper.
#[cold]
fn refuse_helper(helper: &Attr<'_>) -> Error {
    let name = helper.c_str();
    let listed = HELPERS.iter().find(|(known, _)| known.as_bytes() == name);
    listed.map_or(text("act_ct: Failed to add helper"), |&(_, sentence)| {
        Error::unsupported(sentence)
    })
}

/// Returns the bytes of an attribute, followed by zeroes.
fn padded(attr: &Attr<'_>) -> [u8; 16] {
    let mut all = [0; 16];
    for (to, from) in all.iter_mut().zip(attr.payload) {
        *to = *from;
    }
    all
}

fn widen(octets: [u8; 4]) -> [u8; 16] {
    let [a, b, c, d] = octets;
    [a, b, c, d, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
}

fn narrow(octets: [u8; 16]) -> [u8; 4] {
    let [a, b, c, d, ..] = octets;
    [a, b, c, d]
}

impl Params {
    /// Returns the zone. An action that clears has zone 0, and keeps its flow table, too.
    fn zone(&self) -> u16 {
        self.action.zone
    }

    /// Returns the translation (`tcf_ct_fill_params_nat`).
    fn nat(&mut self, request: &Request) -> Result<(), Error> {
        if self.flags & attr::ACT_NAT == 0 {
            return Ok(());
        }
        let manip = match (
            self.flags & attr::ACT_NAT_SRC != 0,
            self.flags & attr::ACT_NAT_DST != 0,
        ) {
            (true, true) => {
                return Err(Error::msg(
                    EOPNOTSUPP,
                    "act_ct: dnat and snat can't be enabled at the same time",
                ));
            }
            (true, false) => Some(Manip::Source),
            (false, true) => Some(Manip::Destination),
            (false, false) => None,
        };
        let mut range = Range::default();
        if manip.is_some() {
            if let Some((first, last)) = request.ipv4 {
                self.ipv4 = true;
                range.addresses = Some((widen(first), widen(last)));
            } else {
                range.addresses = request.ipv6;
            }
            range.ports = request.ports;
        }
        self.action.nat = Some(Nat { manip, range });
        Ok(())
    }
}

impl Kind for Ct {
    fn run<'g>(
        &'g self,
        common: &'g Common,
        cx: &mut Context<'_, 'g>,
        packet: &mut Packet,
        out: &mut Outcome<'g>,
    ) -> Code {
        common.hit(cx);
        let control = common.control();
        let params = self.params.load(cx.guard);
        cx.packet_changed();
        if params.flags & attr::ACT_CLEAR != 0 {
            weir_conntrack::clear(packet);
            return control;
        }
        let Some(conntrack) = cx.conntrack else {
            common.counters.count_drop(cx.cpu);
            return code::SHOT;
        };
        let family = match Place::of(packet, cx).protocol(packet) {
            ETH_P_IP => Some(Family::V4),
            ETH_P_IPV6 => Some(Family::V6),
            _ => None,
        };
        let hook = cx.hook();
        let act = |cx: &mut Context<'_, 'g>, packet: &mut Packet| {
            let mut circumstances = Cx {
                now: cx.now,
                hook,
                family,
                random: cx.random,
            };
            conntrack.act(packet, &params.action, &mut circumstances)
        };
        let mut done = act(cx, packet);
        if done == Done::Drop(Why::Fragment)
            && let Some(defragment) = cx.defragment
        {
            match defragment(packet, params.action.zone) {
                Defragmented::Waits => return code::STOLEN,
                Defragmented::Whole(number) => {
                    cx.reassembled(packet, number);
                    done = act(cx, packet);
                }
                Defragmented::Dropped(reason) => {
                    cx.note(packet, || format!("ct: {}", reason.sentence()));
                    common.counters.count_drop(cx.cpu);
                    out.reason = Some(reason);
                    return code::SHOT;
                }
            }
        }
        match done {
            Done::Pass => control,
            Done::Drop(why) => {
                let reason = why.reason();
                cx.note(packet, || format!("ct: {}", reason.sentence()));
                common.counters.count_drop(cx.cpu);
                out.reason = Some(reason);
                code::SHOT
            }
        }
    }

    fn prefetch_packets(&self, cx: &Context<'_, '_>, packets: &[Packet]) {
        let params = self.params.load(cx.guard);
        if let Some(conntrack) = cx.conntrack
            && params.flags & attr::ACT_CLEAR == 0
        {
            conntrack.prefetch_batch(packets, params.action.zone);
        }
    }

    fn dump(&self, common: &Common, start: TcGen, env: &Env<'_>, w: &mut Writer) {
        let params = self.params.load(env.guard);
        let action = &params.action;
        w.put(attr::ACTION, &params.flags.to_ne_bytes());
        if params.flags & attr::ACT_CLEAR == 0 {
            let (mark, mask) = action.mark;
            if mask != 0 {
                w.put(attr::MARK, &mark.to_ne_bytes());
                w.put(attr::MARK_MASK, &mask.to_ne_bytes());
            }
            let (labels, mask) = &action.labels;
            if mask != &[0; 16] {
                w.put(attr::LABELS, labels);
                w.put(attr::LABELS_MASK, mask);
            }
            w.put(attr::ZONE, &action.zone.to_ne_bytes());
            if let Some(nat) = &action.nat {
                match nat.range.addresses {
                    Some((first, last)) if params.ipv4 => {
                        w.put(attr::NAT_IPV4_MIN, &narrow(first));
                        w.put(attr::NAT_IPV4_MAX, &narrow(last));
                    }
                    Some((first, last)) => {
                        w.put(attr::NAT_IPV6_MIN, &first);
                        w.put(attr::NAT_IPV6_MAX, &last);
                    }
                    None => {}
                }
                if let Some((first, last)) = nat.range.ports {
                    w.put(attr::NAT_PORT_MIN, &first.to_be_bytes());
                    w.put(attr::NAT_PORT_MAX, &last.to_be_bytes());
                }
            }
        }
        w.put_fixed(attr::PARMS, &start);
        w.put_fixed(attr::TM, &common.ages(env));
    }

    fn release(&self, env: &Env<'_>) {
        let zone = self.params.load(env.guard).zone();
        if self.settings.flow_tables.release(zone)
            && let Some(conntrack) = env.net.conntrack_if_used()
        {
            conntrack.end_flows(zone, env.host.now());
        }
    }

    fn offload(&self, _common: &Common, _env: &Env<'_>) -> Result<(), Option<&'static str>> {
        Ok(())
    }
}

impl Spec for Ct {
    const KIND: &'static str = "ct";
    const AT_EDGES: Option<&'static str> =
        Some("act_ct: Attaching ct to a non ingress/clsact qdisc is unsupported");
    type Request = Request;
    type Params = Params;

    fn parse(options: Option<&Attr<'_>>) -> Result<(u32, Request), Error> {
        let options = options.ok_or(text("act_ct: Ct requires attributes to be passed"))?;
        if let Some(helper) = options.attrs().find(|attr| attr.ty == HELPER_NAME) {
            return Err(refuse_helper(&helper));
        }
        let tb: Table<'_> = options.parse(&POLICY, Strictness::Strict)?;
        let parms = tb
            .get(attr::PARMS)
            .and_then(|parms| TcGen::from_bytes(parms.payload))
            .ok_or(text("act_ct: Missing required ct parameters"))?;
        let pair = |first: u16, last: u16| {
            let first = tb.get(first)?;
            Some((first, tb.get(last).unwrap_or(first)))
        };
        // A value without a mask changes all bits.
        let masked = |value: u16, mask: u16| {
            let value = tb.get(value)?;
            let mask = tb.get(mask).map_or([0xff; 16], |mask| padded(&mask));
            Some((padded(&value), mask))
        };
        let number = |octets: [u8; 16]| u32::from_ne_bytes(narrow(octets));
        let half = |ty: u16| tb.get(ty).map(|attr| attr.u16()).transpose();
        let address = |attr: &Attr<'_>| narrow(padded(attr));
        let port = |attr: &Attr<'_>| {
            let [a, b, ..] = padded(attr);
            u16::from_be_bytes([a, b])
        };
        let request = Request {
            control: parms.action,
            flags: half(attr::ACTION)?.unwrap_or(0),
            zone: half(attr::ZONE)?.unwrap_or(0),
            mark: masked(attr::MARK, attr::MARK_MASK)
                .map(|(value, mask)| (number(value), number(mask))),
            labels: masked(attr::LABELS, attr::LABELS_MASK),
            ipv4: pair(attr::NAT_IPV4_MIN, attr::NAT_IPV4_MAX)
                .map(|(first, last)| (address(&first), address(&last))),
            ipv6: pair(attr::NAT_IPV6_MIN, attr::NAT_IPV6_MAX)
                .map(|(first, last)| (padded(&first), padded(&last))),
            ports: pair(attr::NAT_PORT_MIN, attr::NAT_PORT_MAX)
                .map(|(first, last)| (port(&first), port(&last))),
        };
        Ok((parms.index, request))
    }

    fn control(request: &Request) -> Code {
        request.control
    }

    fn prepare(request: Request, _host: &dyn Host) -> Result<Params, Error> {
        let mut params = Params {
            flags: request.flags,
            ..Params::default()
        };
        if params.flags & attr::ACT_CLEAR != 0 {
            return Ok(params);
        }
        params.nat(&request)?;
        params.action.commit = params.flags & attr::ACT_COMMIT != 0;
        params.action.force = params.flags & attr::ACT_FORCE != 0;
        params.action.zone = request.zone;
        params.action.mark = request.mark.unwrap_or_default();
        params.action.labels = request.labels.unwrap_or_default();
        Ok(params)
    }

    fn note(params: &Params, env: &Env<'_>) {
        if params.flags & attr::ACT_CLEAR == 0 {
            // Packets find the table once the first action is there.
            let _ = env.net.conntrack();
        }
    }

    fn create(params: Params, env: &Env<'_>) -> Self {
        let settings = env.net.conntrack_settings().clone();
        settings.flow_tables.hold(params.zone());
        Self {
            params: Published::new(env.net.domain(), params),
            settings,
        }
    }

    fn change(&self, params: Params) {
        let flow_tables = &self.settings.flow_tables;
        flow_tables.hold(params.zone());
        let guard = self.params.domain().pin();
        let old = self.params.swap(params, &guard);
        flow_tables.release(old.zone());
    }
}
