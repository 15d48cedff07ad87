// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The register VIF of PIM (`ipmr_reg_vif`, `reg_vif_xmit`, `__pim_rcv`, and those of `ip6mr.c`): a device `pimreg` or
//! `pim6reg`, followed by the number of its table unless that is the one that every namespace has.
//!
//! Packets that leave by it go to the daemon as a whole, which sends them to the rendezvous point. What registers that
//! this host receives contain, the device receives. The device comes and goes with its VIF. A report has the right checksum of
//! a header whose options this host has filled in; Linux reports the old one.

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use weir_core::features::{Offer, bit};
use weir_core::kind::{InterfaceId, Link};
use weir_core::netdev;
use weir_netlink::errno;
use weir_netlink::ifla::{arphrd, iff};
use weir_packet::{Batch, DropReason, Packet, PacketType};
use weir_sync::rcu::Guard;

use super::{Family, Router, Vif, report, tables};
use crate::cpu::Cx;
use crate::device::{AddressOrigin, Device, NewDevice};
use crate::drops::Place;
use crate::fib::host::Host;
use crate::namespace::{Namespace, NsId};
use crate::protocols::scrub;
use crate::stack::Stack;

/// The length of the header of a register in bytes (`struct pimreghdr`).
pub const PIM: usize = 8;

/// Returns whether a header of PIM version 2 is that of a register with a packet.
pub(crate) fn is_pim_register(head: &[u8; PIM]) -> bool {
    // The version, the type; a flag for registers without a packet.
    head[0] == 2 << 4 | 1 && head[4] & 0x40 == 0
}

/// What such a device is made of.
struct Register<F> {
    ns: NsId,
    family: PhantomData<F>,
}

/// Makes the device of a table, which is up then.
///
/// # Errors
/// ENOBUFS if there is one of its name.
fn make<F: Family>(host: &Host<'_>, table: u32) -> Result<Arc<Device>, i32> {
    let name = match table == F::TABLE {
        true => F::REGISTER_NAME.to_owned(),
        false => format!("{}{table}", F::REGISTER_NAME),
    };
    let link = Register {
        ns: host.ns.id,
        family: PhantomData::<F>,
    };
    let new = NewDevice {
        link: Box::new(link),
        name,
        flags: iff::NOARP,
        mtu: F::REGISTER_MTU,
        txqlen: 1000,
        queues: (1, 1),
        address: [0; 6],
        address_origin: AddressOrigin::Permanent,
        broadcast: [0; 6],
    };
    let device = netdev::register(host.stack, host.ns, new, 0, 0).map_err(|_| errno::ENOBUFS)?;
    F::prepare(host, &device);
    if netdev::set_up(host.stack, host.guard, &device, true).is_err() {
        netdev::unregister(host.stack, &[device]);
        return Err(errno::ENOBUFS);
    }
    Ok(device)
}

impl<F: Family> Link for Register<F> {
    fn kind(&self) -> &'static str {
        ""
    }

    fn hardware_type(&self) -> u16 {
        arphrd::PIMREG
    }

    fn is_bare(&self) -> bool {
        true
    }

    fn hardware_addresses(&self) -> Option<(Vec<u8>, Vec<u8>)> {
        Some((Vec::new(), Vec::new()))
    }

    fn interface_id(&self) -> InterfaceId {
        InterfaceId::None
    }

    fn has_group_route(&self) -> bool {
        false
    }

    fn mtu_bounds(&self) -> (u32, u32) {
        (0, 0)
    }

    fn features(&self) -> Offer {
        Offer {
            active: bit::NETNS_LOCAL,
            ..Offer::default()
        }
    }

    fn polls(&self) -> bool {
        false
    }

    fn has_filter(&self) -> bool {
        false
    }

    fn lower(&self, _stack: &Stack) -> Option<(NsId, u32)> {
        Some((self.ns, 0))
    }

    fn may_move(&self) -> bool {
        false
    }

    fn counts_itself(&self) -> bool {
        true
    }

    fn transmit(&self, cx: &mut Cx<'_>, device: &Arc<Device>, batch: Batch) {
        let ns = device.namespace(cx.guard);
        for packet in batch {
            match tables::of_sent::<F>(ns, device, &packet, cx.guard) {
                Ok(router) => {
                    count_sent(cx, device, &packet);
                    if let Some(router) = router {
                        router.report_whole(cx, (device, ns), &packet);
                    }
                    cx.consume(packet);
                }
                Err(_) => cx.drop(device, Place::Transmit, DropReason::NOT_SPECIFIED, packet),
            }
        }
    }
}

fn count_sent(cx: &Cx<'_>, device: &Device, packet: &Packet) {
    let stats = device.stats(cx.state.id);
    stats.count_sent(1, packet.len() as u64);
}

impl<F: Family> Router<F> {
    /// Makes the register device of the table.
    ///
    /// # Errors
    /// ENOBUFS if there is a device of its name.
    pub(crate) fn make_register(&self, host: &Host<'_>) -> Result<Arc<Device>, i32> {
        make::<F>(host, self.id())
    }

    /// Reports a packet as a whole (`IGMPMSG_WHOLEPKT`, `MRT6MSG_WHOLEPKT`).
    fn report_whole(
        &self,
        cx: &Cx<'_>,
        (device, ns): (&Arc<Device>, &Arc<Namespace>),
        packet: &Packet,
    ) {
        let register = self.vifs(cx.guard).register();
        let vif = register.map_or(u16::MAX, |vif| vif.number.into());
        let state = self.lock();
        self.tell_daemon(cx, (device, ns), &state, packet, (report::WHOLE, vif));
    }

    /// Sends a packet, which `device` received, by the register VIF.
    pub(super) fn register(
        &self,
        cx: &Cx<'_>,
        (device, ns): (&Arc<Device>, &Arc<Namespace>),
        vif: &Vif<F>,
        packet: Packet,
    ) {
        vif.count_sent(packet.len());
        count_sent(cx, &vif.device, &packet);
        self.report_whole(cx, (device, ns), &packet);
        cx.consume(packet);
    }
}

/// Has the register device receive what a message to this host contains, from `at` on. Returns the packet if there is no such
/// device.
pub(crate) fn decapsulate<F: Family>(
    cx: &mut Cx<'_>,
    (device, ns): (&Arc<Device>, &Arc<Namespace>),
    mut packet: Packet,
    at: usize,
) -> Option<Packet> {
    let router = tables::of_packet::<F>(ns, device, &packet, cx.guard);
    let Some(to) = router
        .ok()
        .flatten()
        .and_then(|router| device_of(router, cx.guard))
    else {
        return Some(packet);
    };
    if !packet.pull(at) {
        return Some(packet);
    }
    let stats = to.stats(cx.state.id);
    stats.rx_packets.fetch_add(1, Relaxed);
    stats.rx_bytes.fetch_add(packet.len() as u64, Relaxed);
    scrub(cx, &mut packet, false);
    packet.set_pkt_type(PacketType::Host);
    packet.protocol = F::ETHERTYPE;
    cx.receive_later(to, Batch::from(packet));
    None
}

fn device_of<'g, F: Family>(router: &'g Router<F>, guard: &'g Guard) -> Option<&'g Arc<Device>> {
    Some(&router.vifs(guard).register()?.device)
}
