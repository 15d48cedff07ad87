// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The identifiers that a device in external mode receives, each with its own remote and counters (`vnifilter`,
//! `bridge vni`).
//!
//! Mirrors `drivers/net/vxlan/vxlan_vnifilter.c`. Devices that filter share a port as long as no identifier has two of
//! them. What a device sends is not filtered, and counted if the filter has the identifier. The remote of an identifier is
//! an entry of the forwarding table, for frames without another: its own, or else the device's. As in Linux, another remote
//! does not take the entry of the one before away.

use std::net::IpAddr;
use std::sync::Arc;

use weir_netlink::nda::{ntf, nud};
use weir_netlink::vnifilter::{self as attr, entry, stats};
use weir_netlink::{
    Attr, Error, Policy, Rule, Strictness, TunnelMsg, Writer, af, errno, nlm, policy, rtm,
};
use weir_sync::rcu::Guard;

use super::config::Config;
use super::fdb::{ALL_ZEROS, Remote, To, Update};
use super::socket::{self, Underlay};
use super::vnis::{All, Counters, given};
use super::{Vxlan, group};
use crate::device::Device;
use crate::namespace::Namespace;
use crate::request::Ctl;
use crate::stack::Stack;
use crate::tunnel::ports::Receiver;
use crate::udp::Port;

/// The largest number of identifiers of a device (`rhashtable_params.max_size` and its load factor).
const MOST: usize = 1 << 25;

static POLICY: Policy = policy! { max attr::MAX; attr::ENTRY => Rule::nested_any() };

static ENTRY: Policy = policy! { max entry::MAX;
    entry::START => Rule::u32(),
    entry::END => Rule::u32(),
    entry::GROUP => Rule::exact(4),
    entry::GROUP6 => Rule::exact(16),
};

/// A dumped run of identifiers (`VXLAN_VNIFILTER_ENTRY`).
#[derive(Debug)]
pub struct Run {
    first: u32,
    last: u32,
    remote: Option<IpAddr>,
    counters: Option<[u64; 8]>,
}

impl Run {
    /// Writes the entry (`vxlan_fill_vni_filter_entry`).
    pub fn fill(&self, out: &mut Writer) {
        let nest = out.nest(attr::ENTRY);
        out.put_u32(entry::START, self.first);
        if self.last != self.first {
            out.put_u32(entry::END, self.last);
        }
        if let Some(remote) = given(self.remote) {
            let ty = match remote {
                IpAddr::V4(_) => entry::GROUP,
                IpAddr::V6(_) => entry::GROUP6,
            };
            out.put_ip(ty, remote);
        }
        if let Some(counters) = &self.counters {
            let nest = out.nest(entry::STATS);
            for (ty, value) in (stats::RX_BYTES..).zip(counters) {
                out.put_u64_pad(ty, *value, stats::PAD);
            }
            out.end(nest);
        }
        out.end(nest);
    }
}

/// Returns the header of a message about a device.
pub fn head(device: &Device) -> TunnelMsg {
    TunnelMsg {
        family: af::BRIDGE,
        ifindex: device.ifindex(),
        ..TunnelMsg::default()
    }
}

/// Returns a device's own part, if it is a VXLAN device.
pub fn vxlan_in(device: &Device) -> Option<&Arc<Vxlan>> {
    device.link.as_any()?.downcast_ref()
}

/// Returns the identifiers of a device, unless it does not filter, in runs with equal remotes; with counters, each alone.
pub fn runs(vxlan: &Vxlan, device: &Device, counted: bool, guard: &Guard) -> Option<Vec<Run>> {
    let filter = vxlan.filter.as_ref()?;
    let net = vxlan.net.upgrade();
    let underlay = net.as_ref().and_then(|net| socket::underlay(net));
    let mut runs: Vec<Run> = Vec::new();
    let Some(underlay) = underlay else {
        return Some(runs);
    };
    let all = underlay.vnis.lock();
    let remotes = all
        .get(&device.key)
        .into_iter()
        .flat_map(|vnis| &vnis.remotes);
    for (vni, remote) in remotes {
        let counters = filter.0.get(vni, guard).filter(|_| counted);
        match runs.last_mut() {
            Some(run) if !counted && run.last + 1 == *vni && run.remote == *remote => {
                run.last = *vni;
            }
            _ => runs.push(Run {
                first: *vni,
                last: *vni,
                remote: *remote,
                counters: counters.map(Counters::values),
            }),
        }
    }
    Some(runs)
}

/// Serves RTM_NEWTUNNEL and RTM_DELTUNNEL (`vxlan_vnifilter_process`).
///
/// # Errors
/// Those of Linux with its texts. Identifiers before the one that failed stay changed.
pub fn process(ctl: &Ctl<'_>) -> Result<(), Error> {
    let request = ctl.message;
    let (message, _) = request.parse::<TunnelMsg>(&POLICY, Strictness::Strict)?;
    let device = ctl.ns.device(message.ifindex, ctl.guard);
    let device = device.ok_or(Error::new(errno::ENODEV))?;
    let vxlan = vxlan_in(device).ok_or(Error::msg(
        errno::EINVAL,
        "vxlan: The device is not a vxlan device",
    ))?;
    if vxlan.filter.is_none() {
        return Err(Error::new(errno::EOPNOTSUPP));
    }
    let net = vxlan.net.upgrade().ok_or(Error::new(errno::ENODEV))?;
    let underlay = socket::underlay(&net).ok_or(Error::new(errno::ENODEV))?;
    let conf = vxlan.config.load(ctl.guard);
    let site = Site {
        ctl,
        device,
        vxlan,
        net: &net,
        underlay,
        conf,
    };
    let deletes = request.header.ty == rtm::DELTUNNEL;
    let mut any = false;
    for attr in request.attrs::<TunnelMsg>() {
        if attr.ty == attr::ENTRY {
            any = true;
            site.process_entry(&attr, deletes)?;
        }
    }
    match any {
        true => Ok(()),
        false => Err(Error::msg(errno::EINVAL, "vxlan: No vnis found to process")),
    }
}

/// A device whose identifiers a request changes.
struct Site<'a> {
    ctl: &'a Ctl<'a>,
    device: &'a Arc<Device>,
    vxlan: &'a Arc<Vxlan>,
    net: &'a Arc<Namespace>,
    underlay: &'a Underlay,
    conf: &'a Config,
}

impl Site<'_> {
    /// `vxlan_process_vni_filter`
    fn process_entry(&self, attr: &Attr<'_>, deletes: bool) -> Result<(), Error> {
        let table = attr.parse(&ENTRY, Strictness::Strict)?;
        let first = table.u32(entry::START)?.unwrap_or(0);
        let last = table.u32(entry::END)?.unwrap_or(first);
        if (first, last) == (0, 0) {
            let text = "vni start nor end found in vni entry";
            return Err(Error::msg(errno::EINVAL, text).at(attr));
        }
        let remote: Option<IpAddr> = match table.get(entry::GROUP) {
            Some(group) => Some(group.ipv4()?.into()),
            None => table.ipv6(entry::GROUP6)?.map(IpAddr::from),
        };
        if remote.is_some_and(|remote| remote.is_multicast()) && self.conf.lower == 0 {
            return Err(Error::msg(
                errno::EINVAL,
                "Local interface required for multicast remote group",
            ));
        }
        let mut all = self.underlay.vnis.lock();
        for vni in first..=last {
            match deletes {
                true => self.delete(&mut all, vni)?,
                false => self.add(&mut all, vni, remote)?,
            }
        }
        Ok(())
    }

    fn at(&self) -> (&Stack, &Guard) {
        (self.ctl.stack, self.ctl.guard)
    }

    /// Returns what the packets of an identifier are known by, and who gets them.
    fn entries(&self, vni: u32) -> Vec<(Port, u32)> {
        socket::entries(self.conf, std::iter::once(vni))
    }

    fn notify(&self, ty: u16, vni: u32, remote: Option<IpAddr>) {
        announce(self.device, self.ctl.guard, ty, vni, remote);
    }

    /// `vxlan_vni_add`
    fn add(&self, all: &mut All, vni: u32, remote: Option<IpAddr>) -> Result<(), Error> {
        let vnis = all.entry(self.device.key).or_default();
        if vnis.remotes.contains_key(&vni) {
            if self.update(all, vni, remote)? {
                self.notify(rtm::NEWTUNNEL, vni, remote);
            }
            return Ok(());
        }
        let (tunnels, guard) = (&self.underlay.tunnels, self.ctl.guard);
        if socket::is_used(tunnels, self.conf, vni, Some(self.device), guard) {
            return Err(Error::msg(errno::EEXIST, "VNI in use"));
        }
        if vnis.remotes.len() >= MOST {
            return Err(Error::new(errno::E2BIG));
        }
        if self.device.is_dying() {
            return Err(Error::new(errno::ENODEV));
        }
        vnis.remotes.insert(vni, None);
        if let Some(filter) = &self.vxlan.filter {
            filter.0.insert(vni, Counters::default(), guard);
        }
        if vnis.open {
            tunnels.receive(&self.entries(vni), &receiver(self.vxlan, self.device));
        }
        let done = self.update(all, vni, remote);
        let remote = all.get(&self.device.key);
        let remote = remote.and_then(|vnis| *vnis.remotes.get(&vni)?);
        self.notify(rtm::NEWTUNNEL, vni, remote);
        done.map(|_| ())
    }

    /// Gives an identifier a remote, or none. Returns whether there is something to tell (`vxlan_vni_update_group`).
    fn update(&self, all: &mut All, vni: u32, remote: Option<IpAddr>) -> Result<bool, Error> {
        let Some(vnis) = all.get_mut(&self.device.key) else {
            return Ok(false);
        };
        let Some(place) = vnis.remotes.get_mut(&vni) else {
            return Ok(false);
        };
        let old = given(*place);
        let new = given(remote).or(given(Some(self.conf.remote)));
        let gone = old.filter(|_| new.is_none());
        if new.is_none() && gone.is_none() {
            return Ok(false);
        }
        self.vxlan
            .replace_default(self.ctl, self.device, self.conf, vni, (gone, new))?;
        *place = remote;
        if vnis.open {
            if let Some(old) = old {
                let own = (self.device, self.conf);
                group::leave(self.underlay.groups(), self.at(), self.net, own, all, old)?;
            }
            if let Some(remote) = remote {
                let joined = &self.underlay.joined;
                group::join(joined, self.at(), self.net, self.conf, remote)?;
            }
        }
        Ok(true)
    }

    /// `vxlan_vni_del`
    fn delete(&self, all: &mut All, vni: u32) -> Result<(), Error> {
        let vnis = all.get(&self.device.key);
        let found = vnis.and_then(|vnis| Some((vnis.open, *vnis.remotes.get(&vni)?)));
        let (open, remote) = found.ok_or(Error::new(errno::ENOENT))?;
        let default = given(remote).or(given(Some(self.conf.remote)));
        if default.is_some() {
            // It may have been deleted by hand.
            let _ =
                self.vxlan
                    .replace_default(self.ctl, self.device, self.conf, vni, (default, None));
        }
        if let Some(old) = given(remote).filter(|_| open) {
            let own = (self.device, self.conf);
            // Another identifier may have left it.
            let _ = group::leave(self.underlay.groups(), self.at(), self.net, own, all, old);
        }
        if let Some(vnis) = all.get_mut(&self.device.key) {
            vnis.remotes.remove(&vni);
        }
        let tunnels = &self.underlay.tunnels;
        tunnels.forget(&self.entries(vni), self.device.key);
        if let Some(filter) = &self.vxlan.filter {
            filter.0.remove(&vni, self.ctl.guard);
        }
        self.notify(rtm::DELTUNNEL, vni, remote);
        Ok(())
    }
}

/// Tells of an identifier (`vxlan_vnifilter_notify`).
fn announce(device: &Device, guard: &Guard, ty: u16, vni: u32, remote: Option<IpAddr>) {
    let ns = device.namespace(guard);
    crate::request::announce(ns, rtm::grp::TUNNEL, ty, |out| {
        out.fixed(&head(device));
        let run = Run {
            first: vni,
            last: vni,
            remote,
            counters: None,
        };
        run.fill(out);
    });
}

fn receiver(vxlan: &Arc<Vxlan>, device: &Device) -> Receiver<Vxlan> {
    Receiver {
        key: device.key,
        tunnel: vxlan.clone(),
    }
}

impl Vxlan {
    /// Replaces the remote for frames of an identifier without an entry, `(old, new)`, in the forwarding table
    /// (`vxlan_update_default_fdb_entry`).
    ///
    /// # Errors
    /// Those of adding an entry.
    fn replace_default(
        &self,
        ctl: &Ctl<'_>,
        device: &Arc<Device>,
        conf: &Config,
        vni: u32,
        (old, new): (Option<IpAddr>, Option<IpAddr>),
    ) -> Result<(), Error> {
        let site = self.site(ctl.stack, ctl.guard, device);
        let remote = |ip| Remote {
            ip,
            port: conf.dst_port,
            vni,
            ifindex: conf.lower,
        };
        if let Some(new) = new {
            let update = Update {
                mac: ALL_ZEROS,
                src_vni: vni,
                state: nud::REACHABLE | nud::PERMANENT,
                flags: u16::from(ntf::SELF),
                to: To::Remote(remote(new)),
            };
            site.update(&update, nlm::F_APPEND | nlm::F_CREATE)?;
        }
        if let Some(old) = old {
            // It may have been deleted by hand.
            let _ = site.delete(ALL_ZEROS, vni, &remote(old));
        }
        Ok(())
    }

    /// Gives the identifiers without a remote of their own the device's new one (`vxlan_vnilist_update_group`).
    ///
    /// # Errors
    /// Those of adding entries.
    pub(super) fn replace_defaults(
        &self,
        ctl: &Ctl<'_>,
        device: &Arc<Device>,
        underlay: &Underlay,
        (old, new): (&Config, IpAddr),
    ) -> Result<(), Error> {
        let all = underlay.vnis.lock();
        let vnis = all.get(&device.key);
        let remotes = vnis.into_iter().flat_map(|vnis| vnis.remotes.iter().rev());
        for (vni, _) in remotes.filter(|(_, remote)| given(**remote).is_none()) {
            let both = (given(Some(old.remote)), given(Some(new)));
            self.replace_default(ctl, device, old, *vni, both)?;
        }
        Ok(())
    }

    /// Forgets the identifiers of a device that goes (`vxlan_vnigroup_uninit`).
    pub(super) fn forget_vnis(&self, device: &Device, underlay: &Underlay, guard: &Guard) {
        let Some(filter) = &self.filter else {
            return;
        };
        let vnis = underlay.vnis.lock().remove(&device.key).unwrap_or_default();
        filter.0.clear(guard);
        for (vni, remote) in vnis.remotes {
            announce(device, guard, rtm::DELTUNNEL, vni, remote);
        }
    }

    /// Opens the ports of a device that goes up, gives it its packets, and joins its groups.
    ///
    /// # Errors
    /// Those of [`Tunnels::listen`](crate::tunnel::ports::Tunnels::listen) and of [`group::join`]. The ports are closed then.
    pub(super) fn listen(
        self: &Arc<Self>,
        at: (&Stack, &Guard),
        net: &Arc<Namespace>,
        underlay: &Underlay,
        device: &Arc<Device>,
    ) -> Result<(), Error> {
        let conf = self.config.load(at.1);
        let mut all = underlay.vnis.lock();
        let listener = socket::listener(conf, super::receive::receive);
        let ports = socket::ports(conf);
        underlay.tunnels.hold(net, &ports, device.key, listener)?;
        let vnis = self
            .filter
            .as_ref()
            .map(|_| all.entry(device.key).or_default());
        let known = vnis.as_ref().map(|vnis| vnis.remotes.keys().copied());
        let entries = socket::entries(conf, known.into_iter().flatten());
        underlay.tunnels.receive(&entries, &receiver(self, device));
        let joined = group::join_all(&underlay.joined, at, net, conf, vnis.as_deref());
        match (&joined, vnis) {
            (Ok(()), Some(vnis)) => vnis.open = true,
            (Ok(()), None) => {}
            (Err(_), _) => self.close_ports(at, net, underlay, device, &entries),
        }
        joined
    }

    /// Leaves the groups of a device that went down.
    pub(super) fn leave_groups(
        &self,
        at: (&Stack, &Guard),
        net: &Arc<Namespace>,
        underlay: &Underlay,
        device: &Arc<Device>,
    ) {
        let all = underlay.vnis.lock();
        let own = (device, self.config.load(at.1));
        // Linux ignores it as well.
        let _ = group::leave_all(underlay.groups(), at, net, own, &all);
    }

    /// Closes the ports of a device that went down.
    pub(super) fn close(
        &self,
        at: (&Stack, &Guard),
        net: &Arc<Namespace>,
        underlay: &Underlay,
        device: &Device,
    ) {
        let conf = self.config.load(at.1);
        let mut all = underlay.vnis.lock();
        let vnis = all.get_mut(&device.key);
        let known = vnis.map(|vnis| {
            vnis.open = false;
            vnis.remotes.keys().copied()
        });
        let entries = socket::entries(conf, known.into_iter().flatten());
        self.close_ports(at, net, underlay, device, &entries);
    }

    fn close_ports(
        &self,
        at: (&Stack, &Guard),
        net: &Arc<Namespace>,
        underlay: &Underlay,
        device: &Device,
        entries: &[(Port, u32)],
    ) {
        underlay.tunnels.forget(entries, device.key);
        let ports = socket::ports(self.config.load(at.1));
        underlay.tunnels.release(net, &ports, device.key);
        group::closed(&underlay.joined, at, net, &ports);
    }
}
