// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `connmark`: copies the mark of a packet's connection to the packet.
//!
//! Mirrors net/sched/act_connmark.c.
//!
//! Parameters: `zone` (16 bits, default 0), in which the connection of a packet that `ct` has not tracked is looked up
//! by the packet's headers. The control action defaults to pipe in tc.
//!
//! Each packet with a connection counts as an overlimit. Others pass unchanged.

use weir_netlink::tca::connmark as attr;
use weir_netlink::{Attr, Error, Fixed, Policy, Rule, Table, TcConnMark, TcGen, Writer, policy};
use weir_packet::header::ethernet::{ETH_P_IP, ETH_P_IPV6};
use weir_packet::{ConnInfo, Packet};
use weir_sync::rcu::Published;

use super::init::required;
use super::place::Place;
use super::{Common, Kind, Spec};
use crate::context::Context;
use crate::env::Env;
use crate::host::Host;
use crate::verdict::{Code, Outcome};

static POLICY: Policy = policy! { max attr::MAX;
    attr::PARMS => Rule::unspec(TcConnMark::LEN as u16),
};

/// The kind's part of an action.
pub struct Connmark {
    /// The zone.
    zone: Published<u16>,
}

/// Returns the family of a packet that has a complete network header, and the length of the header in bytes.
pub(super) fn network(packet: &Packet, cx: &Context<'_, '_>) -> Option<u16> {
    let place = Place::of(packet, cx);
    let protocol = place.protocol(packet);
    let length = match protocol {
        ETH_P_IP => 20,
        ETH_P_IPV6 => 40,
        _ => return None,
    };
    place.has_network(length).then_some(protocol)
}

/// Returns the mark of a packet's connection: the one that `ct` found, or else the one with the packet's headers.
pub(super) fn mark(packet: &Packet, zone: u16, cx: &Context<'_, '_>) -> Option<u32> {
    let known = packet.conn();
    let known = known.filter(|conn| !matches!(conn.info, ConnInfo::Invalid | ConnInfo::Untracked));
    if let Some(conn) = known {
        if !conn.is_entry() {
            return Some(conn.generation);
        }
        let entry = cx.conntrack.and_then(|table| table.mark(table.of(conn)?));
        return Some(entry.unwrap_or(0));
    }
    let table = cx.conntrack?;
    let (handle, _) = table.find_packet(packet, zone, cx.now)?;
    table.mark(handle)
}

impl Kind for Connmark {
    fn run<'g>(
        &'g self,
        common: &'g Common,
        cx: &mut Context<'_, 'g>,
        packet: &mut Packet,
        _out: &mut Outcome<'g>,
    ) -> Code {
        common.hit(cx);
        let zone = *self.zone.load(cx.guard);
        if network(packet, cx).is_some()
            && let Some(mark) = mark(packet, zone, cx)
        {
            packet.mark = mark;
            common.counters.count_overlimit(cx.cpu);
        }
        common.control()
    }

    fn dump(&self, common: &Common, start: TcGen, env: &Env<'_>, w: &mut Writer) {
        let parms = TcConnMark {
            common: start,
            zone: *self.zone.load(env.guard),
            pad: 0,
        };
        w.put_fixed(attr::PARMS, &parms);
        w.put_fixed(attr::TM, &common.ages(env));
    }
}

impl Spec for Connmark {
    const KIND: &'static str = "connmark";
    type Request = (Code, u16);
    type Params = u16;

    fn parse(options: Option<&Attr<'_>>) -> Result<(u32, Self::Request), Error> {
        let mut tb = Table::empty();
        let parms: TcConnMark = required(options, &POLICY, attr::PARMS, &mut tb)?;
        Ok((parms.common.index, (parms.common.action, parms.zone)))
    }

    fn control((control, _): &Self::Request) -> Code {
        *control
    }

    fn prepare((_, zone): Self::Request, _host: &dyn Host) -> Result<u16, Error> {
        Ok(zone)
    }

    published!(zone: Published);
}
