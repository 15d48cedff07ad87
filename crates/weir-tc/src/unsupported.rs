// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Kinds that Linux has but that need something this stack does not provide. They are refused with
//! a message.

use weir_netlink::Error;

/// The names of kinds, each with the message it is refused with.
pub type Unsupported = &'static [(&'static str, &'static str)];

/// The actions.
pub static ACTIONS: Unsupported = &[
    ("bpf", "Action bpf needs eBPF, which is not served"),
    (
        "xt",
        "Action xt needs netfilter's targets, which are not served",
    ),
];

/// The qdiscs.
pub static QDISCS: Unsupported = &[(
    "teql0",
    "Qdisc teql0 needs a device of its own, which is not served",
)];

/// Returns the error for an unknown kind: its message if it is listed in `kinds`, otherwise
/// `error`, which is Linux's own.
pub fn unknown(kind: &[u8], kinds: Unsupported, error: Error) -> Error {
    let listed = kinds.iter().find(|(name, _)| name.as_bytes() == kind);
    listed.map_or(error, |&(_, sentence)| Error::unsupported(sentence))
}
