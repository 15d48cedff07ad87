// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Path MTUs that routers report with "packet too big" (RFC 8201; `ip6_update_pmtu`). One becomes an exception of the
//! route ([`crate::fib::exception`]) for ten minutes, up to 30 seconds more.
//!
//! Tunnels over IPv6 learn them. Not implemented: those of other packets of this host (sockets keep their own);
//! `net.ipv6.route.mtu_expires` is only stored.

use std::net::Ipv6Addr;

use weir_packet::header::Ipv6;

use super::output::{self, Key, MIN_MTU};
use super::redirected;
use crate::clock::SECOND;
use crate::cpu::Cx;
use crate::fib::host::WithRoutes;
use crate::sockets::Report;

/// How long a path MTU is kept, in ns (`IP6_RT_MTU_EXPIRES`).
const LIFETIME: u64 = 600 * SECOND;

/// Keeps the path MTU of "packet too big", if it is less than what is known of the path. Of less than 1,280 bytes nothing
/// is believed.
pub fn learn(cx: &Cx<'_>, report: &Report<'_>) {
    let (guard, mtu) = (cx.guard, report.info);
    let ns = report.device.namespace(guard);
    let Some(sent) = Ipv6::new(report.quoted).filter(|_| mtu >= MIN_MTU) else {
        return;
    };
    let (src, dst) = (Ipv6Addr::from(sent.src()), Ipv6Addr::from(sent.dst()));
    let Ok(found) = output::find(ns, src, dst, 0, &Key::default(), guard) else {
        return;
    };
    let known = output::through(ns, &found, dst, guard).map_or(0, |route| route.mtu());
    if mtu < known {
        let v6 = &ns.fib().v6;
        v6.set_path_mtu(dst.into(), &found, mtu, cx.now + LIFETIME);
        redirected::look_again(cx.stack, ns, cx.now);
    }
}
