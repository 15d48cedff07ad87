// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Kinds that Linux has and that wait for what the stack does not have yet: refused with a sentence.

use weir_netlink::Error;

/// Names, and why.
pub type Waiting = &'static [(&'static str, &'static str)];

/// Actions.
pub static ACTIONS: Waiting = &[
    (
        "ct",
        "Action ct needs connection tracking, which is not served",
    ),
    (
        "connmark",
        "Action connmark needs connection tracking, which is not served",
    ),
    (
        "ctinfo",
        "Action ctinfo needs connection tracking, which is not served",
    ),
    ("bpf", "Action bpf needs eBPF, which is not served"),
    (
        "xt",
        "Action xt needs netfilter's targets, which are not served",
    ),
];

/// Qdiscs.
pub static QDISCS: Waiting = &[(
    "teql0",
    "Qdisc teql0 needs a device of its own, which is not served",
)];

/// What a kind there is none of is refused with: its sentence, or else `error`, Linux's own.
pub fn unknown(kind: &[u8], waiting: Waiting, error: Error) -> Error {
    let waits = waiting.iter().find(|(name, _)| name.as_bytes() == kind);
    waits.map_or(error, |&(_, sentence)| Error::unsupported(sentence))
}
