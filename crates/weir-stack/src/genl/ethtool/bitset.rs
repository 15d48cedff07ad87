// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sets of named bits (net/ethtool/bitset.c). A compact one is two bit maps in words of 32 bits, a verbose one
//! a list of bits with their names.

use weir_netlink::{Attr, Error, Policy, Rule, Strictness, Writer, errno, ethtool as attr};
use weir_netlink::{parse_at, policy};

use attr::bitset;

/// The longest bitset in bits (`ETHNL_MAX_BITSET_SIZE`).
const LONGEST: u64 = i16::MAX as u64;

static POLICY: Policy = policy! { max bitset::MASK;
    bitset::NOMASK => Rule::flag(),
    bitset::SIZE => Rule::u32().max(LONGEST),
    bitset::BITS => Rule::nested_any(),
    bitset::VALUE => Rule::binary(0),
    bitset::MASK => Rule::binary(0),
};
static BIT: Policy = policy! { max bitset::BIT_VALUE;
    bitset::BIT_INDEX => Rule::u32(),
    bitset::BIT_NAME => Rule::nul_string(0),
    bitset::BIT_VALUE => Rule::flag(),
};

/// Writes a set (`ethnl_put_bitset32`). Without a mask it is the list of the bits in `value`. More than 64
/// names make bits that are not set.
pub fn put(w: &mut Writer, ty: u16, value: u64, mask: Option<u64>, names: &[&str], compact: bool) {
    let nest = w.nest(ty);
    if mask.is_none() {
        w.put_flag(bitset::NOMASK);
    }
    w.put_u32(bitset::SIZE, names.len() as u32);
    if compact {
        let words = names.len().div_ceil(32);
        let bytes = |map: u64| {
            let words = (0..words).map(move |n| map.checked_shr(32 * n as u32).unwrap_or(0) as u32);
            words.flat_map(u32::to_ne_bytes).collect::<Vec<u8>>()
        };
        w.put(bitset::VALUE, &bytes(value));
        if let Some(mask) = mask {
            w.put(bitset::MASK, &bytes(mask));
        }
    } else {
        let list = w.nest(bitset::BITS);
        for (n, name) in names.iter().enumerate().take(64) {
            let is = |map: u64| map >> n & 1 != 0;
            if !is(mask.unwrap_or(value)) {
                continue;
            }
            let bit = w.nest(bitset::BITS_BIT);
            w.put_u32(bitset::BIT_INDEX, n as u32);
            w.put_str(bitset::BIT_NAME, name);
            if mask.is_some() && is(value) {
                w.put_flag(bitset::BIT_VALUE);
            }
            w.end(bit);
        }
        w.end(list);
    }
    w.end(nest);
}

/// Reads a set of bits named by `names`, at most 64, as value and mask (`ethnl_parse_bitset`).
pub fn parse(set: &Attr<'_>, names: &[&str]) -> Result<(u64, u64), Error> {
    let inside = set.attrs();
    let tb = parse_at(inside.rest(), inside.offset(), &POLICY, Strictness::Strict)?;
    let all = u64::MAX >> (64 - names.len().clamp(1, 64));
    let list = tb.has(bitset::NOMASK);
    let (value, mask) = (tb.get(bitset::VALUE), tb.get(bitset::MASK));
    let Some(bits) = tb.get(bitset::BITS) else {
        let size = tb.u32(bitset::SIZE)?;
        let size = size.ok_or_else(|| set.invalid("missing size in compact bitset"))?;
        let value = value.ok_or_else(|| set.invalid("missing value in compact bitset"))?;
        match &mask {
            None if !list => {
                return Err(set.invalid("missing mask in compact nonlist bitset"));
            }
            Some(mask) if list => {
                return Err(mask.invalid("mask not allowed in list bitset"));
            }
            _ => {}
        }
        let length = size.div_ceil(32) as usize * 4;
        if value.len() != length {
            return Err(value.invalid("bitset value length does not match size"));
        }
        if let Some(mask) = mask.as_ref().filter(|mask| mask.len() != length) {
            return Err(mask.invalid("bitset mask length does not match size"));
        }
        let tested = mask.as_ref().unwrap_or(&value);
        let beyond = |n: &usize| {
            let byte = tested.payload.get(n / 32 * 4..n / 32 * 4 + 4);
            let word = byte.and_then(|word| word.first_chunk().copied());
            word.is_some_and(|word| u32::from_ne_bytes(word) >> (n % 32) & 1 != 0)
        };
        if (names.len()..size as usize).any(|n| beyond(&n)) {
            return Err(tested.invalid("cannot modify bits past kernel bitset size"));
        }
        let below = match size {
            0 => 0,
            size => all & (u64::MAX >> (64 - size.min(64))),
        };
        let map = |attr: &Attr<'_>| {
            let words = attr.payload.chunks_exact(4).take(2).enumerate();
            let words = words.map(|(n, word)| {
                let word = word
                    .first_chunk()
                    .map_or(0, |word| u32::from_ne_bytes(*word));
                u64::from(word) << (32 * n)
            });
            words.fold(0, |map, word| map | word) & below
        };
        return Ok((map(&value), mask.as_ref().map_or(all, map)));
    };
    if let Some(value) = value {
        return Err(value.invalid("value only allowed in compact bitset"));
    }
    if let Some(mask) = mask {
        return Err(mask.invalid("mask only allowed in compact bitset"));
    }
    let (mut value, mut mask) = (0, if list { all } else { 0 });
    for bit in bits.attrs() {
        let (index, on) = parse_bit(&bit, list, names)?;
        let bit = 1_u64.checked_shl(index as u32).unwrap_or(0);
        value |= if on { bit } else { 0 };
        mask |= bit;
    }
    Ok((value, mask))
}

/// Reads a bit as index and value (`ethnl_parse_bit`).
fn parse_bit(bit: &Attr<'_>, list: bool, names: &[&str]) -> Result<(usize, bool), Error> {
    let inside = bit.attrs();
    let tb = parse_at(inside.rest(), inside.offset(), &BIT, Strictness::Strict)?;
    let (index, name) = (tb.get(bitset::BIT_INDEX), tb.get(bitset::BIT_NAME));
    let unknown = |text, at: &Attr<'_>| Error::msg(errno::EOPNOTSUPP, text).at(at);
    let index = match (index, name) {
        (Some(index), name) => {
            let number = index.u32()? as usize;
            let known = names.get(number);
            let known = known.ok_or_else(|| unknown("bit index too high", &index))?;
            if name.is_some_and(|name| name.c_str() != known.as_bytes()) {
                return Err(bit.invalid("bit index and name mismatch"));
            }
            number
        }
        (None, Some(name)) => {
            let wanted = name.c_str();
            let found = names
                .iter()
                .position(|known| !known.is_empty() && known.as_bytes() == wanted);
            found.ok_or_else(|| unknown("bit name not found", &name))?
        }
        (None, None) => return Err(bit.invalid("neither bit index nor name specified")),
    };
    Ok((index, list || tb.has(bitset::BIT_VALUE)))
}
