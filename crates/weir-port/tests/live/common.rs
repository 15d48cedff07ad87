// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Namespaces, devices of the host, and ports for tests.
#![allow(unsafe_code)] // unshare, poll
#![allow(dead_code, reason = "each test uses its part")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::PathBuf;
use std::process::{self, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{JoinHandle, spawn};
use std::time::{Duration, Instant};
use std::{env, fs};

use weir_packet::{Batch, Cache, Packet, Pool, PoolConfig};
use weir_port::keys::Keys;
use weir_port::kinds::kind;
use weir_port::port::{Port, Site};

const INSIDE: &str = "WEIR_TEST_INSIDE";
/// The time after which a test gives up.
pub const LONG: Duration = Duration::from_secs(60);
/// The exit status of a test that the machine cannot run.
const SKIPPED: i32 = 77;

/// Prints a line even if the test passes.
pub fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "weir-port tests: {text}");
}

/// Runs a test of this program again in namespaces of its own. The caller is that test's outer half.
pub fn in_namespaces(test: &str) {
    with_unshare(test, "-rn");
}

/// Does the same in the machine's first user namespace, for what needs the privileges of root there.
pub fn in_network_namespace(test: &str) {
    with_unshare(test, "-n");
}

fn with_unshare(test: &str, flags: &str) {
    let mut inside = Command::new("unshare");
    inside.args([flags, "sh", "-c"]);
    inside.arg(
        "export PATH=$PATH:/usr/sbin:/sbin
        ip link add v0 type veth peer name v1 && ip link set lo up || exit 77
        ip link del v0
        exec \"$0\" --exact \"$1\" --ignored --nocapture",
    );
    inside.arg(env::current_exe().unwrap()).arg(test);
    inside.env(INSIDE, "1").stdin(Stdio::null());
    let output = match inside.output() {
        Ok(output) => output,
        Err(error) => return say(&format!("{test} skipped: unshare: {error}")),
    };
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    match output.status.code() {
        Some(0) => assert!(said.contains("1 passed"), "{said}"),
        Some(SKIPPED) => say(&format!("{test} skipped: {said}")),
        _ if said.contains("unshare failed") => say(&format!("{test} skipped: {said}")),
        _ => panic!("{said}"),
    }
}

/// Stops a test that was started by itself.
pub fn assert_inside() {
    assert!(env::var_os(INSIDE).is_some(), "not by itself");
}

/// Ends a test inside namespaces that this machine cannot run.
pub fn skip(why: &str) -> ! {
    say(why);
    std::process::exit(SKIPPED)
}

/// Runs a shell script, which must succeed, in the calling thread's namespaces.
pub fn run(script: &str) {
    let output = Command::new("sh").args(["-ec", script]).output().unwrap();
    assert!(output.status.success(), "{script}: {output:?}");
}

/// Opens and adopts a port.
pub fn port(name: &str, keys: &str, pool: &Pool) -> weir_port::Result<Arc<dyn Port>> {
    let kind = kind(name)?;
    let keys = Keys::parse(name, kind.keys, keys)?;
    (kind.adopt)(&keys, (kind.open)(&keys)?, &Site::new(pool))
}

/// Opens a port in a host's namespace and adopts it here.
pub fn port_in(host: &Host, name: &str, keys: &str, pool: &Pool) -> Arc<dyn Port> {
    let kind = kind(name).unwrap();
    let keys = Keys::parse(name, kind.keys, keys).unwrap();
    let there = keys.clone();
    let files = host.run(move || (kind.open)(&there).unwrap());
    (kind.adopt)(&keys, files, &Site::new(pool)).unwrap()
}

/// A pool that has all frames back at the end of its test.
pub struct Arena(Pool);

impl std::ops::Deref for Arena {
    type Target = Pool;

    fn deref(&self) -> &Pool {
        &self.0
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        let end = Instant::now() + LONG;
        loop {
            let stats = self.0.stats();
            if (stats.frames, stats.jumbos) == (stats.frames_free, stats.jumbos_free) {
                return;
            }
            // An AF_XDP queue gives its frames back once the kernel has released it.
            assert!(Instant::now() < end, "frames are lost: {stats:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Creates a pool. Declare it before the ports, caches and packets that use it.
pub fn pool() -> Arena {
    Arena(Pool::new(PoolConfig::default()))
}

type Job = Box<dyn FnOnce() + Send>;

/// A network namespace and a thread in it.
pub struct Host {
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
    /// The thread's id, which names the namespace for `ip link set netns`.
    pub id: i32,
}

impl Host {
    pub fn new() -> Self {
        let (jobs, todo): (Sender<Job>, Receiver<Job>) = channel();
        let (tell, id) = channel();
        let thread = spawn(move || {
            // SAFETY: no memory is passed.
            assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNET) }, 0);
            // SAFETY: no memory is passed.
            tell.send(unsafe { libc::gettid() }).unwrap();
            for job in todo {
                job();
            }
        });
        Self {
            jobs: Some(jobs),
            thread: Some(thread),
            id: id.recv().unwrap(),
        }
    }

    /// Starts a job in the namespace. The result arrives at the receiver.
    pub fn start<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Receiver<T> {
        let (done, result) = channel();
        let job = move || drop(done.send(job()));
        self.jobs.as_ref().unwrap().send(Box::new(job)).unwrap();
        result
    }

    /// Runs a job in the namespace.
    pub fn run<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> T {
        self.start(job).recv_timeout(LONG).unwrap()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.jobs = None;
        // A panic of the thread has already failed the test.
        let _ = self.thread.take().unwrap().join();
    }
}

/// A counter of one of the calling thread's devices: field `field` of `/proc/net/dev`.
pub fn counter(device: &str, field: usize) -> u64 {
    let text = fs::read_to_string("/proc/thread-self/net/dev").unwrap();
    let line = text.lines().find_map(|line| {
        let (name, rest) = line.split_once(':')?;
        (name.trim() == device).then_some(rest)
    });
    let mut fields = line.unwrap().split_whitespace();
    fields.nth(field).unwrap().parse().unwrap()
}

/// The field of [`counter`] with the packets that a device has sent.
pub const TX_PACKETS: usize = 9;
pub const RX_PACKETS: usize = 1;

/// Waits until one of the descriptors is readable. Returns false after `limit`.
pub fn wait(descriptors: &[BorrowedFd<'_>], limit: Duration) -> bool {
    let poll = |fd: &BorrowedFd<'_>| libc::pollfd {
        fd: fd.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    let mut all: Vec<_> = descriptors.iter().map(poll).collect();
    let ms = limit.as_millis() as i32;
    // SAFETY: the structures live through the call.
    unsafe { libc::poll(all.as_mut_ptr(), all.len() as _, ms) > 0 }
}

/// Receives frames for which `wanted` holds, until there are `count`.
pub fn receive(
    port: &dyn Port,
    cache: &mut Cache,
    count: usize,
    wanted: impl Fn(&Packet) -> bool,
) -> Vec<Packet> {
    let mut found = Vec::new();
    let end = Instant::now() + LONG;
    while found.len() < count {
        assert!(Instant::now() < end, "{} of {count} frames", found.len());
        wait(&[port.descriptor(0).unwrap()], Duration::from_millis(100));
        let mut batch = Batch::new();
        port.receive(0, cache, &mut batch).unwrap();
        found.extend(batch.drain().filter(&wanted));
    }
    found
}

/// A folder of the test's own.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("weir-{}-{}", process::id(), NUMBER.fetch_add(1, Relaxed));
        let path = env::temp_dir().join(name);
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Sends frames of an ethertype of its own until one arrives: the kernel activates a device some time after it
/// has a carrier.
pub fn settle(from: &dyn Port, to: &dyn Port, cache: &mut Cache) {
    const PROBE: [u8; 2] = [0x88, 0xb6];
    let is_probe = |packet: &Packet| packet.data()[12..14] == PROBE;
    let end = Instant::now() + LONG;
    loop {
        assert!(Instant::now() < end, "no frame arrives");
        let mut probe = cache.packet(&[2; 60]).unwrap();
        probe.data_mut()[12..14].copy_from_slice(&PROBE);
        assert_eq!(from.send(0, &[probe]).unwrap(), 1);
        wait(&[to.descriptor(0).unwrap()], Duration::from_millis(50));
        let mut batch = Batch::new();
        to.receive(0, cache, &mut batch).unwrap();
        if batch.iter().any(is_probe) {
            return;
        }
    }
}

/// Passes frames between two ports until `done` has a result. Returns it, the number of packets from the
/// first port, and the number of frames on the wire for which they stand. Fails if such a frame is longer than
/// `longest`.
pub fn bridge<T>(ports: [&dyn Port; 2], done: &Receiver<T>, longest: usize) -> (T, u64, u64) {
    let pool = pool();
    let mut cache = pool.cache();
    let descriptors = ports.map(|port| port.descriptor(0).unwrap());
    let mut waiting: [Vec<Packet>; 2] = Default::default();
    let (mut from_first, mut on_wire) = (0, 0);
    let end = Instant::now() + LONG;
    loop {
        if let Ok(result) = done.try_recv() {
            return (result, from_first, on_wire);
        }
        assert!(Instant::now() < end, "no end after {from_first} frames");
        wait(&descriptors, Duration::from_millis(10));
        for (from, waiting) in waiting.iter_mut().enumerate() {
            let mut batch = Batch::new();
            if waiting.is_empty() {
                ports[from].receive(0, &mut cache, &mut batch).unwrap();
            }
            for packet in batch.drain() {
                let length = packet.segments();
                let length = length.map_or(packet.len(), |segments| 14 + segments.longest());
                assert!(length <= longest, "{length} bytes");
                if from == 0 {
                    from_first += 1;
                    on_wire += packet.wire_packets();
                }
                waiting.push(packet);
            }
            let sent = ports[1 - from].send(0, waiting).unwrap();
            waiting.drain(..sent);
        }
    }
}

/// Sends `size` bytes over TCP to a listener in another namespace and checks them there. The receiver
/// gets the result of both ends.
pub fn tcp(client: &Host, server: &Host, address: &'static str, size: usize) -> Receiver<()> {
    let byte = |n: usize| (n % 251) as u8;
    let (ready, listening) = channel();
    let read = server.start(move || {
        let listener = TcpListener::bind(address).unwrap();
        ready.send(()).unwrap();
        let (mut stream, _) = listener.accept().unwrap();
        let mut found = Vec::new();
        stream.read_to_end(&mut found).unwrap();
        assert_eq!(found.len(), size);
        assert!(found.iter().enumerate().all(|(n, found)| *found == byte(n)));
        stream.write_all(&found[..size / 2]).unwrap();
    });
    listening.recv_timeout(LONG).unwrap();
    client.start(move || {
        let mut stream = TcpStream::connect(address).unwrap();
        let sent: Vec<u8> = (0..size).map(byte).collect();
        stream.write_all(&sent).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut found = Vec::new();
        stream.read_to_end(&mut found).unwrap();
        assert!(found == sent[..size / 2]);
        read.recv_timeout(LONG).unwrap();
    })
}
