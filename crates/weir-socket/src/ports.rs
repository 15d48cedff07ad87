// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The sockets of a namespace: by port, by protocol, and all of them; binding (`udp_lib_get_port`,
//! `inet_csk_get_port`, `ping_get_port`) and the choice of a receiver (`compute_score`, `__udp4_lib_lookup`).
//!
//! A table maps a port to its sockets, newest first, with what decides about a packet. A CPU reads it under RCU without
//! a lock. Changes are made under one lock of the namespace.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering::Relaxed};

use weir_core::random::SharedGenerator;
use weir_inet::sockets::{interest, sockets};
use weir_netlink::errno;
use weir_sync::hash::RcuHash;
use weir_sync::once_box::OnceBox;
use weir_sync::order::{self, Mutex};
use weir_sync::rcu::{Domain, Guard};

use crate::device::Device;
use crate::namespace::Namespace;
use crate::parts::Key;
use crate::socket::Socket;

/// What decides whether a socket gets a packet.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The socket.
    pub socket: Arc<Socket>,
    /// It is an IPv6 socket.
    pub ipv6: bool,
    /// The local address; unspecified for all.
    pub local: IpAddr,
    /// The peer's address and port, if the socket is connected.
    pub peer: Option<(IpAddr, u16)>,
    /// The index of the device that the socket is bound to, or 0.
    pub device: u32,
    /// `SO_REUSEADDR`
    pub reuse: bool,
    /// `SO_REUSEPORT`
    pub reuseport: bool,
    /// `IPV6_V6ONLY`
    pub v6only: bool,
    /// The user id of the owner.
    pub uid: u32,
}

/// Where a packet comes from and goes to.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// The packet's destination address.
    pub local: IpAddr,
    /// Its source address.
    pub remote: IpAddr,
    /// The source port.
    pub remote_port: u16,
    /// The device that received it.
    pub device: u32,
    /// The device's VRF, or 0.
    pub master: u32,
    /// Sockets that are bound to no device get packets of VRFs (`udp_l3mdev_accept`).
    pub any_vrf: bool,
}

impl Target {
    /// Returns whether an index other than 0 is that of the device or of its VRF.
    pub fn has_device(&self, index: u32) -> bool {
        index == self.device || index == self.master
    }
}

impl Entry {
    /// Returns whether a packet of a device is for this socket (`inet_bound_dev_eq`).
    fn is_on(&self, target: &Target) -> bool {
        match self.device {
            0 => target.master == 0 || target.any_vrf,
            bound => target.has_device(bound),
        }
    }

    /// Returns whether the socket takes packets of an address family (`ipv6_only_sock`).
    fn takes(&self, address: IpAddr) -> bool {
        match (self.local, address) {
            (IpAddr::V4(_), IpAddr::V4(_)) | (IpAddr::V6(_), IpAddr::V6(_)) => true,
            (IpAddr::V6(own), IpAddr::V4(_)) => own.is_unspecified() && !self.v6only,
            (IpAddr::V4(_), IpAddr::V6(_)) => false,
        }
    }

    /// Returns whether the packet's destination is the socket's address, and how well the rest fits; `None` if the
    /// packet is not for the socket (`compute_score`).
    pub fn score(&self, target: &Target) -> Option<(bool, u32)> {
        if !self.takes(target.local) || !self.is_on(target) {
            return None;
        }
        let specific = !self.local.is_unspecified();
        if specific && self.local != target.local {
            return None;
        }
        let mut score = if self.ipv6 { 1 } else { 2 };
        if let Some((address, port)) = self.peer {
            let address_fits = address.is_unspecified() || address == target.remote;
            let port_fits = port == 0 || port == target.remote_port;
            if !address_fits || !port_fits {
                return None;
            }
            score += 8;
        }
        if self.device != 0 {
            score += 4;
        }
        Some((specific, score))
    }

    /// Returns whether two sockets would get the same packets (`inet_rcv_saddr_equal` with wildcards).
    pub fn overlaps(&self, other: &Self) -> bool {
        let devices = self.device == 0 || other.device == 0 || self.device == other.device;
        let addresses = match (self.local, other.local) {
            (IpAddr::V4(a), IpAddr::V4(b)) => a.is_unspecified() || b.is_unspecified() || a == b,
            (IpAddr::V6(a), IpAddr::V6(b)) => a.is_unspecified() || b.is_unspecified() || a == b,
            (IpAddr::V6(v6), IpAddr::V4(_)) => v6.is_unspecified() && !self.v6only,
            (IpAddr::V4(_), IpAddr::V6(v6)) => v6.is_unspecified() && !other.v6only,
        };
        devices && addresses
    }

    /// Returns whether two UDP sockets may not have the same port (`udp_lib_lport_inuse`).
    pub fn conflicts_udp(&self, other: &Self) -> bool {
        !(self.reuse && other.reuse)
            && self.overlaps(other)
            && !(self.reuseport && other.reuseport && self.uid == other.uid)
    }

    /// Returns whether two ping sockets may not have the same identifier (`ping_get_port`).
    pub fn conflicts_ping(&self, other: &Self) -> bool {
        !(self.reuse && other.reuse)
    }
}

/// Sockets by port, identifier or protocol.
#[derive(Debug)]
pub struct Table {
    lists: RcuHash<u16, Vec<Entry>>,
    /// The bit of `weir_inet::sockets::interest`.
    kind: u32,
}

impl Table {
    fn new(domain: &Domain, kind: u32) -> Self {
        Self {
            lists: RcuHash::new(domain),
            kind,
        }
    }

    /// Returns the sockets of a port, newest first.
    #[inline]
    pub fn of<'g>(&'g self, port: u16, guard: &'g Guard) -> &'g [Entry] {
        self.lists.get(&port, guard).map_or(&[], Vec::as_slice)
    }

    /// Returns the socket that gets a datagram (`__udp4_lib_lookup`). `hash` chooses among those that share a port with
    /// `SO_REUSEPORT`.
    pub fn find<'g>(
        &'g self,
        port: u16,
        target: &Target,
        hash: impl Fn() -> u32,
        guard: &'g Guard,
    ) -> Option<&'g Entry> {
        let list = self.of(port, guard);
        let scored = |entry: &'g Entry| Some((entry.score(target)?, entry));
        // Among equals the newest wins, which is the first.
        let (best, found) = list
            .iter()
            .filter_map(scored)
            .reduce(|best, one| if one.0 > best.0 { one } else { best })?;
        if !found.reuseport || found.peer.is_some() {
            return Some(found);
        }
        let same = |entry: &&Entry| {
            entry.reuseport
                && entry.peer.is_none()
                && entry.uid == found.uid
                && entry.score(target) == Some(best)
        };
        let count = list.iter().filter(same).count();
        let chosen = (u64::from(hash()) * count as u64) >> 32;
        // The group is in the order of binding.
        list.iter()
            .rev()
            .filter(same)
            .nth(chosen as usize)
            .or(Some(found))
    }

    /// Adds a socket or replaces its entry. The caller holds the lock.
    fn put(&self, ns: &Namespace, port: u16, entry: Entry, guard: &Guard) {
        let mut list = self.of(port, guard).to_vec();
        match list
            .iter_mut()
            .find(|one| Arc::ptr_eq(&one.socket, &entry.socket))
        {
            Some(place) => *place = entry,
            None => list.insert(0, entry),
        }
        self.lists.insert(port, list, guard);
        sockets(ns).set_interest(self.kind, true);
    }

    /// Removes a socket. The caller holds the lock.
    fn remove(&self, ns: &Namespace, port: u16, socket: &Socket, guard: &Guard) {
        let mut list = self.of(port, guard).to_vec();
        list.retain(|one| !std::ptr::eq(&*one.socket, socket));
        match list.is_empty() {
            true => drop(self.lists.remove(&port, guard)),
            false => drop(self.lists.insert(port, list, guard)),
        }
        if self.lists.is_empty(guard) {
            sockets(ns).set_interest(self.kind, false);
        }
    }
}

/// Which table a socket is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// UDP, by port.
    Udp,
    /// Ping, by identifier.
    Ping,
    /// Raw, by protocol.
    Raw,
    /// TCP sockets that are bound, by port.
    Tcp,
}

/// The sockets of a namespace.
#[derive(Debug)]
pub struct Tables {
    udp: Table,
    ping: Table,
    raw: Table,
    tcp: Table,
    /// The connections of TCP.
    pub tcp_connections: crate::tcp::Connections,
    /// Held while a table changes.
    changes: Mutex<(), order::SocketPorts>,
    /// All open sockets by cookie.
    all: Mutex<BTreeMap<u64, Arc<Socket>>, order::SocketList>,
    random: SharedGenerator,
    cookies: AtomicU64,
    /// The number of packet sockets, which follow devices.
    packets: AtomicI32,
}

/// The place of a namespace's sockets. The tables are made for the first one.
struct Place {
    domain: Domain,
    seed: u64,
    tables: OnceBox<Tables>,
}

static PLACE: Key<Place, 11> = Key::new();

/// Fills the place of a new namespace.
pub fn fill(parts: &mut crate::parts::NamespaceParts, domain: &Domain, seed: u64) {
    parts.fill(
        &PLACE,
        Place {
            domain: domain.clone(),
            seed,
            tables: OnceBox::default(),
        },
    );
}

impl Tables {
    fn new(domain: &Domain, seed: u64) -> Self {
        Self {
            udp: Table::new(domain, interest::UDP),
            ping: Table::new(domain, interest::PING),
            raw: Table::new(domain, interest::RAW),
            tcp: Table::new(domain, interest::TCP),
            tcp_connections: crate::tcp::Connections::new(domain, seed),
            changes: Mutex::default(),
            all: Mutex::default(),
            random: SharedGenerator::new(seed, "ports"),
            cookies: AtomicU64::new(0),
            packets: AtomicI32::new(0),
        }
    }
}

/// Returns the sockets of a namespace.
#[inline]
pub fn tables(ns: &Namespace) -> &Tables {
    let place = ns.parts.get(&PLACE);
    let make = || Tables::new(&place.domain, place.seed);
    place.tables.get_or_make(make)
}

/// Returns the sockets of a namespace, if it ever had one.
#[inline]
pub fn tables_made(ns: &Namespace) -> Option<&Tables> {
    ns.parts.get(&PLACE).tables.get()
}

/// Returns what a packet's device means for the choice of a socket.
pub fn devices(
    ns: &Namespace,
    device: &Arc<Device>,
    accept: &str,
    guard: &Guard,
) -> (u32, u32, bool) {
    let master = device.l3_master_index(guard);
    let any_vrf = master != 0 && ns.kept.lock().get(accept).is_some_and(|value| value == "1");
    (device.ifindex(), master, any_vrf)
}

impl Tables {
    /// Returns a table.
    #[inline]
    pub fn table(&self, which: Which) -> &Table {
        match which {
            Which::Udp => &self.udp,
            Which::Ping => &self.ping,
            Which::Raw => &self.raw,
            Which::Tcp => &self.tcp,
        }
    }

    /// Gives a socket a port (0: any) and enters it into the table. Returns the port.
    ///
    /// # Errors
    /// EADDRINUSE if the port is taken, or if all are.
    pub fn bind(
        &self,
        ns: &Namespace,
        which: Which,
        port: u16,
        entry: Entry,
        conflicts: impl Fn(&Entry, &Entry) -> bool,
        guard: &Guard,
    ) -> Result<u16, i32> {
        let _changes = self.changes.lock();
        let table = self.table(which);
        let taken = |port: u16| {
            let tunnel = which == Which::Udp && {
                let ports = weir_inet::udp::ports(ns);
                let listens = |ipv6| {
                    let port = weir_inet::udp::Port { ipv6, port };
                    ports.socket(port, guard).is_some()
                };
                match entry.local {
                    IpAddr::V4(_) => listens(false),
                    IpAddr::V6(_) => listens(true) || (!entry.v6only && listens(false)),
                }
            };
            tunnel
                || table.of(port, guard).iter().any(|other| {
                    !Arc::ptr_eq(&other.socket, &entry.socket) && conflicts(&entry, other)
                })
        };
        let port = match port {
            0 => self.ephemeral(ns, which, &taken)?,
            port if taken(port) => return Err(errno::EADDRINUSE),
            port => port,
        };
        table.put(ns, port, entry, guard);
        Ok(port)
    }

    /// Chooses a free port.
    fn ephemeral(
        &self,
        ns: &Namespace,
        which: Which,
        taken: &impl Fn(u16) -> bool,
    ) -> Result<u16, i32> {
        let (first, last) = match which {
            Which::Ping => (1, u16::MAX),
            _ => ns.local_ports(),
        };
        let count = u64::from(last.saturating_sub(first)) + 1;
        let reserved = match which {
            Which::Ping => String::new(),
            _ => {
                let kept = ns.kept.lock();
                let text = kept.get("ipv4/ip_local_reserved_ports");
                text.cloned().unwrap_or_default()
            }
        };
        let is_reserved = |port: u16| {
            reserved.split(',').any(|range| {
                let (low, high) = range.split_once('-').unwrap_or((range, range));
                match (low.trim().parse::<u16>(), high.trim().parse::<u16>()) {
                    (Ok(low), Ok(high)) => (low..=high).contains(&port),
                    _ => false,
                }
            })
        };
        let start = self.random.next_u64() % count;
        (0..count)
            .map(|n| first + ((start + n) % count) as u16)
            .find(|port| !is_reserved(*port) && !taken(*port))
            .ok_or(errno::EADDRINUSE)
    }

    /// Enters a socket into a table, or replaces its entry.
    pub fn put(&self, ns: &Namespace, which: Which, port: u16, entry: Entry, guard: &Guard) {
        let _changes = self.changes.lock();
        self.table(which).put(ns, port, entry, guard);
    }

    /// Removes a socket from a table.
    pub fn remove(&self, ns: &Namespace, which: Which, port: u16, socket: &Socket, guard: &Guard) {
        let _changes = self.changes.lock();
        self.table(which).remove(ns, port, socket, guard);
        if which == Which::Tcp && !self.tcp_connections.is_empty() {
            // Connections outlive the sockets of their ports.
            sockets(ns).set_interest(interest::TCP, true);
        }
    }

    /// Returns a new socket's cookie, which also orders the list of all sockets.
    pub fn new_cookie(&self) -> u64 {
        self.cookies.fetch_add(1, Relaxed) + 1
    }

    /// Adds a socket to the list of all.
    pub fn opened(&self, socket: &Arc<Socket>) {
        self.all.lock().insert(socket.cookie(), socket.clone());
    }

    /// Removes a socket from the list of all.
    pub fn closed(&self, socket: &Socket) {
        let gone = self.all.lock().remove(&socket.cookie());
        // Dropped without the lock.
        drop(gone);
    }

    /// Returns all open sockets in the order in which they were opened.
    pub fn all(&self) -> Vec<Arc<Socket>> {
        self.all.lock().values().cloned().collect()
    }

    /// Counts packet sockets that are opened or closed.
    pub fn packet_sockets(&self, change: i32) {
        self.packets.fetch_add(change, Relaxed);
    }

    /// Returns whether there are packet sockets.
    pub fn has_packets(&self) -> bool {
        self.packets.load(Relaxed) != 0
    }

    /// Returns random bits of the namespace.
    #[allow(dead_code)] // for TCP
    pub fn random(&self) -> u64 {
        self.random.next_u64()
    }
}
