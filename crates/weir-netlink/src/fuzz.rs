// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs one fuzz input through all of this crate and checks the invariants.
//!
//! For fuzz targets and property tests: [`one`] panics if an invariant is violated.

use crate::ack::{AckOptions, refusal, write_ack};
use crate::attr::{Attrs, align};
use crate::consts::nlm::nla;
use crate::error::Error;
use crate::message::{HEADER_LEN, Message, messages};
use crate::policy::{Policy, Rule, Strictness, index, parse_at};
use crate::print;
use crate::writer::Writer;

static LEAF: Policy = crate::policy! { max 12;
    1 => Rule::u8(), 2 => Rule::u16().max(500), 3 => Rule::u32().mask(0xffff), 4 => Rule::u64(),
    5 => Rule::string(15), 6 => Rule::nul_string(7), 7 => Rule::binary(32), 8 => Rule::exact(6),
    9 => Rule::flag(), 10 => Rule::bitfield32(3), 11 => Rule::s32().signed(-5, 5),
    12 => Rule::reject("no"),
};

/// A policy that nests in itself, so that only the parser bounds the depth.
static TREE: Policy = crate::policy! { max 20;
    1 => Rule::u32(), 2 => Rule::nested(&TREE), 3 => Rule::nested_array(&TREE),
    4 => Rule::nested(&LEAF), 5 => Rule::be16(), 6 => Rule::msecs(), 7 => Rule::unspec(3),
    8 => Rule::exact_warn(4), 9 => Rule::min_len(2), 10 => Rule::nested_any(),
    11 => Rule::u8().range(2, 9), 12 => Rule::s16().min(1), 13 => Rule::be32().max(7),
}
.strict_from(15);

/// Reads `data` as a datagram and as attributes, writes both again, and writes the reply to every
/// refusal.
pub fn one(data: &[u8]) {
    let _ = print::datagram(data);
    let mut written = Writer::new();
    for m in messages(data) {
        again(&mut written, &m);
        for head in [0, 1, 4, 8, 12, 16, 20] {
            check(&m, m.attrs_after(head));
        }
    }
    // The rewritten message must read the same and be rewritten the same.
    let mut twice = Writer::new();
    for m in messages(written.bytes()) {
        again(&mut twice, &m);
    }
    assert_eq!(written.bytes(), twice.bytes());
}

/// Writes a message again: a fixed part of 4 bytes, then attributes.
fn again(w: &mut Writer, m: &Message<'_>) {
    let h = m.header;
    let mark = w.message(h.ty, h.flags, h.seq, h.pid);
    w.raw(&m.payload()[..m.payload().len().min(4)]);
    w.pad();
    for attr in m.attrs_after(4) {
        let flags = [
            (attr.nested, nla::F_NESTED),
            (attr.net_byteorder, nla::F_NET_BYTEORDER),
        ];
        let flags = flags.iter().filter(|f| f.0).fold(0, |bits, f| bits | f.1);
        w.put(attr.ty | flags, attr.payload);
    }
    let result = w.finish(mark);
    assert!(
        result.is_ok(),
        "there is no bound, and each attribute fitted its length"
    );
}

/// Parses attributes with every strictness and checks the results.
fn check(m: &Message<'_>, attrs: Attrs<'_>) {
    let plain = index(attrs, 20);
    for policy in [&LEAF, &TREE] {
        let mut laxer = true;
        for level in [
            Strictness::Liberal,
            Strictness::DeprecatedStrict,
            Strictness::Strict,
        ] {
            match parse_at(attrs.rest(), attrs.offset(), policy, level) {
                Ok(table) => {
                    assert!(laxer, "attributes that pass strict checks pass the others");
                    for ty in table.types() {
                        assert_eq!(table.get(ty), plain.get(ty));
                        if let Some(a) = table.get(ty) {
                            let _ = (a.u8(), a.u64(), a.str(), a.ip(), a.bitfield32());
                        }
                    }
                }
                Err(error) => {
                    laxer = false;
                    refuse(m, &error);
                }
            }
        }
    }
}

/// Checks that a refusal points inside the message, and that its reply is well-formed to the end.
fn refuse(m: &Message<'_>, error: &Error) {
    assert!(error.offset.is_none_or(|at| (at as usize) < m.bytes.len()));
    for (cap, ext) in [(false, false), (false, true), (true, true)] {
        let mut w = Writer::new();
        let result = write_ack(&mut w, m, 7, Some(error), AckOptions { cap, ext });
        assert!(result.is_ok(), "there is no bound");
        let mut walk = messages(w.bytes());
        let Some(answer) = walk.next() else {
            panic!("a reply is a message");
        };
        assert!(walk.rest().is_empty());
        let read = refusal(w.bytes()).unwrap_or_default();
        let text = error.message.as_ref().filter(|_| ext);
        assert_eq!((read.errno, read.message.as_ref()), (error.errno, text));
        let echo = if cap { HEADER_LEN } else { m.bytes.len() };
        let mut tlvs = answer.attrs_after(4 + align(echo));
        assert_eq!(tlvs.by_ref().count() > 0, ext);
        assert!(tlvs.rest().is_empty());
    }
}
