// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Groups of sampled packets, and the generic netlink messages about them.
//!
//! Mirrors net/psample/psample.c. A group is a number; it is created by the first action that
//! samples into it, deleted with the last one, and numbers its samples. Listeners receive messages
//! of the family `psample` about groups (`config`) and samples (`packets`). The stack manages the
//! listeners ([`Hearers`]) and serves the family's requests.
//!
//! Not implemented: attributes that only hardware fills in (traffic class, occupancy, latency).

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use weir_sync::order::{self, Mutex, MutexGuard};

use weir_netlink::psample::{
    self as attr, CMD_DEL_GROUP, CMD_NEW_GROUP, CMD_SAMPLE, tunnel_key as key,
};
use weir_netlink::{GenlMsg, Writer, align, genl, nlm};
use weir_packet::Tunnel;
use weir_packet::tunnel::{Ends, OptionKind};

/// The type of the family's messages. Linux assigns it when the module is loaded.
pub const FAMILY: u16 = genl::START_ALLOC;
/// The multicast group `config`.
pub const GROUP_CONFIG: u32 = 3;
/// The multicast group `packets`.
pub const GROUP_PACKETS: u32 = 4;

/// `PSAMPLE_MAX_PACKET_SIZE`
const MAX_SIZE: usize = 0xffff;
/// Size of an attribute's header in bytes.
const HEADER: usize = 4;

/// The sockets that may have joined the multicast groups of generic netlink.
pub trait Hearers: Send + Sync {
    /// Returns whether anybody listens to the group.
    fn listening(&self, group: u32) -> bool;
    /// Sends a message to all listeners of the group.
    fn tell(&self, group: u32, message: &[u8]);
}

/// A group of samples.
#[derive(Debug)]
pub struct Group {
    /// The group's number.
    pub number: u32,
    seq: AtomicU32,
}

/// A sampled packet with its metadata.
#[derive(Debug, Clone, Copy)]
pub struct Sampled<'a> {
    /// Index of the device the packet was received by, 0 for none.
    pub iif: u32,
    /// Index of the device the packet is sent by, 0 for none.
    pub oif: u32,
    /// One packet in `rate` is sampled.
    pub rate: u32,
    /// The time in nanoseconds since 1970.
    pub time: u64,
    /// The Ethertype.
    pub protocol: u16,
    /// The packet.
    pub data: &'a [u8],
    /// The highest number of bytes of the packet to send.
    pub cut: u32,
    /// The packet's tunnel metadata.
    pub tunnel: Option<&'a Tunnel>,
}

/// The groups of a namespace.
pub struct Groups {
    hearers: Arc<dyn Hearers>,
    /// The groups with their reference counts, in order of creation.
    all: Mutex<Vec<(Arc<Group>, u32)>, order::Samples>,
}

impl Groups {
    /// Creates an empty set of groups.
    pub fn new(hearers: Arc<dyn Hearers>) -> Self {
        Self {
            hearers,
            all: Mutex::default(),
        }
    }

    fn all(&self) -> MutexGuard<'_, Vec<(Arc<Group>, u32)>, order::Samples> {
        self.all.lock()
    }

    /// Returns the group, created if necessary, and takes a reference (`psample_group_get`).
    pub fn get(&self, number: u32) -> Arc<Group> {
        let mut all = self.all();
        if let Some((group, refs)) = all.iter_mut().find(|(group, _)| group.number == number) {
            *refs += 1;
            return group.clone();
        }
        let group = Arc::new(Group {
            number,
            seq: AtomicU32::new(0),
        });
        self.announce(&group, CMD_NEW_GROUP);
        all.push((group.clone(), 1));
        group
    }

    /// Drops a reference (`psample_group_put`).
    pub fn put(&self, group: &Arc<Group>) {
        let mut all = self.all();
        let Some(at) = all.iter().position(|(other, _)| Arc::ptr_eq(other, group)) else {
            return;
        };
        all[at].1 -= 1;
        if all[at].1 == 0 {
            self.announce(group, CMD_DEL_GROUP);
            all.remove(at);
        }
    }

    /// Returns the groups with their reference counts.
    pub fn list(&self) -> Vec<(Arc<Group>, u32)> {
        self.all().clone()
    }

    /// Notifies listeners about a group (`psample_group_notify`). The reported reference count is
    /// 0, because this happens before the first reference is taken or after the last one is
    /// dropped.
    fn announce(&self, group: &Group, command: u8) {
        if self.hearers.listening(GROUP_CONFIG) {
            let mut w = Writer::new();
            let mark = w.message(FAMILY, nlm::F_MULTI, 0, 0);
            group.fill(&mut w, command, 0);
            // A writer without a limit cannot fail.
            let _ = w.finish(mark);
            self.hearers.tell(GROUP_CONFIG, w.bytes());
        }
    }

    /// Sends a sample to the listeners (`psample_sample_packet`). Builds no message if nobody
    /// listens.
    pub fn sample(&self, group: &Group, sampled: &Sampled<'_>) {
        let seq = group.seq.fetch_add(1, Relaxed);
        if !self.hearers.listening(GROUP_PACKETS) {
            return;
        }
        let mut w = Writer::new();
        let mark = w.message(FAMILY, 0, 0, 0);
        w.fixed(&genl_header(CMD_SAMPLE));
        let Sampled { iif, oif, data, .. } = *sampled;
        // Size of the rate, size, group and sequence number, time and protocol.
        let mut meta = 4 * 8 + 12 + 8;
        for (ty, ifindex) in [(attr::IIFINDEX, iif), (attr::OIFINDEX, oif)] {
            if ifindex != 0 {
                w.put_u16(ty, ifindex as u16);
                meta += 8;
            }
        }
        w.put_u32(attr::SAMPLE_RATE, sampled.rate);
        w.put_u32(attr::ORIGSIZE, data.len() as u32);
        w.put_u32(attr::SAMPLE_GROUP, group.number);
        w.put_u32(attr::GROUP_SEQ, seq);
        w.put_u64(attr::TIMESTAMP, sampled.time);
        w.put_u16(attr::PROTO, sampled.protocol);
        let mut tunnel = Writer::new();
        if let Some(info) = sampled.tunnel {
            fill_tunnel(info, &mut tunnel);
            meta += HEADER + tunnel.len();
        }
        let mut len = data.len().min(sampled.cut as usize);
        if meta + align(HEADER + len) > MAX_SIZE {
            len = MAX_SIZE - meta - HEADER - 4;
        }
        if len > 0 {
            w.put(attr::DATA, &data[..len]);
        }
        if sampled.tunnel.is_some() {
            w.put(attr::TUNNEL, tunnel.bytes());
        }
        if w.finish(mark).is_ok() {
            self.hearers.tell(GROUP_PACKETS, w.bytes());
        }
    }
}

/// Encodes tunnel metadata (`__psample_ip_tun_to_nlattr`). Leaves out addresses, ports and a type
/// of service that are 0.
fn fill_tunnel(tunnel: &Tunnel, w: &mut Writer) {
    if tunnel.has_id {
        w.put_be64(key::ID, tunnel.id.into());
    }
    let mut given = |ty, octets: &[u8]| {
        if octets.iter().any(|octet| *octet != 0) {
            w.put(ty, octets);
        }
    };
    match &tunnel.ends {
        Ends::V4(src, dst) => {
            given(key::IPV4_SRC, src);
            given(key::IPV4_DST, dst);
        }
        Ends::V6(ends) => {
            given(key::IPV6_SRC, &ends.0);
            given(key::IPV6_DST, &ends.1);
        }
    }
    given(key::TOS, &[tunnel.tos]);
    w.put_u8(key::TTL, tunnel.ttl);
    if tunnel.dont_fragment {
        w.put_flag(key::DONT_FRAGMENT);
    }
    if tunnel.checksum {
        w.put_flag(key::CSUM);
    }
    for (ty, port) in [
        (key::TP_SRC, tunnel.src_port),
        (key::TP_DST, tunnel.dst_port),
    ] {
        if port != 0 {
            w.put_be16(ty, port);
        }
    }
    if let Some(options) = &tunnel.options {
        match options.kind {
            OptionKind::Geneve => w.put(key::GENEVE_OPTS, &options.octets),
            OptionKind::Erspan => w.put(key::ERSPAN_OPTS, &options.octets),
            OptionKind::Vxlan | OptionKind::Gtp => {}
        }
    }
}

impl Group {
    /// Encodes a group after the message's header (`psample_group_nl_fill`).
    pub fn fill(&self, w: &mut Writer, command: u8, refs: u32) {
        w.fixed(&genl_header(command));
        w.put_u32(attr::SAMPLE_GROUP, self.number);
        w.put_u32(attr::GROUP_REFCOUNT, refs);
        w.put_u32(attr::GROUP_SEQ, self.seq.load(Relaxed));
    }
}

fn genl_header(cmd: u8) -> GenlMsg {
    GenlMsg {
        cmd,
        version: attr::GENL_VERSION,
        reserved: 0,
    }
}
