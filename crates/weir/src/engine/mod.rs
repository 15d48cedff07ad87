// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A running stack. It serves clients' sockets, namespaces and sysctls
//! ([`weir_intercept::Backend`]), owns the CPU that moves packets, and executes the commands of
//! `weir play`, `stat`, `capture` and `inject`.

mod balance;
pub mod capture;
mod command;
mod files;
mod gateway;
mod inet;
pub mod inject;
mod modules;
pub mod names;
pub mod netns;
pub mod ports;
mod proc_net;
mod socket;
mod sys_bond;
mod sys_bridge;
mod sys_net;
mod time;
mod trace;

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use serde_json::Value;
use weir_intercept::task::Tasks;
use weir_intercept::transport::{self, PendingWrites, Placement};
use weir_intercept::{
    Attendant, Backend, Errno, InetCall, InetReply, Node, NsId, PendingWriter, Runtime,
    SocketGrant, SocketId, SocketOption, SocketRequest, StackInfo, Tree,
};
use weir_stack::connection::{Connection, NoPeer, Peer};
use weir_stack::{Cpu, Namespace, Protocol, Stack};

use crate::playback::{Finished, Playback};
use crate::report::Recording;
use crate::trace::Tracer;
use socket::Socket;
pub use time::Goal;
use time::Time;
pub use trace::TraceSpec;

/// Returns the netlink protocol with this number.
fn protocol_of(number: i32) -> Option<Protocol> {
    match number {
        libc::NETLINK_ROUTE => Some(Protocol::Route),
        libc::NETLINK_GENERIC => Some(Protocol::Generic),
        libc::NETLINK_NETFILTER => Some(Protocol::Netfilter),
        libc::NETLINK_SOCK_DIAG => Some(Protocol::SockDiag),
        _ => None,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A running stack; see the module documentation.
pub struct Engine {
    /// The stack.
    pub stack: Stack,
    /// The first CPU, whose loop is the event loop of virtual time.
    pub cpu: Mutex<Cpu>,
    /// The directory of namespace names.
    pub runtime: Arc<Runtime>,
    playback: Mutex<Playback>,
    /// Whether ports, or parts of the playback in real time, wait for devices that clients create.
    expects: AtomicBool,
    /// The recording of a run under virtual time, from the first move of the clock.
    recording: OnceLock<Recording>,
    captures: Mutex<capture::Captures>,
    /// The names of devices for captures.
    names: Arc<names::Namer>,
    /// The live ports.
    pub ports: ports::Ports,
    /// The traces of packets.
    tracer: Arc<Tracer>,
    /// The traces of a run that begin with the playback, then those that have begun.
    traces: Mutex<(Vec<TraceSpec>, Vec<u64>)>,
    placement: Placement,
    pending: PendingWrites,
    sockets: Mutex<BTreeMap<u64, Arc<Socket>>>,
    /// Internet, raw and packet sockets.
    inet: inet::Inet,
    gateway: gateway::State,
    /// The namespaces of threads.
    tasks: Mutex<Tasks>,
    /// The namespaces that launches hold.
    holds: Mutex<BTreeSet<(u64, u32)>>,
    last_socket: AtomicU64,
    stopping: AtomicBool,
    time: Time,
    /// Acknowledges new filters without installing them, so that `weir bench rules` can measure the
    /// cost of the sockets alone.
    pub acknowledge_only: AtomicBool,
    me: Weak<Engine>,
}

fn to_stack(ns: NsId) -> weir_stack::NsId {
    weir_stack::NsId(u64::from(ns.0))
}

fn from_stack(ns: weir_stack::NsId) -> NsId {
    // This cast bounds the number of namespaces that a stack can create in its life.
    NsId(ns.0 as u32)
}

/// The client of a socket, for requests that identify namespaces by descriptor or process.
struct Client {
    engine: Weak<Engine>,
    process: u32,
}

impl Peer for Client {
    fn namespace_by_fd(&self, fd: u32) -> Option<weir_stack::NsId> {
        let fd = i32::try_from(fd).ok()?;
        self.engine
            .upgrade()?
            .runtime
            .namespace_of_fd(self.process, fd)
            .map(to_stack)
    }

    fn namespace_by_pid(&self, pid: u32) -> Option<weir_stack::NsId> {
        // `ip link set DEV netns 1` moves a device back to the initial namespace.
        if pid == 1 {
            return Some(Stack::INITIAL);
        }
        lock(&self.engine.upgrade()?.tasks)
            .namespace_of(pid)
            .map(to_stack)
    }
}

impl Engine {
    /// Starts a stack.
    pub fn new(stack: Stack, runtime: Runtime, playback: Playback) -> Arc<Self> {
        let names = playback.namer().clone();
        let engine = Arc::new_cyclic(|me| Self {
            names,
            cpu: Mutex::new(Cpu::new(&stack, 0)),
            expects: AtomicBool::new(playback.is_waiting()),
            playback: Mutex::new(playback),
            recording: OnceLock::new(),
            captures: Mutex::default(),
            ports: ports::Ports::default(),
            tracer: Tracer::of(&stack),
            stack,
            traces: Mutex::default(),
            placement: Placement::new(),
            pending: PendingWrites::default(),
            sockets: Mutex::default(),
            inet: inet::Inet::default(),
            gateway: gateway::State::default(),
            tasks: Mutex::new(Tasks::new(&runtime)),
            runtime: Arc::new(runtime),
            holds: Mutex::default(),
            last_socket: AtomicU64::new(0),
            stopping: AtomicBool::new(false),
            time: Time::default(),
            acknowledge_only: AtomicBool::new(false),
            me: me.clone(),
        });
        engine.names.set(engine.me.clone());
        engine
    }

    /// Returns whether the stack is being stopped.
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// Stops serving; clients read end of file on their sockets.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
        lock(&self.captures).stop(self);
        self.ports.stop(self);
        self.gateway.stop();
        for socket in std::mem::take(&mut *lock(&self.sockets)).values() {
            socket.close();
        }
    }

    /// Locks the CPU of the data path.
    pub fn cpu(&self) -> MutexGuard<'_, Cpu> {
        lock(&self.cpu)
    }

    /// Returns the namespace with a name given to `ip netns add`, or the initial one for `None`.
    pub fn namespace(&self, name: Option<&str>) -> Option<Arc<Namespace>> {
        let id = match name {
            None => Stack::INITIAL,
            Some(name) => to_stack(self.named(name)?),
        };
        self.stack.namespace(id)
    }

    /// Returns the first name of a namespace. Returns `None` for the initial one and for unnamed
    /// ones.
    pub fn name_of(&self, id: weir_stack::NsId) -> Option<String> {
        let mut names: Vec<String> = std::fs::read_dir(self.runtime.names())
            .ok()?
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .collect();
        names.sort();
        names
            .into_iter()
            .find(|name| self.named(name).map(to_stack) == Some(id))
    }

    fn named(&self, name: &str) -> Option<NsId> {
        use std::os::unix::fs::MetadataExt;
        let file = std::fs::metadata(self.runtime.names().join(name)).ok()?;
        self.runtime.namespace_of(file.dev(), file.ino())
    }

    /// Returns the recording of the run, if time is virtual and has moved.
    pub fn recording(&self) -> Option<&Recording> {
        self.recording.get()
    }

    /// Advances virtual time and plays captures. `on_request` means on a client's request, as
    /// opposed to the end of the run.
    pub fn play(&self, goal: Goal, on_request: bool) -> Result<(), String> {
        self.end_dead_captures();
        self.begin_playback()?;
        self.drive(goal, on_request);
        Ok(())
    }

    /// Starts the captures that have not started.
    fn begin_playback(&self) -> Result<(), String> {
        let begun = lock(&self.playback).start(self);
        let begun = begun.and_then(|()| self.begin_traces());
        self.record();
        begun
    }

    /// Starts the recording of the run, if it has not begun.
    pub fn record(&self) {
        self.recording.get_or_init(|| {
            let recording = Recording::default();
            recording.start(&self.stack);
            recording
        });
    }

    /// Starts ports, and captures of a stack in real time, whose devices now exist, and notes the names of new
    /// devices. Called after a request that may have created one.
    pub fn look_for_devices(&self) {
        self.names.look(self);
        if !self.expects.load(Ordering::Relaxed) {
            return;
        }
        if let Some(me) = self.me.upgrade() {
            self.ports.look(&me);
            let mut playback = lock(&self.playback);
            playback.look(&me);
            let waits = playback.is_waiting() || !self.ports.missing().is_empty();
            self.expects.store(waits, Ordering::Relaxed);
        }
    }

    /// Attaches ports as soon as clients have created their devices. Call it before clients are served.
    pub fn expect(&self, ports: Vec<ports::start::Opened>) {
        if !ports.is_empty() {
            self.ports.expect(ports);
            self.expects.store(true, Ordering::Relaxed);
        }
    }

    /// Ends live captures whose reader is gone, so that its pipe closes.
    pub fn end_dead_captures(&self) {
        lock(&self.captures).reap(self);
        self.tracer.reap(&self.stack);
    }

    /// Finishes the captures' files.
    pub fn finish(&self) -> Finished {
        let mut finished = lock(&self.playback).finish();
        self.ports.finish(&mut finished);
        finished
    }

    /// Applies sysctl writes through descriptors that the filter cannot see, and what programs have
    /// written to files of `/dev/net/tun`.
    pub fn settle_sysctls(&self) {
        self.pending
            .drain(|ns, tree, path, value| self.write(ns, tree, path, value));
        self.take_frames();
    }

    fn ns(&self, id: NsId) -> Result<Arc<Namespace>, Errno> {
        self.stack
            .namespace(to_stack(id))
            .ok_or(Errno(libc::EINVAL))
    }

    fn socket(&self, id: SocketId) -> Result<Arc<Socket>, Errno> {
        lock(&self.sockets)
            .get(&id.0)
            .cloned()
            .ok_or(Errno(libc::EBADF))
    }

    /// Drops a namespace that nobody can reach any more.
    fn reap(&self, ns: NsId) {
        let held = lock(&self.holds).iter().any(|(_, held)| *held == ns.0);
        let open = lock(&self.sockets)
            .values()
            .any(|socket| socket.namespace() == to_stack(ns))
            || self.has_inet_sockets(to_stack(ns));
        if !held && !open && !self.runtime.is_named(ns) {
            self.stack.remove_namespace(to_stack(ns));
            self.runtime.remove_namespace(ns);
        }
    }
}

/// Closes a socket on drop, regardless of why it is no longer served. Its client reads end of file.
struct Served {
    engine: Arc<Engine>,
    ns: NsId,
    id: u64,
}

impl Drop for Served {
    fn drop(&mut self) {
        let socket = lock(&self.engine.sockets).remove(&self.id);
        drop(socket);
        self.engine.reap(self.ns);
    }
}

impl Backend for Engine {
    fn stack(&self) -> StackInfo {
        StackInfo {
            id: self.runtime.path().display().to_string(),
            directory: self.runtime.path().to_owned(),
            initial: from_stack(Stack::INITIAL),
        }
    }

    fn open_socket(
        &self,
        request: &SocketRequest,
        daemon_end: OwnedFd,
    ) -> Result<SocketGrant, Errno> {
        let protocol = protocol_of(request.protocol).ok_or(Errno(libc::EPROTONOSUPPORT))?;
        let ns = self.ns(request.ns)?;
        let portid = protocol.sockets(&ns).free_portid(request.process);
        let id = self.last_socket.fetch_add(1, Ordering::Relaxed) + 1;
        let client = Client {
            engine: self.me.clone(),
            process: request.process,
        };
        let (wire, sent) = (transport::Connection::new(daemon_end), self.time.sent());
        let (socket, woken) = Socket::new(wire, sent.clone(), |waker| {
            let (stack, client) = (&self.stack, Box::new(client));
            Connection::open(stack, &ns, protocol, portid, client, Some(waker))
        })?;
        let engine = self.me.upgrade().ok_or(Errno(libc::ESHUTDOWN))?;
        lock(&self.sockets).insert(id, socket.clone());
        let thread = request.thread;
        let serve = move || {
            let served = Served {
                ns: from_stack(socket.namespace()),
                engine,
                id,
            };
            // Drops before `served`, because a namespace is removed only when no socket holds it.
            let socket = socket;
            socket.serve(&served.engine, thread, woken);
        };
        if let Err(error) = std::thread::Builder::new()
            .name(format!("netlink {portid}"))
            .stack_size(256 << 10)
            .spawn(serve)
        {
            lock(&self.sockets).remove(&id);
            return Err(error.into());
        }
        Ok(SocketGrant {
            id: SocketId(id),
            portid,
        })
    }

    fn bind(&self, socket: SocketId, portid: u32, groups: u32) -> Result<u32, Errno> {
        let socket = self.socket(socket)?;
        let mailbox = socket.mailbox();
        let current = mailbox.portid.load(Ordering::Relaxed);
        if portid != 0 && portid != current {
            let ns = self
                .stack
                .namespace(socket.namespace())
                .ok_or(Errno(libc::EINVAL))?;
            if socket.protocol().sockets(&ns).has_portid(portid) {
                return Err(Errno(libc::EADDRINUSE));
            }
            mailbox.portid.store(portid, Ordering::Relaxed);
        }
        mailbox.bind_groups(groups);
        Ok(mailbox.portid.load(Ordering::Relaxed))
    }

    fn set_option(&self, socket: SocketId, option: SocketOption) -> Result<(), Errno> {
        let socket = self.socket(socket)?;
        let group = |group, member| {
            if socket.mailbox().set_group(group, member) {
                Ok(())
            } else {
                Err(Errno(libc::EINVAL))
            }
        };
        match option {
            SocketOption::AddMembership(number) => group(number, true)?,
            SocketOption::DropMembership(number) => group(number, false)?,
            SocketOption::NoEnobufs(yes) => socket.mailbox().set_no_enobufs(yes),
            SocketOption::CapAck(yes) => socket.connection().options.cap_ack = yes,
            SocketOption::ExtAck(yes) => socket.connection().options.ext_ack = yes,
            SocketOption::StrictCheck(yes) => socket.connection().options.strict = yes,
            // These options change ancillary data, which AF_UNIX does not carry.
            SocketOption::PacketInfo(_)
            | SocketOption::BroadcastError(_)
            | SocketOption::ListenAllNsid(_) => {}
        }
        Ok(())
    }

    fn settle(&self, socket: SocketId) {
        if let Ok(socket) = self.socket(socket) {
            socket.serve_present(self, &mut Vec::new(), u64::MAX);
        }
    }

    fn is_open(&self, socket: SocketId) -> bool {
        self.socket(socket).is_ok()
    }

    fn create_namespace(&self, creator: NsId) -> Result<NsId, Errno> {
        let creator = to_stack(creator);
        Ok(from_stack(self.stack.add_namespace_from(creator)))
    }

    fn hold(&self, launch: u64, ns: NsId) {
        lock(&self.holds).insert((launch, ns.0));
    }

    fn release(&self, launch: u64, ns: NsId) {
        lock(&self.holds).remove(&(launch, ns.0));
        self.reap(ns);
    }

    fn end_launch(&self, launch: u64) {
        // Lets go of the launcher's standard error, which somebody may read to its end.
        self.settle_sysctls();
        let held: Vec<_> = {
            let mut holds = lock(&self.holds);
            let held = holds
                .range((launch, 0)..=(launch, u32::MAX))
                .map(|(_, ns)| NsId(*ns))
                .collect();
            holds.retain(|(other, _)| *other != launch);
            held
        };
        for ns in held {
            self.reap(ns);
        }
    }

    fn lookup(&self, ns: NsId, tree: Tree, path: &str) -> Result<Node, Errno> {
        self.take_frames();
        let ns = self.ns(ns)?;
        files::lookup(&self.stack, &ns, tree, path)
    }

    fn list(&self, ns: NsId, tree: Tree, path: &str) -> Result<Vec<String>, Errno> {
        self.take_frames();
        let ns = self.ns(ns)?;
        files::list(&self.stack, &ns, tree, path)
    }

    fn read(&self, ns: NsId, tree: Tree, path: &str) -> Result<Vec<u8>, Errno> {
        self.settle_sysctls();
        let ns = self.ns(ns)?;
        files::read(&self.stack, &ns, tree, path)
    }

    fn write(&self, ns: NsId, tree: Tree, path: &str, value: &[u8]) -> Result<(), Errno> {
        let ns = self.ns(ns)?;
        files::write(&self.stack, &ns, tree, path, value)
    }

    fn pending_writer(&self, writer: PendingWriter) -> Result<(), Errno> {
        self.pending.add(writer);
        Ok(())
    }

    fn request(&self, ns: NsId, request: &[u8]) -> Result<Vec<u8>, Errno> {
        self.settle_sysctls();
        let mut connection = Connection::new(&self.stack, &self.ns(ns)?, 0, Box::new(NoPeer), None);
        connection.request(request);
        while connection.pump() {}
        let mut answer = Vec::new();
        while let Some(datagram) = connection.mailbox().take() {
            answer.extend(datagram);
        }
        Ok(answer)
    }

    fn inet(&self, call: InetCall, bytes: &[u8]) -> Result<InetReply, Errno> {
        self.serve_inet(call, bytes)
    }

    fn attend(&self) -> Option<Box<dyn Attendant>> {
        self.attend_sockets()
    }

    fn ethtool(&self, ns: NsId, name: &[u8], command: &[u8]) -> Result<(Vec<u8>, i64), Errno> {
        self.settle_sysctls();
        let ns = self.ns(ns)?;
        let name = std::str::from_utf8(name).map_err(|_| Errno(libc::ENODEV))?;
        let guard = self.stack.domain.pin();
        weir_stack::genl::ethtool::ioctl::serve(&self.stack, &guard, &ns, name, command)
            .map_err(|error| Errno(error.errno))
    }

    fn tunnel(&self, ns: NsId, name: &[u8], request: u32, given: &[u8]) -> Result<Vec<u8>, Errno> {
        self.settle_sysctls();
        let ns = self.ns(ns)?;
        let name = std::str::from_utf8(name).map_err(|_| Errno(libc::ENODEV))?;
        let guard = self.stack.domain.pin();
        weir_stack::link::tunnel_ioctl::serve(&self.stack, &guard, &ns, name, request, given)
            .map_err(|error| Errno(error.errno))
    }

    fn command(&self, command: &Value) -> Result<Value, String> {
        Ok(self.command_with(command, Vec::new())?.0)
    }

    fn command_with(
        &self,
        command: &Value,
        files: Vec<OwnedFd>,
    ) -> Result<(Value, Vec<OwnedFd>), String> {
        self.settle_sysctls();
        command::run(self, command, files)
    }
}
