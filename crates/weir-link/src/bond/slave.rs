// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The ports of a bond (`bond_enslave`, `__bond_release_one`, `bond_slave_changelink`).

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicU16, AtomicU32};

use weir_netlink::ifla::{arphrd, bond as attr, bond_slave, iff};
use weir_netlink::{
    Attr, Error, LinkStats64, Policy, Rule, Strictness, Writer, errno, parse_at, policy, rtm,
};
use weir_sync::order::{self, Mutex};
use weir_sync::rcu::Guard;

use super::options::{self, LACP_GROUP, mode};
use super::times::Times;
use super::{At, Bond, Handle, QUEUES};
use crate::clock::MILLISECOND;
use crate::device::{AddressOrigin, Device, LinkTotals, Mac};
use crate::kind::Master;
use crate::layers::{Event, Site};
use crate::request::Ctl;
use crate::stack::Stack;
use crate::taken;

/// The states of a port's link (`BOND_LINK_*`).
#[allow(missing_docs)] // The names are Linux's.
pub mod link {
    pub const UP: u8 = 0;
    pub const FAIL: u8 = 1;
    pub const DOWN: u8 = 2;
    pub const BACK: u8 = 3;
}

static POLICY: Policy = policy! {
    max bond_slave::PRIO;
    bond_slave::QUEUE_ID => Rule::u16(),
    bond_slave::PRIO => Rule::s32(),
};

/// A port (`struct slave`).
pub struct Slave {
    /// The device.
    pub device: Arc<Device>,
    /// The address that the device had before.
    pub permanent: Mac,
    mtu: u32,
    /// `BOND_LINK_*`
    link: AtomicU8,
    backup: AtomicBool,
    inactive: AtomicBool,
    /// The intervals of the monitor that a change of the link still waits.
    pub delay: AtomicI32,
    /// The monitor has held the link for up before (`last_link_up`).
    pub was_up: AtomicBool,
    /// What the ARP monitor knows.
    pub times: Times,
    /// `LINK_FAILURE_COUNT`
    pub failures: AtomicU32,
    /// `QUEUE_ID`
    pub queue: AtomicU16,
    /// `PRIO`
    pub prio: AtomicI32,
    /// In Mbit/s, or `u32::MAX`.
    pub speed: AtomicU32,
    /// `DUPLEX_*`
    pub duplex: AtomicU8,
    /// The unicast and multicast addresses that the bond has passed on to the device.
    passed: Mutex<[Vec<Mac>; 2], order::BondLists>,
    /// The counters of the device that the bond has counted.
    counted: Mutex<LinkTotals, order::BondLists>,
}

impl Slave {
    /// Returns `BOND_LINK_*`.
    #[inline]
    pub fn link(&self) -> u8 {
        self.link.load(Relaxed)
    }

    /// Returns whether the monitor holds the link for up.
    #[inline]
    pub fn has_link(&self) -> bool {
        self.link() == link::UP
    }

    /// Returns whether the device is up and has a carrier (`bond_slave_is_up`).
    #[inline]
    pub fn is_running(&self, stack: &Stack) -> bool {
        self.device.is_up() && self.device.link.carrier(stack, &self.device)
    }

    /// Returns whether packets may leave by the port (`bond_slave_can_tx`).
    #[inline]
    pub fn can_send(&self, stack: &Stack) -> bool {
        self.has_link() && !self.is_backup() && self.is_running(stack)
    }

    /// Returns whether the state is `BOND_STATE_BACKUP`.
    #[inline]
    pub fn is_backup(&self) -> bool {
        self.backup.load(Relaxed)
    }

    /// Returns whether received frames are dropped.
    #[inline]
    pub fn is_inactive(&self) -> bool {
        self.inactive.load(Relaxed)
    }

    /// Sets whether received frames are dropped.
    pub fn set_inactive(&self, on: bool) {
        self.inactive.store(on, Relaxed);
    }

    /// Reads speed and duplex from the device (`bond_update_speed_duplex`). Returns whether they are known.
    pub fn read_speed(&self) -> bool {
        let settings = self.device.link.link_settings();
        let known = settings.filter(|settings| !matches!(settings.speed, 0 | u32::MAX));
        let known = known.filter(|settings| settings.duplex <= 1);
        let (speed, duplex) = known.map_or((u32::MAX, 0xff), |known| (known.speed, known.duplex));
        self.speed.store(speed, Relaxed);
        self.duplex.store(duplex, Relaxed);
        known.is_some()
    }

    /// Tells the listeners of the device (`NETDEV_CHANGELOWERSTATE`).
    pub fn announce(&self, at: At<'_>) {
        let ns = self.device.namespace(at.guard);
        crate::changed(at.stack, at.guard, ns, &self.device, rtm::NEWLINK, 0);
    }

    /// Sets the state of the link (`bond_set_slave_link_state`).
    pub fn set_link(&self, at: At<'_>, state: u8) {
        if self.link.swap(state, Relaxed) != state {
            self.announce(at);
        }
    }

    /// Sets the state without telling anybody.
    pub fn set_link_quietly(&self, state: u8) {
        self.link.store(state, Relaxed);
    }

    /// Sets `BOND_STATE_*` (`bond_set_slave_state`).
    pub fn set_backup(&self, at: At<'_>, backup: bool) {
        if self.backup.swap(backup, Relaxed) != backup {
            self.announce(at);
        }
    }

    /// Takes an MTU if it is another one.
    pub fn take_mtu(&self, at: At<'_>, mtu: u32) -> Result<(), Error> {
        match self.device.mtu() == mtu {
            true => Ok(()),
            false => crate::change_mtu(at.stack, at.guard, &self.device, mtu),
        }
    }
}

fn refuse(errno: i32, text: &'static str) -> Error {
    Error::msg(errno, text)
}

impl Bond {
    /// Makes a port active (`bond_set_slave_active_flags`).
    pub fn set_active_flags(&self, at: At<'_>, slave: &Slave) {
        slave.set_backup(at, false);
        slave.set_inactive(false);
    }

    /// Makes a port inactive (`bond_set_slave_inactive_flags`).
    pub fn set_inactive_flags(&self, at: At<'_>, slave: &Slave) {
        slave.set_backup(at, true);
        if self.params.get(attr::ALL_SLAVES_ACTIVE) == 0 {
            slave.set_inactive(true);
        }
    }

    /// Names the primary port. The next choice of the active port prefers it.
    pub fn set_primary_slave(&self, slave: Option<&Arc<Slave>>) {
        self.primary.replace(slave.cloned());
        self.force_primary.store(slave.is_some(), Relaxed);
    }

    /// The checks of `bond_enslave` that come before any change.
    fn check_port(
        &self,
        at: At<'_>,
        master: &Arc<Device>,
        device: &Arc<Device>,
    ) -> Result<(), Error> {
        let own = super::bond_in(device).is_some();
        if device.flags() & iff::MASTER != 0 && !own {
            let text = "Device type (master device) cannot be enslaved";
            return Err(refuse(errno::EPERM, text));
        }
        if device.rx_handler(at.guard).is_some() {
            let text = "Device is in use and cannot be enslaved";
            return Err(refuse(errno::EBUSY, text));
        }
        if Arc::ptr_eq(master, device) {
            return Err(refuse(errno::EPERM, "Cannot enslave bond to itself."));
        }
        if device.is_up() {
            let text = "Device can not be enslaved while up";
            return Err(refuse(errno::EPERM, text));
        }
        if device.link.hardware_type() != arphrd::ETHER || device.flags() & iff::LOOPBACK != 0 {
            // A bond of devices without Ethernet addresses is not served.
            let text = match self.has_slaves() {
                true => "Device type is different from other slaves",
                false => "A bond takes Ethernet devices only",
            };
            let errno = match self.has_slaves() {
                true => errno::EINVAL,
                false => errno::EOPNOTSUPP,
            };
            return Err(refuse(errno, text));
        }
        if device.is_leaving() || master.is_leaving() {
            return Err(Error::new(errno::ENODEV));
        }
        if crate::stands_on(at.stack, at.guard, device, master) {
            return Err(Error::new(errno::EBUSY));
        }
        Ok(())
    }

    /// Puts a port into the list, if the device is still free.
    fn enter_port(
        &self,
        at: At<'_>,
        master: &Arc<Device>,
        slave: &Arc<Slave>,
    ) -> Result<(), Error> {
        let device = &slave.device;
        let _alone = self.changes.lock();
        if device.master(at.guard).is_some() || device.rx_handler(at.guard).is_some() {
            return Err(Error::new(errno::EBUSY));
        }
        if device.is_leaving() || master.is_leaving() {
            return Err(Error::new(errno::ENODEV));
        }
        let mut slaves = self.slaves(at.guard).to_vec();
        slaves.push(slave.clone());
        self.slaves.replace(slaves);
        device.set_master(Some(master.clone()));
        device.change_flags(iff::SLAVE, iff::SLAVE);
        Ok(())
    }

    /// Prepares the device: MTU, address, up.
    fn prepare(&self, at: At<'_>, master: &Arc<Device>, slave: &Slave) -> Result<(), Error> {
        let device = &slave.device;
        slave.take_mtu(at, master.mtu())?;
        if self.params.fail_over_mac() == 0 {
            crate::change_address(at.stack, at.guard, device, master.address())?;
        }
        // Its addresses stay away (`addrconf_notify`).
        crate::set_up(at.stack, at.guard, device, true)?;
        Ok(())
    }

    /// Gives the device back what it had: down, address, MTU.
    fn restore(&self, at: At<'_>, slave: &Slave) {
        let device = &slave.device;
        // Going down cannot fail, and the device had this address and this MTU before.
        let _ = crate::set_up(at.stack, at.guard, device, false);
        if self.params.fail_over_mac() != options::FOLLOW_ACTIVE {
            let _ = crate::change_address(at.stack, at.guard, device, slave.permanent);
        }
        let _ = slave.take_mtu(at, slave.mtu);
    }

    /// Chooses the first state of the link.
    fn first_link(&self, at: At<'_>, slave: &Slave) {
        let running = slave.is_running(at.stack);
        let state = if self.params.get(attr::MIIMON) != 0 {
            match (slave.is_running(at.stack), self.params.get(attr::UPDELAY)) {
                (false, _) => link::DOWN,
                (true, 0) => link::UP,
                (true, delay) => {
                    slave.delay.store(delay as i32, Relaxed);
                    link::BACK
                }
            }
        } else if self.params.get(attr::ARP_INTERVAL) != 0 && !running {
            link::DOWN
        } else {
            link::UP
        };
        slave.set_link(at, state);
        if self.uses_lacp() && slave.speed.load(Relaxed) == u32::MAX {
            slave.set_link_quietly(link::DOWN);
        }
        slave.was_up.store(slave.link() != link::DOWN, Relaxed);
        let now = at.stack.clock.now();
        let before = self.arp_interval() + MILLISECOND;
        slave.times.begin(now.wrapping_sub(before));
        slave.times.up.store(now, Relaxed);
    }

    /// `bond_enslave`
    fn add_port(
        self: &Arc<Self>,
        at: At<'_>,
        master: &Arc<Device>,
        device: &Arc<Device>,
    ) -> Result<(), Error> {
        self.check_port(at, master, device)?;
        let first = !self.has_slaves();
        if first && master.address_origin() == AddressOrigin::Random as u8 {
            master.set_address_of(device.address(), AddressOrigin::Stolen);
            crate::address_changed(at.stack, at.guard, master);
        }
        let slave = Arc::new(Slave {
            device: device.clone(),
            permanent: device.address(),
            mtu: device.mtu(),
            link: AtomicU8::new(u8::MAX),
            backup: AtomicBool::new(false),
            inactive: AtomicBool::new(false),
            delay: AtomicI32::new(0),
            was_up: AtomicBool::new(false),
            times: Times::default(),
            failures: AtomicU32::new(0),
            queue: AtomicU16::new(0),
            prio: AtomicI32::new(0),
            speed: AtomicU32::new(u32::MAX),
            duplex: AtomicU8::new(0xff),
            passed: Mutex::default(),
            counted: Mutex::new(LinkTotals::default()),
        });
        if let Err(error) = self.enter_port(at, master, &slave) {
            self.forget_first_address(at, master, device);
            return Err(error);
        }
        if let Err(error) = self.prepare(at, master, &slave) {
            self.leave_list(at, &slave);
            self.restore(at, &slave);
            self.forget_first_address(at, master, device);
            return Err(error);
        }
        *slave.counted.lock() = device.totals();
        slave.read_speed();
        self.first_link(at, &slave);
        let lists = self.params.lists();
        if self.params.uses_primary() && !lists.primary.is_empty() && lists.primary == device.name()
        {
            self.set_primary_slave(Some(&slave));
        }
        match self.params.mode() {
            mode::ACTIVE_BACKUP => self.set_inactive_flags(at, &slave),
            mode::AD => {
                self.set_inactive_flags(at, &slave);
                let (mac, look) = (slave.permanent, slave.look(at.stack));
                self.with_lacp(at, |lacp, setup| lacp.add(device.key, mac, setup, look));
            }
            _ => {
                self.set_active_flags(at, &slave);
                if self.active(at.guard).is_none() && slave.has_link() {
                    self.active.replace(Some(slave.clone()));
                }
            }
        }
        self.take_frames_of(&slave);
        slave.announce(at);
        if !self.params.uses_primary() {
            for (flag, users) in [
                (iff::PROMISC, master.promiscuity()),
                (iff::ALLMULTI, master.allmulti()),
            ] {
                if users > 0 {
                    crate::ask_for_all(at.stack, at.guard, device, flag, true);
                }
            }
            if master.is_up() {
                self.pass_to(at, master, &slave, true);
            }
        }
        self.compute_features(at);
        self.set_carrier(at);
        if self.params.uses_primary() {
            self.select_active(at);
        }
        self.update_usable(at);
        Ok(())
    }

    /// Takes another address for a bond without ports that had the address of one that did not become a port.
    fn forget_first_address(&self, at: At<'_>, master: &Arc<Device>, device: &Device) {
        if !self.has_slaves() && master.address() == device.address() {
            let mac = master.namespace(at.guard).random_mac();
            master.set_address_of(mac, AddressOrigin::Random);
        }
    }

    /// Takes a port out of the list. Returns whether it was there.
    fn leave_list(&self, at: At<'_>, slave: &Arc<Slave>) -> bool {
        let _alone = self.changes.lock();
        let mut slaves = self.slaves(at.guard).to_vec();
        let before = slaves.len();
        slaves.retain(|other| !Arc::ptr_eq(other, slave));
        if slaves.len() == before {
            return false;
        }
        self.slaves.replace(slaves);
        slave.device.set_rx_handler(None);
        slave.device.set_master(None);
        slave.device.change_flags(0, iff::SLAVE);
        true
    }

    /// Releases a port, which may be on its way out (`__bond_release_one`).
    ///
    /// # Errors
    /// EINVAL if the device is no port.
    pub fn release_port(
        &self,
        at: At<'_>,
        device: &Arc<Device>,
        unregisters: bool,
    ) -> Result<(), Error> {
        let invalid = || Error::new(errno::EINVAL);
        let slave = self.slave_of(at.guard, device).cloned();
        let slave = slave.ok_or_else(invalid)?;
        self.count(&slave);
        self.set_inactive_flags(at, &slave);
        self.with_lacp(at, |lacp, _| lacp.remove(device.key));
        if !self.leave_list(at, &slave) {
            return Err(invalid());
        }
        let master = self.device();
        if let Some(master) = &master {
            self.pass_to(at, master, &slave, false);
            let was_active = self
                .active(at.guard)
                .is_some_and(|active| Arc::ptr_eq(active, &slave));
            if !self.params.uses_primary() || was_active {
                for (flag, users) in [
                    (iff::PROMISC, master.promiscuity()),
                    (iff::ALLMULTI, master.allmulti()),
                ] {
                    if users > 0 {
                        crate::ask_for_all(at.stack, at.guard, device, flag, false);
                    }
                }
            }
        }
        let is = |other: Option<&Arc<Slave>>| other.is_some_and(|o| Arc::ptr_eq(o, &slave));
        self.candidate.replace(None);
        if is(self.primary(at.guard)) {
            self.primary.replace(None);
        }
        if is(self.active(at.guard)) {
            self.active.replace(None);
            self.select_active(at);
        }
        self.update_usable(at);
        self.set_carrier(at);
        if !unregisters {
            slave.announce(at);
        }
        if let Some(master) = master.filter(|master| !master.is_dying()) {
            if !self.has_slaves() {
                let mac = master.namespace(at.guard).random_mac();
                master.set_address_of(mac, AddressOrigin::Random);
                crate::address_changed(at.stack, at.guard, &master);
            }
            self.compute_features(at);
        }
        self.restore(at, &slave);
        Ok(())
    }

    /// Adds what the port's device counted since it was last asked to the counters of the bond
    /// (`bond_fold_stats`).
    fn count(&self, slave: &Slave) {
        let more = slave.take_counters();
        let mut past = self.past.lock();
        *past = past.plus(&more);
    }

    /// Adds the counters of the ports to those of the device (`bond_get_stats`).
    pub fn add_stats(&self, stats: &mut LinkStats64) {
        let guard = self.slaves.domain().pin();
        for slave in self.slaves(&guard) {
            self.count(slave);
        }
        self.past.lock().add_to(stats);
    }
}

impl Bond {
    /// Passes the lists of addresses on to a port, or takes them back (`dev_uc_sync`, `dev_mc_sync`,
    /// `bond_hw_addr_flush`).
    pub fn pass_to(&self, at: At<'_>, master: &Device, slave: &Slave, on: bool) {
        let mut wanted: [Vec<Mac>; 2] = Default::default();
        if on {
            let taken = master.taken();
            wanted = [
                taken.unicast().map(|entry| entry.mac).collect(),
                taken.multicast.entries().map(|entry| entry.mac).collect(),
            ];
        }
        if on && self.uses_lacp() && !wanted[1].contains(&LACP_GROUP) {
            wanted[1].push(LACP_GROUP);
        }
        {
            let mut passed = slave.passed.lock();
            let mut taken = slave.device.taken();
            let lists = taken.lists().into_iter();
            for ((list, before), wanted) in lists.zip(&*passed).zip(&wanted) {
                for mac in wanted.iter().filter(|mac| !before.contains(mac)) {
                    // A plain reference is always granted.
                    let _ = list.add(*mac, taken::Reference::Plain);
                }
                for mac in before.iter().filter(|mac| !wanted.contains(mac)) {
                    // The device may have lost its lists on a move to another namespace.
                    let _ = list.remove(*mac, taken::Reference::Plain);
                }
            }
            *passed = wanted;
        }
        taken::changed(at.stack, at.guard, &slave.device);
    }
}

impl Slave {
    /// Returns what the device counted since the last call.
    fn take_counters(&self) -> LinkTotals {
        // The device's own kind may count elsewhere too.
        let mut now = LinkStats64::default();
        self.device.link.add_stats(&mut now);
        let totals = self.device.totals().plus(&LinkTotals::from(&now));
        let mut counted = self.counted.lock();
        totals.since(&std::mem::replace(&mut *counted, totals))
    }
}

impl Master for Handle {
    fn add(
        &self,
        stack: &Stack,
        guard: &Guard,
        master: &Arc<Device>,
        port: &Arc<Device>,
    ) -> Result<(), Error> {
        self.0.add_port(At { stack, guard }, master, port)
    }

    fn release(&self, stack: &Stack, guard: &Guard, port: &Arc<Device>) -> Result<(), Error> {
        self.0.release_port(At { stack, guard }, port, false)
    }

    /// `bond_fill_slave_info`
    fn fill_port(&self, _stack: &Stack, guard: &Guard, port: &Arc<Device>, out: &mut Writer) {
        let Some(slave) = self.0.slave_of(guard, port) else {
            return;
        };
        out.put_u8(bond_slave::STATE, u8::from(slave.is_backup()));
        out.put_u8(bond_slave::MII_STATUS, slave.link());
        let failures = slave.failures.load(Relaxed);
        out.put_u32(bond_slave::LINK_FAILURE_COUNT, failures);
        out.put(bond_slave::PERM_HWADDR, &slave.permanent);
        out.put_u16(bond_slave::QUEUE_ID, slave.queue.load(Relaxed));
        out.put_i32(bond_slave::PRIO, slave.prio.load(Relaxed));
        if !self.0.uses_lacp() {
            return;
        }
        let lacp = self.0.lacp.lock();
        if let Some(port) = lacp.port(port.key).filter(|port| port.aggregator != 0) {
            out.put_u16(bond_slave::AD_AGGREGATOR_ID, port.aggregator);
            out.put_u8(bond_slave::AD_ACTOR_OPER_PORT_STATE, port.actor.state);
            let partner = u16::from(port.partner.state);
            out.put_u16(bond_slave::AD_PARTNER_OPER_PORT_STATE, partner);
        }
    }

    /// `bond_slave_changelink`
    fn change_port(
        &self,
        ctl: &mut Ctl<'_>,
        port: &Arc<Device>,
        data: Attr<'_>,
    ) -> Result<(), Error> {
        let bond = &self.0;
        let at = At {
            stack: ctl.stack,
            guard: ctl.guard,
        };
        let inside = data.attrs();
        let table = parse_at(inside.rest(), inside.offset(), &POLICY, Strictness::Liberal)?;
        let slave = bond.slave_of(at.guard, port);
        let slave = slave.ok_or_else(|| Error::new(errno::EINVAL))?;
        if let Some(queue) = table.u16(bond_slave::QUEUE_ID)? {
            let taken = |other: &&Arc<Slave>| {
                !Arc::ptr_eq(other, slave) && queue != 0 && other.queue.load(Relaxed) == queue
            };
            let queues = bond.device().map_or(QUEUES, |device| device.tx_queues());
            if u32::from(queue) > queues || bond.slaves(at.guard).iter().any(|s| taken(&s)) {
                return Err(Error::new(errno::EPERM));
            }
            slave.queue.store(queue, Relaxed);
        }
        if let Some(prio) = table.i32(bond_slave::PRIO)? {
            if !bond.params.uses_primary() {
                let text = "option not supported in mode";
                return Err(Error::msg(errno::EACCES, text));
            }
            slave.prio.store(prio, Relaxed);
            bond.select_active(at);
        }
        Ok(())
    }
}

/// Tells everybody of a failover (`NETDEV_BONDING_FAILOVER`).
pub fn announce_failover(at: At<'_>, device: &Arc<Device>) {
    let ns = device.namespace(at.guard);
    Site::new(at.stack, at.guard, ns, device).notify(Event::Failover);
}
