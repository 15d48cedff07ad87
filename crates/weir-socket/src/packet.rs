// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packet sockets (`net/packet/af_packet.c`): the frames of one device, or of all of a namespace, with their link-layer
//! header (SOCK_RAW) or without it (SOCK_DGRAM), and frames to be sent.
//!
//! A socket for all protocols (`ETH_P_ALL`) sees received and sent frames, one for an EtherType only received ones, and
//! protocol 0 none. Frames that a socket sends are not shown to it, except those that a qdisc sends later. A frame's
//! VLAN tag is in its metadata, as with an accelerating device: `PACKET_AUXDATA` tells it.
//!
//! A socket with a ring ([`crate::ring`]) puts frames there and nowhere else.
//!
//! Not served, with the errno of a kernel without it: `PACKET_TX_RING`, fanout, `PACKET_VNET_HDR`, `SOCK_PACKET`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use weir_core::device::{Direction, Observer, Tap as Frame};
use weir_core::layers::{Event, Site};
use weir_core::{netdev, raw};
use weir_netlink::errno;
use weir_netlink::ifla::iff;
use weir_packet::bpf::{Program, Seen};
use weir_packet::header::Ethernet;
use weir_packet::header::ethernet::ethernet;
use weir_packet::{Batch, PacketType};
use weir_sync::order::{self, Mutex};

use crate::abi::{AF_PACKET, SOCK_DGRAM, SOCK_RAW, SOL_PACKET};
use crate::address::family;
use crate::control::Messages;
use crate::cpu::Cx;
use crate::device::Device;
use crate::namespace::NsId;
use crate::options::{Options, int, of_int, word};
use crate::ports::{tables, tables_made};
use crate::receive;
use crate::ring::{Entry, HEADER, Request, Ring};
use crate::socket::{Proto, Socket};
use crate::{Message, Outgoing, User};

const ETH_P_ALL: u16 = 3;
/// The length of `struct sockaddr_ll` in bytes.
const ADDRESS: usize = 20;
/// Where its `sll_addr` begins.
const BEFORE_ADDRESS: usize = 12;
const ETHERNET: usize = 6;

/// `PACKET_*`
mod option {
    pub const ADD_MEMBERSHIP: i32 = 1;
    pub const DROP_MEMBERSHIP: i32 = 2;
    pub const RX_RING: i32 = 5;
    pub const STATISTICS: i32 = 6;
    pub const AUXDATA: i32 = 8;
    pub const ORIGDEV: i32 = 9;
    pub const VERSION: i32 = 10;
    pub const HDRLEN: i32 = 11;
    pub const RESERVE: i32 = 12;
    pub const TIMESTAMP: i32 = 17;
    pub const IGNORE_OUTGOING: i32 = 23;
    pub const QDISC_BYPASS: i32 = 20;
}

/// `PACKET_MR_*`
mod membership {
    pub const MULTICAST: u16 = 0;
    pub const PROMISC: u16 = 1;
    pub const ALLMULTI: u16 = 2;
    pub const UNICAST: u16 = 3;
}

/// `TPACKET_V1` and `TPACKET_V2`
const VERSIONS: [i32; 2] = [0, 1];

/// What a socket selects, and what it has seen.
#[derive(Debug, Clone)]
struct Selection {
    /// The EtherType, `ETH_P_ALL`, or 0 for nothing.
    protocol: u16,
    filter: Option<Arc<Program>>,
    options: Options,
    auxdata: bool,
    ignore_outgoing: bool,
    /// The wall-clock time at which the stack's clock began.
    epoch: u64,
    /// `tp_packets` and `tp_drops`.
    seen: (u32, u32),
    /// All drops since the socket was opened.
    drops: u32,
    has_ring: bool,
}

/// The receive ring, and what is to be said before it exists.
#[derive(Debug, Default)]
struct Mapped {
    ring: Option<Ring>,
    version: i32,
    reserve: usize,
    timestamp: i32,
}

/// The observer that a socket has at its devices.
struct Tap {
    user: Arc<dyn User>,
    namespace: u64,
    cooked: bool,
    /// The socket sends a frame at the moment.
    sending: AtomicBool,
    selection: Mutex<Selection, order::PacketTap>,
    mapped: Mutex<Mapped, order::PacketRing>,
}

/// The devices of a socket, guarded by a lock of their own.
#[derive(Debug, Default)]
struct Place {
    /// The index of the device; 0 for all, -1 for one that is gone.
    ifindex: i32,
    /// The device that the observer is at; `None` with `all` for the whole stack.
    device: Option<Arc<Device>>,
    all: bool,
    /// Memberships as (ifindex, type, address, count).
    members: Vec<(u32, u16, Vec<u8>, u32)>,
}

/// The packet part of a socket.
pub struct Packet {
    tap: std::sync::OnceLock<Arc<Tap>>,
    place: Mutex<Place, order::SocketTaps>,
    first: u16,
    cooked: bool,
}

impl Packet {
    /// Makes the part of a new socket. `protocol` is in network byte order, as `socket` takes it.
    ///
    /// # Errors
    /// ESOCKTNOSUPPORT for another kind.
    pub fn new(kind: i32, protocol: i32) -> Result<Self, i32> {
        if !matches!(kind, SOCK_RAW | SOCK_DGRAM) {
            return Err(errno::ESOCKTNOSUPPORT);
        }
        Ok(Self {
            tap: std::sync::OnceLock::new(),
            place: Mutex::default(),
            first: u16::from_be(protocol as u16),
            cooked: kind == SOCK_DGRAM,
        })
    }

    fn tap(&self) -> Option<&Arc<Tap>> {
        self.tap.get()
    }

    fn select<R>(&self, change: impl FnOnce(&mut Selection) -> R) -> Option<R> {
        Some(change(&mut self.tap()?.selection.lock()))
    }

    /// Returns whether the program has a frame of the ring to read.
    pub fn is_readable(&self) -> bool {
        let mapped = self.tap().map(|tap| tap.mapped.lock());
        mapped.is_some_and(|mapped| mapped.ring.as_ref().is_some_and(Ring::is_readable))
    }

    /// Sets an option about the ring.
    ///
    /// # Errors
    /// EINVAL, EBUSY if there is a ring, ENOMEM.
    fn set_ring_option(&self, socket: &Socket, name: i32, value: &[u8]) -> Result<(), i32> {
        let Some(tap) = self.tap() else {
            return Err(errno::EINVAL);
        };
        let mut mapped = tap.mapped.lock();
        if name != option::RX_RING {
            let val = int(value)?;
            if name != option::TIMESTAMP && mapped.ring.is_some() {
                return Err(errno::EBUSY);
            }
            match name {
                option::VERSION if VERSIONS.contains(&val) => mapped.version = val,
                option::RESERVE if val >= 0 => mapped.reserve = val as usize,
                option::TIMESTAMP => mapped.timestamp = val,
                _ => return Err(errno::EINVAL),
            }
            return Ok(());
        }
        let reserve = mapped.reserve;
        let Some(request) = Request::parse(value, reserve)? else {
            mapped.ring = None;
            self.select(|selection| selection.has_ring = false);
            socket.user().memory(0);
            return Ok(());
        };
        if mapped.version != VERSIONS[1] {
            return Err(errno::EINVAL);
        }
        if mapped.ring.is_some() {
            return Err(errno::EBUSY);
        }
        let memory = socket.user().memory(request.length());
        let memory = memory.ok_or(errno::ENOMEM)?;
        mapped.ring = Some(Ring::new(request, reserve, memory));
        self.select(|selection| selection.has_ring = true);
        Ok(())
    }

    /// Takes the observer from where it is.
    fn unhook(&self, cx: &Cx<'_>) {
        let (device, all) = {
            let mut place = self.place.lock();
            (place.device.take(), std::mem::take(&mut place.all))
        };
        let Some(tap) = self.tap() else { return };
        let observer: Arc<dyn Observer> = tap.clone();
        if let Some(device) = device {
            device.unobserve(cx.guard, &observer);
        }
        if all {
            cx.stack.unobserve(&observer);
        }
    }

    /// Puts the observer at a device, or at all if the index is 0 (`packet_do_bind`).
    ///
    /// # Errors
    /// ENODEV.
    fn hook(
        &self,
        socket: &Socket,
        cx: &mut Cx<'_>,
        ifindex: u32,
        protocol: u16,
    ) -> Result<(), i32> {
        let device = match ifindex {
            0 => None,
            index => Some(socket.ns().device(index, cx.guard).ok_or(errno::ENODEV)?),
        };
        self.unhook(cx);
        self.select(|selection| selection.protocol = protocol);
        self.place.lock().ifindex = ifindex as i32;
        let Some(tap) = self.tap() else { return Ok(()) };
        let observer: Arc<dyn Observer> = tap.clone();
        match device {
            _ if protocol == 0 => {}
            None => {
                cx.stack.observe(observer);
                self.place.lock().all = true;
            }
            Some(device) if device.is_up() => {
                device.observe(cx.guard, observer);
                self.place.lock().device = Some(device.clone());
            }
            Some(_) => socket.fail(cx, errno::ENETDOWN),
        }
        Ok(())
    }

    /// Binds the socket to a device and a protocol.
    ///
    /// # Errors
    /// EINVAL, ENODEV.
    pub fn bind(&self, socket: &Socket, cx: &mut Cx<'_>, address: &[u8]) -> Result<(), i32> {
        if address.len() < ADDRESS || family(address) != Some(AF_PACKET) {
            return Err(errno::EINVAL);
        }
        let protocol = be16(address, 2);
        let ifindex = word(address, 4).unwrap_or(0);
        let own = self.select(|selection| selection.protocol).unwrap_or(0);
        let protocol = if protocol == 0 { own } else { protocol };
        self.hook(socket, cx, ifindex, protocol)
    }

    /// Sends a frame (`packet_snd`).
    ///
    /// # Errors
    /// EINVAL, ENXIO without a device, ENETDOWN, EMSGSIZE, ENOBUFS, or the pending error.
    pub fn send(
        &self,
        socket: &Socket,
        cx: &mut Cx<'_>,
        message: &Outgoing<'_>,
    ) -> Result<usize, i32> {
        let to = message.to;
        let own = self.select(|selection| selection.protocol).unwrap_or(0);
        let (ifindex, protocol, address) = match to.len() {
            0 => (self.place.lock().ifindex, own, None),
            1..ADDRESS => return Err(errno::EINVAL),
            _ => {
                let length = usize::from(to.get(11).copied().unwrap_or(0));
                if family(to) != Some(AF_PACKET) && family(to).is_some_and(|f| f != 0) {
                    return Err(errno::EINVAL);
                }
                let end = BEFORE_ADDRESS + length;
                let address = to.get(BEFORE_ADDRESS..end).ok_or(errno::EINVAL)?;
                let index = word(to, 4).unwrap_or(0) as i32;
                (index, be16(to, 2), Some(address))
            }
        };
        let index = u32::try_from(ifindex).unwrap_or(0);
        let ns = socket.ns();
        let device = ns.device(index, cx.guard).ok_or(errno::ENXIO)?.clone();
        if !device.is_up() {
            return Err(errno::ENETDOWN);
        }
        match std::mem::take(&mut socket.state().error) {
            0 => {}
            error => return Err(error),
        }
        let built;
        let frame = match (self.cooked, device.is_bare()) {
            (false, false) => message.data,
            // Frames from outside have an Ethernet header, which a bare device takes off.
            (_, true) => {
                built = [&ethernet([0; 6], [0; 6], protocol)[..], message.data].concat();
                &built[..]
            }
            (true, false) => {
                let to: &[u8; ETHERNET] = address
                    .and_then(|address| address.first_chunk())
                    .ok_or(errno::EINVAL)?;
                built = [&ethernet(*to, device.address(), protocol)[..], message.data].concat();
                &built[..]
            }
        };
        let mut packet = raw::frame(cx, &device, frame)?;
        let options = socket.state().options.clone();
        (packet.mark, packet.priority) = (options.mark, options.priority);
        let mut batch = Batch::new();
        // There is room: the batch is new.
        let _ = batch.push(packet);
        let tap = self.tap().cloned();
        if let Some(tap) = &tap {
            tap.sending.store(true, Relaxed);
        }
        cx.transmit(&device, batch);
        if let Some(tap) = &tap {
            tap.sending.store(false, Relaxed);
        }
        Ok(message.data.len())
    }

    /// Returns the bytes of a `sockaddr_ll` (`packet_getname`).
    pub fn local_address(&self, socket: &Socket) -> Vec<u8> {
        let ifindex = self.place.lock().ifindex;
        let protocol = self.select(|selection| selection.protocol).unwrap_or(0);
        let guard = socket.domain().pin();
        let index = u32::try_from(ifindex).unwrap_or(0);
        let device = socket.ns().device(index, &guard);
        let mut bytes = sockaddr(protocol, ifindex, 0, 0, None);
        if let Some(device) = device {
            let hardware = device.link.hardware_type();
            bytes = sockaddr(protocol, ifindex, hardware, 0, Some(device.address()));
        }
        let len = if device.is_some() {
            BEFORE_ADDRESS + ETHERNET
        } else {
            BEFORE_ADDRESS
        };
        bytes.get(..len).unwrap_or_default().to_vec()
    }

    /// Sets an option of `SOL_PACKET`.
    ///
    /// # Errors
    /// ENOPROTOOPT, EINVAL, ENODEV.
    pub fn set_option(
        &self,
        socket: &Socket,
        cx: &mut Cx<'_>,
        name: i32,
        value: &[u8],
    ) -> Result<(), i32> {
        match name {
            option::ADD_MEMBERSHIP | option::DROP_MEMBERSHIP => {
                self.membership(socket, cx, name == option::ADD_MEMBERSHIP, value)
            }
            option::AUXDATA | option::IGNORE_OUTGOING | option::ORIGDEV | option::QDISC_BYPASS => {
                let on = int(value)?;
                if name == option::IGNORE_OUTGOING && !(0..=1).contains(&on) {
                    return Err(errno::EINVAL);
                }
                self.select(|selection| match name {
                    option::AUXDATA => selection.auxdata = on != 0,
                    option::IGNORE_OUTGOING => selection.ignore_outgoing = on != 0,
                    _ => {}
                });
                Ok(())
            }
            option::RX_RING | option::VERSION | option::RESERVE | option::TIMESTAMP => {
                self.set_ring_option(socket, name, value)
            }
            _ => Err(errno::ENOPROTOOPT),
        }
    }

    /// Has a device receive more frames while the socket is open (`packet_mc_add`, `packet_mc_drop`).
    fn membership(
        &self,
        socket: &Socket,
        cx: &mut Cx<'_>,
        add: bool,
        value: &[u8],
    ) -> Result<(), i32> {
        // struct packet_mreq: index, type, length, address.
        let head = value.first_chunk::<16>().ok_or(errno::EINVAL)?;
        let index = word(head, 0).unwrap_or(0);
        let ty = u16::from_ne_bytes([head[4], head[5]]);
        let length = usize::from(u16::from_ne_bytes([head[6], head[7]]));
        if value.len() < 8 + length {
            return Err(errno::EINVAL);
        }
        let address = value.get(8..8 + length).unwrap_or_default().to_vec();
        let ns = socket.ns();
        let device = ns.device(index, cx.guard).cloned();
        if add && device.is_none() {
            return Err(errno::ENODEV);
        }
        if add && length > 32 {
            return Err(errno::EINVAL);
        }
        let first_or_last = {
            let mut place = self.place.lock();
            let same = |one: &&mut (u32, u16, Vec<u8>, u32)| {
                (one.0, one.1) == (index, ty) && one.2 == address
            };
            match (add, place.members.iter_mut().find(same)) {
                (true, Some(member)) => {
                    member.3 += 1;
                    false
                }
                (true, None) => {
                    place.members.push((index, ty, address.clone(), 1));
                    true
                }
                (false, Some(member)) if member.3 > 1 => {
                    member.3 -= 1;
                    false
                }
                (false, Some(_)) => {
                    let other = |one: &(u32, u16, Vec<u8>, u32)| {
                        (one.0, one.1) != (index, ty) || one.2 != address
                    };
                    place.members.retain(other);
                    true
                }
                (false, None) => false,
            }
        };
        if first_or_last && let Some(device) = device {
            accept(cx, &device, ty, &address, add)?;
        }
        Ok(())
    }

    /// Returns an option of `SOL_PACKET`. For `PACKET_HDRLEN`, `room` has the version.
    ///
    /// # Errors
    /// ENOPROTOOPT, EINVAL.
    pub fn option(&self, name: i32, room: &[u8]) -> Result<Vec<u8>, i32> {
        let mapped = |get: fn(&Mapped) -> i32| {
            let value = self.tap().map(|tap| get(&tap.mapped.lock()));
            Ok(of_int(value.unwrap_or(0)))
        };
        let on = |on: bool| Ok(of_int(on.into()));
        match name {
            // Reading resets them.
            option::STATISTICS => {
                let seen = self.select(|selection| std::mem::take(&mut selection.seen));
                let (packets, drops) = seen.unwrap_or_default();
                let all = packets.wrapping_add(drops);
                Ok([all.to_ne_bytes(), drops.to_ne_bytes()].concat())
            }
            option::AUXDATA => on(self.select(|selection| selection.auxdata) == Some(true)),
            option::IGNORE_OUTGOING => {
                on(self.select(|selection| selection.ignore_outgoing) == Some(true))
            }
            option::ORIGDEV | option::QDISC_BYPASS => on(false),
            option::HDRLEN if VERSIONS.contains(&int(room)?) => Ok(of_int(HEADER as i32)),
            option::HDRLEN => Err(errno::EINVAL),
            option::VERSION => mapped(|mapped| mapped.version),
            option::RESERVE => mapped(|mapped| mapped.reserve as i32),
            option::TIMESTAMP => mapped(|mapped| mapped.timestamp),
            _ => Err(errno::ENOPROTOOPT),
        }
    }

    /// Takes over what the options of `SOL_SOCKET` say.
    pub fn options_changed(&self, options: Options, filter: Option<Arc<Program>>) {
        self.select(|selection| {
            selection.options = options;
            selection.filter = filter;
        });
    }

    /// Returns the index of the device, the protocol, and whether the socket sees frames, for `/proc/net/packet`.
    pub fn shown(&self) -> (i32, u16, bool) {
        let (ifindex, running) = {
            let place = self.place.lock();
            (place.ifindex, place.all || place.device.is_some())
        };
        let protocol = self.select(|selection| selection.protocol).unwrap_or(0);
        (ifindex, protocol, running)
    }

    /// Ends the socket's observing and its memberships.
    pub fn close(&self, socket: &Socket, cx: &mut Cx<'_>) {
        self.unhook(cx);
        let members = std::mem::take(&mut self.place.lock().members);
        for (index, ty, address, _) in members {
            if let Some(device) = socket.ns().device(index, cx.guard).cloned() {
                // What was accepted may be given back.
                let _ = accept(cx, &device, ty, &address, false);
            }
        }
        tables(socket.ns()).packet_sockets(-1);
    }
}

/// Has a device receive frames of a kind, or no more (`packet_dev_mc`).
fn accept(
    cx: &Cx<'_>,
    device: &Arc<Device>,
    ty: u16,
    address: &[u8],
    more: bool,
) -> Result<(), i32> {
    use weir_core::taken::{Reference, add_group, remove_group};
    let flag = match ty {
        membership::PROMISC => iff::PROMISC,
        membership::ALLMULTI => iff::ALLMULTI,
        membership::MULTICAST => {
            let mac = *address.first_chunk().ok_or(errno::EINVAL)?;
            let changed = match more {
                true => add_group(cx.stack, cx.guard, device, mac, Reference::Plain),
                false => remove_group(cx.stack, cx.guard, device, mac, Reference::Plain),
            };
            return changed.map_err(|error| error.errno);
        }
        membership::UNICAST => return Ok(()),
        _ => return Err(errno::EINVAL),
    };
    netdev::ask_for_all(cx.stack, cx.guard, device, flag, more);
    Ok(())
}

/// Makes the observer of a new socket, which sees the frames of all devices if it names a protocol.
pub fn opened(socket: &Arc<Socket>, cx: &mut Cx<'_>) {
    let Proto::Packet(packet) = &socket.proto else {
        return;
    };
    let selection = Selection {
        protocol: 0,
        filter: None,
        options: *socket.state().options,
        auxdata: false,
        ignore_outgoing: false,
        epoch: cx.stack.clock.wall_ns() - cx.stack.clock.now(),
        seen: (0, 0),
        drops: 0,
        has_ring: false,
    };
    let _ = packet.tap.set(Arc::new(Tap {
        user: socket.user().clone(),
        namespace: socket.ns().id.0,
        cooked: packet.cooked,
        sending: AtomicBool::new(false),
        selection: Mutex::new(selection),
        mapped: Mutex::default(),
    }));
    tables(socket.ns()).packet_sockets(1);
    // All devices exist.
    let _ = packet.hook(socket, cx, 0, packet.first);
}

/// Tells packet sockets of devices that go down, come up or leave (`packet_notifier`).
pub fn device_event(site: &Site<'_>, event: Event) {
    if !matches!(event, Event::Up | Event::Down | Event::Gone) {
        return;
    }
    let made = tables_made(site.ns);
    let Some(tables) = made.filter(|tables| tables.has_packets()) else {
        return;
    };
    let index = site.device.ifindex() as i32;
    for socket in tables.all() {
        let Proto::Packet(packet) = &socket.proto else {
            continue;
        };
        if packet.place.lock().ifindex != index {
            continue;
        }
        let socket = socket.clone();
        site.stack.post(Box::new(move |cx| {
            let Proto::Packet(packet) = &socket.proto else {
                return;
            };
            let protocol = packet.select(|selection| selection.protocol).unwrap_or(0);
            match event {
                Event::Up => drop(packet.hook(&socket, cx, index as u32, protocol)),
                _ => {
                    packet.unhook(cx);
                    if event == Event::Gone {
                        packet.place.lock().ifindex = -1;
                    }
                    socket.fail(cx, errno::ENETDOWN);
                }
            }
        }));
    }
}

fn be16(bytes: &[u8], at: usize) -> u16 {
    match bytes.get(at..).and_then(|rest| rest.first_chunk()) {
        Some(bytes) => u16::from_be_bytes(*bytes),
        None => 0,
    }
}

/// Writes a `sockaddr_ll`.
fn sockaddr(
    protocol: u16,
    ifindex: i32,
    hardware: u16,
    pkttype: u8,
    address: Option<[u8; ETHERNET]>,
) -> [u8; ADDRESS] {
    let mut bytes = [0; ADDRESS];
    bytes[..2].copy_from_slice(&AF_PACKET.to_ne_bytes());
    bytes[2..4].copy_from_slice(&protocol.to_be_bytes());
    bytes[4..8].copy_from_slice(&ifindex.to_ne_bytes());
    bytes[8..10].copy_from_slice(&hardware.to_ne_bytes());
    bytes[10] = pkttype;
    if let Some(address) = address {
        bytes[11] = ETHERNET as u8;
        bytes[12..18].copy_from_slice(&address);
    }
    bytes
}

impl std::fmt::Debug for Packet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Packet").finish_non_exhaustive()
    }
}

impl Tap {
    /// Puts a frame into the ring. Returns false if that is full.
    fn put(&self, entry: &Entry<'_>) -> bool {
        let mut mapped = self.mapped.lock();
        let taken = mapped.ring.as_mut().is_some_and(|ring| ring.put(entry));
        if taken {
            self.user.arrived();
        }
        taken
    }

    fn count(&self, taken: bool) {
        let mut selection = self.selection.lock();
        match taken {
            true => selection.seen.0 = selection.seen.0.wrapping_add(1),
            false => {
                selection.seen.1 = selection.seen.1.wrapping_add(1);
                selection.drops = selection.drops.wrapping_add(1);
            }
        }
    }
}

impl Observer for Tap {
    fn receives(&self, ns: NsId, protocol: u16) -> bool {
        let own = self.selection.lock().protocol;
        self.namespace == ns.0 && (own == ETH_P_ALL || own == protocol)
    }

    fn frame(&self, frame: &Frame<'_>) {
        let packet = frame.packet;
        let device = frame.device;
        let sent = frame.direction == Direction::Tx;
        if sent && self.sending.load(Relaxed) {
            return;
        }
        let selection = {
            let selection = self.selection.lock();
            let wanted = match selection.protocol {
                ETH_P_ALL => !(sent && selection.ignore_outgoing),
                // A tagged frame belongs to the VLAN device.
                own => !sent && packet.vlan().is_none() && packet.protocol == own,
            };
            if !wanted {
                return;
            }
            selection.clone()
        };
        let bare = device.is_bare();
        let whole = packet.data();
        let header = if bare {
            0
        } else {
            Ethernet::LEN.min(whole.len())
        };
        let source = Ethernet::new(whole)
            .filter(|_| !bare)
            .map(|header| header.src());
        let data = match self.cooked {
            true => whole.get(header..).unwrap_or_default(),
            false => whole,
        };
        let kind = match packet.pkt_type() {
            _ if sent => PacketType::Outgoing as u8,
            kind => kind as u8,
        };
        let hardware = device.link.hardware_type();
        let seen = Seen {
            data,
            link: whole,
            network: header,
            protocol: packet.protocol,
            kind,
            ifindex: device.ifindex(),
            hardware,
            mark: packet.mark,
            queue: 0,
            hash: 0,
            vlan: packet.vlan(),
        };
        let keep = match &selection.filter {
            Some(filter) => match filter.run_on(&seen).unwrap_or(0) {
                0 => return,
                keep => data.len().min(keep as usize),
            },
            None => data.len(),
        };
        let from = sockaddr(
            packet.protocol,
            device.ifindex() as i32,
            hardware,
            kind,
            source,
        );
        let wall = selection.epoch + frame.time;
        if selection.has_ring {
            let taken = self.put(&Entry {
                data: data.get(..keep).unwrap_or_default(),
                length: data.len(),
                link: (!self.cooked).then_some(header),
                from: &from,
                time: wall,
                vlan: packet.vlan(),
                losing: selection.seen.1 > 0,
            });
            return self.count(taken);
        }
        let mut control = Messages::default();
        receive::common(
            &mut control,
            wall,
            &selection.options,
            selection.drops,
            packet.mark,
        );
        if selection.auxdata {
            // struct tpacket_auxdata
            const VLAN_VALID: u32 = 1 << 4;
            const VLAN_TPID_VALID: u32 = 1 << 6;
            const USER: u32 = 1;
            let mut aux = [0; 20];
            let tag = packet.vlan();
            let status = if tag.is_some() {
                USER | VLAN_VALID | VLAN_TPID_VALID
            } else {
                USER
            };
            aux[..4].copy_from_slice(&status.to_ne_bytes());
            aux[4..8].copy_from_slice(&(data.len() as u32).to_ne_bytes());
            aux[8..12].copy_from_slice(&(keep as u32).to_ne_bytes());
            let network = if self.cooked { 0 } else { header };
            aux[14..16].copy_from_slice(&(network as u16).to_ne_bytes());
            if let Some(tag) = tag {
                aux[16..18].copy_from_slice(&tag.tci.to_ne_bytes());
                aux[18..20].copy_from_slice(&tag.proto.to_ne_bytes());
            }
            control.put(SOL_PACKET, option::AUXDATA, &aux);
        }
        let taken = self.user.message(&Message {
            from: &from,
            control: control.bytes(),
            data: data.get(..keep).unwrap_or_default(),
            flags: 0,
            length: data.len(),
            time: wall,
        });
        self.count(taken);
    }

    fn frames(&self, taps: &weir_core::device::Taps<'_>) {
        if taps.device.namespace(taps.guard).id.0 != self.namespace {
            return;
        }
        for packet in taps.packets {
            self.frame(&Frame {
                device: taps.device,
                direction: taps.direction,
                time: taps.time,
                packet,
                note: None,
            });
        }
    }
}
