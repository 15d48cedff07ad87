// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pedit`: writes to any place in a packet, in words of 32 bits.
//!
//! Mirrors net/sched/act_pedit.c.
//!
//! Parameters: keys. Each key has an offset, a mask of the bits to keep, and a value that is set or
//! added. The offset counts from the network header, or with extended keys (`pedit ex`) from the
//! header they name: eth, ip (version 4 or 6), tcp, udp. It must be a multiple of 4 bytes. `at`
//! adds a byte of the packet, masked and shifted, to the offset. Checksums are not adjusted: use
//! `csum`.
//!
//! A TCP or UDP header of IPv4 is assumed after the IPv4 header, whatever the protocol. A key whose
//! offset is outside the packet ends the edit; the packet continues with the edits made so far. As
//! in Linux, this counts as an overlimit with `no_percpu` only. Writes in front of the MAC header,
//! within the headroom, are lost.

use weir_netlink::errno::EINVAL;
use weir_netlink::tca::act;
use weir_netlink::tca::pedit::{self as attr, cmd, htype, key_ex};
use weir_netlink::{
    Attr, Error, Fixed, Policy, Rule, TcGen, TcPeditKey, TcPeditSel, Writer, policy,
};
use weir_packet::Packet;
use weir_packet::header::ipv6::upper_layer;
use weir_sync::rcu::Published;

use super::place::Place;
use super::{Common, Kind, Spec};
use crate::context::Context;
use crate::env::Env;
use crate::host::Host;
use crate::verdict::{Code, Outcome};

const ETH_P_IP: u16 = 0x0800;
const ETH_P_IPV6: u16 = 0x86dd;
const TCP: u8 = 6;
const UDP: u8 = 17;
/// Size of a key in the parameters, in bytes.
const KEY_LEN: usize = TcPeditKey::LEN;

static POLICY: Policy = policy! { max attr::MAX;
    attr::PARMS => Rule::unspec(TcPeditSel::LEN as u16),
    attr::PARMS_EX => Rule::unspec(TcPeditSel::LEN as u16),
    attr::KEYS_EX => Rule::nested_any(),
};

static KEY_POLICY: Policy = policy! { max key_ex::MAX;
    key_ex::HTYPE => Rule::u16().max(attr::HDR_TYPE_MAX as u64),
    key_ex::CMD => Rule::u16().max(attr::CMD_MAX as u64),
};

/// An edit of one word.
#[derive(Debug, Clone)]
struct Key {
    /// The header that offsets count from (`TCA_PEDIT_KEY_EX_HDR_TYPE_*`).
    from: u16,
    add: bool,
    key: TcPeditKey,
}

/// The parameters of an action.
#[derive(Debug, Clone)]
pub struct Params {
    keys: Box<[Key]>,
    /// The keys were given with headers and commands.
    extended: bool,
    flags: u8,
}

/// The kind's part of an action.
pub struct Pedit {
    params: Published<Params>,
}

/// Returns the offset of a header from the MAC header in bytes, or `None` if the packet does not
/// have that header.
fn header(from: u16, place: Place, packet: &Packet) -> Option<usize> {
    let wanted = match from {
        htype::ETH => return Some(0),
        htype::TCP => TCP,
        htype::UDP => UDP,
        _ => return Some(place.network),
    };
    let network = packet.mac().get(place.network..)?;
    match packet.protocol {
        ETH_P_IP if place.has_network(20) => {
            Some(place.network + usize::from(network.first()? & 0xf) * 4)
        }
        ETH_P_IPV6 => {
            let upper = upper_layer(network)?;
            let found = upper.protocol == wanted && !upper.later_fragment;
            found.then_some(place.network + upper.offset)
        }
        _ => None,
    }
}

impl Key {
    /// Applies the edit. Returns `None` if the offset is outside the packet.
    fn apply(&self, place: Place, packet: &mut Packet) -> Option<()> {
        let key = &self.key;
        let header = header(self.from, place, packet)? as i64;
        let headroom = packet.headroom() - packet.pulled_from_mac()?;
        let within = |at: i64, len: i64| -(headroom as i64) <= at && at + len <= place.end as i64;
        let mut offset = key.off as i32;
        if key.offmask != 0 {
            let at = header + i64::from(key.at as i32);
            if !within(at, 1) {
                return None;
            }
            // The headroom reads as zeros.
            let octet = usize::try_from(at).map_or(Some(0), |at| packet.mac().get(at).copied())?;
            offset = offset.wrapping_add(((u32::from(octet) & key.offmask) >> key.shift) as i32);
            if offset % 4 != 0 {
                return None;
            }
        }
        let at = header + i64::from(offset);
        if !within(at, 4) {
            return None;
        }
        let places = at..at + 4;
        let mut word = [0; 4];
        for (octet, at) in word.iter_mut().zip(places.clone()) {
            let at = usize::try_from(at).ok();
            *octet = at.and_then(|at| packet.mac().get(at).copied()).unwrap_or(0);
        }
        let old = u32::from_ne_bytes(word);
        let value = if self.add {
            old.wrapping_add(key.val) & !key.mask
        } else {
            key.val
        };
        let word = ((old & key.mask) ^ value).to_ne_bytes();
        for (octet, at) in word.into_iter().zip(places) {
            let at = usize::try_from(at).ok();
            if let Some(to) = at.and_then(|at| packet.mac_mut().get_mut(at)) {
                *to = octet;
            }
        }
        Some(())
    }
}

impl Kind for Pedit {
    fn run<'g>(
        &'g self,
        common: &'g Common,
        cx: &mut Context<'_, 'g>,
        packet: &mut Packet,
        _out: &mut Outcome<'g>,
    ) -> Code {
        common.hit(cx);
        let params = self.params.load(cx.guard);
        let place = Place::of(packet, cx);
        let edits = params.keys.iter();
        let done: Option<()> = edits.map(|key| key.apply(place, packet)).collect();
        cx.packet_changed();
        // With counters per CPU, Linux counts overlimits in a counter it never reads.
        if done.is_none() && common.flags() & act::FLAGS_NO_PERCPU_STATS != 0 {
            common.counters.count_overlimit(cx.cpu);
        }
        common.control()
    }

    fn dump(&self, common: &Common, start: TcGen, env: &Env<'_>, w: &mut Writer) {
        let params = self.params.load(env.guard);
        if params.extended {
            let nest = w.nest_noflag(attr::KEYS_EX);
            for key in &params.keys {
                let nest = w.nest_noflag(attr::KEY_EX);
                w.put_u16(key_ex::HTYPE, key.from);
                w.put_u16(key_ex::CMD, if key.add { cmd::ADD } else { cmd::SET });
                w.end(nest);
            }
            w.end(nest);
        }
        let sel = TcPeditSel {
            common: start,
            nkeys: params.keys.len() as u8,
            flags: params.flags,
            pad: 0,
        };
        let ty = if params.extended {
            attr::PARMS_EX
        } else {
            attr::PARMS
        };
        if let Some(room) = w.reserve(ty, TcPeditSel::LEN + params.keys.len() * KEY_LEN) {
            let (head, keys) = room.split_at_mut(TcPeditSel::LEN);
            sel.write(head);
            for (key, room) in params.keys.iter().zip(keys.chunks_exact_mut(KEY_LEN)) {
                key.key.write(room);
            }
        }
        w.put_fixed(attr::TM, &common.ages(env));
    }
}

/// Options whose syntax has been checked.
pub struct Request {
    control: Code,
    params: Result<Params, Error>,
    /// An offset is not a multiple of 4; this is reported after the control action has been
    /// checked.
    unaligned: bool,
}

/// Parses the header and command of each of `n` keys (`tcf_pedit_keys_ex_parse`).
fn parse_extended(nest: &Attr<'_>, n: usize) -> Result<Vec<(u16, u16)>, Error> {
    let invalid = || Error::new(EINVAL);
    let one = |attr: Attr<'_>| {
        if attr.ty != attr::KEY_EX {
            return Err(invalid());
        }
        let tb = attr.parse_quietly(&KEY_POLICY)?;
        let number = |ty| {
            let octets = tb.get(ty)?.payload.first_chunk::<2>().copied()?;
            Some(u16::from_ne_bytes(octets))
        };
        match (number(key_ex::HTYPE), number(key_ex::CMD)) {
            (Some(htype), Some(cmd)) => Ok((htype, cmd)),
            _ => Err(invalid()),
        }
    };
    let keys: Vec<_> = nest
        .attrs()
        .take(n + 1)
        .map(one)
        .collect::<Result<_, _>>()?;
    if keys.len() == n {
        Ok(keys)
    } else {
        Err(invalid())
    }
}

/// Parses the keys of the parameters.
fn parse_keys(sel: &TcPeditSel, parms: &Attr<'_>, ex: Option<&Attr<'_>>) -> Result<Params, Error> {
    let n = usize::from(sel.nkeys);
    if n == 0 {
        return Err(Error::msg(
            EINVAL,
            "act_pedit: Pedit requires keys to be passed",
        ));
    }
    let keys = parms.payload.get(TcPeditSel::LEN..).unwrap_or_default();
    if keys.len() < n * KEY_LEN {
        let text = "Length of TCA_PEDIT_PARMS or TCA_PEDIT_PARMS_EX pedit attribute is invalid";
        return Err(Error::msg(EINVAL, text).at(parms));
    }
    let how = match ex {
        Some(nest) => parse_extended(nest, n)?,
        None => vec![(htype::NETWORK, cmd::SET); n],
    };
    let keys = keys
        .chunks_exact(KEY_LEN)
        .filter_map(TcPeditKey::from_bytes);
    let key = |(mut key, (from, cmd)): (TcPeditKey, (u16, u16))| {
        key.shift = key.shift.min(31);
        let add = cmd == cmd::ADD;
        Key { from, add, key }
    };
    Ok(Params {
        keys: keys.zip(how).map(key).collect(),
        extended: ex.is_some(),
        flags: sel.flags,
    })
}

impl Spec for Pedit {
    const KIND: &'static str = "pedit";
    type Request = Request;
    type Params = Params;

    fn parse(options: Option<&Attr<'_>>) -> Result<(u32, Request), Error> {
        let text = |text: &'static str| Error::msg(EINVAL, text);
        let options = options.ok_or(text("act_pedit: Pedit requires attributes to be passed"))?;
        let tb = options.parse_quietly(&POLICY)?;
        let parms = tb.get(attr::PARMS).or(tb.get(attr::PARMS_EX)).ok_or(text(
            "act_pedit: Missing required TCA_PEDIT_PARMS or TCA_PEDIT_PARMS_EX pedit attribute",
        ))?;
        let sel = TcPeditSel::from_bytes(parms.payload).ok_or(Error::new(EINVAL))?;
        let params = parse_keys(&sel, &parms, tb.get(attr::KEYS_EX).as_ref());
        let unaligned = |key: &Key| key.key.offmask == 0 && !key.key.off.is_multiple_of(4);
        let unaligned = params
            .as_ref()
            .is_ok_and(|params| params.keys.iter().any(unaligned));
        let control = sel.common.action;
        let request = Request {
            control,
            params,
            unaligned,
        };
        Ok((sel.common.index, request))
    }

    fn verify(request: &mut Request, _exists: bool) -> Result<(), Error> {
        request.params.as_ref().map(drop).map_err(Error::clone)
    }

    fn control(request: &Request) -> Code {
        request.control
    }

    fn prepare(request: Request, _host: &dyn Host) -> Result<Params, Error> {
        if request.unaligned {
            let text = "act_pedit: Offsets must be on 32bit boundaries";
            return Err(Error::msg(EINVAL, text));
        }
        request.params
    }

    published!(params: Published);
}
