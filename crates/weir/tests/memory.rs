// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A stack's memory is bounded by the capacity of the sockets' receive queues, regardless of how
//! many requests its clients send without reading.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::{env, fs, process};

const WEIR: &str = env!("CARGO_BIN_EXE_weir");
/// The memory that a socket may take, KiB: a full queue of answers (1 MiB), and several times that
/// for pages that its thread's allocator keeps.
const SOCKET: u64 = 4_500;
/// The number of sockets filled at once.
const SOCKETS: u64 = 32;

/// Fills sockets that it never reads, reports that, and waits. Each sends one datagram of requests
/// for the link `d0`, which has the maximum number of names, so that an answer is a hundred times
/// as long as its request.
const CLIENT: &str = r#"
import socket, struct, subprocess, sys
count = int(sys.argv[1])
batch = ["link add d0 type dummy"]
batch += ["link property add dev d0 altname %0127d" % n for n in range(480)]
subprocess.run(["ip", "-b", "-"], input="\n".join(batch), text=True, check=True)
index = int(open("/sys/class/net/d0/ifindex").read())
one = struct.pack("=IHHII BxHiII", 32, 18, 1, 1, 0, 0, 0, index, 0, 0)
request = one * 120
sockets = []
for _ in range(count):
    s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    s.send(request)
    sockets.append(s)
print("filled", flush=True)
sys.stdin.readline()
# They are served when they read again: an answer comes, and later on the end of what fits.
for s in sockets:
    assert struct.unpack_from("=IH", s.recv(1 << 18))[1] == 16
print("read", flush=True)
"#;

/// Returns the resident memory of a process, KiB.
fn resident(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// A stack that is up, and its directory.
struct Stack(Child, PathBuf);

impl Stack {
    fn up(name: &str) -> Self {
        let folder = env::temp_dir().join(format!("weir-{name}-{}", process::id()));
        fs::create_dir_all(&folder).unwrap();
        let mut stack = Command::new(WEIR)
            .args(["up", "--socket"])
            .arg(folder.join("control"))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        common::wait_until_up(&mut stack);
        Self(stack, folder)
    }

    /// Returns the resident memory of the stack, KiB.
    fn resident(&self) -> u64 {
        resident(self.0.id())
    }

    /// Starts a program of Python inside.
    fn python(&self, program: &str, args: &[&str]) -> Child {
        Command::new(WEIR)
            .args(["exec", "--socket"])
            .arg(self.1.join("control"))
            .args(["--", "python3", "-c", program])
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
        let _ = fs::remove_dir_all(&self.1);
    }
}

#[test]
fn clients_that_do_not_read() {
    let stack = Stack::up("memory");
    let before = stack.resident();
    let mut client = stack.python(CLIENT, &[&SOCKETS.to_string()]);
    let mut words = BufReader::new(client.stdout.take().unwrap()).lines();
    assert_eq!(words.next().unwrap().unwrap(), "filled");
    let grown = stack.resident().saturating_sub(before);
    drop(client.stdin.take());
    assert_eq!(words.next().unwrap().unwrap(), "read");
    assert!(client.wait().unwrap().success());
    // Without a bound the answers alone would take 32 * 120 * 64 KB.
    assert!(grown <= SOCKETS * SOCKET, "{grown} KiB");
    assert!(grown > SOCKETS * 500, "{grown} KiB: nothing waits");
}

/// A request that is longer than those before it is read whole, regardless of when it arrives.
const LONGER: &str = r#"
import socket, struct
s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
def request(seq, flags):
    return struct.pack("=IHHII BxHiII", 32, 19, 1 | flags, seq, 0, 0, 0, 1, 0, 0)
for turn in range(1, 200):
    for count in (1, 640, 2, 2000):
        s.send(request(0, 0) * count + request(turn, 4))
        length, kind, _, seq, _, error = struct.unpack_from("=IHHIIi", s.recv(1 << 16))
        assert (kind, seq, error) == (2, turn, 0), (turn, count, kind, seq, error)
"#;

#[test]
fn a_long_request_after_short_ones() {
    let run = Command::new(WEIR)
        .args(["run", "--quiet", "--", "python3", "-c", LONGER])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{said}");
}

/// Opens and closes sockets: of datagrams, that connect, and that are accepted. The first round fills what is kept.
const SOCKETS_THAT_GO: &str = r#"
import socket, subprocess, sys
subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
listener = socket.create_server(("127.0.0.1", 7))
def round():
    for _ in range(2000):
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM).close()
        client = socket.create_connection(("127.0.0.1", 7))
        server, _ = listener.accept()
        # A reset leaves nothing, not even TIME_WAIT.
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        client.close()
        try:
            server.recv(1)
        except ConnectionResetError:
            pass
        server.close()
round()
print("first", flush=True)
sys.stdin.readline()
round()
print("second", flush=True)
sys.stdin.readline()
"#;

#[test]
fn sockets_that_are_closed_leave_no_memory() {
    let stack = Stack::up("closed");
    let mut client = stack.python(SOCKETS_THAT_GO, &[]);
    let mut words = BufReader::new(client.stdout.take().unwrap()).lines();
    let mut go = client.stdin.take().unwrap();
    let mut sizes = Vec::new();
    for word in ["first", "second"] {
        assert_eq!(words.next().unwrap().unwrap(), word);
        sizes.push(stack.resident());
        go.write_all(b"\n").unwrap();
    }
    assert!(client.wait().unwrap().success());
    let grown = sizes[1].saturating_sub(sizes[0]);
    // A socket that stays takes 2 KiB or more: 6,000 of them 12,000 KiB.
    assert!(grown < 4_000, "{grown} KiB");
}
