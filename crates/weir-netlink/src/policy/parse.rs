// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The parser: `__nla_validate_parse`, `validate_nla` and the functions they call (`lib/nlattr.c`).
//!
//! The checks run in Linux's order, so that with several faults the same one is reported.

use super::table::{LEVEL_MAX, Table};
use super::{Check, Kind, Policy, Rule};
use crate::attr::{Attr, Attrs, FAILED};
use crate::consts::errno::{EINVAL, EMSGSIZE, ERANGE};
use crate::error::Error;
use crate::wire::ATTR_HEADER_LEN as HEADER_LEN;

/// `MAX_POLICY_RECURSION_DEPTH`.
const MAX_DEPTH: u32 = 10;

const BAD_LENGTH: &str = "invalid attribute length";
const NOT_NESTED: &str = "NLA_F_NESTED is missing";

/// How strictly attributes are checked (`NL_VALIDATE_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strictness {
    /// Unknown types and trailing bytes pass (`nla_parse_deprecated`).
    Liberal,
    /// Unknown types and trailing bytes are refused (`nla_parse_deprecated_strict`).
    DeprecatedStrict,
    /// Lengths, nest flags and unspecified types are also checked (`nla_parse`).
    Strict,
}

const TRAILING: u8 = 1;
const MAXTYPE: u8 = 2;
const UNSPEC: u8 = 4;
const STRICT_ATTRS: u8 = 8;
const NESTED: u8 = 16;
const STRICT: u8 = TRAILING | MAXTYPE | UNSPEC | STRICT_ATTRS | NESTED;

impl Strictness {
    const fn bits(self) -> u8 {
        match self {
            Strictness::Liberal => 0,
            Strictness::DeprecatedStrict => TRAILING | MAXTYPE,
            Strictness::Strict => STRICT,
        }
    }
}

/// Checks `bytes` against a policy and indexes them, with offsets counted from their start.
pub fn parse<'a>(
    bytes: &'a [u8],
    policy: &'static Policy,
    strictness: Strictness,
) -> Result<Table<'a>, Error> {
    parse_at(bytes, 0, policy, strictness)
}

/// Does the same as [`parse`] for bytes that begin `offset` bytes into their message.
pub fn parse_at<'a>(
    bytes: &'a [u8],
    offset: u32,
    policy: &'static Policy,
    strictness: Strictness,
) -> Result<Table<'a>, Error> {
    let mut table = Table::empty();
    parse_into(Attrs::new(bytes, offset), policy, strictness, &mut table)?;
    Ok(table)
}

/// Does the same as [`parse`], but stores `attrs` in the caller's empty table: moving a table costs
/// more than filling it.
pub fn parse_into<'a>(
    attrs: Attrs<'a>,
    policy: &'static Policy,
    strictness: Strictness,
    table: &mut Table<'a>,
) -> Result<(), Error> {
    walk(attrs, policy, strictness.bits(), 0, Some(table))
}

/// Checks `attrs` against a policy (`nla_validate*`).
pub fn validate(
    attrs: Attrs<'_>,
    policy: &'static Policy,
    strictness: Strictness,
) -> Result<(), Error> {
    walk(attrs, policy, strictness.bits(), 0, None)
}

/// Indexes attributes up to type `max` without any check (`nla_parse` without a policy). Of a level
/// longer than 256 KiB, only the beginning is read.
pub fn index(attrs: Attrs<'_>, max: u16) -> Table<'_> {
    let mut table = Table::empty();
    let bytes = attrs.rest();
    table.bytes = &bytes[..bytes.len().min(LEVEL_MAX)];
    table.offset = attrs.offset();
    let mut rest = Attrs::new(table.bytes, table.offset);
    for attr in rest.by_ref() {
        if attr.ty != 0 && attr.ty <= max {
            table.set(attr.ty, attr.offset);
        }
    }
    table.leftover = rest.rest().len() as u32;
    table
}

impl<'a> Attr<'a> {
    /// Parses the nested attributes: `nla_parse_nested` (which requires the nest flag) when strict,
    /// `nla_parse_nested_deprecated` otherwise.
    pub fn parse(
        &self,
        policy: &'static Policy,
        strictness: Strictness,
    ) -> Result<Table<'a>, Error> {
        let mut table = Table::empty();
        self.parse_into(policy, strictness, &mut table)?;
        Ok(table)
    }

    /// Does the same as [`parse`](Self::parse), but stores the attributes in the caller's empty
    /// table.
    pub fn parse_into(
        &self,
        policy: &'static Policy,
        strictness: Strictness,
        table: &mut Table<'a>,
    ) -> Result<(), Error> {
        if strictness == Strictness::Strict && !self.nested {
            return Err(self.invalid(NOT_NESTED));
        }
        parse_into(self.attrs(), policy, strictness, table)
    }

    /// Parses liberally, where Linux does so without an extended acknowledgement: of an error, only
    /// the errno is kept.
    pub fn parse_quietly(&self, policy: &'static Policy) -> Result<Table<'a>, Error> {
        self.parse(policy, Strictness::Liberal)
            .map_err(Error::quiet)
    }

    /// Indexes the nested attributes without a check.
    pub fn index(&self, max: u16) -> Table<'a> {
        index(self.attrs(), max)
    }
}

/// Checks one level of attributes and indexes it (`__nla_validate_parse`).
fn walk<'a>(
    attrs: Attrs<'a>,
    policy: &'static Policy,
    bits: u8,
    depth: u32,
    mut table: Option<&mut Table<'a>>,
) -> Result<(), Error> {
    if depth >= MAX_DEPTH {
        let text = "allowed policy recursion depth exceeded";
        return Err(Error::msg(EINVAL, text));
    }
    if let Some(table) = table.as_deref_mut() {
        if attrs.rest().len() > LEVEL_MAX {
            return Err(Error::msg(EMSGSIZE, "Too many bytes of attributes"));
        }
        table.bytes = attrs.rest();
        table.offset = attrs.offset();
    }
    let quick = bits & !(TRAILING | MAXTYPE) == 0;
    let mut rest = attrs;
    // Most attributes are well-formed and need no further check: only their headers are read.
    loop {
        if let Some(table) = table.as_deref_mut()
            && quick
            && policy.strict_start == 0
        {
            table.take(&mut rest, policy.passes);
        }
        let Some((ty, len)) = rest.peek() else {
            break;
        };
        match policy.rule(ty).filter(|_| ty != 0) {
            Some(rule) => {
                let strict = policy.strict_start != 0 && ty >= policy.strict_start;
                let (least, most) = rule.passes;
                let payload = len - HEADER_LEN;
                let passes = usize::from(least) <= payload && payload <= usize::from(most);
                if !(quick && !strict && passes) {
                    check(rest, rule, bits | if strict { STRICT } else { 0 }, depth)?;
                }
                if let Some(table) = table.as_deref_mut() {
                    table.set(ty, rest.offset());
                }
            }
            None if bits & MAXTYPE != 0 => {
                let unknown = Error::msg(EINVAL, "Unknown attribute type");
                return Err(unknown.at_offset(rest.offset()));
            }
            None => {}
        }
        rest.pass(len);
    }
    let leftover = rest.rest().len() as u32;
    if leftover > 0 {
        if bits & TRAILING != 0 {
            let text = "bytes leftover after parsing attributes";
            return Err(Error::msg(EINVAL, text));
        }
        if let Some(table) = table {
            table.leftover = leftover;
        }
    }
    Ok(())
}

/// Creates an error about an attribute and its rule (`NL_SET_ERR_MSG_ATTR_POL`).
#[cold]
#[inline(never)]
fn fail(errno: i32, text: &'static str, attr: &Attr<'_>, rule: &'static Rule) -> Result<(), Error> {
    Err(Error::msg(errno, text).at(attr).by(rule))
}

/// Validates the next attribute (`validate_nla`).
#[inline(never)]
fn check(mut attrs: Attrs<'_>, rule: &'static Rule, bits: u8, depth: u32) -> Result<(), Error> {
    let Some(attr) = &attrs.next() else {
        return Ok(());
    };
    let len = attr.payload.len();
    let bound = usize::from(rule.len);
    let width = rule.kind.width();
    if width != 0 && len != width && bits & STRICT_ATTRS != 0 {
        return fail(EINVAL, BAD_LENGTH, attr, rule);
    }
    if bits & NESTED != 0 {
        let wants = matches!(rule.kind, Kind::Nested | Kind::NestedArray);
        if wants && !attr.nested {
            return fail(EINVAL, NOT_NESTED, attr, rule);
        }
        if !wants && rule.kind != Kind::Unspec && attr.nested {
            return fail(EINVAL, "NLA_F_NESTED not expected", attr, rule);
        }
    }
    match rule.kind {
        Kind::Reject => {
            return match rule.reject {
                Some(text) => Err(attr.invalid(text)),
                None => fail(EINVAL, FAILED, attr, rule),
            };
        }
        Kind::Flag => {
            if len > 0 {
                return fail(ERANGE, FAILED, attr, rule);
            }
        }
        Kind::Bitfield32 => {
            if len != 8 {
                return fail(ERANGE, FAILED, attr, rule);
            }
            let (value, selector) = attr.bitfield32()?;
            if rule.bits == 0 || (selector | value) & !rule.bits != 0 || value & !selector != 0 {
                return fail(EINVAL, FAILED, attr, rule);
            }
        }
        Kind::String | Kind::NulString => {
            if rule.kind == Kind::NulString {
                let within = if bound == 0 { len } else { len.min(bound + 1) };
                if !attr.payload[..within].contains(&0) {
                    return fail(EINVAL, FAILED, attr, rule);
                }
            }
            let text = attr.payload.strip_suffix(&[0]).unwrap_or(attr.payload);
            if len == 0 || bound != 0 && text.len() > bound {
                return fail(ERANGE, FAILED, attr, rule);
            }
        }
        Kind::Binary => {
            if bound != 0 && len > bound {
                return fail(ERANGE, FAILED, attr, rule);
            }
        }
        Kind::Nested | Kind::NestedArray => {
            if len != 0 && len < HEADER_LEN {
                return fail(ERANGE, FAILED, attr, rule);
            }
            if let Some(inside) = rule.inside.filter(|_| len != 0) {
                if rule.kind == Kind::Nested {
                    walk(attr.attrs(), inside, bits, depth + 1, None)?;
                } else {
                    check_array(attr, inside, bits, depth)?;
                }
            }
        }
        Kind::Unspec => {
            if bits & UNSPEC != 0 {
                return Err(attr.invalid("Unsupported attribute"));
            }
            if len < bound {
                return fail(ERANGE, FAILED, attr, rule);
            }
        }
        _ => {
            let least = match (bound, rule.kind) {
                (0, Kind::Msecs) => 8,
                (0, _) => width,
                (bound, _) => bound,
            };
            if len < least {
                return fail(ERANGE, FAILED, attr, rule);
            }
        }
    }
    match rule.check {
        Check::None => Ok(()),
        Check::Function(function) => function(attr),
        Check::Mask(mask) => match unsigned(attr, rule.kind) {
            Some(value) if value & !mask == 0 => Ok(()),
            Some(_) => Err(attr.invalid("reserved bit set")),
            None => Err(Error::new(EINVAL)),
        },
        Check::Range(..)
        | Check::RangeWarnTooLong(..)
        | Check::Min(_)
        | Check::Max(_)
        | Check::Signed(..) => check_range(attr, rule, bits),
    }
}

/// `nla_validate_array`.
fn check_array(
    attr: &Attr<'_>,
    inside: &'static Policy,
    bits: u8,
    depth: u32,
) -> Result<(), Error> {
    for entry in attr.attrs() {
        match entry.payload.len() {
            0 => continue,
            1..4 => {
                let error = Error::msg(ERANGE, "Array element too short").at(&entry);
                return Err(match inside.rule(0) {
                    Some(rule) => error.by(rule),
                    None => error,
                });
            }
            _ => walk(entry.attrs(), inside, bits, depth + 1, None)?,
        }
    }
    Ok(())
}

/// Returns the value that a range or mask is compared with.
fn unsigned(attr: &Attr<'_>, kind: Kind) -> Option<u64> {
    match kind {
        Kind::U8 => attr.u8().ok().map(u64::from),
        Kind::U16 => attr.u16().ok().map(u64::from),
        Kind::U32 => attr.u32().ok().map(u64::from),
        Kind::U64 | Kind::Msecs => attr.u64().ok(),
        Kind::Be16 => attr.be16().ok().map(u64::from),
        Kind::Be32 => attr.be32().ok().map(u64::from),
        Kind::Binary => Some(attr.payload.len() as u64),
        _ => None,
    }
}

/// `nla_validate_int_range`.
fn check_range(attr: &Attr<'_>, rule: &'static Rule, bits: u8) -> Result<(), Error> {
    let signed = match rule.kind {
        Kind::S8 => attr.u8().ok().map(|v| i64::from(v as i8)),
        Kind::S16 => attr.u16().ok().map(|v| i64::from(v as i16)),
        Kind::S32 => attr.i32().ok().map(i64::from),
        Kind::S64 => attr.i64().ok(),
        _ => None,
    };
    if let Some(value) = signed {
        let (min, max) = rule.signed_bounds();
        if value < min || value > max {
            return fail(ERANGE, "integer out of range", attr, rule);
        }
        return Ok(());
    }
    let Some(value) = unsigned(attr, rule.kind) else {
        return Err(Error::new(EINVAL));
    };
    let (min, max) = rule.bounds();
    let binary = rule.kind == Kind::Binary;
    if binary && value > max && matches!(rule.check, Check::RangeWarnTooLong(..)) {
        if bits & STRICT_ATTRS != 0 {
            return fail(EINVAL, BAD_LENGTH, attr, rule);
        }
        return Ok(());
    }
    match value < min || value > max {
        true if binary => fail(ERANGE, "binary attribute size out of range", attr, rule),
        true => fail(ERANGE, "integer out of range", attr, rule),
        false => Ok(()),
    }
}
