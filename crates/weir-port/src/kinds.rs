// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table of live ports: one line per kind.

use crate::port::Kind;
use crate::{Error, Result, af_packet, af_xdp, generator, null, pcap, socket, tap};

/// All kinds.
pub const KINDS: &[&Kind] = &[
    &af_packet::KIND,
    &af_xdp::KIND,
    &generator::KIND,
    &null::KIND,
    &pcap::KIND,
    &socket::KIND,
    &tap::KIND,
];

/// Returns the kind with this name.
///
/// # Errors
/// There is no such kind; the message lists all kinds.
pub fn kind(name: &str) -> Result<&'static Kind> {
    let found = KINDS.iter().find(|kind| kind.name == name);
    found.copied().ok_or_else(|| {
        let names: Vec<_> = KINDS.iter().map(|kind| kind.name).collect();
        let what = format!("no such kind of port; the kinds are {}", names.join(", "));
        Error::new(name, what)
    })
}
