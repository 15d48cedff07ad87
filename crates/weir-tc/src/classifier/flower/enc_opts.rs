// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Flower's keys of tunnel options: `geneve_opts`, `vxlan_opts`, `erspan_opts`, `gtp_opts`.
//!
//! Mirrors `fl_set_enc_opt` and `fl_dump_key_enc_opt` with everything they call
//! (net/sched/cls_flower.c). Key and mask consist of the bytes of the options as in tunnel
//! metadata, their total length and their kind: a filter matches packets with the same options in
//! the same order. Without a mask all bits of an option are compared, except that of ERSPAN only
//! the lowest bit of the version is, as in Linux.

use weir_netlink::errno::{EINVAL, ERANGE};
use weir_netlink::tca::flower::{self as fl, enc_erspan, enc_geneve, enc_gtp, enc_opts, enc_vxlan};
use weir_netlink::{Attr, Attrs, Error, Policy, Rule, Strictness, Table, Writer, policy};
use weir_packet::tunnel::{OPTIONS_MAX, OptionKind};

use super::key::Key;
use crate::action::tunnel_key::{ERSPAN, GBP_MASK, GENEVE, VXLAN, dump_options, erspan_octets};

static OPTS: Policy = policy! { max enc_opts::MAX;
    enc_opts::GENEVE => Rule::nested_any(),
    enc_opts::VXLAN => Rule::nested_any(),
    enc_opts::ERSPAN => Rule::nested_any(),
    enc_opts::GTP => Rule::nested_any(),
}
.strict_from(enc_opts::VXLAN);

static GTP: Policy = policy! { max enc_gtp::MAX;
    enc_gtp::PDU_TYPE => Rule::u8(),
    enc_gtp::QFI => Rule::u8(),
};

fn text(message: &'static str) -> Error {
    Error::msg(EINVAL, message)
}

/// The part of a filter that an option belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side<'a> {
    Key(Attr<'a>),
    /// The attribute and the length of the key's option. Without an attribute all bits are
    /// compared.
    Mask(Option<Attr<'a>>, usize),
}

impl<'a> Side<'a> {
    /// Returns the attribute, which must have the type of the key's.
    fn attr(self, ty: u16, other: &'static str) -> Result<Option<Attr<'a>>, Error> {
        match self {
            Side::Key(attr) => Ok(Some(attr)),
            Side::Mask(Some(attr), _) if attr.ty != ty => Err(text(other)),
            Side::Mask(attr, _) => Ok(attr),
        }
    }

    fn is_key(self) -> bool {
        matches!(self, Side::Key(_))
    }
}

/// Returns the bytes of a Geneve option that follows `len` bytes of options (`fl_set_geneve_opt`).
fn geneve(side: Side<'_>, len: usize) -> Result<Vec<u8>, Error> {
    use enc_geneve as g;
    if len > OPTIONS_MAX - 4 {
        return Err(Error::new(ERANGE));
    }
    let attr = side.attr(enc_opts::GENEVE, "Non-geneve option type for mask")?;
    let given = match side {
        Side::Mask(_, given) => given,
        Side::Key(_) => 0,
    };
    let mut data = vec![0xff; given.saturating_sub(4)];
    let (mut class, mut ty) = if side.is_key() {
        ([0; 2], 0)
    } else {
        ([0xff; 2], 0xff)
    };
    if let Some(attr) = attr {
        let tb = attr.parse(&GENEVE, Strictness::Liberal)?;
        if side.is_key() && !(tb.has(g::CLASS) && tb.has(g::TYPE) && tb.has(g::DATA)) {
            return Err(text("Missing tunnel key geneve option class, type or data"));
        }
        if let Some(attr) = tb.get(g::DATA) {
            data = attr.payload.to_vec();
            let range = |message: &'static str| Err(Error::msg(ERANGE, message));
            if data.len() < 4 {
                return range("Tunnel key geneve option data is less than 4 bytes long");
            }
            if !data.len().is_multiple_of(4) {
                return range("Tunnel key geneve option data is not a multiple of 4 bytes long");
            }
            if len + 4 + data.len() > OPTIONS_MAX {
                return range("Tunnel options exceeds max size");
            }
        }
        if let Some(attr) = tb.get(g::CLASS) {
            class = attr.array()?;
        }
        ty = tb.u8(g::TYPE)?.unwrap_or(ty);
    }
    // The length field is that of the data in the mask as well.
    let mut octets = vec![class[0], class[1], ty, (data.len() / 4) as u8];
    octets.append(&mut data);
    Ok(octets)
}

/// Returns the bytes of a VXLAN option (`fl_set_vxlan_opt`).
fn vxlan(side: Side<'_>) -> Result<Vec<u8>, Error> {
    let mut gbp = u32::MAX;
    if let Some(attr) = side.attr(enc_opts::VXLAN, "Non-vxlan option type for mask")? {
        let tb = attr.parse(&VXLAN, Strictness::Strict)?;
        match tb.u32(enc_vxlan::GBP)? {
            Some(given) => gbp = given & GBP_MASK,
            None if side.is_key() => return Err(text("Missing tunnel key vxlan option gbp")),
            None => {}
        }
    }
    Ok(gbp.to_ne_bytes().into())
}

/// Returns the bytes of an ERSPAN option (`fl_set_erspan_opt`).
fn erspan(side: Side<'_>) -> Result<Vec<u8>, Error> {
    use enc_erspan as e;
    let Some(attr) = side.attr(enc_opts::ERSPAN, "Non-erspan option type for mask")? else {
        return Ok(erspan_octets(1, [0; 4], 0, 0).into());
    };
    let tb = attr.parse(&ERSPAN, Strictness::Strict)?;
    if side.is_key() && !tb.has(e::VER) {
        return Err(text("Missing tunnel key erspan option ver"));
    }
    let version = tb.u8(e::VER)?.unwrap_or(1);
    match version {
        1 => {
            if side.is_key() && !tb.has(e::INDEX) {
                return Err(text("Missing tunnel key erspan option index"));
            }
            let index = tb.get(e::INDEX).map(|attr| attr.array());
            let index = index.transpose()?.unwrap_or([0xff; 4]);
            Ok(erspan_octets(1, index, 0, 0).into())
        }
        2 => {
            if side.is_key() && !(tb.has(e::DIR) && tb.has(e::HWID)) {
                return Err(text("Missing tunnel key erspan option dir or hwid"));
            }
            let dir = tb.u8(e::DIR)?.unwrap_or(1);
            let hwid = tb.u8(e::HWID)?.unwrap_or(0xff);
            Ok(erspan_octets(2, [0; 4], dir, hwid).into())
        }
        _ => Err(text("Tunnel key erspan option ver is incorrect")),
    }
}

/// Returns the bytes of a GTP option (`fl_set_gtp_opt`).
fn gtp(side: Side<'_>) -> Result<Vec<u8>, Error> {
    let attr = side.attr(enc_opts::GTP, "cls_flower: Non-gtp option type for mask")?;
    let mut octets = [0xff; 2];
    if let Some(attr) = attr {
        let tb = attr.parse(&GTP, Strictness::Strict)?;
        if side.is_key() && !(tb.has(enc_gtp::PDU_TYPE) && tb.has(enc_gtp::QFI)) {
            return Err(text(
                "cls_flower: Missing tunnel key gtp option pdu type or qfi",
            ));
        }
        let [ty, qfi] = octets;
        octets = [
            tb.u8(enc_gtp::PDU_TYPE)?.unwrap_or(ty),
            tb.u8(enc_gtp::QFI)?.unwrap_or(qfi),
        ];
    }
    Ok(octets.into())
}

/// Returns the kind of an option, and the messages for duplicates and for a mask of another length.
fn kind(ty: u16) -> Result<(OptionKind, &'static str, &'static str), Error> {
    const ALIGN: &str = "Key and mask miss aligned";
    Ok(match ty {
        enc_opts::GENEVE => (
            OptionKind::Geneve,
            "Duplicate type for geneve options",
            ALIGN,
        ),
        enc_opts::VXLAN => (OptionKind::Vxlan, "Duplicate type for vxlan options", ALIGN),
        enc_opts::ERSPAN => (
            OptionKind::Erspan,
            "Duplicate type for erspan options",
            ALIGN,
        ),
        enc_opts::GTP => (
            OptionKind::Gtp,
            "cls_flower: Duplicate type for gtp options",
            "cls_flower: Key and mask miss aligned",
        ),
        _ => return Err(text("Unknown tunnel option type")),
    })
}

fn option(kind: OptionKind, side: Side<'_>, len: usize) -> Result<Vec<u8>, Error> {
    match kind {
        OptionKind::Geneve => geneve(side, len),
        OptionKind::Vxlan => vxlan(side),
        OptionKind::Erspan => erspan(side),
        OptionKind::Gtp => gtp(side),
    }
}

/// Stores options in a key or mask.
fn store(key: &mut Key, kind: OptionKind, octets: &[u8]) {
    let flow = &mut key.flow;
    (flow.enc_opts_type, flow.enc_opts_len) = (kind.bit(), octets.len() as u8);
    for (to, from) in flow.enc_opts.iter_mut().zip(octets) {
        *to = *from;
    }
}

/// Returns the next mask attribute, if there are any left. Each belongs to one attribute of the
/// key.
fn next_mask<'a>(masks: &mut Option<Attrs<'a>>) -> Result<Option<Attr<'a>>, Error> {
    let Some(attrs) = masks else {
        return Ok(None);
    };
    if attrs.rest().is_empty() {
        return Ok(None);
    }
    attrs
        .next()
        .map(Some)
        .ok_or(text("A mask attribute is invalid"))
}

/// Parses the options of key and mask (`fl_set_enc_opt`).
pub fn parse(tb: &Table<'_>, key: &mut Key, mask: &mut Key) -> Result<(), Error> {
    let Some(opts) = tb.get(fl::KEY_ENC_OPTS) else {
        return Ok(());
    };
    weir_netlink::validate(opts.attrs(), &OPTS, Strictness::Liberal)?;
    let mut masks = None;
    if let Some(opts) = tb.get(fl::KEY_ENC_OPTS_MASK) {
        weir_netlink::validate(opts.attrs(), &OPTS, Strictness::Liberal)?;
        if opts.attrs().next().is_none() {
            return Err(text("Invalid nested attribute for masks"));
        }
        masks = Some(opts.attrs());
    }
    let (mut values, mut bits) = (Vec::new(), Vec::new());
    let mut before = None;
    for attr in opts.attrs() {
        let (kind, duplicate, misaligned) = kind(attr.ty)?;
        // Only Geneve allows several options.
        if before.is_some_and(|before| before != kind || kind != OptionKind::Geneve) {
            return Err(text(duplicate));
        }
        before = Some(kind);
        let value = option(kind, Side::Key(attr), values.len())?;
        let side = Side::Mask(next_mask(&mut masks)?, value.len());
        values.extend(value);
        bits.extend(option(kind, side, bits.len())?);
        if values.len() != bits.len() {
            return Err(text(misaligned));
        }
        if let Some(attrs) = &masks
            && !attrs.rest().is_empty()
            && attrs.clone().next().is_none()
        {
            return Err(text("A mask attribute is invalid"));
        }
    }
    if let Some(kind) = before {
        store(key, kind, &values);
        store(mask, kind, &bits);
    }
    Ok(())
}

/// Encodes the options of a key or mask (`fl_dump_key_options`).
pub fn dump(w: &mut Writer, ty: u16, key: &Key) {
    let octets = key.flow.enc_opts.get(..usize::from(key.flow.enc_opts_len));
    let kind = OptionKind::of_bit(key.flow.enc_opts_type);
    if let (Some(octets), Some(kind)) = (octets, kind)
        && !octets.is_empty()
    {
        let nest = w.nest_noflag(ty);
        dump_options(kind, octets, w);
        w.end(nest);
    }
}
