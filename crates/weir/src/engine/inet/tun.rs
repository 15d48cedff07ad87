// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The files of programs that have opened `/dev/net/tun` ([`weir_stack::link::tun`]).
//!
//! The program's descriptor is one end of a UNIX pair with one packet per frame, so that reads, writes, `poll` and `epoll`
//! are native. Its ioctls come as calls of the supervisor. The frames of a program are received by the device in the
//! thread that serves all sockets.

use std::sync::{Arc, Mutex, Weak};

use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::io::Errno as Os;
use rustix::net::{
    RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown as Direction, SocketType, recv, sendmsg,
    shutdown, sockopt,
};
use std::io::IoSlice;
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use weir_intercept::{Errno, InetReply, NsId, SocketId, tun as ioctl};
use weir_packet::Batch;
use weir_packet::vnet::PARTS;
use weir_stack::cpu::Cx;
use weir_stack::datapath;
use weir_stack::device::Device;
use weir_stack::link::tun::{self, File, Tun, flag};

use super::super::{from_stack, lock};
use super::{Engine, bytes_only, pair};

/// The events of a file: it is served until nothing is left.
const INTEREST: epoll::EventFlags = epoll::EventFlags::IN.union(epoll::EventFlags::RDHUP);
/// The longest frame with its headers, in bytes.
const LONGEST: usize = 66_000;
/// What may wait for a program, in bytes with the kernel's overhead, if the host allows it.
const WAITING: usize = 2 << 20;
/// The most frames that are taken at once.
const AT_ONCE: usize = 256;
const IFNAMSIZ: usize = 16;
/// The size of a struct ifreq.
const IFREQ: usize = 40;

const INVALID: Errno = Errno(libc::EINVAL);

/// The device that a file is attached to.
#[derive(Clone)]
struct Attached {
    device: Arc<Device>,
    tun: Arc<Tun>,
    /// TUNSETQUEUE has detached the file.
    detached: bool,
}

/// An open file.
pub(super) struct TunFile {
    id: u64,
    ns: weir_stack::NsId,
    engine: Weak<Engine>,
    wire: OwnedFd,
    /// The index that the next device gets (TUNSETIFINDEX), or 0.
    ifindex: AtomicU32,
    attached: Mutex<Option<Attached>>,
}

impl File for TunFile {
    fn frame(&self, parts: [&[u8]; PARTS]) -> bool {
        let slices = parts.map(IoSlice::new);
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let mut control = SendAncillaryBuffer::default();
        let sent = sendmsg(&self.wire, &slices, &mut control, flags).is_ok();
        if sent && let Some(engine) = self.engine.upgrade() {
            engine.time.sent().fetch_add(1, SeqCst);
        }
        sent
    }

    fn gone(&self) {
        lock(&self.attached).take();
        // The program reads the end of file.
        let _ = shutdown(&self.wire, Direction::Write);
    }

    fn id(&self) -> u64 {
        self.id
    }
}

impl TunFile {
    fn attached(&self) -> Option<Attached> {
        lock(&self.attached).clone()
    }

    /// Has the device receive what the program has written. Returns false at the end of it.
    fn receive(&self, cx: &mut Cx<'_>) -> bool {
        let attached = self.attached().filter(|attached| !attached.detached);
        let mut buffer = Vec::with_capacity(LONGEST);
        let mut batch = Batch::new();
        let mut open = true;
        for _ in 0..AT_ONCE {
            buffer.clear();
            match recv(&self.wire, spare_capacity(&mut buffer), RecvFlags::DONTWAIT) {
                Ok((length, _)) if length > 0 => {}
                Ok(_) if self.is_open() => continue,
                Err(Os::INTR) => continue,
                Err(Os::AGAIN) => break,
                _ => {
                    open = false;
                    break;
                }
            };
            let Some(Attached { device, tun, .. }) = &attached else {
                continue;
            };
            let packet = tun.packet(cx, &buffer).filter(|_| device.is_up());
            let Some(packet) = packet else {
                let stats = device.stats(cx.state.id);
                stats.rx_dropped.fetch_add(1, Relaxed);
                continue;
            };
            if let Err(packet) = batch.push(packet) {
                receive(cx, device, std::mem::take(&mut batch));
                // There is room now.
                let _ = batch.push(packet);
            }
        }
        if let (Some(attached), false) = (&attached, batch.is_empty()) {
            receive(cx, &attached.device, batch);
        }
        open
    }

    /// Returns whether there is something to receive.
    fn is_readable(&self) -> bool {
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        poll(&mut [PollFd::new(&self.wire, PollFlags::IN)], Some(&now)) != Ok(0)
    }

    /// Returns whether the program has the file open.
    fn is_open(&self) -> bool {
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let mut end = [PollFd::new(&self.wire, PollFlags::RDHUP)];
        poll(&mut end, Some(&now)) == Ok(0)
    }
}

/// Has a device receive packets.
fn receive(cx: &mut Cx<'_>, device: &Arc<Device>, batch: Batch) {
    match device.is_bare() {
        true => datapath::receive(cx, device, batch),
        false => datapath::receive_frames(cx, device, batch),
    }
}

/// An integer argument.
fn int(bytes: &[u8]) -> Result<i32, Errno> {
    let bytes = bytes.first_chunk().ok_or(INVALID)?;
    Ok(i32::from_ne_bytes(*bytes))
}

/// The flags of a struct ifreq.
fn flags_of(ifreq: &[u8]) -> Result<u32, Errno> {
    let flags = ifreq.get(IFNAMSIZ..IFNAMSIZ + 2).ok_or(INVALID)?;
    Ok(u32::from(u16::from_ne_bytes([flags[0], flags[1]])))
}

fn number(value: u32) -> InetReply {
    bytes_only(value.to_ne_bytes().to_vec())
}

impl Engine {
    /// Opens `/dev/net/tun` in a namespace.
    pub(super) fn open_tun(&self, ns: NsId) -> Result<InetReply, Errno> {
        let ns = self.ns(ns)?;
        let (client, wire) = pair(SocketType::SEQPACKET)?;
        // The pair keeps its size if the host allows no other.
        if sockopt::set_socket_send_buffer_size_force(&wire, WAITING).is_err() {
            let _ = sockopt::set_socket_send_buffer_size(&wire, WAITING);
        }
        let file = Arc::new(TunFile {
            id: self.last_socket.fetch_add(1, Relaxed) + 1,
            ns: ns.id,
            engine: self.me.clone(),
            wire,
            ifindex: AtomicU32::new(0),
            attached: Mutex::new(None),
        });
        lock(&self.inet.tuns).insert(file.id, file.clone());
        if let Err(error) = self.watch(file.id, &file.wire, INTEREST) {
            lock(&self.inet.tuns).remove(&file.id);
            return Err(error);
        }
        Ok(InetReply {
            value: file.id as i64,
            bytes: Vec::new(),
            file: Some(client.file),
            identity: Some(client.identity),
        })
    }

    pub(super) fn tun_file(&self, id: SocketId) -> Result<Arc<TunFile>, Errno> {
        let files = lock(&self.inet.tuns);
        files.get(&id.0).cloned().ok_or(Errno(libc::EBADF))
    }

    /// Returns whether a file is open in a namespace.
    pub(super) fn has_tun_files(&self, ns: weir_stack::NsId) -> bool {
        lock(&self.inet.tuns).values().any(|file| file.ns == ns)
    }

    /// Serves an ioctl of a file (`__tun_chr_ioctl`). `bytes` are the `ifreq`, or the number.
    pub(super) fn tun_ioctl(
        &self,
        id: SocketId,
        request: u32,
        bytes: &[u8],
    ) -> Result<InetReply, Errno> {
        let file = self.tun_file(id)?;
        let _one = lock(&self.inet.tun_changes);
        let attached = file.attached();
        match request {
            ioctl::GETFEATURES => {
                return Ok(number(
                    flag::TUN | flag::TAP | flag::NO_CARRIER | flag::FEATURES,
                ));
            }
            ioctl::SETQUEUE => return self.set_queue(&file, flags_of(bytes)?),
            ioctl::SETIFINDEX if attached.is_some() => return Err(Errno(libc::EPERM)),
            ioctl::SETIFINDEX => match int(bytes)? {
                ..0 => return Err(INVALID),
                index => {
                    file.ifindex.store(index as u32, Relaxed);
                    return Ok(InetReply::default());
                }
            },
            ioctl::SETIFF if attached.is_some() => return Err(Errno(libc::EEXIST)),
            ioctl::SETIFF => return self.attach_tun(&file, bytes),
            _ => {}
        }
        let Some(Attached {
            device,
            tun,
            detached,
        }) = attached.filter(|attached| !attached.detached || request == ioctl::GETIFF)
        else {
            return Err(Errno(libc::EBADFD));
        };
        match request {
            ioctl::GETIFF => {
                let mut flags = tun.flags() | flag::NOFILTER;
                if detached {
                    flags |= flag::DETACH_QUEUE;
                }
                return Ok(ifreq(&device, flags));
            }
            ioctl::SETNOCSUM => {}
            ioctl::SETPERSIST => tun.set_persistent(int(bytes)? != 0),
            ioctl::SETOWNER => match int(bytes)? {
                -1 => return Err(INVALID),
                id => tun.set_owner(id as u32),
            },
            ioctl::SETGROUP => match int(bytes)? {
                -1 => return Err(INVALID),
                id => tun.set_group(id as u32),
            },
            ioctl::SETLINK if device.is_up() => return Err(Errno(libc::EBUSY)),
            ioctl::SETLINK => tun.set_hardware(int(bytes)? as u16),
            ioctl::SETOFFLOAD => {
                let guard = self.stack.domain.pin();
                let wanted = int(bytes)? as u32;
                tun.set_offload(&self.stack, &guard, &device, wanted)
                    .map_err(Errno)?;
            }
            ioctl::GETSNDBUF => return Ok(number(tun.sndbuf())),
            ioctl::SETSNDBUF => match int(bytes)? {
                ..=0 => return Err(INVALID),
                size => tun.set_sndbuf(size as u32),
            },
            ioctl::GETVNETHDRSZ => return Ok(number(tun.vnet_len())),
            ioctl::SETVNETHDRSZ => tun.set_vnet_len(int(bytes)? as u32).map_err(Errno)?,
            ioctl::GETVNETLE => return Ok(number(tun.is_little().into())),
            ioctl::SETVNETLE if cfg!(target_endian = "little") => tun.set_little(int(bytes)? != 0),
            ioctl::SETCARRIER => {
                let guard = self.stack.domain.pin();
                tun.set_carrier(&self.stack, &guard, &device, int(bytes)? != 0);
            }
            ioctl::GETDEVNETNS => {
                let guard = self.stack.domain.pin();
                return Ok(InetReply {
                    value: i64::from(from_stack(device.namespace(&guard).id).0),
                    ..InetReply::default()
                });
            }
            // Filters are for TAP devices.
            ioctl::SETTXFILTER | ioctl::ATTACHFILTER | ioctl::DETACHFILTER | ioctl::GETFILTER
                if tun.flags() & flag::TAP != 0 =>
            {
                return Err(Errno(libc::EOPNOTSUPP));
            }
            _ => return Err(INVALID),
        }
        Ok(InetReply::default())
    }

    /// Attaches a file to a device, which is made if it does not exist (`tun_set_iff`).
    fn attach_tun(&self, file: &Arc<TunFile>, bytes: &[u8]) -> Result<InetReply, Errno> {
        let name = bytes.get(..IFNAMSIZ - 1).ok_or(INVALID)?;
        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
        let name = std::str::from_utf8(name).map_err(|_| INVALID)?;
        let flags = flags_of(bytes)?;
        let ns = self.stack.namespace(file.ns).ok_or(INVALID)?;
        let guard = self.stack.domain.pin();
        let (device, tun) = match ns.device_by_name(name) {
            Some(_) if flags & flag::EXCL != 0 => return Err(Errno(libc::EBUSY)),
            Some(device) => {
                let tun = tun::tun_of(&device).ok_or(INVALID)?.clone();
                let ty = flag::TUN | flag::TAP;
                let same =
                    flags & tun.flags() & ty != 0 && (flags ^ tun.flags()) & flag::MULTI_QUEUE == 0;
                if !same {
                    return Err(INVALID);
                }
                (device, tun)
            }
            None => tun::create(&self.stack, &ns, name, flags, file.ifindex.load(Relaxed))
                .map_err(|error| Errno(error.errno))?,
        };
        tun.attach(&self.stack, &guard, &device, file.clone(), Some(flags))
            .map_err(Errno)?;
        *lock(&file.attached) = Some(Attached {
            device: device.clone(),
            tun,
            detached: false,
        });
        // The rest of the flags is the caller's.
        let mut reply = bytes.to_vec();
        reply[..IFNAMSIZ].copy_from_slice(&ifreq(&device, 0).bytes[..IFNAMSIZ]);
        Ok(bytes_only(reply))
    }

    /// Serves TUNSETQUEUE (`tun_set_queue`).
    fn set_queue(&self, file: &Arc<TunFile>, flags: u32) -> Result<InetReply, Errno> {
        let guard = self.stack.domain.pin();
        let Some(Attached {
            device,
            tun,
            detached,
        }) = file.attached()
        else {
            return Err(INVALID);
        };
        match flags & (flag::ATTACH_QUEUE | flag::DETACH_QUEUE) {
            flag::ATTACH_QUEUE if detached => {
                tun.attach(&self.stack, &guard, &device, file.clone(), None)
                    .map_err(Errno)?;
            }
            flag::DETACH_QUEUE if !detached && tun.flags() & flag::MULTI_QUEUE != 0 => {
                tun.detach(&self.stack, &guard, &device, file.id, true);
            }
            _ => return Err(INVALID),
        }
        *lock(&file.attached) = Some(Attached {
            device,
            tun,
            detached: !detached,
        });
        Ok(InetReply::default())
    }

    /// Serves an event of a file. Returns false if there is no such file.
    pub(super) fn tun_event(&self, id: u64) -> bool {
        let Ok(file) = self.tun_file(SocketId(id)) else {
            return false;
        };
        let open = self.with_cx(|cx| file.receive(cx));
        if !open {
            self.close_tun(&file);
        }
        true
    }

    /// Has the devices receive what programs have written, and closes the files that programs have closed: a program that
    /// writes a frame and then asks for something finds what the frame has done.
    pub(in super::super) fn take_frames(&self) {
        let readable: Vec<u64> = {
            let files = lock(&self.inet.tuns);
            if files.is_empty() {
                return;
            }
            let readable = files.values().filter(|file| file.is_readable());
            readable.map(|file| file.id).collect()
        };
        for id in readable {
            self.tun_event(id);
        }
        // Another thread may have taken a frame, and not be done with it.
        drop(self.cpu());
    }

    fn close_tun(&self, file: &TunFile) {
        if lock(&self.inet.tuns).remove(&file.id).is_none() {
            return;
        }
        if let Some(watch) = self.inet.watch.get() {
            // An end that is not watched needs no removal.
            let _ = epoll::delete(watch, &file.wire);
        }
        {
            let _one = lock(&self.inet.tun_changes);
            if let Some(Attached { device, tun, .. }) = file.attached() {
                let guard = self.stack.domain.pin();
                if tun.detach(&self.stack, &guard, &device, file.id, false) {
                    weir_stack::link::unregister(&self.stack, &[device]);
                }
            }
            lock(&file.attached).take();
        }
        self.reap(from_stack(file.ns));
    }
}

/// A struct ifreq with the name of a device and flags.
fn ifreq(device: &Device, flags: u32) -> InetReply {
    let mut bytes = vec![0; IFREQ];
    let names = device.names();
    let length = names.name.len().min(IFNAMSIZ - 1);
    bytes[..length].copy_from_slice(&names.name.as_bytes()[..length]);
    bytes[IFNAMSIZ..IFNAMSIZ + 2].copy_from_slice(&(flags as u16).to_ne_bytes());
    bytes_only(bytes)
}
