// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The files of multicast routing (`ipmr_vif_seq_show`, `ipmr_mfc_seq_show`).

use std::fmt::Write as _;
use std::sync::Arc;

use weir_stack::ipv4::multicast::{self, Route};
use weir_stack::{Namespace, Stack};

use super::raw;

/// Formats `/proc/net/ip_mr_vif`.
pub fn vifs(stack: &Stack, ns: &Arc<Namespace>) -> String {
    let mut text =
        String::from("Interface      BytesIn  PktsIn  BytesOut PktsOut Flags Local    Remote\n");
    let guard = stack.domain.pin();
    let Some(router) = multicast::of(ns) else {
        return text;
    };
    for vif in router.vifs(&guard).iter() {
        let ((packets, bytes), (sent, sent_bytes)) = (vif.received(), vif.sent());
        let _ = writeln!(
            text,
            "{:2} {:<10} {bytes:8} {packets:7}  {sent_bytes:8} {sent:7} {:05X} {:08X} {:08X}",
            vif.number,
            vif.device.name(),
            vif.flags,
            u32::from_ne_bytes(vif.local),
            u32::from_ne_bytes(vif.remote),
        );
    }
    text
}

/// Formats `/proc/net/ip_mr_cache`.
pub fn cache(stack: &Stack, ns: &Arc<Namespace>) -> String {
    let mut text = String::from("Group    Origin   Iif     Pkts    Bytes    Wrong Oifs\n");
    let guard = stack.domain.pin();
    let Some(router) = multicast::of(ns) else {
        return text;
    };
    let vifs = router.vifs(&guard);
    for route in router.routes() {
        let key = route.key();
        let (group, origin) = (raw(key.group), raw(key.origin));
        let (parent, counts, hops) = match &route {
            Route::Known(entry) => {
                let hops = entry.shown(vifs, 0).hops;
                (entry.parent.into(), entry.counts(), hops)
            }
            Route::Unresolved(_) => (-1, [0; 3], Vec::new()),
        };
        let [packets, bytes, wrong] = counts;
        let _ = write!(
            text,
            "{group:08X} {origin:08X} {parent:<3} {packets:8} {bytes:8} {wrong:8}"
        );
        for (vif, _, ttl) in hops {
            let _ = write!(text, " {vif:2}:{ttl:<3}");
        }
        text.push('\n');
    }
    text
}
