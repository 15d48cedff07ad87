// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Router solicitations of a host (RFC 4861, 6.3.7, and RFC 7559; `addrconf_dad_completed`,
//! `addrconf_rs_timer`).
//!
//! A device that accepts router advertisements sends the first solicitation when it has got its first
//! link-local address, and further ones after times that double up to
//! `router_solicitation_max_interval`, until a router answers or `router_solicitations` have been
//! sent. A stack without [`link_chatter`](crate::stack::Config::link_chatter) sends none.

use std::sync::Arc;

use weir_packet::header::icmp::fill_check_v6;
use weir_packet::header::ndisc::{ND_OPT_SOURCE_LL_ADDR, NDISC_ROUTER_SOLICITATION};
use weir_sync::order::{self, Mutex};
use weir_sync::rare::Rare;

use super::group::ALL_ROUTERS;
use super::ra::accepts;
use super::select::link_local_of;
use crate::chatter::{self, Chance};
use crate::clock::{SECOND, TimerId};
use crate::cpu::Cx;
use crate::device::Device;
use crate::ipv6::WithIpv6;
use crate::layers::Site;
use crate::settings::{Ipv6Conf, WithSettings};

/// The name of the random numbers.
const CHANCE: &str = "rs";

/// The state that the lock guards.
#[derive(Debug, Default)]
struct State {
    timer: Option<TimerId>,
    /// The number of solicitations sent (`rs_probes`).
    sent: i32,
    /// The time to the next solicitation in ns (`rs_interval`).
    interval: u64,
    chance: Chance,
}

/// The solicitations of a device.
#[derive(Debug, Default)]
pub struct Solicitations {
    state: Mutex<Rare<State>, order::Groups>,
}

impl Solicitations {
    /// Starts to look for routers, if the device accepts their advertisements.
    pub(super) fn start(&self, site: &Site<'_>) {
        let wanted = site.device.conf().ipv6.get(Ipv6Conf::RouterSolicitations);
        if wanted == 0 || !accepts(site.device) {
            return;
        }
        let mut state = self.state.lock();
        let state = state.change();
        state.sent = 0;
        let next = chatter::after(site, 0, next);
        if let Some(timer) = state.timer.replace(next) {
            site.stack.timers.cancel(timer);
        }
    }

    /// Ends the search, because a router has answered (`IF_RA_RCVD`) or the device went down
    /// (`addrconf_del_rs_timer`).
    pub(super) fn stop(&self, site: &Site<'_>) {
        let mut state = self.state.lock();
        if let Some(timer) = state.made().and_then(|state| state.timer.take()) {
            site.stack.timers.cancel(timer);
        }
    }
}

fn seconds(device: &Device, slot: Ipv6Conf) -> u64 {
    device.conf().ipv6.get(slot).max(0) as u64 * SECOND
}

impl State {
    /// Returns a time that is up to a tenth shorter or longer than `times` times `time`
    /// (`rfc3315_s14_backoff_init`, `rfc3315_s14_backoff_update`).
    fn about(&mut self, site: &Site<'_>, times: u64, time: u64) -> u64 {
        let part = times * 1_000_000 - 100_000 + self.chance.below(site, CHANCE, 200_001);
        (u128::from(time) * u128::from(part) / 1_000_000) as u64
    }

    /// Returns the time from the solicitation just sent to the next one.
    fn next_interval(&mut self, site: &Site<'_>) -> u64 {
        let device = site.device;
        if self.sent == 1 {
            let first = seconds(device, Ipv6Conf::RouterSolicitationInterval);
            self.interval = self.about(site, 1, first);
            return self.interval;
        }
        let most = seconds(device, Ipv6Conf::RouterSolicitationMaxInterval);
        self.interval = self.about(site, 2, self.interval);
        if self.interval > most {
            self.interval = self.about(site, 1, most);
        }
        if self.sent == device.conf().ipv6.get(Ipv6Conf::RouterSolicitations) {
            return seconds(device, Ipv6Conf::RouterSolicitationDelay);
        }
        self.interval
    }
}

/// Sends the next solicitation (`addrconf_rs_timer`).
fn next(cx: &mut Cx<'_>, device: &Arc<Device>) {
    let ns = device.namespace(cx.guard).clone();
    let site = Site::new(cx.stack, cx.guard, &ns, device);
    let wanted = device.conf().ipv6.get(Ipv6Conf::RouterSolicitations);
    let source = link_local_of(device, cx.guard);
    {
        let mut state = device.ipv6().solicitations().state.lock();
        let state = state.change();
        if state.timer.take().is_none()
            || !device.ipv6().addresses.is_ready()
            || !accepts(device)
            || (wanted >= 0 && state.sent >= wanted)
            || source.is_none()
        {
            return;
        }
        state.sent = state.sent.saturating_add(1);
        let delay = state.next_interval(&site);
        state.timer = Some(chatter::after(&site, delay, next));
    }
    let Some(source) = source else { return };
    let mut message = vec![NDISC_ROUTER_SOLICITATION, 0, 0, 0, 0, 0, 0, 0];
    message.extend([ND_OPT_SOURCE_LL_ADDR, 1]);
    message.extend(device.address());
    fill_check_v6(source.octets(), ALL_ROUTERS.octets(), &mut message);
    super::nd::send_nd(cx, device, source, ALL_ROUTERS, &message);
}
