// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `tun`: a device whose frames a program reads and writes (`drivers/net/tun.c`): a *TUN* device carries IP packets, a
//! *TAP* device Ethernet frames.
//!
//! Programs make devices by TUNSETIFF on `/dev/net/tun`; a request over netlink is refused, as in Linux. The engine has
//! the programs' files ([`File`]). Here are the device, the format of its frames in a file, and the settings:
//!
//! | setting | ioctl | default |
//! |---|---|---|
//! | `IFF_TUN` or `IFF_TAP`, `IFF_MULTI_QUEUE` | TUNSETIFF, when the device is made | |
//! | `IFF_NO_PI`: no `struct tun_pi` (flags, EtherType) in front of a frame | TUNSETIFF | with it |
//! | `IFF_VNET_HDR`: a `struct virtio_net_hdr` in front of a frame; its length in bytes | TUNSETIFF, TUNSETVNETHDRSZ | without; 10 |
//! | `IFF_PERSIST`: the device outlives its files | TUNSETPERSIST | off |
//! | owner, group: ids that are shown and checked by nobody, since every program has `CAP_NET_ADMIN` | TUNSETOWNER, TUNSETGROUP | none |
//! | checksums and segmentation left to the program | TUNSETOFFLOAD | none |
//!
//! The carrier is on while a file is attached. Frames for which a file has no room are dropped and counted (`FULL_RING`).
//! With several queues that of a packet (`queue_mapping`) selects the file.
//!
//! Not implemented: filters (TUNSETTXFILTER, TUNATTACHFILTER, TUNSETSTEERINGEBPF, TUNSETFILTEREBPF).

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, AtomicU64};

use weir_netlink::ifla::{self, arphrd, iff};
use weir_netlink::{Error, Writer, errno};
use weir_packet::header::{ETH_P_IP, ETH_P_IPV6};
use weir_packet::vnet::{self, Header, Outgoing, Wired};
use weir_packet::{Batch, DropReason, Flags, Packet};
use weir_sync::rcu::{Guard, Published};

use crate::cpu::Cx;
use crate::device::{AddressOrigin, Device, Mac, NewDevice};
use crate::drops::Place;
use crate::ethtool::{Driver, Link as LinkReport, LinkSettings};
use crate::features::{Offer, bit};
use crate::kind::{InterfaceId, check_mac};
use crate::namespace::Namespace;
use crate::stack::Stack;
use crate::{Kind, Link, register};

/// The `tun` link kind.
pub static KIND: Kind = Kind {
    name: "tun",
    pattern: "tun%d",
    create: Err(NOT_BY_NETLINK),
    validate: Some(|_| Err(Error::unsupported(NOT_BY_NETLINK))),
};

const NOT_BY_NETLINK: &str = "tun/tap creation via rtnetlink is not supported.";

/// Flags of a device and of a file (`linux/if_tun.h`).
#[allow(missing_docs)] // The names are Linux's.
pub mod flag {
    pub const TUN: u32 = 0x1;
    pub const TAP: u32 = 0x2;
    pub const NAPI: u32 = 0x10;
    pub const NAPI_FRAGS: u32 = 0x20;
    pub const NO_CARRIER: u32 = 0x40;
    pub const MULTI_QUEUE: u32 = 0x100;
    pub const ATTACH_QUEUE: u32 = 0x200;
    pub const DETACH_QUEUE: u32 = 0x400;
    pub const PERSIST: u32 = 0x800;
    pub const NO_PI: u32 = 0x1000;
    pub const NOFILTER: u32 = 0x1000;
    pub const ONE_QUEUE: u32 = 0x2000;
    pub const VNET_HDR: u32 = 0x4000;
    pub const EXCL: u32 = 0x8000;
    /// `TUN_FEATURES`
    pub const FEATURES: u32 = NAPI | NAPI_FRAGS | MULTI_QUEUE | NO_PI | ONE_QUEUE | VNET_HDR;
}

/// Offloads of a program (`TUN_F_*`).
const F_CSUM: u32 = 1;
const F_TSO4: u32 = 2;
const F_TSO6: u32 = 4;
const F_TSO_ECN: u32 = 8;
const F_UFO: u32 = 0x10;
/// `TUN_USER_FEATURES`
const USER_FEATURES: u64 = bit::HW_CSUM | bit::TSO | bit::TSO_ECN | bit::TSO6;

/// The most files of a device (`MAX_TAP_QUEUES`).
const MOST_FILES: usize = 256;
/// Bytes of a `struct tun_pi`.
const PI: usize = 4;
/// The longest header in front of a frame: a length beyond is refused.
const LONGEST_VNET: u32 = 256;

/// A file that is attached to a device: a queue of frames to a program.
pub trait File: Send + Sync {
    /// Gives a frame to the program, in parts, of which some may be empty. Returns false if there is no room.
    fn frame(&self, parts: [&[u8]; vnet::PARTS]) -> bool;

    /// The device is gone.
    fn gone(&self);

    /// Returns an id that distinguishes the files of a stack.
    fn id(&self) -> u64;
}

/// The files of a device.
#[derive(Default, Clone)]
struct Files {
    /// Those that get frames.
    enabled: Vec<Arc<dyn File>>,
    /// Those that TUNSETQUEUE has detached.
    disabled: Vec<Arc<dyn File>>,
}

/// The kind's part of a device (`struct tun_struct`). Callers serialise the changes of the files of all devices.
pub struct Tun {
    flags: AtomicU32,
    /// `u32::MAX` for none.
    owner: AtomicU32,
    group: AtomicU32,
    hardware: AtomicU16,
    /// The features that the program has asked for (`set_features`).
    offloads: AtomicU64,
    /// Bytes of the virtio header.
    vnet: AtomicU32,
    sndbuf: AtomicU32,
    carrier: AtomicBool,
    /// Numbers of the header have little-endian order by request (`TUN_VNET_LE`).
    little: AtomicBool,
    files: Published<Files>,
}

/// The `Link` implementation that the device owns.
struct Handle(Arc<Tun>);

/// Returns the kind's part of a device, if the device is of this kind.
pub fn tun_of(device: &Device) -> Option<&Arc<Tun>> {
    device.link.as_any()?.downcast_ref::<Arc<Tun>>()
}

/// Makes a device (`tun_set_iff`). `flags` are those of the `ifreq`; `name` may be empty or have one `%d`;
/// `ifindex` 0 takes the next one.
///
/// # Errors
/// EINVAL if the flags name neither type or the name is not valid; those of [`register`].
pub fn create(
    stack: &Stack,
    ns: &Arc<Namespace>,
    name: &str,
    flags: u32,
    ifindex: u32,
) -> Result<(Arc<Device>, Arc<Tun>), Error> {
    let (ty, pattern) = match flags & (flag::TUN | flag::TAP) {
        ty if ty & flag::TUN != 0 => (flag::TUN, "tun%d"),
        ty if ty & flag::TAP != 0 => (flag::TAP, "tap%d"),
        _ => return Err(Error::new(errno::EINVAL)),
    };
    let name = if name.is_empty() { pattern } else { name };
    if !crate::is_valid_name(name) {
        return Err(Error::new(errno::EINVAL));
    }
    let bare = ty == flag::TUN;
    let tun = Arc::new(Tun {
        flags: AtomicU32::new(ty | flags & flag::FEATURES),
        owner: AtomicU32::new(u32::MAX),
        group: AtomicU32::new(u32::MAX),
        hardware: AtomicU16::new(if bare { arphrd::NONE } else { arphrd::ETHER }),
        offloads: AtomicU64::new(0),
        vnet: AtomicU32::new(vnet::LEN as u32),
        sndbuf: AtomicU32::new(i32::MAX as u32),
        carrier: AtomicBool::new(true),
        little: AtomicBool::new(false),
        files: Published::new(&stack.domain, Files::default()),
    });
    let queues = match flags & flag::MULTI_QUEUE {
        0 => 1,
        _ => MOST_FILES as u32,
    };
    let new = NewDevice {
        link: Box::new(Handle(tun.clone())),
        name: name.to_owned(),
        flags: match bare {
            true => iff::POINTOPOINT | iff::NOARP | iff::MULTICAST,
            false => iff::BROADCAST | iff::MULTICAST,
        },
        mtu: 1500,
        txqlen: if bare { 500 } else { 1000 },
        queues: (queues, queues),
        address: if bare { [0; 6] } else { ns.random_mac() },
        address_origin: match bare {
            true => AddressOrigin::Permanent,
            false => AddressOrigin::Random,
        },
        broadcast: [0xff; 6],
    };
    let device = register(stack, ns, new, ifindex, 0)?;
    Ok((device, tun))
}

impl Tun {
    /// Returns the flags that programs see (`tun_flags`).
    pub fn flags(&self) -> u32 {
        self.flags.load(Relaxed)
    }

    fn has(&self, flag: u32) -> bool {
        self.flags() & flag != 0
    }

    fn is_bare(&self) -> bool {
        self.has(flag::TUN)
    }

    /// Returns the ids of the owner and of the group.
    pub fn owners(&self) -> (Option<u32>, Option<u32>) {
        let id = |of: &AtomicU32| Some(of.load(Relaxed)).filter(|id| *id != u32::MAX);
        (id(&self.owner), id(&self.group))
    }

    /// Sets the owner (TUNSETOWNER).
    pub fn set_owner(&self, id: u32) {
        self.owner.store(id, Relaxed);
    }

    /// Sets the group (TUNSETGROUP).
    pub fn set_group(&self, id: u32) {
        self.group.store(id, Relaxed);
    }

    /// Sets whether the device outlives its files (TUNSETPERSIST).
    pub fn set_persistent(&self, yes: bool) {
        match yes {
            true => self.flags.fetch_or(flag::PERSIST, Relaxed),
            false => self.flags.fetch_and(!flag::PERSIST, Relaxed),
        };
    }

    /// Sets the `ARPHRD_*` that the device shows (TUNSETLINK).
    pub fn set_hardware(&self, to: u16) {
        self.hardware.store(to, Relaxed);
    }

    /// Returns the length of the virtio header in bytes (TUNGETVNETHDRSZ).
    pub fn vnet_len(&self) -> u32 {
        self.vnet.load(Relaxed)
    }

    /// Sets the length of the virtio header in bytes (TUNSETVNETHDRSZ): EINVAL if it is too short.
    pub fn set_vnet_len(&self, to: u32) -> Result<(), i32> {
        if !(vnet::LEN as u32..=LONGEST_VNET).contains(&to) {
            return Err(errno::EINVAL);
        }
        self.vnet.store(to, Relaxed);
        Ok(())
    }

    /// Returns the bytes that may wait for the stack (TUNGETSNDBUF). The value has no effect.
    pub fn sndbuf(&self) -> u32 {
        self.sndbuf.load(Relaxed)
    }

    /// Sets them (TUNSETSNDBUF).
    pub fn set_sndbuf(&self, to: u32) {
        self.sndbuf.store(to, Relaxed);
    }

    /// Returns whether the program has asked for little-endian headers (TUNGETVNETLE). On a machine with this order it makes
    /// no difference.
    pub fn is_little(&self) -> bool {
        self.little.load(Relaxed)
    }

    /// Asks for them (TUNSETVNETLE).
    pub fn set_little(&self, yes: bool) {
        self.little.store(yes, Relaxed);
    }

    /// Sets the offloads that the program takes (TUNSETOFFLOAD, `set_offload`): EINVAL for unknown ones.
    pub fn set_offload(
        &self,
        stack: &Stack,
        guard: &Guard,
        device: &Arc<Device>,
        mut wanted: u32,
    ) -> Result<(), i32> {
        let mut features = 0;
        if wanted & F_CSUM != 0 {
            features |= bit::HW_CSUM;
            if wanted & (F_TSO4 | F_TSO6) != 0 {
                let table = [
                    (F_TSO_ECN, bit::TSO_ECN),
                    (F_TSO4, bit::TSO),
                    (F_TSO6, bit::TSO6),
                ];
                for (asked, feature) in table {
                    if wanted & asked != 0 {
                        features |= feature;
                    }
                    wanted &= !asked;
                }
            }
            wanted &= !(F_CSUM | F_UFO);
        }
        if wanted != 0 {
            return Err(errno::EINVAL);
        }
        self.offloads.store(features, Relaxed);
        crate::update_features(stack, guard, device);
        Ok(())
    }

    /// Attaches a file (`tun_attach`), or attaches a detached one again. `flags` are those of the `ifreq`.
    ///
    /// # Errors
    /// EBUSY if the device has its only file; E2BIG for too many.
    pub fn attach(
        &self,
        stack: &Stack,
        guard: &Guard,
        device: &Arc<Device>,
        file: Arc<dyn File>,
        flags: Option<u32>,
    ) -> Result<(), i32> {
        let mut files = self.files.load(guard).clone();
        if !self.has(flag::MULTI_QUEUE) && !files.enabled.is_empty() {
            return Err(errno::EBUSY);
        }
        if files.enabled.len() + files.disabled.len() >= MOST_FILES + usize::from(flags.is_none()) {
            return Err(errno::E2BIG);
        }
        if let Some(flags) = flags {
            let kept = self.flags() & !flag::FEATURES;
            self.flags.store(kept | flags & flag::FEATURES, Relaxed);
        }
        files.disabled.retain(|other| other.id() != file.id());
        files.enabled.push(file);
        self.files.replace(files);
        let on = flags.is_none_or(|flags| flags & flag::NO_CARRIER == 0);
        self.set_carrier(stack, guard, device, on);
        Ok(())
    }

    /// Detaches a file (`__tun_detach`). A file that stays (`TUNSETQUEUE`) counts as disabled. Returns whether the
    /// device is to go, since it has no file left and is not persistent.
    pub fn detach(
        &self,
        stack: &Stack,
        guard: &Guard,
        device: &Arc<Device>,
        id: u64,
        stays: bool,
    ) -> bool {
        let mut files = self.files.load(guard).clone();
        let found = files.enabled.iter().position(|file| file.id() == id);
        let file = found.map(|at| files.enabled.remove(at));
        files.disabled.retain(|other| other.id() != id);
        if stays {
            files.disabled.extend(file);
        }
        let last = files.enabled.is_empty() && files.disabled.is_empty();
        self.files.replace(files);
        if last {
            self.set_carrier(stack, guard, device, false);
        }
        last && !self.has(flag::PERSIST)
    }

    /// Turns the carrier on or off (TUNSETCARRIER).
    pub fn set_carrier(&self, stack: &Stack, guard: &Guard, device: &Arc<Device>, on: bool) {
        if self.carrier.swap(on, Relaxed) != on {
            device.count_carrier_change(on);
            crate::carrier_changed(stack, guard, device);
        }
    }

    /// Makes a packet of what a program has written (`tun_get_user`). Returns `None` for what Linux refuses: a frame
    /// without its headers, or an unknown protocol.
    pub fn packet(&self, cx: &Cx<'_>, mut bytes: &[u8]) -> Option<Packet> {
        let mut protocol = None;
        if !self.has(flag::NO_PI) {
            let (info, rest) = bytes.split_at_checked(PI)?;
            protocol = Some(u16::from_be_bytes([info[2], info[3]]));
            bytes = rest;
        }
        let mut header = None;
        if self.has(flag::VNET_HDR) {
            let (first, rest) = bytes.split_at_checked(self.vnet_len() as usize)?;
            header = Some(Header::parse(*first.first_chunk()?));
            bytes = rest;
        }
        let bare = self.is_bare();
        if bare && protocol.is_none_or(|protocol| protocol == 0) {
            protocol = match bytes.first()? >> 4 {
                4 => Some(ETH_P_IP),
                6 => Some(ETH_P_IPV6),
                _ => return None,
            };
        }
        if bytes.len() < if bare { 1 } else { 14 } {
            return None;
        }
        let mut packet = cx.stack.pool.packet(bytes)?;
        if let (true, Some(protocol)) = (bare, protocol) {
            packet.protocol = protocol;
            packet.reset_mac();
            packet.set_network(0);
        }
        match header {
            None => Some(packet),
            Some(header) => apply(header, packet),
        }
    }

    /// Gives a packet to a file. Returns false if there is no room.
    fn deliver(&self, file: &dyn File, packet: &Packet) -> bool {
        let mut head = [0; PI + LONGEST_VNET as usize];
        let mut length = 0;
        if !self.has(flag::NO_PI) {
            head[2..PI].copy_from_slice(&packet.protocol.to_be_bytes());
            length = PI;
        }
        if !self.has(flag::VNET_HDR) {
            let frame = Wired::new(packet);
            let [addresses, tag, rest] = frame.parts();
            return file.frame([&head[..length], addresses, tag, rest, &[], &[]]);
        }
        let frame = Outgoing::new(packet);
        let mut parts = frame.parts();
        head[length..length + vnet::LEN].copy_from_slice(parts[0]);
        length += self.vnet_len() as usize;
        parts[0] = &head[..length];
        file.frame(parts)
    }
}

/// Does to a received packet what its header says. Returns `None` if the checksum lies outside.
fn apply(header: Header, packet: Packet) -> Option<Packet> {
    let mut packet = match header.whole(packet) {
        Ok(long) => return Some(long),
        // A packet that is no longer than a segment stays one.
        Err(packet) => packet,
    };
    if !header.complete(packet.data_mut()) {
        return None;
    }
    // What a program says about its own checksum does not count, as in Linux.
    if header.leaves_checksum() {
        packet.flags.insert(Flags::CSUM_GOOD);
    }
    Some(packet)
}

impl Link for Handle {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn hardware_type(&self) -> u16 {
        self.0.hardware.load(Relaxed)
    }

    fn is_bare(&self) -> bool {
        self.0.is_bare()
    }

    fn hardware_addresses(&self) -> Option<(Vec<u8>, Vec<u8>)> {
        self.0.is_bare().then(|| (Vec::new(), Vec::new()))
    }

    fn check_address(&self, mac: &Mac) -> Result<(), Error> {
        if self.0.is_bare() {
            return Err(Error::new(errno::EOPNOTSUPP));
        }
        check_mac(mac)
    }

    fn interface_id(&self) -> InterfaceId {
        match self.0.is_bare() {
            true => InterfaceId::Random,
            false => InterfaceId::Ethernet,
        }
    }

    fn mtu_bounds(&self) -> (u32, u32) {
        (68, if self.0.is_bare() { 65_535 } else { 65_521 })
    }

    fn features(&self) -> Offer {
        let vlan = bit::HW_VLAN_CTAG_TX | bit::HW_VLAN_STAG_TX;
        let changeable = bit::SG | bit::FRAGLIST | USER_FEATURES | vlan;
        Offer {
            active: changeable | bit::LLTX,
            changeable,
            vlan: (changeable | bit::LLTX) & !vlan,
            ..Offer::default()
        }
    }

    fn fix_features(&self, features: u64) -> u64 {
        features & (self.0.offloads.load(Relaxed) | !USER_FEATURES)
    }

    /// Frames are merged by their Ethernet headers, and what a program writes is not merged at all.
    fn polls(&self) -> bool {
        false
    }

    fn driver(&self) -> Driver {
        Driver {
            info: Some(("tun", "1.6", "N/A")),
            link: LinkReport::Carrier,
            stamps: true,
            ..Driver::default()
        }
    }

    fn speed(&self) -> Option<u32> {
        Some(10)
    }

    fn link_settings(&self) -> Option<LinkSettings> {
        Some(LinkSettings::twisted_pair(10))
    }

    fn no_queue(&self) -> bool {
        false
    }

    fn carrier(&self, _stack: &Stack, _device: &Device) -> bool {
        self.0.carrier.load(Relaxed)
    }

    fn fill_data(&self, stack: &Stack, out: &mut Writer) {
        let (flags, (owner, group)) = (self.0.flags(), self.0.owners());
        let has = |flag: u32| u8::from(flags & flag != 0);
        out.put_u8(ifla::tun::TYPE, (flags & (flag::TUN | flag::TAP)) as u8);
        if let Some(owner) = owner {
            out.put_u32(ifla::tun::OWNER, owner);
        }
        if let Some(group) = group {
            out.put_u32(ifla::tun::GROUP, group);
        }
        out.put_u8(ifla::tun::PI, 1 - has(flag::NO_PI));
        out.put_u8(ifla::tun::VNET_HDR, has(flag::VNET_HDR));
        out.put_u8(ifla::tun::PERSIST, has(flag::PERSIST));
        out.put_u8(ifla::tun::MULTI_QUEUE, has(flag::MULTI_QUEUE));
        if flags & flag::MULTI_QUEUE != 0 {
            let guard = stack.domain.pin();
            let files = self.0.files.load(&guard);
            out.put_u32(ifla::tun::NUM_QUEUES, files.enabled.len() as u32);
            out.put_u32(ifla::tun::NUM_DISABLED_QUEUES, files.disabled.len() as u32);
        }
    }

    fn removed(&self, stack: &Stack, _device: &Arc<Device>) {
        let guard = stack.domain.pin();
        let files = self.0.files.load(&guard).clone();
        self.0.files.replace(Files::default());
        for file in files.enabled.iter().chain(&files.disabled) {
            file.gone();
        }
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(&self.0)
    }

    fn transmit(&self, cx: &mut Cx<'_>, device: &Arc<Device>, batch: Batch) {
        let files = &self.0.files.load(cx.guard).enabled;
        if files.is_empty() {
            return cx.drop_batch(device, Place::Transmit, DropReason::DEV_READY, batch);
        }
        let mut sent = Batch::new();
        for packet in batch {
            let chosen = match files.len() {
                1 => 0,
                count => usize::from(packet.queue) % count,
            };
            let taken = files
                .get(chosen)
                .is_some_and(|file| self.0.deliver(&**file, &packet));
            if !taken {
                let stats = device.stats(cx.state.id);
                stats.tx_dropped.fetch_add(1, Relaxed);
                cx.drop(device, Place::Transmit, DropReason::FULL_RING, packet);
            } else if let Err(packet) = sent.push(packet) {
                cx.consume_batch(std::mem::take(&mut sent));
                // There is room now.
                let _ = sent.push(packet);
            }
        }
        cx.consume_batch(sent);
    }
}

#[cfg(test)]
mod tests;
