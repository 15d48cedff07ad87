// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The files of multicast routing (`ipmr_vif_seq_show`, `ipmr_mfc_seq_show`, `ip6mr_vif_seq_show`, and
//! `ipmr_mfc_seq_show` of `net/ipv6/ip6mr.c`). They show the table that every namespace has, and no others.

use std::fmt::Write as _;
use std::sync::Arc;

use weir_stack::ipv4::multicast::V4;
use weir_stack::ipv6::multicast::V6;
use weir_stack::multicast::{self, Family, Key, Route, Vif};
use weir_stack::{Namespace, Stack};

use super::raw;

/// Formats VIFs below a line of names. `ends` writes what follows the flags.
fn vifs<F: Family>(
    stack: &Stack,
    ns: &Namespace,
    names: &str,
    ends: impl Fn(&mut String, &Vif<F>),
) -> String {
    let mut text = format!("Interface      BytesIn  PktsIn  BytesOut PktsOut Flags{names}\n");
    let guard = stack.domain.pin();
    let Some(router) = multicast::of::<F>(ns, F::TABLE) else {
        return text;
    };
    for vif in router.vifs(&guard).iter() {
        let ((packets, bytes), (sent, sent_bytes)) = (vif.received(), vif.sent());
        let _ = write!(
            text,
            "{:2} {:<10} {bytes:8} {packets:7}  {sent_bytes:8} {sent:7} {:05X}",
            vif.number,
            vif.device.name(),
            vif.flags,
        );
        ends(&mut text, vif);
        text.push('\n');
    }
    text
}

/// Formats `/proc/net/ip_mr_vif`.
pub fn vifs4(stack: &Stack, ns: &Arc<Namespace>) -> String {
    vifs::<V4>(stack, ns, " Local    Remote", |text, vif| {
        let [local, remote] = [vif.ends.local, vif.ends.remote].map(u32::from_ne_bytes);
        let _ = write!(text, " {local:08X} {remote:08X}");
    })
}

/// Formats `/proc/net/ip6_mr_vif`.
pub fn vifs6(stack: &Stack, ns: &Arc<Namespace>) -> String {
    vifs::<V6>(stack, ns, "", |_, _| {})
}

/// Formats routes below a line of names. `show` writes a group and a source.
fn cache<F: Family>(
    stack: &Stack,
    ns: &Namespace,
    names: &str,
    show: impl Fn(&mut String, Key<F::Address>),
) -> String {
    let mut text = format!("{names}\n");
    let guard = stack.domain.pin();
    let Some(router) = multicast::of::<F>(ns, F::TABLE) else {
        return text;
    };
    let vifs = router.vifs(&guard);
    for route in router.routes() {
        let (parent, counts, hops) = match &route {
            Route::Known(entry) => {
                let hops = entry.shown(vifs, 0).hops;
                (entry.parent.into(), entry.counts(), hops)
            }
            Route::Unresolved(_) => (-1, [0; 3], Vec::new()),
        };
        let [packets, bytes, wrong] = counts;
        show(&mut text, route.key());
        let _ = write!(text, " {parent:<3} {packets:8} {bytes:8} {wrong:8}");
        for (vif, _, ttl) in hops {
            let _ = write!(text, " {vif:2}:{ttl:<3}");
        }
        text.push('\n');
    }
    text
}

/// Formats `/proc/net/ip_mr_cache`.
pub fn cache4(stack: &Stack, ns: &Arc<Namespace>) -> String {
    let names = "Group    Origin   Iif     Pkts    Bytes    Wrong Oifs";
    cache::<V4>(stack, ns, names, |text, key| {
        let _ = write!(text, "{:08X} {:08X}", raw(key.group), raw(key.origin));
    })
}

/// Formats `/proc/net/ip6_mr_cache`.
pub fn cache6(stack: &Stack, ns: &Arc<Namespace>) -> String {
    let names = format!(
        "{:33}{:33}Iif      Pkts  Bytes     Wrong  Oifs",
        "Group", "Origin"
    );
    cache::<V6>(stack, ns, &names, |text, key| {
        let whole = |address: std::net::Ipv6Addr| {
            let parts = address.segments().map(|part| format!("{part:04x}"));
            parts.join(":")
        };
        let _ = write!(text, "{} {}", whole(key.group), whole(key.origin));
    })
}
