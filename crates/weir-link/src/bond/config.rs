// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The settings of a bond and requests about them (`bond_changelink`, `bond_fill_info`, `bond_options.c`).

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use weir_netlink::ifla::{bond as attr, bond_ad_info};
use weir_netlink::{
    Attr, Error, Policy, Rule, Strictness, Table, Writer, errno, parse_at, policy as rules,
};
use weir_sync::order::{self, Mutex};

use super::options::{self, OPTIONS, Opt, invalid, mode};
use super::{At, Bond};
use crate::device::{Device, Mac};
use crate::namespace::Namespace;
use crate::stack::Stack;

static POLICY: Policy = rules! {
    max attr::NS_IP6_TARGET;
    attr::MODE => Rule::u8(),
    attr::ACTIVE_SLAVE => Rule::u32(),
    attr::MIIMON => Rule::u32(),
    attr::UPDELAY => Rule::u32(),
    attr::DOWNDELAY => Rule::u32(),
    attr::USE_CARRIER => Rule::u8(),
    attr::ARP_INTERVAL => Rule::u32(),
    attr::ARP_IP_TARGET => Rule::nested_any(),
    attr::ARP_VALIDATE => Rule::u32(),
    attr::ARP_ALL_TARGETS => Rule::u32(),
    attr::PRIMARY => Rule::u32(),
    attr::PRIMARY_RESELECT => Rule::u8(),
    attr::FAIL_OVER_MAC => Rule::u8(),
    attr::XMIT_HASH_POLICY => Rule::u8(),
    attr::RESEND_IGMP => Rule::u32(),
    attr::NUM_PEER_NOTIF => Rule::u8(),
    attr::ALL_SLAVES_ACTIVE => Rule::u8(),
    attr::MIN_LINKS => Rule::u32(),
    attr::LP_INTERVAL => Rule::u32(),
    attr::PACKETS_PER_SLAVE => Rule::u32(),
    attr::AD_LACP_RATE => Rule::u8(),
    attr::AD_SELECT => Rule::u8(),
    attr::AD_INFO => Rule::nested_any(),
    attr::AD_ACTOR_SYS_PRIO => Rule::u16(),
    attr::AD_USER_PORT_KEY => Rule::u16(),
    attr::AD_ACTOR_SYSTEM => Rule::binary(6),
    attr::TLB_DYNAMIC_LB => Rule::u8(),
    attr::PEER_NOTIF_DELAY => Rule::u32().range(0, 300_000),
    attr::AD_LACP_ACTIVE => Rule::u8(),
    attr::MISSED_MAX => Rule::u8(),
    attr::NS_IP6_TARGET => Rule::nested_any(),
};

/// The largest number of targets of the ARP monitor, for each family (`BOND_MAX_ARP_TARGETS`).
pub const TARGETS: usize = 16;

/// The interval of the MII monitor in modes without the ARP monitor, in ms (`BOND_DEFAULT_MIIMON`).
const DEFAULT_MIIMON: u32 = 100;

/// The settings that are no numbers.
#[derive(Default, Clone)]
pub struct Lists {
    /// The name of the device that becomes the primary port.
    pub primary: String,
    /// `ARP_IP_TARGET`
    pub arp: Vec<Ipv4Addr>,
    /// `NS_IP6_TARGET`
    pub ns: Vec<Ipv6Addr>,
    /// `AD_ACTOR_SYSTEM`, or zero.
    pub system: Mac,
}

/// The settings of a bond (`struct bond_params`).
pub struct Params {
    /// By attribute. The delays are numbers of intervals of the MII monitor.
    values: [AtomicU32; attr::NS_IP6_TARGET as usize + 1],
    lists: Mutex<Lists, order::BondLists>,
}

impl Default for Params {
    fn default() -> Self {
        let default = |ty| options::option(ty as u16).map_or(0, |option| option.default);
        Self {
            values: std::array::from_fn(|ty| AtomicU32::new(default(ty))),
            lists: Mutex::default(),
        }
    }
}

impl Params {
    /// Returns the value of an option by its attribute.
    #[inline]
    pub fn get(&self, ty: u16) -> u32 {
        let value = self.values.get(usize::from(ty));
        value.map_or(0, |value| value.load(Relaxed))
    }

    /// Sets the value of an option by its attribute.
    pub fn set(&self, ty: u16, value: u32) {
        if let Some(slot) = self.values.get(usize::from(ty)) {
            slot.store(value, Relaxed);
        }
    }

    /// Returns the settings that are no numbers.
    pub fn lists(&self) -> Lists {
        self.lists.lock().clone()
    }

    /// Returns the mode.
    #[inline]
    pub fn mode(&self) -> u32 {
        self.get(attr::MODE)
    }

    /// Returns whether the mode is one of those with an active port.
    #[inline]
    pub fn uses_primary(&self) -> bool {
        matches!(self.mode(), mode::ACTIVE_BACKUP | mode::TLB | mode::ALB)
    }

    /// Returns `FAIL_OVER_MAC` if the mode has it.
    pub fn fail_over_mac(&self) -> u32 {
        match self.mode() {
            mode::ACTIVE_BACKUP => self.get(attr::FAIL_OVER_MAC),
            _ => 0,
        }
    }
}

/// Returns the number that an attribute holds.
fn number(table: &Table<'_>, ty: u16) -> Result<u32, Error> {
    let Some(attr) = table.get(ty) else {
        return Ok(0);
    };
    match attr.payload.len() {
        1 => attr.u8().map(u32::from),
        2..4 => attr.u16().map(u32::from),
        _ => attr.u32(),
    }
}

/// Parses `IFLA_INFO_DATA`.
///
/// # Errors
/// Those of the policy.
pub fn parse(data: Option<Attr<'_>>) -> Result<Option<Table<'_>>, Error> {
    let Some(data) = data else { return Ok(None) };
    let inside = data.attrs();
    parse_at(inside.rest(), inside.offset(), &POLICY, Strictness::Liberal).map(Some)
}

impl Bond {
    /// Applies the options of a request one after the other. Those before a wrong one stay (`bond_changelink`).
    ///
    /// # Errors
    /// Linux's, and EOPNOTSUPP for the modes balance-tlb and balance-alb.
    pub fn configure(&self, at: At<'_>, ns: &Namespace, table: &Table<'_>) -> Result<(), Error> {
        let mut miimon = 0;
        for option in OPTIONS.iter().filter(|option| table.has(option.ty)) {
            let ty = option.ty;
            match ty {
                attr::ARP_IP_TARGET => {
                    self.params.lists.lock().arp.clear();
                    self.reset_targets(at, 0..TARGETS, 0);
                    let list = table.get(ty).map(|list| list.attrs());
                    for target in list.into_iter().flatten().take(TARGETS) {
                        self.add_target(at, target.ipv4()?)?;
                    }
                }
                attr::NS_IP6_TARGET => {
                    self.params.lists.lock().ns.clear();
                    self.reset_targets(at, 0..TARGETS, 0);
                    let list = table.get(ty).map(|list| list.attrs());
                    for target in list.into_iter().flatten().take(TARGETS) {
                        if target.payload.len() < 16 {
                            let text = "Invalid IPv6 address";
                            return Err(Error::msg(errno::EINVAL, text));
                        }
                        self.add_target6(at, target.ipv6()?)?;
                    }
                }
                attr::AD_ACTOR_SYSTEM => {
                    let mac = table.get(ty).map(|mac| mac.mac()).transpose()?;
                    self.set_system(at, option, mac.unwrap_or_default())?;
                }
                attr::ACTIVE_SLAVE | attr::PRIMARY => {
                    let index = number(table, ty)?;
                    let named = ns.device(index, at.guard).cloned();
                    match ty {
                        attr::PRIMARY => {
                            self.check_option(option)?;
                            let name = named.map(|device| device.name());
                            self.set_primary(at, &name.unwrap_or_default());
                        }
                        _ if named.is_none() && index != 0 => {
                            return Err(Error::new(errno::ENODEV));
                        }
                        _ => self.set_active(at, option, named)?,
                    }
                }
                _ => {
                    let value = number(table, ty)?;
                    match ty {
                        attr::MIIMON => miimon = value,
                        attr::ARP_INTERVAL if value != 0 && miimon != 0 => {
                            let text = "ARP monitoring cannot be used with MII monitoring";
                            return Err(Error::msg(errno::EINVAL, text));
                        }
                        attr::ARP_VALIDATE if value != 0 && miimon != 0 => {
                            let text = "ARP validating cannot be used with MII monitoring";
                            return Err(Error::msg(errno::EINVAL, text));
                        }
                        _ => {}
                    }
                    self.set_number(at, option, value)?;
                }
            }
        }
        Ok(())
    }

    /// Checks that an option may be set at present.
    fn check_option(&self, option: &Opt) -> Result<(), Error> {
        let up = self.device().is_some_and(|device| device.is_up());
        option.check_allowed(self.params.mode(), self.has_slaves(), up)
    }

    /// Sets an option that is a number (`__bond_opt_set`).
    fn set_number(&self, at: At<'_>, option: &Opt, value: u32) -> Result<(), Error> {
        self.check_option(option)?;
        option.check_value(value)?;
        let params = &self.params;
        let miimon = params.get(attr::MIIMON);
        match option.ty {
            attr::MODE => return self.set_mode(value),
            attr::UPDELAY | attr::DOWNDELAY | attr::PEER_NOTIF_DELAY => {
                if miimon == 0 {
                    return Err(Error::new(errno::EPERM));
                }
                params.set(option.ty, value / miimon);
            }
            attr::MIIMON => {
                params.set(attr::MIIMON, value);
                if value != 0 {
                    params.set(attr::ARP_INTERVAL, 0);
                    params.set(attr::ARP_VALIDATE, 0);
                }
                self.start_monitors(at);
            }
            attr::ARP_INTERVAL => {
                params.set(attr::ARP_INTERVAL, value);
                if value != 0 {
                    params.set(attr::MIIMON, 0);
                }
                self.start_monitors(at);
            }
            attr::PRIMARY_RESELECT => {
                params.set(option.ty, value);
                self.select_active(at);
            }
            attr::ALL_SLAVES_ACTIVE => {
                params.set(option.ty, value);
                for slave in self.slaves(at.guard) {
                    if slave.is_backup() {
                        slave.set_inactive(value == 0);
                    }
                }
            }
            attr::MIN_LINKS => {
                params.set(option.ty, value);
                self.set_carrier(at);
            }
            attr::AD_ACTOR_SYS_PRIO => {
                params.set(option.ty, value);
                self.with_lacp(at, |lacp, setup| lacp.system_changed(setup));
            }
            attr::AD_LACP_RATE | attr::AD_LACP_ACTIVE => {
                params.set(option.ty, value);
                self.with_lacp(at, |lacp, setup| lacp.rate_changed(setup));
            }
            ty => params.set(ty, value),
        }
        Ok(())
    }

    /// `bond_option_mode_set`
    fn set_mode(&self, value: u32) -> Result<(), Error> {
        let params = &self.params;
        if matches!(value, mode::TLB | mode::ALB) {
            let text = "The modes balance-tlb and balance-alb are not served";
            return Err(Error::msg(errno::EOPNOTSUPP, text));
        }
        if value == mode::AD {
            params.set(attr::ARP_INTERVAL, 0);
            if params.get(attr::MIIMON) == 0 {
                params.set(attr::MIIMON, DEFAULT_MIIMON);
            }
        }
        params.set(attr::ARP_VALIDATE, 0);
        params.set(attr::MODE, value);
        Ok(())
    }

    /// `_bond_option_arp_ip_target_add`
    fn add_target(&self, at: At<'_>, target: Ipv4Addr) -> Result<(), Error> {
        let targets = &mut self.params.lists.lock().arp;
        let wrong = target.is_unspecified() || target.is_broadcast();
        if wrong || targets.contains(&target) || targets.len() >= TARGETS {
            return Err(invalid());
        }
        let number = targets.len();
        self.reset_targets(at, number..number + 1, at.stack.clock.now());
        targets.push(target);
        Ok(())
    }

    /// Sets when ports last heard some targets.
    fn reset_targets(&self, at: At<'_>, numbers: std::ops::Range<usize>, time: u64) {
        for slave in self.slaves(at.guard) {
            let times = slave.times.targets.get(numbers.clone());
            for target in times.into_iter().flatten() {
                target.store(time, Relaxed);
            }
        }
    }

    /// `_bond_options_ns_ip6_target_set`
    fn add_target6(&self, at: At<'_>, target: Ipv6Addr) -> Result<(), Error> {
        let targets = &mut self.params.lists.lock().ns;
        let wrong = target.is_unspecified() || target.is_multicast();
        if wrong || targets.contains(&target) || targets.len() >= TARGETS {
            return Err(invalid());
        }
        let number = targets.len();
        self.reset_targets(at, number..number + 1, at.stack.clock.now());
        targets.push(target);
        Ok(())
    }

    fn set_system(&self, at: At<'_>, option: &Opt, mac: Mac) -> Result<(), Error> {
        self.check_option(option)?;
        if mac[0] & 1 != 0 {
            return Err(invalid());
        }
        self.params.lists.lock().system = mac;
        self.with_lacp(at, |lacp, setup| lacp.system_changed(setup));
        Ok(())
    }

    /// Names the primary port, which need not be there yet, or none (`bond_option_primary_set`).
    fn set_primary(&self, at: At<'_>, name: &str) {
        name.clone_into(&mut self.params.lists.lock().primary);
        let slaves = self.slaves(at.guard);
        let found = slaves.iter().find(|slave| slave.device.name() == name);
        self.set_primary_slave(found);
        self.select_active(at);
    }

    /// Makes a port the active one, or chooses again (`bond_option_active_slave_set`).
    fn set_active(
        &self,
        at: At<'_>,
        option: &Opt,
        device: Option<Arc<Device>>,
    ) -> Result<(), Error> {
        self.check_option(option)?;
        let Some(device) = device else {
            self.active.replace(None);
            self.select_active(at);
            return Ok(());
        };
        let slave = self.slave_of(at.guard, &device).ok_or_else(invalid)?;
        let before = self.active(at.guard);
        if before.is_some_and(|before| Arc::ptr_eq(before, slave)) {
            return Ok(());
        }
        if before.is_none() || !slave.has_link() || !slave.is_running(at.stack) {
            return Err(invalid());
        }
        self.change_active(at, Some(slave));
        self.set_carrier(at);
        Ok(())
    }

    /// Writes `IFLA_INFO_DATA` (`bond_fill_info`).
    pub fn fill(&self, stack: &Stack, out: &mut Writer) {
        let guard = &stack.domain.pin();
        let params = &self.params;
        let u8 = |out: &mut Writer, ty| out.put_u8(ty, params.get(ty) as u8);
        let u32 = |out: &mut Writer, ty| out.put_u32(ty, params.get(ty));
        let miimon = params.get(attr::MIIMON);
        u8(out, attr::MODE);
        if params.uses_primary()
            && let Some(active) = self.active(guard)
        {
            out.put_u32(attr::ACTIVE_SLAVE, active.device.ifindex());
        }
        u32(out, attr::MIIMON);
        for ty in [attr::UPDELAY, attr::DOWNDELAY, attr::PEER_NOTIF_DELAY] {
            out.put_u32(ty, params.get(ty).wrapping_mul(miimon));
        }
        u8(out, attr::USE_CARRIER);
        u32(out, attr::ARP_INTERVAL);
        let lists = params.lists();
        let nest = out.nest_noflag(attr::ARP_IP_TARGET);
        for (number, target) in (0..).zip(&lists.arp) {
            out.put_ipv4(number, *target);
        }
        out.end_or_cancel(nest);
        u32(out, attr::ARP_VALIDATE);
        u32(out, attr::ARP_ALL_TARGETS);
        let nest = out.nest_noflag(attr::NS_IP6_TARGET);
        for (number, target) in (0..).zip(&lists.ns) {
            out.put_ipv6(number, *target);
        }
        out.end_or_cancel(nest);
        if params.uses_primary()
            && let Some(primary) = self.primary(guard)
        {
            out.put_u32(attr::PRIMARY, primary.device.ifindex());
        }
        u8(out, attr::PRIMARY_RESELECT);
        u8(out, attr::FAIL_OVER_MAC);
        u8(out, attr::XMIT_HASH_POLICY);
        u32(out, attr::RESEND_IGMP);
        u8(out, attr::NUM_PEER_NOTIF);
        u8(out, attr::ALL_SLAVES_ACTIVE);
        u32(out, attr::MIN_LINKS);
        u32(out, attr::LP_INTERVAL);
        u32(out, attr::PACKETS_PER_SLAVE);
        u8(out, attr::AD_LACP_ACTIVE);
        u8(out, attr::AD_LACP_RATE);
        u8(out, attr::AD_SELECT);
        u8(out, attr::TLB_DYNAMIC_LB);
        u8(out, attr::MISSED_MAX);
        if params.mode() != mode::AD {
            return;
        }
        for ty in [attr::AD_ACTOR_SYS_PRIO, attr::AD_USER_PORT_KEY] {
            out.put_u16(ty, params.get(ty) as u16);
        }
        out.put(attr::AD_ACTOR_SYSTEM, &lists.system);
        let lacp = self.lacp.lock();
        if let Some((active, live)) = lacp.active() {
            let nest = out.nest_noflag(attr::AD_INFO);
            out.put_u16(bond_ad_info::AGGREGATOR, active.id);
            out.put_u16(bond_ad_info::NUM_PORTS, live);
            out.put_u16(bond_ad_info::ACTOR_KEY, active.key);
            out.put_u16(bond_ad_info::PARTNER_KEY, active.partner_key);
            out.put(bond_ad_info::PARTNER_MAC, &active.partner);
            out.end(nest);
        }
    }
}
