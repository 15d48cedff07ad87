// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `nlmon`: shows the netlink messages of its namespace to packet sockets (`drivers/net/nlmon.c`,
//! `netlink_deliver_tap` of `net/netlink/af_netlink.c`). It has no parameters.
//!
//! While the device is up, it sends a copy of each datagram that a program sends to the stack or gets from it: requests,
//! answers, and notifications once for each socket that hears them. A packet begins with the netlink header, and its
//! protocol is that of the socket (`NETLINK_ROUTE` and so on). The device is of type `ARPHRD_NETLINK`, so libpcap
//! and `weir capture` write `DLT_NETLINK`: 16 bytes of a cooked header before each datagram. The device counts the copies as received
//! and discards them.
//!
//! Acknowledgements of several requests in one datagram appear one by one, as Linux sends them, though the program
//! gets them together.
//!
//! Requests are served on threads of their own, and packets leave on a CPU. A copy waits for the CPU as a posted job.
//! When [`WAITING`] bytes wait, further copies are dropped and counted in `rx_dropped`; Linux, which copies on the
//! caller's CPU, has no such queue. The owner of the stack runs a CPU before it serves the next call if [`waits`]. A
//! datagram longer than a frame ([`weir_packet::packet::JUMBO_DATA`]) is dropped too. The request that sets the device
//! down is not shown, since its copy has not left by then.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};

use weir_netlink::ifla::{self, arphrd, iff};
use weir_netlink::{Error, LinkStats64, Table, errno, messages, nlm};
use weir_packet::{Batch, PacketType};
use weir_sync::order::{self, Mutex};
use weir_sync::rcu::Guard;

use crate::cpu::Cx;
use crate::device::{AddressOrigin, Device, Mac, NewDevice};
use crate::ethtool::{Driver, Link as LinkReport};
use crate::features::{Offer, bit};
use crate::kind::InterfaceId;
use crate::layers::Module;
use crate::namespace::{Namespace, NsId};
use crate::notify::Tap;
use crate::parts::Key;
use crate::request::Ctl;
use crate::stack::Stack;
use crate::{Kind, Link, NewLink, register};

/// The `nlmon` link kind.
pub static KIND: Kind = Kind {
    name: "nlmon",
    pattern: "nlmon%d",
    create: Ok(create),
    validate: Some(validate),
};

/// The default MTU in bytes: what a netlink message of one page holds (`NLMSG_GOODSIZE`).
const MTU: u32 = 3_776;
/// The smallest MTU in bytes, the length of `struct nlmsghdr`.
const SMALLEST: u32 = 16;
/// The most bytes of datagrams that wait for a CPU.
pub const WAITING: usize = 4 << 20;

/// The devices of a stack that are up.
#[derive(Default)]
struct Taps {
    up: Arc<AtomicUsize>,
    devices: Mutex<Vec<Arc<Device>>, order::NetlinkTaps>,
    /// The bytes of datagrams that wait for a CPU.
    waiting: AtomicUsize,
}

static TAPS: Key<Taps, 10> = Key::new();

/// The devices that watch netlink.
pub static MODULE: Module = Module {
    stack: Some(|parts| parts.fill(&TAPS, Taps::default())),
    ..Module::NONE
};

impl Taps {
    fn change(&self, change: impl FnOnce(&mut Vec<Arc<Device>>)) {
        let mut devices = self.devices.lock();
        change(&mut devices);
        self.up.store(devices.len(), Relaxed);
    }
}

/// Returns what a netlink socket of a namespace calls for each datagram; `protocol` is `NETLINK_*`.
pub fn tap(stack: &Stack, ns: &Namespace, protocol: u16) -> Tap {
    let (stack, ns) = (stack.clone(), ns.id);
    Tap {
        watched: stack.parts.get(&TAPS).up.clone(),
        show: Box::new(move |datagram| show(&stack, ns, protocol, datagram)),
    }
}

/// Returns whether a copy waits for a CPU.
pub fn waits(stack: &Stack) -> bool {
    stack.parts.get(&TAPS).waiting.load(Acquire) > 0
}

/// Sends a datagram by the devices of a namespace. Several acknowledgements are sent one by one.
#[cold]
fn show(stack: &Stack, ns: NsId, protocol: u16, datagram: &[u8]) {
    let taps = stack.parts.get(&TAPS);
    let devices: Vec<_> = {
        let guard = stack.domain.pin();
        let devices = taps.devices.lock();
        let here = devices.iter();
        let here = here.filter(|device| device.is_up() && device.namespace(&guard).id == ns);
        here.cloned().collect()
    };
    for device in devices {
        let acknowledges = |m: &weir_netlink::Message<'_>| m.header.ty == nlm::ERROR;
        if messages(datagram).next().is_some_and(|m| acknowledges(&m)) {
            for message in messages(datagram) {
                copy(stack, taps, &device, protocol, message.bytes);
            }
        } else {
            copy(stack, taps, &device, protocol, datagram);
        }
    }
}

/// Has a CPU send a copy.
fn copy(stack: &Stack, taps: &Taps, device: &Arc<Device>, protocol: u16, datagram: &[u8]) {
    let waiting = taps.waiting.fetch_add(datagram.len(), Relaxed);
    if waiting + datagram.len() > WAITING {
        taps.waiting.fetch_sub(datagram.len(), Relaxed);
        lost(device);
        return;
    }
    let (device, datagram) = (device.clone(), datagram.to_vec());
    stack.post(Box::new(move |cx| {
        send(cx, &device, protocol, &datagram);
        // Last: who finds that no copy waits finds it counted.
        let taps = cx.stack.parts.get(&TAPS);
        taps.waiting.fetch_sub(datagram.len(), Release);
    }));
}

/// Sends a copy.
fn send(cx: &mut Cx<'_>, device: &Arc<Device>, protocol: u16, datagram: &[u8]) {
    let Some(mut packet) = cx.stack.pool.packet(datagram) else {
        return lost(device);
    };
    packet.protocol = protocol;
    packet.reset_mac();
    packet.set_network(0);
    packet.set_pkt_type(PacketType::Outgoing);
    packet.time = cx.now;
    packet.dev = device.key.0;
    let mut batch = Batch::new();
    // There is room: the batch is new.
    let _ = batch.push(packet);
    cx.transmit(device, batch);
}

/// Counts a copy that is not sent.
fn lost(device: &Device) {
    let link = device.link.as_any();
    if let Some(nlmon) = link.and_then(|link| link.downcast_ref::<Nlmon>()) {
        nlmon.lost.fetch_add(1, Relaxed);
    }
}

fn validate(attrs: &Table<'_>) -> Result<(), Error> {
    match attrs.get(ifla::ADDRESS) {
        Some(_) => Err(Error::new(errno::EINVAL)),
        None => Ok(()),
    }
}

fn create(ctl: &mut Ctl<'_>, new: NewLink<'_>) -> Result<Arc<Device>, Error> {
    let device = NewDevice {
        link: Box::new(Nlmon::default()),
        name: new.name.clone(),
        flags: iff::NOARP,
        mtu: new.mtu.unwrap_or(MTU),
        txqlen: new.txqlen.unwrap_or(1000),
        queues: (new.queues.0.unwrap_or(1), new.queues.1.unwrap_or(1)),
        address: [0; 6],
        address_origin: AddressOrigin::Permanent,
        broadcast: [0; 6],
    };
    register(
        ctl.stack,
        &new.ns,
        device,
        new.ifindex,
        new.group.unwrap_or(0),
    )
}

#[derive(Default)]
struct Nlmon {
    /// The copies that were not sent.
    lost: AtomicU64,
}

impl Link for Nlmon {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn hardware_type(&self) -> u16 {
        arphrd::NETLINK
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

    fn check_address(&self, _mac: &Mac) -> Result<(), Error> {
        Err(Error::new(errno::EOPNOTSUPP))
    }

    fn mtu_bounds(&self) -> (u32, u32) {
        (SMALLEST, 0)
    }

    fn features(&self) -> Offer {
        Offer {
            active: bit::SG | bit::FRAGLIST | bit::HIGHDMA | bit::LLTX,
            ..Offer::default()
        }
    }

    fn driver(&self) -> Driver {
        Driver {
            link: LinkReport::Always,
            ..Driver::default()
        }
    }

    fn polls(&self) -> bool {
        false
    }

    fn has_filter(&self) -> bool {
        false
    }

    fn open(&self, stack: &Stack, _guard: &Guard, device: &Arc<Device>) -> Result<(), Error> {
        let device = device.clone();
        stack
            .parts
            .get(&TAPS)
            .change(|devices| devices.push(device));
        Ok(())
    }

    fn changed_state(&self, stack: &Stack, _guard: &Guard, device: &Arc<Device>) {
        if !device.is_up() {
            self.removed(stack, device);
        }
    }

    fn removed(&self, stack: &Stack, device: &Arc<Device>) {
        let taps = stack.parts.get(&TAPS);
        taps.change(|devices| devices.retain(|other| !Arc::ptr_eq(other, device)));
    }

    fn counts_itself(&self) -> bool {
        true
    }

    fn add_stats(&self, stats: &mut LinkStats64) {
        stats.rx_dropped += self.lost.load(Relaxed);
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }

    fn transmit(&self, cx: &mut Cx<'_>, device: &Arc<Device>, batch: Batch) {
        let stats = device.stats(cx.state.id);
        let octets: usize = batch.iter().map(|packet| packet.len()).sum();
        stats.rx_packets.fetch_add(batch.len() as u64, Relaxed);
        stats.rx_bytes.fetch_add(octets as u64, Relaxed);
        cx.consume_batch(batch);
    }
}
