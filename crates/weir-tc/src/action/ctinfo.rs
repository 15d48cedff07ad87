// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `ctinfo`: copies parts of the mark of a packet's connection to the packet: to its DSCP, to its mark, or to both.
//!
//! Mirrors net/sched/act_ctinfo.c.
//!
//! Parameters: `dscp MASK [STATEMASK]` (6 contiguous bits of the connection's mark become the DSCP, if the mark has a
//! bit of STATEMASK, or STATEMASK is 0), `cpmark [MASK]` (the packet's mark becomes the masked mark of the connection),
//! `zone` (16 bits, default 0), in which the connection of a packet that `ct` has not tracked is looked up. The control
//! action defaults to pipe in tc.
//!
//! Packets without a connection pass unchanged. The action counts changed DSCPs and copied marks.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use weir_netlink::errno::EINVAL;
use weir_netlink::tca::ctinfo as attr;
use weir_netlink::{Attr, Error, Fixed, Policy, Rule, Strictness, TcGen, Writer, policy};
use weir_packet::Packet;
use weir_packet::checksum::update_bytes;
use weir_packet::header::ethernet::ETH_P_IP;
use weir_sync::rcu::Published;

use super::connmark::{mark, network};
use super::place::Place;
use super::{Common, Kind, Spec};
use crate::context::Context;
use crate::env::Env;
use crate::host::Host;
use crate::verdict::{Code, Outcome};

/// `INET_ECN_MASK`
const ECN: u8 = 3;

static POLICY: Policy = policy! { max attr::MAX;
    attr::ACT => Rule::exact(TcGen::LEN as u16),
    attr::ZONE => Rule::u16(),
    attr::PARMS_DSCP_MASK => Rule::u32(),
    attr::PARMS_DSCP_STATEMASK => Rule::u32(),
    attr::PARMS_CPMARK_MASK => Rule::u32(),
};

/// The parameters of an action.
#[derive(Debug, Clone, Copy, Default)]
pub struct Params {
    zone: u16,
    /// The bits of the DSCP in the mark, and those of which one must be set.
    dscp: Option<(u32, u32)>,
    /// The bits of the mark that are copied.
    cpmark: Option<u32>,
}

/// The kind's part of an action.
pub struct Ctinfo {
    params: Published<Params>,
    dscp_set: AtomicU64,
    cpmark_set: AtomicU64,
}

/// Sets the DSCP of an IP header of protocol `protocol`. Returns whether it was different.
fn set_dscp(header: &mut [u8], protocol: u16, dscp: u8) -> bool {
    let Some(&[a, b]) = header.first_chunk::<2>() else {
        return false;
    };
    if protocol == ETH_P_IP {
        let new = b & ECN | dscp << 2;
        if new == b {
            return false;
        }
        header[1] = new;
        if let Some(check) = header
            .get_mut(10..12)
            .and_then(|c| c.first_chunk_mut::<2>())
        {
            *check = update_bytes(u16::from_be_bytes(*check), &[a, b], &[a, new]).to_be_bytes();
        }
        return true;
    }
    // The traffic class lies across the first two bytes.
    let class = a << 4 | b >> 4;
    let new = class & ECN | dscp << 2;
    header[0] = a & 0xf0 | new >> 4;
    header[1] = b & 0x0f | new << 4;
    new != class
}

impl Kind for Ctinfo {
    fn run<'g>(
        &'g self,
        common: &'g Common,
        cx: &mut Context<'_, 'g>,
        packet: &mut Packet,
        _out: &mut Outcome<'g>,
    ) -> Code {
        common.hit(cx);
        let control = common.control();
        let params = *self.params.load(cx.guard);
        let Some(protocol) = network(packet, cx) else {
            return control;
        };
        let Some(mark) = mark(packet, params.zone, cx) else {
            return control;
        };
        if let Some((bits, state)) = params.dscp
            && (state == 0 || mark & state != 0)
        {
            let dscp = ((mark & bits) >> bits.trailing_zeros()) as u8;
            let place = Place::of(packet, cx);
            let header = packet.mac_mut().get_mut(place.network..);
            if header.is_some_and(|header| set_dscp(header, protocol, dscp)) {
                self.dscp_set.fetch_add(1, Relaxed);
                cx.packet_changed();
            }
        }
        if let Some(bits) = params.cpmark {
            self.cpmark_set.fetch_add(1, Relaxed);
            packet.mark = mark & bits;
        }
        control
    }

    fn dump(&self, common: &Common, start: TcGen, env: &Env<'_>, w: &mut Writer) {
        let params = *self.params.load(env.guard);
        w.put_fixed(attr::TM, &common.ages(env));
        w.put_fixed(attr::ACT, &start);
        w.put_u16(attr::ZONE, params.zone);
        if let Some((bits, state)) = params.dscp {
            w.put_u32(attr::PARMS_DSCP_MASK, bits);
            w.put_u32(attr::PARMS_DSCP_STATEMASK, state);
        }
        if let Some(bits) = params.cpmark {
            w.put_u32(attr::PARMS_CPMARK_MASK, bits);
        }
        w.put_u64(attr::STATS_DSCP_SET, self.dscp_set.load(Relaxed));
        // A packet that cannot be written does not occur here.
        w.put_u64(attr::STATS_DSCP_ERROR, 0);
        w.put_u64(attr::STATS_CPMARK_SET, self.cpmark_set.load(Relaxed));
    }
}

impl Spec for Ctinfo {
    const KIND: &'static str = "ctinfo";
    type Request = (Code, Params);
    type Params = Params;

    fn parse(options: Option<&Attr<'_>>) -> Result<(u32, Self::Request), Error> {
        let text = |text| Error::msg(EINVAL, text);
        let options = options.ok_or(text("act_ctinfo: ctinfo requires attributes to be passed"))?;
        let tb = options.parse(&POLICY, Strictness::Strict)?;
        let parms = tb.get(attr::ACT);
        let parms = parms.and_then(|parms| TcGen::from_bytes(parms.payload));
        let parms = parms.ok_or(text(
            "act_ctinfo: Missing required TCA_CTINFO_ACT attribute",
        ))?;
        let word = |ty| tb.get(ty).map(|attr| attr.u32()).transpose();
        let mut params = Params {
            zone: tb.get(attr::ZONE).map_or(Ok(0), |attr| attr.u16())?,
            dscp: None,
            cpmark: word(attr::PARMS_CPMARK_MASK)?,
        };
        if let Some(given) = tb.get(attr::PARMS_DSCP_MASK) {
            let bits = given.u32()?;
            if bits == 0 || bits >> bits.trailing_zeros() != 0x3f {
                return Err(text("dscp mask must be 6 contiguous bits").at(&given));
            }
            let state = word(attr::PARMS_DSCP_STATEMASK)?.unwrap_or(0);
            if let Some(given) = tb.get(attr::PARMS_DSCP_STATEMASK)
                && bits & state != 0
            {
                return Err(text("dscp statemask must not overlap dscp mask").at(&given));
            }
            params.dscp = Some((bits, state));
        }
        Ok((parms.index, (parms.action, params)))
    }

    fn control((control, _): &Self::Request) -> Code {
        *control
    }

    fn prepare((_, params): Self::Request, _host: &dyn Host) -> Result<Params, Error> {
        Ok(params)
    }

    fn create(params: Params, env: &Env<'_>) -> Self {
        Self {
            params: Published::new(env.net.domain(), params),
            dscp_set: AtomicU64::new(0),
            cpmark_set: AtomicU64::new(0),
        }
    }

    fn change(&self, params: Params) {
        self.params.replace(params);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_packet::checksum::checksum;

    #[test]
    fn the_dscp_changes_with_the_checksum_and_leaves_the_marks_of_congestion() {
        let mut four = [0u8; 20];
        (four[0], four[1], four[8]) = (0x45, 0x41, 64);
        let check = checksum(&four).to_be_bytes();
        four[10..12].copy_from_slice(&check);
        assert!(set_dscp(&mut four, ETH_P_IP, 0x2e));
        assert_eq!(four[1], 0x2e << 2 | 1);
        assert_eq!(checksum(&four), 0);
        assert!(!set_dscp(&mut four, ETH_P_IP, 0x2e));

        let mut six = [0x60, 0x2f, 0xff, 0xff];
        assert!(set_dscp(&mut six, 0x86dd, 0x15));
        assert_eq!(six, [0x65, 0x6f, 0xff, 0xff]);
        assert!(!set_dscp(&mut six, 0x86dd, 0x15));
        assert!(!set_dscp(&mut [0x45], ETH_P_IP, 1));
    }
}
