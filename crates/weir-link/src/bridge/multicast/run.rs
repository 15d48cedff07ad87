// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs the steps of snooping: the lock, the timer, what follows from a step, and the settings (`MCAST_*`).

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use weir_netlink::ifla::br;
use weir_netlink::{Error, Table, Writer, errno, rta, rtm};
use weir_packet::header::ethernet::BROADCAST;
use weir_packet::header::ndisc::ALL_NODES;
use weir_packet::header::{ETH_P_IP, ETH_P_IPV6, Ethernet};
use weir_packet::{Batch, Flags, Packet, PacketType, VlanTag};
use weir_sync::rcu::Guard;

use super::context::Context;
use super::message::{self, Heard};
use super::{Effect, FAMILIES, Family, Group, QUERY_INTERVALS, Step};
use crate::bridge::Bridge;
use crate::bridge::port::Port;
use crate::clock::{Holds, SECOND, TimerId, USER_HZ};
use crate::cpu::Cx;
use crate::ipv4::WithIpv4;
use crate::ipv6::WithIpv6;
use crate::layers::Site;
use crate::stack::Stack;

/// Nanoseconds in a tick of `USER_HZ`.
pub(super) const TICK: u64 = SECOND / USER_HZ;

impl Bridge {
    /// Runs one step, and carries out what follows.
    pub fn snoop_step<R>(
        &self,
        stack: &Stack,
        guard: &Guard,
        work: impl FnOnce(&mut Step<'_>) -> R,
    ) -> R {
        let device = self.device();
        let (result, effects) = {
            let mut snoop = self.snoop.lock();
            let armed = snoop.armed.map(|timer| timer.time());
            let mut step = Step {
                snoop: &mut snoop,
                at: 0,
                only: None,
                shared: &self.snooping,
                guard,
                now: stack.clock.now(),
                up: device.as_ref().is_some_and(|device| device.is_up()),
                ifindex: device.as_ref().map_or(0, |device| device.ifindex()),
                out: Vec::new(),
            };
            let result = work(&mut step);
            let next = step.next();
            let effects = step.out;
            // A timer that fires too early looks again.
            if next.is_some_and(|next| armed.is_none_or(|armed| next < armed)) {
                if let Some(old) = snoop.armed.take() {
                    stack.timers.cancel(old);
                }
                snoop.armed = next.map(|time| self.arm_snoop(stack, time));
            }
            (result, effects)
        };
        for effect in effects {
            self.follow(stack, guard, effect);
        }
        result
    }

    fn arm_snoop(&self, stack: &Stack, time: u64) -> TimerId {
        let weak = self.me.clone();
        let job = move |cx: &mut Cx<'_>| {
            let Some(bridge) = weak.upgrade() else { return };
            bridge.snoop.lock().armed = None;
            bridge.snoop_step(cx.stack, cx.guard, |step| step.expire());
        };
        stack.arm(time, Holds::Nothing, Box::new(job))
    }

    fn follow(&self, stack: &Stack, guard: &Guard, effect: Effect) {
        let Some(device) = self.device() else { return };
        match effect {
            Effect::Tell(ty, body) => {
                let ns = device.namespace(guard);
                crate::request::announce(ns, rtm::grp::MDB, ty, |out| out.raw(&body));
            }
            Effect::Ask(ask) => {
                let (family, what) = (ask.family, (ask.family, ask.group, ask.is_direct));
                let Some(source) = self.query_source(guard, family) else {
                    self.snooping.has_ipv6.store(false, Relaxed);
                    return;
                };
                if family == Family::V6 {
                    self.snooping.has_ipv6.store(true, Relaxed);
                }
                let frame = message::query(device.address(), source, what, ask.delay, &ask.form);
                let most = ask.port.device.mtu().min(device.mtu());
                if frame.len() <= most as usize {
                    self.send_query(stack, ask.port, ask.vid, frame);
                }
            }
        }
    }

    /// Returns the source address of queries. `None` means that the bridge has no IPv6 address yet.
    pub(super) fn query_source(&self, guard: &Guard, family: Family) -> Option<Group> {
        let device = self.device()?;
        let ns = device.namespace(guard);
        match family {
            Family::V4 => {
                let uses = self.snoop.lock().options.use_ifaddr;
                let any = std::net::Ipv4Addr::UNSPECIFIED;
                let found = uses.then(|| {
                    crate::ipv4::select::select_address(ns, &device, any, rta::scope::LINK, guard)
                });
                Some(Group::V4(found.flatten().unwrap_or(any).octets()))
            }
            Family::V6 => {
                let all = std::net::Ipv6Addr::from(ALL_NODES);
                let found = crate::ipv6::select::select_address(ns, Some(&device), all, guard);
                found.map(|address| Group::V6(address.octets()))
            }
        }
    }

    fn send_query(&self, stack: &Stack, port: Arc<Port>, vid: u16, frame: Vec<u8>) {
        let weak = self.me.clone();
        stack.post(Box::new(move |cx: &mut Cx<'_>| {
            let Some(mut packet) = cx.stack.pool.packet(&frame) else {
                return;
            };
            packet.reset_mac();
            packet.set_network(Ethernet::LEN);
            packet.protocol = frame.get(12..14).map_or(0, |ty| {
                u16::from_be_bytes([ty.first().copied().unwrap_or(0), ty[1]])
            });
            packet.flags.insert(Flags::LOCAL);
            packet.set_pkt_type(PacketType::Outgoing);
            packet.time = cx.now;
            packet.iif = 0;
            packet.dev = port.device.key.0;
            if let Some(bridge) = weak.upgrade() {
                // `__br_multicast_query_handle_vlan`
                let vlan = port.vlans.load(cx.guard).usable(vid);
                if vlan.is_some_and(|vlan| !vlan.untagged) {
                    packet.set_vlan(Some(VlanTag {
                        proto: bridge.settings.protocol(),
                        tci: vid,
                    }));
                }
                let heard = read(&packet);
                bridge.snooping.count(&port.groups, &heard, 1);
            }
            cx.transmit(&port.device, Batch::from(packet));
        }));
    }

    /// Hears a frame to a group that a port or the bridge itself received (`br_multicast_rcv`). `None` means that the
    /// frame is dropped.
    pub fn hear(
        &self,
        cx: &Cx<'_>,
        port: Option<&Port>,
        vid: u16,
        packet: &Packet,
    ) -> Option<Heard> {
        if !self.snooping.hears(cx.guard, vid) {
            return Some(Heard::Data(false));
        }
        let heard = read(packet);
        let family = match packet.protocol {
            ETH_P_IPV6 => Family::V6,
            _ => Family::V4,
        };
        let counts = port.map_or(&self.snooping.own, |port| &port.groups);
        match heard {
            Heard::Data(_) => return Some(heard),
            Heard::Bad => {
                self.snooping.count_bad(counts, family);
                return None;
            }
            _ => {}
        }
        let done = self.snoop_step(cx.stack, cx.guard, |step| {
            step.enter_for(vid);
            let host = Ethernet::new(packet.data()).map_or(BROADCAST, |eth| eth.src());
            step.take(port, vid, &heard, (family, host))
        });
        self.snooping.count(counts, &heard, 0);
        done.ok().map(|()| heard)
    }
}

/// Reads a frame to a group.
fn read(packet: &Packet) -> Heard {
    if !matches!(packet.protocol, ETH_P_IP | ETH_P_IPV6) {
        return Heard::Data(false);
    }
    let octets = packet.data().get(Ethernet::LEN..).unwrap_or_default();
    message::read(packet.protocol, octets)
}

/// The intervals, in the order of [`super::Options`].
const INTERVALS: [u16; 6] = [
    br::MCAST_LAST_MEMBER_INTVL,
    br::MCAST_MEMBERSHIP_INTVL,
    br::MCAST_QUERIER_INTVL,
    br::MCAST_QUERY_INTVL,
    br::MCAST_QUERY_RESPONSE_INTVL,
    br::MCAST_STARTUP_QUERY_INTVL,
];

/// Returns an interval in ns; those between queries have bounds.
pub(super) fn bounded(ticks: u64, queries: bool) -> u64 {
    let time = ticks.saturating_mul(TICK).min(u64::MAX / 4);
    match queries {
        true => time.clamp(QUERY_INTERVALS.0, QUERY_INTERVALS.1),
        false => time,
    }
}

/// Checks one attribute of a bridge. Returns whether it is about groups.
///
/// # Errors
/// EINVAL as Linux.
pub fn check(table: &Table<'_>, ty: u16) -> Result<bool, Error> {
    match ty {
        br::MCAST_ROUTER if table.u8(ty)? > Some(2) => Err(Error::new(errno::EINVAL)),
        br::MCAST_IGMP_VERSION => match table.u8(ty)? {
            Some(2 | 3) => Ok(true),
            _ => Err(Error::new(errno::EINVAL)),
        },
        br::MCAST_MLD_VERSION => match table.u8(ty)? {
            Some(1 | 2) => Ok(true),
            _ => Err(Error::new(errno::EINVAL)),
        },
        br::MCAST_ROUTER
        | br::MCAST_SNOOPING
        | br::MCAST_QUERY_USE_IFADDR
        | br::MCAST_QUERIER
        | br::MCAST_STATS_ENABLED
        | br::MCAST_HASH_ELASTICITY
        | br::MCAST_HASH_MAX
        | br::MCAST_LAST_MEMBER_CNT
        | br::MCAST_STARTUP_QUERY_CNT => Ok(true),
        _ => Ok(INTERVALS.contains(&ty)),
    }
}

impl Bridge {
    /// Applies the attributes about groups (`br_changelink`).
    pub fn configure_groups(
        &self,
        stack: &Stack,
        guard: &Guard,
        table: &Table<'_>,
    ) -> Result<(), Error> {
        let shared = &self.snooping;
        let is_asked = table.types().any(|ty| check(table, ty).unwrap_or(false));
        if !is_asked {
            return Ok(());
        }
        let snooped = shared.on.load(Relaxed);
        let done = self.snoop_step(stack, guard, |step| {
            if let Some(to) = table.u8(br::MCAST_ROUTER)? {
                step.set_router(to);
            }
            if let Some(on) = table.u8(br::MCAST_SNOOPING)? {
                step.turn(on != 0);
            }
            if let Some(on) = table.u8(br::MCAST_QUERY_USE_IFADDR)? {
                step.snoop.options.use_ifaddr = on != 0;
            }
            if let Some(on) = table.u8(br::MCAST_QUERIER)? {
                step.set_querier(on != 0);
            }
            if let Some(most) = table.u32(br::MCAST_HASH_MAX)? {
                step.snoop.options.most = most;
            }
            step.set_versions(
                table.u8(br::MCAST_IGMP_VERSION)?,
                table.u8(br::MCAST_MLD_VERSION)?,
            );
            let options = &mut step.context_mut().options;
            if let Some(count) = table.u32(br::MCAST_LAST_MEMBER_CNT)? {
                options.last_count = count;
            }
            if let Some(count) = table.u32(br::MCAST_STARTUP_QUERY_CNT)? {
                options.startup_count = count;
            }
            for (slot, ty) in options.intervals.iter_mut().zip(INTERVALS) {
                let Some(ticks) = table.u64(ty)? else {
                    continue;
                };
                let queries = [br::MCAST_QUERY_INTVL, br::MCAST_STARTUP_QUERY_INTVL];
                *slot = bounded(ticks, queries.contains(&ty));
            }
            if let Some(on) = table.u8(br::MCAST_STATS_ENABLED)? {
                shared.counts.store(on != 0, Relaxed);
            }
            Ok(())
        });
        let snoops = shared.on.load(Relaxed);
        if snoops != snooped && self.device().is_some_and(|device| device.is_up()) {
            self.join_snoopers(stack, guard, snoops);
        }
        done
    }

    /// Joins the groups of all snoopers at the bridge itself, or leaves them (`br_multicast_join_snoopers`).
    pub fn join_snoopers(&self, stack: &Stack, guard: &Guard, join: bool) {
        let Some(device) = self.device() else { return };
        let site = Site::new(stack, guard, device.namespace(guard), &device);
        let (v4, v6) = (&device.ipv4().groups, &device.ipv6().groups);
        let groups = (
            message::ALL_SNOOPERS.into(),
            message::ALL_SNOOPERS_V6.into(),
        );
        if join {
            v4.join(&site, groups.0);
            v6.join(&site, groups.1);
        } else {
            v4.leave(&site, groups.0);
            v6.leave(&site, groups.1);
        }
    }

    /// Writes the attributes about groups (`br_fill_info`).
    pub fn fill_groups(&self, stack: &Stack, guard: &Guard, out: &mut Writer) {
        let shared = &self.snooping;
        let now = stack.clock.now();
        let own = FAMILIES.map(|family| self.query_source(guard, family));
        let snoop = self.snoop.lock();
        let (common, context) = (&snoop.options, &snoop.contexts[0]);
        let options = &context.options;
        let flag = |on: bool| u8::from(on);
        out.put_u8(br::MCAST_ROUTER, context.reach.router.load(Relaxed));
        out.put_u8(br::MCAST_SNOOPING, flag(shared.on.load(Relaxed)));
        out.put_u8(br::MCAST_QUERY_USE_IFADDR, flag(common.use_ifaddr));
        let querier = context.reach.querier.load(Relaxed);
        out.put_u8(br::MCAST_QUERIER, flag(querier));
        out.put_u8(br::MCAST_STATS_ENABLED, flag(shared.counts.load(Relaxed)));
        out.put_u32(br::MCAST_HASH_ELASTICITY, common.elasticity);
        out.put_u32(br::MCAST_HASH_MAX, common.most);
        out.put_u32(br::MCAST_LAST_MEMBER_CNT, options.last_count);
        out.put_u32(br::MCAST_STARTUP_QUERY_CNT, options.startup_count);
        out.put_u8(br::MCAST_IGMP_VERSION, options.igmp_version);
        self.fill_querier(guard, (context, own), now, br::MCAST_QUERIER_STATE, out);
        out.put_u8(br::MCAST_MLD_VERSION, options.mld_version);
        for (ty, ns) in INTERVALS.into_iter().zip(options.intervals) {
            out.put_u64_pad(ty, ns / TICK, br::PAD);
        }
    }

    /// Writes the state of the queriers of a context (`br_multicast_dump_querier_state`). `own` has the addresses of the
    /// bridge's own queries.
    pub(super) fn fill_querier(
        &self,
        guard: &Guard,
        (context, own): (&Context, [Option<Group>; 2]),
        now: u64,
        ty: u16,
        out: &mut Writer,
    ) {
        let nest = out.nest(ty);
        let querier = context.reach.querier.load(Relaxed);
        for family in FAMILIES {
            let at = family as usize;
            let other = context.reach.others[at].load(Relaxed);
            if !self.snooping.on.load(Relaxed) || !querier && other <= now {
                continue;
            }
            let known = context.queriers[at].filter(|(_, port)| *port != 0 || other > now);
            // A VLAN's has no address before it has asked.
            let asks = context.vid == 0 || context.asks[at];
            let own = own[at].filter(|_| asks).map(|source| (source, 0));
            // `BRIDGE_QUERIER_IP_ADDRESS`, `BRIDGE_QUERIER_IPV6_ADDRESS`
            let first = [1, 5][at];
            match known.or(own) {
                Some((Group::V4(address), _)) => out.put(first, &address),
                Some((Group::V6(address), _)) => out.put(first, &address),
                _ => out.put(first, &[0; 16][..[4, 16][at]]),
            }
            if other > now {
                out.put_u64_pad(first + 2, (other - now) / TICK, 4);
                let number = known.map_or(0, |(_, port)| port);
                if let Some(port) = self.ports.load(guard).numbered(number) {
                    out.put_u32(first + 1, port.device.ifindex());
                }
            }
        }
        out.end_or_cancel(nest);
    }

    /// Returns `MULTICAST_ROUTER` of a port, and the number of hosts that are known behind it
    /// (`IFLA_BRPORT_MCAST_EHT_HOSTS_CNT`).
    pub fn port_groups(&self, number: u16) -> (u8, u32) {
        let snoop = self.snoop.lock();
        let context = &snoop.contexts[0];
        let hosts = context.port(number).map_or(0, |one| one.hosts);
        let hosts = u32::try_from(hosts).unwrap_or(0);
        (context.router_of(number), hosts)
    }
}
