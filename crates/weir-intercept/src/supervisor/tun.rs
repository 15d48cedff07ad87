// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `/dev/net/tun`: the stack makes the device and gives the program one end of a `SOCK_SEQPACKET` pair, so that reads,
//! writes and waits are native. Only ioctls stop.
//!
//! A descriptor differs from Linux's where the program does what it would not do with a frame: `fstat` shows a socket; a
//! read or write before TUNSETIFF waits or is lost instead of failing with EBADFD; a frame that Linux refuses (EINVAL, EIO
//! while the device is down) is dropped and counted; the end of the device is the end of the file.
use super::{Handled, Supervisor, own_key};
use crate::backend::{Errno, InetCall, SocketId};
use crate::seccomp::{Answer, Call};
use crate::sys;
use crate::tun as ioctl;
use std::os::fd::AsFd;

/// The number of files at which those that are closed are looked for.
const MANY: usize = 256;
/// The size of a struct ifreq.
const IFREQ: usize = 40;
/// Requests of interfaces that a file takes as well.
const GIFHWADDR: u32 = libc::SIOCGIFHWADDR as u32;
const GSKNS: u32 = 0x894c;
/// Where a struct ifreq has its union.
const UNION: usize = 16;

impl Supervisor {
    /// Serves `open` of `/dev/net/tun`.
    pub(super) fn open_tun(&mut self, call: &Call, flags: i32) -> Handled {
        let ns = self.namespace(call.tid);
        self.still_waiting(call)?;
        let reply = self.backend.inet(InetCall::OpenTun { ns }, &[])?;
        let file = reply.file.ok_or(Errno(libc::EPROTO))?;
        if flags & libc::O_NONBLOCK != 0 {
            sys::set_nonblocking(file.as_fd())?;
        }
        if self.sockets.tuns.len() >= self.sockets.prune_tuns_at.max(MANY) {
            let backend = &self.backend;
            self.sockets.tuns.retain(|_, id| {
                let asked = backend.inet(InetCall::Tun(*id, ioctl::GETFEATURES), &[]);
                asked.is_ok()
            });
            self.sockets.prune_tuns_at = self.sockets.tuns.len() * 2;
        }
        let id = SocketId(reply.value as u64);
        self.sockets.tuns.insert(own_key(&file)?, id);
        let close_on_exec = flags & libc::O_CLOEXEC != 0;
        self.listener
            .answer_with(call, file.as_fd(), close_on_exec, None)
    }

    /// Returns the file of `/dev/net/tun` that a caller's descriptor is.
    pub(super) fn tun_of(&self, call: &Call) -> Option<SocketId> {
        if self.sockets.tuns.is_empty() {
            return None;
        }
        let key = Self::file_key(call.tid, call.int(0)).ok()?;
        self.sockets.tuns.get(&key).copied()
    }

    /// Serves an ioctl of such a file.
    pub(super) fn tun_ioctl(&mut self, call: &Call, file: SocketId) -> Handled {
        let (request, at) = (call.args[1] as u32, call.args[2]);
        let ask =
            |request: u32, bytes: &[u8]| self.backend.inet(InetCall::Tun(file, request), bytes);
        match request {
            ioctl::SETIFF | ioctl::SETQUEUE => {
                let ifreq: [u8; IFREQ] = sys::read_array(call.tid, at)?;
                self.still_waiting(call)?;
                let reply = ask(request, &ifreq)?;
                sys::write_memory(call.tid, at, &reply.bytes)?;
            }
            ioctl::GETIFF
            | ioctl::GETFEATURES
            | ioctl::GETSNDBUF
            | ioctl::GETVNETHDRSZ
            | ioctl::GETVNETLE => {
                let reply = ask(request, &[])?;
                sys::write_memory(call.tid, at, &reply.bytes)?;
            }
            ioctl::SETSNDBUF | ioctl::SETVNETHDRSZ | ioctl::SETVNETLE | ioctl::SETCARRIER => {
                // A file without a device comes before a bad pointer.
                ask(ioctl::GETIFF, &[])?;
                let number: [u8; 4] = sys::read_array(call.tid, at)?;
                self.still_waiting(call)?;
                ask(request, &number)?;
            }
            ioctl::SETIFINDEX => {
                let number: [u8; 4] = sys::read_array(call.tid, at)?;
                ask(request, &number)?;
            }
            ioctl::GETDEVNETNS => {
                let ns = ask(request, &[])?.value;
                return self.give_namespace(call, ns);
            }
            GSKNS => {
                let ns = self.namespace(call.tid);
                return self.give_namespace(call, i64::from(ns.0));
            }
            GIFHWADDR => {
                let mut ifreq = ask(ioctl::GETIFF, &[])?.bytes;
                let name = ifreq.split(|byte| *byte == 0).next().unwrap_or_default();
                let ns = self.namespace(call.tid);
                let (kind, address) = self.hardware_address(ns, name)?;
                let value = ifreq.get_mut(UNION..).ok_or(Errno(libc::EPROTO))?;
                value.fill(0);
                value[..2].copy_from_slice(&kind.to_ne_bytes());
                let length = address.len().min(14);
                value[2..2 + length].copy_from_slice(&address[..length]);
                sys::write_memory(call.tid, at, &ifreq)?;
            }
            _ => {
                self.still_waiting(call)?;
                ask(request, &(at as i32).to_ne_bytes())?;
            }
        }
        Ok(Answer::Value(0))
    }

    /// Gives the caller the file of a namespace.
    fn give_namespace(&mut self, call: &Call, ns: i64) -> Handled {
        let ns = crate::backend::NsId(ns as u32);
        let file = self.setup.runtime.namespace_file(ns)?;
        self.listener.answer_with(call, file.as_fd(), true, None)
    }
}
