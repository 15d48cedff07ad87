// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Policies: static descriptions of valid attributes, and the parser that checks attributes against
//! them.
//!
//! Mirrors `struct nla_policy` and `__nla_validate_parse` with `validate_nla` (`lib/nlattr.c`) of
//! Linux 6.1: the order of the checks, the errno and the sentences are the same. A [`Table`] is the
//! kernel's `tb[]`: of several attributes of one type, the last one counts.
//!
//! Not implemented: the kernel's warnings to its own log.

mod parse;
mod table;

pub use parse::{Strictness, index, parse, parse_at, parse_into, validate};
pub use table::{TABLE_SIZE, Table};

use crate::attr::Attr;
use crate::consts::nlm;
use crate::error::{Describe, Error};
use crate::writer::Writer;

/// The type of an attribute (`NLA_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // The names are Linux's.
pub enum Kind {
    Unspec,
    U8,
    U16,
    U32,
    U64,
    String,
    Flag,
    Msecs,
    Nested,
    NestedArray,
    NulString,
    Binary,
    S8,
    S16,
    S32,
    S64,
    Bitfield32,
    Reject,
    Be16,
    Be32,
}

impl Kind {
    /// Returns the only valid length of an integer (`nla_attr_len`), or 0 for all other types.
    pub(super) const fn width(self) -> usize {
        match self {
            Kind::U8 | Kind::S8 => 1,
            Kind::U16 | Kind::S16 | Kind::Be16 => 2,
            Kind::U32 | Kind::S32 | Kind::Be32 => 4,
            Kind::U64 | Kind::S64 => 8,
            _ => 0,
        }
    }
}

/// The check of a value in addition to its type (`NLA_VALIDATE_*`).
#[derive(Clone, Copy, Debug)]
pub enum Check {
    /// No check.
    None,
    /// The smallest and the largest value; for [`Kind::Binary`], of the length.
    Range(u64, u64),
    /// Like [`Check::Range`], but a binary that is too long is refused only under strict checks.
    RangeWarnTooLong(u64, u64),
    /// The smallest value.
    Min(u64),
    /// The largest value.
    Max(u64),
    /// The smallest and the largest value of a signed kind.
    Signed(i64, i64),
    /// The bits that may be set.
    Mask(u64),
    /// A custom check.
    Function(fn(&Attr<'_>) -> Result<(), Error>),
}

/// An empty range of lengths.
const NEVER: (u16, u16) = (1, 0);

/// The rule for one attribute (`struct nla_policy`).
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// The type.
    pub kind: Kind,
    /// The maximum length for strings and binaries, the minimum length for unspecified types and
    /// integers. 0 means no bound.
    pub len: u16,
    /// Further checks.
    pub check: Check,
    /// The policy of the nested attributes.
    pub inside: Option<&'static Policy>,
    /// The sentence for [`Kind::Reject`].
    pub reject: Option<&'static str>,
    /// The bits that may be selected, for [`Kind::Bitfield32`].
    pub bits: u32,
    /// The range of lengths that pass without further checks, except under strict checks. See
    /// [`sealed`](Self::sealed).
    passes: (u16, u16),
}

impl Rule {
    /// Creates a rule of that kind without bounds.
    pub const fn new(kind: Kind) -> Self {
        Rule {
            kind,
            len: 0,
            check: Check::None,
            inside: None,
            reject: None,
            bits: 0,
            passes: NEVER,
        }
    }

    /// Computes the lengths that pass without further checks, for the parser's fast path. The macro
    /// [`policy!`](crate::policy!) calls this for every rule.
    #[must_use]
    pub const fn sealed(mut self) -> Self {
        const LONGEST: u16 = u16::MAX;
        let (len, width) = (self.len, self.kind.width() as u16);
        self.passes = match (self.kind, self.check) {
            (Kind::Unspec, Check::None) => (len, LONGEST),
            (Kind::Binary, Check::None) => (0, if len == 0 { LONGEST } else { len }),
            (Kind::String, Check::None) => (1, if len == 0 { LONGEST } else { len }),
            (Kind::Nested, Check::None) if self.inside.is_none() => (4, LONGEST),
            (_, Check::None) if width != 0 => (if len == 0 { width } else { len }, LONGEST),
            _ => NEVER,
        };
        self
    }
    /// Accepts anything of at least `len` bytes. Strict checks refuse it ("Unsupported attribute").
    pub const fn unspec(len: u16) -> Self {
        Rule::new(Kind::Unspec).len(len)
    }
    /// `NLA_U8`.
    pub const fn u8() -> Self {
        Rule::new(Kind::U8)
    }
    /// `NLA_U16`.
    pub const fn u16() -> Self {
        Rule::new(Kind::U16)
    }
    /// `NLA_U32`.
    pub const fn u32() -> Self {
        Rule::new(Kind::U32)
    }
    /// `NLA_U64`.
    pub const fn u64() -> Self {
        Rule::new(Kind::U64)
    }
    /// `NLA_S8`.
    pub const fn s8() -> Self {
        Rule::new(Kind::S8)
    }
    /// `NLA_S16`.
    pub const fn s16() -> Self {
        Rule::new(Kind::S16)
    }
    /// `NLA_S32`.
    pub const fn s32() -> Self {
        Rule::new(Kind::S32)
    }
    /// `NLA_S64`.
    pub const fn s64() -> Self {
        Rule::new(Kind::S64)
    }
    /// `NLA_BE16`.
    pub const fn be16() -> Self {
        Rule::new(Kind::Be16)
    }
    /// `NLA_BE32`.
    pub const fn be32() -> Self {
        Rule::new(Kind::Be32)
    }
    /// `NLA_MSECS`.
    pub const fn msecs() -> Self {
        Rule::new(Kind::Msecs)
    }
    /// `NLA_FLAG`.
    pub const fn flag() -> Self {
        Rule::new(Kind::Flag)
    }
    /// `NLA_STRING` of at most `max` bytes without its NUL; 0 means no bound.
    pub const fn string(max: u16) -> Self {
        Rule::new(Kind::String).len(max)
    }
    /// `NLA_NUL_STRING` of at most `max` bytes without its NUL; 0 means no bound.
    pub const fn nul_string(max: u16) -> Self {
        Rule::new(Kind::NulString).len(max)
    }
    /// `NLA_BINARY` of at most `max` bytes; 0 means no bound.
    pub const fn binary(max: u16) -> Self {
        Rule::new(Kind::Binary).len(max)
    }
    /// `NLA_POLICY_EXACT_LEN`.
    pub const fn exact(len: u16) -> Self {
        Rule::new(Kind::Binary).range(len as u64, len as u64)
    }
    /// `NLA_POLICY_EXACT_LEN_WARN`: a longer value passes except under strict checks.
    pub const fn exact_warn(len: u16) -> Self {
        let mut rule = Rule::new(Kind::Binary);
        rule.check = Check::RangeWarnTooLong(len as u64, len as u64);
        rule
    }
    /// `NLA_POLICY_MIN_LEN`.
    pub const fn min_len(len: u16) -> Self {
        Rule::new(Kind::Binary).min(len as u64)
    }
    /// `NLA_POLICY_ETH_ADDR`: 6 bytes.
    pub const fn eth_addr() -> Self {
        Rule::exact(6)
    }
    /// `NLA_NESTED` without a policy; the handler parses it.
    pub const fn nested_any() -> Self {
        Rule::new(Kind::Nested)
    }
    /// `NLA_POLICY_NESTED`.
    pub const fn nested(policy: &'static Policy) -> Self {
        let mut rule = Rule::new(Kind::Nested);
        rule.inside = Some(policy);
        rule
    }
    /// `NLA_POLICY_NESTED_ARRAY`: a run of nests of any type.
    pub const fn nested_array(policy: &'static Policy) -> Self {
        let mut rule = Rule::new(Kind::NestedArray);
        rule.inside = Some(policy);
        rule
    }
    /// `NLA_POLICY_BITFIELD32`.
    pub const fn bitfield32(bits: u32) -> Self {
        let mut rule = Rule::new(Kind::Bitfield32);
        rule.bits = bits;
        rule
    }
    /// `NLA_REJECT` with its sentence.
    pub const fn reject(text: &'static str) -> Self {
        let mut rule = Rule::new(Kind::Reject);
        rule.reject = Some(text);
        rule
    }
    /// Sets [`Rule::len`].
    pub const fn len(mut self, len: u16) -> Self {
        self.len = len;
        self
    }
    /// `NLA_POLICY_RANGE` for an unsigned kind.
    pub const fn range(mut self, min: u64, max: u64) -> Self {
        self.check = Check::Range(min, max);
        self
    }
    /// `NLA_POLICY_RANGE` for a signed kind.
    pub const fn signed(mut self, min: i64, max: i64) -> Self {
        self.check = Check::Signed(min, max);
        self
    }
    /// `NLA_POLICY_MIN`.
    pub const fn min(mut self, min: u64) -> Self {
        self.check = Check::Min(min);
        self
    }
    /// `NLA_POLICY_MAX`.
    pub const fn max(mut self, max: u64) -> Self {
        self.check = Check::Max(max);
        self
    }
    /// `NLA_POLICY_MASK`.
    pub const fn mask(mut self, mask: u64) -> Self {
        self.check = Check::Mask(mask);
        self
    }
    /// `NLA_POLICY_VALIDATE_FN`.
    pub const fn check(mut self, check: fn(&Attr<'_>) -> Result<(), Error>) -> Self {
        self.check = Check::Function(check);
        self
    }

    /// `nla_get_range_unsigned`.
    pub(super) fn bounds(&self) -> (u64, u64) {
        let most = match self.kind {
            Kind::U8 => u64::from(u8::MAX),
            Kind::U16 | Kind::Be16 | Kind::Binary => u64::from(u16::MAX),
            Kind::U32 | Kind::Be32 => u64::from(u32::MAX),
            _ => u64::MAX,
        };
        match self.check {
            Check::Range(min, max) | Check::RangeWarnTooLong(min, max) => (min, max),
            Check::Min(min) => (min, most),
            Check::Max(max) => (0, max),
            _ => (0, most),
        }
    }

    /// `nla_get_range_signed`.
    pub(super) fn signed_bounds(&self) -> (i64, i64) {
        let (least, most) = match self.kind {
            Kind::S8 => (i64::from(i8::MIN), i64::from(i8::MAX)),
            Kind::S16 => (i64::from(i16::MIN), i64::from(i16::MAX)),
            Kind::S32 => (i64::from(i32::MIN), i64::from(i32::MAX)),
            _ => (i64::MIN, i64::MAX),
        };
        match self.check {
            Check::Signed(min, max) => (min, max),
            Check::Min(min) => (min as i64, most),
            Check::Max(max) => (least, max as i64),
            _ => (least, most),
        }
    }
}

impl Describe for Rule {
    /// Describes the rule as `NLMSGERR_ATTR_POLICY` does.
    fn describe(&self, w: &mut Writer, ty: u16) {
        use nlm::attr_type as at;
        use nlm::policy as np;
        let nest = w.nest(ty);
        let kind = match self.kind {
            Kind::Unspec | Kind::Reject | Kind::Be16 | Kind::Be32 => return w.cancel(nest),
            Kind::Nested => at::NESTED,
            Kind::NestedArray => at::NESTED_ARRAY,
            Kind::Flag => at::FLAG,
            Kind::U8 | Kind::U16 | Kind::U32 | Kind::U64 | Kind::Msecs => {
                if let Check::Mask(mask) = self.check {
                    w.put_u64_pad(np::MASK, mask, np::PAD);
                } else {
                    let (min, max) = self.bounds();
                    w.put_u64_pad(np::MIN_VALUE_U, min, np::PAD);
                    w.put_u64_pad(np::MAX_VALUE_U, max, np::PAD);
                }
                match self.kind {
                    Kind::U8 => at::U8,
                    Kind::U16 => at::U16,
                    Kind::U32 => at::U32,
                    _ => at::U64,
                }
            }
            Kind::S8 | Kind::S16 | Kind::S32 | Kind::S64 => {
                let (min, max) = self.signed_bounds();
                w.put_u64_pad(np::MIN_VALUE_S, min as u64, np::PAD);
                w.put_u64_pad(np::MAX_VALUE_S, max as u64, np::PAD);
                match self.kind {
                    Kind::S8 => at::S8,
                    Kind::S16 => at::S16,
                    Kind::S32 => at::S32,
                    _ => at::S64,
                }
            }
            Kind::Bitfield32 => {
                w.put_u32(np::BITFIELD32_MASK, self.bits);
                at::BITFIELD32
            }
            Kind::String | Kind::NulString | Kind::Binary => {
                if let Check::Range(min, max) | Check::RangeWarnTooLong(min, max) = self.check {
                    if min != 0 {
                        w.put_u32(np::MIN_LENGTH, min as u32);
                    }
                    if max < u64::from(u16::MAX) {
                        w.put_u32(np::MAX_LENGTH, max as u32);
                    }
                } else if self.len != 0 {
                    w.put_u32(np::MAX_LENGTH, u32::from(self.len));
                }
                match self.kind {
                    Kind::String => at::STRING,
                    Kind::NulString => at::NUL_STRING,
                    _ => at::BINARY,
                }
            }
        };
        w.put_u32(np::TYPE, kind);
        w.end(nest);
    }
}

impl Error {
    /// Adds the violated rule (`NL_SET_ERR_MSG_ATTR_POL`).
    #[must_use]
    pub fn by(mut self, rule: &'static Rule) -> Self {
        self.policy = Some(rule);
        self
    }
}

/// The rules of a family of attributes, by type. [`policy!`](crate::policy!) defines it as a
/// static; a policy may nest in itself.
#[derive(Clone, Copy, Debug)]
pub struct Policy {
    rules: &'static [Rule],
    /// For each rule, the lengths that pass without further checks, stored contiguously.
    passes: &'static [(u16, u16)],
    pub(super) strict_start: u16,
}

impl Policy {
    /// Creates a policy from a table indexed by attribute type; its length minus one is the highest
    /// type. `passes` is the result of [`passes`](Self::passes).
    pub const fn new(rules: &'static [Rule], passes: &'static [(u16, u16)]) -> Self {
        assert!(rules.len() <= TABLE_SIZE, "TABLE_SIZE bounds the types");
        assert!(
            rules.len() == passes.len(),
            "there is one of each for each type"
        );
        Policy {
            rules,
            passes,
            strict_start: 0,
        }
    }

    /// Returns the lengths that pass without further checks for `N` rules.
    pub const fn passes<const N: usize>(rules: &[Rule; N]) -> [(u16, u16); N] {
        let mut passes = [NEVER; N];
        let mut ty = 1;
        // Type 0 does not exist.
        while ty < N {
            passes[ty] = rules[ty].passes;
            ty += 1;
        }
        passes
    }

    /// Makes types from `ty` on subject to strict checks, whatever the caller requests
    /// (`strict_start_type`).
    pub const fn strict_from(mut self, ty: u16) -> Self {
        self.strict_start = ty;
        self
    }

    /// Returns the rule of a type, if the type is within the policy.
    pub fn rule(&self, ty: u16) -> Option<&'static Rule> {
        self.rules.get(usize::from(ty))
    }

    /// Returns the highest type.
    pub const fn max_type(&self) -> u16 {
        self.rules.len().saturating_sub(1) as u16
    }
}

/// Defines a [`Policy`] from a highest type and rules by type. Types that are not listed get
/// [`Rule::unspec`]`(0)`.
///
/// ```
/// use weir_netlink::{Policy, Rule, ifla, policy};
/// static INFO: Policy = policy! { max ifla::info::MAX;
///     ifla::info::KIND => Rule::string(0),
///     ifla::info::DATA => Rule::nested_any(),
/// };
/// static LINK: Policy = policy! { max ifla::MAX;
///     ifla::IFNAME => Rule::string(15),
///     ifla::LINKINFO => Rule::nested(&INFO),
/// };
/// ```
#[macro_export]
macro_rules! policy {
    (max $max:expr; $($ty:expr => $rule:expr),* $(,)?) => {
{
            // A static and not a constant, so that a policy may nest in itself.
            static TABLE: [$crate::Rule; $max as usize + 1] = {
                #[allow(unused_mut)]
                let mut rules = [$crate::Rule::unspec(0).sealed(); $max as usize + 1];
                $(rules[$ty as usize] = $rule.sealed();)*
                rules
            };
            static PASSES: [(u16, u16); $max as usize + 1] = $crate::Policy::passes(&TABLE);
            $crate::Policy::new(&TABLE, &PASSES)
        }
    };
}
