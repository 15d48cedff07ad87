// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `geneve`: Ethernet frames in UDP datagrams with options (RFC 8926, `drivers/net/geneve.c`).
//!
//! | attribute | meaning |
//! |---|---|
//! | `id` | network identifier, 24 bits |
//! | `remote` | outer destination, IPv4 or IPv6; frames from other sources are not received |
//! | `dstport` | UDP port for sending and listening, default 6081 |
//! | `ttl`, `tos`, `df`, `flowlabel` | fields of the outer header; ttl 0 means the route's; all but the label may be `inherit` |
//! | `[no]udpcsum`, `[no]udp6zerocsumtx`, `[no]udp6zerocsumrx` | UDP checksums, off over IPv4 and on over IPv6 by default |
//! | `external` | all identifiers: sends by each packet's tunnel metadata (`tunnel_key`), and sets it on receive, with options |
//!
//! | file | contents |
//! |---|---|
//! | [`config`] | attributes |
//! | [`socket`] | listening, and the device for each identifier and remote |
//! | [`send`], [`receive`] | encapsulation and decapsulation |
//!
//! The MTU is that of the route to the remote minus the headers. The underlay is the namespace in which the device was
//! created, even after the device moves.
//!
//! Rejected: `inner_proto_inherit`. Not implemented: errors about packets that do not fit the underlay
//! (`skb_tunnel_check_pmtu`).

pub mod config;
pub mod receive;
pub mod send;
pub mod socket;

use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, OnceLock, Weak};

use weir_netlink::{Attr, Error, LinkStats64, Writer, errno};
use weir_packet::Batch;
use weir_sync::once_box::OnceBox;
use weir_sync::rcu::{Guard, Published};

use self::config::Config;
use self::socket::Tunnels;
use crate::cpu::Cx;
use crate::device::{Device, NewDevice};
use crate::ethtool::{Driver, Link as LinkReport, LinkSettings};
use crate::features::{Offer, bit};
use crate::ipv4::route::Wanted;
use crate::layers::Module;
use crate::namespace::{Namespace, NsId};
use crate::request::Ctl;
use crate::stack::Stack;
use crate::tunnel::Errors;
use crate::tunnel::inner::Remembered;
use crate::tunnel::ports::Receiver;
use crate::{Kind, Link, NewLink, ethernet, ipv4, ipv6, register};

/// The `geneve` link kind.
pub static KIND: Kind = Kind {
    name: "geneve",
    pattern: "geneve%d",
    create: Ok(create),
    validate: None,
};

/// The smallest MTU in bytes.
const MIN_MTU: u32 = 68;
/// The largest MTU in bytes without the outer IP header (`IP_MAX_MTU - GENEVE_BASE_HLEN - ETH_HLEN`).
const MAX_MTU: u32 = 65_535 - 16 - 14;

/// The Geneve state of a device.
pub struct Geneve {
    /// The configuration. Requests change it one at a time.
    pub config: Published<Config>,
    /// The underlay namespace.
    pub net: Weak<Namespace>,
    errors: Errors,
    remembered: OnceLock<Remembered>,
    device: OnceLock<Weak<Device>>,
}

/// The `Link` implementation that the device owns.
struct Handle(Arc<Geneve>);

/// Geneve in the stack.
pub static MODULE: Module = Module {
    namespace: Some(|parts, _| parts.fill(&socket::TUNNELS, OnceBox::default())),
    above: Some(above),
    ..Module::NONE
};

/// The devices whose underlay is a namespace that is being deleted.
fn above(
    ns: &Namespace,
    device: Option<&Device>,
    _guard: &Guard,
    add: &mut dyn FnMut(Arc<Device>),
) {
    if device.is_none()
        && let Some(tunnels) = socket::tunnels(ns)
    {
        let all = tunnels.devices().into_iter();
        all.for_each(|(device, _)| add(device));
    }
}

/// Returns the largest MTU in bytes.
fn largest(conf: &Config) -> u32 {
    match conf.remote {
        IpAddr::V4(_) if !conf.external => MAX_MTU - 20,
        _ => MAX_MTU - 40,
    }
}

/// Returns the MTU that the route to the remote leaves, if there is one (`geneve_link_config`).
fn mtu_to(net: &Namespace, conf: &Config, guard: &Guard) -> Option<u32> {
    let left = match conf.remote {
        // The route to no address is the loopback's.
        IpAddr::V4(dst) if dst.is_unspecified() => net.device(1, guard)?.mtu().checked_sub(50)?,
        IpAddr::V4(dst) => {
            let wanted = Wanted {
                dst,
                src: None,
                tos: 0,
                mark: 0,
                proto: 0,
            };
            let route = ipv4::route::output_by(net, &wanted, 0, guard).ok()?;
            route.hop.device.mtu().checked_sub(50)?
        }
        IpAddr::V6(dst) => {
            let any = Ipv6Addr::UNSPECIFIED;
            let route = ipv6::output::route(net, any, dst, 0, guard).ok()?;
            route.device.mtu().checked_sub(70)?
        }
    };
    (left > 0).then(|| left.clamp(MIN_MTU, largest(conf)))
}

fn create(ctl: &mut Ctl<'_>, new: NewLink<'_>) -> Result<Arc<Device>, Error> {
    let out_of_bounds = match new.mtu {
        Some(mtu) if mtu < MIN_MTU => Some("mtu less than device minimum"),
        Some(mtu) if mtu > MAX_MTU => Some("mtu greater than device maximum"),
        _ => None,
    };
    if let Some(text) = out_of_bounds {
        return Err(Error::msg(errno::EINVAL, text));
    }
    let table = config::parse(new.data)?;
    let conf = config::config(&table, None)?;
    let net = new.link_ns.clone();
    if conf.external && !conf.is_plain() {
        return Err(Error::msg(
            errno::EINVAL,
            "Device is externally controlled, so attributes (VNI, Port, and so on) must not be specified",
        ));
    }
    let domain = &ctl.stack.domain;
    let tunnels = net.parts.get(&socket::TUNNELS);
    let tunnels = tunnels.get_or_make(|| Tunnels::new(domain));
    socket::check_unused(tunnels, &conf, ctl.guard)?;
    let mtu = match new.mtu {
        Some(mtu) => mtu.clamp(MIN_MTU, largest(&conf)),
        None => mtu_to(&net, &conf, ctl.guard).unwrap_or(1500),
    };
    let geneve = Arc::new(Geneve {
        config: Published::new(domain, conf),
        net: Arc::downgrade(&net),
        errors: Errors::default(),
        remembered: OnceLock::new(),
        device: OnceLock::new(),
    });
    let device = ethernet(Box::new(Handle(geneve.clone())), &new.ns, &new, 0);
    let device = NewDevice { mtu, ..device };
    let group = new.group.unwrap_or(0);
    let device = register(ctl.stack, &new.ns, device, new.ifindex, group)?;
    let set = geneve.device.set(Arc::downgrade(&device)).is_ok();
    debug_assert!(set, "the device is new");
    tunnels.enter(&device, &geneve);
    if net.is_closing() {
        crate::unregister(ctl.stack, &[device]);
        return Err(Error::new(errno::ENODEV));
    }
    Ok(device)
}

impl Geneve {
    fn remembered(&self) -> &Remembered {
        self.remembered
            .get_or_init(|| Remembered::new(self.config.domain()))
    }
}

impl Link for Handle {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn mtu_bounds(&self) -> (u32, u32) {
        let guard = self.0.config.domain().pin();
        (MIN_MTU, largest(self.0.config.load(&guard)))
    }

    fn features(&self) -> Offer {
        let changeable = bit::SG | bit::HW_CSUM | bit::FRAGLIST | bit::RXCSUM | bit::GSO_SOFTWARE;
        Offer {
            active: changeable | bit::LLTX,
            changeable,
            vlan: 0,
            off: 0,
        }
    }

    /// Each inner frame gets its own outer headers.
    fn takes_long_packets(&self) -> bool {
        false
    }

    fn driver(&self) -> Driver {
        Driver {
            info: Some(("geneve", "0.6", "")),
            link: LinkReport::Carrier,
            ..Driver::default()
        }
    }

    fn link_settings(&self) -> Option<LinkSettings> {
        None
    }

    fn open(&self, _stack: &Stack, _guard: &Guard, _device: &Arc<Device>) -> Result<(), Error> {
        let guard = self.0.config.domain().pin();
        let device = self.0.device.get().and_then(Weak::upgrade);
        let (Some(net), Some(device)) = (self.0.net.upgrade(), device) else {
            return Err(Error::new(errno::ENODEV));
        };
        let tunnels = socket::tunnels(&net).ok_or(Error::new(errno::ENODEV))?;
        let to = Receiver {
            key: device.key,
            tunnel: self.0.clone(),
        };
        let conf = self.0.config.load(&guard);
        tunnels.listen(
            &net,
            &socket::entries(conf),
            &to,
            socket::listener(conf, receive::receive),
        )
    }

    fn changed_state(&self, _stack: &Stack, guard: &Guard, device: &Arc<Device>) {
        if device.is_up() {
            return;
        }
        if let Some(net) = self.0.net.upgrade()
            && let Some(tunnels) = socket::tunnels(&net)
        {
            let entries = socket::entries(self.0.config.load(guard));
            tunnels.close(&net, &entries, device.key);
        }
    }

    fn transmit(&self, cx: &mut Cx<'_>, device: &Arc<Device>, batch: Batch) {
        send::transmit(&self.0, cx, device, batch);
    }

    fn counts_itself(&self) -> bool {
        true
    }

    fn add_stats(&self, stats: &mut LinkStats64) {
        self.0.errors.add_to(stats);
    }

    fn link_namespace(&self) -> Option<NsId> {
        Some(self.0.net.upgrade()?.id)
    }

    fn fill_data(&self, stack: &Stack, out: &mut Writer) {
        config::fill(self.0.config.load(&stack.domain.pin()), out);
    }

    fn change(
        &self,
        ctl: &mut Ctl<'_>,
        device: &Arc<Device>,
        data: Option<Attr<'_>>,
    ) -> Result<(), Error> {
        let geneve = &self.0;
        let old = geneve.config.load(ctl.guard);
        let table = config::parse(data)?;
        if old.external {
            return Err(Error::new(errno::EOPNOTSUPP));
        }
        let conf = config::config(&table, Some(old))?;
        let net = geneve.net.upgrade().ok_or(Error::new(errno::ENODEV))?;
        let tunnels = socket::tunnels(&net).ok_or(Error::new(errno::ENODEV))?;
        if conf.remote != old.remote {
            if let Some(mtu) = mtu_to(&net, &conf, ctl.guard) {
                device.set_mtu(mtu);
            }
            let to = Receiver {
                key: device.key,
                tunnel: geneve.clone(),
            };
            tunnels.moved(&socket::entries(old), &socket::entries(&conf), &to);
        }
        geneve.config.replace(conf);
        Ok(())
    }

    fn removed(&self, _stack: &Stack, _device: &Arc<Device>) {
        if let Some(net) = self.0.net.upgrade()
            && let Some(tunnels) = socket::tunnels(&net)
        {
            tunnels.leave(&self.0);
        }
    }
}
