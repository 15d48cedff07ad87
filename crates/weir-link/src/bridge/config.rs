// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The settings of a bridge (`br_policy`, `br_changelink`, `br_fill_info`).

use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed};

use weir_netlink::{
    Attr, Error, Policy, Rule, Strictness, Table, Writer, errno, ifla::br, parse_at, policy,
};
use weir_sync::rcu::Guard;

use super::stp::{FORWARD_DELAYS, Times};
use super::{Bridge, refuse};
use crate::clock::{SECOND, USER_HZ};
use crate::device::Mac;
use crate::stack::Stack;

/// Nanoseconds in a tick of `USER_HZ`.
pub const TICK: u64 = SECOND / USER_HZ;

static POLICY: Policy = policy! {
    max br::MAX;
    br::FORWARD_DELAY => Rule::u32(),
    br::HELLO_TIME => Rule::u32(),
    br::MAX_AGE => Rule::u32(),
    br::AGEING_TIME => Rule::u32(),
    br::STP_STATE => Rule::u32(),
    br::PRIORITY => Rule::u16(),
    br::VLAN_FILTERING => Rule::u8(),
    br::GROUP_FWD_MASK => Rule::u16(),
    br::MCAST_SNOOPING => Rule::u8(),
    br::MCAST_ROUTER => Rule::u8(),
    br::MCAST_QUERY_USE_IFADDR => Rule::u8(),
    br::MCAST_QUERIER => Rule::u8(),
    br::MCAST_STATS_ENABLED => Rule::u8(),
    br::MCAST_IGMP_VERSION => Rule::u8(),
    br::MCAST_MLD_VERSION => Rule::u8(),
    br::MCAST_HASH_ELASTICITY => Rule::u32(),
    br::MCAST_HASH_MAX => Rule::u32(),
    br::MCAST_LAST_MEMBER_CNT => Rule::u32(),
    br::MCAST_STARTUP_QUERY_CNT => Rule::u32(),
    br::MCAST_LAST_MEMBER_INTVL => Rule::u64(),
    br::MCAST_MEMBERSHIP_INTVL => Rule::u64(),
    br::MCAST_QUERIER_INTVL => Rule::u64(),
    br::MCAST_QUERY_INTVL => Rule::u64(),
    br::MCAST_QUERY_RESPONSE_INTVL => Rule::u64(),
    br::MCAST_STARTUP_QUERY_INTVL => Rule::u64(),
    br::VLAN_PROTOCOL => Rule::u16(),
    br::VLAN_DEFAULT_PVID => Rule::u16(),
    br::VLAN_STATS_ENABLED => Rule::u8(),
    br::VLAN_STATS_PER_PORT => Rule::u8(),
    br::NF_CALL_IPTABLES => Rule::u8(),
    br::NF_CALL_IP6TABLES => Rule::u8(),
    br::NF_CALL_ARPTABLES => Rule::u8(),
    br::MULTI_BOOLOPT => Rule::exact(8),
};

const ETH_P_8021Q: u16 = 0x8100;
const ETH_P_8021AD: u16 = 0x88a8;
/// The groups 01:80:c2:00:00:0X that a provider bridge forwards (`BR_GROUPFWD_8021AD`).
const PROVIDER_FORWARD: u16 = 0xb801;

/// The settings.
pub struct Settings {
    /// `AGEING_TIME` in ticks of `USER_HZ`, as it was set.
    ageing: AtomicU32,
    /// `AGEING_TIME` in ticks of `USER_HZ`, as it is shown.
    shown_ageing: AtomicU32,
    /// The age in ns at which a learned entry ends (`hold_time`).
    hold: AtomicU64,
    /// `GROUP_FWD_MASK`
    pub group_forward: AtomicU16,
    /// The spanning tree protocol is on.
    pub has_stp: AtomicBool,
    /// `IFF_PROMISC` of the bridge.
    pub promiscuous: AtomicBool,
    /// `VLAN_FILTERING`
    filtering: AtomicBool,
    /// `VLAN_PROTOCOL`
    protocol: AtomicU16,
    /// `VLAN_STATS_ENABLED`
    pub counts_vlans: AtomicBool,
    /// The sources of link-local frames are not learned (`BR_BOOLOPT_NO_LL_LEARN`).
    pub no_local_learning: AtomicBool,
    /// The states of VLANs count, and those of ports do not (`BR_BOOLOPT_MST_ENABLE`).
    pub mst: AtomicBool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            ageing: AtomicU32::new(30_000),
            shown_ageing: AtomicU32::new(30_000),
            hold: AtomicU64::new(30_000 * TICK),
            group_forward: AtomicU16::new(0),
            has_stp: AtomicBool::new(false),
            promiscuous: AtomicBool::new(false),
            filtering: AtomicBool::new(false),
            protocol: AtomicU16::new(ETH_P_8021Q),
            counts_vlans: AtomicBool::new(false),
            no_local_learning: AtomicBool::new(false),
            mst: AtomicBool::new(false),
        }
    }
}

impl Settings {
    /// Returns the age in ns at which a learned entry ends, or 0 to learn nothing.
    #[inline]
    pub fn ageing(&self) -> u64 {
        self.hold.load(Relaxed)
    }

    fn set_ageing(&self, ticks: u32) {
        self.ageing.store(ticks, Relaxed);
        self.shown_ageing.store(ticks, Relaxed);
        self.hold.store(u64::from(ticks) * TICK, Relaxed);
    }

    /// Follows a change of the topology: entries age after the forward delay in ns, or after `AGEING_TIME` again
    /// (`__br_set_topology_change`).
    pub fn set_change(&self, delay: Option<u64>) {
        let set = self.ageing.load(Relaxed);
        let (shown, hold) = match delay {
            // The time that is shown is twice the one in effect.
            Some(delay) => ((2 * delay / TICK) as u32, delay),
            None => (set, u64::from(set) * TICK),
        };
        self.shown_ageing.store(shown, Relaxed);
        self.hold.store(hold, Relaxed);
    }
}

impl Settings {
    /// Returns the protocol of VLAN tags, if the bridge filters VLANs.
    #[inline]
    pub fn filters(&self) -> Option<u16> {
        let filters = self.filtering.load(Relaxed);
        filters.then(|| self.protocol.load(Relaxed))
    }

    /// Returns the protocol of VLAN tags.
    pub fn protocol(&self) -> u16 {
        self.protocol.load(Relaxed)
    }

    fn is_provider(&self) -> bool {
        self.filters() == Some(ETH_P_8021AD)
    }

    /// Returns the last octet of the bridge group address (`recalculate_group_addr`).
    pub fn group_octet(&self) -> u8 {
        if self.is_provider() { 8 } else { 0 }
    }

    /// Returns the groups 01:80:c2:00:00:0X that are forwarded whatever the settings are
    /// (`br_recalculate_fwd_mask`).
    pub fn required_forward(&self) -> u16 {
        match self.is_provider() {
            true => PROVIDER_FORWARD & !(1 << self.group_octet()),
            false => 0,
        }
    }
}

/// Packs an address into a word.
pub fn word([a, b, c, d, e, f]: Mac) -> u64 {
    u64::from_be_bytes([0, 0, a, b, c, d, e, f])
}

/// Unpacks an address.
pub fn mac(word: u64) -> Mac {
    let [_, _, a, b, c, d, e, f] = word.to_be_bytes();
    [a, b, c, d, e, f]
}

/// The bits of `MULTI_BOOLOPT` (`BR_BOOLOPT_*`).
const NO_LL_LEARN: u32 = 0;
const MCAST_VLAN_SNOOPING: u32 = 1;
const MST: u32 = 2;

/// Returns the value that `struct br_boolopt_multi` gives a bit, if it does.
fn boolean(octets: &[u8], bit: u32) -> Option<bool> {
    let word = |at: usize| {
        let word = octets.get(at..at + 4)?.try_into().ok()?;
        Some(u32::from_ne_bytes(word) >> bit & 1 != 0)
    };
    word(4)?.then(|| word(0)).flatten()
}

/// A validated `IFLA_INFO_DATA`.
#[derive(Default)]
pub struct Request<'a> {
    table: Option<Table<'a>>,
}

impl<'a> Request<'a> {
    /// Checks everything first, so that a refused request changes nothing (`br_validate`, `br_changelink`).
    ///
    /// # Errors
    /// Linux's, and EOPNOTSUPP for options that are not served.
    pub fn parse(data: Option<Attr<'a>>) -> Result<Self, Error> {
        let Some(data) = data else {
            return Ok(Self::default());
        };
        let inside = data.attrs();
        let table = parse_at(inside.rest(), inside.offset(), &POLICY, Strictness::Liberal)?;
        for ty in table.types() {
            match ty {
                br::HELLO_TIME if !matches!(table.u32(ty)?, Some(100..=1000)) => {
                    return Err(Error::new(errno::ERANGE));
                }
                br::MAX_AGE if !matches!(table.u32(ty)?, Some(600..=4000)) => {
                    return Err(Error::new(errno::ERANGE));
                }
                br::GROUP_FWD_MASK if table.u16(ty)?.unwrap_or(0) & 7 != 0 => {
                    return Err(Error::new(errno::EINVAL));
                }
                br::VLAN_PROTOCOL => {
                    let protocol = table.get(ty).map(|attr| attr.be16()).transpose()?;
                    if !matches!(protocol, Some(ETH_P_8021Q | ETH_P_8021AD)) {
                        return Err(Error::new(errno::EPROTONOSUPPORT));
                    }
                }
                br::VLAN_DEFAULT_PVID if table.u16(ty)? >= Some(4095) => {
                    return Err(Error::new(errno::EINVAL));
                }
                br::VLAN_STATS_ENABLED | br::VLAN_STATS_PER_PORT if table.u8(ty)? > Some(1) => {
                    return Err(Error::new(errno::EINVAL));
                }
                br::NF_CALL_IPTABLES | br::NF_CALL_IP6TABLES | br::NF_CALL_ARPTABLES
                    if table.u8(ty)? != Some(0) =>
                {
                    return Err(refuse("Weir has no hooks of netfilter in bridges"));
                }
                br::MULTI_BOOLOPT => {}
                br::FORWARD_DELAY | br::HELLO_TIME | br::MAX_AGE | br::GROUP_FWD_MASK => {}
                br::STP_STATE | br::VLAN_FILTERING | br::FDB_FLUSH => {}
                br::AGEING_TIME | br::PRIORITY | br::VLAN_DEFAULT_PVID => {}
                br::VLAN_STATS_ENABLED | br::VLAN_STATS_PER_PORT => {}
                br::NF_CALL_IPTABLES | br::NF_CALL_IP6TABLES | br::NF_CALL_ARPTABLES => {}
                ty if super::multicast::check(&table, ty)? => {}
                _ => return Err(refuse("The option of the bridge is not served")),
            }
        }
        Ok(Self { table: Some(table) })
    }
}

impl Bridge {
    /// Applies a validated request (`br_changelink`).
    ///
    /// # Errors
    /// ERANGE for a forward delay that the spanning tree protocol does not allow. EBUSY if counters per port are to
    /// change while ports have VLANs.
    pub fn configure(
        &self,
        (stack, guard): (&Stack, &Guard),
        request: &Request<'_>,
    ) -> Result<(), Error> {
        let Some(table) = &request.table else {
            return Ok(());
        };
        let settings = &self.settings;
        let time = |ty| -> Result<Option<u64>, Error> {
            Ok(table.u32(ty)?.map(|ticks| u64::from(ticks) * TICK))
        };
        let (delay, hello) = (time(br::FORWARD_DELAY)?, time(br::HELLO_TIME)?);
        let max_age = time(br::MAX_AGE)?;
        {
            let out_of_range = delay.is_some_and(|delay| !FORWARD_DELAYS.contains(&delay));
            if out_of_range && self.stp.lock().is_on() {
                return Err(Error::new(errno::ERANGE));
            }
        }
        if delay.or(hello).or(max_age).is_some() {
            self.step(stack, guard, |step| {
                let own = step.own_times();
                step.set_times(Times {
                    max_age: max_age.unwrap_or(own.max_age),
                    hello: hello.unwrap_or(own.hello),
                    delay: delay.unwrap_or(own.delay),
                });
            });
        }
        if let Some(ticks) = table.u32(br::AGEING_TIME)? {
            settings.set_ageing(ticks);
        }
        if let Some(on) = table.u32(br::STP_STATE)? {
            settings.has_stp.store(on != 0, Relaxed);
            self.step(stack, guard, |step| step.turn(on != 0));
        }
        if let Some(priority) = table.u16(br::PRIORITY)? {
            self.step(stack, guard, |step| step.set_priority(priority));
        }
        if let Some(on) = table.u8(br::VLAN_FILTERING)? {
            settings.filtering.store(on != 0, Relaxed);
            if on == 0 {
                self.turn_vlan_snooping(stack, guard, false)?;
            }
        }
        if let Some(attr) = table.get(br::VLAN_PROTOCOL) {
            settings.protocol.store(attr.be16()?, Relaxed);
        }
        if let Some(pvid) = table.u16(br::VLAN_DEFAULT_PVID)? {
            self.set_default_pvid(stack, guard, pvid)?;
        }
        if let Some(on) = table.u8(br::VLAN_STATS_ENABLED)? {
            settings.counts_vlans.store(on != 0, Relaxed);
        }
        if let Some(on) = table.u8(br::VLAN_STATS_PER_PORT)? {
            self.check_per_port(guard)?;
            self.vlans.lock().per_port = on != 0;
        }
        if let Some(mask) = table.u16(br::GROUP_FWD_MASK)? {
            settings.group_forward.store(mask, Relaxed);
        }
        self.configure_groups(stack, guard, table)?;
        if let Some(bits) = table.get(br::MULTI_BOOLOPT) {
            if let Some(on) = boolean(bits.payload, NO_LL_LEARN) {
                settings.no_local_learning.store(on, Relaxed);
            }
            if let Some(on) = boolean(bits.payload, MCAST_VLAN_SNOOPING) {
                self.turn_vlan_snooping(stack, guard, on)?;
            }
            if let Some(on) = boolean(bits.payload, MST) {
                self.turn_mst(guard, on)?;
            }
        }
        if table.has(br::FDB_FLUSH) {
            self.flush(stack, guard, None);
        }
        Ok(())
    }
}

impl Bridge {
    /// Writes `IFLA_INFO_DATA`.
    pub fn fill(&self, stack: &Stack, out: &mut Writer) {
        let timer = self.timer.lock().map_or(0, |timer| timer.time());
        let left = timer.saturating_sub(stack.clock.now()) / TICK;
        let view = self.stp_bridge_view(stack);
        let [hello, notification, end] = view.timers;
        for (ty, ticks) in [
            (br::HELLO_TIMER, hello),
            (br::TCN_TIMER, notification),
            (br::TOPOLOGY_CHANGE_TIMER, end),
            (br::GC_TIMER, left),
        ] {
            out.put_u64_pad(ty, ticks, br::PAD);
        }
        let ticks = |ns: u64| (ns / TICK) as u32;
        out.put_u32(br::FORWARD_DELAY, ticks(view.times.delay));
        out.put_u32(br::HELLO_TIME, ticks(view.times.hello));
        out.put_u32(br::MAX_AGE, ticks(view.times.max_age));
        let ageing = self.settings.shown_ageing.load(Relaxed);
        out.put_u32(br::AGEING_TIME, ageing);
        out.put_u32(br::STP_STATE, u32::from(view.enabled));
        let [high, low, ..] = view.id;
        out.put_u16(br::PRIORITY, u16::from_be_bytes([high, low]));
        let filtering = self.settings.filtering.load(Relaxed);
        out.put_u8(br::VLAN_FILTERING, u8::from(filtering));
        let mask = self.settings.group_forward.load(Relaxed);
        out.put_u16(br::GROUP_FWD_MASK, mask);
        out.put(br::BRIDGE_ID, &view.id);
        out.put(br::ROOT_ID, &view.root);
        out.put_u16(br::ROOT_PORT, view.root_port);
        out.put_u32(br::ROOT_PATH_COST, view.root_cost);
        out.put_u8(br::TOPOLOGY_CHANGE, u8::from(view.change));
        out.put_u8(br::TOPOLOGY_CHANGE_DETECTED, u8::from(view.detected));
        let group = [0x01, 0x80, 0xc2, 0, 0, self.settings.group_octet()];
        out.put(br::GROUP_ADDR, &group);
        let bits = u32::from(self.settings.no_local_learning.load(Relaxed)) << NO_LL_LEARN
            | u32::from(self.snooping.by_vlan.load(Relaxed)) << MCAST_VLAN_SNOOPING
            | u32::from(self.settings.mst.load(Relaxed)) << MST;
        let all: u32 = 1 << NO_LL_LEARN | 1 << MCAST_VLAN_SNOOPING | 1 << MST;
        let mut octets = [0; 8];
        octets[..4].copy_from_slice(&bits.to_ne_bytes());
        octets[4..].copy_from_slice(&all.to_ne_bytes());
        out.put(br::MULTI_BOOLOPT, &octets);
        let protocol = self.settings.protocol.load(Relaxed);
        out.put_be16(br::VLAN_PROTOCOL, protocol);
        let (pvid, per_port) = {
            let vlans = self.vlans.lock();
            (vlans.default_pvid, vlans.per_port)
        };
        out.put_u16(br::VLAN_DEFAULT_PVID, pvid);
        let counts = self.settings.counts_vlans.load(Relaxed);
        out.put_u8(br::VLAN_STATS_ENABLED, u8::from(counts));
        out.put_u8(br::VLAN_STATS_PER_PORT, u8::from(per_port));
        self.fill_groups(stack, &stack.domain.pin(), out);
        // Netfilter has no hooks here.
        for ty in [
            br::NF_CALL_IPTABLES,
            br::NF_CALL_IP6TABLES,
            br::NF_CALL_ARPTABLES,
        ] {
            out.put_u8(ty, 0);
        }
    }
}
