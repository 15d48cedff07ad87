// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `tunnel_key`: sets or removes the metadata with which a tunnel device encapsulates a packet.
//!
//! Mirrors net/sched/act_tunnel_key.c.
//!
//! Parameters of `set`: source and destination of the tunnel (both IPv4 or both IPv6), `id` (32
//! bits; default: no key), `dst_port` (0: the device's), `tos`, `ttl` (0: those of the device and
//! the route), `csum` (default) or `nocsum` (UDP checksum), and options of one kind: Geneve
//! (several, up to 255 bytes in total), VXLAN (group policy) or ERSPAN. `unset` has no parameters.
//! The control action defaults to pipe in tc.
//!
//! The metadata is allocated once per action and shared; a packet gets a reference to it. The
//! tunnel device decides how to use it. The only tunnel device is `vxlan`, which ignores Geneve and
//! ERSPAN options.

use std::sync::Arc;

use weir_netlink::errno::{EINVAL, ERANGE};
use weir_netlink::tca::flower::{enc_gtp, enc_opts};
use weir_netlink::tca::tunnel_key as attr;
use weir_netlink::{
    Attr, Error, Fixed, Laid, Piece, Policy, Rule, Strictness, Table, TcGen, TcTunnelKey, TcfT,
    Writer, lay_out, policy,
};
use weir_packet::Packet;
use weir_packet::tunnel::{Ends, OPTIONS_MAX, OptionKind, Options, Tunnel};
use weir_sync::primitive::prefetch;
use weir_sync::rcu::{Guard, PublishedArc};

use super::{Common, Kind, Spec};
use crate::context::Context;
use crate::env::Env;
use crate::host::Host;
use crate::verdict::{Code, Outcome};

/// Bytes at the start of a frame that the reference to the metadata needs.
const REFERENCE: usize = 8;

static POLICY: Policy = policy! { max attr::MAX;
    attr::PARMS => Rule::unspec(TcTunnelKey::LEN as u16),
    attr::ENC_IPV4_SRC => Rule::u32(),
    attr::ENC_IPV4_DST => Rule::u32(),
    attr::ENC_IPV6_SRC => Rule::unspec(16),
    attr::ENC_IPV6_DST => Rule::unspec(16),
    attr::ENC_KEY_ID => Rule::u32(),
    attr::ENC_DST_PORT => Rule::u16(),
    attr::NO_CSUM => Rule::u8(),
    attr::ENC_OPTS => Rule::nested_any(),
    attr::ENC_TOS => Rule::u8(),
    attr::ENC_TTL => Rule::u8(),
};

static OPTS: Policy = policy! { max attr::enc_opts::MAX;
    attr::enc_opts::GENEVE => Rule::nested_any(),
    attr::enc_opts::VXLAN => Rule::nested_any(),
    attr::enc_opts::ERSPAN => Rule::nested_any(),
}
.strict_from(attr::enc_opts::VXLAN);

pub(crate) static GENEVE: Policy = policy! { max attr::geneve::MAX;
    attr::geneve::CLASS => Rule::u16(),
    attr::geneve::TYPE => Rule::u8(),
    attr::geneve::DATA => Rule::binary(127),
};

pub(crate) static VXLAN: Policy = policy! { max attr::vxlan::MAX;
    attr::vxlan::GBP => Rule::u32(),
};

pub(crate) static ERSPAN: Policy = policy! { max attr::erspan::MAX;
    attr::erspan::VER => Rule::u8(),
    attr::erspan::INDEX => Rule::u32(),
    attr::erspan::DIR => Rule::u8(),
    attr::erspan::HWID => Rule::u8(),
};

/// `VXLAN_GBP_MASK`
pub(crate) const GBP_MASK: u32 = 0x0048_ffff;

/// The kind's part of an action; no metadata means that the action removes the packet's.
pub struct TunnelKey {
    tunnel: PublishedArc<Tunnel>,
}

impl Kind for TunnelKey {
    fn run<'g>(
        &'g self,
        common: &'g Common,
        cx: &mut Context<'_, 'g>,
        packet: &mut Packet,
        _out: &mut Outcome<'g>,
    ) -> Code {
        common.hit(cx);
        cx.packet_changed();
        let tunnel = self.tunnel.get(cx.guard);
        if !packet.set_tunnel(tunnel) {
            // The frame has no headroom left, so the packet is copied to another frame.
            if let Some(mut wider) = packet.copy_with_headroom(REFERENCE) {
                wider.set_tunnel(self.tunnel.get(cx.guard));
                *packet = wider;
            }
        }
        common.control()
    }

    fn dump(&self, common: &Common, start: TcGen, env: &Env<'_>, w: &mut Writer) {
        let tunnel = self.tunnel.load(env.guard);
        let parms = TcTunnelKey {
            common: start,
            t_action: match tunnel {
                Some(_) => attr::ACT_SET,
                None => attr::ACT_RELEASE,
            },
        };
        if let Some(tunnel) = tunnel
            && let Some(ends) = most_frequent(tunnel)
        {
            if let (_, Some(all)) = w.put_laid_out(&MOST_FREQUENT) {
                fill(all, &parms, tunnel, ends, &common.ages(env));
            }
            return;
        }
        w.put_piece::<92>(|start| {
            start.put_fixed(attr::PARMS, &parms);
            if let Some(tunnel) = tunnel {
                put_tunnel(tunnel, start);
            }
        });
        if let Some(options) = tunnel.and_then(|tunnel| tunnel.options.as_ref()) {
            let nest = w.nest_noflag(attr::ENC_OPTS);
            dump_options(options.kind, &options.octets, w);
            w.end(nest);
        }
        w.put_piece::<52>(|end| {
            if let Some(tunnel) = tunnel {
                if tunnel.tos != 0 {
                    end.put(attr::ENC_TOS, [tunnel.tos]);
                }
                if tunnel.ttl != 0 {
                    end.put(attr::ENC_TTL, [tunnel.ttl]);
                }
            }
            end.put_fixed(attr::TM, &common.ages(env));
        });
    }

    fn prefetch(&self, guard: &Guard) {
        if let Some(tunnel) = self.tunnel.load(guard) {
            prefetch(std::ptr::from_ref(tunnel));
        }
    }

    fn offload(&self, _common: &Common, _env: &Env<'_>) -> Result<(), Option<&'static str>> {
        Ok(())
    }
}

/// The attributes of most actions: those for which [`most_frequent`] returns the addresses.
const MOST_FREQUENT: [u8; 104] = lay_out(&[
    Laid::Value(attr::PARMS, TcTunnelKey::LEN),
    Laid::Value(attr::ENC_KEY_ID, 4),
    Laid::Value(attr::ENC_IPV4_SRC, 4),
    Laid::Value(attr::ENC_IPV4_DST, 4),
    Laid::Value(attr::ENC_DST_PORT, 2),
    Laid::Value(attr::NO_CSUM, 1),
    Laid::Value(attr::TM, TcfT::LEN),
]);

/// Returns source and destination if they are IPv4 addresses and the tunnel has an identifier, a
/// port, no options, and the default TOS and TTL.
fn most_frequent(tunnel: &Tunnel) -> Option<([u8; 4], [u8; 4])> {
    let usual = tunnel.has_id
        && tunnel.dst_port != 0
        && tunnel.options.is_none()
        && tunnel.tos == 0
        && tunnel.ttl == 0;
    match tunnel.ends {
        Ends::V4(src, dst) if usual => Some((src, dst)),
        _ => None,
    }
}

/// Stores the values of [`MOST_FREQUENT`].
#[inline]
fn fill(
    all: &mut [u8; 104],
    parms: &TcTunnelKey,
    tunnel: &Tunnel,
    (src, dst): ([u8; 4], [u8; 4]),
    ages: &TcfT,
) {
    parms.write(&mut all[4..28]);
    all[32..36].copy_from_slice(&tunnel.id.to_be_bytes());
    all[40..44].copy_from_slice(&src);
    all[48..52].copy_from_slice(&dst);
    all[56..58].copy_from_slice(&tunnel.dst_port.to_be_bytes());
    all[64] = u8::from(!tunnel.checksum);
    ages.write(&mut all[72..104]);
}

/// Encodes the attributes that precede the options.
#[inline(always)]
fn put_tunnel<const N: usize>(tunnel: &Tunnel, out: &mut Piece<'_, N>) {
    if tunnel.has_id {
        out.put(attr::ENC_KEY_ID, tunnel.id.to_be_bytes());
    }
    match &tunnel.ends {
        Ends::V4(src, dst) => {
            out.put(attr::ENC_IPV4_SRC, *src);
            out.put(attr::ENC_IPV4_DST, *dst);
        }
        Ends::V6(ends) => {
            out.put(attr::ENC_IPV6_SRC, ends.0);
            out.put(attr::ENC_IPV6_DST, ends.1);
        }
    }
    if tunnel.dst_port != 0 {
        out.put(attr::ENC_DST_PORT, tunnel.dst_port.to_be_bytes());
    }
    out.put(attr::NO_CSUM, [u8::from(!tunnel.checksum)]);
}

/// Encodes options. The types are also those of flower's attributes.
pub(crate) fn dump_options(kind: OptionKind, octets: &[u8], w: &mut Writer) {
    match kind {
        OptionKind::Geneve => {
            let nest = w.nest_noflag(attr::enc_opts::GENEVE);
            let mut rest = octets;
            while let Some((&[c0, c1, ty, len], behind)) = rest.split_first_chunk::<4>() {
                let len = (usize::from(len & 0x1f) * 4).min(behind.len());
                let (data, behind) = behind.split_at(len);
                w.put(attr::geneve::CLASS, &[c0, c1]);
                w.put_u8(attr::geneve::TYPE, ty);
                w.put(attr::geneve::DATA, data);
                rest = behind;
            }
            w.end(nest);
        }
        OptionKind::Vxlan => {
            let nest = w.nest_noflag(attr::enc_opts::VXLAN);
            w.put(attr::vxlan::GBP, octets.get(..4).unwrap_or(octets));
            w.end(nest);
        }
        OptionKind::Erspan => {
            let nest = w.nest_noflag(attr::enc_opts::ERSPAN);
            if let Some(&[v0, v1, v2, v3, i0, i1, i2, i3, _, _, upper, lower]) =
                octets.first_chunk::<12>()
            {
                let version = u32::from_ne_bytes([v0, v1, v2, v3]);
                w.put_u8(attr::erspan::VER, version as u8);
                if version == 1 {
                    w.put(attr::erspan::INDEX, &[i0, i1, i2, i3]);
                } else if version == 2 {
                    w.put_u8(attr::erspan::DIR, lower >> 3 & 1);
                    w.put_u8(attr::erspan::HWID, (upper & 3) << 4 | lower >> 4);
                }
            }
            w.end(nest);
        }
        // No action creates these; only flower matches them.
        OptionKind::Gtp => {
            let nest = w.nest_noflag(enc_opts::GTP);
            if let Some(&[ty, qfi]) = octets.first_chunk::<2>() {
                w.put_u8(enc_gtp::PDU_TYPE, ty);
                w.put_u8(enc_gtp::QFI, qfi);
            }
            w.end(nest);
        }
    }
}

fn text(message: &'static str) -> Error {
    Error::msg(EINVAL, message)
}

/// Parses a Geneve option (`tunnel_key_copy_geneve_opt`).
fn geneve(attr: &Attr<'_>, out: &mut Vec<u8>) -> Result<(), Error> {
    use attr::geneve as g;
    let tb = attr.parse(&GENEVE, Strictness::Liberal)?;
    let (Some(class), Some(ty), Some(data)) = (tb.get(g::CLASS), tb.get(g::TYPE), tb.get(g::DATA))
    else {
        return Err(text("Missing tunnel key geneve option class, type or data"));
    };
    let data = data.payload;
    if data.len() < 4 {
        return Err(Error::msg(
            ERANGE,
            "Tunnel key geneve option data is less than 4 bytes long",
        ));
    }
    if !data.len().is_multiple_of(4) {
        return Err(Error::msg(
            ERANGE,
            "Tunnel key geneve option data is not a multiple of 4 bytes long",
        ));
    }
    out.extend(class.array::<2>()?);
    out.extend([ty.u8()?, (data.len() / 4) as u8]);
    out.extend(data);
    Ok(())
}

/// Parses a VXLAN option (`tunnel_key_copy_vxlan_opt`).
fn vxlan(attr: &Attr<'_>) -> Result<[u8; 4], Error> {
    let tb = attr.parse(&VXLAN, Strictness::Strict)?;
    let gbp = tb
        .get(attr::vxlan::GBP)
        .ok_or(text("Missing tunnel key vxlan option gbp"))?;
    Ok((gbp.u32()? & GBP_MASK).to_ne_bytes())
}

/// Returns the bytes of `struct erspan_metadata`.
pub(crate) fn erspan_octets(version: u8, index: [u8; 4], dir: u8, hwid: u8) -> [u8; 12] {
    let mut octets = [0; 12];
    octets[..4].copy_from_slice(&u32::from(version).to_ne_bytes());
    if version == 1 {
        octets[4..8].copy_from_slice(&index);
    } else {
        octets[10] = hwid >> 4 & 3;
        octets[11] = (dir & 1) << 3 | hwid << 4;
    }
    octets
}

/// Parses an ERSPAN option (`tunnel_key_copy_erspan_opt`).
fn erspan(attr: &Attr<'_>) -> Result<[u8; 12], Error> {
    use attr::erspan as e;
    let tb = attr.parse(&ERSPAN, Strictness::Strict)?;
    let version = tb
        .get(e::VER)
        .ok_or(text("Missing tunnel key erspan option ver"))?
        .u8()?;
    let number = |ty| tb.get(ty).map_or(Ok(0), |attr| attr.u8());
    match version {
        1 => {
            let index = tb
                .get(e::INDEX)
                .ok_or(text("Missing tunnel key erspan option index"))?;
            Ok(erspan_octets(1, index.array()?, 0, 0))
        }
        2 if tb.has(e::DIR) && tb.has(e::HWID) => {
            Ok(erspan_octets(2, [0; 4], number(e::DIR)?, number(e::HWID)?))
        }
        2 => Err(text("Missing tunnel key erspan option dir or hwid")),
        _ => Err(text("Tunnel key erspan option ver is incorrect")),
    }
}

/// Parses the options of a tunnel (`tunnel_key_copy_opts`, `tunnel_key_opts_set`).
fn options(nest: &Attr<'_>) -> Result<Options, Error> {
    use attr::enc_opts as o;
    weir_netlink::validate(nest.attrs(), &OPTS, Strictness::Liberal)?;
    let mut kind = None;
    let mut octets = Vec::new();
    let mut attrs = nest.attrs();
    for attr in attrs.by_ref() {
        match (attr.ty, kind) {
            (o::GENEVE, None | Some(OptionKind::Geneve)) => {
                geneve(&attr, &mut octets)?;
                if octets.len() > OPTIONS_MAX {
                    return Err(text("Tunnel options exceeds max size"));
                }
                kind = Some(OptionKind::Geneve);
            }
            (o::GENEVE, _) => return Err(text("Duplicate type for geneve options")),
            (o::VXLAN, None) => {
                octets.extend(vxlan(&attr)?);
                kind = Some(OptionKind::Vxlan);
            }
            (o::VXLAN, _) => return Err(text("Duplicate type for vxlan options")),
            (o::ERSPAN, None) => {
                octets.extend(erspan(&attr)?);
                kind = Some(OptionKind::Erspan);
            }
            (o::ERSPAN, _) => return Err(text("Duplicate type for erspan options")),
            _ => {}
        }
    }
    let kind = kind.ok_or(text("Empty list of tunnel options"))?;
    if !attrs.rest().is_empty() {
        return Err(text(
            "Trailing data after parsing tunnel key options attributes",
        ));
    }
    if !nest
        .attrs()
        .next()
        .is_some_and(|first| (o::GENEVE..=o::ERSPAN).contains(&first.ty))
    {
        return Err(text("Cannot set tunnel options for unknown tunnel type"));
    }
    Ok(Options {
        kind,
        octets: octets.into(),
    })
}

/// Returns the metadata that the attributes describe, or `None` for `unset`.
fn tunnel(action: i32, tb: &Table<'_>) -> Result<Option<Arc<Tunnel>>, Error> {
    match action {
        attr::ACT_RELEASE => return Ok(None),
        attr::ACT_SET => {}
        _ => return Err(text("Unknown tunnel key action")),
    }
    let options = tb.get(attr::ENC_OPTS).as_ref().map(options).transpose()?;
    let ends = if let (Some(src), Some(dst)) =
        (tb.get(attr::ENC_IPV4_SRC), tb.get(attr::ENC_IPV4_DST))
    {
        Ends::V4(src.array()?, dst.array()?)
    } else if let (Some(src), Some(dst)) = (tb.get(attr::ENC_IPV6_SRC), tb.get(attr::ENC_IPV6_DST))
    {
        Ends::V6(Box::new((src.array()?, dst.array()?)))
    } else {
        return Err(text("Missing either ipv4 or ipv6 src and dst"));
    };
    Ok(Some(Arc::new(Tunnel {
        ends,
        options: options.map(Box::new),
        id: tb.be32(attr::ENC_KEY_ID)?.unwrap_or(0),
        has_id: tb.has(attr::ENC_KEY_ID),
        src_port: 0,
        dst_port: tb.be16(attr::ENC_DST_PORT)?.unwrap_or(0),
        tos: tb.u8(attr::ENC_TOS)?.unwrap_or(0),
        ttl: tb.u8(attr::ENC_TTL)?.unwrap_or(0),
        checksum: tb.u8(attr::NO_CSUM)?.unwrap_or(0) == 0,
        dont_fragment: false,
        transmit: true,
        bridge: false,
        hop: false,
    })))
}

/// A request whose outer syntax has been checked.
pub struct Request {
    control: Code,
    /// The metadata, or the error that `validate` reports.
    tunnel: Result<Option<Arc<Tunnel>>, Error>,
}

impl Spec for TunnelKey {
    const KIND: &'static str = "tunnel_key";
    const EXISTS: Option<&'static str> = Some("TC IDR already exists");
    type Request = Request;
    type Params = Option<Arc<Tunnel>>;

    fn parse(options: Option<&Attr<'_>>) -> Result<(u32, Request), Error> {
        let options = options.ok_or_else(|| text("Tunnel requires attributes to be passed"))?;
        let mut tb = Table::empty();
        options
            .parse_into(&POLICY, Strictness::Liberal, &mut tb)
            .map_err(|error| Error {
                message: Some("Failed to parse nested tunnel key attributes".into()),
                ..error
            })?;
        let parms = tb
            .get(attr::PARMS)
            .and_then(|parms| TcTunnelKey::from_bytes(parms.payload));
        let parms = parms.ok_or_else(|| text("Missing tunnel key parameters"))?;
        let request = Request {
            control: parms.common.action,
            tunnel: tunnel(parms.t_action, &tb),
        };
        Ok((parms.common.index, request))
    }

    fn validate(request: &Request, _exists: bool) -> Result<(), Error> {
        match &request.tunnel {
            Ok(_) => Ok(()),
            Err(error) => Err(error.clone()),
        }
    }

    fn control(request: &Request) -> Code {
        request.control
    }

    fn prepare(request: Request, _host: &dyn Host) -> Result<Self::Params, Error> {
        request.tunnel
    }

    published!(tunnel: PublishedArc);
}
