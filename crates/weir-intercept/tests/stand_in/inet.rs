// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Internet sockets of the stand-in: a network in which everybody answers with what they got.
//!
//! Port 1 is unreachable, and refuses connections. A datagram to port 2 is answered by a pending ECONNREFUSED. A
//! connection to port 7 is made after some milliseconds, others at once. A listening socket gets one connection.
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use weir_intercept::datagram::{Datagram, WAKE};
use weir_intercept::transport::Connection;
use weir_intercept::{Errno, InetCall, InetReply, SocketId};

const LATER: Duration = Duration::from_millis(30);

enum End {
    Datagrams(Connection),
    Stream(UnixStream),
}

struct Socket {
    end: Arc<End>,
    family: i32,
    local: Vec<u8>,
    peer: Vec<u8>,
    options: BTreeMap<(i32, i32), Vec<u8>>,
    error: i32,
}

/// Makes a pair that keeps the borders of datagrams.
#[allow(unsafe_code)] // std has no such pair
fn packets() -> (OwnedFd, OwnedFd) {
    let mut fds = [-1; 2];
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    // SAFETY: there is room for two descriptors.
    let made = unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, fds.as_mut_ptr()) };
    assert_eq!(made, 0);
    // SAFETY: both are new and nobody else's.
    unsafe { (OwnedFd::from_raw_fd(fds[0]), OwnedFd::from_raw_fd(fds[1])) }
}

#[derive(Default)]
pub struct Inet {
    sockets: Mutex<BTreeMap<u64, Socket>>,
}

fn port(address: &[u8]) -> u16 {
    u16::from_be_bytes([address[2], address[3]])
}

/// Returns what came, for ever, once the filling is gone. The byte before is the one that the stack holds.
fn echo(end: &Arc<End>, filling: usize) {
    let end = end.clone();
    std::thread::spawn(move || {
        let End::Stream(stream) = &*end else { return };
        std::thread::sleep(LATER);
        let mut skipped = vec![0; filling + 1];
        if (&mut &*stream).read_exact(&mut skipped).is_err() {
            return;
        }
        let mut buffer = [0; 4096];
        while let Ok(n @ 1..) = (&mut &*stream).read(&mut buffer) {
            if (&mut &*stream).write_all(&buffer[..n]).is_err() {
                return;
            }
        }
        let _ = stream.shutdown(std::net::Shutdown::Both);
    });
}

impl Inet {
    fn add(&self, family: i32, is_stream: bool) -> (u64, OwnedFd) {
        let (client, end) = if is_stream {
            let (client, end) = UnixStream::pair().unwrap();
            (&client).write_all(&[0]).unwrap();
            (OwnedFd::from(client), End::Stream(end))
        } else {
            let (client, end) = packets();
            (client, End::Datagrams(Connection::new(end)))
        };
        let mut sockets = self.sockets.lock().unwrap();
        let id = sockets.len() as u64 + 1;
        let mut local = vec![0; if family == libc::AF_INET { 16 } else { 28 }];
        local[..2].copy_from_slice(&(family as u16).to_ne_bytes());
        let socket = Socket {
            end: Arc::new(end),
            family,
            local,
            peer: Vec::new(),
            options: BTreeMap::new(),
            error: 0,
        };
        sockets.insert(id, socket);
        (id, client)
    }

    pub fn serve(&self, call: InetCall, bytes: &[u8]) -> Result<InetReply, Errno> {
        if let InetCall::Open { family, kind, .. } = call {
            if family == libc::AF_PACKET {
                return Err(Errno(libc::EAFNOSUPPORT));
            }
            let (id, file) = self.add(family, kind == libc::SOCK_STREAM);
            return Ok(InetReply {
                value: id as i64,
                bytes: Vec::new(),
                file: Some(file),
                ..InetReply::default()
            });
        }
        if matches!(call, InetCall::OpenTun { .. } | InetCall::Tun(..)) {
            return Err(Errno(libc::EBADF));
        }
        let (InetCall::Bind(id)
        | InetCall::Connect(id)
        | InetCall::Filled { socket: id, .. }
        | InetCall::Listen(id, _)
        | InetCall::Accept { socket: id, .. }
        | InetCall::Send { socket: id, .. }
        | InetCall::ReceiveError(id)
        | InetCall::Ready(id)
        | InetCall::LocalAddress(id)
        | InetCall::PeerAddress(id)
        | InetCall::SetOption(id, ..)
        | InetCall::Option(id, ..)
        | InetCall::Queued(id)
        | InetCall::Delivered(id)
        | InetCall::Shutdown(id, _)) = call
        else {
            unreachable!("an open is served above")
        };
        self.on(id, call, bytes)
    }

    fn on(&self, id: SocketId, call: InetCall, bytes: &[u8]) -> Result<InetReply, Errno> {
        if let InetCall::Accept { counted, .. } = call {
            if !counted {
                return Err(Errno(libc::EAGAIN));
            }
            let (id, file) = self.add(libc::AF_INET, true);
            let mut sockets = self.sockets.lock().unwrap();
            let socket = sockets.get_mut(&id).unwrap();
            socket.peer = vec![2, 0, 0, 9, 10, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0];
            echo(&socket.end, 0);
            return Ok(InetReply {
                value: id as i64,
                bytes: socket.peer.clone(),
                file: Some(file),
                ..InetReply::default()
            });
        }
        let mut sockets = self.sockets.lock().unwrap();
        let socket = sockets.get_mut(&id.0).ok_or(Errno(libc::EBADF))?;
        let mut reply = InetReply::default();
        match call {
            InetCall::Bind(_) if bytes.len() < socket.local.len() => {
                return Err(Errno(libc::EINVAL));
            }
            InetCall::Bind(_) => socket.local = bytes[..socket.local.len()].to_vec(),
            InetCall::Connect(_) => {
                let family = bytes
                    .first_chunk()
                    .map(|family| u16::from_ne_bytes(*family));
                if family.is_none() {
                    return Err(Errno(libc::EINVAL));
                }
                if family == Some(0) {
                    socket.peer.clear();
                    return Ok(reply);
                }
                if bytes.len() < 16 || i32::from(family.unwrap_or(0)) != socket.family {
                    return Err(Errno(libc::EAFNOSUPPORT));
                }
                socket.peer = bytes.to_vec();
                match (&*socket.end, port(bytes)) {
                    (End::Stream(_), 1) => return Err(Errno(libc::ECONNREFUSED)),
                    (End::Stream(_), 7) => return Err(Errno(libc::EINPROGRESS)),
                    (End::Stream(_), _) => echo(&socket.end, 0),
                    _ => {}
                }
            }
            InetCall::Filled { length, .. } => echo(&socket.end, length as usize),
            InetCall::Listen(..) => {
                let end = socket.end.clone();
                std::thread::spawn(move || {
                    std::thread::sleep(LATER);
                    if let End::Stream(stream) = &*end {
                        let _ = (&mut &*stream).write_all(&[0]);
                    }
                });
            }
            InetCall::Send { to, control, .. } => {
                let (to, data) = bytes.split_at(to.into());
                let data = &data[control as usize..];
                let to = if to.is_empty() { &socket.peer } else { to };
                let End::Datagrams(end) = &*socket.end else {
                    return Err(Errno(libc::EOPNOTSUPP));
                };
                if to.len() < 4 {
                    return Err(Errno(libc::EDESTADDRREQ));
                }
                let mut answer = Datagram {
                    from: to,
                    control: &[],
                    data,
                    length: data.len() as u32,
                    flags: 0,
                    time: 0,
                };
                match port(to) {
                    1 => return Err(Errno(libc::ENETUNREACH)),
                    2 => {
                        socket.error = libc::ECONNREFUSED;
                        (answer.from, answer.data, answer.flags) = (&[], &[], WAKE);
                    }
                    _ => {}
                }
                end.send(&answer.to_bytes())?;
                reply.value = data.len() as i64;
            }
            InetCall::Ready(_) => {
                let error = if socket.error == 0 { 0 } else { libc::POLLERR };
                reply.value = error.into();
            }
            InetCall::LocalAddress(_) => reply.bytes.clone_from(&socket.local),
            InetCall::PeerAddress(_) if socket.peer.is_empty() => {
                return Err(Errno(libc::ENOTCONN));
            }
            InetCall::PeerAddress(_) => reply.bytes.clone_from(&socket.peer),
            InetCall::SetOption(_, level, name) => {
                socket.options.insert((level, name), bytes.to_vec());
            }
            InetCall::Option(_, libc::SOL_SOCKET, libc::SO_ERROR) => {
                reply.bytes = std::mem::take(&mut socket.error).to_ne_bytes().into();
            }
            InetCall::Option(_, level, name) => {
                let value = socket.options.get(&(level, name)).cloned();
                reply.bytes = value.unwrap_or_else(|| vec![0; 4]);
            }
            _ => return Err(Errno(libc::EAGAIN)),
        }
        Ok(reply)
    }
}
