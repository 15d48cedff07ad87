// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A stand-in for the stack that serves just enough for real programs.
//!
//! It creates, lists, changes, moves and deletes links, and its sysctls hold integers. All other
//! dumps are empty and all other requests succeed. It has one thread per connection. It tests only
//! the interception; the answers of the real stack are tested with the real stack.
mod inet;

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};
use weir_intercept::task::Tasks;
use weir_intercept::transport::{Connection, PendingWrites, Received};
use weir_intercept::{
    Backend, Errno, InetCall, InetReply, Node, NsId, PendingWriter, Runtime, SocketGrant, SocketId,
    SocketOption, SocketRequest, StackInfo, Tree,
};
use weir_netlink::{self as nl, AckOptions, Error, IfInfoMsg, RtGenMsg, Writer, ifla, nlm, rtm};

const RTNLGRP_LINK: u32 = 1;

#[derive(Clone, Debug)]
struct Link {
    index: i32,
    name: String,
    flags: u32,
    mtu: u32,
    queue: u32,
}

#[derive(Debug, Default)]
struct Ns {
    links: Vec<Link>,
    sysctls: BTreeMap<String, i64>,
}

struct Socket {
    ns: NsId,
    portid: u32,
    process: u32,
    groups: BTreeSet<u32>,
    options: AckOptions,
    connection: Arc<Connection>,
    unanswered: bool,
}

#[derive(Default)]
struct State {
    namespaces: BTreeMap<NsId, Ns>,
    holds: BTreeSet<(u64, NsId)>,
    dropped: Vec<NsId>,
    sockets: BTreeMap<SocketId, Socket>,
    next_ns: u32,
    next_socket: u64,
    tasks: Option<Tasks>,
}

pub struct StandIn {
    pub runtime: Runtime,
    state: Mutex<State>,
    pending: PendingWrites,
    inet: inet::Inet,
}

const SYSCTLS: [&str; 4] = [
    "core/somaxconn",
    "ipv4/conf/all/rp_filter",
    "ipv4/ip_forward",
    "ipv6/conf/all/forwarding",
];

impl StandIn {
    pub fn new() -> Arc<StandIn> {
        let stack = Arc::new(StandIn {
            runtime: Runtime::create(None).unwrap(),
            state: Mutex::default(),
            pending: PendingWrites::default(),
            inet: inet::Inet::default(),
        });
        stack.state.lock().unwrap().tasks = Some(Tasks::new(&stack.runtime));
        stack.create_namespace().unwrap();
        stack
    }

    /// Returns the namespaces dropped so far.
    pub fn dropped(&self) -> Vec<NsId> {
        self.state.lock().unwrap().dropped.clone()
    }

    fn maybe_drop(&self, state: &mut State, ns: NsId) {
        let used = state.holds.iter().any(|&(_, held)| held == ns)
            || state.sockets.values().any(|s| s.ns == ns)
            || self.runtime.is_named(ns)
            || ns == NsId(0);
        if !used && state.namespaces.remove(&ns).is_some() {
            state.dropped.push(ns);
            self.runtime.remove_namespace(ns);
        }
    }

    fn drain(&self) {
        self.pending
            .drain(|ns, tree, path, value| self.write(ns, tree, path, value));
    }

    fn serve(self: Arc<StandIn>, id: SocketId, connection: Arc<Connection>) {
        let mut buffer = vec![0; weir_intercept::transport::MAX_REQUEST];
        loop {
            connection.wait(None);
            self.state
                .lock()
                .unwrap()
                .sockets
                .get_mut(&id)
                .unwrap()
                .unanswered = true;
            match connection.receive(&mut buffer) {
                Received::Datagram(n) => {
                    self.drain();
                    let (ns, portid, process, options) = {
                        let state = self.state.lock().unwrap();
                        let s = &state.sockets[&id];
                        (s.ns, s.portid, s.process, s.options)
                    };
                    for answer in self.answer(ns, portid, process, options, &buffer[..n]) {
                        // The client does not read, and the stack would pause the dump.
                        while connection.send(&answer) == Err(Errno(libc::EAGAIN)) {
                            std::thread::sleep(std::time::Duration::from_millis(1));
                        }
                    }
                }
                Received::Nothing => {}
                Received::TooLong(_) | Received::Closed => break,
            }
            let mut state = self.state.lock().unwrap();
            state.sockets.get_mut(&id).unwrap().unanswered = false;
        }
        let mut state = self.state.lock().unwrap();
        let socket = state.sockets.remove(&id).unwrap();
        self.maybe_drop(&mut state, socket.ns);
    }

    /// Answers a datagram: one datagram per dump part, and the acknowledgements together.
    fn answer(
        &self,
        ns: NsId,
        portid: u32,
        process: u32,
        options: AckOptions,
        datagram: &[u8],
    ) -> Vec<Vec<u8>> {
        let mut out = Vec::new();
        let mut w = Writer::new();
        for message in nl::messages(datagram) {
            let before = w.len();
            let result = self.one(ns, portid, process, &message, &mut w, &mut out);
            let answered = w.len() > before || !out.is_empty() && message.is_dump();
            if result.is_err() || message.header.has(nlm::F_ACK) && !answered {
                nl::write_ack(&mut w, &message, portid, result.as_ref().err(), options).unwrap();
            }
        }
        if !w.is_empty() {
            out.push(w.take());
        }
        out
    }

    fn one(
        &self,
        ns: NsId,
        portid: u32,
        process: u32,
        message: &nl::Message<'_>,
        w: &mut Writer,
        out: &mut Vec<Vec<u8>>,
    ) -> Result<(), Error> {
        let mut state = self.state.lock().unwrap();
        let seq = message.header.seq;
        if message.is_dump() && message.header.ty & 3 == 2 {
            if message.header.ty == rtm::GETLINK {
                for link in &state.namespaces[&ns].links {
                    write_link(w, link, rtm::NEWLINK, nlm::F_MULTI, seq, portid);
                    if w.len() > 8192 {
                        out.push(w.take());
                    }
                }
            }
            if !w.is_empty() {
                out.push(w.take());
            }
            return nl::write_done(w, 0, seq, portid, None, false)
                .map_err(|_| Error::new(libc::EMSGSIZE));
        }
        match message.header.ty {
            rtm::GETLINK | rtm::NEWLINK | rtm::SETLINK | rtm::DELLINK => {}
            rtm::GETNSID => {
                let mark = w.message(rtm::NEWNSID, 0, seq, portid);
                w.fixed(&RtGenMsg { family: 0 });
                w.put_i32(1, -1);
                w.finish(mark).unwrap();
                return Ok(());
            }
            _ => return Ok(()),
        }
        let header: IfInfoMsg = message.fixed()?;
        let (mut name, mut mtu, mut queue, mut target) = (None, None, None, None);
        for attr in message.attrs::<IfInfoMsg>() {
            match attr.ty {
                ifla::IFNAME => name = Some(attr.str()?.to_string()),
                ifla::MTU => mtu = Some(attr.u32()?),
                ifla::TXQLEN => queue = Some(attr.u32()?),
                ifla::NET_NS_FD => {
                    let fd = attr.u32()? as i32;
                    target = Some(
                        self.runtime
                            .namespace_of_fd(process, fd)
                            .ok_or(Error::new(libc::EINVAL))?,
                    );
                }
                ifla::NET_NS_PID => {
                    let pid = attr.u32()?;
                    let tasks = state.tasks.as_mut().unwrap();
                    target = Some(tasks.namespace_of(pid).ok_or(Error::new(libc::ESRCH))?);
                }
                _ => {}
            }
        }
        let links = &mut state.namespaces.get_mut(&ns).unwrap().links;
        let found = links
            .iter()
            .position(|l| l.index == header.index || name.as_ref() == Some(&l.name));
        let at = match (found, message.header.ty) {
            (Some(at), rtm::GETLINK) => {
                write_link(w, &links[at], rtm::NEWLINK, 0, seq, portid);
                return Ok(());
            }
            (Some(at), rtm::DELLINK) => {
                links.remove(at);
                return Ok(());
            }
            (Some(_), _) if message.header.has(nlm::F_EXCL) => {
                return Err(Error::new(libc::EEXIST));
            }
            (Some(at), _) => at,
            (None, rtm::NEWLINK) if message.header.has(nlm::F_CREATE) => {
                let index = links.iter().map(|l| l.index).max().unwrap_or(0) + 1;
                links.push(Link {
                    index,
                    name: name.clone().unwrap_or(format!("link{index}")),
                    flags: 0x1002,
                    mtu: 1500,
                    queue: 1000,
                });
                links.len() - 1
            }
            _ => return Err(Error::msg(libc::ENODEV, "no such link in the stand-in")),
        };
        let link = &mut links[at];
        link.flags = link.flags & !header.change | header.flags & header.change;
        link.mtu = mtu.unwrap_or(link.mtu);
        link.queue = queue.unwrap_or(link.queue);
        link.name = name.unwrap_or(std::mem::take(&mut link.name));
        let link = link.clone();
        if let Some(target) = target {
            links.remove(at);
            state
                .namespaces
                .get_mut(&target)
                .unwrap()
                .links
                .push(link.clone());
        }
        let mut event = Writer::new();
        write_link(&mut event, &link, rtm::NEWLINK, 0, 0, 0);
        for socket in state.sockets.values() {
            if socket.ns == ns && socket.groups.contains(&RTNLGRP_LINK) {
                // A full queue loses the notification.
                let _ = socket.connection.send(event.bytes());
            }
        }
        Ok(())
    }

    fn path_is_directory(path: &str) -> bool {
        path.is_empty()
            || SYSCTLS
                .iter()
                .any(|known| known.strip_prefix(path).is_some_and(|r| r.starts_with('/')))
    }
}

fn write_link(w: &mut Writer, link: &Link, ty: u16, flags: u16, seq: u32, pid: u32) {
    let mark = w.message(ty, flags, seq, pid);
    w.fixed(&IfInfoMsg {
        ty: if link.name == "lo" { 772 } else { 1 },
        index: link.index,
        flags: link.flags,
        ..IfInfoMsg::default()
    });
    w.put_str(ifla::IFNAME, &link.name);
    w.put_u32(ifla::MTU, link.mtu);
    w.put_u32(ifla::TXQLEN, link.queue);
    w.put_str(ifla::QDISC, "noop");
    w.put(ifla::ADDRESS, &[2, 0, 0, 0, 0, link.index as u8]);
    w.put(ifla::BROADCAST, &[255; 6]);
    w.finish(mark).unwrap();
}

/// The shared half of the backend, which connection threads hold.
pub struct Shared(pub Arc<StandIn>);

impl Backend for Shared {
    fn stack(&self) -> StackInfo {
        StackInfo {
            id: self.0.runtime.path().display().to_string(),
            directory: self.0.runtime.path().to_path_buf(),
            initial: NsId(0),
        }
    }

    fn inet(&self, call: InetCall, bytes: &[u8]) -> Result<InetReply, Errno> {
        self.0.inet.serve(call, bytes)
    }

    fn open_socket(
        &self,
        request: &SocketRequest,
        daemon_end: OwnedFd,
    ) -> Result<SocketGrant, Errno> {
        let mut state = self.0.state.lock().unwrap();
        state.next_socket += 1;
        let id = SocketId(state.next_socket);
        let taken = |portid| state.sockets.values().any(|s| s.portid == portid);
        let mut portid = request.process;
        if taken(portid) {
            portid = (1..)
                .map(|n| 0u32.wrapping_sub(4096 + n))
                .find(|p| !taken(*p))
                .unwrap();
        }
        let connection = Arc::new(Connection::new(daemon_end));
        state.sockets.insert(
            id,
            Socket {
                ns: request.ns,
                portid,
                process: request.process,
                groups: BTreeSet::new(),
                options: AckOptions::default(),
                connection: connection.clone(),
                unanswered: false,
            },
        );
        let stack = self.0.clone();
        std::thread::spawn(move || stack.serve(id, connection));
        Ok(SocketGrant { id, portid })
    }

    fn bind(&self, socket: SocketId, portid: u32, groups: u32) -> Result<u32, Errno> {
        let mut state = self.0.state.lock().unwrap();
        if portid != 0
            && state
                .sockets
                .iter()
                .any(|(&id, s)| id != socket && s.portid == portid)
        {
            return Err(Errno(libc::EADDRINUSE));
        }
        let socket = state.sockets.get_mut(&socket).ok_or(Errno(libc::EBADF))?;
        if portid != 0 {
            socket.portid = portid;
        }
        socket.groups.retain(|&g| g > 32);
        socket
            .groups
            .extend((1..=32).filter(|g| groups >> (g - 1) & 1 == 1));
        Ok(socket.portid)
    }

    fn set_option(&self, socket: SocketId, option: SocketOption) -> Result<(), Errno> {
        let mut state = self.0.state.lock().unwrap();
        let socket = state.sockets.get_mut(&socket).ok_or(Errno(libc::EBADF))?;
        match option {
            SocketOption::AddMembership(group) => {
                socket.groups.insert(group);
            }
            SocketOption::DropMembership(group) => {
                socket.groups.remove(&group);
            }
            SocketOption::CapAck(on) => socket.options.cap = on,
            SocketOption::ExtAck(on) => socket.options.ext = on,
            _ => {}
        }
        Ok(())
    }

    fn settle(&self, socket: SocketId) {
        for _ in 0..200 {
            let state = self.0.state.lock().unwrap();
            let Some(s) = state.sockets.get(&socket) else {
                return;
            };
            if !s.connection.wait(Some(0)) && !s.unanswered {
                return;
            }
            drop(state);
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }

    fn is_open(&self, socket: SocketId) -> bool {
        self.0.state.lock().unwrap().sockets.contains_key(&socket)
    }

    fn create_namespace(&self, _: NsId) -> Result<NsId, Errno> {
        self.0.create_namespace()
    }

    fn hold(&self, launch: u64, ns: NsId) {
        self.0.state.lock().unwrap().holds.insert((launch, ns));
    }

    fn release(&self, launch: u64, ns: NsId) {
        let mut state = self.0.state.lock().unwrap();
        state.holds.remove(&(launch, ns));
        self.0.maybe_drop(&mut state, ns);
    }

    fn end_launch(&self, launch: u64) {
        let mut state = self.0.state.lock().unwrap();
        state.holds.retain(|&(l, _)| l != launch);
        let all: Vec<NsId> = state.namespaces.keys().copied().collect();
        for ns in all {
            self.0.maybe_drop(&mut state, ns);
        }
    }

    fn lookup(&self, ns: NsId, tree: Tree, path: &str) -> Result<Node, Errno> {
        match tree {
            Tree::Sysctl if StandIn::path_is_directory(path) => Ok(Node::Directory),
            Tree::Sysctl if SYSCTLS.contains(&path) => Ok(Node::File(0o644)),
            Tree::ProcNet if path.is_empty() => Ok(Node::Directory),
            Tree::ProcNet if ["psched", "dev"].contains(&path) => Ok(Node::File(0o444)),
            Tree::SysClassNet if path.is_empty() => Ok(Node::Directory),
            _ => {
                let _ = ns;
                Err(Errno(libc::ENOENT))
            }
        }
    }

    fn list(&self, _: NsId, tree: Tree, path: &str) -> Result<Vec<String>, Errno> {
        Ok(match tree {
            Tree::Sysctl => {
                let mut names: Vec<String> = SYSCTLS
                    .iter()
                    .filter_map(|known| {
                        let rest = if path.is_empty() {
                            known
                        } else {
                            known.strip_prefix(path)?.strip_prefix('/')?
                        };
                        Some(rest.split('/').next().unwrap().to_string())
                    })
                    .collect();
                names.dedup();
                names
            }
            Tree::ProcNet => vec!["dev".into(), "psched".into()],
            Tree::SysClassNet | Tree::SysBusNetdevsim | Tree::Modules => vec![],
        })
    }

    fn read(&self, ns: NsId, tree: Tree, path: &str) -> Result<Vec<u8>, Errno> {
        self.0.drain();
        let state = self.0.state.lock().unwrap();
        match (tree, path) {
            (Tree::Sysctl, _) => {
                let value = state.namespaces[&ns].sysctls.get(path).unwrap_or(&0);
                Ok(format!("{value}\n").into_bytes())
            }
            (_, "psched") => Ok(b"000003e8 00000040 000f4240 3b9aca00\n".to_vec()),
            (_, "dev") => Ok(format!("{} links\n", state.namespaces[&ns].links.len()).into()),
            _ => Err(Errno(libc::ENOENT)),
        }
    }

    fn write(&self, ns: NsId, tree: Tree, path: &str, value: &[u8]) -> Result<(), Errno> {
        self.0.write(ns, tree, path, value)
    }

    fn pending_writer(&self, writer: PendingWriter) -> Result<(), Errno> {
        self.0.pending.add(writer);
        Ok(())
    }

    fn request(&self, ns: NsId, request: &[u8]) -> Result<Vec<u8>, Errno> {
        self.0.drain();
        let answer = self.0.answer(ns, 0, 0, AckOptions::default(), request);
        Ok(answer.concat())
    }

    fn command(&self, command: &serde_json::Value) -> Result<serde_json::Value, String> {
        match command.as_str() {
            Some("dropped") => Ok(self.0.dropped().iter().map(|ns| ns.0).collect()),
            _ => Err(format!("unknown command {command}")),
        }
    }
}

impl StandIn {
    fn create_namespace(&self) -> Result<NsId, Errno> {
        let mut state = self.state.lock().unwrap();
        let ns = NsId(state.next_ns);
        state.next_ns += 1;
        let lo = Link {
            index: 1,
            name: "lo".into(),
            flags: 8,
            mtu: 65536,
            queue: 1000,
        };
        state.namespaces.insert(
            ns,
            Ns {
                links: vec![lo],
                ..Ns::default()
            },
        );
        Ok(ns)
    }

    fn write(&self, ns: NsId, tree: Tree, path: &str, value: &[u8]) -> Result<(), Errno> {
        if tree != Tree::Sysctl {
            return Err(Errno(libc::EACCES));
        }
        let text = std::str::from_utf8(value).map_err(|_| Errno(libc::EINVAL))?;
        let value: i64 = text.trim().parse().map_err(|_| Errno(libc::EINVAL))?;
        let mut state = self.state.lock().unwrap();
        let ns = state.namespaces.get_mut(&ns).ok_or(Errno(libc::ENOENT))?;
        ns.sysctls.insert(path.to_string(), value);
        Ok(())
    }
}
