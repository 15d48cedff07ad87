// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `af_xdp`: AF_XDP sockets on queues of one of the host's devices (`net/xdp/xsk.c`).
//!
//! | key | meaning | default |
//! |---|---|---|
//! | `dev` | the device | |
//! | `queue` | the first of its queues | 0 |
//! | `queues` | the number of queues, 1 to 16 | 1 |
//! | `zero_copy` | `off`: the kernel copies; `on`: the driver uses the port's memory; `auto`: `on` where the driver can | `auto` |
//! | `attach` | `native`: the program runs in the driver; `skb`: in the generic receive path; `auto`: the first that works | `auto` |
//! | `need_wakeup` | `on`: system calls only when the kernel asks for them; `off`: one per batch to send | `on` |
//! | `busy_poll` | microseconds for which a system call of the port polls the device (`SO_BUSY_POLL`, with `SO_PREFER_BUSY_POLL` and `SO_BUSY_POLL_BUDGET` 64); 0 leaves that to interrupts. Use it with `busy=on` | 0 |
//!
//! The port takes all frames that the device receives on its queues; an XDP program of six instructions passes
//! them to the sockets. The host receives what arrives on other queues. The UMEM is the pool's own memory: a
//! received frame becomes a packet without a copy by the port, because the kernel leaves the same headroom (256
//! bytes) as a packet has. A packet to send is not copied either: the transmit ring gets the address of its frame,
//! with the VLAN tag put in place, and the frame returns to the pool through the completion ring. At most 2,048
//! packets of a queue are on this way. Long packets, those of other pools, and frames beyond the registered memory
//! are copied into frames of the queue's own, and so are those of [`Port::send`], which borrows them. Frames have at
//! most 1,792 bytes (`tx_errors`). A device that is down keeps the frames in the ring.
//!
//! The frames of a closed queue go back to the pool when nothing can write to them any more. A driver may write to
//! zero-copy frames until some time after the socket is closed. The kernel accepts another socket on the queue only
//! after it has stopped the driver (`xp_clear_dev`), so a thread tries to bind one and then returns the frames. It
//! gives up after a minute, because another program may have taken the queue; then the frames are lost to the pool.
//!
//! Opening needs `CAP_NET_RAW`, `CAP_NET_ADMIN` and `CAP_BPF` in the machine's first user namespace; the
//! program is detached when the port is closed. The memory counts against `RLIMIT_MEMLOCK` of the stack's
//! process; frames in memory beyond that limit are received by a copy.
//!
//! XDP sees neither the checksums nor the VLAN tags that are offloaded: turn off `rx-vlan-offload` of the device,
//! and `tx-checksumming` and `tx-vlan-offload` of the other end of a veth (`ethtool -K`). Not implemented:
//! multi-buffer frames, transmit metadata.
//!
//! The crates `xdp` and `xsk-rs` do not fit: they map the memory that they register, while here the pool has
//! mapped it and lends its frames. `xsk-rs` also needs the C libraries libbpf and libxdp. The kernel's interface
//! is small: four rings and five bpf(2) commands.
#![allow(unsafe_code)] // sockets and ioctls with structures made here

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

use weir_packet::{Batch, Cache, Packet};

use crate::keys::Keys;
use crate::port::{Counters, Facts, Kind, Port, Sieve, Site, failed};
use crate::{Error, Result};

mod bpf;
mod queue;
mod ring;

use queue::{Receiver, Sender};

/// The kind.
pub static KIND: Kind = Kind {
    name: NAME,
    keys: &[
        "dev",
        "queue",
        "queues",
        "zero_copy",
        "attach",
        "need_wakeup",
        "busy_poll",
    ],
    open,
    adopt,
    virtual_time: None,
};

const NAME: &str = "af_xdp";
const QUEUES: u16 = 16;
/// The address family; not every C library's headers have it.
const AF_XDP: libc::c_int = 44;
/// Bytes of the pool to make usable before the memory is registered, per queue.
const MEMORY: usize = 8 << 20;
/// Bytes that a socket may have in flight: more than all its frames take in the kernel.
const IN_FLIGHT: i32 = 16 << 20;

/// The first value of each key is the default.
const ZERO_COPY: &[&str] = &["auto", "on", "off"];
const NEED_WAKEUP: &[&str] = &["on", "off"];
/// Frames that a call of busy polling takes at most: more need `CAP_NET_ADMIN`.
const BUDGET: i32 = 64;
const ATTACH: &[&str] = &["auto", "native", "skb"];

/// Makes a socket of the calling thread's network namespace.
fn socket(family: libc::c_int, kind: libc::c_int) -> io::Result<OwnedFd> {
    let kind = kind | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: no memory is passed.
    match unsafe { libc::socket(family, kind, 0) } {
        -1 => Err(io::Error::last_os_error()),
        // SAFETY: the call returned a new descriptor.
        fd => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
    }
}

/// Lets a socket have all its frames in flight. A socket that may not is slower.
fn widen(socket: &OwnedFd) {
    let size = IN_FLIGHT;
    for option in [libc::SO_SNDBUF, libc::SO_SNDBUFFORCE] {
        let (fd, len) = (socket.as_raw_fd(), size_of::<i32>() as libc::socklen_t);
        let value = (&raw const size).cast();
        // SAFETY: the value is whole and lives through the call.
        unsafe { libc::setsockopt(fd, libc::SOL_SOCKET, option, value, len) };
    }
}

/// Has a socket's system calls poll the device for some microseconds.
fn poll_busily(socket: &OwnedFd, micros: i32) -> io::Result<()> {
    for (option, value) in [
        (libc::SO_PREFER_BUSY_POLL, 1),
        (libc::SO_BUSY_POLL, micros),
        (libc::SO_BUSY_POLL_BUDGET, BUDGET),
    ] {
        let (fd, len) = (socket.as_raw_fd(), size_of::<i32>() as libc::socklen_t);
        let value = (&raw const value).cast();
        // SAFETY: the value is whole and lives through the call.
        if unsafe { libc::setsockopt(fd, libc::SOL_SOCKET, option, value, len) } == -1 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// The microseconds of `busy_poll`.
fn busy_poll(keys: &Keys) -> Result<i32> {
    let micros: u32 = keys.number("busy_poll", 0)?;
    i32::try_from(micros).map_err(|_| {
        let what = format!("busy_poll={micros} is not a valid value for busy_poll");
        Error::new(NAME, what)
    })
}

/// The range of queues of a description.
fn queues(keys: &Keys) -> Result<std::ops::Range<u32>> {
    let first: u16 = keys.number("queue", 0)?;
    let count: u16 = keys.number("queues", 1)?;
    if !(1..=QUEUES).contains(&count) {
        return Err(Error::new(
            NAME,
            format!("queues must be from 1 to {QUEUES}"),
        ));
    }
    Ok(first.into()..u32::from(first) + u32::from(count))
}

/// Opens, in this order: a socket for requests about the device, the map, the program's link, a socket per queue, and,
/// unless the kernel copies, another socket per queue for [`queue::Probe`].
fn open(keys: &Keys) -> Result<Vec<OwnedFd>> {
    let name = keys.require("dev")?;
    let queues = queues(keys)?;
    let zero_copy = keys.choice("zero_copy", ZERO_COPY)?;
    keys.choice("need_wakeup", NEED_WAKEUP)?;
    let micros = busy_poll(keys)?;
    let attach: &[u32] = match keys.choice("attach", ATTACH)? {
        0 => &[bpf::DRV_MODE, bpf::SKB_MODE],
        1 => &[bpf::DRV_MODE],
        _ => &[bpf::SKB_MODE],
    };
    let requests = socket(libc::AF_INET, libc::SOCK_DGRAM).map_err(failed(NAME, "socket"))?;
    let device = Device::new(requests.as_fd(), name).map_err(failed(NAME, name))?;
    let sockets = queues.clone().map(|_| {
        let socket = socket(AF_XDP, libc::SOCK_RAW).map_err(failed(NAME, "socket(AF_XDP)"))?;
        widen(&socket);
        if micros > 0 {
            poll_busily(&socket, micros).map_err(failed(NAME, "SO_BUSY_POLL"))?;
        }
        Ok(socket)
    });
    let mut sockets: Vec<_> = sockets.collect::<Result<_>>()?;
    if zero_copy != 2 {
        for _ in queues.clone() {
            let probe = socket(AF_XDP, libc::SOCK_RAW).map_err(failed(NAME, "socket(AF_XDP)"))?;
            sockets.push(probe);
        }
    }
    let map = bpf::map(queues.end).map_err(failed(NAME, "BPF_MAP_TYPE_XSKMAP"))?;
    let mut link = Err(io::ErrorKind::Unsupported.into());
    for flags in attach {
        if link.is_err() {
            link = bpf::attach(map.as_fd(), device.ifindex, *flags);
        }
    }
    let link = link.map_err(failed(NAME, format!("{name}: the XDP program")))?;
    Ok([requests, map, link].into_iter().chain(sockets).collect())
}

/// A device of the host.
#[derive(Debug)]
struct Device {
    ifindex: u32,
    facts: Facts,
}

impl Device {
    /// Asks about a device in the network namespace of a socket.
    fn new(socket: BorrowedFd<'_>, name: &str) -> io::Result<Self> {
        let text = CString::new(name)?;
        // SAFETY: zero bytes are an empty name and an empty union.
        let mut ifreq: libc::ifreq = unsafe { std::mem::zeroed() };
        if text.as_bytes().len() >= ifreq.ifr_name.len() {
            return Err(io::Error::from_raw_os_error(libc::ENODEV));
        }
        for (to, byte) in ifreq.ifr_name.iter_mut().zip(text.as_bytes()) {
            *to = *byte as _;
        }
        let mut ask = |code| -> io::Result<libc::ifreq> {
            // SAFETY: these requests read and write the structure and nothing else.
            match unsafe { libc::ioctl(socket.as_raw_fd(), code, &raw mut ifreq) } {
                -1 => Err(io::Error::last_os_error()),
                _ => Ok(ifreq),
            }
        };
        // SAFETY: each request sets the field that is read after it.
        let (ifindex, mtu, hardware) = unsafe {
            (
                ask(libc::SIOCGIFINDEX as _)?.ifr_ifru.ifru_ifindex,
                ask(libc::SIOCGIFMTU as _)?.ifr_ifru.ifru_mtu,
                ask(libc::SIOCGIFHWADDR as _)?.ifr_ifru.ifru_hwaddr,
            )
        };
        let octets = hardware.sa_data.map(|octet| octet as u8);
        let address = octets
            .first_chunk()
            .filter(|_| hardware.sa_family == libc::ARPHRD_ETHER);
        Ok(Self {
            ifindex: ifindex as u32,
            facts: Facts {
                address: address.copied(),
                mtu: u32::try_from(mtu).ok(),
                name: name.to_owned(),
            },
        })
    }
}

fn adopt(keys: &Keys, files: Vec<OwnedFd>, site: &Site) -> Result<Arc<dyn Port>> {
    let pool = &site.pool;
    let name = keys.require("dev")?;
    let numbers = queues(keys)?;
    let zero_copy = keys.choice("zero_copy", ZERO_COPY)?;
    let mode = match zero_copy {
        0 => 0,
        1 => libc::XDP_ZEROCOPY,
        _ => libc::XDP_COPY,
    };
    let always = keys.choice("need_wakeup", NEED_WAKEUP)? == 1;
    let flags = match always {
        true => mode,
        false => mode | libc::XDP_USE_NEED_WAKEUP,
    };
    let polls = busy_poll(keys)? > 0;
    let mut files = files.into_iter();
    let (Some(requests), Some(map), Some(link)) = (files.next(), files.next(), files.next()) else {
        return Err(Error::new(NAME, "a map, a link and sockets are expected"));
    };
    let mut sockets: Vec<_> = files.collect();
    let per_queue = if zero_copy == 2 { 1 } else { 2 };
    if sockets.len() != numbers.len() * per_queue {
        return Err(Error::new(NAME, "a socket per queue is expected"));
    }
    let probes = sockets.split_off(numbers.len());
    let mut probes = probes.into_iter();
    let device = Device::new(requests.as_fd(), name).map_err(failed(NAME, name))?;
    pool.commit(MEMORY * numbers.len());
    let mut port = AfXdp {
        queues: Vec::new(),
        always,
        polls,
        map,
        _link: link,
        facts: device.facts,
        counters: Counters::default(),
    };
    for (number, socket) in numbers.zip(sockets) {
        let what = || format!("{name}: queue {number}");
        let probe = probes.next();
        let probe = probe.map(|probe| queue::Probe::new(probe, (device.ifindex, number)));
        let probe = probe.transpose().map_err(failed(NAME, what()))?;
        let halves = queue::bind(&socket, pool, (device.ifindex, number), flags);
        let (receiver, sender) = halves.map_err(failed(NAME, what()))?;
        port.queues.push(Queue {
            number,
            socket,
            probe,
            receiver: Mutex::new(receiver),
            sender: Mutex::new(sender),
        });
        let socket = port.queues.last().map(|queue| queue.socket.as_fd());
        bpf::set(port.map.as_fd(), number, socket).map_err(failed(NAME, what()))?;
    }
    Ok(Arc::new(port))
}

/// A queue.
#[derive(Debug)]
struct Queue {
    /// The device's number.
    number: u32,
    socket: OwnedFd,
    /// There is none if the kernel copies, so that nobody writes to the port's memory once the socket is closed.
    probe: Option<queue::Probe>,
    receiver: Mutex<Receiver>,
    sender: Mutex<Sender>,
}

/// AF_XDP sockets on queues of one of the host's devices.
#[derive(Debug)]
struct AfXdp {
    queues: Vec<Queue>,
    /// The kernel does not say when it needs a system call to send.
    always: bool,
    /// A system call polls the device.
    polls: bool,
    map: OwnedFd,
    /// The program runs as long as the link is open.
    _link: OwnedFd,
    facts: Facts,
    counters: Counters,
}

impl AfXdp {
    fn queue(&self, queue: u16) -> &Queue {
        &self.queues[usize::from(queue) % self.queues.len()]
    }
}

impl Drop for AfXdp {
    fn drop(&mut self) {
        for queue in self.queues.drain(..) {
            // Frames go to the host from now on. A device that is gone has left the map already.
            let _ = bpf::set(self.map.as_fd(), queue.number, None);
            let receiver = queue.receiver.into_inner();
            let sender = queue.sender.into_inner();
            queue::close(
                queue.socket,
                receiver.unwrap_or_else(PoisonError::into_inner),
                sender.unwrap_or_else(PoisonError::into_inner),
                queue.probe,
            );
        }
    }
}

impl Port for AfXdp {
    fn kind(&self) -> &'static str {
        NAME
    }

    fn facts(&self) -> Facts {
        self.facts.clone()
    }

    fn queues(&self) -> u16 {
        self.queues.len() as u16
    }

    fn descriptor(&self, queue: u16) -> Option<BorrowedFd<'_>> {
        Some(self.queue(queue).socket.as_fd())
    }

    fn sifts(&self) -> bool {
        true
    }

    fn take(
        &self,
        queue: u16,
        memory: &mut Cache,
        batch: &mut Batch,
        mut sieve: Option<Sieve<'_>>,
    ) -> io::Result<usize> {
        let queue = self.queue(queue);
        let mut receiver = queue
            .receiver
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let mut look = |receiver: &mut Receiver| {
            let sieve = sieve.as_mut().map(|sieve| &mut **sieve as Sieve<'_>);
            receiver.receive(memory, batch, &self.counters, sieve)
        };
        let mut count = look(&mut receiver);
        if count == 0 && self.polls {
            receiver.poll(&queue.socket);
            count = look(&mut receiver);
        }
        receiver.wake(&queue.socket);
        if let Ok(mut sender) = queue.sender.try_lock() {
            sender.reclaim(memory);
        }
        if count == 0 && receiver.is_time_to_ask() {
            // The socket reports once that its device is gone.
            if let Some(error) = rustix::net::sockopt::socket_error(&queue.socket)?.err() {
                return Err(error.into());
            }
            Counters::add(&self.counters.rx_dropped, receiver.lost(&queue.socket)?);
        }
        Ok(count)
    }

    fn send(&self, queue: u16, frames: &[Packet]) -> io::Result<usize> {
        let queue = self.queue(queue);
        let mut sender = queue.sender.lock().unwrap_or_else(PoisonError::into_inner);
        let mut done = sender.send(frames, &self.counters);
        sender.wake(&queue.socket, self.always)?;
        if done < frames.len() {
            // The call above may have made room.
            done += sender.send(frames.get(done..).unwrap_or_default(), &self.counters);
            sender.wake(&queue.socket, self.always)?;
        }
        Ok(done)
    }

    fn pass(
        &self,
        queue: u16,
        frames: &mut Batch,
        spent: &mut Batch,
        show: &mut dyn FnMut(&[Packet]),
    ) -> io::Result<usize> {
        let queue = self.queue(queue);
        let mut sender = queue.sender.lock().unwrap_or_else(PoisonError::into_inner);
        let mut done = sender.pass(frames, spent, &self.counters, show);
        sender.wake(&queue.socket, self.always)?;
        if !frames.is_empty() {
            // The call above may have made room.
            done += sender.pass(frames, spent, &self.counters, show);
            sender.wake(&queue.socket, self.always)?;
        }
        sender.settle(spent);
        Ok(done)
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }
}
