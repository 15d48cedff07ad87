// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The control socket of a stack, which carries [`Backend`] calls and commands between processes.
//!
//! `weir up` has a [`Server`] on a path, and so does `weir run` for commands inside its script.
//! `weir exec` makes a [`Client`], which is a [`Backend`], and passes it to its
//! [`Launcher`](crate::Launcher). `weir stat` and similar commands use its [`Backend::command`],
//! with up to 64 descriptors.
//!
//! The wire is a stream socket. Each message is a length (u32, little endian) and that many bytes
//! of JSON; descriptors travel with the first bytes of a message (`SCM_RIGHTS`). A call on an internet socket and its
//! reply have bytes of their own after the JSON, as many as the message says. A connection
//! carries one request at a time and answers in order. The netlink sockets of clients do not pass
//! here: the daemon receives its end of each.
//!
//! The file's mode (0600 unless changed) decides who may connect. The server then accepts only the
//! daemon's own user and root, since supervisor and daemon both read the clients' `/proc` and the
//! stack's directory. A client in turn accepts only a daemon of its own user or of root, because
//! another user may have placed a socket at that path.
//!
//! The end of a connection voids the holds of its launches. After the daemon ends, every further
//! call fails with `ECONNREFUSED` and the clients' netlink sockets read end of file.
use crate::backend::{
    Backend, Errno, InetCall, InetReply, Node, NsId, PendingWriter, SocketGrant, SocketId,
    SocketOption, SocketRequest, StackInfo, Tree,
};
use crate::runtime::into_io;
use crate::sys;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// The longest message, in bytes: room for a dump of some ten thousand links.
const MAX_MESSAGE: usize = 64 << 20;

#[derive(Serialize, Deserialize)]
enum Request {
    Stack,
    OpenSocket(SocketRequest),
    Bind(SocketId, u32, u32),
    SetOption(SocketId, SocketOption),
    Settle(SocketId),
    IsOpen(SocketId),
    CreateNamespace(NsId),
    Hold(u64, NsId),
    Release(u64, NsId),
    EndLaunch(u64),
    Lookup(NsId, Tree, String),
    List(NsId, Tree, String),
    Read(NsId, Tree, String),
    Write(NsId, Tree, String, #[serde(with = "hex")] Vec<u8>),
    PendingWriter(NsId, Tree, String),
    Netlink(NsId, #[serde(with = "hex")] Vec<u8>),
    Ethtool(
        NsId,
        #[serde(with = "hex")] Vec<u8>,
        #[serde(with = "hex")] Vec<u8>,
    ),
    Tunnel(
        NsId,
        #[serde(with = "hex")] Vec<u8>,
        u32,
        #[serde(with = "hex")] Vec<u8>,
    ),
    /// The call, and the number of bytes that follow.
    Inet(InetCall, u32),
    Command(Value),
}

#[derive(Serialize, Deserialize)]
enum Reply {
    Done,
    Failed(Errno),
    Stack(StackInfo),
    Grant(SocketGrant),
    PortId(u32),
    Is(bool),
    Namespace(NsId),
    Node(Node),
    Names(Vec<String>),
    Bytes(#[serde(with = "hex")] Vec<u8>),
    Ethtool(#[serde(with = "hex")] Vec<u8>, i64),
    /// The value, and the number of bytes that follow.
    Inet(i64, u32),
    Command(Result<Value, String>),
}

/// Serialises bytes as a string of hexadecimal digits.
mod hex {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = String::with_capacity(bytes.len() * 2);
        for byte in bytes {
            text.push(char::from(DIGITS[usize::from(byte >> 4)]));
            text.push(char::from(DIGITS[usize::from(byte & 15)]));
        }
        to.serialize_str(&text)
    }

    pub(super) fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<Vec<u8>, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(from)?;
        let digit = |byte: u8| char::from(byte).to_digit(16);
        text.as_bytes()
            .chunks(2)
            .map(|pair| match pair {
                &[high, low] => Some((digit(high)? << 4 | digit(low)?) as u8),
                _ => None,
            })
            .collect::<Option<_>>()
            .ok_or_else(|| D::Error::custom("not hexadecimal"))
    }
}

fn send<T: Serialize>(stream: &UnixStream, message: &T, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    send_with(stream, message, &[], fds)
}

/// Sends a message with bytes of its own.
fn send_with<T: Serialize>(
    mut stream: &UnixStream,
    message: &T,
    own: &[u8],
    fds: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let mut bytes = vec![0; 4];
    serde_json::to_writer(&mut bytes, message)?;
    let length = bytes.len() - 4;
    if length > MAX_MESSAGE {
        return Err(into_io(Errno(libc::EMSGSIZE)));
    }
    bytes[..4].copy_from_slice(&(length as u32).to_le_bytes());
    bytes.extend_from_slice(own);
    let sent = sys::send_with_fds(stream.as_fd(), &bytes, fds, 0).map_err(into_io)?;
    stream.write_all(&bytes[sent..])
}

/// Receives the next message. Returns `None` at end of file.
fn receive<T: for<'a> Deserialize<'a>>(
    mut stream: &UnixStream,
) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
    let mut length = [0; 4];
    let (n, fds) = loop {
        match sys::receive_with_fds(stream.as_fd(), &mut length, 0) {
            Err(Errno(libc::EINTR)) => {}
            other => break other.map_err(into_io)?,
        }
    };
    if n == 0 {
        return Ok(None);
    }
    stream.read_exact(&mut length[n..])?;
    let length = u32::from_le_bytes(length) as usize;
    if length > MAX_MESSAGE {
        return Err(into_io(Errno(libc::EMSGSIZE)));
    }
    let mut body = Vec::new();
    stream.take(length as u64).read_to_end(&mut body)?;
    if body.len() < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Some((serde_json::from_slice(&body)?, fds)))
}

/// Receives the bytes of its own that a message has.
fn receive_bytes(mut stream: &UnixStream, length: u32) -> io::Result<Vec<u8>> {
    if length as usize > MAX_MESSAGE {
        return Err(into_io(Errno(libc::EMSGSIZE)));
    }
    let mut bytes = vec![0; length as usize];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// The listening side.
#[derive(Debug)]
pub struct Server {
    path: PathBuf,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Listens on a path. It replaces a socket file that a dead daemon left. It fails with
    /// `AddrInUse` if a daemon serves the socket, and with `AlreadyExists` if another kind of file
    /// is there.
    pub fn bind(path: &Path, backend: Arc<dyn Backend>) -> io::Result<Server> {
        let listener = match UnixListener::bind(path) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                if !fs::symlink_metadata(path)?.file_type().is_socket() {
                    let text = "the path exists and is not a socket";
                    return Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
                }
                let stale = UnixStream::connect(path)
                    .is_err_and(|e| e.kind() == io::ErrorKind::ConnectionRefused);
                if !stale {
                    return Err(error);
                }
                fs::remove_file(path)?;
                UnixListener::bind(path)?
            }
            other => other?,
        };
        fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::Builder::new()
            .name("weir-control".into())
            .spawn(move || accept(&listener, &stopped, &backend))?;
        Ok(Server {
            path: path.to_path_buf(),
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for Server {
    /// Stops listening and removes the file. Open connections go on until their clients end.
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        // Wakes the thread from accept.
        let woken = UnixStream::connect(&self.path).is_ok();
        drop(fs::remove_file(&self.path));
        if let Some(thread) = self.thread.take()
            && woken
        {
            // The thread has already printed its panic, if any.
            drop(thread.join());
        }
    }
}

fn accept(listener: &UnixListener, stop: &AtomicBool, backend: &Arc<dyn Backend>) {
    for stream in listener.incoming() {
        if stop.load(Ordering::Acquire) {
            return;
        }
        let Ok(stream) = stream else {
            // Most likely the process has run out of descriptors, and others must close some first.
            std::thread::sleep(std::time::Duration::from_millis(10));
            continue;
        };
        let user = sys::peer_uid(stream.as_fd());
        if !user.is_ok_and(|uid| uid == 0 || uid == sys::effective_uid()) {
            continue;
        }
        let backend = backend.clone();
        let thread = std::thread::Builder::new().name("weir-control".into());
        // If no thread can be created, the client sees the connection closed.
        drop(thread.spawn(move || serve(&stream, &*backend)));
    }
}

/// Serves one connection until its end.
fn serve(stream: &UnixStream, backend: &dyn Backend) {
    let mut launches = BTreeSet::new();
    // A message that cannot be read ends the connection, since the start of the next one is
    // unknown.
    while let Ok(Some((request, fds))) = receive(stream) {
        if let Request::Inet(call, length) = request {
            if serve_inet(stream, backend, call, length).is_err() {
                break;
            }
            continue;
        }
        let mut own = Vec::new();
        let reply = answer(backend, request, fds, &mut own, &mut launches);
        let own: Vec<BorrowedFd<'_>> = own.iter().map(AsFd::as_fd).collect();
        if send(stream, &reply, &own).is_err() {
            break;
        }
    }
    for launch in launches {
        backend.end_launch(launch);
    }
}

/// Serves a call on an internet socket.
fn serve_inet(
    stream: &UnixStream,
    backend: &dyn Backend,
    call: InetCall,
    length: u32,
) -> io::Result<()> {
    let bytes = receive_bytes(stream, length)?;
    match backend.inet(call, &bytes) {
        Ok(reply) => {
            let fds: Vec<BorrowedFd<'_>> = reply.file.iter().map(AsFd::as_fd).collect();
            let head = Reply::Inet(reply.value, reply.bytes.len() as u32);
            send_with(stream, &head, &reply.bytes, &fds)
        }
        Err(error) => send(stream, &Reply::Failed(error), &[]),
    }
}

/// Answers a request. Appends the descriptors that go with the answer to `own`.
fn answer(
    backend: &dyn Backend,
    request: Request,
    fds: Vec<OwnedFd>,
    own: &mut Vec<OwnedFd>,
    launches: &mut BTreeSet<u64>,
) -> Reply {
    let result = match request {
        Request::Stack => Ok(Reply::Stack(backend.stack())),
        Request::OpenSocket(request) => match fds.into_iter().next() {
            Some(end) => backend.open_socket(&request, end).map(Reply::Grant),
            None => Err(Errno(libc::EBADF)),
        },
        Request::Bind(socket, portid, groups) => {
            backend.bind(socket, portid, groups).map(Reply::PortId)
        }
        Request::SetOption(socket, option) => {
            backend.set_option(socket, option).map(|()| Reply::Done)
        }
        Request::Settle(socket) => {
            backend.settle(socket);
            Ok(Reply::Done)
        }
        Request::IsOpen(socket) => Ok(Reply::Is(backend.is_open(socket))),
        Request::CreateNamespace(creator) => {
            backend.create_namespace(creator).map(Reply::Namespace)
        }
        Request::Hold(launch, ns) => {
            launches.insert(launch);
            backend.hold(launch, ns);
            Ok(Reply::Done)
        }
        Request::Release(launch, ns) => {
            backend.release(launch, ns);
            Ok(Reply::Done)
        }
        Request::EndLaunch(launch) => {
            launches.remove(&launch);
            backend.end_launch(launch);
            Ok(Reply::Done)
        }
        Request::Lookup(ns, tree, path) => backend.lookup(ns, tree, &path).map(Reply::Node),
        Request::List(ns, tree, path) => backend.list(ns, tree, &path).map(Reply::Names),
        Request::Read(ns, tree, path) => backend.read(ns, tree, &path).map(Reply::Bytes),
        Request::Write(ns, tree, path, value) => {
            backend.write(ns, tree, &path, &value).map(|()| Reply::Done)
        }
        Request::PendingWriter(ns, tree, path) => {
            let mut fds = fds.into_iter();
            match (fds.next(), fds.next()) {
                (Some(pipe), Some(complaints)) => backend
                    .pending_writer(PendingWriter {
                        ns,
                        tree,
                        path,
                        pipe,
                        complaints,
                    })
                    .map(|()| Reply::Done),
                _ => Err(Errno(libc::EBADF)),
            }
        }
        Request::Netlink(ns, request) => backend.request(ns, &request).map(Reply::Bytes),
        Request::Ethtool(ns, name, command) => backend
            .ethtool(ns, &name, &command)
            .map(|(bytes, value)| Reply::Ethtool(bytes, value)),
        Request::Tunnel(ns, name, request, given) => {
            backend.tunnel(ns, &name, request, &given).map(Reply::Bytes)
        }
        // Served where its bytes are received.
        Request::Inet(..) => Err(Errno(libc::EPROTO)),
        Request::Command(command) => {
            let answer = backend.command_with(&command, fds);
            Ok(Reply::Command(answer.map(|(value, files)| {
                own.extend(files);
                value
            })))
        }
    };
    result.unwrap_or_else(Reply::Failed)
}

/// A stack in another process.
#[derive(Debug)]
pub struct Client {
    stack: StackInfo,
    /// Carries one request at a time.
    stream: Mutex<UnixStream>,
}

impl Client {
    /// Connects to the control socket at a path.
    pub fn connect(path: &Path) -> io::Result<Client> {
        let stream = UnixStream::connect(path)?;
        let owner = sys::peer_uid(stream.as_fd()).map_err(into_io)?;
        if owner != 0 && owner != sys::effective_uid() {
            let text = format!("the stack there belongs to another user ({owner})");
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
        }
        let refused = || {
            let text = "the stack closed the connection (does it belong to another user?)";
            io::Error::new(io::ErrorKind::PermissionDenied, text)
        };
        send(&stream, &Request::Stack, &[]).map_err(|_| refused())?;
        match receive(&stream) {
            Ok(Some((Reply::Stack(stack), _))) => Ok(Client {
                stack,
                stream: Mutex::new(stream),
            }),
            Ok(Some(_)) => Err(into_io(Errno(libc::EPROTO))),
            Ok(None) | Err(_) => Err(refused()),
        }
    }

    fn call(&self, request: &Request, fds: &[BorrowedFd<'_>]) -> Result<Reply, Errno> {
        self.call_with(request, fds).map(|(reply, _)| reply)
    }

    /// Calls the server. Returns its reply with the descriptors that came along.
    fn call_with(
        &self,
        request: &Request,
        fds: &[BorrowedFd<'_>],
    ) -> Result<(Reply, Vec<OwnedFd>), Errno> {
        let gone = |_| Errno(libc::ECONNREFUSED);
        let stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        send(&stream, request, fds).map_err(gone)?;
        match receive(&stream).map_err(gone)? {
            Some((Reply::Failed(error), _)) => Err(error),
            Some(reply) => Ok(reply),
            None => Err(Errno(libc::ECONNREFUSED)),
        }
    }
}

/// Calls the server and extracts the payload of the one reply that fits.
macro_rules! ask {
    ($client:expr, $request:expr, $reply:ident) => {
        ask!($client, $request, &[], $reply)
    };
    ($client:expr, $request:expr, $fds:expr, $reply:ident) => {
        match $client.call(&$request, $fds)? {
            Reply::$reply(value) => Ok(value),
            _ => Err(Errno(libc::EPROTO)),
        }
    };
}

impl Backend for Client {
    fn stack(&self) -> StackInfo {
        self.stack.clone()
    }

    fn open_socket(
        &self,
        request: &SocketRequest,
        daemon_end: OwnedFd,
    ) -> Result<SocketGrant, Errno> {
        let request = Request::OpenSocket(request.clone());
        ask!(self, request, &[daemon_end.as_fd()], Grant)
    }

    fn bind(&self, socket: SocketId, portid: u32, groups: u32) -> Result<u32, Errno> {
        ask!(self, Request::Bind(socket, portid, groups), PortId)
    }

    fn set_option(&self, socket: SocketId, option: SocketOption) -> Result<(), Errno> {
        self.call(&Request::SetOption(socket, option), &[])
            .map(drop)
    }

    fn settle(&self, socket: SocketId) {
        // A stack that is gone answers no further request.
        drop(self.call(&Request::Settle(socket), &[]));
    }

    fn is_open(&self, socket: SocketId) -> bool {
        matches!(
            self.call(&Request::IsOpen(socket), &[]),
            Ok(Reply::Is(true))
        )
    }

    fn create_namespace(&self, creator: NsId) -> Result<NsId, Errno> {
        ask!(self, Request::CreateNamespace(creator), Namespace)
    }

    fn hold(&self, launch: u64, ns: NsId) {
        // A stack that is gone holds nothing.
        drop(self.call(&Request::Hold(launch, ns), &[]));
    }

    fn release(&self, launch: u64, ns: NsId) {
        drop(self.call(&Request::Release(launch, ns), &[])); // as above
    }

    fn end_launch(&self, launch: u64) {
        drop(self.call(&Request::EndLaunch(launch), &[])); // as above
    }

    fn lookup(&self, ns: NsId, tree: Tree, path: &str) -> Result<Node, Errno> {
        ask!(self, Request::Lookup(ns, tree, path.into()), Node)
    }

    fn list(&self, ns: NsId, tree: Tree, path: &str) -> Result<Vec<String>, Errno> {
        ask!(self, Request::List(ns, tree, path.into()), Names)
    }

    fn read(&self, ns: NsId, tree: Tree, path: &str) -> Result<Vec<u8>, Errno> {
        ask!(self, Request::Read(ns, tree, path.into()), Bytes)
    }

    fn write(&self, ns: NsId, tree: Tree, path: &str, value: &[u8]) -> Result<(), Errno> {
        let request = Request::Write(ns, tree, path.into(), value.to_vec());
        self.call(&request, &[]).map(drop)
    }

    fn pending_writer(&self, writer: PendingWriter) -> Result<(), Errno> {
        let fds = [writer.pipe.as_fd(), writer.complaints.as_fd()];
        let request = Request::PendingWriter(writer.ns, writer.tree, writer.path);
        self.call(&request, &fds).map(drop)
    }

    fn request(&self, ns: NsId, request: &[u8]) -> Result<Vec<u8>, Errno> {
        ask!(self, Request::Netlink(ns, request.to_vec()), Bytes)
    }

    fn tunnel(&self, ns: NsId, name: &[u8], request: u32, given: &[u8]) -> Result<Vec<u8>, Errno> {
        ask!(
            self,
            Request::Tunnel(ns, name.to_vec(), request, given.to_vec()),
            Bytes
        )
    }

    fn ethtool(&self, ns: NsId, name: &[u8], command: &[u8]) -> Result<(Vec<u8>, i64), Errno> {
        let request = Request::Ethtool(ns, name.to_vec(), command.to_vec());
        match self.call(&request, &[])? {
            Reply::Ethtool(bytes, value) => Ok((bytes, value)),
            _ => Err(Errno(libc::EPROTO)),
        }
    }

    fn inet(&self, call: InetCall, bytes: &[u8]) -> Result<InetReply, Errno> {
        let gone = |_| Errno(libc::ECONNREFUSED);
        let stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        let request = Request::Inet(call, bytes.len() as u32);
        send_with(&stream, &request, bytes, &[]).map_err(gone)?;
        match receive(&stream).map_err(gone)? {
            Some((Reply::Failed(error), _)) => Err(error),
            Some((Reply::Inet(value, length), fds)) => Ok(InetReply {
                value,
                bytes: receive_bytes(&stream, length).map_err(gone)?,
                file: fds.into_iter().next(),
                ..InetReply::default()
            }),
            Some(_) => Err(Errno(libc::EPROTO)),
            None => Err(Errno(libc::ECONNREFUSED)),
        }
    }

    fn command(&self, command: &Value) -> Result<Value, String> {
        Ok(self.command_with(command, Vec::new())?.0)
    }

    fn command_with(
        &self,
        command: &Value,
        files: Vec<OwnedFd>,
    ) -> Result<(Value, Vec<OwnedFd>), String> {
        let fds: Vec<BorrowedFd<'_>> = files.iter().map(AsFd::as_fd).collect();
        match self.call_with(&Request::Command(command.clone()), &fds) {
            Ok((Reply::Command(result), files)) => result.map(|value| (value, files)),
            Ok((Reply::Failed(error), _)) | Err(error) => Err(format!("control socket: {error}")),
            Ok(_) => Err("control socket: protocol error".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_and_descriptors_pass() {
        let (a, b) = UnixStream::pair().unwrap();
        let (read, _write) = sys::packet_pipe().unwrap();
        let request = Request::Write(NsId(3), Tree::Sysctl, "x/y".into(), vec![0, 255, 10]);
        send(&a, &request, &[read.as_fd()]).unwrap();
        let (got, fds): (Request, _) = receive(&b).unwrap().unwrap();
        assert!(matches!(
            got,
            Request::Write(NsId(3), Tree::Sysctl, path, value)
                if path == "x/y" && value == [0, 255, 10]
        ));
        assert_eq!(fds.len(), 1);
        drop(a);
        assert!(receive::<Request>(&b).unwrap().is_none());
    }

    #[test]
    fn broken_messages_are_errors() {
        for bytes in [
            &b"\x05\0\0\0{]"[..],
            b"\xff\xff\xff\xff",
            b"\x02\0\0\0{]",
            b"\x09",
        ] {
            let (mut a, b) = UnixStream::pair().unwrap();
            a.write_all(bytes).unwrap();
            drop(a);
            assert!(receive::<Request>(&b).is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn hexadecimal_is_checked() {
        for text in ["\"0\"", "\"0g\"", "\"é\""] {
            let full = format!("{{\"Netlink\":[0,{text}]}}");
            assert!(serde_json::from_str::<Request>(&full).is_err());
        }
    }
}
